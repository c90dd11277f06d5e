"""The edits of a random walk: each does one thing to the disk and says what it did."""

import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from tests.harness.waiting import wait_for
from tests.harness.workspace import Workspace

_NAMES = ("a", "b.ts", "c.tmp", "d e", "n\new", "ü.ts", "by\udcffte", "-x", "gen", "[i]*")
_INNER = ("", "", "deep", "deep/er", "gen", "other", "odd\udcfe")
_RULES = ("*.tmp", "gen", "deep/er/", "/packages/p1/src/b.ts", "**/other/a", "src/deep/*", "!b.ts")
_ALWAYS = "dist\nout\n"

MARK = "+save"
"""A file that only the task of the root takes; a cycle names it first."""


_AT_ONCE = 0.008
"""Seconds that a file may be there and count as never made, well below what changes wait to settle."""


class Ground:
    """The workspace of a walk, and chance; `dawdled`: a busy machine made an edit of what is none."""

    def __init__(self, ws: Workspace, chance: random.Random) -> None:
        self.ws = ws
        self.chance = chance
        self._number = 0
        self.dawdled = False
        self.outside = f"{ws.path}.outside"

    def prepare(self) -> None:
        """Three packages and the root, committed."""
        os.makedirs(self.outside)
        self.ws.write("vx.workspace.toml", 'members = ["packages/*"]\n')
        self.ws.write("package.json", '{"name": "root"}')
        self.ws.write(".gitignore", _ALWAYS)
        self.ws.write(
            "vx.toml",
            f"[tasks.all]\ncommand = {json.dumps(self.ws.puppet('snapshot.py', 'packages', 'out/all.json'))}\n"
            '[tasks.all.cache.inputs]\nworkspace_files = ["packages/*/src/**", "+save"]\n'
            '[tasks.all.cache.outputs]\nfiles = ["out/**"]\n',
        )
        for _ in range(3):
            self.new_member()
        self.ws.git("add", "-A")
        self.ws.git("commit", "-qm", "start")

    def new_member(self) -> str:
        """Make a package."""
        name = f"p{self.number()}"
        self.ws.write(f"packages/{name}/package.json", json.dumps({"name": name}))
        self.config(name, "0")
        self.ws.write(f"packages/{name}/src/a", self.text())
        return name

    def config(self, member: str, version: str) -> None:
        """Write a package's config; the version is an environment variable of its tasks."""
        name = self.name(member)
        build = self.ws.puppet("snapshot.py", "src", "dist/snapshot.json", "$VERSION")
        lint = self.ws.puppet("snapshot.py", ".", f"{self.ws.logs}/lint-{name}.json", "$VERSION")
        self.ws.replace(
            f"packages/{member}/vx.toml",
            f"[tasks.build]\ncommand = {json.dumps(build)}\n"
            f'env.set = {{ VERSION = "{version}" }}\n'
            'cache = { inputs = ["src/**"], outputs = ["dist/**"] }\n'
            f"[tasks.lint]\ncommand = {json.dumps(lint)}\n"
            f'env.set = {{ VERSION = "{version}" }}\n',
        )

    def members(self) -> list[str]:
        """The directories of the packages with tasks."""
        return [
            name
            for name in sorted(os.listdir(self.ws.file("packages")))
            if os.path.exists(self.ws.file(f"packages/{name}/vx.toml"))
            and os.path.exists(self.ws.file(f"packages/{name}/package.json"))
        ]

    def name(self, member: str) -> str:
        """What a package calls itself."""
        return str(json.loads(self.ws.read(f"packages/{member}/package.json"))["name"])

    def version(self, member: str) -> str:
        """The version in its config."""
        return self.ws.read(f"packages/{member}/vx.toml").split('VERSION = "')[1].split('"')[0]

    def mend(self) -> None:
        """Remove packages of a name that is there twice, and those that lost half of themselves."""
        names: set[str] = set()
        good = self.members()
        for member in sorted(os.listdir(self.ws.file("packages"))):
            if member not in good or self.name(member) in names:
                remove_package(self.ws.file(f"packages/{member}"))
            else:
                names.add(self.name(member))

    def save_mark(self) -> None:
        """Save the file that nobody else saves, in one step: one that is half written is an edit, too."""
        self.ws.write(".git/mark", str(self.number()))
        os.rename(self.ws.file(".git/mark"), self.ws.file(MARK))

    def number(self) -> int:
        """A number that was not given before."""
        self._number += 1
        return self._number

    def text(self) -> str:
        """Some content; short, so that the same is met again."""
        return self.chance.choice("xyz") * self.chance.randint(0, 3)

    def source(self) -> str:
        """The absolute directory of some package's sources; it may be missing."""
        return self.ws.file(f"packages/{self.chance.choice(self.members())}/src")

    def place(self) -> str:
        """An absolute path in some source directory that is there."""
        while True:
            path = os.path.join(self.source(), self.chance.choice(_INNER))
            try:
                os.makedirs(path, exist_ok=True)
                return os.path.join(path, self.chance.choice(_NAMES))
            except OSError:  # a file or a link is in the way
                continue

    def file(self) -> str:
        """The absolute path of some regular file of the sources."""
        found = self._all(lambda path: os.path.isfile(path) and not os.path.islink(path))
        if found:
            return self.chance.choice(found)
        source = f"packages/{self.members()[0]}/src"
        if os.path.islink(self.ws.file(source)):
            os.unlink(self.ws.file(source))
        clear(self.ws.file(f"{source}/a"))
        self.ws.write(f"{source}/a", self.text())
        return self.file()

    def directory(self) -> str:
        """The absolute path of some directory of the sources."""
        found = self._all(lambda path: os.path.isdir(path) and not os.path.islink(path))
        return self.chance.choice(found or [os.path.dirname(self.file())])

    def git(self, *words: str) -> str:
        """Run git, whose success is not asked for."""
        command = ["git", "-c", "core.hooksPath=/dev/null", *words]
        done = subprocess.run(command, cwd=self.ws.path, capture_output=True, check=False)
        return f"git {' '.join(words)} {done.returncode}"

    def git_says(self, *words: str) -> str:
        """What git answers to a question."""
        done = subprocess.run(["git", *words], cwd=self.ws.path, capture_output=True, check=False)
        return os.fsdecode(done.stdout).strip()

    def short(self, path: str) -> str:
        """The path as it is told."""
        return repr(os.path.relpath(path, self.ws.path))

    def _all(self, wanted: Callable[[str], bool]) -> list[str]:
        found = []
        for member in self.members():
            for top, inner, names in os.walk(self.ws.file(f"packages/{member}/src")):
                found += [os.path.join(top, name) for name in (*inner, *names)]
        return sorted(filter(wanted, found))


def remove_package(path: str) -> None:
    """Remove a directory in which a task may be writing just now."""

    def gone() -> bool:
        shutil.rmtree(path, ignore_errors=True)
        return not os.path.lexists(path)

    wait_for(gone, f"{path} is gone")


def clear(path: str) -> None:
    """Remove whatever is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def make_room(path: str) -> None:
    """Remove whatever is there; the directory is there then, also if a link to itself led to it."""
    clear(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)


def put(path: str, text: str) -> None:
    """Write in place."""
    with open(path, "w") as file:
        file.write(text)


# What changes something


def write(ground: Ground) -> str:
    path = ground.place()
    make_room(path)
    put(path, text := ground.text())
    return f"{ground.short(path)} {text!r}"


def rewrite(ground: Ground) -> str:
    path = ground.file()
    put(path, text := ground.text())
    return f"{ground.short(path)} {text!r}"


def replace(ground: Ground) -> str:
    path = ground.file()
    put(f"{path}.swp", text := ground.text())
    os.rename(f"{path}.swp", path)
    return f"{ground.short(path)} {text!r}"


def backdate(ground: Ground) -> str:
    """Rewrite with the same size and time."""
    path = ground.file()
    before = os.stat(path)
    put(path, text := ground.chance.choice("xyz") * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    return f"{ground.short(path)} {text!r}"


def turn_bit(ground: Ground) -> str:
    path = ground.file()
    os.chmod(path, os.stat(path).st_mode ^ 0o100)
    return ground.short(path)


def remove(ground: Ground) -> str:
    os.unlink(path := ground.file())
    return ground.short(path)


def rename(ground: Ground) -> str:
    path, target = ground.file(), ground.place()
    if path != target and not target.startswith(f"{path}/"):
        make_room(target)
        # What the target took the place of, through a link, may have been this one.
        with suppress(OSError):
            os.rename(path, target)
    return f"{ground.short(path)} -> {ground.short(target)}"


def move_tree(ground: Ground) -> str:
    path, target = ground.directory(), ground.place()
    if f"{target}/".startswith(f"{path}/") or f"{path}/".startswith(f"{target}/"):
        return "nothing"
    make_room(target)
    with suppress(OSError):
        os.rename(path, target)
    return f"{ground.short(path)} -> {ground.short(target)}"


def move_out(ground: Ground) -> str:
    path = ground.directory()
    os.rename(path, f"{ground.outside}/{ground.number()}")
    return ground.short(path)


def move_in(ground: Ground) -> str:
    away = sorted(os.listdir(ground.outside))
    if not away:
        return "nothing"
    target = ground.place()
    make_room(target)
    os.rename(f"{ground.outside}/{ground.chance.choice(away)}", target)
    return ground.short(target)


def remove_tree(ground: Ground) -> str:
    shutil.rmtree(path := ground.directory())
    return ground.short(path)


def remake_tree(ground: Ground) -> str:
    path = ground.chance.choice([ground.directory(), ground.source()])
    clear(path)
    os.makedirs(f"{path}/deep")
    for name in ("a", "deep/a"):
        put(f"{path}/{name}", ground.text())
    return ground.short(path)


def copy_tree(ground: Ground) -> str:
    path, target = ground.directory(), ground.place()
    if f"{target}/".startswith(f"{path}/") or f"{path}/".startswith(f"{target}/"):
        return "nothing"
    make_room(target)
    with suppress(OSError):
        shutil.copytree(path, target, symlinks=True)
    return f"{ground.short(path)} -> {ground.short(target)}"


def link(ground: Ground) -> str:
    path = ground.place()
    make_room(path)
    os.symlink(to := ground.chance.choice(["a", "deep", "../src", "nowhere", "/etc"]), path)
    return f"{ground.short(path)} -> {to}"


def burst(ground: Ground) -> str:
    top = os.path.dirname(ground.place())
    for number in range(60):
        os.makedirs(f"{top}/m{number % 7}", exist_ok=True)
        put(f"{top}/m{number % 7}/{number}", ground.text())
    return ground.short(top)


def remove_burst(ground: Ground) -> str:
    top = os.path.dirname(ground.place())
    for number in range(7):
        clear(f"{top}/m{number}")
    return ground.short(top)


def ignore(ground: Ground) -> str:
    chosen = ground.chance.sample(_RULES, ground.chance.randint(0, 2))
    top = ground.chance.choice(["", "", *(f"packages/{m}/" for m in ground.members())])
    text = "".join(f"{rule}\n" for rule in chosen)
    ground.ws.write(f"{top}.gitignore", _ALWAYS + text)
    return f"{top}.gitignore {chosen}"


def commit(ground: Ground) -> str:
    ground.git("checkout", "-q", "-b", f"b{ground.chance.randrange(4)}")
    ground.git("add", "-A")
    return ground.git("commit", "-qm", "state")


def switch(ground: Ground) -> str:
    names = ground.ws.git("branch", "--format=%(refname:short)").split()
    return ground.git("checkout", "-q", "-f", ground.chance.choice(names))


def stash(ground: Ground) -> str:
    return ground.git("stash", "-q", *ground.chance.choice([(), ("-u",)]))


def unstash(ground: Ground) -> str:
    told = ground.git("stash", "pop", "-q")
    # What git could not merge is no config, and waits to be mended.
    return f"{told}, {ground.git('reset', '-q', '--hard')}" if told[-1] != "0" else told


def rebase(ground: Ground) -> str:
    names = ground.ws.git("branch", "--format=%(refname:short)").split()
    told = ground.git("rebase", "-q", "-X", "theirs", ground.chance.choice(names))
    return f"{told}, {ground.git('rebase', '--abort')}"


def bump(ground: Ground) -> str:
    member = ground.chance.choice(ground.members())
    ground.config(member, version := str(ground.chance.randrange(3)))
    return f"{member} {version}"


def break_and_mend(ground: Ground) -> str:
    member = ground.chance.choice(ground.members())
    path = f"packages/{member}/vx.toml"
    before = ground.ws.read(path)
    ground.ws.write(path, "[tasks.build\n")
    inner = rewrite(ground)
    ground.ws.write(path, before)
    return f"{member}, {inner}"


def new_member(ground: Ground) -> str:
    return ground.new_member() if len(ground.members()) < 6 else "nothing"


def remove_member(ground: Ground) -> str:
    members = ground.members()
    if len(members) < 3:
        return "nothing"
    remove_package(ground.ws.file(f"packages/{(gone := ground.chance.choice(members[1:]))}"))
    return gone


def rename_member(ground: Ground) -> str:
    member = ground.chance.choice(ground.members())
    target = f"r{ground.chance.randrange(100)}"
    if not os.path.exists(ground.ws.file(f"packages/{target}")):
        os.rename(ground.ws.file(f"packages/{member}"), ground.ws.file(f"packages/{target}"))
    return f"{member} -> {target}"


Edit = Callable[[Ground], str]

EDITS: dict[Edit, int] = {
    **dict.fromkeys((write, rewrite, replace), 6),
    **dict.fromkeys((remove, rename, move_tree, remake_tree, copy_tree, ignore), 3),
    **dict.fromkeys((backdate, turn_bit, link, burst, remove_burst, move_out, move_in), 2),
    **dict.fromkeys((commit, switch, stash, unstash, rebase, remove_tree), 2),
    **dict.fromkeys((bump, break_and_mend, new_member, remove_member, rename_member), 1),
}
"""What changes the disk, and how often."""


# What changes nothing


def touch(ground: Ground) -> str:
    os.utime(path := ground.file(), (t := ground.chance.choice([1, 1e9, 4e9]), t))
    return ground.short(path)


def save_again(ground: Ground) -> str:
    path = ground.file()
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    bit = os.stat(path).st_mode
    # Written where nobody looks: beside it, it would be a file more for as long as it takes.
    put(fresh := ground.ws.file(".git/fresh"), text)
    os.chmod(fresh, bit)
    os.rename(fresh, path)
    return ground.short(path)


def probe(ground: Ground) -> str:
    path = f"{os.path.dirname(ground.file())}/4913"
    begun = time.monotonic()
    put(path, "")
    os.unlink(path)
    ground.dawdled |= time.monotonic() - begun > _AT_ONCE
    return ground.short(path)


def limit_mode(ground: Ground) -> str:
    path = ground.file()
    os.chmod(path, os.stat(path).st_mode ^ 0o044)
    return ground.short(path)


def ignored_file(ground: Ground) -> str:
    path = f"{os.path.dirname(os.path.dirname(ground.file()))}/dist"
    os.makedirs(path, exist_ok=True)
    put(f"{path}/{ground.text()}f", ground.text())
    return ground.short(path)


def empty_directory(ground: Ground) -> str:
    """Make one; rename it, if it is there and still is one."""
    path = f"{os.path.dirname(ground.file())}/empty"
    if not os.path.lexists(path):
        os.mkdir(path)
    elif os.path.isdir(path) and not os.listdir(path) and not os.path.lexists(f"{path}2"):
        os.rename(path, f"{path}2")
    return ground.short(path)


def tell_git(ground: Ground) -> str:
    ground.git("add", "-A")
    return ground.git("status")


IDLE_EDITS = (touch, save_again, probe, limit_mode, ignored_file, empty_directory, tell_git)
"""What leaves what counts as it was."""
