"""The compiled loops and NumPy say the same; their Gaussians are those of the library's sampler."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from caribou.engines import kernels
from caribou.engines.kernels import Finish, Rows, Shards
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource


@pytest.fixture
def compiled() -> None:
    if kernels.name().startswith("numpy"):
        pytest.skip("the compiled loops were not built (no C compiler at installation)")


def uniform_words(count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**64, count, dtype=np.uint64)
    # corners: the smallest and largest uniforms, and angles on and beside the axes and diagonals
    words[:6] = [0, 1, 2**64 - 1, 2**63, 2**32, 2**64 - 2**11]
    words[-64:] = np.arange(64, dtype=np.uint64) << np.uint64(58)
    words[-32:] -= np.uint64(1)
    return words


def gaussians(words: np.ndarray, *, std: float, grid: float) -> np.ndarray:
    out = np.empty(len(words) // 3 * 2)
    kernels.gaussian(words, out, std=std, grid=grid)
    return out


@pytest.mark.usefixtures("compiled")
def test_compiled_gaussians_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    words = uniform_words(3 * 40_000)
    ours = gaussians(words, std=1.0, grid=2.0**-60)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    theirs = gaussians(words, std=1.0, grid=2.0**-60)
    # numpy rounds the angle before it takes the cosine, 2 pi 2^-53 at most; ours is exact there
    assert np.abs(ours - theirs).max() < 2e-14
    assert np.abs(theirs).max() > 9.0


@pytest.mark.usefixtures("compiled")
def test_compiled_gaussians_lie_on_the_grid() -> None:
    z = gaussians(uniform_words(3000), std=0.3, grid=2.0**-30)
    assert np.array_equal(np.rint(z * 2.0**30), z * 2.0**30)


def test_gaussians_have_the_right_moments() -> None:
    words = np.random.default_rng(2).integers(0, 2**64, 3 * 500_000, dtype=np.uint64)
    z = gaussians(words, std=2.0, grid=2.0**-28) / 2
    n = len(z)
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs((z**4).mean() - 3) < 5 * np.sqrt(96 / n)
    assert abs(np.corrcoef(z[: n // 2], z[n // 2 :])[0, 1]) < 5 / np.sqrt(n / 2)  # cosines and sines of one angle


def some_rows(d: int) -> tuple[Rows, np.ndarray, Finish]:
    rng = np.random.default_rng(d)
    degrees = np.array([0, 1, 2, 3, 200, 0, 65])
    starts = np.concatenate([[0], np.cumsum(degrees)])
    columns = np.concatenate([np.sort(rng.choice(500, k, replace=False)) for k in degrees]).astype(np.int32)
    y = rng.standard_normal((500, d)).astype(np.float32)
    finish = Finish(
        degrees=degrees,
        own=y[100:107],
        floor=2,
        weight=0.7,
        mean=rng.standard_normal(d),
        beta=0.2,
        x0=rng.standard_normal((7, d)).astype(np.float32),
        inner=True,
        last=False,
        noise=rng.integers(-(2**20), 2**20, (7, d)) * 2.0**-22,
        grid=2.0**-22,
        ownless=np.array([False, True, False, False, True, True, False]),
    )
    return Rows(starts, columns), y, finish


def whole_round(rows: Rows, y: Shards, finish: Finish, out: np.ndarray) -> np.ndarray:
    return kernels.round_tiles(rows, y, finish, iter([finish.noise]), rows.count, out)[0]


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("d", [1, 3, 16, 20, 32, 33, 48, 64, 100])
def test_a_round_is_the_same_fused_in_halves_sharded_and_in_numpy(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, y, finish = some_rows(d)
    whole, halves, sharded, plain = (np.empty((7, d), np.float32) for _ in range(4))
    sums = whole_round(rows, Shards([y]), finish, whole)
    total = np.zeros((7, d))
    kernels.add_rows(rows, Shards([y]), total)
    assert np.array_equal(sums, kernels.finish_rows(finish, total, halves))
    whole_round(rows, Shards([y[:256].copy(), y[256:].copy()], 8), finish, sharded)
    assert np.array_equal(whole, halves)
    assert np.array_equal(whole, sharded)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    other = whole_round(rows, Shards([y[:256], y[256:]], 8), finish, plain)
    assert np.abs(whole - plain).max() < 1e-6
    assert np.abs(sums - other).max() < 1e-9


@pytest.mark.usefixtures("compiled")
def test_votes_are_counted_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    rows, _, _ = some_rows(1)
    place = rng.integers(-1, 6, 500).astype(np.int32)
    receives = rng.random(500) < 0.7
    message = rng.integers(0, 4, 500).astype(np.int32)
    ours = kernels.count_votes(rows, 100, place, receives, message, 4)
    monkeypatch.setattr(kernels, "_library", lambda: None)
    assert np.array_equal(ours, kernels.count_votes(rows, 100, place, receives, message, 4))
    assert ours.sum() > 0


# -- what goes to C -------------------------------------------------------------------------------------------------


def odd_views(array: np.ndarray) -> dict[str, np.ndarray]:
    """The same values as a strided, a reversed, a misaligned and a big-endian array, read-only like a mapped file."""
    wide = np.zeros((len(array), 2), dtype=array.dtype)
    wide[:, 1] = array
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)
    misaligned = raw[1:].view(array.dtype)
    misaligned[:] = array
    views = {
        "strided": wide[:, 1],
        "reversed": array[::-1].copy()[::-1],
        "misaligned": misaligned,
        "big-endian": array.astype(array.dtype.newbyteorder(">")),
    }
    for view in views.values():
        view.setflags(write=False)
    return {
        name: view for name, view in views.items() if array.itemsize > 1 or name not in ("misaligned", "big-endian")
    }


def star_votes() -> dict[str, np.ndarray]:
    return {
        "starts": np.array([0, 3, 4, 5, 6], dtype=np.int64),
        "columns": np.array([1, 2, 3, 0, 0, 0], dtype=np.int32),
        "place": np.array([4, 0, 1, 2], dtype=np.int32),
        "receives": np.array([True, False, False, False]),
        "message": np.array([0, 1, 1, 0], dtype=np.int32),
    }


@pytest.mark.parametrize("part", ["starts", "columns", "place", "receives", "message"])
@pytest.mark.usefixtures("compiled")
def test_no_loop_reads_other_memory(part: str) -> None:
    """A view that C would read as other memory is refused; the same values in plain memory give the right counts."""
    arrays = star_votes()

    def votes(**changed: np.ndarray) -> np.ndarray:
        a = {**arrays, **changed}
        return kernels.count_votes(Rows(a["starts"], a["columns"]), 0, a["place"], a["receives"], a["message"], 2)

    assert votes().tolist() == [[1, 2], [0, 0], [0, 0], [0, 0]]
    for name, view in odd_views(arrays[part]).items():
        assert np.array_equal(view, arrays[part])
        with pytest.raises(InputError, match="array must be"):
            votes(**{part: view})
        assert np.array_equal(votes(**{part: np.array(view, dtype=arrays[part].dtype)}), votes()), name


@pytest.mark.usefixtures("compiled")
def test_rounds_and_gaussians_refuse_other_memory() -> None:
    rows, y, finish = some_rows(16)
    out = np.empty((7, 16), np.float32)
    wide = np.zeros((len(y), 32), np.float32)
    wide[:, ::2] = y
    for bad in (wide[:, ::2], y.astype(">f4"), y.astype(np.float64), np.asfortranarray(y)):
        with pytest.raises(InputError, match="array must be"):
            kernels.add_rows(rows, Shards([bad]), np.zeros((7, 16)))
    for change in (
        {"degrees": np.repeat(finish.degrees, 2)[::2]},
        {"own": finish.own[:, ::-1]},
        {"noise": finish.noise[:3]},
    ):
        with pytest.raises(InputError, match="array must"):
            whole_round(rows, Shards([y]), replace(finish, **change), out)
    with pytest.raises(InputError, match="array must be of type"):
        kernels.gaussian(np.zeros(6, dtype=">u8"), np.empty(4), std=1.0, grid=2.0**-28)
    with pytest.raises(InputError, match="array must have at least"):
        kernels.gaussian(np.zeros(6, dtype=np.uint64), np.empty(3), std=1.0, grid=2.0**-28)
    sealed = np.empty(4)
    sealed.setflags(write=False)
    with pytest.raises(InputError, match="array must be writable"):
        kernels.gaussian(np.zeros(6, dtype=np.uint64), sealed, std=1.0, grid=2.0**-28)


def test_votes_stay_within_their_arrays() -> None:
    arrays = star_votes()
    rows = Rows(arrays["starts"], arrays["columns"])
    rest = (arrays["place"], arrays["receives"], arrays["message"])
    for bad, words in (
        (Rows(np.array([0, 9], dtype=np.int64), arrays["columns"]), "starts must rise"),
        (Rows(np.array([3, 0], dtype=np.int64), arrays["columns"]), "starts must rise"),
        (Rows(arrays["starts"], np.array([1, 2, 3, 0, 0, 4], dtype=np.int32)), "columns must be nodes"),
    ):
        with pytest.raises(InputError, match=words):
            kernels.count_votes(bad, 0, *rest, 2)
    with pytest.raises(InputError, match="first must leave room"):
        kernels.count_votes(rows, 1, *rest, 2)
    with pytest.raises(InputError, match="message must be a class"):
        kernels.count_votes(rows, 0, *rest, 1)


@pytest.mark.usefixtures("compiled")
def test_a_mapped_edge_list_is_counted_like_any_other(tmp_path: Path) -> None:
    """A graph on a column of a mapped table: one edge moves one count by 1, as in plain memory."""
    edges = np.array([[0, 1], [0, 2], [0, 3], [1, 0], [2, 0], [3, 0]], dtype=np.int32)
    np.save(tmp_path / "edges.npy", edges)
    mapped = np.load(tmp_path / "edges.npy", mmap_mode="r")
    indptr = np.array([0, 3, 4, 5, 6], dtype=np.int32)
    plain = Graph(np.eye(4), indptr, edges[:, 1].copy())
    on_disk = Graph(np.eye(4), indptr, mapped[:, 1])
    assert on_disk.indices.flags.c_contiguous
    counts = []
    for graph in (plain, on_disk):
        answers = NoisyCounts(graph, 2, VoteBudget(math.inf), NoiseSource.seeded(1))
        new = np.array([False, True, True, True])
        counts.append(answers.ask(new, np.arange(4.0), np.array([0, 1, 1, 0])))
    assert np.array_equal(*counts)
    assert counts[0].sum() == 3
