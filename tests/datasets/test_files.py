"""A user's own files: what is read, and the message for each way in which a file can be wrong."""

import io
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from caribou.datasets import read_graph, write_graph
from caribou.errors import DataError, InputError
from caribou.graph import Graph, Split

EDGES = "from,to\n1,2\n2,3\n"
NODES = "id,age,label,split\n1,31,a,train\n2,45,b,val\n3,28,a,test\n"


def tables(folder, edges=EDGES, nodes=NODES):
    for title, content in (("edges.csv", edges), ("nodes.csv", nodes)):
        (folder / title).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder / "edges.csv", folder / "nodes.csv"


def fails(message, *arguments, **options):
    with pytest.raises(DataError, match=message) as caught:
        read_graph(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("key", ["csv", "parquet", "mixed", "graphml", "pt", "npz", "sparse"])
def test_every_format_holds_the_same_graph(valid_files, key):
    graph = read_graph(*valid_files[key], name="people")
    assert graph.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    features = graph.features.toarray() if key == "sparse" else graph.features
    assert features.tolist() == [[31, 1.5], [45, 1.75], [28, 2], [60, 1.25]]
    assert features.dtype == np.float32
    assert graph.labels.tolist() == [1, 0, 1, -1]
    assert [part.tolist() for part in (graph.split.train, graph.split.val, graph.split.test)] == [[0, 1], [2], [3]]
    assert graph.name == "people"
    if key != "pt":
        assert graph.class_names == ("blue", "red")
        assert graph.node_ids.tolist() == ["ann", "bob", "cid", "dan"]


class TestTables:
    def test_column_names_and_spelling(self, tmp_path):
        edges, nodes = tables(
            tmp_path, "w,a,b\n9,1,2\n9,2,3\n", "Who,kind,ID,part\n1,x,0.5,train\n2,y,1,valid\n3,x,2,TEST\n"
        )
        with pytest.warns(UserWarning, match="columns 'w' are ignored"):
            graph = read_graph(
                edges, nodes, id_column="Who", label_column="kind", split_column="part", source_column="a",
                target_column="b",
            )  # fmt: skip
        assert graph.features.tolist() == [[0.5], [1], [2]]
        assert graph.split.sizes == (1, 1, 1)
        assert graph.name == "edges"
        upper = tables(tmp_path, EDGES, NODES.replace("id,age,label,split", "Node_ID,age,Class,Split"))
        assert read_graph(*upper).class_names == ("a", "b")

    def test_ids_of_number_and_text_are_the_same(self, tmp_path):
        _, nodes = tables(tmp_path)
        for k, column in enumerate(([1, 2], ["1", "2"], [1.0, 2.0], [" 1", "2 "])):
            edges = tmp_path / f"edges{k}.parquet"
            pd.DataFrame({"s": column, "t": [2, 3]}).to_parquet(edges)
            graph = read_graph(edges, nodes)
            assert graph.has_edge(0, 1)
            assert graph.node_ids.tolist() == [1, 2, 3]
        pd.DataFrame({"s": ["01"], "t": [2]}).to_parquet(tmp_path / "zero.parquet")
        fails(
            r"zero.parquet: row 1: column 's' must hold an id of the node table, got '01'",
            tmp_path / "zero.parquet",
            nodes,
        )

    def test_text_ids_keep_their_zeros(self, tmp_path):
        graph = read_graph(*tables(tmp_path, "s,t\n01,1\n", "id,f\n01,5\n1,6\n"))
        assert graph.node_ids.tolist() == ["01", "1"]
        assert graph.labels is None
        assert graph.split is None
        assert read_graph(*tables(tmp_path, "s,t\nNA,null\n", "id,f\nNA,5\nnull,6\n")).num_edges == 1

    def test_labels_are_sorted_as_numbers_or_as_text(self, tmp_path):
        def labels(cells):
            rows = "".join(f"{k},{cell},{['train', 'val', 'test'][k % 3]}\n" for k, cell in enumerate(cells))
            graph = read_graph(*tables(tmp_path, "s,t\n0,1\n", "id,y,split\n" + rows))
            return graph.class_names, graph.labels.tolist()

        assert labels(["10", "9", "-1", "9"]) == (("-1", "9", "10"), [2, 1, 0, 1])
        assert labels(["10", "9", "x"]) == (("10", "9", "x"), [0, 1, 2])
        assert labels(["True", "False", "True"]) == (("False", "True"), [1, 0, 1])
        frame = pd.DataFrame({"id": [0, 1, 2], "label": pd.array([2, None, 1], dtype="Int64"), "f": [1, 2, 3]})
        frame["split"] = ["train", "val", "test"]
        frame.to_parquet(tmp_path / "n.parquet")
        graph = read_graph(tmp_path / "edges.csv", tmp_path / "n.parquet")
        assert graph.labels.tolist() == [1, -1, 0]

    def test_random_split_by_seed(self, tmp_path):
        rows = "".join(f"{k},{k % 2 if k else ''}\n" for k in range(21))
        files = tables(tmp_path, "s,t\n0,1\n", "id,label\n" + rows)
        graph = read_graph(*files, seed=4)
        assert graph.split.sizes == (14, 2, 4)
        assert 0 not in np.concatenate([graph.split.train, graph.split.val, graph.split.test])
        assert read_graph(*files, seed=4).split.train.tolist() == graph.split.train.tolist()
        assert read_graph(*files, seed=5).split.train.tolist() != graph.split.train.tolist()

    def test_parquet_index_of_pandas_is_no_feature(self, tmp_path):
        edges, _ = tables(tmp_path)
        frame = pd.DataFrame({"id": [3, 1, 2], "f": [True, False, True]}, index=[7, 9, 8])
        frame.to_parquet(tmp_path / "a.parquet")
        assert read_graph(edges, tmp_path / "a.parquet").features.tolist() == [[1], [0], [1]]
        frame.set_index("id").to_parquet(tmp_path / "b.parquet")
        assert read_graph(edges, tmp_path / "b.parquet").node_ids.tolist() == [3, 1, 2]

    @pytest.mark.parametrize(
        ("edges", "nodes", "message"),
        [
            ("from,to\n1,2\n2,9\n", NODES, r"edges.csv: row 2: column 'to' must hold an id of the node table, got '9'"),
            ("from,to\n1,2\n,3\n", NODES, r"edges.csv: row 2: column 'from' must hold an id"),
            ("from\n1\n2\n", NODES, r"edges.csv: must hold two columns, source and target, found only 'from'"),
            ("1,2\n2,3\n", NODES, r"edges.csv: the first line must hold the column titles, got numbers: '1', '2'"),
            ("a,a\n1,2\n", NODES, r"edges.csv: column titles must differ, got 'a' more than once"),
            ("a,b\n0,1,3\n1,3,1\n", NODES, r"edges.csv: row 1 must have 2 cells, got 3"),
            ("a,b\n1,2\n2,3,1\n", NODES, r"edges.csv: row 2 must have 2 cells, got 3"),
            ("a,\n1,2\n", NODES, r"edges.csv: the first line must hold the column titles, got an empty one"),
            (b"a,b\n\xff\xfe,2\n", NODES, r"edges.csv: not a readable CSV \(UTF-8\) table \(UnicodeDecodeError"),
            ("from,to\n1,2\n".encode("utf-16"), NODES, r"edges.csv: not a readable CSV"),
            (b"", NODES, r"edges.csv: the file is empty"),
            (EDGES, b"", r"nodes.csv: the file is empty"),
            (EDGES, "id,age\n", r"nodes.csv: must hold at least one node, got a table without rows"),
            (EDGES, "age,label\n1,a\n", r"nodes.csv: needs a column 'id' or 'node' or 'node_id', found 'age', 'label'"),
            (EDGES, "id,age\n1,3\n2,x\n3,1\n", r"nodes.csv: row 2: column 'age' must hold numbers, got 'x'; if"),
            (EDGES, "id,colour\n1,red\n2,blue\n3,red\n", r"got 'red'; .* declare it the label or split column$"),
            (EDGES, "id,colour,label\n1,red,a\n2,red,b\n3,red,a\n", r"got 'red'; .* declare it the split column$"),
            (EDGES, NODES.replace("45", "old"), r"nodes.csv: row 2: column 'age' must hold numbers, got 'old'$"),
            ("from;to\n1;2\n", NODES, r"edges.csv: .* separated by commas, got 'from;to': is the separator a comma, or ';'\?"),
            (EDGES, "id\tage\n1\t3\n", r"nodes.csv: .* separated by commas, got 'id\\tage': is the separator a comma"),
            (EDGES, "id,age\n1,3\n2,\n3,1\n", r"nodes.csv: row 2: column 'age' must hold numbers, got an empty cell \(nan\)$"),
            (EDGES, "id,age\n1,3\n2,nan\n3,1\n", r"nodes.csv: row 2: column 'age' must hold numbers, got 'nan'"),
            (EDGES, "id,age\n1,3\n2,5\n3,-inf\n", r"nodes.csv: row 3: column 'age' must hold finite .* got -inf"),
            (EDGES, "id,age\n1,3\n2,5\n3,1e300\n", r"row 3: column 'age' must hold numbers of at most 3.4e\+38 in size, got 1e"),
            (EDGES, "id,age\n1,3\n2,5\n2,7\n", r"nodes.csv: row 3: column 'id' must hold unique ids, got '2' again"),
            (EDGES, "id,age\n1,3\n,5\n2,7\n", r"nodes.csv: row 2: column 'id' must hold an id, got an empty cell"),
            (EDGES, NODES.replace("val", "dev"), r"nodes.csv: row 2: column 'split' must be train, val or test, got 'dev'"),
            (EDGES, NODES.replace("31,a", "31,"), r"row 1: column 'label' must hold .* training node, got an empty value$"),
            (EDGES, NODES.replace("val", "test"), r"edges.csv: split part val must hold at least one node"),
            (EDGES, NODES.replace("label", "other").replace(",a,", ",1,").replace(",b,", ",2,"), r"needs a label column"),
            (EDGES, "id,label\n1,a\n2,b\n3,a\n", r"edges.csv: too few labelled nodes for a random split"),
            (EDGES, "id,label\n1,\n2,\n3,\n", r"nodes.csv: column 'label' must hold at least one label"),
            (EDGES, "id,label\n1,1\n2,0.5\n3,1\n", r"nodes.csv: row 2: column 'label' must hold classes, got '0.5'"),
        ],
    )  # fmt: skip
    def test_bad_tables(self, tmp_path, edges, nodes, message):
        fails(message, *tables(tmp_path, edges, nodes))

    def test_missing_columns_and_tables(self, tmp_path):
        edges, nodes = tables(tmp_path)
        fails("an edge table needs a node table as well", edges)
        fails(
            "nodes.csv: id column 'who' is missing, found 'id', 'age', 'label', 'split'", edges, nodes, id_column="who"
        )
        fails("nodes.csv: label column 'z' is missing", edges, nodes, label_column="z")
        fails("nodes.csv: split column 'z' is missing", edges, nodes, split_column="z")
        fails("edges.csv: source column 'z' is missing", edges, nodes, source_column="z")
        fails("edges.csv: target column 'z' is missing", edges, nodes, target_column="z")
        fails("got 'to' twice", edges, nodes, source_column="to", target_column="to")
        fails("nodes.npz: file not found", edges, tmp_path / "nodes.npz")
        (tmp_path / "nodes.txt").write_text("x")
        fails("unknown ending '.txt' of a node table", edges, tmp_path / "nodes.txt")

    def test_first_edge_in_place_of_the_titles(self, tmp_path):
        nodes = "id,f\nann,1\nbob,2\ncid,3\n"
        edges = "ann,bob\nbob,cid\n"
        message = fails("edges.csv: column titles must not be ids of the node table", *tables(tmp_path, edges, nodes))
        assert "got 'ann', 'bob': is the line of titles missing?" in message
        # Titles that happen to be ids can be declared to be titles.
        assert read_graph(*tables(tmp_path, edges, nodes), source_column="ann", target_column="bob").num_edges == 1
        assert read_graph(*tables(tmp_path, "ann,to\nbob,cid\n", nodes)).num_edges == 1

    def test_target_column_alone(self, tmp_path):
        edges, nodes = tables(tmp_path, "from,to\n1,2\n2,3\n")
        for options in ({"target_column": "from"}, {"target_column": "to"}, {"source_column": "to"}):
            graph = read_graph(edges, nodes, **options)
            assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        only, _ = tables(tmp_path, "from\n1\n")
        fails("must hold two columns, source and target, found only 'from'", only, nodes, target_column="from")

    def test_bad_parquet_cells(self, tmp_path):
        edges, _ = tables(tmp_path)
        target = tmp_path / "n.parquet"
        for frame, message in (
            ({"id": [1, 2, 3], "f": [[1], [2], [3]]}, r"row 1: column 'f' must hold numbers, got array"),
            ({"id": [1, 2, 3], "f": ["1", None, "3"]}, r"row 2: column 'f' must hold numbers, got an empty cell"),
            ({"id": [1.0, 2.5, 3.0], "f": [1, 2, 3]}, r"row 2: column 'id' must hold text or whole numbers, got 2.5"),
            ({"id": [1, 2, 3], "label": [b"a", b"b", b"c"]}, r"row 1: column 'label' must hold text or whole"),
            ({"id": [1, 2, 3], "f": pd.to_datetime(["2020-01-01"] * 3)}, r"row 1: column 'f' must hold numbers"),
            ({"id": [1, 2, 3], "f": [1, np.inf, 3]}, r"row 2: column 'f' must hold finite numbers, got inf"),
        ):
            pd.DataFrame(frame).to_parquet(target)
            fails(message, edges, target)


class TestPaths:
    def test_no_usable_file(self, tmp_path):
        fails("absent.npz: file not found", tmp_path / "absent.npz")
        fails("must be a file, got a directory", tmp_path)
        (tmp_path / "graph.txt").write_text("1 2")
        fails("unknown ending '.txt', must be one of .npz, .csv, .parquet", tmp_path / "graph.txt")
        os.mkfifo(tmp_path / "pipe.npz")
        fails("must be a file, got a special file", tmp_path / "pipe.npz")
        fails("cannot be read|file not found", "nul\0byte.npz")
        fails("cannot be read|file not found", "x" * 5000 + ".npz")
        with pytest.raises(InputError, match=r"^path must be the path of a file, got int$"):
            read_graph(3)

    def test_content_of_arguments_is_not_shown(self, tmp_path):
        frame = pd.DataFrame({"from": ["secret"], "to": ["person"]})
        with pytest.raises(InputError, match=r"^path must be the path of a file, got DataFrame$"):
            read_graph(frame, frame)
        edges, _ = tables(tmp_path)
        with pytest.raises(InputError, match=r"^nodes must be the path of a file, got DataFrame$"):
            read_graph(edges, frame)

    @pytest.mark.parametrize("key", ["parquet", "graphml", "pt", "npz"])
    def test_empty_and_truncated(self, valid_files, tmp_path, key):
        source = valid_files[key][0]
        content = source.read_bytes()
        target = tmp_path / source.name
        for part in (b"", content[: len(content) // 2], content[:-3], content[:4]):
            target.write_bytes(part)
            fails(f"{target.name}: ", target, *valid_files[key][1:])

    def test_arguments_without_meaning(self, valid_files):
        nodes = valid_files["csv"][1]
        with pytest.raises(InputError, match="nodes goes with an edge table"):
            read_graph(*valid_files["npz"], nodes)
        with pytest.raises(InputError, match="label_column has no meaning"):
            read_graph(*valid_files["npz"], label_column="y")
        with pytest.raises(InputError, match="id_column has no meaning"):
            read_graph(*valid_files["graphml"], id_column="id")
        with pytest.raises(InputError, match="seed"):
            read_graph(*valid_files["npz"], seed=-1)


class TestNpz:
    def save(self, path, **changes):
        arrays = {"edge_index": np.array([[0, 1], [1, 2]]), "x": np.eye(3), "y": np.array([0, 1, 0])}
        arrays |= {"split_train": np.array([0]), "split_val": np.array([1]), "split_test": np.array([2])}
        arrays.update(changes)
        np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
        return path

    def test_narrow_integers(self, tmp_path):
        # 40,000 entries: the running sums of an int16 index would overflow.
        x = sp.random_array((300, 200), density=0.9, rng=np.random.default_rng(0), format="csr")
        x.data[:] = 1
        path = self.save(
            tmp_path / "g.npz", x=None, y=None, x_data=x.data.astype(np.int8), x_indices=x.indices.astype(np.int16),
            x_indptr=x.indptr.astype(np.int64), x_shape=np.array(x.shape), split_train=None, split_val=None,
            split_test=None, edge_index=np.array([[0], [299]], np.int32),
        )  # fmt: skip
        graph = read_graph(path)
        assert isinstance(graph.features, sp.csr_array)
        assert graph.features.dtype == np.float32
        assert graph.features.indices.dtype == np.int32
        assert (graph.features.toarray() == x.toarray()).all()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"edge_index": None}, "array edge_index is missing"),
            ({"edge_index": np.zeros((3, 2), int)}, r"edge_index must be 2 x E integers, got int64 of shape \(3, 2\)"),
            ({"edge_index": np.zeros((2, 2))}, "edge_index must be 2 x E integers, got float64"),
            ({"edge_index": np.array([[0], [3]])}, r"got 3 at edges\[1, 0\]"),
            ({"edge_index": np.array([[0], [None]])}, "array edge_index holds Python objects"),
            ({"x": np.array([[object()]] * 3)}, "array x holds Python objects"),
            ({"x": np.zeros(3)}, "2-D"),
            ({"x": np.zeros((0, 3)), "edge_index": np.zeros((2, 0), int)}, "between 1 and"),
            ({"x": np.full((3, 2), np.nan)}, "got nan in row 0, column 0"),
            ({"x": np.zeros((3, 1), complex)}, "must be numbers"),
            ({"x": None, "y": None, "split_train": None, "split_val": None, "split_test": None}, "needs features"),
            ({"x": None, "x_data": np.ones(3)}, "array x_indices is missing"),
            ({"x": None, "num_nodes": np.array(5)}, "num_nodes must be the length of y"),
            ({"y": np.array([0, 1])}, "one entry per node"),
            ({"y": np.array([0.0, 1, 0])}, "labels must be a 1-D integer array"),
            ({"y": np.array([0, -3, 1])}, "got -3 at node 1"),
            ({"y": np.array([-1, 1, 0])}, "got node 0 without a label"),
            ({"split_val": None}, "array split_val is missing"),
            ({"split_val": np.array([], int)}, "split part val must hold at least one node"),
            ({"split_val": np.array([0])}, "disjoint, got node 0 in train and val"),
            ({"split_val": np.array([7])}, "below 3, got 7"),
            ({"class_names": np.array(["a"])}, "number of classes"),
            ({"class_names": np.array([1, 2])}, "class_names must be a 1-D array of text"),
            ({"num_classes": np.array([1, 2])}, "num_classes must be one whole number"),
            ({"node_ids": np.array([1, 1, 2])}, "node_ids must be unique"),
        ],
    )
    def test_bad_arrays(self, tmp_path, changes, message):
        path = self.save(tmp_path / "g.npz", **changes)
        assert str(path) in fails(message, path)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"x_indices": np.array([0, 1])}, "x_indices must have as many entries"),
            ({"x_indices": np.array([0, 1, 3])}, r"x_indices must be columns in \[0, 3\)"),
            ({"x_indices": np.array([0, -1, 2])}, "x_indices must be columns"),
            ({"x_indices": np.array([0.0, 1, 2])}, "x_indices must be a 1-D array of numbers"),
            ({"x_indptr": np.array([0, 1, 3])}, "x_indptr must rise from 0 to 3 in 4 entries"),
            ({"x_indptr": np.array([0, 2, 1, 3])}, "x_indptr must rise"),
            ({"x_shape": np.array([3])}, "x_shape must be two sizes"),
            ({"x_shape": np.array([10**12, 3])}, "x_shape must be two sizes"),
            ({"x_data": np.array([1.0, np.inf, 2])}, "got inf in row 1, column 1"),
            ({"x_data": np.array(["a", "b", "c"])}, "x_data must be a 1-D array of numbers"),
        ],
    )
    def test_bad_sparse_features(self, tmp_path, changes, message):
        parts = {"x_data": np.ones(3), "x_indices": np.arange(3), "x_indptr": np.arange(4), "x_shape": np.array([3, 3])}
        fails(message, self.save(tmp_path / "g.npz", x=None, **{**parts, **changes}))

    def test_claims_of_size_are_not_believed(self, tmp_path):
        none = dict.fromkeys(("x", "y", "split_train", "split_val", "split_test"))
        fails("needs an array of that length", self.save(tmp_path / "g.npz", **none, num_nodes=np.array(2**31 - 2)))
        assert read_graph(self.save(tmp_path / "g.npz", **none, num_nodes=np.array(9))).num_nodes == 9

    def test_other_archives(self, tmp_path):
        target = tmp_path / "g.npz"
        buffer = io.BytesIO()
        np.save(buffer, np.eye(2))
        target.write_bytes(buffer.getvalue())
        fails("is not an npz archive .* got a single array", target)
        for junk in (pickle.dumps({"edge_index": 1}), b"junk", b"\x80\x04junk", b"PK\x03\x04junk"):
            target.write_bytes(junk)
            message = fails("g.npz: is not an npz archive", target)
            assert "pickle" not in message
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("edge_index.npy", "words")
        fails("archive is damaged|edge_index must be|Python objects", target)

    def test_write_round_trip(self, tmp_path):
        graph = Graph.from_edges(
            sp.csr_array(np.diag([1.5, 2, 3, 4])), [[0, 1], [1, 2]], labels=[0, 1, 0, 1], split=Split([0], [1], [2]),
            class_names=("a", "é", "unused"), node_ids=["x", "y", "z", "w"],
        )  # fmt: skip
        for original in (graph, graph.without_node(3), Graph.from_edges(np.zeros((4, 0), np.float32), [[0], [3]])):
            back = read_graph(write_graph(original, tmp_path / "g.npz"), name="graph")
            assert back.features.dtype == original.features.dtype
            assert (back.adjacency() != original.adjacency()).nnz == 0
            assert np.array_equal(back.absent, original.absent)
            assert back.num_classes == original.num_classes
            assert back.class_names == original.class_names
            assert back.split is None if original.split is None else back.split.sizes == original.split.sizes
            assert sp.issparse(back.features) == sp.issparse(original.features)
            assert abs(back.features - original.features).sum() == 0
        assert [entry.name for entry in tmp_path.iterdir()] == ["g.npz"]

    def test_write_is_atomic(self, tmp_path, monkeypatch):
        graph = Graph.from_edges(np.eye(2), [[0], [1]])
        write_graph(graph, tmp_path / "g.npz")
        before = (tmp_path / "g.npz").read_bytes()

        def full(*_, **__):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(np, "savez_compressed", full)
        with pytest.raises(DataError, match=r"g.npz: cannot be written \(No space left on device\)"):
            write_graph(graph, tmp_path / "g.npz")
        assert [entry.name for entry in tmp_path.iterdir()] == ["g.npz"]
        assert (tmp_path / "g.npz").read_bytes() == before
        with pytest.raises(DataError, match="must end in"):
            write_graph(graph, tmp_path / "g.csv")
        with pytest.raises(DataError, match="cannot be written"):
            write_graph(graph, tmp_path / "nowhere" / "g.npz")


class Bomb:
    """A pickle of this object creates a file when it is loaded without care."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (self.target,)


class TestSaved:
    def test_a_malicious_pickle_is_refused(self, tmp_path):
        import torch
        from torch_geometric.data import Data

        trap = str(tmp_path / "trap")
        bare = tmp_path / "bare.pt"
        bare.write_bytes(pickle.dumps(Bomb(trap)))
        torch.save(Bomb(trap), tmp_path / "plain.pt")
        torch.save(
            Data(x=torch.eye(3), edge_index=torch.zeros(2, 0, dtype=torch.long), y=Bomb(trap)), tmp_path / "in.pt"
        )
        torch.save({"x": Bomb(trap)}, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
        for file in ("bare.pt", "plain.pt", "in.pt", "legacy.pt"):
            fails(f"{file}: not a PyG Data that can be loaded safely", tmp_path / file)
            assert not os.path.exists(trap)
        pickle.loads(bare.read_bytes())
        assert os.path.exists(trap)  # the trap works where nobody takes care

    def test_messages_do_not_repeat_those_of_torch(self, tmp_path, valid_files):
        target = tmp_path / "g.pt"
        whole = valid_files["pt"][0].read_bytes()
        for junk in (b"junk", b"PK junk", b"\x80\x02junk", b"hello world\n" * 50, b"1", whole[:-30], whole[100:]):
            target.write_bytes(junk)
            message = fails("g.pt: not a PyG Data that can be loaded safely", target)
            assert message.endswith("; the file is damaged, or torch.save did not write it")
        target.write_bytes(pickle.dumps(Bomb(str(tmp_path / "trap"))))
        assert not any(word in fails("loaded safely", target) for word in ("Error", "weights_only", "pickle"))

    def test_only_the_classes_of_a_plain_data_are_allowed(self, tmp_path, valid_files):
        import torch
        from torch_geometric.data import HeteroData

        hetero = HeteroData()
        hetero["a"].x = torch.eye(2)
        torch.save(hetero, tmp_path / "h.pt")
        before = set(torch.serialization.get_safe_globals())
        fails("not a PyG Data that can be loaded safely .* got an object of .*HeteroData", tmp_path / "h.pt")
        read_graph(*valid_files["pt"])
        assert set(torch.serialization.get_safe_globals()) == before

    def test_other_contents(self, tmp_path):
        import torch
        from torch_geometric.data import Data

        target = tmp_path / "g.pt"
        empty = torch.zeros(2, 0, dtype=torch.long)
        for content, message in (
            ({"x": torch.eye(2)}, "must hold one torch_geometric.data.Data, got dict"),
            (torch.eye(2), "must hold one torch_geometric.data.Data, got Tensor"),
            (Data(edge_index=empty, num_nodes=2**31 - 2), "needs a dense x or a y"),
            (Data(edge_index=empty, x=torch.zeros(1).expand(10**9, 3)), "tensor x claims 3000000000 entries"),
            (Data(edge_index=empty, x=torch.sparse_coo_tensor(size=(10**9, 3))), "needs a dense x or a y"),
            (
                Data(edge_index=empty, y=torch.zeros(3), num_nodes=10**9),
                r"one entry per node \(1000000000\), got 3",
            ),
            (Data(edge_index=empty, x=torch.eye(2), y=torch.tensor([0.5, 1])), "whole numbers"),
            (Data(x=torch.eye(2)), "edge_index must be"),
            (Data(edge_index=empty, x=torch.eye(3, device="meta")), "damaged|claims"),
        ):
            torch.save(content, target)
            fails(message, target)


class TestGraphml:
    def write(self, folder, old="", new="", source=None):
        text = source.read_text()
        assert old in text
        (folder / "g.graphml").write_text(text.replace(old, new))
        return folder / "g.graphml"

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('<data key="d0">45</data>', "", "node 'bob': attribute 'age' is missing"),
            (
                '<data key="d2">blue</data>',
                "",
                "node 'bob': column 'label' must hold the label of a training node, got an empty value",
            ),
            (">45<", ">x<", "not a readable GraphML file"),
            (">1.75<", ">nan<", "node 'bob': column 'height' must hold .*numbers"),
            (">1.75<", ">inf<", "node 'bob': column 'height' must hold finite numbers, got inf"),
            ('"int"', '"string"', None),
            ('target="dan"', 'target="eve"', "got the unknown node 'eve' in 'cid'-'eve'"),
            ('<node id="dan">', '<node id="ann">', "node ids must be unique, got 'ann' again"),
            ('<node id="dan">', "<node>", "node elements must have an id"),
            (">test<", ">dev<", "node 'dan': column 'split' must be train, val or test, got 'dev'"),
            (">test<", ">val<", "split part test must hold at least one node"),
            ("</graphml>", "", "not a readable GraphML file"),
            ("UTF-8", "no-such-code", "not a readable GraphML file"),
        ],
    )
    def test_changed_files(self, valid_files, tmp_path, old, new, message):
        path = self.write(tmp_path, old, new, valid_files["graphml"][0])
        if message is None:
            assert read_graph(path).features[:, 0].tolist() == [31, 45, 28, 60]
        else:
            fails(message, path)

    def test_text_feature(self, valid_files, tmp_path):
        path = self.write(tmp_path, 'attr.name="label"', 'attr.name="colour"', valid_files["graphml"][0])
        fails("attribute 'colour' is missing", path)
        assert read_graph(path, label_column="colour").class_names == ("blue", "red")

    def test_no_entities(self, valid_files, tmp_path):
        laughs = '<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>\n<graphml'
        path = self.write(tmp_path, "<graphml", laughs, valid_files["graphml"][0])
        fails("a DOCTYPE is not allowed", path)
        path.write_bytes(path.read_text().replace("UTF-8", "UTF-16").encode("utf-16"))
        fails("a DOCTYPE is not allowed", path)

    def test_defaults_weights_and_empty_graphs(self, tmp_path):
        head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        path = tmp_path / "g.graphml"
        path.write_text(head + '<graph edgedefault="directed"></graph></graphml>')
        fails("must hold at least one node", path)
        path.write_text(
            head + '<key id="a" for="node" attr.name="f" attr.type="int"><default>7</default></key>'
            '<key id="w" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
            '<node id="1"/><node id="2"><data key="a">3</data></node>'
            '<edge source="1" target="2"><data key="w">0.5</data></edge></graph></graphml>'
        )
        with pytest.warns(UserWarning, match="attributes of edges are ignored"):
            graph = read_graph(path)
        assert graph.features.tolist() == [[7], [3]]
        assert graph.num_edges == 1
        path.write_text(head + '<graph edgedefault="directed"><node id="1"/><node id="2"/></graph></graphml>')
        assert read_graph(path).features.shape == (2, 0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("ann,31,a\nbob,45\ncid,28,a\n", "row 2 must have 3 cells, got 2"),
        ("ann,31,a\nbob,45,b,9\ncid,28,a\n", "row 2 must have 3 cells, got 4"),
        ('"ann",31,a\n"bo\nb",45,b\ncid,28\n', "must have 3 cells, got 2"),
    ],
)
def test_rows_of_another_length_are_refused(rows: str, message: str, tmp_path) -> None:
    """Filled up from the right, a short row would lose its label and gain a feature."""
    (tmp_path / "edges.csv").write_text("from,to\nann,cid\n")
    (tmp_path / "nodes.csv").write_text("id,age,label\n" + rows)
    with pytest.raises(DataError, match=message):
        read_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv")
