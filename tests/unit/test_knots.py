"""Knots of nodes, against what each node reaches."""

from hypothesis import given
from hypothesis import strategies as st

from vxwatch.graph.knots import knots

NODES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NODES, st.lists(NODES, max_size=4))
Edges = dict[str, list[str]]


def reached(graph: Edges, node: str) -> set[str]:
    """The node and all that it leads to."""
    found, ahead = {node}, [node]
    while ahead:
        fresh = set(graph.get(ahead.pop(), ())) - found
        found |= fresh
        ahead += fresh
    return found


@given(GRAPHS, st.lists(NODES, max_size=4))
def test_a_knot_is_who_leads_to_one_another(graph: Edges, roots: list[str]) -> None:
    found = list(knots(roots, lambda node: graph.get(node, [])))
    nodes = [node for knot in found for node in knot]
    assert sorted(nodes) == sorted(set[str]().union(*(reached(graph, root) for root in roots)))
    for knot in found:
        for node in knot:
            mutual = {other for other in reached(graph, node) if node in reached(graph, other)}
            assert set(knot) == mutual


@given(GRAPHS, st.lists(NODES, max_size=4))
def test_it_comes_after_what_it_leads_to(graph: Edges, roots: list[str]) -> None:
    seen: set[str] = set()
    for knot in knots(roots, lambda node: graph.get(node, [])):
        seen.update(knot)
        assert set[str]().union(*(graph.get(node, []) for node in knot)) <= seen


def test_a_deep_chain_is_no_harm() -> None:
    chain = {str(n): [str(n + 1), "0"] for n in range(20_000)}
    (last, *rest) = knots(["0"], lambda node: chain.get(node, []))
    assert last == ("20000",)
    assert [len(knot) for knot in rest] == [20_000]
