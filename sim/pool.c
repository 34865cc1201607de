#include "pool.h"

#include <stdlib.h>
#include <string.h>

kv_status kvs_pool_init(kvs_pool *p, const kvt_info *info, kv_error *err) {
  *p = (kvs_pool){.first = info->first_slot, .size = info->pool_size};
  p->owner = malloc(p->size * sizeof *p->owner);
  p->state = malloc(p->size * sizeof *p->state);
  p->block_free = calloc(p->size / 64 + 1, 1);
  if (!p->owner || !p->state || !p->block_free) {
    kvs_pool_fini(p);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", info->pool_size);
  }
  kvs_pool_clear(p);
  return KV_OK;
}

void kvs_pool_fini(kvs_pool *p) {
  free(p->owner);
  free(p->state);
  free(p->block_free);
  *p = (kvs_pool){0};
}

void kvs_pool_clear(kvs_pool *p) {
  memset(p->owner, 0xff, p->size * sizeof *p->owner);
  for (uint32_t i = 0; i < p->size; i++) p->state[i] = KVS_FREE;
  memset(p->block_free, 0, p->size / 64 + 1);
  kvs_pool_count_blocks(p, 0, p->size, 1);
  p->free = p->size;
  p->free_runs = 1;
  p->held = 0;
}

void kvs_pool_free_only(kvs_pool *p, const int32_t *entries, uint32_t n, uint32_t page_size) {
  memset(p->state, 0, p->size * sizeof *p->state);
  memset(p->block_free, 0, p->size / 64 + 1);
  p->free = p->free_runs = 0;
  for (uint32_t e = 0; e < n; e++) kvs_pool_give_page(p, entries[e], page_size);
}

void kvs_pool_give_page(kvs_pool *p, int32_t page, uint32_t page_size) {
  const int32_t first = page * (int32_t)page_size;
  for (uint32_t k = 0, n; k < page_size; k += n) {
    const bool is_free = kvs_pool_is_free(p, first + (int32_t)k);
    for (n = 1; k + n < page_size && kvs_pool_is_free(p, first + (int32_t)(k + n)) == is_free;) n++;
    if (!is_free) (void)kvs_pool_give_run(p, first + (int32_t)k, n, true);
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
static uint64_t walk(uint64_t mask, uint64_t current, uint64_t *longest) {
  uint32_t at = 0;
  while (mask) {
    uint32_t gap = (uint32_t)__builtin_ctzll(mask);
    if (gap) current = 0;
    mask >>= gap;
    uint32_t ones = ~mask ? (uint32_t)__builtin_ctzll(~mask) : 64;
    current += ones;
    if (current > *longest) *longest = current;
    at += gap + ones;
    mask = ones < 64 ? mask >> ones : 0;
  }
  return at < 64 ? 0 : current;
}

uint64_t kvs_pool_longest_free(const kvs_pool *p) {
  const uint32_t blocks = p->size / 64;
  uint64_t current = 0, longest = 0, rest = 0;
  for (uint32_t b = 0; b < blocks; b++) {
    const uint32_t here = p->block_free[b], next = b + 1 <= blocks ? p->block_free[b + 1] : 0;
    if (here == 64) {
      current += 64;
      if (current > longest) longest = current;
    } else if (current + here > longest || here + next > longest || next == 64) {
      current = walk(free_mask(p->state + (size_t)b * 64), current, &longest);
    } else {
      current = 0; /* nothing longer begins, ends or passes here */
    }
  }
  for (uint32_t k = blocks * 64; k < p->size; k++) rest |= (uint64_t)(p->state[k] >> 15) << (k - blocks * 64);
  (void)walk(rest, current, &longest);
  return longest;
}

double kvs_fragmentation(uint64_t longest, uint64_t free) {
  return free ? 1.0 - (double)longest / (double)free : 0.0;
}
