/* Special functions: ex2.approx.ftz.f32, the instruction a softmax needs, in independent chains.
 *
 * Bound: 16 lanes a cycle and SM: H200 at 1.98 GHz 4.18 T/s. One result counts as one unit of work.
 */
#include <cstdio>

#include "ceil.h"

constexpr int kChains = 8;

__device__ __forceinline__ float ex2(float x) {
  float y;
  asm volatile("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* The chain 2^x leads to large values at once; infinities cost the unit nothing extra. */
__global__ void __launch_bounds__(1024) sfu_kernel(float x, int steps, unsigned *dump) {
  float v[kChains];
  for (int c = 0; c < kChains; c++) v[c] = -x * (float)(threadIdx.x + c);
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int c = 0; c < kChains; c++) v[c] = ex2(v[c]);
  }
  float sum = 0;
  for (int c = 0; c < kChains; c++) sum += v[c];
  if (sum == 12345.678f) atomicAdd(dump, 1u);
}

struct sfu_args {
  int steps, blocks, threads;
  unsigned *dump;
};

static cudaError_t launch_sfu(void *arg, cudaStream_t s) {
  const sfu_args *a = (const sfu_args *)arg;
  sfu_kernel<<<a->blocks, a->threads, 0, s>>>(0.01f, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int threads, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("sfu", "1", KVK_RATE);
  sfu_args a = {4000, one_sm ? 1 : b->gpu->sms, threads, b->dump};
  (void)std::snprintf(p.variant, sizeof p.variant, "ex2.approx.ftz.f32, %d chains", kChains);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.work = (double)a.blocks * threads * a.steps * kChains;
  return kvk_bench_point(b, &p, launch_sfu, &a, err);
}

kv_status kvk_ceil_sfu(kvk_bench *b, kv_error *err) {
  kv_status st = KV_OK;
  for (int threads = 256; !st && threads <= 1024; threads *= 2) {
    if (b->plan->quick && threads != 1024) continue;
    st = point(b, threads, false, err);
    if (!st) st = point(b, threads, true, err);
  }
  return st;
}
