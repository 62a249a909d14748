"""The whole audit: both doors of a method are watched, and a claim is held against what was asked for."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.known_bad_mechanisms.node_level import ExactHubs, ExactTestRows
from audit.known_bad_mechanisms.whole_methods import (
    CheapFit,
    CleanFit,
    CleanPredict,
    CleanRelease,
    ExactOnLargeGraphs,
    HalfNoiseInTheFit,
    KeptAnswers,
    LargerClaim,
    LargerSensitivityOfTheFit,
    Sound,
)
from caribou import methods
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.auditor import Audit, Outcome
from caribou.audit.distinguish import claim_about, covered_pairs
from caribou.audit.evidence import OneRun
from caribou.audit.pairs import worst_pairs
from caribou.audit.verdict import CONSISTENT, INCONCLUSIVE, VIOLATED
from caribou.errors import InputError
from caribou.graph import Graph, Split
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import Method
from caribou.methods.mlp import MlpDp
from caribou.methods.sage import SageEdge, SageNdp
from caribou.privacy.budget import Budget
from caribou.privacy.events import Gaussian
from caribou.privacy.mechanism_records import Group
from caribou.randomness import Streams

pytestmark = pytest.mark.usefixtures("remembered_accounts")


def audit(method: Method, epsilon: float = 4.0, runs: int = 400, **settings: Any) -> Outcome:
    audited = AuditedMethod("mine", method, Budget(epsilon, 1e-5))
    return Audit(audited, ("distinguish",), runs, workers=1, **settings).run()


def test_a_sound_method_is_consistent_and_its_fits_need_no_game() -> None:
    outcome = audit(Sound())
    assert outcome.verdict.word == CONSISTENT, outcome.verdict.reasons
    assert list(outcome.proofs) == ["distinguish"]
    assert "noisy values are the same" in outcome.to_json()["skipped"]["fit"]


def test_fits_and_predictions_are_both_watched() -> None:
    for method, runs, games in [
        (CleanFit(), 120, ["fit"]),
        (HalfNoiseInTheFit(), 280, ["fit"]),
        (LargerSensitivityOfTheFit(), 120, ["fit"]),
        (CleanRelease(), 120, ["distinguish"]),
        (CleanPredict(), 160, ["distinguish", "fit"]),
    ]:
        outcome = audit(method, runs=runs)
        assert outcome.verdict.word == VIOLATED
        assert [name for name, evidence in outcome.proofs.items() if evidence.rejects_claim] == games, method


def test_all_lower_bounds_share_the_error_of_the_audit() -> None:
    outcome = audit(CleanFit(), runs=40)
    assert {evidence.confidence for evidence in outcome.proofs.values()} == {1 - 0.05 / 2}
    audited = AuditedMethod("mine", CleanFit(), Budget(4.0, 1e-5), small_graph(4))
    outcome = Audit(audited, ("distinguish", "onerun", "lira"), 40, workers=1).run()
    assert list(outcome.proofs) == ["distinguish", "fit", "onerun"]
    assert {proof.confidence for proof in outcome.proofs.values()} == {1 - 0.05 / 3}


def test_an_attack_that_cannot_be_made_says_why() -> None:
    for method, budget, skipped in (
        (Sound(), Budget(4.0, 1e-5), {"onerun": "it attacks a graph; give a data set"}),
        (
            MlpDp(),
            Budget(4.0, 1e-5, "node"),
            {"onerun": "it judges claims at edge level, and this claim is at node level"},
        ),
        (
            SageEdge(epochs=1, hidden=2),
            Budget(math.inf),
            {"onerun": "no privacy is claimed, so there is nothing to reject"},
        ),
    ):
        outcome = Audit(AuditedMethod("mine", method, budget), ("onerun",)).run()
        assert outcome.skipped == skipped
        assert not outcome.proofs
    with pytest.raises(InputError, match=r"attack must be one of distinguish, .*, got magic"):
        Audit(AuditedMethod("mine", Sound(), Budget(1.0)), ("magic",))


def test_the_noise_replay_alone_says_what_it_found_and_proves_nothing() -> None:
    notes = {}
    for method in (Sound(), CleanFit()):
        outcome = Audit(AuditedMethod("mine", method, Budget(4.0, 1e-5)), ("noise-replay",)).run()
        assert outcome.verdict.word == INCONCLUSIVE
        notes[type(method).__name__] = outcome.notes
    assert notes["Sound"][0] == "noise-replay: a fit reads edges through its noise alone"
    assert "fits differ in predictions, probabilities, weights.bias; a game of" in notes["CleanFit"][0]
    transductive = AuditedMethod("mine", Sound(), Budget(4.0, 1e-5), transductive=True)
    (only,) = Audit(transductive, ("noise-replay",)).run().notes
    assert "values under the noise move by at most 100 % of what it hides" in only


def test_a_prediction_is_judged_by_its_own_certificate() -> None:
    outcome = audit(CheapFit(), runs=40)
    assert outcome.verdict.word != VIOLATED, outcome.verdict.reasons
    claims = {name: evidence.claim.mu for name, evidence in outcome.proofs.items()}
    assert claims["distinguish"] == pytest.approx(3 * claims["fit"], rel=1e-3)


def small_graph(canaries: int) -> Graph:
    n = 2 * canaries
    split = Split(np.arange(canaries), [], np.arange(canaries, n))
    return Graph.from_edges(
        np.zeros((n, 1)), np.empty((2, 0), dtype=int), labels=np.arange(n) % 2, split=split, num_classes=2
    )


def test_a_part_that_cannot_be_made_leaves_the_others() -> None:
    audited = AuditedMethod("mine", Sound(), Budget(4.0, 1e-5), small_graph(1))
    outcome = Audit(audited, ("distinguish", "onerun"), 40, workers=1).run()
    assert list(outcome.proofs) == ["distinguish"]
    assert "room for" in outcome.skipped["onerun"]
    alike = replace(outcome, proofs={"onerun": OneRun(outcome.verdict.claim, 2, 2, 1, 0.95, None, 0)})
    assert alike.to_json()["attacks"]["onerun"]["game"]["guesses"] == 2


def test_the_certificate_of_a_saved_run_is_compared_with_that_of_the_fits() -> None:
    budget = Budget(4.0, 1e-5)
    here = methods.fit(Sound(), small_graph(2), budget, Streams(0), NoiseSource.seeded(0)).certificate
    cheaper, dearer = (
        replace(here, mechanisms=(replace(here.mechanisms[0], paid={Group.EVERY_EDGE: (Gaussian(noise),)}),))
        for noise in (20.0, 0.5)
    )
    same, less, more = (
        audit(Sound(), runs=40, stored=stored, subject="the method of r") for stored in (here, cheaper, dearer)
    )
    assert same.subject == "the method of r"
    assert [note.split(":")[0] for note in same.notes[1:]] == ["the stored certificate is void"]
    assert "the stored certificate costs epsilon = 0.1" in less.notes[1]
    assert more.verdict.word == VIOLATED
    assert more.verdict.reasons[0].startswith("as it is stored, the certificate claims epsilon = 9.99")


def test_a_claim_beyond_what_was_asked_for_is_violated() -> None:
    outcome = audit(LargerClaim(), epsilon=1.0, runs=40)
    assert outcome.verdict.word == VIOLATED
    assert "claims epsilon = 8" in outcome.verdict.reasons[0]
    assert "epsilon = 1.0" in outcome.verdict.reasons[0]


def test_nodes_of_every_part_and_hubs_are_played() -> None:
    """Nothing about a training node with two neighbours shows these leaks."""
    for method, pair in [(ExactTestRows(), "a test node"), (ExactHubs(), "every other node")]:
        audited = AuditedMethod("mine", method, Budget(8.0, 1e-5, "node"))
        outcome = Audit(audited, ("distinguish",), 120, workers=1).run()
        assert outcome.verdict.word == VIOLATED
        assert pair in outcome.proofs["distinguish"].pair


def test_every_node_is_played_against_what_its_degree_is_promised() -> None:
    method = SageNdp(declared_degree=2)
    audited = AuditedMethod("mine", method, Budget(8.0, 1e-5, "node"))
    played, left = covered_pairs(audited)
    assert (len(played), left) == (len(worst_pairs("node")), [])
    claims = {pair.degree: claim_about(audited.fitted.certificate, pair).epsilon for pair in played}
    assert all(claims[more] >= claims[fewer] for fewer, more in itertools.pairwise(sorted(claims)))
    assert max(claims.values()) > 8.0 > min(claims.values())


def test_a_leak_on_large_graphs_alone_is_found_by_canaries_in_the_graph_of_the_user() -> None:
    audited = AuditedMethod("mine", ExactOnLargeGraphs(), Budget(1.0, 1e-5), small_graph(60))
    outcome = Audit(audited, ("distinguish", "onerun"), 40, workers=1).run()
    assert outcome.verdict.word == VIOLATED
    assert not outcome.proofs["distinguish"].rejects_claim
    assert outcome.proofs["onerun"].rejects_claim


def test_answers_that_were_kept_from_another_run_are_not_taken_for_privacy() -> None:
    audited = AuditedMethod("mine", KeptAnswers(), Budget(8.0, 1e-5), transductive=True)
    outcome = Audit(audited, ("distinguish",), 200, workers=1).run()
    assert outcome.verdict.word == INCONCLUSIVE
    assert "every run handed out the same numbers" in outcome.verdict.reasons[-1]
