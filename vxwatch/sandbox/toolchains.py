"""Which parts of a home directory a toolchain needs, told by the directory it has on PATH.

A home holds keys, histories and other checkouts beside its toolchains, so only a tool's own
root shows, never the home. Paths are relative to the home.
"""

import posixpath

from vxwatch.sandbox.paths import inside

_CARGO = (".cargo/bin", ".cargo/registry", ".cargo/git", ".rustup")
_LOCAL_SHARE = ("mise", "pipx", "pnpm", "uv")
_LOCAL = (
    ".local/bin",
    ".local/lib",
    ".local/pipx",
    *(f".local/share/{name}" for name in _LOCAL_SHARE),
)

_ROOTS = {
    ".cargo/bin": _CARGO,
    ".local/bin": _LOCAL,
    **{f".local/share/{name}": (f".local/share/{name}",) for name in (*_LOCAL_SHARE, "fnm")},
    **{
        name: (name,)
        for name in (
            *(".asdf", ".bun", ".deno", ".dotnet", ".fnm", ".goenv", ".linuxbrew", ".nodenv"),
            *(".nvm", ".proto", ".pyenv", ".rbenv", ".sdkman", ".volta", "go"),
        )
    },
}
"""Tool roots by where they begin. `.cargo` and `.local` hold secrets too: only parts of them."""

_PREFIX = ("include", "lib", "lib64", "libexec", "pyvenv.cfg", "share")

ALWAYS = (".cache/node/corepack",)
"""What tools outside of the home read in it: corepack keeps the package managers there."""


def tool_roots(directory: str) -> tuple[str, ...]:
    """What to show for a program directory of the home: the root of the tool it belongs to.

    For an unknown tool that is the directory, and beside a `bin` what an installation has there.
    The home itself is never a tool root: `""` gives nothing.
    """
    if not directory:
        return ()
    for start, roots in _ROOTS.items():
        if inside(directory, start):
            return roots
    prefix, name = posixpath.split(directory)
    if name != "bin" or not prefix:
        return (directory,)
    return (directory, *(f"{prefix}/{part}" for part in _PREFIX))
