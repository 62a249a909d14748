"""Trains on the Ray that its host is part of; a program of its own, for `test_ray`.

python training_on_hosts.py ADDRESS

It says "asked" once the host with this address has been asked for a part of a pass, waits for a line, and goes on. At the end it
says "same" if the result is that of training in memory; or which option is refused.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import caribou as cb
from caribou.engines import preparation
from caribou.engines.ray import Member, Workers
from caribou.engines.training_tables import TrainingTables, training_graph
from caribou.errors import InputError
from caribou.graph.blocked import BlockedGraph
from engines_support import folder_of_arrays, released, tables_in


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(doomed: str) -> None:
    import ray

    def address_of(member: Member) -> str:
        return str(ray._private.state.actors(member.actor._actor_id.hex())["Address"]["IPAddress"])

    ask, asked = Workers.ask, set[str]()

    def told(these: Workers, member: Member, *rest: Any) -> Any:
        reference = ask(these, member, *rest)
        address = address_of(member)
        if address == doomed and doomed not in asked:
            say("asked")
            sys.stdin.readline()
        asked.add(address)
        return reference

    Workers.ask = told  # type: ignore[method-assign]
    preparation.MAX_SHIFT = 10  # five blocks: the third host is asked, too
    folder = Path(tempfile.mkdtemp(dir="/tmp/ray"))
    arrays = folder_of_arrays(tables_in(folder))
    given = TrainingTables(arrays / "edges.npy", arrays, "ray", workers=3, address="auto", name="arrays", work=folder)
    try:
        with training_graph(given) as graph:
            assert isinstance(graph, BlockedGraph)
            ray.get([member.actor.ready.remote() for member in graph._store.workers.members], timeout=120)
            found = released(graph)
    except InputError as error:
        say(str(error.field))
        return
    assert len(asked) == 3, "every host takes part"
    say("same" if found == released(cb.read_graph(arrays)) else "other")


if __name__ == "__main__":
    main(sys.argv[1])
