"""Tasks that go for files which are not theirs: each attempt is real, and fails."""

import asyncio
import os
import shutil
import subprocess
import sys

import pytest

from tests.harness.boxes import Site, live, refused, with_config
from tests.harness.hostile import Attacker, attackers
from vxwatch.errors import UserError
from vxwatch.model import Sandbox, Task
from vxwatch.sandbox.opening import open_real

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


@pytest.fixture(params=attackers())
def attacker(site: Site, request: pytest.FixtureRequest) -> Attacker:
    return Attacker(site, request.param)


def put(site: Site, *names: str) -> None:
    for name in names:
        site.write(name, "old")


def text(site: Site, name: str) -> str:
    with open(site.path(name), encoding="utf-8") as file:
        return file.read()


class TestWhatIsKept:
    def test_files_that_tools_obey(self, attacker: Attacker) -> None:
        site = attacker.site
        files = (
            *("app/vx.toml", "app/deep/er/vx.toml", "app/.git/hooks/pre-commit", "app/.envrc"),
            *("app/.vscode/tasks.json", "app/.bashrc", "app/.vx/cache/key"),
        )
        put(site, *files, "app/free", "app/deep/other")
        with_config(site, "app/vx.toml", "app/deep/er/vx.toml")
        attempts = {
            "write": "write('vx.toml')",
            "remove": "os.remove('vx.toml')",
            "replace": "write('new'); os.rename('new', 'vx.toml')",
            "exchange": "must(libc.renameat2(-100, b'free', -100, b'vx.toml', 2))",
            "link-over": "os.symlink('free', 'l'); os.rename('l', 'vx.toml')",
            "hard-link": "os.link('vx.toml', 'h')",
            "parent": "os.rename('deep/er', 'deep/was')",
            "grandparent": "os.rename('deep', 'was')",
            "hook": "write('.git/hooks/pre-commit')",
            "git": "os.rename('.git', 'g')",
            "envrc": "write('.envrc')",
            "editor": "write('.vscode/tasks.json')",
            "editor-new": "write('.vscode/new.json')",
            "editor-away": "os.rename('.vscode', 'v')",
            "shell": "os.remove('.bashrc')",
            "cache": "write('.vx/cache/key')",
            "mode": "os.chmod('vx.toml', 0o777)",
            "times": "os.utime('vx.toml')",
            "free": "write('free', 'new'); write('deep/other', 'new'); write('deep/er/new')",
        }
        told = attacker.tries(attempts, write=(".",))
        assert told.pop("free") == "ok"
        assert told.pop("cache") in {"ENOENT", "EROFS"}
        assert told.pop("hook") in {"ENOENT", "EROFS"}
        assert set(told.values()) <= {"EROFS", "EBUSY", "EXDEV"}, told
        assert {name: text(site, name) for name in files} == dict.fromkeys(files, "old")
        real = {name: attempts[name] for name in ("exchange", "hard-link", "grandparent", "envrc")}
        assert attacker.outside(real) == dict.fromkeys(real, "ok")

    def test_a_repository_that_is_named_keeps_its_hooks(self, attacker: Attacker) -> None:
        site = attacker.site
        subprocess.run(["git", "init", "-q", "--template=", site.path("app")], check=True)
        put(site, "app/.git/hooks/pre-commit", "app/.git/config.worktree")
        attempts = {
            "hook": "write('.git/hooks/pre-commit')",
            "new-hook": "write('.git/hooks/post-checkout')",
            "hooks-away": "os.rename('.git/hooks', '.git/h')",
            "config": "write('.git/config')",
            "worktree": "write('.git/config.worktree')",
            "replace": "write('.git/c'); os.rename('.git/c', '.git/config')",
            "info": "write('.git/info/attributes')",
            "modules": "os.makedirs('.git/modules/x')",
            "index": "write('.git/index')",
        }
        told = attacker.tries(attempts, write=(".", ".git/"))
        assert told.pop("index") == "ok"
        assert set(told.values()) <= {"EROFS", "EBUSY"}, told
        assert not os.path.exists(site.path("app/.git/info"))
        opened = attacker.tries(attempts, write=(".", ".git/"), git_config=True)
        assert {opened[name] for name in ("hook", "config", "worktree", "replace")} == {"ok"}

    def test_what_cannot_be_mounted_is_told(self, site: Site) -> None:
        put(site, "app/vx.toml", "app/real.envrc")
        os.link(site.path("app/vx.toml"), site.path("app/alias"))
        os.symlink("real.envrc", site.path("app/.envrc"))
        with_config(site, "app/vx.toml")

        async def born(command: str) -> list[str]:
            task = Task("app", "t", command=command, sandbox=Sandbox(write=(".",)))
            async with (
                site.session() as (nursery, runtime),
                live(nursery, runtime, task, site.environ) as alive,
            ):
                await alive.end()
                return [path.removeprefix(site.path("app/")) for path in runtime.held()]

        assert asyncio.run(born("echo > free; echo > real.envrc || true")) == []
        assert asyncio.run(born("echo new > alias")) == ["vx.toml"]
        assert asyncio.run(born("rm .envrc; echo new > .envrc")) == [".envrc"]
        assert asyncio.run(born("mkdir .git; echo > .npmrc")) == [".git", ".npmrc"]


class TestDenied:
    def test_what_is_denied_is_taken_back(self, attacker: Attacker) -> None:
        site = attacker.site
        put(site, "app/src/a", "app/src/key.pem", "app/secret/x", "app/keep/x", "app/keep/y/z")
        attempts = {
            "src": "read('src/a')",
            "glob": "assert read('src/key.pem')",
            "directory": "read('secret/x')",
            "below": "read('secret/sub')",
            "kept": "write('keep/x')",
            "kept-new": "write('keep/y/n')",
            "kept-away": "os.rename('keep', 'k')",
            "kept-read": "read('keep/x')",
            "free": "write('free')",
        }
        told = attacker.tries(
            attempts,
            read=("secret/x",),
            write=(".", "keep/y/", "secret/sub/"),
            deny_read=("**/*.pem", "secret", "no/such"),
            deny_write=("keep/", "none/"),
        )
        assert told == {
            "src": "ok",
            "glob": "nothing",
            "directory": "ENOENT",
            "below": "ENOENT",
            "kept": "EROFS",
            "kept-new": "EROFS",
            "kept-away": "EBUSY",
            "kept-read": "ok",
            "free": "ok",
        }
        assert sorted(os.listdir(site.path("app"))) == ["free", "keep", "secret", "src"]

    def test_the_project_itself_may_be_denied(self, site: Site) -> None:
        put(site, "app/a", "ui/b")
        ran = site.run("pwd; ls -A; ls -A ../ui", read=("../",), deny_read=(".", "../ui"))
        assert ran.out.split() == [site.path("app")]
        ran = site.run("ls -A; touch x", write=("../",), deny_write=(".",))
        assert (ran.out.split(), ran.code) == (["a"], 1)

    def test_a_link_is_denied_with_what_it_leads_to(self, site: Site) -> None:
        put(site, "app/real/key")
        os.symlink("real", site.path("app/keys"))
        assert site.run("cat real/key keys/key", read=(".",), deny_read=("keys",)).out == ""

    def test_the_scratch_is_no_place_of_the_hosts(self, site: Site) -> None:
        assert site.run("echo x > /tmp/x && cat /tmp/x", deny_read=("/tmp",)).out == "x\n"


class TestRaces:
    def test_a_way_that_is_swapped_for_a_link_leads_nowhere(self, site: Site) -> None:
        put(site, "secret/in/key", "app/a/in/key")
        os.symlink("../secret", site.path("app/b"))
        swaps = "import ctypes, sys\nswap = ctypes.CDLL(None).renameat2\nwhile not"
        swaps += " swap(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2): pass"
        outcomes: list[str] = []
        swapping = subprocess.Popen(
            [sys.executable, "-c", swaps, site.path("app/a"), site.path("app/b")]
        )
        try:
            for _ in range(12):
                try:
                    outcomes.append(site.run("cat a/in/key", write=("a/in/",)).out)
                    outcomes.append(site.run("echo new > a/in/key", write=("a/in/",)).out)
                except UserError as error:
                    outcomes.append(error.slug)
        finally:
            swapping.kill()
            swapping.wait()
        assert set(outcomes) <= {"old", "new\n", "", "sandbox-grant"}, outcomes
        assert os.listdir(site.path("secret/in")) == ["key"]
        assert text(site, "secret/in/key") == "old"

    @pytest.mark.parametrize("path", ["app/link", "app/link/in", "app/link/in/key"])
    def test_nothing_is_opened_through_a_link(self, site: Site, path: str) -> None:
        put(site, "secret/in/key")
        os.symlink("../secret", site.path("app/link"))
        with pytest.raises(NotADirectoryError):
            open_real(site.path(path))
        os.close(open_real(site.path(path.replace("app/link", "secret"))))

    def test_another_tasks_temporary_files_are_not_there(self, site: Site) -> None:
        async def both() -> str:
            first = Task("app", "a", command="echo s > $TMPDIR/s; echo up; cat", sandbox=Sandbox())
            look = "find / -xdev -name s -path '*vx-*' 2>/dev/null; ls /tmp /var/tmp"
            second = Task("app", "b", command=look, sandbox=Sandbox())
            async with (
                site.session() as (nursery, runtime),
                live(nursery, runtime, first, site.environ) as one,
            ):
                await one.says("up")
                async with live(nursery, runtime, second, site.environ) as other:
                    return (await other.end()).out

        out = asyncio.run(both())
        assert "/s\n" not in out
        assert len([line for line in out.splitlines() if line.startswith("vx-")]) <= 1


class TestOddNames:
    @pytest.mark.parametrize(
        "name", ["a [b]", "x*y", "new\nline", "q?{1,2}\\", "by\udcffte", "-rf", "ü"]
    )
    def test_a_workspace_of_any_name_is_walled_alike(self, temp_home: str, name: str) -> None:
        from tests.harness.boxes import make_site

        site = make_site(os.path.join(temp_home, "odd", name), ("app", "ui"))
        put(site, "app/src/a", "app/secret", "ui/other")
        ran = site.run(
            "cat src/a; cat secret ../ui/other; echo n > out/n; echo n > src/n; ls",
            read=("src",),
            write=("out/",),
        )
        shutil.rmtree(os.path.join(temp_home, "odd"))
        assert ran.out == "oldout\nsrc\n"

    @pytest.mark.parametrize("name", ["[id]", "a*b", "new\nline", "by\udcffte"])
    def test_a_grant_of_any_name_is_no_wider(self, site: Site, name: str) -> None:
        put(site, f"app/{name}/x", "app/i/x", "app/acb/x")
        ran = site.run("ls | wc -l; cat */x", read=(f"{name}/",))
        assert ran.out == f"{1 + name.count(chr(10))}\nold"

    def test_a_project_with_such_a_name_is_its_own(self, site: Site) -> None:
        project = site.workspace.projects["app"]._replace(dir="pa[c]k")
        put(site, "pa[c]k/x", "pack/x")
        projects = {**site.workspace.projects, "app": project}
        site.workspace = site.workspace._replace(projects=projects)
        assert site.run("cat x; ls ..; cat ../pack/x", read=(".",)).out == "oldpa[c]k\n"


class TestBudget:
    def test_many_protected_paths_in_a_grant_name_it(self, site: Site) -> None:
        names = [f"app/{number}/sub/vx.toml" for number in range(120)]
        put(site, *names)
        with_config(site, *names)
        error = refused(site, write=(".",))
        assert "in write grant '.'" in error.message
        assert "more than the 200" in error.message

    @pytest.mark.parametrize("access", ["read", "write", "deny_read", "deny_write"])
    @pytest.mark.parametrize("kind", ["file", "directory"])
    @pytest.mark.parametrize("spelling", ["glob", "names", "globs"])
    def test_many_paths_name_their_directory(
        self, site: Site, access: str, kind: str, spelling: str
    ) -> None:
        names = [f"{letter}{number}" for letter in "ab" for number in range(105)]
        for name in names:
            put(site, f"app/d/{name}{'/x' if kind == 'directory' else ''}")
        texts = {"glob": ["d/*"], "globs": ["d/a*", "d/b*"], "names": [f"d/{n}" for n in names]}
        around = {"write": (".",)} if access == "deny_write" else {"read": (".",)}
        beside = {} if access in {"read", "write"} else around
        if (access, kind, spelling) in {("write", "file", "names"), ("write", "file", "globs")}:
            assert site.run("true", write=tuple(texts[spelling])).code == 0  # they lie on one desk
            return
        error = refused(site, **beside, **{access: tuple(texts[spelling])})
        assert f"{site.path('app/d')}/" in error.hint
        assert ("name" if "deny" in access else "grant") in error.hint

    def test_a_session_goes_on_after_it(self, site: Site) -> None:
        put(site, *(f"app/d/{number}" for number in range(300)))
        refused(site, read=("d/*",))
        assert site.run("ls d | wc -l", read=("d",)).out == "300\n"
