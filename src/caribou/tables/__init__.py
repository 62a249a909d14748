"""Tables become a graph: files, folders, object stores, frames, queries and NetworkX, all by the same rules."""
