/* The program roofline as a user runs it. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "columns.h"
#include "gpu.h"
#include "kv_h5.h"
#include "kv_test.h"

static const char *const no_card = "KVROOF_PROC_CARDS=/nonexistent";

/* Runs `roofline ARGS` in the scratch folder, without a card; stdout and stderr are the caller's to free. */
static int roofline(const char *args, char **out, char **err) {
  return kv_run(out, err, "cd %s && env %s %s %s", kv_tmp(""), no_card, kv_program("roofline"), args);
}

static void expect(const char *args, int status, const char *in_out, const char *in_err) {
  char *out, *err;
  int got = roofline(args, &out, &err);
  bool fine = got == status && (!in_out || strstr(out, in_out)) && (!in_err || strstr(err, in_err));
  CU_ASSERT(fine);
  if (!fine) printf("roofline %s: status %d\n--- stdout\n%s--- stderr\n%s", args, got, out, err);
  if (status)
    CU_ASSERT(strchr(err, '\n') && (strchr(err, '\n')[1] == '\0' || strstr(err, "--help"))); /* one line */
  free(out);
  free(err);
}

static void first_line_says_modelled_and_which_gpu(void) {
  char *out, *err;
  CU_ASSERT_EQUAL(roofline("--gpu sm_120 --no-report", &out, &err), 0);
  CU_ASSERT_EQUAL(strncmp(out, "modelled, uncalibrated: NVIDIA RTX PRO 6000 Blackwell Workstation", 65), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "no such card is here"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "ridge point 281 FLOP/B"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "placement 3.2 nats (8 of 188 SMs busy)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "84.64 us")); /* 151676210 B / 1.792 TB/s */
  free(out);
  free(err);
}

static void usage_errors_end_with_2(void) {
  expect("--gpu nope --no-report", 2, NULL, "unknown GPU 'nope'");
  expect("--gpu 'RTX 5080'", 2, NULL, "did you mean rtx_5090");
  expect("--bogus", 2, NULL, "bogus");
  expect("bogus", 2, NULL, "unknown command 'bogus'");
  expect("calibrat", 2, NULL, "unknown command");
  expect("--gpu h200 stray", 2, NULL, "stray");
  expect("--gpu h200 --heads 0", 2, NULL, "--heads");
  expect("--gpu h200 --queries x", 2, NULL, "--queries");
  expect("--gpu h200 --prefix -1", 2, NULL, "--prefix");
  expect("--gpu h200 --prefix 99999999999999999999", 2, NULL, "--prefix");
  expect("--gpu h200 --rows fp4", 2, NULL, "--rows");
  expect("--gpu h200 --sweep 4096:8192", 2, NULL, "--sweep");
  expect("--gpu h200 --sweep prefix=9:8", 2, NULL, "--sweep");
  expect("--gpu h200 --sweep prefix=1:8:1", 2, NULL, "--sweep");
  expect("--gpu h200 --sweep prefix=1:8:2:3", 2, NULL, "--sweep");
  expect("--gpu h200 --batch 65536 --prefix 1000000000000", 2, NULL, "prefix");
  expect("list a b", 2, NULL, "one name");
  expect("list nope", 2, NULL, "unknown GPU");
}

static json_t *run_json(const char *args);
static double at(const json_t *o, const char *key);

/* What only a measurement has is refused where nothing is measured; the rest of these options hold for the model too. */
static void a_model_takes_or_refuses_what_measuring_takes(void) {
  static const char *const refused[] = {"--eager", "--replicate", "--repeats 5", "--pool 4096", "--time-limit 3", "--device 0"};
  char args[120];
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    (void)snprintf(args, sizeof args, "--gpu h200 --no-report --model %s -o unheard.h5", refused[i]);
    expect(args, 2, NULL, "only a measurement has it, and this run is modelled (--model was given); leave it out");
    CU_ASSERT_NOT_EQUAL(access(kv_tmp("unheard.h5"), F_OK), 0);
  }
  expect("--gpu h200 --no-report --model --blocks-per-sm 2", 2, NULL, "the model has one block an SM");
  expect("--gpu h200 --no-report --model --blocks-per-sm 1 -o one-block.h5", 0, NULL, NULL);
  expect("--gpu h200 --no-report --model --kernels load_only", 2, NULL, "--kernels load_only: there is no model of it");
  expect("--gpu h200 --no-report --model --kernels extend_serial_32x32", 2, NULL, "--kernel extend_serial_32x32 adds");
  json_t *root = run_json("--gpu sm_120 --no-report --model --json -q --kernels split_verify,extend_serial_32x32"),
         *points = json_object_get(root, "points");
  CU_ASSERT_EQUAL(json_array_size(points), 2);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(points, 0), "kernel")), "extend_serial");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(points, 1), "kernel")), "split_verify");
  json_decref(root);
}

static double limited_time(const char *limit, bool *fits, const char *program) {
  char args[160];
  (void)snprintf(args, sizeof args, "--gpu h200 --no-report --model --json -q --kernels split_verify %s", limit);
  json_t *root = run_json(args), *p = json_array_get(json_object_get(root, "points"), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(p, "program")), program));
  *fits = json_is_true(json_object_get(p, "fits"));
  double t = at(p, "time_s");
  json_decref(root);
  return t;
}

/* Less shared memory a block: the program that the launcher would take then, or none. */
static void the_model_keeps_a_limit_of_shared_memory(void) {
  bool fits;
  double all = limited_time("", &fits, "split_verify_5,");
  CU_ASSERT(fits && all > 0);
  double less = limited_time("--smem-limit 101376", &fits, "split_verify_16_5,");
  CU_ASSERT(fits && less > all);
  CU_ASSERT_EQUAL(limited_time("--smem-limit 50000", &fits, "no program"), 0); /* null: no time */
  CU_ASSERT_FALSE(fits);
  expect("--gpu h200 --no-report --model --smem-limit 50000", 0, "limit    50000 B of shared memory a block", NULL);
}

/* A reader that goes away costs the table and not the dataset. */
static void a_closed_pipe_costs_no_dataset(void) {
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && { env %s '%s' --gpu h200 --no-report --sweep prefix=1024:262144:100 -o pipe.h5; echo $? >pipe.status; } "
                         "2>pipe.err | true", kv_tmp(""), no_card, kv_program("roofline")), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && test -s pipe.h5 && grep -qx 5 pipe.status && grep -q 'standard output' pipe.err", kv_tmp("")), 0);
}

static void other_errors_have_their_own_status(void) {
  expect("--no-report", 4, NULL, "--gpu sm_120"); /* no card, none named */
  expect("--gpu h200 --layout /nonexistent", 5, NULL, "/nonexistent");
  expect("--gpu h200 --no-report -o /dev/full", 5, NULL, "/dev/full");
  expect("--gpu h200 --no-report -o /nonexistent/x.h5", 5, NULL, "/nonexistent/x.h5");
  expect("--gpu /nonexistent/x.ini", 5, NULL, "x.ini");
  expect("--gpu h200 --no-report --json -q >/dev/full", 5, NULL, "standard output");
  char args[2048];
  (void)snprintf(args, sizeof args, "--gpu h200 --layout %s", kv_source("LICENSE"));
  expect(args, 3, NULL, "not an HDF5 file");
  expect("--gpu h200 -o refused.h5 --rows fp4", 2, NULL, NULL);
  CU_ASSERT_NOT_EQUAL(access(kv_tmp("refused.h5"), F_OK), 0);
}

static void dry_run_and_help_write_nothing(void) {
  expect("--gpu h200 --dry-run -o dry.h5", 0, "would write dry.h5", NULL);
  CU_ASSERT_NOT_EQUAL(access(kv_tmp("dry.h5"), F_OK), 0);
  expect("--help", 0, "roofline list", NULL);
  expect("--version", 0, "roofline (kvroof)", NULL);
}

/* -q: neither table nor messages; with --json and without a report, a dataset only where -o asks for one. */
static void quiet_runs_say_nothing(void) {
  char *out, *err;
  CU_ASSERT_EQUAL(roofline("--gpu h200 --no-report -q -o quiet.h5", &out, &err), 0);
  CU_ASSERT(out[0] == '\0' && err[0] == '\0');
  CU_ASSERT_EQUAL(access(kv_tmp("quiet.h5"), F_OK), 0);
  free(out), free(err);
  (void)unlink(kv_tmp("roofline-b300.h5"));
  CU_ASSERT_EQUAL(roofline("--gpu b300 --no-report --json", &out, &err), 0);
  CU_ASSERT(out[0] == '{' && err[0] == '\0');
  CU_ASSERT_NOT_EQUAL(access(kv_tmp("roofline-b300.h5"), F_OK), 0);
  free(out), free(err);
  expect("--gpu b300 --no-report --json -o asked.h5", 0, "{", "wrote asked.h5");
  expect("--gpu b300 --no-report --json --dry-run", 0, "would write nothing", NULL);
}

/* A calibration is used or refused, whichever of its two options names it. */
static void ceilings_are_used_or_refused(void) {
  char args[2048];
  expect("--gpu h200 --ceilings /nonexistent.h5 --no-report", 5, NULL, "/nonexistent.h5");
  expect("--gpu h200 --calibration /nonexistent.h5 --no-report", 5, NULL, "/nonexistent.h5");
  (void)snprintf(args, sizeof args, "--gpu h200 --no-report --ceilings %s",
                 kv_source("models/measured/h200-ceilings.h5"));
  expect(args, 0, "modelled, calibrated on NVIDIA H200", NULL);
  (void)snprintf(args, sizeof args, "--gpu sm_120 --no-report --ceilings %s",
                 kv_source("models/measured/h200-ceilings.h5"));
  expect(args, 3, NULL, "h200-ceilings.h5: measured on NVIDIA H200, not on ");
  (void)snprintf(args, sizeof args, "--gpu h200 --no-report --calibration none --ceilings %s",
                 kv_source("models/measured/h200-ceilings.h5"));
  expect(args, 2, NULL, "--ceilings");
}

/* A description with one value of the H200's changed, under its aliases. */
static void changed_card(const char *section, const char *value) {
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "awk '/^name /{$0=\"name = MyCard 5000\"} /^\\[/{s=$0} s==\"[%s]\"&&/^value/{$0=\"value = %s\"} {print}' '%s' >'%s'",
                         section, value, kv_source("models/gpus/h200_sxm.ini"), kv_tmp("mycard.ini")), 0);
}

/* An alias alone makes no card: a calibration is used for a description of the card that was measured. */
static void calibrations_of_another_card_are_passed_over(void) {
  static const struct {
    const char *section, *value, *why;
  } changed[] = {{"sm_count", "264", "measured on 132 SMs, and 264 are described"},
                 {"mem_bytes", "80000000000", "measured on a card of 150.1 GB, and 80.0 GB are described"},
                 {"dram_bw_spec", "9600", "measured on a memory of 4814 GB/s, and 9600 GB/s are described"}};
  char args[2048], said[300];
  for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
    changed_card(changed[i].section, changed[i].value);
    (void)snprintf(said, sizeof said, "modelled, uncalibrated (h200-ceilings.h5 is another card's: %s): MyCard 5000", changed[i].why);
    expect("--gpu ./mycard.ini --no-report --prefix 4096", 0, said, NULL);
    (void)snprintf(args, sizeof args, "--gpu ./mycard.ini --no-report --calibration '%s'", kv_source("models/measured/h200-ceilings.h5"));
    expect(args, 3, NULL, changed[i].why);
    expect("--gpu ./mycard.ini --no-report --prefix 4096 --calibration none", 0, "modelled, uncalibrated: MyCard 5000", NULL);
  }
  changed_card("sm_count", "132");
  expect("--gpu ./mycard.ini --no-report --prefix 4096", 0, "modelled, calibrated on NVIDIA H200", NULL);
}

static void own(const char *name, const char *tile) {
  FILE *f = fopen(kv_tmp("own.ini"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fprintf(f,
                "[kernel]\nname = %s\nlike = split_verify\narch = sm_90\ndescription = d\nsource = s\n[structure]\n"
                "threads = 256\ntile_tokens = 32\n[warps all]\ncount = 8\ntile = %s\n",
                name, tile);
  (void)fclose(f);
}

/* A copy of the H200's calibration with one value of a column changed; `column` NULL: with attribute `name` changed. */
static void odd_calibration(const char *group, const char *column, const char *name, double value) {
  char path[80], *names = NULL;
  double *v = NULL;
  uint64_t n = 0, m = 0, at = 0;
  size_t width = 0;
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-ceilings.h5"), kv_tmp("odd.h5")), 0);
  hid_t file = H5Fopen(kv_tmp("odd.h5"), H5F_ACC_RDWR, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  if (!column) {
    CU_ASSERT_EQUAL(kv_h5_put_i64(file, name, (int64_t)value, NULL), KV_OK);
    (void)H5Fclose(file);
    return;
  }
  (void)snprintf(path, sizeof path, "%s/name", group);
  CU_ASSERT_EQUAL_FATAL(kva_words(file, "odd.h5", path, &n, &names, &width, NULL), KV_OK);
  (void)snprintf(path, sizeof path, "%s/%s", group, column);
  m = n;
  CU_ASSERT_EQUAL_FATAL(kva_reals(file, "odd.h5", path, &m, &v, NULL), KV_OK);
  while (at < n && strcmp(names + at * width, name) != 0) at++;
  CU_ASSERT_FATAL(at < n);
  v[at] = value;
  hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  (void)H5Dclose(dataset);
  (void)H5Fclose(file);
  free(names);
  free(v);
}

/* What no microbenchmark of this GPU can have found is refused, and a calibration that was broken off says so. */
static void odd_calibrations_are_refused(void) {
  static const char run[] = "--gpu h200 --no-report --model --prefix 4096 --calibration odd.h5";
  odd_calibration("ceilings", "value", "dram", 4.7e15);
  expect(run, 3, NULL, "odd.h5: dram of the chip is 4.7e+15, and 4.");
  odd_calibration("ceilings", "value", "dram", 0);
  expect(run, 3, NULL, "odd.h5: /ceilings/value: dram is 0, no number above 0");
  odd_calibration("ceilings", "value", "l1", INFINITY);
  expect(run, 3, NULL, "odd.h5: /ceilings/value: l1 is inf, no number above 0");
  odd_calibration("latencies", "cycles", "chain_mma", 24000);
  expect(run, 3, NULL, "odd.h5: mma_");
  odd_calibration(NULL, NULL, "sms", 66);
  expect(run, 3, NULL, "measured on 66 SMs, and 132 are described");
  expect("step --gpu h200 --calibration odd.h5", 3, NULL, "measured on 66 SMs, and 132 are described");
  odd_calibration(NULL, NULL, "complete", 0);
  expect(run, 0, "2026-11-29, broken off: what it lacks is taken from the description: NVIDIA H200", NULL);
  odd_calibration(NULL, NULL, "complete", 1);
  expect(run, 0, "2026-11-29: NVIDIA H200", NULL);
}

/* A kernel of one's own: refused where it loads less than its rows, or could not be told from ours. */
static void own_kernels_are_checked(void) {
  own("mine", "bar bar bar");
  expect("--gpu h200 --no-report --kernel own.ini", 3, NULL, "own.ini: [warps ...] tile: all warps together load 0 B");
  own("mine", "cp16.row*9 commit group*1 alu<c");
  expect("--gpu h200 --no-report --kernel own.ini", 3, NULL,
         "waits for mark c, which nothing in it sets: put `>c` behind");
  own("mine\nunset_marks = no wait", "cp16.row*9 commit group*1 alu<c");
  expect("--gpu h200 --no-report --kernel own.ini", 0, "mine", "waits for mark c, which nothing in it sets: taken as no wait");
  own("mine", "cp16.row*9 commit group*1 alu>c alu<c");
  expect("--gpu h200 --no-report --kernel own.ini --kernel own.ini", 2, NULL, "--kernel: given twice");
  expect("--gpu h200 --no-report --kernel own.ini -o ./own.ini", 2, NULL, "--output: is the kernel itself");
  /* all rows and no products: faster than the products allow, were it not held to its bounds */
  own("mine", "cp16.row*9 commit group*3");
  expect("--gpu h200 --no-report --heads 64 --kernel own.ini", 0,
         "mine, 131072 tokens: its program takes less than its work needs (T4)", NULL);
  /* and it is not the one to take, here and in a step */
  expect("--gpu h200 --no-report --heads 8 --kernel own.ini", 0, "The structure of split_verify is modelled at", NULL);
  expect("step --gpu h200 --prefix 131072 --kernel own.ini", 0, "mine, 131072 tokens: its program executes 0.0 GFLOP of the 20.5", NULL);
  json_t *root = run_json("--gpu h200 --no-report --json -q --heads 64 --kernel own.ini"),
         *points = json_object_get(root, "points"), *last = json_array_get(points, json_array_size(points) - 1),
         *ladder = json_object_get(last, "ladder_s");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(last, "kernel")), "mine");
  for (size_t i = 1; i < 8; i++)
    CU_ASSERT(json_number_value(json_array_get(ladder, i)) >= json_number_value(json_array_get(ladder, i - 1)));
  CU_ASSERT(json_number_value(json_object_get(last, "time_s")) >= json_number_value(json_array_get(ladder, 4)));
  json_decref(root);
  own("mine", "cp16.row*9 commit group*1 mma*60:480");
  expect("--gpu h200 --no-report --kernel own.ini", 0, "GFLOP of the 20.5 that are useful", NULL);
  own("mine", "cp16.row*9 commit group*1 mma*120:960");
  char *complete;
  CU_ASSERT_EQUAL(roofline("--gpu h200 --no-report --kernel own.ini", &complete, NULL), 0);
  CU_ASSERT_PTR_NULL(strstr(complete, "that are useful"));
  free(complete);
  own("split_verify", "cp16.row*9 commit group*1");
  expect("--gpu h200 --no-report --kernel own.ini", 3, NULL, "give yours another name");
  own("merge_state", "cp16.row*9 commit group*1");
  expect("step --gpu h200 --kernel own.ini", 3, NULL, "give yours another name");
}

static void inputs_are_not_written_over(void) {
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source("models/measured/h200-ceilings.h5"), kv_tmp("cc.h5")), 0);
  expect("--gpu h200 --no-report --calibration cc.h5 -o ./cc.h5", 2, NULL, "--output: is the calibration itself");
  expect("--gpu h200 --no-report --ceilings cc.h5 -o cc.h5", 2, NULL, "--output: is the calibration itself");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cmp '%s' '%s'", kv_source("models/measured/h200-ceilings.h5"), kv_tmp("cc.h5")), 0);
}

/* A time says which program it was made of, and --kernel takes programs of models/kernels by name. */
static void programs_are_named(void) {
  expect("--gpu sm_120 --no-report", 0, "extend_serial   program: sglang_extend_32x32_sm120, Triton's machine code for sm_120", NULL);
  expect("--gpu h200 --no-report", 0, "extend_serial   program: extend_serial_32x64, nvcc's machine code for sm_90", NULL);
  expect("--gpu h200 --no-report --kernel sglang_extend_32x64", 0, "program: sglang_extend_32x64, Triton's machine code for sm_90", NULL);
  expect("step --gpu h200 --kernel sglang_extend_32x64 --prefix 131072", 0,
         "sglang_extend_32x64 program: sglang_extend_32x64, Triton's machine code for sm_90", NULL);
  expect("step --gpu sm_120 --kernel sglang_extend_32x64", 2, NULL, "106496 B of shared memory");
  expect("step --gpu h200 --kernel split_verify_6", 2, NULL, "there are extend_serial, split_per_head, split_verify, extend_serial_32x32,");
  json_t *root = run_json("step --gpu sm_120 --json -q --kernel sglang_extend_32x32 --prefix 4096"), *points = json_object_get(root, "points");
  CU_ASSERT_EQUAL(json_array_size(points), 1); /* not extend_serial beside it, whose program is the same there */
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(points, 0), "program")),
                         "sglang_extend_32x32_sm120, Triton's machine code for sm_120");
  json_decref(root);
  root = run_json("--gpu sm_120 --no-report --json -q -o programs.h5");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json_array_get(json_object_get(root, "points"), 0), "program")),
                         "sglang_extend_32x32_sm120, Triton's machine code for sm_120");
  json_decref(root);
  char *out = NULL; /* what a kernel does is said of the program that this problem takes: 72 rows, tiles of 16 keys */
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "h5dump -d /kernels/description -d /kernels/program '%s'", kv_tmp("programs.h5")), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "5 units of 8 query rows a block, tiles of 16 keys"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "split_verify_16_5, nvcc's machine code for sm_90"));
  free(out);
}

/* Whose pipes a time is made with: those that are described, not those that the GPU would need. */
static void pipes_are_those_used(void) {
  expect("--gpu l40s --no-report --prefix 4096", 0, "on the pipes of sm_80 (nobody described those of sm_89): ", NULL);
  expect("--gpu b200 --no-report --prefix 4096", 0, "on the pipes of sm_90 (nobody described those of sm_100): ", NULL);
  expect("--gpu sm_120 --no-report --prefix 4096", 0, "on the pipes of sm_120: ", NULL);
}

static void two_programs_of_a_name_are_told(void) {
  expect("--gpu h200 --no-report -q -o two-h200.h5", 0, NULL, NULL);
  expect("--gpu sm_120 --no-report -q -o two-sm120.h5", 0, NULL, NULL);
  expect("compare two-h200.h5 two-sm120.h5", 0,
         "extend_serial: two programs: before extend_serial_32x64, nvcc's machine code for sm_90; after "
         "sglang_extend_32x32_sm120, Triton's machine code for sm_120", NULL);
  expect("compare two-h200.h5 two-sm120.h5", 0,
         "split_verify: as each GPU takes it: before split_verify_5, nvcc's machine code for sm_90; after split_verify_16_5", NULL);
  json_t *root = run_json("compare two-h200.h5 two-sm120.h5 --json"), *point;
  size_t i, apart = 0;
  double logs = 0;
  json_array_foreach(json_object_get(root, "points"), i, point) {
    const bool two = !strcmp(json_string_value(json_object_get(point, "verdict")), "two programs");
    CU_ASSERT_EQUAL(two, !strcmp(json_string_value(json_object_get(point, "kernel")), "extend_serial"));
    apart += two;
    if (!two) logs += log(at(point, "ratio"));
  }
  CU_ASSERT(apart == 1 && at(root, "two_programs") == 1);
  CU_ASSERT_DOUBLE_EQUAL(at(root, "mean_ratio"), exp(logs / (double)(i - 1)), 1e-9);
  CU_ASSERT_EQUAL(at(root, "faster") + at(root, "slower") + at(root, "undecided"), (double)(i - 1));
  json_decref(root);
  char *out;
  CU_ASSERT_EQUAL(roofline("compare two-h200.h5 two-h200.h5", &out, NULL), 0);
  CU_ASSERT_PTR_NULL(strstr(out, "two programs"));
  free(out);
}

/* The ends of a range hold the value between them, in the table's order. */
static void ranges_hold_their_value(void) {
  static const char *const gpus[] = {"h200", "sm_120", "rtx_5090"};
  for (size_t i = 0; i < 3; i++) {
    char args[100];
    (void)snprintf(args, sizeof args, "--gpu %s --no-report --json -q --prefix 4096", gpus[i]);
    json_t *root = run_json(args), *gather = json_object_get(root, "gather");
    static const char *const of[] = {"layout", "random"};
    for (int k = 0; k < 2; k++) {
      json_t *g = json_object_get(gather, of[k]);
      double at = json_number_value(json_object_get(g, "ceiling")), scatter = json_number_value(json_object_get(g, "scatter"));
      CU_ASSERT(at > 1e11);
      CU_ASSERT(json_number_value(json_object_get(g, "ceiling_low")) <= at);
      CU_ASSERT(json_number_value(json_object_get(g, "ceiling_high")) >= at);
      CU_ASSERT(json_number_value(json_object_get(g, "scatter_fast")) <= scatter);
      CU_ASSERT(json_number_value(json_object_get(g, "scatter_slow")) >= scatter);
    }
    json_decref(root);
  }
}

/* The list of microbenchmarks depends on no GPU and no CUDA. */
static void microbenchmarks_are_listed_everywhere(void) {
  char *out;
  expect("calibrate --list", 0, "gather     rows by a slot list", NULL);
  CU_ASSERT_EQUAL(roofline("calibrate --dry-run --only dram,mma", &out, NULL), 0);
  CU_ASSERT(strstr(out, "dram       DRAM read") && strstr(out, "mma        bf16 mma.sync") && !strstr(out, "gather"));
  free(out);
  expect("calibrate --dry-run --only dram,nosuch", 2, NULL, "--only nosuch: no such microbenchmark");
}

/* What takes a cause out makes nothing slower, and a modelled kernel is not faster than its own bounds: no share below 0. */
static void gains_and_shares_keep_their_bounds(void) {
  static const char *const gpus[] = {"h200", "sm_120", "rtx_5090"};
  for (size_t g = 0; g < 3; g++) {
    char args[100];
    (void)snprintf(args, sizeof args, "--gpu %s --no-report --json -q --sweep prefix=4096:131072", gpus[g]);
    json_t *root = run_json(args), *point, *cause;
    const char *name;
    size_t i, causes = 0;
    json_array_foreach(json_object_get(root, "points"), i, point)
      json_object_foreach(json_object_get(point, "causes"), name, cause) {
        if (json_is_null(cause) || json_is_null(json_object_get(cause, "gain"))) continue;
        const double low = json_number_value(json_array_get(json_object_get(cause, "gain_interval"), 0)), gain = at(cause, "gain"),
                     nats = json_number_value(json_array_get(json_object_get(cause, "nats_interval"), 0));
        CU_ASSERT(gain >= 1 - 1e-9 && low >= 1 - 1e-9 && low <= gain);
        CU_ASSERT(nats >= -1e-9);
        if (nats < -1e-9) printf("%s %s: %g\n", gpus[g], name, nats);
        causes++;
      }
    CU_ASSERT(causes > 50);
    json_decref(root);
  }
}

/* Bytes over the L2-to-SM link as an H200 counted them (h200-verify-8.h5, h200-verify-64.h5, contiguous): of extend_serial V's part
 * of a row crosses it once more, for the L1 that is left does not hold a tile. */
static void link_bytes_are_those_counted(void) {
  static const struct {
    int heads, prefix;
    double counted[3]; /* extend_serial 32x64, split_per_head, split_verify */
  } cases[] = {{8, 16384, {286432960, 155100672, 48874496}},
               {8, 131072, {2290293600, 1215735296, 314116096}},
               {64, 16384, {2291490944, 1216262144, 241250304}},
               {64, 131072, {18322347296, 9701347328, 1832206464}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char args[100];
    (void)snprintf(args, sizeof args, "--gpu h200 --model --no-report --json -q --heads %d --prefix %d", cases[i].heads, cases[i].prefix);
    json_t *root = run_json(args), *points = json_object_get(root, "points");
    for (size_t k = 0; k < 3; k++) {
      const double link = at(json_object_get(json_array_get(points, k), "work"), "link"), by = link / cases[i].counted[k] - 1;
      CU_ASSERT(fabs(by) < 0.05);
      if (!(fabs(by) < 0.05)) printf("%s, kernel %zu: %+.1f %%\n", args, k, 100 * by);
    }
    json_decref(root);
  }
}

static void a_build_without_nvcc_says_so(void) {
  const char *nvcc = getenv("KVROOF_NVCC");
  if (nvcc && *nvcc) return; /* this build has them */
  expect("calibrate --list", 0, "dram       DRAM read", "built without nvcc, so it can run none of these");
  expect("calibrate --dry-run", 0, "dram       DRAM read", "built without nvcc, so it can run none of these");
  expect("calibrate --only dram -o unbuilt.h5 --no-report", 4, NULL, "nvcc");
  expect("--gpu h200 --no-report --counters", 4, NULL, "--counters: nothing is measured here");
}

/* Bounds are marked as bounds where a time would stand, and memory that a problem needs beyond the card's is told. */
static void bounds_and_memory_are_told(void) {
  expect("--gpu h200 --no-report --rows fp8", 0, ">=", NULL);
  expect("--gpu h200 --no-report --rows fp8", 0, "<=", NULL);
  expect("--gpu sm_120 --no-report --batch 64 --prefix 1000000", 0,
         "does not fit: the rows of all 61 layers take 4497.4 GB, the card has 103.1 GB", NULL);
  expect("--gpu sm_120 --no-report --batch 64 --prefix 1000000", 0, "But it does not fit the GPU's memory", NULL);
  expect("step --gpu sm_120 --batch 64 --prefix 1000000", 0,
         "does not fit: the rows of all 61 layers take 4497.4 GB, the card has 103.1 GB", NULL);
  char *out;
  CU_ASSERT_EQUAL(roofline("--gpu h200 --no-report --prefix 4096", &out, NULL), 0);
  CU_ASSERT_PTR_NULL(strstr(out, "does not fit"));
  free(out);
  CU_ASSERT_EQUAL(roofline("--gpu h200 --no-report --rows fp8 --json", &out, NULL), 0);
  CU_ASSERT(strstr(out, "\"time_s\": null") && strstr(out, "\"effective_bandwidth\": null"));
  free(out);
}

static void commands_that_are_not_built_are_not_listed(void) {
  char *out, *err, *more = NULL;
  static const char *const name[] = {"calibrate", "audit", "compare", "validate",
                                     "diagnose",  "step",  "report"};
  CU_ASSERT_EQUAL(roofline("--help", &out, &err), 0);
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char listed[64], args[64];
    (void)snprintf(listed, sizeof listed, "\n  roofline %s ", name[i]);
    (void)snprintf(args, sizeof args, "%s --help", name[i]);
    int status = roofline(args, NULL, &more);
    CU_ASSERT_EQUAL(status, strstr(out, listed) ? 0 : 2); /* listed exactly if it works */
    free(more);
  }
  free(out);
  free(err);
}

/* ---- JSON ---- */

static json_t *run_json(const char *args) {
  char *out, *err;
  CU_ASSERT_EQUAL(roofline(args, &out, &err), 0);
  json_t *root = json_loads(out, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  free(out);
  free(err);
  return root;
}

static double at(const json_t *o, const char *key) {
  return json_number_value(json_object_get(o, key));
}

static void json_holds_the_same(void) {
  json_t *root = run_json("--gpu h200 --calibration none --no-report --json -q --prefix 131072 --prefix 0");
  json_t *points = json_object_get(root, "points"), *first = json_array_get(points, 0);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "schema")), "roofline-1");
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "schema_version")), 1);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "status")), "modelled, uncalibrated");
  CU_ASSERT_EQUAL(json_array_size(points), 8); /* 4 kernels x 2 prefixes */
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(first, "kernel")), "extend_serial");
  CU_ASSERT_DOUBLE_EQUAL(at(first, "useful_bytes"), 151676210, 0);
  CU_ASSERT_DOUBLE_EQUAL(at(first, "useful_flops"), 20535312384.0, 0);
  json_t *ladder = json_object_get(first, "ladder_s");
  CU_ASSERT_DOUBLE_EQUAL(json_number_value(json_array_get(ladder, 0)), 32.2162e-6, 1e-9);
  CU_ASSERT(json_number_value(json_array_get(ladder, 7)) > json_number_value(json_array_get(ladder, 4)));
  CU_ASSERT(json_is_null(json_object_get(first, "measured_s")));
  json_t *placement = json_object_get(json_object_get(first, "causes"), "placement");
  CU_ASSERT(at(placement, "nats") > 2.7 && at(placement, "nats") < 2.9 && at(placement, "gain") > 12); /* ln(132 / 8) = 2.80 */
  CU_ASSERT_EQUAL(at(json_array_get(points, 4), "useful_flops"), 0); /* a prefix of 0 is a valid problem */
  json_decref(root);
  root = run_json("--gpu h200 --no-report --json -q --sweep prefix=4096:189440 --heads 64");
  points = json_object_get(root, "points");
  CU_ASSERT_EQUAL(json_array_size(points), 28); /* 4096 x 1, 2, 4, 8, 16, 32 and the end */
  CU_ASSERT_EQUAL(at(json_array_get(points, 27), "prefix"), 189440);
  json_decref(root);
  root = run_json("--gpu h200 --no-report --json -q --sweep prefix=10:1000:3");
  CU_ASSERT_EQUAL(at(json_array_get(json_object_get(root, "points"), 4), "prefix"), 100);
  json_decref(root);
}

/* The table's word for it stands in the JSON and in the dataset too. */
static void a_third_partys_figure_is_no_own_one(void) {
  static const char *const group[] = {"gpu", "ceilings"};
  json_t *root = run_json("--gpu sm_120 --prefix 4096 --no-report --json -o others.h5");
  json_t *l2 = json_object_get(json_object_get(json_object_get(root, "ceilings"), "l2"), "chip");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(l2, "kind")), "measured by others");
  json_decref(root);
  root = run_json("--gpu h200 --calibration none --prefix 4096 --no-report --json");
  json_t *dram = json_object_get(json_object_get(json_object_get(root, "ceilings"), "dram"), "chip");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(dram, "kind")), "measured");
  json_decref(root);
  hid_t file = H5Fopen(kv_tmp("others.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  for (size_t g = 0; g < 2; g++) {
    char path[32], *kind = NULL;
    size_t width = 0, others = 0;
    uint64_t n = 0;
    (void)snprintf(path, sizeof path, "%s/kind", group[g]);
    CU_ASSERT_EQUAL_FATAL(kva_words(file, "others.h5", path, &n, &kind, &width, NULL), KV_OK);
    for (uint64_t i = 0; i < n; i++) {
      others += !strcmp(kind + i * width, "measured by others");
      CU_ASSERT(strcmp(kind + i * width, "measured") != 0); /* this project has measured none of this GPU */
    }
    CU_ASSERT(others > 0);
    free(kind);
  }
  (void)H5Fclose(file);
}

static void list_gives_every_description(void) {
  json_t *root = run_json("list --json");
  CU_ASSERT(json_array_size(json_object_get(root, "gpus")) >= 14);
  json_decref(root);
  root = run_json("list --json b200");
  json_t *value = json_object_get(json_object_get(json_array_get(json_object_get(root, "gpus"), 0), "values"),
                                  "l2_bw_measured");
  CU_ASSERT(json_is_null(json_object_get(value, "value")));
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(value, "kind")), "unknown");
  json_decref(root);
  expect("list", 0, "rtx_pro_6000_blackwell_ws", NULL);
  expect("list gb10", 0, "missing", NULL);
}

/* ---- the dataset ---- */

static herr_t has_units(hid_t root, const char *name, const H5O_info_t *info, void *count) {
  char text[200];
  (void)root;
  if (info->type != H5O_TYPE_DATASET) return 0;
  hid_t dataset = H5Dopen2(root, name, H5P_DEFAULT);
  bool fine = !kv_h5_get_str(dataset, "units", text, sizeof text, NULL) &&
              !kv_h5_get_str(dataset, "long_name", text, sizeof text, NULL);
  CU_ASSERT(fine);
  (void)H5Dclose(dataset);
  ++*(int *)count;
  return 0;
}

static double element(hid_t file, const char *name, uint64_t i) {
  hid_t dataset = -1;
  uint64_t n = 0;
  size_t size;
  CU_ASSERT_EQUAL_FATAL(kv_h5_open_column(file, "test", name, &dataset, &n, &size, NULL), KV_OK);
  double *v = calloc(n + 1, sizeof *v);
  CU_ASSERT(v && H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0 && i < n);
  double r = v[i];
  free(v);
  (void)H5Dclose(dataset);
  return r;
}

static void dataset_has_units_and_the_agreed_columns(void) {
  static const char *const column[] = {"kernel",
                                       "prefix",
                                       "heads",
                                       "queries",
                                       "batch",
                                       "layout",
                                       "blocks",
                                       "useful_bytes",
                                       "useful_flops",
                                       "intensity",
                                       "dram_bytes",
                                       "l2_bytes",
                                       "link_bytes",
                                       "executed_flops",
                                       "floor",
                                       "t1",
                                       "t2",
                                       "t3",
                                       "t4",
                                       "t5",
                                       "t6",
                                       "t7",
                                       "time",
                                       "time_at_least",
                                       "measured",
                                       "measured_low",
                                       "measured_high",
                                       "effective_bandwidth",
                                       "binding"};
  static const char *const text[] = {"gpu",     "gpu_name", "status",      "dtype",  "layout_source",
                                     "verdict", "default",  "Conventions", "history"};
  static const char *const whole[] = {"heads", "queries", "latent", "rope", "row_bytes", "batch", "layers"};
  int datasets = 0;
  char value[2000];
  int64_t number;
  expect("--gpu h200 --calibration none --no-report -o set.h5 --prefix 131072", 0, NULL, "wrote set.h5");
  hid_t file = H5Fopen(kv_tmp("set.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  (void)H5Ovisit(file, H5_INDEX_NAME, H5_ITER_NATIVE, has_units, &datasets);
  CU_ASSERT(datasets > 40);
  for (size_t i = 0; i < sizeof text / sizeof *text; i++)
    CU_ASSERT_EQUAL(kv_h5_get_str(file, text[i], value, sizeof value, NULL), KV_OK);
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    CU_ASSERT_EQUAL(kv_h5_get_i64(file, whole[i], &number, NULL), KV_OK);
  for (size_t i = 0; i < sizeof column / sizeof *column; i++) {
    (void)snprintf(value, sizeof value, "points/%s", column[i]);
    (void)element(file, value, 3);
  }
  CU_ASSERT_DOUBLE_EQUAL(element(file, "points/useful_bytes", 0), 151676210, 0);
  CU_ASSERT_DOUBLE_EQUAL(element(file, "points/floor", 2), 32.2162e-6, 1e-9);
  CU_ASSERT(isnan(element(file, "points/measured", 0)) && isnan(element(file, "points/t5", 3))); /* merge_state has no program */
  CU_ASSERT(element(file, "points/t7", 0) > element(file, "points/t4", 0));
  CU_ASSERT(element(file, "points/time_low", 0) < element(file, "points/time", 0));
  CU_ASSERT(element(file, "points/gain_placement", 0) > 12);
  CU_ASSERT_DOUBLE_EQUAL(element(file, "points/binding", 0), 8, 0); /* l1 of one SM */
  (void)H5Fclose(file);
}

/* Who reads points/time alone meets no bound: a kernel without a time has NaN there, and its bound elsewhere.
 */
static void a_bound_is_no_time(void) {
  char verdict[2048];
  expect("--gpu h200 --no-report -o bounds.h5 --prefix 131072", 0, NULL, "wrote bounds.h5");
  expect("--gpu h200 --no-report -o fp8.h5 --rows fp8 --prefix 131072", 0, NULL, "wrote fp8.h5");
  hid_t file = H5Fopen(kv_tmp("bounds.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  for (uint64_t i = 0; i < 3; i++) { /* with a program */
    CU_ASSERT(element(file, "points/time", i) == element(file, "points/t7", i) &&
              isnan(element(file, "points/time_at_least", i)));
    CU_ASSERT(element(file, "points/effective_bandwidth", i) > 0 &&
              element(file, "points/gain_placement", i) >= 1);
  }
  CU_ASSERT(isnan(element(file, "points/t7", 3)) && isnan(element(file, "points/time", 3))); /* merge_state */
  CU_ASSERT_EQUAL(element(file, "points/time_at_least", 3), element(file, "points/t4", 3));
  CU_ASSERT(element(file, "points/nats_work", 3) >= 0 && isnan(element(file, "points/gain_work", 3)));
  (void)H5Fclose(file);
  file = H5Fopen(kv_tmp("fp8.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  for (uint64_t i = 0; i < 4; i++) { /* no program loads these rows */
    CU_ASSERT(isnan(element(file, "points/time", i)) &&
              element(file, "points/time_at_least", i) >= element(file, "points/t4", i));
    CU_ASSERT(isnan(element(file, "points/effective_bandwidth", i)));
  }
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "verdict", verdict, sizeof verdict, NULL), KV_OK);
  CU_ASSERT(strstr(verdict, "extend_serial needs at least") && !strstr(verdict, "odelled at"));
  (void)H5Fclose(file);
}

/* The ranges of assumed values stand in the dataset, in the unit of the value; what has none is NaN. */
static void dataset_has_the_ranges(void) {
  kvm_gpu gpu;
  size_t ranged = 0, assumed = 0;
  expect("--gpu sm_120 --no-report -o ranges.h5 --prefix 4096", 0, NULL, "wrote ranges.h5");
  CU_ASSERT_EQUAL_FATAL(kvm_gpu_load(kv_source("models/gpus/rtx_pro_6000_blackwell_ws.ini"), &gpu, NULL), KV_OK);
  hid_t file = H5Fopen(kv_tmp("ranges.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  for (size_t i = 0; i < gpu.values; i++) { /* the dataset has the memory's values after these */
    const kvm_value *v = &gpu.value[i];
    double low = element(file, "gpu/low", i), high = element(file, "gpu/high", i), said = strtod(v->text, NULL);
    CU_ASSERT_EQUAL(isfinite(low) && isfinite(high), v->ranged && v->numeric);
    if (isfinite(low)) CU_ASSERT(low <= said && said <= high && fabs(low / said - v->low / v->number) < 1e-9);
    ranged += isfinite(low);
    assumed += v->kind == KVM_ASSUMED;
    if (!strcmp(v->name, "dram_row_bytes")) CU_ASSERT(low == 1024 && high == 2048);
  }
  CU_ASSERT(assumed > 0 && ranged >= assumed);
  (void)H5Fclose(file);
  kvm_gpu_free(&gpu);
}

/* What the verdict says of batches, of ceilings that nobody published, and of rows that do not fit. */
static void the_verdict_is_exact(void) {
  expect("--gpu h200 --no-report --batch 4 --prefix 4096", 0, "At 4 requests of 4096 tokens, the floor is ", NULL);
  expect("--gpu h200 --no-report", 0, " us a layer (memory). Modelled at ", NULL);
  expect("--gpu gb10 --no-report", 0, "work unknown (no ceiling of l2, link, l1), work and placement together", NULL);
  expect("--gpu gb10 --no-report", 0, "measured by others bf16_measured", NULL);
  /* 164.28 GFLOP: 83.1 us at the 1978 TFLOP/s of fp8, 254.3 at the 646.0 of mma.sync bf16: the path is 3.06x, not work */
  expect("--gpu h200 --heads 64 --rows fp8-656 --no-report", 0, "that: path 3.06x, work ", NULL);
  expect("--gpu h200 --heads 64 --no-report", 0, "the floor is 172 us a layer (matrix", NULL);
  expect("--gpu h200 --calibration none --heads 64 --no-report", 0, "the floor is 172 us a layer (matrix", NULL);
  expect("--gpu h200 --latent 8192 --rope 1024 --no-report", 0, "No kernel fits: ", NULL);
  expect("--gpu h200 --latent 8192 --rope 1024 --no-report", 0, "does not fit: shared memory", NULL);
  expect("--gpu sm_120 --no-report", 0, "31.488 TB/s  inference          sm_link_per_clk", NULL); /* 188 x 64 B x 2.617 GHz */
}

static void two_runs_are_the_same_to_the_bit(void) {
  char *same;
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  expect("--gpu h200 --no-report -q -o same.h5", 0, NULL, NULL);
  CU_ASSERT_EQUAL(rename(kv_tmp("same.h5"), kv_tmp("same1.h5")), 0);
  expect("--gpu h200 --no-report -q -o same.h5", 0, NULL, NULL);
  CU_ASSERT_EQUAL(kv_run(&same, NULL, "cmp %s %s", kv_tmp("same.h5"), kv_tmp("same1.h5")), 0);
  free(same);
  unsetenv("SOURCE_DATE_EPOCH");
}

/* ---- layouts and cards ---- */

static void a_layout_is_taken_as_it_is(void) {
  static const int32_t slots[] = {5, 6, 7, 2, 7}, request[] = {11, 12};
  static const uint64_t indptr[] = {0, 3, 5};
  kv_h5_out out;
  CU_ASSERT_EQUAL_FATAL(kv_h5_create(kv_tmp("rows.h5"), "kvlayout-1", "test", "test", &out, NULL), KV_OK);
  (void)kv_h5_put_i64(out.file, "pool_rows", 8, NULL);
  (void)kv_h5_put_i64(out.file, "page_size", 1, NULL);
  (void)kv_h5_put_i64(out.file, "row_bytes", 656, NULL);
  (void)kv_h5_put_str(out.file, "trace", "bad\033[31mname", NULL);
  (void)kv_h5_write(out.file, "slots", H5T_STD_I32LE, 5, slots, "1", "slots", KV_H5_SMALL, NULL);
  (void)kv_h5_write(out.file, "indptr", H5T_STD_U64LE, 3, indptr, "1", "bounds", KV_H5_SMALL, NULL);
  (void)kv_h5_write(out.file, "request", H5T_STD_I32LE, 2, request, "1", "request", KV_H5_SMALL, NULL);
  CU_ASSERT_EQUAL_FATAL(kv_h5_commit(&out, NULL), KV_OK);
  json_t *root = run_json("--gpu h200 --no-report --json -q --layout rows.h5");
  json_t *problem = json_object_get(root, "problem"), *layout = json_object_get(root, "layout");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(problem, "dtype")), "fp8-656");
  CU_ASSERT_EQUAL(at(problem, "batch"), 2);
  CU_ASSERT(at(layout, "tokens") == 5 && at(layout, "rows") == 4 && at(layout, "runs") == 3 &&
            at(layout, "sectors") == 83);
  CU_ASSERT_PTR_NULL(strchr(json_string_value(json_object_get(layout, "name")), 033));
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(root, "verdict")),
                                "At 2 requests, longest 3 tokens (5 in all), the floor is "));
  json_t *first = json_array_get(json_object_get(root, "points"), 0);
  CU_ASSERT_DOUBLE_EQUAL(at(first, "useful_kv_bytes"), 4 * 656, 0); /* the shared row counts once */
  json_t *ladder = json_object_get(first, "ladder_s"), *gather = json_object_get(root, "gather");
  CU_ASSERT(json_number_value(json_array_get(ladder, 3)) >= json_number_value(json_array_get(ladder, 2)));
  CU_ASSERT(at(json_object_get(gather, "layout"), "scatter") > 0.5); /* five rows: chance */
  CU_ASSERT(at(json_object_get(gather, "random"), "ceiling") > 3e12 &&
            at(json_object_get(gather, "random"), "ceiling") < 4.8e12);
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(gather, "status")), "calibrated"));
  json_decref(root);
  expect("--gpu h200 --layout rows.h5 --prefix 5", 2, NULL, "--layout");
  expect("--gpu h200 --layout rows.h5 --rows bf16", 2, NULL, "656 B");
}

static double end_of(const json_t *point, const char *interval, size_t end) {
  const json_t *scatter = json_object_get(json_object_get(point, "causes"), "scatter");
  return json_number_value(json_array_get(json_object_get(scatter, interval), end));
}

/* What the layout may cost where rows and bursts of a memory are assumed: in the shares, the gains, the interval of the
 * time and each kernel's verdict, as far as memory binds the kernel. */
static void assumed_scatter_reaches_the_kernels(void) {
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cd '%s' && %s synth random --rows 131072 --pool 1Mi --requests 1 -q -o rnd.h5 && "
                                           "%s replay rnd.h5 --no-report -q --layout-out rnd.l.h5 --request all --step 1",
                               kv_tmp("."), kv_program("kvsim"), kv_program("kvsim")), 0);
  json_t *random = run_json("--gpu sm_120 --layout rnd.l.h5 --no-report --json -q"),
         *whole = run_json("--gpu sm_120 --prefix 131072 --no-report --json -q");
  for (size_t k = 0; k < 3; k++) {
    const json_t *p = json_array_get(json_object_get(random, "points"), k), *c = json_array_get(json_object_get(whole, "points"), k);
    const char *name = json_string_value(json_object_get(p, "kernel")), *verdict = json_string_value(json_object_get(p, "verdict"));
    const char *none = strstr(verdict, "no effect");
    const bool binds = !strcmp(name, "split_verify");
    CU_ASSERT_EQUAL(end_of(p, "nats_interval", 1) > 0.2, strcmp(name, "extend_serial") != 0);
    CU_ASSERT_EQUAL(end_of(p, "gain_interval", 1) > 1.2, binds);
    CU_ASSERT(end_of(p, "gain_interval", 0) >= 1 && end_of(c, "gain_interval", 1) < 1.005); /* how its warps happen to meet */
    CU_ASSERT_EQUAL(!none || !strstr(none, "scatter"), binds);
    CU_ASSERT_EQUAL(json_number_value(json_object_get(p, "time_high_s")) > 1.05 * json_number_value(json_object_get(c, "time_high_s")), binds);
  }
  json_decref(random);
  json_decref(whole);
}

static void a_card_that_is_here_is_taken(void) {
  char command[2048], *out, *err;
  CU_ASSERT_EQUAL(mkdir(kv_tmp("cards"), 0700), 0);
  CU_ASSERT_EQUAL(mkdir(kv_tmp("cards/0000:01:00.0"), 0700), 0);
  FILE *f = fopen(kv_tmp("cards/0000:01:00.0/information"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs("Model: \t\t NVIDIA GeForce RTX 5090\nIRQ:   \t\t 24\n", f);
  (void)fclose(f);
  (void)snprintf(command, sizeof command, "cd %s && env KVROOF_PROC_CARDS=%s %s", kv_tmp(""), kv_tmp("cards"),
                 kv_program("roofline"));
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s --no-report", command), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "rtx_5090, sm_120); this card is here"));
  free(out), free(err);
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s --no-report --gpu sm_120", command), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "rtx_5090")); /* sm_120 is the card that is here */
  free(out), free(err);
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s --no-report --gpu sm_90", command), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "h200_sxm"));
  free(out), free(err);
}

static void a_description_of_ones_own(void) {
  FILE *f = fopen(kv_tmp("mine.ini"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(
      "[gpu]\nname = Mine\narch = sm_120\n[dram_bw_spec]\nvalue = 1000\nunit = GB/s\nkind = spec\nsource = "
      "s\n",
      f);
  (void)fclose(f);
  expect("--gpu ./mine.ini --no-report", 0, "number of SMs", NULL); /* reported as missing */
  expect("--gpu ./mine.ini --no-report", 0, "No floor can be given", NULL);
}

void suite_roofline_cli(void) {
  static const kv_test_case cases[] = {{"first line", first_line_says_modelled_and_which_gpu},
                                       {"usage", usage_errors_end_with_2},
                                       {"a model takes or refuses what measuring takes", a_model_takes_or_refuses_what_measuring_takes},
                                       {"the model keeps a limit of shared memory", the_model_keeps_a_limit_of_shared_memory},
                                       {"a closed pipe", a_closed_pipe_costs_no_dataset},
                                       {"other errors", other_errors_have_their_own_status},
                                       {"dry run, help", dry_run_and_help_write_nothing},
                                       {"quiet", quiet_runs_say_nothing},
                                       {"calibration", ceilings_are_used_or_refused},
                                       {"another card", calibrations_of_another_card_are_passed_over},
                                       {"odd calibrations", odd_calibrations_are_refused},
                                       {"own kernels", own_kernels_are_checked},
                                       {"inputs", inputs_are_not_written_over},
                                       {"bounds", bounds_and_memory_are_told},
                                       {"commands", commands_that_are_not_built_are_not_listed},
                                       {"JSON", json_holds_the_same},
                                       {"list", list_gives_every_description},
                                       {"measured by others", a_third_partys_figure_is_no_own_one},
                                       {"dataset", dataset_has_units_and_the_agreed_columns},
                                       {"ranges", dataset_has_the_ranges},
                                       {"bound is no time", a_bound_is_no_time},
                                       {"verdict", the_verdict_is_exact},
                                       {"deterministic", two_runs_are_the_same_to_the_bit},
                                       {"layout", a_layout_is_taken_as_it_is},
                                       {"assumed scatter", assumed_scatter_reaches_the_kernels},
                                       {"card", a_card_that_is_here_is_taken},
                                       {"own description", a_description_of_ones_own},
                                       {"programs are named", programs_are_named},
                                       {"pipes", pipes_are_those_used},
                                       {"two programs", two_programs_of_a_name_are_told},
                                       {"ranges", ranges_hold_their_value},
                                       {"microbenchmarks", microbenchmarks_are_listed_everywhere},
                                       {"gains and shares", gains_and_shares_keep_their_bounds},
                                       {"link bytes", link_bytes_are_those_counted},
                                       {"without nvcc", a_build_without_nvcc_says_so},
                                       {NULL, NULL}};
  kv_suite("roofline_cli", cases);
}
