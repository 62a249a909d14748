"""Experiments: a grid in TOML, expanded to cells, measured one process each, kept as records."""
