"""The data sets that can be loaded by name, and the statistics that a loaded one must have.

The statistics are a checksum: a file of the same name with other content is refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from caribou.errors import DataError
from caribou.graph import Graph


@dataclass(frozen=True)
class Public:
    """A public data set: expected statistics, file names, source.

    edges: directed count, that is twice the number of undirected edges.
    files: names under which the data set is looked for in a folder, the first being the one it is stored under.
    raw: the name of the publisher's own file that is understood as well, or None.
    public_split: whether the publisher's split belongs to the data set.
    sparse: whether the features are mostly zero and kept sparse.
    download: whether there is a public address to download from.
    """

    name: str
    nodes: int
    edges: int
    features: int
    classes: int
    source: str
    files: tuple[str, ...]
    raw: str | None = None
    public_split: bool = False
    sparse: bool = False
    download: bool = True


_PLANETOID = "citation network, Planetoid (Yang et al. 2016)"
_AMAZON = "co-purchase network, Amazon (Shchur et al. 2018)"

PUBLIC = {
    spec.name: spec
    for spec in (
        Public("cora", 2708, 10556, 1433, 7, _PLANETOID, ("cora.npz",), public_split=True, sparse=True),
        Public("citeseer", 3327, 9104, 3703, 6, _PLANETOID, ("citeseer.npz",), public_split=True, sparse=True),
        Public("pubmed", 19717, 88648, 500, 3, _PLANETOID, ("pubmed.npz",), public_split=True, sparse=True),
        Public("photo", 7650, 238162, 745, 8, _AMAZON, ("photo.npz", "amazon_photo.npz"), sparse=True),
        Public("computers", 13752, 491722, 767, 10, _AMAZON, ("computers.npz", "amazon_computers.npz"), sparse=True),
        Public(
            "facebook",
            26406,
            2117924,
            501,
            6,
            "friendships at one university, Facebook100 UIllinois20 (Traud et al. 2011), class = year",
            ("facebook.npz", "facebook100_uillinois20.npz"),
            raw="UIllinois20.mat",
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
            raw="arxiv.zip",
            public_split=True,
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
            download=False,
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
            download=False,
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
    for field in found:
        if found[field] != expected[field]:
            raise DataError(
                f"{origin}: {field} of {spec.name} must be {expected[field]}, found {found[field]}: "
                "this is another data set, or another preparation of it"
            )
