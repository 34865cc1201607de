# Included by the Makefile: tests, benchmarks, lint, fuzzing.

CUNITLIB := $(shell $(PKGCONFIG) --libs cunit 2>/dev/null)
RECORDINGS ?=
WORKLOADS ?=
SGLANG_WHEELS ?=
VLLM_WHEELS ?=
PYTHON ?= python3
export RECORDINGS WORKLOADS SGLANG_WHEELS VLLM_WHEELS PYTHON

# A suite is called by the generated registry alone, so it has no prototype elsewhere.
$(B)/tests/%.o: WARN += -Wno-missing-prototypes

# test_foo.c defines `void suite_foo(void)`; the registry that calls them all is generated from the file names.
SUITES := $(patsubst tests/test_%.c,%,$(sort $(TESTSRC)))
$(B)/tests/registry.c: $(TESTSRC) tests/rules.mk
	@mkdir -p $(@D)
	@{ for s in $(SUITES); do echo "void suite_$$s(void);"; done; echo "void register_suites(void);"; \
	   echo "void register_suites(void) {"; for s in $(SUITES); do echo "  suite_$$s();"; done; echo "}"; } >$@

$(B)/tests/registry.o: $(B)/tests/registry.c
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -c $< -o $@

TESTHELP := $(B)/tests/kv_test.o $(B)/tests/trace_fixture.o
$(B)/run-tests: $(TESTSRC:%.c=$(B)/%.o) $(B)/tests/registry.o $(TESTHELP) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

$(B)/bench-%: $(B)/tests/bench_%.o $(TESTHELP) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

.PHONY: test bench
# KVROOF_BUILD tells the tests where the programs are; SUITE=name runs one suite only.
test: all $(B)/run-tests
	KVROOF_BUILD=$(abspath $(B)) KVROOF_SAN='$(SAN)' KVROOF_NVCC='$(NVCC)' $(B)/run-tests $(SUITE)

bench: all $(BENCHSRC:tests/bench_%.c=$(B)/bench-%)
	@for b in $(BENCHSRC:tests/bench_%.c=$(B)/bench-%); do KVROOF_BUILD=$(abspath $(B)) $$b || exit 1; done

# ---- fuzzing ----
# tests/fuzz_X.c is a libFuzzer target (one alone: FUZZERS=audit). `make fuzz-check` runs the corpus in tests/corpus/X and RUNS mutations of it
# with our own driver, under the sanitizers; `make fuzz` runs libFuzzer (clang) for FUZZ_SECONDS a target.
FUZZSRC := $(filter-out tests/fuzz_driver.c,$(wildcard tests/fuzz_*.c))
FUZZERS := $(FUZZSRC:tests/fuzz_%.c=%)
RUNS ?= 2000
FUZZ_SECONDS ?= 60
FUZZ_LENGTH ?= 8192
FUZZLIBS = $(LIBS) $(KERNELLIBS) $(CUNITLIB)

$(B)/fuzz-%: $(B)/tests/fuzz_%.o $(B)/tests/fuzz_driver.o $(TESTHELP) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(FUZZLIBS) -o $@

.PHONY: fuzz fuzz-check
fuzz-check:
	@$(MAKE) --no-print-directory B=$(B)/san SAN=address,undefined NVCC= $(FUZZERS:%=$(B)/san/fuzz-%) >$(B)/fuzz-build.log 2>&1 || { tail -20 $(B)/fuzz-build.log; exit 1; }
	@for f in $(FUZZERS); do n=$(RUNS); [ $$f = trace ] && n=$$(( n / 20 )); $(B)/san/fuzz-$$f tests/corpus/$$f $$n || exit 1; done

# clang may lack the fuzzer's runtime (Debian: libclang-rt-14-dev).
# The kernels come from the library: their emulation is C++.
fuzz: $(LIB)
	@for f in $(FUZZERS); do mkdir -p $(B)/fuzz/$$f; \
	  clang -std=c11 -g -O1 -fsanitize=fuzzer,address,undefined $(CPPFLAGS_ALL) -Wno-everything tests/fuzz_$$f.c tests/trace_fixture.c \
	    $(filter-out %stub.c kernels/%,$(LIBSRC)) $(LIB) $(FUZZLIBS) -o $(B)/fuzz-$$f-clang || exit 1; \
	  $(B)/fuzz-$$f-clang -max_total_time=$(FUZZ_SECONDS) -max_len=$(FUZZ_LENGTH) -artifact_prefix=$(B)/fuzz/$$f- -print_final_stats=1 \
	    $(B)/fuzz/$$f tests/corpus/$$f || exit 1; done
