/* Predictions of this project's kernels: what must hold whatever the machine code, on problems that nobody
 * measured. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calibration.h"
#include "kv_test.h"
#include "time_calibrate.h"
#include "time_model.h"

static kvm_gpus gpus, pipes;
static kvm_declared_set declared;

static void load(void) {
  kv_error err = {KV_OK, ""};
  kv_status st = kvm_gpus_load(kv_source("models/gpus"), &gpus, &err);
  if (!st) st = kvm_gpus_load(kv_source("models/pipes"), &pipes, &err);
  if (!st) st = kvm_declared_load_all(kv_source("models/kernels"), &declared, &err);
  if (st) printf("%s\n", err.text);
  CU_ASSERT_EQUAL_FATAL(st, KV_OK);
}

static const char *const kernels[] = {"extend_serial_32x64", "extend_serial_32x32", "split_per_head",
                                      "split_verify"};
enum { KERNELS = 4 };

/* One prediction; NaN, and a failed test, where there is none. */
static kvm_prediction ask(const char *gpu_name, const char *kernel, uint32_t heads, uint32_t queries,
                          uint32_t batch, uint64_t prefix, bool all) {
  const kvm_gpu *gpu;
  kvm_time_memo memo = {0};
  kvm_prediction out = {0};
  kvm_verify p = kvm_verify_default(prefix);
  p.heads = heads;
  p.queries = queries;
  p.batch = batch;
  kvm_verify_uniform(&p, prefix);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, gpu_name, &gpu, NULL), KV_OK);
  const kvm_declared *k = kvm_declared_for(&declared, kernel, kvm_gpu_sm(gpu), 0, &p,
                                           kvm_gpu_number(gpu, "smem_per_block_optin"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  kvm_timing timing = kvm_timing_of(gpu, kvm_pipes_find(&pipes, kvm_gpu_sm(gpu)), &roofs);
  kvm_work w = kvm_declared_work(k, &p, gpu);
  kvm_useful u = kvm_structure_useful(&k->structure, &p);
  const kvm_question q = {k, &p, &w, &u, &timing, 1, all, all, 0, 0};
  CU_ASSERT_EQUAL(kvm_predict(&q, &memo, &out, NULL), KV_OK);
  CU_ASSERT(out.known && out.whole > 0 && isfinite(out.whole));
  kvm_time_memo_free(&memo);
  return out;
}

static double whole(const char *kernel, uint32_t heads, uint32_t queries, uint32_t batch, uint64_t prefix) {
  return ask("h200", kernel, heads, queries, batch, prefix, false).whole;
}

/* `more` work does not take less time; 2 % for the order in which warps happen to meet. */
static bool at_least(const char *what, const char *kernel, double more, double less) {
  if (more >= 0.98 * less) return true;
  printf("%s: %s: %.1f us after %.1f\n", kernel, what, more * 1e6, less * 1e6);
  return false;
}

static void more_tokens_take_longer(void) {
  load();
  for (int k = 0; k < KERNELS; k++)
    for (uint32_t heads = 8; heads <= 64; heads *= 8) {
      double before = 0;
      for (uint64_t prefix = 256; prefix <= 524288; prefix *= 2) {
        double t = whole(kernels[k], heads, 9, 1, prefix);
        CU_ASSERT(at_least("a longer prefix", kernels[k], t, before));
        before = t;
      }
      /* in the end twice the tokens are twice the time, but for some 12 us that every run takes */
      double ratio = before / whole(kernels[k], heads, 9, 1, 262144);
      CU_ASSERT(ratio > 1.88 && ratio < 2.02);
    }
}

static void more_rows_take_longer(void) {
  for (int k = 0; k < KERNELS; k++) {
    double before = 0;
    for (uint32_t heads = 16; heads <= 128; heads *= 2) {
      double t = whole(kernels[k], heads, 9, 1, 65536);
      CU_ASSERT(at_least("more heads", kernels[k], t, before));
      before = t;
    }
  }
  /* one group of 48 rows or fewer, two, four: all blocks are alike and there are more of them to share the
   * GPU; of one group the memory is the longer part */
  double one = whole("split_verify", 6, 8, 1, 131072), two = whole("split_verify", 12, 8, 1, 131072),
         four = whole("split_verify", 24, 8, 1, 131072);
  CU_ASSERT(two > 1.5 * one && two < 2.1 * one && four > 1.7 * two && four < 2.1 * two);
}

static void a_batch_is_shared_out(void) {
  for (int k = 0; k < KERNELS; k++) {
    double one = whole(kernels[k], 8, 9, 1, 16384), two = whole(kernels[k], 8, 9, 2, 16384),
           sixteen = whole(kernels[k], 8, 9, 16, 16384), half = whole(kernels[k], 8, 9, 2, 8192);
    CU_ASSERT(at_least("two requests", kernels[k], two, one) && two < 2.05 * one);
    CU_ASSERT(at_least("sixteen requests", kernels[k], sixteen, two) && sixteen < 16.4 * one);
    if (getenv("KVROOF_VERBOSE")) printf("%s %g %g %g %g\n", kernels[k], one, half, two, sixteen);
    /* split kernels share out tokens, but one of their blocks ends a request and begins the next; others
     * share out blocks */
    CU_ASSERT(k < 2 ? half < 0.6 * one : half > one && half < 1.6 * one);
  }
  /* as many tokens in one request or in 8: much the same for a kernel that splits them anyway */
  double ratio = whole("split_verify", 8, 9, 8, 32768) / whole("split_verify", 8, 9, 1, 262144);
  CU_ASSERT(ratio > 0.95 && ratio < 1.2);
}

static void the_merge_is_part_of_it(void) {
  kvm_prediction few = ask("h200", "split_verify", 8, 9, 1, 4096, false),
                 many = ask("h200", "split_verify", 64, 9, 1, 4096, false),
                 none = ask("h200", "extend_serial_32x64", 8, 9, 1, 4096, false);
  CU_ASSERT(few.merge > 1e-6 && few.merge < 6e-6 && many.merge > few.merge);
  CU_ASSERT(none.merge == 0);
  CU_ASSERT_DOUBLE_EQUAL(few.whole, few.cold + few.merge + few.launches, 1e-12);
}

static void every_gpu_gets_a_time(void) {
  static const char *const name[] = {"h200", "sm_120", "h100", "a100", "rtx 5090"};
  for (size_t g = 0; g < sizeof name / sizeof *name; g++) {
    kvm_prediction p = ask(name[g], "split_verify", 8, 9, 1, 131072, true);
    CU_ASSERT(p.resident <= p.cold && p.cold < p.whole && p.low < p.whole && p.whole < p.high);
    for (int c = 0; c < KVM_CAUSES; c++)
      CU_ASSERT(c == KVM_C_SERIAL || p.gain[c] >= 1); /* serial is what remains */
  }
}

/* What was measured between warps stands above the pipes' file; a turn's branch is taken off. */
static void hops_are_calibrated(void) {
  const kvm_gpu *gpu;
  kva_calibrated about;
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &gpu, NULL), KV_OK);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  kvm_timing t = kvm_timing_of(gpu, kvm_pipes_find(&pipes, 90), &roofs);
  CU_ASSERT_EQUAL_FATAL(
      kva_time_calibrate(kv_source("models/measured/h200-ceilings.h5"), &t, &roofs, &about, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(t.p[KVM_P_BRANCH_LATENCY].value, 13.9, 0.05);
  CU_ASSERT_DOUBLE_EQUAL(t.p[KVM_P_MBARRIER_LATENCY].value, 48.1 - 13.9, 0.1);
  CU_ASSERT_DOUBLE_EQUAL(t.p[KVM_P_MBARRIER_HOP].value, 83.7 - 13.9, 0.1);
  CU_ASSERT_DOUBLE_EQUAL(t.p[KVM_P_LDMATRIX_LATENCY].value, 34.1, 0.05);
  CU_ASSERT(t.p[KVM_P_MBARRIER_HOP].kind == KVM_MEASURED);
  CU_ASSERT_DOUBLE_EQUAL(t.p[KVM_P_COPY_CYCLES].value, 4.26, 0.01);
}

/* The H200's calibration with cycles of these five loops beside; NaN: without that one. */
static kvm_timing timing_with(double alone, double fadd, double lop3, double iadd, double ffma) {
  const struct {
    const char *name;
    double cycles;
  } of[] = {{"mma_alone", alone}, {"mma_beside_fadd", fadd}, {"mma_beside_lop3", lop3}, {"mma_beside_iadd", iadd}, {"mma_beside_ffma", ffma}};
  const kvm_gpu *gpu;
  kva_calibration c;
  kva_calibrated about;
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(kv_source("models/measured/h200-ceilings.h5"), &c, NULL), KV_OK);
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    kvk_point p = {.kind = KVK_LATENCY, .unit = "1", .one_sm = true, .work = 1, .load = NAN, .samples = 1};
    (void)snprintf(p.name, sizeof p.name, "%s", of[i].name);
    p.cycles = of[i].cycles;
    p.seconds[0] = of[i].cycles / 1.755e9;
    p.state = c.row[0].point.state;
    if (!isnan(p.cycles)) CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, NULL), KV_OK);
  }
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, kv_tmp("turns.h5"), "x", NULL), KV_OK);
  kva_calibration_free(&c);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  kvm_timing t = kvm_timing_of(gpu, kvm_pipes_find(&pipes, 90), &roofs);
  CU_ASSERT_EQUAL_FATAL(kva_time_calibrate(kv_tmp("turns.h5"), &t, &roofs, &about, NULL), KV_OK);
  return t;
}

static void the_delay_is_calibrated(void) {
  const kvm_estimate known = timing_with(7, NAN, 10.2, 10.2, 11.2).p[KVM_P_MMA_DELAY]; /* one is missing: of pipes/sm_90.ini */
  CU_ASSERT_DOUBLE_EQUAL(known.value, 1.07, 1e-9);
  CU_ASSERT(known.kind == KVM_MEASURED && known.low > 0.7 && known.high < 1.5);
  kvm_estimate e = timing_with(7, 7 + 3 * 0.5, 7 + 3 * 1.0, 7 + 3 * 1.1, 7 + 3 * 1.8).p[KVM_P_MMA_DELAY];
  CU_ASSERT_DOUBLE_EQUAL(e.value, 1.1, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(e.low, 0.5, 1e-9);
  CU_ASSERT_DOUBLE_EQUAL(e.high, 1.8, 1e-9);
  CU_ASSERT(e.kind == KVM_MEASURED && strstr(e.source, "turns.h5"));
  e = timing_with(7, 7, 6.9, 7, 7).p[KVM_P_MMA_DELAY]; /* a GPU without it */
  CU_ASSERT(e.value == 0 && e.low == 0 && e.high == 0 && e.kind == KVM_MEASURED);
  for (int sm = 80; sm <= 120; sm += 40) { /* where nobody measured it: anything from nothing to two cycles */
    const kvm_gpu *gpu;
    CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, sm == 80 ? "a100" : "sm_120", &gpu, NULL), KV_OK);
    kvm_roofs roofs = kvm_roofs_of(gpu);
    e = kvm_timing_of(gpu, kvm_pipes_find(&pipes, sm), &roofs).p[KVM_P_MMA_DELAY];
    CU_ASSERT(e.kind == KVM_ASSUMED && e.value == 1 && e.low == 0 && e.high == 2);
  }
}

/* Rates of a calibration give 5.99 cycles for 6; what a per cent of the rate changes is rounding, and no time. */
static void the_matrix_unit_takes_whole_cycles(void) {
  const kvm_gpu *gpu;
  kvm_verify p = kvm_verify_default(131072);
  p.heads = 64;
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&gpus, "h200", &gpu, NULL), KV_OK);
  const kvm_declared *k =
      kvm_declared_for(&declared, "split_verify", 90, 0, &p, kvm_gpu_number(gpu, "smem_per_block_optin"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  kvm_work w = kvm_declared_work(k, &p, gpu);
  kvm_useful u = kvm_structure_useful(&k->structure, &p);
  double time[4];
  static const double interval[4] = {6, 5.95, 6.05, 6.4};
  for (int i = 0; i < 4; i++) {
    kvm_timing t = timing_with(7, 10, 10, 10, 10);
    kvm_time_memo memo = {0};
    kvm_prediction out;
    t.p[KVM_P_MMA_RATE].value = 4096 * 4 / interval[i] * t.p[KVM_P_MMA_CLOCK].value;
    const kvm_question q = {k, &p, &w, &u, &t, 1, false, false, 0, 0};
    CU_ASSERT_EQUAL(kvm_predict(&q, &memo, &out, NULL), KV_OK);
    time[i] = out.whole;
    kvm_time_memo_free(&memo);
  }
  CU_ASSERT(time[0] > 0 && time[0] == time[1] && time[0] == time[2] && time[3] > time[0]);
}

static void predictions_are_quick(void) {
  struct timespec from, to;
  for (int k = 0; k < KERNELS; k++) {
    double best = 1;
    for (int i = 0; i < 3; i++) {
      (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
      (void)ask("h200", kernels[k], 64, 9, 1, 189440, true);
      (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
      best = fmin(best, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
    }
    if (getenv("KVROOF_VERBOSE")) printf("%s: %.0f ms\n", kernels[k], best * 1e3);
    if (!getenv("KVROOF_SAN") || !*getenv("KVROOF_SAN")) CU_ASSERT(best < 0.1); /* with gains and interval */
  }
  kvm_declared_free_all(&declared);
  kvm_gpus_free(&pipes);
  kvm_gpus_free(&gpus);
}

void suite_time_kernels(void) {
  static const kv_test_case cases[] = {
      {"tokens", more_tokens_take_longer}, {"rows", more_rows_take_longer},
      {"batch", a_batch_is_shared_out},    {"merge", the_merge_is_part_of_it},
      {"GPUs", every_gpu_gets_a_time},     {"calibrated hops", hops_are_calibrated},
      {"delay", the_delay_is_calibrated},  {"whole cycles", the_matrix_unit_takes_whole_cycles},
      {"quick", predictions_are_quick},    {NULL, NULL}};
  kv_suite("time_kernels", cases);
}
