"""The nursery: the process that everything a session starts is a child of.

It forks, waits, signals and sweeps on vx's request, over one end of a SOCK_SEQPACKET pair whose
other end only vx holds. It is a subreaper, so a daemon that leaves its parent and its session
comes back here; and when the pair ends, because vx closed it or was killed, it kills and reaps
until it has no child, removes the registered paths and ends.

It signals only its own unreaped children, their groups, and the init that one of them still
waits for, so no pid can be a stranger's. It never waits for what a child does.

A packet is a marshalled tuple, since both ends are the same interpreter; NUMBER is vx's name for
a child. From vx, with the descriptors that come along:

    spawn NUMBER                        body (a memfd: an environment outgrows a packet),
                                        one for each of the body's targets
    init NUMBER PID                     the first process inside this box
    signal NUMBER SIGNAL                the polite signal
    alive NUMBER                        answered by: alive NUMBER YES
    end NUMBER                          SIGKILL to all of it; answered by: gone NUMBER
    dial NUMBER INIT PORT               channel
    listen NUMBER INIT PORT             channel, over which the listeners come back
    relay NUMBER INIT PORT SOCAT        channel, connection
    register PATH IDENTITY, forget PATH

To vx: the answers, and

    born NUMBER PID
    failed NUMBER STEP ERRNO            nothing was started
    exit NUMBER CODE CPU RSS REST       REST: its group may have members left
"""

import contextlib
import errno
import marshal
import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Iterator, Sequence

from vxwatch.process import kin, netns
from vxwatch.process.birth import StartError, start_helper, start_leader
from vxwatch.process.leftovers import Identity, remove
from vxwatch.process.packets import receive

# The nursery ends with vx and by nothing else: a supervisor may signal every process of a
# service. Handlers, and none that is ignored, because exec takes only handlers back.
_SHRUGGED_OFF = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)

_LOOK_AGAIN = 5  # milliseconds between looks at a box that is being stopped


class Child:
    """A forked process: the leader of a tree or, without a mark, a helper."""

    __slots__ = ("ending", "exited", "held", "init", "mark", "number", "pid", "waiting")

    def __init__(self, number: int, pid: int, mark: str | None = None, held: int = -1) -> None:
        self.number = number
        self.pid = pid
        self.mark = mark
        self.held = held  # the write end of its stdin
        self.init = 0
        self.waiting = False  # its init is stopped, until nobody in the box cleans up any more
        self.exited = False
        self.ending = False

    def owns(self, pid: int) -> bool:
        """Whether this orphan is a rest of the tree."""
        if self.mark is None:
            return False
        return kin.group_of(pid) == self.pid or kin.carries(pid, self.mark)

    def has_init(self) -> bool:
        """Whether the init that was named is still a child of this unreaped bwrap."""
        return bool(self.init) and not self.exited and kin.parent_of(self.init) == self.pid


class Nursery:
    """Serves one session, from its first packet to the end of the pair."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.children: dict[int, Child] = {}  # by number, until gone
        self.unreaped: dict[int, Child] = {}  # by pid, until reaped
        self.registered: dict[str, Identity | None] = {}

    def serve(self) -> None:
        """Answer packets and reap until vx is gone."""
        died = _wake_on_death()
        ready = select.poll()
        ready.register(self.link, select.POLLIN)
        ready.register(died, select.POLLIN)
        while True:
            events = dict(ready.poll(self.release_boxes()))
            if died in events:
                os.read(died, 4096)
                self.reap()
            if self.link.fileno() in events and not self.answer():
                return

    def answer(self) -> bool:
        """Do what one packet asks; False at the end of the pair."""
        try:
            packet, given, truncated = receive(self.link)
        except ConnectionError:
            return False
        try:
            if packet:
                verb, *rest = marshal.loads(packet)  # noqa: S302  # from vx
                if truncated:
                    self.say("failed", rest[0], "start", errno.EMFILE)
                else:
                    getattr(self, f"do_{verb}")(given, *rest)
        finally:
            for number in given:
                os.close(number)
        return bool(packet)

    def say(self, *message: object) -> None:
        """Send a packet to vx."""
        with contextlib.suppress(OSError):  # vx is gone: the end of the pair comes next
            self.link.send(marshal.dumps(message))  # type: ignore[arg-type]

    # Trees

    def do_spawn(self, given: Sequence[int], number: int) -> None:
        """Start the leader of a tree."""
        body = marshal.loads(os.pread(given[0], os.fstat(given[0]).st_size, 0))  # noqa: S302  # from vx
        held = -1
        try:
            stdin, held = _stdin(body["held"])
            try:
                pid = start_leader(body, (stdin, *given[1:]))
            finally:
                os.close(stdin)
        except (StartError, OSError) as error:
            if held >= 0:
                os.close(held)
            self.say("failed", number, getattr(error, "step", "start"), error.errno)
            return
        self.children[number] = self.unreaped[pid] = Child(number, pid, body["mark"], held)
        self.say("born", number, pid)

    def do_init(self, _: Sequence[int], number: int, init: int) -> None:
        """Remember the first process inside a box."""
        self.children[number].init = init

    def do_signal(self, _: Sequence[int], number: int, signum: int) -> None:
        """Signal the tree's group, or the one inside its box."""
        child = self.children[number]
        if child.init:
            self.signal_box(child, signum)
            return
        if child.exited and not any(kin.group_of(pid) == child.pid for pid in _my_children()):
            return  # without a member that is our child, the number could be a stranger's by now
        if kin.kill(os.killpg, child.pid, signum):
            kin.kill(os.killpg, child.pid, signal.SIGCONT)  # a stopped process is to hear it, too

    def signal_box(self, child: Child, signum: int) -> None:
        """Signal the group that the init leads, and keep the box until that group is empty.

        A box ends with its command, and what still cleans up in it would end, too. A stopped
        init does not see the end of its command.
        """
        if not child.has_init():
            return
        # bwrap names the init before it leads a group and has a child. A polite signal would be
        # lost then, and nothing of the task runs yet.
        if not kin.children_of(child.init):
            kin.kill(os.kill, child.init, signal.SIGKILL)
            return
        kin.kill(os.killpg, child.init, signal.SIGCONT)
        child.waiting = kin.kill(os.kill, child.init, signal.SIGSTOP)
        kin.kill(os.killpg, child.init, signum)

    def release_boxes(self) -> int | None:
        """Let each box end in which nobody is left to wait for; milliseconds until the next look."""
        for child in self.children.values():
            if child.waiting and not (child.has_init() and kin.leads_others(child.init)):
                child.waiting = False
                if child.has_init():
                    kin.kill(os.kill, child.init, signal.SIGCONT)
        return _LOOK_AGAIN if any(child.waiting for child in self.children.values()) else None

    def do_alive(self, _: Sequence[int], number: int) -> None:
        """Say whether the tree's group has a member that is no zombie."""
        child = self.children[number]
        self.say("alive", number, not child.exited or kin.group_lives(child.pid))

    def do_end(self, _: Sequence[int], number: int) -> None:
        """Kill the tree; asked again, its outer process, too, should that not follow its init."""
        child = self.children.get(number)
        if child is None:
            return
        if child.ending and not child.exited:
            kin.kill(os.kill, child.pid, signal.SIGKILL)
        child.ending = True
        self.take_down(child)

    # Death

    def reap(self) -> None:
        """Collect every dead child and go on with what is being taken down."""
        with contextlib.suppress(ChildProcessError):
            while (dead := os.wait4(-1, os.WNOHANG))[0]:
                self.bury(*dead)
        for child in list(self.children.values()):
            if child.ending:
                self.take_down(child)
        self.sweep_strays()

    def bury(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        """Tell vx how one of its children ended; an adopted orphan is just reaped."""
        child = self.unreaped.pop(pid, None)
        if child is None:
            return
        child.exited = True
        code = os.waitstatus_to_exitcode(status)
        rest = kin.kill(os.killpg, pid, 0)
        cpu = usage.ru_utime + usage.ru_stime
        self.say("exit", child.number, code, cpu, usage.ru_maxrss * 1024, rest)
        if child.mark is None:
            del self.children[child.number]

    def take_down(self, child: Child) -> None:
        """SIGKILL what is left of it. Each death wakes us, to look at what the dead bequeathed."""
        if not child.exited:
            _kill_leader(child)
        left = not child.exited
        for pid in _my_children():
            if pid not in self.unreaped and child.owns(pid):
                left |= kin.kill(os.kill, pid, signal.SIGKILL)
        if not left:
            del self.children[child.number]
            if child.held >= 0:
                os.close(child.held)
            self.say("gone", child.number)
            self.sweep_strays()

    def sweep_strays(self) -> None:
        """While no tree lives, kill the orphans that bear no mark of one."""
        if any(child.mark is not None for child in self.children.values()):
            return
        for pid in _my_children():
            if pid not in self.unreaped:
                kin.kill(os.kill, pid, signal.SIGKILL)

    # Helpers in a box's network

    def do_dial(self, given: Sequence[int], number: int, init: int, port: int) -> None:
        """Report over the channel when the port accepts."""

        def work(ends: select.poll) -> None:
            netns.dial(port, ends).close()
            os.write(given[0], marshal.dumps(0))

        self.help(number, init, given, work)

    def do_listen(self, given: Sequence[int], number: int, init: int, port: int) -> None:
        """Send listeners over the channel."""

        def work(ends: select.poll) -> None:
            listeners = netns.listen(port, ends)
            with socket.socket(fileno=given[0]) as channel:
                numbers = [listener.fileno() for listener in listeners]
                socket.send_fds(channel, [marshal.dumps(0)], numbers)

        self.help(number, init, given, work)

    def do_relay(self, given: Sequence[int], number: int, init: int, port: int, socat: str) -> None:
        """Carry between the connection and the port."""

        def work(ends: select.poll) -> None:
            netns.carry(socat, given[1], netns.dial(port, ends).detach())

        self.help(number, init, given, work)

    def help(
        self, number: int, init: int, given: Sequence[int], work: Callable[[select.poll], None]
    ) -> None:
        """Fork a helper that works in the network of this init (0: of the host)."""
        try:
            with self.box(init) as box:
                pid = start_helper(given, box, work)
        except OSError as error:
            self.say("failed", number, "start", error.errno)
            return
        self.children[number] = self.unreaped[pid] = Child(number, pid)

    @contextlib.contextmanager
    def box(self, init: int) -> Iterator[tuple[int, ...]]:
        """Descriptors of this init and of its network; none for the host."""
        if not init:
            yield ()
            return
        with contextlib.ExitStack() as opened:
            process = os.pidfd_open(init)
            opened.callback(os.close, process)
            network = os.open(f"/proc/{init}/ns/net", os.O_RDONLY)
            opened.callback(os.close, network)
            # Asked last: a pid that is our init now was it when the two were opened.
            if not any(child.init == init and child.has_init() for child in self.children.values()):
                raise ProcessLookupError(errno.ESRCH, "no such box")
            yield process, network

    # What to remove should vx be killed

    def do_register(self, _: Sequence[int], path: bytes, untouched: Identity | None) -> None:
        """Remember a path."""
        self.registered[os.fsdecode(path)] = untouched

    def do_forget(self, _: Sequence[int], path: bytes) -> None:
        """Leave a path alone."""
        self.registered.pop(os.fsdecode(path), None)


def _kill_leader(child: Child) -> None:
    """End a box by its init, of which bwrap then tells; anything else by its group."""
    if child.has_init() and kin.kill(os.kill, child.init, signal.SIGKILL):
        kin.kill(os.killpg, child.pid, signal.SIGCONT)  # a stopped bwrap would not notice
    elif not kin.kill(os.killpg, child.pid, signal.SIGKILL):
        kin.kill(os.kill, child.pid, signal.SIGKILL)  # it leads no group yet


def _stdin(held: bool) -> tuple[int, int]:
    return os.pipe() if held else (os.open(os.devnull, os.O_RDONLY), -1)


def _my_children() -> list[int]:
    return kin.children_of(os.getpid())


def _wake_on_death() -> int:
    """A descriptor that can be read after a child has died."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _nothing)
    return read


def _nothing(*_: object) -> None:
    pass


def main(link: int) -> None:
    """Serve the pair of which `link` is our end."""
    for signum in signal.valid_signals():
        if signum in _SHRUGGED_OFF:
            signal.signal(signum, _nothing)
        elif signal.getsignal(signum) == signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    kin.become_subreaper()
    kin.wake_at_parents_end()
    nursery = Nursery(socket.socket(fileno=link))
    nursery.link.set_inheritable(False)
    nursery.serve()
    kin.sweep(lambda _: True, within=5.0)
    # What lies in a registered directory was registered after it.
    for path, untouched in reversed(nursery.registered.items()):
        remove(path, untouched)
