"""How editors and tools save: each pattern as the calls that the tool was seen to make.

A save gives the file a new text, however many files it makes and removes on the way; an idle one
leaves the file as it was. Where the real tool is installed, it is run.
"""

import contextlib
import mmap
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Save = Callable[[str, str], None]
"""Gives the file at the path the text."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way to save; `needs` is the program without which it is left out."""

    name: str
    save: Save
    needs: str = ""

    @property
    def possible(self) -> bool:
        return not self.needs or shutil.which(self.needs) is not None


def put(path: str, text: str) -> None:
    """Truncate and write, as a shell's `>` does."""
    with open(path, "w") as file:
        file.write(text)


def _vim_probe(path: str) -> None:
    """Whether the directory can be written: vim makes and removes a file named 4913."""
    probe = os.path.join(os.path.dirname(path), "4913")
    os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o100644))
    os.chown(probe, os.getuid(), os.getgid())
    os.unlink(probe)


def vim(path: str, text: str) -> None:
    """backupcopy=auto: the old file becomes the backup, which is removed after the write."""
    _vim_probe(path)
    os.rename(path, f"{path}~")
    put(path, text)
    os.chmod(path, 0o644)
    os.unlink(f"{path}~")


def vim_keeping_backup(path: str, text: str) -> None:
    """`set backup`, the backups in a directory of their own."""
    _vim_probe(path)
    backups = os.path.join(os.path.dirname(os.path.dirname(path)), "backups")
    os.makedirs(backups, exist_ok=True)
    os.rename(path, os.path.join(backups, os.path.basename(path) + "~"))
    put(path, text)


def vim_backup_by_copy(path: str, text: str) -> None:
    """backupcopy=yes: a copy is the backup, and the file itself is written over."""
    _vim_probe(path)
    shutil.copy2(path, f"{path}~")
    put(path, text)
    os.unlink(f"{path}~")


def real_vim(path: str, text: str) -> None:
    """The program, with its swap file."""
    command = f"call setline(1, '{text}')|wq"
    argv = ["vim", "-u", "NONE", "-i", "NONE", "-es", "-c", command, path]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def code(path: str, text: str) -> None:
    """VS Code as it is by default: open, truncate, write."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def code_atomic(path: str, text: str) -> None:
    """VS Code where it writes atomically: a file beside it, renamed over."""
    put(f"{path}.vsctmp", text)
    os.rename(f"{path}.vsctmp", path)


def jetbrains(path: str, text: str) -> None:
    """Safe write: a new file beside it, the old one moved away, the new one in its place."""
    put(f"{path}___jb_tmp___", text)
    os.chmod(f"{path}___jb_tmp___", 0o644)
    os.rename(path, f"{path}___jb_old___")
    os.rename(f"{path}___jb_tmp___", path)
    os.unlink(f"{path}___jb_old___")


def emacs(path: str, text: str) -> None:
    """The backup is made once and stays; lock and auto-save go with the save."""
    if not os.path.exists(f"{path}~"):
        shutil.copy2(path, f"{path}~")
    put(path, text)
    for name in _emacs_names(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def emacs_typing(path: str) -> None:
    """A link to nowhere as a lock, then what was typed so far."""
    lock, saved = _emacs_names(path)
    os.symlink("me@host.1234:1700000000", lock)
    put(saved, "half of it")


def _emacs_names(path: str) -> tuple[str, str]:
    directory, name = os.path.split(path)
    return f"{directory}/.#{name}", f"{directory}/#{name}#"


def vim_typing(path: str) -> None:
    """The swap file is there while the file is open, and written as one types."""
    swap = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.swp")
    put(swap, "b0VIM 9.0")
    put(swap, "b0VIM 9.0 and more")


def nano(path: str, text: str) -> None:
    """Writes over the file while its lock is there."""
    vim_typing(path)
    put(path, text)
    os.unlink(os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.swp"))


def sed(path: str, text: str) -> None:
    """A copy beside it, renamed over."""
    subprocess.run(["sed", "-i", f"1s/.*/{text}/", path], check=True)


def rsync(path: str, text: str) -> None:
    """Keeps an old date; writes a hidden file beside it, renamed over."""
    with _elsewhere(path, text) as source:
        subprocess.run(["rsync", "-a", source, path], check=True)


def copied_with_date(path: str, text: str) -> None:
    """`cp -p` of an old file."""
    with _elsewhere(path, text) as source:
        subprocess.run(["cp", "-p", source, path], check=True)


def moved_over(path: str, text: str) -> None:
    """`mv` of an old file."""
    with _elsewhere(path, text) as source:
        os.rename(source, path)


@contextlib.contextmanager
def _elsewhere(path: str, text: str) -> Iterator[str]:
    """A file of the year 2020 on the same file system, outside of what is watched."""
    source = os.path.join(os.path.dirname(os.path.dirname(path)), "dist", "elsewhere")
    os.makedirs(os.path.dirname(source), exist_ok=True)
    put(source, text)
    os.utime(source, (1_577_836_800, 1_577_836_800))
    yield source
    with contextlib.suppress(FileNotFoundError):
        os.unlink(source)


def same_size_and_date(path: str, text: str) -> None:
    """Nothing but the content tells; what was there must be as long."""
    before = os.stat(path)
    with open(path, "r+") as file:
        file.write(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def mapped(path: str, text: str) -> None:
    """Through memory; what was there must be as long."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[: len(text)] = text.encode()


def black(path: str, text: str) -> None:
    """A formatter: reads, and writes over the file if that changes it."""
    with open(path) as file:
        before = file.read()
    if before != text:
        put(path, text)


def git_checkout(path: str, text: str) -> None:
    """To a commit with the new text."""
    git, commit = _committed(path, text)
    git("checkout", "-q", commit)


def git_rebase(path: str, text: str) -> None:
    """A commit of something else, put on top of the one with the new text."""
    git, commit = _committed(path, text)
    git("commit", "-q", "--allow-empty", "-m", "mine")
    git("rebase", "-q", commit)


def git_stash_pop(path: str, text: str) -> None:
    """The new text was stashed once."""
    git, commit = _committed(path, text)
    index = git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "index")
    stash = git("commit-tree", f"{commit}^{{tree}}", "-p", "HEAD", "-p", index, "-m", "stash")
    git("stash", "store", "-q", stash)
    git("stash", "pop", "-q")


def _committed(path: str, text: str) -> tuple[Callable[..., str], str]:
    """Commit all there is; gives git, and a commit on top of that in which the file has the text.

    The working tree is left as it is.
    """
    top = os.path.dirname(os.path.dirname(path))

    def git(*words: str, **more: Any) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.invalid", *words]
        done = subprocess.run(
            command, cwd=top, check=True, stdout=subprocess.PIPE, text=True, **more
        )
        return str(done.stdout).strip()

    name = os.path.relpath(path, top)
    git("add", "-A")
    git("commit", "-q", "--allow-empty", "-m", "all")
    blob = git("hash-object", "-w", "--stdin", input=text)
    index = {**os.environ, "GIT_INDEX_FILE": os.path.join(top, ".git", "index.aside")}
    git("read-tree", "HEAD", env=index)
    git("update-index", "--cacheinfo", f"100644,{blob},{name}", env=index)
    tree = git("write-tree", env=index)
    return git, git("commit-tree", tree, "-p", "HEAD", "-m", "other")


SAVES = (
    Pattern("in place", put),
    Pattern("vim", vim),
    Pattern("vim keeping a backup", vim_keeping_backup),
    Pattern("vim with a copy as backup", vim_backup_by_copy),
    Pattern("vim itself", real_vim, "vim"),
    Pattern("VS Code", code),
    Pattern("VS Code atomically", code_atomic),
    Pattern("JetBrains", jetbrains),
    Pattern("emacs", emacs),
    Pattern("nano", nano),
    Pattern("sed -i", sed, "sed"),
    Pattern("rsync -a", rsync, "rsync"),
    Pattern("cp -p", copied_with_date),
    Pattern("mv of an old file", moved_over),
    Pattern("the same size and date", same_size_and_date),
    Pattern("a mapping", mapped),
    Pattern("a formatter", black),
    Pattern("git checkout", git_checkout),
    Pattern("git rebase", git_rebase),
    Pattern("git stash pop", git_stash_pop),
)
"""Each makes a change; the texts must be equally long."""


# What leaves the file as it was


def touched(path: str) -> None:
    """Now, long ago, and in times to come."""
    for when in (None, (1, 1), (4_000_000_000, 4_000_000_000)):
        os.utime(path, when)


def saved_again(path: str) -> None:
    """In place and by renaming, with the same bytes."""
    with open(path) as file:
        text = file.read()
    put(path, text)
    code_atomic(path, text)


def formatted(path: str) -> None:
    """A formatter that has nothing to do."""
    with open(path) as file:
        black(path, file.read())


def read_only_for_a_while(path: str) -> None:
    """Permissions that say nothing about running it."""
    os.chmod(path, 0o400)
    os.chmod(path, 0o644)


def probed(path: str) -> None:
    """vim's probe and a file that is gone at once."""
    _vim_probe(path)
    put(f"{path}.tmp", "")
    os.unlink(f"{path}.tmp")


def opened_in_emacs(path: str) -> None:
    """Opened, typed in, and left without a save."""
    emacs_typing(path)
    for name in _emacs_names(path):
        os.unlink(name)
    emacs_typing(path)


NO_SAVES = (
    touched,
    saved_again,
    formatted,
    read_only_for_a_while,
    probed,
    vim_typing,
    opened_in_emacs,
)
"""What changes nothing. What editors keep while one types stays behind."""
