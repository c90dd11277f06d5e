"""Why a host cannot hold a sandbox, and what to do about it, told from what was tried.

One cause and one remedy, whatever bubblewrap said. Looks at nothing itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_PACKAGES = {
    "bwrap": "bubblewrap",
    "sh": "dash",
    "socat": "socat",
}
_INSTALL = {
    "debian": "sudo apt-get install",
    "ubuntu": "sudo apt-get install",
    "fedora": "sudo dnf install",
    "rhel": "sudo dnf install",
    "arch": "sudo pacman -S",
    "suse": "sudo zypper install",
    "alpine": "sudo apk add",
}

APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
CLONE = "kernel.unprivileged_userns_clone"
MAXIMUM = "user.max_user_namespaces"
SETTINGS = (APPARMOR, CLONE, MAXIMUM)
"""Kernel settings that refuse user namespaces; a kernel has only some of them."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether this host can hold a sandbox; if not, one reason and one remedy."""

    ok: bool
    reason: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """What was seen when a box could not be made.

    `message` is what bubblewrap said. `user_namespace` and `own_proc` say whether a smaller box
    could be made: with nothing but a user namespace, and with a /proc of its own as well.
    """

    message: str
    user_namespace: bool
    own_proc: bool
    settings: Mapping[str, str]
    in_container: bool
    as_root: bool


def missing(programs: Iterable[str], systems: Iterable[str]) -> Verdict:
    """The verdict when these programs are not there; `systems` are the ids of os-release."""
    names = sorted(programs)
    packages = " ".join(dict.fromkeys(_PACKAGES[name] for name in names))
    install = next((_INSTALL[system] for system in systems if system in _INSTALL), None)
    what = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return Verdict(
        False,
        f"{what} {'is' if len(names) == 1 else 'are'} not installed",
        f"{install} {packages}" if install else f"install the package of it: {packages}",
    )


def diagnose(trial: Trial) -> Verdict:
    """The one cause that explains the trial best."""
    if "Unknown option" in trial.message:
        return Verdict(
            False,
            "this bubblewrap is too old: it cannot bind by descriptor (--bind-fd)",
            "install bubblewrap 0.10 or newer, or the patched older one of your distribution",
        )
    if not trial.user_namespace:
        return _refused(trial)
    if not trial.own_proc and trial.in_container:
        return Verdict(
            False,
            "this container lets nothing mount a /proc of its own",
            "start it with `--security-opt systempaths=unconfined`, or run vx outside of it",
        )
    return Verdict(False, f"a sandboxed `true` fails: {trial.message}", "see docs/sandbox.md")


def _refused(trial: Trial) -> Verdict:
    """User namespaces are refused: by which setting, or by whom else."""
    for name, refusing, allowing in ((APPARMOR, "1", 0), (CLONE, "0", 1), (MAXIMUM, "0", 15000)):
        unprivileged = name == MAXIMUM or not trial.as_root
        if unprivileged and trial.settings.get(name) == refusing:
            who = "AppArmor" if name == APPARMOR else "the kernel"
            return Verdict(
                False,
                f"{who} lets no program make user namespaces ({name} is {refusing})",
                f"sudo sysctl -w {name}={allowing}, and the same in /etc/sysctl.d to keep it",
            )
    if trial.in_container:
        return Verdict(
            False,
            "this container lets no program make user namespaces",
            "start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`, "
            "or run vx outside of it",
        )
    return Verdict(
        False,
        f"user namespaces are refused: {trial.message}",
        "ask whoever runs this machine to allow unprivileged user namespaces",
    )
