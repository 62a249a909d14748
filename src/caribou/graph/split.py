"""The split: which nodes train, choose and test. Public at either privacy unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from caribou.errors import InputError
from caribou.graph.checks import index_array, restore

#: The usual shares of training, validation and test nodes.
DEFAULT_FRACTIONS = (0.7, 0.1, 0.2)


@dataclass(frozen=True, eq=False)
class Split:
    """Training, validation and test nodes: sorted, unique, pairwise disjoint int64 indices.

    ``n_removed``: how many nodes were taken out of each part by `without`, or left out for want of a label; the `declared` sizes
    count them.

    Args:
        train: indices of the training nodes.
        val: indices of the validation nodes.
        test: indices of the test nodes.

    >>> Split(train=[2, 0], val=[1], test=[3]).train.tolist()
    [0, 2]
    """

    train: np.ndarray = field(repr=False)  # who is there is private at node level, and a repr ends up in logs
    val: np.ndarray = field(repr=False)
    test: np.ndarray = field(repr=False)
    n_removed: tuple[int, int, int] = field(default=(0, 0, 0), kw_only=True, repr=False)

    def __post_init__(self) -> None:
        parts = {name: index_array(f"split.{name}", getattr(self, name)) for name in ("train", "val", "test")}
        for name, part in parts.items():
            object.__setattr__(self, name, part)
        everything = np.concatenate(list(parts.values()))
        values, counts = np.unique(everything, return_counts=True)
        if (counts > 1).any():
            node = int(values[counts > 1][0])
            owners = " and ".join(name for name, part in parts.items() if node in part)
            raise InputError(f"split parts must be disjoint, got node {node} in {owners}")

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        restore(self, state)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number of training, validation and test nodes that are there: private at node level; `declared` is public."""
        return len(self.train), len(self.val), len(self.test)

    @property
    def declared(self) -> tuple[int, int, int]:
        """The public sizes: those of the parts before any node was taken out, equal for node-level neighbours.

        >>> Split([0, 1], [2], [3]).without(1).declared
        (2, 1, 1)
        """
        train, val, test = (size + gone for size, gone in zip(self.sizes, self.n_removed, strict=True))
        return train, val, test

    def without(self, node: int) -> Split:
        """The split with ``node`` in no part; its declared sizes stay."""
        return self._kept([part[part != node] for part in (self.train, self.val, self.test)])

    def where(self, there: np.ndarray) -> Split:
        """The split of the nodes for which ``there`` [n] is true; its declared sizes stay."""
        return self._kept([part[there[part]] for part in (self.train, self.val, self.test)])

    def _kept(self, parts: list[np.ndarray]) -> Split:
        train, val, test = (size - len(part) for size, part in zip(self.declared, parts, strict=True))
        return Split(*parts, n_removed=(train, val, test))


def labelled_split(split: Split, n: int, labels: np.ndarray | None) -> Split:
    """The split, checked, with the labelled nodes alone in training and validation; the declared sizes stay.

    A node without a label can neither train nor choose. It is left out without an error: whether one person has a label is
    private at node level. Test nodes stay: they are predicted, and not scored.
    """
    check_split(split, n, labels)
    if labels is None or not any((labels[part] < 0).any() for part in (split.train, split.val)):
        return split
    kept = labels >= 0
    kept[split.test] = True
    return split.where(kept)


def check_split(split: Split, n: int, labels: np.ndarray | None) -> None:
    if not isinstance(split, Split):
        raise InputError(f"split must be a Split, got {type(split).__name__}")
    for name in ("train", "val", "test"):
        part = getattr(split, name)
        if len(part) and int(part[-1]) >= n:
            raise InputError(f"split.{name} must hold node indices below {n}, got {int(part[-1])}")
    if len(split.train) and labels is None:
        raise InputError("split.train needs labels, got a graph without labels")
