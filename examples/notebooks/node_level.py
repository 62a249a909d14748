# %% [markdown]
# # Node level: a person is a node
#
# At edge level one transfer is protected, and features and labels count as public. Here a whole account is: its
# features, its label and all its transfers. That takes more noise, and more has to be declared, because one person's
# cell must not decide about anybody else's: ranges, categories, fills and classes.

# %%
import math

import caribou as cb
from caribou.datasets.fraud import RANGES, SEGMENTS, Bank, tables

ACCOUNTS, TRANSFERS = 5_000, 21_000
transfers, accounts = tables(seed=0, bank=Bank(ACCOUNTS, TRANSFERS))
edges = transfers[["sender", "receiver"]]

# %% [markdown]
# ## What is learned from the table is refused

# %%
learned = cb.ColumnRules(
    unknown=["unknown"],
    drop_unknown_ids=True,
    ignore=["opened"],
    categories={"segment": None},
    fills={"*": "indicator"},
)
try:
    cb.Graph.from_tables(edges, accounts, name="bank", rules=learned, classes=["fraud", "ok"], unit="node")
except cb.CaribouError as error:
    print(str(error)[:400], "...")

# %% [markdown]
# ## Declared from the meaning of each column
#
# `RANGES` is what the bank knows before it looks: an age is from 18 to 95. The rules enter the certificate.

# %%
declared = cb.ColumnRules(
    unknown=["unknown"],
    drop_unknown_ids=True,
    ignore=["opened"],
    categories={"segment": SEGMENTS},
    fills={"*": "indicator"},
    ranges=RANGES,
)
graph = cb.Graph.from_tables(edges, accounts, name="bank", rules=declared, classes=["fraud", "ok"], unit="node")

# %% [markdown]
# ## A budget from a risk
#
# How much may an attacker gain who knows everything about everybody else? At most 10 true positives in 100 at one
# false one in 100:

# %%
risk = cb.Budget.for_risk(tpr=0.1, at_fpr=0.01, unit="node")
print("from a risk of 10 %:", risk)
scores = {}
for epsilon in (risk.epsilon, 8.0, math.inf):
    model = cb.Model("mlp-dp", cb.Budget(epsilon, 1e-5, "node")).fit(graph)
    scores[epsilon] = model.score(metric="auc")
print({f"epsilon {epsilon:g}": f"AUC {auc:.2f}" for epsilon, auc in scores.items()})

# %% [markdown]
# These figures are for the curator: they read private labels. Figures for others get noise, and cost budget:

# %%
model = cb.Model("mlp-dp", cb.Budget(8, 1e-5, "node")).fit(graph)
published = model.publish_metrics(1.0)
print("balanced accuracy, to be published:", published.to_dict()["balanced_accuracy"])
print(model.certificate.public_parameters["column_rules"]["ranges"]["age"])
assert cb.verify(model.certificate).passed
assert cb.verify(published.certificate).passed
