/* kvr_ceilings.c - the roofs that are drawn, and the table of all ceilings and of the GPU's description. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_points.h"
#include "kvr_text.h"

/* ---- ceilings ---- */

static int kind_rank(const char *kind) {
  return !strncmp(kind, "measured", 8)      ? 3
         : !strncmp(kind, "calibrated", 10) ? 2
         : !strcmp(kind, "spec")            ? 1
                                            : 0;
}

/* The roof of a name, or NULL where that resource is not to be drawn (nothing known, or the list is full). */
static kvr_roof *roof_of(const kvr_roofline *r, kvr_roof *list, size_t *n, uint64_t row) {
  for (size_t k = 0; k < *n; k++)
    if (!strcmp(kvr_word_at(&r->ceiling, list[k].row), kvr_word_at(&r->ceiling, row)))
      return kind_rank(kvr_word_at(&r->kind, row)) > kind_rank(kvr_word_at(&r->kind, list[k].row)) ? &list[k]
                                                                                                   : NULL;
  return *n < KVR_ROOFS ? &list[(*n)++] : NULL;
}

static int by_rate(const void *a, const void *b) {
  const kvr_roof *x = a, *y = b;
  return (x->value > y->value) - (x->value < y->value);
}

/* mma_best repeats the rate of another resource: its name says less than that one's. */
static bool repeats(const kvr_roofline *r, uint64_t row) {
  if (strcmp(kvr_word_at(&r->ceiling, row), "mma_best") != 0) return false;
  for (uint64_t i = 0; i < r->ceilings.rows; i++)
    if (i != row && r->ceilings.value[0][i] == r->ceilings.value[0][row] &&
        !strcmp(kvr_word_at(&r->scope, i), "chip"))
      return true;
  return false;
}

/* DRAM and L2 are drawn as bandwidths, tensor-core rates as roofs; all the rest is in the table of the last
 * page. */
void kvr_choose_roofs(kvr_roofline *r) {
  for (uint64_t i = 0; i < r->ceilings.rows; i++) {
    double value = r->ceilings.value[0][i];
    const char *name = kvr_word_at(&r->ceiling, i);
    kvr_roof *to = NULL;
    if (!(value > 0) || strcmp(kvr_word_at(&r->scope, i), "chip") != 0) continue;
    if (!strcmp(kvr_word_at(&r->unit, i), "B/s") && (!strcmp(name, "dram") || !strcmp(name, "l2")))
      to = roof_of(r, r->bandwidth, &r->bandwidths, i);
    else if (!strcmp(kvr_word_at(&r->unit, i), "FLOP/s") && strcmp(name, "fma") != 0 &&
             strcmp(name, "sfu") != 0 && !repeats(r, i))
      to = roof_of(r, r->compute, &r->computes, i);
    if (to) *to = (kvr_roof){.row = i, .value = value};
  }
  qsort(r->bandwidth, r->bandwidths, sizeof *r->bandwidth,
        by_rate); /* the scripts take the first for DRAM's */
  qsort(r->compute, r->computes, sizeof *r->compute, by_rate);
}

/* Resources as people write them. */
const char *kvr_spoken(const char *name) {
  return !strcmp(name, "dram") ? "DRAM" : !strcmp(name, "l2") ? "L2" : name;
}

void kvr_put_roofs(const kvr_roofline *r, const char *prefix, const kvr_roof *list, size_t n, double scale) {
  char name[40], title[200];
  FILE *f = r->job->vars;
  fprintf(f, "array %s_VALUE[%zu]\narray %s_TITLE[%zu]\n", prefix, n ? n : 1, prefix, n ? n : 1);
  (void)snprintf(name, sizeof name, "%s_COUNT", prefix);
  kvr_put_number(f, name, (double)n);
  if (n == 0)
    fprintf(f, "%s_VALUE[1] = NaN\n%s_TITLE[1] = ''\n", prefix,
            prefix); /* gnuplot looks at it all the same */
  for (size_t k = 0; k < n; k++) {
    (void)snprintf(name, sizeof name, "%s_VALUE[%zu]", prefix, k + 1);
    kvr_put_number(f, name, list[k].value * scale);
    (void)snprintf(name, sizeof name, "%s_TITLE[%zu]", prefix, k + 1);
    (void)snprintf(title, sizeof title, "%.24s %s (%.24s)", kvr_spoken(kvr_word_at(&r->ceiling, list[k].row)),
                   kvr_si(list[k].value, kvr_word_at(&r->unit, list[k].row)).text,
                   kvr_word_at(&r->kind, list[k].row));
    kvr_put_text(f, name, title);
  }
}

double kvr_roof_named(const kvr_roofline *r, const kvr_roof *list, size_t n, const char *name) {
  for (size_t k = 0; k < n; k++)
    if (!strcmp(kvr_word_at(&r->ceiling, list[k].row), name)) return list[k].value;
  return NAN;
}

double kvr_highest(const kvr_roof *list, size_t n) {
  double v = NAN;
  for (size_t k = 0; k < n; k++) v = fmax(v, list[k].value);
  return v;
}

/* ---- the table of ceilings ---- */

#define TABLE_ROWS 24u

void kvr_missing_values(const kvr_roofline *r, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (uint64_t i = 0; i < r->gpu_row.n && at + 80 < size; i++)
    if (!*kvr_word_at(&r->gpu_value, i))
      at += (size_t)snprintf(text + at, size - at, "%s%.60s", at ? ", " : "", kvr_word_at(&r->gpu_row, i));
}

#define ROW_PITCH 15.5
#define LINE_PITCH 12.5 /* of further lines of a row */
#define PITCH 12.5
#define BOTTOM (KVR_PAGE_HEIGHT - 48)
#define SOURCE_LINES 4u

/* The source takes up to `lines`; returns the y of the last. f NULL: only measures. */
static double put_ceiling_row(FILE *f, double y, const char *const cell[5], bool bold, size_t lines) {
  static const double x[] = {36, 126, 186, 284, 406}, width[] = {86, 56, 94, 118, 400};
  for (size_t k = 0; k < 5; k++) {
    char text[900], *line = text;
    size_t n = kvr_wrap(cell[k], 10.5, bold, width[k], k == 4 ? lines : 1, text, sizeof text);
    for (size_t i = 0; i < n; i++) {
      char *end = strchr(line, '\n');
      if (end) *end = '\0';
      if (i) y += LINE_PITCH;
      const kvr_label label = {.x = x[k], .y = y, .size = 10.5, .bold = bold, .colour = bold ? "#333333" : "#000000"};
      if (f) kvr_put_label(f, &label, line);
      if (end) line = end + 1;
    }
  }
  return y;
}

/* Rows of one source after another tell it once. */
static const char *source_of(const kvr_roofline *r, uint64_t i) {
  const char *source = kvr_word_at(&r->source, i);
  return i && !strcmp(source, kvr_word_at(&r->source, i - 1)) && kvr_width(source, 10.5, false) > 400 ? "as above" : source;
}

static double put_ceiling_rows(const kvr_roofline *r, FILE *f, double y, uint64_t shown, size_t lines) {
  for (uint64_t i = 0; i < shown; i++) {
    const char *unit = kvr_word_at(&r->unit, i);
    kvr_word value = kvr_si(r->ceilings.value[0][i], *unit == '1' ? unit + 1 : unit); /* 4.16 T/s, not T1/s */
    const char *const cell[5] = {kvr_word_at(&r->ceiling, i), kvr_word_at(&r->scope, i), value.text,
                                 kvr_word_at(&r->kind, i), source_of(r, i)};
    y = put_ceiling_row(f, y + ROW_PITCH, cell, false, lines);
  }
  return y;
}

static double missing_count(const kvr_roofline *r) {
  double n = 0;
  for (uint64_t i = 0; i < r->gpu_row.n; i++) n += !*kvr_word_at(&r->gpu_value, i);
  return n;
}

static bool assumed(const kvr_roofline *r, uint64_t i) {
  return !strcmp(kvr_word_at(&r->gpu_kind, i), "assumed");
}

static double assumed_count(const kvr_roofline *r) {
  double n = 0;
  for (uint64_t i = 0; i < r->gpu_row.n; i++) n += assumed(r, i);
  return n;
}

static void put_line(FILE *f, double x, double y, double width, bool bold, const char *colour,
                     const char *text) {
  char line[512];
  (void)kvr_wrap(text, 8.5, bold, width, 1, line, sizeof line);
  kvr_put_label(f, &(kvr_label){.x = x, .y = y, .size = 8.5, .bold = bold, .colour = colour}, line);
}

/* " (1024 to 4096)", or "" where the file has no range of this value. */
static void range_text(const kvr_roofline *r, uint64_t i, char *text, size_t size) {
  text[0] = '\0';
  if (r->ranges.rows && isfinite(r->ranges.value[0][i]) && isfinite(r->ranges.value[1][i]))
    (void)snprintf(text, size, " (%.12g to %.12g)", r->ranges.value[0][i], r->ranges.value[1][i]);
}

/* There is little room in a third of a page: the finding says what "by others" is. */
static const char *short_kind(const char *kind) {
  return strcmp(kind, "measured by others") != 0 ? kind : "by others";
}

/* The description of the GPU in three columns; what is missing and what is assumed stands out. Returns how many
 * values there was room for. */
static uint64_t put_description(const kvr_roofline *r, FILE *f, double y, double bottom) {
  const double wide = (KVR_PAGE_WIDTH - 72) / 3;
  char text[400], range[80];
  uint64_t down = bottom > y + PITCH ? (uint64_t)((bottom - y) / PITCH) : 1, each = (r->gpu_row.n + 2) / 3;
  if (each > down) each = down;
  uint64_t shown = r->gpu_row.n < 3 * each ? r->gpu_row.n : 3 * each;
  for (uint64_t i = 0; i < shown; i++) {
    bool missing = !*kvr_word_at(&r->gpu_value, i), bold = missing || assumed(r, i);
    const char *unit = strcmp(kvr_word_at(&r->gpu_unit, i), "1") ? kvr_word_at(&r->gpu_unit, i) : "";
    range_text(r, i, range, sizeof range);
    if (missing) (void)snprintf(text, sizeof text, "%.60s: missing", kvr_word_at(&r->gpu_row, i));
    else
      (void)snprintf(text, sizeof text, "%.60s: %.60s%s%s%.20s%s%.30s%s", kvr_word_at(&r->gpu_row, i), kvr_word_at(&r->gpu_value, i),
                     range, *unit ? " " : "", unit, *range ? ", " : " (", short_kind(kvr_word_at(&r->gpu_kind, i)), *range ? "" : ")");
    put_line(f, 36 + wide * (double)(i / each), y + PITCH * (double)(i % each), wide - 10, bold,
             missing ? "#D55E00" : "#000000", text);
  }
  return shown;
}

static kv_status put_described(const kvr_roofline *r, kv_error *err) {
  FILE *f;
  char rest[120] = "";
  kv_status st = kvr_job_open(r->job, "description-labels.gp", &f, err);
  if (st) return st;
  uint64_t shown = put_description(r, f, 96, BOTTOM);
  if (shown < r->gpu_row.n)
    (void)snprintf(rest, sizeof rest, " The first %llu are shown, the rest is in /gpu of the dataset.",
                   (unsigned long long)shown);
  kvr_put_number(r->job->vars, "DESCRIBED", (double)r->gpu_row.n);
  kvr_put_finding(r->job, "FIND_DESCRIPTION",
                  "%s values: %s known, %s assumed (guesses), %s missing; a missing value stays missing. By others: measured, "
                  "but not by this project. In brackets: the range.%s",
                  kvr_count((double)r->gpu_row.n).text,
                  kvr_count((double)r->gpu_row.n - assumed_count(r) - missing_count(r)).text,
                  kvr_count(assumed_count(r)).text, kvr_count(missing_count(r)).text, rest);
  return kvr_job_close(r->job, &f, err);
}

/* ---- assumed values ---- */

bool kvr_has_assumed(const kvr_roofline *r) {
  return assumed_count(r) > 0;
}

/* Up to three lines of one value; returns the y of the last. f NULL: only measures. */
static double put_lines(FILE *f, double y, double size, const char *text) {
  char lines[1100], *line = lines;
  size_t n = kvr_wrap(text, size, false, KVR_PAGE_WIDTH - 84, 3, lines, sizeof lines);
  for (size_t i = 0; i < n; i++) {
    char *end = strchr(line, '\n');
    if (end) *end = '\0';
    if (i) y += 1.45 * size;
    if (f) kvr_put_label(f, &(kvr_label){.x = i ? 46 : 36, .y = y, .size = size, .colour = "#000000"}, line);
    if (end) line = end + 1;
  }
  return y;
}

/* Each assumed value with its range, and what its description says of it. Returns the y below the last. */
static double put_guesses(const kvr_roofline *r, FILE *f, double size) {
  char text[700], range[80];
  double y = 84, all = assumed_count(r), shown = 0, pitch = 1.45 * size;
  for (uint64_t i = 0; i < r->gpu_row.n; i++) {
    if (!assumed(r, i)) continue;
    y += 1.15 * pitch;
    if (f && y + 3 * pitch > BOTTOM && shown + 1 < all) {
      (void)snprintf(text, sizeof text, "and %.0f more: see /gpu of the dataset", all - shown);
      put_line(f, 36, y, KVR_PAGE_WIDTH - 72, true, "#333333", text);
      break;
    }
    range_text(r, i, range, sizeof range);
    const char *unit = strcmp(kvr_word_at(&r->gpu_unit, i), "1") ? kvr_word_at(&r->gpu_unit, i) : "";
    (void)snprintf(text, sizeof text, "%.60s = %.60s%s%s%.20s: %.400s", kvr_word_at(&r->gpu_row, i), kvr_word_at(&r->gpu_value, i), range,
                   *unit ? " " : "", unit, kvr_word_at(&r->gpu_source, i));
    y = put_lines(f, y, size, text);
    shown++;
  }
  return y;
}

kv_status kvr_put_assumed(const kvr_roofline *r, kv_error *err) {
  static const double sizes[] = {11, 10, 9.2, 8.5};
  size_t s = 0;
  FILE *f;
  kv_status st = kvr_job_open(r->job, "assumed-labels.gp", &f, err);
  if (st) return st;
  while (s + 1 < sizeof sizes / sizeof *sizes && put_guesses(r, NULL, sizes[s]) > BOTTOM) s++;
  (void)put_guesses(r, f, sizes[s]);
  kvr_put_finding(r->job, "FIND_ASSUMED",
                  "%s guesses: nobody has published these. Each with its range in brackets and its reason.",
                  kvr_count(assumed_count(r)).text);
  return kvr_job_close(r->job, &f, err);
}

kv_status kvr_put_ceilings(const kvr_roofline *r, kv_error *err) {
  static const char *const head[5] = {"resource", "scope", "ceiling", "kind", "source"};
  FILE *f;
  char rest[120] = "", guesses[160] = "No ceiling is a guess.";
  double y = 90;
  unsigned assumptions = 0;
  kv_status st = kvr_job_open(r->job, "ceiling-labels.gp", &f, err);
  if (st) return st;
  if (r->ceilings.rows) (void)put_ceiling_row(f, y, head, true, 1);
  uint64_t shown = r->ceilings.rows < TABLE_ROWS ? r->ceilings.rows : TABLE_ROWS;
  size_t lines = SOURCE_LINES;
  while (lines > 1 && put_ceiling_rows(r, NULL, y, shown, lines) > BOTTOM) lines--;
  (void)put_ceiling_rows(r, f, y, shown, lines);
  for (uint64_t i = 0; i < r->ceilings.rows; i++) assumptions += !strcmp(kvr_word_at(&r->kind, i), "assumed");
  if (assumptions)
    (void)snprintf(guesses, sizeof guesses, "%u of them %s assumed: a guess, with its reason under source.",
                   assumptions, assumptions == 1 ? "is" : "are");
  if (shown < r->ceilings.rows)
    (void)snprintf(rest, sizeof rest, " The first %u of %s are shown, the rest is in /ceilings of the dataset.",
                   TABLE_ROWS, kvr_count((double)r->ceilings.rows).text);
  kvr_put_number(r->job->vars, "CEILINGS", (double)r->ceilings.rows);
  kvr_put_finding(r->job, "FIND_CEILINGS", "What this report measures kernels against. %s%s", guesses, rest);
  st = kvr_job_close(r->job, &f, err);
  return st ? st : put_described(r, err);
}
