"""What to do when the system refuses to start a process."""

import errno

_REMEDIES = {
    errno.EAGAIN: "end something, or raise the limit: ulimit -u, or the container's pids limit",
    errno.EMFILE: "raise the limit on open files: ulimit -n",
    errno.ENFILE: "the whole system has too many files open: end something, or raise fs.file-max",
    errno.ENOMEM: "memory is short: end something, or run fewer tasks at once (--concurrency)",
    errno.E2BIG: "its environment and its arguments are too long together: pass it less (env.pass, env.set)",
}


def remedy(number: int) -> str:
    """The advice for this errno; "" if there is none."""
    return _REMEDIES.get(number, "")
