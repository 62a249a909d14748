"""Certificates of every method, made cheaply from their plans, and the edits that an attacker would try."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.methods.base import released_since
from caribou.methods.search import plan_search
from caribou.methods.votes import VotesEdge
from caribou.model.tuning import combinations
from caribou.models.published_metrics import metrics_plan
from caribou.privacy.arithmetic import double_precision
from caribou.privacy.assumptions import Assumption, AssumptionName, features_without_edges, in_order
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.calibration import budget_mu, calibrate_propagation
from caribou.privacy.certificate import Certificate, ReleaseKind
from caribou.privacy.documents import read, write
from caribou.privacy.events import Event, Gaussian
from caribou.privacy.mechanism_records import Group, Mechanism, MechanismRecord, OwnRecord
from caribou.privacy.pair_response import PairResponse, asymmetric_response, laplace_threshold_response
from caribou.privacy.plan import Link, ReleasePlan, epsilon_by_degree, figures
from caribou.privacy.scope import ScopeKind
from caribou.privacy.sensitivity import Bounds, layer_sensitivity
from caribou.privacy.sizes import Sizes
from caribou.release import embeddings_plan

SIZES = Sizes(nodes=80, columns=32, classes=4, train=56, val=8, test=16)
DELTA = 1e-5
EDGES = 200
INF = math.inf

FITS: dict[str, tuple[str, dict[str, Any], float]] = {
    "caribou-edp": ("caribou-edp", {}, 4.0),
    "caribou-edp, attention": ("caribou-edp", {"layer": "attention"}, 4.0),
    "caribou-edp, spectral": ("caribou-edp", {"layer": "spectral"}, 4.0),
    "caribou-edp, GCN": ("caribou-edp", {"layer": "gcn"}, 4.0),
    "caribou-inf": ("caribou-inf", {}, INF),
    "votes-edp": ("votes-edp", {}, 4.0),
    "votes-edp, Gaussian": ("votes-edp", {"noise": "gaussian"}, 4.0),
    "sage-edp": ("sage-edp", {"count_share": 0.1}, 8.0),
    "sage-inf": ("sage-inf", {}, INF),
    "lapgraph-edp": ("lapgraph-edp", {"count_share": 0.1}, 8.0),
    "gap-edp": ("gap-edp", {"hops": 2}, 4.0),
    "gap-inf": ("gap-inf", {}, INF),
    "progap-edp": ("progap-edp", {}, 4.0),
    "progap-inf": ("progap-inf", {}, INF),
    "lpgnet-edp": ("lpgnet-edp", {}, 4.0),
    "dpdgc-edp": ("dpdgc-edp", {}, 4.0),
    "dpdgc-inf": ("dpdgc-inf", {}, INF),
    "mlp": ("mlp", {}, 4.0),
    "caribou-ndp": ("caribou-ndp", {}, 4.0),
    "caribou-ndp, trained": ("caribou-ndp", {"classifier": "mlp", "degree_cap": 10}, 4.0),
    "votes-ndp": ("votes-ndp", {"declared_degree": 20, "declared_average_degree": 20}, 8.0),
    "votes-ndp, fixed weight": (
        "votes-ndp",
        {"declared_degree": 79, "votes": {"receivers_per_sender": None, "share": 0.5}, "weight": 0.5},
        4.0,
    ),
    "sage-ndp": ("sage-ndp", {"declared_degree": 10}, 4.0),
    "gap-ndp": ("gap-ndp", {"degree_cap": 5}, 4.0),
    "progap-ndp": ("progap-ndp", {"degree_cap": 5}, 4.0),
    "dpdgc-ndp": ("dpdgc-ndp", {}, 4.0),
    "mlp-dp": ("mlp-dp", {}, 4.0),
}
"""Every method, with the settings that change what a certificate holds: method, settings, epsilon."""
PREDICTIONS = ("caribou-ndp", "gap-ndp", "progap-ndp", "sage-ndp", "votes-ndp", "mlp-dp", "mlp")
SEARCHES: dict[str, tuple[str, dict[str, list[Any]], list[int], float]] = {
    "search, composed": ("caribou-edp", {"hops": [1, 2]}, [0, 1], 2.0),
    "search, random": ("caribou-edp", {"hops": [1, 2]}, [0, 1] * 4, 8.0),
    "search of pairs": ("sage-edp", {"count_share": [0.1, 0.2]}, [0, 1], 8.0),
    "search at node level, composed": ("caribou-ndp", {"graph_share": [0.1, 0.5]}, [0, 1], 2.0),
    "search at node level": ("caribou-ndp", {"graph_share": [0.1, 0.5], "degree_cap": [10]}, [0, 1] * 4, 8.0),
    "search without edges": ("mlp-dp", {"clip": [0.2, 0.3]}, [0, 1] * 4, 8.0),
}
NOT_PRIVATE = tuple(name for name, (_, _, epsilon) in FITS.items() if math.isinf(epsilon))


def plan_of(method: str, settings: dict[str, Any], epsilon: float, *, predicts: bool = False) -> ReleasePlan:
    """The plan of a method on a graph of `SIZES`."""
    info = METHODS[method]
    recipe, budget = info.create(**settings), Budget(epsilon, DELTA, info.unit)
    return recipe.plan_graph(SIZES, budget, {"vote_weight": None}) if predicts else recipe.plan(SIZES, budget)


def batch_plan(link: Link | None) -> ReleasePlan:
    """The plan of the third batch of a growing graph; without a link it pays for itself."""
    plan = VotesEdge().plan_batch(SIZES, Budget(4.0, DELTA), link, 3)
    return plan if link is not None else released_since("c" * 32, plan)


def embeddings(
    unit: str = "edge", *, epsilon: float = 4.0, cap: int = 10, resumable: bool = False, hops: int = 8
) -> ReleasePlan:
    """The plan of a release of X^(K)."""
    budget = Budget(epsilon, DELTA, unit)
    bounds = Bounds(degree_floor=10, degree_cap=cap if unit == "node" else None, nodes=100)
    calibrated = calibrate_propagation(
        layer_sensitivity(unit, contraction=0.8, alpha1=0.9, beta=0.5, bounds=bounds),
        hops=hops,
        mu=budget_mu(budget),
        arithmetic=double_precision(nodes=100, columns=5, residual=0.5),
    )
    return embeddings_plan(budget, calibrated, start="features", resumable=resumable)


def search_plan(method: str, space: dict[str, list[Any]], order: list[int], epsilon: float) -> ReleasePlan:
    """The plan of a private search."""
    info = METHODS[method]
    recipes = [info.create(**settings) for settings in combinations(method, space, {})]
    return plan_search(recipes, order, SIZES, Budget(epsilon, DELTA, info.unit), method=method)


def declared(plan: ReleasePlan) -> ReleasePlan:
    """The plan with what every release at edge level says of the features."""
    if plan.budget.unit is PrivacyUnit.NODE:
        return plan
    return replace(plan, assumptions=(*plan.assumptions, features_without_edges(SIZES.columns, None)))


def certified(plan: ReleasePlan, response: Callable[..., PairResponse] = asymmetric_response) -> Certificate:
    """The certificate of a plan, with the figures that randomized response would add after its draw."""
    made = declared(plan).certificate(NoiseSource.secure())
    for record in made.mechanisms:
        if record.mechanism is Mechanism.RANDOMIZED_RESPONSE:
            nodes = made.public_parameters["nodes"]
            edges = min(EDGES, nodes)
            drawn = response(epsilon=record.details["epsilon"], edges=edges, nodes=nodes).to_dict()
            made = made.with_details(record.mechanism, released_edge_count=edges, **drawn)
    return made


@cache
def certificates() -> dict[str, Certificate]:
    """One certificate per way to make one, by name."""
    made = {}
    for name, (method, settings, epsilon) in FITS.items():
        response = laplace_threshold_response if method == "lapgraph-edp" else asymmetric_response
        made[name] = certified(plan_of(method, settings, epsilon), response)
        if name in PREDICTIONS:
            made[f"{name}, predicted"] = certified(plan_of(method, settings, epsilon, predicts=True))
    made[LINKED], made[PAID] = certified(batch_plan(Link("a" * 32, "b" * 32))), certified(batch_plan(None))
    for unit in ("edge", "node"):
        made[f"embeddings, {unit}"] = certified(embeddings(unit))
    made["embeddings, resumable"] = certified(embeddings(resumable=True))
    made["embeddings, nothing cut"] = certified(embeddings("node", cap=99))
    made[METRICS] = certified(metrics_plan(SIZES, Budget(0.5, DELTA, "node")))
    for name, search in SEARCHES.items():
        made[name] = certified(search_plan(*search))
    return made


METRICS = "published metrics"
LINKED, PAID = "batch, paid by the first one", "batch, paid by itself"
EMBEDDINGS = ("embeddings, edge", "embeddings, node", "embeddings, resumable", "embeddings, nothing cut")
PRIVATE = tuple(
    name
    for name in (*FITS, *(f"{name}, predicted" for name in PREDICTIONS), *EMBEDDINGS, METRICS, LINKED, PAID, *SEARCHES)
    if name not in NOT_PRIVATE
)
"""The certificates that promise something, by name."""
OF_EACH_KIND = (
    *(
        "caribou-edp, attention",
        "caribou-edp, GCN",
        "votes-edp, Gaussian",
        "sage-edp",
        "lpgnet-edp",
    ),
    *("dpdgc-edp", "mlp", "caribou-ndp, trained", "votes-ndp", "sage-ndp", "dpdgc-ndp", "embeddings, node", METRICS),
    *(LINKED, PAID),
    *("search, composed", "search of pairs", "search at node level"),
)
"""Certificates that hold every kind of mechanism, with every kind of figure."""


def own_certificate() -> Certificate:
    """A certificate of a mechanism that the library does not know."""
    cost = {Group.EVERY_EDGE: (Gaussian(2.0),)}
    own = OwnRecord(name="my sums", why="my theorem", unit=PrivacyUnit.EDGE, paid=cost, notes={"noise": 3})
    return certified(ReleasePlan(Budget(4.0, 1e-5, "edge"), (own,), released=("X",), method="a test"))


def document(name: str) -> dict[str, Any]:
    """The certificate of this name as its file holds it."""
    made: dict[str, Any] = json.loads(certificates()[name].to_json())
    return made


def assume(record: dict[str, Any], *assumptions: Assumption) -> None:
    """State these, in their places, in the place of what was stated under their names."""
    kept = [read(Assumption, a, "assumption") for a in record["assumptions"]]
    record["assumptions"] = [write(a) for a in in_order([*kept, *assumptions])]


def forget(record: dict[str, Any], *names: AssumptionName) -> None:
    words = [name.value for name in names]
    record["assumptions"] = [a for a in record["assumptions"] if a["name"] not in words]


# -- edits ------------------------------------------------------------------------------------------------------------

Path = tuple[Any, ...]
Edit = tuple[str, Path, Any]
"""What is done, where, and the edited document."""


def at(record: Any, path: Path) -> Any:
    """The value at a path."""
    for key in path:
        record = record[key]
    return record


def edited(record: Any, path: Path, value: Any) -> Any:
    """A copy with another value at the path; all that lies beside the path is shared."""
    changed: Any = record.copy()
    changed[path[0]] = edited(record[path[0]], path[1:], value) if path[1:] else value
    return changed


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every path of a document but the root."""
    if path:
        yield path
    if isinstance(value, dict):
        for key in value:
            yield from paths(value[key], (*path, key))
    elif isinstance(value, list):
        for key in range(len(value)):
            yield from paths(value[key], (*path, key))


def edits(record: dict[str, Any]) -> Iterator[Edit]:
    """Every field changed alone, in every way that its type allows."""
    yield "unknown key", (), {**record, "note": 1}
    for kind in ReleaseKind:
        yield "another kind", ("kind",), {**record, "kind": kind.value}
    for path in paths(record):
        value = at(record, path)
        for kind, other in _other_values(value):
            yield kind, path, edited(record, path, other)
        rest = at(record, path[:-1]).copy()
        del rest[path[-1]]
        yield "deleted", path, edited(record, path[:-1], rest) if path[1:] else rest
        if isinstance(value, dict):
            yield "unknown key", path, edited(record, path, {**value, "note": 1})
            yield "emptied", path, edited(record, path, {})
        if isinstance(value, list) and value:
            yield "doubled entry", path, edited(record, path, [*value, value[-1]])
            yield "reversed", path, edited(record, path, value[::-1])
            yield "emptied", path, edited(record, path, [])


def _other_values(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, bool):
        return [("flipped", not value), ("number for truth", int(value)), ("word for truth", str(value))]
    if isinstance(value, int | float):
        found: list[tuple[str, Any]] = [
            ("word for a number", str(value)),
            ("truth for a number", bool(value)),
            ("null", None),
            ("negative", -1 if value == 0 else -value),
            ("infinite", INF),
            ("not a number", math.nan),
            ("inf", "inf"),
        ]
        if isinstance(value, int):
            return [*found, ("one more", value + 1), ("one less", value - 1)]
        return [*found, ("1 % more", value * 1.01 + 1e-3 * (value == 0)), ("1 % less", value * 0.99)]
    if isinstance(value, str):
        return [("other words", value + " x"), ("no words", ""), ("number for a word", 1), ("two lines", value + "\nx")]
    if value is None:
        return [("zero for null", 0), ("word for null", "x"), ("number for null", 7)]
    return []


def same(one: Any, two: Any) -> bool:
    """Whether two documents agree up to the rounding of their numbers."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, float) and isinstance(two, float):
        return math.isclose(one, two, rel_tol=1e-9)
    return type(one) is type(two) and bool(one == two)


def reload(record: Any) -> Certificate:
    """The certificate as another program would read it."""
    return Certificate.from_dict(json.loads(json.dumps(record)))


def recounted(record: dict[str, Any]) -> dict[str, Any]:
    """The document with all that follows from its events recomputed, as a clever forger would."""
    unit, delta = PrivacyUnit.parse(record["unit"]), record["delta"]
    nodes = record["public_parameters"].get("nodes")
    paid = [
        OwnRecord(name="x", why="x", unit=unit, paid=read(Mapping[Group, tuple[Event, ...]], m["costs"], "costs"))
        for m in record["mechanisms"]
    ]
    made = [MechanismRecord.from_dict(mechanism) for mechanism in record["mechanisms"]]
    follows = {key: write(value) for key, value in figures(paid, unit, delta, nodes).items()}
    # where events contradict the figures, nobody looks at a curve
    curve = (
        record["epsilon_by_degree"]
        if any(m.contradictions for m in made)
        else epsilon_by_degree(made, unit, delta, nodes)
    )
    holds = all(a["holds"] for a in record["assumptions"])
    reach = "private" if record["scope"]["kind"] == ScopeKind.EVERY_GRAPH.value else "private by degree"
    status = "no privacy" if record["epsilon"] == "inf" else reach if holds else "void"
    return {**record, **follows, "scope": record["scope"], "epsilon_by_degree": write(curve), "status": status}


def is_declared(kind: str, path: tuple[Any, ...], fields: tuple[str, ...]) -> bool:
    """Whether the changed field, or the order or the completeness of its list, is among those listed as declared."""
    here, above = ".".join(map(str, path)), ".".join(map(str, path[:-1]))
    places = [here]
    if kind == "reversed":
        places.append(f"{here}: order")
    if kind in ("doubled entry", "emptied"):
        places.append(f"{here}: complete")
    if kind == "deleted":
        places.append(f"{above}: complete")
    return any(place == field or place.startswith(f"{field}.") for place in places for field in fields)
