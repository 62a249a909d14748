"""Shared by the tests of readers: two small tables, and the error that a file must give."""

import pytest

from caribou.datasets import read_graph
from caribou.errors import DataError

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
