"""What one round of torture does, decided by its seed alone: the trees, the moments, the endings.

Nothing here starts or looks at anything.
"""

import random
import signal
from dataclasses import dataclass
from typing import Any, Literal

Verb = Literal["run", "watch"]
Moment = Literal["start", "nursery", "spawning", "steady", "cycle", "now"]
"""As soon as vx is started; it has a nursery; a first member of a tree is up; all of them are; a
file was saved then; the step before was done."""
Target = Literal["vx", "group", "nursery", "terminal", "key"]

POLITE = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEADLY = (signal.SIGKILL, signal.SIGQUIT)
PAUSES = (signal.SIGSTOP, signal.SIGTSTP)
_KEYS = {b"\x03": signal.SIGINT, b"\x1c": signal.SIGQUIT}
_WRAPS = (
    "{}",
    "exec {}",
    "{} & wait",
)
_LASTING = (
    *_WRAPS,
    "{} | cat",
    "({} &) ; {} ; :",
    "trap '' INT TERM HUP; {} & wait; wait",
)


@dataclass(frozen=True, slots=True)
class Step:
    """At this moment, and `delay` seconds later, this is done to the target."""

    moment: Moment
    delay: float
    target: Target
    what: int = 0
    """A signal; for a key its byte."""

    @property
    def signal(self) -> int:
        """The signal that comes of it."""
        if self.target == "terminal":
            return signal.SIGHUP
        return _KEYS[bytes([self.what])] if self.target == "key" else self.what

    def __str__(self) -> str:
        name = signal.Signals(self.signal).name
        return f"{self.moment}+{self.delay * 1000:.0f}ms {name} to {self.target}"


@dataclass(frozen=True, slots=True)
class Planned:
    """A task: its tree as the puppet reads it, and what surrounds it."""

    name: str
    wrap: str
    tree: dict[str, Any]
    server: bool
    boxed: bool
    watched: bool
    grace: float
    after: tuple[str, ...]
    interactive: bool = False

    @property
    def copies(self) -> int:
        """How many such trees its command builds."""
        return self.wrap.count("{}")

    @property
    def members(self) -> int:
        """How many members are up when all are that are sure to come.

        What a root leaves behind may be gone before it is up.
        """
        return 1 if "leaves" in self.tree["traits"] else self.copies * _count(self.tree)


@dataclass(frozen=True, slots=True)
class Plan:
    """One round. Without steps the run ends by itself."""

    seed: int
    verb: Verb
    terminal: bool
    tasks: tuple[Planned, ...]
    steps: tuple[Step, ...]

    @property
    def needs_ports(self) -> int:
        """How many ports its trees listen on."""
        return sum(len(list(ports_of(task.tree))) for task in self.tasks)

    def codes(self) -> set[int]:
        """The exit codes with which vx may end."""
        if not self.steps:
            return {0}
        codes: set[int] = set()
        asked = False
        for step in self.steps:
            if step.what in PAUSES:
                continue
            if step.target == "nursery":
                codes.add(70)
            elif step.signal in DEADLY:
                codes.add(128 + step.signal)
            elif not asked:  # a second polite signal changes nothing
                asked = True
                codes |= self._polite(step)
        return codes

    def _polite(self, step: Step) -> set[int]:
        if self.verb == "run":
            return {128 + step.signal}
        # Until it can hear a signal, a watch is a program like any other.
        return {0, 128 + step.signal} if step.moment == "start" else {0}

    @property
    def restores(self) -> bool:
        """Whether vx lives to give its terminal back."""
        ends = (step for step in self.steps if step.target != "nursery")
        return self.terminal and not any(
            step.signal in DEADLY or step.target == "terminal" for step in ends
        )

    def __str__(self) -> str:
        tasks = "; ".join(_told(task) for task in self.tasks)
        steps = ", ".join(map(str, self.steps)) or "ends by itself"
        tty = " in a terminal" if self.terminal else ""
        return f"seed {self.seed}: vx {self.verb}{tty} [{steps}] {tasks}"


def make_plan(seed: int, *, boxes: bool) -> Plan:
    """The round of this seed; without `boxes` its sandboxed tasks are plain ones."""
    chance = random.Random(seed)
    itself = chance.random() < 0.08
    verb: Verb = "run" if itself or chance.random() < 0.5 else "watch"
    terminal = chance.random() < 0.3
    tasks: list[Planned] = []
    if terminal and verb == "run" and not itself and chance.random() < 0.4:
        tasks.append(_interactive(chance))
    for number in range(chance.randint(1, 3)):
        tasks.append(_task(chance, f"t{number}", tasks, leaves=itself, boxes=boxes))
    if not itself and not any(_stays(task) for task in tasks):
        tasks.append(_task(chance, "stays", [], leaves=False, boxes=boxes, stays=True))
    steps = () if itself else _steps(chance, verb, terminal=terminal)
    if any(task.interactive for task in tasks):  # what is typed goes to that task
        steps = tuple(
            Step(step.moment, step.delay, "vx", signal.SIGTERM) if step.target == "key" else step
            for step in steps
        )
    return Plan(seed, verb, terminal, tuple(tasks), steps)


def ports_of(tree: dict[str, Any]) -> "list[dict[str, Any]]":
    """The nodes of a tree that are to listen."""
    found = [tree] if "port" in tree else []
    for child in tree["children"]:
        found += ports_of(child)
    return found


def _stays(task: Planned) -> bool:
    return "leaves" not in task.tree["traits"]


def _task(
    chance: random.Random,
    name: str,
    before: list[Planned],
    *,
    leaves: bool,
    boxes: bool,
    stays: bool = False,
) -> Planned:
    leaves = leaves or (not stays and chance.random() < 0.3)
    server = not leaves and chance.random() < 0.6
    boxed = chance.random() < 0.35 and boxes
    wrap = chance.choice(_WRAPS if leaves else _LASTING)
    tree = {"name": name, **_node(chance, 0, chance.randint(0, 3), single=wrap.count("{}") == 1)}
    tree["traits"] = [trait for trait in tree["traits"] if trait != "stopped" or not leaves]
    if leaves:
        tree["traits"] = [t for t in tree["traits"] if t not in ("bare", "slow")] + ["leaves"]
    finishes = [task.name for task in before if task.server or not _stays(task)]
    after = tuple(chance.sample(finishes, 1)) if finishes and chance.random() < 0.3 else ()
    grace = round(chance.uniform(0.05, 0.4), 2)
    return Planned(name, wrap, tree, server, boxed, chance.random() < 0.6, grace, after)


def _interactive(chance: random.Random) -> Planned:
    """A task that has the terminal."""
    tree = {"name": "tty", **_node(chance, 0, chance.randint(0, 2), single=False)}
    tree["traits"] = [trait for trait in tree["traits"] if trait not in ("stopped", "noisy")]
    grace = round(chance.uniform(0.05, 0.4), 2)
    wrap = chance.choice(_WRAPS)
    return Planned("tty", wrap, tree, False, False, False, grace, (), interactive=True)


def _node(chance: random.Random, depth: int, most: int, *, single: bool) -> dict[str, Any]:
    """A member and, to this depth at most, its children."""
    traits = [trait for trait, odds in _ODDS if chance.random() < odds]
    if depth == 0:
        traits = [trait for trait in traits if trait not in ("session", "group", "orphan")]
    if "session" in traits and "group" in traits:
        traits.remove("group")  # who leads a session cannot
    children = []
    if depth < most:
        children = [
            _node(chance, depth + 1, most, single=single)
            for _ in range(chance.choice((0, 1, 1, 2)))
        ]
    if depth and not children and chance.random() < 0.25:
        traits = [trait for trait in traits if trait != "stopped"] + ["bare"]
    node: dict[str, Any] = {"traits": traits, "children": children}
    if single and "bare" not in traits and chance.random() < 0.25:
        node["port"] = 0
    return node


_ODDS = (
    ("session", 0.3),
    ("group", 0.15),
    ("orphan", 0.35),
    ("deaf", 0.2),
    ("slow", 0.1),
    ("phoenix", 0.1),
    ("mute", 0.4),
    ("noisy", 0.08),
    ("storm", 0.06),
    ("hare", 0.06),
    ("stopped", 0.08),
)


def _steps(chance: random.Random, verb: Verb, *, terminal: bool) -> tuple[Step, ...]:
    moments: list[Moment] = ["start", "nursery", "spawning", "steady", "steady"]
    if verb == "watch":
        moments += ["cycle", "cycle"]
    moment = chance.choice(moments)
    delay = chance.uniform(0, 0.4 if moment == "start" else 0.1)
    first = _ending(chance, moment, delay, terminal=terminal)
    kind = chance.random()
    # A nursery that is stopped, then the end. Before it has started anything, it may stay stopped.
    if kind < 0.12 and moment not in ("start", "nursery"):
        stop = Step(moment, delay, "nursery", signal.SIGSTOP)
        return stop, _ending(chance, "now", chance.uniform(0, 0.05), terminal=terminal)
    if kind < 0.17:  # a vx that is stopped is killed
        stop = Step(moment, delay, "vx", chance.choice(PAUSES))
        return stop, Step("now", chance.uniform(0, 0.05), "vx", signal.SIGKILL)
    if kind < 0.5 and first.target != "nursery" and first.signal in POLITE:  # more in the grace
        return first, _more(chance)
    return (first,)


def _ending(chance: random.Random, moment: Moment, delay: float, *, terminal: bool) -> Step:
    settled = moment not in ("start", "nursery")
    kind = chance.random()
    if terminal and settled and kind < 0.25:
        return Step(moment, delay, "terminal")
    if terminal and settled and kind < 0.5:
        return Step(moment, delay, "key", chance.choice((3, 3, 28)))
    if moment != "start" and kind > 0.85:
        return Step(moment, delay, "nursery", signal.SIGKILL)
    deadly = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGQUIT)
    number = chance.choice((*POLITE, *deadly))
    target: Target = "group" if chance.random() < 0.35 else "vx"
    return Step(moment, delay, target, number)


def _more(chance: random.Random) -> Step:
    delay = chance.uniform(0, 0.25)
    kind = chance.random()
    if kind < 0.4:
        return Step("now", delay, "vx", chance.choice(POLITE))
    if kind < 0.55:
        return Step("now", delay, "nursery", signal.SIGKILL)
    return Step("now", delay, "vx" if kind < 0.8 else "group", signal.SIGKILL)


def _count(node: dict[str, Any]) -> int:
    return 1 + sum(map(_count, node["children"]))


def _told(task: Planned) -> str:
    kind = "server" if task.server else "interactive" if task.interactive else "task"
    kind += " boxed" if task.boxed else ""
    after = f" after {','.join(task.after)}" if task.after else ""
    return f"{task.name} ({kind}{after}) {task.wrap} = {_drawn(task.tree)}"


def _drawn(node: dict[str, Any]) -> str:
    inner = ", ".join(_drawn(child) for child in node["children"])
    marks = "+".join([*node["traits"], *(["port"] if "port" in node else [])]) or "plain"
    return marks + (f"[{inner}]" if inner else "")
