/* What-if simulations of random servers, every policy: no slot held twice, none lost, frees match, the oracle is never
 * beaten, and the simulation written as a trace replays to the same runs. A trace that fails is made smaller.
 * KVROOF_LONG=N runs N random traces (make test: 300). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "replay.h"
#include "synth.h"
#include "whatif.h"

#define STEPS_MOST 8192u
#define ACTIONS_MOST 400u

typedef struct step_figures {
  uint64_t rows, runs;
} step_figures;

typedef struct run {
  kvs_whatif *whatif;
  kvs_tape *told;
  step_figures *figures; /* [STEPS_MOST] by step */
  bool exact;
} run;

static kv_status on_sample(void *arg, const kvs_whatif_sample *s, kv_error *err) {
  run *r = arg;
  if (s->step < STEPS_MOST) r->figures[s->step] = (step_figures){s->rows, s->runs};
  return kvs_world_check(kvs_whatif_get_world(r->whatif), err);
}

static kv_status on_tell(void *arg, const kvt_event *e, const kvt_step *row, kv_error *err) {
  run *r = arg;
  (void)err;
  kvt_step s = row ? *row : (kvt_step){0};
  if (!r->exact) s.available = -1;
  if (row)
    kvs_tape_step(r->told, (kvt_step_type)e->aux, &s);
  else
    kvs_tape_add(r->told, e->kind, e->request, e->position, e->length, e->aux, e->slots, e->count);
  return KV_OK;
}

/* Simulates; `told` may be NULL. KV_END: does not fit. */
static kv_status simulate(const kvs_tape *tape, const kvs_policy *policy, const kvs_policy_settings *settings, kvs_tape *told,
                          step_figures *figures, kvs_whatif_result *result, kv_error *err) {
  kvs_whatif_options o = kvs_whatif_options_default();
  run r = {.told = told, .figures = figures};
  const kvt_batch batch = kvs_tape_batch(tape);
  kvt_info info = tape->info;
  o.settings = *settings;
  o.every = 1;
  o.detail_every = 5;
  o.cost[0] = (kvs_cost){.read_bandwidth = 1e12, .copy_bandwidth = 1e12};
  o.costs = 1;
  o.arg = &r;
  o.sample = on_sample;
  if (told) o.tell = on_tell;
  kv_status st = kvs_whatif_create(&info, policy, &o, tape->initial, &r.whatif, err);
  if (st) return st;
  const kvs_world *w = kvs_whatif_get_world(r.whatif);
  if (told) {
    info.page_size = info.first_slot = w->page_size;
    info.pool_size = w->capacity;
    info.initial_free = 0;
    r.exact = !w->next && (w->list.after || (w->list.ring && w->placement == KVS_TOKENS && policy != &kvs_policy_lifo));
    info.allocator = r.exact ? w->list.kind : KVT_ALLOC_OTHER;
    kvs_tape_init(told, &info);
  }
  st = kvs_whatif_batch(r.whatif, &batch, err);
  if (st == KV_OK) st = kvs_whatif_finish(r.whatif, err);
  if (st == KV_OK) st = kvs_world_check(w, err);
  if (st == KV_OK) *result = *kvs_whatif_get_result(r.whatif);
  kvs_whatif_free(r.whatif);
  return st;
}

static kv_status keep_pool(void *arg, const kvs_pool_sample *s, kv_error *err) {
  step_figures *f = arg;
  (void)err;
  if (s->step < STEPS_MOST) f[s->step].rows = s->live_rows, f[s->step].runs = s->mean_run > 0 ? (uint64_t)llround((double)s->live_rows / s->mean_run) : 0;
  return KV_OK;
}

static kv_status replay(const kvs_tape *tape, step_figures *figures, kv_error *err) {
  kvs_replay_options o = kvs_replay_options_default();
  kvs_replay *r;
  const kvt_batch batch = kvs_tape_batch(tape);
  o.observer = (kvs_observer){.arg = figures, .pool = keep_pool};
  kvt_check check = {0};
  kv_status st = kvt_check_batch(&batch, &tape->info, "told", &check, err);
  if (!st) st = kvs_replay_create(&tape->info, &o, tape->initial, &r, err);
  if (st) return st;
  st = kvs_replay_batch(r, &batch, err);
  if (!st) st = kvs_replay_finish(r, err);
  kvs_replay_free(r);
  return st;
}

static kv_status same_figures(const char *what, const step_figures *a, const step_figures *b, uint64_t steps, kv_error *err) {
  for (uint64_t s = 1; s <= steps && s < STEPS_MOST; s++)
    if (a[s].rows != b[s].rows || a[s].runs != b[s].runs)
      return kv_fail(err, KV_ERR_INTERNAL, "%s: step %llu: %llu rows in %llu runs against %llu in %llu", what, (unsigned long long)s,
                     (unsigned long long)a[s].rows, (unsigned long long)a[s].runs, (unsigned long long)b[s].rows,
                     (unsigned long long)b[s].runs);
  return KV_OK;
}

static kv_status beats(const char *policy, const step_figures *mine, const step_figures *oracle, uint64_t steps, kv_error *err) {
  for (uint64_t s = 1; s <= steps && s < STEPS_MOST; s++) {
    if (mine[s].rows != oracle[s].rows) return kv_fail(err, KV_ERR_INTERNAL, "%s: step %llu has other rows than recorded", policy, (unsigned long long)s);
    if (mine[s].runs < oracle[s].runs)
      return kv_fail(err, KV_ERR_INTERNAL, "%s: step %llu: %llu runs, the oracle needs %llu", policy, (unsigned long long)s,
                     (unsigned long long)mine[s].runs, (unsigned long long)oracle[s].runs);
  }
  return KV_OK;
}

/* For a failure that was made smaller: the events, as they are. */
static void print_tape(const kvs_tape *t, FILE *to) {
  const kvt_batch b = kvs_tape_batch(t);
  uint32_t slot = 0;
  for (uint32_t i = 0; i < b.events; i++) {
    const kvt_event e = kvt_batch_event(&b, i, slot);
    fprintf(to, "  %3u %-12s step %u request %d position %d length %d aux %d:", i, kvt_kind_name(e.kind), e.step, e.request, e.position, e.length, e.aux);
    for (uint32_t k = 0; k < e.count; k++) fprintf(to, " %d", e.slots[k]);
    fprintf(to, "\n");
    slot += e.count;
  }
}

static bool printing;
static kvs_tally seen[KVS_POLICIES]; /* over all traces: that something happened at all */
static uint64_t misfits;

static void add_to_seen(const kvs_policy *policy, const kvs_tally *t) {
  for (unsigned i = 0; i < KVS_POLICIES; i++) {
    if (kvs_policies[i] != policy) continue;
    seen[i].moved += t->moved;
    seen[i].copied += t->copied;
    seen[i].evicted += t->evicted;
    seen[i].refilled += t->refilled;
    seen[i].passes += t->passes;
  }
}

static const kvs_tally *seen_of(const kvs_policy *policy) {
  unsigned i = 0;
  while (kvs_policies[i] != policy) i++;
  return &seen[i];
}

static step_figures recorded[STEPS_MOST], oracle[STEPS_MOST], mine[STEPS_MOST], again[STEPS_MOST];

static kv_status told_again(const kvs_tape *told, const kvs_policy *policy, bool exact, const kvs_tally *tally, kv_error *err) {
  kvs_whatif_result result;
  kvs_tape told_again_tape;
  const kvs_policy_settings plain = kvs_policy_settings_default();
  memset(again, 0, sizeof again);
  if (printing) print_tape(told, stderr);
  kv_status st = replay(told, again, err);
  if (!st) st = same_figures("replay of the simulation", mine, again, told->info.steps, err);
  if (st || (policy->moves && policy != &kvs_policy_vllm)) return st; /* nothing is tried on a recording that relocates */
  st = simulate(told, &kvs_policy_as_recorded, &plain, &told_again_tape, again, &result, err);
  if (!st) st = same_figures("the simulation as recorded", mine, again, told->info.steps, err);
  if (!st && result.tally.mismatches) st = kv_fail(err, KV_ERR_INTERNAL, "the simulation as recorded: %llu slots differ", (unsigned long long)result.tally.mismatches);
  bool same_slots = told_again_tape.info.slots == told->info.slots && (!told->info.slots ||
                    !memcmp(told_again_tape.slot, told->slot, told->info.slots * sizeof *told->slot));
  if (!st && !same_slots) st = kv_fail(err, KV_ERR_INTERNAL, "the simulation as recorded has other slots");
  (void)policy, (void)exact, (void)tally;
  kvs_tape_free(&told_again_tape);
  return st;
}

static kv_status one_policy(const kvs_tape *tape, const kvs_policy *policy, const kvs_policy_settings *settings, kv_error *err) {
  kvs_whatif_result result;
  kvs_tape told = {0};
  bool tells = !policy->costs_nothing;
  char text[KV_ERROR_TEXT];
  memset(mine, 0, sizeof mine);
  kv_status st = simulate(tape, policy, settings, tells ? &told : NULL, mine, &result, err);
  if (st == KV_END) {
    kvs_tape_free(&told);
    misfits++;
    return KV_OK; /* it does not fit, and says so */
  }
  if (!st) add_to_seen(policy, &result.tally);
  if (!st) st = beats(policy->name, mine, oracle, tape->info.steps, err);
  if (!st && policy == &kvs_policy_as_recorded) st = same_figures("as-recorded", mine, recorded, tape->info.steps, err);
  if (!st && policy == &kvs_policy_as_recorded && result.tally.mismatches) st = kv_fail(err, KV_ERR_INTERNAL, "%llu slots differ", (unsigned long long)result.tally.mismatches);
  if (!st && tells) st = told_again(&told, policy, true, &result.tally, err);
  kvs_tape_free(&told);
  if (!st) return KV_OK;
  (void)snprintf(text, sizeof text, "%.400s", err->text);
  return kv_fail(err, st, "policy %s: %s", policy->name, text);
}

static kvs_policy_settings settings_of(uint64_t seed) {
  kvs_policy_settings s = kvs_policy_settings_default();
  uint64_t r = kvs_random(&seed);
  s.budget = 2 + (uint32_t)(r % 40);
  s.pass_gap = 1 + (uint32_t)(r >> 8) % 9;
  s.scatter_limit = 0.01;
  s.low_water = 0.1 * (double)(r >> 16 & 3);
  s.high_water = s.low_water + 0.2;
  return s;
}

/* The whole property of one trace. */
static kv_status holds(uint64_t seed, const kvs_action *action, uint32_t n, kv_error *err) {
  static const kvt_allocator kind[3] = {KVT_ALLOC_TOKEN, KVT_ALLOC_TOKEN_SORTED, KVT_ALLOC_OTHER};
  const kvs_synth_options o = {.pattern = KVS_WORKLOAD, .seed = seed, .pool = 256u << (seed % 3), .allocator = kind[seed / 3 % 3]};
  const kvs_policy_settings settings = settings_of(seed), plain = kvs_policy_settings_default();
  kvs_whatif_result result;
  kvs_tape tape;
  kv_status st = kvs_synth_actions(&o, action, n, &tape, err);
  memset(recorded, 0, sizeof recorded);
  memset(oracle, 0, sizeof oracle);
  if (printing) print_tape(&tape, stderr);
  if (!st) st = replay(&tape, recorded, err);
  if (!st) st = simulate(&tape, &kvs_policy_oracle, &plain, NULL, oracle, &result, err);
  for (unsigned i = 0; i < KVS_POLICIES && !st; i++) st = one_policy(&tape, kvs_policies[i], &settings, err);
  if (!st && seed % 4 == 0) { /* a smaller pool: every policy has to evict */
    kvs_policy_settings small = settings;
    small.capacity = o.pool / 64 * 3 / 4 * 64;
    for (unsigned i = 1; i + 1 < KVS_POLICIES && !st; i++) st = one_policy(&tape, kvs_policies[i], &small, err);
  }
  kvs_tape_free(&tape);
  return st;
}

/* Leaves out stretches of actions as long as the trace still fails; returns how many are left. */
static uint32_t make_smaller(uint64_t seed, kvs_action *action, uint32_t n) {
  kvs_action *less = malloc(n * sizeof *less);
  kv_error err;
  for (uint32_t cut = n / 2; cut >= 1; cut /= 2)
    for (uint32_t at = 0; at + cut <= n;) {
      memcpy(less, action, at * sizeof *less);
      memcpy(less + at, action + at + cut, (n - at - cut) * sizeof *less);
      if (holds(seed, less, n - cut, &err)) {
        n -= cut;
        memcpy(action, less, n * sizeof *less);
      } else {
        at += cut;
      }
    }
  free(less);
  return n;
}

static void test_random_servers(void) {
  static kvs_action action[ACTIONS_MOST];
  const char *long_mode = getenv("KVROOF_LONG"), *from = getenv("KVROOF_SEED");
  uint64_t traces = long_mode ? strtoull(long_mode, NULL, 10) : 300, first = from ? strtoull(from, NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + traces; seed++) {
    uint32_t n = 10 + (uint32_t)(seed * 7919 % (ACTIONS_MOST - 10));
    kv_error err = {KV_OK, ""};
    if (long_mode) n = 10 + n % 90;
    kvs_actions_draw(seed, action, n);
    if (!holds(seed, action, n, &err)) continue;
    n = make_smaller(seed, action, n);
    printing = getenv("KVROOF_PRINT") != NULL;
    (void)holds(seed, action, n, &err);
    fprintf(stderr, "\n  seed %llu, %u actions: %s\n", (unsigned long long)seed, n, err.text);
    CU_FAIL("a random trace breaks a property");
    return;
  }
  /* the properties held of something */
  CU_ASSERT(seen_of(&kvs_policy_low_water)->evicted > 0 && seen_of(&kvs_policy_low_water)->refilled > 0);
  CU_ASSERT(seen_of(&kvs_policy_compact)->copied > 0 && seen_of(&kvs_policy_compact)->evicted > 0);
  CU_ASSERT(seen_of(&kvs_policy_pages_16)->copied > 0 && seen_of(&kvs_policy_pages_16)->refilled > 0);
  CU_ASSERT(seen_of(&kvs_policy_pages_64)->copied > 0 && seen_of(&kvs_policy_pages_64)->evicted > 0);
  CU_ASSERT(seen_of(&kvs_policy_vllm)->evicted > 0 && seen_of(&kvs_policy_vllm)->refilled > 0);
  CU_ASSERT(seen_of(&kvs_policy_relocate_full)->passes > 0 && seen_of(&kvs_policy_relocate_full)->moved > 0);
  CU_ASSERT(seen_of(&kvs_policy_relocate_step)->moved > 0);
  CU_ASSERT(seen_of(&kvs_policy_relocate_idle)->moved > 0);
  CU_ASSERT(seen_of(&kvs_policy_fifo)->evicted > 0); /* in the smaller pools */
  CU_ASSERT(misfits > 0);
  if (getenv("KVROOF_PRINT"))
    for (unsigned i = 0; i < KVS_POLICIES; i++)
      fprintf(stderr, "\n  %-14s moved %llu copied %llu evicted %llu refilled %llu passes %llu", kvs_policies[i]->name,
              (unsigned long long)seen[i].moved, (unsigned long long)seen[i].copied, (unsigned long long)seen[i].evicted,
              (unsigned long long)seen[i].refilled, (unsigned long long)seen[i].passes);
  if (getenv("KVROOF_PRINT")) fprintf(stderr, "\n  of %llu traces, %llu simulations did not fit\n", (unsigned long long)traces, (unsigned long long)misfits);
}

/* ---- the memory model ---- */

static void test_share(void) {
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 1152, 1), 0.99, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 32, 1), 0.30, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 32, 2), 0.51, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 64, 4), 0.93, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 128, 16), 0.97, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 32, 8), 0.805, 1e-12);       /* half way between 4 and 16 in log2 */
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 32, 160), 0.99, 1e-12);      /* 1 - 0.1 * 16 / 160 */
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 16, 1), 0.30, 1e-12);        /* outside: the end */
  CU_ASSERT_DOUBLE_EQUAL(kvs_gather_share(NULL, 4096, 1), 0.99, 1e-12);
}

/* ---- the oracle, by hand ---- */

static kvs_holder *holder(uint32_t shared, uint32_t rows, int32_t own) {
  kvs_holder *q = calloc(1, sizeof *q);
  q->token = malloc(rows * sizeof *q->token);
  for (uint32_t i = 0; i < rows; i++) q->token[i] = i < shared ? (int32_t)i : own + (int32_t)i;
  q->rows = q->owned = rows;
  return q;
}

static uint64_t bound(kvs_holder **q, uint32_t n) {
  kv_status st;
  uint64_t runs = kvs_oracle_runs(q, n, NULL, &st);
  CU_ASSERT_EQUAL(st, KV_OK);
  for (uint32_t i = 0; i < n; i++) {
    free(q[i]->token);
    free(q[i]);
  }
  return runs;
}

static void test_oracle(void) {
  kvs_holder *apart[] = {holder(0, 300, 1000), holder(0, 300, 2000), holder(0, 10, 3000)};
  CU_ASSERT_EQUAL(bound(apart, 3), 3);
  /* three rows share one block of 64 and go on apart through the next: two of them must break */
  kvs_holder *fork[] = {holder(64, 200, 1000), holder(64, 200, 2000), holder(64, 200, 3000)};
  CU_ASSERT_EQUAL(bound(fork, 3), 5);
  /* one of them ends before the next block is full: nothing is forced on it */
  kvs_holder *ends[] = {holder(64, 200, 1000), holder(64, 200, 2000), holder(64, 100, 3000)};
  CU_ASSERT_EQUAL(bound(ends, 3), 4);
  /* less than a block shared: a copy could do without a break */
  kvs_holder *little[] = {holder(63, 200, 1000), holder(63, 200, 2000)};
  CU_ASSERT_EQUAL(bound(little, 2), 2);
  /* two pairs that part after 64, each pair after 128: 2 + 1 + 1 breaks, 4 rows */
  kvs_holder *tree[] = {holder(64, 256, 1000), holder(64, 256, 1000), holder(64, 256, 2000), holder(64, 256, 2000)};
  for (uint32_t i = 128; i < 256; i++) tree[1]->token[i] += 10000, tree[3]->token[i] += 10000;
  CU_ASSERT_EQUAL(bound(tree, 4), 8);
}

void suite_whatif(void) {
  static const kv_test_case cases[] = {{"share of bandwidth", test_share},
                                       {"oracle by hand", test_oracle},
                                       {"random servers, every policy", test_random_servers},
                                       {NULL, NULL}};
  kv_suite("whatif", cases);
}
