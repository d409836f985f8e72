# Two commands matter: `make up` and `make test`. Builds are kept outside of the clone, so that a
# fresh clone on a known machine is fast.
CARGO_TARGET_DIR ?= $(HOME)/.cache/trueup/target
export CARGO_TARGET_DIR
TRUEUP := $(CARGO_TARGET_DIR)/debug/trueup
# What the last whole run of the tests came to.
LAST_TEST := $(HOME)/.cache/trueup/last-test.json

# Every build goes through here: it makes a shared build folder safe to share.
CARGO := scripts/own-target && cargo
# The tests are always built as one: cargo chooses features by what it builds, and every other choice
# would compile the dependencies once more.
BUILD_TESTS := $(CARGO) test --locked --workspace --no-run

# The flags of crates/local/src/kube/build.rs, so that both share Go's build cache.
GO := cd local/kube && CGO_ENABLED=0 GOFLAGS="-mod=readonly -buildvcs=false" GOWORK=off go
# Without cmd/trueup-kube: to vet it takes all of Kubernetes, and its build type-checks it.
GO_PACKAGES := ./internal/... ./cmd/trueup-sample

.PHONY: help up down test plans soak fuzz screens bench audit check fmt

help: ## Say what there is, and how the last test run ended
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 10
	@sed -nE 's/^ *"summary": "(.*)",?$$/\nLast test run: \1/p' $(LAST_TEST) 2>/dev/null || true

up: ## Build and run everything here, with demo data; Ctrl-C stops it
	@scripts/toolchain
	@scripts/web-build
	$(CARGO) build --locked -p trueup
	@mkdir -p $(HOME)/.local/bin && ln -sf $(TRUEUP) $(HOME)/.local/bin/trueup
	@$(TRUEUP) up

down: ## Stop what a killed `make up` left running
	@$(TRUEUP) down

test: check ## Install what is needed and run all tests, on real parts; SUITES=store/it for some
	@scripts/web-build
	$(BUILD_TESTS)
	$(TRUEUP) local build
	$(GO) test -trimpath -vet=off -timeout 150s $(GO_PACKAGES)
	@$(CARGO_TARGET_DIR)/debug/run-tests $(SUITES)

plans: ## Run every fault plan, where `make test` runs a fixed sample; WORKLOAD=web for one workload
	@scripts/toolchain --with-go
	$(BUILD_TESTS)
	$(TRUEUP) local build
	TRUEUP_ALL_PLANS=1 $(if $(WORKLOAD),TRUEUP_WORKLOAD=$(WORKLOAD)) \
		cargo test --locked --workspace -- plans:: routes_to_one_state:: --nocapture

soak: ## Kill, pause and restart two replicas under load for SOAK_SECONDS (300), and say what held
	@scripts/toolchain --with-go
	$(BUILD_TESTS)
	$(TRUEUP) local build
	cargo test --locked --workspace -- --ignored --exact soak::soak --nocapture

fuzz: ## Fuzz every operation of a running Trueup against its OpenAPI document; EXAMPLES=100 for more
	@scripts/toolchain --with-go
	$(BUILD_TESTS)
	$(TRUEUP) local build
	scripts/fuzz $(EXAMPLES)

screens: ## Open every screen of the dashboard in every look, keep the pictures, scroll 10,000 services, open 100 pages
	@scripts/toolchain --with-go
	@scripts/web-build
	$(BUILD_TESTS)
	$(TRUEUP) local build
	cargo test --locked --workspace -- --ignored --exact dashboard::screens dashboard::a_list_of_ten_thousand_services_is_quick \
		dashboard::an_event_is_soon_on_a_hundred_pages --nocapture

bench: ## Measure the release binary beside its floors; BENCH=idle for one of them
	@scripts/toolchain --with-go
	$(CARGO) build --locked --release -p trueup -p trueup-bench
	$(CARGO_TARGET_DIR)/release/trueup local build
	$(CARGO_TARGET_DIR)/release/trueup-bench $(BENCH)
	$(CARGO) run --locked --release -p trueup-http --example watchers

audit: ## Check licences, bans and sources of the dependencies; ADVISORIES=PATH for known vulnerabilities
	@scripts/audit $(ADVISORIES)

check: ## Format, lints, docs
	@scripts/toolchain --with-go
	cargo fmt --all --check
	@test -z "$$(gofmt -l local/kube)" || { gofmt -d local/kube; exit 1; }
	$(CARGO) clippy --locked --workspace --lib --bins --examples --tests -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
	$(GO) vet -trimpath $(GO_PACKAGES)

fmt: ## Format everything
	cargo fmt --all
	gofmt -w local/kube
