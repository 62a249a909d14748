"""Public data sets: found in a folder, or downloaded once, checked, and kept as one ``.npz`` file.

A downloaded file is opened only if its SHA-256 is the one that `caribou.datasets.table` states. `amazon_graph`,
`facebook_graph` and `arxiv_graph` read the publishers' own files, wherever those came from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from caribou.datasets.npz import read_npz, write_graph
from caribou.datasets.table import Public, check_statistics
from caribou.errors import CaribouError, DataError, needs_training
from caribou.graph import Graph, Split
from caribou.graph.checks import check_places

#: Environment variable that names the folder of data set files.
FOLDER_VARIABLE = "CARIBOU_DATA"

_TIMEOUT_SECONDS = 15.0


def data_folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The folder of data set files: the argument, else the environment variable, else None."""
    origin = "data_dir"
    if data_dir is None:
        named = os.environ.get(FOLDER_VARIABLE)
        if not named:
            return None
        data_dir, origin = named, FOLDER_VARIABLE
    folder = Path(data_dir)
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise DataError(f"{folder}: {origin} must be a folder, but it {state}")
    return folder


def cache_folder(folder: Path | None) -> Path:
    """Where downloads are kept: ``downloads`` in a writable data folder, else the user's cache."""
    # The mode is asked as well: a superuser may write anywhere, and a folder marked read-only is to stay as it is.
    if folder is not None and os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222:
        return folder / "downloads"
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "caribou"


def find_file(spec: Public, folder: Path | None) -> Path | None:
    """The file of a data set in the folder or among the downloads, or None."""
    places: list[Path] = []
    if folder is not None:
        places += [folder / file for file in spec.files]
        if spec.raw:
            places.append(folder / spec.raw_name)
        places.append(folder / "downloads" / spec.files[0])
    places.append(cache_folder(None) / spec.files[0])
    return next((place for place in places if place.is_file()), None)


def public_graph(spec: Public, data_dir: str | os.PathLike[str] | None = None) -> Graph:
    """Load a public data set with the publisher's split (if it has one), checked against the table."""
    folder = data_folder(data_dir)
    file = find_file(spec, folder)
    if file is None:
        return _downloaded(spec, folder)
    graph = _parsed(spec, file)
    check_statistics(graph, spec, str(file))
    return replace(graph, classes_declared=True)  # they were compared with what the table declares


def _parsed(spec: Public, file: Path) -> Graph:
    if file.suffix == ".mat":
        return facebook_graph(file, spec.name)
    if file.suffix == ".zip":
        return arxiv_graph(file, spec.name)
    if file.name == spec.raw_name:
        return amazon_graph(file, spec.name)
    return read_npz(file, spec.name)


def _downloaded(spec: Public, folder: Path | None) -> Graph:
    tried = f"no file {' or '.join(spec.files)} in {folder or f'a folder ({FOLDER_VARIABLE} is not set)'}"
    cure = (
        f"put {spec.files[0]} (arrays edge_index, x or x_data/x_indices/x_indptr/x_shape, y; see caribou.datasets.npz)"
        + (f" or the publisher's {spec.raw_name}, from {spec.raw}," if spec.raw else "")
        + f" into a folder and name it with data_dir or {FOLDER_VARIABLE}"
    )
    if not spec.download:
        raise DataError(f"{spec.name}: {tried}; it is not downloaded, for no digest of its files is known; {cure}")
    cache = cache_folder(folder)
    work: Path | None = None
    new = not cache.exists()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{spec.name}-", dir=cache))
        graph = _fetched(spec, work)
        check_statistics(graph, spec, f"download of {spec.name}")
        # Written inside the working folder and then moved: a file of that name in the cache is always complete.
        os.replace(write_graph(graph, work / spec.files[0], compress=spec.sparse), cache / spec.files[0])
        return replace(graph, classes_declared=True)
    except CaribouError:
        raise
    except Exception as error:  # urllib, fsspec, aiohttp, zipfile and pickle errors have no common base
        reason = " ".join(str(error).split())[:200]
        raise DataError(f"{spec.name}: {tried}; download failed ({type(error).__name__}: {reason}); {cure}") from error
    finally:
        if work is not None:
            shutil.rmtree(work, ignore_errors=True)
        if new:
            with suppress(OSError):  # not empty after a success
                cache.rmdir()


def _fetched(spec: Public, work: Path) -> Graph:
    """Download into the working folder, compare every file with its digest, and only then parse."""
    raw = work / spec.name.capitalize() / "raw"
    raw.mkdir(parents=True)
    for address, digest in spec.download.items():
        _fetch(address, digest, raw)
    return _parsed(spec, raw / spec.raw_name) if spec.raw else _planetoid_graph(spec.name, work)


@needs_training("a data set of Planetoid")
def _planetoid_graph(name: str, work: Path) -> Graph:
    """What PyG makes of the files, which lie where it looks for them."""
    from torch_geometric import datasets

    graph = Graph.from_pyg(datasets.Planetoid(str(work), name.capitalize())[0], name=name)
    return replace(graph, features=sp.csr_array(graph.features))


def _fetch(address: str, digest: str, folder: Path) -> None:
    """Download one file with verified certificates. Other bytes than the expected ones are not kept."""
    target = folder / address.rpartition("/")[2]
    with urllib.request.urlopen(address, timeout=_TIMEOUT_SECONDS) as answer, open(target, "wb") as file:
        shutil.copyfileobj(answer, file)
    with open(target, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != digest:
        target.unlink()
        raise DataError(
            f"{address}: SHA-256 must be {digest}, got {found}: this is another file, and it was not opened"
        )


#: Columns of ``local_info`` in a Facebook100 file; the seventh, high school, is not used.
_FACEBOOK_COLUMNS = ("status", "gender", "major", "minor", "housing", "year")


def facebook_graph(path: Path, name: str = "facebook", classes: int = 6) -> Graph:
    """Prepare a Facebook100 ``.mat`` file (``A``, ``local_info``) as in GAP (Sajadmanesh et al. 2023).

    The class is the year; people of unknown year and of years other than the ``classes`` most frequent ones are dropped,
    then those without a friend among the rest. Features are the one-hot values of the other attributes, counted over all
    people of the file; 0 means unknown and has no column.
    """
    adjacency, info = _facebook_arrays(path)
    year = info[:, _FACEBOOK_COLUMNS.index("year")]
    values, counts = np.unique(year[year != 0], return_counts=True)
    if len(values) < classes:
        raise DataError(f"{path}: local_info must hold at least {classes} known years, got {len(values)}")
    # Ties go to the earlier year.
    kept_years = np.sort(values[np.lexsort((values, -counts))[:classes]])
    keep = np.flatnonzero(np.isin(year, kept_years))
    adjacency = adjacency[keep][:, keep]
    joined = np.asarray((adjacency + adjacency.T).sum(axis=1)).ravel() > 0
    keep, adjacency = keep[joined], adjacency[joined][:, joined]
    blocks = [_one_hot(info[:, k]) for k, title in enumerate(_FACEBOOK_COLUMNS) if title != "year"]
    edges = adjacency.tocoo()
    return Graph.from_edges(
        sp.hstack(blocks, format="csr")[keep],
        np.stack([edges.row, edges.col]),
        labels=np.searchsorted(kept_years, year[keep]),
        name=name,
        class_names=[str(int(value)) for value in kept_years],
    )


def _facebook_arrays(path: Path) -> tuple[Any, np.ndarray]:
    from scipy.io import loadmat

    try:
        content = loadmat(path, variable_names=["A", "local_info"])
        if sp.issparse(content["A"]):
            check_places(A=content["A"])
        adjacency, info = sp.csr_array(content["A"]), np.asarray(content["local_info"])
    except Exception as error:  # damaged files fail anywhere inside the reader
        raise DataError(f"{path}: not a Facebook100 .mat file ({type(error).__name__}: {error})") from error
    n = adjacency.shape[0]
    if adjacency.shape != (n, n) or info.ndim != 2 or info.shape[0] != n or info.shape[1] < len(_FACEBOOK_COLUMNS):
        raise DataError(f"{path}: A must be n x n and local_info n x 7, got {adjacency.shape} and {info.shape}")
    if info.dtype.kind not in "iuf" or not np.isfinite(info).all():
        raise DataError(f"{path}: local_info must hold whole numbers, got {info.dtype}")
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    adjacency.data = np.ones(adjacency.nnz, np.int32)
    return adjacency, info


def _one_hot(column: np.ndarray) -> Any:
    """One column per value, in rising order; 0 (unknown) has none."""
    values = np.unique(column[column != 0])
    known = np.flatnonzero(column != 0)
    place = (known, np.searchsorted(values, column[known]))
    return sp.csr_array((np.ones(len(known), np.float32), place), shape=(len(column), len(values)))


def amazon_graph(path: Path, name: str) -> Graph:
    """Read a co-purchase network of Shchur et al. (2018): sparse matrices as plain arrays; a word counts once."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            matrices = {
                kind: sp.csr_array(
                    tuple(arrays[f"{kind}_{part}"] for part in ("data", "indices", "indptr")), arrays[f"{kind}_shape"]
                )
                for kind in ("attr", "adj")
            }
            labels = arrays["labels"]
        for kind, matrix in matrices.items():
            check_places(**{kind: matrix})
        edges, features = matrices["adj"].tocoo(), matrices["attr"]
        features.data = (features.data > 0).astype(np.float32)
        apart = edges.row != edges.col
        return Graph.from_edges(features, np.stack([edges.row, edges.col])[:, apart], labels=labels, name=name)
    except Exception as error:  # damaged files fail anywhere inside the reader
        message = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not a file of Shchur et al. ({type(error).__name__}: {message})") from error


def arxiv_graph(path: Path, name: str = "arxiv") -> Graph:
    """Read OGB's ``arxiv.zip``: headerless gzipped CSV files, with the split by time."""
    try:
        with zipfile.ZipFile(path) as archive:
            edges = _member(archive, "raw/edge.csv.gz", np.int64)
            features = _member(archive, "raw/node-feat.csv.gz", np.float32)
            labels = _member(archive, "raw/node-label.csv.gz", np.int64)
            parts = [_member(archive, f"split/time/{part}.csv.gz", np.int64) for part in ("train", "valid", "test")]
        return Graph.from_edges(
            features, edges.T, labels=labels[:, 0], split=Split(*(part[:, 0] for part in parts)), name=name
        )
    except DataError:
        raise
    except Exception as error:  # zip, gzip, CSV and rule errors all mean: not this file
        message = " ".join(str(error).split())[:200]
        raise DataError(f"{path}: not OGB's arxiv.zip ({type(error).__name__}: {message})") from error


def _member(archive: zipfile.ZipFile, ending: str, dtype: Any) -> np.ndarray:
    import pandas as pd

    found = [entry for entry in archive.namelist() if entry.endswith("/" + ending)]
    if len(found) != 1:
        raise DataError(f"{archive.filename}: must hold one file {ending}, found {len(found)}")
    with archive.open(found[0]) as file:
        return pd.read_csv(file, compression="gzip", header=None, dtype=dtype).to_numpy()


def without_isolated(graph: Graph) -> Graph:
    """The graph without the nodes that have no edge, as the paper prepares Photo and Computers.

    For public benchmarks only: on a private graph it would tell who has no edge.
    """
    kept = np.flatnonzero(graph.degrees > 0)
    place = np.full(graph.num_nodes, -1)
    place[kept] = np.arange(len(kept))
    return graph.with_split(None).placed(place, len(kept)).renamed(f"{graph.name}:{CONNECTED}")


CONNECTED = "connected"
"""After the name of a public data set and a colon: without its isolated nodes."""


def with_requested_split(graph: Graph, spec: Public, split: str, seed: int) -> Graph:
    """The publisher's split, or a random one of 70/10/20."""
    if split == "random":
        return graph.random_split(seed)
    if graph.split is None:
        raise DataError(f"{spec.name}: the file holds no public split (arrays split_train, split_val, split_test)")
    return graph
