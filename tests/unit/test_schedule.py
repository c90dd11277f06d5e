"""One pass over a graph: order, limit, what a failure stops, and that every pass ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.harness.workspaces import project, workspace
from vxwatch.graph.schedule import Continue, Costs, Schedule
from vxwatch.graph.tasks import Graph, plan

MODES: list[Continue] = ["never", "deps-ok", "always"]


def graph_of(edges: dict[str, list[str]]) -> Graph:
    tasks = {name: {"depends_on": below} for name, below in edges.items()}
    return plan(workspace(project("p", tasks)), [f"p#{name}" for name in edges])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    count = draw(st.integers(1, 14))
    return graph_of(
        {
            f"t{n}": [f"t{d}" for d in draw(st.lists(st.integers(0, n - 1), max_size=3))]
            if n
            else []
            for n in range(count)
        }
    )


def above(graph: Graph, task: str) -> frozenset[str]:
    return graph.downstream([task]) - {task}


CAPACITY = {"cpus": 2.0, "memory": 4.0}


def costs_of(graph: Graph) -> st.SearchStrategy[Costs]:
    tasks = st.sampled_from(graph.order)
    amounts = st.sampled_from([0.5, 1.0, 2.0, 3.0, 9.0])
    claims = st.dictionaries(st.sampled_from([*CAPACITY, "unknown"]), amounts)
    return st.builds(
        Costs,
        seconds=st.dictionaries(tasks, st.floats(0, 1000)),
        usual=st.floats(0, 10),
        claims=st.dictionaries(tasks, claims),
        capacity=st.sampled_from([CAPACITY, {"cpus": 2.0}, {}]),
    )


def fit(running: frozenset[str], costs: Costs) -> bool:
    """Whether those that run claim no more than there is, or one runs that is alone."""
    claimed = [costs.claims.get(task, {}) for task in running]
    return len(running) == 1 or all(
        sum(claims.get(name, 0) for claims in claimed) <= amount
        for name, amount in costs.capacity.items()
    )


@given(graphs(), st.data(), st.sampled_from(MODES), st.integers(1, 4))
def test_any_pass_keeps_order_and_limit_and_ends(
    graph: Graph, data: st.DataObject, mode: Continue, limit: int
) -> None:
    failing = data.draw(st.sets(st.sampled_from(graph.order)))
    roots = data.draw(st.lists(st.sampled_from(graph.order), min_size=1))
    costs = data.draw(costs_of(graph))
    pending = graph.downstream(roots)
    schedule = Schedule(graph, pending, limit, mode, costs=costs)
    ended: list[str] = []
    started: list[str] = []
    failed: list[str] = []
    while not schedule.done:
        assert not (mode == "never" and failed and schedule.ready())
        for task in schedule.ready():
            started.append(task)
            below = {other for other in graph.dependencies[task] if other in pending}
            assert below <= set(ended)
            assert mode == "always" or not below & set(failed)
        assert 1 <= len(schedule.running) <= limit
        assert fit(schedule.running, costs)
        task = data.draw(st.sampled_from(sorted(schedule.running)))
        before = dict(schedule.skipped)
        newly = schedule.finish(task, ok=task not in failing)
        assert schedule.skipped == {**before, **newly}
        ended.append(task)
        failed += [task] if task in failing else []
    assert schedule.ready() == []
    assert len(started) == len(set(started))
    assert set(started) == set(ended)
    assert set(started).isdisjoint(schedule.skipped)
    assert set(started) | set(schedule.skipped) == pending
    assert set(schedule.skipped.values()) <= set(failed)
    if mode == "deps-ok":
        assert set(schedule.skipped) == {
            task for task in pending if any(task in above(graph, other) for other in failed)
        }
    if mode == "always" or not failed:
        assert not schedule.skipped


@given(graphs(), st.data())
def test_deps_ok_names_a_failed_task_below_the_skipped_one(
    graph: Graph, data: st.DataObject
) -> None:
    failing = data.draw(st.sets(st.sampled_from(graph.order), min_size=1))
    schedule = Schedule(graph, graph.order, 3, "deps-ok")
    while not schedule.done:
        for task in schedule.ready():
            schedule.finish(task, ok=task not in failing)
    for task, blocker in schedule.skipped.items():
        assert task in above(graph, blocker)
        assert blocker in failing


def test_the_head_of_the_longest_chain_starts_first() -> None:
    graph = graph_of(
        {"a": [], "b": [], "c": [], "after-b": ["b"], "after-c": ["c"], "end": ["after-c"]}
    )
    schedule = Schedule(graph, graph.order, 2)
    assert schedule.ready() == ["p#c", "p#b"]
    schedule.finish("p#c", ok=True)
    assert schedule.ready() == ["p#after-c"]


def test_a_chain_is_as_long_as_its_tasks_take() -> None:
    edges: dict[str, list[str]] = {"a": [], "b": [], "c": [], "b2": ["b"], "b3": ["b2"], "d": []}
    graph = graph_of(edges)
    costs = Costs({"p#a": 9.0, "p#b": 1.0, "p#b2": 1.0, "p#b3": 1.0, "p#d": 0.5}, usual=4.0)
    schedule = Schedule(graph, graph.order, 4, costs=costs)
    assert schedule.ready() == ["p#a", "p#c", "p#b", "p#d"]


@given(graphs(), st.floats(0.001, 1000), st.data())
def test_with_equal_durations_the_longest_chain_counts_its_tasks(
    graph: Graph, seconds: float, data: st.DataObject
) -> None:
    known = dict.fromkeys(graph.order, seconds)
    passes = [
        Schedule(graph, graph.order, 2),
        Schedule(graph, graph.order, 2, costs=Costs(known)),
        Schedule(graph, graph.order, 2, costs=Costs(usual=seconds)),
    ]
    while not passes[0].done:
        started = [schedule.ready() for schedule in passes]
        assert started[0] == started[1] == started[2]
        task = data.draw(st.sampled_from(sorted(passes[0].running)))
        for schedule in passes:
            schedule.finish(task, ok=True)


CLAIMS = {
    "p#big": {"memory": 3.0},
    "p#mid": {"memory": 2.0},
    "p#small": {"memory": 1.0},
    "p#core": {"cpus": 1.0},
    "p#huge": {"cpus": 5.0},
}


@pytest.mark.parametrize(
    ("running", "waiting", "starts"),
    [
        ("mid", ["big", "small", "core", "free"], ["core", "free"]),
        ("big", ["mid"], []),
        ("big", ["small", "mid"], ["small"]),
        ("core", ["huge", "small", "free"], []),
        ("huge", ["free", "small"], []),
    ],
    ids=[
        "who waits holds back who wants the same, and no other",
        "what is short",
        "what is enough",
        "who claims too much waits until it is alone",
        "and is alone",
    ],
)
def test_what_tasks_claim_is_packed(running: str, waiting: list[str], starts: list[str]) -> None:
    names = [running, *waiting]
    graph = graph_of({name: [] for name in names})
    seconds = {f"p#{name}": 9.0 - at for at, name in enumerate(names)}
    schedule = Schedule(
        graph, graph.order, 9, costs=Costs(seconds, claims=CLAIMS, capacity=CAPACITY)
    )
    assert schedule.ready() == [f"p#{name}" for name in (running, *starts)]
    while not schedule.done:
        schedule.ready()
        schedule.finish(min(schedule.running), ok=True)


def test_what_nobody_knows_the_amount_of_is_not_counted() -> None:
    graph = graph_of({"mid": [], "big": []})
    schedule = Schedule(graph, graph.order, 9, costs=Costs(claims=CLAIMS))
    assert schedule.ready() == ["p#big", "p#mid"]


def test_equal_chains_start_by_name() -> None:
    graph = graph_of({"z": [], "m": [], "a": []})
    assert Schedule(graph, graph.order, 3).ready() == ["p#a", "p#m", "p#z"]


def test_what_is_not_pending_counts_as_finished() -> None:
    graph = graph_of({"lib": [], "left": ["lib"], "right": ["lib"], "app": ["left", "right"]})
    schedule = Schedule(graph, graph.downstream(["p#left"]), 4)
    assert schedule.ready() == ["p#left"]
    schedule.finish("p#left", ok=True)
    assert schedule.ready() == ["p#app"]
    schedule.finish("p#app", ok=True)
    assert schedule.done


@pytest.mark.parametrize(
    ("mode", "starts", "skipped"),
    [
        ("never", ["p#free"], {"p#mid": "p#lib", "p#app": "p#lib"}),
        ("deps-ok", ["p#free"], {"p#mid": "p#lib", "p#app": "p#lib"}),
        ("always", ["p#mid", "p#free"], {}),
    ],
)
def test_a_dependency_that_was_broken_before_blocks_its_own_dependents_alone(
    mode: Continue, starts: list[str], skipped: dict[str, str]
) -> None:
    graph = graph_of({"lib": [], "mid": ["lib"], "app": ["mid"], "free": []})
    pending = ["p#mid", "p#app", "p#free"]
    schedule = Schedule(graph, pending, 4, mode, broken=["p#lib"])
    assert schedule.skipped == skipped
    assert schedule.ready() == starts


def test_a_task_that_failed_before_and_is_pending_gets_its_chance() -> None:
    graph = graph_of({"lib": [], "app": ["lib"]})
    schedule = Schedule(graph, graph.order, 2, "deps-ok", broken=["p#lib", "p#app"])
    assert schedule.skipped == {}
    assert schedule.ready() == ["p#lib"]


def test_after_a_failure_never_lets_the_running_end_and_starts_nothing() -> None:
    graph = graph_of({"a": [], "b": [], "c": [], "d": ["b"]})
    schedule = Schedule(graph, graph.order, 2, "never")
    assert schedule.ready() == ["p#b", "p#a"]
    assert schedule.finish("p#a", ok=False) == {"p#c": "p#a", "p#d": "p#a"}
    assert schedule.ready() == []
    assert not schedule.done
    assert schedule.finish("p#b", ok=True) == {}
    assert schedule.done


def test_an_empty_pass_is_done() -> None:
    assert Schedule(graph_of({"a": []}), [], 1).done


def test_misuse_is_an_error() -> None:
    graph = graph_of({"a": []})
    with pytest.raises(ValueError, match="never ends"):
        Schedule(graph, graph.order, 0)
    with pytest.raises(KeyError):
        Schedule(graph, graph.order, 1).finish("p#a", ok=True)


@given(graphs(), st.data(), st.sampled_from(MODES), st.integers(1, 4))
def test_what_is_taken_in_during_a_pass_starts_after_that_or_is_skipped(
    graph: Graph, data: st.DataObject, mode: Continue, limit: int
) -> None:
    failing = data.draw(st.sets(st.sampled_from(graph.order)))
    schedule = Schedule(
        graph, graph.downstream(data.draw(st.sets(st.sampled_from(graph.order)))), limit, mode
    )
    owed: set[str] = set()
    waits_for: dict[str, frozenset[str]] = {}
    turns = data.draw(st.integers(0, 4))
    while not schedule.done or turns:
        if turns and (schedule.done or data.draw(st.booleans())):
            turns -= 1
            added = graph.downstream([data.draw(st.sampled_from(graph.order))])
            owed |= added
            for task in added:
                waits_for[task] = added & set(graph.dependencies[task])
            owed -= schedule.add(added).keys()
        for task in schedule.ready():
            assert waits_for.get(task, frozenset()).isdisjoint(schedule.running)
            assert waits_for.get(task, frozenset()).isdisjoint(owed)
            owed.discard(task)
        assert len(schedule.running) <= limit
        if schedule.running:
            task = data.draw(st.sampled_from(sorted(schedule.running)))
            owed -= schedule.finish(task, ok=task not in failing).keys()
    assert not owed
    assert not schedule.ready()


def test_a_running_task_that_is_taken_in_again_blocks_nobody_by_its_first_end() -> None:
    graph = graph_of({"lib": [], "app": ["lib"]})
    schedule = Schedule(graph, graph.order, 2)
    assert schedule.ready() == ["p#lib"]
    assert schedule.add(graph.order) == {}
    assert schedule.finish("p#lib", ok=False) == {}
    assert schedule.ready() == ["p#lib"]
    assert schedule.finish("p#lib", ok=True) == {}
    assert schedule.ready() == ["p#app"]


def test_a_running_task_waits_for_what_is_taken_in_below_it() -> None:
    graph = graph_of({"lib": [], "app": ["lib"]})
    schedule = Schedule(graph, graph.order, 2)
    schedule.ready()
    schedule.finish("p#lib", ok=True)
    assert schedule.ready() == ["p#app"]
    schedule.add(graph.order)
    schedule.finish("p#app", ok=True)
    assert schedule.ready() == ["p#lib"]
    assert schedule.finish("p#lib", ok=False) == {"p#app": "p#lib"}
    assert schedule.done


def test_what_failed_in_the_pass_blocks_what_is_taken_in_above_it_until_it_is_taken_in() -> None:
    graph = graph_of({"lib": [], "app": ["lib"]})
    schedule = Schedule(graph, graph.order, 2)
    schedule.ready()
    schedule.finish("p#lib", ok=False)
    assert schedule.add(["p#app"]) == {"p#app": "p#lib"}
    assert schedule.done
    assert schedule.add(graph.order) == {}
    assert schedule.ready() == ["p#lib"]
    assert schedule.skipped == {}
