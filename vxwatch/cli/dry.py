"""`vx run --dry` and `--graph`: what a run would do, and in what order. Nothing is run for it."""

import os
from contextlib import closing

from vxwatch.cache.database import CacheError
from vxwatch.cli.told import to_standard_error
from vxwatch.cli.verdicts import verdict_value
from vxwatch.errors import UserError
from vxwatch.masking import Masker
from vxwatch.output import graphs, reasons, tables
from vxwatch.process.environment import secret_values
from vxwatch.session.forecast import Forecast
from vxwatch.session.knowledge import Knowledge
from vxwatch.session.planning import Options, Plan


def show_forecast(plan: Plan, options: Options, *, as_json: bool) -> int:
    """Print what a run would do with each task that has a command, and why."""
    masker = Masker(secret_values(os.environ, plan.workspace).values())
    with closing(Knowledge(plan, options, os.environ)) as known:
        known.hear(to_standard_error)
        forecast = Forecast(plan, options, known)
        try:
            verdicts = [forecast.verdict(task, deep=False) for task in _with_commands(plan)]
        except CacheError as error:
            raise UserError("cache", error.message, error.hint) from None
    value = masker.within({"tasks": [verdict_value(plan, one) for one in verdicts]})
    if as_json:
        tables.write_json(value)
    elif verdicts:
        tables.columns(reasons.dry(value))
    else:
        tables.line("nothing to do")
    return 0


def show_graph(plan: Plan) -> int:
    """Print the graph of the tasks that would be looked at, in DOT, the language of Graphviz."""
    edges = {task: plan.graph.dependencies[task] for task in plan.graph.order}
    tables.verbatim(graphs.dot(edges, frozenset(plan.requested), plan.left_out))
    return 0


def _with_commands(plan: Plan) -> list[str]:
    running = (task for task in plan.graph.order if task not in plan.left_out)
    return [task for task in running if plan.workspace.task(task).command is not None]
