/* bf16 mma.sync.m16n8k16 with fp32 accumulation, operands in registers, independent accumulators.
 *
 * Bound: the tensor pipe as mma.sync feeds it. On sm_80, 86, 89 and 120 that is the whole tensor rate; on
 * sm_90 two thirds of it, 2731 FLOP a cycle and SM, since only wgmma fills Hopper's. Under tensor load an
 * H200's SMs run at about 1.79 GHz though NVML says 1980 MHz (a dependent chain takes 24.1 cycles by the SM's
 * counter and 13.5 ns), which makes 645 TFLOP/s. Operands are noise, not zeros, which would run cooler and
 * faster. One SM alone: one block.
 */
#include <cstdio>

#include "ceil.h"

__device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Pairs of bf16 in +-[0.5, 1) from noise: exponent fixed, sign and mantissa random. */
__device__ __forceinline__ unsigned operand(unsigned noise) {
  return (noise & 0x807F807Fu) | 0x3F003F00u;
}

/* MA x NB accumulators: MA fragments of A against NB of B. */
template <int MA, int NB>
__global__ void __launch_bounds__(512) mma_kernel(const unsigned *noise, int steps, unsigned *dump) {
  unsigned a[MA][4], b[NB][2];
  float d[MA][NB][4] = {};
  const unsigned *mine = noise + (blockIdx.x * blockDim.x + threadIdx.x) % 65536;
  for (int i = 0; i < MA; i++)
    for (int k = 0; k < 4; k++) a[i][k] = operand(mine[(i * 4 + k) * 977]);
  for (int j = 0; j < NB; j++)
    for (int k = 0; k < 2; k++) b[j][k] = operand(mine[(j * 2 + k) * 1861 + 7]);
  for (int s = 0; s < steps; s++) {
#pragma unroll
    for (int i = 0; i < MA; i++)
#pragma unroll
      for (int j = 0; j < NB; j++) mma(d[i][j], a[i], b[j]);
  }
  float sum = 0;
  for (int i = 0; i < MA; i++)
    for (int j = 0; j < NB; j++) sum += d[i][j][0] + d[i][j][1] + d[i][j][2] + d[i][j][3];
  if (sum == 12345.678f) atomicAdd(dump, 1u);
}

struct mma_args {
  const unsigned *noise;
  int steps, blocks, threads, shape;
  unsigned *dump;
};

static cudaError_t launch_mma(void *arg, cudaStream_t s) {
  const mma_args *a = (const mma_args *)arg;
  if (a->shape == 0) mma_kernel<2, 4><<<a->blocks, a->threads, 0, s>>>(a->noise, a->steps, a->dump);
  else mma_kernel<4, 4><<<a->blocks, a->threads, 0, s>>>(a->noise, a->steps, a->dump);
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int shape, int threads, int per_sm, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("mma", "FLOP", KVK_RATE);
  const int tiles = shape == 0 ? 8 : 16;
  mma_args a = {
      (const unsigned *)b->arena, 65536 / tiles, one_sm ? 1 : b->gpu->sms * per_sm, threads, shape, b->dump};
  (void)std::snprintf(p.variant, sizeof p.variant, "mma.sync.m16n8k16 bf16, %d accumulators", tiles);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)threads;
  p.work = (double)a.blocks * (threads / 32) * a.steps * tiles * (2.0 * 16 * 8 * 16);
  return kvk_bench_point(b, &p, launch_mma, &a, err);
}

kv_status kvk_ceil_mma(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 8u << 20, 8u << 20, &got, err);
  for (int shape = 0; !st && shape < 2; shape++)
    for (int threads = 128; !st && threads <= 512; threads *= 2)
      for (int per_sm = 1; !st && per_sm <= 2 && threads * per_sm <= 512; per_sm++) {
        if (b->plan->quick && (threads != 512 || per_sm != 1)) continue;
        st = point(b, shape, threads, per_sm, false, err);
        if (!st && per_sm == 1) st = point(b, shape, threads, 1, true, err);
      }
  return st;
}
