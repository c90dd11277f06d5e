"""The vx command: wires, decides nothing."""

# These are imported before any signal is answered, so they are those that the interpreter has
# loaded by then: `signal` itself would take longer than all that precedes it.
import _signal  # type: ignore[import-not-found]
import gc
import os
import sys


def main() -> None:
    """Entry point of the `vx` script. `vx --version` is answered before click loads."""
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if verb in ("run", "watch"):
        _end_at_once(quietly=verb == "watch")
        # What loads stays, and to look through it for what does not takes a tenth of the start.
        gc.disable()
    try:
        code = _start()
    except KeyboardInterrupt:  # in a command that only reads
        code = 130
    # Nothing is left to be interrupted but the interpreter, which would show a stack.
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    _leave(code)


def _leave(code: int) -> None:
    """End now: to take apart what was loaded, as an interpreter does at its end, takes 5 ms.

    Where output cannot be written, or threads go on, it ends in its own way.
    """
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        sys.exit(code)
    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        sys.exit(code)
    os._exit(code)


def _start() -> int:
    _open_standard_streams()
    if sys.argv[1:] == ["--version"]:
        return _version()
    if sys.argv[1:2] == ["run"]:
        from vxwatch.cli.nothing import answered

        if answered(sys.argv[1:]):
            return 0
    from vxwatch.cli import plain

    meant = plain.read(sys.argv[1:])
    if meant is not None:
        return plain.begin(*meant)
    from vxwatch.cli.app import start

    return start()


def _version() -> int:
    """Write the version past all buffers: what cannot be written is known at once."""
    from vxwatch import __version__

    try:
        os.write(1, f"vx {__version__}\n".encode())
    except BrokenPipeError:
        return 0  # a reader that has seen enough
    except OSError as error:
        sys.stderr.write(f"vx: cannot write output: {error.strerror}\n")
        return 1
    return 0


def _end_at_once(*, quietly: bool) -> None:
    """Until a session answers signals itself, end with 128 + the signal; `quietly`: with 0.

    Nothing was started by then, and an exception could surface anywhere in an import.
    """

    def end(number: int, _frame: object) -> None:
        os._exit(0 if quietly else 128 + number)

    for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, end)


def _open_standard_streams() -> None:
    """Put the null device where vx was started without a stream (`>&-`).

    Whatever vx opens first would get the number otherwise, and vx's output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
