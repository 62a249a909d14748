"""One graph has one content, however it is stored; another graph has another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from caribou.engines.blocks import BlockFiles, Layout
from caribou.engines.preparation import Memory, prepare
from caribou.graph import Graph
from caribou.graph.fingerprint import ContentDigest, degrees_of, edges_of, whole_of
from caribou.privacy.events import EpsilonDelta
from caribou.privacy.ledger import Fingerprint, Ledger
from caribou.tables.edges import open_edges
from caribou.tables.nodes import open_nodes
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules

RNG = np.random.default_rng(3)
NODES, COLUMNS = 300, 5
PAIRS = RNG.integers(0, NODES, (2, 900))
FEATURES = np.where(RNG.random((NODES, COLUMNS)) < 0.3, 0.0, RNG.standard_normal((NODES, COLUMNS))).astype(np.float32)
GRAPH = Graph.from_edges(FEATURES, PAIRS)


def content(graph: Graph) -> tuple[bytes, ...]:
    return tuple(graph.content())


def test_storage_does_not_matter() -> None:
    same = [
        Graph.from_edges(FEATURES.astype(np.float64), PAIRS),
        Graph.from_edges(sp.csr_array(FEATURES), PAIRS),
        Graph.from_edges(sp.csc_array(FEATURES.astype(np.float64)), PAIRS[::-1, ::-1]),
        Graph.from_edges(FEATURES, np.concatenate([PAIRS, PAIRS[::-1], PAIRS[:, :50]], axis=1)),
        Graph.from_edges(FEATURES + np.float32(-0.0), PAIRS, labels=np.arange(NODES) % 3).random_split(1),
        GRAPH.renamed("another name"),
    ]
    assert {content(graph) for graph in same} == {content(GRAPH)}


def test_content_matters() -> None:
    changed = FEATURES.copy()
    changed[7, 2] += 1e-3
    moved = np.roll(FEATURES, 1, axis=1)
    u, v = map(int, GRAPH.edge_index[:, 0])
    missing = next(w for w in range(1, NODES) if not GRAPH.has_edge(0, w))
    others = [
        Graph.from_edges(changed, PAIRS),
        Graph.from_edges(moved, PAIRS),
        Graph.from_edges(FEATURES[:, :4], PAIRS),
        GRAPH.without_edge(u, v),
        GRAPH.with_edge(0, missing),
        Graph.from_edges(np.concatenate([FEATURES, np.zeros((1, COLUMNS), np.float32)]), PAIRS),
    ]
    found = [content(graph) for graph in others]
    assert len({*found, content(GRAPH)}) == len(others) + 1


@pytest.mark.parametrize(("cap", "shift"), [(None, 4), (1, 6), (4, 16)])
def test_row_blocks_on_disk_have_the_content_of_the_graph(tmp_path: Path, cap: int | None, shift: int) -> None:
    np.save(tmp_path / "edges.npy", PAIRS[::-1].T)
    np.save(tmp_path / "x.npy", FEATURES.astype(np.float64))
    work = tmp_path / "work"
    work.mkdir()
    found = prepare(
        open_edges(tmp_path / "edges.npy", Titles()),
        open_nodes(tmp_path / "x.npy", Titles(), ColumnRules()),
        BlockFiles(work, Layout(NODES, COLUMNS, shift)),
        degree_floor=3,
        degree_cap=cap,
        cap_key=shift,
        memory=Memory(),
    )
    assert found.content == content(GRAPH)


# -- what a look-alike shares ------------------------------------------------------------------------------------------


def test_the_degrees_know_a_graph_whose_nodes_or_features_were_changed() -> None:
    order = np.random.default_rng(1).permutation(NODES)
    alike = [
        Graph.from_edges(FEATURES, order[PAIRS]),
        Graph.from_edges(FEATURES[order], PAIRS),
        Graph.from_edges(FEATURES[:, ::-1], PAIRS),
        Graph.from_edges(FEATURES[:, :2] + 1, order[PAIRS]),
    ]
    assert {degrees_of(content(graph)) for graph in alike} == {degrees_of(content(GRAPH))}
    assert len({whole_of(content(graph)) for graph in (*alike, GRAPH)}) == len(alike) + 1
    assert edges_of(content(alike[0])) != edges_of(content(GRAPH))


def test_one_edge_or_one_node_more_or_less_has_other_degrees() -> None:
    u, v = map(int, GRAPH.edge_index[:, 0])
    missing = next(w for w in range(1, NODES) if not GRAPH.has_edge(0, w))
    longer = np.concatenate([FEATURES, np.zeros((1, COLUMNS), np.float32)])
    others = [GRAPH, GRAPH.without_edge(u, v), GRAPH.with_edge(0, missing), Graph.from_edges(longer, PAIRS)]
    assert len({degrees_of(content(graph)) for graph in others}) == len(others)
    assert degrees_of(content(Graph.from_edges(FEATURES, np.empty((2, 0), dtype=int)))) is None


@pytest.mark.parametrize("size", [1, 3, 7, 10**6])
def test_pieces_of_any_size_have_the_degrees_of_the_whole(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caribou.graph.fingerprint._KEYS", 5)
    digest = ContentDigest(nodes=NODES, columns=COLUMNS)
    rows = np.repeat(np.arange(NODES, dtype=np.uint64), np.diff(GRAPH.indptr))
    keys = rows << np.uint64(32) | GRAPH.indices.astype(np.uint64)
    for first in range(0, len(keys), size):
        digest.add_edges(keys[first : first + size])
    digest.add_features(FEATURES)
    assert tuple(digest.parts()) == content(GRAPH)
    counted = np.unique(np.diff(GRAPH.indptr)[np.diff(GRAPH.indptr) > 0], return_counts=True)
    assert digest._rows_of_degree == dict(zip(*(part.tolist() for part in counted), strict=True))


def test_a_digest_of_degrees_is_kept_under_the_key_of_the_ledger(tmp_path: Path) -> None:
    one, two = Ledger(tmp_path / "one.sqlite"), Ledger(tmp_path / "two.sqlite")
    parts = degrees_of(content(GRAPH))
    assert parts is not None
    assert one.fingerprint(parts, of=Fingerprint.DEGREES) != two.fingerprint(parts, of=Fingerprint.DEGREES)
    assert one.fingerprint(parts, of=Fingerprint.DEGREES).startswith("2d:")
    assert len({one.fingerprint(parts, of=kind).partition(":")[2] for kind in Fingerprint}) == len(Fingerprint)
    one.charge(
        "s", "edge", [EpsilonDelta(1.0)], description="x", fingerprints=[one.fingerprint(parts, of=Fingerprint.DEGREES)]
    )
    stored = (tmp_path / "one.sqlite").read_bytes()
    assert parts[1] not in stored
    assert parts[1].hex().encode() not in stored
