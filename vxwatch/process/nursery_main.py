"""The nursery: the process that everything a session starts is a child of.

It forks, waits, signals and sweeps on vx's request, over one end of a SOCK_SEQPACKET pair whose
other end only vx holds. It is a subreaper, so a daemon that leaves its parent and its session
comes back here; and when the pair ends, because vx closed it or was killed, it kills and reaps
until it has no child, removes the registered paths and ends.

It signals only its own unreaped children, their groups, and the init that one of them still
waits for (`child`), so no pid can be a stranger's. It never waits for what a child does.

A packet is a marshalled tuple, since both ends are the same interpreter; NUMBER is vx's name for
a child. From vx, with the descriptors that come along:

    reserve PROGRAM                     a spawn with a supervisor and this filter will follow
    spawn NUMBER                        body (a memfd: an environment outgrows a packet),
                                        one for each of the body's targets, and
                                        the log of its supervisor, if it has one
    init NUMBER PID                     the first process inside this box
    signal NUMBER SIGNAL                the polite signal
    alive NUMBER                        answered by: alive NUMBER YES
    end NUMBER                          SIGKILL to all of it; answered by: ending NUMBER, unless
                                        it is gone already
    dial NUMBER INIT PORT               channel
    listen NUMBER INIT PORT             channel, over which the listeners come back
    relay NUMBER INIT PORTS PATIENT     channel, the listeners of each of PORTS in turn
    register PATH IDENTITY, forget PATH
    pause 0, resume 0                   SIGSTOP and SIGCONT to the groups of all trees
    modes NUMBER BEFORE OURS            a terminal to which vx gave its own modes

To vx: the answers, and

    born NUMBER PID
    failed NUMBER STEP ERRNO            nothing was started
    exit NUMBER CODE CPU RSS REST GONE  REST: its group may have members left; GONE: nothing
                                        is left of the tree, and no `gone` will follow
    gone NUMBER                         nothing is left of a tree whose exit was told
    stopped NUMBER SIGNAL               not by `pause`; only of a tree that borrows the terminal
"""

import contextlib
import errno
import marshal
import os
import resource
import select
import signal
import socket
from collections.abc import Iterator, Sequence

from vxwatch.process import kin, netns
from vxwatch.process.birth import StartError, Work, start_helper, start_leader
from vxwatch.process.child import Child
from vxwatch.process.leftovers import Identity, remove
from vxwatch.process.packets import receive

TYPE_CHECKING = False  # as typing has it, which is not loaded here
if TYPE_CHECKING:
    from vxwatch.process.pairs import Pairs
    from vxwatch.process.terminal import Modes

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

_REST = 250  # milliseconds in which nothing happens, after which nobody needs a spare pair
_LOOK_AGAIN = 5  # milliseconds between looks at a box that is being stopped


class Nursery:
    """Serves one session, from its first packet to the end of the pair."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.children: dict[int, Child] = {}  # by number, until gone
        self.unreaped: dict[int, Child] = {}  # by pid, until reaped
        self.pairs: Pairs | None = None
        self.registered: dict[str, Identity | None] = {}
        self.lender: tuple[int, Modes | None] | None = None
        self.paused = False
        self.screen: tuple[int, Modes, Modes] | None = None

    def serve(self) -> None:
        """Answer packets and reap until vx is gone."""
        died = _wake_on_death()
        ready = select.poll()
        ready.register(self.link, select.POLLIN)
        ready.register(died, select.POLLIN)
        while True:
            patience = self.release_boxes()
            idle = self.pairs if patience is None and self.pairs and self.pairs.has_spare else None
            events = dict(ready.poll(_REST if idle else patience))
            if idle and not events:
                idle.dismiss()
            if died in events:
                os.read(died, 4096)
                self.reap()
            if self.link.fileno() in events and not self.answer():
                return

    def answer(self) -> bool:
        """Do what one packet asks; False at the end of the pair."""
        try:
            packet, given, truncated = receive(self.link)
        except ConnectionResetError:
            # Vx ended with messages of ours unread. What it had asked for is still to be read.
            return True
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
            places = (stdin, *given[1 : len(body["targets"]) + 1])
            try:
                if body["supervised"]:
                    pid = self.start_supervised(body["supervised"]["program"], given, places)
                else:
                    pid = start_leader(body, places)
            finally:
                os.close(stdin)
        except (StartError, OSError) as error:
            if held >= 0:
                os.close(held)
            self.say("failed", number, getattr(error, "step", "start"), error.errno)
            return
        child = self.children[number] = self.unreaped[pid] = Child(number, pid, body["mark"], held)
        if body["lender"]:
            self.lender, child.lent = body["lender"], True
        self.say("born", number, pid)

    def do_reserve(self, _: Sequence[int], program: bytes) -> None:
        """Have a leader and a supervisor ready."""
        with contextlib.suppress(OSError):  # it only spares time
            self.the_pairs().reserve(program)

    def start_supervised(self, program: bytes, given: Sequence[int], places: Sequence[int]) -> int:
        """Start the leader of a tree with its supervisor; its pid. Raises `StartError`."""
        return self.the_pairs().start(program, given, places)

    def the_pairs(self) -> "Pairs":
        """Those who wait for boxes, and those at work."""
        from vxwatch.process.pairs import Pairs

        self.pairs = self.pairs or Pairs(self.adopt)
        return self.pairs

    def adopt(self, pid: int) -> None:
        """Know a child that is neither a tree nor a helper that vx asked for."""
        self.unreaped[pid] = Child(0, pid)

    def do_init(self, _: Sequence[int], number: int, init: int) -> None:
        """Remember the first process inside a box."""
        if child := self.children.get(number):
            child.name_init(init)

    def do_signal(self, _: Sequence[int], number: int, signum: int) -> None:
        """Signal the tree's group, or the one inside its box."""
        if child := self.children.get(number):
            child.signal(signum, self.orphans())

    def release_boxes(self) -> int | None:
        """Let each box end in which nobody is left to wait for; milliseconds until the next look."""
        waiting = [child for child in self.children.values() if child.waiting]
        for child in waiting:
            child.release()
        return _LOOK_AGAIN if any(child.waiting for child in waiting) else None

    def do_alive(self, _: Sequence[int], number: int) -> None:
        """Say whether the tree's group has a member that is no zombie."""
        if child := self.children.get(number):
            self.say("alive", number, not child.exited or kin.group_lives(child.pid))

    def do_end(self, _: Sequence[int], number: int) -> None:
        """Kill the tree; asked again, its outer process, too, should that not follow its init."""
        child = self.children.get(number)
        if child is None:
            return
        self.say("ending", number)
        if child.ending and not child.exited:
            kin.kill(os.kill, child.pid, signal.SIGKILL)
        child.ending = True
        self.review(child, self.orphans())
        self.sweep_strays()

    # A stop of vx as a job

    def do_pause(self, _: Sequence[int], __: int) -> None:
        """Stop all trees."""
        self.paused = True
        for child in self.children.values():
            child.freeze()

    def do_resume(self, _: Sequence[int], __: int) -> None:
        """Let all trees go on."""
        self.paused = False
        for child in self.children.values():
            child.thaw()

    def on_stop(self, pid: int, signum: int) -> None:
        """A child was stopped: a tree that borrows the terminal is a job of whoever lent that."""
        child = self.unreaped.get(pid)
        if child and child.lent and not (self.paused or child.ending or child.waiting):
            self.say("stopped", child.number, signum)

    # Death

    def reap(self) -> None:
        """Collect every dead child, and see what that leaves of each tree that has ended."""
        with contextlib.suppress(ChildProcessError):
            while (dead := os.wait4(-1, os.WNOHANG | os.WUNTRACED))[0]:
                if os.WIFSTOPPED(dead[1]):
                    self.on_stop(dead[0], os.WSTOPSIG(dead[1]))
                else:
                    self.bury(*dead)
        over = [child for child in self.children.values() if child.exited or child.ending]
        orphans = self.orphans() if over else ()
        for child in over:
            self.review(child, orphans)
        self.sweep_strays()

    def bury(self, pid: int, status: int, usage: resource.struct_rusage) -> None:
        """Keep how one of its children ended; an adopted orphan is just reaped."""
        if child := self.unreaped.pop(pid, None):
            cpu = usage.ru_utime + usage.ru_stime
            child.ended = (os.waitstatus_to_exitcode(status), cpu, usage.ru_maxrss * 1024)
            child.exited = True
        bereft = self.pairs.ended(pid, status) if self.pairs else None
        if leader := self.unreaped.get(bereft or 0):
            # Calls that nobody answers fail, also those of a bwrap that would then wait forever.
            leader.kill(self.orphans())
            kin.kill(os.kill, leader.pid, signal.SIGKILL)

    def review(self, child: Child, orphans: Sequence[int]) -> None:
        """Tell vx what is left of a tree that has ended, or is killed here because it is to end.

        Each death wakes us, to look at what the dead bequeathed.
        """
        if child.ending:
            rest = left = child.kill(orphans)
        else:
            rest = child.mark is not None and kin.kill(os.killpg, child.pid, 0)
            left = rest or child.has_rest(orphans)
        if child.ended is not None:
            self.say("exit", child.number, *child.ended, rest, not left)
            child.ended = None
        elif not left:
            self.say("gone", child.number)
        if not left:
            del self.children[child.number]
            child.close()

    def orphans(self) -> list[int]:
        """The children that it adopted."""
        return [pid for pid in kin.my_children() if pid not in self.unreaped]

    def sweep_strays(self) -> None:
        """While no tree lives, kill the orphans that bear no mark of one."""
        if not any(child.mark is not None for child in self.children.values()):
            for pid in self.orphans():
                kin.kill(os.kill, pid, signal.SIGKILL)

    # Helpers in a box's network

    def do_dial(self, given: Sequence[int], number: int, init: int, port: int) -> None:
        """Report over the channel when the port accepts."""

        def work(ends: select.poll, _: tuple[int, ...]) -> None:
            netns.dial(port, ends).close()
            os.write(given[0], marshal.dumps(0))

        self.help(number, init, given, work)

    def do_listen(self, given: Sequence[int], number: int, init: int, port: int) -> None:
        """Send listeners over the channel."""

        def work(ends: select.poll, _: tuple[int, ...]) -> None:
            listeners = netns.listen(port, ends)
            with socket.socket(fileno=given[0]) as channel:
                numbers = [listener.fileno() for listener in listeners]
                socket.send_fds(channel, [marshal.dumps(0)], numbers)

        self.help(number, init, given, work)

    def do_relay(
        self,
        given: Sequence[int],
        number: int,
        init: int,
        ports: Sequence[tuple[int, int]],
        patient: bool,
    ) -> None:
        """Carry from listeners to ports; each port comes with the count of its listeners."""

        def work(_: select.poll, box: tuple[int, ...]) -> None:
            from vxwatch.process.carrying import carry

            listeners = iter([socket.socket(fileno=one) for one in given[1:]])
            doors = [(port, [next(listeners) for _ in range(count)]) for port, count in ports]
            carry(given[0], box[0] if box else None, doors, patient=patient)

        self.help(number, init, given, work)

    def help(self, number: int, init: int, given: Sequence[int], work: Work) -> None:
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

    # What to do should vx be killed

    def do_modes(self, given: Sequence[int], _: int, before: "Modes", ours: "Modes") -> None:
        """Remember the modes that a terminal had before vx gave it its own."""
        if self.screen is not None:
            os.close(self.screen[0])
        self.screen = os.dup(given[0]), before, ours

    def do_register(self, _: Sequence[int], path: bytes, untouched: Identity | None) -> None:
        """Remember a path."""
        self.registered[os.fsdecode(path)] = untouched

    def do_forget(self, _: Sequence[int], path: bytes) -> None:
        """Leave a path alone."""
        self.registered.pop(os.fsdecode(path), None)


def _stdin(held: bool) -> tuple[int, int]:
    return os.pipe() if held else (os.open(os.devnull, os.O_RDONLY), -1)


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
    if nursery.lender is not None:
        from vxwatch.process import terminal

        terminal.bequeath(*nursery.lender)
    if nursery.screen is not None:
        from vxwatch.process import terminal

        terminal.give_back(*nursery.screen)
    # What lies in a registered directory was registered after it.
    for path, untouched in reversed(nursery.registered.items()):
        remove(path, untouched)
    os._exit(
        0
    )  # vx waits for this end, and to take the interpreter apart takes longer than all that
