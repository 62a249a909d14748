"""Records: written whole, read with every defect named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from reproduction.pack import pack

from caribou.experiments.records import (
    FAILED,
    OK,
    Record,
    append,
    append_line,
    archive_of,
    latest,
    read,
    read_all,
    read_archive,
    read_lines,
    result_file,
)


def record(seed: int, status: str = OK, value: float = 0.5) -> Record:
    return Record("table", {"method": "mlp", "seed": seed}, status, {"test_accuracy": value}, created="now")


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    for seed in range(3):
        append(tmp_path, record(seed))
    assert read(tmp_path, "table") == ([record(0), record(1), record(2)], [])
    assert read_all(tmp_path) == ({"table": [record(0), record(1), record(2)]}, [])
    assert read(tmp_path, "nothing") == ([], [])


def test_what_is_left_of_a_last_line_stays_a_line_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "new" / "table.jsonl"
    assert (read_lines(file), read_archive(archive_of(file))) == ([], [])
    append_line(file, '{"a": 1}')
    with open(file, "ab") as stream:
        stream.write(b'{"half')
    append_line(file, '{"a": 2}')
    append_line(file, '{"a": 3}')
    assert read_lines(file) == [b'{"a": 1}', b'{"half', b'{"a": 2}', b'{"a": 3}', b""]


def test_packed_records_are_read_with_live_ones_of_which_the_live_count(tmp_path: Path) -> None:
    for seed in range(3):
        append(tmp_path, record(seed))
    pack(result_file(tmp_path, "table"))
    assert read(tmp_path, "table") == ([record(0), record(1), record(2)], [])
    append(tmp_path, record(1, OK, 0.9))
    append(tmp_path, record(2, FAILED))
    append(tmp_path, record(3))
    records, problems = read_all(tmp_path)
    assert not problems
    found = [(r.cell["seed"], r.status, r.measures["test_accuracy"]) for r in latest(records["table"])]
    assert found == [(0, OK, 0.5), (1, OK, 0.9), (2, OK, 0.5), (3, OK, 0.5)]


def test_damage_is_reported_and_skipped(tmp_path: Path) -> None:
    append(tmp_path, record(0))
    with open(result_file(tmp_path, "table"), "ab") as stream:
        stream.write(b'{"experiment": "table", "cell": {"me')  # killed in the middle of a line
    append(tmp_path, record(1))
    other = asdict(record(2)) | {"experiment": "figure"}
    for line in (b"[]", b"\xff\xfe", json.dumps(other).encode(), b'{"experiment": "table", "cell": 3, "status": "ok"}'):
        with open(result_file(tmp_path, "table"), "ab") as stream:
            stream.write(line + b"\n")
    records, problems = read(tmp_path, "table")
    assert records == [record(0), record(1)]
    assert [p.line for p in problems] == [2, 4, 5, 6, 7]
    assert all(p.file == "table.jsonl" and p.reason for p in problems)


def test_a_later_success_replaces_a_failure_and_not_the_reverse() -> None:
    found = latest([record(0, FAILED), record(1), record(0, OK, 0.7), record(1, FAILED), record(0, OK, 0.8)])
    assert [(r.cell["seed"], r.status, r.measures["test_accuracy"]) for r in found] == [(0, OK, 0.8), (1, OK, 0.5)]


def _write(folder: Path, start: int) -> None:
    for seed in range(start, start + 40):
        append(folder, record(seed))


def test_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    context = get_context("fork")
    workers = [context.Process(target=_write, args=(tmp_path, 100 * k)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    records, problems = read(tmp_path, "table")
    assert not problems
    assert sorted(r.cell["seed"] for r in records) == [100 * k + i for k in range(4) for i in range(40)]


WITHOUT = "import sys; sys.modules.update(fcntl=None, resource=None)\n"
"""As on Windows: importing them is an ImportError."""


def test_records_are_written_where_there_are_no_locks_and_no_memory_is_told(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\n"
        "from caribou.experiments.measures import measure\n"
        "from caribou.experiments.records import Record, append, read\n"
        "cell = {'kind': 'noise', 'epsilon': 4, 'contraction': 0.9, 'hops': 2, 'degree_floor': 5}\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "append(folder, Record('table', cell, 'ok', measure(cell, None)))\n"
        "(found,), problems = read(folder, 'table')\n"
        "sys.exit(problems or 'peak_mb' in found.measures or 'cpu_seconds' not in found.measures)"
    )
    assert subprocess.run([sys.executable, "-c", WITHOUT + code], timeout=120).returncode == 0
