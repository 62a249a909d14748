"""The data sets that can be loaded by name, and the statistics that a loaded one must have.

The statistics are a checksum: a file of the same name with other content is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from caribou.errors import DataError
from caribou.graph import Graph


@dataclass(frozen=True)
class Public:
    """A public data set: expected statistics, file names, source.

    edges: directed count, that is twice the number of undirected edges.
    files: names under which the data set is looked for in a folder, the first being the one it is stored under.
    raw: the address of the publisher's own file, which is understood as well under its name; empty if there is none.
    public_split: whether the publisher's split belongs to the data set.
    sparse: whether the features are mostly zero and kept sparse.
    download: the SHA-256 of every file that is downloaded, by its address; nothing whose digest is not known is downloaded.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str
    files: tuple[str, ...]
    raw: str = ""
    public_split: bool = False
    sparse: bool = False
    download: Mapping[str, str] = field(default_factory=dict)

    @property
    def raw_name(self) -> str:
        """The name of the publisher's own file."""
        return self.raw.rpartition("/")[2]


def downloads(part: str) -> dict[str, str]:
    """The SHA-256 of the files whose addresses have this part, by address (``downloads.sha256``)."""
    listed = (files("caribou.datasets") / "downloads.sha256").read_text(encoding="utf-8")
    pairs = (line.split() for line in listed.splitlines())
    return {address: digest for digest, address in pairs if part in address}


_PLANETOID = "citation network, Planetoid (Yang et al. 2016)"
_ARXIV = "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
_NPZ = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/amazon_electronics_{}.npz"
_AMAZON = "co-purchase network, Amazon (Shchur et al. 2018)"

PUBLIC = {
    spec.name: spec
    for spec in (
        *(
            Public(
                *(name, *sizes, _PLANETOID, (f"{name}.npz",)),
                public_split=True,
                sparse=True,
                download=downloads(f"/ind.{name}."),
            )
            for name, sizes in {
                "cora": (2708, 10556, 1433, 7),
                "citeseer": (3327, 9104, 3703, 6),
                "pubmed": (19717, 88648, 500, 3),
            }.items()
        ),
        *(
            Public(*(name, *sizes, _AMAZON, (f"{name}.npz", f"amazon_{name}.npz")), raw=_NPZ.format(name), sparse=True)
            for name, sizes in {"photo": (7650, 238162, 745, 8), "computers": (13752, 491722, 767, 10)}.items()
        ),
        Public(
            "facebook",
            26406,
            2117924,
            501,
            6,
            "friendships at one university, Facebook100 UIllinois20 (Traud et al. 2011), class = year",
            ("facebook.npz", "facebook100_uillinois20.npz"),
            raw="https://github.com/sisaman/pyg-datasets/raw/main/datasets/facebook100/UIllinois20.mat",
            sparse=True,
        ),
        Public(
            "reddit2",
            232965,
            23213838,
            602,
            41,
            "posts joined by common commenters, Reddit2 (Zeng et al. 2020)",
            ("reddit2.npz",),
            public_split=True,
        ),
        Public(
            "arxiv",
            169343,
            2315598,
            128,
            40,
            "citation network, ogbn-arxiv (Hu et al. 2020), made undirected",
            ("arxiv.npz", "ogbn_arxiv.npz"),
            raw=_ARXIV,
            public_split=True,
            download=downloads(_ARXIV),
        ),
        Public(
            "berkeley13",
            18939,
            1354934,
            437,
            6,
            "friendships at one university, Facebook100 Berkeley13 (Traud et al. 2011), class = year",
            ("berkeley13.npz", "facebook100_berkeley13.npz"),
            sparse=True,
        ),
        Public(
            "arxiv-edges",
            169343,
            2315598,
            0,
            40,
            "edges, labels and split of ogbn-arxiv without features, for scale",
            ("arxiv-edges.npz", "ogbn_arxiv_nofeat.npz"),
            public_split=True,
        ),
    )
}


def check_statistics(graph: Graph, spec: Public, origin: str) -> None:
    """Compare a loaded graph with the table; a difference is a `DataError` that names field, values and origin."""
    found = {
        "nodes": graph.num_nodes,
        "edges (both directions)": 2 * graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
    }
    expected = dict(zip(found, (spec.nodes, spec.edges, spec.features, spec.classes), strict=True))
    for name in found:
        if found[name] != expected[name]:
            raise DataError(
                f"{origin}: {name} of {spec.name} must be {expected[name]}, found {found[name]}: "
                "this is another data set, or another preparation of it"
            )
