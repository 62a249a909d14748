"""The paper's sensitivities, to compare ours with. No release may use them."""

from __future__ import annotations

import math


def _paper_c(minimum_degree: int) -> float:
    """C(D_min) of the paper (its Equation C_Dim)."""
    D = minimum_degree
    d = D if D > 3 else 3
    return d / math.sqrt(d + 1) - d / math.sqrt(d + 2)


def paper_edge_sensitivity(*, contraction: float, alpha1: float, minimum_degree: int) -> float:
    """The paper's edge sensitivity (its Theorem "Edge-level Sensitivity of CGL").

    It uses the minimum degree of the private graph, so noise calibrated with it depends on private data.
    """
    D = minimum_degree
    bracket = 1 / ((D + 1) * (D + 2)) + _paper_c(D) / math.sqrt(D + 1) + 1 / math.sqrt((D + 2) * (D + 1))
    return math.sqrt(2) * contraction * alpha1 * bracket


def paper_node_sensitivity(
    *, contraction: float, alpha1: float, minimum_degree: int, maximum_degree: int, nodes: int
) -> float:
    """The paper's node sensitivity (its Theorem "Node-level Sensitivity of CGL").

    It is not a bound for the paper's own operator: a star with 20 leaves exceeds it when the centre is removed (a test
    shows it).
    """
    D, M, n = minimum_degree, maximum_degree, nodes
    bracket = math.sqrt(M) / ((D + 1) * (D + 2)) + _paper_c(D) * math.sqrt(M) / math.sqrt(D + 1) + 1 / math.sqrt(D + 2)
    return 1 + (1 - alpha1) * contraction * 2 * n / (n + 1) + alpha1 * contraction * bracket
