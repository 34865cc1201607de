/* DRAM read: a stream of 8 GiB (or what fits), each byte once, so neither L2 nor TLB reuse helps.
 *
 * Bound: the memory bus. It should reach 0.85 to 0.95 of the specified rate (H200: 4.8 TB/s specified);
 * refresh and turn-around take the rest. It needs rate x latency bytes in flight (Little), so unrolling and
 * occupancy are varied, and with cp.async.bulk (sm_90 and later) the copy engine does the asking. One SM
 * alone: one block of 1024 threads; bound by what one SM may have outstanding and its 64-B-a-cycle port.
 */
#include <cstdint>
#include <cstdio>

#include "ceil.h"

template <int U>
__global__ void __launch_bounds__(1024, 1) read_kernel(const uint4 *p, size_t n, unsigned *dump) {
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  const size_t tile = (size_t)blockDim.x * U;
  for (size_t base = blockIdx.x * tile + threadIdx.x; base < n; base += gridDim.x * tile) {
    uint4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) v[u] = kvk_load_once(p + base + (size_t)u * blockDim.x);
#pragma unroll
    for (int u = 0; u < U; u++) kvk_fold(&acc, v[u]);
  }
  kvk_dump(dump, acc);
}

/* One thread keeps STAGES bulk copies of `piece` bytes going. Nothing reads the copies: a full stage is asked
 * for again at once. */
template <int STAGES>
__global__ void bulk_kernel(const unsigned char *p, size_t pieces, unsigned piece) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ __align__(128) unsigned char tile[];
  __shared__ uint64_t full[STAGES];
  if (threadIdx.x != 0) return;
  unsigned bars = (unsigned)__cvta_generic_to_shared(full), dst = (unsigned)__cvta_generic_to_shared(tile);
  for (int s = 0; s < STAGES; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bars + 8 * s));
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  unsigned round = 0;
  const size_t mine = pieces > blockIdx.x ? (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  for (size_t i = 0; i < mine + STAGES; i++) {
    unsigned s = (unsigned)(i % STAGES), bar = bars + 8 * s;
    if (i >= STAGES) {
      unsigned ready = 0;
      round = (unsigned)(i / STAGES - 1) & 1u;
      while (!ready)
        asm volatile(
            "{ .reg .pred q; mbarrier.try_wait.parity.shared::cta.b64 q, [%1], %2; selp.u32 %0, 1, 0, q; }"
            : "=r"(ready)
            : "r"(bar), "r"(round)
            : "memory");
    }
    if (i < mine) {
      const unsigned char *src = p + (blockIdx.x + i * gridDim.x) * (size_t)piece;
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(piece)
                   : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
              dst + s * piece),
          "l"(src), "r"(piece), "r"(bar)
          : "memory");
    }
  }
#else
  (void)p, (void)pieces, (void)piece;
#endif
}

struct read_args {
  const unsigned char *p;
  size_t bytes;
  unsigned *dump;
  int blocks, threads, unroll;
  unsigned piece; /* bulk copies of this size; 0 = loads */
};

constexpr int kBulkStages = 4;

static cudaError_t launch_read(void *arg, cudaStream_t stream) {
  const read_args *a = (const read_args *)arg;
  const uint4 *p = (const uint4 *)a->p;
  size_t n = a->bytes / 16;
  if (a->piece) {
    bulk_kernel<kBulkStages>
        <<<a->blocks, 32, kBulkStages * a->piece, stream>>>(a->p, a->bytes / a->piece, a->piece);
    return cudaGetLastError();
  }
  switch (a->unroll) {
    case 2: read_kernel<2><<<a->blocks, a->threads, 0, stream>>>(p, n, a->dump); break;
    case 4: read_kernel<4><<<a->blocks, a->threads, 0, stream>>>(p, n, a->dump); break;
    default: read_kernel<8><<<a->blocks, a->threads, 0, stream>>>(p, n, a->dump); break;
  }
  return cudaGetLastError();
}

static kv_status point(kvk_bench *b, read_args *a, bool one_sm, kv_error *err) {
  kvk_point p = kvk_bench_blank("dram", "B", KVK_RATE);
  int per_sm = one_sm ? 1 : (a->blocks + b->gpu->sms - 1) / b->gpu->sms;
  const void *kernel = a->piece         ? (const void *)bulk_kernel<kBulkStages>
                       : a->unroll == 2 ? (const void *)read_kernel<2>
                       : a->unroll == 4 ? (const void *)read_kernel<4>
                                        : (const void *)read_kernel<8>;
  int resident =
      kvk_bench_resident(kernel, a->piece ? 32 : a->threads, kBulkStages * (size_t)a->piece, per_sm);
  if (a->piece)
    (void)std::snprintf(p.variant, sizeof p.variant, "cp.async.bulk %u x%d", a->piece, kBulkStages);
  else (void)std::snprintf(p.variant, sizeof p.variant, "ld.v4 x%d", a->unroll);
  p.one_sm = one_sm;
  p.blocks = (uint32_t)a->blocks;
  p.threads = (uint32_t)(a->piece ? 32 : a->threads);
  p.in_flight = (uint64_t)resident *
                (a->piece ? (uint64_t)kBulkStages * a->piece : (uint64_t)a->threads * a->unroll * 16);
  p.footprint = a->bytes;
  p.work = (double)a->bytes;
  return kvk_bench_point(b, &p, launch_read, a, err);
}

static kv_status bulk_points(kvk_bench *b, read_args a, bool one_sm, size_t bytes, kv_error *err) {
  static const unsigned pieces[] = {4096, 16384};
  kv_status st = KV_OK;
  if (b->gpu->major < 9) return KV_OK;
  for (size_t i = 0; !st && i < 2; i++) {
    a.piece = pieces[i];
    a.bytes = bytes;
    /* 4 stages of 16 KiB are 64 KiB: one block an SM on sm_12x, three on sm_90 */
    int fit = (int)(b->gpu->shared_per_sm / (kBulkStages * a.piece + 2048));
    a.blocks = one_sm ? 1 : b->gpu->sms * (fit < 8 ? (fit < 1 ? 1 : fit) : 8);
    st = kvk_cuda(cudaFuncSetAttribute(bulk_kernel<kBulkStages>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                       (int)(kBulkStages * a.piece)),
                  "dram: shared memory", err);
    if (!st) st = point(b, &a, one_sm, err);
  }
  return st;
}

kv_status kvk_ceil_dram(kvk_bench *b, kv_error *err) {
  static const int blocks_per_sm[] = {0, 4, 8, 16}; /* 0: a block a tile, no loop */
  static const int threads[] = {256, 512};
  static const int unrolls[] = {4, 8};
  uint64_t got = 0;
  kv_status st = kvk_bench_arena(b, (uint64_t)8 << 30, (uint64_t)64 << 20, &got, err);
  const size_t bytes = got / (1u << 20) * (1u << 20), one = bytes / 32 / (1u << 20) * (1u << 20);
  for (int g = 0; !st && g < 4; g++)
    for (int t = 0; !st && t < 2; t++)
      for (int u = 0; !st && u < 2; u++) {
        if (b->plan->quick && (g > 1 || t > 0)) continue;
        int tile = threads[t] * unrolls[u] * 16;
        read_args a = {b->arena, bytes, b->dump, 0, threads[t], unrolls[u], 0};
        a.blocks = blocks_per_sm[g] ? b->gpu->sms * blocks_per_sm[g] : (int)(bytes / (size_t)tile);
        st = point(b, &a, false, err);
      }
  read_args a = {b->arena, one, b->dump, 1, 1024, 4, 0};
  if (!st) st = bulk_points(b, a, false, bytes, err);
  for (int u = 2; !st && u <= 8; u *= 2) {
    a.unroll = u;
    st = point(b, &a, true, err);
  }
  return st ? st : bulk_points(b, a, true, one, err);
}
