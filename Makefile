# Everything starts from a bare machine with Python 3.10+, make, gcc and git.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Two workers on purpose: the tests start browsers, databases and torch, which bring threads of their own.
WORKERS ?= 2
STEELYARD_DATA ?= $(abspath ../shared/data)

.DEFAULT_GOAL := help
.PHONY: help setup demo test coverage lint audit bench chaos load docs browser clean

help:            ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

setup: $(STAMP)  ## make .venv with everything in it (again only when dependencies change)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(STAMP)

demo: $(STAMP)   ## draw images, answer, train, compare asking well with asking at random; then open the page
	$(BIN)/steelyard demo $(DEMO)

lint: $(STAMP)   ## style, types, careless code (ruff S), and whether what is installed is what was tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/pins.py

audit: $(STAMP)  ## known holes in dependencies, by pip-audit, which asks the internet
	$(BIN)/python .ci/audit.py

test: lint browser  ## style, types and all tests (DATA-marked ones where the data is)
	OMP_NUM_THREADS=1 STEELYARD_DATA=$(STEELYARD_DATA) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST)

coverage:        ## all tests, and the lines they do not reach; watching every line takes half as long again
	$(MAKE) test PYTEST="--cov --cov-report=term $(PYTEST)"

browser: $(STAMP)
	@.ci/chromium

bench: $(STAMP)  ## every published figure about speed and memory, as ratios measured in one run
	@STEELYARD_DATA=$(STEELYARD_DATA) $(BIN)/python benchmarks/run.py $(BENCH)

chaos: browser   ## faults at random moments while people answer; then 0 lost, 0 doubled (CHAOS="--minutes 3 --store postgresql")
	$(BIN)/python -m tests.chaos.run $(CHAOS)

load: $(STAMP)   ## 50 people on SQLite, 200 on PostgreSQL, ten minutes each, while a model trains (LOAD="--minutes 2 --people 50 --store sqlite")
ifdef LOAD
	$(BIN)/python benchmarks/server_load.py $(LOAD)
else
	$(BIN)/python benchmarks/server_load.py --minutes 10 --people 50 --store sqlite
	$(BIN)/python benchmarks/server_load.py --minutes 10 --people 200 --store postgresql
endif

docs: $(STAMP)   ## docs/*.md as HTML in site/
	$(BIN)/python docs/build.py

clean:           ## remove what was built
	rm -rf $(VENV) build dist site *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage*
