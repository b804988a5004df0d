# `make help` lists the targets. Each sets up .venv first, once, and again when the lock or pyproject.toml changes.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory --no-builtin-rules

BIN := .venv/bin
PY := $(BIN)/python
STAMP := .venv/stamp
TYPED := $(wildcard src tests bench simulators)
LINTED := $(wildcard src tests bench simulators examples scripts)
# Most tests wait for processes and clusters, so two run on each core.
WORKERS ?= 4
KILLS ?= 1000
FAULTS ?= 500
INPUTS ?= 10000
# Without root, tests that need root are left out with a message. Tests that need PyTorch have their own target.
NOT_ROOT := $(if $(filter-out 0,$(shell id -u)),and not root)

# A virtual environment has absolute paths, so it is made again after its folder was moved.
ifneq ($(shell test -x $(PY) && cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

$(STAMP): requirements/dev.txt pyproject.toml src/gofer/_version.py
	@bash scripts/bootstrap.sh

# Bytecode is written even where PYTHONDONTWRITEBYTECODE is set, so that gofer starts as fast as an installed package.
.PHONY: ready
ready: $(STAMP)
	@$(PY) -I -m compileall -q src

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## train a small model on this machine through gofer
	@[ "$$(cat $(STAMP) 2>/dev/null || cat .venv/run-stamp 2>/dev/null)" = "$(CURDIR)" ] || bash scripts/bootstrap.sh run
	@$(PY) -I -m compileall -q src
	@bash scripts/demo.sh

.PHONY: test
test: check ready ## checks and the tests of gofer; as root it installs the Debian packages the tests need
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@$(if $(NOT_ROOT),:,PYTHONPATH=tests $(PY) -m clusters k8s build)
	@$(if $(NOT_ROOT),echo 'not root: the tests marked `root` are left out',:)
	@echo 'the tests marked `torch` are left out; `make test-torch` runs them'
	@echo 'the tests of simulators, benches and drills, and some of the conformance columns, are left out; `make test-all` runs them too'
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not torch and not wide $(NOT_ROOT)" --ignore tests/equipment $(ARGS)

.PHONY: test-all
test-all: check ready ## everything that `make test` runs, all conformance columns, and the tests of simulators, benches and drills
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m clusters k8s build --simulated 1 --kueue
	@$(if $(NOT_ROOT),echo 'not root: the tests marked `root` are left out',:)
	@echo 'the tests marked `torch` are left out; `make test-torch` runs them'
	@$(BIN)/pytest -n $(WORKERS) --dist loadgroup -m "not torch $(NOT_ROOT)" $(ARGS)

.PHONY: test-unit
test-unit: ready ## the pure tests: no processes, no network, under a minute
	@$(BIN)/pytest -n $(WORKERS) -m "not root" tests/unit $(ARGS)

.PHONY: test-torch
test-torch: ready ## the tests of DDP; installs PyTorch, about 1 GB, into .venv-torch
	@bash scripts/apt-packages.sh
	@bash scripts/torch-venv.sh
	@GOFER_TEST_TORCH=$(CURDIR)/.venv-torch/bin/python $(BIN)/pytest -m "torch $(NOT_ROOT)" $(ARGS)

.PHONY: check
check: $(STAMP) ## ruff, mypy --strict, import-linter, the oldest Python of nodes, and the site of docs/ if a page changed
	@$(BIN)/ruff check --quiet $(LINTED)
	@$(BIN)/ruff format --check --quiet $(LINTED) || { echo 'hint: `make format`' >&2; exit 1; }
	@$(BIN)/mypy $(TYPED)
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/vermin --quiet --processes=1 --no-tips --violations --target=3.8- $(addprefix src/gofer/,core objects node queue remote)
	@bash scripts/docs.sh check

.PHONY: docs
docs: $(STAMP) ## write docs/cli.md from the commands, and docs/ as a site in .site
	@bash scripts/docs.sh

.PHONY: format
format: $(STAMP) ## format the code with ruff
	@$(BIN)/ruff check --quiet --select I --fix $(LINTED)
	@$(BIN)/ruff format $(LINTED)

.PHONY: bench
bench: ready ## compare gofer with its peers; results in bench/RESULTS.md
	@$(PY) -m bench $(ARGS)

.PHONY: bench-data
bench-data: ready ## compare transfers with azcopy, rclone and the Azure SDK; results in bench/RESULTS.md
	@$(PY) -m bench f $(ARGS)

.PHONY: bench-slurm
bench-slurm: ready ## compare gofer on a real Slurm with sbatch and submitit; results in bench/RESULTS.md
	@bash scripts/apt-packages.sh
	@PYTHONPATH=tests $(PY) -m bench g $(ARGS)

.PHONY: bench-azure
bench-azure: ready ## compare gofer on a simulated Azure ML with the SDK azure-ai-ml; results in bench/RESULTS.md
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m bench h $(ARGS)

.PHONY: bench-k8s
bench-k8s: ready ## compare gofer on a real Kubernetes with kubectl, torchx and Kubeflow's SDK; results in bench/RESULTS.md
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m bench i $(ARGS)

.PHONY: drill
drill: ready ## the whole fault drill: KILLS=1000 kills at random points
	@PYTHONPATH=tests $(PY) -m drill --kills $(KILLS) $(ARGS)

.PHONY: drill-elastic
drill-elastic: EVENTS ?= 10000
drill-elastic: ready ## random membership events in simulated elastic runs: EVENTS=10000
	@PYTHONPATH=tests $(PY) -m elasticdrill --events $(EVENTS) $(ARGS)

.PHONY: fuzz
fuzz: ready ## random and hostile input for the command line: INPUTS=10000 in each area
	@cd tests && PYTHONPATH=. ../$(PY) -m fuzz --inputs $(INPUTS) $(ARGS)

.PHONY: slurm-up
slurm-up: ready ## start a real Slurm with three nodes in .clusters/slurm; ARGS="--accounting --namespaces"
	@bash scripts/apt-packages.sh
	@PYTHONPATH=tests $(PY) -m clusters slurm up $(ARGS)

.PHONY: slurm-down
slurm-down: ready ## stop it
	@PYTHONPATH=tests $(PY) -m clusters slurm down $(ARGS)

.PHONY: ssh-up
ssh-up: ready ## start two SSH hosts in .clusters/ssh; ARGS="--slurm .clusters/slurm" adds a login node
	@bash scripts/apt-packages.sh
	@PYTHONPATH=tests $(PY) -m clusters ssh up $(ARGS)

.PHONY: ssh-down
ssh-down: ready ## stop them
	@PYTHONPATH=tests $(PY) -m clusters ssh down $(ARGS)

.PHONY: k8s-build
k8s-build: ready ## build the programs of the test cluster k8s, once for this user; GOFLAGS=-p=1 takes one core
	@bash scripts/apt-packages.sh
	@PYTHONPATH=tests $(PY) -m clusters k8s build $(ARGS)

.PHONY: k8s-up
k8s-up: ready ## start a real Kubernetes in .clusters/k8s; ARGS="--nodes 5 --simulated 1000 --kueue"
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m clusters k8s up $(ARGS)

.PHONY: k8s-down
k8s-down: ready ## stop it
	@PYTHONPATH=tests $(PY) -m clusters k8s down $(ARGS)

.PHONY: k8s-fault
k8s-fault: ready ## break it: ARGS="crash node1"; without ARGS, what can be broken
	@PYTHONPATH=tests $(PY) -m clusters k8s fault $(ARGS)

.PHONY: k8s-heal
k8s-heal: ready ## mend all faults of it
	@PYTHONPATH=tests $(PY) -m clusters k8s heal $(ARGS)

.PHONY: k8s-scale
k8s-scale: ready ## give it more or fewer nodes: ARGS="--nodes 5"
	@PYTHONPATH=tests $(PY) -m clusters k8s scale $(ARGS)

.PHONY: azure-sim
azure-sim: ready ## start a simulated Azure ML in .clusters/azure and print how to use it
	@bash scripts/test-services.sh
	@bash scripts/azure-sim.sh up

.PHONY: azure-sim-down
azure-sim-down: ## stop it
	@bash scripts/azure-sim.sh down

.PHONY: drill-lines
drill-lines: ready ## submissions over SSH and to Slurm while connections fail: FAULTS=500
	@bash scripts/apt-packages.sh
	@PYTHONPATH=tests $(PY) -m slurm.submission_drill --faults $(FAULTS)
	@PYTHONPATH=tests $(PY) -m linedrill --faults $(FAULTS) $(ARGS)

.PHONY: drill-azure
drill-azure: FAULTS = 1000
drill-azure: ready ## submissions to a simulated Azure ML that fails: FAULTS=1000
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m azuredrill --faults $(FAULTS) $(ARGS)

.PHONY: drill-k8s
drill-k8s: FAULTS = 10000
drill-k8s: REAL = 300
drill-k8s: ready ## runs on a real Kubernetes whose API, pods, nodes and servers fail: FAULTS=10000 REAL=300
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(PY) -m k8sdrill --faults $(FAULTS) --real $(REAL) $(ARGS)

.PHONY: support
support: ready ## write docs/support.md from the results of the conformance suite on every backend
	@bash scripts/apt-packages.sh
	@bash scripts/test-services.sh
	@PYTHONPATH=tests $(BIN)/pytest -q -p support_table --support-table docs/support.md \
		tests/local/test_conformance.py tests/ssh/test_conformance.py tests/slurm/test_conformance.py tests/slurm/test_over_ssh.py \
		tests/azureml/test_conformance.py tests/k8s/test_conformance.py

.PHONY: venv
venv: ready ## only set up .venv

.PHONY: lock
lock: ## update requirements/*.txt from pyproject.toml; UPGRADE=1 takes newer versions
	@bash scripts/lock.sh

.PHONY: wheel
wheel: $(STAMP) ## build dist/gofer-VERSION-py3-none-any.whl, to install on any machine with pip, pipx or uv
	@rm -rf dist
	@$(BIN)/hatchling build -t wheel

.PHONY: clean
clean: ## remove everything that make created, .venv included
	@if [ -d .clusters ]; then $(MAKE) slurm-down ssh-down k8s-down azure-sim-down; fi
	@rm -rf .clusters .site .venv .venv-docs .venv-lock .venv-torch .demo .bench dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@rm -rf examples/*/assets examples/*/out examples/*/output
	@find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
