/* pool.h - the state of every slot: free or allocated, who allocated it last, how many running rows hold it.
 *
 * Ownership is counted, never assumed exclusive: prefix caching lets many rows hold a slot. A slot is
 *   free    in the allocator's lists,
 *   live    allocated and held by the row of at least one running request, or part of its open draft tree,
 *   cached  allocated and held by none: it belongs to the prefix cache.
 * All functions work on runs [start, start + length) of slot numbers inside the pool (the caller has checked that).
 */
#ifndef KVS_POOL_H
#define KVS_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"
#include "trace.h"

typedef struct kvs_pool {
  uint32_t first, size;
  int32_t *owner;      /* [size] request that allocated the slot last, -1 none yet */
  uint16_t *refs;      /* [size] rows of running requests that hold the slot */
  uint64_t *free_bits; /* [size / 64 + 1] 1: free */
  uint64_t free;       /* slots */
  uint64_t held;       /* slots with refs > 0 */
} kvs_pool;

#define KVS_REFS_MOST UINT16_MAX /* rows that can hold one slot at a time */

/* All slots free. KV_ERR_MEMORY. */
kv_status kvs_pool_init(kvs_pool *pool, const kvt_info *info, kv_error *err);
/* Marks everything allocated first, then the listed slots (or pages) free: an initial list that is not the whole pool. */
void kvs_pool_free_only(kvs_pool *pool, const int32_t *entries, uint32_t n, uint32_t page_size);
void kvs_pool_fini(kvs_pool *pool);
/* Everything free again, nobody holds anything. */
void kvs_pool_clear(kvs_pool *pool);

static inline bool kvs_pool_has(const kvs_pool *pool, int32_t slot) {
  return (uint32_t)slot - pool->first < pool->size; /* a negative slot wraps and fails */
}
static inline bool kvs_pool_is_free(const kvs_pool *pool, int32_t slot) {
  uint32_t i = (uint32_t)slot - pool->first;
  return pool->free_bits[i / 64] >> (i % 64) & 1;
}

/* Length of the run that begins at slots[0] (n >= 1). */
static inline uint32_t kvs_run_of(const int32_t *slots, uint32_t n) {
  uint32_t i = 1;
  /* uint32_t arithmetic: a damaged trace may hold INT32_MAX */
  while (i < n && (uint32_t)slots[i] == (uint32_t)slots[i - 1] + 1) i++;
  return i;
}

/* Index of the first slot outside the pool, or n. */
uint32_t kvs_pool_outside(const kvs_pool *pool, const int32_t *slots, uint32_t n);

/* Allocates a run for `request`. Returns `length`, or the index of the first slot that is not free or is still held by
 * a row; nothing has changed then. */
uint32_t kvs_pool_take_run(kvs_pool *pool, int32_t start, uint32_t length, int32_t request);
/* Frees a run. Returns `length`, or the index of the first slot that is free already or, unless may_be_held, is held
 * by a row; nothing has changed then. */
uint32_t kvs_pool_give_run(kvs_pool *pool, int32_t start, uint32_t length, bool may_be_held);
/* Frees whatever of a page is still allocated. */
void kvs_pool_give_page(kvs_pool *pool, int32_t page, uint32_t page_size);
/* One more row holds the run. False when a count would overflow; nothing has changed then. */
bool kvs_pool_hold_run(kvs_pool *pool, int32_t start, uint32_t length);
/* The same for slots just taken, which nobody holds. */
void kvs_pool_hold_fresh_run(kvs_pool *pool, int32_t start, uint32_t length);
/* One row fewer holds the run; every count must be > 0. */
void kvs_pool_drop_run(kvs_pool *pool, int32_t start, uint32_t length);

/* Free runs by address: how many, and the longest (slots). */
void kvs_pool_free_runs(const kvs_pool *pool, uint64_t *runs, uint64_t *longest);

/* The fragmentation index: 1 - longest free run / free slots, by address; 0 when nothing is free. 0: all free slots
 * form one run; towards 1: no large piece is left. It says nothing about the order in which slots are handed out. */
double kvs_fragmentation(uint64_t longest, uint64_t free);

#endif
