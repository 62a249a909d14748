"""Data sets by name, and a user's own graph from files.

>>> load("chain-s", seed=1)
Graph('chain-s', nodes=48, features=5, classes=2)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from caribou._validate import one_of
from caribou.datasets import public
from caribou.datasets.files import read_graph, write_graph
from caribou.datasets.generated import GENERATED, generator
from caribou.datasets.table import PUBLIC
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

    Generated: ``chain-s``, ``chain-m``, ``chain-l``, ``chain-x``, ``csbm``, and ``neighbour-features``, in which a neighbour's
    features tell the class, and its class does not. All take options (``csbm:nodes=500,homophily=0.9`` or keywords; see
    `caribou.datasets.generated`). A number alone is that of nodes, or of chains per class (``chain-s:75``).

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
    base, colon, _ = name.partition(":")
    if colon and base in PUBLIC and split == "public":
        raise InputError(f"split must be random for {name}, which has other nodes than its publisher's, got 'public'")
    if split == "public" and not (base in PUBLIC and PUBLIC[base].public_split):
        having = ", ".join(spec.name for spec in PUBLIC.values() if spec.public_split)
        raise InputError(f"split must be random for {name}; a public split have {having}")
    if base in GENERATED:
        return generator(name, options).draw(seed, name)
    if options:
        raise InputError(f"{base} has no options, got {', '.join(sorted(options))}")
    spec = PUBLIC[base]
    graph = public.public_graph(spec, data_dir)
    if colon:
        graph = replace(public.without_isolated(graph), classes_declared=True)
    return public.with_requested_split(graph, spec, split, seed)


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
    if base in GENERATED:
        generator(name, options)
    elif base not in PUBLIC or (colon and suffix != public.CONNECTED):
        raise _unknown(name)


def published_delta(name: str) -> float:
    """The delta of the paper's tables for a public or generated data set: 10^-digits of its number of directed edges.

    The number is that of the table of public statistics or of the generator; no graph is read. For a private graph delta is a
    declared constant.

    >>> [published_delta(name) for name in ("cora", "photo:connected", "berkeley13", "chain-s", "chain-m")]
    [1e-05, 1e-06, 1e-07, 0.01, 0.001]
    """
    base = name.partition(":")[0]
    if base not in GENERATED and base not in PUBLIC:
        raise _unknown(name)
    edges = 2 * generator(name).edges if base in GENERATED else PUBLIC[base].edges
    return float(f"1e-{len(str(edges))}")


def _unknown(name: str) -> InputError:
    return InputError(
        f"dataset must be one of {', '.join([*GENERATED, *PUBLIC])}, or a generated one with its sizes, such as chain-s:75 or "
        f"csbm:nodes=500,homophily=0.9, got {name!r}"
    )


def available(data_dir: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """All data sets that `load` knows, and where each would come from.

    Args:
        data_dir: folder in which files are looked for (default: that of the environment variable ``CARIBOU_DATA``).

    Returns:
        One record per data set.

    >>> [info.name for info in available() if info.kind == "generated"]
    ['chain-s', 'chain-m', 'chain-l', 'chain-x', 'csbm', 'neighbour-features']
    """
    folder = public.data_folder(data_dir)
    known = [
        DatasetInfo(name, "generated", g.nodes, 2 * g.edges, g.features, g.classes, g.source, "generated")
        for name, g in GENERATED.items()
    ]
    for s in PUBLIC.values():
        file = public.find_file(s, folder)
        absent = "needs download" if s.download else "needs file"
        where = absent if file is None else str(file)
        known.append(DatasetInfo(s.name, "public", s.nodes, s.edges, s.features, s.classes, s.source, where))
    return known
