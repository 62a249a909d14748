"""What accuracy to expect, before any data is touched: methods on generated graphs of the declared size, degree and homophily.

A simulation says how methods compare on a contextual block model, and no more: real graphs are no block models. Nothing private
is read, so the noise comes from a public seed, and the same declaration gives the same figures.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from caribou._validate import integer
from caribou.datasets.generated import BlockModel
from caribou.errors import CalibrationError
from caribou.methods.catalogue import METHODS, names_of
from caribou.privacy.budget import Budget, PrivacyUnit

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Where accuracy is simulated; a page draws lines between."""

SIMULATED = names_of(lambda info: info.simulated)
"""Compared side by side, each with its default settings; mlp and mlp-dp read features alone."""

LARGEST = 5000
"""Nodes of a simulated graph at most: larger declared graphs are simulated at this size, and the page says so."""


@dataclass(frozen=True)
class SimulatedAccuracy:
    """Test accuracy of one method at one epsilon, over ``seeds`` generated graphs.

    ``low`` and ``high``: the 95 % interval of the mean (Student's t), as shares of the test nodes; equal to it for one graph.
    """

    method: str
    unit: str
    epsilon: float
    mean: float
    low: float
    high: float
    seeds: int


def fits(seeds: int) -> int:
    """How many fits `simulate` makes, for a line of progress."""
    return seeds * sum(len(_epsilons(method)) for method in SIMULATED)


def simulate(
    world: BlockModel, *, seeds: int, delta: float | None = None, advance: Callable[[], None] = lambda: None
) -> tuple[SimulatedAccuracy, ...]:
    """Fit every method of both units at every epsilon on ``seeds`` graphs of a model.

    Args:
        world: what is declared; of at most `LARGEST` nodes, where more are declared.
        seeds: graphs; 0 gives nothing.
        delta: of the budgets.
        advance: called after every fit.

    Returns:
        One figure per method and epsilon; a budget that a method cannot keep has none.
    """
    integer(at_least=0, seeds=seeds)
    world = replace(world, nodes=min(world.nodes, LARGEST))
    values: dict[tuple[PrivacyUnit, str, float], list[float]] = {}
    for seed in range(seeds):
        for key, accuracy in _fitted(world, seed, delta, advance):
            values.setdefault(key, []).append(accuracy)
    return tuple(_summary(*key, accuracies) for key, accuracies in values.items())


def _epsilons(method: str) -> tuple[float, ...]:
    """Features alone are the same at every epsilon where they are public."""
    return EPSILONS[-1:] if METHODS[method].data_independent else EPSILONS


def _fitted(
    world: BlockModel, seed: int, delta: float | None, advance: Callable[[], None]
) -> Iterator[tuple[tuple[PrivacyUnit, str, float], float]]:
    """Accuracies on one graph. What reads public values alone is fitted once."""
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.model.estimator import Model
    from caribou.models.encoder import kept_encoders

    graph = world.draw(seed)
    with kept_encoders(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of generated data nothing is private
        for method in SIMULATED:
            unit = METHODS[method].unit
            for epsilon in _epsilons(method):
                try:
                    model = Model(method, Budget(epsilon, delta, unit), seed=seed)
                    accuracy = model.fit(graph, noise=NoiseSource.seeded(seed)).score()
                except CalibrationError:
                    continue
                finally:
                    advance()
                yield (unit, method, epsilon), accuracy


def _summary(unit: PrivacyUnit, method: str, epsilon: float, accuracies: Sequence[float]) -> SimulatedAccuracy:
    from caribou.metrics import mean_interval

    low, high = mean_interval(accuracies)
    inside = max(0.0, low), min(1.0, high)
    return SimulatedAccuracy(method, unit.value, epsilon, (low + high) / 2, *inside, len(accuracies))
