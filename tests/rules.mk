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

$(B)/run-tests: $(TESTSRC:%.c=$(B)/%.o) $(B)/tests/registry.o $(B)/tests/kv_test.o $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

$(B)/bench-%: $(B)/tests/bench_%.o $(B)/tests/kv_test.o $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) $(CUNITLIB) -o $@

.PHONY: test bench
# KVROOF_BUILD tells the tests where the programs are; SUITE=name runs one suite only.
test: all $(B)/run-tests
	KVROOF_BUILD=$(abspath $(B)) KVROOF_SAN='$(SAN)' $(B)/run-tests $(SUITE)

bench: all $(BENCHSRC:tests/bench_%.c=$(B)/bench-%)
	@for b in $(BENCHSRC:tests/bench_%.c=$(B)/bench-%); do KVROOF_BUILD=$(abspath $(B)) $$b || exit 1; done

# ---- the audit's fuzzer: clang's libFuzzer under ASan and UBSan, seeded with the fixtures and the crafted text below ----
FUZZAUDIT := tests/fuzz_audit.c $(wildcard analysis/audit*.c) traces/kv_status.c traces/kv_h5.c
SECONDS ?= 60
.PHONY: fuzz-audit
$(B)/fuzz-audit: $(FUZZAUDIT) $(wildcard analysis/audit*.h) | $(B)/kv_version.h
	clang $(CPPFLAGS_ALL) -std=c11 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer \
	  $(FUZZAUDIT) $(LIBS) -pthread -o $@
fuzz-audit: $(B)/fuzz-audit
	@mkdir -p $(B)/corpus-audit $(B)/seeds-audit
	@cp tests/golden/audit/*.fatbin tests/golden/audit/*.cubin tests/golden/audit/*.ptx tests/golden/audit/*.whl tests/golden/audit/*.so \
	  tests/golden/audit/full.a tests/golden/audit/relocatable.o $(B)/seeds-audit
	@for k in CM:CMakeLists.txt NJ:build.ninja PY:setup.py; do (printf '%s' $${k%%:*}; cat tests/golden/audit/source/$${k#*:}) >$(B)/seeds-audit/$${k%%:*}; done
	@(printf SA; cat tests/golden/audit/listing.sass) >$(B)/seeds-audit/sass
	$(B)/fuzz-audit -max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=4096 -max_len=131072 -print_final_stats=1 -artifact_prefix=$(B)/ $(B)/corpus-audit $(B)/seeds-audit
