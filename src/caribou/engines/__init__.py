"""Message passing in row blocks: in memory, out of core, or on a cluster, with the same bytes as a result."""
