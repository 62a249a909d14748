"""How long cells will take is what cells of their kind took."""

from __future__ import annotations

from reproduction.durations import Duration, expected

from caribou.experiments.records import FAILED, OK, Record


def cell(method: str, seed: int, **more: object) -> dict:
    return {"kind": "train", "method": method, "dataset": "cora", "seed": seed, **more}


def test_the_mean_of_the_kind_with_a_shared_encoder_once() -> None:
    records = [
        Record("t", cell("a", 0), OK, {"cpu_seconds": 300.0}),
        Record("t", cell("a", 1), OK, {"cpu_seconds": 300.0, "shared_cpu_seconds": 180.0}),
        Record("t", cell("b", 0), FAILED),
    ]
    cells = [cell(method, seed) for method in "ab" for seed in range(3)]
    assert expected(cells, records) == Duration(3 * 210.0, 3, 6)
    assert expected(cells, []) == Duration(0.0, 0, 6)
