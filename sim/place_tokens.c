/* A slot a token, wherever the policy says; and the same with the slots of a verify block kept by the request. */
#include <string.h>

#include "policy.h"

const kvs_placer *kvs_placer_of(const kvs_world *w) {
  return w->placement == KVS_PAGES ? &kvs_place_pages : w->placement == KVS_COMPACT ? &kvs_place_compact : &kvs_place_tokens;
}

kv_status kvs_settle(kvs_world *w, const int32_t *tokens, uint32_t n) {
  kv_status st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  if (st) return st;
  if (!kvs_world_ensure(w, n)) return KV_END;
  if (w->identity)
    memcpy(w->scratch, tokens, n * sizeof *tokens);
  else
    w->policy->take(w, n, w->scratch);
  for (uint32_t i = 0; i < n; i++) w->where[tokens[i]] = w->scratch[i];
  for (uint32_t i = 0; i < n && w->tenant; i++) w->tenant[w->scratch[i]] = tokens[i];
  for (uint32_t i = 0; i < n && w->follow; i++) w->tally.mismatches += w->scratch[i] != tokens[i];
  w->resident += n;
  return KV_OK;
}

static kv_status append(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, bool commit) {
  uint32_t position = q->owned;
  kv_status st = kvs_settle(w, tokens, n);
  if (!st) st = kvs_row_add(w, q, tokens, n, commit);
  if (!st) kvs_world_tell(w, w->current.kind, q->request, position, w->scratch, n, -1, w->current.aux);
  return st;
}

static kv_status tree(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  kv_status st = kvs_settle(w, tokens, n);
  if (!st) kvs_world_tell(w, KVT_ALLOC_VERIFY, q->request, q->owned, w->scratch, n, -1, w->current.aux);
  return st;
}

static kv_status commit(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t position = q->rows;
  kv_status st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  if (!st) st = kvs_row_add(w, q, tokens, n, true);
  if (st) return st;
  for (uint32_t i = 0; i < n && w->tell; i++) w->scratch[i] = w->where[tokens[i]];
  kvs_world_tell(w, KVT_COMMIT, q->request, position, w->scratch, n, (int32_t)n, -1);
  return KV_OK;
}

static kv_status release(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, kvt_free_reason reason) {
  kv_status st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  uint32_t m = 0;
  (void)q;
  if (st) return st;
  for (uint32_t i = 0; i < n; i++) {
    int32_t slot = w->where[tokens[i]];
    w->where[tokens[i]] = KVS_NO_TOKEN;
    if (slot >= 0) w->scratch[m++] = slot;
  }
  for (uint32_t i = 0; i < n && w->next; i++) kvs_world_unlink_idle(w, tokens[i]);
  for (uint32_t i = 0; i < m && w->tenant; i++) w->tenant[w->scratch[i]] = -1;
  w->resident -= m;
  if (m && !w->identity) w->policy->give(w, w->scratch, m);
  if (m) kvs_world_tell(w, KVT_FREE, w->current.request, UINT32_MAX, w->scratch, m, w->current.length, (int32_t)reason);
  return KV_OK;
}

static kv_status share(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t position = q->owned;
  kv_status st = kvs_row_add(w, q, tokens, n, true);
  if (!st && w->tell) st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  for (uint32_t i = 0; i < n && w->tell && !st; i++) w->scratch[i] = w->where[tokens[i]];
  kvs_world_tell(w, KVT_START, q->request, position, w->scratch, n, -1, -1);
  return st;
}

static kv_status refill(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t position = q->owned;
  kvs_world_own_call(w, q->request, n);
  kv_status st = kvs_settle(w, tokens, n);
  if (!st) st = kvs_row_add(w, q, tokens, n, true);
  if (!st) kvs_world_tell(w, KVT_ALLOC_EXTEND, q->request, position, w->scratch, n, -1, -1);
  w->tally.refilled += n;
  return st;
}

static kv_status hit(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  kv_status st = KV_OK;
  if (!n && !q->owned) kvs_world_tell(w, KVT_START, q->request, 0, NULL, 0, -1, -1);
  for (uint32_t i = 0, m; i < n && !st; i += m) {
    bool here = w->where[tokens[i]] >= 0;
    for (m = 1; i + m < n && (w->where[tokens[i + m]] >= 0) == here; m++) continue;
    if (i == 0 && !here && !q->owned) kvs_world_tell(w, KVT_START, q->request, 0, NULL, 0, -1, -1);
    st = here ? share(w, q, tokens + i, m) : refill(w, q, tokens + i, m);
  }
  return st;
}

static kv_status leave(kvs_world *w, kvs_holder *q) {
  (void)w, (void)q;
  return KV_OK;
}

static kv_status drop(kvs_world *w, const int32_t *tokens, uint32_t n) {
  kv_status st = kvs_reserve(&w->scratch, &w->scratch_room, n, w->err);
  for (uint32_t i = 0; i < n && !st; i++) {
    w->scratch[i] = w->where[tokens[i]];
    w->where[tokens[i]] = KVS_EVICTED;
    if (w->tenant) w->tenant[w->scratch[i]] = -1;
  }
  if (st) return st;
  w->resident -= n;
  w->policy->give(w, w->scratch, n);
  kvs_world_tell(w, KVT_FREE, -1, UINT32_MAX, w->scratch, n, -1, KVT_FREE_EVICT);
  return KV_OK;
}

const kvs_placer kvs_place_tokens = {append, tree, commit, release, hit, leave, drop};

/* ---- verify blocks that stay with the request (speculation v2) ---- */

/* SGLang tops a request up to two blocks behind its row each step. */
#define AHEAD 2u

static kv_status top_up(kvs_world *w, kvs_holder *q, uint32_t want) {
  if (q->spare_n >= want) return KV_OK;
  uint32_t n = want - q->spare_n;
  kv_status st = kvs_reserve(&q->spare, &q->spare_room, want, w->err);
  if (st) return st;
  if (!kvs_world_ensure(w, n)) return KV_END;
  w->policy->take(w, n, q->spare + q->spare_n);
  kvs_world_tell(w, KVT_ALLOC_SPEC, q->request, q->owned + q->spare_n, q->spare + q->spare_n, n, -1, w->current.aux);
  q->spare_n = want;
  return KV_OK;
}

static kv_status compact_tree(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  if (q->owned != q->rows) return kv_fail(w->err, KV_ERR_INPUT, "a verify block behind slots that were allocated ahead");
  kv_status st = kvs_reserve(&q->block, &q->block_room, (uint64_t)q->block_n + n, w->err);
  if (!st && q->spare_n < q->block_n + n) st = top_up(w, q, q->block_n + n);
  if (!st && !q->block_n) {
    /* the second block is wanted only as far as there is room for it */
    uint32_t most = w->policy->available(w) + q->spare_n;
    st = top_up(w, q, AHEAD * n < most ? AHEAD * n : q->spare_n);
  }
  if (st) return st;
  for (uint32_t i = 0; i < n; i++) w->where[tokens[i]] = q->spare[q->block_n + i];
  memcpy(q->block + q->block_n, tokens, n * sizeof *tokens);
  q->block_n += n;
  w->resident += n;
  return KV_OK;
}

static bool in_block(const kvs_holder *q, int32_t token) {
  for (uint32_t i = 0; i < q->block_n; i++)
    if (q->block[i] == token) return true;
  return false;
}

static void close_block(kvs_world *w, kvs_holder *q) {
  for (uint32_t i = 0; i < q->block_n; i++) {
    if (w->where[q->block[i]] < 0) continue;
    w->where[q->block[i]] = KVS_EVICTED;
    w->resident--;
  }
  q->block_n = 0;
}

static kv_status compact_commit(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n) {
  uint32_t position = q->rows;
  for (uint32_t i = 0; i < n; i++) {
    if (!in_block(q, tokens[i]) || w->where[tokens[i]] < 0)
      return kv_fail(w->err, KV_ERR_INPUT, "commits slot %d, which is not of its open verify block", tokens[i]);
    w->tally.copied += w->where[tokens[i]] != q->spare[i];
  }
  close_block(w, q);
  for (uint32_t i = 0; i < n; i++) w->where[tokens[i]] = q->spare[i];
  w->resident += n;
  q->spare_n -= n;
  memmove(q->spare, q->spare + n, q->spare_n * sizeof *q->spare);
  kvs_world_tell(w, KVT_COMMIT, q->request, position, NULL, 0, (int32_t)n, -1);
  return kvs_row_add(w, q, tokens, n, true);
}

static kv_status compact_release(kvs_world *w, kvs_holder *q, const int32_t *tokens, uint32_t n, kvt_free_reason reason) {
  if (reason != KVT_FREE_REJECT || !q) return release(w, q, tokens, n, reason);
  for (uint32_t i = 0; i < n; i++) {
    if (w->where[tokens[i]] >= 0) {
      if (!in_block(q, tokens[i])) return kv_fail(w->err, KV_ERR_INPUT, "rejects slot %d, which is not of its open verify block", tokens[i]);
      w->resident--;
    }
    w->where[tokens[i]] = KVS_NO_TOKEN;
  }
  return KV_OK;
}

static kv_status compact_leave(kvs_world *w, kvs_holder *q) {
  close_block(w, q);
  if (!q->spare_n) return KV_OK;
  w->policy->give(w, q->spare, q->spare_n);
  kvs_world_tell(w, KVT_FREE, q->request, UINT32_MAX, q->spare, q->spare_n, -1, KVT_FREE_OVER);
  q->spare_n = 0;
  return KV_OK;
}

const kvs_placer kvs_place_compact = {append, compact_tree, compact_commit, compact_release, hit, compact_leave, drop};
