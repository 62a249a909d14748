"""What breaks at edge level: message passing, counts, factors, seeds, noise that is used twice, digits and errors."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np

from audit.known_bad_mechanisms.known_bad import (
    KnownBad,
    Outcome,
    edge_pair,
    gaussian_claim,
    graph,
    many_runs,
    pure_claim,
    single_runs,
)
from caribou.audit.batched_mechanisms import BatchedPropagation
from caribou.audit.claims import Claim
from caribou.audit.pairs import Pair, star_graphs
from caribou.audit.targets import AuditTarget, asked
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.graph.operator import normalize
from caribou.layers.contractive import ContractiveGraphLayer
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu
from caribou.privacy.sensitivity import (
    Bounds,
    convergence_factor,
    edge_sensitivity,
)
from paper_formulas import paper_edge_sensitivity

C = 0.9


def sound(budget: Budget, start: np.ndarray, floor: int, hops: int = 1) -> BatchedPropagation:
    """The real mechanism with the noise that it needs."""
    delta = edge_sensitivity(contraction=C, alpha1=1.0, degree_floor=floor)
    noise_std = delta * math.sqrt(convergence_factor(hops=hops, contraction=C)) / budget_mu(budget)
    return BatchedPropagation(ContractiveGraphLayer(C), Bounds(degree_floor=floor), hops, noise_std, start)


def opposite_signs(leaves: int) -> np.ndarray:
    """The worst rows of two stars: one sign each."""
    return np.array([1.0, -1.0] + [1.0] * leaves + [-1.0] * leaves)[:, None]


# -- noise, then the private graph once more -----------------------------------------------------------------------


class UnnoisedLastHop(BatchedPropagation):
    """The state is multiplied by the clean operator after the last noise."""

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        W = normalize(g, self.bounds).matrix.to_dense().numpy()
        return {"state": C * W @ super().many(g, runs, noise)["state"]}


def unnoised_last_hop(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Two nodes with the same two neighbours: if they are joined, their closed neighbourhoods and so their rows are equal."""
    right = sound(budget, np.zeros((4, 2)), floor=3, hops=2)
    pair = edge_pair("twins", graph(4, [(0, 2), (1, 2), (0, 3), (1, 3)]), 0, 1)
    return (
        UnnoisedLastHop(right.layer, right.bounds, right.hops, right.noise_std, right.start),
        pair,
        gaussian_claim(budget),
    )


# -- too little noise ----------------------------------------------------------------------------------------------


def halved_noise(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Half the standard deviation: sigma^2 was halved once too often, or a variance was used as a deviation."""
    right = sound(budget, opposite_signs(3), floor=3)
    pair = Pair("stars", *star_graphs(3), PrivacyUnit.EDGE)
    return replace(right, noise_std=right.noise_std / 2), pair, gaussian_claim(budget)


def without_self_loops(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """D^-1/2 A D^-1/2 without self loops, with the noise of the bound for (A + I): one edge moves 1.66 times as much."""
    noise_std = edge_sensitivity(contraction=C, alpha1=1.0, degree_floor=1) / budget_mu(budget)
    root = 1 / np.sqrt(np.maximum(g.degrees, 1))
    state = C * (root[:, None] * g.adjacency(np.float64).toarray() * root) @ opposite_signs(0)
    return {"state": state + noise.gaussian((runs, *state.shape), std=noise_std)}


# -- a scale that reads the private graph --------------------------------------------------------------------------


def minimum_degree(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """The sensitivity takes D_min from the private graph, so the noise itself tells the graphs apart."""
    delta = paper_edge_sensitivity(contraction=C, alpha1=1.0, minimum_degree=int(g.degrees.min()))
    z = noise.gaussian((runs, g.num_nodes, 4), std=delta / budget_mu(budget))
    return {"state": z}  # rows of X^(0) are zero: nothing but the noise is released


PATH = graph(12, [(i, i + 1) for i in range(11)])
"""With an edge between its ends it is a cycle, where D_min is 2 and not 1."""


# -- not Lipschitz -------------------------------------------------------------------------------------------------


class SphereInsteadOfBall(BatchedPropagation):
    """Rows are brought to length 1 before the noise, also short ones: that is not a projection and not 1-Lipschitz."""

    def many(self, g: Graph, runs: int, noise: NoiseSource) -> dict[str, np.ndarray]:
        x = C * normalize(g, self.bounds).matrix.to_dense().numpy() @ self.start
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        return {"state": x + noise.gaussian((runs, *x.shape), std=self.noise_std)}


def sphere(budget: Budget) -> tuple[AuditTarget, Pair, Claim]:
    """Node 0 has a zero row and a neighbour with a tiny message; the edge in question brings a long one of the other sign."""
    start = np.array([[0.0, 0.0], [-1.0, 0.0], [0.01, 0.0]])
    right = sound(budget, start, floor=3)
    pair = edge_pair("a short row", graph(3, [(0, 2)]), 0, 1)
    return SphereInsteadOfBall(right.layer, right.bounds, 1, right.noise_std, start), pair, gaussian_claim(budget)


# -- published baselines ---------------------------------------------------------------------------------------------


def lost_copy(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Weights are normalised in the copy that ``state_dict`` returned; the product uses the others."""
    weight, norm_scale = np.linspace(-0.9, 0.9, 12).reshape(6, 2), 1e-8
    state = {"weight": weight.copy()}
    state["weight"] *= norm_scale / np.linalg.norm(state["weight"], axis=1, keepdims=True)  # and it is lost
    product = g.adjacency(np.float64) @ weight
    z = noise.gaussian((runs, *product.shape), std=1 / budget_mu(budget) * math.sqrt(2) * norm_scale)
    return {"product": product + z}


def density_per_chunk(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """The density of every chunk of rows, with the Laplace noise for the density of the whole matrix, 1 / n^2."""
    n, share, chunk = g.num_nodes, 0.1, 3
    densities = g.degrees.reshape(-1, chunk).sum(axis=1) / (chunk * n)
    z = noise.laplace((runs, len(densities)), scale=1 / n**2 / (share * budget.epsilon))
    return {"densities": densities + z}


def exact_singular_vectors(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Singular values get noise (one edge moves them by at most sqrt(2)); the vectors that are multiplied back are exact."""
    U, values, V = np.linalg.svd(g.adjacency(np.float64).toarray())
    noisy = values + noise.gaussian((runs, len(values)), std=math.sqrt(2) / budget_mu(budget))
    return {"adjacency": np.einsum("ik,rk,kj->rij", U, noisy, V)}


# -- memory ----------------------------------------------------------------------------------------------------------


def strided_indices(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """The indices are every other entry of a buffer; the counter ignores strides and reads the first entries of it.

    One edge lengthens rows, so every later row reads other entries: it moves far more than the two counts it belongs to.
    Voters are the odd nodes of a path; a sound count of them moves by at most 1 at each end.
    """
    buffer = np.stack([g.indices, np.arange(len(g.indices)) % 2], axis=1).ravel()
    read = buffer[: len(g.indices)]  # should be buffer[::2]
    votes = np.array([read[g.indptr[v] : g.indptr[v + 1]].sum() for v in range(g.num_nodes)], dtype=np.float64)
    return {"votes": votes + noise.laplace((runs, len(votes)), scale=2 / budget.epsilon)}


# -- sound noise, handled badly or used twice ------------------------------------------------------------------------

TWO_OF_SIX = edge_pair("two of six", graph(6, [(2, 3)]), 0, 1)
TWO_OF_TWELVE = edge_pair("two of twelve", graph(12, [(4, 5)]), 0, 1)


def sums(g: Graph) -> np.ndarray:
    """A X with unit rows: one edge moves it by sqrt(2). [12, 8]"""
    return g.adjacency(np.float64) @ np.eye(12)[:, :8]


def stored_seed(budget: Budget, g: Graph, noise: NoiseSource) -> Outcome:
    """For reproducibility the seed of the noise is saved with the result."""
    seed = int(noise.integers(1, below=2**31)[0])
    z = NoiseSource.seeded(seed).gaussian((12, 8), std=math.sqrt(2) / budget_mu(budget))
    return {"sums": sums(g) + z, "seed": np.array(seed)}


def fresh_noise(budget: Budget, g: Graph, noise: NoiseSource) -> Outcome:
    """A service that answers from the private graph and adds new noise of the right size each time."""
    exact, std = sums(g), math.sqrt(2) / budget_mu(budget)
    return asked(lambda: exact + noise.gaussian(exact.shape, std=std), slice(None))


def one_tensor(budget: Budget, g: Graph, runs: int, noise: NoiseSource, columns: int = 2) -> Outcome:
    """Sums and degrees have one shape, so they get one tensor of noise; their difference has none. [n, columns]"""
    rows = np.linspace(-1, 1, g.num_nodes * columns).reshape(-1, columns)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    summed = g.adjacency(np.float64) @ rows
    degrees = np.tile(g.degrees[:, None] / math.sqrt(columns), (1, columns))
    # each moves by sqrt(2) with an edge, and has half of mu^2
    z = noise.gaussian((runs, *summed.shape), std=2 / budget_mu(budget))
    return {"first": summed + z, "second": degrees + z}


def one_key(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """A third and the rest of the budget: two releases under the same key, so that one noise is a multiple of the other."""
    degrees = g.adjacency(np.float64) @ np.ones((g.num_nodes, 1))
    z = noise.gaussian((runs, *degrees.shape), std=math.sqrt(2) / budget_mu(budget))
    return {"first": degrees + z * math.sqrt(3), "second": degrees + z * math.sqrt(3 / 2)}


# -- what an audit could miss: leaks in errors and in digits ---------------------------------------------------------

LONELY = edge_pair("two lonely nodes", graph(6, [(2, 3), (4, 5)]), 0, 1)


def refused_graph(budget: Budget, g: Graph, noise: NoiseSource) -> Outcome:
    """A sound release that checks its input first: a graph with a node without neighbours is refused."""
    if g.degrees.min() == 0:
        raise InputError("graph must have a neighbour for every node")
    degrees = g.adjacency(np.float64) @ np.ones((g.num_nodes, 1))
    return {"sums": noise.add_gaussian(degrees, std=math.sqrt(2) / budget_mu(budget))}


def single_precision(budget: Budget, g: Graph, runs: int, noise: NoiseSource) -> Outcome:
    """Noise with the digits of single precision is added to a double: where the sum is noise alone, it has few digits."""
    means = (g.adjacency(np.float64) @ np.full((g.num_nodes, 1), 1 / 3)) / np.maximum(1, g.degrees)[:, None]
    z = noise.gaussian((runs, *means.shape), std=math.sqrt(2) / budget_mu(budget))
    return {"means": means + z.astype(np.float32)}


MECHANISMS = {
    "un-noised convolution after the noise": KnownBad(
        "noise is added, then the clean adjacency is applied once more before the classifier (CARIBOU's artifact)",
        unnoised_last_hop,
        runs=400,
    ),
    "noise std halved": KnownBad("half the calibrated noise", halved_noise, runs=6000),
    "sensitivity of another operator": KnownBad(
        "the bound of the operator with self loops is used for the operator without them",
        many_runs(without_self_loops, edge_pair("two nodes", graph(2, []), 0, 1)),
        runs=12000,
    ),
    "minimum degree read from the graph": KnownBad(
        "D_min in the noise scale is computed from the private graph (CARIBOU's artifact)",
        many_runs(minimum_degree, edge_pair("path and cycle", PATH, 0, 11)),
        runs=400,
    ),
    "normalisation to the sphere": KnownBad(
        "rows are normalised where the proof needs a projection onto the ball", sphere, runs=2000
    ),
    "weights normalised in a lost copy": KnownBad(
        "normalisation is written into the dictionary that state_dict() returned (DPDGC)",
        many_runs(lost_copy, edge_pair("two nodes of six", graph(6, [(2, 3)]), 0, 1)),
        runs=400,
    ),
    "density sensitivity of the whole for a chunk": KnownBad(
        "chunks of rows release their density with the noise for 1 / n^2 (SAGE)",
        many_runs(density_per_chunk, edge_pair("two chunks", graph(60, [(5, 9)]), 0, 30), pure_claim),
        runs=30_000,
    ),
    "exact singular vectors beside noisy singular values": KnownBad(
        "a low-rank model adds noise to the spectrum and multiplies by clean vectors",
        many_runs(exact_singular_vectors, edge_pair("two of eight", graph(8, [(2, 3), (3, 4), (4, 5)]), 0, 1)),
        runs=400,
    ),
    "strided indices read as if they lie side by side": KnownBad(
        "a compiled counter takes the address of a view and ignores its strides",
        many_runs(strided_indices, edge_pair("two ends of a path", PATH, 0, 11), pure_claim),
        runs=30_000,
    ),
    "the noise seed stored beside the release": KnownBad(
        "the seed is saved for reproducibility, so anybody can subtract the noise",
        single_runs(stored_seed, TWO_OF_TWELVE),
        runs=400,
    ),
    "fresh noise at every query of the same release": KnownBad(
        "every question is answered with new noise, so the mean of the answers has less",
        single_runs(fresh_noise, TWO_OF_TWELVE),
        runs=1600,
    ),
    "one noise tensor for two parameters of a shape": KnownBad(
        "a gradient hook draws noise once per shape, not once per parameter",
        many_runs(one_tensor, TWO_OF_SIX),
        runs=400,
    ),
    "one noise tensor for two wide parameters": KnownBad(
        "the same, with more columns than correlations can be estimated of",
        many_runs(partial(one_tensor, columns=40), edge_pair("two of twelve", graph(12, [(2, 3)]), 0, 1)),
        runs=400,
    ),
    "noise replayed over two budgets": KnownBad(
        "two releases under the same key: their weighted difference is exact", many_runs(one_key, TWO_OF_SIX), runs=400
    ),
    "an error that depends on the graph": KnownBad(
        "a check of the private graph refuses some of them", single_runs(refused_graph, LONELY), runs=200
    ),
    "digits that show where there is nothing but noise": KnownBad(
        "noise of single precision is added to values of double precision",
        many_runs(single_precision, LONELY),
        runs=400,
    ),
}
