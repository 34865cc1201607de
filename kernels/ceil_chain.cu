/* Latencies inside one SM: chains of dependent instructions of one warp (of eight for the barrier).
 *
 * Bound: the pipeline depth of each unit; H100 by publications: fma 4, shared load 29 to 33, mma.sync
 * m16n8k16 about 33 cycles. Reported in SM cycles by the SM's own counter and in seconds.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum chain_kind {
  CHAIN_FMA,
  CHAIN_EX2,
  CHAIN_MMA,
  CHAIN_LDS,
  CHAIN_LDMATRIX,
  CHAIN_SHUFFLE,
  CHAIN_BARRIER,
  CHAIN_L1,
  CHAIN_CPASYNC,
  CHAIN_KINDS
};

static const char *const chain_names[CHAIN_KINDS] = {"chain_fma",     "chain_ex2",      "chain_mma",
                                                     "chain_lds",     "chain_ldmatrix", "chain_shfl",
                                                     "chain_barrier", "chain_l1",       "chain_cp_async_l2"};
static const char *const chain_texts[CHAIN_KINDS] = {"fma.f32",
                                                     "ex2.approx",
                                                     "mma.sync.m16n8k16 bf16, accumulator",
                                                     "ld.shared.u32 address chain",
                                                     "ldmatrix.x1 address chain",
                                                     "shfl.idx",
                                                     "barrier of 256 threads",
                                                     "ld.global.ca address chain, L1 hit",
                                                     "cp.async 16 B from L2, commit, wait"};

/* zeros: device memory that holds zeros, so that an address chain (address += loaded value) stays in place.
 */
template <int KIND>
__device__ __forceinline__ void chain_step(float *f, unsigned *w, uint64_t *g, float (&d)[4],
                                           const unsigned (&a)[4]) {
  unsigned v = 0;
  if (KIND == CHAIN_FMA) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(*f));
  if (KIND == CHAIN_EX2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(*f));
  if (KIND == CHAIN_MMA)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, "
        "{%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
  if (KIND == CHAIN_LDS) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(*w));
  if (KIND == CHAIN_LDMATRIX) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(v) : "r"(*w));
    *w += v;
  }
  if (KIND == CHAIN_SHUFFLE) asm volatile("shfl.sync.idx.b32 %0, %0, %0, 31, 0xffffffff;" : "+r"(*w));
  if (KIND == CHAIN_BARRIER) asm volatile("bar.sync 0;" ::: "memory");
  if (KIND == CHAIN_L1) asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(*g));
  if (KIND == CHAIN_CPASYNC)
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16; cp.async.commit_group; cp.async.wait_group 0;" ::"r"(*w),
        "l"(*g)
        : "memory");
}

template <int KIND>
__global__ void __launch_bounds__(256)
    chain_kernel(uint64_t *scratch, int steps, unsigned long long *state, unsigned *dump) {
  __shared__ __align__(128) unsigned cell[64];
  float f = (float)threadIdx.x, d[4] = {f, f, f, f};
  unsigned a[4] = {0x3F803F00u, 0x3F013F80u, 0x3E803F00u, 0x3F003F10u};
  const unsigned here = (unsigned)__cvta_generic_to_shared(cell);
  unsigned w = KIND == CHAIN_SHUFFLE ? threadIdx.x : here;
  /* a shared word that holds its own address, a global one too; ldmatrix adds zeros */
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) cell[i] = KIND == CHAIN_LDMATRIX ? 0 : here;
  if (threadIdx.x == 0) scratch[0] = (uint64_t)scratch;
  __syncthreads();
  uint64_t g = (uint64_t)scratch;
  long long start = 0;
  for (int s = -64; s < steps; s += 32) {
    if (s == 0) start = clock64();
#pragma unroll
    for (int u = 0; u < 32; u++) chain_step<KIND>(&f, &w, &g, d, a);
  }
  long long took = clock64() - start;
  if (threadIdx.x == 0) state[0] = (unsigned long long)took;
  if (f + d[0] + d[1] + d[2] + d[3] == 12345.678f && w == 7u && g == 9u) atomicAdd(dump, 1u);
}

struct chain_args {
  int kind;
  uint64_t *scratch;
  int steps;
  unsigned long long *state;
  unsigned *dump;
};

template <int KIND>
static void launch_kind(const chain_args *a, cudaStream_t s) {
  chain_kernel<KIND><<<1, KIND == CHAIN_BARRIER ? 256 : 32, 0, s>>>(a->scratch, a->steps, a->state, a->dump);
}

static cudaError_t launch_chain(void *arg, cudaStream_t s) {
  const chain_args *a = (const chain_args *)arg;
  switch (a->kind) {
    case CHAIN_FMA: launch_kind<CHAIN_FMA>(a, s); break;
    case CHAIN_EX2: launch_kind<CHAIN_EX2>(a, s); break;
    case CHAIN_MMA: launch_kind<CHAIN_MMA>(a, s); break;
    case CHAIN_LDS: launch_kind<CHAIN_LDS>(a, s); break;
    case CHAIN_LDMATRIX: launch_kind<CHAIN_LDMATRIX>(a, s); break;
    case CHAIN_SHUFFLE: launch_kind<CHAIN_SHUFFLE>(a, s); break;
    case CHAIN_BARRIER: launch_kind<CHAIN_BARRIER>(a, s); break;
    case CHAIN_L1: launch_kind<CHAIN_L1>(a, s); break;
    default: launch_kind<CHAIN_CPASYNC>(a, s); break;
  }
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int kind, kv_error *err) {
  kvk_point p = kvk_bench_blank(chain_names[kind], "1", KVK_LATENCY);
  chain_args a = {kind, (uint64_t *)(b->counters + 32), 65536, b->counters, b->dump};
  unsigned long long took = 0;
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", chain_texts[kind]);
  p.one_sm = true;
  p.blocks = 1;
  p.threads = kind == CHAIN_BARRIER ? 256 : 32;
  p.work = a.steps;
  kv_status st = kvk_bench_time(b, &p, launch_chain, &a, err);
  if (!st) st = kvk_device_take(b->device, &took, a.state, sizeof took, err); /* of the last run */
  p.cycles = (double)took / a.steps;
  return st ? st : kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_chain(kvk_bench *b, kv_error *err) {
  kv_status st = KV_OK;
  for (int kind = 0; !st && kind < CHAIN_KINDS; kind++) st = point(b, kind, err);
  return st;
}
