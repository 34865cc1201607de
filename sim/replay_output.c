#include "replay_output.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"

#define SCATTERED_ROWS 1024u

enum { U8, U32, I32, I64, U64, F64 };

typedef struct series {
  const char *name;
  int type;
  const char *units, *long_name;
} series;

enum { POOL_SERIES = 17, SAMPLE_SERIES = 15, MILESTONE_SERIES = 7 };
static const series pool_series[POOL_SERIES] = {
    {"pool/step", U32, "1", "scheduler step"},
    {"pool/time", I64, "us", "time at the end of the step"},
    {"pool/step_type", U8, "1", "0 drain, 1 prefill, 2 decode"},
    {"pool/running", U32, "1", "running requests"},
    {"pool/waiting", I32, "1", "requests in the queue, -1 unknown"},
    {"pool/live_rows", U64, "row", "rows of all running requests"},
    {"pool/allocated", U64, "slot", "allocated slots"},
    {"pool/live", U64, "slot", "slots that a running request's row or draft tree holds"},
    {"pool/cached", U64, "slot", "allocated slots that only the prefix cache holds"},
    {"pool/free", U64, "slot", "free slots"},
    {"pool/free_runs_address", U64, "1", "runs of free slots by address"},
    {"pool/largest_free_run", U64, "slot", "longest run of free slots by address"},
    {"pool/free_runs_list", U64, "1", "runs of free slots (pages) in hand-out order, 0 if the order is unknown"},
    {"pool/fragmentation", F64, "1", "fragmentation index: 1 - largest free run / free slots"},
    {"pool/mean_run", F64, "row", "rows of all running requests / their runs"},
    {"pool/evictable", I32, "slot", "recorded: prefix-cache slots that could be evicted, -1 unknown"},
    {"pool/protected", I32, "slot", "recorded: prefix-cache slots that are locked, -1 unknown"}};
static const series sample_series[SAMPLE_SERIES] = {
    {"samples/step", U32, "1", "scheduler step"},
    {"samples/request", I32, "1", "request"},
    {"samples/rows", U64, "row", "committed rows"},
    {"samples/runs", U64, "1", "contiguous runs of slots in token order"},
    {"samples/mean_run", F64, "row", "mean run length"},
    {"samples/run_p10", F64, "row", "run length, 10 % quantile over runs (above 64 rounded up by at most 3 %)"},
    {"samples/run_p50", F64, "row", "run length, median over runs (above 64 rounded up by at most 3 %)"},
    {"samples/run_p90", F64, "row", "run length, 90 % quantile over runs (above 64 rounded up by at most 3 %)"},
    {"samples/run_max", U64, "row", "longest run (above 64 rounded up by at most 3 %)"},
    {"samples/adjacent_fraction", F64, "1", "share of neighbouring rows in neighbouring slots"},
    {"samples/span", U64, "slot", "largest - smallest slot + 1"},
    {"samples/tlb_pages", U64, "1", "distinct TLB pages touched in one layer"},
    {"samples/sectors", U64, "1", "sectors fetched in one layer, each run read as one stretch"},
    {"samples/useful_bytes", U64, "B", "rows x row_bytes"},
    {"samples/dram_rows", U64, "1", "distinct address blocks of dram_row_bytes touched in one layer"}};
static const series milestone_series[MILESTONE_SERIES] = {
    {"milestones/request", I32, "1", "request"},
    {"milestones/step", U32, "1", "scheduler step"},
    {"milestones/rows", U64, "row", "committed rows"},
    {"milestones/runs", U64, "1", "contiguous runs of slots in token order"},
    {"milestones/mean_run", F64, "row", "mean run length"},
    {"milestones/adjacent_fraction", F64, "1", "share of neighbouring rows in neighbouring slots"},
    {"milestones/span", U64, "slot", "largest - smallest slot + 1"}};

struct kvs_output {
  kvs_output_options options;
  kvt_info info;
  kvs_geometry geometry;
  kv_h5_out out;
  kv_h5_column pool[POOL_SERIES], sample[SAMPLE_SERIES], milestone[MILESTONE_SERIES], event_name;
  kvs_scattered scattered[KVS_SCATTERED];
  uint32_t scattered_n;
  kvs_pool_sample last; /* at the end */
  uint64_t samples;
  /* sums over request samples, for the verdict */
  uint64_t rows, runs, sectors, useful_bytes, dram_rows, dram_rows_ideal, tlb_pages, tlb_pages_ideal;
  char verdict[768];
};

static hid_t file_type(int t) {
  const hid_t types[] = {H5T_STD_U8LE, H5T_STD_U32LE, H5T_STD_I32LE, H5T_STD_I64LE, H5T_STD_U64LE, H5T_IEEE_F64LE};
  return types[t];
}

static kv_status open_series(kvs_output *o, const series *s, int n, size_t chunk, kv_h5_column *column, kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 0; i < n && !st; i++)
    st = kv_h5_column_open(o->out.file, s[i].name, file_type(s[i].type), s[i].units, s[i].long_name, KV_H5_DEFLATE_1,
                           chunk, &column[i], err);
  return st;
}

static kv_status append(kv_h5_column *column, int n, const void *const *value, kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 0; i < n && !st; i++) st = kv_h5_column_append(&column[i], 1, value[i], err);
  return st;
}

static kv_status on_pool(void *arg, const kvs_pool_sample *s, kv_error *err) {
  kvs_output *o = arg;
  const uint8_t type = (uint8_t)s->type;
  const void *value[POOL_SERIES] = {&s->step, &s->recorded.time_us, &type, &s->running, &s->recorded.waiting,
                                    &s->live_rows, &s->allocated, &s->live, &s->cached, &s->free,
                                    &s->free_runs_address, &s->largest_free_run, &s->free_runs_list,
                                    &s->fragmentation, &s->mean_run, &s->recorded.evictable, &s->recorded.protected_};
  o->samples++;
  return append(o->pool, POOL_SERIES, value, err);
}

static kv_status on_request(void *arg, uint32_t step, int32_t request, const kvs_measure *m, kv_error *err) {
  kvs_output *o = arg;
  const void *value[SAMPLE_SERIES] = {&step, &request, &m->rows, &m->runs, &m->mean_run, &m->run_p10, &m->run_p50,
                                      &m->run_p90, &m->run_max, &m->adjacent_fraction, &m->span, &m->tlb_pages,
                                      &m->sectors, &m->useful_bytes, &m->dram_rows};
  o->rows += m->rows;
  o->runs += m->runs;
  o->tlb_pages += m->tlb_pages;
  o->tlb_pages_ideal += (m->useful_bytes + o->geometry.tlb_page_bytes - 1) / o->geometry.tlb_page_bytes;
  o->sectors += m->sectors;
  o->useful_bytes += m->useful_bytes;
  o->dram_rows += m->dram_rows;
  o->dram_rows_ideal += (m->useful_bytes + o->geometry.dram_row_bytes - 1) / o->geometry.dram_row_bytes;
  return append(o->sample, SAMPLE_SERIES, value, err);
}

/* ---- the most scattered requests ---- */

static int ascending(const void *a, const void *b) {
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x > y) - (x < y);
}

/* Run lengths of the first `rows` positions: a milestone may be older than the row by one commit. */
static kv_status tabulate(const kvs_row *row, uint64_t rows, kvs_scattered *s, kv_error *err) {
  int32_t *length = malloc(row->runs * sizeof *length);
  s->length = malloc(row->runs * sizeof *s->length);
  s->count = malloc(row->runs * sizeof *s->count);
  s->lengths = 0;
  if (!length || !s->length || !s->count) {
    free(length);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory for run lengths");
  }
  uint32_t runs = 0;
  for (; runs < row->runs && rows; runs++) {
    length[runs] = (uint64_t)row->run[runs].length < rows ? row->run[runs].length : (int32_t)rows;
    rows -= (uint64_t)length[runs];
  }
  qsort(length, runs, sizeof *length, ascending);
  for (uint32_t i = 0; i < runs; i++) {
    if (!s->lengths || s->length[s->lengths - 1] != (uint64_t)length[i]) {
      s->length[s->lengths] = (uint64_t)length[i];
      s->count[s->lengths++] = 0;
    }
    s->count[s->lengths - 1]++;
  }
  free(length);
  /* The tables are kept to the end: give back what the distinct lengths do not need. */
  uint64_t *fit = realloc(s->length, s->lengths * sizeof *fit);
  if (fit) s->length = fit;
  fit = realloc(s->count, s->lengths * sizeof *fit);
  if (fit) s->count = fit;
  return KV_OK;
}

static void drop_scattered(kvs_output *o, uint32_t i) {
  free(o->scattered[i].length);
  free(o->scattered[i].count);
  memmove(&o->scattered[i], &o->scattered[i + 1], (o->scattered_n - i - 1) * sizeof *o->scattered);
  o->scattered_n--;
}

static kv_status consider(kvs_output *o, const kvs_milestone *m, kv_error *err) {
  if (m->rows < SCATTERED_ROWS || !m->row || !m->row->runs) return KV_OK;
  for (uint32_t i = 0; i < o->scattered_n; i++) {
    if (o->scattered[i].at.request != m->request) continue;
    if (o->scattered[i].at.mean_run <= m->mean_run) return KV_OK;
    drop_scattered(o, i);
  }
  uint32_t at = o->scattered_n;
  while (at && o->scattered[at - 1].at.mean_run > m->mean_run) at--;
  if (at == KVS_SCATTERED) return KV_OK;
  kvs_scattered fresh = {.at = *m};
  kv_status st = tabulate(m->row, m->rows, &fresh, err);
  if (st) {
    free(fresh.length);
    free(fresh.count);
    return st;
  }
  if (o->scattered_n == KVS_SCATTERED) drop_scattered(o, KVS_SCATTERED - 1);
  memmove(&o->scattered[at + 1], &o->scattered[at], (o->scattered_n - at) * sizeof *o->scattered);
  o->scattered[at] = fresh;
  o->scattered_n++;
  return KV_OK;
}

static void print_milestone(FILE *f, const kvs_milestone *m) {
  /* The digits of the recordings' statistics: 2 for mean_run, 5 for adjacent_fraction. */
  fprintf(f,
          "{\"request\": %d, \"step\": %u, \"event\": \"%s\", \"rows\": %llu, \"runs\": %llu, \"mean_run\": %.2f, "
          "\"adjacent_fraction\": %.5f, \"span\": %llu}\n",
          m->request, m->step, m->event, (unsigned long long)m->rows, (unsigned long long)m->runs, m->mean_run,
          m->adjacent_fraction, (unsigned long long)m->span);
}

static kv_status on_milestone(void *arg, const kvs_milestone *m, kv_error *err) {
  kvs_output *o = arg;
  const void *value[MILESTONE_SERIES] = {&m->request, &m->step, &m->rows, &m->runs, &m->mean_run,
                                         &m->adjacent_fraction, &m->span};
  if (o->options.milestones) print_milestone(o->options.milestones, m);
  kv_status st = append(o->milestone, MILESTONE_SERIES, value, err);
  if (!st) st = kv_h5_column_append(&o->event_name, 1, m->event, err);
  return st ? st : consider(o, m, err);
}

/* ---- opening and closing ---- */

static kv_status write_head(kvs_output *o, kv_error *err) {
  hid_t f = o->out.file;
  const struct {
    const char *name, *value;
  } text[] = {{"trace", o->options.trace},         {"trace_sha256", o->options.sha256},
              {"trace_origin", o->info.origin},    {"trace_source", o->info.source},
              {"allocator", kvt_allocator_name(o->info.allocator)}, {"default", "pool"}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"pool_size", o->info.pool_size},
                {"page_size", o->info.page_size},
                {"row_bytes", o->geometry.row_bytes},
                {"sector_bytes", o->geometry.sector_bytes},
                {"tlb_page_bytes", o->geometry.tlb_page_bytes},
                {"dram_row_bytes", o->geometry.dram_row_bytes},
                {"every", o->options.every}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof text / sizeof *text && !st; i++)
    st = kv_h5_put_str(f, text[i].name, text[i].value, err);
  for (size_t i = 0; i < sizeof number / sizeof *number && !st; i++)
    st = kv_h5_put_i64(f, number[i].name, number[i].value, err);
  return st;
}

kv_status kvs_output_open(const kvs_output_options *options, const kvt_info *info, const kvs_geometry *geometry,
                          kvs_output **output, kvs_observer *observer, kv_error *err) {
  *output = NULL;
  kvs_output *o = calloc(1, sizeof *o);
  if (!o) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  o->options = *options;
  o->info = *info;
  o->geometry = *geometry;
  kv_status st = kv_h5_create(options->path, KVS_CONVENTIONS, "kvsim", options->command, &o->out, err);
  if (!st) st = write_head(o, err);
  if (!st) st = open_series(o, pool_series, POOL_SERIES, 1024, o->pool, err);
  if (!st) st = open_series(o, sample_series, SAMPLE_SERIES, 8192, o->sample, err);
  if (!st) st = open_series(o, milestone_series, MILESTONE_SERIES, 1024, o->milestone, err);
  if (!st) {
    hid_t name_type = H5Tcopy(H5T_C_S1);
    (void)H5Tset_size(name_type, sizeof((kvs_milestone *)0)->event);
    st = kv_h5_column_open(o->out.file, "milestones/event", name_type, "1", "which milestone", KV_H5_DEFLATE_1, 1024,
                           &o->event_name, err);
    (void)H5Tclose(name_type);
  }
  if (st) {
    kvs_output_abandon(o);
    kvs_output_free(o);
    return st;
  }
  *observer = (kvs_observer){.arg = o, .pool = on_pool, .request = on_request, .milestone = on_milestone};
  *output = o;
  return KV_OK;
}

static kv_status close_series(kv_h5_column *column, int n, kv_status st, kv_error *err) {
  for (int i = 0; i < n; i++) {
    kv_status closed = kv_h5_column_close(&column[i], st ? NULL : err);
    if (!st) st = closed;
  }
  return st;
}

static kv_status close_columns(kvs_output *o, kv_error *err) {
  kv_status st = close_series(o->pool, POOL_SERIES, KV_OK, err);
  st = close_series(o->sample, SAMPLE_SERIES, st, err);
  st = close_series(o->milestone, MILESTONE_SERIES, st, err);
  return close_series(&o->event_name, 1, st, err);
}

static kv_status attach_scales(kvs_output *o, kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 1; i < POOL_SERIES && !st; i++)
    st = kv_h5_attach_scale(o->out.file, pool_series[i].name, "pool/step", err);
  return st;
}

/* ---- the end ---- */

static kv_status write_slots(kvs_output *o, const kvs_replay *r, kv_error *err) {
  const kvs_pool *p = kvs_replay_get_pool(r);
  uint8_t *state = malloc(p->size);
  uint32_t *refs = malloc(p->size * sizeof *refs);
  kv_status st = state && refs ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for the final state");
  for (uint32_t i = 0; i < p->size && !st; i++) {
    refs[i] = p->state[i] & KVS_REFS;
    state[i] = p->state[i] & KVS_FREE ? 0 : refs[i] ? 2 : 1;
  }
  hid_t f = o->out.file;
  if (!st)
    st = kv_h5_write(f, "final/slot_state", H5T_STD_U8LE, p->size, state, "1", "slot: 0 free, 1 cached, 2 live",
                     KV_H5_DEFLATE_1, err);
  if (!st)
    st = kv_h5_write(f, "final/slot_owner", H5T_STD_I32LE, p->size, p->owner, "1",
                     "request that allocated the slot last, -1 none", KV_H5_DEFLATE_1, err);
  if (!st)
    st = kv_h5_write(f, "final/slot_refs", H5T_STD_U32LE, p->size, refs, "1", "rows of running requests that hold the slot",
                     KV_H5_DEFLATE_1, err);
  free(state);
  free(refs);
  return st;
}

static kv_status write_free_list(kvs_output *o, const kvs_replay *r, kv_error *err) {
  const kvs_freelist *l = kvs_replay_get_freelist(r);
  int32_t *entries = malloc(((size_t)l->count + l->released) * sizeof *entries + 1);
  if (!entries) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the final free list");
  kvs_freelist_copy(l, entries, entries + l->count);
  kv_status st = kv_h5_write(o->out.file, "final/free_list", H5T_STD_I32LE, l->count, entries, "1",
                             "free slots (pages) in hand-out order; empty if the order is unknown", KV_H5_DEFLATE_1, err);
  if (!st)
    st = kv_h5_write(o->out.file, "final/release_list", H5T_STD_I32LE, l->released, entries + l->count, "1",
                     "freed slots (pages) that wait to be sorted in", KV_H5_DEFLATE_1, err);
  free(entries);
  return st;
}

static kv_status write_rows(kvs_output *o, const kvs_replay *r, kv_error *err) {
  uint32_t n = kvs_replay_running(r);
  uint64_t rows = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) rows += kvs_replay_row(r, i, NULL)->rows;
  int32_t *request = malloc(n * sizeof *request + 1), *slots = malloc(rows * sizeof *slots + 1);
  uint64_t *indptr = malloc((n + 1ull) * sizeof *indptr);
  kv_status st = request && slots && indptr ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for the final rows");
  for (uint32_t i = 0; i < n && !st; i++) {
    const kvs_row *row = kvs_replay_row(r, i, &request[i]);
    indptr[i] = at;
    kvs_row_slots(row, 0, (uint32_t)row->rows, slots + at);
    at += row->rows;
  }
  if (indptr) indptr[n] = at;
  hid_t f = o->out.file;
  if (!st) st = kv_h5_write(f, "final/request", H5T_STD_I32LE, n, request, "1", "requests still running", KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "final/indptr", H5T_STD_U64LE, n + 1ull, indptr, "row",
                     "request i has slots indptr[i] to indptr[i+1]", KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "final/slots", H5T_STD_I32LE, rows, slots, "1", "slot of each row, in token order",
                     KV_H5_DEFLATE_1, err);
  free(request);
  free(slots);
  free(indptr);
  return st;
}

static kv_status write_run_lengths(kvs_output *o, kv_error *err) {
  uint64_t indptr[KVS_SCATTERED + 1] = {0}, total = 0;
  for (uint32_t i = 0; i < o->scattered_n; i++) indptr[i + 1] = total += o->scattered[i].lengths;
  uint64_t *length = malloc(total * sizeof *length + 1), *count = malloc(total * sizeof *count + 1);
  kv_status st = length && count ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory for run lengths");
  for (uint32_t i = 0; i < o->scattered_n && !st; i++) {
    memcpy(length + indptr[i], o->scattered[i].length, o->scattered[i].lengths * sizeof *length);
    memcpy(count + indptr[i], o->scattered[i].count, o->scattered[i].lengths * sizeof *count);
  }
  hid_t f = o->out.file;
  if (!st)
    st = kv_h5_write(f, "scattered/indptr", H5T_STD_U64LE, o->scattered_n + 1ull, indptr, "1",
                     "request i owns run_length[indptr[i]:indptr[i+1]]", KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "scattered/run_length", H5T_STD_U64LE, total, length, "row", "run length, ascending per request",
                     KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(f, "scattered/run_count", H5T_STD_U64LE, total, count, "1", "runs of that length", KV_H5_SMALL, err);
  free(length);
  free(count);
  return st;
}

static kv_status write_scattered(kvs_output *o, kv_error *err) {
  int32_t request[KVS_SCATTERED];
  uint32_t step[KVS_SCATTERED], n = o->scattered_n;
  uint64_t rows[KVS_SCATTERED], runs[KVS_SCATTERED];
  double mean_run[KVS_SCATTERED], adjacent[KVS_SCATTERED];
  for (uint32_t i = 0; i < n; i++) {
    const kvs_milestone *m = &o->scattered[i].at;
    request[i] = m->request;
    step[i] = m->step;
    rows[i] = m->rows;
    runs[i] = m->runs;
    mean_run[i] = m->mean_run;
    adjacent[i] = m->adjacent_fraction;
  }
  const struct {
    const char *name;
    hid_t type;
    const void *data;
    const char *units, *long_name;
  } column[] = {{"scattered/request", H5T_STD_I32LE, request, "1", "request, most scattered first"},
                {"scattered/step", H5T_STD_U32LE, step, "1", "step of its most scattered milestone"},
                {"scattered/rows", H5T_STD_U64LE, rows, "row", "committed rows"},
                {"scattered/runs", H5T_STD_U64LE, runs, "1", "contiguous runs"},
                {"scattered/mean_run", H5T_IEEE_F64LE, mean_run, "row", "mean run length"},
                {"scattered/adjacent_fraction", H5T_IEEE_F64LE, adjacent, "1", "share of rows in neighbouring slots"}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof column / sizeof *column && !st; i++)
    st = kv_h5_write(o->out.file, column[i].name, column[i].type, n, column[i].data, column[i].units,
                     column[i].long_name, KV_H5_SMALL, err);
  return st ? st : write_run_lengths(o, err);
}

static kv_status write_counts(kvs_output *o, const kvs_replay_totals *t, kv_error *err) {
  const char *names[KVT_KINDS];
  uint64_t n = 0, events[KVT_KINDS], slots[KVT_KINDS];
  for (unsigned k = 1; k < KVT_KINDS; k++) {
    names[n] = kvt_kind_name((kvt_kind)k);
    events[n] = t->events[k];
    slots[n++] = t->slots[k];
  }
  kv_status st = kv_h5_write_strings(o->out.file, "counts/kind", n, names, "event kind", err);
  if (!st) st = kv_h5_write(o->out.file, "counts/events", H5T_STD_U64LE, n, events, "1", "events", KV_H5_SMALL, err);
  if (!st) st = kv_h5_write(o->out.file, "counts/slots", H5T_STD_U64LE, n, slots, "slot", "slots of them", KV_H5_SMALL, err);
  return st;
}

static double over(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 1; }

/* What a reviewer wants to know first, in words that the numbers carry. */
static void say_verdict(kvs_output *o) {
  const kvs_pool_sample *s = &o->last;
  const kvs_scattered *w = o->scattered_n ? &o->scattered[0] : NULL;
  char rows[320] = "No request ran at a sampled step.", worst[120] = "";
  if (o->runs)
    (void)snprintf(rows, sizeof rows,
                   "Rows lie in runs of %.1f on average (all requests, all samples). Against the same rows side by side, reading "
                   "one layer touches %.1f x the 2-MiB pages and %.2f x the DRAM rows, and fetches %.3f x the useful bytes in "
                   "sectors.",
                   over(o->rows, o->runs), over(o->tlb_pages, o->tlb_pages_ideal), over(o->dram_rows, o->dram_rows_ideal),
                   over(o->sectors * o->geometry.sector_bytes, o->useful_bytes));
  if (w)
    (void)snprintf(worst, sizeof worst, " Most scattered: request %d at step %u, %.1f rows a run.", w->at.request, w->at.step,
                   w->at.mean_run);
  (void)snprintf(o->verdict, sizeof o->verdict,
                 "%s%s At the end %.1f %% of the pool is allocated, %.1f %% for the prefix cache alone. Whether scatter costs time "
                 "is the GPU's affair: roofline --layout.",
                 rows, worst, 100.0 * (double)s->allocated / o->info.pool_size, 100.0 * (double)s->cached / o->info.pool_size);
}

static kv_status write_totals(kvs_output *o, const kvs_replay *r, kv_error *err) {
  const kvs_replay_totals *t = kvs_replay_get_totals(r);
  uint64_t events = 0;
  for (unsigned k = 0; k < KVT_KINDS; k++) events += t->events[k];
  const struct {
    const char *name;
    uint64_t value;
  } number[] = {{"events", events},          {"slot_operations", t->allocated + t->freed},
                {"steps", t->steps},         {"requests", o->info.requests},
                {"skipped_events", t->skipped}};
  kv_status st = kv_h5_put_str(o->out.file, "verdict", o->verdict, err);
  for (size_t i = 0; i < sizeof number / sizeof *number && !st; i++)
    st = kv_h5_put_i64(o->out.file, number[i].name, (int64_t)number[i].value, err);
  return st ? st : write_counts(o, t, err);
}

kv_status kvs_output_finish(kvs_output *o, const kvs_replay *r, kv_error *err) {
  o->last = kvs_replay_sample(r);
  say_verdict(o);
  kv_status st = close_columns(o, err);
  if (!st) st = attach_scales(o, err);
  if (!st) st = write_totals(o, r, err);
  if (!st) st = write_slots(o, r, err);
  if (!st) st = write_free_list(o, r, err);
  if (!st) st = write_rows(o, r, err);
  if (!st) st = write_scattered(o, err);
  if (st)
    kvs_output_abandon(o);
  else
    st = kv_h5_commit(&o->out, err);
  return st;
}

void kvs_output_abandon(kvs_output *o) {
  if (!o) return;
  (void)close_columns(o, NULL);
  kv_h5_abort(&o->out);
}

uint32_t kvs_output_scattered(const kvs_output *o, const kvs_scattered **list) {
  *list = o->scattered;
  return o->scattered_n;
}
const kvs_pool_sample *kvs_output_last(const kvs_output *o) { return &o->last; }
const char *kvs_output_verdict(const kvs_output *o) { return o->verdict; }

void kvs_output_free(kvs_output *o) {
  if (!o) return;
  for (uint32_t i = 0; i < o->scattered_n; i++) {
    free(o->scattered[i].length);
    free(o->scattered[i].count);
  }
  free(o);
}
