"""Tasks that go for the kernel, other processes and the terminal: each attempt is real, and fails."""

import os
import shutil
import signal

import pytest

from tests.harness.boxes import Site
from tests.harness.hostile import USER, Attacker, attackers

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

MS_BIND, MS_REMOUNT = 4096, 32


@pytest.fixture(params=attackers())
def attacker(site: Site, request: pytest.FixtureRequest) -> Attacker:
    return Attacker(site, request.param)


def mount(source: str, target: str, kind: str, flags: int) -> str:
    """An attempt to mount."""
    words = f"{source.encode()!r}, {target.encode()!r}, {kind.encode()!r}, {flags}"
    return f"must(libc.mount({words}, None))"


def test_mounts_are_neither_made_nor_undone(attacker: Attacker) -> None:
    attempts = {
        "remount": mount("", "/", "", MS_REMOUNT | MS_BIND),
        "remount-grant": mount("", "src", "", MS_REMOUNT | MS_BIND),
        "tmpfs": mount("x", "/mnt", "tmpfs", 0),
        "bind": mount("/", "/mnt", "", MS_BIND),
        "umount": "must(libc.umount2(b'/run', 2))",
        "chroot": "os.chroot('/proc/1/root/..')",
    }
    attacker.site.write("app/src/a")
    assert attacker.tries(attempts, read=("src",)) == dict.fromkeys(attempts, "EPERM")


def test_a_namespace_of_its_own_gives_it_no_more(attacker: Attacker) -> None:
    inside = "call({}, 0x10020000); ".format({"x86_64": 272, "aarch64": 97}[os.uname().machine])
    attempts = {
        "may": inside + "assert True",
        "umount": inside + "must(libc.umount2(b'/run', 2))",
        "remount": inside + mount("", "/", "", MS_REMOUNT | MS_BIND),
        "remount-grant": inside + mount("", "src", "", MS_REMOUNT | MS_BIND),
        "write": inside + "write('/usr/vx-was-here')",
        "sysctl": inside + "write('/proc/sys/vm/swappiness', '60')",
    }
    attacker.site.write("app/src/a")
    told = attacker.tries(attempts, read=("src",))
    assert told.pop("may") == "ok"
    assert "ok" not in told.values(), told
    assert not os.path.exists("/usr/vx-was-here")


def test_kernel_settings_are_not_written(attacker: Attacker) -> None:
    names = (
        *("/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness", "/proc/sysrq-trigger"),
        *("/sys/kernel/mm/transparent_hugepage/enabled", "/sys/fs/cgroup/cgroup.procs"),
        "/proc/sys/kernel/modprobe",
    )
    attempts = {name: f"os.open({name!r}, os.O_WRONLY)" for name in names if os.path.exists(name)}
    told = attacker.tries(attempts)
    assert set(told.values()) <= {"EROFS", "EACCES", "EPERM"}, told
    if not attacker.is_user and os.geteuid() == 0:
        assert attacker.outside(attempts)["/proc/sys/vm/swappiness"] == "ok"


def test_other_processes_are_not_there(attacker: Attacker) -> None:
    stranger = os.getpid()
    attempts = {
        "kill": f"os.kill({stranger}, 0)",
        "ptrace": f"must(libc.ptrace(16, {stranger}, None, None))",
        "environ": f"read('/proc/{stranger}/environ')",
        "root": f"os.listdir('/proc/{stranger}/root')",
        "fds": "assert [n for n in os.listdir('/proc/1/fd') if os.readlink('/proc/1/fd/' + n)[:1] == '/'"
        " and '/dev/' not in os.readlink('/proc/1/fd/' + n)]",
        "init's root": "assert os.path.exists('/proc/1/root/root/.bashrc') or os.listdir('/proc/1/root/run')",
        "init's cwd": "assert os.listdir('/proc/1/cwd/..') != ['app']",
        "parent": "assert os.getppid() == 0 or os.path.exists('/proc/%d' % 99999)",
    }
    told = attacker.tries(attempts)
    assert told == {
        "kill": "ESRCH",
        "ptrace": "ESRCH",
        "environ": "ENOENT",
        "root": "ENOENT",
        "fds": "nothing",
        "init's": told.get("init's", ""),
        "parent": "nothing",
    }
    if not attacker.is_user:
        assert attacker.outside({"kill": attempts["kill"]})["kill"] == "ok"


def test_system_calls_that_pass_walls_do_not_work(attacker: Attacker) -> None:
    keyctl = {"x86_64": 250, "aarch64": 219}[os.uname().machine]
    terminal = "a, b = os.openpty(); "
    attempts = {
        "io_uring": "call(425, 4, ctypes.create_string_buffer(120))",
        "keyctl": f"call({keyctl}, 0, -3, 0, 0, 0)",
        "typing": terminal + "fcntl.ioctl(b, 0x5412, b'x')",
        "typing-high": terminal + "must(libc.ioctl(b, ctypes.c_ulong(1 << 32 | 0x5412), b'x'))",
        "console": terminal + "fcntl.ioctl(b, 0x541C, b'x')",
    }
    assert attacker.tries(attempts) == {
        "io_uring": "ENOSYS",
        **dict.fromkeys(("keyctl", "typing", "typing-high", "console"), "EPERM"),
    }
    assert attacker.outside({"keyctl": attempts["keyctl"]}) == {"keyctl": "ok"}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the other entry points are x86's")
def test_other_entry_points_of_the_kernel_kill(attacker: Attacker) -> None:
    def machine_code(code: bytes) -> str:
        return (
            f"m = mmap.mmap(-1, 4096, prot=7); m.write({code!r});"
            "f = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)));"
            "assert f() > 0"
        )

    attempts = {
        "int80": machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"),  # getpid of i386
        "x32": machine_code(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"),  # getpid of x32
        "control": machine_code(b"\xb8\x27\x00\x00\x00\x0f\x05\xc3"),
    }
    killed = f"signal {int(signal.SIGSYS)}"
    assert attacker.tries(attempts) == {"int80": killed, "x32": killed, "control": "ok"}


@as_root
def test_setuid_programs_give_nothing(site: Site) -> None:
    attacker = Attacker(site, True)
    attacker.own()
    program = site.path("app/rootid")
    shutil.copy("/usr/bin/id", program)
    os.chown(program, 0, 0)
    os.chmod(program, 0o4755)
    ran = attacker.run("./rootid -u; grep NoNewPrivs /proc/self/status", read=(".",))
    assert ran.out.split() == [str(USER), "NoNewPrivs:", "1"]
    control = {"setuid": "assert subprocess.check_output(['./rootid', '-u']) == b'0\\n'"}
    assert attacker.outside(control) == {"setuid": "ok"}


@as_root
def test_device_nodes_do_not_open(site: Site) -> None:
    for is_user in (False, True):
        attacker = Attacker(site, is_user)
        node = site.path("app/zero")
        if not os.path.exists(node):
            os.mknod(node, 0o20666, os.makedev(1, 5))
            os.chmod(node, 0o666)
        attempts = {
            "granted": "open('zero', 'rb').read(1)",
            "made": "os.mknod('/tmp/n', 0o20666, os.makedev(1, 5))",
            "in-dev": "os.mknod('/dev/n', 0o20666, os.makedev(1, 5))",
            "memory": "open('/dev/mem', 'rb')",
            "log": "open('/dev/kmsg', 'rb')",
        }
        told = attacker.tries(attempts, read=(".",))
        assert told == {
            "granted": "EACCES",
            "made": "EPERM",
            "in-dev": told["in-dev"],
            "memory": "ENOENT",
            "log": "ENOENT",
        }
        assert told["in-dev"] in {"EPERM", "EROFS"}
        assert attacker.outside({"granted": attempts["granted"]}) == {"granted": "ok"}


def test_memory_is_bounded_and_masks_hold_nothing(attacker: Attacker) -> None:
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    masks = ("/run", "/mnt", "/media", "/dev", attacker.site.root)
    attempts = {
        **{
            f"fill-{place}": f"f = open('{place}/f', 'wb'); os.posix_fallocate(f.fileno(), 0, {room} + (1 << 20))"
            for place in ("/tmp", "/var/tmp", "/dev/shm")
        },
        **{f"use-{place}": f"write('{place}/g')" for place in ("/tmp", "/var/tmp", "/dev/shm")},
        **{f"mask-{place}": f"os.chmod({place!r}, 0o777); write('{place}/f')" for place in masks},
    }
    told = attacker.tries(attempts)
    for name, outcome in told.items():
        expected = {"f": {"ENOSPC"}, "u": {"ok"}, "m": {"EROFS", "EPERM", "ENOENT"}}[name[0]]
        assert outcome in expected, (name, outcome)
    mounts = attacker.run(
        "grep -v ' - proc ' /proc/self/mountinfo | cut -d' ' -f5,6 | grep ' rw'"
    ).out
    assert {line.split()[0] for line in mounts.splitlines()} <= {
        *("/dev/shm", "/dev/pts", "/tmp", "/var/tmp"),
        *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
    }
