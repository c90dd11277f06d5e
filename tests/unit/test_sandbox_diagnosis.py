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
        (replace(REFUSED, in_container=True), "container", "seccomp=unconfined"),
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
    verdict = missing(["socat", "bwrap"], ["debian"])
    assert verdict.reason == "bwrap and socat are not installed"
    assert verdict.fix == "sudo apt-get install bubblewrap socat"
    assert missing(["bwrap"], ["linuxmint", "ubuntu", "debian"]).reason == "bwrap is not installed"
    assert missing(["bwrap"], ["linuxmint", "ubuntu"]).fix.startswith("sudo apt-get install")
    assert "bubblewrap" in missing(["bwrap"], ["plan9"]).fix
