/* freelist.h - the order in which an allocator would hand out what is free: SGLang's free lists and vLLM's queue, modelled.
 *
 * A replay holds every recorded allocation against it: the list must have these very slots at its head. For pages
 * (page_size > 1) entries are page numbers, else slot numbers.
 */
#ifndef KVS_FREELIST_H
#define KVS_FREELIST_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"

typedef struct kvs_freelist {
  kvt_allocator kind;
  uint32_t page_size;
  uint32_t capacity; /* entries there can be at most */
  /* The list: a ring; entry i is ring[(head + i) % capacity]. */
  int32_t *ring;
  uint32_t head, count;
  /* need_sort: what was freed and waits to be merged, in the allocator's own order. */
  int32_t *release;
  uint32_t released;
  uint64_t *sort_set; /* all zero between sorts */
  /* Pages freed in the open group (or event), and pages in the ring or in release, as sets. */
  uint64_t *group_pages, *listed;
  uint32_t grouped;
  /* Pages freed as segments of rows in the open group: in order, and as a set. */
  int32_t *segment;
  uint64_t *segment_pages;
  uint32_t segments, newest; /* newest: how many there were in the last group */
  /* vLLM's queue: a ring of links through page 0, which is nobody's; -1: not in it. `release` has the open group. */
  int32_t *after, *before;
} kvs_freelist;

/* `initial` (n entries) or, when it is NULL, all pages ascending from page 1 (slots from 1 for page_size 1).
 * KV_ERR_MEMORY, or KV_ERR_INPUT when an entry is out of range or stands there twice. With KVT_ALLOC_OTHER the
 * list is empty and every function here does nothing. */
kv_status kvs_freelist_init(kvs_freelist *list, const kvt_info *info, const int32_t *initial, uint32_t n,
                            kv_error *err);
void kvs_freelist_free(kvs_freelist *list);

/* Begins an allocator call for `slots` slots of `requests` requests, a decode's or not: merges and sorts as need_sort does when
 * the list is short (token: slots > entries; paged: slots / page + requests + 1 > entries, for a decode requests > entries). */
void kvs_freelist_begin_call(kvs_freelist *list, uint32_t slots, uint32_t requests, bool decode);

/* Takes the slots of one event from the head. Returns how many of them, from the first, the list would have handed
 * out: n when all agree. Slots that continue a page already taken are not in the list and always agree here. */
uint32_t kvs_freelist_take(kvs_freelist *list, const int32_t *slots, uint32_t n);

/* Takes the first n entries (slots, or pages where there are pages), n <= entries in the list; with need_sort, what waits
 * is merged first when the list itself is too short. For a simulation that decides; a replay uses _take(). */
void kvs_freelist_pop(kvs_freelist *list, uint32_t n, int32_t *out);

/* Gives slots back, which must not be free already. Pages are gathered until kvs_freelist_end_group(): the allocator
 * sees one free of the whole group, and a page is free once any of its slots is. That call returns how many pages it
 * put at the head; kvs_freelist_newest(list, i) are these, ascending. */
void kvs_freelist_give(kvs_freelist *list, const int32_t *slots, uint32_t n);
/* The same for a segment of a row: where the allocator keeps its pages in the row's order, they are kept so. */
void kvs_freelist_give_segment(kvs_freelist *list, const int32_t *slots, uint32_t n);
uint32_t kvs_freelist_end_group(kvs_freelist *list);
int32_t kvs_freelist_newest(const kvs_freelist *list, uint32_t i);

/* vLLM's queue: nobody holds the page any more, and it is cached (to the tail, unless it is in the queue already); or
 * a prefix hit takes it out of wherever it is. */
void kvs_freelist_idle(kvs_freelist *list, int32_t page);
void kvs_freelist_busy(kvs_freelist *list, int32_t page);

/* Runs in list order (0 for an empty list): stretches of entries that rise by one. One pass over the list. */
uint64_t kvs_freelist_runs(const kvs_freelist *list);
/* Copies the list, and the waiting release list, to arrays of at least `count` and `released` entries. */
void kvs_freelist_copy(const kvs_freelist *list, int32_t *entries, int32_t *released);

#endif
