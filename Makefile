# `make demo` and `make test` work as the first command on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= auto
# Without a GPU: make setup TORCH_FROM='--index-url CPU_INDEX', with the index of CPU builds that pytorch.org names, leaves out CUDA.
TORCH_FROM ?=
HASHES := hashes/core.txt hashes/train.txt hashes/work.txt
STAMP  := $(VENV)/.installed

.PHONY: setup demo test test-fast lint format docs cli-reference settings-reference samples pictures test-counts result-pages report reproduce pack-records bench bench-methods mutants browser-tools object-store hashes sbom vulnerabilities clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt $(HASHES)
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo 'installing into $(VENV), a few minutes and several hundred MB the first time'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	# every package by the hash of its files, but torch, whose builds have one version and many files; a build with CUDA brings more
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes $(HASHES:%=-r %)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH_FROM) "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@touch $@

demo: setup
	$(BIN)/python examples/demo.py

test: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

test-fast: setup
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow"

# The accessibility check of pages in tests; they skip it without. Chromium comes from the system's packages.
browser-tools:
	npm install --silent --no-save --no-package-lock --ignore-scripts axe-core@4

# A server of S3 for the tests, in an environment of its own: its packages want an older dateutil than ours.
object-store:
	test -x .object-store/bin/moto_server || { $(PYTHON) -m venv .object-store && .object-store/bin/pip install --quiet 'moto[server]==5.2.5'; }

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

cli-reference: setup
	$(BIN)/python scripts/cli_reference.py > docs/cli.md

settings-reference: setup
	$(BIN)/python scripts/settings_reference.py > docs/settings.md

# The runs behind the gallery of the site; some minutes.
samples: setup
	$(BIN)/python scripts/sample_runs.py

pictures: setup
	$(BIN)/python scripts/degree_curves.py
	PYTHONPATH=. $(BIN)/python scripts/site_pictures.py

# The counts of docs/testing.md, from the tests that exist.
test-counts: setup
	$(BIN)/python scripts/test_counts.py

result-pages: setup
	$(BIN)/python -m reproduction.pages

report: setup
	$(BIN)/caribou report --out report

reproduce: setup
	$(BIN)/caribou reproduce all --scale laptop

pack-records: setup
	$(BIN)/python reproduction/pack.py

bench: setup
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/others.py
	$(BIN)/python benchmarks/soak.py

# Which constants of the privacy calculus no test attacks; most of an hour.
mutants: setup
	$(BIN)/python scripts/mutants.py

# After a version in constraints.txt was changed and installed.
hashes:
	$(BIN)/python scripts/hashes.py

sbom: setup
	$(BIN)/python scripts/sbom.py > sbom.json

# Known vulnerabilities of what is pinned; needs a network. The tool has an environment of its own.
vulnerabilities:
	test -x .pip-audit/bin/pip-audit || { $(PYTHON) -m venv .pip-audit && .pip-audit/bin/pip install --quiet pip-audit==2.10.1; }
	@$(PYTHON) scripts/vulnerabilities.py .pip-audit/bin/pip-audit

bench-methods: setup
	$(BIN)/python benchmarks/methods.py

clean:
	rm -rf site build dist sbom.json demo-output bench-output report reproduce-output .pytest_cache .ruff_cache .mypy_cache .hypothesis
