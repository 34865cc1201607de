/* kvr_clocks.c - the pages of a roofline-1 file that only some files have the columns for.
 *
 *   clocks.tsv         a line a point in the order they were measured: number, SM clock, memory clock (MHz), power (W),
 *                      temperature (degrees Celsius), 1 where the GPU throttled
 *   clocks-blocks.tsv  a line a stretch of one kernel and prefix: first point, middle, text
 *   gains.tsv          a line a kernel and cause: row, gain, low, high, number of the cause, text
 *   gains-rows.tsv     a line a kernel: row, name
 */
#include <math.h>
#include <string.h>

#include "kvr_points.h"
#include "kvr_text.h"

static bool has(const kvr_roofline *r, const char *name) {
  return H5Lexists(r->job->src.file, name, H5P_DEFAULT) > 0;
}

bool kvr_has_clocks(const kvr_roofline *r) {
  return has(r, "points/sm_clock");
}

bool kvr_has_gains(const kvr_roofline *r) {
  return has(r, "points/gain_work");
}

/* ---- clocks and power ---- */

enum { C_SM, C_MEMORY, C_POWER, C_TEMPERATURE, C_THROTTLED, C_COLUMNS };
static const char *const clock_columns[] = {"sm_clock", "memory_clock", "power", "temperature", "throttled"};

typedef struct span {
  double low, high;
} span;

static void widen(span *s, double v) {
  if (!isfinite(v)) return;
  if (!(s->low <= v)) s->low = v;
  if (!(s->high >= v)) s->high = v;
}

static void put_clock_rows(const kvr_roofline *r, const kvr_table *t, FILE *f) {
  span s[C_COLUMNS];
  uint64_t throttled = 0, unknown = 0;
  for (size_t c = 0; c < C_COLUMNS; c++) s[c] = (span){NAN, NAN};
  for (uint64_t i = 0; i < t->rows; i++) {
    kvr_put_cell(f, (double)i + 1);
    for (size_t c = 0; c < C_THROTTLED; c++) {
      double v = t->value[c][i] > 0 ? t->value[c][i] : NAN; /* 0: the driver did not say */
      kvr_put_cell(f, v);
      widen(&s[c], v);
    }
    kvr_put_cell(f, t->value[C_THROTTLED][i] == 1 ? 1 : NAN);
    throttled += t->value[C_THROTTLED][i] == 1;
    unknown += t->value[C_THROTTLED][i] == 2;
    fputc('\n', f);
  }
  kvr_put_number(r->job->vars, "CLOCK_ROWS", (double)t->rows);
  kvr_put_number(r->job->vars, "CLOCK_KNOWN", isfinite(s[C_SM].high));
  kvr_put_number(r->job->vars, "CLOCK_MOST", fmax(s[C_SM].high, s[C_MEMORY].high));
  kvr_put_number(r->job->vars, "POWER_MOST", s[C_POWER].high);
  kvr_put_number(r->job->vars, "TEMPERATURE_MOST", s[C_TEMPERATURE].high);
  kvr_put_number(r->job->vars, "THROTTLED", (double)throttled);
  kvr_put_text(r->job->vars, "CLOCK_STRETCH", "the next prefix, in tokens, k = 1024");
  kvr_put_number(r->job->vars, "CLOCK_ROTATE", 0);
  if (!isfinite(s[C_SM].high))
    kvr_put_finding(r->job, "FIND_CLOCKS", "The driver told no clock: times cannot be tied to one.");
  else
    kvr_put_finding(r->job, "FIND_CLOCKS",
                    "SM clock %.0f to %.0f MHz, memory clock %.0f to %.0f MHz, power up to %s W, up to %s degrees. "
                    "Throttled: %s of %s points%s.",
                    s[C_SM].low, s[C_SM].high, s[C_MEMORY].low, s[C_MEMORY].high, kvr_amount(s[C_POWER].high).text,
                    kvr_amount(s[C_TEMPERATURE].high).text, kvr_count((double)throttled).text, kvr_count((double)t->rows).text,
                    unknown ? ", not known for some" : "");
}

/* Points stand in the order they were measured: a stretch is one prefix. */
static void put_stretches(const kvr_roofline *r, FILE *f) {
  uint64_t from = 0;
  for (uint64_t i = 1; i <= r->points.rows; i++) {
    if (i < r->points.rows && kvr_at(r, R_PREFIX, i) == kvr_at(r, R_PREFIX, from)) continue;
    char text[40];
    (void)snprintf(text, sizeof text, "%s", kvr_tokens(kvr_at(r, R_PREFIX, from)).text);
    kvr_put_cell(f, (double)from + 0.5);
    kvr_put_cell(f, 0.5 * (double)(from + i + 1));
    kvr_put_word(f, i - from >= (r->points.rows + 19) / 20 ? text : "");
    fputc('\n', f);
    from = i;
  }
}

kv_status kvr_put_clocks(const kvr_roofline *r, kv_error *err) {
  kvr_table t = {0};
  FILE *f = NULL;
  kv_status st = kvr_table_load(&r->job->src, "points", clock_columns, C_COLUMNS, &t, err);
  if (!st && t.rows != r->points.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/sm_clock' and '/points/prefix' differ in length", r->job->src.path);
  if (!st) st = kvr_job_open(r->job, "clocks.tsv", &f, err);
  if (!st) {
    put_clock_rows(r, &t, f);
    st = kvr_job_close(r->job, &f, err);
  }
  if (!st) st = kvr_job_open(r->job, "clocks-blocks.tsv", &f, err);
  if (!st) {
    put_stretches(r, f);
    if (t.rows == 0) fputs("NaN\tNaN\t\n", f);
    st = kvr_job_close(r->job, &f, err);
  }
  kvr_table_close(&t);
  return st;
}

/* ---- what one fix alone would gain ---- */

enum { CAUSES = 7, PARTS = 3 };
static const char *const causes[CAUSES] = {"path", "work", "scatter", "placement", "serial", "memory", "overhead"};
static const char *const gain_columns[] = {
    "gain_path",         "gain_path_low",      "gain_path_high",   "gain_work",        "gain_work_low",
    "gain_work_high",    "gain_scatter",       "gain_scatter_low", "gain_scatter_high", "gain_placement",
    "gain_placement_low", "gain_placement_high", "gain_serial",    "gain_serial_low",  "gain_serial_high",
    "gain_memory",       "gain_memory_low",    "gain_memory_high", "gain_overhead",    "gain_overhead_low",
    "gain_overhead_high"};

typedef struct best_fix {
  double gain;
  size_t cause;
  uint64_t point;
} best_fix;

static void put_gain_rows(const kvr_roofline *r, const kvr_table *t, FILE *f, FILE *names) {
  double rows = 0, most = 1;
  char text[700];
  best_fix best = {1, 0, UINT64_MAX};
  bool shown[CAUSES] = {false};
  uint64_t at = 0;
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++) {
    uint64_t i = r->order[at + r->of[s].points - 1];
    bool known = false;
    if (s && r->of[s - 1].kernel == r->of[s].kernel) continue; /* first variant only, as on the ladder's page */
    for (size_t c = 0; c < CAUSES; c++) known |= isfinite(t->value[PARTS * c][i]);
    if (!known || isfinite(kvr_bound(r, i))) continue; /* older files gave bounds gains */
    kvr_put_cell(names, ++rows);
    kvr_put_word(names, kvr_kernel_of(r, i));
    fputc('\n', names);
    for (size_t c = 0; c < CAUSES; c++) {
      double gain = t->value[PARTS * c][i];
      if (!isfinite(gain)) continue;
      shown[c] = true;
      kvr_put_cell(f, rows);
      for (size_t k = 0; k < PARTS; k++) kvr_put_cell(f, kvr_positive(t->value[PARTS * c + k][i]));
      kvr_put_cell(f, (double)c + 1);
      fputc('\n', f);
      most = fmax(most, fmax(gain, isfinite(t->value[PARTS * c + 2][i]) ? t->value[PARTS * c + 2][i] : gain));
      if (gain > best.gain) best = (best_fix){gain, c, i};
    }
  }
  if (rows == 0) {
    fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
    fputs("NaN\t\n", names);
  }
  kvr_put_number(r->job->vars, "GAIN_ROWS", rows);
  fprintf(r->job->vars, "array GAIN_KNOWN[%d]\n", CAUSES);
  for (size_t c = 0; c < CAUSES; c++) fprintf(r->job->vars, "GAIN_KNOWN[%zu] = %d\n", c + 1, shown[c]);
  kvr_put_number(r->job->vars, "GAIN_MOST", most);
  if (best.point == UINT64_MAX)
    kvr_put_finding(r->job, "FIND_GAINS", "%s",
                    rows > 0 ? "No single fix gains anything."
                    : *kvr_bounded(r, text, sizeof text)
                        ? "No kernel has a time, only a bound of it, so no gain is known."
                        : "No gain is known.");
  else
    kvr_put_finding(r->job, "FIND_GAINS",
                    "Each kernel at its longest prefix. Removing one cause and nothing else; gains do not "
                    "multiply. Largest: "
                    "%s without %s would take 1/%.3g of its time (%s).%s",
                    kvr_kernel_of(r, best.point), causes[best.cause], best.gain,
                    isfinite(kvr_at(r, R_MEASURED, best.point)) ? "modelled on a measured time" : "modelled",
                    kvr_no_time(r, text, sizeof text));
}

kv_status kvr_put_gains(const kvr_roofline *r, kv_error *err) {
  kvr_table t = {0};
  FILE *f = NULL, *names = NULL;
  kv_status st = kvr_table_load(&r->job->src, "points", gain_columns, CAUSES * PARTS, &t, err);
  if (!st && t.rows != r->points.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/gain_path' and '/points/prefix' differ in length", r->job->src.path);
  if (!st) st = kvr_job_open(r->job, "gains.tsv", &f, err);
  if (!st) st = kvr_job_open(r->job, "gains-rows.tsv", &names, err);
  if (!st) {
    put_gain_rows(r, &t, f, names);
    st = kvr_job_close(r->job, &f, err);
  }
  if (!st) st = kvr_job_close(r->job, &names, err);
  if (f) (void)fclose(f);
  if (names) (void)fclose(names);
  kvr_table_close(&t);
  return st;
}
