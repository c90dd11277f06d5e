"""What git knows of the workspace: its files, and what it leaves out.

Git runs other people's programs if their repository says so (`core.fsmonitor`, hooks); no call
here lets it, in the repository or in one inside it, and none takes a lock or writes. Where
there is no repository, no git, or the workspace itself is ignored, the `.gitignore` files below
it are read instead. What never counts (`globs.excluded`) is left out in either case.
"""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from vxwatch import globs
from vxwatch.errors import GitError
from vxwatch.process.command import Begun, Captured, Conversation, ConversationError
from vxwatch.process.programs import resolve
from vxwatch.workspace.gitignore import Rules
from vxwatch.workspace.gitwaits import GitWaitsError, check_all_rules, check_rules

SAFE = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.hooksPath=/dev/null"),
    # Names that differ in case are two here, also in a clone that a Mac has made.
    *("-c", "core.ignorecase=false"),
    *("-c", "safe.directory=*"),  # as root in another user's workspace; nothing of it is run
)
_LIST = (*SAFE, "--literal-pathspecs", "ls-files", "-z")  # check-ignore refuses the option
_OTHERS = (
    *("--others", "--exclude-standard", f"--exclude=*{globs.EXCLUDED_SUFFIX}"),
    *(f"--exclude={name}" for name in sorted(globs.EXCLUDED)),
)
_IGNORE = (*SAFE, "check-ignore", "--stdin", "-z", "-v", "-n")
_RULED = (*_IGNORE, "--no-index")
_KEPT = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}
)
Words = tuple[str, ...]
_GITLINK = b"160000"
_PATHSPECS = 32  # git compares each file with each of them
_REQUEST = 32 * 1024  # bytes; below the capacity of a pipe
_FIELDS = 4
_NOT_IGNORED = 1


def environment(base: Mapping[str, str]) -> dict[str, str]:
    """The environment without what would point git at another repository (a hook sets it)."""
    return {n: v for n, v in base.items() if not n.startswith("GIT_") or n in _KEPT}


class Listing(NamedTuple):
    """Git's answer for all files of a root, which was asked for before it is needed."""

    root: str
    answer: Begun


class Git:
    """The files of a workspace. `root` is absolute and real; paths are relative to it.

    `workspace` is the root of the whole, where that is another one: no program in it is run.
    A `listing` spares asking for one, where it is of this root.
    """

    def __init__(
        self, root: str, workspace: str | None = None, listing: Listing | None = None
    ) -> None:
        self.root = root
        self._workspace = workspace or root
        self._listing = listing.answer if listing is not None and listing.root == root else None
        self._present: bool | None = None

    @property
    def present(self) -> bool:
        """Whether git answers for the workspace; else `.gitignore` files alone do."""
        if self._present is None:
            self._present = _answers(self.root, self._workspace)
        return self._present

    def tracked(self, roots: Sequence[str]) -> list[str]:
        """The files and directories' files that are in git's index, there or not."""
        return self._listed(["--cached"], roots) if self.present else []

    def tracked_and_untracked(self, roots: Sequence[str]) -> list[str]:
        """The files below some directories: tracked ones, there or not, and others not ignored.

        Repositories inside the workspace are listed by their own rules.
        """
        if not self.present:
            rules = Rules(self.root)
            return sorted({path for root in roots for path in rules.files(root)})
        walls = _Walls(self.root)
        own: list[str] = []
        files: set[str] = set()
        for root in roots:
            repository, inside = walls.place_directory(root)
            if repository:
                files.update(self._inside(repository, [inside]))
            else:
                own.append(inside)
        found = self._listed(["--cached", *_OTHERS], own)
        inner = [path.rstrip("/") for path in found if path.endswith("/")] + self._submodules()
        for path in inner:
            if _lies_in(path, frozenset(own)) or _leads_to(f"{path}/", own):
                files.update(self._inside(path, [""]))
        files.update(path for path in found if not path.endswith("/") and not globs.excluded(path))
        return sorted(files.difference(inner))

    def _listed(self, options: Sequence[str], roots: Sequence[str]) -> list[str]:
        if not roots:
            return []
        # What was asked for before is of the whole root, and may be there already.
        whole = "" in roots or len(roots) > _PATHSPECS or self._listing is not None
        few = [] if whole else ["--", *roots]
        done = self._run(*_LIST, *options, *few)
        if done.code:
            said = done.err.decode(errors="replace").strip() or f"exit code {done.code}"
            raise GitError(
                "git-failed",
                f"git cannot list the files of {self.root}: {said}",
                "run `git status` there, and mend what it says",
            )
        paths = dict.fromkeys(os.fsdecode(done.out).split("\0")[:-1])
        if few or "" in roots:
            return list(paths)
        wanted = _within(roots)
        return [path for path in paths if wanted(path) or _leads_to(path, roots)]

    def _submodules(self) -> list[str]:
        if not os.path.lexists(f"{_top(self.root)}/.gitmodules"):
            return []
        done = self._run(*_LIST, "--stage")
        entries = (entry.partition(b"\t") for entry in done.out.split(b"\0"))
        return [os.fsdecode(path) for mode, _, path in entries if mode.startswith(_GITLINK)]

    def _inside(self, repository: str, roots: Sequence[str]) -> Iterable[str]:
        """The files of a repository inside this one; none if it was never checked out, or never counts."""
        full = f"{self.root}/{repository}"
        if globs.excluded(repository) or not os.path.lexists(f"{full}/.git"):
            return []
        return (
            f"{repository}/{file}"
            for file in Git(full, self._workspace).tracked_and_untracked(roots)
        )

    def _run(self, *words: str) -> Captured:
        argv = (git_program(self._workspace), *words)
        listing, self._listing = self._listing, None
        if listing is not None and listing.argv == argv:
            return listing.end(lambda: check_all_rules(self.root))
        return _run(argv, self.root, lambda: check_all_rules(self.root))


def begin_listing(root: str) -> Listing:
    """Have git list the files of a workspace, while it is loaded. Its answer must be closed."""
    argv = (git_program(root), *_LIST, "--cached", *_OTHERS)
    return Listing(root, Begun(argv, cwd=root, env=environment(os.environ)))


class Ignores:
    """Tells which paths are ignored, from a git that is kept open. Must be closed."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._rules: Rules | None = None
        self._talks: dict[tuple[str, Words], Conversation] = {}
        self._present: bool | None = None
        self._waits: GitWaitsError | None = None

    def ignored(self, paths: Sequence[str]) -> set[str]:
        """Those of the paths that are ignored or never count; a tracked file is not ignored.

        Raises `GitError` where git cannot tell.
        """
        if self._waits is not None and self._waits.lasts:
            raise self._waits  # at once: whoever asks may be holding up all else
        try:
            return self._ignored(paths)
        except GitWaitsError as error:
            self._waits = error
            raise

    def _ignored(self, paths: Sequence[str]) -> set[str]:
        found = {path for path in paths if globs.excluded(path)}
        asked = [path for path in paths if path and path not in found]
        if self._present is None:
            self._present = _answers(self._root, self._root)
        if not self._present:
            self._rules = self._rules or Rules(self._root)
            return found | set(filter(self._rules.ignored, asked))
        walls = _Walls(self._root)
        by_repository: dict[str, dict[str, list[str]]] = {}
        for path in asked:
            repository, inside = walls.place(path)
            by_repository.setdefault(repository, {}).setdefault(inside, []).append(path)
        for repository, insides in by_repository.items():
            for inside in self._asked(repository, list(insides)):
                found.update(insides[inside])
        return found

    def reset(self) -> None:
        """Read the rules anew: a `.gitignore` changed, or a repository came or went."""
        self.close()
        self._present = None
        if self._rules:
            self._rules.reset()

    def close(self) -> None:
        """End the git that was kept open."""
        for talk in self._talks.values():
            talk.close()
        self._talks.clear()

    def _asked(self, repository: str, paths: list[str]) -> set[str]:
        """Those of the paths that a rule ignores, and of which git tracks nothing."""
        ruled = self._matched(repository, paths, _RULED)
        spared = ruled - self._matched(repository, [*ruled], _IGNORE)
        # Of what was a directory git may track files still, whatever there is in its place.
        full = f"{self._root}/{repository}".rstrip("/")
        others = [path for path in spared if not _is_directory(f"{full}/{path}")]
        tracked = Git(full, self._root).tracked(others) if others else ()
        return ruled - spared | {*others}.difference(tracked)

    def _matched(self, repository: str, paths: list[str], question: Words) -> set[str]:
        found: set[str] = set()
        for batch in _batches(paths):
            try:
                found.update(self._ask(repository, batch, question))
            except ConversationError:
                # git gives up on a path it cannot place, and with it on all of the batch
                for path in batch:
                    found.update(self._ask_alone(repository, path, question))
        return found

    def _ask_alone(self, repository: str, path: str, question: Words) -> Iterable[str]:
        try:
            return self._ask(repository, [path], question)
        except ConversationError:
            return ()

    def _ask(self, repository: str, paths: Sequence[str], question: Words) -> list[str]:
        talk = self._talks.get((repository, question))
        if talk is None:
            argv = (git_program(self._root), *question)
            directory = f"{self._root}/{repository}".rstrip("/")
            talk = Conversation(argv, cwd=directory, env=environment(os.environ))
            self._talks[repository, question] = talk
        request = b"".join(os.fsencode(path) + b"\0" for path in paths)
        wanted = _FIELDS * len(paths)
        answer = talk.ask(
            request,
            lambda sofar: sofar.count(b"\0") >= wanted,
            lambda: check_rules(talk.directory, paths),
        )
        fields = answer.split(b"\0")
        patterns = fields[2:wanted:_FIELDS]
        return [
            path
            for path, pattern in zip(paths, patterns, strict=True)
            if pattern and not pattern.startswith(b"!")
        ]


class _Walls:
    """Where paths leave the repository: into one inside it, or through a link."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._known: dict[str, tuple[str, str | None]] = {"": ("", None)}

    def place_directory(self, directory: str) -> tuple[str, str]:
        """The repository that a directory lies in, and the directory relative to it."""
        repository, link = self._directory(directory)
        asked = directory if link is None else link
        return repository, asked[len(repository) + 1 :] if repository else asked

    def place(self, path: str) -> tuple[str, str]:
        """The repository that has a say in a path, and what to ask it, relative to it."""
        repository, link = self._directory(path.rpartition("/")[0])
        asked = path if link is None else link
        return repository, asked[len(repository) + 1 :] if repository else asked

    def _directory(self, directory: str) -> tuple[str, str | None]:
        """The innermost repository around a directory, and the link on the way, if any."""
        unknown = []
        above = directory
        while above not in self._known:
            unknown.append(above)
            above = above.rpartition("/")[0]
        repository, link = self._known[above]
        for inner in reversed(unknown):
            full = f"{self._root}/{inner}"
            if link is None and os.path.islink(full):
                link = inner
            elif link is None and os.path.lexists(f"{full}/.git"):
                repository = inner
            self._known[inner] = (repository, link)
        return repository, link


def _answers(root: str, workspace: str) -> bool:
    """Whether there is git, and a repository around the root that does not ignore it."""
    top = _top(root)
    program = git_program(workspace)
    if top is None or not program:
        return False
    if top == root:
        return True
    question = (program, *SAFE, "check-ignore", "-q", root)
    done = _run(question, top, lambda: check_rules(root, ()))
    return done.code == _NOT_IGNORED


def _run(argv: Sequence[str], directory: str, doubt: Callable[[], None]) -> Captured:
    with closing(Begun(argv, cwd=directory, env=environment(os.environ))) as begun:
        return begun.end(doubt)


def git_program(workspace: str) -> str:
    """The git of the machine, never one that the workspace brings; "" if there is none."""
    return resolve("git", os.environ.get("PATH", os.defpath), workspace) or ""


def _top(root: str) -> str | None:
    while not os.path.lexists(f"{root}/.git"):
        if root == os.path.dirname(root):
            return None
        root = os.path.dirname(root)
    return root


def _is_directory(path: str) -> bool:
    """Whether a directory, and no link to one, is at the path."""
    return os.path.isdir(path) and not os.path.islink(path)


def _lies_in(path: str, directories: Container[str]) -> bool:
    """Whether a path is one of the directories or lies in one."""
    path = path.rstrip("/")
    while path and path not in directories:
        path = path.rpartition("/")[0]
    return path in directories


def _within(directories: Sequence[str]) -> Callable[[str], bool]:
    """What tells whether a path is one of the directories or lies in one."""
    if len(directories) > _PATHSPECS:
        known = frozenset(directories)
        return lambda path: _lies_in(path, known)
    places = tuple(f"{directory}/" for directory in directories)
    return lambda path: path.startswith(places) or path in directories


def _leads_to(path: str, directories: Iterable[str]) -> bool:
    """Whether a path that ends with a slash, as git writes a repository, holds one of them."""
    return path.endswith("/") and any(d.startswith(path) for d in directories)


def _batches(paths: Sequence[str]) -> Iterable[list[str]]:
    batch: list[str] = []
    size = 0
    for path in paths:
        size += 4 * len(path) + 1
        if batch and size > _REQUEST:
            yield batch
            batch, size = [], 4 * len(path) + 1
        batch.append(path)
    if batch:
        yield batch
