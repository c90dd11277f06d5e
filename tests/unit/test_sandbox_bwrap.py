"""What bubblewrap is told."""

from vxwatch.sandbox.bwrap import Programs, Shape, arguments, command_line
from vxwatch.sandbox.policy import Mount

PROGRAMS = Programs(bwrap="/b/bwrap", sh="/b/sh")
DEVICES = [
    *("--dev", "/dev", "--perms", "1777", "--size", "77", "--tmpfs", "/dev/shm"),
    *("--remount-ro", "/dev"),
]
SYSTEM = ["--ro-bind", "/", "/", *DEVICES, "--proc", "/proc"]


def words(
    *mounts: Mount, root_user: bool = False, own_proc: bool = True, **descriptors: int
) -> list[str]:
    found = {f"/{name}": number for name, number in descriptors.items()}
    shape = Shape("/d", 77, root_user=root_user, own_proc=own_proc)
    data = arguments(mounts, found, shape)
    assert data.endswith(b"\0")
    return data.decode("utf-8", "surrogateescape").split("\0")[:-1]


def test_the_command_is_one_word_and_never_in_the_environment() -> None:
    argv = command_line(PROGRAMS, "echo 'a b'; exit", blocked=False)
    assert argv[0] == "/b/bwrap"
    assert argv[-4:] == ("--", "/b/sh", "-c", "echo 'a b'; exit")
    assert "--block-fd" not in argv
    assert not {"--setenv", "--unsetenv", "--clearenv"} & set(argv)


def test_nothing_of_the_host_is_shared() -> None:
    argv = command_line(PROGRAMS, "x", blocked=True)
    kinds = ("user", "pid", "net", "ipc", "uts")
    assert {f"--unshare-{kind}" for kind in kinds} <= set(argv)
    assert {"--die-with-parent", "--new-session", "--seccomp", "--block-fd"} <= set(argv)
    assert argv[argv.index("--cap-drop") + 1] == "ALL"


def test_the_system_is_read_only_with_own_devices_and_processes() -> None:
    assert words() == [*SYSTEM, "--chdir", "/d"]


def test_where_no_own_proc_can_be_mounted_the_one_around_stays_read_only() -> None:
    assert words(own_proc=False, root_user=True) == [*SYSTEM[:-2], "--chdir", "/d"]


def test_root_gets_no_kernel_settings() -> None:
    said = words(root_user=True)
    assert said[len(SYSTEM) :][:3] == ["--ro-bind", "/proc/sys", "/proc/sys"]
    assert "/proc/sysrq-trigger" in said


def test_each_kind_of_mount() -> None:
    said = words(
        Mount("/m", "mask"),
        Mount("/r", "read"),
        Mount("/w", "write"),
        Mount("/h", "blank"),
        Mount("/s", "scratch"),
        Mount("/f", "folder"),
        Mount("/l", "link", "to"),
        r=10,
        w=11,
        h=12,
    )[len(SYSTEM) : -2]
    assert said == [
        *("--perms", "0555", "--tmpfs", "/m"),
        *("--ro-bind-fd", "10", "/r"),
        *("--bind-fd", "11", "/w"),
        *("--perms", "0444", "--ro-bind-data", "12", "/h"),
        *("--perms", "1777", "--size", "77", "--tmpfs", "/s"),
        *("--perms", "0755", "--dir", "/f"),
        *("--symlink", "to", "/l"),
        *("--remount-ro", "/m"),
    ]


def test_masks_are_sealed_after_what_they_hold_inner_first() -> None:
    said = words(
        Mount("/m", "mask", filled=True),
        Mount("/m/n", "mask", filled=True),
        Mount("/m/n/w", "folder"),
    )[len(SYSTEM) : -2]
    assert said[-4:] == ["--remount-ro", "/m/n", "--remount-ro", "/m"]
    assert said.index("--dir") < said.index("--remount-ro")


def test_any_file_name_survives() -> None:
    name = "/x\udcff\n"
    assert f"/a{name}".encode("utf-8", "surrogateescape") in arguments(
        [Mount(f"/a{name}", "folder")], {}, Shape("/d", 77, root_user=False)
    )
