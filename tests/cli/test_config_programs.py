"""Configs that are programs: evaluated beside vx, once for each state of what they look at."""

import json
import os
import re
import signal

import pytest

from tests.harness.workspace import Workspace

pytestmark = pytest.mark.timeout(120)

PROGRAM = """\
import os
from shared import commands

print("evaluated")
config = {
    "tasks": {
        "build": {
            "command": commands["build"],
            "cache": {"inputs": ["src/**"], "outputs": ()},
            "env": {"set": {"MODE": os.environ.get("MODE", "none")}},
        },
    },
}
"""
SHARED = 'commands = {"build": "echo $MODE"}\n'


def evaluated(finished_err: str) -> int:
    """How many programs were evaluated: each prints one line."""
    return finished_err.count("evaluated")


@pytest.fixture
def programs(ws: Workspace) -> Workspace:
    ws.write("vx.config.py", PROGRAM)
    ws.write("shared.py", SHARED)
    ws.write("src/a", "0")
    return ws


def test_its_value_is_the_config(programs: Workspace) -> None:
    done = programs.vx("run", "build")
    assert done.code == 0
    assert "none" in done.out
    shown = json.loads(programs.vx("show", "build", "--format", "json").out)
    assert shown["env_set"] == {"MODE": "none"}
    assert programs.vx("run", "build").out.startswith("1 fresh")


def test_it_is_evaluated_once_for_each_state(programs: Workspace) -> None:
    assert evaluated(programs.vx("show").err) == 1
    assert evaluated(programs.vx("show").err) == 0
    assert evaluated(programs.vx("run", "build").err) == 0
    programs.write("shared.py", 'commands = {"build": "echo other"}\n')
    done = programs.vx("run", "build")
    assert evaluated(done.err) == 1
    assert "other" in done.out
    programs.environment["UNASKED"] = "1"
    assert evaluated(programs.vx("show").err) == 0
    programs.environment["MODE"] = "fast"
    assert evaluated(programs.vx("show").err) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("vx.config.py", PROGRAM.replace("echo", "true")),
        ("shared.py", 'commands = {"build": "echo new"}\n'),
        ("shared/__init__.py", 'commands = {"build": "echo new"}\n'),
    ],
)
def test_a_proof_that_nothing_is_to_do_ends_with_it(
    programs: Workspace, path: str, text: str
) -> None:
    for _ in range(3):
        programs.vx("run", "build")
    assert evaluated(programs.vx("run", "build").err) == 0
    programs.write(path, text if path != "vx.config.py" else text + "\n# changed\n")
    assert evaluated(programs.vx("run", "build").err) == 1


def test_a_proof_knows_the_variables_that_were_asked_for(programs: Workspace) -> None:
    for _ in range(3):
        programs.vx("run", "build")
    programs.environment["MODE"] = "fast"
    done = programs.vx("run", "build")
    assert "fast" in done.out
    assert evaluated(done.err) == 1


def test_what_it_prints_is_no_part_of_an_answer(ws: Workspace) -> None:
    ws.write("vx.config.py", 'print("{}")\nconfig = {"tasks": {"a": {"command": "true"}}}\n')
    done = ws.vx("show", "a", "--format", "json")
    assert json.loads(done.out)["command"] == "true"
    assert done.err.strip() == "{}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("config = {'tasks': {\n", "vx.config.py:1: is not Python: '{' was never closed"),
        (
            "x = 1\nimport nowhere\n",
            "vx.config.py:2: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("x = 1\n\n1 / 0\n", "vx.config.py:3: ZeroDivisionError: division by zero"),
        ("import broken\n", "broken.py:2: ValueError: no"),
        ("tasks = {}\n", "vx.config.py: has no value: end it with config = {...}"),
        ("config = None\n", "vx.config.py:1: expected a table"),
        (
            "config = {\n  'tasks': {\n    'a': {'command': None},\n  },\n}\n",
            "vx.config.py:3: tasks.a.command: expected a table, a list, a text",
        ),
        (
            "a = dict(\n  command='x',\n  timeot='1s',\n)\nconfig = {'tasks': {'a': a}}\n",
            "vx.config.py:3: tasks.a.timeot: unknown field",
        ),
        ("config = {'tasks': 7}\n", "vx.config.py:1: tasks: expected a table, found 7"),
        ("import sys\nsys.exit(0)\n", "vx.config.py:2: SystemExit: 0"),
        ("import os\nos._exit(3)\n", "vx.config.py: ended before it had a value (exit code 3)"),
        ("import os\nos.system('touch x')\n", "vx.config.py:2: a config starts nothing"),
        ("import subprocess\nsubprocess.run(['ls'])\n", "vx.config.py:2: a config starts nothing"),
        ("open('x', 'w')\n", "vx.config.py:1: a config writes no file"),
        (
            "open('/etc/passwd')\n",
            "vx.config.py:1: a config reads nothing outside of the workspace",
        ),
        ("import os\n{**os.environ}\n", "vx.config.py:2: a config asks for variables by name"),
        ("import os\nos.environ['A'] = ''\n", "vx.config.py:2: a config changes no variable"),
    ],
)
def test_what_is_wrong_with_it_is_told_like_a_fault_of_a_file(
    ws: Workspace, text: str, said: str
) -> None:
    ws.write("broken.py", "x = 1\nraise ValueError('no')\n")
    ws.write("vx.config.py", text)
    done = ws.vx("run", "a")
    assert done.code == 2
    assert done.err.startswith(said), done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) <= 2
    assert not os.path.exists(ws.file("x"))


def test_one_that_does_not_end_is_ended(ws: Workspace) -> None:
    ws.write("vx.config.py", "def wait():\n    while True:\n        pass\nwait()\n")
    done = ws.vx("show", seconds=30.0)
    assert done.code == 2
    assert re.match(r"vx\.config\.py:[23]: takes longer than 10 s\n", done.err)
    ws.nothing_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_vx(ws: Workspace, number: signal.Signals) -> None:
    ws.write("vx.config.py", "import sys\nprint('begun', flush=True)\nwhile True:\n    pass\n")
    vx = ws.start("run", "a")
    vx.wait_says("begun")
    os.kill(vx.pid, number)
    ws.nothing_left()


def test_settings_of_the_workspace(ws: Workspace) -> None:
    ws.write(
        "vx.workspace.py", "config = {'members': ['p/*'], 'presets': {'t': {'command': 'pwd'}}}\n"
    )
    ws.write("p/a/vx.toml", "[tasks.x]\nextends = 't'\n")
    ws.write("p/b/vx.config.py", "config = {'tasks': {'x': {'extends': 't'}}}\n")
    for name in "ab":
        assert ws.vx("run", f"{name}#x").out.startswith(ws.file(f"p/{name}\n"))


def test_modules_of_its_directory_and_of_the_root(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", "members = ['p/*']\n")
    ws.write("of_all.py", "WORD = 'all'\n")
    text = "import of_all, own\nconfig = {'tasks': {'x': {'command': f'echo {of_all.WORD} {own.WORD}'}}}\n"
    for name in "ab":
        ws.write(f"p/{name}/vx.config.py", text)
        ws.write(f"p/{name}/own.py", f"WORD = '{name}'\n")
    for name in "ab":
        assert ws.vx("run", f"{name}#x").out.startswith(f"all {name}\n")


def test_what_would_come_first_counts(ws: Workspace) -> None:
    ws.write("vx.workspace.toml", "members = ['p/*']\n")
    ws.write("word.py", "WORD = 'root'\n")
    ws.write(
        "p/a/vx.config.py",
        "import word\nconfig = {'tasks': {'x': {'command': f'echo {word.WORD}'}}}\n",
    )
    assert "root" in ws.vx("run", "a#x").out
    ws.write("p/a/word.py", "WORD = 'nearer'\n")
    assert "nearer" in ws.vx("run", "a#x").out


def test_files_and_names_that_it_reads_count(ws: Workspace) -> None:
    ws.write("data.json", '{"word": "one"}')
    ws.write("parts/x", "")
    ws.write(
        "vx.config.py",
        "import json, os\nprint('evaluated')\nword = json.load(open('data.json'))['word']\n"
        "parts = ' '.join(sorted(os.listdir('parts')))\n"
        "config = {'tasks': {'t': {'command': f'echo {word} {parts}'}}}\n",
    )
    assert "one x" in ws.vx("run", "t").out
    assert evaluated(ws.vx("show").err) == 0
    ws.write("data.json", '{"word": "two"}')
    assert "two x" in ws.vx("run", "t").out
    ws.write("parts/y", "")
    assert "two x y" in ws.vx("run", "t").out


@pytest.mark.parametrize(
    "asked",
    [
        "os.path.exists('parts/one/on')",
        "__import__('pathlib').Path('parts/one/on').is_file()",
        "bool(__import__('glob').glob('parts/*/on'))",
        "os.access('parts/one/on', os.R_OK)",
        "os.path.islink('parts/one/on') or os.path.isfile('parts/one/on')",
    ],
)
def test_what_it_asks_about_counts(ws: Workspace, asked: str) -> None:
    ws.write("parts/one/off", "")
    text = f"import os\nyes = {asked}\n"
    text += "config = {'tasks': {'t': {'command': f'echo answer {yes}'}}}\n"
    ws.write("vx.config.py", text)
    for _ in range(2):
        assert "answer False" in ws.vx("run", "t").out
        ws.write("parts/one/on", "")
        assert "answer True" in ws.vx("run", "t").out
        os.unlink(ws.file("parts/one/on"))


@pytest.mark.parametrize(
    ("first", "second"),
    [("vx.toml", "vx.config.py"), ("vx.workspace.toml", "vx.workspace.py")],
)
def test_two_configs_are_refused(ws: Workspace, first: str, second: str) -> None:
    ws.write("vx.toml", "")
    ws.write(first, "")
    ws.write(second, "config = {}\n")
    done = ws.vx("show")
    assert done.code == 2
    assert done.err.startswith(f"{second}")
    assert f"{first} configures this" in done.err


def test_nothing_is_written_but_what_vx_keeps(programs: Workspace) -> None:
    before = programs.dirt()
    programs.vx("show")
    assert programs.dirt() == before
    assert not os.path.exists(programs.file("__pycache__"))


def test_a_watch_takes_up_what_moves(programs: Workspace) -> None:
    vx = programs.watch("build")
    vx.wait_says("^.*none")
    programs.write("shared.py", 'commands = {"build": "echo moved-$MODE"}\n')
    vx.wait_says("moved-none")
    programs.write("shared.py", "commands = {}\n")
    vx.wait_says(r"vx.config.py:\d+: KeyError: 'build'")
    programs.write("shared.py", 'commands = {"build": "echo mended"}\n')
    vx.wait_says("mended")
    programs.write("shared/__init__.py", 'commands = {"build": "echo package"}\n')
    vx.wait_says("package")


def test_a_run_without_programs_loads_nothing_for_them(ws: Workspace) -> None:
    ws.task("a", "true")
    ws.environment["PYTHONPROFILEIMPORTTIME"] = "1"
    loaded = ws.vx("run", "a").err
    assert "vxwatch.workspace.loading" in loaded
    for module in ("workspace.programs", "workspace.lock", "workspace.program_main"):
        assert f"vxwatch.{module}\n" not in loaded


def test_one_that_is_broken_is_not_blamed_on_others(ws: Workspace) -> None:
    ws.write("vx.workspace.py", "config = {'members': ['p/*'], 'presets': {}}[0]\n")
    ws.write("vx.toml", "[tasks.x]\nextends = 't'\n")
    done = ws.vx("show")
    assert done.err == "vx.workspace.py:1: KeyError: 0\n"
    ws.write("vx.workspace.py", "config = {'members': ['p/*']}\n")
    ws.write("p/a/vx.config.py", "import os\nos._exit(3)\n")
    ws.write("p/b/vx.config.py", "config = {'tasks': {}}\n")
    ws.write("vx.toml", "[tasks.x]\ncommand = 'true'\n")
    done = ws.vx("show")
    assert done.err == "p/a/vx.config.py: ended before it had a value (exit code 3)\n"


def test_what_cannot_be_read_is_a_problem(ws: Workspace) -> None:
    os.mkfifo(ws.file("vx.config.py"))
    done = ws.vx("show")
    assert (done.code, done.err) == (2, "vx.config.py: cannot be read: not a regular file\n")


def test_a_change_of_what_it_reads_affects_all(programs: Workspace) -> None:
    programs.write(".gitignore", ".vx\n")
    programs.git("add", ".")
    programs.git("commit", "-qm", "a")
    assert "nothing to do" in programs.vx("run", "build", "--affected=HEAD").out
    programs.write("shared.py", SHARED + "# another\n")
    assert "1 ran" in programs.vx("run", "build", "--affected=HEAD").out


@pytest.mark.parametrize("name", ["vx.config.py", "shared.py", "shared/__init__.py"])
def test_a_boxed_task_cannot_change_it(programs: Workspace, name: str) -> None:
    task = {
        "command": f"mkdir -p shared; echo 'raise ValueError' > {name}",
        "sandbox": {"allow": {"read": ["."], "write": ["."]}},
    }
    text = PROGRAM.replace('    "tasks": {\n', f'    "tasks": {{\n        "bad": {task!r},\n')
    programs.write("vx.config.py", text)
    vx = programs.watch("bad")
    if name == "shared/__init__.py":
        vx.wait_says("shared/__init__.py is not loaded: it appeared where w#bad may write")
    else:
        vx.wait_says("Read-only file system")
        assert programs.read("vx.config.py") == text
        assert programs.read("shared.py") == SHARED
    assert "ValueError" not in vx.output


def test_an_edit_while_it_is_evaluated_is_not_lost(ws: Workspace) -> None:
    ws.write("word", "one")
    ws.write(
        "vx.config.py",
        "import os, sys, time\nword = open('word').read()\nprint('read', flush=True)\n"
        "while word == 'one' and open('word').read() == 'one':\n    time.sleep(0.01)\n"
        "config = {'tasks': {'t': {'command': f'echo {word}'}}}\n",
    )
    vx = ws.start("show", "t")
    vx.wait_says("read")
    ws.write("word", "two")
    vx.wait_says("echo one")
    assert "echo two" in ws.vx("show", "t").out


@pytest.mark.parametrize("path", ["vx.config.py", "shared.py"])
def test_a_link_is_followed_each_time(programs: Workspace, path: str) -> None:
    away = os.path.join(programs.logs, "away")
    os.rename(programs.file(path), away)
    os.symlink(away, programs.file(path))
    for _ in range(3):
        programs.vx("run", "build")
    with open(away, "a") as file:
        file.write("\n# another\n")
    assert evaluated(programs.vx("run", "build").err) == 1


def test_a_new_name_in_what_it_lists_affects_all(ws: Workspace) -> None:
    ws.write(
        "vx.config.py",
        "import os\nconfig = {'tasks': {n: {'command': 'true'} for n in os.listdir('parts')}}\n",
    )
    ws.write("parts/x", "")
    ws.write(".gitignore", ".vx\n")
    ws.git("add", ".")
    ws.git("commit", "-qm", "a")
    ws.write("parts/y", "")
    assert "2 ran" in ws.vx("run", "x", "y", "--affected=HEAD").out


def test_a_watch_sees_the_mending_of_what_it_did_not_know(programs: Workspace) -> None:
    vx = programs.watch("build")
    vx.wait_says(r"^cycle 1")
    programs.write("deep/parts/more.py", "raise ValueError('not yet')\n")
    programs.write(".gitignore", "deep\n")
    programs.write(
        "vx.config.py", PROGRAM.replace("import os\n", "import os\nimport deep.parts.more\n")
    )
    vx.wait_says(r"^deep/parts/more\.py:1: ValueError: not yet")
    programs.write("deep/parts/more.py", "")
    vx.wait_says(r"^cycle 2")


def test_ctrl_c_ends_a_watch_whose_config_hangs(programs: Workspace) -> None:
    vx = programs.terminal("watch", "build")
    vx.wait_says("cycle 1")
    programs.write("vx.config.py", "print('begun', flush=True)\nwhile True:\n    pass\n")
    vx.wait_says("begun")
    vx.press(b"\x03")
    assert vx.ended() == 0
    assert "takes longer" not in vx.output
    assert "Traceback" not in vx.output
    programs.nothing_left()
