/* Issue slots: warp instructions, half of them fp32 multiply-adds and half integer logic, so that no
 * execution unit is the limit where the two have pipes of their own.
 *
 * Bound: one instruction a cycle for each of an SM's four schedulers: H200 at 1.98 GHz 1.045 T warp
 * instructions/s. Work counts the instructions of the unrolled body alone; the loop's own add, compare and
 * branch (3 in 259) run on top.
 */
#include <cstdio>

#include "ceil.h"

__global__ void __launch_bounds__(1024) issue_kernel(float x, float y, int steps, unsigned *dump) {
  float f[8];
  unsigned w[8];
  for (int c = 0; c < 8; c++) {
    f[c] = x * (float)(threadIdx.x + c);
    w[c] = threadIdx.x * 2654435761u + c;
  }
  const unsigned m = __float_as_uint(y), n = __float_as_uint(x);
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int r = 0; r < 16; r++)
#pragma unroll
      for (int c = 0; c < 8; c++) {
        asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(f[c]) : "f"(x), "f"(y));
        asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(w[c]) : "r"(m), "r"(n));
      }
  }
  float sum = 0;
  unsigned bits = 0;
  for (int c = 0; c < 8; c++) {
    sum += f[c];
    bits ^= w[c];
  }
  if (sum == 12345.678f && bits == 77u) atomicAdd(dump, 1u);
}

struct issue_args {
  int steps, blocks, threads;
  unsigned *dump;
};

static cudaError_t launch_issue(void *arg, cudaStream_t s) {
  const issue_args *a = (const issue_args *)arg;
  issue_kernel<<<a->blocks, a->threads, 0, s>>>(0.999f, 1e-4f, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int threads, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("issue", "1", KVK_RATE);
  issue_args a = {1000, one_sm ? 1 : b->gpu->sms, threads, b->dump};
  (void)std::snprintf(p.variant, sizeof p.variant, "fma.f32 and lop3, warp instructions");
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.work = (double)a.blocks * (threads / 32) * a.steps * 256.0;
  return kvk_bench_point(b, &p, launch_issue, &a, err);
}

kv_status kvk_ceil_issue(kvk_bench *b, kv_error *err) {
  kv_status st = KV_OK;
  for (int threads = 512; !st && threads <= 1024; threads *= 2) {
    if (b->plan->quick && threads != 1024) continue;
    st = point(b, threads, false, err);
    if (!st) st = point(b, threads, true, err);
  }
  return st;
}
