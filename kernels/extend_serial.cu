/* extend_serial: verify attention as SGLang's Triton extend kernel does it, the patient of this project.
 *
 * A block per (head, request): its up to 32 queries are the m side of the products, so 9 queries use 9 of 32 rows. It
 * walks the whole prefix alone, a tile of 64 (or 32) keys at a time, one stage:
 *     slots -> K's 512 columns through registers into shared memory -> barrier -> Q K^T -> barrier
 *           -> K's 64 rope columns the same way -> their share of Q K^T -> softmax, maxima and sums across warps
 *           -> V's 512 columns, which are K's once more, the same way -> P V
 * and then the tree block, with the mask. Every head fetches every row twice; nothing overlaps but what 8 warps overlap
 * by chance. That is its structure, kept on purpose; nothing in it delays.
 *
 * The 8 warps share out keys (Q K^T: 8 each; of 32 keys warps 4 to 7 repeat what 0 to 3 do) and output columns (P V: 64
 * each); every warp holds all 32 query rows. Maxima and sums cross the warps through shared memory in two steps. That is
 * how Triton 3.6 lays this kernel out for sm_90: 12 barriers a tile, two dependent chains of 36 products a warp.
 */
#include "attn_split.h"

namespace {

const uint32_t THREADS = 256, ROWS = 32, LATENT_BYTES = 2 * KVK_LATENT;

template <int BN>
struct ex_smem { /* byte offsets */
  static const uint32_t q = 0, tile = ROWS * KVK_ROW_BYTES;    /* q [32][576]; tile: K latent, K rope, V in turn */
  static const uint32_t weights = tile + BN * LATENT_BYTES;    /* [32][BN] */
  static const uint32_t across = weights + ROWS * BN * 2;      /* [32][8 warps] maxima or sums, then [32] */
  static const uint32_t bytes = across + 9 * ROWS * 4;
  static const uint32_t weight_stride = BN * 2;
};

struct ex_params {
  sv_params s; /* the arrays; its cut is not used but for rows */
};

template <int BN>
struct ex_thread {
  uint32_t smem, lane, warp;
  uint32_t head, request, prefix;
  uint64_t first;
  float acc[2][8][4]; /* 32 queries x 64 columns of a warp */
  float top[4], sum[4]; /* of queries g, g + 8, g + 16, g + 24 */
  int32_t slot[BN / 4];
};

/* Rows of shared memory are `stride` bytes apart; their 16-byte chunks are xor-swizzled inside 128 bytes. */
KX_DEVICE uint32_t ex_at(uint32_t base, uint32_t row, uint32_t stride, uint32_t chunk) {
  return base + row * stride + ((chunk ^ (row & 7)) << 4);
}

template <int BN>
KX_DEVICE void ex_find_slots(const sv_params &p, ex_thread<BN> &t, uint32_t key) {
#pragma unroll
  for (uint32_t r = 0; r < BN / 4; r++)
    t.slot[r] = sv_slot(p, t.request, t.first, t.prefix, key + (t.warp >> 1) + 4 * r);
}

/* A tile's 512 columns (K or V alike) into shared memory: a warp fetches half a row at once. */
template <int BN>
KX_DEVICE void ex_stage_latent(const sv_params &p, const ex_thread<BN> &t) {
  const kx_u4 zero = {0, 0, 0, 0};
  const uint32_t chunk = 32 * (t.warp & 1) + t.lane;
  kx_u4 v[BN / 4];
#pragma unroll
  for (uint32_t r = 0; r < BN / 4; r++) {
    const unsigned char *row = (const unsigned char *)p.kv + (int64_t)t.slot[r] * p.kv_stride + 16 * chunk;
    v[r] = t.slot[r] >= 0 ? *(const kx_u4 *)row : zero;
  }
  kx_bar_sync(0, THREADS); /* the tile's last use is over */
#pragma unroll
  for (uint32_t r = 0; r < BN / 4; r++)
    kx_sts(ex_at(t.smem + ex_smem<BN>::tile, (t.warp >> 1) + 4 * r, LATENT_BYTES, chunk), v[r]);
  kx_bar_sync(0, THREADS);
}

template <int BN>
KX_DEVICE void ex_stage_rope(const sv_params &p, const ex_thread<BN> &t, uint32_t key) {
  const kx_u4 zero = {0, 0, 0, 0};
  const uint32_t chunk = t.lane & 7, first = 4 * t.warp + t.lane / 8;
  kx_u4 v[BN / 32];
#pragma unroll
  for (uint32_t r = 0; r < BN / 32; r++) {
    const int32_t slot = sv_slot(p, t.request, t.first, t.prefix, key + first + 32 * r);
    const unsigned char *row = (const unsigned char *)p.kv + (int64_t)slot * p.kv_stride + LATENT_BYTES + 16 * chunk;
    v[r] = slot >= 0 ? *(const kx_u4 *)row : zero;
  }
  kx_bar_sync(0, THREADS);
#pragma unroll
  for (uint32_t r = 0; r < BN / 32; r++) kx_sts(ex_at(t.smem + ex_smem<BN>::tile, first + 32 * r, 128, chunk), v[r]);
  kx_bar_sync(0, THREADS);
}

template <int BN>
KX_DEVICE void ex_stage_q(const sv_params &p, const ex_thread<BN> &t) {
  const kx_u4 zero = {0, 0, 0, 0};
  for (uint32_t i = kx_tid(); i < ROWS * 72; i += THREADS) {
    const uint32_t query = i / 72, chunk = i % 72;
    const uint64_t row = ((uint64_t)t.request * (uint32_t)p.queries + query) * (uint32_t)p.heads + t.head;
    const unsigned char *from = (const unsigned char *)p.q + (int64_t)row * p.q_stride + 16 * chunk;
    const kx_u4 v = query < (uint32_t)p.queries ? *(const kx_u4 *)from : zero;
    kx_sts(ex_at(t.smem + ex_smem<BN>::q, query, KVK_ROW_BYTES, chunk), v);
  }
}

/* s += Q K^T over `steps` times 16 columns, from chunk q_chunk of Q's rows; K's rows lie `stride` apart. */
template <int BN, int STEPS>
KX_DEVICE void ex_multiply_q(const ex_thread<BN> &t, uint32_t q_chunk, uint32_t stride, float s[2][4]) {
  const uint32_t key = 8 * (t.warp % (BN / 8)) + (t.lane & 7);
#pragma unroll
  for (uint32_t k = 0; k < STEPS; k += 2) {
    uint32_t a[4], b[4];
    kx_ldmatrix4(b, ex_at(t.smem + ex_smem<BN>::tile, key, stride, 2 * k + (t.lane >> 3))); /* two steps at once */
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t row = 16 * (i & 1) + (t.lane & 15), chunk = q_chunk + 2 * k + (i & 2) + (t.lane >> 4);
      kx_ldmatrix4(a, ex_at(t.smem + ex_smem<BN>::q, row, KVK_ROW_BYTES, chunk));
      kx_mma(s[i & 1], a, b[i & 2], b[(i & 2) + 1]);
    }
  }
}

/* Over the keys of a query: 4 lanes, then the warps. In: this thread's part for its 4 queries; out: the whole. */
template <int BN, bool MAX>
KX_DEVICE void ex_across(const ex_thread<BN> &t, float v[4]) {
  const uint32_t at = t.smem + ex_smem<BN>::across, tid = 32 * t.warp + t.lane;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++)
    for (int d = 1; d < 4; d *= 2) {
      const float other = kx_shfl_xor(v[i], d);
      v[i] = MAX ? kx_max(v[i], other) : v[i] + other;
    }
  kx_bar_sync(0, THREADS);
#pragma unroll
  for (uint32_t i = 0; i < 4; i++)
    if (t.lane % 4 == 0) kx_sts(at + 4 * (8 * (t.lane / 4 + 8 * i) + t.warp), v[i]);
  kx_bar_sync(0, THREADS);
  float one = kx_lds_f32(at + 4 * tid); /* query tid / 8, warp tid % 8 */
  for (int d = 1; d < BN / 8; d *= 2) {
    const float other = kx_shfl_xor(one, d);
    one = MAX ? kx_max(one, other) : one + other;
  }
  if (tid % 8 == 0) kx_sts(at + 4 * (8 * ROWS + tid / 8), one);
  kx_bar_sync(0, THREADS);
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) v[i] = kx_lds_f32(at + 4 * (8 * ROWS + t.lane / 4 + 8 * i));
}

template <int BN>
KX_DEVICE void ex_hide(const sv_params &p, const ex_thread<BN> &t, uint32_t tile_key, float s[2][4]) {
  uint32_t seen = 0;
#pragma unroll 1
  for (uint32_t e = 0; e < 8; e++) {
    const uint32_t key = tile_key + 8 * (t.warp % (BN / 8)) + 2 * (t.lane & 3) + (e & 1);
    const uint32_t query = 8 * (e / 2) + t.lane / 4;
    const bool real = query < (uint32_t)p.queries;
    if (key < t.prefix || (real && sv_sees(p, t.request, t.prefix, query * (uint32_t)p.heads, key))) seen |= 1u << e;
  }
#pragma unroll
  for (uint32_t e = 0; e < 8; e++)
    if (!(seen >> e & 1)) s[e / 4][e % 4] = -kx_inf();
}

/* Softmax of the tile: weights to shared memory, sums and accumulators on the scale of the new maximum. */
template <int BN>
KX_DEVICE void ex_soften(ex_thread<BN> &t, float s[2][4], float shrink[4]) {
  float top[4], sum[4];
#pragma unroll
  for (int i = 0; i < 4; i++) top[i] = kx_max(s[i / 2][2 * (i % 2)], s[i / 2][2 * (i % 2) + 1]);
  ex_across<BN, true>(t, top);
#pragma unroll
  for (int i = 0; i < 4; i++) {
    top[i] = kx_max(top[i], t.top[i]);
    shrink[i] = t.top[i] == top[i] ? 1.0f : kx_exp2(t.top[i] - top[i]);
    t.top[i] = top[i];
    if (top[i] == -kx_inf()) top[i] = 0; /* nothing seen yet */
    for (int e = 0; e < 2; e++) {
      float &x = s[i / 2][2 * (i % 2) + e];
      x = kx_exp2(x - top[i]);
    }
    sum[i] = s[i / 2][2 * (i % 2)] + s[i / 2][2 * (i % 2) + 1];
  }
  ex_across<BN, false>(t, sum);
#pragma unroll
  for (int i = 0; i < 4; i++) t.sum[i] = t.sum[i] * shrink[i] + sum[i];
}

/* Weights to shared memory, [32][BN]; 16-byte chunks xor-swizzled so that 8 rows spread over the banks. */
template <int BN>
KX_DEVICE uint32_t ex_weight_at(uint32_t smem, uint32_t row, uint32_t chunk) {
  const uint32_t mask = BN == 64 ? row & 7 : (row >> 1) & 3;
  return smem + ex_smem<BN>::weights + row * ex_smem<BN>::weight_stride + ((chunk ^ mask) << 4);
}

template <int BN>
KX_DEVICE void ex_store_weights(const ex_thread<BN> &t, const float s[2][4]) {
  if (t.warp >= BN / 8) return;
#pragma unroll
  for (uint32_t i = 0; i < 4; i++)
    kx_sts(ex_weight_at<BN>(t.smem, 8 * i + t.lane / 4, t.warp) + 4 * (t.lane & 3),
           kx_pack_bf16(s[i / 2][2 * (i % 2)], s[i / 2][2 * (i % 2) + 1]));
}

template <int BN>
KX_DEVICE void ex_multiply_v(ex_thread<BN> &t, const float shrink[4]) {
#pragma unroll
  for (int m = 0; m < 2; m++)
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) t.acc[m][n][i] *= shrink[2 * m + i / 2];
#pragma unroll
  for (uint32_t k = 0; k < BN / 16; k++) {
    uint32_t a[2][4], b[4];
    kx_ldmatrix4(a[0], ex_weight_at<BN>(t.smem, t.lane & 15, 2 * k + (t.lane >> 4)));
    kx_ldmatrix4(a[1], ex_weight_at<BN>(t.smem, 16 + (t.lane & 15), 2 * k + (t.lane >> 4)));
#pragma unroll
    for (uint32_t n = 0; n < 8; n += 2) {
      kx_ldmatrix4_trans(b, ex_at(t.smem + ex_smem<BN>::tile, 16 * k + (t.lane & 15), LATENT_BYTES, 8 * t.warp + n + (t.lane >> 4)));
#pragma unroll
      for (int m = 0; m < 2; m++) {
        kx_mma(t.acc[m][n], a[m], b[0], b[1]);
        kx_mma(t.acc[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

template <int BN>
KX_DEVICE void ex_tile(const sv_params &p, ex_thread<BN> &t, uint32_t key) {
  float s[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}}, shrink[4];
  ex_find_slots<BN>(p, t, key);
  ex_stage_latent<BN>(p, t); /* K */
  ex_multiply_q<BN, 32>(t, 0, LATENT_BYTES, s);
  ex_stage_rope<BN>(p, t, key);
  ex_multiply_q<BN, 4>(t, 64, 128, s);
#pragma unroll
  for (int e = 0; e < 8; e++) s[e / 4][e % 4] *= p.scale_log2;
  if (key + BN > t.prefix) ex_hide<BN>(p, t, key, s);
  ex_soften<BN>(t, s, shrink);
  ex_store_weights<BN>(t, s);
  ex_stage_latent<BN>(p, t); /* V */
  ex_multiply_v<BN>(t, shrink);
}

template <int BN>
KX_DEVICE void ex_store(const sv_params &p, const ex_thread<BN> &t) {
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    const uint32_t query = t.lane / 4 + 8 * i;
    if (query >= (uint32_t)p.queries) continue;
    const uint64_t row = ((uint64_t)t.request * (uint32_t)p.queries + query) * (uint32_t)p.heads + t.head;
    const float inverse = t.sum[i] == 0 ? 0.0f : 1.0f / t.sum[i];
    uint32_t *out = (uint32_t *)(p.out + row * KVK_LATENT + 64 * t.warp) + (t.lane & 3);
#pragma unroll
    for (int n = 0; n < 8; n++)
      out[4 * n] = kx_pack_bf16(t.acc[i / 2][n][2 * (i % 2)] * inverse, t.acc[i / 2][n][2 * (i % 2) + 1] * inverse);
    if (p.lse && t.warp == 0 && t.lane % 4 == 0) p.lse[row] = (t.top[i] + kx_log2(t.sum[i])) * 0.693147180559945309f;
  }
}

template <int BN>
KX_KERNEL KX_BOUNDS(256, 1) ex_kernel(KX_PARAM ex_params params) {
  if (!KX_HAS_SMEM(ex_smem<BN>::bytes)) return; /* not built where a block cannot have that much: sm_86, 89, 12x */
  const sv_params &p = params.s;
  ex_thread<BN> t;
  t.smem = kx_smem();
  t.lane = kx_tid() % 32;
  t.warp = kx_tid() / 32;
  t.head = kx_block();
  t.request = kx_block_y();
  t.first = p.indptr[t.request];
  t.prefix = sv_prefix(p, t.request);
#pragma unroll
  for (int i = 0; i < 4; i++) t.top[i] = -kx_inf(), t.sum[i] = 0;
#pragma unroll
  for (int e = 0; e < 64; e++) t.acc[e / 32][e / 4 % 8][e % 4] = 0;
  ex_stage_q<BN>(p, t);
  const uint32_t keys = t.prefix + (uint32_t)p.tree;
  for (uint32_t key = 0; key < keys; key += BN) ex_tile<BN>(p, t, key);
  ex_store<BN>(p, t);
}

} // namespace

extern "C" const char *KX_NAME(extend)(kvk_kind kind, const kvk_problem *x, const kvk_options *options, void *stream) {
  ex_params p = {};
  (void)options;
  p.s.q = x->q;
  p.s.kv = x->kv;
  p.s.q_stride = 2 * x->q_row_stride;
  p.s.kv_stride = 2 * x->kv_row_stride;
  p.s.indptr = x->indptr;
  p.s.mask_indptr = x->mask_indptr;
  p.s.slots = x->slots;
  p.s.tree_slots = x->tree_slots;
  p.s.mask = x->mask;
  p.s.out = x->out;
  p.s.lse = x->lse;
  p.s.scale_log2 = x->scale * 1.44269504088896341f;
  p.s.batch = x->batch;
  p.s.queries = x->queries;
  p.s.heads = x->heads;
  p.s.tree = x->tree_slots ? x->queries : 0;
  p.s.mask_kind = x->mask_kind;
  p.s.cut.rows = x->queries * x->heads;
  /* the least L1, as Triton asks for a kernel with that much shared memory: V, read after K, then crosses the link once more */
  kx_grid grid = {(unsigned)x->heads, (unsigned)x->batch, THREADS, 0, false, stream, true};
  grid.smem = kind == KVK_EXTEND_SERIAL_64 ? ex_smem<64>::bytes : ex_smem<32>::bytes;
  return kind == KVK_EXTEND_SERIAL_64 ? kx_launch(ex_kernel<64>, grid, p) : kx_launch(ex_kernel<32>, grid, p);
}
