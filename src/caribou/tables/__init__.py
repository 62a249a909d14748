"""Tables become a graph: files, folders, object stores, frames, queries, GraphML and NetworkX, all by the same rules."""
