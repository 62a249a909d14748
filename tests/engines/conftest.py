"""The graph that every test of an engine starts from."""

from engines_support import tables  # noqa: F401
