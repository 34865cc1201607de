/* Reports: made from small datasets of both kinds, written here as the programs write them. With
 * KVROOF_KEEP_REPORTS=DIR the reports of the larger ones are left in DIR, to be looked at. */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibration.h"
#include "kv_clean.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "kvr_text.h"
#include "report.h"
#include "report_fixture.h"

static const char *share(void) {
  return kv_source("notebooks-free-reports");
}

static bool has_gnuplot(void) {
  static int known = -1;
  if (known < 0) known = kv_run(NULL, NULL, "command -v gnuplot") == 0;
  return known == 1;
}

static unsigned long entries(const char *dir, const char *ending) {
  unsigned long n = 0;
  DIR *d = opendir(dir);
  const struct dirent *e;
  while (d && (e = readdir(d))) {
    size_t l = strlen(e->d_name), m = strlen(ending);
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    n += l >= m && !strcmp(e->d_name + l - m, ending);
  }
  if (d) (void)closedir(d);
  return n;
}

static bool begins_with(const char *path, const char *bytes, size_t n) {
  char head[16] = {0};
  FILE *f = fopen(path, "rb");
  size_t got = f ? fread(head, 1, n, f) : 0;
  if (f) (void)fclose(f);
  return got == n && !memcmp(head, bytes, n);
}

/* -1 where poppler-utils is not installed. */
static int pdf_pages(const char *pdf) {
  char *out;
  int pages = -1, status = kv_run(&out, NULL, "pdfinfo '%s'", pdf);
  const char *line = status == 0 ? strstr(out, "Pages:") : NULL;
  if (line) pages = atoi(line + 6);
  free(out);
  return status == 127 ? -1 : pages;
}

static char *pdf_text(const char *pdf) {
  char *out;
  if (kv_run(&out, NULL, "pdftotext -layout '%s' -", pdf) == 0) return out;
  free(out);
  return NULL;
}

static void expect_report(const char *dir, const char *name, const char *const *figures, int n) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s.pdf", dir, name);
  CU_ASSERT(begins_with(path, "%PDF-", 5));
  int pages = pdf_pages(path);
  CU_ASSERT(pages == -1 || pages == n);
  for (int i = 0; i < n; i++) {
    (void)snprintf(path, sizeof path, "%s/%s-%02d-%s.png", dir, name, i + 1, figures[i]);
    CU_ASSERT(begins_with(path, "\x89PNG\r\n\x1a\n", 8));
  }
  CU_ASSERT_EQUAL(entries(dir, ""), (unsigned long)n + 1);
}

static const char *const kvsim_figures[] = {"summary",    "pool",     "fragmentation", "run-lengths",
                                            "milestones", "pool-map", "overhead"};
static const char *const roofline_figures[] = {"summary", "roofline",  "levels", "bandwidth", "time",       "ladder",
                                               "fill",    "resources", "bytes",  "ceilings",  "description", "assumed"};
#define KVSIM_PAGES 7
#define ROOFLINE_PAGES 12

static void expect_named_when_gone(const char *file, const char *dataset);
static void replace_column(const char *file, const char *name, uint64_t n, double value);

static kv_status report(const char *dataset, const char *dir, kv_error *err) {
  kv_status st = kvr_report(dataset, dir, share(), NULL, err);
  if (st) fprintf(stderr, "  [%s]\n", err->text);
  return st;
}

static void keep(const char *dataset, const char *name) {
  const char *dir = getenv("KVROOF_KEEP_REPORTS");
  kvr_options o = {.name = name};
  if (dir && *dir) (void)kvr_report(dataset, dir, share(), &o, NULL);
}

static void a_pool_replay_gives_all_its_pages(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("busy.kvsim.h5"), *dir = kv_tmp("busy");
  const fixture_kvsim f = {.pool = 262144, .requests = 48, .steps = 2000, .seed = 1};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "busy.kvsim", kvsim_figures, KVSIM_PAGES);
  char *text = pdf_text(kv_tmp("busy/busy.kvsim.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "requests become scattered")); /* the verdict */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, FIXTURE_SHA));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "recorded trace, replayed"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "scheduler step"));
  }
  free(text);
  keep(file, "kvsim");
}

static void the_same_file_gives_the_same_bytes(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("same.h5"), *a = kv_tmp("same-a"), *b = kv_tmp("same-b");
  const fixture_kvsim f = {.pool = 4096, .requests = 6, .steps = 80, .seed = 2};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL(report(file, a, &err), KV_OK);
  (void)sleep(1); /* so that a clock in the output would show */
  CU_ASSERT_EQUAL(report(file, b, &err), KV_OK);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "diff -r '%s' '%s'", a, b), 0);
}

static void nothing_to_draw_is_said_on_valid_pages(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("none.h5"), *dir = kv_tmp("none");
  const fixture_kvsim f = {.pool = 1024, .requests = 0, .steps = 0, .seed = 3};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "none", kvsim_figures, KVSIM_PAGES);
  char *text = pdf_text(kv_tmp("none/none.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "holds no sampled step"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "No request reached 1,024 rows"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "holds no milestone"));
  }
  free(text);
  keep(file, "kvsim-none");
}

static void one_step_is_enough(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("one.h5"), *dir = kv_tmp("one");
  const fixture_kvsim f = {.pool = 5000, .requests = 1, .steps = 1, .seed = 4};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "one", kvsim_figures, KVSIM_PAGES);
  keep(file, "kvsim-one");
}

static void names_may_hold_blanks_quotes_and_markup(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("it's \"a\" {b}_c `d` $e ''\\''.h5"), *dir = kv_tmp("out put's");
  const fixture_kvsim f = {.pool = 2048, .requests = 4, .steps = 40, .seed = 5};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "it's \"a\" {b}_c `d` $e ''\\''", kvsim_figures, KVSIM_PAGES);
}

static void a_measured_roofline_gives_all_its_pages(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("h200.h5"), *dir = kv_tmp("h200");
  const fixture_roofline f = {.kernels = 4, .layouts = 2, .prefixes = 5, .measured = true, .modelled = true};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "h200", roofline_figures, ROOFLINE_PAGES);
  char *text = pdf_text(kv_tmp("h200/h200.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "extend_serial"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "measured"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "dram_row_bytes")); /* a missing description value is named */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "tlb_reach = 68719476736 (4294967296 to 137438953472) B: no public source found; between 4 GiB"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "6 values: 3 known, 1 assumed (guesses), 2 missing"));
    CU_ASSERT_PTR_NULL(strstr(text, "Nothing was filled in"));
  }
  free(text);
  keep(file, "roofline-measured");
}

static void a_falling_ladder_is_called_out(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("falling.h5"), *dir = kv_tmp("falling");
  const fixture_roofline f = {.kernels = 2, .layouts = 1, .prefixes = 2, .measured = true, .falling = true};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(file, dir, &err), KV_OK);
  char *text = pdf_text(kv_tmp("falling/falling.pdf"));
  if (text) CU_ASSERT_PTR_NOT_NULL(strstr(text, "placement x0.50 (below 1: check)"));
  free(text);
}

static void a_modelled_roofline_says_so(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const char *file = kv_tmp("sm120.h5"), *dir = kv_tmp("sm120");
  const fixture_roofline f = {.kernels = 7, .layouts = 1, .prefixes = 8};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(file, dir, &err), KV_OK);
  expect_report(dir, "sm120", roofline_figures, ROOFLINE_PAGES);
  char *text = pdf_text(kv_tmp("sm120/sm120.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "modelled, uncalibrated"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "no kernel was run"));
  }
  free(text);
  keep(file, "roofline-modelled");
}

/* Kernels that have a bound and no time: marked as such, and neither the slowest, nor the nearest to a roof,
 * nor without gain. `older`: the bound stands in `time`, as it once did. */
static void expect_bounds(bool older) {
  kv_error err = {0};
  const fixture_roofline f = {.kernels = 3, .layouts = 1, .prefixes = 3, .modelled = true};
  const char *file = kv_tmp("bounded.h5");
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  const double ms = 1e-3, b = 30e-3; /* of the first kernel a bound above all times */
  const double time[9] = {NAN, NAN, NAN, ms, ms, ms, ms, 2 * ms, 3 * ms},
               older_time[9] = {b, b, b, ms, ms, ms, ms, 2 * ms, 3 * ms},
               bound[9] = {b, b, b, NAN, NAN, NAN, NAN, NAN, NAN};
  CU_ASSERT(H5Ldelete(h, "points/time", H5P_DEFAULT) >= 0 && H5Ldelete(h, "points/t7", H5P_DEFAULT) >= 0);
  CU_ASSERT_EQUAL(kv_h5_write(h, "points/time", H5T_IEEE_F64LE, 9, older ? older_time : time, "s", "x",
                              KV_H5_SMALL, NULL),
                  KV_OK);
  CU_ASSERT_EQUAL(kv_h5_write(h, "points/t7", H5T_IEEE_F64LE, 9, time, "s", "x", KV_H5_SMALL, NULL), KV_OK);
  if (!older)
    CU_ASSERT_EQUAL(
        kv_h5_write(h, "points/time_at_least", H5T_IEEE_F64LE, 9, bound, "s", "x", KV_H5_SMALL, NULL), KV_OK);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("bounded"), &err), KV_OK);
  char *text = pdf_text(kv_tmp("bounded/bounded.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "6 with a modelled one, 3 with a lower bound only"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "extend_serial: bounds only, which are no prediction"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "bound: at least 30.0 ms"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "bound, not a time"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "slowest split_verify, 3.00 ms"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "No time, so not here: extend_serial."));
    CU_ASSERT_PTR_NULL(strstr(text, "Nearest to a roof: extend_serial"));
  }
  free(text);
  if (!older) keep(file, "roofline-bounded");
}

static void bounds_are_no_predictions(void) {
  if (!has_gnuplot()) return;
  expect_bounds(false);
  expect_bounds(true);
}

static void a_roofline_without_points_or_ceilings_is_valid(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const fixture_roofline none = {.kernels = 0, .layouts = 0, .prefixes = 0, .no_ceilings = true};
  const fixture_roofline one = {.kernels = 1, .layouts = 1, .prefixes = 1};
  const fixture_roofline bare = {
      .kernels = 3, .layouts = 1, .prefixes = 4, .measured = true, .no_ceilings = true};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(kv_tmp("r-none.h5"), &none), KV_OK);
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(kv_tmp("r-one.h5"), &one), KV_OK);
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(kv_tmp("r-bare.h5"), &bare), KV_OK);
  CU_ASSERT_EQUAL(report(kv_tmp("r-none.h5"), kv_tmp("r-none"), &err), KV_OK);
  expect_report(kv_tmp("r-none"), "r-none", roofline_figures, ROOFLINE_PAGES);
  CU_ASSERT_EQUAL(report(kv_tmp("r-one.h5"), kv_tmp("r-one"), &err), KV_OK);
  expect_report(kv_tmp("r-one"), "r-one", roofline_figures, ROOFLINE_PAGES);
  CU_ASSERT_EQUAL(report(kv_tmp("r-bare.h5"), kv_tmp("r-bare"), &err), KV_OK);
  char *text = pdf_text(kv_tmp("r-none/r-none.pdf"));
  if (text) CU_ASSERT_PTR_NOT_NULL(strstr(text, "holds no point"));
  free(text);
  keep(kv_tmp("r-none.h5"), "roofline-none");
  keep(kv_tmp("r-one.h5"), "roofline-one");
  keep(kv_tmp("r-bare.h5"), "roofline-bare");
}

static void add_column(const char *file, const char *name, uint64_t n, double first, double step) {
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  double *v = calloc(n + 1, sizeof *v);
  CU_ASSERT_FATAL(h >= 0 && v);
  for (uint64_t i = 0; i < n; i++) v[i] = first + step * (double)i;
  CU_ASSERT_EQUAL(kv_h5_write(h, name, H5T_IEEE_F64LE, n, v, "1", name, KV_H5_SMALL, NULL), KV_OK);
  free(v);
  (void)H5Fclose(h);
}

/* Columns that only some files have give a page each; cut to another length they are refused. */
static void clocks_and_gains_have_pages(void) {
  static const char *const figures[] = {"summary", "roofline",  "levels", "bandwidth", "time",     "ladder",     "gains",
                                        "fill",    "resources", "bytes",  "clocks",    "ceilings", "description", "assumed"};
  static const char *const causes[] = {"path", "work", "scatter", "placement", "serial", "memory", "overhead"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], name[80];
  strcpy(file, kv_tmp("clocks.h5"));
  const fixture_roofline f = {.kernels = 2, .layouts = 2, .prefixes = 4, .measured = true, .modelled = true};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  add_column(file, "points/sm_clock", 16, 1980, -10);
  add_column(file, "points/memory_clock", 16, 3201, 0);
  add_column(file, "points/power", 16, 100, 20);
  add_column(file, "points/temperature", 16, 0, 0); /* not told */
  add_column(file, "points/throttled", 16, 1, 0);
  for (size_t c = 0; c < 7; c++)
    for (size_t k = 0; k < 3; k++) {
      (void)snprintf(name, sizeof name, "points/gain_%s%s", causes[c], k == 0 ? "" : k == 1 ? "_low" : "_high");
      add_column(file, name, 16, (c == 4 ? NAN : 1 + (double)c) * (k == 0 ? 1 : k == 1 ? 0.9 : 1.1), 0);
    }
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("clocks"), &err), KV_OK);
  expect_report(kv_tmp("clocks"), "clocks", figures, 14);
  char *text = pdf_text(kv_tmp("clocks/clocks.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "SM clock 1830 to 1980 MHz, memory clock 3201 to 3201 MHz, power up to 400 W"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Throttled: 16"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "without overhead would take 1/7 of"));
  }
  free(text);
  keep(file, "roofline-clocks");
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT(h >= 0 && H5Ldelete(h, "points/gain_serial_low", H5P_DEFAULT) >= 0);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL(kvr_report(file, kv_tmp("clocks-2"), share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "points/gain_serial_low"));
}

/* The roof that is nearest may be the flat one; a card of several is named; layouts told apart by name need no batch. */
static void measured_beside_another_card(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], *text;
  strcpy(file, kv_tmp("pair.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-verify-64.h5"), file), 0);
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  CU_ASSERT_EQUAL(kv_h5_put_i64(h, "device", 1, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_put_i64(h, "devices_at_once", 2, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_put_str(h, "pci", "0000:00:07.0", NULL), KV_OK);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("pair"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("pair/pair.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "device 1, 0000:00:07.0, one of 2 measured at once"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "split_verify, 63 % of the matrix units'."));
    CU_ASSERT_PTR_NULL(strstr(text, "Driver, clocks")); /* clocks have a page of their own */
  }
  free(text);
}

/* T3 of one layout's points becomes unknown, as in files of the versions before. */
static void forget_t3(hid_t file, double layout) {
  double t3[256], its[256];
  hid_t d = H5Dopen2(file, "points/t3", H5P_DEFAULT), l = H5Dopen2(file, "points/layout", H5P_DEFAULT);
  hid_t space = H5Dget_space(d);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  CU_ASSERT_FATAL(d >= 0 && l >= 0 && n > 0 && n <= 256);
  CU_ASSERT(H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t3) >= 0);
  CU_ASSERT(H5Dread(l, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, its) >= 0);
  for (hssize_t i = 0; i < n; i++)
    if (its[i] == layout) t3[i] = NAN;
  CU_ASSERT(H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, t3) >= 0);
  (void)H5Sclose(space);
  (void)H5Dclose(d);
  (void)H5Dclose(l);
}

/* T2 to T5 of the serial kernels' points become half, as in files whose T4 did not know the wavefronts. */
static void forget_wavefronts(hid_t file) {
  static const char *const column[] = {"points/t2", "points/t3", "points/t4", "points/t5"};
  double v[256], kernel[256];
  hid_t k = H5Dopen2(file, "points/kernel", H5P_DEFAULT), space = H5Dget_space(k);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  CU_ASSERT_FATAL(k >= 0 && n > 0 && n <= 256);
  CU_ASSERT(H5Dread(k, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, kernel) >= 0);
  for (size_t c = 0; c < sizeof column / sizeof *column; c++) {
    hid_t d = H5Dopen2(file, column[c], H5P_DEFAULT);
    CU_ASSERT_FATAL(d >= 0 && H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    for (hssize_t i = 0; i < n; i++)
      if (kernel[i] < 2) v[i] /= 2;
    CU_ASSERT(H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
    (void)H5Dclose(d);
  }
  (void)H5Sclose(space);
  (void)H5Dclose(k);
}

/* A ladder whose T4 did not know the wavefronts is raised to what was counted. */
static void older_ladders_are_raised(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char verify[1024], *text;
  strcpy(verify, kv_tmp("older.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-verify-8.h5"), verify), 0);
  hid_t file = H5Fopen(verify, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  forget_wavefronts(file);
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL_FATAL(report(verify, kv_tmp("older"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("older/older.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "points raised to the L1 wavefronts that were counted"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "largest step is work, x25.4"));
  }
  free(text);
}

/* Measured runs: layouts side by side with intervals, resources, levels, fill, from files that this project measured. */
static void measured_runs_show_layouts_and_resources(void) {
  static const char *const figures[] = {"summary", "roofline",  "levels", "bandwidth", "time",     "layouts",    "ladder",
                                        "fill",    "resources", "bytes",  "clocks",    "ceilings", "description"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char aged[1024], verify[1024], *text;
  strcpy(aged, kv_tmp("aged.h5"));
  strcpy(verify, kv_tmp("verify.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-aged-8.h5"), aged), 0);
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-verify-8.h5"), verify), 0);
  CU_ASSERT_EQUAL_FATAL(report(aged, kv_tmp("aged"), &err), KV_OK);
  expect_report(kv_tmp("aged"), "aged", figures, 13);
  if ((text = pdf_text(kv_tmp("aged/aged.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "random at prefix 192,473, 1.039 (1.038"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "recorded: gather of the same slots by the calibration, measured")); /* T3 */
  }
  free(text);
  static const char *const sources[] = {"1 by definition", "gather of the same slots", "gathers",
                                        "none: aliased"};
  hid_t file = H5Fopen(aged, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT(H5Ldelete(file, "layouts/t3_source", H5P_DEFAULT) >= 0);
  forget_t3(file, 1); /* recorded */
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL_FATAL(report(aged, kv_tmp("aged"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("aged/aged.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "recorded: missing, as the file does not say"));
    /* no counter was read: bytes of the link are the structure's, and no mark of a measurement */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(1.66 GiB, by structure)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Link bytes of hollow marks by structure, not counted."));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Flops by structure; so are bytes of link and L1 where no counter was read."));
  }
  free(text);
  file = H5Fopen(aged, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT_EQUAL(kv_h5_write_strings(file, "layouts/t3_source", 4, sources, "x", NULL), KV_OK);
  (void)H5Fclose(file);
  CU_ASSERT_EQUAL_FATAL(report(aged, kv_tmp("aged"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("aged/aged.pdf"))))
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "recorded: gather of the same slots; random: gathers"));
  free(text);
  CU_ASSERT_EQUAL_FATAL(report(verify, kv_tmp("verify"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("verify/verify.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "16 of 20 points leaves 1 out"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "L1 by extend_serial_32x64, 58 %")); /* counted wavefronts of one SM */
    CU_ASSERT_PTR_NULL(strstr(text, "by structure")); /* all bytes shown were counted */
    CU_ASSERT_PTR_NULL(strstr(text, "raised to the L1 wavefronts")); /* its ladder has what was counted */
    /* counted: 39.486 GB at 33.4 TB/s are 1182 us of the chip, 25.4 floors */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "largest step is work, x25.4"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "keeps 8 of 132 SMs busy"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "split_verify, 53 % of the matrix units'"));
    CU_ASSERT_PTR_NULL(strstr(text, "contiguous: contiguous")); /* no layout file was read */
    /* the run on aliased slots takes 93.5 us: no time of reading 2.33 TB/s */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "split_verify 2.29 TB/s"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "189,440, random: fastest split_verify, 95.4 us"));
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "slowest extend_serial_32x32,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(measured, 754.7 times")); /* 35.1 ms */
    CU_ASSERT_PTR_NULL(strstr(text, "2.33 TB/s"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "20 runs on slots aliased to"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "128k")); /* a stretch of the clocks' page */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "split_verify is 2.05x"));
    CU_ASSERT_PTR_NULL(strstr(text, "no effect…")); /* the verdict's last sentence is not cut */
  }
  free(text);
  keep(aged, "roofline-aged");
  keep(verify, "roofline-verify");
  expect_named_when_gone(aged, "points/to_contiguous_low");
  replace_column(aged, "points/blocks", 3, 8);
  CU_ASSERT_EQUAL(kvr_report(aged, kv_tmp("aged-2"), share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "points/blocks"));
}

/* More latencies than the page has room for: the longest go, but not those that it cites. */
static void cited_latencies_stay(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024];
  const char *names[40];
  double seconds[40], cycles[40], points[40];
  strcpy(file, kv_tmp("many.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-ceilings.h5"), file), 0);
  for (int i = 0; i < 40; i++) {
    names[i] = i == 0 ? "latency_dram" : i < 3 ? "the_longest" : "short";
    seconds[i] = i == 0 ? 1 : i < 3 ? 0.5 : 1e-8;
    cycles[i] = points[i] = 0;
  }
  static const char *const columns[] = {"latencies/value", "latencies/low", "latencies/high", "latencies/cycles", "latencies/point"};
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  for (size_t c = 0; c < 5; c++) {
    CU_ASSERT(H5Ldelete(h, columns[c], H5P_DEFAULT) >= 0);
    CU_ASSERT_EQUAL(kv_h5_write(h, columns[c], H5T_IEEE_F64LE, 40, c < 3 ? seconds : c == 3 ? cycles : points, "s", "x", KV_H5_SMALL, NULL), KV_OK);
  }
  CU_ASSERT(H5Ldelete(h, "latencies/name", H5P_DEFAULT) >= 0 && H5Ldelete(h, "latencies/source", H5P_DEFAULT) >= 0);
  CU_ASSERT_EQUAL(kv_h5_write_strings(h, "latencies/name", 40, names, "x", NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_write_strings(h, "latencies/source", 40, names, "x", NULL), KV_OK);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("many"), &err), KV_OK);
  char *text = pdf_text(kv_tmp("many/many.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "36 of 40, the longest left out"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "latency_dram"));
    CU_ASSERT_PTR_NULL(strstr(text, "the_longest"));
  }
  free(text);
}

/* The model against measurement, drawn from what the program writes: every kernel with a prediction, and the gains. */
static void validation_shows_kernels_and_gains(void) {
  static const char *const figures[] = {"summary", "validate", "gains"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024];
  strcpy(file, kv_tmp("valid.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "'%s' validate -q -o '%s'", kv_program("roofline"), file), 0);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("valid"), &err), KV_OK);
  expect_report(kv_tmp("valid"), "valid", figures, 3);
  char *text = pdf_text(kv_tmp("valid/valid.pdf"));
  if (text) {
    CU_ASSERT(strstr(text, "sglang_extend_32x64") && strstr(text, "sglang_extend_32x32"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "points have no prediction"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "no prediction of planted_copy"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "shared reads: "));
    CU_ASSERT(strstr(text, "Predicted times are off by") && strstr(text, "gains of a fix are off by"));
    CU_ASSERT_PTR_NULL(strstr(text, "No verdict"));
  }
  free(text);
  keep(file, "validate");
  expect_named_when_gone(file, "gains/predicted");
  expect_named_when_gone(file, "gains/fix");
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT); /* an older file */
  CU_ASSERT(h >= 0 && H5Ldelete(h, "gains", H5P_DEFAULT) >= 0);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("valid-2"), &err), KV_OK);
  expect_report(kv_tmp("valid-2"), "valid", figures, 2);
}

/* Planted causes: judged, not judged, missed and modelled. */
static void planted_causes_have_a_page(void) {
  static const char *const figures[] = {"summary", "planted"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], *text;
  strcpy(file, kv_tmp("planted.h5"));
  CU_ASSERT_EQUAL_FATAL(report(kv_source("models/measured/h200-planted.h5"), kv_tmp("bare"), &err), KV_OK);
  expect_report(kv_tmp("bare"), "h200-planted", figures, 2);
  CU_ASSERT_EQUAL_FATAL(
      kv_run(NULL, NULL, "cd %s && env KVROOF_PROC_CARDS=/nonexistent %s selftest -q -o planted.h5 %s",
             kv_tmp(""), kv_program("roofline"), kv_source("models/measured/h200-planted.h5")),
      0);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("planted"), &err), KV_OK);
  expect_report(kv_tmp("planted"), "planted", figures, 2);
  if ((text = pdf_text(kv_tmp("planted/planted.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "All 7 planted causes are named"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "93.7 % (93.3 to 94.1)"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "exposed memory, named"));
    CU_ASSERT(strstr(text, "planted, measured") && strstr(text, "bar 90 %"));
  }
  free(text);
  keep(file, "planted");
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  hid_t d = H5Dopen2(h, "judged/share", H5P_DEFAULT);
  double v[64];
  CU_ASSERT_FATAL(d >= 0 && H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  v[2] = 0.62;
  CU_ASSERT(H5Dwrite(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  (void)H5Dclose(d);
  CU_ASSERT_EQUAL(kv_h5_put_str(h, "status", "modelled, uncalibrated", NULL), KV_OK);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("missed"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("missed/planted.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(
        strstr(text, "1 of 7 planted causes are missed. The first, read_again: work explains 62.0 %"));
    CU_ASSERT(strstr(text, "planted, modelled") && !strstr(text, "planted, measured"));
  }
  free(text);
  keep(file, "planted-missed");
  expect_named_when_gone(file, "judged/share_low");
}

static void planted_causes_not_judged_say_so(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], *text;
  strcpy(file, kv_tmp("not-judged.h5"));
  CU_ASSERT_EQUAL_FATAL(
      kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-planted.h5"), file), 0);
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  if (H5Lexists(h, "judged", H5P_DEFAULT) > 0) CU_ASSERT(H5Ldelete(h, "judged", H5P_DEFAULT) >= 0);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("not-judged"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("not-judged/not-judged.pdf")))) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "7 causes were planted. This file was not judged"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "planted: exposed memory"));
    CU_ASSERT_PTR_NULL(strstr(text, ", named"));
  }
  free(text);
  keep(file, "planted-not-judged");
}

/* First pages say what the second finds; a comparison names both sides. */
static void covers_say_what_is_found(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char step[1024], ratio[1024], *text;
  strcpy(step, kv_tmp("steps.h5"));
  strcpy(ratio, kv_tmp("ratio.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "'%s' step --gpu sm_120 --prefix 131072 -q -o '%s'", kv_program("roofline"), step), 0);
  const char *measured = kv_source("models/measured");
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "'%s' compare '%s/h200-verify-8.h5' '%s/h200-as-sm120-8.h5' -q -o '%s'", kv_program("roofline"),
                               measured, measured, ratio), 0);
  CU_ASSERT_EQUAL_FATAL(report(step, kv_tmp("steps"), &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(ratio, kv_tmp("ratio"), &err), KV_OK);
  if ((text = pdf_text(kv_tmp("steps/steps.pdf"))))
    CU_ASSERT(strstr(text, "128k") && !strstr(text, "125k") && !strstr(text, "No verdict") && strstr(text, "At 131,072 tokens of context"));
  free(text);
  if ((text = pdf_text(kv_tmp("ratio/ratio.pdf"))))
    CU_ASSERT(strstr(text, "Before") && strstr(text, "After  ") && !strstr(text, "No verdict") && strstr(text, "15 slower"));
  free(text);
  keep(step, "step");
  keep(ratio, "compare");
}

static const char *const whatif_figures[] = {"summary", "policies", "costs", "over-time", "lengths", "pool"};
#define WHATIF_PAGES 6

static void policies_are_drawn_side_by_side(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const fixture_whatif f = {.policies = 6, .gpus = 2, .samples = 2000};
  CU_ASSERT_EQUAL_FATAL(fixture_whatif_write(kv_tmp("whatif.h5"), &f), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(kv_tmp("whatif.h5"), kv_tmp("whatif"), &err), KV_OK);
  expect_report(kv_tmp("whatif"), "whatif", whatif_figures, WHATIF_PAGES);
  char *text = pdf_text(kv_tmp("whatif/whatif.pdf"));
  if (text) {
    /* saved 0.05 p s, paid 0.02 p^2 s: 1 and 2 gain, 1 without effect by its verdict, 3 and 4 do not, 5 is the bound */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 of 4 policies have paid"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "above the line by less, which is no effect: 1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Most gained: fifo, 0.0300 s of 2.000 s"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "-0.1200 s")); /* relocate-full: 0.20 - 0.32 */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "break-even"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "no kernel was run"));
  }
  free(text);
  keep(kv_tmp("whatif.h5"), "whatif");
}

static void an_audit_gives_its_map(void) {
  static const char *const figures[] = {"summary", "map", "families"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  CU_ASSERT_EQUAL_FATAL(fixture_audit_write(kv_tmp("audit.h5"), true), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(kv_tmp("audit.h5"), kv_tmp("audit"), &err), KV_OK);
  expect_report(kv_tmp("audit"), "audit", figures, 3);
  char *text = pdf_text(kv_tmp("audit/audit.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "1 of 2 families of kernels"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "10 of 12")); /* 9 + 1 of 9 + 1 + 1 + 1 */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "2 cells run natively, 1 with code compiled at load, 1 in part (the cell says"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "machine code only for sm_90a; no PTX"));
    CU_ASSERT_PTR_NULL(strstr(text, "machine code for sm_120")); /* the family that runs is not listed */
  }
  free(text);
  keep(kv_tmp("audit.h5"), "audit");
  CU_ASSERT_EQUAL_FATAL(fixture_audit_write(kv_tmp("audit-all.h5"), false), KV_OK);
  CU_ASSERT_EQUAL(report(kv_tmp("audit-all.h5"), kv_tmp("audit-all"), &err), KV_OK);
  expect_report(kv_tmp("audit-all"), "audit-all", figures, 3);
}

/* More families than a page holds go on; files of one name are told apart by their folder; large shares are percent. */
static void many_families_take_more_pages(void) {
  static const char *const figures[] = {"summary", "map", "families", "families-2", "families-3"};
  if (!has_gnuplot()) return;
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' audit '%s' --gpu sm_120 -q -o many.h5 && '%s' report many.h5 -q -o many", kv_tmp("."),
                               kv_program("roofline"), kv_source("tests/golden/audit"), kv_program("roofline")), 0);
  expect_report(kv_tmp("many"), "many", figures, 5);
  char *text = pdf_text(kv_tmp("many/many.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "pkg/plain.fatbin"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "audit/plain.fatbin"));
    CU_ASSERT_PTR_NULL(strstr(text, "the rest is in /families"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "the GPU has 101376")); /* a reason to its end */
  }
  free(text);
}

static const char *const calibration_figures[] = {"summary",   "ceilings",  "latencies", "loaded",
                                                  "scatter", "footprint", "in-flight", "clocks"};
#define CALIBRATION_PAGES 8

static void a_calibration_gives_all_its_pages(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], empty[1024];
  strcpy(file, kv_tmp("ceilings.h5"));
  strcpy(empty, kv_tmp("no-ceilings.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-ceilings.h5"), file), 0);
  CU_ASSERT_EQUAL_FATAL(report(file, kv_tmp("ceilings"), &err), KV_OK);
  expect_report(kv_tmp("ceilings"), "ceilings", calibration_figures, CALIBRATION_PAGES);
  char *text = pdf_text(kv_tmp("ceilings/ceilings.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "DRAM 4.71 TB/s, L2 8.99 TB/s"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "1.024 times the time of contiguous ones"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "12.1 KiB in flight on each of 132 SMs")); /* 4.71e12 x 347e-9 / 132 */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "Throttled: 0 of 434 points"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "The memory model is off by"));
    /* all that the page of latencies cites, and the longest */
    CU_ASSERT(strstr(text, "latency_l2") && strstr(text, "latency_dram") && strstr(text, "launch_graph_node"));
    CU_ASSERT(strstr(text, "launch_eager") && strstr(text, "launch_sync") && !strstr(text, "left out"));
  }
  free(text);
  keep(file, "calibration");
  expect_named_when_gone(file, "microbenchmarks/footprint");
  expect_named_when_gone(file, "ceilings/low");
  expect_named_when_gone(file, "latencies/source");
  kva_calibration none = {.origin = {.power_limit = NAN}}; /* a run that broke off at once */
  (void)snprintf(none.failure, sizeof none.failure, "the device is lost");
  CU_ASSERT_EQUAL_FATAL(kva_calibration_write(&none, empty, "x", NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(report(empty, kv_tmp("no-ceilings"), &err), KV_OK);
  expect_report(kv_tmp("no-ceilings"), "no-ceilings", calibration_figures, CALIBRATION_PAGES);
  text = pdf_text(kv_tmp("no-ceilings/no-ceilings.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "No ceiling was measured"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "the device is lost"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "holds no latency"));
  }
  free(text);
}

/* A sweep as the program writes it. */
static void a_sweep_gives_its_pages(void) {
  static const char *const figures[] = {"summary", "net", "costs", "pools"};
  if (!has_gnuplot()) return;
  char file[1024];
  strcpy(file, kv_tmp("swept.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' sweep '%s' -g h200,sm_120 -p fifo,compact,pages-64 --pool 256Ki,384Ki,1Mi -q -o swept.h5",
                               kv_tmp("."), kv_program("kvsim"), kv_source("traces/samples/single_long_eagle.h5")), 0);
  expect_report(kv_tmp("swept.report"), "swept", figures, 4);
  char *text = pdf_text(kv_tmp("swept.report/swept.pdf"));
  if (text) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "4 policies and 3 pool sizes"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "0 of 18 pay (0 find no room)")); /* 3 policies, 3 pools, 2 GPUs */
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "384Ki"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "break-even"));
  }
  free(text);
  keep(file, "sweep");
  static const char *const needed[] = {"policies/pool", "costs/net", "costs/verdict", "gpus/name"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) expect_named_when_gone(file, needed[i]);
}

/* Two traces of different pools. The paged policies cut the second one's to whole pages, which is no column of its own. */
static void a_sweep_of_two_traces_gives_its_pages(void) {
  static const char *const figures[] = {"summary", "net", "costs", "pools"};
  if (!has_gnuplot()) return;
  kv_error err = {0};
  char file[1024], first[1024];
  strcpy(file, kv_tmp("swept-2.h5"));
  strcpy(first, kv_source("traces/samples/single_long_eagle.h5"));
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' sweep '%s' '%s' -g h200,sm_120 -p fifo,pages-16,pages-32,pages-64 -q -o swept-2.h5", kv_tmp("."),
                               kv_program("kvsim"), first, kv_source("traces/samples/vllm_eagle.h5")), 0);
  expect_report(kv_tmp("swept-2.report"), "swept-2", figures, 4);
  char *text = pdf_text(kv_tmp("swept-2.report/swept-2.pdf"));
  if (text) {
    CU_ASSERT(strstr(text, "2 traces") && strstr(text, "Trace 1") && strstr(text, "Trace 2") && strstr(text, "vllm_eagle.h5"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "2 pairs of trace and pool size"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "of 16 pay (4 find no room)")); /* 4 policies, 2 traces, 2 GPUs */
    CU_ASSERT(strstr(text, "1: 1Mi") && strstr(text, "2: 3.73Ki") && !strstr(text, "2: 3.72Ki") && !strstr(text, "2: 3.69Ki"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "(first trace)."));
    CU_ASSERT_PTR_NULL(strstr(text, ".."));
  }
  free(text);
  keep(file, "sweep-traces");
  expect_named_when_gone(file, "traces/name");
  replace_column(file, "policies/trace", 10, 2);
  CU_ASSERT_EQUAL(kvr_report(file, kv_tmp("swept-3"), share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "policies/trace"));
}

static void no_policy_is_said_on_valid_pages(void) {
  if (!has_gnuplot()) return;
  kv_error err = {0};
  const fixture_whatif none = {0}, one = {.policies = 1, .gpus = 1, .samples = 1};
  CU_ASSERT_EQUAL_FATAL(fixture_whatif_write(kv_tmp("w-none.h5"), &none), KV_OK);
  CU_ASSERT_EQUAL(report(kv_tmp("w-none.h5"), kv_tmp("w-none"), &err), KV_OK);
  expect_report(kv_tmp("w-none"), "w-none", whatif_figures, WHATIF_PAGES);
  char *text = pdf_text(kv_tmp("w-none/w-none.pdf"));
  if (text) CU_ASSERT_PTR_NOT_NULL(strstr(text, "holds no policy"));
  free(text);
  CU_ASSERT_EQUAL_FATAL(fixture_whatif_write(kv_tmp("w-one.h5"), &one), KV_OK);
  CU_ASSERT_EQUAL(report(kv_tmp("w-one.h5"), kv_tmp("w-one"), &err), KV_OK);
  expect_report(kv_tmp("w-one"), "w-one", whatif_figures, WHATIF_PAGES);
}

/* ---- what goes wrong ---- */

static void small_dataset(const char *file) {
  const fixture_kvsim f = {.pool = 512, .requests = 2, .steps = 10, .seed = 6};
  CU_ASSERT_EQUAL_FATAL(fixture_kvsim_write(file, &f), KV_OK);
}

static void a_missing_gnuplot_names_the_package(void) {
  kv_error err = {0};
  const char *file = kv_tmp("nogp.h5"), *dir = kv_tmp("nogp");
  small_dataset(file);
  char *path = strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
  CU_ASSERT_EQUAL(setenv("PATH", kv_tmp("no-such-folder"), 1), 0);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(setenv("PATH", path, 1), 0);
  free(path);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "gnuplot-nox"));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
}

static const char *fake_gnuplot(const char *name, const char *body) {
  const char *path = kv_tmp(name);
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fprintf(f, "#!/bin/sh\n%s\n", body);
  (void)fclose(f);
  CU_ASSERT_EQUAL(chmod(path, 0755), 0);
  return path;
}

static void a_failing_gnuplot_is_quoted(void) {
  kv_error err = {0};
  const char *file = kv_tmp("fail.h5"), *dir = kv_tmp("fail");
  small_dataset(file);
  kvr_options o = {.gnuplot = fake_gnuplot("gp-fails",
                                           "echo first >&2; echo 'line 12: undefined variable: X' >&2; "
                                           "echo >&2; exit 3")};
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "undefined variable: X"));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "status 3"));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
  o.gnuplot = fake_gnuplot("gp-lies", "exit 0");
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "report.pdf"));
  o.gnuplot = fake_gnuplot("gp-fills-the-disk", "gnuplot \"$@\" && truncate -s -9 page-03.png");
  if (has_gnuplot()) {
    CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "page-03.png"));
  }
  o.gnuplot = fake_gnuplot("gp-dies", "kill -SEGV $$");
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "signal 11"));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
}

static void a_hanging_gnuplot_is_stopped(void) {
  kv_error err = {0};
  const char *file = kv_tmp("hang.h5"), *dir = kv_tmp("hang");
  small_dataset(file);
  kvr_options o = {.gnuplot = fake_gnuplot("gp-hangs", "echo busy >&2; exec sleep 60"), .time_limit = 0.3};
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "stopped after 0.3 s"));
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "busy"));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
}

/* A signal while gnuplot draws: a folder that the report made goes with it, one that was there stays with what it holds. */
static void an_interrupted_report_leaves_no_folder(void) {
  kv_error err = {0};
  char file[1024], fresh[1024], old[1024], kept[1024];
  strcpy(file, kv_tmp("cut-short.h5"));
  strcpy(fresh, kv_tmp("cut-short"));
  strcpy(old, kv_tmp("cut-old"));
  strcpy(kept, kv_tmp("cut-old/kept.txt"));
  small_dataset(file);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "mkdir '%s' && echo x >'%s'", old, kept), 0);
  kvr_options o = {.gnuplot = fake_gnuplot("gp-interrupts", "kill -TERM $PPID; exec sleep 60")};
  for (int i = 0; i < 2; i++) {
    int status = 0;
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
      kv_clean_on_signals();
      (void)kvr_report(file, i ? old : fresh, share(), &o, &err);
      _exit(0);
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  }
  CU_ASSERT_NOT_EQUAL(access(fresh, F_OK), 0);
  CU_ASSERT_EQUAL(access(kept, F_OK), 0);
  CU_ASSERT_EQUAL(entries(old, ""), 1);
}

static void empty_columns_are_named(void) {
  kv_error err = {0};
  const char *file = kv_tmp("hollow.h5"), *dir = kv_tmp("hollow");
  const fixture_roofline f = {.kernels = 2, .layouts = 1, .prefixes = 0};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &f), KV_OK);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT(strstr(err.text, "hollow.h5") && strstr(err.text, "'/points' are empty"));
  CU_ASSERT_NOT_EQUAL(access(dir, F_OK), 0);
}

static void an_old_report_survives_a_failure(void) {
  kv_error err = {0};
  const char *file = kv_tmp("old.h5"), *dir = kv_tmp("old");
  small_dataset(file);
  CU_ASSERT_EQUAL(mkdir(dir, 0755), 0);
  FILE *f = fopen(kv_tmp("old/old.pdf"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("%PDF-old", f);
  (void)fclose(f);
  kvr_options o = {.gnuplot = fake_gnuplot("gp-fails-2", "echo half >report.pdf; exit 1")};
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), &o, &err), KV_ERR_IO);
  CU_ASSERT(begins_with(kv_tmp("old/old.pdf"), "%PDF-old", 8));
  CU_ASSERT_EQUAL(entries(dir, ""), 1);
}

static void folders_that_cannot_be_written_are_named(void) {
  kv_error err = {0};
  const char *file = kv_tmp("dirs.h5");
  small_dataset(file);
  CU_ASSERT_EQUAL(kvr_report(file, "/dev/null/x", share(), NULL, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/dev/null/x"));
  CU_ASSERT_EQUAL(kvr_report(file, file, share(), NULL, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(kvr_report(file, "", share(), NULL, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kvr_report(file, "/proc", share(), NULL, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(kvr_report(file, kv_tmp("dirs"), "/no/such/share", NULL, &err), KV_ERR_IO);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "/no/such/share"));
  kvr_options o = {.name = "a/b"};
  CU_ASSERT_EQUAL(kvr_report(file, kv_tmp("dirs"), share(), &o, &err), KV_ERR_USAGE);
}

static void other_files_are_refused(void) {
  kv_error err = {0};
  const char *dir = kv_tmp("other");
  CU_ASSERT_EQUAL(kvr_report(kv_tmp("no-such.h5"), dir, share(), NULL, &err), KV_ERR_IO);
  FILE *f = fopen(kv_tmp("text.h5"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fputs("not HDF5\n", f);
  (void)fclose(f);
  CU_ASSERT_EQUAL(kvr_report(kv_tmp("text.h5"), dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "text.h5"));
  kv_h5_out out;
  CU_ASSERT_EQUAL_FATAL(kv_h5_create(kv_tmp("trace.h5"), "kvtrace-1", "test", "", &out, NULL), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kv_h5_commit(&out, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvr_report(kv_tmp("trace.h5"), dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "kvtrace-1"));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
}

/* Each dataset in turn is taken out of a good file: the message names it, nothing is left behind. */
static void expect_named_when_gone(const char *file, const char *dataset) {
  kv_error err = {0};
  const char *copy = kv_tmp("gone.h5"), *dir = kv_tmp("gone");
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", file, copy), 0);
  hid_t h = H5Fopen(copy, H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(h >= 0);
  CU_ASSERT(H5Ldelete(h, dataset, H5P_DEFAULT) >= 0);
  (void)H5Fclose(h);
  CU_ASSERT_EQUAL(kvr_report(copy, dir, share(), NULL, &err), KV_ERR_INPUT);
  if (!strstr(err.text, dataset)) fprintf(stderr, "  [%s: %s]\n", dataset, err.text);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, dataset));
  CU_ASSERT_EQUAL(entries(dir, ""), 0);
}

static void a_missing_dataset_is_named(void) {
  static const char *const kvsim[] = {"pool/live",           "pool/mean_run",    "scattered/indptr",
                                      "scattered/run_count", "milestones/event", "milestones/rows",
                                      "final/slot_state",    "final/slot_owner", "samples/tlb_pages"};
  static const char *const roofline[] = {"points/prefix", "points/measured", "points/t2", "kernels/name",
                                         "layouts/name",  "ceilings/value",  "gpu/kind",  "gpu/source", "resources/name"};
  static const char *const whatif[] = {"policies/mean_run", "policies/name", "costs/net", "costs/verdict",
                                       "series/waste", "run_lengths/runs", "map/idle", "kernels/bound", "gpus/name"};
  char a[1024], b[1024], c[1024]; /* kv_tmp's texts live for 16 calls */
  const fixture_roofline r = {.kernels = 2, .layouts = 1, .prefixes = 2};
  const fixture_whatif w = {.policies = 3, .gpus = 1, .samples = 4};
  strcpy(a, kv_tmp("whole.h5"));
  strcpy(c, kv_tmp("whole-w.h5"));
  CU_ASSERT_EQUAL_FATAL(fixture_whatif_write(c, &w), KV_OK);
  strcpy(b, kv_tmp("whole-r.h5"));
  small_dataset(a);
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(b, &r), KV_OK);
  for (size_t i = 0; i < sizeof kvsim / sizeof *kvsim; i++) expect_named_when_gone(a, kvsim[i]);
  for (size_t i = 0; i < sizeof roofline / sizeof *roofline; i++) expect_named_when_gone(b, roofline[i]);
  static const char *const audit[] = {"files/name", "map/jit", "families/why", "families/too_large"};
  CU_ASSERT_EQUAL_FATAL(fixture_audit_write(kv_tmp("whole-a.h5"), true), KV_OK);
  for (size_t i = 0; i < sizeof audit / sizeof *audit; i++) expect_named_when_gone(kv_tmp("whole-a.h5"), audit[i]);
  for (size_t i = 0; i < sizeof whatif / sizeof *whatif; i++) expect_named_when_gone(c, whatif[i]);
}

static void cut_files_are_refused(void) {
  kv_error err = {0};
  const char *file = kv_tmp("cut.h5"), *dir = kv_tmp("cut");
  struct stat sb;
  small_dataset(file);
  CU_ASSERT_EQUAL_FATAL(stat(file, &sb), 0);
  CU_ASSERT_EQUAL_FATAL(truncate(file, sb.st_size / 2), 0);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "cut.h5"));
}

static void replace_column(const char *file, const char *name, uint64_t n, double value) {
  hid_t h = H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT);
  double *v = calloc(n + 1, sizeof *v);
  CU_ASSERT_FATAL(h >= 0 && v);
  for (uint64_t i = 0; i < n; i++) v[i] = value;
  CU_ASSERT(H5Ldelete(h, name, H5P_DEFAULT) >= 0);
  CU_ASSERT_EQUAL(kv_h5_write(h, name, H5T_IEEE_F64LE, n, v, "1", name, KV_H5_SMALL, NULL), KV_OK);
  free(v);
  (void)H5Fclose(h);
}

static void columns_that_disagree_are_refused(void) {
  kv_error err = {0};
  const char *file = kv_tmp("odd.h5"), *dir = kv_tmp("odd");
  small_dataset(file);
  replace_column(file, "pool/live", 2, 1);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "pool/live"));
  small_dataset(file);
  replace_column(file, "final/slot_owner", 512, 1e12);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  small_dataset(file);
  replace_column(file, "scattered/indptr", 1, 5);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "scattered/indptr"));
  const fixture_roofline r = {.kernels = 2, .layouts = 1, .prefixes = 2};
  CU_ASSERT_EQUAL_FATAL(fixture_roofline_write(file, &r), KV_OK);
  replace_column(file, "points/kernel", 4, 99);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "points/kernel"));
  const fixture_whatif w = {.policies = 3, .gpus = 1, .samples = 4};
  CU_ASSERT_EQUAL_FATAL(fixture_whatif_write(file, &w), KV_OK);
  replace_column(file, "costs/policy", 3, 7);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "costs/policy"));
  CU_ASSERT_EQUAL_FATAL(fixture_audit_write(file, true), KV_OK);
  replace_column(file, "map/file", 6, 2);
  CU_ASSERT_EQUAL(kvr_report(file, dir, share(), NULL, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "map/file"));
}

static void names_come_from_the_file(void) {
  char name[32];
  kvr_report_name("/a/b.c/trace.kvsim.h5", name, sizeof name);
  CU_ASSERT_STRING_EQUAL(name, "trace.kvsim");
  kvr_report_name(".h5", name, sizeof name);
  CU_ASSERT_STRING_EQUAL(name, ".h5");
  kvr_report_name("x.hdf5", name, sizeof name);
  CU_ASSERT_STRING_EQUAL(name, "x");
}

/* ---- text ---- */

static void text_of_a_dataset_is_harmless(void) {
  char clean[64], quoted[64] = "";
  kvr_clean("a\tb\x01\xff\xc3\xa9\xed\xa0\x80|", clean, sizeof clean, false);
  CU_ASSERT_STRING_EQUAL(clean, "a b??\xc3\xa9???|");
  kvr_clean("\xc3\xa9\xc3\xa9", clean, 4, false); /* cut at a character, not within one */
  CU_ASSERT_STRING_EQUAL(clean, "\xc3\xa9");
  FILE *f = fmemopen(quoted, sizeof quoted, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  kvr_put_quoted(f, "it's\n`x`");
  (void)fclose(f);
  CU_ASSERT_STRING_EQUAL(quoted, "'it'.\"'\".'s'.\"\\n\".'`x`'");
}

static void lines_fit_their_width(void) {
  char out[400];
  CU_ASSERT_EQUAL(kvr_wrap("one two three four", 10, false, 60, 9, out, sizeof out), 2);
  CU_ASSERT_STRING_EQUAL(out, "one two\nthree four");
  CU_ASSERT_EQUAL(kvr_wrap("0123456789abcdef0123456789abcdef", 10, false, 100, 9, out, sizeof out), 2);
  CU_ASSERT_EQUAL(kvr_wrap("one two three four", 10, false, 60, 1, out, sizeof out), 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "…"));
  CU_ASSERT(kvr_width(out, 10, false) <= 60);
  CU_ASSERT_EQUAL(kvr_wrap("it is off by 8.1 % now", 10, false, kvr_width("it is off by 8.1", 10, false) + 2, 9, out, sizeof out), 2);
  CU_ASSERT_STRING_EQUAL(out, "it is off by\n8.1 % now"); /* a number and its % stay together */
  CU_ASSERT_EQUAL(kvr_wrap("", 10, false, 60, 3, out, sizeof out), 0);
  CU_ASSERT_STRING_EQUAL(out, "");
}

static void numbers_are_for_people(void) {
  CU_ASSERT_STRING_EQUAL(kvr_count(1048576).text, "1,048,576");
  CU_ASSERT_STRING_EQUAL(kvr_count(12345678).text, "12.3 M");
  CU_ASSERT_STRING_EQUAL(kvr_count(NAN).text, "unknown");
  CU_ASSERT_STRING_EQUAL(kvr_bytes(1152).text, "1,152 B");
  CU_ASSERT_STRING_EQUAL(kvr_bytes(1207959552).text, "1.12 GiB"); /* 1.125, ties to even */
  CU_ASSERT_STRING_EQUAL(kvr_si(4.45e12, "B/s").text, "4.45 TB/s");
  CU_ASSERT_STRING_EQUAL(kvr_time(0.0160).text, "16.0 ms");
  CU_ASSERT_STRING_EQUAL(kvr_time(44.5e-6).text, "44.5 us");
  CU_ASSERT_STRING_EQUAL(kvr_amount(16628).text, "16,600");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(4096).text, "4k");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(131072).text, "128k");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(1048576).text, "1M");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(128000).text, "128,000");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(512).text, "512");
  CU_ASSERT_STRING_EQUAL(kvr_tokens(0).text, "0");
  CU_ASSERT_STRING_EQUAL(kvr_amount(3.2567).text, "3.26");
}

/* ---- provenance ---- */

/* The text of the report's first page of a dataset that `roofline ARGUMENTS -o NAME.h5` wrote; "" without pdftotext. */
static char *first_page(const char *name, const char *arguments) {
  char *out = NULL;
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' %s -o %s.h5 && '%s' report %s.h5 -q -o %s", kv_tmp("."), kv_program("roofline"),
                               arguments, name, kv_program("roofline"), name, name), 0);
  if (kv_run(&out, NULL, "cd '%s' && pdftotext -layout -l 1 %s/%s.pdf -", kv_tmp("."), name, name)) {
    free(out);
    out = NULL;
  }
  return out;
}

static void expect(const char *text, const char *const *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    CU_ASSERT_PTR_NOT_NULL(strstr(text, words[i]));
    if (!strstr(text, words[i])) fprintf(stderr, "no '%s' in\n%s\n", words[i], text);
  }
}

/* Which kernels were run, by which programs the others were modelled, on whose calibration and memory. */
static void what_stands_behind_times_is_named(void) {
  static const char *const modelled[] = {"extend_serial by extend_serial_32x64, split_per_head by split_per_head_2, split_verify by split_verify_5",
                                         "(nvcc's machine code for", "Kernels run", "merge_state: bounds only", "h200-ceilings.h5",
                                         "memory: adapted to h200-ceilings.h5"},
                           *const published[] = {"sglang_extend_32x32_sm120 (Triton's machine code for sm_120)",
                                                 "none: ceilings and latencies as published", "memory: the described card"},
                           *const step[] = {"split_verify by split_verify_5", "h200-ceilings.h5", "no kernel was run"},
                           *const validated[] = {"split_verify by split_verify_5, extend_serial_32x64 by", "(nvcc's machine code for", "h200-verify-8.h5 (measured:",
                                                 "own microbenchmarks (h200-ceilings.h5)"};
  const struct {
    const char *name, *arguments;
    const char *const *words;
    size_t n;
  } page[] = {{"modelled", "--gpu h200 --no-report -q", modelled, sizeof modelled / sizeof *modelled},
              {"published", "--gpu sm_120 --no-report -q", published, sizeof published / sizeof *published},
              {"step", "step --gpu h200 --layers 61 --base-ms 8", step, sizeof step / sizeof *step},
              {"validated", NULL, validated, sizeof validated / sizeof *validated}};
  char validate[1200];
  if (!has_gnuplot()) return;
  (void)snprintf(validate, sizeof validate, "validate '%s'", kv_source("models/measured/h200-verify-8.h5"));
  for (size_t i = 0; i < sizeof page / sizeof *page; i++) {
    char *text = first_page(page[i].name, page[i].arguments ? page[i].arguments : validate);
    if (text) expect(text, page[i].words, page[i].n);
    free(text);
  }
}

/* The cost of scatter on each GPU, and of a token computed again; a calibration's card beside its description. */
static void prices_say_whose_they_are(void) {
  static const char *const priced[] = {"h200_sxm: modelled: memory model", "adapted to h200-ceilings.h5", "rtx_pro_6000_blackwell_ws:",
                                       "50.0 us to compute (assumed)"},
                           *const card[] = {"Card's memory", "latency 347.8 ns (described 333)", "act_bus"};
  if (!has_gnuplot()) return;
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' whatif '%s' --policy fifo --gpu h200,sm_120 -q -o priced.h5 --report priced", kv_tmp("."),
                               kv_program("kvsim"), kv_source("traces/samples/single_long_eagle.h5")), 0);
  char *text = pdf_text(kv_tmp("priced/priced.pdf"));
  if (text) expect(text, priced, sizeof priced / sizeof *priced);
  free(text);
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && '%s' report '%s' -q -o card", kv_tmp("."), kv_program("roofline"),
                               kv_source("models/measured/h200-ceilings.h5")), 0);
  text = pdf_text(kv_tmp("card/h200-ceilings.pdf"));
  if (text) expect(text, card, sizeof card / sizeof *card);
  free(text);
}

void suite_reports(void) {
  static const kv_test_case cases[] = {
      {"names come from the file", names_come_from_the_file},
      {"text of a dataset is harmless", text_of_a_dataset_is_harmless},
      {"lines fit their width", lines_fit_their_width},
      {"numbers are for people", numbers_are_for_people},
      {"a pool replay gives all its pages", a_pool_replay_gives_all_its_pages},
      {"the same file gives the same bytes", the_same_file_gives_the_same_bytes},
      {"nothing to draw is said on valid pages", nothing_to_draw_is_said_on_valid_pages},
      {"one step is enough", one_step_is_enough},
      {"names with blanks, quotes and markup", names_may_hold_blanks_quotes_and_markup},
      {"a measured roofline gives all its pages", a_measured_roofline_gives_all_its_pages},
      {"a falling ladder is called out", a_falling_ladder_is_called_out},
      {"a modelled roofline says so", a_modelled_roofline_says_so},
      {"bounds are no predictions", bounds_are_no_predictions},
      {"a roofline without points or ceilings", a_roofline_without_points_or_ceilings_is_valid},
      {"clocks and gains have pages", clocks_and_gains_have_pages},
      {"measured runs show layouts and resources", measured_runs_show_layouts_and_resources},
      {"older ladders are raised", older_ladders_are_raised},
      {"policies are drawn side by side", policies_are_drawn_side_by_side},
      {"an audit gives its map", an_audit_gives_its_map},
                                       {"many families take more pages", many_families_take_more_pages},
      {"a calibration gives all its pages", a_calibration_gives_all_its_pages},
      {"cited latencies stay", cited_latencies_stay},
      {"a validation shows kernels and gains", validation_shows_kernels_and_gains},
      {"planted causes have a page", planted_causes_have_a_page},
      {"planted causes not judged", planted_causes_not_judged_say_so},
      {"covers say what is found", covers_say_what_is_found},
      {"a sweep gives its pages", a_sweep_gives_its_pages},
      {"a sweep of two traces gives its pages", a_sweep_of_two_traces_gives_its_pages},
      {"no policy is said on valid pages", no_policy_is_said_on_valid_pages},
      {"a missing gnuplot names the package", a_missing_gnuplot_names_the_package},
      {"a failing gnuplot is quoted", a_failing_gnuplot_is_quoted},
      {"a hanging gnuplot is stopped", a_hanging_gnuplot_is_stopped},
      {"an interrupted report leaves no folder", an_interrupted_report_leaves_no_folder},
      {"empty columns are named", empty_columns_are_named},
      {"an old report survives a failure", an_old_report_survives_a_failure},
      {"unwritable folders are named", folders_that_cannot_be_written_are_named},
      {"other files are refused", other_files_are_refused},
      {"a missing dataset is named", a_missing_dataset_is_named},
      {"measured beside another card", measured_beside_another_card},
      {"cut files are refused", cut_files_are_refused},
      {"columns that disagree are refused", columns_that_disagree_are_refused},
      {"what stands behind times is named", what_stands_behind_times_is_named},
                                       {"prices say whose they are", prices_say_whose_they_are},
      {NULL, NULL}};
  kv_suite("reports", cases);
}
