/* ceil.h - what the microbenchmarks share among themselves. For .cu files only; the public face is
 * ceilings.h.
 *
 * A microbenchmark is a function kvk_ceil_NAME(kvk_bench *, kv_error *) that walks over its configurations:
 * it fills a kvk_point (kvk_bench_blank), gives a launcher, and calls kvk_bench_point, which warms up, times,
 * reads the GPU's state and hands the point to the caller's sink.
 */
#ifndef KVK_CEIL_H
#define KVK_CEIL_H

#include <cuda_runtime.h>

#include "ceilings.h"
#include "cuda_status.h"

struct kvk_bench {
  kvk_device *device;
  const kvk_gpu *gpu;
  const kvk_ceiling_plan *plan;
  kvk_point_sink sink;
  void *user;
  cudaStream_t stream;
  unsigned char *arena; /* noise; grown by kvk_bench_arena */
  uint64_t arena_bytes;
  unsigned *dump;               /* 64 B that kernels write results to so that nothing is optimised away */
  unsigned long long *counters; /* 8 device counters a microbenchmark may use */
  double deadline;              /* monotonic s */
  bool cut;                     /* the time limit left configurations out */
};

/* Launches one run on `stream`; `arg` is the microbenchmark's own. */
typedef cudaError_t (*kvk_launcher)(void *arg, cudaStream_t stream);

/* Device memory of at least `bytes`, filled with noise, at bench->arena. Halves the request until it fits,
 * but not below `least`: *got is what was allocated. An arena that is large enough is kept, its contents too.
 */
kv_status kvk_bench_arena(kvk_bench *b, uint64_t bytes, uint64_t least, uint64_t *got, kv_error *err);
/* Refills the arena with noise (a microbenchmark that wrote to it calls this before it returns). */
kv_status kvk_bench_refill(kvk_bench *b, kv_error *err);

/* A point of nothing: zeros and NaNs, this name, unit and kind. */
kvk_point kvk_bench_blank(const char *name, const char *unit, kvk_point_kind kind);
/* Measures point->work by `launch` and hands the point on. KV_END once the time limit is reached: the caller
 * returns it, and the run ends without error but with a note. */
kv_status kvk_bench_point(kvk_bench *b, kvk_point *point, kvk_launcher launch, void *arg, kv_error *err);
/* The same without handing on: a microbenchmark that has something to add to the point does that, then hands
 * on. */
kv_status kvk_bench_time(kvk_bench *b, kvk_point *point, kvk_launcher launch, void *arg, kv_error *err);
/* Hands on a point whose seconds, state and samples the microbenchmark measured by itself. */
kv_status kvk_bench_hand_on(kvk_bench *b, kvk_point *point, kv_error *err);
/* Blocks of `kernel` that one SM holds at a time, at most `wanted`. */
int kvk_bench_resident(const void *kernel, int threads, size_t shared, int wanted);
/* Number of runs a point. */
uint32_t kvk_bench_repeats(const kvk_bench *b);

kv_status kvk_ceil_dram(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_l2(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_link(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_wavefront(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_mma(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_wgmma(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_fma(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_sfu(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_issue(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_latency(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_line(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_chain(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_hop(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_turns(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_fill(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_loaded(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_launch(kvk_bench *b, kv_error *err);
kv_status kvk_ceil_gather(kvk_bench *b, kv_error *err);

/* ---- device code that several files use ----
 *
 * Kernels whose loads must be in flight together carry __launch_bounds__(1024, 1): told so, the assembler
 * spends registers on it; without the 1 it folds loads one pair at a time to keep 2048 threads resident. */

/* 16 bytes through L2 that do not stay in L1. `volatile` keeps every load, and their order, but does not
 * wait. */
__device__ __forceinline__ uint4 kvk_load_l2(const void *p) {
  uint4 v;
  asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
/* 16 bytes that are read once: no allocation in L1. */
__device__ __forceinline__ uint4 kvk_load_once(const void *p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
__device__ __forceinline__ void kvk_fold(uint4 *acc, uint4 v) {
  acc->x &= v.x;
  acc->y &= v.y;
  acc->z &= v.z;
  acc->w &= v.w;
}
/* 4 bytes of an index list, kept in order with the loads around it. */
__device__ __forceinline__ int kvk_load_index(const int *p) {
  int v;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
/* True only for all ones, which an AND of two or more noise words never gives in practice. */
__device__ __forceinline__ void kvk_dump(unsigned *dump, uint4 acc) {
  if ((acc.x & acc.y & acc.z & acc.w) == ~0u) atomicAdd(dump, 1u);
}
/* A bijection of [0, 2^bits): multiply-xorshift rounds, each invertible, so no two inputs meet. */
__device__ __forceinline__ unsigned long long kvk_scatter(unsigned long long x, int bits,
                                                          unsigned long long seed) {
  const unsigned long long mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  const int shift = bits > 1 ? bits / 2 : 1;
  for (int round = 0; round < 3; round++) {
    x = (x * 0x9E3779B97F4A7C15ull + seed * 2 + 1) & mask;
    x ^= x >> shift;
    x = (x * 0xD6E8FEB86659FD93ull + round) & mask;
    x ^= x >> shift;
  }
  return x;
}

#endif
