"""Why a host cannot hold a sandbox, and what to do about it, told from what was tried.

One cause and one remedy, whatever bubblewrap said. Looks at nothing itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_PACKAGES = {
    "bwrap": "bubblewrap",
    "sh": "dash",
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
MAXIMA = (MAXIMUM, *(f"user.max_{kind}_namespaces" for kind in ("pid", "net", "mnt", "ipc", "uts")))
SETTINGS = (APPARMOR, CLONE, *MAXIMA)
"""Kernel settings that refuse namespaces; a kernel has only some of them."""

NESTED = "sandbox.weaker_when_nested"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether this host can hold a sandbox; if not, one reason and one remedy.

    `weaker`: it can hold one that shows the processes around it. `supervises`: the kernel tells
    what goes on in it.
    """

    ok: bool
    reason: str = ""
    fix: str = ""
    weaker: bool = False
    supervises: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """What was seen when a box could not be made.

    `message` is what bubblewrap said. `user_namespace` and `own_proc` say whether a smaller box
    could be made: with nothing but a user namespace, and with a /proc of its own as well;
    `weaker` whether the box could be made that needs no such /proc. `filtered`: a filter around
    vx judges its system calls. `chrooted`: its root is no mount.
    """

    message: str
    user_namespace: bool
    own_proc: bool
    settings: Mapping[str, str]
    in_container: bool
    as_root: bool
    weaker: bool = False
    filtered: bool = False
    chrooted: bool = False


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
    setting = _setting(trial)
    if setting is not None:
        return setting
    if not trial.user_namespace:
        return _refused(trial)
    if not trial.own_proc:
        return _nested(trial)
    return Verdict(False, f"a sandboxed `true` fails: {trial.message}", "see docs/sandbox.md")


def _setting(trial: Trial) -> Verdict | None:
    """The kernel setting that refuses what was tried."""
    apparmor = not trial.user_namespace or "RTM_NEWADDR" in trial.message
    for name, refusing, allowing, counts in (
        (APPARMOR, "1", 0, apparmor and not trial.as_root),
        (CLONE, "0", 1, not trial.user_namespace and not trial.as_root),
        *((name, "0", 15000, True) for name in MAXIMA),
    ):
        if counts and trial.settings.get(name) == refusing:
            who = "AppArmor" if name == APPARMOR else "the kernel"
            kind = name.split("_")[1] if name in MAXIMA[1:] else "user"
            return Verdict(
                False,
                f"{who} lets no program make {kind} namespaces ({name} is {refusing})",
                f"sudo sysctl -w {name}={allowing}, and the same in /etc/sysctl.d to keep it",
            )
    return None


def _nested(trial: Trial) -> Verdict:
    """What is around vx shows a /proc with parts covered, so the kernel gives nobody another one."""
    around = "this container" if trial.in_container else "the sandbox or container that vx runs in"
    own = "start it with `--security-opt systempaths=unconfined`, or run vx outside of it"
    weaker = f"; or set {NESTED} = true for the tasks that may see the processes around them"
    return Verdict(
        False,
        f"{around} lets nothing mount a /proc of its own",
        own + weaker if trial.weaker else own,
        weaker=trial.weaker,
    )


def _refused(trial: Trial) -> Verdict:
    """User namespaces are refused, and by none of the kernel's settings."""
    if trial.as_root and "uid map" in trial.message:
        # A namespace that holds root asks for CAP_SETFCAP of whoever makes it (Linux 5.12).
        return Verdict(
            False,
            "what is around vx took from root the right to make user namespaces (CAP_SETFCAP)",
            "run vx there as another user than root, or outside of it",
        )
    if trial.chrooted:
        return Verdict(
            False,
            "the kernel lets nothing in a chroot make user namespaces",
            "enter that system as a container does (`systemd-nspawn -D DIRECTORY`), "
            "or run vx outside of it",
        )
    if trial.in_container or trial.filtered:
        who = "this container" if trial.in_container else "a system call filter around vx"
        return Verdict(
            False,
            f"{who} lets no program make user namespaces",
            "start the container with `--security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined`, or run vx outside of it",
        )
    return Verdict(
        False,
        f"user namespaces are refused: {trial.message}",
        "ask whoever runs this machine to allow unprivileged user namespaces",
    )
