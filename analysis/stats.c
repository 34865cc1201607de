#include "stats.h"

#include <gsl/gsl_rng.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static double quantile_sorted(const double *sorted, size_t n, double q) {
  return n ? gsl_stats_quantile_from_sorted_data(sorted, 1, n, q) : NAN;
}

static double *sorted_copy(const double *values, size_t n) {
  double *copy = malloc((n ? n : 1) * sizeof *copy);
  if (!copy) return NULL;
  if (n) {
    memcpy(copy, values, n * sizeof *copy);
    gsl_sort(copy, 1, n);
  }
  return copy;
}

double kva_quantile(const double *values, size_t n, double q) {
  double *copy = sorted_copy(values, n);
  double result = copy ? quantile_sorted(copy, n, q) : NAN;
  free(copy);
  return result;
}

/* What a bootstrap needs; freed as one. */
typedef struct boot {
  gsl_rng *rng;
  double *sample_a, *sample_b, *results;
} boot;

static void boot_free(boot *b) {
  if (b->rng) gsl_rng_free(b->rng);
  free(b->sample_a);
  free(b->sample_b);
  free(b->results);
}

static kv_status boot_begin(boot *b, size_t na, size_t nb, uint64_t seed, kv_error *err) {
  *b = (boot){.rng = gsl_rng_alloc(gsl_rng_mt19937),
              .sample_a = malloc((na ? na : 1) * sizeof(double)),
              .sample_b = malloc((nb ? nb : 1) * sizeof(double)),
              .results = malloc(KVA_RESAMPLES * sizeof(double))};
  if (!b->rng || !b->sample_a || !b->sample_b || !b->results)
    return kv_fail(err, KV_ERR_MEMORY, "statistics: out of memory for %zu values", na + nb);
  gsl_rng_set(b->rng, (unsigned long)(seed & 0xFFFFFFFFu));
  return KV_OK;
}

static double median_in_place(double *values, size_t n) {
  gsl_sort(values, 1, n);
  return quantile_sorted(values, n, 0.5);
}

static void interval_of(double *results, double *low, double *high) {
  gsl_sort(results, 1, KVA_RESAMPLES);
  *low = quantile_sorted(results, KVA_RESAMPLES, (1 - KVA_CONFIDENCE) / 2);
  *high = quantile_sorted(results, KVA_RESAMPLES, (1 + KVA_CONFIDENCE) / 2);
}

static kv_status check(const double *values, size_t n, bool positive, kv_error *err) {
  for (size_t i = 0; i < n; i++)
    if (!isfinite(values[i]) || (positive && values[i] <= 0))
      return kv_fail(err, KV_ERR_INPUT, "statistics: value %zu is %g%s", i, values[i],
                     positive ? ", where a positive one is needed" : "");
  return KV_OK;
}

kv_status kva_summarise(const double *values, size_t n, uint64_t seed, kva_summary *out, kv_error *err) {
  double *sorted = NULL;
  boot b = {0};
  kv_status st = check(values, n, false, err);
  *out = (kva_summary){n, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
  if (st || n == 0) return st;
  sorted = sorted_copy(values, n);
  st = sorted ? boot_begin(&b, n, 0, seed, err) : kv_fail(err, KV_ERR_MEMORY, "statistics: out of memory");
  if (st) goto done;
  out->median = quantile_sorted(sorted, n, 0.5);
  out->minimum = sorted[0];
  out->maximum = sorted[n - 1];
  out->p10 = quantile_sorted(sorted, n, 0.1);
  out->p90 = quantile_sorted(sorted, n, 0.9);
  out->spread = (out->p90 - out->p10) / out->median;
  for (unsigned r = 0; r < KVA_RESAMPLES; r++) {
    for (size_t i = 0; i < n; i++) b.sample_a[i] = values[gsl_rng_uniform_int(b.rng, n)];
    b.results[r] = median_in_place(b.sample_a, n);
  }
  interval_of(b.results, &out->low, &out->high);
done:
  boot_free(&b);
  free(sorted);
  return st;
}

static double resampled_ratio(boot *b, const double *a, size_t na, const double *c, size_t nc, bool paired) {
  for (size_t i = 0; i < na; i++) {
    size_t k = gsl_rng_uniform_int(b->rng, na);
    b->sample_a[i] = a[k];
    if (paired) b->sample_b[i] = c[k];
  }
  for (size_t i = 0; !paired && i < nc; i++) b->sample_b[i] = c[gsl_rng_uniform_int(b->rng, nc)];
  return median_in_place(b->sample_a, na) / median_in_place(b->sample_b, nc);
}

kv_status kva_ratio(const double *a, size_t na, const double *b, size_t nb, int paired, uint64_t seed,
                    kva_interval *out, kv_error *err) {
  boot boot_state = {0};
  kv_status st = check(a, na, true, err);
  *out = (kva_interval){NAN, NAN, NAN};
  if (!st) st = check(b, nb, true, err);
  if (!st && (na == 0 || nb == 0)) st = kv_fail(err, KV_ERR_INPUT, "statistics: no values to compare");
  if (!st && paired && na != nb)
    st = kv_fail(err, KV_ERR_INPUT, "statistics: %zu values cannot be paired with %zu", na, nb);
  if (!st) st = boot_begin(&boot_state, na, nb, seed, err);
  if (st) goto done;
  out->value = kva_quantile(a, na, 0.5) / kva_quantile(b, nb, 0.5);
  for (unsigned r = 0; r < KVA_RESAMPLES; r++)
    boot_state.results[r] = resampled_ratio(&boot_state, a, na, b, nb, paired != 0);
  interval_of(boot_state.results, &out->low, &out->high);
done:
  boot_free(&boot_state);
  return st;
}
