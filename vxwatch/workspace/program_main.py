"""The process in which config programs are evaluated. A script: it imports nothing of vx.

It is called with the process of vx, the root of the workspace, the seconds that a program may take,
and programs relative to the root. It forks for each, and that writes one answer to standard output,
as a line of JSON: the value of `config`, or what went wrong, and in both cases all that the program
looked at. What a program itself prints goes to standard error. All of it ends with vx.

A program may look at files and at variables by name, and import modules of the workspace. It is
kept from what would make its value depend on anything else, or change anything: it starts no
program, opens no connection, and writes nothing. This keeps honest programs repeatable; it is no
wall against hostile ones.
"""

import _ast
import json
import math
import os
import signal
import sys
import time
import types
from importlib.machinery import FileFinder, SourceFileLoader

NAME = "config"
_ONLY_AST = 0x0400  # PyCF_ONLY_AST, of a module that takes long to load
_BEAT = 0.1  # seconds
_DEEPEST = 100
_STANDARD = tuple(os.path.abspath(place) for place in sys.path)
_IMPORTING = "<frozen importlib._bootstrap_external>"
_REFUSED = (
    *("subprocess.", "socket.", "ctypes.", "shutil.", "pty.", "os.system", "os.exec", "os.fork"),
    *("os.posix_spawn", "os.spawn", "os.kill", "os.remove", "os.rename", "os.mkdir", "os.rmdir"),
    *("os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime", "os.setxattr"),
)
_ASKING = ("stat", "lstat", "access", "readlink")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC

At = tuple["str | int", ...]
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class RefusedError(Exception):
    """A program did what a config must not do."""


class UnfitError(Exception):
    """Part of a value that no config can hold, and where it stands."""

    def __init__(self, at: At, what: str) -> None:
        super().__init__(what)
        self.at = at


class Environment(type(os.environ).__mro__[1]):  # type: ignore[misc]  # MutableMapping, loaded already
    """The variables, of which those count that were asked for."""

    def __init__(self, values: "dict[str, str]") -> None:
        self.asked: set[str] = set()
        self._values = values

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self._values[name]

    def __setitem__(self, name: str, value: str) -> None:
        raise RefusedError("a config changes no variable")

    def __delitem__(self, name: str) -> None:
        raise RefusedError("a config changes no variable")

    def __iter__(self) -> "object":
        raise RefusedError("a config asks for variables by name: os.environ.get(NAME)")

    def __len__(self) -> int:
        raise RefusedError("a config asks for variables by name: os.environ.get(NAME)")


class FromSource(SourceFileLoader):
    """Loads a module from its source, whatever lies in `__pycache__`: stamps vouch for too little."""

    def get_code(self, fullname: str) -> types.CodeType:
        """The compiled source."""
        path = self.get_filename(fullname)
        return compile(self.get_data(path), path, "exec", dont_inherit=True)


class Looks:
    """What the program looked at: absolute paths of files and directories that may not exist."""

    def __init__(self, root: str, places: "tuple[str, ...]") -> None:
        self.paths: set[str] = set()
        self._root = root
        self._places = places

    def audit(self, event: str, details: "tuple[object, ...]") -> None:
        """What Python tells before it does something; raises for what is refused."""
        if event == "open":
            self._open(*details)
        elif event in ("os.listdir", "os.scandir"):
            caller = sys._getframe(1)  # noqa: SLF001 - there is no other way to know it
            if caller.f_code.co_filename != _IMPORTING:
                self._note(details[0] or ".")
        elif event.startswith(_REFUSED):
            raise RefusedError(f"a config starts nothing and changes nothing ({event})")

    def hears(self, call: "Callable[..., object]") -> "Callable[..., object]":
        """The same call, of which Python tells nothing; what it asks about counts."""

        def heard(path: object, *rest: object, **named: object) -> object:
            if named.get("dir_fd") is None:
                self._ask(path)
            return call(path, *rest, **named)

        return heard

    def find_spec(self, name: str, path: "object" = None, _: object = None) -> None:
        """Told of each module that nobody found: it may be there the next time."""
        if name.partition(".")[0] not in sys.stdlib_module_names:
            self._candidates(name, self._places if path is None else path)

    def loaded(self) -> None:
        """Note the modules of the workspace, and what would come in their place."""
        for name, module in tuple(sys.modules.items()):
            spec = getattr(module, "__spec__", None)
            if spec is not None and isinstance(spec.loader, FromSource):
                above = sys.modules.get(name.rpartition(".")[0])
                self._note(spec.origin)
                self._candidates(name, getattr(above, "__path__", self._places))

    def _candidates(self, name: str, places: "object") -> None:
        last = name.rpartition(".")[2]
        for place in places if isinstance(places, tuple | list) else self._places:
            self._note(f"{place}/{last}.py")
            self._note(f"{place}/{last}/__init__.py")

    def _open(self, path: object, mode: object = None, flags: object = 0) -> None:
        if isinstance(path, int):
            return
        written = isinstance(mode, str) and not {"w", "a", "x", "+"}.isdisjoint(mode)
        if written or (isinstance(flags, int) and flags & _WRITING):
            raise RefusedError("a config writes no file")
        self._note(path)

    def _ask(self, path: object) -> None:
        """Note it where it is in the workspace: anything else may be asked about."""
        if isinstance(path, str | bytes | os.PathLike):
            full = os.path.abspath(os.fsdecode(path))
            if _is_local(full, self._root):
                self.paths.add(full)

    def _note(self, path: object) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        full = os.path.abspath(os.fsdecode(path))
        if f"{full}/".startswith(tuple(f"{place}/" for place in _STANDARD)):
            return
        if not f"{full}/".startswith(f"{self._root}/"):
            raise RefusedError(f"a config reads nothing outside of the workspace: {full}")
        self.paths.add(full)


class Clock:
    """Ends the process when its parent is gone, and tells when its time is up."""

    def __init__(self, parent: int, seconds: float, late: "object" = None) -> None:
        self._parent = parent
        self._end = time.monotonic() + seconds
        self._late = late
        signal.signal(signal.SIGALRM, self._beat)  # noqa: TID251 - not a signal of vx
        signal.setitimer(signal.ITIMER_REAL, _BEAT, _BEAT)

    def _beat(self, _: int, frame: "types.FrameType | None") -> None:
        if os.getppid() != self._parent:
            os._exit(1)
        if time.monotonic() > self._end:
            self._late(frame)  # type: ignore[operator]


def main(parent: str, root: str, seconds: str, *programs: str) -> None:
    """Evaluate programs, one after the other."""
    Clock(int(parent), math.inf)
    itself = os.getpid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: TID251 - Ctrl-C is answered by vx
    code = 0
    for program in programs:
        child = os.fork()
        if not child:
            evaluate(itself, root, float(seconds), program)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status) & 0xFF or code
    # An interpreter that winds down has no handler for the next beat.
    os._exit(code)


def evaluate(parent: int, root: str, seconds: float, name: str) -> None:
    """Evaluate a program, answer, and end."""
    answer = os.dup(1)
    os.dup2(2, 1)
    program = f"{root}/{name}"
    places = tuple(dict.fromkeys((os.path.dirname(program), root)))
    looks = Looks(root, places)
    visible = {n: v for n, v in os.environ.items() if not n.startswith("PYTHON")}
    environment = Environment(visible)

    def end(result: "dict[str, object]") -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        looks.loaded()
        looks.paths.add(program)
        found = {"program": name, "paths": sorted(looks.paths), "names": sorted(environment.asked)}
        sys.stdout.flush()
        rest = memoryview(json.dumps({**result, **found}).encode() + b"\n")
        while rest:
            rest = rest[os.write(answer, rest) :]
        os._exit(0)

    def late(frame: "types.FrameType | None") -> None:
        while frame is not None and not _is_local(frame.f_code.co_filename, root):
            frame = frame.f_back
        place = (frame.f_code.co_filename, frame.f_lineno) if frame else (program, 0)
        end({"fault": [*place, "", f"takes longer than {seconds:g} s"]})

    Clock(parent, seconds, late)
    lines = Lines(_ast.Module([], []))
    try:
        os.chdir(os.path.dirname(program))
        with open(program, "rb") as file:
            tree = compile(file.read(), program, "exec", _ONLY_AST, dont_inherit=True)
        lines = Lines(tree)
        code = compile(tree, program, "exec", dont_inherit=True)
        _prepare(places, root, looks, environment)
        value = _value(code, program)
        end({"config": plain(value, ()), "lines": lines.found})
    except UnfitError as unfit:
        end({"fault": [program, lines.of(unfit.at), _dotted(unfit.at), str(unfit)]})
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is an answer
        end({"fault": [*_place(error, program, root), "", _said(error)]})


def _prepare(places: "tuple[str, ...]", root: str, looks: Looks, environment: Environment) -> None:
    def hook(place: str) -> FileFinder:
        if place in _STANDARD or not _is_local(f"{place}/x", root):
            raise ImportError(place)
        return FileFinder(place, (FromSource, [".py"]))

    sys.path[:] = [*_STANDARD, *places]
    sys.path_hooks.insert(0, hook)
    sys.meta_path.append(looks)
    os.environ = environment  # noqa: B003 - the program shall meet ours
    sys.addaudithook(looks.audit)
    for name in _ASKING:
        setattr(os, name, looks.hears(getattr(os, name)))


def _value(code: types.CodeType, program: str) -> object:
    module = types.ModuleType("vx_config")
    module.__file__ = program
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)  # noqa: S102 - this is what it is for
    if NAME not in vars(module):
        raise RefusedError(f"has no value: end it with {NAME} = {{...}}")
    return vars(module)[NAME]


def plain(value: object, at: At) -> object:
    """The value as a config can hold it. Raises `UnfitError`."""
    if len(at) > _DEEPEST:
        raise UnfitError(at[:3], "is nested too deeply")
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise UnfitError(at, f"expected a text as the name of a field, found {name!r:.60}")
        return {str.__str__(name): plain(one, (*at, name)) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, (*at, i)) for i, one in enumerate(value)]
    if isinstance(value, bool) or type(value) in (int, str):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float) and math.isfinite(value):
        return value
    kind = "None" if value is None else f"a {type(value).__name__}"
    raise UnfitError(
        at, f"expected a table, a list, a text, a number or a truth value, found {kind}"
    )


class Lines:
    """On which lines of a program the parts of its value stand, as far as it spells them out."""

    def __init__(self, tree: "_ast.Module") -> None:
        self.found: list[tuple[At, int]] = []
        self._named: dict[str, _ast.expr] = {}
        for statement in tree.body:
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            for target in targets:
                value = getattr(statement, "value", None)
                if isinstance(target, _ast.Name) and value is not None:
                    self._named[target.id] = value
        if NAME in self._named:
            self.found.append(((), self._named[NAME].lineno))
            self._walk(self._named[NAME], ())

    def of(self, at: At) -> int:
        """The line of a place, or of the nearest around it; else 0."""
        known = dict(reversed(self.found))
        while at and at not in known:
            at = at[:-1]
        return known.get(at, 0)

    def _walk(self, node: "_ast.expr | None", at: At) -> None:
        if isinstance(node, _ast.Name):
            # Once: a name may stand for something that it is part of.
            node = self._named.pop(node.id, None)
        if node is None or len(at) > _DEEPEST:
            return
        for step, line, value in _parts(node):
            if step is None:
                self._walk(value, at)
            else:
                self.found.append(((*at, step), line))
                self._walk(value, (*at, step))


def _parts(node: "_ast.expr") -> "list[tuple[str | int | None, int, _ast.expr]]":
    """What a table or a list holds, with names and lines; None names another table's content."""
    if isinstance(node, _ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [(_name(key), value.lineno, value) for key, value in pairs if _is_named(key)]
    if isinstance(node, _ast.List | _ast.Tuple):
        return [(index, value.lineno, value) for index, value in enumerate(node.elts)]
    if isinstance(node, _ast.Call) and getattr(node.func, "id", "") == "dict":
        return [(word.arg, word.value.lineno, word.value) for word in node.keywords]
    return []


def _is_named(key: "_ast.expr | None") -> bool:
    return key is None or isinstance(getattr(key, "value", None), str)


def _name(key: "_ast.expr | None") -> "str | None":
    name = getattr(key, "value", None)
    return name if isinstance(name, str) else None


def _is_local(path: str, root: str) -> bool:
    inside = path.startswith(f"{root}/")
    return inside and not path.startswith(tuple(f"{place}/" for place in _STANDARD))


def _place(error: BaseException, program: str, root: str) -> "tuple[str, int]":
    """The innermost line of the workspace's own that an error came by."""
    if isinstance(error, SyntaxError) and error.filename and _is_local(error.filename, root):
        return error.filename, error.lineno or 0
    found = (program, 0)
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if _is_local(name, root):
            found = (name, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _said(error: BaseException) -> str:
    if isinstance(error, RefusedError):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"is not Python: {error.msg}"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _dotted(at: At) -> str:
    text = ""
    for step in at:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


if __name__ == "__main__":
    main(*sys.argv[1:])
