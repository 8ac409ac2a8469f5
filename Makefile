# Everything that is built or installed for the project lives under build/; `make help` lists the
# targets. Each target installs what it needs first (scripts/setup.sh).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

export CARGO_TARGET_DIR := $(CURDIR)/build/target
# The pinned checkers come first; the last entry is where rustup puts cargo, for shells opened
# before it was installed.
export PATH := $(CURDIR)/build/tools/bin:$(PATH):$(HOME)/.cargo/bin
export RUFF_CACHE_DIR := $(CURDIR)/build/ruff-cache
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

# $(call setup,GROUP...): the stamp of a set-up. Its name is a hash of the set-up's inputs, so
# that the set-up runs again when a list or the script changes.
setup_inputs = scripts/setup.sh rust-toolchain.toml $(wildcard scripts/packages/*.txt tests/PACKAGES.txt bench/PACKAGES.txt)
setup_key := $(shell cat $(setup_inputs) | sha256sum | cut -c1-12)
empty :=
space := $(empty) $(empty)
setup = build/setup/$(subst $(space),-,$(strip $1))-$(setup_key)

# The stamp of the checkers, named after the script that installs them.
tools := build/tools/installed-$(shell sha256sum scripts/tools.sh | cut -c1-12)

# helm, the same way.
helm := build/kubernetes/built-$(shell sha256sum scripts/helm.sh | cut -c1-12)

python_files = scripts/check-layers .
shell_files = .ci/run scripts/report/eigentime-report $(wildcard examples/*/run) examples/postgres/entrypoint $(shell find . -path ./build -prune -o -path ./.git -prune -o -name '*.sh' -print)

.PHONY: help build install uninstall python packages test-packages vm criu docker image manifests demo test test-kubernetes storm bench docs header lint clean distclean

help: ## list the targets
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand --tabs=24

build: $(call setup,build) ## build the commands, build/bin, and the libraries, build/lib and build/include
	cargo build --release --package eigentime-cli --package eigentime-oci --package eigentime-capi --package eigentime-path
	cargo build --profile unwinding --package eigentime-preload
	install -D --mode=755 --target-directory=build/bin build/target/release/eigentime build/target/release/eigentime-oci build/target/release/eigentime-path
	install -D --mode=755 --target-directory=build/lib build/target/unwinding/libeigentime_preload.so
	scripts/library.sh
	scripts/probe.sh
	scripts/report.sh

# Does not depend on `build`: root installs what an ordinary user has built.
install: ## copy what was built to PREFIX (/usr/local), under DESTDIR if set
	scripts/install.sh

uninstall: ## remove it from there
	scripts/install.sh --remove

python: $(call setup,build python) ## build the Python package, build/python/eigentime-*.whl
	scripts/python.sh

packages: $(call setup,build python packages) ## make the packages of a release, build/packages
	scripts/packages.sh

test-packages: export EIGENTIME_FETCH_ROOTS = yes
test-packages: $(call setup,build python packages tests) build packages ## install, use and remove them, in all distributions that can be fetched
	python3 -m unittest discover --verbose --start-directory tests/packages

# After the set-up of tests or measurements, which may install what building a module needs.
vm: $(call setup,build) ## fetch the distribution's kernel for virtual machines, build/share/eigentime/vm
	scripts/vm.sh

image: $(call setup,build packages) ## build the image for clusters, build/packages/eigentime-cluster-*-oci.tar, and the plugin of kubectl
	scripts/packages.sh cluster

manifests: $(helm) ## regenerate deploy/kubernetes/manifests from the chart
	scripts/manifests.sh

criu: $(call setup,build) ## fetch CRIU 4.2 for the tests of checkpoints, build/criu, unless the machine has it
	scripts/criu.sh

docker: $(call setup,build) ## fetch a dockerd that passes annotations for the examples, build/docker, unless the machine has it
	scripts/docker.sh

demo: build ## a demonstration: three programs live through 19 January 2038, ten times as fast
	scripts/demo.sh

test: export EIGENTIME_OTHER_BIN := $(CARGO_TARGET_DIR)/upgraded/eigentime
test: $(call setup,build python tests) build python vm criu docker $(helm) ## run all tests: Python, unit and property tests, end to end
	EIGENTIME_IMAGE_PADDING=4160 cargo build --profile upgraded --package eigentime-cli
	scripts/test.sh

# docs/kubernetes/README.md lists the environment variables that it reads.
test-kubernetes: $(helm) image ## install on a cluster, run pods there, upgrade and uninstall
	for part in cluster operator failures; do python3 deploy/kubernetes/tests/test_$$part.py; done

storm: export EIGENTIME_STORM_S = 720
storm: export EIGENTIME_CHECKPOINT_ROUNDS = 200
storm: export EIGENTIME_KILLING_ROUNDS = 120
storm: $(call setup,build tests) build criu ## for more than an hour: rewrite call sites beside signals, forks and compilers; checkpoint and kill at random moments
	cargo test --package eigentime-tests -- in_a_storm
	cargo test --package eigentime-tests -- ::rounds
	cargo test --package eigentime-tests -- killed_at_any_moment

bench: $(call setup,build bench) build vm ## measure the overhead, beside its peers (up to five hours); BENCH=--quick: thirteen minutes
	python3 bench/run.py $(BENCH)

docs: $(call setup,build) ## regenerate docs/coverage.md, the JSON schemas and the columns of results from the source
	cargo run --quiet --package eigentime-calls --example coverage > build/coverage.md
	mv build/coverage.md docs/coverage.md
	cargo run --quiet --package eigentime-supervisor --features schema --example schema > build/schema.json
	mv build/schema.json docs/guide/control.schema.json
	cargo run --quiet --package eigentime-operator --bin eigentime-operator -- crds > build/crds.yaml
	mv build/crds.yaml deploy/kubernetes/chart/files/crds.yaml
	cargo run --quiet --package eigentime-doctor --features schema --example schema > build/schema.json
	mv build/schema.json docs/doctor/schema.json
	cargo run --quiet --package eigentime-study --features schema --example documentation schema > build/schema.json
	mv build/schema.json docs/bench/manifest.schema.json
	cargo run --quiet --package eigentime-study --features schema --example documentation columns > build/columns.md
	mv build/columns.md docs/bench/columns.md

# $(call cbindgen,FILE): writes the C header to a file.
cbindgen = cbindgen --quiet --config crates/capi/cbindgen.toml --output $(1) crates/capi

header: $(call setup,build) $(tools) ## regenerate crates/capi/include/eigentime.h from the Rust source
	$(call cbindgen,crates/capi/include/eigentime.h)

lint: $(call setup,build lint) $(tools) ## check formatting, lints, licences, layers and scripts
	cargo fmt --all -- --check
	rustfmt --check --edition 2024 crates/vdso/image/lib.rs
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	cargo deny --log-level warn check licenses bans sources
	$(call cbindgen,build/eigentime.h)
	diff --unified crates/capi/include/eigentime.h build/eigentime.h || { echo "eigentime.h is not what the source says: run 'make header'" >&2; false; }
	scripts/check-layers --self-test
	scripts/check-layers
	ruff check --quiet --target-version py310 $(python_files)
	ruff format --quiet --check --target-version py310 $(python_files)
	scripts/report.sh types
	shellcheck $(shell_files)
	scripts/go.sh lint
	scripts/java.sh lint
	scripts/node.sh lint
	scripts/action.sh lint

clean: ## remove what was built; the checkers in build/tools stay
	mkdir -p build
	find build -mindepth 1 -maxdepth 1 ! -name tools ! -name setup -exec rm -rf {} +

distclean: ## remove build/ entirely
	rm -rf build

build/setup/%:
	scripts/setup.sh $(subst -, ,$(patsubst %-$(setup_key),%,$*))
	mkdir -p build/setup
	touch $@

$(helm):
	rm -rf build/kubernetes
	mkdir -p build/kubernetes
	scripts/helm.sh
	touch $@

$(tools): | $(call setup,build lint)
	rm -rf build/tools
	scripts/tools.sh
	touch $@
