/* Fuzzes the what-if engine: a valid random server's events, some of them spoilt. Whatever comes, it must not crash, nor
 * touch what is not its own; what it accepts without a contradiction must add up.
 *
 * Bytes 0, 1: seed; byte 2: policy; byte 3: allocator, pool and the policy's own pool. Then four bytes a spoilt event:
 * two for which, one for the field, one for the value.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "synth.h"
#include "whatif.h"

#define ACTIONS 60u

static void spoil(kvs_tape *t, const uint32_t *slot_of, const uint8_t *b) {
  uint32_t i = (uint32_t)(b[0] | b[1] << 8) % (uint32_t)t->info.events;
  int32_t value = b[3] < 200 ? b[3] : (int32_t)(b[3] - 228) * 1000003;
  switch (b[2] % 8) {
    case 0: t->kind[i] = b[3] % (KVT_KINDS + 1); break;
    case 1: t->request[i] = value % 16 - 1; break;
    case 2: t->position[i] += (int32_t)b[3] - 128; break;
    case 3: t->length[i] += (int32_t)b[3] - 128; break;
    case 4: t->aux[i] = value % 8; break;
    default:
      if (t->count[i]) t->slot[slot_of[i] + b[2] / 8 % t->count[i]] = value;
      break;
  }
}

/* One event at a time, each checked for its form as a reader does. */
static kv_status play(kvs_whatif *f, const kvs_tape *t, const uint32_t *slot_of) {
  kvt_check check = {0};
  uint32_t step = 0, rows = 0;
  kv_status st = KV_OK;
  for (uint32_t i = 0; i < t->info.events && !st; i++) {
    bool begins = t->kind[i] == KVT_STEP;
    uint32_t number = step + begins;
    const kvt_batch b = {.first_event = i, .events = 1, .slots = t->count[i], .steps = begins, .kind = t->kind + i, .step = &number,
                         .request = t->request + i, .position = t->position + i, .length = t->length + i, .aux = t->aux + i,
                         .count = t->count + i, .slot = t->slot + slot_of[i],
                         .step_rows = t->row + (rows < t->info.steps ? rows : 0)};
    const kvt_check before = check;
    kv_error err;
    if (kvt_check_batch(&b, &t->info, "fuzz", &check, &err)) {
      check = before; /* refused for its form: the stream goes on without it */
      continue;
    }
    step = number;
    rows += begins;
    st = kvs_whatif_batch(f, &b, &err);
  }
  return st;
}

static void simulate(const uint8_t *data, const kvs_tape *t, const uint32_t *slot_of, bool spoilt) {
  kvs_whatif_options o = kvs_whatif_options_default();
  kvs_whatif *f;
  kv_error err;
  o.every = 1;
  o.detail_every = 3;
  o.cost[0] = (kvs_cost){.read_bandwidth = 1, .copy_bandwidth = 1};
  o.costs = 1;
  o.settings.budget = 16;
  o.settings.pass_gap = 2;
  o.settings.scatter_limit = 0;
  if (data[3] & 64) o.settings.capacity = t->info.pool_size / 64 * 48;
  if (kvs_whatif_create(&t->info, kvs_policies[data[2] % KVS_POLICIES], &o, NULL, &f, &err)) return;
  kv_status st = play(f, t, slot_of);
  if (!st) st = kvs_whatif_finish(f, &err);
  if (!spoilt && st && st != KV_END) abort();
  kvs_whatif_free(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const kvt_allocator kind[3] = {KVT_ALLOC_TOKEN, KVT_ALLOC_TOKEN_SORTED, KVT_ALLOC_OTHER};
  if (size < 4) return 0;
  kvs_action action[ACTIONS];
  kvs_tape t;
  const kvs_synth_options o = {.pattern = KVS_WORKLOAD, .seed = data[0] | (uint64_t)data[1] << 8, .pool = 128u << (data[3] >> 2 & 3),
                               .allocator = kind[(data[3] & 3) % 3]};
  kvs_actions_draw(o.seed, action, ACTIONS);
  if (kvs_synth_actions(&o, action, ACTIONS, &t, NULL)) return 0;
  uint32_t *slot_of = malloc(t.info.events * sizeof *slot_of + 1);
  for (uint32_t i = 0, at = 0; slot_of && i < t.info.events; at += t.count[i++]) slot_of[i] = at;
  for (size_t at = 4; slot_of && at + 4 <= size; at += 4) spoil(&t, slot_of, data + at);
  bool queued = data[3] & 128; /* as if vLLM's pool had been recorded, which it was not */
  if (queued) t.info.allocator = data[3] & 32 ? KVT_ALLOC_VLLM : KVT_ALLOC_VLLM_FRONT;
  if (slot_of) simulate(data, &t, slot_of, size >= 8 || queued);
  free(slot_of);
  kvs_tape_free(&t);
  return 0;
}
