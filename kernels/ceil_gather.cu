/* Gather: rows named by a slot list, 16 bytes a load, the list read ahead by one step so that a step costs
 * one memory latency and not two.
 *
 * Bound: with enough in flight the DRAM ceiling for rows of 128 B and more; below that the 64-B DRAM access
 * and the sector (a 32-B row moves 64 B); with little in flight bytes-in-flight / latency (Little); beyond
 * the TLB's reach page walks (H200: flat up to 64 GiB, then about 3.2 G misses/s, which random rows of 128 B
 * feel and rows of 1152 B don't); with a pool inside the L2 the L2 ceiling. Rows are read with the hint that
 * they are read once, but for pools of up to 128 MiB: there rows with the hint would lie in what the slot
 * list, read without it, and the lists of points before leave of the L2 (H200: 10 to 17 MiB and more, by what
 * ran before). Swept: row size x layout (contiguous, runs of R rows at random places, a recorded list)
 * saturated; bytes in flight an SM; SMs in use; footprint up to 90 % of memory. A run reads 1 GiB of rows
 * (less when little is in flight), the next run other rows of the same list.
 */
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "ceil.h"

/* slot[i]: contiguous (run 0): i; else run i/run of a random order of runs. Bijective on the pool's whole
 * runs. */
__global__ void gather_list(int *slots, uint64_t count, uint64_t pool_rows, unsigned run, uint64_t seed) {
  const uint64_t runs = run ? pool_rows / run : 1;
  int bits = 1;
  while (bits < 62 && (1ull << bits) < runs) bits++;
  for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count;
       i += (uint64_t)gridDim.x * blockDim.x) {
    if (run == 0) {
      slots[i] = (int)(i % pool_rows);
      continue;
    }
    uint64_t at = (i / run) % runs;
    do at = kvk_scatter(at, bits, seed); /* walk the cycle until inside: still a bijection */
    while (at >= runs);
    slots[i] = (int)(at * run + i % run);
  }
}

struct gather_args {
  const uint4 *pool;
  const int *slots;
  uint32_t rows;      /* a run */
  uint32_t list_rows; /* in the list */
  uint32_t next;      /* where the next run starts in it */
  unsigned chunks;    /* 16-B pieces a row */
  unsigned *dump;
  int blocks, threads, unroll;
  bool stay;
};

/* CHUNKS 0: the row size comes at run time. STAY: rows are to stay in the L2 as the slot list does. Past the
 * end a thread reads the last piece again: a branch there would keep the compiler from issuing the loads
 * together. */
template <int CHUNKS, int U, bool STAY>
__global__ void __launch_bounds__(1024, 1) gather_kernel(const uint4 *pool, const int *slots, unsigned total,
                                                         unsigned chunks_given, unsigned *dump) {
  const unsigned chunks = CHUNKS ? CHUNKS : chunks_given, tile = blockDim.x * U, step = gridDim.x * tile;
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  int slot[U];
  unsigned base = blockIdx.x * tile + threadIdx.x;
#pragma unroll
  for (int u = 0; u < U; u++) {
    unsigned c = min(base + u * blockDim.x, total - 1);
    slot[u] = kvk_load_index(slots + c / chunks);
  }
  for (; base < total; base += step) {
    uint4 v[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
      unsigned c = min(base + u * blockDim.x, total - 1);
      const uint4 *from = pool + (size_t)slot[u] * chunks + c % chunks;
      v[u] = STAY ? kvk_load_l2(from) : kvk_load_once(from);
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
      unsigned c = min(base + step + u * blockDim.x, total - 1);
      slot[u] = kvk_load_index(slots + c / chunks);
    }
#pragma unroll
    for (int u = 0; u < U; u++) kvk_fold(&acc, v[u]);
  }
  kvk_dump(dump, acc);
}

typedef void (*gather_function)(const uint4 *, const int *, unsigned, unsigned, unsigned *);

template <int U, bool STAY>
static gather_function function_of(unsigned chunks) {
  switch (chunks) {
    case 2: return gather_kernel<2, U, STAY>;
    case 4: return gather_kernel<4, U, STAY>;
    case 8: return gather_kernel<8, U, STAY>;
    case 16: return gather_kernel<16, U, STAY>;
    case 36: return gather_kernel<36, U, STAY>;
    case 72: return gather_kernel<72, U, STAY>;
    case 128: return gather_kernel<128, U, STAY>;
    case 256: return gather_kernel<256, U, STAY>;
    default: return gather_kernel<0, U, STAY>;
  }
}

/* Rows that stay are read four loads at a time alone. */
static gather_function function_for(unsigned chunks, int unroll, bool stay) {
  if (stay) return function_of<4, true>(chunks);
  return unroll == 1   ? function_of<1, false>(chunks)
         : unroll == 8 ? function_of<8, false>(chunks)
                       : function_of<4, false>(chunks);
}

static cudaError_t launch_gather(void *arg, cudaStream_t s) {
  gather_args *a = (gather_args *)arg;
  if (a->next + a->rows > a->list_rows) a->next = 0;
  const int *slots = a->slots + a->next;
  const unsigned total = a->rows * a->chunks;
  a->next += a->rows;
  function_for(a->chunks, a->unroll, a->stay)<<<a->blocks, a->threads, 0, s>>>(a->pool, slots, total,
                                                                               a->chunks, a->dump);
  return cudaGetLastError();
}

/* ---- the sweep ---- */

struct spec {
  uint32_t row_bytes;
  uint32_t run;       /* 0 contiguous, 1 random, else runs of so many rows; kList: the recorded list */
  uint64_t footprint; /* B of the pool */
  int blocks;         /* kLoop: as many as are resident go through all; kTiles: a block a tile */
  int threads, unroll;
  bool one_sm;
};
constexpr uint32_t kList = ~0u;
constexpr int kLoop = 0, kTiles = -1;

struct sweep {
  kvk_bench *b;
  int *slots;
  uint64_t slots_room; /* elements; no list is longer */
  /* what the list in `slots` was made for, so that equal neighbours do not make it anew */
  uint32_t row_bytes, run;
  uint64_t footprint, count;
};

static kv_status make_list(sweep *w, const spec *c, kv_error *err) {
  kvk_bench *b = w->b;
  if (w->row_bytes == c->row_bytes && w->run == c->run && w->footprint == c->footprint) return KV_OK;
  w->row_bytes = c->row_bytes;
  w->run = c->run;
  w->footprint = c->footprint;
  if (c->run == kList) {
    w->count = b->plan->list_count < w->slots_room ? b->plan->list_count : w->slots_room;
    return kvk_device_put(b->device, w->slots, b->plan->list, w->count * sizeof(int), err);
  }
  const uint64_t pool_rows = c->footprint / c->row_bytes, want = ((uint64_t)1 << 30) / c->row_bytes;
  w->count = want < w->slots_room ? want : w->slots_room;
  if (pool_rows > 0x7fffffffull)
    return kv_fail(err, KV_ERR_INTERNAL, "gather: %llu rows do not fit slots of 32 bits",
                   (unsigned long long)pool_rows);
  gather_list<<<8 * b->gpu->sms, 256, 0, b->stream>>>(w->slots, w->count, pool_rows, c->run,
                                                      b->plan->seed + 11);
  return kvk_cuda(cudaGetLastError(), "gather: making the slot list", err);
}

/* Little in flight means slow: read then only what takes a millisecond or two. */
static uint64_t rows_a_run(const sweep *w, const spec *c, uint64_t in_flight_all) {
  uint64_t bytes = in_flight_all * 2500, least = (uint64_t)4 << 20, rows;
  if (bytes < least) bytes = least;
  rows = bytes / c->row_bytes;
  return rows < w->count ? rows : w->count;
}

static const char *layout_name(uint32_t run) {
  return run == kList ? "list" : run == 0 ? "contiguous" : run == 1 ? "random" : "runs";
}

static kv_status point(sweep *w, spec c, kv_error *err) {
  kvk_bench *b = w->b;
  kvk_point p = kvk_bench_blank("gather", "B", KVK_RATE);
  const uint64_t most = (uint64_t)c.row_bytes * 0x7fffffffu; /* slots are int32: 64 GiB of 32-byte rows */
  if (c.footprint > most) c.footprint = most;
  kv_status st = make_list(w, &c, err);
  if (st) return st;
  const bool tiles = c.blocks == kTiles;
  const bool stay = c.unroll == 4 && c.footprint <= (uint64_t)128 << 20;
  const void *kernel = (const void *)function_for(c.row_bytes / 16, c.unroll, stay);
  if (c.blocks == kLoop || tiles) c.blocks = b->gpu->sms * kvk_bench_resident(kernel, c.threads, 0, 8);
  const int sms = c.one_sm ? 1 : c.blocks < b->gpu->sms ? c.blocks : b->gpu->sms;
  const int resident = kvk_bench_resident(kernel, c.threads, 0, c.blocks / sms);
  p.in_flight = (uint64_t)resident * (uint64_t)c.threads * (uint64_t)c.unroll * 16;
  gather_args a = {(const uint4 *)b->arena,
                   w->slots,
                   (uint32_t)rows_a_run(w, &c, p.in_flight * (uint64_t)sms),
                   (uint32_t)w->count,
                   0,
                   c.row_bytes / 16,
                   b->dump,
                   c.blocks,
                   c.threads,
                   c.unroll,
                   stay};
  if (tiles)
    a.blocks = (int)(((uint64_t)a.rows * a.chunks + (uint64_t)(c.threads * c.unroll) - 1) /
                     (uint64_t)(c.threads * c.unroll));
  (void)std::snprintf(p.variant, sizeof p.variant, "ld.v4 x%d, %s%s", c.unroll,
                      tiles ? "a tile a block" : "indices ahead", stay ? ", rows stay" : "");
  (void)std::snprintf(p.layout, sizeof p.layout, "%s", layout_name(c.run));
  p.one_sm = c.one_sm;
  p.row_bytes = c.row_bytes;
  p.run_length = c.run == kList ? 0 : c.run;
  p.blocks = (uint32_t)a.blocks;
  p.threads = (uint32_t)c.threads;
  p.footprint = c.footprint;
  p.work = (double)a.rows * c.row_bytes;
  return kvk_bench_point(b, &p, launch_gather, &a, err);
}

static const uint32_t all_rows[] = {32, 64, 128, 256, 576, 1152, 2048, 4096};
static const uint32_t all_runs[] = {0, 1, 2, 4, 8, 16, 64};

static kv_status saturated(sweep *w, uint64_t pool, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t r = 0; !st && r < sizeof all_rows / sizeof *all_rows; r++)
    for (size_t l = 0; !st && l < sizeof all_runs / sizeof *all_runs; l++) {
      if (w->b->plan->quick && (all_runs[l] > 1 || (all_rows[r] != 128 && all_rows[r] != 1152))) continue;
      spec c = {all_rows[r], all_runs[l], pool, kLoop, 256, 4, false};
      st = point(w, c, err);
      c.blocks = kTiles;
      if (!st) st = point(w, c, err);
    }
  return st;
}

/* The recorded list, and as many rows contiguous and at random: short runs compare with runs as short only.
 */
static kv_status recorded(sweep *w, uint64_t got, kv_error *err) {
  static const uint32_t runs[] = {kList, 0, 1};
  const kvk_ceiling_plan *plan = w->b->plan;
  const uint64_t room = w->slots_room;
  uint64_t rows = 0;
  kv_status st = KV_OK;
  if (!plan->list || !plan->list_count) return KV_OK;
  for (uint64_t i = 0; i < plan->list_count; i++) {
    if (plan->list[i] < 0) return kv_fail(err, KV_ERR_USAGE, "the recorded list has a negative slot");
    if ((uint64_t)plan->list[i] + 1 > rows) rows = (uint64_t)plan->list[i] + 1;
  }
  if (plan->list_row_bytes == 0 || plan->list_row_bytes % 16 || rows * plan->list_row_bytes > got)
    return kv_fail(err, KV_ERR_USAGE,
                   "the recorded list: %llu rows of %u B (a multiple of 16) must fit into %llu B",
                   (unsigned long long)rows, plan->list_row_bytes, (unsigned long long)got);
  if (plan->list_count < room) w->slots_room = plan->list_count;
  w->row_bytes = 0; /* what lies in slots is of another length */
  for (size_t i = 0; !st && i < 3; i++) {
    spec c = {plan->list_row_bytes, runs[i], rows * plan->list_row_bytes, kTiles, 256, 4, false};
    st = point(w, c, err);
  }
  w->slots_room = room;
  w->row_bytes = 0;
  return st;
}

/* 512 B to 128 KiB in flight an SM, on all SMs and on one. */
static kv_status in_flight(sweep *w, uint64_t pool, kv_error *err) {
  static const uint32_t rows[] = {128, 576, 1152};
  static const struct {
    int threads, per_sm, unroll;
  } fill[] = {{32, 1, 1},  {64, 1, 1},  {32, 1, 4},  {64, 1, 4},  {128, 1, 4}, {256, 1, 4},
              {256, 2, 4}, {256, 3, 4}, {256, 4, 4}, {256, 6, 4}, {256, 4, 8}};
  kv_status st = KV_OK;
  for (size_t r = 0; !st && r < 3; r++)
    for (uint32_t run = 0; !st && run < 2; run++)
      for (size_t f = 0; !st && f < sizeof fill / sizeof *fill; f++) {
        if (w->b->plan->quick && (rows[r] != 1152 || run == 0)) continue;
        spec c = {rows[r],        run,  pool, fill[f].per_sm * w->b->gpu->sms, fill[f].threads,
                  fill[f].unroll, false};
        st = point(w, c, err);
      }
  for (size_t r = 0; !st && r < 3; r++)
    for (int threads = 32; !st && threads <= 1024; threads *= 2) {
      if (w->b->plan->quick && rows[r] != 1152) continue;
      spec c = {rows[r], 1, pool, 1, threads, 4, true};
      st = point(w, c, err);
    }
  return st;
}

/* Some of the SMs only: what few blocks reach. */
static kv_status few_sms(sweep *w, uint64_t pool, kv_error *err) {
  static const int blocks[] = {2, 4, 8, 16, 32, 64};
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < sizeof blocks / sizeof *blocks; i++) {
    if (blocks[i] >= w->b->gpu->sms || w->b->plan->quick) continue;
    spec c = {1152, 1, pool, blocks[i], 1024, 4, false};
    st = point(w, c, err);
  }
  return st;
}

/* From 4 MiB, where all lies in the L2, to most of the memory; twice as finely where the L2 ends, and finely
 * where the TLB's reach does. */
static kv_status footprints(sweep *w, uint64_t got, kv_error *err) {
  static const uint32_t rows[] = {128, 1152, 32, 576},
                        mibs[] = {4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 1024, 2048, 4096, 8192, 16384};
  const size_t listed = sizeof mibs / sizeof *mibs;
  const uint64_t mib = (uint64_t)1 << 20, gib = (uint64_t)1 << 30;
  kv_status st = KV_OK;
  for (uint64_t i = 0, last = 0; !st && last < got && !w->b->plan->quick; i++) {
    const uint64_t size = i < listed ? mibs[i] * mib : (i - listed + 2) * 16 * gib;
    last = size < got ? size : got;
    for (size_t r = 0; !st && r < (last < gib ? 4 : 2); r++) {
      spec c = {rows[r], 1, last, kTiles, 256, 4, false};
      st = point(w, c, err);
    }
  }
  return st;
}

/* All row sizes over all of the memory, saturated and with less in flight. */
static kv_status far_rows(sweep *w, uint64_t got, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t r = 0; !st && r < sizeof all_rows / sizeof *all_rows && !w->b->plan->quick; r++) {
    spec full = {all_rows[r], 1, got, kTiles, 256, 4, false},
         runs = {all_rows[r], 16, got, kTiles, 256, 4, false};
    st = point(w, full, err);
    if (!st) st = point(w, runs, err);
    for (int threads = 64; !st && threads <= 256; threads *= 2) {
      spec few = {all_rows[r], 1, got, w->b->gpu->sms, threads, 4, false};
      st = point(w, few, err);
    }
  }
  return st;
}

kv_status kvk_ceil_gather(kvk_bench *b, kv_error *err) {
  sweep w = {b, NULL, (uint64_t)32 << 20, 0, ~0u - 1, 0, 0};
  uint64_t got = 0, want = b->plan->quick ? (uint64_t)8 << 30 : b->gpu->memory / 10 * 9;
  kv_status st = kvk_device_alloc(b->device, w.slots_room * sizeof(int), (void **)&w.slots, err);
  uint64_t room = kvk_device_room(b->device) / ((uint64_t)2 << 20) * ((uint64_t)2 << 20);
  if (want > room) want = room;
  if (!st) st = kvk_bench_arena(b, want, (uint64_t)256 << 20, &got, err);
  const uint64_t pool = got < ((uint64_t)8 << 30) ? got : (uint64_t)8 << 30;
  if (!st) st = saturated(&w, pool, err);
  if (!st) st = recorded(&w, got, err);
  if (!st) st = in_flight(&w, pool, err);
  if (!st) st = few_sms(&w, pool, err);
  if (!st) st = footprints(&w, got, err);
  if (!st) st = far_rows(&w, got, err);
  kvk_device_free(b->device, w.slots);
  return st;
}
