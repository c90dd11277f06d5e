"""What differs between the workspace and a commit of git, as paths.

Committed, staged, changed, and new files all count, but for the ignored ones. No program that a
repository names is run.
"""

import os
from collections.abc import Mapping

from vxwatch.errors import UserError
from vxwatch.process.command import Captured, capture
from vxwatch.workspace.git import SAFE, Git, environment, git_program

_DIFF = ("diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
_USUAL = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


class Changes:
    """Asks the git of a workspace; `root` is absolute and real, paths are relative to it."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._git = Git(root)

    def since(self, commit: str) -> list[str]:
        """The paths that differ from a commit. Raises `UserError` if git does not know it."""
        self._need_git(f"[{commit}]")
        known = self._known(commit)
        if not known:
            raise UserError(
                "unknown-commit",
                f'git knows no commit "{commit}"',
                "name a branch, a tag or a hash that `git log` knows, or fetch it first",
            )
        return self._since(known)

    def since_base(self, base: str | None, environ: Mapping[str, str]) -> list[str]:
        """The paths that differ from where the work on HEAD began.

        That is where HEAD and `base` parted; without it, HEAD and the branch that a pull request
        goes to, or the main branch. Raises `UserError`.
        """
        self._need_git("--affected")
        head = self._known("HEAD")
        if not head:
            return self._git.tracked_and_untracked([""])  # no commit yet, so all is new
        base = base or self._usual(environ)
        if not self._known(base):
            return self.since(base)
        parted = self._ask("merge-base", "--end-of-options", base, "HEAD")
        if parted.code:
            raise UserError(
                "unknown-commit",
                f"git sees nothing that {base} and HEAD have in common",
                "a shallow clone holds too little: git fetch --unshallow",
            )
        return self._since(os.fsdecode(parted.out).strip())

    def _usual(self, environ: Mapping[str, str]) -> str:
        target = environ.get("GITHUB_BASE_REF")
        candidates = (f"origin/{target}", *_USUAL) if target else _USUAL
        found = next((name for name in candidates if self._known(name)), None)
        if found is None:
            raise UserError(
                "unknown-commit",
                f"--affected finds no branch to compare with, among {', '.join(candidates)}",
                "name one: --affected=BRANCH",
            )
        return found

    def _since(self, commit: str) -> list[str]:
        options = ("--ignore-submodules=all", "--relative", "--end-of-options", commit, "--", ".")
        done = self._ask(*_DIFF, *options)
        if done.code:
            said = done.err.decode(errors="replace").strip()
            raise UserError("git-failed", f"git cannot compare with {commit}: {said}")
        tracked = os.fsdecode(done.out).split("\0")[:-1]
        known = set(self._git.tracked([""]))
        new = [path for path in self._git.tracked_and_untracked([""]) if path not in known]
        return sorted({*tracked, *new})

    def _known(self, commit: str) -> str:
        """The hash of a commit; "" if git does not know it."""
        done = self._ask("rev-parse", "-q", "--verify", "--end-of-options", f"{commit}^{{commit}}")
        return "" if done.code else os.fsdecode(done.out).strip()

    def _need_git(self, what: str) -> None:
        if not self._git.present:
            raise UserError("no-git", f"{what} needs git, and this workspace is in no repository")

    def _ask(self, *words: str) -> Captured:
        argv = (git_program(self._root), *SAFE, *words)
        return capture(argv, cwd=self._root, env=environment(os.environ))
