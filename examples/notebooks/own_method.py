# %% [markdown]
# # A method of your own
#
# A method is a frozen dataclass of public settings with four functions. `plan` says from public numbers what will be
# released and what it costs; `fit` alone reads edges, with noise that it is handed; `predict` and `settings` read
# neither. Certificate, ledger, saving and auditing then work as for the methods of the library.
# `examples/own_method.py` holds the method that is used here, in 30 lines.

# %%
import inspect
import sys
import tempfile
from pathlib import Path

import caribou as cb

NODES = 1_000
here = Path(globals().get("__file__", "cell")).resolve()  # a notebook has no file: then the working folder counts
examples = next(folder for folder in here.parents if (folder / "examples/own_method.py").is_file())
sys.path.insert(0, str(examples / "examples"))
from own_method import LabelCounts

print(inspect.getsource(LabelCounts.plan))

# %% [markdown]
# `cb.register` has given it the name `label-counts`. What the library cannot know is declared: `own_mechanism` states
# the theorem.

# %%
graph = cb.datasets.load("csbm", nodes=NODES, seed=1)
folder = Path(tempfile.mkdtemp())
scores = {}
for epsilon in (0.5, 4.0, 16.0):
    model = cb.Model("label-counts", cb.Budget(epsilon)).fit(graph)
    scores[epsilon] = model.score()
print({epsilon: f"{score:.0%}" for epsilon, score in scores.items()})

# %% [markdown]
# ## It is charged, saved and verified like any other
#
# The certificate says that the method is your own code, and that the library has not checked the theorem.

# %%
ledger = cb.Ledger(folder / "ledger.sqlite")
model = cb.Model("label-counts", cb.Budget(4), smoothing=2.0).fit(graph, ledger=ledger)
model.save(folder / "run")
print(cb.load(folder / "run"), ledger.total(graph.name, "edge").epsilon_spent)
print([assumption.name.value for assumption in model.certificate.assumptions])
assert cb.verify(model.certificate).passed

# %% [markdown]
# In the shell: `caribou --methods examples/own_method.py train label-counts --dataset csbm:nodes=600 --epsilon 4`,
# and `audit` likewise. The audit is what finds a wrong theorem: the notebook `audit.py` shows one.
