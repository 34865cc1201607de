#include "peer_problem.h"

#include <stdlib.h>
#include <string.h>

#include "attn_case.h"

enum { PIECE = 20000, WIDTH = KVK_LATENT + KVK_ROPE };
const char *const peer_layout_name[PEER_LAYOUTS] = {"contiguous", "random", "aliased"};

static kv_status upload(kvk_device *d, void **to, const void *from, size_t bytes, kv_error *err) {
  kv_status st = kvk_device_alloc(d, bytes, to, err);
  return st || !from ? st : kvk_device_put(d, *to, from, bytes, err);
}
#define UPLOAD(to, from, bytes) \
  if (!st) st = upload(p->device, (void **)&p->to, from, bytes, err)

static kv_status fill_pool(peer_problem *p, kv_error *err) {
  const size_t piece = (size_t)PIECE * WIDTH;
  uint64_t state = 1;
  p->rows = malloc(piece * 2);
  if (!p->rows) return kv_fail(err, KV_ERR_MEMORY, "pool: out of memory");
  for (size_t i = 0; i < piece; i++) p->rows[i] = kvk_to_bf16((float)(0.1 * kvk_normal(&state)));
  kv_status st = kvk_device_alloc(p->device, (uint64_t)p->pool * WIDTH * 2, (void **)&p->kv, err);
  for (long r = 0; !st && r < p->pool; r += PIECE) {
    const long n = p->pool - r < PIECE ? p->pool - r : PIECE;
    st = kvk_device_put(p->device, p->kv + (size_t)r * WIDTH, p->rows, (size_t)n * WIDTH * 2, err);
  }
  return st;
}

static kv_status fill_queries(peer_problem *p, kv_error *err) {
  const size_t values = (size_t)p->queries * PEER_MOST_HEADS * WIDTH, outputs = (size_t)p->queries * PEER_MOST_HEADS * KVK_LATENT;
  uint64_t state = 3;
  kv_status st = KV_OK;
  p->host_q = malloc(values * 2);
  if (!p->host_q) return kv_fail(err, KV_ERR_MEMORY, "queries: out of memory");
  for (size_t i = 0; i < values; i++) p->host_q[i] = kvk_to_bf16((float)(0.1 * kvk_normal(&state)));
  UPLOAD(q, p->host_q, values * 2);
  UPLOAD(out, NULL, outputs * 2);
  UPLOAD(out_ours, NULL, outputs * 2);
  return st;
}

/* The first of a random order of all rows. */
static kv_status draw(const peer_problem *p, int32_t *to, long n, kv_error *err) {
  int32_t *order = malloc((size_t)p->pool * sizeof *order);
  uint64_t state = 2;
  if (!order) return kv_fail(err, KV_ERR_MEMORY, "slots: out of memory");
  for (long i = 0; i < p->pool; i++) order[i] = (int32_t)i;
  for (long i = 0; i < n; i++) {
    const long j = i + (long)(kvk_random(&state) % (uint64_t)(p->pool - i));
    to[i] = order[j];
    order[j] = order[i];
  }
  free(order);
  return KV_OK;
}

static kv_status fill_slots(peer_problem *p, kv_error *err) {
  const long n = PEER_MOST_PREFIX + p->queries;
  int64_t *wide = malloc((size_t)n * sizeof *wide);
  kv_status st = KV_OK;
  for (int l = 0; l < PEER_LAYOUTS; l++) p->host_slots[l] = malloc((size_t)n * sizeof **p->host_slots);
  int32_t *const *slots = p->host_slots;
  if (!wide || !slots[0] || !slots[1] || !slots[2]) st = kv_fail(err, KV_ERR_MEMORY, "slots: out of memory");
  if (!st) st = draw(p, slots[PEER_RANDOM], n, err);
  for (long i = 0; !st && i < n; i++) {
    const bool tree = i >= PEER_MOST_PREFIX;
    slots[PEER_CONTIGUOUS][i] = tree ? slots[PEER_RANDOM][i] : (int32_t)i + 1000;
    slots[PEER_ALIASED][i] = tree ? slots[PEER_RANDOM][i] : slots[PEER_RANDOM][i] % 64;
  }
  for (int l = 0; !st && l < PEER_LAYOUTS; l++) {
    for (long i = 0; i < n; i++) wide[i] = slots[l][i];
    UPLOAD(slots[l], slots[l], (size_t)n * sizeof **slots);
    UPLOAD(slots64[l], wide, (size_t)n * sizeof *wide);
  }
  free(wide);
  return st;
}

/* SGLang gets the tree's rows as arrays of their own, K and V apart, before they are in the pool. */
static kv_status fill_tree(peer_problem *p, kv_error *err) {
  const size_t n = (size_t)p->queries;
  uint16_t *k = malloc(n * WIDTH * 2), *v = malloc(n * KVK_LATENT * 2);
  kv_status st = k && v ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "tree: out of memory");
  for (size_t i = 0; !st && i < n; i++) {
    const uint16_t *row = p->rows + (size_t)(p->host_slots[PEER_RANDOM][PEER_MOST_PREFIX + i] % PIECE) * WIDTH;
    memcpy(k + i * WIDTH, row, WIDTH * 2);
    memcpy(v + i * KVK_LATENT, row, KVK_LATENT * 2);
  }
  UPLOAD(k_tree, k, n * WIDTH * 2);
  UPLOAD(v_tree, v, n * KVK_LATENT * 2);
  free(k);
  free(v);
  return st;
}

kv_status peer_problem_open(kvk_device *device, long pool, int queries, peer_problem *p, kv_error *err) {
  const int64_t qo[2] = {0, queries}, zero[2] = {0, 0};
  memset(p, 0, sizeof *p);
  p->device = device;
  p->pool = pool;
  p->queries = queries;
  kv_status st = fill_pool(p, err);
  if (!st) st = fill_queries(p, err);
  if (!st) st = fill_slots(p, err);
  if (!st) st = fill_tree(p, err);
  UPLOAD(qo_indptr, qo, sizeof qo);
  UPLOAD(mask_indptr, zero, sizeof zero);
  UPLOAD(kv_indptr, NULL, 2 * sizeof(int32_t));
  UPLOAD(indptr, NULL, 2 * sizeof(uint64_t));
  UPLOAD(mask, NULL, (size_t)queries * (size_t)(PEER_MOST_PREFIX + queries));
  return st;
}

void peer_problem_close(peer_problem *p) {
  void *const arrays[] = {p->kv, p->q, p->k_tree, p->v_tree, p->out, p->out_ours, p->kv_indptr, p->qo_indptr, p->mask_indptr, p->indptr, p->mask};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) kvk_device_free(p->device, arrays[i]);
  for (int l = 0; l < PEER_LAYOUTS; l++) {
    kvk_device_free(p->device, p->slots[l]);
    kvk_device_free(p->device, p->slots64[l]);
    free(p->host_slots[l]);
  }
  free(p->rows);
  free(p->host_q);
  memset(p, 0, sizeof *p);
}

/* A chain, as an array: the prefix's part, which is skipped, hides all. */
static kv_status put_mask(peer_problem *p, long prefix, kv_error *err) {
  const size_t n = (size_t)p->queries, row = (size_t)prefix + n;
  uint8_t *mask = calloc(n * row, 1);
  if (!mask) return kv_fail(err, KV_ERR_MEMORY, "mask: out of memory");
  for (size_t i = 0; i < n; i++) memset(mask + i * row + (size_t)prefix, 1, i + 1);
  const kv_status st = kvk_device_put(p->device, p->mask, mask, n * row, err);
  free(mask);
  return st;
}

static void set_arrays(peer_problem *p, peer_layout layout) {
  const peer_array all[PEER_ARRAYS] = {{"Q_Extend", "*bf16", p->q},           {"K_Extend", "*bf16", p->k_tree},   {"V_Extend", "*bf16", p->v_tree},
                                       {"O_Extend", "*bf16", p->out},         {"K_Buffer", "*bf16", p->kv},       {"V_Buffer", "*bf16", p->kv},
                                       {"qo_indptr", "*i64", p->qo_indptr},   {"kv_indptr", "*i32", p->kv_indptr}, {"kv_indices", "*i64", p->slots64[layout]},
                                       {"mask_ptr", "*u8", p->mask},          {"mask_indptr", "*i64", p->mask_indptr}};
  memcpy(p->arrays, all, sizeof all);
}

kv_status peer_problem_set(peer_problem *p, int heads, long prefix, peer_layout layout, kv_error *err) {
  const int32_t indptr[2] = {0, (int32_t)prefix};
  const uint64_t wide[2] = {0, (uint64_t)prefix};
  if (heads < 1 || heads > PEER_MOST_HEADS || prefix < 1 || prefix > PEER_MOST_PREFIX)
    return kv_fail(err, KV_ERR_USAGE, "heads %d, prefix %ld: up to %d and %d are possible", heads, prefix, PEER_MOST_HEADS, PEER_MOST_PREFIX);
  kv_status st = kvk_device_put(p->device, p->kv_indptr, indptr, sizeof indptr, err);
  if (!st) st = kvk_device_put(p->device, p->indptr, wide, sizeof wide, err);
  if (!st) st = put_mask(p, prefix, err);
  set_arrays(p, layout);
  p->ours = (kvk_problem){.batch = 1, .queries = p->queries, .heads = heads, .latent = KVK_LATENT, .rope = KVK_ROPE, .scale = 0.07216878364870323f,
                          .q = p->q, .q_row_stride = WIDTH, .kv = p->kv, .kv_row_stride = WIDTH, .indptr = p->indptr, .slots = p->slots[layout],
                          .tree_slots = p->slots[layout] + PEER_MOST_PREFIX, .mask_kind = KVK_MASK_CHAIN, .prefix_capacity = (uint64_t)prefix, .out = p->out_ours};
  return st;
}

kv_status peer_problem_reference(const peer_problem *p, long prefix, peer_layout layout, double **out, kv_error *err) {
  const size_t n = (size_t)(p->queries * p->ours.heads);
  const uint64_t indptr[2] = {0, (uint64_t)prefix};
  int32_t *slots = malloc((size_t)(prefix + p->queries) * sizeof *slots);
  double *lse = malloc(n * sizeof *lse);
  kvk_problem host = p->ours;
  *out = malloc(n * KVK_LATENT * sizeof **out);
  kv_status st = slots && lse && *out ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "reference: out of memory");
  for (long i = 0; !st && i < prefix + p->queries; i++)
    slots[i] = p->host_slots[layout][i < prefix ? i : PEER_MOST_PREFIX + i - prefix] % PIECE;
  host.q = p->host_q;
  host.kv = p->rows;
  host.indptr = indptr;
  host.slots = slots;
  host.tree_slots = slots ? slots + prefix : NULL;
  if (!st) st = kvk_reference(&host, *out, lse, err);
  free(slots);
  free(lse);
  return st;
}
