"""A target that says where it ran. It stands alone, because a worker process that imports it loads no model."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from caribou.graph import Graph
from caribou.mechanisms.noise_source import NoiseSource


@dataclass(frozen=True)
class Traced:
    """Noise alone, and where it was drawn."""

    def __call__(self, g: Graph, noise: NoiseSource) -> dict[str, np.ndarray]:
        threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
        return {"x": noise.gaussian((3,), std=1.0), "place": np.array([os.getpid(), threads])}
