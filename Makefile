# kvroof: libkvroof, kvsim and roofline. `make help` lists the targets.
#
# One non-recursive makefile. Every room's *.c files go into the library, but for the mains (sim/kvsim*.c and
# analysis/roofline*.c); every tests/test_*.c is a CUnit module. A new file needs no edit here.
# Options (or a config.mk): B=build folder, SAN=address,undefined, NVCC= (empty: build without CUDA), WERROR=.

-include config.mk

CC        ?= cc
CXX       ?= c++
B         ?= build
prefix    ?= /usr/local
NVCC      ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
PKGCONFIG ?= pkg-config
WERROR    ?= -Werror
Q         := $(if $(V),,@)# V=1 shows every command

ROOMS   := traces sim models analysis notebooks-free-reports kernels
VERSION := $(shell git describe --always --dirty --tags 2>/dev/null || echo 0.1.0)

# Debian's serial HDF5 is hdf5-serial.pc on some releases and hdf5.pc on others.
HDF5PC := $(firstword $(foreach p,hdf5-serial hdf5,$(shell $(PKGCONFIG) --exists $(p) 2>/dev/null && echo $(p))))
PKGS   := $(HDF5PC) gsl jansson inih libelf liblz4 libzstd libcrypto libzip zlib
MISSING := $(foreach p,$(PKGS) cunit,$(shell $(PKGCONFIG) --exists $(p) 2>/dev/null || echo $(p)))
ifeq ($(HDF5PC),)
MISSING := hdf5 $(MISSING)
endif
ifneq ($(strip $(MISSING)),)
ifeq ($(filter clean help,$(MAKECMDGOALS)),)
$(error missing libraries (pkg-config names): $(MISSING). `sh quickstart.sh` installs them, or see README.md)
endif
endif

WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla $(WERROR)
# The programs are built for the machine that builds them, in the two classes that matter here (AVX2, or plain);
# MARCH= takes what the compiler takes by default. No contraction: results must not depend on the class.
ifndef MARCH
MARCH := $(if $(shell grep -m1 -w avx2 /proc/cpuinfo 2>/dev/null | grep -w bmi2),-march=x86-64-v3)
endif
OPT  ?= -O3 -g
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
INC  := $(addprefix -I,$(ROOMS)) -I$(B)
CPPFLAGS_ALL := $(INC) -D_GNU_SOURCE -DH5_USE_110_API $(shell $(PKGCONFIG) --cflags $(PKGS) cunit 2>/dev/null) $(CPPFLAGS)
CFLAGS_ALL    = -std=c11 $(OPT) $(MARCH) -ffp-contract=off $(WARN) $(SANFLAGS) -fPIC -pthread $(CFLAGS)
LDFLAGS_ALL  := $(SANFLAGS) -pthread $(LDFLAGS)
HDF5HL := $(subst -lhdf5,-lhdf5_hl -lhdf5,$(shell $(PKGCONFIG) --libs $(HDF5PC) 2>/dev/null))
LIBS   := $(HDF5HL) $(shell $(PKGCONFIG) --libs $(filter-out $(HDF5PC),$(PKGS)) 2>/dev/null) -liberty -ldl -lm

MAINS    := $(wildcard sim/kvsim*.c analysis/roofline*.c)
LIBSRC   := $(filter-out $(MAINS),$(wildcard $(addsuffix /*.c,$(ROOMS))))
TESTSRC  := $(wildcard tests/test_*.c)
BENCHSRC := $(wildcard tests/bench_*.c)
LIBOBJ   := $(LIBSRC:%.c=$(B)/%.o)
LIB      := $(B)/libkvroof.a

include $(wildcard kernels/rules.mk tests/rules.mk analysis/rules.mk)

.DEFAULT_GOAL := all
.PHONY: all found
all: found $(B)/kvsim $(B)/roofline

found:
	@echo "kvroof $(VERSION): cc=$(CC) hdf5=$(HDF5PC) $(shell $(PKGCONFIG) --modversion $(HDF5PC)) gsl=$(shell $(PKGCONFIG) --modversion gsl)"
	@if [ -n "$(NVCC)" ]; then echo "  [x] nvcc: $(NVCC) (GPU kernels and measurement are built in)"; \
	 else echo "  [ ] nvcc not found: left out are the GPU kernels and every measurement; roofline models only"; fi
	@if command -v gnuplot >/dev/null; then echo "  [x] gnuplot: $$(gnuplot --version)"; \
	 else echo "  [ ] gnuplot not found: reports will stop with an error (Debian package: gnuplot-nox)"; fi

# Rewritten only when the text changes, so that a rebuild without a new commit compiles nothing.
$(B)/kv_version.h: FORCE
	@mkdir -p $(@D); printf '#define KV_VERSION "%s"\n#define KV_BUILD_FLAGS "%s"\n#define KV_SOURCE_DIR "%s"\n#define KV_PREFIX "%s"\n' \
	  '$(VERSION)' '$(OPT) $(SANFLAGS)' '$(CURDIR)' '$(prefix)' >$@.part; cmp -s $@.part $@ && rm $@.part || mv $@.part $@
.PHONY: FORCE
FORCE:

# Other flags than last time, or nvcc come or gone: everything is compiled again.
$(B)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(OPT) $(MARCH) $(SANFLAGS) $(WARN) $(CFLAGS) $(CPPFLAGS) nvcc=$(NVCC)' >$@.part; cmp -s $@.part $@ && rm $@.part || mv $@.part $@

$(B)/%.o: %.c $(B)/flags | $(B)/kv_version.h
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

$(LIB): $(LIBOBJ) $(KERNELOBJ)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(B)/kvsim: $(patsubst %.c,$(B)/%.o,$(wildcard sim/kvsim*.c)) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) -o $@

$(B)/roofline: $(patsubst %.c,$(B)/%.o,$(wildcard analysis/roofline*.c)) $(LIB)
	@echo "  LINK  $@"
	$(Q)$(CC) $(LDFLAGS_ALL) $^ $(LIBS) $(KERNELLIBS) -o $@

-include $(LIBOBJ:.o=.d) $(MAINS:%.c=$(B)/%.d) $(TESTSRC:%.c=$(B)/%.d) $(BENCHSRC:%.c=$(B)/%.d)

# ---- checks and chores ----
.PHONY: lint format man install uninstall clean help test-gpu case-study
lint:
	@sh tests/lint.sh

format:
	clang-format -i $$(git ls-files '*.c' '*.h' '*.cu' '*.cuh')

# Man pages, one a program and sub-command, come from --help.
man: $(B)/man/.made
$(B)/man/.made: $(B)/kvsim $(B)/roofline analysis/man.sh
	@sh analysis/man.sh $(B) && touch $@

DATADIR = $(DESTDIR)$(prefix)/share/kvroof
install: all
	install -d $(DESTDIR)$(prefix)/bin $(DESTDIR)$(prefix)/lib/pkgconfig $(DESTDIR)$(prefix)/include/kvroof
	install -m 755 $(B)/kvsim $(B)/roofline $(DESTDIR)$(prefix)/bin
	install -m 644 $(LIB) $(DESTDIR)$(prefix)/lib
	install -m 644 $(wildcard $(addsuffix /*.h,$(ROOMS))) $(DESTDIR)$(prefix)/include/kvroof
	@printf 'prefix=%s\nName: kvroof\nDescription: KV pool replay and attention roofline library\nVersion: %s\nRequires: %s\nCflags: -I$${prefix}/include/kvroof\nLibs: -L$${prefix}/lib -lkvroof -lhdf5_hl -liberty -ldl -lm -pthread\n' \
	  '$(prefix)' '$(VERSION)' '$(PKGS)' >$(DESTDIR)$(prefix)/lib/pkgconfig/kvroof.pc
	for d in models/gpus $(wildcard models/kernels models/pipes models/dram models/measured) notebooks-free-reports traces/samples; do \
	  install -d $(DATADIR)/$$d && for f in $$d/*; do case $$f in *.c|*.h|*.mk) ;; *) [ -f $$f ] && install -m 644 $$f $(DATADIR)/$$d;; esac; done; done
	install -m 755 traces/record_sglang.py traces/record_vllm.py $(DATADIR)/traces
	install -d $(DESTDIR)$(prefix)/share/bash-completion/completions
	install -m 644 analysis/completion.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/kvsim
	install -m 644 analysis/completion.bash $(DESTDIR)$(prefix)/share/bash-completion/completions/roofline
	if command -v help2man >/dev/null; then $(MAKE) --no-print-directory man && install -d $(DESTDIR)$(prefix)/share/man/man1 && \
	  install -m 644 $(B)/man/*.1 $(DESTDIR)$(prefix)/share/man/man1; fi

uninstall:
	rm -rf $(DESTDIR)$(prefix)/bin/kvsim $(DESTDIR)$(prefix)/bin/roofline $(DESTDIR)$(prefix)/lib/libkvroof.a \
	  $(DESTDIR)$(prefix)/lib/pkgconfig/kvroof.pc $(DESTDIR)$(prefix)/include/kvroof $(DATADIR) \
	  $(DESTDIR)$(prefix)/share/man/man1/kvsim.1 $(DESTDIR)$(prefix)/share/man/man1/roofline.1 \
	  $(DESTDIR)$(prefix)/share/man/man1/kvsim-*.1 $(DESTDIR)$(prefix)/share/man/man1/roofline-*.1 \
	  $(DESTDIR)$(prefix)/share/bash-completion/completions/kvsim $(DESTDIR)$(prefix)/share/bash-completion/completions/roofline

clean:
	rm -rf $(B)

help:
	@echo "make            kvsim and roofline in $(B)/; says what it found and what it leaves out"
	@echo "make test       all tests that need no GPU; SUITE=name for one, RECORDINGS=DIR to check your own recordings"
	@echo "make test-gpu   the tests that need a GPU"
	@echo "make bench      benchmarks, each beside its floor"
	@echo "make lint       rules a compiler does not know, cppcheck, shellcheck"
	@echo "make case-study the case that started the project, worked through: $(B)/case-study/case-study.md and .pdf"
	@echo "make programs   machine code of the kernels as programs of the time model, models/kernels/ (nvcc, nvdisasm)"
	@echo "make fuzz-check / fuzz    our own driver under the sanitizers (RUNS=) / libFuzzer (FUZZ_SECONDS=)"
	@echo "make format man install uninstall clean"
	@echo "options         B=folder SAN=address,undefined NVCC= (no CUDA) MARCH= prefix= DESTDIR= V=1"
