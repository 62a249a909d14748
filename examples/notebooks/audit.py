# %% [markdown]
# # Audit: attack what you are told
#
# A certificate is a claim. An audit fits a method many times on two graphs that differ in one unit, and tries to tell
# from everything that is handed out which graph it was. What it proves is a lower bound on ε: if it exceeds the
# claim, the claim is wrong.

# %%
from dataclasses import dataclass

import numpy as np

import caribou as cb
from caribou.audit.audited_method import AuditedMethod
from caribou.audit.auditor import Audit
from caribou.methods import method_info

RUNS = 2_000
EPSILON = 4.0

# %% [markdown]
# ## A sound method

# %%
budget = cb.Budget(EPSILON, 1e-5, "node")
sound = Audit(
    AuditedMethod("mlp-dp", method_info("mlp-dp").create(), budget), attacks=("distinguish",), runs=RUNS, workers=1
).run()
print(sound.verdict.word, "-", sound.verdict.proven(), "of a claim of", EPSILON)

# %% [markdown]
# ## A faulty one
#
# It counts the labels of neighbours, as `own_method.py` does, and draws an eighth of the noise that its plan claims.


# %%
@dataclass(frozen=True)
class TooLittleNoise:
    """The plan is right, and the fit does not keep it."""

    def settings(self):
        return {}

    def plan(self, sizes, budget):
        theorem = "an edge adds 1 to one count of either end: 2 in L1; Laplace noise of scale 2 / epsilon"
        counts = cb.own_mechanism("counts of labels", theorem, budget.unit, cb.Laplace(1 / budget.epsilon))
        return cb.ReleasePlan(budget, (counts,), ("noisy counts",), "too-little-noise", {"nodes": sizes.nodes})

    def fit(self, plan, graph, streams, noise):
        split, labels = graph.for_learning(public=True)
        sent = np.zeros((graph.num_nodes, graph.num_classes))
        sent[split.train, np.array(labels)[split.train]] = 1
        counts = noise.add_laplace(graph.adjacency(np.float64) @ sent, scale=2 / plan.budget.epsilon / 8)
        believed = np.maximum(counts, 0) + 1
        return cb.Outputs(believed / believed.sum(axis=1, keepdims=True), released={"counts": counts})

    def predict(self, weights, released, graph):
        believed = np.maximum(released["counts"], 0) + 1
        return believed / believed.sum(axis=1, keepdims=True)


faulty = Audit(
    AuditedMethod("too-little-noise", TooLittleNoise(), cb.Budget(1.0), transductive=True),
    attacks=("distinguish",),
    runs=RUNS,
    workers=1,
).run()
print(faulty.verdict.word, "-", faulty.verdict.proven(), "of a claim of 1")

# %% [markdown]
# "VIOLATED" is proven. "consistent" is not a proof: another attack may do better. `caribou audit METHOD` makes all
# attacks, from the shell.

# %%
assert sound.verdict.word != "VIOLATED"
assert faulty.verdict.word == "VIOLATED"
