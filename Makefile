# The one command surface. `make` or `make help` lists it.
#
#   make run INPUT=orders.csv KEY=customer     the main job over a file of yours
#   make test ARGS="-k journey"                arguments for pytest; "-n 0" runs one test after the other
#   make test ARGS=tests/spark/test_sink.py    a file that is named, or a test in it, runs in either tier

.DEFAULT_GOAL := help
SHELL := /bin/sh
PY := .venv/bin/python
STAMP := .venv/.set-up
COMPILED := $(wildcard $(foreach room,. broker broker/apis broker/log client cluster connection host producer protocol protocol/messages reader records schemas schemas/avro schemas/protobuf simulation,src/ottla/$(room)/*.py src/ottla/$(room)/*.pxd))
ARGS ?=
# Classes that Spark loads at each of its many starts in the tests, as Java keeps them prepared; passed over where unfit.
PREPARED := .tools/spark.jsa
USE_PREPARED := SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(CURDIR)/$(PREPARED) -Xlog:cds=off -Xlog:cds+dynamic=off"

# By file, because what a file's tests share is slow to start: a cluster, Apache Kafka, a Spark session. Which worker runs
# which file is up to tests/scheduling.py.
# Where one test hangs, the others are not run again and again: the run ends. Bytecode is kept, whatever the environment
# says: pytest rewrites the source of all tests, which takes longer than many of them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(USE_PREPARED) $(PY) -m pytest --dist loadfile --max-worker-restart=0

.PHONY: help setup run test prove check format docs bench soak clean

help: ## list the commands
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 16

setup: $(STAMP) ## make .venv as uv.lock says, hot loops compiled (done by itself before run and test)
	@echo ".venv is set up: make run, make test, or .venv/bin/ottla --help"

$(STAMP): pyproject.toml uv.lock setup.py tools/setup.sh $(COMPILED)
	@sh tools/setup.sh
	@touch $(STAMP)

run: $(STAMP) ## flights -> producer -> three brokers -> PySpark -> verdict
	@.venv/bin/ottla run $(if $(INPUT),--input "$(INPUT)") $(if $(KEY),--key "$(KEY)") $(ARGS)

# tests/tiers.py says which tests are of which tier. The second tier often waits for Apache Kafka and for Spark: a third
# worker uses the time.
test: $(STAMP) $(PREPARED) ## the first tier of tests: every behaviour once (6 to 15 minutes on two cores)
	@$(PYTEST) -n 2 --tier test $(ARGS)

prove: $(STAMP) $(PREPARED) ## all other tests: every variant, Apache Kafka, Spark (40 minutes to an hour on two cores)
	@$(PYTEST) -n 3 --tier prove $(ARGS)

$(PREPARED): tools/spark_archive.py uv.lock | $(STAMP)
	@$(PY) tools/spark_archive.py

check: $(STAMP) ## style, types, generated code
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy
	@$(PY) tools/generate_messages.py --check
	@$(PY) tools/generate_settings.py --check
	@$(PY) tools/generate_metrics.py --check
	@$(PY) tools/generate_faults.py --check

format: $(STAMP) ## let ruff put the source into shape
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

docs: $(STAMP) ## the documentation as a site: build/site/index.html
	@$(PY) -m tools.documentation

bench: $(STAMP) ## measure against the peers, side by side in one run
	@$(PY) -m benchmarks $(ARGS)

soak: $(STAMP) ## the long proofs: thousands of simulated lives of a record, the main job again and again
	@OTTLA_SOAK=1 $(PY) -m pytest -o faulthandler_timeout=0 tests/client tests/embedded_registry tests/explain tests/interop tests/journey tests/registry tests/schemas tests/showcase tests/simulation tests/sink tests/spark $(ARGS)

clean: ## remove what setup and the tests made, .venv included
	@rm -rf .venv .tools build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse src/ottla.egg-info
	@find src -name '*.so' -delete
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
