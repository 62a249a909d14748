"""Every sentence of a certificate: what a guarantee rests on, by name. The sentence is generated from the name and its figures.

Nothing is decided by the words. A reader finds them in the certificate; the program compares names and figures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from caribou._validate import member
from caribou.errors import CertificateError
from caribou.privacy.budget import PrivacyUnit
from caribou.privacy.documents import Words

TRUST_MODEL = (
    "Central model: one trusted curator holds the graph, runs the mechanism and publishes the release; the adversary sees "
    "the whole release, knows the algorithm, every public parameter and everything about the graph except the protected unit."
)
SIDE_CHANNELS = (
    "Run time and memory depend on the number of edges and are not protected; do not publish them.",
    "Logs, caches and crash dumps of the curator's machine are not protected.",
)


class AssumptionName(Enum):
    """What a guarantee can rest on."""

    RANDOMNESS = "randomness"
    FLOATING_POINT = "floating point"
    HIDDEN_STATES = "hidden states"
    HYPER_PARAMETERS = "hyper-parameters"
    PUBLIC_VALUES = "public values"
    ORDER_OF_PAIRS = "order of pairs"
    NO_EDGE_READ = "no edge is read"
    INITIAL_STATE = "initial state"
    OWN_PREDICTIONS = "own predictions"
    PUBLIC_FEATURES = "public features"
    PUBLIC_ROWS = "public rows"
    PUBLIC_MATRIX = "public matrix"
    PARALLEL_COMPOSITION = "parallel composition"
    RELEASED_WEIGHTS = "weights"
    ARRIVALS = "arrivals"
    COUNTED_PREDICTIONS = "counted predictions"
    FEATURES_WITHOUT_EDGES = "features without edges"
    GIVEN_PRIOR = "given prior"
    OWN_CODE = "own code"


class Sampler(Enum):
    """How the noise of a release was sampled. All but the last are exact (docs/privacy.md, Theorem 11)."""

    GAUSSIAN = "Gaussian"
    LAPLACE = "Laplace"
    DISCRETE_LAPLACE = "discrete Laplace"
    EXPONENTIAL_CHOICE = "exponential choice"
    BERNOULLI = "Bernoulli"
    TRIAL_NUMBER = "number of trials"
    OWN = "own"


LAYER_ASSUMPTIONS = {"attention": AssumptionName.PUBLIC_ROWS, "gcn": AssumptionName.PUBLIC_MATRIX}
"""What the theorem of a layer assumes about inputs that are not among its parameters. A search may need both."""
STANDING = (
    AssumptionName.RANDOMNESS,
    AssumptionName.FLOATING_POINT,
    AssumptionName.HIDDEN_STATES,
    AssumptionName.HYPER_PARAMETERS,
    AssumptionName.PUBLIC_VALUES,
)
"""The assumptions of every release. All are always stated: whether one of them matters may itself be private."""
DECLARED = (
    AssumptionName.PUBLIC_FEATURES,
    AssumptionName.ARRIVALS,
    AssumptionName.FEATURES_WITHOUT_EDGES,
    AssumptionName.GIVEN_PRIOR,
    AssumptionName.OWN_CODE,
)
"""What an owner or a method adds."""
DETERMINED = {name for name in AssumptionName if name not in (*STANDING, *DECLARED)} | {AssumptionName.FLOATING_POINT}
"""Assumptions that a certificate states exactly if its mechanisms call for them."""

LASTING = (AssumptionName.GIVEN_PRIOR, AssumptionName.OWN_CODE)
"""What later releases of a model rest on, too: they show, or are computed from, what it released."""


ORIGINS = {True: ("the operating system",), False: ("a fixed seed", "a key given by the caller")}
"""Where a key can come from, by whether it is secret."""


@dataclass(frozen=True)
class Assumption:
    """Something the guarantee rests on. ``holds=False`` makes the certificate void.

    >>> Assumption(AssumptionName.INITIAL_STATE, {"unit": "edge"}).statement
    'X^(0) is public: it was computed without looking at any edge.'
    """

    derived: ClassVar[tuple[str, ...]] = ("statement",)
    name: AssumptionName
    parameters: Mapping[str, Any] = field(default_factory=dict)
    holds: bool = True

    def __post_init__(self) -> None:
        kinds, _ = _SENTENCES[self.name]
        if set(self.parameters) != set(kinds):
            listed = ", ".join(kinds) or "nothing"
            raise CertificateError(
                f"assumption {self.name.value!r} must have the parameters {listed}, got {sorted(self.parameters)}"
            )
        for key, kind in kinds.items():
            if not isinstance(self.parameters[key], kind):
                raise CertificateError(
                    f"assumption {self.name.value!r} must have another {key}, got {self.parameters[key]!r}"
                )
        if self.name is AssumptionName.RANDOMNESS and self.holds is not self.parameters["secret"]:
            raise CertificateError("assumption 'randomness' must hold exactly if the noise is secret")
        if self.name is AssumptionName.RANDOMNESS and self.parameters["origin"] not in ORIGINS[self.holds]:
            # it stands inside a sentence that speaks in the library's voice
            known = " or ".join(map(repr, ORIGINS[self.holds]))
            raise CertificateError(f"origin of the noise must be {known}, got {self.parameters['origin']!r}")
        _ = self.statement  # a unit that does not exist is refused here

    @property
    def statement(self) -> Words:
        """The sentence, generated from name and figures."""
        return _SENTENCES[self.name][1](self.parameters)


def in_order(assumptions: Iterable[Assumption]) -> tuple[Assumption, ...]:
    """Each assumption once, in the order of `AssumptionName`. Of two with one name the later one counts."""
    by_name = {assumption.name: assumption for assumption in assumptions}
    return tuple(by_name[name] for name in AssumptionName if name in by_name)


# -- the assumptions of a plan, and those that the noise adds ---------------------------------------------------------


def randomness(*, secret: bool, origin: str, resumable: bool) -> Assumption:
    """Where the noise came from. ``resumable``: its key lies in a private folder until the release is made."""
    figures = {"secret": secret, "origin": origin, "resumable": resumable}
    return Assumption(AssumptionName.RANDOMNESS, figures, holds=secret)


def floating_point(samplers: Iterable[Sampler]) -> Assumption:
    """How far computed values and sampled noise are from the exact ones: the samplers, each once, in the order of `Sampler`."""
    used = set(samplers)
    return Assumption(AssumptionName.FLOATING_POINT, {"samplers": [s.value for s in Sampler if s in used]})


def standing(*, resumable: bool, selection: str | None = None) -> tuple[Assumption, ...]:
    """The standing assumptions of a plan but `randomness` and `floating_point`, which follow from noise and mechanisms.

    ``selection``: the theorem that accounts for a search.
    """
    return (
        Assumption(AssumptionName.HIDDEN_STATES, {"resumable": resumable}),
        Assumption(AssumptionName.HYPER_PARAMETERS, {"search": selection}),
        Assumption(AssumptionName.PUBLIC_VALUES),
    )


def initial_state(unit: PrivacyUnit) -> Assumption:
    """What message passing assumes about X^(0)."""
    return Assumption(AssumptionName.INITIAL_STATE, {"unit": unit.value})


def features_without_edges(columns: int, names: Sequence[str] | None) -> Assumption:
    """What edge level assumes about the features: their number, and their names where they have any."""
    figures = {"columns": columns, "names": None if names is None else list(names)}
    return Assumption(AssumptionName.FEATURES_WITHOUT_EDGES, figures)


# -- the sentences ----------------------------------------------------------------------------------------------------


def _randomness(p: Mapping[str, Any]) -> str:
    if not p["secret"]:
        return (
            f"The privacy noise was drawn from {p['origin']}: whoever knows it can subtract the noise. "
            "Such a run is for experiments only."
        )
    kept = "only in a private folder that is removed with the release" if p["resumable"] else "in no file"
    return f"The key of the privacy noise came from {p['origin']}, is as secret as the graph and is kept {kept}."


_EXACT = {
    Sampler.GAUSSIAN: "Gaussian noise rounded to a grid",
    Sampler.LAPLACE: "Laplace noise rounded to a grid",
    Sampler.DISCRETE_LAPLACE: "discrete Laplace noise",
    Sampler.EXPONENTIAL_CHOICE: "choices of the exponential mechanism",
    Sampler.BERNOULLI: "Bernoulli draws",
    Sampler.TRIAL_NUMBER: "the number of trials",
}


def _floating_point(p: Mapping[str, Any]) -> str:
    used = [member(Sampler, word, "sampler", CertificateError) for word in p["samplers"]]
    if used != [sampler for sampler in Sampler if sampler in used]:
        raise CertificateError(
            f"samplers must be different and in the order of their names, got {list(p['samplers'])!r}"
        )
    sentences = [
        "Steps are computed in double precision; their rounding error, and that of stored states, is bounded and added to the "
        "sensitivity; value and noise lie on a common power-of-two grid, so their sum is exact."
    ]
    exact = [_EXACT[sampler] for sampler in used if sampler in _EXACT]
    if exact:
        sentences.append(
            f"Sampled exactly, with no distance to add (docs/privacy.md, Theorem 11): {', '.join(exact)}. That rests on "
            "logarithms, sines and cosines that err by at most 4 units in the last place."
        )
    if Sampler.OWN in used:
        sentences.append("How the noise of a mechanism outside this library was sampled is declared with its theorem.")
    return " ".join(sentences)


def _hidden_states(p: Mapping[str, Any]) -> str:
    where = "stored elsewhere than in a private folder that is removed with the release" if p["resumable"] else "stored"
    return f"Only what is listed as released leaves the curator; intermediate states are not {where}, logged or shown."


def _hyper_parameters(p: Mapping[str, Any]) -> str:
    if p["search"] is None:
        return "Declared by the curator: fixed before the data was seen. A search on the private graph costs more."
    return (
        f"Chosen on the private graph; the search is accounted for here: {p['search']}. Neither the other trials nor their "
        "number are published."
    )


def _initial_state(p: Mapping[str, Any]) -> str:
    if PrivacyUnit.parse(p["unit"]) is PrivacyUnit.EDGE:
        return "X^(0) is public: it was computed without looking at any edge."
    return (
        "Row i of X^(0) is a function of the data of node i alone, and of what was released privately before. It is 0 for a node "
        "whose data is blank."
    )


def _arrivals(p: Mapping[str, Any]) -> str:
    if p["batch"] < 2:
        raise CertificateError(f"batch must be at least 2 to extend another one, got {p['batch']}")
    return (
        f"This is batch {p['batch']} of the release of certificate {p['release']}, and extends certificate {p['extends']}. All "
        "batches together cost this epsilon once: who arrives when is public, no pair of nodes of earlier batches was asked "
        "again, and no other certificate extends the same one."
    )


def _features_without_edges(p: Mapping[str, Any]) -> str:
    if p["names"] is not None and (len(p["names"]) != p["columns"] or not all(isinstance(n, str) for n in p["names"])):
        raise CertificateError(f"names must be {p['columns']} words, one per feature column, got {p['names']!r}")
    which = f"{p['columns']} columns" if p["names"] is None else ", ".join(map(repr, p["names"])) or "none"
    return (
        "Declared by the curator: no feature was computed from edges (no degree, no count of partners, no average over "
        f"neighbours). Features and labels are public at edge level. The features: {which}."
    )


def _plain(words: str) -> Callable[[Mapping[str, Any]], str]:
    return lambda _: words


_Kinds = Mapping[str, type | tuple[type, ...]]
_NOTHING: _Kinds = {}
_SENTENCES: dict[AssumptionName, tuple[_Kinds, Callable[[Mapping[str, Any]], str]]] = {
    AssumptionName.RANDOMNESS: ({"secret": bool, "origin": str, "resumable": bool}, _randomness),
    AssumptionName.FLOATING_POINT: ({"samplers": list}, _floating_point),
    AssumptionName.HIDDEN_STATES: ({"resumable": bool}, _hidden_states),
    AssumptionName.HYPER_PARAMETERS: ({"search": (str, type(None))}, _hyper_parameters),
    AssumptionName.PUBLIC_VALUES: (
        _NOTHING,
        _plain("The public parameters listed here were declared, not computed from the private graph."),
    ),
    AssumptionName.ORDER_OF_PAIRS: (
        _NOTHING,
        _plain(
            "Degrees are cut to the cap by a public order of all pairs of nodes, which does not depend on the edges. What the "
            "cut does when a node leaves is part of the bound."
        ),
    ),
    AssumptionName.NO_EDGE_READ: (_NOTHING, _plain("No edge is read, so no degree matters.")),
    AssumptionName.INITIAL_STATE: ({"unit": str}, _initial_state),
    AssumptionName.OWN_PREDICTIONS: (
        _NOTHING,
        _plain(
            "Covered is what is listed as released. The prediction for a node is computed from it and from the node's own "
            "features, for whoever already holds those features; publishing a node's own prediction discloses what the model "
            "sees of that node."
        ),
    ),
    AssumptionName.PUBLIC_FEATURES: (
        _NOTHING,
        _plain(
            "Centre and projection are computed from a sample of feature rows that the curator declares public: it contains no "
            "row of this graph and was chosen without looking at it. The program cannot check that."
        ),
    ),
    AssumptionName.PUBLIC_ROWS: (
        _NOTHING,
        _plain("The rows that give the edge weights are public: they were computed without looking at any edge."),
    ),
    AssumptionName.PUBLIC_MATRIX: (
        _NOTHING,
        _plain("The matrix Theta of the layer is public: it was chosen without looking at private data."),
    ),
    AssumptionName.PARALLEL_COMPOSITION: (
        _NOTHING,
        _plain(
            "The split is public and its parts are disjoint: a node pays for the mechanisms of its own group only, and the "
            "release costs what the costliest group pays."
        ),
    ),
    AssumptionName.RELEASED_WEIGHTS: (
        _NOTHING,
        _plain("W was released before A W was computed, and its rows were brought to length 1 in place."),
    ),
    AssumptionName.ARRIVALS: ({"release": str, "extends": str, "batch": int}, _arrivals),
    AssumptionName.COUNTED_PREDICTIONS: (
        _NOTHING,
        _plain(
            "A counted prediction is a function of what was released before and of the data of its own node. No node is counted "
            "twice."
        ),
    ),
    AssumptionName.FEATURES_WITHOUT_EDGES: ({"columns": int, "names": (list, type(None))}, _features_without_edges),
    AssumptionName.GIVEN_PRIOR: (
        _NOTHING,
        _plain(
            "Class probabilities were given by the owner. Declared by the curator: no edge was read for them, and those of "
            "labelled nodes are out of fold."
        ),
    ),
    AssumptionName.OWN_CODE: (
        _NOTHING,
        _plain(
            "The method is code of the user's own: what it releases besides the mechanisms listed here is not checked."
        ),
    ),
}
