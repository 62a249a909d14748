"""Private training: clipped sums against brute force, the noise against its claim, and what one example can do."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from scipy import stats
from torch import nn

from caribou.errors import DataError, InputError
from caribou.mechanisms.bounded_rows import Rows, row_norms
from caribou.mechanisms.clipped_gradients import clipped_gradient_sum, linear_clipped_sum
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.noisy_descent import (
    Descent,
    Optimizer,
    average_noise_variance,
    noisy_gradient_descent,
    poisson_samples,
    train_privately,
)
from caribou.mechanisms.noisy_mean import private_mean
from caribou.models import linear
from caribou.models.features import centred_unit_rows, unit_root_rows, with_random_features
from caribou.models.linear import path_length_schedule, shrink_rows
from caribou.models.network import chain_logits, selu_network
from caribou.models.public_features import public_basis, read_public_features
from caribou.privacy.accounting import epsilon_of
from caribou.privacy.allocation import AllocatedPart, Part, allocate
from caribou.privacy.budget import Budget
from caribou.privacy.events import Gaussian, SubsampledGaussian

N, D, C = 30, 7, 4


def data(seed: int = 0, n: int = N) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, D)) * (rng.random((n, D)) < 0.6), rng.integers(C, size=n)


def full_batch(steps: int, multiplier: float) -> AllocatedPart:
    return AllocatedPart(Part("training", steps), multiplier)


def mlp(seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = (nn.Linear(D, 6, bias=bias), nn.SELU(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, C))
    return nn.Sequential(*layers).double()


class Residual(nn.Module):
    """A module that is no chain, with a layer norm and a frozen part."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.norm, self.last = nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, C)
        self.frozen = nn.Linear(D, D).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.norm(x + torch.relu(self.first(x)) + self.frozen(x)))


def brute_force(module: nn.Module, x: np.ndarray, y: np.ndarray, clip: float) -> tuple[list[np.ndarray], list[float]]:
    """One backward pass per example. The clipped sum, and the norm of every clipped contribution."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    total, norms = [np.zeros(tuple(p.shape)) for p in parameters], []
    for row, label in zip(x, y, strict=True):
        loss = nn.functional.cross_entropy(module(torch.from_numpy(row[None])), torch.tensor([label]))
        grads = torch.autograd.grad(loss, parameters)
        norm = math.sqrt(sum(float(g.square().sum()) for g in grads))
        factor = min(1.0, clip / norm)
        norms.append(norm * factor)
        total = [t + factor * g.numpy() for t, g in zip(total, grads, strict=True)]
    return total, norms


def std_is_rejected(sample: np.ndarray, claimed: float, level: float = 1e-6) -> bool:
    """Two-sided chi-square test of the standard deviation."""
    statistic = float((sample**2).sum()) / claimed**2
    tail = stats.chi2.cdf(statistic, sample.size)
    return min(tail, 1 - tail) < level / 2


# -- clipped sums --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", [0.05, 0.7, 100.0])
@pytest.mark.parametrize("module", [mlp(), mlp(bias=False), nn.Linear(D, C).double(), Residual().double()])
def test_clipped_sums_equal_brute_force(module: nn.Module, clip: float) -> None:
    x, y = data()
    expected, norms = brute_force(module, x, y, clip)
    assert max(norms) <= clip * (1 + 1e-12)
    ours = clipped_gradient_sum(module, x, y, clip)
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        assert np.allclose(a.numpy(), b, rtol=1e-10, atol=1e-12)


def test_centred_sparse_rows_give_the_sums_of_the_explicit_matrix() -> None:
    x, y = data()
    rows = centred_unit_rows(sp.csr_array(x), np.full(D, 0.2))
    explicit = rows.times(np.eye(D))
    for a, b in zip(
        clipped_gradient_sum(mlp(), rows, y, 0.3), clipped_gradient_sum(mlp(), explicit, y, 0.3), strict=True
    ):
        assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)
    fits = [vector(fit(mlp(), 4, probability=0.5, noise=NoiseSource.seeded(0), x=z)) for z in (rows, explicit)]
    assert np.allclose(*fits)
    assert np.allclose(chain_logits(mlp(), rows), chain_logits(mlp(), explicit))
    with pytest.raises(InputError, match="x must be dense"):
        clipped_gradient_sum(Residual().double(), rows, y, 1.0)


@pytest.mark.parametrize("module", [mlp(), nn.Linear(D, C).double()])
def test_sparse_inputs_give_the_same_sums(module: nn.Module) -> None:
    x, y = data()
    dense = clipped_gradient_sum(module, x, y, 0.3)
    for a, b in zip(dense, clipped_gradient_sum(module, sp.csr_array(x), y, 0.3), strict=True):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_sums_equal_opacus() -> None:
    opacus = pytest.importorskip("opacus")
    x, y = data()
    module = mlp(4)
    expected, _ = brute_force(module, x, y, 0.5)
    sample = opacus.GradSampleModule(mlp(4), loss_reduction="sum")
    nn.functional.cross_entropy(sample(torch.from_numpy(x)), torch.from_numpy(y), reduction="sum").backward()
    optimizer = opacus.optimizers.DPOptimizer(
        torch.optim.SGD(sample.parameters(), lr=1.0),
        noise_multiplier=0.0,
        max_grad_norm=0.5,
        expected_batch_size=1,
        loss_reduction="sum",
    )
    optimizer.clip_and_accumulate()
    for ours, p, b in zip(clipped_gradient_sum(module, x, y, 0.5), sample.parameters(), expected, strict=True):
        # Opacus divides by norm + 1e-6
        assert np.allclose(ours.numpy(), p.summed_grad.numpy(), rtol=1e-4, atol=1e-5)
        assert np.allclose(ours.numpy(), b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("clip", [0.1, 0.9, 50.0])
def test_linear_sums_equal_brute_force(sparse: bool, clip: float) -> None:
    x, y = data(1)
    weights = np.random.default_rng(2).standard_normal((D, C))
    module = nn.Linear(D, C, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(weights.T))
    expected, _ = brute_force(module, x, y, clip)
    rows = Rows.of(sp.csr_array(x) if sparse else x)
    assert np.allclose(linear_clipped_sum(rows, y, weights, clip), expected[0].T, rtol=1e-10, atol=1e-12)


def test_removing_one_example_moves_the_sum_by_at_most_the_clip() -> None:
    x, y = data(5)
    clip = 0.4
    rows, weights = Rows.of(x), np.random.default_rng(0).standard_normal((D, C))
    modules = [mlp(7), Residual().double()]
    linear = linear_clipped_sum(rows, y, weights, clip)
    others = [clipped_gradient_sum(m, x, y, clip) for m in modules]
    largest = 0.0
    for i in range(N):
        keep = np.delete(np.arange(N), i)
        moved = np.linalg.norm(linear - linear_clipped_sum(rows.take(keep), y[keep], weights, clip))
        assert moved <= clip * (1 + 1e-9)
        largest = max(largest, moved)
        for module, total in zip(modules, others, strict=True):
            less = clipped_gradient_sum(module, x[keep], y[keep], clip)
            assert math.sqrt(sum(float((a - b).square().sum()) for a, b in zip(total, less, strict=True))) <= clip * (
                1 + 1e-9
            )
    assert largest > 0.99 * clip  # the bound is reached: the test has teeth


def test_an_example_that_overflows_contributes_nothing() -> None:
    x, y = data(6)
    for module, huge in ((mlp(1), 1e200), (Residual().double(), np.inf)):
        kept = clipped_gradient_sum(module, x[1:], y[1:], 0.5)
        broken = x.copy()
        broken[0] = huge
        for a, b in zip(clipped_gradient_sum(module, broken, y, 0.5), kept, strict=True):
            assert torch.allclose(a, b)


# -- rows ----------------------------------------------------------------------------------------------------------


def test_centred_rows_are_the_same_sparse_and_dense_and_have_unit_norm() -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((50, 40))) * (rng.random((50, 40)) < 0.1)
    x[:, 0] += 0.1
    x[3] = 0
    unit = unit_root_rows(sp.csr_array(x))
    assert sp.issparse(unit)
    assert np.allclose(unit.todense(), unit_root_rows(x)), "how rows are stored follows the input, not its content"
    norms = row_norms(unit)
    assert norms[3] == 0
    assert np.allclose(np.delete(norms, 3), 1)
    assert np.allclose(unit.todense()[0] ** 2 * np.abs(x[0]).sum(), x[0])
    mean = 0.05 * rng.standard_normal(40)
    mean += 0.97 * (
        np.asarray(unit.todense())[5] - mean
    )  # so that row 5 is closer to the mean than the shortest residual
    sparse, dense = centred_unit_rows(unit, mean), centred_unit_rows(np.asarray(unit.todense()), mean)
    weights, right = rng.standard_normal((40, C)), rng.standard_normal((50, C))
    assert np.allclose(sparse.times(weights), dense.times(weights))
    assert np.allclose(sparse.sum_of_outer(right), dense.sum_of_outer(right))
    assert np.allclose(row_norms(sparse.times(np.eye(40))), sparse.norms)
    assert np.allclose(row_norms(dense.matrix), dense.norms)
    assert dense.norms[5] < 1
    assert np.allclose(np.delete(dense.norms, 5), 1)
    assert not np.shares_memory(unit.data, x)


@pytest.mark.parametrize("sparse", [False, True])
def test_random_features_are_columns_of_rows_of_norm_one(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((50, 40))) * (rng.random((50, 40)) < 0.1)
    unit = unit_root_rows(sp.csr_array(x))
    z = centred_unit_rows(unit if sparse else np.asarray(unit.todense()), 0.01 * rng.random(40))
    joined = with_random_features(z, np.random.default_rng(3).standard_normal((40, 30)), share=0.2)
    assert joined.shape == (50, 70)
    assert sp.issparse(joined.matrix) == sparse
    explicit = joined.times(np.eye(70))
    hidden = np.maximum(z.times(np.eye(40)) @ np.random.default_rng(3).standard_normal((40, 30)) - 0.5, 0)
    hidden /= np.maximum(row_norms(hidden), 1e-300)[:, None]
    assert np.allclose(explicit, np.hstack([0.8**0.5 * z.times(np.eye(40)), 0.2**0.5 * hidden]))
    assert np.allclose(row_norms(explicit), joined.norms)
    assert joined.norms.max() <= 1 + 1e-12
    right, weights = rng.standard_normal((50, C)), rng.standard_normal((70, C))
    assert np.allclose(joined.sum_of_outer(right), explicit.T @ right)
    taken = joined.take(np.array([4, 2]))
    assert np.allclose(taken.times(weights), (explicit @ weights)[[4, 2]])
    with pytest.raises(InputError, match="must not have further columns"):
        with_random_features(joined, np.ones((70, 2)), share=0.2)


def test_every_contribution_with_random_features_is_clipped() -> None:
    """One example alone: its gradient has norm at most the clip, and the closed form is that of the explicit rows."""
    x, y = data(2)
    z = centred_unit_rows(x, np.zeros(D))
    joined = with_random_features(z, np.random.default_rng(0).standard_normal((D, 9)), share=0.1)
    weights = np.random.default_rng(1).standard_normal((D + 9, C))
    parts = [linear_clipped_sum(joined.take(np.array([i])), y[[i]], weights, 0.3) for i in range(N)]
    assert max(np.linalg.norm(p) for p in parts) <= 0.3 * (1 + 1e-12)
    assert np.allclose(sum(parts), linear_clipped_sum(Rows.of(joined.times(np.eye(D + 9))), y, weights, 0.3))


def test_random_feature_count_is_a_public_switch() -> None:
    count = linear.random_feature_count
    below, above = (count(mu=m, train_size=1000, classes=2, nodes=2000) for m in (0.94, 0.96))
    assert (below, above) == (0, linear.RANDOM_FEATURES)
    assert count(mu=math.inf, train_size=10**6, classes=2, nodes=2**20) == 128


def test_network_and_its_outputs() -> None:
    x, _ = data()
    one, two, other = (selu_network(D, 6, C, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(vector(one), vector(two))
    assert not np.array_equal(vector(one), vector(other))
    assert np.array_equal(chain_logits(one, x), np.zeros((N, C)))
    chain = mlp()
    expected = chain(torch.from_numpy(x)).detach().numpy()
    assert np.allclose(chain_logits(chain, x), expected)
    assert np.allclose(chain_logits(chain, sp.csr_array(x)), expected)
    with pytest.raises(InputError, match="must be a chain"):
        chain_logits(Residual(), x)


# -- a public sample -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [12, 60])
def test_public_basis_is_principal_components(rows: int) -> None:
    rng = np.random.default_rng(0)
    x = np.abs(rng.standard_normal((rows, 20)))
    basis = public_basis(x, 5)
    unit = unit_root_rows(x)
    z = centred_unit_rows(unit, unit.mean(axis=0)).times(np.eye(20))
    _, spread, directions = np.linalg.svd(z)
    expected = np.diag(np.sqrt(spread[0] / spread[:5]))
    assert np.allclose(np.abs(directions[:5] @ basis.components), expected)
    private = basis.rows(np.abs(rng.standard_normal((30, 20))))
    assert private.shape == (30, 5)
    assert np.allclose(row_norms(private.matrix), private.norms)
    assert private.norms.max() <= 1 + 1e-12
    for small, count in ((x, 21), (np.ones((3, 4)), 2), (x, 0)):  # too few directions: centring only
        centred = public_basis(small, count)
        assert centred.components is None
        assert centred.rows(small).shape == small.shape


def test_public_features_are_read_from_every_format(tmp_path: Path) -> None:
    x = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, 0.0]])
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    np.save(tmp_path / "a.npy", x)
    np.savez(tmp_path / "b.npz", features=x)
    sp.save_npz(tmp_path / "c.npz", sp.csr_array(x))
    frame.to_csv(tmp_path / "d.csv", index=False)
    frame.to_csv(tmp_path / "e.csv", index=False, header=False)
    frame.to_parquet(tmp_path / "f.parquet")
    for name in ("a.npy", "b.npz", "c.npz", "d.csv", "e.csv", "f.parquet"):
        read = read_public_features(tmp_path / name, columns=3)
        assert np.array_equal(read.todense() if sp.issparse(read) else read, x), name
        assert sp.issparse(read) == (name == "c.npz")


def test_public_features_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    def refused(name: str, match: str) -> None:
        with pytest.raises(DataError, match=match):
            read_public_features(tmp_path / name, columns=3)

    np.save(tmp_path / "columns.npy", np.ones((2, 4)))
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan, 0.0]]))
    np.save(tmp_path / "empty.npy", np.ones((0, 3)))
    np.save(tmp_path / "flat.npy", np.ones(3))
    np.save(tmp_path / "words.npy", np.array([["a", "b", "c"]]))
    np.save(tmp_path / "objects.npy", np.array([[{}, 1, 2]], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "other.npz", x=np.ones((2, 3)))
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    (tmp_path / "words.csv").write_text("a,b,c\n1,x,2\n")
    (tmp_path / "hole.csv").write_text("a,b,c\n1,,2\n")
    refused("columns.npy", "must have the graph's 3 columns, got 4")
    for name in ("nan.npy", "hole.csv"):
        refused(name, "must hold finite numbers, got nan or inf")
    refused("empty.npy", "must have at least one row")
    for name in ("flat.npy", "words.npy"):
        refused(name, "must be a table of numbers")
    for name in ("objects.npy", "other.npz", "broken.npz", "words.csv"):
        refused(name, "must be readable")
    refused("missing.npy", "must be an existing file")
    refused("table.txt", "must end in .npy")


def test_private_mean_noise_and_shrinkage() -> None:
    x = np.zeros((10, 50_000))
    part = AllocatedPart(Part("mean"), 3.0)
    noisy = private_mean(x[:, :10] + 0.3, part, NoiseSource.seeded(0), train_size=10)
    assert np.abs(noisy).max() < 3
    # James-Stein removes a mean of noise alone (up to its own fluctuation), and keeps a strong signal
    assert np.linalg.norm(private_mean(x, part, NoiseSource.seeded(0), train_size=10)) < 0.1 * math.sqrt(50_000) * 0.3
    with pytest.raises(InputError, match="rows must have norm <= 1"):
        private_mean(2 * np.eye(3), part, NoiseSource.seeded(0), train_size=3)
    assert np.allclose(
        private_mean(np.eye(3), full_batch(1, 0.0), NoiseSource.seeded(0), train_size=3), 1 / 3, rtol=1e-5
    )


# -- the noise -----------------------------------------------------------------------------------------------------


def test_noise_of_the_linear_model_has_the_claimed_std() -> None:
    """No example at all: the first iterate is minus step_size times the noise."""
    schedule, multiplier = Descent(steps=1, clip=0.3, step_size=2.0), 5.0
    x, y = np.zeros((0, 5000)), np.zeros(0, dtype=np.int64)
    weights = noisy_gradient_descent(
        x, y, classes=8, schedule=schedule, calibrated=full_batch(1, multiplier), noise=NoiseSource.secure()
    )
    sample = weights.ravel() / schedule.step_size
    assert not std_is_rejected(sample, 0.3 * multiplier)
    assert std_is_rejected(sample, 0.3 * multiplier * 1.05)
    assert std_is_rejected(sample, 0.3 * multiplier * 0.95)


def test_noise_of_a_module_has_the_claimed_std_and_is_divided_by_the_constant() -> None:
    module = nn.Linear(3000, 10)
    x, y = np.zeros((0, 3000)), np.zeros(0, dtype=np.int64)
    trained = train_privately(
        module,
        x,
        y,
        clip=0.5,
        divisor=64,
        optimizer=Optimizer(learning_rate=2.0, decay=0.0),
        calibrated=full_batch(1, 4.0),
        noise=NoiseSource.secure(),
    )
    before = nn.utils.parameters_to_vector(module.parameters()).double()
    sample = (nn.utils.parameters_to_vector(trained.parameters()) - before).detach().numpy() * 64 / 2
    assert not std_is_rejected(sample, 2.0)
    assert std_is_rejected(sample, 2.0 * 1.05)
    assert std_is_rejected(sample, 2.0 * 0.95)


def test_averaged_noise_has_the_predicted_variance() -> None:
    schedule = Descent(steps=100, clip=0.3, step_size=0.1)
    part = full_batch(100, 7.0)
    x, y = np.zeros((0, 3000)), np.zeros(0, dtype=np.int64)
    weights = noisy_gradient_descent(x, y, classes=5, schedule=schedule, calibrated=part, noise=NoiseSource.seeded(1))
    assert weights.var() == pytest.approx(average_noise_variance(schedule, part), rel=0.05)


@pytest.mark.parametrize("steps", [1, 2, 17])
def test_draws_equal_steps(steps: int) -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    schedule = Descent(steps=steps, clip=0.3, step_size=0.1)
    noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(steps, 1.0), noise=noise)
    assert noise.draws == steps
    for probability in (1.0, 0.2):
        noise = NoiseSource.seeded(0)
        fit(mlp(), steps, probability=probability, noise=noise)
        assert noise.draws == steps


def test_without_privacy_nothing_is_drawn_and_with_no_share_nothing_runs() -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    schedule = Descent(steps=3, clip=0.3, step_size=0.1)
    noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(3, 0.0), noise=noise)
    assert noise.draws == 0
    with pytest.raises(InputError, match="must have a share of the budget"):
        noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(3, math.inf), noise=noise)


# -- training ------------------------------------------------------------------------------------------------------


def fit(
    module: nn.Module,
    steps: int,
    *,
    probability: float = 1.0,
    multiplier: float = 1.0,
    optimizer: Optimizer | None = None,
    noise: NoiseSource,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
) -> nn.Module:
    features, labels = data()
    return train_privately(
        module,
        features if x is None else x,
        labels if y is None else y,
        clip=0.5,
        divisor=probability * N,
        optimizer=optimizer or Optimizer(0.1),
        calibrated=AllocatedPart(Part("training", steps, probability), multiplier),
        noise=noise,
    )


def vector(module: nn.Module) -> np.ndarray:
    return nn.utils.parameters_to_vector(module.parameters()).detach().double().numpy()


@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_deterministic_per_seed_and_the_module_is_not_changed(rule: str) -> None:
    module = mlp()
    before = vector(module).copy()
    runs = [
        vector(fit(module, 5, probability=0.3, optimizer=Optimizer(0.1, rule), noise=NoiseSource.seeded(s)))
        for s in (1, 1, 2)
    ]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
    assert np.array_equal(before, vector(module))


@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_optimizers_agree_with_torch(rule: str) -> None:
    """With a huge clip and no noise it is the optimiser of torch on the full batch."""
    x, y = data()
    ours = fit(mlp(), 12, multiplier=0.0, optimizer=Optimizer(0.05, rule), noise=NoiseSource.seeded(0))
    theirs = mlp()
    parameters = theirs.parameters()
    torch_rule = (
        torch.optim.SGD(parameters, 0.05, momentum=0.9) if rule == "momentum" else torch.optim.Adam(parameters, 0.05)
    )
    for _ in range(12):
        sums = clipped_gradient_sum(theirs, x, y, 0.5)
        for p, g in zip(theirs.parameters(), sums, strict=True):
            p.grad = g / N
        torch_rule.step()
    assert np.allclose(vector(ours), vector(theirs), atol=1e-4)


def test_noise_does_not_depend_on_the_model_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the initial weights leaves noise and samples bit-identical, and the reverse."""
    drawn: list[np.ndarray] = []
    original = NoiseSource.gaussian

    def spy(self, shape, **kwargs):
        drawn.append(original(self, shape, **kwargs))
        return drawn[-1]

    monkeypatch.setattr(NoiseSource, "gaussian", spy)
    for seed in (0, 1):
        fit(mlp(seed), 4, probability=0.5, noise=NoiseSource.seeded(9))
    assert all(np.array_equal(a, b) for a, b in zip(drawn[:4], drawn[4:], strict=True))


def test_iterates_are_averaged() -> None:
    last = vector(fit(mlp(), 8, optimizer=Optimizer(0.5), noise=NoiseSource.seeded(0)))
    averaged = vector(fit(mlp(), 8, optimizer=Optimizer(0.5, average_from=0.5), noise=NoiseSource.seeded(0)))
    partial = [vector(fit(mlp(), k, optimizer=Optimizer(0.5), noise=NoiseSource.seeded(0))) for k in (5, 6, 7, 8)]
    assert not np.allclose(last, averaged)
    assert np.allclose(averaged, np.mean(partial, axis=0))


def test_poisson_samples_have_the_right_rate_and_come_from_the_secret_source() -> None:
    batches = list(poisson_samples(1000, 200, 0.3, NoiseSource.seeded(0)))
    sizes = np.array([len(b) for b in batches])
    assert abs(sizes.mean() - 300) < 6 * math.sqrt(1000 * 0.21 / 200)
    assert sizes.std() == pytest.approx(math.sqrt(1000 * 0.21), rel=0.25)  # binomial, not a fixed size
    taken = np.bincount(np.concatenate(batches), minlength=1000)
    assert abs(taken - 60).max() < 6 * math.sqrt(200 * 0.21)
    again = list(poisson_samples(1000, 200, 0.3, NoiseSource.seeded(1)))
    assert not np.array_equal(batches[0], again[0])


def test_empty_samples_are_steps_of_noise_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = NoiseSource.seeded(0)
    trained = fit(mlp(), 6, probability=1e-6, noise=noise)
    assert noise.draws == 6
    assert np.isfinite(vector(trained)).all()
    assert not np.array_equal(vector(trained), vector(mlp()))


def test_the_divisor_is_not_the_sampled_size() -> None:
    """Every sampled size enters the sum, none the divisor: doubling the divisor halves every step exactly."""
    x, y = data()
    kwargs = {"clip": 0.5, "optimizer": Optimizer(0.1, decay=0.0), "noise": NoiseSource.seeded(3)}
    part = AllocatedPart(Part("training", 1, 0.4), 1.0)
    start = vector(mlp())
    one = vector(train_privately(mlp(), x, y, divisor=10, calibrated=part, **kwargs)) - start
    kwargs["noise"] = NoiseSource.seeded(3)
    two = vector(train_privately(mlp(), x, y, divisor=20, calibrated=part, **kwargs)) - start
    assert np.allclose(one, 2 * two)


def test_costs_are_those_of_the_parts() -> None:
    budget = Budget(3.0, 1e-5, "node")
    plan = allocate(budget, [Part("training", steps=40)])
    assert plan["training"].event == Gaussian(plan["training"].noise_multiplier, 40)
    assert epsilon_of([plan["training"].event], 1e-5) <= 3.0
    sampled = allocate(budget, [Part("training", steps=40, sampling_probability=0.1)])["training"]
    assert sampled.event == SubsampledGaussian(sampled.noise_multiplier, 0.1, 40)


def test_it_learns() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=1500)
    x = np.eye(3, 20)[y] + 0.3 * rng.standard_normal((1500, 20))
    rows = centred_unit_rows(x, np.zeros(20))
    schedule = path_length_schedule(mu=0.5, train_size=1500)
    part = full_batch(schedule.steps, math.sqrt(schedule.steps) / 0.5)
    weights = noisy_gradient_descent(
        rows, y, classes=3, schedule=schedule, calibrated=part, noise=NoiseSource.seeded(0)
    )
    shrunk = shrink_rows(weights, noise_variance=average_noise_variance(schedule, part), strength=0.4)
    assert (rows.times(shrunk).argmax(axis=1) == y).mean() > 0.9
    assert np.abs(shrunk[3:]).sum() < np.abs(weights[3:]).sum()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(20, 16), nn.SELU(), nn.Linear(16, 3))
    trained = train_privately(
        module,
        x,
        y,
        clip=1.0,
        divisor=0.2 * 1500,
        optimizer=Optimizer(0.05, "adam"),
        calibrated=allocate(Budget(4, 1e-5, "node"), [Part("t", 60, 0.2)])["t"],
        noise=NoiseSource.seeded(1),
    )
    assert (trained(torch.from_numpy(x)).argmax(dim=1).numpy() == y).mean() > 0.9


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(6), nn.InstanceNorm1d(6, track_running_stats=True)])
def test_batch_statistics_are_refused(norm: nn.Module) -> None:
    with pytest.raises(InputError, match="must not contain batch normalisation"):
        fit(nn.Sequential(nn.Linear(D, 6), norm, nn.Linear(6, C)), 2, noise=NoiseSource.seeded(0))


def test_bad_arguments() -> None:
    x, y = data()
    noise = NoiseSource.seeded(0)
    schedule = Descent(steps=3, clip=0.3, step_size=0.1)
    with pytest.raises(InputError, match="must be 3 full-batch steps"):
        noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=full_batch(4, 1.0), noise=noise)
    sampled = AllocatedPart(Part("training", 3, 0.5), 1.0)
    with pytest.raises(InputError, match="must be 3 full-batch steps"):
        noisy_gradient_descent(x, y, classes=C, schedule=schedule, calibrated=sampled, noise=noise)
    with pytest.raises(InputError, match="labels must be"):
        noisy_gradient_descent(x, y - 1, classes=C, schedule=schedule, calibrated=full_batch(3, 1.0), noise=noise)
    with pytest.raises(InputError, match="x must be dense"):
        clipped_gradient_sum(Residual().double(), sp.csr_array(x), y, 1.0)
    with pytest.raises(InputError, match="momentum must be in"):
        Descent(steps=3, clip=0.3, step_size=0.1, momentum=1.0)
    with pytest.raises(InputError, match="rule must be one of"):
        Optimizer(0.1, "lbfgs")
    with pytest.raises(InputError, match="must have parameters"):
        fit(nn.Identity(), 2, noise=noise)
    assert linear.LARGEST_PATH_MU == 4.0
    assert path_length_schedule(mu=math.inf, train_size=100) == path_length_schedule(mu=4.0, train_size=100)
