"""Noisy counts over neighbours: the cluster degree vectors of LPGNet (Kolluri et al. 2022), of which every stage is released.

Theorem 12. Every node has a class. A stage releases, for every node and class, how many of the node's neighbours have the class,
plus discrete Laplace noise, P(k) proportional to e^(-a |k|). All edges are counted, in both directions. The classes of a stage
may depend on public values and on all earlier releases. Then one stage is 2 a-DP for one undirected edge, and T stages
together are 2 T a-DP.

Proof. Given the earlier releases, the classes are the same in both worlds. The edge uv adds 1 to the entry (u, class of v) and 1
to the entry (v, class of u), and touches no other: 2 in L1 (`neighbour_count_sensitivity`). The noise of either entry bounds
its ratio of probabilities by e^a, and stages multiply. (Votes, Theorem 4, ask every pair once and in one direction.)
"""

from __future__ import annotations

import numpy as np

from caribou.errors import CaribouError, InputError
from caribou.graph import Graph
from caribou.machine.memory import DOUBLE, require_memory
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.calibration import CalibratedCounts


def neighbour_counts(graph: Graph, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How many neighbours of each node have each class: A Y in whole numbers. Private: noise is still to be added. [n, C], int64

    predicted: [n], the class of every node.

    >>> path = Graph.from_edges(np.zeros((3, 1)), [[0, 1], [1, 2]])
    >>> neighbour_counts(path, np.array([0, 1, 1]), 2).tolist()
    [[0, 1], [1, 1], [0, 1]]
    """
    n = graph.num_nodes
    if predicted.shape != (n,) or not np.issubdtype(predicted.dtype, np.integer):
        raise InputError(f"predicted must be {n} classes, got {predicted.dtype} of shape {predicted.shape}")
    if n and not 0 <= predicted.min() <= predicted.max() < classes:
        raise InputError(f"predicted must be a class in 0..{classes - 1} for every node")
    return np.asarray(graph.adjacency(np.int64) @ np.eye(classes, dtype=np.int64)[predicted])


class NoisyNeighbourCounts:
    """The only object that reads the private edges of such a release: it answers as often as its noise was calibrated for.

    Formal guarantee: the transcript of all answers is calibrated.epsilon-DP at edge level, provided that the arguments of `ask`
    are functions of public values and of earlier answers (docs/privacy.md, Theorem 12).
    """

    def __init__(self, graph: Graph, classes: int, calibrated: CalibratedCounts, noise: NoiseSource) -> None:
        n, T = graph.num_nodes, calibrated.stages
        require_memory(DOUBLE * n * classes * (T + 4), f"{T} noisy counts of {n:,} nodes in {classes} classes")
        self._graph, self._noise = graph, noise
        self.classes, self.calibrated, self.asked = classes, calibrated, 0

    def ask(self, predicted: np.ndarray) -> np.ndarray:
        """One stage: the noisy counts under these classes; one more than was calibrated for is an error. [n] -> [n, C], int64"""
        if self.asked >= self.calibrated.stages:
            raise CaribouError(
                f"stages must be at most {self.calibrated.stages}, for which noise was calibrated, got one more"
            )
        counts = neighbour_counts(self._graph, predicted, self.classes)
        self.asked += 1
        return self._noise.add_discrete_laplace(counts, epsilon=self.calibrated.noise_epsilon)
