/* kvr_roofline.c - a roofline-1 dataset as tables for gnuplot.
 *
 *   points.tsv  a block a series (kernel x variant), by prefix; columns as in enum column_of_points below
 *   bytes.tsv   a row a kernel at its longest prefix: name, factors over the useful bytes, bytes
 *
 * A variant is a layout, and where points differ in heads, queries or batch these too.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_job.h"
#include "kvr_text.h"

#define SERIES_LIMIT 48u
#define VARIANT_LIMIT 12u
#define KERNEL_LIMIT 14u
#define ROOFS 4u

enum {
  R_KERNEL, R_PREFIX, R_HEADS, R_QUERIES, R_BATCH, R_LAYOUT, R_USEFUL, R_FLOPS, R_INTENSITY, R_DRAM, R_L2, R_LINK,
  R_FLOOR, R_T1, R_T2, R_T3, R_T4, R_T5, R_T6, R_T7, R_TIME, R_MEASURED, R_LOW, R_HIGH, R_BANDWIDTH, R_COLUMNS
};
static const char *const point_columns[] = {
    "kernel", "prefix", "heads", "queries", "batch", "layout", "useful_bytes", "useful_flops", "intensity", "dram_bytes",
    "l2_bytes", "link_bytes", "floor", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "time", "measured", "measured_low",
    "measured_high", "effective_bandwidth"};

/* A column of strings with its number of rows. */
typedef struct words {
  char *text;
  size_t width;
  uint64_t n;
} words;

static const char *word_at(const words *w, uint64_t i) { return w->text + i * w->width; }

typedef struct variant {
  double layout, heads, queries, batch;
} variant;

typedef struct series {
  uint64_t kernel;
  size_t variant;
  size_t points;
} series;

/* A roof: the best-known ceiling of one resource of the whole chip. */
typedef struct roof {
  uint64_t row; /* of /ceilings */
  double value;
} roof;

typedef struct roofline {
  const kvr_job *job;
  char gpu[128], gpu_name[256], status[512], dtype[64], layout_source[512], verdict[2048];
  double heads, queries, latent, rope, row_bytes, batch, layers;
  kvr_table points, ceilings;
  words kernel, layout, resource, ceiling, scope, unit, kind, source, gpu_row, gpu_value;
  uint64_t *order; /* points by kernel, variant, prefix */
  variant variants[VARIANT_LIMIT];
  size_t *variant_of; /* by point */
  size_t variant_count, series_count;
  series of[SERIES_LIMIT];
  uint64_t left_out; /* points beyond the limits */
  roof bandwidth[ROOFS], compute[ROOFS];
  size_t bandwidths, computes;
} roofline;

/* ---- reading ---- */

static kv_status read_attributes(roofline *r, kv_error *err) {
  const kvr_source *src = &r->job->src;
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"gpu", r->gpu, sizeof r->gpu},          {"gpu_name", r->gpu_name, sizeof r->gpu_name},
               {"status", r->status, sizeof r->status}, {"dtype", r->dtype, sizeof r->dtype},
               {"layout_source", r->layout_source, sizeof r->layout_source},
               {"verdict", r->verdict, sizeof r->verdict}};
  const struct {
    const char *name;
    double *value;
  } numbers[] = {{"heads", &r->heads},         {"queries", &r->queries}, {"latent", &r->latent}, {"rope", &r->rope},
                 {"row_bytes", &r->row_bytes}, {"batch", &r->batch},     {"layers", &r->layers}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(src, texts[i].name, texts[i].text, texts[i].size, err);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kvr_number_attribute(src, numbers[i].name, numbers[i].value, err);
  return st;
}

static kv_status read_words(roofline *r, kv_error *err) {
  static const char *const value[] = {"value"};
  kv_status st = kvr_table_load(&r->job->src, "ceilings", value, 1, &r->ceilings, err);
  const struct {
    const char *name;
    words *to;
    uint64_t expect;
  } columns[] = {{"kernels/name", &r->kernel, UINT64_MAX},
                 {"layouts/name", &r->layout, UINT64_MAX},
                 {"resources/name", &r->resource, UINT64_MAX},
                 {"ceilings/name", &r->ceiling, r->ceilings.rows},
                 {"ceilings/scope", &r->scope, r->ceilings.rows},
                 {"ceilings/unit", &r->unit, r->ceilings.rows},
                 {"ceilings/kind", &r->kind, r->ceilings.rows},
                 {"ceilings/source", &r->source, r->ceilings.rows},
                 {"gpu/name", &r->gpu_row, UINT64_MAX},
                 {"gpu/value", &r->gpu_value, UINT64_MAX}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns && !st; i++)
    st = kvr_strings(&r->job->src, columns[i].name, columns[i].expect, &columns[i].to->text, &columns[i].to->width,
                     &columns[i].to->n, err);
  if (!st && r->gpu_row.n != r->gpu_value.n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: datasets '/gpu/name' and '/gpu/value' differ in length", r->job->src.path);
  return st;
}

static kv_status check_indices(const roofline *r, kv_error *err) {
  const struct {
    size_t column;
    const words *of;
  } index[] = {{R_KERNEL, &r->kernel}, {R_LAYOUT, &r->layout}};
  for (size_t k = 0; k < 2; k++)
    for (uint64_t i = 0; i < r->points.rows; i++) {
      double v = r->points.value[index[k].column][i];
      if (!(v >= 0 && v < (double)index[k].of->n))
        return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/%s' row %llu: %g names none of the %llu", r->job->src.path,
                       point_columns[index[k].column], (unsigned long long)i, v, (unsigned long long)index[k].of->n);
    }
  return KV_OK;
}

static void close_roofline(roofline *r) {
  words *all[] = {&r->kernel, &r->layout, &r->resource, &r->ceiling, &r->scope, &r->unit, &r->kind, &r->source,
                  &r->gpu_row, &r->gpu_value};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->text);
  free(r->order);
  free(r->variant_of);
  kvr_table_close(&r->points);
  kvr_table_close(&r->ceilings);
}

/* ---- series ---- */

static size_t find_variant(roofline *r, uint64_t i) {
  double *const *v = r->points.value;
  for (size_t k = 0; k < r->variant_count; k++) {
    const variant *x = &r->variants[k];
    if (x->layout == v[R_LAYOUT][i] && x->heads == v[R_HEADS][i] && x->queries == v[R_QUERIES][i] &&
        x->batch == v[R_BATCH][i])
      return k;
  }
  if (r->variant_count == VARIANT_LIMIT) return VARIANT_LIMIT;
  r->variants[r->variant_count] = (variant){v[R_LAYOUT][i], v[R_HEADS][i], v[R_QUERIES][i], v[R_BATCH][i]};
  return r->variant_count++;
}

static const roofline *sorting; /* qsort has no context; one report is made at a time (HDF5 is single-threaded too) */
static int by_series(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  const double *kernel = sorting->points.value[R_KERNEL], *prefix = sorting->points.value[R_PREFIX];
  const size_t *of = sorting->variant_of;
  if (kernel[x] != kernel[y]) return kernel[x] < kernel[y] ? -1 : 1;
  if (of[x] != of[y]) return of[x] < of[y] ? -1 : 1;
  if (prefix[x] != prefix[y]) return prefix[x] < prefix[y] ? -1 : 1;
  return (x > y) - (x < y);
}

static kv_status make_series(roofline *r, kv_error *err) {
  uint64_t n = r->points.rows, kept = 0;
  r->order = calloc((size_t)n + 1, sizeof *r->order);
  r->variant_of = calloc((size_t)n + 1, sizeof *r->variant_of);
  if (!r->order || !r->variant_of) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->job->src.path);
  for (uint64_t i = 0; i < n; i++) {
    r->variant_of[i] = find_variant(r, i);
    if (r->variant_of[i] < VARIANT_LIMIT && r->points.value[R_KERNEL][i] < KERNEL_LIMIT) r->order[kept++] = i;
  }
  sorting = r;
  qsort(r->order, (size_t)kept, sizeof *r->order, by_series);
  sorting = NULL;
  r->left_out = n - kept;
  for (uint64_t i = 0; i < kept; i++) {
    uint64_t kernel = (uint64_t)r->points.value[R_KERNEL][r->order[i]];
    size_t v = r->variant_of[r->order[i]];
    const series *last = r->series_count ? &r->of[r->series_count - 1] : NULL;
    if (!last || last->kernel != kernel || last->variant != v) {
      if (r->series_count == SERIES_LIMIT) {
        r->left_out += kept - i;
        break;
      }
      r->of[r->series_count++] = (series){.kernel = kernel, .variant = v};
    }
    r->of[r->series_count - 1].points++;
  }
  return KV_OK;
}

static double column(const roofline *r, size_t c, uint64_t i) { return r->points.value[c][i]; }

/* Bytes of KV that the effective bandwidth counts: from the dataset's own ratio, else rows x size. */
static double kv_bytes(const roofline *r, uint64_t i) {
  double used = isfinite(column(r, R_MEASURED, i)) ? column(r, R_MEASURED, i) : column(r, R_TIME, i);
  double bytes = column(r, R_BANDWIDTH, i) * used;
  return isfinite(bytes) ? bytes : column(r, R_PREFIX, i) * column(r, R_BATCH, i) * r->row_bytes;
}

static double positive(double v) { return v > 0 ? v : NAN; } /* what a log axis can show */

/* Time columns in the order of the table: measured, its low and high end, modelled, floor. */
static const size_t time_columns[] = {R_MEASURED, R_LOW, R_HIGH, R_TIME, R_FLOOR};

/* 1 prefix, 2 intensity, 3-7 TFLOP/s, 8-12 GB/s, 13-17 us (measured, low, high, modelled, floor each), 18 T2, 19 T4 us,
 * 20 relative size of the mark. Low and high are of the quantity shown: the longest time is the lowest rate. */
static void put_point(const roofline *r, FILE *f, uint64_t i, double mark) {
  static const size_t rate_columns[] = {R_MEASURED, R_HIGH, R_LOW, R_TIME, R_FLOOR};
  kvr_put_cell(f, positive(column(r, R_PREFIX, i)));
  kvr_put_cell(f, positive(column(r, R_INTENSITY, i)));
  for (size_t k = 0; k < 5; k++) kvr_put_cell(f, positive(column(r, R_FLOPS, i) / column(r, rate_columns[k], i) * 1e-12));
  for (size_t k = 0; k < 5; k++) kvr_put_cell(f, positive(kv_bytes(r, i) / column(r, rate_columns[k], i) * 1e-9));
  for (size_t k = 0; k < 5; k++) kvr_put_cell(f, positive(column(r, time_columns[k], i) * 1e6));
  kvr_put_cell(f, positive(column(r, R_T2, i) * 1e6));
  kvr_put_cell(f, positive(column(r, R_T4, i) * 1e6));
  kvr_put_cell(f, mark);
  fputc('\n', f);
}

static void put_series_name(const roofline *r, const char *array, size_t i, double value) {
  char name[40];
  (void)snprintf(name, sizeof name, "%s[%zu]", array, i + 1);
  kvr_put_number(r->job->vars, name, value);
}

static kv_status put_points(const roofline *r, kv_error *err) {
  FILE *f, *vars = r->job->vars;
  kv_status st = kvr_job_open(r->job, "points.tsv", &f, err);
  if (st) return st;
  size_t n = r->series_count ? r->series_count : 1;
  fprintf(vars, "array SERIES_KERNEL[%zu]\narray SERIES_VARIANT[%zu]\n", n, n);
  kvr_put_number(vars, "SERIES", (double)r->series_count);
  uint64_t at = 0;
  for (size_t s = 0; s < r->series_count; s++) {
    put_series_name(r, "SERIES_KERNEL", s, (double)r->of[s].kernel);
    put_series_name(r, "SERIES_VARIANT", s, (double)r->of[s].variant);
    for (size_t k = 0; k < r->of[s].points; k++)
      put_point(r, f, r->order[at++], 0.55 + 0.75 * (double)(k + 1) / (double)r->of[s].points);
    fputs("\n\n", f);
  }
  return kvr_job_close(r->job, &f, err);
}

/* Names cut to what the key has room for. */
static void put_name(FILE *f, const char *array, size_t i, const char *text, double width) {
  char name[40], line[512];
  (void)snprintf(name, sizeof name, "%s[%zu]", array, i + 1);
  (void)kvr_wrap(text, 10, false, width, 1, line, sizeof line);
  kvr_put_text(f, name, line);
}

static void name_variant(const roofline *r, size_t k, char *text, size_t size) {
  const variant *v = &r->variants[k];
  bool heads = false, queries = false, batch = false;
  for (size_t j = 0; j < r->variant_count; j++) {
    heads |= r->variants[j].heads != v->heads;
    queries |= r->variants[j].queries != v->queries;
    batch |= r->variants[j].batch != v->batch;
  }
  char more[3][40] = {"", "", ""};
  if (heads) (void)snprintf(more[0], sizeof more[0], "%.0f heads, ", v->heads);
  if (queries) (void)snprintf(more[1], sizeof more[1], "%.0f queries, ", v->queries);
  if (batch) (void)snprintf(more[2], sizeof more[2], "batch %.0f, ", v->batch);
  (void)snprintf(text, size, "%s%s%s%s", more[0], more[1], more[2], word_at(&r->layout, (uint64_t)v->layout));
}

static void put_names(const roofline *r) {
  FILE *f = r->job->vars;
  uint64_t kernels = r->kernel.n < KERNEL_LIMIT ? r->kernel.n : KERNEL_LIMIT;
  fprintf(f, "array KERNEL_NAME[%llu]\n", (unsigned long long)(kernels ? kernels : 1));
  kvr_put_number(f, "KERNELS", (double)kernels);
  for (uint64_t k = 0; k < kernels; k++) put_name(f, "KERNEL_NAME", (size_t)k, word_at(&r->kernel, k), 142);
  fprintf(f, "array VARIANT_NAME[%zu]\n", r->variant_count ? r->variant_count : 1);
  kvr_put_number(f, "VARIANTS", (double)r->variant_count);
  for (size_t k = 0; k < r->variant_count; k++) {
    char text[512];
    name_variant(r, k, text, sizeof text);
    put_name(f, "VARIANT_NAME", k, text, 142);
  }
}

/* ---- ranges and counts of what there is ---- */

typedef struct extent {
  double low, high;
} extent;

static void extend(extent *e, double v) {
  if (!(v > 0) || !isfinite(v)) return;
  if (!(e->low <= v)) e->low = v;
  if (!(e->high >= v)) e->high = v;
}

static void put_extent(FILE *f, const char *low, const char *high, extent e) {
  kvr_put_number(f, low, e.low);
  kvr_put_number(f, high, e.high);
}

static void put_extents(const roofline *r) {
  extent none = {NAN, NAN}, prefix = none, intensity = none, rate = none, bandwidth = none, time = none;
  double measured = 0, modelled = 0, zero = 0;
  for (uint64_t i = 0; i < r->points.rows; i++) {
    extend(&prefix, column(r, R_PREFIX, i));
    extend(&intensity, column(r, R_INTENSITY, i));
    zero += column(r, R_PREFIX, i) == 0;
    measured += isfinite(column(r, R_MEASURED, i));
    modelled += isfinite(column(r, R_TIME, i));
    for (size_t k = 0; k < 5; k++) {
      double t = column(r, time_columns[k], i);
      extend(&time, t * 1e6);
      extend(&rate, column(r, R_FLOPS, i) / t * 1e-12);
      extend(&bandwidth, kv_bytes(r, i) / t * 1e-9);
    }
  }
  FILE *f = r->job->vars;
  put_extent(f, "PREFIX_LOW", "PREFIX_HIGH", prefix);
  put_extent(f, "INTENSITY_LOW", "INTENSITY_HIGH", intensity);
  put_extent(f, "RATE_LOW", "RATE_HIGH", rate);
  put_extent(f, "BANDWIDTH_LOW", "BANDWIDTH_HIGH", bandwidth);
  put_extent(f, "TIME_LOW", "TIME_HIGH", time);
  kvr_put_number(f, "MEASURED", measured);
  kvr_put_number(f, "MODELLED", modelled);
  kvr_put_number(f, "POINTS", (double)r->points.rows);
  kvr_put_number(f, "AT_ZERO", zero);
  kvr_put_number(f, "LEFT_OUT", (double)r->left_out);
}

/* ---- ceilings ---- */

static int kind_rank(const char *kind) {
  return !strncmp(kind, "measured", 8) ? 3 : !strncmp(kind, "calibrated", 10) ? 2 : !strcmp(kind, "spec") ? 1 : 0;
}

/* The roof of a name, or NULL where that resource is not to be drawn (nothing known, or the list is full). */
static roof *roof_of(const roofline *r, roof *list, size_t *n, uint64_t row) {
  for (size_t k = 0; k < *n; k++)
    if (!strcmp(word_at(&r->ceiling, list[k].row), word_at(&r->ceiling, row)))
      return kind_rank(word_at(&r->kind, row)) > kind_rank(word_at(&r->kind, list[k].row)) ? &list[k] : NULL;
  return *n < ROOFS ? &list[(*n)++] : NULL;
}

/* DRAM and L2 are drawn as bandwidths, tensor-core rates as roofs; all the rest is in the table of the last page. */
static void choose_roofs(roofline *r) {
  static const char *const memories[] = {"dram", "l2"};
  for (uint64_t i = 0; i < r->ceilings.rows; i++) {
    double value = r->ceilings.value[0][i];
    const char *name = word_at(&r->ceiling, i);
    roof *to = NULL;
    if (!(value > 0) || strcmp(word_at(&r->scope, i), "chip") != 0) continue;
    if (!strcmp(word_at(&r->unit, i), "B/s") && (!strcmp(name, memories[0]) || !strcmp(name, memories[1])))
      to = roof_of(r, r->bandwidth, &r->bandwidths, i);
    else if (!strcmp(word_at(&r->unit, i), "FLOP/s") && strcmp(name, "fma") != 0 && strcmp(name, "sfu") != 0)
      to = roof_of(r, r->compute, &r->computes, i);
    if (to) *to = (roof){.row = i, .value = value};
  }
}

static void put_roofs(const roofline *r, const char *prefix, const roof *list, size_t n, double scale) {
  char name[40], title[200];
  FILE *f = r->job->vars;
  fprintf(f, "array %s_VALUE[%zu]\narray %s_TITLE[%zu]\n", prefix, n ? n : 1, prefix, n ? n : 1);
  (void)snprintf(name, sizeof name, "%s_COUNT", prefix);
  kvr_put_number(f, name, (double)n);
  if (n == 0) fprintf(f, "%s_VALUE[1] = NaN\n%s_TITLE[1] = ''\n", prefix, prefix); /* gnuplot looks at it all the same */
  for (size_t k = 0; k < n; k++) {
    (void)snprintf(name, sizeof name, "%s_VALUE[%zu]", prefix, k + 1);
    kvr_put_number(f, name, list[k].value * scale);
    (void)snprintf(name, sizeof name, "%s_TITLE[%zu]", prefix, k + 1);
    (void)snprintf(title, sizeof title, "%.24s %s (%.24s)", word_at(&r->ceiling, list[k].row),
                   kvr_si(list[k].value, word_at(&r->unit, list[k].row)).text, word_at(&r->kind, list[k].row));
    kvr_put_text(f, name, title);
  }
}

static double roof_named(const roofline *r, const roof *list, size_t n, const char *name) {
  for (size_t k = 0; k < n; k++)
    if (!strcmp(word_at(&r->ceiling, list[k].row), name)) return list[k].value;
  return NAN;
}

static double highest(const roof *list, size_t n) {
  double v = NAN;
  for (size_t k = 0; k < n; k++) v = fmax(v, list[k].value);
  return v;
}

/* ---- findings ---- */

static double best_time(const roofline *r, uint64_t i) {
  return isfinite(column(r, R_MEASURED, i)) ? column(r, R_MEASURED, i) : column(r, R_TIME, i);
}

typedef struct ends {
  uint64_t fast, slow; /* UINT64_MAX: no time at all */
} ends;

/* Fastest and slowest point at the longest prefix that has times. */
static ends find_ends(const roofline *r) {
  ends e = {UINT64_MAX, UINT64_MAX};
  double longest = -1;
  for (uint64_t i = 0; i < r->points.rows; i++)
    if (best_time(r, i) > 0 && column(r, R_PREFIX, i) > longest) longest = column(r, R_PREFIX, i);
  for (uint64_t i = 0; i < r->points.rows; i++) {
    double t = best_time(r, i);
    if (!(t > 0) || column(r, R_PREFIX, i) != longest) continue;
    if (e.fast == UINT64_MAX || t < best_time(r, e.fast)) e.fast = i;
    if (e.slow == UINT64_MAX || t > best_time(r, e.slow)) e.slow = i;
  }
  return e;
}

static const char *kernel_of(const roofline *r, uint64_t i) {
  return word_at(&r->kernel, (uint64_t)column(r, R_KERNEL, i));
}

static const char *told(const roofline *r, uint64_t i) {
  return isfinite(column(r, R_MEASURED, i)) ? "measured" : "modelled";
}

static void find_times(const roofline *r) {
  ends e = find_ends(r);
  if (e.fast == UINT64_MAX) {
    kvr_put_finding(r->job, "FIND_TIME", "No measured and no modelled time in this dataset: floors only.");
    kvr_put_finding(r->job, "FIND_BANDWIDTH", "No measured and no modelled time in this dataset: floors only.");
    return;
  }
  kvr_put_finding(r->job, "FIND_TIME",
                  "At prefix %s: fastest %s, %s (%s, %.1f times its floor); slowest %s, %s (%s, %.1f times its floor).",
                  kvr_count(column(r, R_PREFIX, e.fast)).text, kernel_of(r, e.fast),
                  kvr_si(best_time(r, e.fast) * 1e6, "us").text, told(r, e.fast),
                  best_time(r, e.fast) / column(r, R_FLOOR, e.fast), kernel_of(r, e.slow),
                  kvr_si(best_time(r, e.slow) * 1e6, "us").text, told(r, e.slow),
                  best_time(r, e.slow) / column(r, R_FLOOR, e.slow));
  double dram = roof_named(r, r->bandwidth, r->bandwidths, "dram");
  kvr_put_finding(r->job, "FIND_BANDWIDTH",
                  "Useful KV bytes over time, at prefix %s: %s %s (%s), %s %s (%s). DRAM ceiling: %s.",
                  kvr_count(column(r, R_PREFIX, e.fast)).text, kernel_of(r, e.fast),
                  kvr_si(kv_bytes(r, e.fast) / best_time(r, e.fast), "B/s").text, told(r, e.fast), kernel_of(r, e.slow),
                  kvr_si(kv_bytes(r, e.slow) / best_time(r, e.slow), "B/s").text, told(r, e.slow),
                  kvr_si(dram, "B/s").text);
}

static void find_ridge(const roofline *r) {
  double dram = roof_named(r, r->bandwidth, r->bandwidths, "dram"), mma = highest(r->compute, r->computes);
  double ridge = mma / dram;
  extent e = {NAN, NAN};
  for (uint64_t i = 0; i < r->points.rows; i++) extend(&e, column(r, R_INTENSITY, i));
  kvr_put_number(r->job->vars, "RIDGE", ridge);
  if (!isfinite(ridge))
    kvr_put_finding(r->job, "FIND_ROOFLINE",
                    "DRAM bandwidth or tensor-core rate of this GPU is not known, so there is no ridge point.");
  else if (!isfinite(e.high))
    kvr_put_finding(r->job, "FIND_ROOFLINE", "Ridge point at %.0f FLOP/B. There is no point to compare with it.", ridge);
  else
    kvr_put_finding(r->job, "FIND_ROOFLINE",
                    "Ridge point at %.0f FLOP/B; the problem has %.0f to %.0f FLOP per useful byte, so its floor is set by "
                    "%s. Each string of marks is one kernel, larger marks for longer prefixes; kernels stand side by side.",
                    ridge, e.low, e.high,
                    e.high < ridge ? "memory" : e.low > ridge ? "arithmetic" : "memory or arithmetic, depending on the point");
}

/* ---- bytes moved ---- */

static kv_status put_bytes(const roofline *r, kv_error *err) {
  static const size_t level[] = {R_DRAM, R_L2, R_LINK};
  FILE *f;
  double rows = 0, most = 1, worst = 0;
  uint64_t at = 0, worst_row = UINT64_MAX;
  size_t worst_level = 0;
  kv_status st = kvr_job_open(r->job, "bytes.tsv", &f, err);
  if (st) return st;
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++) {
    uint64_t i = r->order[at + r->of[s].points - 1];
    double useful = column(r, R_USEFUL, i);
    if ((s && r->of[s - 1].kernel == r->of[s].kernel) || !(useful > 0)) continue; /* first variant only */
    kvr_put_cell(f, ++rows);
    char name[512];
    (void)kvr_wrap(kernel_of(r, i), 10.5, false, 140, 1, name, sizeof name);
    kvr_put_word(f, name);
    for (size_t k = 0; k < 3; k++) {
      double factor = positive(column(r, level[k], i) / useful);
      char text[80] = "";
      kvr_put_cell(f, factor);
      if (isfinite(factor)) {
        most = fmax(most, factor);
        (void)snprintf(text, sizeof text, "%.2f x  (%s)", factor, kvr_bytes(column(r, level[k], i)).text);
      }
      if (isfinite(factor) && factor > worst) worst = factor, worst_row = i, worst_level = k;
      kvr_put_word(f, text);
    }
    fputc('\n', f);
  }
  static const char *const names[] = {"from DRAM", "out of L2", "over the L2-to-SM link"};
  kvr_put_number(r->job->vars, "BYTE_ROWS", rows);
  kvr_put_number(r->job->vars, "BYTE_MOST", most);
  if (worst_row == UINT64_MAX)
    kvr_put_finding(r->job, "FIND_BYTES", "No byte counts in this dataset.");
  else
    kvr_put_finding(r->job, "FIND_BYTES",
                    "Each kernel at its longest prefix. Most redundant: %s moves %.1f times the useful bytes %s (%s for %s "
                    "useful, prefix %s).", kernel_of(r, worst_row), worst, names[worst_level],
                    kvr_bytes(column(r, level[worst_level], worst_row)).text,
                    kvr_bytes(column(r, R_USEFUL, worst_row)).text, kvr_count(column(r, R_PREFIX, worst_row)).text);
  return kvr_job_close(r->job, &f, err);
}

/* ---- the table of ceilings ---- */

#define TABLE_ROWS 19u

static void missing_values(const roofline *r, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (uint64_t i = 0; i < r->gpu_row.n && at + 80 < size; i++)
    if (!*word_at(&r->gpu_value, i))
      at += (size_t)snprintf(text + at, size - at, "%s%.60s", at ? ", " : "", word_at(&r->gpu_row, i));
}

static void put_ceiling_row(FILE *f, double y, const char *const cell[5], bool bold) {
  static const double x[] = {36, 126, 186, 306, 406}, width[] = {86, 56, 116, 96, 400};
  for (size_t k = 0; k < 5; k++) {
    char line[512];
    const kvr_label label = {.x = x[k], .y = y, .size = 10.5, .bold = bold, .colour = bold ? "#333333" : "#000000"};
    (void)kvr_wrap(cell[k], 10.5, bold, width[k], 1, line, sizeof line);
    kvr_put_label(f, &label, line);
  }
}

static kv_status put_ceiling_table(const roofline *r, kv_error *err) {
  static const char *const head[5] = {"resource", "scope", "ceiling", "kind", "source"};
  FILE *f;
  char text[1600], lines[1800];
  kv_status st = kvr_job_open(r->job, "ceiling-labels.gp", &f, err);
  if (st) return st;
  double y = 90;
  if (r->ceilings.rows) put_ceiling_row(f, y, head, true);
  uint64_t shown = r->ceilings.rows < TABLE_ROWS ? r->ceilings.rows : TABLE_ROWS;
  for (uint64_t i = 0; i < shown; i++) {
    kvr_word value = kvr_si(r->ceilings.value[0][i], word_at(&r->unit, i));
    const char *const cell[5] = {word_at(&r->ceiling, i), word_at(&r->scope, i), value.text, word_at(&r->kind, i),
                                 word_at(&r->source, i)};
    put_ceiling_row(f, y += 16.5, cell, false);
  }
  missing_values(r, text, sizeof text);
  (void)snprintf(lines, sizeof lines, "Missing in the description of this GPU: %s.", *text ? text : "nothing");
  (void)kvr_wrap(lines, 10.5, false, KVR_PAGE_WIDTH - 72, 3, text, sizeof text);
  const kvr_label label = {.x = 36, .y = y + 36, .size = 10.5, .bold = false, .colour = "#000000"};
  kvr_put_label(f, &label, text);
  kvr_put_number(r->job->vars, "CEILINGS", (double)r->ceilings.rows);
  kvr_put_finding(r->job, "FIND_CEILINGS", "What this report measures kernels against%s. Nothing was filled in for a value "
                  "that nobody published or measured.", shown < r->ceilings.rows ? " (the first rows of a longer table)" : "");
  return kvr_job_close(r->job, &f, err);
}

/* ---- the first page ---- */

static void cover_counts(const roofline *r, kvr_cover *c) {
  uint64_t measured = 0, modelled = 0, neither = 0;
  for (uint64_t i = 0; i < r->points.rows; i++) {
    bool m = isfinite(column(r, R_MEASURED, i)), t = isfinite(column(r, R_TIME, i));
    measured += m;
    modelled += t;
    neither += !m && !t;
  }
  kvr_cover_row(c, "Points", "%s: %s with a measured time, %s with a modelled one, %s with a floor only",
                kvr_count((double)r->points.rows).text, kvr_count((double)measured).text,
                kvr_count((double)modelled).text, kvr_count((double)neither).text);
}

static void cover_kernels(const roofline *r, kvr_cover *c) {
  char text[1000] = "";
  size_t at = 0;
  for (uint64_t k = 0; k < r->kernel.n && at + 80 < sizeof text; k++)
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%.60s", at ? ", " : "", word_at(&r->kernel, k));
  kvr_cover_row(c, "Kernels", "%s", text);
}

static void cover_roofs(const roofline *r, kvr_cover *c) {
  char text[800] = "";
  size_t at = 0;
  for (size_t k = 0; k < r->bandwidths + r->computes; k++) {
    const roof *f = k < r->bandwidths ? &r->bandwidth[k] : &r->compute[k - r->bandwidths];
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%.24s %s (%.24s)", at ? ", " : "",
                           word_at(&r->ceiling, f->row), kvr_si(f->value, word_at(&r->unit, f->row)).text,
                           word_at(&r->kind, f->row));
  }
  kvr_cover_row(c, "Roofs", "%s", *text ? text : "none known");
}

static kv_status write_cover(const roofline *r, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", driver[200] = "", clocks[200] = "", missing[1000];
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->job->src.path);
  kv_status st = kvr_text_attribute(&r->job->src, "history", history, sizeof history, err);
  if (!st) st = kvr_text_attribute(&r->job->src, "driver", driver, sizeof driver, err);
  if (!st) st = kvr_text_attribute(&r->job->src, "clocks", clocks, sizeof clocks, err);
  c->kind = "VERIFY ATTENTION AGAINST THE ROOFLINE  ·  roofline";
  (void)snprintf(c->title, sizeof c->title, "%s: %.0f queries x %.0f heads", *r->gpu_name ? r->gpu_name : r->gpu, r->queries,
                 r->heads);
  memcpy(c->verdict, r->verdict, sizeof c->verdict);
  (void)snprintf(c->problem, sizeof c->problem,
                 "The problem: %.0f tree queries, %.0f heads on this GPU, batch %.0f, against a prefix of KV rows of "
                 "%.0f + %.0f values (%s, %s a row), %.0f layers. How far is each kernel from the roofline?", r->queries,
                 r->heads, r->batch, r->latent, r->rope, *r->dtype ? r->dtype : "type not recorded",
                 kvr_bytes(r->row_bytes).text, r->layers);
  missing_values(r, missing, sizeof missing);
  kvr_cover_row(c, "GPU", "%s (%s)", *r->gpu_name ? r->gpu_name : "not recorded", r->gpu);
  kvr_cover_row(c, "Status", "%s", r->status);
  if (*driver || *clocks) kvr_cover_row(c, "Driver, clocks", "%s  %s", driver, clocks);
  cover_roofs(r, c);
  cover_kernels(r, c);
  cover_counts(r, c);
  kvr_cover_row(c, "Layouts", "%s", r->layout_source);
  kvr_cover_row(c, "Not measured", "%s",
                strncmp(r->status, "measured", 8) ? "nothing: every figure is modelled from the description of the GPU"
                                                  : "points without a measured mark; counters unless a page shows them");
  kvr_cover_row(c, "Not known", "%s", *missing ? missing : "nothing is missing in the description of this GPU");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(r->job, c, err);
  free(c);
  return st;
}

static kv_status export_all(roofline *r, kv_error *err) {
  FILE *f = r->job->vars;
  choose_roofs(r);
  kv_status st = make_series(r, err);
  if (st) return st;
  kvr_put_text(f, "REPORT", "roofline");
  put_names(r);
  put_extents(r);
  put_roofs(r, "BW", r->bandwidth, r->bandwidths, 1e-9);
  put_roofs(r, "FL", r->compute, r->computes, 1e-12);
  find_ridge(r);
  find_times(r);
  st = put_points(r, err);
  if (!st) st = put_bytes(r, err);
  if (!st) st = put_ceiling_table(r, err);
  if (!st) st = write_cover(r, err);
  if (!st)
    st = kvr_put_footer(r->job, *r->gpu_name ? r->gpu_name : r->gpu, *r->status ? r->status : "status not recorded", err);
  return st;
}

kv_status kvr_export_roofline(kvr_job *job, kv_error *err) {
  static const kvr_page pages[] = {{"cover.gp", "summary"},          {"roofline-roof.gp", "roofline"},
                                   {"roofline-bandwidth.gp", "bandwidth"}, {"roofline-time.gp", "time"},
                                   {"roofline-bytes.gp", "bytes"},   {"roofline-ceilings.gp", "ceilings"}};
  roofline *r = calloc(1, sizeof *r);
  if (!r) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  r->job = job;
  job->pages = pages;
  job->page_count = sizeof pages / sizeof *pages;
  kv_status st = read_attributes(r, err);
  if (!st) st = kvr_table_load(&job->src, "points", point_columns, R_COLUMNS, &r->points, err);
  if (!st) st = read_words(r, err);
  if (!st) st = check_indices(r, err);
  if (!st) st = export_all(r, err);
  close_roofline(r);
  free(r);
  return st;
}
