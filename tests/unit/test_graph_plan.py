"""The plan holds what was requested and all below it, in order; a circle never hangs it."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.workspaces import project, workspace
from vxwatch.graph.tasks import check, plan
from vxwatch.model import Workspace

Edges = dict[int, list[int]]


@st.composite
def edges(draw: st.DrawFn, *, circles: bool) -> Edges:
    count = draw(st.integers(1, 12))
    return {
        node: draw(st.lists(st.integers(0, count - 1 if circles else node - 1), max_size=4))
        if circles or node
        else []
        for node in range(count)
    }


def tasks_of(graph: Edges) -> Workspace:
    return workspace(
        project("p", {f"t{n}": {"depends_on": [f"t{d}" for d in ds]} for n, ds in graph.items()})
    )


def reach(graph: Edges, start: int) -> set[int]:
    found: set[int] = set()
    ahead = list(graph[start])
    while ahead:
        node = ahead.pop()
        if node not in found:
            found.add(node)
            ahead.extend(graph[node])
    return found


@given(edges(circles=False), st.data())
def test_a_plan_is_closed_and_in_order(graph: Edges, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.sampled_from(sorted(graph)), min_size=1))
    made = plan(tasks_of(graph), [f"p#t{n}" for n in wanted])
    expected = set(wanted).union(*(reach(graph, n) for n in wanted))
    assert len(made.order) == len(set(made.order))
    assert set(made.order) == {f"p#t{n}" for n in expected} == set(made.dependencies)
    position = {task: at for at, task in enumerate(made.order)}
    for task, below in made.dependencies.items():
        assert all(position[other] < position[task] for other in below)
        assert all(task in made.dependents[other] for other in below)
    assert sum(map(len, made.dependents.values())) == sum(map(len, made.dependencies.values()))


@given(edges(circles=False), st.data())
def test_downstream_is_everything_that_reaches_a_task(graph: Edges, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from(sorted(graph)))
    made = plan(tasks_of(graph), [f"p#t{n}" for n in graph])
    above = {n for n in graph if n == start or start in reach(graph, n)}
    assert made.downstream([f"p#t{start}"]) == {f"p#t{n}" for n in above}


@given(edges(circles=True))
def test_check_reports_a_circle_exactly_when_there_is_one(graph: Edges) -> None:
    problems = check(tasks_of(graph))
    assert bool(problems) == any(n in reach(graph, n) for n in graph)
    for problem in problems:
        names = problem.message.removeprefix("depends on itself: ").split(" -> ")
        path = [int(name.removeprefix("p#t")) for name in names]
        assert path[0] == path[-1]
        assert all(after in graph[before] for before, after in pairwise(path))


def test_a_chain_deeper_than_the_stack_is_planned() -> None:
    graph = {n: [n - 1] if n else [] for n in range(5000)}
    space = tasks_of(graph)
    assert check(space) == ()
    assert plan(space, ["p#t4999"]).order == tuple(f"p#t{n}" for n in range(5000))


def test_what_was_not_requested_is_not_planned() -> None:
    space = tasks_of({0: [], 1: [0], 2: [1]})
    assert plan(space, ["p#t1"]).order == ("p#t0", "p#t1")
    assert plan(space, ["p#t1"]).dependents == {"p#t0": ("p#t1",), "p#t1": ()}


def test_misuse_is_an_error() -> None:
    with pytest.raises(KeyError):
        plan(tasks_of({0: []}), ["p#none"])
    with pytest.raises(ValueError, match="p#t0 -> p#t1 -> p#t0"):
        plan(tasks_of({0: [1], 1: [0]}), ["p#t0"])
