/* roofline validate: the files it reads, its scores, and the model's bars on every measured point of the
 * tree. */
#include <dirent.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "measure_ladder.h"
#include "mem_params.h"
#include "validate.h"

#define NEAR(a, b, rel) CU_ASSERT(fabs((a) - (b)) <= (rel)*fabs((double)(b)))

static const char header[] =
    "# format: kvmeasured-1\n# gpu: h200_sxm\n# status: measured: X\n"
    "kernel\theads\tqueries\tbatch\tprefix\trow_bytes\tlayout\tmedian_us\tlow_us\thigh_us\n";

static kv_status load_text(const char *text, kva_readings *m, kv_error *err) {
  FILE *f = fopen(kv_tmp("m.tsv"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(text, f);
  (void)fclose(f);
  return kva_readings_load(kv_tmp("m.tsv"), m, err);
}

static void text_is_read(void) {
  char text[2000];
  kva_readings m;
  (void)snprintf(text, sizeof text,
                 "%sk\t16\t7\t2\t5000\t576\trandom\t12.5\t12\t14\nk\t8\t9\t1\t64\t1152\tresident, warm\t3\t-\t-\n",
                 header);
  CU_ASSERT_EQUAL_FATAL(load_text(text, &m, NULL), KV_OK);
  CU_ASSERT(m.n == 2 && !strcmp(m.gpu, "h200_sxm") && !strcmp(m.status, "measured: X"));
  const kva_reading *s = &m.sample[0];
  CU_ASSERT(s->problem.heads == 16 && s->problem.queries == 7 && s->problem.batch == 2 &&
            s->problem.tokens == 10000);
  CU_ASSERT(s->problem.row_bytes == 576 && !strcmp(s->layout, "random"));
  CU_ASSERT_DOUBLE_EQUAL(s->measured, 12.5e-6, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(s->high, 14e-6, 1e-15);
  CU_ASSERT(isnan(m.sample[1].low) && isnan(s->predicted));
  kva_readings_free(&m);
}

/* Points that nobody can have measured, and what is said of them. */
static void nonsense_is_refused_with_its_place(void) {
  static const struct {
    const char *row, *says;
  } bad[] = {{"k\t8\t9\t1\t4096\t1152\tsideways\t12\t-\t-\n", "layout is none of"},
             {"k\t8\t9\t1\t4096\t1152\tresident2\t12\t-\t-\n", "layout is none of"},
             {"k\t8\t9\t1\t4096\t1152\trandom\t12\t13\t14\n", "low <= median <= high"},
             {"k\t8\t9\t1\t4096\t1152\trandom\t12\t-\t11\n", "low <= median <= high"},
             {"k\t8\t9\t1\t0\t1152\trandom\t12\t-\t-\n", "prefix is 0"},
             {"k\t100000000\t9\t1\t4096\t1152\trandom\t12\t-\t-\n", "heads: 100000000 is out of range (0 to 4096)"},
             {"k\t8\t9\t1\t99999999999999999999999\t1152\trandom\t12\t-\t-\n", "prefix: 9999"},
             {"k\t8\tx\t1\t4096\t1152\trandom\t12\t-\t-\n", "queries: 'x' is no whole number"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[2000];
    kva_readings m;
    kv_error err = {KV_OK, ""};
    (void)snprintf(text, sizeof text, "%s%s", header, bad[i].row);
    CU_ASSERT_EQUAL(load_text(text, &m, &err), KV_ERR_INPUT);
    CU_ASSERT(strstr(err.text, "m.tsv: line 5") && strstr(err.text, bad[i].says));
  }
}

/* Times that nobody measured, and points that would count twice. */
static void only_measured_points_count_once(void) {
  static const char row[] = "k\t8\t9\t1\t4096\t1152\trandom\t12\t-\t-\n", other[] = "k\t8\t9\t1\t8192\t1152\trandom\t12\t-\t-\n",
                    warm[] = "k\t8\t9\t1\t4096\t1152\trandom, eager\t12\t-\t-\n", again[] = "k\t8\t9\t1\t4096\t1152\trandom\t13\t-\t-\n";
  char text[2000], *status;
  kva_readings m;
  kv_error err = {KV_OK, ""};
  (void)snprintf(text, sizeof text, "%s%s%s%s", header, row, other, warm);
  CU_ASSERT_EQUAL_FATAL(load_text(text, &m, NULL), KV_OK);
  CU_ASSERT_EQUAL(m.n, 3);
  kva_readings_free(&m);
  (void)snprintf(text, sizeof text, "%s%s%s%s%s", header, row, other, warm, again);
  CU_ASSERT_EQUAL(load_text(text, &m, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "m.tsv: line 8: the same point as line 5 (k, random)"));
  (void)snprintf(text, sizeof text, "%s%s", header, row);
  status = strstr(text, "measured: X");
  memcpy(status, "modelled: X", 11);
  CU_ASSERT_EQUAL(load_text(text, &m, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "m.tsv: its status is 'modelled: X', so its times are no measurement"));
}

static int validate(const char *args, char **err) {
  return kv_run(NULL, err, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s validate %s", kv_tmp(""), kv_program("roofline"),
                args);
}

static void expect(const char *args, int status, const char *says) {
  char *err;
  CU_ASSERT_EQUAL(validate(args, &err), status);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, says));
  if (!strstr(err, says)) printf("validate %s: %s", args, err);
  free(err);
}

/* 131072 rows of 1152 B take 32 us of an H200's memory; on few rows only the products are left, 21 us. */
static void a_point_below_its_floor_is_refused(void) {
  static const char row[] = "sglang_extend_32x64\t8\t9\t1\t131072\t1152\t%s\t%s\t-\t-\n";
  static const struct {
    const char *layout, *time;
    int status;
  } point[] = {{"contiguous", "20", 3}, {"random", "20", 3}, {"contiguous", "20454", 0}, {"resident", "30", 0}, {"resident", "12", 3}};
  for (size_t i = 0; i < sizeof point / sizeof *point; i++) {
    FILE *f = fopen(kv_tmp("fast.tsv"), "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    (void)fputs(header, f);
    (void)fprintf(f, row, "aliased", "20454");
    (void)fprintf(f, row, point[i].layout, point[i].time);
    (void)fclose(f);
    expect("-q fast.tsv", point[i].status, point[i].status ? "fast.tsv: line 6: sglang_extend_32x64 in " : "");
    if (point[i].status) expect("-q fast.tsv", 3, "is below its floor of ");
  }
}

/* Predictions are no measurement, whatever they stand beside. */
static void a_file_of_predictions_says_so(void) {
  char text[9000];
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd %s && cp '%s' t.tsv && cp '%s' h.h5", kv_tmp(""), kv_source("models/measured/sglang_extend_h200.tsv"),
                         kv_source("models/measured/h200-held-out-1.h5")), 0);
  expect("-q -o v1.h5 t.tsv", 0, "");
  expect("-q -o v2.h5 t.tsv h.h5", 0, "");
  for (int i = 1; i <= 2; i++) {
    hid_t file = H5Fopen(kv_tmp(i == 1 ? "v1.h5" : "v2.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
    CU_ASSERT_FATAL(file >= 0);
    CU_ASSERT_EQUAL(kv_h5_get_str(file, "status", text, sizeof text, NULL), KV_OK);
    CU_ASSERT_STRING_EQUAL(text, i == 1 ? "predictions against measured points of t.tsv" : "predictions against measured points of 2 files");
    CU_ASSERT_EQUAL(kv_h5_get_str(file, "measured", text, sizeof text, NULL), KV_OK);
    CU_ASSERT(!strncmp(text, "t.tsv (", 7) && !strstr(text, "h.h5 (") == (i == 1));
    (void)H5Fclose(file);
  }
}

/* What is read is never written over, nor counted twice; a folder gives its files. */
static void files_are_inputs_once(void) {
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd %s && rm -rf folder empty && mkdir folder empty && cp '%s' folder/m.h5 && cp '%s' cc.h5 && cp '%s' t.tsv && ln -sf t.tsv l.tsv", kv_tmp(""),
                         kv_source("models/measured/h200-held-out-1.h5"), kv_source("models/measured/h200-ceilings.h5"),
                         kv_source("models/measured/sglang_extend_h200.tsv")), 0);
  expect("-q -o folder/m.h5 ./folder/m.h5", 2, "--output: is the measurement itself");
  expect("-q -o t.tsv l.tsv", 2, "--output: is the measurement itself");
  expect("-q -o folder/m.h5 folder", 2, "--output: is the measurement itself");
  expect("-q -o cc.h5 --calibration cc.h5 t.tsv", 2, "--output: is the calibration itself");
  expect("t.tsv folder ./l.tsv", 2, "given twice");
  expect("--from 9999999 t.tsv", 3, "no point is that long; the longest prefix is");
  expect("empty", 3, "empty: a folder without a measured file");
  expect("-q folder", 0, "");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd %s && cmp t.tsv '%s' && cmp folder/m.h5 '%s' && cmp cc.h5 '%s'", kv_tmp(""),
                         kv_source("models/measured/sglang_extend_h200.tsv"),
                         kv_source("models/measured/h200-held-out-1.h5"), kv_source("models/measured/h200-ceilings.h5")),
                  0);
}

static void bad_text_is_refused(void) {
  static const char *const row[] = {
      "k\t8\t9\t1\t4096\t1152\trandom\t12\t-\n",      "k\t8\t9\t1\t4096\t1152\trandom\t-\t-\t-\n",
      "k\t0\t9\t1\t4096\t1152\trandom\t12\t-\t-\n",   "k\t8\t9\t1\t-5\t1152\trandom\t12\t-\t-\n",
      "k\t8\t9\t1\t4096\t1152\trandom\t-12\t-\t-\n",  "k\t8\t9\t1\t4096\t1152\trandom\tnan\t-\t-\n",
      "k\t8\t9\t1\t4096\t1152\trandom\t12x\t-\t-\n",  "k\t8\t9\t1\t4096\t99999999\trandom\t12\t-\t-\n",
      "k\t8\t9\t1\t4096\t1152\trandom\t12\t-\t-\t1\n"};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    char text[2000];
    kva_readings m;
    kv_error err = {KV_OK, ""};
    (void)snprintf(text, sizeof text, "%s%s", header, row[i]);
    CU_ASSERT_EQUAL(load_text(text, &m, &err), KV_ERR_INPUT);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "line 5"));
    CU_ASSERT_PTR_NULL(m.sample);
  }
  kva_readings m;
  CU_ASSERT_EQUAL(load_text("", &m, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(load_text("# format: other-1\n", &m, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(load_text("a\tb\n", &m, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_readings_load("/nonexistent.tsv", &m, NULL), KV_ERR_IO);
  CU_ASSERT_EQUAL(kva_readings_load("/nonexistent.h5", &m, NULL), KV_ERR_IO);
}

/* Scores of three points made up by hand: +10 %, -20 %, and one without a prediction. */
static void scores_are_what_they_say(void) {
  char text[2000];
  kva_readings m;
  kva_score score[KVA_MAX_SCORES];
  (void)snprintf(text, sizeof text,
                 "%sk\t8\t9\t1\t9000\t1152\trandom\t100\t98\t103\nk\t8\t9\t1\t100\t1152\trandom\t100\t-\t-\n"
                 "other\t8\t9\t1\t100\t1152\tcontiguous\t7\t-\t-\n",
                 header);
  CU_ASSERT_EQUAL_FATAL(load_text(text, &m, NULL), KV_OK);
  m.sample[0].predicted = 110e-6;
  m.sample[0].predicted_low = 90e-6;
  m.sample[0].predicted_high = 120e-6;
  m.sample[1].predicted = 80e-6;
  m.sample[1].predicted_low = 70e-6;
  m.sample[1].predicted_high = 99e-6;
  size_t n = kva_scores(&m, 1, score);
  CU_ASSERT_EQUAL(n, 6); /* all, k, other, random short, random long, contiguous short */
  CU_ASSERT(score[0].n == 2 && score[0].skipped == 1);
  NEAR(score[0].mape, 0.15, 1e-9);
  NEAR(score[0].worst, 0.20, 1e-9);
  NEAR(score[0].bias, sqrt(1.1 * 0.8) - 1, 1e-9);
  NEAR(score[0].covered, 0.5, 1e-9);
  NEAR(score[0].spread, 0.05, 1e-9);
  CU_ASSERT(score[2].n == 0 && score[2].skipped == 1);
  kva_readings_free(&m);
}

/* The bars of the project on all measured points whose kernel has a program, none of which any value was
 * fitted to, and on the gains of all pairs of kernels that differ by one fix. */
static void the_model_keeps_its_bars(void) {
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s validate -q --mape 12 --worst 30 --gain 25", kv_program("roofline")),
                  0);
  CU_ASSERT_EQUAL(
      kv_run(NULL, NULL, "%s validate -q --calibration none --mape 12 --worst 30", kv_program("roofline")),
      0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s validate -q --mape 0.1", kv_program("roofline")), 1);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s validate -q --mape x", kv_program("roofline")), 2);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s validate /nonexistent.tsv", kv_program("roofline")), 5);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s validate %s", kv_program("roofline"), kv_source("LICENSE")), 3);
  CU_ASSERT_EQUAL(
      kv_run(NULL, NULL, "%s validate -q -o %s --json | grep -c '\"schema\": \"roofline-validate\"'",
             kv_program("roofline"), kv_tmp("v.h5")),
      0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "test -s %s", kv_tmp("v.h5")), 0);
}

/* This project's own kernels: every measured point has a program, each kernel keeps the bar, and so do
 * problems of other heads, queries, batches and lengths (h200-held-out-*.h5). */
static void our_kernels_keep_the_bar(void) {
  static const char *const files = "h200-verify-8.h5 h200-verify-16.h5 h200-verify-64.h5 h200-aged-8.h5";
  char command[2000];
  char *out = NULL;
  (void)snprintf(command, sizeof command, "cd %s && %s validate", kv_source("models/measured"),
                 kv_program("roofline"));
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s -q --mape 12 --worst 30 %s", command, files), 0);
  CU_ASSERT_PTR_NULL(strstr(out, "skipped, no program"));
  free(out);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s -q --mape 12 --worst 30 h200-held-out-*.h5", command), 0);
  CU_ASSERT_PTR_NULL(strstr(out, "skipped, no program"));
  free(out);
  static const char *const kernel[] = {"extend_serial_32x64", "extend_serial_32x32", "split_per_head",
                                       "split_verify"};
  static const char *const most[] = {"0.09", "0.06", "0.05", "0.06"};
  for (size_t k = 0; k < sizeof kernel / sizeof *kernel; k++)
    CU_ASSERT_EQUAL(
        kv_run(NULL, NULL,
               "%s --json %s h200-held-out-*.h5 | tr -d '\\n ' | grep -o '\"name\":\"%s\"[^}]*' | "
               "awk -F'\"mape\":' '{split($2,a,\",\"); exit !(a[1] > 0 && a[1] < %s)}'",
               command, files, kernel[k], most[k]),
        0);
}

/* Measured kernels that nobody wrote a program for are told as skipped, and alone they prove nothing. */
static void kernels_without_a_program_are_told(void) {
  char *out = NULL, *err = NULL;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s validate", kv_program("roofline")), 0);
  CU_ASSERT(out && strstr(out, "45 of 45 points skipped, no program declared: flashinfer_fa2_mla, "));
  free(out);
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s validate %s", kv_program("roofline"),
                         kv_source("models/measured/peers_h200.tsv")),
                  3);
  CU_ASSERT(err && strstr(err, "no measured point has a kernel with a program"));
  free(out), free(err);
}

/* ---- attribution ---- */

static const kvm_useful useful = {.bytes = 1e6, .flops = 1e6};
static kvm_roofs roofs_of(double dram) {
  kvm_roofs r = {.sms = 100};
  for (int i = 0; i < KVM_RESOURCES; i++)
    r.chip[i] = r.sm[i] = (kvm_ceiling){dram * 10, KVM_MEASURED, "x", "x"};
  r.chip[KVM_DRAM].rate = dram;
  r.mma_best = r.chip[KVM_MMA];
  for (int i = 0; i < KVM_RESOURCES; i++) r.sm[i].rate = r.chip[i].rate / 100;
  return r;
}

/* The evidence of one kernel: a time each of T5, T6 and T7. */
static kva_evidence evidence_of(const kvm_work *work, const kvm_roofs *roofs, double t[3]) {
  return (kva_evidence){.useful = &useful,
                        .work = work,
                        .roofs = roofs,
                        .scatter = 1,
                        .resident = {&t[0], 1, 0},
                        .kernel = {&t[1], 1, 0},
                        .whole = {&t[2], 1, 0},
                        .seed = 1};
}

/* A block an SM, and nothing done twice: all at the roof of memory. */
static const kvm_work copying = {.fits = true,
                                 .blocks = 100,
                                 .busy_sms = 100,
                                 .chip = {1e6, 1e6, 1e6, 1e6, 0},
                                 .sm = {0, 1e4, 1e4, 1e4, 0}};

static void shares_add_up_and_name_the_cause(void) {
  kvm_roofs roofs = roofs_of(1e12);
  /* 1 us floor; the link moves 40 times U at ten times the rate: 4 us; one of 100 SMs does a quarter: 100 us
   */
  kvm_work work = {.fits = true,
                   .blocks = 4,
                   .busy_sms = 4,
                   .chip = {1e6, 40e6, 40e6, 1e6, 1e6},
                   .sm = {0, 10e6, 10e6, 0, 0}};
  double t[] = {150e-6, 0, 0}, t6[] = {300e-6, 310e-6, 290e-6}, t7[] = {330e-6, 340e-6, 320e-6};
  kva_evidence e = evidence_of(&work, &roofs, t);
  e.resident = (kva_timing){t, 1, 0.01};
  e.kernel = (kva_timing){t6, 3, 0};
  e.whole = (kva_timing){t7, 3, 0};
  kva_attribution a;
  kva_attribute("k", &e, &a);
  NEAR(a.t[0], 1e-6, 1e-9);
  NEAR(a.t[2], 4e-6, 1e-9);
  NEAR(a.t[4], 100e-6, 1e-9);
  NEAR(a.cause[KVM_C_WORK].nats, log(4), 1e-9);
  NEAR(a.cause[KVM_C_PLACEMENT].nats, log(25), 1e-9);
  NEAR(a.cause[KVM_C_SERIAL].nats, log(1.5), 1e-9);
  NEAR(a.cause[KVM_C_MEMORY].nats, log(2), 1e-9);
  NEAR(a.cause[KVM_C_OVERHEAD].nats, log(1.1), 1e-9);
  NEAR(a.nats, log(330), 1e-9);
  CU_ASSERT(a.whole && !a.inconsistent && a.largest == KVM_C_PLACEMENT);
  NEAR(a.cause[KVM_C_MEMORY].gain, 330.0 / 180, 1e-9);
  CU_ASSERT(a.cause[KVM_C_MEMORY].low < log(2) && log(2) < a.cause[KVM_C_MEMORY].high);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "placement 3.2 nats (4 of 100 SMs busy)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "no effect: path, scatter"));
  kva_attribution again;
  kva_attribute("k", &e, &again);
  CU_ASSERT(!memcmp(&a.cause, &again.cause, sizeof a.cause)); /* the same seed, the same intervals */
}

static void an_impossible_ladder_is_told(void) {
  kvm_roofs roofs = roofs_of(1e12);
  kvm_work work = {.fits = true, .blocks = 1, .busy_sms = 1, .chip = {1e6, 1e6, 1e6, 1e6, 1e6}};
  double t[] = {3e-6, 2e-6, 2.1e-6};
  kva_evidence e = evidence_of(&work, &roofs, t);
  kva_attribution a;
  kva_attribute("k", &e, &a);
  CU_ASSERT(a.inconsistent && strstr(a.verdict, "INCONSISTENT"));
  NEAR(a.t[6], 2e-6, 1e-9); /* not clamped */
  e.whole.n = 0;
  kva_attribute("k", &e, &a);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "inconclusive"));
  CU_ASSERT(!a.whole && !a.cause[KVM_C_OVERHEAD].known);
}

static void a_copy_at_the_roof_has_no_cause(void) {
  kvm_roofs roofs = roofs_of(1e12);
  double t[] = {0.9e-6, 1.03e-6, 1.05e-6};
  const kva_evidence e = evidence_of(&copying, &roofs, t);
  kva_attribution a;
  kva_attribute("copy", &e, &a);
  for (int i = 0; i < KVM_CAUSES; i++) CU_ASSERT(exp(a.cause[i].nats) <= 1.1);
}

/* A layout that costs 1 % and may cost 30 %: what may be is in the share, the gain and the verdict, and goes with the times;
 * where memory does not bind it is nothing. */
static void an_assumed_scatter_is_carried(void) {
  kvm_roofs roofs = roofs_of(1e12);
  double t[] = {0.9e-6, 1.03e-6, 1.05e-6};
  kva_evidence e = evidence_of(&copying, &roofs, t);
  kva_attribution a;
  e.scatter = 1.01;
  kva_attribute("copy", &e, &a);
  CU_ASSERT(a.cause[KVM_C_SCATTER].gain_high < 1.1 && strstr(a.verdict, "scatter"));
  CU_ASSERT_PTR_NOT_NULL(strstr(strstr(a.verdict, "no effect"), "scatter"));
  e.scatter_low = 1.01;
  e.scatter_high = 1.31;
  e.kernel_low = 1.03e-6;
  e.kernel_high = 1.31e-6;
  kva_attribute("copy", &e, &a);
  const kva_cause *c = &a.cause[KVM_C_SCATTER], *memory = &a.cause[KVM_C_MEMORY];
  NEAR(c->nats, log(1.01), 1e-9);
  CU_ASSERT(c->low <= c->nats && c->high > log(1.25) && c->high < log(1.36));
  CU_ASSERT(c->gain_low <= c->gain && c->gain < 1.02 && c->gain_high > 1.2 && c->gain_high < 1.34);
  const char *none = strstr(a.verdict, "no effect");
  CU_ASSERT(!none || !strstr(none, "scatter"));
  CU_ASSERT(memory->low > -0.06); /* the kernel takes longer with it, so no miss is worth less than nothing */
  e.work = &(kvm_work){.fits = true, .blocks = 100, .busy_sms = 100, .chip = {1e6, 40e6, 40e6, 1e6, 0}};
  t[0] = 4.2e-6, t[1] = 4.3e-6, t[2] = 4.4e-6;
  e.kernel_low = e.kernel_high = 4.3e-6;
  kva_attribute("link", &e, &a);
  CU_ASSERT(a.cause[KVM_C_SCATTER].high == 0 && strstr(strstr(a.verdict, "no effect"), "scatter"));
}

/* 1.13 times its floor, most of it launches: they are named, however small, and no gain goes below the floor.
 */
static void a_small_share_is_named_and_bounded(void) {
  kvm_roofs roofs = roofs_of(1e12);
  const double above[KVM_CAUSES] = {NAN, 1.5, 1.5, 1.5, NAN, 1.43, 1.09};
  double t[] = {1e-6, 1.04e-6, 1.13e-6};
  kva_evidence e = evidence_of(&copying, &roofs, t);
  e.gain = above;
  kva_attribution a;
  kva_attribute("k", &e, &a);
  CU_ASSERT_EQUAL(a.largest, KVM_C_OVERHEAD);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "overhead 0.08 nats, one launch without gaps gains 1.09x"));
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "no effect: path"));
  const char *none = strstr(a.verdict, "no effect");
  CU_ASSERT(none && !strstr(none, "overhead") && !strstr(none, "exposed memory"));
  for (int i = 0; i < KVM_CAUSES; i++) CU_ASSERT(a.cause[i].gain_high <= 1.13 * (1 + 1e-9));
  NEAR(a.cause[KVM_C_MEMORY].gain, 1.13 / 1.09, 1e-9); /* without misses T5 and the launches stay */
  NEAR(a.cause[KVM_C_WORK].gain, 1.13, 1e-9);
  e.unknown = 1u << KVM_C_OVERHEAD;
  kva_attribute("k", &e, &a);
  CU_ASSERT(!a.cause[KVM_C_OVERHEAD].known && a.largest == KVM_C_MEMORY && !a.whole);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "overhead: not known"));
  e.at_least = 1u << KVM_C_MEMORY;
  kva_attribute("k", &e, &a);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "exposed memory at least 0.04 nats"));
}

/* A kernel of 8 blocks on 100 SMs, measured: 100 us cold, 60 us warm on few rows. */
static kva_measured measured_kernel(kva_measured_row row[2]) {
  static double cold[] = {100e-6, 101e-6, 99e-6}, warm[] = {60e-6, 61e-6, 59e-6};
  const kva_measured_row made[2] = {{.kind = KVK_SPLIT_PER_HEAD,
                                     .place = KVA_CONTIGUOUS,
                                     .experiment = KVA_COLD_GRAPH,
                                     .batch = 1,
                                     .longest = 4096,
                                     .tokens = 4096,
                                     .useful_bytes = 1e6,
                                     .useful_flops = 1e6,
                                     .time = {.n = 3, .median = 100e-6},
                                     .seconds = cold},
                                    {.kind = KVK_SPLIT_PER_HEAD,
                                     .place = KVA_RESIDENT,
                                     .experiment = KVA_WARM_GRAPH,
                                     .batch = 1,
                                     .longest = 4096,
                                     .tokens = 4096,
                                     .time = {.n = 3, .median = 60e-6},
                                     .seconds = warm}};
  memcpy(row, made, sizeof made);
  row[0].structure = (kvk_structure){.blocks = 8,
                                     .tiles = 80,
                                     .tiles_per_block = 10,
                                     .unique_kv_bytes = 1e6,
                                     .link_bytes = 20e6,
                                     .smem_read_bytes = 10e6,
                                     .mma_flops = 1e6};
  row[0].to_contiguous = (kva_interval){NAN, NAN, NAN};
  return (kva_measured){.row = row, .rows = 2, .origin = {.gpu = {.sms = 100}, .seed = 1}};
}

static void experiments_climb_the_ladder_too(void) {
  kvm_roofs roofs = roofs_of(1e12);
  kva_measured_row row[2];
  kva_measured m = measured_kernel(row);
  kvm_work w = kva_measured_work(&m, &row[0]);
  NEAR(w.sm[KVM_LINK], 20e6 / 8, 1e-12); /* one of 8 blocks */
  CU_ASSERT_DOUBLE_EQUAL(w.busy_sms, 8, 0);
  CU_ASSERT_PTR_EQUAL(kva_measured_resident(&m, &row[0]), &row[1]);
  double t[8];
  kva_measured_rungs(&m, &row[0], &roofs, NULL, NULL, t);
  NEAR(t[0], 1e-6, 1e-9);
  NEAR(t[2], 2e-6, 1e-9);  /* 20 MB at 10 TB/s */
  NEAR(t[4], 25e-6, 1e-9); /* 2.5 MB at 0.1 TB/s */
  NEAR(t[5], 60e-6, 1e-9);
  NEAR(t[7], 100e-6, 1e-9);
  kva_attribution a;
  kva_measured_attribute(&m, &row[0], &roofs, NULL, NULL, &a);
  NEAR(a.cause[KVM_C_PLACEMENT].nats, log(12.5), 1e-6);
  NEAR(a.cause[KVM_C_MEMORY].nats, log(100.0 / 60), 1e-6);
  CU_ASSERT(a.cause[KVM_C_MEMORY].low > 0.45 && a.cause[KVM_C_MEMORY].high < 0.56);
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "split_per_head is 100x"));
  CU_ASSERT_PTR_NOT_NULL(strstr(a.verdict, "8 of 100 SMs busy"));
}

/* A recorded list: measured where the calibration gathered it, else modelled, else not known, and it says
 * which. */
static void a_recorded_layout_has_its_cost(void) {
  kva_calibration c;
  kvm_gpus all;
  const kvm_gpu *gpu;
  kva_layout_cost cost;
  enum { ROWS = 20000 };
  static int32_t slot[ROWS];
  kva_layout l = {.requests = 1, .tokens = ROWS, .pool_rows = 1u << 20, .row_bytes = 1152, .slots = slot};
  for (int i = 0; i < ROWS; i++) slot[i] = (int32_t)((i * 7919LL) % (1 << 20));
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/gpus"), &all, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_find(&all, "h200", &gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(kv_source("models/measured/h200-ceilings.h5"), &c, NULL), KV_OK);
  /* the aged row that this calibration gathered: 192473 rows, the last at slot 1047597 */
  NEAR(kva_calibration_scatter_list(&c, 1152, 192473, 1047598), 4299.738 / 4228.885, 1e-6);
  CU_ASSERT(isnan(kva_calibration_scatter_list(&c, 1152, 192473, 1047597)));
  CU_ASSERT(isnan(kva_calibration_scatter_list(&c, 1152, 192472, 1047598)));
  CU_ASSERT_EQUAL_FATAL(kva_layout_cost_of(gpu, NULL, NULL, &c, &cost, NULL), KV_OK);
  CU_ASSERT(isnan(cost.scatter));
  CU_ASSERT_EQUAL_FATAL(kva_layout_cost_of(gpu, NULL, &l, &c, &cost, NULL),
                        KV_OK); /* its memory is not described */
  CU_ASSERT(isnan(cost.scatter) && !strncmp(cost.source, "not known: ", 11));
  CU_ASSERT_EQUAL_FATAL(kvm_mem_describe(kv_source("models/dram/hbm3e.ini"), &all.gpu[gpu - all.gpu], NULL),
                        KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_layout_cost_of(gpu, NULL, &l, &c, &cost, NULL), KV_OK);
  CU_ASSERT(cost.scatter >= 0.98 && cost.scatter < 1.1);
  CU_ASSERT_PTR_NOT_NULL(strstr(cost.source, "memory model of h200_sxm, modelled, calibrated on"));
  CU_ASSERT_PTR_NOT_NULL(strstr(cost.source, "memory: the described card"));
  kva_card_memory card;
  CU_ASSERT_EQUAL_FATAL(kva_card_memory_read(kv_source("models/measured/h200-ceilings.h5"), &card, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_layout_cost_of(gpu, &card, &l, &c, &cost, NULL), KV_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(cost.source, "memory: adapted to h200-ceilings.h5"));
  kva_calibration_free(&c);
  kvm_gpus_free(&all);
}

static void launches_layouts_and_counters_take_part(void) {
  kvm_roofs roofs = roofs_of(1e12);
  kva_measured_row row[2];
  kva_measured m = measured_kernel(row);
  double t[8];
  kva_attribution a;
  /* two kernels: one launch of 3 us and one behind it of 1 us stand in both runs */
  kvm_timing ranges = {.p = {[KVM_P_LAUNCH] = {3e-6, 2e-6, 4e-6, KVM_MEASURED, ""},
                             [KVM_P_NEXT_LAUNCH] = {1e-6, 1e-6, 1e-6, KVM_MEASURED, ""}}};
  row[0].structure.launches = 2;
  kva_measured_rungs(&m, &row[0], &roofs, &ranges, NULL, t);
  NEAR(t[5], 56e-6, 1e-9);
  NEAR(t[6], 96e-6, 1e-9);
  NEAR(t[7], 100e-6, 1e-9);
  kva_measured_attribute(&m, &row[0], &roofs, &ranges, NULL, &a);
  NEAR(a.t[6], 96e-6, 1e-9);
  NEAR(a.cause[KVM_C_OVERHEAD].nats, log(100.0 / 96), 1e-6);
  CU_ASSERT(a.cause[KVM_C_OVERHEAD].low < log(100.0 / 96.9) &&
            a.cause[KVM_C_OVERHEAD].high > log(100.0 / 95.1));
  NEAR(a.cause[KVM_C_PLACEMENT].gain, 100.0 / (4 + 96 / 12.5),
       1e-6); /* 8 of 100 SMs: 1/12.5 of each SM's part */
  /* what random rows cost at the roof is known from gathers */
  kva_bench_row gathers[2] = {
      {.point = {.name = "gather", .layout = "contiguous", .row_bytes = 1152, .footprint = 1}, .value = 4e12},
      {.point = {.name = "gather", .layout = "random", .row_bytes = 1152, .run_length = 1, .footprint = 1},
       .value = 1e12}};
  const kva_calibration calibration = {.row = gathers, .rows = 2};
  row[0].place = KVA_RANDOM;
  kva_measured_rungs(&m, &row[0], &roofs, NULL, NULL, t);
  CU_ASSERT(isnan(t[3]));
  kva_measured_rungs(&m, &row[0], &roofs, NULL, &calibration, t);
  NEAR(t[3], 4e-6, 1e-9); /* 1 MB at a quarter of 1 TB/s, above the link's 2 us */
  /* a recorded layout has what its measuring was told, and says who told it */
  char source[KVA_COST_SOURCE];
  row[0].place = KVA_RECORDED;
  kva_measured_rungs(&m, &row[0], &roofs, NULL, &calibration, t);
  CU_ASSERT(isnan(t[3]) && isnan(kva_measured_scatter(&m, KVA_RECORDED, &calibration, source)));
  CU_ASSERT_PTR_NOT_NULL(strstr(source, "not known"));
  m.recorded = (kva_layout_cost){.scatter = 3, .source = "memory model of a test"};
  kva_measured_rungs(&m, &row[0], &roofs, NULL, NULL, t);
  NEAR(t[3], 3e-6, 1e-9);
  (void)kva_measured_scatter(&m, KVA_RECORDED, NULL, source);
  CU_ASSERT_STRING_EQUAL(source, "memory model of a test");
  CU_ASSERT_DOUBLE_EQUAL(kva_measured_scatter(&m, KVA_CONTIGUOUS, NULL, source), 1, 0);
  row[0].place = KVA_CONTIGUOUS;
  /* counters raise what is described, from a row on contiguous slots */
  row[0].counted = true;
  row[0].counters = (kvk_counters){.dram_read = 3e6, .dram_write = 1e6, .link = 60e6, .link_max = 9e6};
  kvm_work w = kva_measured_work(&m, &row[0]);
  NEAR(w.chip[KVM_L1], 10e6, 1e-12); /* no wavefronts: as described */
  NEAR(w.sm[KVM_L1], 10e6 / 8, 1e-12);
  row[0].structure.l1_load_bytes = 2e6;
  w = kva_measured_work(&m, &row[0]);
  NEAR(w.chip[KVM_L1], 12e6, 1e-12);
  /* counted wavefronts stand for what is described, be they more or fewer, and the busiest SM's for its share */
  row[0].counters.wavefronts = 1e6;
  row[0].counters.wavefronts_max = 2e5;
  w = kva_measured_work(&m, &row[0]);
  NEAR(w.chip[KVM_L1], 128e6, 1e-12);
  NEAR(w.sm[KVM_L1], 25.6e6, 1e-12);
  row[0].counters.wavefronts = 5e4;
  w = kva_measured_work(&m, &row[0]);
  NEAR(w.chip[KVM_L1], 6.4e6, 1e-12);
  NEAR(w.chip[KVM_DRAM], 4e6, 1e-12);
  NEAR(w.chip[KVM_LINK], 60e6, 1e-12);
  NEAR(w.sm[KVM_LINK], 9e6, 1e-12);
}

/* What lives in the tree names no folder of the machine it was made on. */
static void histories_name_no_folders(void) {
  static const char *const folders[] = {"models/measured", "traces/samples"};
  unsigned seen = 0;
  for (size_t k = 0; k < 2; k++) {
    DIR *d = opendir(kv_source(folders[k]));
    const struct dirent *e;
    CU_ASSERT_PTR_NOT_NULL_FATAL(d);
    while ((e = readdir(d))) {
      char path[600], text[9000] = "";
      const size_t n = strlen(e->d_name);
      if (n < 4 || strcmp(e->d_name + n - 3, ".h5") != 0) continue;
      (void)snprintf(path, sizeof path, "%s/%.255s", folders[k], e->d_name);
      hid_t file = H5Fopen(kv_source(path), H5F_ACC_RDONLY, H5P_DEFAULT);
      CU_ASSERT_FATAL(file >= 0);
      CU_ASSERT_EQUAL(kv_h5_get_str(file, "history", text, sizeof text, NULL), KV_OK);
      if (strstr(text, " /") || strstr(text, "=/")) printf("%s: %s\n", path, text);
      CU_ASSERT(*text && !strstr(text, " /") && !strstr(text, "=/"));
      (void)H5Fclose(file);
      seen++;
    }
    (void)closedir(d);
  }
  CU_ASSERT(seen >= 19);
}

void suite_validate(void) {
  static const kv_test_case cases[] = {
      {"text", text_is_read},
      {"bad text", bad_text_is_refused},
      {"nonsense", nonsense_is_refused_with_its_place},
      {"measured once", only_measured_points_count_once},
      {"files", files_are_inputs_once},
      {"below the floor", a_point_below_its_floor_is_refused},
      {"predictions", a_file_of_predictions_says_so},
      {"scores", scores_are_what_they_say},
      {"bars", the_model_keeps_its_bars},
      {"our kernels", our_kernels_keep_the_bar},
      {"skipped", kernels_without_a_program_are_told},
      {"shares", shares_add_up_and_name_the_cause},
      {"inconsistent", an_impossible_ladder_is_told},
      {"experiments", experiments_climb_the_ladder_too},
      {"launches, layouts, counters", launches_layouts_and_counters_take_part},
      {"recorded layouts", a_recorded_layout_has_its_cost},
      {"histories", histories_name_no_folders},
      {"copy", a_copy_at_the_roof_has_no_cause},
      {"small share", a_small_share_is_named_and_bounded},
      {"assumed scatter", an_assumed_scatter_is_carried},
      {NULL, NULL}};
  kv_suite("validate", cases);
}
