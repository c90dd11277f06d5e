"""Whether this host can hold a sandbox, and what is said when it cannot."""

import asyncio
import os
import shutil

import pytest

from tests.harness.boxes import Site
from vxwatch.errors import UserError
from vxwatch.model import Sandbox, Task
from vxwatch.sandbox.diagnosis import Verdict
from vxwatch.sandbox.probe import examine, find_programs

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


def path_without(site: Site, *names: str) -> str:
    """A PATH directory with the programs of a box, but for these."""
    directory = os.path.join(os.path.dirname(site.root), "bin")
    os.mkdir(directory)
    for name in {"bwrap", "sh", "true"} - set(names):
        os.symlink(shutil.which(name) or "", os.path.join(directory, name))
    return directory


def fake_bwrap(site: Site, text: str) -> str:
    """A PATH whose bwrap is this shell script."""
    directory = path_without(site, "bwrap")
    with open(os.path.join(directory, "bwrap"), "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{text}\n")
    os.chmod(os.path.join(directory, "bwrap"), 0o755)
    return directory


def verdict(site: Site, path: str) -> Verdict:
    return asyncio.run(examine({**site.environ, "PATH": path}, site.root))


def test_this_host_can(site: Site) -> None:
    found = asyncio.run(examine(site.environ, site.root))
    assert (found.ok, found.reason, found.fix) == (True, "", "")


def test_missing_programs_are_named_with_their_packages(site: Site) -> None:
    found = verdict(site, path_without(site, "bwrap", "sh"))
    assert found.reason == "bwrap and sh are not installed"
    assert "bubblewrap" in found.fix
    assert "dash" in found.fix


def test_a_bwrap_of_the_workspace_is_not_used(site: Site) -> None:
    site.write("node_modules/.bin/bwrap", "#!/bin/sh\n")
    os.chmod(site.path("node_modules/.bin/bwrap"), 0o755)
    path = f"{site.path('node_modules/.bin')}:.:{site.environ['PATH']}"
    found = find_programs({"PATH": path}, site.root)
    assert not isinstance(found, Verdict)
    assert not found.bwrap.startswith(site.root)


def test_refused_namespaces_are_explained(site: Site) -> None:
    found = verdict(site, fake_bwrap(site, "echo 'bwrap: setting up uid map: Denied' >&2; exit 1"))
    assert "user namespaces" in found.reason
    assert found.fix


def test_an_old_bwrap_is_told(site: Site) -> None:
    found = verdict(site, fake_bwrap(site, "echo 'bwrap: Unknown option --bind-fd' >&2; exit 1"))
    assert "too old" in found.reason


def test_a_workspace_that_is_everything_is_refused(site: Site) -> None:
    assert "holds the system" in asyncio.run(examine(site.environ, "/")).reason


def test_a_command_that_did_not_run_is_no_success(site: Site) -> None:
    assert not verdict(site, fake_bwrap(site, "exit 0")).ok


def test_no_task_runs_where_the_host_cannot(site: Site) -> None:
    site.environ["PATH"] = path_without(site, "bwrap")

    async def refused() -> None:
        async with site.session(asked=False) as (_, runtime):
            for _ in range(2):
                with pytest.raises(UserError, match="bwrap is not installed") as caught:
                    await runtime.ensure()
                assert caught.value.slug == "sandbox-unavailable"

    asyncio.run(refused())


def test_a_session_asks_once(site: Site) -> None:
    asked = os.path.join(os.path.dirname(site.root), "asked")
    real = shutil.which("bwrap")
    counting = fake_bwrap(site, f'echo x >> {asked}; exec {real} "$@"')
    for name in {*os.listdir(counting)} - {"bwrap"}:
        os.unlink(os.path.join(counting, name))
    site.environ["PATH"] = f"{counting}:{site.environ['PATH']}"

    async def twice() -> None:
        async with site.session(asked=False) as (_, runtime):
            await asyncio.gather(*(runtime.ensure() for _ in range(3)))
            box = await runtime.box(
                Task("app", "t", command="true", sandbox=Sandbox()), "true", site.environ, "null"
            )
            await box.close()

    asyncio.run(twice())
    with open(asked, encoding="utf-8") as file:
        assert file.read() == "x\n"
