/* split_parts.h - parts of split_verify's main kernel that do not depend on the size of a tile: a segment of the list, rows into
 * shared memory, accumulators. Included by .cu files. Addresses are of shared memory.
 *
 * A row is 1152 bytes: 9 lines of 128, whose chunk c of 16 bytes lies at c ^ (row % 8), so that 8 rows of a column
 * spread over the banks. Q lies in the same way.
 */
#ifndef KVK_SPLIT_PARTS_H
#define KVK_SPLIT_PARTS_H

#include "attn_split.h"

enum sv_mode { SV_FULL, SV_LOAD_ONLY, SV_MMA_ONLY };

static const uint32_t PITCH = KVK_ROW_BYTES, STAGE = KVK_TILE * PITCH;
/* The running maximum of a query row is raised only when a logit exceeds it by 2^8: weights stay far inside bf16's range. */
static const float HEADROOM = 8.0f;

struct sv_segment {
  uint32_t request, group, first_tile, tiles, partial, prefix;
  uint64_t first; /* of the request's slots */
};

struct sv_thread {
  uint32_t smem, lane, warp;
};

/* One warp finds the segment at list position `at` and leaves it in 8 words. */
KX_DEVICE void sv_find_segment(const sv_params &p, const sv_list &list, uint32_t lane, uint32_t at, uint32_t end, uint32_t words) {
  const sv_place x = sv_locate(p, list, at, lane);
  const uint32_t run = x.units - x.unit < end - at ? x.units - x.unit : end - at;
  const uint32_t left = x.tiles - x.unit * p.fixed_tiles, group = p.aligned ? kx_block() : x.group;
  const uint64_t first = p.indptr[x.request];
  const uint32_t word[8] = {x.request, group, p.fixed_tiles ? x.unit * p.fixed_tiles : x.unit,
                            !p.fixed_tiles ? run : left < p.fixed_tiles ? left : p.fixed_tiles,
                            p.fixed_tiles ? at : sv_partial(p, sv_worker(p), x.request, group), sv_prefix(p, x.request),
                            (uint32_t)first, (uint32_t)(first >> 32)};
  uint32_t mine = word[0];
#pragma unroll
  for (uint32_t i = 1; i < 8; i++) mine = lane == i ? word[i] : mine;
  if (lane < 8) kx_sts(words + 4 * lane, mine);
}

KX_DEVICE sv_segment sv_read_segment(uint32_t words) {
  const kx_u4 a = kx_lds_u4(words), b = kx_lds_u4(words + 16);
  sv_segment s = {a.x, a.y, a.z, a.w, b.x, b.y, (uint64_t)b.w << 32 | b.z};
  return s;
}

/* The only segment of a block, with p.one: of a request whose slots begin at `first`. */
template <int H>
KX_DEVICE sv_segment sv_only_segment(const sv_params &p, uint64_t first, uint32_t prefix) {
  const uint32_t tiles = (prefix + (uint32_t)p.tree + H * KVK_TILE - 1) / (H * KVK_TILE), share = sv_only_share(p, tiles);
  const uint32_t at = kx_block_y() * share, left = at < tiles ? tiles - at : 0;
  const sv_segment s = {0, kx_block(), at, left < share ? left : share, sv_partial(p, kx_block_y(), 0, kx_block()), prefix, first};
  return s;
}

/* What a block walks: list positions, and by how many it goes on (0: by the segment's tiles). */
struct sv_walk_of {
  uint32_t at, end, step;
};

KX_DEVICE sv_walk_of sv_walk_list(const sv_params &p, const sv_list &list) {
  const uint32_t worker = sv_worker(p), length = (p.aligned ? 1 : (uint32_t)p.cut.groups) * list.total;
  sv_walk_of w = {p.fixed_tiles ? worker : worker * list.share, length, p.fixed_tiles ? p.blocks : 0};
  if (!p.fixed_tiles && length >= w.at + list.share) w.end = w.at + list.share;
  return w;
}

/* --- rows into shared memory --- */

/* Row `row` of a tile or of Q to `to`: 9 lines of 128 bytes, 8 lanes each. Without a row zeros, so that nothing unwanted meets a
 * weight of 0. Each line lands on one line of shared memory: at 1168 bytes from row to row, which spreads banks too, an H200's
 * copies were 3 to 4 times as slow. */
KX_DEVICE void sv_copy_row(uint32_t lane, uint32_t to, uint32_t row, const unsigned char *from, bool real) {
  const uint32_t chunk = lane & 7, its = to + 16 * (chunk ^ (row & 7));
#pragma unroll
  for (int line = 0; line < 9; line++) kx_copy16(its + (uint32_t)line * 128, from + 16 * chunk + line * 128, real);
}

/* Tiles of zeros, by 128 threads: products without copies. */
KX_DEVICE void sv_zero_tiles(uint32_t tiles, uint32_t bytes, uint32_t thread) {
  const kx_u4 zero = {0, 0, 0, 0};
  for (uint32_t at = 16 * thread; at < bytes; at += 16 * 128) kx_sts(tiles + at, zero);
}

/* --- value warps --- */

template <int NT>
struct sv_values {
  float o[8][NT][4]; /* O^T: 16 m + g (+ 8) of the warp's 128 columns; query rows 8 j + 2t, + 1 */
};

/* Unit j's accumulators times the factors of its rows. */
template <int NT>
KX_DEVICE void sv_scale_unit(sv_values<NT> &v, int j, kx_f2 f) {
#pragma unroll
  for (int m = 0; m < 8; m++) {
    v.o[m][j][0] *= f.x;
    v.o[m][j][1] *= f.y;
    v.o[m][j][2] *= f.x;
    v.o[m][j][3] *= f.y;
  }
}

/* Divides by the sums (`inverse`, [rows]) and leaves the partial result as it lies in the registers. Unit j of 8 query rows:
 * 512 pieces of 16 bytes, piece 128 value_warp + 32 n + lane; its words hold rows 2t (low half) and 2t + 1 of columns
 * 128 value_warp + 32 n + g, + 8, + 16, + 24. */
template <int NT>
KX_DEVICE void sv_leave_values(const sv_params &p, const sv_segment &seg, uint32_t lane, const sv_values<NT> &v, uint32_t value_warp,
                               uint32_t inverse_at) {
  kx_u4 *to = (kx_u4 *)p.part_out + (uint64_t)seg.partial * NT * 512 + 128 * value_warp + lane;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const kx_f2 inverse = kx_lds_f2(inverse_at + 32 * (uint32_t)j + 8 * (lane & 3));
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const float *low = v.o[2 * n][j], *high = v.o[2 * n + 1][j];
      const kx_u4 piece = {kx_pack_bf16(low[0] * inverse.x, low[1] * inverse.y), kx_pack_bf16(low[2] * inverse.x, low[3] * inverse.y),
                           kx_pack_bf16(high[0] * inverse.x, high[1] * inverse.y), kx_pack_bf16(high[2] * inverse.x, high[3] * inverse.y)};
      kx_store16(to + 512 * j + 32 * n, piece);
    }
  }
}

#endif
