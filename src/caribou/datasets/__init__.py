"""Data sets by name, and a user's own graph from files.

>>> load("chain-s", seed=1)
Graph('chain-s', nodes=48, features=5, classes=2)
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from caribou._validate import one_of
from caribou.datasets import public
from caribou.datasets.chains import chain_graph, chain_spec
from caribou.datasets.csbm import BlockModel, csbm_graph, with_options
from caribou.datasets.files import read_graph, write_graph
from caribou.datasets.table import CHAINS, PUBLIC
from caribou.datasets.telling_features import GridGame, NeighbourFeatures, grid_game, neighbour_features
from caribou.errors import InputError
from caribou.graph import Graph
from caribou.randomness import Streams

__all__ = ["DatasetInfo", "available", "load", "read_graph", "write_graph"]


@dataclass(frozen=True)
class DatasetInfo:
    """One data set that `load` knows.

    Args:
        name: as `load` takes it.
        kind: "generated" or "public".
        nodes, features, classes: how many.
        edges: directed count (twice the undirected one).
        source: who published it, or how it is made.
        where: "generated", the file that would be read, "needs download", or "needs file".

    >>> chains = available()[0]
    >>> chains.name, chains.kind, chains.classes
    ('chain-s', 'generated', 2)
    """

    name: str
    kind: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str
    where: str


def load(
    name: str,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    seed: int = 0,
    split: str = "random",
    **options: Any,
) -> Graph:
    """Load a data set by name. `available` lists the names.

    Generated: ``chain-s``, ``chain-m``, ``chain-l``, ``chain-x``, each also with a number of chains per class
    (``chain-s:75``), and ``csbm`` with options (``csbm:nodes=500,homophily=0.9`` or keywords; see
    `caribou.datasets.csbm.BlockModel`). ``grid-game`` and ``neighbour-features``, also with a number of nodes
    (``neighbour-features:500``): a neighbour's features tell the class, and its class does not.

    Public: taken from a file, else downloaded once. ``photo:connected`` leaves out nodes without an edge, as the paper does:
    a preparation of public benchmarks.

    Args:
        name: of the data set, with its options after a colon.
        data_dir: folder of files (default: that of the environment variable ``CARIBOU_DATA``).
        seed: of the split, and of what is generated.
        split: "random" divides the labelled nodes 70/10/20; "public" is the publisher's split, where there is one.
        options: of a generated data set, as keywords.

    Returns:
        The graph, with labels and a split.

    >>> load("chain-m").split.sizes
    (10, 10, 40)
    >>> load("csbm:nodes=100", features=8, seed=3)
    Graph('csbm:nodes=100', nodes=100, features=8, classes=4)
    """
    Streams(seed)
    one_of(("random", "public"), split=split)
    require_name(name, options)
    base, colon, suffix = name.partition(":")
    if colon and base in PUBLIC and split == "public":
        raise InputError(f"split must be random for {name}, which has other nodes than its publisher's, got 'public'")
    if split == "public" and not (base in PUBLIC and PUBLIC[base].public_split):
        having = ", ".join(spec.name for spec in PUBLIC.values() if spec.public_split)
        raise InputError(f"split must be random for {name}; a public split have {having}")
    if base == "csbm":
        return csbm_graph(with_options(BlockModel(), suffix, options, of="csbm"), seed, name)
    if options:
        raise InputError(f"{base} has no options, got {', '.join(sorted(options))}")
    if base in CHAINS:
        return chain_graph(chain_spec(name), seed)
    if base in _TELLING:
        return _telling_graph(name, seed)
    spec = PUBLIC[base]
    graph = public.public_graph(spec, data_dir)
    if colon:
        graph = replace(public.without_isolated(graph), classes_declared=True)
    return public.with_requested_split(graph, spec, split, seed)


_TELLING: dict[str, type[GridGame] | type[NeighbourFeatures]] = {
    "grid-game": GridGame,
    "neighbour-features": NeighbourFeatures,
}
_GENERATED = (*CHAINS, "csbm", *_TELLING)


def _telling_spec(name: str) -> GridGame | NeighbourFeatures:
    base, colon, suffix = name.partition(":")
    if not colon:
        return _TELLING[base]()
    if not re.fullmatch(r"[0-9]{1,9}", suffix):
        raise InputError(f"the number of nodes in {base}:<number> must be a whole number, got {suffix!r}")
    return _TELLING[base].of(int(suffix))


def _telling_graph(name: str, seed: int) -> Graph:
    spec = _telling_spec(name)
    return grid_game(spec, seed, name) if isinstance(spec, GridGame) else neighbour_features(spec, seed, name)


def require_name(name: object, options: Mapping[str, Any] | None = None) -> None:
    """Refuse what `load` does not know, options of generated data sets included, before anything is read or made.

    >>> require_name("csbm:nodes=many")
    Traceback (most recent call last):
        ...
    caribou.errors.InputError: csbm option nodes must be a whole number, got 'many'
    """
    if not isinstance(name, str):
        raise InputError(f"dataset must be the name of a data set, got {name!r}")
    base, colon, suffix = name.partition(":")
    if base not in _GENERATED and (base not in PUBLIC or (colon and suffix != public.CONNECTED)):
        raise _unknown(name, base)
    if colon and base == "csbm":
        if not suffix:
            raise InputError(f"csbm options must follow the colon, got {name!r}")
        with_options(BlockModel(), suffix, options or {}, of="csbm")
    elif base in CHAINS:
        chain_spec(name)
    elif base in _TELLING:
        _telling_spec(name)


def published_delta(name: str) -> float:
    """The delta of the paper's tables for a public or generated data set: 10^-digits of its number of directed edges.

    The number is that of the table of public statistics or of the generator; no graph is read. For a private graph delta is a
    declared constant.

    >>> [published_delta(name) for name in ("cora", "photo:connected", "berkeley13", "chain-s", "chain-m")]
    [1e-05, 1e-06, 1e-07, 0.01, 0.001]
    """
    base, _, suffix = name.partition(":")
    if base in CHAINS:
        edges = chain_spec(name).edges
    elif base == "csbm":
        edges = 2 * with_options(BlockModel(), suffix, {}, of="csbm").edges
    elif base in _TELLING:
        edges = 2 * _telling_spec(name).edges
    elif base in PUBLIC:
        edges = PUBLIC[base].edges
    else:
        raise _unknown(name, base)
    return float(f"1e-{len(str(edges))}")


def _unknown(name: str, base: str) -> InputError:
    names = [*_GENERATED, *PUBLIC]
    close = difflib.get_close_matches(base.lower(), names, n=3)
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    return InputError(
        f"dataset must be one of {', '.join(names)}, or a generated one with its sizes, such as chain-s:75 or "
        f"csbm:nodes=500,homophily=0.9, got {name!r}{hint}"
    )


def available(data_dir: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """All data sets that `load` knows, and where each would come from.

    Args:
        data_dir: folder in which files are looked for (default: that of the environment variable ``CARIBOU_DATA``).

    Returns:
        One record per data set.

    >>> [info.name for info in available() if info.kind == "generated"]
    ['chain-s', 'chain-m', 'chain-l', 'chain-x', 'csbm', 'grid-game', 'neighbour-features']
    """
    folder = public.data_folder(data_dir)
    chains = [
        DatasetInfo(s.name, "generated", s.nodes, s.edges, s.features, s.classes, "chains, two classes", "generated")
        for s in CHAINS.values()
    ]
    model = BlockModel()
    source = "contextual stochastic block model, sizes by options"
    blocks = DatasetInfo(
        "csbm", "generated", model.nodes, 2 * model.edges, model.features, model.classes, source, "generated"
    )
    telling = [
        DatasetInfo(name, "generated", t.nodes, 2 * t.edges, t.features, t.classes, t.source, "generated")
        for name, t in ((name, _telling_spec(name)) for name in _TELLING)
    ]
    known = []
    for s in PUBLIC.values():
        file = public.find_file(s, folder)
        absent = "needs download" if s.download else "needs file"
        where = absent if file is None else str(file)
        known.append(DatasetInfo(s.name, "public", s.nodes, s.edges, s.features, s.classes, s.source, where))
    return [*chains, blocks, *telling, *known]
