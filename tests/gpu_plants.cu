/* The planted kernels on small lists: what a self-test runs over gigabytes, short enough for compute-sanitizer. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "plant.h"

#define GPU(call) check((call), #call)
static void check(cudaError_t e, const char *what) {
  if (e == cudaSuccess) return;
  (void)std::fprintf(stderr, "gpu_plants: %s: %s\n", what, cudaGetErrorString(e));
  std::exit(4);
}

enum { ROWS = 20000, BLOCKS = 2, ROW_BYTES = 1152, PRIME = 7919 };

static plant_launch shape_of(const kvk_planted *k, uint4 *pool, int *slots, unsigned *dump) {
  plant_launch a = {};
  a.pool = pool;
  a.slots = slots;
  a.warps = (unsigned)k->warps;
  a.blocks = BLOCKS;
  a.copies = k->blocks == 1 ? 2 : 1;
  a.tiles = 2 * (k->rows < 32 ? 32 / (unsigned)k->rows : 4);
  a.list = a.tiles * a.blocks * a.warps * (unsigned)k->rows;
  a.apart = a.list / a.copies;
  a.again = k->again ? k->again : 1;
  a.reads = k->reads;
  a.step = 256;
  a.clashes = k->clashes;
  a.chain = k->chain ? 20 : 0;
  a.dump = dump;
  return a;
}

static void fill_slots(const kvk_planted *k, const plant_launch *a, int *slots, cudaStream_t stream) {
  const unsigned rows = ROWS * (ROW_BYTES / k->row_bytes);
  int *host = (int *)std::malloc(a->list * sizeof *host);
  if (!host) std::abort();
  for (unsigned i = 0; i < a->list; i++) host[i] = (int)((unsigned)PRIME * i % rows);
  GPU(cudaMemcpyAsync(slots, host, a->list * sizeof *host, cudaMemcpyHostToDevice, stream));
  GPU(cudaStreamSynchronize(stream));
  std::free(host);
}

/* Its share of the pool, then a ring of 64 rows. */
static void chase(plant_launch a, uint4 *pool, cudaStream_t stream) {
  a.list = 0;
  a.tiles = 8;
  GPU(plant_chase_build(pool, a.blocks * a.warps * a.tiles, a.tiles, stream));
  GPU(plant_chase_launch(&a, stream));
  a.list = 64;
  GPU(plant_chase_build(pool, a.list, a.list, stream));
  GPU(plant_chase_launch(&a, stream));
}

static void gather(const kvk_planted *k, const plant_launch *a, cudaStream_t stream) {
  GPU(plant_gather_allow(k, (int)(a->warps * (unsigned)(k->stages * k->rows) * k->row_bytes)));
  GPU(plant_gather_launch(k, a, stream));
  for (int i = 0; i < (k->launches ? 3 : 0); i++) GPU(plant_empty_launch(stream));
}

extern "C" unsigned gpu_run_plants(void *on) {
  const cudaStream_t stream = (cudaStream_t)on;
  uint4 *pool;
  int *slots;
  unsigned *dump, ran = 0;
  GPU(cudaMalloc((void **)&pool, (size_t)ROWS * ROW_BYTES));
  GPU(cudaMalloc((void **)&slots, (size_t)ROWS * sizeof *slots));
  GPU(cudaMalloc((void **)&dump, 64));
  GPU(cudaMemsetAsync(pool, 1, (size_t)ROWS * ROW_BYTES, stream));
  GPU(cudaMemsetAsync(dump, 0, 64, stream));
  for (size_t i = 0; i < kvk_planted_count(); i++) {
    const kvk_planted *k = kvk_planted_at(i);
    const plant_launch a = shape_of(k, pool, slots, dump);
    fill_slots(k, &a, slots, stream);
    if (k->kind == KVK_PLANT_CHASE) chase(a, pool, stream);
    else gather(k, &a, stream);
    GPU(cudaStreamSynchronize(stream));
    ran++;
  }
  GPU(cudaFree(pool));
  GPU(cudaFree(slots));
  GPU(cudaFree(dump));
  return ran;
}
