/* The kernel sources themselves, compiled for the host, against the reference; and the emulation's own checks. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "kv_test.h"

static const kvk_kind kinds[] = {KVK_EXTEND_SERIAL_64, KVK_EXTEND_SERIAL_32, KVK_SPLIT_PER_HEAD, KVK_SPLIT_VERIFY};

static kv_status emulate(kvk_kind kind, kvk_case *c, const kvk_options *o, uint64_t seed, kv_error *err) {
  const size_t rows = (size_t)c->problem.batch * (size_t)c->problem.queries * (size_t)c->problem.heads;
  size_t bytes = 0;
  memset(c->out, 0xff, rows * KVK_LATENT * sizeof *c->out);
  memset(c->lse, 0xff, rows * sizeof *c->lse);
  kv_status status = kvk_workspace_size(kind, &c->problem, o, &bytes, err);
  if (status != KV_OK) return status;
  void *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!workspace) return KV_ERR_MEMORY;
  memset(workspace, 0xff, bytes); /* NaN, should a partial be read that nobody wrote */
  status = kvk_emulate(kind, &c->problem, o, workspace, bytes, seed, NULL, err);
  free(workspace);
  return status;
}

typedef struct reference {
  double *out, *lse;
} reference;

static reference refer(const kvk_case *c) {
  const size_t rows = (size_t)c->problem.batch * (size_t)c->problem.queries * (size_t)c->problem.heads;
  reference r = {malloc(rows * KVK_LATENT * sizeof *r.out + 8), malloc(rows * sizeof *r.lse + 8)};
  if (!r.out || !r.lse) abort();
  CU_ASSERT_EQUAL_FATAL(kvk_reference(&c->problem, r.out, r.lse, NULL), KV_OK);
  return r;
}

static void expect(kvk_kind kind, kvk_case *c, const kvk_options *o, uint64_t seed, const reference *r, const kvk_tolerance *t) {
  kv_error err = {0};
  kvk_difference d;
  kv_status status = emulate(kind, c, o, seed, &err);
  if (status == KV_OK) status = kvk_compare(&c->problem, c->out, c->lse, r->out, r->lse, t, &d, &err);
  if (status != KV_OK) (void)fprintf(stderr, "%s: %s\n", kvk_kind_name(kind), err.text);
  CU_ASSERT_EQUAL(status, KV_OK);
}

/* Every kernel, split_verify in its deterministic mode and in shuffled order too. */
static void all_kernels(const kvk_case_spec *s, int sms) {
  kvk_case c;
  kv_error err = {0};
  CU_ASSERT_EQUAL_FATAL(kvk_case_make(s, &c, &err), KV_OK);
  reference r = refer(&c);
  const kvk_tolerance t = kvk_default_tolerance(s->magnitude > 0 ? 4.5 * s->magnitude : 0.6, s->magnitude > 0.1 ? 60 : 1);
  kvk_options o = kvk_default_options(sms, 9, 0);
  o.min_split_tokens = 16;
  for (size_t k = 0; k < 4; k++) expect(kinds[k], &c, &o, s->seed % 2 ? s->seed : 0, &r, &t);
  o.fixed_split_tokens = 32;
  expect(KVK_SPLIT_VERIFY, &c, &o, s->seed, &r, &t);
  o.smem_limit = KVK_SMEM_LIMIT; /* tiles of 16 keys */
  expect(KVK_SPLIT_VERIFY, &c, &o, s->seed, &r, &t);
  o.fixed_split_tokens = 0;
  for (size_t k = 2; k < 4; k++) expect(kinds[k], &c, &o, s->seed % 2 ? 0 : s->seed, &r, &t);
  free(r.out);
  free(r.lse);
  kvk_case_free(&c);
}

static void lengths(void) {
  static const uint64_t prefix[] = {0, 1, 15, 16, 17, 47, 64, 65, 130};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    all_kernels(&(kvk_case_spec){.batch = 1, .prefix = prefix + i, .queries = 3, .heads = 2, .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM,
                                 .mask = KVK_MASK_TREE, .poison = true, .seed = 1 + i}, 3);
}

static void shapes(void) { /* 1, 2, 3, 5 and 6 units of query rows; several groups; aligned and uneven cuts */
  static const int q[] = {1, 9, 9, 5, 9, 32, 16}, h[] = {1, 1, 2, 7, 5, 3, 7};
  for (size_t i = 0; i < sizeof q / sizeof *q; i++)
    all_kernels(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){50}, .queries = q[i], .heads = h[i], .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM,
                                 .mask = KVK_MASK_BITS, .poison = true, .seed = 20 + i}, i % 2 ? 4 : 5);
}

static void batches(void) {
  all_kernels(&(kvk_case_spec){.batch = 7, .prefix = (uint64_t[]){0, 33, 1, 90, 0, 0, 64}, .queries = 3, .heads = 2, .slots = KVK_SLOTS_REPEATED,
                               .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_FULL, .poison = true, .seed = 41}, 5);
  uint64_t prefix[40];
  for (int i = 0; i < 40; i++) prefix[i] = (uint64_t)(i % 5 * 7);
  all_kernels(&(kvk_case_spec){.batch = 40, .prefix = prefix, .queries = 1, .heads = 1, .slots = KVK_SLOTS_REVERSED, .tree = KVK_TREE_CHAIN,
                               .mask = KVK_MASK_CHAIN, .poison = true, .seed = 42}, 6);
}

static void trees(void) {
  for (int tree = KVK_TREE_NONE; tree <= KVK_TREE_ABSENT; tree++)
    all_kernels(&(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){0, 20}, .queries = 9, .heads = 1, .slots = KVK_SLOTS_END, .tree = (kvk_tree)tree,
                                 .mask = tree % 2 ? KVK_MASK_FULL : KVK_MASK_TREE, .poison = true, .seed = 60u + (unsigned)tree}, 3);
}

static void big_logits(void) { /* maxima that rise: of whole units, and of those that score warps share out */
  for (int heads = 4; heads <= 5; heads++)
    all_kernels(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){70}, .queries = 9, .heads = heads, .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM,
                                 .mask = KVK_MASK_BITS, .magnitude = 2, .poison = true, .seed = 72}, 2);
  all_kernels(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){100}, .queries = 3, .heads = 2, .slots = KVK_SLOTS_RANDOM, .tree = KVK_TREE_RANDOM,
                               .mask = KVK_MASK_TREE, .magnitude = 2, .poison = true, .seed = 71}, 3);
}

/* A scale that is negative turns the order of logits around, one of 0 makes all alike; what is hidden stays hidden. */
static void odd_scales(void) {
  static const float scale[] = {-0.07f, 0};
  for (size_t i = 0; i < 4; i++) {
    kvk_case c;
    kv_error err = {0};
    CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){40}, .queries = 9, .heads = i < 2 ? 1 : 5, .slots = KVK_SLOTS_RANDOM,
                          .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .poison = true, .seed = 75 + i}, &c, &err), KV_OK);
    c.problem.scale = scale[i % 2];
    reference r = refer(&c);
    const kvk_tolerance t = kvk_default_tolerance(0.6, 1);
    kvk_options o = kvk_default_options(2, 9, 0);
    for (size_t k = 0; k < 4; k++) expect(kinds[k], &c, &o, 0, &r, &t);
    o.smem_limit = KVK_SMEM_LIMIT;
    expect(KVK_SPLIT_VERIFY, &c, &o, 0, &r, &t);
    free(r.out);
    free(r.lse);
    kvk_case_free(&c);
  }
}

/* Logits whose rounding is worth more than most weights, to base 2 some 7e8 (less than a weight can hold) to 7e30: nothing is NaN,
 * and no row comes out as if it had seen nothing. */
static void huge_logits(void) {
  static const float large[] = {1e3f, 1e4f, 1e5f, 1e25f};
  for (size_t n = 0; n < 2 * sizeof large / sizeof *large; n++) {
    const int heads = n % 2 ? 15 : 1; /* six units of query rows, and one */
    kvk_case c;
    kv_error err = {0};
    CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){70}, .queries = 3, .heads = heads, .slots = KVK_SLOTS_RANDOM,
                          .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .seed = 95}, &c, &err), KV_OK);
    for (int64_t r = 0; r < c.pool_rows; r++) c.kv[r * 576 + 530] = kvk_to_bf16(1e6f * (float)(1 + r % 7));
    for (int r = 0; r < 3 * heads; r++) c.q[r * 576 + 530] = kvk_to_bf16(large[n / 2]);
    kvk_options o = kvk_default_options(2, 9, 0);
    for (int k = 0; k < 4; k++) { /* both tiles of both split kernels */
      o.smem_limit = k % 2 ? KVK_SMEM_LIMIT : 0;
      CU_ASSERT_EQUAL(emulate(k < 2 ? KVK_SPLIT_VERIFY : KVK_SPLIT_PER_HEAD, &c, &o, 0, &err), KV_OK);
      bool finite = true, seen = true;
      for (int e = 0; e < 3 * heads * KVK_LATENT; e++) finite = finite && isfinite(kvk_from_bf16(c.out[e])), seen = seen && c.out[e] << 1 & 0xffff;
      for (int e = 0; e < 3 * heads; e++) finite = finite && c.lse[e] > 4e5f * large[n / 2] && isfinite(c.lse[e]);
      CU_ASSERT(finite);
      CU_ASSERT(seen);
    }
    kvk_case_free(&c);
  }
}

/* Logits near -10000 and +10000, NaN and infinities where the reference has them. */
static void hard_values(void) {
  static const struct { float q, k; int at; } hard[] = {{-370, 370, 530}, {370, 370, 530}, {0.1f, NAN, 560}, {0.1f, INFINITY, 560}};
  for (size_t n = 0; n < 2 * sizeof hard / sizeof *hard; n++) {
    const size_t i = n / 2;
    const int heads = n % 2 ? 15 : 2; /* one unit of query rows, and six */
    kvk_case c;
    kv_error err = {0};
    CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){70}, .queries = 3, .heads = heads, .slots = KVK_SLOTS_RANDOM,
                          .tree = KVK_TREE_RANDOM, .mask = KVK_MASK_TREE, .seed = 80 + i}, &c, &err), KV_OK);
    for (int64_t r = 0; r < c.pool_rows && i < 2; r++) c.kv[r * 576 + hard[i].at] = kvk_to_bf16(hard[i].k);
    if (i >= 2) c.kv[(int64_t)c.slots[33] * 576 + hard[i].at] = kvk_to_bf16(hard[i].k);
    for (int r = 0; r < 3 * heads; r++) c.q[r * 576 + hard[i].at] = kvk_to_bf16(hard[i].q);
    reference r = refer(&c);
    const kvk_tolerance t = kvk_default_tolerance(0.6, i < 2 ? 10000 : 1);
    const kvk_options o = kvk_default_options(2, 9, 0);
    for (size_t k = 0; k < 4; k++) expect(kinds[k], &c, &o, 0, &r, &t);
    free(r.out);
    free(r.lse);
    kvk_case_free(&c);
  }
}

static void masks_and_order(void) { /* the same bits whatever the encoding of the mask and the order in which warps run */
  uint16_t *first[4] = {NULL};
  for (int m = KVK_MASK_FULL; m <= KVK_MASK_BITS; m++) {
    kvk_case c;
    kv_error err = {0};
    CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 2, .prefix = (uint64_t[]){40, 3}, .queries = 9, .heads = 2, .slots = KVK_SLOTS_RANDOM,
                          .tree = KVK_TREE_RANDOM, .mask = (kvk_mask)m, .seed = 90}, &c, &err), KV_OK);
    const kvk_options o = kvk_default_options(3, 9, 0);
    const size_t bytes = (size_t)2 * 9 * 2 * KVK_LATENT * sizeof *c.out;
    for (size_t k = 0; k < 4; k++) {
      CU_ASSERT_EQUAL(emulate(kinds[k], &c, &o, (uint64_t)m, &err), KV_OK);
      if (!first[k]) {
        first[k] = malloc(bytes);
        if (!first[k]) abort();
        memcpy(first[k], c.out, bytes);
      }
      CU_ASSERT_EQUAL(memcmp(first[k], c.out, bytes), 0);
    }
    kvk_case_free(&c);
  }
  for (size_t k = 0; k < 4; k++) free(first[k]);
}

static void batch_invariance(void) {
  kvk_case c;
  kv_error err = {0};
  kvk_options o = kvk_default_options(4, 9, 0);
  o.fixed_split_tokens = 32;
  CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 3, .prefix = (uint64_t[]){100, 7, 90}, .queries = 3, .heads = 2, .slots = KVK_SLOTS_RANDOM,
                        .tree = KVK_TREE_CHAIN, .mask = KVK_MASK_CHAIN, .seed = 95}, &c, &err), KV_OK);
  CU_ASSERT_EQUAL(emulate(KVK_SPLIT_VERIFY, &c, &o, 0, &err), KV_OK);
  uint16_t together[6 * KVK_LATENT];
  memcpy(together, c.out + 12 * KVK_LATENT, sizeof together);
  c.problem.batch = 1; /* the third request alone */
  c.problem.indptr += 2;
  c.problem.tree_slots += 6;
  c.problem.q += (int64_t)12 * 576;
  o.sms = 7;
  CU_ASSERT_EQUAL(emulate(KVK_SPLIT_VERIFY, &c, &o, 0, &err), KV_OK);
  CU_ASSERT_EQUAL(memcmp(together, c.out, sizeof together), 0);
  kvk_case_free(&c);
}

static void half_kernels(void) { /* without loads, or without products: undefined results, but no race, no dead end */
  kvk_case c;
  kv_error err = {0};
  const kvk_options o = kvk_default_options(2, 9, 0);
  CU_ASSERT_EQUAL_FATAL(kvk_case_make(&(kvk_case_spec){.batch = 1, .prefix = (uint64_t[]){200}, .queries = 9, .heads = 4, .slots = KVK_SLOTS_RANDOM,
                        .tree = KVK_TREE_CHAIN, .mask = KVK_MASK_CHAIN, .seed = 96}, &c, &err), KV_OK);
  CU_ASSERT_EQUAL(emulate(KVK_LOAD_ONLY, &c, &o, 0, &err), KV_OK);
  CU_ASSERT_EQUAL(emulate(KVK_MMA_ONLY, &c, &o, 3, &err), KV_OK);
  kvk_case_free(&c);
}

static void merge(void) {
  enum { ROWS = 5 };
  static uint16_t a[ROWS * 512], b[ROWS * 512], out[ROWS * 512];
  static double ref[ROWS * 512], ref_lse[ROWS];
  const float la[ROWS] = {1, -INFINITY, 2, INFINITY, -9000}, lb[ROWS] = {2.5f, 0.5f, -INFINITY, -INFINITY, -9001};
  float lse[ROWS];
  uint64_t state = 4;
  for (int i = 0; i < ROWS * 512; i++) a[i] = kvk_to_bf16((float)kvk_normal(&state)), b[i] = kvk_to_bf16((float)kvk_normal(&state));
  for (int i = 512; i < 1024; i++) a[i] = 0x7fc0; /* an empty side may hold NaN */
  const kvk_merge m = {.rows = ROWS, .a = a, .b = b, .lse_a = la, .lse_b = lb, .out = out, .out_lse = lse};
  const kvk_problem shape = {.batch = ROWS, .queries = 1, .heads = 1, .latent = 512};
  const kvk_tolerance t = kvk_default_tolerance(4, 10);
  kvk_difference d;
  kv_error err = {0};
  kvk_reference_merge(&m, ref, ref_lse);
  CU_ASSERT_EQUAL(kvk_emulate_merge_state(&m, NULL, &err), KV_OK);
  CU_ASSERT_EQUAL(kvk_compare(&shape, out, lse, ref, ref_lse, &t, &d, &err), KV_OK);
}

/* The emulation must find what it is there to find: see attn_probe.cu. */
static void probes(void) {
  kvk_emulated e;
  kvk_emulate_probe(0, &e);
  CU_ASSERT(e.races == 0 && e.unwritten_reads == 0 && e.deadlocks == 0 && e.divergences == 0);
  kvk_emulate_probe(1, &e); /* a barrier left out between two warps */
  CU_ASSERT(e.races > 0);
  kvk_emulate_probe(2, &e); /* a word nobody wrote */
  CU_ASSERT(e.unwritten_reads > 0);
  kvk_emulate_probe(3, &e); /* a copy read before it was waited for */
  CU_ASSERT(e.unwritten_reads > 0);
  kvk_emulate_probe(4, &e); /* one warp misses the barrier */
  CU_ASSERT(e.deadlocks == 1);
  kvk_emulate_probe(5, &e); /* lanes at different collectives */
  CU_ASSERT(e.divergences > 0);
  kvk_emulate_probe(6, &e); /* a sync left out between two lanes */
  CU_ASSERT(e.races > 0);
  kvk_emulate_probe(7, &e); /* a buffer overwritten before its readers said so */
  CU_ASSERT(e.races > 0);
}

void suite_kernels_emulate(void) {
  static const kv_test_case cases[] = {{"lengths", lengths},
                                       {"shapes", shapes},
                                       {"ragged batches", batches},
                                       {"trees", trees},
                                       {"peaked softmax", big_logits},
                                       {"odd scales", odd_scales},
                                       {"huge logits", huge_logits},
                                       {"hard logits, NaN, infinities", hard_values},
                                       {"masks and order change no bit", masks_and_order},
                                       {"the batch changes no bit", batch_invariance},
                                       {"load-only and mma-only", half_kernels},
                                       {"merge_state", merge},
                                       {"planted faults are found", probes},
                                       {NULL, NULL}};
  kv_suite("kernels_emulate", cases);
}
