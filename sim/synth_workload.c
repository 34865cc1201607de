/* A random server. It keeps its own, simple books (lists, counts of holders), independent of the replay and of the
 * policies, so that a trace it makes is a test for them. An action that cannot be done now is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "synth.h"

#define TREE 9u
#define AHEAD 4u
#define RUNNING_MOST 12u
#define CACHED_MOST 24u

typedef enum mode { PLAIN, TREES, AHEADS, MODES } mode;

typedef struct row {
  int32_t *slot;
  uint32_t n, room;
} row;

typedef struct client {
  int32_t id;
  mode mode;
  row row;          /* committed, then allocated ahead */
  uint32_t rows;    /* committed */
  uint32_t hit;     /* of them shared at the start */
  uint32_t origin;  /* cached row they came from, CACHED_MOST: none */
} client;

typedef struct server {
  kvs_tape *tape;
  kvt_allocator allocator;
  uint32_t pool;
  row list, release; /* free slots in order; with need_sort what waits */
  uint16_t *holders; /* [pool + 1] running and cached rows that hold a slot */
  client client[RUNNING_MOST];
  uint32_t running;
  row cached[CACHED_MOST];
  uint32_t cached_n;
  int32_t next_id, waiting_id; /* waiting_id: a retracted request, -1 none */
  int32_t calls, groups;
  uint64_t random;
  kvt_step_type type;
  row scratch;
  bool failed;
} server;

static void push(server *s, row *r, const int32_t *slots, uint32_t n) {
  if (r->n + n > r->room) {
    uint32_t room = (r->n + n) * 2 + 16;
    int32_t *grown = realloc(r->slot, room * sizeof *grown);
    if (!grown) {
      s->failed = true;
      return;
    }
    r->slot = grown;
    r->room = room;
  }
  if (n) memmove(r->slot + r->n, slots, n * sizeof *slots);
  r->n += n;
}

static uint32_t available(const server *s) { return s->list.n + s->release.n; }

static void tell(server *s, kvt_kind kind, int32_t id, uint32_t position, int32_t length, int32_t aux, const int32_t *slots, uint32_t n) {
  kvs_tape_add(s->tape, kind, id, (int32_t)position, length, aux, slots, n);
}

/* ---- the allocator ---- */

static int by_number(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static void begin_call(server *s, uint32_t n, uint32_t requests) {
  tell(s, KVT_ALLOC_CALL, -1, requests, (int32_t)n, ++s->calls, NULL, 0);
  if (s->allocator != KVT_ALLOC_TOKEN_SORTED || n <= s->list.n) return;
  push(s, &s->list, s->release.slot, s->release.n);
  s->release.n = 0;
  qsort(s->list.slot, s->list.n, sizeof *s->list.slot, by_number);
}

/* n slots, for the caller in s->scratch. */
static const int32_t *take(server *s, uint32_t n) {
  s->scratch.n = 0;
  if (s->allocator == KVT_ALLOC_OTHER)
    for (uint32_t i = 0; i < n; i++) {
      uint32_t k = i + (uint32_t)(kvs_random(&s->random) % (s->list.n - i));
      int32_t v = s->list.slot[i];
      s->list.slot[i] = s->list.slot[k];
      s->list.slot[k] = v;
    }
  push(s, &s->scratch, s->list.slot, n);
  s->list.n -= n;
  memmove(s->list.slot, s->list.slot + n, s->list.n * sizeof *s->list.slot);
  return s->scratch.slot;
}

static void give(server *s, int32_t id, const int32_t *slots, uint32_t n, kvt_free_reason why, int32_t group) {
  if (!n) return;
  tell(s, KVT_FREE, id, UINT32_MAX, group, (int32_t)why, slots, n);
  push(s, s->allocator == KVT_ALLOC_TOKEN_SORTED ? &s->release : &s->list, slots, n);
}

/* ---- the cache ---- */

static void end_step(server *s) {
  if (!s->tape->info.steps || s->tape->failed) return;
  kvt_step *r = &s->tape->row[s->tape->info.steps - 1];
  r->available = (int32_t)available(s);
  r->requests = (int32_t)s->running;
}

static void open_step(server *s, kvt_step_type type) {
  const kvt_step r = {.time_us = (int64_t)s->tape->info.steps * 1000, .requests = -1, .tokens = -1, .available = -1, .evictable = -1,
                      .protected_ = -1, .waiting = s->waiting_id >= 0};
  kvs_tape_step(s->tape, type, &r);
}

static void begin_step(server *s, kvt_step_type type) {
  end_step(s);
  open_step(s, type);
}

static void forget_cached(server *s, uint32_t c) {
  free(s->cached[c].slot);
  memmove(s->cached + c, s->cached + c + 1, (s->cached_n - c - 1) * sizeof *s->cached);
  s->cached_n--;
  s->cached[s->cached_n] = (row){0};
  for (uint32_t i = 0; i < s->running; i++)
    if (s->client[i].origin != CACHED_MOST) s->client[i].origin = s->client[i].origin == c ? CACHED_MOST : s->client[i].origin - (s->client[i].origin > c);
}

/* Frees up to `most` tokens at the end of a cached row that nobody else holds. */
static uint32_t evict(server *s, uint32_t c, uint32_t most) {
  row *r = &s->cached[c];
  uint32_t n = 0;
  while (n < most && n < r->n && s->holders[r->slot[r->n - 1 - n]] == 1) n++;
  for (uint32_t i = 0; i < n; i++) s->holders[r->slot[r->n - 1 - i]] = 0;
  give(s, -1, r->slot + r->n - n, n, KVT_FREE_EVICT, -1);
  r->n -= n;
  for (uint32_t i = 0; i < s->running; i++)
    if (s->client[i].origin == c && s->client[i].hit > r->n) s->client[i].origin = CACHED_MOST;
  if (!r->n) forget_cached(s, c);
  return n;
}

static bool make_room(server *s, uint32_t n) {
  for (uint32_t c = 0; available(s) < n && c < s->cached_n;) {
    uint32_t before = s->cached_n;
    (void)evict(s, c, n - available(s));
    c += s->cached_n == before;
  }
  /* a row whose end somebody else holds may free its end once that one is shorter: once more */
  for (uint32_t c = s->cached_n; available(s) < n && c-- > 0;) (void)evict(s, c, n - available(s));
  return available(s) >= n;
}

/* ---- actions ---- */

static void hold(server *s, const int32_t *slots, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) s->holders[slots[i]]++;
}

static void extend(server *s, client *q, uint32_t n) {
  begin_call(s, n, 1);
  const int32_t *slots = take(s, n);
  tell(s, KVT_ALLOC_EXTEND, q->id, q->row.n, -1, s->calls, slots, n);
  hold(s, slots, n);
  push(s, &q->row, slots, n);
  q->rows += n;
}

static void act_start(server *s, const kvs_action *x) {
  if (s->running == RUNNING_MOST) return;
  uint32_t c = s->cached_n ? x->a % (s->cached_n + 1) : 0, hit = 0, fresh = 1 + x->b % 90;
  if (c < s->cached_n) hit = (x->b >> 8) % (s->cached[c].n + 1);
  client *q = &s->client[s->running];
  bool again = s->waiting_id >= 0 && x->a & 0x10000;
  *q = (client){.id = again ? s->waiting_id : s->next_id, .mode = (mode)((x->b >> 16) % MODES), .hit = hit, .origin = hit ? c : CACHED_MOST};
  if (hit) {
    push(s, &q->row, s->cached[c].slot, hit);
    hold(s, q->row.slot, hit);
  }
  q->rows = hit;
  if (!make_room(s, fresh)) {
    for (uint32_t i = 0; i < hit; i++) s->holders[q->row.slot[i]]--;
    free(q->row.slot);
    return;
  }
  q->origin = CACHED_MOST; /* making room may have renumbered the cached rows */
  for (uint32_t k = 0; hit && k < s->cached_n; k++)
    if (s->cached[k].n >= hit && !memcmp(s->cached[k].slot, q->row.slot, hit * sizeof *q->row.slot)) q->origin = k;
  begin_step(s, KVT_STEP_PREFILL);
  if (again)
    s->waiting_id = -1;
  else
    tell(s, KVT_ARRIVE, s->next_id++, UINT32_MAX, (int32_t)(hit + fresh), -1, NULL, 0);
  tell(s, KVT_START, q->id, 0, -1, -1, q->row.slot, hit);
  s->running++;
  extend(s, q, fresh - fresh / 3);
  if (fresh / 3) extend(s, q, fresh / 3);
}

static void decode_plain(server *s, client *q) {
  if (!make_room(s, 1)) return;
  begin_call(s, 1, 1);
  const int32_t *slot = take(s, 1);
  tell(s, KVT_ALLOC_DECODE, q->id, q->row.n, -1, s->calls, slot, 1);
  hold(s, slot, 1);
  push(s, &q->row, slot, 1);
  q->rows++;
}

static void decode_tree(server *s, client *q) {
  int32_t block[TREE], kept[TREE], rest[TREE];
  uint32_t kept_n = 0, rest_n = 0;
  if (!make_room(s, TREE)) return;
  begin_call(s, TREE, 1);
  memcpy(block, take(s, TREE), sizeof block);
  tell(s, KVT_ALLOC_VERIFY, q->id, q->rows, -1, s->calls, block, TREE);
  uint64_t pick = kvs_random(&s->random);
  for (uint32_t i = 0; i < TREE; i++)
    if (i == 0 || pick >> i & 1)
      kept[kept_n++] = block[i];
    else
      rest[rest_n++] = block[i];
  if (pick >> 20 & 1) give(s, q->id, rest, rest_n, KVT_FREE_REJECT, -1);
  tell(s, KVT_COMMIT, q->id, q->rows, (int32_t)kept_n, -1, kept, kept_n);
  if (!(pick >> 20 & 1)) give(s, q->id, rest, rest_n, KVT_FREE_REJECT, -1);
  hold(s, kept, kept_n);
  push(s, &q->row, kept, kept_n);
  q->rows += kept_n;
}

static void decode_ahead(server *s, client *q) {
  uint32_t have = q->row.n - q->rows, want = 2 * AHEAD > have ? 2 * AHEAD - have : 0;
  if (!make_room(s, want)) return;
  if (want) {
    begin_call(s, want, 1);
    const int32_t *slots = take(s, want);
    tell(s, KVT_ALLOC_SPEC, q->id, q->row.n, -1, s->calls, slots, want);
    hold(s, slots, want);
    push(s, &q->row, slots, want);
  }
  uint32_t n = 1 + (uint32_t)(kvs_random(&s->random) % AHEAD);
  tell(s, KVT_COMMIT, q->id, q->rows, (int32_t)n, -1, NULL, 0);
  q->rows += n;
}

static void act_decode(server *s, const kvs_action *x) {
  if (!s->running) return;
  begin_step(s, KVT_STEP_DECODE);
  for (uint32_t i = 0; i < s->running; i++) {
    client *q = &s->client[(i + x->a) % s->running];
    if (q->mode == TREES)
      decode_tree(s, q);
    else if (q->mode == AHEADS)
      decode_ahead(s, q);
    else
      decode_plain(s, q);
  }
}

/* The client leaves; `keep` of its committed rows stay in the cache. Slots allocated ahead go after the end. */
static void leave(server *s, uint32_t i, uint32_t keep) {
  client q = s->client[i];
  for (uint32_t p = 0; p < q.row.n; p++) s->holders[q.row.slot[p]]--;
  if (keep && s->cached_n < CACHED_MOST) {
    row *c = &s->cached[s->cached_n++];
    push(s, c, q.row.slot, keep);
    hold(s, c->slot, keep);
  }
  memmove(s->client + i, s->client + i + 1, (s->running - i - 1) * sizeof *s->client);
  s->running--;
  if (q.row.n > q.rows) give(s, q.id, q.row.slot + q.rows, q.row.n - q.rows, KVT_FREE_OVER, -1);
  free(q.row.slot);
}

static void act_finish(server *s, const kvs_action *x) {
  if (!s->running) return;
  uint32_t i = x->a % s->running, keep;
  client *q = &s->client[i];
  keep = q->rows;
  uint32_t cut = s->cached_n == CACHED_MOST ? q->rows : x->b % 3; /* nowhere to keep it: all that is its own goes */
  while (cut && keep > q->hit && s->holders[q->row.slot[keep - 1]] == 1) keep--, cut--;
  if (s->cached_n == CACHED_MOST && keep > q->hit) return;
  give(s, q->id, q->row.slot + keep, q->rows - keep, KVT_FREE_TAIL, x->b & 64 ? ++s->groups : -1);
  tell(s, KVT_INSERT, q->id, q->hit, (int32_t)keep, -1, NULL, 0);
  tell(s, KVT_FINISH, q->id, q->rows, -1, -1, NULL, 0);
  leave(s, i, keep);
}

static void act_retract(server *s, const kvs_action *x) {
  if (!s->running || s->waiting_id >= 0) return;
  uint32_t i = x->a % s->running;
  client *q = &s->client[i];
  uint32_t from = q->rows;
  if (q->row.n > q->rows) return; /* slots ahead: left out */
  while (from > q->hit && s->holders[q->row.slot[from - 1]] == 1) from--;
  if (from > q->hit) return;
  give(s, q->id, q->row.slot + from, q->rows - from, KVT_FREE_RETRACT, -1);
  tell(s, KVT_RETRACT, q->id, q->rows, -1, -1, NULL, 0);
  s->waiting_id = q->id;
  leave(s, i, 0);
}

/* Own tokens behind a hit turn out to be what the cached row has at the same positions. */
static void act_duplicate(server *s, const kvs_action *x) {
  if (!s->running) return;
  client *q = &s->client[x->a % s->running];
  if (q->origin == CACHED_MOST || q->row.n > q->rows) return;
  const row *c = &s->cached[q->origin];
  uint32_t end = c->n < q->rows ? c->n : q->rows, n = end > q->hit ? 1 + x->b % (end - q->hit) : 0;
  for (uint32_t p = q->hit; p < q->hit + n; p++)
    if (s->holders[q->row.slot[p]] != 1) return;
  if (!n) return;
  int32_t *own = q->row.slot + q->hit;
  for (uint32_t i = 0; i < n; i++) s->holders[own[i]]--;
  give(s, q->id, own, n, KVT_FREE_DUPLICATE, -1);
  if (x->b & 1024) tell(s, KVT_INSERT, q->id, q->hit, (int32_t)q->rows, -1, NULL, 0);
  tell(s, KVT_REMAP, q->id, q->hit, -1, -1, c->slot + q->hit, n);
  memcpy(own, c->slot + q->hit, n * sizeof *own);
  hold(s, own, n);
  q->hit += n;
}

static void fresh_list(server *s) {
  s->list.n = s->release.n = 0;
  for (uint32_t i = 1; i <= s->pool; i++) push(s, &s->list, &(int32_t){(int32_t)i}, 1);
  memset(s->holders, 0, ((size_t)s->pool + 1) * sizeof *s->holders);
}

static void act_clear(server *s) {
  if (s->running) return;
  while (s->cached_n) forget_cached(s, s->cached_n - 1);
  end_step(s);
  tell(s, KVT_CLEAR, -1, UINT32_MAX, -1, -1, NULL, 0);
  fresh_list(s);
  open_step(s, KVT_STEP_DRAIN);
}

static void act(server *s, const kvs_action *x) {
  switch (x->op % 16) {
    case 0: case 1: case 2: case 3: act_start(s, x); break;
    case 4: case 5: act_finish(s, x); break;
    case 6: if (s->cached_n) (void)evict(s, x->a % s->cached_n, 1 + x->b % 64); break;
    case 7: act_retract(s, x); break;
    case 8: act_duplicate(s, x); break;
    case 9: if (x->a % 8 == 0) act_clear(s); break;
    default: act_decode(s, x); break;
  }
}

void kvs_actions_draw(uint64_t seed, kvs_action *action, uint32_t n) {
  uint64_t random = seed;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t a = kvs_random(&random), b = kvs_random(&random);
    action[i] = (kvs_action){.op = (uint8_t)(a >> 40), .a = (uint32_t)a, .b = (uint32_t)b};
  }
}

kv_status kvs_synth_actions(const kvs_synth_options *o, const kvs_action *action, uint32_t n, kvs_tape *tape, kv_error *err) {
  const kvt_info info = {.allocator = o->allocator, .page_size = 1, .first_slot = 1, .pool_size = o->pool,
                         .origin = "simulated: synth workload"};
  if (o->allocator != KVT_ALLOC_TOKEN && o->allocator != KVT_ALLOC_TOKEN_SORTED && o->allocator != KVT_ALLOC_OTHER)
    return kv_fail(err, KV_ERR_USAGE, "a workload's allocator is sglang-token, sglang-token-sorted or other");
  server *s = calloc(1, sizeof *s);
  kvs_tape_init(tape, &info);
  if (!s || !(s->holders = malloc(((size_t)o->pool + 1) * sizeof *s->holders))) {
    free(s);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  }
  s->tape = tape;
  s->allocator = o->allocator;
  s->pool = o->pool;
  s->waiting_id = -1;
  s->random = o->seed ^ 0x5eedull;
  fresh_list(s);
  begin_step(s, KVT_STEP_DRAIN);
  for (uint32_t i = 0; i < n; i++) act(s, &action[i]);
  end_step(s);
  bool failed = s->failed || tape->failed;
  for (uint32_t i = 0; i < s->running; i++) free(s->client[i].row.slot);
  for (uint32_t i = 0; i < s->cached_n; i++) free(s->cached[i].slot);
  free(s->list.slot);
  free(s->release.slot);
  free(s->scratch.slot);
  free(s->holders);
  free(s);
  return failed ? kv_fail(err, KV_ERR_MEMORY, "out of memory") : KV_OK;
}
