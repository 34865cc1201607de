/* kvr_ladder.c - what a kernel moves and what its time is made of, a kernel at its longest prefix, first
 * variant.
 *
 *   bytes.tsv       row, name, then factor and text for DRAM, L2 and link, and where the three texts stand
 *   ladder.tsv      a line a step known: row, time before, time after (us), number of the cause, text, 1 if the text goes
 *                   below the bar
 *   ladder-end.tsv  a line a kernel: row, name, measured, low, high, modelled (us), text, last
 *                   step known (us)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kvr_points.h"
#include "kvr_text.h"

/* ---- bytes moved ---- */

kv_status kvr_put_bytes(const kvr_roofline *r, kv_error *err) {
  static const size_t level[] = {R_DRAM, R_L2, R_LINK};
  static const char *const levels[] = {"DRAM", "L2", "link"};
  FILE *f;
  double rows = 0, most = 1, worst = 0, place[3];
  bool by_structure = false;
  uint64_t at = 0, worst_row = UINT64_MAX;
  size_t worst_level = 0;
  kv_status st = kvr_job_open(r->job, "bytes.tsv", &f, err);
  if (st) return st;
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++) {
    uint64_t i = r->order[at + r->of[s].points - 1];
    double useful = kvr_at(r, R_USEFUL, i);
    if ((s && r->of[s - 1].kernel == r->of[s].kernel) || !(useful > 0)) continue; /* first variant only */
    kvr_put_cell(f, ++rows);
    char name[512];
    (void)kvr_wrap(kvr_kernel_of(r, i), 10.5, false, 140, 1, name, sizeof name);
    kvr_put_word(f, name);
    for (size_t k = 0; k < 3; k++) {
      double factor = kvr_positive(kvr_at(r, level[k], i) / useful);
      char text[80] = "";
      kvr_put_cell(f, factor);
      if (isfinite(factor)) {
        most = fmax(most, factor);
        const bool told = level[k] == R_LINK && kvr_link_by_structure(r, i);
        by_structure |= told;
        (void)snprintf(text, sizeof text, "%.2f x  (%s%s)", factor, kvr_bytes(kvr_at(r, level[k], i)).text,
                       told ? ", by structure" : "");
      }
      else (void)snprintf(text, sizeof text, "%s: not counted", levels[k]);
      place[k] = isfinite(factor) ? fmax(factor, 1) : 1;
      if (isfinite(factor) && factor > worst) worst = factor, worst_row = i, worst_level = k;
      kvr_put_word(f, text);
    }
    for (size_t k = 0; k < 3; k++) kvr_put_cell(f, place[k]);
    fputc('\n', f);
  }
  static const char *const names[] = {"from DRAM", "out of L2", "over the L2-to-SM link"};
  kvr_put_number(r->job->vars, "BYTE_ROWS", rows);
  kvr_put_number(r->job->vars, "BYTE_MOST", most);
  if (worst_row == UINT64_MAX) kvr_put_finding(r->job, "FIND_BYTES", "No byte counts in this dataset.");
  else
    kvr_put_finding(r->job, "FIND_BYTES",
                    "Each kernel at its longest prefix. Most redundant: %s moves %.1f times the useful bytes "
                    "%s (%s for %s "
                    "useful, prefix %s%s).%s",
                    kvr_kernel_of(r, worst_row), worst, names[worst_level],
                    kvr_bytes(kvr_at(r, level[worst_level], worst_row)).text,
                    kvr_bytes(kvr_at(r, R_USEFUL, worst_row)).text,
                    kvr_count(kvr_at(r, R_PREFIX, worst_row)).text,
                    worst_level == 2 && kvr_link_by_structure(r, worst_row) ? "; by structure" : "",
                    by_structure ? " Not counted, so by structure: the link." : "");
  return kvr_job_close(r->job, &f, err);
}

/* ---- the ladder ---- */

enum { CAUSES = 7 };
static const char *const cause_names[CAUSES] = {"path",   "work",           "scatter", "placement",
                                                "serial", "exposed memory", "overhead"};
static const size_t ladder_columns[CAUSES] = {R_T1, R_T2, R_T3, R_T4, R_T5, R_T6, R_T7};

/* Causes first..last by name: where steps between are unknown, a factor belongs to all of them together. */
static void name_causes(size_t first, size_t last, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (size_t c = first; c <= last && at < size; c++)
    at += (size_t)snprintf(text + at, size - at, "%s%s", c > first ? " + " : "", cause_names[c]);
}

typedef struct climb {
  double before;     /* us, the last step known */
  size_t next;       /* the first cause not yet accounted for */
  double worst;      /* the largest factor */
  char worst_of[80]; /* and what it is */
  bool crowded;      /* factors too small for a label above each: they alternate above and below */
  unsigned labels;
} climb;

/* A factor below 1 is drawn and called out: a ceiling or an experiment is wrong there, and clamping would
 * hide it. */
static void put_step(FILE *f, double row, climb *c, size_t cause, double after) {
  char causes[120], text[200];
  double factor = after / c->before;
  name_causes(c->next, cause, causes, sizeof causes);
  text[0] = '\0';
  if (factor < 0.995) (void)snprintf(text, sizeof text, "%s x%.2f (below 1: check)", causes, factor);
  else if (factor >= 1.3) (void)snprintf(text, sizeof text, "x%.3g", factor);
  kvr_put_cell(f, row);
  kvr_put_cell(f, c->before);
  kvr_put_cell(f, after);
  kvr_put_cell(f, (double)cause + 1);
  kvr_put_word(f, text);
  kvr_put_cell(f, c->crowded && *text && factor >= 1 ? (double)(c->labels++ % 2) : 0);
  fputc('\n', f);
  if (factor > c->worst) {
    c->worst = factor;
    (void)snprintf(c->worst_of, sizeof c->worst_of, "%.79s", causes);
  }
  c->before = after;
  c->next = cause + 1;
}

static void put_climb(const kvr_roofline *r, FILE *f, double row, uint64_t i, climb *c, bool known[CAUSES]) {
  *c = (climb){.before = kvr_positive(kvr_at(r, R_FLOOR, i) * 1e6)};
  double last = c->before;
  if (!isfinite(c->before)) return;
  for (size_t k = 0; k < CAUSES; k++) {
    double after = kvr_positive(kvr_at(r, ladder_columns[k], i) * 1e6);
    if (!isfinite(after)) continue;
    c->crowded |= after / last >= 1.3 && after / last < 2;
    known[k] |= after > last;
    last = after;
  }
  for (size_t k = 0; k < CAUSES; k++) {
    double after = kvr_positive(kvr_at(r, ladder_columns[k], i) * 1e6);
    if (isfinite(after)) put_step(f, row, c, k, after);
  }
}

static void put_end(const kvr_roofline *r, FILE *f, double row, uint64_t i, double last) {
  char name[512], text[80] = "";
  double best = kvr_best_time(r, i);
  (void)kvr_wrap(kvr_kernel_of(r, i), 10.5, false, 140, 1, name, sizeof name);
  if (best > 0)
    (void)snprintf(text, sizeof text, "%s, x%.3g", kvr_time(best).text, best / kvr_at(r, R_FLOOR, i));
  else if (isfinite(kvr_bound(r, i)))
    (void)snprintf(text, sizeof text, "bound: at least %s", kvr_time(kvr_bound(r, i)).text);
  kvr_put_cell(f, row);
  kvr_put_word(f, name);
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_FLOOR, i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_MEASURED, i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_LOW, i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_HIGH, i) * 1e6));
  kvr_put_cell(f, kvr_positive(kvr_at(r, R_TIME, i) * 1e6));
  kvr_put_word(f, text);
  kvr_put_cell(f, last);
  fputc('\n', f);
}

static void find_ladder(const kvr_roofline *r, const climb *slowest, uint64_t i, const char *farthest,
                        const char *missing) {
  if (i == UINT64_MAX) kvr_put_finding(r->job, "FIND_LADDER", "No floor of any kernel is known.");
  else if (!slowest->worst_of[0])
    kvr_put_finding(r->job, "FIND_LADDER",
                    "Each kernel at its longest prefix. No step between floor and time is in this dataset%s%s",
                    farthest ? ". Farthest from its floor: " : ": only floors are known.", farthest ? farthest : "");
  else
    kvr_put_finding(
        r->job, "FIND_LADDER",
        "Each kernel at its longest prefix, from its floor T0 upwards, a cause a step. Longest ladder: %s at "
        "%s tokens, where the largest step is %s, x%.3g.%s",
        kvr_kernel_of(r, i), kvr_count(kvr_at(r, R_PREFIX, i)).text, slowest->worst_of, slowest->worst,
        missing);
}

/* The tables are written together, so that a row is the same kernel in both. */
static void put_ladders(const kvr_roofline *r, FILE *steps, FILE *ends) {
  climb longest = {0};
  bool known[CAUSES] = {false};
  uint64_t at = 0, of = UINT64_MAX;
  double rows = 0, most = 0, far = 0;
  bool timed = false; /* a ladder that ends at a bound is the longest only where none ends at a time */
  char farthest[160] = "", missing[160] = "";
  for (size_t s = 0; s < r->series_count; at += r->of[s].points, s++) {
    uint64_t i = r->order[at + r->of[s].points - 1];
    climb c;
    if ((s && r->of[s - 1].kernel == r->of[s].kernel) || !(kvr_at(r, R_FLOOR, i) > 0)) continue;
    put_climb(r, steps, ++rows, i, &c, known);
    if (kvr_lacks_t3(r, i) && !*missing)
      (void)snprintf(missing, sizeof missing, " No T3 of %.60s: scatter is within placement.",
                     kvr_word_at(&r->layout, (uint64_t)kvr_at(r, R_LAYOUT, i)));
    put_end(r, ends, rows, i, c.before);
    double times = kvr_best_time(r, i) / kvr_at(r, R_FLOOR, i);
    if (times > far) {
      far = times;
      (void)snprintf(farthest, sizeof farthest, "%.80s, %.3g times.", kvr_kernel_of(r, i), times);
    }
    const bool whole = !isfinite(kvr_bound(r, i));
    if (of == UINT64_MAX || whole > timed || (whole == timed && c.before / kvr_at(r, R_FLOOR, i) > most)) {
      timed = whole;
      most = c.before / kvr_at(r, R_FLOOR, i);
      longest = c;
      of = i;
    }
  }
  kvr_put_number(r->job->vars, "LADDER_ROWS", rows);
  fprintf(r->job->vars, "array CAUSE_KNOWN[%d]\n", CAUSES);
  for (unsigned k = 0; k < CAUSES; k++) fprintf(r->job->vars, "CAUSE_KNOWN[%u] = %d\n", k + 1, known[k]);
  find_ladder(r, &longest, of, *farthest ? farthest : NULL, missing);
}

kv_status kvr_put_ladder(const kvr_roofline *r, kv_error *err) {
  FILE *steps = NULL, *ends = NULL;
  kv_status st = kvr_job_open(r->job, "ladder.tsv", &steps, err);
  if (!st) st = kvr_job_open(r->job, "ladder-end.tsv", &ends, err);
  if (!st) {
    put_ladders(r, steps, ends);
    fputs("NaN\tNaN\tNaN\tNaN\t\t0\n", steps); /* gnuplot wants a line, even where no step is known */
    st = kvr_job_close(r->job, &steps, err);
  }
  if (!st) st = kvr_job_close(r->job, &ends, err);
  if (steps) (void)fclose(steps);
  if (ends) (void)fclose(ends);
  return st;
}
