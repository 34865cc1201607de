/* Shapes, sizes and declared work of the attention kernels: what can be said without a GPU. */
#include "attn_shape.h"

#include <stdbool.h>

const char *kvk_kind_name(kvk_kind kind) {
  static const char *const names[KVK_KINDS] = {"extend_serial_32x64", "extend_serial_32x32", "split_per_head",
                                               "split_verify",        "load_only",           "mma_only",
                                               "merge_state"};
  return (unsigned)kind < KVK_KINDS ? names[kind] : NULL;
}

kvk_options kvk_default_options(int sms, int major, int minor) {
  return (kvk_options){.sms = sms, .capability = 10 * major + minor};
}

int kvk_split_blocks(const kvk_options *options) { return options->blocks > 0 ? options->blocks : options->sms; }

int kvk_tile_keys(const kvk_groups *groups, const kvk_options *options) {
  /* 227 KB, and machine code: what a later GPU makes of sm_80's PTX has no tiles of 32 */
  const int has = options->capability / 10 == 9 || options->capability / 10 == 10;
  const int may = options->smem_limit <= 0 || (unsigned)options->smem_limit >= KVK_WIDE_SMEM((unsigned)groups->tiles8);
  return has && may && options->fixed_split_tokens % (2 * KVK_TILE) == 0 ? 2 * KVK_TILE : KVK_TILE;
}

int kvk_min_split_tiles(const kvk_options *options, int tile_keys) {
  int tokens = options->min_split_tokens > 0 ? options->min_split_tokens : 64;
  return (tokens + tile_keys - 1) / tile_keys;
}

kvk_groups kvk_cut_rows(kvk_kind kind, int queries, int heads) {
  kvk_groups g = {.rows = queries * heads};
  if (kind == KVK_SPLIT_PER_HEAD) {
    g.groups = heads;
    g.group_rows = queries;
    g.group_stride = 1;
    g.row_stride = heads;
  } else {
    g.groups = (g.rows + KVK_GROUP_ROWS - 1) / KVK_GROUP_ROWS;
    g.group_rows = (g.rows + g.groups - 1) / g.groups;
    g.group_stride = g.group_rows;
    g.row_stride = 1;
  }
  g.tiles8 = (g.group_rows + 7) / 8;
  if (g.tiles8 == 4 || ((kind == KVK_LOAD_ONLY || kind == KVK_MMA_ONLY) && g.tiles8 < 5)) g.tiles8 = 5;
  return g;
}

uint64_t kvk_most_partials(const kvk_groups *groups, const kvk_problem *p, const kvk_options *options) {
  const uint64_t pieces = (uint64_t)p->batch * (uint64_t)groups->groups;
  if (options->fixed_split_tokens <= 0) return (uint64_t)kvk_split_blocks(options) + pieces; /* one a block, one more where a request ends */
  const uint64_t keys = p->prefix_capacity + (uint64_t)p->batch * (uint64_t)p->queries;
  return pieces + (uint64_t)groups->groups * (keys / (uint64_t)options->fixed_split_tokens);
}

static bool is_split(kvk_kind kind) { return kind >= KVK_SPLIT_PER_HEAD && kind <= KVK_MMA_ONLY; }

static kv_status check_shape(const kvk_problem *p, kv_error *err) {
  if (p->batch < 0 || p->batch > 65535)
    return kv_fail(err, KV_ERR_USAGE, "attention: a batch of %d requests, must be 0 to 65535", p->batch);
  if (p->queries < 1 || p->queries > KVK_MAX_QUERIES)
    return kv_fail(err, KV_ERR_USAGE, "attention: %d queries, must be 1 to %d", p->queries, KVK_MAX_QUERIES);
  if (p->heads < 1 || p->heads > KVK_MAX_HEADS)
    return kv_fail(err, KV_ERR_USAGE, "attention: %d heads, must be 1 to %d", p->heads, KVK_MAX_HEADS);
  if (p->latent != KVK_LATENT || p->rope != KVK_ROPE)
    return kv_fail(err, KV_ERR_USAGE, "attention: rows of %d + %d values; the kernels are built for %d + %d", p->latent,
                   p->rope, KVK_LATENT, KVK_ROPE);
  if (p->q_row_stride < KVK_ROW_VALUES || p->kv_row_stride < KVK_ROW_VALUES || p->q_row_stride % 8 || p->kv_row_stride % 8)
    return kv_fail(err, KV_ERR_USAGE, "attention: row strides %lld and %lld, must be multiples of 8, at least %d",
                   (long long)p->q_row_stride, (long long)p->kv_row_stride, KVK_ROW_VALUES);
  if (p->kv_row_stride > KVK_MOST_STRIDE)
    return kv_fail(err, KV_ERR_USAGE, "attention: a row stride of %lld values, must be at most %d", (long long)p->kv_row_stride, (int)KVK_MOST_STRIDE);
  return KV_OK;
}

static kv_status check_arrays(const kvk_problem *p, kv_error *err) {
  if (((uintptr_t)p->q | (uintptr_t)p->kv | (uintptr_t)p->out) % 16)
    return kv_fail(err, KV_ERR_USAGE, "attention: q, kv and out must be 16-byte aligned");
  if (p->mask_kind != KVK_MASK_CHAIN && p->tree_slots && !p->mask)
    return kv_fail(err, KV_ERR_USAGE, "attention: a tree block with a mask kind but no mask");
  if (p->mask_kind == KVK_MASK_FULL && p->tree_slots && !p->mask_indptr)
    return kv_fail(err, KV_ERR_USAGE, "attention: a full mask needs mask_indptr");
  return KV_OK;
}

kv_status kvk_check(kvk_kind kind, const kvk_problem *p, const kvk_options *o, kv_error *err) {
  if (!kvk_kind_name(kind) || kind == KVK_MERGE_STATE)
    return kv_fail(err, KV_ERR_USAGE, "attention: kernel kind %d is not one of attention.h", (int)kind);
  kv_status status = check_shape(p, err);
  if (status == KV_OK) status = check_arrays(p, err);
  if (status != KV_OK) return status;
  if (kind == KVK_EXTEND_SERIAL_64 && (o->capability == 86 || o->capability == 89 || o->capability >= 120))
    return kv_fail(err, KV_ERR_USAGE, "%s: not built for compute capability %d.%d (a block has 99 KB there); use %s",
                   kvk_kind_name(kind), o->capability / 10, o->capability % 10, kvk_kind_name(KVK_EXTEND_SERIAL_32));
  if (is_split(kind) && kvk_split_blocks(o) < 1)
    return kv_fail(err, KV_ERR_USAGE, "%s: the number of SMs or blocks must be given", kvk_kind_name(kind));
  if (o->fixed_split_tokens % KVK_TILE || o->fixed_split_tokens < 0)
    return kv_fail(err, KV_ERR_USAGE, "attention: fixed splits of %d keys, must be a multiple of %d", o->fixed_split_tokens,
                   (int)KVK_TILE);
  return KV_OK;
}

kv_status kvk_workspace_size(kvk_kind kind, const kvk_problem *p, const kvk_options *o, size_t *bytes, kv_error *err) {
  kv_status status = kvk_check(kind, p, o, err);
  *bytes = 0;
  if (status != KV_OK || !is_split(kind)) return status;
  const kvk_groups g = kvk_cut_rows(kind, p->queries, p->heads);
  *bytes = (size_t)kvk_most_partials(&g, p, o) * (size_t)g.tiles8 * 8 * (2 * KVK_LATENT + sizeof(float));
  return KV_OK;
}
