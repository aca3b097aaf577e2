# Every target sets up what it needs: Python 3.11 and a clone are enough.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Stamps of one environment: the package alone, and with its extras and the tools.
READY_DEMO := $(VENV)/.ready-demo
READY_TEST := $(VENV)/.ready-test
READY_DOCS := $(VENV)/.ready-docs
# Keep compiled Python, whatever the shell says: without it each process of a test compiles anew.
export PYTHONDONTWRITEBYTECODE :=
EXTRAS := dev,torchjd,ray,mlflow,tensorboard,wandb,transformers,text,peft,lightning,sign,parquet,hf

.PHONY: help venv demo test thorough lint types unit docs package versions fuzz acceptance bench results format clean

help: ## Show the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(READY_TEST) ## Create .venv and install the package with its extras and tools.

$(READY_DEMO): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) -e .
	@touch $@

$(READY_TEST): $(READY_DEMO)
	$(PIP) -e '.[$(EXTRAS)]'
	@touch $@

demo: $(READY_DEMO) ## A deletion request and the paper's table, on digits, in a minute; writes demo/.
	$(BIN)/expunge demo --out demo --force

test: lint types unit ## Lint, format check, types, doctests and tests.

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

unit: venv
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

thorough: venv ## Tests that take long: kills, clusters, scripts, further cases. ARGS goes to pytest.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile -m thorough $(ARGS)

$(READY_DOCS): $(READY_TEST)
	$(PIP) -e '.[docs]'
	@touch $@

docs: $(READY_DOCS) ## Run every code block of the pages, build the site into build/site, and check it.
	OMP_NUM_THREADS=1 $(BIN)/python docs/_site/execute.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --strict
	$(BIN)/python -m pytest -m docs tests/unit/test_docs.py

package: venv ## Build wheel and sdist, and use them in empty environments; ten minutes.
	$(BIN)/python -m pytest -m package --timeout 3600 -p no:xdist tests/unit/test_packages.py

versions: ## Test with other interpreters and versions of torch, as far as they are here.
	bash tests/versions.sh

fuzz: venv ## All bad input there is, and a kill at every write; writes the counts into SECURITY.md.
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.kills

acceptance: venv ## Long runs on real data; set EXPUNGE_CIFAR10 to a folder that holds it.
	$(BIN)/python -m pytest -m slow --timeout 7200

bench: venv ## Side-by-side speed ratios; two hours, on an otherwise idle machine.
	$(BIN)/python benchmarks/update.py
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/job.py
	$(BIN)/python benchmarks/growth.py

STORE ?= bench-store
results: venv ## Resume the benchmarks and write them into results/ and docs/; DATA holds CIFAR-10 and SVHN.
	@test -n "$(DATA)" || { echo "Say where CIFAR-10 and SVHN are: make results DATA=DIR"; exit 1; }
	test -d $(STORE) || { mkdir $(STORE) && for archive in results/*/store*.tar.xz; do \
		tar -xJf $$archive -C $(STORE) --strip-components=1; done; }
	$(BIN)/expunge bench run paper-eighth --data $(DATA) --store $(STORE) --out results/paper-eighth
	$(BIN)/expunge bench run rivals --data $(DATA) --store $(STORE) --out results/rivals
	$(BIN)/expunge bench run paper-mini --data $(DATA) --store $(STORE) --out results/paper-mini
	$(BIN)/python docs/_site/reproduction.py
	$(BIN)/python docs/_site/paper_mini.py
	$(BIN)/python docs/_site/paper_order.py
	$(BIN)/python docs/_site/readme_figure.py

format: venv ## Format the code and fix what can be fixed.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove the environment and caches.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
