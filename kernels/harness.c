#include "harness.h"

#include <math.h>
#include <stdlib.h>

/* xorshift64*: only the order inside a round hangs on it, so quality matters little and a seed of 0 is taken.
 */
static uint64_t next_random(uint64_t *s) {
  *s ^= *s >> 12;
  *s ^= *s << 25;
  *s ^= *s >> 27;
  return *s * UINT64_C(2685821657736338717);
}

static void shuffle(size_t *order, size_t n, uint64_t *random) {
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)(next_random(random) % i), kept = order[i - 1];
    order[i - 1] = order[j];
    order[j] = kept;
  }
}

static kv_status warm_up(const kvk_timer *t, size_t n, const kvk_plan *plan, double deadline, kv_error *err) {
  for (uint32_t w = 0; w < plan->warmup; w++) {
    for (size_t c = 0; c < n; c++) {
      kv_status st = t->run(t->self, c, false, false, NULL, err);
      if (st) return st;
    }
    if (t->now(t->self) >= deadline) break;
  }
  return KV_OK;
}

static kv_status one_round(const kvk_timer *t, size_t n, const kvk_plan *plan, const size_t *order,
                           uint32_t round, kvk_series *series, kv_error *err) {
  for (size_t i = 0; i < n; i++) {
    double s = NAN;
    kv_status st = t->run(t->self, order[i], plan->cold, true, &s, err);
    if (st) return st;
    if (!isfinite(s) || s <= 0)
      return kv_fail(err, KV_ERR_INTERNAL, "the timer gave %g s for contender %zu: not a time", s, order[i]);
    series[order[i]].seconds[round] = s;
  }
  return KV_OK;
}

/* NVML takes about a millisecond a reading: first, middle and last round are enough to see a clock fall. */
static bool reads_state(uint32_t round, uint32_t repeats) {
  return round == 0 || round + 1 == repeats || round == repeats / 2;
}

static void read_state(const kvk_timer *t, size_t n, kvk_series *series) {
  kvk_state reading;
  if (!t->state) return;
  t->state(t->self, &reading);
  for (size_t c = 0; c < n; c++) {
    kvk_state_merge(&series[c].state, &reading);
    series[c].throttled = kvk_state_throttled(&series[c].state);
  }
}

static kv_status begin(size_t n, kvk_series *series, size_t **order, kv_error *err) {
  *order = calloc(n ? n : 1, sizeof **order);
  if (!*order) return kv_fail(err, KV_ERR_MEMORY, "harness: out of memory for %zu contenders", n);
  for (size_t c = 0; c < n; c++) {
    (*order)[c] = c;
    series[c].count = 0;
    series[c].throttled = false;
    kvk_state_clear(&series[c].state);
  }
  return KV_OK;
}

kv_status kvk_measure(const kvk_timer *timer, size_t contenders, const kvk_plan *plan, kvk_series *series,
                      kv_error *err) {
  size_t *order = NULL;
  uint64_t random = plan->seed ? plan->seed : UINT64_C(0x9E3779B97F4A7C15);
  uint32_t minimum = plan->minimum ? plan->minimum : 1, done = 0;
  double start = timer->now(timer->self);
  double deadline = plan->time_limit > 0 ? start + plan->time_limit : INFINITY;
  kv_status st = begin(contenders, series, &order, err);
  if (!st) st = warm_up(timer, contenders, plan, deadline, err);
  while (!st && done < plan->repeats && (done == 0 || timer->now(timer->self) < deadline)) {
    shuffle(order, contenders, &random);
    st = one_round(timer, contenders, plan, order, done, series, err);
    if (st) break;
    if (reads_state(done, plan->repeats)) read_state(timer, contenders, series);
    done++;
    for (size_t c = 0; c < contenders; c++) series[c].count = done;
  }
  if (!st && done < minimum && done < plan->repeats)
    st = kv_fail(err, KV_ERR_DEVICE, "only %u of at least %u runs fitted into %.3g s: raise the time limit",
                 done, minimum, plan->time_limit);
  free(order);
  return st;
}
