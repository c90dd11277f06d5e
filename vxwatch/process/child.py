"""A child of the nursery: the leader of a tree, or a helper; what belongs to it, how it is signalled.

It signals an unreaped child of the nursery, its group, and the init that a bwrap still waits
for, that one by descriptor: no pid can be a stranger's. It imports little, because the nursery's
start waits for it.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterable

from vxwatch.process import kin

Ended = tuple[int, float, int]
"""Exit code (minus the signal), CPU seconds, peak RSS in bytes."""

_TO_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9


class Child:
    """A forked process: the leader of a tree or, without a mark, a helper.

    `ended` is how it ended, once it is reaped and until vx was told. `init` is the first process
    inside its box, as a pid and a descriptor; the descriptor is -1 until it is named.
    """

    __slots__ = (
        "ended",
        "ending",
        "exited",
        "held",
        "init",
        "init_fd",
        "lent",
        "mark",
        "number",
        "pid",
        "waiting",
    )

    def __init__(self, number: int, pid: int, mark: str | None = None, held: int = -1) -> None:
        self.number = number
        self.pid = pid
        self.mark = mark
        self.held = held  # the write end of its stdin
        self.init = 0
        self.init_fd = -1
        self.lent = False  # its group may be the foreground of the terminal, its box included
        self.waiting = False  # its init is stopped, until nobody in the box cleans up any more
        self.exited = False
        self.ending = False
        self.ended: Ended | None = None

    def close(self) -> None:
        """Give up the descriptors."""
        for number in (self.held, self.init_fd):
            if number >= 0:
                os.close(number)
        self.held = self.init_fd = -1

    # The box

    def name_init(self, init: int) -> None:
        """Remember the first process inside its box, if that is still there."""
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(init)
            # Asked last: a pid that is our init now was it when the descriptor was opened.
            if kin.parent_of(init) == self.pid and not self.exited:
                self.init, self.init_fd = init, handle
            else:
                os.close(handle)

    def has_init(self) -> bool:
        """Whether the init that was named is still a child of this unreaped bwrap."""
        return self.init_fd >= 0 and not self.exited and kin.parent_of(self.init) == self.pid

    def box_lives(self) -> bool:
        """Whether somebody in the box is alive: an init is dead only when all inside are."""
        if self.init_fd < 0:
            return False
        ready = select.poll()
        ready.register(self.init_fd, select.POLLIN)
        return not ready.poll(0)

    # What is left

    def owns(self, orphan: int) -> bool:
        """Whether this orphan is a rest of the tree."""
        if self.mark is None:
            return False
        return kin.group_of(orphan) == self.pid or kin.carries(orphan, self.mark)

    def has_rest(self, orphans: Iterable[int]) -> bool:
        """Whether something of the tree is alive, its leader apart.

        Who is just dying shows no mark any more: it may be of this tree.
        """
        return self.box_lives() or any(
            self.owns(orphan) or kin.is_dying(orphan) for orphan in orphans
        )

    # Signals

    def signal(self, signum: int, orphans: Iterable[int]) -> None:
        """The polite signal, to the tree's group or to the one inside its box."""
        if self.init_fd >= 0:
            self._signal_box(signum)
            return
        if self.exited and not any(kin.group_of(orphan) == self.pid for orphan in orphans):
            return  # without a member that is our child, the number could be a stranger's by now
        if kin.kill(os.killpg, self.pid, signum):
            kin.kill(os.killpg, self.pid, signal.SIGCONT)  # a stopped process is to hear it, too

    def freeze(self) -> None:
        """Stop its groups until `thaw`."""
        if self.mark is not None and not self.exited:
            self._to_groups(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let its groups go on."""
        if self.mark is not None and not self.exited:
            self._to_groups(signal.SIGCONT)
            if self.waiting:
                self._to_init(signal.SIGSTOP)

    def _to_groups(self, signum: int) -> None:
        kin.kill(os.killpg, self.pid, signum)
        if self.has_init():
            self._to_box(signum)

    def release(self) -> None:
        """Let the box end if nobody is left to wait for."""
        if not (self.has_init() and kin.has_others(self.init, self._box_group())):
            self.waiting = False
            self._to_init(signal.SIGCONT)

    def kill(self, orphans: Iterable[int]) -> bool:
        """SIGKILL what is left of the tree; whether that was anything."""
        left = not self.exited or self.box_lives()
        if not self.exited:
            self._kill_leader()
        elif left:
            self._to_init(signal.SIGKILL)
        for orphan in orphans:
            if self.owns(orphan):
                left |= kin.kill(os.kill, orphan, signal.SIGKILL)
            else:
                left |= kin.is_dying(orphan)
        return left

    def _kill_leader(self) -> None:
        """End a box by its init, of which bwrap then tells; anything else by its group."""
        if self.has_init() and self._to_init(signal.SIGKILL):
            kin.kill(os.killpg, self.pid, signal.SIGCONT)  # a stopped bwrap would not notice
        elif not kin.kill(os.killpg, self.pid, signal.SIGKILL):
            kin.kill(os.kill, self.pid, signal.SIGKILL)  # it leads no group yet

    def _signal_box(self, signum: int) -> None:
        """Signal the group that the init leads, and keep the box until that group is empty.

        A box ends with its command, and what still cleans up in it would end, too. A stopped
        init does not see the end of its command.
        """
        if not self.has_init():
            return
        # bwrap names the init before it leads a group and has a child. A polite signal would be
        # lost then, and nothing of the task runs yet.
        if not kin.children_of(self.init):
            self._to_init(signal.SIGKILL)
            return
        kin.kill(os.killpg, self.pid, signal.SIGCONT)  # a stopped bwrap would not tell of its end
        self.waiting = self._to_init(signal.SIGSTOP)
        self._to_box(signum)
        self._continue_box()

    def _continue_box(self) -> None:
        """Let those in the box's group who are stopped, or about to be, hear what they were sent.

        Only after that: a process which is about to hear SIGCONT is passed over for the next
        signal, which then goes to another of its threads and wakes no main thread. And one by one,
        because the init of the box is in the group, too, and stays stopped.
        """
        group = self._box_group()
        for pid in kin.others(self.init, group):
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(pid)
                try:
                    # Asked last: who is in the box's group is no stranger.
                    if kin.group_of(pid) == group:
                        signal.pidfd_send_signal(handle, signal.SIGCONT)
                finally:
                    os.close(handle)

    def _to_init(self, signum: int) -> bool:
        try:
            signal.pidfd_send_signal(self.init_fd, signum)
        except OSError:
            return False
        return True

    def _box_group(self) -> int:
        return self.pid if self.lent else self.init

    def _to_box(self, signum: int) -> None:
        """Signal the group of the init."""
        if self.lent:
            kin.kill(os.killpg, self.pid, signum)
            return
        try:
            signal.pidfd_send_signal(self.init_fd, signum, None, _TO_GROUP)
        except ProcessLookupError:
            return
        except OSError:  # an older kernel
            if self.has_init():
                kin.kill(os.killpg, self.init, signum)
