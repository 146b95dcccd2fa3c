# The commands of README.md and what they stand on. `make help` lists them.

# So that cargo is found in the shell in which rustup has just put it.
export PATH := $(PATH):$(HOME)/.cargo/bin

CARGO ?= cargo
CARGO_TARGET_DIR ?= target
KWALK = $(CARGO_TARGET_DIR)/release/kwalk
EXPERIMENTS = $(sort $(wildcard experiments/*.toml experiments/*/*.toml))

# --no-default-features where hwloc or libudev cannot be had. Asked anew at each use: `deps` may
# have installed them meanwhile.
FEATURES = $(shell sh scripts/deps.sh --features)

# QUICK=1: a first answer within seconds, with fewer points and repeats.
QUICK ?=
QUICK_FLAG = $(if $(filter-out 0,$(QUICK)),--quick)

.PHONY: help deps build demo test bench clean
.DEFAULT_GOAL := help

help:  ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile
	@echo "make demo QUICK=1   the same with fewer points and repeats"

deps:  ## install what is missing for building and testing, and nothing else
	@sh scripts/deps.sh

build: deps  ## the release binary
	$(CARGO) build --release --locked $(FEATURES)

demo: build  ## measure and model the PSI walk on this machine, into out/demo
	$(KWALK) run psi-depth --backend model,native $(QUICK_FLAG) --out out/demo --force
	$(KWALK) report out/demo
	@echo "The report is in $(CURDIR)/out/demo/report.html, the numbers are in the CSV files beside it."

# Without the default features first, where hwloc is here: the build that must work everywhere.
test: deps  ## format, lints, documentation, all tests (debug and release), all experiments' expectations
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --no-default-features -- -D warnings
	$(CARGO) clippy --workspace --all-targets --locked $(FEATURES) -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked $(FEATURES)
	$(CARGO) test --workspace --locked $(FEATURES)
	$(CARGO) test --workspace --locked --release $(FEATURES)
	$(CARGO) build --release --locked $(FEATURES)
	@test -n "$(EXPERIMENTS)" || { echo "make test: no experiment under experiments/ to check" >&2; exit 1; }
	$(KWALK) check $(EXPERIMENTS)

bench: deps  ## how fast the model and the readers are
	$(CARGO) bench --workspace --locked $(FEATURES)

# Of out/ only what `make demo` made: other results are somebody's measurements.
clean:  ## remove what was built, and out/demo
	$(CARGO) clean
	rm -rf out/demo
