"""Which mounts follow from what is granted and what lies where."""

import posixpath
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.sandbox.grants import Place
from vxwatch.sandbox.paths import inside
from vxwatch.sandbox.policy import Entry, Ground, Host, Mount, decide

HOST = Host(
    homes=("/home/u",), masks=("/run", "/home/u"), scratch=("/tmp",), blanks=("/etc/shadow",)
)


APP = "/home/u/w/app"


def kinds(mounts: Iterable[Mount]) -> dict[str, str]:
    return {m.path: m.kind for m in mounts if inside(m.path, APP)}


def directory(path: str, *links: tuple[str, str]) -> Place:
    return Place(path, path, "directory", links)


def file(path: str) -> Place:
    return Place(path, path, "file")


def ground(**facts: object) -> Ground:
    return Ground(**{"root": "/home/u/w", "directory": "/home/u/w/app", "temp": "/tmp/t"} | facts)  # type: ignore[arg-type]


def shows(mounts: Iterable[Mount], path: str) -> str:
    """What a path shows when the mounts were made in this order."""
    kinds = [m.kind for m in mounts if m.kind not in {"link", "folder"} and inside(path, m.path)]
    return kinds[-1] if kinds else "read"


def test_nothing_is_granted_by_itself() -> None:
    mounts = decide(HOST, ground())
    assert [(m.path, m.kind, m.filled) for m in mounts] == [
        ("/etc/shadow", "blank", False),
        ("/home/u", "mask", True),
        ("/home/u/w", "folder", False),
        ("/home/u/w/app", "folder", False),
        ("/run", "mask", False),
        ("/tmp", "scratch", False),
        ("/tmp/t", "folder", False),
    ]


def test_a_project_that_is_the_whole_workspace_has_a_directory_to_start_in() -> None:
    mounts = decide(HOST, ground(directory="/home/u/w"))
    made = {m.path: m.kind for m in mounts}
    assert made["/home/u"] == made["/home/u/w"] == "mask"


def test_a_workspace_outside_of_the_homes_has_its_own_wall() -> None:
    mounts = decide(HOST, ground(root="/srv/w", directory="/srv/w/app"))
    assert shows(mounts, "/srv/w/app/x") == "mask"
    assert shows(mounts, "/srv/other") == "read"


def test_a_workspace_in_the_temp_directory_stays_walled() -> None:
    mounts = decide(HOST, ground(root="/tmp/w", directory="/tmp/w/app"))
    assert shows(mounts, "/tmp/w/app/x") == "mask"
    assert shows(mounts, "/tmp/x") == "scratch"


def test_a_project_that_lies_outside_of_the_root_is_walled_too() -> None:
    mounts = decide(HOST, ground(directory="/srv/app", reads=(directory("/srv/app/src"),)))
    assert shows(mounts, "/srv/app/x") == "mask"
    assert shows(mounts, "/srv/app/src/x") == "read"
    assert shows(mounts, "/srv/x") == "read"


def test_the_more_specific_grant_wins() -> None:
    app = "/home/u/w/app"
    mounts = decide(
        HOST,
        ground(
            reads=(directory(f"{app}/ro"), directory(f"{app}/rw/keep")),
            writes=(directory(f"{app}/ro/rw"), directory(f"{app}/rw")),
        ),
    )
    assert shows(mounts, f"{app}/ro/x") == "read"
    assert shows(mounts, f"{app}/ro/rw/x") == "write"
    assert shows(mounts, f"{app}/rw/x") == "write"
    assert shows(mounts, f"{app}/rw/keep/x") == "read"


def test_writing_wins_over_reading_the_same() -> None:
    both = (directory("/home/u/w/app/d"),)
    assert shows(decide(HOST, ground(reads=both, writes=both)), "/home/u/w/app/d") == "write"


def test_walls_hide_parts_of_grants_unless_named() -> None:
    walls: dict[str, Entry] = {
        "/home/u/w/.git": "directory",
        "/home/u/w/ui": "directory",
        "/home/u/w/ui/.git": "file",
    }
    whole = directory("/home/u/w")
    mounts = decide(HOST, ground(walls=walls, reads=(whole, directory("/home/u/w/ui/src"))))
    assert shows(mounts, "/home/u/w/x") == "read"
    assert shows(mounts, "/home/u/w/.git/config") == "mask"
    assert shows(mounts, "/home/u/w/ui/x") == "mask"
    assert shows(mounts, "/home/u/w/ui/src/x") == "read"
    assert "/home/u/w/ui/.git" not in [m.path for m in mounts]
    named = decide(HOST, ground(walls=walls, reads=(whole, directory("/home/u/w/ui"))))
    assert shows(named, "/home/u/w/ui/x") == "read"
    assert shows(named, "/home/u/w/ui/.git") == "blank"
    assert shows(decide(HOST, ground(walls=walls, writes=(whole,))), "/home/u/w/.git") == "mask"


def test_a_filled_wall_is_filled() -> None:
    walls: dict[str, Entry] = {"/home/u/w/ui": "directory", "/home/u/w/x": "directory"}
    reads = (directory("/home/u/w"), directory("/home/u/w/ui/src"))
    filled = {m.path for m in decide(HOST, ground(walls=walls, reads=reads)) if m.filled}
    assert filled == {"/home/u", "/home/u/w/ui"}


def test_the_baseline_shows_through_walls_and_never_takes_writing_away() -> None:
    modules = directory("/home/u/w/app/node_modules")
    walls: dict[str, Entry] = {"/home/u/w/ui": "directory"}
    ui = directory("/home/u/w/ui")
    mounts = decide(HOST, ground(baseline=(modules, ui)))
    assert shows(mounts, "/home/u/w/app/node_modules/x") == "read"
    assert shows(mounts, "/home/u/w/ui/x") == "read"
    written = ground(baseline=(modules, ui), walls=walls, writes=(directory("/home/u/w"),))
    assert shows(decide(HOST, written), "/home/u/w/app/node_modules/x") == "write"
    assert shows(decide(HOST, written), "/home/u/w/ui/x") == "read"


def test_configs_stay_read_only_in_a_write_grant() -> None:
    config = "/home/u/w/app/vx.toml"
    facts = ground(protected=(config,), writes=(directory("/home/u/w/app"),))
    assert shows(decide(HOST, facts), config) == "read"
    named = ground(protected=(config,), writes=(directory("/home/u/w/app"), file(config)))
    assert shows(decide(HOST, named), config) == "write"
    assert shows(decide(HOST, ground(protected=(config,))), config) == "mask"


def test_tools_show_through_the_home_but_not_through_the_workspace() -> None:
    link = ("/home/u/.local/x", "/home/u/.nvm")
    tools = (directory("/home/u/.nvm", link), directory("/home/u/w/bin"), directory("/usr/bin"))
    host = Host(HOST.homes, HOST.masks, HOST.scratch, HOST.blanks, tools)
    mounts = decide(host, ground())
    assert shows(mounts, "/home/u/.nvm/node") == "read"
    assert shows(mounts, "/home/u/w/bin/x") == "mask"
    assert Mount("/home/u/.local/x", "link", "/home/u/.nvm") in mounts
    assert "/usr/bin" not in [m.path for m in mounts]


def test_a_workspace_that_is_the_home_keeps_its_tools() -> None:
    host = Host(HOST.homes, HOST.masks, HOST.scratch, (), (directory("/home/u/.nvm"),))
    mounts = decide(host, ground(root="/home/u", directory="/home/u/app"))
    assert shows(mounts, "/home/u/.nvm/node") == "read"
    assert shows(mounts, "/home/u/.ssh") == "mask"


def test_a_link_shows_only_where_its_directory_does_not() -> None:
    link = ("/home/u/w/app/l", "src")
    reads = (directory("/home/u/w/app/src", link),)
    assert Mount(*link[:1], "link", "src") in decide(HOST, ground(reads=reads))
    whole = decide(HOST, ground(reads=(*reads, directory("/home/u/w/app"))))
    assert not [m for m in whole if m.kind == "link"]


class TestSaveByRename:
    """A granted file lies on a desk, beside what shows in its directory anyway."""

    def mounts(self, **facts: object) -> tuple[Mount, ...]:
        entries = {"conf.json": None, "secret": None, "src": None, "dist": None, "link": "src"}
        return decide(HOST, ground(**{"siblings": {"/home/u/w/app": entries}} | facts))

    def test_what_is_not_granted_is_not_there(self) -> None:
        mounts = self.mounts(
            writes=(file(f"{APP}/conf.json"), directory(f"{APP}/dist")),
            reads=(directory(f"{APP}/src/deep"),),
        )
        assert kinds(mounts) == {
            APP: "desk",
            f"{APP}/conf.json": "saved",
            f"{APP}/dist": "write",
            f"{APP}/src": "folder",
            f"{APP}/src/deep": "read",
        }

    def test_what_is_readable_stays_readable_alone(self) -> None:
        mounts = self.mounts(writes=(file(f"{APP}/conf.json"),), reads=(directory(APP),))
        assert kinds(mounts) == {
            APP: "desk",
            f"{APP}/conf.json": "saved",
            f"{APP}/dist": "read",
            f"{APP}/link": "link",
            f"{APP}/secret": "read",
            f"{APP}/src": "read",
        }
        assert Mount(f"{APP}/link", "link", "src") in mounts

    def test_walls_stay_beside_it(self) -> None:
        walls: dict[str, Entry] = {f"{APP}/src": "directory", f"{APP}/secret": "file"}
        facts = {"writes": (file(f"{APP}/conf.json"),), "walls": walls}
        open_around = kinds(self.mounts(**facts, reads=(directory(APP),)))
        assert open_around[f"{APP}/src"] == "mask"
        assert f"{APP}/secret" not in open_around

    def test_two_files_of_one_directory_lie_on_one_desk(self) -> None:
        mounts = self.mounts(writes=(file(f"{APP}/conf.json"), file(f"{APP}/secret")))
        assert kinds(mounts) == {
            APP: "desk",
            f"{APP}/conf.json": "saved",
            f"{APP}/secret": "saved",
        }

    def test_a_writable_directory_needs_none(self) -> None:
        mounts = self.mounts(writes=(file(f"{APP}/conf.json"), directory(APP)))
        assert kinds(mounts) == {APP: "write"}

    def test_a_file_that_a_directory_around_it_does_not_open_has_one_of_its_own(self) -> None:
        facts = ground(
            writes=(file(f"{APP}/a"), file(f"{APP}/sub/b")),
            reads=(directory(f"{APP}/sub/r"),),
            siblings={APP: {}, f"{APP}/sub": {}},
        )
        assert kinds(decide(HOST, facts)) == {
            APP: "desk",
            f"{APP}/a": "saved",
            f"{APP}/sub": "desk",
            f"{APP}/sub/b": "saved",
            f"{APP}/sub/r": "read",
        }

    def test_in_a_home_the_masks_and_tools_stay(self) -> None:
        tools = (directory("/home/u/.nvm"),)
        host = Host(HOST.homes, HOST.masks, HOST.scratch, HOST.blanks, tools)
        facts = ground(writes=(file("/home/u/.conf"),), siblings={"/home/u": {".ssh": None}})
        made = {m.path: m.kind for m in decide(host, facts)}
        assert made["/home/u"] == "desk"
        assert made["/home/u/.nvm"] == "read"
        assert made["/home/u/w"] == "mask"
        assert "/home/u/.ssh" not in made

    def test_what_is_denied_is_not_saved(self) -> None:
        facts = {"writes": (file(f"{APP}/conf.json"), file(f"{APP}/secret"))}
        kept = kinds(self.mounts(**facts, kept=(f"{APP}/conf.json",)))
        assert kept == {APP: "desk", f"{APP}/conf.json": "read", f"{APP}/secret": "saved"}
        assert "desk" not in kinds(self.mounts(**facts, kept=(APP,))).values()
        hidden = kinds(self.mounts(**facts, hidden={f"{APP}/conf.json": "file"}))
        assert hidden == {APP: "desk", f"{APP}/secret": "saved"}
        opened = self.mounts(**facts, reads=(directory(APP),), hidden={f"{APP}/src": "directory"})
        assert f"{APP}/src" not in kinds(opened)

    def test_without_a_listing_the_file_is_bound_alone(self) -> None:
        mounts = self.mounts(writes=(file(f"{APP}/conf.json"),), siblings={})
        assert kinds(mounts)[f"{APP}/conf.json"] == "write"
        assert shows(mounts, f"{APP}/conf.json.tmp") == "mask"


paths = st.lists(st.sampled_from("abc"), min_size=0, max_size=4).map(
    lambda parts: posixpath.join("/home/u/w", *parts)
)
some = st.lists(paths, max_size=5)


@given(some, some, some, paths)
def test_any_path_shows_what_its_most_specific_grant_or_wall_says(
    reads: list[str], writes: list[str], walls: list[str], asked: str
) -> None:
    mounts = decide(
        HOST,
        ground(
            reads=tuple(map(directory, reads)),
            writes=tuple(map(directory, writes)),
            walls=dict.fromkeys(walls, "directory"),
        ),
    )
    path = asked
    while path not in {*reads, *writes, *walls, "/home/u/w"}:
        path = posixpath.dirname(path)
    expected = "write" if path in writes else "read" if path in reads else "mask"
    assert shows(mounts, asked) == expected


@given(some, some, some)
def test_directories_come_before_what_lies_in_them(
    reads: list[str], writes: list[str], walls: list[str]
) -> None:
    mounts = decide(
        HOST,
        ground(
            reads=tuple(map(directory, reads)),
            writes=tuple(map(directory, writes)),
            walls=dict.fromkeys(walls, "directory"),
        ),
    )
    for index, mount in enumerate(mounts):
        assert not any(inside(mount.path, later.path) for later in mounts[index + 1 :])


def test_the_way_to_what_a_write_grant_keeps_is_pinned() -> None:
    facts = ground(writes=(directory(APP),), protected=(f"{APP}/a/b/vx.toml", f"{APP}/vx.toml"))
    assert kinds(decide(HOST, facts)) == {
        APP: "write",
        f"{APP}/a": "write",
        f"{APP}/a/b": "write",
        f"{APP}/a/b/vx.toml": "read",
        f"{APP}/vx.toml": "read",
    }


def test_every_kind_of_exception_is_pinned_once_and_nothing_in_a_read_grant_is() -> None:
    facts = ground(
        writes=(directory(APP), directory(f"{APP}/r/w")),
        reads=(directory(f"{APP}/r"), directory(f"{APP}/d/x/r")),
        walls={f"{APP}/d/x/.git": "directory"},
    )
    assert kinds(decide(HOST, facts)) == {
        APP: "write",
        f"{APP}/d": "write",
        f"{APP}/d/x": "write",
        f"{APP}/d/x/.git": "mask",
        f"{APP}/d/x/r": "read",
        f"{APP}/r": "read",
        f"{APP}/r/w": "write",
    }


def test_what_is_denied_comes_last_and_takes_back_all_below() -> None:
    facts = ground(
        reads=(directory(APP), file(f"{APP}/s/deep/file")),
        writes=(directory(f"{APP}/out"), directory(f"{APP}/out/keep/sub"), file(f"{APP}/s/f")),
        hidden={f"{APP}/s": "directory", f"{APP}/key": "file", "/srv/none": "file"},
        kept=(f"{APP}/out/keep", f"{APP}/elsewhere"),
    )
    mounts = decide(HOST, facts)
    assert shows(mounts, f"{APP}/s/deep/file") == "mask"
    assert shows(mounts, f"{APP}/s/f") == "mask"
    assert shows(mounts, f"{APP}/key") == "blank"
    assert shows(mounts, f"{APP}/out/x") == "write"
    assert shows(mounts, f"{APP}/out/keep/sub/x") == "read"
    assert f"{APP}/elsewhere" not in kinds(mounts)


def test_the_command_has_a_directory_to_start_in_whatever_is_denied() -> None:
    for hidden in ("/home/u", "/home/u/w", APP):
        mounts = decide(HOST, ground(reads=(directory(APP),), hidden={hidden: "directory"}))
        assert APP in {m.path for m in mounts}
        assert shows(mounts, f"{APP}/x") == "mask"


def test_a_socket_shows_if_it_is_granted_and_is_hidden_if_it_is_not() -> None:
    facts = ground(
        reads=(directory(f"{APP}/r"),),
        writes=(directory(f"{APP}/w"),),
        sockets=(file("/run/daemon"), file(f"{APP}/r/mine")),
        strangers=("/srv/db", f"{APP}/r/other", f"{APP}/w/own", "/run/agent"),
    )
    made = {m.path: m.kind for m in decide(HOST, facts)}
    assert made["/run/daemon"] == "read"
    assert made["/srv/db"] == made[f"{APP}/r/other"] == "blank"
    assert f"{APP}/r/mine" not in made
    assert f"{APP}/w/own" not in made
    assert "/run/agent" not in made
