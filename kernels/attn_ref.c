/* The attention of attention.h in double precision, on the host, as plainly as it can be written. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

uint16_t kvk_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((bits >> 16) | 0x40u); /* keep a NaN a NaN */
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float kvk_from_bf16(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static bool sees(const kvk_problem *p, int request, uint64_t prefix, int query, int node) {
  const size_t n = (size_t)p->queries, row = (size_t)request * n + (size_t)query, j = (size_t)node;
  const uint8_t *bytes = p->mask;
  switch (p->mask_kind) {
    case KVK_MASK_CHAIN: return node <= query;
    case KVK_MASK_FULL: return bytes[p->mask_indptr[request] + (size_t)query * (prefix + n) + prefix + j] != 0;
    case KVK_MASK_TREE: return bytes[row * n + j] != 0;
    case KVK_MASK_BITS:
      if (n <= 8) return (bytes[row] >> j) & 1;
      if (n <= 16) return (((const uint16_t *)p->mask)[row] >> j) & 1;
      return (((const uint32_t *)p->mask)[row] >> j) & 1;
  }
  return false;
}

/* The slots that one query sees, prefix first; returns how many. */
static uint64_t visible(const kvk_problem *p, int request, int query, int32_t *slots) {
  const uint64_t first = p->indptr[request], prefix = p->indptr[request + 1] - first;
  uint64_t n = prefix;
  if (prefix) memcpy(slots, p->slots + first, (size_t)prefix * sizeof *slots);
  if (!p->tree_slots) return n;
  for (int j = 0; j < p->queries; j++) {
    int32_t slot = p->tree_slots[(size_t)request * (size_t)p->queries + (size_t)j];
    if (slot >= 0 && sees(p, request, prefix, query, j)) slots[n++] = slot;
  }
  return n;
}

static const uint16_t *row_of(const kvk_problem *p, int32_t slot) { return p->kv + (int64_t)slot * p->kv_row_stride; }

static double dot(const double *q, const uint16_t *row, int n) {
  double sum = 0;
  for (int d = 0; d < n; d++) sum += q[d] * (double)kvk_from_bf16(row[d]);
  return sum;
}

typedef struct scratch {
  int32_t *slots;
  double *logits, *q;
} scratch;

/* One (query, head): softmax over the visible rows, with the maximum taken out first. */
static void attend(const kvk_problem *p, const scratch *s, uint64_t n, const uint16_t *q, double *out, double *lse) {
  const int width = p->latent + p->rope;
  double top = -INFINITY, sum = 0;
  for (int d = 0; d < width; d++) s->q[d] = (double)kvk_from_bf16(q[d]);
  for (uint64_t k = 0; k < n; k++) {
    s->logits[k] = (double)p->scale * dot(s->q, row_of(p, s->slots[k]), width);
    if (s->logits[k] > top || isnan(s->logits[k])) top = s->logits[k];
    if (isnan(top)) break;
  }
  memset(out, 0, (size_t)p->latent * sizeof *out);
  *lse = isnan(top) ? top : -INFINITY;
  if (isnan(top))
    for (int d = 0; d < p->latent; d++) out[d] = top;
  if (isnan(top) || isinf(top)) {
    if (top > 0) {
      *lse = NAN; /* inf - inf */
      for (int d = 0; d < p->latent; d++) out[d] = NAN;
    }
    return;
  }
  for (uint64_t k = 0; k < n; k++) {
    const uint16_t *row = row_of(p, s->slots[k]);
    double weight = exp(s->logits[k] - top);
    sum += weight;
    for (int d = 0; d < p->latent; d++) out[d] += weight * (double)kvk_from_bf16(row[d]);
  }
  for (int d = 0; d < p->latent; d++) out[d] /= sum;
  *lse = top + log(sum);
}

static uint64_t longest(const kvk_problem *p) {
  uint64_t most = 0;
  for (int i = 0; i < p->batch; i++)
    if (p->indptr[i + 1] - p->indptr[i] > most) most = p->indptr[i + 1] - p->indptr[i];
  return most + (uint64_t)p->queries;
}

static void attend_query(const kvk_problem *p, const scratch *s, int request, int query, double *out, double *lse) {
  uint64_t n = visible(p, request, query, s->slots);
  size_t row = ((size_t)request * (size_t)p->queries + (size_t)query) * (size_t)p->heads;
  for (int h = 0; h < p->heads; h++, row++)
    attend(p, s, n, p->q + (int64_t)row * p->q_row_stride, out + row * (size_t)p->latent, lse + row);
}

kv_status kvk_reference(const kvk_problem *p, double *out, double *lse, kv_error *err) {
  if (p->batch < 0 || p->queries < 1 || p->queries > KVK_MAX_QUERIES || p->heads < 1 || p->latent < 1 || p->rope < 0)
    return kv_fail(err, KV_ERR_USAGE, "attention: a shape that cannot be: batch %d, queries %d, heads %d, row %d+%d",
                   p->batch, p->queries, p->heads, p->latent, p->rope);
  kv_status status = KV_OK;
  const size_t most = (size_t)longest(p);
  scratch s = {malloc(most * sizeof *s.slots), malloc(most * sizeof *s.logits),
               malloc((size_t)(p->latent + p->rope) * sizeof *s.q)};
  if (!s.slots || !s.logits || !s.q) {
    status = kv_fail(err, KV_ERR_MEMORY, "attention: out of memory for %zu keys", most);
    goto done;
  }
  for (int i = 0; i < p->batch; i++)
    for (int q = 0; q < p->queries; q++) attend_query(p, &s, i, q, out, lse);
done:
  free(s.slots);
  free(s.logits);
  free(s.q);
  return status;
}

void kvk_reference_merge(const kvk_merge *m, double *out, double *lse) {
  for (int64_t r = 0; r < m->rows; r++) {
    double la = isinf(m->lse_a[r]) ? -INFINITY : (double)m->lse_a[r];
    double lb = isinf(m->lse_b[r]) ? -INFINITY : (double)m->lse_b[r];
    double top = la > lb || isnan(la) ? la : lb;
    double wa = isinf(top) ? 0 : exp(la - top), wb = isinf(top) ? 0 : exp(lb - top), sum = wa + wb;
    for (int d = 0; d < KVK_LATENT; d++) {
      double a = (double)kvk_from_bf16(m->a[r * KVK_LATENT + d]), b = (double)kvk_from_bf16(m->b[r * KVK_LATENT + d]);
      /* An empty side's values may be anything, NaN too: they are left out, not multiplied by 0. */
      out[r * KVK_LATENT + d] = sum == 0 ? 0 : ((wa == 0 ? 0 : wa * a) + (wb == 0 ? 0 : wb * b)) / sum;
    }
    lse[r] = isinf(top) ? -INFINITY : top + log(sum);
  }
}

kvk_tolerance kvk_default_tolerance(double max_value, double max_logit) {
  double v = max_value > 0.6 ? max_value / 0.6 : 1, l = max_logit > 1 ? max_logit : 1;
  return (kvk_tolerance){8e-4 * v, 2.01 / 128, 5e-6, 1e-6 * l, 8.01 / 65536};
}

static int special(double x) { return isnan(x) ? 3 : isinf(x) ? (x > 0 ? 2 : 1) : 0; }

/* The difference in units of the larger of the two tolerances; -1 where inf or nan differ. */
static double judged(double x, double ref, double abs_tol, double rel_tol) {
  if (special(x) || special(ref)) return special(x) == special(ref) ? 0 : -1;
  double allowed = fabs(ref) * rel_tol > abs_tol ? fabs(ref) * rel_tol : abs_tol;
  return fabs(x - ref) / allowed;
}

kv_status kvk_compare(const kvk_problem *p, const uint16_t *out, const float *lse, const double *ref_out,
                      const double *ref_lse, const kvk_tolerance *t, kvk_difference *d, kv_error *err) {
  const size_t rows = (size_t)p->batch * (size_t)p->queries * (size_t)p->heads, n = rows * (size_t)p->latent;
  double xy = 0, xx = 0, yy = 0;
  kv_status status = KV_OK;
  memset(d, 0, sizeof *d);
  for (size_t i = 0; i < n + rows; i++) {
    const bool is_lse = i >= n;
    if (is_lse && !lse) break;
    double x = is_lse ? (double)lse[i - n] : (double)kvk_from_bf16(out[i]), ref = is_lse ? ref_lse[i - n] : ref_out[i];
    double off = is_lse ? judged(x, ref, t->lse_abs, t->lse_rel) : judged(x, ref, t->out_abs, t->out_rel);
    double *worst = is_lse ? &d->worst_lse : &d->worst_out;
    if (off < 0) d->bad_special++;
    if (off > 1) (*(is_lse ? &d->bad_lse : &d->bad_out))++;
    if (off > *worst) *worst = off;
    if (!is_lse && isfinite(x) && isfinite(ref)) xy += x * ref, xx += x * x, yy += ref * ref;
    if ((off < 0 || off > 1) && status == KV_OK)
      status = kv_fail(err, KV_ERR_BAR, "%s differs at row %zu, value %zu: %.9g, reference %.9g", is_lse ? "lse" : "out",
                       is_lse ? i - n : i / (size_t)p->latent, is_lse ? 0 : i % (size_t)p->latent, x, ref);
  }
  d->cosine = xx + yy > 0 ? 1 - 2 * xy / (xx + yy) : 0;
  if (status == KV_OK && d->cosine > t->cosine)
    status = kv_fail(err, KV_ERR_BAR, "out: cosine difference %.3g, allowed %.3g", d->cosine, t->cosine);
  return status;
}
