/* kvr_whatif.c - a kvwhatif-1 dataset (policies side by side) as tables for gnuplot.
 *
 *   policies.tsv  a row a policy: row, name, mean run, mean run of the baseline, then text: lost, dropped and computed
 *                 again, copied, net, verdict
 *   costs.tsv     a block a GPU, a row a policy: cost (s), saved (s), class (1 pays, 2 does not, 3 bound, 4 gains less than an
 *                 effect); what a log axis cannot show stands on its edge
 *   cost-names.tsv  a block a GPU, a row a group of neighbours: where its names stand (share of the panel's width and height),
 *                 names, 1 where they end there
 *   over.tsv      a block a policy drawn: step, mean run, waste (% of the pool)
 *   lengths.tsv   a block a policy drawn: run length, share of rows in runs up to it (%)
 *   strips.tsv    row, name: the policies that place rows
 *   strips.bin    a byte a cell, a row a policy: 0 free or waste, 1 held by no running request, 2 other running rows, 3
 *                 the longest running row
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { MOST_POLICIES = 20, MOST_DRAWN = 6, MOST_GPUS = 4 };
#define POINTS 800u /* a policy's points over time */

enum {
  P_POOL,
  P_FITS,
  P_RUN,
  P_LOST,
  P_WASTE,
  P_WASTE_MOST,
  P_EVICTED,
  P_REFILLED,
  P_MOVED,
  P_COPIED,
  P_DECODE,
  P_COLUMNS
};
static const char *const policy_columns[] = {"pool",       "fits",    "mean_run", "capacity_lost", "waste_mean",
                                             "waste_most", "evicted", "refilled", "moved",         "copied",
                                             "decode_steps"};
enum { C_POLICY, C_GPU, C_READ, C_MOVE, C_RECOMPUTE, C_SAVED, C_NET, C_EVEN, C_COLUMNS };
static const char *const cost_columns[] = {"policy", "gpu", "read", "move", "recompute", "saved", "net", "break_even"};
enum { S_POLICY, S_STEP, S_RUN, S_WASTE, S_COLUMNS };
static const char *const series_columns[] = {"policy", "step", "mean_run", "waste"};
enum { L_POLICY, L_LENGTH, L_RUNS, L_COLUMNS };
static const char *const length_columns[] = {"policy", "length", "runs"};
enum { M_POLICY, M_CELL, M_ROW, M_LIVE, M_IDLE, M_COLUMNS };
static const char *const map_columns[] = {"policy", "cell", "row", "live", "idle"};
enum { K_POLICY, K_GPU, K_STEP, K_COLUMNS };
static const char *const kernel_columns[] = {"policy", "gpu", "step"};

typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

typedef struct whatif {
  const kvr_job *job;
  char trace[256], sha[80], origin[512], allocator[64], verdict[2048];
  double pool, row_bytes, layers, effect, heads, queries;
  kvr_table policies, costs;
  words name, gpu, verdicts;
  uint64_t n, baseline;        /* baseline: UINT64_MAX where there is none */
  uint64_t drawn[MOST_DRAWN];  /* policies that get a curve, baseline first */
  size_t curves;
} whatif;

static const char *word_at(const words *w, uint64_t i) {
  return i < w->n ? w->text + i * w->width : "";
}
static double policy(const whatif *w, size_t c, uint64_t i) {
  return w->policies.value[c][i];
}
static double cost(const whatif *w, size_t c, uint64_t i) {
  return w->costs.value[c][i];
}

static kv_status read_whatif(whatif *w, kv_error *err) {
  const kvr_source *src = &w->job->src;
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"trace", w->trace, sizeof w->trace},
               {"trace_sha256", w->sha, sizeof w->sha},
               {"trace_origin", w->origin, sizeof w->origin},
               {"allocator", w->allocator, sizeof w->allocator},
               {"verdict", w->verdict, sizeof w->verdict}};
  const struct {
    const char *name;
    double *value;
  } numbers[] = {{"pool_size", &w->pool}, {"row_bytes", &w->row_bytes}, {"layers", &w->layers},
                 {"effect", &w->effect},  {"heads", &w->heads},         {"queries", &w->queries}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(src, texts[i].name, texts[i].text, texts[i].size, err);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kvr_number_attribute(src, numbers[i].name, numbers[i].value, err);
  if (!st) st = kvr_table_load(src, "policies", policy_columns, P_COLUMNS, &w->policies, err);
  if (!st) st = kvr_table_load(src, "costs", cost_columns, C_COLUMNS, &w->costs, err);
  const struct {
    const char *name;
    words *to;
    uint64_t expect;
  } columns[] = {{"policies/name", &w->name, w->policies.rows},
                 {"gpus/name", &w->gpu, UINT64_MAX},
                 {"costs/verdict", &w->verdicts, w->costs.rows}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns && !st; i++)
    st = kvr_strings(src, columns[i].name, columns[i].expect, &columns[i].to->text, &columns[i].to->width,
                     &columns[i].to->n, err);
  return st;
}

static kv_status check_rows(const whatif *w, const kvr_table *t, size_t column, uint64_t of, kv_error *err) {
  for (uint64_t i = 0; i < t->rows; i++)
    if (!(t->value[column][i] >= 0 && t->value[column][i] < (double)of))
      return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s/%s' row %llu: %g names none of the %llu", w->job->src.path,
                     t->group, t->name[column], (unsigned long long)i, t->value[column][i], (unsigned long long)of);
  return KV_OK;
}

/* The row of /costs of a policy on the first GPU, or UINT64_MAX. */
static uint64_t cost_of(const whatif *w, uint64_t i) {
  for (uint64_t c = 0; c < w->costs.rows; c++)
    if (cost(w, C_POLICY, c) == (double)i && cost(w, C_GPU, c) == 0) return c;
  return UINT64_MAX;
}

static bool is_drawn(const whatif *w, uint64_t i) {
  for (size_t k = 0; k < w->curves; k++)
    if (w->drawn[k] == i) return true;
  return false;
}

/* The baseline, then those with the longest mean run: more curves cannot be told apart. */
static void choose_curves(whatif *w) {
  w->baseline = UINT64_MAX;
  for (uint64_t i = 0; i < w->n; i++) {
    uint64_t c = cost_of(w, i);
    if (c != UINT64_MAX && !strcmp(word_at(&w->verdicts, c), "baseline")) w->baseline = i;
  }
  if (w->baseline != UINT64_MAX) w->drawn[w->curves++] = w->baseline;
  while (w->curves < MOST_DRAWN) {
    uint64_t best = UINT64_MAX;
    for (uint64_t i = 0; i < w->n; i++)
      if (!is_drawn(w, i) && (best == UINT64_MAX || policy(w, P_RUN, i) > policy(w, P_RUN, best))) best = i;
    if (best == UINT64_MAX) return;
    w->drawn[w->curves++] = best;
  }
}

/* ---- policies side by side ---- */

static void policy_row(const whatif *w, FILE *f, uint64_t i) {
  uint64_t c = cost_of(w, i);
  char text[120];
  kvr_put_cell(f, (double)i + 1);
  kvr_put_word(f, word_at(&w->name, i));
  kvr_put_cell(f, policy(w, P_RUN, i) > 0 ? policy(w, P_RUN, i) : NAN);
  kvr_put_cell(f, w->baseline == UINT64_MAX ? NAN : policy(w, P_RUN, w->baseline));
  (void)snprintf(text, sizeof text, "%.2f %%", 100 * policy(w, P_LOST, i));
  kvr_put_word(f, text);
  (void)snprintf(text, sizeof text, "%s", kvr_amount(policy(w, P_REFILLED, i)).text);
  kvr_put_word(f, text);
  (void)snprintf(text, sizeof text, "%s", kvr_amount(policy(w, P_MOVED, i) + policy(w, P_COPIED, i)).text);
  kvr_put_word(f, text);
  if (c == UINT64_MAX) text[0] = '\0';
  else if (isnan(cost(w, C_NET, c))) (void)snprintf(text, sizeof text, "-");
  else (void)snprintf(text, sizeof text, "%+.4f s", cost(w, C_NET, c));
  kvr_put_word(f, text);
  kvr_put_word(f, c == UINT64_MAX ? "no cost known" : word_at(&w->verdicts, c));
  fputc('\n', f);
}

static kv_status put_policies(const whatif *w, kv_error *err) {
  FILE *f;
  double most = 1;
  uint64_t best = UINT64_MAX;
  kv_status st = kvr_job_open(w->job, "policies.tsv", &f, err);
  if (st) return st;
  for (uint64_t i = 0; i < w->n; i++) {
    uint64_t c = cost_of(w, i);
    policy_row(w, f, i);
    most = fmax(most, policy(w, P_RUN, i));
    if (c != UINT64_MAX && strcmp(word_at(&w->verdicts, c), "bound") != 0 && cost(w, C_NET, c) > 0 &&
        (best == UINT64_MAX || cost(w, C_NET, c) > cost(w, C_NET, best)))
      best = c;
  }
  kvr_put_number(w->job->vars, "POLICIES", (double)w->n);
  kvr_put_number(w->job->vars, "RUN_MOST", most);
  if (best == UINT64_MAX)
    kvr_put_finding(w->job, "FIND_POLICIES", "No policy's savings exceed what it costs%s%s.",
                    w->gpu.n ? " on " : "", word_at(&w->gpu, 0));
  else
    kvr_put_finding(w->job, "FIND_POLICIES",
                    "Most gained: %s, %.4f s of %.3f s that reading the rows takes (%.2f %%), on %s. Modelled.",
                    word_at(&w->name, (uint64_t)cost(w, C_POLICY, best)), cost(w, C_NET, best), cost(w, C_READ, best) + cost(w, C_SAVED, best),
                    100 * cost(w, C_NET, best) / (cost(w, C_READ, best) + cost(w, C_SAVED, best)), word_at(&w->gpu, 0));
  return kvr_job_close(w->job, &f, err);
}

/* ---- cost against benefit ---- */

typedef struct edges {
  double low, high;
} edges;

static void widen(edges *e, double v) {
  if (!(v > 0)) return;
  if (!(e->low <= v)) e->low = v;
  if (!(e->high >= v)) e->high = v;
}

static double paid(const whatif *w, uint64_t c) {
  return cost(w, C_MOVE, c) + cost(w, C_RECOMPUTE, c);
}

static double cost_class(const whatif *w, uint64_t c) {
  const char *verdict = word_at(&w->verdicts, c);
  return !strcmp(verdict, "bound") ? 3 : !strcmp(verdict, "do it") ? 1 : cost(w, C_NET, c) > 0 ? 4 : 2;
}

static bool on_plot(const whatif *w, uint64_t c, uint64_t g) {
  return cost(w, C_GPU, c) == (double)g && (uint64_t)cost(w, C_POLICY, c) != w->baseline && !isnan(cost(w, C_NET, c));
}

/* Where a row of /costs is drawn; what a log axis cannot show stands on its edge. */
static double x_of(const whatif *w, uint64_t c, const edges *e) {
  return fmax(paid(w, c), e->low / 3);
}
static double y_of(const whatif *w, uint64_t c, const edges *e) {
  return fmax(cost(w, C_SAVED, c), e->low / 3);
}

static bool close_by(const whatif *w, uint64_t a, uint64_t b, const edges *e) {
  double tall = log10(e->high / e->low) + 2;
  return cost(w, C_GPU, a) == cost(w, C_GPU, b) && (cost_class(w, a) == 3) == (cost_class(w, b) == 3) &&
         fabs(log10(y_of(w, a, e) / y_of(w, b, e))) < tall / 28 &&
         fabs(log10(x_of(w, a, e) / x_of(w, b, e))) < tall / 8 * fmax(1, (double)w->gpu.n / 2);
}

/* The first of a group of neighbouring points carries the names of all. */
static bool leads(const whatif *w, uint64_t c, uint64_t g, const edges *e) {
  for (uint64_t o = 0; o < c; o++)
    if (on_plot(w, o, g) && close_by(w, o, c, e) && leads(w, o, g, e)) return false;
  return true;
}

static void name_group(const whatif *w, uint64_t c, uint64_t g, const edges *e, char *text, size_t size) {
  size_t at = 0, n = 0, most = w->gpu.n > 2 ? 1 : w->gpu.n > 1 ? 2 : 4;
  text[0] = '\0';
  for (uint64_t o = c; o < w->costs.rows; o++)
    if (on_plot(w, o, g) && close_by(w, c, o, e) && n++ < most && at + 50 < size)
      at += (size_t)snprintf(text + at, size - at, "%s%.40s", at ? ", " : "", word_at(&w->name, (uint64_t)cost(w, C_POLICY, o)));
  if (n > most) (void)snprintf(text + at, size - at, w->gpu.n > 2 ? " +%zu" : " and %zu more", n - most);
}

/* ---- where the names stand: inside the panel, on no mark and on no other name ---- */

enum { MOST_BOXES = 160 };
typedef struct box {
  double x0, x1, y0, y1; /* pt from the panel's lower left */
} box;
typedef struct panel {
  double low, decades, wide, tall; /* both axes begin at low */
  box taken[MOST_BOXES];
  size_t n;
} panel;

static void take(panel *p, box b) {
  if (p->n < MOST_BOXES) p->taken[p->n++] = b;
}

/* `line`: the line of break-even is no place either. */
static bool is_free(const panel *p, const box *b, bool line) {
  if (b->x0 < 0 || b->x1 > p->wide || b->y0 < 0 || b->y1 > p->tall) return false;
  if (line && b->x0 / p->wide < b->y1 / p->tall && b->x1 / p->wide > b->y0 / p->tall) return false;
  for (size_t i = 0; i < p->n; i++) {
    const box *t = &p->taken[i];
    if (b->x0 < t->x1 && b->x1 > t->x0 && b->y0 < t->y1 && b->y1 > t->y0) return false;
  }
  return true;
}

static double point_of(const panel *p, double v, double size) {
  return log10(v / p->low) / p->decades * size;
}

static panel panel_of(uint64_t gpus, const edges *e) {
  const double high = pow(10, ceil(log10(e->high * 6) - 1e-9)), share = (0.862 - 0.04 * (double)(gpus - 1)) / (double)gpus;
  panel p = {.low = e->low / 5, .decades = log10(high / (e->low / 5)), .wide = share * KVR_PAGE_WIDTH, .tall = 0.635 * KVR_PAGE_HEIGHT};
  const double y = (gpus > 2 ? 0.56 : 0.78) * p.tall;
  take(&p, (box){0.99 * p.wide - 66, p.wide, y - 8, y + 8}); /* "break-even" */
  return p;
}

/* Right of the group, left of it, amid it, then the same further up and down; off the line where that is near. *left: the names end
 * at *x. */
static void place_names(panel *p, const char *names, double from, double to, double y, double *x, double *at, bool *left) {
  enum { PLACES = 3, NEAR = 5 * PLACES, FAR = 17 * PLACES };
  const double wide = kvr_width(names, 9, false) + 2, half = 6, away = 7, first = point_of(p, from, p->wide),
               last = point_of(p, to, p->wide);
  for (int t = 0; t < NEAR + FAR; t++) {
    const int k = t < NEAR ? t : t - NEAR, step = k / PLACES;
    double shift = (double)((step + 1) / 2) * 6.5 * (step % 2 ? 1 : -1);
    *left = k % PLACES == 1;
    *x = k % PLACES == 0 ? last + away : *left ? first - away : fmax(2, fmin((first + last - wide) / 2, p->wide - wide - 2));
    *at = point_of(p, y, p->tall) + shift;
    const box b = {*left ? *x - wide : *x, *left ? *x : *x + wide, *at - half, *at + half};
    if (!is_free(p, &b, t < NEAR)) continue;
    take(p, b);
    return;
  }
  *left = true; /* nowhere: at the panel's edge, over whatever is there */
  *x = p->wide;
  *at = point_of(p, y, p->tall);
}

/* The group that row c leads: its names and where they stand. */
static void put_group(const whatif *w, FILE *f, uint64_t c, uint64_t g, const edges *e, panel *p) {
  char names[300];
  double from = x_of(w, c, e), to = from, x, y;
  bool left;
  name_group(w, c, g, e, names, sizeof names);
  for (uint64_t o = c; o < w->costs.rows; o++) {
    if (!on_plot(w, o, g) || !close_by(w, c, o, e)) continue;
    from = fmin(from, x_of(w, o, e));
    to = fmax(to, x_of(w, o, e));
  }
  place_names(p, names, from, to, y_of(w, c, e), &x, &y, &left);
  kvr_put_cell(f, x / p->wide);
  kvr_put_cell(f, y / p->tall);
  kvr_put_word(f, names);
  kvr_put_cell(f, left);
  fputc('\n', f);
}

/* A block of names a GPU: share of the panel's width and height, names, 1 where they end there. */
static void put_cost_names(const whatif *w, FILE *f, uint64_t gpus, uint64_t g, const edges *e) {
  panel p = panel_of(gpus, e);
  bool any = false;
  for (uint64_t c = 0; c < w->costs.rows; c++) {
    if (!on_plot(w, c, g)) continue;
    double x = point_of(&p, x_of(w, c, e), p.wide), y = point_of(&p, y_of(w, c, e), p.tall);
    take(&p, (box){x - 4.5, x + 4.5, y - 4.5, y + 4.5});
  }
  for (uint64_t c = 0; c < w->costs.rows; c++) {
    if (!on_plot(w, c, g) || !leads(w, c, g, e)) continue;
    put_group(w, f, c, g, e, &p);
    any = true;
  }
  if (!any) fputs("NaN\tNaN\t\tNaN\n", f);
  fputs("\n\n", f);
}

static void cost_row(const whatif *w, FILE *f, uint64_t c, const edges *e) {
  kvr_put_cell(f, x_of(w, c, e));
  kvr_put_cell(f, y_of(w, c, e));
  kvr_put_cell(f, cost_class(w, c));
  fputc('\n', f);
}

static kv_status put_costs(const whatif *w, kv_error *err) {
  FILE *f, *names = NULL, *vars = w->job->vars;
  edges e = {NAN, NAN};
  uint64_t pays = 0, less = 0, rows = 0, gpus = w->gpu.n < MOST_GPUS ? w->gpu.n : MOST_GPUS;
  kv_status st = kvr_job_open(w->job, "costs.tsv", &f, err);
  if (!st) st = kvr_job_open(w->job, "cost-names.tsv", &names, err);
  if (st) goto done;
  for (uint64_t c = 0; c < w->costs.rows; c++) {
    widen(&e, paid(w, c));
    widen(&e, cost(w, C_SAVED, c));
  }
  if (!isfinite(e.low)) e = (edges){1e-3, 1};
  e.low = pow(10, floor(log10(e.low) + 1e-9));
  fprintf(vars, "array GPU_NAME[%llu]\n", (unsigned long long)(gpus ? gpus : 1));
  kvr_put_text(vars, "GPU_NAME[1]", "");
  for (uint64_t g = 0; g < gpus; g++) {
    char name[40], line[256];
    (void)snprintf(name, sizeof name, "GPU_NAME[%llu]", (unsigned long long)g + 1);
    (void)kvr_wrap(word_at(&w->gpu, g), 11, true, 720 / (double)gpus - 30, 1, line, sizeof line);
    kvr_put_text(vars, name, line);
    for (uint64_t c = 0; c < w->costs.rows; c++) {
      if (!on_plot(w, c, g)) continue;
      cost_row(w, f, c, &e);
      pays += g == 0 && cost_class(w, c) == 1;
      less += g == 0 && cost_class(w, c) == 4;
      rows += g == 0 && cost_class(w, c) != 3;
    }
    fputs("\n\n", f);
    put_cost_names(w, names, gpus, g, &e);
  }
  kvr_put_number(vars, "GPUS", (double)gpus);
  kvr_put_number(vars, "COST_ROWS", (double)rows);
  kvr_put_number(vars, "EFFECT", w->effect);
  kvr_put_number(vars, "COST_LOW", e.low);
  kvr_put_number(vars, "COST_HIGH", e.high);
  kvr_put_finding(w->job, "FIND_COSTS",
                  "%s of %s policies have paid for themselves by the end of this trace (%s decode steps)%s%s, by %g %% of the reading "
                  "time or more; above the line by less, which is no effect: %s. What costs nothing or saves nothing "
                  "stands on the edge.",
                  kvr_count((double)pays).text, kvr_count((double)rows).text,
                  kvr_count(w->n ? policy(w, P_DECODE, 0) : NAN).text, w->gpu.n ? " on " : "", word_at(&w->gpu, 0),
                  100 * w->effect, kvr_count((double)less).text);
done:
  if (names) {
    kv_status closed = kvr_job_close(w->job, &names, st ? NULL : err);
    if (!st) st = closed;
  }
  kv_status closed = kvr_job_close(w->job, &f, st ? NULL : err);
  return st ? st : closed;
}

/* ---- over time, run lengths ---- */

static void put_curve(const whatif *w, FILE *f, const kvr_table *t, uint64_t of, double *waste) {
  uint64_t rows = 0, k = 0;
  for (uint64_t i = 0; i < t->rows; i++) rows += t->value[S_POLICY][i] == (double)of;
  uint64_t stride = rows > POINTS ? (rows + POINTS - 1) / POINTS : 1;
  for (uint64_t i = 0; i < t->rows; i++) {
    if (t->value[S_POLICY][i] != (double)of || k++ % stride) continue;
    double run = t->value[S_RUN][i];
    kvr_put_cell(f, t->value[S_STEP][i]);
    kvr_put_cell(f, run > 0 ? run : NAN);
    kvr_put_cell(f, 100 * t->value[S_WASTE][i] / w->pool);
    fputc('\n', f);
    *waste = fmax(*waste, 100 * t->value[S_WASTE][i] / w->pool);
  }
  if (rows == 0) fputs("NaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
}

static kv_status put_series(const whatif *w, kv_error *err) {
  kvr_table t = {0};
  FILE *f = NULL;
  double waste = 0;
  uint64_t most = 0;
  kv_status st = kvr_table_load(&w->job->src, "series", series_columns, S_COLUMNS, &t, err);
  if (!st) st = kvr_job_open(w->job, "over.tsv", &f, err);
  if (!st) {
    for (size_t k = 0; k < w->curves; k++) put_curve(w, f, &t, w->drawn[k], &waste);
    for (uint64_t i = 1; i < w->n; i++)
      if (policy(w, P_LOST, i) > policy(w, P_LOST, most)) most = i;
    kvr_put_number(w->job->vars, "SAMPLES", (double)t.rows);
    kvr_put_number(w->job->vars, "WASTE_MOST", waste);
    if (w->n)
      kvr_put_finding(w->job, "FIND_SERIES",
                      "Most capacity lost: %s, %.2f %% of the pool on the mean, %s slots at most taken without a token in "
                      "them. Drawn: %s.",
                      word_at(&w->name, most), 100 * policy(w, P_LOST, most), kvr_count(policy(w, P_WASTE_MOST, most)).text,
                      w->curves < w->n ? "the baseline and the policies with the longest runs" : "every policy");
    else kvr_put_finding(w->job, "FIND_SERIES", "No policy.");
    st = kvr_job_close(w->job, &f, err);
  }
  kvr_table_close(&t);
  return st;
}

static double put_lengths_of(FILE *f, const kvr_table *t, uint64_t of, double *longest) {
  double rows = 0, sum = 0, short_share = 0;
  for (uint64_t i = 0; i < t->rows; i++)
    if (t->value[L_POLICY][i] == (double)of) rows += t->value[L_LENGTH][i] * t->value[L_RUNS][i];
  for (uint64_t i = 0; i < t->rows; i++) {
    if (t->value[L_POLICY][i] != (double)of) continue;
    sum += t->value[L_LENGTH][i] * t->value[L_RUNS][i];
    kvr_put_cell(f, t->value[L_LENGTH][i]);
    kvr_put_cell(f, rows > 0 ? 100 * sum / rows : NAN);
    fputc('\n', f);
    *longest = fmax(*longest, t->value[L_LENGTH][i]);
    if (t->value[L_LENGTH][i] <= 64) short_share = 100 * sum / rows;
  }
  if (!(rows > 0)) fputs("NaN\tNaN\n", f);
  fputs("\n\n", f);
  return short_share;
}

static kv_status put_lengths(const whatif *w, kv_error *err) {
  kvr_table t = {0};
  FILE *f = NULL, *vars = w->job->vars;
  double longest = 1, first = 0;
  kv_status st = kvr_table_load(&w->job->src, "run_lengths", length_columns, L_COLUMNS, &t, err);
  if (!st) st = kvr_job_open(w->job, "lengths.tsv", &f, err);
  if (!st) {
    fprintf(vars, "array CURVE_NAME[%zu]\n", w->curves ? w->curves : 1);
    for (size_t k = 0; k < w->curves; k++) {
      char name[40];
      double share = put_lengths_of(f, &t, w->drawn[k], &longest);
      if (k == 0) first = share;
      (void)snprintf(name, sizeof name, "CURVE_NAME[%zu]", k + 1);
      kvr_put_text(vars, name, word_at(&w->name, w->drawn[k]));
    }
    kvr_put_number(vars, "CURVES", (double)w->curves);
    kvr_put_number(vars, "LENGTH_ROWS", (double)t.rows);
    kvr_put_number(vars, "LENGTH_LONGEST", longest);
    if (w->curves)
      kvr_put_finding(w->job, "FIND_LENGTHS",
                      "Over the detailed samples, %.1f %% of the rows of %s lie in runs of 64 rows or fewer. Lengths above 64 "
                      "are the tops of buckets of 3 %%.",
                      first, word_at(&w->name, w->drawn[0]));
    else kvr_put_finding(w->job, "FIND_LENGTHS", "No policy.");
    st = kvr_job_close(w->job, &f, err);
  }
  kvr_table_close(&t);
  return st;
}

/* ---- the pool under each policy ---- */

static int strip_class(const kvr_table *t, uint64_t i) {
  double row = t->value[M_ROW][i], live = t->value[M_LIVE][i], idle = t->value[M_IDLE][i];
  if (!(row + live + idle > 0)) return 0;
  return row >= live && row >= idle ? 3 : live >= idle ? 2 : 1;
}

/* A bound that places nothing has no strip. */
static double put_strip_rows(const whatif *w, const kvr_table *t, uint64_t cells, FILE *f, FILE *names) {
  double strips = 0;
  for (uint64_t p = 0; p < w->n; p++) {
    bool any = false;
    for (uint64_t i = p * cells; i < (p + 1) * cells; i++) any |= strip_class(t, i) > 0;
    if (!any) continue;
    for (uint64_t i = p * cells; i < (p + 1) * cells; i++) fputc(strip_class(t, i), f);
    kvr_put_cell(names, ++strips);
    kvr_put_word(names, word_at(&w->name, p));
    fputc('\n', names);
  }
  if (strips == 0) fputs("NaN\t\n", names);
  return strips;
}

static kv_status put_strips(const whatif *w, kv_error *err) {
  kvr_table t = {0};
  FILE *f = NULL, *names = NULL;
  double strips = 0;
  kv_status st = kvr_table_load(&w->job->src, "map", map_columns, M_COLUMNS, &t, err);
  if (!st) st = check_rows(w, &t, M_POLICY, w->policies.rows, err);
  uint64_t cells = w->policies.rows ? t.rows / w->policies.rows : 0;
  if (!st && cells * w->policies.rows != t.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/map' does not hold the same number of cells for each policy",
                 w->job->src.path);
  if (!st) st = kvr_job_open(w->job, "strips.bin", &f, err);
  if (!st) st = kvr_job_open(w->job, "strips.tsv", &names, err);
  if (!st) {
    strips = put_strip_rows(w, &t, cells, f, names);
    kvr_put_number(w->job->vars, "STRIPS", strips);
    kvr_put_number(w->job->vars, "STRIP_CELLS", (double)cells);
    kvr_put_number(w->job->vars, "POOL", w->pool);
    kvr_put_finding(w->job, "FIND_STRIPS",
                    "The pool at one step under each policy, in address order; a cell of %s slots shows what most of its used "
                    "slots are.",
                    kvr_count(cells ? ceil(w->pool / (double)cells) : NAN).text);
    st = kvr_job_close(w->job, &f, err);
  }
  if (!st) st = kvr_job_close(w->job, &names, err);
  if (f) (void)fclose(f);
  if (names) (void)fclose(names);
  kvr_table_close(&t);
  return st;
}

/* ---- the first page ---- */

static kv_status cover_kernels(const whatif *w, kvr_cover *c, kv_error *err) {
  kvr_table t = {0};
  words kernel = {0}, bound = {0};
  char text[1000] = "";
  size_t at = 0;
  kv_status st = kvr_table_load(&w->job->src, "kernels", kernel_columns, K_COLUMNS, &t, err);
  if (!st) st = kvr_strings(&w->job->src, "kernels/kernel", t.rows, &kernel.text, &kernel.width, &kernel.n, err);
  if (!st) st = kvr_strings(&w->job->src, "kernels/bound", t.rows, &bound.text, &bound.width, &bound.n, err);
  for (uint64_t i = 0; !st && i < t.rows && at + 200 < sizeof text; i++)
    if (t.value[K_POLICY][i] == (double)w->baseline && t.value[K_GPU][i] == 0)
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%.60s at least %s, set by %.30s", at ? "; " : "", word_at(&kernel, i),
                             kvr_time(t.value[K_STEP][i]).text, word_at(&bound, i));
  if (!st && *text)
    kvr_cover_row(c, "A decode step", "%.0f heads x %.0f queries, modelled floors, no times, as recorded: %s", w->heads, w->queries, text);
  free(kernel.text);
  free(bound.text);
  kvr_table_close(&t);
  return st;
}

static kv_status write_cover(const whatif *w, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", gpus[600] = "";
  size_t at = 0;
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", w->job->src.path);
  for (uint64_t g = 0; g < w->gpu.n && at + 120 < sizeof gpus; g++)
    at += (size_t)snprintf(gpus + at, sizeof gpus - at, "%s%.100s", at ? ", " : "", word_at(&w->gpu, g));
  kv_status st = kvr_text_attribute(&w->job->src, "history", history, sizeof history, err);
  c->kind = "THE SAME SCHEDULE UNDER OTHER POLICIES  ·  kvsim whatif";
  (void)snprintf(c->title, sizeof c->title, "%s: %llu policies", *w->trace ? w->trace : w->job->name,
                 (unsigned long long)w->policies.rows);
  memcpy(c->verdict, w->verdict, sizeof c->verdict);
  (void)snprintf(c->problem, sizeof c->problem,
                 "The problem: would another policy of placing or moving KV rows make reading them faster, and does it pay for "
                 "what it moves, drops and computes again?");
  kvr_cover_row(c, "Trace", "%s", w->trace);
  kvr_cover_row(c, "SHA-256", "%s", w->sha);
  kvr_cover_row(c, "Origin", "%s", w->origin);
  kvr_cover_row(c, "Allocator", "%s", w->allocator);
  kvr_cover_row(c, "Pool", "%s slots of %s, %.0f layers", kvr_count(w->pool).text, kvr_bytes(w->row_bytes).text, w->layers);
  kvr_cover_row(c, "GPUs", "%s", gpus);
  if (!st) st = kvr_cover_prices(w->job, c, err);
  if (!st) st = cover_kernels(w, c, err);
  kvr_cover_row(c, "Not measured", "times: no kernel was run; counts of rows, runs and slots are exact for the trace");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(w->job, c, err);
  free(c);
  return st;
}

static kv_status export_all(whatif *w, kv_error *err) {
  kv_status st = check_rows(w, &w->costs, C_POLICY, w->policies.rows, err);
  if (!st) st = check_rows(w, &w->costs, C_GPU, w->gpu.n, err);
  if (!st && !(w->pool > 0))
    st = kv_fail(err, KV_ERR_INPUT, "%s: attribute pool_size must be there and above 0", w->job->src.path);
  if (st) return st;
  w->n = w->policies.rows < MOST_POLICIES ? w->policies.rows : MOST_POLICIES;
  choose_curves(w);
  kvr_put_number(w->job->vars, "LEFT_OUT", (double)(w->policies.rows - w->n));
  st = put_policies(w, err);
  if (!st) st = put_costs(w, err);
  if (!st) st = put_series(w, err);
  if (!st) st = put_lengths(w, err);
  if (!st) st = put_strips(w, err);
  if (!st) st = write_cover(w, err);
  return st ? st : kvr_put_footer(w->job, word_at(&w->gpu, 0), "counts exact, times modelled", err);
}

kv_status kvr_export_whatif(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"},          {"whatif-policies.gp", "policies"},
                                   {"whatif-costs.gp", "costs"},     {"whatif-series.gp", "over-time"},
                                   {"whatif-lengths.gp", "lengths"}, {"whatif-strips.gp", "pool"}};
  whatif *w = calloc(1, sizeof *w);
  if (!w) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  w->job = job;
  job->pages = pages;
  job->page_count = sizeof pages / sizeof *pages;
  kv_status st = read_whatif(w, err);
  if (!st) st = export_all(w, err);
  free(w->name.text);
  free(w->gpu.text);
  free(w->verdicts.text);
  kvr_table_close(&w->policies);
  kvr_table_close(&w->costs);
  free(w);
  return st;
}
