/* kvr_roofline.c - a roofline-1 dataset as tables for gnuplot: reading, series, points, findings, first page.
 *
 *   points.tsv  a block a series (kernel x variant), by prefix; its columns are listed at put_point
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_points.h"
#include "kvr_text.h"

static const char *const point_columns[] = {"kernel",
                                            "prefix",
                                            "heads",
                                            "queries",
                                            "batch",
                                            "layout",
                                            "useful_bytes",
                                            "useful_flops",
                                            "intensity",
                                            "dram_bytes",
                                            "l2_bytes",
                                            "link_bytes",
                                            "floor",
                                            "t1",
                                            "t2",
                                            "t3",
                                            "t4",
                                            "t5",
                                            "t6",
                                            "t7",
                                            "time",
                                            "measured",
                                            "measured_low",
                                            "measured_high",
                                            "effective_bandwidth"};

const char *kvr_word_at(const kvr_words *w, uint64_t i) {
  return w->text + i * w->width;
}

double kvr_at(const kvr_roofline *r, size_t c, uint64_t i) {
  return r->points.value[c][i];
}

bool kvr_is_aliased(const kvr_roofline *r, uint64_t i) {
  const char *layout = kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, i));
  return !strncmp(layout, "resident", 8) || !strncmp(layout, "aliased", 7);
}

double kvr_kv_bytes(const kvr_roofline *r, uint64_t i) {
  if (kvr_is_aliased(r, i)) return NAN;
  if (r->read.rows) return kvr_positive(r->read.value[0][i]);
  double used = isfinite(kvr_at(r, R_MEASURED, i)) ? kvr_at(r, R_MEASURED, i) : kvr_at(r, R_TIME, i);
  if (isfinite(used)) return kvr_at(r, R_BANDWIDTH, i) * used;
  return fmin(kvr_at(r, R_PREFIX, i) * kvr_at(r, R_BATCH, i) * r->row_bytes, kvr_at(r, R_USEFUL, i));
}

double kvr_positive(double v) {
  return v > 0 ? v : NAN;
} /* what a log axis can show */

double kvr_best_time(const kvr_roofline *r, uint64_t i) {
  return isfinite(kvr_at(r, R_MEASURED, i)) ? kvr_at(r, R_MEASURED, i) : kvr_at(r, R_TIME, i);
}

bool kvr_link_by_structure(const kvr_roofline *r, uint64_t i) {
  return isfinite(kvr_at(r, R_MEASURED, i)) && !(r->link_max.rows && isfinite(r->link_max.value[0][i]));
}

double kvr_bound(const kvr_roofline *r, uint64_t i) {
  return r->bound.rows && !isfinite(kvr_best_time(r, i)) ? kvr_positive(r->bound.value[0][i]) : NAN;
}

bool kvr_lacks_t3(const kvr_roofline *r, uint64_t i) {
  return isfinite(kvr_at(r, R_T4, i)) && !isfinite(kvr_at(r, R_T3, i)) && !kvr_is_aliased(r, i);
}

const char *kvr_bounded(const kvr_roofline *r, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (uint64_t k = 0; k < r->kernel.n; k++) {
    bool bound = false, timed = false;
    for (uint64_t i = 0; i < r->points.rows; i++) {
      if (kvr_at(r, R_KERNEL, i) != (double)k) continue;
      bound |= isfinite(kvr_bound(r, i));
      timed |= isfinite(kvr_best_time(r, i));
    }
    if (bound && !timed && at + 80 < size)
      at += (size_t)snprintf(text + at, size - at, "%s%.60s", at ? ", " : "", kvr_word_at(&r->kernel, k));
  }
  return text;
}

const char *kvr_no_time(const kvr_roofline *r, char *text, size_t size) {
  char names[600];
  text[0] = '\0';
  if (*kvr_bounded(r, names, sizeof names)) (void)snprintf(text, size, " No time, so not here: %s.", names);
  return text;
}

const char *kvr_kernel_of(const kvr_roofline *r, uint64_t i) {
  return kvr_word_at(&r->kernel, (uint64_t)kvr_at(r, R_KERNEL, i));
}

/* ---- reading ---- */

static kv_status read_attributes(kvr_roofline *r, kv_error *err) {
  const kvr_source *src = &r->job->src;
  const struct {
    const char *name;
    char *text;
    size_t size;
  } texts[] = {{"gpu", r->gpu, sizeof r->gpu},
               {"gpu_name", r->gpu_name, sizeof r->gpu_name},
               {"status", r->status, sizeof r->status},
               {"dtype", r->dtype, sizeof r->dtype},
               {"layout_source", r->layout_source, sizeof r->layout_source},
               {"verdict", r->verdict, sizeof r->verdict},
               {"calibration", r->calibration, sizeof r->calibration},
               {"memory_model", r->memory_model, sizeof r->memory_model}};
  const struct {
    const char *name;
    double *value;
  } numbers[] = {{"heads", &r->heads},  {"queries", &r->queries},     {"latent", &r->latent},
                 {"rope", &r->rope},    {"row_bytes", &r->row_bytes}, {"batch", &r->batch},
                 {"layers", &r->layers}};
  kv_status st = KV_OK;
  for (size_t i = 0; i < sizeof texts / sizeof *texts && !st; i++)
    st = kvr_text_attribute(src, texts[i].name, texts[i].text, texts[i].size, err);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !st; i++)
    st = kvr_number_attribute(src, numbers[i].name, numbers[i].value, err);
  return st;
}

static kv_status read_words(kvr_roofline *r, kv_error *err) {
  static const char *const value[] = {"value"}, *const range[] = {"low", "high"};
  kv_status st = kvr_table_load(&r->job->src, "ceilings", value, 1, &r->ceilings, err);
  const struct {
    const char *name;
    kvr_words *to;
    uint64_t expect;
  } columns[] = {
      {"kernels/name", &r->kernel, UINT64_MAX},        {"layouts/name", &r->layout, UINT64_MAX},
      {"resources/name", &r->resource, UINT64_MAX},    {"ceilings/name", &r->ceiling, r->ceilings.rows},
      {"ceilings/scope", &r->scope, r->ceilings.rows}, {"ceilings/unit", &r->unit, r->ceilings.rows},
      {"ceilings/kind", &r->kind, r->ceilings.rows},   {"ceilings/source", &r->source, r->ceilings.rows},
      {"gpu/name", &r->gpu_row, UINT64_MAX},           {"gpu/value", &r->gpu_value, UINT64_MAX},
      {"gpu/unit", &r->gpu_unit, UINT64_MAX},          {"gpu/kind", &r->gpu_kind, UINT64_MAX},
      {"gpu/source", &r->gpu_source, UINT64_MAX}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns && !st; i++)
    st = kvr_strings(&r->job->src, columns[i].name, columns[i].expect, &columns[i].to->text,
                     &columns[i].to->width, &columns[i].to->n, err);
  if (!st && H5Lexists(r->job->src.file, "layouts/t3_source", H5P_DEFAULT) > 0)
    st = kvr_strings(&r->job->src, "layouts/t3_source", r->layout.n, &r->t3_source.text, &r->t3_source.width,
                     &r->t3_source.n, err);
  if (!st && H5Lexists(r->job->src.file, "kernels/program", H5P_DEFAULT) > 0)
    st = kvr_strings(&r->job->src, "kernels/program", r->kernel.n, &r->program.text, &r->program.width, &r->program.n, err);
  if (!st && (r->gpu_row.n != r->gpu_value.n || r->gpu_row.n != r->gpu_unit.n ||
              r->gpu_row.n != r->gpu_kind.n || r->gpu_row.n != r->gpu_source.n))
    st = kv_fail(err, KV_ERR_INPUT, "%s: the datasets of '/gpu' differ in length", r->job->src.path);
  if (!st && H5Lexists(r->job->src.file, "gpu", H5P_DEFAULT) > 0 && H5Lexists(r->job->src.file, "gpu/low", H5P_DEFAULT) > 0)
    st = kvr_table_load(&r->job->src, "gpu", range, 2, &r->ranges, err);
  if (!st && r->ranges.rows && r->ranges.rows != r->gpu_row.n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/gpu/low' and '/gpu/name' differ in length", r->job->src.path);
  return st;
}

/* A column of the points that not every file has. */
static kv_status read_optional(const kvr_roofline *r, const char *const *name, kvr_table *t, kv_error *err) {
  char path[64];
  (void)snprintf(path, sizeof path, "points/%s", *name);
  if (H5Lexists(r->job->src.file, path, H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kvr_table_load(&r->job->src, "points", name, 1, t, err);
  if (!st && t->rows != r->points.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/%s' and '/points/kernel' differ in length",
                 r->job->src.path, path);
  return st;
}

/* Older files held the bound in `time`, where the ladder has no T7. */
static kv_status read_bounds(kvr_roofline *r, kv_error *err) {
  static const char *const bound[] = {"time_at_least"}, *const read[] = {"useful_kv_bytes"},
                           *const time[] = {"time"}, *const link[] = {"counted_link_max"};
  kv_status st = read_optional(r, read, &r->read, err);
  if (!st) st = read_optional(r, bound, &r->bound, err);
  if (!st) st = read_optional(r, link, &r->link_max, err);
  if (st || r->bound.rows) return st;
  st = kvr_table_load(&r->job->src, "points", time, 1, &r->bound, err);
  for (uint64_t i = 0; !st && i < r->points.rows; i++)
    if (!isfinite(kvr_at(r, R_T7, i))) r->points.value[R_TIME][i] = NAN;
  return st;
}

static double named_ceiling(const kvr_roofline *r, const char *name, const char *scope) {
  for (uint64_t i = 0; i < r->ceilings.rows; i++)
    if (!strcmp(kvr_word_at(&r->ceiling, i), name) && !strcmp(kvr_word_at(&r->scope, i), scope))
      return kvr_positive(r->ceilings.value[0][i]);
  return NAN;
}

/* Older files' ladders know of L1 and shared memory what the kernel's structure says, which may be less than was
 * counted. A rung is the most of what each resource needs, so the counter can raise it. */
static kv_status raise_by_counters(kvr_roofline *r, kv_error *err) {
  static const char *const columns[] = {"counted_wavefronts", "counted_wavefronts_max"};
  const double chip = named_ceiling(r, "l1", "chip") / 128, sm = named_ceiling(r, "l1", "sm") / 128;
  kvr_table all = {0}, most = {0};
  kv_status st = read_optional(r, &columns[0], &all, err);
  if (!st) st = read_optional(r, &columns[1], &most, err);
  for (uint64_t i = 0; !st && all.rows && most.rows && i < r->points.rows; i++) {
    double least = 0;
    bool higher = false;
    for (size_t c = R_T2; c <= R_T5; c++) {
      double *t = &r->points.value[c][i];
      if (c == R_T2) least = all.value[0][i] / chip;
      if (c == R_T4) least = fmax(least, most.value[0][i] / sm);
      higher |= least > 1.01 * *t;
      if (least > *t) *t = least; /* never where one is not known */
    }
    r->raised += higher;
  }
  kvr_table_close(&all);
  kvr_table_close(&most);
  return st;
}

/* Kernels without any point are what a run leaves that broke off at once. */
static kv_status check_rows(const kvr_roofline *r, kv_error *err) {
  if (r->points.rows > 0 || r->kernel.n == 0) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT,
                 "%s: the datasets of '/points' are empty, though '/kernels/name' has %llu rows: the run wrote no point; run it again",
                 r->job->src.path, (unsigned long long)r->kernel.n);
}

static kv_status check_indices(const kvr_roofline *r, kv_error *err) {
  const struct {
    size_t column;
    const kvr_words *of;
  } index[] = {{R_KERNEL, &r->kernel}, {R_LAYOUT, &r->layout}};
  for (size_t k = 0; k < 2; k++)
    for (uint64_t i = 0; i < r->points.rows; i++) {
      double v = r->points.value[index[k].column][i];
      if (!(v >= 0 && v < (double)index[k].of->n))
        return kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/%s' row %llu: %g names none of the %llu",
                       r->job->src.path, point_columns[index[k].column], (unsigned long long)i, v,
                       (unsigned long long)index[k].of->n);
    }
  return KV_OK;
}

static void close_roofline(kvr_roofline *r) {
  kvr_words *all[] = {&r->kernel,   &r->layout,   &r->resource,   &r->ceiling,  &r->scope,
                      &r->unit,     &r->kind,     &r->source,     &r->gpu_row,  &r->gpu_value,
                      &r->gpu_unit, &r->gpu_kind, &r->gpu_source, &r->t3_source,
                      &r->program};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->text);
  free(r->order);
  free(r->variant_of);
  kvr_table_close(&r->points);
  kvr_table_close(&r->ceilings);
  kvr_table_close(&r->ranges);
  kvr_table_close(&r->bound);
  kvr_table_close(&r->read);
  kvr_table_close(&r->link_max);
}

/* ---- series ---- */

static size_t find_variant(kvr_roofline *r, uint64_t i) {
  double *const *v = r->points.value;
  for (size_t k = 0; k < r->variant_count; k++) {
    const kvr_variant *x = &r->variants[k];
    if (x->layout == v[R_LAYOUT][i] && x->heads == v[R_HEADS][i] && x->queries == v[R_QUERIES][i] &&
        x->batch == v[R_BATCH][i])
      return k;
  }
  if (r->variant_count == KVR_VARIANTS) return KVR_VARIANTS;
  r->variants[r->variant_count] =
      (kvr_variant){v[R_LAYOUT][i], v[R_HEADS][i], v[R_QUERIES][i], v[R_BATCH][i]};
  return r->variant_count++;
}

static const kvr_roofline
    *sorting; /* qsort has no context; one report is made at a time (HDF5 is single-threaded too) */
static int by_series(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  const double *kernel = sorting->points.value[R_KERNEL], *prefix = sorting->points.value[R_PREFIX];
  const size_t *of = sorting->variant_of;
  if (kernel[x] != kernel[y]) return kernel[x] < kernel[y] ? -1 : 1;
  if (of[x] != of[y]) return of[x] < of[y] ? -1 : 1;
  if (prefix[x] != prefix[y]) return prefix[x] < prefix[y] ? -1 : 1;
  return (x > y) - (x < y);
}

static kv_status make_series(kvr_roofline *r, kv_error *err) {
  uint64_t n = r->points.rows, kept = 0;
  r->order = calloc((size_t)n + 1, sizeof *r->order);
  r->variant_of = calloc((size_t)n + 1, sizeof *r->variant_of);
  if (!r->order || !r->variant_of) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->job->src.path);
  for (uint64_t i = 0; i < n; i++) {
    r->variant_of[i] = find_variant(r, i);
    if (r->variant_of[i] < KVR_VARIANTS && r->points.value[R_KERNEL][i] < KVR_KERNELS) r->order[kept++] = i;
  }
  sorting = r;
  qsort(r->order, (size_t)kept, sizeof *r->order, by_series);
  sorting = NULL;
  r->left_out = n - kept;
  for (uint64_t i = 0; i < kept; i++) {
    uint64_t kernel = (uint64_t)r->points.value[R_KERNEL][r->order[i]];
    size_t v = r->variant_of[r->order[i]];
    const kvr_series *last = r->series_count ? &r->of[r->series_count - 1] : NULL;
    if (!last || last->kernel != kernel || last->variant != v) {
      if (r->series_count == KVR_SERIES) {
        r->left_out += kept - i;
        break;
      }
      r->of[r->series_count++] = (kvr_series){.kernel = kernel, .variant = v};
    }
    r->of[r->series_count - 1].points++;
  }
  return KV_OK;
}

/* Time columns in the order of the table: measured, its low and high end, modelled, floor. */
static const size_t time_columns[] = {R_MEASURED, R_LOW, R_HIGH, R_TIME, R_FLOOR};

/* 1 prefix, 2 intensity, 3-7 TFLOP/s, 8-12 GB/s, 13-17 us (measured, low, high, modelled, floor each), 18 T2,
 * 19 T4 us, 20 relative size of the mark, 21 TFLOP/s at most, 22 GB/s at most, 23 us at least, where there is
 * no time. Low and high are of the quantity shown: the longest time is the lowest rate. */
static void put_point(const kvr_roofline *r, FILE *f, uint64_t i, double mark) {
  static const size_t rate_columns[] = {R_MEASURED, R_HIGH, R_LOW, R_TIME, R_FLOOR};
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_PREFIX, i)));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_INTENSITY, i)));
  for (size_t k = 0; k < 5; k++)
    kvr_put_cell(f, kvr_positive(kvr_at(r, R_FLOPS, i) / kvr_at(r, rate_columns[k], i) * 1e-12));
  for (size_t k = 0; k < 5; k++)
    kvr_put_cell(f, kvr_positive(kvr_kv_bytes(r, i) / kvr_at(r, rate_columns[k], i) * 1e-9));
  for (size_t k = 0; k < 5; k++) kvr_put_cell(f, kvr_positive(kvr_at(r, time_columns[k], i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_T2, i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_T4, i) * 1e6));
  kvr_put_cell(f, mark);
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_FLOPS, i) / kvr_bound(r, i) * 1e-12));
  kvr_put_cell(f, kvr_positive(kvr_kv_bytes(r, i) / kvr_bound(r, i) * 1e-9));
  kvr_put_cell(f, kvr_bound(r, i) * 1e6);
  fputc('\n', f);
}

static void put_series_name(const kvr_roofline *r, const char *array, size_t i, double value) {
  char name[40];
  (void)snprintf(name, sizeof name, "%s[%zu]", array, i + 1);
  kvr_put_number(r->job->vars, name, value);
}

static kv_status put_points(const kvr_roofline *r, kv_error *err) {
  FILE *f, *vars = r->job->vars;
  kv_status st = kvr_job_open(r->job, "points.tsv", &f, err);
  if (st) return st;
  size_t n = r->series_count ? r->series_count : 1;
  fprintf(vars, "array SERIES_KERNEL[%zu]\narray SERIES_VARIANT[%zu]\narray SERIES_DOT[%zu]\n", n, n, n);
  kvr_put_number(vars, "SERIES", (double)r->series_count);
  uint64_t at = 0;
  for (size_t s = 0; s < r->series_count; s++) {
    put_series_name(r, "SERIES_KERNEL", s, (double)r->of[s].kernel);
    put_series_name(r, "SERIES_VARIANT", s, (double)r->of[s].variant);
    const uint64_t first = r->order[at], last = r->order[at + r->of[s].points - 1];
    put_series_name(r, "SERIES_DOT", s, kvr_at(r, R_PREFIX, first) == kvr_at(r, R_PREFIX, last)); /* a line would be a dot */
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

static void name_variant(const kvr_roofline *r, size_t k, char *text, size_t size) {
  const kvr_variant *v = &r->variants[k];
  bool heads = false, queries = false, batch = false;
  for (size_t j = 0; j < r->variant_count; j++) {
    heads |= r->variants[j].heads != v->heads;
    queries |= r->variants[j].queries != v->queries;
    batch |= r->variants[j].batch != v->batch && r->variants[j].layout == v->layout;
  }
  char more[3][40] = {"", "", ""};
  if (heads) (void)snprintf(more[0], sizeof more[0], "%.0f heads, ", v->heads);
  if (queries) (void)snprintf(more[1], sizeof more[1], "%.0f queries, ", v->queries);
  if (batch) (void)snprintf(more[2], sizeof more[2], "batch %.0f, ", v->batch);
  (void)snprintf(text, size, "%s%s%s%s", more[0], more[1], more[2],
                 kvr_word_at(&r->layout, (uint64_t)v->layout));
}

/* VARIANT_READS: 1 where the variant reads the KV; ALIASED: points that do not. */
static void put_aliased(const kvr_roofline *r) {
  FILE *f = r->job->vars;
  double aliased = 0;
  fprintf(f, "array VARIANT_READS[%zu]\n", r->variant_count ? r->variant_count : 1);
  for (size_t k = 0; k < r->variant_count; k++) fprintf(f, "VARIANT_READS[%zu] = 1\n", k + 1);
  for (uint64_t i = 0; i < r->points.rows; i++) {
    if (!kvr_is_aliased(r, i)) continue;
    aliased++;
    if (r->variant_of[i] < KVR_VARIANTS) fprintf(f, "VARIANT_READS[%zu] = 0\n", r->variant_of[i] + 1);
  }
  kvr_put_number(f, "ALIASED", aliased);
}

static void put_names(const kvr_roofline *r) {
  FILE *f = r->job->vars;
  uint64_t kernels = r->kernel.n < KVR_KERNELS ? r->kernel.n : KVR_KERNELS;
  fprintf(f, "array KERNEL_NAME[%llu]\n", (unsigned long long)(kernels ? kernels : 1));
  kvr_put_number(f, "KERNELS", (double)kernels);
  for (uint64_t k = 0; k < kernels; k++)
    put_name(f, "KERNEL_NAME", (size_t)k, kvr_word_at(&r->kernel, k), 136);
  fprintf(f, "array VARIANT_NAME[%zu]\n", r->variant_count ? r->variant_count : 1);
  kvr_put_number(f, "VARIANTS", (double)r->variant_count);
  for (size_t k = 0; k < r->variant_count; k++) {
    char text[512];
    name_variant(r, k, text, sizeof text);
    put_name(f, "VARIANT_NAME", k, text, 136);
  }
  put_aliased(r);
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

static void put_extents(const kvr_roofline *r) {
  extent none = {NAN, NAN}, prefix = none, intensity = none, rate = none, bandwidth = none, time = none;
  double measured = 0, modelled = 0, bounded = 0, zero = 0, t2 = 0, t4 = 0;
  for (uint64_t i = 0; i < r->points.rows; i++) {
    extend(&prefix, kvr_at(r, R_PREFIX, i));
    extend(&intensity, kvr_at(r, R_INTENSITY, i));
    zero += kvr_at(r, R_PREFIX, i) == 0;
    measured += isfinite(kvr_at(r, R_MEASURED, i));
    modelled += isfinite(kvr_at(r, R_TIME, i));
    bounded += isfinite(kvr_bound(r, i));
    t2 += isfinite(kvr_at(r, R_T2, i));
    t4 += isfinite(kvr_at(r, R_T4, i));
    for (size_t k = 0; k < 6; k++) {
      double t = k < 5 ? kvr_at(r, time_columns[k], i) : kvr_bound(r, i);
      extend(&time, t * 1e6);
      extend(&rate, kvr_at(r, R_FLOPS, i) / t * 1e-12);
      extend(&bandwidth, kvr_kv_bytes(r, i) / t * 1e-9);
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
  kvr_put_number(f, "BOUNDED", bounded);
  kvr_put_number(f, "T2_KNOWN", t2);
  kvr_put_number(f, "T4_KNOWN", t4);
  kvr_put_number(f, "POINTS", (double)r->points.rows);
  kvr_put_number(f, "AT_ZERO", zero);
  kvr_put_number(f, "LEFT_OUT", (double)r->left_out);
}

/* ---- findings ---- */

typedef struct ends {
  uint64_t fast, slow; /* UINT64_MAX: no time at all */
} ends;

/* How a point was run, by the end of its layout's name; 0: as a graph, L2 cold. */
static size_t how_of(const kvr_roofline *r, uint64_t i) {
  static const char *const end[] = {", eager", ", warm", ", replicated"};
  const char *layout = kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, i));
  for (size_t k = 0; k < sizeof end / sizeof *end; k++)
    if (strlen(layout) >= strlen(end[k]) && !strcmp(layout + strlen(layout) - strlen(end[k]), end[k]))
      return k + 1;
  return 0;
}

/* Reads the KV (aliased slots do not) and has a time. */
static bool is_read_time(const kvr_roofline *r, uint64_t i) {
  return kvr_best_time(r, i) > 0 && kvr_kv_bytes(r, i) > 0;
}

/* Whether the times of two points can be held against each other: both measured or both modelled, run in one
 * way, of one problem, and for two kernels of one layout. */
static bool is_alike(const kvr_roofline *r, uint64_t i, uint64_t k) {
  static const size_t problem[] = {R_PREFIX, R_HEADS, R_QUERIES, R_BATCH};
  for (size_t c = 0; c < sizeof problem / sizeof *problem; c++)
    if (kvr_at(r, problem[c], i) != kvr_at(r, problem[c], k)) return false;
  if (isfinite(kvr_at(r, R_MEASURED, i)) != isfinite(kvr_at(r, R_MEASURED, k)) ||
      how_of(r, i) != how_of(r, k))
    return false;
  return kvr_at(r, R_KERNEL, i) == kvr_at(r, R_KERNEL, k) || kvr_at(r, R_LAYOUT, i) == kvr_at(r, R_LAYOUT, k);
}

/* Whether a summary rather tells of point i: a longer prefix, measured before modelled, graphs before other
 * ways, the faster. */
static bool is_rather(const kvr_roofline *r, uint64_t i, uint64_t k) {
  const double prefix = kvr_at(r, R_PREFIX, i) - kvr_at(r, R_PREFIX, k);
  const int measured = isfinite(kvr_at(r, R_MEASURED, i)) - isfinite(kvr_at(r, R_MEASURED, k));
  if (prefix != 0) return prefix > 0;
  if (measured) return measured > 0;
  if (how_of(r, i) != how_of(r, k)) return how_of(r, i) < how_of(r, k);
  return kvr_best_time(r, i) < kvr_best_time(r, k);
}

static uint64_t find_fastest(const kvr_roofline *r) {
  uint64_t best = UINT64_MAX;
  for (uint64_t i = 0; i < r->points.rows; i++)
    if (is_read_time(r, i) && (best == UINT64_MAX || is_rather(r, i, best))) best = i;
  return best;
}

/* The fastest, and the slowest of the points like it: another kernel on the same layout; where there is none,
 * the same kernel on another layout. */
static ends find_ends(const kvr_roofline *r) {
  ends e = {find_fastest(r), UINT64_MAX};
  if (e.fast == UINT64_MAX) return e;
  e.slow = e.fast;
  for (int others = 1; others >= 0 && e.slow == e.fast; others--)
    for (uint64_t i = 0; i < r->points.rows; i++)
      if (is_read_time(r, i) && is_alike(r, i, e.fast) &&
          (kvr_at(r, R_KERNEL, i) != kvr_at(r, R_KERNEL, e.fast)) == (others > 0) &&
          kvr_best_time(r, i) > kvr_best_time(r, e.slow))
        e.slow = i;
  return e;
}

/* ", contiguous", where points differ in their layout. */
static const char *on_layout(const kvr_roofline *r, uint64_t i, char text[100]) {
  text[0] = '\0';
  if (r->variant_count > 1)
    (void)snprintf(text, 100, ", %.60s", kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, i)));
  return text;
}

static const char *told(const kvr_roofline *r, uint64_t i) {
  return isfinite(kvr_at(r, R_MEASURED, i)) ? "measured" : "modelled";
}

/* Several kernels have times. */
static void find_two(const kvr_roofline *r, ends e) {
  char layout[100];
  kvr_put_finding(
      r->job, "FIND_TIME",
      "At prefix %s%s: fastest %s, %s (%s, %.1f times its floor); slowest %s, %s (%s, %.1f times its floor).",
      kvr_count(kvr_at(r, R_PREFIX, e.fast)).text, on_layout(r, e.fast, layout), kvr_kernel_of(r, e.fast),
      kvr_time(kvr_best_time(r, e.fast)).text, told(r, e.fast),
      kvr_best_time(r, e.fast) / kvr_at(r, R_FLOOR, e.fast), kvr_kernel_of(r, e.slow),
      kvr_time(kvr_best_time(r, e.slow)).text, told(r, e.slow),
      kvr_best_time(r, e.slow) / kvr_at(r, R_FLOOR, e.slow));
  double dram = kvr_roof_named(r, r->bandwidth, r->bandwidths, "dram");
  kvr_put_finding(
      r->job, "FIND_BANDWIDTH",
      "Useful KV bytes over time, at prefix %s%s: %s %s (%s), %s %s (%s). DRAM ceiling: %s.",
      kvr_count(kvr_at(r, R_PREFIX, e.fast)).text, on_layout(r, e.fast, layout), kvr_kernel_of(r, e.fast),
      kvr_si(kvr_kv_bytes(r, e.fast) / kvr_best_time(r, e.fast), "B/s").text, told(r, e.fast),
      kvr_kernel_of(r, e.slow), kvr_si(kvr_kv_bytes(r, e.slow) / kvr_best_time(r, e.slow), "B/s").text,
      told(r, e.slow), kvr_si(dram, "B/s").text);
}

/* One kernel has times: its layouts are what differs. */
static void find_one(const kvr_roofline *r, ends e) {
  const double dram = kvr_roof_named(r, r->bandwidth, r->bandwidths, "dram");
  char slow[2][200] = {"", ""};
  if (e.slow != e.fast) {
    const char *layout = kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, e.slow));
    (void)snprintf(slow[0], sizeof slow[0], "; slowest: %.60s, %s", layout, kvr_time(kvr_best_time(r, e.slow)).text);
    (void)snprintf(slow[1], sizeof slow[1], ", %.60s %s", layout,
                   kvr_si(kvr_kv_bytes(r, e.slow) / kvr_best_time(r, e.slow), "B/s").text);
  }
  const char *layout = kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, e.fast));
  kvr_put_finding(r->job, "FIND_TIME", "At prefix %s: %s takes %s (%s, %s, %.1f times its floor)%s.",
                  kvr_count(kvr_at(r, R_PREFIX, e.fast)).text, kvr_kernel_of(r, e.fast), kvr_time(kvr_best_time(r, e.fast)).text,
                  layout, told(r, e.fast), kvr_best_time(r, e.fast) / kvr_at(r, R_FLOOR, e.fast), slow[0]);
  kvr_put_finding(r->job, "FIND_BANDWIDTH", "Useful KV bytes over time of %s, at prefix %s: %s %s (%s)%s. DRAM ceiling: %s.",
                  kvr_kernel_of(r, e.fast), kvr_count(kvr_at(r, R_PREFIX, e.fast)).text, layout,
                  kvr_si(kvr_kv_bytes(r, e.fast) / kvr_best_time(r, e.fast), "B/s").text, told(r, e.fast), slow[1],
                  kvr_si(dram, "B/s").text);
}

/* No kernel has a time, but some have bounds: those at the longest prefix. */
static void find_bounds(const kvr_roofline *r) {
  char times[600] = "", rates[600] = "";
  double longest = -1;
  size_t at = 0, rate_at = 0;
  for (uint64_t i = 0; i < r->points.rows; i++)
    if (isfinite(kvr_bound(r, i)) && kvr_kv_bytes(r, i) > 0) longest = fmax(longest, kvr_at(r, R_PREFIX, i));
  for (uint64_t i = 0; i < r->points.rows && at + 120 < sizeof times && rate_at + 120 < sizeof rates; i++) {
    const double t = kvr_bound(r, i), bytes = kvr_kv_bytes(r, i);
    if (!isfinite(t) || !(bytes > 0) || kvr_at(r, R_PREFIX, i) != longest) continue;
    at += (size_t)snprintf(times + at, sizeof times - at, "%s%.60s %s", at ? ", " : "", kvr_kernel_of(r, i),
                           kvr_time(t).text);
    rate_at += (size_t)snprintf(rates + rate_at, sizeof rates - rate_at, "%s%.60s %s", rate_at ? ", " : "",
                                kvr_kernel_of(r, i), kvr_si(bytes / t, "B/s").text);
  }
  kvr_put_finding(r->job, "FIND_TIME", "No time is known. Lower bounds of it at prefix %s: %s.",
                  kvr_count(longest).text, times);
  kvr_put_finding(r->job, "FIND_BANDWIDTH", "No rate is known. Upper bounds of it at prefix %s: %s.",
                  kvr_count(longest).text, rates);
}

static bool has_read_bounds(const kvr_roofline *r) {
  for (uint64_t i = 0; i < r->points.rows; i++)
    if (isfinite(kvr_bound(r, i)) && kvr_kv_bytes(r, i) > 0) return true;
  return false;
}

static void find_times(const kvr_roofline *r) {
  ends e = find_ends(r);
  if (e.fast == UINT64_MAX && has_read_bounds(r)) {
    find_bounds(r);
    return;
  }
  if (e.fast == UINT64_MAX) {
    bool times = false, aliased = false;
    for (uint64_t i = 0; i < r->points.rows; i++) {
      times |= kvr_best_time(r, i) > 0;
      aliased |= kvr_best_time(r, i) > 0 && kvr_is_aliased(r, i);
    }
    const char *what = r->points.rows == 0 ? ""
                       : aliased           ? "Only runs on aliased slots have times: there is no rate of reading the KV."
                       : times             ? "No KV is read at prefix 0: there are times, but no rate of reading it."
                                           : "No measured and no modelled time of a kernel that reads the KV: floors only.";
    kvr_put_finding(r->job, "FIND_TIME", "%s", what);
    kvr_put_finding(r->job, "FIND_BANDWIDTH", "%s", what);
    return;
  }
  if (kvr_at(r, R_KERNEL, e.fast) == kvr_at(r, R_KERNEL, e.slow)) find_one(r, e);
  else find_two(r, e);
}

static void find_ridge(const kvr_roofline *r) {
  double dram = kvr_roof_named(r, r->bandwidth, r->bandwidths, "dram"),
         mma = kvr_highest(r->compute, r->computes);
  double ridge = mma / dram;
  char range[64];
  extent e = {NAN, NAN};
  for (uint64_t i = 0; i < r->points.rows; i++)
    if (kvr_kv_bytes(r, i) > 0) extend(&e, kvr_at(r, R_INTENSITY, i));
  kvr_put_number(r->job->vars, "RIDGE", ridge);
  if (e.high < e.low * 1.02) (void)snprintf(range, sizeof range, "%.0f", e.high);
  else (void)snprintf(range, sizeof range, "%.0f to %.0f", e.low, e.high);
  if (!isfinite(ridge))
    kvr_put_finding(
        r->job, "FIND_ROOFLINE",
        "DRAM bandwidth or tensor-core rate of this GPU is not known, so there is no ridge point.");
  else if (!isfinite(e.high))
    kvr_put_finding(r->job, "FIND_ROOFLINE",
                    "Ridge point at %.0f FLOP/B. There is no point to compare with it.", ridge);
  else
    kvr_put_finding(
        r->job, "FIND_ROOFLINE",
        "Ridge point at %.0f FLOP/B; the problem has %s FLOP per useful byte, so its floor is set by %s. "
        "Each string of marks is one kernel, larger marks for longer prefixes; kernels stand side by side.",
        ridge, range,
        e.high < ridge  ? "memory"
        : e.low > ridge ? "arithmetic"
                        : "memory or arithmetic, depending on the point");
}

/* ---- the first page ---- */

static void cover_counts(const kvr_roofline *r, kvr_cover *c) {
  uint64_t measured = 0, modelled = 0, bounded = 0, neither = 0;
  char bounds[80] = "";
  for (uint64_t i = 0; i < r->points.rows; i++) {
    bool m = isfinite(kvr_at(r, R_MEASURED, i)), t = isfinite(kvr_at(r, R_TIME, i));
    measured += m;
    modelled += t;
    bounded += isfinite(kvr_bound(r, i)) ? 1u : 0u;
    neither += !m && !t && !isfinite(kvr_bound(r, i));
  }
  if (bounded)
    (void)snprintf(bounds, sizeof bounds, ", %s with a lower bound only", kvr_count((double)bounded).text);
  kvr_cover_row(c, "Points", "%s: %s with a measured time, %s with a modelled one%s, %s with a floor only",
                kvr_count((double)r->points.rows).text, kvr_count((double)measured).text,
                kvr_count((double)modelled).text, bounds, kvr_count((double)neither).text);
}

/* The source, and the layouts that points really have. */
static void cover_layouts(const kvr_roofline *r, kvr_cover *c) {
  char text[600] = "";
  const char *source = r->layout_source; /* a file's name, or a layout's own */
  size_t at = 0;
  for (uint64_t k = 0; k < r->layout.n && at + 80 < sizeof text; k++) {
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%.60s", at ? "; " : "", kvr_word_at(&r->layout, k));
    if (!strcmp(kvr_word_at(&r->layout, k), source)) source = "";
  }
  kvr_cover_row(c, "Layouts", "%s%s%s", source, *text && *source ? ": " : "", text);
}

/* What T3 of each layout rests on, or that it is missing and why. */
static void cover_scatter(const kvr_roofline *r, kvr_cover *c) {
  char text[1000] = "";
  size_t at = 0;
  for (uint64_t k = 0; k < r->layout.n && at + 300 < sizeof text; k++) {
    bool missing = false, used = false;
    for (uint64_t i = 0; i < r->points.rows; i++) {
      if (kvr_at(r, R_LAYOUT, i) != (double)k || kvr_is_aliased(r, i)) continue;
      used |= isfinite(kvr_at(r, R_T4, i));
      missing |= kvr_lacks_t3(r, i);
    }
    if (!used || (!missing && !r->t3_source.n)) continue;
    at += (size_t)snprintf(
        text + at, sizeof text - at, "%s%.60s: %.200s", at ? "; " : "", kvr_word_at(&r->layout, k),
        r->t3_source.n ? kvr_word_at(&r->t3_source, k)
                       : "missing, as the file does not say what its rows cost: scatter is within placement");
  }
  if (*text) kvr_cover_row(c, "T3 (scatter)", "%s", text);
}

static void cover_not_measured(const kvr_roofline *r, kvr_cover *c) {
  uint64_t measured = 0, counted = 0, n = r->points.rows;
  for (uint64_t i = 0; i < n; i++) {
    measured += isfinite(kvr_at(r, R_MEASURED, i)) ? 1u : 0u;
    counted += isfinite(kvr_at(r, R_DRAM, i)) ? 1u : 0u;
  }
  if (measured == 0)
    kvr_cover_row(c, "Not measured", "times and bytes: no kernel was run, every time and byte count is modelled");
  else if (measured < n)
    kvr_cover_row(c, "Not measured", "%s of %s points: no kernel was run for them",
                  kvr_count((double)(n - measured)).text, kvr_count((double)n).text);
  else
    kvr_cover_row(c, "Not measured", "%s",
                  counted == 0 ? "bytes: no hardware counter was read, link bytes come from the kernels' structure"
                  : counted < n ? "bytes of some points: no hardware counter was read for them"
                                : "the steps between floor and time: a model has to name them");
}

/* What kernel k has: a measured time, a modelled one, a bound. */
typedef struct had {
  bool measured, modelled, bound;
} had;

static had had_of(const kvr_roofline *r, uint64_t k) {
  had h = {false, false, false};
  for (uint64_t i = 0; i < r->points.rows; i++) {
    if (kvr_at(r, R_KERNEL, i) != (double)k) continue;
    h.measured |= isfinite(kvr_at(r, R_MEASURED, i));
    h.modelled |= isfinite(kvr_at(r, R_TIME, i));
    h.bound |= isfinite(kvr_bound(r, i));
  }
  return h;
}

/* Which kernels were run, and which have a modelled time or neither. A file that knows programs tells the modelled ones by
 * these. */
static void cover_kernels(const kvr_roofline *r, kvr_cover *c) {
  char run[1000] = "", modelled[1000] = "", none[1000] = "";
  for (uint64_t k = 0; k < r->kernel.n; k++) {
    const had h = had_of(r, k);
    const char *name = kvr_word_at(&r->kernel, k);
    size_t at[3] = {strlen(run), strlen(modelled), strlen(none)};
    if (h.measured) (void)snprintf(run + at[0], sizeof run - at[0], "%s%.60s", at[0] ? ", " : "", name);
    if (h.modelled) (void)snprintf(modelled + at[1], sizeof modelled - at[1], "%s%.60s", at[1] ? ", " : "", name);
    if (!h.measured && !h.modelled)
      (void)snprintf(none + at[2], sizeof none - at[2], "%s%.60s: %s", at[2] ? "; " : "", name,
                     h.bound ? "bounds only, which are no prediction" : "a floor only");
  }
  kvr_cover_row(c, "Kernels run", "%s", *run ? run : "none");
  if (*modelled && !r->program.n) kvr_cover_row(c, "Modelled", "%s", modelled);
  if (*none) kvr_cover_row(c, "No time", "%s", none);
}

/* What is behind the modelled times and the ceilings. */
static void cover_sources(const kvr_roofline *r, kvr_cover *c) {
  kvr_program list[KVR_KERNELS];
  size_t n = 0;
  for (uint64_t k = 0; k < r->program.n && n < KVR_KERNELS; k++)
    list[n++] = (kvr_program){kvr_word_at(&r->kernel, k), kvr_word_at(&r->program, k)};
  kvr_cover_programs(c, list, n);
  if (!strcmp(r->calibration, "none")) kvr_cover_row(c, "Calibration", "none: ceilings and latencies as published");
  else if (*r->calibration) kvr_cover_row(c, "Calibration", "%s", r->calibration);
  if (*r->memory_model) kvr_cover_row(c, "Memory model", "%s", r->memory_model);
}

static void cover_roofs(const kvr_roofline *r, kvr_cover *c) {
  char text[800] = "";
  size_t at = 0;
  for (size_t k = 0; k < r->bandwidths + r->computes; k++) {
    const kvr_roof *f = k < r->bandwidths ? &r->bandwidth[k] : &r->compute[k - r->bandwidths];
    at +=
        (size_t)snprintf(text + at, sizeof text - at, "%s%.24s %s (%.24s)", at ? ", " : "",
                         kvr_spoken(kvr_word_at(&r->ceiling, f->row)),
                         kvr_si(f->value, kvr_word_at(&r->unit, f->row)).text, kvr_word_at(&r->kind, f->row));
  }
  kvr_cover_row(c, "Roofs", "%s", *text ? text : "none known");
}

/* What is said of each kernel begins on a line of its own. */
static void break_verdict(const kvr_roofline *r, char *verdict) {
  for (uint64_t k = 0; k < r->kernel.n; k++) {
    char opening[160];
    (void)snprintf(opening, sizeof opening, ". %.120s is ", kvr_word_at(&r->kernel, k));
    for (char *at = strstr(verdict, opening); at; at = strstr(at + 1, opening)) at[1] = '\n';
  }
}

/* Which card, and whether others ran beside it; only measured datasets say so. */
static kv_status cover_device(const kvr_roofline *r, kvr_cover *c, kv_error *err) {
  char pci[64] = "";
  double device = NAN, together = 1;
  kv_status st = kvr_text_attribute(&r->job->src, "pci", pci, sizeof pci, err);
  if (!st) st = kvr_number_attribute(&r->job->src, "device", &device, err);
  if (!st) st = kvr_number_attribute(&r->job->src, "devices_at_once", &together, err);
  if (st || isnan(device)) return st;
  if (together > 1) kvr_cover_row(c, "Card", "device %.0f, %s, one of %.0f measured at once", device, pci, together);
  else kvr_cover_row(c, "Card", "device %.0f, %s", device, pci);
  return KV_OK;
}

static kv_status write_cover(const kvr_roofline *r, kv_error *err) {
  kvr_cover *c = calloc(1, sizeof *c);
  char history[2048] = "", driver[200] = "", clocks[200] = "", missing[1000];
  if (!c) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->job->src.path);
  kv_status st = kvr_text_attribute(&r->job->src, "history", history, sizeof history, err);
  if (!st) st = kvr_text_attribute(&r->job->src, "driver", driver, sizeof driver, err);
  if (!st) st = kvr_text_attribute(&r->job->src, "clocks", clocks, sizeof clocks, err);
  c->kind = "VERIFY ATTENTION AGAINST THE ROOFLINE  ·  roofline";
  (void)snprintf(c->title, sizeof c->title, "%s: %.0f queries x %.0f heads",
                 *r->gpu_name ? r->gpu_name : r->gpu, r->queries, r->heads);
  memcpy(c->verdict, r->verdict, sizeof c->verdict);
  break_verdict(r, c->verdict);
  (void)snprintf(
      c->problem, sizeof c->problem,
      "The problem: %.0f tree queries, %.0f heads on this GPU, batch %.0f, against a prefix of KV rows of "
      "%.0f + %.0f values (%s, %s a row), %.0f layers. How far is each kernel from the roofline?",
      r->queries, r->heads, r->batch, r->latent, r->rope, *r->dtype ? r->dtype : "type not recorded",
      kvr_bytes(r->row_bytes).text, r->layers);
  kvr_missing_values(r, missing, sizeof missing);
  kvr_cover_row(c, "GPU", "%s (%s)", *r->gpu_name ? r->gpu_name : "not recorded", r->gpu);
  kvr_cover_row(c, "Status", "%s", r->status);
  if (*driver && *clocks) kvr_cover_row(c, "Driver, clocks", "%s  %s", driver, clocks);
  else if (*driver) kvr_cover_row(c, "Driver", "%s", driver);
  if (!st) st = cover_device(r, c, err);
  cover_roofs(r, c);
  cover_kernels(r, c);
  cover_sources(r, c);
  cover_counts(r, c);
  cover_layouts(r, c);
  cover_scatter(r, c);
  cover_not_measured(r, c);
  if (r->raised)
    kvr_cover_row(c, "Ladder",
                  "T2 to T5 of %s points raised to the L1 wavefronts that were counted; the verdict is of the file, without them",
                  kvr_count((double)r->raised).text);
  kvr_cover_row(c, "Not known", "%s",
                *missing ? missing : "nothing is missing in the description of this GPU");
  kvr_cover_row(c, "Made by", "%s", history);
  if (!st) st = kvr_cover_write(r->job, c, err);
  free(c);
  return st;
}

static kv_status export_all(kvr_roofline *r, kv_error *err) {
  FILE *f = r->job->vars;
  kvr_choose_roofs(r);
  kv_status st = make_series(r, err);
  if (st) return st;
  kvr_put_text(f, "REPORT", "roofline");
  put_names(r);
  put_extents(r);
  kvr_put_roofs(r, "BW", r->bandwidth, r->bandwidths, 1e-9);
  kvr_put_roofs(r, "FL", r->compute, r->computes, 1e-12);
  find_ridge(r);
  find_times(r);
  st = put_points(r, err);
  if (!st) st = kvr_put_ladder(r, err);
  if (!st) st = kvr_put_bytes(r, err);
  if (!st) st = kvr_put_ceilings(r, err);
  if (!st && kvr_has_gains(r)) st = kvr_put_gains(r, err);
  if (!st && kvr_has_clocks(r)) st = kvr_put_clocks(r, err);
  if (!st && kvr_has_layouts(r)) st = kvr_put_layouts(r, err);
  if (!st && kvr_has_resources(r)) st = kvr_put_resources(r, err);
  if (!st && kvr_has_resources(r)) st = kvr_put_levels(r, err);
  if (!st && kvr_has_fill(r)) st = kvr_put_fill(r, err);
  if (!st && kvr_has_assumed(r)) st = kvr_put_assumed(r, err);
  if (!st) st = write_cover(r, err);
  if (!st)
    st = kvr_put_footer(r->job, *r->gpu_name ? r->gpu_name : r->gpu,
                        *r->status ? r->status : "status not recorded", err);
  return st;
}

/* The pages outlive the dataset in memory; one report is made at a time. */
static void choose_pages(const kvr_roofline *r, kvr_job *job) {
  static const struct {
    kvr_page page;
    bool (*has)(const kvr_roofline *r); /* NULL: every file */
  } all[] = {{{"cover.gp", "summary"}, NULL},
             {{"roofline-roof.gp", "roofline"}, NULL},
             {{"roofline-levels.gp", "levels"}, kvr_has_resources},
             {{"roofline-bandwidth.gp", "bandwidth"}, NULL},
             {{"roofline-time.gp", "time"}, NULL},
             {{"roofline-layouts.gp", "layouts"}, kvr_has_layouts},
             {{"roofline-ladder.gp", "ladder"}, NULL},
             {{"roofline-gains.gp", "gains"}, kvr_has_gains},
             {{"roofline-fill.gp", "fill"}, kvr_has_fill},
             {{"roofline-resources.gp", "resources"}, kvr_has_resources},
             {{"roofline-bytes.gp", "bytes"}, NULL},
             {{"roofline-clocks.gp", "clocks"}, kvr_has_clocks},
             {{"roofline-ceilings.gp", "ceilings"}, NULL},
             {{"roofline-description.gp", "description"}, NULL},
             {{"roofline-assumed.gp", "assumed"}, kvr_has_assumed}};
  static kvr_page pages[sizeof all / sizeof *all];
  size_t n = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!all[i].has || all[i].has(r)) pages[n++] = all[i].page;
  job->pages = pages;
  job->page_count = n;
}

kv_status kvr_export_roofline(kvr_job *job, kv_error *err) {
  kvr_roofline *r = calloc(1, sizeof *r);
  if (!r) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", job->src.path);
  r->job = job;
  kv_status st = read_attributes(r, err);
  if (!st) st = kvr_table_load(&job->src, "points", point_columns, R_COLUMNS, &r->points, err);
  if (!st) st = read_bounds(r, err);
  if (!st) st = read_words(r, err);
  if (!st) st = raise_by_counters(r, err);
  if (!st) st = check_rows(r, err);
  if (!st) st = check_indices(r, err);
  if (!st) choose_pages(r, job);
  if (!st) st = export_all(r, err);
  close_roofline(r);
  free(r);
  return st;
}
