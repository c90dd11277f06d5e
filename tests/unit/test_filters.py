"""What each filter means, and which projects filters select together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vxwatch.errors import UserError
from vxwatch.model import Project, Workspace
from vxwatch.workspace.filters import Filter, filtered, parse

CHANGED = {"main": {"ui", "docs"}, "v1": set[str]()}


def project(name: str, directory: str, *needs: str, tags: tuple[str, ...] = ()) -> Project:
    return Project(name, directory, (), None, needs, {}, tags)


# web -> ui -> core, api -> core
PROJECTS = (
    project("web", "apps/web", "@acme/ui", tags=("front", "app")),
    project("api", "apps/api", "core", tags=("app",)),
    project("@acme/ui", "packages/ui", "core", tags=("front",)),
    project("core", "packages/core"),
    project("docs", "docs"),
)
SPACE = Workspace("/w", {p.name: p for p in PROJECTS}, None, ())


def chosen(*texts: str, directory: str = "") -> list[str]:
    """The names of the selected projects, without scopes."""

    def changed(commit: str) -> set[str]:
        return {f"@acme/{name}" if name == "ui" else name for name in CHANGED[commit]}

    return [p.name.removeprefix("@acme/") for p in filtered(SPACE, texts, directory, changed)]


@pytest.mark.parametrize(
    ("texts", "projects"),
    [
        (["web"], ["web"]),
        (["web..."], ["web", "ui", "core"]),
        (["web^..."], ["ui", "core"]),
        (["...core"], ["web", "api", "ui", "core"]),
        (["...^core"], ["web", "api", "ui"]),
        (["...@acme/ui..."], ["web", "ui", "core"]),
        (["...^@acme/ui^..."], ["web", "core"]),
        (["@acme/*^..."], ["core"]),
        (["./apps..."], ["web", "api", "ui", "core"]),
        (["...{packages/*}"], ["web", "api", "ui", "core"]),
        (["tag:front"], ["web", "ui"]),
        (["tag:*"], ["web", "api", "ui"]),
        (["tag:app^..."], ["ui", "core"]),
        (["tag:app{apps/w*}"], ["web"]),
        (["[main]"], ["ui", "docs"]),
        (["...[main]"], ["web", "ui", "docs"]),
        (["{packages}[main]"], ["ui"]),
        (["*{packages}[main]..."], ["ui", "core"]),
        (["[v1]"], []),
        (["!web"], ["api", "ui", "core", "docs"]),
        (["!...core"], ["docs"]),
        (["web...", "!core"], ["web", "ui"]),
        (["!core", "web..."], ["web", "ui"]),
        (["web", "!web"], []),
        (["![main]"], ["web", "api", "core"]),
    ],
    ids=str,
)
def test_what_filters_select(texts: list[str], projects: list[str]) -> None:
    assert chosen(*texts) == projects


@pytest.mark.parametrize(
    "text", ["", "!", "...", "^...", "...^", "a{b", "a}b", "[]", "./a{b}", "{a}{b}", "!...", "[a"]
)
def test_what_is_no_filter(text: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse(text)
    assert refusal.value.slug == "bad-filter"


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("wep...", "did you mean web?"),
        ("tag:frnt", "did you mean tag:front?"),
        ("tag:zzz", "the tags are app, front"),
        ("{zzz}[main]", "the projects are @acme/ui, api, core, docs and 1 more"),
    ],
)
def test_a_filter_that_names_nothing(text: str, hint: str) -> None:
    with pytest.raises(UserError) as refusal:
        chosen(text)
    assert (refusal.value.slug, refusal.value.hint) == ("unknown-project", hint)


NAMES = st.text("ab@/*-_.", min_size=1).filter(
    lambda name: not name.startswith((".", "^")) and not name.endswith((".", "^"))
)
PLACES = st.none() | st.text("ab/*.", min_size=1)


@given(NAMES, PLACES, PLACES, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_every_part_is_read_as_it_was_written(  # noqa: PLR0917 - what a filter has
    name: str,
    directory: str | None,
    commit: str | None,
    dependencies: bool,
    dependents: bool,
    itself: bool,
    out: bool,
) -> None:
    itself = itself or not (dependencies or dependents)
    alone = "" if itself else "^"
    text = (
        ("!" if out else "")
        + (f"...{alone}" if dependents else "")
        + name
        + (f"{{{directory}}}" if directory else "")
        + (f"[{commit}]" if commit else "")
        + (f"{alone}..." if dependencies else "")
    )
    assert parse(text) == Filter(
        text, name, directory, commit, dependencies, dependents, itself=itself, out=out
    )


@given(st.text("ab.{}[]!^/*:", max_size=12))
def test_no_text_is_a_fault_of_ours(text: str) -> None:
    assert slug(text) in ("", "bad-filter", "unknown-project")


def slug(text: str) -> str:
    """The name of the refusal; "" if the text is a filter that selects something."""
    try:
        filtered(SPACE, [text], "apps/web", lambda _: ())
    except UserError as refusal:
        return refusal.slug
    return ""
