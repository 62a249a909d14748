"""The file of the ledger: append-only, chained, private, and what survives accidents."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sqlite3
import stat
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from caribou.errors import BudgetExceeded, LedgerError
from caribou.privacy import ledger as ledger_module
from caribou.privacy.budget import Budget
from caribou.privacy.ledger import Ledger
from caribou.privacy.ledger_file import SCHEMA_VERSION, LedgerFile, Transaction
from ledger_support import NOON, pure, run, start


def sql(path: Path, *statements: str, triggers: bool = True) -> None:
    """Edit the file behind the ledger's back."""
    with closing(sqlite3.connect(path)) as connection:
        if not triggers:
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for (name,) in names:
                connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


class TestAppendOnly:
    @pytest.fixture
    def filled(self, ledger: Ledger) -> Ledger:
        ledger.set_budget("survey", Budget(9))
        for word in ("one", "two", "three"):
            ledger.charge("survey", "edge", pure(1), description=word, certificate_id=word)
        ledger.set_budget("survey", Budget(8))
        assert ledger.check() == ()
        return ledger

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM entries WHERE id = 2",
            "UPDATE entries SET record = '[]' WHERE id = 2",
            "UPDATE entries SET hash = 'x', status = 'failed'",
            "UPDATE entries SET id = 9 WHERE id = 1",
            "UPDATE entries SET rowid = 9 WHERE id = 1",
            "UPDATE OR REPLACE entries SET rowid = 1 WHERE id = 2",
            "INSERT OR REPLACE INTO entries SELECT id, '[]', hash, status FROM entries WHERE id = 2",
            "UPDATE entries SET status = 'refunded'",
        ],
    )
    def test_sql_cannot_change_entries(self, filled: Ledger, statement: str) -> None:
        before = filled.entries(), filled.history("survey")
        with pytest.raises(sqlite3.IntegrityError):
            sql(filled.path, statement)
        assert (filled.entries(), filled.history("survey")) == before
        assert filled.check() == ()

    @pytest.mark.parametrize(
        ("statement", "finding"),
        [
            ("DELETE FROM entries WHERE id = 1", "entry 1 was edited, or an entry before it"),
            ("DELETE FROM entries WHERE id = 5", "end of the chain was edited (4 entries found, 5 recorded)"),
            ("DELETE FROM entries", "end of the chain was edited (0 entries found, 5 recorded)"),
            ("UPDATE entries SET record = replace(record, '1', '0') WHERE id = 3", "entry 3 was edited"),
            ("UPDATE entries SET record = replace(record, '8', '80') WHERE id = 5", "entry 5 was edited"),
            ("UPDATE entries SET record = CAST(x'ff00' AS TEXT) WHERE id = 2", "entry 2 was edited"),
            ("UPDATE entries SET record = 7 WHERE id = 2", "entry 2 was edited"),
            ("UPDATE entries SET hash = zeroblob(32) WHERE id = 1", "entry 1 was edited"),
            ("UPDATE entries SET id = 9 WHERE id = 5", "entry 5 was edited"),
            ("DELETE FROM head", "an unknown number of recorded"),
            ("INSERT INTO head SELECT * FROM head", "an unknown number of recorded"),
            ("UPDATE head SET entries = 7, hash = 'x'", "end of the chain was edited"),
            ("UPDATE secret SET key = zeroblob(32)", "entry 1 was edited"),
        ],
    )
    def test_chain_finds_edits_without_triggers(self, filled: Ledger, statement: str, finding: str) -> None:
        sql(filled.path, statement, triggers=False)
        damaged = Ledger(filled.path)
        assert any(finding in problem for problem in damaged.check()), damaged.check()
        # A decision is never based on edited records, and nothing is added to them.
        with pytest.raises(LedgerError, match="chain of records is broken"):
            damaged.charge("survey", "edge", pure(1), description="four")
        with pytest.raises(LedgerError, match="chain of records is broken"):
            damaged.set_budget("survey", Budget(10))
        # Nor is a number shown that rests on them.
        for ask in (
            damaged.datasets,
            lambda: damaged.total("survey", "edge"),
            lambda: damaged.cumulative("survey", "edge"),
        ):
            with pytest.raises(LedgerError, match="chain of records is broken"):
                ask()

    @pytest.mark.parametrize(
        "planted",
        [
            "CREATE TRIGGER planted BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TRIGGER planted AFTER INSERT ON entries BEGIN UPDATE entries SET status = 'failed'; END",
            "CREATE TRIGGER planted BEFORE UPDATE ON head BEGIN SELECT RAISE(IGNORE); END",
            "CREATE TABLE planted (id)",
            "CREATE INDEX planted ON entries (hash)",
            "CREATE VIEW planted AS SELECT 1",
            "DROP TRIGGER entries_delete",
        ],
    )
    @pytest.mark.parametrize("seen", [True, False])
    def test_what_is_planted_in_the_file_swallows_nothing(
        self, filled: Ledger, planted: str, seen: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two guards: the schema is compared, and an entry is read back before it counts as written."""
        before = filled.entries()
        sql(filled.path, planted)
        (finding,) = filled.check()
        assert planted.split()[2] in finding
        if not seen:
            monkeypatch.setattr(Transaction, "_foreign", lambda _: [])
        if seen or "INSERT" in planted or "head" in planted:
            with pytest.raises(LedgerError, match="chain of records is broken" if seen else "cannot be read back"):
                filled.charge("survey", "edge", pure(1), description="four")
            assert filled.entries() == before

    def test_flipped_bits_end_in_one_clear_error(self, filled: Ledger) -> None:
        """Wherever they are: what was recorded is read as it was, or the ledger says that it is damaged."""
        content, before = filled.path.read_bytes(), filled.entries()
        pages, entries = len(content) // 4096, content.index(b"survey")
        places = {
            *range(100),
            *range(entries - 60, entries + 240, 3),
            *(4096 * k + j for k in range(pages) for j in range(0, 16, 3)),
        }
        schema = content.index(b"CREATE")
        places |= {*range(schema - 40, schema + 400, 7), *range(37, len(content), 397)}
        refused = 0
        for turn, place in enumerate(sorted(places)):
            flipped = bytearray(content)
            flipped[place] ^= (0x80, 0xFF, 0x01)[turn % 3]
            filled.path.write_bytes(flipped)
            try:
                ledger = Ledger(filled.path)
                ledger.check()
                ledger.datasets()
                assert ledger.entries() == before
            except LedgerError:
                refused += 1
        assert refused > 100
        filled.path.write_bytes(content)
        assert filled.check() == ()

    def test_unreadable_entry_is_a_ledger_error(self, filled: Ledger) -> None:
        sql(filled.path, "UPDATE entries SET record = '{' WHERE id = 2", triggers=False)
        with pytest.raises(LedgerError, match="an entry cannot be read"):
            filled.entries()

    def test_key_is_in_no_answer(self, filled: Ledger) -> None:
        with closing(sqlite3.connect(filled.path)) as connection:
            (key,) = connection.execute("SELECT key FROM secret").fetchone()
        shown = repr([filled, filled.entries(), filled.datasets(), filled.history("survey"), filled.check()])
        assert len(key) == 32
        assert key.hex() not in shown
        assert repr(key) not in shown


class TestFile:
    def test_is_private_and_leaves_nothing_beside_it(self, ledger: Ledger, path: Path) -> None:
        ledger.charge("survey", "edge", pure(1), description="one")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(path.parent) == [path.name]
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)

    def test_file_name_with_characters_of_an_address(self, tmp_path: Path, basic: None) -> None:
        odd = tmp_path / "a?b#c%20d é.sqlite"
        Ledger(odd).charge("survey", "edge", pure(1), description="one")
        assert os.listdir(tmp_path) == [odd.name]
        assert len(Ledger(str(odd)).entries()) == 1

    def test_without_create_nothing_is_made(self, path: Path) -> None:
        with pytest.raises(LedgerError, match="does not exist"):
            Ledger(path, create=False)
        assert os.listdir(path.parent) == []

    def test_places_that_cannot_be_a_ledger(self, tmp_path: Path) -> None:
        with pytest.raises(LedgerError, match="is a folder"):
            Ledger(tmp_path)
        with pytest.raises(LedgerError, match="folder does not exist"):
            Ledger(tmp_path / "no" / "ledger.sqlite")
        (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
        with pytest.raises(LedgerError, match="No such file"):
            Ledger(tmp_path / "dangling")
        with pytest.raises(LedgerError, match="name too long"):
            Ledger(tmp_path / ("x" * 300))
        assert os.listdir(tmp_path) == ["dangling"]

    @pytest.mark.parametrize("content", [b"", b"name,epsilon\nsurvey,1\n" * 100, b"x", b"SQLite format 3\0"])
    def test_other_files_are_refused_and_left_alone(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(LedgerError, match="ledger"):
            Ledger(path)
        assert path.read_bytes() == content
        assert os.listdir(path.parent) == [path.name]

    def test_other_database_is_refused(self, path: Path) -> None:
        sql(path, "CREATE TABLE releases (id)")
        with pytest.raises(LedgerError, match="is a database but not a ledger"):
            Ledger(path)

    @pytest.mark.parametrize("version", [0, 1, SCHEMA_VERSION + 1])
    def test_another_schema_is_refused(self, ledger: Ledger, path: Path, version: int) -> None:
        sql(path, f"PRAGMA user_version = {version}")
        with pytest.raises(LedgerError, match=rf"schema version must be 3, got {version}(; update caribou)?$"):
            Ledger(path)
        with pytest.raises(LedgerError, match=f"got {version}"):
            ledger.charge("survey", "edge", pure(1), description="one")

    def test_ledger_without_key_is_refused(self, ledger: Ledger, path: Path) -> None:
        sql(path, "DELETE FROM secret")
        with pytest.raises(LedgerError, match="exactly one key"):
            Ledger(path)

    @pytest.mark.parametrize("size", [0, 50, 4096, 5000, -1])
    def test_truncated_file(self, ledger: Ledger, path: Path, size: int) -> None:
        for _ in range(40):
            ledger.charge("survey", "edge", pure(1), description="x" * 400)
        os.truncate(path, size if size >= 0 else path.stat().st_size // 2)
        content = path.read_bytes()
        with pytest.raises(LedgerError):
            Ledger(path).charge("survey", "edge", pure(1), description="one")
        with pytest.raises(LedgerError):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert path.read_bytes() == content

    def test_vanished_file_is_not_made_anew(self, ledger: Ledger, path: Path) -> None:
        path.unlink()
        with pytest.raises(LedgerError, match="cannot be opened"):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert not path.exists()

    def test_folder_without_hard_links(self, path: Path, basic: None, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError("no hard links here")

        monkeypatch.setattr(os, "link", refuse)
        Ledger(path).charge("survey", "edge", pure(1), description="one")
        assert len(Ledger(path).entries()) == 1
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.listdir(path.parent) == [path.name]

    def test_wal_set_by_another_tool_is_undone(self, ledger: Ledger, path: Path) -> None:
        sql(path, "PRAGMA journal_mode = WAL")
        ledger.charge("survey", "edge", pure(1), description="one")
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert os.listdir(path.parent) == [path.name]

    def test_commits_are_synced_including_the_folder(self, ledger: Ledger, path: Path) -> None:
        extra = 3
        with closing(ledger._file._connect(path)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (extra,)

    def test_full_disk_leaves_nothing_half_written(
        self, ledger: Ledger, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Crowded(LedgerFile):
            def _connect(self, path: Path) -> sqlite3.Connection:
                connection = super()._connect(path)
                (pages,) = connection.execute("PRAGMA page_count").fetchone()
                connection.execute(f"PRAGMA max_page_count = {max(pages, 1)}")
                return connection

        monkeypatch.setattr(ledger_module, "LedgerFile", Crowded)
        crowded = Ledger(path, clock=lambda: NOON)

        def fill() -> None:
            for _ in range(200):
                crowded.charge("survey", "edge", pure(1), description="x" * 400, fingerprints=["2:" + "a" * 64])

        with pytest.raises(LedgerError, match="disk is full, nothing was recorded"):
            fill()
        recorded = len(ledger.entries())
        assert ledger.check() == ()
        assert ledger.charge("survey", "edge", pure(1), description="space again").id == recorded + 1
        with pytest.raises(LedgerError, match="disk is full"):
            Ledger(path.with_name("new.sqlite"))
        assert os.listdir(path.parent) == [path.name]

    def test_permissions(self, basic: None) -> None:
        """Read-only: can be read, not written. Unreadable: cannot be opened. Run as somebody without privileges."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ledger.sqlite"
            Ledger(path).charge("survey", "edge", pure(1), description="one")
            secret = Path(folder) / "secret.sqlite"
            Ledger(secret)
            path.chmod(0o444)
            secret.chmod(0)
            Path(folder).chmod(0o555)
            content = path.read_bytes()
            output = run(
                """
                import caribou.privacy.accounting
                if os.getuid() == 0:
                    os.setgid(65534); os.setuid(65534)
                path, secret, new = sys.argv[1:]
                ledger = Ledger(path)
                say(len(ledger.entries()), ledger.check())
                for action in (
                    lambda: ledger.charge("survey", "edge", [EpsilonDelta(1.0)], description="two"),
                    lambda: ledger.set_budget("survey", Budget(4)),
                    lambda: ledger.annotate(1, "failed"),
                    lambda: Ledger(secret),
                    lambda: Ledger(new),
                ):
                    try:
                        action()
                    except LedgerError as error:
                        say(str(error).split(": ", 1)[1].split(" [")[0])
                """,
                path,
                secret,
                Path(folder) / "new.sqlite",
            )
            Path(folder).chmod(0o755)
            assert path.read_bytes() == content
            assert sorted(os.listdir(folder)) == ["ledger.sqlite", "secret.sqlite"]
        read_only = "is read-only, nothing was recorded"
        assert output == ["1 ()", read_only, read_only, read_only, "cannot be opened", "Permission denied"]


class TestProcesses:
    def test_eight_processes_lose_nothing_and_never_overrun(self, path: Path, basic: None) -> None:
        """8 x 10 attempts at 1/64 each under a budget of 1, from creating the file on: exactly 64 succeed.

        delta is so small that epsilons just add up.
        """
        together = time.time() + 1.5
        workers = [
            start(
                """
                time.sleep(max(0, float(sys.argv[3]) - time.time()))
                ledger = Ledger(sys.argv[1])
                ledger.set_budget("survey", Budget(1, delta=1e-300))
                for turn in range(10):
                    try:
                        charge = ledger.charge("survey", "edge", [EpsilonDelta(1 / 64)], description=sys.argv[2])
                    except BudgetExceeded:
                        say("refused")
                    else:
                        say(charge.id, charge.epsilon_total)
                """,
                path,
                f"worker {worker}",
                together,
            )
            for worker in range(8)
        ]
        lines: list[str] = []
        for worker in workers:
            output, errors = worker.communicate(timeout=60)
            assert worker.returncode == 0, errors
            lines += output.splitlines()
        entries = sorted(tuple(map(float, line.split())) for line in lines if line != "refused")
        assert entries == [(k, k / 64) for k in range(1, 65)]
        assert len(lines) == 80
        ledger = Ledger(path)
        assert [r.epsilon_total for r in ledger.entries()] == [k / 64 for k in range(1, 65)]
        assert ledger.total("survey", "edge").epsilon_left == 0
        assert len(ledger.history("survey")) == 1
        assert ledger.check() == ()
        assert os.listdir(path.parent) == [path.name]

    def test_threads_share_one_ledger(self, ledger: Ledger) -> None:
        ledger.set_budget("survey", Budget(1))
        refused: list[BudgetExceeded] = []

        def work() -> None:
            for _ in range(5):
                try:
                    ledger.charge("survey", "edge", pure(1 / 16), description="one")
                except BudgetExceeded as error:
                    refused.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(ledger.entries()), len(refused)) == (16, 4)
        assert ledger.check() == ()

    def test_killed_after_part_of_the_transaction_reached_the_disk(self, ledger: Ledger, path: Path) -> None:
        """The cache of one page forces half-done pages into the file; the journal that is left behind undoes them."""
        for _ in range(5):
            ledger.charge("survey", "edge", pure(1), description="x" * 400)
        before, releases = path.read_bytes(), ledger.entries()
        run(
            """
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("PRAGMA cache_size = 1")
            connection.execute("BEGIN IMMEDIATE")
            for number in range(200):
                connection.execute("INSERT INTO entries (record, hash, status) VALUES (?, 'x', 'spent')", ("y" * 400,))
            os.kill(os.getpid(), signal.SIGKILL)
            """,
            path,
            code=-signal.SIGKILL,
        )
        assert path.read_bytes() != before
        assert path.with_name(path.name + "-journal").exists()
        assert Ledger(path).entries() == releases
        assert Ledger(path).check() == ()
        assert ledger.charge("survey", "edge", pure(1), description="next").id == 6
        assert os.listdir(path.parent) == [path.name]

    def test_lock_held_too_long(self, ledger: Ledger, path: Path, basic: None) -> None:
        patient = Ledger(path, busy_timeout=0.2)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(LedgerError, match=r"another process has held it for more than 0\.2 s"):
                patient.charge("survey", "edge", pure(1), description="one")
            with pytest.raises(LedgerError, match="another process"):
                patient.entries()
        assert patient.charge("survey", "edge", pure(1), description="one").id == 1

    def test_reader_that_does_not_let_go(self, ledger: Ledger, path: Path) -> None:
        """The commit itself has to wait for readers; when it gives up nothing is recorded."""
        patient = Ledger(path, busy_timeout=0.2)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM entries").fetchone()
            with pytest.raises(LedgerError, match="another process"):
                patient.charge("survey", "edge", pure(1), description="one")
        assert ledger.entries() == ()
        assert ledger.check() == ()


class TestAttacks:
    """Two writers, one of them killed, late, deceived or without room: no entry is lost and no budget is exceeded."""

    def test_an_older_copy_under_an_open_ledger_is_found(self, ledger: Ledger, path: Path) -> None:
        ledger.set_budget("survey", Budget(1))
        older = path.read_bytes()
        ledger.charge("survey", "edge", pure(1), description="all of it")
        newer = path.read_bytes()
        path.write_bytes(older)
        for _ in range(2):  # a finding is no reason to forget what was there
            assert any("older copy" in problem for problem in ledger.check())
            with pytest.raises(LedgerError, match=r"older copy was put in its place \(1 of 2 entries"):
                ledger.charge("survey", "edge", pure(1), description="again")
        Ledger(path).charge("survey", "edge", pure(0.5), description="a branch")  # who opens it now cannot know
        with pytest.raises(LedgerError, match="entry 2 is not the one that was there before"):
            ledger.charge("survey", "edge", pure(0.25), description="again")
        path.write_bytes(newer)
        assert ledger.check() == ()
        with pytest.raises(BudgetExceeded):
            ledger.charge("survey", "edge", pure(1), description="again")

    def test_another_ledger_under_an_open_one_is_found(self, ledger: Ledger, path: Path) -> None:
        ledger.set_budget("survey", Budget(1))
        fresh = Ledger(path.with_name("fresh.sqlite"))
        os.replace(fresh.path, path)
        with pytest.raises(LedgerError, match="chain of records is broken"):
            ledger.charge("survey", "edge", pure(1), description="one")
        assert Ledger(path).entries() == ()

    @pytest.mark.parametrize("exchange", ["replaced", "removed"])
    def test_a_file_that_is_exchanged_while_it_is_written_is_an_error(
        self, ledger: Ledger, path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The entry goes into a file that nobody opens again: nothing may be released on the strength of it."""
        other = path.with_name("other.sqlite")
        other.write_bytes(path.read_bytes())
        original = Transaction.append

        def exchanged(self: Transaction, *arguments: Any, **fields: Any) -> int:
            identity = original(self, *arguments, **fields)
            if exchange == "replaced":
                os.replace(other, path)
            else:
                path.unlink()
            return identity

        monkeypatch.setattr(Transaction, "append", exchanged)
        with pytest.raises(LedgerError, match="was replaced while it was written"):
            ledger.charge("survey", "edge", pure(1), description="one")

    def test_a_file_that_must_not_grow_keeps_what_it_has(self, ledger: Ledger, path: Path) -> None:
        """As on a full disk: writing fails at some point inside the transaction, wherever that is."""
        ledger.set_budget("survey", Budget(40, delta=1e-300))  # epsilons just add up
        for _ in range(20):
            ledger.charge("survey", "edge", pure(0.125), description="x" * 400)
        size, context = path.stat().st_size, multiprocessing.get_context("fork")
        results = context.Queue()

        def fill(limit: int) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            charged = 0
            try:
                for _ in range(200):
                    Ledger(path, clock=lambda: NOON).charge("survey", "edge", pure(0.125), description="x" * 400)
                    charged += 1
            except LedgerError:
                results.put(charged)

        recorded = 20
        for limit in (512, 4096, size, size + 4096, size + 20_000):
            writer = context.Process(target=fill, args=(limit,))
            writer.start()
            recorded += results.get(timeout=30)
            writer.join(30)
            assert len(ledger.entries()) == recorded
            assert ledger.check() == ()
        assert recorded > 20
        assert (
            ledger.charge("survey", "edge", pure(0.125), description="room again").epsilon_total == (recorded + 1) / 8
        )
