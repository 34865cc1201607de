#include "pool.h"

#include <stdlib.h>
#include <string.h>

kv_status kvs_pool_init(kvs_pool *p, const kvt_info *info, kv_error *err) {
  *p = (kvs_pool){.first = info->first_slot, .size = info->pool_size};
  p->owner = malloc(p->size * sizeof *p->owner);
  p->state = malloc(p->size * sizeof *p->state);
  if (!p->owner || !p->state) {
    kvs_pool_fini(p);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", info->pool_size);
  }
  kvs_pool_clear(p);
  return KV_OK;
}

void kvs_pool_fini(kvs_pool *p) {
  free(p->owner);
  free(p->state);
  *p = (kvs_pool){0};
}

void kvs_pool_clear(kvs_pool *p) {
  memset(p->owner, 0xff, p->size * sizeof *p->owner);
  for (uint32_t i = 0; i < p->size; i++) p->state[i] = KVS_FREE;
  p->free = p->size;
  p->held = 0;
}

void kvs_pool_free_only(kvs_pool *p, const int32_t *entries, uint32_t n, uint32_t page_size) {
  memset(p->state, 0, p->size * sizeof *p->state);
  p->free = 0;
  for (uint32_t e = 0; e < n; e++) kvs_pool_give_page(p, entries[e], page_size);
}

void kvs_pool_give_page(kvs_pool *p, int32_t page, uint32_t page_size) {
  uint16_t *state = p->state + ((uint32_t)page * page_size - p->first);
  for (uint32_t k = 0; k < page_size; k++) {
    p->free += !(state[k] & KVS_FREE);
    state[k] |= (uint16_t)KVS_FREE;
  }
}

/* Bit k: slot k of the 64 is free. The free bits of four words are brought together by one multiplication. */
static uint64_t free_mask(const uint16_t *state) {
  uint64_t mask = 0;
  for (uint32_t k = 0; k < 64; k += 4) {
    uint64_t four;
    memcpy(&four, state + k, sizeof four);
    uint64_t bits = (four >> 15) & 0x0001000100010001ull;
    mask |= ((bits * 0x0001000200040008ull) >> 48 & 15) << k;
  }
  return mask;
}

/* Goes on with a free run of `current` slots through 64 more, of which `mask` are free. */
static uint32_t walk(uint64_t mask, uint32_t current, uint64_t *runs, uint64_t *longest) {
  uint32_t at = 0;
  while (mask) {
    uint32_t gap = (uint32_t)__builtin_ctzll(mask);
    if (gap) current = 0;
    mask >>= gap;
    uint32_t ones = ~mask ? (uint32_t)__builtin_ctzll(~mask) : 64;
    *runs += !current;
    current += ones;
    if (current > *longest) *longest = current;
    at += gap + ones;
    mask = ones < 64 ? mask >> ones : 0;
  }
  return at < 64 ? 0 : current;
}

void kvs_pool_free_runs(const kvs_pool *p, uint64_t *runs, uint64_t *longest) {
  uint32_t current = 0, i = 0;
  *runs = *longest = 0;
  for (; i + 64 <= p->size; i += 64) {
    uint16_t any = 0;
    for (uint32_t k = 0; k < 64; k++) any |= p->state[i + k];
    current = any & KVS_FREE ? walk(free_mask(p->state + i), current, runs, longest) : 0;
  }
  uint64_t rest = 0;
  for (uint32_t k = 0; i + k < p->size; k++) rest |= (uint64_t)(p->state[i + k] >> 15) << k;
  (void)walk(rest, current, runs, longest);
}

double kvs_fragmentation(uint64_t longest, uint64_t free) {
  return free ? 1.0 - (double)longest / (double)free : 0.0;
}
