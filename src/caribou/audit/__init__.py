"""Audit: attacks on what a method hands out. The audit sees methods through their protocol only, so it can attack a broken one.

`catalogue` says what every attack tests, and needs no torch. `attack` is their protocol and holds all of them, one file each:
`distinguish` and `onerun` try to reject a claim, `noise_replay` asks whether a fit reads edges through its noise alone,
`linkteller`, `gmia` and `lira` measure. `audited_method` is what is attacked, `evidence` what is found,
`verdict` weighs it, and `auditor` does all of it.
"""

from __future__ import annotations
