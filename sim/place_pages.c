/* Pages: position p of a row lies at offset p mod page_size of a page that one branch alone fills. A prefix is shared
 * by whole pages; what a hit reaches into a page is computed again in a page of the request's own, as SGLang's paged
 * radix cache does. A verify block lies behind the row; accepted nodes are copied together. */
#include <string.h>

#include "policy.h"

static bool pinned(const kvs_world *w, int32_t page) { return w->page_pinned[page / 64] >> (page % 64) & 1; }
static void pin(kvs_world *w, int32_t page) { w->page_pinned[page / 64] |= 1ull << (page % 64); }
static void unpin(kvs_world *w, int32_t page) { w->page_pinned[page / 64] &= ~(1ull << (page % 64)); }

static kv_status reclaim_page(kvs_world *w, int32_t page);

static kv_status take_page(kvs_world *w, int32_t *page) {
  if (!kvs_world_ensure(w, 1)) return KV_END;
  w->policy->take(w, 1, page);
  kv_status st = w->page_held && w->page_live[*page] ? reclaim_page(w, *page) : KV_OK;
  if (st) return st;
  w->page_live[*page] = w->page_filled[*page] = 0;
  pin(w, *page);
  return KV_OK;
}

static void fill_to(kvs_world *w, int32_t page, uint32_t to) {
  if (w->page_filled[page] < to) w->page_filled[page] = (uint16_t)to;
}

static kv_status list_slots(kvs_world *w, int32_t page, uint32_t from, uint32_t to) {
  kv_status st = kvs_reserve(&w->scratch, &w->scratch_room, w->page_size, w->err);
  for (uint32_t i = from; i < to && !st; i++) w->scratch[i - from] = page * (int32_t)w->page_size + (int32_t)i;
  return st;
}

static kv_status give_page(kvs_world *w, int32_t page, int32_t request, kvt_free_reason reason, int32_t group) {
  int32_t slot = page * (int32_t)w->page_size;
  unpin(w, page);
  w->policy->give(w, &slot, 1);
  if (group < 0 && w->page_held) w->policy->end_group(w); /* it is told as a free of its own */
  if (!w->tell || !w->page_filled[page]) return KV_OK;
  kv_status st = list_slots(w, page, 0, w->page_filled[page]);
  bool segment = w->follow && w->current.kind == KVT_FREE && w->current.position >= 0;
  if (!st) kvs_world_tell(w, KVT_FREE, request, segment ? 0 : UINT32_MAX, w->scratch, w->page_filled[page], group, (int32_t)reason);
  return st;
}

static void put_token(kvs_world *w, int32_t token, int32_t page, uint32_t off) {
  w->where[token] = page * (int32_t)w->page_size + (int32_t)off;
  if (w->tenant) w->tenant[w->where[token]] = token;
  if (w->page_held && w->refs[token]) w->page_held[page]++;
  w->page_live[page]++;
  w->resident++;
  if (w->follow) w->tally.mismatches += w->where[token] != token;
}

static void lift_token(kvs_world *w, int32_t token, int32_t mark) {
  int32_t slot = w->where[token];
  w->where[token] = mark;
  if (slot < 0) return;
  int32_t page = slot / (int32_t)w->page_size;
  if (w->page_held && w->refs[token]) w->page_held[page]--;
  if (w->page_held && w->list.after[page] >= 0) w->queued--;
  w->page_live[page]--;
  w->resident--;
}

/* vLLM: the queue's head is cached. What lies there is evicted. */
static kv_status reclaim_page(kvs_world *w, int32_t page) {
  int32_t first = page * (int32_t)w->page_size;
  if (!w->tenant) return kv_fail(w->err, KV_ERR_INPUT, "page %d is handed out, but was not evicted", page);
  w->queued -= w->page_live[page]; /* it has left the queue already */
  for (uint32_t i = 0; i < w->page_size; i++) {
    int32_t token = w->tenant[first + (int32_t)i];
    if (token < 0 || w->where[token] != first + (int32_t)i) continue;
    kvs_world_unlink_idle(w, token);
    lift_token(w, token, KVS_EVICTED);
    w->tally.evicted++;
  }
  if (!w->tell || !w->page_filled[page]) return KV_OK;
  kv_status st = list_slots(w, page, 0, w->page_filled[page]);
  if (!st) kvs_world_tell(w, KVT_FREE, -1, UINT32_MAX, w->scratch, w->page_filled[page], -1, KVT_FREE_EVICT);
  return st;
}

/* The page for the next position of a row: its own, the first one behind it, or a new one. */
static kv_status page_ahead(kvs_world *w, kvs_holder *q, int32_t *page) {
  if (q->owned % w->page_size && q->tail_page >= 0) {
    *page = q->tail_page;
    return KV_OK;
  }
  if (!q->spare_n) return take_page(w, page);
  *page = q->spare[0];
  q->spare_n--;
  memmove(q->spare, q->spare + 1, q->spare_n * sizeof *q->spare);
  return KV_OK;
}

/* Makes room for the row to reach `to`, all at once: an allocator call evicts once. */
static bool ensure_to(kvs_world *w, const kvs_holder *q, uint32_t to) {
  uint32_t have = (q->reach + w->page_size - 1) / w->page_size, want = (to + w->page_size - 1) / w->page_size;
  return want <= have || kvs_world_ensure(w, want - have);
}

/* m positions more were filled, all in `page`. */
static kv_status advance(kvs_world *w, kvs_holder *q, int32_t page, const int32_t *tokens, uint32_t m, bool commit) {
  uint32_t end = q->owned + m;
  fill_to(w, page, (end - 1) % w->page_size + 1);
  q->tail_page = end % w->page_size ? page : -1;
  if (q->tail_page < 0) unpin(w, page);
  if (q->reach < end) q->reach = end;
  return kvs_row_add(w, q, tokens, m, commit);
}

static kv_status append(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, bool commit) {
  uint32_t from = q->owned;
  kv_status st = ensure_to(w, q, from + n) ? KV_OK : KV_END;
  for (uint32_t i = 0, m; i < n && !st; i += m) {
    uint32_t off = q->owned % w->page_size;
    int32_t page;
    m = w->page_size - off < n - i ? w->page_size - off : n - i;
    if ((st = page_ahead(w, q, &page))) return st;
    for (uint32_t k = 0; k < m; k++) put_token(w, tokens[i + k], page, off + k);
    st = advance(w, q, page, tokens + i, m, commit);
  }
  if (!w->tell || st) return st;
  st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  for (uint32_t i = 0; i < n && !st; i++) w->scratch[i] = kvs_world_slot(w, q, from + i);
  kvs_world_tell(w, w->current.kind, q->request, from, w->scratch, n, -1, w->current.aux);
  return st;
}

/* ---- verify blocks ---- */

/* The page of a position behind the row. */
static int32_t page_behind(const kvs_world *w, const kvs_holder *q, uint32_t p) {
  uint32_t ahead = p / w->page_size - q->owned / w->page_size;
  bool tail = q->owned % w->page_size;
  return tail && !ahead ? q->tail_page : q->spare[ahead - tail];
}

static kv_status reach_to(kvs_world *w, kvs_holder *q, uint32_t to) {
  kv_status st = ensure_to(w, q, to) ? KV_OK : KV_END;
  for (uint32_t m; q->reach < to && !st; q->reach += m) {
    uint32_t off = q->reach % w->page_size;
    m = w->page_size - off < to - q->reach ? w->page_size - off : to - q->reach;
    if (!off) {
      if ((st = kvs_reserve(&q->spare, &q->spare_room, (uint64_t)q->spare_n + 1, w->err))) return st;
      if ((st = take_page(w, &q->spare[q->spare_n]))) return st;
      q->spare_n++;
    }
    int32_t page = page_behind(w, q, q->reach);
    fill_to(w, page, off + m);
    if (w->tell) st = list_slots(w, page, off, off + m);
    kvs_world_tell(w, KVT_ALLOC_SPEC, q->request, q->reach, w->scratch, m, -1, w->current.aux);
  }
  return st;
}

static kv_status tree(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  if (q->owned != q->rows) return kv_fail(w->err, KV_ERR_INPUT, "a verify block behind slots that were allocated ahead");
  if (q->owned % w->page_size && q->tail_page < 0) return kv_fail(w->err, KV_ERR_INPUT, "a verify block behind a row whose end was freed");
  kv_status st = kvs_reserve(&q->block, &q->block_room, (uint64_t)q->block_n + n, w->err);
  if (!st) st = reach_to(w, q, q->owned + q->block_n + n);
  for (uint32_t i = 0; i < n && !st; i++) {
    uint32_t p = q->owned + q->block_n + i;
    put_token(w, tokens[i], page_behind(w, q, p), p % w->page_size);
  }
  if (st) return st;
  memcpy(q->block + q->block_n, tokens, n * sizeof *tokens);
  q->block_n += n;
  return KV_OK;
}

static bool in_block(const kvs_holder *q, int32_t token) {
  for (uint32_t i = 0; i < q->block_n; i++)
    if (q->block[i] == token) return true;
  return false;
}

static kv_status commit(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < n; i++) {
    if (!in_block(q, tokens[i]) || w->where[tokens[i]] < 0)
      return kv_fail(w->err, KV_ERR_INPUT, "commits slot %d, which is not of its open verify block", tokens[i]);
    uint32_t p = q->owned + i;
    w->tally.copied += w->where[tokens[i]] != page_behind(w, q, p) * (int32_t)w->page_size + (int32_t)(p % w->page_size);
  }
  for (uint32_t i = 0; i < q->block_n; i++)
    if (w->where[q->block[i]] >= 0) lift_token(w, q->block[i], KVS_EVICTED);
  q->block_n = 0;
  kvs_world_tell(w, KVT_COMMIT, q->request, q->rows, NULL, 0, (int32_t)n, -1);
  for (uint32_t i = 0, m; i < n && !st; i += m) {
    uint32_t off = q->owned % w->page_size;
    int32_t page;
    m = w->page_size - off < n - i ? w->page_size - off : n - i;
    if ((st = page_ahead(w, q, &page))) return st;
    for (uint32_t k = 0; k < m; k++) put_token(w, tokens[i + k], page, off + k);
    st = advance(w, q, page, tokens + i, m, true);
  }
  return st;
}

/* ---- giving back ---- */

/* What a request owns behind its row goes. */
static kv_status drop_ahead(kvs_world *w, kvs_holder *q) {
  kv_status st = KV_OK;
  if (q->reach > q->owned && w->tell) {
    st = kvs_reserve(&w->scratch, &w->scratch_room, q->reach - q->owned, w->err);
    for (uint32_t p = q->owned; p < q->reach && !st; p++)
      w->scratch[p - q->owned] = page_behind(w, q, p) * (int32_t)w->page_size + (int32_t)(p % w->page_size);
    kvs_world_tell(w, KVT_FREE, q->request, UINT32_MAX, w->scratch, q->reach - q->owned, -1, KVT_FREE_OVER);
  }
  for (uint32_t i = 0; i < q->block_n; i++)
    if (w->where[q->block[i]] >= 0) lift_token(w, q->block[i], KVS_EVICTED);
  q->block_n = 0;
  if (q->tail_page >= 0 && q->reach > q->owned) w->page_filled[q->tail_page] = (uint16_t)(q->owned % w->page_size);
  for (uint32_t i = 0; i < q->spare_n && !st; i++) {
    w->page_filled[q->spare[i]] = 0; /* told already */
    st = give_page(w, q->spare[i], q->request, KVT_FREE_OVER, -1);
  }
  q->spare_n = 0;
  q->reach = q->owned;
  return st;
}

/* After the recording took tokens off the end of what was allocated ahead: the tail is where the row ends now. */
static void move_tail(kvs_world *w, kvs_holder *q) {
  if (q->tail_page >= 0) unpin(w, q->tail_page);
  int32_t last = q->owned % w->page_size ? w->where[q->token[q->owned - 1]] : KVS_NO_TOKEN;
  q->tail_page = last >= 0 ? last / (int32_t)w->page_size : -1;
  if (q->tail_page >= 0) pin(w, q->tail_page), w->page_filled[q->tail_page] = (uint16_t)(q->owned % w->page_size);
  q->reach = q->owned;
}

static kv_status release(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, kvt_free_reason reason) {
  bool ends = reason == KVT_FREE_TAIL || reason == KVT_FREE_RETRACT;
  kv_status st = ends && q && q->running ? drop_ahead(w, q) : KV_OK;
  bool shrinks = reason == KVT_FREE_OVER && q && q->running && q->owned < q->reach && !q->block_n && !q->spare_n;
  if (shrinks) { /* told slot by slot: the pages' filled part is the row's */
    st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
    for (uint32_t i = 0; i < n && !st; i++) w->scratch[i] = w->where[tokens[i]];
    kvs_world_tell(w, KVT_FREE, q->request, UINT32_MAX, w->scratch, n, w->current.length, (int32_t)reason);
    move_tail(w, q);
  }
  for (uint32_t i = 0; i < n && !st; i++) {
    int32_t page = w->where[tokens[i]] / (int32_t)w->page_size;
    bool there = w->where[tokens[i]] >= 0;
    if (w->where[tokens[i]] == KVS_NO_TOKEN) return kv_fail(w->err, KV_ERR_INPUT, "frees slot %d twice", tokens[i]);
    kvs_world_unlink_idle(w, tokens[i]);
    lift_token(w, tokens[i], KVS_NO_TOKEN);
    bool more = i + 1 < n && w->where[tokens[i + 1]] >= 0 && w->where[tokens[i + 1]] / (int32_t)w->page_size == page;
    if (there && !more && w->page_live[page]) kvs_world_queue_page(w, page);
    if (!there || w->page_live[page] || (shrinks && page == q->tail_page)) continue;
    if (ends && q && page == q->tail_page)
      q->tail_page = -1;
    else if (pinned(w, page))
      continue;
    if (shrinks) w->page_filled[page] = 0;
    st = give_page(w, page, w->current.request, reason, w->current.length);
  }
  return st;
}

static kv_status leave(kvs_world *w, kvs_holder *q) {
  kv_status st = drop_ahead(w, q);
  int32_t page = q->tail_page;
  if (st || page < 0) return st;
  for (uint32_t p = q->owned - q->owned % w->page_size; p < q->owned; p++) {
    int32_t id = q->token[p];
    if (w->where[id] < 0 || w->where[id] / (int32_t)w->page_size != page || w->refs[id]) continue;
    kvs_world_unlink_idle(w, id);
    lift_token(w, id, KVS_EVICTED);
    w->tally.evicted++;
  }
  unpin(w, page);
  q->tail_page = -1;
  if (!w->page_live[page]) return give_page(w, page, q->request, KVT_FREE_TAIL, -1);
  kvs_world_queue_page(w, page);
  return KV_OK;
}

static kv_status drop(kvs_world *w, const int32_t *tokens, uint32_t n) {
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < n && !st; i++) {
    int32_t page = w->where[tokens[i]] / (int32_t)w->page_size;
    lift_token(w, tokens[i], KVS_EVICTED);
    if (!w->page_live[page] && !pinned(w, page)) st = give_page(w, page, -1, KVT_FREE_EVICT, -1);
  }
  if (w->policy->end_group) w->policy->end_group(w);
  return st;
}

/* ---- prefix hits ---- */

/* One page's worth of a hit (or its rest). Shared when its last token is there and ends the page. */
static kv_status share_page(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t from = q->owned;
  int32_t page = w->where[tokens[n - 1]] / (int32_t)w->page_size;
  for (uint32_t i = 0; i < n; i++)
    if (w->where[tokens[i]] < 0) {
      w->tally.refilled++; /* dropped by itself, but a copy lies in this page */
      put_token(w, tokens[i], page, i);
    }
  kv_status st = kvs_row_add(w, q, tokens, n, true);
  q->reach = q->owned;
  if (!st && w->tell) st = list_slots(w, page, 0, n);
  kvs_world_tell(w, KVT_START, q->request, from, w->scratch, n, -1, -1);
  return st;
}

static kv_status copy_page(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t from = q->owned, off = from % w->page_size;
  int32_t page;
  kvs_world_own_call(w, q->request, n);
  kv_status st = page_ahead(w, q, &page);
  if (st) return st;
  for (uint32_t i = 0; i < n; i++)
    if (w->where[tokens[i]] < 0) put_token(w, tokens[i], page, off + i);
  w->tally.refilled += n;
  st = advance(w, q, page, tokens, n, true);
  if (!st && w->tell) st = list_slots(w, page, off, off + n);
  kvs_world_tell(w, KVT_ALLOC_EXTEND, q->request, from, w->scratch, n, -1, -1);
  return st;
}

static kv_status hit(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  kv_status st = KV_OK;
  bool told = q->owned > 0;
  for (uint32_t i = 0, m; i < n && !st; i += m) {
    uint32_t off = q->owned % w->page_size;
    m = w->page_size - off < n - i ? w->page_size - off : n - i;
    bool whole = m == w->page_size && w->where[tokens[i + m - 1]] % (int32_t)w->page_size == (int32_t)m - 1;
    if (!whole && !told) kvs_world_tell(w, KVT_START, q->request, 0, NULL, 0, -1, -1);
    told = true;
    st = whole ? share_page(w, q, tokens + i, m) : copy_page(w, q, tokens + i, m);
  }
  if (!told) kvs_world_tell(w, KVT_START, q->request, 0, NULL, 0, -1, -1);
  return st;
}

const kvs_placer kvs_place_pages = {append, tree, commit, release, hit, leave, drop};
