"""What is found in a write grant that is to stay as it is, and which repositories are believed."""

import os
import subprocess
from pathlib import Path

import pytest

from vxwatch.sandbox.protected import Protection, Territory, protect, repositories


def land(root: Path, *writes: str, git: str = "", git_config: bool = False) -> Protection:
    """The protection of a workspace with one member, `app`, and these write grants in it."""
    return protect(
        Territory(
            writes=frozenset(f"{root}/{name}".rstrip("/") for name in writes),
            root=str(root),
            projects=frozenset({str(root), f"{root}/app"}),
            home="/vx-no-home",
            configs=[f"{root}/app/vx.toml"],
            repositories=frozenset({f"{root}/{git}"} if git else ()),
            git_config=git_config,
        )
    )


def names(root: Path, paths: list[str]) -> set[str]:
    return {os.path.relpath(path, root) for path in paths}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "w"
    (made / "app/.vscode").mkdir(parents=True)
    (made / "app/vx.toml").touch()
    return made


def test_what_is_there_is_fixed_and_what_could_come_is_watched(root: Path) -> None:
    found = land(root, "app")
    assert names(root, found.fixed) >= {"app/vx.toml", "app/.vscode"}
    assert names(root, found.watched) >= {"app/.envrc", "app/package.json", "app/.git"}
    assert found.made == []


def test_in_a_directory_that_is_no_project_nothing_that_could_come_counts(root: Path) -> None:
    (root / "app/dist").mkdir()
    (root / "app/dist/.envrc").touch()
    found = land(root, "app/dist")
    assert names(root, found.fixed) == {"app/dist/.envrc"}
    assert found.watched == []


def test_a_name_that_is_granted_is_the_tasks(root: Path) -> None:
    found = land(root, "app", "app/vx.toml", "app/.vscode", "app/.envrc", "app/.git")
    assert names(root, found.fixed) == set()
    assert not {"app/.envrc", "app/.git"} & names(root, found.watched)


def test_the_directory_of_vx_is_made_before_a_task_could(root: Path) -> None:
    assert names(root, land(root, "").made) == {".vx"}
    assert ".vx" in names(root, land(root, "").fixed)
    (root / ".vx").mkdir()
    assert land(root, "").made == []


def test_submodules_keep_their_way_to_the_repository(root: Path) -> None:
    (root / "app/lib").mkdir()
    (root / "app/lib/.git").write_text("gitdir: ../../.git/modules/lib\n")
    (root / "app/.gitmodules").write_text('[submodule "l"]\n\tpath = lib\n\tpath = ../../out\n')
    assert "app/lib/.git" in names(root, land(root, "app").fixed)
    assert not any("out" in name for name in names(root, land(root, "app").fixed))


def test_a_named_repository_keeps_what_makes_git_run_something(root: Path) -> None:
    subprocess.run(["git", "init", "-q", "--template=", str(root)], check=True)
    found = land(root, "", ".git", git=".git")
    assert names(root, found.fixed) >= {".git/config", ".git/hooks", ".git/info"}
    assert names(root, found.made) >= {".git/hooks", ".git/info", ".git/modules"}
    assert names(root, found.watched) >= {".git/commondir", ".git/config.worktree"}
    opened = land(root, "", ".git", git=".git", git_config=True)
    assert ".git/hooks" not in names(root, opened.fixed)


class TestRepositories:
    def test_of_a_worktree(self, root: Path) -> None:
        main = root / "main"
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", "-C", str(main)]
        subprocess.run(["git", "init", "-q", str(main)], check=True)
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
        subprocess.run([*git, "worktree", "add", "-q", str(root / "tree")], check=True)
        file = f"{root}/tree/.git"
        assert [*repositories(file)] == [f"{main}/.git/worktrees/tree", f"{main}/.git"]

    def test_of_a_submodule(self, root: Path) -> None:
        (root / ".git/modules/lib").mkdir(parents=True)
        (root / "app/.git").write_text("gitdir: ../.git/modules/lib\n")
        assert [*repositories(f"{root}/app/.git")] == [f"{root}/.git/modules/lib"]

    @pytest.mark.parametrize(
        "text", ["gitdir: ../secret\n", "gitdir: /\n", "gitdir: \n", "", "x", "gitdir: ../none\n"]
    )
    def test_a_file_that_leads_elsewhere_is_not_believed(self, root: Path, text: str) -> None:
        (root / "secret").mkdir()
        (root / "app/.git").write_text(text)
        assert [*repositories(f"{root}/app/.git")] == []
