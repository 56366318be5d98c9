# One Go command builds all functions at once; a rebuild after one change
# links only what changed.
SHELL := /bin/sh
.DEFAULT_GOAL := help

# ARCH is the target of the functions: this machine's by default, so that they
# run locally; make build-arm64 and make build-amd64 build for AWS.
ARCH    ?= $(shell go env GOARCH)
OS      ?= $(shell go env GOOS)
OUT     := .build
STAGE   := $(OUT)/stage-$(OS)-$(ARCH)
GOBUILD := go build -trimpath -ldflags "-s -w"
STATE   ?= .local

help: ## show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F '\t' '{printf "  %-12s %s\n", $$1, $$2}'

build: functions worker ## build .build/px, the worker and every function's bootstrap
	@$(GOBUILD) -o $(OUT)/px ./infra/px

# The worker's module is its own (gVisor is a dependency of it alone). Its binary
# holds no gVisor: runsc is built apart, since that takes minutes the first time.
worker: ## build .build/px-worker
	@mkdir -p $(OUT)
	@$(subst go build,go build -C infra/worker,$(GOBUILD)) -o $(abspath $(OUT))/px-worker .

runsc: worker ## build runsc and a rootfs into the cache (PX_CACHE, else the user's)
	@$(OUT)/px-worker prepare --cache "$(PX_CACHE)"

functions: ## build the functions alone (ARCH=arm64 or amd64, OS=linux for AWS)
	@mkdir -p $(STAGE)
	@if ls functions/*/main.go >/dev/null 2>&1; then \
	  CGO_ENABLED=0 GOOS=$(OS) GOARCH=$(ARCH) $(GOBUILD) -tags lambda.norpc -o $(STAGE)/ $$(ls functions/*/main.go | sed 's|^|./|; s|/main.go$$||') && \
	  for f in functions/*/main.go; do \
	    n=$$(basename $$(dirname $$f)); mkdir -p $(OUT)/functions/$$n; \
	    cmp -s $(STAGE)/$$n $(OUT)/functions/$$n/bootstrap || { { ln -f $(STAGE)/$$n $(OUT)/functions/$$n/.new 2>/dev/null || cp $(STAGE)/$$n $(OUT)/functions/$$n/.new; } && mv -f $(OUT)/functions/$$n/.new $(OUT)/functions/$$n/bootstrap; }; \
	  done; \
	fi
	@rm -rf $(OUT)/functions/python_source.new && mkdir -p $(OUT)/functions/python_source.new/pxsource && \
	  cp functions/python_source/app.py $(OUT)/functions/python_source.new/ && \
	  cp functions/python_source/pxsource/*.py $(OUT)/functions/python_source.new/pxsource/ && \
	  { diff -rq $(OUT)/functions/python_source.new $(OUT)/functions/python_source >/dev/null 2>&1 || \
	    { rm -rf $(OUT)/functions/python_source && mv $(OUT)/functions/python_source.new $(OUT)/functions/python_source; }; } && \
	  rm -rf $(OUT)/functions/python_source.new

build-arm64: ## build the functions for AWS on arm64
	@$(MAKE) functions OS=linux ARCH=arm64

build-amd64: ## build the functions for AWS on x86_64
	@$(MAKE) functions OS=linux ARCH=amd64

# Bytes of a bootstrap, stripped: Lambda loads it at each cold start. What can
# evaluate formulas links shared/component and may have more, and so may the console,
# which reads, decides and makes pages; go list decides.
SIZE_LIMIT         := 12800000
SIZE_LIMIT_FORMULA := 17500000
SIZE_LIMIT_CONSOLE := 21000000

sizes: functions ## hold every bootstrap to its size limit
	@go list -f '{{.ImportPath}} {{join .Deps " "}} ' $$(ls functions/*/main.go | sed 's|^|./|; s|/main.go$$||') | \
	  while read -r path deps; do \
	    case " $$deps " in *" github.com/pxhost/pxhost/shared/console "*) limit=$(SIZE_LIMIT_CONSOLE);; *" github.com/pxhost/pxhost/shared/component "*) limit=$(SIZE_LIMIT_FORMULA);; *) limit=$(SIZE_LIMIT);; esac; \
	    echo "$${path##*/} $$(wc -c < $(OUT)/functions/$${path##*/}/bootstrap) $$limit"; \
	  done | \
	  awk '{ over = NF != 3 || $$2 > $$3; bad += over; printf "%-22s %9d bytes of %d%s\n", $$1, $$2, $$3, over ? "  TOO LARGE" : "" } \
	    END { exit NR == 0 || bad > 0 }'

run: build ## build, then start the whole system on this machine
	@$(OUT)/px local --state $(STATE)

URL ?=

# The token is in PX_TOKEN, with the scope px.tools. Without a URL it is px local's.
smoke: ## check a deployed stack as MCP clients do (URL=https://…, PX_TOKEN)
	@mkdir -p $(OUT) && $(GOBUILD) -o $(OUT)/px ./infra/px
	@PX_URL="$(URL)" $(OUT)/px smoke --state $(STATE)

test: ## run the tests
	go test -timeout 25m ./...
	CGO_ENABLED=0 go test -C infra/worker -trimpath -p 1 -timeout 15m ./...

# The whole system first, each number beside its target and its reference, then
# the local services, then the packages. Packages never run side by side: go test
# sees to that where there are benchmarks. It takes about seven minutes on two
# cores, half of them for the largest Batch.
bench: build sizes ## run the benchmarks
	go test -run '^$$' -bench . -benchtime 2s -timeout 15m ./infra/local
	go test -run '^$$' -bench . -benchtime 1s -timeout 5m $$(grep -rl --include='*_test.go' '^func Benchmark' infra/local/*/ | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	go test -run '^$$' -bench . -benchtime 300ms -timeout 5m $$(grep -rl --include='*_test.go' '^func Benchmark' shared | xargs -n 1 dirname | sort -u | sed 's|^|./|')
	CGO_ENABLED=0 go test -C infra/worker -trimpath -run '^$$' -bench . -benchtime 20x -timeout 5m ./rootless

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

lint: ## gofmt, go vet, staticcheck, govulncheck, drift of generated files, and binaries
	@big=$$(git ls-files -z | xargs -0 sh -c 'find "$$@" -size +1024k' sh); [ -z "$$big" ] || { echo "larger than 1 MiB, and so built and not written: $$big"; exit 1; }
	@fmt=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$fmt" ] || { echo "gofmt: $$fmt"; exit 1; }
	go vet ./...
	go run $(STATICCHECK) ./...
	go vet -C infra/worker ./...
	GOOS=darwin go vet -C infra/worker ./...
	go run -C infra/worker $(STATICCHECK) ./...
	go mod tidy -C infra/worker -diff
	@go run $(GOVULNCHECK) ./... ; code=$$?; \
	  if [ $$code = 3 ]; then exit 3; elif [ $$code != 0 ]; then echo "govulncheck: not checked, its database cannot be reached from here"; fi
	go mod tidy -diff
	go generate ./...
	@git diff --exit-code --stat -- . || { echo "generated files have drifted: commit what go generate wrote"; exit 1; }

clean: ## remove what was built, and the local state
	rm -rf $(OUT) $(STATE)

.PHONY: help build worker runsc functions build-arm64 build-amd64 sizes run smoke test bench lint clean
