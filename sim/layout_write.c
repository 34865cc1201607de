#include "layout_write.h"

#include <stdlib.h>

#include "kv_h5.h"

typedef struct gathered {
  int32_t *request, *slots, *tree;
  uint64_t *indptr;
  uint64_t n, rows, tree_n;
  uint32_t queries; /* a request, 0: no common verify block */
} gathered;

static bool wanted(const kvs_layout_options *o, int32_t id, const kvs_row *row) {
  return o->request == id || (o->request == KVS_ALL_REQUESTS && row->rows > 0);
}

/* Sizes first: how many requests, rows, and whether they share a verify block's size. */
static void measure(const kvs_replay *r, const kvs_layout_options *o, gathered *g) {
  for (uint32_t i = 0; i < kvs_replay_running(r); i++) {
    int32_t id;
    uint32_t n;
    uint64_t prefix;
    const kvs_row *row = kvs_replay_row(r, i, &id);
    if (!wanted(o, id, row)) continue;
    (void)kvs_replay_tree(r, i, &n, &prefix);
    g->queries = g->n == 0 || g->queries == n ? n : 0;
    g->n++;
    g->rows += row->rows;
  }
}

static void fill(const kvs_replay *r, const kvs_layout_options *o, gathered *g) {
  uint64_t k = 0, at = 0;
  g->indptr[0] = 0;
  for (uint32_t i = 0; i < kvs_replay_running(r); i++) {
    int32_t id;
    uint32_t n;
    uint64_t prefix;
    const kvs_row *row = kvs_replay_row(r, i, &id);
    if (!wanted(o, id, row)) continue;
    const int32_t *tree = kvs_replay_tree(r, i, &n, &prefix);
    uint64_t rows = g->queries && prefix < row->rows ? prefix : row->rows;
    kvs_row_slots(row, 0, (uint32_t)rows, g->slots + at);
    at += rows;
    g->request[k] = id;
    g->indptr[++k] = at;
    for (uint32_t t = 0; t < g->queries; t++) g->tree[g->tree_n++] = tree[t];
  }
  g->rows = at;
}

static kv_status write_file(const kvs_replay *r, const kvt_info *info, const kvs_geometry *geometry,
                            const kvs_layout_options *o, const gathered *g, kv_error *err) {
  kv_h5_out out;
  kv_status st = kv_h5_create(o->path, KVS_LAYOUT_CONVENTIONS, "kvsim", o->command, &out, err);
  if (st) return st;
  hid_t f = out.file;
  if (!st) st = kv_h5_put_i64(f, "pool_rows", (int64_t)info->first_slot + info->pool_size, err);
  if (!st) st = kv_h5_put_i64(f, "page_size", info->page_size, err);
  if (!st) st = kv_h5_put_i64(f, "row_bytes", geometry->row_bytes, err);
  if (!st) st = kv_h5_put_i64(f, "step", kvs_replay_step(r), err);
  if (!st) st = kv_h5_put_str(f, "trace", o->trace, err);
  if (!st) st = kv_h5_put_str(f, "trace_sha256", o->sha256, err);
  if (!st) st = kv_h5_put_str(f, "origin", info->origin, err);
  if (!st)
    st = kv_h5_write(f, "request", H5T_STD_I32LE, g->n, g->request, "1", "request number in the trace", KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "indptr", H5T_STD_U64LE, g->n + 1, g->indptr, "row", "request i has slots indptr[i] to indptr[i+1]",
                     KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "slots", H5T_STD_I32LE, g->rows, g->slots, "1", "slot of each row, in token order",
                     KV_H5_DEFLATE_1, err);
  if (!st && g->queries)
    st = kv_h5_write(f, "tree_slots", H5T_STD_I32LE, g->tree_n, g->tree, "1",
                     "slots of the draft tree's nodes, the same number for each request", KV_H5_SMALL, err);
  if (st)
    kv_h5_abort(&out);
  else
    st = kv_h5_commit(&out, err);
  return st;
}

kv_status kvs_layout_write(const kvs_replay *r, const kvt_info *info, const kvs_geometry *geometry,
                           const kvs_layout_options *o, kv_error *err) {
  gathered g = {0};
  measure(r, o, &g);
  if (!g.n && o->request != KVS_ALL_REQUESTS) return KV_END;
  g.request = malloc(g.n * sizeof *g.request + 1);
  g.indptr = malloc((g.n + 1) * sizeof *g.indptr);
  g.slots = malloc(g.rows * sizeof *g.slots + 1);
  g.tree = malloc(g.n * g.queries * sizeof *g.tree + 1);
  kv_status st = KV_OK;
  if (!g.request || !g.indptr || !g.slots || !g.tree) {
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", o->path);
  } else {
    fill(r, o, &g);
    st = write_file(r, info, geometry, o, &g, err);
  }
  free(g.request);
  free(g.indptr);
  free(g.slots);
  free(g.tree);
  return st;
}
