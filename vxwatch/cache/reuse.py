"""What a workspace has of its tasks' results: found again, put back, or taken in.

The way to use it, for a task that `is_kept`:

    reused = cache.reuse(task, key)         # on disk already, or restored: nothing needs to run
    if reused is None:
        cache.prepare(task)                 # its old outputs go
        ...                                 # run it
        with cache.capture(task) as made:   # only if it succeeded
            if made is not None: ...        # make sure that no input moved meanwhile
                cache.keep(made, task, key, log, seconds)

Trouble with the cache is told to `notice`, each kind once, and is then a miss; it never ends a
run. What is not sure to be right is never used. Synchronous, and needs no event loop; calls for
different tasks may come from different threads.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from vxwatch.cache.archive import DamagedError
from vxwatch.cache.content import Clock
from vxwatch.cache.database import CacheError, Told
from vxwatch.cache.log import Log
from vxwatch.cache.manifest import UnsoundError, pack
from vxwatch.cache.ondisk import NOTHING, Presence
from vxwatch.cache.outputs import (
    CannotRestoreError,
    CannotSaveError,
    StoppedError,
)
from vxwatch.cache.places import LinkedPlaceError
from vxwatch.cache.presences import Presences
from vxwatch.cache.results import Made, Restored, Reused
from vxwatch.cache.store import Entry, Store, pack_presence
from vxwatch.cache.task_outputs import TaskOutputs
from vxwatch.cache.trouble import Notice, Teller, Trouble
from vxwatch.errors import UserError
from vxwatch.model import Project, Task

_TOGETHER = 256
"""Notes that are written together."""


_IN_THE_WAY = (DamagedError, UnsoundError, LinkedPlaceError, CannotRestoreError)


class Cache:
    """The cache as one workspace uses it.

    `store` is None where there is none to use; `outputs` knows where those of its tasks belong.
    """

    def __init__(
        self,
        root: str,
        projects: Mapping[str, Project],
        open_store: Callable[[], Store],
        notice: Notice,
        clock: Clock = time.time_ns,
    ) -> None:
        """`root` is absolute and real; the store is opened now."""
        self._root = root
        self._say = Teller(notice)
        self._clock = clock
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self.outputs = TaskOutputs(root, projects, clock, self._stopping.is_set)
        self._entries: dict[str, Entry] = {}
        self._presences = Presences({})
        self._open_store = open_store
        self.store: Store | None = None
        self._open()

    def _open(self) -> None:
        with self.trouble("the cache is not used"):
            self.store = self._open_store()
            if self.store.renewed:
                self._say("the cache was damaged and is empty now", "")
            self._presences = Presences(self.store.presences(self._root))

    def renew(self) -> bool:
        """Begin a new cache where somebody has removed this one; whether that was so.

        While no task is looked after.
        """
        store = self.store
        if store is None or store.is_there():
            return False
        self.store = None
        with contextlib.suppress(CacheError):
            store.close()
        self._entries.clear()
        self._presences = Presences({})
        self._open()
        return True

    def close(self) -> None:
        """Let go of the store."""
        self.write_notes()
        store, self.store = self.store, None
        if store is not None:
            with self.trouble("the cache was left"):
                store.close()

    def stop(self) -> None:
        """Have what is saved or restored just now end soon, unfinished."""
        self._stopping.set()

    def expect(self, keys: Iterable[str]) -> bool:
        """Look all of these up at once, because each will be asked for; whether all are there."""
        wanted = {*keys}
        with self.trouble("the cache is not used"):
            if self.store is not None:
                self._entries.update(self.store.entries(wanted))
        return wanted <= self._entries.keys()

    def knows(self, task: Task, key: str) -> bool:
        """Whether there may be a result of the task under this key: one look, no file is touched."""
        if self.was_seen(task, key):
            return True
        with self.trouble("the cache is not used"):
            entry = self._entry(key)
            if entry is not None:
                self._entries[key] = entry
                return True
        return False

    def reuse(self, task: Task, key: str) -> Reused | None:
        """The result of the task under this key; None if it must run.

        Afterwards the outputs on disk are those of the key, unless it must run.
        """
        try:
            return self._reused(task, key)
        finally:
            self._entries.pop(key, None)

    def _reused(self, task: Task, key: str) -> Reused | None:
        if self.standing(task, key) is not None:
            return Reused("fresh")
        present = self._presences.of(task.id)
        with self.trouble("the cache is not used"):
            entry = self._entry(key)
            if entry is not None:
                return self._put_back(task, entry, NOTHING if present is None else present[1])
        return None

    def standing(self, task: Task, key: str) -> Presence | None:
        """What is on disk of the task, if that is the result under this key already.

        Stamps prove it, or where they are too young for that, the content.
        """
        known = self._presences.of(task.id)
        if known is None or known[0] != key:
            return None
        if known[1].stands(self._root):
            return known[1]
        return None if known[1].lacks(self._root) else self._confirmed(task, key, known[1])

    def stand(self, tasks: Iterable[Task]) -> Iterator[bool]:
        """Of each: whether stamps prove what was last seen of it on disk, under whatever key.

        Needs no database and changes nothing: a copy of this process may do it.
        """
        for task in tasks:
            known = self._presences.of(task.id)
            yield known is not None and known[1].stands(self._root)

    def was_left_alone(self, task: Task, key: str, *, shared: bool) -> bool:
        """Whether nobody has touched the result of the task under this key since it was made or found.

        What was written and is as it was by now was touched nevertheless. Where places are `shared`
        others may add to it. Of a result that could not be kept nothing is known, and nothing assumed.
        """
        known = self._presences.of(task.id)
        if known is None or known[0] != key:
            return True
        if known[1].touched(self._root):
            return False
        if shared or not known[1].stirred(self._root):
            return True
        return self._confirmed(task, key, known[1]) is not None

    def was_seen(self, task: Task, key: str) -> bool:
        """Whether what was last seen of the task on disk was its result under this key."""
        return self._presences.key(task.id) == key

    def seen(self, task: Task) -> Iterable[str]:
        """The paths that were last seen of the task."""
        known = self._presences.of(task.id)
        return () if known is None else known[1].paths

    def _confirmed(self, task: Task, key: str, known: Presence) -> Presence | None:
        outputs, declared = self.outputs.of(task)
        with self.trouble("the cache is not used"):
            entry = self._entry(key)
            if entry is None:
                return None
            try:
                items = entry.unpacked(declared.covers)
                difference, presence = outputs.compare(
                    items, known, self.outputs.of_others(task, self._presences)
                )
            except (UnsoundError, LinkedPlaceError, OSError):
                return None  # whoever goes on to restore it finds and tells that
            if not difference:
                self._note(task, key, pack_presence(presence))
                return presence
        return None

    def expire(self, task: Task) -> None:
        """The task is about to run over what it made before: nothing is known of that any more."""
        self._forget(task)

    def prepare(self, task: Task) -> None:
        """Remove what the task made before, since it is about to run.

        Raises `UserError` if a link stands where outputs belong.
        """
        self._forget(task)
        outputs, _ = self.outputs.of(task)
        try:
            tree = outputs.clean()
        except LinkedPlaceError as error:
            raise UserError(
                "linked-output",
                f"{error.path} is a symbolic link{_target(os.path.join(self._root, error.path))}, "
                f"and outputs of {task.id} belong there",
                "make it a directory, or declare as outputs what lies behind it",
            ) from None
        except OSError as error:
            self._say(f"outputs of {task.id} cannot be removed: {error}", "")
            return
        self._name_tracked(task, tree.tracked)

    @contextlib.contextmanager
    def capture(self, task: Task) -> Iterator[Made | None]:
        """What the task has made; None if it cannot be kept, which was told then."""
        with self.trouble(f"{task.id} is not saved", saving=True), contextlib.ExitStack() as stack:
            yield self._captured(task, stack)

    def _captured(self, task: Task, stack: contextlib.ExitStack) -> Made | None:
        outputs, declared = self.outputs.of(task)
        store = self.store
        if store is None:
            return None
        if store.read_only:
            if not store.to_read:
                self._say(f"nothing is saved: the cache can only be read: {store.directory}", "")
            return None
        with self.trouble(f"{task.id} is not saved", saving=True):
            try:
                if not declared.roots:
                    return Made((), Presence(self._clock(), {}), None, 0, None)
                pending = stack.enter_context(store.writing())
                with Told(store.directory):
                    items, presence, digest, size = outputs.capture(pending.file)
                return Made(items, presence, digest, size, pending)
            except StoppedError:
                return None
            except CannotSaveError as error:
                self._say(f"{task.id} is not saved: {error}", "")
            except LinkedPlaceError as error:
                self._say(f"{task.id} is not saved: {error.path} is a symbolic link", "")
        return None

    def keep(self, made: Made, task: Task, key: str, log: Log, seconds: float) -> bool:
        """Save what was captured as the result of this key; False if that failed."""
        with self.trouble(f"{task.id} is not saved", saving=True):
            if self.store is None:
                return False
            entry = Entry(
                *(key, task.id, self._clock(), seconds, made.artifact, made.size),
                *(pack(made.items), log.pack()),
            )
            self._presences.settle(task.id)
            self.store.save(entry, self._root, made.presence, made.pending)
            self._entries.pop(key, None)
            self._presences.put(task.id, key, made.presence)
            return True
        return False

    def _entry(self, key: str) -> Entry | None:
        known = self._entries.get(key)
        return known if known is not None or self.store is None else self.store.entry(key)

    def _put_back(self, task: Task, entry: Entry, known: Presence) -> Reused | None:
        """Make the outputs those of the entry."""
        try:
            log = entry.chunks()
            restored = self._restored(task, entry, known)
        except (DamagedError, UnsoundError) as error:
            self._drop(task, entry, str(error))
            return None
        except StoppedError:
            return None
        except LinkedPlaceError:
            return None  # `prepare` refuses to run it
        except (CannotRestoreError, OSError) as error:
            self._say(f"{task.id} runs, because its outputs cannot be restored: {error}", "")
            return None
        self._name_tracked(task, restored.tracked)
        self._note(task, entry.key, pack_presence(restored.presence))
        return Reused("restored", log) if restored.anew else Reused("fresh")

    def _restored(self, task: Task, entry: Entry, known: Presence) -> Restored:
        """The same, without a word and without the database; raises what stands in the way."""
        assert self.store is not None
        outputs, declared = self.outputs.of(task)
        items = entry.unpacked(declared.covers)
        difference, presence = outputs.compare(
            items, known, self.outputs.of_others(task, self._presences)
        )
        if difference:
            with self.store.artifact(entry) as file:
                presence = outputs.restore(items, difference, file)
        return Restored(bool(difference), presence, difference.tree.tracked)

    def put_back(self, task: Task, key: str) -> tuple[bool, bytes] | None:
        """Make the outputs those of the key, which was looked up: whether that wrote, and what to `take`.

        None where it is for `reuse` to say what is in the way. Needs no database: a copy of this
        process may do it, and the process itself then takes what it made.
        """
        entry, known = self._entries.get(key), self._presences.of(task.id)
        if entry is None or self.store is None:
            return None
        try:
            restored = self._restored(task, entry, NOTHING if known is None else known[1])
        except (*_IN_THE_WAY, StoppedError, OSError):
            return None
        if restored.tracked:
            return None
        return restored.anew, pack_presence(restored.presence)

    def take(self, task: Task, key: str, packed: bytes) -> None:
        """The outputs are those of the key: a copy of this process put them back."""
        self._entries.pop(key, None)
        self._note(task, key, packed)

    def _drop(self, task: Task, entry: Entry, why: str) -> None:
        assert self.store is not None
        if self.store.entry(entry.key) is None:
            return  # it was pruned just then
        if not self.store.read_only:
            self.store.drop(entry.key)
        self._say(f"{task.id} runs, because what was saved of it is damaged: {why}", "")

    def _forget(self, task: Task) -> None:
        """What was on disk of the task is about to change.

        The stamps would tell; this spares looking at them.
        """
        known = self._presences.forget(task.id)
        with self.trouble("the cache is not used"):
            if self.store is not None and not self.store.read_only and known:
                self.store.forget(self._root, task.id)

    def _note(self, task: Task, key: str, packed: bytes) -> None:
        if self._presences.note(task.id, key, packed) >= _TOGETHER:
            self.write_notes()

    def write_notes(self) -> None:
        """Tell others what is on disk; who dies before that has it looked at once more."""
        with self._lock, self.trouble("the cache is not written", saving=True):
            notes = self._presences.untold()
            if notes and self.store is not None and not self.store.read_only:
                with self.store.changing():
                    for task, (key, packed) in notes.items():
                        self.store.note(self._root, task, key, packed)

    def _name_tracked(self, task: Task, paths: Sequence[str]) -> None:
        if paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            self._say(
                f"{paths[0]}{more}: an output of {task.id} that git tracks is left alone",
                "take it out of the outputs, or out of git",
                about="tracked",
            )

    def trouble(self, what: str, *, saving: bool = False) -> Trouble:
        """Around a use of the store: trouble ends the block, and is told as `what` says."""
        return Trouble(lambda error: self._give_up(what, error, saving=saving))

    def _give_up(self, what: str, error: CacheError, *, saving: bool) -> None:
        """Tell of trouble with the cache, which is not used any more then, or not written."""
        self._say(f"{what}: {error.message}", error.hint, about="trouble")
        store = self.store
        if not saving and store is not None:
            self.store = None
            with contextlib.suppress(CacheError):
                store.close()


def _target(link: str) -> str:
    """Where a link leads to, as a part of a sentence."""
    try:
        return f" to {os.readlink(link)}"
    except OSError:
        return ""
