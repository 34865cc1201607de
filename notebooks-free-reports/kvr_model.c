/* kvr_model.c - kvstep-1, kvvalidate-1 and kvcompare-1 datasets as tables for gnuplot.
 *
 *   step.tsv      a block a kernel: context, its label, tops of the stacked parts (ms), step, its low and high, label of the
 *                 tokens/s, step at floor
 *   validate.tsv  a block a kernel: measured, low, high, predicted, low, high (us), error (%)
 *   gains.tsv     a block a fix: realised, low, high, predicted, predicted / realised - 1 (%)
 *   compare.tsv   a block a kernel: prefix, ratio, low, high
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { MOST_SERIES = 20, STEP_PANELS = 6, MOST_PARTS = 16, MOST_FIXES = 12, ALL = -1 };

/* What the three kinds share: the points' columns and the names of their kernels, in the order they come. A kernel is a
 * series where a point of it can be drawn. */
typedef struct model {
  const kvr_job *job;
  kvr_table points;
  char *kernel;
  size_t width;
  uint64_t n;
  const char *series[MOST_SERIES];
  size_t series_count;
  uint64_t beyond; /* points of kernels beyond MOST_SERIES */
  char gpu[128], status[512];
} model;

static const char *kernel_of(const model *m, uint64_t i) {
  return m->kernel + i * m->width;
}

static size_t series_of(const model *m, uint64_t i) {
  size_t s = 0;
  while (s < m->series_count && strcmp(m->series[s], kernel_of(m, i)) != 0) s++;
  return s;
}

/* `drawn` is the column without which a point has no mark, or ALL. */
static kv_status open_model(kvr_job *job, const char *const *columns, size_t n, int drawn, model *m, kv_error *err) {
  memset(m, 0, sizeof *m);
  m->job = job;
  kv_status st = kvr_table_load(&job->src, "points", columns, n, &m->points, err);
  if (!st) st = kvr_strings(&job->src, "points/kernel", m->points.rows, &m->kernel, &m->width, &m->n, err);
  if (!st) st = kvr_text_attribute(&job->src, "gpu", m->gpu, sizeof m->gpu, err);
  if (!st) st = kvr_text_attribute(&job->src, "status", m->status, sizeof m->status, err);
  for (uint64_t i = 0; !st && i < m->n; i++) {
    if (series_of(m, i) < m->series_count || (drawn != ALL && !isfinite(m->points.value[drawn][i]))) continue;
    if (m->series_count < MOST_SERIES) m->series[m->series_count++] = kernel_of(m, i);
    else m->beyond++;
  }
  return st;
}

/* The programs that the times were made of, each once, where the file tells them. */
static kv_status cover_programs(const model *m, kvr_cover *c, kv_error *err) {
  enum { MOST = 48 };
  kvr_program list[MOST];
  size_t n = 0, width = 0;
  uint64_t rows = 0;
  char *program = NULL;
  if (H5Lexists(m->job->src.file, "points/program", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kvr_strings(&m->job->src, "points/program", m->n, &program, &width, &rows, err);
  for (uint64_t i = 0; !st && i < rows && n < MOST; i++) {
    const kvr_program p = {kernel_of(m, i), program + i * width};
    bool had = false;
    for (size_t k = 0; k < n; k++) had |= !strcmp(list[k].kernel, p.kernel) && !strcmp(list[k].program, p.program);
    if (!had) list[n++] = p;
  }
  if (!st) kvr_cover_programs(c, list, n);
  free(program);
  return st;
}

static void close_model(model *m) {
  kvr_table_close(&m->points);
  free(m->kernel);
}

static void put_names(const model *m) {
  FILE *f = m->job->vars;
  fprintf(f, "array SERIES_NAME[%zu]\n", m->series_count ? m->series_count : 1);
  kvr_put_number(f, "SERIES", (double)m->series_count);
  for (size_t s = 0; s < m->series_count; s++) {
    char name[40];
    (void)snprintf(name, sizeof name, "SERIES_NAME[%zu]", s + 1);
    kvr_put_text(f, name, m->series[s]);
  }
}

/* A block a series, a line a point. */
static kv_status put_points(const model *m, const char *file,
                            void (*line)(const model *m, uint64_t i, FILE *f), kv_error *err) {
  FILE *f;
  kv_status st = kvr_job_open(m->job, file, &f, err);
  if (st) return st;
  for (size_t s = 0; s < m->series_count; s++) {
    for (uint64_t i = 0; i < m->n; i++)
      if (series_of(m, i) == s) {
        line(m, i, f);
        fputc('\n', f);
      }
    fputs("\n\n", f);
  }
  return kvr_job_close(m->job, &f, err);
}

/* A comparison has told both sides' GPU and status. */
static kv_status finish(const model *m, kvr_cover *c, bool compared, kv_error *err) {
  char history[2048] = "";
  kv_status st = kvr_text_attribute(&m->job->src, "history", history, sizeof history, err);
  if (!compared) kvr_cover_row(c, "GPU", "%s", m->gpu);
  if (!compared) kvr_cover_row(c, "Status", "%s", m->status);
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(m->job, c, err);
  return st ? st : kvr_put_footer(m->job, m->gpu, *m->status ? m->status : "status not recorded", err);
}

static double at(const model *m, size_t column, uint64_t i) {
  return m->points.value[column][i];
}

/* ---- step ---- */

enum { S_PREFIX, S_ATTENTION, S_STEP, S_LOW, S_HIGH, S_TOKENS, S_SHARE, S_FLOOR, S_COLUMNS };
static const char *const step_columns[] = {
    "prefix", "attention", "step", "step_low", "step_high", "tokens", "attention_share", "step_at_floor"};

typedef struct parts {
  uint64_t n;
  char *name;
  size_t width;
  double fixed[MOST_PARTS], per_token[MOST_PARTS];
} parts;
static parts of_step; /* the line writer has no context; one report is made at a time */

static kv_status read_parts(const kvr_job *job, parts *p, kv_error *err) {
  static const char *const columns[] = {"fixed", "per_token"};
  kvr_table t;
  memset(p, 0, sizeof *p);
  kv_status st = kvr_table_load(&job->src, "components", columns, 2, &t, err);
  if (st) return st;
  st = kvr_strings(&job->src, "components/name", t.rows, &p->name, &p->width, &p->n, err);
  if (!st && p->n > MOST_PARTS)
    st = kv_fail(err, KV_ERR_INPUT, "%s: more than %d components", job->src.path, (int)MOST_PARTS);
  for (uint64_t i = 0; !st && i < p->n; i++) {
    p->fixed[i] = t.value[0][i];
    p->per_token[i] = t.value[1][i];
  }
  kvr_table_close(&t);
  return st;
}

static void step_line(const model *m, uint64_t i, FILE *f) {
  double top = 0, prefix = at(m, S_PREFIX, i);
  char word[40];
  kvr_put_cell(f, prefix);
  kvr_put_word(f, kvr_tokens(prefix).text);
  for (uint64_t k = 0; k < of_step.n; k++) {
    top += of_step.fixed[k] + of_step.per_token[k] * prefix;
    kvr_put_cell(f, top * 1e3);
  }
  kvr_put_cell(f, at(m, S_STEP, i) * 1e3);
  kvr_put_cell(f, at(m, S_LOW, i) * 1e3);
  kvr_put_cell(f, at(m, S_HIGH, i) * 1e3);
  (void)snprintf(word, sizeof word, "%.3g/s", at(m, S_TOKENS, i));
  kvr_put_word(f, word);
  kvr_put_cell(f, at(m, S_FLOOR, i) * 1e3);
}

/* How many pages the kernels take, evenly filled. */
static size_t step_pages(const model *m) {
  return m->series_count ? (m->series_count + STEP_PANELS - 1) / STEP_PANELS : 1;
}

/* Kernels a page, and their names cut to what a panel has room for. */
static void put_panels(const model *m) {
  FILE *f = m->job->vars;
  const size_t pages = step_pages(m), each = m->series_count ? (m->series_count + pages - 1) / pages : 1;
  kvr_put_number(f, "STEP_EACH", (double)each);
  fprintf(f, "array STEP_NAME[%zu]\n", m->series_count ? m->series_count : 1);
  for (size_t s = 0; s < m->series_count; s++) {
    char name[40], line[300];
    (void)snprintf(name, sizeof name, "STEP_NAME[%zu]", s + 1);
    (void)kvr_wrap(m->series[s], 11, true, each <= 2 ? 360 : 230, 1, line, sizeof line);
    kvr_put_text(f, name, line);
  }
}

static kv_status put_step(const model *m, kvr_cover *c, kv_error *err) {
  FILE *f = m->job->vars;
  uint64_t last = 0;
  size_t longest = 0;
  char beyond[120] = "";
  put_names(m);
  fprintf(f, "array PART_NAME[%u]\n", (unsigned)(of_step.n ? of_step.n : 1));
  kvr_put_number(f, "PARTS", (double)of_step.n);
  for (uint64_t k = 0; k < of_step.n; k++) {
    char name[40];
    (void)snprintf(name, sizeof name, "PART_NAME[%u]", (unsigned)k + 1);
    kvr_put_text(f, name, of_step.name + k * of_step.width);
  }
  for (uint64_t i = 1; i < m->n; i++)
    if (at(m, S_PREFIX, i) > at(m, S_PREFIX, last)) last = i;
  for (uint64_t i = 0; i < m->n; i++) {
    size_t letters = strlen(kvr_tokens(at(m, S_PREFIX, i)).text);
    if (letters > longest) longest = letters;
  }
  kvr_put_number(f, "STEP_LETTERS", (double)longest);
  put_panels(m);
  if (m->n)
    (void)snprintf(c->verdict, sizeof c->verdict,
                   "At %s tokens of context %s takes %.1f %% of the step; at its floor the step would take %s instead of %s.",
                   kvr_count(at(m, S_PREFIX, last)).text, kernel_of(m, last), 100 * at(m, S_SHARE, last),
                   kvr_time(at(m, S_FLOOR, last)).text, kvr_time(at(m, S_STEP, last)).text);
  if (m->beyond)
    (void)snprintf(beyond, sizeof beyond, " %s points are of kernels beyond the first %d.",
                   kvr_count((double)m->beyond).text, (int)MOST_SERIES);
  kvr_put_finding(m->job, "FIND_STEP", "%s%s", m->n ? c->verdict : "This dataset holds no point.", beyond);
  return put_points(m, "step.tsv", step_line, err);
}

kv_status kvr_export_step(kvr_job *job, kv_error *err) {
  enum { PAGES = 1 + (MOST_SERIES + STEP_PANELS - 1) / STEP_PANELS };
  static const kvr_page pages[PAGES] = {{"cover.gp", "summary"},
                                        {"roofline-step.gp", "step"},
                                        {"roofline-step.gp", "step-2"},
                                        {"roofline-step.gp", "step-3"},
                                        {"roofline-step.gp", "step-4"}};
  model m;
  double layers = NAN, accepted = NAN;
  char rest[512] = "", calibration[256] = "";
  kvr_cover *c = calloc(1, sizeof *c);
  job->pages = pages;
  kv_status st =
      c ? open_model(job, step_columns, S_COLUMNS, ALL, &m, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!c) return st;
  job->page_count = 1 + step_pages(&m);
  memset(&of_step, 0, sizeof of_step);
  if (!st) st = read_parts(job, &of_step, err);
  if (!st) st = kvr_number_attribute(&job->src, "layers", &layers, err);
  if (!st) st = kvr_number_attribute(&job->src, "accepted", &accepted, err);
  if (!st) st = kvr_text_attribute(&job->src, "rest_source", rest, sizeof rest, err);
  if (!st) st = put_step(&m, c, err);
  c->kind = "A DECODE STEP  ·  roofline step";
  (void)snprintf(c->title, sizeof c->title, "%.0f layers, %g token%s accepted a step", layers, accepted, accepted == 1 ? "" : "s");
  (void)snprintf(
      c->problem, sizeof c->problem,
      "How much of a decode step is verify attention, and what would a better kernel make of the step?");
  kvr_cover_row(c, "Rest of the step", "%s", rest);
  if (!st) st = cover_programs(&m, c, err);
  if (!st) st = kvr_text_attribute(&job->src, "calibration", calibration, sizeof calibration, err);
  if (*calibration) kvr_cover_row(c, "Calibration", "%s", strcmp(calibration, "none") ? calibration : "none: ceilings and latencies as published");
  kvr_cover_row(c, "Not measured", "attention: no kernel was run, its times are modelled");
  if (!st) st = finish(&m, c, false, err);
  free(of_step.name);
  close_model(&m);
  free(c);
  return st;
}

/* ---- validate ---- */

enum { V_MEASURED, V_LOW, V_HIGH, V_PREDICTED, V_PLOW, V_PHIGH, V_ERROR, V_COLUMNS };
static const char *const validate_columns[] = {
    "measured", "measured_low", "measured_high", "predicted", "predicted_low", "predicted_high", "error"};

static void validate_line(const model *m, uint64_t i, FILE *f) {
  for (size_t c = V_MEASURED; c <= V_PHIGH; c++) kvr_put_cell(f, at(m, c, i) * 1e6);
  kvr_put_cell(f, at(m, V_ERROR, i) * 100);
}

/* What the axes must reach: times in us, residuals in %. */
static void put_reach(const model *m) {
  double low = NAN, high = NAN, worst = 0;
  for (uint64_t i = 0; i < m->n; i++) {
    for (size_t c = V_MEASURED; c <= V_PHIGH; c++) {
      double v = at(m, c, i) * 1e6;
      if (!(v > 0) || !isfinite(v)) continue;
      if (!(low <= v)) low = v;
      if (!(high >= v)) high = v;
    }
    worst = fmax(worst, 100 * fabs(at(m, V_ERROR, i)));
  }
  kvr_put_number(m->job->vars, "VALIDATE_LOW", low);
  kvr_put_number(m->job->vars, "VALIDATE_HIGH", high);
  kvr_put_number(m->job->vars, "VALIDATE_WORST", worst);
}

/* Kernels that no point has a prediction of, by name; returns how many points they have. */
static uint64_t not_predicted(const model *m, char *names, size_t size) {
  uint64_t n = 0;
  size_t at_name = 0;
  names[0] = '\0';
  for (uint64_t i = 0; i < m->n; i++) {
    if (isfinite(at(m, V_PREDICTED, i))) continue;
    n++;
    bool told = false;
    for (uint64_t k = 0; k < m->n && !told; k++)
      told = !strcmp(kernel_of(m, k), kernel_of(m, i)) && (k < i || isfinite(at(m, V_PREDICTED, k)));
    if (!told && at_name + 80 < size)
      at_name += (size_t)snprintf(names + at_name, size - at_name, "%s%.60s", at_name ? ", " : "", kernel_of(m, i));
  }
  return n;
}

/* Adds to the cover's verdict, and finds what the page says. */
static void find_validate(const model *m, const kvr_table *scores, kvr_cover *c) {
  char names[1000], rest[120] = "";
  uint64_t missing = not_predicted(m, names, sizeof names);
  double *const *v = scores->value;
  if (missing) (void)snprintf(rest, sizeof rest, " %s points have no prediction and no mark.", kvr_count((double)missing).text);
  if (m->beyond)
    (void)snprintf(rest + strlen(rest), sizeof rest - strlen(rest), " %s points are of kernels beyond the first %d.",
                   kvr_count((double)m->beyond).text, (int)MOST_SERIES);
  if (missing)
    kvr_cover_row(c, "Not compared", "%s of %s points: no prediction%s%s", kvr_count((double)missing).text,
                  kvr_count((double)m->n).text, *names ? " of " : "", names);
  if (!scores->rows || !(v[0][0] > 0)) {
    kvr_put_finding(m->job, "FIND_VALIDATE", "No point has a prediction.");
    return;
  }
  kvr_put_finding(m->job, "FIND_VALIDATE",
                  "%.0f points compared: mean error %.1f %%, largest %.1f %%, bias %+.1f %%. Bars: 12 %% and 30 %%.%s", v[0][0],
                  100 * v[1][0], 100 * v[2][0], 100 * v[3][0], rest);
  (void)snprintf(c->verdict, sizeof c->verdict,
                 "Predicted times are off by %.1f %% on average and by %.1f %% at most: %.0f points of %zu kernels.", 100 * v[1][0],
                 100 * v[2][0], v[0][0], m->series_count);
}

/* ---- gains of fixes ---- */

enum { G_REALISED, G_LOW, G_HIGH, G_PREDICTED, G_COLUMNS };
static const char *const gains_columns[] = {"realised", "realised_low", "realised_high", "predicted"};

typedef struct gains {
  kvr_table t;
  char *fix;
  size_t width;
  uint64_t n;
  uint64_t first[MOST_FIXES]; /* a pair of each fix drawn */
  size_t fixes;
} gains;

typedef struct gain_error {
  double pairs, sum, worst; /* |predicted / realised - 1| */
} gain_error;

static const char *fix_of(const gains *g, uint64_t i) {
  return g->fix + i * g->width;
}
static double gain_off(const gains *g, uint64_t i) {
  return g->t.value[G_PREDICTED][i] / g->t.value[G_REALISED][i] - 1;
}

static kv_status read_gains(const kvr_job *job, gains *g, kv_error *err) {
  kv_status st = kvr_table_load(&job->src, "gains", gains_columns, G_COLUMNS, &g->t, err);
  if (!st) st = kvr_strings(&job->src, "gains/fix", g->t.rows, &g->fix, &g->width, &g->n, err);
  for (uint64_t i = 0; !st && i < g->n; i++) {
    size_t k = 0;
    while (k < g->fixes && strcmp(fix_of(g, g->first[k]), fix_of(g, i)) != 0) k++;
    if (k == g->fixes && k < MOST_FIXES && isfinite(gain_off(g, i))) g->first[g->fixes++] = i;
  }
  return st;
}

static void close_gains(gains *g) {
  kvr_table_close(&g->t);
  free(g->fix);
}

static gain_error put_fix(const gains *g, size_t k, FILE *f) {
  gain_error e = {0, 0, 0};
  for (uint64_t i = 0; i < g->n; i++) {
    double off = gain_off(g, i);
    if (!isfinite(off) || strcmp(fix_of(g, i), fix_of(g, g->first[k])) != 0) continue;
    for (size_t c = 0; c < G_COLUMNS; c++) kvr_put_cell(f, g->t.value[c][i]);
    kvr_put_cell(f, 100 * off);
    fputc('\n', f);
    e.pairs++;
    e.sum += fabs(off);
    e.worst = fmax(e.worst, fabs(off));
  }
  fputs("\n\n", f);
  return e;
}

/* The fixes with what their key says, and what the axes must reach. */
static gain_error put_fixes(const kvr_job *job, const gains *g, FILE *f) {
  gain_error all = {0, 0, 0};
  double low = NAN, high = NAN;
  fprintf(job->vars, "array FIX_NAME[%zu]\n", g->fixes ? g->fixes : 1);
  for (size_t k = 0; k < g->fixes; k++) {
    char name[40], text[200];
    gain_error e = put_fix(g, k, f);
    (void)snprintf(name, sizeof name, "FIX_NAME[%zu]", k + 1);
    (void)snprintf(text, sizeof text, "%.60s: %.0f pairs, mean error %.1f %%, largest %.1f %%", fix_of(g, g->first[k]), e.pairs,
                   100 * e.sum / e.pairs, 100 * e.worst);
    kvr_put_text(job->vars, name, text);
    all = (gain_error){all.pairs + e.pairs, all.sum + e.sum, fmax(all.worst, e.worst)};
  }
  for (uint64_t i = 0; i < g->n; i++)
    for (size_t c = 0; c < G_COLUMNS; c++) {
      double v = g->t.value[c][i];
      if (!isfinite(gain_off(g, i)) || !(v > 0) || !isfinite(v)) continue;
      low = low <= v ? low : v;
      high = high >= v ? high : v;
    }
  kvr_put_number(job->vars, "FIXES", (double)g->fixes);
  kvr_put_number(job->vars, "GAINS_LOW", low);
  kvr_put_number(job->vars, "GAINS_HIGH", high);
  kvr_put_number(job->vars, "GAINS_WORST", 100 * all.worst);
  return all;
}

/* The page of a file that has them; older files do not. */
static kv_status put_gains(const kvr_job *job, kvr_cover *c, kv_error *err) {
  gains g = {0};
  FILE *f = NULL;
  kv_status st = read_gains(job, &g, err);
  if (!st) st = kvr_job_open(job, "gains.tsv", &f, err);
  if (!st) {
    gain_error all = put_fixes(job, &g, f);
    if (all.pairs > 0) {
      char left[80] = "";
      if (all.pairs < (double)g.n) (void)snprintf(left, sizeof left, " %.0f more have no prediction.", (double)g.n - all.pairs);
      kvr_put_finding(job, "FIND_FIXES",
                      "Gain: time before over time after, of two kernels that differ by one fix. %.0f pairs measured and predicted: "
                      "mean error %.1f %%, largest %.1f %%.%s",
                      all.pairs, 100 * all.sum / all.pairs, 100 * all.worst, left);
      (void)snprintf(c->verdict + strlen(c->verdict), sizeof c->verdict - strlen(c->verdict),
                     " Predicted gains of a fix are off by %.1f %% on average and by %.1f %% at most: %.0f pairs.",
                     100 * all.sum / all.pairs, 100 * all.worst, all.pairs);
    }
    else kvr_put_finding(job, "FIND_FIXES", "%s", "");
    st = kvr_job_close(job, &f, err);
  }
  close_gains(&g);
  return st;
}

kv_status kvr_export_validate(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {
      {"cover.gp", "summary"}, {"roofline-validate.gp", "validate"}, {"roofline-fixes.gp", "gains"}};
  static const char *const columns[] = {"points", "mape", "worst", "bias"};
  model m;
  kvr_table scores = {0};
  char calibration[512] = "", measured[8192] = "";
  const bool has_gains = H5Lexists(job->src.file, "gains", H5P_DEFAULT) > 0;
  kvr_cover *c = calloc(1, sizeof *c);
  job->pages = pages;
  job->page_count = has_gains ? 3 : 2;
  kv_status st = c ? open_model(job, validate_columns, V_COLUMNS, V_PREDICTED, &m, err)
                   : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!c) return st;
  if (!st) st = kvr_table_load(&job->src, "scores", columns, 4, &scores, err);
  if (!st) st = kvr_text_attribute(&job->src, "calibration", calibration, sizeof calibration, err);
  if (!st) st = kvr_text_attribute(&job->src, "measured", measured, sizeof measured, err);
  c->kind = "THE MODEL AGAINST MEASUREMENT  ·  roofline validate";
  (void)snprintf(c->title, sizeof c->title, "Predicted against measured");
  (void)snprintf(
      c->problem, sizeof c->problem,
      "How far can the model's times be trusted? No value of it was fitted to an attention kernel.");
  if (!st) st = cover_programs(&m, c, err);
  kvr_cover_row(c, "Calibration", "%s", calibration);
  if (*measured) kvr_cover_row(c, "Measured points", "%s", measured);
  if (!st) {
    put_names(&m);
    put_reach(&m);
    find_validate(&m, &scores, c);
    st = put_points(&m, "validate.tsv", validate_line, err);
  }
  if (!st && has_gains) st = put_gains(job, c, err);
  if (!st) st = finish(&m, c, false, err);
  kvr_table_close(&scores);
  close_model(&m);
  free(c);
  return st;
}

/* ---- compare ---- */

enum { C_PREFIX, C_RATIO, C_LOW, C_HIGH, C_VERDICT, C_COLUMNS };
static const char *const compare_columns[] = {"prefix", "ratio", "ratio_low", "ratio_high", "verdict"};

static void compare_line(const model *m, uint64_t i, FILE *f) {
  for (size_t c = C_PREFIX; c <= C_HIGH; c++) kvr_put_cell(f, at(m, c, i));
}

/* The ends of the prefix axis. */
static void put_prefixes(const model *m) {
  double low = NAN, high = NAN;
  for (uint64_t i = 0; i < m->n; i++) {
    double v = at(m, C_PREFIX, i);
    if (!(v > 0)) continue;
    low = low <= v ? low : v;
    high = high >= v ? high : v;
  }
  kvr_put_number(m->job->vars, "PREFIX_LOW", low);
  kvr_put_number(m->job->vars, "PREFIX_HIGH", high);
}

kv_status kvr_export_compare(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"}, {"roofline-compare.gp", "compare"}};
  model m;
  unsigned slower = 0, faster = 0, apart = 0;
  double mean = NAN;
  char of_two[60] = "", before[256] = "", gpu_before[256] = "";
  kvr_cover *c = calloc(1, sizeof *c);
  job->pages = pages;
  job->page_count = 2;
  kv_status st =
      c ? open_model(job, compare_columns, C_COLUMNS, ALL, &m, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!c) return st;
  if (!st) st = kvr_text_attribute(&job->src, "status_before", before, sizeof before, err);
  if (!st) st = kvr_text_attribute(&job->src, "status_after", m.status, sizeof m.status, err);
  if (!st) st = kvr_text_attribute(&job->src, "gpu_after", m.gpu, sizeof m.gpu, err);
  if (!st) st = kvr_text_attribute(&job->src, "gpu_before", gpu_before, sizeof gpu_before, err);
  if (!st) st = kvr_number_attribute(&job->src, "mean_ratio", &mean, err);
  for (uint64_t i = 0; !st && i < m.n; i++) {
    slower += at(&m, C_VERDICT, i) > 0;
    faster += at(&m, C_VERDICT, i) < 0;
    apart += isnan(at(&m, C_VERDICT, i)) != 0;
  }
  if (apart) (void)snprintf(of_two, sizeof of_two, ", %u of two programs and not counted", apart);
  if (!st) {
    put_names(&m);
    if (m.n)
      (void)snprintf(c->verdict, sizeof c->verdict, "%u faster, %u slower, %u undecided%s; geometric mean of after / before %.3f.",
                     faster, slower, (unsigned)m.n - faster - slower - apart, of_two, mean);
    kvr_put_finding(job, "FIND_COMPARE", "%s", c->verdict);
    put_prefixes(&m);
    st = put_points(&m, "compare.tsv", compare_line, err);
  }
  c->kind = "BEFORE AND AFTER  ·  roofline compare";
  (void)snprintf(c->title, sizeof c->title, "After over before, point by point");
  (void)snprintf(c->problem, sizeof c->problem, "Did anything get slower?");
  kvr_cover_row(c, "Before", "%s (%s)", gpu_before, before);
  kvr_cover_row(c, "After", "%s (%s)", m.gpu, m.status);
  if (!st) st = finish(&m, c, true, err);
  close_model(&m);
  free(c);
  return st;
}
