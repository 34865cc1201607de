/* L1 / shared-memory wavefronts: conflict-free reads and writes of shared memory and hits in L1.
 *
 * Bound: one wavefront of 128 B a cycle and SM, whatever moves it (H200 at 1.98 GHz: 253 GB/s an SM, 33.5
 * TB/s for 132). Work is counted in wavefronts x 128 B: a warp's 4-byte access is one, a 16-byte access or
 * ldmatrix.x4 four.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum wave_kind { WAVE_LDS32, WAVE_LDS128, WAVE_LDMATRIX, WAVE_STS128, WAVE_L1 };

template <int KIND>
__device__ __forceinline__ void wave(unsigned address, const unsigned char *global, uint4 *v) {
  if (KIND == WAVE_LDS32) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v->x) : "r"(address));
  if (KIND == WAVE_LDS128)
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v->x), "=r"(v->y), "=r"(v->z), "=r"(v->w)
                 : "r"(address));
  if (KIND == WAVE_LDMATRIX)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v->x), "=r"(v->y), "=r"(v->z), "=r"(v->w)
                 : "r"(address));
  if (KIND == WAVE_STS128)
    asm volatile("st.shared.v4.u32 [%4], {%0,%1,%2,%3};" ::"r"(v->x), "r"(v->y), "r"(v->z), "r"(v->w),
                 "r"(address));
  if (KIND == WAVE_L1)
    asm volatile("ld.global.ca.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v->x), "=r"(v->y), "=r"(v->z), "=r"(v->w)
                 : "l"(global));
}

/* Each warp reads 2 KiB at a time and moves on by `step` (2048; an argument, so that the assembler can't see
 * that an address comes again and drop the load); lanes lie side by side, so no two lanes of a wavefront
 * share a bank. */
template <int KIND>
__global__ void __launch_bounds__(512)
    wave_kernel(const unsigned char *p, int steps, unsigned step, unsigned *dump) {
  __shared__ __align__(128) unsigned char tile[32768];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, width = KIND == WAVE_LDS32 ? 4 : 16;
  unsigned local = (warp * 2048 + lane * width) % 32768;
  for (unsigned i = threadIdx.x; i < 8192; i += blockDim.x) ((unsigned *)tile)[i] = ((const unsigned *)p)[i];
  __syncthreads();
  const unsigned base = (unsigned)__cvta_generic_to_shared(tile);
  uint4 v[4], acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  for (int u = 0; u < 4; u++) v[u] = make_uint4(lane, warp, lane * 7, warp * 5);
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int u = 0; u < 4; u++) wave<KIND>(base + local + u * 512, p + local + u * 512, &v[u]);
    local = (local + step) % 32768;
    if (KIND != WAVE_STS128) {
#pragma unroll
      for (int u = 0; u < 4; u++) kvk_fold(&acc, v[u]);
    }
  }
  kvk_dump(dump, acc);
}

struct wave_args {
  int kind;
  const unsigned char *p;
  int steps;
  unsigned *dump;
  int blocks, threads;
};

static cudaError_t launch_wave(void *arg, cudaStream_t s) {
  const wave_args *a = (const wave_args *)arg;
  switch (a->kind) {
    case WAVE_LDS32:
      wave_kernel<WAVE_LDS32><<<a->blocks, a->threads, 0, s>>>(a->p, a->steps, 2048, a->dump);
      break;
    case WAVE_LDS128:
      wave_kernel<WAVE_LDS128><<<a->blocks, a->threads, 0, s>>>(a->p, a->steps, 2048, a->dump);
      break;
    case WAVE_LDMATRIX:
      wave_kernel<WAVE_LDMATRIX><<<a->blocks, a->threads, 0, s>>>(a->p, a->steps, 2048, a->dump);
      break;
    case WAVE_STS128:
      wave_kernel<WAVE_STS128><<<a->blocks, a->threads, 0, s>>>(a->p, a->steps, 2048, a->dump);
      break;
    default: wave_kernel<WAVE_L1><<<a->blocks, a->threads, 0, s>>>(a->p, a->steps, 2048, a->dump); break;
  }
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int kind, int threads, bool one_sm, kv_error *err) {
  static const char *const name[] = {"ld.shared.b32", "ld.shared.v4", "ldmatrix.x4", "st.shared.v4",
                                     "ld.global.ca.v4 hit"};
  kvk_point p = kvk_bench_blank("l1", "B", KVK_RATE);
  wave_args a = {kind, b->arena, 20000, b->dump, one_sm ? 1 : 2 * b->gpu->sms, threads};
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", name[kind]);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.footprint = 32768;
  p.work = (double)a.blocks * (threads / 32) * a.steps * 4.0 * (kind == WAVE_LDS32 ? 1 : 4) * 128.0;
  return kvk_bench_point(b, &p, launch_wave, &a, err);
}

kv_status kvk_ceil_wavefront(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 8u << 20, 8u << 20, &got, err);
  for (int kind = WAVE_LDS32; !st && kind <= WAVE_L1; kind++) {
    if (b->plan->quick && kind != WAVE_LDS128) continue;
    st = point(b, kind, 512, false, err);
    if (!st) st = point(b, kind, 512, true, err);
  }
  return st;
}
