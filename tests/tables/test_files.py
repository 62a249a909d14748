"""An edge table and a node table: what is read, and the message for each way in which they can be wrong."""

import numpy as np
import pandas as pd
import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError
from dataset_support import EDGES, NODES, fails, tables


class TestTables:
    def test_column_names_and_spelling(self, tmp_path):
        edges, nodes = tables(
            tmp_path, "w,a,b\n9,1,2\n9,2,3\n", "Who,kind,ID,part\n1,x,0.5,train\n2,y,1,valid\n3,x,2,TEST\n"
        )
        with pytest.warns(UserWarning, match="columns 'w' are not used"):
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
            r"zero.parquet: row 1: edges must join ids .* column 's' holds '01', .* such as '1': they differ in leading zeros",
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

        assert labels(["10", "9", "-2", "9"]) == (("-2", "9", "10"), [2, 1, 0, 1])
        assert labels(["1.0", "0", "0.0", "1"]) == (("0", "1"), [1, 0, 0, 1])
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
        assert read_graph(edges, tmp_path / "a.parquet").features.tolist() == [[0], [1], [1]]
        frame.set_index("id").to_parquet(tmp_path / "b.parquet")
        assert read_graph(edges, tmp_path / "b.parquet").node_ids.tolist() == [1, 2, 3]

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
            (b"a,b\n\xff\xfe,2\n", NODES, r"edges.csv: row 1: encoding must be UTF-8 or declared, got the byte 0xff .* --enc"),
            ("from,to\n1,2\n".encode("utf-16"), NODES, r"edges.csv: .* the first bytes of UTF-16; give --encoding utf-16"),
            (b"from,to\n\x00\xff1,2\n", NODES, r"edges.csv: not a readable CSV \(UTF-8\) table"),
            (b"", NODES, r"edges.csv: the file is empty"),
            (EDGES, b"", r"nodes.csv: the file is empty"),
            (EDGES, "id,age\n", r"nodes.csv: must hold at least one node, got a table without rows"),
            (EDGES, "age,label\n1,a\n", r"nodes.csv: needs a column 'id' or 'node' or 'node_id', found 'age', 'label'"),
            (EDGES, "id,age\n1,3\n2,x\n3,1\n", r"nodes.csv: row 2: column 'age' must hold numbers, got 'x'; give --unknown x"),
            (EDGES, "id,colour\n1,red\n2,blue\n3,red\n", r"label, give --column label=colour .*; give --category colour"),
            (EDGES, "id,fold,label\n1,train,a\n2,test,b\n3,val,a\n", r"if it is the split, give --column split=fold"),
            (EDGES, "id,colour,label\n1,red,a\n2,red,b\n3,red,a\n", r"got 'red' \(3 in all\); give --category colour"),
            (EDGES, NODES.replace("45", "old"), r"row 2: column 'age' must hold numbers, got 'old'; give --unknown old or"),
            (EDGES, "id,age\n7,3\n8,4\n", r"edges must join ids .*, got none that does: .* holds '1', .* such as '7'"),
            (EDGES, "id,age,f\n1,3,1\n2,,1\n3,1,1\n", r"row 2: column 'age' .* got an empty cell \(nan\); give --fill age"),
            (EDGES, "id,age\n1,3\n2,nan\n3,1\n", r"nodes.csv: row 2: column 'age' must hold numbers, got 'nan'"),
            (EDGES, "id,age\n1,3\n2,5\n3,-inf\n", r"nodes.csv: row 3: column 'age' must hold finite .* got -inf"),
            (EDGES, "id,age\n1,3\n2,5\n3,1e300\n", r"row 3: column 'age' must hold numbers of at most 3.4e\+38 in size, got 1e"),
            (EDGES, "id,age\n1,3\n2,5\n2,7\n", r"nodes.csv: row 3: column 'id' must hold unique ids, got '2' again"),
            (EDGES, "id,age\n1,3\n,5\n2,7\n", r"nodes.csv: row 2: column 'id' must hold an id, got an empty cell"),
            (EDGES, NODES.replace("val", "dev"), r"nodes.csv: row 2: column 'split' must be train, val or test, got 'dev'"),
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
            (
                {"id": [1, 2, 3], "f": ["1", None, "3"], "g": [1, 2, 3]},
                r"row 2: column 'f' must hold numbers, got an empty cell",
            ),
            ({"id": [1.0, 2.5, 3.0], "f": [1, 2, 3]}, r"row 2: column 'id' must hold text or whole numbers, got 2.5"),
            ({"id": [1, 2, 3], "label": [b"a", b"b", b"c"]}, r"row 1: column 'label' must hold text or whole"),
            ({"id": [1, 2, 3], "f": pd.to_datetime(["2020-01-01"] * 3)}, r"row 1: column 'f' must hold numbers"),
            ({"id": [1, 2, 3], "f": [1, np.inf, 3]}, r"row 2: column 'f' must hold finite numbers, got inf"),
        ):
            pd.DataFrame(frame).to_parquet(target)
            fails(message, edges, target)


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
