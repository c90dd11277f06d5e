"""The proxy of a box by itself: what it lets through, what it refuses, and what nobody upsets."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.ports import has_ipv6
from tests.harness.proxy import Proxied, origin, proxy, read_all, read_to

LINES = b"\r\n\r\n"


def echo(client: socket.socket) -> None:
    """Send everything back when the client has sent all."""
    client.sendall(b"heard " + read_all(client))


def connect(port: int, host: str = "127.0.0.1") -> bytes:
    return b"CONNECT %s:%d HTTP/1.1\r\nHost: x\r\n\r\n" % (host.encode(), port)


def tunnel(through: Proxied, port: int, text: bytes = b"hello") -> bytes:
    with through.connect() as client:
        client.sendall(connect(port))
        assert read_to(client, LINES).startswith(b"HTTP/1.1 200 ")
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)
        return read_all(client)


def head_and_body(answer: bytes) -> tuple[bytes, bytes]:
    head, _, body = answer.partition(LINES)
    return head, body


class TestTunnels:
    def test_both_ways_and_a_half_close(self) -> None:
        with origin(echo) as port, proxy(f"127.0.0.1:{port}") as through:
            assert tunnel(through, port) == b"heard hello"

    def test_what_is_sent_with_the_request_arrives(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1") as through:
            answer = through.ask(connect(port) + b"early", close=True)
            assert head_and_body(answer)[1] == b"heard early"

    def test_much_in_both_directions_at_once(self) -> None:
        def both(client: socket.socket) -> None:
            sender = threading.Thread(target=client.sendall, args=(b"y" * 20_000_000,))
            sender.start()
            size = len(read_all(client))
            sender.join()
            client.sendall(b"%d" % size)

        with origin(both) as port, proxy("127.0.0.1") as through, through.connect() as client:
            client.sendall(connect(port))
            read_to(client, LINES)
            sender = threading.Thread(target=client.sendall, args=(b"x" * 20_000_000,))
            sender.start()
            for _ in range(20):
                assert client.recv(1_000_000)
            sender.join()
            client.shutdown(socket.SHUT_WR)
            assert read_all(client).endswith(b"y20000000")

    def test_two_hundred_at_once(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1") as through:
            clients = [through.connect() for _ in range(200)]
            for client in clients:
                client.sendall(connect(port))
            for client in clients:
                read_to(client, LINES)
            for number, client in enumerate(clients):
                client.sendall(b"%d" % number)
                client.shutdown(socket.SHUT_WR)
            for number, client in enumerate(clients):
                with client:
                    assert read_all(client) == b"heard %d" % number

    def test_who_says_nothing_holds_nobody_up(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1") as through:
            silent = [through.connect() for _ in range(100)]
            assert tunnel(through, port) == b"heard hello"
            for client in silent:
                client.close()

    def test_an_answer_that_comes_before_all_is_sent(self) -> None:
        def early(client: socket.socket) -> None:
            client.recv(1)
            client.sendall(b"enough")  # and it ends with something unread

        with origin(early) as port, proxy("127.0.0.1") as through, through.connect() as client:
            client.sendall(connect(port))
            read_to(client, LINES)
            client.sendall(b"x" * 100_000)
            assert client.recv(6, socket.MSG_WAITALL) == b"enough"


class TestRules:
    def test_a_refusal_names_host_and_rule_and_is_told_once(self) -> None:
        with proxy("a.example") as through:
            for _ in range(2):
                head, body = head_and_body(through.ask(connect(443, "Evil.Example.")))
                assert head.startswith(b"HTTP/1.1 403 Refused by the sandbox")
                assert b"refuses evil.example:443, which nothing grants" in body
            assert through.told() == [
                ["evil.example", 443, "which nothing grants", ["evil.example"]]
            ]

    def test_a_port_that_is_not_granted(self) -> None:
        with origin(echo) as port, proxy(f"127.0.0.1:{port + 1}") as through:
            assert b" 403 " in through.ask(connect(port))

    def test_deny_comes_first(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1", deny=(f"127.0.0.1:{port}",)) as through:
            assert b"which deny.network forbids" in through.ask(connect(port))

    @pytest.mark.parametrize("allow", [("localhost",), ("*",)])
    def test_a_name_does_not_open_a_private_address(self, allow: tuple[str, ...]) -> None:
        with origin(echo) as port, proxy(*allow) as through:
            answer = through.ask(connect(port, "localhost"))
            assert b" 403 " in answer
            assert b"a loopback address that nothing grants" in answer
            (told,) = through.told()
            assert told[3][0] == "localhost"

    def test_a_name_with_its_address_does(self) -> None:
        with origin(echo) as port, proxy("localhost", "127.0.0.1", "::1") as through:
            assert b" 200 " in through.ask(connect(port, "localhost"), close=True)

    @pytest.mark.parametrize(
        "host",
        ["127.1", "0x7f000001", "2130706433", "017700000001", "127.0.0.1%00", "a b", "", "*"],
    )
    def test_other_spellings_of_an_address_lead_nowhere(self, host: str) -> None:
        with origin(echo) as port, proxy("*") as through:
            status = through.ask(connect(port, host)).split(b" ", 2)[1]
            assert status in {b"400", b"502", b"403"}

    def test_an_ipv4_address_in_ipv6_clothes_is_that_address(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1") as through:
            answer = through.ask(connect(port, "[::ffff:127.0.0.1]") + b"x", close=True)
            assert answer.endswith(b"heard x")
        with origin(echo) as port, proxy("*") as through:
            assert b" 403 " in through.ask(connect(port, "[::ffff:127.0.0.1]"))

    def test_an_address_of_this_machine_is_not_public(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as question:
            try:
                question.connect(("198.51.100.1", 9))
            except OSError:
                pytest.skip("this machine has no network")
            own = question.getsockname()[0]
        with proxy("*") as through:
            assert b" 403 " in through.ask(connect(80, own))

    def test_a_host_that_does_not_exist_is_no_refusal(self) -> None:
        with proxy("nothing.invalid") as through:
            answer = through.ask(connect(443, "nothing.invalid"))
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert b"cannot look up nothing.invalid" in answer
            assert through.told() == []

    def test_nor_is_one_where_nobody_listens(self, free_port: Callable[[], int]) -> None:
        with proxy("127.0.0.1") as through:
            answer = through.ask(connect(free_port()))
            assert answer.startswith(b"HTTP/1.1 502 ")
            assert b"Connection refused" in answer


def web(client: socket.socket) -> None:
    """Answer each request with what was received of it, until the client ends."""
    head = read_to(client, LINES)
    while head:
        length = int((head.lower().partition(b"content-length: ")[2] or b"0").split(b"\r")[0])
        body = b""
        while len(body) < length:
            body += client.recv(length - len(body))
        text = head + body
        client.sendall(
            b"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-End: 1\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (len(text), text)
        )
        head = read_to(client, LINES)


def get(port: int, *headers: bytes, path: bytes = b"/a?b#c") -> bytes:
    lines = (b"GET http://127.0.0.1:%d%s HTTP/1.1" % (port, path), b"Host: other", *headers)
    return b"\r\n".join(lines) + LINES


class TestRequests:
    def test_a_request_is_written_anew_for_the_host_of_its_uri(self) -> None:
        hop = (
            b"Proxy-Connection: keep-alive",
            b"Connection: X-Mine",
            b"X-Mine: 1",
            b"Upgrade: h2c",
        )
        with origin(web) as port, proxy("127.0.0.1") as through:
            with through.connect() as client:
                client.sendall(get(port, *hop, b"Proxy-Authorization: Basic x", b"X-Kept: 1"))
                answer = read_to(client, LINES)
                seen = read_to(client, LINES).lower()
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert b"x-end: 1" in answer.lower()
            assert b"x-hop" not in answer.lower()
            assert seen.startswith(b"get /a?b http/1.1\r\nhost: 127.0.0.1:%d\r\n" % port)
            assert b"x-kept: 1" in seen
            for word in (b"proxy-", b"x-mine", b"upgrade", b"other"):
                assert word not in seen

    def test_each_request_of_a_connection_is_judged_by_itself(self) -> None:
        with origin(web) as port, origin(web) as other, origin(web) as closed:
            granted = (f"127.0.0.1:{port}", f"127.0.0.1:{other}")
            with proxy(*granted) as through, through.connect() as client:
                client.sendall(get(port) + get(other) + get(closed))
                for expected in (port, other):
                    assert read_to(client, LINES).startswith(b"HTTP/1.1 200 ")
                    assert b":%d" % expected in read_to(client, LINES)
                assert read_to(client, LINES).startswith(b"HTTP/1.1 403 ")
                assert b"which nothing grants" in read_all(client)

    def test_bodies_of_both_framings_arrive(self) -> None:
        with origin(web) as port, proxy("127.0.0.1") as through:
            post = get(port, b"Content-Length: 5").replace(b"GET", b"POST")
            with through.connect() as client:
                client.sendall(post + b"hello")
                read_to(client, LINES)
                assert b"content-length: 5" in read_to(client, LINES).lower()
                assert client.recv(5, socket.MSG_WAITALL) == b"hello"

    def test_of_two_framings_one_arrives(self) -> None:
        seen: list[bytes] = []

        def note(client: socket.socket) -> None:
            seen.append(read_to(client, b"0\r\n\r\n").lower())
            client.sendall(b"HTTP/1.1 204 Done\r\n\r\n")

        with origin(note) as port, proxy("127.0.0.1") as through:
            both = get(port, b"Content-Length: 5", b"Transfer-Encoding: chunked")
            answer = through.ask(
                both.replace(b"GET", b"POST") + b"5\r\nhello\r\n0\r\n\r\n", close=True
            )
            assert answer.startswith(b"HTTP/1.1 204 ")
        assert b"transfer-encoding: chunked" in seen[0]
        assert b"content-length" not in seen[0]

    def test_who_waits_for_a_100_gets_it(self) -> None:
        def willing(client: socket.socket) -> None:
            read_to(client, LINES)
            client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            client.recv(5, socket.MSG_WAITALL)
            client.sendall(b"HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n")

        with origin(willing) as port, proxy("127.0.0.1") as through, through.connect() as client:
            put = get(port, b"Content-Length: 5", b"Expect: 100-continue").replace(b"GET", b"PUT")
            client.sendall(put)
            assert read_to(client, LINES).startswith(b"HTTP/1.1 100 ")
            client.sendall(b"hello")
            assert read_to(client, LINES).startswith(b"HTTP/1.1 201 ")

    def test_an_answer_to_half_a_request_arrives(self) -> None:
        def hasty(client: socket.socket) -> None:
            read_to(client, LINES)
            client.sendall(b"HTTP/1.1 413 Too much\r\nContent-Length: 3\r\n\r\nno!")

        with origin(hasty) as port, proxy("127.0.0.1") as through, through.connect() as client:
            client.sendall(get(port, b"Content-Length: 99999999").replace(b"GET", b"POST") + b"x")
            assert read_all(client).endswith(b"no!")

    def test_an_answer_without_a_length_ends_with_its_connection(self) -> None:
        def old(client: socket.socket) -> None:
            read_to(client, LINES)
            client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000)

        with origin(old) as port, proxy("127.0.0.1") as through:
            answer = through.ask(get(port).replace(b"HTTP/1.1", b"HTTP/1.0"))
            assert head_and_body(answer)[1] == b"x" * 100_000

    def test_an_answer_that_is_none_is_told(self) -> None:
        def wrong(client: socket.socket) -> None:
            read_to(client, LINES)
            client.sendall(b"what?\r\n\r\n")

        with origin(wrong) as port, proxy("127.0.0.1") as through:
            assert through.ask(get(port)).startswith(b"HTTP/1.1 502 ")

    @pytest.mark.parametrize(
        ("text", "status"),
        [
            (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET https://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET ftp://x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http://u:p@x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http:///x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http://x:y/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http://x:99999/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http://[x/ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
            (b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"CONNECT x:0 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"CONNECT x:65536 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"CONNECT x:9999999999 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
            (b"nonsense\r\n\r\n", 400),
            (b"GET http://x/ HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 70_000, 431),
        ],
    )
    def test_what_is_no_request_is_answered_so(self, text: bytes, status: int) -> None:
        with proxy() as through:
            assert through.ask(text).startswith(b"HTTP/1.1 %d " % status)


def socks(kind: int, address: bytes, port: int, command: int = 1) -> bytes:
    return b"\x05\x01\x00" + bytes((5, command, 0, kind)) + address + struct.pack("!H", port)


def name(text: bytes) -> bytes:
    return bytes((len(text),)) + text


class TestSocks:
    def test_names_and_addresses(self) -> None:
        with origin(echo) as port, proxy("127.0.0.1", "localhost", "::1") as through:
            for kind, address in (
                (1, b"\x7f\0\0\1"),
                (3, name(b"127.0.0.1")),
                (3, name(b"LocalHost.")),
                (4, b"\0" * 10 + b"\xff\xff\x7f\0\0\1"),
            ):
                answer = through.ask(socks(kind, address, port) + b"x", close=True)
                assert answer[:4] == b"\x05\x00\x05\x00"
                assert answer[12:] == b"heard x"

    @pytest.mark.skipif(not has_ipv6(), reason="needs ::1")
    def test_an_ipv6_address(self) -> None:
        with origin(echo, "::1") as port, proxy("::1") as through:
            answer = through.ask(socks(4, b"\0" * 15 + b"\1", port) + b"x", close=True)
            assert answer[12:] == b"heard x"

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            (socks(3, name(b"evil.example"), 443), 2),
            (socks(1, b"\x0a\0\0\1", 443), 2),
            (socks(3, name(b"nothing.invalid"), 443), 4),
            (socks(3, name(b"a\0b"), 443), 4),
            (socks(3, name(b"\xff"), 443), 4),
            (socks(3, name(b"granted.example"), 443, command=2), 7),
            (socks(9, b"", 443), 8),
        ],
    )
    def test_what_is_refused_is_told_apart(self, text: bytes, code: int) -> None:
        with proxy("nothing.invalid") as through:
            answer = through.ask(text)
            assert answer[:2] == b"\x05\x00"
            assert answer[2:4] == bytes((5, code))

    def test_who_insists_on_a_password_is_left(self) -> None:
        with proxy() as through:
            assert through.ask(b"\x05\x01\x02") == b"\x05\xff"


@pytest.mark.slow
def test_no_bytes_upset_it() -> None:
    heads = st.sampled_from(
        [b"", b"\x05", b"\x04", b"GET http://127.0.0.1:1/ HTTP/1.1\r\n", b"CONNECT "]
    )

    with origin(echo) as port, proxy("127.0.0.1") as through:

        @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
        @given(heads, st.binary(max_size=200), st.booleans())
        def throw(head: bytes, rest: bytes, orderly: bool) -> None:
            with through.connect() as client, contextlib.suppress(OSError):
                client.sendall(head + rest)
                if orderly:
                    client.shutdown(socket.SHUT_WR)

        throw()
        assert tunnel(through, port) == b"heard hello"


@pytest.mark.slow
def test_no_answer_upsets_it() -> None:
    answer = [b""]

    def any_answer(client: socket.socket) -> None:
        read_to(client, LINES)
        client.sendall(answer[0])

    starts = st.sampled_from(
        (
            *(
                b"",
                b"HTTP/1.1 200 OK\r\n",
                b"HTTP/1.1 101 Switching\r\n\r\n",
                b"HTTP/1.1 100 C\r\n",
            ),
            *(
                b"HTTP/1.1 204 No\r\nContent-Length: 5\r\n",
                b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx",
            ),
            *(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 999 x\r\n\r\n"),
        )
    )
    with origin(any_answer) as port, proxy("127.0.0.1") as through:

        @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
        @given(starts, st.binary(max_size=100), st.sampled_from([b"GET", b"HEAD", b"POST", b"PUT"]))
        def throw(start: bytes, rest: bytes, method: bytes) -> None:
            answer[0] = start + rest
            with through.connect() as client, contextlib.suppress(OSError):
                client.sendall(get(port).replace(b"GET", method, 1))
                client.shutdown(socket.SHUT_WR)
                read_all(client)

        throw()
        answer[0] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        assert through.ask(get(port), close=True).endswith(b"ok")
