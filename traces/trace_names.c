/* Names of the numbers in kvtrace-1, and the check of a batch for form. */
#include <stdio.h>
#include <string.h>

#include "trace.h"

static const char *const allocator_names[KVT_ALLOCATORS] = {"other", "sglang-token", "sglang-token-sorted",
                                                            "sglang-paged", "sglang-paged-sorted", "vllm", "vllm-front",
                                                            "sglang-paged-segment", "sglang-paged-segment-sorted"};
static const char *const kind_names[KVT_KINDS] = {
    NULL,          "STEP",   "ARRIVE", "START",  "ALLOC_EXTEND", "ALLOC_DECODE", "ALLOC_VERIFY", "COMMIT", "FREE",
    "REMAP",       "INSERT", "DRAFT_TEMP", "FINISH", "RETRACT",  "ALLOC_SPEC",   "ALLOC_CALL",   "CLEAR",  "MOVE"};
static const char *const reason_names[KVT_FREE_REASONS] = {"other", "reject",         "duplicate", "tail",
                                                           "evict", "overallocated", "retract"};

const char *kvt_allocator_name(kvt_allocator a) { return (unsigned)a < KVT_ALLOCATORS ? allocator_names[a] : NULL; }
const char *kvt_kind_name(kvt_kind kind) { return (unsigned)kind < KVT_KINDS ? kind_names[kind] : NULL; }
const char *kvt_free_reason_name(kvt_free_reason r) { return (unsigned)r < KVT_FREE_REASONS ? reason_names[r] : NULL; }

kv_status kvt_allocator_parse(const char *name, kvt_allocator *allocator, kv_error *err) {
  for (unsigned i = 0; i < KVT_ALLOCATORS; i++)
    if (!strcmp(name, allocator_names[i])) {
      *allocator = (kvt_allocator)i;
      return KV_OK;
    }
  return kv_fail(err, KV_ERR_USAGE,
                 "allocator '%s' is unknown; known are other, sglang-token, sglang-token-sorted, sglang-paged, "
                 "sglang-paged-sorted, vllm, vllm-front, sglang-paged-segment, sglang-paged-segment-sorted",
                 name);
}

bool kvt_allocator_fits(kvt_allocator allocator, uint32_t page_size) {
  return page_size == 1 || (allocator != KVT_ALLOC_TOKEN && allocator != KVT_ALLOC_TOKEN_SORTED);
}

bool kvt_allocator_queues(kvt_allocator allocator) {
  return allocator == KVT_ALLOC_VLLM || allocator == KVT_ALLOC_VLLM_FRONT;
}

bool kvt_is_alloc(kvt_kind kind) {
  return kind == KVT_ALLOC_EXTEND || kind == KVT_ALLOC_DECODE || kind == KVT_ALLOC_VERIFY || kind == KVT_ALLOC_SPEC;
}

kvt_event kvt_batch_event(const kvt_batch *b, uint32_t i, uint32_t slot) {
  return (kvt_event){.kind = (kvt_kind)b->kind[i],
                     .step = b->step[i],
                     .request = b->request[i],
                     .position = b->position[i],
                     .length = b->length[i],
                     .aux = b->aux[i],
                     .count = b->count[i],
                     .slots = b->slot + slot};
}

/* Kinds without a request of their own. */
static bool is_global(kvt_kind kind) {
  return kind == KVT_STEP || kind == KVT_ALLOC_CALL || kind == KVT_CLEAR || kind == KVT_DRAFT_TEMP || kind == KVT_MOVE;
}

static bool may_hold_slots(kvt_kind kind) {
  return kvt_is_alloc(kind) || kind == KVT_START || kind == KVT_COMMIT || kind == KVT_FREE || kind == KVT_REMAP ||
         kind == KVT_MOVE;
}

/* NULL when the event is in order, else what is wrong with it; *column is the dataset at fault. */
static const char *event_fault(const kvt_event *e, const kvt_info *info, uint64_t steps, const char **column) {
  *column = "kind";
  if (e->kind == 0 || e->kind >= KVT_KINDS) return "no such event kind";
  *column = "step";
  if (e->step != steps) return "not the number of the STEP event before it";
  *column = "request";
  if (e->request < -1 || (e->request >= 0 && (uint64_t)e->request >= info->requests))
    return "not a row of /requests";
  if (e->request < 0 && !is_global(e->kind) && e->kind != KVT_FREE) return "this kind of event needs a request";
  *column = "count";
  if (e->count && !may_hold_slots(e->kind)) return "this kind of event has no slots";
  if (e->count > (e->kind == KVT_MOVE ? 4ull : 1ull) * info->pool_size) return "more slots than the pool has";
  *column = "position";
  if (e->position < -1 || (int64_t)e->position + e->count > INT32_MAX) return "out of range";
  if (e->position < 0 && (kvt_is_alloc(e->kind) || e->kind == KVT_COMMIT || e->kind == KVT_REMAP))
    return "this kind of event needs a position";
  *column = "length";
  if (e->length < -1) return "out of range";
  *column = "aux";
  if (e->kind == KVT_FREE && (e->aux < 0 || e->aux >= KVT_FREE_REASONS)) return "no such reason to free";
  if (e->kind == KVT_STEP && (e->aux < 0 || e->aux > KVT_STEP_DECODE)) return "no such step type";
  return NULL;
}

kv_status kvt_check_batch(const kvt_batch *b, const kvt_info *info, const char *path, kvt_check *state, kv_error *err) {
  uint64_t slots = 0;
  uint32_t steps = 0;
  for (uint32_t i = 0; i < b->events; i++) {
    kvt_event e = kvt_batch_event(b, i, 0);
    const char *column, *fault;
    if (e.kind == KVT_STEP) {
      state->steps_seen++;
      if (steps >= b->steps) return kv_fail(err, KV_ERR_INPUT, "%s: /steps has fewer rows than STEP events", path);
      const kvt_step *row = &b->step_rows[steps++];
      if (state->steps_seen > 1 && row->time_us < state->last_time_us)
        return kv_fail(err, KV_ERR_INPUT, "%s: /steps/time[%llu]: time runs backwards (%lld after %lld us)", path,
                       (unsigned long long)state->steps_seen - 1, (long long)row->time_us,
                       (long long)state->last_time_us);
      state->last_time_us = row->time_us;
    }
    fault = event_fault(&e, info, state->steps_seen, &column);
    if (fault)
      return kv_fail(err, KV_ERR_INPUT, "%s: /events/%s[%llu]: %s (%s, step %u, request %d)", path, column,
                     (unsigned long long)(b->first_event + i), fault,
                     kvt_kind_name(e.kind) ? kvt_kind_name(e.kind) : "?", e.step, e.request);
    slots += e.count;
  }
  if (slots != b->slots)
    return kv_fail(err, KV_ERR_INPUT, "%s: /events/count: counts do not add up to the slots given", path);
  return KV_OK;
}
