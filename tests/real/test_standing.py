"""A proof that a command has nothing to do holds while nothing moved, and not a moment longer."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness.waiting import wait_for
from vxwatch.cache.content import older
from vxwatch.cache.proof import MOST, Evidence, prove
from vxwatch.cache.standing import BLOCK, PLACE, Command, look

WORDS = ("run", "build")
FILES = ("p/src/a.txt", "p/src", "p", "", "p/missing.env")
ENVIRON = {"HOME": "/h", "MODE": "fast", "OTHER": "1"}


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A workspace with a proof of `vx run build`, called in its project."""
    (tmp_path / "p/src").mkdir(parents=True)
    (tmp_path / "p/src/a.txt").write_text("one")
    (tmp_path / PLACE).mkdir(parents=True)
    assert proven(str(tmp_path))
    return str(tmp_path)


def proven(root: str, since: int | None = None, words: tuple[str, ...] = WORDS) -> bool:
    """Whether the command could be proven; by default nothing moved for long."""
    long_ago = time.time_ns() + 10**10 if since is None else since
    command = Command(words, f"{root}/p", ENVIRON)
    return prove(command, root, Evidence(["MODE", "UNSET"], FILES, long_ago), "2 fresh")


def stands(
    root: str,
    words: tuple[str, ...] = WORDS,
    at: str = "p",
    environ: dict[str, str] = {},  # noqa: B006 - only read
) -> bool:
    """Whether the proof holds for this call."""
    return said(Command(words, f"{root}/{at}", ENVIRON | environ)) is not None


def said(command: Command) -> str | None:
    """What the check answers, which is nothing but what was proven."""
    proven = command.standing()
    assert proven is None or (proven.text, proven.again) in (("2 fresh", ""), ("", "again"))
    return None if proven is None else proven.text or proven.again


def test_it_holds_while_nothing_moves(root: str) -> None:
    assert stands(root)
    assert stands(root, environ={"OTHER": "2"})


def test_it_holds_without_variables_that_count(root: str) -> None:
    command = Command(WORDS, root, ENVIRON)
    assert prove(command, root, Evidence([], FILES, time.time_ns() + 10**10), "2 fresh")
    assert said(command) == "2 fresh"


@pytest.mark.parametrize(
    "environ", [{"MODE": "slow"}, {"UNSET": ""}, {"HOME": "/x"}, {"VX_X": "1"}, {"GIT_DIR": "x"}]
)
def test_not_with_another_environment(root: str, environ: dict[str, str]) -> None:
    assert not stands(root, environ=environ)


@pytest.mark.parametrize(("name", "value"), [("__version__", "99.0"), ("SCHEMA", 99)])
def test_not_for_another_vx(
    root: str, monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(f"vxwatch.cache.standing.{name}", value)
    assert not stands(root)


def test_not_for_another_command(root: str) -> None:
    assert not stands(root, ("run", "test"))
    assert not stands(root, ("run", "build", "--all"))
    assert not stands(root, at="p/src")


def test_not_after_an_edit(root: str) -> None:
    Path(root, "p/src/a.txt").write_text("two")
    assert not stands(root)


def test_not_after_an_edit_that_keeps_size_and_time(root: str) -> None:
    path = Path(root, "p/src/a.txt")
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not stands(root)


def test_not_after_a_file_came_or_went(root: str) -> None:
    Path(root, "p/src/new").touch()
    assert not stands(root)


def test_not_when_what_was_missing_is_there(root: str) -> None:
    Path(root, "p/missing.env").touch()
    assert not stands(root)


def test_not_after_a_mode_moved(root: str) -> None:
    Path(root, "p/src/a.txt").chmod(0o755)
    assert not stands(root)


def test_what_moved_just_now_is_no_proof(root: str) -> None:
    since = time.time_ns()
    assert not proven(root, since - 10**9)
    Path(root, "p/src/a.txt").write_text("two")
    assert not proven(root, since)


@pytest.mark.parametrize("length", [0, 3, 11, 20, 60])
def test_a_cut_record_proves_nothing(root: str, length: int) -> None:
    (record,) = Path(root, PLACE).iterdir()
    record.write_bytes(record.read_bytes()[:length])
    assert not stands(root)


def test_each_of_many_files_counts_and_a_record_cut_between_blocks_proves_nothing(
    root: str,
) -> None:
    names = [f"p/src/{number}" for number in range(3 * BLOCK)]
    for name in names:
        with open(f"{root}/{name}", "w"):
            pass
    command = Command(WORDS, root, ENVIRON)
    later = time.time_ns() + 10**10
    assert prove(command, root, Evidence([], names, later), "2 fresh")
    place = f"{root}/{PLACE}/{command.name}"
    with open(place, "rb") as file:
        whole = file.read()
    parts = whole.split(b"\0")
    for blocks in range(3):
        with open(place, "wb") as file:
            file.write(b"\0".join(parts[: 6 + blocks * (1 + BLOCK)]))
        assert said(command) is None
    with open(place, "wb") as file:
        file.write(whole)
    for name in (names[0], names[BLOCK], names[-1]):
        assert said(command) == "2 fresh"
        os.chmod(f"{root}/{name}", 0o600)
        assert said(command) is None
        os.chmod(f"{root}/{name}", 0o644)
        assert prove(command, root, Evidence([], names, later), "2 fresh")


def test_where_only_outputs_moved_it_says_so_and_where_anything_else_did_nothing(root: str) -> None:
    command = Command(WORDS, root, ENVIRON)
    later = Evidence([], FILES, time.time_ns() + 10**10, ["p", "p/src"])
    assert prove(command, root, later, "2 fresh", "again")
    assert said(command) == "2 fresh"
    Path(root, "p/new").touch()
    assert said(command) == "again"
    Path(root, "p/src/a.txt").write_text("two")
    assert said(command) is None


def test_outputs_that_moved_just_now_prove_the_rest(root: str) -> None:
    command = Command(WORDS, root, ENVIRON)
    wait_for(lambda: older(look(f"{root}/p/src/a.txt") or (0,) * 5, time.time_ns()), "a tick")
    Path(root, "p/src/new").touch()
    evidence = Evidence([], ["p/src/a.txt", "p/src"], time.time_ns(), ["p/src"])
    assert not prove(command, root, evidence, "2 fresh")
    assert prove(command, root, evidence, "2 fresh", "again")
    assert said(command) == "again"


def test_what_was_done_is_not_to_be_said_again(root: str) -> None:
    command = Command(WORDS, root, ENVIRON)
    later = Evidence([], FILES, time.time_ns() + 10**10, ["p"])
    assert not prove(command, root, later, "")
    assert prove(command, root, later, "", "again")
    assert said(command) == "again"


def test_the_oldest_proofs_go_first(root: str) -> None:
    for number in range(MOST + 5):
        assert proven(root, words=("run", str(number)))
    assert len(os.listdir(f"{root}/{PLACE}")) == MOST
    assert stands(root, ("run", str(MOST + 4)))
    assert not stands(root)


def test_the_check_loads_next_to_nothing() -> None:
    code = (
        "import sys; before = set(sys.modules); import vxwatch.cache.standing; "
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={}
    )
    assert set(done.stdout.split()) <= {"vxwatch", "xxhash"}
