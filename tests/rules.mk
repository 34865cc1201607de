# Included by the Makefile: tests, benchmarks, lint, fuzzing.

CUNITLIB := $(shell $(PKGCONFIG) --libs cunit 2>/dev/null)
RECORDINGS ?=
export RECORDINGS

# A suite is called by the generated registry alone, so it has no prototype elsewhere.
$(B)/tests/%.o: WARN += -Wno-missing-prototypes

# test_foo.c defines `void suite_foo(void)`; the registry that calls them all is generated from the file names.
SUITES := $(patsubst tests/test_%.c,%,$(sort $(TESTSRC)))
$(B)/tests/registry.c: $(TESTSRC) tests/rules.mk
	@mkdir -p $(@D)
	@{ for s in $(SUITES); do echo "void suite_$$s(void);"; done; echo "void register_suites(void);"; \
	   echo "void register_suites(void) {"; for s in $(SUITES); do echo "  suite_$$s();"; done; echo "}"; } >$@

$(B)/tests/registry.o: $(B)/tests/registry.c
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -c $< -o $@

TESTHELP := $(B)/tests/kv_test.o $(B)/tests/trace_fixture.o
$(B)/run-tests: $(TESTSRC:%.c=$(B)/%.o) $(B)/tests/registry.o $(TESTHELP) $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

$(B)/bench-%: $(B)/tests/bench_%.o $(TESTHELP) $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

.PHONY: test bench
# KVROOF_BUILD tells the tests where the programs are; SUITE=name runs one suite only.
test: all $(B)/run-tests
	KVROOF_BUILD=$(abspath $(B)) KVROOF_SAN='$(SAN)' $(B)/run-tests $(SUITE)

bench: all $(BENCHSRC:tests/bench_%.c=$(B)/bench-%)
	@for b in $(BENCHSRC:tests/bench_%.c=$(B)/bench-%); do KVROOF_BUILD=$(abspath $(B)) $$b || exit 1; done
