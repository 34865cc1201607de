#include "gains.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

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

#define WORD(f, expression) KVA_WORD(f, kva_gain, g, expression)
WORD(g_fix, g->fix)
WORD(g_before, g->before->kernel)
WORD(g_after, g->after->kernel)
WORD(g_layout, g->before->layout)
#define REAL(f, expression) KVA_REAL(f, kva_gain, g, expression)
REAL(g_prefix, (double)g->before->problem.longest)
REAL(g_heads, g->before->problem.heads)
REAL(g_batch, g->before->problem.batch)
REAL(g_realised, g->realised)
REAL(g_low, g->low)
REAL(g_high, g->high)
REAL(g_predicted, g->predicted)

kv_status kva_gains_write(hid_t file, const kva_gain *gain, size_t n, kv_error *err) {
  static const kva_word_column word[] = {{"fix", "What was changed", g_fix},
                                         {"before", "Kernel without it", g_before},
                                         {"after", "Kernel with it", g_after},
                                         {"layout", "Where the rows lie", g_layout}};
  static const kva_real_column real[] = {{"prefix", "1", "Tokens of the longest request", g_prefix},
                                         {"heads", "1", "Heads", g_heads},
                                         {"batch", "1", "Requests", g_batch},
                                         {"realised", "1", "Time before over time after, measured", g_realised},
                                         {"realised_low", "1", "Lower end of its interval", g_low},
                                         {"realised_high", "1", "Upper end of its interval", g_high},
                                         {"predicted", "1", "The same, predicted (NaN: no program)", g_predicted}};
  kv_status st = kva_write_words(file, "gains", word, sizeof word / sizeof *word, n, gain, err);
  return st ? st : kva_write_reals(file, "gains", real, sizeof real / sizeof *real, n, gain, err);
}
