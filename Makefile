# The whole ritual: `make demo` shows what it does, `make check` reads the code, `make test` runs it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
WORKERS ?= 2
RUNS ?= 200
BASE ?= debian:bookworm-slim
BUILDER ?= $(BASE)

.PHONY: demo check test test-cloud compose-test bench images clean

demo: $(VENV)/runtime
	sh scripts/demo.sh $(BIN)

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/mypy -p sandboxes -p orchestrator
	$(BIN)/lint-imports
	$(BIN)/python scripts/dashboards.py --check
	$(BIN)/python scripts/chart.py --check
	$(BIN)/python scripts/pins.py --check
	$(BIN)/python scripts/capabilities.py --check

test: $(VENV)/dev
	PYTHON=$(CURDIR)/$(BIN)/python sh scripts/prepare-tests.sh
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --reruns 1 $(TESTS)

test-cloud: $(VENV)/dev
	FANFOLD_TEST_CLOUD=1 $(BIN)/pytest -rs tests/cloud

compose-test: $(VENV)/dev
	PYTHON=$(CURDIR)/$(BIN)/python sh scripts/prepare-tests.sh
	FANFOLD_TEST_COMPOSE_RUNS=$(RUNS) $(BIN)/pytest -s --timeout 3600 tests/compose

bench: $(VENV)/dev
	PYTHON=$(CURDIR)/$(BIN)/python sh scripts/prepare-tests.sh
	$(BIN)/python -m benchmarks

images: $(VENV)/dev
	$(BIN)/python scripts/images.py build --base $(BASE) --builder $(BUILDER)
	$(BIN)/python scripts/sbom.py $$($(BIN)/python scripts/images.py names)

$(VENV)/runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: Fanfold needs Python 3.11 or later; say which one with PYTHON=..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/dev: $(VENV)/runtime
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .hypothesis .import_linter_cache
