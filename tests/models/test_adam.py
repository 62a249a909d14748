"""Adam: the same steps as torch's AdamW."""

from __future__ import annotations

import pytest
import torch

from caribou.models.adam import Adam


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_it_takes_the_steps_of_torch(decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 2, generator=generator), torch.randn(2, generator=generator)]
    ours, theirs = ([p.clone().requires_grad_() for p in start] for _ in range(2))
    adam, oracle = Adam(ours, 0.05, decay), torch.optim.AdamW(theirs, lr=0.05, weight_decay=decay)
    for step in range(30):
        for optimizer, (w, b) in ((adam, ours), (oracle, theirs)):
            optimizer.param_groups[0]["lr"] = 0.05 / (1 + step)
            optimizer.zero_grad()
            ((torch.arange(3.0) @ w + b - 1) ** 4).sum().backward()
            optimizer.step()
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, atol=1e-6)
    assert not torch.allclose(ours[0], start[0], atol=1e-2)
