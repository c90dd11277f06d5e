"""What counts as denied, what it is called, and what would allow it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest

from vxwatch.model import Sandbox
from vxwatch.sandbox.advice import remedies, sentences
from vxwatch.sandbox.findings import Finding, Scene, judge
from vxwatch.sandbox.grants import Place
from vxwatch.sandbox.policy import Mount
from vxwatch.sandbox.tracelog import Attempt

ROOT, APP = "/home/u/w", "/home/u/w/app"
MOUNTS = (
    Mount("/home/u", "mask"),
    Mount(APP, "folder"),
    Mount(f"{APP}/blank", "blank"),
    Mount(f"{APP}/dist", "write"),
    Mount(f"{APP}/dist/kept", "read"),
    Mount(f"{APP}/src", "read"),
    Mount(f"{ROOT}/node_modules", "read"),
    Mount("/tmp", "scratch"),
)
SCENE = Scene(MOUNTS, ROOT, APP, "/home/u", {f"{ROOT}/ui": "ui"})
Kind = Literal["file", "directory", "missing"]


def found(
    *attempts: Attempt,
    disk: Mapping[str, Kind] | None = None,
    links: Mapping[str, str] | None = None,
    **sandbox: tuple[str, ...],
) -> list[tuple[str, str]]:
    """The findings as access and name, on a host with these files and links."""
    return [(f.access, f.name) for f in judged(*attempts, disk=disk, links=links, **sandbox)]


def judged(
    *attempts: Attempt,
    disk: Mapping[str, Kind] | None = None,
    links: Mapping[str, str] | None = None,
    **sandbox: tuple[str, ...],
) -> tuple[Finding, ...]:
    def look(path: str) -> Place:
        for link, target in (links or {}).items():
            if path.startswith(link):
                real = target + path[len(link) :]
                return Place(path, real, (disk or {}).get(real, "missing"), ((link, target),))
        return Place(path, path, (disk or {}).get(path, "missing"))

    return judge(attempts, SCENE, Sandbox(**sandbox), look)  # type: ignore[arg-type]


def read(path: str, error: str = "ENOENT", call: str = "openat") -> Attempt:
    return Attempt("read", path, call, error)


def write(path: str, error: str = "EROFS", call: str = "openat") -> Attempt:
    return Attempt("write", path, call, error)


def test_a_hidden_file_that_exists_is_a_finding() -> None:
    disk: dict[str, Kind] = {f"{APP}/secret": "file", f"{ROOT}/base.json": "file"}
    attempts = (
        read(f"{APP}/secret"),
        read(f"{APP}/secret", call="statx"),
        read(f"{ROOT}/base.json"),
    )
    assert found(*attempts, disk=disk) == [("read", "secret"), ("read", "../base.json")]


@pytest.mark.parametrize(
    ("attempt", "kind"),
    [
        (read(f"{APP}/no-such"), "missing"),
        (read(f"{APP}/src/closed", "EACCES"), "file"),
        (read(f"{APP}/src/no-such"), "missing"),
        (read("/etc/shadow", "EACCES"), "file"),
        (read("/home/u/.ssh/id"), "file"),
        (read("/tmp/x"), "file"),
        (read(f"{APP}/secret", "ELOOP"), "file"),
        (read(f"{APP}/secret", ""), "file"),
    ],
)
def test_other_reads_are_none(attempt: Attempt, kind: Kind) -> None:
    assert found(attempt, disk={attempt.name: kind}) == []


def test_a_file_that_looks_empty_and_is_not_is_a_finding_when_read() -> None:
    assert found(read(f"{APP}/blank", ""), disk={f"{APP}/blank": "file"}) == [("read", "blank")]


def test_a_name_behind_a_link_is_that_of_the_real_file() -> None:
    links = {f"{APP}/src/lib": f"{ROOT}/lib"}
    disk: dict[str, Kind] = {f"{ROOT}/lib/a": "file"}
    assert found(read(f"{APP}/src/lib/a"), disk=disk, links=links) == [("read", "../lib/a")]
    links = {f"{APP}/to-src": f"{APP}/src"}
    assert found(read(f"{APP}/to-src/a"), disk={f"{APP}/src/a": "file"}, links=links) == []


def test_a_package_that_is_withheld_is_named() -> None:
    links = {f"{ROOT}/node_modules/ui": f"{ROOT}/ui"}
    disk: dict[str, Kind] = {f"{ROOT}/ui/a.js": "file"}
    (finding,) = judged(read(f"{ROOT}/node_modules/ui/a.js"), disk=disk, links=links)
    assert finding.package == "ui"
    assert sentences([finding]) == (
        "read ../ui/a.js of the package ui, on which it does not depend",
    )
    assert remedies([finding], "t", Sandbox()) == (
        'add it: "ui" to the dependencies of the project',
    )
    (direct,) = judged(read(f"{ROOT}/ui/a.js"), disk=disk)
    assert direct.package == ""


def test_who_goes_past_the_proxy_is_told_of_it_and_not_to_grant_more() -> None:
    (finding,) = judged(connect("192.0.2.1:443"), network=("a.example",))
    assert sentences([finding]) == (
        "connected to 192.0.2.1:443, past the proxy that its network is behind",
    )
    (remedy,) = remedies([finding], "t", Sandbox(network=("a.example",)))
    assert "HTTP_PROXY" in remedy


def test_a_package_that_the_key_does_not_fold_names_the_edge() -> None:
    finding = Finding("read", "../ui/a.js", package="ui", unfolded=True)
    assert sentences([finding]) == (
        "read ../ui/a.js of the package ui, whose changes do not run it again",
    )
    (remedy,) = remedies([finding], "t", Sandbox())
    assert remedy.startswith('run it after a task of "ui": depends_on = ["^build"]')


@pytest.mark.parametrize(
    ("attempt", "name"),
    [
        (write(f"{APP}/src/gen.txt"), "src/gen.txt"),
        (write("/etc/x"), "/etc/x"),
        (write("/etc/x", "EACCES"), "/etc/x"),
        (write("/home/u/x"), "~/x"),
        (write(f"{APP}/dist/kept", call="unlink"), "dist/kept"),
        (write(f"{APP}/new", call="mkdir"), "new/"),
        (write(f"{APP}/src", "EPERM", "chmod"), "src"),
        (write(f"{APP}/src", "EBUSY", "rename"), "src"),
    ],
)
def test_a_refused_write_is_a_finding_wherever_it_went(attempt: Attempt, name: str) -> None:
    assert found(attempt) == [("write", name)]


@pytest.mark.parametrize(
    "attempt",
    [
        write("/proc/self/oom_score_adj", "EACCES"),
        write("/sys/x"),
        write("/dev/x", "EACCES"),
        write("/tmp/x", "EACCES"),
        write(f"{APP}/dist/x", "EPERM", "chown"),
        write(f"{APP}/dist", "EBUSY", "rmdir"),
        write(f"{APP}/x", "EEXIST", "mkdir"),
        write(f"{APP}/src/x", "EXDEV", "rename"),
        write(f"{APP}/dist/no/such", "ENOENT"),
        write(f"{APP}/nowhere/x", "ENOENT"),
    ],
)
def test_other_writes_are_none(attempt: Attempt) -> None:
    assert found(attempt) == []


def test_a_write_to_what_only_the_host_has_is_a_finding() -> None:
    disk: dict[str, Kind] = {f"{APP}/gen": "directory", f"{APP}/old": "file"}
    attempts = (write(f"{APP}/gen/x", "ENOENT"), write(f"{APP}/old", "ENOENT", "unlink"))
    assert found(*attempts, disk=disk) == [("write", "gen/x"), ("write", "old")]


def test_making_sure_of_a_directory_that_exists_is_no_write() -> None:
    disk: dict[str, Kind] = {f"{APP}/gen": "directory", f"{APP}/src": "directory"}
    attempts = (write(f"{APP}/gen", call="mkdir"), write(f"{APP}/src", call="mkdir"))
    assert found(*attempts, disk=disk) == [("read", "gen")]


def test_what_lies_in_a_directory_that_was_to_be_made_is_told_with_it() -> None:
    attempts = (write(f"{APP}/gen", call="mkdir"), write(f"{APP}/gen/x"), write(f"{APP}/gen2"))
    assert found(*attempts) == [("write", "gen/"), ("write", "gen2")]


def connect(name: str, error: str = "ENETUNREACH") -> Attempt:
    return Attempt("connect", name, "connect", error)


def test_a_refused_connection_to_another_machine_is_a_finding() -> None:
    attempts = (
        *(connect("1.2.3.4:80"), connect("[2606::1]:443", "EHOSTUNREACH")),
        *(connect("127.0.0.1:80"), connect("[::1]:80"), connect("1.2.3.4:81", "ECONNREFUSED")),
    )
    assert found(*attempts) == [("network", "1.2.3.4:80"), ("network", "[2606::1]:443")]
    assert found(*attempts, ignore_network=("1.2.3.4", "[2606::1]:443")) == []
    assert found(*attempts, ignore_network=("1.2.3.4:81", "[2606::1]:443")) == [
        ("network", "1.2.3.4:80")
    ]


@pytest.mark.parametrize(
    "path",
    [
        f"{APP}/src/__pycache__",
        f"{APP}/src/__pycache__/a.pyc",
        "/usr/lib/python3/__pycache__/x.1",
        f"{ROOT}/node_modules/.cache/a/b",
        "/home/u/.cache",
        "/home/u/.cache/pip/x",
        "/home/u/.npm/_logs/1.log",
    ],
)
def test_caches_that_programs_do_without_are_left_out(path: str) -> None:
    assert found(write(path)) == []
    assert found(write(path, call="mkdir")) == []


def test_the_config_leaves_out_more_by_class() -> None:
    disk: dict[str, Kind] = {f"{APP}/.git": "directory", f"{ROOT}/a.lock": "file"}
    attempts = (read(f"{APP}/.git"), read(f"{ROOT}/a.lock"), write(f"{APP}/src/a.lock"))
    assert len(found(*attempts, disk=disk)) == 3
    assert found(*attempts, disk=disk, ignore_read=(".git/", "../*.lock")) == [
        ("write", "src/a.lock")
    ]
    assert found(*attempts, disk=disk, ignore_write=("**/*.lock",)) == [
        ("read", ".git"),
        ("read", "../a.lock"),
    ]


def test_many_files_of_one_directory_are_the_directory() -> None:
    disk: dict[str, Kind] = {f"{APP}/lib/{i}": "file" for i in range(7)}
    crowd = judged(
        *map(read, disk), read(f"{APP}/lib/sub/x"), disk={**disk, f"{APP}/lib/sub/x": "file"}
    )
    assert [(f.name, f.files) for f in crowd] == [("lib/", 7), ("lib/sub/x", 1)]
    assert sentences(crowd)[0] == "read lib/ (7 files), which nothing grants"
    assert remedies(crowd, "t", Sandbox()) == ('allow it: tasks.t.sandbox.allow.read = ["lib/"]',)


@pytest.mark.parametrize("place", [APP, ROOT, "/etc", "/home/u/.config"])
def test_no_crowd_opens_a_project_a_home_or_the_system(place: str) -> None:
    assert len(found(*(write(f"{place}/{i}") for i in range(9)))) == 9


def test_many_findings_are_told_in_few_lines() -> None:
    findings = [Finding("write", f"/etc/{i}") for i in range(14)]
    told = sentences(findings)
    assert len(told) == 11
    assert told[-1] == "was denied 4 more"


def test_the_remedy_is_the_complete_list() -> None:
    findings = [
        *(Finding("read", "a b"), Finding("write", 'q"é'), Finding("write", "gen/")),
        *(Finding("write", "gen/x"), Finding("network", "1.2.3.4:80")),
        Finding("network", "10.0.0.2:53"),
    ]
    sandbox = Sandbox(read=("src", "a b"), write=("dist/",))
    assert remedies(findings, "build:x", sandbox) == (
        'allow it: tasks."build:x".sandbox.allow.read = ["src", "a b"]',
        'allow it: tasks."build:x".sandbox.allow.write = ["dist/", "q\\"é", "gen/"]',
        'allow it: tasks."build:x".sandbox.allow.network = ["1.2.3.4:80", "HOST"]',
    )
    assert sentences(findings[-1:]) == (
        "looked up a host (at 10.0.0.2:53), and nothing grants it the network",
    )


def test_bytes_that_no_config_can_hold_are_granted_by_their_directory() -> None:
    findings = [Finding("read", "lib/\udcff.js")]
    assert remedies(findings, "t", Sandbox()) == (
        'allow it: tasks.t.sandbox.allow.read = ["lib/"]',
    )


@pytest.mark.parametrize(
    ("attempt", "denied"),
    [
        (read(f"{APP}/secret/a"), ("deny.read", "secret")),
        (write(f"{APP}/secret/b"), ("deny.read", "secret")),
        (read(f"{APP}/src/a.key"), ("deny.read", "src/**/*.key")),
        (read(f"{APP}/x"), ("deny.read", "to/x")),
        (write(f"{APP}/dist/kept"), ("deny.write", "dist/kept/")),
        (read(f"{APP}/other"), None),
    ],
    ids=["read", "write", "glob", "link", "kept", "not granted"],
)
def test_what_is_denied_names_the_entry_that_denies_it(
    attempt: Attempt, denied: tuple[str, str] | None
) -> None:
    scene = replace(SCENE, mounts=(*MOUNTS, Mount(f"{APP}/src", "mask")))

    def look(path: str) -> Place:
        real = f"{APP}/x" if path.rstrip("/") == f"{APP}/to/x" else path
        return Place(path, real, "missing" if path.endswith("/b") else "file")

    sandbox = Sandbox(
        deny_read=("secret", "src/**/*.key", "to/x"), deny_write=("dist/kept/",), read=(".",)
    )
    attempt_there = replace(attempt, error="EROFS") if attempt.wish == "write" else attempt
    (finding,) = judge((attempt_there,), scene, sandbox, look)
    assert finding.denied == denied


def test_what_is_denied_is_to_be_taken_out_and_not_to_be_granted() -> None:
    files = [Finding("read", "secret/a", denied=("deny.read", "secret"))]
    files += [Finding("write", "out/x", denied=("deny.write", "out/\u00e9"))]
    assert sentences(files) == (
        "read secret/a, which deny.read forbids (secret)",
        "wrote out/x, which deny.write forbids (out/\u00e9)",
    )
    assert remedies(files, "t", Sandbox(read=("src",))) == (
        'take "secret" out of tasks.t.sandbox.deny.read to allow it',
        'take "out/\u00e9" out of tasks.t.sandbox.deny.write to allow it',
    )


def test_many_denied_files_of_a_directory_do_not_join_those_that_are_not_granted() -> None:
    def look(path: str) -> Place:
        return Place(path, path, "file")

    sandbox = Sandbox(deny_read=("lib/*.key",))
    names = [f"{n}.key" for n in range(8)] + ["a", "b"]
    found = judge([read(f"{APP}/lib/{name}") for name in names], SCENE, sandbox, look)
    assert [(f.name, f.files, f.denied is None) for f in found] == [
        ("lib/", 8, False),
        ("lib/a", 1, True),
        ("lib/b", 1, True),
    ]


def test_a_target_that_the_proxy_refused_is_not_told_twice() -> None:
    attempts = [
        Attempt("connect", name, "connect", "ENETUNREACH") for name in ("1.2.3.4:9", "[2::]:9")
    ]
    sandbox = Sandbox(network=("a.example",))
    found = judge(
        attempts, SCENE, sandbox, lambda path: Place(path, path, "missing"), {"1.2.3.4:9"}
    )
    assert [finding.name for finding in found] == ["[2::]:9"]
