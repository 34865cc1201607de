#include "synth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kvs_pattern_name[KVS_PATTERNS] = {"contiguous", "comb", "blocks", "random", "geometric", "workload"};

kvs_synth_options kvs_synth_options_default(void) {
  return (kvs_synth_options){.pattern = KVS_WORKLOAD, .seed = 1, .pool = 65536, .requests = 4, .rows = 4096, .run = 16,
                             .allocator = KVT_ALLOC_TOKEN, .actions = 2000};
}

uint64_t kvs_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/* ---- patterns with known runs ---- */

typedef struct weave {
  kvs_tape *tape;
  int32_t *list;     /* hand-out order of the pool */
  uint32_t next;     /* entries handed out */
  uint32_t *have;    /* rows of each request */
  int32_t *last;     /* its last slot */
  kvs_truth *truth;
  int32_t calls;
} weave;

static void step(weave *w, kvt_step_type type) {
  const kvt_step row = {.time_us = (int64_t)w->tape->info.steps * 1000, .requests = -1, .tokens = -1, .available = -1,
                        .evictable = -1, .protected_ = -1, .waiting = -1};
  kvs_tape_step(w->tape, type, &row);
}

/* The next n slots of the pool go to request r. */
static void deal(weave *w, uint32_t r, uint32_t n, kvt_kind kind) {
  const int32_t *slots = w->list + w->next;
  kvs_tape_add(w->tape, kind, (int32_t)r, (int32_t)w->have[r], -1, w->calls, slots, n);
  for (uint32_t i = 0; i < n; i++) {
    w->truth->runs[r] += !(w->have[r] + i) || slots[i] != w->last[r] + 1;
    w->last[r] = slots[i];
  }
  w->have[r] += n;
  w->next += n;
}

static void call(weave *w, uint32_t slots, uint32_t requests) {
  kvs_tape_add(w->tape, KVT_ALLOC_CALL, -1, (int32_t)requests, (int32_t)slots, ++w->calls, NULL, 0);
}

static void extend(weave *w, uint32_t r, uint32_t n) {
  step(w, KVT_STEP_PREFILL);
  call(w, n, 1);
  deal(w, r, n, KVT_ALLOC_EXTEND);
}

static void comb(weave *w, const kvs_synth_options *o) {
  for (uint32_t p = 0; p < o->rows; p++) {
    step(w, KVT_STEP_DECODE);
    call(w, o->requests, o->requests);
    for (uint32_t r = 0; r < o->requests; r++) deal(w, r, 1, KVT_ALLOC_DECODE);
  }
}

static void blocks(weave *w, const kvs_synth_options *o) {
  for (uint32_t p = 0; p < o->rows; p += o->run)
    for (uint32_t r = 0; r < o->requests; r++) extend(w, r, o->rows - p < o->run ? o->rows - p : o->run);
}

/* A length of a geometric distribution on 1, 2, ... with that mean, by inversion. */
static uint32_t draw_length(uint64_t *random, uint32_t mean) {
  double u = (double)(kvs_random(random) >> 11) * 0x1p-53;
  double n = mean > 1 ? floor(log1p(-u) / log1p(-1.0 / mean)) + 1 : 1;
  return n < 1e9 ? (uint32_t)n : 1000000000u;
}

static void geometric(weave *w, const kvs_synth_options *o, uint64_t *random) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t r = 0; r < o->requests; r++) {
      uint32_t n = draw_length(random, o->run), left = o->rows - w->have[r];
      if (left) extend(w, r, n < left ? n : left);
      more |= w->have[r] < o->rows;
    }
  }
}

static void shuffle(int32_t *list, uint32_t n, uint64_t *random) {
  for (uint32_t i = n; i > 1; i--) {
    uint32_t k = (uint32_t)(kvs_random(random) % i);
    int32_t v = list[i - 1];
    list[i - 1] = list[k];
    list[k] = v;
  }
}

static double expected(const kvs_synth_options *o) {
  double rows = o->rows, pool = o->pool;
  switch (o->pattern) {
    case KVS_COMB: return o->requests > 1 ? rows : 1;
    case KVS_BLOCKS: return o->requests > 1 ? ceil(rows / o->run) : 1;
    case KVS_RANDOM: return rows - (rows - 1) / pool;
    case KVS_GEOMETRIC: return o->requests > 1 ? 1 + (rows - 1) / o->run : 1; /* each later row begins a run with probability 1 / mean */
    default: return 1;
  }
}

static kv_status weave_pattern(const kvs_synth_options *o, kvs_tape *tape, kvs_truth *truth, kv_error *err) {
  uint64_t random = o->seed;
  weave w = {.tape = tape, .truth = truth};
  kv_status st = KV_OK;
  w.list = malloc((size_t)o->pool * sizeof *w.list);
  w.have = calloc(o->requests, sizeof *w.have);
  w.last = calloc(o->requests, sizeof *w.last);
  truth->runs = calloc(o->requests, sizeof *truth->runs);
  if (!w.list || !w.have || !w.last || !truth->runs) {
    st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
    goto done;
  }
  truth->requests = o->requests;
  truth->expected_runs = expected(o);
  for (uint32_t i = 0; i < o->pool; i++) w.list[i] = (int32_t)i + 1;
  if (o->pattern == KVS_RANDOM) shuffle(w.list, o->pool, &random);
  for (uint32_t r = 0; r < o->requests; r++) {
    kvs_tape_add(tape, KVT_ARRIVE, (int32_t)r, -1, (int32_t)o->rows, -1, NULL, 0);
    kvs_tape_add(tape, KVT_START, (int32_t)r, 0, -1, -1, NULL, 0);
  }
  if (o->pattern == KVS_COMB) comb(&w, o);
  if (o->pattern == KVS_BLOCKS) blocks(&w, o);
  if (o->pattern == KVS_GEOMETRIC) geometric(&w, o, &random);
  if (o->pattern == KVS_CONTIGUOUS || o->pattern == KVS_RANDOM)
    for (uint32_t r = 0; r < o->requests; r++) extend(&w, r, o->rows);
  if (o->pattern == KVS_RANDOM) {
    tape->initial = w.list;
    tape->info.initial_free = o->pool;
    w.list = NULL;
  }
done:
  free(w.list);
  free(w.have);
  free(w.last);
  return st;
}

kv_status kvs_synth(const kvs_synth_options *o, kvs_tape *tape, kvs_truth *truth, kv_error *err) {
  kvt_info info = {.allocator = o->pattern == KVS_WORKLOAD ? o->allocator : KVT_ALLOC_TOKEN, .page_size = 1, .first_slot = 1,
                   .pool_size = o->pool};
  *truth = (kvs_truth){.expected_runs = NAN};
  (void)snprintf(info.origin, sizeof info.origin, "simulated: synth %s, seed %llu", kvs_pattern_name[o->pattern],
                 (unsigned long long)o->seed);
  kvs_tape_init(tape, &info);
  kv_status st;
  if (o->pattern == KVS_WORKLOAD) {
    kvs_action *action = malloc((size_t)o->actions * sizeof *action + 1);
    if (!action) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
    kvs_actions_draw(o->seed, action, o->actions);
    kvs_tape_free(tape);
    st = kvs_synth_actions(o, action, o->actions, tape, err);
    (void)snprintf(tape->info.origin, sizeof tape->info.origin, "%s", info.origin);
    free(action);
  } else {
    if (!o->requests || !o->rows || !o->run || (uint64_t)o->requests * o->rows > o->pool)
      return kv_fail(err, KV_ERR_USAGE, "%u requests of %u rows do not fit a pool of %u slots", o->requests, o->rows, o->pool);
    st = weave_pattern(o, tape, truth, err);
  }
  if (!st && tape->failed) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  return st;
}

void kvs_truth_free(kvs_truth *truth) {
  free(truth->runs);
  *truth = (kvs_truth){0};
}
