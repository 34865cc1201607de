#include "whatif_output.h"

#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"

/* ---- tables ---- */

/* A column of a table: a number is worked out for each row and written as its type. */
typedef struct table {
  hid_t file;
  const kvs_cell *cell;
  uint32_t n, baseline;
  const kvs_whatif_head *head;
} table;

typedef double (*figure)(const table *t, uint64_t row);

typedef struct column {
  const char *name;
  char type; /* u: u64, f: f64, w: u32, b: u8, l: i64 */
  const char *units, *long_name;
  figure of;
} column;

static hid_t file_type(char c) {
  return c == 'u' ? H5T_STD_U64LE : c == 'w' ? H5T_STD_U32LE : c == 'b' ? H5T_STD_U8LE : c == 'l' ? H5T_STD_I64LE : H5T_IEEE_F64LE;
}

static kv_status append_number(kv_h5_column *c, char type, double v, kv_error *err) {
  uint64_t u = type != 'f' && type != 'l' && v >= 0 ? (uint64_t)v : 0;
  int64_t l = type == 'l' ? (int64_t)v : 0;
  uint32_t w = (uint32_t)u;
  uint8_t b = (uint8_t)u;
  const void *at = type == 'u' ? (const void *)&u : type == 'w' ? (const void *)&w : type == 'b' ? (const void *)&b
                   : type == 'l' ? (const void *)&l : (const void *)&v;
  return kv_h5_column_append(c, 1, at, err);
}

static kv_status write_column(const table *t, const column *c, uint64_t rows, kv_error *err) {
  kv_h5_column out = {0};
  kv_status st = kv_h5_column_open(t->file, c->name, file_type(c->type), c->units, c->long_name, KV_H5_DEFLATE_1, 8192, &out, err);
  for (uint64_t i = 0; i < rows && !st; i++) st = append_number(&out, c->type, c->of(t, i), err);
  kv_status closed = kv_h5_column_close(&out, st ? NULL : err);
  return st ? st : closed;
}

static kv_status write_table(const table *t, const column *c, size_t columns, uint64_t rows, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t i = 0; i < columns && !st; i++) st = write_column(t, &c[i], rows, err);
  return st;
}
#define WRITE_TABLE(t, columns, rows, err) write_table(t, columns, sizeof(columns) / sizeof *(columns), rows, err)

typedef const char *(*word)(const table *t, uint64_t row);

static kv_status write_words(const table *t, const char *name, const char *long_name, uint64_t rows, word of, kv_error *err) {
  const char **text = malloc((rows + 1) * sizeof *text);
  if (!text) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint64_t i = 0; i < rows; i++) text[i] = of(t, i);
  kv_status st = kv_h5_write_strings(t->file, name, rows, text, long_name, err);
  free(text);
  return st;
}

/* ---- /policies ---- */

#define OF(name, expression) \
  static double name(const table *t, uint64_t i) { const kvs_whatif_result *r = &t->cell[i].result; (void)r; return (double)(expression); }
OF(p_pool, r->capacity)
OF(p_page, r->page_size)
OF(p_fits, r->fits)
OF(p_short, r->short_step)
OF(p_rows, r->rows)
OF(p_runs, r->runs)
OF(p_run, r->runs ? (double)r->rows / (double)r->runs : 0)
OF(p_waste, r->waste_mean)
OF(p_waste_most, r->waste_most)
OF(p_free, r->free_mean)
OF(p_lost, r->capacity ? r->waste_mean / r->capacity : 0)
OF(p_evicted, r->tally.evicted)
OF(p_refilled, r->tally.refilled)
OF(p_moved, r->tally.moved)
OF(p_copied, r->tally.copied)
OF(p_tails, r->tally.tails)
OF(p_passes, r->tally.passes)
OF(p_mismatches, r->tally.mismatches)
OF(p_list, t->cell[i].list_mismatches)
OF(p_steps, r->steps)
OF(p_decode, r->decode_steps)
OF(p_operations, r->tally.allocated + r->tally.freed)

static double p_bound(const table *t, uint64_t i) {
  for (uint32_t k = 0; k < t->n; k++)
    if (t->cell[k].trace == t->cell[i].trace && t->cell[k].policy->costs_nothing && t->cell[i].result.runs && t->cell[i].result.fits)
      return (double)t->cell[k].result.runs / (double)t->cell[i].result.runs;
  return NAN;
}

static const column policy_columns[] = {
    {"policies/pool", 'u', "slot", "slots of the pool", p_pool},
    {"policies/page_size", 'w', "slot", "slots a page", p_page},
    {"policies/fits", 'b', "1", "1: the schedule found room at every step; 0: the row counts up to short_step", p_fits},
    {"policies/short_step", 'w', "1", "step at which no room could be made (0: fits)", p_short},
    {"policies/rows", 'u', "row", "rows of running requests, summed over decode steps", p_rows},
    {"policies/runs", 'u', "1", "runs of neighbouring slots of those rows, summed over decode steps", p_runs},
    {"policies/mean_run", 'f', "row", "rows / runs", p_run},
    {"policies/oracle_share", 'f', "1", "runs of the oracle / runs: 1 is the best that any policy could reach; NaN without oracle", p_bound},
    {"policies/waste_mean", 'f', "slot", "slots taken without a token in them, mean over steps", p_waste},
    {"policies/waste_most", 'u', "slot", "slots taken without a token in them, most at a step", p_waste_most},
    {"policies/free_mean", 'f', "slot", "free slots, mean over steps", p_free},
    {"policies/capacity_lost", 'f', "1", "mean waste / pool", p_lost},
    {"policies/evicted", 'u', "token", "cached tokens dropped before the recording did", p_evicted},
    {"policies/refilled", 'u', "token", "tokens computed again: hits on dropped ones and hits cut to whole pages", p_refilled},
    {"policies/moved", 'u', "row", "rows copied by relocation", p_moved},
    {"policies/copied", 'u', "row", "accepted rows of verify blocks copied to their place", p_copied},
    {"policies/tails", 'u', "row", "rows of partial pages copied for the branches of drafts, in the draft model's cache", p_tails},
    {"policies/passes", 'u', "1", "full passes of relocation", p_passes},
    {"policies/mismatches", 'u', "slot", "slots that differ from the recording's (as-recorded; else 0)", p_mismatches},
    {"policies/list_mismatches", 'u', "1", "entries of the final free lists that differ from the recording's", p_list},
    {"policies/steps", 'u', "1", "steps", p_steps},
    {"policies/decode_steps", 'u', "1", "decode steps", p_decode},
    {"policies/slot_operations", 'u', "slot", "slots allocated and freed by the recording", p_operations}};

OF(p_trace, t->cell[i].trace)
static const column trace_of_policy[] = {{"policies/trace", 'w', "1", "row of /traces", p_trace}};

static const char *policy_name(const table *t, uint64_t i) { return t->cell[i].policy->name; }
static const char *policy_summary(const table *t, uint64_t i) { return t->cell[i].policy->summary; }

/* ---- /costs, a row a cell and GPU ---- */

static const kvs_cell *base_of(const table *t, const kvs_cell *cell) {
  uint32_t i = t->baseline;
  while (i < t->n && t->cell[i].trace != cell->trace) i++;
  return i < t->n ? &t->cell[i] : NULL;
}

static kvs_judgement judged(const table *t, uint64_t row) {
  uint32_t gpu = (uint32_t)(row % t->head->gpus);
  kvs_prices p = t->head->prices;
  p.copy_bandwidth = t->head->gpu[gpu].copy_bandwidth;
  const kvs_cell *cell = &t->cell[row / t->head->gpus];
  return kvs_judge(cell, base_of(t, cell), gpu, &p);
}

static double c_policy(const table *t, uint64_t i) { return (double)(i / t->head->gpus); }
static double c_gpu(const table *t, uint64_t i) { return (double)(i % t->head->gpus); }
static double c_read(const table *t, uint64_t i) { return judged(t, i).read; }
static double c_bytes(const table *t, uint64_t i) { return judged(t, i).moved_bytes; }
static double c_move(const table *t, uint64_t i) { return judged(t, i).move; }
static double c_recompute(const table *t, uint64_t i) { return judged(t, i).recompute; }
static double c_saved(const table *t, uint64_t i) { return judged(t, i).saved; }
static double c_saved_step(const table *t, uint64_t i) { return judged(t, i).saved_step; }
static double c_net(const table *t, uint64_t i) { return judged(t, i).net; }
static double c_even(const table *t, uint64_t i) { return judged(t, i).break_even; }
static const char *c_verdict(const table *t, uint64_t i) { return judged(t, i).verdict; }

static const column cost_columns[] = {
    {"costs/policy", 'w', "1", "row of /policies", c_policy},
    {"costs/gpu", 'w', "1", "row of /gpus", c_gpu},
    {"costs/read", 'f', "s", "reading the rows in all decode steps and layers, at the memory's share for their runs; this and the rest NaN: does not fit", c_read},
    {"costs/moved_bytes", 'f', "B", "rows relocated or compacted x row bytes x layers, tails x row bytes x draft layers (each is read and written)", c_bytes},
    {"costs/move", 'f', "s", "time to read and write them at the copy bandwidth", c_move},
    {"costs/recompute", 'f', "s", "refilled tokens x time a token", c_recompute},
    {"costs/saved", 'f', "s", "reading time of the baseline - this one's, all decode steps", c_saved},
    {"costs/saved_step", 'f', "s", "the same a decode step", c_saved_step},
    {"costs/net", 'f', "s", "saved - (move + recompute), less what the baseline pays", c_net},
    {"costs/break_even", 'f', "step", "decode steps until the savings have paid; NaN: nothing saved, 0: nothing paid", c_even}};

/* ---- /gpus ---- */

static const char *g_key(const table *t, uint64_t i) { return t->head->gpu[i].key; }
static const char *g_name(const table *t, uint64_t i) { return t->head->gpu[i].name; }
static const char *g_read_source(const table *t, uint64_t i) { return t->head->gpu[i].read_source; }
static const char *g_copy_source(const table *t, uint64_t i) { return t->head->gpu[i].copy_source; }
static const char *g_memory_model(const table *t, uint64_t i) { return t->head->gpu[i].memory_model; }
static double g_read(const table *t, uint64_t i) { return t->head->gpu[i].read_bandwidth; }
static double g_copy(const table *t, uint64_t i) { return t->head->gpu[i].copy_bandwidth; }
static const column gpu_columns[] = {
    {"gpus/read_bandwidth", 'f', "B/s", "contiguous read bandwidth", g_read},
    {"gpus/copy_bandwidth", 'f', "B/s", "traffic of a copy; half of it is read, half written", g_copy}};

/* ---- /kernels ---- */

static double k_policy(const table *t, uint64_t i) { return t->head->kernel[i].policy; }
static double k_gpu(const table *t, uint64_t i) { return t->head->kernel[i].gpu; }
static double k_step(const table *t, uint64_t i) { return t->head->kernel[i].step; }
static double k_saved(const table *t, uint64_t i) { return t->head->kernel[i].saved_step; }
static const char *k_name(const table *t, uint64_t i) { return t->head->kernel[i].kernel; }
static const char *k_bound(const table *t, uint64_t i) { return t->head->kernel[i].bound; }
static const column kernel_columns[] = {
    {"kernels/policy", 'w', "1", "row of /policies", k_policy},
    {"kernels/gpu", 'w', "1", "row of /gpus", k_gpu},
    {"kernels/step", 'f', "s", "floor of the kernel's structure for a mean decode step, all layers, memory at the policy's share", k_step},
    {"kernels/saved_step", 'f', "s", "the baseline's floor - this one's", k_saved}};

static kv_status write_kernels(const table *t, kv_error *err) {
  uint64_t n = t->head->kernels;
  kv_status st = write_words(t, "kernels/kernel", "kernel", n, k_name, err);
  if (!st) st = write_words(t, "kernels/bound", "resource that sets the time", n, k_bound, err);
  return st ? st : WRITE_TABLE(t, kernel_columns, n, err);
}

/* ---- series: samples of all cells in a row ---- */

typedef struct place {
  uint32_t cell, sample;
} place;

static place sample_place(const table *t, uint64_t row) {
  place p = {0, 0};
  while (row >= t->cell[p.cell].samples) row -= t->cell[p.cell++].samples;
  p.sample = (uint32_t)row;
  return p;
}

/* A figure of the sample `s` that a row stands for, which is where `place_of` says. */
#define OF_SAMPLE(place_of, name, expression)                         \
  static double name(const table *t, uint64_t i) {                    \
    place at = place_of(t, i);                                        \
    const kvs_whatif_sample *s = &t->cell[at.cell].sample[at.sample]; \
    (void)s;                                                          \
    return (double)(expression);                                      \
  }
#define SERIES(name, expression) OF_SAMPLE(sample_place, name, expression)
SERIES(s_policy, at.cell)
SERIES(s_step, s->step)
SERIES(s_time, s->time_us)
SERIES(s_type, s->type)
SERIES(s_running, s->running)
SERIES(s_rows, s->rows)
SERIES(s_runs, s->runs)
SERIES(s_run, s->mean_run)
SERIES(s_free, s->free)
SERIES(s_waste, s->waste)
SERIES(s_evicted, s->tally.evicted)
SERIES(s_refilled, s->tally.refilled)
SERIES(s_moved, s->tally.moved)
SERIES(s_copied, s->tally.copied)
static const column series_columns[] = {
    {"series/policy", 'w', "1", "row of /policies", s_policy},
    {"series/step", 'w', "1", "scheduler step", s_step},
    {"series/time", 'l', "us", "recorded time at the end of the step", s_time},
    {"series/step_type", 'b', "1", "0 drain, 1 prefill, 2 decode", s_type},
    {"series/running", 'w', "1", "running requests", s_running},
    {"series/rows", 'u', "row", "rows of running requests", s_rows},
    {"series/runs", 'u', "1", "their runs of neighbouring slots", s_runs},
    {"series/mean_run", 'f', "row", "rows / runs, 0 without rows", s_run},
    {"series/free", 'u', "slot", "free slots", s_free},
    {"series/waste", 'u', "slot", "slots taken without a token in them", s_waste},
    {"series/evicted", 'u', "token", "dropped early so far", s_evicted},
    {"series/refilled", 'u', "token", "computed again so far", s_refilled},
    {"series/moved", 'u', "row", "relocated so far", s_moved},
    {"series/copied", 'u', "row", "accepted rows copied so far", s_copied}};

static place detail_place(const table *t, uint64_t row) {
  for (place p = {0, 0};; p.sample++) {
    while (p.sample == t->cell[p.cell].samples) p = (place){p.cell + 1, 0};
    if (t->cell[p.cell].sample[p.sample].detail && row-- == 0) return p;
  }
}
#define DETAIL(name, expression) OF_SAMPLE(detail_place, name, expression)
DETAIL(d_policy, at.cell)
DETAIL(d_step, s->step)
DETAIL(d_runs, s->empty_runs)
DETAIL(d_largest, s->largest_empty_run)
DETAIL(d_fragmentation, s->fragmentation)
static const column detail_columns[] = {
    {"detail/policy", 'w', "1", "row of /policies", d_policy},
    {"detail/step", 'w', "1", "scheduler step", d_step},
    {"detail/empty_runs", 'u', "1", "stretches of slots without a token, by address", d_runs},
    {"detail/largest_empty_run", 'u', "slot", "the longest of them", d_largest},
    {"detail/fragmentation", 'f', "1", "1 - longest / all slots without a token", d_fragmentation}};

/* ---- /run_lengths and /map ---- */

static place length_place(const table *t, uint64_t row) {
  for (place p = {0, 0};; p.sample++) {
    while (p.sample == KVS_HIST_BUCKETS) p = (place){p.cell + 1, 0};
    if (t->cell[p.cell].result.histogram[p.sample] && row-- == 0) return p;
  }
}
static double l_policy(const table *t, uint64_t i) { return length_place(t, i).cell; }
static double l_length(const table *t, uint64_t i) { return (double)kvs_hist_length(length_place(t, i).sample); }
static double l_runs(const table *t, uint64_t i) {
  place p = length_place(t, i);
  return (double)t->cell[p.cell].result.histogram[p.sample];
}
static const column length_columns[] = {
    {"run_lengths/policy", 'w', "1", "row of /policies", l_policy},
    {"run_lengths/length", 'u', "row", "run length (above 64 the top of a bucket of 3 %)", l_length},
    {"run_lengths/runs", 'u', "1", "runs of that length, over the detailed samples", l_runs}};

static double m_policy(const table *t, uint64_t i) { (void)t; return (double)(i / KVS_MAP_CELLS); }
static double m_cell(const table *t, uint64_t i) { (void)t; return (double)(i % KVS_MAP_CELLS); }
static double m_row(const table *t, uint64_t i) { return t->cell[i / KVS_MAP_CELLS].result.map[i % KVS_MAP_CELLS][0]; }
static double m_live(const table *t, uint64_t i) { return t->cell[i / KVS_MAP_CELLS].result.map[i % KVS_MAP_CELLS][1]; }
static double m_idle(const table *t, uint64_t i) { return t->cell[i / KVS_MAP_CELLS].result.map[i % KVS_MAP_CELLS][2]; }
static const column map_columns[] = {
    {"map/policy", 'w', "1", "row of /policies", m_policy},
    {"map/cell", 'w', "1", "cell of the pool, by address", m_cell},
    {"map/row", 'w', "slot", "slots of the longest running row in the cell", m_row},
    {"map/live", 'w', "slot", "slots of other running rows", m_live},
    {"map/idle", 'w', "slot", "slots of tokens that no running request holds", m_idle}};

/* ---- /traces ---- */

static const char *t_name(const table *t, uint64_t i) { return t->head->traced[i].name; }
static const char *t_sha256(const table *t, uint64_t i) { return t->head->traced[i].sha256; }
static const char *t_origin(const table *t, uint64_t i) { return t->head->traced[i].info.origin; }
static const char *t_allocator(const table *t, uint64_t i) { return kvt_allocator_name(t->head->traced[i].info.allocator); }
static double t_pool(const table *t, uint64_t i) { return t->head->traced[i].info.pool_size; }
static double t_page(const table *t, uint64_t i) { return t->head->traced[i].info.page_size; }
static double t_requests(const table *t, uint64_t i) { return (double)t->head->traced[i].info.requests; }
static double t_every(const table *t, uint64_t i) { return t->head->traced[i].every; }
static double t_map(const table *t, uint64_t i) { return t->cell[t->head->traced[i].first_cell].result.map_step; }
static const column trace_columns[] = {{"traces/pool_size", 'u', "slot", "slots of the recording's pool", t_pool},
                                       {"traces/page_size", 'w', "slot", "slots a page of the recording", t_page},
                                       {"traces/requests", 'u', "1", "requests", t_requests},
                                       {"traces/every", 'w', "step", "a sample each so many steps", t_every},
                                       {"traces/map_step", 'w', "1", "step of its maps", t_map}};

static kv_status write_traces(const table *t, kv_error *err) {
  uint64_t n = t->head->traces;
  kv_status st = write_words(t, "traces/name", "file", n, t_name, err);
  if (!st) st = write_words(t, "traces/sha256", "of the file", n, t_sha256, err);
  if (!st) st = write_words(t, "traces/origin", "where it comes from", n, t_origin, err);
  if (!st) st = write_words(t, "traces/allocator", "of the recording", n, t_allocator, err);
  if (!st) st = WRITE_TABLE(t, trace_columns, n, err);
  return st ? st : WRITE_TABLE(t, trace_of_policy, t->n, err);
}

/* ---- the whole ---- */

/* What the file's attributes say of the one trace. */
static kv_status write_trace(hid_t f, const kvs_whatif_head *h, kv_error *err) {
  kv_status st = kv_h5_put_str(f, "trace", h->trace, err);
  if (!st) st = kv_h5_put_str(f, "trace_sha256", h->sha256, err);
  if (!st) st = kv_h5_put_str(f, "trace_origin", h->info->origin, err);
  if (!st) st = kv_h5_put_str(f, "allocator", kvt_allocator_name(h->info->allocator), err);
  if (!st) st = kv_h5_put_i64(f, "pool_size", h->info->pool_size, err);
  if (!st) st = kv_h5_put_i64(f, "page_size", h->info->page_size, err);
  return st ? st : kv_h5_put_i64(f, "every", h->every, err);
}

static kv_status write_head(hid_t f, const kvs_whatif_head *h, kv_error *err) {
  const kvs_policy_settings *s = h->settings;
  const struct {
    const char *name, *value;
  } text[] = {{"memory_model", h->memory_model}, {"token_source", h->token_source}, {"verdict", h->verdict}, {"default", "policies"}};
  const struct {
    const char *name;
    double value;
  } real[] = {{"row_bytes", h->prices.row_bytes}, {"layers", h->prices.layers}, {"token_seconds", h->prices.token_seconds},
              {"draft_layers", h->prices.draft_layers},
              {"effect", h->prices.effect}, {"low_water", s->low_water}, {"high_water", s->high_water},
              {"scatter_limit", s->scatter_limit}};
  const struct {
    const char *name;
    int64_t value;
  } whole[] = {{"pass_gap", s->pass_gap}, {"budget", s->budget}, {"draft_topk", s->draft_topk}, {"heads", h->heads}, {"queries", h->queries}};
  kv_status st = h->traced ? KV_OK : write_trace(f, h, err);
  for (size_t i = 0; i < sizeof text / sizeof *text && !st; i++) st = kv_h5_put_str(f, text[i].name, text[i].value, err);
  for (size_t i = 0; i < sizeof real / sizeof *real && !st; i++) st = kv_h5_put_f64(f, real[i].name, real[i].value, err);
  for (size_t i = 0; i < sizeof whole / sizeof *whole && !st; i++) st = kv_h5_put_i64(f, whole[i].name, whole[i].value, err);
  return st;
}

static kv_status write_gpus(const table *t, kv_error *err) {
  uint64_t n = t->head->gpus;
  kv_status st = write_words(t, "gpus/key", "GPU", n, g_key, err);
  if (!st) st = write_words(t, "gpus/name", "product name", n, g_name, err);
  if (!st) st = write_words(t, "gpus/read_source", "where the read bandwidth comes from", n, g_read_source, err);
  if (!st) st = write_words(t, "gpus/copy_source", "where the copy bandwidth comes from", n, g_copy_source, err);
  if (!st) st = write_words(t, "gpus/memory_model", "where the share that scattered rows keep comes from", n, g_memory_model, err);
  return st ? st : WRITE_TABLE(t, gpu_columns, n, err);
}

static kv_status write_series(const table *t, kv_error *err) {
  uint64_t samples = 0, details = 0, lengths = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    samples += t->cell[i].samples;
    for (uint32_t k = 0; k < t->cell[i].samples; k++) details += t->cell[i].sample[k].detail;
    for (uint32_t k = 0; k < KVS_HIST_BUCKETS; k++) lengths += t->cell[i].result.histogram[k] > 0;
  }
  kv_status st = WRITE_TABLE(t, series_columns, samples, err);
  if (!st) st = WRITE_TABLE(t, detail_columns, details, err);
  return st ? st : WRITE_TABLE(t, length_columns, lengths, err);
}

static kv_status write_map(const table *t, kv_error *err) {
  kv_status st = WRITE_TABLE(t, map_columns, (uint64_t)t->n * KVS_MAP_CELLS, err);
  hid_t group = st ? -1 : H5Gopen2(t->file, "map", H5P_DEFAULT);
  if (st) return st;
  st = kv_h5_put_i64(group, "cells", KVS_MAP_CELLS, err);
  if (!st && !t->head->traced) st = kv_h5_put_i64(group, "step", t->n ? t->cell[0].result.map_step : 0, err);
  (void)H5Gclose(group);
  return st;
}

kv_status kvs_whatif_write(const kvs_whatif_head *h, const kvs_cell *cells, uint32_t n, uint32_t baseline, kv_error *err) {
  kv_h5_out out = {0};
  kv_status st = kv_h5_create(h->path, h->conventions, "kvsim", h->command, &out, err);
  if (st) return st;
  const table t = {.file = out.file, .cell = cells, .n = n, .baseline = baseline, .head = h};
  uint64_t costs = (uint64_t)n * h->gpus;
  st = write_head(out.file, h, err);
  if (!st) st = write_gpus(&t, err);
  if (!st && h->traced) st = write_traces(&t, err);
  if (!st) st = write_words(&t, "policies/name", "policy", n, policy_name, err);
  if (!st) st = write_words(&t, "policies/summary", "what it does", n, policy_summary, err);
  if (!st) st = WRITE_TABLE(&t, policy_columns, n, err);
  if (!st) st = WRITE_TABLE(&t, cost_columns, costs, err);
  if (!st) st = write_words(&t, "costs/verdict", "do it, don't, no effect, not known, does not fit, baseline or bound", costs, c_verdict, err);
  if (!st) st = write_kernels(&t, err);
  if (!st) st = write_series(&t, err);
  if (!st) st = write_map(&t, err);
  if (st)
    kv_h5_abort(&out);
  else
    st = kv_h5_commit(&out, err);
  return st;
}

/* ---- a simulation as a trace ---- */

static kvt_allocator allocator_of(const kvs_world *w) {
  if (w->identity || w->next) return KVT_ALLOC_OTHER;
  if (w->list.after) return w->list.kind;
  return w->policy == &kvs_policy_lifo || !w->list.ring ? KVT_ALLOC_OTHER : w->list.kind;
}

kv_status kvs_told_open(const char *path, const char *command, const kvt_info *info, const kvs_policy *policy,
                        const int32_t *initial, const kvs_world *world, kvs_told *told, kv_error *err) {
  const kvt_writer_options o = {.creator = "kvsim", .command = command};
  const kvt_request unknown = {-1, -1, -1, -1, -1, 0};
  kvt_info out = *info;
  out.allocator = allocator_of(world);
  out.page_size = out.first_slot = world->page_size;
  out.pool_size = world->capacity;
  out.has_final = false;
  (void)snprintf(out.origin, sizeof out.origin, "simulated: policy %s over a trace %.400s", policy->name, info->origin);
  told->exact = out.allocator != KVT_ALLOC_OTHER;
  bool same = initial && out.page_size == info->page_size && out.pool_size == info->pool_size;
  kv_status st = kvt_writer_open(path, &out, &o, &told->writer, err);
  if (!st && same) st = kvt_writer_list(told->writer, "initial/free_list", initial, info->initial_free, err);
  for (uint64_t i = 0; i < info->requests && !st; i++) st = kvt_writer_request(told->writer, &unknown, err);
  if (st) (void)kvt_writer_finish(told->writer, true, NULL);
  return st;
}

kv_status kvs_told_event(void *arg, const kvt_event *e, const kvt_step *row, kv_error *err) {
  kvs_told *t = arg;
  if (!row) return kvt_writer_event(t->writer, e, err);
  kvt_step r = *row;
  if (!t->exact) r.available = r.evictable = r.protected_ = -1;
  return kvt_writer_step(t->writer, (kvt_step_type)e->aux, &r, err);
}

kv_status kvs_told_close(kvs_told *t, const kvs_world *w, bool abandon, kv_error *err) {
  kv_status st = KV_OK;
  if (!abandon && t->exact) {
    int32_t *list = malloc(((size_t)w->list.count + w->list.released) * sizeof *list + 1);
    if (!list) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
    if (!st) kvs_freelist_copy(&w->list, list, list + w->list.count);
    if (!st) st = kvt_writer_list(t->writer, "final/free_list", list, w->list.count, err);
    if (!st) st = kvt_writer_list(t->writer, "final/release_list", list + w->list.count, w->list.released, err);
    free(list);
  }
  kv_status done = kvt_writer_finish(t->writer, abandon || st != KV_OK, st ? NULL : err);
  t->writer = NULL;
  return st ? st : done;
}
