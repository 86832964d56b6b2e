# `make` lists the targets. Those that need a ZooKeeper find, install or start one
# themselves, or use the servers that HOLDFAST_ZOOKEEPER=host:port,... names.

STATICCHECK_VERSION := v0.7.0
GOVULNCHECK_VERSION := v1.7.0
GORELEASER_VERSION  := v2.15.1

# The tools' file names carry their version and Go's, so a change of either builds
# them again.
GOVERSION   := $(shell go env GOVERSION)
STATICCHECK := bin/staticcheck-$(STATICCHECK_VERSION)-$(GOVERSION)
GOVULNCHECK := bin/govulncheck-$(GOVULNCHECK_VERSION)-$(GOVERSION)
GORELEASER  := bin/goreleaser-$(GORELEASER_VERSION)-$(GOVERSION)

# The packages whose tests need no server.
UNIT = $(shell go list ./... | grep -v /integration)

# The modules beside the main one, whose dependencies the library is not to have.
ADAPTERS := lock/adapters/gooselock lock/adapters/migratelock lock/adapters/gocronlock
# Those whose tests take locks as other projects' tests have it.
HOSTS := $(ADAPTERS) integration/hosts lock/examples/migration
MODULES := integration/bench integration/compare integration/deploy integration/playground integration/sql integration/statuspage lock/observe/prometheus lock/observe/otel $(HOSTS)
# Those that compare with other systems or are deployed by them, and the playground.
LARGE := integration/bench integration/compare integration/deploy integration/playground
# Those that make test tests. The others have large dependencies: make hosts, make modules.
TESTED := $(filter-out $(HOSTS) $(LARGE),$(MODULES))
# Their tests read files of the main module, of which go's cache of results takes no notice: -count=1.
each_module = $(call in_each,$(MODULES),$(1))
in_each = @set -e; for m in $(1); do echo "cd $$m && $(2)"; (cd $$m && $(2)); done

# Make itself, where it is not to run with --dry-run.
SELF := $(MAKE)

BUILD := go build -buildvcs=false -o bin/

# The race detector is not to stop at a race of go-zookeeper's.
export GORACE := suppressions=$(CURDIR)/.ci/race-suppressions
# make lint vets.
TEST := go test -race -vet=off -timeout 60m
# Compiles packages and their tests, and links nothing.
COMPILE := go list -race -test -export -f {{.ImportPath}}

FUZZTIME ?= 30s
TICKET ?= 1m
RENEWALS ?= 10

.PHONY: help demo playground test compiled alltests maintests moduletests hosttests largetests unittests unit integration hosts modules kazoo kerberos versions sim ticks shardsim shards mutants model cuts torture compare fuzz bench charts cover race10 lint released snapshot fmt bin/withzk bin/bench

help: ## list the targets
	@awk -F ': .*## ' '/^[a-z0-9]+: .*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# To install a ZooKeeper takes longer than the demo: it uses the one in memory if there is
# none. HOLDFAST_NO_INSTALL= has one installed.
demo: ## see the promises kept, on this machine's ZooKeeper or on holdfast dev
	$(BUILD) ./integration/withzk ./cmd/holdfast ./cmd/reaper
	@HOLDFAST_NO_INSTALL=$${HOLDFAST_NO_INSTALL-1} bin/withzk bin/holdfast demo

playground: ## a page that runs, on loopback: zk.Lock and Holdfast side by side, and what can happen to them
	go build -C integration/playground -buildvcs=false -o $(CURDIR)/bin/ .
	cd integration/playground && exec $(CURDIR)/bin/playground

test: bin/withzk compiled ## all tests, on a real ZooKeeper; without one, those that holdfast dev can serve
	@bin/withzk $(SELF) --no-print-directory alltests

# No test with a clock in it runs beside the compiler: everything that the tests run is
# downloaded and compiled before the first of them.
compiled:
	$(COMPILE) ./... >/dev/null
	$(call in_each,$(TESTED),$(COMPILE) ./... >/dev/null)
	go build -buildvcs=false -o bin/ ./cmd/holdfast ./cmd/reaper

# The tests on servers mostly wait: those of the other modules run meanwhile.
alltests:
	@$(SELF) --no-print-directory -k -j2 maintests moduletests

# The packages that take longest begin first. One waits while as many as there are processors run.
maintests:
	$(TEST) -p $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) ./integration ./lock $(filter-out %/integration %/lock,$(shell go list ./...))

moduletests:
	$(call in_each,$(TESTED),env -u HOLDFAST_ZOOKEEPER $(TEST) -count=1 ./...)

hosttests:
	$(call in_each,$(HOSTS),$(TEST) -count=1 ./...)

largetests:
	$(call in_each,$(LARGE),env -u HOLDFAST_ZOOKEEPER $(TEST) -count=1 ./...)

unit: compiled ## the tests that need no server
	@env -u HOLDFAST_ZOOKEEPER $(SELF) --no-print-directory -k -j2 unittests moduletests

unittests:
	env -u HOLDFAST_ZOOKEEPER $(TEST) $(UNIT)

integration: bin/withzk ## the tests on a real ZooKeeper
	bin/withzk $(TEST) ./integration/...

hosts: bin/withzk ## the locks of goose, golang-migrate, gocron, Vault and Dapr taken here, by those projects' own tests
	@bin/withzk $(SELF) --no-print-directory hosttests

modules: bin/withzk ## the tests of bench, of compare, of the playground, and of what is deployed to Kubernetes and Prometheus
	$(call in_each,$(LARGE),$(COMPILE) ./... >/dev/null)
	cd integration/playground && GOOS=js GOARCH=wasm go build -buildvcs=false '-ldflags=-s -w' -o $(CURDIR)/bin/playground.wasm ./wasm
	@bin/withzk $(SELF) --no-print-directory largetests

kazoo: ## the tests of kazoo, a client in Python, on the ensemble of holdfast dev
	HOLDFAST_KAZOO=1 $(TEST) -count=1 -v ./integration/kazoo

kerberos: bin/withzk ## a hold through tickets of Kerberos that live TICKET (1m) and are replaced RENEWALS (10) times
	bin/withzk $(TEST) -count=1 ./integration -run TestHoldOutlivesTickets -ticket $(TICKET) -renewals $(RENEWALS)

versions: bin/withzk ## the tests on servers of several versions (VERSIONS="dir..."; else Debian's), as a table
	go run ./integration/versions $(VERSIONS)

sim: ## 1,000 histories in virtual time (SEEDS=n, from SEED=n on, all of one KIND; or the one in the file HISTORY)
	go run ./integration/sim

ticks: ## 100,000 ticks of jobs in virtual time (TICKS=n, from SEED=n on), and the ticks of all time zones
	go test -count 1 -timeout 60m ./lock/internal/calendar -zones
	TICKS=$(or $(TICKS),100000) go test -count 1 -timeout 60m -run '^TestTicks$$' -v ./lock/internal/sim

shardsim: ## 10,000 histories of groups of shards in virtual time (HISTORIES=n, from SEED=n on)
	HISTORIES=$(or $(HISTORIES),10000) SEED=$(SEED) go test -count 1 -timeout 120m -run '^TestShards$$' ./lock/shard

shards: ## 256 shards of eight processes that are killed and paused, beside member-list hashing (DURATION=10m, SERVERS=3, again with SEED=n)
	@$(MAKE) --no-print-directory compare KIND=shards

fuzz: ## random input for each fuzz target, for FUZZTIME (30s) each
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sort | while IFS=: read -r file func; do \
		echo "== $$(dirname $$file) $${func#func }"; \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "./$$(dirname $$file)" || exit 1; \
	done

cover: ## coverage of the library and the reaper by the unit tests
	@mkdir -p bin
	env -u HOLDFAST_ZOOKEEPER go test -coverprofile bin/cover.out -coverpkg ./lock/...,./reaper/... $(UNIT)
	go tool cover -func bin/cover.out | tail -1

race10: bin/withzk ## all tests ten times in a row
	bin/withzk go test -race -count 10 -timeout 200m ./...

mutants: ## break the protocol on purpose, and see that the tests notice (AUDIT=1: that the audit alone does)
	go run ./integration/mutants $(if $(AUDIT),-audit -seeds 100)

model: ## check the protocol's model with spin
	go run ./integration/model

cuts: bin/withzk ## interrupt each operation at each of its requests, on a real ZooKeeper
	@echo "every operation, every request, every fault (bin/cuts.out)"
	@bin/withzk $(TEST) -v -run '^TestEveryCutPoint$$' ./integration -cuts >bin/cuts.out 2>&1 || { cat bin/cuts.out; exit 1; }
	@sed -n '/cut before.*cut after/,/in all/p' bin/cuts.out

torture: ## client processes and three servers under faults (DURATION=2m, again with SEED=n)
	$(BUILD) ./integration/torture
	bin/torture -duration $(or $(DURATION),2m) -seed $(or $(SEED),0)

compare: ## what others lose under the same faults (KIND=locks, flaps, ticks or shards; DURATION=60m, SERVERS=3; again with SEED=n)
	go build -C integration/compare -buildvcs=false -o $(CURDIR)/bin/ .
	cd integration/compare && exec $(CURDIR)/bin/compare -kind $(or $(KIND),locks) -duration $(or $(DURATION),0) -seed $(or $(SEED),0) -servers $(or $(SERVERS),0)

bench: bin/bench ## Holdfast beside other locks and systems (QUICK=1: seconds; UPDATE=1: publish it; BENCH='-workloads AC -variants three')
	bin/bench -o bin $(if $(QUICK),-quick) $(if $(UPDATE),-update integration/bench) $(BENCH)

charts: bin/bench ## the published benchmark's tables and charts, again, from its results
	bin/bench -from integration/bench/results.jsonl -update integration/bench >/dev/null

lint: $(STATICCHECK) $(GOVULNCHECK) ## formatting, vet (for Windows and macOS too), staticcheck, waits for a wall clock in tests, go.mod, known vulnerabilities
	@files=$$(gofmt -l .); test -z "$$files" || { echo "not gofmt'ed (make fmt does it):" $$files; exit 1; }
	go vet ./...
	@set -e; for os in windows darwin; do echo "GOOS=$$os go vet ./cmd/... ./lock/... ./reaper/..."; GOOS=$$os go vet ./cmd/... ./lock/... ./reaper/...; done
	$(STATICCHECK) ./...
	go run ./integration/wallclock
	go mod tidy -diff
	$(call each_module,go vet ./... && $(CURDIR)/$(STATICCHECK) ./... && go mod tidy -diff)
	@echo $(GOVULNCHECK) ./...; $(GOVULNCHECK) ./... >bin/govulncheck.out 2>&1 || \
		if grep -q '^govulncheck: fetching vulnerabilities' bin/govulncheck.out; \
		then echo 'govulncheck: nothing checked: its database cannot be reached'; \
		else cat bin/govulncheck.out; exit 1; fi

released: ## each nested module, released to a proxy in a folder, fetched into an empty module and built
	HOLDFAST_RELEASE=1 HOLDFAST_NO_INSTALL=1 go test -count=1 -timeout 30m -run '^TestReleasedModules$$' ./integration

snapshot: $(GORELEASER) ## the archives of a release, in dist (with SBOMs if syft is installed)
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean $(if $(shell command -v syft),,--skip=sbom)

fmt: ## format the code
	gofmt -w .

bin/withzk:
	$(BUILD) ./integration/withzk

bin/bench:
	go build -C integration/bench -buildvcs=false -o $(CURDIR)/bin/ .

$(STATICCHECK):
	GOBIN=$(CURDIR)/bin go install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv bin/staticcheck $@

$(GOVULNCHECK):
	GOBIN=$(CURDIR)/bin go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	mv bin/govulncheck $@

$(GORELEASER):
	GOBIN=$(CURDIR)/bin go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	mv bin/goreleaser $@
