"""Which parts of a home show for a directory on PATH."""

import pytest

from vxwatch.sandbox.toolchains import tool_roots


@pytest.mark.parametrize(
    ("directory", "roots"),
    [
        ("", ()),
        (".pyenv/shims", (".pyenv",)),
        (".nvm/versions/node/v20/bin", (".nvm",)),
        ("go/bin", ("go",)),
        ("gopher/tool", ("gopher/tool",)),
        ("bin", ("bin",)),
        (".local/share/uv/python/cpython-3.12/bin", (".local/share/uv",)),
    ],
)
def test_roots(directory: str, roots: tuple[str, ...]) -> None:
    assert tool_roots(directory) == roots


def test_secrets_beside_tools_stay_hidden() -> None:
    assert ".cargo/bin" in tool_roots(".cargo/bin")
    assert ".cargo" not in tool_roots(".cargo/bin")
    assert ".local/share" not in tool_roots(".local/bin")


def test_an_unknown_installation_shows_its_usual_parts() -> None:
    roots = tool_roots("opt/node-20/bin")
    assert roots[0] == "opt/node-20/bin"
    assert "opt/node-20/lib" in roots
    assert "opt/node-20" not in roots
