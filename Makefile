# Everything that is built or installed for the project lives under build/; `make help` lists what
# there is to make. Each target installs what it needs first (scripts/setup.sh).
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

export CARGO_TARGET_DIR := $(CURDIR)/build/target
# The pinned checkers come first; the last entry is where rustup puts cargo, for shells that were
# opened before it was there.
export PATH := $(CURDIR)/build/tools/bin:$(PATH):$(HOME)/.cargo/bin
export RUFF_CACHE_DIR := $(CURDIR)/build/ruff-cache
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache

# $(call setup,GROUP...): the stamp of a set-up. It is named after the contents of what the set-up
# depends on, so that it is done again when a list or the script changes.
setup_inputs = scripts/setup.sh rust-toolchain.toml $(wildcard scripts/packages/*.txt tests/PACKAGES.txt bench/PACKAGES.txt)
setup_key := $(shell cat $(setup_inputs) | sha256sum | cut -c1-12)
empty :=
space := $(empty) $(empty)
setup = build/setup/$(subst $(space),-,$(strip $1))-$(setup_key)

# The stamp of the checkers, named after the script that installs them.
tools := build/tools/installed-$(shell sha256sum scripts/tools.sh | cut -c1-12)

python_files = scripts/check-layers .
shell_files = .ci/run $(shell find . -path ./build -prune -o -path ./.git -prune -o -name '*.sh' -print)

.PHONY: help build demo test bench docs lint clean distclean

help: ## list what there is to make
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand --tabs=18

build: $(call setup,build) ## build the command, build/bin/eigentime
	cargo build --release --package eigentime-cli
	install -D --mode=755 build/target/release/eigentime build/bin/eigentime

demo: build ## show it: three programs live through 19 January 2038, ten times as fast
	scripts/demo.sh

test: $(call setup,build tests) build ## run the unit and property tests, then the end-to-end tests
	python3 -m unittest discover --start-directory bench/tests --top-level-directory bench
	cargo test --workspace --exclude eigentime-tests
	cargo test --package eigentime-tests

bench: $(call setup,build bench) build ## measure what it costs, beside its peers (fourteen minutes); BENCH=--quick: in two
	python3 bench/run.py $(BENCH)

docs: $(call setup,build) ## write docs/coverage.md anew from the table of calls
	cargo run --quiet --package eigentime-calls --example coverage > build/coverage.md
	mv build/coverage.md docs/coverage.md

lint: $(call setup,build lint) $(tools) ## check formatting, lints, licences, layers and scripts
	cargo fmt --all -- --check
	rustfmt --check --edition 2024 crates/vdso/image/lib.rs
	cargo clippy --locked --workspace --all-targets -- --deny warnings
	cargo deny --log-level warn check licenses bans sources
	scripts/check-layers --self-test
	scripts/check-layers
	ruff check --quiet --target-version py310 $(python_files)
	ruff format --quiet --check --target-version py310 $(python_files)
	shellcheck $(shell_files)

clean: ## remove what was built; the checkers in build/tools stay
	mkdir -p build
	find build -mindepth 1 -maxdepth 1 ! -name tools ! -name setup -exec rm -rf {} +

distclean: ## remove build/ altogether
	rm -rf build

build/setup/%:
	scripts/setup.sh $(subst -, ,$(patsubst %-$(setup_key),%,$*))
	mkdir -p build/setup
	touch $@

$(tools): | $(call setup,build lint)
	rm -rf build/tools
	scripts/tools.sh
	touch $@
