"""What a launched process is: its output, its exit, and everything it inherits."""

import asyncio
import contextlib
import os
import resource
import signal
import stat
import sys

import pytest

from tests.harness.trees import ENVIRONMENT, Heard, end, sh
from vxwatch.errors import UserError
from vxwatch.process.helper import HelperProcess
from vxwatch.process.nursery import Launch, Nursery
from vxwatch.process.tree import Exit, LaunchError

ONLY_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


async def _run(launch: Launch) -> tuple[Exit, Heard]:
    async with Nursery.open() as nursery:
        heard = Heard()
        tree = await nursery.launch(launch, heard)
        return await tree.wait(), heard


def run(launch: Launch) -> tuple[Exit, Heard]:
    return asyncio.run(_run(launch))


def python(code: str, **options: object) -> Launch:
    argv = (sys.executable, "-I", "-S", "-c", code)
    return Launch(**{"argv": argv, "cwd": "/", "env": ENVIRONMENT, **options})  # type: ignore[arg-type]


def test_both_streams_and_the_exit_code_come_back() -> None:
    ended, heard = run(sh("echo out; echo err >&2; exit 7"))
    assert (ended.code, heard.stdout, heard.stderr) == (7, b"out\n", b"err\n")
    assert ended.started
    assert not ended.output_cut


def test_a_death_by_signal_is_128_and_its_number() -> None:
    ended, _ = run(sh("kill -SEGV $$"))
    assert ended.code == 128 + signal.SIGSEGV


def test_bytes_that_are_no_text_arrive_as_they_were_written() -> None:
    _, heard = run(sh(r"printf '\377\0\376 %s' \"$ODD\"", env={**ENVIRONMENT, "ODD": "\udcfe"}))
    assert heard.stdout == b'\xff\x00\xfe "\xfe"'


def test_time_and_memory_are_those_of_the_tree() -> None:
    busy = "x = b'x' * 60_000_000\nimport time\nwhile time.process_time() < 0.2: pass"
    ended, _ = run(sh(f'{sys.executable} -I -S -c "{busy}"; :'))
    assert ended.cpu >= 0.2
    assert 60_000_000 < ended.peak_rss < 200_000_000


def test_the_environment_is_the_given_one_and_the_mark() -> None:
    async def marks() -> tuple[str, bytes]:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(
                Launch(("/usr/bin/env", "-0"), "/", {"ONLY": "this"}), heard
            )
            await tree.wait()
            return tree.mark, heard.stdout

    mark, written = asyncio.run(marks())
    assert sorted(written.split(b"\0")[:-1]) == [b"ONLY=this", f"VX_TREE={mark}".encode()]


def test_an_environment_larger_than_any_packet_arrives() -> None:
    large = {f"V{number}": "x" * 100_000 for number in range(15)}
    _, heard = run(sh("env | wc -c", env={**ENVIRONMENT, **large}))
    assert int(heard.stdout) > 1_500_000


def test_a_launch_is_a_session_of_its_own_in_its_directory(tmp_path: object) -> None:
    code = "import os; print(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd())"
    _, heard = run(python(code, cwd=str(tmp_path)))
    assert heard.stdout.decode() == f"True {tmp_path}\n"


def test_only_the_given_descriptors_are_open(tmp_path: object) -> None:
    other = os.open("/", os.O_RDONLY)
    os.set_inheritable(other, True)
    with open(f"{tmp_path}/given", "w+b") as file:
        code = (
            "import os; os.write(9, b'through 9'); found = []\n"
            "for number in range(200):\n"
            "    try: os.fstat(number); found.append(number)\n"
            "    except OSError: pass\n"
            "print(found)"
        )
        _, heard = run(python(code, fds={9: file.fileno()}))
        os.close(other)
        assert heard.stdout == b"[0, 1, 2, 9]\n"
        file.seek(0)
        assert file.read() == b"through 9"


def test_a_descriptor_given_under_the_number_of_another_is_not_mixed_up(tmp_path: object) -> None:
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(f"{tmp_path}/{n}", "w+b")) for n in range(12)]
        fds = {40 - number: file.fileno() for number, file in enumerate(files)}
        fds |= {number + 3: file.fileno() for number, file in enumerate(files)}
        code = "import os\nfor n in range(12): os.write(40 - n, b'%d ' % n); os.write(n + 3, b'%d' % n)"
        ended, heard = run(python(code, fds=fds))
        assert (ended.code, heard.stderr) == (0, b"")
        for number, file in enumerate(files):
            file.seek(0)
            assert file.read() == b"%d %d" % (number, number)


def test_stdin_is_empty_or_held_open() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            heard = Heard()
            tree = await nursery.launch(sh("cat; echo ended"), heard)
            assert (await tree.wait()).code == 0
            assert heard.stdout == b"ended\n"
            heard = Heard()
            code = (
                "import select; print('up', flush=True);"
                "print(select.select([0], [], [], 0.3)); print('never at its end')"
            )
            tree = await nursery.launch(python(code, stdin="held"), heard)
            assert (await tree.wait()).code == 0
            assert heard.stdout == b"up\n([], [], [])\nnever at its end\n"

    asyncio.run(scenario())


def test_signals_and_limits_are_the_defaults() -> None:
    # Ours are turned away from the defaults first: what vx does to itself must not show.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
    try:
        # Without a shell, which would clear its mask itself.
        grep = ("/bin/grep", "-hE", "^(Sig(Blk|Ign)|Max open files)")
        launch = Launch((*grep, "/proc/self/status", "/proc/self/limits"), "/", ENVIRONMENT)
        _, heard = run(launch)
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGUSR2])
    *sets, limit = heard.stdout.split(b"\n")[:-1]
    # The lowest 31: glibc's own posix_spawn ignores the two of its threads.
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in sets] == [0, 0]
    assert int(limit.split()[3]) == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@pytest.mark.parametrize(
    ("argv", "cwd", "code", "message"),
    [
        (("/bin/true",), "/no/such", 127, "the working directory /no/such does not exist"),
        (("/bin/true",), "/bin/true", 127, "the working directory /bin/true does not exist"),
        (("/no/such",), "/", 127, "/no/such: no such program"),
        (("/etc/passwd",), "/", 126, "/etc/passwd is not executable: Permission denied"),
        (("/",), "/", 126, "/ is not executable: Permission denied"),
        (
            ("/bin/true", "x" * 3_000_000),
            "/",
            126,
            "cannot start /bin/true: Argument list too long",
        ),
        (("/bin/true", "a\0b"), "/", 126, "cannot start /bin/true: Invalid argument"),
    ],
)
@pytest.mark.parametrize("owner", [None, pytest.param((12345, 23456), marks=ONLY_ROOT)])
def test_a_failed_start_says_which_it_was(
    argv: tuple[str, ...], cwd: str, code: int, message: str, owner: tuple[int, int] | None
) -> None:
    with pytest.raises(LaunchError) as failure:
        run(Launch(argv, cwd, ENVIRONMENT, owner=owner))
    assert (failure.value.code, failure.value.message) == (code, message)


@pytest.mark.parametrize(
    ("launch", "hint"),
    [
        (sh("true", env={"LARGE": "x" * 3_000_000}), "pass it less"),
        (sh("true", env={str(n): "x" * 100_000 for n in range(100)}), "pass it less"),
        (sh("true " + "x" * 3_000_000), "pass it less"),
    ],
    ids=["a variable", "many variables", "an argument"],
)
def test_what_is_too_large_to_start_is_said_with_a_hint(launch: Launch, hint: str) -> None:
    with pytest.raises(LaunchError, match="cannot start /bin/sh: Argument list") as failure:
        run(launch)
    assert hint in failure.value.hint


def test_a_box_that_cannot_be_started_says_which_it_was(tmp_path: object) -> None:
    for argv, cwd, code in (
        (("/bin/true",), f"{tmp_path}/gone", 127),
        (("/no/such/bwrap",), "/", 127),
        (("/etc/passwd",), "/", 126),
    ):
        with pytest.raises(LaunchError) as failure:
            run(Launch(argv, cwd, ENVIRONMENT, boxed=True))
        assert failure.value.code == code


def test_a_script_without_its_interpreter_is_told_from_a_missing_one(temp_home: str) -> None:
    script = f"{temp_home}/script"
    with open(script, "w") as file:
        file.write("#!/no/such/interpreter\n")
    os.chmod(script, 0o755)
    with pytest.raises(LaunchError) as failure:
        run(Launch((script,), "/", ENVIRONMENT))
    assert failure.value.message == f"the interpreter that {script} names does not exist"
    if os.geteuid() == 0:
        with pytest.raises(LaunchError) as failure:
            run(Launch((script,), "/", ENVIRONMENT, owner=(12345, 23456)))
        assert failure.value.message == f"the interpreter that {script} names does not exist"
    with open(script, "w") as file:
        file.write("neither\x00this\n")
    with pytest.raises(LaunchError) as failure:
        run(Launch((script,), "/", ENVIRONMENT))
    assert failure.value.code == 126
    os.unlink(script)


@ONLY_ROOT
def test_an_owner_is_who_the_process_is(tmp_path: object) -> None:
    _, heard = run(sh("grep -E '^(Uid|Gid|Groups)' /proc/self/status", owner=(12345, 23456)))
    words = heard.stdout.split()
    assert words == [b"Uid:", *[b"12345"] * 4, b"Gid:", *[b"23456"] * 4, b"Groups:"]
    os.chmod(str(tmp_path), 0o700)
    with pytest.raises(LaunchError) as failure:
        run(sh("true", owner=(12345, 23456), cwd=str(tmp_path)))
    assert failure.value.code == 126
    assert failure.value.message.startswith("cannot enter the working directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may become anybody")
def test_an_owner_that_cannot_be_had_is_an_error() -> None:
    with pytest.raises(LaunchError) as failure:
        run(sh("true", owner=(0, 0)))
    assert failure.value.code == 126


def test_without_descriptors_left_a_launch_fails_cleanly_and_the_next_one_works() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("true"), Heard())
            await tree.wait()
            open_now = len(os.listdir("/proc/self/fd"))
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            for spare in range(12):
                resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + spare, limits[1]))
                try:
                    with contextlib.suppress(LaunchError):
                        tree = await nursery.launch(sh("exit 3"), Heard())
                        assert (await tree.wait()).code == 3
                        await end(tree)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            await asyncio.sleep(0)
            assert len(os.listdir("/proc/self/fd")) <= open_now
            tree = await nursery.launch(sh("exit 4"), Heard())
            assert (await tree.wait()).code == 4

    asyncio.run(scenario())


def test_a_nursery_without_descriptors_left_says_so() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            held = [await nursery.launch(sh("sleep 600", stdin="held"), Heard()) for _ in range(3)]
            pid = int((await _read_stat(held[0].pid))[1])
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (12, 4096))

            async def exhaust() -> None:
                for _ in range(12):
                    await nursery.launch(sh("sleep 600", stdin="held"), Heard())

            with pytest.raises(LaunchError, match="Too many open files"):
                await exhaust()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (1024, 4096))
            tree = await nursery.launch(sh("exit 4"), Heard())
            assert (await tree.wait()).code == 4

    asyncio.run(scenario())


async def _read_stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat") as file:  # noqa: ASYNC230  # in memory
        return file.read().rpartition(") ")[2].split()


@ONLY_ROOT
def test_an_owner_without_processes_left_is_an_error_with_a_hint() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            resource.prlimit(nursery._helper.pid, resource.RLIMIT_NPROC, (1, 4096))
            owner = (12347, 23456)
            for _ in range(2):  # the limit is looked at before the next one counts
                await nursery.launch(sh("exec sleep 600", owner=owner), Heard())
            with pytest.raises(LaunchError, match="Resource temporarily unavailable") as failure:
                await nursery.launch(sh("true", owner=owner), Heard())
            assert "ulimit -u" in failure.value.hint
            resource.prlimit(nursery._helper.pid, resource.RLIMIT_NPROC, (4096, 4096))
            tree = await nursery.launch(sh("exit 4", owner=owner), Heard())
            assert (await tree.wait()).code == 4

    asyncio.run(scenario())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may have any number of processes")
def test_without_processes_left_a_launch_fails_cleanly_and_the_next_one_works() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:
            tree = await nursery.launch(sh("sleep 600"), Heard())
            pid = int((await _read_stat(tree.pid))[1])
            limits = resource.prlimit(pid, resource.RLIMIT_NPROC, (1, 4096))
            with pytest.raises(LaunchError, match="Resource temporarily unavailable"):
                await nursery.launch(sh("true"), Heard())
            resource.prlimit(pid, resource.RLIMIT_NPROC, (min(4096, limits[1]), 4096))
            assert (await (await nursery.launch(sh("exit 4"), Heard())).wait()).code == 4

    asyncio.run(scenario())


def test_many_launches_at_once_all_end_as_they_should() -> None:
    async def scenario() -> None:
        async with Nursery.open() as nursery:

            async def one(number: int) -> None:
                heard = Heard()
                tree = await nursery.launch(sh(f"echo {number}; exit {number % 50}"), heard)
                ended = await tree.wait()
                await end(tree)
                assert (ended.code, heard.stdout) == (number % 50, b"%d\n" % number)

            async with asyncio.TaskGroup() as group:
                for number in range(100):
                    group.create_task(one(number))

    asyncio.run(scenario())


def test_launches_asked_of_a_busy_nursery_wait_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(HelperProcess, "_resume_if_stopped", lambda _: None)

    async def scenario() -> None:
        async with Nursery.open() as nursery:
            await (await nursery.launch(sh("true"), Heard())).wait()
            pid = nursery._helper.pid
            os.kill(pid, signal.SIGSTOP)
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limits[1]), limits[1]))
            try:
                # More packets than the socket holds; registering is a packet of its own.
                for number in range(2000):
                    nursery._link.post("register", b"/nowhere/%d" % number + b"x" * 500, None)
                launches = [
                    asyncio.create_task(nursery.launch(sh(f"exit {number}"), Heard()))
                    for number in range(50)
                ]
                await asyncio.sleep(0.05)
                assert not any(launch.done() for launch in launches)
                os.kill(pid, signal.SIGCONT)
                codes = [(await (await launch).wait()).code for launch in launches]
                assert codes == list(range(50))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    asyncio.run(scenario())


def test_a_session_that_gets_no_process_says_so_and_leaves_nothing() -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> list[tuple[str, str]]:
        before = len(os.listdir("/proc/self/fd"))
        told = []
        for spare in range(9):
            resource.setrlimit(resource.RLIMIT_NOFILE, (before + spare, limits[1]))
            try:
                async with Nursery.open():
                    pass
            except UserError as error:
                told.append((error.slug, error.hint))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert len(os.listdir("/proc/self/fd")) == before
            assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        return told

    told = asyncio.run(scenario())
    assert 3 <= len(told) < 9
    assert set(told) == {("no-process", "raise the limit on open files: ulimit -n")}


@pytest.mark.parametrize("python", ["/no/such/python", "/etc/passwd", "/"])
def test_a_python_that_cannot_be_started_is_no_question_of_limits(
    python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", python)
    with pytest.raises(UserError, match=f"cannot start {python}, the Python") as failure:
        run(sh("true"))
    assert failure.value.slug == "no-process"
    assert "limit" not in failure.value.hint


def test_without_a_place_for_its_directory_a_session_does_not_start(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(UserError) as failure:
        run(sh("true"))
    assert failure.value.slug == "no-temp-directory"
    monkeypatch.undo()
    monkeypatch.setenv("TMPDIR", "/proc")  # a directory, and for root nothing is not writable
    monkeypatch.setattr("os.access", lambda *_: True)
    with pytest.raises(UserError) as failure:
        run(sh("true"))
    assert failure.value.slug == "no-temp-directory"


def test_the_directory_is_private_real_and_gone_at_the_end() -> None:
    async def scenario() -> str:
        async with Nursery.open() as nursery:
            mode = stat.S_IMODE(os.stat(nursery.directory).st_mode)
            assert (mode, _real(nursery.directory)) == (0o700, nursery.directory)
            os.makedirs(f"{nursery.directory}/deep/down")
            os.symlink("/etc", f"{nursery.directory}/deep/link")
            os.chmod(f"{nursery.directory}/deep", 0o500)
            return nursery.directory

    assert not os.path.exists(asyncio.run(scenario()))
    assert os.path.exists("/etc/passwd")


def _real(path: str) -> str:
    return os.path.realpath(path)
