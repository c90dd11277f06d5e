"""What is left of output once secret values are taken out of it."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.masking import MASK, SHORTEST, MaskedStream, Masker

TOKEN = b"tok-9f3b1c77d2"


def streamed(masker: Masker, *pieces: bytes) -> bytes:
    stream = MaskedStream(masker)
    return b"".join([*map(stream.feed, pieces), stream.end()])


@pytest.mark.parametrize(
    ("values", "data", "shown"),
    [
        ([TOKEN], b"token is tok-9f3b1c77d2\n", b"token is ***\n"),
        ([TOKEN], TOKEN * 2 + b"tok-", b"******tok-"),
        ([b"abcdef", b"abcdefgh"], b"abcdefgh abcdefg", b"*** ***g"),
        ([b"abcd", b"cdef"], b"xabcdefx", b"x***x"),
        ([b"abab"], b"ababab", b"***"),
        ([b"xabcy", b"abcd"], b"xabcd xabcy", b"x*** ***"),
        ([b""], b"nothing", b"nothing"),
        ([b"abc"], b"abc", b"abc"),
        ([b"\xff\xfe\xfd\x00"], b"a\xff\xfe\xfd\x00b", b"a***b"),
        ([], b"", b""),
    ],
)
def test_every_byte_of_a_value_is_masked(values: list[bytes], data: bytes, shown: bytes) -> None:
    masker = Masker(values)
    assert masker.mask(data) == shown
    for cut in range(len(data) + 1):
        pieces = streamed(masker, data[:cut], data[cut:])
        assert pieces == streamed(masker, data)
        assert not any(value in pieces for value in values if len(value) >= SHORTEST)


def test_a_value_with_lines_is_masked_whole_by_line_and_as_json() -> None:
    key = b"-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n"
    masker = Masker([key])
    assert masker.mask(b"<" + key + b">") == b"<***>"
    assert masker.mask(b"$ echo " + key.strip() + b".") == b"$ echo ***."
    assert masker.mask(key.replace(b"\n", b"\r\n")) == b"***\r\n***\r\nshort\r\n***\r\n"
    assert masker.mask(json.dumps({"key": key.decode()}).encode()) == b'{"key": "***"}'
    assert masker.mask(b"    MIIEvQIBADANBgkqhkiG") == b"    ***"


def test_a_value_of_spaces_or_of_too_few_bytes_is_not_masked() -> None:
    assert not Masker([b"", b"abc", b" \n   ", b" abc   "])


@pytest.mark.parametrize("before", ["", "a", "ab", "user:"])
def test_what_base64_makes_of_a_value_is_masked_wherever_it_stands(before: str) -> None:
    secret = "s3cr?t/va~lue>>1"
    masker = Masker([secret.encode()])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        code = encode(f"{before}{secret}@host".encode())
        shown = masker.mask(code)
        assert MASK in shown
        assert len(shown) <= len(code) - len(secret)


def test_what_percent_encoding_makes_of_a_value_is_masked() -> None:
    secret = "p&ss w/rd+~é"
    assert (
        Masker([secret.encode()]).mask(f"?key={quote(secret, safe='')}&".encode()) == b"?key=***&"
    )


def test_a_text_is_masked_like_its_bytes() -> None:
    masker = Masker(["pässwort\udcff".encode("utf-8", "surrogateescape")])
    assert masker.text("is pässwort\udcff, \udcfe") == "is ***, \udcfe"
    assert Masker().text("pässwort") == "pässwort"


def test_the_texts_in_a_value_are_masked_and_its_names_are_not() -> None:
    value = {"abcd": ["abcd", ("x abcd", 1, None)], "ok": True}
    assert Masker([b"abcd"]).within(value) == {"abcd": ["***", ["x ***", 1, None]], "ok": True}


def test_a_value_learned_later_is_masked_from_then_on() -> None:
    masker = Masker()
    stream = MaskedStream(masker)
    assert stream.feed(TOKEN) == TOKEN
    masker.learn([TOKEN])
    assert stream.feed(TOKEN[:5]) == b""
    assert stream.feed(TOKEN[5:]) == MASK
    masker.learn([])
    assert masker


def test_a_pause_shows_a_few_bytes_and_never_more_of_a_value() -> None:
    stream = MaskedStream(Masker([TOKEN]))
    shown = b""
    for byte in b"> " + TOKEN + b"!":
        shown += stream.feed(bytes((byte,))) + stream.pause()
        assert not stream.held
    assert shown == b"> tok***!"


def test_a_prompt_that_ends_as_a_value_begins_is_shown_in_a_pause() -> None:
    stream = MaskedStream(Masker([TOKEN]))
    assert stream.feed(b"go on? t") == b"go on? "
    assert stream.held
    assert stream.pause() == b"t"
    assert stream.feed(b"ok-no\n") == b"ok-no\n"


def test_what_a_pause_masked_is_not_masked_again_and_what_follows_is_shown() -> None:
    stream = MaskedStream(Masker([TOKEN]))
    assert stream.feed(TOKEN[:6]) + stream.pause() == MASK
    assert stream.feed(TOKEN[6:] + b" ") == b" "
    assert stream.feed(TOKEN[:6]) + stream.pause() == MASK
    assert stream.feed(b"other") == b"other"
    assert stream.end() == b""


def test_only_what_may_be_the_start_of_a_value_is_held_back() -> None:
    stream = MaskedStream(Masker([TOKEN]))
    assert stream.feed(b"tok-tok-9f3b-tok-9") == b"tok-tok-9f3b-"
    assert stream.feed(b"x") == b"tok-9x"
    assert not stream.held


def test_the_start_of_a_value_at_the_end_of_a_stream_is_masked() -> None:
    assert streamed(Masker([TOKEN]), b"a " + TOKEN[:-1]) == b"a ***"
    assert streamed(Masker([TOKEN]), b"a tok") == b"a tok"


def slowly(values: list[bytes], data: bytes) -> bytes:
    """Mark each byte of each occurrence; a mask stands where a run of overlapping ones begins."""
    places = sorted(
        (at, at + len(value))
        for value in set(values)
        for at in range(len(data))
        if len(value) >= SHORTEST and data.startswith(value, at)
    )
    shown, at, reach = b"", 0, 0
    for start, end in places:
        if start >= reach:
            shown += data[at:start] + MASK
        reach = max(reach, end)
        at = reach
    return shown + data[at:]


letters = st.binary(max_size=7).map(lambda raw: bytes(b"ab"[byte & 1] for byte in raw))


@given(st.lists(letters, max_size=4), st.lists(letters, max_size=12))
def test_the_cuts_do_not_matter(values: list[bytes], pieces: list[bytes]) -> None:
    masker = Masker(values)
    data = b"".join(pieces)
    assert masker.mask(data) == slowly(values, data)
    assert streamed(masker, *pieces) == streamed(masker, data)


@given(st.lists(letters, min_size=1, max_size=3), st.lists(st.one_of(letters, st.none())))
def test_no_pause_lets_a_value_through(values: list[bytes], pieces: list[bytes | None]) -> None:
    stream = MaskedStream(Masker(values))
    shown = b""
    for piece in pieces:
        shown += stream.pause() if piece is None else stream.feed(piece)
    shown += stream.end()
    long = [value for value in values if len(value) >= SHORTEST]
    assert not any(value in shown for value in long)
