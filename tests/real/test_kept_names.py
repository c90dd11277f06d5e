"""No way to change, move, replace or make what vx and git obey, with the whole project to write in."""

import asyncio
import hashlib
import os
import shutil

import pytest

from tests.harness.boxes import Site, live, with_config
from tests.harness.hostile import Attacker, attackers
from vxwatch.model import Sandbox, Task
from vxwatch.workspace.manifests import NAMES

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

FILES = sorted(NAMES)
DIRECTORIES = (".git", ".vx")
NEW = "n = {2!r} + str(os.getpid()); "
ON_FILES = {
    "write": "write({0!r})",
    "append": "os.write(os.open({0!r}, os.O_APPEND | os.O_WRONLY), b'x')",
    "truncate": "os.truncate({0!r}, 0)",
    "mode": "os.chmod({0!r}, 0o777)",
    "times": "os.utime({0!r})",
    "remove": "os.remove({0!r})",
    "away": NEW + "os.rename({0!r}, n)",
    "replace": NEW + "write(n); os.rename(n, {0!r})",
    "link-over": NEW + "os.symlink('free', n); os.rename(n, {0!r})",
    "hard-link-over": NEW + "os.link({2!r} + 'free', n); os.rename(n, {0!r})",
    "hard-link": NEW + "os.link({0!r}, n)",
    "exchange": NEW + "write(n); must(libc.renameat2(-100, n.encode(), -100, {1!r}, 2))",
    "by-descriptor": "os.open('/proc/self/fd/%d' % os.open({0!r}, os.O_RDONLY), os.O_WRONLY)",
    "directory-over": NEW + "os.mkdir(n); os.rename(n, {0!r})",
}
ON_DIRECTORIES = {
    "make": "write({0!r} + '/new')",
    "make-directory": "os.mkdir({0!r} + '/new')",
    "remove": "os.rmdir({0!r})",
    "mode": "os.chmod({0!r}, 0o777)",
    "away": NEW + "os.rename({0!r}, n)",
    "replace": NEW + "os.mkdir(n); os.rename(n, {0!r})",
    "exchange": NEW + "os.mkdir(n); must(libc.renameat2(-100, n.encode(), -100, {1!r}, 2))",
    "link-over": NEW + "os.symlink('free', n); os.rename(n, {0!r})",
}
PLACES = ["", "sub"]


@pytest.fixture(params=attackers())
def attacker(site: Site, request: pytest.FixtureRequest) -> Attacker:
    return Attacker(site, request.param)


def attempts(place: str) -> dict[str, str]:
    """Each way on each name in this directory of the project."""
    ways: dict[str, str] = {}
    for names, on in ((FILES, ON_FILES), (DIRECTORIES, ON_DIRECTORIES)):
        for name in names:
            path = os.path.join(place, name)
            told = (path, path.encode(), os.path.join(place, ""))
            ways |= {f"{way}:{path}": on[way].format(*told) for way in on}
    return ways


def state(root: str) -> dict[str, object]:
    """All that is in these directories and files: what kind, which mode, which content."""
    found: dict[str, object] = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = ""
            if name in files and not os.path.islink(path):
                with open(path, "rb") as file:
                    content = hashlib.sha256(file.read()).hexdigest()
            found[path] = (status.st_ino, status.st_mode, status.st_nlink, content)
    return found


def kept(site: Site, project: str) -> dict[str, object]:
    """The state of the names that are to be kept, in the project and in the one below it."""
    base = site.path(project)
    places = [os.path.join(base, place) for place in PLACES]
    return {
        path: what
        for path, what in state(base).items()
        for place in places
        if os.path.relpath(path, place).split("/")[0] in {*FILES, *DIRECTORIES}
    }


def fill(site: Site, project: str) -> None:
    """Let every name be there, read by vx, in a project and in a directory below it."""
    for place in PLACES:
        base = os.path.join(project, place)
        for name in FILES:
            site.write(os.path.join(base, name), "old")
        for name in DIRECTORIES:
            site.write(os.path.join(base, name, "kept"), "old")
        site.write(os.path.join(base, "free"), "free")
    with_config(site, *(os.path.join(project, place, name) for place in PLACES for name in FILES))


@pytest.mark.parametrize(("project", "directory"), [("app", "app"), ("root", "")])
def test_what_is_there_stays_as_it_is(attacker: Attacker, project: str, directory: str) -> None:
    site = attacker.site
    fill(site, directory)
    if attacker.is_user:
        attacker.own()
    before = kept(site, directory)
    tried = attempts("") | {k: v for k, v in attempts("sub").items() if "sub/." not in k}
    told = attacker.tries({**tried, "free": "write('free')"}, project, write=(".",))
    assert told.pop("free") == "ok"
    refusals = {"EROFS", "EBUSY", "EXDEV", "EISDIR", "ENOTDIR", "EACCES", "ENOTEMPTY"}
    assert {name: outcome for name, outcome in told.items() if outcome not in refusals} == {}
    after = kept(site, directory)
    after.pop(site.path(".vx"), None)
    before.pop(site.path(".vx"), None)
    assert after == before


@pytest.mark.parametrize("over", ["app", "sub/../.", "../app/", "../app/**", "**"])
def test_no_spelling_of_the_grant_opens_more(site: Site, over: str) -> None:
    fill(site, "app")
    before = kept(site, "app")
    site.write("app/app/free")
    ran = site.run(
        f"for f in {' '.join(FILES)}; do echo x > $f; done; rm -rf .vx/* .git/*; echo > more",
        write=(over, "."),
    )
    assert ran.err.count("Read-only file system") >= len(FILES)
    assert os.path.exists(site.path("app/more"))
    assert kept(site, "app") == before


def test_what_is_not_there_is_named_when_it_comes(site: Site) -> None:
    async def born() -> list[str]:
        made = f"for f in {' '.join(FILES)}; do echo x > $f; done; mkdir .git; echo x > .vx/cache"
        task = Task("root", "t", command=made, sandbox=Sandbox(write=(".",)))
        async with (
            site.session() as (nursery, runtime),
            live(nursery, runtime, task, site.environ) as alive,
        ):
            assert (await alive.end()).code != 0
            return sorted(runtime.held())

    assert asyncio.run(born()) == sorted(site.path(name) for name in (*FILES, ".git"))
    assert not os.path.exists(site.path(".vx"))


@pytest.mark.parametrize("place", ["out", "deep/er"])
def test_below_a_project_they_are_nobodys_names(site: Site, place: str) -> None:
    command = f"mkdir -p {place} && cd {place} && for f in {' '.join(FILES)}; do echo x > $f; done"
    assert site.run(command, write=(".",)).code == 0
    assert sorted(os.listdir(site.path(f"app/{place}"))) == FILES
