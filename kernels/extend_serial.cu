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
 * 8 warps, 2 along the queries (16 rows each) x 4 along keys (Q K^T) or output columns (P V).
 */
#include "attn_split.h"

namespace {

const uint32_t THREADS = 256, ROWS = 32, LATENT_BYTES = 2 * KVK_LATENT;

template <int BN>
struct ex_smem { /* byte offsets */
  static const uint32_t q = 0, tile = ROWS * KVK_ROW_BYTES;    /* q [32][576]; tile: K latent, K rope, V in turn */
  static const uint32_t weights = tile + BN * LATENT_BYTES;    /* [32][BN] */
  static const uint32_t across = weights + ROWS * BN * 2;      /* [4 warps][32] maxima, then sums */
  static const uint32_t bytes = across + 2 * 4 * ROWS * 4;
  static const uint32_t weight_stride = BN * 2;
};

struct ex_params {
  sv_params s; /* the arrays; its cut is not used but for rows */
};

template <int BN>
struct ex_thread {
  uint32_t smem, lane, warp, along_m, along_n;
  uint32_t head, request, prefix;
  uint64_t first;
  float acc[16][4]; /* 16 queries x 128 columns of a warp */
  float top[2], sum[2];
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
KX_DEVICE void ex_multiply_q(const ex_thread<BN> &t, uint32_t q_chunk, uint32_t stride, float s[BN / 32][4]) {
  const uint32_t q_row = 16 * t.along_m + (t.lane & 15), low = t.lane & 7;
  const uint32_t key = (BN / 4) * t.along_n + low + (BN == 64 ? (t.lane >> 4) << 3 : 0);
#pragma unroll
  for (uint32_t k = 0; k < STEPS; k += 64 / BN) {
    uint32_t a[4], b[4];
    kx_ldmatrix4(a, ex_at(t.smem + ex_smem<BN>::q, q_row, KVK_ROW_BYTES, q_chunk + 2 * k + (t.lane >> 4)));
    if (BN == 64) { /* two units of 8 keys, one step */
      kx_ldmatrix4(b, ex_at(t.smem + ex_smem<BN>::tile, key, stride, 2 * k + ((t.lane >> 3) & 1)));
      kx_mma(s[0], a, b[0], b[1]);
      kx_mma(s[BN / 32 - 1], a, b[2], b[3]);
    } else { /* one unit of 8 keys, two steps at once */
      if (k % 2 == 0) kx_ldmatrix4(b, ex_at(t.smem + ex_smem<BN>::tile, key, stride, 2 * k + (t.lane >> 3)));
      kx_mma(s[0], a, b[0], b[1]);
      kx_ldmatrix4(a, ex_at(t.smem + ex_smem<BN>::q, q_row, KVK_ROW_BYTES, q_chunk + 2 * k + 2 + (t.lane >> 4)));
      kx_mma(s[0], a, b[2], b[3]);
    }
  }
}

/* Over the keys of a row: 4 lanes, then the 4 warps along the keys. */
template <int BN, bool MAX>
KX_DEVICE void ex_across(const ex_thread<BN> &t, float v[2]) {
  const uint32_t at = t.smem + ex_smem<BN>::across + (MAX ? 0 : 4 * ROWS * 4);
  const uint32_t row = 16 * t.along_m + t.lane / 4;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    for (int d = 1; d < 4; d *= 2) {
      const float other = kx_shfl_xor(v[i], d);
      v[i] = MAX ? kx_max(v[i], other) : v[i] + other;
    }
    if (t.lane % 4 == 0) kx_sts(at + 4 * (t.along_n * ROWS + row + 8 * (uint32_t)i), v[i]);
  }
  kx_bar_sync(0, THREADS);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    v[i] = kx_lds_f32(at + 4 * (row + 8 * (uint32_t)i));
    for (uint32_t w = 1; w < 4; w++) {
      const float other = kx_lds_f32(at + 4 * (w * ROWS + row + 8 * (uint32_t)i));
      v[i] = MAX ? kx_max(v[i], other) : v[i] + other;
    }
  }
}

template <int BN>
KX_DEVICE void ex_hide(const sv_params &p, const ex_thread<BN> &t, uint32_t tile_key, float s[BN / 32][4]) {
#pragma unroll
  for (uint32_t j = 0; j < BN / 32; j++)
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
      const uint32_t key = tile_key + (BN / 4) * t.along_n + 8 * j + 2 * (t.lane & 3) + (i & 1);
      const uint32_t query = 16 * t.along_m + t.lane / 4 + 4 * (i & 2);
      const bool seen = query < (uint32_t)p.queries && sv_sees(p, t.request, t.prefix, query * (uint32_t)p.heads, key);
      if (key >= t.prefix && !seen) s[j][i] = -kx_inf();
    }
}

/* Softmax of the tile: weights to shared memory, sums and accumulators on the scale of the new maximum. */
template <int BN>
KX_DEVICE void ex_soften(ex_thread<BN> &t, float s[BN / 32][4]) {
  float top[2] = {-kx_inf(), -kx_inf()}, sum[2] = {0, 0};
#pragma unroll
  for (int j = 0; j < BN / 32; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) top[i / 2] = kx_max(top[i / 2], s[j][i]);
  ex_across<BN, true>(t, top);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    top[i] = kx_max(top[i], t.top[i]);
    const float shrink = t.top[i] == top[i] ? 1.0f : kx_exp2(t.top[i] - top[i]);
    t.top[i] = top[i];
    t.sum[i] *= shrink;
#pragma unroll
    for (int n = 0; n < 16; n++) t.acc[n][2 * i] *= shrink, t.acc[n][2 * i + 1] *= shrink;
    if (top[i] == -kx_inf()) top[i] = 0; /* nothing seen yet */
  }
  const uint32_t row = 16 * t.along_m + t.lane / 4;
#pragma unroll
  for (uint32_t j = 0; j < BN / 32; j++) {
#pragma unroll
    for (int i = 0; i < 4; i++) s[j][i] = kx_exp2(s[j][i] - top[i / 2]), sum[i / 2] += s[j][i];
    const uint32_t chunk = (BN / 32) * t.along_n + j, at = t.smem + ex_smem<BN>::weights + 4 * (t.lane & 3);
    const uint32_t mask = BN == 64 ? row & 7 : (row >> 1) & 3;
    kx_sts(at + row * ex_smem<BN>::weight_stride + ((chunk ^ mask) << 4), kx_pack_bf16(s[j][0], s[j][1]));
    kx_sts(at + (row + 8) * ex_smem<BN>::weight_stride + ((chunk ^ mask) << 4), kx_pack_bf16(s[j][2], s[j][3]));
  }
  ex_across<BN, false>(t, sum);
  t.sum[0] += sum[0];
  t.sum[1] += sum[1];
}

template <int BN>
KX_DEVICE void ex_multiply_v(ex_thread<BN> &t) {
  const uint32_t row = 16 * t.along_m + (t.lane & 15), mask = BN == 64 ? row & 7 : (row >> 1) & 3;
#pragma unroll
  for (uint32_t k = 0; k < BN / 16; k++) {
    uint32_t a[4], b[4];
    kx_ldmatrix4(a, t.smem + ex_smem<BN>::weights + row * ex_smem<BN>::weight_stride + (((2 * k + (t.lane >> 4)) ^ mask) << 4));
    const uint32_t key = 16 * k + (t.lane & 15);
#pragma unroll
    for (uint32_t n = 0; n < 16; n += 2) {
      kx_ldmatrix4_trans(b, ex_at(t.smem + ex_smem<BN>::tile, key, LATENT_BYTES, 16 * t.along_n + n + (t.lane >> 4)));
      kx_mma(t.acc[n], a, b[0], b[1]);
      kx_mma(t.acc[n + 1], a, b[2], b[3]);
    }
  }
}

template <int BN>
KX_DEVICE void ex_tile(const sv_params &p, ex_thread<BN> &t, uint32_t key) {
  float s[BN / 32][4];
#pragma unroll
  for (int j = 0; j < BN / 32; j++) s[j][0] = s[j][1] = s[j][2] = s[j][3] = 0;
  ex_find_slots<BN>(p, t, key);
  ex_stage_latent<BN>(p, t);
  ex_multiply_q<BN, 32>(t, 0, LATENT_BYTES, s);
  ex_stage_rope<BN>(p, t, key);
  ex_multiply_q<BN, 4>(t, 64, 128, s);
#pragma unroll
  for (int j = 0; j < BN / 32; j++)
#pragma unroll
    for (int i = 0; i < 4; i++) s[j][i] *= p.scale_log2;
  if (key + BN > t.prefix) ex_hide<BN>(p, t, key, s);
  ex_soften<BN>(t, s);
  ex_stage_latent<BN>(p, t);
  ex_multiply_v<BN>(t);
}

template <int BN>
KX_DEVICE void ex_store(const sv_params &p, const ex_thread<BN> &t) {
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t query = 16 * t.along_m + t.lane / 4 + 8 * i;
    if (query >= (uint32_t)p.queries) continue;
    const uint64_t row = ((uint64_t)t.request * (uint32_t)p.queries + query) * (uint32_t)p.heads + t.head;
    const float inverse = t.sum[i] == 0 ? 0.0f : 1.0f / t.sum[i];
    uint32_t *out = (uint32_t *)(p.out + row * KVK_LATENT + 128 * t.along_n) + (t.lane & 3);
#pragma unroll
    for (int n = 0; n < 16; n++) out[4 * n] = kx_pack_bf16(t.acc[n][2 * i] * inverse, t.acc[n][2 * i + 1] * inverse);
    if (p.lse && t.along_n == 0 && t.lane % 4 == 0) p.lse[row] = (t.top[i] + kx_log2(t.sum[i])) * 0.693147180559945309f;
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
  t.along_m = t.warp & 1;
  t.along_n = t.warp >> 1;
  t.head = kx_block();
  t.request = kx_block_y();
  t.first = p.indptr[t.request];
  t.prefix = sv_prefix(p, t.request);
  t.top[0] = t.top[1] = -kx_inf();
  t.sum[0] = t.sum[1] = 0;
#pragma unroll
  for (int n = 0; n < 16; n++) t.acc[n][0] = t.acc[n][1] = t.acc[n][2] = t.acc[n][3] = 0;
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
  kx_grid grid = {(unsigned)x->heads, (unsigned)x->batch, THREADS, 0, false, stream};
  grid.smem = kind == KVK_EXTEND_SERIAL_64 ? ex_smem<64>::bytes : ex_smem<32>::bytes;
  return kind == KVK_EXTEND_SERIAL_64 ? kx_launch(ex_kernel<64>, grid, p) : kx_launch(ex_kernel<32>, grid, p);
}
