"""Whatever changes the list of a workspace's files moves a directory or one of these sources."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vxwatch.cache.stamps import Stamp
from vxwatch.cache.standing import look
from vxwatch.workspace.git import Git
from vxwatch.workspace.sources import sources


def git(root: Path, *arguments: str) -> None:
    author = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    subprocess.run(("git", *author, *arguments), cwd=root, check=True, capture_output=True)


def directories(root: Path) -> Iterator[str]:
    """Every directory of the workspace that is not git's, relative to its root."""
    for place, names, _ in os.walk(root):
        names[:] = [name for name in names if name not in (".git", "ignored")]
        yield os.path.relpath(place, root) if place != str(root) else ""


def state(root: Path) -> dict[str, Stamp | None]:
    """The stamps of all sources and directories."""
    known = list(directories(root))
    found = sources(Git(str(root)), known)
    assert found is not None
    paths = [*found, *(f"{root}/{place}" for place in known)]
    return {path: look(path) for path in paths}


def shows(root: Path, edit: Callable[[Path], object]) -> bool:
    """Whether an edit moves one of them."""
    before = state(root)
    edit(root)
    return any(look(path) != stamp for path, stamp in before.items())


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace below the top of its repository, with settings of a user of its own."""
    home = tmp_path / "home"
    (home / "shared/git").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "shared"))
    (home / ".gitconfig").write_text(f"[core]\n\texcludesFile = {home}/rules\n")
    (home / "rules").write_text("*.tmp\n")
    root = tmp_path / "top/space"
    for name in ("src/a", "src/b.log", "src/c.tmp", "ignored/d"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (root.parent / ".gitignore").write_text("ignored\n")
    (root / ".gitignore").write_text("nothing\n")
    git(root.parent, "init", "-qb", "main")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root.resolve()


EDITS: dict[str, Callable[[Path], object]] = {
    "rules": lambda root: (root / ".gitignore").write_text("*.log"),
    "rules above": lambda root: (root.parent / ".gitignore").write_text("x\n"),
    "new rules above": lambda root: (root.parent.parent / ".gitignore").write_text("x\n"),
    "rules of the clone": lambda root: (root.parent / ".git/info/exclude").write_text("*.log\n"),
    "rules of the user": lambda _: (Path.home() / "rules").write_text("*.log\n"),
    "other rules of the user": lambda _: (Path.home() / "shared/git/ignore").write_text("b*"),
    "settings of the user": lambda _: (Path.home() / ".gitconfig").write_text(""),
    "settings of the clone": lambda root: git(root, "config", "core.excludesFile", "/x"),
    "index": lambda root: git(root, "add", "-f", "ignored/d"),
    "new file": lambda root: (root / "src/new").touch(),
    "repository inside": lambda root: git(root / "src", "init", "-q"),
    "no repository": lambda root: (root.parent / ".git").rename(root.parent.parent / "gone"),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_shows(root: Path, edit: Callable[[Path], object]) -> None:
    before = state(root)
    edit(root)
    assert any(look(path) != stamp for path, stamp in before.items())


def linked(path: Path) -> Path:
    """Have a link in place of the file lead to it, by way of another one; where it is now."""
    place = Path.home() / "dot files"
    place.mkdir(exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    (place / path.name).write_text(content)
    (Path.home() / "dots").symlink_to("dot files")
    path.symlink_to(os.path.relpath(Path.home(), path.parent) + f"/dots/{path.name}")
    return place / path.name


LINKED: dict[str, Callable[[Path], Path]] = {
    "rules of the user": lambda _: Path.home() / "shared/git/ignore",
    "named rules of the user": lambda _: Path.home() / "rules",
    "settings of the user": lambda _: Path.home() / ".gitconfig",
    "rules of the clone": lambda root: root.parent / ".git/info/exclude",
    "settings of the clone": lambda root: root.parent / ".git/config",
    "rules": lambda root: root / ".gitignore",
    "rules above": lambda root: root.parent / ".gitignore",
}


@pytest.mark.parametrize("file", LINKED.values(), ids=LINKED)
def test_an_edit_behind_a_link_shows(root: Path, file: Callable[[Path], Path]) -> None:
    target = linked(file(root))
    assert shows(root, lambda _: target.write_text(target.read_text() + "# more"))
    assert shows(root, lambda _: target.unlink())
    assert shows(root, lambda _: target.write_text("# again"))


def test_it_shows_where_a_link_on_the_way_leads_elsewhere(root: Path) -> None:
    linked(Path.home() / "shared/git/ignore")
    (Path.home() / "others").mkdir()
    way = Path.home() / "dots"

    def turn(_: Path) -> None:
        way.unlink()
        way.symlink_to("others")

    assert shows(root, turn)


SETTINGS = {
    "include": "[include]\n path = ~/more\n",
    "relative": "[include]\n path = more\n",
    "place": '[includeIf "gitdir:~/Work/"]\n path = ~/more\n',
    "branch": '[includeIf "onbranch:x"]\n path = ~/more\n',
    "remote": '[includeIf "hasconfig:remote.*.url:https://x/**"]\n path = ~/more\n',
}


@pytest.mark.parametrize("content", [None, "", "[user]\n name = t\n"])
@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_an_edit_of_what_is_included_shows(root: Path, setting: str, content: str | None) -> None:
    (Path.home() / ".gitconfig").write_text(setting)
    more = Path.home() / "more"
    if content is not None:
        more.write_text(content)
    assert shows(root, lambda _: more.write_text("[core]\n excludesFile = ~/rules\n"))


def test_a_branch_that_settings_ask_for_shows(root: Path) -> None:
    (Path.home() / ".gitconfig").write_text(SETTINGS["branch"])
    assert shows(root, lambda _: git(root, "symbolic-ref", "HEAD", "refs/heads/x"))


@pytest.mark.parametrize("name", ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"])
def test_settings_that_the_environment_names_show(
    root: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(Path.home() / "named"))
    assert shows(root, lambda _: (Path.home() / "named").write_text("[include]\n path = more"))
    assert shows(root, lambda _: (Path.home() / "more").touch())


def test_relative_rules_lie_at_the_top_of_the_repository(root: Path) -> None:
    git(root, "config", "core.excludesFile", ".rules")
    assert shows(root, lambda _: (root.parent / ".rules").write_text("*.log"))


def test_a_relative_include_lies_beside_the_settings(root: Path) -> None:
    git(root, "config", "include.path", "../team")
    assert shows(root, lambda _: (root.parent / "team").write_text("[user]\n name = t\n"))
    assert shows(root, lambda _: (root.parent / "team").unlink())


def test_rules_that_a_repository_inside_names_show(root: Path) -> None:
    git(root / "src", "init", "-q")
    git(root / "src", "config", "core.excludesFile", "../../own")
    assert shows(root, lambda _: (root.parent / "own").write_text("*.log"))


def test_rules_by_which_the_workspace_is_ignored_show(root: Path) -> None:
    (root.parent / ".git/index").unlink()
    (Path.home() / "rules").write_text("space\n")
    assert not Git(str(root)).present
    assert shows(root, lambda _: (Path.home() / "rules").write_text(""))


UNKNOWN = {
    "of git's build": "[include]\n path = %(prefix)/more\n",
    "a condition to come": '[includeIf "weather:dry"]\n path = ~/more\n',
    "another work tree": "[core]\n worktree = ../other\n",
    "no settings": "[core\n",
}


@pytest.mark.parametrize("setting", UNKNOWN.values(), ids=UNKNOWN)
def test_what_only_git_can_tell_is_not_guessed(root: Path, setting: str) -> None:
    (Path.home() / ".gitconfig").write_text(setting)
    assert sources(Git(str(root)), [""]) is None


def test_a_submodule_has_its_work_tree_where_it_is(root: Path) -> None:
    module = root / "src/module"
    (root.parent / ".git/modules").mkdir()
    git(root, "init", "-q", "--separate-git-dir", "../.git/modules/m", "src/module")
    git(module, "config", "core.worktree", "../../../space/src/module")
    git(module, "config", "core.excludesFile", "../../../own")
    assert shows(root, lambda _: (root.parent / "own").write_text("*.log"))


def test_a_list_of_submodules_at_the_top_shows(root: Path) -> None:
    git(root / "src", "init", "-q")
    assert shows(root, lambda _: (root.parent / ".gitmodules").touch())


def test_links_in_a_circle_end(root: Path) -> None:
    rules = Path.home() / "shared/git/ignore"
    rules.symlink_to(rules)
    assert shows(root, lambda _: rules.unlink())


def test_without_an_edit_nothing_shows(root: Path) -> None:
    before = state(root)
    assert state(root) == before
    assert Git(str(root)).tracked_and_untracked([""]) == [".gitignore", "src/a", "src/b.log"]
    assert {path: look(path) for path in before} == before


def test_a_worktree_has_the_rules_of_its_repository(root: Path) -> None:
    git(root, "worktree", "add", "-q", "../../tree")
    tree = root.parent.parent / "tree/space"
    before = state(tree)
    git(tree, "rm", "-q", "--cached", "src/a")
    assert any(look(path) != stamp for path, stamp in before.items())
    before = state(tree)
    (root.parent / ".git/info/exclude").write_text("*.log\n")
    assert any(look(path) != stamp for path, stamp in before.items())


def test_outside_git_the_rules_alone_count(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    before = state(tmp_path)
    (tmp_path / "src/.gitignore").write_text("x")
    assert any(look(path) != stamp for path, stamp in before.items())
