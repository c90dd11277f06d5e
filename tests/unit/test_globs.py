"""Globs: tables of what matches, and properties against a slow and plain reference."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vxwatch.globs import Matcher, excluded, fault, overlap, rooted

MATCHES = [
    ("src/**", "src/a.ts", True),
    ("src/**", "src/a/b.ts", True),
    ("src/**", "src/.hidden/b", True),
    ("src/**", "src", False),
    ("src/**", "srcs/a", False),
    ("src/**/*", "src/a/b.ts", True),
    ("src/*", "src/a", True),
    ("src/*", "src/.env", True),
    ("src/*", "src/a/b", False),
    ("src/", "src/a/b", True),
    ("src", "src", True),
    ("src", "src/a/b", True),
    ("src", "srcs", False),
    ("**", "a/b", True),
    ("**/*", "a", True),
    ("**/fixtures", "a/fixtures/b/c", True),
    ("**/fixtures", "fixtures", True),
    ("**/*.ts", "a.ts", True),
    ("**/*.ts", "a.ts/b", False),
    ("packages/*/dist/**", "packages/a/dist/x/y", True),
    ("packages/*/dist/**", "packages/a/dist", False),
    ("packages/*/dist", "packages/a/dist/x/y", True),
    ("packages/*/", "packages/a/x", True),
    ("a/**/b", "a/b", True),
    ("a/**/**/b", "a/x/y/b", True),
    ("**a", "x/a", False),
    ("./src//x", "src/x", True),
    ("*.{ts,tsx}", "a.tsx", True),
    ("*.{ts,tsx}", "a.js", False),
    ("{a,b}/c", "b/c", True),
    ("a{b", "a{b", True),
    ("[ab].ts", "b.ts", True),
    ("[!ab].ts", "b.ts", False),
    ("[!ab]", "/", False),
    (r"\[slug\].ts", "[slug].ts", True),
    (r"\[slug\].ts", "s.ts", False),
    (r"\!important", "!important", True),
    ("*.ts", "a.ts\n", False),
    ("a\n*", "a\nb", True),
    ("*.TS", "a.ts", False),
    ("\udcff*", "\udcffa", True),
    ("a.c", "abc", False),
    ("@(a|b)", "a", False),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES, ids=repr)
def test_one_pattern(pattern: str, path: str, *, expected: bool) -> None:
    assert Matcher([pattern]).matches(path) is expected


def test_the_last_pattern_that_fits_decides() -> None:
    matcher = Matcher(["src/**", "!**/*.test.ts", "src/keep.test.ts"])
    assert matcher.matches("src/a.ts")
    assert not matcher.matches("src/a.test.ts")
    assert matcher.matches("src/keep.test.ts")


def test_no_pattern_matches_nothing() -> None:
    assert not Matcher([]).matches("a")


def test_named_files_are_those_whose_last_part_is_spelled_out() -> None:
    matcher = Matcher([".env", "**/.npmrc", "src/*", r"\[a\]", "!secret/.npmrc"])
    assert matcher.names(".env")
    assert matcher.names("x/y/.npmrc")
    assert matcher.names("[a]")
    assert not matcher.names("secret/.npmrc")
    assert not matcher.names(".env/inside")
    assert not matcher.names("src/a")
    assert matcher.literals() == (".env", "[a]")
    assert matcher.scattered
    assert not Matcher([".env", "**", "!**/.npmrc"]).scattered


def test_roots_bound_what_can_match() -> None:
    matcher = Matcher(["src/**", "!src/x", "dist/*.js", "package.json", r"a/\[b\]/*"])
    assert matcher.roots() == ("a/[b]", "dist", "package.json", "src")
    assert Matcher(["a/b", "**/c"]).roots() == ("", "a/b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("node_modules/a", True),
        ("a/node_modules", True),
        ("a/.git/config", True),
        (".vx/cache", True),
        ("a/__pycache__/b.pyc", True),
        (".venv/bin/x", True),
        ("a/tsconfig.tsbuildinfo", True),
        ("src/.#app.ts", True),
        ("src/#app.ts#", True),
        ("src/.app.ts.swp", True),
        (".app.ts.swa", True),
        ("src/node_modules.ts", False),
        ("src/#app.ts", False),
        ("src/app.ts.swp", False),
        ("src/.swp", False),
        ("src/.app.swift", False),
        (".gitignore", False),
    ],
)
def test_what_never_counts(path: str, *, expected: bool) -> None:
    assert excluded(path) is expected


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("!!x", 'second "!"'),
        ("/etc/x", "never absolute"),
        ("!/etc/x", "never absolute"),
        ("~/x", "never absolute"),
        ("../x", "leaves it"),
        ("a/../../x", "leaves it"),
        ("{..,a}/x", "leaves it"),
        ("{/a,b}", "never absolute"),
        (".", "names no file"),
        ("./", "names no file"),
        ("", "names no file"),
        ("!", "names no file"),
        ("a\0b", "NUL"),
        ("{1..100000}", "more than 1000"),
        ("{a,b}" * 11, "more than 1000"),
    ],
    ids=repr,
)
def test_faults(pattern: str, said: str) -> None:
    assert said in (fault(pattern) or "")


@pytest.mark.parametrize("pattern", ["**", "src/**", "!a", "..a", "a..b/c", ".env", "a{b", "..."])
def test_no_fault(pattern: str) -> None:
    assert fault(pattern) is None


def test_rooted_takes_the_directory_literally() -> None:
    patterns = rooted("apps/[a]", ["src/**", "!src/x"])
    assert patterns == (r"apps/\[a\]/src/**", r"!apps/\[a\]/src/x")
    assert Matcher(patterns).matches("apps/[a]/src/y")
    assert not Matcher(patterns).matches("apps/[a]/src/x")
    assert rooted("", ["a", "!b"]) == ("a", "!b")
    assert Matcher(rooted("!a", ["**"])).matches("!a/b")


OVERLAPS = [
    (["dist/**"], ["dist/sub/**"], ("dist/**", "dist/sub/**")),
    (["dist/**"], ["build/**"], None),
    (["dist/*.js"], ["dist/*.css"], None),
    (["dist/*.js"], ["dist/a*"], ("dist/*.js", "dist/a*")),
    (["dist"], ["dist/a"], ("dist", "dist/a")),
    (["**/*.js"], ["dist/a/b.js"], ("**/*.js", "dist/a/b.js")),
    (["a/**/z"], ["a/b/c"], ("a/**/z", "a/b/c")),  # c may be a directory that holds z
    (["a/**/z"], ["a/b/c.js"], None),
    (["x.app"], ["x.app/a"], ("x.app", "x.app/a")),
    (["a/**/z/*"], ["a/b/c"], ("a/**/z/*", "a/b/c")),
    (["a/*/c.js"], ["b/*/c.js"], None),
    (["a/*/c"], ["a/b/**"], ("a/*/c", "a/b/**")),
    (["*.{js,css}"], ["x.css"], ("*.{js,css}", "x.css")),
    (["*.{js,css}"], ["x.html"], None),
    (["[ab].js"], ["c.js"], ("[ab].js", "c.js")),  # a class may stand for any character
    (["[[:alpha:]]x"], ["cx"], ("[[:alpha:]]x", "cx")),
    ([r"\*.js"], ["a.js"], None),
    ([r"\*.js"], ["?.js"], (r"\*.js", "?.js")),
    (["dist/**", "!dist/types/**"], ["dist/types/**"], None),
    (["dist/**", "!dist/types"], ["dist/types/**"], ("dist/**", "dist/types/**")),
    (["dist/**", "!dist/types/**"], ["dist/types/*.d.ts"], None),
    (["dist/**", "!**/*.map"], ["**/*.map"], None),
    (["dist/**", "!dist/*.json"], ["dist/meta.json"], None),
    (["!dist/types/**", "dist/**"], ["dist/types/**"], ("dist/**", "dist/types/**")),
    (["a/**"], ["b/**", "a/x"], ("a/**", "a/x")),
    (["a"], ["a", "!*"], ("a", "a")),  # a may be a directory
    (["a"], ["a", "!**/a"], None),
    (["a.js"], ["a.js", "!*"], None),
    ([], ["**"], None),
]


@pytest.mark.parametrize(("these", "those", "expected"), OVERLAPS, ids=repr)
def test_overlap(these: list[str], those: list[str], expected: tuple[str, str] | None) -> None:
    assert overlap(these, those) == expected
    assert (overlap(those, these) is None) is (expected is None)


PARTS = st.lists(st.sampled_from(["a", "b", ".", "*", "?", "[ab]", "[!a]"]), min_size=1, max_size=3)
PATTERN = st.lists(
    st.one_of(PARTS.map("".join).filter(lambda p: set(p) - {"."}), st.just("**")),
    min_size=1,
    max_size=4,
).map("/".join)
SIGNED = st.lists(st.tuples(st.booleans(), PATTERN), max_size=4).map(
    lambda pairs: [f"!{p}" if negative else p for negative, p in pairs]
)
NAMES = ["a", "b", ".a", "ab", "ba", "b.", "aa"]
PATHS = ["/".join(names) for depth in (1, 2, 3) for names in itertools.product(NAMES, repeat=depth)]


def reference(patterns: list[str], path: str) -> bool:
    """The meaning of a list of patterns, spelled out as slowly as it reads."""
    found = False
    for pattern in patterns:
        names = path.split("/")
        parts = pattern.removeprefix("!").split("/")
        spelled_out = not set("*?[") & set(parts[-1])
        cuts = range(1, len(names) + 1) if spelled_out else [len(names)]
        if any(fits(parts, names[:cut]) for cut in cuts):
            found = not pattern.startswith("!")
    return found


def fits(parts: list[str], names: list[str]) -> bool:
    if not parts:
        return not names
    if parts[0] == "**":
        least = 1 if len(parts) == 1 else 0
        return any(fits(parts[1:], names[n:]) for n in range(least, len(names) + 1))
    if not names:
        return False
    expression = parts[0].replace(".", "\\.").replace("[!", "[^")
    expression = expression.replace("*", ".*").replace("?", ".")
    return re.fullmatch(expression, names[0]) is not None and fits(parts[1:], names[1:])


@given(SIGNED, st.sampled_from(PATHS))
@example(["**/a/**"], "a/a/a")
@example(["a/**", "!a/*", "a/a"], "a/a/b")
def test_matches_as_the_reference_does(patterns: list[str], path: str) -> None:
    assert Matcher(patterns).matches(path) is reference(patterns, path)


@given(SIGNED, SIGNED)
@example(["a"], ["a", "!*"])
def test_no_overlap_is_missed(these: list[str], those: list[str]) -> None:
    one, other = Matcher(these), Matcher(those)
    if any(one.matches(path) and other.matches(path) for path in PATHS if "b./" not in path):
        assert overlap(these, those) is not None


@given(SIGNED, st.sampled_from(PATHS))
def test_what_matches_lies_in_the_roots(patterns: list[str], path: str) -> None:
    matcher = Matcher(patterns)
    if matcher.matches(path):
        roots = matcher.roots()
        assert any(root in ("", path) or path.startswith(f"{root}/") for root in roots)


@given(SIGNED, st.sampled_from(PATHS))
def test_a_rooted_pattern_matches_the_rooted_path(patterns: list[str], path: str) -> None:
    assert Matcher(rooted("x", patterns)).matches(f"x/{path}") is Matcher(patterns).matches(path)
