"""The compiled loops and NumPy say the same; their Gaussians are those of the library's sampler."""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import caribou
from caribou.engines import kernels
from caribou.engines.kernels import Finish, Rows, Shards
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.mechanisms.edge_votes import NoisyCounts, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.mechanisms.uniform_reals import UniformReal, rounded_gaussians


@pytest.fixture
def compiled() -> None:
    if kernels.name().startswith("numpy"):
        pytest.skip("the compiled loops were not built (no C compiler at installation)")


@pytest.fixture(params=["compiled", "numpy"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "_library", lambda: None)
    else:
        request.getfixturevalue("compiled")
    return str(request.param)


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


def test_decided_gaussians_are_those_of_integers(implementation: str) -> None:
    """On the finest grid, where errors of doubles are a tenth of a step: a bound that were too small would decide wrongly."""
    words, pairs = uniform_words(3 * 2000), 2000
    found = gaussians(words, std=1.0, grid=2.0**-44).reshape(2, -1)
    wrong = 0
    for pair in np.flatnonzero(~np.isnan(found).any(axis=0)).tolist():
        high, low, turn = (int(words[pair + part * pairs]) for part in range(3))
        u, v = UniformReal(high << 64 | low, 128, None), UniformReal(turn, 64, None)
        wrong += tuple(found[:, pair] * 2.0**44) != rounded_gaussians(u, v, Fraction(2) ** 44)
    assert wrong == 0
    assert 0.5 < (~np.isnan(found)).mean() < 0.95, "the grid is one on which errors show"


def test_pairs_that_are_left_open_are_named(implementation: str) -> None:
    words, out = uniform_words(3 * 2000), np.empty(4000)
    named = kernels.gaussian(words, out, std=1.0, grid=2.0**-40)
    open_values = np.isnan(out.reshape(2, -1))
    assert named.tolist() == np.flatnonzero(open_values.any(axis=0)).tolist()
    assert 20 < len(named) < 400
    assert not open_values.all(axis=0)[named].all(), "one value of a pair may be decided where the other is not"
    middle = np.random.default_rng(0).integers(2**61, 2**63, 3 * 50, dtype=np.uint64)
    assert len(kernels.gaussian(middle, np.empty(100), std=1.0, grid=2.0**-20)) == 0


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
def test_the_bytes_of_a_round_do_not_depend_on_the_instruction_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The installed loops, which take the widest registers of this processor, against the plain variant of the same file."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, so the plain variant cannot be built")
    source, path = Path(kernels.__file__).with_name("_fused.c"), tmp_path / "plain.so"
    flags = ["-O1", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno", "-DPLAIN", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(source), "-o", str(path), "-lm"], check=True)
    plain = ctypes.CDLL(str(path))
    assert plain.caribou_register_bits() == 0
    plain.caribou_gaussian.restype = ctypes.c_int64

    def results() -> list[bytes]:
        found = [gaussians(uniform_words(3 * 5000), std=0.3, grid=2.0**-30)]
        for d in (1, 16, 20, 31, 32, 48, 64, 80, 96, 100, 112, 128):
            rows, y, finish = some_rows(d)
            for shards in (Shards([y]), Shards([y[:256].copy(), y[256:].copy()], 8)):
                out, total = np.empty((7, d), np.float32), np.zeros((7, d))
                found += [whole_round(rows, shards, finish, out), out]
                kernels.add_rows(rows, shards, total)
                found.append(total)
        return [array.tobytes() for array in found]

    installed = results()
    monkeypatch.setattr(kernels, "_library", lambda: plain)
    assert results() == installed


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

Arrays = dict[str, np.ndarray]


def odd_views(array: np.ndarray) -> Arrays:
    """The same values as a strided, a reversed, a misaligned and a big-endian array, read-only like a mapped file."""
    wide = np.zeros((*array.shape, 2), dtype=array.dtype)
    wide[..., 1] = array
    views = {"strided": wide[..., 1], "reversed": array[::-1].copy()[::-1]}
    if array.itemsize > 1:
        misaligned = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:].view(array.dtype).reshape(array.shape)
        misaligned[...] = array
        views |= {"misaligned": misaligned, "big-endian": array.astype(array.dtype.newbyteorder(">"))}
    if array.ndim == 2:
        views["by columns"] = np.asfortranarray(array)
    for view in views.values():
        view.setflags(write=False)
    return views


def a_round(a: Arrays) -> list[np.ndarray]:
    finish = replace(some_rows(3)[2], **{name: a[name] for name in ("degrees", "own", "mean", "x0")})
    y = Shards([a["y"], a["y_rest"]], 8)
    sums = kernels.round_tiles(Rows(a["starts"], a["columns"]), y, finish, iter([a["noise"]]), 8, a["out"])
    return [sums, a["out"]]


def a_sum(a: Arrays) -> list[np.ndarray]:
    kernels.add_rows(Rows(a["starts"], a["columns"]), Shards([a["y"], a["y_rest"]], 8), a["total"])
    return [a["total"]]


def a_finish(a: Arrays) -> list[np.ndarray]:
    given = {name: a[name] for name in ("degrees", "own", "mean", "x0", "noise")}
    return [kernels.finish_rows(replace(some_rows(3)[2], **given), a["total"], a["out"]), a["out"]]


def a_gaussian(a: Arrays) -> list[np.ndarray]:
    kernels.gaussian(a["words"], a["normal"], std=1.0, grid=2.0**-28)
    return [a["normal"]]


def some_votes(a: Arrays) -> list[np.ndarray]:
    rows = Rows(a["starts"], a["columns"])
    return [kernels.count_votes(rows, 100, a["place"], a["receives"], a["message"], 4)]


LOOPS = {
    a_round: "starts columns y y_rest degrees own mean x0 noise out",
    a_sum: "starts columns y y_rest total",
    a_finish: "degrees own mean x0 noise total out",
    a_gaussian: "words normal",
    some_votes: "starts columns place receives message",
}
WRITTEN = ("out", "total", "normal")
every_loop = pytest.mark.parametrize("loop", LOOPS)


def arguments() -> Arrays:
    """Fresh arguments of every loop: 7 rows, 3 columns, 500 nodes."""
    rng = np.random.default_rng(4)
    rows, y, finish = some_rows(3)
    return {
        "starts": rows.starts,
        "columns": rows.columns,
        "y": y[:256].copy(),
        "y_rest": y[256:].copy(),
        "degrees": finish.degrees,
        "own": finish.own.copy(),
        "mean": finish.mean,
        "x0": finish.x0,
        "noise": finish.noise,
        "total": rng.standard_normal((7, 3)),
        "out": np.zeros((7, 3), np.float32),
        "words": rng.integers(0, 2**64, 9, dtype=np.uint64),
        "normal": np.zeros(6),
        "place": rng.integers(-1, 6, 500).astype(np.int32),
        "receives": rng.random(500) < 0.7,
        "message": rng.integers(0, 4, 500).astype(np.int32),
    }


@every_loop
def test_every_loop_refuses_what_it_would_read_as_other_memory(
    loop: Callable[[Arrays], list[np.ndarray]], implementation: str
) -> None:
    """The same values in plain memory, read-only where nothing is written, give what they gave."""
    expected = loop(arguments())
    for name in LOOPS[loop].split():
        for kind, view in odd_views(arguments()[name]).items():
            assert np.array_equal(view, arguments()[name]), (name, kind)
            with pytest.raises(InputError, match="array must be"):
                loop({**arguments(), name: view})
            plain = np.array(view, dtype=view.dtype.newbyteorder("="), order="C")
            plain.setflags(write=name in WRITTEN)
            for one, other in zip(expected, loop({**arguments(), name: plain}), strict=True):
                assert np.array_equal(one, other), (name, kind)


@every_loop
def test_every_loop_refuses_an_array_that_is_too_short(
    loop: Callable[[Arrays], list[np.ndarray]], implementation: str
) -> None:
    for name in LOOPS[loop].split():
        if (loop, name) == (some_votes, "starts"):
            continue  # fewer rows are no mistake
        whole = arguments()[name]
        with pytest.raises(InputError, match=r"must (have|rise|be|leave)"):
            loop({**arguments(), name: whole[: len(whole) // 2].copy()})
        with pytest.raises(InputError, match=r"must (have|be)"):
            loop({**arguments(), name: np.stack([whole, whole])})
        if name in WRITTEN:
            sealed = whole.copy()
            sealed.setflags(write=False)
            with pytest.raises(InputError, match="array must be writable"):
                loop({**arguments(), name: sealed})


@pytest.mark.parametrize("loop", [loop for loop, names in LOOPS.items() if "columns" in names])
def test_every_loop_stays_within_its_rows(loop: Callable[[Arrays], list[np.ndarray]], implementation: str) -> None:
    a = arguments()
    for at, node in ((0, 500), (-1, -1), (5, 2**31 - 1)):
        columns = a["columns"].copy()
        columns[at] = node
        with pytest.raises(InputError, match=r"columns must be nodes in 0 \.\. 499, got another one"):
            loop({**arguments(), "columns": columns})
    for at, start in ((0, -1), (3, 100), (-1, 10_000), (2, -(2**40))):
        starts = a["starts"].copy()
        starts[at] = start
        with pytest.raises(InputError, match="starts must rise within"):
            loop({**arguments(), "starts": starts})
    with pytest.raises(InputError, match="starts must have one entry more"):
        loop({**arguments(), "starts": np.empty(0, np.int64)})


def test_rows_that_are_not_in_memory_are_not_read(implementation: str) -> None:
    """Out of core, one tile of y is there: a neighbour outside of it is refused, and nothing else is read in its place."""
    y, total = np.arange(8, dtype=np.float32).reshape(4, 2), np.zeros((1, 2))
    inside, outside = (Rows(np.array([0, 2]), np.array(c, dtype=np.int32)) for c in ([4, 7], [3, 7]))
    kernels.add_rows(inside, Shards([y], 2, missing=1), total)
    assert total.tolist() == [[6, 8]]
    with pytest.raises(InputError, match=r"columns must be nodes in 4 \.\. 7"):
        kernels.add_rows(outside, Shards([y], 2, missing=1), total)
    with pytest.raises(InputError, match="arrays must have 2\\^2 rows"):
        kernels.add_rows(inside, Shards([y[:3].copy(), y], 2), total)
    with pytest.raises(InputError, match="arrays must be at least one"):
        kernels.add_rows(inside, Shards([], 2), total)


def test_out_is_memory_of_its_own(implementation: str) -> None:
    """In place, a row would be overwritten before its neighbours have read it."""
    rows, y, finish = some_rows(3)
    with pytest.raises(InputError, match="out must be memory of its own"):
        whole_round(rows, Shards([y]), finish, y[:7])
    words = np.zeros(9, dtype=np.uint64)
    with pytest.raises(InputError, match="out must be memory of its own"):
        kernels.gaussian(words, words[:6].view(np.float64), std=1.0, grid=2.0**-28)


def test_votes_stay_within_their_arrays(implementation: str) -> None:
    a = arguments()
    rest = (a["place"], a["receives"])
    rows = Rows(a["starts"], a["columns"])
    with pytest.raises(InputError, match="first must leave room"):
        kernels.count_votes(rows, 494, *rest, a["message"], 4)
    with pytest.raises(InputError, match="message must be a class"):
        kernels.count_votes(rows, 0, *rest, a["message"], 3)
    with pytest.raises(InputError, match="classes must be"):
        kernels.count_votes(rows, 0, *rest, a["message"], 2**32)


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


# -- under a sanitizer ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_no_loop_leaves_its_arrays_under_address_sanitizer(tmp_path: Path) -> None:
    """Every loop on boundary sizes, built with -fsanitize=address; and the sanitizer does see a loop that leaves its array."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler, so the loops cannot be built with AddressSanitizer")
    runtime = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    preloaded = Path(runtime.stdout.strip())
    if not preloaded.is_absolute() or not preloaded.exists():
        pytest.skip("the compiler comes without libasan, the runtime of AddressSanitizer")
    source, library = Path(kernels.__file__).with_name("_fused.c"), tmp_path / "sanitized.so"
    flags = ["-O1", "-g", "-std=gnu11", "-ffp-contract=off", "-fsanitize=address", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(preloaded),
        "ASAN_OPTIONS": "detect_leaks=0",  # those of the interpreter
        "PYTHONPATH": str(Path(caribou.__file__).parent.parent),
    }
    program = [sys.executable, str(Path(__file__).with_name("kernel_boundaries.py")), str(library)]
    sound = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert (sound.returncode, sound.stdout) == (0, "all sizes\n"), sound.stderr[-3000:]
    beyond = subprocess.run([*program, "beyond"], env=environment, capture_output=True, text=True, check=False)
    assert beyond.returncode != 0
    assert "heap-buffer-overflow" in beyond.stderr
