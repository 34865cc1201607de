/* kvr_kvsim.c - a kvsim-1 dataset as tables for gnuplot.
 *
 *   pool.tsv        bin: step, live, cached, free, fragmentation mean/min/max, mean run mean/min/max,
 * running, waiting scattered.tsv   a block a request: run length, share of rows in runs up to it, the same
 * where a mark stands milestones.tsv  three blocks (prefill end, decode, end): rows, runs, mean run
 *   overhead.tsv    a row a request: rank, name, factors for sectors, 2-MiB pages, DRAM rows
 *   map.bin         one byte a cell: class of the slots in it
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

#define BINS 1200u
#define MAP_CELLS 2097152u
#define OWNERS 5u /* running requests that get a shade of their own on the map */
#define LEFT 3u   /* and finished ones whose cached slots do */
#define SHOWN_REQUESTS 20u
#define CURVES 4u /* of run lengths: more cannot be told apart in grey */
#define BLOCK 65536u /* rows read at a time where a table may be large */
#define REQUEST_LIMIT (1u << 26)

typedef struct kvsim_head {
  char trace[256], sha[80], origin[512], allocator[64], verdict[2048];
  double pool, page_size, row_bytes, sector, tlb, dram_row, every, events, operations, steps, requests;
} kvsim_head;

static kv_status read_head(const kvr_job *job, kvsim_head *h, kv_error *err) {
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"trace", h->trace, sizeof h->trace},
               {"trace_sha256", h->sha, sizeof h->sha},
               {"trace_origin", h->origin, sizeof h->origin},
               {"allocator", h->allocator, sizeof h->allocator},
               {"verdict", h->verdict, sizeof h->verdict}};
  const struct {
    const char *name;
    double *value;
  } numbers[] = {
      {"pool_size", &h->pool},      {"page_size", &h->page_size}, {"row_bytes", &h->row_bytes},
      {"sector_bytes", &h->sector}, {"tlb_page_bytes", &h->tlb},  {"dram_row_bytes", &h->dram_row},
      {"every", &h->every},         {"events", &h->events},       {"slot_operations", &h->operations},
      {"steps", &h->steps},         {"requests", &h->requests}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(&job->src, texts[i].name, texts[i].text, texts[i].size, err);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kvr_number_attribute(&job->src, numbers[i].name, numbers[i].value, err);
  return st;
}

/* ---- the pool over time ---- */

enum {
  P_STEP,
  P_RUNNING,
  P_WAITING,
  P_LIVE,
  P_CACHED,
  P_FREE,
  P_LARGEST,
  P_FRAGMENTATION,
  P_MEAN_RUN,
  P_COLUMNS
};
static const char *const pool_columns[] = {"step", "running",          "waiting",       "live",    "cached",
                                           "free", "largest_free_run", "fragmentation", "mean_run"};

typedef struct spread {
  double sum, low, high;
  uint64_t n;
} spread;

static void spread_add(spread *s, double v) {
  if (!isfinite(v)) return;
  if (s->n == 0 || v < s->low) s->low = v;
  if (s->n == 0 || v > s->high) s->high = v;
  s->sum += v;
  s->n++;
}

static void put_spread(FILE *f, const spread *s) {
  kvr_put_cell(f, s->n ? s->sum / (double)s->n : NAN);
  kvr_put_cell(f, s->n ? s->low : NAN);
  kvr_put_cell(f, s->n ? s->high : NAN);
}

/* A mean run of 0 means that nothing ran: no point on a log axis. */
static double mean_run_or_none(double v) {
  return v > 0 ? v : NAN;
}

static void put_pool_bin(FILE *f, const kvr_table *t, uint64_t from, uint64_t to, double step) {
  spread part[3] = {{0}}, fragmentation = {0}, run = {0}, running = {0}, waiting = {0};
  for (uint64_t i = from; i < to; i++) {
    for (size_t p = 0; p < 3; p++) spread_add(&part[p], t->value[P_LIVE + p][i]);
    spread_add(&fragmentation, t->value[P_FRAGMENTATION][i]);
    spread_add(&run, mean_run_or_none(t->value[P_MEAN_RUN][i]));
    spread_add(&running, t->value[P_RUNNING][i]);
    spread_add(&waiting, t->value[P_WAITING][i] >= 0 ? t->value[P_WAITING][i] : NAN);
  }
  kvr_put_cell(f, step);
  for (size_t p = 0; p < 3; p++) kvr_put_cell(f, part[p].n ? part[p].sum / (double)part[p].n : NAN);
  put_spread(f, &fragmentation);
  put_spread(f, &run);
  kvr_put_cell(f, running.n ? running.sum / (double)running.n : NAN);
  kvr_put_cell(f, waiting.n ? waiting.sum / (double)waiting.n : NAN);
  fputc('\n', f);
}

static void pool_findings(const kvr_job *job, const kvr_table *t, const kvsim_head *h) {
  if (t->rows == 0) {
    kvr_put_finding(job, "FIND_POOL", "No step was sampled.");
    kvr_put_finding(job, "FIND_FRAGMENTATION", "No step was sampled.");
    return;
  }
  uint64_t end = t->rows - 1;
  spread run = {0};
  for (uint64_t i = 0; i < t->rows; i++) spread_add(&run, mean_run_or_none(t->value[P_MEAN_RUN][i]));
  double live = t->value[P_LIVE][end], cached = t->value[P_CACHED][end], vacant = t->value[P_FREE][end];
  kvr_put_finding(
      job, "FIND_POOL",
      "At the last sampled step %.1f %% of the pool is live, %.1f %% cached, %.1f %% free. Pool: %s slots of "
      "%s a layer (%s of KV memory a layer).",
      100 * live / h->pool, 100 * cached / h->pool, 100 * vacant / h->pool, kvr_count(h->pool).text,
      kvr_bytes(h->row_bytes).text, kvr_bytes(h->pool * h->row_bytes).text);
  if (run.n)
    kvr_put_finding(job, "FIND_FRAGMENTATION",
                    "Fragmentation ends at %.3f (largest free run %s of %s free slots). Mean run of the "
                    "running requests: "
                    "%s to %s rows.",
                    t->value[P_FRAGMENTATION][end], kvr_count(t->value[P_LARGEST][end]).text,
                    kvr_count(vacant).text, kvr_amount(run.low).text, kvr_amount(run.high).text);
  else
    kvr_put_finding(
        job, "FIND_FRAGMENTATION",
        "Fragmentation ends at %.3f (largest free run %s of %s free slots). No request was running at any "
        "sampled step.",
        t->value[P_FRAGMENTATION][end], kvr_count(t->value[P_LARGEST][end]).text, kvr_count(vacant).text);
}

static kv_status export_pool(const kvr_job *job, const kvsim_head *h, kv_error *err) {
  kvr_table t;
  FILE *f = NULL;
  kv_status st = kvr_table_load(&job->src, "pool", pool_columns, P_COLUMNS, &t, err);
  if (st) return st;
  st = kvr_job_open(job, "pool.tsv", &f, err);
  if (st) goto done;
  uint64_t bins = t.rows < BINS ? t.rows : BINS;
  for (uint64_t b = 0; b < bins; b++) {
    uint64_t from = b * t.rows / bins;
    put_pool_bin(f, &t, from, (b + 1) * t.rows / bins, t.value[P_STEP][from]);
  }
  if (t.rows == 1) put_pool_bin(f, &t, 0, 1, t.value[P_STEP][0] + 1); /* one sample is drawn one step wide */
  double known_waiting = 0, most = 0;
  for (uint64_t i = 0; i < t.rows; i++) {
    known_waiting += t.value[P_WAITING][i] >= 0;
    most = fmax(most, fmax(t.value[P_RUNNING][i], t.value[P_WAITING][i]));
  }
  kvr_put_number(job->vars, "POOL_ROWS", (double)t.rows);
  kvr_put_number(job->vars, "POOL_PER_POINT", bins ? ceil((double)t.rows / (double)bins) : 1);
  kvr_put_number(job->vars, "WAITING_KNOWN", known_waiting);
  kvr_put_number(job->vars, "REQUESTS_MOST", most);
  kvr_put_number(job->vars, "STEP_FIRST", t.rows ? t.value[P_STEP][0] : 0);
  kvr_put_number(job->vars, "STEP_LAST", t.rows ? t.value[P_STEP][t.rows - 1] : 0);
  pool_findings(job, &t, h);
  st = kvr_job_close(job, &f, err);
done:
  if (f) (void)fclose(f);
  kvr_table_close(&t);
  return st;
}

/* ---- run lengths of the most scattered requests ---- */

enum { S_REQUEST, S_STEP, S_ROWS, S_RUNS, S_MEAN_RUN, S_COLUMNS };
static const char *const scattered_columns[] = {"request", "step", "rows", "runs", "mean_run"};
static const char *const indptr_column[] = {"indptr"};
static const char *const histogram_columns[] = {"run_length", "run_count"};

static kv_status check_indptr(const kvr_job *job, const char *group, const kvr_table *indptr, uint64_t n,
                              uint64_t total, kv_error *err) {
  const double *at = indptr->value[0];
  bool good = indptr->rows == n + 1 && at[0] == 0 && at[n] == (double)total;
  for (uint64_t i = 0; good && i < n; i++) good = at[i] <= at[i + 1];
  if (good) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT,
                 "%s: dataset '/%s/indptr' does not divide the %llu rows among %llu requests", job->src.path,
                 group, (unsigned long long)total, (unsigned long long)n);
}

/* Steps of the cumulative share, from 0; the third column holds the one step that crosses `marked`, where the
 * curve's mark is drawn. */
static double put_cdf(FILE *f, const kvr_table *h, uint64_t from, uint64_t to, double marked) {
  double rows = 0, sum = 0, longest = 0;
  for (uint64_t i = from; i < to; i++) rows += h->value[0][i] * h->value[1][i];
  if (from < to) fprintf(f, "%.9g\t0\tNaN\n", h->value[0][from]);
  for (uint64_t i = from; i < to; i++) {
    double length = h->value[0][i], before = sum;
    sum += length * h->value[1][i];
    kvr_put_cell(f, length);
    kvr_put_cell(f, rows > 0 ? sum / rows : NAN);
    kvr_put_cell(f, rows > 0 && sum >= marked * rows && before < marked * rows ? sum / rows : NAN);
    fputc('\n', f);
    if (length > longest) longest = length;
  }
  if (from == to) fputs("NaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
  return longest;
}

static kv_status put_scattered(const kvr_job *job, const kvr_table *s, const kvr_table *at,
                               const kvr_table *h, kv_error *err) {
  FILE *f;
  double longest = 0;
  kv_status st = kvr_job_open(job, "scattered.tsv", &f, err);
  if (st) return st;
  uint64_t n = s->rows < CURVES ? s->rows : CURVES;
  fprintf(job->vars, "array SCATTERED_TITLE[%llu]\n", (unsigned long long)(n ? n : 1));
  for (uint64_t i = 0; i < n; i++) {
    char title[160], name[40];
    double end =
        put_cdf(f, h, (uint64_t)at->value[0][i], (uint64_t)at->value[0][i + 1], 0.2 + 0.2 * (double)i);
    longest = fmax(longest, end);
    (void)snprintf(title, sizeof title, "request %.0f, step %.0f: %s rows, mean run %s",
                   s->value[S_REQUEST][i], s->value[S_STEP][i], kvr_count(s->value[S_ROWS][i]).text,
                   kvr_amount(s->value[S_MEAN_RUN][i]).text);
    (void)snprintf(name, sizeof name, "SCATTERED_TITLE[%llu]", (unsigned long long)i + 1);
    kvr_put_text(job->vars, name, title);
  }
  kvr_put_number(job->vars, "SCATTERED", (double)n);
  kvr_put_number(job->vars, "SCATTERED_LONGEST", longest);
  if (n)
    kvr_put_finding(job, "FIND_RUNS",
                    "Most scattered: request %.0f at step %.0f, %s rows in %s runs, mean run %s rows.%s",
                    s->value[S_REQUEST][0], s->value[S_STEP][0], kvr_count(s->value[S_ROWS][0]).text,
                    kvr_count(s->value[S_RUNS][0]).text, kvr_amount(s->value[S_MEAN_RUN][0]).text,
                    s->rows > n ? " The four worst are drawn; the others are in /scattered of the dataset." : "");
  else kvr_put_finding(job, "FIND_RUNS", "No request reached 1,024 rows.");
  return kvr_job_close(job, &f, err);
}

static kv_status export_scattered(const kvr_job *job, kv_error *err) {
  kvr_table s = {0}, at = {0}, h = {0};
  kv_status st = kvr_table_load(&job->src, "scattered", scattered_columns, S_COLUMNS, &s, err);
  if (!st) st = kvr_table_load(&job->src, "scattered", indptr_column, 1, &at, err);
  if (!st) st = kvr_table_load(&job->src, "scattered", histogram_columns, 2, &h, err);
  if (!st) st = check_indptr(job, "scattered", &at, s.rows, h.rows, err);
  if (!st) st = put_scattered(job, &s, &at, &h, err);
  kvr_table_close(&s);
  kvr_table_close(&at);
  kvr_table_close(&h);
  return st;
}

/* ---- milestones ---- */

enum { M_ROWS, M_RUNS, M_MEAN_RUN, M_REQUEST, M_COLUMNS };
static const char *const milestone_columns[] = {"rows", "runs", "mean_run", "request"};

static size_t milestone_class(const char *event) {
  return !strcmp(event, "prefill_end") ? 0 : !strncmp(event, "decode", 6) ? 1 : 2;
}

static void put_milestones(const kvr_job *job, FILE *f, const kvr_table *t, const char *event, size_t width) {
  static const char *const names[] = {"MILE_PREFILL", "MILE_DECODE", "MILE_END"};
  double most_rows = 0, most_runs = 0, least = INFINITY;
  uint64_t worst = UINT64_MAX;
  for (size_t class = 0; class < 3; class ++) {
    double n = 0;
    for (uint64_t i = 0; i < t->rows; i++) {
      if (milestone_class(event + i * width) != class || t->value[M_RUNS][i] < 1) continue;
      for (size_t c = 0; c < 3; c++) kvr_put_cell(f, t->value[c][i]);
      fputc('\n', f);
      n++;
      most_rows = fmax(most_rows, t->value[M_ROWS][i]);
      least = fmin(least, t->value[M_ROWS][i]);
      most_runs = fmax(most_runs, t->value[M_RUNS][i]);
      if (t->value[M_ROWS][i] >= 1024 &&
          (worst == UINT64_MAX || t->value[M_MEAN_RUN][i] < t->value[M_MEAN_RUN][worst]))
        worst = i;
    }
    if (n == 0) fputs("NaN\tNaN\tNaN\n", f);
    fputs("\n\n", f);
    kvr_put_number(job->vars, names[class], n);
  }
  kvr_put_number(job->vars, "MILE_ROWS", most_rows);
  kvr_put_number(job->vars, "MILE_RUNS", most_runs);
  kvr_put_number(job->vars, "MILE_LEAST", isfinite(least) ? least : 1);
  if (worst != UINT64_MAX)
    kvr_put_finding(job, "FIND_MILESTONES",
                    "Lowest mean run at a milestone of 1,024 rows or more: %s rows (request %.0f, %s, %s "
                    "rows in %s runs).",
                    kvr_amount(t->value[M_MEAN_RUN][worst]).text, t->value[M_REQUEST][worst],
                    event + worst * width, kvr_count(t->value[M_ROWS][worst]).text,
                    kvr_count(t->value[M_RUNS][worst]).text);
  else kvr_put_finding(job, "FIND_MILESTONES", "No milestone has 1,024 rows or more.");
}

static kv_status export_milestones(const kvr_job *job, kv_error *err) {
  kvr_table t;
  char *event = NULL;
  size_t width;
  uint64_t n;
  FILE *f = NULL;
  kv_status st = kvr_table_load(&job->src, "milestones", milestone_columns, M_COLUMNS, &t, err);
  if (!st) st = kvr_strings(&job->src, "milestones/event", t.rows, &event, &width, &n, err);
  if (!st) st = kvr_job_open(job, "milestones.tsv", &f, err);
  if (!st) {
    put_milestones(job, f, &t, event, width);
    st = kvr_job_close(job, &f, err);
  }
  free(event);
  kvr_table_close(&t);
  return st;
}

/* ---- what a request's rows cost beyond the least possible ---- */

enum { O_REQUEST, O_ROWS, O_TLB, O_SECTORS, O_USEFUL, O_DRAM, O_COLUMNS };
static const char *const sample_columns[] = {"request", "rows",         "tlb_pages",
                                             "sectors", "useful_bytes", "dram_rows"};

typedef struct overhead {
  double request, rows, sectors, tlb, dram; /* rows, and factors over the least possible */
} overhead;

typedef struct overheads {
  overhead *of; /* by request number while scanning; rows == 0 where there is none */
  size_t size;
} overheads;

static kv_status room_for(overheads *o, size_t request, const kvr_job *job, kv_error *err) {
  if (request < o->size) return KV_OK;
  size_t size = request + request / 2 + 64;
  overhead *grown = realloc(o->of, size * sizeof *grown);
  if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory for %zu requests", job->src.path, size);
  memset(grown + o->size, 0, (size - o->size) * sizeof *grown);
  o->of = grown;
  o->size = size;
  return KV_OK;
}

static overhead sample_overhead(const kvr_table *t, uint64_t i, const kvsim_head *h) {
  double rows = t->value[O_ROWS][i], bytes = rows * h->row_bytes;
  return (overhead){.request = t->value[O_REQUEST][i],
                    .rows = rows,
                    .sectors = t->value[O_SECTORS][i] * h->sector / t->value[O_USEFUL][i],
                    .tlb = t->value[O_TLB][i] / ceil(bytes / h->tlb),
                    .dram = t->value[O_DRAM][i] / ceil(bytes / h->dram_row)};
}

/* The last sample of each request stands for it. */
static kv_status scan_samples(const kvr_job *job, const kvsim_head *h, kvr_table *t, overheads *o,
                              kv_error *err) {
  kv_status st = KV_OK;
  for (uint64_t start = 0; start < t->rows && !st; start += BLOCK) {
    uint64_t n = t->rows - start < BLOCK ? t->rows - start : BLOCK;
    st = kvr_table_read(&job->src, t, start, n, err);
    for (uint64_t i = 0; i < n && !st; i++) {
      double request = t->value[O_REQUEST][i];
      if (request < 0 || request >= REQUEST_LIMIT)
        return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/samples/request' row %llu: %g is no request",
                       job->src.path, (unsigned long long)(start + i), request);
      st = room_for(o, (size_t)request, job, err);
      if (!st && t->value[O_ROWS][i] > 0) o->of[(size_t)request] = sample_overhead(t, i, h);
    }
  }
  return st;
}

static int by_factor(const void *a, const void *b) {
  const overhead *x = a, *y = b;
  double worst_x = fmax(x->dram, x->tlb), worst_y = fmax(y->dram, y->tlb);
  if (worst_x != worst_y) return worst_x < worst_y ? 1 : -1;
  return (x->request > y->request) - (x->request < y->request);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

typedef double (*factor_of)(const overhead *);
static double sectors_of(const overhead *o) {
  return o->sectors;
}
static double tlb_of(const overhead *o) {
  return o->tlb;
}
static double dram_of(const overhead *o) {
  return o->dram;
}

/* "median 1.2, worst 3.4" */
static kvr_word median_and_worst(const overheads *o, size_t n, factor_of of) {
  kvr_word w = {"unknown"};
  double *v = calloc(n ? n : 1, sizeof *v);
  for (size_t i = 0; v && i < n; i++) v[i] = of(&o->of[i]);
  if (v) qsort(v, n, sizeof *v, by_value);
  if (v && n) (void)snprintf(w.text, sizeof w.text, "median %.3g, worst %.3g", v[n / 2], v[n - 1]);
  free(v);
  return w;
}

static kv_status put_overheads(const kvr_job *job, overheads *o, kv_error *err) {
  FILE *f;
  size_t n = 0;
  double most = 1;
  kv_status st = kvr_job_open(job, "overhead.tsv", &f, err);
  if (st) return st;
  for (size_t i = 0; i < o->size; i++)
    if (o->of[i].rows > 0) o->of[n++] = o->of[i];
  if (n) qsort(o->of, n, sizeof *o->of, by_factor);
  size_t shown = n < SHOWN_REQUESTS ? n : SHOWN_REQUESTS;
  for (size_t i = 0; i < shown; i++) {
    char name[80];
    (void)snprintf(name, sizeof name, "request %.0f (%s rows)", o->of[i].request,
                   kvr_count(o->of[i].rows).text);
    kvr_put_cell(f, (double)i + 1);
    kvr_put_word(f, name);
    for (size_t k = 0; k < 3; k++) {
      double v = k == 0 ? o->of[i].sectors : k == 1 ? o->of[i].tlb : o->of[i].dram;
      kvr_put_cell(f, v);
      if (isfinite(v)) most = fmax(most, v);
    }
    fputc('\n', f);
  }
  kvr_put_number(job->vars, "OVER_SHOWN", (double)shown);
  kvr_put_number(job->vars, "OVER_ALL", (double)n);
  kvr_put_number(job->vars, "OVER_MOST", most);
  if (n == 0) kvr_put_finding(job, "FIND_OVERHEAD", "No running request was sampled.");
  else
    kvr_put_finding(job, "FIND_OVERHEAD",
                    "Times the least possible, over %zu request%s: sectors %s; 2-MiB pages %s; DRAM rows "
                    "(assumed size) %s.",
                    n, n == 1 ? "" : "s", median_and_worst(o, n, sectors_of).text,
                    median_and_worst(o, n, tlb_of).text, median_and_worst(o, n, dram_of).text);
  return kvr_job_close(job, &f, err);
}

static kv_status export_overhead(const kvr_job *job, const kvsim_head *h, kv_error *err) {
  kvr_table t;
  overheads o = {0};
  kv_status st = kvr_table_open(&job->src, "samples", sample_columns, O_COLUMNS, &t, err);
  if (!st) st = scan_samples(job, h, &t, &o, err);
  if (!st) st = put_overheads(job, &o, err);
  free(o.of);
  kvr_table_close(&t);
  return st;
}

/* ---- the map ---- */

enum { C_FREE, C_CACHED, C_LEFT, C_OTHER = C_LEFT + LEFT, C_SHARED, C_OWNER, C_COUNT = C_OWNER + OWNERS };
enum { F_STATE, F_OWNER, F_REFS, F_COLUMNS };
static const char *const final_columns[] = {"slot_state", "slot_owner", "slot_refs"};

/* Slots by request: of cached slots (who left them) or of live ones (who holds them). */
typedef struct holders {
  double *slots;
  size_t size;
  int32_t top[OWNERS]; /* the largest, -1 none */
  unsigned named;      /* how many of top get a class of their own */
} holders;

typedef struct pool_map {
  kvr_table t;
  holders cached, live;
  double slots[C_COUNT];
  uint64_t width, height, per_cell;
} pool_map;

typedef kv_status (*map_visit)(const kvr_job *job, pool_map *m, uint64_t start, uint64_t n, void *to,
                               kv_error *err);

static kv_status each_block(const kvr_job *job, pool_map *m, map_visit visit, void *to, kv_error *err) {
  kv_status st = KV_OK;
  uint64_t block = BLOCK - BLOCK % m->per_cell;
  if (block == 0) block = m->per_cell;
  for (uint64_t start = 0; start < m->t.rows && !st; start += block) {
    uint64_t n = m->t.rows - start < block ? m->t.rows - start : block;
    st = kvr_table_read(&job->src, &m->t, start, n, err);
    if (!st) st = visit(job, m, start, n, to, err);
  }
  return st;
}

static kv_status count_holder(const kvr_job *job, holders *h, size_t request, kv_error *err) {
  if (request >= h->size) {
    size_t size = request + request / 2 + 64;
    double *grown = realloc(h->slots, size * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
    for (size_t k = h->size; k < size; k++) grown[k] = 0;
    h->slots = grown;
    h->size = size;
  }
  h->slots[request]++;
  return KV_OK;
}

static kv_status count_holders(const kvr_job *job, pool_map *m, uint64_t start, uint64_t n, void *to,
                               kv_error *err) {
  (void)to;
  kv_status st = KV_OK;
  for (uint64_t i = 0; i < n && !st; i++) {
    double owner = m->t.value[F_OWNER][i], state = m->t.value[F_STATE][i];
    if (!(state >= 0 && state <= 2 && owner >= -1 && owner < REQUEST_LIMIT))
      return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/final' slot %llu: state %g, owner %g make no sense",
                     job->src.path, (unsigned long long)(start + i), state, owner);
    if (state > 0 && owner >= 0)
      st = count_holder(job, state < 2 ? &m->cached : &m->live, (size_t)owner, err);
  }
  return st;
}

static void choose_top(holders *h) {
  for (size_t k = 0; k < OWNERS; k++) {
    h->top[k] = -1;
    for (size_t r = 0; r < h->size && k < h->named; r++) {
      bool taken = false;
      for (size_t j = 0; j < k; j++) taken |= h->top[j] == (int32_t)r;
      if (!taken && h->slots[r] > 0 && (h->top[k] < 0 || h->slots[r] > h->slots[h->top[k]]))
        h->top[k] = (int32_t)r;
    }
  }
}

/* Place among the largest holders, or `named` where it is not among them. */
static unsigned rank_of(const holders *h, double owner) {
  for (unsigned k = 0; k < h->named; k++)
    if (h->top[k] >= 0 && owner == h->top[k]) return k;
  return h->named;
}

static unsigned class_of(const pool_map *m, uint64_t i) {
  double state = m->t.value[F_STATE][i];
  if (state < 1) return C_FREE;
  if (state >= 2 && m->t.value[F_REFS][i] > 1) return C_SHARED;
  const holders *h = state < 2 ? &m->cached : &m->live;
  unsigned rank = rank_of(h, m->t.value[F_OWNER][i]);
  if (state < 2) return rank < h->named ? C_LEFT + rank : C_CACHED;
  return rank < h->named ? C_OWNER + rank : C_OTHER;
}

/* A cell of several slots takes the class that most of them have. */
static kv_status put_cells(const kvr_job *job, pool_map *m, uint64_t start, uint64_t n, void *to,
                           kv_error *err) {
  (void)job, (void)start, (void)err;
  for (uint64_t i = 0; i < n; i += m->per_cell) {
    uint64_t count[C_COUNT] = {0};
    unsigned best = 0;
    for (uint64_t j = i; j < i + m->per_cell && j < n; j++) {
      unsigned class = class_of(m, j);
      m->slots[class]++;
      count[class]++;
    }
    for (unsigned k = 1; k < C_COUNT; k++)
      if (count[k] > count[best]) best = k;
    fputc((int)best, to);
  }
  return KV_OK;
}

/* Rows of 2^k slots, about twice as many columns as rows. */
static void map_shape(pool_map *m) {
  m->per_cell = (m->t.rows + MAP_CELLS - 1) / MAP_CELLS;
  if (m->per_cell == 0) m->per_cell = 1;
  uint64_t cells = (m->t.rows + m->per_cell - 1) / m->per_cell;
  m->width = 1;
  while (m->width * m->width < 2 * cells) m->width *= 2;
  m->height = (cells + m->width - 1) / m->width;
}

static void class_title(const pool_map *m, unsigned class, char *title, size_t size) {
  double share = m->t.rows ? 100 * m->slots[class] / (double)m->t.rows : 0;
  bool split = m->cached.top[0] >= 0, shared = m->live.top[0] >= 0;
  if (class >= C_OWNER)
    (void)snprintf(title, size, "live, request %d: %.1f %%", (int)m->live.top[class - C_OWNER], share);
  else if (class >= C_LEFT && class < C_OTHER)
    (void)snprintf(title, size, "cached, left by %d: %.1f %%", (int)m->cached.top[class - C_LEFT], share);
  else
    (void)snprintf(title, size, "%s: %.1f %%",
                   class == C_FREE     ? "free"
                   : class == C_CACHED ? split ? "cached, of others" : "cached"
                   : class == C_OTHER  ? shared ? "live, other requests" : "live"
                                       : "live, shared",
                   share);
}

static void put_map_variables(const kvr_job *job, const pool_map *m) {
  fprintf(job->vars, "array MAP_TITLE[%d]\narray MAP_SLOTS[%d]\n", C_COUNT, C_COUNT);
  for (unsigned k = 0; k < C_COUNT; k++) {
    char name[40], title[120];
    class_title(m, k, title, sizeof title);
    (void)snprintf(name, sizeof name, "MAP_TITLE[%u]", k + 1);
    kvr_put_text(job->vars, name, title);
    (void)snprintf(name, sizeof name, "MAP_SLOTS[%u]", k + 1);
    kvr_put_number(job->vars, name, m->slots[k]);
  }
  kvr_put_number(job->vars, "MAP_WIDTH", (double)m->width);
  kvr_put_number(job->vars, "MAP_HEIGHT", (double)m->height);
  kvr_put_number(job->vars, "MAP_PER_CELL", (double)m->per_cell);
  kvr_put_number(job->vars, "MAP_POOL", (double)m->t.rows);
  kvr_put_finding(
      job, "FIND_MAP",
      "Every slot of the pool at the end, in address order, left to right, then upwards; %s slots "
      "a row%s.",
      kvr_count((double)(m->width * m->per_cell)).text,
      m->per_cell > 1 ? ", a cell shows what most of its slots are" : "");
}

static kv_status put_map(const kvr_job *job, pool_map *m, kv_error *err) {
  FILE *f = NULL;
  kv_status st = each_block(job, m, count_holders, NULL, err);
  if (st) return st;
  choose_top(&m->cached);
  choose_top(&m->live);
  st = kvr_job_open(job, "map.bin", &f, err);
  if (!st) st = each_block(job, m, put_cells, f, err);
  uint64_t cells = (m->t.rows + m->per_cell - 1) / m->per_cell;
  for (uint64_t i = cells; f && i < m->width * m->height; i++) fputc(C_FREE, f); /* beyond the pool's end */
  if (!st) st = kvr_job_close(job, &f, err);
  if (f) (void)fclose(f);
  if (!st) put_map_variables(job, m);
  return st;
}

static kv_status export_map(const kvr_job *job, kv_error *err) {
  pool_map m = {.cached = {.named = LEFT}, .live = {.named = OWNERS}};
  kv_status st = kvr_table_open(&job->src, "final", final_columns, F_COLUMNS, &m.t, err);
  if (st) return st;
  map_shape(&m);
  st = put_map(job, &m, err);
  free(m.cached.slots);
  free(m.live.slots);
  kvr_table_close(&m.t);
  return st;
}

/* ---- the first page ---- */

static kv_status write_cover(const kvr_job *job, const kvsim_head *h, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", every[64] = "step";
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  if (h->every != 1) (void)snprintf(every, sizeof every, "%s steps", kvr_count(h->every).text);
  kv_status st = kvr_text_attribute(&job->src, "history", history, sizeof history, err);
  c->kind = "KV POOL REPLAY  ·  kvsim";
  (void)snprintf(c->title, sizeof c->title, "%s on %s", *h->trace ? h->trace : job->name,
                 *h->allocator ? h->allocator : "an unnamed allocator");
  memcpy(c->verdict, h->verdict, sizeof c->verdict);
  (void)snprintf(
      c->problem, sizeof c->problem,
      "The problem: attention reads every KV row of a request at each decode step. How far apart does this "
      "allocator leave those rows, and how many sectors, pages and DRAM rows does reading them touch beyond "
      "the least possible?");
  kvr_cover_row(c, "Trace", "%s", h->trace);
  kvr_cover_row(c, "SHA-256", "%s", h->sha);
  kvr_cover_row(c, "Origin", "%s", h->origin);
  kvr_cover_row(c, "Allocator", "%s, page size %s", *h->allocator ? h->allocator : "not recorded",
                kvr_count(h->page_size).text);
  kvr_cover_row(c, "Pool", "%s slots of %s (%s)", kvr_count(h->pool).text, kvr_bytes(h->row_bytes).text,
                kvr_bytes(h->pool * h->row_bytes).text);
  kvr_cover_row(c, "Work", "requests: %s, steps: %s, events: %s, slot operations: %s; sampled every %s",
                kvr_count(h->requests).text, kvr_count(h->steps).text, kvr_count(h->events).text,
                kvr_count(h->operations).text, every);
  kvr_cover_row(c, "Counted with",
                "sectors of %s, TLB pages of %s, DRAM rows of %s (assumed; no vendor publishes it)",
                kvr_bytes(h->sector).text, kvr_bytes(h->tlb).text, kvr_bytes(h->dram_row).text);
  kvr_cover_row(c, "GPU, status",
                "no GPU took part: positions and counts are exact for the trace; nothing here is a time");
  kvr_cover_row(c, "Not measured",
                "run time of any kernel, hit rates, bandwidth: `roofline --layout` takes a layout of "
                "this replay further");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(job, c, err);
  free(c);
  return st;
}

static kv_status put_variables(const kvr_job *job, const kvsim_head *h, kv_error *err) {
  const char *mark = !strncmp(h->origin, "recorded", 8)    ? "recorded trace, replayed"
                     : !strncmp(h->origin, "simulated", 9) ? "simulated trace, replayed"
                                                           : "replayed";
  kvr_put_number(job->vars, "POOL", h->pool);
  kvr_put_number(job->vars, "ROW_BYTES", h->row_bytes);
  kvr_put_number(job->vars, "TLB_BYTES", h->tlb);
  kvr_put_number(job->vars, "SECTOR_BYTES", h->sector);
  kvr_put_number(job->vars, "DRAM_ROW_BYTES", h->dram_row);
  kvr_put_text(job->vars, "REPORT", "kvsim");
  return kvr_put_footer(job, "", mark, err);
}

kv_status kvr_export_kvsim(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"},
                                   {"kvsim-pool.gp", "pool"},
                                   {"kvsim-fragmentation.gp", "fragmentation"},
                                   {"kvsim-runs.gp", "run-lengths"},
                                   {"kvsim-milestones.gp", "milestones"},
                                   {"kvsim-map.gp", "pool-map"},
                                   {"kvsim-overhead.gp", "overhead"}};
  kvsim_head h;
  job->pages = pages;
  job->page_count = sizeof pages / sizeof *pages;
  kv_status st = read_head(job, &h, err);
  if (!st && !(h.pool > 0 && h.row_bytes > 0 && h.sector > 0 && h.tlb > 0 && h.dram_row > 0))
    st = kv_fail(err, KV_ERR_INPUT,
                 "%s: attributes pool_size, row_bytes, sector_bytes, tlb_page_bytes, dram_row_bytes "
                 "must all be there and above 0",
                 job->src.path);
  if (!st) st = put_variables(job, &h, err);
  if (!st) st = write_cover(job, &h, err);
  if (!st) st = export_pool(job, &h, err);
  if (!st) st = export_scattered(job, err);
  if (!st) st = export_milestones(job, err);
  if (!st) st = export_map(job, err);
  if (!st) st = export_overhead(job, &h, err);
  return st;
}
