/* Slots: taken from and given to the allocator's lists, and every such act written to the trace. */
#include <stdlib.h>
#include <string.h>

#include "serving_state.h"

bool kvs_jobs_push(kvs_jobs *l, kvs_job *job) {
  if (l->n == l->room) {
    uint32_t room = l->room ? l->room * 2 : 64;
    kvs_job **grown = realloc(l->job, room * sizeof(kvs_job *));
    if (!grown) return false;
    l->job = grown;
    l->room = room;
  }
  l->job[l->n++] = job;
  return true;
}

/* ---- the trace ---- */

static kv_status keep(kvs_loop *s, const kvt_event *e, kv_error *err) {
  if (s->events == s->event_room) {
    uint32_t room = s->event_room ? s->event_room * 2 : 1024;
    kvt_event *grown = realloc(s->event, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a step's events");
    s->event = grown;
    s->event_room = room;
  }
  if (s->slots + e->count > s->slot_room) {
    uint64_t room = (s->slots + e->count) * 2;
    int32_t *grown = realloc(s->slot, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a step's slots");
    s->slot = grown;
    s->slot_room = room;
  }
  if (e->count) memcpy(s->slot + s->slots, e->slots, e->count * sizeof *s->slot);
  s->slots += e->count;
  s->event[s->events++] = *e;
  return KV_OK;
}

kv_status kvs_emit(kvs_loop *s, kvt_event e, kv_error *err) {
  s->totals->events++;
  return s->in_step ? keep(s, &e, err) : s->sink->event(s->sink->arg, &e, err);
}

void kvs_begin_step(kvs_loop *s) {
  s->in_step = true;
  s->events = 0;
  s->slots = 0;
  s->batch_requests = s->batch_tokens = 0;
}

kv_status kvs_end_step(kvs_loop *s, kvt_step_type type, kv_error *err) {
  const int32_t *at = s->slot;
  const kvt_step row = {.time_us = (int64_t)(s->now * 1e6), .requests = (int32_t)s->batch_requests,
                        .tokens = (int32_t)s->batch_tokens, .available = (int32_t)kvs_available(s),
                        .evictable = (int32_t)s->radix.evictable, .protected_ = (int32_t)s->radix.protected_,
                        .waiting = (int32_t)s->waiting.n};
  s->in_step = false;
  kv_status st = s->sink->step(s->sink->arg, type, &row, err);
  for (uint32_t i = 0; i < s->events && !st; i++) {
    s->event[i].slots = s->event[i].count ? at : NULL;
    at += s->event[i].count;
    st = s->sink->event(s->sink->arg, &s->event[i], err);
  }
  s->totals->steps++;
  return st;
}

/* ---- giving back ---- */

uint64_t kvs_available(const kvs_loop *s) { return ((uint64_t)s->list.count + s->list.released) * s->o.page_size; }

kv_status kvs_give(kvs_loop *s, const kvs_job *job, const int32_t *slots, uint32_t n, kvt_free_reason why, kv_error *err) {
  if (!n) return KV_OK;
  kvs_freelist_give(&s->list, slots, n);
  if (s->group < 0) (void)kvs_freelist_end_group(&s->list);
  s->totals->freed += n;
  return kvs_emit(s, (kvt_event){.kind = KVT_FREE, .request = job ? job->id : -1, .position = -1, .length = s->group,
                                 .aux = (int32_t)why, .count = n, .slots = slots}, err);
}

void kvs_group_begin(kvs_loop *s) { s->group = s->groups++; }

void kvs_group_end(kvs_loop *s) {
  (void)kvs_freelist_end_group(&s->list);
  s->group = -1;
}

static kv_status give_leaf(void *arg, const int32_t *slots, uint32_t n, kv_error *err) {
  kvs_loop *s = arg;
  s->totals->evicted += n;
  return kvs_give(s, NULL, slots, n, KVT_FREE_EVICT, err);
}

kv_status kvs_make_room(kvs_loop *s, uint64_t need, kv_error *err) {
  uint64_t have = kvs_available(s);
  if (have >= need) return KV_OK;
  return kvs_radix_evict(&s->radix, s->o.evict_shortfall ? need - have : need, give_leaf, s, err);
}

/* ---- taking ---- */

static int32_t entry(const kvs_freelist *l, uint32_t i) {
  uint64_t at = (uint64_t)l->head + i;
  return l->ring[at < l->capacity ? at : at - l->capacity];
}

/* The slots that the list would hand out for positions from..to-1 of a row. False: it is too short. */
static bool next_slots(const kvs_freelist *l, int32_t *row, uint32_t from, uint32_t to) {
  uint32_t used = 0;
  if (l->page_size == 1) {
    if (to - from > l->count) return false;
    for (uint32_t p = from; p < to; p++) row[p] = entry(l, p - from);
    return true;
  }
  for (uint32_t p = from; p < to; p++) {
    bool begins = p % l->page_size == 0;
    if (begins && used == l->count) return false;
    row[p] = begins ? entry(l, used++) * (int32_t)l->page_size : row[p - 1] + 1;
  }
  return true;
}

static void range(const kvs_loop *s, const kvs_job *q, kvs_call_kind kind, uint32_t *from, uint32_t *to) {
  uint32_t draft = s->o.draft_steps * s->o.draft_topk;
  switch (kind) {
    case KVS_CALL_EXTEND: *from = q->prefix, *to = q->fill; break;
    case KVS_CALL_DECODE: *from = q->committed, *to = q->committed + 1; break;
    case KVS_CALL_VERIFY: *from = q->committed, *to = q->committed + s->o.draft_tokens; break;
    case KVS_CALL_AHEAD:
      if (draft < s->o.draft_tokens) draft = s->o.draft_tokens;
      *from = q->allocated;
      *to = q->committed + 2 * draft > q->allocated ? q->committed + 2 * draft : q->allocated;
      break;
  }
}

kv_status kvs_call(kvs_loop *s, const kvs_jobs *jobs, kvs_call_kind kind, kv_error *err) {
  static const kvt_kind event[] = {KVT_ALLOC_EXTEND, KVT_ALLOC_DECODE, KVT_ALLOC_VERIFY, KVT_ALLOC_SPEC};
  uint32_t from = 0, to = 0, total = 0, with = 0;
  int32_t call = ++s->call;
  for (uint32_t i = 0; i < jobs->n; i++) {
    range(s, jobs->job[i], kind, &from, &to);
    total += to - from;
    with += to > from;
  }
  if (!total) return KV_OK;
  kvs_freelist_begin_call(&s->list, total, with, event[kind] == KVT_ALLOC_DECODE);
  kv_status st = kvs_emit(s, (kvt_event){.kind = KVT_ALLOC_CALL, .request = -1, .position = (int32_t)with,
                                         .length = (int32_t)total, .aux = call}, err);
  for (uint32_t i = 0; i < jobs->n && !st; i++) {
    kvs_job *q = jobs->job[i];
    range(s, q, kind, &from, &to);
    if (to == from) continue;
    if (!next_slots(&s->list, q->row, from, to) || kvs_freelist_take(&s->list, q->row + from, to - from) < to - from)
      return kv_fail(err, KV_ERR_INPUT, "the pool of %u slots is too small for what runs at %.1f s (%u requests); give a "
                     "larger --pool or fewer --max-running", s->o.pool_size, s->now, jobs->n);
    s->totals->allocated += to - from;
    st = kvs_emit(s, (kvt_event){.kind = event[kind], .request = q->id, .position = (int32_t)from, .length = -1,
                                 .aux = call, .count = to - from, .slots = q->row + from}, err);
  }
  return st;
}
