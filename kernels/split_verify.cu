/* split_verify: all query rows of a request share each KV row that a block fetches.
 *
 * A block of 8 warps holds up to 48 query rows and walks tiles of 16 keys. With keys and values as the m side of
 * mma.m16n8k16 (S^T = K Q^T, O^T = V^T P^T), query rows come in units of 8: 36 rows waste 4, 48 none.
 *   - 4 score warps: each multiplies a quarter of the 576 columns, its quarter of Q resident in registers; the partial
 *     scores are exchanged lane by lane through shared memory, and each warp finishes the units of query rows it owns
 *     (unit u: warp u % 4): softmax weights to shared memory. The products of the next tile are issued between the steps
 *     of this tile's softmax, the first of its keys loaded before the exchange, so that latencies (exchange, votes,
 *     exponentials) are covered.
 *   - 4 value warps: each holds 128 of the 512 output columns for all query rows in registers, multiplies weights and
 *     tile, and while it waits for weights fetches 4 of the 16 rows of a tile to come (cp.async, 8 lanes a row; bulk copies
 *     of whole rows were tried on an H200 and are slower there: 0.65 us a tile of 16 rows against 0.48).
 * A tile's life: fetched; multiplied with Q while its predecessor is softened; softened; multiplied with the weights. 4 tiles
 * in shared memory; with the exchange 96 KB, <= 101,376 B. Chunk c of 16 bytes of a line lies at c ^ (row % 8), so that 8 rows spread over
 * the banks.
 *
 * The running maximum of a query row is raised only when a logit exceeds it by 2^8 (weights then stay far inside bf16's
 * range); raised rows leave a factor for the value warps' accumulators.
 */
#include "attn_split.h"

namespace {

enum sv_mode { SV_FULL, SV_LOAD_ONLY, SV_MMA_ONLY };

const int K_STEPS = KVK_ROW_VALUES / 4 / 16; /* of one score warp: a quarter of the columns, 8 of latent and 1 of rope */
const int FIRST_STEPS = 4;                   /* of which the first are issued before the softmax, the others inside */
const uint32_t PITCH = KVK_ROW_BYTES, STAGE = KVK_TILE * PITCH;
const float HEADROOM = 8.0f;

template <int NT>
struct sv_smem { /* byte offsets */
  static const int rows = 8 * NT;
  static const uint32_t weight_stride = 16 * NT, weight_bytes = KVK_TILE * weight_stride, exchange_bytes = 3 * 512 * NT;
  static const uint32_t exchange = KVK_STAGES * STAGE;           /* [2][unit][3 senders][lane] 16 bytes */
  static const uint32_t weights = exchange + 2 * exchange_bytes; /* [2][16 keys][rows] bf16 */
  static const uint32_t factor = weights + 2 * weight_bytes;     /* [2][rows] */
  static const uint32_t inverse = factor + 8 * rows;             /* [rows] */
  static const uint32_t flag = inverse + 4 * rows;               /* [2][4 score warps] */
  static const uint32_t segment = flag + 32;                     /* 8 words */
  static const uint32_t bars = segment + 32;
  static const uint32_t full = bars, empty = full + 8 * KVK_STAGES, ready = empty + 8 * KVK_STAGES, unused = ready + 16;
  static const uint32_t q_full = unused + 16, q_taken = q_full + 8, bytes = q_taken + 8;
};

static_assert(sv_smem<5>::bytes == KVK_SPLIT_SMEM(5) && sv_smem<6>::bytes == KVK_SPLIT_SMEM(6) && sv_smem<6>::bytes <= KVK_SMEM_LIMIT,
              "kvk_describe() states what a block uses");

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

/* Barriers for a new segment, by warp 1, while warp 0 looks for it. */
template <int NT>
KX_DEVICE void sv_reset(const sv_thread &t) {
  typedef sv_smem<NT> L;
  const uint32_t tid = t.warp * 32 + t.lane, bar = tid - 32;
  if (bar < (L::bytes - L::bars) / 8) {
    const uint32_t at = L::bars + 8 * bar;
    const uint32_t count = at < L::empty || at == L::q_full ? 128 : 4;
    kx_mbar_init(t.smem + at, count);
  }
}

/* --- score warps --- */

/* A score warp sees the units of 8 query rows in its own order, unit (quarter + j) % NT as its j-th, so that the ones it owns
 * are its 0-th and its 4-th, whatever the warp: register arrays need constant indices. */
template <int NT>
struct sv_scores {
  uint32_t q[K_STEPS][NT][2];
  float sum[2][2], top[2][2]; /* of owned unit 0 and 1, query rows 2t and 2t + 1 */
  int quarter;
};

template <int NT>
KX_DEVICE uint32_t sv_unit(int quarter, int j) { return (uint32_t)(quarter + j) % NT; }

template <int NT>
KX_DEVICE bool sv_owns(int quarter, int j) { return (j == 0 && (NT >= 4 || quarter < NT)) || (j == 4 && quarter + 4 < NT); }

/* Q lies in the last three stages. */
template <int NT>
KX_DEVICE void sv_take_q(const sv_thread &t, sv_scores<NT> &w) {
  const uint32_t base = t.smem + (KVK_STAGES - 3) * STAGE + (t.lane & 7) * PITCH, high = t.lane >> 3, turn = t.lane & 7;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const uint32_t row = base + 8 * sv_unit<NT>(w.quarter, j) * PITCH;
    uint32_t r[4];
#pragma unroll
    for (int k = 0; k < 8; k += 2) {
      kx_ldmatrix4(r, row + 256 * (uint32_t)w.quarter + 128 * (uint32_t)(k >> 2) + 16 * ((2 * (uint32_t)(k & 3) + high) ^ turn));
      w.q[k][j][0] = r[0];
      w.q[k][j][1] = r[1];
      w.q[k + 1][j][0] = r[2];
      w.q[k + 1][j][1] = r[3];
    }
    kx_ldmatrix4(r, row + 1024 + 16 * ((2 * (uint32_t)w.quarter + (high & 1)) ^ turn)); /* half of it is not needed */
    w.q[8][j][0] = r[0];
    w.q[8][j][1] = r[1];
  }
}

/* This warp's columns of a tile of keys, steps FROM to TO - 1. */
template <int FROM, int TO>
KX_DEVICE void sv_load_keys(const sv_thread &t, int quarter, uint32_t stage, uint32_t a[K_STEPS][4]) {
  const uint32_t at = t.smem + stage * STAGE + (t.lane & 15) * PITCH, high = t.lane >> 4, turn = t.lane & 7;
  const uint32_t latent = at + 256 * (uint32_t)quarter + 16 * (high ^ turn), rope = at + 1024 + 16 * ((2 * (uint32_t)quarter + high) ^ turn);
#pragma unroll
  for (int k = FROM; k < TO; k++) kx_ldmatrix4(a[k], k < 8 ? (latent ^ 32 * (uint32_t)(k & 3)) + 128 * (uint32_t)(k >> 2) : rope);
}

template <int NT, int FROM, int TO>
KX_DEVICE void sv_multiply_q(const sv_scores<NT> &w, const uint32_t a[K_STEPS][4], float s[NT][4]) {
#pragma unroll
  for (int k = FROM; k < TO; k++)
#pragma unroll
    for (int j = 0; j < NT; j++) kx_mma(s[j], a[k], w.q[k][j][0], w.q[k][j][1]);
}

template <int NT>
KX_DEVICE uint32_t sv_exchange_at(const sv_thread &t, uint32_t i, uint32_t unit, uint32_t sender) {
  const uint32_t slot = (sender - unit % 4 - 1) & 3; /* the owner itself sends nothing */
  return t.smem + sv_smem<NT>::exchange + (i & 1) * sv_smem<NT>::exchange_bytes + (3 * unit + slot) * 512 + 16 * t.lane;
}

/* Partial scores of the units that other warps own. */
template <int NT>
KX_DEVICE void sv_send(const sv_thread &t, int quarter, uint32_t i, const float s[NT][4]) {
#pragma unroll
  for (int j = 0; j < NT; j++)
    if (!sv_owns<NT>(quarter, j)) {
      const kx_f4 v = {s[j][0], s[j][1], s[j][2], s[j][3]};
      kx_sts(sv_exchange_at<NT>(t, i, sv_unit<NT>(quarter, j), (uint32_t)quarter), v);
    }
}

/* What the other warps sent for owned unit `o`; zeros if there is none. */
template <int NT>
KX_DEVICE void sv_receive(const sv_thread &t, int quarter, uint32_t i, int o, kx_f4 v[3]) {
  const kx_f4 zero = {0, 0, 0, 0};
  v[0] = v[1] = v[2] = zero;
  if (!sv_owns<NT>(quarter, 4 * o)) return;
#pragma unroll
  for (uint32_t n = 0; n < 3; n++) v[n] = kx_lds_f4(sv_exchange_at<NT>(t, i, (uint32_t)(quarter + 4 * o), (uint32_t)quarter + n + 1));
}

KX_DEVICE void sv_add_up(float x[4], const kx_f4 v[3], float scale) {
  x[0] = (x[0] + v[0].x + (v[1].x + v[2].x)) * scale;
  x[1] = (x[1] + v[0].y + (v[1].y + v[2].y)) * scale;
  x[2] = (x[2] + v[0].z + (v[1].z + v[2].z)) * scale;
  x[3] = (x[3] + v[0].w + (v[1].w + v[2].w)) * scale;
}

/* Tiles with tree nodes or past the end: -inf for what a query does not see. The loop is not unrolled, it is rare. */
KX_DEVICE void sv_hide(const sv_params &p, const sv_thread &t, const sv_segment &seg, int quarter, uint32_t tile, float x[2][4]) {
  uint32_t seen = 0;
#pragma unroll 1
  for (uint32_t e = 0; e < 8; e++) {
    const uint32_t key = tile * KVK_TILE + t.lane / 4 + (e & 2) * 4;
    const uint32_t column = 8 * ((uint32_t)quarter + (e & 4)) + 2 * (t.lane & 3) + (e & 1);
    const uint32_t row = seg.group * (uint32_t)p.cut.group_stride + column * (uint32_t)p.cut.row_stride;
    const bool used = column < (uint32_t)p.cut.group_rows;
    if (key < seg.prefix || (used && sv_sees(p, seg.request, seg.prefix, row, key))) seen |= 1u << e;
  }
#pragma unroll
  for (int e = 0; e < 8; e++)
    if (!(seen >> e & 1)) x[e / 4][e % 4] = -kx_inf();
}

/* Raises the maximum of the owned rows to this tile's, leaves the factors by which older sums shrink. */
template <int NT>
KX_DEVICE void sv_raise(const sv_thread &t, sv_scores<NT> &w, uint32_t i, const float x[2][4]) {
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT && sv_owns<NT>(w.quarter, 4 * o)) {
      float f[2];
#pragma unroll
      for (int c = 0; c < 2; c++) {
        float most = kx_max(x[o][c], x[o][c + 2]), old = w.top[o][c];
        for (int d = 4; d < 32; d *= 2) most = kx_max(most, kx_shfl_xor(most, d));
        most = kx_max(most, old);
        f[c] = most == old ? 1.0f : kx_exp2(old - most);
        w.top[o][c] = most;
        w.sum[o][c] *= f[c];
      }
      const kx_f2 factor = {f[0], f[1]};
      if (t.lane < 4)
        kx_sts(t.smem + sv_smem<NT>::factor + (i & 1) * 4 * sv_smem<NT>::rows + 32 * (uint32_t)(w.quarter + 4 * o) + 8 * t.lane, factor);
    }
}

template <int NT>
KX_DEVICE void sv_weigh(const sv_thread &t, sv_scores<NT> &w, uint32_t i, const float x[2][4]) {
  typedef sv_smem<NT> L;
  const uint32_t at = t.smem + L::weights + (i & 1) * L::weight_bytes + (t.lane / 4) * L::weight_stride + 4 * (t.lane & 3);
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT) {
      float e[4];
#pragma unroll
      for (int c = 0; c < 4; c++) {
        const float top = w.top[o][c & 1];
        e[c] = kx_exp2(x[o][c] - (top == -kx_inf() ? 0.0f : top)); /* nothing seen yet: -inf - 0, not -inf - -inf */
      }
      w.sum[o][0] += e[0] + e[2];
      w.sum[o][1] += e[1] + e[3];
      const uint32_t unit = at + 16 * (uint32_t)(w.quarter + 4 * o);
      if (sv_owns<NT>(w.quarter, 4 * o)) {
        kx_sts(unit, kx_pack_bf16(e[0], e[1]));
        kx_sts(unit + 8 * L::weight_stride, kx_pack_bf16(e[2], e[3]));
      }
    }
}

/* At the end of a segment: 1 / sum of the owned rows for the value warps, their logarithms for the merge. */
template <int NT>
KX_DEVICE void sv_leave_sums(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT> &w) {
  typedef sv_smem<NT> L;
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT && sv_owns<NT>(w.quarter, 4 * o)) {
      for (int c = 0; c < 2; c++)
        for (int d = 4; d < 32; d *= 2) w.sum[o][c] += kx_shfl_xor(w.sum[o][c], d);
      if (t.lane < 4) {
        const uint32_t row = 8 * (uint32_t)(w.quarter + 4 * o) + 2 * t.lane;
        const float a = w.sum[o][0], b = w.sum[o][1];
        const kx_f2 inverse = {a == 0 ? 0.0f : kx_reciprocal(a), b == 0 ? 0.0f : kx_reciprocal(b)};
        const kx_f2 lse = {w.top[o][0] + kx_log2(a), w.top[o][1] + kx_log2(b)};
        kx_sts(t.smem + L::inverse + 4 * row, inverse);
        *(kx_f2 *)(p.part_lse + (uint64_t)seg.partial * L::rows + row) = lse;
      }
    }
}

/* One tile: s holds this warp's partial scores of tile i and, on return, those of the tile in `next_stage`. */
template <int NT>
KX_DEVICE void sv_score_tile(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT> &w, uint32_t i,
                             uint32_t next_stage, uint32_t next_lap, float s[NT][4]) {
  typedef sv_smem<NT> L;
  const uint32_t unused = t.smem + L::unused + 8 * (i & 1);
  const int second = NT > 4 ? 4 : 0;
  uint32_t a[K_STEPS][4];
  kx_f4 v[2][3];
  kx_mbar_wait(t.smem + L::full + 8 * next_stage, next_lap);
  sv_load_keys<0, FIRST_STEPS>(t, w.quarter, next_stage, a);
  float x[2][4] = {{s[0][0], s[0][1], s[0][2], s[0][3]}, {s[second][0], s[second][1], s[second][2], s[second][3]}};
  sv_send<NT>(t, w.quarter, i, s);
  kx_bar_sync(1, 128);
  sv_receive<NT>(t, w.quarter, i, 0, v[0]);
  if (NT > 4) sv_receive<NT>(t, w.quarter, i, 1, v[1]);
#pragma unroll
  for (int j = 0; j < NT; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
  sv_multiply_q<NT, 0, FIRST_STEPS>(w, a, s);
  const bool free = i < 2 || kx_mbar_test(unused, (i / 2 - 1) & 1);
  sv_load_keys<FIRST_STEPS, K_STEPS>(t, w.quarter, next_stage, a);
  sv_add_up(x[0], v[0], p.scale_log2);
  if (NT > 4) sv_add_up(x[1], v[1], p.scale_log2);
  if ((seg.first_tile + i + 1) * KVK_TILE > seg.prefix) sv_hide(p, t, seg, w.quarter, seg.first_tile + i, x);
  bool over = false;
#pragma unroll
  for (int o = 0; o < 2; o++)
#pragma unroll
    for (int c = 0; c < 4; c++) over |= 4 * o < NT && sv_owns<NT>(w.quarter, 4 * o) && x[o][c] > w.top[o][c & 1] + HEADROOM;
  over = kx_any(over);
  if (!free) kx_mbar_wait(unused, (i / 2 - 1) & 1);
  if (over) sv_raise<NT>(t, w, i, x);
  sv_multiply_q<NT, FIRST_STEPS, K_STEPS>(w, a, s);
  if (t.lane == 0) kx_sts(t.smem + L::flag + 16 * (i & 1) + 4 * (uint32_t)w.quarter, (uint32_t)over);
  sv_weigh<NT>(t, w, i, x);
}

template <int NT, int MODE>
KX_DEVICE void sv_score_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, int quarter) {
  typedef sv_smem<NT> L;
  sv_scores<NT> w;
  float s[NT][4];
  w.quarter = quarter;
#pragma unroll
  for (int e = 0; e < 4; e++) w.sum[e / 2][e % 2] = 0, w.top[e / 2][e % 2] = -kx_inf();
  kx_mbar_wait(t.smem + L::q_full, 0);
  sv_take_q<NT>(t, w);
  kx_sync_warp();
  if (t.lane == 0) kx_mbar_arrive(t.smem + L::q_taken);
  kx_mbar_wait(t.smem + L::full, 0);
  if (MODE != SV_LOAD_ONLY) {
    uint32_t a[K_STEPS][4];
    sv_load_keys<0, K_STEPS>(t, quarter, 0, a);
#pragma unroll
    for (int j = 0; j < NT; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
    sv_multiply_q<NT, 0, K_STEPS>(w, a, s);
  }
  uint32_t stage = 0, lap = 0;
  for (uint32_t i = 0; i < seg.tiles; i++) {
    if (i + 1 < seg.tiles && ++stage == KVK_STAGES) stage = 0, lap ^= 1; /* the last turn repeats its own tile's products */
    if (MODE != SV_LOAD_ONLY) {
      sv_score_tile<NT>(p, t, seg, w, i, stage, lap, s);
    } else {
      kx_mbar_wait(t.smem + L::full + 8 * stage, lap);
      if (i >= 2) kx_mbar_wait(t.smem + L::unused + 8 * (i & 1), (i / 2 - 1) & 1);
    }
    kx_sync_warp();
    if (t.lane == 0) kx_mbar_arrive(t.smem + L::ready + 8 * (i & 1));
  }
  sv_leave_sums<NT>(p, t, seg, w);
}

/* --- value warps --- */

template <int NT>
struct sv_values {
  float o[8][NT][4]; /* O^T: 16 m + g (+ 8) of the warp's 128 columns; query rows 8 j + 2t, + 1 */
  uint32_t row;      /* of the tile, that this lane helps to fetch */
  int32_t slot;      /* of the next tile to fetch */
};

template <int NT>
KX_DEVICE int32_t sv_slot_of(const sv_params &p, const sv_segment &seg, const sv_values<NT> &v, uint32_t i) {
  return i < seg.tiles ? sv_slot(p, seg.request, seg.first, seg.prefix, (seg.first_tile + i) * KVK_TILE + v.row) : -1;
}

/* Row `row` of a tile or of Q to `to`: 9 lines of 128 bytes, 8 lanes each. Without a row zeros, so that nothing unwanted meets a
 * weight of 0. Each line lands on one line of shared memory: at 1168 bytes from row to row, which spreads banks too, an H200's
 * copies were 3 to 4 times as slow. */
KX_DEVICE void sv_copy_row(const sv_thread &t, uint32_t to, uint32_t row, const unsigned char *from, bool real) {
  const uint32_t chunk = t.lane & 7, its = to + 16 * (chunk ^ (row & 7));
#pragma unroll
  for (int line = 0; line < 9; line++) kx_copy16(its + (uint32_t)line * 128, from + 16 * chunk + line * 128, real);
}

/* The warp's 4 rows of a tile. */
template <int NT, int MODE>
KX_DEVICE void sv_fetch_tile(const sv_params &p, const sv_thread &t, const sv_values<NT> &v, int32_t slot, uint32_t stage) {
  const uint32_t bar = t.smem + sv_smem<NT>::full + 8 * stage;
  if (MODE == SV_MMA_ONLY) {
    kx_mbar_arrive(bar);
    return;
  }
  const bool real = slot >= 0;
  sv_copy_row(t, t.smem + stage * STAGE + v.row * PITCH, v.row, (const unsigned char *)p.kv + (real ? (int64_t)slot * p.kv_stride : 0), real);
  kx_copy_arrive(bar);
}

/* The group's rows of Q into the last three stages; missing rows are zeros. */
template <int NT>
KX_DEVICE void sv_fetch_q(const sv_params &p, const sv_thread &t, const sv_segment &seg, const sv_values<NT> &v) {
  const unsigned char *q = (const unsigned char *)p.q + (int64_t)seg.request * p.cut.rows * p.q_stride;
#pragma unroll 1
  for (uint32_t c = v.row; c < 8 * NT; c += 16) {
    const uint32_t row = seg.group * (uint32_t)p.cut.group_stride + c * (uint32_t)p.cut.row_stride;
    const bool real = c < (uint32_t)p.cut.group_rows && row < (uint32_t)p.cut.rows;
    sv_copy_row(t, t.smem + (KVK_STAGES - 3) * STAGE + c * PITCH, c, real ? q + (int64_t)row * p.q_stride : q, real);
  }
  kx_copy_arrive(t.smem + sv_smem<NT>::q_full);
}

KX_DEVICE void sv_zero_tiles(const sv_thread &t, uint32_t value_warp) {
  const kx_u4 zero = {0, 0, 0, 0};
  for (uint32_t at = 16 * (value_warp * 32 + t.lane); at < KVK_STAGES * STAGE; at += 16 * 128) kx_sts(t.smem + at, zero);
}

template <int NT>
KX_DEVICE void sv_shrink(const sv_thread &t, sv_values<NT> &v, uint32_t i) {
  typedef sv_smem<NT> L;
  const uint32_t which = i & 1;
  const kx_u4 flags = kx_lds_u4(t.smem + L::flag + 16 * which); /* of the warp that owns unit j: j % 4 */
  if (!(flags.x | flags.y | flags.z | flags.w)) return;
#pragma unroll
  for (int j = 0; j < NT; j++)
    if (j % 4 == 0 ? flags.x : j % 4 == 1 ? flags.y : j % 4 == 2 ? flags.z : flags.w) {
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

/* O^T += V^T P^T for tile i. */
template <int NT>
KX_DEVICE void sv_multiply_v(const sv_thread &t, sv_values<NT> &v, uint32_t value_warp, uint32_t i, uint32_t stage) {
  typedef sv_smem<NT> L;
  uint32_t b[NT + 1][2];
  const uint32_t weights = t.smem + L::weights + (i & 1) * L::weight_bytes + (t.lane & 15) * L::weight_stride + 16 * (t.lane >> 4);
  const uint32_t row = (t.lane & 7) + ((t.lane >> 4) << 3), chunk = (t.lane >> 3) & 1;
  const uint32_t at = t.smem + stage * STAGE + row * PITCH + 16 * (chunk ^ (row & 7)) + 256 * value_warp;
#pragma unroll
  for (int j = 0; j + 1 < NT; j += 2) kx_ldmatrix4_trans(b[j], weights + 16 * (uint32_t)j);
  if (NT % 2) kx_ldmatrix2_trans(b[NT - 1], weights - 16 * (t.lane >> 4) + 16 * (NT - 1));
#pragma unroll
  for (int m = 0; m < 8; m++) {
    uint32_t a[4];
    kx_ldmatrix4_trans(a, (at ^ 32 * (uint32_t)(m & 3)) + 128 * (uint32_t)(m >> 2));
#pragma unroll
    for (int j = 0; j < NT; j++) kx_mma(v.o[m][j], a, b[j][0], b[j][1]);
  }
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
    const kx_f2 inverse = kx_lds_f2(t.smem + L::inverse + 32 * (uint32_t)j + 8 * (t.lane & 3));
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
#pragma unroll
  for (uint32_t i = 0; i < KVK_STAGES; i++) slots[i] = sv_slot_of<NT>(p, seg, v, i);
  if (MODE == SV_MMA_ONLY) { /* products of zeros, but for what is left of Q */
    sv_zero_tiles(t, value_warp);
    kx_bar_sync(2, 128);
  }
  sv_fetch_q<NT>(p, t, seg, v);
#pragma unroll
  for (uint32_t i = 0; i < KVK_STAGES - 3; i++)
    if (i < seg.tiles) sv_fetch_tile<NT, MODE>(p, t, v, slots[i], i);
#pragma unroll
  for (int m = 0; m < 8; m++)
#pragma unroll
    for (int j = 0; j < NT; j++) v.o[m][j][0] = v.o[m][j][1] = v.o[m][j][2] = v.o[m][j][3] = 0;
  v.slot = sv_slot_of<NT>(p, seg, v, KVK_STAGES);
  kx_mbar_wait(t.smem + L::q_taken, 0);
#pragma unroll
  for (uint32_t i = KVK_STAGES - 3; i < KVK_STAGES; i++)
    if (i < seg.tiles) sv_fetch_tile<NT, MODE>(p, t, v, slots[i], i);
  uint32_t stage = 0, old_stage = 0, old_lap = 0, lap = 0;
  for (uint32_t i = 0; i < seg.tiles; i++) {
    if (i && i + KVK_STAGES - 1 < seg.tiles) {
      kx_mbar_wait(t.smem + L::empty + 8 * old_stage, old_lap);
      sv_fetch_tile<NT, MODE>(p, t, v, v.slot, old_stage);
      v.slot = sv_slot_of<NT>(p, seg, v, i + KVK_STAGES);
    }
    kx_mbar_wait(t.smem + L::ready + 8 * (i & 1), i / 2 & 1);
    if (MODE != SV_LOAD_ONLY) {
      sv_shrink<NT>(t, v, i);
      sv_multiply_v<NT>(t, v, value_warp, i, stage);
    }
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
  if (worker >= list.workers) return; /* left over by the cut into equal groups */
  while (at < end) {
    if (t.warp == 0) sv_find_segment<NT>(p, t, list, at, end);
    sv_reset<NT>(t);
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    const sv_segment seg = sv_read_segment<NT>(t);
    if (t.warp < 4) {
      sv_score_role<NT, MODE>(p, t, seg, (int)t.warp);
      kx_bar_sync(0, KVK_SPLIT_THREADS);
    } else {
      sv_value_role<NT, MODE>(p, t, seg, t.warp - 4);
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

/* Up to AT_ONCE partials at once, on the scale of the largest. -inf where there is none; a NaN reaches sum and values. */
template <int AT_ONCE>
KX_DEVICE void sv_add(sv_sum &x, const kx_u4 v[AT_ONCE], const kx_f2 lse[AT_ONCE]) {
#pragma unroll
  for (int q = 0; q < 2; q++) {
    float top = x.top[q];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) top = kx_max(top, q ? lse[i].y : lse[i].x);
    const float base = top == -kx_inf() ? 0.0f : top, shrink = kx_exp2(x.top[q] - base);
    x.top[q] = top;
    x.sum[q] *= shrink;
#pragma unroll
    for (int c = 0; c < 4; c++) x.acc[2 * c + q] *= shrink;
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const float weight = kx_exp2((q ? lse[i].y : lse[i].x) - base);
      const uint32_t word[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
      x.sum[q] += weight;
#pragma unroll
      for (int c = 0; c < 4; c++) x.acc[2 * c + q] += weight * kx_bits_float(q ? word[c] & 0xffff0000u : word[c] << 16);
    }
  }
}

/* This team's share of the partials. */
template <int TEAMS, int AT_ONCE>
KX_DEVICE void sv_walk(const sv_params &p, sv_range r, uint32_t unit, uint32_t team, uint32_t piece, sv_sum &x) {
  const uint32_t units = (uint32_t)p.cut.tiles8;
  const kx_f2 *lse = (const kx_f2 *)p.part_lse + ((uint64_t)r.first * units + unit) * 4 + (piece & 3), none = {-kx_inf(), -kx_inf()};
  const kx_u4 *from = (const kx_u4 *)p.part_out + ((uint64_t)r.first * units + unit) * 512 + piece, zero = {0, 0, 0, 0};
#pragma unroll 1
  for (uint32_t base = team; base < r.count; base += AT_ONCE * TEAMS) {
    kx_u4 v[AT_ONCE];
    kx_f2 l[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const uint32_t s = base + (uint32_t)(i * TEAMS);
      l[i] = s < r.count ? lse[(uint64_t)s * units * 4] : none;
      v[i] = s < r.count ? from[(uint64_t)s * units * 512] : zero;
    }
    sv_add<AT_ONCE>(x, v, l);
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
    top[0] = kx_max(top[0], its.x);
    top[1] = kx_max(top[1], its.z);
  }
  const float base[2] = {top[0] == -kx_inf() ? 0.0f : top[0], top[1] == -kx_inf() ? 0.0f : top[1]};
#pragma unroll
  for (uint32_t team = 0; team < TEAMS; team++) {
    const kx_f4 its = kx_lds_f4(smem + MERGE_STATS + 16 * (4 * team + (piece & 3)));
    const uint32_t at = smem + 32 * (team * (512 / TEAMS) + piece % (512 / TEAMS));
    const kx_f4 a = kx_lds_f4(at), b = kx_lds_f4(at + 16);
    const float w[2] = {kx_exp2(its.x - base[0]), kx_exp2(its.z - base[1])};
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

/* AT_ONCE partials a turn of a team; 9 of 8 teams: those of 132 blocks for two groups in one turn. BLOCKS: on an SM together. */
template <int TEAMS, int AT_ONCE, int BLOCKS>
KX_KERNEL KX_BOUNDS(512, BLOCKS) sv_merge_kernel(KX_PARAM sv_params p) {
  const uint32_t tid = kx_tid(), smem = kx_smem(), groups = (uint32_t)p.cut.groups, units = (uint32_t)p.cut.tiles8;
  const uint32_t slice = kx_block() % TEAMS, unit = kx_block() / TEAMS % units, which = kx_block() / TEAMS / units;
  const uint32_t request = which / groups, group = which % groups;
  const uint32_t team = tid / (512 / TEAMS), piece = slice * (512 / TEAMS) + tid % (512 / TEAMS);
  const sv_list list = sv_survey(p, request, tid % 32);
  const sv_range r = sv_partials_of(p, list, request, group, sv_units(p, sv_tiles(p, request)));
  sv_sum x = {{0, 0, 0, 0, 0, 0, 0, 0}, {-kx_inf(), -kx_inf()}, {0, 0}};
  kx_grid_wait();
  sv_walk<TEAMS, AT_ONCE>(p, r, unit, team, piece, x);
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
  if (NT >= 5 && kind == KVK_LOAD_ONLY) return kx_launch(sv_kernel<NT >= 5 ? NT : 5, SV_LOAD_ONLY>, g, p);
  if (NT >= 5 && kind == KVK_MMA_ONLY) return kx_launch(sv_kernel<NT >= 5 ? NT : 5, SV_MMA_ONLY>, g, p);
  return kx_launch(sv_kernel<NT, SV_FULL>, g, p);
}

/* One block an SM with as many teams as that allows; where even one team is more than that, two blocks an SM. The choice rests on
 * what the host knows, so a graph can hold it. */
const char *sv_start_merge(const sv_params &p, void *stream) {
  const unsigned units = (unsigned)(p.batch * p.cut.groups * p.cut.tiles8), room = p.blocks + p.blocks / 4;
  const unsigned teams = 8 * units <= room ? 8 : 4 * units <= room ? 4 : 2 * units <= room ? 2 : 1;
  const kx_grid grid = {units * teams, 1, MERGE_THREADS, MERGE_STATS + 64 * teams, true, stream};
  return teams == 8      ? kx_launch(sv_merge_kernel<8, 9, 1>, grid, p)
         : teams == 4    ? kx_launch(sv_merge_kernel<4, 9, 1>, grid, p)
         : teams == 2    ? kx_launch(sv_merge_kernel<2, 9, 1>, grid, p)
         : units <= room ? kx_launch(sv_merge_kernel<1, 9, 1>, grid, p)
                         : kx_launch(sv_merge_kernel<1, 4, 2>, grid, p);
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
                       : p.cut.tiles8 == 5 ? sv_start<5>(kind, grid, p)
                                           : sv_start<6>(kind, grid, p);
  return failed ? failed : sv_start_merge(p, stream);
}
