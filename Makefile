# Every target prints one line in `make help`. Tools are pinned here.
GOLANGCI_LINT := v2.15.0

GO      ?= go
SEEDS   ?= 2000
SEED    ?= 1
FUZZTIME ?= 30s
TOOLS   := $(CURDIR)/bin/tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION)
EXAMPLES := bin/examples/pi.wasm bin/examples/options.wasm

.PHONY: help build examples demo test check lint fuzz sim mutants \
	prove-lease prove-eventlog prove-demo clean

help: ## show this help
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: examples ## make bin/skein (static) and the example jobs in bin/examples
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/skein ./cmd/skein

examples: $(EXAMPLES) ## compile the example jobs to WASM

bin/examples/%.wasm: FORCE
	@mkdir -p bin/examples
	GOOS=wasip1 GOARCH=wasm $(GO) build -trimpath -ldflags '-s -w' -o $@ ./examples/$*

FORCE:

demo: build ## three hosts on this machine, a job, the holder killed, nothing lost
	bin/skein demo

test: build ## everything once, with the race detector (what CI runs)
	SKEIN_BIN=$(CURDIR)/bin $(GO) test -race -timeout 15m ./...

check: lint ## lint, import rules and the quick tests
	$(GO) test -short -timeout 5m ./...

lint: $(TOOLS)/golangci-lint-$(GOLANGCI_LINT) ## static checks, pinned
	$< run ./...

$(TOOLS)/golangci-lint-$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	GOBIN=$(TOOLS) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(TOOLS)/golangci-lint $@

clean: ## remove what the build made
	rm -rf bin
