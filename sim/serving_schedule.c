/* Who runs: admission, chunked prefill, retraction. The order of every test is the modelled scheduler's. */
#include <stdlib.h>
#include <string.h>

#include "serving_state.h"

#define CLIP_NEW_TOKENS 4096u  /* SGLang's CLIP_MAX_NEW_TOKENS */
#define RETRACT_STEPS 20u      /* SGLang's RETRACT_DECODE_STEPS */

/* What one look at the queue may still take (PrefillAdder). */
typedef struct budget {
  double total_offset; /* slots promised to running and chosen requests */
  uint64_t current_offset;
  int64_t input, chunk;
} budget;

typedef enum verdict { GO_ON, NO_TOKEN, OTHER } verdict;

static double clipped(int64_t tokens) { return (double)(tokens < (int64_t)CLIP_NEW_TOKENS ? tokens : (int64_t)CLIP_NEW_TOKENS); }

static double rest(const kvs_loop *s, const budget *b) {
  return (double)(kvs_available(s) + s->radix.evictable) - b->total_offset;
}

static uint32_t whole_pages(const kvs_loop *s, uint32_t tokens) {
  return (tokens + s->o.page_size - 1) / s->o.page_size * s->o.page_size;
}

static void spend(const kvs_loop *s, budget *b, uint32_t tokens, double new_tokens) {
  tokens = whole_pages(s, tokens);
  b->total_offset += tokens + new_tokens;
  b->current_offset += tokens;
  b->input -= tokens;
  b->chunk -= tokens;
}

static verdict state_of(const kvs_loop *s, const budget *b) {
  if (rest(s, b) <= 0 || kvs_available(s) + s->radix.evictable <= b->current_offset) return NO_TOKEN;
  return b->input <= 0 || b->chunk <= 0 ? OTHER : GO_ON;
}

static kv_status choose(kvs_loop *s, kvs_job *q, kv_error *err) {
  return kvs_jobs_push(&s->prefill, q) ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for a batch");
}

static kv_status make_row(kvs_loop *s, kvs_job *q, kv_error *err) {
  uint64_t ahead = 2 * (uint64_t)(s->o.draft_steps * s->o.draft_topk + s->o.draft_tokens) + s->o.page_size;
  if (!q->row) q->row = malloc((q->input + (uint64_t)q->max_new + ahead) * sizeof *q->row);
  return q->row ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
}

/* init_next_round_input: all tokens but the last are looked up, so that one is left to compute. */
static kv_status look_up(kvs_loop *s, kvs_job *q, kv_error *err) {
  kv_status st = make_row(s, q, err);
  q->fill = q->input + q->out;
  if (!st) st = kvs_radix_match(&s->radix, &q->text, q->fill - 1, q->row, &q->prefix, &q->last, err);
  q->protected_ = q->prefix;
  q->extend = q->fill - q->prefix;
  return st;
}

static kv_status add_chunked(kvs_loop *s, budget *b, kv_error *err) {
  kvs_job *q = s->chunked;
  q->fill = q->input + q->out;
  q->extend = q->fill - q->prefix;
  double left = rest(s, b);
  int64_t may = left < (double)b->chunk ? (int64_t)left : b->chunk;
  if (may <= 0) may = b->chunk;
  bool cut = q->extend > may;
  if (cut) q->extend = (uint32_t)may;
  q->fill = q->prefix + q->extend;
  spend(s, b, q->extend, cut ? 0 : clipped(q->max_new));
  if (!cut) s->chunked = NULL;
  return choose(s, q, err);
}

static verdict add_locked(kvs_loop *s, budget *b, kvs_job *q, bool *chosen, bool *cut) {
  uint32_t input = whole_pages(s, q->extend);
  if (input >= b->input && s->prefill.n) return OTHER;
  if (input > b->chunk) {
    int64_t part = b->chunk / s->o.page_size * s->o.page_size;
    if (part <= 0) return OTHER;
    q->extend = (uint32_t)part;
    q->fill = q->prefix + q->extend;
    *cut = true;
  }
  *chosen = true;
  return GO_ON;
}

static kv_status add_one(kvs_loop *s, budget *b, kvs_job *q, verdict *v, kv_error *err) {
  double total = q->extend + clipped(q->max_new > q->out ? (int64_t)q->max_new - q->out : 0);
  bool chosen = false, cut = false;
  kv_status st = KV_OK;
  *v = total >= rest(s, b) ? NO_TOKEN : OTHER;
  if (*v == NO_TOKEN || (whole_pages(s, q->extend) >= b->input && s->prefill.n)) return KV_OK;
  kvs_radix_lock(&s->radix, q->last);
  *v = total >= rest(s, b) ? NO_TOKEN : add_locked(s, b, q, &chosen, &cut);
  if (!chosen) return kvs_radix_unlock(&s->radix, q->last, err);
  st = choose(s, q, err);
  if (cut) s->chunked = q;
  spend(s, b, q->extend, cut ? 0 : clipped(q->max_new));
  *v = state_of(s, b);
  return st;
}

static budget begin_budget(const kvs_loop *s) {
  budget b = {.input = s->o.max_prefill, .chunk = s->o.chunk};
  for (uint32_t i = 0; i < s->running.n; i++)
    b.total_offset += clipped((int64_t)s->running.job[i]->max_new - s->running.job[i]->out) * s->ratio;
  return b;
}

/* Goes through the queue; *taken: how many of its first requests were chosen. */
static kv_status admit(kvs_loop *s, budget *b, uint32_t *taken, kv_error *err) {
  verdict v = GO_ON;
  kv_status st = KV_OK;
  for (*taken = 0; *taken < s->waiting.n && !st;) {
    kvs_job *q = s->waiting.job[*taken];
    uint32_t chosen = s->prefill.n;
    if ((int64_t)s->prefill.n >= (int64_t)s->o.max_running - s->running.n) s->full = true;
    if (s->full) break;
    if ((st = look_up(s, q, err)) || (st = add_one(s, b, q, &v, err))) break;
    *taken += s->prefill.n > chosen;
    if (v == NO_TOKEN) s->full = true;
    if (v != GO_ON) break;
  }
  return st;
}

static kv_status next_prefill(kvs_loop *s, bool *got, kv_error *err) {
  uint32_t taken;
  *got = false;
  s->prefill.n = 0;
  if ((s->full || !s->waiting.n) && !s->chunked) return KV_OK;
  if (s->running.n >= s->o.max_running && s->chunked) {
    s->full = true;
    return KV_OK;
  }
  budget b = begin_budget(s);
  kv_status st = s->chunked ? add_chunked(s, &b, err) : KV_OK;
  if (!st) st = admit(s, &b, &taken, err);
  if (st || !s->prefill.n) return st;
  memmove(s->waiting.job, s->waiting.job + taken, (s->waiting.n - taken) * sizeof(kvs_job *));
  s->waiting.n -= taken;
  if (s->chunked) s->chunked->chunked++;
  s->prefill_chunked = s->chunked;
  *got = true;
  return kvs_prepare_prefill(s, err);
}

/* ---- decoding ---- */

static void drop_finished(kvs_jobs *l) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (!l->job[i]->finished) l->job[n++] = l->job[i];
  l->n = n;
}

static uint32_t up_to(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/* Slots that the next decode step may need (new_tokens_required_next_decode). */
static uint64_t needed(const kvs_loop *s, kvs_job *const *job, uint32_t n) {
  uint32_t page = s->o.page_size, begin = 0;
  if (s->o.speculation == KVS_SPEC_NONE) {
    for (uint32_t i = 0; i < n; i++) begin += job[i]->committed % page == 0;
    return (uint64_t)begin * page;
  }
  uint32_t branch = s->o.draft_steps, tokens = up_to(s->o.draft_tokens, page);
  branch = page > 1 && s->o.draft_topk > 1 ? up_to(branch + page, page) : up_to(branch, page);
  branch *= s->o.draft_topk;
  return (uint64_t)(branch > tokens ? branch : tokens) * n * (s->o.speculation == KVS_SPEC_V2 ? 2 : 1);
}

static kv_status decode_fits(kvs_loop *s, kvs_job *const *job, uint32_t n, bool *fits, kv_error *err) {
  uint64_t need = needed(s, job, n);
  kv_status st = kvs_make_room(s, need, err);
  *fits = kvs_available(s) >= need;
  return st;
}

/* Without speculation those with the longest answers stay, then those with the shortest prompts. Stable. */
static bool before(const kvs_job *a, const kvs_job *b) {
  return a->out != b->out ? a->out > b->out : a->input < b->input;
}

static void order_for_retraction(kvs_jobs *l) {
  for (uint32_t i = 1; i < l->n; i++) {
    kvs_job *q = l->job[i];
    uint32_t k = i;
    for (; k && before(q, l->job[k - 1]); k--) l->job[k] = l->job[k - 1];
    l->job[k] = q;
  }
}

static kv_status retract_one(kvs_loop *s, kvs_job *q, kv_error *err) {
  kvt_event e = {.kind = KVT_RETRACT, .request = q->id, .position = (int32_t)q->committed, .length = -1, .aux = -1};
  kv_status st = kvs_release(s, q, false, err);
  if (!st) st = kvs_emit(s, e, err);
  if (!st) st = kvs_make_room(s, (uint64_t)s->running.n * RETRACT_STEPS, err);
  q->retracted = true;
  q->last = NULL;
  q->chunked = 0;
  q->committed = q->allocated = q->prefix = q->protected_ = 0;
  s->totals->retracted++;
  if (!st && !kvs_jobs_push(&s->waiting, q)) st = kv_fail(err, KV_ERR_MEMORY, "out of memory for the queue");
  return st;
}

static kv_status retract(kvs_loop *s, kv_error *err) {
  bool fits = false;
  kv_status st = KV_OK;
  if (s->o.speculation == KVS_SPEC_NONE) order_for_retraction(&s->running);
  while (!st && !fits && s->running.n > 1) {
    st = retract_one(s, s->running.job[--s->running.n], err);
    if (!st) st = decode_fits(s, s->running.job, s->running.n, &fits, err);
  }
  if (!st && !fits) st = decode_fits(s, s->running.job, s->running.n, &fits, err);
  if (!st && !fits)
    return kv_fail(err, KV_ERR_INPUT, "the pool of %u slots cannot hold request %d alone at %.1f s; give a larger --pool",
                   s->o.pool_size, s->running.job[0]->id, s->now);
  uint64_t made = 0, most = 0;
  for (uint32_t i = 0; i < s->running.n; i++) {
    made += s->running.job[i]->out;
    most += s->running.job[i]->max_new;
  }
  s->ratio = (double)(made + (uint64_t)RETRACT_STEPS * s->running.n) / (double)(most + 1);
  if (s->ratio > 1) s->ratio = 1;
  return st;
}

static kv_status next_decode(kvs_loop *s, kv_error *err) {
  uint32_t before_n = s->running.n;
  bool fits;
  drop_finished(&s->running);
  if (!s->running.n) {
    s->full = false;
    return KV_OK;
  }
  kv_status st = decode_fits(s, s->running.job, s->running.n, &fits, err);
  if (!st && !fits)
    st = retract(s, err);
  else if (!st)
    s->ratio = s->ratio - s->ratio_decay > s->ratio_least ? s->ratio - s->ratio_decay : s->ratio_least;
  if (s->running.n < before_n) s->full = false;
  return st ? st : kvs_prepare_decode(s, err);
}

/* The last prefill's requests join the running ones, but for one that is still being chunked. */
static kv_status merge_prefill(kvs_loop *s, const kvs_job *stashed, kv_error *err) {
  uint32_t n = 0, had = s->prefill.n;
  for (uint32_t i = 0; i < had; i++) {
    kvs_job *q = s->prefill.job[i];
    if (!q->finished && q != stashed && q != s->prefill_chunked) s->prefill.job[n++] = q;
  }
  s->prefill.n = n;
  if (n < had) s->full = false;
  if (n && !s->running.n) s->full = false;
  for (uint32_t i = 0; i < n; i++)
    if (!kvs_jobs_push(&s->running, s->prefill.job[i])) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a batch");
  return KV_OK;
}

kv_status kvs_next_batch(kvs_loop *s, kvs_batch_kind *kind, kv_error *err) {
  bool got = false;
  kv_status st = s->chunked ? kvs_cache_unfinished(s, s->chunked, err) : KV_OK;
  *kind = KVS_BATCH_NONE;
  if (!st && s->last_kind == KVS_BATCH_PREFILL) st = merge_prefill(s, s->chunked, err);
  if (!st) st = next_prefill(s, &got, err);
  if (!st && got) *kind = KVS_BATCH_PREFILL;
  if (st || got || !s->running.n) return st;
  st = next_decode(s, err);
  if (s->running.n) *kind = KVS_BATCH_DECODE;
  return st;
}
