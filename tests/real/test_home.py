"""What vx keeps in a workspace is made in it, and never makes a workspace."""

from pathlib import Path

import pytest

from vxwatch.workspace.home import make, replace


def test_places_are_made_and_git_sees_none(tmp_path: Path) -> None:
    root = tmp_path / "w"
    root.mkdir()
    make(f"{root}/.vx/cache/deep")
    replace(f"{root}/.vx/other/file", b"text")
    replace(f"{root}/.vx/file", b"text")
    assert (root / ".vx/.gitignore").read_bytes() == b"*\n"
    assert (root / ".vx/cache/deep").is_dir()
    assert (root / ".vx/other/file").read_bytes() == b"text"
    make(f"{tmp_path}/shared/cache")
    assert (tmp_path / "shared/cache/.gitignore").exists()


def test_a_workspace_that_is_gone_stays_gone(tmp_path: Path) -> None:
    for place in (".vx", ".vx/cache"):
        with pytest.raises(FileNotFoundError):
            make(f"{tmp_path}/gone/{place}")
        with pytest.raises(FileNotFoundError):
            replace(f"{tmp_path}/gone/{place}/file", b"")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / ".vx").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        make(f"{tmp_path}/.vx/cache")
