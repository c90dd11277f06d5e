"""What a box keeps of the network, the kernel and other processes, and how its command ends."""

import asyncio
import os
import shutil
import signal
import socket
import sys

import pytest

from tests.harness.boxes import Ran, Site, live
from tests.harness.processes import alive
from tests.harness.waiting import wait_for
from vxwatch.model import Sandbox, Task

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

PYTHON = shutil.which("python3", path="/usr/bin:/bin") or sys.executable


def tried(site: Site, *attempts: str) -> list[str]:
    """For each Python expression: `ok`, or the name of the error it ends in."""
    lines = ["import ctypes, errno, os, socket", "libc = ctypes.CDLL(None, use_errno=True)"]
    for attempt in attempts:
        lines += [
            f"try: {attempt}; print('ok')",
            "except OSError as error: print(errno.errorcode[error.errno])",
        ]
    site.write("app/try.py", "\n".join(lines))
    ran = site.run(f"{PYTHON} -S try.py", read=("try.py",))
    assert ran.err == ""
    return ran.out.split()


class TestNetwork:
    def test_only_the_own_loopback(self, site: Site) -> None:
        assert tried(
            site,
            "s = socket.create_server(('127.0.0.1', 8080)); socket.create_connection(('localhost', 8080))",
            "s6 = socket.create_server(('::1', 8080), family=socket.AF_INET6)",
            "socket.create_connection(('203.0.113.9', 80), 5)",
            "open('/proc/net/dev').read().count(':') == 1 or socket.socket(99)",
        ) == ["ok", "ok", "ENETUNREACH", "ok"]

    def test_the_hosts_loopback_is_not_reached(self, site: Site) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            assert tried(site, f"socket.create_connection(('127.0.0.1', {port}), 5)") == [
                "ECONNREFUSED"
            ]

    def test_ways_around_it_are_closed(self, site: Site) -> None:
        assert tried(
            site,
            "socket.socket(socket.AF_UNIX)",
            "socket.socketpair()",
            "socket.socket(socket.AF_VSOCK)",
            "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        ) == ["EPERM", "ok", "EAFNOSUPPORT", "EAFNOSUPPORT", "ok"]


class TestKernel:
    def test_calls_that_pass_the_walls_are_refused(self, site: Site) -> None:
        def call(*arguments: object) -> str:
            words = ", ".join(map(str, arguments))
            return f"libc.syscall({words}) >= 0 or exec('raise OSError(ctypes.get_errno(), str())')"

        keyctl = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
        assert tried(site, call(425, 4, 0), call(keyctl, 0, -3, 0)) == ["ENOSYS", "EPERM"]

    def test_no_capability_and_nothing_undone(self, site: Site) -> None:
        ran = site.run(
            "grep CapEff /proc/self/status; mount -o remount,rw,bind / ; umount -l /proc/sys;"
            " mount -t tmpfs none /mnt; cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness;"
            " echo core > /proc/sys/kernel/core_pattern"
        )
        assert "CapEff:\t0000000000000000" in ran.out
        assert ran.code != 0
        assert len(ran.err.splitlines()) >= 5

    def test_own_processes_only_and_no_descriptor_of_ours(self, site: Site) -> None:
        ran = site.run("ls /proc | grep -c '^[0-9]'; ls /proc/self/fd; echo -; ls /proc/1/fd")
        (count, *own), init = (part.split() for part in ran.out.split("-"))
        assert int(count) < 10
        assert own == ["0", "1", "2", "3"]  # 3: ls itself reads the directory
        assert len(init) == 4  # the last is an eventfd of bubblewrap's

    def test_the_environment_of_the_init_is_the_tasks(self, site: Site) -> None:
        site.environ["MARK"] = "seen"
        ran = site.run("tr '\\0' '\\n' < /proc/1/environ | sort; echo; env | sort")
        init, _, own = ran.out.partition("\n\n")
        assert "MARK=seen" in init
        assert set(init.splitlines()) >= {
            line for line in own.splitlines() if not line.startswith(("_=", "SHLVL=", "OLDPWD="))
        }

    @as_root
    def test_what_only_root_could_read_is_hidden(self, site: Site) -> None:
        ran = site.run("cat /etc/shadow; ls -A /etc/ssh /var/lib; ls -A /root/.ssh")
        assert ran.out.replace("/etc/ssh:", "").replace("/var/lib:", "").split() == []

    @as_root
    def test_a_toolchain_of_root_that_the_owner_may_not_enter_is_named(
        self, site: Site, temp_home: str
    ) -> None:
        home = site.environ["HOME"]
        os.makedirs(f"{home}/closed/bin", 0o700)
        os.chmod(f"{home}/closed", 0o700)
        site.environ["PATH"] = f"{home}/closed/bin:/usr/bin:/bin"
        os.chown(site.root, 12345, 12346)

        async def missing() -> str:
            async with site.session() as (_, runtime):
                task = Task("app", "t", command="x", sandbox=Sandbox())
                box = await runtime.box(task, "x", site.environ, "null")
                await box.close()
                assert box.explain(1) == ""
                return box.explain(127)

        assert f"may not use the programs in {home}/closed/bin" in asyncio.run(missing())

    @as_root
    def test_in_somebodys_workspace_the_box_is_theirs(self, site: Site) -> None:
        for directory, _, _ in os.walk(os.path.dirname(site.root)):
            os.chown(directory, 12345, 12346)
        ran = site.run("id -u; id -g; id -G; touch out/x; ls -ld . | cut -c1-10", write=("out/",))
        assert ran.out.split()[:3] == ["12345", "12346", "12346"]
        status = os.stat(site.path("app/out/x"))
        assert (status.st_uid, status.st_gid) == (12345, 12346)
        assert os.stat(site.path("app/out")).st_uid == 12345


class TestEnding:
    def stopped(self, site: Site, command: str, sig: int = signal.SIGTERM) -> Ran:
        async def stop() -> Ran:
            async with site.boxed(command, "app", Sandbox(write=("out/",))) as live:
                await live.says("up")
                return await live.stop(sig)

        return asyncio.run(stop())

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("exit 0", 0),
            ("exit 3", 3),
            ("vx-no-such-command", 127),
            ("./plain.txt", 126),
            ("kill -9 $$", 137),
            ("kill -TERM $$", 143),
        ],
    )
    def test_the_exit_code_is_the_commands(self, site: Site, command: str, code: int) -> None:
        site.write("app/plain.txt")
        ran = site.run(command, read=("plain.txt",))
        assert (ran.code, ran.started, ran.out) == (code, True, "")
        assert ran.err == "" or code in {126, 127}

    def test_the_box_ends_with_its_command(self, site: Site) -> None:
        ran = site.run("(setsid sleep 600 &) ; sleep 600 & echo done; exit 4")
        assert (ran.code, ran.out) == (4, "done\n")

    @pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "QUIT"])
    def test_a_polite_stop_reaches_the_trap(self, site: Site, name: str) -> None:
        command = (
            f"trap 'sleep 0.2; echo trapped; exit 5' {name}; echo up; while :; do sleep 0.01; done"
        )
        ran = self.stopped(site, command, getattr(signal, f"SIG{name}"))
        assert (ran.code, ran.out) == (5, "up\ntrapped\n")

    def test_a_child_that_still_cleans_up_is_waited_for(self, site: Site) -> None:
        child = (
            "trap 'sleep 0.3; echo child > out/c; exit' TERM; echo up; while :; do sleep 0.01; done"
        )
        ran = self.stopped(site, f"trap 'exit 5' TERM; ({child}) & while :; do sleep 0.01; done")
        assert ran.code == 5
        with open(site.path("app/out/c"), encoding="utf-8") as file:
            assert file.read() == "child\n"

    def test_without_a_trap_it_ends_as_the_signal_ends_it(self, site: Site) -> None:
        assert self.stopped(site, "echo up; sleep 600").code == 143
        assert self.stopped(site, "echo up; exec sleep 600", signal.SIGINT).code == 130

    def test_a_deaf_command_is_killed(self, site: Site) -> None:
        async def stop() -> int:
            command = "trap '' TERM; echo up; while :; do sleep 0.05; done"
            async with site.boxed(command) as live:
                await live.says("up")
                return (await live.stop(grace=0.2)).code

        assert asyncio.run(stop()) == 137

    def test_a_stop_is_never_lost_however_early(self, site: Site) -> None:
        async def stops() -> None:
            command = "trap 'exit 5' TERM; while :; do sleep 0.02; done"
            task = Task("app", "t", command=command, sandbox=Sandbox())
            async with site.session() as (nursery, runtime):
                for number in range(20):
                    async with live(nursery, runtime, task, site.environ) as alive:
                        await asyncio.sleep(number * 0.0015)
                        begun = asyncio.get_running_loop().time()
                        await alive.stop(grace=30)
                        assert asyncio.get_running_loop().time() - begun < 15

        asyncio.run(stops())

    def test_it_dies_with_the_process_outside(self, site: Site) -> None:
        async def kill() -> None:
            async with site.boxed("echo up; sleep 600") as live:
                await live.says("up")
                init = live.tree.init
                assert init is not None
                os.kill(live.tree.pid, signal.SIGKILL)
                await asyncio.to_thread(wait_for, lambda: not alive(init), "the box is gone")

        asyncio.run(kill())

    def test_stdin_is_at_its_end_or_held(self, site: Site) -> None:
        assert site.run("read x; echo got $?").out == "got 1\n"
