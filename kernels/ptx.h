/* ptx.h - every instruction of the kernels that is not plain C++, behind one name each.
 *
 * Compiled by nvcc the names are single PTX instructions of sm_80 and later. Compiled by a C++ compiler with
 * KVK_EMULATE the same names are calls into ptx_emu.cc, which runs the threads of a block as fibers and checks what
 * they do to shared memory. A kernel that touches shared memory, another lane or a barrier only through these names
 * runs unchanged in both.
 *
 * Shared memory is addressed by 32-bit byte addresses from kx_smem(). Fragment layouts are those of mma.m16n8k16:
 * lane = 4 g + t; a[0..3] = A(g, 2t), A(g+8, 2t), A(g, 2t+8), A(g+8, 2t+8), two consecutive k each; b0, b1 = B(2t, g),
 * B(2t+8, g); c[0..3] = C(g, 2t), C(g, 2t+1), C(g+8, 2t), C(g+8, 2t+1).
 */
#ifndef KVK_PTX_H
#define KVK_PTX_H

#include <stddef.h>
#include <stdint.h>

struct kx_f2 { float x, y; };
struct kx_f4 { float x, y, z, w; };
struct kx_u4 { uint32_t x, y, z, w; };

/* How a launch is wanted. `overlap`: the kernel may start before the one ahead of it on the stream has ended, and calls
 * kx_grid_wait() before it reads anything that one wrote. */
struct kx_grid {
  unsigned x, y, threads, smem;
  bool overlap;
  void *stream; /* emulation: struct kx_emu_run * */
  bool least_l1; /* of the memory that L1 and shared memory share, all that may be is to be shared memory */
};

/* A condition that seldom holds: its code is put out of the way, for a jump over it costs some 20 cycles of fetching. */
#define KX_RARE(x) __builtin_expect(!!(x), 0)

#ifdef KVK_EMULATE
#include "ptx_emu.h"
#else
#include <cuda_runtime.h>

#define KX_DEVICE __device__ __forceinline__
#define KX_KERNEL __global__ void
#define KX_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#define KX_PARAM const __grid_constant__

/* Whether a block of the GPU compiled for can have that many bytes of shared memory; constant. */
#if __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200
#define KX_HAS_SMEM(bytes) ((bytes) <= 101376)
#elif __CUDA_ARCH__ >= 900
#define KX_HAS_SMEM(bytes) ((bytes) <= 232448)
#else
#define KX_HAS_SMEM(bytes) ((bytes) <= 166912)
#endif

KX_DEVICE unsigned kx_tid() { return threadIdx.x; }
KX_DEVICE unsigned kx_block() { return blockIdx.x; }
KX_DEVICE unsigned kx_block_y() { return blockIdx.y; }
KX_DEVICE unsigned kx_blocks() { return gridDim.x; }

extern __shared__ __align__(128) unsigned char kx_dynamic[];
KX_DEVICE uint32_t kx_smem() { return (uint32_t)__cvta_generic_to_shared(kx_dynamic); }

/* Ends the launch with an error: better than a kernel that was not built for this GPU and leaves its output as it was. */
KX_DEVICE void kx_trap() { asm volatile("trap;"); }

/* --- barriers --- */
KX_DEVICE void kx_sync_warp() { __syncwarp(); }
KX_DEVICE void kx_bar_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
KX_DEVICE void kx_mbar_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
/* Before its memory is initialised anew. */
KX_DEVICE void kx_mbar_inval(uint32_t bar) { asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(bar) : "memory"); }
KX_DEVICE void kx_mbar_arrive(uint32_t bar) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(bar) : "memory");
}
/* Waits until the phase of that parity has completed. */
KX_DEVICE void kx_mbar_wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
#if __CUDA_ARCH__ >= 900
      "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
#else
      "mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
#endif
      "@!done bra again;\n"
      "}\n" ::"r"(bar), "r"(parity)
      : "memory");
}

/* Whether it has, without waiting; may say no though it has. Before sm_90 it always says no: split_verify has no register left
 * for the answer there. */
KX_DEVICE bool kx_mbar_test(uint32_t bar, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}\n" : "=r"(done) : "r"(bar), "r"(parity) : "memory");
  return done != 0;
#else
  (void)bar, (void)parity;
  return false;
#endif
}

/* --- asynchronous copies, 16 bytes; slot < 0, not `real`: writes zeros and reads nothing --- */
KX_DEVICE void kx_copy16_of(uint32_t to, const void *from, int32_t slot) {
  asm volatile("{\n.reg .pred none;\nsetp.lt.s32 none, %2, 0;\ncp.async.cg.shared.global [%0], [%1], 16, none;\n}\n" ::"r"(to), "l"(from), "r"(slot) : "memory");
}
KX_DEVICE void kx_copy16(uint32_t to, const void *from, bool real) {
  asm volatile("{\n.reg .pred none;\nsetp.eq.u32 none, %2, 0;\ncp.async.cg.shared.global [%0], [%1], 16, none;\n}\n" ::"r"(to), "l"(from), "r"((uint32_t)real) : "memory");
}
KX_DEVICE void kx_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
KX_DEVICE void kx_copy_wait_all() { asm volatile("cp.async.wait_group 0;" ::: "memory"); }
/* This thread's copies so far, once they have landed, arrive at the barrier (which counts them in). */
KX_DEVICE void kx_copy_arrive(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}

/* Asks for the line at `at` to be in the L2 later. */
KX_DEVICE void kx_prefetch(const void *at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

/* --- global memory, 16 and 8 bytes at once; aligned to as many --- */
KX_DEVICE int32_t kx_load_slot(const int32_t *at) {
  int32_t v;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(v) : "l"(at));
  return v;
}
KX_DEVICE kx_u4 kx_load16(const void *at) {
  const uint4 v = *(const uint4 *)at;
  return {v.x, v.y, v.z, v.w};
}
KX_DEVICE void kx_store16(void *to, const kx_u4 &v) { *(uint4 *)to = make_uint4(v.x, v.y, v.z, v.w); }
KX_DEVICE kx_f2 kx_load8(const void *at) {
  const float2 v = *(const float2 *)at;
  return {v.x, v.y};
}
KX_DEVICE void kx_store8(void *to, const kx_f2 &v) { *(float2 *)to = make_float2(v.x, v.y); }

/* --- shared memory --- */
KX_DEVICE void kx_sts(uint32_t to, uint32_t v) { asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(v) : "memory"); }
KX_DEVICE void kx_sts(uint32_t to, float v) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(v) : "memory"); }
KX_DEVICE void kx_sts(uint32_t to, kx_f2 v) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(v.x), "f"(v.y) : "memory");
}
KX_DEVICE void kx_sts(uint32_t to, kx_f4 v) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
}
KX_DEVICE void kx_sts(uint32_t to, kx_u4 v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
KX_DEVICE uint32_t kx_lds_u32(uint32_t at) {
  uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}
KX_DEVICE float kx_lds_f32(uint32_t at) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
  return v;
}
KX_DEVICE kx_f2 kx_lds_f2(uint32_t at) {
  kx_f2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}
KX_DEVICE kx_f4 kx_lds_f4(uint32_t at) {
  kx_f4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
  return v;
}
KX_DEVICE kx_u4 kx_lds_u4(uint32_t at) {
  kx_u4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}

/* --- 8x8 matrices of 16-bit values: lane l gives the address of row l % 8 of matrix l / 8 --- */
KX_DEVICE void kx_ldmatrix4(uint32_t r[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
KX_DEVICE void kx_ldmatrix4_trans(uint32_t r[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
KX_DEVICE void kx_ldmatrix2_trans(uint32_t r[2], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory");
}
/* Four of them to rows whose addresses lanes give likewise; sm_90 and later. */
KX_DEVICE void kx_stmatrix4(uint32_t at, const uint32_t r[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
#else
  (void)at, (void)r;
  kx_trap();
#endif
}
KX_DEVICE uint32_t kx_transpose(uint32_t v) {
  uint32_t r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}
KX_DEVICE void kx_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* --- lanes --- */
KX_DEVICE float kx_shfl_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
KX_DEVICE uint32_t kx_shfl_up(uint32_t v, int by) { return __shfl_up_sync(0xffffffffu, v, by); }
KX_DEVICE uint32_t kx_shfl(uint32_t v, int lane) { return __shfl_sync(0xffffffffu, v, lane); }
KX_DEVICE bool kx_any(bool v) { return __any_sync(0xffffffffu, v) != 0; }
KX_DEVICE uint32_t kx_ballot(bool v) { return __ballot_sync(0xffffffffu, v); }
KX_DEVICE int kx_first(uint32_t mask) { return __ffs((int)mask) - 1; }
/* v, in a register: the assembler works out addresses anew in every turn of a loop, but must keep what came out of a shuffle. By a whole warp. */
KX_DEVICE uint32_t kx_keep(uint32_t v) { return kx_shfl(v, (int)(threadIdx.x & 31)); }

/* --- arithmetic --- */
KX_DEVICE float kx_exp2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
KX_DEVICE float kx_reciprocal(float v) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
KX_DEVICE float kx_log2(float v) { return __log2f(v); }
KX_DEVICE float kx_max(float a, float b) { return fmaxf(a, b); }
KX_DEVICE float kx_mul(float a, float b) { return __fmul_rn(a, b); } /* never part of a multiply-add */
KX_DEVICE float kx_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
KX_DEVICE float kx_inf() { return __int_as_float(0x7f800000); }
KX_DEVICE float kx_bits_float(uint32_t v) { return __uint_as_float(v); }
KX_DEVICE uint32_t kx_pack_bf16(float low, float high) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
}

/* --- neighbouring kernels of a stream (sm_90 and later; elsewhere a launch waits for the one ahead anyway) --- */
KX_DEVICE void kx_grid_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
KX_DEVICE void kx_grid_release() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#ifdef __CUDACC__
/* Enqueues; NULL, or CUDA's words for what went wrong. */
template <class P>
const char *kx_launch(void (*kernel)(P), const kx_grid &grid, const P &params) {
  cudaError_t e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)grid.smem);
  if (e == cudaSuccess && grid.least_l1)
    e = cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (e != cudaSuccess) return cudaGetErrorString(e);
  cudaLaunchAttribute overlap;
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid.x, grid.y, 1);
  config.blockDim = dim3(grid.threads, 1, 1);
  config.dynamicSmemBytes = grid.smem;
  config.stream = (cudaStream_t)grid.stream;
  config.attrs = &overlap;
  config.numAttrs = grid.overlap ? 1 : 0;
  e = cudaLaunchKernelEx(&config, kernel, params);
  return e == cudaSuccess ? NULL : cudaGetErrorString(e);
}
#endif
#endif /* KVK_EMULATE */

/* The launchers of the .cu files exist twice in the library: kvk_cuda_X and kvk_emu_X. */
#ifdef KVK_EMULATE
#define KX_NAME(x) kvk_emu_##x
#else
#define KX_NAME(x) kvk_cuda_##x
#endif
#endif
