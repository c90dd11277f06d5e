"""What a command in a real box can read, and what it cannot."""

import os
import shutil

import pytest

from tests.harness.boxes import Site, make_site, refused

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


class TestReading:
    def test_only_what_is_granted_shows(self, site: Site) -> None:
        site.write("app/src/a", "granted")
        site.write("app/secret", "hidden")
        site.write("ui/other", "hidden")
        ran = site.run("cat src/a; cat secret ../ui/other; ls; ls ..", read=("src/**",))
        assert ran.out == "grantedsrc\napp\n"
        assert ran.err.count("No such file") == 2

    def test_the_directories_that_lead_to_a_grant_are_open_to_look_into(self, site: Site) -> None:
        site.write("app/src/deep/a", "x")
        ran = site.run("stat -c %a .. . src src/deep", read=("src/deep/a",))
        assert ran.out.split() == ["755"] * 4

    def test_without_grants_the_project_is_an_empty_directory(self, site: Site) -> None:
        site.write("app/secret", "hidden")
        assert site.run("pwd; ls -A").out == site.path("app") + "\n"

    def test_missing_reads_are_no_error(self, site: Site) -> None:
        assert site.run("ls -A", read=("later/**", "~/.no-such", "x.json", "*.md")).out == ""

    def test_globs_and_names_that_look_like_globs(self, site: Site) -> None:
        for name in ("a.ts", "deep/b.ts", "c.md", "node_modules/d.ts", "pages/[id].tsx"):
            site.write(f"app/src/{name}", name)
        ran = site.run("find . -type f | sort", read=("src/**/*.ts", "src/pages/[id].tsx"))
        assert ran.out.split() == ["./src/a.ts", "./src/deep/b.ts", "./src/pages/[id].tsx"]

    def test_a_link_is_followed_to_what_it_names(self, site: Site) -> None:
        site.write("ui/real/x", "through")
        os.symlink("../ui/real", site.path("app/tools"))
        ran = site.run("cat tools/x; ls ../ui; readlink tools", read=("tools",))
        assert ran.out == "throughreal\n../ui/real\n"

    def test_a_glob_match_that_leads_out_of_its_directory_is_left_out(self, site: Site) -> None:
        site.write("app/secret", "hidden")
        site.write("app/src/a", "a")
        os.symlink("../secret", site.path("app/src/b"))
        assert site.run("cat src/a; cat src/b", read=("src/*",)).out == "a"

    def test_the_system_is_readable(self, site: Site) -> None:
        assert site.run("cat /etc/hosts >/dev/null && ls /usr/bin/env").code == 0

    def test_nested_projects_git_and_vx_stay_walled_unless_named(self, site: Site) -> None:
        for name in (".git/config", ".vx/cache", "ui/x", "ui/.git", "x"):
            site.write(name, name)
        found = site.run("find . -type f -size +0 | sort", "root", read=(".",)).out.split()
        assert found == ["./x"]
        found = site.run(
            "find . -type f -size +0 | sort", "root", read=(".", "ui", ".git/")
        ).out.split()
        assert found == ["./.git/config", "./ui/x", "./x"]

    def test_too_many_files_name_the_grant(self, site: Site) -> None:
        for number in range(201):
            site.write(f"app/src/{number}.ts")
        error = refused(site, read=("src/*.ts",))
        assert "read grant 'src/*.ts'" in error.message
        assert error.hint.endswith(site.path("app/src") + "/")

    def test_many_grants_together_are_refused_too(self, site: Site) -> None:
        for number in range(150):
            site.write(f"app/a/{number}")
            site.write(f"app/b/{number}")
        message = refused(site, read=("a/*", "b/*")).message
        assert "more than the 200" in message
        assert "'a/*' stands for 150 paths" in message


class TestBaseline:
    def test_modules_and_the_packages_behind_their_links(self, temp_home: str) -> None:
        root = os.path.join(temp_home, "linked")
        site = make_site(
            root + "/ws", ("app", "ui", "tokens", "other"), app=("ui",), ui=("tokens",)
        )
        for name in ("app/node_modules/dep/i.js", "node_modules/hoisted/i.js"):
            site.write(name, "js")
        for member in ("app", "ui", "tokens", "other"):
            site.write(f"{member}/own.js", member)
        os.makedirs(site.path("node_modules/@x"))
        os.symlink("../ui", site.path("node_modules/ui"))
        os.symlink("../../tokens", site.path("node_modules/@x/alias"))
        os.symlink("../other", site.path("node_modules/other"))
        os.symlink("../app", site.path("node_modules/app"))
        os.symlink("..", site.path("node_modules/root"))
        ran = site.run(
            "cat node_modules/dep/i.js ../node_modules/hoisted/i.js ../node_modules/ui/own.js"
            " ../node_modules/@x/alias/own.js; cat ../other/own.js own.js;"
            " touch node_modules/new ../ui/new"
        )
        shutil.rmtree(root)
        assert ran.out == "jsjsuitokens"
        assert ran.err.count("No such file") == 2
        assert ran.err.count("Read-only") == 2

    def test_the_virtual_environment_and_its_interpreter(self, site: Site) -> None:
        home = site.environ["HOME"]
        os.makedirs(f"{home}/python/bin")
        os.makedirs(f"{home}/python/lib")
        with open(f"{home}/python/bin/python3", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho interpreter\n")
        os.chmod(f"{home}/python/bin/python3", 0o755)
        os.symlink("python", f"{home}/current")
        site.write("app/.venv/pyvenv.cfg")
        site.write("app/.venv/lib/p.py", "p")
        os.makedirs(site.path("app/.venv/bin"))
        os.symlink(f"{home}/current/bin/python3", site.path("app/.venv/bin/python"))
        with open(f"{home}/key", "w", encoding="utf-8") as file:
            file.write("secret")
        ran = site.run(".venv/bin/python; cat .venv/lib/p.py; cat ~/key; ls ~")
        assert ran.out.split() == ["interpreter", "pcurrent", "python"]


class TestHomes:
    def test_both_homes_are_hidden(self, site: Site) -> None:
        import pwd

        real = pwd.getpwuid(os.getuid()).pw_dir
        with open(os.path.join(site.environ["HOME"], "key"), "w", encoding="utf-8") as file:
            file.write("secret")
        ran = site.run(f"cat ~/key; ls -A {real}; touch {real}/x ~/x")
        assert "secret" not in ran.out
        assert ".ssh" not in ran.out
        assert ran.err.count("cannot touch") == 2

    def test_programs_on_path_show_with_their_root_alone(self, site: Site) -> None:
        home = site.environ["HOME"]
        os.makedirs(f"{home}/.volta/bin")
        os.makedirs(f"{home}/.volta/tools")
        os.makedirs(f"{home}/.aws")
        with open(f"{home}/.volta/tools/real", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho tool\n")
        os.chmod(f"{home}/.volta/tools/real", 0o755)
        os.symlink("../tools/real", f"{home}/.volta/bin/mytool")
        site.environ["PATH"] = f"{home}/.volta/bin:{site.environ['PATH']}"
        assert site.run("mytool; ls -A ~").out == "tool\n.volta\n"

    def test_of_another_checkout_on_path_only_the_programs_show(self, site: Site) -> None:
        home = site.environ["HOME"]
        for name in ("other/.git", "other/bin", "other/lib", "tool/bin", "tool/lib"):
            os.makedirs(f"{home}/{name}")
        site.environ["PATH"] = f"{home}/other/bin:{home}/tool/bin:{site.environ['PATH']}"
        ran = site.run("ls ~/other ~/tool")
        assert ran.out.split() == [f"{home}/other:", "bin", f"{home}/tool:", "bin", "lib"]

    def test_a_grant_opens_a_part_of_the_home(self, site: Site) -> None:
        home = site.environ["HOME"]
        os.makedirs(f"{home}/.cache/x")
        os.makedirs(f"{home}/.cache/y")
        ran = site.run("touch ~/.cache/x/new; ls ~/.cache", write=("~/.cache/x/",))
        assert ran.out == "x\n"
        assert os.path.exists(f"{home}/.cache/x/new")
