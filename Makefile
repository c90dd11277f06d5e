# What one does in this checkout. Each target makes ready what it needs first (see .ci/setup).

VENV := .venv/bin
# One more than there are cores: tests wait for most of their time.
WORKERS := $(shell expr $$(nproc) + 1)

.PHONY: help demo test torture soak check bench lock clean

help:
	@echo 'make demo    the example web application under vx watch, on http://localhost:5173'
	@echo 'make test    all tests; ARGS="-k name" picks some'
	@echo 'make torture 1,000 random process trees, ended at random: does anything survive?'
	@echo 'make soak    keys, restores, many vx on one cache, long watches, for an hour; SOAK=60 is a minute'
	@echo 'make check   style, layers and types'
	@echo 'make bench   how fast vx is, beside other tools'
	@echo 'make lock    renew the pins of the development set'
	@echo 'make clean   remove everything that the other targets made'

demo:
	@.ci/setup demo
	@echo 'Edit a file in fixtures/webapp and watch what happens; Ctrl-C ends it.'
	@cd fixtures/webapp && exec ../../$(VENV)/vx watch dev test check --all

test:
	@.ci/setup test
	$(VENV)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

torture:
	@.ci/setup test
	$(VENV)/python -m tests.harness.torture --rounds 1000 $(ARGS)

soak: export SOAK ?= 3600
soak:
	@.ci/setup test
	$(VENV)/pytest -n 8 -m soak -o faulthandler_timeout=0 $(ARGS)

check:
	@.ci/setup check
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/lint-imports
	$(VENV)/mypy

bench:
	@.ci/setup bench
	$(VENV)/python bench/tools.py
	$(VENV)/python bench/latency.py $(ARGS)

lock:
	.ci/lock

clean:
	rm -rf .venv .coverage* .hypothesis .*_cache bench/.peers fixtures/webapp/node_modules
	rm -rf fixtures/webapp/apps/web/dist fixtures/webapp/apps/web/node_modules fixtures/webapp/packages/ui/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
