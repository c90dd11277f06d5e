"""A key moves when, and only when, something moves that it covers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.cache.key import Key, server_fingerprint, task_key, without_secrets
from vxwatch.model import Globs, Persistent, Port, Sandbox, Task

TASK = Task(
    "app",
    "build",
    "tsc -b",
    env_set=(("TZ", "UTC"),),
    env_pass=("HOME",),
    inputs=Globs(("src/**",)),
    input_env=("MODE",),
    outputs=Globs(("dist/**",)),
    sandbox=Sandbox(read=(".",), write=("dist/",)),
)
SERVER = Task(
    "app",
    "dev",
    "vite",
    env_pass=("HOME",),
    persistent=Persistent(ready_port=5173, restart_on=("vite.config.*",)),
    sandbox=Sandbox(read=(".",), local_binding=(Port(5173, 5173),)),
)
FACTS: dict[str, Any] = {
    "files": {"app/src/a": "-11", "app/src/b": "x22"},
    "upstream": {"lib#build": "ab"},
    "environ": {"MODE": "prod", "HOME": "/root"},
    "arguments": ("--fast",),
}


def key(task: Task = TASK, **facts: Any) -> Key:
    return task_key(task, **{**FACTS, **facts})


def fingerprint(task: Task = SERVER, **facts: Any) -> Key:
    return server_fingerprint(task, **{**FACTS, **facts})


def test_a_key_is_128_bits_and_the_same_for_the_same() -> None:
    assert key() == key()
    assert len(bytes.fromhex(key().hex)) == 16


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "tsc -b --force"},
        {"command": None},
        {"project": "ap", "name": "pbuild"},
        {"env_set": (("TZ", "CET"),)},
        {"env_pass": ()},
        {"inputs": None},
        {"inputs": Globs(("src/**", "!src/x"))},
        {"inputs": Globs((), ("src/**",))},
        {"input_env": ()},
        {"outputs": None},
        {"outputs": Globs()},
        {"outputs": Globs(("dist/**",), ("public/**",))},
        {"sandbox": None},
        {"sandbox": Sandbox()},
        {"sandbox": Sandbox(read=(".",), write=("dist/",), host_ports=(5432,))},
        {"sandbox": Sandbox(read=(".",), write=("dist/",), network=("a.example",))},
        {"sandbox": Sandbox(read=(".",), write=("dist/",), deny_network=("a.example",))},
        {"sandbox": Sandbox(read=(".",), write=("dist/",), ignore_write=("*.lock",))},
    ],
)
def test_what_can_change_the_result_moves_the_key(fields: dict[str, Any]) -> None:
    assert key(TASK._replace(**fields)).hex != key().hex


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "compile"},
        {"timeout": 3.0},
        {"grace": 1.0},
        {"depends_on": ("other",)},  # what it comes to is folded, not how it is written
        {"sandbox": Sandbox((".",), ("dist/",), local_binding=(Port(80, 8080),))},
    ],
)
def test_what_cannot_change_the_result_leaves_the_key(fields: dict[str, Any]) -> None:
    assert key(TASK._replace(**fields)).hex == key().hex


def test_the_order_in_which_a_set_is_written_leaves_the_key() -> None:
    one = TASK._replace(env_pass=("A", "B"), sandbox=Sandbox(read=("a", "b")))
    other = TASK._replace(env_pass=("B", "A"), sandbox=Sandbox(read=("b", "a")))
    assert key(one).hex == key(other).hex


def test_the_order_of_patterns_moves_the_key() -> None:
    one = TASK._replace(inputs=Globs(("a/**", "!a/b", "a/b/c")))
    other = TASK._replace(inputs=Globs(("a/**", "a/b/c", "!a/b")))
    assert key(one).hex != key(other).hex


@pytest.mark.parametrize(
    "facts",
    [
        {"files": {}},
        {"files": {"app/src/a": "-11"}},
        {"files": {"app/src/a": "x11", "app/src/b": "x22"}},
        {"files": {"app/src/a": "-11", "app/src/c": "x22"}},
        {"upstream": {}},
        {"upstream": {"lib#build": "ac"}},
        {"upstream": {"lib2#build": "ab"}},
        {"environ": {"MODE": "dev"}},
        {"environ": {"MODE": ""}},
        {"environ": {}},
        {"arguments": ()},
        {"arguments": ("--fa", "st")},
        {"around": {"directory": "apps/app"}},
    ],
)
def test_what_goes_in_moves_the_key(facts: dict[str, Any]) -> None:
    assert key(**facts).hex != key().hex


def test_unset_differs_from_empty_and_from_the_word() -> None:
    values: list[dict[str, str]] = [{}, {"MODE": ""}, {"MODE": "unset"}, {"MODE": "null"}]
    assert len({key(environ=environ).hex for environ in values}) == len(values)


def test_what_is_not_declared_leaves_the_key() -> None:
    assert key(environ={"MODE": "prod", "HOME": "/else", "OTHER": "1"}).hex == key().hex


def test_the_order_of_files_and_upstream_leaves_the_key() -> None:
    files = dict(reversed(FACTS["files"].items()))
    upstream = {"lib#build": "ab", "a#a": "cd"}
    assert key(files=files).hex == key().hex
    assert key(upstream=upstream).hex == key(upstream=dict(reversed(upstream.items()))).hex


def test_two_keys_can_be_compared_by_component() -> None:
    one = key().components
    other = key(files={"app/src/a": "-33", "app/src/b": "x22"}, environ={"HOME": "/"}).components
    moved = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    assert moved == {"file:app/src/a", "env:MODE"}
    assert one["config:command"] == "tsc -b"
    assert one["upstream:lib#build"] == "ab"


def test_values_of_the_environment_cannot_be_read_from_a_key() -> None:
    assert "hunter2" not in str(key(environ={"MODE": "hunter2"}))
    assert "hunter2" not in str(fingerprint(environ={"HOME": "hunter2"}))


def test_names_that_are_not_utf_8_are_folded() -> None:
    assert key(files={"a\udcff": "-1"}).hex != key(files={"a\udcfe": "-1"}).hex
    assert key(arguments=("\udcff",)).hex != key(arguments=("\udcfe",)).hex
    assert key(environ={"MODE": "\udcff"}).hex != key(environ={"MODE": "\udcfe"}).hex


# Of the surrogates only such as os.fsdecode makes: 0xff is part of no UTF-8.
LETTERS = st.characters(exclude_characters="\0", exclude_categories=["Cs"]) | st.just("\udcff")
TEXT = st.text(LETTERS, min_size=1, max_size=4)
INPUTS = st.fixed_dictionaries(
    {
        "files": st.dictionaries(TEXT, TEXT, max_size=3),
        "upstream": st.dictionaries(TEXT, TEXT, max_size=2),
        "environ": st.dictionaries(st.sampled_from(["A", "B", "C"]), st.text(max_size=2)),
        "arguments": st.lists(TEXT, max_size=2).map(tuple),
    }
)


@given(INPUTS, INPUTS)
def test_keys_are_equal_exactly_when_the_declared_inputs_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    task = Task("p", "t", "x", inputs=Globs(), input_env=("A", "B"))
    declared = [
        {**facts, "environ": {k: v for k, v in facts["environ"].items() if k != "C"}}
        for facts in (one, other)
    ]
    same = task_key(task, **one).hex == task_key(task, **other).hex
    assert same == (declared[0] == declared[1])
    assert task_key(task, **declared[0]).hex == task_key(task, **one).hex


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "vite --host"},
        {"env_set": (("TZ", "CET"),)},
        {"env_pass": ()},
        {"sandbox": None},
        {"sandbox": Sandbox(read=(".",))},
        {"sandbox": Sandbox(read=(".",), local_binding=(Port(5173, 8080),))},
        {"sandbox": Sandbox((".",), (), (Port(5173, 5173),), host_ports=(5432,))},
    ],
)
def test_what_a_server_was_started_with_moves_its_fingerprint(fields: dict[str, Any]) -> None:
    assert fingerprint(SERVER._replace(**fields)).hex != fingerprint().hex


@pytest.mark.parametrize(
    "fields",
    [
        {"description": "x"},
        {"grace": 9.0},
        {"persistent": Persistent(ready_when="up", ready_timeout=1.0)},
        {"persistent": Persistent(restart_on=("vite.config.ts",))},
    ],
)
def test_when_a_server_is_ready_leaves_its_fingerprint(fields: dict[str, Any]) -> None:
    assert fingerprint(SERVER._replace(**fields)).hex == fingerprint().hex


def test_a_fingerprint_follows_files_environment_and_arguments() -> None:
    moves: list[dict[str, Any]] = [{"files": {}}, {"environ": {"HOME": "/"}}, {"arguments": ()}]
    for facts in moves:
        assert fingerprint(**facts).hex != fingerprint().hex


def test_dependencies_count_for_a_server_only_where_it_says_so() -> None:
    moved: dict[str, Any] = {"upstream": {"lib#build": "cd"}}
    assert fingerprint(**moved).hex == fingerprint().hex
    follows = SERVER._replace(persistent=Persistent(restart_on_dependencies=True))
    assert fingerprint(follows, **moved).hex != fingerprint(follows).hex
    assert key(SERVER, **moved).hex != key(SERVER).hex  # what depends on it sees through it


def test_a_server_is_another_one_in_another_directory() -> None:
    assert fingerprint(place="/w/a 1 2").hex == fingerprint(place="/w/a 1 2").hex
    assert (
        len({fingerprint(place=place).hex for place in ("/w/a 1 2", "/w/b 1 2", "/w/a 1 3")}) == 3
    )


SECRET = TASK._replace(env_secret=("NPM_TOKEN",))


def hidden(value: str | None, key: bytes = b"k" * 32) -> dict[str, str]:
    environ = {"MODE": "prod", **({} if value is None else {"NPM_TOKEN": value})}
    return dict(without_secrets(environ, {"NPM_TOKEN", "ABSENT"}, key))


def test_the_value_of_a_secret_moves_the_key() -> None:
    keys = [key(SECRET, environ=hidden(value)).hex for value in ("one", "two", "", None)]
    assert len(set(keys)) == 4
    assert key(SECRET, environ=hidden("one")).hex == keys[0]
    assert key(SECRET).hex != key().hex
    server = SERVER._replace(env_secret=("NPM_TOKEN",))
    assert fingerprint(server, environ=hidden("one")) != fingerprint(server, environ=hidden("two"))


def test_the_hash_of_a_secret_needs_the_key_that_it_was_made_with() -> None:
    one = hidden("one")
    assert one["NPM_TOKEN"] != hidden("one", b"j" * 32)["NPM_TOKEN"]
    assert "one" not in one.values()
    assert one["MODE"] == "prod"
    assert "ABSENT" not in one
    with pytest.raises(ValueError, match="key"):
        hidden("one", b"short")
    assert hidden(None, b"") == {"MODE": "prod"}


def test_retries_and_the_stop_signal_are_no_part_of_a_key() -> None:
    assert key(TASK._replace(retries=3)) == key()
    asked = SERVER._replace(
        persistent=(SERVER.persistent or Persistent())._replace(stop_signal="SIGINT")
    )
    assert fingerprint(asked) == fingerprint()
