/* attn_split.h - device code that split_verify and its merge share: who works on which keys. Included by .cu files.
 *
 * Keys of request i, prefix then tree block, are cut into tiles of 16 or 32; the tiles of all (request, group of query rows)
 * stand in one list, request by request, group by group. By default block b takes the b-th equal share of that list,
 * so it may end one request and begin the next; with fixed_tiles > 0 every (request, group) is cut at multiples of
 * fixed_tiles and block b takes the pieces b, b + blocks, ... A run of tiles of one (request, group) is a segment and
 * gives one partial result. All of it is computed on the device from indptr, by the main kernel and by the merge alike.
 */
#ifndef KVK_ATTN_SPLIT_H
#define KVK_ATTN_SPLIT_H

#include "attn_shape.h"
#include "ptx.h"

struct sv_params {
  const uint16_t *q, *kv;
  int64_t q_stride, kv_stride; /* bytes */
  uint32_t kv_step;            /* kv_stride, which fits */
  const uint64_t *indptr, *mask_indptr;
  const int32_t *slots, *tree_slots;
  const void *mask;
  uint16_t *out, *part_out; /* part_out [partial][tiles8][512 pieces of 16 bytes]: see sv_leave_values */
  float *lse, *part_lse;    /* part_lse [partial][8 * tiles8], base-2 logarithm */
  float scale_log2;         /* scale * log2(e) */
  int batch, queries, heads, tree, mask_kind;
  kvk_groups cut;
  uint32_t tile_keys, blocks, min_tiles, fixed_tiles;
  /* `aligned`: every group is cut alike and a block stays with one group, so that blocks which read the same rows read them at the
   * same time; where that leaves less than 1 in 32 blocks idle. The grid is then groups x workers, else blocks x 1. */
  uint32_t aligned, workers; /* workers: blocks that share a list */
  uint32_t one, most_partials; /* one: `aligned`, and one request; partial results of a group, at most */
};

/* The list of all tiles, or pieces with fixed_tiles: "units". */
struct sv_list {
  uint32_t total;  /* units of all requests, one group */
  uint32_t before; /* of the requests before the one asked for */
  uint32_t share;  /* units a worker takes */
};

KX_DEVICE uint32_t sv_worker(const sv_params &p) { return p.aligned ? kx_block_y() : kx_block(); }

/* A place in the list. */
struct sv_place {
  uint32_t request, group, unit; /* unit within (request, group) */
  uint32_t units, tiles;         /* of (request, group) */
};

KX_DEVICE uint32_t sv_prefix(const sv_params &p, uint32_t request) {
  return (uint32_t)(p.indptr[request + 1] - p.indptr[request]);
}
KX_DEVICE uint32_t sv_tiles(const sv_params &p, uint32_t request) {
  return (sv_prefix(p, request) + (uint32_t)p.tree + p.tile_keys - 1) / p.tile_keys;
}
KX_DEVICE uint32_t sv_units(const sv_params &p, uint32_t tiles) {
  return !p.fixed_tiles ? tiles : (tiles + p.fixed_tiles - 1) / p.fixed_tiles;
}

/* By a whole warp: the inclusive sum of v over the lanes up to mine. */
KX_DEVICE uint32_t sv_scan(uint32_t v, uint32_t lane) {
  for (int d = 1; d < 32; d *= 2) {
    uint32_t below = kx_shfl_up(v, d);
    if (lane >= (uint32_t)d) v += below;
  }
  return v;
}

/* By a whole warp: how the list is cut. */
KX_DEVICE sv_list sv_survey(const sv_params &p, uint32_t request, uint32_t lane) {
  sv_list x = {0, 0, 0};
  if (p.batch == 1) x.total = sv_units(p, sv_tiles(p, 0)); /* without shuffles */
#pragma unroll 1
  for (uint32_t base = 0; base < (uint32_t)p.batch && p.batch > 1; base += 32) {
    const uint32_t i = base + lane;
    const uint32_t sum = sv_scan(i < (uint32_t)p.batch ? sv_units(p, sv_tiles(p, i)) : 0, lane);
    if (request > base) x.before += kx_shfl(sum, request - base > 32 ? 31 : (int)(request - base) - 1);
    x.total += kx_shfl(sum, 31);
  }
  x.share = ((p.aligned ? 1 : (uint32_t)p.cut.groups) * x.total + p.workers - 1) / p.workers;
  if (x.share < p.min_tiles) x.share = p.min_tiles;
  return x;
}

/* By a whole warp: what stands at position `at` of the list, which must be inside it. An aligned list is that of one
 * group. */
KX_DEVICE sv_place sv_locate(const sv_params &p, const sv_list &list, uint32_t at, uint32_t lane) {
  const uint32_t groups = p.aligned ? 1 : (uint32_t)p.cut.groups;
  uint32_t before = 0;
  if (p.batch == 1) {
    sv_place x = {0, 0, at, list.total, sv_tiles(p, 0)};
    if (groups > 1) x.group = at / x.units, x.unit = at - x.group * x.units;
    return x;
  }
#pragma unroll 1
  for (uint32_t base = 0;; base += 32) {
    const uint32_t i = base + lane;
    const uint32_t tiles = i < (uint32_t)p.batch ? sv_tiles(p, i) : 0, units = sv_units(p, tiles);
    const uint32_t upto = before + groups * sv_scan(units, lane);
    const uint32_t past = kx_ballot(upto > at);
    if (past || base + 32 >= (uint32_t)p.batch) {
      const int first = past ? kx_first(past) : 31;
      sv_place x;
      x.request = base + (uint32_t)first;
      x.tiles = kx_shfl(tiles, first);
      x.units = kx_shfl(units, first);
      const uint32_t start = kx_shfl(upto, first) - groups * x.units;
      x.group = groups == 1 || !x.units ? 0 : (at - start) / x.units;
      x.unit = at - start - x.group * x.units;
      return x;
    }
    before = kx_shfl(upto, 31);
  }
}

/* The number of a segment's partial result; ascending along the list, so a (request, group)'s are consecutive. */
KX_DEVICE uint32_t sv_partial(const sv_params &p, uint32_t worker, uint32_t request, uint32_t group) {
  if (p.aligned) return group * (p.workers + (uint32_t)p.batch) + worker + request;
  return worker + request * (uint32_t)p.cut.groups + group;
}

/* With p.one: tiles a block takes, and the partial results of a group. */
KX_DEVICE uint32_t sv_only_share(const sv_params &p, uint32_t tiles) {
  const uint32_t share = (tiles + p.workers - 1) / p.workers;
  return share < p.min_tiles ? p.min_tiles : share;
}
KX_DEVICE uint32_t sv_only_partials(const sv_params &p) {
  const uint32_t tiles = sv_tiles(p, 0), share = sv_only_share(p, tiles);
  return (tiles + share - 1) / share;
}

struct sv_range { uint32_t first, count; };

/* The partial results of (request, group). `before`: units of the requests before it; units: its own. */
KX_DEVICE sv_range sv_partials_of(const sv_params &p, const sv_list &list, uint32_t request, uint32_t group, uint32_t units) {
  const uint32_t groups = (uint32_t)p.cut.groups;
  const uint32_t start = p.aligned ? list.before : groups * list.before + group * units;
  sv_range r = {start, units};
  if (!p.fixed_tiles && units) {
    const uint32_t first = start / list.share, last = (start + units - 1) / list.share;
    r.first = sv_partial(p, first, request, group);
    r.count = last - first + 1;
  }
  return r;
}

/* Whether query `query` of the request sees node `node` of its tree; both are there. One byte of the mask, whatever its kind. */
KX_DEVICE bool sv_sees_node(const sv_params &p, uint32_t request, uint32_t prefix, uint32_t query, uint32_t node) {
  if (p.mask_kind == KVK_MASK_CHAIN) return node <= query;
  const uint32_t n = (uint32_t)p.queries, bits = p.mask_kind == KVK_MASK_TREE || p.mask_kind == KVK_MASK_FULL ? 0 : 1;
  const size_t row = (size_t)request * n + query;
  size_t at = bits ? row * (n <= 8 ? 1 : n <= 16 ? 2 : 4) + node / 8 : row * n + node;
  if (p.mask_kind == KVK_MASK_FULL) at = p.mask_indptr[request] + (uint64_t)query * ((uint64_t)prefix + n) + prefix + node;
  const uint32_t byte = ((const uint8_t *)p.mask)[at];
  return bits ? byte >> (node & 7) & 1 : byte != 0;
}

/* Whether a key of the tree block is there at all. */
KX_DEVICE bool sv_has_node(const sv_params &p, uint32_t request, uint32_t node) {
  return node < (uint32_t)p.tree && p.tree_slots[(size_t)request * (uint32_t)p.queries + node] >= 0;
}

/* Whether query row `row` (query * heads + head) sees key `key` of the request; key >= prefix. */
KX_DEVICE bool sv_sees(const sv_params &p, uint32_t request, uint32_t prefix, uint32_t row, uint32_t key) {
  if (row >= (uint32_t)p.cut.rows || !sv_has_node(p, request, key - prefix)) return false;
  return sv_sees_node(p, request, prefix, row / (uint32_t)p.heads, key - prefix);
}

/* The slot of a key, or -1 where there is none. */
KX_DEVICE int32_t sv_slot(const sv_params &p, uint32_t request, uint64_t first, uint32_t prefix, uint32_t key) {
  if (key < prefix) return p.slots[first + key];
  if (key - prefix < (uint32_t)p.tree) return p.tree_slots[(size_t)request * (uint32_t)p.queries + (key - prefix)];
  return -1;
}

#endif
