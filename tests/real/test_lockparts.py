"""A project's part of a lockfile: what moves it, what is kept of it, and what is not understood."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.harness.workspaces import project, workspace
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


def parts(space: Workspace, whole: str, path: str = NAME) -> dict[str, str]:
    """The digests of all projects' parts, from a run of its own."""
    found = LockParts(space)
    return {name: found.digest(path, whole, name) for name in space.projects}


def bump(space: Workspace, pinned: str) -> None:
    path = Path(space.root, NAME)
    path.write_text(path.read_text().replace(pinned, "other"))


def test_a_bump_moves_whom_it_reaches(space: Workspace) -> None:
    before = parts(space, "one")
    assert len({*before.values()}) == 3
    bump(space, "k92I/b08q4wvFscXCLvqfsHCrjrF7yiXsQuIVvVE7N82W3")
    after = parts(space, "two")
    assert [name for name in before if before[name] != after[name]] == ["a", "b"]


def test_it_is_read_once(space: Workspace) -> None:
    before = parts(space, "one")
    os.unlink(f"{space.root}/{NAME}")
    assert parts(space, "one") == before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"of": 1}', None])
def test_what_is_kept_and_damaged_is_made_anew(space: Workspace, damage: str | None) -> None:
    before = parts(space, "one")
    kept = Path(space.root, PLACE, NAME)
    text = kept.read_text()
    kept.write_text(text.replace(before["a"], "f" * 32) if damage is None else damage)
    assert parts(space, "one") == before


def test_not_for_a_workspace_of_another_shape(space: Workspace) -> None:
    before = parts(space, "one")
    other = workspace(
        project("a", {}, at="packages/a"),
        project("b", {}, at="packages/b"),
        root=space.root,
    )
    bump(space, "k92I/b08q4wvFscXCLvqfsHCrjrF7yiXsQuIVvVE7N82W3")
    assert parts(other, "one")["b"] != before["b"]


def test_what_is_not_understood_counts_whole(space: Workspace) -> None:
    Path(space.root, NAME).write_text("{")
    assert parts(space, "one") == {"a": "one", "b": "one", "c": "one"}
    assert parts(space, "two", "bun.lockb") == {"a": "two", "b": "two", "c": "two"}


def test_a_lockfile_that_leaves_the_ranges_to_the_manifests(space: Workspace) -> None:
    shutil.copy(LOCKS / "yarn-1-yarn.lock", f"{space.root}/yarn.lock")
    for name, needs in (("a", {"once": "1.4.0"}), ("b", {"inflight": "1.0.6"}), ("c", {})):
        os.makedirs(f"{space.root}/packages/{name}")
        Path(space.root, f"packages/{name}/package.json").write_text(
            json.dumps({"dependencies": needs})
        )
    before = parts(space, "one", "yarn.lock")
    Path(space.root, "packages/c/package.json").write_text(
        '{"dependencies": {"left-pad": "1.3.0"}}'
    )
    after = parts(space, "one", "yarn.lock")
    assert [name for name in before if before[name] != after[name]] == ["c"]


def test_a_place_that_cannot_be_written_is_no_fault(space: Workspace) -> None:
    Path(space.root, ".vx").write_text("a file")
    assert parts(space, "one") == parts(space, "one")
