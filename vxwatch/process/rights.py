"""What a program of ours that talks to strangers gives up before it does."""

import contextlib
import os
import resource

_NOBODY = 65534


def give_up_rights() -> None:
    """Take all descriptors that may be had, leave no core, and as root become nobody."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        os.setgroups(())
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
