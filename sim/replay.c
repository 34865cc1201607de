#include "replay.h"

#include "moves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a request is in its life; index 0 of the table means never seen, GONE that it is done. */
#define GONE UINT32_MAX
#define DECODE_MOST 512u /* the last decode_N, as in the recordings' statistics */

typedef struct request {
  int32_t id;
  bool running;
  bool ahead;           /* spec v2: slots are allocated ahead of the commit */
  bool speculates;      /* verify blocks or ahead */
  bool prefill_due;     /* the prompt was completed in this step */
  bool prefill_told;
  int32_t prompt;       /* rows that complete the prefill, -1 unknown */
  uint64_t decode_steps; /* that count for decode_N */
  uint64_t tree;        /* slots of the open draft tree */
  kvs_row row;
  int32_t *tail;        /* owned, not committed (spec v2) */
  uint32_t tail_n, tail_room;
  int32_t *block;       /* slots of the newest verify block */
  uint32_t block_n, block_room;
  uint32_t block_step;
  uint64_t block_prefix; /* rows before it */
  kvs_milestone before_commit; /* spec v2: the finish milestone if no commit follows */
} request;

struct kvs_replay {
  kvt_info info;
  kvs_replay_options options;
  kvs_pool pool;
  kvs_freelist list;
  kvs_replay_totals totals;
  uint32_t *index; /* [requests] 0, GONE or 1 + place in `known` */
  request **known; /* arrived and not done */
  uint32_t known_n, known_room;
  uint32_t *vacant; /* places of `known` that are free again */
  uint32_t vacant_n;
  uint32_t *running; /* places of `known`, in order of start */
  uint32_t running_n;
  uint32_t step;
  kvt_step step_row;
  kvt_step_type step_type;
  bool step_open;
  uint64_t tree;       /* slots of all open draft trees */
  uint64_t due;        /* requests whose prefill_end waits for the step's end */
  int32_t group;       /* open free group, -1 none */
  uint32_t call_slots, call_requests; /* of the allocator call announced */
  bool call_open;                     /* none of its slots has come yet */
  uint64_t bitmap_left; /* bytes */
  uint64_t *scratch;
  kvs_moves moves; /* made when a trace relocates */
  /* for messages */
  const kvt_batch *batch;
  uint32_t batch_event;
  uint64_t event_slot; /* element of /events/slots of the event's first slot */
};

typedef struct context {
  kvs_replay *r;
  const kvt_event *e;
  kv_error *err;
} context;

kvs_replay_options kvs_replay_options_default(void) {
  return (kvs_replay_options){.name = "trace", .geometry = kvs_geometry_default(), .every = 1, .milestone_rows = 16384,
                              .follow_order = true, .bitmap_bytes = 32u << 20};
}

/* ---- messages ---- */

static kv_status bad_event(const context *c, const char *what) {
  return kv_fail(c->err, KV_ERR_INPUT, "%s: event %llu (%s, step %u, request %d): %s", c->r->options.name,
                 (unsigned long long)(c->r->batch->first_event + c->r->batch_event), kvt_kind_name(c->e->kind),
                 c->e->step, c->e->request, what);
}

static kv_status bad_slot(const context *c, uint32_t at, const char *what) {
  return kv_fail(c->err, KV_ERR_INPUT, "%s: /events/slots[%llu] (event %llu, %s, step %u, request %d): slot %d %s",
                 c->r->options.name, (unsigned long long)(c->r->event_slot + at),
                 (unsigned long long)(c->r->batch->first_event + c->r->batch_event), kvt_kind_name(c->e->kind),
                 c->e->step, c->e->request, c->e->slots[at], what);
}

static kv_status outside(const context *c, uint32_t at) {
  char text[96];
  (void)snprintf(text, sizeof text, "is outside the pool (%u to %u)", c->r->pool.first,
                 c->r->pool.first + c->r->pool.size - 1);
  return bad_slot(c, at, text);
}

/* The next run of the event's slots, from slot i: *n of them, all inside the pool. */
static inline kv_status next_run(const context *c, uint32_t i, uint32_t *n) {
  *n = kvs_run_of(c->e->slots + i, c->e->count - i);
  uint32_t in = kvs_pool_inside(&c->r->pool, c->e->slots[i], *n);
  return in == *n ? KV_OK : outside(c, i + in);
}

static kv_status check_range(const context *c) {
  kv_status st = KV_OK;
  for (uint32_t i = 0, n; i < c->e->count && !st; i += n) st = next_run(c, i, &n);
  return st;
}

/* ---- requests ---- */

static request *find(const kvs_replay *r, int32_t id) {
  if (id < 0) return NULL;
  uint32_t place = r->index[id];
  return place == 0 || place == GONE ? NULL : r->known[place - 1];
}

/* The event's request if it is running; else *out is NULL and the status says why. */
static kv_status running_request(const context *c, request **out) {
  *out = find(c->r, c->e->request);
  if (*out && (*out)->running) return KV_OK;
  uint32_t place = c->e->request >= 0 ? c->r->index[c->e->request] : 0;
  *out = NULL;
  return bad_event(c, place == 0      ? "the request never arrived"
                      : place == GONE ? "the request is finished already"
                                      : "the request was never started");
}

static kv_status grow_known(kvs_replay *r, kv_error *err) {
  uint32_t room = r->known_room ? r->known_room * 2 : 64;
  request **known = realloc(r->known, room * sizeof(request *));
  if (known) r->known = known;
  uint32_t *vacant = realloc(r->vacant, room * sizeof *vacant);
  if (vacant) r->vacant = vacant;
  uint32_t *running = realloc(r->running, room * sizeof *running);
  if (running) r->running = running;
  if (!known || !vacant || !running) return kv_fail(err, KV_ERR_MEMORY, "out of memory for requests");
  r->known_room = room;
  return KV_OK;
}

static kv_status add_request(kvs_replay *r, int32_t id, int32_t prompt, kv_error *err) {
  if (!r->vacant_n && r->known_n == r->known_room) {
    kv_status st = grow_known(r, err);
    if (st) return st;
  }
  request *q = calloc(1, sizeof *q);
  if (!q) return kv_fail(err, KV_ERR_MEMORY, "out of memory for requests");
  uint32_t place = r->vacant_n ? r->vacant[--r->vacant_n] : r->known_n++;
  q->id = id;
  q->prompt = prompt;
  r->known[place] = q;
  r->index[id] = place + 1;
  return KV_OK;
}

/* vLLM: pages of slots [start, start + n) that no row holds any more join the queue, last first. */
static void queue_run(kvs_replay *r, int32_t start, int32_t n) {
  int32_t page = (int32_t)r->info.page_size;
  for (int32_t at = (start + n - 1) / page * page; at >= start; at -= page)
    if (!kvs_pool_refs(&r->pool, at)) kvs_freelist_idle(&r->list, at / page);
}

static void queue_row(kvs_replay *r, const request *q) {
  if (!kvt_allocator_queues(r->list.kind)) return;
  (void)kvs_freelist_end_group(&r->list);
  for (uint32_t i = q->tail_n; i-- > 0;) queue_run(r, q->tail[i], 1);
  for (uint32_t i = q->row.runs; i-- > 0;) queue_run(r, q->row.run[i].start, (int32_t)q->row.run[i].length);
}

static void drop_row(kvs_replay *r, request *q) {
  for (uint32_t i = 0; i < q->row.runs; i++)
    kvs_pool_drop_run(&r->pool, q->row.run[i].start, (uint32_t)q->row.run[i].length);
  for (uint32_t i = 0; i < q->tail_n; i++) kvs_pool_drop_run(&r->pool, q->tail[i], 1);
  queue_row(r, q);
  if (q->row.units) r->bitmap_left += kvs_row_unit_words(&r->options.geometry, r->pool.first + r->pool.size) * 8;
  kvs_row_free(&q->row);
  q->tail_n = 0;
  r->tree -= q->tree;
  q->tree = 0;
  q->block_n = 0;
  if (q->prefill_due) r->due--;
  q->prefill_due = false;
}

static void leave_running(kvs_replay *r, request *q) {
  uint32_t place = r->index[q->id] - 1, i = 0;
  while (i < r->running_n && r->running[i] != place) i++;
  if (i < r->running_n) {
    memmove(r->running + i, r->running + i + 1, (r->running_n - i - 1) * sizeof *r->running);
    r->running_n--;
  }
  q->running = false;
}

static void free_request(request *q) {
  if (!q) return;
  kvs_row_free(&q->row);
  free(q->tail);
  free(q->block);
  free(q);
}

static void forget(kvs_replay *r, request *q) {
  uint32_t place = r->index[q->id] - 1;
  r->index[q->id] = GONE;
  r->known[place] = NULL;
  r->vacant[r->vacant_n++] = place;
  free_request(q);
}

static kv_status push(int32_t **list, uint32_t *n, uint32_t *room, const int32_t *slots, uint32_t count, kv_error *err) {
  if (*n + (uint64_t)count > *room) {
    uint64_t want = (*n + (uint64_t)count) * 2;
    int32_t *grown = want < UINT32_MAX ? realloc(*list, want * sizeof **list) : NULL;
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's slots");
    *list = grown;
    *room = (uint32_t)want;
  }
  if (count) memcpy(*list + *n, slots, count * sizeof *slots);
  *n += count;
  return KV_OK;
}

/* ---- milestones ---- */

static kvs_milestone milestone_now(const kvs_replay *r, const request *q, const char *event) {
  const kvs_row *w = &q->row;
  kvs_milestone m = {.request = q->id, .step = r->step, .rows = w->rows, .runs = w->runs, .adjacent_fraction = 1,
                     .row = w};
  (void)snprintf(m.event, sizeof m.event, "%s", event);
  if (w->rows) m.span = (uint64_t)(w->high - w->low) + 1;
  if (w->runs) m.mean_run = (double)w->rows / (double)w->runs;
  if (w->rows > 1) m.adjacent_fraction = (double)(w->rows - w->runs) / (double)(w->rows - 1);
  return m;
}

static kv_status tell(const kvs_replay *r, const kvs_milestone *m, kv_error *err) {
  const kvs_observer *o = &r->options.observer;
  return o->milestone ? o->milestone(o->arg, m, err) : KV_OK;
}

static kv_status tell_prefill(kvs_replay *r, request *q, kv_error *err) {
  if (!q->prefill_due) return KV_OK;
  q->prefill_due = false;
  r->due--;
  if (q->prefill_told) return KV_OK; /* a second prefill, after a retraction */
  q->prefill_told = true;
  kvs_milestone m = milestone_now(r, q, "prefill_end");
  return tell(r, &m, err);
}

static kv_status count_decode(const context *c, request *q) {
  if (q->row.rows < c->r->options.milestone_rows) return KV_OK;
  uint64_t n = ++q->decode_steps;
  if (n & (n - 1) || n > DECODE_MOST) return KV_OK;
  char event[24];
  (void)snprintf(event, sizeof event, "decode_%llu", (unsigned long long)n);
  kvs_milestone m = milestone_now(c->r, q, event);
  return tell(c->r, &m, c->err);
}

/* ---- allocating ---- */

/* What the allocator saw as one free is given to it now; a page is free with all its slots. */
static void end_group(kvs_replay *r) {
  uint32_t n = kvs_freelist_end_group(&r->list);
  for (uint32_t i = 0; i < n; i++) kvs_pool_give_page(&r->pool, kvs_freelist_newest(&r->list, i), r->info.page_size);
  r->group = -1;
}

/* Holds the event's slots against the head of the free list. */
static kv_status check_order(const context *c) {
  kvs_replay *r = c->r;
  end_group(r);
  if (r->call_open) /* put off to here: only now it shows which of the allocator's calls it is */
    kvs_freelist_begin_call(&r->list, r->call_slots, r->call_requests, c->e->kind == KVT_ALLOC_DECODE);
  r->call_open = false;
  uint32_t agree = kvs_freelist_take(&r->list, c->e->slots, c->e->count);
  if (agree == c->e->count) return KV_OK;
  if (r->options.permissive) r->totals.order_lost = true;
  if (!kvs_pool_has(&r->pool, c->e->slots[agree])) return outside(c, agree);
  const char *what = kvs_pool_is_free(&r->pool, c->e->slots[agree])
                         ? "is not the one that the declared allocator would hand out next; `--allocator other` "
                           "takes allocations as they come"
                         : "is allocated, but held already";
  kvs_freelist_free(&r->list); /* out of step for good: a strict replay ends here, a permissive one goes on without */
  return bad_slot(c, agree, what);
}

static kv_status not_free(const context *c, uint32_t at) {
  return bad_slot(c, at, kvs_pool_is_free(&c->r->pool, c->e->slots[at])
                             ? "is free, but a running request's row still holds it"
                             : "is allocated, but held already");
}

static kv_status take_slots(const context *c, request *q, bool into_row) {
  kvs_replay *r = c->r;
  const int32_t *slots = c->e->slots;
  kv_status st = check_order(c);
  if (st) return st;
  for (uint32_t i = 0, n; i < c->e->count; i += n) {
    if ((st = next_run(c, i, &n))) return st;
    uint32_t taken = kvs_pool_take_run(&r->pool, slots[i], n, q->id, into_row);
    if (taken < n) return not_free(c, i + taken);
    if (into_row && (st = kvs_row_append(&q->row, &r->options.geometry, slots[i], (int32_t)n, c->err))) return st;
  }
  r->totals.allocated += c->e->count;
  return KV_OK;
}

static kv_status prepare_alloc(const context *c, request **q) {
  kv_status st = running_request(c, q);
  if (st || c->e->kind == KVT_ALLOC_VERIFY) return st;
  if ((uint64_t)c->e->position != (*q)->row.rows + (*q)->tail_n)
    return bad_event(c, "position does not continue the request's row");
  return KV_OK;
}

static kv_status on_alloc_extend(const context *c) {
  request *q;
  kv_status st = prepare_alloc(c, &q);
  if (!st && q->tail_n) st = bad_event(c, "prefill behind slots that were allocated ahead");
  if (!st) st = take_slots(c, q, true);
  if (!st && q->prompt >= 0 && q->row.rows >= (uint64_t)q->prompt && !q->prefill_due) {
    q->prefill_due = true;
    c->r->due++;
  }
  return st;
}

static kv_status on_alloc_decode(const context *c) {
  request *q;
  kv_status st = prepare_alloc(c, &q);
  if (!st && q->tail_n) st = bad_event(c, "plain decode behind slots that were allocated ahead");
  if (!st) st = take_slots(c, q, true);
  return st ? st : count_decode(c, q);
}

static kv_status on_alloc_verify(const context *c) {
  request *q;
  kv_status st = prepare_alloc(c, &q);
  if (!st) st = take_slots(c, q, false);
  if (st) return st;
  if (q->block_step != c->e->step || !q->block_n) {
    q->block_n = 0;
    q->block_prefix = q->row.rows;
  }
  q->block_step = c->e->step;
  q->speculates = true;
  q->tree += c->e->count;
  c->r->tree += c->e->count;
  return push(&q->block, &q->block_n, &q->block_room, c->e->slots, c->e->count, c->err);
}

static kv_status on_alloc_spec(const context *c) {
  request *q;
  kv_status st = prepare_alloc(c, &q);
  if (!st) st = take_slots(c, q, false);
  if (st) return st;
  for (uint32_t i = 0; i < c->e->count; i++) (void)kvs_pool_hold_run(&c->r->pool, c->e->slots[i], 1);
  q->ahead = q->speculates = true;
  return push(&q->tail, &q->tail_n, &q->tail_room, c->e->slots, c->e->count, c->err);
}

static kv_status on_alloc_call(const context *c) {
  if (c->e->length < 0 || c->e->position < 0) return bad_event(c, "a call without its slots and requests");
  end_group(c->r);
  c->r->call_slots = (uint32_t)c->e->length;
  c->r->call_requests = (uint32_t)c->e->position;
  c->r->call_open = true;
  return KV_OK;
}

/* ---- rows ---- */

static kv_status not_holdable(const context *c, uint32_t at) {
  return bad_slot(c, at, kvs_pool_is_free(&c->r->pool, c->e->slots[at]) ? "is free and cannot become part of a row"
                                                                        : "is held by more than 32,766 rows");
}

/* vLLM: what a row takes up again leaves the queue. */
static void unqueue(kvs_replay *r, const int32_t *slots, uint32_t n) {
  if (!kvt_allocator_queues(r->list.kind)) return;
  for (uint32_t i = 0; i < n; i++)
    if ((uint32_t)slots[i] % r->info.page_size == 0) kvs_freelist_busy(&r->list, slots[i] / (int32_t)r->info.page_size);
}

/* Adds slots that others may hold too. They must be allocated. */
static kv_status hold_slots(const context *c, request *q) {
  kvs_replay *r = c->r;
  const int32_t *slots = c->e->slots;
  kv_status st = KV_OK;
  for (uint32_t i = 0, n; i < c->e->count && !st; i += n) {
    if ((st = next_run(c, i, &n))) break;
    uint32_t held = kvs_pool_hold_run(&r->pool, slots[i], n);
    if (held < n) return not_holdable(c, i + held);
    unqueue(r, slots + i, n);
    st = kvs_row_append(&q->row, &r->options.geometry, slots[i], (int32_t)n, c->err);
  }
  return st;
}

static kv_status on_arrive(const context *c) {
  if (c->r->index[c->e->request])
    return bad_event(c, c->r->index[c->e->request] == GONE ? "the request is finished already" : "it has arrived already");
  return add_request(c->r, c->e->request, c->e->length, c->err);
}

static kv_status begin_running(const context *c, request *q) {
  kvs_replay *r = c->r;
  uint64_t slots = (uint64_t)r->pool.first + r->pool.size;
  uint64_t bytes = kvs_row_unit_words(&r->options.geometry, slots) * 8;
  bool keep = r->options.every && bytes <= r->bitmap_left;
  kv_status st = kvs_row_init(&q->row, &r->options.geometry, slots, keep, c->err);
  if (st) return st;
  if (keep) r->bitmap_left -= bytes;
  q->running = true;
  r->running[r->running_n++] = r->index[q->id] - 1;
  r->totals.started++;
  return KV_OK;
}

static kv_status on_start(const context *c) {
  request *q = find(c->r, c->e->request);
  if (!q) return bad_event(c, c->r->index[c->e->request] == GONE ? "the request is finished already" : "the request never arrived");
  kv_status st = KV_OK;
  if (c->e->position <= 0) {
    if (q->running) return bad_event(c, "it is running already");
    if ((st = begin_running(c, q))) return st;
  } else if (!q->running || q->row.rows != (uint64_t)c->e->position) {
    return bad_event(c, "a prefix hit that does not begin at position 0");
  }
  return hold_slots(c, q);
}

static bool in_block(const request *q, int32_t slot) {
  for (uint32_t i = 0; i < q->block_n; i++)
    if (q->block[i] == slot) return true;
  return false;
}

static kv_status commit_tree(const context *c, request *q) {
  if ((uint64_t)c->e->position != q->row.rows || q->tail_n)
    return bad_event(c, "position does not continue the request's row");
  if (c->e->count > q->tree) return bad_event(c, "commits more slots than the request's draft tree has");
  for (uint32_t i = 0; i < c->e->count; i++)
    if (!in_block(q, c->e->slots[i])) return bad_slot(c, i, "is not of the request's verify block");
  kv_status st = hold_slots(c, q);
  if (st) return st;
  q->tree -= c->e->count;
  c->r->tree -= c->e->count;
  return count_decode(c, q);
}

static kv_status commit_ahead(const context *c, request *q) {
  if ((uint64_t)c->e->position != q->row.rows) return bad_event(c, "position does not continue the committed row");
  if (c->e->length < 0 || (uint32_t)c->e->length > q->tail_n)
    return bad_event(c, "commits more tokens than slots were allocated ahead");
  bool prefill = q->prompt >= 0 && q->row.rows < (uint64_t)q->prompt; /* a chunk in slots that were lookahead's (vLLM) */
  kv_status st = prefill ? KV_OK : count_decode(c, q);
  q->before_commit = milestone_now(c->r, q, "finish");
  uint32_t n = (uint32_t)c->e->length;
  for (uint32_t i = 0, k; i < n && !st; i += k) {
    k = kvs_run_of(q->tail + i, n - i);
    st = kvs_row_append(&q->row, &c->r->options.geometry, q->tail[i], (int32_t)k, c->err);
  }
  q->tail_n -= n;
  if (n) memmove(q->tail, q->tail + n, q->tail_n * sizeof *q->tail);
  if (!st && prefill && q->row.rows >= (uint64_t)q->prompt && !q->prefill_due) {
    q->prefill_due = true;
    c->r->due++;
  }
  return st;
}

static kv_status on_commit(const context *c) {
  request *q;
  kv_status st = running_request(c, &q);
  if (st) return st;
  return c->e->count || !q->ahead ? commit_tree(c, q) : commit_ahead(c, q);
}

static kv_status on_remap(const context *c) {
  request *q;
  kvs_replay *r = c->r;
  kv_status st = running_request(c, &q);
  if (!st) st = check_range(c);
  if (st) return st;
  if ((st = tell_prefill(r, q, c->err))) return st;
  const uint32_t n = c->e->count;
  if ((uint64_t)c->e->position + n > q->row.rows) return bad_event(c, "rewrites positions that the row does not have");
  int32_t *old = malloc(n * sizeof *old + 1);
  if (!old) return kv_fail(c->err, KV_ERR_MEMORY, "out of memory for a request's row");
  uint32_t held = 0;
  while (held < n && kvs_pool_hold_run(&r->pool, c->e->slots[held], 1) == 1) held++;
  if (held < n) {
    for (uint32_t i = 0; i < held; i++) kvs_pool_drop_run(&r->pool, c->e->slots[i], 1);
    st = not_holdable(c, held);
  } else {
    kvs_row_slots(&q->row, (uint64_t)c->e->position, n, old);
    st = kvs_row_replace(&q->row, &r->options.geometry, (uint64_t)r->pool.first + r->pool.size,
                         (uint64_t)c->e->position, c->e->slots, n, c->err);
    for (uint32_t i = 0; i < n && !st; i++) kvs_pool_drop_run(&r->pool, old[i], 1);
  }
  free(old);
  return st;
}

/* ---- freeing ---- */

/* Slots allocated ahead leave from the end of the tail. */
static kv_status give_tail(const context *c, request *q) {
  const uint32_t n = c->e->count;
  if (n > q->tail_n || memcmp(q->tail + (q->tail_n - n), c->e->slots, n * sizeof *q->tail) != 0)
    return bad_event(c, "frees slots that are not the last ones allocated ahead for the request");
  for (uint32_t i = 0; i < n; i++) kvs_pool_drop_run(&c->r->pool, c->e->slots[i], 1);
  q->tail_n -= n;
  return KV_OK;
}

static kv_status before_free(const context *c, bool *may_be_held) {
  request *q = find(c->r, c->e->request);
  const kvt_free_reason why = (kvt_free_reason)c->e->aux;
  *may_be_held = why == KVT_FREE_DUPLICATE || why == KVT_FREE_TAIL || why == KVT_FREE_RETRACT || why == KVT_FREE_OTHER;
  if (why == KVT_FREE_EVICT || why == KVT_FREE_OTHER) return KV_OK;
  if (c->e->request >= 0 && c->r->index[c->e->request] == GONE && why != KVT_FREE_REJECT) {
    *may_be_held = false; /* spec v2 frees what it allocated ahead after the request's end */
    return KV_OK;
  }
  if (!q || !q->running) return bad_event(c, "frees slots of a request that is not running");
  if (why == KVT_FREE_OVER && q->tail_n) return give_tail(c, q);
  if (why == KVT_FREE_OVER) *may_be_held = true;
  if (why != KVT_FREE_REJECT) return KV_OK;
  if (c->e->count > q->tree) return bad_event(c, "rejects more slots than the request's draft tree has");
  q->tree -= c->e->count;
  c->r->tree -= c->e->count;
  return KV_OK;
}

static kv_status on_free(const context *c) {
  kvs_replay *r = c->r;
  const int32_t *slots = c->e->slots;
  bool may_be_held;
  kv_status st = before_free(c, &may_be_held);
  request *q = find(r, c->e->request);
  if (!st && q && q->prefill_due) st = tell_prefill(r, q, c->err); /* the batch is done, its bookkeeping begins */
  if (st) return st;
  if (r->group != c->e->length) end_group(r);
  for (uint32_t i = 0, n; i < c->e->count; i += n) {
    if ((st = next_run(c, i, &n))) return st;
    uint32_t given = kvs_pool_give_run(&r->pool, slots[i], n, may_be_held);
    if (given < n)
      return bad_slot(c, i + given, kvs_pool_is_free(&r->pool, slots[i + given])
                                        ? "is freed, but is free already (double free)"
                                        : "is freed, but a running request's row holds it");
  }
  r->totals.freed += c->e->count;
  if (c->e->position >= 0)
    kvs_freelist_give_segment(&r->list, slots, c->e->count);
  else
    kvs_freelist_give(&r->list, slots, c->e->count);
  bool piece = r->batch->more && r->batch_event + 1 == r->batch->events;
  r->group = c->e->length;
  if (r->group == -1 && !piece) end_group(r);
  return KV_OK;
}

/* ---- ends ---- */

static kv_status on_finish(const context *c) {
  request *q;
  kv_status st = running_request(c, &q);
  if (st) return st;
  bool decoded = q->prefill_told && q->speculates;
  st = tell_prefill(c->r, q, c->err);
  if (!st && decoded) {
    kvs_milestone m = q->ahead && q->before_commit.request == q->id && q->before_commit.rows
                          ? q->before_commit
                          : milestone_now(c->r, q, "finish");
    m.step = c->e->step;
    m.row = &q->row;
    st = tell(c->r, &m, c->err);
  }
  drop_row(c->r, q);
  leave_running(c->r, q);
  forget(c->r, q);
  c->r->totals.finished++;
  return st;
}

static kv_status on_retract(const context *c) {
  request *q;
  kv_status st = running_request(c, &q);
  if (st) return st;
  if (q->prompt >= 0 && c->e->position > q->prompt) q->prompt = c->e->position;
  drop_row(c->r, q);
  leave_running(c->r, q);
  c->r->totals.retracted++;
  return KV_OK;
}

static kv_status on_insert(const context *c) {
  request *q;
  kv_status st = running_request(c, &q);
  return st ? st : tell_prefill(c->r, q, c->err);
}

static kv_status on_draft(const context *c) {
  (void)c; /* net zero: backup_state and restore_state */
  return KV_OK;
}

/* ---- steps ---- */

static kv_status sample_requests(kvs_replay *r, kv_error *err) {
  const kvs_observer *o = &r->options.observer;
  uint64_t slots = (uint64_t)r->pool.first + r->pool.size;
  for (uint32_t i = 0; i < r->running_n && o->request; i++) {
    const request *q = r->known[r->running[i]];
    if (!q->row.units && !r->scratch &&
        !(r->scratch = calloc(kvs_row_unit_words(&r->options.geometry, slots), sizeof *r->scratch)))
      return kv_fail(err, KV_ERR_MEMORY, "out of memory for a sample");
    kvs_measure m = kvs_row_measure(&q->row, &r->options.geometry, slots, r->scratch);
    kv_status st = o->request(o->arg, r->step, q->id, &m, err);
    if (st) return st;
  }
  return KV_OK;
}

kvs_pool_sample kvs_replay_sample(const kvs_replay *r) {
  kvs_pool_sample s = {.step = r->step, .type = r->step_type, .recorded = r->step_row, .running = r->running_n};
  uint64_t runs = 0;
  for (uint32_t i = 0; i < r->running_n; i++) {
    const kvs_row *row = &r->known[r->running[i]]->row;
    s.live_rows += row->rows;
    runs += row->runs;
  }
  s.free = r->pool.free;
  s.allocated = r->pool.size - r->pool.free;
  s.live = r->pool.held + r->tree;
  s.cached = s.allocated > s.live ? s.allocated - s.live : 0;
  s.free_runs_address = r->pool.free_runs;
  s.largest_free_run = kvs_pool_longest_free(&r->pool);
  s.free_runs_list = kvs_freelist_runs(&r->list);
  s.fragmentation = kvs_fragmentation(s.largest_free_run, s.free);
  s.mean_run = runs ? (double)s.live_rows / (double)runs : 0;
  return s;
}

static kv_status sample(kvs_replay *r, kv_error *err) {
  const kvs_observer *o = &r->options.observer;
  kvs_pool_sample s = kvs_replay_sample(r);
  kv_status st = o->pool ? o->pool(o->arg, &s, err) : KV_OK;
  return st ? st : sample_requests(r, err);
}

/* The recording counts what is in the allocator's lists; pages hold their whole slots. */
static kv_status check_available(kvs_replay *r, kv_error *err) {
  int32_t said = r->step_row.available;
  uint64_t here = r->list.kind == KVT_ALLOC_OTHER
                      ? r->pool.free
                      : ((uint64_t)r->list.count + r->list.released) * r->info.page_size;
  if (said < 0 || (uint64_t)said == here || r->totals.skipped) return KV_OK;
  kv_status st = kv_fail(err, KV_ERR_INPUT,
                         "%s: /steps/available[%u]: says %d slots were available after the step, the events leave %llu",
                         r->options.name, r->step - 1, said, (unsigned long long)here);
  if (!r->options.permissive) return st;
  if (!r->totals.skipped++) (void)snprintf(r->totals.first_fault, sizeof r->totals.first_fault, "%s", err ? err->text : "");
  return KV_OK;
}

static kv_status end_step(kvs_replay *r, bool last, kv_error *err) {
  kv_status st = KV_OK;
  end_group(r);
  if (!r->step_open) return KV_OK;
  for (uint32_t i = 0; i < r->running_n && r->due && !st; i++) st = tell_prefill(r, r->known[r->running[i]], err);
  if (!st) st = check_available(r, err);
  uint32_t every = r->options.every;
  if (!st && every && (r->step % every == 0 || last || r->step == 1)) st = sample(r, err);
  if (!st && r->options.observer.step_end) st = r->options.observer.step_end(r->options.observer.arg, r, r->step, err);
  r->step_open = false;
  return st;
}

static kv_status on_step(const context *c) {
  kvs_replay *r = c->r;
  kv_status st = end_step(r, false, c->err);
  r->step = c->e->step;
  r->step_type = (kvt_step_type)c->e->aux;
  r->step_open = true;
  r->totals.steps++;
  return st;
}

static kv_status on_clear(const context *c) {
  kvs_replay *r = c->r;
  if (r->running_n) return bad_event(c, "the pool is emptied while requests run");
  kv_status st = end_step(r, false, c->err); /* a flush falls between steps: the one before it ends full */
  if (st) return st;
  kvs_pool_clear(&r->pool);
  if (r->list.kind == KVT_ALLOC_OTHER) return KV_OK;
  kvs_freelist_free(&r->list);
  return kvs_freelist_init(&r->list, &r->info, NULL, 0, c->err);
}

/* ---- relocation ---- */

/* What lies in a and b changes places in the pool. */
static kv_status exchange(const context *c, uint32_t at, int32_t a, int32_t b) {
  kvs_pool *p = &c->r->pool;
  if (kvs_pool_is_free(p, a)) {
    int32_t t = a;
    a = b;
    b = t;
  }
  if (kvs_pool_is_free(p, a)) return bad_slot(c, at, "is free, and so is the one it should change places with");
  uint32_t i = (uint32_t)a - p->first, k = (uint32_t)b - p->first;
  uint16_t held = p->state[i];
  int32_t owner = p->owner[i];
  if (!kvs_pool_is_free(p, b)) {
    p->state[i] = p->state[k];
    p->owner[i] = p->owner[k];
  } else {
    if (p->state[k] != KVS_FREE) return bad_slot(c, at, "is free, but a running request's row still holds it");
    (void)kvs_pool_give_run(p, a, 1, true);
    (void)kvs_pool_take_run(p, b, 1, owner, 0);
    p->state[i] = KVS_FREE;
  }
  p->state[k] = held;
  p->owner[k] = owner;
  kvs_moves_exchange(&c->r->moves, a, b);
  return KV_OK;
}

static kv_status follow_moves(kvs_replay *r, request *q, kv_error *err) {
  kv_status st = KV_OK;
  uint64_t rows = q->row.rows;
  int32_t *all = malloc(rows * sizeof *all + 1);
  if (!all) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
  kvs_row_slots(&q->row, 0, (uint32_t)rows, all);
  if (kvs_moves_apply(&r->moves, all, rows))
    st = kvs_row_replace(&q->row, &r->options.geometry, (uint64_t)r->pool.first + r->pool.size, 0, all, (uint32_t)rows, err);
  (void)kvs_moves_apply(&r->moves, q->tail, q->tail_n);
  (void)kvs_moves_apply(&r->moves, q->block, q->block_n);
  free(all);
  return st;
}

static kv_status on_move(const context *c) {
  kvs_replay *r = c->r;
  kvs_moves *m = &r->moves;
  bool piece = r->batch->more && r->batch_event + 1 == r->batch->events;
  if (r->list.kind != KVT_ALLOC_OTHER) return bad_event(c, "relocation needs a trace of allocator `other`");
  kv_status st = check_range(c);
  if (!st && !m->now) st = kvs_moves_init(m, r->pool.first + r->pool.size, c->err);
  for (uint32_t i = 0; i < c->e->count && !st; i++) {
    if (m->half)
      st = exchange(c, i, m->half, c->e->slots[i]);
    m->half = m->half ? 0 : c->e->slots[i];
  }
  if (!st && !piece && m->half) st = bad_event(c, "slots must come in pairs");
  for (uint32_t i = 0; i < r->running_n && !st; i++) st = follow_moves(r, r->known[r->running[i]], c->err);
  if (!piece) m->half = 0;
  kvs_moves_clear(m);
  return st;
}

typedef kv_status (*handler)(const context *);
static const handler on_event[KVT_KINDS] = {
    [KVT_STEP] = on_step,           [KVT_ARRIVE] = on_arrive,   [KVT_START] = on_start,
    [KVT_ALLOC_EXTEND] = on_alloc_extend, [KVT_ALLOC_DECODE] = on_alloc_decode,
    [KVT_ALLOC_VERIFY] = on_alloc_verify, [KVT_COMMIT] = on_commit, [KVT_FREE] = on_free,
    [KVT_REMAP] = on_remap,         [KVT_INSERT] = on_insert,   [KVT_DRAFT_TEMP] = on_draft,
    [KVT_FINISH] = on_finish,       [KVT_RETRACT] = on_retract, [KVT_ALLOC_SPEC] = on_alloc_spec,
    [KVT_ALLOC_CALL] = on_alloc_call, [KVT_CLEAR] = on_clear,   [KVT_MOVE] = on_move};

kv_status kvs_replay_batch(kvs_replay *r, const kvt_batch *batch, kv_error *err) {
  uint32_t slot = 0, step = 0;
  kv_error local; /* permissive replays need the text even where the caller wants none */
  r->batch = batch;
  for (uint32_t i = 0; i < batch->events; i++) {
    const kvt_event e = kvt_batch_event(batch, i, slot);
    const context c = {r, &e, err ? err : &local};
    r->batch_event = i;
    r->event_slot = batch->first_slot + slot;
    r->totals.events[e.kind] += !(batch->more && i + 1 == batch->events);
    r->totals.slots[e.kind] += e.count;
    kv_status st = on_event[e.kind](&c);
    if (st == KV_ERR_INPUT && r->options.permissive) {
      if (!r->totals.skipped++) (void)snprintf(r->totals.first_fault, sizeof r->totals.first_fault, "%s", c.err->text);
      st = KV_OK;
    }
    if (st) return st;
    if (e.kind == KVT_STEP) r->step_row = batch->step_rows[step++];
    slot += e.count;
  }
  return KV_OK;
}

kv_status kvs_replay_finish(kvs_replay *r, kv_error *err) {
  kv_status st = end_step(r, true, err);
  for (uint32_t i = 0; i < r->running_n && !st; i++) {
    kvs_milestone m = milestone_now(r, r->known[r->running[i]], "end");
    st = tell(r, &m, err);
  }
  return st;
}

/* ---- making and freeing ---- */

uint64_t kvs_replay_bytes(const kvt_info *info, const kvs_replay_options *options) {
  const uint64_t slots = info->pool_size, pages = slots / info->page_size;
  bool ordered = options->follow_order && info->allocator != KVT_ALLOC_OTHER;
  bool waits = info->allocator == KVT_ALLOC_TOKEN_SORTED || info->allocator == KVT_ALLOC_PAGED_SORTED;
  uint64_t pool = slots * (sizeof *((kvs_pool *)0)->owner + sizeof *((kvs_pool *)0)->state) + slots / 64;
  uint64_t lists = ordered ? (waits ? 2 : 1) * pages * sizeof *((kvs_freelist *)0)->ring + pages / 4 : 0;
  uint64_t scratch = kvs_row_unit_words(&options->geometry, info->first_slot + slots) * sizeof(uint64_t);
  uint64_t final_state = slots * (sizeof(uint8_t) + sizeof(uint32_t)), final_list = ordered ? pages * sizeof(int32_t) : 0;
  return pool + lists + scratch + options->bitmap_bytes + (info->requests + 1) * sizeof(int32_t) +
         info->initial_free * sizeof(int32_t) + (final_state > final_list ? final_state : final_list);
}

kv_status kvs_replay_create(const kvt_info *info, const kvs_replay_options *options, const int32_t *initial,
                            kvs_replay **replay, kv_error *err) {
  *replay = NULL;
  kvs_replay *r = calloc(1, sizeof *r);
  if (!r) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  r->info = *info;
  r->options = *options;
  r->group = -1;
  r->bitmap_left = options->bitmap_bytes;
  if (!options->follow_order) r->info.allocator = KVT_ALLOC_OTHER;
  r->index = calloc(info->requests + 1, sizeof *r->index);
  kv_status st = r->index ? kvs_pool_init(&r->pool, info, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  uint32_t n = (uint32_t)info->initial_free;
  kv_error why = {KV_OK, ""};
  if (!st && (st = kvs_freelist_init(&r->list, &r->info, initial, n, &why)))
    (void)kv_fail(err, st, "%s: %.500s", options->name, why.text);
  if (!st && initial) {
    for (uint32_t i = 0; i < n && !st; i++)
      if (initial[i] < 1 || (uint32_t)initial[i] > info->pool_size / info->page_size)
        st = kv_fail(err, KV_ERR_INPUT, "%s: /initial/free_list[%u] is outside the pool", options->name, i);
    if (!st) kvs_pool_free_only(&r->pool, initial, n, info->page_size);
  }
  if (st)
    kvs_replay_free(r);
  else
    *replay = r;
  return st;
}

void kvs_replay_free(kvs_replay *r) {
  if (!r) return;
  for (uint32_t i = 0; i < r->known_n; i++) free_request(r->known[i]);
  free(r->known);
  free(r->vacant);
  free(r->running);
  free(r->index);
  free(r->scratch);
  kvs_freelist_free(&r->list);
  kvs_moves_free(&r->moves);
  kvs_pool_fini(&r->pool);
  free(r);
}

const kvs_replay_totals *kvs_replay_get_totals(const kvs_replay *r) { return &r->totals; }
const kvs_pool *kvs_replay_get_pool(const kvs_replay *r) { return &r->pool; }
const kvs_freelist *kvs_replay_get_freelist(const kvs_replay *r) { return &r->list; }
uint32_t kvs_replay_step(const kvs_replay *r) { return r->step; }
uint32_t kvs_replay_running(const kvs_replay *r) { return r->running_n; }

const kvs_row *kvs_replay_row(const kvs_replay *r, uint32_t i, int32_t *id) {
  const request *q = r->known[r->running[i]];
  if (id) *id = q->id;
  return &q->row;
}

const int32_t *kvs_replay_tree(const kvs_replay *r, uint32_t i, uint32_t *n, uint64_t *prefix) {
  const request *q = r->known[r->running[i]];
  *prefix = q->block_prefix;
  *n = q->block_step == r->step ? q->block_n : 0;
  return *n ? q->block : NULL;
}
