"""The public numbers of a graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The public numbers of a graph: all that a plan may know about it.

    ``nodes``, ``columns`` of features and ``classes``: how many. ``train``, ``val``, ``test``: the sizes of the public split,
    as declared at node level; 0 without a split. ``given``: public class probabilities come with the graph. Degrees and edges
    are not among them.

    >>> Sizes(nodes=100, columns=8, classes=3, train=60, val=10, test=30).train
    60
    """

    nodes: int
    columns: int
    classes: int = 0
    train: int = 0
    val: int = 0
    test: int = 0
    given: bool = False
