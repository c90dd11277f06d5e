"""Tasks that go for the network and for sockets of the host: each attempt is real, and fails."""

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.harness.boxes import Site, refused
from tests.harness.hostile import Attacker, attackers
from vxwatch.sandbox import survey

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture(params=attackers())
def attacker(site: Site, request: pytest.FixtureRequest) -> Attacker:
    return Attacker(site, request.param)


@contextmanager
def listening(path: str) -> Iterator[str]:
    """A unix socket of the host that everybody may connect to."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen()
        try:
            yield path
        finally:
            os.unlink(path)


def connects(path: str) -> str:
    """An attempt to connect to a unix socket."""
    return f"socket.socket(socket.AF_UNIX).connect({path!r})"


def test_no_address_of_the_network_is_reached(attacker: Attacker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        attempts = {
            "metadata": "socket.create_connection(('169.254.169.254', 80), 5)",
            "metadata6": "socket.create_connection(('fd00:ec2::254', 80), 5)",
            "host": f"socket.create_connection(('127.0.0.1', {port}), 5)",
            "host6": f"socket.create_connection(('::ffff:127.0.0.1', {port}), 5)",
            "any": f"socket.create_connection(('0.0.0.0', {port}), 5)",
            "dns": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('9.9.9.9', 53))",
            "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
            "packet": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
            "vsock": "socket.socket(socket.AF_VSOCK).connect((2, 22))",
            "bluetooth": "socket.socket(31)",
            "alg": "socket.socket(38, socket.SOCK_SEQPACKET)",
        }
        told = attacker.tries(attempts)
        control = attacker.outside({"host": attempts["host"]})
    unreachable = dict.fromkeys(("metadata", "metadata6", "dns"), "ENETUNREACH")
    refusals = dict.fromkeys(("host", "host6", "any"), "ECONNREFUSED")
    families = dict.fromkeys(("packet", "vsock", "bluetooth", "alg"), "EAFNOSUPPORT")
    assert told == {**unreachable, **refusals, **families, "raw": "EPERM"}
    assert control == {"host": "ok"}


def test_no_unix_socket_is_made_without_a_grant(attacker: Attacker) -> None:
    with listening(attacker.site.path("app/s")) as path:
        attempts = {
            "path": connects(path),
            "abstract": connects("\0vx-none"),
            "datagram": "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)",
        }
        assert attacker.tries(attempts, read=(".",)) == dict.fromkeys(attempts, "EPERM")
        assert attacker.tries({"pair": "socket.socketpair()"}) == {"pair": "ok"}


def test_a_socket_of_the_host_that_goes_while_a_box_is_made_is_no_matter(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "bound_sockets", lambda: ("/usr/share/vx-none.sock",))
    assert site.run("echo ok", "app", unix_sockets=()).out == "ok\n"


def test_a_grant_shows_the_sockets_that_it_names_and_no_other(attacker: Attacker) -> None:
    app = attacker.site.path("app")
    with listening(f"{app}/named.sock") as named, listening(f"{app}/other.sock") as other:
        attacker.own()
        attempts = {
            "named": connects(named),
            "other": connects(other),
            "own": "s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen(); "
            + connects("/tmp/s"),
            "vsock": "socket.socket(socket.AF_VSOCK)",
        }
        told = attacker.tries(attempts, read=(".",), unix_sockets=("named.sock", "none.sock"))
        assert told["named"] == told["own"] == "ok"
        assert told["other"] in {"ECONNREFUSED", "EACCES", "ENOENT"}
        assert told["vsock"] == "EAFNOSUPPORT"
        told = attacker.tries(attempts, read=(".",), unix_sockets=())
        assert told["own"] == "ok"
        assert told["named"] != "ok"
        assert attacker.outside({"other": attempts["other"]}) == {"other": "ok"}


def test_sockets_of_the_hosts_abstract_names_are_not_reached(attacker: Attacker) -> None:
    name = f"\0vx-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        attempts = {"abstract": connects(name)}
        assert attacker.tries(attempts, unix_sockets=()) == {"abstract": "ECONNREFUSED"}
        assert attacker.outside(attempts) == {"abstract": "ok"}


@as_root
def test_daemons_and_agents_of_the_host_are_not_there(site: Site) -> None:
    places = (
        f"/run/vx-test-{os.getpid()}/docker.sock",
        f"/var/lib/vx-test-{os.getpid()}/db.sock",
        f"/opt/vx-test-{os.getpid()}/agent.sock",
        f"/tmp/vx-test-{os.getpid()}/ssh.sock",
        os.path.join(site.environ["HOME"], "agent.sock"),
    )
    try:
        for is_user in (False, True):
            attacker = Attacker(site, is_user)
            for place in places:
                with listening(place):
                    attacker.own()
                    attempt = {"connect": connects(place)}
                    assert attacker.tries(attempt, unix_sockets=())["connect"] != "ok", place
                    granted = attacker.tries(attempt, unix_sockets=(place,))
                    assert granted == {"connect": "ok"}, place
                    assert attacker.outside(attempt) == {"connect": "ok"}, place
    finally:
        for place in places[:-1]:
            os.rmdir(os.path.dirname(place))


def test_what_names_a_session_of_the_desktop_is_not_passed(attacker: Attacker) -> None:
    names = ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "WAYLAND_DISPLAY")
    ran = attacker.run(f"env | grep -E '{'|'.join(names)}'; cat /proc/1/environ | tr '\\0' '\\n'")
    assert not any(name in ran.out for name in names)


def test_something_else_than_a_socket_is_refused(site: Site) -> None:
    site.write("app/file")
    assert "is a file and no socket" in refused(site, unix_sockets=("file",)).message
    assert "is a directory and no socket" in refused(site, unix_sockets=("/run",)).message
