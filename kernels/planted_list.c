/* Which kernels are planted, and what each does by its loop counts. */
#include <math.h>
#include <string.h>

#include "planted.h"

/* A stage of 4 rows of 1152 B or of 144 rows of 32 B has 4608 B either way. */
#define COPY .kind = KVK_PLANT_GATHER, .row_bytes = 1152, .warps = 8, .rows = 4, .stages = 4
#define SMALL .kind = KVK_PLANT_GATHER, .row_bytes = 32, .warps = 8, .rows = 144, .stages = 4
#define STAGED .kind = KVK_PLANT_GATHER, .row_bytes = 1152, .warps = 4, .rows = 1

static const kvk_planted plants[] = {
    {.name = "copy", .what = "contiguous rows into shared memory, at the roof", .cause = "", COPY},
    {.name = "one_block",
     .what = "the same by one block alone",
     .cause = "placement",
     .control = "copy",
     COPY,
     .blocks = 1},
    {.name = "read_again",
     .what = "each row read 8 times from the L2",
     .cause = "work",
     .control = "copy",
     COPY,
     .again = 8},
    {.name = "alu_chain",
     .what = "5000 dependent multiply-adds a tile",
     .cause = "serial",
     .control = "copy",
     COPY,
     .chain = 5000},
    {.name = "shared_reads",
     .what = "each tile read from shared memory 3.6 times more",
     .cause = "",
     COPY,
     .reads = 128},
    {.name = "bank_conflict",
     .what = "the same reads in bank conflicts of 8",
     .cause = "serial",
     .control = "shared_reads",
     COPY,
     .reads = 128,
     .clashes = true},
    {.name = "pointer_chase",
     .what = "each row names the next one, two warps an SM",
     .cause = "exposed memory",
     .control = "copy",
     .kind = KVK_PLANT_CHASE,
     .row_bytes = 1152,
     .warps = 2,
     .rows = 1,
     .stages = 1},
    {.name = "rows_32", .what = "contiguous rows of 32 B", .cause = "", SMALL},
    {.name = "random_32",
     .what = "rows of 32 B at random places",
     .cause = "scatter",
     .control = "rows_32",
     SMALL,
     .run = 1},
    {.name = "random_1152", .what = "rows of 1152 B at random places: no cause", .cause = "", COPY, .run = 1},
    {.name = "empty_launches",
     .what = "a loop of 1000 empty launches after it",
     .cause = "overhead",
     .control = "copy",
     .kind = KVK_PLANT_LAUNCHES,
     .row_bytes = 1152,
     .warps = 8,
     .rows = 4,
     .stages = 4,
     .launches = 1000},
    {.name = "stages_1", .what = "one row in flight a warp, 4 warps an SM", .cause = "", STAGED, .stages = 1},
    {.name = "stages_2", .what = "two rows", .cause = "", STAGED, .stages = 2},
    {.name = "stages_4", .what = "four rows", .cause = "", STAGED, .stages = 4},
    {.name = "stages_8", .what = "eight rows", .cause = "", STAGED, .stages = 8},
    {.name = "few_blocks_2",
     .what = "the same on half of the SMs",
     .cause = "",
     STAGED,
     .stages = 8,
     .blocks = -2},
    {.name = "few_blocks_4", .what = "on a quarter of them", .cause = "", STAGED, .stages = 8, .blocks = -4},
    {.name = "few_blocks_16", .what = "on a sixteenth", .cause = "", STAGED, .stages = 8, .blocks = -16},
};

size_t kvk_planted_count(void) {
  return sizeof plants / sizeof *plants;
}

const kvk_planted *kvk_planted_at(size_t i) {
  return i < kvk_planted_count() ? &plants[i] : NULL;
}

size_t kvk_planted_find(const char *name) {
  size_t i = 0;
  while (i < kvk_planted_count() && strcmp(plants[i].name, name) != 0) i++;
  return i;
}

/* Warps a block: as many of them as have room for their stages. */
static int warps_of(const kvk_planted *k, const kvk_gpu *gpu) {
  int warps = k->warps;
  const uint64_t each = (uint64_t)k->stages * (uint64_t)k->rows * k->row_bytes;
  while (k->kind != KVK_PLANT_CHASE && warps > 1 && (uint64_t)warps * each > gpu->shared_block) warps /= 2;
  return warps;
}

uint64_t kvk_planted_pool(const kvk_gpu *gpu) {
  uint64_t pool = (uint64_t)8 << 30;
  while (pool > gpu->memory / 4 && pool > ((uint64_t)256 << 20)) pool /= 2;
  return pool;
}

kvk_planted_work kvk_planted_describe(size_t i, const kvk_gpu *gpu) {
  const kvk_planted *k = &plants[i < kvk_planted_count() ? i : 0];
  kvk_planted_work w = {.structure = {.name = k->name}};
  kvk_structure *s = &w.structure;
  const int again = k->again ? k->again : 1;
  s->warps = warps_of(k, gpu);
  s->threads = 32 * s->warps;
  const int sms = gpu->sms, few = k->blocks < 0 ? sms / -k->blocks : k->blocks;
  s->blocks = (uint64_t)(k->blocks == 0 ? sms : few > 0 ? few : 1);
  s->tile_tokens = k->rows * s->warps;
  /* a warp's whole batches of 32 slots, whole groups of four tiles */
  const uint64_t batch = k->rows < 32 ? 32 / (uint64_t)k->rows : 4;
  const uint64_t full = (uint64_t)sms * (uint64_t)s->tile_tokens * batch;
  const uint64_t wanted =
      kvk_planted_pool(gpu) / 8 / k->row_bytes / full * full; /* what all SMs share evenly */
  const uint64_t tiles = wanted / s->blocks / (uint64_t)s->tile_tokens / batch * batch;
  const uint64_t rows = tiles * s->blocks * (uint64_t)s->tile_tokens;
  s->smem = k->kind == KVK_PLANT_CHASE ? 0 : (uint32_t)(s->warps * k->stages * k->rows) * k->row_bytes;
  s->stages = k->stages;
  s->row_groups = 1;
  s->tiles_per_block = tiles * (uint64_t)again;
  s->tiles = s->tiles_per_block * s->blocks;
  s->launches = 1 + k->launches;
  s->unique_kv_bytes = (double)rows * k->row_bytes;
  const double read = s->unique_kv_bytes * again, slots = 4.0 * (double)rows;
  s->link_bytes = read + (k->kind == KVK_PLANT_CHASE ? 0 : slots * again);
  s->smem_write_bytes = read; /* a chase's loads pass the same pipe once */
  s->smem_read_bytes = k->kind == KVK_PLANT_CHASE ? 0 : read;
  s->smem_read_bytes += 128.0 * k->reads * (double)s->tiles * s->warps; /* without their conflicts */
  w.useful_bytes = s->unique_kv_bytes + (k->kind == KVK_PLANT_CHASE ? 0 : slots);
  return w;
}
