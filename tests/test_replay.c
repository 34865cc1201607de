/* The replay engine on traces small enough to compute by hand, one for each way SGLang handles slots, and one for each
 * way a trace can be inconsistent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "trace_fixture.h"

#define N(events) (uint32_t)(sizeof(events) / sizeof *(events))

static kvs_replay_options options(void) {
  kvs_replay_options o = kvs_replay_options_default();
  o.name = "fixture";
  o.milestone_rows = 1;
  return o;
}

/* ---- what an observer saw ---- */

typedef struct seen {
  kvs_milestone milestone[64];
  unsigned milestones;
  kvs_pool_sample pool[64];
  unsigned pools;
  kvs_measure measure[64];
  unsigned measures;
} seen;

static kv_status see_pool(void *arg, const kvs_pool_sample *s, kv_error *err) {
  seen *w = arg;
  (void)err;
  if (w->pools < 64) w->pool[w->pools++] = *s;
  return KV_OK;
}
static kv_status see_request(void *arg, uint32_t step, int32_t request, const kvs_measure *m, kv_error *err) {
  seen *w = arg;
  (void)step, (void)request, (void)err;
  if (w->measures < 64) w->measure[w->measures++] = *m;
  return KV_OK;
}
static kv_status see_milestone(void *arg, const kvs_milestone *m, kv_error *err) {
  seen *w = arg;
  (void)err;
  if (w->milestones < 64) w->milestone[w->milestones++] = *m;
  return KV_OK;
}

static kvs_replay *run(kvt_allocator allocator, uint32_t pool, uint32_t page, const fx *events, uint32_t n, seen *w) {
  kvs_replay_options o = options();
  kvs_replay *r = NULL;
  kv_error err = {KV_OK, ""};
  kvt_info info = fx_info(allocator, pool, page);
  memset(w, 0, sizeof *w);
  o.observer = (kvs_observer){w, see_pool, see_request, see_milestone, NULL};
  kv_status st = fx_run(&info, &o, events, n, true, &r, &err);
  CU_ASSERT_EQUAL(st, KV_OK);
  if (st) fprintf(stderr, "%s\n", err.text);
  return r;
}

static bool milestone_is(const kvs_milestone *m, int32_t request, const char *event, uint64_t rows, uint64_t runs, uint64_t span) {
  bool ok = m->request == request && !strcmp(m->event, event) && m->rows == rows && m->runs == runs && m->span == span;
  if (!ok)
    fprintf(stderr, "request %d %s: %llu rows, %llu runs, span %llu; expected %d %s %llu %llu %llu\n", m->request, m->event,
            (unsigned long long)m->rows, (unsigned long long)m->runs, (unsigned long long)m->span, request, event,
            (unsigned long long)rows, (unsigned long long)runs, (unsigned long long)span);
  return ok;
}

static bool list_is(const kvs_replay *r, const int32_t *want, uint32_t n) {
  const kvs_freelist *l = kvs_replay_get_freelist(r);
  int32_t have[64], released[64];
  if (l->count != n) return false;
  kvs_freelist_copy(l, have, released);
  return n == 0 || memcmp(have, want, n * sizeof *want) == 0;
}

/* ---- each discipline ---- */

/* Pool of 16, FIFO. Request 0: prompt 4 in slots 1-4; a verify block 5,6,7 of which 5 and 7 are accepted; request 1
 * hits the prefix 1,2 and takes 8; request 0 ends, its last row's slot 7 is freed. Free list: 9..16, 6, 7. */
static void fifo_with_draft_tree_and_shared_prefix(void) {
  static const fx e[] = {FX_STEP_AVAILABLE(1, 12), FX_ARRIVE(0, 4, 2), FX_START(0, 0, 0), FX_CALL(4, 1, 1),
                         FX_EXTEND(0, 0, 1, 4, 1, 2, 3, 4), FX_INSERT(0, 0, 4),
                         FX_STEP_AVAILABLE(2, 10), FX_CALL(3, 1, 2), FX_VERIFY(0, 4, 2, 3, 5, 6, 7),
                         FX_COMMIT(0, 4, 2, 2, 5, 7), FX_FREE(0, KVT_FREE_REJECT, -1, 1, 6),
                         FX_STEP_AVAILABLE(1, 9), FX_ARRIVE(1, 3, 1), FX_START(1, 2, 1, 2), FX_CALL(1, 1, 3),
                         FX_EXTEND(1, 2, 3, 1, 8),
                         FX_STEP_AVAILABLE(2, 10), FX_FREE(0, KVT_FREE_TAIL, -1, 1, 7), FX_FINISH(0, 6)};
  static const int32_t list[] = {9, 10, 11, 12, 13, 14, 15, 16, 6, 7};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN, 16, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, N(list)));
  CU_ASSERT_EQUAL_FATAL(w.milestones, 5);
  CU_ASSERT_TRUE(milestone_is(&w.milestone[0], 0, "prefill_end", 4, 1, 4));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[1], 0, "decode_1", 6, 2, 7));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[2], 1, "prefill_end", 3, 2, 8));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[3], 0, "finish", 6, 2, 7));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[4], 1, "end", 3, 2, 8));
  CU_ASSERT_DOUBLE_EQUAL(w.milestone[1].adjacent_fraction, 0.8, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(w.milestone[1].mean_run, 3.0, 1e-12);
  CU_ASSERT_EQUAL_FATAL(w.pools, 4);
  CU_ASSERT_EQUAL(w.pool[2].live, 7); /* 1-5, 7, 8: the shared 1 and 2 count once */
  CU_ASSERT_EQUAL(w.pool[2].live_rows, 9);
  CU_ASSERT_EQUAL(w.pool[3].live, 3);
  CU_ASSERT_EQUAL(w.pool[3].cached, 3); /* 3, 4, 5 */
  CU_ASSERT_EQUAL(w.pool[3].free_runs_address, 2); /* 6-7, 9-16 */
  CU_ASSERT_EQUAL(w.pool[3].largest_free_run, 8);
  CU_ASSERT_DOUBLE_EQUAL(w.pool[3].fragmentation, 0.2, 1e-12);
  CU_ASSERT_EQUAL(w.pool[3].free_runs_list, 2); /* 9..16 and 6,7 */
  CU_ASSERT_EQUAL(kvs_pool_refs(kvs_replay_get_pool(r), 1), 1);
  CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->owner[4 - 1], 0);
  kvs_replay_free(r);
}

/* need_sort: frees wait in the release list; only a call that is short merges and sorts. */
static void need_sort_merges_when_short(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 5, 0), FX_START(0, 0, 0), FX_CALL(5, 1, 1),
                         FX_EXTEND(0, 0, 1, 5, 1, 2, 3, 4, 5), FX_FREE(0, KVT_FREE_TAIL, -1, 2, 5, 2), FX_FINISH(0, 5),
                         FX_STEP_AVAILABLE(1, 3), FX_ARRIVE(1, 2, 0), FX_START(1, 0, 0), FX_CALL(2, 1, 2),
                         FX_EXTEND(1, 0, 2, 2, 6, 7), /* enough in the list: 6,7 come first */
                         FX_STEP_AVAILABLE(1, 1), FX_ARRIVE(2, 2, 0), FX_START(2, 0, 0), FX_CALL(2, 1, 3),
                         FX_EXTEND(2, 0, 3, 2, 2, 5)}; /* 8 alone is too few: {8} + {5,2} sorted is 2,5,8 */
  static const int32_t list[] = {8};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN_SORTED, 8, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 1));
  CU_ASSERT_EQUAL(kvs_replay_get_freelist(r)->released, 0);
  kvs_replay_free(r);
}

/* Pages of 4, pool of 6 pages (slots 4..27). A request fills page 1, part of page 2; decode goes on in page 2. Frees of
 * one group become one free: unique pages, ascending, to the head. */
static void paged_groups_go_to_the_head_ascending(void) {
  static const fx e[] = {FX_STEP_AVAILABLE(1, 16), FX_ARRIVE(0, 5, 0), FX_START(0, 0, 0), FX_CALL(5, 1, 1),
                         FX_EXTEND(0, 0, 1, 5, 4, 5, 6, 7, 8),
                         FX_STEP_AVAILABLE(1, 8), FX_ARRIVE(1, 6, 0), FX_START(1, 0, 0), FX_CALL(6, 1, 2),
                         FX_EXTEND(1, 0, 2, 6, 12, 13, 14, 15, 16, 17),
                         FX_STEP_AVAILABLE(2, 8), FX_CALL(1, 1, 3), FX_DECODE(0, 5, 3, 9),
                         /* both end in one step: group 7 frees pages 4, 3 (of request 1), then 2 (of request 0) */
                         FX_STEP_AVAILABLE(2, 20), FX_FREE(1, KVT_FREE_TAIL, 7, 6, 17, 16, 15, 14, 13, 12), FX_FINISH(1, 6),
                         FX_FREE(0, KVT_FREE_TAIL, 7, 2, 9, 8), FX_FINISH(0, 6)};
  static const int32_t list[] = {2, 3, 4, 5, 6};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_PAGED, 24, 4, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, N(list)));
  CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->free, 20); /* page 1 stays: cached */
  kvs_replay_free(r);
}

/* The same frees one by one are prepended one by one: 2 before 3 before 4 only because each is a free of its own. */
static void paged_frees_at_once_are_prepended_one_by_one(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 12, 0), FX_START(0, 0, 0), FX_CALL(12, 1, 1),
                         FX_EXTEND(0, 0, 1, 12, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 4, 5, 6, 7), FX_FREE(0, KVT_FREE_TAIL, -1, 1, 12),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 8, 9, 10, 11), FX_FINISH(0, 12)};
  static const int32_t list[] = {2, 3, 1, 4, 5, 6};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_PAGED, 24, 4, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, N(list)));
  CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->free, 24); /* one slot of page 3 was freed: the whole page is */
  kvs_replay_free(r);
}

/* Pages with need_sort: freed pages wait; slots / page + requests + 1 > entries merges. */
static void paged_need_sort(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1), FX_EXTEND(0, 0, 1, 4, 4, 5, 6, 7),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 4, 5, 6, 7), FX_FINISH(0, 4),
                         FX_STEP_AVAILABLE(1, 12), FX_ARRIVE(1, 4, 0), FX_START(1, 0, 0), FX_CALL(4, 1, 2),
                         FX_EXTEND(1, 0, 2, 4, 8, 9, 10, 11), /* 4/4 + 1 + 1 = 3 entries are there: 2,3,4 */
                         FX_STEP_AVAILABLE(1, 8), FX_ARRIVE(2, 4, 0), FX_START(2, 0, 0), FX_CALL(4, 1, 3),
                         FX_EXTEND(2, 0, 3, 4, 4, 5, 6, 7)}; /* only 3,4: merged to 1,3,4 */
  static const int32_t list[] = {3, 4};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_PAGED_SORTED, 16, 4, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 2));
  kvs_replay_free(r);
}

/* Spec v2: slots ahead of the commit, accepted ones become rows in place, the rest is freed at the end. */
static void slots_allocated_ahead(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 2, 0), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 1, 2),
                         FX_STEP(2), FX_CALL(4, 1, 2), FX_SPEC(0, 2, 2, 4, 3, 4, 5, 6),
                         FX_STEP(2), FX_COMMIT(0, 2, 3, 0, 0), FX_CALL(3, 1, 3), FX_SPEC(0, 6, 3, 3, 7, 8, 9),
                         FX_STEP_AVAILABLE(2, 4), FX_COMMIT(0, 5, 1, 0, 0), FX_FINISH(0, 6),
                         FX_FREE(0, KVT_FREE_OVER, -1, 3, 7, 8, 9)};
  static const int32_t list[] = {10, 7, 8, 9};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN, 10, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 4));
  CU_ASSERT_EQUAL_FATAL(w.milestones, 4);
  CU_ASSERT_TRUE(milestone_is(&w.milestone[0], 0, "prefill_end", 2, 1, 2));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[1], 0, "decode_1", 2, 1, 2)); /* before the commit */
  CU_ASSERT_TRUE(milestone_is(&w.milestone[2], 0, "decode_2", 5, 1, 5));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[3], 0, "finish", 5, 1, 5)); /* before the last commit */
  kvs_replay_free(r);
}

/* REMAP: the prefix cache held positions 1,2 already (slots 1,2 of request 0); request 1's duplicates 4,5 are freed
 * while its row still points at them, then the row is rewritten. */
static void remap_after_a_duplicate(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 3, 0), FX_ARRIVE(1, 3, 0), FX_START(0, 0, 0), FX_START(1, 0, 0), FX_CALL(6, 2, 1),
                         FX_EXTEND(0, 0, 1, 3, 1, 2, 3), FX_EXTEND(1, 0, 1, 3, 4, 5, 6), FX_INSERT(0, 0, 3),
                         FX_FREE(1, KVT_FREE_DUPLICATE, -1, 2, 4, 5), FX_REMAP(1, 0, 2, 1, 2), FX_INSERT(1, 2, 3),
                         FX_STEP_AVAILABLE(2, 4)};
  static const int32_t list[] = {7, 8, 4, 5};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN, 8, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 4));
  CU_ASSERT_EQUAL(kvs_pool_refs(kvs_replay_get_pool(r), 1), 2);
  CU_ASSERT_EQUAL(kvs_pool_refs(kvs_replay_get_pool(r), 4), 0);
  CU_ASSERT_EQUAL_FATAL(w.milestones, 4);
  CU_ASSERT_TRUE(milestone_is(&w.milestone[1], 1, "prefill_end", 3, 1, 3)); /* as the batch left it: 4,5,6 */
  CU_ASSERT_TRUE(milestone_is(&w.milestone[3], 1, "end", 3, 2, 6));         /* 1,2,6 */
  kvs_replay_free(r);
}

/* RETRACT gives the request's slots back; it starts again, hits nothing, and its prefill is told once. */
static void retract_and_start_again(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 2, 4), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 1, 2),
                         FX_STEP(2), FX_CALL(1, 1, 2), FX_DECODE(0, 2, 2, 3), FX_FREE(0, KVT_FREE_RETRACT, -1, 3, 1, 2, 3),
                         FX_RETRACT(0, 3),
                         FX_STEP_AVAILABLE(1, 1), FX_START(0, 0, 0), FX_CALL(3, 1, 3), FX_EXTEND(0, 0, 3, 3, 4, 1, 2)};
  static const int32_t list[] = {3};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN, 4, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 1));
  CU_ASSERT_EQUAL_FATAL(w.milestones, 3);
  CU_ASSERT_TRUE(milestone_is(&w.milestone[0], 0, "prefill_end", 2, 1, 2));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[1], 0, "decode_1", 3, 1, 3));
  CU_ASSERT_TRUE(milestone_is(&w.milestone[2], 0, "end", 3, 2, 4)); /* 4,1,2 */
  CU_ASSERT_EQUAL(kvs_replay_get_totals(r)->retracted, 1);
  kvs_replay_free(r);
}

static void clear_restores_the_first_order(void) {
  static const fx e[] = {FX_STEP_AVAILABLE(1, 2), FX_ARRIVE(0, 2, 0), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 1, 2),
                         FX_FINISH(0, 2), FX_CLEAR,
                         FX_STEP_AVAILABLE(1, 3), FX_ARRIVE(1, 1, 0), FX_START(1, 0, 0), FX_CALL(1, 1, 2), FX_EXTEND(1, 0, 2, 1, 1)};
  static const int32_t list[] = {2, 3, 4};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_TOKEN, 4, 1, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 3));
  kvs_replay_free(r);
}

/* ---- measures ---- */

/* Rows in slots 1,2,3, 7, 5,6 of 1152 B: DRAM rows of 1024 B by hand: bytes 1152-4607 touch 1-4, 8064-9215 touch 7-8,
 * 5760-8063 touch 5-7; distinct 1,2,3,4,5,6,7,8 = 8. Run lengths 3, 1, 2. */
static void measures_of_a_row(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 6, 0), FX_START(0, 0, 0), FX_EXTEND(0, 0, 1, 6, 1, 2, 3, 7, 5, 6)};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_OTHER, 16, 1, e, N(e), &w);
  CU_ASSERT_EQUAL_FATAL(w.measures, 1);
  const kvs_measure *m = &w.measure[0];
  CU_ASSERT_EQUAL(m->rows, 6);
  CU_ASSERT_EQUAL(m->runs, 3);
  CU_ASSERT_EQUAL(m->sectors, 6 * 36);
  CU_ASSERT_EQUAL(m->dram_rows, 8);
  CU_ASSERT_EQUAL(m->tlb_pages, 1);
  CU_ASSERT_EQUAL(m->span, 7);
  CU_ASSERT_EQUAL(m->run_max, 3);
  CU_ASSERT_DOUBLE_EQUAL(m->run_p10, 1, 0);
  CU_ASSERT_DOUBLE_EQUAL(m->run_p50, 2, 0);
  CU_ASSERT_DOUBLE_EQUAL(m->run_p90, 3, 0);
  CU_ASSERT_DOUBLE_EQUAL(m->adjacent_fraction, 3.0 / 5.0, 1e-12);
  kvs_replay_free(r);
}

/* 584-B rows are no multiple of 32 B: row s covers sectors floor(584 s / 32) to floor((584 s + 583) / 32). Slots 1,2 as
 * one run: 18..54, 37 sectors (not 19 + 19: they share sector 36). Slot 4: 73..91, 19 sectors. */
static void sectors_of_odd_rows(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 3, 0), FX_START(0, 0, 0), FX_EXTEND(0, 0, 1, 3, 1, 2, 4)};
  kvs_replay_options o = options();
  seen w = {.milestones = 0};
  kvs_replay *r;
  kvt_info info = fx_info(KVT_ALLOC_OTHER, 16, 1);
  o.geometry.row_bytes = 584;
  o.observer = (kvs_observer){&w, NULL, see_request, NULL, NULL};
  CU_ASSERT_EQUAL(fx_run(&info, &o, e, N(e), true, &r, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(w.measures, 1);
  CU_ASSERT_EQUAL(w.measure[0].sectors, 37 + 19);
  kvs_replay_free(r);
}

/* Rows beyond the bitmaps' memory are scanned: same numbers. */
static void measures_without_bitmaps_are_the_same(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 6, 0), FX_START(0, 0, 0), FX_EXTEND(0, 0, 1, 6, 1, 2, 3, 7, 5, 6)};
  kvs_replay_options o = options();
  seen w = {.milestones = 0};
  kvs_replay *r;
  kvt_info info = fx_info(KVT_ALLOC_OTHER, 16, 1);
  o.bitmap_bytes = 0;
  o.observer = (kvs_observer){&w, NULL, see_request, NULL, NULL};
  CU_ASSERT_EQUAL(fx_run(&info, &o, e, N(e), true, &r, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(w.measures, 1);
  CU_ASSERT_EQUAL(w.measure[0].dram_rows, 8);
  CU_ASSERT_EQUAL(w.measure[0].tlb_pages, 1);
  kvs_replay_free(r);
}

static void histogram_buckets(void) {
  for (uint64_t length = 1; length <= 64; length++) CU_ASSERT_EQUAL(kvs_hist_length(kvs_hist_bucket(length)), length);
  for (uint64_t length = 65; length < (1u << 28); length = length * 5 / 4 + 3) {
    uint64_t told = kvs_hist_length(kvs_hist_bucket(length));
    CU_ASSERT_TRUE(told >= length && (double)told <= (double)length * 1.032);
    CU_ASSERT_TRUE(kvs_hist_bucket(length) < KVS_HIST_BUCKETS);
    CU_ASSERT_EQUAL(kvs_hist_bucket(told), kvs_hist_bucket(length));
    CU_ASSERT_EQUAL(kvs_hist_bucket(told + 1), kvs_hist_bucket(length) + 1);
  }
}

/* Free runs by address against a slot-by-slot count, on pools with runs across every block border. */
static void free_runs_by_address(void) {
  uint64_t seed = 12345;
  for (unsigned round = 0; round < 300; round++) {
    kvs_pool p;
    uint32_t size = 1 + round * 7 % 400, runs = 0, longest = 0, current = 0;
    kvt_info info = fx_info(KVT_ALLOC_OTHER, size, 1);
    CU_ASSERT_EQUAL_FATAL(kvs_pool_init(&p, &info, NULL), KV_OK);
    for (uint32_t i = 0; i < size; i++) {
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      if ((seed >> 33) % 100 < round % 101) (void)kvs_pool_take_run(&p, (int32_t)(i + 1), 1, 0, 0);
    }
    for (uint32_t i = 0; i < size; i++) { /* give some back */
      seed = seed * 6364136223846793005ull + 1442695040888963407ull;
      if ((seed >> 33) % 100 < 20) kvs_pool_give_page(&p, (int32_t)(i + 1), 1);
    }
    for (uint32_t i = 0; i < size; i++) {
      bool is_free = kvs_pool_is_free(&p, (int32_t)(i + 1));
      runs += is_free && !current;
      current = is_free ? current + 1 : 0;
      if (current > longest) longest = current;
    }
    CU_ASSERT_EQUAL(p.free_runs, runs);
    CU_ASSERT_EQUAL(kvs_pool_longest_free(&p), longest);
    kvs_pool_fini(&p);
  }
}

/* ---- inconsistent traces ---- */

#define PREFIX FX_STEP(1), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1), FX_EXTEND(0, 0, 1, 4, 1, 2, 3, 4)

static void refuse(kvt_allocator allocator, const fx *events, uint32_t n, const char *why) {
  kvs_replay_options o = options();
  kvs_replay *r = NULL;
  kv_error err = {KV_OK, ""};
  kvt_info info = fx_info(allocator, 8, 1);
  kv_status st = fx_run(&info, &o, events, n, true, &r, &err);
  CU_ASSERT_EQUAL(st, KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, why));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "fixture"));
  if (st != KV_ERR_INPUT || !strstr(err.text, why)) fprintf(stderr, "expected '%s', got '%s'\n", why, err.text);
  kvs_replay_free(r);
  /* permissive: counted, skipped, never a crash */
  o.permissive = true;
  st = fx_run(&info, &o, events, n, true, &r, &err);
  if (st == KV_OK) CU_ASSERT_TRUE(kvs_replay_get_totals(r)->skipped > 0);
  kvs_replay_free(r);
}
#define REFUSE(allocator, why, ...)            \
  do {                                         \
    static const fx e[] = {PREFIX, __VA_ARGS__}; \
    refuse(allocator, e, N(e), why);           \
  } while (0)

static void inconsistent_slots_are_refused(void) {
  REFUSE(KVT_ALLOC_TOKEN, "double free", FX_FREE(0, KVT_FREE_TAIL, -1, 1, 4), FX_FREE(0, KVT_FREE_TAIL, -1, 1, 4));
  REFUSE(KVT_ALLOC_TOKEN, "double free", FX_FREE(0, KVT_FREE_TAIL, -1, 2, 4, 4));
  REFUSE(KVT_ALLOC_TOKEN, "is free already", FX_FREE(-1, KVT_FREE_EVICT, -1, 1, 7));
  REFUSE(KVT_ALLOC_TOKEN, "a running request's row holds it", FX_FREE(-1, KVT_FREE_EVICT, -1, 1, 2));
  REFUSE(KVT_ALLOC_TOKEN, "is allocated, but held already", FX_CALL(1, 1, 2), FX_DECODE(0, 4, 2, 3));
  REFUSE(KVT_ALLOC_OTHER, "is allocated, but held already", FX_DECODE(0, 4, 2, 3));
  REFUSE(KVT_ALLOC_TOKEN, "would hand out next", FX_CALL(1, 1, 2), FX_DECODE(0, 4, 2, 6));
  REFUSE(KVT_ALLOC_TOKEN, "outside the pool (1 to 8)", FX_CALL(1, 1, 2), FX_DECODE(0, 4, 2, 9));
  REFUSE(KVT_ALLOC_OTHER, "outside the pool", FX_DECODE(0, 4, 2, 0));
  REFUSE(KVT_ALLOC_OTHER, "outside the pool", FX_DECODE(0, 4, 2, -2147483647));
  REFUSE(KVT_ALLOC_OTHER, "outside the pool", FX_FREE(-1, KVT_FREE_EVICT, -1, 2, 2147483647, -2147483647));
  REFUSE(KVT_ALLOC_TOKEN, "cannot become part of a row", FX_ARRIVE(1, 4, 0), FX_START(1, 1, 7));
  REFUSE(KVT_ALLOC_TOKEN, "more slots than the request's draft tree", FX_COMMIT(0, 4, 1, 1, 4));
  REFUSE(KVT_ALLOC_TOKEN, "not of the request's verify block", FX_CALL(1, 1, 2), FX_VERIFY(0, 4, 2, 1, 5), FX_COMMIT(0, 4, 1, 1, 4));
  REFUSE(KVT_ALLOC_TOKEN, "rejects more slots", FX_FREE(0, KVT_FREE_REJECT, -1, 1, 4));
  REFUSE(KVT_ALLOC_TOKEN, "row still holds it", FX_FREE(0, KVT_FREE_TAIL, -1, 1, 4), FX_ARRIVE(1, 5, 0), FX_START(1, 0, 0),
         FX_CALL(5, 1, 2), FX_EXTEND(1, 0, 2, 5, 5, 6, 7, 8, 4));
}

static void inconsistent_requests_are_refused(void) {
  REFUSE(KVT_ALLOC_TOKEN, "never arrived", FX_START(1, 0, 0));
  REFUSE(KVT_ALLOC_TOKEN, "never started", FX_ARRIVE(1, 1, 0), FX_CALL(1, 1, 2), FX_EXTEND(1, 0, 2, 1, 5));
  REFUSE(KVT_ALLOC_TOKEN, "never arrived", FX_FINISH(2, 0));
  REFUSE(KVT_ALLOC_TOKEN, "finished already", FX_FINISH(0, 4), FX_FINISH(0, 4));
  REFUSE(KVT_ALLOC_TOKEN, "arrived already", FX_ARRIVE(0, 4, 0));
  REFUSE(KVT_ALLOC_TOKEN, "running already", FX_START(0, 0, 0));
  REFUSE(KVT_ALLOC_TOKEN, "does not continue the request's row", FX_CALL(1, 1, 2), FX_DECODE(0, 5, 2, 5));
  REFUSE(KVT_ALLOC_TOKEN, "positions that the row does not have", FX_REMAP(0, 3, 2, 1, 2));
  REFUSE(KVT_ALLOC_TOKEN, "while requests run", FX_CLEAR);
  REFUSE(KVT_ALLOC_TOKEN, "/events/request[5]: not a row of /requests", FX_FINISH(8, 4));
  REFUSE(KVT_ALLOC_TOKEN, "needs a request", FX_FINISH(-1, 4));
  REFUSE(KVT_ALLOC_TOKEN, "no such event kind", {KVT_KINDS, 0, 0, 0, 0, 0, {0}});
  REFUSE(KVT_ALLOC_TOKEN, "no such reason", FX_FREE(0, KVT_FREE_REASONS, -1, 0, 0));
  REFUSE(KVT_ALLOC_TOKEN, "runs backwards", {KVT_STEP, -1, 10, -1, 1, 0, {0}});
  REFUSE(KVT_ALLOC_TOKEN, "has no slots", {KVT_INSERT, 0, 0, 4, -1, 1, {1}});
  REFUSE(KVT_ALLOC_TOKEN, "more slots than the pool has", {KVT_FREE, -1, -1, -1, 4, 9, {1, 2, 3, 4, 5, 6, 7, 8, 8}});
}

static void step_available_is_checked(void) {
  static const fx e[] = {FX_STEP_AVAILABLE(1, 5), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1),
                         FX_EXTEND(0, 0, 1, 4, 1, 2, 3, 4)};
  kvs_replay_options o = options();
  kvs_replay *r;
  kv_error err;
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  CU_ASSERT_EQUAL(fx_run(&info, &o, e, N(e), true, &r, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "says 5 slots were available after the step, the events leave 4"));
  kvs_replay_free(r);
}

/* A token allocator knows no pages: its list has an entry a slot. */
static void token_allocators_have_no_pages(void) {
  kvs_replay_options o = options();
  kvs_replay *r;
  kv_error err;
  for (kvt_allocator a = KVT_ALLOC_TOKEN; a <= KVT_ALLOC_TOKEN_SORTED; a++) {
    kvt_info info = fx_info(a, 64, 16);
    CU_ASSERT_EQUAL(kvs_replay_create(&info, &o, NULL, &r, &err), KV_ERR_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "pages of one slot"));
  }
}

/* One slot for one request may be a decode or an extend: only the rows that follow tell which, and need_sort asks for
 * more entries before an extend. */
static void paged_need_sort_tells_extend_from_decode(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1), FX_EXTEND(0, 0, 1, 4, 4, 5, 6, 7),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 4, 5, 6, 7), FX_FINISH(0, 4),
                         FX_STEP_AVAILABLE(1, 4), FX_ARRIVE(1, 1, 0), FX_START(1, 0, 0), FX_CALL(1, 1, 2),
                         FX_EXTEND(1, 0, 2, 1, 4)}; /* 1/4 + 1 + 1 = 2 > the one entry left: merged, page 1 first */
  static const int32_t list[] = {2};
  seen w;
  kvs_replay *r = run(KVT_ALLOC_PAGED_SORTED, 8, 4, e, N(e), &w);
  CU_ASSERT_TRUE(list_is(r, list, 1));
  kvs_replay_free(r);
}

/* Pages of 2, 1 to 6, all taken. One group: pages 5 and 2 by free(), 3 and 1 as a segment of a row, whose order is kept, before the others,
 * which are ascending. */
static void segments_keep_their_order(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 12, 0), FX_START(0, 0, 0), FX_CALL(12, 1, 1), FX_EXTEND(0, 0, 1, 12, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13),
                         {KVT_FREE, 0, -1, 0, KVT_FREE_TAIL, 4, {10, 11, 4, 5}}, {KVT_FREE, 0, 0, 0, KVT_FREE_TAIL, 3, {6, 7, 2}},
                         FX_FINISH(0, 12), FX_STEP_AVAILABLE(1, 8)};
  static const int32_t want[] = {3, 1, 2, 5}, waiting[] = {1, 2, 3, 5};
  seen w;
  for (int sorts = 0; sorts < 2; sorts++) {
    kvs_replay *r = run(sorts ? KVT_ALLOC_PAGED_SEGMENT_SORTED : KVT_ALLOC_PAGED_SEGMENT, 12, 2, e, N(e), &w);
    const kvs_freelist *l = kvs_replay_get_freelist(r);
    int32_t list[8], released[8];
    kvs_freelist_copy(l, list, released);
    CU_ASSERT_EQUAL_FATAL(sorts ? l->released : l->count, 4);
    CU_ASSERT_EQUAL(memcmp(sorts ? released : list, sorts ? waiting : want, sizeof want), 0);
    CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->free, 8); /* slot 3 went with its page */
    kvs_replay_free(r);
  }
}

/* Pages of 4, 1 to 4. Request 0 takes 1 and 2, leaves page 1 cached and gives page 2 back; request 1 hits page 1, takes the next page and
 * ends; request 2 takes all, evicting page 1. */
#define VLLM_TRACE(next, last, first_page, second, third)                                                                             \
  {FX_STEP(1), FX_ARRIVE(0, 6, 0), FX_START(0, 0, 0), FX_CALL(6, 1, 1), FX_EXTEND(0, 0, 1, 6, 4, 5, 6, 7, 8, 9),                      \
   FX_SPEC(0, 6, -1, 2, 10, 11), FX_FREE(0, KVT_FREE_OVER, 0, 2, 10, 11), FX_FREE(0, KVT_FREE_TAIL, 0, 2, 8, 9), FX_FINISH(0, 6),     \
   FX_STEP_AVAILABLE(1, 8), FX_ARRIVE(1, 6, 0), FX_START(1, 4, 4, 5, 6, 7), FX_CALL(1, 1, 2), FX_EXTEND(1, 4, 2, 1, next),            \
   FX_STEP_AVAILABLE(2, 16), FX_FREE(1, KVT_FREE_TAIL, 1, 1, next), FX_FINISH(1, 5),                                                  \
   FX_STEP_AVAILABLE(1, 0), FX_ARRIVE(2, 13, 0), FX_START(2, 0, 0), FX_FREE(-1, KVT_FREE_EVICT, -1, 4, 4, 5, 6, 7),                   \
   FX_CALL(13, 1, 3), FX_EXTEND(2, 0, 3, 13, first_page, second, third, last)}
#define PAGE(p) (p) * 4, (p) * 4 + 1, (p) * 4 + 2, (p) * 4 + 3

static void vllm_keeps_one_queue(void) {
  static const fx back[] = VLLM_TRACE(12, 12, PAGE(4), PAGE(2), PAGE(1)), front[] = VLLM_TRACE(8, 4, PAGE(2), PAGE(3), PAGE(4));
  seen w;
  static const int32_t behind[] = {4, 2, 3, 1}, ahead[] = {2, 3, 4, 1};
  kvs_replay *r = run(KVT_ALLOC_VLLM, 16, 4, back, 17, &w);
  CU_ASSERT_TRUE(list_is(r, behind, 4));
  CU_ASSERT_EQUAL(kvs_freelist_runs(kvs_replay_get_freelist(r)), 3);
  kvs_replay_free(r);
  r = run(KVT_ALLOC_VLLM_FRONT, 16, 4, front, 17, &w);
  CU_ASSERT_TRUE(list_is(r, ahead, 4));
  CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->free, 12); /* page 1 is cached, and in the queue */
  kvs_replay_free(r);
  r = run(KVT_ALLOC_VLLM_FRONT, 16, 4, front, N(front), &w);
  CU_ASSERT_TRUE(list_is(r, NULL, 0));
  kvs_replay_free(r);
  kvs_replay_options o = options();
  kvt_info info = fx_info(KVT_ALLOC_VLLM, 16, 4);
  kv_error err;
  CU_ASSERT_EQUAL(fx_run(&info, &o, front, N(front), true, &r, &err), KV_ERR_INPUT); /* each order is another's mistake */
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "would hand out next"));
  kvs_replay_free(r);
}

static void an_initial_list_is_taken(void) {
  static const fx e[] = {FX_STEP_AVAILABLE(1, 1), FX_ARRIVE(0, 2, 0), FX_START(0, 0, 0), FX_CALL(2, 1, 1), FX_EXTEND(0, 0, 1, 2, 7, 3)};
  static const int32_t initial[] = {7, 3, 5}, twice[] = {7, 7}, wild[] = {0};
  kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  kvs_replay_options o = options();
  kvs_replay *r;
  kv_error err;
  info.initial_free = 2;
  CU_ASSERT_EQUAL(kvs_replay_create(&info, &o, twice, &r, &err), KV_ERR_INPUT);
  info.initial_free = 1;
  CU_ASSERT_EQUAL(kvs_replay_create(&info, &o, wild, &r, &err), KV_ERR_INPUT);
  info.initial_free = 3;
  CU_ASSERT_EQUAL_FATAL(kvs_replay_create(&info, &o, initial, &r, &err), KV_OK);
  CU_ASSERT_EQUAL(kvs_replay_get_pool(r)->free, 3);
  kvs_replay_free(r);
  (void)e;
}

void suite_replay(void) {
  static const kv_test_case cases[] = {{"FIFO, draft tree, shared prefix", fifo_with_draft_tree_and_shared_prefix},
                                       {"need_sort", need_sort_merges_when_short},
                                       {"paged, one group", paged_groups_go_to_the_head_ascending},
                                       {"paged, at once", paged_frees_at_once_are_prepended_one_by_one},
                                       {"paged, need_sort", paged_need_sort},
                                       {"spec v2", slots_allocated_ahead},
                                       {"REMAP", remap_after_a_duplicate},
                                       {"RETRACT", retract_and_start_again},
                                       {"CLEAR", clear_restores_the_first_order},
                                       {"measures", measures_of_a_row},
                                       {"sectors of odd rows", sectors_of_odd_rows},
                                       {"without bitmaps", measures_without_bitmaps_are_the_same},
                                       {"histogram", histogram_buckets},
                                       {"free runs", free_runs_by_address},
                                       {"inconsistent slots", inconsistent_slots_are_refused},
                                       {"inconsistent requests", inconsistent_requests_are_refused},
                                       {"available", step_available_is_checked},
                                       {"token allocators", token_allocators_have_no_pages},
                                       {"extend or decode", paged_need_sort_tells_extend_from_decode},
                                       {"segments of rows", segments_keep_their_order},
                                       {"vLLM's queue", vllm_keeps_one_queue},
                                       {"initial list", an_initial_list_is_taken},
                                       {NULL, NULL}};
  kv_suite("replay", cases);
}
