"""What counts is what lies on disk, whatever state a repository is in; and that without one, too."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness import running
from tests.harness.workspace import Workspace

BUILD = """[tasks.build]
command = "mkdir -p dist; find src libs -type f 2>/dev/null | LC_ALL=C sort | xargs cat > dist/all"
cache = { inputs = ["src/**", "libs/**"], outputs = ["dist/**"] }
"""


class Site:
    """A workspace somewhere, and what `vx run build` says there."""

    def __init__(self, ws: Workspace, path: str | None = None) -> None:
        self._ws = ws
        self.path = path or ws.path

    def git(self, *words: str, check: bool = True) -> None:
        own = [
            *("-c", "user.name=a", "-c", "user.email=a@example.invalid"),
            *("-c", "protocol.file.allow=always", "-c", "core.hooksPath=/dev/null"),
        ]
        subprocess.run(["git", *own, *words], cwd=self.path, check=check, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = Path(self.path, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self) -> str:
        argv = [running.VX, "run", "build"]
        done = running.finish(argv, self.path, self._ws.environment, 30)
        assert done.code == 0, done.text
        assert "warning" not in done.text
        return done.out.splitlines()[-1].partition(" in ")[0]

    def follows(self, name: str = "src/a") -> None:
        """Every edit of the file counts, and an edit that is undone has been seen before."""
        assert self.run() in ("1 ran", "1 fresh")
        assert self.run() == "1 fresh"
        before = Path(self.path, name).read_bytes()
        self.write(name, "something else\n")
        assert self.run() == "1 ran"
        assert "something else" in Path(self.path, "dist/all").read_text()
        Path(self.path, name).write_bytes(before)
        assert self.run() == "1 restored"
        assert "something else" not in Path(self.path, "dist/all").read_text()
        shutil.rmtree(f"{self.path}/dist")
        assert self.run() == "1 restored"


@pytest.fixture
def site(ws: Workspace) -> Site:
    """A repository in which all is committed."""
    site = Site(ws)
    site.write("vx.toml", BUILD)
    site.write("src/a", "one\n")
    site.write("src/b", "two\n")
    site.write(".gitignore", "dist\n")
    site.git("add", ".")
    site.git("commit", "-qm", "first")
    return site


def no_commits(site: Site) -> None:
    shutil.rmtree(f"{site.path}/.git")
    site.git("init", "-q", "--template=")
    site.git("add", "src/b")


def no_git(site: Site) -> None:
    shutil.rmtree(f"{site.path}/.git")


def in_a_rebase(site: Site) -> None:
    """Stopped at a conflict: the index has the file three times, and none that is whole."""
    site.git("checkout", "-qb", "side")
    site.write("src/a", "side\n")
    site.git("commit", "-qam", "side")
    site.git("checkout", "-q", "main")
    site.write("src/a", "main\n")
    site.git("commit", "-qam", "main")
    site.git("rebase", "side", check=False)
    assert os.path.isdir(f"{site.path}/.git/rebase-merge")
    assert "<<<<<<<" in Path(site.path, "src/a").read_text()


def sparse(site: Site) -> None:
    site.git("sparse-checkout", "set", "--no-cone", "/src/a", "/vx.toml", "/.gitignore")
    assert not os.path.exists(f"{site.path}/src/b")


def assumed(site: Site) -> None:
    site.git("update-index", "--assume-unchanged", "src/a")


def skipped(site: Site) -> None:
    site.git("update-index", "--skip-worktree", "src/a")


def intended(site: Site) -> None:
    site.git("rm", "-q", "--cached", "src/a")
    site.git("add", "-N", "src/a")


def locked(site: Site) -> None:
    """Another git is at work, or was killed."""
    Path(site.path, ".git/index.lock").touch()


def cleaned(site: Site) -> None:
    """Git looks at files through a filter, as LFS has one."""
    site.write(".gitattributes", "src/a filter=same\n")
    site.git("config", "filter.same.clean", "echo constant")
    site.git("add", ".")


def split(site: Site) -> None:
    site.git("update-index", "--split-index")
    site.git("update-index", "--untracked-cache")


STATES: dict[str, Callable[[Site], None]] = {
    state.__name__.replace("_", " "): state
    for state in (
        *(no_commits, no_git, in_a_rebase, sparse, assumed, skipped, intended, locked, cleaned),
        split,
    )
}


@pytest.mark.parametrize("state", STATES)
def test_an_edit_counts_whatever_state_the_repository_is_in(site: Site, state: str) -> None:
    STATES[state](site)
    site.follows()


def test_states_of_git_that_change_no_file_change_no_key(site: Site) -> None:
    site.run()
    for words in (
        ("rm", "-q", "--cached", "src/a"),
        ("add", "."),
        ("checkout", "-qb", "other"),
        ("commit", "-qm", "empty", "--allow-empty"),
        ("gc", "-q"),
        ("checkout", "-q", "--detach"),
    ):
        site.git(*words)
        assert site.run() == "1 fresh", words


def test_a_worktree_is_a_workspace(ws: Workspace, site: Site, tmp_path: Path) -> None:
    site.run()
    site.git("worktree", "add", "-q", str(tmp_path / "tree"))
    Site(ws, str(tmp_path / "tree")).follows()
    assert site.run() == "1 fresh"


def test_what_a_submodule_holds_counts(site: Site, tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    other = Site(site._ws, str(lib))
    other.git("init", "-q", "--template=")
    other.write("x", "of lib\n")
    other.write("ignored", "never\n")
    other.write(".gitignore", "ignored\n")
    other.git("add", ".")
    other.git("commit", "-qm", "lib")
    site.git("submodule", "add", "-q", str(lib), "libs/one")
    site.follows("libs/one/x")
    site.write("libs/one/ignored", "other\n")
    assert site.run() == "1 fresh"
    site.git("submodule", "--quiet", "deinit", "--all", "--force")
    assert site.run() == "1 ran"
    assert "of lib" not in Path(site.path, "dist/all").read_text()
    site.git("submodule", "--quiet", "update", "--init")
    assert site.run() == "1 restored"


def test_line_ends_count_that_git_takes_for_the_same(site: Site) -> None:
    site.git("config", "core.autocrlf", "true")
    assert site.run() == "1 ran"
    os.unlink(f"{site.path}/src/a")
    site.git("checkout", "src/a")
    assert Path(site.path, "src/a").read_bytes() == b"one\r\n"
    assert site.run() == "1 ran"
    assert b"one\r\n" in Path(site.path, "dist/all").read_bytes()
    Path(site.path, "src/a").write_bytes(b"one\n")
    assert site.run() == "1 restored"


def test_a_name_that_differs_in_case_alone_is_another_name(site: Site) -> None:
    site.run()
    site.git("mv", "src/a", "src/A")
    assert site.run() == "1 ran"
    site.git("commit", "-qam", "renamed")
    assert site.run() == "1 fresh"
    site.git("config", "core.ignorecase", "true")
    os.rename(f"{site.path}/src/A", f"{site.path}/src/a")
    assert site.run() == "1 fresh"  # what it made of both was the same
    site.write("src/a", "edited\n")
    assert site.run() == "1 ran"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_ten_thousand_files_that_git_does_not_know(site: Site) -> None:
    for number in range(10_000):
        path = Path(site.path, "src", f"d{number % 100}", f"f{number}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{number}\n")
    site.follows("src/d7/f4207")
    site.write("src/d7/new", "new")
    assert site.run() == "1 ran"
    os.unlink(f"{site.path}/src/d7/new")
    assert site.run() == "1 restored"


def test_a_repository_that_is_gone_is_none(site: Site) -> None:
    """As in a container into which a worktree was mounted without its repository."""
    shutil.rmtree(f"{site.path}/.git")
    site.write(".git", "gitdir: /nowhere/at/all\n")
    done = running.finish([running.VX, "run", "build"], site.path, site._ws.environment, 30)
    assert "Traceback" not in done.text
    assert done.code == 0 or (done.code == 2 and "git" in done.err), done.text
