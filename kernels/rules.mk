# Included by the Makefile: the CUDA kernels, the same sources for the host (emulation), the device test programs.
#
# CUDA_ARCHS="90" compiles for one GPU only while developing. Every object's resource report by ptxas lies beside it
# (build/kernels/NAME.ptxas); tests/test_kernels_build.c reads them.

CUDA_ARCHS ?= 80 86 89 90 100 120
# Faults planted for the emulation's tests are for the host only; microbenchmarks and the harness for a real GPU only.
CUDASRC    := $(filter-out kernels/attn_probe.cu,$(sort $(wildcard kernels/*.cu)))
DEVICESRC  := kernels/attn_device.cu kernels/gpu_info.cu kernels/harness_device.cu $(wildcard kernels/ceil*.cu kernels/plant*.cu)
EMUSRC     := $(filter-out $(DEVICESRC),$(wildcard kernels/*.cu))

CXXFLAGS_EMU = -std=c++17 $(OPT) -Wall -Wextra -Wno-unknown-pragmas $(WERROR) $(SANFLAGS) -fPIC -fno-exceptions -fno-rtti \
               -DKVK_EMULATE $(CXXFLAGS)
EMUOBJ := $(EMUSRC:%.cu=$(B)/%.emu.o) $(B)/kernels/ptx_emu.o

$(B)/kernels/%.emu.o: kernels/%.cu
	@mkdir -p $(@D)
	$(CXX) $(INC) $(CPPFLAGS) $(CXXFLAGS_EMU) -MMD -MP -x c++ -c $< -o $@

$(B)/kernels/ptx_emu.o: kernels/ptx_emu.cc
	@mkdir -p $(@D)
	$(CXX) $(INC) $(CPPFLAGS) $(CXXFLAGS_EMU) -MMD -MP -c $< -o $@

-include $(EMUOBJ:.o=.d)

ifneq ($(NVCC),)
CUDAHOME  := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
GENCODE    = $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
             -gencode arch=compute_$(firstword $(CUDA_ARCHS)),code=compute_$(firstword $(CUDA_ARCHS))
NVCCFLAGS  = -std=c++17 -O3 -lineinfo $(GENCODE) -Xptxas -v -Xfatbin -compress-all $(if $(WERROR),-Werror all-warnings) \
             -Xcompiler -fPIC,-Wall,-Wextra,-fno-exceptions,-fno-threadsafe-statics $(INC)
CUDAOBJ   := $(CUDASRC:%.cu=$(B)/%.cu.o)
CUDAINC   := -isystem $(CUDAHOME)/include
KERNELLIBS := $(firstword $(wildcard $(CUDAHOME)/lib64/libcudart_static.a $(CUDAHOME)/lib/libcudart_static.a \
              $(CUDAHOME)/targets/x86_64-linux/lib/libcudart_static.a)) -lrt -lpthread -ldl
LIBOBJ    := $(filter-out $(B)/kernels/cuda_absent.o $(B)/kernels/device_absent.o,$(LIBOBJ))

$(B)/kernels/%.cu.o: kernels/%.cu
	@mkdir -p $(@D)
	@echo "$(NVCC) -c $< ($(CUDA_ARCHS))"
	@$(NVCC) $(NVCCFLAGS) -MD -MP -MF $(@:.o=.d) -c $< -o $@ 2>$(@:.cu.o=.ptxas) || { cat $(@:.cu.o=.ptxas) >&2; rm -f $@; exit 1; }

# wgmma exists on sm_90a alone. `override`, or CUDA_ARCHS=... on the command line would win.
$(B)/kernels/ceil_wgmma.cu.o: override CUDA_ARCHS := $(patsubst 90,90a,$(CUDA_ARCHS))

-include $(CUDAOBJ:.o=.d)

# Device programs: CUDA's runtime and libc only, so that they run on a bare GPU machine.
GPUPROGS := $(B)/gpu-tests $(B)/gpu-bench-attn
$(B)/tests/gpu_%.o: tests/gpu_%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CUDAINC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(B)/tests/gpu_%.cu.o: tests/gpu_%.cu
	@mkdir -p $(@D)
	@$(NVCC) $(NVCCFLAGS) -c $< -o $@ 2>$(@:.cu.o=.ptxas) || { cat $(@:.cu.o=.ptxas) >&2; exit 1; }
$(B)/gpu-tests: $(B)/tests/gpu_attention.o $(B)/tests/gpu_device.o $(B)/tests/gpu_flush.cu.o $(B)/tests/gpu_plants.cu.o $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(KERNELLIBS) -lm -o $@
$(B)/gpu-bench-attn: $(B)/tests/gpu_bench.o $(B)/tests/gpu_device.o $(B)/tests/gpu_flush.cu.o $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(KERNELLIBS) -lm -o $@

# Beside SGLang's own kernel (tests/peer/README.md); libkvroof's statistics need GSL, which such a machine may lack.
PEEROBJ := $(patsubst tests/%.c,$(B)/tests/%.o,$(wildcard tests/peer/*.c))
$(PEEROBJ): $(B)/tests/peer/%.o: tests/peer/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) -Itests/peer $(CUDAINC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@
$(B)/gpu-peer-triton: $(PEEROBJ) $(LIB)
	$(CC) $(LDFLAGS_ALL) $^ $(KERNELLIBS) -Wl,-Bstatic $(filter-out -lm,$(shell $(PKGCONFIG) --libs gsl)) -Wl,-Bdynamic -lm -o $@

-include $(wildcard $(B)/tests/gpu_*.d $(B)/tests/peer/*.d)

.PHONY: test-gpu gpu-programs
gpu-programs: $(GPUPROGS)
test-gpu: $(B)/gpu-tests $(B)/roofline
	$(B)/gpu-tests
	$(B)/roofline calibrate -q -o $(B)/test-gpu-ceilings.h5 >/dev/null
	$(B)/roofline selftest -q --calibration $(B)/test-gpu-ceilings.h5 -o $(B)/test-gpu-planted.h5
else
CUDAOBJ    :=
KERNELLIBS :=
.PHONY: test-gpu
test-gpu:
	@echo "test-gpu: skipped, this build has no CUDA (nvcc not found)"
endif

KERNELOBJ := $(CUDAOBJ) $(EMUOBJ)

# The declarations of this project's kernels in models/kernels, from their machine code; nvcc and nvdisasm are needed, a
# GPU is not.
PROGRAM_ARCH ?= 90
PROGRAM_NVCC ?= $(or $(NVCC),$(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc)))
NVDISASM     ?= $(firstword $(wildcard $(shell command -v nvdisasm 2>/dev/null) /usr/local/cuda/bin/nvdisasm))
.PHONY: programs
programs: $(B)/roofline
	@test -n "$(PROGRAM_NVCC)" && test -n "$(NVDISASM)" || { echo "programs: needs nvcc and nvdisasm (NVDISASM=..., package nvidia-cuda-nvdisasm)" >&2; exit 1; }
	sh kernels/programs/make-programs.sh $(B)/roofline $(PROGRAM_NVCC) $(NVDISASM) $(PROGRAM_ARCH) models/kernels
