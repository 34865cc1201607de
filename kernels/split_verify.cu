/* split_verify: all query rows of a request share each KV row that a block fetches.
 *
 * A block of 8 warps holds up to 40 query rows and walks tiles of 16 keys. With keys and values as the m side of
 * mma.m16n8k16 (S^T = K Q^T, O^T = V^T P^T), query rows come in units of 8 and 36 rows waste only 4.
 *   - 4 score warps, two pairs: pair t % 2 takes tile t. Each warp of a pair multiplies one half of the 576 columns, its
 *     half of Q resident in registers; the halves are exchanged lane by lane, each warp finishes the columns (query
 *     rows) it owns: softmax weights to shared memory. One pair's softmax thus overlaps the other's products.
 *   - 4 value warps: each holds 128 of the 512 output columns for all query rows in registers, multiplies weights and
 *     tile, and fetches a tile five ahead (cp.async; 8 lanes a row, so one pointer a lane).
 * Shared memory: 5 tiles + 8.8 KB, <= 101,376 B; rows lie 1152 B apart, their 16-byte chunks xor-swizzled by row.
 *
 * The running maximum of a query row is raised only when a logit exceeds it by 2^8 (weights then stay far inside bf16's
 * range); tiles pass it on in order: the warp of the other pair that owns the same rows waits for it. Raised rows leave
 * a factor for the value warps' accumulators and for the other pair's sums.
 */
#include "attn_split.h"

namespace {

enum sv_mode { SV_FULL, SV_LOAD_ONLY, SV_MMA_ONLY };

const int K_STEPS = KVK_ROW_VALUES / 2 / 16; /* of one score warp: half of the columns */
const uint32_t STAGE = KVK_TILE * KVK_ROW_BYTES;
const float HEADROOM = 8.0f;
const int AHEAD = 2; /* fragments of K on their way while one is multiplied */

template <int NT>
struct sv_smem { /* byte offsets */
  static const int rows = 8 * NT, owned = (NT + 1) / 2;
  static const uint32_t weight_stride = 16 * NT, weight_bytes = KVK_TILE * weight_stride, exchange_bytes = 512 * NT;
  static const uint32_t exchange = KVK_STAGES * STAGE;
  static const uint32_t weights = exchange + 2 * exchange_bytes;
  static const uint32_t top = weights + 2 * weight_bytes;  /* running maximum [rows] */
  static const uint32_t factor = top + 4 * rows;           /* [2][rows] */
  static const uint32_t ended = factor + 8 * rows;         /* sum, maximum of each pair [2][2][rows] */
  static const uint32_t flag = ended + 16 * rows;          /* [2 pairs][2 halves] */
  static const uint32_t segment = flag + 16;               /* 8 words */
  static const uint32_t bars = segment + 32;
  static const uint32_t full = bars, empty = full + 8 * KVK_STAGES, ready = empty + 8 * KVK_STAGES, unused = ready + 16;
  static const uint32_t chain = unused + 16, q_full = chain + 32, q_taken = q_full + 8, bytes = q_taken + 8;
};

struct sv_segment {
  uint32_t request, group, first_tile, tiles, partial, prefix;
  uint64_t first; /* of the request's slots */
};

struct sv_thread {
  uint32_t smem, lane, warp;
};

/* --- segments --- */

/* Warp 0 finds the segment at list position `at` and leaves it in shared memory. */
template <int NT>
KX_DEVICE void sv_find_segment(const sv_params &p, const sv_thread &t, const sv_list &list, uint32_t at, uint32_t end) {
  const sv_place x = sv_locate(p, list, at, t.lane);
  const uint32_t run = x.units - x.unit < end - at ? x.units - x.unit : end - at;
  const uint32_t left = x.tiles - x.unit * p.fixed_tiles;
  const uint32_t groups = (uint32_t)p.cut.groups, block = kx_block(), group = list.aligned ? block % groups : x.group;
  const uint64_t first = p.indptr[x.request];
  const uint32_t word[8] = {x.request, group, p.fixed_tiles ? x.unit * p.fixed_tiles : x.unit,
                            !p.fixed_tiles ? run : left < p.fixed_tiles ? left : p.fixed_tiles,
                            p.fixed_tiles ? at : sv_partial(p, list, list.aligned ? block / groups : block, x.request, group),
                            sv_prefix(p, x.request), (uint32_t)first, (uint32_t)(first >> 32)};
#pragma unroll
  for (uint32_t i = 0; i < 8; i++)
    if (t.lane == i) kx_sts(t.smem + sv_smem<NT>::segment + 4 * i, word[i]);
}

template <int NT>
KX_DEVICE sv_segment sv_read_segment(const sv_thread &t) {
  const kx_u4 a = kx_lds_u4(t.smem + sv_smem<NT>::segment), b = kx_lds_u4(t.smem + sv_smem<NT>::segment + 16);
  sv_segment s = {a.x, a.y, a.z, a.w, b.x, b.y, (uint64_t)b.w << 32 | b.z};
  return s;
}

/* Barriers and maxima for a new segment, by warps 1 (and 4, 5), while warp 0 looks for it. */
template <int NT>
KX_DEVICE void sv_reset(const sv_thread &t) {
  typedef sv_smem<NT> L;
  const uint32_t tid = t.warp * 32 + t.lane, bar = tid - 32;
  if (bar < (L::bytes - L::bars) / 8) {
    const uint32_t at = L::bars + 8 * bar;
    const uint32_t count = at < L::empty || at == L::q_full ? 128 : at < L::ready || at == L::q_taken ? 4 : at < L::unused ? 2 : at < L::chain ? 4 : 1;
    kx_mbar_init(t.smem + at, count);
  }
  if (tid >= 128 && tid < 128 + (uint32_t)L::rows) kx_sts(t.smem + L::top + 4 * (tid - 128), -kx_inf());
}

/* --- score warps --- */

template <int NT>
struct sv_scores {
  uint32_t q[K_STEPS][NT][2]; /* tile j of the row units: unit j for half 0, unit NT - 1 - j for half 1 */
  float sum[2 * sv_smem<NT>::owned], top[2 * sv_smem<NT>::owned];
  int pair, half;
};

template <int NT>
KX_DEVICE int sv_unit(int half, int j) { return half ? NT - 1 - j : j; }

/* Units this warp finishes: the first `owned`, the middle one of an odd number only with half 0. */
template <int NT>
KX_DEVICE bool sv_mine(int half, int j) { return j < NT / 2 || (j == NT / 2 && NT % 2 && half == 0); }

/* Q lies in the last three stages, row r at r * 1152. */
template <int NT>
KX_DEVICE void sv_take_q(const sv_thread &t, sv_scores<NT> &w) {
  const uint32_t base = t.smem + 2 * STAGE, low = t.lane & 7, quarter = t.lane >> 3;
#pragma unroll
  for (int k = 0; k < K_STEPS / 2; k++)
#pragma unroll
    for (int j = 0; j < NT; j++) {
      const uint32_t row = (uint32_t)(8 * sv_unit<NT>(w.half, j)) + low;
      const uint32_t line = k < 8 ? (uint32_t)(4 * w.half + k / 2) : 8u;
      const uint32_t chunk = (k < 8 ? (uint32_t)(4 * (k & 1)) : (uint32_t)(4 * w.half)) + quarter;
      uint32_t r[4];
      kx_ldmatrix4(r, base + row * KVK_ROW_BYTES + line * 128 + ((chunk ^ low) << 4));
      w.q[2 * k][j][0] = r[0];
      w.q[2 * k][j][1] = r[1];
      w.q[2 * k + 1][j][0] = r[2];
      w.q[2 * k + 1][j][1] = r[3];
    }
}

template <int NT>
KX_DEVICE void sv_multiply_q(const sv_thread &t, const sv_scores<NT> &w, uint32_t stage, float s[NT][4]) {
  const uint32_t row = t.lane & 15, swizzle = ((t.lane >> 4) ^ (t.lane & 7)) << 4;
  const uint32_t at = t.smem + stage * STAGE + row * KVK_ROW_BYTES + swizzle;
  const uint32_t latent = at + (uint32_t)w.half * 512, rope = (at ^ ((uint32_t)w.half << 6)) + 1024;
#pragma unroll
  for (int j = 0; j < NT; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
  uint32_t a[AHEAD + 1][4];
#pragma unroll
  for (int k = -AHEAD; k < K_STEPS; k++) {
    const int next = k + AHEAD;
    if (next < 16) kx_ldmatrix4(a[next % (AHEAD + 1)], (latent ^ (uint32_t)((next & 3) << 5)) + (uint32_t)(next / 4 * 128));
    else if (next < K_STEPS) kx_ldmatrix4(a[next % (AHEAD + 1)], rope ^ (uint32_t)((next - 16) << 5));
    if (k < 0) continue;
#pragma unroll
    for (int j = 0; j < NT; j++) kx_mma(s[j], a[k % (AHEAD + 1)], w.q[k][j][0], w.q[k][j][1]);
  }
}

/* Sends the other half's units to it, adds what it sent for ours. Same lane, same layout. */
template <int NT>
KX_DEVICE void sv_exchange(const sv_thread &t, const sv_scores<NT> &w, float s[NT][4]) {
  typedef sv_smem<NT> L;
  const uint32_t at = t.smem + L::exchange + (uint32_t)w.pair * L::exchange_bytes + 16 * t.lane;
#pragma unroll
  for (int j = NT / 2; j < NT; j++)
    if (!sv_mine<NT>(w.half, j)) {
      const kx_f4 v = {s[j][0], s[j][1], s[j][2], s[j][3]};
      kx_sts(at + 512 * (uint32_t)sv_unit<NT>(w.half, j), v);
    }
  kx_bar_sync(1 + w.pair, 64);
#pragma unroll
  for (int j = 0; j < L::owned; j++)
    if (sv_mine<NT>(w.half, j)) {
      const kx_f4 v = kx_lds_f4(at + 512 * (uint32_t)sv_unit<NT>(w.half, j));
      s[j][0] += v.x;
      s[j][1] += v.y;
      s[j][2] += v.z;
      s[j][3] += v.w;
    }
}

/* Tiles with tree nodes or past the end: -inf for what a query does not see. The loop is not unrolled, it is rare. */
template <int NT>
KX_DEVICE void sv_hide(const sv_params &p, const sv_thread &t, const sv_segment &seg, const sv_scores<NT> &w,
                       uint32_t tile, float s[NT][4]) {
  uint32_t seen = 0;
#pragma unroll 1
  for (uint32_t e = 0; e < 4 * sv_smem<NT>::owned; e++) {
    const uint32_t key = tile * KVK_TILE + t.lane / 4 + (e & 2) * 4;
    const uint32_t column = (uint32_t)(8 * sv_unit<NT>(w.half, (int)(e / 4))) + 2 * (t.lane & 3) + (e & 1);
    const uint32_t row = seg.group * (uint32_t)p.cut.group_stride + column * (uint32_t)p.cut.row_stride;
    const bool used = column < (uint32_t)p.cut.group_rows;
    if (key < seg.prefix || (used && sv_sees(p, seg.request, seg.prefix, row, key))) seen |= 1u << e;
  }
#pragma unroll
  for (int j = 0; j < sv_smem<NT>::owned; j++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (!(seen >> (4 * j + i) & 1)) s[j][i] = -kx_inf();
}

/* Raises the maximum of this warp's rows to this tile's, leaves the factors by which older sums shrink. */
template <int NT>
KX_DEVICE void sv_raise(const sv_thread &t, sv_scores<NT> &w, const float s[NT][4]) {
  typedef sv_smem<NT> L;
#pragma unroll
  for (int j = 0; j < L::owned; j++)
    if (sv_mine<NT>(w.half, j)) {
      float f[2];
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float most = kx_max(s[j][i], s[j][i + 2]), old = w.top[2 * j + i];
        for (int d = 4; d < 32; d *= 2) most = kx_max(most, kx_shfl_xor(most, d));
        most = kx_max(most, old);
        f[i] = most == old ? 1.0f : kx_exp2(old - most);
        w.top[2 * j + i] = most;
        w.sum[2 * j + i] *= f[i];
      }
      if (t.lane < 4) {
        const uint32_t at = t.smem + 4 * ((uint32_t)(8 * sv_unit<NT>(w.half, j)) + 2 * t.lane);
        const kx_f2 top = {w.top[2 * j], w.top[2 * j + 1]}, factor = {f[0], f[1]};
        kx_sts(at + L::top, top);
        kx_sts(at + L::factor + (uint32_t)(w.pair * 4 * L::rows), factor);
      }
    }
}

/* Takes over the maximum as the tile before left it, and shrinks this warp's sums if that tile raised it. */
template <int NT>
KX_DEVICE void sv_take_over(const sv_thread &t, sv_scores<NT> &w) {
  typedef sv_smem<NT> L;
  const uint32_t at = t.smem + 8 * (t.lane & 3);
  const bool raised = kx_lds_u32(t.smem + L::flag + (uint32_t)(8 * (1 - w.pair) + 4 * w.half)) != 0;
#pragma unroll
  for (int j = 0; j < L::owned; j++)
    if (sv_mine<NT>(w.half, j)) {
      const uint32_t unit = 32 * (uint32_t)sv_unit<NT>(w.half, j);
      const kx_f2 top = kx_lds_f2(at + L::top + unit);
      w.top[2 * j] = top.x;
      w.top[2 * j + 1] = top.y;
      if (raised) {
        const kx_f2 f = kx_lds_f2(at + L::factor + (uint32_t)((1 - w.pair) * 4 * L::rows) + unit);
        w.sum[2 * j] *= f.x;
        w.sum[2 * j + 1] *= f.y;
      }
    }
}

template <int NT>
KX_DEVICE void sv_weigh(const sv_thread &t, sv_scores<NT> &w, const float s[NT][4]) {
  typedef sv_smem<NT> L;
  const uint32_t at = t.smem + L::weights + (uint32_t)w.pair * L::weight_bytes + (t.lane / 4) * L::weight_stride + 4 * (t.lane & 3);
#pragma unroll
  for (int j = 0; j < L::owned; j++)
    if (sv_mine<NT>(w.half, j)) {
      float e[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const float top = w.top[2 * j + (i & 1)];
        e[i] = kx_exp2(s[j][i] - (top == -kx_inf() ? 0.0f : top)); /* nothing seen yet: -inf - 0, not -inf - -inf */
      }
      w.sum[2 * j] += e[0] + e[2];
      w.sum[2 * j + 1] += e[1] + e[3];
      const uint32_t unit = at + 16 * (uint32_t)sv_unit<NT>(w.half, j);
      kx_sts(unit, kx_pack_bf16(e[0], e[1]));
      kx_sts(unit + 8 * L::weight_stride, kx_pack_bf16(e[2], e[3]));
    }
}

/* From partial products to weights in shared memory, for tile i of the segment. */
template <int NT>
KX_DEVICE void sv_soften(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT> &w, uint32_t i,
                         float s[NT][4]) {
  typedef sv_smem<NT> L;
  const uint32_t turn = i / 2, chain = t.smem + L::chain + (uint32_t)(16 * w.pair + 8 * w.half);
  const uint32_t unused = t.smem + L::unused + 8 * (uint32_t)w.pair;
  if (turn) kx_mbar_wait(t.smem + L::ready + 8 * (uint32_t)w.pair, (turn - 1) & 1); /* the other has read the last one */
  sv_exchange<NT>(t, w, s);
  const bool free = !turn || kx_mbar_test(unused, (turn - 1) & 1), told = !i || kx_mbar_test(chain, (w.pair ? turn : turn - 1) & 1);
#pragma unroll
  for (int j = 0; j < L::owned; j++)
#pragma unroll
    for (int c = 0; c < 4; c++) s[j][c] *= p.scale_log2;
  if ((seg.first_tile + i + 1) * KVK_TILE > seg.prefix) sv_hide<NT>(p, t, seg, w, seg.first_tile + i, s);
  if (!free) kx_mbar_wait(unused, (turn - 1) & 1);
  if (!told) kx_mbar_wait(chain, (w.pair ? turn : turn - 1) & 1);
  if (i) sv_take_over<NT>(t, w);
  bool over = false;
#pragma unroll
  for (int j = 0; j < L::owned; j++)
#pragma unroll
    for (int c = 0; c < 4; c++) over |= sv_mine<NT>(w.half, j) && s[j][c] > w.top[2 * j + (c & 1)] + HEADROOM;
  over = kx_any(over);
  if (over) sv_raise<NT>(t, w, s);
  if (t.lane == 0) kx_sts(t.smem + L::flag + (uint32_t)(8 * w.pair + 4 * w.half), (uint32_t)over);
  sv_weigh<NT>(t, w, s);
  kx_sync_warp();
  if (t.lane == 0) {
    kx_mbar_arrive(t.smem + L::ready + 8 * (uint32_t)w.pair);
    kx_mbar_arrive(t.smem + L::chain + (uint32_t)(16 * (1 - w.pair) + 8 * w.half));
  }
}

/* At the end of a segment: sums and maxima of this warp's rows to shared memory. */
template <int NT>
KX_DEVICE void sv_leave_sums(const sv_thread &t, sv_scores<NT> &w) {
  typedef sv_smem<NT> L;
#pragma unroll
  for (int j = 0; j < L::owned; j++)
    if (sv_mine<NT>(w.half, j)) {
      for (int i = 0; i < 2; i++)
        for (int d = 4; d < 32; d *= 2) w.sum[2 * j + i] += kx_shfl_xor(w.sum[2 * j + i], d);
      if (t.lane < 4) {
        const uint32_t at = t.smem + L::ended + (uint32_t)(w.pair * 8 * L::rows) + 32 * (uint32_t)sv_unit<NT>(w.half, j) + 8 * t.lane;
        const kx_f2 sum = {w.sum[2 * j], w.sum[2 * j + 1]}, top = {w.top[2 * j], w.top[2 * j + 1]};
        kx_sts(at, sum);
        kx_sts(at + 4 * L::rows, top);
      }
    }
}

/* The score warps: both pairs' sums on the scale of the final maximum; leaves 1 / sum and the logarithm of each row. */
template <int NT>
KX_DEVICE void sv_total(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t row) {
  typedef sv_smem<NT> L;
  if (row >= (uint32_t)L::rows) return;
  const float top = kx_lds_f32(t.smem + L::top + 4 * row);
  float sum = 0;
  for (uint32_t pair = 0; pair < 2; pair++) {
    const uint32_t at = t.smem + L::ended + pair * 8 * L::rows + 4 * row;
    const float part = kx_lds_f32(at), its_top = kx_lds_f32(at + 4 * L::rows);
    sum += part * (its_top == top ? 1.0f : kx_exp2(its_top - top));
  }
  kx_sts(t.smem + L::exchange + 4 * row, sum == 0 ? 0.0f : kx_reciprocal(sum)); /* no score warp exchanges any more */
  p.part_lse[(uint64_t)seg.partial * L::rows + row] = top + kx_log2(sum);
}

template <int NT, int MODE>
KX_DEVICE void sv_score_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, int pair, int half) {
  typedef sv_smem<NT> L;
  sv_scores<NT> w;
  w.pair = pair;
  w.half = half;
#pragma unroll
  for (int j = 0; j < 2 * L::owned; j++) w.sum[j] = 0, w.top[j] = -kx_inf();
  kx_mbar_wait(t.smem + L::q_full, 0);
  sv_take_q<NT>(t, w);
  kx_sync_warp();
  if (t.lane == 0) kx_mbar_arrive(t.smem + L::q_taken);
  uint32_t stage = (uint32_t)pair, lap = 0;
  for (uint32_t i = (uint32_t)pair; i < seg.tiles; i += 2) {
    kx_mbar_wait(t.smem + L::full + 8 * stage, lap);
    if (MODE != SV_LOAD_ONLY) {
      float s[NT][4];
      sv_multiply_q<NT>(t, w, stage, s);
      sv_soften<NT>(p, t, seg, w, i, s);
    } else {
      if (i >= 2) kx_mbar_wait(t.smem + L::unused + 8 * (uint32_t)w.pair, (i / 2 - 1) & 1);
      if (t.lane == 0) kx_mbar_arrive(t.smem + L::ready + 8 * (uint32_t)pair);
    }
    stage += 2;
    if (stage >= KVK_STAGES) stage -= KVK_STAGES, lap ^= 1;
  }
  sv_leave_sums<NT>(t, w);
}

/* --- value warps --- */

template <int NT>
struct sv_values {
  float o[8][NT][4]; /* O^T: 16 m + g (+ 8) of the warp's 128 columns; query rows 8 j + 2t, + 1 */
  const unsigned char *kv; /* this lane's 16 bytes of the first line of row 0 */
  uint32_t to;             /* where they go in stage 0 */
  uint32_t row;            /* of the tile, that this lane helps to fetch */
  int32_t slot;            /* of the next tile to fetch */
};

/* This lane's share of a tile to fetch: 9 lines of its row. */
struct sv_fetch {
  const unsigned char *from;
  uint32_t to, bytes;
};

template <int NT>
KX_DEVICE int32_t sv_slot_of(const sv_params &p, const sv_segment &seg, const sv_values<NT> &v, uint32_t i) {
  return i < seg.tiles ? sv_slot(p, seg.request, seg.first, seg.prefix, (seg.first_tile + i) * KVK_TILE + v.row) : -1;
}

template <int NT>
KX_DEVICE sv_fetch sv_fetch_of(const sv_params &p, const sv_values<NT> &v, int32_t slot, uint32_t stage) {
  sv_fetch f = {v.kv + (slot >= 0 ? (int64_t)slot * p.kv_stride : 0), v.to + stage * STAGE, slot >= 0 ? 16u : 0u};
  return f;
}

KX_DEVICE void sv_fetch_line(const sv_fetch &f, uint32_t line) { kx_copy16(f.to + line * 128, f.from + line * 128, f.bytes); }

/* A whole tile at once: the first ones of a segment. */
template <int NT, int MODE>
KX_DEVICE void sv_fetch_tile(const sv_params &p, const sv_thread &t, const sv_values<NT> &v, int32_t slot, uint32_t stage) {
  const uint32_t bar = t.smem + sv_smem<NT>::full + 8 * stage;
  if (MODE == SV_MMA_ONLY) {
    kx_mbar_arrive(bar);
    return;
  }
  const sv_fetch f = sv_fetch_of<NT>(p, v, slot, stage);
#pragma unroll
  for (uint32_t line = 0; line < 9; line++) sv_fetch_line(f, line);
  kx_copy_arrive(bar);
}

/* The group's rows of Q into the last three stages; missing rows are zeros. */
template <int NT>
KX_DEVICE void sv_fetch_q(const sv_params &p, const sv_thread &t, const sv_segment &seg, const sv_values<NT> &v) {
  const unsigned char *q = (const unsigned char *)p.q;
  for (uint32_t c = v.row; c < 8 * NT; c += 16) {
    const uint32_t row = seg.group * (uint32_t)p.cut.group_stride + c * (uint32_t)p.cut.row_stride;
    const bool used = c < (uint32_t)p.cut.group_rows && row < (uint32_t)p.cut.rows;
    const unsigned char *from = used ? q + ((int64_t)seg.request * p.cut.rows + row) * p.q_stride + 16 * (t.lane & 7) : q;
#pragma unroll
    for (uint32_t line = 0; line < 9; line++)
      kx_copy16(v.to + 2 * STAGE + (c - v.row) * KVK_ROW_BYTES + line * 128, from + (used ? line * 128 : 0), used ? 16 : 0);
  }
  kx_copy_arrive(t.smem + sv_smem<NT>::q_full);
}

template <int NT>
KX_DEVICE void sv_zero_tiles(const sv_thread &t, uint32_t value_warp) {
  const kx_u4 zero = {0, 0, 0, 0};
  for (uint32_t at = 16 * (value_warp * 32 + t.lane); at < KVK_STAGES * STAGE; at += 16 * 128) kx_sts(t.smem + at, zero);
}

template <int NT>
KX_DEVICE void sv_shrink(const sv_thread &t, sv_values<NT> &v, uint32_t i) {
  typedef sv_smem<NT> L;
  const uint32_t which = i & 1, flags = t.smem + L::flag + 8 * which;
  const uint32_t low = kx_lds_u32(flags), high = kx_lds_u32(flags + 4);
  if (!(low | high)) return;
#pragma unroll
  for (int j = 0; j < NT; j++)
    if (j < L::owned ? low : high) {
      const kx_f2 f = kx_lds_f2(t.smem + L::factor + which * 4 * L::rows + 32 * (uint32_t)j + 8 * (t.lane & 3));
#pragma unroll
      for (int m = 0; m < 8; m++) {
        v.o[m][j][0] *= f.x;
        v.o[m][j][1] *= f.y;
        v.o[m][j][2] *= f.x;
        v.o[m][j][3] *= f.y;
      }
    }
}

/* O^T += V^T P^T for tile i; between the products, the 9 lines of a tile to fetch (fetch.to = 0: none). */
template <int NT, int MODE>
KX_DEVICE void sv_multiply_v(const sv_thread &t, sv_values<NT> &v, uint32_t value_warp, uint32_t i, uint32_t stage,
                             const sv_fetch &fetch) {
  typedef sv_smem<NT> L;
  uint32_t b[NT + 1][2];
  const uint32_t weights = t.smem + L::weights + (i & 1) * L::weight_bytes + (t.lane & 15) * L::weight_stride + 16 * (t.lane >> 4);
  const uint32_t row = (t.lane & 7) + ((t.lane >> 4) << 3), chunk = (t.lane >> 3) & 1;
  const uint32_t at = t.smem + stage * STAGE + row * KVK_ROW_BYTES + ((chunk ^ (t.lane & 7)) << 4) + 256 * value_warp;
  if (MODE != SV_LOAD_ONLY) {
#pragma unroll
    for (int j = 0; j + 1 < NT; j += 2) kx_ldmatrix4_trans(b[j], weights + 16 * (uint32_t)j);
    if (NT % 2) kx_ldmatrix2_trans(b[NT - 1], weights - 16 * (t.lane >> 4) + 16 * (NT - 1));
  }
#pragma unroll
  for (int m = 0; m < 8; m++) {
    uint32_t a[4];
    if (MODE != SV_LOAD_ONLY) kx_ldmatrix4_trans(a, (at ^ (uint32_t)((m & 3) << 5)) + (uint32_t)(m / 4 * 128));
    if (MODE != SV_MMA_ONLY && fetch.to) sv_fetch_line(fetch, (uint32_t)m);
#pragma unroll
    for (int j = 0; j < NT; j++)
      if (MODE != SV_LOAD_ONLY) kx_mma(v.o[m][j], a, b[j][0], b[j][1]);
  }
  if (MODE != SV_MMA_ONLY && fetch.to) sv_fetch_line(fetch, 8);
}

/* Divides by the sums and leaves the partial result as it lies in the registers. Unit j of 8 query rows: 512 pieces of 16
 * bytes, piece 128 value_warp + 32 n + lane; its words hold rows 2t (low half) and 2t + 1 of columns
 * 128 value_warp + 32 n + g, + 8, + 16, + 24. */
template <int NT>
KX_DEVICE void sv_leave_values(const sv_params &p, const sv_thread &t, const sv_segment &seg, const sv_values<NT> &v,
                               uint32_t value_warp) {
  typedef sv_smem<NT> L;
  kx_u4 *to = (kx_u4 *)p.part_out + (uint64_t)seg.partial * NT * 512 + 128 * value_warp + t.lane;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const kx_f2 inverse = kx_lds_f2(t.smem + L::exchange + 32 * (uint32_t)j + 8 * (t.lane & 3));
#pragma unroll
    for (int n = 0; n < 4; n++) {
      const float *low = v.o[2 * n][j], *high = v.o[2 * n + 1][j];
      const kx_u4 piece = {kx_pack_bf16(low[0] * inverse.x, low[1] * inverse.y), kx_pack_bf16(low[2] * inverse.x, low[3] * inverse.y),
                           kx_pack_bf16(high[0] * inverse.x, high[1] * inverse.y), kx_pack_bf16(high[2] * inverse.x, high[3] * inverse.y)};
      to[512 * j + 32 * n] = piece;
    }
  }
}

template <int NT, int MODE>
KX_DEVICE void sv_value_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t value_warp) {
  typedef sv_smem<NT> L;
  sv_values<NT> v;
  int32_t slots[KVK_STAGES];
  v.row = 4 * value_warp + t.lane / 8;
  v.kv = (const unsigned char *)p.kv + 16 * (t.lane & 7);
  v.to = t.smem + v.row * KVK_ROW_BYTES + (((t.lane & 7) ^ (v.row & 7)) << 4);
#pragma unroll
  for (uint32_t i = 0; i < KVK_STAGES; i++) slots[i] = sv_slot_of<NT>(p, seg, v, i);
  sv_fetch_q<NT>(p, t, seg, v);
#pragma unroll
  for (uint32_t i = 0; i < 2; i++)
    if (i < seg.tiles) sv_fetch_tile<NT, MODE>(p, t, v, slots[i], i);
#pragma unroll
  for (int m = 0; m < 8; m++)
#pragma unroll
    for (int j = 0; j < NT; j++) v.o[m][j][0] = v.o[m][j][1] = v.o[m][j][2] = v.o[m][j][3] = 0;
  v.slot = sv_slot_of<NT>(p, seg, v, KVK_STAGES);
  kx_mbar_wait(t.smem + L::q_taken, 0);
  if (MODE == SV_MMA_ONLY) sv_zero_tiles<NT>(t, value_warp);
#pragma unroll
  for (uint32_t i = 2; i < KVK_STAGES; i++)
    if (i < seg.tiles) sv_fetch_tile<NT, MODE>(p, t, v, slots[i], i);
  uint32_t stage = 0, old_stage = 0, old_lap = 0, lap = 0;
  for (uint32_t i = 0; i < seg.tiles; i++) {
    const bool refill = i && i + KVK_STAGES - 1 < seg.tiles;
    sv_fetch fetch = {v.kv, 0, 0};
    kx_mbar_wait(t.smem + L::ready + 8 * (i & 1), i / 2 & 1);
    if (refill) {
      kx_mbar_wait(t.smem + L::empty + 8 * old_stage, old_lap);
      fetch = sv_fetch_of<NT>(p, v, v.slot, old_stage);
      v.slot = sv_slot_of<NT>(p, seg, v, i + KVK_STAGES);
    }
    if (MODE != SV_LOAD_ONLY) sv_shrink<NT>(t, v, i);
    sv_multiply_v<NT, MODE>(t, v, value_warp, i, stage, fetch);
    if (refill && MODE != SV_MMA_ONLY) kx_copy_arrive(t.smem + L::full + 8 * old_stage);
    if (refill && MODE == SV_MMA_ONLY) kx_mbar_arrive(t.smem + L::full + 8 * old_stage);
    kx_sync_warp();
    if (t.lane == 0) {
      kx_mbar_arrive(t.smem + L::empty + 8 * stage);
      kx_mbar_arrive(t.smem + L::unused + 8 * (i & 1));
    }
    old_stage = stage;
    old_lap = lap;
    if (++stage == KVK_STAGES) stage = 0, lap ^= 1;
  }
  kx_bar_sync(0, KVK_SPLIT_THREADS); /* the sums are there */
  sv_leave_values<NT>(p, t, seg, v, value_warp);
}

template <int NT, int MODE>
KX_KERNEL KX_BOUNDS(KVK_SPLIT_THREADS, 1) sv_kernel(KX_PARAM sv_params p) {
  const sv_thread t = {kx_smem(), kx_tid() % 32, kx_tid() / 32};
  kx_grid_release();
  const sv_list list = sv_survey(p, 0, t.lane); /* every warp for itself */
  const uint32_t worker = list.aligned ? kx_block() / (uint32_t)p.cut.groups : kx_block();
  const uint32_t length = (list.aligned ? 1 : (uint32_t)p.cut.groups) * list.total;
  uint32_t at = p.fixed_tiles ? worker : worker * list.share;
  const uint32_t end = p.fixed_tiles || length < at + list.share ? length : at + list.share;
  const int low = (int)(t.warp & 1), high = (int)(t.warp >> 2), second = (int)(t.warp >> 1 & 1);
  const bool scores = p.spread ? !second : !high;
  const int upper = p.spread ? high : second;
  if (worker >= list.workers) return; /* left over by the cut into equal groups */
  while (at < end) {
    if (t.warp == 0) sv_find_segment<NT>(p, t, list, at, end);
    sv_reset<NT>(t);
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    const sv_segment seg = sv_read_segment<NT>(t);
    if (scores) {
      sv_score_role<NT, MODE>(p, t, seg, upper, low);
      kx_bar_sync(3, 128);
      sv_total<NT>(p, t, seg, (uint32_t)(2 * upper + low) * 32 + t.lane);
      kx_bar_sync(0, KVK_SPLIT_THREADS);
    } else {
      sv_value_role<NT, MODE>(p, t, seg, (uint32_t)(2 * upper + low));
    }
    at += p.fixed_tiles ? p.blocks : seg.tiles;
  }
}

/* --- merge of the partial results --- */

/* A block takes 512 / TEAMS pieces (see sv_leave_values) of one unit of 8 query rows; team k of its threads every TEAMS-th
 * partial. All loads of a turn leave before any is used. */
const uint32_t MERGE_THREADS = 512, MERGE_STATS = MERGE_THREADS * 32;

struct sv_sum { /* of one piece: even accumulators are query row 2t, odd ones 2t + 1 */
  float acc[8], top[2], sum[2];
};

KX_DEVICE void sv_add(sv_sum &x, kx_u4 v, kx_f2 lse) {
  const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int q = 0; q < 2; q++) {
    const float l = q ? lse.y : lse.x;
    if (l == -kx_inf()) continue;
    const float top = l > x.top[q] || l != l ? l : x.top[q];
    const float shrink = x.top[q] == top ? 1.0f : kx_exp2(x.top[q] - top), weight = kx_exp2(l - top);
    x.top[q] = top;
    x.sum[q] = x.sum[q] * shrink + weight;
#pragma unroll
    for (int i = 0; i < 4; i++)
      x.acc[2 * i + q] = x.acc[2 * i + q] * shrink + weight * kx_bits_float(q ? word[i] & 0xffff0000u : word[i] << 16);
  }
}

/* This team's share of the partials. */
template <int TEAMS>
KX_DEVICE void sv_walk(const sv_params &p, sv_range r, uint32_t unit, uint32_t team, uint32_t piece, sv_sum &x) {
  const uint32_t units = (uint32_t)p.cut.tiles8;
  const kx_f2 *lse = (const kx_f2 *)p.part_lse + ((uint64_t)r.first * units + unit) * 4 + (piece & 3);
  const kx_u4 *from = (const kx_u4 *)p.part_out + ((uint64_t)r.first * units + unit) * 512 + piece;
#pragma unroll 1
  for (uint32_t base = team; base < r.count; base += 8 * TEAMS) {
    kx_u4 v[8];
    kx_f2 l[8];
#pragma unroll
    for (uint32_t i = 0; i < 8; i++) {
      const uint32_t s = base + i * TEAMS;
      if (s < r.count) l[i] = lse[(uint64_t)s * units * 4], v[i] = from[(uint64_t)s * units * 512];
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; i++)
      if (base + i * TEAMS < r.count) sv_add(x, v[i], l[i]);
  }
}

/* Adds the other teams' parts of this piece to team 0's. */
template <int TEAMS>
KX_DEVICE void sv_join(uint32_t smem, uint32_t piece, sv_sum &x) {
  float top[2] = {-kx_inf(), -kx_inf()};
  sv_sum all = {{0, 0, 0, 0, 0, 0, 0, 0}, {0, 0}, {0, 0}};
#pragma unroll
  for (uint32_t team = 0; team < TEAMS; team++) {
    const kx_f4 its = kx_lds_f4(smem + MERGE_STATS + 16 * (4 * team + (piece & 3)));
    top[0] = its.x > top[0] || its.x != its.x ? its.x : top[0];
    top[1] = its.z > top[1] || its.z != its.z ? its.z : top[1];
  }
#pragma unroll
  for (uint32_t team = 0; team < TEAMS; team++) {
    const kx_f4 its = kx_lds_f4(smem + MERGE_STATS + 16 * (4 * team + (piece & 3)));
    const uint32_t at = smem + 32 * (team * (512 / TEAMS) + piece % (512 / TEAMS));
    const kx_f4 a = kx_lds_f4(at), b = kx_lds_f4(at + 16);
    const float w[2] = {its.x == -kx_inf() ? 0.0f : kx_exp2(its.x - top[0]), its.z == -kx_inf() ? 0.0f : kx_exp2(its.z - top[1])};
    const float part[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    all.sum[0] += w[0] * its.y;
    all.sum[1] += w[1] * its.w;
#pragma unroll
    for (int i = 0; i < 8; i++) all.acc[i] += w[i & 1] * part[i];
  }
  all.top[0] = top[0];
  all.top[1] = top[1];
  x = all;
}

/* One piece of the output: 8 lanes that share a query row write 16 bytes of it four times. */
KX_DEVICE void sv_put(const sv_params &p, uint32_t request, uint32_t group, uint32_t unit, uint32_t piece, const sv_sum &x) {
  const float inverse[2] = {x.sum[0] == 0 ? 0.0f : kx_reciprocal(x.sum[0]), x.sum[1] == 0 ? 0.0f : kx_reciprocal(x.sum[1])};
  const uint32_t lane = piece & 31, column = 8 * unit + lane / 4, rows = (uint32_t)p.cut.rows;
  uint32_t word[4];
#pragma unroll
  for (int i = 0; i < 4; i++) word[i] = kx_transpose(kx_pack_bf16(x.acc[2 * i] * inverse[0], x.acc[2 * i + 1] * inverse[1]));
  const uint32_t row = group * (uint32_t)p.cut.group_stride + column * (uint32_t)p.cut.row_stride;
  if (column < (uint32_t)p.cut.group_rows && row < rows) {
    uint32_t *out = (uint32_t *)(p.out + ((uint64_t)request * rows + row) * KVK_LATENT + piece / 32 * 32) + (lane & 3);
#pragma unroll
    for (int i = 0; i < 4; i++) out[4 * i] = word[i];
  }
  if (piece >= 4 || !p.lse) return;
#pragma unroll
  for (uint32_t q = 0; q < 2; q++) {
    const uint32_t its = 8 * unit + 2 * piece + q, its_row = group * (uint32_t)p.cut.group_stride + its * (uint32_t)p.cut.row_stride;
    if (its < (uint32_t)p.cut.group_rows && its_row < rows)
      p.lse[(uint64_t)request * rows + its_row] = (x.top[q] + kx_log2(x.sum[q])) * 0.693147180559945309f;
  }
}

template <int TEAMS>
KX_KERNEL KX_BOUNDS(512, 1) sv_merge_kernel(KX_PARAM sv_params p) {
  const uint32_t tid = kx_tid(), smem = kx_smem(), groups = (uint32_t)p.cut.groups, units = (uint32_t)p.cut.tiles8;
  const uint32_t slice = kx_block() % TEAMS, unit = kx_block() / TEAMS % units, which = kx_block() / TEAMS / units;
  const uint32_t request = which / groups, group = which % groups;
  const uint32_t team = tid / (512 / TEAMS), piece = slice * (512 / TEAMS) + tid % (512 / TEAMS);
  const sv_list list = sv_survey(p, request, tid % 32);
  const sv_range r = sv_partials_of(p, list, request, group, sv_units(p, sv_tiles(p, request)));
  sv_sum x = {{0, 0, 0, 0, 0, 0, 0, 0}, {-kx_inf(), -kx_inf()}, {0, 0}};
  kx_grid_wait();
  sv_walk<TEAMS>(p, r, unit, team, piece, x);
  if (TEAMS > 1) {
    const kx_f4 low = {x.acc[0], x.acc[1], x.acc[2], x.acc[3]}, high = {x.acc[4], x.acc[5], x.acc[6], x.acc[7]};
    const kx_f4 stat = {x.top[0], x.sum[0], x.top[1], x.sum[1]};
    kx_sts(smem + 32 * tid, low);
    kx_sts(smem + 32 * tid + 16, high);
    if (tid % (512 / TEAMS) < 4) kx_sts(smem + MERGE_STATS + 16 * (4 * team + (tid & 3)), stat);
    kx_bar_sync(0, (int)MERGE_THREADS);
    if (team) return;
    sv_join<TEAMS>(smem, piece, x);
  }
  sv_put(p, request, group, unit, piece, x);
}

template <int NT>
const char *sv_start(kvk_kind kind, const kx_grid &grid, const sv_params &p) {
  kx_grid g = grid;
  g.smem = sv_smem<NT>::bytes;
  if (kind == KVK_LOAD_ONLY) return kx_launch(sv_kernel<NT, SV_LOAD_ONLY>, g, p);
  if (kind == KVK_MMA_ONLY) return kx_launch(sv_kernel<NT, SV_MMA_ONLY>, g, p);
  return kx_launch(sv_kernel<NT, SV_FULL>, g, p);
}

sv_params sv_fill(kvk_kind kind, const kvk_problem *x, const kvk_options *o, void *workspace) {
  sv_params p;
  p.cut = kvk_cut_rows(kind, x->queries, x->heads);
  p.q = x->q;
  p.kv = x->kv;
  p.q_stride = 2 * x->q_row_stride;
  p.kv_stride = 2 * x->kv_row_stride;
  p.indptr = x->indptr;
  p.mask_indptr = x->mask_indptr;
  p.slots = x->slots;
  p.tree_slots = x->tree_slots;
  p.mask = x->mask;
  p.out = x->out;
  p.lse = x->lse;
  p.part_out = (uint16_t *)workspace;
  p.part_lse = (float *)((char *)workspace + kvk_most_partials(&p.cut, x, o) * (uint64_t)p.cut.tiles8 * 8 * 2 * KVK_LATENT);
  p.scale_log2 = x->scale * 1.44269504088896341f;
  p.batch = x->batch;
  p.queries = x->queries;
  p.heads = x->heads;
  p.tree = x->tree_slots ? x->queries : 0;
  p.mask_kind = x->mask_kind;
  p.blocks = (uint32_t)kvk_split_blocks(o);
  p.min_tiles = (uint32_t)kvk_min_split_tiles(o);
  p.fixed_tiles = (uint32_t)(o->fixed_split_tokens / KVK_TILE);
  p.spread = o->spread_roles;
  return p;
}

} // namespace

extern "C" const char *KX_NAME(split)(kvk_kind kind, const kvk_problem *problem, const kvk_options *options,
                                      void *workspace, void *stream) {
  const sv_params p = sv_fill(kind, problem, options, workspace);
  const kx_grid grid = {p.blocks, 1, KVK_SPLIT_THREADS, 0, false, stream};
  const char *failed = p.cut.tiles8 == 1   ? sv_start<1>(kind, grid, p)
                       : p.cut.tiles8 == 2 ? sv_start<2>(kind, grid, p)
                       : p.cut.tiles8 == 3 ? sv_start<3>(kind, grid, p)
                                           : sv_start<5>(kind, grid, p);
  /* Many partials each: many small blocks and teams. The choice rests on what the host knows, so a graph can hold it. */
  const unsigned pieces = (unsigned)(p.batch * p.cut.groups), teams = p.fixed_tiles || p.blocks > 4 * pieces ? 8 : 1;
  const kx_grid merge = {pieces * (unsigned)p.cut.tiles8 * teams, 1, MERGE_THREADS, MERGE_STATS + 64 * teams, true, stream};
  if (failed) return failed;
  return teams == 8 ? kx_launch(sv_merge_kernel<8>, merge, p) : kx_launch(sv_merge_kernel<1>, merge, p);
}
