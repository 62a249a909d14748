"""Chains: the label of a whole chain is known at its first node only, so it takes as many hops as the chain is long."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from caribou.datasets.table import CHAINS, Chains
from caribou.errors import InputError
from caribou.graph import Graph

#: Training and validation are one sixth each: 8/8/32 of the 48 nodes of chain-s.
_FRACTIONS = (1 / 6, 1 / 6, 4 / 6)

_MAX_CHAINS = 1_000_000


def chain_spec(name: str) -> Chains:
    """The size behind a name like ``chain-s`` or ``chain-s:75`` (75 chains per class).

    >>> chain_spec("chain-s:75").nodes
    1200
    """
    base, colon, suffix = name.partition(":")
    spec = CHAINS[base]
    if not colon:
        return spec
    if not re.fullmatch(r"[0-9]{1,9}", suffix) or not 1 <= int(suffix) <= _MAX_CHAINS:
        raise InputError(
            f"the number of chains per class in {base}:<number> must be a whole number in [1, {_MAX_CHAINS}], "
            f"got {suffix!r}"
        )
    return replace(spec, name=name, chains=int(suffix))


def chain_graph(spec: Chains, seed: int) -> Graph:
    """Disjoint chains. The first node of each carries the one-hot class in the first columns, all else is zero.

    Every node has the class of its chain as its label; all nodes are divided at random by ``seed`` into 1/6 training,
    1/6 validation and 4/6 test nodes.
    """
    chains = spec.classes * spec.chains
    heads = np.arange(chains) * spec.length
    label_of_chain = np.repeat(np.arange(spec.classes), spec.chains)
    features = np.zeros((spec.nodes, spec.features), np.float32)
    features[heads, label_of_chain] = 1
    # Every node but the last of its chain is joined to the next one.
    first = np.delete(np.arange(spec.nodes), heads + spec.length - 1)
    graph = Graph.from_edges(
        features,
        np.stack([first, first + 1]),
        labels=np.repeat(label_of_chain, spec.length),
        name=spec.name,
        num_classes=spec.classes,
    )
    return graph.random_split(seed, _FRACTIONS)
