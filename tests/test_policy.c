/* Each policy's decisions on small pools, worked out by hand, and the price of it all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "synth.h"
#include "whatif_run.h"

/* ---- the order in which units are handed out ---- */

static kvs_world open_world(const kvs_policy *policy, uint32_t pool, uint32_t page) {
  kvs_world w;
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = page, .first_slot = page, .pool_size = pool};
  const kvs_policy_settings settings = kvs_policy_settings_default();
  CU_ASSERT_EQUAL_FATAL(kvs_world_init(&w, policy, &settings, &info, NULL, NULL), KV_OK);
  return w;
}

static void hands_out(kvs_world *w, uint32_t n, const int32_t *want) {
  int32_t got[16] = {0};
  w->policy->take(w, n, got);
  CU_ASSERT_EQUAL(memcmp(got, want, n * sizeof *want), 0);
}

static void test_fifo(void) {
  kvs_world w = open_world(&kvs_policy_fifo, 8, 1);
  hands_out(&w, 3, (int32_t[]){1, 2, 3});
  w.policy->give(&w, (int32_t[]){3, 1}, 2); /* to the tail, as they come */
  CU_ASSERT_EQUAL(w.policy->available(&w), 7);
  hands_out(&w, 7, (int32_t[]){4, 5, 6, 7, 8, 3, 1});
  kvs_world_fini(&w);
}

static void test_need_sort(void) {
  kvs_world w = open_world(&kvs_policy_need_sort, 8, 1);
  hands_out(&w, 4, (int32_t[]){1, 2, 3, 4});
  w.policy->give(&w, (int32_t[]){3, 1}, 2); /* set aside: the list 5 6 7 8 is long enough for one more */
  w.policy->begin_call(&w, 1, 1, true);
  hands_out(&w, 1, (int32_t[]){5});
  CU_ASSERT_EQUAL(w.policy->available(&w), 5);
  w.policy->begin_call(&w, 4, 1, false); /* too long for 6 7 8: merged and sorted */
  hands_out(&w, 4, (int32_t[]){1, 3, 6, 7});
  kvs_world_fini(&w);
}

static void test_sorted(void) {
  kvs_world w = open_world(&kvs_policy_sorted, 200, 1);
  int32_t all[200];
  w.policy->take(&w, 200, all);
  CU_ASSERT(all[0] == 1 && all[199] == 200);
  CU_ASSERT_EQUAL(w.policy->available(&w), 0);
  w.policy->give(&w, (int32_t[]){190, 7, 64, 63, 3}, 5);
  hands_out(&w, 2, (int32_t[]){3, 7});
  w.policy->give(&w, (int32_t[]){1}, 1);
  hands_out(&w, 4, (int32_t[]){1, 63, 64, 190});
  kvs_world_fini(&w);
}

static void test_lifo(void) {
  kvs_world w = open_world(&kvs_policy_lifo, 8, 1);
  hands_out(&w, 5, (int32_t[]){1, 2, 3, 4, 5});
  w.policy->give(&w, (int32_t[]){2, 3}, 2);
  w.policy->give(&w, (int32_t[]){5, 1}, 2); /* the newest release first, each in its own order */
  hands_out(&w, 6, (int32_t[]){5, 1, 2, 3, 6, 7});
  kvs_world_fini(&w);
}

static void test_pages(void) {
  kvs_world w = open_world(&kvs_policy_pages_16, 96, 1);
  hands_out(&w, 4, (int32_t[]){1, 2, 3, 4});
  w.policy->give(&w, (int32_t[]){3 * 16}, 1);
  w.policy->give(&w, (int32_t[]){1 * 16}, 1);
  w.policy->end_group(&w); /* ascending, to the head */
  hands_out(&w, 4, (int32_t[]){1, 3, 5, 6});
  kvs_world_fini(&w);
}

/* ---- a verify step ---- */

static void add(kvs_tape *t, kvt_kind kind, int32_t position, int32_t length, int32_t aux, uint32_t n, const int32_t *slots) {
  kvs_tape_add(t, kind, 0, position, length, aux, slots, n);
}

static void step(kvs_tape *t, kvt_step_type type) {
  const kvt_step row = {.available = -1};
  kvs_tape_step(t, type, &row);
}

/* 20 prompt tokens, then one block of 9, of which nodes 0, 2 and 5 are accepted. */
static void one_verify(kvs_tape *t, uint32_t pool) {
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1, .pool_size = pool};
  int32_t slot[32];
  for (int32_t i = 0; i < 32; i++) slot[i] = i + 1;
  kvs_tape_init(t, &info);
  step(t, KVT_STEP_PREFILL);
  add(t, KVT_ARRIVE, -1, 20, -1, 0, NULL);
  add(t, KVT_START, 0, -1, -1, 0, NULL);
  add(t, KVT_ALLOC_EXTEND, 0, -1, 1, 20, slot);
  step(t, KVT_STEP_DECODE);
  add(t, KVT_ALLOC_VERIFY, 20, -1, 2, 9, slot + 20);
  add(t, KVT_COMMIT, 20, 3, -1, 3, (int32_t[]){21, 23, 26});
  add(t, KVT_FREE, -1, -1, KVT_FREE_REJECT, 6, (int32_t[]){22, 24, 25, 27, 28, 29});
  step(t, KVT_STEP_DRAIN);
}

static kv_status last_sample(void *arg, const kvs_whatif_sample *s, kv_error *err) {
  (void)err;
  *(kvs_whatif_sample *)arg = *s;
  return KV_OK;
}

static uint32_t branches = 1; /* of drafts */

static kvs_whatif_result simulate(const kvs_tape *t, const kvs_policy *policy, kvs_whatif_sample *last, int32_t *where) {
  kvs_whatif_options o = kvs_whatif_options_default();
  const kvt_batch b = kvs_tape_batch(t);
  kvs_whatif *f = NULL;
  o.every = 1;
  o.settings.draft_topk = branches;
  o.arg = last;
  o.sample = last_sample;
  CU_ASSERT_EQUAL_FATAL(kvs_whatif_create(&t->info, policy, &o, NULL, &f, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_whatif_batch(f, &b, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_whatif_finish(f, NULL), KV_OK);
  memcpy(where, kvs_whatif_get_world(f)->where, 32 * sizeof *where);
  kvs_whatif_result r = *kvs_whatif_get_result(f);
  kvs_whatif_free(f);
  return r;
}

static void test_verify_fifo(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32];
  one_verify(&t, 64);
  kvs_whatif_result r = simulate(&t, &kvs_policy_fifo, &s, where);
  CU_ASSERT(where[21] == 21 && where[23] == 23 && where[26] == 26); /* the holes stay */
  CU_ASSERT(s.rows == 23 && s.runs == 3 && s.waste == 0 && s.free == 41);
  CU_ASSERT(r.tally.copied == 0 && r.decode_steps == 1 && r.rows == 23 && r.runs == 3);
  kvs_tape_free(&t);
}

static void test_verify_compact(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32];
  one_verify(&t, 64);
  kvs_whatif_result r = simulate(&t, &kvs_policy_compact, &s, where);
  CU_ASSERT(where[21] == 21 && where[23] == 22 && where[26] == 23);
  CU_ASSERT(s.rows == 23 && s.runs == 1);
  CU_ASSERT_EQUAL(r.tally.copied, 2);
  CU_ASSERT(s.waste == 15 && s.free == 64 - 38); /* two blocks ahead, 3 of 18 slots used */
  kvs_tape_free(&t);
  one_verify(&t, 32); /* too small for the second block: one will do, nothing is evicted */
  r = simulate(&t, &kvs_policy_compact, &s, where);
  CU_ASSERT(r.fits && r.tally.evicted == 0 && s.waste == 6 && s.free == 3);
  kvs_tape_free(&t);
}

static void test_verify_pages(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32];
  one_verify(&t, 64);
  kvs_whatif_result r = simulate(&t, &kvs_policy_pages_16, &s, where);
  CU_ASSERT(where[1] == 16 && where[20] == 35); /* pages 1 and 2 */
  CU_ASSERT(where[21] == 36 && where[23] == 37 && where[26] == 38);
  CU_ASSERT(s.rows == 23 && s.runs == 1);
  CU_ASSERT_EQUAL(r.tally.copied, 2);
  CU_ASSERT(s.waste == 32 - 23 && s.free == 32);
  kvs_tape_free(&t);
}

/* A second request hits 20 tokens of a finished one: a whole page is shared, 4 tokens are computed again. */
/* Drafts with branches: 20 tokens fill 4 slots of their second page, which each branch but the first gets a copy of. */
static void test_draft_tails(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32];
  one_verify(&t, 64);
  branches = 4;
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_pages_16, &s, where).tally.tails, 3 * 4);
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_vllm, &s, where).tally.tails, 3 * 4);
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_pages_64, &s, where).tally.tails, 3 * 20);
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_compact, &s, where).tally.tails, 0);
  branches = 1;
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_pages_16, &s, where).tally.tails, 0);
  kvs_tape_free(&t);
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1, .pool_size = 64};
  int32_t slot[32]; /* the same with slots allocated ahead: a draft before each commit */
  for (int32_t i = 0; i < 32; i++) slot[i] = i + 1;
  kvs_tape_init(&t, &info);
  step(&t, KVT_STEP_PREFILL);
  add(&t, KVT_ARRIVE, -1, 20, -1, 0, NULL);
  add(&t, KVT_START, 0, -1, -1, 0, NULL);
  add(&t, KVT_ALLOC_EXTEND, 0, -1, 1, 20, slot);
  step(&t, KVT_STEP_DECODE);
  add(&t, KVT_ALLOC_SPEC, 20, -1, 2, 12, slot + 20);
  add(&t, KVT_COMMIT, 20, 3, -1, 0, NULL);
  step(&t, KVT_STEP_DECODE);
  add(&t, KVT_COMMIT, 23, 2, -1, 0, NULL);
  step(&t, KVT_STEP_DRAIN);
  branches = 2;
  CU_ASSERT_EQUAL(simulate(&t, &kvs_policy_pages_16, &s, where).tally.tails, 4 + 7);
  branches = 1;
  kvs_tape_free(&t);
}

static void test_hit_pages(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32], slot[32];
  for (int32_t i = 0; i < 32; i++) slot[i] = i + 1;
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1, .pool_size = 64};
  kvs_tape_init(&t, &info);
  step(&t, KVT_STEP_PREFILL);
  add(&t, KVT_ARRIVE, -1, 32, -1, 0, NULL);
  add(&t, KVT_START, 0, -1, -1, 0, NULL);
  add(&t, KVT_ALLOC_EXTEND, 0, -1, 1, 32, slot);
  add(&t, KVT_FINISH, 32, -1, -1, 0, NULL);
  step(&t, KVT_STEP_PREFILL);
  kvs_tape_add(&t, KVT_ARRIVE, 1, -1, 22, -1, NULL, 0);
  kvs_tape_add(&t, KVT_START, 1, 0, -1, -1, slot, 20);
  kvs_tape_add(&t, KVT_ALLOC_EXTEND, 1, 20, -1, 2, (int32_t[]){33, 34}, 2);
  step(&t, KVT_STEP_DRAIN);
  kvs_whatif_result r = simulate(&t, &kvs_policy_pages_16, &s, where);
  CU_ASSERT_EQUAL(r.tally.refilled, 4);
  CU_ASSERT(s.rows == 22 && s.runs == 2); /* page 1, then page 3 */
  CU_ASSERT_EQUAL(s.waste, 3 * 16 - 34);  /* 4 copies and 10 slots not used yet */
  r = simulate(&t, &kvs_policy_fifo, &s, where);
  CU_ASSERT(r.tally.refilled == 0 && s.runs == 2 && s.waste == 0);
  kvs_tape_free(&t);
}

/* ---- eviction ahead of need ---- */

static void test_low_water(void) {
  kvs_tape t;
  kvs_whatif_options o = kvs_whatif_options_default();
  kvs_whatif *f = NULL;
  int32_t slot[32];
  for (int32_t i = 0; i < 32; i++) slot[i] = i + 1;
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1, .pool_size = 40};
  kvs_tape_init(&t, &info);
  step(&t, KVT_STEP_PREFILL);
  add(&t, KVT_ARRIVE, -1, 32, -1, 0, NULL);
  add(&t, KVT_START, 0, -1, -1, 0, NULL);
  add(&t, KVT_ALLOC_EXTEND, 0, -1, 1, 32, slot);
  add(&t, KVT_FINISH, 32, -1, -1, 0, NULL); /* 8 of 40 free: less than a quarter */
  step(&t, KVT_STEP_PREFILL);               /* so 12 more go, the deepest: tokens 21..32 */
  kvs_tape_add(&t, KVT_ARRIVE, 1, -1, 24, -1, NULL, 0);
  kvs_tape_add(&t, KVT_START, 1, 0, -1, -1, slot, 24); /* four of them are missed */
  step(&t, KVT_STEP_DRAIN);
  o.settings.low_water = 0.25;
  o.settings.high_water = 0.5;
  CU_ASSERT_EQUAL_FATAL(kvs_whatif_create(&t.info, &kvs_policy_low_water, &o, NULL, &f, NULL), KV_OK);
  const kvt_batch b = kvs_tape_batch(&t);
  CU_ASSERT_EQUAL(kvs_whatif_batch(f, &b, NULL), KV_OK);
  const kvs_world *w = kvs_whatif_get_world(f);
  CU_ASSERT(w->tally.evicted == 12 && w->tally.refilled == 4);
  CU_ASSERT(w->where[20] == 20 && w->where[24] == 24 && w->where[25] == KVS_EVICTED); /* lowest free first: back in place */
  kvs_whatif_free(f);
  kvs_tape_free(&t);
}

/* ---- relocation ---- */

/* Three requests in step for 8 steps: slots 1, 4, 7, ...; the second one finishes. */
static void comb_tape(kvs_tape *t) {
  const kvt_info info = {.allocator = KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1, .pool_size = 512};
  kvs_tape_init(t, &info);
  step(t, KVT_STEP_PREFILL);
  for (int32_t r = 0; r < 3; r++) {
    kvs_tape_add(t, KVT_ARRIVE, r, -1, 0, -1, NULL, 0);
    kvs_tape_add(t, KVT_START, r, 0, -1, -1, NULL, 0);
  }
  for (int32_t p = 0; p < 80; p++) {
    step(t, KVT_STEP_DECODE);
    for (int32_t r = 0; r < 3; r++) kvs_tape_add(t, KVT_ALLOC_DECODE, r, p, -1, p, &(int32_t){3 * p + r + 1}, 1);
  }
  kvs_tape_add(t, KVT_FINISH, 1, 80, -1, -1, NULL, 0);
  for (int32_t p = 0; p < 200; p++) step(t, KVT_STEP_DECODE);
}

static void test_relocation(void) {
  kvs_tape t;
  kvs_whatif_sample s;
  int32_t where[32];
  comb_tape(&t);
  kvs_whatif_result r = simulate(&t, &kvs_policy_sorted, &s, where);
  CU_ASSERT(s.rows == 160 && s.runs == 160 && r.tally.moved == 0);
  r = simulate(&t, &kvs_policy_relocate_full, &s, where);
  CU_ASSERT(s.runs == 2 && r.tally.passes >= 2);
  CU_ASSERT(where[1] == 1 && where[4] == 2); /* the oldest request from the start of the pool */
  r = simulate(&t, &kvs_policy_relocate_step, &s, where);
  CU_ASSERT(s.runs < 80 && r.tally.moved > 80);
  r = simulate(&t, &kvs_policy_relocate_idle, &s, where);
  CU_ASSERT_EQUAL(s.runs, 160); /* running rows are left alone */
  CU_ASSERT(r.tally.moved > 0 && where[8] == where[5] + 1);
  r = simulate(&t, &kvs_policy_oracle, &s, where);
  CU_ASSERT(s.runs == 2);
  kvs_tape_free(&t);
}

/* ---- the price ---- */

static void test_judge(void) {
  kvs_cell base = {.policy = &kvs_policy_as_recorded}, c = {.policy = &kvs_policy_relocate_full};
  const kvs_prices p = {.row_bytes = 1000, .layers = 10, .draft_layers = 2, .copy_bandwidth = 1e9, .token_seconds = 1e-3, .effect = 0.01};
  base.result = (kvs_whatif_result){.fits = true, .decode_steps = 100, .read_seconds = {50}};
  c.result = (kvs_whatif_result){.fits = true, .decode_steps = 100, .read_seconds = {40}, .tally = {.moved = 150000, .copied = 50000, .refilled = 2000}};
  kvs_judgement j = kvs_judge(&c, &base, 0, &p);
  CU_ASSERT_DOUBLE_EQUAL(j.moved_bytes, 2e9, 1);       /* 200,000 rows of 10,000 B */
  kvs_cell drafts = c;
  drafts.result.tally.tails = 1000;
  CU_ASSERT_DOUBLE_EQUAL(kvs_judge(&drafts, &base, 0, &p).moved_bytes - j.moved_bytes, 2e6, 1); /* of 2 layers */
  CU_ASSERT_DOUBLE_EQUAL(j.move, 4, 1e-9);             /* read and written at 1 GB/s */
  CU_ASSERT_DOUBLE_EQUAL(j.recompute, 2, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(j.saved, 10, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(j.saved_step, 0.1, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(j.net, 4, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(j.break_even, 60, 1e-9);
  CU_ASSERT_STRING_EQUAL(j.verdict, "do it");
  c.result.read_seconds[0] = 44.2; /* saves 5.8, pays 6: 0.2 of 50 is less than 1 % */
  CU_ASSERT_STRING_EQUAL(kvs_judge(&c, &base, 0, &p).verdict, "no effect");
  c.result.read_seconds[0] = 51;
  j = kvs_judge(&c, &base, 0, &p);
  CU_ASSERT_STRING_EQUAL(j.verdict, "don't");
  CU_ASSERT(isnan(j.break_even));
  c.result.fits = false; /* what it read until it broke off is no saving */
  c.result.read_seconds[0] = 0;
  j = kvs_judge(&c, &base, 0, &p);
  CU_ASSERT_STRING_EQUAL(j.verdict, "does not fit");
  CU_ASSERT(isnan(j.read) && isnan(j.saved) && isnan(j.saved_step) && isnan(j.net) && isnan(j.break_even) && isnan(j.move));
  CU_ASSERT_STRING_EQUAL(kvs_judge(&base, &base, 0, &p).verdict, "baseline");
}

void suite_policy(void) {
  static const kv_test_case cases[] = {{"fifo", test_fifo},
                                       {"need-sort", test_need_sort},
                                       {"sorted", test_sorted},
                                       {"lifo", test_lifo},
                                       {"pages", test_pages}, {"branches of drafts", test_draft_tails},
                                       {"verify block, fifo", test_verify_fifo},
                                       {"verify block, compact", test_verify_compact},
                                       {"verify block, pages", test_verify_pages},
                                       {"prefix hit, pages", test_hit_pages},
                                       {"low water", test_low_water},
                                       {"relocation", test_relocation},
                                       {"price and verdict", test_judge},
                                       {NULL, NULL}};
  kv_suite("policy", cases);
}
