/* Pool and slot lists of the planted kernels, and what launches them. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ceil.h"
#include "plant.h"

enum { LIST_SAME, LIST_FAR, LIST_FAR_SMALL, LIST_RESIDENT, LIST_RESIDENT_SMALL, LIST_RESIDENT_FAR, LISTS };
enum { RESIDENT_ROWS = 64, ROW = 1152, SMALL_ROW = 32, RING_ROWS = RESIDENT_ROWS };

struct kvk_plants {
  kvk_device *device;
  uint4 *pool, *ring; /* ring: the rows of the chase that stays in the L1 */
  uint64_t pool_bytes;
  int *list[LISTS];
  unsigned count[LISTS];
  unsigned *dump;
};

/* far: each row at a place of its own among 2^k rows of the pool; alias > 0: slot mod alias. */
__global__ void plant_list(int *slots, unsigned count, uint64_t pool_rows, bool far, unsigned alias,
                           uint64_t seed) {
  int bits = 1;
  while ((1ull << bits) < pool_rows) bits++;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    uint64_t at = i;
    if (far) {
      do at = kvk_scatter(at, bits, seed);
      while (at >= pool_rows);
    }
    slots[i] = (int)(alias ? at % alias : at);
  }
}

static kv_status make_list(kvk_plants *p, int which, uint64_t row_bytes, uint64_t rows, bool far,
                           unsigned alias, uint64_t seed, kv_error *err) {
  p->count[which] = (unsigned)rows;
  kv_status st = kvk_device_alloc(p->device, rows * sizeof(int), (void **)&p->list[which], err);
  if (st) return st;
  plant_list<<<1024, 256, 0, (cudaStream_t)kvk_device_stream(p->device)>>>(
      p->list[which], (unsigned)rows, p->pool_bytes / row_bytes, far, alias, seed);
  return kvk_cuda(cudaGetLastError(), "planted kernels: making a slot list", err);
}

static uint64_t rows_of(const kvk_plants *p, const char *name) {
  const kvk_planted_work w = kvk_planted_describe(kvk_planted_find(name), kvk_device_gpu(p->device));
  return w.structure.tiles * (uint64_t)w.structure.tile_tokens;
}

static kv_status make_lists(kvk_plants *p, uint64_t seed, kv_error *err) {
  const uint64_t most = p->pool_bytes / ROW, small = rows_of(p, "rows_32");
  const unsigned alias = RESIDENT_ROWS * ROW / SMALL_ROW;
  const uint64_t same = small > most ? small : most;
  kv_status st = make_list(p, LIST_SAME, SMALL_ROW, same, false, 0, seed, err);
  p->count[LIST_SAME] = (unsigned)most; /* copies of 1152-B rows go around this end */
  if (!st) st = make_list(p, LIST_FAR, ROW, most, true, 0, seed, err);
  if (!st) st = make_list(p, LIST_FAR_SMALL, SMALL_ROW, small, true, 0, seed, err);
  if (!st) st = make_list(p, LIST_RESIDENT, ROW, most, false, RESIDENT_ROWS, seed, err);
  if (!st) st = make_list(p, LIST_RESIDENT_SMALL, SMALL_ROW, small, false, alias, seed, err);
  if (!st) st = make_list(p, LIST_RESIDENT_FAR, SMALL_ROW, small, true, alias, seed, err);
  return st;
}

static kv_status make_chases(kvk_plants *p, kv_error *err) {
  const kvk_planted_work w =
      kvk_planted_describe(kvk_planted_find("pointer_chase"), kvk_device_gpu(p->device));
  cudaStream_t s = (cudaStream_t)kvk_device_stream(p->device);
  const uint64_t rows = w.structure.tiles * (uint64_t)w.structure.tile_tokens;
  kv_status st =
      kvk_cuda(plant_chase_build(p->pool, (unsigned)rows, (unsigned)w.structure.tiles_per_block, s),
               "planted kernels: making a chase", err);
  if (!st) st = kvk_device_alloc(p->device, RING_ROWS * ROW, (void **)&p->ring, err);
  if (!st) st = kvk_device_noise(p->device, p->ring, RING_ROWS * ROW, 3, false, err);
  if (!st)
    st = kvk_cuda(plant_chase_build(p->ring, RING_ROWS, RING_ROWS, s), "planted kernels: making a ring", err);
  return st;
}

static kv_status allow_all(const kvk_plants *p, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t i = 0; !st && i < kvk_planted_count(); i++) {
    const kvk_planted *k = kvk_planted_at(i);
    const kvk_planted_work w = kvk_planted_describe(i, kvk_device_gpu(p->device));
    if (k->kind == KVK_PLANT_CHASE) continue;
    /* several share an instance: the largest of them */
    st = kvk_cuda(plant_gather_allow(k, (int)w.structure.smem), k->name, err);
  }
  return st;
}

kv_status kvk_plants_open(kvk_device *device, uint64_t seed, kvk_plants **out, kv_error *err) {
  kvk_plants *p = (kvk_plants *)std::calloc(1, sizeof *p);
  *out = NULL;
  if (!p) return kv_fail(err, KV_ERR_MEMORY, "planted kernels: out of memory");
  p->device = device;
  p->pool_bytes = kvk_planted_pool(kvk_device_gpu(device));
  kv_status st = kvk_device_alloc(device, p->pool_bytes, (void **)&p->pool, err);
  if (!st) st = kvk_device_noise(device, p->pool, p->pool_bytes, seed + 1, false, err);
  if (!st) st = kvk_device_alloc(device, 64, (void **)&p->dump, err);
  if (!st) st = make_lists(p, seed + 11, err);
  if (!st) st = make_chases(p, err);
  if (!st) st = allow_all(p, err);
  if (!st) st = kvk_device_wait(device, err);
  if (st) kvk_plants_close(p);
  else *out = p;
  return st;
}

void kvk_plants_close(kvk_plants *p) {
  if (!p) return;
  for (int i = 0; i < LISTS; i++) kvk_device_free(p->device, p->list[i]);
  kvk_device_free(p->device, p->pool);
  kvk_device_free(p->device, p->ring);
  kvk_device_free(p->device, p->dump);
  std::free(p);
}

/* ---- a run ---- */

static plant_launch launch_of(const kvk_planted_run *r, const kvk_planted *k) {
  const kvk_plants *p = r->plants;
  const kvk_planted_work w = kvk_planted_describe(r->which, kvk_device_gpu(p->device));
  const bool small = k->row_bytes == SMALL_ROW;
  const int list = !small         ? (r->resident ? LIST_RESIDENT
                                     : k->run    ? LIST_FAR
                                                 : LIST_SAME)
                   : !r->resident ? (k->run ? LIST_FAR_SMALL : LIST_SAME)
                                  : (k->run ? LIST_RESIDENT_FAR : LIST_RESIDENT_SMALL);
  plant_launch a = {};
  a.pool = p->pool;
  a.slots = p->list[list];
  a.list = small ? p->count[LIST_FAR_SMALL] : p->count[list];
  a.copies = r->copies ? r->copies : 1;
  a.apart = a.list / a.copies;
  a.blocks = (unsigned)w.structure.blocks;
  a.warps = (unsigned)w.structure.warps;
  a.again = k->again ? k->again : 1;
  a.tiles = (unsigned)(w.structure.tiles_per_block / (uint64_t)a.again);
  a.reads = k->reads;
  a.step = 256;
  a.clashes = k->clashes;
  a.chain = k->chain;
  a.dump = p->dump;
  if (k->kind == KVK_PLANT_CHASE) {
    a.pool = r->resident ? p->ring : p->pool;
    a.list = r->resident ? RING_ROWS : 0;
  }
  return a;
}

kv_status kvk_planted_enqueue(void *self, void *stream, kv_error *err) {
  const kvk_planted_run *r = (const kvk_planted_run *)self;
  const kvk_planted *k = kvk_planted_at(r->which);
  const plant_launch a = launch_of(r, k);
  cudaStream_t s = (cudaStream_t)stream;
  cudaError_t code = k->kind == KVK_PLANT_CHASE ? plant_chase_launch(&a, s) : plant_gather_launch(k, &a, s);
  for (int i = 0; code == cudaSuccess && i < k->launches; i++) code = plant_empty_launch(s);
  return kvk_cuda(code, k->name, err);
}
