"""The graph: features, undirected edges, labels and split, the operator made of it, and ways in and out of other libraries."""

from caribou.graph.checks import MAX_NODES, Cleaning, listed
from caribou.graph.graph import Graph
from caribou.graph.split import DEFAULT_FRACTIONS, Split

__all__ = ["DEFAULT_FRACTIONS", "MAX_NODES", "Cleaning", "Graph", "Split", "listed"]
