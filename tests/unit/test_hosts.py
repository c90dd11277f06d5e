"""Which host patterns there are, what they match, and which addresses must be listed."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.hosts import Pattern, Refusal, Rules, canonical, local, parse, patterns


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("*.Example.com", "*.example.com"),
        ("*.example.com:443", "*.example.com:443"),
        ("host:8080", "host:8080"),
        ("_dmarc.a-b.example", "_dmarc.a-b.example"),
        ("b\u00fccher.example", "xn--bcher-kva.example"),
        ("*.b\u00fccher.example", "*.xn--bcher-kva.example"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("::1", "::1"),
        ("[0:0::1]", "::1"),
        ("[::1]:5432", "[::1]:5432"),
        ("2001:DB8::A", "2001:db8::a"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("*.svc.cluster.local", "*.svc.cluster.local"),
    ],
)
def test_a_pattern_has_one_text(text: str, meant: str) -> None:
    assert str(parse(text)) == meant
    assert parse(meant) == parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("https://example.com", "without a scheme"),
        ("example.com/path", "without a path"),
        ("example.com?q", "without a path"),
        ("10.0.0.0/8", "without a path"),
        ("user@example.com", "without a user"),
        ("exa mple.com", "no space"),
        (" example.com", "no space"),
        ("example.com\n", "no space"),
        ("example\u00a0.com", "no space"),
        ("*", "network = true"),
        ("*.com", "too wide"),
        ("*.localhost", "too wide"),
        ("*.co.uk", "too wide"),
        ("*.com.", "too wide"),
        ("*.127.0.0.1", "too wide"),
        ("*.::1", "too wide"),
        ("**.example.com", "only at the beginning"),
        ("a*.example.com", "only at the beginning"),
        ("a.*.com", "only at the beginning"),
        ("*.*.com", "only at the beginning"),
        ("example.com:*", "only at the beginning"),
        ("", "neither"),
        (".", "neither"),
        ("*.", "neither"),
        (":443", "neither"),
        ("a..b", "neither"),
        (".example.com", "neither"),
        ("-a.example", "neither"),
        ("a" * 64 + ".example", "neither"),
        ("a." * 127 + "example", "neither"),
        ("fe80::1%eth0", "neither"),
        ("a,b", "neither"),
        ("[::1", "neither"),
        ("example.com:0", "a port is"),
        ("example.com:65536", "a port is"),
        ("example.com:", "a port is"),
        ("example.com:+80", "a port is"),
        ("example.com:\u0661", "a port is"),
        ("[::1]:x", "a port is"),
        ("[example.com]", "brackets"),
        ("[10.0.0.1]:80", "brackets"),
        ("127.1", "no IPv4 address"),
        ("0x7f.1", "no IPv4 address"),
        ("2130706433", "no IPv4 address"),
        ("1.2.3.256", "no IPv4 address"),
        ("010.0.0.1", "no IPv4 address"),
        ("stra\u00dfe.example", "two ways"),
    ],
)
def test_what_is_no_pattern_is_refused_with_a_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why.replace("*", r"\*")):
        parse(text)


@given(st.text())
def test_any_text_is_a_pattern_with_one_text_or_refused(text: str) -> None:
    try:
        pattern = parse(text)
    except ValueError:
        return
    assert parse(str(pattern)) == pattern


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("example.com", "example.com", 1, True),
        ("example.com", "www.example.com", 443, False),
        ("example.com", "notexample.com", 443, False),
        ("*.example.com", "www.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "notexample.com", 443, False),
        ("example.com:443", "example.com", 443, True),
        ("example.com:443", "example.com", 80, False),
        ("::1", "::1", 5, True),
    ],
)
def test_what_a_pattern_matches(pattern: str, host: str, port: int, *, matches: bool) -> None:
    assert parse(pattern).matches(host, port) is matches


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("127.0.0.1", "loopback"),
        ("127.8.9.1", "loopback"),
        ("::1", "loopback"),
        ("0.0.0.0", "this machine"),
        ("::", "this machine"),
        ("10.1.2.3", "private"),
        ("172.31.255.255", "private"),
        ("192.168.0.1", "private"),
        ("100.64.0.1", "private"),
        ("100.100.100.200", "private"),
        ("192.0.0.192", "private"),
        ("198.18.0.1", "private"),
        ("fd00:ec2::254", "private"),
        ("fec0::1", "private"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("168.63.129.16", "the cloud"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "reserved"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::10.0.0.1", "private"),
        ("2002:a00:1::", "private"),
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", "private"),
    ],
)
def test_addresses_of_this_machine_and_around_it_are_told(address: str, what: str) -> None:
    assert what in (local(ip_address(address)) or "")


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "172.32.0.1", "203.0.113.80", "2606:4700::1111", "64:ff9b::101:101"]
)
def test_others_are_none_of_them(address: str) -> None:
    assert local(ip_address(address)) is None


def rules(*allow: str, deny: tuple[str, ...] = ()) -> Rules:
    return Rules(patterns(allow), patterns(deny))


class TestRules:
    def test_what_nothing_grants_is_refused_with_the_grant(self) -> None:
        refusal = rules("b.example").refuse("a.example", 443)
        assert refusal == Refusal("a.example", 443, "which nothing grants", ("a.example",))
        assert refusal.target == "a.example:443"
        assert rules("b.example").refuse("b.example", 443) is None

    def test_deny_comes_before_allow(self) -> None:
        refusal = rules("*", deny=("*.a.example",)).refuse("x.a.example", 80)
        assert refusal is not None
        assert "deny.network forbids (*.a.example)" in refusal.why
        assert refusal.grants == ()
        assert rules("*", deny=("*.a.example",)).refuse("a.example", 80) is None

    def test_a_denied_address_is_refused_behind_every_name(self) -> None:
        refusal = rules("*", deny=("1.1.1.1",)).refuse_address("a.b", 80, ip_address("1.1.1.1"))
        assert refusal is not None
        assert "1.1.1.1, to which it leads" in refusal.why

    def test_a_private_address_must_be_listed_whatever_the_name(self) -> None:
        address = ip_address("10.0.0.7")
        for grants in (("a.example",), ("*",)):
            refusal = rules(*grants).refuse_address("a.example", 443, address)
            assert refusal is not None
            assert refusal.why == "which leads to 10.0.0.7, a private address that nothing grants"
            assert refusal.grants == ("a.example", "10.0.0.7")
        listed = rules("a.example", "10.0.0.7:443")
        assert listed.refuse_address("a.example", 443, address) is None
        assert listed.refuse_address("a.example", 80, address) is not None

    def test_mapped_and_plain_are_one_address(self) -> None:
        mapped = ip_address("::ffff:10.0.0.7")
        assert rules("x", "10.0.0.7").refuse_address("x", 1, mapped) is None
        assert rules("x", deny=("10.0.0.7",)).refuse_address("x", 1, mapped) is not None

    def test_an_address_of_this_machine_must_be_listed_too(self) -> None:
        address = ip_address("203.0.113.80")
        refusal = rules("a.example").refuse_address("a.example", 443, address, own=True)
        assert refusal is not None
        assert "203.0.113.80, an address of this machine" in refusal.why
        assert (
            rules("a.example", "203.0.113.80").refuse_address("a.b", 1, address, own=True) is None
        )

    def test_everything_means_no_private_address(self) -> None:
        refusal = rules("*").refuse_address("127.0.0.1", 80, ip_address("127.0.0.1"))
        assert refusal is not None
        assert refusal.grants == ("127.0.0.1",)
        assert rules("*").refuse_address("1.1.1.1", 80, ip_address("1.1.1.1")) is None


def test_a_request_is_read_as_a_pattern_is() -> None:
    assert canonical("[::1]") == "::1"
    assert canonical("A.Example.") == "a.example"
    assert Pattern("::1", 80).matches(canonical("0::1"), 80)
