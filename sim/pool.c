#include "pool.h"

#include <stdlib.h>
#include <string.h>

kv_status kvs_pool_init(kvs_pool *p, const kvt_info *info, kv_error *err) {
  *p = (kvs_pool){.first = info->first_slot, .size = info->pool_size};
  p->owner = malloc(p->size * sizeof *p->owner);
  p->refs = malloc(p->size * sizeof *p->refs);
  p->free_bits = malloc((p->size / 64 + 1) * sizeof *p->free_bits);
  if (!p->owner || !p->refs || !p->free_bits) {
    kvs_pool_fini(p);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", info->pool_size);
  }
  kvs_pool_clear(p);
  return KV_OK;
}

void kvs_pool_fini(kvs_pool *p) {
  free(p->owner);
  free(p->refs);
  free(p->free_bits);
  *p = (kvs_pool){0};
}

/* ---- bit ranges ---- */

static uint64_t low_mask(uint32_t bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

/* Calls the statement with w (word) and mask for each word of [from, from + n). */
#define FOR_WORDS(from, n, w, mask)                                                                             \
  for (uint32_t left_ = (n), at_ = (from), w = at_ / 64, take_ = 64 - at_ % 64; left_ > 0;                       \
       left_ -= take_, at_ += take_, w = at_ / 64, take_ = 64)                                                   \
    for (uint64_t mask = (take_ = take_ < left_ ? take_ : left_, low_mask(take_) << (at_ % 64)); mask; mask = 0)

static bool all_free(const kvs_pool *p, uint32_t i, uint32_t n) {
  bool all = true;
  FOR_WORDS(i, n, w, mask) all &= (p->free_bits[w] & mask) == mask;
  return all;
}

static bool none_free(const kvs_pool *p, uint32_t i, uint32_t n) {
  bool none = true;
  FOR_WORDS(i, n, w, mask) none &= (p->free_bits[w] & mask) == 0;
  return none;
}

static bool none_held(const kvs_pool *p, uint32_t i, uint32_t n) {
  uint32_t any = 0;
  for (uint32_t k = 0; k < n; k++) any |= p->refs[i + k];
  return any == 0;
}

void kvs_pool_clear(kvs_pool *p) {
  memset(p->owner, 0xff, p->size * sizeof *p->owner);
  memset(p->refs, 0, p->size * sizeof *p->refs);
  memset(p->free_bits, 0, (p->size / 64 + 1) * sizeof *p->free_bits);
  FOR_WORDS(0, p->size, w, mask) p->free_bits[w] |= mask;
  p->free = p->size;
  p->held = 0;
}

void kvs_pool_free_only(kvs_pool *p, const int32_t *entries, uint32_t n, uint32_t page_size) {
  memset(p->free_bits, 0, (p->size / 64 + 1) * sizeof *p->free_bits);
  for (uint32_t e = 0; e < n; e++) {
    uint32_t from = (uint32_t)entries[e] * page_size - p->first;
    FOR_WORDS(from, page_size, w, mask) p->free_bits[w] |= mask;
  }
  p->free = (uint64_t)n * page_size;
}

uint32_t kvs_pool_outside(const kvs_pool *p, const int32_t *slots, uint32_t n) {
  uint32_t bad = 0;
  for (uint32_t i = 0; i < n; i++) bad |= (uint32_t)slots[i] - p->first >= p->size;
  if (!bad) return n;
  uint32_t i = 0;
  while (kvs_pool_has(p, slots[i])) i++;
  return i;
}

uint32_t kvs_pool_take_run(kvs_pool *p, int32_t start, uint32_t n, int32_t request) {
  uint32_t i = (uint32_t)start - p->first;
  if (!all_free(p, i, n) || !none_held(p, i, n)) {
    uint32_t k = 0;
    while (kvs_pool_is_free(p, start + (int32_t)k) && !p->refs[i + k]) k++;
    return k;
  }
  FOR_WORDS(i, n, w, mask) p->free_bits[w] &= ~mask;
  for (uint32_t k = 0; k < n; k++) p->owner[i + k] = request;
  p->free -= n;
  return n;
}

uint32_t kvs_pool_give_run(kvs_pool *p, int32_t start, uint32_t n, bool may_be_held) {
  uint32_t i = (uint32_t)start - p->first;
  if (!none_free(p, i, n) || (!may_be_held && !none_held(p, i, n))) {
    uint32_t k = 0;
    while (!kvs_pool_is_free(p, start + (int32_t)k) && (may_be_held || !p->refs[i + k])) k++;
    return k;
  }
  FOR_WORDS(i, n, w, mask) p->free_bits[w] |= mask;
  p->free += n;
  return n;
}

void kvs_pool_give_page(kvs_pool *p, int32_t page, uint32_t page_size) {
  uint32_t i = (uint32_t)page * page_size - p->first;
  FOR_WORDS(i, page_size, w, mask) {
    p->free += (uint64_t)__builtin_popcountll(mask & ~p->free_bits[w]);
    p->free_bits[w] |= mask;
  }
}

bool kvs_pool_hold_run(kvs_pool *p, int32_t start, uint32_t n) {
  uint16_t *refs = p->refs + ((uint32_t)start - p->first);
  uint32_t fresh = 0, full = 0;
  for (uint32_t k = 0; k < n; k++) full |= refs[k] == KVS_REFS_MOST;
  if (full) return false;
  for (uint32_t k = 0; k < n; k++) {
    fresh += refs[k] == 0;
    refs[k]++;
  }
  p->held += fresh;
  return true;
}

void kvs_pool_hold_fresh_run(kvs_pool *p, int32_t start, uint32_t n) {
  uint16_t *refs = p->refs + ((uint32_t)start - p->first);
  for (uint32_t k = 0; k < n; k++) refs[k] = 1;
  p->held += n;
}

void kvs_pool_drop_run(kvs_pool *p, int32_t start, uint32_t n) {
  uint16_t *refs = p->refs + ((uint32_t)start - p->first);
  uint32_t last = 0;
  for (uint32_t k = 0; k < n; k++) {
    refs[k]--;
    last += refs[k] == 0;
  }
  p->held -= last;
}

void kvs_pool_free_runs(const kvs_pool *p, uint64_t *runs, uint64_t *longest) {
  uint64_t count = 0, best = 0, current = 0;
  for (uint32_t w = 0; w <= p->size / 64; w++) {
    uint64_t bits = p->free_bits[w];
    if (bits == ~0ull) {
      count += current == 0;
      current += 64;
      if (current > best) best = current;
      continue;
    }
    for (uint32_t at = 0; at < 64;) {
      uint64_t rest = bits >> at;
      if (!rest) {
        current = 0;
        break;
      }
      uint32_t zeros = (uint32_t)__builtin_ctzll(rest);
      if (zeros) current = 0;
      at += zeros;
      uint32_t ones = ~(bits >> at) ? (uint32_t)__builtin_ctzll(~(bits >> at)) : 64 - at;
      if (ones > 64 - at) ones = 64 - at;
      count += current == 0;
      current += ones;
      at += ones;
      if (current > best) best = current;
    }
  }
  *runs = count;
  *longest = best;
}

double kvs_fragmentation(uint64_t longest, uint64_t free) {
  return free ? 1.0 - (double)longest / (double)free : 0.0;
}
