"""Makes the key of a task: the content hash that decides whether it must run.

Pure: values in, hash out. A key folds what can change what the task does, and nothing else:
time limits, ready conditions and the ports at which others reach it are no part of it. The
values that were hashed stay with the key, so that two keys can be compared name by name; those
of the environment stay as hashes, and those of secrets as keyed ones (`without_secrets`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import xxhash

from vxwatch.cache import SCHEMA
from vxwatch.model import Globs, Sandbox, Task, TaskId

UNSET = "unset"
_NONE: Mapping[str, str] = {}
_SHORTEST_KEY = 16


class Key(NamedTuple):
    """A hash, and what was hashed.

    `facts` are named `config:command`, `directory`, `env:NAME`, `upstream:lib#build` and so on; `files` maps
    paths to digests of their content.
    """

    hex: str
    facts: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def components(self) -> dict[str, str]:
        """Everything that was hashed, by name."""
        return {**self.facts, **{f"file:{path}": digest for path, digest in self.files.items()}}


def task_key(
    task: Task,
    *,
    files: Mapping[str, str],
    upstream: Mapping[TaskId, str],
    environ: Mapping[str, str],
    arguments: Sequence[str] = (),
    around: Mapping[str, str] = _NONE,
) -> Key:
    """The key of a task, a group or, for what depends on it, a server.

    `files` are what the task takes, with digests; `upstream` the keys of what it depends on
    directly; `environ` is where the values of declared variables come from, `without_secrets`;
    `arguments` were forwarded to it; `around` has further facts by name: `directory` is that of its
    project, relative to the root, so that worktrees share keys, `runtime:COMMAND` a digest of what
    that prints.
    """
    facts = _config(task) | _environment((*task.input_env, *task.env_secret), environ)
    return _fold(task, facts | {**around}, files, upstream, arguments)


def server_fingerprint(
    task: Task,
    *,
    files: Mapping[str, str],
    upstream: Mapping[TaskId, str],
    environ: Mapping[str, str],
    arguments: Sequence[str] = (),
    place: str = "",
) -> Key:
    """What a running server was started with: it is restarted when this moves.

    `files` are those of `restart_on`; `upstream` counts with `restart_on_dependencies` alone;
    `place` is the directory that it runs in, not only where that lies.
    """
    names = (*task.env_pass, *task.env_secret, *task.input_env)
    facts = _config(task) | _environment(names, environ)
    if task.sandbox:
        ports = [(port.inside, port.host) for port in task.sandbox.local_binding]
        facts["config:local_binding"] = json.dumps(ports)
    if task.persistent and task.persistent.live_reload:
        facts["config:live_reload"] = "true"
    facts["place"] = place
    follows = task.persistent is not None and task.persistent.restart_on_dependencies
    return _fold(task, facts, files, upstream if follows else {}, arguments)


def without_secrets(
    environ: Mapping[str, str], names: Collection[str], key: bytes
) -> Mapping[str, str]:
    """The environment with a keyed hash in place of the value of each of these names.

    A short secret is guessed from a plain hash, from a keyed one only by who has the key: 16 to
    64 random bytes that stand nowhere near the hashes.
    """
    hidden = [name for name in names if name in environ]
    if not hidden:
        return environ
    from hashlib import blake2b  # noqa: PLC0415 - only a secret needs it

    if len(key) < _SHORTEST_KEY:
        raise ValueError("a secret needs a key")
    values = {
        name: blake2b(environ[name].encode("utf-8", "surrogateescape"), key=key).hexdigest()
        for name in hidden
    }
    return {**environ, **values}


def _config(task: Task) -> dict[str, str]:
    """The resolved config; what is not declared is left out, so that it differs from empty."""
    made = _environment_of(task.env_pass, task.env_set, task.env_secret)
    return {**_spelled(task.command, made, task.inputs, task.outputs, task.sandbox)}


def _environment_of(
    passed: tuple[str, ...], assigned: tuple[tuple[str, str], ...], secret: tuple[str, ...]
) -> tuple[tuple[str, str], ...]:
    facts = {
        "env_pass": sorted(passed),
        "env_set": sorted(assigned),
        "env_secret": sorted(secret),
    }
    return tuple((name, json.dumps(value)) for name, value in facts.items() if value)


@lru_cache(maxsize=1024)
def _spelled(
    command: str | None,
    environment: tuple[tuple[str, str], ...],
    inputs: Globs | None,
    outputs: Globs | None,
    sandbox: Sandbox | None,
) -> Mapping[str, str]:
    """The same, made once for the many tasks of a workspace that are alike."""
    facts: dict[str, object] = {"command": command, **dict(environment)}
    facts |= _globs("inputs", inputs) | _globs("outputs", outputs)
    facts |= _sandbox(sandbox)
    return {
        f"config:{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in facts.items()
        if value is not None
    }


def _globs(name: str, globs: Globs | None) -> dict[str, object]:
    if globs is None:
        return {}
    return {name: globs.files, f"{name}.workspace_files": globs.workspace_files or None}


def _sandbox(sandbox: Sandbox | None) -> dict[str, object]:
    if sandbox is None:
        return {}
    return {
        "sandbox.read": sorted(sandbox.read),
        "sandbox.write": sorted(sandbox.write),
        "sandbox.host_ports": sorted(sandbox.host_ports) or None,
        "sandbox.network": sorted(sandbox.network) or None,
        "sandbox.deny_network": sorted(sandbox.deny_network) or None,
        "sandbox.deny_read": sorted(sandbox.deny_read) or None,
        "sandbox.deny_write": sorted(sandbox.deny_write) or None,
        "sandbox.ignore_read": sorted(sandbox.ignore_read) or None,
        "sandbox.ignore_write": sorted(sandbox.ignore_write) or None,
        "sandbox.ignore_network": sorted(sandbox.ignore_network) or None,
        "sandbox.unix_sockets": None
        if sandbox.unix_sockets is None
        else sorted(sandbox.unix_sockets),
        "sandbox.git_config": sandbox.git_config or None,
    }


def _environment(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    return {
        f"env:{name}": _digest(environ[name]) if name in environ else UNSET
        for name in sorted(set(names))
    }


def _fold(
    task: Task,
    facts: dict[str, str],
    files: Mapping[str, str],
    upstream: Mapping[TaskId, str],
    arguments: Sequence[str],
) -> Key:
    facts |= {"schema": str(SCHEMA), "task": task.id}
    facts |= {f"upstream:{other}": key for other, key in sorted(upstream.items())}
    if arguments:
        facts["arguments"] = json.dumps(list(arguments))
    text = json.dumps(facts, sort_keys=True)
    # No path and no digest holds a NUL, and none is empty: the sequence reads only one way.
    listed = "\0".join(chain.from_iterable(sorted(files.items())))
    return Key(_digest(f"{text}\0{listed}"), facts, files)


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogateescape"))
