# %% [markdown]
# # A fraud graph in ten minutes
#
# A bank knows its accounts, and some of them as fraud. Who sends money to whom is secret: a model may learn from
# transfers, but what it gives away must not tell whether any two accounts have one. The tables here are generated,
# and as dirty as real ones.
#
# Open this file as a notebook in VS Code, PyCharm or Jupyter (jupytext), or run it with Python.

# %%
import tempfile
from pathlib import Path

import caribou as cb
from caribou.datasets.fraud import Bank, tables

ACCOUNTS, TRANSFERS = 5_000, 21_000
folder = Path(tempfile.mkdtemp())
transfers, accounts = tables(seed=0, bank=Bank(ACCOUNTS, TRANSFERS))
print(accounts.head(3).T)

# %% [markdown]
# ## Rules, and not a cleaned copy
#
# Without rules the tables are refused, with every problem and the rule that mends it.

# %%
try:
    cb.Graph.from_tables(transfers, accounts, name="bank")
except cb.CaribouError as error:
    print(str(error)[:600], "...")

# %%
rules = cb.ColumnRules(
    unknown=["unknown"],
    drop_unknown_ids=True,
    ignore=["opened"],
    categories={"segment": ["business", "private", "student"]},
    fills={"*": "indicator"},
)
graph = cb.Graph.from_tables(transfers[["sender", "receiver"]], accounts, name="bank", rules=rules)
print(graph, graph.class_counts)

# %% [markdown]
# ## Features alone, and votes of neighbours at ε = 4
#
# One account in 25 is fraud, so accuracy says little. Average precision is the mean share of fraud among those that
# are flagged first.

# %%
ledger = cb.Ledger(folder / "ledger.sqlite")
ledger.set_budget("bank", cb.Budget(8))
alone = cb.Model("mlp", cb.Budget(4), metric="ap").fit(graph)
votes = cb.Votes(cb.Budget(4), metric="ap").fit(graph, ledger=ledger)
average_precision = {"features alone": alone.score(metric="ap"), "votes": votes.score(metric="ap")}
print(average_precision)

# %% [markdown]
# ## What it cost, and what is not protected

# %%
print(ledger.total("bank", "edge").epsilon_left, "of epsilon are left")
print(votes.certificate.status, "-", votes.budget.unit.unprotected)
print(
    f"an attacker who may be wrong once in 100 finds {votes.certificate.attack_success['presence']['0.01']:.0%} of the transfers"
)

# %% [markdown]
# A second fit is a second release. The ledger is charged again, and a warning says so. What is fitted gives its
# predictions for nothing.
#
# ## Predictions, with their ids
#
# Rows of `predict_proba` are in the order of the ids, not of your table. The frame has both: join by the id.

# %%
scored = accounts[["id", "segment"]].merge(votes.predictions_frame(), on="id")
print(scored.sort_values("p_fraud", ascending=False).head())

# %%
votes.save(folder / "run")
print(sorted(path.name for path in (folder / "run").iterdir()))
assert cb.verify(votes.certificate).passed
