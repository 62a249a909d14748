"""The one door to a method: nothing in the audit fits or predicts a graph beside it, and nothing is changed on the way."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

import caribou.audit
from audit.known_bad_mechanisms.whole_methods import Sound
from caribou.audit import fits
from caribou.audit.pairs import worst_pairs
from caribou.mechanisms.noise_source import NoiseSource
from caribou.privacy.budget import Budget
from caribou.randomness import Streams

SOURCE = Path(caribou.audit.__file__).parent
MODELS_OF_ATTACKS = {"TargetModel", "PlainGcn"}
"""Classes of the audit itself whose ``fit`` trains an adversary, or the plain GCN, and no method."""


def calls_past_the_door(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("fit", "predict_graph")
        ):
            owner = ast.unparse(node.func.value)
            found += [ast.unparse(node.func)] if owner not in MODELS_OF_ATTACKS | {"fits"} else []
    return found


def test_every_fit_of_the_audit_goes_through_the_door() -> None:
    for path in sorted(SOURCE.glob("*.py")):
        if path.name != "fits.py":
            assert calls_past_the_door(ast.parse(path.read_text(encoding="utf-8"))) == [], path.name
    assert calls_past_the_door(ast.parse("self.method.fit(graph)\nmethod.predict_graph(w)")) == [
        "self.method.fit",
        "method.predict_graph",
    ]


def test_the_door_hands_everything_on_as_it_is() -> None:
    graph, budget = worst_pairs("edge")[0].joined, Budget(2.0, 1e-5)
    fitted = fits.fit(Sound(), graph, budget, Streams(3), NoiseSource.seeded(4))
    assert np.array_equal(fitted.released["sums"], Sound().sums(graph, budget, NoiseSource.seeded(4)))
    assert fitted.certificate.epsilon == budget.epsilon
    other = worst_pairs("edge")[1].joined
    weights = {"bias": np.array([0.0, 9.0])}
    predicted = fits.predict_graph(Sound(), weights, other, budget, Streams(3), NoiseSource.seeded(5))
    assert np.array_equal(predicted.released["sums"], Sound().sums(other, budget, NoiseSource.seeded(5)))
    expected = Sound().predict(weights, predicted.released, other)
    assert np.array_equal(predicted.probabilities, expected), "the given weights are used"
