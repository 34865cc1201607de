/* Sorted on demand: every call gets the lowest free slots. The free slots are a set of bits, so sorting costs nothing. */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

kv_status kvs_free_set_open(kvs_world *w, const int32_t *initial, uint32_t n, kv_error *err) {
  uint32_t slots = w->page_size + w->capacity, words = slots / 64 + 1;
  w->free_bits = calloc(words, sizeof *w->free_bits);
  w->free_words = calloc(words / 64 + 1, sizeof *w->free_words);
  if (!w->free_bits || !w->free_words) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", w->capacity);
  w->free_n = 0;
  w->free_low = words / 64;
  for (uint32_t i = 0; i < (initial ? n : w->capacity / w->page_size); i++)
    for (uint32_t k = 0; k < w->page_size; k++)
      kvs_free_set_put(w, (initial ? initial[i] : (int32_t)i + 1) * (int32_t)w->page_size + (int32_t)k, true);
  return KV_OK;
}

void kvs_free_set_put(kvs_world *w, int32_t slot, bool is_free) {
  uint32_t word = (uint32_t)slot / 64;
  uint64_t bit = 1ull << ((uint32_t)slot % 64);
  if (is_free) {
    w->free_bits[word] |= bit;
    w->free_words[word / 64] |= 1ull << (word % 64);
    if (word / 64 < w->free_low) w->free_low = word / 64;
    w->free_n++;
  } else {
    w->free_bits[word] &= ~bit;
    if (!w->free_bits[word]) w->free_words[word / 64] &= ~(1ull << (word % 64));
    w->free_n--;
  }
}

void kvs_free_set_give(kvs_world *w, const int32_t *units, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) kvs_free_set_put(w, units[i], true);
}

void kvs_free_set_take(kvs_world *w, uint32_t n, int32_t *out) {
  w->free_n -= n;
  while (n) {
    while (!w->free_words[w->free_low]) w->free_low++;
    uint32_t word = w->free_low * 64 + (uint32_t)__builtin_ctzll(w->free_words[w->free_low]);
    uint64_t bits = w->free_bits[word];
    for (; bits && n; bits &= bits - 1, n--) *out++ = (int32_t)(word * 64 + (uint32_t)__builtin_ctzll(bits));
    w->free_bits[word] = bits;
    if (!bits) w->free_words[word / 64] &= ~(1ull << (word % 64));
  }
}

uint32_t kvs_free_set_available(const kvs_world *w) { return w->free_n; }

const kvs_policy kvs_policy_sorted = {
    .name = "sorted", .summary = "sorted on demand: every call gets the lowest free slots",
    .placement = KVS_TOKENS, .page_size = 1, .open = kvs_free_set_open, .take = kvs_free_set_take,
    .give = kvs_free_set_give, .available = kvs_free_set_available};
