"""The data sets that can be loaded by name, and the statistics that a loaded one must have.

The statistics are a checksum: a file of the same name with other content is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


_ADDRESS = "https://raw.githubusercontent.com/kimiyoung/planetoid/af6abf468a772cc055bec88c52e4d6f51b7c37e3/data"
_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
PLANETOID = {
    "cora": (
        "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    ),
    "citeseer": (
        "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    ),
    "pubmed": (
        "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
        "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
        "508e538e2abdccdd54c4d3e9f49d638b4af7107d85845f66ddea5a5152658b7e",
        "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
        "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
        "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
        "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
        "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    ),
}
"""SHA-256 of the files of Planetoid, in the order of their parts. They are pickles: nothing but these bytes is opened."""


def planetoid_files(name: str) -> dict[str, str]:
    """The digests of a data set of Planetoid by address."""
    return {f"{_ADDRESS}/ind.{name}.{part}": digest for part, digest in zip(_PARTS, PLANETOID[name], strict=True)}


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
                download=planetoid_files(name),
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
            download={_ARXIV: "49f85c801589ecdcc52cfaca99693aaea7b8af16a9ac3f41dd85a5f3193fe276"},
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
