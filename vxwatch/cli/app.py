"""The commands of vx and their options. Each command imports its own machinery."""

from typing import Any

import click

from vxwatch import __version__
from vxwatch.nearest import nearest

INTERRUPTED = 130


class Commands(click.Group):
    """A group that names the nearest command when there is no such one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's own, with a suggestion."""
        near = nearest(args[0], self.list_commands(ctx))
        if near and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near!r}?")
        return super().resolve_command(ctx, args)


def start() -> int:
    """Run the command line; return the exit code. No stack reaches a user but for a fault of ours."""
    try:
        code = vx.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except SystemExit:  # so click ends where the reader of its help has seen enough
        return 0
    except Exception as fault:  # noqa: BLE001 - the one place where every failure ends
        from vxwatch.cli import failures

        if isinstance(fault, OSError) and _is_of_click(fault):
            return failures.report_unwritten(fault)
        return failures.report(fault)
    return code if isinstance(code, int) else 0


def _is_of_click(fault: OSError) -> bool:
    """Whether this came of what click writes by itself: help."""
    frame = fault.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return frame is not None and frame.tb_frame.f_globals["__name__"].startswith("click.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="vx %(version)s")
def vx() -> None:
    """The dev loop of a workspace.

    Runs tasks in a sandbox, re-runs exactly what a change affects, keeps dev servers up, and
    leaves no process behind.
    """


def _selection(command: Any) -> Any:
    """The options that `run` and `watch` share."""
    options = (
        click.option("--all", "everywhere", is_flag=True, help="Every project that has the task."),
        click.option(
            "--filter",
            "-F",
            "filters",
            multiple=True,
            metavar="PATTERN",
            help="Projects by name (`web`, `@acme/*`) or directory (`./apps`, `{apps/web}`).",
        ),
        click.option(
            "--concurrency", metavar="N", help="Tasks at once: a count, or a share such as 50%."
        ),
        click.option(
            "--force", "renew", is_flag=True, help="Run what is up to date, too, and save it anew."
        ),
        click.option(
            "--no-cache", is_flag=True, help="Use nothing of the cache, and save nothing."
        ),
        click.option(
            "--cache",
            "cache_use",
            type=click.Choice(["local:rw", "local:r", "local:w"]),
            help="Whether the cache is read, written, or both; default: both.",
        ),
        CACHE_DIR,
        click.option(
            "--frozen", is_flag=True, help="Take what config programs evaluate to from vx.lock."
        ),
        click.argument("words", nargs=-1, metavar="TASK... [-- ARGS]", type=click.UNPROCESSED),
    )
    for option in reversed(options):
        command = option(command)
    return command


CACHE_DIR = click.option(
    "--cache-dir", metavar="DIR", help="Where the cache lies, whatever the workspace says."
)


class TaskCommand(click.Command):
    """A command that keeps what follows `--` apart from its task names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click's own on what precedes the first `--`."""
        cut = args.index("--") if "--" in args else len(args)
        ctx.meta["vx.forwarded"] = tuple(args[cut + 1 :])
        return super().parse_args(ctx, [_WITH_VALUE.get(arg, arg) for arg in args[:cut]])


_WITH_VALUE = {"--affected": "--affected=", "--dry": "--dry=text"}
"""Click would take the word that follows an option whose value may be left out for its value."""


@vx.command(cls=TaskCommand)
@_selection
@click.option(
    "--continue",
    "keep_going",
    type=click.Choice(["never", "deps-ok", "always"]),
    default="never",
    show_default=True,
    help="After a failure: start nothing new, what does not depend on it, or all.",
)
@click.option(
    "--affected",
    is_flag=False,
    flag_value="",
    metavar="[COMMIT]",
    help="Only what a change since COMMIT reaches; default: since the branch left the main one.",
)
@click.option(
    "--learn",
    is_flag=True,
    help="Run the task with the workspace open to it, and print what its sandbox has to allow.",
)
@click.option(
    "--exclude-dependencies", "alone", is_flag=True, help="Leave out what the tasks depend on."
)
@click.option(
    "--dry",
    type=click.Choice(["text", "json"]),
    metavar="[=json]",
    help="Only say what would run, and why.",
)
@click.option("--summarize", metavar="FILE", help="Write the run and its tasks there, as JSON.")
@click.option("--profile", metavar="FILE", help="Write a trace there, for chrome://tracing.")
@click.option(
    "--report",
    type=click.Choice(["markdown"]),
    help="Print a summary for CI; on GitHub Actions, show it with the job.",
)
@click.option("--graph", is_flag=True, help="Only print the graph of the tasks, in DOT.")
@click.pass_context
def run(ctx: click.Context, /, **given: Any) -> int:
    """Run tasks and everything they depend on.

    A server that is named stays in the foreground until it ends or Ctrl-C.
    """
    from vxwatch.cli.sessions import begin

    return begin("run", forwarded=ctx.meta["vx.forwarded"], **given)


@vx.command(cls=TaskCommand)
@_selection
@click.option(
    "--debounce",
    metavar="DURATION",
    default="15ms",
    show_default=True,
    help="Quiet time after the last change before a cycle starts.",
)
@click.option(
    "--on-busy",
    type=click.Choice(["restart-stale", "queue"]),
    default="restart-stale",
    show_default=True,
    help="What to do with a running task whose inputs change: start it again, or let it finish first.",
)
@click.pass_context
def watch(ctx: click.Context, /, **given: Any) -> int:
    """Run tasks, then re-run what each change affects.

    Servers stay up through every cycle. Ctrl-C ends everything.
    """
    from vxwatch.cli.sessions import begin

    return begin("watch", forwarded=ctx.meta["vx.forwarded"], keep_going="deps-ok", **given)


@vx.command()
def lock() -> int:
    """Write what config programs evaluate to into vx.lock, for runs with --frozen."""
    from vxwatch.cli.lock import write_lock

    return write_lock()


FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@vx.group(invoke_without_command=True)
@CACHE_DIR
@FORMAT
@click.pass_context
def cache(ctx: click.Context, cache_dir: str | None, form: str) -> int:
    """Show where the cache is, and how much it holds."""
    if ctx.invoked_subcommand is not None:
        return 0
    from vxwatch.cli.cache import show_cache

    return show_cache(cache_dir, as_json=form == "json")


@cache.command()
@click.option("--older-than", metavar="AGE", help="What is unused for so long: 12h, 30d, 2w.")
@click.option(
    "--max-size", metavar="SIZE", help="The longest unused, down to this size: 500M, 10G."
)
@click.option("--dry-run", "dry", is_flag=True, help="Only say what would go.")
@CACHE_DIR
@click.pass_context
def prune(ctx: click.Context, /, cache_dir: str | None, **given: Any) -> int:
    """Remove from the cache what is old, or too much.

    Without options, by what the workspace says, which every run does at its end.
    """
    from vxwatch.cli.cache import prune_cache

    around = ctx.parent.params.get("cache_dir") if ctx.parent is not None else None
    return prune_cache(cache_dir or around, **given)


@vx.command(cls=TaskCommand)
@click.argument("task", metavar="TASK [-- ARGS]")
@click.option(
    "--run", "number", type=int, metavar="ID", help="Compare with this run, not the last."
)
@CACHE_DIR
@FORMAT
@click.pass_context
def why(ctx: click.Context, task: str, number: int | None, cache_dir: str | None, form: str) -> int:
    """Say what a run would do with a task now, and why: what moved since it last ran."""
    from vxwatch.cli.why import explain

    forwarded = ctx.meta["vx.forwarded"]
    return explain(task, forwarded, number, cache_dir, as_json=form == "json")


@vx.command()
@click.argument("number", type=int, required=False, metavar="[RUN]")
@click.option("--list", "listing", is_flag=True, help="The last 20 runs, not the tasks of one.")
@click.option("--failed", is_flag=True, help="Only what failed.")
@CACHE_DIR
@FORMAT
def last(number: int | None, listing: bool, failed: bool, cache_dir: str | None, form: str) -> int:
    """Show how the tasks of the last run ended, or of the run of a number."""
    from vxwatch.cli.last import list_runs, show_run

    if listing:
        if number is not None:
            raise click.UsageError("--list and the number of a run exclude each other")
        return list_runs(cache_dir, failed=failed, as_json=form == "json")
    return show_run(number, cache_dir, failed=failed, as_json=form == "json")


SESSION = click.option(
    "--session", "pid", type=int, metavar="PID", help="The session of this pid, where several run."
)


@vx.command()
@FORMAT
def ps(form: str) -> int:
    """Show the sessions that run here, with their servers and running tasks."""
    from vxwatch.cli.ps import show_sessions

    return show_sessions(as_json=form == "json")


@vx.command()
@click.argument("server")
@click.option("--follow", "-f", is_flag=True, help="Go on with what it prints, until Ctrl-C.")
@click.option(
    "--lines",
    "-n",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="How many lines of what it printed last.",
)
@SESSION
def logs(server: str, lines: int, follow: bool, pid: int | None) -> int:
    """Print what a server of the running session printed last."""
    from vxwatch.cli.logs import show_log

    return show_log(server, lines, pid, follow=follow)


@vx.command()
@click.argument("servers", nargs=-1, required=True, metavar="SERVER...")
@SESSION
def restart(servers: tuple[str, ...], pid: int | None) -> int:
    """Restart servers of the running session, and wait until they are ready."""
    from vxwatch.cli.restart import restart_servers

    return restart_servers(servers, pid)


@vx.command()
@click.argument("task", required=False)
@FORMAT
def show(task: str | None, form: str) -> int:
    """Show the projects and tasks, or one task as it is resolved."""
    from vxwatch.cli.reading import show_tasks

    return show_tasks(task, as_json=form == "json")


@vx.command()
@FORMAT
def info(form: str) -> int:
    """Show versions, the workspace, and whether this host can sandbox."""
    from vxwatch.cli.reading import show_info

    return show_info(as_json=form == "json")
