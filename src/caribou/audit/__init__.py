"""Audit: attacks on what a method hands out. Methods are seen through their protocol only, so a broken one can be attacked.

`bounds` turns outcomes of attacks into proven lower bounds, `claims` says what was promised, `games` plays the paper's auditing
game, `pairs` holds worst-case neighbours, `distinguish` tries to falsify a claim on them, `onerun` does it in one run with many
canary edges, `verdict` weighs the evidence and `report` draws it.
"""

from __future__ import annotations
