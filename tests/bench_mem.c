/* How fast is the memory model, and how near does it come to what was measured?
 *
 * Lines a second: rows of 128 B and 1152 B, contiguous and at random places of 8 GiB, L2, TLB and DRAM on, on
 * one core (its own processor time, best of five). The floor is 20 M lines/s; below it the benchmark fails.
 * Beside it stands the time that a bare walk over the slot list takes. Then every point of two cards'
 * gathers, models/measured/h200-gather-20261129.txt and -20261129b.txt, fitted and held out apart.
 * KVROOF_FIT=1 fits the parameters anew to the points of the first marked fit (minutes) and prints them with
 * standard errors.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kv_test.h"
#include "mem_fit.h"

#define FLOOR 20e6
#define ROUNDS 5

int main(void);

static double processor_time(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool h200(kvm_mem_params *p) {
  kvm_gpu gpu;
  kv_error err = {KV_OK, ""};
  kv_status st = kvm_gpu_load(kv_source("models/gpus/h200_sxm.ini"), &gpu, &err);
  if (!st) st = kvm_mem_describe(kv_source("models/dram/hbm3e.ini"), &gpu, &err);
  if (!st) st = kvm_mem_params_of(&gpu, p, &err);
  if (st) (void)fprintf(stderr, "bench_mem: %s\n", err.text);
  kvm_gpu_free(&gpu);
  return !st;
}

/* What the list itself costs to look at. */
static double bare_walk(const int32_t *slot, uint64_t n) {
  volatile uint64_t sum = 0;
  double start = processor_time();
  uint64_t s = 0;
  for (uint64_t i = 0; i < n; i++) s += (uint64_t)slot[i];
  sum = s;
  (void)sum;
  return processor_time() - start;
}

static bool speed(kvm_mem *mem, uint32_t row_bytes, uint32_t run) {
  uint64_t n = (UINT64_C(256) << 20) / row_bytes;
  kvm_mem_pattern pattern = {(UINT64_C(8) << 30) / row_bytes, run, true, 1};
  int32_t *slot = malloc(n * sizeof *slot);
  double best = 0, bare = INFINITY;
  if (!slot) return false;
  kvm_mem_layout(&pattern, slot, n);
  for (int i = 0; i < ROUNDS; i++) {
    kvm_mem_rows rows = {.slot = slot, .n = n, .row_bytes = row_bytes, .index_bytes = 4};
    kvm_mem_result r;
    double walk = bare_walk(slot, n), start = processor_time();
    if (kvm_mem_read(mem, &rows, &r, NULL)) break;
    best = fmax(best, (double)r.requests / (processor_time() - start));
    bare = fmin(bare, walk);
  }
  printf("rows of %4u B, %-10s %6.1f M lines/s (bare walk over the list: %.2f ns a row)\n", row_bytes,
         run ? "random:" : "contiguous:", best / 1e6, bare / (double)n * 1e9);
  free(slot);
  return best >= FLOOR;
}

static void compare(const kvm_mem_params *p, const kvm_mem_points *points) {
  double sum[2] = {0}, worst[2] = {0};
  int n[2] = {0}, beyond[2] = {0};
  for (size_t i = 0; i < points->n; i++) {
    const kvm_mem_point *q = &points->point[i];
    double rate;
    if (q->spoilt) continue;
    if (kvm_mem_predict(p, q, 0, &rate, NULL)) return;
    double e = rate / q->rate - 1;
    sum[q->fit] += fabs(e);
    worst[q->fit] = fmax(worst[q->fit], fabs(e));
    beyond[q->fit] += fabs(e) > 0.1;
    n[q->fit]++;
    if (fabs(e) > 0.1)
      printf(
          "  beyond 10 %%: rows of %u B, runs of %u, pool %.3f GiB, %.0f KiB an SM in flight, %u SMs: %.0f, "
          "measured %.0f GB/s%s\n",
          q->row_bytes, q->run, (double)q->footprint / 1073741824.0, (double)q->in_flight / 1024, q->sms,
          rate / 1e9, q->rate / 1e9, kvm_mem_slower(points, i) ? ", by the slower of two kernels" : "");
  }
  for (int f = 1; f >= 0; f--)
    printf("%s: %d points, mean error %.2f %%, largest %.1f %%, beyond 10 %%: %d\n",
           f ? "fitted to" : "held out ", n[f], 100 * sum[f] / n[f], 100 * worst[f], beyond[f]);
}

/* What one card has of its own comes from its own points. */
static bool adapt(kvm_mem_params *p, const kvm_mem_points *points) {
  kv_error err = {KV_OK, ""};
  bool ok = !kvm_mem_adapt(p, points, &err);
  if (!ok) (void)fprintf(stderr, "bench_mem: %s\n", err.text);
  printf("this card: latency %.0f ns, activation %.3f ns, of the bus %.3f ns, efficiency %.4f\n",
         p->latency * 1e9, p->act * 1e9, p->act_bus * 1e9, p->efficiency);
  return ok;
}

/* The card's own first, then what all cards share. */
static void fit(const kvm_mem_params *p, const kvm_mem_points *points) {
  kvm_mem_fitted f;
  kv_error err = {KV_OK, ""};
  if (kvm_mem_fit(p, points, KVM_FIT_TURN | KVM_FIT_QUEUEING | KVM_FIT_NEAR | KVM_FIT_ISSUE,
                  UINT64_C(5) << 20, &f, &err)) {
    (void)fprintf(stderr, "bench_mem: %s\n", err.text);
    return;
  }
  printf("fit to %zu points, %u evaluations, rms of ln(model / measured) %.4f\n", f.points, f.evaluations,
         f.residual);
  printf(
      "  turn %.1f ns (+-%.0f %%)  queueing %.1f ns (%.0f %%)  near %.1f ns (%.0f %%)  issue %.1f ns (%.0f "
      "%%)\n",
      f.params.turn * 1e9, 100 * f.error[2], f.params.queueing * 1e9, 100 * f.error[3], f.params.near * 1e9,
      100 * f.error[4], f.params.issue * 1e9, 100 * f.error[6]);
  if (adapt(&f.params, points)) compare(&f.params, points);
}

static void gathers(const kvm_mem_params *described, const char *path, bool fits) {
  kvm_mem_points points;
  kvm_mem_params p = *described;
  if (kvm_mem_points_load(kv_source(path), &points, NULL)) return;
  printf("%s\n", path);
  if (adapt(&p, &points)) {
    compare(&p, &points);
    if (fits) fit(&p, &points);
  }
  kvm_mem_points_free(&points);
}

int main(void) {
  kvm_mem_params p;
  kvm_mem *mem = NULL;
  bool fast = h200(&p) && !kvm_mem_create(&p, &mem, NULL);
  for (int i = 0; mem && i < 4; i++) fast = speed(mem, i < 2 ? 128 : 1152, (uint32_t)(i & 1)) && fast;
  if (mem && !fast) printf("below the floor of %.0f M lines/s\n", FLOOR / 1e6);
  if (mem) {
    gathers(&p, "models/measured/h200-gather-20261129.txt", getenv("KVROOF_FIT") != NULL);
    gathers(&p, "models/measured/h200-gather-20261129b.txt", false);
  }
  kvm_mem_free(mem);
  return fast ? 0 : 1;
}
