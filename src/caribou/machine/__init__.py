"""The machine that the library runs on: files written whole, memory, and what a notebook shows. Every module may import it."""

from __future__ import annotations
