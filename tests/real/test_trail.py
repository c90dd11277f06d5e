"""What paths go through."""

import os
from pathlib import Path

import pytest

from vxwatch.workspace.trail import led_through


@pytest.fixture
def root(tmp_path: Path) -> str:
    root = tmp_path.resolve() / "w"
    (root / "p").mkdir(parents=True)
    (root / "p/plain").write_text("")
    return str(root)


def test_a_path_without_a_link_on_its_way_goes_through_nothing(root: str) -> None:
    assert led_through(root, ["p/plain", "p/missing", "no/directory", ""]) == set()


def test_each_link_and_the_end_are_told_inside_and_outside_of_the_root(root: str) -> None:
    outside = os.path.join(os.path.dirname(root), "outside")
    os.symlink("p", f"{root}/q")
    os.symlink("one", f"{root}/p/link")
    os.symlink(outside, f"{root}/p/one")
    assert led_through(root, ["q/plain"]) == {"q", "p/plain"}
    assert led_through(root, ["q/link"]) == {"q", "p/link", "p/one", outside}


def test_links_to_nothing_and_in_circles_have_an_end_of_looking(root: str) -> None:
    os.symlink("deep/missing", f"{root}/dangling")
    os.symlink("circle", f"{root}/circle")
    assert led_through(root, ["dangling"]) == {"dangling", "deep/missing"}
    assert led_through(root, ["circle"]) == {"circle"}


def test_a_link_to_the_root_ends_there(root: str) -> None:
    os.symlink("..", f"{root}/p/up")
    assert led_through(root, ["p/up"]) == {"p/up", ""}
