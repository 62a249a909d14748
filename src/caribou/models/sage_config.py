"""Widths and training of GraphSAGE: public settings, which a plan checks without torch."""

from __future__ import annotations

from dataclasses import dataclass

from caribou._validate import MAX_EPOCHS, MAX_ROUNDS, MAX_WIDTH, integer, one_of, positive, unit_interval

AGGREGATORS = ("mean", "sum")


@dataclass(frozen=True)
class SageConfig:
    """Widths and training: Adam on the full batch.

    Args:
        hidden: width of every layer, at least 1.
        layers: number of SAGE layers, at least 1.
        aggregator: "mean" or "sum" of the neighbours.
        dropout: before every linear map but the first and the head, in [0, 1].
        learning_rate: of Adam.
        weight_decay: of Adam.
        epochs: steps that are taken, at least 1.
    """

    hidden: int = 64
    layers: int = 2
    aggregator: str = "mean"
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 1e-3
    epochs: int = 80

    def __post_init__(self) -> None:
        integer(at_least=1, at_most=MAX_WIDTH, hidden=self.hidden)
        integer(at_least=1, at_most=MAX_ROUNDS, layers=self.layers)
        one_of(AGGREGATORS, aggregator=self.aggregator)
        unit_interval(dropout=self.dropout)
        positive(learning_rate=self.learning_rate)
        integer(at_least=1, at_most=MAX_EPOCHS, epochs=self.epochs)
