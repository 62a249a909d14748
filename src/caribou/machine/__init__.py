"""The machine that the library runs on: files written whole, and memory. Every module may import it."""

from __future__ import annotations
