"""The program between browsers and a bridged server: what it changes, and all that it does not."""

import gzip
import random
import socket
import threading
import zlib
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.reloading import (
    PATH,
    TAG,
    VERSION,
    Program,
    Talk,
    head,
    length_of,
    program,
    rest,
    silent,
)
from tests.harness.waiting import patience, wait_for

pytestmark = [pytest.mark.timeout(120)]

PAGE = b"<!doctype html><html><head><title>t</title></head><body>text</body></html>"
TOLD = PAGE.replace(b"<head>", b"<head>" + TAG)
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
FAILED = {"task": "app#build", "how": "failed with exit 1", "output": "</script><b>&"}


def answers(*responses: bytes, pieces: int = 0, seed: int = 0) -> Talk:
    """A server that gives these answers on a connection and ends it; each is cut in pieces."""

    def talk(client: socket.socket) -> None:
        cuts = random.Random(seed)
        for response in responses:
            head(client)
            at = sorted(cuts.randrange(len(response) + 1) for _ in range(pieces))
            for start, end in zip([0, *at], [*at, len(response)], strict=True):
                client.sendall(response[start:end])

    return talk


def plain(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join(
        (b"HTTP/1.1 " + status, *fields, b"Content-Length: %d" % len(body), b"", body)
    )


def chunked(body: bytes, *fields: bytes, size: int = 7) -> bytes:
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    framed = b"".join(b"%x;ext=1\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    lines = (b"HTTP/1.1 200 OK", *fields, b"Transfer-Encoding: chunked", b"", framed)
    return b"\r\n".join(lines) + b"0\r\nX-Trailer: 1\r\n\r\n"


def unchunked(body: bytes) -> bytes:
    whole = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        count = int(size, 16)
        if not count:
            assert body == b"\r\n"
            return whole
        whole, body = whole + body[:count], body[count + 2 :]


@pytest.fixture(scope="module", name="vx")
def _vx() -> Iterator[Program]:
    with program() as running:
        yield running


HTML = b"content-Type: text/html; charset=utf-8"
UNTOUCHED = {
    "odd names": plain(b"x", b"x-ODD-Name:  spaced  ", b"Server: a", b"sErVeR: b"),
    "chunks": chunked(bytes(range(256)) * 9, b"Content-Type: image/png"),
    "empty": b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n",
    "not modified": b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Type: text/html\r\n\r\n',
    "compressed": plain(gzip.compress(PAGE), b"Content-Encoding: gzip", b"Content-Type: a/b"),
    "old": b"HTTP/1.0 200 Fine\r\nContent-Type: text/plain\r\n\r\nuntil the end",
    "download": plain(PAGE, HTML, b"Content-Disposition: attachment; filename=a.html"),
    "part": plain(PAGE[:9], HTML, b"Content-Range: bytes 0-8/99", status=b"206 Partial Content"),
    "brotli": plain(b"\x8b\x02\x80", HTML, b"Content-Encoding: br"),
    "zstandard": plain(b"(\xb5/\xfd", HTML, b"Content-Encoding: zstd"),
    "no type": plain(PAGE),
    "policy": plain(PAGE, HTML, b"Content-Security-Policy: default-src 'none'"),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + plain(b"x"),
    "no http": b"\x16\x03\x01 some bytes \r\n\r\n that are no answer",
    "broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloXX9\r\n",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
}


@pytest.mark.parametrize("response", UNTOUCHED.values(), ids=UNTOUCHED.keys())
def test_what_is_no_page_passes_byte_for_byte(vx: Program, response: bytes) -> None:
    vx.talk = answers(response, pieces=3)
    assert vx.ask(ASK) == response


REQUESTS = {
    "a script": b"GET /a.js HTTP/1.1\r\nHOST: localhost\r\nsec-fetch-DEST: script\r\n"
    b"Accept-Encoding:  gzip, br\r\nIf-None-Match: x\r\n\r\n",
    "a form": b"POST /f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    "chunks": b"PUT / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\n",
    "old": b"GET / HTTP/1.0\r\nAccept: image/png\r\n\r\n",
    "a fetch": b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Dest: empty\r\nAccept: text/html\r\n"
    b"Accept-Encoding: br\r\n\r\n",
    "a stranger's": b"GET / HTTP/1.1\r\nHost: evil.example\r\nAccept-Encoding: br\r\n\r\n",
    "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04",
    "beside the channel": b"GET /__vx__/guess/events HTTP/1.1\r\nHost: localhost\r\n"
    b"Sec-Fetch-Dest: empty\r\n\r\n",
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS.keys())
def test_a_request_that_is_for_no_page_arrives_byte_for_byte(vx: Program, request_: bytes) -> None:
    got: list[bytes] = []

    def talk(client: socket.socket) -> None:
        got.append(rest(client))
        client.sendall(plain(PAGE, HTML))

    vx.talk = talk
    assert vx.ask(request_) == plain(PAGE, HTML)
    assert got == [request_]


def test_a_request_for_a_page_asks_for_all_of_it_uncompressed(vx: Program) -> None:
    got: list[bytes] = []

    def talk(client: socket.socket) -> None:
        got.append(head(client))
        client.sendall(plain(PAGE, HTML))

    vx.talk = talk
    assert vx.ask(
        b"GET /?q HTTP/1.1\r\nhOST: localhost\r\nX-a:1\r\nAccept-Encoding: br\r\n"
        b"Sec-Fetch-Dest: document\r\nIf-Modified-Since: x\r\nif-none-match: y\r\n\r\n"
    ).endswith(TOLD)
    (asked,) = got
    assert asked == (
        b"GET /?q HTTP/1.1\r\nhOST: localhost\r\nX-a: 1\r\nAccept-Encoding: identity\r\n"
        b"Sec-Fetch-Dest: document\r\n\r\n"
    )


def test_a_page_gets_the_script_and_its_length_counts_it(vx: Program) -> None:
    vx.talk = answers(plain(PAGE, b"eTag: x", HTML, b"Accept-Ranges: bytes"))
    assert vx.ask(ASK) == plain(TOLD, b"eTag: x", HTML)


def bodies(got: bytes) -> bytes:
    fields, _, body = got.partition(b"\r\n\r\n")
    if b"ransfer-Encoding" in fields:
        return unchunked(body)
    if b"ontent-Length" in fields:
        assert length_of(fields) == len(body)
    return body


def deflated(data: bytes) -> bytes:
    bare = zlib.compressobj(wbits=-15)
    return bare.compress(data) + bare.flush()


PAGES = {
    "chunked": chunked(PAGE, HTML),
    "until the end": b"HTTP/1.0 200 OK\r\n" + HTML + b"\r\n\r\n" + PAGE,
    "gzip": plain(gzip.compress(PAGE), HTML, b"Content-Encoding: gzip"),
    "two members": plain(
        gzip.compress(PAGE[:30]) + gzip.compress(PAGE[30:]), HTML, b"Content-Encoding: x-gzip"
    ),
    "gzip in chunks": chunked(gzip.compress(PAGE), HTML, b"Content-Encoding: gzip"),
    "gzip until the end": b"HTTP/1.0 200 OK\r\nContent-Encoding: gzip\r\n"
    + HTML
    + b"\r\n\r\n"
    + gzip.compress(PAGE),
    "deflate": plain(zlib.compress(PAGE), HTML, b"Content-Encoding: deflate"),
    "bare deflate": plain(deflated(PAGE), HTML, b"Content-Encoding: deflate"),
    "an error": plain(PAGE, HTML, status=b"500 Oh"),
}


@pytest.mark.parametrize("response", PAGES.values(), ids=PAGES.keys())
def test_a_page_gets_the_script_however_it_is_sent(vx: Program, response: bytes) -> None:
    vx.talk = answers(response)
    got = vx.ask(ASK)
    assert bodies(got) == TOLD
    assert b"ncoding: gzip" not in got


def test_a_page_may_be_cut_anywhere(vx: Program) -> None:
    kinds = [plain(PAGE, HTML), PAGES["chunked"], PAGES["gzip in chunks"]]
    turn = iter(range(10_000))

    def talk(client: socket.socket) -> None:
        head(client)
        number = next(turn)
        response = kinds[number % len(kinds)]
        cut = number // len(kinds) % len(response)
        client.sendall(response[:cut])
        client.sendall(response[cut:])

    vx.talk = talk
    for _ in range(len(kinds) * max(map(len, kinds))):
        assert bodies(vx.ask(ASK)) == TOLD


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_answers_in_any_pieces_on_one_connection(vx: Program, data: st.DataObject) -> None:
    names = data.draw(
        st.lists(st.sampled_from(["chunks", "odd names", "empty", "page"]), max_size=6)
    )
    known = {**UNTOUCHED, "page": PAGES["chunked"]}
    seed = data.draw(st.integers(0, 1000))
    vx.talk = answers(*(known[name] for name in names), pieces=5, seed=seed)
    got = vx.ask(ASK * len(names))
    for name in names:
        if name == "page":
            first, _, got = got.partition(b"0\r\n\r\n")
            assert bodies(first + b"0\r\n\r\n") == TOLD
        else:
            assert got[: len(known[name])] == known[name]
            got = got[len(known[name]) :]
    assert got == b""


def test_the_answer_to_head_is_left_alone(vx: Program) -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n"
    vx.talk = answers(response, response)
    assert vx.ask(ASK.replace(b"GET", b"HEAD") * 2) == response * 2


def test_a_damaged_page_does_not_pass_for_whole(vx: Program) -> None:
    broken = plain(gzip.compress(PAGE)[:-12] + b"12 bytes off", HTML, b"Content-Encoding: gzip")
    vx.talk = answers(broken)
    with vx.connect() as client:
        client.sendall(ASK)
        with pytest.raises(ConnectionResetError):
            rest(client)


def test_a_stream_arrives_as_it_is_sent(vx: Program) -> None:
    more = threading.Event()

    def talk(client: socket.socket) -> None:
        head(client)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
        more.wait(patience(10))
        client.sendall(b"data: 2\n\n")

    vx.talk = talk
    with vx.connect() as client:
        client.sendall(ASK)
        assert head(client).endswith(b"\r\n\r\n")
        assert client.recv(100) == b"data: 1\n\n"
        more.set()
        assert rest(client) == b"data: 2\n\n"


def test_a_page_arrives_as_it_is_sent(vx: Program) -> None:
    more = threading.Event()

    def talk(client: socket.socket) -> None:
        head(client)
        client.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<p>one")
        more.wait(patience(10))
        client.sendall(b"<p>two")

    vx.talk = talk
    with vx.connect() as client:
        client.sendall(ASK)
        head(client)
        assert client.recv(1000) == TAG + b"<p>one"
        more.set()
        assert rest(client) == b"<p>two"


def test_an_upgraded_connection_is_carried_both_ways(vx: Program) -> None:
    def talk(client: socket.socket) -> None:
        head(client)
        client.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nhi"
        )
        while data := client.recv(100):
            client.sendall(data.upper())

    upgrade = ASK[:-2] + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly"
    vx.talk = talk
    with vx.connect() as client:
        client.sendall(upgrade)
        head(client)
        assert client.recv(2) == b"hi"
        assert client.recv(5) == b"EARLY"
        client.sendall(b"\x00\xff bytes")
        assert client.recv(100) == b"\x00\xff BYTES"
        client.shutdown(socket.SHUT_WR)
        assert rest(client) == b""


def test_a_body_may_wait_for_permission_and_be_large(vx: Program) -> None:
    size = 3 << 20

    def talk(client: socket.socket) -> None:
        assert b"100-continue" in head(client)
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        left = size
        while left:
            left -= len(client.recv(65536))
        client.sendall(plain(b"thanks"))

    vx.talk = talk
    with vx.connect() as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
            b"Content-Length: %d\r\n\r\n" % size
        )
        assert head(client) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"x" * size)
        assert head(client) + client.recv(100) == plain(b"thanks")


def test_an_answer_before_the_end_of_the_request_arrives(vx: Program) -> None:
    refused = plain(b"too much", b"Connection: close", status=b"413 No")

    def talk(client: socket.socket) -> None:
        head(client)
        client.sendall(refused)

    vx.talk = talk
    for _ in range(40):  # the server's end and the rest of the request cross
        with vx.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nx")
            assert rest(client) == refused


def test_a_connection_outlives_the_server_behind_it(vx: Program) -> None:
    vx.talk = answers(plain(b"once"))
    with vx.connect() as client:
        for _ in range(3):
            client.sendall(ASK)
            assert head(client) + client.recv(100) == plain(b"once")


def test_what_a_server_did_not_answer_when_it_went_down_the_next_is_asked(vx: Program) -> None:
    lives = iter((True, False))

    def talk(client: socket.socket) -> None:
        down = next(lives)
        head(client)
        client.sendall(plain(b"first" if down else b"second"))
        if down:
            head(client)

    vx.talk = talk
    with vx.connect() as client:
        for text in (b"first", b"second"):
            client.sendall(ASK)
            assert head(client) + client.recv(100) == plain(text)


def test_who_gets_no_answer_is_not_left_waiting(vx: Program) -> None:
    def talk(client: socket.socket) -> None:
        head(client)

    vx.talk = talk
    assert vx.ask(ASK) == b""


def test_a_page_hears_how_it_is_and_what_changes() -> None:
    with program() as vx:
        page = vx.listen()
        assert page.next() == ("hello", {"version": VERSION, "servers": False, "failed": []})
        vx.publish("run.1", servers=True)
        assert page.next() == ("reload", {"version": "run.1", "servers": True, "failed": []})
        vx.publish("run.1", FAILED)
        assert page.next()[0] == "failed"
        vx.publish("run.1", FAILED)
        vx.publish("run.1")
        assert page.next() == ("mended", {"version": "run.1", "servers": False, "failed": []})
        page.close()
        late = vx.listen()
        assert late.next()[1]["version"] == "run.1"
        late.close()


def test_many_pages_hear_all() -> None:
    with program() as vx:
        pages = [vx.listen() for _ in range(60)]
        assert {page.next()[0] for page in pages} == {"hello"}
        vx.publish("run.1")
        assert {page.next()[0] for page in pages} == {"reload"}
        for page in pages:
            page.close()


def test_a_page_that_never_reads_is_cut_and_costs_nothing() -> None:
    with program() as vx:
        deaf, page = vx.listen(), vx.listen()
        page.next()
        seen = psutil.Process(vx.process.pid)
        large = FAILED | {"output": "x" * 90_000}
        before = 0
        for number in range(300):
            vx.publish("run.0", large | {"how": str(number)})
            assert page.next()[0] == "failed"
            if number == 100:
                before = seen.memory_info().rss
        assert seen.memory_info().rss < before + (2 << 20)
        wait_for(lambda: len(seen.net_connections()) == 2, "the deaf page is cut", 10)
        deaf.close()
        page.close()


def test_a_page_that_is_cut_is_not_written_to_again() -> None:
    with program() as vx:
        deaf = vx.listen()
        for number in range(400):
            vx.publish("run.0", FAILED | {"output": "x" * 90_000, "how": str(number)})
        deaf.close()


FOREIGN = {
    "origin": b"Origin: https://evil.example\r\n",
    "another port": b"Origin: http://localhost:1\r\n",
    "no page": b"Origin: null\r\n",
    "site": b"Sec-Fetch-Site: cross-site\r\n",
    "neighbour": b"Sec-Fetch-Site: same-site\r\n",
    "host": b"Host: evil.example\r\n",
    "rebound": b"Host: 127.0.0.1.evil.example\r\n",
    "address": b"Host: 198.51.100.7\r\n",
}


@pytest.mark.parametrize("what", ["events", "reload.js"])
@pytest.mark.parametrize("fields", FOREIGN.values(), ids=FOREIGN.keys())
def test_other_sites_are_refused(vx: Program, fields: bytes, what: str) -> None:
    host = b"" if fields.startswith(b"Host") else b"Host: localhost\r\n"
    vx.talk = silent
    got = vx.ask(b"GET " + f"{PATH}{what}".encode() + b" HTTP/1.1\r\n" + host + fields + b"\r\n")
    assert got.startswith(b"HTTP/1.1 403 ")
    assert b"Access-Control" not in got


def test_the_own_site_is_let_in_under_each_of_its_names(vx: Program) -> None:
    vx.talk = silent
    for host in ("localhost", "app.localhost:80", "127.0.0.1:5173", "[::1]:5173"):
        own = f"Host: {host}\r\nOrigin: http://{host}\r\nSec-Fetch-Site: same-origin\r\n"
        got = vx.ask(f"GET {PATH}reload.js HTTP/1.1\r\n{own}\r\n".encode())
        assert got.startswith(b"HTTP/1.1 200 "), host
        assert b"EventSource" in got


def test_a_page_under_a_foreign_name_does_not_learn_the_way(vx: Program) -> None:
    vx.talk = answers(plain(PAGE, HTML))
    assert vx.ask(ASK.replace(b"localhost", b"evil.example")) == plain(PAGE, HTML)


def test_junk_stops_nothing(vx: Program) -> None:
    vx.talk = answers(plain(b"fine"))
    for junk in (b"\0" * 70_000, b"GET /" + b"a" * 1_000_000, b"GET / HTTP/1.1\r\n" * 2000):
        with vx.connect() as client:
            client.sendall(junk)
    posted = f"POST {PATH}events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    assert vx.ask(posted.encode() + b"x" * 100_000).startswith(b"HTTP/1.1 405 ")
    assert vx.ask(f"GET {PATH}../x HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()).startswith(
        b"HTTP/1.1 404 "
    )
    assert vx.ask(ASK) == plain(b"fine")


def test_a_policy_with_a_nonce_lets_the_script_in(vx: Program) -> None:
    policy = b"Content-Security-Policy: script-src 'nonce-Zm9v' 'strict-dynamic'"
    vx.talk = answers(plain(PAGE, HTML, policy))
    assert b'?v=run.0" nonce="Zm9v"></script><title>' in vx.ask(ASK)


def test_it_says_once_why_a_page_gets_no_script() -> None:
    with program(answers(UNTOUCHED["policy"])) as vx:
        for _ in range(3):
            vx.ask(ASK.replace(b"/ ", b"/a?secret "))
        assert vx.process.stdout is not None
        told = vx.process.stdout.readline()
        assert told == (b'["its Content-Security-Policy forbids it (script-src \'none\')", "/a"]\n')
        vx.stop()
        assert vx.process.stdout.read() == b""


def test_at_its_end_it_tells_its_pages_and_finishes_its_answers() -> None:
    asked = threading.Event()

    def talk(client: socket.socket) -> None:
        head(client)
        asked.set()
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
        while ended.poll() is None and not closed.is_set():
            closed.wait(0.01)
        client.sendall(b"cd")

    closed = threading.Event()
    with program(talk) as vx:
        ended = vx.process
        page = vx.listen()
        page.next()
        with vx.connect() as client, vx.connect() as idle:
            client.sendall(ASK)
            assert asked.wait(patience(10))
            vx.publish("run.0", FAILED)
            vx.stop()
            assert page.next()[0] == "failed"
            assert page.client.recv(1) == b""
            closed.set()
            assert rest(client).endswith(b"\r\n\r\nabcd")
            assert idle.recv(1) == b""
        page.close()
