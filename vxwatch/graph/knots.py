"""Finds knots: nodes of which each leads to every other, however far.

Linear in nodes and edges, and deep chains do not exhaust the stack. It knows nothing of tasks:
nodes are strings.
"""

from collections.abc import Callable, Iterable, Iterator


def knots(roots: Iterable[str], edges: Callable[[str], Iterable[str]]) -> Iterator[tuple[str, ...]]:
    """Every node that `roots` reach, in its knot, which comes after all that it leads to.

    A node that nothing it leads to leads back to is a knot by itself. This is Tarjan's way.
    """
    numbers: dict[str, int] = {}
    least: dict[str, int] = {}  # for nodes in no knot yet: the first that they lead back to
    waiting: list[str] = []
    path: list[tuple[str, Iterator[str]]] = []

    def enter(node: str) -> None:
        numbers[node] = least[node] = len(numbers)
        waiting.append(node)
        path.append((node, iter(edges(node))))

    for root in roots:
        if root not in numbers:
            enter(root)
        while path:
            node, ahead = path[-1]
            for other in ahead:
                if other not in numbers:
                    enter(other)
                    break
                if other in least:
                    least[node] = min(least[node], numbers[other])
            else:
                path.pop()
                if path:
                    before = path[-1][0]
                    least[before] = min(least[before], least[node])
                if least[node] == numbers[node]:
                    yield _taken(node, waiting, least)


def _taken(first: str, waiting: list[str], least: dict[str, int]) -> tuple[str, ...]:
    """The knot that began with this node; it waits no longer."""
    knot: list[str] = []
    while not knot or knot[-1] != first:
        knot.append(waiting.pop())
        del least[knot[-1]]
    return tuple(knot)
