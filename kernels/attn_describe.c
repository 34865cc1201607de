/* What a launch does, by the kernels' loop counts: the numbers behind kvk_describe(). Each count names the code it mirrors;
 * tests/test_kernels_emulate.c holds the totals against hand-computed cases. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "attn_shape.h"

static const double MMA_FLOPS = 2.0 * 16 * 8 * 16;

static uint64_t at_least(uint64_t a, uint64_t b) { return a > b ? a : b; }
static uint64_t divide_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

static uint64_t keys_of(const kvk_problem *p, uint64_t prefix) { return prefix + (p->tree_slots ? (uint64_t)p->queries : 0); }

/* What every kernel of the problem shares. */
static void describe_problem(const kvk_problem *p, const uint64_t *prefix, kvk_structure *s) {
  const double rows = (double)p->queries * p->heads;
  double keys = 0;
  for (int i = 0; i < p->batch; i++) keys += (double)keys_of(p, prefix[i]);
  s->unique_kv_bytes = keys * KVK_ROW_BYTES;
  s->useful_flops = 2 * rows * keys * (KVK_ROW_VALUES + KVK_LATENT);
  s->output_bytes = p->batch * rows * (2.0 * KVK_LATENT + (p->lse ? 4 : 0));
}

/* extend_serial.cu: ex_tile() of 8 warps */
static void describe_extend(const kvk_problem *p, const uint64_t *prefix, uint64_t bn, kvk_structure *s) {
  const double q_bytes = 32.0 * KVK_ROW_BYTES, heads = p->heads;
  double keys = 0;
  for (int i = 0; i < p->batch; i++) {
    const uint64_t tiles = divide_up(keys_of(p, prefix[i]), bn);
    s->tiles += tiles * (uint64_t)p->heads;
    s->tiles_per_block = at_least(s->tiles_per_block, tiles);
    keys += (double)keys_of(p, prefix[i]);
  }
  s->blocks = (uint64_t)p->batch * (uint64_t)p->heads;
  s->threads = 256;
  s->smem = (uint32_t)(q_bytes + (double)bn * 2 * KVK_LATENT + 32.0 * (double)bn * 2 + 9.0 * 32 * 4);
  s->tile_rows = 32;
  s->used_rows = p->queries;
  s->tile_tokens = (int)bn;
  s->stages = 1;
  s->row_groups = (uint64_t)p->heads;
  s->launches = 1;
  /* V's columns are K's, but the L1 that the launch leaves does not hold a tile (counted on an H200: 1.00 and 0.97 of this) */
  s->link_bytes = heads * keys * (KVK_ROW_BYTES + 2.0 * KVK_LATENT + 4) + p->batch * heads * p->queries * (double)KVK_ROW_BYTES + s->output_bytes;
  const double tiles = (double)s->tiles, weights = 32.0 * (double)bn * 2;
  s->smem_write_bytes = tiles * ((double)bn * (2.0 * 2 * KVK_LATENT + 2 * KVK_ROPE) + weights) + (double)s->blocks * q_bytes;
  s->smem_read_bytes = tiles * (8 * q_bytes + 8.0 * 8 * KVK_ROW_BYTES + 8 * weights + (double)bn * 2 * KVK_LATENT);
  /* a lane's 16 bytes are loaded as four words: each of a warp's four loads touches all lines of the 512 bytes */
  s->l1_load_bytes = tiles * (double)bn * (2.0 * 2 * KVK_LATENT + 2 * KVK_ROPE) * 4;
  s->mma_flops = tiles * 8 * (72 + (double)bn) * MMA_FLOPS;
  s->exponentials = tiles * 256 * (8 + 4);
  s->barriers_per_tile = 12;
}

typedef struct split_list { /* attn_split.h: sv_survey() */
  uint64_t total, workers, share, keys; /* keys: of a tile */
  bool aligned;
} split_list;

static uint64_t tiles_of(const kvk_problem *p, const split_list *l, uint64_t prefix) { return divide_up(keys_of(p, prefix), l->keys); }

static split_list survey(const kvk_problem *p, const kvk_options *o, const kvk_groups *g, const uint64_t *prefix) {
  const uint64_t blocks = (uint64_t)kvk_split_blocks(o), groups = (uint64_t)g->groups;
  split_list l = {.aligned = blocks % groups * 32 <= blocks && groups <= blocks, .keys = (uint64_t)kvk_tile_keys(g, o)};
  for (int i = 0; i < p->batch; i++) l.total += tiles_of(p, &l, prefix[i]);
  l.workers = l.aligned ? blocks / groups : blocks;
  l.share = at_least(divide_up((l.aligned ? 1 : groups) * l.total, l.workers), (uint64_t)kvk_min_split_tiles(o, (int)l.keys));
  return l;
}

/* Segments of default mode: what (request, group) overlaps of the equal shares. */
static uint64_t count_shares(const kvk_problem *p, const kvk_groups *g, const split_list *l, const uint64_t *prefix) {
  const uint64_t copies = l->aligned ? 1 : (uint64_t)g->groups;
  uint64_t segments = 0, at = 0;
  for (int i = 0; i < p->batch; i++)
    for (uint64_t c = 0; c < copies; c++) {
      const uint64_t tiles = tiles_of(p, l, prefix[i]);
      if (tiles) segments += (at + tiles - 1) / l->share - at / l->share + 1;
      at += tiles;
    }
  return l->aligned ? segments * (uint64_t)g->groups : segments;
}

/* Deterministic mode: piece k goes to block k % blocks; the busiest block's tiles. */
static kv_status count_pieces(const kvk_problem *p, const kvk_options *o, const kvk_groups *g, const split_list *l,
                              const uint64_t *prefix, uint64_t *segments, uint64_t *busiest) {
  const uint64_t blocks = (uint64_t)kvk_split_blocks(o), fixed = (uint64_t)o->fixed_split_tokens / l->keys;
  uint64_t *load = calloc(blocks, sizeof *load);
  if (!load) return KV_ERR_MEMORY;
  *segments = *busiest = 0;
  for (int i = 0; i < p->batch; i++)
    for (int c = 0; c < g->groups; c++)
      for (uint64_t left = tiles_of(p, l, prefix[i]); left;) {
        const uint64_t tiles = left < fixed ? left : fixed;
        load[*segments % blocks] += tiles;
        *busiest = at_least(*busiest, load[*segments % blocks]);
        left -= tiles;
        (*segments)++;
      }
  free(load);
  return KV_OK;
}

/* split_scores.h: sv_score_tile() of 4 warps; split_verify.cu: sv_value_tile() of 4 warps, sv_fetch(); then the merge. */
static void describe_split(kvk_kind kind, const kvk_problem *p, const kvk_groups *g, const split_list *l, uint64_t segments,
                           kvk_structure *s) {
  const double nt = g->tiles8, tiles = (double)s->tiles, parts = (double)segments, keys = (double)l->keys, halves = keys / KVK_TILE;
  const double tile_bytes = keys * KVK_ROW_BYTES;
  const bool loads = kind != KVK_MMA_ONLY, works = kind != KVK_LOAD_ONLY, wide = l->keys > KVK_TILE;
  s->threads = KVK_SPLIT_THREADS;
  s->smem = wide ? KVK_WIDE_SMEM((uint32_t)g->tiles8) : KVK_SPLIT_SMEM((uint32_t)g->tiles8);
  s->tile_rows = 8 * g->tiles8;
  s->used_rows = g->group_rows;
  s->tile_tokens = (int)l->keys;
  s->stages = wide ? KVK_WIDE_STAGES : KVK_STAGES;
  s->row_groups = (uint64_t)g->groups;
  s->partials = segments * (uint64_t)g->group_rows;
  s->launches = 2;
  s->partial_bytes = parts * 8 * nt * (2.0 * KVK_LATENT + 4);
  s->link_bytes = (loads ? tiles * (tile_bytes + 4 * keys) : 0) + parts * g->group_rows * KVK_ROW_BYTES + 2 * s->partial_bytes + s->output_bytes;
  const double sent = 512.0 * KVK_EXCHANGED((unsigned)g->tiles8), taken = sent + (g->tiles8 == 5 && !wide ? 4 * 512 : 0); /* by two warps for nothing */
  s->smem_write_bytes = tiles * ((loads ? tile_bytes : 0) + (works ? halves * (sent + 256 * nt) : 0)) + parts * 8 * nt * KVK_ROW_BYTES;
  s->smem_read_bytes = works ? tiles * (tile_bytes + keys * 2.0 * KVK_LATENT + halves * (taken + 4 * 256 * nt)) + parts * 8 * nt * KVK_ROW_BYTES : 0;
  s->mma_flops = works ? halves * tiles * (4 * 9 + 4 * 8) * nt * MMA_FLOPS : 0;
  const double extra = g->tiles8 == 6 || (g->tiles8 == 5 && !wide) ? 2 : g->tiles8 == 5 ? 1 : 0; /* of rows that warps share out */
  s->exponentials = works ? tiles * halves * 128 * (4 + extra) : 0;
  s->barriers_per_tile = 1; /* beside 3 mbarrier phases */
  (void)p;
}

static void describe_merge(const kvk_problem *p, kvk_structure *s) {
  const double rows = (double)p->batch * p->queries * p->heads;
  s->blocks = (uint64_t)rows;
  s->threads = 64;
  s->tile_rows = s->used_rows = 1;
  s->launches = 1;
  s->output_bytes = rows * (2.0 * KVK_LATENT + 4);
  s->link_bytes = 2 * rows * (2.0 * KVK_LATENT + 4) + s->output_bytes;
  s->exponentials = 2 * rows * 64;
}

kv_status kvk_describe(kvk_kind kind, const kvk_problem *p, const kvk_options *o, const uint64_t *prefix, kvk_structure *s,
                       kv_error *err) {
  memset(s, 0, sizeof *s);
  s->name = kvk_kind_name(kind);
  kv_status status = KV_OK;
  if (kind == KVK_MERGE_STATE) {
    describe_merge(p, s);
  } else if ((status = kvk_check(kind, p, o, err)) != KV_OK) {
    return status;
  } else {
    describe_problem(p, prefix, s);
    if (kind == KVK_EXTEND_SERIAL_64) describe_extend(p, prefix, 64, s);
    else if (kind == KVK_EXTEND_SERIAL_32) describe_extend(p, prefix, 32, s);
    else {
      const kvk_groups g = kvk_cut_rows(kind, p->queries, p->heads);
      const split_list l = survey(p, o, &g, prefix);
      uint64_t segments = count_shares(p, &g, &l, prefix);
      s->tiles_per_block = l.share < l.total * (l.aligned ? 1 : (uint64_t)g.groups) ? l.share : l.total * (l.aligned ? 1 : (uint64_t)g.groups);
      if (o->fixed_split_tokens > 0) status = count_pieces(p, o, &g, &l, prefix, &segments, &s->tiles_per_block);
      s->blocks = (uint64_t)kvk_split_blocks(o);
      s->tiles = l.total * (uint64_t)g.groups;
      describe_split(kind, p, &g, &l, segments, s);
    }
  }
  s->warps = s->threads / 32;
  return status == KV_OK ? KV_OK : kv_fail(err, status, "%s: out of memory", s->name);
}
