"""The environment of a task: which names, whose values, in what order on PATH."""

from vxwatch.model import Project, Task, Workspace
from vxwatch.process.environment import secret_values, task_environment


def environment(
    base: dict[str, str],
    *,
    directory: str = "packages/app",
    tmpdir: str | None = None,
    env_pass: tuple[str, ...] = (),
    env_set: tuple[tuple[str, str], ...] = (),
    env_secret: tuple[str, ...] = (),
) -> dict[str, str]:
    task = Task(
        *("app", "build"),
        command="true",
        env_pass=env_pass,
        env_set=env_set,
        env_secret=env_secret,
    )
    project = Project("app", directory, (), None, (), {"build": task})
    workspace = Workspace("/ws", {"app": project}, None, ())
    return task_environment(base, task=task, workspace=workspace, tmpdir=tmpdir)


TOOLS = "/ws/packages/app/node_modules/.bin:/ws/node_modules/.bin:/ws/packages/app/.venv/bin"
OWN = {"VX_TASK": "app#build", "VX_WORKSPACE": "/ws"}


def test_a_secret_is_passed_like_any_other() -> None:
    seen = environment({"TOKEN": "t", "OTHER": "o"}, env_secret=("TOKEN", "ABSENT"))
    assert seen["TOKEN"] == "t"
    assert not seen.keys() & {"OTHER", "ABSENT"}


def test_the_values_of_secrets_are_those_that_are_set() -> None:
    tasks = {
        "a": Task("app", "a", command="x", env_secret=("A", "UNSET")),
        "b": Task("app", "b", command="x", env_secret=("B", "A"), env_pass=("C",)),
    }
    workspace = Workspace("/ws", {"app": Project("app", "", (), None, (), tasks)}, None, ())
    base = {"A": "a\udcff", "B": "", "C": "c"}
    assert secret_values(base, workspace) == {"A": b"a\xff", "B": b""}


def test_only_the_listed_names_pass() -> None:
    passed = dict.fromkeys(
        (
            *("HOME", "SHELL", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "LC_MESSAGES"),
            *("TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CI"),
        ),
        "x",
    )
    kept = dict.fromkeys(("AWS_SECRET", "LD_PRELOAD", "PYTHONPATH", "LC", "home", "VX_TREE"), "x")
    assert environment({**passed, **kept, "PATH": "/usr/bin"}) == {
        **passed,
        **OWN,
        "PATH": f"{TOOLS}:/usr/bin",
    }


def test_what_the_task_asks_for_passes_where_it_is_set() -> None:
    seen = environment({"TOKEN": "t", "PATH": "/b"}, env_pass=("TOKEN", "ABSENT"))
    assert seen == {"TOKEN": "t", "PATH": f"{TOOLS}:/b", **OWN}


def test_what_the_task_sets_comes_last_but_for_what_is_ours() -> None:
    seen = environment(
        {"TOKEN": "t", "CI": "1", "PATH": "/b"},
        env_pass=("TOKEN",),
        env_set=(("TOKEN", "own"), ("CI", ""), ("TMPDIR", "/own"), ("VX_TASK", "forged")),
        tmpdir="/given",
    )
    assert seen == {"TOKEN": "own", "CI": "", "TMPDIR": "/own", "PATH": f"{TOOLS}:/b", **OWN}


def test_a_given_temp_directory_replaces_the_users() -> None:
    assert environment({"TMPDIR": "/users"}, tmpdir="/given")["TMPDIR"] == "/given"


def test_the_tools_of_the_project_come_first_on_whatever_path_there_is() -> None:
    assert environment({}, env_set=(("PATH", "/own"),))["PATH"] == f"{TOOLS}:/own"
    assert environment({})["PATH"] == f"{TOOLS}:/usr/local/bin:/usr/bin:/bin"
    root = environment({"PATH": "/b"}, directory="")["PATH"]
    assert root == "/ws/node_modules/.bin:/ws/.venv/bin:/b"
