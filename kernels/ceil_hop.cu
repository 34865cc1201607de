/* What passes between warps of a block, and what fetching instructions costs: cycles by the SM's own counter.
 *
 *   chain_mbarrier      one warp arrives at an mbarrier and waits for it: arrival to wait
 *   chain_mbarrier_test the same wait where the phase is long over: what asking costs
 *   hop_mbarrier        two warps in turn: an elected lane of one arrives, the other waits and answers; a hop
 *   hop_exchange        four warps: 16 bytes a lane to shared memory, barrier of 128 threads, and back
 *   chain_ldmatrix4     ldmatrix.x4, address chain
 *   branch_taken        a branch over 96 instructions that are never executed
 *   fetch_one, fetch_two, fetch_many  a warp in a loop of 512 dependent multiply-adds (4 cycles each): alone; beside a
 *                       warp of the same scheduler in a loop of its own; and alone in a loop of 4096. Cycles an instruction
 *   fetch_first         8192 multiply-adds that have not run since the L2 was flushed: cycles an instruction
 *   fetch_again         the same, run before by another launch
 *   copy_async          cp.async of 16 B a lane, 8 lanes a row of 1152 B, by 4 warps with 4 tiles of 16 rows in flight,
 *                       rows in the L2: cycles a warp's instruction (512 B) when an SM does nothing else
 *   copy_burst          9 such instructions by each of 4 warps at once, all landed before the next 9: cycles from one to
 *                       the next of a warp, so whether a warp goes on while its copies queue
 *   copy_straddling     the same as copy_async to rows 1168 B apart in shared memory: 128 B from one line land on two
 *
 * Bound: latencies; each comes to tens of cycles but for the code that comes out of memory.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

enum hop_kind {
  HOP_CHAIN,
  HOP_TEST,
  HOP_PAIR,
  HOP_EXCHANGE,
  HOP_LDMATRIX4,
  HOP_BRANCH,
  HOP_ONE,
  HOP_TWO,
  HOP_MANY,
  HOP_FIRST,
  HOP_AGAIN,
  HOP_COPY,
  HOP_STRADDLING,
  HOP_BURST,
  HOP_KINDS
};
static const char *const hop_names[HOP_KINDS] = {"chain_mbarrier", "chain_mbarrier_test", "hop_mbarrier",
                                                 "hop_exchange",   "chain_ldmatrix4",     "branch_taken",
                                                 "fetch_one",      "fetch_two",           "fetch_many",
                                                 "fetch_first",    "fetch_again",         "copy_async",
                                                 "copy_straddling",     "copy_burst"};
static const char *const hop_texts[HOP_KINDS] = {"mbarrier.arrive, try_wait by the same warp",
                                                 "mbarrier.try_wait of a phase that is over",
                                                 "mbarrier.arrive by a lane, another warp waits",
                                                 "st.shared.v4, bar.sync of 4 warps, ld.shared.v4",
                                                 "ldmatrix.x4 address chain",
                                                 "branch over 96 instructions",
                                                 "loop of 512 fma",
                                                 "loop of 512 fma, another beside it",
                                                 "loop of 4096 fma",
                                                 "8192 fma out of memory",
                                                 "8192 fma again",
                                                 "cp.async 16 B, 4 rows of 1152 B a warp, L2 hits",
                                                 "the same, rows 1168 B apart",
                                                 "9 cp.async at once of each warp"};
static const int hop_threads[HOP_KINDS] = {32, 32, 64, 128, 32, 32, 32, 160, 32, 32, 32, 128, 128, 128};
static const int hop_steps[HOP_KINDS] = {4096,     4096,     4096,      4096, 4096, 4096,
                                         512 * 64, 512 * 64, 4096 * 16, 8192, 8192, 36 * 1024, 36 * 1024,
                                         9 * 1024};

__device__ __forceinline__ void arrive(uint32_t bar) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra "
      "again;\n}\n" ::"r"(bar),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ void try_wait(uint32_t bar, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra "
      "again;\n}\n" ::"r"(bar),
      "r"(parity)
      : "memory");
#else
  wait(bar, parity);
#endif
}

template <int N>
__device__ __forceinline__ void multiply_adds(float &f, float y) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("fma.rn.f32 %0, %0, %1, %0;" : "+f"(f) : "f"(y));
}

/* By one warp or several: `steps` of what KIND names. */
template <int KIND>
__device__ __forceinline__ void walk(uint32_t bar, uint32_t cell, int steps, int never, float &f, float y) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (KIND == HOP_CHAIN)
    for (int s = 0; s < steps; s++) {
      __syncwarp();
      if (lane == 0) arrive(bar);
      try_wait(bar, s & 1);
    }
  if (KIND == HOP_TEST)
    for (int s = 0; s < steps; s++) try_wait(bar, 1); /* the phase before the first counts as over */
  if (KIND == HOP_PAIR)
    for (int s = 0; s < steps / 2; s++) {
      if (warp == 0) {
        __syncwarp();
        if (lane == 0) arrive(bar);
        try_wait(bar + 8, s & 1);
      } else {
        try_wait(bar, s & 1);
        __syncwarp();
        if (lane == 0) arrive(bar + 8);
      }
    }
  if (KIND == HOP_EXCHANGE)
    for (int s = 0; s < steps; s++) {
      const uint32_t at = cell + (s & 1) * 2048;
      float a, b, c;
      asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(at + 16 * threadIdx.x), "f"(f)
                   : "memory");
      asm volatile("bar.sync 1, 128;" ::: "memory");
      asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(f), "=f"(a), "=f"(b), "=f"(c)
                   : "r"(at + 16 * (threadIdx.x ^ 32))
                   : "memory");
    }
  if (KIND == HOP_LDMATRIX4) {
    uint32_t at = cell + 16 * lane, a, b, c, d;
    for (int s = 0; s < steps; s += 16)
#pragma unroll
      for (int u = 0; u < 16; u++) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
                     : "r"(at)
                     : "memory");
        at += a; /* zeros */
      }
    if (at == 7u) f += (float)(b + c + d);
  }
  if (KIND == HOP_BRANCH)
    for (int s = 0; s < steps; s += 8)
#pragma unroll
      for (int u = 0; u < 8; u++)
        if (never == u) multiply_adds<96>(f, y);
  if (KIND == HOP_ONE || (KIND == HOP_TWO && warp == 0))
    for (int s = 0; s < steps; s += 512) multiply_adds<512>(f, y);
  if (KIND == HOP_TWO && warp == 4)
    for (int s = 0; s < steps; s += 512) {
      multiply_adds<511>(f, y);
      f += 1;
    }
  if (KIND == HOP_MANY)
    for (int s = 0; s < steps; s += 4096) multiply_adds<4096>(f, y);
  if (KIND == HOP_FIRST || KIND == HOP_AGAIN) multiply_adds<8192>(f, y);
}

/* This warp's 4 rows of a tile of 16. */
__device__ __forceinline__ void copy_rows(uint32_t to, uint32_t pitch, const unsigned char *pool, int tile) {
  const uint32_t lane = threadIdx.x % 32, row = 4 * (threadIdx.x / 32) + lane / 8;
  const unsigned char *from = pool + (((uint32_t)tile * 16 + row) * 2654435761u >> 20) * 1152 + 16 * (lane & 7);
  const uint32_t at = to + (uint32_t)(tile & 3) * 16 * pitch + row * pitch + 16 * (lane & 7);
#pragma unroll
  for (uint32_t line = 0; line < 9; line++)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + 128 * line), "l"(from + 128 * line) : "memory");
}

/* steps: instructions of all 4 warps, 9 a tile and warp. */
__device__ __forceinline__ void copy_tiles(uint32_t to, uint32_t pitch, const unsigned char *pool, int steps) {
  for (int tile = 0; tile < steps / 36; tile++) {
    copy_rows(to, pitch, pool, tile);
    asm volatile("cp.async.commit_group; cp.async.wait_group 3;" ::: "memory");
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/* steps: instructions of one warp. */
__global__ void __launch_bounds__(128) burst_kernel(const unsigned char *pool, int steps, unsigned long long *state) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const uint32_t to = (uint32_t)__cvta_generic_to_shared(tiles);
  long long sum = 0;
  for (int tile = -64; tile < steps / 9; tile++) {
    __syncthreads();
    const long long start = clock64();
    copy_rows(to, 1152, pool, tile & 4095);
    const long long took = clock64() - start;
    asm volatile("cp.async.wait_all;" ::: "memory");
    if (tile >= 0) sum += took;
  }
  if (threadIdx.x == 0) state[0] = (unsigned long long)sum;
}

__global__ void __launch_bounds__(128)
    copy_kernel(const unsigned char *pool, uint32_t pitch, int steps, unsigned long long *state) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const uint32_t to = (uint32_t)__cvta_generic_to_shared(tiles);
  copy_tiles(to, pitch, pool, 36 * 64);
  __syncthreads();
  const long long start = clock64();
  copy_tiles(to, pitch, pool, steps);
  __syncthreads();
  if (threadIdx.x == 0) state[0] = (unsigned long long)(clock64() - start);
}
const int COPY_SHARED = 4 * 16 * 1168;

template <int KIND>
__global__ void __launch_bounds__(160)
    hop_kernel(int steps, int never, unsigned long long *state, unsigned *dump) {
  __shared__ __align__(128) unsigned cell[1024];
  __shared__ __align__(8) unsigned long long bars[2];
  const uint32_t bar = (uint32_t)__cvta_generic_to_shared(bars),
                 at = (uint32_t)__cvta_generic_to_shared(cell);
  float f = (float)threadIdx.x, y = (float)never;
  for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) cell[i] = 0;
  if (threadIdx.x < 2)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar + 8 * threadIdx.x) : "memory");
  __syncthreads();
  const long long start = clock64();
  walk<KIND>(bar, at, steps, never, f, y);
  const long long took = clock64() - start;
  if (threadIdx.x == 0) state[0] = (unsigned long long)took;
  if (f == 12345.678f) atomicAdd(dump, 1u);
}

struct hop_args {
  int kind, steps;
  const unsigned char *pool; /* 4096 rows of 1152 B */
  void *flush;               /* overwritten before, so that code comes out of memory; NULL: not */
  size_t flush_bytes;
  unsigned long long *state;
  unsigned *dump;
};

static cudaError_t launch_hop(void *arg, cudaStream_t s) {
  const hop_args *a = (const hop_args *)arg;
  const cudaError_t code = a->flush ? cudaMemsetAsync(a->flush, 1, a->flush_bytes, s) : cudaSuccess;
  if (code != cudaSuccess) return code;
#define KIND(k) \
  case k: hop_kernel<k><<<1, hop_threads[k], 0, s>>>(a->steps, -1, a->state, a->dump); break
  switch (a->kind) {
    KIND(HOP_CHAIN);
    KIND(HOP_TEST);
    KIND(HOP_PAIR);
    KIND(HOP_EXCHANGE);
    KIND(HOP_LDMATRIX4);
    KIND(HOP_BRANCH);
    KIND(HOP_ONE);
    KIND(HOP_TWO);
    KIND(HOP_MANY);
    KIND(HOP_FIRST);
    case HOP_COPY:
    case HOP_STRADDLING: {
      const cudaError_t set =
          cudaFuncSetAttribute(copy_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, COPY_SHARED);
      if (set != cudaSuccess) return set;
      copy_kernel<<<1, hop_threads[HOP_COPY], COPY_SHARED, s>>>(a->pool, a->kind == HOP_COPY ? 1152 : 1168, a->steps,
                                                                  a->state);
      break;
    }
    case HOP_BURST: {
      const cudaError_t set =
          cudaFuncSetAttribute(burst_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, COPY_SHARED);
      if (set != cudaSuccess) return set;
      burst_kernel<<<1, hop_threads[HOP_BURST], COPY_SHARED, s>>>(a->pool, a->steps, a->state);
      break;
    }
    default: hop_kernel<HOP_AGAIN><<<1, 32, 0, s>>>(a->steps, -1, a->state, a->dump);
  }
#undef KIND
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, int kind, kv_error *err) {
  kvk_point p = kvk_bench_blank(hop_names[kind], "1", KVK_LATENCY);
  const bool flush = kind == HOP_FIRST;
  hop_args a = {kind,        hop_steps[kind], b->arena, flush ? b->arena : NULL, flush ? b->arena_bytes : 0,
                b->counters, b->dump};
  unsigned long long took = 0;
  (void)std::snprintf(p.variant, sizeof p.variant, "%s", hop_texts[kind]);
  p.one_sm = true;
  p.blocks = 1;
  p.threads = (uint32_t)hop_threads[kind];
  p.work = a.steps;
  kv_status st = kvk_bench_time(b, &p, launch_hop, &a, err);
  if (!st) st = kvk_device_take(b->device, &took, a.state, sizeof took, err); /* of the last run */
  p.cycles = (double)took / a.steps;
  return st ? st : kvk_bench_hand_on(b, &p, err);
}

kv_status kvk_ceil_hop(kvk_bench *b, kv_error *err) {
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, 512u << 20, 256u << 20, &got, err);
  for (int kind = 0; !st && kind < HOP_KINDS; kind++) st = point(b, kind, err);
  if (!st) st = kvk_bench_refill(b, err); /* the arena was overwritten */
  return st;
}
