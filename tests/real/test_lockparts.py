"""A project's part of a lockfile: what moves it, what is kept of it, and what is not understood."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from tests.harness.workspaces import project, workspace
from vxwatch.cache.content import look
from vxwatch.cache.lockparts import PLACE, LockParts
from vxwatch.model import Workspace

LOCKS = Path(__file__).parent.parent / "lockfiles"
NAME = "package-lock.json"


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """Three projects, of which a depends on b, and a lockfile of npm."""
    shutil.copy(LOCKS / f"npm-{NAME}", tmp_path / NAME)
    return workspace(
        project("a", {}, needs=("b",), at="packages/a"),
        project("b", {}, at="packages/b"),
        project("c", {}, at="packages/c"),
        root=str(tmp_path),
    )


def whole(space: Workspace, path: str = NAME) -> str:
    seen = look(f"{space.root}/{path}", None, time.time_ns)
    assert seen is not None
    return seen.digest


def parts(space: Workspace, path: str = NAME, of: str | None = None) -> dict[str, str]:
    """The digests of all projects' parts, from a run of its own; `of` is the whole lockfile's."""
    found = LockParts(space)
    digest = of or whole(space, path)
    return {name: found.digest(path, digest, name) for name in space.projects}


def bump(space: Workspace, pinned: str) -> None:
    path = Path(space.root, NAME)
    path.write_text(path.read_text().replace(pinned, "other"))


def test_a_bump_moves_whom_it_reaches(space: Workspace) -> None:
    before = parts(space)
    assert len({*before.values()}) == 3
    bump(space, "k92I/b08q4wvFscXCLvqfsHCrjrF7yiXsQuIVvVE7N82W3")
    after = parts(space)
    assert [name for name in before if before[name] != after[name]] == ["a", "b"]


def test_it_is_read_once(space: Workspace) -> None:
    digest, before = whole(space), parts(space)
    os.unlink(f"{space.root}/{NAME}")
    assert parts(space, of=digest) == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"of": 1}', None])
def test_what_is_kept_and_damaged_is_made_anew(space: Workspace, damage: str | None) -> None:
    before = parts(space)
    kept = Path(space.root, PLACE, NAME)
    text = kept.read_text()
    kept.write_text(text.replace(before["a"], "f" * 32) if damage is None else damage)
    assert parts(space) == before


def test_not_for_a_workspace_of_another_shape(space: Workspace) -> None:
    before = parts(space)
    other = workspace(
        project("a", {}, needs=("b",), at="packages/a"),
        project("b", {}, at="packages/b"),
        project("c", {}, at="packages/elsewhere"),
        root=space.root,
    )
    after = parts(other)
    assert [name for name in before if before[name] != after[name]] == ["c"]


def test_what_is_not_understood_counts_whole(space: Workspace) -> None:
    Path(space.root, NAME).write_text("{")
    Path(space.root, "bun.lockb").write_text("{}")
    for name in (NAME, "bun.lockb"):
        assert parts(space, name) == dict.fromkeys("abc", whole(space, name))


def test_nothing_is_kept_for_a_content_that_was_not_read(space: Workspace) -> None:
    path = Path(space.root, NAME)
    text, digest = path.read_text(), whole(space)
    bump(space, "k92I/b08q4wvFscXCLvqfsHCrjrF7yiXsQuIVvVE7N82W3")
    assert parts(space, of=digest) == dict.fromkeys("abc", digest)
    after = parts(space)
    path.write_text(text)
    assert whole(space) == digest
    before = parts(space)
    assert [name for name in before if before[name] != after[name]] == ["a", "b"]


def test_a_link_counts_as_what_it_says(space: Workspace) -> None:
    os.rename(f"{space.root}/{NAME}", f"{space.root}/lock")
    os.symlink("lock", f"{space.root}/{NAME}")
    assert parts(space) == dict.fromkeys("abc", whole(space))


def test_one_that_is_executable_or_has_other_line_ends_is_understood(space: Workspace) -> None:
    path = Path(space.root, NAME)
    before = parts(space)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    path.chmod(0o755)
    assert parts(space) == before


def test_a_lockfile_that_leaves_the_ranges_to_the_manifests(space: Workspace) -> None:
    shutil.copy(LOCKS / "yarn-1-yarn.lock", f"{space.root}/yarn.lock")
    for name, needs in (("a", {"once": "1.4.0"}), ("b", {"inflight": "1.0.6"}), ("c", {})):
        os.makedirs(f"{space.root}/packages/{name}")
        Path(space.root, f"packages/{name}/package.json").write_text(
            json.dumps({"dependencies": needs})
        )
    before = parts(space, "yarn.lock")
    Path(space.root, "packages/c/package.json").write_text(
        '{"dependencies": {"left-pad": "1.3.0"}}'
    )
    after = parts(space, "yarn.lock")
    assert [name for name in before if before[name] != after[name]] == ["c"]


def test_a_place_that_cannot_be_written_is_no_fault(space: Workspace) -> None:
    Path(space.root, ".vx").write_text("a file")
    assert parts(space) == parts(space)
