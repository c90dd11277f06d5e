r"""Glob patterns as configs write them: whether a path matches, and whether two lists meet.

Patterns and paths are relative and "/"-separated. `*`, `?` and `[...]` stay within one part
of a path and match names that begin with a dot; `**` crosses parts; `{a,b}` expands; `\`
escapes. A pattern whose last part has no wildcard names a file, or a directory with all it
holds; `dir/` is `dir/**`. A pattern that starts with `!` takes matches of earlier ones back.

Never looks at the file system: `Matcher` answers for a string. wcmatch is loaded only for a
pattern with more than stars in it, because its import costs more than a small workspace.
"""

import re
from collections.abc import Callable, Iterable, Sequence

EXCLUDED = frozenset({"node_modules", ".git", ".vx", "__pycache__", ".venv"})
"""Directories whose content never counts: neither as input, nor as a change."""

EXCLUDED_SUFFIX = ".tsbuildinfo"
"""Files that never count: the compiler rewrites them whether or not anything changed."""

EXCLUDED_NAMES = re.compile(r"\.#.*|#.*#|\..+\.sw[a-p]", re.DOTALL)
"""Files that never count: Emacs (lock, auto-save), Vim and nano keep them while one types."""

_FIRST = frozenset(".#")
_EXPANSIONS = 1000
_SOUND = re.compile(r"!?(?![~!])(?:(?!\.{1,2}(?:/|$))[^/{\0]+(?:/(?=.)|$))+", re.DOTALL)
_UNESCAPED = re.compile(r"(?:[^*?\[\\]|\\.)*", re.DOTALL)
_TOKEN = re.compile(r"\*+|\[[!^]?\]?(?:\[:\w+:\]|[^\]])*\]|\\?.", re.DOTALL)
_FINER = frozenset("?[\\")
_ANY = "?"

Parts = tuple[str, ...]


def excluded(path: str) -> bool:
    """Whether the path never counts, whatever git or a pattern says about it."""
    parts = path.split("/")
    if path.endswith(EXCLUDED_SUFFIX) or not EXCLUDED.isdisjoint(parts):
        return True
    return parts[-1][:1] in _FIRST and EXCLUDED_NAMES.fullmatch(parts[-1]) is not None


def fault(pattern: str) -> str | None:
    """What is wrong with a pattern, as a sentence's end, or None."""
    if _SOUND.fullmatch(pattern):
        return None
    body = pattern.removeprefix("!")
    if body.startswith("!"):
        return 'a second "!" has no meaning'
    if "\0" in body:
        return "no file name holds a NUL character"
    try:
        alternatives = expand(body)
    except ValueError:
        return f"its braces stand for more than {_EXPANSIONS} patterns"
    return next((found for found in map(_misplaced, alternatives) if found), None)


def member_fault(pattern: str) -> str | None:
    """The same for a glob of member directories; `.` is the root itself."""
    return None if pattern in (".", "./") else fault(pattern)


def escape(path: str) -> str:
    """The pattern that names this path alone."""
    return re.sub(r"([*?\[\]{}\\!])", r"\\\1", path)


def rooted(directory: str, patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns of a directory as patterns of the root; `directory` is taken literally."""
    prefix = escape(directory) + "/" if directory else ""
    return tuple(
        f"!{prefix}{pattern[1:]}" if pattern.startswith("!") else f"{prefix}{pattern}"
        for pattern in patterns
    )


def compile_exact(patterns: Iterable[Parts]) -> re.Pattern[str]:
    """An expression whose full matches are the paths that one of the split patterns names.

    What a named directory holds is not matched.
    """
    found = [_stars(p) if _FINER.isdisjoint("".join(p)) else _translate(p) for p in patterns]
    return re.compile("|".join(f"(?:{expression})" for expression in found), re.DOTALL)


class Matcher:
    """An ordered list of patterns, ready to match. Holds no more than its patterns."""

    __slots__ = ("_named", "_roots", "_rules")

    def __init__(self, patterns: Iterable[str]) -> None:
        rules: list[tuple[bool, list[Parts]]] = []
        for pattern in patterns:
            positive = not pattern.startswith("!")
            if not rules or rules[-1][0] is not positive:
                rules.append((positive, []))
            rules[-1][1].extend(map(split, expand(pattern.removeprefix("!"))))
        self._rules = [(positive, _Group(group)) for positive, group in reversed(rules)]
        self._named = _Names(p for positive, group in rules if positive for p in group)
        self._roots: tuple[str, ...] | None = None

    def matches(self, path: str) -> bool:
        """Whether the last pattern that fits the path is one without `!`."""
        for positive, group in self._rules:
            if group.fits(path):
                return positive
        return False

    def names(self, path: str) -> bool:
        """Whether the path matches and a pattern spells out its last part.

        Such a file counts even if git ignores it.
        """
        return self._named.fit(path) and self.matches(path)

    def literals(self) -> tuple[str, ...]:
        """The paths that `names` holds for and that can be known without looking."""
        return tuple(sorted(filter(self.names, self._named.paths)))

    @property
    def scattered(self) -> bool:
        """Whether `names` may hold for paths that only a look at the directories can tell."""
        return bool(self._named.last_parts)

    def roots(self) -> tuple[str, ...]:
        """The files and directories outside of which nothing matches ("" for everywhere)."""
        if self._roots is None:
            positive = (group for positive, group in self._rules if positive)
            found = {_root(parts) for group in positive for parts in group.patterns}
            self._roots = tuple(sorted(found))
        return self._roots


def overlap(these: Sequence[str], those: Sequence[str]) -> tuple[str, str] | None:
    """Two patterns, one of each list, that can match the same path, or None.

    Misses no pair, but takes a spelled-out name with an extension for a file unless the
    other pattern goes below it. A pair that `!` patterns keep apart is seen as apart where
    one of them is the pattern itself, covers its directory, or matches its literal name.
    """
    for i, this in enumerate(these):
        for j, that in enumerate(those):
            if "!" in (this[:1], that[:1]) or not _may_meet(this, that):
                continue
            if not (_taken_back(this, those[j + 1 :]) or _taken_back(that, these[i + 1 :])):
                return this, that
    return None


def expand(pattern: str) -> list[str]:
    """The pattern without its braces: all that they stand for.

    Raises `ValueError` if they stand for too many.
    """
    if "{" not in pattern:
        return [pattern]
    import bracex  # noqa: PLC0415 - only patterns with braces pay for it

    try:
        return bracex.expand(pattern, keep_escapes=True, limit=_EXPANSIONS)
    except bracex.ExpansionLimitException as error:
        raise ValueError(pattern) from error


def split(pattern: str) -> Parts:
    """The parts of a pattern without braces and `!`, in their shortest form."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or pattern.endswith("/"):
        parts.append("**")
    if parts[-2:] == ["**", "*"]:
        parts.pop()
    return tuple(p for i, p in enumerate(parts) if p != "**" or parts[i - 1 : i] != ["**"])


def literal(part: str) -> str | None:
    """The name that the part spells out, or None if it has a wildcard."""
    if not _UNESCAPED.fullmatch(part):
        return None
    return re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) if "\\" in part else part


class _Group:
    """Patterns of one sign: cheap tests for the plain ones, one expression for the rest."""

    __slots__ = ("_exact", "_expression", "_prefixes", "_wild", "patterns")

    def __init__(self, patterns: list[Parts]) -> None:
        self.patterns = patterns
        self._wild: list[Parts] = []
        self._expression: re.Pattern[str] | None = None
        exact: set[str] = set()
        prefixes: set[str] = set()
        for parts in patterns:
            *directory, last = parts
            path = _join(map(literal, directory))
            name = literal(last)
            if path is None or (name is None and last != "**"):
                self._wild.append(parts)
            elif name is None:
                prefixes.add(f"{path}/" if path else "")
            else:
                whole = f"{path}/{name}" if path else name
                exact.add(whole)
                prefixes.add(f"{whole}/")
        self._exact = frozenset(exact)
        self._prefixes = tuple(prefixes)

    def fits(self, path: str) -> bool:
        """Whether any of the patterns matches the path."""
        if path in self._exact or path.startswith(self._prefixes):
            return True
        if not self._wild:
            return False
        if self._expression is None:
            self._expression = compile_exact(
                [form for p in self._wild for form in _with_content(p)]
            )
        return self._expression.fullmatch(path) is not None


class _Names:
    """The patterns whose last part is spelled out."""

    __slots__ = ("_expression", "_wild", "last_parts", "paths")

    def __init__(self, patterns: Iterable[Parts]) -> None:
        self._wild: list[Parts] = []
        self._expression: re.Pattern[str] | None = None
        paths: set[str] = set()
        lasts: set[str] = set()
        for parts in patterns:
            last = literal(parts[-1])
            path = _join(map(literal, parts))
            if path is not None:
                paths.add(path)
            elif last is not None:
                self._wild.append(parts)
                lasts.add(last)
        self.paths = frozenset(paths)
        self.last_parts = frozenset(lasts)

    def fit(self, path: str) -> bool:
        """Whether one of the patterns is this path, last part included."""
        if path in self.paths:
            return True
        if path.rpartition("/")[2] not in self.last_parts:
            return False
        if self._expression is None:
            self._expression = compile_exact(self._wild)
        return self._expression.fullmatch(path) is not None


def _misplaced(pattern: str) -> str | None:
    if pattern.startswith(("/", "~")):
        return "a pattern is relative, never absolute"
    if ".." in pattern.split("/"):
        return 'a pattern stays inside its directory, ".." leaves it'
    if split(pattern) == ("**",) and "*" not in pattern:
        return 'it names no file; "**" means all of them'
    return None


def _join(names: Iterable[str | None]) -> str | None:
    known = list(names)
    return None if None in known else "/".join(filter(None, known))


def _root(parts: Parts) -> str:
    names: list[str] = []
    for part in parts:
        name = literal(part)
        if name is None:
            break
        names.append(name)
    return "/".join(names)


def _with_content(parts: Parts) -> list[Parts]:
    """The pattern, and, where it may name a directory, the pattern of what that holds."""
    return [parts] if literal(parts[-1]) is None else [parts, (*parts, "**")]


def _stars(parts: Parts) -> str:
    """The expression of a pattern that has no wildcard but stars."""
    *above, last = (r"(?:[^/]+/)*" if part == "**" else _star(part) + "/" for part in parts)
    return "".join(above) + (".+" if parts[-1] == "**" else last[:-1])


def _star(part: str) -> str:
    return "[^/]*".join(map(re.escape, re.split(r"\*+", part)))


def _translate(parts: Parts) -> str:
    from wcmatch import glob  # noqa: PLC0415 - only patterns with classes and the like pay for it

    flags = glob.GLOBSTAR | glob.DOTGLOB | glob.CASE | glob.FORCEUNIX
    expression: str = glob.translate("/".join(parts), flags=flags)[0][0]
    return expression


def _may_meet(this: str, that: str) -> bool:
    return any(
        _meet(_spread(one, other), _spread(other, one), "**", _parts_meet)
        for one in map(split, expand(this))
        for other in map(split, expand(that))
    )


def _spread(parts: Parts, other: Parts) -> Parts:
    """The pattern together with what it holds if it names a directory."""
    a_file = _looks_like_file(parts) and other[: len(parts)] != parts
    return parts if a_file else _with_content(parts)[-1]


def _looks_like_file(parts: Parts) -> bool:
    return "." in parts[-1].lstrip(".")


def _parts_meet(this: str, that: str) -> bool:
    if this == that:
        return True
    if literal(this) is not None and literal(that) is not None:
        return literal(this) == literal(that)
    return _meet(_tokens(this), _tokens(that), "*", _characters_meet)


def _characters_meet(this: str, that: str) -> bool:
    return this == that or _ANY in (this, that)


def _tokens(part: str) -> list[str]:
    """The part as literal characters, `*`, and `?` for any one character (classes too)."""
    tokens: list[str] = []
    for token in _TOKEN.findall(part):
        if token.startswith("*"):
            tokens.append("*")
        elif token.startswith("[") and len(token) > 1:
            tokens.append(_ANY)
        else:
            tokens.append(token if token == _ANY else f"={token[-1]}")
    return tokens


def _meet(
    these: Sequence[str], those: Sequence[str], star: str, fit: Callable[[str, str], bool]
) -> bool:
    """Whether one sequence satisfies both patterns, in which `star` is any run of items.

    Walks all pairs of positions that can be reached together, each once.
    """
    end = (len(these), len(those))
    seen = {(0, 0)}
    reached = [(0, 0)]
    while reached:
        i, j = reached.pop()
        if (i, j) == end:
            return True
        this = these[i] if i < end[0] else None
        that = those[j] if j < end[1] else None
        steps = []
        if this == star or (that == star and this is not None):
            steps.append((i + 1, j))
        if that == star or (this == star and that is not None):
            steps.append((i, j + 1))
        if this is not None and that is not None and star not in (this, that) and fit(this, that):
            steps.append((i + 1, j + 1))
        fresh = [step for step in steps if step not in seen]
        seen.update(fresh)
        reached.extend(fresh)
    return False


def _taken_back(pattern: str, later: Iterable[str]) -> bool:
    return any(_covers(other[1:], pattern) for other in later if other.startswith("!"))


def _covers(cover: str, pattern: str) -> bool:
    """Whether the first surely matches all that the second does."""
    covers = [split(one) for one in expand(cover)]
    return all(
        parts in covers
        or any(_holds(directory, parts) for *directory, last in covers if last == "**")
        or _matches_all(Matcher([cover]), parts)
        for parts in map(split, expand(pattern))
    )


def _holds(directory: Sequence[str], parts: Parts) -> bool:
    """Whether a pattern lies below a directory that has no wildcard in its name."""
    plain = all(literal(part) is not None for part in directory)
    return plain and len(parts) > len(directory) and [*parts[: len(directory)]] == [*directory]


def _matches_all(matcher: Matcher, parts: Parts) -> bool:
    """Whether a pattern without wildcards is matched, and what it may hold is too."""
    path = _join(map(literal, parts))
    if path is None or not matcher.matches(path):
        return False
    return _looks_like_file(parts) or matcher.matches(f"{path}/\x01/\x01")
