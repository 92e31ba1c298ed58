# Thin front to CMake (CMakeLists.txt is the build definition). `make help` lists the targets.
#
# Variables: BUILD=folder  JOBS=n  PREFIX=/usr/local  DESTDIR=  GLOFND_WERROR=ON  CMAKE_FLAGS=-D...  CTEST_FLAGS=...  V=1
# ccache is used where it is installed (CMAKE_FLAGS=-DGLOFND_CCACHE=OFF: not).

BUILD         ?= build
TYPE          ?= Release
JOBS          ?= $(shell nproc 2>/dev/null || echo 2)
PREFIX        ?= /usr/local
GLOFND_WERROR ?= OFF
FUZZ_SECONDS  ?= 30
HOSTILE_MINUTES ?= 60

VERSION   = $(shell sed -n 's/^.define GLOFND_VERSION_[A-Z]* \([0-9]*\)$$/\1/p' include/glofnd.h | paste -sd.)
CUDA      = AUTO
CONFIGURE = cmake -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=$(TYPE) -DCMAKE_INSTALL_PREFIX=$(PREFIX) \
            -DGLOFND_WERROR=$(GLOFND_WERROR) -DGLOFND_CUDA=$(CUDA) $(CMAKE_FLAGS)
# The inner make must not inherit our variables and job server.
COMPILE   = env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake --build $(BUILD) --parallel $(JOBS) $(if $(filter 1,$(V)),--verbose)
CTEST     = ctest --output-on-failure --no-tests=error --parallel $(JOBS) $(CTEST_FLAGS) --test-dir

.PHONY: all everything glofnd static configured deps demo test test-long bench hostile san san-build tsan tsan-loader tsan-loader-build tsan-ranks tsan-build fuzz fuzz-build debug docs wheel test-python install package debs release test-package clean help
.DEFAULT_GOAL := all

all: configured ## build libraries, program and examples
	@$(COMPILE) --target programs

everything: configured ## the same, tests and benchmarks
	@$(COMPILE)

# A folder that has been configured keeps what it has; a new one is without CUDA, which takes most of the time of a build.
glofnd: CUDA = $(if $(wildcard $(BUILD)/CMakeCache.txt),$(shell sed -n 's/^GLOFND_CUDA:.*=//p' $(BUILD)/CMakeCache.txt),OFF)
glofnd: configured ## build the program alone, in a new BUILD without CUDA: BUILD/glofnd (41 s on two cores)
	@$(COMPILE) --target glofnd_cli

static: ## the program for any Linux machine, in BUILD/static/glofnd: no shared libraries; without oneDNN, MPI and CUDA
	@mkdir -p $(BUILD)/static
	@$(MAKE) --no-print-directory glofnd BUILD=$(BUILD)/static \
	    CMAKE_FLAGS="$(CMAKE_FLAGS) -DGLOFND_STATIC_PROGRAM=ON -DGLOFND_OPENMP=OFF -DGLOFND_TESTS=OFF -DGLOFND_BENCH=OFF -DGLOFND_EXAMPLES=OFF"
	@ls -l $(BUILD)/static/glofnd

# The demo and the tests install what they need; other targets only list what is missing.
test test-long: DEPS = --install
demo: DEPS = --install --demo

configured:
	@sh tools/deps.sh $(DEPS)
	@mkdir -p $(BUILD)
	@$(CONFIGURE) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; \
	    ! grep -q 'is different than the directory' $(BUILD)/configure.log || \
	    echo "$(BUILD) was made for another place of the sources: remove it (make clean), then make again"; exit 1; }
	@sed -n '/^-- glofnd /,/^-- Configuring/{/^-- Configuring/d;s/^-- //;p;}' $(BUILD)/configure.log

deps: ## install the packages that the build needs, on Debian-like systems; elsewhere list them
	@sh tools/deps.sh --install

demo: glofnd ## train on Fashion-MNIST with GloFND, three seeds: what it finds, as a table and a page (3 minutes with the build)
	@sh tools/demo.sh $(BUILD)

test: everything ## build and run all tests but the long ones
	$(CTEST) $(BUILD) -LE '^long$$'

test-long: everything ## run the long tests
	$(CTEST) $(BUILD) -L '^long$$' --no-tests=ignore

hostile: everything ## kills, failing calls, corrupt files, signals, several writers: tests/hostile, HOSTILE_MINUTES=60
	@sh tests/hostile/run.sh --build $(BUILD) --minutes $(HOSTILE_MINUTES) $(HOSTILE_PARTS)

bench: everything ## time the step against a materialising implementation
	$(BUILD)/bench/loss

san: san-build ## address and undefined-behaviour sanitizers, in BUILD/san: unit, gradient, golden and fault tests
	$(CTEST) $(BUILD)/san -L '^(unit|grad|golden|fault)$$'

san-build:
	@$(MAKE) --no-print-directory everything BUILD=$(BUILD)/san TYPE=San CMAKE_FLAGS="-DGLOFND_BENCH=OFF -DGLOFND_EXAMPLES=OFF $(CMAKE_FLAGS)"

tsan: ## thread sanitizer, in BUILD/tsan: unit tests and a short run
	@$(MAKE) --no-print-directory everything BUILD=$(BUILD)/tsan TYPE=Tsan
	$(CTEST) $(BUILD)/tsan -L '^unit$$'
	$(CTEST) $(BUILD)/tsan -R '^sh_threads(_ranks)?$$'

TSAN_LOADER = unit_loader unit_substitute unit_export
# Threads beside the loader's: the pool, timed waits, the reducer, the wait for ranks, the limit of pixels.
TSAN_RANKS  = unit_thread_pool unit_timed_wait unit_pixel_limit unit_reducer unit_join
one_of      = ^($(subst $() ,|,$(strip $(1))))$$

tsan-loader: tsan-loader-build ## of that only the loader, whose threads are its own, and the short run
	$(CTEST) $(BUILD)/tsan -R '$(call one_of,$(TSAN_LOADER) sh_threads)'

tsan-loader-build:
	@mkdir -p $(BUILD)/tsan
	@$(MAKE) --no-print-directory tsan-build BUILD=$(BUILD)/tsan TYPE=Tsan TSAN_TARGETS="$(TSAN_LOADER) glofnd_cli"

tsan-ranks: ## of that only the threads of ranks and the pool, and a run of two ranks with its heartbeat (MPI itself is not looked into)
	@mkdir -p $(BUILD)/tsan
	@$(MAKE) --no-print-directory tsan-build BUILD=$(BUILD)/tsan TYPE=Tsan TSAN_TARGETS="$(TSAN_RANKS) glofnd_cli"
	$(CTEST) $(BUILD)/tsan -R '$(call one_of,$(TSAN_RANKS) sh_threads_ranks)'

tsan-build:
	@$(CONFIGURE) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }
	@$(COMPILE) --target $(TSAN_TARGETS)

fuzz: ## fuzz every parser for FUZZ_SECONDS each, from fuzz/seeds, in BUILD/fuzzing (needs clang); FUZZ=name: one of them
	@sh tools/deps.sh
	@mkdir -p $(BUILD)/fuzzing/corpus
	@$(MAKE) --no-print-directory fuzz-build BUILD=$(BUILD)/fuzzing TYPE=Fuzz \
	    CMAKE_FLAGS="-DCMAKE_C_COMPILER=clang -DGLOFND_TESTS=OFF -DGLOFND_CUDA=OFF -DGLOFND_BENCH=OFF $(CMAKE_FLAGS)"
	@sh tools/fuzz.sh $(BUILD)/fuzzing $(FUZZ_SECONDS) $(FUZZ)

fuzz-build:
	@$(CONFIGURE) > $(BUILD)/configure.log 2>&1 || { cat $(BUILD)/configure.log; exit 1; }
	@$(COMPILE) --target fuzzers

debug: ## build without optimisation in BUILD/debug
	@$(MAKE) --no-print-directory everything BUILD=$(BUILD)/debug TYPE=Debug

docs: glofnd ## the documentation as a site with search, in BUILD/docs/site (MkDocs, from PyPI if it is not installed)
	@sh tools/docs.sh $(BUILD)

wheel: ## build the Python wheel into BUILD/wheel and test it in a clean virtual environment
	@sh tools/python_wheel.sh $(BUILD)

test-python: ## all tests of the Python package, in a virtual environment with PyTorch, JAX and others (or PYTHON=...)
	@JOBS=$(JOBS) CMAKE_FLAGS="$(CMAKE_FLAGS)" sh tools/python_test.sh $(BUILD)

install: all ## install header, libraries, pkg-config and CMake package to PREFIX
	DESTDIR=$(DESTDIR) cmake --install $(BUILD)

package: debs static ## Debian packages, a source archive, an archive of the static program, into BUILD/package
	@sh tools/archives.sh $(BUILD) $(VERSION)
	@ls -l $(BUILD)/package/*.deb $(BUILD)/package/*.tar.gz

debs: ## Debian packages alone
	@command -v file > /dev/null || apt-get install -y --no-install-recommends file > /dev/null || \
	    { echo "make debs: the program \`file\` is missing: install it (Debian: apt-get install file)"; exit 1; }
	@$(MAKE) --no-print-directory all BUILD=$(BUILD)/package PREFIX=/usr \
	    CMAKE_FLAGS="$(CMAKE_FLAGS) -DGLOFND_PACKAGE=ON -DGLOFND_TESTS=OFF -DGLOFND_BENCH=OFF -DGLOFND_EXAMPLES=OFF"
	@cd $(BUILD)/package && cpack > cpack.log 2>&1 || { cat cpack.log; exit 1; }

release: ## everything that is released, into dist/: wheels, sdist, packages, static program, notes, SHA256SUMS (needs the network)
	@JOBS=$(JOBS) sh tools/release/all.sh dist

test-package: everything ## try packages, static program, Dockerfile and conda recipe in clean roots (minutes; some need the network)
	$(CTEST) $(BUILD) -L '^package$$' --no-tests=ignore

clean: ## remove BUILD
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
