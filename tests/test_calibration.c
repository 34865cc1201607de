/* The calibration dataset: choice of ceilings, round trip, damaged files. */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration.h"
#include "calibration_model.h"
#include "kv_h5.h"
#include "kv_test.h"

static kvk_point point(const char *name, kvk_point_kind kind, bool one_sm, double work, double seconds) {
  kvk_point p = {.kind = kind, .one_sm = one_sm, .work = work, .load = NAN, .cycles = NAN, .samples = 5};
  (void)snprintf(p.name, sizeof p.name, "%s", name);
  (void)snprintf(p.variant, sizeof p.variant, "made up");
  (void)snprintf(p.unit, sizeof p.unit, "%s", kind == KVK_RATE ? "B" : "1");
  kvk_state_clear(&p.state);
  p.state.throttle_known = true;
  for (int i = 0; i < 5; i++) p.seconds[i] = seconds * (1 + 0.01 * (i - 2));
  return p;
}

static void fill(kva_calibration *c) {
  *c = (kva_calibration){.origin = {.gpu = {.name = "Test GPU",
                                            .major = 9,
                                            .sms = 132,
                                            .l2 = 1000,
                                            .memory = 1u << 30,
                                            .sm_clock_khz = 1980000,
                                            .memory_clock_khz = 3201000,
                                            .driver = 13000},
                                    .driver = "1.2",
                                    .date = "2026-01-02",
                                    .power_limit = 700,
                                    .repeats = 5,
                                    .seed = 3}};
  kvk_point p[] = {point("dram", KVK_RATE, false, 1e9, 1e-3),     /* 1e12 */
                   point("dram", KVK_RATE, false, 1e9, 0.5e-3),   /* 2e12, throttled */
                   point("gather", KVK_RATE, false, 1e9, 0.8e-3), /* 1.25e12, footprint large */
                   point("gather", KVK_RATE, false, 1e9, 0.1e-3), /* 1e13, but inside the L2 */
                   point("dram", KVK_RATE, true, 1e9, 1e-2),      /* one SM: 1e11 */
                   point("link", KVK_RATE, false, 1e9, 0.2e-3),   /* 5e12 */
                   point("latency_l2", KVK_LATENCY, true, 1000, 150e-6),
                   point("latency_l2", KVK_LATENCY, true, 1000, 140e-6),
                   point("latency_loaded", KVK_LATENCY, true, 1000, 100e-6)};
  p[1].throttled = true;
  p[1].state.throttle = KVK_THROTTLE_POWER_CAP;
  p[2].footprint = 8000;
  p[3].footprint = 7999;
  p[6].cycles = 281.5;
  for (size_t i = 0; i < sizeof p / sizeof *p; i++)
    CU_ASSERT_EQUAL(kva_calibration_add(c, &p[i], NULL), KV_OK);
}

static void values_and_intervals(void) {
  kva_calibration c;
  fill(&c);
  CU_ASSERT_EQUAL(c.rows, 9);
  CU_ASSERT_DOUBLE_EQUAL(c.row[0].value, 1e12, 1);
  CU_ASSERT(c.row[0].value_low <= c.row[0].value && c.row[0].value <= c.row[0].value_high);
  CU_ASSERT_DOUBLE_EQUAL(c.row[0].value_low, 1e9 / c.row[0].time.high, 1);
  CU_ASSERT_DOUBLE_EQUAL(c.row[6].value, 150e-9, 1e-15);
  CU_ASSERT_DOUBLE_EQUAL(c.row[6].value_low, c.row[6].time.low / 1000, 1e-18);
  kva_calibration_free(&c);
}

static void chooses_ceilings(void) {
  kva_calibration c;
  kva_best best[KVA_BESTS];
  fill(&c);
  size_t n = kva_calibration_ceilings(&c, best);
  CU_ASSERT_EQUAL_FATAL(n, 4); /* dram chip, dram sm, link chip, link sm */
  CU_ASSERT_STRING_EQUAL(best[0].name, "dram");
  CU_ASSERT_EQUAL(best[0].row, 2); /* not the throttled one, not the gather inside the L2 */
  CU_ASSERT_EQUAL(best[1].row, 4);
  CU_ASSERT_STRING_EQUAL(best[2].name, "link");
  CU_ASSERT_EQUAL(best[2].row, 5);
  CU_ASSERT_EQUAL(best[3].row, 4); /* DRAM bytes cross the link */
  n = kva_calibration_latencies(&c, best);
  CU_ASSERT_EQUAL_FATAL(n, 1);
  CU_ASSERT_EQUAL(best[0].row, 7);
  kva_calibration_free(&c);
}

static void throttled_when_alone(void) {
  kva_calibration c = {0};
  kva_best best[KVA_BESTS];
  kvk_point p = point("mma", KVK_RATE, false, 1e9, 1e-3);
  p.throttled = true;
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_calibration_ceilings(&c, best), 1);
  kva_calibration_free(&c);
}

static void refuses_bad_points(void) {
  kva_calibration c = {0};
  kv_error err;
  kvk_point p = point("dram", KVK_RATE, false, 1, 1);
  p.samples = 0;
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, &err), KV_ERR_INPUT);
  p.samples = KVK_POINT_SAMPLES + 1;
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, &err), KV_ERR_INPUT);
  p.samples = 2;
  p.seconds[1] = 0;
  CU_ASSERT_EQUAL(kva_calibration_add(&c, &p, &err), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(c.rows, 0);
  kva_calibration_free(&c);
}

static bool same_number(double a, double b) {
  return a == b || (isnan(a) && isnan(b));
}

static void comes_back(void) {
  kva_calibration c, d;
  const char *path = kv_tmp("ceilings.h5");
  fill(&c);
  kva_calibration_note(&c, "one");
  kva_calibration_note(&c, "");
  kva_calibration_note(&c, "two");
  c.complete = true;
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, path, "roofline calibrate", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(path, &d, NULL), KV_OK);
  CU_ASSERT_STRING_EQUAL(d.origin.gpu.name, "Test GPU");
  CU_ASSERT_STRING_EQUAL(d.origin.driver, "1.2");
  CU_ASSERT_STRING_EQUAL(d.notes, "one; two");
  CU_ASSERT(d.complete && d.origin.gpu.l2 == 1000 && d.origin.gpu.sms == 132 && d.origin.seed == 3);
  CU_ASSERT_DOUBLE_EQUAL(d.origin.power_limit, 700, 0);
  CU_ASSERT_EQUAL_FATAL(d.rows, c.rows);
  for (size_t i = 0; i < c.rows; i++) {
    const kva_bench_row *a = &c.row[i], *b = &d.row[i];
    CU_ASSERT_STRING_EQUAL(a->point.name, b->point.name);
    CU_ASSERT(a->point.kind == b->point.kind && a->point.one_sm == b->point.one_sm);
    CU_ASSERT(a->point.throttled == b->point.throttled && a->point.footprint == b->point.footprint);
    CU_ASSERT(a->value == b->value && a->value_low == b->value_low && a->time.p90 == b->time.p90);
    CU_ASSERT(same_number(a->point.cycles, b->point.cycles) &&
              same_number(a->point.state.power, b->point.state.power));
    CU_ASSERT_EQUAL(b->point.samples, 5);
    CU_ASSERT_EQUAL(memcmp(a->point.seconds, b->point.seconds, 5 * sizeof(double)), 0);
  }
  kva_calibration_free(&c);
  kva_calibration_free(&d);
}

/* What a run that broke off leaves: no rows at all, not complete, the reason. */
static void an_empty_one_is_valid(void) {
  kva_calibration c = {.origin = {.power_limit = NAN}}, d;
  const char *path = kv_tmp("empty.h5");
  (void)snprintf(c.failure, sizeof c.failure, "the device is lost");
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, path, "x", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(path, &d, NULL), KV_OK);
  CU_ASSERT(d.rows == 0 && !d.complete);
  CU_ASSERT_STRING_EQUAL(d.failure, "the device is lost");
  kva_calibration_free(&d);
}

static void damaged_files_are_refused(void) {
  kva_calibration c, d;
  kv_error err = {KV_OK, ""};
  uint32_t bad = 99;
  const char *path = kv_tmp("damaged.h5");
  CU_ASSERT_EQUAL(kva_calibration_read(kv_tmp("absent.h5"), &d, &err), KV_ERR_IO);
  fill(&c);
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, path, "x", NULL), KV_OK);
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t column = H5Dopen2(file, "samples/point", H5P_DEFAULT), space = H5Dget_space(column);
  hsize_t at = 0;
  hid_t memory = H5Screate(H5S_SCALAR);
  (void)H5Sselect_elements(space, H5S_SELECT_SET, 1, &at);
  CU_ASSERT(H5Dwrite(column, H5T_NATIVE_UINT32, memory, space, H5P_DEFAULT, &bad) >= 0);
  (void)H5Sclose(memory);
  (void)H5Sclose(space);
  (void)H5Dclose(column);
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL(kva_calibration_read(path, &d, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "samples/point[0]"));
  file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  (void)H5Ldelete(file, "microbenchmarks/value", H5P_DEFAULT);
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL(kva_calibration_read(path, &d, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "microbenchmarks/value"));
  kva_calibration_free(&c);
}

/* ---- the memory model beside it ---- */

static kvk_point gather(const char *layout, uint32_t run, uint32_t blocks, bool one_sm) {
  kvk_point p = point("gather", KVK_RATE, one_sm, 1e9, 0.25e-3);
  (void)snprintf(p.variant, sizeof p.variant, "ld.v4 x4, indices ahead");
  (void)snprintf(p.layout, sizeof p.layout, "%s", layout);
  p.row_bytes = 1152;
  p.run_length = run;
  p.blocks = blocks;
  p.in_flight = 16384;
  p.footprint = UINT64_C(8) << 30;
  return p;
}

static kvk_point pool_of(uint64_t mib, const char *variant) {
  kvk_point p = gather("random", 1, 792, false);
  (void)snprintf(p.variant, sizeof p.variant, "%s", variant);
  p.footprint = mib << 20;
  return p;
}

static void gathers(kva_calibration *c) {
  const kvk_point p[] = {gather("contiguous", 0, 792, false), gather("random", 1, 792, false), gather("random", 1, 1, true),
                         gather("list", 0, 792, false), pool_of(16, "ld.v4 x4, a tile a block"),
                         pool_of(16, "ld.v4 x4, a tile a block, rows stay")};
  fill(c);
  (void)snprintf(c->origin.gpu.name, sizeof c->origin.gpu.name, "NVIDIA H200");
  for (size_t i = 0; i < sizeof p / sizeof *p; i++) CU_ASSERT_EQUAL(kva_calibration_add(c, &p[i], NULL), KV_OK);
}

static void described(kvm_gpu *gpu, kvm_mem_params *params) {
  CU_ASSERT_EQUAL_FATAL(kvm_gpu_load(kv_source("models/gpus/h200_sxm.ini"), gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_mem_describe(kv_source("models/dram/hbm3e.ini"), gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kvm_mem_params_of(gpu, params, NULL), KV_OK);
}

static void read_modelled(const char *path, double *v, size_t n, char *model, char *history) {
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), column = H5Dopen2(file, "microbenchmarks/modelled", H5P_DEFAULT);
  hid_t space = H5Dget_space(column);
  CU_ASSERT_EQUAL_FATAL(H5Sget_simple_extent_npoints(space), (hssize_t)n);
  CU_ASSERT(H5Dread(column, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "memory_model", model, 400, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "history", history, 4000, NULL), KV_OK);
  (void)H5Sclose(space);
  (void)H5Dclose(column);
  (void)H5Fclose(file);
}

static void the_model_stands_beside_the_gathers(void) {
  kva_calibration c, d;
  kvm_gpu gpu;
  kvm_mem_params params;
  char model[400], history[4000], path[1024], out[1024];
  double v[15], rate;
  gathers(&c);
  described(&gpu, &params);
  strcpy(path, kv_tmp("gathers.h5"));
  strcpy(out, kv_tmp("gathers-modelled.h5"));
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, path, "roofline calibrate", NULL), KV_OK);
  kva_model_plan plan = {.in = path, .out = out, .gpu = &gpu, .command = "again"};
  CU_ASSERT_EQUAL_FATAL(kva_calibration_model(&plan, NULL), KV_OK);
  read_modelled(out, v, 15, model, history);
  CU_ASSERT_PTR_NOT_NULL(strstr(model, "h200_sxm, calibrated on gathers"));
  CU_ASSERT_PTR_NOT_NULL(strstr(history, "roofline calibrate; the memory model added by: again"));
  const kvm_mem_point random = {.row_bytes = 1152, .run = 1, .footprint = UINT64_C(8) << 30, .in_flight = 16384, .sms = 132,
                                .batch = 2048, .aligned = true};
  CU_ASSERT_EQUAL(kvm_mem_predict(&params, &random, UINT64_C(8) << 20, &rate, NULL), KV_OK);
  CU_ASSERT_DOUBLE_EQUAL(v[10], rate, 0);
  CU_ASSERT(v[9] > v[10] && v[11] < v[10] / 20 && v[11] > v[10] / 132 / 2); /* contiguous; one SM of 132 */
  for (size_t i = 0; i < 9; i++) CU_ASSERT(isnan(v[i]));
  CU_ASSERT(isnan(v[12])); /* a recorded list is no pattern */
  CU_ASSERT(isnan(v[13]) && v[14] > v[10]); /* a pool about the L2's size, by what ran before and by itself */
  CU_ASSERT_EQUAL_FATAL(kva_calibration_read(out, &d, NULL), KV_OK); /* all else stays */
  CU_ASSERT(d.rows == 15 && d.row[10].value == c.row[10].value && d.row[10].point.samples == 5);
  kva_calibration_free(&d);
  plan = (kva_model_plan){.in = out, .out = out, .why = "nobody described it"}; /* in place, and again */
  CU_ASSERT_EQUAL_FATAL(kva_calibration_model(&plan, NULL), KV_OK);
  read_modelled(out, v, 15, model, history);
  CU_ASSERT_STRING_EQUAL(model, "none: nobody described it");
  CU_ASSERT(isnan(v[10]));
  plan.in = kv_tmp("absent.h5");
  CU_ASSERT_EQUAL(kva_calibration_model(&plan, NULL), KV_ERR_IO);
  kvm_gpu_free(&gpu);
  kva_calibration_free(&c);
}

/* `roofline calibrate --from`: a table, a dataset with the model, and a report, on a machine without a GPU. */
static void a_dataset_is_taken_up_again(void) {
  kva_calibration c;
  char *out, *err;
  gathers(&c);
  c.complete = true;
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&c, kv_tmp("old.h5"), "roofline calibrate", NULL), KV_OK);
  kva_calibration_free(&c);
  const char *program = kv_program("roofline");
  CU_ASSERT_EQUAL(kv_run(&out, &err, "cd '%s' && '%s' calibrate --from old.h5 -o new.h5 --require dram=1e12", kv_tmp("."), program), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "measured: NVIDIA H200"));
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "report in new-report"));
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "test -s '%s'", kv_tmp("new-report/new.pdf")), 0);
  free(out);
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' report new.h5 -o again -q && cmp again/new.pdf new-report/new.pdf", kv_tmp("."), program), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' calibrate --from old.h5 -o bar.h5 -q --no-report --require dram=1e13", kv_tmp("."), program), 1);
  CU_ASSERT_NOT_EQUAL(kv_run(NULL, NULL, "ls '%s'", kv_tmp("bar-report")), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && cp old.h5 same.h5 && '%s' calibrate --from old.h5 -o ./old.h5 -q", kv_tmp("."), program), 2);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && cmp old.h5 same.h5", kv_tmp(".")), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' calibrate --from absent.h5 -o x.h5 -q", kv_tmp("."), program), 5);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && '%s' calibrate --from '%s' -o x.h5 -q", kv_tmp("."), program,
                         kv_source("traces/samples/single_long_eagle.h5")), 3);
  CU_ASSERT_NOT_EQUAL(kv_run(NULL, NULL, "ls '%s'*", kv_tmp("x.h5")), 0);
}

void suite_calibration(void) {
  static const kv_test_case cases[] = {{"values and intervals", values_and_intervals},
                                       {"chooses ceilings", chooses_ceilings},
                                       {"takes a throttled point when alone", throttled_when_alone},
                                       {"refuses bad points", refuses_bad_points},
                                       {"comes back from the file", comes_back},
                                       {"an empty dataset is valid", an_empty_one_is_valid},
                                       {"damaged files are refused", damaged_files_are_refused},
                                       {"the model stands beside the gathers", the_model_stands_beside_the_gathers},
                                       {"a dataset is taken up again", a_dataset_is_taken_up_again},
                                       {NULL, NULL}};
  kv_suite("calibration", cases);
}
