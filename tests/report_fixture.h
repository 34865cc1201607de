/* report_fixture.h - datasets for the tests of the reports, written as the programs write them. Included
 * once.
 *
 * kvsim-1: a FIFO of slots is really played (prefill, verify steps that hand back the rejected slots, a cache
 * of finished requests that is evicted when the pool runs dry), so that pages show what a replay shows.
 * kvwhatif-1 and roofline-1: times from a formula, for looks only; they are nobody's measurement.
 */
#ifndef REPORT_FIXTURE_H
#define REPORT_FIXTURE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"

#define FIXTURE_SHA "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define FIXTURE_RUNNING 6

/* A growing table of doubles, column by column, written at the end in the file's own types. */
#define FX_COLUMNS 24
#define FX_TIME 19 /* of fx_points */
typedef struct fx_table {
  size_t columns, rows, room;
  double *value[FX_COLUMNS];
} fx_table;

static void fx_row(fx_table *t, size_t columns, const double *row) {
  t->columns = columns;
  if (t->rows == t->room) {
    t->room = t->room ? 2 * t->room : 256;
    for (size_t c = 0; c < columns; c++) {
      t->value[c] = realloc(t->value[c], t->room * sizeof(double));
      if (!t->value[c]) abort();
    }
  }
  for (size_t c = 0; c < columns; c++) t->value[c][t->rows] = row[c];
  t->rows++;
}

static void fx_free(fx_table *t) {
  for (size_t c = 0; c < FX_COLUMNS; c++) free(t->value[c]);
}

static kv_status fx_put(hid_t file, const char *name, hid_t type, size_t n, const double *values,
                        const char *units) {
  double *copy = calloc(n + 1, sizeof *copy);
  if (!copy) abort();
  if (n) memcpy(copy, values, n * sizeof *copy);
  hid_t native = H5Tget_native_type(type, H5T_DIR_ASCEND);
  if (n) (void)H5Tconvert(H5T_NATIVE_DOUBLE, native, n, copy, NULL, H5P_DEFAULT);
  kv_status st = kv_h5_write(file, name, type, n, copy, units, name, KV_H5_SMALL, NULL);
  (void)H5Tclose(native);
  free(copy);
  return st;
}

typedef struct fx_column {
  const char *name;
  char type; /* u8 'b', u32 'u', i32 'i', u64 'q', i64 't', f64 'd' */
  const char *units;
} fx_column;

static kv_status fx_put_table(hid_t file, const char *group, const fx_column *columns, size_t n,
                              const fx_table *t) {
  kv_status st = KV_OK;
  for (size_t c = 0; c < n && !st; c++) {
    char name[128];
    hid_t type = columns[c].type == 'b'   ? H5T_STD_U8LE
                 : columns[c].type == 'u' ? H5T_STD_U32LE
                 : columns[c].type == 'i' ? H5T_STD_I32LE
                 : columns[c].type == 'q' ? H5T_STD_U64LE
                 : columns[c].type == 't' ? H5T_STD_I64LE
                                          : H5T_IEEE_F64LE;
    (void)snprintf(name, sizeof name, "%s/%s", group, columns[c].name);
    st = fx_put(file, name, type, t->rows, t->value[c], columns[c].units);
  }
  return st;
}

/* ---- kvsim-1 ---- */

typedef struct fixture_kvsim {
  size_t pool;
  size_t requests, steps;
  unsigned seed;
} fixture_kvsim;

typedef struct fx_request {
  size_t *slots, rows, want; /* want: decode steps to go */
  bool cached, running, finished;
} fx_request;

typedef struct fx_pool {
  size_t size, head, count, cursor; /* FIFO of free slots; next request to evict */
  size_t *fifo;
  unsigned *state;
  fx_request *request;
  size_t requests;
  unsigned long long random;
  fx_table pool, samples, milestones, scattered, histogram, indptr;
  char (*event)[16];
} fx_pool;

static double fx_uniform(fx_pool *p) {
  p->random = p->random * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(p->random >> 33) / 2147483648.0;
}

static void fx_release(fx_pool *p, size_t slot) {
  p->fifo[(p->head + p->count++) % p->size] = slot;
  p->state[slot] = 0;
}

static bool fx_evict(fx_pool *p) {
  for (size_t i = 0; i < p->requests; i++) {
    fx_request *r = &p->request[(p->cursor + i) % p->requests];
    if (!r->cached) continue;
    for (size_t k = 0; k < r->rows; k++) fx_release(p, r->slots[k]);
    r->cached = false;
    r->rows = 0;
    return true;
  }
  return false;
}

static size_t fx_take(fx_pool *p) {
  while (p->count == 0)
    if (!fx_evict(p)) abort();
  size_t slot = p->fifo[p->head];
  p->head = (p->head + 1) % p->size;
  p->count--;
  p->state[slot] = 2;
  return slot;
}

static void fx_append(fx_pool *p, fx_request *r, size_t n) {
  r->slots = realloc(r->slots, (r->rows + n + 1) * sizeof *r->slots);
  if (!r->slots) abort();
  for (size_t i = 0; i < n; i++) r->slots[r->rows++] = fx_take(p);
}

/* Nine slots for the tree; the rejected ones go back at once, to the end of the queue. */
static void fx_verify(fx_pool *p, fx_request *r) {
  size_t got[9], keep = 1 + (size_t)(fx_uniform(p) * 7);
  r->slots = realloc(r->slots, (r->rows + 10) * sizeof *r->slots);
  if (!r->slots) abort();
  for (size_t i = 0; i < 9; i++) got[i] = fx_take(p);
  for (size_t i = 0; i < 9; i++) {
    if (i < keep) r->slots[r->rows++] = got[i];
    else fx_release(p, got[i]);
  }
}

static size_t fx_runs(const fx_request *r, size_t *adjacent) {
  size_t runs = r->rows > 0;
  for (size_t i = 1; i < r->rows; i++) runs += r->slots[i] != r->slots[i - 1] + 1;
  *adjacent = r->rows ? r->rows - runs : 0;
  return runs;
}

static int fx_by_size(const void *a, const void *b) {
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return (x > y) - (x < y);
}

/* How many blocks of `bytes` the rows of 1152 B touch. */
static double fx_blocks(const fx_request *r, double bytes) {
  size_t *sorted = malloc((r->rows + 1) * sizeof *sorted), n = 0;
  double last = -1;
  if (!sorted) abort();
  if (r->rows) memcpy(sorted, r->slots, r->rows * sizeof *sorted);
  qsort(sorted, r->rows, sizeof *sorted, fx_by_size);
  for (size_t i = 0; i < r->rows; i++) {
    double first = floor((double)sorted[i] * 1152 / bytes),
           end = floor(((double)sorted[i] * 1152 + 1151) / bytes);
    n += first > last ? (size_t)(end - first) + 1 : (size_t)(end - last);
    last = end;
  }
  free(sorted);
  return (double)n;
}

static void fx_milestone(fx_pool *p, size_t request, size_t step, const char *event) {
  size_t adjacent, runs = fx_runs(&p->request[request], &adjacent);
  double rows = (double)p->request[request].rows;
  double row[] = {(double)request,
                  (double)step,
                  rows,
                  (double)runs,
                  runs ? rows / (double)runs : 0,
                  rows > 1 ? (double)adjacent / (rows - 1) : 0,
                  rows};
  fx_row(&p->milestones, 7, row);
  p->event = realloc(p->event, p->milestones.rows * sizeof *p->event);
  if (!p->event) abort();
  (void)snprintf(p->event[p->milestones.rows - 1], sizeof *p->event, "%s", event);
}

static void fx_sample(fx_pool *p, size_t step) {
  double live = 0, cached = 0, running = 0, rows = 0, runs_of_all = 0, largest = 0, stretch = 0,
         stretches = 0;
  for (size_t i = 0; i < p->requests; i++) {
    const fx_request *r = &p->request[i];
    if (r->cached) cached += (double)r->rows;
    if (!r->running) continue;
    size_t adjacent, runs = fx_runs(r, &adjacent);
    double sample[] = {(double)step,
                       (double)i,
                       (double)r->rows,
                       (double)runs,
                       (double)r->rows / (double)runs,
                       1,
                       2,
                       9,
                       99,
                       (double)adjacent / (double)(r->rows > 1 ? r->rows - 1 : 1),
                       (double)p->size,
                       fx_blocks(r, 2097152),
                       (double)r->rows * 36,
                       (double)r->rows * 1152,
                       fx_blocks(r, 2048)};
    fx_row(&p->samples, 15, sample);
    running++;
    live += (double)r->rows;
    rows += (double)r->rows;
    runs_of_all += (double)runs;
  }
  for (size_t s = 0; s <= p->size; s++) {
    if (s < p->size && p->state[s] == 0) {
      stretch++;
      continue;
    }
    if (stretch > largest) largest = stretch;
    stretches += stretch > 0;
    stretch = 0;
  }
  double vacant = (double)p->count;
  double row[] = {(double)step,
                  (double)step * 24000,
                  2,
                  running,
                  -1,
                  live,
                  live + cached,
                  live,
                  cached,
                  vacant,
                  stretches,
                  largest,
                  stretches,
                  vacant > 0 ? 1 - largest / vacant : 0,
                  runs_of_all > 0 ? rows / runs_of_all : 0};
  fx_row(&p->pool, 15, row);
}

static void fx_step(fx_pool *p, const fixture_kvsim *f, size_t step, size_t *next) {
  size_t running = 0;
  for (size_t i = 0; i < f->requests; i++) running += p->request[i].running;
  if (*next < f->requests && running < FIXTURE_RUNNING && *next * f->steps <= step * f->requests) {
    fx_request *r = &p->request[*next];
    double most = (double)p->size / FIXTURE_RUNNING / 1.6, least = fmin(200, most / 4);
    fx_append(p, r, (size_t)(least * pow(most / least, fx_uniform(p))));
    r->running = true;
    r->want = 40 + (size_t)(fx_uniform(p) * 260);
    fx_milestone(p, (*next)++, step, "prefill_end");
  }
  for (size_t i = 0; i < f->requests; i++) {
    fx_request *r = &p->request[i];
    if (!r->running) continue;
    fx_verify(p, r);
    if (--r->want == 0) {
      fx_milestone(p, i, step, "finish");
      r->running = false;
      r->finished = r->cached = true;
      p->cursor = i + 1;
    } else if ((r->want & (r->want - 1)) == 0) {
      fx_milestone(p, i, step, "decode_16");
    }
  }
}

static void fx_histogram(fx_pool *p, const fx_request *r) {
  size_t *count = calloc(r->rows + 2, sizeof *count), length = 1;
  if (!count) abort();
  for (size_t i = 1; i <= r->rows; i++) {
    if (i < r->rows && r->slots[i] == r->slots[i - 1] + 1) {
      length++;
      continue;
    }
    count[length]++;
    length = 1;
  }
  for (size_t l = 1; l <= r->rows; l++)
    if (count[l]) fx_row(&p->histogram, 2, (double[]){(double)l, (double)count[l]});
  free(count);
}

/* Every request that still has 1024 rows, in order of mean run, up to eight. */
static void fx_scattered(fx_pool *p, size_t step) {
  double *mean = calloc(p->requests + 1, sizeof *mean), zero = 0;
  if (!mean) abort();
  fx_row(&p->indptr, 1, &zero);
  for (size_t i = 0; i < p->requests; i++) {
    size_t adjacent, runs = fx_runs(&p->request[i], &adjacent);
    mean[i] = p->request[i].rows >= 1024 ? (double)p->request[i].rows / (double)runs : INFINITY;
  }
  for (int n = 0; n < 8; n++) {
    size_t best = 0, adjacent;
    for (size_t i = 1; i < p->requests; i++)
      if (mean[i] < mean[best]) best = i;
    if (p->requests == 0 || !isfinite(mean[best])) break;
    double row[] = {(double)best,
                    (double)step,
                    (double)p->request[best].rows,
                    (double)fx_runs(&p->request[best], &adjacent),
                    mean[best],
                    0.5};
    fx_row(&p->scattered, 6, row);
    fx_histogram(p, &p->request[best]);
    double end = (double)p->histogram.rows;
    fx_row(&p->indptr, 1, &end);
    mean[best] = INFINITY;
  }
  free(mean);
}

static kv_status fx_put_final(hid_t file, const fx_pool *p) {
  double *v = calloc(3 * p->size + 1, sizeof *v), *state = v, *owner = v + p->size, *refs = owner + p->size;
  if (!v) abort();
  for (size_t s = 0; s < p->size; s++) owner[s] = -1;
  for (size_t i = 0; i < p->requests; i++)
    for (size_t k = 0; k < p->request[i].rows; k++) {
      size_t slot = p->request[i].slots[k];
      state[slot] = p->request[i].running ? 2 : 1;
      owner[slot] = (double)i;
      refs[slot] =
          p->request[i].running && k < 200 && i % 3 == 0 ? 2 : 1; /* as a shared system prompt would */
    }
  kv_status st = fx_put(file, "final/slot_state", H5T_STD_U8LE, p->size, state, "1");
  if (!st) st = fx_put(file, "final/slot_owner", H5T_STD_I32LE, p->size, owner, "1");
  if (!st) st = fx_put(file, "final/slot_refs", H5T_STD_U32LE, p->size, refs, "1");
  free(v);
  return st;
}

static kv_status fx_put_kvsim_attributes(hid_t file, const fixture_kvsim *f) {
  const struct {
    const char *name, *value;
  } text[] = {
      {"trace", "fixture_mixed_eagle.h5"},
      {"trace_sha256", FIXTURE_SHA},
      {"trace_origin", "recorded: a FIFO of slots played by the test's generator"},
      {"allocator", "sglang-token"},
      {"verdict",
       "Long requests become scattered: the worst ends with a mean run of a few rows, so that a decode "
       "step touches many times the pages it needs. Sectors are read whole: scatter costs no extra "
       "bytes at this row size."},
      {"default", "pool"}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"pool_size", (int64_t)f->pool},
                {"page_size", 1},
                {"row_bytes", 1152},
                {"sector_bytes", 32},
                {"tlb_page_bytes", 2097152},
                {"dram_row_bytes", 2048},
                {"every", 4},
                {"events", 12345},
                {"slot_operations", 678901},
                {"steps", (int64_t)f->steps},
                {"requests", (int64_t)f->requests}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof text / sizeof *text && !st; i++)
    st = kv_h5_put_str(file, text[i].name, text[i].value, NULL);
  for (size_t i = 0; i < sizeof number / sizeof *number && !st; i++)
    st = kv_h5_put_i64(file, number[i].name, number[i].value, NULL);
  return st;
}

static kv_status fx_put_kvsim(hid_t file, const fixture_kvsim *f, fx_pool *p) {
  static const fx_column pool[] = {{"step", 'u', "1"},
                                   {"time", 't', "us"},
                                   {"step_type", 'b', "1"},
                                   {"running", 'u', "request"},
                                   {"waiting", 'i', "request"},
                                   {"live_rows", 'q', "row"},
                                   {"allocated", 'q', "slot"},
                                   {"live", 'q', "slot"},
                                   {"cached", 'q', "slot"},
                                   {"free", 'q', "slot"},
                                   {"free_runs_address", 'q', "1"},
                                   {"largest_free_run", 'q', "slot"},
                                   {"free_runs_list", 'q', "1"},
                                   {"fragmentation", 'd', "1"},
                                   {"mean_run", 'd', "row"}};
  static const fx_column samples[] = {{"step", 'u', "1"},       {"request", 'i', "1"},
                                      {"rows", 'q', "row"},     {"runs", 'q', "1"},
                                      {"mean_run", 'd', "row"}, {"run_p10", 'd', "row"},
                                      {"run_p50", 'd', "row"},  {"run_p90", 'd', "row"},
                                      {"run_max", 'q', "row"},  {"adjacent_fraction", 'd', "1"},
                                      {"span", 'q', "slot"},    {"tlb_pages", 'q', "1"},
                                      {"sectors", 'q', "1"},    {"useful_bytes", 'q', "B"},
                                      {"dram_rows", 'q', "1"}};
  static const fx_column miles[] = {{"request", 'i', "1"},    {"step", 'u', "1"},
                                    {"rows", 'q', "row"},     {"runs", 'q', "1"},
                                    {"mean_run", 'd', "row"}, {"adjacent_fraction", 'd', "1"},
                                    {"span", 'q', "slot"}};
  static const fx_column scattered[] = {{"request", 'i', "1"},    {"step", 'u', "1"},
                                        {"rows", 'q', "row"},     {"runs", 'q', "1"},
                                        {"mean_run", 'd', "row"}, {"adjacent_fraction", 'd', "1"}};
  static const fx_column histogram[] = {{"run_length", 'q', "row"}, {"run_count", 'q', "1"}};
  static const fx_column indptr[] = {{"indptr", 'q', "1"}};
  const char **event = calloc(p->milestones.rows + 1, sizeof *event);
  if (!event) abort();
  for (size_t i = 0; i < p->milestones.rows; i++) event[i] = p->event[i];
  kv_status st = fx_put_kvsim_attributes(file, f);
  if (!st) st = fx_put_table(file, "pool", pool, 15, &p->pool);
  if (!st) st = fx_put_table(file, "samples", samples, 15, &p->samples);
  if (!st) st = fx_put_table(file, "milestones", miles, 7, &p->milestones);
  if (!st) st = kv_h5_write_strings(file, "milestones/event", p->milestones.rows, event, "event", NULL);
  if (!st) st = fx_put_table(file, "scattered", scattered, 6, &p->scattered);
  if (!st) st = fx_put_table(file, "scattered", histogram, 2, &p->histogram);
  if (!st) st = fx_put_table(file, "scattered", indptr, 1, &p->indptr);
  if (!st) st = fx_put_final(file, p);
  free(event);
  return st;
}

static void fx_free_pool(fx_pool *p) {
  for (size_t i = 0; i < p->requests; i++) free(p->request[i].slots);
  free(p->request);
  free(p->fifo);
  free(p->state);
  free(p->event);
  fx_free(&p->pool);
  fx_free(&p->samples);
  fx_free(&p->milestones);
  fx_free(&p->scattered);
  fx_free(&p->histogram);
  fx_free(&p->indptr);
}

static kv_status fixture_kvsim_write(const char *path, const fixture_kvsim *f) {
  fx_pool p = {.size = f->pool, .requests = f->requests, .random = f->seed};
  kv_h5_out out;
  size_t next = 0;
  p.fifo = calloc(f->pool, sizeof *p.fifo);
  p.state = calloc(f->pool, sizeof *p.state);
  p.request = calloc(f->requests + 1, sizeof *p.request);
  if (!p.fifo || !p.state || !p.request) abort();
  for (size_t s = 0; s < f->pool; s++) fx_release(&p, s);
  for (size_t step = 0; step < f->steps; step++) {
    fx_step(&p, f, step, &next);
    if (step % 4 == 0) fx_sample(&p, step);
  }
  fx_scattered(&p, f->steps);
  kv_status st =
      kv_h5_create(path, "kvsim-1", "kvsim", "kvsim replay fixture_mixed_eagle.h5 --every 4", &out, NULL);
  if (!st) st = fx_put_kvsim(out.file, f, &p);
  if (!st) st = kv_h5_commit(&out, NULL);
  else kv_h5_abort(&out);
  fx_free_pool(&p);
  return st;
}

/* ---- roofline-1 ---- */

typedef struct fixture_roofline {
  size_t kernels, layouts, prefixes;
  bool measured, modelled, no_ceilings, falling; /* falling: T4 below T3 */
} fixture_roofline;

static const char *const fx_kernels[] = {"extend_serial",
                                         "split_per_head",
                                         "split_verify",
                                         "split_verify_100k",
                                         "split_verify_mma_only",
                                         "split_verify_load_only",
                                         "a_kernel_with_quite_a_long_name_indeed"};
static const char *const fx_layouts[] = {"contiguous", "recorded: request 17, step 1891", "random"};

static const fx_column fx_points[] = {{"kernel", 'u', "1"},
                                      {"prefix", 'q', "token"},
                                      {"heads", 'u', "1"},
                                      {"queries", 'u', "1"},
                                      {"batch", 'u', "1"},
                                      {"layout", 'u', "1"},
                                      {"blocks", 'q', "1"},
                                      {"useful_bytes", 'q', "B"},
                                      {"useful_flops", 'd', "FLOP"},
                                      {"intensity", 'd', "FLOP/B"},
                                      {"dram_bytes", 'd', "B"},
                                      {"l2_bytes", 'd', "B"},
                                      {"link_bytes", 'd', "B"},
                                      {"executed_flops", 'd', "FLOP"},
                                      {"floor", 'd', "s"},
                                      {"t1", 'd', "s"},
                                      {"t2", 'd', "s"},
                                      {"t3", 'd', "s"},
                                      {"t4", 'd', "s"},
                                      {"time", 'd', "s"},
                                      {"measured", 'd', "s"},
                                      {"measured_low", 'd', "s"},
                                      {"measured_high", 'd', "s"},
                                      {"effective_bandwidth", 'd', "B/s"}};

static void fx_point(fx_table *t, const fixture_roofline *f, size_t k, size_t l, size_t p) {
  static const double slow[] = {600, 60, 2.1, 2.9, 1.6, 1.3, 5};
  double prefix = 4096.0 * (double)(1u << p), kv = prefix * 1152, useful = kv + 9 * 8 * 1088 * 2, nan = NAN;
  double flops = 2 * 9 * 8 * prefix * 1088, link = kv * (k == 0 ? 15 : k == 1 ? 8 : 1.1);
  double least = fmax(useful / 4.45e12, flops / 632e12), work = fmax(least, link / 9e12);
  double time = work * slow[k] / (k == 0 ? 5 : 1) + 4e-6 + (double)l * 0.01 * work;
  double measured = f->measured && k < 4 ? time * (1.06 + 0.03 * (double)k) : nan;
  double model = f->modelled ? time : nan;
  double used = isfinite(measured) ? measured : model;
  double row[FX_COLUMNS] = {(double)k,
                            prefix,
                            8,
                            9,
                            1,
                            (double)l,
                            k == 0 ? 8 : 132,
                            floor(useful),
                            flops,
                            flops / useful,
                            kv * 1.01,
                            link * 1.02,
                            link,
                            flops * (k == 0 ? 3.5 : 1.1),
                            least,
                            least,
                            work,
                            work * 1.01,
                            f->falling    ? work * 0.5
                            : f->modelled ? work * (k == 0 ? 16 : 1.1)
                                          : nan,
                            model,
                            measured,
                            measured * 0.98,
                            measured * 1.04,
                            kv / used};
  fx_row(t, FX_COLUMNS, row);
}

static kv_status fx_put_names(hid_t file, const fixture_roofline *f) {
  static const char *const described[] = {"latent rows read by every query x head of a block",
                                          "one block a head"};
  const char *text[8];
  for (size_t i = 0; i < 8; i++) text[i] = described[i % 2];
  static const char *const resources[] = {"dram", "l2", "mma"};
  static const char *const gpu[4][6] = {
      {"dram_bw_spec", "dram_row_bytes", "l2_bytes", "l2_bw_measured", "smem_per_sm", "tlb_reach"},
      {"4.8e12", "", "52428800", "", "233472", "68719476736"},
      {"B/s", "B", "B", "B/s", "B", "B"},
      {"spec", "unknown", "spec", "unknown", "spec", "assumed"}};
  kv_status st = kv_h5_write_strings(file, "kernels/name", f->kernels, fx_kernels, "kernel", NULL);
  if (!st) st = kv_h5_write_strings(file, "kernels/description", f->kernels, text, "what it does", NULL);
  if (!st) st = kv_h5_write_strings(file, "layouts/name", f->layouts, fx_layouts, "layout", NULL);
  if (!st) st = kv_h5_write_strings(file, "resources/name", 3, resources, "resource", NULL);
  static const char *const columns[] = {"gpu/name", "gpu/value", "gpu/unit", "gpu/kind"};
  for (size_t i = 0; i < 4 && !st; i++)
    st = kv_h5_write_strings(file, columns[i], 6, gpu[i], "GPU description", NULL);
  for (size_t i = 0; i < 8; i++) text[i] = "vendor's data sheet, page 3";
  text[5] = "no public source found; between 4 GiB and all of the memory";
  const double low[] = {NAN, NAN, NAN, NAN, NAN, 4294967296}, high[] = {NAN, NAN, NAN, NAN, NAN, 137438953472};
  if (!st) st = kv_h5_write(file, "gpu/low", H5T_IEEE_F64LE, 6, low, "see unit", "low", KV_H5_SMALL, NULL);
  if (!st) st = kv_h5_write(file, "gpu/high", H5T_IEEE_F64LE, 6, high, "see unit", "high", KV_H5_SMALL, NULL);
  return st ? st : kv_h5_write_strings(file, "gpu/source", 6, text, "source", NULL);
}

static kv_status fx_put_ceilings(hid_t file, const fixture_roofline *f) {
  static const char *const name[] = {"dram", "dram", "l2", "link", "mma", "wgmma", "mma", "fma"};
  static const char *const scope[] = {"chip", "chip", "chip", "chip", "chip", "chip", "sm", "chip"};
  static const char *const unit[] = {"B/s", "B/s", "B/s", "B/s", "FLOP/s", "FLOP/s", "FLOP/s", "FLOP/s"};
  static const char *const kind[] = {"spec",     "measured",  "measured", "measured",
                                     "measured", "inference", "measured", "spec"};
  static const char *const source[] = {
      "data sheet",
      "read of 8 GiB, median of 50",
      "read of 20 MiB, median of 50",
      "a test's own figure",
      "mma.sync m16n8k16, median of 50",
      "spec / 1.25, because the clock drops under load; long enough to be cut on the page",
      "one block",
      "data sheet"};
  static const double value[] = {4.8e12, 4.45e12, 9.0e12, 12e12, 632e12, 790e12, 4.79e12, 60e12};
  size_t n = f->no_ceilings ? 0 : 8;
  kv_status st = kv_h5_write_strings(file, "ceilings/name", n, name, "resource", NULL);
  if (!st) st = kv_h5_write_strings(file, "ceilings/scope", n, scope, "whole chip or one SM", NULL);
  if (!st) st = kv_h5_write_strings(file, "ceilings/unit", n, unit, "unit of value", NULL);
  if (!st) st = kv_h5_write_strings(file, "ceilings/kind", n, kind, "kind", NULL);
  if (!st) st = kv_h5_write_strings(file, "ceilings/source", n, source, "source", NULL);
  return st ? st : fx_put(file, "ceilings/value", H5T_IEEE_F64LE, n, value, "see unit");
}

static kv_status fx_put_roofline_attributes(hid_t file, const fixture_roofline *f) {
  const struct {
    const char *name, *value;
  } text[] = {
      {"gpu", "h200"},
      {"gpu_name", "NVIDIA H200"},
      {"status", f->measured ? "measured: NVIDIA H200, driver 580.65, 2026-11-28" : "modelled, uncalibrated"},
      {"dtype", "bf16"},
      {"layout_source", "contiguous; recorded: fixture_mixed_eagle.h5 request 17 step 1891"},
      {"verdict",
       "extend_serial runs 600x above its floor: 8 of 132 SMs are busy and the latent row crosses the "
       "L2 link 15 times. Scatter: no effect (1.00-1.02). Split the prefix over the chip."},
      {"default", "points"}};
  const struct {
    const char *name;
    int64_t value;
  } number[] = {{"heads", 8},        {"queries", 9}, {"latent", 512}, {"rope", 64},
                {"row_bytes", 1152}, {"batch", 1},   {"layers", 61}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof text / sizeof *text && !st; i++)
    st = kv_h5_put_str(file, text[i].name, text[i].value, NULL);
  for (size_t i = 0; i < sizeof number / sizeof *number && !st; i++)
    st = kv_h5_put_i64(file, number[i].name, number[i].value, NULL);
  return st;
}

static kv_status fx_put_roofline(hid_t file, const fixture_roofline *f) {
  fx_table t = {0};
  for (size_t k = 0; k < f->kernels; k++)
    for (size_t l = 0; l < f->layouts; l++)
      for (size_t p = 0; p < f->prefixes; p++) fx_point(&t, f, k, l, p);
  double *nan = calloc(t.rows + 1, sizeof *nan), *zero = calloc(t.rows + 1, sizeof *zero);
  if (!nan || !zero) abort();
  for (size_t i = 0; i < t.rows; i++) nan[i] = NAN;
  kv_status st = fx_put_roofline_attributes(file, f);
  if (!st) st = fx_put_table(file, "points", fx_points, FX_COLUMNS, &t);
  static const char *const later[] = {"points/t5", "points/t6", "points/t7"};
  for (size_t i = 0; i < 3 && !st; i++) /* t7 is the modelled time */
    st = fx_put(file, later[i], H5T_IEEE_F64LE, t.rows, i == 2 && t.rows ? t.value[FX_TIME] : nan, "s");
  if (!st) st = fx_put(file, "points/binding", H5T_STD_U32LE, t.rows, zero, "1");
  if (!st) st = fx_put_names(file, f);
  if (!st) st = fx_put_ceilings(file, f);
  free(nan);
  free(zero);
  fx_free(&t);
  return st;
}

static kv_status fixture_roofline_write(const char *path, const fixture_roofline *f) {
  kv_h5_out out;
  kv_status st = kv_h5_create(path, "roofline-1", "roofline", "roofline --gpu h200 --sweep prefix=4096:65536",
                              &out, NULL);
  if (st) return st;
  st = fx_put_roofline(out.file, f);
  if (!st) return kv_h5_commit(&out, NULL);
  kv_h5_abort(&out);
  return st;
}

/* ---- kvwhatif-1 ---- */

/* Policies 0 (baseline), then each with longer runs and higher costs; the last is a bound that places nothing. Numbers are
 * for looks only. */
typedef struct fixture_whatif {
  uint32_t policies, gpus, samples;
} fixture_whatif;

static const char *const fx_policies[] = {"as-recorded", "fifo", "compact", "pages-16", "relocate-full", "oracle"};

static kv_status fx_put_reals(hid_t file, const char *group, const char *const *names, const fx_table *t) {
  kv_status st = KV_OK;
  for (size_t c = 0; c < t->columns && !st; c++) {
    char name[80];
    (void)snprintf(name, sizeof name, "%s/%s", group, names[c]);
    st = fx_put(file, name, H5T_IEEE_F64LE, t->rows, t->value[c], "1");
  }
  return st;
}

static kv_status fx_whatif_policies(hid_t file, const fixture_whatif *f) {
  static const char *const names[] = {"pool",       "fits",    "mean_run", "capacity_lost", "waste_mean", "waste_most",
                                      "evicted", "refilled", "moved",    "copied",        "decode_steps"};
  static const char *const costs[] = {"policy", "gpu", "read", "move", "recompute", "saved", "net", "break_even"};
  const char *verdict[64];
  fx_table t = {.columns = 11}, c = {.columns = 8};
  for (uint32_t p = 0; p < f->policies; p++) {
    const double row[] = {65536, 1, 4.0 * pow(8, p), 0.001 * p, 65.0 * p, 200.0 * p, 10.0 * p, 5.0 * p, 1000.0 * p, 0, 400};
    fx_row(&t, 11, row);
    for (uint32_t g = 0; g < f->gpus; g++) {
      const char *what = p == 0 ? "baseline" : p + 1 == f->policies ? "bound" : p == 1 ? "no effect" : p == 2 ? "do it" : "don't";
      double move = p && p + 1 < f->policies ? 0.02 * p * p : 0, saved = 0.05 * p;
      const double cost[] = {p, g, 2 - saved, move, 0, saved, saved - move, move > 0 ? 400 * move / saved : 0};
      verdict[c.rows] = what;
      fx_row(&c, 8, cost);
    }
  }
  kv_status st = fx_put_reals(file, "policies", names, &t);
  if (!st) st = fx_put_reals(file, "costs", costs, &c);
  if (!st) st = kv_h5_write_strings(file, "policies/name", f->policies, fx_policies, "policy", NULL);
  if (!st) st = kv_h5_write_strings(file, "costs/verdict", c.rows, verdict, "verdict", NULL);
  fx_free(&t);
  fx_free(&c);
  return st;
}

static kv_status fx_whatif_series(hid_t file, const fixture_whatif *f) {
  static const char *const series[] = {"policy", "step", "mean_run", "waste"};
  static const char *const lengths[] = {"policy", "length", "runs"};
  static const char *const map[] = {"policy", "cell", "row", "live", "idle"};
  fx_table s = {.columns = 4}, l = {.columns = 3}, m = {.columns = 5};
  for (uint32_t p = 0; p < f->policies; p++) {
    bool bound = p + 1 == f->policies;
    for (uint32_t i = 0; i < f->samples; i++) {
      const double row[] = {p, i, 4.0 * pow(8, p) * (1 + 1.0 / (i + 1)), 65.0 * p};
      fx_row(&s, 4, row);
    }
    for (uint32_t k = 0; k < 12 && f->samples && !bound; k++) {
      const double row[] = {p, (double)(1u << k), (double)((p + 1) * (13 - k))};
      fx_row(&l, 3, row);
    }
    for (uint32_t i = 0; i < 64; i++) {
      const double row[] = {p, i, bound ? 0 : i % 7, bound ? 0 : i % 5, bound ? 0 : i % 3};
      fx_row(&m, 5, row);
    }
  }
  kv_status st = fx_put_reals(file, "series", series, &s);
  if (!st) st = fx_put_reals(file, "run_lengths", lengths, &l);
  if (!st) st = fx_put_reals(file, "map", map, &m);
  fx_free(&s);
  fx_free(&l);
  fx_free(&m);
  return st;
}

static kv_status fx_whatif_kernels(hid_t file, const fixture_whatif *f) {
  static const char *const names[] = {"policy", "gpu", "step"};
  static const char *const gpus[] = {"NVIDIA H200 SXM 141 GB", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition (GB202)"};
  const char *kernel = "split_verify", *bound = "dram";
  fx_table k = {.columns = 3};
  const double row[] = {0, 0, 2.8e-3};
  if (f->policies) fx_row(&k, 3, row);
  kv_status st = fx_put_reals(file, "kernels", names, &k);
  if (!st) st = kv_h5_write_strings(file, "kernels/kernel", k.rows, &kernel, "kernel", NULL);
  if (!st) st = kv_h5_write_strings(file, "kernels/bound", k.rows, &bound, "resource", NULL);
  if (!st) st = kv_h5_write_strings(file, "gpus/name", f->gpus, gpus, "GPU", NULL);
  fx_free(&k);
  return st;
}

static kv_status fixture_whatif_write(const char *path, const fixture_whatif *f) {
  static const char *const texts[][2] = {{"trace", "fixture.h5"},
                                         {"trace_sha256", FIXTURE_SHA},
                                         {"trace_origin", "recorded: a test"},
                                         {"allocator", "sglang-token"},
                                         {"memory_model", "modelled: a test's own"},
                                         {"token_source", "assumed"},
                                         {"verdict", "compact pays for itself; nothing else does."}};
  static const struct {
    const char *name;
    double value;
  } numbers[] = {{"pool_size", 65536}, {"row_bytes", 1152}, {"layers", 61}, {"effect", 0.01}, {"heads", 8}, {"queries", 9}};
  kv_h5_out out = {.file = -1};
  kv_status st = kv_h5_create(path, "kvwhatif-1", "kvsim", "kvsim whatif fixture.h5", &out, NULL);
  if (st) return st;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++) st = kv_h5_put_str(out.file, texts[i][0], texts[i][1], NULL);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kv_h5_put_f64(out.file, numbers[i].name, numbers[i].value, NULL);
  if (!st) st = fx_whatif_policies(out.file, f);
  if (!st) st = fx_whatif_series(out.file, f);
  if (!st) st = fx_whatif_kernels(out.file, f);
  if (!st) return kv_h5_commit(&out, NULL);
  kv_h5_abort(&out);
  return st;
}

/* ---- audit-1 ---- */

/* Two files on three GPUs: all native, all at load, in part; nothing, no kernel, all native. One of two families fails. */
static kv_status fixture_audit_write(const char *path, bool asked) {
  static const char *const map[] = {"file", "sm", "native", "jit", "compiled_out", "too_large", "cannot_run"};
  static const double rows[6][7] = {{0, 80, 12, 0, 0, 0, 0},  {0, 90, 0, 12, 0, 0, 0}, {0, 120, 9, 1, 0, 1, 1},
                                    {1, 80, 0, 0, 0, 0, 5},   {1, 90, 0, 0, 0, 0, 0},  {1, 120, 5, 0, 0, 0, 0}};
  static const char *const counts[] = {"file", "compiled_out", "too_large", "cannot_run"};
  static const double families[2][4] = {{0, 0, 1, 1}, {1, 0, 0, 0}};
  static const char *const files[] = {"/opt/lib/libfirst.so", "second.whl!kernels/libsecond.so"};
  static const char *const family[] = {"merge_state", "gather_rows"}, *const verdict[] = {"cannot-run", "native"},
                           *const why[] = {"machine code only for sm_90a; no PTX", "machine code for sm_120"};
  fx_table m = {.columns = 7}, f = {.columns = 4};
  kv_h5_out out = {.file = -1};
  for (size_t i = 0; i < 6; i++) fx_row(&m, 7, rows[i]);
  for (size_t i = 0; i < 2; i++) fx_row(&f, 4, families[i]);
  kv_status st = kv_h5_create(path, "audit-1", "roofline", "roofline audit libfirst.so", &out, NULL);
  if (!st) st = kv_h5_put_str(out.file, "gpu", asked ? "sm_120" : "", NULL);
  if (!st) st = kv_h5_put_i64(out.file, "not_read", 1, NULL);
  if (!st) st = kv_h5_write_strings(out.file, "files/name", 2, files, "file", NULL);
  if (!st) st = fx_put_reals(out.file, "map", map, &m);
  if (!st && asked) st = fx_put_reals(out.file, "families", counts, &f);
  if (!st && asked) st = kv_h5_write_strings(out.file, "families/family", 2, family, "family", NULL);
  if (!st && asked) st = kv_h5_write_strings(out.file, "families/verdict", 2, verdict, "verdict", NULL);
  if (!st && asked) st = kv_h5_write_strings(out.file, "families/why", 2, why, "why", NULL);
  fx_free(&m);
  fx_free(&f);
  if (!st) return kv_h5_commit(&out, NULL);
  kv_h5_abort(&out);
  return st;
}

#endif
