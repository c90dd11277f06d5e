"""What vx says when a sandbox denied a task something, and that it then fails."""

import os

import pytest

from tests.harness.workspace import Box, Workspace

pytestmark = [pytest.mark.sandbox, pytest.mark.timeout(120)]

_BOX = Box(read=("src",), write=("out/",))


@pytest.fixture(autouse=True, params=["heard of by the kernel", "traced by strace"])
def _source(ws: Workspace, request: pytest.FixtureRequest) -> None:
    if request.param == "traced by strace":
        ws.trace_with_strace()
    ws.write("src/a", "text")
    ws.write("secret.txt", "hidden")
    home = os.path.join(ws.logs, "home")
    os.makedirs(os.path.join(home, ".ssh"))
    ws.environment = {**ws.environment, "HOME": home}


def test_an_undeclared_read_fails_the_task_although_it_was_swallowed(ws: Workspace) -> None:
    ws.task("ok", "cat src/a > out/o", box=Box(read=("src/**",), write=("out/",)))
    ws.task("peek", "cat secret.txt 2> /dev/null; cat src/a > out/p", box=_BOX, outputs=["out/p"])
    assert ws.vx("run", "ok").code == 0
    for content in ("hidden", "changed"):
        ws.write("secret.txt", content)
        done = ws.vx("run", "peek")
        assert done.code == 1
        assert "sandbox: w#peek read secret.txt, which nothing grants\n" in done.text
        assert '  allow it: tasks.peek.sandbox.allow.read = ["src", ' in done.text
        assert ', "secret.txt"]\n' in done.text
        assert content not in done.text


def test_what_the_message_says_makes_the_task_pass(ws: Workspace) -> None:
    ws.write("lib/b", "")
    ws.task("peek", "cat secret.txt lib/b src/a > out/p", box=_BOX)
    assert ws.vx("run", "peek").code == 1
    ws.task(
        "peek",
        "cat secret.txt lib/b src/a > out/p",
        box=Box(("src", "secret.txt", "lib/b"), ("out/",)),
    )
    assert ws.vx("run", "peek").code == 0


def test_a_keys_text_is_nowhere(ws: Workspace) -> None:
    ws.write("../logs/home/.ssh/id_x", "private")
    ws.task(
        "home",
        "ls ~ > /dev/null 2>&1; cat ~/.ssh/id_x; cat /etc/shadow | grep root:; true",
        box=_BOX,
    )
    assert "private" not in ws.vx("run", "home").text


def test_a_write_outside_of_the_grants_fails_the_task_whatever_follows_it(ws: Workspace) -> None:
    many = "for i in $(seq 300); do echo $i > out/$i; done"
    ws.task("w1", f"echo x > src/gen.txt 2> /dev/null; {many}; true", box=_BOX)
    ws.task("w2", 'echo x > /etc/vx-case; echo x > "$HOME/vx-case"; true', box=_BOX)
    ws.task("w3", "rm -f src/a; mv src src2; chmod 700 src; ln -sf x src/a; true", box=_BOX)
    ws.task("cp", "cp src/a out/a && cp src/a out/a", box=_BOX)
    mode = os.stat(ws.file("src")).st_mode
    for task, paths in {
        "w1": ("src/gen.txt",),
        "w2": ("/etc/vx-case", "~/vx-case"),
        "w3": ("src/a", "src", "src2"),
    }.items():
        done = ws.vx("run", task)
        assert done.code == 1, done.text
        for path in paths:
            assert f"sandbox: w#{task} wrote {path}, which nothing grants\n" in done.text
    done = ws.vx("run", "cp")
    assert (done.code, "sandbox:" in done.text) == (0, False)
    assert os.listdir(ws.file("src")) == ["a"]
    assert (ws.read("src/a"), os.stat(ws.file("src")).st_mode) == ("text", mode)
    assert not os.path.exists("/etc/vx-case")
    assert not os.path.exists(os.path.join(ws.logs, "home/vx-case"))


def test_grants_for_what_is_not_there_yet(ws: Workspace) -> None:
    ws.write("ro/x", "")
    ws.task(
        "mk",
        "mkdir -p a/b/c && echo 1 > a/b/c/o && echo 2 > top.txt",
        box=Box(read=("src",), write=("a/b/c/", "top.txt")),
    )
    nested = Box(read=("ro",), write=("ro/rw/",))
    ws.task("nest", "cat ro/x && echo n > ro/rw/y", box=nested)
    ws.task("bad", "echo n > ro/z; true", box=nested)
    for _ in range(2):
        for task in ("mk", "nest"):
            done = ws.vx("run", task)
            assert done.code == 0, done.text
        done = ws.vx("run", "bad")
        assert done.code == 1
        assert "sandbox: w#bad wrote ro/z, which nothing grants" in done.text
    assert not os.path.exists(ws.file("ro/z"))
    assert [ws.read(path) for path in ("a/b/c/o", "top.txt", "ro/rw/y")] == ["1\n", "2\n", "n\n"]


def test_tracing_leaves_no_trace(ws: Workspace) -> None:
    tmp = os.environ["TMPDIR"]
    before = sorted(os.listdir(tmp))
    ws.write("tools-dir/x", "")
    os.symlink("tools-dir", ws.file("tools"))
    box = Box(("src", "later/**", "~/.no-such-cache", "tools"), ("out/", "build/cache/"))
    ws.task("t", 'cat src/a > out/o; echo x > "$TMPDIR/scratch"', box=box)
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    vx = [ws.start("run", "t"), ws.start("run", "t")]
    assert [one.ended() for one in vx] == [0, 0]
    assert sorted(ws.dirt()) == ["out/", "secret.txt", "src/", "tools", "tools-dir/", "vx.toml"]
    assert sorted(os.listdir(tmp)) == before
    ws.nothing_left()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("nosuch", 127),
    ],
)
def test_the_exit_code_is_the_commands_own(ws: Workspace, command: str, code: int) -> None:
    ws.task("t", f"cat src/a; {command}", box=_BOX)
    done = ws.vx("run", "t")
    assert done.code == code
    assert "sandbox:" not in done.text
    assert "traced" not in done.text


def test_the_command_has_its_own_descriptors_and_output(ws: Workspace) -> None:
    ws.task("t", "ls /proc/self/fd; echo out; echo err >&2", box=_BOX)
    done = ws.vx("run", "t")
    assert done.out.startswith("0\n1\n2\n3\nout\n")  # 3: ls itself reads the directory
    assert done.err == "err\n"


def test_a_background_child_ends_with_its_box(ws: Workspace) -> None:
    ws.task("t", "sleep 600 & (setsid sleep 600 &); cat src/a > /dev/null", box=_BOX)
    assert ws.vx("run", "t").code == 0
    ws.nothing_left()


def test_a_traced_task_is_stopped_politely(ws: Workspace) -> None:
    trap = 'trap \'echo clean >> "$LOGS/t"; exit 5\' TERM; echo up >> "$LOGS/t";'
    ws.task("t", f"{trap} while :; do sleep 0.05; done", box=_BOX, grace="20s")
    vx = ws.start("run", "t")
    ws.wait_runs("t", 1)
    assert vx.stop(15) == 143
    assert ws.lines("t") == ["up", "clean"]


def test_a_refused_connection_is_told(ws: Workspace) -> None:
    ws.task("t", f"{ws.puppet('connect.py', '192.0.2.7', 80)}; true", box=_BOX)
    done = ws.vx("run", "t")
    assert done.code == 1
    assert "sandbox: w#t connected to 192.0.2.7:80, which nothing grants" in done.text
    assert 'allow it: tasks.t.sandbox.allow.network = ["192.0.2.7:80"]' in done.text


def test_a_task_that_cannot_read_its_directory_is_told_so_first(ws: Workspace) -> None:
    ws.write("vx.toml", '[tasks.t]\ncommand = "test -e package.json"\nsandbox = {}\n')
    done = ws.vx("run", "t")
    assert done.code == 1
    assert "sandbox: w#t cannot read the directory it runs in\n" in done.text
    assert '  allow it: tasks.t.sandbox.allow.read = ["."]\n' in done.text


def test_what_is_denied_names_the_entry_to_change(ws: Workspace) -> None:
    ws.write("src/key", "hidden")
    ws.write("src/kept", "")
    ws.write(
        "vx.toml",
        """
        [tasks.t]
        command = "cat src/key; echo x > src/kept; true"
        sandbox.allow = { read = ["src"], write = ["src/"] }
        sandbox.deny = { read = ["src/k*y"], write = ["src/kept"] }
        """,
    )
    done = ws.vx("run", "t")
    assert done.code == 1, done.text
    assert "w#t read src/key, which deny.read forbids (src/k*y)\n" in done.text
    assert "w#t wrote src/kept, which deny.write forbids (src/kept)\n" in done.text
    assert 'take "src/k*y" out of tasks.t.sandbox.deny.read to allow it\n' in done.text
    assert 'take "src/kept" out of tasks.t.sandbox.deny.write to allow it\n' in done.text
    assert "nothing grants" not in done.text
    assert "allow it: " not in done.text


@pytest.mark.parametrize("hidden", ["secret.txt", "lib/secret"])
def test_a_mere_look_at_what_is_hidden_is_a_finding(ws: Workspace, hidden: str) -> None:
    ws.write("lib/b", "")
    ws.write(hidden, "")
    ws.task("look", f"test -e {hidden}; test -e lib/b", box=Box(read=("src", "lib/b")))
    done = ws.vx("run", "look")
    assert done.code == 1, done.text
    assert f"w#look read {hidden}, which nothing grants\n" in done.text


def test_what_the_config_ignores_fails_nothing(ws: Workspace) -> None:
    table = '{ allow = { read = ["src"] }, ignore = { read = ["secret.*"], write = ["/etc/x"] } }'
    command = "cat secret.txt; echo x > /etc/x; true"
    ws.write("vx.toml", f'[tasks.t]\ncommand = "{command}"\nsandbox = {table}\n')
    done = ws.vx("run", "t")
    assert done.code == 0, done.text
    assert "sandbox:" not in done.text
