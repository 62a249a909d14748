"""``lapgraph-edp``: LapGraph (Wu et al. 2022) with a threshold in the place of a fixed number of cells, then GraphSAGE.

Laplace noise on every cell of the upper triangle, and the cells above a threshold become edges. The published method keeps
exactly as many of the largest cells as the noisy edge count says; here the threshold is the one above which that many are
*expected*. It is a function of released numbers, so cells are independent, two probabilities describe them, and no cell is ever
drawn: time and memory are O(edges + new pairs) instead of O(n^2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from caribou.methods.sage import SageEdge


@dataclass(frozen=True)
class LapGraph(SageEdge):
    """Public settings of ``lapgraph-edp``: those of `SageEdge`; the published share of the edge count is the default, too.

    Formal guarantee: edge count and perturbed graph are together budget.epsilon-DP at edge level, with delta = 0
    (docs/methods/sage.md, Theorem E). The pairs often cost less than promised; the certificate says what they cost exactly.
    """

    name: ClassVar[str] = "lapgraph-edp"
