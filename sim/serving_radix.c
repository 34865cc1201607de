#include "serving_radix.h"

#include <stdlib.h>
#include <string.h>

struct kvs_node {
  kvs_node *parent;
  kvs_node *next; /* in its bucket, or among the vacant */
  const kvs_text *text;
  uint32_t from, length; /* units of text */
  int32_t *slots;        /* owned */
  uint64_t access;
  uint32_t children, locks;
};

/* ---- children: one hash table for all nodes, keyed by parent and first token ---- */

static uint32_t first_tokens(const kvs_radix *r) { return r->page + r->bigram; }

static uint64_t hash(const kvs_node *parent, int64_t token) {
  uint64_t x = (uint64_t)(uintptr_t)parent * 0x9e3779b97f4a7c15u ^ (uint64_t)token * 0xc2b2ae3d27d4eb4fu;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ x >> 32;
}

static kvs_node **place(const kvs_radix *r, const kvs_node *parent, int64_t token) {
  return &r->bucket[hash(parent, token) & (r->buckets - 1)];
}

static void link_child(kvs_radix *r, kvs_node *n) {
  kvs_node **at = place(r, n->parent, kvs_text_token(n->text, n->from));
  n->next = *at;
  *at = n;
}

static void unlink_child(kvs_radix *r, kvs_node *n) {
  kvs_node **at = place(r, n->parent, kvs_text_token(n->text, n->from));
  while (*at != n) at = &(*at)->next;
  *at = n->next;
}

static kv_status more_buckets(kvs_radix *r, kv_error *err) {
  uint32_t old = r->buckets;
  kvs_node **was = r->bucket, **grown = calloc((size_t)old * 4, sizeof(kvs_node *));
  if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the prefix cache");
  r->bucket = grown;
  r->buckets = old * 4;
  for (uint32_t i = 0; i < old; i++)
    for (kvs_node *n = was[i], *next; n; n = next) {
      next = n->next;
      link_child(r, n);
    }
  free(was);
  return KV_OK;
}

/* The child whose first page (or token) is the one at position `at` of text. */
static kvs_node *child_of(const kvs_radix *r, const kvs_node *parent, const kvs_text *text, uint32_t at) {
  int64_t token = kvs_text_token(text, at);
  for (kvs_node *n = *place(r, parent, token); n; n = n->next)
    if (n->parent == parent && kvs_text_common(n->text, text, at, first_tokens(r)) == first_tokens(r)) return n;
  return NULL;
}

static kv_status new_node(kvs_radix *r, kvs_node *parent, const kvs_text *text, uint32_t from, uint32_t length,
                          const int32_t *slots, kvs_node **out, kv_error *err) {
  kv_status st = r->nodes >= r->buckets ? more_buckets(r, err) : KV_OK;
  if (st) return st;
  kvs_node *n = r->vacant;
  if (n)
    r->vacant = n->next;
  else
    n = malloc(sizeof *n);
  int32_t *copy = malloc(length * sizeof *copy + 1);
  if (!n || !copy) {
    free(n);
    free(copy);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for the prefix cache");
  }
  memcpy(copy, slots, length * sizeof *copy);
  *n = (kvs_node){.parent = parent, .text = text, .from = from, .length = length, .slots = copy, .access = ++r->clock};
  r->nodes++;
  *out = n;
  return KV_OK;
}

/* ---- the leaves, least recently used first: a heap whose stale entries are dropped when they surface ---- */

static bool is_leaf(const kvs_radix *r, const kvs_node *n) { return n != r->root && !n->children && !n->locks && n->slots; }

static void sift_up(kvs_radix *r, uint32_t i) {
  struct kvs_lru e = r->heap[i];
  for (; i && r->heap[(i - 1) / 2].access > e.access; i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
  r->heap[i] = e;
}

static void sift_down(kvs_radix *r, uint32_t i) {
  struct kvs_lru e = r->heap[i];
  for (uint32_t k; (k = 2 * i + 1) < r->heap_n; i = k) {
    if (k + 1 < r->heap_n && r->heap[k + 1].access < r->heap[k].access) k++;
    if (r->heap[k].access >= e.access) break;
    r->heap[i] = r->heap[k];
  }
  r->heap[i] = e;
}

static void drop_stale(kvs_radix *r) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->heap_n; i++)
    if (r->heap[i].node->access == r->heap[i].access && is_leaf(r, r->heap[i].node)) r->heap[n++] = r->heap[i];
  r->heap_n = n;
  for (uint32_t i = n / 2; i-- > 0;) sift_down(r, i);
}

static kv_status note_leaf(kvs_radix *r, kvs_node *n, kv_error *err) {
  if (!is_leaf(r, n)) return KV_OK;
  if (r->heap_n == r->heap_room) drop_stale(r);
  if (r->heap_n * 2 >= r->heap_room) {
    uint32_t room = r->heap_room ? r->heap_room * 2 : 1024;
    struct kvs_lru *grown = realloc(r->heap, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the prefix cache");
    r->heap = grown;
    r->heap_room = room;
  }
  r->heap[r->heap_n] = (struct kvs_lru){n->access, n};
  sift_up(r, r->heap_n++);
  return KV_OK;
}

static kvs_node *pop_leaf(kvs_radix *r) {
  while (r->heap_n) {
    struct kvs_lru e = r->heap[0];
    r->heap[0] = r->heap[--r->heap_n];
    if (r->heap_n) sift_down(r, 0);
    if (e.node->access == e.access && is_leaf(r, e.node)) return e.node;
  }
  return NULL;
}

/* ---- making and freeing ---- */

kv_status kvs_radix_init(kvs_radix *r, uint32_t page, bool bigram, kv_error *err) {
  *r = (kvs_radix){.page = page, .bigram = bigram, .buckets = 4096};
  r->bucket = calloc(r->buckets, sizeof(kvs_node *));
  r->root = calloc(1, sizeof *r->root);
  if (r->bucket && r->root) return KV_OK;
  kvs_radix_free(r);
  return kv_fail(err, KV_ERR_MEMORY, "out of memory for the prefix cache");
}

void kvs_radix_free(kvs_radix *r) {
  for (uint32_t i = 0; r->bucket && i < r->buckets; i++)
    for (kvs_node *n = r->bucket[i], *next; n; n = next) {
      next = n->next;
      free(n->slots);
      free(n);
    }
  for (kvs_node *n = r->vacant, *next; n; n = next) {
    next = n->next;
    free(n);
  }
  free(r->bucket);
  free(r->root);
  free(r->heap);
  *r = (kvs_radix){0};
}

/* ---- looking up and inserting ---- */

uint32_t kvs_radix_units(const kvs_radix *r, uint32_t tokens) {
  uint32_t units = r->bigram ? (tokens ? tokens - 1 : 0) : tokens;
  return units / r->page * r->page;
}

/* Units of the node that agree with text, of which `left` are asked for. */
static uint32_t agree(const kvs_radix *r, const kvs_node *n, const kvs_text *text, uint32_t left) {
  uint32_t most = n->length < left ? n->length : left;
  uint32_t tokens = kvs_text_common(n->text, text, n->from, most + r->bigram);
  uint32_t units = tokens > r->bigram ? tokens - r->bigram : 0;
  return units / r->page * r->page;
}

/* Cuts the first `units` of a node off into a new parent of it. */
static kv_status split(kvs_radix *r, kvs_node *child, uint32_t units, kvs_node **upper, kv_error *err) {
  kv_status st = new_node(r, child->parent, child->text, child->from, units, child->slots, upper, err);
  if (st) return st;
  unlink_child(r, child);
  (*upper)->locks = child->locks;
  (*upper)->children = 1;
  link_child(r, *upper);
  child->parent = *upper;
  child->from += units;
  child->length -= units;
  memmove(child->slots, child->slots + units, child->length * sizeof *child->slots);
  link_child(r, child);
  return KV_OK;
}

/* Walks down as far as text agrees. *at: units passed; the last node is split where text leaves it. */
static kv_status descend(kvs_radix *r, const kvs_text *text, uint32_t units, int32_t *out, uint32_t *at, kvs_node **last,
                         kv_error *err) {
  const uint64_t now = ++r->clock;
  kvs_node *node = r->root, *child;
  kv_status st = KV_OK;
  *at = 0;
  while (*at < units && !st && (child = child_of(r, node, text, *at))) {
    child->access = now;
    uint32_t n = agree(r, child, text, units - *at);
    bool whole = n == child->length;
    node = child;
    if (!whole) st = split(r, child, n, &node, err);
    if (!st) st = note_leaf(r, child, err);
    if (!st && out) memcpy(out + *at, node->slots, n * sizeof *out);
    *at += n;
    if (!whole) break;
  }
  *last = node;
  return st;
}

kv_status kvs_radix_match(kvs_radix *r, const kvs_text *text, uint32_t tokens, int32_t *out, uint32_t *matched,
                          kvs_node **last, kv_error *err) {
  *matched = 0;
  *last = r->root;
  uint32_t units = kvs_radix_units(r, tokens);
  return units ? descend(r, text, units, out, matched, last, err) : KV_OK;
}

kv_status kvs_radix_insert(kvs_radix *r, const kvs_text *text, uint32_t tokens, const int32_t *slots, uint32_t *had,
                           kv_error *err) {
  uint32_t units = kvs_radix_units(r, tokens);
  kvs_node *node, *leaf;
  *had = 0;
  if (!units) return KV_OK;
  kv_status st = descend(r, text, units, NULL, had, &node, err);
  if (st || *had == units) return st;
  if ((st = new_node(r, node, text, *had, units - *had, slots + *had, &leaf, err))) return st;
  node->children++;
  link_child(r, leaf);
  r->evictable += leaf->length;
  return note_leaf(r, leaf, err);
}

/* ---- locks and eviction ---- */

void kvs_radix_lock(kvs_radix *r, kvs_node *node) {
  for (; node != r->root; node = node->parent)
    if (!node->locks++) {
      r->evictable -= node->length;
      r->protected_ += node->length;
    }
}

kv_status kvs_radix_unlock(kvs_radix *r, kvs_node *node, kv_error *err) {
  kvs_node *leaf = node;
  for (; node != r->root; node = node->parent)
    if (!--node->locks) {
      r->evictable += node->length;
      r->protected_ -= node->length;
    }
  return note_leaf(r, leaf, err);
}

static void delete_leaf(kvs_radix *r, kvs_node *n) {
  unlink_child(r, n);
  n->parent->children--;
  r->evictable -= n->length;
  free(n->slots);
  n->slots = NULL;
  n->next = r->vacant;
  r->vacant = n;
  r->nodes--;
}

kv_status kvs_radix_evict(kvs_radix *r, uint64_t units, kvs_radix_give give, void *arg, kv_error *err) {
  uint64_t gone = 0;
  kvs_node *n;
  while (gone < units && (n = pop_leaf(r))) {
    kv_status st = give(arg, n->slots, n->length, err);
    if (st) return st;
    kvs_node *parent = n->parent;
    gone += n->length;
    delete_leaf(r, n);
    if ((st = note_leaf(r, parent, err))) return st;
  }
  return KV_OK;
}
