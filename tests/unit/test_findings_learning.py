"""The table that a task's deeds come to."""

from collections.abc import Iterable

from vxwatch.hosts import EVERY_HOST, NO_HOST, Refusal
from vxwatch.model import Sandbox
from vxwatch.sandbox.findings import Scene
from vxwatch.sandbox.grants import Place
from vxwatch.sandbox.learning import Disk, Terms, table
from vxwatch.sandbox.policy import Mount
from vxwatch.sandbox.tracelog import Attempt

ROOT, APP = "/home/u/w", "/home/u/w/app"
BARE = Scene(
    (
        *(Mount("/home/u", "mask"), Mount(APP, "folder")),
        *(Mount(f"{APP}/node_modules", "read"), Mount("/tmp", "scratch")),
    ),
    ROOT,
    APP,
    "/home/u",
)
_NO_TERMS = Terms(Sandbox(network=(NO_HOST,)))


def learned(
    *attempts: Attempt,
    disk: Iterable[str] = (),
    listening: Iterable[int] = (),
    terms: Terms = _NO_TERMS,
) -> list[str]:
    """The lines after the head, for a disk that holds these files, named from the project."""
    files = {f"{APP}/{name}" if name[0] not in "./" else name for name in disk}

    def lies(path: str) -> str:
        if path in files:
            return "file"
        return "directory" if any(file.startswith(f"{path}/") for file in files) else ""

    def absolute(name: str) -> str:
        place = f"{APP}/{name}"
        while "/../" in place:
            head, _, tail = place.partition("/../")
            place = f"{head.rpartition('/')[0]}/{tail}"
        return place

    def look(path: str) -> Place:
        return Place(path, path, lies(path) or "missing")  # type: ignore[arg-type]

    known = Disk(
        files=lambda name: sum(file.startswith(f"{absolute(name)}/") for file in files),
        lies=lambda name: lies(absolute(name)),
        listens=frozenset(listening).__contains__,
    )
    head, *lines = table(attempts, BARE, "build", look, known, terms)
    assert head == "[tasks.build.sandbox.allow]"
    return lines


def read(*names: str) -> list[Attempt]:
    return [Attempt("read", f"{APP}/{name}", "openat", "") for name in names]


def write(*names: str, call: str = "openat") -> list[Attempt]:
    return [Attempt("write", f"{APP}/{name}", call, "") for name in names]


def test_nothing_done_needs_nothing() -> None:
    system = Attempt("read", "/usr/lib/x", "openat", "")
    own = Attempt("read", f"{APP}/node_modules/a", "openat", "")
    assert learned(system, own, disk=["/usr/lib/x", "node_modules/a"]) == []
    assert learned(*read("no-such"), Attempt("write", "/tmp/x", "openat", "")) == []


def test_a_directory_is_granted_when_most_of_it_was_read() -> None:
    disk = ["src/a", "src/b", "src/deep/c", "lib/a", "lib/b", "lib/c", "x.json"]
    done = read("src/a", "src/deep/c", "lib/a", "x.json")
    assert learned(*done, disk=disk) == ['read = ["lib/a", "src", "x.json"]']


def test_directories_that_were_only_looked_at_are_granted_unless_they_lead_to_a_grant() -> None:
    done = read("src", "src/a", "empty", "..", ".")
    disk = ["src/a", "src/b", "src/c", "src/d", "empty/x", "y"]
    assert learned(*done, disk=disk) == ['read = ["empty", "src/a"]']


def test_what_vx_keeps_for_itself_is_never_granted() -> None:
    done = (*read("a", ".vx", ".vx/x"), Attempt("read", f"{ROOT}/.vx", "openat", ""))
    assert learned(*done, disk=["a", ".vx/cache/b", f"{ROOT}/.vx/c"]) == ['read = ["a"]']


def test_a_project_of_which_many_entries_are_read_is_granted_as_a_whole() -> None:
    names = [f"{i}.json" for i in range(13)]
    base = Attempt("read", f"{ROOT}/base.json", "openat", "")
    done = (*read(*names), base)
    assert learned(*done, disk=[*names, f"{ROOT}/base.json"]) == ['read = [".", "../base.json"]']


def test_what_was_made_is_written_and_not_read() -> None:
    done = (*write("dist", call="mkdir"), *write("dist/a", "dist/b/c"), *read("dist/a"))
    assert learned(*done, disk=["dist/a", "dist/b/c"]) == ['write = ["dist/"]']


def test_a_directory_that_holds_only_what_was_written_is_granted() -> None:
    done = write("dist/a", "dist/assets/b", "src/gen.ts", "top.txt")
    disk = ["dist/a", "dist/assets/b", "src/gen.ts", "src/a.ts", "top.txt", "z"]
    assert learned(*done, disk=disk) == ['write = ["dist/", "src/gen.ts", "top.txt"]']


def test_files_that_came_and_went_need_their_directory_or_nothing() -> None:
    done = write("conf.json.tmp", "conf.json", "cache/deep/x1")
    assert learned(*done, disk=["conf.json"]) == ['write = ["cache/deep/", "conf.json"]']


def test_a_granted_directory_that_is_removed_is_pointed_out() -> None:
    done = (*write("dist", call="mkdir"), *write("dist", call="rmdir"), *write("dist/a"))
    assert learned(*done, disk=["dist/a"]) == [
        'write = ["dist/"]',
        "# it removes or renames dist itself, which a grant of it does not allow",
    ]


def _connect(name: str, error: str) -> Attempt:
    return Attempt("connect", name, "connect", error)


def test_ports_of_the_host_and_what_goes_past_the_proxy_are_named() -> None:
    done = (
        *(_connect("127.0.0.1:5432", "ECONNREFUSED"), _connect("[::1]:99", "ECONNREFUSED")),
        *(_connect("127.0.0.1:80", ""), _connect("1.2.3.4:443", "ENETUNREACH")),
        _connect("10.0.0.2:53", "ENETUNREACH"),
    )
    assert learned(*done, listening=[5432]) == [
        "host_ports = [5432]",
        "# it connected to 1.2.3.4:443 past the proxy that HTTP_PROXY names",
        "# it looked up hosts by itself, past the proxy that HTTP_PROXY names",
    ]


def test_what_the_proxy_refused_is_granted_beside_what_is_granted() -> None:
    refused = (
        Refusal("evil.example", 443, "which nothing grants", ("evil.example",)),
        Refusal("1.2.3.4", 443, "which nothing grants", ("1.2.3.4",)),
    )
    terms = Terms(Sandbox(network=("a.example", "*.b.example:80")), refused)
    assert learned(_connect("1.2.3.4:443", "ENETUNREACH"), terms=terms) == [
        'network = ["a.example", "*.b.example:80", "evil.example", "1.2.3.4"]'
    ]


def test_what_a_grant_would_not_help_is_said() -> None:
    denied = Refusal("bad.example", 443, "which deny.network forbids (bad.example)")
    near = Refusal("10.0.0.1", 80, "a private address, which nothing grants", ("10.0.0.1",))
    assert learned(terms=Terms(Sandbox(network=(NO_HOST,)), (denied,))) == [
        "# it connected to bad.example:443, which deny.network forbids (bad.example)"
    ]
    assert learned(terms=Terms(Sandbox(network=(EVERY_HOST,)), (near,))) == [
        "network = true",
        "# it connected to 10.0.0.1:80, a private address, which nothing grants",
    ]


def test_what_is_denied_is_no_part_of_it_and_said() -> None:
    sandbox = Sandbox(deny_read=("**/*.env",), deny_write=("out/kept",), read=("src",))
    done = (*read("a", "b.env"), *write("out/kept", "out/b"))
    disk = ("a", "b.env", "out/kept", "out/b", "c")
    assert learned(*done, disk=disk, terms=Terms(sandbox)) == [
        'read = ["a"]',
        'write = ["out/b"]',
        "# it read b.env, which deny.read forbids (**/*.env)",
        "# it wrote out/kept, which deny.write forbids (out/kept)",
    ]
