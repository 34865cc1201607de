/* Every slot of a world once: what tests hold a simulation to. */
#include <stdlib.h>
#include <string.h>

#include "whatif.h"

typedef struct books {
  const kvs_world *w;
  uint8_t *used;      /* by the policy's slot: 1 token, 2 spare, 4 free */
  uint16_t *refs;     /* by identity */
  uint8_t *in_block;  /* by identity */
  uint64_t queued;    /* tokens in queued pages */
  kv_error *err;
} books;

#define WRONG(...) return kv_fail(b->err, KV_ERR_INTERNAL, __VA_ARGS__)

static kv_status mark(books *b, int32_t slot, uint8_t as) {
  const kvs_world *w = b->w;
  if (slot < (int32_t)w->page_size || (uint32_t)slot >= w->page_size + w->capacity) WRONG("slot %d is outside the pool", slot);
  if (b->used[slot] & as || (b->used[slot] && as != 1)) WRONG("slot %d is held twice (%u, %u)", slot, b->used[slot], as);
  b->used[slot] |= as;
  return KV_OK;
}

static kv_status mark_unit(books *b, int32_t unit, uint8_t as) {
  kv_status st = KV_OK;
  uint32_t n = b->w->placement == KVS_PAGES ? b->w->page_size : 1;
  for (uint32_t i = 0; i < n && !st; i++) st = mark(b, unit * (int32_t)n + (int32_t)i, as);
  return st;
}

static kv_status check_holders(books *b) {
  const kvs_world *w = b->w;
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < w->running_n && !st; i++) {
    kvs_holder *q = w->running[i];
    uint64_t before = q->breaks;
    for (uint32_t p = 0; p < q->owned; p++) b->refs[q->token[p]]++;
    for (uint32_t p = 0; p < q->rows; p++)
      if (w->where[q->token[p]] < 0) WRONG("request %d: position %u lies nowhere", q->request, p);
    for (uint32_t k = 0; k < q->block_n; k++) b->in_block[q->block[k]] = 1;
    if (!q->stale) {
      kvs_world_recount(w, q);
      if (q->breaks != before)
        WRONG("request %d: %llu breaks were counted, there are %llu", q->request, (unsigned long long)before, (unsigned long long)q->breaks);
    }
    if (w->placement == KVS_COMPACT)
      for (uint32_t k = 0; k < q->spare_n && !st; k++) st = mark(b, q->spare[k], 2);
  }
  return st;
}

static kv_status check_tokens(books *b) {
  const kvs_world *w = b->w;
  uint32_t end = w->info.first_slot + w->info.pool_size;
  uint64_t resident = 0;
  kv_status st = KV_OK;
  for (uint32_t id = w->info.first_slot; id < end && !st; id++) {
    if (b->refs[id] != w->refs[id]) WRONG("token %u is held by %u rows, %u are counted", id, b->refs[id], w->refs[id]);
    if (w->where[id] < 0) continue;
    resident++;
    bool spare = b->in_block[id] && w->placement == KVS_COMPACT; /* lies in a slot of its request's spare ones */
    if (!spare) st = mark(b, w->where[id], 1);
    if (w->tenant && w->tenant[w->where[id]] != (int32_t)id) WRONG("slot %d: its tenant is not token %u", w->where[id], id);
    bool linked = w->next && w->next[id] != KVS_UNLINKED, idle = !w->refs[id] && !b->in_block[id];
    if (w->next && linked != idle) WRONG("token %u is %sidle but %sin the list", id, idle ? "" : "not ", linked ? "" : "not ");
  }
  if (!st && resident != w->resident) WRONG("%llu tokens lie somewhere, %llu are counted", (unsigned long long)resident, (unsigned long long)w->resident);
  return st;
}

/* A page of vLLM's queue: nobody may hold a token there. */
static kv_status mark_queued(books *b, int32_t page) {
  const kvs_world *w = b->w;
  if (page < 1 || (uint32_t)page > w->capacity / w->page_size || b->used[page * (int32_t)w->page_size] & 4) WRONG("page %d is queued twice", page);
  if (w->page_held[page]) WRONG("page %d is queued, but rows hold %u of its tokens", page, w->page_held[page]);
  for (uint32_t i = 0; i < w->page_size; i++) {
    uint8_t *slot = &b->used[(uint32_t)page * w->page_size + i];
    b->queued += *slot & 1;
    *slot = 4;
  }
  return KV_OK;
}

static kv_status check_free(books *b, uint64_t *units) {
  const kvs_world *w = b->w;
  kv_status st = KV_OK;
  *units = 0;
  if (w->list.ring || w->list.after) {
    int32_t *list = malloc(((size_t)w->list.count + w->list.released) * sizeof *list + 1);
    if (!list) return kv_fail(b->err, KV_ERR_MEMORY, "out of memory");
    kvs_freelist_copy(&w->list, list, list + w->list.count);
    *units = (uint64_t)w->list.count + w->list.released;
    for (uint64_t i = 0; i < *units && !st && !w->list.after; i++) st = mark_unit(b, list[i], 4);
    for (uint64_t i = 0; i < *units && !st && w->list.after; i++) st = mark_queued(b, list[i]);
    if (!st && b->queued != w->queued) st = kv_fail(b->err, KV_ERR_INTERNAL, "%llu tokens are queued, %llu are counted", (unsigned long long)b->queued, (unsigned long long)w->queued);
    free(list);
  }
  for (uint32_t s = w->page_size; w->free_bits && s < w->page_size + w->capacity && !st; s++)
    if (kvs_free_set_has(w, (int32_t)s)) {
      st = mark(b, (int32_t)s, 4);
      ++*units;
    }
  if (!st && !w->identity && *units != w->policy->available(w)) WRONG("%llu units are free, %u are counted", (unsigned long long)*units, w->policy->available(w));
  return st;
}

static kv_status check_pages(books *b, uint64_t free_units) {
  const kvs_world *w = b->w;
  uint64_t taken = 0;
  for (uint32_t page = 1; page <= w->capacity / w->page_size; page++) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < w->page_size; i++) live += b->used[page * w->page_size + i] & 1;
    bool is_free = b->used[page * w->page_size] & 4, pinned = w->page_pinned[page / 64] >> (page % 64) & 1;
    if (is_free ? live || pinned : !live && !pinned) WRONG("page %u is %s with %u tokens%s", page, is_free ? "free" : "lost", live, pinned ? ", pinned" : "");
    if (!is_free && live != w->page_live[page]) WRONG("page %u holds %u tokens, %u are counted", page, live, w->page_live[page]);
    taken += !is_free;
  }
  return taken + free_units == w->capacity / w->page_size ? KV_OK : kv_fail(b->err, KV_ERR_INTERNAL, "pages are lost");
}

static kv_status check_all(books *b) {
  const kvs_world *w = b->w;
  uint64_t units = 0, spare = 0;
  kv_status st = check_holders(b);
  if (!st) st = check_tokens(b);
  if (!st) st = check_free(b, &units);
  if (st || w->identity) return st;
  if (w->placement == KVS_PAGES) return check_pages(b, units);
  for (uint32_t i = 0; i < w->running_n; i++) spare += w->running[i]->spare_n;
  uint64_t blocks = 0;
  for (uint32_t i = 0; i < w->running_n; i++)
    for (uint32_t k = 0; k < w->running[i]->block_n && w->placement == KVS_COMPACT; k++) blocks += w->where[w->running[i]->block[k]] >= 0;
  if (w->resident - blocks + spare + units != w->capacity)
    WRONG("%llu tokens, %llu spare and %llu free slots do not make %u", (unsigned long long)(w->resident - blocks),
          (unsigned long long)spare, (unsigned long long)units, w->capacity);
  return KV_OK;
}

kv_status kvs_world_check(const kvs_world *w, kv_error *err) {
  size_t ids = (size_t)w->info.first_slot + w->info.pool_size, slots = (size_t)w->page_size + w->capacity;
  books b = {.w = w, .err = err};
  b.used = calloc(slots > ids ? slots : ids, 1);
  b.refs = calloc(ids, sizeof *b.refs);
  b.in_block = calloc(ids, 1);
  kv_status st = b.used && b.refs && b.in_block ? check_all(&b) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  free(b.used);
  free(b.refs);
  free(b.in_block);
  return st;
}
