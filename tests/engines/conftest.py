"""The graph and the cluster that tests of engines start from."""

from engines_support import cluster, tables  # noqa: F401
