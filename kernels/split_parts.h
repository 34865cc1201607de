/* split_parts.h - parts of split_verify's main kernel that both kinds of warps share: shared memory, a segment of the list, rows into
 * it, accumulators. Included by .cu files. Addresses are of shared memory.
 *
 * A row is 1152 bytes: 9 lines of 128, whose chunk c of 16 bytes lies at c ^ (row % 8), so that 8 rows of a column
 * spread over the banks. Q lies in the same way.
 */
#ifndef KVK_SPLIT_PARTS_H
#define KVK_SPLIT_PARTS_H

#include "attn_split.h"

enum sv_mode { SV_FULL, SV_LOAD_ONLY, SV_MMA_ONLY };

static const uint32_t PITCH = KVK_ROW_BYTES, STAGE = KVK_TILE * PITCH;
/* The running maximum of a query row is raised only when weights of a lane sum up to more: they stay far inside bf16's range. */
static const float HEADROOM = 256.0f;

template <int NT, int H>
struct sv_smem { /* byte offsets */
  static const int rows = 8 * NT;
  static const uint32_t stages = H == 2 ? KVK_WIDE_STAGES : KVK_STAGES, tile_bytes = H * STAGE;
  static const uint32_t q_stages = H == 2 ? 2 : 3, q_at = (stages - q_stages) * tile_bytes; /* the last ones hold Q at first */
  static const uint32_t weight_stride = 16 * NT, weight_bytes = H * KVK_TILE * weight_stride;
  static const uint32_t exchange_bytes = H * 512 * KVK_EXCHANGED((unsigned)NT);
  static const uint32_t exchange = stages * tile_bytes;          /* [2], see sv_exchange */
  static const uint32_t weights = exchange + 2 * exchange_bytes; /* [2][16 H keys][rows] bf16 */
  static const uint32_t queries = weights;                       /* [32] words, before there are weights: the nodes that a query sees */
  static const uint32_t factor = weights + 2 * weight_bytes;     /* [2][rows] */
  static const uint32_t inverse = factor + 8 * rows;             /* [rows] */
  static const uint32_t flag = inverse + 4 * rows;               /* [2][4 score warps] */
  static const uint32_t segment = flag + 32;                     /* 8 words, and the walk's place and end */
  static const uint32_t sees = segment + 48;                     /* [rows] words: which nodes of the tree a row sees */
  static const uint32_t bars = sees + 4 * rows;
  static const uint32_t full = bars, ready = full + 8 * stages, unused = ready + 16;
  static const uint32_t q_full = unused + 16, q_taken = q_full + 8, bytes = q_taken + 8;
};

/* Where chunk `chunk` < 8 of 16 bytes of a line of row `row` lies; and from there, chunk + 2 n of the row. */
KX_DEVICE uint32_t sv_chunk(uint32_t line_at, uint32_t row, uint32_t chunk) { return line_at + 16 * (chunk ^ (row & 7)); }
KX_DEVICE uint32_t sv_step(uint32_t at, uint32_t n) { return (at ^ 32 * (n & 3)) + 128 * (n >> 2); }

/* Weights of unit u of a key lie at 16 (u ^ this), so that those of 8 keys spread over the banks. */
template <int NT>
KX_DEVICE uint32_t sv_swap(uint32_t key) { return NT % 2 ? 0 : key >> 2 & 1; }

struct sv_segment {
  uint32_t request, group, first_tile, tiles, partial, prefix;
  uint64_t first; /* of the request's slots */
};

struct sv_thread {
  uint32_t smem, lane, warp;
};

/* One warp finds the segment at list position `at` and leaves it in 8 words; `at` and `end` in two more. */
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
  if (lane == 8) kx_sts(words + 32, at);
  if (lane == 9) kx_sts(words + 36, end);
}

/* What a block walks: list positions. */
struct sv_walk_of {
  uint32_t at, end;
};

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

/* The block's segment, from memory what need not stay in registers. */
template <int NT, int H, bool ONE>
KX_DEVICE sv_segment sv_again(const sv_params &p, const sv_thread &t, const sv_segment &seg) {
  if (!ONE) return sv_read_segment(t.smem + sv_smem<NT, H>::segment);
  sv_segment s = seg;
  s.first = p.indptr[0];
  return s;
}

KX_DEVICE sv_walk_of sv_walk_list(const sv_params &p, const sv_list &list) {
  const uint32_t worker = sv_worker(p), length = (p.aligned ? 1 : (uint32_t)p.cut.groups) * list.total;
  sv_walk_of w = {p.fixed_tiles ? worker : worker * list.share, length};
  if (!p.fixed_tiles && length >= w.at + list.share) w.end = w.at + list.share;
  return w;
}

/* --- rows into shared memory --- */

/* A lane's 16 bytes of each of a row's 9 lines. */
KX_DEVICE void sv_copy_lines(uint32_t to, const unsigned char *from, int32_t slot) {
#pragma unroll
  for (int line = 0; line < 9; line++) kx_copy16_of(to + (uint32_t)line * 128, from + line * 128, slot);
}

/* Row `row` of a tile or of Q to `to`: 9 lines of 128 bytes, 8 lanes each. Without a row zeros, so that nothing unwanted meets a
 * weight of 0. Each line lands on one line of shared memory: at 1168 bytes from row to row, which spreads banks too, an H200's
 * copies were 3 to 4 times as slow. */
KX_DEVICE void sv_copy_row(uint32_t lane, uint32_t to, uint32_t row, const unsigned char *from, bool real) {
  const uint32_t chunk = lane & 7, its = to + 16 * (chunk ^ (row & 7));
  sv_copy_lines(its, from + 16 * chunk, real ? 0 : -1);
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
