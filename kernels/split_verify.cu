/* split_verify: all query rows of a request share each KV row that a block fetches.
 *
 * A block of 8 warps holds up to 48 query rows and walks tiles of 16 H keys: H = 2 where a block has the shared memory (sm_90,
 * sm_100), else 1. With keys and values as the m side of mma.m16n8k16 (S^T = K Q^T, O^T = V^T P^T), query rows come in units of 8:
 * 36 rows waste 4, 48 none.
 *   - 4 score warps: each multiplies a quarter of the 576 columns, its quarter of Q resident in registers; the partial
 *     scores are exchanged lane by lane through shared memory, and each warp finishes the units of query rows it owns
 *     (unit u: warp u % 4): softmax weights to shared memory. The products of the next tile are issued between the steps
 *     of this tile's softmax, the first of its keys loaded before the exchange, so that latencies (exchange, votes,
 *     exponentials) are covered.
 *   - 4 value warps: each holds 128 of the 512 output columns for all query rows in registers, multiplies weights and
 *     tile, and before it waits for weights fetches 4 H of the 16 H rows of a tile to come (cp.async, 8 lanes a row).
 * A tile's life: fetched; multiplied with Q while its predecessor is softened; softened; multiplied with the weights. 4 tiles
 * of 16 keys in shared memory, with the exchange 96 KB, <= 101,376 B; or 5 of 32, 224 KB.
 *
 * The running maximum of a query row is raised only when a logit exceeds it by 2^8 (weights then stay far inside bf16's
 * range); raised rows leave a factor for the value warps' accumulators.
 */
#include "split_parts.h"
namespace {

const int K_STEPS = KVK_ROW_VALUES / 4 / 16; /* of one score warp: a quarter of the columns, 8 of latent and 1 of rope */

template <int NT, int H>
struct sv_smem { /* byte offsets */
  static const int rows = 8 * NT;
  static const uint32_t stages = H == 2 ? KVK_WIDE_STAGES : KVK_STAGES, tile_bytes = H * STAGE;
  static const uint32_t q_stages = H == 2 ? 2 : 3, q_at = (stages - q_stages) * tile_bytes; /* the last ones hold Q at first */
  static const uint32_t weight_stride = H == 2 ? 16 * (NT | 1) : 16 * NT, weight_bytes = H * KVK_TILE * weight_stride;
  static const uint32_t exchange_bytes = H * 3 * 512 * NT;
  static const uint32_t exchange = stages * tile_bytes;          /* [2][half][unit][3 senders][lane] 16 bytes */
  static const uint32_t weights = exchange + 2 * exchange_bytes; /* [2][16 H keys][rows] bf16 */
  static const uint32_t factor = weights + 2 * weight_bytes;     /* [2][rows] */
  static const uint32_t inverse = factor + 8 * rows;             /* [rows] */
  static const uint32_t flag = inverse + 4 * rows;               /* [2][4 score warps] */
  static const uint32_t segment = flag + 32;                     /* 8 words */
  static const uint32_t sees = segment + 32;                     /* [rows] words: which nodes of the tree a row sees */
  static const uint32_t queries = sees + 4 * rows;               /* [32] words: the same of a query */
  static const uint32_t bars = queries + 128;
  static const uint32_t full = bars, ready = full + 8 * stages, unused = ready + 16;
  static const uint32_t q_full = unused + 16, q_taken = q_full + 8, bytes = q_taken + 8;
};

static_assert(sv_smem<5, 1>::bytes == KVK_SPLIT_SMEM(5) && sv_smem<6, 1>::bytes == KVK_SPLIT_SMEM(6) &&
              sv_smem<6, 1>::bytes <= KVK_SMEM_LIMIT, "kvk_describe() states what a block uses");
static_assert(sv_smem<5, 2>::bytes == KVK_WIDE_SMEM(5) && sv_smem<6, 2>::bytes == KVK_WIDE_SMEM(6) &&
              sv_smem<6, 2>::bytes <= KVK_WIDE_LIMIT, "kvk_describe() states what a block uses");

/* Barriers of a segment, by warp 1, while warp 0 looks for it. Every lane of the 4 warps that an mbarrier waits for arrives
 * for itself: what one lane would say for its warp after __syncwarp is not seen by compute-sanitizer, because the compiler leaves
 * that instruction out where it knows the warp to be together. */
template <int NT, int H>
KX_DEVICE void sv_set_up(const sv_thread &t) {
  typedef sv_smem<NT, H> L;
  if (t.warp == 1 && 8 * t.lane < L::bytes - L::bars) kx_mbar_init(t.smem + L::bars + 8 * t.lane, 128);
}

template <int NT, int H>
KX_DEVICE void sv_clear(const sv_thread &t) {
  typedef sv_smem<NT, H> L;
  if (t.warp == 1 && 8 * t.lane < L::bytes - L::bars) kx_mbar_inval(t.smem + L::bars + 8 * t.lane);
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

template <int NT>
KX_DEVICE void sv_take_q(const sv_thread &t, uint32_t q_at, sv_scores<NT> &w) {
  const uint32_t base = q_at + (t.lane & 7) * PITCH, high = t.lane >> 3, turn = t.lane & 7;
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

/* Where chunk `chunk` < 8 of 16 bytes of a line of row `row` lies; and from there, chunk + 2 n of the row. */
KX_DEVICE uint32_t sv_chunk(uint32_t line_at, uint32_t row, uint32_t chunk) { return line_at + 16 * (chunk ^ (row & 7)); }
KX_DEVICE uint32_t sv_step(uint32_t at, uint32_t n) { return (at ^ 32 * (n & 3)) + 128 * (n >> 2); }

/* This warp's columns of a tile of keys, steps FROM to TO - 1. */
template <int H, int FROM, int TO>
KX_DEVICE void sv_load_keys(const sv_thread &t, int quarter, uint32_t tile, uint32_t a[K_STEPS][H][4]) {
  const uint32_t row = t.lane & 15, at = tile + row * PITCH, high = t.lane >> 4;
  const uint32_t latent = sv_chunk(at + 256 * (uint32_t)quarter, row, high), rope = sv_chunk(at + 1024, row, 2 * (uint32_t)quarter + high);
#pragma unroll
  for (int k = FROM; k < TO; k++)
#pragma unroll
    for (int h = 0; h < H; h++) kx_ldmatrix4(a[k][h], (k < 8 ? sv_step(latent, (uint32_t)k) : rope) + (uint32_t)h * STAGE);
}

template <int NT, int H, int FROM, int TO>
KX_DEVICE void sv_multiply_q(const sv_scores<NT> &w, const uint32_t a[K_STEPS][H][4], float s[H][NT][4]) {
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

template <int NT, int H>
KX_DEVICE uint32_t sv_exchange_at(const sv_thread &t, uint32_t i, uint32_t half, uint32_t unit, uint32_t sender) {
  const uint32_t slot = (sender - unit % 4 - 1) & 3; /* the owner itself sends nothing */
  return t.smem + sv_smem<NT, H>::exchange + (i & 1) * sv_smem<NT, H>::exchange_bytes + (3 * (half * NT + unit) + slot) * 512 + 16 * t.lane;
}

/* Partial scores of the units that other warps own. */
template <int NT, int H>
KX_DEVICE void sv_send(const sv_thread &t, int quarter, uint32_t i, const float s[H][NT][4]) {
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int j = 0; j < NT; j++)
      if (!sv_owns<NT>(quarter, j)) {
        const kx_f4 v = {s[h][j][0], s[h][j][1], s[h][j][2], s[h][j][3]};
        kx_sts(sv_exchange_at<NT, H>(t, i, (uint32_t)h, sv_unit<NT>(quarter, j), (uint32_t)quarter), v);
      }
}

/* What the n-th other warp sent for the owned units; zeros where there is none. */
template <int NT, int H>
KX_DEVICE void sv_receive(const sv_thread &t, int quarter, uint32_t i, uint32_t n, kx_f4 v[2][H]) {
  const kx_f4 zero = {0, 0, 0, 0};
#pragma unroll
  for (int o = 0; o < 2; o++)
#pragma unroll
    for (int h = 0; h < H; h++) {
      v[o][h] = zero;
      if (4 * o < NT && sv_owns<NT>(quarter, 4 * o))
        v[o][h] = kx_lds_f4(sv_exchange_at<NT, H>(t, i, (uint32_t)h, (uint32_t)(quarter + 4 * o), (uint32_t)quarter + n + 1));
    }
}

template <int NT, int H>
KX_DEVICE void sv_add(float x[2][H][4], const kx_f4 v[2][H]) {
#pragma unroll
  for (int o = 0; o < 2; o++)
#pragma unroll
    for (int h = 0; h < H; h++)
      if (4 * o < NT) {
        x[o][h][0] += v[o][h].x;
        x[o][h][1] += v[o][h].y;
        x[o][h][2] += v[o][h].z;
        x[o][h][3] += v[o][h].w;
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

/* Tiles with tree nodes or past the end: -inf for what a query does not see. Keys past the tree nobody sees. */
template <int NT, int H>
KX_DEVICE void sv_hide(const sv_params &p, const sv_thread &t, const sv_segment &seg, int quarter, uint32_t tile, float x[2][H][4]) {
  const int32_t node = (int32_t)(tile * H * KVK_TILE + t.lane / 4 - seg.prefix);
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT && sv_owns<NT>(quarter, 4 * o)) {
      const uint32_t at = t.smem + sv_smem<NT, H>::sees + 32 * (uint32_t)(quarter + 4 * o) + 8 * (t.lane & 3);
      const uint32_t sees[2] = {kx_lds_u32(at), kx_lds_u32(at + 4)};
#pragma unroll
      for (int h = 0; h < H; h++)
#pragma unroll
        for (int c = 0; c < 4; c++) {
          const int32_t its = node + KVK_TILE * h + (c & 2) * 4;
          if (its >= 0 && (its >= p.tree || !(sees[c & 1] >> its & 1))) x[o][h][c] = -kx_inf();
        }
    }
}

/* Whether a logit of the owned rows is so far above the maximum that it must be raised; for the whole warp. */
template <int NT, int H>
KX_DEVICE bool sv_over(const sv_scores<NT> &w, const float x[2][H][4]) {
  bool over = false;
#pragma unroll
  for (int o = 0; o < 2; o++)
#pragma unroll
    for (int h = 0; h < H; h++)
#pragma unroll
      for (int c = 0; c < 4; c++) over |= 4 * o < NT && sv_owns<NT>(w.quarter, 4 * o) && x[o][h][c] > w.top[o][c & 1] + HEADROOM;
  return kx_any(over);
}

/* Raises the maximum of the owned rows to this tile's, leaves the factors by which older sums shrink. */
template <int NT, int H>
KX_DEVICE void sv_raise(const sv_thread &t, sv_scores<NT> &w, uint32_t i, const float x[2][H][4]) {
  typedef sv_smem<NT, H> L;
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT && sv_owns<NT>(w.quarter, 4 * o)) {
      float f[2];
#pragma unroll
      for (int c = 0; c < 2; c++) {
        float most = kx_max(x[o][0][c], x[o][0][c + 2]), old = w.top[o][c];
        if (H == 2) most = kx_max(most, kx_max(x[o][H - 1][c], x[o][H - 1][c + 2]));
        for (int d = 4; d < 32; d *= 2) most = kx_max(most, kx_shfl_xor(most, d));
        most = kx_max(most, old);
        f[c] = most == old ? 1.0f : kx_exp2(old - most);
        w.top[o][c] = most;
        w.sum[o][c] *= f[c];
      }
      const kx_f2 factor = {f[0], f[1]};
      if (t.lane < 4)
        kx_sts(t.smem + L::factor + (i & 1) * 4 * L::rows + 32 * (uint32_t)(w.quarter + 4 * o) + 8 * t.lane, factor);
    }
}

template <int NT, int H>
KX_DEVICE void sv_weigh(const sv_thread &t, sv_scores<NT> &w, uint32_t i, const float x[2][H][4]) {
  typedef sv_smem<NT, H> L;
  const uint32_t at = t.smem + L::weights + (i & 1) * L::weight_bytes + (t.lane / 4) * L::weight_stride + 4 * (t.lane & 3);
#pragma unroll
  for (int o = 0; o < 2; o++)
    if (4 * o < NT)
#pragma unroll
      for (int h = 0; h < H; h++) {
        float e[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
          const float top = w.top[o][c & 1];
          e[c] = kx_exp2(x[o][h][c] - (top == -kx_inf() ? 0.0f : top)); /* nothing seen yet: -inf - 0, not -inf - -inf */
        }
        w.sum[o][0] += e[0] + e[2];
        w.sum[o][1] += e[1] + e[3];
        const uint32_t unit = at + 16 * (uint32_t)(w.quarter + 4 * o) + (uint32_t)h * KVK_TILE * L::weight_stride;
        if (sv_owns<NT>(w.quarter, 4 * o)) {
          kx_sts(unit, kx_pack_bf16(e[0], e[1]));
          kx_sts(unit + 8 * L::weight_stride, kx_pack_bf16(e[2], e[3]));
        }
      }
}

/* At the end of a segment: 1 / sum of the owned rows for the value warps, their logarithms for the merge. */
template <int NT, int H>
KX_DEVICE void sv_leave_sums(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT> &w) {
  typedef sv_smem<NT, H> L;
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
        kx_store8(p.part_lse + (uint64_t)seg.partial * L::rows + row, lse);
      }
    }
}

/* One tile: s holds this warp's partial scores of tile i and, on return, those of the tile at `next`, unless it is the LAST. The
 * products of that one fill the time in which this one's scores travel. */
template <int NT, int H, bool LAST>
KX_DEVICE void sv_score_tile(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_scores<NT> &w, uint32_t i,
                             uint32_t next, float s[H][NT][4]) {
  typedef sv_smem<NT, H> L;
  /* where the steps of the softmax stand between the products: the fastest of some ten orders on an H200 */
  const int A = H == 2 ? 2 : 4, B = H == 2 ? 5 : 4, C = H == 2 ? 6 : 9, second = NT > 4 ? 4 : 0;
  const uint32_t unused = t.smem + L::unused + 8 * (i & 1);
  uint32_t a[K_STEPS][H][4];
  kx_f4 v[2][H], u[2][H];
  float x[2][H][4];
  if (!LAST) sv_load_keys<H, 0, A>(t, w.quarter, next, a);
#pragma unroll
  for (int h = 0; h < H; h++)
#pragma unroll
    for (int c = 0; c < 4; c++) x[0][h][c] = s[h][0][c], x[1][h][c] = s[h][second][c];
  sv_send<NT, H>(t, w.quarter, i, s);
  kx_bar_sync(1, 128);
  sv_receive<NT, H>(t, w.quarter, i, 0, v);
  sv_receive<NT, H>(t, w.quarter, i, 1, u);
  if (!LAST) sv_zero_scores<NT, H>(s);
  if (!LAST) sv_multiply_q<NT, H, 0, A>(w, a, s);
  if (!LAST) sv_load_keys<H, A, B>(t, w.quarter, next, a);
  sv_add<NT, H>(x, v);
  sv_add<NT, H>(x, u);
  sv_receive<NT, H>(t, w.quarter, i, 2, v);
  const bool free = i < 2 || kx_mbar_test(unused, (i / 2 - 1) & 1);
  if (!LAST) sv_multiply_q<NT, H, A, B>(w, a, s);
  if (!LAST) sv_load_keys<H, B, C>(t, w.quarter, next, a);
  sv_add<NT, H>(x, v);
#pragma unroll
  for (int e = 0; e < 8 * H; e++) x[e / (4 * H)][e / 4 % H][e % 4] *= p.scale_log2;
  if ((seg.first_tile + i + 1) * H * KVK_TILE > seg.prefix) sv_hide<NT, H>(p, t, seg, w.quarter, seg.first_tile + i, x);
  const bool over = sv_over<NT, H>(w, x);
  if (!free) kx_mbar_wait(unused, (i / 2 - 1) & 1);
  if (over) sv_raise<NT, H>(t, w, i, x);
  if (!LAST) sv_multiply_q<NT, H, B, C>(w, a, s);
  if (!LAST) sv_load_keys<H, C, K_STEPS>(t, w.quarter, next, a);
  if (t.lane == 0) kx_sts(t.smem + L::flag + 16 * (i & 1) + 4 * (uint32_t)w.quarter, (uint32_t)over);
  sv_weigh<NT, H>(t, w, i, x);
  kx_mbar_arrive(t.smem + L::ready + 8 * (i & 1));
  if (!LAST) sv_multiply_q<NT, H, C, K_STEPS>(w, a, s);
}

/* Load-only: nothing is done with a tile. */
template <int NT, int H>
KX_DEVICE void sv_pass_tile(const sv_thread &t, uint32_t i) {
  typedef sv_smem<NT, H> L;
  if (i >= 2) kx_mbar_wait(t.smem + L::unused + 8 * (i & 1), (i / 2 - 1) & 1);
  kx_mbar_arrive(t.smem + L::ready + 8 * (i & 1));
}

template <int NT, int H, int MODE>
KX_DEVICE void sv_score_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, int quarter) {
  typedef sv_smem<NT, H> L;
  sv_scores<NT> w;
  float s[H][NT][4];
  w.quarter = quarter;
#pragma unroll
  for (int e = 0; e < 4; e++) w.sum[e / 2][e % 2] = 0, w.top[e / 2][e % 2] = -kx_inf();
  if ((seg.first_tile + seg.tiles) * H * KVK_TILE > seg.prefix) sv_look_up_tree<NT, H>(p, t, seg, (uint32_t)quarter);
  kx_mbar_wait(t.smem + L::q_full, 0);
  sv_take_q<NT>(t, t.smem + L::q_at, w);
  kx_mbar_arrive(t.smem + L::q_taken);
  kx_mbar_wait(t.smem + L::full, 0);
  if (MODE != SV_LOAD_ONLY) {
    uint32_t a[K_STEPS][H][4];
    sv_zero_scores<NT, H>(s);
    sv_load_keys<H, 0, 5>(t, quarter, t.smem, a);
    sv_multiply_q<NT, H, 0, 5>(w, a, s);
    sv_load_keys<H, 5, K_STEPS>(t, quarter, t.smem, a);
    sv_multiply_q<NT, H, 5, K_STEPS>(w, a, s);
  }
  uint32_t stage = 0, lap = 0, i = 0;
#pragma unroll 1
  for (; i + 1 < seg.tiles; i++) {
    if (++stage == L::stages) stage = 0, lap ^= 1;
    kx_mbar_wait(t.smem + L::full + 8 * stage, lap);
    if (MODE != SV_LOAD_ONLY) {
      sv_score_tile<NT, H, false>(p, t, seg, w, i, t.smem + stage * L::tile_bytes, s);
    } else {
      sv_pass_tile<NT, H>(t, i);
    }
  }
  if (MODE != SV_LOAD_ONLY) {
    sv_score_tile<NT, H, true>(p, t, seg, w, i, t.smem, s);
  } else {
    sv_pass_tile<NT, H>(t, i);
  }
  sv_leave_sums<NT, H>(p, t, seg, w);
  kx_mbar_arrive(t.smem + L::q_taken); /* its second phase: the sums are there */
}

/* --- value warps --- */

/* The rows of the next tile that a lane helps to fetch, one of every 16. */
template <int H>
struct sv_rows {
  int32_t slot[H];
  uint32_t row;
};

const uint32_t SLOT_LINE = 32, LINES_AHEAD = 8; /* slot numbers of a line of 128 bytes */

/* Brings a line of slot numbers into the L2 long before they are read: from DRAM they would come later than the rows, which
 * wait for them. */
KX_DEVICE void sv_expect_slots(const sv_params &p, const sv_segment &seg, uint32_t key) {
  if (key < seg.prefix) kx_prefetch(p.slots + seg.first + key);
}

template <int H>
KX_DEVICE void sv_load_slots(const sv_params &p, const sv_segment &seg, uint32_t i, sv_rows<H> &r) {
#pragma unroll
  for (int h = 0; h < H; h++)
    r.slot[h] = i < seg.tiles ? sv_slot(p, seg.request, seg.first, seg.prefix, ((seg.first_tile + i) * H + (uint32_t)h) * KVK_TILE + r.row) : -1;
}

/* Tile i into stage `stage`; asked for tile after tile. */
template <int NT, int H, int MODE>
KX_DEVICE void sv_fetch(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_rows<H> &r, uint32_t i, uint32_t stage) {
  typedef sv_smem<NT, H> L;
  const uint32_t full = t.smem + L::full + 8 * stage;
  if (MODE == SV_MMA_ONLY) kx_mbar_arrive(full);
#pragma unroll
  for (int h = 0; h < H && MODE != SV_MMA_ONLY; h++) {
    const uint32_t row = (uint32_t)h * KVK_TILE + r.row;
    const bool real = r.slot[h] >= 0;
    sv_copy_row(t.lane, t.smem + stage * L::tile_bytes + row * PITCH, row, (const unsigned char *)p.kv + (real ? (int64_t)r.slot[h] * p.kv_stride : 0), real);
  }
  if (MODE == SV_MMA_ONLY) return;
  kx_copy_arrive(full);
  sv_load_slots<H>(p, seg, i + 1, r);
  if (t.warp == 4 && t.lane == 0) sv_expect_slots(p, seg, (seg.first_tile + i) * H * KVK_TILE + SLOT_LINE * LINES_AHEAD);
}

/* The group's rows of Q; missing rows are zeros. */
template <int NT, int H>
KX_DEVICE void sv_fetch_q(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t first) {
  typedef sv_smem<NT, H> L;
  const unsigned char *q = (const unsigned char *)p.q + (int64_t)seg.request * p.cut.rows * p.q_stride;
#pragma unroll 1
  for (uint32_t c = first; c < 8 * NT; c += 16) {
    const uint32_t row = seg.group * (uint32_t)p.cut.group_stride + c * (uint32_t)p.cut.row_stride;
    const bool real = c < (uint32_t)p.cut.group_rows && row < (uint32_t)p.cut.rows;
    sv_copy_row(t.lane, t.smem + L::q_at + c * PITCH, c, real ? q + (int64_t)row * p.q_stride : q, real);
  }
  kx_copy_arrive(t.smem + L::q_full);
}

template <int NT, int H>
KX_DEVICE void sv_shrink(const sv_thread &t, sv_values<NT> &v, uint32_t i, const kx_u4 &flags) {
  typedef sv_smem<NT, H> L;
#pragma unroll
  for (int j = 0; j < NT; j++)
    if (j % 4 == 0 ? flags.x : j % 4 == 1 ? flags.y : j % 4 == 2 ? flags.z : flags.w)
      sv_scale_unit<NT>(v, j, kx_lds_f2(t.smem + L::factor + (i & 1) * 4 * L::rows + 32 * (uint32_t)j + 8 * (t.lane & 3)));
}

/* O^T += V^T P^T for tile i at `tile`; what the first products need is read before the flags are looked at. */
template <int NT, int H>
KX_DEVICE void sv_value_tile(const sv_thread &t, sv_values<NT> &v, uint32_t value_warp, uint32_t i, uint32_t tile) {
  typedef sv_smem<NT, H> L;
  const int AHEAD = NT == 6 && H == 1 ? 2 : 3; /* columns of 16; operands in flight */
  uint32_t b[NT + 1][2], a[AHEAD][4];
  const kx_u4 flags = kx_lds_u4(t.smem + L::flag + 16 * (i & 1)); /* of the warp that owns unit j: j % 4 */
  const uint32_t weights = t.smem + L::weights + (i & 1) * L::weight_bytes + (t.lane & 15) * L::weight_stride + 16 * (t.lane >> 4);
  const uint32_t row = (t.lane & 7) + ((t.lane >> 4) << 3), chunk = (t.lane >> 3) & 1;
  const uint32_t at = sv_chunk(tile + row * PITCH + 256 * value_warp, row, chunk);
#pragma unroll
  for (int n = 0; n < 8 * H + AHEAD; n++) {
    const int done = n - AHEAD;
    if (done >= 0)
#pragma unroll
      for (int j = 0; j < NT; j++) kx_mma(v.o[done % 8][j], a[n % AHEAD], b[j][0], b[j][1]);
    if (n == 0 || (H == 2 && done == 7)) {
      const uint32_t its = weights + (uint32_t)(done > 0) * KVK_TILE * L::weight_stride;
#pragma unroll
      for (int j = 0; j + 1 < NT; j += 2) kx_ldmatrix4_trans(b[j], its + 16 * (uint32_t)j);
      if (NT % 2) kx_ldmatrix2_trans(b[NT - 1], its - 16 * (t.lane >> 4) + 16 * (NT - 1));
    }
    if (n < 8 * H) kx_ldmatrix4_trans(a[n % AHEAD], sv_step(at, (uint32_t)(n % 8)) + (uint32_t)(n / 8) * STAGE);
    if (done == -1 && (flags.x | flags.y | flags.z | flags.w)) sv_shrink<NT, H>(t, v, i, flags);
  }
}

/* Slots of a segment's first tile, by the value warps. */
template <int H>
KX_DEVICE sv_rows<H> sv_first_slots(const sv_params &p, const sv_thread &t, const sv_segment &seg) {
  sv_rows<H> rows;
  rows.row = (4 * t.warp + t.lane / 8) & (KVK_TILE - 1);
  sv_load_slots<H>(p, seg, 0, rows);
  if (t.lane < LINES_AHEAD && t.warp == 4) sv_expect_slots(p, seg, seg.first_tile * H * KVK_TILE + SLOT_LINE * t.lane);
  return rows;
}

template <int NT, int H, int MODE>
KX_DEVICE void sv_value_role(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_rows<H> rows, uint32_t value_warp) {
  typedef sv_smem<NT, H> L;
  sv_values<NT> v;
  if (MODE == SV_MMA_ONLY) { /* products of zeros, but for what is left of Q */
    sv_zero_tiles(t.smem, L::stages * L::tile_bytes, 32 * value_warp + t.lane);
    kx_bar_sync(2, 128);
  }
  sv_fetch_q<NT, H>(p, t, seg, rows.row);
  uint32_t first = 0; /* a segment has a tile */
#pragma unroll 1
  do {
    sv_fetch<NT, H, MODE>(p, t, seg, rows, first, first);
  } while (++first < L::stages - L::q_stages && first < seg.tiles);
  kx_mbar_wait(t.smem + L::q_taken, 0);
#pragma unroll 1
  for (; first < L::stages && first < seg.tiles; first++) sv_fetch<NT, H, MODE>(p, t, seg, rows, first, first);
#pragma unroll
  for (int m = 0; m < 8; m++)
#pragma unroll
    for (int j = 0; j < NT; j++) v.o[m][j][0] = v.o[m][j][1] = v.o[m][j][2] = v.o[m][j][3] = 0;
  uint32_t stage = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < seg.tiles; i++) {
    if (i && i + L::stages - 1 < seg.tiles) { /* into the place of the tile before, once all value warps are done with it */
      kx_mbar_wait(t.smem + L::unused + 8 * ((i - 1) & 1), (i - 1) / 2 & 1);
      sv_fetch<NT, H, MODE>(p, t, seg, rows, i + L::stages - 1, (stage ? stage : L::stages) - 1);
    }
    kx_mbar_wait(t.smem + L::ready + 8 * (i & 1), i / 2 & 1);
    if (MODE != SV_LOAD_ONLY) sv_value_tile<NT, H>(t, v, value_warp, i, t.smem + stage * L::tile_bytes);
    kx_mbar_arrive(t.smem + L::unused + 8 * (i & 1)); /* its place, and its weights */
    if (++stage == L::stages) stage = 0;
  }
  kx_mbar_wait(t.smem + L::q_taken, 1); /* the sums are there */
  sv_leave_values<NT>(p, seg, t.lane, v, value_warp, t.smem + L::inverse);
}

/* ONE: one request, groups cut alike, so a block has one segment and every warp finds it by itself. It is a kernel of its own to
 * keep the way to the first loads short: code that has not run since the L2 was flushed takes longer than what it computes. */
template <int NT, int H, int MODE, bool ONE>
KX_KERNEL KX_BOUNDS(KVK_SPLIT_THREADS, 1) sv_kernel(KX_PARAM sv_params p) {
  typedef sv_smem<NT, H> L;
  if (!KX_HAS_SMEM(L::bytes)) { /* not built where a block cannot have that much */
    kx_trap();
    return;
  }
  /* Of a scheduler's two warps the younger one gets ahead of the other (an H200 was 4 to 5 % faster so): the score warps, the longer chain. */
  const sv_thread t = {kx_smem(), kx_tid() % 32, (kx_tid() / 32) ^ 4};
  kx_grid_release();
  if (ONE) {
    const uint64_t first = p.indptr[0];
    const uint32_t prefix = (uint32_t)(p.indptr[1] - first);
    sv_set_up<NT, H>(t);
    const sv_segment seg = sv_only_segment<H>(p, first, prefix);
    if (seg.tiles == 0) return;
    sv_rows<H> rows;
    if (t.warp >= 4) rows = sv_first_slots<H>(p, t, seg); /* on their way while the others get ready */
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    if (t.warp < 4) {
      sv_score_role<NT, H, MODE>(p, t, seg, (int)t.warp);
    } else {
      sv_value_role<NT, H, MODE>(p, t, seg, rows, t.warp - 4);
    }
    return;
  }
  const sv_list list = sv_survey(p, 0, t.lane); /* every warp for itself */
  sv_walk_of walk = sv_walk_list(p, list);
  while (walk.at < walk.end) {
    if (t.warp == 0) sv_find_segment(p, list, t.lane, walk.at, walk.end, t.smem + L::segment);
    sv_set_up<NT, H>(t);
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    const sv_segment seg = sv_read_segment(t.smem + L::segment);
    if (t.warp < 4) {
      sv_score_role<NT, H, MODE>(p, t, seg, (int)t.warp);
    } else {
      sv_value_role<NT, H, MODE>(p, t, seg, sv_first_slots<H>(p, t, seg), t.warp - 4);
    }
    walk.at += walk.step ? walk.step : seg.tiles;
    kx_bar_sync(3, KVK_SPLIT_THREADS); /* everybody is done with the barriers */
    sv_clear<NT, H>(t);
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
/* A turn of a team: AT_ONCE partials of its piece from `base` on. */
template <int AT_ONCE>
struct sv_turn {
  kx_u4 v[AT_ONCE];
  kx_f2 lse[AT_ONCE];
};

template <int AT_ONCE>
KX_DEVICE void sv_add_turn(sv_sum &x, const sv_turn<AT_ONCE> &t) {
#pragma unroll
  for (int q = 0; q < 2; q++) {
    float top = x.top[q];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) top = kx_max(top, q ? t.lse[i].y : t.lse[i].x);
    const float base = top == -kx_inf() ? 0.0f : top, shrink = kx_exp2(x.top[q] - base);
    x.top[q] = top;
    x.sum[q] *= shrink;
#pragma unroll
    for (int c = 0; c < 4; c++) x.acc[2 * c + q] *= shrink;
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      const float weight = kx_exp2((q ? t.lse[i].y : t.lse[i].x) - base);
      const uint32_t word[4] = {t.v[i].x, t.v[i].y, t.v[i].z, t.v[i].w};
      x.sum[q] += weight;
#pragma unroll
      for (int c = 0; c < 4; c++) x.acc[2 * c + q] += weight * kx_bits_float(q ? word[c] & 0xffff0000u : word[c] << 16);
    }
  }
}

/* What a thread works on: unit of 8 query rows, team, piece of the unit. */
struct sv_share {
  uint32_t unit, team, piece;
};

template <int TEAMS, int AT_ONCE>
KX_DEVICE void sv_load_turn(const sv_params &p, sv_range r, const sv_share &my, uint32_t base, sv_turn<AT_ONCE> &t) {
  const uint32_t units = (uint32_t)p.cut.tiles8;
  const kx_f2 *lse = (const kx_f2 *)p.part_lse + ((uint64_t)r.first * units + my.unit) * 4 + (my.piece & 3), none = {-kx_inf(), -kx_inf()};
  const kx_u4 *from = (const kx_u4 *)p.part_out + ((uint64_t)r.first * units + my.unit) * 512 + my.piece, zero = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++) {
    const uint32_t s = base + (uint32_t)(i * TEAMS);
    t.lse[i] = s < r.count ? kx_load8(lse + (uint64_t)s * units * 4) : none;
    t.v[i] = s < r.count ? kx_load16(from + (uint64_t)s * units * 512) : zero;
  }
}

/* Leaves out what was loaded past the last partial. */
template <int TEAMS, int AT_ONCE>
KX_DEVICE void sv_cut_turn(sv_range r, uint32_t base, sv_turn<AT_ONCE> &t) {
  const kx_f2 none = {-kx_inf(), -kx_inf()};
  const kx_u4 zero = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < AT_ONCE; i++)
    if (base + (uint32_t)(i * TEAMS) >= r.count) t.lse[i] = none, t.v[i] = zero;
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

/* AT_ONCE partials a turn of a team; 9 of 8 teams: those of 132 blocks for two groups in one turn. BLOCKS: on an SM together.
 * Grid: requests and groups x units and TEAMS slices of each. ONE: as in sv_kernel; its first loads do not wait for the length. */
template <int TEAMS, int AT_ONCE, int BLOCKS, bool ONE>
KX_KERNEL KX_BOUNDS(512, BLOCKS) sv_merge_kernel(KX_PARAM sv_params p) {
  const uint32_t tid = kx_tid(), smem = kx_smem(), groups = (uint32_t)p.cut.groups, slice = kx_block_y() % TEAMS;
  const uint32_t request = ONE ? 0 : kx_block() / groups, group = ONE ? kx_block() : kx_block() - request * groups;
  const sv_share my = {kx_block_y() / TEAMS, tid / (512 / TEAMS), slice * (512 / TEAMS) + tid % (512 / TEAMS)};
  sv_range r = {sv_partial(p, 0, 0, group), p.most_partials};
  sv_turn<AT_ONCE> turn;
  sv_sum x = {{0, 0, 0, 0, 0, 0, 0, 0}, {-kx_inf(), -kx_inf()}, {0, 0}};
  if (ONE) {
    kx_grid_wait();
    sv_load_turn<TEAMS, AT_ONCE>(p, r, my, my.team, turn);
    r.count = sv_only_partials(p);
  } else {
    const sv_list list = sv_survey(p, request, tid % 32);
    r = sv_partials_of(p, list, request, group, sv_units(p, sv_tiles(p, request)));
    kx_grid_wait();
    sv_load_turn<TEAMS, AT_ONCE>(p, r, my, my.team, turn);
  }
  if (ONE && r.count < p.most_partials) sv_cut_turn<TEAMS, AT_ONCE>(r, my.team, turn);
  for (uint32_t base = my.team; base < r.count;) {
    sv_add_turn<AT_ONCE>(x, turn);
    base += AT_ONCE * TEAMS;
    if (base < r.count) sv_load_turn<TEAMS, AT_ONCE>(p, r, my, base, turn);
  }
  if (TEAMS > 1) {
    const kx_f4 low = {x.acc[0], x.acc[1], x.acc[2], x.acc[3]}, high = {x.acc[4], x.acc[5], x.acc[6], x.acc[7]};
    const kx_f4 stat = {x.top[0], x.sum[0], x.top[1], x.sum[1]};
    kx_sts(smem + 32 * tid, low);
    kx_sts(smem + 32 * tid + 16, high);
    if (tid % (512 / TEAMS) < 4) kx_sts(smem + MERGE_STATS + 16 * (4 * my.team + (tid & 3)), stat);
    kx_bar_sync(0, (int)MERGE_THREADS);
    if (my.team) return;
    sv_join<TEAMS>(smem, my.piece, x);
  }
  sv_put(p, request, group, my.unit, my.piece, x);
}

template <int NT, int H>
const char *sv_start(kvk_kind kind, const kx_grid &grid, const sv_params &p) {
  const int M = NT >= 5 ? NT : 5;
  kx_grid g = grid;
  g.smem = sv_smem<NT, H>::bytes;
  if (NT >= 5 && kind == KVK_LOAD_ONLY) return kx_launch(sv_kernel<M, H, SV_LOAD_ONLY, false>, g, p);
  if (NT >= 5 && kind == KVK_MMA_ONLY) return kx_launch(sv_kernel<M, H, SV_MMA_ONLY, false>, g, p);
  return p.one ? kx_launch(sv_kernel<NT, H, SV_FULL, true>, g, p) : kx_launch(sv_kernel<NT, H, SV_FULL, false>, g, p);
}

template <int H>
const char *sv_start_units(kvk_kind kind, const kx_grid &grid, const sv_params &p) {
  return p.cut.tiles8 == 1   ? sv_start<1, H>(kind, grid, p)
         : p.cut.tiles8 == 2 ? sv_start<2, H>(kind, grid, p)
         : p.cut.tiles8 == 3 ? sv_start<3, H>(kind, grid, p)
         : p.cut.tiles8 == 5 ? sv_start<5, H>(kind, grid, p)
                             : sv_start<6, H>(kind, grid, p);
}

template <bool ONE>
const char *sv_start_teams(const kx_grid &grid, const sv_params &p, unsigned teams, bool fits) {
  return teams == 8   ? kx_launch(sv_merge_kernel<8, 9, 1, ONE>, grid, p)
         : teams == 4 ? kx_launch(sv_merge_kernel<4, 9, 1, ONE>, grid, p)
         : teams == 2 ? kx_launch(sv_merge_kernel<2, 9, 1, ONE>, grid, p)
         : fits       ? kx_launch(sv_merge_kernel<1, 9, 1, ONE>, grid, p)
                      : kx_launch(sv_merge_kernel<1, 4, 2, ONE>, grid, p);
}

/* One block an SM with as many teams as that allows; where even one team is more than that, two blocks an SM. The choice rests on
 * what the host knows, so a graph can hold it. With fixed splits always 8 teams: the order of sums must not depend on the batch. */
const char *sv_start_merge(const sv_params &p, void *stream) {
  const unsigned units = (unsigned)(p.batch * p.cut.groups * p.cut.tiles8), room = p.blocks + p.blocks / 4;
  const unsigned teams = p.fixed_tiles || 8 * units <= room ? 8 : 4 * units <= room ? 4 : 2 * units <= room ? 2 : 1;
  const kx_grid grid = {(unsigned)(p.batch * p.cut.groups), (unsigned)p.cut.tiles8 * teams, MERGE_THREADS, MERGE_STATS + 64 * teams, true, stream};
  return p.one ? sv_start_teams<true>(grid, p, teams, units <= room) : sv_start_teams<false>(grid, p, teams, units <= room);
}

/* Of one request and group: blocks that have a part of it. */
uint32_t sv_most_pieces(const kvk_problem *x, uint32_t tile_keys, uint32_t min_tiles, uint32_t workers) {
  const uint64_t tiles = (x->prefix_capacity + (uint64_t)x->queries + tile_keys - 1) / tile_keys, pieces = (tiles + min_tiles - 1) / min_tiles;
  return pieces < workers ? (uint32_t)pieces : workers;
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
  p.tile_keys = (uint32_t)kvk_tile_keys(&p.cut, o);
  p.min_tiles = (uint32_t)kvk_min_split_tiles(o, (int)p.tile_keys);
  p.fixed_tiles = (uint32_t)o->fixed_split_tokens / p.tile_keys;
  const uint32_t groups = (uint32_t)p.cut.groups;
  p.aligned = !p.fixed_tiles && p.blocks % groups * 32 <= p.blocks && groups <= p.blocks && p.blocks / groups <= 65535;
  p.workers = p.aligned ? p.blocks / groups : p.blocks;
  p.one = p.aligned && p.batch == 1;
  p.most_partials = sv_most_pieces(x, p.tile_keys, p.min_tiles, p.workers);
  return p;
}

} // namespace

extern "C" const char *KX_NAME(split)(kvk_kind kind, const kvk_problem *problem, const kvk_options *options,
                                      void *workspace, void *stream) {
  const sv_params p = sv_fill(kind, problem, options, workspace);
  const kx_grid grid = {p.aligned ? (unsigned)p.cut.groups : p.blocks, p.aligned ? p.workers : 1, KVK_SPLIT_THREADS, 0, false, stream};
  const char *failed = p.tile_keys == 2 * KVK_TILE ? sv_start_units<2>(kind, grid, p) : sv_start_units<1>(kind, grid, p);
  return failed ? failed : sv_start_merge(p, stream);
}
