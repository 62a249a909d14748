"""How long cells will take is what cells of their kind took."""

from __future__ import annotations
