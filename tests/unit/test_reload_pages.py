"""Where the reload script stands in a page, which pages get it, and who may use its channel."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.reload import csp
from vxwatch.reload.guard import asks_for_page, fields, is_local, may_use
from vxwatch.reload.html import LONGEST, Opening
from vxwatch.reload.news import LARGEST, encode
from vxwatch.reload.rewriting import content_type, decoder, is_page

PAGES = [  # the script is to stand at the bar
    "|",
    "|text",
    "|<p>text",
    " \n|<p>",
    "<!doctype html>|<title>t</title>",
    "<!DOCTYPE html>\n<html>\n<head>|<title>",
    "<!doctype html><html lang='a>b' class=\"<head>\">|<body>",
    "<html><head data-x='>'>|\n<head>",
    "<!-- <head> --><!---->\n<!--> <head profile=x>|",
    "<!-- a --!><html>|<header>",
    "<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C' 'x'><html xmlns='y'><head/>|",
    "<head>|",
    "|<headline>",
    "|<htmlx>",
    "<html>|</head>",
    "|<!-- never closed <head>",
    "|<html never closed",
    "<!doctype html>|<hea",
]


def find(data: bytes, cuts: list[int], charset: str = "utf-8") -> tuple[int, str]:
    """Where the script is put when the page comes in these pieces, and in which codec."""
    opening = Opening(charset)
    edges = [0, *sorted(cuts), len(data)]
    for start, end in pairwise(edges):
        if found := opening.feed(data[start:end]):
            assert data.startswith(found[0] + found[1])
            return len(found[0]), opening.codec
    found = opening.feed(b"", last=True)
    assert found is not None
    assert b"".join(found) == data
    return len(found[0]), opening.codec


@pytest.mark.parametrize("page", PAGES)
@given(data=st.data())
def test_the_script_comes_first_and_the_page_stays_what_it_is(
    page: str, data: st.DataObject
) -> None:
    before, _, after = page.partition("|")
    mark, codec, charset = data.draw(
        st.sampled_from(
            [
                (b"", "latin-1", "utf-8"),
                (b"\xef\xbb\xbf", "latin-1", ""),
                (b"\xff\xfe", "utf-16-le", "utf-8"),
                (b"\xfe\xff", "utf-16-be", ""),
                (b"", "utf-16-le", "UTF-16"),
                (b"", "utf-16-be", "utf-16be"),
            ]
        )
    )
    whole = mark + (before + after).encode(codec)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=5))
    at, used = find(whole, cuts, charset)
    assert (at, used) == (len(mark + before.encode(codec)), codec)


def test_a_page_that_says_nothing_for_long_is_not_held_back() -> None:
    opening = Opening("utf-8")
    assert opening.feed(b"<!doctype html><!--") is None
    assert opening.feed(b"x" * LONGEST) == (b"<!doctype html>", b"<!--" + b"x" * LONGEST)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_any_bytes_come_out_as_they_went_in(data: bytes, cuts: list[int]) -> None:
    find(data, [cut for cut in cuts if cut <= len(data)])


OURS = "localhost:5173"


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "img-src 'none'",
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline'; connect-src *",
        "default-src 'none'; script-src-elem http://localhost:5173; connect-src localhost:*",
        "script-src http:; connect-src http:",
        "script-src 'nonce-abc' 'strict-dynamic'",
        "script-src 'strict-dynamic' 'nonce-abc', default-src 'self' 'nonce-abc'",
        "sandbox allow-scripts allow-same-origin",
    ],
)
def test_a_policy_that_lets_the_script_work(policy: str) -> None:
    assert csp.forbids(policy, OURS, csp.nonce(policy)) == ""


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("default-src 'none'", "script-src 'none'"),
        ("default-src", "script-src"),
        ("script-src 'unsafe-inline'", "script-src 'unsafe-inline'"),
        ("script-src 'self'; connect-src 'none'", "connect-src 'none'"),
        ("script-src https://cdn.example", "script-src https://cdn.example"),
        ("script-src localhost:8080", "script-src localhost:8080"),
        ("script-src 'self' 'strict-dynamic'", "script-src 'self' 'strict-dynamic'"),
        ("script-src 'nonce-a', script-src 'nonce-b'", "script-src 'nonce-b'"),
        ("script-src 'nonce-a\"b'", "script-src 'nonce-a\"b'"),
        ("sandbox allow-scripts", "sandbox"),
        ("SCRIPT-SRC 'none'; script-src 'self'", "script-src 'none'"),
    ],
)
def test_a_policy_that_forbids_it_says_why(policy: str, why: str) -> None:
    assert csp.forbids(policy, OURS, csp.nonce(policy)) == why


def test_only_names_that_nobody_else_can_give_are_of_this_machine() -> None:
    for host in ("localhost", "LocalHost:1", "a.b.localhost:5173", "127.0.0.1", "127.9.9.9:80"):
        assert is_local(host)
    for host in ("", "localhost.example", "127.0.0.1.example", "::1", "[::1].a", "localhost:", "a"):
        assert not is_local(host)
    assert is_local("[::1]:5173")


@pytest.mark.parametrize(
    ("more", "may"),
    [
        ({}, True),
        ({"origin": "http://localhost:1"}, True),
        ({"origin": "HTTPS://LOCALHOST:1"}, True),
        ({"origin": "http://localhost"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://localhost:1, http://a"}, False),
        ({"host": "a.example:1"}, False),
        ({"host": "localhost:1, localhost:1"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
    ],
)
def test_the_channel_is_for_its_own_origin(more: dict[str, str], may: bool) -> None:
    assert may_use({"host": "localhost:1", **more}) is may


@pytest.mark.parametrize(
    ("method", "more", "page"),
    [
        ("GET", {}, True),
        ("GET", {"accept": "*/*"}, True),
        ("GET", {"accept": "text/html,*/*;q=0.8"}, True),
        ("GET", {"accept": "application/json"}, False),
        ("GET", {"sec-fetch-dest": "document"}, True),
        ("GET", {"sec-fetch-dest": "iframe"}, True),
        ("GET", {"sec-fetch-dest": "empty", "accept": "text/html"}, False),
        ("GET", {"sec-fetch-dest": "script"}, False),
        ("GET", {"x-requested-with": "XMLHttpRequest"}, False),
        ("GET", {"range": "bytes=0-"}, False),
        ("GET", {"upgrade": "websocket"}, False),
        ("GET", {"host": "a.example"}, False),
        ("POST", {"sec-fetch-dest": "document"}, True),
        ("POST", {"accept": "*/*"}, False),
        ("POST", {"accept": "text/html"}, True),
        ("HEAD", {}, False),
    ],
)
def test_what_asks_for_a_page(method: str, more: dict[str, str], page: bool) -> None:
    assert asks_for_page(method.encode(), {"host": "localhost", **more}) is page


def test_fields_are_known_by_their_name_in_lower_case() -> None:
    assert fields([(b"A-b", b"1"), (b"c", b"\xff"), (b"a-B", b"2")]) == {"a-b": "1, 2", "c": "ÿ"}


@pytest.mark.parametrize(
    ("status", "more", "page"),
    [
        (200, {"content-type": "text/html"}, True),
        (404, {"content-type": "TEXT/HTML; charset=utf-8"}, True),
        (200, {}, False),
        (200, {"content-type": "application/xhtml+xml"}, False),
        (200, {"content-type": "text/html2"}, False),
        (204, {"content-type": "text/html"}, False),
        (304, {"content-type": "text/html"}, False),
        (206, {"content-type": "text/html"}, False),
        (200, {"content-type": "text/html", "content-range": "x"}, False),
        (200, {"content-type": "text/html", "content-disposition": " Attachment; a=b"}, False),
        (200, {"content-type": "text/html", "content-disposition": "inline"}, True),
    ],
)
def test_what_is_a_page(status: int, more: dict[str, str], page: bool) -> None:
    assert is_page(status, more) is page


def test_the_charset_of_a_page() -> None:
    assert content_type('text/html; charset="UTF-16LE"') == ("text/html", "utf-16le")
    assert content_type("text/html") == ("text/html", "")


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, br", "gzip, gzip", "what"])
def test_encodings_that_are_not_undone(encoding: str) -> None:
    assert decoder(encoding) is None


@given(st.lists(st.text(max_size=40_000), max_size=8))
def test_news_fit_into_a_packet(outputs: list[str]) -> None:
    failed = [{"task": "a#b", "how": "failed", "output": text} for text in outputs]
    packet = encode("run.1", servers=False, failed=failed)
    assert len(packet) <= LARGEST
    told = json.loads(packet)["failed"]
    assert len(told) == len(outputs)
    if sum(map(len, outputs)) < LARGEST // 12:
        assert told == failed
    for text, one in zip(outputs, told, strict=True):
        assert text.endswith(one["output"].removeprefix("...\n"))


def test_of_what_does_not_fit_the_end_is_told() -> None:
    (one,) = json.loads(
        encode("v", servers=True, failed=[{"task": "t", "how": "h", "output": "\x00" * 99_000}])
    )["failed"]
    assert one["output"].startswith("...\n\x00")
    assert len(one["output"]) > 10_000
