/* kvr_selftest.c - a kvplanted-1 dataset as tables for gnuplot: planted kernels against their controls, and
 * what the attribution says of them.
 *
 *   planted.tsv  a line a kernel with a planted cause: row, name, what it does, control: time, low, high,
 * planted: time, low, high (us), text of the ratio, share, low, high (%), text of the share, text of the
 * cause named, 1 where it is missed
 *
 * A file that was not judged has no shares: its page says how they come in.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { P_EXPERIMENT, P_MEDIAN, P_LOW, P_HIGH, P_COLUMNS };
static const char *const point_columns[] = {"experiment", "median", "low", "high"};
enum { T_KERNEL, T_WHAT, T_CAUSE, T_CONTROL, T_WORDS };
static const char *const point_words[] = {"points/kernel", "points/what", "points/cause", "points/control"};
enum { J_SHARE, J_LOW, J_HIGH, J_WORST, J_COLUMNS };
static const char *const judged_columns[] = {"share", "share_low", "share_high", "worst"};
enum { MOST_ROWS = 14 };

typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

typedef struct planted {
  const kvr_job *job;
  kvr_table points, judged; /* judged: rows 0 where the file was not judged */
  words word[T_WORDS], judged_kernel, named;
  char gpu[128], status[512], calibration[700], failure[500], notes[1024];
  double bar, complete;
  uint64_t left_out;
} planted;

static const char *at(const words *w, uint64_t i) {
  return w->text + i * w->width;
}
static const char *of(const planted *p, size_t word, uint64_t i) {
  return at(&p->word[word], i);
}
static double number(const planted *p, size_t column, uint64_t i) {
  return p->points.value[column][i];
}

/* ---- reading ---- */

static kv_status read_judged(planted *p, kv_error *err) {
  const kvr_source *src = &p->job->src;
  if (H5Lexists(src->file, "judged", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kvr_table_load(src, "judged", judged_columns, J_COLUMNS, &p->judged, err);
  if (!st)
    st = kvr_strings(src, "judged/kernel", p->judged.rows, &p->judged_kernel.text, &p->judged_kernel.width,
                     &p->judged_kernel.n, err);
  if (!st)
    st = kvr_strings(src, "judged/named", p->judged.rows, &p->named.text, &p->named.width, &p->named.n, err);
  return st;
}

static kv_status read_planted(planted *p, kv_error *err) {
  const kvr_source *src = &p->job->src;
  kv_status st = kvr_table_load(src, "points", point_columns, P_COLUMNS, &p->points, err);
  for (size_t k = 0; k < T_WORDS && !st; k++)
    st = kvr_strings(src, point_words[k], p->points.rows, &p->word[k].text, &p->word[k].width, &p->word[k].n,
                     err);
  if (!st) st = read_judged(p, err);
  if (!st) st = kvr_text_attribute(src, "gpu_name", p->gpu, sizeof p->gpu, err);
  if (!st) st = kvr_text_attribute(src, "status", p->status, sizeof p->status, err);
  if (!st) st = kvr_text_attribute(src, "calibration", p->calibration, sizeof p->calibration, err);
  if (!st) st = kvr_text_attribute(src, "failure", p->failure, sizeof p->failure, err);
  if (!st) st = kvr_text_attribute(src, "notes", p->notes, sizeof p->notes, err);
  if (!st) st = kvr_number_attribute(src, "complete", &p->complete, err);
  if (!st) st = kvr_number_attribute(src, "bar", &p->bar, err);
  if (!(p->bar > 0)) p->bar = 0.9;
  return st;
}

static void close_planted(planted *p) {
  for (size_t k = 0; k < T_WORDS; k++) free(p->word[k].text);
  free(p->judged_kernel.text);
  free(p->named.text);
  kvr_table_close(&p->points);
  kvr_table_close(&p->judged);
}

/* ---- rows ---- */

/* A kernel's cold row; UINT64_MAX: none. */
static uint64_t cold(const planted *p, const char *kernel) {
  for (uint64_t i = 0; i < p->points.rows; i++)
    if (number(p, P_EXPERIMENT, i) == 0 && !strcmp(of(p, T_KERNEL, i), kernel)) return i;
  return UINT64_MAX;
}

static uint64_t judged_row(const planted *p, const char *kernel) {
  for (uint64_t i = 0; i < p->judged.rows; i++)
    if (!strcmp(at(&p->judged_kernel, i), kernel)) return i;
  return UINT64_MAX;
}

static bool is_planted(const planted *p, uint64_t i) {
  return number(p, P_EXPERIMENT, i) == 0 && *of(p, T_CAUSE, i) && cold(p, of(p, T_CONTROL, i)) != UINT64_MAX;
}

/* Neither named, nor explained as far as the bar asks. */
static bool is_missed(const planted *p, uint64_t i, uint64_t j) {
  return strcmp(at(&p->named, j), of(p, T_CAUSE, i)) != 0 || !(p->judged.value[J_SHARE][j] >= p->bar);
}

static void put_times(const planted *p, uint64_t i, FILE *f) {
  for (size_t c = P_MEDIAN; c <= P_HIGH; c++) kvr_put_cell(f, number(p, c, i) * 1e6);
}

static void put_row(const planted *p, double row, uint64_t i, FILE *f) {
  const uint64_t control = cold(p, of(p, T_CONTROL, i)), j = judged_row(p, of(p, T_KERNEL, i));
  const double ratio = number(p, P_MEDIAN, i) / number(p, P_MEDIAN, control);
  char text[200] = "", what[200], named[120] = "";
  kvr_put_cell(f, row);
  kvr_put_word(f, of(p, T_KERNEL, i));
  (void)kvr_wrap(of(p, T_WHAT, i), 8.5, false, 192, 1, what, sizeof what);
  kvr_put_word(f, what);
  put_times(p, control, f);
  put_times(p, i, f);
  (void)snprintf(text, sizeof text, "x%.3g", ratio);
  kvr_put_word(f, text);
  for (size_t c = J_SHARE; c <= J_HIGH; c++)
    kvr_put_cell(f, j == UINT64_MAX ? NAN : 100 * p->judged.value[c][j]);
  text[0] = '\0';
  if (j != UINT64_MAX && isfinite(p->judged.value[J_SHARE][j]))
    (void)snprintf(text, sizeof text, "%.1f %% (%.1f to %.1f)", 100 * p->judged.value[J_SHARE][j],
                   100 * p->judged.value[J_LOW][j], 100 * p->judged.value[J_HIGH][j]);
  else if (j != UINT64_MAX) (void)snprintf(text, sizeof text, "nothing to explain");
  kvr_put_word(f, text);
  if (j == UINT64_MAX) (void)snprintf(named, sizeof named, "planted: %.60s", of(p, T_CAUSE, i));
  else if (!strcmp(at(&p->named, j), of(p, T_CAUSE, i)))
    (void)snprintf(named, sizeof named, "%.60s, named", of(p, T_CAUSE, i));
  else (void)snprintf(named, sizeof named, "%.40s; named: %.40s", of(p, T_CAUSE, i), at(&p->named, j));
  kvr_put_word(f, named);
  kvr_put_cell(f, j != UINT64_MAX && is_missed(p, i, j));
  fputc('\n', f);
}

typedef struct summary {
  unsigned rows, judged, missed;
  double low, high, time_low, time_high,
      least;       /* of shares in %, of times in us; the least share's lower end, % */
  char first[160]; /* that is missed */
} summary;

static void look_at(const planted *p, uint64_t i, summary *s) {
  const uint64_t j = judged_row(p, of(p, T_KERNEL, i)), both[2] = {i, cold(p, of(p, T_CONTROL, i))};
  for (size_t k = 0; k < 2; k++) {
    s->time_low = fmin(s->time_low, number(p, P_LOW, both[k]) * 1e6);
    s->time_high = fmax(s->time_high, number(p, P_HIGH, both[k]) * 1e6);
  }
  if (j == UINT64_MAX) return;
  s->judged++;
  s->low = fmin(s->low, 100 * p->judged.value[J_LOW][j]);
  s->high = fmax(s->high, 100 * p->judged.value[J_HIGH][j]);
  s->least = fmin(s->least, 100 * p->judged.value[J_SHARE][j]);
  if (!is_missed(p, i, j)) return;
  if (s->missed++) return;
  if (strcmp(at(&p->named, j), of(p, T_CAUSE, i)) != 0)
    (void)snprintf(s->first, sizeof s->first, "%.50s: %.30s was planted, %.30s is named", of(p, T_KERNEL, i),
                   of(p, T_CAUSE, i), at(&p->named, j));
  else
    (void)snprintf(s->first, sizeof s->first,
                   "%.50s: %.30s explains %.1f %% of what it cost, the bar is %.0f %%", of(p, T_KERNEL, i),
                   of(p, T_CAUSE, i), 100 * p->judged.value[J_SHARE][j], 100 * p->bar);
}

static kv_status put_rows(planted *p, summary *s, kv_error *err) {
  FILE *f;
  kv_status st = kvr_job_open(p->job, "planted.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < p->points.rows; i++) {
    if (!is_planted(p, i)) continue;
    look_at(p, i, s);
    if (s->rows < MOST_ROWS) put_row(p, ++s->rows, i, f);
    else p->left_out++;
  }
  if (s->rows == 0) fputs("NaN\t\t\tNaN\tNaN\tNaN\tNaN\tNaN\tNaN\t\tNaN\tNaN\tNaN\t\t\t0\n", f);
  FILE *vars = p->job->vars;
  kvr_put_number(vars, "PLANTED_ROWS", s->rows);
  kvr_put_number(vars, "PLANTED_JUDGED", s->judged);
  kvr_put_number(vars, "PLANTED_MISSED", s->missed);
  kvr_put_number(vars, "PLANTED_BAR", 100 * p->bar);
  kvr_put_number(vars, "PLANTED_MEASURED", !strncmp(p->status, "measured", 8));
  kvr_put_number(vars, "SHARE_LOW", s->low);
  kvr_put_number(vars, "SHARE_HIGH", s->high);
  kvr_put_number(vars, "TIME_LOW", s->time_low);
  kvr_put_number(vars, "TIME_HIGH", s->time_high);
  return kvr_job_close(p->job, &f, err);
}

/* ---- words ---- */

static void conclude(const planted *p, const summary *s, kvr_cover *c) {
  if (s->rows == 0)
    (void)snprintf(c->verdict, sizeof c->verdict, "No kernel with a planted cause was %s.",
                   strncmp(p->status, "measured", 8) ? "modelled" : "measured");
  else if (s->judged == 0)
    (void)snprintf(c->verdict, sizeof c->verdict,
                   "%u causes were planted. This file was not judged: `roofline selftest FILE.h5 -o NEW.h5` "
                   "adds what is named.",
                   s->rows);
  else if (s->missed)
    (void)snprintf(c->verdict, sizeof c->verdict, "%u of %u planted causes are missed. The first, %s.",
                   s->missed, s->judged, s->first);
  else
    (void)snprintf(
        c->verdict, sizeof c->verdict,
        "All %u planted causes are named, and each explains at least %.1f %% of what it cost (bar: %.0f %%).",
        s->judged, s->least, 100 * p->bar);
  kvr_put_finding(p->job, "FIND_PLANTED", "%s%s", c->verdict,
                  s->judged ? " Share: of ln(t / t of the control), with its 95 % interval." : "");
}

/* Kernels that nothing was planted in, with the largest factor of their ladders. */
static void cover_controls(const planted *p, kvr_cover *c) {
  char text[900] = "";
  size_t used = 0;
  for (uint64_t j = 0; j < p->judged.rows && used + 100 < sizeof text; j++) {
    const uint64_t i = cold(p, at(&p->judged_kernel, j));
    if (i == UINT64_MAX || *of(p, T_CAUSE, i)) continue;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%.50s %.2f", used ? ", " : "",
                             of(p, T_KERNEL, i), p->judged.value[J_WORST][j]);
  }
  if (*text) kvr_cover_row(c, "Nothing planted", "largest factor of the ladder: %s", text);
}

static kv_status write_cover(const planted *p, const summary *s, kvr_cover *c, kv_error *err) {
  char history[2048] = "";
  kv_status st = kvr_text_attribute(&p->job->src, "history", history, sizeof history, err);
  c->kind = "DOES IT NAME THE CAUSE?  ·  roofline selftest";
  (void)snprintf(c->title, sizeof c->title, "%s: causes that were planted",
                 *p->gpu ? p->gpu : "GPU not recorded");
  (void)snprintf(c->problem, sizeof c->problem,
                 "Small kernels with one known cause of slowness each, and the same kernels without it, "
                 "through the experiments and "
                 "the attribution that every kernel goes through. Is the cause named, and how much of the "
                 "slowdown does it explain?");
  kvr_cover_row(c, "GPU", "%s", p->gpu);
  kvr_cover_row(c, "Status", "%s", p->status);
  kvr_cover_row(c, "Ceilings", "%s", *p->calibration ? p->calibration : "not judged");
  kvr_cover_row(c, "Planted", "%u kernels%s", s->rows + (unsigned)p->left_out,
                p->left_out ? "; more than the page shows" : "");
  cover_controls(p, c);
  if (p->complete == 0) kvr_cover_row(c, "Incomplete", "%s", p->failure);
  if (*p->notes) kvr_cover_row(c, "Notes", "%s", p->notes);
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(p->job, c, err);
  return st ? st : kvr_put_footer(p->job, p->gpu, *p->status ? p->status : "status not recorded", err);
}

kv_status kvr_export_selftest(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"}, {"selftest-planted.gp", "planted"}};
  planted p = {.job = job, .bar = NAN, .complete = NAN};
  summary s = {
      .low = INFINITY, .high = -INFINITY, .time_low = INFINITY, .time_high = -INFINITY, .least = INFINITY};
  kvr_cover *c = calloc(1, sizeof *c);
  job->pages = pages;
  job->page_count = 2;
  kv_status st = c ? read_planted(&p, err) : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  if (!st) st = put_rows(&p, &s, err);
  if (!st) conclude(&p, &s, c);
  if (!st) st = write_cover(&p, &s, c, err);
  close_planted(&p);
  free(c);
  return st;
}
