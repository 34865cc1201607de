/* stats.h - the statistics that every measured figure carries: median, quantiles, spread and bootstrap
 * intervals.
 *
 * All of it is deterministic: resampling uses GSL's mt19937 with the seed given. Inputs are not changed.
 * Quantiles are linear between order statistics (type 7 of Hyndman and Fan 1996, GSL's), so that the median
 * of two is their mean. Intervals are percentile bootstrap intervals (Efron and Tibshirani 1993, ch. 13).
 */
#ifndef KVA_STATS_H
#define KVA_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

#define KVA_RESAMPLES 1000u
#define KVA_CONFIDENCE 0.95

typedef struct kva_summary {
  size_t n;
  double median, minimum, maximum;
  double p10, p90;
  double spread;    /* (p90 - p10) / median */
  double low, high; /* interval of the median, confidence KVA_CONFIDENCE; equal to the median when n is 1 */
} kva_summary;

/* Of n values. n = 0 gives NaN throughout and is no error. A value that is not finite: KV_ERR_INPUT. */
kv_status kva_summarise(const double *values, size_t n, uint64_t seed, kva_summary *out, kv_error *err);

/* Quantile 0 <= q <= 1 of n values; NaN for n = 0 or when memory is short. */
double kva_quantile(const double *values, size_t n, double q);

typedef struct kva_interval {
  double value, low, high;
} kva_interval;

/* median(a) / median(b) with its interval. `paired`: a[i] and b[i] belong to the same round and are drawn
 * together (n of both), which takes common drift out; else each is drawn by itself. KV_ERR_INPUT for n = 0 or
 * a value that is not finite and above 0. */
kv_status kva_ratio(const double *a, size_t na, const double *b, size_t nb, int paired, uint64_t seed,
                    kva_interval *out, kv_error *err);

#endif
