# Every target makes its own .venv from pyproject.toml and constraints.txt; nothing but Python 3.11+ and make is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than two cores: tests of silos and coordinators wait for each other's processes.
JOBS ?= 3
# One BLAS thread per process: agents, not matrix products, are what runs in parallel.
export OPENBLAS_NUM_THREADS := 1
export OMP_NUM_THREADS := 1
export MPLBACKEND := Agg

CORE := --extend-exclude 'src/dpadmm/(federation/(https|admin)/|data/cluster.py)' --optional-dependencies-dev-groups cluster,dev,docs,excel,federation
# Peers' packages are imported only by workers that run in the peers' own environments.
ALL := --exclude '\.venv|\.bench|benchmarks/peers/workers/(diffprivlib|opacus)_' --ignore DEP002,DEP004

.PHONY: demo test test-all lint bench bench-accuracy bench-peers docs clean

$(VENV)/.installed: pyproject.toml research/pyproject.toml contrib/flower/pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'dpadmm needs Python 3.11 or newer')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[cluster,dev,docs,excel,federation]" -e ./research -e ./contrib/flower
	touch $@

demo: $(VENV)/.installed
	$(BIN)/dpadmm demo

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
# Every import of src is declared and every dependency used; the core imports no extra; tests import declared ones.
	$(BIN)/deptry src
	$(BIN)/deptry src $(CORE)
	$(BIN)/deptry src tests examples benchmarks docs $(ALL)
	cd research && ../$(BIN)/deptry src
	cd contrib/flower && ../../$(BIN)/deptry src

test: lint
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --durations 25 -m "not slow" --hypothesis-profile quick

test-all: lint
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --durations 25

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/run.py

# Real data, about twenty minutes; ARGS="--sets breast --runs 40" measures a part of it, or more often.
bench-accuracy: $(VENV)/.installed
	$(BIN)/python benchmarks/accuracy.py $(ARGS)

# Beside diffprivlib, Opacus and others, in environments of their own under .bench; under an hour. ARGS="--sets heart" for a part.
bench-peers: $(VENV)/.installed
	$(BIN)/python research/benchmarks/bench_peers.py $(ARGS)

docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --config-file research/mkdocs.yml

clean:
	rm -rf $(VENV) .bench site research/site build dist .pytest_cache .mypy_cache .ruff_cache
