#include "verify.h"

#include <math.h>
#include <string.h>

/* ---- the problem ---- */

static const char *const rows_names[] = {"bf16", "fp8", "fp8-656"};

const char *kvm_rows_name(kvm_rows rows) {
  return rows_names[rows];
}

bool kvm_rows_parse(const char *name, kvm_rows *rows) {
  for (int i = 0; i < 3; i++) {
    if (strcmp(name, rows_names[i]) != 0) continue;
    *rows = (kvm_rows)i;
    return true;
  }
  return false;
}

uint32_t kvm_rows_bytes(kvm_rows rows, uint32_t latent, uint32_t rope) {
  if (rows == KVM_ROWS_BF16) return 2 * (latent + rope);
  if (rows == KVM_ROWS_FP8) return latent + rope;
  return latent + (latent + 127) / 128 * 4 + 2 * rope;
}

static uint64_t ceil_div(uint64_t a, uint64_t b) {
  return a / b + (a % b != 0);
}

void kvm_verify_uniform(kvm_verify *p, uint64_t prefix) {
  p->tokens = p->union_rows = p->batch * prefix;
  p->longest = prefix;
  p->sectors = ceil_div(p->union_rows * p->row_bytes, 32);
}

kvm_verify kvm_verify_default(uint64_t prefix) {
  kvm_verify p = {.heads = 8, .queries = 9, .latent = 512, .rope = 64, .batch = 1};
  p.row_bytes = kvm_rows_bytes(KVM_ROWS_BF16, p.latent, p.rope);
  kvm_verify_uniform(&p, prefix);
  return p;
}

static bool within(uint64_t v, uint64_t low, uint64_t high) {
  return low <= v && v <= high;
}

kv_status kvm_verify_check(const kvm_verify *p, kv_error *err) {
  if (!within(p->heads, 1, 4096))
    return kv_fail(err, KV_ERR_USAGE, "heads: %u is not in 1 to 4096", p->heads);
  if (!within(p->queries, 1, 4096))
    return kv_fail(err, KV_ERR_USAGE, "queries: %u is not in 1 to 4096", p->queries);
  if (!within(p->batch, 1, 65536))
    return kv_fail(err, KV_ERR_USAGE, "batch: %u is not in 1 to 65536", p->batch);
  if (!within(p->latent, 16, 8192) || p->rope > 8192)
    return kv_fail(err, KV_ERR_USAGE, "latent %u, rope %u: 16 to 8192 and at most 8192", p->latent, p->rope);
  if (!within(p->row_bytes, 1, 65536))
    return kv_fail(err, KV_ERR_USAGE, "row bytes: %u is not in 1 to 65536", p->row_bytes);
  if (p->longest > KVM_MAX_PREFIX || p->tokens > KVM_MAX_PREFIX || p->union_rows > p->tokens)
    return kv_fail(err, KV_ERR_USAGE, "prefix: more than 2^40 tokens in all, or more rows than tokens");
  return KV_OK;
}

kvm_useful kvm_verify_useful(const kvm_verify *p) {
  double rows = (double)p->batch * p->queries * p->heads; /* query rows */
  kvm_useful u = {.kv_bytes = (double)p->row_bytes * (double)p->union_rows,
                  .query_bytes = rows * (p->latent + p->rope) * 2,
                  .output_bytes = rows * (p->latent * 2.0 + 4),
                  .index_bytes = 4.0 * (double)p->tokens,
                  .mask_bytes = (double)p->batch * p->queries * (double)ceil_div(p->queries, 8)};
  u.bytes = u.kv_bytes + u.query_bytes + u.output_bytes + u.index_bytes + u.mask_bytes;
  u.flops = 2.0 * p->queries * p->heads * (double)p->tokens * (2.0 * p->latent + p->rope);
  u.intensity = u.flops / u.bytes;
  return u;
}

/* ---- ceilings ---- */

static const char *const resource_names[] = {"dram", "l2", "link", "l1", "mma"};
const char *kvm_resource_name(kvm_resource r) {
  return resource_names[r];
}
const char *kvm_resource_unit(kvm_resource r) {
  return r == KVM_MMA ? "FLOP/s" : "B/s";
}

static const kvm_ceiling unknown = {NAN, KVM_UNKNOWN, "", "not in the description"};

static kvm_ceiling ceiling(const kvm_gpu *gpu, const char *name) {
  const kvm_value *v = kvm_gpu_value(gpu, name);
  if (!v || !v->numeric || v->number <= 0) return unknown;
  return (kvm_ceiling){v->number, v->kind, v->name, v->source};
}

static kvm_ceiling larger(kvm_ceiling a, kvm_ceiling b) {
  return isnan(a.rate) || (!isnan(b.rate) && b.rate > a.rate) ? b : a;
}

static kvm_ceiling first(kvm_ceiling a, kvm_ceiling b) {
  return isnan(a.rate) ? b : a;
}

static kvm_ceiling inferred(kvm_ceiling from, double factor, const char *how) {
  if (isnan(from.rate) || isnan(factor)) return unknown;
  return (kvm_ceiling){from.rate * factor, KVM_INFERENCE, from.name, how};
}

static bool mma_sync_is_best(int sm) {
  return within((uint64_t)sm, 80, 89) || within((uint64_t)sm, 120, 129);
}

kvm_ceiling kvm_link_inferred(const kvm_roofs *roofs) {
  return inferred(roofs->sm[KVM_LINK], roofs->sms, "SMs x what one of them can take");
}

kvm_roofs kvm_roofs_of(const kvm_gpu *gpu) {
  kvm_roofs r = {.sms = kvm_gpu_number(gpu, "sm_count")};
  if (!(r.sms >= 1)) r.sms = NAN;
  for (int i = 0; i < KVM_RESOURCES; i++) r.chip[i] = r.sm[i] = unknown;
  kvm_ceiling tensor = larger(ceiling(gpu, "bf16_dense_fp32acc"), ceiling(gpu, "bf16_measured"));
  kvm_ceiling mma = ceiling(gpu, "mma_sync_bf16");
  bool sync = mma_sync_is_best(kvm_gpu_sm(gpu));
  r.chip[KVM_DRAM] = first(ceiling(gpu, "dram_read_measured"),
                           larger(ceiling(gpu, "dram_bw_spec"), ceiling(gpu, "dram_bw_measured")));
  r.chip[KVM_L2] = ceiling(gpu, "l2_bw_measured");
  r.chip[KVM_L1] = larger(ceiling(gpu, "smem_bw_peak"), ceiling(gpu, "l1_bw_measured"));
  r.chip[KVM_MMA] = sync ? first(mma, tensor) : mma;
  r.mma_best = sync ? r.chip[KVM_MMA] : larger(first(ceiling(gpu, "wgmma_bf16"), tensor), mma);
  r.sm[KVM_L1] = inferred(r.chip[KVM_L1], 1 / r.sms, "the chip's rate / SMs");
  r.sm[KVM_MMA] = inferred(r.chip[KVM_MMA], 1 / r.sms, "the chip's rate / SMs");
  r.sm[KVM_LINK] = ceiling(gpu, "sm_link_bw");
  r.chip[KVM_LINK] = first(ceiling(gpu, "link_bw_measured"), kvm_link_inferred(&r));
  return r;
}

void kvm_roofs_for_rows(kvm_roofs *roofs, const kvm_gpu *gpu, const kvm_verify *problem) {
  if (problem->row_bytes < 2 * (problem->latent + problem->rope)) roofs->mma_best = larger(roofs->mma_best, ceiling(gpu, "fp8_dense"));
}

double kvm_ridge(const kvm_roofs *roofs) {
  return roofs->mma_best.rate / roofs->chip[KVM_DRAM].rate;
}

/* ---- kernels ---- */

/* The counts are those of kvk_describe() (kernels/attn_describe.c), a tile at a time;
 * tests/test_kernels_model.c holds them together. extend_serial: each of 8 warps reads all of Q, 8 keys (of
 * tiles of 32 two warps the same ones), its 64 columns of V, and all weights. split_verify and split_per_head
 * are one kernel: 4 warps read a quarter of K each, 4 others a quarter of V; of a score's partial sums 3
 * cross the warps (12 B written and read), or 4 of units 4 and 5, its weight (2 B) is written once and read by 4. */
#define EXCHANGED(units) ((units) < 4 ? 3 * (units) : 4 * (units) - 4) /* 512 B each, for 16 keys */
#define SPLIT_SHARED(wide, units)                                                                            \
  ((wide) ? 5 * 32 * 1152 + 2048 * EXCHANGED(units) + 1152 * (units) + 168                                   \
          : 4 * 16 * 1152 + 1024 * EXCHANGED(units) + 640 * (units) + 160)
/* split_verify.cu is one kernel: only how query rows are grouped differs, and where a block may have 227 KB it takes
 * tiles of 32 keys. Registers as compiled for sm_90. */
#define SPLIT_KERNEL(wide, registers_, units)                                                                \
  .split = true, .even = true, .block_rows = 48, .pad_rows = 8, .missing_units = 4,                          \
  .min_tiles = (wide) ? 2 : 4, .launched_per_sm = 1, .tile_tokens = (wide) ? 32 : 16,                        \
  .stages = (wide) ? 5 : 4, .threads = 256, .registers = (registers_),                                       \
  .shared_bytes = SPLIT_SHARED(wide, units), .k_reads = 1, .v_reads = 1, .score_bytes = (8 * EXCHANGED(units) + (units) / 2) / (units) + 10, .index_bytes = 4
kvm_structure kvm_kernel(unsigned which, int sm) {
  bool wide = within((uint64_t)sm, 90, 109), small = sm == 86 || sm == 89 || (sm >= 120 && sm <= 129);
  uint32_t tile = small ? 32 : 64;
  const kvm_structure kernels[KVM_KERNELS] = {
      {.name = "extend_serial",
       .description =
           "a block per head walks the whole prefix, one stage, K and V fetched apart through registers",
       .grid = KVM_GRID_PER_HEAD,
       .pad_rows = 32,
       .tile_tokens = tile,
       .stages = 1,
       .threads = 256,
       .registers = 255,
       .shared_bytes = 32 * 1152 + tile * 1024 + 32 * tile * 2 + 9 * 32 * 4,
       .kv_apart = true,
       .through_registers = true,
       .word_loads = 4,
       .k_reads = 64 / tile,
       .v_reads = 1,
       .q_reads = 8,
       .score_bytes = 18,
       .index_bytes = 4},
      {.name = "split_per_head",
       .description = "the prefix split over the GPU, but every head reads each row again",
       .grid = KVM_GRID_PER_HEAD,
       SPLIT_KERNEL(wide, wide ? 162 : 128, 2)},
      {.name = "split_verify",
       .description = "the prefix split over the GPU, each row shared by all queries and heads of a block",
       .grid = KVM_GRID_PACKED,
       SPLIT_KERNEL(wide, wide ? 254 : 250, 6)},
      {.name = "merge_state",
       .description = "merges two partial results by their log-sum-exps",
       .grid = KVM_GRID_ELEMENTS,
       .threads = 64,
       .block_elements = 512}};
  return kernels[which < KVM_KERNELS ? which : 0];
}

/* Shared memory of a block: declared for rows of 576 values, whose tiles and queries it holds as bf16. */
double kvm_structure_shared(const kvm_structure *k, const kvm_verify *p) {
  return k->shared_bytes * (double)(p->latent + p->rope) / KVM_DECLARED_VALUES;
}

static uint32_t blocks_per_sm(const kvm_structure *k, double shared_bytes, const kvm_gpu *gpu) {
  double warps = ceil(k->threads / 32.0), limit = kvm_gpu_number(gpu, "max_blocks_per_sm");
  double by_warps = floor(kvm_gpu_number(gpu, "max_warps_per_sm") / warps);
  double shared = shared_bytes + kvm_gpu_number(gpu, "smem_reserved_per_block");
  if (isnan(limit) || isnan(by_warps) || warps < 1) return 0;
  if (by_warps < limit) limit = by_warps;
  if (k->registers) {
    double by_registers =
        floor(kvm_gpu_number(gpu, "registers_per_sm") / (ceil(k->registers * 32 / 256.0) * 256 * warps));
    if (!(by_registers > 0)) return 0;
    if (by_registers < limit) limit = by_registers;
  }
  if (k->shared_bytes) {
    double by_shared = floor(kvm_gpu_number(gpu, "smem_per_sm") / shared);
    if (!(by_shared > 0)) return 0;
    if (by_shared < limit) limit = by_shared;
  }
  return (uint32_t)limit;
}

uint32_t kvm_structure_resident(const kvm_structure *k, const kvm_gpu *gpu) {
  return blocks_per_sm(k, k->shared_bytes, gpu);
}

static uint64_t round_up(uint64_t v, uint64_t to) {
  return ceil_div(v, to) * to;
}

/* Rows of one block as executed, and how many blocks stand side by side on the same prefix. */
static void row_blocks(const kvm_structure *k, const kvm_verify *p, uint64_t *padded, uint64_t *side) {
  uint64_t rows = k->grid == KVM_GRID_PER_HEAD ? p->queries : (uint64_t)p->queries * p->heads;
  uint64_t hold = k->block_rows ? k->block_rows : k->pad_rows;
  uint64_t groups = ceil_div(rows, hold);
  *padded = round_up(ceil_div(rows, groups), k->pad_rows);
  if (k->missing_units && *padded == 8ull * k->missing_units) *padded += 8;
  *side = k->grid == KVM_GRID_PER_HEAD ? groups * p->heads : groups;
}

uint32_t kvm_structure_units(const kvm_structure *k, const kvm_verify *p) {
  uint64_t padded, side;
  if (k->grid == KVM_GRID_ELEMENTS) return 0;
  row_blocks(k, p, &padded, &side);
  return (uint32_t)ceil_div(padded, 8);
}

/* Work of `tokens` prefix rows on one block; `fetched` is row bytes as they are loaded. */
typedef struct per_token {
  double link, l1, mma;
} per_token;

static per_token token_work(const kvm_structure *k, const kvm_verify *p, uint64_t padded) {
  double row = p->row_bytes, v = row * p->latent / (p->latent + p->rope);
  double fetched = k->kv_apart ? row + v : row;
  per_token w = {.link = (k->v_in_l1 ? row : fetched) + k->index_bytes};
  double loads = k->through_registers ? fmax(1, k->word_loads) : 0;
  w.l1 = fetched * (1 + loads) + row * k->k_reads + v * k->v_reads +
         (double)padded * k->score_bytes +
         (double)padded * (p->latent + p->rope) * 2 * k->q_reads / k->tile_tokens;
  w.mma = 2.0 * (double)padded * (2.0 * p->latent + p->rope);
  return w;
}

static void elements_work(const kvm_structure *k, const kvm_verify *p, kvm_work *w) {
  kvm_useful u = kvm_structure_useful(k, p);
  w->blocks = ceil_div((uint64_t)p->batch * p->queries * p->heads * p->latent, k->block_elements);
  w->splits = 1;
  for (int r = KVM_DRAM; r <= KVM_L1; r++) w->chip[r] = u.bytes;
}

/* Enough pieces to fill the GPU once, none shorter than a tile. */
static uint32_t split_count(const kvm_structure *k, const kvm_verify *p, uint64_t side, double sms,
                            uint32_t per_sm) {
  if (!k->split || isnan(sms)) return 1;
  uint64_t room = (uint64_t)sms * (per_sm ? per_sm : 1) / (side * p->batch),
           tiles = ceil_div(p->longest, k->tile_tokens);
  uint64_t splits = room < tiles ? room : tiles;
  return splits > 1 ? (uint32_t)splits : 1;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* The even split (kernels/attn_split.h): the tiles of all requests and groups stand in one list that the
 * blocks share out. Where that leaves less than 1 block in 32 idle, each group has a list and blocks of its
 * own, so that blocks side by side read the same rows at the same time. */
static void place_evenly(const kvm_structure *k, const kvm_verify *p, double sms, uint64_t side,
                         double per_request, kvm_work *w) {
  uint64_t blocks = (uint64_t)sms * (k->launched_per_sm ? k->launched_per_sm
                                     : w->blocks_per_sm ? w->blocks_per_sm
                                                        : 1);
  w->aligned = blocks % side * 32 <= blocks && side <= blocks;
  double lists = w->aligned ? (double)side : 1, list = w->tiles / lists,
         pieces = (double)p->batch * (double)side / lists;
  double share = fmax(ceil(list / (double)(w->aligned ? blocks / side : blocks)), fmax(k->min_tiles, 1));
  w->block_tiles = fmin(share, list);
  double workers = ceil(list / share);
  w->blocks = (uint64_t)(workers * lists);
  /* a segment ends where a share or a request ends; where both end at once it is one end, not two */
  uint64_t step = (uint64_t)share / greatest_divisor((uint64_t)per_request, (uint64_t)share);
  double both = step ? floor((pieces - 1) / (double)step) : 0;
  w->segments = (workers + pieces - 1 - both) * lists;
  w->block_segments = w->segments <= (double)w->blocks
                          ? 1
                          : (uint32_t)fmin(pieces, floor(fmax(0, share - 2) / fmax(1, per_request)) + 2);
  w->splits = (uint32_t)ceil(w->segments / (double)p->batch / (double)side);
}

/* Whether all requests have the same length. */
static bool alike(const kvm_verify *p) { return p->batch == 1 || p->longest * p->batch == p->tokens; }

/* Where blocks stand and how many loop turns they make. */
static void place(const kvm_structure *k, const kvm_verify *p, double sms, uint64_t side, kvm_work *w) {
  /* the tree's own rows: masked tiles of a request's last piece, or the end of its last tile */
  uint64_t tail = k->tree_apart ? ceil_div(p->queries, k->tile_tokens) : 0;
  double joined = k->tree_apart ? 0 : p->queries;
  uint64_t per_request = ceil_div(p->longest + (uint64_t)joined, k->tile_tokens) + tail;
  /* unequal requests: half a tile of padding each */
  double tiles = alike(p) ? (double)(p->batch * per_request)
                          : ((double)p->tokens + p->batch * joined) / k->tile_tokens +
                             p->batch * (k->tree_apart ? (double)tail : 0.5);
  w->tiles = (double)side * tiles;
  w->block_segments = 1;
  if (k->split && k->even && !isnan(sms)) {
    place_evenly(k, p, sms, side, alike(p) ? (double)per_request : fmax(1, floor(tiles / p->batch)), w);
    return;
  }
  w->splits = split_count(k, p, side, sms, w->blocks_per_sm);
  w->blocks = side * p->batch * w->splits;
  w->segments = (double)w->blocks;
  w->aligned = true;
  w->block_tiles =
      w->splits > 1 ? (double)ceil_div(ceil_div(p->longest, w->splits), k->tile_tokens) : (double)per_request;
}

static void attention_work(const kvm_structure *k, const kvm_verify *p, const kvm_gpu *gpu, double sms,
                           kvm_work *w, double block[]) {
  uint64_t padded, side;
  kvm_useful u = kvm_verify_useful(p);
  row_blocks(k, p, &padded, &side);
  per_token one = token_work(k, p, padded);
  place(k, p, sms, side, w);
  w->side = side;
  double kept = kvm_gpu_number(gpu, "l2_bytes") / ((double)p->union_rows * p->row_bytes);
  double again =
      w->aligned || kept >= 1 ? 0 : 1 - (isnan(kept) ? 0 : kept); /* of the later fetches, from memory */
  w->sharing = (double)side / (1 + ((double)side - 1) * again);
  double tokens = (double)p->tokens + (double)p->batch * p->queries;
  double executed = w->tiles / (double)side * k->tile_tokens;
  double rows = (double)p->batch * p->queries * p->heads;
  w->units = (uint32_t)ceil_div(padded, 8);
  /* written and read: bf16 and an fp32 logarithm a row of every segment, or fp32 a row of every split */
  double partial = k->even         ? 2 * w->segments * (double)padded * (p->latent * 2.0 + 4)
                   : w->splits > 1 ? 2 * rows * w->splits * (p->latent * 4.0 + 4)
                                   : 0;
  double own = u.query_bytes + u.output_bytes;
  w->partial_bytes = partial;
  w->chip[KVM_DRAM] = 32.0 * (double)p->sectors + own + k->index_bytes * (double)p->tokens + u.mask_bytes +
                      (double)p->batch * p->queries * p->row_bytes;
  w->chip[KVM_LINK] = (double)side * tokens * one.link + own * w->splits + partial;
  w->chip[KVM_L2] = ((double)p->union_rows + (double)p->batch * p->queries) * one.link + own + partial;
  w->chip[KVM_L1] = (double)side * executed * one.l1 + own * w->splits + partial;
  w->chip[KVM_MMA] = (double)side * executed * one.mma;
  double piece = w->block_tiles * k->tile_tokens;
  block[KVM_LINK] = block[KVM_L2] = piece * one.link;
  block[KVM_L1] = piece * one.l1;
  block[KVM_MMA] = piece * one.mma;
}

/* The least part of a launch's work that its busiest SM has. Blocks that are alike come in whole ones; of others it is only
 * known that they are shared out. */
static double busiest_share(const kvm_structure *k, const kvm_verify *p, const kvm_work *w, double sms) {
  return k->grid == KVM_GRID_ELEMENTS || alike(p) ? ceil((double)w->blocks / sms) / (double)w->blocks : 1 / fmin((double)w->blocks, sms);
}

kvm_work kvm_structure_work(const kvm_structure *k, const kvm_verify *p, const kvm_gpu *gpu) {
  kvm_work w = {.fits = true, .waves = NAN, .busy_sms = NAN};
  double sms = kvm_gpu_number(gpu, "sm_count"), block[KVM_RESOURCES] = {0};
  if (!(sms >= 1)) sms = NAN;
  w.fits = !(kvm_structure_shared(k, p) > kvm_gpu_number(gpu, "smem_per_block_optin"));
  w.blocks_per_sm = blocks_per_sm(k, kvm_structure_shared(k, p), gpu);
  if (k->grid == KVM_GRID_ELEMENTS) elements_work(k, p, &w);
  else attention_work(k, p, gpu, sms, &w, block);
  const double share = isnan(sms) ? NAN : busiest_share(k, p, &w, sms);
  for (int r = 0; r < KVM_RESOURCES; r++) w.sm[r] = isnan(sms) ? NAN : fmax(w.chip[r] * share, block[r]);
  w.busiest_tiles = isnan(sms) ? NAN : fmax(w.tiles * share, w.block_tiles);
  if (!isnan(sms)) w.busy_sms = fmin(sms, (double)w.blocks);
  if (!isnan(sms) && w.blocks_per_sm) w.waves = (double)w.blocks / (sms * w.blocks_per_sm);
  return w;
}

kvm_useful kvm_structure_useful(const kvm_structure *k, const kvm_verify *p) {
  kvm_useful u = kvm_verify_useful(p);
  if (k->grid != KVM_GRID_ELEMENTS) return u;
  double rows = (double)p->batch * p->queries * p->heads;
  u = (kvm_useful){.output_bytes = 3 * rows * (p->latent * 2.0 + 4), .flops = 4 * rows * p->latent};
  u.bytes = u.output_bytes;
  u.intensity = u.flops / u.bytes;
  return u;
}

/* ---- the ladder ---- */

/* Raises *t to work / rate and notes what set it; a missing ceiling is noted instead. */
static void bound(kvm_ladder *l, double *t, double work, const kvm_ceiling *c, int r, bool sm) {
  if (!(work > 0)) return;
  if (isnan(c->rate)) {
    l->missing |= 1u << (r + (sm ? 8 : 0));
    return;
  }
  if (work / c->rate <= *t) return;
  *t = work / c->rate;
  l->binding = (kvm_resource)r;
  l->binding_sm = sm;
}

kvm_ladder kvm_ladder_of(const kvm_useful *u, const kvm_work *w, const kvm_roofs *roofs, double scatter) {
  kvm_ladder l = {.t = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}};
  double t = 0;
  /* merge_state's flops, fewer than its bytes, go nowhere near a ceiling; others are needed whatever is executed */
  const bool used = w->chip[KVM_MMA] > 0, mma = used || u->flops > u->bytes;
  bound(&l, &t, u->bytes, &roofs->chip[KVM_DRAM], KVM_DRAM, false);
  if (mma) bound(&l, &t, u->flops, &roofs->mma_best, KVM_MMA, false);
  if (isnan(roofs->chip[KVM_DRAM].rate) || (mma && isnan(roofs->mma_best.rate))) return l;
  l.t[0] = t;
  if (used) bound(&l, &t, u->flops, &roofs->chip[KVM_MMA], KVM_MMA, false);
  l.t[1] = t;
  for (int r = 0; r < KVM_RESOURCES; r++) bound(&l, &t, w->chip[r], &roofs->chip[r], r, false);
  l.t[2] = t;
  if (!isnan(scatter)) {
    kvm_ceiling layout = roofs->chip[KVM_DRAM];
    layout.rate /= scatter;
    bound(&l, &t, w->chip[KVM_DRAM], &layout, KVM_DRAM, false);
    l.t[3] = t;
  }
  if (isnan(roofs->sms)) return l;
  /* what one SM alone draws from memory and L2 takes part where a calibration gives it; descriptions don't */
  for (int r = KVM_DRAM; r < KVM_RESOURCES; r++)
    if (r >= KVM_LINK || !isnan(roofs->sm[r].rate)) bound(&l, &t, w->sm[r], &roofs->sm[r], r, true);
  l.t[4] = t;
  return l;
}
