"""What `vx watch` uses while nothing happens: CPU, memory, inotify watches.

    python bench/idle.py [--seconds 20]

The workspace has 3,000 files in 300 directories, 30,000 more in a node_modules that git
ignores, ten tasks and two servers. The servers are `sleep`: what they use is not counted, what
vx and its helpers use is.
"""

import glob
import os
import subprocess
import time
from collections.abc import Collection

import measure
import psutil
import workspace

DIRECTORIES, FILES_EACH = 300, 10
IGNORED_DIRECTORIES, IGNORED_EACH = 600, 50
TASKS = [f"task{i}" for i in range(10)]
SERVERS = ["server0", "server1"]
ROLES = {"nursery_main": "its nursery", "check-ignore": "git, asked what is ignored"}
"""What a word of a helper's command line says it is."""

TASK = """
[tasks.task{i}]
command = "true"
cache = {{ inputs = ["src/d{i}*/**"] }}
"""
SERVER = """
[tasks.server{i}]
command = "exec sleep 1000"
persistent = {{}}
"""


def make(root: str) -> None:
    """Write the workspace and commit it."""
    config = [TASK.format(i=i) for i in range(len(TASKS))]
    config += [SERVER.format(i=i) for i in range(len(SERVERS))]
    workspace.write(f"{root}/vx.toml", "".join(config))
    workspace.write(f"{root}/package.json", '{"name": "idle", "private": true}')
    workspace.write(f"{root}/.gitignore", "node_modules\n")
    fill(f"{root}/src", DIRECTORIES, FILES_EACH)
    fill(f"{root}/node_modules", IGNORED_DIRECTORIES, IGNORED_EACH)
    workspace.commit(root)


def fill(directory: str, directories: int, each: int) -> None:
    """Make a tree of small files."""
    for i in range(directories):
        os.makedirs(f"{directory}/d{i}")
        for j in range(each):
            with open(f"{directory}/d{i}/f{j}.js", "w", encoding="ascii") as file:
                file.write(f"export const f{j} = {i};\n")


def watches(processes: Collection[psutil.Process]) -> int:
    """How many inotify watches they hold."""
    count = 0
    for process in processes:
        for path in glob.glob(f"/proc/{process.pid}/fdinfo/*"):
            with open(path, encoding="ascii") as file:
                count += sum(line.startswith("inotify ") for line in file)
    return count


def report(vx: subprocess.Popen[bytes], seconds: float) -> None:
    """Look at the tree for some seconds and print its table."""
    tree = [one for one in measure.tree("vx") if one.name() not in ("sleep", "sh")]
    before = measure.cpu_clocks(tree)
    time.sleep(seconds)
    after = measure.cpu_clocks(tree)
    rows = []
    for one in tree:
        words = " ".join(one.cmdline())
        role = (
            "vx" if one.pid == vx.pid else next((r for w, r in ROLES.items() if w in words), words)
        )
        used = {one.pid: before[one.pid]}
        rows.append(line(role, measure.cpu_between(used, after) / seconds, [one]))
    rows.append(line("all", measure.cpu_between(before, after) / seconds, tree))
    print(f"{seconds:.0f} s; {measure.machine()}\n")
    measure.table(["process", "CPU % of a core", "PSS MiB", "inotify watches"], rows)


def line(role: str, cpu: float, processes: Collection[psutil.Process]) -> list[str]:
    """One line of the table."""
    size = measure.memory(processes) / 2**20
    return [role, f"{cpu * 100:.2f}", f"{size:.1f}", str(watches(processes))]


def main() -> None:
    parser = measure.arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    with measure.stage() as directory:
        root, output = f"{directory}/idle", f"{directory}/vx.out"
        make(root)
        vx = measure.start([measure.VX, "watch", *TASKS, *SERVERS], root, output, "vx")
        if measure.wait_for(lambda: measure.says(output, "watching"), 60):
            time.sleep(3.0)  # the first cycle is no idling
            report(vx, given.seconds)
        else:
            print("vx watch did not come up; its last words:\n" + measure.tail(output))
        measure.stop(vx, "vx")


if __name__ == "__main__":
    main()
