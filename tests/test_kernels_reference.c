/* The double-precision reference against cases small enough for pencil and paper, and the checks of the launchers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "attn_shape.h"
#include "kv_test.h"

static uint16_t half(double v) { return kvk_to_bf16((float)v); }

/* Rows of 2 + 1 values; one query, one head, q = (1, 0, 2). Logits are row[0] + 2 row[2], times scale. */
static const double rows[4][3] = {{0, 3, 0}, {1, 5, 0}, {0, 7, 0.5}, {4, 9, -2}};

typedef struct tiny {
  uint16_t q[2 * 3], kv[4 * 3];
  uint64_t indptr[2];
  int32_t slots[4], tree[2];
  uint8_t mask[4];
  kvk_problem p;
  double out[4], lse[2];
} tiny;

static void make_tiny(tiny *t, int prefix, int queries) {
  memset(t, 0, sizeof *t);
  for (int i = 0; i < 12; i++) t->kv[i] = half(rows[i / 3][i % 3]);
  for (int q = 0; q < 2; q++) t->q[3 * q] = half(1), t->q[3 * q + 2] = half(2);
  t->indptr[1] = (uint64_t)prefix;
  t->slots[0] = 0, t->slots[1] = 1, t->slots[2] = 2, t->slots[3] = 3;
  t->p = (kvk_problem){.batch = 1, .queries = queries, .heads = 1, .latent = 2, .rope = 1, .scale = 1, .q = t->q, .q_row_stride = 3,
                       .kv = t->kv, .kv_row_stride = 3, .indptr = t->indptr, .slots = t->slots};
}

static void one_key(void) {
  tiny t;
  make_tiny(&t, 1, 1);
  CU_ASSERT_EQUAL(kvk_reference(&t.p, t.out, t.lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(t.out[0], 0); /* the only key's value, whatever its logit */
  CU_ASSERT_EQUAL(t.out[1], 3);
  CU_ASSERT_EQUAL(t.lse[0], 0);
}

static void two_keys(void) { /* logits 0 and 1: weights 1/(1+e), e/(1+e) */
  tiny t;
  make_tiny(&t, 2, 1);
  CU_ASSERT_EQUAL(kvk_reference(&t.p, t.out, t.lse, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.out[0], 0.7310585786300049, 1e-14);
  CU_ASSERT_DOUBLE_EQUAL(t.out[1], 3 + 2 * 0.7310585786300049, 1e-14);
  CU_ASSERT_DOUBLE_EQUAL(t.lse[0], 1.3132616875182228, 1e-14);
}

static void rope_and_scale(void) { /* keys 1 and 2 both have logit 1 (latent, rope): halves; scaled by 2: lse 2 + ln 2 */
  tiny t;
  make_tiny(&t, 2, 1);
  t.slots[0] = 1, t.slots[1] = 2;
  t.p.scale = 2;
  CU_ASSERT_EQUAL(kvk_reference(&t.p, t.out, t.lse, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.out[0], 0.5, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(t.out[1], 6, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(t.lse[0], 2 + 0.6931471805599453, 1e-14);
}

static void nothing_seen(void) {
  tiny t;
  make_tiny(&t, 0, 1);
  CU_ASSERT_EQUAL(kvk_reference(&t.p, t.out, t.lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(t.out[0], 0);
  CU_ASSERT_EQUAL(t.lse[0], -INFINITY);
}

static void tree_mask(void) { /* two queries, nodes at rows 0 and 1: query 0 sees node 0, query 1 only itself */
  tiny t;
  make_tiny(&t, 0, 2);
  t.tree[0] = 0, t.tree[1] = 1;
  t.p.tree_slots = t.tree;
  t.mask[0] = 1, t.mask[3] = 1;
  t.p.mask = t.mask;
  t.p.mask_kind = KVK_MASK_TREE;
  CU_ASSERT_EQUAL(kvk_reference(&t.p, t.out, t.lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(t.out[1], 3);
  CU_ASSERT_EQUAL(t.out[3], 5);
  CU_ASSERT_EQUAL(t.lse[1], 1);
  const uint8_t bits[2] = {1, 2}, full[4] = {1, 0, 0, 1};
  const uint64_t at = 0;
  double out[4], lse[2];
  t.p.mask = bits, t.p.mask_kind = KVK_MASK_BITS;
  CU_ASSERT_EQUAL(kvk_reference(&t.p, out, lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(out, t.out, sizeof out), 0);
  t.p.mask = full, t.p.mask_kind = KVK_MASK_FULL, t.p.mask_indptr = &at;
  CU_ASSERT_EQUAL(kvk_reference(&t.p, out, lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(out, t.out, sizeof out), 0);
  t.p.mask_kind = KVK_MASK_CHAIN; /* query 1 sees both now */
  CU_ASSERT_EQUAL(kvk_reference(&t.p, out, lse, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(lse[1], 1.3132616875182228, 1e-14);
  t.tree[0] = -1; /* and now only itself again: node 0 does not exist */
  CU_ASSERT_EQUAL(kvk_reference(&t.p, out, lse, NULL), KV_OK);
  CU_ASSERT_EQUAL(lse[0], -INFINITY);
  CU_ASSERT_EQUAL(lse[1], 1);
}

static void rounding(void) {
  CU_ASSERT_EQUAL(kvk_to_bf16(1.0f), 0x3f80);
  CU_ASSERT_EQUAL(kvk_to_bf16(1.00390625f), 0x3f80);  /* 1 + 2^-8, half way: to even */
  CU_ASSERT_EQUAL(kvk_to_bf16(1.01171875f), 0x3f82);  /* 1 + 3 * 2^-8, half way: to even */
  CU_ASSERT_EQUAL(kvk_to_bf16(1.00390637f), 0x3f81);
  CU_ASSERT_EQUAL(kvk_to_bf16(INFINITY), 0x7f80);
  CU_ASSERT(isnan(kvk_from_bf16(kvk_to_bf16(NAN))));
  CU_ASSERT_EQUAL(kvk_from_bf16(0xc040), -3.0f);
}

static void merging(void) { /* equal weights; one side empty, said in both ways; both empty */
  static uint16_t a[4 * 512], b[4 * 512];
  static double out[4 * 512], lse[4];
  const float la[4] = {2, 2, INFINITY, -INFINITY}, lb[4] = {2, -INFINITY, 3, -INFINITY};
  for (int i = 0; i < 4 * 512; i++) a[i] = half(1), b[i] = half(3);
  for (int i = 512; i < 1024; i++) b[i] = 0x7fc0;
  const kvk_merge m = {.rows = 4, .a = a, .b = b, .lse_a = la, .lse_b = lb};
  kvk_reference_merge(&m, out, lse);
  CU_ASSERT_EQUAL(out[0], 2);
  CU_ASSERT_DOUBLE_EQUAL(lse[0], 2 + 0.6931471805599453, 1e-15);
  CU_ASSERT_EQUAL(out[512], 1);
  CU_ASSERT_EQUAL(lse[1], 2);
  CU_ASSERT_EQUAL(out[1024], 3);
  CU_ASSERT_EQUAL(lse[2], 3);
  CU_ASSERT_EQUAL(out[1536], 0);
  CU_ASSERT_EQUAL(lse[3], -INFINITY);
}

static void comparing(void) {
  const kvk_problem p = {.batch = 1, .queries = 1, .heads = 1, .latent = 4};
  const kvk_tolerance t = kvk_default_tolerance(0.6, 1);
  uint16_t out[4] = {half(1), half(0.5), half(-0.25), half(2)};
  const double ref[4] = {1, 0.5, -0.25, 2}, ref_lse = 3;
  float lse = 3;
  kvk_difference d;
  kv_error err = {0};
  CU_ASSERT_EQUAL(kvk_compare(&p, out, &lse, ref, &ref_lse, &t, &d, &err), KV_OK);
  lse = 3.001f;
  CU_ASSERT_EQUAL(kvk_compare(&p, out, &lse, ref, &ref_lse, &t, &d, &err), KV_ERR_BAR);
  CU_ASSERT(d.bad_lse == 1 && d.bad_out == 0);
  lse = 3;
  out[3] = half(2.0625); /* 3 %: outside 2.01/128 = 1.6 % */
  CU_ASSERT_EQUAL(kvk_compare(&p, out, &lse, ref, &ref_lse, &t, &d, &err), KV_ERR_BAR);
  CU_ASSERT_EQUAL(d.bad_out, 1);
  out[3] = 0x7fc0;
  CU_ASSERT_EQUAL(kvk_compare(&p, out, &lse, ref, &ref_lse, &t, &d, &err), KV_ERR_BAR);
  CU_ASSERT_EQUAL(d.bad_special, 1);
}

static kv_status checked(kvk_kind kind, int batch, int queries, int heads, int latent, int capability) {
  const kvk_problem p = {.batch = batch, .queries = queries, .heads = heads, .latent = latent, .rope = 64, .q_row_stride = 576, .kv_row_stride = 576};
  const kvk_options o = {.sms = 132, .capability = capability};
  kv_error err = {0};
  return kvk_check(kind, &p, &o, &err);
}

static void refusing(void) {
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 1, 9, 8, 512, 90), KV_OK);
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 0, 9, 8, 512, 90), KV_OK);
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 1, 0, 8, 512, 90), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 1, 33, 8, 512, 90), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 1, 9, 129, 512, 90), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(checked(KVK_SPLIT_VERIFY, 1, 9, 8, 256, 90), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(checked(KVK_EXTEND_SERIAL_64, 1, 9, 8, 512, 90), KV_OK);
  CU_ASSERT_EQUAL(checked(KVK_EXTEND_SERIAL_64, 1, 9, 8, 512, 120), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(checked(KVK_EXTEND_SERIAL_32, 1, 9, 8, 512, 120), KV_OK);
  CU_ASSERT_EQUAL(checked(KVK_KINDS, 1, 9, 8, 512, 90), KV_ERR_USAGE);
  const kvk_problem far = {.batch = 1, .queries = 9, .heads = 8, .latent = 512, .rope = 64, .q_row_stride = 576, .kv_row_stride = ((int64_t)1 << 30) + 8};
  const kvk_options o = kvk_default_options(132, 9, 0);
  kv_error err = {0};
  CU_ASSERT_EQUAL(kvk_check(KVK_SPLIT_VERIFY, &far, &o, &err), KV_ERR_USAGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "row stride"));
}

static void cutting(void) { /* 72 rows: two groups of 36; 144: three of 48; 576: twelve of 48; per head: a group a head */
  kvk_groups g = kvk_cut_rows(KVK_SPLIT_VERIFY, 9, 8);
  CU_ASSERT(g.groups == 2 && g.group_rows == 36 && g.tiles8 == 5);
  g = kvk_cut_rows(KVK_SPLIT_VERIFY, 9, 16);
  CU_ASSERT(g.groups == 3 && g.group_rows == 48 && g.tiles8 == 6);
  g = kvk_cut_rows(KVK_SPLIT_VERIFY, 9, 64);
  CU_ASSERT(g.groups == 12 && g.group_rows == 48 && g.tiles8 == 6);
  g = kvk_cut_rows(KVK_SPLIT_PER_HEAD, 9, 8);
  CU_ASSERT(g.groups == 8 && g.group_rows == 9 && g.tiles8 == 2 && g.row_stride == 8);
}

/* 8 heads, 9 queries, 4087 + 9 keys = 128 tiles of 32; 132 blocks cut two groups alike: 66 workers, 2 tiles each, 64 used. */
static void describing(void) {
  const int32_t none = 0;
  const kvk_problem p = {.batch = 1, .queries = 9, .heads = 8, .latent = 512, .rope = 64, .q_row_stride = 576, .kv_row_stride = 576,
                         .tree_slots = &none, .prefix_capacity = 4087};
  kvk_options o = kvk_default_options(132, 9, 0);
  const uint64_t prefix = 4087;
  kvk_structure s;
  kv_error err = {0};
  CU_ASSERT_EQUAL(kvk_describe(KVK_SPLIT_VERIFY, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tiles, 256);
  CU_ASSERT_EQUAL(s.tiles_per_block, 2);
  CU_ASSERT_EQUAL(s.tile_tokens, 32);
  CU_ASSERT_EQUAL(s.partials, 128 * 36);
  CU_ASSERT_EQUAL(s.smem, 223016);
  CU_ASSERT_DOUBLE_EQUAL(s.unique_kv_bytes, 4096.0 * 1152, 0.5);
  CU_ASSERT_DOUBLE_EQUAL(s.useful_flops, 2.0 * 72 * 4096 * 1088, 0.5);
  CU_ASSERT_DOUBLE_EQUAL(s.mma_flops, 2 * 256.0 * 68 * 5 * 4096, 0.5);
  o.fixed_split_tokens = 1024; /* 4 pieces of 32 tiles for each group */
  CU_ASSERT_EQUAL(kvk_describe(KVK_SPLIT_VERIFY, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tiles_per_block, 32);
  CU_ASSERT_EQUAL(s.partials, 8 * 36);
  o.fixed_split_tokens = 1040; /* no multiple of 32: tiles of 16 */
  CU_ASSERT_EQUAL(kvk_describe(KVK_SPLIT_VERIFY, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tile_tokens, 16);
  CU_ASSERT_EQUAL(s.tiles_per_block, 65);
  o.fixed_split_tokens = 0;
  o.capability = 110; /* no machine code of its own */
  CU_ASSERT_EQUAL(kvk_describe(KVK_SPLIT_VERIFY, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tile_tokens, 16);
  o.capability = 90;
  o.smem_limit = KVK_SMEM_LIMIT; /* 66 workers, 4 tiles of 16 each */
  CU_ASSERT_EQUAL(kvk_describe(KVK_SPLIT_VERIFY, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tiles, 512);
  CU_ASSERT_EQUAL(s.tiles_per_block, 4);
  CU_ASSERT_EQUAL(s.smem, 93472);
  CU_ASSERT_DOUBLE_EQUAL(s.mma_flops, 512.0 * 68 * 5 * 4096, 0.5);
  CU_ASSERT_EQUAL(kvk_describe(KVK_EXTEND_SERIAL_64, &p, &o, &prefix, &s, &err), KV_OK);
  CU_ASSERT_EQUAL(s.tiles, 8 * 64);
  CU_ASSERT_EQUAL(s.smem, 107648);
  CU_ASSERT_EQUAL(s.barriers_per_tile, 12);
  CU_ASSERT_DOUBLE_EQUAL(s.mma_flops, 512.0 * 8 * 136 * 4096, 0.5);
  /* wavefronts a tile: ldmatrix.x4 (4 each) of Q 8 x 72, K 8 x 18, weights 8 x 8, V 8 x 16; 16 warp stores of K, 16 of V
   * and 2 of rope a warp, 4 each, and 4 stores of weights a warp; the rows' loads are 4 words each */
  CU_ASSERT_DOUBLE_EQUAL(s.smem_read_bytes, 512 * 128.0 * 4 * 8 * (72 + 18 + 8 + 16), 0.5);
  CU_ASSERT_DOUBLE_EQUAL(s.smem_write_bytes, 512 * 128.0 * 8 * (4 * (16 + 16 + 2) + 4) + 8 * 32 * 1152.0, 0.5);
  CU_ASSERT_DOUBLE_EQUAL(s.l1_load_bytes, 512 * 128.0 * 8 * (4 * 4) * (16 + 16 + 2), 0.5);
  /* V is K's rows once more */
  CU_ASSERT_DOUBLE_EQUAL(s.link_bytes, 8 * 4096 * 2180.0 + 8 * 9 * 1152.0 + s.output_bytes, 0.5);
}

/* Counted on an H200 (models/measured/h200-verify-8.h5, 131072 tokens, contiguous): wavefronts 158,944,000 and
 * 213,453,000, link 2290 and 2220 MB (of a tile of 32 a little is found in the L1). Not described: maxima and sums across warps, slot numbers, shuffles. */
static void extend_serial_is_as_counted(void) {
  static const struct {
    kvk_kind kind;
    double wavefronts, link;
  } counted[] = {{KVK_EXTEND_SERIAL_64, 20.345e9 / 128, 2290.3e6}, {KVK_EXTEND_SERIAL_32, 27.322e9 / 128, 2220.2e6}};
  static const uint16_t value[8] __attribute__((aligned(16))) = {0};
  static const int32_t slot[1];
  const kvk_problem p = {.batch = 1, .queries = 9, .heads = 8, .latent = KVK_LATENT, .rope = KVK_ROPE, .q_row_stride = 576, .kv_row_stride = 576,
                         .q = value, .kv = value, .tree_slots = slot, .out = (uint16_t *)(uintptr_t)value};
  const kvk_options o = kvk_default_options(132, 9, 0);
  const uint64_t prefix = 131072;
  kv_error err = {0};
  for (int i = 0; i < 2; i++) {
    kvk_structure s;
    CU_ASSERT_EQUAL_FATAL(kvk_describe(counted[i].kind, &p, &o, &prefix, &s, &err), KV_OK);
    const double waves = (s.smem_read_bytes + s.smem_write_bytes + s.l1_load_bytes) / 128 / counted[i].wavefronts;
    CU_ASSERT(waves > 0.91 && waves < 1);
    CU_ASSERT(s.link_bytes < 1.04 * counted[i].link && s.link_bytes > 0.98 * counted[i].link);
  }
}

static void no_workspace(void) {
  const uint64_t prefix = 40;
  kvk_case c;
  kvk_options o = kvk_default_options(4, 9, 0);
  size_t bytes = 0;
  kv_error err = {0};
  CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 1, .prefix = &prefix, .queries = 2, .heads = 2, .tree = KVK_TREE_CHAIN}, &c, &err), KV_OK);
  CU_ASSERT_EQUAL(kvk_workspace_size(KVK_SPLIT_VERIFY, &c.problem, &o, &bytes, &err), KV_OK);
  CU_ASSERT_EQUAL(bytes, 5 * 8 * (1024 + 4)); /* 4 blocks + 1 request, 8 rows of 512 bf16 and a float */
  CU_ASSERT_EQUAL(kvk_emulate(KVK_SPLIT_VERIFY, &c.problem, &o, NULL, 0, 0, NULL, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kvk_workspace_size(KVK_EXTEND_SERIAL_32, &c.problem, &o, &bytes, &err), KV_OK);
  CU_ASSERT_EQUAL(bytes, 0);
  kvk_case_free(&c);
}

void suite_kernels_reference(void) {
  static const kv_test_case cases[] = {{"one key", one_key},
                                       {"two keys", two_keys},
                                       {"rope columns and scale", rope_and_scale},
                                       {"nothing seen", nothing_seen},
                                       {"tree mask, all encodings", tree_mask},
                                       {"bf16 rounding", rounding},
                                       {"merge, empty sides", merging},
                                       {"comparison can fail", comparing},
                                       {"refusals", refusing},
                                       {"cutting query rows", cutting},
                                       {"description", describing},
                                       {"extend_serial as counted", extend_serial_is_as_counted},
                                       {"workspace", no_workspace},
                                       {NULL, NULL}};
  kv_suite("kernels_reference", cases);
}
