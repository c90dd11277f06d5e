"""Files that are granted one by one: how they are saved, and what is beside them all the same."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys

import pytest

from tests.harness.boxes import Site, live, refused
from tests.harness.waiting import wait_for
from vxwatch.errors import UserError
from vxwatch.model import Sandbox, Task
from vxwatch.sandbox import desks

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

SAVE = "echo new > .conf.tmp && mv .conf.tmp conf.json"


def text(site: Site, path: str) -> str:
    with open(site.path(path), encoding="utf-8") as file:
        return file.read()


def saved(site: Site, command: str = SAVE, **grants: tuple[str, ...]) -> None:
    ran = site.run(command, **grants)
    assert (ran.code, ran.err) == (0, "")
    assert text(site, "app/conf.json") == "new\n"
    assert not os.path.exists(site.path(".vx"))


class TestSaves:
    @pytest.mark.parametrize("reads", [(), ("src",), (".",), ("conf.json",)])
    @pytest.mark.parametrize("there", [True, False])
    def test_by_a_rename(self, site: Site, reads: tuple[str, ...], there: bool) -> None:
        site.write("app/src/a")
        if there:
            site.write("app/conf.json", "old")
        saved(site, read=reads, write=("conf.json",))
        assert sorted(os.listdir(site.path("app"))) == ["conf.json", "src"]

    def test_in_place_which_keeps_the_file(self, site: Site) -> None:
        before = os.stat(site.write("app/conf.json", "old")).st_ino
        saved(site, "echo new > conf.json", write=("conf.json",))
        after = os.stat(site.path("app/conf.json"))
        assert (after.st_ino, after.st_nlink) == (before, 1)

    def test_by_removing_it_first(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        saved(site, "rm conf.json && echo new > conf.json", write=("conf.json",))

    def test_of_several_in_nested_directories(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        site.write("app/d/e/x", "old")
        save = f"{SAVE} && cd d/e && echo new > t && mv t x && cd .. && echo new > y"
        saved(site, save, read=("d",), write=("conf.json", "d/e/x", "d/y"))
        assert (text(site, "app/d/e/x"), text(site, "app/d/y")) == ("new\n", "new\n")

    def test_in_a_directory_that_is_not_there(self, site: Site) -> None:
        ran = site.run("cd d/e && echo new > t && mv t x", write=("d/e/x",))
        assert (ran.code, ran.err) == (0, "")
        assert os.listdir(site.path("app/d/e")) == ["x"]

    def test_beside_a_writable_directory(self, site: Site) -> None:
        saved(site, f"{SAVE}; echo 1 > out/o", write=("out/", "conf.json"))
        assert text(site, "app/out/o") == "1\n"

    def test_inside_of_a_writable_directory(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        saved(site, f"{SAVE}; echo 1 > more", write=(".", "conf.json"))
        assert os.path.exists(site.path("app/more"))

    def test_what_is_removed_is_removed(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        site.run("rm conf.json", write=("conf.json",))
        assert os.listdir(site.path("app")) == []

    def test_a_mode_that_is_set_lands(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        saved(site, f"{SAVE}; chmod 700 conf.json", write=("conf.json",))
        assert os.stat(site.path("app/conf.json")).st_mode & 0o777 == 0o700

    def test_beside_a_thousand_names_and_links(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        for number in range(1000):
            site.write(f"app/{number}")
        os.symlink("conf.json", site.path("app/link"))
        saved(site, f"{SAVE}; test ! -e link", write=("conf.json",))
        assert os.path.islink(site.path("app/link"))

    def test_in_the_home(self, site: Site) -> None:
        home = site.environ["HOME"]
        os.makedirs(f"{home}/.ssh")
        ran = site.run(
            "cd; ls -A; echo 1 > t && mv t .conf; echo 2 > .bash_login", write=("~/.conf",)
        )
        assert ".ssh" not in ran.out
        assert sorted(os.listdir(home)) == [".conf", ".ssh"]

    def test_of_what_vx_obeys_if_it_is_named(self, site: Site) -> None:
        site.write("app/package.json", "old")
        saved(site, f"{SAVE}; echo x > package.json", write=("conf.json", "package.json"))
        assert text(site, "app/package.json") == "x\n"

    @pytest.mark.parametrize("events", [desks._EVENTS, 0])
    def test_while_it_runs(self, site: Site, events: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(desks, "_EVENTS", events)  # the kernel refuses to watch for nothing
        site.write("app/conf.json", "old")

        async def serve() -> None:
            command = f"{SAVE}; echo more >> conf.json; echo up; sleep 60"
            async with site.boxed(command, "app", Sandbox(write=("conf.json",))) as alive:
                await alive.says("up")
                await asyncio.to_thread(
                    wait_for, lambda: text(site, "app/conf.json") == "new\nmore\n", "it is saved"
                )

        asyncio.run(serve())

    def test_what_lands_last_wins_and_a_change_of_the_users_is_kept(self, site: Site) -> None:
        site.write("app/conf.json", "old")

        async def both() -> None:
            async with site.session() as (nursery, runtime):
                task = Task("app", "a", command="cat", sandbox=Sandbox(write=("conf.json",)))
                box = await runtime.box(task, "true", site.environ, "null")
                assert box.replaced() is None
                site.write("app/other", "theirs")
                os.rename(site.path("app/other"), site.path("app/conf.json"))
                assert box.replaced() == site.path("app/conf.json")
                await box.close()
                assert text(site, "app/conf.json") == "theirs"
                async with live(nursery, runtime, task, site.environ) as alive:
                    await alive.end()

        asyncio.run(both())
        assert text(site, "app/conf.json") == "theirs"


class TestOddNames:
    @pytest.mark.parametrize("directory", ["a [b]", "x*y", "new\nline", "by\udcffte", "-rf", "ü"])
    @pytest.mark.parametrize("reads", [(), (".",)])
    def test_a_file_in_it_is_saved_and_nothing_else(
        self, site: Site, directory: str, reads: tuple[str, ...]
    ) -> None:
        name = f"{directory}/c[1] {directory}"
        site.write(f"app/{name}", "old")
        site.write("app/a b/c", "theirs")
        save = "cd -- [!a]* 2> /dev/null || cd 'a [b]'; for f in c*; do echo new > t; mv t \"$f\"; done"
        ran = site.run(f"{save}; echo x > other; true", read=reads, write=(name,))
        assert (ran.code, ran.err) == (0, "")
        assert text(site, f"app/{name}") == "new\n"
        assert len(os.listdir(site.path(f"app/{directory}"))) == 1
        assert text(site, "app/a b/c") == "theirs"

    def test_a_link_to_a_file_is_written_where_it_leads(self, site: Site) -> None:
        site.write("app/d/conf.json", "old")
        os.symlink("d/conf.json", site.path("app/link"))
        ran = site.run(
            "echo new > link; cd d; echo more > t; cat conf.json >> t; mv t conf.json",
            write=("link",),
        )
        assert (ran.code, ran.err) == (0, "")
        assert text(site, "app/link") == "more\nnew\n"
        assert os.path.islink(site.path("app/link"))
        assert os.listdir(site.path("app/d")) == ["conf.json"]

    def test_a_link_to_nothing_makes_what_it_leads_to(self, site: Site) -> None:
        os.symlink("none", site.path("app/link"))
        assert site.run("echo new > link", write=("link",)).err == ""
        assert text(site, "app/none") == "new\n"

    def test_a_special_file_is_itself(self, site: Site) -> None:
        os.mkfifo(site.path("app/pipe"))
        ran = site.run("exec 3<> pipe; echo new >&3; read x <&3; echo $x", write=("pipe",))
        assert ran.out == "new\n"
        assert os.listdir(site.path("app")) == ["pipe"]


class TestNeighbours:
    ATTACK = (
        "cat secret; ls src; for f in secret src/a link; do echo bad > $f; rm -f $f; done;"
        " rm -rf src; mv src s; mv secret t; echo bad > tmp && mv tmp secret;"
        " ln -sf bad link; mv link l; mkdir -p src; echo bad > src/a; true"
    )

    @pytest.mark.parametrize("reads", [(), (".",), ("src",)])
    def test_are_safe(self, site: Site, reads: tuple[str, ...]) -> None:
        site.write("app/conf.json", "old")
        site.write("app/secret", "hidden")
        site.write("app/src/a", "a")
        os.symlink("src/a", site.path("app/link"))
        ran = site.run(self.ATTACK, read=reads, write=("conf.json",))
        assert ("hidden" in ran.out) == (reads == (".",))
        assert sorted(os.listdir(site.path("app"))) == ["conf.json", "link", "secret", "src"]
        assert text(site, "app/secret") == "hidden"
        assert (text(site, "app/src/a"), os.readlink(site.path("app/link"))) == ("a", "src/a")
        assert text(site, "app/conf.json") == "old"

    def test_a_link_that_can_be_read_is_there(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        site.write("app/src/a", "a")
        os.symlink("src", site.path("app/link"))
        assert site.run("cat link/a", read=(".",), write=("conf.json",)).out == "a"

    def test_a_name_that_is_not_there_cannot_be_made(self, site: Site) -> None:
        site.write("app/conf.json", "old")
        site.run(
            "echo x > .envrc; echo x > vx.toml; mkdir .vscode .git .vx sub; echo x > sub/vx.toml;"
            " echo x > package.json; mkfifo pipe; ln -s / root; mv conf.json other",
            write=("conf.json",),
        )
        assert os.listdir(site.path("app")) == []

    def test_no_other_kind_of_thing_takes_its_place(self, site: Site) -> None:
        for command in ("ln -sf /etc/passwd conf.json", "rm conf.json; mkdir conf.json"):
            site.write("app/conf.json", "old")
            site.run(command, write=("conf.json",))
            assert not os.path.islink(site.path("app/conf.json"))
            assert not os.path.isdir(site.path("app/conf.json"))


class TestRefusals:
    def test_too_much_to_read_beside_it(self, site: Site) -> None:
        for number in range(220):
            site.write(f"app/d/{number}")
        error = refused(site, read=("d",), write=("d/0",))
        assert f"219 names of {site.path('app/d')}/ can be read" in error.message
        assert f"grant the directory: {site.path('app/d')}/" in error.hint

    @pytest.mark.parametrize("access", ["read", "write"])
    @pytest.mark.parametrize("spelling", ["file/", "file/**"])
    def test_a_file_that_is_called_a_directory(
        self, site: Site, access: str, spelling: str
    ) -> None:
        site.write("app/file", "old")
        error = refused(site, **{access: (spelling,)})
        assert f"{access} grant {spelling!r} means a directory" in error.message
        assert site.run("ls", deny_read=(spelling,), read=(".",)).code == 0

    def test_a_file_in_a_file(self, site: Site) -> None:
        site.write("app/file", "old")
        for name in ("file/x", "file/x/", "file/x/y"):
            error = refused(site, write=(name,))
            assert f"write grant {name!r} cannot be given" in error.message
        assert text(site, "app/file") == "old"

    def test_a_file_called_by_a_grant_of_a_directory_that_is_there(self, site: Site) -> None:
        site.write("app/out/a")
        site.run("echo x > out/b", write=("out",))
        assert sorted(os.listdir(site.path("app/out"))) == ["a", "b"]

    @pytest.mark.parametrize("path", ["/", "/proc", "/sys", "/dev", "/dev/vx-x", "/proc/vx-x"])
    def test_what_each_box_has_of_its_own(self, site: Site, path: str) -> None:
        assert f"write grant {path!r} cannot be given" in refused(site, write=(path,)).message

    def test_a_temporary_directory_of_the_box(self, site: Site) -> None:
        error = refused(site, write=("/tmp/vx-x.json",))
        assert "/tmp of its own" in error.message
        assert not os.path.exists("/tmp/vx-x.json")


class TestDenied:
    @pytest.mark.parametrize("there", [True, False])
    @pytest.mark.parametrize("deny", ["deny_write", "deny_read"])
    @pytest.mark.parametrize("name", ["conf.json", "d/conf.json", "d/"])
    def test_what_is_denied_is_not_written_whether_it_is_there_or_not(
        self, site: Site, there: bool, deny: str, name: str
    ) -> None:
        if there:
            site.write(f"app/{name}x" if name[-1] == "/" else f"app/{name}", "old")
        before = sorted(os.walk(site.path("app")))
        command = f"mkdir -p d; for f in {name} d/x; do echo bad > $f; echo bad > t; mv t $f; done"
        for denied in {name, name.split("/", maxsplit=1)[0]}:
            site.run(command, write=(name,), **{deny: (denied,)})
            assert sorted(os.walk(site.path("app"))) == before
        for directory, _, files in before:
            assert {text(site, os.path.join(directory, file)) for file in files} <= {"old"}

    @pytest.mark.parametrize("there", [True, False])
    @pytest.mark.parametrize(
        ("glob", "name"),
        [("*.json", "conf.json"), ("**/c*", "d/conf.json"), ("d*", "d/conf.json"), ("o*", "out/")],
    )
    def test_a_glob_denies_what_is_not_there(
        self, site: Site, there: bool, glob: str, name: str
    ) -> None:
        if there:
            site.write(f"app/{name}x" if name[-1] == "/" else f"app/{name}", "old")
        before = sorted(os.walk(site.path("app")))
        site.run(
            f"mkdir -p d; echo bad > {name}; echo bad > {name}y", write=(name,), deny_write=(glob,)
        )
        assert sorted(os.walk(site.path("app"))) == before
        assert site.run(f"echo ok > {name}k", write=(f"{name}k",), deny_write=("x*",)).code == 0


class TestWhereTheDeskIs:
    def test_beside_the_file_where_the_root_is_another_mount(self, site: Site) -> None:
        """The desk of a file must lie on its mount, and go when the box does."""
        site.write("app/d/conf.json", "old")
        save = "cd d && echo new > t && mv t conf.json; rm -rf .vx"
        program = (
            "import asyncio, os, sys\n"
            "from tests.harness.boxes import make_site\n"
            f"site = make_site({site.root!r})\n"
            f"print(site.run({save!r}, write=('d/conf.json',)))\n"
            f"assert os.listdir({site.path('app/d')!r}) == ['conf.json']\n"
            f"assert not os.path.exists({site.path('.vx')!r})\n"
        )
        mount = 'mount --bind "$0" "$0" && exec "$@"'
        own = ["unshare", "--mount", "--map-root-user"] if os.geteuid() else ["unshare", "--mount"]
        where = site.path("app/d")
        command = [*own, "sh", "-c", mount, where, sys.executable, "-c", program]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert text(site, "app/d/conf.json") == "new\n", done.stdout

    def test_not_behind_a_link(self, site: Site) -> None:
        os.makedirs(site.path("../elsewhere"))
        os.symlink("../elsewhere", site.path(".vx"))
        site.write("app/conf.json", "old")
        before = os.stat(site.path("../elsewhere")).st_mtime_ns
        assert site.run(SAVE, write=("conf.json",)).code == 0
        assert text(site, "app/conf.json") == "new\n"
        assert os.listdir(site.path("app")) == ["conf.json"]
        assert os.stat(site.path("../elsewhere")).st_mtime_ns == before

    @pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
    def test_who_may_not_put_a_file_there_does_not(self, site: Site) -> None:
        site.write("app/d/conf.json", "old")
        for path in (site.root, site.path("app"), site.path("app/d/conf.json")):
            os.chown(path, 65534, 65534)
        save = "echo in-place > d/conf.json; cd d; echo new > t && mv t conf.json"
        with pytest.raises(UserError, match=r"could not be saved in .*: Permission denied"):
            asyncio.run(self._reported(site, save))
        assert text(site, "app/d/conf.json") == "in-place\n"

    async def _reported(self, site: Site, command: str) -> None:
        async with site.session() as (nursery, runtime):
            sandbox = Sandbox(write=("d/conf.json",))
            task = Task("app", "t", command=command, sandbox=sandbox)
            box = await runtime.box(task, command, site.environ, "null")
            try:
                tree = await nursery.launch(box.launch, _ignore)
                await box.open(tree)
                end = await tree.wait()
                await box.report(end.code)
            finally:
                await box.close()


async def _ignore(*_: object) -> None:
    return


def test_nothing_is_left_after_a_kill(site: Site) -> None:
    site.write("app/conf.json", "old")
    program = (
        "import asyncio, os, signal\n"
        "from tests.harness.boxes import make_site\n"
        "from vxwatch.model import Sandbox\n"
        "async def main():\n"
        f"    site = make_site({site.root!r})\n"
        "    command = 'echo x > stray; echo new > conf.json; echo up; sleep 60'\n"
        "    async with site.boxed(command, 'app', Sandbox(write=('conf.json',))) as live:\n"
        "        await live.says('up')\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False)
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not os.path.exists(site.path(".vx")), "the desk is gone")
    assert os.listdir(site.path("app")) == ["conf.json"]
    assert text(site, "app/conf.json") == "new\n"
