#include <stdlib.h>
#include <string.h>

#include "policy.h"

const kvs_policy *const kvs_policies[KVS_POLICIES] = {
    &kvs_policy_as_recorded, &kvs_policy_fifo,          &kvs_policy_need_sort,     &kvs_policy_sorted,
    &kvs_policy_lifo,        &kvs_policy_low_water,     &kvs_policy_compact,       &kvs_policy_pages_16,
    &kvs_policy_pages_32,    &kvs_policy_pages_64,      &kvs_policy_vllm,          &kvs_policy_relocate_full,
    &kvs_policy_relocate_step, &kvs_policy_relocate_idle, &kvs_policy_oracle};

const kvs_policy *kvs_policy_find(const char *name) {
  for (unsigned i = 0; i < KVS_POLICIES; i++)
    if (!strcmp(name, kvs_policies[i]->name)) return kvs_policies[i];
  return NULL;
}

kvs_policy_settings kvs_policy_settings_default(void) {
  return (kvs_policy_settings){.low_water = 0.05, .high_water = 0.10, .scatter_limit = 0.05, .pass_gap = 64, .budget = 512, .draft_topk = 1};
}

/* ---- making and freeing ---- */

static void forget_everything(kvs_world *w) {
  uint32_t n = w->info.first_slot + w->info.pool_size;
  for (uint32_t i = 0; i < n; i++) w->where[i] = KVS_NO_TOKEN;
  memset(w->refs, 0, n * sizeof *w->refs);
  for (uint32_t i = 0; i < n && w->next; i++) w->next[i] = KVS_UNLINKED;
  for (uint32_t i = 0; i < w->page_size + w->capacity && w->tenant; i++) w->tenant[i] = -1;
  w->idle_first = w->idle_last = -1;
  w->resident = 0;
  w->queue_n = 0;
  if (w->placement != KVS_PAGES) return;
  uint32_t pages = w->capacity / w->page_size + 1;
  memset(w->page_live, 0, pages * sizeof *w->page_live);
  memset(w->page_filled, 0, pages * sizeof *w->page_filled);
  memset(w->page_pinned, 0, (pages / 64 + 1) * sizeof *w->page_pinned);
  if (w->page_held) memset(w->page_held, 0, pages * sizeof *w->page_held);
  w->queued = 0;
}

static kv_status get_memory(kvs_world *w, kv_error *err) {
  size_t ids = (size_t)w->info.first_slot + w->info.pool_size, slots = (size_t)w->page_size + w->capacity;
  bool evicts = w->policy->evicts || w->capacity < w->info.pool_size, ok;
  w->where = malloc(ids * sizeof *w->where);
  w->refs = malloc(ids * sizeof *w->refs);
  ok = w->where && w->refs;
  if (evicts) ok &= (w->next = malloc(ids * sizeof *w->next)) && (w->previous = malloc(ids * sizeof *w->previous));
  if (w->policy->moves) ok &= (w->tenant = malloc(slots * sizeof *w->tenant)) != NULL;
  if (w->placement == KVS_PAGES) {
    size_t pages = w->capacity / w->page_size + 1;
    w->page_live = malloc(pages * sizeof *w->page_live);
    w->page_filled = malloc(pages * sizeof *w->page_filled);
    w->page_pinned = malloc((pages / 64 + 1) * sizeof *w->page_pinned);
    ok &= w->page_live && w->page_filled && w->page_pinned;
  }
  return ok ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", w->info.pool_size);
}

/* A recording that begins with part of its pool taken: those tokens stay where they are, whoever holds them. */
static void settle_strangers(kvs_world *w, const int32_t *initial) {
  uint32_t first = w->info.first_slot;
  for (uint32_t i = 0; i < w->info.pool_size; i++) w->where[first + i] = (int32_t)(first + i);
  for (uint64_t i = 0; i < w->info.initial_free; i++)
    for (uint32_t k = 0; k < w->info.page_size; k++)
      w->where[(uint32_t)initial[i] * w->info.page_size + k] = KVS_NO_TOKEN;
  for (uint32_t i = first; i < first + w->info.pool_size; i++) {
    w->resident += w->where[i] >= 0;
    if (w->where[i] >= 0 && w->tenant) w->tenant[i] = (int32_t)i;
    if (w->where[i] >= 0 && w->placement == KVS_PAGES) w->page_filled[i / w->page_size] = (uint16_t)w->page_size, w->page_live[i / w->page_size]++;
  }
}

static kv_status check_settings(kvs_world *w, const int32_t *initial, kv_error *err) {
  const kvt_info *info = &w->info;
  if (w->capacity < w->page_size || w->capacity > (1u << 30))
    return kv_fail(err, KV_ERR_USAGE, "policy %s: a pool must have at least one page of %u slots and at most 2^30 slots",
                   w->policy->name, w->page_size);
  bool partial = initial && info->initial_free * info->page_size < info->pool_size;
  if (partial && (w->page_size != info->page_size || w->capacity != info->pool_size))
    return kv_fail(err, KV_ERR_USAGE,
                   "policy %s: the recording begins with a pool that is partly taken, which cannot be laid out anew in "
                   "other pages or another size",
                   w->policy->name);
  return KV_OK;
}

kv_status kvs_world_init(kvs_world *w, const kvs_policy *policy, const kvs_policy_settings *settings, const kvt_info *info,
                         const int32_t *initial, kv_error *err) {
  *w = (kvs_world){.policy = policy, .settings = *settings, .info = *info, .placement = policy->placement, .fits = true};
  bool own = policy == &kvs_policy_as_recorded || policy == &kvs_policy_oracle;
  if (own && (info->page_size > 1 || kvt_allocator_queues(info->allocator))) w->placement = KVS_PAGES;
  if (own && (info->allocator == KVT_ALLOC_OTHER || policy == &kvs_policy_oracle)) w->placement = KVS_TOKENS, w->identity = true;
  w->page_size = policy->page_size ? policy->page_size : info->page_size;
  w->capacity = settings->capacity && !own ? settings->capacity : info->pool_size;
  if (w->identity) w->page_size = info->page_size;
  w->capacity -= w->capacity % w->page_size;
  kv_status st = check_settings(w, initial, err);
  if (!st) st = get_memory(w, err);
  if (!st) forget_everything(w);
  if (!st && initial && info->initial_free * info->page_size < info->pool_size) settle_strangers(w, initial);
  uint32_t n = (uint32_t)info->initial_free;
  bool usable = initial && w->page_size == info->page_size && w->capacity == info->pool_size;
  if (!st) st = policy->open(w, usable ? initial : NULL, usable ? n : 0, err);
  if (!st && w->list.after && !(w->page_held = calloc(w->capacity / w->page_size + 1, sizeof *w->page_held)))
    st = kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", info->pool_size);
  if (st) kvs_world_fini(w);
  return st;
}

void kvs_world_fini(kvs_world *w) {
  free(w->where);
  free(w->refs);
  free(w->next);
  free(w->previous);
  free(w->tenant);
  free(w->page_live);
  free(w->page_filled);
  free(w->page_pinned);
  free(w->page_held);
  free(w->scratch);
  free(w->victims);
  free(w->moves);
  free(w->queue);
  free(w->free_bits);
  free(w->free_words);
  kvs_freelist_free(&w->list);
  *w = (kvs_world){0};
}

kv_status kvs_world_clear(kvs_world *w, kv_error *err) {
  forget_everything(w);
  kvs_freelist_free(&w->list);
  free(w->free_bits);
  free(w->free_words);
  w->free_bits = w->free_words = NULL;
  return w->policy->open(w, NULL, 0, err);
}

kv_status kvs_reserve(int32_t **list, uint32_t *room, uint64_t n, kv_error *err) {
  if (*list && n <= *room) return KV_OK;
  uint64_t want = n + n / 2 + 16;
  int32_t *grown = want <= UINT32_MAX ? realloc(*list, want * sizeof **list) : NULL;
  if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a request's row");
  *list = grown;
  *room = (uint32_t)want;
  return KV_OK;
}

/* ---- idle tokens, least recently used first ---- */

void kvs_world_link_idle(kvs_world *w, int32_t id) {
  if (!w->next) return;
  w->previous[id] = w->idle_last;
  w->next[id] = -1;
  if (w->idle_last >= 0)
    w->next[w->idle_last] = id;
  else
    w->idle_first = id;
  w->idle_last = id;
}

void kvs_world_unlink_idle(kvs_world *w, int32_t id) {
  if (!w->next || w->next[id] == KVS_UNLINKED) return;
  int32_t before = w->previous[id], after = w->next[id];
  if (before >= 0)
    w->next[before] = after;
  else
    w->idle_first = after;
  if (after >= 0)
    w->previous[after] = before;
  else
    w->idle_last = before;
  w->next[id] = KVS_UNLINKED;
}

void kvs_world_queue_page(kvs_world *w, int32_t page) {
  if (!w->page_held || w->page_held[page] || w->page_pinned[page / 64] >> (page % 64) & 1) return;
  uint32_t before = w->list.count;
  kvs_freelist_idle(&w->list, page);
  if (w->list.count > before) w->queued += w->page_live[page];
}

static void unqueue_page(kvs_world *w, int32_t page) {
  uint32_t before = w->list.count;
  kvs_freelist_busy(&w->list, page);
  if (w->list.count < before) w->queued -= w->page_live[page];
}

void kvs_world_hold(kvs_world *w, int32_t id) {
  if (w->refs[id]++) return;
  kvs_world_unlink_idle(w, id);
  if (!w->page_held || w->where[id] < 0) return;
  int32_t page = w->where[id] / (int32_t)w->page_size;
  if (!w->page_held[page]++) unqueue_page(w, page);
}

void kvs_world_let_go(kvs_world *w, int32_t id) {
  if (--w->refs[id] || w->where[id] < 0) return;
  kvs_world_link_idle(w, id);
  if (!w->page_held) return;
  int32_t page = w->where[id] / (int32_t)w->page_size;
  if (!--w->page_held[page]) kvs_world_queue_page(w, page);
}

uint32_t kvs_world_evict(kvs_world *w, uint32_t n) {
  uint32_t have = 0;
  for (; w->next && have < n && w->idle_first >= 0; have++) {
    if (kvs_reserve(&w->victims, &w->victims_room, (uint64_t)have + 1, w->err)) break;
    w->victims[have] = w->idle_first;
    kvs_world_unlink_idle(w, w->idle_first);
  }
  for (uint32_t i = 0; i < have / 2; i++) {
    int32_t id = w->victims[i];
    w->victims[i] = w->victims[have - 1 - i];
    w->victims[have - 1 - i] = id;
  }
  if (!have || kvs_placer_of(w)->drop(w, w->victims, have)) return 0;
  w->tally.evicted += have;
  return have;
}

bool kvs_world_ensure(kvs_world *w, uint32_t units) {
  if (w->identity) return true;
  uint32_t have = w->policy->available(w);
  if (have >= units) return true;
  if (w->policy->end_group) w->policy->end_group(w);
  /* as many tokens as are short, as SGLang does; with pages that may empty fewer pages, so again */
  uint32_t unit = w->placement == KVS_PAGES ? w->page_size : 1;
  while ((have = w->policy->available(w)) < units && kvs_world_evict(w, (units - have) * unit)) continue;
  if (have >= units) return true;
  if (w->fits) {
    w->fits = false;
    w->short_step = w->step;
    w->short_units = units - have;
  }
  return false;
}

/* ---- rows ---- */

int32_t kvs_world_slot(const kvs_world *w, const kvs_holder *q, uint32_t p) {
  if (w->placement != KVS_PAGES) return w->where[q->token[p]];
  uint32_t group = p / w->page_size, off = p % w->page_size;
  if (q->tail_page >= 0 && group == q->owned / w->page_size) return q->tail_page * (int32_t)w->page_size + (int32_t)off;
  uint32_t end = (group + 1) * w->page_size;
  int32_t last = w->where[q->token[(end < q->owned ? end : q->owned) - 1]];
  return last < 0 ? last : last - last % (int32_t)w->page_size + (int32_t)off;
}

static bool adjacent(int32_t a, int32_t b) { return a >= 0 && b == a + 1; }

/* Breaks among positions from-1 .. to-1. */
static uint64_t breaks_between(const kvs_world *w, const kvs_holder *q, uint32_t from, uint32_t to) {
  uint64_t n = 0;
  if (from >= to) return 0;
  if (w->placement == KVS_PAGES) { /* inside a page neighbours are neighbours */
    uint32_t page = w->page_size, p = (from + page - 1) / page * page;
    for (p = p ? p : page; p < to; p += page) n += !adjacent(kvs_world_slot(w, q, p - 1), kvs_world_slot(w, q, p));
    return n;
  }
  int32_t last = from ? w->where[q->token[from - 1]] : KVS_NO_TOKEN;
  for (uint32_t p = from; p < to; p++) {
    int32_t here = w->where[q->token[p]];
    n += here != last + 1;
    last = here;
  }
  return n - (from == 0 && w->where[q->token[0]] != KVS_NO_TOKEN + 1);
}

void kvs_world_recount(const kvs_world *w, kvs_holder *q) {
  q->breaks = breaks_between(w, q, 0, q->rows);
  q->stale = false;
}

void kvs_world_stale(kvs_world *w) {
  for (uint32_t i = 0; i < w->running_n; i++) w->running[i]->stale = true;
}

kv_status kvs_row_add(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, bool commit) {
  kv_status st = kvs_reserve(&q->token, &q->room, (uint64_t)q->owned + n, w->err);
  if (st) return st;
  memcpy(q->token + q->owned, tokens, n * sizeof *tokens);
  q->owned += n;
  if (commit) kvs_row_commit(w, q, n);
  return KV_OK;
}

void kvs_row_commit(kvs_world *w, kvs_holder *q, uint32_t n) {
  if (!q->stale) q->breaks += breaks_between(w, q, q->rows, q->rows + n);
  q->rows += n;
}

/* ---- telling ---- */

void kvs_world_tell(kvs_world *w, kvt_kind kind, int32_t request, uint32_t position, const int32_t *slots, uint32_t n,
                    int32_t length, int32_t aux) {
  if (!w->tell || w->tell_status) return;
  const kvt_event e = {.kind = kind, .step = w->step, .request = request, .position = (int32_t)position,
                       .length = length, .aux = aux, .count = n, .slots = slots};
  w->tell_status = w->tell(w->tell_arg, &e, w->err);
}

void kvs_world_own_call(kvs_world *w, int32_t request, uint32_t n) {
  (void)request;
  if (w->policy->begin_call) w->policy->begin_call(w, n, 1, false);
  kvs_world_tell(w, KVT_ALLOC_CALL, -1, 1, NULL, 0, (int32_t)n, -1);
}

/* ---- moving ---- */

void kvs_world_swap(kvs_world *w, int32_t id, int32_t to) {
  int32_t from = w->where[id], other = w->tenant[to];
  if (from == to) return;
  if (w->tell) {
    if (kvs_reserve(&w->moves, &w->moves_room, (uint64_t)w->moves_n + 2, w->err)) w->tell_status = KV_ERR_MEMORY;
    else w->moves[w->moves_n++] = from, w->moves[w->moves_n++] = to;
  }
  w->where[id] = to;
  w->tenant[to] = id;
  w->tenant[from] = other;
  w->tally.moved++;
  if (other >= 0) {
    w->where[other] = from;
    w->tally.moved++;
    return;
  }
  kvs_free_set_put(w, from, true);
  kvs_free_set_put(w, to, false);
}
