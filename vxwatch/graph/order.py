"""Puts nodes in order, dependencies first, and finds what goes round in a circle.

Linear in nodes and edges, deterministic, and deep chains do not exhaust the stack. It knows
nothing of tasks: nodes are strings.
"""

from collections.abc import Callable, Iterable, Iterator


def ordered(
    roots: Iterable[str], edges: Callable[[str], Iterable[str]]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Every node that `roots` reach, after all that its `edges` lead to; and the circles met.

    A circle is a path that ends where it began. There is at least one for each knot of nodes
    that lead to one another; with none the order is topological.
    """
    order: list[str] = []
    circles: list[tuple[str, ...]] = []
    finished: dict[str, bool] = {}
    for root in roots:
        if root in finished:
            continue
        finished[root] = False
        path = [root]
        ahead: list[Iterator[str]] = [iter(edges(root))]
        while path:
            for node in ahead[-1]:
                if node not in finished:
                    finished[node] = False
                    path.append(node)
                    ahead.append(iter(edges(node)))
                    break
                if not finished[node]:
                    circles.append((*path[path.index(node) :], node))
            else:
                ahead.pop()
                node = path.pop()
                finished[node] = True
                order.append(node)
    return order, circles
