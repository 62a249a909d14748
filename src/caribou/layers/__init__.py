"""Bounded graph layers: maps with a Lipschitz constant and a sensitivity at a privacy unit. No noise is drawn here."""

from caribou.layers.contractive import ContractiveGraphLayer, project_rows

__all__ = ["ContractiveGraphLayer", "project_rows"]
