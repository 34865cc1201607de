/* kvk_describe(): what a launch does, as far as it follows from the problem and the way it is cut up. Counts
 * that hang on a kernel's inner loops (bytes through shared memory, executed products, barriers) are NaN here
 * until they are declared. */
#include <math.h>
#include <string.h>

#include "attn_shape.h"

static void of_problem(const kvk_problem *p, const uint64_t *prefix, kvk_structure *s) {
  double keys = 0, rows = 0;
  for (int i = 0; i < p->batch; i++) {
    keys += (double)prefix[i] + (p->tree_slots ? p->queries : 0);
    rows += (double)prefix[i];
  }
  const double out_rows = (double)p->batch * p->queries * p->heads;
  s->unique_kv_bytes = rows * KVK_ROW_BYTES;
  s->output_bytes = out_rows * (2 * KVK_LATENT + (p->lse ? 4 : 0));
  s->useful_flops = 2.0 * p->queries * p->heads * (KVK_ROW_VALUES + KVK_LATENT) * keys;
  s->exponentials = (double)p->queries * p->heads * keys;
  s->link_bytes = s->smem_write_bytes = s->smem_read_bytes = s->partial_bytes = s->mma_flops =
      s->barriers_per_tile = NAN;
}

/* A block per request and head walks all keys alone and fetches every row twice, as K and as V. */
static void of_extend(kvk_kind kind, const kvk_problem *p, const uint64_t *prefix, kvk_structure *s) {
  const int tile = kind == KVK_EXTEND_SERIAL_64 ? 64 : 32;
  s->tile_tokens = tile;
  s->tile_rows = 32;
  s->used_rows = p->queries;
  s->stages = 1;
  s->threads = 256;
  s->blocks = (uint64_t)p->batch * (uint64_t)p->heads;
  s->row_groups = (uint64_t)p->heads;
  s->launches = 1;
  /* Q [32][576], a tile of latent columns, weights [32][tile], maxima across 8 warps: extend_serial.cu */
  s->smem = (uint32_t)(32 * KVK_ROW_BYTES + tile * 2 * KVK_LATENT + 32 * tile * 2 + 9 * 32 * 4);
  for (int i = 0; i < p->batch; i++) {
    const uint64_t tiles = (prefix[i] + (uint64_t)tile - 1) / (uint64_t)tile + (p->tree_slots ? 1 : 0);
    s->tiles += tiles * (uint64_t)p->heads;
    if (tiles > s->tiles_per_block) s->tiles_per_block = tiles;
  }
}

/* A list of tiles of all (request, group of rows), cut evenly over the blocks. */
static void of_split(kvk_kind kind, const kvk_problem *p, const kvk_options *o, const uint64_t *prefix,
                     kvk_structure *s) {
  const kvk_groups cut = kvk_cut_rows(kind, p->queries, p->heads);
  const uint64_t blocks = (uint64_t)kvk_split_blocks(o);
  s->tile_tokens = KVK_TILE;
  s->tile_rows = 8 * cut.tiles8;
  s->used_rows = cut.group_rows;
  s->stages = KVK_STAGES;
  s->threads = KVK_SPLIT_THREADS;
  s->row_groups = (uint64_t)cut.groups;
  s->launches = 2;
  s->smem = KVK_SMEM_LIMIT; /* no more than that, whatever the number of rows */
  for (int i = 0; i < p->batch; i++)
    s->tiles += (uint64_t)cut.groups *
                ((prefix[i] + (uint64_t)(p->tree_slots ? p->queries : 0) + KVK_TILE - 1) / KVK_TILE);
  const uint64_t least = (uint64_t)kvk_min_split_tiles(o), share = (s->tiles + blocks - 1) / blocks;
  s->tiles_per_block = share < least ? least : share;
  s->blocks = s->tiles ? (s->tiles + s->tiles_per_block - 1) / s->tiles_per_block : 0;
  if (s->blocks > blocks) s->blocks = blocks;
  s->partials = kvk_most_partials(&cut, p, o);
}

kv_status kvk_describe(kvk_kind kind, const kvk_problem *problem, const kvk_options *options,
                       const uint64_t *prefix, kvk_structure *structure, kv_error *err) {
  memset(structure, 0, sizeof *structure);
  kv_status status = kvk_check(kind, problem, options, err);
  if (status != KV_OK) return status;
  structure->name = kvk_kind_name(kind);
  of_problem(problem, prefix, structure);
  if (kind == KVK_EXTEND_SERIAL_64 || kind == KVK_EXTEND_SERIAL_32)
    of_extend(kind, problem, prefix, structure);
  else of_split(kind, problem, options, prefix, structure);
  structure->warps = structure->threads / 32;
  return KV_OK;
}
