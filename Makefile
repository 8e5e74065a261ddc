# make train   set up, train the agent on CartPole, print the result
# make compare set up, compare the agent with a uniform grid and PPO on CartPole, draw the curves
# make test    set up, run the tests
# make lowest  the tests, with the lowest versions that pyproject.toml allows
# make docs    set up, build the documentation, say where it is
# make check   set up, lint, type-check the built package, install it into clean environments

PYTHON ?= python3
VENV ?= .venv
CONSTRAINTS ?= constraints.txt
ARGS ?=
BIN := $(VENV)/bin
# Each stamp stands for a set of packages; those of the later ones come on top of the first.
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.dev_ready
DOCS_READY := $(VENV)/.docs_ready
# Python compiles a module when it is first imported: most of torch never is.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint $(CONSTRAINTS)

.PHONY: train compare test lowest docs check clean

train: $(READY)
	@$(BIN)/python scripts/train.py $(ARGS)

compare: $(READY)
	@$(BIN)/python scripts/compare.py $(ARGS)

# A worker for each of two cores; a third makes the others wait for it. Each of these would compile
# torch and all else again where the shell says that nothing is to be kept.
test: $(DEV_READY)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lowest:
	@$(PYTHON) .ci/lowest.py build/lowest.txt
	@$(MAKE) test VENV=.venv-lowest CONSTRAINTS=build/lowest.txt

docs: $(DOCS_READY)
	@rm -rf build/docs docs/api/generated
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs build/docs
	@echo "The documentation is in build/docs/index.html."

check: $(DEV_READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@rm -rf build/check
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --target build/check .
	@MYPYPATH=build/check $(BIN)/mypy -p oda_rl
	@$(BIN)/python .ci/package.py

$(READY): pyproject.toml $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; this is %d.%d. Try: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV): about a minute, once."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --editable ".[agents]"
	@touch $(READY)

$(DEV_READY): $(READY)
	@echo "Adding what tests and checks need: about a minute, once."
	@$(INSTALL) --editable ".[agents,dev,video]"
	@touch $(DEV_READY)

$(DOCS_READY): $(READY)
	@echo "Adding what the documentation needs, once."
	@$(INSTALL) --editable ".[agents,docs]"
	@touch $(DOCS_READY)

clean:
	rm -rf $(VENV) .venv-lowest build docs/api/generated *.egg-info .pytest_cache .mypy_cache .ruff_cache
