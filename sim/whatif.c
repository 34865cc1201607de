#include "whatif.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GONE UINT32_MAX
#define ROWS_MOST UINT16_MAX

struct kvs_whatif {
  kvs_whatif_options options;
  kvs_world world;
  kvs_whatif_result result;
  uint32_t *index;  /* [requests] 0, GONE or 1 + place in `known` */
  kvs_holder **known;
  uint32_t known_n, known_room;
  kvt_step step_row;
  kvt_step_type step_type;
  bool step_open;
  int32_t group;
  uint32_t call_slots, call_requests; /* of the allocator call announced */
  bool call_open;                     /* none of its rows has come yet */
  kvt_event dup;       /* duplicates freed by the event before, kept until it is clear what the row becomes */
  int32_t *dup_token, *dup_slot;
  uint32_t dup_room, dup_slot_room;
  uint64_t samples;
  uint64_t bound;      /* oracle: the runs of the running rows */
  bool bound_due;
  double waste_sum, free_sum;
  uint64_t map_rows;
  uint64_t *empty;     /* detail: bit a slot with a token */
  const kvt_batch *batch;
  uint32_t batch_event;
};

kvs_whatif_options kvs_whatif_options_default(void) {
  return (kvs_whatif_options){.name = "trace", .settings = kvs_policy_settings_default(), .row_bytes = 1152, .layers = 61};
}

/* ---- the simple memory model ---- */

static const double share_row[] = {32, 64, 128, 256, 576, 1152};
static const double share_at[][4] = {{0.30, 0.51, 0.71, 0.90}, {0.57, 0.82, 0.93, 0.96}, {0.93, 0.96, 0.97, 0.97},
                                     {0.97, 0.98, 0.98, 0.98}, {0.95, 0.96, 0.97, 0.97}, {0.99, 0.99, 0.99, 0.99}};
enum { SHARE_ROWS = sizeof share_row / sizeof *share_row };

static double by_run(const double at[4], double run) {
  if (run >= 16) return 1 - (1 - at[3]) * 16 / run;
  if (run >= 4) return at[2] + (at[3] - at[2]) * log2(run / 4) / 2;
  double x = run > 1 ? log2(run) : 0;
  int i = x >= 1;
  return at[i] + (at[i + 1] - at[i]) * (x - i);
}

double kvs_gather_share(const void *arg, double row_bytes, double mean_run) {
  (void)arg;
  int i = 0;
  while (i + 2 < SHARE_ROWS && row_bytes > share_row[i + 1]) i++;
  double x = log2(row_bytes / share_row[i]) / log2(share_row[i + 1] / share_row[i]);
  x = x < 0 ? 0 : x > 1 ? 1 : x;
  return (1 - x) * by_run(share_at[i], mean_run) + x * by_run(share_at[i + 1], mean_run);
}

/* ---- messages ---- */

static kv_status bad(kvs_whatif *f, const kvt_event *e, const char *what) {
  return kv_fail(f->world.err, KV_ERR_INPUT, "%s: event %llu (%s, step %u, request %d): %s",
                 f->options.name, (unsigned long long)(f->batch->first_event + f->batch_event), kvt_kind_name(e->kind), e->step,
                 e->request, what);
}

static kv_status bad_slot(kvs_whatif *f, const kvt_event *e, uint32_t i, const char *what) {
  char text[96];
  (void)snprintf(text, sizeof text, "slot %d %s", e->slots[i], what);
  return bad(f, e, text);
}

static kv_status in_pool(kvs_whatif *f, const kvt_event *e) {
  const uint32_t first = f->world.info.first_slot, size = f->world.info.pool_size;
  uint32_t outside = 0;
  for (uint32_t i = 0; i < e->count; i++) outside |= (uint32_t)e->slots[i] - first >= size;
  return outside ? bad(f, e, "a slot is outside the pool") : KV_OK;
}

/* ---- requests ---- */

static kvs_holder *find(const kvs_whatif *f, int32_t id) {
  if (id < 0 || f->index[id] == 0 || f->index[id] == GONE) return NULL;
  return f->known[f->index[id] - 1];
}

static kv_status running(kvs_whatif *f, const kvt_event *e, kvs_holder **q) {
  *q = find(f, e->request);
  return *q && (*q)->running ? KV_OK : bad(f, e, "the request is not running");
}

static void free_holder(kvs_holder *q) {
  if (!q) return;
  free(q->token);
  free(q->block);
  free(q->spare);
  free(q);
}

static kv_status on_arrive(kvs_whatif *f, const kvt_event *e) {
  if (f->index[e->request]) return bad(f, e, "the request has arrived already");
  if (f->known_n == f->known_room) {
    uint32_t room = f->known_room ? f->known_room * 2 : 64;
    kvs_holder **known = realloc(f->known, room * sizeof *known);
    if (known) f->known = known;
    kvs_holder **run = realloc(f->world.running, room * sizeof *run);
    if (run) f->world.running = run;
    if (!known || !run) return kv_fail(f->world.err, KV_ERR_MEMORY, "out of memory for requests");
    f->known_room = room;
  }
  kvs_holder *q = calloc(1, sizeof *q);
  if (!q) return kv_fail(f->world.err, KV_ERR_MEMORY, "out of memory for requests");
  q->request = e->request;
  q->tail_page = -1;
  f->known[f->known_n++] = q;
  f->index[e->request] = f->known_n;
  kvs_world_tell(&f->world, KVT_ARRIVE, e->request, (uint32_t)e->position, NULL, 0, e->length, e->aux);
  return KV_OK;
}

static void forget(kvs_whatif *f, kvs_holder *q) {
  uint32_t place = f->index[q->request] - 1;
  kvs_holder *last = f->known[--f->known_n];
  f->index[q->request] = GONE;
  if (last != q) {
    f->known[place] = last;
    f->index[last->request] = place + 1;
  }
  free_holder(q);
}

static void stop_running(kvs_world *w, kvs_holder *q) {
  uint32_t i = 0;
  while (i < w->running_n && w->running[i] != q) i++;
  memmove(w->running + i, w->running + i + 1, (w->running_n - i - 1) * sizeof(kvs_holder *));
  w->running_n--;
  q->running = false;
}

/* ---- events ---- */

/* New tokens: nobody may be there yet. Marks them, so that one that stands twice is found. */
static kv_status claim(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kv_status st = in_pool(f, e);
  if (st) return st;
  for (uint32_t i = 0; i < e->count; i++) {
    int32_t id = e->slots[i];
    if (w->where[id] != KVS_NO_TOKEN || w->refs[id]) return bad_slot(f, e, i, "is taken already");
    w->where[id] = KVS_EVICTED;
  }
  return KV_OK;
}

/* The announced call begins: only its first row shows which of the allocator's calls it is. */
static void begin_call(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  if (f->call_open && w->policy->begin_call && !w->identity)
    w->policy->begin_call(w, f->call_slots, f->call_requests, e->kind == KVT_ALLOC_DECODE);
  f->call_open = false;
}

static kv_status on_append(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kvs_holder *q;
  bool commit = e->kind != KVT_ALLOC_SPEC;
  kv_status st = running(f, e, &q);
  begin_call(f, e);
  if (!st && ((uint32_t)e->position != q->owned || (commit && q->owned != q->rows)))
    st = bad(f, e, "position does not continue the request's row");
  if (!st) st = claim(f, e);
  for (uint32_t i = 0; i < e->count && !st; i++) w->refs[e->slots[i]] = 1;
  if (!st) st = kvs_placer_of(w)->append(w, q, e->slots, e->count, commit);
  w->tally.allocated += e->count;
  return st;
}

/* A draft begins behind the row. Its branches write to pages of their own, each of which begins with the row's last page as far as it
 * is filled (SGLang's duplicate_prefix_tail_to_draft_branches; a copy in the draft model's cache). */
static void count_tails(kvs_world *w, const kvs_holder *q) {
  if (w->placement == KVS_PAGES && w->settings.draft_topk > 1)
    w->tally.tails += (uint64_t)(w->settings.draft_topk - 1) * (q->rows % w->page_size);
}

static kv_status on_verify(kvs_whatif *f, const kvt_event *e) {
  kvs_holder *q;
  kv_status st = running(f, e, &q);
  begin_call(f, e);
  if (!st && !q->block_n) count_tails(&f->world, q);
  if (!st) st = claim(f, e);
  if (!st) st = kvs_placer_of(&f->world)->tree(&f->world, q, e->slots, e->count);
  f->world.tally.allocated += e->count;
  return st;
}

/* Tokens that a row takes up: they must live. `fresh`: of a verify block, in no row yet. */
static kv_status hold(kvs_whatif *f, const kvt_event *e, bool fresh) {
  kvs_world *w = &f->world;
  for (uint32_t i = 0; i < e->count; i++) {
    int32_t id = e->slots[i];
    if (w->where[id] == KVS_NO_TOKEN || (fresh && w->where[id] < 0)) return bad_slot(f, e, i, "holds no token");
    if (fresh && w->refs[id]) return bad_slot(f, e, i, "is in a row already");
    if (w->refs[id] == ROWS_MOST) return bad_slot(f, e, i, "is held by more than 65,535 rows");
    kvs_world_hold(w, id);
  }
  return KV_OK;
}

static kv_status on_commit(kvs_whatif *f, const kvt_event *e) {
  kvs_holder *q;
  kv_status st = running(f, e, &q);
  if (!st && (uint32_t)e->position != q->rows) st = bad(f, e, "position does not continue the committed row");
  if (!st) st = in_pool(f, e);
  if (st) return st;
  if (e->count == 0) {
    if (e->length < 0 || (uint32_t)e->length > q->owned - q->rows) return bad(f, e, "commits more tokens than slots were allocated ahead");
    if (f->step_type == KVT_STEP_DECODE) count_tails(&f->world, q);
    kvs_world_tell(&f->world, KVT_COMMIT, q->request, q->rows, NULL, 0, e->length, -1);
    kvs_row_commit(&f->world, q, (uint32_t)e->length);
    return KV_OK;
  }
  if (q->owned != q->rows) return bad(f, e, "commits a verify block behind slots allocated ahead");
  st = hold(f, e, true);
  return st ? st : kvs_placer_of(&f->world)->commit(&f->world, q, e->slots, e->count);
}

static kv_status on_start(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kvs_holder *q = find(f, e->request);
  kv_status st = q ? in_pool(f, e) : bad(f, e, "the request did not arrive or is finished");
  if (st) return st;
  if (e->position <= 0) {
    if (q->running) return bad(f, e, "it is running already");
    q->running = true;
    q->rows = q->owned = q->reach = q->cursor = 0;
    q->breaks = 0;
    q->stale = q->bound_counted = false;
    q->tail_page = -1;
    w->running[w->running_n++] = q;
  } else if (!q->running || (uint32_t)e->position != q->owned || q->owned != q->rows) {
    return bad(f, e, "a prefix hit that does not begin at position 0");
  }
  f->bound_due = true;
  st = hold(f, e, false);
  return st ? st : kvs_placer_of(w)->hit(w, q, e->slots, e->count);
}

static kv_status take_back(kvs_whatif *f, const kvt_event *e, kvs_holder *q) {
  kvs_world *w = &f->world;
  if (e->count > q->owned - q->rows || memcmp(q->token + q->owned - e->count, e->slots, e->count * sizeof *q->token) != 0)
    return bad(f, e, "frees slots that are not the last ones allocated ahead for the request");
  for (uint32_t i = 0; i < e->count; i++) {
    if (!--w->refs[e->slots[i]] && w->page_held && w->where[e->slots[i]] >= 0)
      w->page_held[w->where[e->slots[i]] / (int32_t)w->page_size]--; /* its page is given back with the slots */
  }
  q->owned -= e->count;
  return KV_OK;
}

/* Duplicates are freed because the cache holds the same tokens; the row is pointed there next (REMAP). Where the policy
 * dropped those early there is no duplicate, and the request's own copy stays: so the free waits for the next event. */
static kv_status keep_duplicates(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kv_status st = kvs_reserve(&f->dup_token, &f->dup_room, e->count, w->err);
  if (!st) st = kvs_reserve(&f->dup_slot, &f->dup_slot_room, e->count, w->err);
  if (st) return st;
  for (uint32_t i = 0; i < e->count; i++) {
    if (w->where[e->slots[i]] == KVS_NO_TOKEN) return bad_slot(f, e, i, "is freed twice");
    f->dup_token[i] = e->slots[i];
    f->dup_slot[i] = w->where[e->slots[i]];
    w->where[e->slots[i]] = KVS_NO_TOKEN;
  }
  f->dup = *e;
  return KV_OK;
}

/* What the row becomes is clear: `e` is its REMAP, or NULL. */
static kv_status free_duplicates(kvs_whatif *f, kvs_holder *q, const kvt_event *e) {
  kvs_world *w = &f->world;
  const kvt_event now = w->current;
  uint32_t k = 0, rest = 0, n = f->dup.count;
  f->dup.count = 0;
  for (uint32_t i = 0; e && i < e->count; i++) {
    int32_t own = q->token[(uint32_t)e->position + i], cached = e->slots[i];
    while (k < n && f->dup_token[k] != own) k++;
    if (k == n || w->where[cached] != KVS_EVICTED || f->dup_slot[k] < 0) continue;
    w->where[cached] = f->dup_slot[k];
    if (w->tenant) w->tenant[f->dup_slot[k]] = cached;
    f->dup_slot[k] = KVS_NO_TOKEN;
  }
  for (k = 0; k < n; k++)
    if (f->dup_slot[k] >= 0) {
      f->dup_token[rest] = f->dup_token[k];
      w->where[f->dup_token[rest++]] = f->dup_slot[k];
    }
  w->current = f->dup;
  kv_status st = rest ? kvs_placer_of(w)->release(w, q, f->dup_token, rest, KVT_FREE_DUPLICATE) : KV_OK;
  w->current = now;
  if (f->group == -1 && w->policy->end_group) w->policy->end_group(w);
  return st;
}

static kv_status on_free(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kvt_free_reason why = (kvt_free_reason)e->aux;
  kvs_holder *q = find(f, e->request);
  kv_status st = in_pool(f, e);
  if (st) return st;
  if (f->group != e->length && w->policy->end_group) w->policy->end_group(w);
  if (why == KVT_FREE_OVER && q && q->running && q->owned > q->rows && (st = take_back(f, e, q))) return st;
  bool may_be_held = why == KVT_FREE_DUPLICATE || why == KVT_FREE_TAIL || why == KVT_FREE_RETRACT || why == KVT_FREE_OTHER;
  for (uint32_t i = 0; i < e->count; i++) {
    if (w->where[e->slots[i]] == KVS_NO_TOKEN) return bad_slot(f, e, i, "is free already");
    if (w->refs[e->slots[i]] && !may_be_held) return bad_slot(f, e, i, "is freed, but a running request's row holds it");
  }
  st = why == KVT_FREE_DUPLICATE && w->next && q && q->running ? keep_duplicates(f, e)
                                                               : kvs_placer_of(w)->release(w, q, e->slots, e->count, why);
  w->tally.freed += e->count;
  bool piece = f->batch->more && f->batch_event + 1 == f->batch->events;
  f->group = e->length;
  if (f->group == -1 && !piece && w->policy->end_group) w->policy->end_group(w);
  return st;
}

static kv_status on_remap(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kvs_holder *q;
  kv_status st = running(f, e, &q);
  if (!st) st = in_pool(f, e);
  if (!st && (uint64_t)(uint32_t)e->position + e->count > q->rows) st = bad(f, e, "rewrites positions that the row does not have");
  if (!st) st = hold(f, e, false);
  if (!st && f->dup.count) st = free_duplicates(f, q, e);
  for (uint32_t i = 0; i < e->count && !st; i++)
    if (w->where[e->slots[i]] < 0) st = bad_slot(f, e, i, "was dropped early, and the row's own copy was not freed as a duplicate");
  if (st) return st;
  for (uint32_t i = 0; i < e->count; i++) {
    int32_t old = q->token[(uint32_t)e->position + i];
    kvs_world_let_go(w, old);
    q->token[(uint32_t)e->position + i] = e->slots[i];
  }
  kvs_world_recount(w, q);
  f->bound_due = true;
  if (!w->tell) return KV_OK;
  /* with pages the whole page of the first position may have been exchanged */
  uint32_t from = (uint32_t)e->position, end = from + e->count;
  if (w->placement == KVS_PAGES) from -= from % w->page_size;
  st = kvs_reserve(&w->scratch, &w->scratch_room, end - from, w->err);
  for (uint32_t p = from; p < end && !st; p++) w->scratch[p - from] = kvs_world_slot(w, q, p);
  kvs_world_tell(w, KVT_REMAP, q->request, from, w->scratch, end - from, -1, -1);
  return st;
}

/* The row is nobody's now. Deepest first, so that a prefix outlives what hangs on it. */
static void let_go(kvs_world *w, kvs_holder *q) {
  for (uint32_t p = q->owned; p-- > 0;) kvs_world_let_go(w, q->token[p]);
}

static kv_status on_end(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kvs_holder *q;
  kv_status st = running(f, e, &q);
  if (st) return st;
  let_go(w, q);
  if (w->policy->finished && e->kind == KVT_FINISH) w->policy->finished(w, q);
  st = kvs_placer_of(w)->leave(w, q);
  kvs_world_tell(w, e->kind, q->request, q->rows, NULL, 0, -1, -1);
  stop_running(w, q);
  f->bound_due = true;
  q->rows = q->owned = q->reach = 0;
  q->breaks = 0;
  if (e->kind == KVT_FINISH) forget(f, q);
  return st;
}

static kv_status on_insert(kvs_whatif *f, const kvt_event *e) {
  kvs_holder *q;
  kv_status st = running(f, e, &q);
  if (!st) kvs_world_tell(&f->world, KVT_INSERT, e->request, (uint32_t)e->position, NULL, 0, e->length, -1);
  return st;
}

static kv_status on_draft(kvs_whatif *f, const kvt_event *e) {
  kvs_world_tell(&f->world, KVT_DRAFT_TEMP, -1, UINT32_MAX, NULL, 0, e->length, -1);
  return KV_OK;
}

static kv_status on_call(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  if (e->length < 0 || e->position < 0) return bad(f, e, "a call without its slots and requests");
  if (w->policy->end_group) w->policy->end_group(w);
  f->call_slots = (uint32_t)e->length;
  f->call_requests = (uint32_t)e->position;
  f->call_open = true;
  if (w->placement == KVS_TOKENS) kvs_world_tell(w, KVT_ALLOC_CALL, -1, (uint32_t)e->position, NULL, 0, e->length, e->aux);
  return KV_OK;
}

/* ---- the oracle ---- */

static uint32_t groups(const kvs_holder *q) { return q->rows / KVS_ORACLE_GROUP; }

static int by_tokens(const void *a, const void *b) {
  const kvs_holder *x = *(kvs_holder *const *)a, *y = *(kvs_holder *const *)b;
  uint32_t n = groups(x) < groups(y) ? groups(x) : groups(y);
  int order = n ? memcmp(x->token, y->token, (size_t)n * KVS_ORACLE_GROUP * sizeof *x->token) : 0;
  return order ? order : (groups(x) > groups(y)) - (groups(x) < groups(y));
}

static uint32_t shared_groups(const kvs_holder *x, const kvs_holder *y) {
  uint32_t n = groups(x) < groups(y) ? groups(x) : groups(y), g = 0;
  const size_t bytes = KVS_ORACLE_GROUP * sizeof *x->token;
  while (g < n && !memcmp(x->token + g * KVS_ORACLE_GROUP, y->token + g * KVS_ORACLE_GROUP, bytes)) g++;
  return g;
}

/* Forced breaks among rows lo .. hi-1 in order; shared[i] blocks are common to i - 1 and i. */
static uint64_t forced(kvs_holder *const *rows, const uint32_t *shared, uint32_t lo, uint32_t hi) {
  uint32_t depth = UINT32_MAX;
  if (hi - lo < 2) return 0;
  for (uint32_t i = lo + 1; i < hi; i++) depth = shared[i] < depth ? shared[i] : depth;
  uint64_t total = 0, through = 0, largest = 0, own = 0;
  uint32_t from = lo;
  for (uint32_t i = lo; i < hi; i++) {
    own += groups(rows[i]) > depth;
    if (i + 1 < hi && shared[i + 1] != depth) continue;
    total += forced(rows, shared, from, i + 1);
    through += own;
    largest = own > largest ? own : largest;
    own = 0;
    from = i + 1;
  }
  return total + (depth ? through - largest : 0);
}

uint64_t kvs_oracle_runs(kvs_holder *const *holders, uint32_t n, kv_error *err, kv_status *status) {
  kvs_holder **rows = malloc((n + 1) * sizeof *rows);
  uint32_t *shared = calloc(n + 1, sizeof *shared), m = 0;
  uint64_t runs = 0;
  *status = rows && shared ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for the oracle");
  if (!*status) {
    for (uint32_t i = 0; i < n; i++)
      if (holders[i]->rows) rows[m++] = holders[i];
    qsort(rows, m, sizeof *rows, by_tokens);
    for (uint32_t i = 1; i < m; i++) shared[i] = shared_groups(rows[i - 1], rows[i]);
    runs = m + forced(rows, shared, 0, m);
    for (uint32_t i = 0; i < m; i++) { /* kept with the rows: how far growth can still matter */
      uint32_t next = i + 1 < m ? shared[i + 1] : 0;
      rows[i]->bound_shared = shared[i] > next ? shared[i] : next;
      rows[i]->bound_groups = groups(rows[i]);
      rows[i]->bound_counted = true;
    }
  }
  free(rows);
  free(shared);
  return runs;
}

static kv_status update_bound(kvs_whatif *f) {
  kvs_world *w = &f->world;
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < w->running_n && !f->bound_due; i++) {
    const kvs_holder *q = w->running[i];
    f->bound_due = q->bound_counted ? q->bound_groups <= q->bound_shared && groups(q) > q->bound_groups : q->rows > 0;
  }
  if (!f->bound_due) return KV_OK;
  f->bound = kvs_oracle_runs(w->running, w->running_n, w->err, &st);
  f->bound_due = false;
  return st;
}

/* ---- measuring ---- */

static double rows_seconds(const kvs_whatif *f, const kvs_cost *c, uint64_t rows, uint64_t runs) {
  double run = (double)rows / (double)runs, share = (c->share ? c->share : kvs_gather_share)(c->arg, f->options.row_bytes, run);
  return (double)rows * f->options.row_bytes * f->options.layers / (c->read_bandwidth * share);
}

static void count_time(kvs_whatif *f) {
  bool bound = f->world.policy->costs_nothing;
  for (uint32_t c = 0; c < f->options.costs; c++)
    for (uint32_t i = 0; i < f->world.running_n; i++) {
      const kvs_holder *q = f->world.running[i];
      if (!q->rows) continue;
      double best = rows_seconds(f, &f->options.cost[c], q->rows, 1);
      f->result.read_floor[c] += best;
      f->result.read_seconds[c] += bound ? best : rows_seconds(f, &f->options.cost[c], q->rows, q->breaks + 1);
    }
}

static void empty_runs(kvs_whatif *f, kvs_whatif_sample *s) {
  const kvs_world *w = &f->world;
  uint32_t end = w->page_size + w->capacity, ids = w->info.first_slot + w->info.pool_size;
  uint64_t run = 0, all = 0;
  memset(f->empty, 0, (end / 64 + 1) * sizeof *f->empty);
  for (uint32_t i = 0; i < ids; i++)
    if (w->where[i] >= 0) f->empty[(uint32_t)w->where[i] / 64] |= 1ull << ((uint32_t)w->where[i] % 64);
  for (uint32_t i = w->page_size; i < end; i++) {
    bool taken = f->empty[i / 64] >> (i % 64) & 1;
    s->empty_runs += !taken && run == 0;
    run = taken ? 0 : run + 1;
    all += !taken;
    if (run > s->largest_empty_run) s->largest_empty_run = run;
  }
  s->fragmentation = all ? 1 - (double)s->largest_empty_run / (double)all : 0;
}

static void count_runs(kvs_whatif *f) {
  const kvs_world *w = &f->world;
  for (uint32_t i = 0; i < w->running_n; i++) {
    const kvs_holder *q = w->running[i];
    uint64_t run = 0;
    int32_t last = KVS_NO_TOKEN;
    for (uint32_t p = 0; p < q->rows; p++) {
      int32_t here = kvs_world_slot(w, q, p);
      if (run && here != last + 1) {
        f->result.histogram[kvs_hist_bucket(run)]++;
        run = 0;
      }
      run++;
      last = here;
    }
    if (run) f->result.histogram[kvs_hist_bucket(run)]++;
  }
}

static uint32_t cell_of(const kvs_world *w, int32_t slot) {
  return (uint32_t)((uint64_t)((uint32_t)slot - w->page_size) * KVS_MAP_CELLS / w->capacity);
}

static void draw_map(kvs_whatif *f) {
  const kvs_world *w = &f->world;
  uint32_t ids = w->info.first_slot + w->info.pool_size;
  const kvs_holder *longest = NULL;
  memset(f->result.map, 0, sizeof f->result.map);
  f->result.map_step = w->step;
  for (uint32_t i = 0; i < w->running_n; i++)
    if (!longest || w->running[i]->rows > longest->rows) longest = w->running[i];
  for (uint32_t i = 0; i < ids; i++)
    if (w->where[i] >= 0) f->result.map[cell_of(w, w->where[i])][w->refs[i] ? 1 : 2]++;
  for (uint32_t p = 0; longest && p < longest->rows; p++) {
    int32_t slot = kvs_world_slot(w, longest, p);
    if (slot < 0) continue;
    uint32_t *cell = f->result.map[cell_of(w, slot)];
    cell[0]++;
    if (w->where[longest->token[p]] == slot && cell[1]) cell[1]--;
  }
}

static kv_status sample(kvs_whatif *f, uint64_t rows, uint64_t runs, uint64_t waste) {
  const kvs_world *w = &f->world;
  kvs_whatif_sample s = {.step = w->step, .time_us = f->step_row.time_us, .type = f->step_type, .running = w->running_n,
                         .rows = rows, .runs = runs, .mean_run = runs ? (double)rows / (double)runs : 0, .waste = waste,
                         .free = w->capacity - w->resident - waste, .tally = w->tally};
  uint32_t every = f->options.detail_every;
  s.detail = !w->policy->costs_nothing && every && f->samples % every == every - 1;
  f->samples++;
  if (s.detail) {
    empty_runs(f, &s);
    count_runs(f);
  }
  if (!w->policy->costs_nothing && (f->options.map_step ? w->step == f->options.map_step : s.detail && rows > f->map_rows)) {
    f->map_rows = rows;
    draw_map(f);
  }
  return f->options.sample ? f->options.sample(f->options.arg, &s, w->err) : KV_OK;
}

static kv_status measure(kvs_whatif *f) {
  kvs_world *w = &f->world;
  uint64_t rows = 0, runs = 0, requests = 0;
  bool bound = w->policy->costs_nothing;
  kv_status st = bound ? update_bound(f) : KV_OK;
  for (uint32_t i = 0; i < w->running_n && !st; i++) {
    kvs_holder *q = w->running[i];
    if (q->stale) kvs_world_recount(w, q);
    rows += q->rows;
    requests += q->rows > 0;
    runs += q->rows ? q->breaks + 1 : 0;
  }
  if (st) return st;
  if (bound) runs = f->bound;
  uint64_t unit = w->placement == KVS_PAGES ? w->page_size : 1;
  uint64_t used = w->identity ? w->resident : w->capacity - w->policy->available(w) * unit + w->queued, waste = used - w->resident;
  f->waste_sum += (double)waste;
  f->free_sum += (double)(w->capacity - used);
  if (waste > f->result.waste_most) f->result.waste_most = waste;
  if (rows > f->result.rows_most) f->result.rows_most = rows;
  f->result.steps++;
  if (f->step_type == KVT_STEP_DECODE) {
    f->result.decode_steps++;
    f->result.rows += rows;
    f->result.requests += requests;
    f->result.runs += runs;
    count_time(f);
  }
  bool due = f->options.every && (w->step % f->options.every == 0 || w->step == f->options.map_step);
  return due ? sample(f, rows, runs, waste) : KV_OK;
}

static kv_status end_step(kvs_whatif *f, bool last) {
  kvs_world *w = &f->world;
  if (w->policy->end_group) w->policy->end_group(w);
  f->group = -1;
  if (!f->step_open) return KV_OK;
  f->step_open = false;
  kv_status st = measure(f);
  if (!st && w->policy->step_end && !last) w->policy->step_end(w);
  if (w->policy->end_group) w->policy->end_group(w);
  return st;
}

static kv_status on_step(kvs_whatif *f, const kvt_event *e) {
  kvs_world *w = &f->world;
  kv_status st = end_step(f, false);
  w->step = e->step;
  f->step_type = (kvt_step_type)e->aux;
  f->step_open = true;
  return st;
}

static kv_status on_move(kvs_whatif *f, const kvt_event *e) {
  return bad(f, e, "the recording itself relocates tokens, which no policy can be tried on");
}

static kv_status on_clear(kvs_whatif *f, const kvt_event *e) {
  if (f->world.running_n) return bad(f, e, "the pool is emptied while requests run");
  kv_status st = end_step(f, true);
  if (!st) st = kvs_world_clear(&f->world, f->world.err);
  kvs_world_tell(&f->world, KVT_CLEAR, -1, UINT32_MAX, NULL, 0, -1, -1);
  return st;
}

typedef kv_status (*handler)(kvs_whatif *, const kvt_event *);
static const handler on_event[KVT_KINDS] = {
    [KVT_STEP] = on_step,         [KVT_ARRIVE] = on_arrive,    [KVT_START] = on_start,   [KVT_ALLOC_EXTEND] = on_append,
    [KVT_ALLOC_DECODE] = on_append, [KVT_ALLOC_VERIFY] = on_verify, [KVT_COMMIT] = on_commit, [KVT_FREE] = on_free,
    [KVT_REMAP] = on_remap,       [KVT_INSERT] = on_insert,    [KVT_DRAFT_TEMP] = on_draft, [KVT_FINISH] = on_end,
    [KVT_RETRACT] = on_end,       [KVT_ALLOC_SPEC] = on_append, [KVT_ALLOC_CALL] = on_call, [KVT_CLEAR] = on_clear,
    [KVT_MOVE] = on_move};

static kv_status tell_event(void *arg, const kvt_event *e, kv_error *err) {
  kvs_whatif *f = arg;
  return f->options.tell(f->options.arg, e, NULL, err);
}

kv_status kvs_whatif_batch(kvs_whatif *f, const kvt_batch *batch, kv_error *err) {
  uint32_t slot = 0, step = 0;
  kvs_world *w = &f->world;
  w->err = err;
  f->batch = batch;
  for (uint32_t i = 0; i < batch->events; i++) {
    w->current = kvt_batch_event(batch, i, slot);
    f->batch_event = i;
    bool follows = w->current.kind == KVT_REMAP || w->current.kind == KVT_INSERT;
    bool other = f->dup.count && (!follows || w->current.request != f->dup.request);
    kv_status st = other ? free_duplicates(f, find(f, f->dup.request), NULL) : KV_OK;
    if (!st) st = on_event[w->current.kind](f, &w->current);
    if (!st) st = w->tell_status;
    if (w->current.kind == KVT_STEP && !st) {
      f->step_row = batch->step_rows[step++];
      if (f->options.tell) st = f->options.tell(f->options.arg, &w->current, &f->step_row, err);
      if (!st && w->moves_n) kvs_world_tell(w, KVT_MOVE, -1, UINT32_MAX, w->moves, w->moves_n, -1, -1);
      w->moves_n = 0;
    }
    if (st) return st;
    slot += batch->count[i];
  }
  return KV_OK;
}

kv_status kvs_whatif_finish(kvs_whatif *f, kv_error *err) {
  f->world.err = err;
  kv_status st = f->dup.count ? free_duplicates(f, find(f, f->dup.request), NULL) : KV_OK;
  if (!st && f->world.fits) st = end_step(f, true);
  kvs_whatif_result *r = &f->result;
  r->tally = f->world.tally;
  r->fits = f->world.fits;
  r->short_step = f->world.short_step;
  r->short_units = f->world.short_units;
  r->capacity = f->world.capacity;
  r->page_size = f->world.page_size;
  r->waste_mean = r->steps ? f->waste_sum / (double)r->steps : 0;
  r->free_mean = r->steps ? f->free_sum / (double)r->steps : 0;
  if (f->world.policy->costs_nothing) r->oracle_runs = r->runs;
  return st ? st : f->world.tell_status;
}

kv_status kvs_whatif_create(const kvt_info *info, const kvs_policy *policy, const kvs_whatif_options *options,
                            const int32_t *initial, kvs_whatif **whatif, kv_error *err) {
  *whatif = NULL;
  kvs_whatif *f = calloc(1, sizeof *f);
  if (!f) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  f->options = *options;
  f->group = -1;
  f->index = calloc(info->requests + 1, sizeof *f->index);
  kv_status st = f->index ? kvs_world_init(&f->world, policy, &options->settings, info, initial, err)
                          : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st && options->detail_every) {
    f->empty = malloc(((f->world.page_size + f->world.capacity) / 64 + 1) * sizeof *f->empty);
    if (!f->empty) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  }
  if (options->tell) {
    f->world.tell = tell_event;
    f->world.tell_arg = f;
  }
  if (st)
    kvs_whatif_free(f);
  else
    *whatif = f;
  return st;
}

void kvs_whatif_free(kvs_whatif *f) {
  if (!f) return;
  for (uint32_t i = 0; i < f->known_n; i++) free_holder(f->known[i]);
  free(f->known);
  free(f->world.running);
  free(f->index);
  free(f->empty);
  free(f->dup_token);
  free(f->dup_slot);
  kvs_world_fini(&f->world);
  free(f);
}

const kvs_whatif_result *kvs_whatif_get_result(const kvs_whatif *f) { return &f->result; }
const kvs_world *kvs_whatif_get_world(const kvs_whatif *f) { return &f->world; }
