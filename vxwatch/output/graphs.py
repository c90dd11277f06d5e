"""A graph of tasks in DOT, the language of Graphviz. Pure."""

from collections.abc import Collection, Iterator, Mapping

from vxwatch.model import TaskId
from vxwatch.output.text import printable


def dot(
    dependencies: Mapping[TaskId, Collection[TaskId]],
    requested: Collection[TaskId],
    left_out: Collection[TaskId] = (),
) -> str:
    """An arrow from each task to what it depends on; the requested ones are drawn bold."""

    def lines() -> Iterator[str]:
        yield "digraph vx {"
        for task in dependencies:
            if task not in left_out:
                yield f"  {_quoted(task)}{' [style=bold]' if task in requested else ''};"
        for task, others in dependencies.items():
            for other in others:
                if task not in left_out and other not in left_out:
                    yield f"  {_quoted(task)} -> {_quoted(other)};"
        yield "}"

    return "".join(f"{line}\n" for line in lines())


def _quoted(task: TaskId) -> str:
    escaped = printable(task).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
