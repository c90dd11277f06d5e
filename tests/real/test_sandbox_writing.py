"""What a command in a real box can write, where it lands, and what is left of it."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.harness.boxes import Site, live, make_site, refused, with_config
from tests.harness.waiting import wait_for
from vxwatch.model import Sandbox, Task

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


class TestWriting:
    def test_only_where_it_is_granted(self, site: Site) -> None:
        site.write("app/src/a", "a")
        ran = site.run(
            "echo 1 > out/x; for f in src/new src/a /etc/vx-no /usr/vx-no ../new;"
            " do echo x > $f; done; rm -f src/a; chmod 700 src; mv src src2",
            read=("src",),
            write=("out/",),
        )
        assert os.listdir(site.path("app/out")) == ["x"]
        assert os.listdir(site.path("app/src")) == ["a"]
        assert sorted(os.listdir(site.path("app"))) == ["out", "src"]
        assert ran.err.count("Read-only file system") >= 5
        assert not os.path.exists("/etc/vx-no")

    def test_missing_grants_are_made_and_used(self, site: Site) -> None:
        for _ in range(2):
            ran = site.run(
                "mkdir -p a/b/c && echo 1 > a/b/c/o && echo 2 > top.txt",
                write=("a/b/c/", "top.txt"),
            )
            assert (ran.code, ran.err) == (0, "")
        assert os.path.exists(site.path("app/a/b/c/o"))
        assert os.path.exists(site.path("app/top.txt"))

    def test_what_was_never_written_is_taken_back(self, site: Site) -> None:
        site.write("app/x")
        site.run("ls", write=("a/b/c/", "d/e.txt", "top.txt", "~/.cache/f.txt"))
        assert os.listdir(site.path("app")) == ["x"]
        assert os.listdir(site.environ["HOME"]) == []

    def test_a_narrow_write_grant_in_a_wide_read_grant(self, site: Site) -> None:
        site.write("app/ro/x", "x")
        ran = site.run(
            "cat ro/x && echo n > ro/rw/y; echo n > ro/z", read=("ro",), write=("ro/rw/",)
        )
        assert ran.code != 0
        assert sorted(os.listdir(site.path("app/ro"))) == ["rw", "x"]
        assert os.listdir(site.path("app/ro/rw")) == ["y"]

    def test_private_places_and_configs_inside_a_write_grant(self, site: Site) -> None:
        for name in ("app/.git/config", "app/.vx/c", "app/vx.toml", "app/sub/vx.toml"):
            site.write(name, "old")
        with_config(site, "app/vx.toml", "app/sub/vx.toml")
        ran = site.run(
            "for f in .git/config .git/new .vx/c vx.toml sub/vx.toml; do echo new > $f; done;"
            " rm -f vx.toml; mv .git g; cat vx.toml; echo ok > free",
            write=(".",),
        )
        assert ran.out == "old"
        assert os.listdir(site.path("app/.git")) == ["config"]
        for name in (".git/config", ".vx/c", "vx.toml", "sub/vx.toml"):
            with open(site.path(f"app/{name}"), encoding="utf-8") as file:
                assert file.read() == "old"
        assert os.path.exists(site.path("app/free"))

    def test_a_grant_that_cannot_be_made_is_refused(self, site: Site) -> None:
        site.write("app/file")
        error = refused(site, write=("file/below/",))
        assert "write grant 'file/below/' cannot be given" in error.message
        assert site.path("app/file/below") in error.message

    def test_two_boxes_share_a_place_that_was_not_there(self, site: Site) -> None:
        async def both() -> None:
            async with site.session() as (nursery, runtime):
                task = Task("app", "a", command="echo up; cat", sandbox=Sandbox(write=("d/",)))
                late = Task("app", "b", command="echo 1 > d/o", sandbox=Sandbox(write=("d/",)))
                async with live(nursery, runtime, late, site.environ) as second:
                    async with live(nursery, runtime, task, site.environ) as first:
                        await first.end()
                    assert (await second.end()).code == 0

        asyncio.run(both())
        assert os.listdir(site.path("app/d")) == ["o"]

    def test_it_is_taken_back_after_a_kill(self, site: Site) -> None:
        program = (
            "import asyncio, os, signal\n"
            "from tests.harness.boxes import make_site\n"
            "from vxwatch.model import Sandbox\n"
            "async def main():\n"
            f"    site = make_site({site.root!r})\n"
            "    async with site.boxed('echo up; sleep 60', 'app', Sandbox(write=('never/in/',))) as live:\n"
            "        await live.says('up')\n"
            f"        assert os.path.isdir({site.path('app/never/in')!r})\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "asyncio.run(main())\n"
        )
        done = subprocess.run([sys.executable, "-c", program], check=False)
        assert done.returncode == -signal.SIGKILL
        wait_for(lambda: not os.path.exists(site.path("app/never")), "the placeholders are gone")


class TestLinksThatLeave:
    def test_a_link_out_of_the_project_is_refused(self, site: Site) -> None:
        os.makedirs(site.path("../outside"))
        os.symlink(site.path("../outside"), site.path("app/a"))
        error = refused(site, write=("a/b/c/",))
        assert "write grant 'a/b/c/' leaves the project: a is a link to" in error.message
        assert os.listdir(site.path("../outside")) == []

    def test_a_dangling_one_too(self, site: Site) -> None:
        os.symlink("/vx-no-such/x", site.path("app/a"))
        assert "/vx-no-such/x" in refused(site, write=("a/",)).message
        assert "/vx-no-such/x" in refused(site, write=("a",)).message

    def test_a_glob_too(self, site: Site) -> None:
        os.makedirs(site.path("../outside/b"))
        os.symlink(site.path("../outside"), site.path("app/a"))
        assert "leaves the project" in refused(site, write=("a/*",)).message

    def test_a_link_made_by_the_task_leads_nowhere(self, site: Site) -> None:
        site.write("app/secret", "hidden")
        site.run("ln -s ../secret out/s; ln -s / out/r", write=("out/",))
        ran = site.run("cat out/s out/r/etc/vx-no; echo x > out/r/vx-no", write=("out/",))
        assert ran.out == ""
        assert not os.path.exists("/vx-no")

    def test_a_directory_swapped_for_a_link_still_binds_the_directory(self, site: Site) -> None:
        async def swap() -> None:
            os.makedirs(site.path("app/out"))
            os.makedirs(site.path("../outside"))
            async with site.session() as (nursery, runtime):
                task = Task("app", "t", command="echo 1 > out/x", sandbox=Sandbox(write=("out/",)))
                box = await runtime.box(task, "echo 1 > out/x", site.environ, "null")
                os.rename(site.path("app/out"), site.path("app/was"))
                os.symlink(site.path("../outside"), site.path("app/out"))

                async def ignore(*_: object) -> None:
                    return

                tree = await nursery.launch(box.launch, ignore)
                await box.open(tree)
                await tree.wait()
                await tree.stop(signal.SIGKILL, 0, asyncio.Event())
                await box.close()

        asyncio.run(swap())
        assert os.listdir(site.path("app/was")) == ["x"]
        assert os.listdir(site.path("../outside")) == []


class TestTemporary:
    def test_every_task_has_its_own_and_it_leaves_nothing(self, site: Site) -> None:
        before = set(os.listdir("/tmp"))
        told = [
            site.run("echo $TMPDIR; echo s > $TMPDIR/s && echo s > /tmp/s; ls /var/tmp")
            for _ in "ab"
        ]
        assert [ran.err for ran in told] == ["", ""]
        new = {
            name for name in set(os.listdir("/tmp")) - before if name == "s" or "vx-" in name[:3]
        }
        assert not new

    def test_no_two_tasks_have_the_same(self, site: Site) -> None:
        async def both() -> list[str]:
            async with site.session() as (nursery, runtime):
                task = Task("app", "a", command="echo $TMPDIR; cat", sandbox=Sandbox())
                async with (
                    live(nursery, runtime, task, site.environ) as a,
                    live(nursery, runtime, task, site.environ) as b,
                ):
                    return [(await a.end()).out, (await b.end()).out]

        assert len(set(asyncio.run(both()))) == 2

    def test_the_hosts_is_not_seen(self, site: Site) -> None:
        with open(os.path.join(os.environ["TMPDIR"], "theirs"), "w", encoding="utf-8"):
            pass
        ran = site.run(f"ls {os.environ['TMPDIR']}; find /tmp -name theirs; find /tmp -name empty")
        assert ran.out == ""

    def test_devices_are_few_and_work(self, site: Site) -> None:
        ran = site.run(
            "echo x > /dev/null && head -c4 /dev/urandom | wc -c;"
            " ls /dev/kmsg /dev/sda /dev/vda /dev/kvm; echo x > /dev/shm/s && echo shm"
        )
        assert ran.out.split() == ["4", "shm"]


def test_a_file_name_of_any_bytes(site: Site) -> None:
    name = os.path.join(os.fsencode(site.path("app")), b"caf\xe9 \n'x")
    os.mkdir(name)
    with open(name + b"/f", "w", encoding="utf-8") as file:
        file.write("there")
    ran = site.run("cat */f", read=(os.fsdecode(os.path.basename(name)),))
    assert ran.out == "there"


def test_a_workspace_behind_a_link(site: Site) -> None:
    os.symlink(site.root, site.path("../link"))
    site.write("app/a", "a")
    linked = make_site(site.path("../link"))
    assert linked.run("pwd; echo $PWD; cat a", read=(".",)).out.split() == [
        *[site.path("app")] * 2,
        "a",
    ]
