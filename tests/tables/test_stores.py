"""Places of tables: paths, object stores, and no secret in an address or a message."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from caribou.engines.pipeline import Request, release_files
from caribou.errors import DataError, InputError
from caribou.mechanisms.noise_source import RunKey
from caribou.privacy.budget import Budget
from caribou.tables.sources import stamp_of
from caribou.tables.stores import located, readable, without_secrets

SECRET = "s3cr3t-of-a-test"


def test_an_address_with_a_secret_is_refused_without_showing_it() -> None:
    for address in [
        f"s3://AKIA:{SECRET}@bank/edges",
        f"s3://{SECRET}@bank/edges.parquet",
        f"s3://bank/edges.parquet?secret_key={SECRET}",
        f"gs://bank/edges#{SECRET}",
        f"memory://bank/edges.csv?X-Amz-Signature={SECRET}",
    ]:
        with pytest.raises(InputError, match="in the environment") as refused:
            located(address)
        assert SECRET not in str(refused.value)
        assert refused.value.__cause__ is None
        assert "bank/edges" in str(refused.value)


def test_a_message_shows_no_secret_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(DataError) as refused, readable("s3://bank/x"):
        raise OSError(f"refused {SECRET} at http://ann:{SECRET}@host/x")
    assert str(refused.value) == "s3://bank/x: cannot be read: refused *** at http://***@host/x"
    assert without_secrets("a\n b") == "a b"


def test_schemes_that_nobody_knows_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"s3://, gs://, file:// or a scheme that fsspec knows, got carrier-pigeon://"):
        located("carrier-pigeon://a/b")
    with pytest.raises(InputError, match="needs a package that is not installed"):
        located("adl://store/x")
    with pytest.raises(InputError, match="absolute path"):
        located("file://edges.csv")
    with pytest.raises(InputError, match="name a bucket"):
        located("s3:///edges")
    (tmp_path / "x.csv").write_text("a,b\n")
    assert located(f"file://{tmp_path}/x.csv").kind() == "file"


def test_files_of_a_folder_are_in_order_without_hidden_ones(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    for name in ("b.csv", "a/2.csv", "a/10.csv", "_SUCCESS", ".part.csv", "_old/c.csv"):
        memory.pipe(f"/folder/{name}", b"x,y\n")
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x,y\n")
    for source in ("memory://folder", "memory://folder/", str(tmp_path)):
        found = [file.name.removeprefix(source.rstrip("/")) for file in located(source).files()]
        assert found == ["/a/10.csv", "/a/2.csv", "/b.csv"], source


def test_an_object_that_was_written_anew_has_another_stamp() -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/stamps/x.npy", b"1234")
    before = stamp_of("memory://stamps/x.npy")
    assert stamp_of("memory://stamps/x.npy") == before
    memory.pipe("/stamps/x.npy", b"1235")
    assert stamp_of("memory://stamps/x.npy") != before


# -- a server of S3 ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A server on the loopback, with a bucket, and credentials in the environment."""
    beside = Path(__file__).parents[2] / ".object-store" / "bin" / "moto_server"
    program = shutil.which("moto_server") or (str(beside) if beside.exists() else None)
    if program is None:
        pytest.skip("no server of S3 is installed (make object-store)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [program, "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "an-access-key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        try:
            _wait_for(port)
            put("bank")
            yield "s3://bank"
        finally:
            server.terminate()
            server.wait(10)


def _wait_for(port: int) -> None:
    for _ in range(300):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def put(key: str, file: Path | None = None) -> None:
    """Make a bucket, or an object of it."""
    content = b"" if file is None else file.read_bytes()
    address, headers = f"{os.environ['AWS_ENDPOINT_URL']}/{key}", {"Content-Type": "application/octet-stream"}
    request = urllib.request.Request(address, data=content, headers=headers, method="PUT")
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.status == 200


def test_a_release_from_s3_has_the_same_bytes(bucket: str, tmp_path: Path) -> None:
    """Of Parquet folders, CSV and plain arrays, and with nothing of the credentials in what is written."""
    rng = np.random.default_rng(0)
    pairs, x = rng.integers(0, 200, (900, 2)), rng.standard_normal((200, 3))
    np.save(tmp_path / "edges.npy", pairs)
    np.save(tmp_path / "x.npy", x)
    edges = pa.table({"source": pairs[:, 0], "target": pairs[:, 1]})
    nodes = pa.table({"id": np.arange(200), "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})
    for part, first in enumerate((0, 500)):
        pq.write_table(edges.slice(first, 500), tmp_path / f"{part}.parquet")
        put(f"bank/edges/{part}.parquet", tmp_path / f"{part}.parquet")
    pq.write_table(nodes, tmp_path / "nodes.parquet")
    csv.write_csv(edges, tmp_path / "edges.csv")
    csv.write_csv(nodes, tmp_path / "nodes.csv")
    for name in ("nodes.parquet", "edges.csv", "nodes.csv", "edges.npy", "x.npy"):
        put(f"bank/{name}", tmp_path / name)
    sources = {
        "here": (tmp_path / "edges.npy", tmp_path / "x.npy"),
        "parquet": (f"{bucket}/edges", f"{bucket}/nodes.parquet"),
        "csv": (f"{bucket}/edges.csv", f"{bucket}/nodes.csv"),
        "npy": (f"{bucket}/edges.npy", f"{bucket}/x.npy"),
    }
    found = {}
    for name, (e, f) in sources.items():
        request = Request(e, f, tmp_path / f"{name}.parquet", Budget(4.0, 1e-6), 2, degree_floor=10)
        release_files(request, new_key=lambda: RunKey.seeded(3))
        found[name] = request.out.read_bytes()
        assert SECRET not in request.certificate_path.read_text()
        assert SECRET not in str(request.identity())
    assert set(found.values()) == {found["here"]}
    assert [info[3] is not None for info in stamp_of(f"{bucket}/edges")] == [True, True], "entity tags"


def test_errors_of_s3_name_the_object_and_no_secret(bucket: str) -> None:
    for address in (f"{bucket}/none.parquet", f"{bucket}/none", "s3://nobody/x.csv"):
        with pytest.raises(DataError, match=address) as refused:
            stamp_of(address)
        assert SECRET not in str(refused.value)
        assert os.environ["AWS_ACCESS_KEY_ID"] not in str(refused.value)
