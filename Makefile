# `make help` lists the targets. Tools are pinned here.
GOLANGCI_LINT := v2.15.0

SHELL    := /bin/bash
GO       ?= go
SEEDS    ?= 2000
SEED     ?= 1
ZONES    ?= 0
FUZZTIME ?= 30s
FUZZPKGS ?= ./...
TOOLS    := $(CURDIR)/bin/tools
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)

.PHONY: help map build examples demo pictures web web-check test-web deps vmtest tornet tornet-test observability test check lint \
	sim mutants fuzz bench bench-go install package package-test clean FORCE \
	prove-lease prove-lease-real prove-eventlog prove-mesh prove-coord prove-worker prove-jobs prove-access prove-onion \
	soak prove-workflows prove-gateway prove-load prove-overload prove-zones prove-race prove-daemons prove-scaleout prove-upgrade prove-web prove-files prove-demo prove-idle prove-package

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: examples ## make bin/skein (static) and the example jobs in bin/examples
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/skein ./cmd/skein

examples: bin/examples/pi.wasm bin/examples/options.wasm bin/examples/sweep.wasm bin/examples/render.wasm ## compile the example jobs to WASM

bin/examples/%.wasm: FORCE
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -ldflags '-s -w' -o $@ ./examples/$*

demo: build ## three hosts on this machine, a job, the holder killed, nothing lost
	bin/skein demo

pictures: build ## make docs/pictures of a demo: pages and skein top (needs chromium and tmux)
	-@scripts/deps
	$(GO) run ./internal/pictures -skein bin/skein -out docs/pictures

# web/dist is committed: only who changes the page needs npm.
web/ui/node_modules: web/ui/package-lock.json
	cd web/ui && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

web/worker/node_modules: web/worker/package-lock.json
	cd web/worker && npm ci --ignore-scripts --no-audit --no-fund
	@touch $@

web: web/ui/node_modules web/worker/node_modules ## make web/dist of web/ui (needs npm); commit both
	cd web/ui && node_modules/.bin/tsc -p ../worker && node_modules/.bin/tsc -p . && gzip -9nc node_modules/axe-core/axe.min.js > ../browser/testdata/axe.min.js.gz
	cd web/build && $(GO) run .

test-web: build web-check ## the page: its types, web/dist is what they make (needs npm), and in Chromium: three real daemons, 500 hosts and a hostile cluster that are made up, guests
	-@scripts/deps
	REQUIRE=web SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 ./web
	cd web/browser && REQUIRE=web SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v ./...

prove-web: build ## the page in both colours, wide and narrow, each with each
	cd web/browser && SKEIN_PROVE=1 REQUIRE=web SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 60m -run 'Looks|Daemons|Hostile' ./...

web-check: web/ui/node_modules web/worker/node_modules ## types of the page; web/dist and web/worker/dist are byte for byte what their sources make (needs npm)
	cd web/ui && node_modules/.bin/tsc -p . && node_modules/.bin/tsc -p ../worker
	cd web/build && $(GO) run . -check

# Daemons built with the race detector, for end-to-end tests (internal/testrun/parts.go
# says which, and what RACE leaves out); chunks run in the plain build.
RACE := -race -gcflags=crypto/internal/fips140/edwards25519/...=-race=false
bin/race/skein: build FORCE
	$(GO) build $(RACE) -trimpath -ldflags '-s -w -X main.chunkRunner=$(CURDIR)/bin/skein' -o $@ ./cmd/skein
	@rm -rf bin/race/examples && cp -r bin/examples bin/race/examples

deps: ## install the Debian packages that the tests need, or print the command, and build Centrifugo
	scripts/deps

vmtest: ## boot guests under QEMU: kernel WireGuard, and systemd with the units
	REQUIRE=vm $(GO) test -count=1 -v -timeout 30m ./internal/vmtest

tornet: ## leave a private Tor network running to play with
	$(GO) run ./internal/tornet/play

observability: ## promtool over the alerts, their tests, the dashboard, and the metrics of a daemon
	-@scripts/deps
	REQUIRE=prom $(GO) test -count=1 -v ./observability
	REQUIRE=prom $(GO) test -count=1 -v -run 'Metrics' ./daemon

TORNET = ./test/onion

tornet-test: ## the cases on the private Tor network, with reduced counts
	-@scripts/deps
	REQUIRE=tor $(GO) test -count=1 -v -timeout 15m $(TORNET)

# What a machine cannot do is skipped with its reason; REQUIRE=vm,netns,systemd,tor,prom,web,deb,tmux,postgres,redis,centrifugo
# turns these skips into failures. internal/testrun/parts.go says what is run with
# the race detector and what beside what; TESTFLAGS="-run daemons" runs some parts.
test: bin/race/skein ## everything once, with the race detector where threads meet (what CI runs)
	-@scripts/deps
	$(GO) run ./internal/testrun $(TESTFLAGS)

check: lint ## lint, import rules and the quick tests
	$(GO) test -short -timeout 5m ./...

map: ## print every package with its size and imports
	@cd internal/archtest && $(GO) test -run '^TestMap$$' -map | grep -v '^ok\|^PASS'

lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT) ## static checks, pinned; go.mod names what is imported
	$(GO) mod tidy -diff
	for m in bench test/centrifugo web/build web/browser; do (cd $$m && $(GO) mod tidy -diff) || exit; done
	$< run ./...
	for m in bench web/build web/browser; do (cd $$m && $< run ./...) || exit; done

$(TOOLS)/golangci-lint-$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(TOOLS)/golangci-lint $@

sim: ## simulate SEEDS=2000 clusters from SEED=1, in ZONES=0 zones; ends with one line of totals
	@set -o pipefail; $(GO) test -count=1 -timeout 0 -v ./internal/sim -run 'TestSim$$' -seeds $(SEEDS) -seed $(SEED) -zones $(ZONES) \
		| grep -vE '^(=== RUN|--- (PASS|FAIL)|PASS$$|FAIL|ok )'

mutants: ## break the lease and the log in every known way; a simulation or a named test must notice each
	$(GO) run ./internal/sim/mutate -seeds $(SEEDS)

fuzz: ## fuzz every decoder for FUZZTIME=30s each
	@set -e; for p in $$($(GO) list $(FUZZPKGS)); do \
		for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; $(GO) test -run xxx -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$p; \
		done; done

bench: ## compare with raft, memberlist, wireguard-go, stores, Redis, asynq, river, NATS, onionbalance, gorilla/websocket, centrifuge, k6, vegeta, hey and wrk; writes bench/results.json
	-@scripts/bench-deps
	cd bench && $(GO) run . -out results.json $(BENCHFLAGS)

bench-go: ## time the hot paths
	$(GO) test -run xxx -bench . -benchtime 1s ./lease ./eventlog ./coord/wire ./mesh ./scheduler/... ./store/... ./worker
	$(GO) test -run xxx -bench Throughput -benchtime 1x ./test/netns

prove-lease: build ## 200 000 simulated clusters, all states of three voters, every mutant, 50 real rounds of each fault
	for first in 1 50001 100001 150001; do $(MAKE) sim SEEDS=50000 SEED=$$first || exit; done
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 120m -run TestExhaustive ./lease
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m -run 'Linearizable|HistoriesThatMustFail' ./internal/sim
	$(MAKE) mutants
	$(MAKE) prove-lease-real

# About an hour: most of it is waiting, so two clusters run at a time.
prove-lease-real: build ## kill, cut, stop and set the clocks of real holders
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 120m -parallel 2 -run 'Lease|Judge' ./test/netns

prove-eventlog: build ## 1000 x kill -9 under load, power loss, a cut at every byte, 1 M events
	SKEIN_PROVE=1 $(GO) test -race -count=1 -v -timeout 60m -run 'KillNine|PowerLoss|CrashAt|BitFlips|Damage' ./eventlog
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m -run 'RecoveryOf|RecoverFrom' ./eventlog
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 120m -run ClusterSimulation ./eventlog
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run LogNemesis ./test/netns
	$(GO) run ./internal/sim/mutate -run 'log: '
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m ./eventlog/state

prove-mesh: build ## full counts: cuts, loss, fleets, closes, boots of guests, throughput
	SKEIN_PROVE=1 $(GO) test -race -count=1 -timeout 60m ./mesh/... ./coord/member ./coord/join
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m -run 'FakeTime|ManyHosts' ./mesh
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 60m -skip 'Lease|Judge|LogNemesis|JobsNemesis|TestCancel|RollingRestart' ./test/netns
	SKEIN_PROVE=1 REQUIRE=vm $(GO) test -count=1 -v -timeout 120m ./internal/vmtest

prove-coord: ## 100 failovers per profile on fake time
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m ./coord

prove-worker: ## 3000 chunks through the stream, real children and back
	SKEIN_PROVE=1 $(GO) test -race -count=1 -timeout 60m ./worker ./scheduler/...

prove-jobs: build ## 20 000 histories, 10 000 workers, the choice beside a binary heap; 1000 jobs on real hosts under faults
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 120m -run 'Model|Twin|Spread' ./scheduler ./scheduler/plan
	SKEIN_PROVE=1 $(GO) test -count=1 -timeout 30m ./scheduler/... ./worker
	$(GO) test -run xxx -bench 'Choose|Step' -benchtime 2s -benchmem ./scheduler/plan
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 120m -run 'JobsNemesis|TestCancel|RollingRestart' ./test/netns
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run 'CancelEndsAll|RollingRestart|LocalJob|InTheMiddle|KilledWorker|RefusalSaysWhen|GroupsFile' -p 1 ./daemon ./internal/demo
	$(GO) test -run xxx -bench Overhead -benchtime 1x ./worker/executor

# Three minutes, and the runs: RUNS=15 takes ten minutes instead of an hour.
RUNS ?= 100
prove-workflows: build ## the log of a run cut behind each event, 100 000 random runs whose holders die, folds of every order, RUNS runs of 30 steps on real hosts that are killed and cut off
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m -run 'Every|Model|Flow' ./scheduler/flow ./scheduler ./eventlog/state/flows
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 60m -run 'OrderDoesNotMatter|EveryBase' ./eventlog/state ./eventlog/state/flows
	SKEIN_PROVE=1 SKEIN_RUNS=$(RUNS) SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 90m -run 'TestWorkflow' ./internal/demo

# About 25 minutes, and 4 GB of disk for a while.
prove-access: build ## users, roles, streams and limits three times over, parsers fuzzed, hosts and users of real clusters (over TLS too), 10 M events looked through
	$(GO) test -race -count=3 -timeout 60m ./access ./status/... ./realtime/... ./client ./backend/groupsync ./backend/outside ./gateway ./gateway/registry ./eventlog/state/registry ./scheduler/plan/eligible
	SKEIN_PROVE=1 $(GO) test -race -count=3 -timeout 30m -run LogOnce ./realtime
	$(MAKE) fuzz FUZZTIME=1m FUZZPKGS="./access ./status ./realtime/delta ./eventlog/index ./gateway/auth ./gateway/registry ./cluster/event"
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run 'HostsAccept|UserFromOutside|UsersOverTheMesh|CurlOfDocuments|WatchGoesOn|ManyFollowers|RegistryOutlives|Gateways' ./internal/demo
	SKEIN_PROVE=1 $(GO) test -run xxx -bench 'Verify|Signed' -benchtime 2s -benchmem ./access ./status
	SKEIN_PROVE=1 SKEIN_EVENTS=10000000 $(GO) test -run xxx -bench FindEntity -benchtime 20x -timeout 60m ./eventlog

prove-gateway: build ## gateways and outside workers in full: hostile visitors, faults of real clusters, browsers, an hour of an open page, every parser fuzzed for a minute
	-@scripts/deps
	SKEIN_PROVE=1 $(GO) test -race -count=1 -timeout 60m ./gateway/... ./outside ./scheduler/seats ./eventlog/state/registry
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 120m -run 'Hostile|Outsiders|Crew|Strangers|Liars|Model|Twin' ./scheduler ./scheduler/plan
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 90m -run 'OutsideWorkers|Gateways|LinesCut|RegistryOutlives' ./internal/demo
	cd web/browser && REQUIRE=web SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 150m -run 'Work|Gateway|Portal|Client|PageStays|PageHas|PageIsSent' ./...
	$(MAKE) fuzz FUZZTIME=1m FUZZPKGS="./gateway/... ./access ./cluster/event ./cluster/job ./scheduler/stream ./scheduler/plan"

prove-load: build ## load tests: all rooms three times with the race detector, parsers fuzzed, real hosts of which holder and others are killed, three times, and struck in each state of a test; three hosts that send for half an hour
	SKEIN_PROVE=1 $(GO) test -race -count=3 -timeout 30m ./load/... ./backend/loads ./eventlog/state/loads
	$(MAKE) fuzz FUZZTIME=1m FUZZPKGS="./load ./load/lines ./load/stat ./load/h1 ./load/grpc ./load/convert"
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=3 -v -timeout 30m -run 'TestLoadOnHosts' ./internal/demo
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 60m -run 'TestLoadStates|TestLoadTakenOver' ./internal/demo
	SKEIN_LONG=30m SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 60m -run 'TestLoadLong' ./internal/demo

prove-overload: build ## the ladder against its twin, parsers fuzzed, goodput at four times the load beside hosts without and with a fixed limit, real hosts flooded for a minute
	SKEIN_PROVE=1 $(GO) test -race -count=1 -timeout 30m ./overload ./pressure/... ./relief ./status/lanes ./internal/budget
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 30m -run Goodput ./pressure/gate
	$(MAKE) fuzz FUZZTIME=1m FUZZPKGS="./overload ./pressure"
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run 'TestOverload$$' ./internal/demo

SOAK ?= 2h
soak: build ## five hosts with jobs, workflows, load tests and outside workers for SOAK: what they take each minute in bin/soak.csv, logs verified each hour; fails on growth
	SKEIN_SOAK=$(SOAK) SKEIN_SOAK_CSV=$(CURDIR)/bin/soak.csv SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 24h -run 'TestSoak$$' ./internal/demo

prove-zones: build ## 20 000 simulated clusters with zones 50-300 ms apart, each zone lost; choices of zones; jobs in 3 zones of 30 hosts; real hosts in zones, and such that come and go
	$(MAKE) sim SEEDS=20000 ZONES=3
	$(GO) test -race -count=1 -v -timeout 30m ./scheduler/zone ./backend/zones ./cluster/flow ./forward/...
	SKEIN_PROVE=1 $(GO) test -count=1 -v -timeout 30m -run 'TestError|TestZones' ./coord/distance ./coord ./scheduler
	$(MAKE) fuzz FUZZTIME=30s FUZZPKGS=./scheduler/zone
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 60m -run 'TestZones$$|TestComeAndGo$$' ./internal/demo

prove-race: bin/race/skein ## all packages but those of real clusters and guests with the race detector, what `make test` runs without it included
	SKEIN_BIN=$(CURDIR)/bin/race $(GO) test -race -count=1 -timeout 120m $$($(GO) list ./... | grep -vE '/(internal/demo|internal/vmtest|test/netns|test/onion|test/deb)$$')

prove-daemons: bin/race/skein ## all cases of real clusters with daemons that are built with the race detector
	-@scripts/deps
	SKEIN_BIN=$(CURDIR)/bin/race $(GO) test -race -count=1 -timeout 90m ./internal/demo

prove-scaleout: build ## outside workers in a Redis, their connections in a Centrifugo, jobs in a PostgreSQL: real servers killed, emptied and restarted, each check of a script taken out, parsers fuzzed for a minute
	-@scripts/deps
	REQUIRE=redis,postgres,centrifugo SKEIN_PROVE=1 $(GO) test -race -count=1 -v -timeout 30m ./store/... ./gateway/crew ./gateway/centrifugo ./gateway/channel
	REQUIRE=redis,postgres,centrifugo SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 120m -run 'RedisStore|Centrifugo|TableOfJobs|ScaleOut' ./internal/demo
	cd web/browser && REQUIRE=web,redis,centrifugo SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run PortalByCentrifugo .
	$(MAKE) fuzz FUZZTIME=1m FUZZPKGS="./store/... ./gateway/centrifugo"

# One case at a time, so that what they time is theirs.
prove-onion: ## every case on the private Tor network in full, and 10 minutes of fuzzing for each parser
	REQUIRE=tor SKEIN_PROVE=1 $(GO) test -count=1 -v -parallel 1 -timeout 120m $(TORNET)
	$(MAKE) fuzz FUZZTIME=10m FUZZPKGS="./tor ./publisher/... ./proxy ./coord/path"

# What OLD built must open, and work with this version while hosts are upgraded.
OLD ?= dae6c5b
prove-upgrade: build bin/old-$(OLD)/skein ## three hosts of the commit OLD, upgraded one after the other
	SKEIN_PROVE=1 SKEIN_OLD=$(CURDIR)/bin/old-$(OLD)/skein SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 30m -run TestRollingUpgrade ./internal/demo

bin/old-%/skein:
	rm -rf bin/src-$* && mkdir -p bin/src-$* && git archive $* | tar -x -C bin/src-$*
	cd bin/src-$* && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$*' -o $(CURDIR)/$@ ./cmd/skein
	rm -rf bin/src-$*

prove-files: build ## 100 deletions, moves and changed bits of files of stopped hosts, each followed by what the errors say
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 90m -run TestDamagedFiles ./internal/demo

prove-demo: build ## 20 demos per signal and profile
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 90m -run TestDemo ./internal/demo

prove-idle: build ## 10 minutes of three hosts with nothing to do: at most 40 MB and 0.5 % of a core each, nothing written
	SKEIN_PROVE=1 SKEIN_BIN=$(CURDIR)/bin $(GO) test -count=1 -v -timeout 20m -run TestIdle ./internal/demo

NFPM    := v2.45.0
PREFIX  ?= /usr
DESTDIR ?=
install: build ## install the program, units, manual and completions below DESTDIR and PREFIX=/usr
	packaging/stage bin/skein bin/skein '$(PREFIX)' '$(DESTDIR)'

# The comparison of two builds has them in directories of its own.
PACKAGES ?= bin/package
ARCHS    ?= amd64 arm64
package: $(TOOLS)/nfpm-$(NFPM) ## a .deb and a tarball for ARCHS="amd64 arm64", and their checksums, in PACKAGES=bin/package
	NFPM=$< GO='$(GO)' packaging/build '$(PACKAGES)' $(ARCHS)

package-test: ## the package: equal builds, lintian, installed, upgraded, removed and purged in a Debian and in a guest
	-@scripts/deps
	REQUIRE=deb,vm $(GO) test -count=1 -v -timeout 30m ./test/deb
	REQUIRE=deb $(GO) test -count=1 -v -run Manual ./cmd/skein

prove-package: ## the same, with both architectures built twice, in each compression
	-@scripts/deps
	SKEIN_PROVE=1 REQUIRE=deb,vm $(GO) test -count=1 -v -timeout 120m ./test/deb
	REQUIRE=deb $(GO) test -count=1 -v -run Manual ./cmd/skein

# Centrifugo is built as a requirement of a module: by itself its version cannot be resolved.
$(TOOLS)/centrifugo: test/centrifugo/go.mod test/centrifugo/go.sum
	@mkdir -p $(TOOLS)
	cd test/centrifugo && CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ github.com/centrifugal/centrifugo/v5

bin/tools/centrifugo: $(TOOLS)/centrifugo ## the Centrifugo that tests and demos start (3 minutes)

# A program of its own that the product does not depend on.
$(TOOLS)/nfpm-$(NFPM):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM)
	mv $(TOOLS)/nfpm $@

clean: ## remove what the build made
	rm -rf bin
