"""Which server a name means."""

import pytest

from vxwatch.errors import UserError
from vxwatch.model import Project, Workspace
from vxwatch.session.choosing import choose

SERVERS = ("api#dev", "web#dev", "web#docs")


def _workspace() -> Workspace:
    projects = [Project(name, f"apps/{name}", (), None, (), {}) for name in ("api", "web")]
    return Workspace("/w", {project.name: project for project in projects}, None, ())


@pytest.mark.parametrize(
    ("name", "directory", "meant"),
    [
        ("web#dev", "", "web#dev"),
        ("docs", "", "web#docs"),
        ("api", "", "api#dev"),
        ("dev", "apps/api", "api#dev"),
        ("dev", "apps/web/src", "web#dev"),
        ("api", "apps/web", "api#dev"),
    ],
)
def test_a_name_means_one_server(name: str, directory: str, meant: str) -> None:
    assert choose(_workspace(), SERVERS, name, directory) == meant


@pytest.mark.parametrize(
    ("servers", "name", "slug", "says"),
    [
        (SERVERS, "dev", "which-server", "dev may be api#dev or web#dev"),
        (SERVERS, "web", "which-server", "web may be web#dev or web#docs"),
        (SERVERS, "dosc", "unknown-server", "did you mean web#docs?"),
        (SERVERS, "web#dve", "unknown-server", "did you mean web#dev?"),
        (SERVERS, "zzz", "unknown-server", "it has api#dev, web#dev, web#docs"),
        ((), "dev", "unknown-server", "it has no server at all"),
    ],
)
def test_what_means_none_or_several_is_refused(
    servers: tuple[str, ...], name: str, slug: str, says: str
) -> None:
    with pytest.raises(UserError) as refused:
        choose(_workspace(), servers, name, "apps")
    assert refused.value.slug == slug
    assert says in f"{refused.value.message} {refused.value.hint}"
