"""Audit: attacks on what a method hands out. Methods are seen through their protocol only, so a broken one can be attacked."""

from __future__ import annotations
