/* kvsim whatif, sweep, synth and diff as a user types them. RECORDINGS=DIR: every recording there must come out as
 * recorded. */
#include <dirent.h>
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_h5.h"
#include "kv_test.h"
#include "trace_fixture.h"

static int run(char **out, const char *arguments) {
  char *err = NULL;
  int status = kv_run(out, &err, "cd '%s' && %s %s", kv_tmp("."), kv_program("kvsim"), arguments);
  free(err);
  return status;
}

static void expect(const char *arguments, int status, const char *why) {
  char *err = NULL;
  int got = kv_run(NULL, &err, "cd '%s' && %s %s", kv_tmp("."), kv_program("kvsim"), arguments);
  CU_ASSERT_EQUAL(got, status);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, why));
  if (got != status || !strstr(err, why)) fprintf(stderr, "kvsim %s: status %d, %s", arguments, got, err);
  free(err);
}

static json_t *json_of(const char *arguments) {
  char *out = NULL;
  CU_ASSERT_EQUAL(run(&out, arguments), 0);
  json_t *j = json_loads(out, 0, NULL);
  free(out);
  return j;
}

static json_int_t whole(const json_t *j, const char *name) { return json_integer_value(json_object_get(j, name)); }

static void as_recorded(const char *trace) {
  char args[2048];
  (void)snprintf(args, sizeof args, "whatif '%s' --policy as-recorded --json --no-report -o r.kvwhatif.h5", trace);
  json_t *j = json_of(args);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(j, "schema")), "kvsim-whatif-1");
  CU_ASSERT_EQUAL(whole(j, "mismatches"), 0);
  CU_ASSERT_TRUE(json_is_true(json_object_get(j, "final_lists_match")));
  const json_t *policy = json_array_get(json_object_get(j, "policies"), 0);
  CU_ASSERT(whole(policy, "slot_operations") > 0);
  json_decref(j);
}

/* Whose figures the prices are, and over which steps runs are counted. */
static void the_table_says_whose_figures(void) {
  char args[2048], *out = NULL;
  (void)snprintf(args, sizeof args, "whatif '%s' --policy as-recorded --no-report -o r.kvwhatif.h5", kv_source("traces/samples/single_long_eagle.h5"));
  CU_ASSERT_EQUAL(run(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL_FATAL(out);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "reads 4708 GB/s from dram_read_measured (measured)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "copies 4055 GB/s from dram_bw_measured (measured by others)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "rows/run: over decode steps"));
  free(out);
}

static void samples(void) {
  as_recorded(kv_source("traces/samples/mixed_eagle.h5"));
  as_recorded(kv_source("traces/samples/mixed_eagle_v2.h5"));
  as_recorded(kv_source("traces/samples/single_long_eagle.h5"));
}

/* One slot for one request, but an extend, for which paged need_sort asks for more entries than for a decode: merged first, so that
 * page 1 comes before page 2. What-if must see it as the replay does. */
static void extend_of_one(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1), FX_EXTEND(0, 0, 1, 4, 4, 5, 6, 7),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 4, 5, 6, 7), FX_FINISH(0, 4),
                         FX_STEP(1), FX_ARRIVE(1, 1, 0), FX_START(1, 0, 0), FX_CALL(1, 1, 2), FX_EXTEND(1, 0, 2, 1, 4)};
  const kvt_info info = fx_info(KVT_ALLOC_PAGED_SORTED, 8, 4);
  kv_error err;
  CU_ASSERT_EQUAL_FATAL(fx_write(kv_tmp("one.h5"), &info, e, sizeof e / sizeof *e, &err), KV_OK);
  json_t *j = json_of("whatif one.h5 --policy as-recorded --json --no-report -o one.w.h5");
  CU_ASSERT_EQUAL(whole(j, "mismatches"), 0);
  CU_ASSERT_EQUAL(whole(json_array_get(json_object_get(j, "policies"), 0), "slot_operations"), 9);
  json_decref(j);
}

static void all_in_folder(void) {
  const char *name = getenv("RECORDINGS");
  DIR *dir = name && *name ? opendir(name) : NULL;
  char args[2048];
  if (!dir) {
    CU_PASS("no folder of recordings");
    return;
  }
  for (const struct dirent *e; (e = readdir(dir));) {
    const char *end = strrchr(e->d_name, '.');
    if (!end || strcmp(end, ".h5")) continue;
    (void)snprintf(args, sizeof args, "import -q -p '%s/%s' -o imported.h5", name, e->d_name);
    if (run(NULL, args) == 0) as_recorded(kv_tmp("imported.h5"));
  }
  (void)closedir(dir);
}

static const json_t *policy_of(const json_t *j, const char *name) {
  size_t i;
  const json_t *p;
  json_array_foreach(json_object_get(j, "policies"), i, p)
    if (!strcmp(json_string_value(json_object_get(p, "policy")), name)) return p;
  return NULL;
}

static void every_policy(void) {
  char args[2048];
  (void)snprintf(args, sizeof args, "whatif '%s' --json --no-report -o all.kvwhatif.h5", kv_source("traces/samples/single_long_eagle.h5"));
  json_t *j = json_of(args);
  CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "policies")), 15);
  /* the recording has 134,773 rows in one run, then 898 after 512 verify steps; compaction leaves none */
  const json_t *compact = policy_of(j, "compact"), *fifo = policy_of(j, "fifo"), *oracle = policy_of(j, "oracle");
  CU_ASSERT_EQUAL(whole(compact, "runs"), 512);
  CU_ASSERT_EQUAL(whole(oracle, "runs"), 512);
  CU_ASSERT_EQUAL(whole(fifo, "runs"), whole(policy_of(j, "as-recorded"), "runs"));
  CU_ASSERT_EQUAL(whole(fifo, "rows"), whole(oracle, "rows"));
  CU_ASSERT_EQUAL(access(kv_tmp("all.kvwhatif.h5"), R_OK), 0);
  json_decref(j);
}

static void reproduces(void) {
  char args[4096];
  const char *sample = kv_source("traces/samples/single_long_eagle.h5");
  static const char *const policy[] = {"fifo", "need-sort", "compact", "pages-64", "relocate-step"};
  for (size_t i = 0; i < sizeof policy / sizeof *policy; i++) {
    (void)snprintf(args, sizeof args, "whatif '%s' -q --policy %s --trace-out told.h5", sample, policy[i]);
    expect(args, 0, "");
    expect("replay told.h5 --no-report -q", 0, "");
    if (i < 4) {
      expect("whatif told.h5 -q --policy as-recorded --trace-out again.h5", 0, "");
      expect("diff told.h5 again.h5 -q", 0, "");
    }
  }
  (void)snprintf(args, sizeof args, "whatif '%s' -q --policy as-recorded --trace-out told.h5", sample);
  expect(args, 0, "");
  json_t *j = json_of("whatif told.h5 --policy as-recorded --json --no-report -o r.kvwhatif.h5");
  CU_ASSERT(whole(j, "mismatches") == 0 && json_is_true(json_object_get(j, "final_lists_match")));
  json_decref(j);
}

static void synth_and_diff(void) {
  expect("synth blocks --rows 512 -o b1.h5 -q", 0, "");
  expect("synth blocks --rows 512 -o b2.h5 -q", 0, "");
  expect("diff b1.h5 b2.h5", 0, "");
  expect("synth blocks --rows 512 --run 8 -o b3.h5 -q", 0, "");
  expect("diff b1.h5 b3.h5", 1, "differ in");
  expect("diff b1.h5", 2, "name two files");
  expect("diff b1.h5 nothing.h5", 5, "nothing.h5");
  expect("synth stripes", 2, "is no pattern");
  expect("synth blocks --pool 10", 2, "do not fit");
  json_t *j = json_of("synth comb --rows 100 --requests 3 -o c.h5 --json");
  CU_ASSERT_EQUAL(json_integer_value(json_array_get(json_object_get(j, "runs"), 2)), 100);
  json_decref(j);
  expect("whatif c.h5 -q --no-report -o c1.h5", 0, "");
  expect("whatif c.h5 -q --no-report -o c2.h5 --jobs 1", 0, "");
  expect("diff c1.h5 c2.h5", 0, "");
  expect("whatif c.h5 -q --no-report -o c2.h5 --layers 2", 0, "");
  expect("diff c1.h5 c2.h5", 1, "differ in");
  expect("diff b1.h5 c1.h5", 1, "differ in");
}

static double number_at(const char *path, const char *name, uint64_t row) {
  hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), d = H5Dopen2(f, name, H5P_DEFAULT), s = H5Dget_space(d);
  hssize_t n = H5Sget_simple_extent_npoints(s);
  double *all = calloc((size_t)n + 1, sizeof *all);
  CU_ASSERT_FATAL(n > (hssize_t)row && H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, all) >= 0);
  double v = all[row];
  free(all);
  H5Sclose(s), H5Dclose(d), H5Fclose(f);
  return v;
}

static bool is_null(const json_t *policy, const char *name) {
  const json_t *v = json_object_get(policy, name);
  return v && json_is_null(v);
}

/* What broke off has read little: that is no saving, in no output. */
static void a_misfit_saves_nothing(void) {
  char args[2048], *out = NULL;
  const char *sample = kv_source("traces/samples/vllm_eagle.h5");
  static const char *const figures[] = {"read_seconds", "saved_seconds", "saved_seconds_a_step", "net_seconds", "break_even_steps",
                                        "move_seconds", "mean_run"};
  (void)snprintf(args, sizeof args, "whatif '%s' --pool 17 --policy vllm --json --no-report -o misfit.h5", sample);
  json_t *j = json_of(args);
  const json_t *vllm = policy_of(j, "vllm");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(vllm, "verdict")), "does not fit");
  for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) CU_ASSERT_TRUE(is_null(vllm, figures[i]));
  CU_ASSERT_EQUAL(whole(vllm, "short_step"), 1);
  CU_ASSERT_TRUE(is_null(json_object_get(json_object_get(vllm, "kernels"), "split_verify"), "saved_of_floor_seconds_a_step"));
  CU_ASSERT_FALSE(is_null(policy_of(j, "as-recorded"), "read_seconds"));
  json_decref(j);
  CU_ASSERT_TRUE(number_at(kv_tmp("misfit.h5"), "costs/read", 0) > 0);
  CU_ASSERT_TRUE(isnan(number_at(kv_tmp("misfit.h5"), "costs/saved", 1)) && isnan(number_at(kv_tmp("misfit.h5"), "costs/net", 1)));
  (void)snprintf(args, sizeof args, "whatif '%s' --pool 17 --policy vllm --no-report -o misfit.h5", sample);
  CU_ASSERT_EQUAL(run(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "-  does not fit (step 1)"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "No policy tried here fits this pool"));
  CU_ASSERT_PTR_NULL(strstr(out, "No policy tried here saves"));
  free(out);
  /* nothing saved and nothing moved is no reason against; of a card whose memory is assumed no bound is named */
  (void)snprintf(args, sizeof args, "whatif '%s' --gpu sm_120 --effect 0 --policy fifo --no-report -o same.h5", kv_source("traces/samples/single_long_eagle.h5"));
  CU_ASSERT_EQUAL(run(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "no effect"));
  CU_ASSERT_PTR_NULL(strstr(out, "don't"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "no bound, values of rtx_pro_6000_blackwell_ws's memory are assumed"));
  free(out);
  /* of three simulations one is the baseline, one the bound: one is a choice */
  (void)snprintf(args, sizeof args, "sweep '%s' --pool 1 --policy fifo,oracle --no-report -o misfits.h5", sample);
  CU_ASSERT_EQUAL(run(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "-   does not fit"));
  free(out);
  char verdict[512] = "";
  hid_t f = H5Fopen(kv_tmp("misfits.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_EQUAL(kv_h5_get_str(f, "verdict", verdict, sizeof verdict, NULL), KV_OK);
  H5Fclose(f);
  CU_ASSERT_EQUAL(strncmp(verdict, "0 of 1 combinations", 19), 0);
}

/* Every GPU that was asked for is in the JSON, with its own prices; the policies' own figures are the first one's. */
static void every_gpu_is_told(void) {
  char args[2048];
  (void)snprintf(args, sizeof args, "whatif '%s' --policy fifo,compact --gpu h200,sm_120 --json --no-report -o two.h5",
                 kv_source("traces/samples/single_long_eagle.h5"));
  json_t *j = json_of(args), *gpus = json_object_get(j, "gpus");
  CU_ASSERT_EQUAL_FATAL(json_array_size(gpus), 2);
  const json_t *first = json_array_get(gpus, 0), *second = json_array_get(gpus, 1);
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(first, "gpu")), "h200_sxm");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(second, "gpu")), "rtx_pro_6000_blackwell_ws");
  CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(json_object_get(j, "memory_model")), "gpus/memory_model"));
  CU_ASSERT_STRING_NOT_EQUAL(json_string_value(json_object_get(first, "memory_model")), json_string_value(json_object_get(second, "memory_model")));
  for (uint64_t i = 0; i < 3; i++) {
    const json_t *a = json_array_get(json_object_get(first, "policies"), i), *b = json_array_get(json_object_get(second, "policies"), i);
    const double one = json_number_value(json_object_get(a, "read_seconds")), two = json_number_value(json_object_get(b, "read_seconds"));
    CU_ASSERT(one == json_number_value(json_object_get(json_array_get(json_object_get(j, "policies"), i), "read_seconds")));
    CU_ASSERT(one > 0 && two > 1.5 * one && fabs(two / number_at(kv_tmp("two.h5"), "costs/read", 2 * i + 1) - 1) < 1e-6);
    CU_ASSERT(fabs(json_number_value(json_object_get(b, "net_seconds")) - number_at(kv_tmp("two.h5"), "costs/net", 2 * i + 1)) < 1e-6);
    CU_ASSERT(json_number_value(json_object_get(json_object_get(json_object_get(b, "kernels"), "split_verify"), "step_at_least_seconds")) > 0);
  }
  json_decref(j);
}

/* Kernels' figures are floors, and each says so where it stands. */
static void kernels_have_floors(void) {
  char args[2048], *out = NULL;
  const char *sample = kv_source("traces/samples/single_long_eagle.h5");
  (void)snprintf(args, sizeof args, "whatif '%s' --policy fifo --no-report -o fl.h5", sample);
  CU_ASSERT_EQUAL(run(&out, args), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "extend_serial    floor "));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "no time is\n  below them"));
  free(out);
  (void)snprintf(args, sizeof args, "whatif '%s' --policy fifo --json --no-report -o fl.h5", sample);
  json_t *j = json_of(args), *k = json_object_get(json_object_get(policy_of(j, "fifo"), "kernels"), "extend_serial");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(k, "kind")), "floor");
  CU_ASSERT(json_number_value(json_object_get(k, "step_at_least_seconds")) > 0);
  CU_ASSERT_PTR_NULL(json_object_get(k, "step_seconds"));
  json_decref(j);
}

/* A trace without decode steps reads nothing: no policy gains by that, and none is told to lose. */
static void without_reading_nothing_is_known(void) {
  char *out = NULL;
  CU_ASSERT_EQUAL(run(NULL, "synth random --rows 512 --requests 1 -q -o unread.h5"), 0);
  CU_ASSERT_EQUAL(run(&out, "whatif unread.h5 --policy fifo,compact --no-report -o unread.w.h5"), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "reads no rows in decode steps: what scatter costs, and what a policy saves, is not known."));
  CU_ASSERT_PTR_NULL(strstr(out, "can gain more"));
  free(out);
  json_t *j = json_of("whatif unread.h5 --policy fifo,compact --json --no-report -o unread.w.h5");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(policy_of(j, "fifo"), "verdict")), "not known");
  CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(policy_of(j, "as-recorded"), "verdict")), "baseline");
  json_decref(j);
}

/* What an interrupted sweep kept is never taken for another's, nor thrown away unasked. */
static void sweep_of_other_settings(void) {
  char *out = NULL;
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && mkdir -p o.h5", kv_tmp(".")), 0);
  CU_ASSERT_NOT_EQUAL(run(NULL, "sweep w.h5 --policy fifo,compact --layers 3 -q -o o.h5"), 0);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "cd '%s' && rmdir o.h5 && cksum <o.h5.unfinished", kv_tmp(".")), 0);
  expect("sweep w.h5 --policy fifo,vllm --layers 3 -q -o o.h5", 2,
         "o.h5.unfinished: holds 3 simulations of a sweep that was not finished, with other settings (--policy as-recorded,fifo,compact)");
  expect("sweep w.h5 --policy fifo,compact --pool 60k -q -o o.h5", 2, "(another --pool, --layers 3); give that command again");
  char *after = NULL;
  CU_ASSERT_EQUAL(kv_run(&after, NULL, "cksum <'%s'", kv_tmp("o.h5.unfinished")), 0);
  CU_ASSERT_STRING_EQUAL(out, after);
  free(out);
  free(after);
  CU_ASSERT_EQUAL(run(&out, "sweep w.h5 --policy fifo,vllm --layers 3 --no-report --restart -o o.h5"), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "3 simulations (0 kept from before)"));
  free(out);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls o.h5.unfinished", kv_tmp(".")), 2);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && echo something else >o.h5.unfinished", kv_tmp(".")), 0);
  expect("sweep w.h5 --policy fifo -q -o o.h5", 2, "is not what this kvsim keeps");
}

/* A trace that breaks off the sweep before anything is done leaves nothing to go on from. */
static void sweep_of_a_faulty_trace(void) {
  static const fx e[] = {FX_STEP(1), FX_ARRIVE(0, 4, 0), FX_START(0, 0, 0), FX_CALL(4, 1, 1), FX_EXTEND(0, 0, 1, 4, 1, 2, 3, 4),
                         FX_FREE(0, KVT_FREE_TAIL, -1, 4, 1, 2, 3, 4), FX_FREE(0, KVT_FREE_TAIL, -1, 4, 1, 2, 3, 4)};
  const kvt_info info = fx_info(KVT_ALLOC_TOKEN, 8, 1);
  CU_ASSERT_EQUAL_FATAL(fx_write(kv_tmp("faulty.h5"), &info, e, sizeof e / sizeof *e, NULL), KV_OK);
  expect("sweep faulty.h5 -q -o f.h5", 3, "faulty.h5");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls f.h5*", kv_tmp(".")), 2);
  /* what a good trace before it gave stays */
  expect("sweep w.h5 faulty.h5 --policy fifo -q -o f.h5", 3, "faulty.h5");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls f.h5.unfinished", kv_tmp(".")), 0);
}

/* Several traces: each is held against its own recording, and comes out as in a sweep of its own. */
static void sweep_of_traces(void) {
  const char *both = kv_tmp("t12.h5"), *second = kv_tmp("t2.h5");
  char name[64];
  expect("synth workload --actions 300 --seed 7 -o v.h5 -q", 0, "");
  expect("sweep w.h5 v.h5 w.h5 -q -o t.h5", 2, "given twice");
  expect("sweep w.h5 v.h5 -q -o v.h5", 2, "is the trace itself");
  expect("sweep w.h5 v.h5 --policy fifo,pages-16,vllm --gpu h200_sxm,sm_120 --no-report -q -o t12.h5", 0, "");
  expect("sweep v.h5 --policy fifo,pages-16,vllm --gpu h200_sxm,sm_120 --no-report -q -o t2.h5", 0, "");
  static const char *const figures[] = {"policies/runs", "policies/evicted", "costs/read", "costs/net"};
  for (size_t i = 0; i < 4; i++)
    for (uint64_t row = 0; row < (i < 2 ? 4u : 8u); row++) {
      (void)snprintf(name, sizeof name, "%s", figures[i]);
      CU_ASSERT_EQUAL(number_at(both, name, row + (i < 2 ? 4 : 8)), number_at(second, name, row));
    }
  CU_ASSERT_EQUAL(number_at(both, "policies/trace", 3), 0);
  CU_ASSERT_EQUAL(number_at(both, "policies/trace", 4), 1);
  CU_ASSERT_NOT_EQUAL(number_at(both, "policies/runs", 0), number_at(both, "policies/runs", 4));
  /* interrupted in the second trace, it goes on there */
  char *out = NULL;
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && mkdir -p t3.h5", kv_tmp(".")), 0);
  CU_ASSERT_NOT_EQUAL(run(NULL, "sweep w.h5 v.h5 --policy fifo,pages-16,vllm --gpu h200_sxm,sm_120 -q -o t3.h5"), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && rmdir t3.h5 && truncate -s -1000 t3.h5.unfinished", kv_tmp(".")), 0);
  CU_ASSERT_EQUAL(run(&out, "sweep w.h5 v.h5 --policy fifo,pages-16,vllm --gpu h200_sxm,sm_120 --no-report -o t3.h5"), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "8 simulations (7 kept from before), 2 traces"));
  free(out);
  expect("diff t12.h5 t3.h5", 0, "");
}

/* An interrupted sweep: what a first run kept is taken up, what was cut short is not. */
static void sweep(void) {
  char *out = NULL;
  expect("synth workload --actions 400 -o w.h5 -q", 0, "");
  expect("sweep w.h5 --pool 60k,65536 --gpu h200_sxm,sm_120 --no-report -q -o s1.h5", 0, "");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls s1.h5.unfinished", kv_tmp(".")), 2);
  CU_ASSERT_EQUAL(kv_run(&out, NULL,
                         "cd '%s' && (ulimit -f 1; %s sweep w.h5 --pool 60k,65536 --gpu h200_sxm,sm_120 -q -o /dev/full -J 1 2>/dev/null;"
                         " true)", kv_tmp("."), kv_program("kvsim")), 0);
  free(out);
  /* a state file as a killed sweep leaves it: run with an output that cannot be written, then cut its last record */
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && mkdir -p s2.h5", kv_tmp(".")), 0);
  CU_ASSERT_NOT_EQUAL(run(NULL, "sweep w.h5 --pool 60k,65536 --gpu h200_sxm,sm_120 -q -o s2.h5"), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && rmdir s2.h5 && truncate -s -1000 s2.h5.unfinished", kv_tmp(".")), 0);
  CU_ASSERT_EQUAL(run(&out, "sweep w.h5 --pool 60k,65536 --gpu h200_sxm,sm_120 --no-report -o s2.h5"), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "28 simulations (27 kept from before)"));
  free(out);
  expect("diff s1.h5 s2.h5", 0, "");
  expect("sweep w.h5 --policy best", 2, "known are");
  sweep_of_traces();
  sweep_of_other_settings();
  sweep_of_a_faulty_trace();
  expect("sweep w.h5 --gpu abacus", 2, "abacus");
}

static void usage(void) {
  expect("whatif", 2, "name a trace");
  expect("whatif nothing.h5", 5, "nothing.h5");
  expect("synth comb --rows 10 -o u.h5 -q", 0, "");
  expect("whatif u.h5 --policy best", 2, "known are as-recorded, fifo");
  expect("whatif u.h5 --row-bytes 0", 2, "--row-bytes");
  expect("whatif u.h5 --low-water 2", 2, "--low-water");
  expect("whatif u.h5 --high-water 0.01", 2, "--high-water");
  expect("whatif u.h5 --trace-out t.h5", 2, "needs one --policy");
  expect("whatif u.h5 -o u.h5", 2, "--output: is the trace itself");
  expect("whatif u.h5 --trace-out u.h5 --policy fifo", 2, "--trace-out: is the trace itself");
  expect("whatif u.h5 --trace-out t.h5 --policy fifo -o w.h5", 2, "leave --output out");
  expect("whatif u.h5 --pool 8 --policy pages-16", 2, "at least one page");
  expect("whatif u.h5 -q --no-report --pool 64 -o small.h5", 0, "");
  expect("whatif u.h5 --dry-run --policy fifo", 0, "");
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cd '%s' && ls u.kvwhatif*", kv_tmp(".")), 2);
}

void suite_whatif_cli(void) {
  static const kv_test_case cases[] = {{"samples come out as recorded", samples},
                                       {"the table says whose figures", the_table_says_whose_figures},
                                       {"an extend of one slot", extend_of_one}, {"all of RECORDINGS", all_in_folder},
                                       {"every policy", every_policy},
                                       {"a simulation written as a trace", reproduces},
                                       {"synth and diff", synth_and_diff},
                                       {"sweep goes on", sweep},
                                       {"a policy that does not fit", a_misfit_saves_nothing},
                                       {"no reading", without_reading_nothing_is_known},
                                       {"floors", kernels_have_floors},
                                       {"GPUs", every_gpu_is_told},
                                       {"usage", usage},
                                       {NULL, NULL}};
  kv_suite("whatif_cli", cases);
}
