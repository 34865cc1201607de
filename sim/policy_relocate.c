/* Relocation: tokens are copied to other slots between steps, so that rows lie in order again. Free slots are handed
 * out lowest first, as policy `sorted` does: compare with that one to see what the copying itself buys.
 *
 *   full  when the broken neighbours of the running rows exceed scatter_limit (and pass_gap steps have gone by):
 *         every running row in turn is laid out from the pool's start, what is idle slides behind, the free slots end
 *         up in one piece.
 *   step  each step up to `budget` rows are copied, for the running row with the most breaks: its next token goes
 *         behind the one before it, whoever is idle there takes its place (an exchange: two copies).
 *   idle  the same, but only for rows of requests that have finished: the prefixes that later turns hit.
 */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define LOOK 16u        /* positions looked at for each row that may be moved */
#define WINDOW_LEAST 64u /* a stretch of movable slots worth beginning anew in */

static bool movable(const kvs_world *w, int32_t slot) {
  if (slot < (int32_t)w->page_size || (uint32_t)slot >= w->page_size + w->capacity) return false;
  int32_t tenant = w->tenant[slot];
  return tenant >= 0 ? w->refs[tenant] == 0 : kvs_free_set_has(w, slot);
}

/* The start of the longest stretch of slots that are free or idle; *length is its length. */
static int32_t widest(const kvs_world *w, uint32_t enough, uint32_t *length) {
  int32_t best = -1, end = (int32_t)(w->page_size + w->capacity), start = (int32_t)w->page_size;
  *length = 0;
  for (int32_t s = start; s < end; s++) {
    if (!movable(w, s)) {
      start = s + 1;
    } else if ((uint32_t)(s + 1 - start) > *length) {
      *length = (uint32_t)(s + 1 - start);
      best = start;
      if (*length >= enough) break;
    }
  }
  return best;
}

/* ---- a full pass ---- */

/* A row that changes its slot counts as one copy. The one more that each cycle of exchanges needs (a row set aside) is
 * left out: cycles are few, about the logarithm of the rows in a random order. */
/* The same as a sequence of exchanges, for a trace. */
static void lay_out_by_exchanges(kvs_world *w, const int32_t *plan, uint32_t n) {
  uint64_t moved = w->tally.moved;
  for (uint32_t i = 0; i < n; i++) moved += w->where[plan[i]] != (int32_t)(w->page_size + i);
  for (uint32_t i = 0; i < n; i++) kvs_world_swap(w, plan[i], (int32_t)(w->page_size + i));
  w->tally.moved = moved;
}

static void lay_out(kvs_world *w, int32_t *plan) {
  uint32_t n = 0, end = w->page_size + w->capacity;
  uint64_t *seen = (uint64_t *)(void *)(plan + (w->capacity + 1u) / 2 * 2), words = end / 64 + 1;
  memset(seen, 0, words * sizeof *seen);
  for (uint32_t i = 0; i < w->running_n; i++)
    for (uint32_t p = 0; p < w->running[i]->owned; p++) {
      int32_t id = w->running[i]->token[p], slot = w->where[id];
      if (slot < 0 || seen[slot / 64] >> (slot % 64) & 1) continue;
      seen[slot / 64] |= 1ull << (slot % 64);
      plan[n++] = id;
    }
  for (uint32_t s = w->page_size; s < end; s++)
    if (w->tenant[s] >= 0 && !(seen[s / 64] >> (s % 64) & 1)) plan[n++] = w->tenant[s];
  if (w->tell) {
    lay_out_by_exchanges(w, plan, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    w->tally.moved += w->where[plan[i]] != (int32_t)(w->page_size + i);
    w->where[plan[i]] = (int32_t)(w->page_size + i);
  }
  for (uint32_t s = w->page_size; s < end; s++) {
    w->tenant[s] = s - w->page_size < n ? plan[s - w->page_size] : -1;
    if (kvs_free_set_has(w, (int32_t)s) != (w->tenant[s] < 0)) kvs_free_set_put(w, (int32_t)s, w->tenant[s] < 0);
  }
}

static void full_step(kvs_world *w) {
  uint64_t rows = 0, breaks = 0;
  for (uint32_t i = 0; i < w->running_n; i++) {
    rows += w->running[i]->rows;
    breaks += w->running[i]->breaks;
  }
  if ((double)breaks <= w->settings.scatter_limit * (double)rows || w->step < w->last_pass + w->settings.pass_gap) return;
  /* a slot may be neither free nor a token's: a verify block that is still open keeps the pass waiting */
  if (w->resident + w->free_n != w->capacity) return;
  size_t bytes = ((size_t)w->capacity + 2) * sizeof(int32_t) + ((w->page_size + w->capacity) / 64 + 2) * sizeof(uint64_t);
  int32_t *plan = malloc(bytes);
  if (!plan) return;
  lay_out(w, plan);
  free(plan);
  w->tally.passes++;
  w->last_pass = w->step;
  kvs_world_stale(w);
}

/* ---- in steps ---- */

static bool breaks_at(const kvs_world *w, const kvs_holder *q, uint32_t p) {
  return p > 0 && p < q->rows && w->where[q->token[p]] != w->where[q->token[p - 1]] + 1;
}

static void move_token(kvs_world *w, kvs_holder *q, uint32_t p, int32_t to) {
  int32_t id = q->token[p];
  uint32_t before = (uint32_t)breaks_at(w, q, p) + breaks_at(w, q, p + 1);
  if (w->refs[id] > 1) kvs_world_stale(w);
  kvs_world_swap(w, id, to);
  q->breaks += (uint64_t)breaks_at(w, q, p) + breaks_at(w, q, p + 1);
  q->breaks -= before;
}

static kvs_holder *worst(const kvs_world *w) {
  kvs_holder *q = NULL;
  for (uint32_t i = 0; i < w->running_n; i++) {
    kvs_holder *h = w->running[i];
    if (h->cursor < h->rows && h->breaks && (!q || h->breaks > q->breaks)) q = h;
  }
  return q;
}

static uint32_t straighten(kvs_world *w, kvs_holder *q, uint32_t budget) {
  uint32_t p = q->cursor ? q->cursor : 1, looks = 0;
  uint64_t limit = w->tally.moved + budget;
  bool searched = false;
  for (; p < q->rows && w->tally.moved + 1 < limit && looks < LOOK * budget; p++, looks++) {
    int32_t here = w->where[q->token[p]], to = w->where[q->token[p - 1]] + 1;
    if (here == to || here < 0 || to <= 0) continue;
    if (!movable(w, to)) {
      uint32_t length;
      if (searched || q->rows - p < WINDOW_LEAST) continue;
      to = widest(w, q->rows - p, &length);
      searched = true;
      if (to < 0 || length < WINDOW_LEAST) continue;
    }
    move_token(w, q, p, to);
  }
  q->cursor = p;
  return looks;
}

static void step_step(kvs_world *w) {
  uint64_t end = w->tally.moved + w->settings.budget;
  uint32_t looks = 0, most = LOOK * w->settings.budget;
  if (!w->running_n) return;
  if (w->step % 256 == 0) /* others have left since: what was in the way may be free */
    for (uint32_t i = 0; i < w->running_n; i++)
      if (w->running[i]->cursor >= w->running[i]->rows && w->running[i]->breaks > w->running[i]->rows / WINDOW_LEAST) w->running[i]->cursor = 0;
  for (kvs_holder *q; w->tally.moved + 1 < end && looks < most && (q = worst(w));) {
    if (q->stale) kvs_world_recount(w, q);
    looks += straighten(w, q, (uint32_t)(end - w->tally.moved)) + 1;
  }
}

/* ---- only idle rows ---- */

static void enqueue(kvs_world *w, int32_t id) {
  uint32_t room = w->info.pool_size + 1;
  if (w->queue_n == room) { /* the oldest wait in vain */
    w->queue_first = w->queue_first + 1 == room ? 0 : w->queue_first + 1;
    w->queue_n--;
  }
  uint64_t at = (uint64_t)w->queue_first + w->queue_n++;
  w->queue[at < room ? at : at - room] = id;
}

static void idle_finished(kvs_world *w, const kvs_holder *q) {
  if (!w->queue || q->rows < 2 || (double)q->breaks <= w->settings.scatter_limit * (double)q->rows) return;
  enqueue(w, -1);
  for (uint32_t p = 0; p < q->rows; p++) enqueue(w, q->token[p]);
}

static void idle_step(kvs_world *w) {
  uint64_t end = w->tally.moved + w->settings.budget;
  uint32_t room = w->info.pool_size + 1, looks = LOOK * w->settings.budget, length;
  bool searched = false;
  while (w->queue_n && w->tally.moved + 1 < end && looks--) {
    int32_t id = w->queue[w->queue_first];
    w->queue_first = w->queue_first + 1 == room ? 0 : w->queue_first + 1;
    w->queue_n--;
    if (id < 0 || w->where[id] < 0 || w->refs[id]) {
      w->queue_before = id < 0 ? -1 : w->where[id];
      continue;
    }
    int32_t to = w->queue_before + 1;
    if (w->queue_before >= 0 && w->where[id] != to) {
      if (!movable(w, to) && !searched) {
        to = widest(w, WINDOW_LEAST * 16, &length);
        searched = true;
        if (length < WINDOW_LEAST) to = -1;
      }
      if (to > 0 && movable(w, to)) kvs_world_swap(w, id, to);
    }
    w->queue_before = w->where[id];
  }
}

static kv_status idle_open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  free(w->queue);
  w->queue = malloc(((size_t)w->info.pool_size + 1) * sizeof *w->queue);
  w->queue_before = -1;
  w->queue_first = w->queue_n = 0;
  return w->queue ? kvs_free_set_open(w, initial, n, err)
                  : kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", w->capacity);
}

#define RELOCATION                                                                                                \
  .placement = KVS_TOKENS, .page_size = 1, .moves = true, .take = kvs_free_set_take, .give = kvs_free_set_give,   \
  .available = kvs_free_set_available

const kvs_policy kvs_policy_relocate_full = {
    .name = "relocate-full", .summary = "a full pass lays out every row anew when scatter passes a limit",
    .open = kvs_free_set_open, .step_end = full_step, RELOCATION};
const kvs_policy kvs_policy_relocate_step = {
    .name = "relocate-step", .summary = "each step a few rows of the most scattered request are moved together",
    .open = kvs_free_set_open, .step_end = step_step, RELOCATION};
const kvs_policy kvs_policy_relocate_idle = {
    .name = "relocate-idle", .summary = "each step a few rows of finished requests are moved together, running ones never",
    .open = idle_open, .step_end = idle_step, .finished = idle_finished, RELOCATION};
