"""Models as a user holds them: fit, predict, score, and what a ledger has to say."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import caribou as cb
import caribou.model.state
from caribou.errors import BudgetExceeded, CaribouError, InputError, RunError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.model.estimator import Model
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.ledger import Ledger

pytestmark = pytest.mark.usefixtures("quick_learning")

KIND = {"nodes": 130, "classes": 3, "features": 6, "average_degree": 8.0, "signal": 2.0}
GRAPH, OTHER = (cb.datasets.load("csbm", **KIND, seed=seed) for seed in (3, 4))
SMALL, WIDE = (cb.datasets.load("csbm", **(KIND | changed), seed=3) for changed in ({"nodes": 40}, {"features": 7}))
EDGE, NODE = cb.Budget(4.0, 1e-5, "edge"), cb.Budget(8.0, 1e-5, "node")
SPENDING = ["caribou-edp", "votes-edp", "mlp-dp"]


def budget_of(name: str) -> cb.Budget:
    info = METHODS[name]
    return cb.Budget(math.inf, 1e-5, info.unit) if not info.private else {"edge": EDGE, "node": NODE}[info.unit.value]


def model_of(name: str, **settings: Any) -> Model:
    return Model(name, budget_of(name), **settings)


KINDS: dict[str, dict[str, Any]] = {
    "caribou-edp": {},
    "caribou-ndp": {"graph_share": 0.5},
    "votes-edp": {"max_rounds": 1},
    "dpdgc-edp": {},
    "mlp": {},
    "mlp-dp": {},
}
"""A method of each kind, with settings by which it does not leave the graph alone. tests/methods has every method."""


@pytest.fixture(scope="module")
def fitted() -> Callable[[str], Model]:
    made: dict[str, Model] = {}

    def get(name: str) -> Model:
        if name not in made:
            made[name] = model_of(name, **KINDS.get(name, {})).fit(GRAPH)
        return made[name]

    return get


# -- data ----------------------------------------------------------------------------------------------------------


def test_pyg_data_is_accepted_and_not_changed() -> None:
    data = GRAPH.to_pyg()
    before = {key: value.clone() for key, value in data.to_dict().items() if hasattr(value, "clone")}
    model = cb.Votes(budget=NODE).fit(Graph.from_pyg(data, classes=GRAPH.num_classes), noise=NoiseSource.seeded(1))
    with pytest.raises(InputError, match="classes must be declared at node level"):
        cb.Votes(budget=NODE).fit(data)
    cb.Model("mlp", EDGE).plan(data)  # at edge level labels are public, and classes may be read from them
    after = data.to_dict()
    assert {"x", "edge_index", "y", "train_mask"} <= before.keys()
    assert all((after[key] == value).all() for key, value in before.items())
    as_graph = cb.Votes(budget=NODE).fit(GRAPH, noise=NoiseSource.seeded(1))
    assert np.array_equal(model.predict_proba(), as_graph.predict_proba())


def test_the_unit_of_the_budget_chooses_the_method() -> None:
    assert [cb.Votes(budget=b).method for b in (EDGE, NODE)] == ["votes-edp", "votes-ndp"]
    assert [cb.Caribou(budget=b).method for b in (EDGE, NODE)] == ["caribou-edp", "caribou-ndp"]
    for call in (cb.Votes, cb.Caribou):
        with pytest.raises(InputError, match=r"budget must be a Budget, as cb\.Budget"):
            call(budget=4.0)


# -- predictions ---------------------------------------------------------------------------------------------------


def test_a_model_must_be_fitted_first(tmp_path: Path) -> None:
    model = model_of("votes-edp")
    calls: list[Callable[[], Any]] = [
        model.predict,
        model.predict_proba,
        model.predictions_frame,
        lambda: model.certificate,
        lambda: model.embeddings,
        lambda: model.save(tmp_path / "run"),
        lambda: model.release(GRAPH),
        lambda: model.score("test", GRAPH),
    ]
    for call in calls:
        with pytest.raises(CaribouError, match=r"model must be fitted first: call fit\(data\)"):
            call()
    with pytest.raises(InputError) as refused:
        model.score()
    assert refused.value.field == "data"
    assert "fitted" not in repr(model)


def test_predictions_of_the_training_graph_cost_nothing(
    fitted: Callable[[str], Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    models = [fitted(name) for name in KINDS]
    monkeypatch.setattr(NoiseSource, "_next_stream", refuse)
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own = model.predict_proba()
            # whether it is the same object says nothing about whether it is the same graph
            for again in (
                model.predict_proba(GRAPH, training_graph=True),
                model.predict_proba(dataclasses.replace(GRAPH)),
            ):
                assert np.allclose(again, own, rtol=0, atol=1e-12)
        assert np.array_equal(model.predict(), own.argmax(axis=1))
        for bad, rule in ((SMALL, "have 130 nodes"), (WIDE, "have 6 feature columns")):
            with pytest.raises(InputError) as refused:
                model.predict(bad, training_graph=True)
            assert refused.value.rule == rule


@pytest.mark.parametrize("name", list(KINDS))
def test_another_graph_is_released_once_and_predictions_never_spend(
    name: str, book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, other = model_of(name, **KINDS[name]).fit(GRAPH, ledger=book), OTHER.renamed("other")
    free: list[Callable[..., Any]] = [model.predict, model.predict_proba, model.predictions_frame]
    if METHODS[name].transductive:
        for call in (*free, model.release):
            with pytest.raises(InputError) as refused:
                call(other)
            assert str(refused.value.rule).startswith("be the training graph: ")
        assert len(book.entries()) == 1
        return
    for call in free:
        with monkeypatch.context() as patch:
            patch.setattr(NoiseSource, "_next_stream", refuse)
            with pytest.raises(
                InputError, match=r"predictions never spend: model\.release\(graph, ledger=\.\.\.\)"
            ) as refused:
                call(other)
        assert (refused.value.field, refused.value.value) == ("graph", "other")
    assert len(book.entries()) == 1
    made = model.release(other)
    assert [entry.dataset for entry in book.entries()] == [GRAPH.name, "other"], "in the ledger of the fit"
    assert (made.certificate.epsilon_spent > 0) is (name not in ("mlp", "mlp-dp")), (
        "some read no edge: it costs nothing"
    )
    assert made.certificate.epsilon_spent == pytest.approx(book.total("other", model.budget.unit).epsilon_spent)
    model.save(tmp_path / "run")
    monkeypatch.setattr(NoiseSource, "_next_stream", refuse)
    for known in (model, cb.load(tmp_path / "run"), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        p = known.predict_proba(dataclasses.replace(other))
        assert np.allclose(p, made.probabilities, rtol=0, atol=1e-12)
        assert np.array_equal(known.predict(other), p.argmax(axis=1))
        assert known.release(other).certificate == made.certificate, "asking again gives the same answer"
        with pytest.raises(InputError) as refused:
            known.release(other, epsilon=0.5)
        assert (refused.value.field, refused.value.value) == ("epsilon", 0.5)
    assert len(book.entries()) == 2


def test_a_second_release_is_made_where_it_is_asked_for(book: Ledger, tmp_path: Path) -> None:
    model, other = model_of("caribou-edp").fit(GRAPH, ledger=book), OTHER.renamed("other")
    first = model.release(other)
    model.save(tmp_path / "run")
    again = model.release(other, epsilon=0.5, ledger=book, spend=True)
    assert (again.certificate.epsilon, len(book.entries("other"))) == (0.5, 2)
    for record in (tmp_path / "run").rglob("graph.json"):  # a copy of a folder may have files of other times
        age = 0 if again.certificate.certificate_id in record.parts else 10**6
        os.utime(record, (age, age))
    for known in (model, cb.load(tmp_path / "run")):  # the folder keeps it, too
        assert known.known_release(other).certificate == again.certificate != first.certificate, "the newest is kept"
        assert np.array_equal(known.embed(other), again.released["state"])
    assert model.embed() is model.embeddings
    assert model.fit(GRAPH, ledger=book).known_release(other) is None, (
        "a second fit forgets what the first one released"
    )


def test_a_release_goes_to_a_folder_whole_or_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("caribou-edp", hops=1).fit(GRAPH)
    model.save(tmp_path / "run")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(cb.model.state, "_write_release", full)
        with pytest.warns(UserWarning, match="No space left on device; it is kept in this model alone"):
            made = model.release(OTHER)
    assert cb.load(tmp_path / "run").known_release(OTHER) is None
    assert not list((tmp_path / "run" / "predictions").iterdir())
    assert model.known_release(OTHER).certificate == made.certificate
    model.save(tmp_path / "again")
    assert np.array_equal(cb.load(tmp_path / "again").embed(OTHER), made.released["state"])
    (damaged,) = (tmp_path / "again" / "predictions").glob("*/released.safetensors")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(RunError, match="is not what was saved"):
        cb.load(tmp_path / "again")


def test_a_node_level_release_leaves_without_the_predictions_of_its_nodes(fitted: Callable[[str], Model]) -> None:
    model = fitted("caribou-ndp")
    made = model.release(OTHER)
    for left in (pickle.dumps(model), pickle.dumps(copy.copy(model))):
        assert made.probabilities.tobytes() not in left
        assert OTHER.features.tobytes() not in left


def test_embeddings_are_the_last_state_or_an_error(fitted: Callable[[str], Model]) -> None:
    for name in ("caribou-edp", "caribou-inf", "caribou-ndp"):
        assert np.array_equal(fitted(name).embeddings, fitted(name).released["state"])
    for name in ("votes-edp", "mlp-dp", "mlp"):
        with pytest.raises(InputError, match=f"method must release embeddings .* got {name}"):
            _ = fitted(name).embeddings


def test_a_loaded_node_level_run_asks_for_the_graph(fitted: Callable[[str], Model], tmp_path: Path) -> None:
    fitted("mlp-dp").save(tmp_path / "run")
    loaded = cb.load(tmp_path / "run")
    with pytest.raises(InputError, match="give the training graph again"):
        loaded.predict()
    with pytest.raises(InputError, match="data must be given to a loaded model"):
        loaded.score()
    assert loaded.score("test", GRAPH) == fitted("mlp-dp").score("test")


# -- the ledger ----------------------------------------------------------------------------------------------------


def refuse(self: NoiseSource) -> Any:
    raise RuntimeError("no noise today")


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.sqlite")


@pytest.mark.parametrize("name", SPENDING)
def test_the_cost_is_charged_before_noise_is_drawn(name: str, book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseSource, "_next_stream", refuse)
    model = model_of(name)
    with pytest.raises(RuntimeError, match="no noise today"):
        model.fit(GRAPH, ledger=book)
    (release,) = book.entries()
    assert (release.status, release.dataset, release.unit) == ("spent", GRAPH.name, model.budget.unit)
    assert book.total(GRAPH.name, model.budget.unit).epsilon_spent == pytest.approx(model.budget.epsilon, rel=1e-3)
    with pytest.raises(CaribouError, match="must be fitted first"):
        model.predict()


@pytest.mark.parametrize("name", SPENDING)
def test_an_exhausted_ledger_refuses_before_noise_is_drawn(
    name: str, book: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = budget_of(name)
    book.set_budget(GRAPH.name, cb.Budget(budget.epsilon / 2, budget.delta, budget.unit))
    monkeypatch.setattr(NoiseSource, "_next_stream", refuse)
    with pytest.raises(BudgetExceeded):
        model_of(name).fit(GRAPH, ledger=book)
    assert book.entries() == ()


def test_metrics_of_a_fit_that_promises_nothing_are_not_published() -> None:
    """They are computed from what the fit released, about its training nodes, too."""
    for budget, noise in ((NODE, NoiseSource.seeded(1)), (Budget(math.inf, 1e-5, "node"), None)):
        model = cb.Model("mlp-dp", budget).fit(GRAPH, noise=noise)
        with pytest.raises(InputError, match="certificate of the fit must be a guarantee to publish metrics"):
            model.publish_metrics(1.0)


def test_reproducible_noise_and_a_ledger_exclude_each_other(book: Ledger) -> None:
    for noise in (NoiseSource.seeded(1), NoiseSource.keyed(bytes(32))):
        with pytest.raises(InputError, match="noise must come from the operating system when a ledger is given"):
            model_of("mlp-dp").fit(GRAPH, ledger=book, noise=noise)
        assert noise.draws == 0
    assert book.entries() == ()


@pytest.mark.parametrize("name", SPENDING)
def test_a_graph_that_cannot_be_used_is_not_charged(name: str, book: Ledger, fitted: Callable[[str], Model]) -> None:
    for bad in (GRAPH.with_split(None), Graph(GRAPH.features, GRAPH.indptr, GRAPH.indices)):
        with pytest.raises(InputError, match="must have labels and a split"):
            model_of(name).fit(bad, ledger=book)
    if name == "votes-edp":
        with pytest.raises(InputError, match="must have labelled training nodes"):
            fitted(name).release(OTHER.with_split(None), ledger=book)
    assert book.entries() == ()


@pytest.mark.parametrize("name", ["caribou-edp", "votes-edp", "votes-ndp", "mlp-dp"])
def test_another_graph_has_the_classes_of_the_model(name: str, fitted: Callable[[str], Model]) -> None:
    """Shapes, cost and certificate of a release follow from the model, whatever labels the other graph carries."""
    model = fitted(name)
    split = Split(range(20), range(20, 25), range(25, 40))
    seen = set()
    for labels in ([0, 1] * 20, [2] * 40, [-1] * 40, [0] * 39 + [5]):
        known = np.array(labels) >= 0
        measured = METHODS[name].unit is PrivacyUnit.EDGE  # at node level classes are declared
        other = Graph.from_edges(
            np.array(GRAPH.features[:40]),
            [[0, 1], [1, 2]],
            labels=np.array(labels),
            split=split.where(known),
            classes=None if measured else GRAPH.num_classes,
        )
        if name == "votes-edp" and not known.any():
            with pytest.raises(InputError, match="labelled training nodes"):  # labels are public here
                model.release(other, spend=True)
            continue
        result = model.release(other, spend=True)
        assert result.probabilities.shape == (40, GRAPH.num_classes)
        sizes = {key: result.certificate.public_parameters.get(key) for key in ("nodes", "classes", "columns")}
        events = tuple(str(m.costs) for m in result.certificate.mechanisms)
        seen.add((str(sizes), events if METHODS[name].unit is PrivacyUnit.NODE else ()))
    assert len(seen) == 1


@pytest.mark.parametrize("kind", [cb.Votes, cb.Caribou])
def test_settings_are_those_of_the_method_at_either_unit(kind: Any) -> None:
    """They stand in the signature, once, with the default of the method's own dataclass."""
    family = kind.__name__.lower()
    edge, node = (METHODS[f"{family}-{word}"].create() for word in ("edp", "ndp"))
    signature = inspect.signature(kind).parameters
    listed = {name: p.default for name, p in signature.items() if name not in ("budget", "seed", "encoder")}
    assert set(listed) == set(edge.settings()) | set(node.settings())
    for budget, own in ((EDGE, edge), (NODE, node)):
        model = kind(budget)
        assert model.settings == own.settings()
        usual = {f.name: f.default for f in dataclasses.fields(own)}
        assert all(default in (None, usual[name]) for name, default in listed.items() if name in usual)
        assert kind(**model.get_params()).settings == model.settings
    alone = {cb.Votes: (NODE, {"max_rounds": 3}), cb.Caribou: (EDGE, {"degree_cap": 5})}[kind]
    for settings in (alone[1], {"depth": 3}):
        with pytest.raises(InputError, match=f"setting must be one of .*, got {next(iter(settings))}"):
            kind(alone[0], **settings)
    other = kind(EDGE).set_params(budget=NODE)
    assert other.settings == node.settings()


# -- scikit-learn's habits -------------------------------------------------------------------------------------------


def test_predictions_are_the_words_of_the_user() -> None:
    from dataclasses import replace

    named = replace(GRAPH, class_names=("ann", "bob", "cid"), feature_names=tuple("uvwxyz"))
    model = model_of("mlp-dp").fit(named)
    assert model.classes_.tolist() == ["ann", "bob", "cid"]
    assert set(model.predict()) <= {"ann", "bob", "cid"}
    assert model.feature_names_in_.tolist() == list("uvwxyz")
    with pytest.raises(AttributeError, match="no names of columns"):
        _ = model_of("mlp-dp").fit(GRAPH).feature_names_in_
    numbered = model_of("mlp-dp").fit(GRAPH)
    assert numbered.predict().dtype == np.int64, "labels that are numbers come back as numbers"


def test_labels_are_part_of_the_graph() -> None:
    with pytest.raises(InputError, match="y must be None: labels are part of the graph"):
        model_of("mlp-dp").fit(GRAPH, GRAPH.labels)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="use caribou tune"):
        np.asarray(GRAPH)


@pytest.mark.parametrize("model", [cb.Votes(NODE), cb.Caribou(EDGE, hops=3), Model("mlp-dp", NODE, clip=0.4)], ids=str)
def test_scikit_learn_clones_inspects_and_is_told_where_to_search(model: Model) -> None:
    base = pytest.importorskip("sklearn.base")
    selection = pytest.importorskip("sklearn.model_selection")
    copied = base.clone(model)
    assert (type(copied), copied.settings, copied.budget) == (type(model), model.settings, model.budget)
    assert base.is_classifier(model)
    from sklearn.utils.validation import check_is_fitted

    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)
    name = "clip" if "clip" in model.get_params() else "seed"
    search = selection.GridSearchCV(model, {name: [1, 2]})
    with pytest.raises(InputError, match=r"GridSearchCV.*a search on private data costs budget; use caribou tune"):
        search.fit(GRAPH)
    for split in (selection.cross_val_score, selection.cross_val_predict):
        with pytest.raises(InputError, match="use caribou tune"):
            split(model, GRAPH)


HABITS = {
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_estimators_unfitted",
    "check_mixin_order",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
}


@pytest.mark.parametrize("model", [cb.Votes(EDGE), Model("mlp-dp", NODE)], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_checks_of_scikit_learn_pass_where_they_mean_something(model: Model) -> None:
    """The others fit rows X and labels y, of which one may be left out; the habits that they test are tested on a graph below."""
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(model, on_fail=None, on_skip=None)
    found = {result["check_name"]: result["status"] for result in results}
    assert {name: found.get(name) for name in HABITS} == dict.fromkeys(HABITS, "passed")


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_a_frame_of_predictions_has_the_ids_of_the_user(tmp_path: Path) -> None:
    """Rows of predictions are in the order of ids, and not of the table: the frame says which is whose."""
    import pandas as pd

    rows = [(f"a{k}", k % 2, k % 5 / 4, ("ok", "bad")[k % 2]) for k in (9, 3, 7, 1, 8, 2, 6, 4, 5, 0)]
    nodes = pd.DataFrame(rows, columns=["account", "u", "v", "label"])
    edges = pd.DataFrame([(f"a{k}", f"a{k + 1}") for k in range(9)], columns=["from", "to"])
    graph = Graph.from_tables(edges, nodes, id_column="account", classes=["bad", "ok"])
    model = model_of("mlp").fit(graph)
    frame = model.predictions_frame()
    assert frame["account"].tolist() == [f"a{k}" for k in range(10)] != nodes["account"].tolist()
    flagged = ["flagged"] if model.threshold is not None else []
    assert frame.columns.tolist() == ["account", "class", "probability", *flagged, "p_bad", "p_ok"]
    assert np.array_equal(frame[["p_bad", "p_ok"]], model.predict_proba())
    assert frame["class"].tolist() == model.predict().tolist()
    joined = nodes.merge(frame, on="account")
    assert len(joined) == 10
    model.save(tmp_path / "run")
    assert cb.load(tmp_path / "run").predictions_frame().equals(frame)
    again = cb.load(tmp_path / "run").predictions_frame(graph, training_graph=True)
    assert again["account"].tolist() == frame["account"].tolist()


def test_rows_of_the_training_graph_go_to_the_nodes_they_are_about(tmp_path: Path) -> None:
    """Rows of an extended model are in the order of arrival, and tables are read in that of ids; without ids nobody is known."""
    names = np.random.default_rng(0).permutation([f"a{k:03}" for k in range(GRAPH.num_nodes)])
    whole = dataclasses.replace(GRAPH, node_ids=names)
    model = model_of("votes-edp", max_rounds=1).fit(whole.first_nodes(100)).extend(whole)
    row = {name: k for k, name in enumerate(model.node_ids)}
    places = [row[name] for name in names]
    assert places != sorted(places)
    assert np.array_equal(model.predict_proba(whole, training_graph=True), model.predict_proba()[places])
    fitted = model_of("votes-edp", max_rounds=1).fit(whole)
    fitted.save(tmp_path / "run")
    with pytest.raises(InputError, match="training graph must have the ids of the model"):
        cb.load(tmp_path / "run").predict_proba(dataclasses.replace(GRAPH, node_ids=None), training_graph=True)


# -- a cell of a notebook that is run twice ----------------------------------------------------------------------------


def test_a_fit_that_is_charged_again_says_so(book: Ledger) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model_of("mlp-dp").fit(GRAPH, ledger=book)
        model_of("mlp").fit(GRAPH, ledger=book)
        model_of("mlp").fit(GRAPH, ledger=book)  # it spends nothing
    with pytest.warns(UserWarning, match="this fit was charged once more") as caught:
        model_of("mlp-dp").fit(GRAPH, ledger=book)
    said, total = str(caught[0].message), book.total(GRAPH.name, "node")
    assert f"release 4 of {GRAPH.name!r} in {book.path}, after release 1 of the same kind" in said
    assert f"epsilon = {total.epsilon_spent:.4g} at delta = {total.delta:g}, node level" in said
    assert total.epsilon_spent > NODE.epsilon


# -- encoders of the user's own --------------------------------------------------------------------------------------

GROWN = cb.datasets.load("csbm:nodes=240,signal=2", seed=1)
STRANGER = cb.datasets.load("csbm:nodes=90,signal=2", seed=2)


@pytest.fixture(scope="module")
def own_encoder() -> Model:
    from sklearn.linear_model import LogisticRegression

    month = GROWN.first_nodes(200)
    return cb.Votes(cb.Budget(4), max_rounds=2, encoder=LogisticRegression()).fit(month)


def test_it_serves_another_graph_and_arrivals(own_encoder: Model) -> None:
    assert own_encoder.release(STRANGER).probabilities.shape == (90, 4)
    later = own_encoder.extend(GROWN, spend=True)
    assert later.predict_proba().shape == (240, 4)
    assert later.release(STRANGER.renamed("again")).probabilities.shape == (90, 4)


def test_a_saved_model_asks_for_probabilities_before_anything_is_charged(own_encoder: Model, tmp_path: Path) -> None:
    own_encoder.save(tmp_path / "run")
    loaded, ledger = cb.load(tmp_path / "run"), tmp_path / "ledger.json"
    with pytest.raises(InputError, match=r"graph must come with class probabilities.*with_prior\(...\)"):
        loaded.release(cb.datasets.load("csbm:nodes=80", seed=7), ledger=ledger)
    with pytest.raises(InputError, match="graph must come with class probabilities"):
        loaded.extend(GROWN)
    assert not ledger.exists()
    even = np.full((240, 4), 0.25)
    assert loaded.extend(GROWN.with_prior(even)).predict_proba().shape == (240, 4)


def test_what_is_no_graph_is_sent_to_the_call_that_reads_it() -> None:
    network = nx.path_graph(4)
    frame = pd.DataFrame({"id": [1, 2]})
    calls = {
        "caribou.Graph.from_networkx": [network],
        "caribou.Graph.from_tables": [frame, pl.DataFrame({"id": [1]}), pa.table({"id": [1]}), (frame, frame)],
        "caribou.read_graph": ["graph.csv", Path("graph.csv")],
    }
    for call, given in calls.items():
        for data in given:
            with pytest.raises(InputError) as refused:
                Model("votes-edp", Budget(4)).fit(data)
            assert (refused.value.field, refused.value.value) == ("data", type(data).__name__)
            assert call in str(refused.value)
    with pytest.raises(InputError, match=r"got dict$"):
        Model("votes-edp", Budget(4)).fit({})
