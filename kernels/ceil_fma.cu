/* fp32 fused multiply-add, independent chains.
 *
 * Bound: 128 lanes a cycle and SM (64 on sm_80), two FLOP each: H200 at 1.98 GHz 66.9 TFLOP/s.
 */
#include <cstdio>

#include "ceil.h"

constexpr int kChains = 8;

__global__ void __launch_bounds__(1024) fma_kernel(float x, float y, int steps, unsigned *dump) {
  float v[kChains];
  for (int c = 0; c < kChains; c++) v[c] = x * (float)(threadIdx.x + c);
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int r = 0; r < 16; r++)
#pragma unroll
      for (int c = 0; c < kChains; c++) v[c] = fmaf(v[c], x, y);
  }
  float sum = 0;
  for (int c = 0; c < kChains; c++) sum += v[c];
  if (sum == 12345.678f) atomicAdd(dump, 1u);
}

struct fma_args {
  int steps, blocks, threads;
  unsigned *dump;
};

static cudaError_t launch_fma(void *arg, cudaStream_t s) {
  const fma_args *a = (const fma_args *)arg;
  fma_kernel<<<a->blocks, a->threads, 0, s>>>(0.999f, 1e-4f, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int threads, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("fma", "FLOP", KVK_RATE);
  fma_args a = {2000, one_sm ? 1 : b->gpu->sms, threads, b->dump};
  (void)std::snprintf(p.variant, sizeof p.variant, "fma.f32, %d chains", kChains);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.work = (double)a.blocks * threads * a.steps * 16.0 * kChains * 2.0;
  return kvk_bench_point(b, &p, launch_fma, &a, err);
}

kv_status kvk_ceil_fma(kvk_bench *b, kv_error *err) {
  kv_status st = KV_OK;
  for (int threads = 256; !st && threads <= 1024; threads *= 2) {
    if (b->plan->quick && threads != 1024) continue;
    st = point(b, threads, false, err);
    if (!st) st = point(b, threads, true, err);
  }
  return st;
}
