/* split_scores.h - the score warps of split_verify: products of Q and a tile of keys, exchange of partial scores, softmax.
 * Included by split_verify.cu.
 *
 * A score warp multiplies a quarter of the 576 columns for all units of 8 query rows; what it gets are partial scores, which
 * the four warps exchange. Unit u < 4 is finished by warp u, its whole unit. Units 4 and 5 are shared out, so that no warp has more to do than the
 * others: of 6 units a warp takes 4 of the rows of one, of 5 units 2 rows (tiles of 16: two warps take 4). Then a lane has pairs of two rows as well: see
 * sv_extra. Every instruction beside the products delays them by about a cycle, on this and on the other warp of the scheduler,
 * so addresses are constants from a few bases, logits meet their scale and maximum in one multiply-add, and whether a maximum must rise is
 * asked of sums.
 */
#ifndef KVK_SPLIT_SCORES_H
#define KVK_SPLIT_SCORES_H

#include "split_parts.h"

static const int K_STEPS = KVK_ROW_VALUES / 4 / 16; /* of one score warp: a quarter of the columns, 8 of latent and 1 of rope */
/* No logit seen yet. Finite, so that -inf - it is -inf, and below every logit that is not -inf. */
static const float LOWEST = -3.402823466e38f;

/* A warp's pairs of query rows 2 r, 2 r + 1 of unit `unit`, keys 8 block + g of the tile: PAIRS of them, of blocks that follow one another. */
template <int NT, int H>
struct sv_extra {
  static const int UNITS = NT > 4 ? NT - 4 : 0;                            /* that are shared out */
  static const int PAIRS = UNITS == 0 ? 0 : UNITS * H == 4 ? 2 : 1;        /* of a lane */
  static const bool ALL_LANES = UNITS == 1 && H == 2;                      /* hold the same two rows; else lanes with the same t & 1 */
  static const bool IDLE = UNITS == 1 && H == 1;                           /* warps 2 and 3 have none */
  uint32_t unit, pair, block;
};

template <int NT, int H>
KX_DEVICE sv_extra<NT, H> sv_extra_of(uint32_t quarter, uint32_t lane) {
  typedef sv_extra<NT, H> X;
  const uint32_t t = lane & 3;
  X x = {NT == 6 ? 4 + (quarter >> 1) : 4, 2 * (quarter & 1) + (t & 1), H * (t >> 1)};
  if (X::ALL_LANES) x.pair = quarter, x.block = t;
  return x;
}

/* A score warp sees the units in its own order: its whole unit first, the j-th of the first four is quarter ^ j; register arrays need
 * constant indices. Of fewer than 4 units the j-th is (quarter + j) % NT. */
template <int NT, int H>
struct sv_scores {
  uint32_t q[K_STEPS][NT][2];
  float sum[4], top[4]; /* of query rows 2t and 2t + 1 of the whole unit, of the extra pair; top on the scale of base-2 logarithms */
  uint32_t quarter;
  uint32_t latent, rope;                          /* where this lane's rows of the warp's columns lie in a tile */
  uint32_t send, send_extra, take[3], take_extra; /* in the exchange: to others, and from the n-th other */
  uint32_t put, put_extra;                        /* weights */
  uint32_t plain;                                 /* tiles that all rows see */
  int32_t shift;                                  /* see sv_shift */
};

template <int NT>
KX_DEVICE uint32_t sv_unit(uint32_t quarter, int j) { return NT < 4 ? (quarter + (uint32_t)j) % NT : j < 4 ? quarter ^ (uint32_t)j : (uint32_t)j; }

template <int NT>
KX_DEVICE bool sv_has_whole(uint32_t quarter) { return NT >= 4 || quarter < NT; }

/* The exchange: [2][half of a tile][sender] 3 units for the other warps' whole ones, then the extra units; each [lane] 16 bytes. With fewer than 4 units
 * [2][half][unit][3 senders]. Lanes of an extra unit stand in another order, or those with the same rows would meet in a bank. */
template <int NT, int H>
struct sv_exchange {
  static const uint32_t sender = NT < 4 ? 0 : 512 * (NT - 1), half = 512 * KVK_EXCHANGED((unsigned)NT);
};

KX_DEVICE uint32_t sv_extra_lane(uint32_t g, uint32_t pair) { return 16 * (4 * g + (pair ^ (g & 2) ^ (g >> 2))); }

KX_DEVICE uint32_t sv_few_at(uint32_t unit, uint32_t sender) {
  return (3 * unit + ((sender - unit - 1) & 3)) * 512; /* the owner itself sends nothing */
}

template <int NT, int H>
KX_DEVICE void sv_place_exchange(const sv_thread &t, sv_scores<NT, H> &w) {
  const uint32_t at = t.smem + sv_smem<NT, H>::exchange, own = at + w.quarter * sv_exchange<NT, H>::sender;
  const sv_extra<NT, H> x = sv_extra_of<NT, H>(w.quarter, t.lane);
  w.send = kx_keep(own + 16 * t.lane);
#pragma unroll
  for (uint32_t n = 1; n < 4; n++)
    w.take[n - 1] = kx_keep(at + 16 * t.lane + (NT < 4 ? sv_few_at(w.quarter, w.quarter + n) : (w.quarter ^ n) * sv_exchange<NT, H>::sender + 512 * (n - 1)));
  w.send_extra = kx_keep(own + 3 * 512 + sv_extra_lane(t.lane / 4, t.lane & 3));
  w.take_extra = kx_keep(at + 3 * 512 + 512 * (x.unit - 4) + (sv_extra_lane(t.lane / 4, x.pair) ^ 32 * (x.block >> 1)) + 8 * (x.block & 1) +
                 (x.block >> 1) * sv_exchange<NT, H>::half);
  const uint32_t to = t.smem + sv_smem<NT, H>::weights, stride = sv_smem<NT, H>::weight_stride, g = t.lane / 4;
  w.put = kx_keep(H == 2 ? to + t.lane * stride + 16 * (w.quarter ^ sv_swap<NT>(t.lane)) : to + g * stride + 16 * (w.quarter ^ sv_swap<NT>(g)) + 4 * (t.lane & 3));
  w.put_extra = kx_keep(to + (8 * x.block + g) * stride + 16 * (x.unit ^ sv_swap<NT>(g)) + 4 * x.pair);
}

template <int NT, int H>
KX_DEVICE void sv_take_q(const sv_thread &t, uint32_t q_at, sv_scores<NT, H> &w) {
  const uint32_t base = q_at + (t.lane & 7) * PITCH, high = t.lane >> 3, turn = t.lane & 7;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const uint32_t row = base + 8 * sv_unit<NT>(w.quarter, j) * PITCH;
    uint32_t r[4];
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
      kx_ldmatrix4(r, row + 256 * w.quarter + 128 * (uint32_t)(k >> 2) + 16 * ((2 * (uint32_t)(k & 3) + high) ^ turn));
      w.q[k][j][0] = r[0];
      w.q[k][j][1] = r[1];
      w.q[k + 1][j][0] = r[2];
      w.q[k + 1][j][1] = r[3];
    }
    kx_ldmatrix4(r, row + 1024 + 16 * ((2 * w.quarter + (high & 1)) ^ turn)); /* half of it is not needed */
    w.q[8][j][0] = r[0];
    w.q[8][j][1] = r[1];
  }
}

/* Where this lane's row of its columns lies in a tile. */
template <int NT, int H>
KX_DEVICE void sv_place_keys(const sv_thread &t, sv_scores<NT, H> &w) {
  const uint32_t row = t.lane & 15, at = row * PITCH, high = t.lane >> 4;
  w.latent = kx_keep(sv_chunk(at + 256 * w.quarter, row, high));
  w.rope = kx_keep(sv_chunk(at + 1024, row, 2 * w.quarter + high));
}

/* This warp's columns of a tile of keys, steps FROM to TO - 1. */
template <int NT, int H, int FROM, int TO>
KX_DEVICE void sv_load_keys(const sv_scores<NT, H> &w, uint32_t tile, uint32_t a[K_STEPS][H][4]) {
#pragma unroll
  for (int k = FROM; k < TO; k++)
#pragma unroll
    for (int h = 0; h < H; h++)
      kx_ldmatrix4(a[k][h], (k < 8 ? sv_step(tile + w.latent, (uint32_t)k) : tile + w.rope) + (uint32_t)h * STAGE);
}

template <int NT, int H, int FROM, int TO>
KX_DEVICE void sv_multiply_q(const sv_scores<NT, H> &w, const uint32_t a[K_STEPS][H][4], float s[H][NT][4]) {
#pragma unroll
  for (int k = FROM; k < TO; k++)
#pragma unroll
    for (int h = 0; h < H; h++)
#pragma unroll
      for (int j = 0; j < NT; j++) kx_mma(s[h][j], a[k][h], w.q[k][j][0], w.q[k][j][1]);
}

template <int NT, int H>
KX_DEVICE void sv_zero_scores(float s[H][NT][4]) {
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int j = 0; j < NT; j++) s[h][j][0] = s[h][j][1] = s[h][j][2] = s[h][j][3] = 0;
}

/* A warp's own sums of partial scores: of its whole unit as mma leaves them; [key][row] of its pairs. */
template <int NT, int H>
struct sv_logits {
  float whole[H][4], extra[2][2];
};

/* Partial scores of the rows that other warps finish. Those of extra units go to all. `at`: which of the two buffers. */
template <int NT, int H>
KX_DEVICE void sv_send(const sv_scores<NT, H> &w, uint32_t at, const float s[H][NT][4]) {
  typedef sv_exchange<NT, H> E;
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int j = 0; j < NT; j++) {
      const kx_f4 v = {s[h][j][0], s[h][j][1], s[h][j][2], s[h][j][3]};
      if (NT < 4) {
        if (j || !sv_has_whole<NT>(w.quarter)) kx_sts(at + w.send + (uint32_t)h * E::half + sv_few_at(sv_unit<NT>(w.quarter, j), w.quarter), v);
      } else if (j >= 4) {
        kx_sts(((at + w.send_extra) ^ 32 * (uint32_t)h) + (uint32_t)h * E::half + 512 * (uint32_t)(j - 4), v);
      } else if (j) {
        kx_sts(at + w.send + (uint32_t)h * E::half + 512 * (uint32_t)(j - 1), v);
      }
    }
}

/* What the n-th other warp, 1 to 3, sent for the whole unit. */
template <int NT, int H>
KX_DEVICE void sv_receive(const sv_scores<NT, H> &w, uint32_t at, uint32_t n, kx_f4 v[H]) {
  typedef sv_exchange<NT, H> E;
  const uint32_t from = at + w.take[n - 1];
#pragma unroll
  for (int h = 0; h < H; h++) {
    v[h].x = v[h].y = v[h].z = v[h].w = 0;
    if (sv_has_whole<NT>(w.quarter)) v[h] = kx_lds_f4(from + (uint32_t)h * E::half);
  }
}

template <int NT, int H>
KX_DEVICE void sv_add(sv_logits<NT, H> &x, const kx_f4 v[H]) {
#pragma unroll
  for (int h = 0; h < H; h++) {
    x.whole[h][0] += v[h].x;
    x.whole[h][1] += v[h].y;
    x.whole[h][2] += v[h].z;
    x.whole[h][3] += v[h].w;
  }
}

/* What all four sent for the extra rows, `from` to `to` - 1 of them. */
template <int NT, int H, int FROM, int TO>
KX_DEVICE void sv_receive_extra(const sv_scores<NT, H> &w, uint32_t at, kx_f4 v[4]) {
  typedef sv_extra<NT, H> X;
#pragma unroll
  for (int n = FROM; n < TO; n++) {
    const uint32_t from = at + w.take_extra + (uint32_t)n * sv_exchange<NT, H>::sender;
    if (X::PAIRS == 2) v[n] = kx_lds_f4(from);
    if (X::PAIRS == 1) {
      const kx_f2 one = kx_lds_f2(from);
      v[n].x = one.x;
      v[n].y = one.y;
    }
  }
}

template <int NT, int H>
KX_DEVICE void sv_sum_extra(sv_logits<NT, H> &x, const kx_f4 v[4]) {
  typedef sv_extra<NT, H> X;
  if (X::PAIRS >= 1) {
    x.extra[0][0] = (v[0].x + v[1].x) + (v[2].x + v[3].x);
    x.extra[0][1] = (v[0].y + v[1].y) + (v[2].y + v[3].y);
  }
  if (X::PAIRS == 2) {
    x.extra[1][0] = (v[0].z + v[1].z) + (v[2].z + v[3].z);
    x.extra[1][1] = (v[0].w + v[1].w) + (v[2].w + v[3].w);
  }
}

/* For a segment with tree nodes: which of them the group's rows see, looked up while Q is on its way. The score warps share out
 * the group's queries, a lane a node; then a lane looks up the query of its row. Rows that the group does not have see all. */
template <int NT, int H>
KX_DEVICE void sv_look_up_tree(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t quarter) {
  typedef sv_smem<NT, H> L;
  const uint32_t heads = (uint32_t)p.heads, from = seg.group * (uint32_t)p.cut.group_stride, step = (uint32_t)p.cut.row_stride;
  const uint32_t rows = (uint32_t)p.cut.rows, first = from / heads, most = (uint32_t)p.queries - first;
  const uint32_t reach = (from + ((uint32_t)p.cut.group_rows - 1) * step) / heads - first + 1, count = reach < most ? reach : most;
  const bool there = sv_has_node(p, seg.request, t.lane);
#pragma unroll 2
  for (uint32_t i = quarter; i < count; i += 4) {
    const uint32_t word = kx_ballot(there && sv_sees_node(p, seg.request, seg.prefix, first + i, t.lane));
    if (t.lane == 0) kx_sts(t.smem + L::queries + 4 * i, word);
  }
  kx_bar_sync(1, 128);
  const uint32_t column = 32 * quarter + t.lane, row = from + column * step;
  if (column >= L::rows) return;
  const bool real = column < (uint32_t)p.cut.group_rows && row < rows;
  kx_sts(t.smem + L::sees + 4 * column, real ? kx_lds_u32(t.smem + L::queries + 4 * (row / heads - first)) : ~0u);
}

/* Tiles with tree nodes or past the end: what a query does not see becomes -inf once it is multiplied with the scale. Keys past the tree nobody sees. */
template <int NT, int H>
KX_DEVICE void sv_hide(const sv_params &p, const sv_thread &t, uint32_t quarter, int32_t first, sv_logits<NT, H> &x) {
  typedef sv_extra<NT, H> X;
  const float hidden = p.scale_log2 < 0 ? kx_inf() : -kx_inf();
  const int32_t node = first + (int32_t)(t.lane / 4);
  const uint32_t at = t.smem + sv_smem<NT, H>::sees;
  if (sv_has_whole<NT>(quarter)) {
    const uint32_t its = at + 32 * quarter + 8 * (t.lane & 3), sees[2] = {kx_lds_u32(its), kx_lds_u32(its + 4)};
#pragma unroll
    for (int e = 0; e < 4 * H; e++) {
      const int32_t key = node + 8 * (e / 2);
      if (key >= 0 && (key >= p.tree || !(sees[e & 1] >> key & 1))) x.whole[e / 4][e % 4] = hidden;
    }
  }
  if (X::PAIRS) {
    const X mine = sv_extra_of<NT, H>(quarter, t.lane);
    const uint32_t its = at + 32 * mine.unit + 8 * mine.pair, sees[2] = {kx_lds_u32(its), kx_lds_u32(its + 4)};
#pragma unroll
    for (int e = 0; e < 2 * X::PAIRS; e++) {
      const int32_t key = node + 8 * (int32_t)(mine.block + (uint32_t)e / 2);
      if (key >= 0 && (key >= p.tree || !(sees[e & 1] >> key & 1))) x.extra[e / 2][e % 2] = hidden;
    }
  }
}

/* Softmax weights of a tile and their sums: of rows 2t, 2t + 1 of the whole unit, and of the extra pair. */
template <int NT, int H>
struct sv_weights {
  float whole[H][4], extra[2][2], sum[4];
};

/* 2^(logit - maximum). ROUNDED: as the maximum was rounded, so that the largest logit weighs 1 however large it is; else in one
 * instruction, which above 2^30 may be off by more than a weight can hold: a tile with such a weight is weighed anew, see sv_over. */
template <bool ROUNDED>
KX_DEVICE float sv_weight(float x, float scale, float top) { return kx_exp2(ROUNDED ? kx_mul(x, scale) - top : kx_fma(x, scale, -top)); }

template <bool ROUNDED, int NT, int H>
KX_DEVICE void sv_weigh(float scale, const sv_scores<NT, H> &w, const sv_logits<NT, H> &x, sv_weights<NT, H> &e) {
  typedef sv_extra<NT, H> X;
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int c = 0; c < 4; c++) e.whole[h][c] = sv_weight<ROUNDED>(x.whole[h][c], scale, w.top[c & 1]);
#pragma unroll
  for (int c = 0; c < 2; c++) {
    e.sum[c] = e.whole[0][c] + e.whole[0][c + 2];
    if (H == 2) e.sum[c] += e.whole[H - 1][c] + e.whole[H - 1][c + 2];
#pragma unroll
    for (int i = 0; i < X::PAIRS; i++) e.extra[i][c] = sv_weight<ROUNDED>(x.extra[i][c], scale, w.top[2 + c]);
    e.sum[2 + c] = X::PAIRS == 0 ? 0 : X::PAIRS == 1 ? e.extra[0][c] : e.extra[0][c] + e.extra[1][c];
  }
}

/* Whether a weight of this tile is so large that a maximum must rise; for the whole warp. A sum says it for all of its weights. */
template <int NT, int H>
KX_DEVICE bool sv_over(const sv_weights<NT, H> &e) {
  bool over = (e.sum[0] > HEADROOM) | (e.sum[1] > HEADROOM);
  if (sv_extra<NT, H>::PAIRS) over |= (e.sum[2] > HEADROOM) | (e.sum[3] > HEADROOM);
  return kx_any(over);
}

/* The largest of x and what the lanes hold that have the same query rows. */
template <bool FROM_PAIRS, bool ALL>
KX_DEVICE float sv_most(float x) {
  if (ALL) x = kx_max(x, kx_shfl_xor(x, 1));
  if (FROM_PAIRS) x = kx_max(x, kx_shfl_xor(x, 2));
  for (int d = 4; d < 32; d *= 2) x = kx_max(x, kx_shfl_xor(x, d));
  return x;
}
template <bool FROM_PAIRS, bool ALL>
KX_DEVICE float sv_total(float x) {
  if (ALL) x += kx_shfl_xor(x, 1);
  if (FROM_PAIRS) x += kx_shfl_xor(x, 2);
  for (int d = 4; d < 32; d *= 2) x += kx_shfl_xor(x, d);
  return x;
}

/* Whether this warp has extra rows, and whether this lane speaks for its pair of them. */
template <int NT, int H>
KX_DEVICE bool sv_has_extra(uint32_t quarter) { return sv_extra<NT, H>::PAIRS && (!sv_extra<NT, H>::IDLE || quarter < 2); }
template <int NT, int H>
KX_DEVICE bool sv_speaks(const sv_thread &t, uint32_t quarter) {
  return sv_has_extra<NT, H>(quarter) && t.lane < (sv_extra<NT, H>::ALL_LANES ? 1 : 2);
}

/* Raises the maximum of rows to this tile's, leaves the factors by which older sums shrink. */
template <int NT, int H>
KX_DEVICE void sv_raise(float scale, const sv_thread &t, sv_scores<NT, H> &w, uint32_t i, const sv_logits<NT, H> &x) {
  typedef sv_smem<NT, H> L;
  typedef sv_extra<NT, H> X;
  float f[4];
#pragma unroll
  for (int r = 0; r < (X::PAIRS ? 4 : 2); r++) {
    const int c = r & 1;
    float most = r < 2 ? kx_max(kx_mul(x.whole[0][c], scale), kx_mul(x.whole[0][c + 2], scale)) : kx_mul(x.extra[0][c], scale);
    if (r < 2 && H == 2) most = kx_max(most, kx_max(kx_mul(x.whole[H - 1][c], scale), kx_mul(x.whole[H - 1][c + 2], scale)));
    if (r >= 2 && X::PAIRS == 2) most = kx_max(most, kx_mul(x.extra[1][c], scale));
    most = r < 2 ? sv_most<false, false>(most) : sv_most<true, X::ALL_LANES>(most);
    most = kx_max(most, w.top[r]);
    f[r] = most == w.top[r] ? 1.0f : kx_exp2(w.top[r] - most);
    w.top[r] = most;
    w.sum[r] *= f[r];
  }
  const uint32_t at = t.smem + L::factor + (i & 1) * 4 * L::rows;
  const kx_f2 whole = {f[0], f[1]};
  if (t.lane < 4 && sv_has_whole<NT>(w.quarter)) kx_sts(at + 32 * w.quarter + 8 * t.lane, whole);
  if (X::PAIRS && sv_speaks<NT, H>(t, w.quarter)) {
    const X mine = sv_extra_of<NT, H>(w.quarter, t.lane);
    const kx_f2 extra = {f[2], f[3]};
    kx_sts(at + 32 * mine.unit + 8 * mine.pair, extra);
  }
}

/* Weights to shared memory, [16 H keys][8 NT rows] bf16. Of an even number of units a key's chunks of 16 bytes change places,
 * or 8 keys would meet in a bank: sv_swap. */
template <int NT, int H>
KX_DEVICE void sv_put_weights(const sv_scores<NT, H> &w, uint32_t i, const sv_weights<NT, H> &e) {
  typedef sv_smem<NT, H> L;
  typedef sv_extra<NT, H> X;
  const uint32_t to = (i & 1) * L::weight_bytes;
  const uint32_t r[4] = {kx_pack_bf16(e.whole[0][0], e.whole[0][1]), kx_pack_bf16(e.whole[0][2], e.whole[0][3]),
                         kx_pack_bf16(e.whole[H - 1][0], e.whole[H - 1][1]), kx_pack_bf16(e.whole[H - 1][2], e.whole[H - 1][3])};
  if (sv_has_whole<NT>(w.quarter)) {
    if (H == 2) {
      kx_stmatrix4(to + w.put, r);
    } else {
      kx_sts(to + w.put, r[0]);
      kx_sts(to + w.put + 8 * L::weight_stride, r[1]);
    }
  }
#pragma unroll
  for (int n = 0; n < X::PAIRS; n++)
    if (sv_has_extra<NT, H>(w.quarter)) kx_sts(to + w.put_extra + 8 * (uint32_t)n * L::weight_stride, kx_pack_bf16(e.extra[n][0], e.extra[n][1]));
}

/* 1 / sum of a pair of rows for the value warps, their logarithms for the merge. */
template <int NT, int H>
KX_DEVICE void sv_leave_pair(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t row, const float *sum, const float *top) {
  typedef sv_smem<NT, H> L;
  const kx_f2 inverse = {sum[0] == 0 ? 0.0f : kx_reciprocal(sum[0]), sum[1] == 0 ? 0.0f : kx_reciprocal(sum[1])};
  const kx_f2 lse = {top[0] + kx_log2(sum[0]), top[1] + kx_log2(sum[1])};
  kx_sts(t.smem + L::inverse + 4 * row, inverse);
  kx_store8(p.part_lse + (uint64_t)seg.partial * L::rows + row, lse);
}

/* At the end of a segment. */
template <int NT, int H>
KX_DEVICE void sv_leave_sums(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT, H> &w) {
  typedef sv_extra<NT, H> X;
#pragma unroll
  for (int r = 0; r < 2; r++) {
    w.sum[r] = sv_total<false, false>(w.sum[r]);
    if (X::PAIRS) w.sum[2 + r] = sv_total<true, X::ALL_LANES>(w.sum[2 + r]);
  }
  if (t.lane < 4 && sv_has_whole<NT>(w.quarter)) sv_leave_pair<NT, H>(p, t, seg, 8 * w.quarter + 2 * t.lane, w.sum, w.top);
  if (X::PAIRS && sv_speaks<NT, H>(t, w.quarter)) {
    const X mine = sv_extra_of<NT, H>(w.quarter, t.lane);
    sv_leave_pair<NT, H>(p, t, seg, 8 * mine.unit + 2 * mine.pair, w.sum + 2, w.top + 2);
  }
}

/* Which of the 9 steps of products stand where between the steps of the softmax, steps 0 to A - 1, A to B - 1, ...: the fastest of more
 * than a hundred programs on an H200, tiles of 32 (of which others spill with a list of segments). */
template <int NT, int H, bool ONE>
struct sv_order {
  static const bool SIX = NT == 6 && ONE, LIST = NT == 6 && !ONE;
  static const int A = H == 1 ? 4 : LIST ? 1 : 2, B = H == 1 ? 4 : SIX ? 5 : LIST ? 3 : 4;
  static const int C = H == 1 ? 4 : SIX ? 6 : 5, D = H == 1 ? 9 : LIST ? 5 : 6;
};

/* Where the tile after next lies, if there is one; `full`, `lap`: its barrier. */
struct sv_after {
  bool more;
  uint32_t tile, full, lap;
};

/* How far key 0 of the segment's tile 0 lies past the prefix. */
template <int NT, int H, bool ONE>
KX_DEVICE int32_t sv_shift(const sv_thread &t, const sv_scores<NT, H> &w) {
  if (ONE) return w.shift;
  const sv_segment seg = sv_read_segment(t.smem + sv_smem<NT, H>::segment);
  return (int32_t)(seg.first_tile * H * KVK_TILE - seg.prefix);
}

/* One tile: s holds this warp's partial scores of tile i and, on return, those of the tile at `next`, unless it is the LAST; `keys` the
 * first of its keys and, on return, those of the tile after. The products of the next tile fill the time in which this one's scores travel. */
template <int NT, int H, bool ONE, bool LAST>
KX_DEVICE void sv_score_tile(const sv_params &p, const sv_thread &t, sv_scores<NT, H> &w, uint32_t i, uint32_t next, const sv_after &after,
                             float s[H][NT][4], uint32_t keys[K_STEPS][H][4]) {
  typedef sv_smem<NT, H> L;
  typedef sv_order<NT, H, ONE> O;
  const uint32_t unused = t.smem + L::unused + 8 * (i & 1), at = (i & 1) * L::exchange_bytes;
  uint32_t a[K_STEPS][H][4];
  kx_f4 v[H], u[H], extra[4];
  sv_logits<NT, H> x;
  sv_weights<NT, H> e;
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int c = 0; c < 4; c++) x.whole[h][c] = s[h][0][c];
  sv_send<NT, H>(w, at, s);
  kx_bar_sync(1, 128);
  /* asked early, for an answer takes some 40 cycles */
  const bool free = i < 2 || kx_mbar_test(unused, (i / 2 - 1) & 1);
  const bool there = after.more && kx_mbar_test(after.full, after.lap);
  sv_receive<NT, H>(w, at, 1, v);
  sv_receive<NT, H>(w, at, 2, u);
  sv_receive_extra<NT, H, 0, 2>(w, at, extra);
  if (!LAST) sv_zero_scores<NT, H>(s);
  if (!LAST) sv_multiply_q<NT, H, 0, O::A>(w, keys, s);
  if (!LAST) sv_load_keys<NT, H, O::A, O::B>(w, next, a);
  sv_add<NT, H>(x, v);
  sv_add<NT, H>(x, u);
  sv_receive<NT, H>(w, at, 3, v);
  sv_receive_extra<NT, H, 2, 4>(w, at, extra);
  if (!LAST) sv_multiply_q<NT, H, O::A, O::B>(w, a, s);
  if (!LAST) sv_load_keys<NT, H, O::B, O::C>(w, next, a);
  sv_add<NT, H>(x, v);
  sv_sum_extra<NT, H>(x, extra);
  if (KX_RARE(i >= w.plain))
    sv_hide<NT, H>(p, t, w.quarter, sv_shift<NT, H, ONE>(t, w) + (int32_t)(i * H * KVK_TILE), x);
  if (!LAST) sv_multiply_q<NT, H, O::B, O::C>(w, a, s);
  if (!LAST) sv_load_keys<NT, H, O::C, O::D>(w, next, a);
  sv_weigh<false, NT, H>(p.scale_log2, w, x, e);
  const bool over = sv_over<NT, H>(e);
  if (KX_RARE(!free))
    kx_mbar_wait(unused, (i / 2 - 1) & 1);
  if (KX_RARE(over)) {
    sv_raise<NT, H>(p.scale_log2, t, w, i, x);
    sv_weigh<true, NT, H>(p.scale_log2, w, x, e);
  }
  if (!LAST) sv_multiply_q<NT, H, O::C, O::D>(w, a, s);
  if (!LAST) sv_load_keys<NT, H, O::D, K_STEPS>(w, next, a);
  if (t.lane == 0) kx_sts(t.smem + L::flag + 16 * (i & 1) + 4 * w.quarter, (uint32_t)over);
#pragma unroll
  for (int r = 0; r < 4; r++) w.sum[r] += e.sum[r];
  sv_put_weights<NT, H>(w, i, e);
  kx_mbar_arrive(t.smem + L::ready + 8 * (i & 1));
  if (!LAST && after.more) { /* its keys come while the last products run; both ways have these, which was 4 % faster than one for both */
    uint32_t first[K_STEPS][H][4];
    if (KX_RARE(!there))
      kx_mbar_wait(after.full, after.lap);
    sv_load_keys<NT, H, 0, O::A>(w, after.tile, first);
    sv_multiply_q<NT, H, O::D, K_STEPS>(w, a, s);
#pragma unroll
    for (int e = 0; e < O::A * H * 4; e++) keys[e / (4 * H)][e / 4 % H][e % 4] = first[e / (4 * H)][e / 4 % H][e % 4];
  } else if (!LAST) {
    sv_multiply_q<NT, H, O::D, K_STEPS>(w, a, s);
  }
}

/* Load-only: nothing is done with a tile. */
template <int NT, int H>
KX_DEVICE void sv_pass_tile(const sv_thread &t, uint32_t i) {
  typedef sv_smem<NT, H> L;
  if (i >= 2) kx_mbar_wait(t.smem + L::unused + 8 * (i & 1), (i / 2 - 1) & 1);
  kx_mbar_arrive(t.smem + L::ready + 8 * (i & 1));
}

template <int NT, int H>
KX_DEVICE void sv_start_scores(const sv_thread &t, uint32_t quarter, sv_scores<NT, H> &w) {
  w.quarter = quarter;
#pragma unroll
  for (int r = 0; r < 4; r++) {
    const bool has = r < 2 ? sv_has_whole<NT>(quarter) : sv_has_extra<NT, H>(quarter);
    w.sum[r] = 0;
    w.top[r] = has ? LOWEST : kx_inf(); /* rows of nobody: weights of 0, and no maximum to raise */
  }
  sv_place_exchange<NT, H>(t, w);
  sv_place_keys<NT, H>(t, w);
}

template <int NT, int H, int MODE, bool ONE>
KX_DEVICE void sv_score_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t quarter) {
  typedef sv_smem<NT, H> L;
  sv_scores<NT, H> w;
  float s[H][NT][4];
  sv_start_scores<NT, H>(t, quarter, w);
  const uint32_t tiles = seg.prefix / (H * KVK_TILE);
  w.plain = tiles > seg.first_tile ? tiles - seg.first_tile : 0;
  w.shift = (int32_t)(seg.first_tile * H * KVK_TILE - seg.prefix);
  if ((seg.first_tile + seg.tiles) * H * KVK_TILE > seg.prefix) sv_look_up_tree<NT, H>(p, t, seg, quarter);
  kx_mbar_wait(t.smem + L::q_full, 0);
  sv_take_q<NT, H>(t, t.smem + L::q_at, w);
  kx_mbar_arrive(t.smem + L::q_taken);
  kx_mbar_wait(t.smem + L::full, 0);
  if (MODE != SV_LOAD_ONLY) {
    uint32_t a[K_STEPS][H][4];
    sv_zero_scores<NT, H>(s);
    sv_load_keys<NT, H, 0, 5>(w, t.smem, a);
    sv_multiply_q<NT, H, 0, 5>(w, a, s);
    sv_load_keys<NT, H, 5, K_STEPS>(w, t.smem, a);
    sv_multiply_q<NT, H, 5, K_STEPS>(w, a, s);
  }
  uint32_t stage = 0, lap = 0, i = 0, keys[K_STEPS][H][4];
  if (MODE != SV_LOAD_ONLY && seg.tiles > 1) {
    kx_mbar_wait(t.smem + L::full + 8 * ++stage, 0);
    sv_load_keys<NT, H, 0, sv_order<NT, H, ONE>::A>(w, t.smem + L::tile_bytes, keys);
  }
#pragma unroll 1
  for (; i + 1 < seg.tiles; i++) {
    const uint32_t next = t.smem + stage * L::tile_bytes;
    if (++stage == L::stages) stage = 0, lap ^= 1;
    const sv_after after = {i + 2 < seg.tiles, t.smem + stage * L::tile_bytes, t.smem + L::full + 8 * stage, lap};
    if (MODE != SV_LOAD_ONLY) {
      sv_score_tile<NT, H, ONE, false>(p, t, w, i, next, after, s, keys);
    } else {
      kx_mbar_wait(after.full, lap);
      sv_pass_tile<NT, H>(t, i);
    }
  }
  if (MODE != SV_LOAD_ONLY) {
    const sv_after none = {false, 0, 0, 0};
    sv_score_tile<NT, H, ONE, true>(p, t, w, i, 0, none, s, keys);
  } else {
    sv_pass_tile<NT, H>(t, i);
  }
  sv_leave_sums<NT, H>(p, t, sv_again<NT, H, ONE>(p, t, seg), w);
  kx_mbar_arrive(t.smem + L::q_full); /* its second phase: the sums are there. Not q_taken's: value warps may still be on their way to its first */
}

#endif
