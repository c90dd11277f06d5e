"""One cause and one remedy for each way a host refuses."""

from dataclasses import replace

import pytest

from vxwatch.sandbox.diagnosis import APPARMOR, CLONE, MAXIMUM, Trial, diagnose, missing

REFUSED = Trial(
    message="bwrap: No permissions to create new namespace",
    user_namespace=False,
    own_proc=False,
    settings={},
    in_container=False,
    as_root=False,
)


@pytest.mark.parametrize(
    ("trial", "reason", "fix"),
    [
        (replace(REFUSED, settings={APPARMOR: "1"}), "AppArmor", f"sysctl -w {APPARMOR}=0"),
        (replace(REFUSED, settings={CLONE: "0"}), "kernel", f"sysctl -w {CLONE}=1"),
        (replace(REFUSED, settings={MAXIMUM: "0"}), "kernel", f"sysctl -w {MAXIMUM}=15000"),
        (
            replace(REFUSED, settings={"user.max_pid_namespaces": "0"}, as_root=True),
            "pid namespaces",
            "sysctl -w user.max_pid_namespaces=15000",
        ),
        (
            replace(
                REFUSED,
                message="bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
                settings={APPARMOR: "1"},
                user_namespace=True,
                own_proc=True,
            ),
            "AppArmor",
            f"sysctl -w {APPARMOR}=0",
        ),
        (replace(REFUSED, in_container=True), "container", "seccomp=unconfined"),
        (replace(REFUSED, filtered=True), "system call filter", "seccomp=unconfined"),
        (replace(REFUSED, chrooted=True, as_root=True), "in a chroot", "systemd-nspawn"),
        (
            replace(REFUSED, user_namespace=True, weaker=True),
            "the sandbox or container that vx runs in lets nothing mount a /proc",
            "sandbox.weaker_when_nested = true",
        ),
        (REFUSED, "No permissions to create", "whoever runs this machine"),
        (
            replace(REFUSED, settings={APPARMOR: "1"}, as_root=True, in_container=True),
            "container",
            "seccomp=unconfined",
        ),
        (
            replace(REFUSED, user_namespace=True, in_container=True),
            "/proc of its own",
            "systempaths=unconfined",
        ),
        (replace(REFUSED, message="bwrap: Unknown option --bind-fd"), "too old", "0.10"),
        (
            replace(REFUSED, message="bwrap: setting up uid map: EPERM", as_root=True),
            "took from root the right to make user namespaces",
            "as another user than root",
        ),
        (
            replace(REFUSED, message="odd", user_namespace=True, own_proc=True),
            "a sandboxed `true` fails: odd",
            "docs/sandbox.md",
        ),
    ],
)
def test_cause(trial: Trial, reason: str, fix: str) -> None:
    verdict = diagnose(trial)
    assert not verdict.ok
    assert reason in verdict.reason
    assert fix in verdict.fix


def test_missing_programs_come_with_the_line_that_installs_them() -> None:
    verdict = missing(["sh", "bwrap"], ["debian"])
    assert verdict.reason == "bwrap and sh are not installed"
    assert verdict.fix == "sudo apt-get install bubblewrap dash"
    assert missing(["bwrap"], ["linuxmint", "ubuntu", "debian"]).reason == "bwrap is not installed"
    assert missing(["bwrap"], ["linuxmint", "ubuntu"]).fix.startswith("sudo apt-get install")
    assert "bubblewrap" in missing(["bwrap"], ["plan9"]).fix
