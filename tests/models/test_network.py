"""The network that is trained privately, and its outputs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from caribou.models.features import centred_unit_rows
from caribou.models.network import chain_logits, selu_network
from descent_support import C, D, data, mlp


def test_centred_sparse_rows_give_the_outputs_of_the_explicit_matrix() -> None:
    rows = centred_unit_rows(sp.csr_array(data()[0]), np.full(D, 0.2))
    assert np.allclose(chain_logits(mlp(), rows), chain_logits(mlp(), rows.times(np.eye(D))))


def test_only_the_last_weights_are_drawn_and_not_by_the_global_generator() -> None:
    before = torch.get_rng_state()
    network = selu_network(D, 400, C, np.random.default_rng(0))
    assert torch.equal(torch.get_rng_state(), before)
    values = {name: p.detach() for name, p in network.named_parameters()}
    assert all(float(values[name].abs().max()) == 0 for name in ("0.weight", "0.bias", "2.bias"))
    assert float(values["2.weight"].std()) == pytest.approx(400**-0.5, rel=0.1)
    assert all(p.dtype == torch.float64 and p.requires_grad for p in network.parameters())
