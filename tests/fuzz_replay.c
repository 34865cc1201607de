/* Fuzzes the replay engine and the check of form: bytes become events, most of them nearly right, so that deep states
 * are reached; some are told as they come. Whatever happens, the engine must not crash, and the pool must add up.
 *
 * Byte 0: allocator, byte 1: pool size, byte 2: page size, byte 3: permissive. Then eight bytes an event: kind,
 * request, count, a mode, four bytes of raw numbers.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "trace_fixture.h"

#define REQUESTS 8

typedef struct fuzz_state {
  kvt_info info;
  kvs_replay *replay;
  kvt_check check;
  uint32_t step;
  int64_t time;
  uint64_t event;
} fuzz_state;

/* What the list hands out i-th. */
static int32_t nth(const kvs_freelist *l, uint32_t i) {
  if (i >= l->count) return (int32_t)i + 1;
  if (!l->after) return l->ring[(l->head + i) % l->capacity];
  int32_t page = l->after[0];
  while (i--) page = l->after[page];
  return page;
}

/* Slots that the allocator would really hand out, as far as it has them. */
static void likely_slots(const fuzz_state *s, int32_t *slots, uint32_t n) {
  const kvs_freelist *l = kvs_replay_get_freelist(s->replay);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t page = s->info.page_size;
    int32_t entry = nth(l, i / page);
    slots[i] = page > 1 ? entry * (int32_t)page + (int32_t)(i % page) : entry;
  }
}

/* Slots that the request's row ends with. */
static void row_slots(const fuzz_state *s, int32_t request, int32_t *slots, uint32_t *n, uint64_t *rows) {
  *rows = 0;
  for (uint32_t i = 0; i < kvs_replay_running(s->replay); i++) {
    int32_t id;
    const kvs_row *row = kvs_replay_row(s->replay, i, &id);
    if (id != request) continue;
    *rows = row->rows;
    if (*n > row->rows) *n = (uint32_t)row->rows;
    kvs_row_slots(row, row->rows - *n, *n, slots);
    return;
  }
}

static kv_status play(fuzz_state *s, const uint8_t *b) {
  int32_t slots[64], request = b[1] % (REQUESTS + 2) - 1, raw;
  memcpy(&raw, b + 4, sizeof raw);
  uint8_t kind = b[0] % (KVT_KINDS + 1);
  uint32_t n = b[2] % 16, own = n;
  uint64_t rows;
  const int mode = b[3];
  for (uint32_t i = 0; i < 64; i++) slots[i] = mode & 4 ? raw + (int32_t)i : b[4 + i % 4];
  row_slots(s, request, slots, &own, &rows);
  if (kind == KVT_FREE && mode & 1) n = own;
  if (kvt_is_alloc((kvt_kind)kind) && mode & 1) likely_slots(s, slots, n);
  int32_t position = mode & 2 ? (int32_t)rows : raw, length = mode & 8 ? (int32_t)n : raw, aux = mode & 16 ? raw : b[4] % 7;
  if (kind == KVT_START && mode & 2) position = 0;
  if (kind == KVT_STEP) s->step++, n = 0, aux = b[4] % 3;
  if (!(kvt_is_alloc((kvt_kind)kind) || kind == KVT_START || kind == KVT_COMMIT || kind == KVT_FREE || kind == KVT_REMAP) && mode & 32)
    n = 0;
  s->time += b[5];
  kvt_step row = {s->time, -1, -1, mode & 64 ? raw : -1, -1, -1, -1};
  kvt_batch batch = {.first_event = s->event++, .events = 1, .slots = n, .steps = kind == KVT_STEP, .more = (mode & 128) && kind == KVT_FREE,
                     .kind = &kind, .step = &s->step, .request = &request, .position = &position, .length = &length, .aux = &aux,
                     .count = &n, .slot = slots, .step_rows = &row};
  kvt_check before = s->check;
  kv_error err;
  kv_status st = kvt_check_batch(&batch, &s->info, "fuzz", &s->check, &err);
  if (st) {
    s->check = before;
    if (kind == KVT_STEP) s->step--;
    return KV_OK; /* refused for its form: the stream goes on without it */
  }
  return kvs_replay_batch(s->replay, &batch, &err);
}

static void must_add_up(const fuzz_state *s) {
  const kvs_pool *p = kvs_replay_get_pool(s->replay);
  uint64_t free = 0, held = 0, runs = 0, current = 0, longest = 0;
  for (uint32_t i = 0; i < p->size; i++) {
    const bool is_free = p->state[i] & KVS_FREE;
    free += is_free;
    runs += is_free && !current;
    current = is_free ? current + 1 : 0;
    if (current > longest) longest = current;
    held += (p->state[i] & KVS_REFS) != 0;
  }
  if (free != p->free || held != p->held || runs != p->free_runs || longest != kvs_pool_longest_free(p)) abort();
  const kvs_freelist *l = kvs_replay_get_freelist(s->replay);
  if (l->count > l->capacity || l->released > l->capacity) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 4) return 0;
  fuzz_state s = {.step = 0};
  uint32_t page = 1u << data[2] % 4, pool = page * (1 + data[1] % 64);
  s.info = fx_info((kvt_allocator)(data[0] % KVT_ALLOCATORS), pool, page);
  kvs_replay_options o = kvs_replay_options_default();
  o.name = "fuzz";
  o.permissive = data[3] & 1;
  o.bitmap_bytes = data[3] & 2 ? 0 : 1u << 16;
  o.milestone_rows = 2;
  if (kvs_replay_create(&s.info, &o, NULL, &s.replay, NULL)) return 0;
  kv_status st = KV_OK;
  for (size_t at = 4; at + 8 <= size && !st; at += 8) st = play(&s, data + at);
  if (!st) (void)kvs_replay_finish(s.replay, NULL);
  must_add_up(&s);
  kvs_replay_free(s.replay);
  return 0;
}
