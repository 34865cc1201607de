/* kvr_sweep.c - a kvsweep-1 dataset (policies x pools x GPUs) as tables for gnuplot. Pools and, where the file has several
 * traces, traces are its columns.
 *
 *   net.tsv     a block a GPU, a line a policy and column: column, row, class (1 pays, 2 costs, 3 no effect, 4 does not fit, 5
 *               baseline or bound), text: net as a share of the reading time
 *   costs.tsv   a block a GPU, a line a simulation: cost, saved (% of the reading time), number of the column, class; what
 *               a log axis cannot show stands on its edge
 *   pools.tsv   a block a policy drawn, of the first trace: pool (slots), mean run (rows), tokens computed again, mean waste (% of pool)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

enum { MOST_POLICIES = 20, MOST_COLUMNS = 12, MOST_GPUS = 4, MOST_CURVES = 7 };

enum { P_POOL, P_PAGE, P_FITS, P_RUN, P_LOST, P_REFILLED, P_MOVED, P_COPIED, P_COLUMNS };
static const char *const policy_columns[] = {"pool", "page_size", "fits", "mean_run", "capacity_lost", "refilled", "moved", "copied"};
enum { C_POLICY, C_GPU, C_READ, C_MOVE, C_RECOMPUTE, C_SAVED, C_NET, C_COLUMNS };
static const char *const cost_columns[] = {"policy", "gpu", "read", "move", "recompute", "saved", "net"};

typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

typedef struct setting {
  double trace, pool; /* trace: row of /traces, 0 where there is one */
} setting;

typedef struct sweep {
  const kvr_job *job;
  char trace[256], sha[80], origin[512], verdict[2048];
  double row_bytes, layers, effect;
  kvr_table policies, costs, trace_column;
  words name, gpu, verdicts, traces, trace_sha, trace_origin; /* the last two: n 0 where the file has none */
  const double *trace_of; /* by policy row; NULL: one trace */
  setting column[MOST_COLUMNS];
  size_t columns;
  uint64_t row[MOST_POLICIES]; /* first row of /policies of each policy name */
  size_t rows;
  size_t *row_at, *column_at; /* by policy row; rows and columns: beyond the limits */
  uint64_t left_out; /* simulations beyond the limits */
} sweep;

static const char *word_at(const words *w, uint64_t i) {
  return i < w->n ? w->text + i * w->width : "";
}
static double policy(const sweep *s, size_t c, uint64_t i) {
  return s->policies.value[c][i];
}
static double cost(const sweep *s, size_t c, uint64_t i) {
  return s->costs.value[c][i];
}
static double trace_of(const sweep *s, uint64_t i) {
  return s->trace_of ? s->trace_of[i] : 0;
}

/* ---- reading ---- */

/* Several traces are optional: /policies/trace, a row of /traces. */
static kv_status read_traces(sweep *s, kv_error *err) {
  static const char *const column[] = {"trace"};
  if (H5Lexists(s->job->src.file, "policies/trace", H5P_DEFAULT) <= 0 || H5Lexists(s->job->src.file, "traces", H5P_DEFAULT) <= 0)
    return KV_OK;
  kv_status st = kvr_table_load(&s->job->src, "policies", column, 1, &s->trace_column, err);
  if (!st) st = kvr_strings(&s->job->src, "traces/name", UINT64_MAX, &s->traces.text, &s->traces.width, &s->traces.n, err);
  if (!st && H5Lexists(s->job->src.file, "traces/sha256", H5P_DEFAULT) > 0)
    st = kvr_strings(&s->job->src, "traces/sha256", s->traces.n, &s->trace_sha.text, &s->trace_sha.width, &s->trace_sha.n, err);
  if (!st && H5Lexists(s->job->src.file, "traces/origin", H5P_DEFAULT) > 0)
    st = kvr_strings(&s->job->src, "traces/origin", s->traces.n, &s->trace_origin.text, &s->trace_origin.width, &s->trace_origin.n, err);
  for (uint64_t i = 0; !st && i < s->trace_column.rows; i++)
    if (!(s->trace_column.value[0][i] >= 0 && s->trace_column.value[0][i] < (double)s->traces.n))
      st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/policies/trace' row %llu: %g names none of the %llu traces", s->job->src.path,
                   (unsigned long long)i, s->trace_column.value[0][i], (unsigned long long)s->traces.n);
  if (!st && s->trace_column.rows != s->policies.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/policies/trace' and '/policies/pool' differ in length", s->job->src.path);
  if (!st) s->trace_of = s->trace_column.value[0];
  return st;
}

static kv_status read_sweep(sweep *s, kv_error *err) {
  const kvr_source *src = &s->job->src;
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"trace", s->trace, sizeof s->trace},
               {"trace_sha256", s->sha, sizeof s->sha},
               {"trace_origin", s->origin, sizeof s->origin},
               {"verdict", s->verdict, sizeof s->verdict}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(src, texts[i].name, texts[i].text, texts[i].size, err);
  if (!st) st = kvr_number_attribute(src, "row_bytes", &s->row_bytes, err);
  if (!st) st = kvr_number_attribute(src, "layers", &s->layers, err);
  if (!st) st = kvr_number_attribute(src, "effect", &s->effect, err);
  if (!st) st = kvr_table_load(src, "policies", policy_columns, P_COLUMNS, &s->policies, err);
  if (!st) st = kvr_table_load(src, "costs", cost_columns, C_COLUMNS, &s->costs, err);
  if (!st) st = kvr_strings(src, "policies/name", s->policies.rows, &s->name.text, &s->name.width, &s->name.n, err);
  if (!st) st = kvr_strings(src, "gpus/name", UINT64_MAX, &s->gpu.text, &s->gpu.width, &s->gpu.n, err);
  if (!st) st = kvr_strings(src, "costs/verdict", s->costs.rows, &s->verdicts.text, &s->verdicts.width, &s->verdicts.n, err);
  for (uint64_t i = 0; !st && i < s->costs.rows; i++)
    if (!(cost(s, C_POLICY, i) >= 0 && cost(s, C_POLICY, i) < (double)s->policies.rows))
      st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/costs/policy' row %llu: %g names none of the %llu", src->path,
                   (unsigned long long)i, cost(s, C_POLICY, i), (unsigned long long)s->policies.rows);
  return st ? st : read_traces(s, err);
}

static void close_sweep(sweep *s) {
  free(s->name.text);
  free(s->gpu.text);
  free(s->verdicts.text);
  free(s->traces.text);
  free(s->trace_sha.text);
  free(s->trace_origin.text);
  free(s->row_at);
  free(s->column_at);
  kvr_table_close(&s->policies);
  kvr_table_close(&s->costs);
  kvr_table_close(&s->trace_column);
}

/* ---- rows and columns ---- */

static size_t column_of(const sweep *s, uint64_t i) {
  return s->column_at[i];
}
static size_t row_of(const sweep *s, uint64_t i) {
  return s->row_at[i];
}

/* The pool that row i stands for. Paged policies cut what they are given to whole pages: that is no size of its own. */
static double pool_asked(const sweep *s, uint64_t i) {
  double pool = policy(s, P_POOL, i), end = pool + policy(s, P_PAGE, i);
  for (uint64_t j = 0; j < s->policies.rows; j++)
    if (trace_of(s, j) == trace_of(s, i) && policy(s, P_POOL, j) > pool && policy(s, P_POOL, j) < end) pool = policy(s, P_POOL, j);
  return pool;
}

static size_t find_row(const sweep *s, uint64_t i) {
  size_t k = 0;
  while (k < s->rows && strcmp(word_at(&s->name, s->row[k]), word_at(&s->name, i)) != 0) k++;
  return k;
}

static size_t find_column(const sweep *s, setting wanted) {
  size_t k = 0;
  while (k < s->columns && !(s->column[k].trace == wanted.trace && s->column[k].pool == wanted.pool)) k++;
  return k;
}

/* Traces as they come, pools ascending. */
static void add_column(sweep *s, setting new) {
  size_t k = s->columns;
  while (k > 0 && (s->column[k - 1].trace > new.trace || (s->column[k - 1].trace == new.trace && s->column[k - 1].pool > new.pool))) k--;
  memmove(&s->column[k + 1], &s->column[k], (s->columns - k) * sizeof *s->column);
  s->column[k] = new;
  s->columns++;
}

static kv_status place(sweep *s, kv_error *err) {
  uint64_t n = s->policies.rows;
  setting *at = calloc(n + 1, sizeof *at);
  s->row_at = calloc(n + 1, sizeof *s->row_at);
  s->column_at = calloc(n + 1, sizeof *s->column_at);
  if (!at || !s->row_at || !s->column_at) {
    free(at);
    return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", s->job->src.path);
  }
  for (uint64_t i = 0; i < n; i++) {
    at[i] = (setting){trace_of(s, i), pool_asked(s, i)};
    if (find_row(s, i) == s->rows && s->rows < MOST_POLICIES) s->row[s->rows++] = i;
    if (find_column(s, at[i]) == s->columns && s->columns < MOST_COLUMNS) add_column(s, at[i]);
  }
  for (uint64_t i = 0; i < n; i++) {
    s->row_at[i] = find_row(s, i);
    s->column_at[i] = find_column(s, at[i]);
    s->left_out += s->row_at[i] == s->rows || s->column_at[i] == s->columns;
  }
  free(at);
  return KV_OK;
}

static void name_column(const sweep *s, size_t k, char *text, size_t size) {
  double pool = s->column[k].pool;
  char word[40];
  if (pool >= 1048576) (void)snprintf(word, sizeof word, "%.3gMi", pool / 1048576);
  else if (pool >= 1024) (void)snprintf(word, sizeof word, "%.3gKi", pool / 1024);
  else (void)snprintf(word, sizeof word, "%.0f", pool);
  if (s->traces.n > 1) (void)snprintf(text, size, "%.0f: %s", s->column[k].trace + 1, word);
  else (void)snprintf(text, size, "%s", word);
}

static double class_of(const sweep *s, uint64_t c) {
  const char *verdict = word_at(&s->verdicts, c);
  if (policy(s, P_FITS, (uint64_t)cost(s, C_POLICY, c)) == 0 || !strcmp(verdict, "does not fit")) return 4;
  if (!strcmp(verdict, "baseline") || !strcmp(verdict, "bound")) return 5;
  if (!strcmp(verdict, "not known")) return 3;
  return !strcmp(verdict, "do it") ? 1 : !strcmp(verdict, "no effect") ? 3 : 2;
}

/* What the baseline takes to read the rows. */
static double reading(const sweep *s, uint64_t c) {
  return cost(s, C_READ, c) + cost(s, C_SAVED, c);
}

static void put_array(const sweep *s, const char *array, size_t k, const char *text) {
  char name[48];
  (void)snprintf(name, sizeof name, "%s[%zu]", array, k + 1);
  kvr_put_text(s->job->vars, name, text);
}

static void put_names(const sweep *s) {
  FILE *f = s->job->vars;
  char text[300];
  size_t gpus = s->gpu.n < MOST_GPUS ? (size_t)s->gpu.n : MOST_GPUS;
  fprintf(f, "array COLUMN_NAME[%zu]\narray ROW_NAME[%zu]\narray GPU_NAME[%zu]\n", s->columns ? s->columns : 1,
          s->rows ? s->rows : 1, gpus ? gpus : 1);
  for (size_t k = 0; k < s->columns; k++) {
    name_column(s, k, text, sizeof text);
    put_array(s, "COLUMN_NAME", k, text);
  }
  for (size_t k = 0; k < s->rows; k++) put_array(s, "ROW_NAME", k, word_at(&s->name, s->row[k]));
  for (size_t k = 0; k < gpus; k++) {
    (void)kvr_wrap(word_at(&s->gpu, k), 11, true, 720 / (double)gpus - 20, 1, text, sizeof text);
    put_array(s, "GPU_NAME", k, text);
  }
  kvr_put_number(f, "COLUMNS", (double)s->columns);
  kvr_put_number(f, "ROWS", (double)s->rows);
  kvr_put_number(f, "GPUS", (double)gpus);
  kvr_put_number(f, "TRACES", s->traces.n > 1 ? (double)s->traces.n : 1);
  kvr_put_number(f, "LEFT_OUT", (double)s->left_out);
  kvr_put_number(f, "EFFECT", s->effect);
}

/* ---- net gain ---- */

static void net_text(const sweep *s, uint64_t c, char *text, size_t size) {
  double share = 100 * cost(s, C_NET, c) / reading(s, c), class = class_of(s, c);
  if (class == 4) (void)snprintf(text, size, "no room");
  else if (!strcmp(word_at(&s->verdicts, c), "baseline")) (void)snprintf(text, size, "baseline");
  else if (!isfinite(share)) (void)snprintf(text, size, "?");
  else if (fabs(share) < 0.005) (void)snprintf(text, size, "0.00");
  else (void)snprintf(text, size, fabs(share) >= 99.95 ? "%+.0f" : fabs(share) >= 9.995 ? "%+.1f" : "%+.2f", share);
}

static kv_status put_net(const sweep *s, kv_error *err) {
  FILE *f;
  uint64_t best = UINT64_MAX, worst = UINT64_MAX, pays = 0, judged = 0, tight = 0;
  char text[40], where[60] = "";
  kv_status st = kvr_job_open(s->job, "net.tsv", &f, err);
  if (st) return st;
  for (uint64_t g = 0; g < (s->gpu.n < MOST_GPUS ? s->gpu.n : MOST_GPUS); g++) {
    uint64_t lines = 0;
    for (uint64_t c = 0; c < s->costs.rows; c++) {
      uint64_t i = (uint64_t)cost(s, C_POLICY, c);
      double class = class_of(s, c);
      if (cost(s, C_GPU, c) != (double)g || row_of(s, i) == s->rows || column_of(s, i) == s->columns) continue;
      net_text(s, c, text, sizeof text);
      kvr_put_cell(f, (double)column_of(s, i) + 1);
      kvr_put_cell(f, (double)row_of(s, i) + 1);
      kvr_put_cell(f, class);
      kvr_put_word(f, text);
      fputc('\n', f);
      lines++;
      pays += class == 1;
      tight += class == 4;
      judged += class != 5;
      if (class >= 4) continue;
      if (best == UINT64_MAX || cost(s, C_NET, c) / reading(s, c) > cost(s, C_NET, best) / reading(s, best)) best = c;
      if (worst == UINT64_MAX || cost(s, C_NET, c) / reading(s, c) < cost(s, C_NET, worst) / reading(s, worst)) worst = c;
    }
    if (lines == 0) fputs("NaN\tNaN\tNaN\t\n", f);
    fputs("\n\n", f);
  }
  if (best == UINT64_MAX) kvr_put_finding(s->job, "FIND_NET", "No policy was priced.");
  else {
    name_column(s, column_of(s, (uint64_t)cost(s, C_POLICY, best)), where, sizeof where);
    kvr_put_finding(s->job, "FIND_NET",
                    "Saved less paid, %% of the time it takes to read the rows. %s of %s pay (%s find no room). Most: %s at %s on %s, "
                    "%+.3g %%. Least: %s, %+.3g %%. Modelled.",
                    kvr_count((double)pays).text, kvr_count((double)judged).text, kvr_count((double)tight).text,
                    word_at(&s->name, (uint64_t)cost(s, C_POLICY, best)), where, word_at(&s->gpu, (uint64_t)cost(s, C_GPU, best)),
                    100 * cost(s, C_NET, best) / reading(s, best), word_at(&s->name, (uint64_t)cost(s, C_POLICY, worst)),
                    100 * cost(s, C_NET, worst) / reading(s, worst));
  }
  return kvr_job_close(s->job, &f, err);
}

/* ---- cost against gain ---- */

#define EDGE 1e-3  /* %: what is less stands on the edge of the log axis */

static kv_status put_costs(const sweep *s, kv_error *err) {
  FILE *f;
  double most = 1;
  uint64_t all = 0;
  kv_status st = kvr_job_open(s->job, "costs.tsv", &f, err);
  if (st) return st;
  for (uint64_t g = 0; g < (s->gpu.n < MOST_GPUS ? s->gpu.n : MOST_GPUS); g++) {
    uint64_t lines = 0;
    for (uint64_t c = 0; c < s->costs.rows; c++) {
      uint64_t i = (uint64_t)cost(s, C_POLICY, c);
      double paid = 100 * (cost(s, C_SAVED, c) - cost(s, C_NET, c)) / reading(s, c), saved = 100 * cost(s, C_SAVED, c) / reading(s, c);
      if (cost(s, C_GPU, c) != (double)g || class_of(s, c) >= 4 || column_of(s, i) == s->columns || !isfinite(paid + saved)) continue;
      kvr_put_cell(f, fmax(paid, EDGE));
      kvr_put_cell(f, fmax(saved, EDGE));
      kvr_put_cell(f, (double)column_of(s, i));
      kvr_put_cell(f, class_of(s, c));
      fputc('\n', f);
      most = fmax(most, fmax(paid, saved));
      lines++;
    }
    if (lines == 0) fputs("NaN\tNaN\tNaN\tNaN\n", f);
    fputs("\n\n", f);
    all += lines;
  }
  kvr_put_number(s->job->vars, "COST_POINTS", (double)all);
  kvr_put_number(s->job->vars, "COST_MOST", most);
  kvr_put_number(s->job->vars, "COST_EDGE", EDGE);
  kvr_put_finding(s->job, "FIND_COSTS",
                  "Moving rows and computing dropped tokens again, less what the baseline pays, against what reading the rows saves. "
                  "Above the line a policy has paid by the end of the trace; what costs or saves nothing stands on the edge.");
  return kvr_job_close(s->job, &f, err);
}

/* ---- what the pool's size does ---- */

static bool near(double a, double b, double share) {
  return fabs(a - b) <= share * fabs(b);
}

/* Whether two rows would be drawn at one place: what finds no room is not drawn at all. */
static bool same_point(const sweep *s, uint64_t i, uint64_t j) {
  if (!near(policy(s, P_POOL, i), policy(s, P_POOL, j), 0.02) || policy(s, P_FITS, i) != policy(s, P_FITS, j)) return false;
  return policy(s, P_FITS, i) == 0 || (near(policy(s, P_RUN, i), policy(s, P_RUN, j), 0.03) &&
                                       near(policy(s, P_REFILLED, i), policy(s, P_REFILLED, j), 0.03));
}

/* Of the first trace. Curves that lie on one another say nothing: a policy is drawn where its mean run or recomputation differs
 * from that of those drawn before. */
static bool like_one_before(const sweep *s, const uint64_t *drawn, size_t n, uint64_t row) {
  for (size_t k = 0; k < n; k++) {
    bool same = true;
    for (uint64_t i = 0; i < s->policies.rows && same; i++) {
      if (row_of(s, i) != row || trace_of(s, i) != 0) continue;
      bool met = false;
      for (uint64_t j = 0; j < s->policies.rows && !met; j++) met = row_of(s, j) == drawn[k] && trace_of(s, j) == 0 && same_point(s, i, j);
      same &= met;
    }
    if (same) return true;
  }
  return false;
}

static void pool_block(const sweep *s, FILE *f, uint64_t row) {
  uint64_t n = 0;
  for (size_t k = 0; k < s->columns; k++)
    for (uint64_t i = 0; i < s->policies.rows; i++) {
      if (row_of(s, i) != row || column_of(s, i) != k || trace_of(s, i) != 0) continue;
      kvr_put_cell(f, policy(s, P_POOL, i));
      kvr_put_cell(f, policy(s, P_FITS, i) > 0 && policy(s, P_RUN, i) > 0 ? policy(s, P_RUN, i) : NAN);
      kvr_put_cell(f, policy(s, P_FITS, i) > 0 ? policy(s, P_REFILLED, i) : NAN);
      kvr_put_cell(f, 100 * policy(s, P_LOST, i));
      fputc('\n', f);
      n++;
    }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
}

static kv_status put_pools(const sweep *s, kv_error *err) {
  FILE *f;
  uint64_t drawn[MOST_CURVES];
  size_t n = 0;
  double low = NAN, high = NAN, run = 1, refilled = 1;
  char names[400] = "";
  size_t at = 0, hidden = 0, beyond = 0;
  kv_status st = kvr_job_open(s->job, "pools.tsv", &f, err);
  if (st) return st;
  for (size_t k = 0; k < s->rows; k++) {
    if (like_one_before(s, drawn, n, k)) {
      if (at + 60 < sizeof names) at += (size_t)snprintf(names + at, sizeof names - at, "%s%.30s", hidden ? ", " : "", word_at(&s->name, s->row[k]));
      hidden++;
    } else if (n < MOST_CURVES) drawn[n++] = k;
    else beyond++;
  }
  fprintf(s->job->vars, "array CURVE_NAME[%zu]\n", n ? n : 1);
  for (size_t k = 0; k < n; k++) {
    put_array(s, "CURVE_NAME", k, word_at(&s->name, s->row[drawn[k]]));
    pool_block(s, f, drawn[k]);
  }
  for (uint64_t i = 0; i < s->policies.rows; i++) {
    double pool = policy(s, P_POOL, i);
    if (trace_of(s, i) != 0) continue;
    if (!(low <= pool)) low = pool;
    if (!(high >= pool)) high = pool;
    run = fmax(run, policy(s, P_RUN, i));
    refilled = fmax(refilled, policy(s, P_REFILLED, i));
  }
  kvr_put_number(s->job->vars, "CURVES", (double)n);
  kvr_put_number(s->job->vars, "POOL_LOW", low);
  kvr_put_number(s->job->vars, "POOL_HIGH", high);
  kvr_put_number(s->job->vars, "RUN_MOST", run);
  kvr_put_number(s->job->vars, "REFILLED_MOST", fmax(refilled, 10));
  kvr_put_finding(s->job, "FIND_POOLS",
                  "What a smaller pool does to the rows, and what it makes the server compute again%s.%s%s%s%s",
                  s->traces.n > 1 ? " (first trace)" : "", hidden ? " Not drawn, as they lie on one that is: " : "", names,
                  hidden ? "." : "", beyond ? " The rest is in the dataset." : "");
  return kvr_job_close(s->job, &f, err);
}

/* ---- the first page ---- */

/* One trace as its file's attributes have it; several, or those of a file that keeps them in /traces, one by one. */
static void cover_traces(const sweep *s, kvr_cover *c) {
  enum { SHOWN = 4 };
  if (s->traces.n == 0 || *s->trace) {
    kvr_cover_row(c, "Trace", "%s", s->trace);
    kvr_cover_row(c, "Origin", "%s", s->origin);
    kvr_cover_row(c, "SHA-256", "%s", s->sha);
  }
  for (uint64_t k = 0; k < s->traces.n && k < SHOWN && (s->traces.n > 1 || !*s->trace); k++) {
    char key[24];
    (void)snprintf(key, sizeof key, s->traces.n > 1 ? "Trace %llu" : "Trace", (unsigned long long)k + 1);
    kvr_cover_row(c, key, "%.100s  %.64s  %.300s", word_at(&s->traces, k), word_at(&s->trace_sha, k), word_at(&s->trace_origin, k));
  }
  if (s->traces.n > SHOWN) kvr_cover_row(c, "More traces", "%llu: see /traces of the dataset", (unsigned long long)(s->traces.n - SHOWN));
}

static kv_status write_cover(const sweep *s, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", text[1100] = "", name[60];
  size_t at = 0;
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", s->job->src.path);
  kv_status st = kvr_text_attribute(&s->job->src, "history", history, sizeof history, err);
  c->kind = "POLICIES x POOLS x GPUS  ·  kvsim sweep";
  if (s->traces.n > 1) (void)snprintf(c->title, sizeof c->title, "%llu traces", (unsigned long long)s->traces.n);
  else (void)snprintf(c->title, sizeof c->title, "%s", *s->trace ? s->trace : s->traces.n ? word_at(&s->traces, 0) : "trace not recorded");
  memcpy(c->verdict, s->verdict, sizeof c->verdict);
  (void)snprintf(c->problem, sizeof c->problem,
                 "The recorded schedule under %zu policies and %zu %s, priced for rows of %s in %.0f layers on %s GPU%s. A policy that "
                 "gains less than %g %% of the reading time has no effect.",
                 s->rows, s->columns, s->traces.n > 1 ? "pairs of trace and pool size" : "pool sizes", kvr_bytes(s->row_bytes).text, s->layers, kvr_count((double)s->gpu.n).text, s->gpu.n == 1 ? "" : "s", 100 * s->effect);
  cover_traces(s, c);
  kvr_cover_row(c, "Simulations", "%s%s", kvr_count((double)s->policies.rows).text,
                s->left_out ? "; not all of them fit the pages, all are in the dataset" : "");
  for (size_t k = 0; k < s->columns && at + 60 < sizeof text; k++) {
    name_column(s, k, name, sizeof name);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "", name);
  }
  kvr_cover_row(c, "Pools", "%s", text);
  for (uint64_t k = at = 0; k < s->gpu.n && at + 110 < sizeof text; k++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%.100s", at ? ", " : "", word_at(&s->gpu, k));
  kvr_cover_row(c, "GPUs", "%s", at ? text : "none");
  if (!st) st = kvr_cover_prices(s->job, c, err);
  kvr_cover_row(c, "Not measured", "no kernel was run: times are modelled, of kernels at the memory roof");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(s->job, c, err);
  free(c);
  return st;
}

kv_status kvr_export_sweep(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"}, {"sweep-net.gp", "net"}, {"sweep-costs.gp", "costs"}, {"sweep-pools.gp", "pools"}};
  sweep *s = calloc(1, sizeof *s);
  if (!s) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  s->job = job;
  job->pages = pages;
  job->page_count = sizeof pages / sizeof *pages;
  kv_status st = read_sweep(s, err);
  if (!st) st = place(s, err);
  if (!st) put_names(s);
  if (!st) st = put_net(s, err);
  if (!st) st = put_costs(s, err);
  if (!st) st = put_pools(s, err);
  if (!st) st = write_cover(s, err);
  if (!st) st = kvr_put_footer(job, "", "counts exact, times modelled", err);
  close_sweep(s);
  free(s);
  return st;
}
