/* roofline step, compare and diagnose: their files, sums and exit statuses. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "csv.h"
#include "decode_step.h"
#include "diagnose.h"
#include "kv_h5.h"
#include "kv_test.h"

#define NEAR(a, b, rel) CU_ASSERT(fabs((a) - (b)) <= (rel)*fabs((double)(b)))

static const char *text_file(const char *name, const char *text) {
  const char *path = kv_tmp(name);
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(text, f);
  (void)fclose(f);
  return path;
}

/* ---- csv ---- */

static void csv_cells_are_cut(void) {
  static const char *const header[] = {"Name", NULL};
  kva_csv c;
  const char *path = text_file("a.csv",
                               "==PROF== noise, with a comma\r\n\"A\",\"Name\",B\r\n1,\"x \"\"y\"\", "
                               "z\",\"1,234.5\"\r\n\r\n2,short\r\n");
  CU_ASSERT_EQUAL_FATAL(kva_csv_read(path, header, &c, NULL), KV_OK);
  CU_ASSERT(c.rows == 3 && c.columns == 3);
  CU_ASSERT_STRING_EQUAL(kva_csv_cell(&c, 1, 1), "x \"y\", z");
  CU_ASSERT_DOUBLE_EQUAL(kva_csv_number(kva_csv_cell(&c, 1, 2)), 1234.5, 0);
  CU_ASSERT_STRING_EQUAL(kva_csv_cell(&c, 2, 2), "");
  CU_ASSERT(kva_csv_number("1,234,567") == 1234567 && kva_csv_number(" -12,345.25") == -12345.25);
  CU_ASSERT(isnan(kva_csv_number("152,1")) && isnan(kva_csv_number("20.454,00")) &&
            isnan(kva_csv_number("1234,567")));
  CU_ASSERT(isnan(kva_csv_number("1,2345")) && isnan(kva_csv_number(",123")) &&
            isnan(kva_csv_number("12,34,567")));
  CU_ASSERT(isnan(kva_csv_number("n/a")) && isnan(kva_csv_number("")) && kva_csv_number("12 %") == 12);
  kva_csv_free(&c);
  CU_ASSERT_EQUAL(kva_csv_read(text_file("b.csv", "Name\n\"open\n"), header, &c, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_csv_read(text_file("b.csv", "other\n1\n"), header, &c, NULL), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_csv_read("/nonexistent.csv", header, &c, NULL), KV_ERR_IO);
}

static kv_status decimal_points(const char *cell, char text[KV_ERROR_TEXT]) {
  static const char *const header[] = {"Name", NULL};
  char all[200];
  kva_csv c;
  kv_error err = {KV_OK, ""};
  (void)snprintf(all, sizeof all, "\xef\xbb\xbfName,time\na<1>,\"1,234\"\n\"b\",\"%s\"\n", cell);
  CU_ASSERT_EQUAL_FATAL(kva_csv_read(text_file("p.csv", all), header, &c, NULL), KV_OK);
  CU_ASSERT_STRING_EQUAL(kva_csv_cell(&c, 0, 0), "Name"); /* without the byte order mark */
  kv_status st = kva_csv_decimal_points(&c, "p.csv", &err);
  (void)snprintf(text, KV_ERROR_TEXT, "%s", err.text);
  kva_csv_free(&c);
  return st;
}

static void decimal_commas_are_refused(void) {
  static const char *const fine[] = {"1,234",     "12,345,678", "1,234.5", "152.1",
                                     "(1, 8, 1)", "f(1,2)",     "",        "1,2,3"};
  static const char *const bad[] = {"152,1", "20.454,00", "1.234,567", "12345,678", "0,123", "-1,5 %"};
  static const char *const header[] = {"Name", NULL};
  char text[KV_ERROR_TEXT];
  kva_csv c;
  kv_error err = {KV_OK, ""};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++)
    CU_ASSERT_EQUAL(decimal_points(fine[i], text), KV_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CU_ASSERT_EQUAL(decimal_points(bad[i], text), KV_ERR_INPUT);
    CU_ASSERT(strstr(text, "row 3, column 'time'") && strstr(text, bad[i]) && strstr(text, "LC_ALL=C"));
  }
  /* without quotes it is a cell too many */
  CU_ASSERT_EQUAL(kva_csv_read(text_file("p.csv", "Name,time\na,152,1\n"), header, &c, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "row 2 has 3 cells, its header 2"));
  CU_ASSERT_EQUAL_FATAL(kva_csv_read(text_file("p.csv", "Name,time\na,152,\n"), header, &c, &err), KV_OK);
  kva_csv_free(&c);
}

/* ---- step ---- */

static void a_step_adds_up(void) {
  kva_step_rest rest;
  CU_ASSERT_EQUAL_FATAL(kva_step_read(text_file("parts", "# the rest\nmoe 5\n\ngemm 2.5 10\n"), &rest, NULL),
                        KV_OK);
  CU_ASSERT(rest.n == 2 && !strcmp(rest.component[1].name, "gemm"));
  NEAR(kva_step_rest_time(&rest, 100000), 7.5e-3 + 1e-3, 1e-12); /* 10 us each 1000 tokens */
  kva_step_point p = {.prefix = 100000, .attention = 1e-3, .low = 0.5e-3, .high = 2e-3, .floor = 0.1e-3};
  kva_step_sum(&p, 60, &rest, 3);
  NEAR(p.step, 68.5e-3, 1e-12);
  NEAR(p.step_high, 128.5e-3, 1e-12);
  NEAR(p.tokens, 3 / 68.5e-3, 1e-12);
  NEAR(p.tokens_low, 3 / 128.5e-3, 1e-12);
  NEAR(p.share, 60 / 68.5, 1e-12);
  NEAR(p.best, 14.5e-3, 1e-12);
  static const char *const bad[] = {"", "moe\n", "moe x\n", "moe -1\n", "moe 1 2 3\n", "moe nan\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(kva_step_read(text_file("parts", bad[i]), &rest, NULL), KV_ERR_INPUT);
}

static void profiles_become_components(void) {
  kva_step_rest rest;
  double left_out;
  const char *nsys = text_file(
      "n.csv",
      "Time (%),Total Time (ns),Instances,Avg (ns),Name\n50.0,20000000,610,1,_fwd_kernel\n"
      "30.0,8000000,10,1,\"nvjet_tst_128x8(float, int)\"\n10.0,3000000,2,1,ncclDevKernel_AllReduce\n"
      "9.0,1000000,1,1,rms_norm_kernel\n1.0,500000,1,1,fused_moe_kernel\n");
  CU_ASSERT_EQUAL_FATAL(kva_step_profile(nsys, 10, KVA_ATTENTION_NAMES, &rest, &left_out, NULL), KV_OK);
  NEAR(left_out, 2e-3, 1e-12);
  NEAR(kva_step_rest_time(&rest, 0), 1.25e-3, 1e-12);
  CU_ASSERT_EQUAL(rest.n, 4); /* gemm, communication, other, moe */
  const char *torch = text_file("t.csv", "key,count,self_device_time_total\nflash_attn,1,1000\ngemm,2,300\n");
  CU_ASSERT_EQUAL_FATAL(kva_step_profile(torch, 1, KVA_ATTENTION_NAMES, &rest, &left_out, NULL), KV_OK);
  NEAR(left_out, 1e-3, 1e-12); /* microseconds */
  NEAR(kva_step_rest_time(&rest, 0), 0.3e-3, 1e-12);
  /* words of attention in the names of communication: 1 + 2 + 3 us are none of it; a word that only begins so is */
  const char *both = text_file("c.csv", "key,count,self_device_time_total\nflash_comm_allreduce,1,1\nattn_tp_reduce_scatter,1,2\n"
                                        "flash_comm,1,3\nflash_common_attention,1,10\nattention_gather_rows,1,20\n");
  CU_ASSERT_EQUAL_FATAL(kva_step_profile(both, 1, KVA_ATTENTION_NAMES, &rest, &left_out, NULL), KV_OK);
  NEAR(left_out, 30e-6, 1e-12);
  CU_ASSERT(rest.n == 1 && !strcmp(rest.component[0].name, "communication"));
  NEAR(rest.component[0].fixed, 6e-6, 1e-12);
  CU_ASSERT_EQUAL_FATAL(kva_step_profile(both, 1, "flash_comm", &rest, &left_out, NULL), KV_OK);
  NEAR(left_out, 14e-6, 1e-12); /* the user's own words */
  /* attention that nobody found would be in the step twice */
  kv_error of_unknown = {KV_OK, ""};
  const char *unknown = text_file("u.csv", "key,count,self_device_time_total\ngemm,1,1\nsecret_sauce,1,2\n");
  CU_ASSERT_EQUAL(kva_step_profile(unknown, 1, KVA_ATTENTION_NAMES, &rest, &left_out, &of_unknown), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(of_unknown.text, "the longest is 'secret_sauce': name yours with --attention"));
  CU_ASSERT_EQUAL(kva_step_profile(unknown, 1, "", &rest, &left_out, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_step_profile(text_file("t.csv", "key,count\na,1\n"), 1, "x", &rest, &left_out, NULL),
                  KV_ERR_INPUT);
  CU_ASSERT_EQUAL(
      kva_step_profile(text_file("t.csv", "Name,Total Time (ns)\na,abc\n"), 1, "x", &rest, &left_out, NULL),
      KV_ERR_INPUT);
  kv_error err = {KV_OK, ""};
  CU_ASSERT_EQUAL(kva_step_profile(text_file("t.csv", "Name,Total Time (ns)\na,\"1,5\"\n"), 1, "x", &rest,
                                   &left_out, &err),
                  KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "row 2, column 'Total Time (ns)'"));
}

static int roofline(const char *args) {
  return kv_run(NULL, NULL, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s %s", kv_tmp(""),
                kv_program("roofline"), args);
}

/* The story's 1.4 s a step at 128k with 61 layers, 8 heads: the bar is a factor of 1.5, nothing was tuned to
 * hit it. */
static void the_told_step_is_met(void) {
  char *out;
  CU_ASSERT_EQUAL(kv_run(&out, NULL,
                         "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s step --gpu sm_120 --prefix 131072 "
                         "-o step.h5 -q | awk '$2 == 131072 {print $5}'",
                         kv_tmp(""), kv_program("roofline")),
                  0);
  double ms = atof(out);
  CU_ASSERT(ms > 1400 / 1.5 && ms < 1400 * 1.5);
  free(out);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --heads 64 --prefix 128k --json >/dev/null"), 0);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --base-ms x"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --kernel nope"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --kernel split_verify --kernel split_per_head"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --queries 9 --accepted 10.5"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --queries 9 --accepted 10 --prefix 4096 >/dev/null"), 0);
  (void)text_file("rest", "moe 5\n");
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --components rest -o ./rest"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --components /nonexistent"), 5);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --components x --profile y"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --components rest --base-ms 8"), 2);
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 --profile y --base-ms 8"), 2);
}

/* ---- bounds ---- */

static double number_at(const json_t *array, size_t i) {
  return json_number_value(json_array_get(array, i));
}

/* Neither an interval nor a gain promises less time than the work needs. Says how many points were judged. */
static size_t points_keep_their_bounds(const json_t *points) {
  const double slack = 1 - 1e-9;
  size_t i, judged = 0;
  const json_t *point, *x;
  const char *cause;
  json_array_foreach(points, i, point) {
    const json_t *t = json_object_get(point, "ladder_s"), *low = json_object_get(point, "time_low_s");
    const double whole = number_at(t, 7), floor = number_at(t, 0);
    if (!json_is_number(json_array_get(t, 7))) continue;
    judged++;
    CU_ASSERT(json_number_value(low) >= number_at(t, 4) * slack && json_number_value(low) <= whole);
    json_object_foreach(json_object_get(point, "causes"), cause, x) {
      const json_t *gains = json_object_get(x, "gain_interval");
      double gain = json_number_value(json_object_get(x, "gain"));
      if (json_is_null(x)) continue;
      CU_ASSERT(number_at(gains, 0) <= gain && gain <= number_at(gains, 1));
      CU_ASSERT(whole / number_at(gains, 1) >= floor * slack);
      if (!strcmp(cause, "exposed memory")) CU_ASSERT(whole / gain >= number_at(t, 4) * slack);
    }
  }
  return judged;
}

static void no_gain_goes_below_the_floor(void) {
  static const char *const gpus[] = {"sm_120", "l40s", "h100_pcie", "rtx_4090", "rtx_5090", "h200"};
  for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
    char *out;
    CU_ASSERT_EQUAL(
        kv_run(&out, NULL,
               "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s --gpu %s --json --no-report -q --prefix 4096 "
               "--prefix 65536 --prefix 131072",
               kv_tmp(""), kv_program("roofline"), gpus[i]),
        0);
    json_t *root = json_loads(out, 0, NULL);
    CU_ASSERT(points_keep_their_bounds(json_object_get(root, "points")) >= 9);
    json_decref(root);
    free(out);
  }
}

/* Where attention is at its floor, so is the lower end of the step. */
static void a_step_s_interval_keeps_the_floor(void) {
  char *out;
  size_t i;
  json_t *point;
  CU_ASSERT_EQUAL(
      kv_run(&out, NULL,
             "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s step --gpu sm_120 --json -q --prefix 128Ki",
             kv_tmp(""), kv_program("roofline")),
      0);
  json_t *root = json_loads(out, 0, NULL), *points = json_object_get(root, "points");
  CU_ASSERT(json_array_size(points) >= 3);
  json_array_foreach(points, i, point) {
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(point, "prefix")), 131072);
    CU_ASSERT(json_number_value(json_object_get(point, "step_low_s")) >=
              json_number_value(json_object_get(point, "step_at_floor_s")) * (1 - 1e-9));
  }
  json_decref(root);
  free(out);
}

/* ---- compare ---- */

static void dataset(const char *name, double time, double low, double high, uint64_t prefix) {
  const double t[2] = {time, 1e-3}, lo[2] = {low, 0.9e-3}, hi[2] = {high, 1.1e-3}, none[2] = {NAN, NAN};
  const uint32_t zero[2] = {0, 0}, eight[2] = {8, 8}, nine[2] = {9, 9}, one[2] = {1, 1}, kernel[2] = {0, 1};
  const uint64_t where[2] = {prefix, 4096};
  const char *kernels[2] = {"a", "b"}, *layouts[1] = {"random"};
  kv_h5_out out;
  CU_ASSERT_EQUAL_FATAL(kv_h5_create(kv_tmp(name), "roofline-1", "test", "test", &out, NULL), KV_OK);
  (void)kv_h5_write_strings(out.file, "kernels/name", 2, kernels, "k", NULL);
  (void)kv_h5_write_strings(out.file, "layouts/name", 1, layouts, "l", NULL);
  const struct {
    const char *name;
    const uint32_t *v;
  } whole[] = {{"points/kernel", kernel},
               {"points/layout", zero},
               {"points/heads", eight},
               {"points/queries", nine},
               {"points/batch", one}};
  for (size_t i = 0; i < 5; i++)
    (void)kv_h5_write(out.file, whole[i].name, H5T_STD_U32LE, 2, whole[i].v, "1", "x", KV_H5_SMALL, NULL);
  (void)kv_h5_write(out.file, "points/prefix", H5T_STD_U64LE, 2, where, "token", "x", KV_H5_SMALL, NULL);
  const struct {
    const char *name;
    const double *v;
  } reals[] = {{"points/measured", t},
               {"points/measured_low", lo},
               {"points/measured_high", hi},
               {"points/time", none}};
  for (size_t i = 0; i < 4; i++)
    (void)kv_h5_write(out.file, reals[i].name, H5T_IEEE_F64LE, 2, reals[i].v, "s", "x", KV_H5_SMALL, NULL);
  CU_ASSERT_EQUAL(kv_h5_commit(&out, NULL), KV_OK);
}

static void slower_points_miss_the_bar(void) {
  char before[300], after[300];
  kva_comparison c;
  dataset("before.h5", 1e-3, 0.99e-3, 1.01e-3, 4096);
  dataset("after.h5", 1.2e-3, 1.19e-3, 1.21e-3, 4096);
  (void)snprintf(before, sizeof before, "%s", kv_tmp("before.h5"));
  (void)snprintf(after, sizeof after, "%s", kv_tmp("after.h5"));
  CU_ASSERT_EQUAL_FATAL(kva_compare(before, after, &c, NULL), KV_OK);
  CU_ASSERT(c.n == 2 && c.slower == 1 && c.undecided == 1 && c.pair[0].measured);
  NEAR(c.pair[0].ratio, 1.2, 1e-12);
  NEAR(c.pair[0].low, 1.19 / 1.01, 1e-12);
  NEAR(c.pair[0].high, 1.21 / 0.99, 1e-12);
  NEAR(c.mean, sqrt(1.2), 1e-12);
  kva_compare_free(&c);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 --fail-above 5%"), 1);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 --fail-above 25"), 0);
  CU_ASSERT_EQUAL(roofline("compare after.h5 before.h5 --fail-above 5% --json -o c.h5 >/dev/null"), 0);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 -o ./after.h5"), 2);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 -o before.h5"), 2);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 --fail-above 5%"), 1); /* both still there */
  CU_ASSERT_EQUAL(roofline("compare before.h5"), 2);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 after.h5"), 2);
  CU_ASSERT_EQUAL(roofline("compare before.h5 /nonexistent.h5"), 5);
  CU_ASSERT_EQUAL(roofline("compare c.h5 after.h5"), 3); /* another kind of dataset */
  /* a change within the spread is no regression */
  dataset("after.h5", 1.2e-3, 0.9e-3, 1.3e-3, 4096);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 --fail-above 5%"), 0);
  dataset("after.h5", 1.2e-3, 1.19e-3, 1.21e-3, 8192);
  CU_ASSERT_EQUAL_FATAL(kva_compare(before, after, &c, NULL), KV_OK);
  CU_ASSERT(c.n == 1 && c.only[0] == 1 && c.only[1] == 1);
  kva_compare_free(&c);
}

/* A file of modelled times: of `gpu`, each with a range of a factor; the program of kernel a is `program`. */
static void modelled(const char *name, const char *gpu, const char *program, double time, double range) {
  const double none[2] = {NAN, NAN}, t[2] = {time, 1e-3}, low[2] = {time / range, 1e-3 / range},
               high[2] = {time * range, 1e-3 * range};
  const char *programs[2] = {program, "b_1, nvcc's machine code for sm_90"};
  dataset(name, 1, 1, 1, 4096);
  hid_t h = H5Fopen(kv_tmp(name), H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  CU_ASSERT(H5Ldelete(h, "points/measured", H5P_DEFAULT) >= 0 && H5Ldelete(h, "points/time", H5P_DEFAULT) >= 0);
  const struct {
    const char *name;
    const double *v;
  } real[] = {{"points/measured", none}, {"points/time", t}, {"points/time_low", low}, {"points/time_high", high}};
  for (size_t i = 0; i < 4; i++)
    CU_ASSERT_EQUAL(kv_h5_write(h, real[i].name, H5T_IEEE_F64LE, 2, real[i].v, "s", "x", KV_H5_SMALL, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_write_strings(h, "kernels/program", 2, programs, "p", NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_put_str(h, "gpu_name", gpu, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_put_str(h, "status", "modelled, uncalibrated", NULL), KV_OK);
  (void)H5Fclose(h);
}

static void compared(const char *before, const char *after, kva_comparison *c) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s", kv_tmp(before));
  CU_ASSERT_EQUAL_FATAL(kva_compare(path, kv_tmp(after), c, NULL), KV_OK);
}

/* Of two GPUs the models' intervals decide; what one model says of one GPU errs alike. */
static void modelled_points_keep_their_intervals(void) {
  kva_comparison c;
  modelled("m1.h5", "X", "a_1, nvcc's machine code for sm_90", 1e-3, 1.3);
  modelled("m2.h5", "Y", "a_1, nvcc's machine code for sm_90", 1.5e-3, 1.3);
  modelled("m3.h5", "X", "a_1, nvcc's machine code for sm_90", 1.5e-3, 1.3);
  modelled("m4.h5", "Y", "a_2, nvcc's machine code for sm_90", 2e-3, 1.3);
  compared("m1.h5", "m2.h5", &c);
  CU_ASSERT(c.undecided == 2 && !c.pair[0].common && isnan(c.worst));
  NEAR(c.pair[0].low, 1.5 / 1.69, 1e-12);
  NEAR(c.pair[0].high, 1.5 * 1.69, 1e-12);
  kva_compare_free(&c);
  CU_ASSERT_EQUAL(roofline("compare m1.h5 m2.h5 --fail-above 30%"), 0);
  compared("m1.h5", "m3.h5", &c);
  CU_ASSERT(c.slower == 1 && c.undecided == 1 && c.pair[0].common && c.pair[0].low == c.pair[0].ratio);
  kva_compare_free(&c);
  CU_ASSERT_EQUAL(roofline("compare m1.h5 m3.h5 --fail-above 30%"), 1);
  compared("m1.h5", "m4.h5", &c);
  CU_ASSERT(c.slower == 1 && c.pair[0].low > 1 && !c.pair[0].two_programs);
  kva_compare_free(&c);
  /* another compiler's, or another kernel's program: listed, not counted */
  static const char *const other[] = {"a_1, Triton's machine code for sm_120", "c_1, nvcc's machine code for sm_90"};
  for (size_t i = 0; i < 2; i++) {
    modelled("m5.h5", "Y", other[i], 3e-3, 1.1);
    compared("m1.h5", "m5.h5", &c);
    CU_ASSERT(c.n == 2 && c.pair[0].two_programs && c.apart == 1 && !c.slower && c.undecided == 1 && isnan(c.worst));
    NEAR(c.mean, 1, 1e-12);
    kva_compare_free(&c);
  }
  CU_ASSERT_EQUAL(roofline("compare m1.h5 m5.h5 --fail-above 30%"), 0);
}

/* Older files of modelled points have a bound in `time` where there is no T7. */
static void bounds_of_older_files_are_no_times(void) {
  const double none[2] = {NAN, NAN}, time[2] = {1e-3, 2e-3}, t7[2] = {1e-3, NAN};
  static const char *const file[2] = {"old-1.h5", "old-2.h5"};
  char path[2][300];
  kva_comparison c;
  for (int k = 0; k < 2; k++) {
    dataset(file[k], 1e-3, 1e-3, 1e-3, 4096);
    (void)snprintf(path[k], sizeof path[k], "%s", kv_tmp(file[k]));
    hid_t h = H5Fopen(path[k], H5F_ACC_RDWR, H5P_DEFAULT);
    CU_ASSERT_FATAL(h >= 0);
    CU_ASSERT(H5Ldelete(h, "points/measured", H5P_DEFAULT) >= 0 &&
              H5Ldelete(h, "points/time", H5P_DEFAULT) >= 0);
    CU_ASSERT_EQUAL(kv_h5_write(h, "points/measured", H5T_IEEE_F64LE, 2, none, "s", "x", KV_H5_SMALL, NULL),
                    KV_OK);
    CU_ASSERT_EQUAL(kv_h5_write(h, "points/time", H5T_IEEE_F64LE, 2, time, "s", "x", KV_H5_SMALL, NULL),
                    KV_OK);
    CU_ASSERT_EQUAL(kv_h5_write(h, "points/t7", H5T_IEEE_F64LE, 2, t7, "s", "x", KV_H5_SMALL, NULL), KV_OK);
    (void)H5Fclose(h);
  }
  CU_ASSERT_EQUAL_FATAL(kva_compare(path[0], path[1], &c, NULL), KV_OK);
  CU_ASSERT(c.n == 1 && !strcmp(c.pair[0].kernel, "a") && c.only[0] == 1 && c.only[1] == 1);
  kva_compare_free(&c);
}

/* ---- diagnose ---- */

/* Counters of SGLang's Triton kernel (v0.4.3) on an H200: 131072 tokens, 8 heads. */
static const char wide[] =
    "==PROF== Connected\n\"ID\",\"Kernel "
    "Name\",\"device__attribute_display_name\",\"dram__bytes_read.sum\",\"gpu__time_duration.sum\","
    "\"l1tex__m_xbar2l1tex_read_bytes.sum\",\"l1tex__data_pipe_lsu_wavefronts.sum\",\"launch__grid_size\","
    "\"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio\",\"smsp__average_warps_"
    "issue_stalled_wait_per_issue_active.ratio\"\n"
    "\"\",\"\",\"\",\"Mbyte\",\"msecond\",\"Gbyte\",\"\",\"\",\"inst\",\"inst\"\n"
    "\"0\",\"_fwd_kernel\",\"NVIDIA "
    "H200\",\"152.0\",\"15.83\",\"2.25\",\"108,500,000\",\"8\",\"3.8\",\"6.2\"\n";

static void an_ncu_csv_is_read_in_both_forms(void) {
  kva_profile p;
  CU_ASSERT_EQUAL_FATAL(kva_profile_read(text_file("w.csv", wide), &p, NULL), KV_OK);
  CU_ASSERT(p.n == 1 && !strcmp(p.kernel[0].device, "NVIDIA H200"));
  NEAR(p.kernel[0].m[KVA_M_DURATION], 15.83e-3, 1e-12);
  NEAR(p.kernel[0].m[KVA_M_DRAM_READ], 152e6, 1e-12);
  NEAR(p.kernel[0].m[KVA_M_L2_BYTES], 2.25e9, 1e-12);
  NEAR(p.kernel[0].m[KVA_M_WAVEFRONTS], 108.5e6, 1e-12);
  CU_ASSERT(p.kernel[0].m[KVA_M_GRID] == 8 && isnan(p.kernel[0].m[KVA_M_TENSOR]));
  kva_profile_free(&p);
  CU_ASSERT_EQUAL_FATAL(
      kva_profile_read(
          text_file("l.csv",
                    "\"ID\",\"Kernel Name\",\"Grid Size\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
                    "\"0\",\"a\",\"(8, 2, 1)\",\"Duration\",\"us\",\"1,500.5\"\n"
                    "\"0\",\"a\",\"(8, 2, 1)\",\"gpu__time_duration.sum\",\"nsecond\",\"1,500,500\"\n"
                    "\"1\",\"b\",\"(1, 1, 1)\",\"Duration\",\"us\",\"2\"\n"),
          &p, NULL),
      KV_OK);
  CU_ASSERT(p.n == 2 && p.kernel[0].m[KVA_M_GRID] == 16);
  NEAR(p.kernel[0].m[KVA_M_DURATION], 1500.5e-6, 1e-12);
  NEAR(p.kernel[1].m[KVA_M_DURATION], 2e-6, 1e-12);
  kva_profile_free(&p);
  /* Nsight Compute 2025.3's full set on an H200 counts operations, not instructions */
  CU_ASSERT_EQUAL_FATAL(
      kva_profile_read(text_file("o.csv", "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"sm__ops_path_tensor_src_fp16_dst_fp32.sum\","
                                          "\"sm__ops_path_tensor_src_bf16_dst_fp32.sum\"\n\"\",\"\",\"us\",\"\",\"\"\n"
                                          "\"0\",\"a\",\"97.5\",\"0\",\"22,917,120,000\"\n\"1\",\"b\",\"97.5\",\"40960\",\"0\"\n"),
                       &p, NULL),
      KV_OK);
  CU_ASSERT(p.n == 2 && p.kernel[0].m[KVA_M_TENSOR] == 5595000 && p.kernel[1].m[KVA_M_TENSOR] == 10);
  kva_profile_free(&p);
  CU_ASSERT_EQUAL(kva_profile_read(text_file("x.csv", "\"ID\",\"Kernel Name\"\n\"0\",\"a\"\n"), &p, NULL),
                  KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kva_profile_read(text_file("x.csv", "hello\n"), &p, NULL), KV_ERR_INPUT);
}

static void the_verdict_is_not_latency(void) {
  char *out;
  (void)text_file("w.csv", wide);
  CU_ASSERT_EQUAL(
      kv_run(&out, NULL,
             "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s diagnose --csv w.csv --prefix 131072",
             kv_tmp(""), kv_program("roofline")),
      0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "placement 2.8 nats (8 of 132 SMs busy)"));
  CU_ASSERT_PTR_NOT_NULL(
      strstr(out, "between 0 and 22 % of the time")); /* (15.83 - 6.87) ms x 38 % / 15.83 ms */
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "an idle memory says nothing about latency"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "scatter: not known"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "not in the csv: matrix instructions"));
  CU_ASSERT(strstr(out, " 15.83 ms\n") && strstr(out, " 152 MB\n") && strstr(out, "stall: wait "));
  free(out);
  CU_ASSERT_EQUAL(roofline("diagnose --csv w.csv --json | grep -c roofline-diagnose"), 0);
  CU_ASSERT_EQUAL(roofline("diagnose"), 2);
  CU_ASSERT_EQUAL(roofline("diagnose --csv /nonexistent"), 5);
  CU_ASSERT_EQUAL(roofline("diagnose --csv x.csv --gpu h200"), 3);
}

static void diagnosed(const char *csv, const char *args, int status, const char *says) {
  char *out, *err;
  (void)text_file("i.csv", csv);
  CU_ASSERT_EQUAL(kv_run(&out, &err, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s diagnose --csv i.csv --gpu h200 %s",
                         kv_tmp(""), kv_program("roofline"), args),
                  status);
  CU_ASSERT(strstr(out, says) && (!status || strstr(err, says)));
  if (!strstr(out, says)) printf("%s%s", out, err);
  free(out);
  free(err);
}

/* Columns of a raw page: duration in us, dram MB, then what `more` names. Every row is one kernel on 131072
 * tokens. */
static void diagnosed_raw(const char *more, const char *values, const char *args, const char *const *says,
                          const char *const *never) {
  char csv[1000], *out;
  size_t columns = 0;
  char none[100] = "";
  for (const char *c = more; (c = strchr(c, ',')); c++, columns++) (void)strcat(none, ",");
  (void)snprintf(csv, sizeof csv,
                 "\xef\xbb\xbfID,Kernel "
                 "Name,device__attribute_display_name,gpu__time_duration.sum,dram__bytes_read.sum%s\n"
                 ",,,us,Mbyte%s\n0,k,NVIDIA H200,20454,152%s\n",
                 more, none, values);
  (void)text_file("raw.csv", csv);
  CU_ASSERT_EQUAL(
      kv_run(&out, NULL, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s diagnose --csv raw.csv %s",
             kv_tmp(""), kv_program("roofline"), args),
      0);
  for (; *says; says++) {
    CU_ASSERT_PTR_NOT_NULL(strstr(out, *says));
    if (!strstr(out, *says)) printf("no '%s' in\n%s", *says, out);
  }
  for (; *never; never++) CU_ASSERT_PTR_NULL(strstr(out, *never));
  free(out);
}

#define TEXTS(...)        \
  (const char *const[]) { \
    __VA_ARGS__, NULL     \
  }
#define COUNTED                                                                                            \
  ",l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__data_pipe_lsu_wavefronts.sum,sm__inst_executed_pipe_tensor." \
  "sum"

/* A grid is read in both its forms; its name of the card despite a byte order mark. */
static void a_grid_is_read_as_ncu_writes_it(void) {
  const char *const says[] = {"placement 2.8 nats (8 of 132 SMs busy)", "up to 16x", "no effect: path", NULL};
  diagnosed_raw(COUNTED ",Grid Size", ",2250000000,108500000,27000000,\"(1, 8, 1)\"", "--prefix 131072", says,
                TEXTS("grid ("));
  diagnosed_raw(COUNTED ",launch__grid_size", ",2250000000,108500000,27000000,8", "--prefix 131072", says,
                TEXTS("grid ("));
}

/* What the csv has no counter for is not known, and never without effect. */
static void what_is_not_counted_is_not_known(void) {
  const char *const nothing[] = {"path: not known",   "work: not known",     "placement: not known",
                                 "serial: not known", "overhead: not known", NULL};
  diagnosed_raw(",Grid Size", ",\"(8, 1, 1)\"", "--prefix 131072", nothing, TEXTS("no effect"));
  diagnosed_raw(COUNTED, ",2250000000,108500000,27000000", "--prefix 131072",
                TEXTS("placement: not known", "serial: not known"), TEXTS("no effect: path, placement"));
  /* without the matrix instructions the others show part of the work, and all of what 8 blocks cost on 132
   * SMs */
  diagnosed_raw(",l1tex__m_xbar2l1tex_read_bytes.sum,l1tex__data_pipe_lsu_wavefronts.sum,Grid Size",
                ",2250000000,108500000,\"(8, 1, 1)\"", "--prefix 131072",
                TEXTS("work at least 2.6 nats", "placement 2.8 nats", "path: not known"), TEXTS("no effect"));
  /* memory binds the chip and the link an SM: wavefronts could only add */
  diagnosed_raw(",l1tex__m_xbar2l1tex_read_bytes.sum,Grid Size", ",500000000,\"(8, 1, 1)\"",
                "--prefix 131072",
                TEXTS("placement at least 2.1 nats", "work: not known", "serial: not known"),
                TEXTS("no effect"));
  /* without the L2's traffic nobody can tell: it may bind the chip */
  diagnosed_raw(
      ",l1tex__data_pipe_lsu_wavefronts.sum,Grid Size", ",108500000,\"(8, 1, 1)\"", "--prefix 131072",
      TEXTS("work at least 2.6 nats", "placement: not known", "serial: not known"), TEXTS("no effect"));
  /* nor can path and work show without the problem */
  diagnosed_raw(COUNTED ",Grid Size", ",2250000000,108500000,27000000,\"(1, 8, 1)\"", "",
                TEXTS("path: not known; work: not known", "The problem was not given"), TEXTS("no effect"));
  char *out;
  (void)text_file(
      "l.csv",
      "ID,Kernel Name,Grid Size,Metric Name,Metric Unit,Metric Value\n"
      "0,a,\"(8, 1, 1)\",Duration,us,\"20,454\"\n0,a,\"(8, 1, 1)\",dram__bytes_read.sum,Mbyte,152.1\n");
  CU_ASSERT_EQUAL(
      kv_run(&out, NULL,
             "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s diagnose --csv l.csv --gpu h200 --prefix 131072",
             kv_tmp(""), kv_program("roofline")),
      0);
  CU_ASSERT(strstr(out, "8 of 132 SMs get a block") && strstr(out, "placement: not known") &&
            !strstr(out, "no effect"));
  free(out);
}

/* split_per_head in models/measured/h200-verify-8.h5, whose measured ladder has the same T2: SMs read the same rows, so
 * the L2's rate is no bound of what they read. */
static void bytes_to_the_sms_are_the_links(void) {
  static const char csv[] =
      "ID,Kernel Name,gpu__time_duration.sum,dram__bytes_read.sum" COUNTED ",Grid Size\n,,us,Mbyte,Mbyte,,,\n"
      "0,k,196.6,157.9,1215.7,\"25,638,094\",\"8,915,072\",\"(132, 1, 1)\"\n";
  diagnosed(csv, "--prefix 131072", 0, "(most of it l1)");
  diagnosed(csv, "--prefix 131072", 0, " T2 98.");
}

/* 157000 wgmma are 41 GFLOP, and would be 0.64 as mma.sync: less than the problem has. */
static void other_matrix_instructions_are_told(void) {
  diagnosed_raw(COUNTED ",Grid Size", ",300000000,600000,157000,\"(132, 1, 1)\"", "--prefix 131072",
                TEXTS("0.643 GFLOP as mma.sync", "path: not known; work: not known"),
                TEXTS("best instructions", "no effect: path"));
}

/* A duration and counters that no kernel can have: the csv is of another problem, or GPU. */
static void the_impossible_is_told(void) {
  static const char head[] =
      "\"ID\",\"Kernel Name\",\"dram__bytes_read.sum\",\"gpu__time_duration.sum\"\n\"\",\"\",\"Mbyte\",\"usecond\"\n";
  char csv[500];
  (void)snprintf(csv, sizeof csv, "%s\"0\",\"k\",\"50\",\"20\"\n", head);
  diagnosed(csv, "--prefix 131072", 3, "faster than its floor (20 us, at least");
  diagnosed(csv, "--prefix 4096", 0, "above its floor");
  (void)snprintf(csv, sizeof csv, "%s\"0\",\"k\",\"5000\",\"100\"\n", head); /* 50 TB/s */
  diagnosed(csv, "--prefix 4096", 3, "more than twice the ceiling");
  diagnosed(csv, "", 3, "more than twice the ceiling");
  static const char more[] = "ID,Kernel Name,gpu__time_duration.sum,dram__bytes_read.sum,l1tex__m_xbar2l1tex_read_bytes.sum,"
                             "device__attribute_multiprocessor_count\n,,us,Mbyte,Mbyte,\n0,k,100,%s,%s,%s\n";
  (void)snprintf(csv, sizeof csv, more, "1.5", "3.1", "132");
  diagnosed(csv, "--prefix 131072", 3, "3.1 MB came to the SMs, but the rows of one request alone take 151");
  diagnosed(csv, "--prefix 2000", 0, "above its floor");
  (void)snprintf(csv, sizeof csv, more, "152", "160", "132");
  diagnosed(csv, "--prefix 131072", 0, "above its floor");
  (void)snprintf(csv, sizeof csv, more, "152", "160", "188");
  diagnosed(csv, "--prefix 131072", 3, "counted on a GPU of 188 SMs, while the one that --gpu names has 132");
}

/* The three kinds of datasets as reports; without gnuplot the program says so with status 5. */
/* The number that follows `text` in `in`; NaN where it is not there. */
static double after(const char *in, const char *text) {
  const char *at = strstr(in, text);
  return at ? strtod(at + strlen(text), NULL) : NAN;
}

/* The case study holds a time measured of Triton's kernel against the model of Triton's machine code. */
static void the_case_study_compares_like_with_like(void) {
  char *text = NULL;
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "sh '%s' '%s' '%s' '%s'", kv_source("notebooks-free-reports/case-study.sh"),
                         kv_program("roofline"), kv_source("models/measured"), kv_tmp("case")), 0);
  CU_ASSERT_EQUAL_FATAL(kv_run(&text, NULL, "cat '%s'", kv_tmp("case/case-study.md")), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "| NVIDIA H200 | sglang_extend_32x64, Triton's machine code for sm_90"));
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "| RTX PRO 6000 | sglang_extend_32x32_sm120, Triton's machine code for sm_120"));
  double modelled = after(text, "by that program: modelled "), measured = after(text, "the same kernel: ");
  CU_ASSERT_DOUBLE_EQUAL(modelled / measured, 1, 0.05);
  modelled = after(text, "of its own: modelled ");
  /* 32x64 is modelled 8 to 11 % too fast (models/README.md) */
  CU_ASSERT_DOUBLE_EQUAL(modelled / after(strstr(text, "of its own: modelled "), "measured "), 1, 0.10);
  free(text);
}

static void each_dataset_has_its_report(void) {
  int drawn = kv_run(NULL, NULL, "command -v gnuplot") ? 5 : 0;
  CU_ASSERT_EQUAL(roofline("step --gpu sm_120 -q -o s.h5 >/dev/null"), 0);
  CU_ASSERT_EQUAL(roofline("validate -q -o v.h5 >/dev/null"), 0);
  dataset("before.h5", 1e-3, 0.99e-3, 1.01e-3, 4096);
  dataset("after.h5", 1.2e-3, 1.19e-3, 1.21e-3, 4096);
  CU_ASSERT_EQUAL(roofline("compare before.h5 after.h5 -q -o c.h5 >/dev/null"), 0);
  CU_ASSERT_EQUAL(roofline("report s.h5 -q -o pages"), drawn);
  CU_ASSERT_EQUAL(roofline("report v.h5 -q -o pages"), drawn);
  CU_ASSERT_EQUAL(roofline("report c.h5 -q -o pages"), drawn);
  CU_ASSERT_EQUAL(roofline("report"), 2);
  CU_ASSERT_EQUAL(roofline("report a b"), 2);
  if (drawn) return;
  CU_ASSERT_EQUAL(kv_run(NULL, NULL,
                         "cd %s/pages && test -s s-02-step.png && test -s v-02-validate.png && test -s "
                         "c-02-compare.png && test -s c.pdf",
                         kv_tmp("")),
                  0);
}

/* Every kernel has its panel, however many there are: six a page. */
static void a_step_shows_all_its_kernels(void) {
  kva_step_rest rest;
  kva_step_point p[7 * 2];
  const kva_step_labels labels = {"a_gpu", "modelled, uncalibrated", NULL, 61, 1};
  char *text = NULL;
  if (kv_run(NULL, NULL, "command -v gnuplot")) return;
  CU_ASSERT_EQUAL_FATAL(kva_step_read(text_file("parts", "moe 5\ngemm 2.5 10\n"), &rest, NULL), KV_OK);
  for (unsigned i = 0; i < 14; i++) {
    p[i] = (kva_step_point){.prefix = 4096u << (i % 2),
                            .attention = 1e-4 * (1 + i),
                            .low = 0.5e-4 * (1 + i),
                            .high = 2e-4 * (1 + i),
                            .floor = 1e-5};
    (void)snprintf(p[i].kernel, sizeof p[i].kernel, "kernel_%c", 'a' + (char)(i / 2));
    kva_step_sum(&p[i], 61, &rest, 1);
  }
  CU_ASSERT_EQUAL_FATAL(kva_step_write(p, 14, &rest, &labels, kv_tmp("seven.h5"), "test", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(roofline("report seven.h5 -q -o seven"), 0);
  CU_ASSERT_EQUAL(
      kv_run(NULL, NULL, "cd %s/seven && test -s seven-02-step.png && test -s seven-03-step-2.png",
             kv_tmp("")),
      0);
  CU_ASSERT_EQUAL(kv_run(&text, NULL, "cd %s/seven && ls | wc -l", kv_tmp("")), 0);
  CU_ASSERT_EQUAL(atoi(text), 4); /* and the first page, and the PDF */
  free(text);
  if (kv_run(&text, NULL, "pdftotext -layout %s/seven/seven.pdf -", kv_tmp("")) == 0) {
    for (char k = 'a'; k <= 'g'; k++) {
      const char name[] = {'k', 'e', 'r', 'n', 'e', 'l', '_', k, 0};
      CU_ASSERT_PTR_NOT_NULL(strstr(text, name));
    }
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "kernels 5 to 7 of 7"));
  }
  free(text);
}

void suite_decision_tools(void) {
  static const kv_test_case cases[] = {{"csv", csv_cells_are_cut},
                                       {"step", a_step_adds_up},
                                       {"profiles", profiles_become_components},
                                       {"told step", the_told_step_is_met},
                                       {"bounds", no_gain_goes_below_the_floor},
                                       {"bounds of a step", a_step_s_interval_keeps_the_floor},
                                       {"compare", slower_points_miss_the_bar},
                                       {"modelled intervals", modelled_points_keep_their_intervals},
                                       {"older bounds", bounds_of_older_files_are_no_times},
                                       {"ncu csv", an_ncu_csv_is_read_in_both_forms},
                                       {"verdict", the_verdict_is_not_latency},
                                       {"decimal commas", decimal_commas_are_refused},
                                       {"grid", a_grid_is_read_as_ncu_writes_it},
                                       {"not counted", what_is_not_counted_is_not_known},
                                       {"link", bytes_to_the_sms_are_the_links},
                                       {"wgmma", other_matrix_instructions_are_told},
                                       {"impossible", the_impossible_is_told},
                                       {"kernels of a step", a_step_shows_all_its_kernels},
                                       {"case study", the_case_study_compares_like_with_like},
                                       {"reports", each_dataset_has_its_report},
                                       {NULL, NULL}};
  kv_suite("decision_tools", cases);
}
