"""A counter that reads other memory than it was given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.known_bad_mechanisms.known_bad import KnownBad, edge_pair, graph, pure_claim
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair
from caribou.audit.targets import AuditTarget
from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget


@dataclass(frozen=True)
class StridedIndices:
    """The indices are every other entry of a buffer; the counter ignores strides and reads the first entries of it.

    One edge lengthens rows, so every later row reads other entries: it moves far more than the two counts it belongs to.
    """

    epsilon: float

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        buffer = np.stack([g.indices, np.arange(len(g.indices)) % 2], axis=1).ravel()
        read = buffer[: len(g.indices)]  # should be buffer[::2]
        votes = np.array([read[g.indptr[v] : g.indptr[v + 1]].sum() for v in range(g.num_nodes)], dtype=np.float64)
        return {"votes": votes + noise.laplace((runs, len(votes)), scale=2 / self.epsilon)}


def strided_indices(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Voters are the odd nodes of a path; a sound count of them moves by at most 1 at each end."""
    path = graph(12, [(v, v + 1) for v in range(11)])
    return StridedIndices(budget.epsilon), edge_pair("two ends of a path", path, 0, 11), pure_claim(budget)


MECHANISMS = {
    "strided indices read as if they lay side by side": KnownBad(
        "a compiled counter takes the address of a view and ignores its strides", strided_indices, runs=30_000
    ),
}
