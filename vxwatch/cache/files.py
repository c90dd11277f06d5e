"""The files of a session: what tasks take, what each holds, and whether it really changed.

Events are hints; content decides. A path is a change when its bytes, its executable bit, its
link target or its existence differ from what was last seen here, and when it is neither
ignored (unless a task spells its name out) nor the declared output of a task. A change costs
the changed paths, never the workspace; only a changed `.gitignore` lists its directory anew.

Nothing is written, and no file that is not regular is opened. Calls must not overlap; they may
come from different threads.
"""

import os
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vxwatch.cache.content import Clock
from vxwatch.cache.listed import Listed
from vxwatch.cache.record import Record
from vxwatch.cache.remembered import Keys, Remembered
from vxwatch.cache.stamps import Stamp
from vxwatch.cache.tree import PathTree
from vxwatch.cache.walk import Walker
from vxwatch.globs import excluded
from vxwatch.graph.affected import LOCKFILES, Affected
from vxwatch.graph.places import meeting, outermost, upward
from vxwatch.model import TaskId

if TYPE_CHECKING:
    from vxwatch.workspace.git import Ignores

Lister = Callable[[Sequence[str]], Iterable[str]]
"""Gives the files below some directories: tracked, and untracked but not ignored; none of what
never counts."""

_RULES = ".gitignore"
_NO_FILES: Mapping[str, str] = {}
_PLACES = 16  # seen: 1,090 places cost git a second, the directory around them 50 ms


class FileIndex:
    """Every file that a task of a graph may take."""

    def __init__(
        self,
        root: str,
        affected: Affected,
        ignores: "Ignores",
        lister: Lister,
        clock: Clock = time.time_ns,
        remembered: Remembered | None = None,
    ) -> None:
        """List the files. `root` is absolute; `ignores` stays the caller's to close.

        `remembered` spares reading what was read in an earlier run.
        """
        self._root = root
        self._ignores = ignores
        self._lister = lister
        self._clock = clock
        self._walker = Walker(root, self._allowed)
        self._record = Record(root, clock, self._moved)
        self._remembered = remembered or Remembered()
        self._load(affected, self._remembered.digest)

    def load(self, affected: Affected) -> None:
        """Take up another graph and list its files, keeping what was read and did not move.

        A change that comes to light here is not reported: make all keys anew after a load.
        """
        self._load(affected, self._record.vouched)

    def _load(self, affected: Affected, known: Callable[[str, Stamp], str | None]) -> None:
        self._record = Record(self._root, self._clock, self._moved)
        self._listed = Listed(self._root, self._clock)
        self._affected = affected
        self._places = affected.directories()
        self._literals = affected.literals()
        self._named = PathTree()
        for path in self._literals:
            self._named.add(path)
        self._ignored: set[str] = set()
        self._selected: dict[TaskId, set[str]] = {}
        self._matched: dict[Hashable, dict[str, bool]] = {}
        self._shared: dict[Hashable, tuple[int, Mapping[str, str]]] = {}
        self._record.take_in(self._find(self._places, self._literals), known)

    def read(self) -> None:
        """Read everything that was not read yet, so that any later change can be told."""
        self._record.digests(list(self._record))

    def remember(self, keys: Keys | None = None) -> None:
        """Write down what was read, for later runs, if it is much, or `keys` were made of it.

        Raises OSError.
        """
        if keys is not None or self._record.worth_keeping(len(self._remembered)):
            self._remembered.save(self._root, self._record.entries(), keys)
            self._record.written_down()

    def remembered(self) -> tuple[Keys, Collection[str]]:
        """The keys that an earlier run wrote down, and where files may not be what these are of."""
        return self._remembered.keys, self._remembered.moved(self._record.known())

    def mark(self) -> None:
        """Remember what every file holds now, for `returned`."""
        self._record.mark()

    def returned(self, paths: Collection[str]) -> frozenset[str]:
        """Those of the paths that changed since the last mark and changed back."""
        return self._record.returned(paths)

    @property
    def paths(self) -> Collection[str]:
        """Every file that a task may take, and those that one spells out, there or not."""
        return {*self._record, *self._literals}

    @property
    def ignored(self) -> frozenset[str]:
        """The files that count although git ignores them."""
        return frozenset(self._ignored)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """What could not be read and the system's reason: keys over it prove nothing."""
        return {**self._walker.denied, **self._record.unreadable}

    def holds(self, directory: str) -> bool:
        """Whether a file below the directory is known."""
        return self._record.holds(directory)

    def inputs(self, task_id: TaskId) -> Mapping[str, str]:
        """The files that the task takes, with digests; for a server those of `restart_on`.

        Tasks that take the same files, none of which a task writes, get the very same mapping.
        """
        if task_id in self._affected.servers:
            self._renew(task_id)
            return self._record.digests(self._taken(task_id))
        alike = self._affected.alike(task_id)
        generation, shared = self._shared.get(alike, (-1, _NO_FILES))
        if generation == self._record.generation:
            return shared
        found = self._record.digests(self._taken(task_id))
        if not any(self._matched.get(alike, {"": True}).values()):
            self._shared[alike] = self._record.generation, found
        return found

    def _taken(self, task_id: TaskId) -> list[str]:
        return list(self._selected_of(task_id))

    def _selected_of(self, task_id: TaskId) -> set[str]:
        if task_id not in self._selected:
            self._selected[task_id] = self._select(task_id)
        return self._selected[task_id]

    def stands(self, task_id: TaskId, since: int | None = None) -> bool:
        """Whether stamps prove that the task takes what its key was made of, and nothing came.

        With `since`, that nothing was `rewritten`, either. Costs little and changes nothing; where
        it is not so, `refresh` tells what moved.
        """
        taken = self._taken(task_id)
        if not self._record.prove(taken, since):
            return False
        for _, files in self._around(task_id, taken):
            if any(p not in self._record and self._affected.takes(task_id, p) for p in files):
                return False
        _, files = self._listed.inside("", self._record.__contains__)
        return not any(path in LOCKFILES and path not in self._record for path in files)

    def rewritten(self, task_id: TaskId, since: int) -> list[str]:
        """The files that the task takes and that were written after `since`, or are gone; sorted.

        `since` is a time of the wall clock, in nanoseconds. What changed and changed back looks
        like what it was, but may have been read meanwhile.
        """
        return sorted(path for path in self._taken(task_id) if self._newer(path, since))

    def renewed(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths to which another file came that holds the same, or that are gone.

        So git and editors that save beside a file leave what they changed and changed back. A
        program that dates a file or writes the same into it does not.
        """
        return [path for path in paths if self._record.renewed(path)]

    def _newer(self, path: str, since: int) -> bool:
        try:
            return os.lstat(f"{self._root}/{path}").st_ctime_ns > since
        except OSError:
            return True

    def stirred(self, task_id: TaskId, since: int) -> str | None:
        """A directory of files that the task takes in which a name came or went after `since`."""
        for directory, _ in self._around(task_id, ()):
            if os.path.isdir(f"{self._root}/{directory}") and self._newer(directory, since):
                return directory
        return None

    def shifted(self, task_id: TaskId, directories: Iterable[str], since: int) -> str | None:
        """One of the directories that came to its place after `since`, with files that the task takes."""
        for directory in directories:
            if self._record.holds(directory) and self._newer(directory, since):
                below = self._record.below(directory)
                if not self._selected_of(task_id).isdisjoint(below):
                    return directory
        return None

    def _around(self, task_id: TaskId, but: Collection[str]) -> Iterator[tuple[str, Sequence[str]]]:
        """The directories in which files of the task may lie, `but` for these, with what may be new."""
        own, wide = self._affected.roots(task_id)
        ahead = [root for root in (*own, *wide) if root not in but]
        while ahead:
            directory = ahead.pop()
            inner, files = self._listed.inside(directory, self._record.__contains__)
            ahead += [path for path in inner if not self._affected.closed(path)]
            yield directory, files

    def refresh(self, paths: Iterable[str]) -> frozenset[str]:
        """Look at paths that may have changed, and return those that did.

        A path may be a file, a directory that came or went ("." for the root), or nothing any more.
        """
        self._look_at_tracked()
        hints = {"" if path == "." else path for path in paths if not excluded(path)}
        rules = _ruled(hints)
        changed = self._relist(rules)
        changed |= self._settle(path for path in hints if not self._affected.generated(path))
        changed |= self._relist(_ruled(changed) - rules)
        return self._edits(changed)

    def ghosts(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that would count, but nothing is there, nor was at the last look."""
        gone = [
            path
            for path in paths
            if path not in self._record
            and not self._record.holds(path)
            and not os.path.lexists(f"{self._root}/{path}")
            and not excluded(path)
            and self._affected.concerns(path)
        ]
        ignored = self._ask(gone)
        return [path for path in gone if path not in ignored]

    def rescan(self, tree: str) -> frozenset[str]:
        """Look at everything below a directory ("" for the root), and return what changed."""
        self._look_at_tracked()
        changed = self._settle([tree])
        return self._edits(changed | self._relist(_ruled(changed)))

    def _look_at_tracked(self) -> None:
        """What git came to track at the place of an output is a file as any other."""
        if self._affected.renew():
            self._matched.clear()
            self._selected.clear()
            self._shared.clear()

    def _edits(self, changed: Iterable[str]) -> frozenset[str]:
        return frozenset(path for path in changed if not self._affected.generated(path))

    def _settle(self, paths: Iterable[str]) -> set[str]:
        """What changed at the paths and below them."""
        suspects: set[str] = set()
        strange: set[str] = set()
        directories: list[str] = []
        for path in {self._lifted(path) for path in paths}:
            suspects.update(self._record.below(path))
            strange.update((path, *self._named.below(path)))
            if self._record.is_directory(path):
                directories.append(path)
        suspects |= strange.intersection(self._record)
        # What a link leads to is not there, unless a task names it.
        behind = self._record.behind_links(suspects.union(strange, directories)) - self._literals
        changed = {path for path in suspects & behind if self._record.drop(path)}
        suspects -= behind
        strange.difference_update(suspects, directories, behind)
        directories = [path for path in directories if path not in behind]
        foreign = [path for path in directories if not self._record.holds(path)]
        allowed = self._allowed(list(strange), foreign)
        entered = [path for path in directories if path in allowed or self._record.holds(path)]
        record = self._record
        found = self._walker.files(entered, record.__contains__, record.holds)
        suspects.update(allowed.intersection(strange), found)
        return changed | {path for path in suspects if self._record.look(path)}

    def _lifted(self, path: str) -> str:
        """The path, or the highest directory above it that holds nothing known so far.

        That one says whether the path counts at all: it may be ignored, or a link.
        """
        if path in self._record or path in self._literals:
            return path
        top = path
        for above in upward(path.rpartition("/")[0]):
            if not above or self._record.holds(above):
                break
            top = above
        return top

    def _relist(self, ruled: Collection[str]) -> set[str]:
        """What came and went because the rules of some directories changed."""
        if not ruled:
            return set()
        self._ignores.reset()
        self._selected.clear()
        places = meeting(ruled, self._places)
        known = {path for place in places for path in self._record.below(place)}
        named = {path for place in places for path in (place, *self._named.below(place))}
        before = {path for path in self._ignored if path in known or path in named}
        self._ignored -= before
        found = self._find(places, named & self._literals)
        moved = (known - found) | (known & (before ^ self._ignored))
        for path in moved:
            self._record.drop(path)
        return moved | {
            path for path in (found - known) | (found & moved) if self._record.look(path)
        }

    def _find(self, places: Sequence[str], named: Collection[str]) -> set[str]:
        """The files that count below some places, and these `named` ones, there or not."""
        places = self._record.plain(places)
        listed = self._lister(_few(places)) if places else ()
        found = {path for path in listed if self._affected.concerns(path)}
        # Git lists what it tracks there, a link in the way or not.
        found -= self._record.behind_links(found)
        scattered = self._record.plain(meeting(self._affected.scattered(), places))
        found.update(self._walker.files(scattered, found.copy().__contains__))
        # Of what is not there it is asked when it comes.
        others = (path for path in named if path not in found)
        self._ignored |= self._ask([p for p in others if os.path.lexists(f"{self._root}/{p}")])
        return found.union(named)

    def _allowed(self, files: list[str], directories: list[str]) -> set[str]:
        """Those of the paths, none of which is known, that count."""
        concerned = [
            path
            for path in files
            if self._affected.concerns(path) and not self._affected.generated(path)
        ]
        entered = [
            path
            for path in directories
            if self._affected.reaches(path) and not self._affected.closed(path)
        ]
        ignored = self._ask(concerned + entered)
        named = self._named_though(ignored.intersection(concerned))
        self._ignored = self._ignored.difference(concerned) | named
        return {*concerned, *entered} - ignored | named

    def _named_though(self, ignored: Collection[str]) -> set[str]:
        """Those of the ignored files that count: named whole, or in a directory that counts."""
        named = {path for path in ignored if self._affected.named(path)}
        loose = named - self._literals
        shut = self._ask([*{path.rpartition("/")[0] for path in loose}])
        return {path for path in named if path not in loose or path.rpartition("/")[0] not in shut}

    def _ask(self, paths: Sequence[str]) -> set[str]:
        return self._ignores.ignored(paths) if paths else set()

    def _moved(self, path: str, there: bool) -> None:
        """Keep what tasks take in step with what exists."""
        self._matched.clear()
        if not self._selected:
            return
        for task in self._affected.takers(path, ignored=path in self._ignored):
            chosen = self._selected.get(task.id)
            if chosen is not None:
                (chosen.add if there else chosen.discard)(path)

    def _select(self, task_id: TaskId) -> set[str]:
        alike = self._affected.alike(task_id)
        if alike not in self._matched:
            self._matched[alike] = self._match(task_id)
        return {
            path
            for path, written in self._matched[alike].items()
            if not written or self._affected.takes(task_id, path, ignored=path in self._ignored)
        }

    def _match(self, task_id: TaskId) -> dict[str, bool]:
        """The files that the task matches, and whether any task declares them as output."""
        own, wide = self._affected.roots(task_id)
        found = {path for path in LOCKFILES if path in self._record}
        for root in own:
            found.update(self._at(root, self._affected.project_dirs))
        for root in wide:
            found.update(self._at(root, ()))
        return {
            path: bool(self._affected.writers(path))
            for path in found
            if self._affected.matches(task_id, path, ignored=path in self._ignored)
        }

    def _at(self, root: str, but: Collection[str]) -> Collection[str]:
        below = self._record.below(root, but)
        return [root, *below] if root in self._record else below

    def _renew(self, task_id: TaskId) -> None:
        """Look again at what a server takes of its dependencies' output: no event tells of it."""
        own, _ = self._affected.roots(task_id)
        named = {path for root in own for path in (root, *self._named.below(root))}
        for path in {*self._taken(task_id)} | (named & self._literals):
            if self._affected.generated(path):
                self._record.look(path)


def _few(places: Sequence[str]) -> Sequence[str]:
    """At most some places, which hold all of these: a listing compares each file with each."""
    while len(places) > _PLACES:
        places = outermost({place.rpartition("/")[0] for place in places})
    return places


def _ruled(paths: Iterable[str]) -> set[str]:
    """The directories whose ignore rules are among the paths."""
    return {
        directory for directory, _, name in (p.rpartition("/") for p in paths) if name == _RULES
    }
