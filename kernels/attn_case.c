#include "attn_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

uint64_t kvk_random(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

double kvk_normal(uint64_t *state) { /* Box and Muller */
  double u = ((double)(kvk_random(state) >> 11) + 1) / 9007199254740993.0;
  double v = (double)(kvk_random(state) >> 11) / 9007199254740992.0;
  return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static void fill_row(uint16_t *row, size_t n, double magnitude, uint64_t *state) {
  for (size_t d = 0; d < n; d++) row[d] = kvk_to_bf16((float)(magnitude * kvk_normal(state)));
}

/* A random order of the pool's rows, of which the first `n` are used. */
static int32_t *shuffled(int64_t rows, uint64_t n, uint64_t *state) {
  int32_t *order = malloc((size_t)rows * sizeof *order);
  if (!order) return NULL;
  for (int64_t i = 0; i < rows; i++) order[i] = (int32_t)i;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t other = i + kvk_random(state) % ((uint64_t)rows - i);
    int32_t row = order[i];
    order[i] = order[other];
    order[other] = row;
  }
  return order;
}

static void repeat_rows(const kvk_case *c, int batch) {
  for (int i = 0; i < batch; i++) {
    const uint64_t first = c->indptr[i], n = c->indptr[i + 1] - first, n0 = c->indptr[1] - c->indptr[0];
    for (uint64_t t = 0; t < n; t++) {
      if (t % 2) c->slots[first + t] = c->slots[first + t - 1];
      if (i && t < n / 2 && t < n0 / 2) c->slots[first + t] = c->slots[c->indptr[0] + t];
    }
  }
}

static kv_status place(const kvk_case_spec *s, kvk_case *c, uint64_t *state, kv_error *err) {
  const uint64_t nodes = (uint64_t)s->batch * (uint64_t)s->queries, all = c->keys + nodes;
  const int64_t rows = c->pool_rows;
  if ((int64_t)all > rows) return kv_fail(err, KV_ERR_USAGE, "a pool of %lld rows cannot hold %llu", (long long)rows, (unsigned long long)all);
  int32_t *order = s->slots == KVK_SLOTS_RANDOM || s->slots == KVK_SLOTS_REPEATED ? shuffled(rows, all, state) : NULL;
  if (!order && (s->slots == KVK_SLOTS_RANDOM || s->slots == KVK_SLOTS_REPEATED)) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint64_t k = 0; k < all; k++) {
    int64_t row = order                             ? order[k]
                  : s->slots == KVK_SLOTS_REVERSED ? (int64_t)(all - 1 - k)
                  : s->slots == KVK_SLOTS_END      ? rows - (int64_t)all + (int64_t)k
                                                   : (int64_t)k;
    if (k < c->keys) c->slots[k] = (int32_t)row;
    else c->tree_slots[k - c->keys] = s->tree == KVK_TREE_ABSENT ? -1 : (int32_t)row;
  }
  free(order);
  if (s->slots == KVK_SLOTS_REPEATED) repeat_rows(c, s->batch);
  return KV_OK;
}

static void ancestors(const kvk_case_spec *s, uint64_t *state, uint32_t sees[KVK_MAX_QUERIES]) {
  for (int q = 0; q < s->queries; q++) {
    int parent = q == 0 ? -1 : s->tree == KVK_TREE_CHAIN ? q - 1 : s->tree == KVK_TREE_STAR ? 0 : (int)(kvk_random(state) % (uint64_t)q);
    sees[q] = (parent < 0 ? 0 : sees[parent]) | 1u << q;
  }
  if (s->tree == KVK_TREE_HIDDEN) sees[s->queries / 2] = 0;
}

static size_t mask_size(const kvk_case_spec *s) {
  const size_t n = (size_t)s->queries, b = (size_t)s->batch;
  size_t full = 0;
  for (size_t i = 0; i < b; i++) full += n * ((size_t)s->prefix[i] + n);
  if (s->mask == KVK_MASK_FULL) return full;
  return s->mask == KVK_MASK_TREE ? b * n * n : s->mask == KVK_MASK_BITS ? b * n * (n <= 8 ? 1 : n <= 16 ? 2 : 4) : 0;
}

static void write_mask(const kvk_case_spec *s, const kvk_case *c, int request, const uint32_t *sees) {
  const size_t n = (size_t)s->queries, prefix = (size_t)s->prefix[request];
  uint8_t *bytes = c->mask;
  for (size_t q = 0; q < n; q++) {
    const size_t row = (size_t)request * n + q;
    if (s->mask == KVK_MASK_BITS && n <= 8) bytes[row] = (uint8_t)sees[q];
    else if (s->mask == KVK_MASK_BITS && n <= 16) ((uint16_t *)c->mask)[row] = (uint16_t)sees[q];
    else if (s->mask == KVK_MASK_BITS) ((uint32_t *)c->mask)[row] = sees[q];
    uint8_t *line = s->mask == KVK_MASK_FULL ? bytes + c->mask_indptr[request] + q * (prefix + n) : bytes + row * n;
    if (s->mask == KVK_MASK_FULL) memset(line, 1, prefix), line += prefix;
    for (size_t j = 0; j < n && (s->mask == KVK_MASK_FULL || s->mask == KVK_MASK_TREE); j++) line[j] = sees[q] >> j & 1;
  }
}

static void write_masks(const kvk_case_spec *s, kvk_case *c, uint64_t *state) {
  uint64_t at = 0;
  for (int i = 0; i < s->batch; i++) {
    uint32_t sees[KVK_MAX_QUERIES] = {0};
    ancestors(s, state, sees);
    c->mask_indptr[i] = at;
    at += (uint64_t)s->queries * (s->prefix[i] + (uint64_t)s->queries);
    write_mask(s, c, i, sees);
  }
}

/* Values for the rows that some slot names; NaN for the others if they are to be poison. */
static void write_pool(const kvk_case_spec *s, kvk_case *c, double magnitude, uint64_t *state) {
  const size_t width = KVK_LATENT + KVK_ROPE;
  const uint64_t nodes = (uint64_t)s->batch * (uint64_t)s->queries;
  if (s->poison) memset(c->kv, 0xff, (size_t)c->pool_rows * width * sizeof *c->kv);
  if (!s->poison) {
    for (int64_t r = 0; r < c->pool_rows; r++) fill_row(c->kv + (size_t)r * width, width, magnitude, state);
    return;
  }
  for (uint64_t k = 0; k < c->keys + nodes; k++) {
    int32_t slot = k < c->keys ? c->slots[k] : c->tree_slots[k - c->keys];
    if (slot >= 0) fill_row(c->kv + (size_t)slot * width, width, magnitude, state);
  }
}

static bool allocate(const kvk_case_spec *s, kvk_case *c) {
  const size_t width = KVK_LATENT + KVK_ROPE, b = (size_t)s->batch, nodes = b * (size_t)s->queries, rows = nodes * (size_t)s->heads;
  c->mask_bytes = mask_size(s);
  c->q = malloc((rows * width + 1) * sizeof *c->q);
  c->kv = malloc(((size_t)c->pool_rows * width + 1) * sizeof *c->kv);
  c->out = malloc((rows * KVK_LATENT + 1) * sizeof *c->out);
  c->lse = malloc((rows + 1) * sizeof *c->lse);
  c->indptr = malloc((b + 1) * sizeof *c->indptr);
  c->mask_indptr = malloc((b + 1) * sizeof *c->mask_indptr);
  c->slots = malloc(((size_t)c->keys + 1) * sizeof *c->slots);
  c->tree_slots = malloc((nodes + 1) * sizeof *c->tree_slots);
  c->mask = malloc(c->mask_bytes + 4);
  return c->q && c->kv && c->out && c->lse && c->indptr && c->mask_indptr && c->slots && c->tree_slots && c->mask;
}

kv_status kvk_case_make(const kvk_case_spec *s, kvk_case *c, kv_error *err) {
  uint64_t state = s->seed;
  const double magnitude = s->magnitude > 0 ? s->magnitude : 0.1;
  const size_t rows = (size_t)s->batch * (size_t)s->queries * (size_t)s->heads;
  memset(c, 0, sizeof *c);
  for (int i = 0; i < s->batch; i++) c->keys += s->prefix[i];
  c->pool_rows = s->pool_rows ? s->pool_rows : 2 * (int64_t)(c->keys + (uint64_t)s->batch * (uint64_t)s->queries) + 1;
  if (!allocate(s, c)) return kv_fail(err, KV_ERR_MEMORY, "out of memory for a problem of %lld rows", (long long)c->pool_rows);
  c->indptr[0] = 0;
  for (int i = 0; i < s->batch; i++) c->indptr[i + 1] = c->indptr[i] + s->prefix[i];
  kv_status status = place(s, c, &state, err);
  if (status != KV_OK) return status;
  write_masks(s, c, &state);
  write_pool(s, c, magnitude, &state);
  for (size_t r = 0; r < rows; r++) fill_row(c->q + r * (KVK_LATENT + KVK_ROPE), KVK_LATENT + KVK_ROPE, magnitude, &state);
  memset(c->out, 0xff, rows * KVK_LATENT * sizeof *c->out);
  memset(c->lse, 0xff, rows * sizeof *c->lse);
  c->problem = (kvk_problem){.batch = s->batch, .queries = s->queries, .heads = s->heads, .latent = KVK_LATENT, .rope = KVK_ROPE,
                             .scale = 0.0721687836f, .q = c->q, .q_row_stride = KVK_LATENT + KVK_ROPE, .kv = c->kv,
                             .kv_row_stride = KVK_LATENT + KVK_ROPE, .indptr = c->indptr, .slots = c->slots,
                             .tree_slots = s->tree == KVK_TREE_NONE ? NULL : c->tree_slots, .mask_kind = s->mask,
                             .mask = c->mask, .mask_indptr = c->mask_indptr, .prefix_capacity = c->keys, .out = c->out, .lse = c->lse};
  return KV_OK;
}

void kvk_case_free(kvk_case *c) {
  free(c->q);
  free(c->kv);
  free(c->out);
  free(c->lse);
  free(c->indptr);
  free(c->mask_indptr);
  free(c->slots);
  free(c->tree_slots);
  free(c->mask);
  memset(c, 0, sizeof *c);
}
