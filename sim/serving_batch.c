/* What running a batch does to slots, rows and the prefix cache, and what its result does. */
#include <stdlib.h>
#include <string.h>

#include "serving_state.h"

/* ---- before ---- */

static kv_status tell_start(kvs_loop *s, kvs_job *q, kv_error *err) {
  s->totals->prompt_tokens += q->retracted ? 0 : q->input;
  s->totals->hit_tokens += q->retracted ? 0 : q->prefix;
  return kvs_emit(s, (kvt_event){.kind = KVT_START, .request = q->id, .position = 0, .length = -1, .aux = -1,
                                 .count = q->prefix, .slots = q->row}, err);
}

kv_status kvs_prepare_prefill(kvs_loop *s, kv_error *err) {
  kv_status st = KV_OK;
  uint64_t need = 0;
  for (uint32_t i = 0; i < s->prefill.n && !st; i++) {
    kvs_job *q = s->prefill.job[i];
    if (!q->committed) st = tell_start(s, q, err);
    q->retracted = false;
    need += q->extend;
  }
  s->batch_tokens = (uint32_t)need;
  if (s->o.page_size > 1) need += (uint64_t)s->prefill.n * s->o.page_size; /* as if each began a new page */
  if (!st) st = kvs_make_room(s, need, err);
  if (!st) st = kvs_call(s, &s->prefill, KVS_CALL_EXTEND, err);
  for (uint32_t i = 0; i < s->prefill.n && !st; i++) s->prefill.job[i]->committed = s->prefill.job[i]->allocated = s->prefill.job[i]->fill;
  return st;
}

static kv_status allocate_ahead(kvs_loop *s, kv_error *err) {
  uint32_t each = s->o.draft_steps * s->o.draft_topk;
  if (each < s->o.draft_tokens) each = s->o.draft_tokens;
  uint64_t need = 0;
  for (uint32_t i = 0; i < s->running.n; i++) {
    const kvs_job *q = s->running.job[i];
    if (q->committed + 2 * each > q->allocated) need += q->committed + 2 * each - q->allocated;
  }
  if (s->o.page_size > 1) need += (uint64_t)s->running.n * s->o.page_size;
  kv_status st = kvs_make_room(s, need, err);
  if (!st) st = kvs_call(s, &s->running, KVS_CALL_AHEAD, err);
  for (uint32_t i = 0; i < s->running.n && !st; i++) {
    kvs_job *q = s->running.job[i];
    if (q->allocated < q->committed + 2 * each) q->allocated = q->committed + 2 * each;
  }
  return st;
}

kv_status kvs_prepare_decode(kvs_loop *s, kv_error *err) {
  kv_status st = KV_OK;
  s->batch_tokens = s->running.n;
  if (s->o.speculation == KVS_SPEC_V2) return allocate_ahead(s, err);
  if (s->o.speculation == KVS_SPEC_V1) return KV_OK;
  st = kvs_make_room(s, (uint64_t)s->running.n * s->o.page_size, err);
  if (!st) st = kvs_call(s, &s->running, KVS_CALL_DECODE, err);
  for (uint32_t i = 0; i < s->running.n && !st; i++) s->running.job[i]->allocated = ++s->running.job[i]->committed;
  return st;
}

/* ---- running ---- */

static kv_status accept(kvs_loop *s, kvs_job *q, kvs_accepted *a, kv_error *err) {
  kv_status st = KV_OK;
  if (s->o.accept)
    st = s->o.accept(s->o.accept_arg, q->id, q->verifies, a, err);
  else
    kvs_accept_draw(&s->accept, a);
  q->verifies++;
  if (st) return st;
  bool good = a->n >= 1 && a->n <= s->o.draft_tokens && a->node[0] == 0;
  for (uint32_t i = 1; i < a->n && good; i++) good = a->node[i] > a->node[i - 1] && a->node[i] < s->o.draft_tokens;
  if (!good) return kv_fail(err, KV_ERR_INTERNAL, "verify step %u of request %d accepts what its draft does not have", q->verifies, q->id);
  return KV_OK;
}

/* Parts a verify block in accepted and rejected slots: accepted to the row, rejected to `out`. Answers do not grow past
 * their end. Returns the rejected. */
static uint32_t settle(const kvs_loop *s, kvs_job *q, const kvs_accepted *a, int32_t *out) {
  int32_t block[KVS_DRAFT_MOST];
  uint32_t left = q->max_new - q->out, n = a->n < left ? a->n : left, rejected = 0;
  memcpy(block, q->row + q->committed, s->o.draft_tokens * sizeof *block);
  for (uint32_t i = 0, k = 0; i < s->o.draft_tokens; i++) {
    if (k < n && a->node[k] == i)
      q->row[q->committed + k++] = block[i];
    else
      out[rejected++] = block[i];
  }
  return rejected;
}

/* EAGLE v1: the draft's slots are taken and given back (no trace but what it evicts), a block each is taken for the
 * tree, the rejected nodes' slots are given back at once. */
static kv_status verify(kvs_loop *s, kvs_flight *f, kv_error *err) {
  const kvs_jobs *jobs = &f->jobs;
  uint64_t draft = (uint64_t)jobs->n * s->o.draft_steps * s->o.draft_topk;
  kv_status st = kvs_make_room(s, draft, err);
  if (!st) st = kvs_emit(s, (kvt_event){.kind = KVT_DRAFT_TEMP, .request = -1, .position = -1, .length = (int32_t)draft, .aux = -1}, err);
  if (!st) st = kvs_make_room(s, (uint64_t)jobs->n * s->o.draft_tokens, err);
  if (!st) st = kvs_call(s, jobs, KVS_CALL_VERIFY, err);
  for (uint32_t i = 0; i < jobs->n && !st; i++) {
    kvs_accepted a = {0};
    int32_t rejected[KVS_DRAFT_MOST];
    if ((st = accept(s, jobs->job[i], &a, err))) break;
    uint32_t n = settle(s, jobs->job[i], &a, rejected);
    f->accepted[i] = s->o.draft_tokens - n;
    st = kvs_give(s, jobs->job[i], rejected, n, KVT_FREE_REJECT, err);
  }
  for (uint32_t i = 0; i < jobs->n && !st; i++) {
    kvs_job *q = jobs->job[i];
    uint32_t n = f->accepted[i];
    st = kvs_emit(s, (kvt_event){.kind = KVT_COMMIT, .request = q->id, .position = (int32_t)q->committed, .length = (int32_t)n,
                                 .aux = -1, .count = n, .slots = q->row + q->committed}, err);
    q->committed = q->allocated = q->committed + n;
    q->out += n;
    q->finished = q->out >= q->max_new;
    s->totals->accepted_tokens += n;
    s->totals->verify_steps++;
  }
  return st;
}

static kv_status copy_jobs(kvs_flight *f, const kvs_jobs *from, kv_error *err) {
  f->jobs.n = 0;
  for (uint32_t i = 0; i < from->n; i++)
    if (!kvs_jobs_push(&f->jobs, from->job[i])) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a batch");
  if (from->n <= f->room) return KV_OK;
  uint32_t *grown = realloc(f->accepted, f->jobs.room * sizeof *grown);
  if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a batch");
  f->accepted = grown;
  f->room = f->jobs.room;
  return KV_OK;
}

kv_status kvs_run_batch(kvs_loop *s, kvs_batch_kind kind, kvs_flight *f, kv_error *err) {
  kv_status st = copy_jobs(f, kind == KVS_BATCH_PREFILL ? &s->prefill : &s->running, err);
  f->kind = kind;
  s->batch_requests = f->jobs.n;
  if (st || kind != KVS_BATCH_DECODE) return st;
  if (s->o.speculation == KVS_SPEC_V1) return verify(s, f, err);
  for (uint32_t i = 0; i < f->jobs.n && !st && s->o.speculation == KVS_SPEC_V2; i++) {
    kvs_accepted a = {0};
    if (f->jobs.job[i]->finished) continue; /* its result will not be looked at */
    st = accept(s, f->jobs.job[i], &a, err);
    f->accepted[i] = a.n;
  }
  return st;
}

/* ---- the prefix cache ---- */

kv_status kvs_cache_unfinished(kvs_loop *s, kvs_job *q, kv_error *err) {
  uint32_t had, matched, units = kvs_radix_units(&s->radix, q->fill), first = q->protected_;
  kvs_node *last;
  kv_status st = kvs_radix_insert(&s->radix, &q->text, q->fill, q->row, &had, err);
  if (!st && had > first) st = kvs_give(s, q, q->row + first, had - first, KVT_FREE_DUPLICATE, err);
  if (!st) st = kvs_emit(s, (kvt_event){.kind = KVT_INSERT, .request = q->id, .position = (int32_t)had, .length = (int32_t)units, .aux = -1}, err);
  if (!st) st = kvs_radix_match(&s->radix, &q->text, q->fill, q->row, &matched, &last, err);
  if (!st && had > first)
    st = kvs_emit(s, (kvt_event){.kind = KVT_REMAP, .request = q->id, .position = (int32_t)first, .length = -1, .aux = -1,
                                 .count = had - first, .slots = q->row + first}, err);
  if (st) return st;
  if (matched != units) return kv_fail(err, KV_ERR_INTERNAL, "the prefix cache lost a row just inserted");
  q->protected_ = units;
  q->prefix = q->fill;
  st = kvs_radix_unlock(&s->radix, q->last, err);
  kvs_radix_lock(&s->radix, last);
  q->last = last;
  return st;
}

/* release_kv_cache: the row goes to the prefix cache (or, retracted, back to the pool), with what does not fit there. */
kv_status kvs_release(kvs_loop *s, kvs_job *q, bool insert, kv_error *err) {
  uint32_t had = 0, units = kvs_radix_units(&s->radix, q->committed);
  kvt_free_reason tail = insert ? KVT_FREE_TAIL : KVT_FREE_RETRACT;
  kv_status st = insert ? kvs_radix_insert(&s->radix, &q->text, q->committed, q->row, &had, err) : KV_OK;
  uint32_t end = insert ? had : units;
  if (!st && end > q->protected_)
    st = kvs_give(s, q, q->row + q->protected_, end - q->protected_, insert ? KVT_FREE_DUPLICATE : KVT_FREE_RETRACT, err);
  if (!st) st = kvs_give(s, q, q->row + units, q->committed - units, tail, err);
  if (!st && insert)
    st = kvs_emit(s, (kvt_event){.kind = KVT_INSERT, .request = q->id, .position = (int32_t)had, .length = (int32_t)units, .aux = -1}, err);
  if (!st && insert)
    st = kvs_emit(s, (kvt_event){.kind = KVT_FINISH, .request = q->id, .position = (int32_t)q->committed, .length = -1, .aux = -1}, err);
  if (!st) st = kvs_radix_unlock(&s->radix, q->last, err);
  uint32_t from = (q->committed + s->o.page_size - 1) / s->o.page_size * s->o.page_size;
  if (!st && from < q->allocated) st = kvs_give(s, q, q->row + from, q->allocated - from, KVT_FREE_OVER, err);
  if (insert) {
    free(q->row);
    q->row = NULL;
    s->totals->finished++;
  }
  return st;
}

/* ---- results ---- */

static kv_status finish(kvs_loop *s, kvs_job *q, kv_error *err) {
  q->finished = true;
  kv_status st = kvs_release(s, q, true, err);
  return st ? st : kvs_schedule_successor(s, q, err);
}

static kv_status process_prefill(kvs_loop *s, kvs_flight *f, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < f->jobs.n && !st; i++) {
    kvs_job *q = f->jobs.job[i];
    if (q->finished || q->retracted) continue;
    if (q->chunked > 0) {
      q->chunked--;
      continue;
    }
    q->out++;
    st = q->out >= q->max_new ? finish(s, q, err) : kvs_cache_unfinished(s, q, err);
  }
  return st;
}

/* v2: what each request accepted becomes known. */
static kv_status commit_ahead(kvs_loop *s, kvs_flight *f, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < f->jobs.n && !st; i++) {
    kvs_job *q = f->jobs.job[i];
    if (q->finished || q->retracted) continue;
    st = kvs_emit(s, (kvt_event){.kind = KVT_COMMIT, .request = q->id, .position = (int32_t)q->committed,
                                 .length = (int32_t)f->accepted[i], .aux = -1}, err);
    q->committed += f->accepted[i];
    s->totals->accepted_tokens += f->accepted[i];
    s->totals->verify_steps++;
  }
  return st;
}

static kv_status process_decode(kvs_loop *s, kvs_flight *f, kv_error *err) {
  kv_status st = s->o.speculation == KVS_SPEC_V2 ? commit_ahead(s, f, err) : KV_OK;
  kvs_group_begin(s);
  for (uint32_t i = 0; i < f->jobs.n && !st; i++) {
    kvs_job *q = f->jobs.job[i];
    if (!q->row || q->retracted) continue; /* its row is gone: the result comes too late (v2) */
    if (s->o.speculation == KVS_SPEC_V2) q->out += f->accepted[i];
    if (s->o.speculation == KVS_SPEC_NONE) q->out++;
    if (q->out >= q->max_new) st = finish(s, q, err);
  }
  kvs_group_end(s);
  return st;
}

kv_status kvs_process(kvs_loop *s, kvs_flight *f, kv_error *err) {
  kvs_batch_kind kind = f->kind;
  f->kind = KVS_BATCH_NONE;
  return kind == KVS_BATCH_PREFILL ? process_prefill(s, f, err) : kind == KVS_BATCH_DECODE ? process_decode(s, f, err) : KV_OK;
}
