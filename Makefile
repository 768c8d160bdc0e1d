# The menu. `make demo` and `make test` do everything on a fresh machine with Python 3.11, git and make.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
SECONDS ?= 3600
SEED ?= 0
BENCHES := pretrain adapt evaluate inference classifier serve

.PHONY: demo test check browser format docs bench fuzz clean

demo: $(VENV)/installed
	$(BIN)/implanting demo

test: check browser
	$(BIN)/pytest -n 2 --dist worksteal

check: $(VENV)/installed-dev  ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

browser:  ## chromium, which the tests of the page drive; installed where that is possible
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq \
	&& apt-get install -y -qq chromium fonts-dejavu-core > /dev/null; } \
	|| echo "chromium is missing, so the tests of the page are left out: install it (Debian: apt-get install chromium)"

format: $(VENV)/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/installed-dev  ## the static site, in site/; a broken link fails
	$(BIN)/mkdocs build --strict

bench: $(VENV)/installed
	for subject in $(BENCHES); do $(BIN)/implanting bench $$subject || exit; done

fuzz: $(VENV)/installed-dev  ## hostile input for as long as one likes: make fuzz SECONDS=3600 SEED=1
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS) --seed $(SEED)

clean:
	rm -rf $(VENV) build dist site fuzz-failures .mypy_cache .ruff_cache .pytest_cache

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[serve]'
	touch $@

$(VENV)/installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/installed
