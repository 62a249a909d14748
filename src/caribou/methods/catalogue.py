"""The methods by name, with every fact about each in one place: `METHODS`.

A family (votes, gap, ...) with a privacy unit is a method; `resolve` finds its full name. Classes are imported when one is
created, so that a list of methods loads no torch.

>>> resolve("votes"), resolve("votes", "node"), resolve("mlp", "node"), resolve("gap-ndp")
('votes-edp', 'votes-ndp', 'mlp-dp', 'gap-ndp')
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caribou.errors import InputError, needs_training
from caribou.machine.deferred import load_deferred
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.pair_response import PairResponse, asymmetric_response, laplace_threshold_response

if TYPE_CHECKING:
    from caribou.methods.base import Method

Space = Mapping[str, Sequence[Any]]
"""The values worth trying, by setting."""


def require_unit(budget: Budget, unit: PrivacyUnit, method: str) -> None:
    """One clear error for a budget of the wrong unit."""
    if budget.unit is not unit:
        raise InputError(f"unit must be {unit.value} for {method}, got {budget.unit.value}")


@dataclass(frozen=True)
class Family:
    """Methods that share an idea, and how figures show them.

    Args:
        name: without a privacy unit.
        colour, dark_colour: on a light and on a dark ground.
        marker: a letter of Matplotlib, which `charts.js` knows, too.
    """

    name: str
    colour: str
    dark_colour: str
    marker: str


@dataclass(frozen=True)
class MethodInfo:
    """A method by name: its privacy unit, where its class lives, and every other fact about it that a table would hold.

    Args:
        unit: what it protects.
        home: module and class.
        summary: what it is, in words.
        family: the idea; None for a method of one's own.
        private: False: it protects nothing and takes an infinite epsilon only.
        transductive: it predicts no other graph.
        data_independent: it reads nothing that is protected at its unit, so it spends nothing and is the same at every epsilon.
        engines: those that it can be trained on from files; none: it needs its edges in memory.
        noise: what a whole release with default settings is: "gaussian" (mu-GDP) or "pure"; None: it has no curve in closed form.
        controls: settings of its message passing that the planner can move.
        space: what `caribou.model.tuning.tune` tries. Public: written before any data is seen.
        edge_release: what it releases of the edges, if it may leave them alone: then a fit that read none lacks it.
        declared: settings that must be declared before such a method reads an edge.
        embeddings: it releases the last state X^(K) of message passing.
        grows: it asks every pair once, so a fit can be extended by new nodes.
        response: how it turns a noisy edge count into the probabilities of a perturbed graph.
        own: the class itself, of a method that was registered.
    """

    unit: PrivacyUnit
    home: str
    summary: str
    family: Family | None = None
    private: bool = True
    transductive: bool = False
    data_independent: bool = False
    engines: tuple[str, ...] = ()
    noise: str | None = None
    controls: tuple[str, ...] = ()
    space: Space = field(default_factory=dict)
    edge_release: str | None = None
    declared: tuple[str, ...] = ()
    embeddings: bool = False
    grows: bool = False
    response: Callable[..., PairResponse] | None = None
    own: type | None = None

    def check(self, name: str, budget: Budget) -> None:
        """The budget must be of this method's unit, and infinite if it has no privacy."""
        require_unit(budget, self.unit, name)
        if not self.private and budget.is_private:
            raise InputError(f"epsilon must be inf for {name}, which is not private, got {budget.epsilon:g}")

    def check_engine(self, name: str, engine: str) -> None:
        """The engine must be one that the method can be trained on."""
        if engine in self.engines:
            return
        if self.engines:
            raise InputError(f"engine must be one of {', '.join(self.engines)} for {name}, got {engine!r} (--engine)")
        able = names_of(lambda info: engine in info.engines)
        raise InputError(
            f"method must read edges block by block to be trained on an engine ({', '.join(able)}), got {name}, which holds its "
            "graph in memory: give --graph EDGES --nodes NODES without --engine"
        )

    def create(self, **settings: Any) -> Method:
        """The method with these settings, and all that it needs for a fit."""
        recipe = self.recipe(**settings)
        with needs_training("training"):
            load_deferred()
        return recipe

    def recipe(self, **settings: Any) -> Method:
        """The method with these settings, to be planned: that needs no numerical library.

        An unknown setting is an error that lists the known ones.
        """
        known = self.settings()
        unknown = sorted(set(settings) - set(known))
        if unknown:
            raise InputError(f"setting must be one of {', '.join(known)}, got {', '.join(unknown)}")
        method: Method = self.made_by(**settings)
        return method

    @property
    def made_by(self) -> Any:
        """The class that makes the method."""
        module, name = self.home.split(":")
        return self.own or getattr(importlib.import_module(module), name)

    def settings(self) -> list[str]:
        """The names of its settings."""
        return [f.name for f in fields(self.made_by)]

    def is_made_by(self, cls: type) -> bool:
        """Whether this very class makes the method. One of another name, or a subclass, is somebody's own code."""
        if self.own is not None:
            return cls is self.own
        module, name = self.home.split(":")
        return cls is getattr(sys.modules.get(module), name, None)  # a module that nobody has imported made nothing


VOTES = Family("votes", "#1269eb", "#699ceb", "o")
CARIBOU = Family("caribou", "#d87c0b", "#f69929", "s")
GAP = Family("gap", "#132d23", "#9afdca", "^")
SAGE = Family("sage", "#4405c0", "#8453f6", "D")
DPDGC = Family("dpdgc", "#4b4622", "#9c6a00", "v")
LAPGRAPH = Family("lapgraph", "#7e016c", "#d9208f", "P")
LPGNET = Family("lpgnet", "#1da0bd", "#4dcfe8", "X")
PROGAP = Family("progap", "#316e0a", "#ebfd07", "<")
MLP = Family("mlp", "#6b7280", "#a8a29e", "x")
FAMILIES = {each.name: each for each in (VOTES, CARIBOU, GAP, SAGE, DPDGC, LAPGRAPH, LPGNET, PROGAP, MLP)}
"""Colours of a ground are at least 8 apart for every reader (tests/pages/test_palette.py)."""

EDGE, NODE = PrivacyUnit.EDGE, PrivacyUnit.NODE
BLOCK_ENGINES = ("local", "outofcore", "ray")
"""For methods that read edges block by block alone (`Graph.map_rows`)."""
DEGREES = ("degree_cap", "declared_degree")
LAYER = ("hops", "contraction", "alpha1", "degree_floor")

METHODS = {
    "caribou-edp": MethodInfo(
        EDGE,
        "caribou.methods.caribou:Caribou",
        "the paper's CARIBOU: encoder, perturbed contractive message passing, classification module",
        CARIBOU,
        engines=BLOCK_ENGINES,
        noise="gaussian",
        controls=LAYER,
        space={"hops": [1, 2, 5], "contraction": [0.7, 0.9], "beta": [0.1, 1.0]},
        embeddings=True,
    ),
    "caribou-inf": MethodInfo(
        EDGE,
        "caribou.methods.caribou:Caribou",
        "the same without noise: a yardstick",
        CARIBOU,
        private=False,
        engines=BLOCK_ENGINES,
        space={"hops": [2, 4, 8, 15], "beta": [0.1, 1.0], "degree_floor": [2, 10]},
        embeddings=True,
    ),
    "caribou-ndp": MethodInfo(
        NODE,
        "caribou.methods.caribou:CaribouNdp",
        "the paper's CARIBOU with every part private; it always reads the graph",
        CARIBOU,
        noise="gaussian",
        controls=(*LAYER, *DEGREES),
        space={"graph_share": [0.05, 0.1, 0.3], "hops": [1, 2], "beta": [0.1, 1.0]},
        embeddings=True,
    ),
    "votes-edp": MethodInfo(
        EDGE,
        "caribou.methods.votes:VotesEdge",
        "votes in rounds, every pair of nodes asked once",
        VOTES,
        engines=BLOCK_ENGINES,
        noise="pure",
        space={"voter_confidence": [0.9, 0.97], "round_confidence": [0.3, 0.5], "calibration": [0.3, 0.5]},
        grows=True,
    ),
    "votes-ndp": MethodInfo(
        NODE,
        "caribou.methods.votes:VotesNdp",
        "a private linear model, with votes where they pay",
        VOTES,
        noise="gaussian",
        controls=("declared_degree",),
        space={"declared_average_degree": [4, 20, 60], "declared_degree": [100]},
        edge_release="votes",
        declared=("declared_degree", "declared_average_degree"),
    ),
    "sage-edp": MethodInfo(
        EDGE,
        "caribou.methods.sage:SageEdge",
        "GraphSAGE on a graph perturbed by randomized response",
        SAGE,
        noise="pure",
        response=asymmetric_response,
    ),
    "sage-inf": MethodInfo(
        EDGE,
        "caribou.methods.sage:SageEdge",
        "GraphSAGE on the graph itself: a yardstick",
        SAGE,
        private=False,
    ),
    "sage-ndp": MethodInfo(
        NODE,
        "caribou.methods.sage:SageNdp",
        "one SAGE layer, trained and applied privately",
        SAGE,
    ),
    "lapgraph-edp": MethodInfo(
        EDGE,
        "caribou.methods.lapgraph:LapGraph",
        "GraphSAGE on a graph perturbed by LapGraph",
        LAPGRAPH,
        noise="pure",
        response=laplace_threshold_response,
    ),
    "gap-edp": MethodInfo(
        EDGE,
        "caribou.methods.gap:Gap",
        "GAP: noisy sums of embeddings over neighbours, K hops, all released",
        GAP,
        noise="gaussian",
        controls=("hops",),
    ),
    "gap-inf": MethodInfo(
        EDGE,
        "caribou.methods.gap:Gap",
        "the same without noise: a yardstick",
        GAP,
        private=False,
    ),
    "gap-ndp": MethodInfo(
        NODE,
        "caribou.methods.gap:GapNdp",
        "GAP with a private encoder and a private classifier",
        GAP,
        noise="gaussian",
        controls=("hops", *DEGREES),
    ),
    "progap-edp": MethodInfo(
        EDGE,
        "caribou.methods.progap:Progap",
        "ProGAP: trained in stages, each on noisy sums of what the stage before learned",
        PROGAP,
        noise="gaussian",
        controls=("hops",),
    ),
    "progap-inf": MethodInfo(
        EDGE,
        "caribou.methods.progap:Progap",
        "the same without noise: a yardstick",
        PROGAP,
        private=False,
    ),
    "progap-ndp": MethodInfo(
        NODE,
        "caribou.methods.progap:ProgapNdp",
        "ProGAP with every stage trained privately",
        PROGAP,
        noise="gaussian",
        controls=("hops", *DEGREES),
    ),
    "lpgnet-edp": MethodInfo(
        EDGE,
        "caribou.methods.lpgnet:LpgNet",
        "LPGNet: noisy counts of predicted classes over neighbours, in stages",
        LPGNET,
        noise="pure",
        space={"stages": [1, 2], "classifier_hidden": [16, 64]},
    ),
    "dpdgc-edp": MethodInfo(
        EDGE,
        "caribou.methods.dpdgc:Dpdgc",
        "DPDGC: noisy products of A with privately trained weights",
        DPDGC,
        transductive=True,
        noise="gaussian",
    ),
    "dpdgc-inf": MethodInfo(
        EDGE,
        "caribou.methods.dpdgc:Dpdgc",
        "the same without noise: a yardstick",
        DPDGC,
        private=False,
        transductive=True,
    ),
    "dpdgc-ndp": MethodInfo(
        NODE,
        "caribou.methods.dpdgc:DpdgcNdp",
        "DPDGC with every part trained privately",
        DPDGC,
        transductive=True,
        noise="gaussian",
        controls=DEGREES,
    ),
    "mlp-dp": MethodInfo(
        NODE,
        "caribou.methods.mlp:MlpDp",
        "a private model that never sees an edge, linear unless told otherwise",
        MLP,
        noise="gaussian",
        space={"clip": [0.2, 0.3, 0.5], "shrinkage": [0.2, 0.4, 0.8], "mean_share": [0.1, 0.2]},
    ),
    "mlp": MethodInfo(
        EDGE,
        "caribou.methods.mlp:Mlp",
        "the encoder alone: no edge is read, no noise is needed",
        MLP,
        data_independent=True,
        engines=BLOCK_ENGINES,
        space={"hidden": [[], [32], [64, 16], [128, 32]]},
    ),
}
"""The methods of ``caribou train`` and `Model`, by full name."""


def names_of(test: Callable[[MethodInfo], bool]) -> list[str]:
    """The methods that a test holds for, in the order of the table.

    >>> names_of(lambda info: info.embeddings)
    ['caribou-edp', 'caribou-inf', 'caribou-ndp']
    """
    return [name for name, info in METHODS.items() if test(info)]


def resolve(name: str, unit: PrivacyUnit | str | None = None) -> str:
    """The full name of a method. An unknown name is an error that lists the known ones.

    Args:
        name: a full name, which decides its unit, or a family.
        unit: "edge" or "node"; None: that of a full name, and of a family edge where it has both.

    >>> resolve("dpdgc", "node")
    'dpdgc-ndp'
    """
    wanted = None if unit is None else PrivacyUnit.parse(unit)
    if name in FAMILIES:
        units = {info.unit: full for full, info in _private(name)}
        if (wanted or EDGE) in units:
            return units[wanted or EDGE]
        name = next(iter(units.values()))
    if name not in METHODS:
        load_own_methods()
    if name not in METHODS:
        known = [*METHODS, *(family for family in FAMILIES if family not in METHODS)]
        near = difflib.get_close_matches(name, known, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        raise InputError(f"method must be one of {', '.join(known)}, got {name!r}{meant}")
    if wanted not in (None, METHODS[name].unit):
        raise InputError(f"unit must be {METHODS[name].unit.value} for {name}, got {wanted.value}")
    return name


def _private(family: str) -> list[tuple[str, MethodInfo]]:
    """The methods of a family that are no yardsticks."""
    return [(name, info) for name, info in METHODS.items() if info.family is FAMILIES[family] and info.private]


def method_info(name: str, unit: PrivacyUnit | str | None = None) -> MethodInfo:
    """The entry of a method, by its full name or by family and unit (`resolve`)."""
    return METHODS[resolve(name, unit)]


OWN_METHODS = "CARIBOU_METHODS"
"""The environment variable that names Python files with methods of one's own, as a list of paths; child processes inherit it."""
_NEEDED = ("settings", "plan", "fit", "predict")
_OTHER_GRAPHS = ("plan_graph", "predict_graph")


def register(name: str, method: type, *, unit: PrivacyUnit | str, summary: str = "a method of your own") -> None:
    """Give a method of your own a name, by which `Model`, ``train``, ``run`` and ``audit`` know it.

    The class is a frozen dataclass of public settings with the functions of `Method`. Without ``plan_graph`` and
    ``predict_graph`` it predicts no other graph. Commands find it in the files that ``caribou --methods FILE`` names, or the
    environment variable CARIBOU_METHODS. What it promises is declared with `own_mechanism`; an audit can attack it.

    Args:
        name: a new one, such as "my-method".
        method: the class.
        unit: "edge" or "node".
        summary: one line for ``caribou methods``.

    Returns:
        Nothing.

    >>> import caribou as cb
    >>> from caribou.methods.mlp import Mlp
    >>> cb.register("own-mlp", Mlp, unit="edge")
    >>> cb.Model("own-mlp", cb.Budget(4), hidden=[8])
    Model('own-mlp', epsilon = 4, delta = 1e-05 at edge level, hidden=[8])
    >>> _ = METHODS.pop("own-mlp")                                                    # the table is as it was
    """
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"name must be letters, digits and hyphens, got {name!r}")
    known = METHODS.get(name)
    if name in FAMILIES or (known is not None and known.own is None):
        raise InputError(f"name must be new, got {name!r}, which is a method of the library")
    missing = [part for part in _NEEDED if not callable(getattr(method, part, None))]
    if missing or not isinstance(method, type) or not is_dataclass(method):
        raise InputError(f"method must be a dataclass with {', '.join(_NEEDED)}, got one without {missing or 'fields'}")
    transductive = not all(callable(getattr(method, part, None)) for part in _OTHER_GRAPHS)
    METHODS[name] = MethodInfo(
        PrivacyUnit.parse(unit),
        f"{method.__module__}:{method.__qualname__}",
        summary,
        transductive=transductive,
        own=method,
    )


def load_own_methods() -> None:
    """Import the files that CARIBOU_METHODS names, each once; they call `register`."""
    for entry in filter(None, os.environ.get(OWN_METHODS, "").split(os.pathsep)):
        file = Path(entry).absolute()
        if not file.is_file() or file.suffix != ".py" or not file.stem.isidentifier():
            raise InputError(f"methods must name Python files (--methods), got {entry!r}")
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))  # by its own name, so that worker processes can import it, too
        try:
            importlib.import_module(file.stem)
        except Exception as error:
            raise InputError(f"{entry} cannot be imported: {type(error).__name__}: {error}") from error
