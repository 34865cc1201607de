/* kvr_resources.c - pages of a roofline-1 file that need columns which only some files have: layouts side by
 * side, use of each resource, fill, the roofline by level. But for the first, a kernel stands for its longest
 * prefix and first variant.
 *
 *   layouts.tsv    a block a kernel and layout drawn: prefix, t / t_contiguous, low, high
 *   resources.tsv  a block a kernel: number of the resource, % of its best rate of the chip, of the busiest
 * SM, 1 if that SM's share is an even one (nothing told) fill.tsv       a block a kernel: blocks, us
 * measured, modelled, size of the mark, us at least where there is no time fill-best.tsv  a line a kernel
 * with fewer blocks than SMs: blocks, us, SMs, us with all SMs busy, kernel levels.tsv     a block a kernel:
 * level (1 DRAM, 2 L2, 3 link), flop/B, TFLOP/s measured, modelled, of the two that is there
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_points.h"
#include "kvr_text.h"

static bool has(const kvr_roofline *r, const char *column) {
  char name[64];
  (void)snprintf(name, sizeof name, "points/%s", column);
  return H5Lexists(r->job->src.file, name, H5P_DEFAULT) > 0;
}
bool kvr_has_layouts(const kvr_roofline *r) {
  return has(r, "to_contiguous");
}
bool kvr_has_resources(const kvr_roofline *r) {
  return has(r, "executed_flops");
}
bool kvr_has_fill(const kvr_roofline *r) {
  return has(r, "blocks");
}

/* Columns that may be missing: those of one length, NaN for the rest. */
enum { O_BLOCKS, O_FLOPS, O_L1, O_SM_FLOPS, O_SM_LINK, O_SM_L1, O_SM_MMA_BUSY, O_SM_L1_BUSY, O_SM_LINK_BUSY, O_SM_DRAM_BUSY,
       O_SM_ISSUE_BUSY, O_LINK_MAX, O_WAVEFRONTS, O_WAVEFRONTS_MAX, O_INSTRUCTIONS, O_INSTRUCTIONS_MAX, O_COLUMNS };
static const char *const optional[O_COLUMNS] = {
    "blocks",       "executed_flops", "l1_bytes",      "sm_executed_flops", "sm_link_bytes",    "sm_l1_bytes",
    "sm_mma_busy",  "sm_l1_busy",     "sm_link_busy",  "sm_dram_busy",      "sm_issue_busy",    "counted_link_max",
    "counted_wavefronts", "counted_wavefronts_max", "counted_instructions", "counted_instructions_max"};

typedef struct extra {
  kvr_table column[O_COLUMNS]; /* rows 0: not there */
} extra;

static double extra_at(const extra *e, size_t c, uint64_t i) {
  return e->column[c].rows ? e->column[c].value[0][i] : NAN;
}

static void close_extra(extra *e) {
  for (size_t c = 0; e && c < O_COLUMNS; c++) kvr_table_close(&e->column[c]);
  free(e);
}

static kv_status read_extra(const kvr_roofline *r, extra **extras, kv_error *err) {
  kv_status st = KV_OK;
  *extras = calloc(1, sizeof **extras);
  if (!*extras) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", r->job->src.path);
  for (size_t c = 0; c < O_COLUMNS && !st; c++) {
    kvr_table *t = &(*extras)->column[c];
    if (!has(r, optional[c])) continue;
    st = kvr_table_load(&r->job->src, "points", &optional[c], 1, t, err);
    if (!st && t->rows != r->points.rows)
      st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/%s' and '/points/prefix' differ in length", r->job->src.path, optional[c]);
  }
  return st;
}

/* ---- what the pages use ---- */

static double ceiling(const kvr_roofline *r, const char *name, const char *scope) {
  for (uint64_t i = 0; i < r->ceilings.rows; i++)
    if (!strcmp(kvr_word_at(&r->ceiling, i), name) && !strcmp(kvr_word_at(&r->scope, i), scope)) return r->ceilings.value[0][i];
  return NAN;
}

/* SMs of the chip, by the description's value or the device's. */
static double sms_of(const kvr_roofline *r) {
  for (uint64_t i = 0; i < r->gpu_row.n; i++)
    if (!strcmp(kvr_word_at(&r->gpu_row, i), "sms") || !strcmp(kvr_word_at(&r->gpu_row, i), "sm_count"))
      return kvr_positive(strtod(kvr_word_at(&r->gpu_value, i), NULL));
  return NAN;
}

/* Kernels with their point at the longest prefix, first variant, that has a time. */
typedef struct shown {
  uint64_t point[KVR_KERNELS];
  size_t n;
} shown;

static void choose_points(const kvr_roofline *r, shown *s) {
  uint64_t at = 0;
  s->n = 0;
  for (size_t k = 0; k < r->series_count; at += r->of[k].points, k++) {
    if (k && r->of[k - 1].kernel == r->of[k].kernel) continue;
    uint64_t i = r->order[at + r->of[k].points - 1];
    if (kvr_best_time(r, i) > 0 && s->n < KVR_KERNELS) s->point[s->n++] = i;
  }
}

static void put_kernels(const kvr_roofline *r, const char *array, const shown *s, double width) {
  char name[48], line[300];
  fprintf(r->job->vars, "array %s[%zu]\narray %s_COLOUR[%zu]\n", array, s->n ? s->n : 1, array, s->n ? s->n : 1);
  for (size_t k = 0; k < s->n; k++) {
    (void)snprintf(name, sizeof name, "%s[%zu]", array, k + 1);
    (void)kvr_wrap(kvr_kernel_of(r, s->point[k]), 10.5, true, width, 1, line, sizeof line);
    kvr_put_text(r->job->vars, name, line);
    (void)snprintf(name, sizeof name, "%s_COLOUR[%zu]", array, k + 1);
    kvr_put_number(r->job->vars, name, kvr_at(r, R_KERNEL, s->point[k]));
  }
  (void)snprintf(name, sizeof name, "%s_COUNT", array);
  kvr_put_number(r->job->vars, name, (double)s->n);
}

/* ---- layouts side by side ---- */

static bool is_base(const kvr_roofline *r, double layout) {
  return layout >= 0 && !strcmp(kvr_word_at(&r->layout, (uint64_t)layout), "contiguous");
}

typedef struct drawn_layouts {
  double layout[8];
  size_t n;
  double least, most;
  uint64_t apart, points, worst; /* points whose interval does not hold 1; points; the largest */
} drawn_layouts;

static uint64_t layout_block(const kvr_roofline *r, const kvr_table *t, FILE *f, uint64_t kernel, double layout) {
  uint64_t n = 0, at = 0;
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++)
    for (size_t k = 0; k < r->of[s].points; k++) {
      uint64_t i = r->order[at + k];
      if (r->of[s].kernel != kernel || kvr_at(r, R_LAYOUT, i) != layout || !isfinite(t->value[0][i])) continue;
      kvr_put_cell(f, kvr_positive(kvr_at(r, R_PREFIX, i)));
      for (size_t c = 0; c < 3; c++) kvr_put_cell(f, t->value[c][i]);
      fputc('\n', f);
      n++;
    }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
  return n;
}

static void look_at_layouts(const kvr_roofline *r, const kvr_table *t, drawn_layouts *d) {
  for (uint64_t i = 0; i < t->rows; i++) {
    double layout = kvr_at(r, R_LAYOUT, i), ratio = t->value[0][i];
    size_t k = 0;
    if (!isfinite(ratio) || is_base(r, layout)) continue;
    while (k < d->n && d->layout[k] != layout) k++;
    if (k == d->n && d->n < sizeof d->layout / sizeof *d->layout) d->layout[d->n++] = layout;
    d->least = fmin(d->least, isfinite(t->value[1][i]) ? t->value[1][i] : ratio);
    d->most = fmax(d->most, isfinite(t->value[2][i]) ? t->value[2][i] : ratio);
    d->apart += t->value[1][i] > 1 || t->value[2][i] < 1;
    if (d->points == 0 || ratio > t->value[0][d->worst]) d->worst = i;
    d->points++;
  }
}

static void put_layout_names(const kvr_roofline *r, const drawn_layouts *d) {
  char name[40], line[300];
  fprintf(r->job->vars, "array LAYOUT_NAME[%zu]\n", d->n ? d->n : 1);
  for (size_t k = 0; k < d->n; k++) {
    (void)snprintf(name, sizeof name, "LAYOUT_NAME[%zu]", k + 1);
    (void)kvr_wrap(kvr_word_at(&r->layout, (uint64_t)d->layout[k]), 9.5, false, 150, 1, line, sizeof line);
    kvr_put_text(r->job->vars, name, line);
  }
  kvr_put_number(r->job->vars, "LAYOUTS", (double)d->n);
  kvr_put_number(r->job->vars, "LAYOUT_LEAST", d->least);
  kvr_put_number(r->job->vars, "LAYOUT_MOST", d->most);
}

kv_status kvr_put_layouts(const kvr_roofline *r, kv_error *err) {
  static const char *const columns[] = {"to_contiguous", "to_contiguous_low", "to_contiguous_high"};
  kvr_table t = {0};
  drawn_layouts d = {.least = 1, .most = 1};
  FILE *f = NULL;
  kv_status st = kvr_table_load(&r->job->src, "points", columns, 3, &t, err);
  if (!st && t.rows != r->points.rows)
    st = kv_fail(err, KV_ERR_INPUT, "%s: dataset '/points/to_contiguous' and '/points/prefix' differ in length", r->job->src.path);
  if (!st) st = kvr_job_open(r->job, "layouts.tsv", &f, err);
  if (st) goto done;
  look_at_layouts(r, &t, &d);
  uint64_t kernels = r->kernel.n < KVR_KERNELS ? r->kernel.n : KVR_KERNELS;
  for (uint64_t k = 0; k < kernels; k++)
    for (size_t l = 0; l < d.n; l++) (void)layout_block(r, &t, f, k, d.layout[l]);
  put_layout_names(r, &d);
  if (d.points == 0)
    kvr_put_finding(r->job, "FIND_LAYOUTS", "No layout was measured beside contiguous rows.");
  else
    kvr_put_finding(r->job, "FIND_LAYOUTS",
                    "Measured, paired by round, with 95 %% intervals. Largest: %s, %s at prefix %s, %.3f (%.3f to %.3f). The interval of "
                    "%s of %s points leaves 1 out.",
                    kvr_kernel_of(r, d.worst), kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, d.worst)),
                    kvr_count(kvr_at(r, R_PREFIX, d.worst)).text, t.value[0][d.worst], t.value[1][d.worst], t.value[2][d.worst],
                    kvr_count((double)d.apart).text, kvr_count((double)d.points).text);
  st = kvr_job_close(r->job, &f, err);
done:
  kvr_table_close(&t);
  return st;
}

/* ---- use of each resource ---- */

enum { U_DRAM, U_L2, U_LINK, U_L1, U_MMA, U_ISSUE, USES };
static const char *const use_names[USES] = {"DRAM", "L2", "link", "L1", "matrix", "issue"};
static const char *const use_ceilings[USES] = {"dram", "l2", "link", "l1", "mma", "issue"};

/* Work of a point on one resource: chip's, the busiest SM's (NaN: nothing told), or the SM's busy share at once. */
typedef struct use {
  double chip, sm, busy;
} use;

static use use_of(const kvr_roofline *r, const extra *e, size_t u, uint64_t i) {
  double wavefronts = extra_at(e, O_WAVEFRONTS, i), most = extra_at(e, O_WAVEFRONTS_MAX, i), link = extra_at(e, O_LINK_MAX, i);
  const bool counted = isfinite(wavefronts) && isfinite(most); /* of the chip and of its busiest SM, or neither */
  switch (u) {
    case U_DRAM: return (use){kvr_at(r, R_DRAM, i), NAN, extra_at(e, O_SM_DRAM_BUSY, i)};
    case U_L2: return (use){kvr_at(r, R_L2, i), NAN, NAN};
    case U_LINK: return (use){kvr_at(r, R_LINK, i), isfinite(link) ? link : extra_at(e, O_SM_LINK, i), extra_at(e, O_SM_LINK_BUSY, i)};
    case U_L1: return (use){counted ? 128 * wavefronts : extra_at(e, O_L1, i), counted ? 128 * most : extra_at(e, O_SM_L1, i),
                            extra_at(e, O_SM_L1_BUSY, i)};
    case U_MMA: return (use){extra_at(e, O_FLOPS, i), extra_at(e, O_SM_FLOPS, i), extra_at(e, O_SM_MMA_BUSY, i)};
    default: return (use){extra_at(e, O_INSTRUCTIONS, i), extra_at(e, O_INSTRUCTIONS_MAX, i), extra_at(e, O_SM_ISSUE_BUSY, i)};
  }
}

/* Shares of the best rates, and whether the SM's was divided evenly over the SMs that have a block. */
static void shares_of(const kvr_roofline *r, const extra *e, size_t u, uint64_t i, double *chip, double *sm, bool *even) {
  const use w = use_of(r, e, u, i);
  double t = kvr_best_time(r, i), sms = sms_of(r), blocks = extra_at(e, O_BLOCKS, i), one = ceiling(r, use_ceilings[u], "sm");
  *chip = w.chip / t / ceiling(r, use_ceilings[u], "chip");
  *even = !isfinite(w.busy) && !isfinite(w.sm);
  *sm = isfinite(w.busy) ? w.busy : isfinite(w.sm) ? w.sm / t / one : w.chip / fmin(blocks, sms) / t / one;
}

kv_status kvr_put_resources(const kvr_roofline *r, kv_error *err) {
  extra *e = NULL;
  shown s;
  FILE *f = NULL;
  char text[700];
  double top = 0, most = 0;
  bool by_structure = false;
  uint64_t top_point = UINT64_MAX, evens = 0;
  size_t top_use = 0;
  kv_status st = read_extra(r, &e, err);
  if (!st) st = kvr_job_open(r->job, "resources.tsv", &f, err);
  if (st) goto done;
  choose_points(r, &s);
  for (size_t k = 0; k < s.n; k++) {
    by_structure |= kvr_link_by_structure(r, s.point[k]);
    for (size_t u = 0; u < USES; u++) {
      double chip, sm;
      bool even;
      shares_of(r, e, u, s.point[k], &chip, &sm, &even);
      kvr_put_cell(f, (double)u + 1);
      kvr_put_cell(f, 100 * chip);
      kvr_put_cell(f, 100 * sm);
      kvr_put_cell(f, even && isfinite(sm)); /* no NaN: gnuplot leaves out a point whose expression has one */
      fputc('\n', f);
      evens += even && isfinite(sm);
      double larger = fmax(chip, sm); /* fmax passes over what is not known */
      most = fmax(most, larger);
      if (larger > top) top = larger, top_point = s.point[k], top_use = u;
    }
    fputs("\n\n", f);
  }
  put_kernels(r, "USE_KERNEL", &s, 300);
  kvr_put_number(r->job->vars, "USE_MOST", 100 * most);
  kvr_put_number(r->job->vars, "USE_EVEN", (double)evens);
  fprintf(r->job->vars, "array USE_NAME[%d]\n", USES);
  for (size_t u = 0; u < USES; u++) fprintf(r->job->vars, "USE_NAME[%zu] = '%s'\n", u + 1, use_names[u]);
  if (top_point == UINT64_MAX)
    kvr_put_finding(r->job, "FIND_RESOURCES", "%s",
                    s.n ? "No work or no ceiling is known." : "No kernel has a time.");
  else
    kvr_put_finding(r->job, "FIND_RESOURCES",
                    "Work over time over the ceiling, each kernel at its longest prefix. Most used: %s by "
                    "%s, %.0f %%. A kernel far from "
                    "100 %% of everything waits.%s%s",
                    use_names[top_use], kvr_kernel_of(r, top_point), 100 * top,
                    by_structure ? " Flops by structure; so are bytes of link and L1 where no counter was read." : "",
                    kvr_no_time(r, text, sizeof text));
  st = kvr_job_close(r->job, &f, err);
done:
  close_extra(e);
  return st;
}

/* ---- fill ---- */

static void fill_block(const kvr_roofline *r, const extra *e, FILE *f, uint64_t kernel, double *most_blocks) {
  uint64_t at = 0, n = 0;
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++) {
    if (r->of[s].kernel != kernel || (s && r->of[s - 1].kernel == kernel)) continue;
    for (size_t k = 0; k < r->of[s].points; k++, n++) {
      uint64_t i = r->order[at + k];
      kvr_put_cell(f, kvr_positive(extra_at(e, O_BLOCKS, i)));
      kvr_put_cell(f, kvr_positive(kvr_at(r, R_MEASURED, i) * 1e6));
      kvr_put_cell(f, kvr_positive(kvr_at(r, R_TIME, i) * 1e6));
      kvr_put_cell(f, 0.55 + 0.75 * (double)(k + 1) / (double)r->of[s].points);
      kvr_put_cell(f, kvr_bound(r, i) * 1e6);
      fputc('\n', f);
      *most_blocks = fmax(*most_blocks, extra_at(e, O_BLOCKS, i));
    }
  }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
  fputs("\n\n", f);
}

static uint64_t fill_best(const kvr_roofline *r, const extra *e, FILE *f, const shown *s, uint64_t *emptiest) {
  double sms = sms_of(r);
  uint64_t n = 0;
  for (size_t k = 0; k < s->n; k++) {
    uint64_t i = s->point[k];
    double blocks = extra_at(e, O_BLOCKS, i), t = kvr_best_time(r, i) * 1e6;
    if (!(blocks < sms) || !(kvr_kv_bytes(r, i) > 0)) continue;
    kvr_put_cell(f, blocks);
    kvr_put_cell(f, t);
    kvr_put_cell(f, sms);
    kvr_put_cell(f, t * blocks / sms);
    kvr_put_cell(f, kvr_at(r, R_KERNEL, i));
    fputc('\n', f);
    if (*emptiest == UINT64_MAX || blocks < extra_at(e, O_BLOCKS, *emptiest)) *emptiest = i;
    n++;
  }
  if (n == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
  return n;
}

kv_status kvr_put_fill(const kvr_roofline *r, kv_error *err) {
  extra *e = NULL;
  shown s;
  FILE *f = NULL;
  char text[700];
  double most = 1, sms = sms_of(r);
  uint64_t emptiest = UINT64_MAX;
  kv_status st = read_extra(r, &e, err);
  if (!st) st = kvr_job_open(r->job, "fill.tsv", &f, err);
  if (st) goto done;
  choose_points(r, &s);
  uint64_t kernels = r->kernel.n < KVR_KERNELS ? r->kernel.n : KVR_KERNELS;
  for (uint64_t k = 0; k < kernels; k++) fill_block(r, e, f, k, &most);
  st = kvr_job_close(r->job, &f, err);
  if (!st) st = kvr_job_open(r->job, "fill-best.tsv", &f, err);
  if (st) goto done;
  kvr_put_number(r->job->vars, "FILL_BEST", (double)fill_best(r, e, f, &s, &emptiest));
  kvr_put_number(r->job->vars, "FILL_SMS", sms);
  kvr_put_number(r->job->vars, "FILL_MOST", most);
  if (emptiest != UINT64_MAX)
    kvr_put_finding(r->job, "FIND_FILL",
                    "%s keeps %.0f of %.0f SMs busy at prefix %s. Its work over all of them would take %s at best (arrow: time x blocks / "
                    "SMs, modelled), were nothing else in the way.",
                    kvr_kernel_of(r, emptiest), extra_at(e, O_BLOCKS, emptiest), sms, kvr_count(kvr_at(r, R_PREFIX, emptiest)).text,
                    kvr_time(kvr_best_time(r, emptiest) * extra_at(e, O_BLOCKS, emptiest) / sms).text);
  else if (s.n == 0 && *kvr_bounded(r, text, sizeof text))
    kvr_put_finding(r->job, "FIND_FILL", "No kernel has a time, only a bound of it: %s.", text);
  else if (isfinite(sms))
    kvr_put_finding(r->job, "FIND_FILL", "No kernel that reads the KV and has a time has fewer blocks than the GPU has SMs (%.0f).", sms);
  else kvr_put_finding(r->job, "FIND_FILL", "How many SMs the GPU has is not in this dataset.");
  st = kvr_job_close(r->job, &f, err);
done:
  close_extra(e);
  return st;
}

/* ---- the roofline by level ---- */

kv_status kvr_put_levels(const kvr_roofline *r, kv_error *err) {
  static const size_t level[] = {R_DRAM, R_L2, R_LINK};
  static const char *const names[] = {"dram", "l2", "link"}, *const spoken[] = {"DRAM's", "L2's", "L2-to-SM link's", "matrix units'"};
  extra *e = NULL;
  shown s;
  FILE *f = NULL;
  char text[700];
  double low = NAN, high = NAN, least = NAN, nearest = 0;
  bool by_structure = false;
  uint64_t near_point = UINT64_MAX;
  size_t near_level = 0;
  kv_status st = read_extra(r, &e, err);
  if (!st) st = kvr_job_open(r->job, "levels.tsv", &f, err);
  if (st) goto done;
  choose_points(r, &s);
  for (size_t k = 0; k < s.n; k++) {
    uint64_t i = s.point[k];
    double flops = extra_at(e, O_FLOPS, i);
    for (size_t l = 0; l < 3; l++) {
      double x = kvr_positive(flops / kvr_at(r, level[l], i)), y = kvr_positive(flops / kvr_best_time(r, i) * 1e-12);
      double share = kvr_at(r, level[l], i) / kvr_best_time(r, i) / ceiling(r, names[l], "chip");
      kvr_put_cell(f, (double)l + 1);
      kvr_put_cell(f, isfinite(x) ? x : NAN);
      const bool told = level[l] == R_LINK && kvr_link_by_structure(r, i); /* the time measured, the bytes not: a hollow mark */
      by_structure |= told && isfinite(x);
      kvr_put_cell(f, told ? NAN : kvr_positive(flops / kvr_at(r, R_MEASURED, i) * 1e-12));
      kvr_put_cell(f, told || !isfinite(kvr_at(r, R_MEASURED, i)) ? y : NAN);
      kvr_put_cell(f, y);
      fputc('\n', f);
      if (isfinite(x) && !(low <= x)) low = x;
      if (isfinite(x) && !(high >= x)) high = x;
      if (isfinite(y) && !(least <= y)) least = y;
      if (share > nearest) nearest = share, near_point = i, near_level = l;
    }
    const double matrix = flops / kvr_best_time(r, i) / ceiling(r, "mma", "chip"); /* the flat roof */
    if (matrix > nearest) nearest = matrix, near_point = i, near_level = 3;
    fputs("\n\n", f);
  }
  if (s.n == 0) fputs("NaN\tNaN\tNaN\tNaN\tNaN\n", f);
  put_kernels(r, "LEVEL_KERNEL", &s, 160);
  kvr_put_number(r->job->vars, "LEVEL_LOW", low);
  kvr_put_number(r->job->vars, "LEVEL_HIGH", high);
  kvr_put_number(r->job->vars, "LEVEL_LEAST", least);
  kvr_put_number(r->job->vars, "LEVEL_STRUCTURE", by_structure);
  fputs("array LEVEL_ROOF[3]\n", r->job->vars);
  for (size_t l = 0; l < 3; l++) {
    char name[24];
    (void)snprintf(name, sizeof name, "LEVEL_ROOF[%zu]", l + 1);
    kvr_put_number(r->job->vars, name, ceiling(r, names[l], "chip") * 1e-12);
  }
  kvr_put_number(r->job->vars, "LEVEL_MMA", ceiling(r, "mma", "chip") * 1e-12);
  if (near_point == UINT64_MAX)
    kvr_put_finding(r->job, "FIND_LEVELS", "%s",
                    s.n ? "No bytes at any level are known." : "No kernel has a time.");
  else
    kvr_put_finding(r->job, "FIND_LEVELS",
                    "Flops that were executed over the bytes that moved at each level; each kernel at its "
                    "longest prefix. Nearest to a roof: %s, %.0f %% of the %s.%s%s",
                    kvr_kernel_of(r, near_point), 100 * nearest, spoken[near_level],
                    by_structure ? " Link bytes of hollow marks by structure, not counted." : "",
                    kvr_no_time(r, text, sizeof text));
  st = kvr_job_close(r->job, &f, err);
done:
  close_extra(e);
  return st;
}
