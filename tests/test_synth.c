/* Synthetic traces: what is known beforehand against what a replay finds; seeds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "replay.h"
#include "synth.h"

static kv_status keep_end(void *arg, const kvs_milestone *m, kv_error *err) {
  uint64_t *runs = arg;
  (void)err;
  if (!strcmp(m->event, "end") && m->request < 64) runs[m->request] = m->runs;
  return KV_OK;
}

static kv_status replayed(const kvs_tape *t, uint64_t *runs) {
  kvs_replay_options o = kvs_replay_options_default();
  const kvt_batch b = kvs_tape_batch(t);
  kvs_replay *r = NULL;
  kvt_check check = {0};
  o.every = 0;
  o.observer = (kvs_observer){.arg = runs, .milestone = keep_end};
  kv_status st = kvt_check_batch(&b, &t->info, "tape", &check, NULL);
  if (!st) st = kvs_replay_create(&t->info, &o, t->initial, &r, NULL);
  if (!st) st = kvs_replay_batch(r, &b, NULL);
  if (!st) st = kvs_replay_finish(r, NULL);
  kvs_replay_free(r);
  return st;
}

static void check_pattern(kvs_pattern pattern, uint32_t requests, double expected, double tolerance) {
  kvs_synth_options o = kvs_synth_options_default();
  kvs_tape t;
  kvs_truth truth;
  uint64_t runs[64] = {0};
  double sum = 0;
  o.pattern = pattern;
  o.requests = requests;
  o.rows = 1000;
  o.run = 7;
  CU_ASSERT_EQUAL_FATAL(kvs_synth(&o, &t, &truth, NULL), KV_OK);
  CU_ASSERT_EQUAL(replayed(&t, runs), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(truth.expected_runs, expected, 1e-9);
  for (uint32_t r = 0; r < requests; r++) {
    CU_ASSERT_EQUAL(runs[r], truth.runs[r]);
    sum += (double)runs[r];
  }
  CU_ASSERT_DOUBLE_EQUAL(sum / requests, expected, tolerance);
  kvs_tape_free(&t);
  kvs_truth_free(&truth);
}

static void test_patterns(void) {
  check_pattern(KVS_CONTIGUOUS, 5, 1, 0);
  check_pattern(KVS_COMB, 3, 1000, 0);
  check_pattern(KVS_COMB, 1, 1, 0);
  check_pattern(KVS_BLOCKS, 4, 143, 0); /* ceil(1000 / 7) */
  check_pattern(KVS_BLOCKS, 1, 1, 0);
  check_pattern(KVS_RANDOM, 4, 1000 - 999.0 / 65536, 1);
  /* 999 trials of probability 1/7: mean 142.7, deviation 11.1 a row; 5 deviations of a mean of 60 rows, and the last rows
   * lose some to draws that follow each other */
  check_pattern(KVS_GEOMETRIC, 60, 1 + 999.0 / 7, 5 * 11.1 / sqrt(60));
}

static void test_too_many(void) {
  kvs_synth_options o = kvs_synth_options_default();
  kvs_tape t;
  kvs_truth truth;
  kv_error err;
  o.pattern = KVS_BLOCKS;
  o.pool = 4 * o.rows - 1;
  CU_ASSERT_EQUAL(kvs_synth(&o, &t, &truth, &err), KV_ERR_USAGE);
  kvs_tape_free(&t);
  kvs_truth_free(&truth);
}

static void test_seeds(void) {
  static const kvt_allocator kind[3] = {KVT_ALLOC_TOKEN, KVT_ALLOC_TOKEN_SORTED, KVT_ALLOC_OTHER};
  for (uint64_t seed = 1; seed < 30; seed++) {
    kvs_synth_options o = kvs_synth_options_default();
    kvs_tape a, b;
    kvs_truth truth;
    uint64_t runs[64];
    o.seed = seed;
    o.pool = 512;
    o.actions = 300;
    o.allocator = kind[seed % 3];
    CU_ASSERT_EQUAL(kvs_synth(&o, &a, &truth, NULL), KV_OK);
    CU_ASSERT_EQUAL(kvs_synth(&o, &b, &truth, NULL), KV_OK);
    CU_ASSERT(a.info.slots == b.info.slots && !memcmp(a.slot, b.slot, a.info.slots * sizeof *a.slot));
    CU_ASSERT(a.info.steps > 50);
    CU_ASSERT_EQUAL(replayed(&a, runs), KV_OK);
    kvs_tape_free(&b);
    o.seed += 1000;
    CU_ASSERT_EQUAL(kvs_synth(&o, &b, &truth, NULL), KV_OK);
    CU_ASSERT(a.info.slots != b.info.slots || memcmp(a.slot, b.slot, a.info.slots * sizeof *a.slot));
    kvs_tape_free(&a);
    kvs_tape_free(&b);
  }
}

/* splitmix64 of seed 1234567, from its author's reference output */
static void test_random(void) {
  uint64_t s = 1234567;
  CU_ASSERT_EQUAL(kvs_random(&s), 6457827717110365317ull);
  CU_ASSERT_EQUAL(kvs_random(&s), 3203168211198807973ull);
}

void suite_synth(void) {
  static const kv_test_case cases[] = {{"known runs", test_patterns}, {"does not fit", test_too_many},
                                       {"seeds", test_seeds},         {"splitmix64", test_random},
                                       {NULL, NULL}};
  kv_suite("synth", cases);
}
