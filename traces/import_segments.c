/* The segments of a live recording, joined. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "kv_h5.h"

typedef struct join {
  const char *prefix;
  kvt_writer *writer;
  kvt_info first; /* of segment 0 */
  uint32_t segments;
  /* an event that comes in pieces */
  kvt_event open;
  int32_t *slots;
  uint32_t have, room;
  bool pieces;
} join;

static void name_of(const join *j, uint32_t segment, char *path, size_t size) {
  (void)snprintf(path, size, "%s.%06u.h5", j->prefix, segment);
}

static bool is_there(const char *path) {
  FILE *f = fopen(path, "rb");
  if (f) (void)fclose(f);
  return f != NULL;
}

/* Segments 0 to n - 1 are there; a later one that is there too means that one is missing. */
static kv_status count_segments(join *j, kv_error *err) {
  char path[4096], pattern[4096];
  glob_t found = {0};
  for (name_of(j, 0, path, sizeof path); is_there(path); name_of(j, j->segments, path, sizeof path)) j->segments++;
  if (!j->segments)
    return kv_fail(err, KV_ERR_IO, "%s: no such file; give the prefix that the recording was made with (KVROOF_RECORD), with .tp0 or .dpN", path);
  (void)snprintf(pattern, sizeof pattern, "%s.[0-9][0-9][0-9][0-9][0-9][0-9].h5", j->prefix);
  size_t all = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : j->segments;
  globfree(&found);
  if (all != j->segments)
    return kv_fail(err, KV_ERR_INPUT, "%s: this segment is missing, but there are later ones", path);
  return KV_OK;
}

static kv_status keep_piece(join *j, const kvt_event *e, kv_error *err) {
  if ((uint64_t)j->have + e->count > j->room) {
    uint64_t room = ((uint64_t)j->have + e->count) * 2;
    int32_t *grown = room < UINT32_MAX ? realloc(j->slots, room * sizeof *grown) : NULL;
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory for an event", j->prefix);
    j->slots = grown;
    j->room = (uint32_t)room;
  }
  if (e->count) memcpy(j->slots + j->have, e->slots, e->count * sizeof *j->slots);
  j->have += e->count;
  return KV_OK;
}

static kv_status pass_on(join *j, const kvt_event *e, bool more, kv_error *err) {
  kv_status st;
  if (!more && !j->pieces) return kvt_writer_event(j->writer, e, err);
  if (!j->pieces) j->open = *e;
  j->pieces = true;
  if ((st = keep_piece(j, e, err)) || more) return st;
  j->open.count = j->have;
  j->open.slots = j->slots;
  j->pieces = false;
  j->have = 0;
  return kvt_writer_event(j->writer, &j->open, err);
}

static kv_status pass_batch(join *j, const kvt_batch *b, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = 0, slot = 0, step = 0; i < b->events && !st; i++) {
    const kvt_event e = kvt_batch_event(b, i, slot);
    slot += e.count;
    if (e.kind == KVT_STEP)
      st = kvt_writer_step(j->writer, (kvt_step_type)e.aux, &b->step_rows[step++], err);
    else
      st = pass_on(j, &e, b->more && i + 1 == b->events, err);
  }
  return st;
}

static kv_status list_of(const char *path, const char *name, uint64_t n, kvt_writer *w, kv_error *err) {
  int32_t *list = malloc((n + 1) * sizeof *list);
  kv_status st = list ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  if (!st && n) st = kvt_read_list(path, name, n, list, err);
  if (!st) st = kvt_writer_list(w, name, list, n, err);
  free(list);
  return st;
}

/* The requests of a segment, read as lists. */
static kv_status requests_of(const char *path, uint64_t n, kvt_writer *w, kv_error *err) {
  static const char *const name[] = {"requests/timestamp", "requests/input_length", "requests/output_length"};
  int32_t *v[3] = {NULL};
  kv_status st = KV_OK;
  for (int i = 0; i < 3 && !st && n; i++) {
    v[i] = malloc(n * sizeof *v[i]);
    st = v[i] ? kvt_read_list(path, name[i], n, v[i], err) : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  }
  for (uint64_t i = 0; i < n && !st; i++) {
    const kvt_request q = {-1, v[0][i], v[1][i], v[2][i], -1, 0};
    st = kvt_writer_request(w, &q, err);
  }
  for (int i = 0; i < 3; i++) free(v[i]);
  return st;
}

static kv_status same_server(const join *j, const kvt_info *info, const char *path, kv_error *err) {
  const kvt_info *f = &j->first;
  if (info->allocator == f->allocator && info->pool_size == f->pool_size && info->page_size == f->page_size && !strcmp(info->origin, f->origin))
    return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: another allocator, pool, page or origin than segment 0: not of the same recording", path);
}

static kv_status begin(join *j, const kvt_info *info, const char *path, const char *output, const kvt_writer_options *options, kv_error *err) {
  kvt_info to = *info;
  const char *base = strrchr(j->prefix, '/');
  j->first = *info;
  (void)snprintf(to.source, sizeof to.source, "%u segments %.200s.NNNNNN.h5", j->segments, base ? base + 1 : j->prefix);
  kv_status st = kvt_writer_open(output, &to, options, &j->writer, err);
  if (!st && info->initial_free) st = list_of(path, "initial/free_list", info->initial_free, j->writer, err);
  return st;
}

static kv_status add_segment(join *j, uint32_t segment, const char *output, const kvt_writer_options *options, kv_error *err) {
  char path[4096];
  kvt_reader *reader = NULL;
  kvt_info info;
  kvt_batch batch;
  bool last = segment + 1 == j->segments;
  name_of(j, segment, path, sizeof path);
  kv_status st = kvt_reader_open(path, &reader, &info, err);
  if (!st) st = segment ? same_server(j, &info, path, err) : begin(j, &info, path, output, options, err);
  while (!st && !(st = kvt_reader_next(reader, &batch, err))) st = pass_batch(j, &batch, err);
  if (st == KV_END) st = last ? requests_of(path, info.requests, j->writer, err) : KV_OK;
  if (!st && last && info.has_final) {
    st = list_of(path, "final/free_list", info.final_free, j->writer, err);
    if (!st) st = list_of(path, "final/release_list", info.final_release, j->writer, err);
  }
  kvt_reader_close(reader);
  return st;
}

kv_status kvt_import_segments(const char *prefix, const char *output, const kvt_writer_options *options,
                              uint32_t *segments, kv_error *err) {
  join j = {.prefix = prefix};
  kv_status st = count_segments(&j, err);
  for (uint32_t i = 0; i < j.segments && !st; i++) st = add_segment(&j, i, output, options, err);
  const char *name = strrchr(prefix, '/'); /* folders are this machine's */
  if (!st) st = kvt_writer_source(j.writer, "segments_of", name ? name + 1 : prefix, err);
  kv_status finished = kvt_writer_finish(j.writer, st != KV_OK, st ? NULL : err);
  free(j.slots);
  *segments = j.segments;
  return st ? st : finished;
}
