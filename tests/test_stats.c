/* Statistics: hand-computed quantiles, intervals that cover, paired ratios that take drift out. */
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>
#include <math.h>
#include <string.h>

#include "kv_test.h"
#include "stats.h"

static void quantiles_by_hand(void) {
  const double v[] = {4, 1, 3, 2};
  kva_summary s;
  CU_ASSERT_EQUAL(kva_summarise(v, 4, 1, &s, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(s.median, 2.5, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(s.minimum, 1, 0);
  CU_ASSERT_DOUBLE_EQUAL(s.maximum, 4, 0);
  CU_ASSERT_DOUBLE_EQUAL(s.p10, 1.3, 1e-12); /* 0.1 * 3 = 0.3 of the way from 1 to 2 */
  CU_ASSERT_DOUBLE_EQUAL(s.p90, 3.7, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(s.spread, 2.4 / 2.5, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(kva_quantile(v, 4, 0.25), 1.75, 1e-12);
  CU_ASSERT_DOUBLE_EQUAL(v[0], 4, 0); /* input unchanged */
}

static void few_values(void) {
  const double one[] = {7};
  kva_summary s;
  CU_ASSERT_EQUAL(kva_summarise(one, 1, 1, &s, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(s.median, 7, 0);
  CU_ASSERT_DOUBLE_EQUAL(s.low, 7, 0);
  CU_ASSERT_DOUBLE_EQUAL(s.high, 7, 0);
  CU_ASSERT_EQUAL(kva_summarise(one, 0, 1, &s, NULL), KV_OK);
  CU_ASSERT(isnan(s.median) && isnan(s.low) && s.n == 0);
  CU_ASSERT(isnan(kva_quantile(one, 0, 0.5)));
}

static void refuses_nan(void) {
  const double v[] = {1, NAN}, zero[] = {1, 0};
  kva_summary s;
  kva_interval r;
  kv_error err;
  CU_ASSERT_EQUAL(kva_summarise(v, 2, 1, &s, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "value 1"));
  CU_ASSERT_EQUAL(kva_ratio(v, 1, zero, 2, 0, 1, &r, &err), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_ratio(v, 1, v, 0, 0, 1, &r, &err), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_ratio(zero, 1, v, 1, 1, 1, &r, &err), KV_OK);
  CU_ASSERT_EQUAL(kva_ratio(zero, 1, zero, 2, 1, 1, &r, &err), KV_ERR_INPUT);
}

static void same_seed_same_interval(void) {
  double v[40];
  kva_summary a, b, c;
  for (int i = 0; i < 40; i++) v[i] = 10 + (i * 7 % 40) * 0.1;
  CU_ASSERT_EQUAL(kva_summarise(v, 40, 5, &a, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_summarise(v, 40, 5, &b, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_summarise(v, 40, 6, &c, NULL), KV_OK);
  CU_ASSERT_EQUAL(memcmp(&a, &b, sizeof a), 0);
  CU_ASSERT(a.low <= a.median && a.median <= a.high && a.low < a.high);
  CU_ASSERT_DOUBLE_EQUAL(a.low, c.low, 0.3);
}

/* Of 200 experiments with 30 normal values the 95 % interval of the median must cover the true one in 180 to
 * 199. */
static void interval_covers(void) {
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  int covered = 0;
  gsl_rng_set(rng, 42);
  for (int e = 0; e < 200; e++) {
    double v[30];
    kva_summary s;
    for (int i = 0; i < 30; i++) v[i] = 100 + gsl_ran_gaussian(rng, 3);
    CU_ASSERT_EQUAL(kva_summarise(v, 30, (uint64_t)e, &s, NULL), KV_OK);
    covered += s.low <= 100 && 100 <= s.high;
  }
  gsl_rng_free(rng);
  CU_ASSERT(covered >= 180 && covered <= 199);
}

/* Both series share a strong drift; b is 1 % slower. Pairing must find it, independent drawing can't. */
static void pairing_removes_drift(void) {
  double a[50], b[50];
  kva_interval paired, apart;
  for (int i = 0; i < 50; i++) {
    double drift = 1 + 0.2 * i / 50;
    a[i] = drift * (1 + 0.0005 * (i % 3));
    b[i] = 1.01 * drift * (1 + 0.0005 * (i % 4));
  }
  CU_ASSERT_EQUAL(kva_ratio(b, 50, a, 50, 1, 3, &paired, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_ratio(b, 50, a, 50, 0, 3, &apart, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(paired.value, 1.01, 0.001);
  CU_ASSERT(paired.low > 1.005 && paired.high < 1.015);
  CU_ASSERT(apart.low < 1.0 && apart.high > 1.02);
}

void suite_stats(void) {
  static const kv_test_case cases[] = {{"quantiles by hand", quantiles_by_hand},
                                       {"one value, none", few_values},
                                       {"refuses NaN, zero, nothing", refuses_nan},
                                       {"same seed, same interval", same_seed_same_interval},
                                       {"interval covers the median", interval_covers},
                                       {"pairing removes drift", pairing_removes_drift},
                                       {NULL, NULL}};
  kv_suite("stats", cases);
}
