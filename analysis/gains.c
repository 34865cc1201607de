#include "gains.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"

static const struct {
  const char *fix, *before, *after;
} fixes[] = {{"more stages", "planted_stages_1", "planted_stages_2"},
             {"more stages", "planted_stages_2", "planted_stages_4"},
             {"more stages", "planted_stages_4", "planted_stages_8"},
             {"more stages", "planted_stages_1", "planted_stages_8"},
             {"splits", "extend_serial_32x64", "split_per_head"},
             {"splits", "extend_serial_32x32", "split_per_head"},
             {"shared reads", "split_per_head", "split_verify"}};

static bool same_problem(const kva_reading *a, const kva_reading *b) {
  const kvm_verify *p = &a->problem, *q = &b->problem;
  return p->heads == q->heads && p->queries == q->queries && p->batch == q->batch &&
         p->longest == q->longest && p->row_bytes == q->row_bytes && !strcmp(a->layout, b->layout);
}

static kva_gain gain_of(const char *fix, const kva_reading *before, const kva_reading *after) {
  return (kva_gain){.fix = fix,
                    .before = before,
                    .after = after,
                    .realised = before->measured / after->measured,
                    .low = before->low / after->high,
                    .high = before->high / after->low,
                    .predicted = before->predicted / after->predicted};
}

/* The same kernel on the same rows (to a thousandth) by more blocks. */
static bool more_blocks(const kva_reading *a, const kva_reading *b) {
  const kvm_verify *p = &a->problem, *q = &b->problem;
  const double tokens = (double)p->tokens / (double)q->tokens;
  return !strncmp(a->kernel, "planted_", 8) && !strcmp(a->kernel, b->kernel) &&
         !strcmp(a->layout, b->layout) && p->batch < q->batch && fabs(tokens - 1) < 1e-3;
}

static size_t splits(const kva_readings *m, kva_gain *gain, size_t n, size_t room) {
  for (size_t i = 0; i < m->n; i++)
    for (size_t k = 0; k < m->n; k++) {
      if (!more_blocks(&m->sample[i], &m->sample[k])) continue;
      if (n < room) gain[n] = gain_of("more splits", &m->sample[i], &m->sample[k]);
      n++;
    }
  return n;
}

size_t kva_gains(const kva_readings *m, size_t sets, kva_gain *gain, size_t room) {
  size_t n = 0;
  for (size_t s = 0; s < sets; s++) n = splits(&m[s], gain, n, room);
  for (size_t f = 0; f < sizeof fixes / sizeof *fixes; f++)
    for (size_t s = 0; s < sets; s++)
      for (size_t i = 0; i < m[s].n; i++)
        for (size_t k = 0; k < m[s].n; k++) {
          const kva_reading *a = &m[s].sample[i], *b = &m[s].sample[k];
          if (strcmp(a->kernel, fixes[f].before) != 0 || strcmp(b->kernel, fixes[f].after) != 0 ||
              !same_problem(a, b))
            continue;
          if (n < room) gain[n] = gain_of(fixes[f].fix, a, b);
          n++;
        }
  return n;
}

double kva_gains_worst(const kva_gain *gain, size_t gains, const char *fix, size_t *n) {
  double worst = NAN;
  *n = 0;
  for (size_t i = 0; i < gains; i++) {
    if (isnan(gain[i].predicted) || (fix && strcmp(fix, gain[i].fix) != 0)) continue;
    worst = fmax(worst, fabs(gain[i].predicted / gain[i].realised - 1));
    (*n)++;
  }
  return worst;
}

/* ---- the dataset ---- */

static kv_status write_words(hid_t file, const kva_gain *gain, size_t n, kv_error *err) {
  const char **word = calloc(4 * n + 1, sizeof *word);
  if (!word) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t i = 0; i < n; i++) {
    word[i] = gain[i].fix;
    word[n + i] = gain[i].before->kernel;
    word[2 * n + i] = gain[i].after->kernel;
    word[3 * n + i] = gain[i].before->layout;
  }
  kv_status st = kv_h5_write_strings(file, "gains/fix", n, word, "What was changed", err);
  if (!st) st = kv_h5_write_strings(file, "gains/before", n, word + n, "Kernel without it", err);
  if (!st) st = kv_h5_write_strings(file, "gains/after", n, word + 2 * n, "Kernel with it", err);
  if (!st) st = kv_h5_write_strings(file, "gains/layout", n, word + 3 * n, "Where the rows lie", err);
  free(word);
  return st;
}

kv_status kva_gains_write(hid_t file, const kva_gain *gain, size_t n, kv_error *err) {
  static const struct {
    const char *name, *long_name;
  } column[] = {{"gains/prefix", "Tokens of the longest request"},
                {"gains/heads", "Heads"},
                {"gains/batch", "Requests"},
                {"gains/realised", "Time before over time after, measured"},
                {"gains/realised_low", "Lower end of its interval"},
                {"gains/realised_high", "Upper end of its interval"},
                {"gains/predicted", "The same, predicted (NaN: no program)"}};
  enum { COLUMNS = sizeof column / sizeof *column };
  double *v = calloc(n + 1, sizeof *v);
  if (!v) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_status st = write_words(file, gain, n, err);
  for (int c = 0; !st && c < COLUMNS; c++) {
    for (size_t i = 0; i < n; i++) {
      const kva_gain *g = &gain[i];
      const double value[COLUMNS] = {(double)g->before->problem.longest,
                                     g->before->problem.heads,
                                     g->before->problem.batch,
                                     g->realised,
                                     g->low,
                                     g->high,
                                     g->predicted};
      v[i] = value[c];
    }
    st = kv_h5_write(file, column[c].name, H5T_IEEE_F64LE, n, v, "1", column[c].long_name, KV_H5_SMALL, err);
  }
  free(v);
  return st;
}
