/* kvr_calibration.c - a kvceilings-1 dataset (`roofline calibrate`) as tables for gnuplot.
 *
 *   ceilings.tsv       a line a ceiling: row, name, best, low, high (% of the best median), then text: value, interval, clock
 *                      and power, microbenchmark
 *   tried.tsv          a line a configuration: row of its ceiling, % of the best median
 *   latencies.tsv      a line a latency: row, name, ns, low, high, then text: ns, cycles, microbenchmark
 *   loaded.tsv         two blocks, DRAM chased and by Little's law: GB/s, ns, low, high; then two of the L2
 *   scatter.tsv        a block a row size: run length, t / t_contiguous measured and modelled
 *   reach-latency.tsv  footprint (B), ns, low, high
 *   reach.tsv          a block a row size: footprint (B), GB/s measured, low, high, modelled
 *   flight.tsv         a block a row size and layout: bytes in flight an SM, GB/s measured, low, high, modelled
 *   few.tsv            SMs at work, GB/s measured, low, high, modelled
 *   clocks.tsv, clocks-blocks.tsv   as kvr_clocks.c
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { MOST_ROWS = 20, MOST_LATENCIES = 36, MOST_SERIES = 8 };

enum {
  B_ROW,
  B_RUN,
  B_BLOCKS,
  B_THREADS,
  B_FLIGHT,
  B_FOOTPRINT,
  B_LOAD,
  B_VALUE,
  B_LOW,
  B_HIGH,
  B_SM_CLOCK,
  B_MEMORY_CLOCK,
  B_POWER,
  B_TEMPERATURE,
  B_THROTTLED,
  B_COLUMNS
};
static const char *const bench_columns[] = {"row_bytes",  "run_length", "blocks",   "threads",      "in_flight",
                                            "footprint",  "load",       "value",    "value_low",    "value_high",
                                            "sm_clock",   "memory_clock", "power",  "temperature",  "throttled"};
enum { T_VALUE, T_LOW, T_HIGH, T_POINT, T_COLUMNS };
static const char *const best_columns[] = {"value", "low", "high", "point"};
enum { L_CYCLES = T_COLUMNS, L_COLUMNS };
static const char *const latency_columns[] = {"value", "low", "high", "point", "cycles"};

typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

typedef struct calibration {
  const kvr_job *job;
  char gpu[256], status[512], notes[1100], failure[700], model[512];
  double sms, l2, memory, bus, clock, memory_clock, power_limit, repeats, complete, throttled;
  kvr_table bench, ceilings, latencies, model_column;
  words name, layout, scope, kind, ceiling, ceiling_scope, unit, source, latency, latency_source;
  const double *modelled; /* NULL: not in the file */
} calibration;

static const char *word_at(const words *w, uint64_t i) {
  return i < w->n ? w->text + i * w->width : "";
}
static double at(const calibration *c, size_t column, uint64_t i) {
  return c->bench.value[column][i];
}
static double modelled(const calibration *c, uint64_t i) {
  return c->modelled ? c->modelled[i] : NAN;
}
static bool named(const calibration *c, uint64_t i, const char *name) {
  return !strcmp(word_at(&c->name, i), name);
}
static bool whole_chip(const calibration *c, uint64_t i) {
  return !strcmp(word_at(&c->scope, i), "chip");
}

/* ---- reading ---- */

static kv_status read_attributes(calibration *c, kv_error *err) {
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"gpu_name", c->gpu, sizeof c->gpu},
               {"status", c->status, sizeof c->status},
               {"notes", c->notes, sizeof c->notes},
               {"failure", c->failure, sizeof c->failure},
               {"memory_model", c->model, sizeof c->model}};
  const struct {
    const char *name;
    double *value;
  } numbers[] = {{"sms", &c->sms},
                 {"l2", &c->l2},
                 {"memory", &c->memory},
                 {"memory_bus", &c->bus},
                 {"sm_clock_max", &c->clock},
                 {"memory_clock_max", &c->memory_clock},
                 {"power_limit", &c->power_limit},
                 {"repeats", &c->repeats},
                 {"complete", &c->complete},
                 {"throttled_points", &c->throttled}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(&c->job->src, texts[i].name, texts[i].text, texts[i].size, err);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kvr_number_attribute(&c->job->src, numbers[i].name, numbers[i].value, err);
  return st;
}

static kv_status read_model(calibration *c, kv_error *err) {
  static const char *const column[] = {"modelled"};
  if (H5Lexists(c->job->src.file, "microbenchmarks/modelled", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kvr_table_load(&c->job->src, "microbenchmarks", column, 1, &c->model_column, err);
  if (!st && c->model_column.rows != c->bench.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/microbenchmarks/modelled' and '/microbenchmarks/value' differ in length",
                 c->job->src.path);
  if (!st) c->modelled = c->model_column.value[0];
  return st;
}

static kv_status read_calibration(calibration *c, kv_error *err) {
  const kvr_source *src = &c->job->src;
  kv_status st = read_attributes(c, err);
  if (!st) st = kvr_table_load(src, "microbenchmarks", bench_columns, B_COLUMNS, &c->bench, err);
  if (!st) st = kvr_table_load(src, "ceilings", best_columns, T_COLUMNS, &c->ceilings, err);
  if (!st) st = kvr_table_load(src, "latencies", latency_columns, L_COLUMNS, &c->latencies, err);
  const struct {
    const char *name;
    words *to;
    uint64_t expect;
  } columns[] = {{"microbenchmarks/name", &c->name, c->bench.rows},
                 {"microbenchmarks/layout", &c->layout, c->bench.rows},
                 {"microbenchmarks/scope", &c->scope, c->bench.rows},
                 {"microbenchmarks/kind", &c->kind, c->bench.rows},
                 {"ceilings/name", &c->ceiling, c->ceilings.rows},
                 {"ceilings/scope", &c->ceiling_scope, c->ceilings.rows},
                 {"ceilings/unit", &c->unit, c->ceilings.rows},
                 {"ceilings/source", &c->source, c->ceilings.rows},
                 {"latencies/name", &c->latency, c->latencies.rows},
                 {"latencies/source", &c->latency_source, c->latencies.rows}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns && !st; i++)
    st = kvr_strings(src, columns[i].name, columns[i].expect, &columns[i].to->text, &columns[i].to->width,
                     &columns[i].to->n, err);
  return st ? st : read_model(c, err);
}

static void close_calibration(calibration *c) {
  words *all[] = {&c->name, &c->layout, &c->scope,  &c->kind,    &c->ceiling,       &c->ceiling_scope,
                  &c->unit, &c->source, &c->latency, &c->latency_source};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->text);
  kvr_table_close(&c->bench);
  kvr_table_close(&c->ceilings);
  kvr_table_close(&c->latencies);
  kvr_table_close(&c->model_column);
}

/* ---- what several pages use ---- */

/* Row of /ceilings of a resource of the whole chip, or UINT64_MAX. */
static uint64_t ceiling_row(const calibration *c, const char *name) {
  for (uint64_t i = 0; i < c->ceilings.rows; i++)
    if (!strcmp(word_at(&c->ceiling, i), name) && !strcmp(word_at(&c->ceiling_scope, i), "chip")) return i;
  return UINT64_MAX;
}
static double ceiling(const calibration *c, const char *name) {
  uint64_t i = ceiling_row(c, name);
  return i == UINT64_MAX ? NAN : c->ceilings.value[T_VALUE][i];
}
static double latency(const calibration *c, const char *name) {
  for (uint64_t i = 0; i < c->latencies.rows; i++)
    if (!strcmp(word_at(&c->latency, i), name)) return c->latencies.value[T_VALUE][i];
  return NAN;
}

/* GB/s of a rate: measured, low, high, modelled. */
static void put_rates(const calibration *c, FILE *f, uint64_t i) {
  kvr_put_cell(f, at(c, B_VALUE, i) * 1e-9);
  kvr_put_cell(f, at(c, B_LOW, i) * 1e-9);
  kvr_put_cell(f, at(c, B_HIGH, i) * 1e-9);
  kvr_put_cell(f, modelled(c, i) * 1e-9);
  fputc('\n', f);
}

static bool is_gather(const calibration *c, uint64_t i) {
  return named(c, i, "gather") && whole_chip(c, i) && strcmp(word_at(&c->layout, i), "list") != 0 && at(c, B_ROW, i) > 0;
}
static bool contiguous(const calibration *c, uint64_t i) {
  return !strcmp(word_at(&c->layout, i), "contiguous");
}
static bool all_sms(const calibration *c, uint64_t i) {
  return at(c, B_BLOCKS, i) >= c->sms;
}

/* The pool that scatter and bytes in flight were measured in: that of the contiguous rows. */
static double main_footprint(const calibration *c) {
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && contiguous(c, i)) return at(c, B_FOOTPRINT, i);
  return NAN;
}

/* Different values in ascending order; at most `room`. */
typedef struct values {
  double v[64];
  size_t n;
} values;

static void add_value(values *s, double v) {
  size_t k = 0;
  while (k < s->n && s->v[k] < v) k++;
  if ((k < s->n && s->v[k] == v) || s->n == sizeof s->v / sizeof *s->v) return;
  memmove(&s->v[k + 1], &s->v[k], (s->n - k) * sizeof *s->v);
  s->v[k] = v;
  s->n++;
}

static void put_array(const calibration *c, const char *array, size_t n) {
  fprintf(c->job->vars, "array %s[%zu]\n", array, n ? n : 1);
}
static void put_entry(const calibration *c, const char *array, size_t k, const char *text) {
  char name[48];
  (void)snprintf(name, sizeof name, "%s[%zu]", array, k + 1);
  kvr_put_text(c->job->vars, name, text);
}

/* ---- ceilings and latencies ---- */

/* Which microbenchmark, without its name: the line begins with it. */
static void source_text(const char *source, const char *name, char *text, size_t size) {
  size_t n = strlen(name);
  if (!strncmp(source, name, n) && !strncmp(source + n, ": ", 2)) source += n + 2;
  (void)kvr_wrap(source, 8.5, false, 205, 1, text, size);
}

static void interval_text(double value, double low, double high, char *text, size_t size) {
  (void)snprintf(text, size, "-%.2f %% +%.2f %%", 100 * (1 - low / value), 100 * (high / value - 1));
}

static void ceiling_line(const calibration *c, FILE *f, uint64_t i) {
  double v = c->ceilings.value[T_VALUE][i], low = c->ceilings.value[T_LOW][i], high = c->ceilings.value[T_HIGH][i],
         point = c->ceilings.value[T_POINT][i];
  const char *unit = word_at(&c->unit, i);
  char text[200];
  kvr_put_cell(f, (double)i + 1);
  (void)snprintf(text, sizeof text, "%.20s, %s", word_at(&c->ceiling, i),
                 !strcmp(word_at(&c->ceiling_scope, i), "sm") ? "1 SM" : "chip");
  kvr_put_word(f, text);
  kvr_put_cell(f, 100);
  kvr_put_cell(f, 100 * low / v);
  kvr_put_cell(f, 100 * high / v);
  kvr_put_word(f, kvr_si(v, *unit == '1' ? unit + 1 : unit).text);
  interval_text(v, low, high, text, sizeof text);
  kvr_put_word(f, text);
  text[0] = '\0';
  if (point >= 0 && point < (double)c->bench.rows)
    (void)snprintf(text, sizeof text, "%.0f MHz, %.0f W", at(c, B_SM_CLOCK, (uint64_t)point), at(c, B_POWER, (uint64_t)point));
  kvr_put_word(f, text);
  source_text(word_at(&c->source, i), word_at(&c->ceiling, i), text, sizeof text);
  kvr_put_word(f, text);
  fputc('\n', f);
}

static uint64_t tried_lines(const calibration *c, FILE *f, uint64_t ceiling_at) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    if (!named(c, i, word_at(&c->ceiling, ceiling_at)) || strcmp(word_at(&c->kind, i), "rate") != 0 ||
        strcmp(word_at(&c->scope, i), word_at(&c->ceiling_scope, ceiling_at)) != 0)
      continue;
    kvr_put_cell(f, (double)ceiling_at + 1);
    kvr_put_cell(f, 100 * at(c, B_VALUE, i) / c->ceilings.value[T_VALUE][ceiling_at]);
    fputc('\n', f);
    n++;
  }
  return n;
}

static kv_status put_ceilings(const calibration *c, kv_error *err) {
  FILE *f = NULL, *tried = NULL;
  uint64_t rows = c->ceilings.rows < MOST_ROWS ? c->ceilings.rows : MOST_ROWS, configurations = 0;
  double worst = 0;
  kv_status st = kvr_job_open(c->job, "ceilings.tsv", &f, err);
  if (!st) st = kvr_job_open(c->job, "tried.tsv", &tried, err);
  for (uint64_t i = 0; i < rows && !st; i++) {
    ceiling_line(c, f, i);
    configurations += tried_lines(c, tried, i);
    double v = c->ceilings.value[T_VALUE][i];
    worst = fmax(worst, 100 * fmax(1 - c->ceilings.value[T_LOW][i] / v, c->ceilings.value[T_HIGH][i] / v - 1));
  }
  if (!st && configurations == 0) fputs("NaN\tNaN\n", tried);
  kvr_put_number(c->job->vars, "CEILINGS", (double)rows);
  kvr_put_number(c->job->vars, "CEILINGS_LEFT_OUT", (double)(c->ceilings.rows - rows));
  if (rows == 0) kvr_put_finding(c->job, "FIND_CEILINGS", "%s", "");
  else kvr_put_finding(c->job, "FIND_CEILINGS",
                  "The best median of each resource and its 95 %% interval (%.2f %% at most), among %s configurations tried: "
                  "the circles left of it. Runs a point: %.0f.",
                  worst, kvr_count((double)configurations).text, c->repeats);
  kv_status closed = f ? kvr_job_close(c->job, &f, st ? NULL : err) : KV_OK;
  if (!st) st = closed;
  closed = tried ? kvr_job_close(c->job, &tried, st ? NULL : err) : KV_OK;
  return st ? st : closed;
}

static const kvr_table *sorting; /* qsort has no context; one report is made at a time */
static int by_latency(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  double v = sorting->value[T_VALUE][x], w = sorting->value[T_VALUE][y];
  return v != w ? (v > w) - (v < w) : (x > y) - (x < y);
}

static void latency_line(const calibration *c, FILE *f, uint64_t row, uint64_t i) {
  double v = c->latencies.value[T_VALUE][i], cycles = c->latencies.value[L_CYCLES][i];
  char text[200];
  kvr_put_cell(f, (double)row + 1);
  kvr_put_word(f, word_at(&c->latency, i));
  for (size_t k = T_VALUE; k <= T_HIGH; k++) kvr_put_cell(f, c->latencies.value[k][i] * 1e9);
  (void)snprintf(text, sizeof text, "%s", kvr_time(v).text);
  kvr_put_word(f, text);
  (void)snprintf(text, sizeof text, isfinite(cycles) ? "%.0f" : "", cycles);
  kvr_put_word(f, text);
  interval_text(v, c->latencies.value[T_LOW][i], c->latencies.value[T_HIGH][i], text, sizeof text);
  kvr_put_word(f, text);
  source_text(word_at(&c->latency_source, i), word_at(&c->latency, i), text, sizeof text);
  kvr_put_word(f, text);
  fputc('\n', f);
}

/* Latencies that the page's sentence and other pages name: shown whatever is left out. */
static bool cited(const calibration *c, uint64_t i) {
  static const char *const names[] = {"latency_dram", "latency_l2", "launch_eager", "launch_graph_node"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (!strcmp(word_at(&c->latency, i), names[k])) return true;
  return false;
}

/* Shortest first; of more than the page has room for the longest go, but for those cited. */
static uint64_t choose_latencies(const calibration *c, uint64_t *order) {
  uint64_t n = c->latencies.rows, kept = 0, over = n > MOST_LATENCIES ? n - MOST_LATENCIES : 0;
  for (uint64_t i = 0; i < n; i++) order[i] = i;
  sorting = &c->latencies;
  qsort(order, (size_t)n, sizeof *order, by_latency);
  sorting = NULL;
  for (uint64_t k = n; k-- > 0 && over > 0;)
    if (!cited(c, order[k])) {
      order[k] = UINT64_MAX;
      over--;
    }
  for (uint64_t k = 0; k < n; k++)
    if (order[k] != UINT64_MAX) order[kept++] = order[k];
  return kept;
}

static kv_status put_latencies(const calibration *c, kv_error *err) {
  FILE *f;
  uint64_t n = c->latencies.rows;
  uint64_t *order = calloc((size_t)n + 1, sizeof *order);
  if (!order) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", c->job->src.path);
  uint64_t rows = choose_latencies(c, order);
  kv_status st = kvr_job_open(c->job, "latencies.tsv", &f, err);
  for (uint64_t k = 0; k < rows && !st; k++) latency_line(c, f, k, order[k]);
  free(order);
  kvr_put_number(c->job->vars, "LATENCIES", (double)rows);
  kvr_put_number(c->job->vars, "LATENCIES_LEFT_OUT", (double)(n - rows));
  double dram = latency(c, "latency_dram"), l2 = latency(c, "latency_l2"), launch = latency(c, "launch_eager"),
         node = latency(c, "launch_graph_node");
  if (!isfinite(dram) && !isfinite(l2) && !isfinite(launch))
    kvr_put_finding(c->job, "FIND_LATENCIES", "Times of one step of a dependent chain, nothing else going on.");
  else kvr_put_finding(c->job, "FIND_LATENCIES",
                  "Times of one step of a dependent chain, nothing else going on. DRAM answers after %s, the L2 after %s; a "
                  "launch costs %s, in a graph %s.",
                  kvr_time(dram).text, kvr_time(l2).text, kvr_time(launch).text, kvr_time(node).text);
  return st ? st : kvr_job_close(c->job, &f, err);
}

/* ---- bandwidth against latency ---- */

static void loaded_line(FILE *f, double rate, double seconds, double low, double high) {
  kvr_put_cell(f, rate * 1e-9);
  kvr_put_cell(f, seconds * 1e9);
  kvr_put_cell(f, low * 1e9);
  kvr_put_cell(f, high * 1e9);
  fputc('\n', f);
}

static void end_block(FILE *f, uint64_t lines) {
  if (lines == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
}

/* Mean time that a byte is under way: bytes in flight / rate. */
static uint64_t little_lines(const calibration *c, FILE *f, bool in_l2) {
  uint64_t n = 0;
  double pool = main_footprint(c);
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    bool gather = is_gather(c, i) && contiguous(c, i) && !in_l2 && at(c, B_FOOTPRINT, i) == pool &&
                  at(c, B_ROW, i) == 1152,
         l2 = in_l2 && whole_chip(c, i) && (named(c, i, "l2") || (is_gather(c, i) && at(c, B_FOOTPRINT, i) <= c->l2 / 4));
    double flying = at(c, B_FLIGHT, i) * c->sms, v = at(c, B_VALUE, i);
    if (!(gather || l2) || !(flying > 0) || !all_sms(c, i)) continue;
    loaded_line(f, v, flying / v, flying / at(c, B_HIGH, i), flying / at(c, B_LOW, i));
    n++;
  }
  return n;
}

static kv_status put_loaded(const calibration *c, kv_error *err) {
  FILE *f;
  uint64_t n = 0, chased = 0;
  double idle = NAN, most = 0, slow = NAN;
  kv_status st = kvr_job_open(c->job, "loaded.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    if (!named(c, i, "latency_loaded")) continue;
    loaded_line(f, at(c, B_LOAD, i), at(c, B_VALUE, i), at(c, B_LOW, i), at(c, B_HIGH, i));
    if (!(idle <= at(c, B_VALUE, i))) idle = at(c, B_VALUE, i);
    if (at(c, B_LOAD, i) > most) {
      most = at(c, B_LOAD, i);
      slow = at(c, B_VALUE, i);
    }
    chased++;
  }
  end_block(f, chased);
  end_block(f, n = little_lines(c, f, false));
  uint64_t l2 = 0;
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (named(c, i, "latency_l2")) {
      loaded_line(f, 128 / at(c, B_VALUE, i), at(c, B_VALUE, i), at(c, B_LOW, i), at(c, B_HIGH, i));
      l2++;
    }
  end_block(f, l2);
  uint64_t l2_flying = little_lines(c, f, true);
  end_block(f, l2_flying);
  if (latency(c, "latency_dram") > 0) idle = latency(c, "latency_dram"); /* the line that the figure shows */
  kvr_put_number(c->job->vars, "LOADED", (double)(chased + n + l2 + l2_flying));
  if (chased)
    kvr_put_finding(c->job, "FIND_LOADED",
                    "DRAM answers a chase after %s idle and %s beside %s of other traffic. The L2 was chased idle only: under "
                    "load its marks are bytes in flight over rate.",
                    kvr_time(idle).text, kvr_time(slow).text, kvr_si(most, "B/s").text);
  else kvr_put_finding(c->job, "FIND_LOADED", "No chase beside other traffic is in this dataset.");
  return kvr_job_close(c->job, &f, err);
}

/* ---- scatter ---- */

/* The fastest gather of rows `bytes` in runs of `run` (0: contiguous) in the pool of `pool` bytes; UINT64_MAX: none. */
static uint64_t fastest(const calibration *c, double bytes, double run, double pool) {
  uint64_t best = UINT64_MAX;
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && at(c, B_ROW, i) == bytes && at(c, B_RUN, i) == run && at(c, B_FOOTPRINT, i) == pool &&
        contiguous(c, i) == (run == 0) && (best == UINT64_MAX || at(c, B_VALUE, i) > at(c, B_VALUE, best)))
      best = i;
  return best;
}

static void scatter_block(const calibration *c, FILE *f, double bytes, const values *runs, double pool, double *most, double *off) {
  uint64_t base = fastest(c, bytes, 0, pool), n = 0;
  for (size_t k = 0; k < runs->n && base != UINT64_MAX; k++) {
    uint64_t i = fastest(c, bytes, runs->v[k], pool);
    if (i == UINT64_MAX) continue;
    kvr_put_cell(f, runs->v[k]);
    kvr_put_cell(f, at(c, B_VALUE, base) / at(c, B_VALUE, i));
    kvr_put_cell(f, modelled(c, base) / modelled(c, i));
    fputc('\n', f);
    double ratio = at(c, B_VALUE, base) / at(c, B_VALUE, i);
    *most = fmax(*most, ratio);
    *off = fmax(*off, 100 * fabs(modelled(c, base) / modelled(c, i) / ratio - 1)); /* passes over what is not modelled */
    n++;
  }
  end_block(f, n);
}

static kv_status put_scatter(const calibration *c, kv_error *err) {
  FILE *f;
  values rows = {.n = 0}, runs = {.n = 0};
  double pool = main_footprint(c), most = 1, off = 0;
  char name[60], model[80] = "Not modelled in this file.";
  kv_status st = kvr_job_open(c->job, "scatter.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    if (!is_gather(c, i) || contiguous(c, i) || at(c, B_FOOTPRINT, i) != pool) continue;
    add_value(&runs, at(c, B_RUN, i));
    if (fastest(c, at(c, B_ROW, i), 0, pool) != UINT64_MAX) add_value(&rows, at(c, B_ROW, i));
  }
  size_t drawn = rows.n < MOST_SERIES ? rows.n : MOST_SERIES;
  put_array(c, "SCATTER_NAME", drawn);
  for (size_t k = 0; k < drawn; k++) {
    (void)snprintf(name, sizeof name, "rows of %s", kvr_bytes(rows.v[k]).text);
    put_entry(c, "SCATTER_NAME", k, name);
    scatter_block(c, f, rows.v[k], &runs, pool, &most, &off);
  }
  if (off > 0) (void)snprintf(model, sizeof model, "The memory model is off by %.1f %% at most.", off);
  uint64_t mla = fastest(c, 1152, 1, pool), base = fastest(c, 1152, 0, pool);
  kvr_put_number(c->job->vars, "SCATTERS", (double)drawn);
  kvr_put_number(c->job->vars, "SCATTER_MOST", most);
  kvr_put_number(c->job->vars, "RUN_MOST", runs.n ? runs.v[runs.n - 1] : 1);
  if (drawn == 0) kvr_put_finding(c->job, "FIND_SCATTER", "%s", "");
  else if (mla != UINT64_MAX && base != UINT64_MAX)
    kvr_put_finding(c->job, "FIND_SCATTER",
                    "Rows of 1,152 B at random places take %.3f times the time of contiguous ones (best kernel, pool of %s, cold "
                    "L2); the worst of this page takes %.2f times. %s",
                    at(c, B_VALUE, base) / at(c, B_VALUE, mla), kvr_bytes(pool).text, most, model);
  else kvr_put_finding(c->job, "FIND_SCATTER", "Scattered rows take up to %.2f times the time of contiguous ones. %s", most, model);
  return kvr_job_close(c->job, &f, err);
}

/* ---- footprint ---- */

static uint64_t reach_block(const calibration *c, FILE *f, double bytes, double run) {
  values feet = {.n = 0};
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && at(c, B_ROW, i) == bytes && at(c, B_RUN, i) == run && !contiguous(c, i))
      add_value(&feet, at(c, B_FOOTPRINT, i));
  for (size_t k = 0; k < feet.n; k++) {
    uint64_t i = fastest(c, bytes, run, feet.v[k]);
    kvr_put_cell(f, feet.v[k]);
    put_rates(c, f, i);
  }
  end_block(f, feet.n);
  return feet.n;
}

static uint64_t reach_latencies(const calibration *c, FILE *f) {
  uint64_t n = 0;
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    const char *name = word_at(&c->name, i);
    if (strcmp(name, "latency_l2") != 0 && strcmp(name, "latency_mixed") != 0 && strcmp(name, "latency_dram") != 0) continue;
    kvr_put_cell(f, at(c, B_FOOTPRINT, i));
    for (size_t k = B_VALUE; k <= B_HIGH; k++) kvr_put_cell(f, at(c, k, i) * 1e9);
    fputc('\n', f);
    n++;
  }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\n", f);
  return n;
}

/* Row sizes measured at three footprints or more. */
static void reach_rows(const calibration *c, values *rows) {
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    values feet = {.n = 0};
    if (!is_gather(c, i) || at(c, B_RUN, i) != 1 || contiguous(c, i)) continue;
    for (uint64_t k = 0; k < c->bench.rows; k++)
      if (is_gather(c, k) && at(c, B_RUN, k) == 1 && !contiguous(c, k) && at(c, B_ROW, k) == at(c, B_ROW, i))
        add_value(&feet, at(c, B_FOOTPRINT, k));
    if (feet.n >= 3) add_value(rows, at(c, B_ROW, i));
  }
}

static void find_reach(const calibration *c, const values *rows) {
  double pool = main_footprint(c), far = 0;
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i)) far = fmax(far, at(c, B_FOOTPRINT, i));
  uint64_t near = rows->n ? fastest(c, rows->v[0], 1, pool) : UINT64_MAX, end = rows->n ? fastest(c, rows->v[0], 1, far) : UINT64_MAX;
  if (near == UINT64_MAX || end == UINT64_MAX)
    kvr_put_finding(c->job, "FIND_REACH", "Times of a chase and rates of random rows against the memory they spread over.");
  else
    kvr_put_finding(c->job, "FIND_REACH",
                    "Random rows of %s: %s in a pool of %s, %s in one of %s. Where the rate falls beyond the L2 the TLB's reach ends.",
                    kvr_bytes(rows->v[0]).text, kvr_si(at(c, B_VALUE, near), "B/s").text, kvr_bytes(pool).text,
                    kvr_si(at(c, B_VALUE, end), "B/s").text, kvr_bytes(far).text);
}

static kv_status put_reach(const calibration *c, kv_error *err) {
  FILE *f;
  values rows = {.n = 0};
  char name[60];
  kv_status st = kvr_job_open(c->job, "reach-latency.tsv", &f, err);
  if (st) return st;
  uint64_t points = reach_latencies(c, f);
  st = kvr_job_close(c->job, &f, err);
  if (!st) st = kvr_job_open(c->job, "reach.tsv", &f, err);
  if (st) return st;
  reach_rows(c, &rows);
  size_t drawn = rows.n < MOST_SERIES ? rows.n : MOST_SERIES;
  put_array(c, "REACH_NAME", drawn);
  for (size_t k = 0; k < drawn; k++) {
    (void)snprintf(name, sizeof name, "rows of %s", kvr_bytes(rows.v[k]).text);
    put_entry(c, "REACH_NAME", k, name);
    points += reach_block(c, f, rows.v[k], 1);
  }
  find_reach(c, &rows);
  kvr_put_number(c->job->vars, "REACHES", (double)drawn);
  kvr_put_number(c->job->vars, "REACH_POINTS", (double)points);
  return kvr_job_close(c->job, &f, err);
}

/* ---- bytes in flight ---- */

static uint64_t flight_block(const calibration *c, FILE *f, double bytes, bool together, double pool) {
  values flights = {.n = 0};
  for (int pass = 0; pass < 2; pass++)
    for (size_t k = 0; k < (pass ? flights.n : 1); k++) {
      uint64_t best = UINT64_MAX;
      for (uint64_t i = 0; i < c->bench.rows; i++) {
        if (!is_gather(c, i) || !all_sms(c, i) || at(c, B_ROW, i) != bytes || contiguous(c, i) != together ||
            at(c, B_RUN, i) != (together ? 0 : 1) || at(c, B_FOOTPRINT, i) != pool)
          continue;
        if (pass == 0) add_value(&flights, at(c, B_FLIGHT, i));
        else if (at(c, B_FLIGHT, i) == flights.v[k] && (best == UINT64_MAX || at(c, B_VALUE, i) > at(c, B_VALUE, best))) best = i;
      }
      if (best == UINT64_MAX) continue;
      kvr_put_cell(f, at(c, B_FLIGHT, best));
      put_rates(c, f, best);
    }
  end_block(f, flights.n);
  return flights.n;
}

static uint64_t flights_of(const calibration *c, double bytes, double pool) {
  values flights = {.n = 0};
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && all_sms(c, i) && at(c, B_ROW, i) == bytes && at(c, B_FOOTPRINT, i) == pool)
      add_value(&flights, at(c, B_FLIGHT, i));
  return flights.n;
}

/* Few SMs, each with the same bytes in flight: the one-SM point of that setting comes first. */
static uint64_t few_lines(const calibration *c, FILE *f) {
  uint64_t n = 0;
  double bytes = NAN, flight = NAN;
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && at(c, B_BLOCKS, i) < c->sms) {
      bytes = at(c, B_ROW, i);
      flight = at(c, B_FLIGHT, i);
    }
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    bool one = named(c, i, "gather") && !whole_chip(c, i);
    if (!(one || is_gather(c, i)) || contiguous(c, i) || at(c, B_ROW, i) != bytes || at(c, B_FLIGHT, i) != flight ||
        at(c, B_RUN, i) != 1 || at(c, B_FOOTPRINT, i) != main_footprint(c))
      continue;
    kvr_put_cell(f, one ? 1 : fmin(at(c, B_BLOCKS, i), c->sms));
    put_rates(c, f, i);
    n++;
  }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
  kvr_put_number(c->job->vars, "FEW_ROW", bytes);
  kvr_put_number(c->job->vars, "FEW_FLIGHT", flight);
  return n;
}

static kv_status put_flight(const calibration *c, kv_error *err) {
  FILE *f;
  values rows = {.n = 0};
  double pool = main_footprint(c);
  char name[60];
  kv_status st = kvr_job_open(c->job, "flight.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < c->bench.rows; i++)
    if (is_gather(c, i) && flights_of(c, at(c, B_ROW, i), pool) >= 3) add_value(&rows, at(c, B_ROW, i));
  size_t drawn = rows.n < MOST_SERIES / 2 ? rows.n : MOST_SERIES / 2;
  put_array(c, "FLIGHT_NAME", 2 * drawn);
  for (size_t k = 0; k < drawn; k++)
    for (int together = 1; together >= 0; together--) {
      (void)snprintf(name, sizeof name, "%s, %s", kvr_bytes(rows.v[k]).text, together ? "contiguous" : "random");
      put_entry(c, "FLIGHT_NAME", 2 * k + (together ? 0 : 1), name);
      (void)flight_block(c, f, rows.v[k], together, pool);
    }
  kvr_put_number(c->job->vars, "FLIGHTS", 2 * (double)drawn);
  double needed = ceiling(c, "dram") * latency(c, "latency_dram") / c->sms;
  if (!isfinite(needed) || !(c->sms > 0)) kvr_put_finding(c->job, "FIND_FLIGHT", "No ceiling of DRAM, or no latency, is known.");
  else kvr_put_finding(c->job, "FIND_FLIGHT",
                  "The DRAM ceiling times its idle latency is %s in flight on each of %.0f SMs: less than that cannot fill it "
                  "(grey line). Memory model: %s.",
                  kvr_bytes(needed).text, c->sms, *c->model ? c->model : "not in this file");
  st = kvr_job_close(c->job, &f, err);
  if (!st) st = kvr_job_open(c->job, "few.tsv", &f, err);
  if (st) return st;
  kvr_put_number(c->job->vars, "FEW", (double)few_lines(c, f));
  return kvr_job_close(c->job, &f, err);
}

/* ---- clocks and power ---- */

/* The microbenchmark that a point belongs to; chains of one instruction each go together. */
static const char *group_of(const char *name) {
  static const struct {
    const char *begin, *group;
  } groups[] = {{"latency_loaded", "loaded"}, {"latency_", "latency"}, {"memory_line", "latency"}, {"launch_", "launch"},
                {"timer_floor", "launch"},    {"chain_", "chains"},    {"hop_", "chains"},         {"branch_", "chains"},
                {"fetch_", "chains"},         {"copy_", "chains"}};
  for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
    if (!strncmp(name, groups[k].begin, strlen(groups[k].begin))) return groups[k].group;
  return name;
}

typedef struct block {
  uint64_t first;
  double middle, right, place; /* place: of its label */
} block;

static size_t find_blocks(const calibration *c, block *list) {
  size_t n = 0;
  uint64_t from = 0;
  for (uint64_t i = 1; i <= c->bench.rows; i++) {
    if (i < c->bench.rows && !strcmp(group_of(word_at(&c->name, from)), group_of(word_at(&c->name, i)))) continue;
    list[n++] = (block){.first = from, .middle = 0.5 * (double)(from + i + 1)};
    from = i;
  }
  return n;
}

/* Moves labels apart to `room`: the mean of pushing them right and pushing them left, so that a cluster stays where it is. */
static void spread(block *list, size_t n, double room) {
  double before = -INFINITY, after = INFINITY;
  for (size_t k = 0; k < n; k++) list[k].right = before = fmax(list[k].middle, before + room);
  for (size_t k = n; k-- > 0;) {
    after = fmin(list[k].middle, after - room);
    list[k].place = 0.5 * (list[k].right + after);
  }
}

static kv_status clock_blocks(const calibration *c, FILE *f, kv_error *err) {
  block *list = calloc((size_t)c->bench.rows + 1, sizeof *list);
  if (!list) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", c->job->src.path);
  size_t n = find_blocks(c, list);
  spread(list, n, (double)c->bench.rows / 48); /* points that a label needs */
  for (size_t k = 0; k < n; k++) {
    kvr_put_cell(f, (double)list[k].first + 0.5);
    kvr_put_cell(f, list[k].place);
    kvr_put_word(f, group_of(word_at(&c->name, list[k].first)));
    fputc('\n', f);
  }
  if (n == 0) fputs("NaN\tNaN\t\n", f);
  free(list);
  return KV_OK;
}

static void extend(double *low, double *high, double v) {
  if (!isfinite(v)) return;
  if (!(*low <= v)) *low = v;
  if (!(*high >= v)) *high = v;
}

static kv_status put_clocks(const calibration *c, kv_error *err) {
  static const size_t column[] = {B_SM_CLOCK, B_MEMORY_CLOCK, B_POWER, B_TEMPERATURE};
  double low[4] = {NAN, NAN, NAN, NAN}, high[4] = {NAN, NAN, NAN, NAN}, throttled = 0;
  FILE *f;
  kv_status st = kvr_job_open(c->job, "clocks.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < c->bench.rows; i++) {
    kvr_put_cell(f, (double)i + 1);
    for (size_t k = 0; k < 4; k++) {
      double v = at(c, column[k], i) > 0 ? at(c, column[k], i) : NAN; /* 0: the driver did not say */
      kvr_put_cell(f, v);
      extend(&low[k], &high[k], v);
    }
    kvr_put_cell(f, at(c, B_THROTTLED, i) == 1 ? 1 : NAN);
    fputc('\n', f);
    throttled += at(c, B_THROTTLED, i) == 1;
  }
  if (c->bench.rows == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\tNaN\n", f);
  FILE *vars = c->job->vars;
  kvr_put_number(vars, "CLOCK_ROWS", (double)c->bench.rows);
  kvr_put_number(vars, "CLOCK_KNOWN", isfinite(high[0]));
  kvr_put_number(vars, "CLOCK_MOST", fmax(fmax(high[0], high[1]), fmax(c->clock, c->memory_clock)));
  kvr_put_number(vars, "POWER_MOST", fmax(high[2], c->power_limit));
  kvr_put_number(vars, "TEMPERATURE_MOST", high[3]);
  kvr_put_number(vars, "THROTTLED", throttled);
  kvr_put_text(vars, "CLOCK_STRETCH", "the next microbenchmark");
  kvr_put_number(vars, "CLOCK_ROTATE", 90);
  if (!isfinite(high[0])) kvr_put_finding(c->job, "FIND_CLOCKS", "The driver told no clock: rates cannot be tied to one.");
  else kvr_put_finding(c->job, "FIND_CLOCKS",
                  "SM clock %.0f to %.0f MHz as read (%.0f at most), power up to %s W of %s. Throttled: %s of %s points; such a "
                  "point is a ceiling only where there is no other.",
                  low[0], high[0], c->clock, kvr_amount(high[2]).text, kvr_amount(c->power_limit).text, kvr_count(throttled).text,
                  kvr_count((double)c->bench.rows).text);
  st = kvr_job_close(c->job, &f, err);
  if (!st) st = kvr_job_open(c->job, "clocks-blocks.tsv", &f, err);
  if (st) return st;
  st = clock_blocks(c, f, err);
  kv_status closed = kvr_job_close(c->job, &f, st ? NULL : err);
  return st ? st : closed;
}

/* ---- the first page ---- */

static void put_verdict(const calibration *c, char *text, size_t size) {
  double mma = fmax(ceiling(c, "mma"), ceiling(c, "wgmma"));
  size_t n = 0;
  const struct {
    const char *what;
    double v;
    const char *unit;
  } parts[] = {{"DRAM", ceiling(c, "dram"), "B/s"},
               {"L2", ceiling(c, "l2"), "B/s"},
               {"L2 to SMs", ceiling(c, "link"), "B/s"},
               {"matrix units", mma, "FLOP/s"}};
  text[0] = '\0';
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (isfinite(parts[i].v))
      n += (size_t)snprintf(text + n, size - n, "%s%s %s", n ? ", " : "", parts[i].what, kvr_si(parts[i].v, parts[i].unit).text);
  if (n && isfinite(mma / ceiling(c, "dram")))
    n += (size_t)snprintf(text + n, size - n, ". Ridge point %.0f FLOP/B", mma / ceiling(c, "dram"));
  if (n) (void)snprintf(text + n, size - n, ". All measured.");
  else (void)snprintf(text, size, "No ceiling was measured.");
}

/* What the card's memory has of its own beside the description's; or why the file does not tell it. */
static kv_status cover_card(const calibration *c, kvr_cover *v, kv_error *err) {
  static const char *const columns[] = {"value", "described"};
  char text[600] = "";
  size_t at = 0;
  kvr_table t = {0};
  words name = {0}, unit = {0};
  kv_status st = kvr_text_attribute(&c->job->src, "memory_card", text, sizeof text, err);
  if (!st && H5Lexists(c->job->src.file, "memory", H5P_DEFAULT) > 0) {
    st = kvr_table_load(&c->job->src, "memory", columns, 2, &t, err);
    if (!st) st = kvr_strings(&c->job->src, "memory/name", t.rows, &name.text, &name.width, &name.n, err);
    if (!st) st = kvr_strings(&c->job->src, "memory/unit", t.rows, &unit.text, &unit.width, &unit.n, err);
  }
  for (uint64_t i = 0; !st && i < t.rows && at + 120 < sizeof text; i++) {
    const double scale = strcmp(word_at(&unit, i), "s") ? 1 : 1e9;
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%.40s %.4g%s (described %.4g)", at ? ", " : "", word_at(&name, i),
                           t.value[0][i] * scale, scale > 1 ? " ns" : "", t.value[1][i] * scale);
  }
  if (!st && *text) kvr_cover_row(v, "Card's memory", "%s", text);
  free(name.text);
  free(unit.text);
  kvr_table_close(&t);
  return st;
}

static kv_status write_cover(const calibration *c, kv_error *err) {
  kvr_cover *v = calloc(1, sizeof *v);
  char history[2048] = "", not[1200];
  if (!v) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", c->job->src.path);
  kv_status st = kvr_text_attribute(&c->job->src, "history", history, sizeof history, err);
  v->kind = "WHAT THIS GPU REACHES  ·  roofline calibrate";
  (void)snprintf(v->title, sizeof v->title, "%s: ceilings, latencies, gathers", *c->gpu ? c->gpu : "GPU not recorded");
  put_verdict(c, v->verdict, sizeof v->verdict);
  (void)snprintf(v->problem, sizeof v->problem,
                 "Microbenchmarks alone: no attention kernel was run. A ceiling is the best median of its microbenchmark's "
                 "configurations, each timed %.0f times; every run is in the dataset.", c->repeats);
  kvr_cover_row(v, "Status", "%s", c->status);
  kvr_cover_row(v, "Whole", "%s%s%s", c->complete == 1 ? "yes: all that was asked for is in it" : "NO: the run broke off",
                *c->failure ? ": " : "", c->failure);
  kvr_cover_row(v, "GPU", "%.0f SMs, L2 %s, memory %s on %.0f bits", c->sms, kvr_bytes(c->l2).text, kvr_bytes(c->memory).text, c->bus);
  kvr_cover_row(v, "Clocks, power", "SM %.0f MHz and memory %.0f MHz at most, limit %s W", c->clock, c->memory_clock,
                kvr_amount(c->power_limit).text);
  kvr_cover_row(v, "Points", "%s, of them throttled: %s", kvr_count((double)c->bench.rows).text, kvr_count(c->throttled).text);
  kvr_cover_row(v, "Idle latency", "L2 %s, DRAM %s", kvr_time(latency(c, "latency_l2")).text, kvr_time(latency(c, "latency_dram")).text);
  kvr_cover_row(v, "Memory model", "%s", *c->model ? c->model : "not in this file (`roofline calibrate --from` adds it)");
  if (!st) st = cover_card(c, v, err);
  (void)snprintf(not, sizeof not, "writes and copies; the L2's latency under load%s%s", *c->notes ? "; " : "", c->notes);
  kvr_cover_row(v, "Not measured", "%s", not);
  kvr_cover_row(v, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(c->job, v, err);
  free(v);
  return st;
}

static void put_common(const calibration *c) {
  FILE *f = c->job->vars;
  kvr_put_text(f, "REPORT", "calibration");
  kvr_put_number(f, "DRAM", ceiling(c, "dram") * 1e-9);
  kvr_put_number(f, "L2", ceiling(c, "l2") * 1e-9);
  kvr_put_number(f, "L2_BYTES", c->l2);
  kvr_put_number(f, "MEMORY_BYTES", c->memory);
  kvr_put_number(f, "DRAM_LATENCY", latency(c, "latency_dram") * 1e9);
  kvr_put_number(f, "L2_LATENCY", latency(c, "latency_l2") * 1e9);
  kvr_put_number(f, "SMS", c->sms);
  kvr_put_number(f, "HAS_MODEL", c->modelled && strncmp(c->model, "none", 4) != 0);
}

kv_status kvr_export_calibration(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"},
                                   {"calibration-ceilings.gp", "ceilings"},
                                   {"calibration-latencies.gp", "latencies"},
                                   {"calibration-loaded.gp", "loaded"},
                                   {"calibration-scatter.gp", "scatter"},
                                   {"calibration-reach.gp", "footprint"},
                                   {"calibration-flight.gp", "in-flight"},
                                   {"roofline-clocks.gp", "clocks"}};
  calibration *c = calloc(1, sizeof *c);
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  c->job = job;
  job->pages = pages;
  job->page_count = sizeof pages / sizeof *pages;
  kv_status st = read_calibration(c, err);
  if (!st) put_common(c);
  if (!st) st = put_ceilings(c, err);
  if (!st) st = put_latencies(c, err);
  if (!st) st = put_loaded(c, err);
  if (!st) st = put_scatter(c, err);
  if (!st) st = put_reach(c, err);
  if (!st) st = put_flight(c, err);
  if (!st) st = put_clocks(c, err);
  if (!st) st = write_cover(c, err);
  if (!st) st = kvr_put_footer(job, c->gpu, *c->status ? c->status : "status not recorded", err);
  close_calibration(c);
  free(c);
  return st;
}
