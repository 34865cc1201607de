/* split_verify: all query rows of a request share each KV row that a block fetches.
 *
 * A block of 8 warps holds up to 48 query rows and walks tiles of 16 H keys: H = 2 where a block has the shared memory (sm_90,
 * sm_100), else 1. With keys and values as the m side of mma.m16n8k16 (S^T = K Q^T, O^T = V^T P^T), query rows come in units of 8:
 * 36 rows waste 4, 48 none.
 *   - 4 score warps (split_scores.h): each multiplies a quarter of the 576 columns, its quarter of Q resident in registers; the
 *     partial scores are exchanged lane by lane through shared memory, and each warp finishes its share of the query rows: softmax
 *     weights to shared memory. The products of the next tile are issued between the steps of this tile's softmax, the first of
 *     its keys loaded before the last products of this one, so that latencies (exchange, votes, exponentials) are covered.
 *   - 4 value warps: each holds 128 of the 512 output columns for all query rows in registers, multiplies weights and
 *     tile, and before it waits for weights fetches 4 H of the 16 H rows of a tile to come (cp.async, 8 lanes a row).
 * A tile's life: fetched; multiplied with Q while its predecessor is softened; softened; multiplied with the weights. 4 tiles
 * of 16 keys in shared memory, with the exchange 96 KB, <= 101,376 B; or 5 of 32, 227 KB.
 *
 * The running maximum of a query row is raised only when weights of a lane sum up to more than 2^8 (they then stay far inside bf16's
 * range); raised rows leave a factor for the value warps' accumulators.
 */
#include "split_parts.h"
#include "split_scores.h"
namespace {

static_assert(sv_smem<6, 1>::bytes <= KVK_SMEM_LIMIT && sv_smem<6, 2>::bytes <= KVK_WIDE_LIMIT, "what a block may have");

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

/* --- value warps --- */

/* The rows of the next tile that a lane helps to fetch, one of every 16. */
template <int H>
struct sv_rows {
  const int32_t *next; /* their slots, while the tile lies in the prefix */
  const unsigned char *kv; /* the pool, this lane's chunk of a line */
  int32_t slot[H];
  uint32_t row, whole; /* whole: tiles of the segment that lie in the prefix */
  uint32_t to;         /* of a lane's rows in a tile, its chunk of the first line */
  uint32_t expects;    /* at tiles of the segment below that: brings lines of slot numbers into the L2; one lane does */
};

const uint32_t SLOT_LINE = 32, LINES_AHEAD = 8; /* slot numbers of a line of 128 bytes */

template <int NT, int H, bool ONE>
KX_DEVICE void sv_load_slots(const sv_params &p, const sv_thread &t, const sv_segment &seg, uint32_t i, sv_rows<H> &r) {
  const bool whole = i < r.whole;
#pragma unroll
  for (int h = 0; h < H; h++) {
    if (whole) r.slot[h] = kx_load_slot(r.next + h * KVK_TILE);
  }
  if (KX_RARE(!whole)) {
    const sv_segment its = sv_again<NT, H, ONE>(p, t, seg);
#pragma unroll
    for (int h = 0; h < H; h++)
      r.slot[h] = i < its.tiles ? sv_slot(p, its.request, its.first, its.prefix, ((its.first_tile + i) * H + (uint32_t)h) * KVK_TILE + r.row) : -1;
  }
  /* lines of slot numbers into the L2 long before they are read: from DRAM they would come later than the rows, which wait for them */
  if (i < r.expects) kx_prefetch(r.next + SLOT_LINE * LINES_AHEAD);
  if (whole) r.next += H * KVK_TILE;
}

/* Tile i into stage `stage`; asked for tile after tile. */
template <int NT, int H, int MODE, bool ONE>
KX_DEVICE void sv_fetch(const sv_params &p, const sv_thread &t, const sv_segment &seg, sv_rows<H> &r, uint32_t i, uint32_t stage) {
  typedef sv_smem<NT, H> L;
  const uint32_t full = t.smem + L::full + 8 * stage;
  if (MODE == SV_MMA_ONLY) kx_mbar_arrive(full);
#pragma unroll
  for (int h = 0; h < H && MODE != SV_MMA_ONLY; h++) {
    const uint32_t slot = r.slot[h] < 0 ? 0 : (uint32_t)r.slot[h];
    sv_copy_lines(r.to + stage * L::tile_bytes + (uint32_t)h * STAGE, r.kv + (uint64_t)slot * p.kv_step, r.slot[h]);
  }
  if (MODE == SV_MMA_ONLY) return;
  kx_copy_arrive(full);
  sv_load_slots<NT, H, ONE>(p, t, seg, i + 1, r);
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

/* By the factors that score warps left: of unit j < 4 warp j did, of the others see sv_extra. */
template <int NT, int H>
KX_DEVICE void sv_shrink(const sv_thread &t, sv_values<NT> &v, uint32_t i, const kx_u4 &flags) {
  const uint32_t at = t.smem + sv_smem<NT, H>::factor + (i & 1) * 4 * sv_smem<NT, H>::rows + 8 * (t.lane & 3);
  const uint32_t set = (flags.x ? 1u : 0u) | (flags.y ? 2u : 0u) | (flags.z ? 4u : 0u) | (flags.w ? 8u : 0u), pair = t.lane & 3;
#pragma unroll
  for (int j = 0; j < NT; j++) {
    const uint32_t by = j < 4 ? (uint32_t)j : sv_extra<NT, H>::ALL_LANES ? pair : 2 * (uint32_t)(j - 4) + (pair >> 1);
    kx_f2 f = {1, 1};
    if (set >> by & 1) f = kx_lds_f2(at + 32 * (uint32_t)j);
    if (j >= 4 || (set >> j & 1)) sv_scale_unit<NT>(v, j, f);
  }
}

/* Where a value warp's operands lie: its columns in a tile, weights, those of the last of an odd number of units. */
struct sv_places {
  uint32_t values, weights, last;
};

template <int NT, int H>
KX_DEVICE sv_places sv_place_values(const sv_thread &t, uint32_t value_warp) {
  typedef sv_smem<NT, H> L;
  const uint32_t row = (t.lane & 7) + ((t.lane >> 4) << 3), chunk = (t.lane >> 3) & 1, key = t.lane & 15;
  const uint32_t of_key = t.smem + L::weights + key * L::weight_stride;
  const sv_places at = {kx_keep(sv_chunk(row * PITCH + 256 * value_warp, row, chunk)), kx_keep(of_key + 16 * ((t.lane >> 4) ^ sv_swap<NT>(key))),
                        NT % 2 ? kx_keep(of_key + 16 * (NT - 1)) : 0};
  return at;
}

/* O^T += V^T P^T for tile i at `tile`; what the first products need is read before the flags are looked at. */
template <int NT, int H>
KX_DEVICE void sv_value_tile(const sv_thread &t, sv_values<NT> &v, const sv_places &at, uint32_t i, uint32_t tile) {
  typedef sv_smem<NT, H> L;
  const int AHEAD = NT == 6 && H == 1 ? 2 : 3; /* columns of 16; operands in flight */
  uint32_t b[NT + 1][2], a[AHEAD][4];
  const kx_u4 flags = kx_lds_u4(t.smem + L::flag + 16 * (i & 1));
  const uint32_t weights = at.weights + (i & 1) * L::weight_bytes, last = at.last + (i & 1) * L::weight_bytes, from = tile + at.values;
#pragma unroll
  for (int n = 0; n < 8 * H + AHEAD; n++) {
    const int done = n - AHEAD;
    if (done >= 0)
#pragma unroll
      for (int j = 0; j < NT; j++) kx_mma(v.o[done % 8][j], a[n % AHEAD], b[j][0], b[j][1]);
    if (n == 0 || (H == 2 && done == 7)) {
      const uint32_t half = (uint32_t)(done > 0) * KVK_TILE * L::weight_stride;
#pragma unroll
      for (int j = 0; j + 1 < NT; j += 2) kx_ldmatrix4_trans(b[j], weights + half + 16 * (uint32_t)j);
      if (NT % 2) kx_ldmatrix2_trans(b[NT - 1], last + half);
    }
    if (n < 8 * H) kx_ldmatrix4_trans(a[n % AHEAD], sv_step(from, (uint32_t)(n % 8)) + (uint32_t)(n / 8) * STAGE);
    if (done == -1 && KX_RARE(flags.x | flags.y | flags.z | flags.w))
      sv_shrink<NT, H>(t, v, i, flags);
  }
}

/* Slots of a segment's first tile, by the value warps. */
template <int NT, int H, bool ONE>
KX_DEVICE sv_rows<H> sv_first_slots(const sv_params &p, const sv_thread &t, const sv_segment &seg) {
  sv_rows<H> r;
  const uint32_t tile = H * KVK_TILE, end = seg.first_tile * tile + SLOT_LINE * LINES_AHEAD, chunk = t.lane & 7;
  const uint32_t tiles = seg.prefix / tile, whole = tiles > seg.first_tile ? tiles - seg.first_tile : 0;
  r.row = (4 * t.warp + t.lane / 8) & (KVK_TILE - 1);
  r.whole = whole < seg.tiles ? whole : seg.tiles;
  r.next = p.slots;
  if (seg.prefix) r.next += seg.first + seg.first_tile * tile + r.row;
  r.expects = t.lane == 0 && t.warp == 4 && seg.prefix > end ? (seg.prefix - end + tile - 1) / tile : 0;
  if (t.lane < LINES_AHEAD && t.warp == 4 && seg.first_tile * tile + SLOT_LINE * t.lane < seg.prefix)
    kx_prefetch(r.next - r.row + SLOT_LINE * t.lane);
  r.kv = (const unsigned char *)p.kv + 16 * chunk;
  r.to = kx_keep(t.smem + r.row * PITCH + 16 * (chunk ^ (r.row & 7)));
  sv_load_slots<NT, H, ONE>(p, t, seg, 0, r);
  return r;
}

template <int NT, int H, int MODE, bool ONE>
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
    sv_fetch<NT, H, MODE, ONE>(p, t, seg, rows, first, first);
  } while (++first < L::stages - L::q_stages && first < seg.tiles);
  kx_mbar_wait(t.smem + L::q_taken, 0);
#pragma unroll 1
  for (; first < L::stages && first < seg.tiles; first++)
    sv_fetch<NT, H, MODE, ONE>(p, t, seg, rows, first, first);
#pragma unroll
  for (int m = 0; m < 8; m++)
#pragma unroll
    for (int j = 0; j < NT; j++) v.o[m][j][0] = v.o[m][j][1] = v.o[m][j][2] = v.o[m][j][3] = 0;
  const sv_places at = sv_place_values<NT, H>(t, value_warp);
  uint32_t stage = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < seg.tiles; i++) {
    if (i && i + L::stages - 1 < seg.tiles) { /* into the place of the tile before, once all value warps are done with it */
      kx_mbar_wait(t.smem + L::unused + 8 * ((i - 1) & 1), (i - 1) / 2 & 1);
      sv_fetch<NT, H, MODE, ONE>(p, t, seg, rows, i + L::stages - 1, (stage ? stage : L::stages) - 1);
    }
    kx_mbar_wait(t.smem + L::ready + 8 * (i & 1), i / 2 & 1);
    if (MODE != SV_LOAD_ONLY) sv_value_tile<NT, H>(t, v, at, i, t.smem + stage * L::tile_bytes);
    kx_mbar_arrive(t.smem + L::unused + 8 * (i & 1)); /* its place, and its weights */
    if (++stage == L::stages) stage = 0;
  }
  kx_mbar_wait(t.smem + L::q_full, 1); /* the sums are there */
  sv_leave_values<NT>(p, sv_again<NT, H, ONE>(p, t, seg), t.lane, v, value_warp, t.smem + L::inverse);
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
    if (t.warp >= 4) rows = sv_first_slots<NT, H, ONE>(p, t, seg); /* on their way while the others get ready */
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    if (t.warp < 4) {
      sv_score_role<NT, H, MODE, ONE>(p, t, seg, t.warp);
    } else {
      sv_value_role<NT, H, MODE, ONE>(p, t, seg, rows, t.warp - 4);
    }
    return;
  }
  sv_walk_of walk = sv_walk_list(p, sv_survey(p, 0, t.lane)); /* every warp for itself */
  while (walk.at < walk.end) {
    if (t.warp == 0) sv_find_segment(p, sv_survey(p, 0, t.lane), t.lane, /* anew, which spares registers */
                                     walk.at, walk.end, t.smem + L::segment);
    sv_set_up<NT, H>(t);
    kx_bar_sync(0, KVK_SPLIT_THREADS);
    const sv_segment seg = sv_read_segment(t.smem + L::segment);
    if (t.warp < 4) {
      sv_score_role<NT, H, MODE, ONE>(p, t, seg, t.warp);
    } else {
      sv_value_role<NT, H, MODE, ONE>(p, t, seg, sv_first_slots<NT, H, ONE>(p, t, seg), t.warp - 4);
    }
    walk.at = kx_lds_u32(t.smem + L::segment + 32) + (p.fixed_tiles ? p.blocks : kx_lds_u32(t.smem + L::segment + 12));
    walk.end = kx_lds_u32(t.smem + L::segment + 36);
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
  static_assert(sv_smem<NT, H>::bytes == (H == 2 ? KVK_WIDE_SMEM((unsigned)NT) : KVK_SPLIT_SMEM((unsigned)NT)), "kvk_describe() states what a block uses");
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
  const kx_grid grid = {(unsigned)(p.batch * p.cut.groups), (unsigned)p.cut.tiles8 * teams, MERGE_THREADS, MERGE_STATS + 64 * teams, true, stream, false};
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
  p.kv_step = (uint32_t)p.kv_stride;
  p.indptr = x->indptr;
  p.mask_indptr = x->mask_indptr;
  p.slots = x->slots;
  p.tree_slots = x->tree_slots;
  p.mask = x->mask;
  p.out = x->out;
  p.lse = x->lse;
  p.part_out = (uint16_t *)workspace;
  p.part_lse = (float *)((char *)workspace + kvk_most_partials(&p.cut, x, o) * (uint64_t)p.cut.tiles8 * 8 * 2 * KVK_LATENT);
  /* never 0: what is hidden is -inf only after it was multiplied */
  p.scale_log2 = x->scale == 0 ? 1e-45f : x->scale * 1.44269504088896341f;
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
  const kx_grid grid = {p.aligned ? (unsigned)p.cut.groups : p.blocks, p.aligned ? p.workers : 1, KVK_SPLIT_THREADS, 0, false, stream, false};
  const char *failed = p.tile_keys == 2 * KVK_TILE ? sv_start_units<2>(kind, grid, p) : sv_start_units<1>(kind, grid, p);
  return failed ? failed : sv_start_merge(p, stream);
}
