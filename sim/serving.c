#include "serving.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serving_state.h"

/* Token numbers: those of shared blocks come from their hash, all others belong to one request. */
#define PRIVATE_PROMPT (INT64_C(1) << 60)
#define PRIVATE_ANSWER (INT64_C(1) << 61)
#define PRIVATE_ROOM ((int64_t)KVT_WORKLOAD_TOKENS * 4)

/* SGLang's defaults for the share of promised answer tokens that is reserved. */
#define RATIO_FIRST 0.7
#define RATIO_LEAST_FACTOR 0.14
#define RATIO_STEPS 600

const char *kvs_speculation_name(kvs_speculation s) {
  static const char *const name[] = {"none", "v1", "v2"};
  return (unsigned)s < 3 ? name[s] : NULL;
}

kvs_serving_options kvs_serving_options_default(void) {
  return (kvs_serving_options){.allocator = KVT_ALLOC_TOKEN, .pool_size = 1048576, .page_size = 1, .chunk = 8192,
                               .max_prefill = 16384, .max_running = 48, .draft_steps = 7, .draft_topk = 2,
                               .draft_tokens = 9, .acceptance = 0.78, .seed = 1, .time_scale = 1, .think_s = 2,
                               .prefill_s = 0.020, .prefill_token_s = 50e-6, .decode_s = 0.022,
                               .decode_request_s = 0.0004, .idle_s = 0.05};
}

static kv_status check_speculation(const kvs_serving_options *o, kv_error *err) {
  if (o->speculation == KVS_SPEC_NONE) return KV_OK;
  if (o->draft_tokens < 1 || o->draft_tokens > KVS_DRAFT_MOST || o->draft_steps < 1 || o->draft_steps > 16 ||
      o->draft_topk < 1 || o->draft_topk > 8)
    return kv_fail(err, KV_ERR_USAGE, "speculation: 1 to %u draft tokens, 1 to 16 steps and a top of 1 to 8 can be modelled", KVS_DRAFT_MOST);
  if (!(o->acceptance > 0 && o->acceptance < 1)) return kv_fail(err, KV_ERR_USAGE, "the acceptance must lie between 0 and 1");
  if (o->speculation == KVS_SPEC_V1 && o->page_size > 1)
    return kv_fail(err, KV_ERR_USAGE, "speculation v1 is modelled with pages of 1 only (its rejected slots are given back one by one); use v2");
  return KV_OK;
}

static kv_status check_options(const kvs_serving_options *o, kv_error *err) {
  bool paged = o->allocator == KVT_ALLOC_PAGED || o->allocator == KVT_ALLOC_PAGED_SORTED;
  bool token = o->allocator == KVT_ALLOC_TOKEN || o->allocator == KVT_ALLOC_TOKEN_SORTED;
  if (!o->page_size || !o->pool_size || o->pool_size % o->page_size || o->pool_size > INT32_MAX / 2)
    return kv_fail(err, KV_ERR_USAGE, "the pool must be a multiple of the page, at most 1,073,741,823 slots");
  if ((!paged && !token) || paged != (o->page_size > 1))
    return kv_fail(err, KV_ERR_USAGE, "a token allocator goes with pages of 1, a paged one with larger pages");
  if (!o->chunk || !o->max_prefill || !o->max_running || o->chunk < o->page_size)
    return kv_fail(err, KV_ERR_USAGE, "chunk, max_prefill and max_running must be at least 1, the chunk at least a page");
  const double time[] = {o->time_scale, o->think_s, o->prefill_s, o->prefill_token_s, o->decode_s, o->decode_request_s};
  for (size_t i = 0; i < sizeof time / sizeof *time; i++)
    if (!(time[i] >= 0 && time[i] < 1e9)) return kv_fail(err, KV_ERR_USAGE, "times and the time scale must be 0 or more");
  if (!(o->idle_s > 1e-6 && o->idle_s < 1e6) || !(o->prefill_s > 0) || !(o->decode_s > 0))
    return kv_fail(err, KV_ERR_USAGE, "a step and an idle round must take some time");
  return check_speculation(o, err);
}

/* ---- the requests' tokens ---- */

static kv_status own_text(kvs_job *q, const kvt_workload *w, const kvt_workload_request *r, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t at = q->text.length, i; at < q->input && !st; at = q->text.length) {
    i = at / KVT_BLOCK_TOKENS;
    uint32_t end = (i + 1) * KVT_BLOCK_TOKENS < q->input ? (i + 1) * KVT_BLOCK_TOKENS : q->input;
    if (i < r->hashes)
      st = kvs_text_append(&q->text, w->hash[r->first_hash + i] * (int64_t)KVT_BLOCK_TOKENS + at % KVT_BLOCK_TOKENS, end - at, err);
    else
      st = kvs_text_append(&q->text, PRIVATE_PROMPT + q->id * PRIVATE_ROOM + at, q->input - at, err);
  }
  return st;
}

/* A turn that is followed by another is the beginning of it: its answer is what the next prompt repeats. */
static kv_status make_text(kvs_loop *s, const kvt_workload *w, kvs_job *q, kv_error *err) {
  uint32_t length = q->input + q->max_new + KVS_DRAFT_MOST;
  kv_status st = KV_OK;
  if (q->successor >= 0) {
    const kvs_job *next = &s->all[q->successor];
    uint32_t shared = next->input < q->input + q->max_new ? next->input : q->input + q->max_new;
    st = kvs_text_append_part(&q->text, &next->text, 0, shared, err);
  }
  if (!st) st = own_text(q, w, &w->request[q->id], err);
  if (!st && q->text.length < length)
    st = kvs_text_append(&q->text, PRIVATE_ANSWER + q->id * PRIVATE_ROOM + q->text.length, length - q->text.length, err);
  return st;
}

static kv_status make_job(kvs_loop *s, const kvt_workload *w, uint32_t i, kv_error *err) {
  const kvt_workload_request *r = &w->request[i];
  kvs_job *q = &s->all[i];
  uint64_t ahead = 2 * (uint64_t)(s->o.draft_steps * s->o.draft_topk + s->o.draft_tokens) + 2 * (uint64_t)s->o.page_size;
  q->id = (int32_t)i;
  q->input = (uint32_t)r->input;
  q->max_new = (uint32_t)r->output;
  if ((uint64_t)q->input + q->max_new + ahead >= s->o.pool_size)
    return kv_fail(err, KV_ERR_INPUT, "%s: row %d: %d prompt and %d answer tokens do not fit in a pool of %u slots; give a "
                   "larger --pool", w->source, r->row, r->input, r->output, s->o.pool_size);
  if (r->predecessor >= 0 && ((uint32_t)r->predecessor >= i || s->all[r->predecessor].successor >= 0))
    return kv_fail(err, KV_ERR_INPUT, "%s: row %d: an earlier turn that is not earlier, or has a later one already", w->source, r->row);
  q->successor = -1;
  if (r->predecessor >= 0) s->all[r->predecessor].successor = q->id;
  return KV_OK;
}

static kv_status make_jobs(kvs_loop *s, const kvt_workload *w, kv_error *err) {
  s->jobs = w->requests;
  s->all = calloc(w->requests + 1u, sizeof *s->all);
  s->pending = malloc((w->requests + 1u) * sizeof *s->pending);
  s->ready = malloc((w->requests + 1u) * sizeof *s->ready);
  if (!s->all || !s->pending || !s->ready) return kv_fail(err, KV_ERR_MEMORY, "out of memory for %u requests", w->requests);
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < w->requests && !st; i++) st = make_job(s, w, i, err);
  for (uint32_t i = w->requests; i-- > 0 && !st;) st = make_text(s, w, &s->all[i], err);
  return st;
}

/* ---- arrivals: a heap by time, then number ---- */

static bool sooner(const kvs_loop *s, uint32_t a, uint32_t b) {
  return s->ready[a] != s->ready[b] ? s->ready[a] < s->ready[b] : a < b;
}

static void push_pending(kvs_loop *s, uint32_t job) {
  uint32_t i = s->pending_n++;
  for (; i && sooner(s, job, s->pending[(i - 1) / 2]); i = (i - 1) / 2) s->pending[i] = s->pending[(i - 1) / 2];
  s->pending[i] = job;
}

static uint32_t pop_pending(kvs_loop *s) {
  uint32_t top = s->pending[0], last = s->pending[--s->pending_n], i = 0;
  for (uint32_t k; (k = 2 * i + 1) < s->pending_n; i = k) {
    if (k + 1 < s->pending_n && sooner(s, s->pending[k + 1], s->pending[k])) k++;
    if (!sooner(s, s->pending[k], last)) break;
    s->pending[i] = s->pending[k];
  }
  s->pending[i] = last;
  return top;
}

kv_status kvs_schedule_successor(kvs_loop *s, const kvs_job *job, kv_error *err) {
  (void)err;
  if (job->successor < 0) return KV_OK;
  double earliest = s->now + s->o.think_s;
  if (s->ready[job->successor] < earliest) s->ready[job->successor] = earliest;
  push_pending(s, (uint32_t)job->successor);
  return KV_OK;
}

/* Requests that came since the last look join the queue in the order of their numbers. */
static kv_status receive(kvs_loop *s, kv_error *err) {
  uint32_t first = s->waiting.n;
  kv_status st = KV_OK;
  while (s->pending_n && s->ready[s->pending[0]] <= s->now) {
    kvs_job *q = &s->all[pop_pending(s)];
    if (!kvs_jobs_push(&s->waiting, q)) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the queue");
    uint32_t k = s->waiting.n - 1;
    for (; k > first && s->waiting.job[k - 1]->id > q->id; k--) s->waiting.job[k] = s->waiting.job[k - 1];
    s->waiting.job[k] = q;
  }
  for (uint32_t i = first; i < s->waiting.n && !st; i++) {
    const kvs_job *q = s->waiting.job[i];
    st = kvs_emit(s, (kvt_event){.kind = KVT_ARRIVE, .request = q->id, .position = -1, .length = (int32_t)q->input,
                                 .aux = (int32_t)q->max_new}, err);
  }
  return st;
}

/* ---- the loop ---- */

/* Nothing runs: sleep until somebody comes. */
static kv_status idle(kvs_loop *s, bool *done, kv_error *err) {
  s->ratio = s->ratio_first;
  *done = !s->pending_n && !s->waiting.n;
  if (*done) return KV_OK;
  if (!s->pending_n || s->waiting.n)
    return kv_fail(err, KV_ERR_INPUT, "request %d waits at %.1f s while nothing runs: the pool of %u slots can never take it; "
                   "give a larger --pool", s->waiting.n ? s->waiting.job[0]->id : -1, s->now, s->o.pool_size);
  double wait = s->ready[s->pending[0]] - s->now;
  if (wait > 1e4 * s->o.idle_s) s->now += floor(wait / s->o.idle_s - 1) * s->o.idle_s;
  while (s->ready[s->pending[0]] > s->now) s->now += s->o.idle_s;
  return KV_OK;
}

static kv_status run_and_process(kvs_loop *s, kvs_batch_kind kind, kv_error *err) {
  bool ahead = s->o.speculation == KVS_SPEC_V2;
  kv_status st = kind ? kvs_run_batch(s, kind, &s->flight[0], err) : KV_OK;
  if (st) return st;
  st = kvs_process(s, &s->flight[ahead ? 1 : 0], err);
  kvs_flight swap = s->flight[0];
  s->flight[0] = s->flight[1];
  s->flight[1] = swap;
  return st;
}

static kv_status iterate(kvs_loop *s, bool *done, kv_error *err) {
  kvs_batch_kind kind = KVS_BATCH_NONE;
  kv_status st = receive(s, err);
  if (st) return st;
  bool was_busy = s->last_kind != KVS_BATCH_NONE;
  kvs_begin_step(s);
  if ((st = kvs_next_batch(s, &kind, err)) || (st = run_and_process(s, kind, err))) return st;
  s->last_kind = kind;
  if (kind == KVS_BATCH_PREFILL) s->now += s->o.prefill_s + s->batch_tokens * s->o.prefill_token_s;
  if (kind == KVS_BATCH_DECODE) s->now += s->o.decode_s + s->batch_requests * s->o.decode_request_s;
  if (kind || s->events)
    st = kvs_end_step(s, kind == KVS_BATCH_PREFILL ? KVT_STEP_PREFILL : kind ? KVT_STEP_DECODE : KVT_STEP_DRAIN, err);
  s->in_step = false;
  return st || kind || was_busy ? st : idle(s, done, err);
}

static kv_status final_lists(const kvs_loop *s, kvs_final_lists *f, kv_error *err) {
  *f = (kvs_final_lists){.free_n = s->list.count, .release_n = s->list.released};
  f->free_list = malloc((f->free_n + 1u) * sizeof(int32_t));
  f->release_list = malloc((f->release_n + 1u) * sizeof(int32_t));
  if (!f->free_list || !f->release_list) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the final lists");
  kvs_freelist_copy(&s->list, f->free_list, f->release_list);
  return KV_OK;
}

static kv_status set_up(kvs_loop *s, const kvt_workload *w, kv_error *err) {
  const kvt_info info = {.allocator = s->o.allocator, .page_size = s->o.page_size, .first_slot = s->o.page_size,
                         .pool_size = s->o.pool_size};
  s->ratio = s->ratio_first = RATIO_FIRST;
  s->ratio_least = RATIO_FIRST * RATIO_LEAST_FACTOR;
  s->ratio_decay = (s->ratio_first - s->ratio_least) / RATIO_STEPS;
  s->group = -1;
  kv_status st = make_jobs(s, w, err);
  for (uint32_t i = 0; i < s->jobs && !st; i++) {
    s->ready[i] = (double)w->request[i].arrival_us / 1e6 * s->o.time_scale;
    if (w->request[i].predecessor < 0) push_pending(s, i);
  }
  if (!st) st = kvs_freelist_init(&s->list, &info, NULL, 0, err);
  if (!st) st = kvs_radix_init(&s->radix, s->o.page_size, s->o.speculation != KVS_SPEC_NONE, err);
  return st ? st : kvs_accept_init(&s->accept, &s->o, err);
}

static void tear_down(kvs_loop *s) {
  for (uint32_t i = 0; i < s->jobs && s->all; i++) {
    kvs_text_free(&s->all[i].text);
    free(s->all[i].row);
  }
  void *owned[] = {s->all, s->pending, s->ready, s->waiting.job, s->running.job, s->prefill.job, s->flight[0].jobs.job,
                   s->flight[1].jobs.job, s->flight[0].accepted, s->flight[1].accepted, s->event, s->slot};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  kvs_freelist_free(&s->list);
  if (s->radix.root) kvs_radix_free(&s->radix);
  kvs_accept_free(&s->accept);
}

kv_status kvs_serve(const kvt_workload *w, const kvs_serving_options *options, const kvs_serving_sink *sink,
                    kvs_serving_totals *totals, kvs_final_lists *final, kv_error *err) {
  kvs_loop s = {.o = *options, .sink = sink, .totals = totals};
  bool done = false;
  *totals = (kvs_serving_totals){0};
  kv_status st = check_options(options, err);
  if (!st) st = set_up(&s, w, err);
  while (!st && !done) {
    st = iterate(&s, &done, err);
    if (sink->progress && s.jobs) sink->progress(sink->arg, (double)totals->finished / s.jobs);
  }
  totals->seconds = s.now;
  if (!st && final) st = final_lists(&s, final, err);
  tear_down(&s);
  return st;
}
