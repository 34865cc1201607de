#include "freelist.h"

#include <stdlib.h>
#include <string.h>

static bool segmented(const kvs_freelist *l) {
  return l->kind == KVT_ALLOC_PAGED_SEGMENT || l->kind == KVT_ALLOC_PAGED_SEGMENT_SORTED;
}
static bool paged(const kvs_freelist *l) {
  return l->kind == KVT_ALLOC_PAGED || l->kind == KVT_ALLOC_PAGED_SORTED || segmented(l);
}
static bool paged_sorted(const kvs_freelist *l) {
  return l->kind == KVT_ALLOC_PAGED_SORTED || l->kind == KVT_ALLOC_PAGED_SEGMENT_SORTED;
}
static bool sorted(const kvs_freelist *l) { return l->kind == KVT_ALLOC_TOKEN_SORTED || paged_sorted(l); }

static bool queue(const kvs_freelist *l) { return kvt_allocator_queues(l->kind); }

static int32_t entry(const kvs_freelist *l, uint32_t i) {
  uint64_t at = (uint64_t)l->head + i;
  return l->ring[at < l->capacity ? at : at - l->capacity];
}

static void push_back(kvs_freelist *l, const int32_t *v, uint32_t n) {
  uint64_t tail = (uint64_t)l->head + l->count;
  if (tail >= l->capacity) tail -= l->capacity;
  uint32_t first = l->capacity - (uint32_t)tail < n ? l->capacity - (uint32_t)tail : n;
  memcpy(l->ring + tail, v, first * sizeof *v);
  memcpy(l->ring, v + first, (n - first) * sizeof *v);
  l->count += n;
}

static void push_front(kvs_freelist *l, int32_t v) {
  l->head = l->head ? l->head - 1 : l->capacity - 1;
  l->ring[l->head] = v;
  l->count++;
}

static void drop_front(kvs_freelist *l, uint32_t n) {
  uint64_t head = (uint64_t)l->head + n;
  l->head = (uint32_t)(head < l->capacity ? head : head - l->capacity);
  l->count -= n;
}

static bool is_listed(const kvs_freelist *l, int32_t page) {
  uint32_t at = (uint32_t)page - 1;
  return l->listed[at / 64] >> (at % 64) & 1;
}

static void set_listed(kvs_freelist *l, int32_t page, bool there) {
  uint32_t at = (uint32_t)page - 1;
  uint64_t bit = 1ull << (at % 64);
  l->listed[at / 64] = there ? l->listed[at / 64] | bit : l->listed[at / 64] & ~bit;
}

/* ---- vLLM's queue ---- */

static void link_behind(kvs_freelist *l, int32_t page, int32_t at) {
  l->after[page] = l->after[at];
  l->before[page] = at;
  l->before[l->after[at]] = page;
  l->after[at] = page;
  l->count++;
}

static void unlink_page(kvs_freelist *l, int32_t page) {
  l->after[l->before[page]] = l->after[page];
  l->before[l->after[page]] = l->before[page];
  l->after[page] = -1;
  l->count--;
  set_listed(l, page, false);
}

void kvs_freelist_idle(kvs_freelist *l, int32_t page) {
  if (!queue(l) || is_listed(l, page)) return;
  set_listed(l, page, true);
  link_behind(l, page, l->before[0]);
}

void kvs_freelist_busy(kvs_freelist *l, int32_t page) {
  if (!queue(l) || !is_listed(l, page)) return;
  if (l->after[page] < 0) (void)kvs_freelist_end_group(l);
  unlink_page(l, page);
}

/* A page is given back with its first slot. */
static void give_queued(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    int32_t page = slots[i] / (int32_t)l->page_size;
    if ((uint32_t)slots[i] % l->page_size || is_listed(l, page)) continue;
    if (l->kind == KVT_ALLOC_VLLM) {
      kvs_freelist_idle(l, page);
    } else {
      set_listed(l, page, true);
      l->release[l->grouped++] = page;
    }
  }
}

/* The group goes to the head, its first page foremost. */
static void prepend_group(kvs_freelist *l) {
  for (int32_t at = 0; l->grouped; l->grouped--) link_behind(l, l->release[l->grouped - 1], at);
}

static uint64_t queue_runs(const kvs_freelist *l) {
  uint64_t runs = 0;
  int32_t last = -1;
  for (int32_t page = l->after[0]; page; last = page, page = l->after[page]) runs += page != last + 1;
  return runs;
}

static kv_status open_queue(kvs_freelist *l, const int32_t *initial, uint32_t n, kv_error *err) {
  size_t places = (size_t)l->capacity + 1;
  l->after = malloc(places * sizeof *l->after);
  l->before = malloc(places * sizeof *l->before);
  l->release = malloc(places * sizeof *l->release);
  l->listed = calloc(l->capacity / 64 + 1, sizeof *l->listed);
  bool ok = l->after && l->before && l->release && l->listed;
  if (!ok) {
    kvs_freelist_free(l);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u pages", (uint32_t)places - 1);
  }
  for (size_t i = 0; i < places; i++) l->after[i] = -1;
  l->after[0] = l->before[0] = 0;
  for (uint32_t i = 0; i < (initial ? n : l->capacity) && ok; i++) {
    int32_t page = initial ? initial[i] : (int32_t)i + 1;
    ok = page >= 1 && (uint32_t)page <= l->capacity && !is_listed(l, page);
    if (ok) kvs_freelist_idle(l, page);
  }
  if (ok) return KV_OK;
  kvs_freelist_free(l);
  return kv_fail(err, KV_ERR_INPUT, "/initial/free_list holds an entry twice or out of range");
}

/* ---- SGLang's lists ---- */

static bool take_list(kvs_freelist *l, const int32_t *initial, uint32_t n) {
  uint64_t *seen = calloc(l->capacity / 64 + 1, sizeof *seen);
  bool ok = seen && n <= l->capacity;
  for (uint32_t i = 0; i < n && ok; i++) {
    uint32_t at = (uint32_t)initial[i] - 1;
    ok = initial[i] >= 1 && at < l->capacity && !(seen[at / 64] >> (at % 64) & 1);
    if (ok) seen[at / 64] |= 1ull << (at % 64);
  }
  if (ok) push_back(l, initial, n);
  free(seen);
  return ok;
}

kv_status kvs_freelist_init(kvs_freelist *l, const kvt_info *info, const int32_t *initial, uint32_t n, kv_error *err) {
  *l = (kvs_freelist){.kind = info->allocator, .page_size = info->page_size,
                      .capacity = info->pool_size / info->page_size};
  if (l->kind == KVT_ALLOC_OTHER) return KV_OK;
  if (queue(l)) return open_queue(l, initial, n, err);
  if (!paged(l) && l->page_size != 1) {
    l->kind = KVT_ALLOC_OTHER;
    return kv_fail(err, KV_ERR_INPUT, "allocator %s has pages of one slot, page_size is %u",
                   kvt_allocator_name(info->allocator), info->page_size);
  }
  l->ring = malloc(l->capacity * sizeof *l->ring);
  if (sorted(l)) l->release = malloc(l->capacity * sizeof *l->release);
  if (sorted(l)) l->sort_set = calloc(l->capacity / 64 + 1, sizeof *l->sort_set);
  if (paged(l)) l->group_pages = calloc(l->capacity / 64 + 1, sizeof *l->group_pages);
  if (paged(l)) l->listed = calloc(l->capacity / 64 + 1, sizeof *l->listed);
  if (segmented(l)) l->segment = malloc(l->capacity * sizeof *l->segment);
  if (segmented(l)) l->segment_pages = calloc(l->capacity / 64 + 1, sizeof *l->segment_pages);
  if (!l->ring || (sorted(l) && (!l->release || !l->sort_set)) || (paged(l) && (!l->group_pages || !l->listed)) ||
      (segmented(l) && (!l->segment || !l->segment_pages))) {
    kvs_freelist_free(l);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for a pool of %u slots", info->pool_size);
  }
  if (!initial) {
    for (uint32_t i = 0; i < l->capacity; i++) l->ring[i] = (int32_t)i + 1;
    l->count = l->capacity;
  } else if (!take_list(l, initial, n)) {
    kvs_freelist_free(l);
    return kv_fail(err, KV_ERR_INPUT, "/initial/free_list holds an entry twice or out of range");
  }
  for (uint32_t i = 0; i < l->count && l->listed; i++) set_listed(l, entry(l, i), true);
  return KV_OK;
}

void kvs_freelist_free(kvs_freelist *l) {
  free(l->ring);
  free(l->release);
  free(l->sort_set);
  free(l->group_pages);
  free(l->listed);
  free(l->segment);
  free(l->segment_pages);
  free(l->after);
  free(l->before);
  *l = (kvs_freelist){.kind = KVT_ALLOC_OTHER};
}

/* SGLang's merge_and_sort_free. Sorting a set of dense numbers is a walk over a bitmap. */
static void merge_and_sort(kvs_freelist *l) {
  uint64_t *set = l->sort_set;
  uint32_t total = l->count + l->released, n = 0;
  for (uint32_t i = 0; i < l->count; i++) set[(uint32_t)entry(l, i) / 64] |= 1ull << (entry(l, i) % 64);
  for (uint32_t i = 0; i < l->released; i++) set[(uint32_t)l->release[i] / 64] |= 1ull << (l->release[i] % 64);
  for (uint32_t w = 0; w <= l->capacity / 64; w++)
    for (; set[w]; set[w] &= set[w] - 1) l->ring[n++] = (int32_t)(w * 64 + (uint32_t)__builtin_ctzll(set[w]));
  l->head = 0;
  l->count = total;
  l->released = 0;
}

void kvs_freelist_begin_call(kvs_freelist *l, uint32_t slots, uint32_t requests, bool decode) {
  if (!sorted(l)) return;
  uint64_t need = l->kind == KVT_ALLOC_TOKEN_SORTED ? slots
                  : decode                          ? requests
                                                    : (uint64_t)slots / l->page_size + requests + 1;
  if (need > l->count && l->released) merge_and_sort(l);
}

static uint32_t take_tokens(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  uint32_t most = n < l->count ? n : l->count, agree = 0;
  uint32_t first = l->capacity - l->head < most ? l->capacity - l->head : most;
  if (memcmp(slots, l->ring + l->head, first * sizeof *slots) == 0 &&
      memcmp(slots + first, l->ring, (most - first) * sizeof *slots) == 0)
    agree = most;
  else
    while (agree < most && slots[agree] == entry(l, agree)) agree++;
  drop_front(l, agree);
  return agree;
}

static int32_t head_page(const kvs_freelist *l) { return queue(l) ? l->after[0] : entry(l, 0); }

static void drop_head(kvs_freelist *l, int32_t page) {
  if (queue(l)) {
    unlink_page(l, page);
    return;
  }
  drop_front(l, 1);
  set_listed(l, page, false);
}

static uint32_t take_pages(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    int32_t page = slots[i] / (int32_t)l->page_size;
    if (page < 1 || (uint32_t)page > l->capacity) return i;
    if ((uint32_t)slots[i] % l->page_size) {
      if (is_listed(l, page)) return i;
      continue;
    }
    if (!l->count || head_page(l) != page) return i;
    drop_head(l, page);
  }
  return n;
}

uint32_t kvs_freelist_take(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  if (l->kind == KVT_ALLOC_OTHER) return n;
  return paged(l) || queue(l) ? take_pages(l, slots, n) : take_tokens(l, slots, n);
}

void kvs_freelist_pop(kvs_freelist *l, uint32_t n, int32_t *out) {
  for (uint32_t i = 0; i < n && queue(l); i++) {
    out[i] = l->after[0];
    unlink_page(l, out[i]);
  }
  if (queue(l)) return;
  if (n > l->count && l->released) merge_and_sort(l);
  uint32_t first = l->capacity - l->head < n ? l->capacity - l->head : n;
  memcpy(out, l->ring + l->head, first * sizeof *out);
  memcpy(out + first, l->ring, (n - first) * sizeof *out);
  for (uint32_t i = 0; i < n && l->listed; i++) set_listed(l, out[i], false);
  drop_front(l, n);
}

void kvs_freelist_give(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  if (queue(l)) {
    give_queued(l, slots, n);
  } else if (l->kind == KVT_ALLOC_TOKEN) {
    push_back(l, slots, n);
  } else if (l->kind == KVT_ALLOC_TOKEN_SORTED) {
    memcpy(l->release + l->released, slots, n * sizeof *slots);
    l->released += n;
  } else if (paged(l)) {
    for (uint32_t i = 0; i < n; i++) {
      uint32_t at = (uint32_t)slots[i] / l->page_size - 1;
      uint64_t bit = 1ull << (at % 64);
      l->grouped += !(l->group_pages[at / 64] & bit);
      l->group_pages[at / 64] |= bit;
    }
  }
}

void kvs_freelist_give_segment(kvs_freelist *l, const int32_t *slots, uint32_t n) {
  if (!segmented(l)) {
    kvs_freelist_give(l, slots, n);
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t at = (uint32_t)slots[i] / l->page_size - 1;
    uint64_t bit = 1ull << (at % 64);
    if ((l->group_pages[at / 64] | l->segment_pages[at / 64]) & bit) continue;
    l->segment_pages[at / 64] |= bit;
    l->segment[l->segments++] = (int32_t)at + 1;
  }
}

static void prepend_segments(kvs_freelist *l) {
  for (; l->segments; l->segments--) {
    int32_t page = l->segment[l->segments - 1];
    l->segment_pages[(uint32_t)(page - 1) / 64] &= ~(1ull << ((uint32_t)(page - 1) % 64));
    set_listed(l, page, true);
    if (sorted(l))
      l->release[l->released++] = page;
    else
      push_front(l, page);
  }
}

/* The unique pages of the group, ascending, go to the head (of the release list with need_sort), then what was freed as segments of
 * rows, before them. vLLM's order is that of the frees; its slots are given back one by one, so that no page takes others
 * with it. */
uint32_t kvs_freelist_end_group(kvs_freelist *l) {
  uint32_t n = l->grouped, at = n, segments = l->segments;
  if (queue(l)) {
    prepend_group(l);
    return 0;
  }
  if (!n && !segments) return 0;
  if (paged_sorted(l)) memmove(l->release + n, l->release, l->released * sizeof *l->release);
  for (uint32_t w = l->capacity / 64 + 1; w-- > 0;) {
    while (l->group_pages[w]) {
      uint32_t bit = 63 - (uint32_t)__builtin_clzll(l->group_pages[w]);
      int32_t page = (int32_t)(w * 64 + bit) + 1;
      l->group_pages[w] ^= 1ull << bit;
      set_listed(l, page, true);
      if (paged_sorted(l))
        l->release[--at] = page;
      else
        push_front(l, page);
    }
  }
  if (paged_sorted(l)) l->released += n;
  l->grouped = 0;
  prepend_segments(l);
  l->newest = segments;
  return n + segments;
}

int32_t kvs_freelist_newest(const kvs_freelist *l, uint32_t i) {
  if (!paged_sorted(l)) return entry(l, i);
  return i < l->newest ? l->release[l->released - 1 - i] : l->release[i - l->newest];
}

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

static uint64_t breaks_in(const int32_t *v, uint32_t n) {
  uint32_t breaks = 0;
  for (uint32_t i = 1; i < n; i++) breaks += v[i] != v[i - 1] + 1;
  return breaks;
}

uint64_t kvs_freelist_runs(const kvs_freelist *l) {
  if (!l->count) return 0;
  if (queue(l)) return queue_runs(l);
  uint32_t first = l->capacity - l->head < l->count ? l->capacity - l->head : l->count, rest = l->count - first;
  uint64_t breaks = breaks_in(l->ring + l->head, first);
  if (rest) breaks += breaks_in(l->ring, rest) + (l->ring[0] != l->ring[l->capacity - 1] + 1);
  return breaks + 1;
}

void kvs_freelist_copy(const kvs_freelist *l, int32_t *entries, int32_t *released) {
  if (queue(l)) {
    for (int32_t page = l->after[0]; page; page = l->after[page]) *entries++ = page;
    return;
  }
  for (uint32_t i = 0; i < l->count; i++) entries[i] = entry(l, i);
  if (l->released) memcpy(released, l->release, l->released * sizeof *released);
  if (l->kind == KVT_ALLOC_PAGED_SEGMENT_SORTED && l->released) qsort(released, l->released, sizeof *released, ascending);
}
