/* pool.h - the state of every slot: free or allocated, who allocated it last, how many running rows hold it.
 *
 * Ownership is counted, never assumed exclusive: prefix caching lets many rows hold a slot. A slot is
 *   free    in the allocator's lists,
 *   live    allocated and held by the row of at least one running request, or part of its open draft tree,
 *   cached  allocated and held by none: it belongs to the prefix cache.
 * The functions work on runs [start, start + length) of slot numbers. This is the innermost loop of a replay: state is
 * one 16-bit word a slot, and the functions are inline.
 */
#ifndef KVS_POOL_H
#define KVS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"
#include "trace.h"

/* state: the free bit, and the number of rows that hold the slot (a freed slot may still be held for a moment: SGLang
 * frees duplicates before it rewrites the row). */
#define KVS_FREE 0x8000u
#define KVS_REFS 0x7fffu
#define KVS_REFS_MOST 0x7ffeu

typedef struct kvs_pool {
  uint32_t first, size;
  int32_t *owner;  /* [size] request that allocated the slot last, -1 none yet */
  uint16_t *state; /* [size] */
  uint8_t *block_free; /* [size / 64 + 1] free slots in each block of 64 */
  uint64_t free;       /* slots */
  uint64_t free_runs;  /* stretches of free slots by address */
  uint64_t held;       /* slots that at least one row holds */
} kvs_pool;

/* All slots free. KV_ERR_MEMORY. */
kv_status kvs_pool_init(kvs_pool *pool, const kvt_info *info, kv_error *err);
/* Marks everything allocated first, then the listed slots (or pages) free: an initial list that is not the whole pool. */
void kvs_pool_free_only(kvs_pool *pool, const int32_t *entries, uint32_t n, uint32_t page_size);
void kvs_pool_fini(kvs_pool *pool);
/* Everything free again, nobody holds anything. */
void kvs_pool_clear(kvs_pool *pool);
/* Frees whatever of a page is still allocated. */
void kvs_pool_give_page(kvs_pool *pool, int32_t page, uint32_t page_size);

/* The longest stretch of free slots by address. Looks only at blocks that could hold a longer one than found so far. */
uint64_t kvs_pool_longest_free(const kvs_pool *pool);

/* The fragmentation index: 1 - longest free run / free slots, by address; 0 when nothing is free. 0: all free slots
 * form one run; towards 1: no large piece is left. It says nothing about the order in which slots are handed out. */
double kvs_fragmentation(uint64_t longest, uint64_t free);

static inline bool kvs_pool_has(const kvs_pool *pool, int32_t slot) {
  return (uint32_t)slot - pool->first < pool->size; /* a negative slot wraps and fails */
}
/* The slot must be in the pool. */
static inline bool kvs_pool_is_free(const kvs_pool *pool, int32_t slot) {
  return pool->state[(uint32_t)slot - pool->first] & KVS_FREE;
}
static inline uint32_t kvs_pool_refs(const kvs_pool *pool, int32_t slot) {
  return pool->state[(uint32_t)slot - pool->first] & KVS_REFS;
}

/* Length of the run that begins at slots[0] (n >= 1). */
static inline uint32_t kvs_run_of(const int32_t *slots, uint32_t n) {
  uint32_t i = 1;
  /* Eight at a time: long runs are the common case where the pool is young. uint32_t arithmetic: a damaged trace may
   * hold INT32_MAX. */
  const uint32_t *s = (const uint32_t *)slots;
  while (i + 8 <= n) {
    uint32_t differ = 0;
    for (uint32_t k = 0; k < 8; k++) differ |= (s[i + k] - s[i + k - 1]) ^ 1u;
    if (differ) break;
    i += 8;
  }
  while (i < n && s[i] == s[i - 1] + 1) i++;
  return i;
}

/* Slots of a run that lie in the pool, from its start: `length` when all do. */
static inline uint32_t kvs_pool_inside(const kvs_pool *pool, int32_t start, uint32_t length) {
  uint32_t at = (uint32_t)start - pool->first;
  return at >= pool->size ? 0 : length <= pool->size - at ? length : pool->size - at;
}

/* Free slots beside [at, at + length): 0, 1 or 2. */
static inline uint32_t kvs_pool_free_beside(const kvs_pool *p, uint32_t at, uint32_t length) {
  uint32_t n = at > 0 && p->state[at - 1] & KVS_FREE;
  return n + (at + length < p->size && p->state[at + length] & KVS_FREE);
}

/* The free slots of the blocks of [at, at + length) change by `sign` each. */
static inline void kvs_pool_count_blocks(kvs_pool *p, uint32_t at, uint32_t length, int sign) {
  while (length) {
    uint32_t room = 64 - at % 64, n = length < room ? length : room;
    p->block_free[at / 64] = (uint8_t)(p->block_free[at / 64] + sign * (int)n);
    at += n;
    length -= n;
  }
}

/* Allocates a run for `request`, to be held by `rows` (0 or 1) rows. Returns `length`, or the index of the first slot
 * that is not free or is still held by a row; nothing has changed then. */
static inline uint32_t kvs_pool_take_run(kvs_pool *p, int32_t start, uint32_t length, int32_t request, uint16_t rows) {
  const uint32_t at = (uint32_t)start - p->first;
  uint16_t *state = p->state + at;
  int32_t *owner = p->owner + at;
  uint32_t bad = 0;
  for (uint32_t k = 0; k < length; k++) bad |= (uint32_t)state[k] ^ KVS_FREE;
  if (bad) {
    uint32_t k = 0;
    while (state[k] == KVS_FREE) k++;
    return k;
  }
  for (uint32_t k = 0; k < length; k++) state[k] = rows;
  for (uint32_t k = 0; k < length; k++) owner[k] = request;
  p->free -= length;
  p->free_runs += kvs_pool_free_beside(p, at, length) - 1ull;
  kvs_pool_count_blocks(p, at, length, -1);
  p->held += rows ? length : 0;
  return length;
}

/* Frees a run. Returns `length`, or the index of the first slot that is free already or, unless may_be_held, is held
 * by a row; nothing has changed then. */
static inline uint32_t kvs_pool_give_run(kvs_pool *p, int32_t start, uint32_t length, bool may_be_held) {
  const uint32_t at = (uint32_t)start - p->first;
  uint16_t *state = p->state + at;
  const uint32_t mask = may_be_held ? KVS_FREE : 0xffffu;
  uint32_t any = 0;
  for (uint32_t k = 0; k < length; k++) any |= state[k];
  if (any & mask) {
    uint32_t k = 0;
    while (!(state[k] & mask)) k++;
    return k;
  }
  for (uint32_t k = 0; k < length; k++) state[k] |= (uint16_t)KVS_FREE;
  p->free += length;
  p->free_runs += 1ull - kvs_pool_free_beside(p, at, length);
  kvs_pool_count_blocks(p, at, length, 1);
  return length;
}

/* One more row holds the run. Returns `length`, or the index of the first slot that is free or whose count would
 * overflow; nothing has changed then. */
static inline uint32_t kvs_pool_hold_run(kvs_pool *p, int32_t start, uint32_t length) {
  uint16_t *state = p->state + ((uint32_t)start - p->first);
  uint32_t bad = 0, fresh = 0;
  for (uint32_t k = 0; k < length; k++) bad |= state[k] > KVS_REFS_MOST;
  if (bad) {
    uint32_t k = 0;
    while (state[k] <= KVS_REFS_MOST) k++;
    return k;
  }
  for (uint32_t k = 0; k < length; k++) {
    fresh += state[k] == 0;
    state[k]++;
  }
  p->held += fresh;
  return length;
}

/* One row fewer holds the run; every count must be > 0. */
static inline void kvs_pool_drop_run(kvs_pool *p, int32_t start, uint32_t length) {
  uint16_t *state = p->state + ((uint32_t)start - p->first);
  uint32_t last = 0;
  for (uint32_t k = 0; k < length; k++) {
    state[k]--;
    last += (state[k] & KVS_REFS) == 0;
  }
  p->held -= last;
}

#endif
