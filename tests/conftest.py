"""Shared by all tests: reproducible hypothesis runs, and one thread per worker."""

from __future__ import annotations

import torch
from hypothesis import settings

# Derandomised: a red test must stay red when it is run again.
settings.register_profile("caribou", derandomize=True, deadline=None)
settings.load_profile("caribou")
torch.set_num_threads(1)
