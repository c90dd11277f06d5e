"""What git says of a workspace: real repositories, hostile ones, ones without git at all."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.harness.waiting import wait_for
from vxwatch.errors import UserError
from vxwatch.process.command import NOT_FOUND, Conversation, ConversationError, capture
from vxwatch.workspace.git import Git, Ignores, begin_listing, environment


def git(at: str, *words: str) -> str:
    config = (
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.invalid",
        "-c",
        "protocol.file.allow=always",
    )
    done = subprocess.run(
        ["git", *config, *words],
        cwd=at,
        env=environment(os.environ),
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def write(root: str, *paths: str, **texts: str) -> None:
    for path, text in [*((path, "x") for path in paths), *texts.items()]:
        os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
        with open(f"{root}/{path}", "w") as file:
            file.write(text)


def ignore(directory: str, *lines: str) -> None:
    write(directory, **{".gitignore": "\n".join(lines)})


@pytest.fixture
def root(tmp_path: os.PathLike[str]) -> str:
    """A directory without a repository around it."""
    path = os.path.realpath(f"{tmp_path}/workspace")
    os.makedirs(path)
    return path


@pytest.fixture
def repository(root: str) -> str:
    """The same directory as an empty repository."""
    git(root, "init", "-q", "--template=", "-b", "main")
    return root


@pytest.fixture
def asked() -> Iterator[list[Ignores]]:
    """Ignores that are closed at the end."""
    opened: list[Ignores] = []
    yield opened
    for one in opened:
        one.close()


def ignores(root: str, asked: list[Ignores]) -> Ignores:
    asked.append(Ignores(root))
    return asked[-1]


SAMPLE = (
    "src/a.ts",
    "src/deep/b.log",
    "keep.log",
    "a.log",
    "dist/out",
    "sub/dist/out",
    "sub/b.tmp",
    "sub/keep/c.tmp",
    "node_modules/x/i.js",
    "sub/__pycache__/m.pyc",
    "x.tsbuildinfo",
    ".venv/bin/python",
    ".env",
)
IGNORED = {"src/deep/b.log", "a.log", "dist/out", "sub/dist/out", "sub/b.tmp", ".env"}
EXCLUDED = {"node_modules/x/i.js", "sub/__pycache__/m.pyc", "x.tsbuildinfo", ".venv/bin/python"}


def sample(root: str) -> None:
    write(root, *SAMPLE)
    ignore(root, "*.log", "!keep.log", "dist/", "/.env")
    ignore(f"{root}/sub", "*.tmp", "!keep/*.tmp")


@pytest.mark.parametrize("kind", ["without git", "no commits", "committed", "inside", "ignored"])
def test_the_same_files_count_with_git_and_without(
    kind: str, root: str, asked: list[Ignores]
) -> None:
    workspace = root if kind in ("without git", "no commits", "committed") else f"{root}/in/side"
    sample(workspace)
    if kind != "without git":
        git(root, "init", "-q", "--template=")
    if kind == "ignored":
        ignore(root, "/in/")
    if kind == "committed":
        git(root, "add", "src")
        git(root, "commit", "-qm", "x")
    found = Git(workspace)
    files = {*SAMPLE, ".gitignore", "sub/.gitignore"} - IGNORED - EXCLUDED
    assert found.present is (kind not in ("without git", "ignored"))
    assert found.tracked_and_untracked([""]) == sorted(files)
    assert found.tracked_and_untracked(["src", "sub/keep"]) == ["src/a.ts", "sub/keep/c.tmp"]
    assert found.tracked_and_untracked([]) == []
    assert ignores(workspace, asked).ignored([*SAMPLE, ""]) == IGNORED | EXCLUDED


def test_many_directories_are_listed_as_few_are(repository: str) -> None:
    names = [f"p{n:02}" for n in range(40)]
    write(repository, *(f"{name}/a" for name in names), "other/a")
    assert Git(repository).tracked_and_untracked(names) == [f"{name}/a" for name in names]


def test_tracked_files(repository: str) -> None:
    write(repository, "src/a", "src/new", "dist/x", "gone")
    git(repository, "add", "src/a", "dist", "gone")
    os.unlink(f"{repository}/gone")
    assert Git(repository).tracked(["src", "gone", "none"]) == ["gone", "src/a"]
    assert "gone" in Git(repository).tracked_and_untracked([""])


def test_tracked_files_are_never_ignored(repository: str, asked: list[Ignores]) -> None:
    write(repository, "dist/kept", "dist/not")
    git(repository, "add", "dist/kept")
    ignore(repository, "dist/")
    assert ignores(repository, asked).ignored(["dist/kept", "dist/not"]) == {"dist/not"}


def test_without_a_repository_nothing_is_tracked(root: str) -> None:
    write(root, "src/a")
    assert Git(root).tracked(["src"]) == []


def test_names_that_are_no_text(repository: str, asked: list[Ignores]) -> None:
    strange = os.fsdecode(b"\xff\xfe \n\t\"'")
    write(repository, strange, f"out/{strange}")
    ignore(repository, "out")
    assert Git(repository).tracked_and_untracked([""]) == sorted([".gitignore", strange])
    assert ignores(repository, asked).ignored([strange, f"out/{strange}"]) == {f"out/{strange}"}


def test_pathspecs_are_taken_literally(repository: str) -> None:
    write(repository, "a*/x", "ab/x", ":(top)/x")
    assert Git(repository).tracked_and_untracked(["a*", ":(top)"]) == [":(top)/x", "a*/x"]


def with_submodule(root: str, tmp: str) -> None:
    git(tmp, "init", "-q", "--template=", "lib")
    write(f"{tmp}/lib", "a", "out/b")
    ignore(f"{tmp}/lib", "out")
    git(f"{tmp}/lib", "add", ".")
    git(f"{tmp}/lib", "commit", "-qm", "x")
    git(root, "submodule", "add", "-q", f"{tmp}/lib", "libs/one")
    git(root, "commit", "-qm", "x")
    write(root, "libs/one/new", "libs/one/out/b", "libs/one/deep/er/c")


def test_repositories_inside_follow_their_own_rules(
    repository: str, tmp_path: os.PathLike[str], asked: list[Ignores]
) -> None:
    with_submodule(repository, str(tmp_path))
    git(repository, "init", "-q", "--template=", "other")
    write(repository, "other/a.log", "other/b", "c.log")
    ignore(f"{repository}/other", "*.log")
    found = Git(repository)
    inner = [".gitignore", "a", "deep/er/c", "new"]
    own = ["libs/one/" + path for path in inner] + ["other/.gitignore", "other/b"]
    assert found.tracked_and_untracked([""]) == [".gitmodules", "c.log", *own]
    assert found.tracked_and_untracked(["libs"]) == own[:4]
    assert found.tracked_and_untracked(["libs/one/deep", "other"]) == [
        "libs/one/deep/er/c",
        *own[4:],
    ]
    paths = ["libs/one/out/b", "libs/one/a", "libs/one", "other/a.log", "other/b", "c.log"]
    assert ignores(repository, asked).ignored(paths) == {"libs/one/out/b", "other/a.log"}


def test_a_submodule_that_was_not_checked_out_has_no_files(
    repository: str, tmp_path: os.PathLike[str]
) -> None:
    with_submodule(repository, str(tmp_path))
    git(repository, "submodule", "--quiet", "deinit", "--all", "--force")
    assert Git(repository).tracked_and_untracked([""]) == [".gitmodules"]
    assert Git(repository).tracked_and_untracked(["libs/one"]) == []


@pytest.mark.parametrize("inside", [False, True])
def test_no_program_of_a_repository_is_run(
    inside: bool, repository: str, tmp_path: os.PathLike[str], asked: list[Ignores]
) -> None:
    with_submodule(repository, str(tmp_path))
    script = f"{tmp_path}/evil.sh"
    write(str(tmp_path), **{"evil.sh": f"#!/bin/sh\ntouch {tmp_path}/pwned\n"})
    os.chmod(script, 0o755)
    target = f"{repository}/libs/one" if inside else repository
    git(target, "config", "core.fsmonitor", script)
    git(target, "config", "core.hooksPath", os.path.dirname(script))
    git(target, "status")
    assert os.path.exists(f"{tmp_path}/pwned"), "git itself would have run it"
    os.unlink(f"{tmp_path}/pwned")
    found = Git(repository)
    found.tracked_and_untracked(["", "libs/one"])
    found.tracked(["libs"])
    ignores(repository, asked).ignored(["libs/one/a", "a"])
    assert not os.path.exists(f"{tmp_path}/pwned")


def test_nothing_is_written_into_the_repository(repository: str, asked: list[Ignores]) -> None:
    write(repository, "a", "b")
    git(repository, "add", "a")
    os.utime(f"{repository}/a", (0, 0))  # the index is stale now: git status would rewrite it
    before = os.stat(f"{repository}/.git/index").st_mtime_ns, os.listdir(f"{repository}/.git")
    Git(repository).tracked_and_untracked([""])
    ignores(repository, asked).ignored(["a"])
    after = os.stat(f"{repository}/.git/index").st_mtime_ns, os.listdir(f"{repository}/.git")
    assert before == after


def test_variables_of_a_hook_do_not_lead_elsewhere(
    repository: str, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(repository, "a")
    git(str(tmp_path), "init", "-q", "--template=", "elsewhere")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, f"{tmp_path}/elsewhere")
    assert Git(repository).tracked_and_untracked([""]) == ["a"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_repository_of_another_user_is_listed(repository: str, asked: list[Ignores]) -> None:
    write(repository, "a", "b.log")
    ignore(repository, "*.log")
    for path in (repository, f"{repository}/.git"):
        os.chown(path, 12345, 12345)
    assert Git(repository).tracked_and_untracked([""]) == [".gitignore", "a"]
    assert ignores(repository, asked).ignored(["a", "b.log"]) == {"b.log"}


def test_a_machine_without_git(
    repository: str,
    tmp_path: os.PathLike[str],
    monkeypatch: pytest.MonkeyPatch,
    asked: list[Ignores],
) -> None:
    sample(repository)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not Git(repository).present
    assert "src/a.ts" in Git(repository).tracked_and_untracked([""])
    assert ignores(repository, asked).ignored(["a.log", "keep.log"]) == {"a.log"}


def test_a_broken_repository_is_an_error(repository: str) -> None:
    write(repository, **{".git/index": "this is no index"})
    with pytest.raises(UserError, match=r"git cannot list the files of .*index") as caught:
        Git(repository).tracked_and_untracked([""])
    assert caught.value.slug == "git-failed"
    assert "git status" in caught.value.hint


def test_paths_that_git_cannot_place_take_no_other_with_them(
    repository: str, asked: list[Ignores]
) -> None:
    write(repository, "src/a", "c.log")
    os.symlink("src", f"{repository}/link")
    os.symlink("src", f"{repository}/out")
    ignore(repository, "out", "*.log")
    paths = ["link/a", "c.log", "out/a", "../outside", "src/a", "gone/deep/d.log"]
    assert ignores(repository, asked).ignored(paths) == {"c.log", "out/a", "gone/deep/d.log"}


@pytest.mark.parametrize("with_git", [True, False])
def test_reset_reads_the_rules_anew(with_git: bool, root: str, asked: list[Ignores]) -> None:
    if with_git:
        git(root, "init", "-q", "--template=")
    write(root, "deep/a")
    one = ignores(root, asked)
    assert one.ignored(["deep/a"]) == set()
    ignore(root, "deep")
    one.reset()
    assert one.ignored(["deep/a"]) == {"deep/a"}
    assert one.ignored(["deep/a"]) == {"deep/a"}


def test_a_git_of_the_rules_and_one_of_the_index_answer_many_questions(
    repository: str, asked: list[Ignores]
) -> None:
    ignore(repository, "*.log")
    one = ignores(repository, asked)
    paths = [f"{'directory/' * 20}{n}.{'log' if n % 2 else 'txt'}" for n in range(2000)]
    for _ in range(3):
        assert one.ignored(paths) == {path for path in paths if path.endswith(".log")}
    assert len(one._talks) == 2


def test_a_helper_that_cannot_be_started() -> None:
    assert capture(["/no/such/program"], cwd="/").code == NOT_FOUND
    assert capture(["true"], cwd="/no/such/directory").code == NOT_FOUND
    with pytest.raises(ConversationError):
        Conversation(["/no/such/program"], cwd="/").ask(b"x", lambda _: True)


def test_a_helper_is_fed_and_heard() -> None:
    done = capture(["sh", "-c", "cat; echo $A >&2; exit 3"], cwd="/", stdin=b"x", env={"A": "b"})
    assert (done.code, done.out, done.err) == (3, b"x", b"b\n")


def test_a_conversation_that_breaks_off_can_be_begun_again() -> None:
    talk = Conversation(["sh", "-c", "read line; echo $line; read line"], cwd="/")
    assert talk.ask(b"one\n", lambda answer: answer.endswith(b"\n")) == b"one\n"
    with pytest.raises(ConversationError):
        talk.ask(b"two\n", lambda answer: answer.endswith(b"\n"))
    assert talk.ask(b"three\n", lambda answer: answer.endswith(b"\n")) == b"three\n"
    talk.close()
    talk.close()


def test_a_git_that_the_workspace_brings_is_never_run(
    repository: str, tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, inner = f"{tmp_path}/trapped", f"{repository}/inner"
    write(repository, "a.txt")
    git(repository, "init", "-q", "--template=", inner)
    write(inner, "b.txt")
    write(repository, **{"node_modules/.bin/git": f"#!/bin/sh\necho x > {trap}\n"})
    os.chmod(f"{repository}/node_modules/.bin/git", 0o755)
    monkeypatch.setenv("PATH", f"{repository}/node_modules/.bin:{os.environ['PATH']}")
    ignores = Ignores(repository)
    try:
        assert set(Git(repository).tracked_and_untracked([""])) == {"a.txt", "inner/b.txt"}
        assert ignores.ignored(["a.txt", "inner/b.txt"]) == set()
    finally:
        ignores.close()
    assert not os.path.exists(trap)


def test_a_listing_that_was_begun_before_is_that_of_its_root_alone(repository: str) -> None:
    write(repository, "a/1", "ab/2", "b/c/3", "4")
    git(repository, "add", "ab")
    listing = begin_listing(repository)
    with closing(listing.answer):
        write(repository, "a/late")
        wait_for(listing.answer.is_done, "the end of the listing")
        os.unlink(f"{repository}/a/1")
        found = Git(repository, listing=listing).tracked_and_untracked(["a", "b/c"])
    assert [path for path in found if path != "a/late"] == ["a/1", "b/c/3"]
    listing = begin_listing(repository)
    with closing(listing.answer):
        inner = Git(f"{repository}/b", listing=listing)
        assert inner.tracked_and_untracked([""]) == ["c/3"]


def test_a_repository_in_what_never_counts_is_not_listed(repository: str) -> None:
    inner = f"{repository}/node_modules/it"
    os.makedirs(inner)
    git(inner, "init", "-q", "--template=")
    write(inner, "1")
    assert Git(repository).tracked_and_untracked(["node_modules/it"]) == []
