"""git in a real box: from a project below the repository, in a worktree, and what stays closed."""

import os
import shutil
import subprocess

import pytest

from tests.harness.boxes import Site
from tests.harness.hostile import Attacker, attackers

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]
GIT = "git -c user.name=a -c user.email=a@example.invalid"


@pytest.fixture(params=attackers())
def somebody(site: Site, request: pytest.FixtureRequest) -> Attacker:
    return Attacker(site, request.param)


def git(site: Site, *words: str) -> None:
    subprocess.run([*GIT.split(), "-C", site.root, *words], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def repository(site: Site) -> None:
    git(site, "init", "-q", "--template=", "-b", "main", ".")
    site.write("app/src/a", "a")
    git(site, "add", ".")
    git(site, "commit", "-q", "-m", "first")


@pytest.mark.usefixtures("repository")
def test_a_project_below_a_repository_that_is_named_finds_it(somebody: Attacker) -> None:
    ran = somebody.run("git log --format=%s; git status --short .", read=(".", "../.git/"))
    assert (ran.out, ran.code) == ("first\n", 0), ran
    unnamed = somebody.run("git log --format=%s", read=(".",))
    assert "first" not in unnamed.out
    assert unnamed.code != 0


@pytest.mark.usefixtures("repository")
def test_a_commit_is_made_and_a_hook_is_not(somebody: Attacker) -> None:
    script = (
        f"echo b > src/a && {GIT} commit -q -a -m second; echo $?;"
        " echo x > ../.git/hooks/post-commit; git config core.fsmonitor x; git log --format=%s"
    )
    ran = somebody.run(script, write=(".", "../.git/"))
    assert ran.out.split() == ["0", "second", "first"], ran
    assert not os.path.exists(somebody.site.path(".git/hooks"))
    with open(somebody.site.path(".git/config"), encoding="utf-8") as file:
        assert "fsmonitor" not in file.read()
    ran = somebody.run("git config a.b c; git config a.b", write=(".", "../.git/"), git_config=True)
    assert ran.out == "c\n"


@pytest.mark.usefixtures("repository")
def test_a_worktree_leads_to_its_repository(somebody: Attacker, temp_home: str) -> None:
    site = somebody.site
    tree = os.path.join(os.path.dirname(site.root), "tree")
    git(site, "worktree", "add", "-q", tree)
    from tests.harness.boxes import make_site

    there = make_site(tree)
    somebody.own()
    worker = Attacker(there, somebody.is_user)
    script = f"echo b > src/a && {GIT} commit -q -a -m second; git log --format=%s; cat ../.git"
    ran = worker.run(script, write=(".", "../.git"))
    assert ran.out.split()[:2] == ["second", "first"], ran
    shut = worker.run(f"ls {site.root}/app; echo gitdir: / > ../.git", write=(".", "../.git"))
    assert shut.out == ""
    assert "Read-only" in shut.err
