/* Live recordings: joining segments, and the recorder itself, which is Python and tested by tests/recorder/recorder_test.py:
 *   make test SGLANG_WHEELS=DIR [PYTHON=python3]   with sglang-*.whl files in DIR and torch and h5py in that Python;
 *   make test VLLM_WHEELS=DIR                      with vllm-*.whl files in DIR (vllm_test.py; torch is not needed). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "kv_test.h"
#include "trace_fixture.h"

/* A request of three tokens begins in the first segment and ends in the second. */
static const fx first_part[] = {FX_ARRIVE(0, 3, 2), FX_STEP_AVAILABLE(1, 13), FX_START(0, 0, 0), FX_CALL(3, 1, 1), FX_EXTEND(0, 0, 1, 3, 1, 2, 3)};
static const fx second_part[] = {FX_STEP_AVAILABLE(2, 12), FX_CALL(1, 1, 2), FX_DECODE(0, 3, 2, 4), FX_FINISH(0, 4)};

static const char *write_part(const char *name, const fx *events, uint32_t n, uint32_t pool) {
  const kvt_info info = fx_info(KVT_ALLOC_TOKEN, pool, 1);
  kv_error err;
  const char *path = kv_tmp(name);
  CU_ASSERT_EQUAL_FATAL(fx_write(path, &info, events, n, &err), KV_OK);
  return path;
}

static kv_status join(const char *prefix, const char *output, uint32_t *segments, kv_error *err) {
  const kvt_writer_options o = {.creator = "test", .command = "test"};
  *err = (kv_error){KV_OK, ""};
  return kvt_import_segments(kv_tmp(prefix), kv_tmp(output), &o, segments, err);
}

static void segments_join(void) {
  uint32_t n;
  kv_error err;
  char *out = NULL;
  (void)write_part("join.000000.h5", first_part, 5, 16);
  (void)write_part("join.000001.h5", second_part, 4, 16);
  CU_ASSERT_EQUAL(join("join", "joined.h5", &n, &err), KV_OK);
  CU_ASSERT_EQUAL(n, 2);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s replay '%s' --json --no-report -o '%s'", kv_program("kvsim"), kv_tmp("joined.h5"), kv_tmp("joined.k.h5")), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"requests_finished\": 1"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"slots_allocated\": 4"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"steps\": 2"));
  free(out);
}

static void segments_refused(void) {
  uint32_t n;
  kv_error err;
  CU_ASSERT_EQUAL(join("nothing", "nothing.h5", &n, &err), KV_ERR_IO);
  (void)write_part("gap.000000.h5", first_part, 5, 16);
  (void)write_part("gap.000002.h5", second_part, 4, 16);
  CU_ASSERT_EQUAL(join("gap", "gap.h5", &n, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "gap.000001.h5"));
  (void)write_part("other.000000.h5", first_part, 5, 16);
  (void)write_part("other.000001.h5", second_part, 4, 17);
  CU_ASSERT_EQUAL(join("other", "other.h5", &n, &err), KV_ERR_INPUT);
  FILE *f = fopen(kv_tmp("cut.000000.h5"), "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs("\211HDF\r\n\032\n and no more", f);
  (void)fclose(f);
  CU_ASSERT_EQUAL(join("cut", "cut.out.h5", &n, &err), KV_ERR_INPUT);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "ls '%s' '%s' '%s'", kv_tmp("gap.h5"), kv_tmp("other.h5"), kv_tmp("cut.out.h5")), 2); /* none is there */
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s import --segments '%s' --pool 4", kv_program("kvsim"), kv_tmp("join")), 2);
}

static void recorder(void) {
  const char *wheels = getenv("SGLANG_WHEELS"), *python = getenv("PYTHON");
  char *out = NULL, *err = NULL;
  if (!wheels || !*wheels) {
    printf("(skipped: make test SGLANG_WHEELS=DIR, a folder of sglang-*.whl) ");
    return;
  }
  int status = kv_run(&out, &err, "%s '%s' '%s' '%s'/sglang-*.whl", python && *python ? python : "python3",
                      kv_source("tests/recorder/recorder_test.py"), kv_program("kvsim"), wheels);
  printf("\n%s", out);
  if (status != 0 && status != 77) fprintf(stderr, "%s", err);
  CU_ASSERT_TRUE(status == 0 || status == 77);
  free(out);
  free(err);
}

static void vllm(void) {
  const char *wheels = getenv("VLLM_WHEELS"), *python = getenv("PYTHON");
  char *out = NULL, *err = NULL;
  if (!wheels || !*wheels) {
    printf("(skipped: make test VLLM_WHEELS=DIR, a folder of vllm-*.whl) ");
    return;
  }
  int status = kv_run(&out, &err, "%s '%s' '%s' '%s'/vllm-*.whl", python && *python ? python : "python3",
                      kv_source("tests/recorder/vllm_test.py"), kv_program("kvsim"), wheels);
  printf("\n%s", out);
  if (status != 0 && status != 77) fprintf(stderr, "%s", err);
  CU_ASSERT_TRUE(status == 0 || status == 77);
  free(out);
  free(err);
}

/* A recording of vLLM's pool: its order is followed, and the policy that imitates it does what it did. */
static void vllm_sample(void) {
  const char *sample = kv_source("traces/samples/vllm_eagle.h5");
  char *out = NULL;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s replay '%s' --json --no-report -o '%s'", kv_program("kvsim"), sample, kv_tmp("vllm.k.h5")), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"matches_recording\": true"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"requests_finished\": 60"));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"requests_retracted\": 8"));
  free(out);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s whatif '%s' --policy as-recorded,vllm --json --no-report -o '%s'", kv_program("kvsim"), sample, kv_tmp("vllm.w.h5")), 0);
  json_t *j = json_loads(out, 0, NULL);
  const json_t *policies = json_object_get(j, "policies"), *own = json_array_get(policies, 0), *like = json_array_get(policies, 1);
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(j, "mismatches")), 0);
  CU_ASSERT_TRUE(json_is_true(json_object_get(j, "final_lists_match")));
  CU_ASSERT(json_integer_value(json_object_get(own, "runs")) > 0);
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(own, "runs")), json_integer_value(json_object_get(like, "runs")));
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(like, "evicted")), 0);
  json_decref(j);
  free(out);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s whatif '%s' --policy as-recorded --trace-out '%s' -q", kv_program("kvsim"), sample, kv_tmp("vllm.told.h5")), 0);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s replay '%s' --json --no-report -o '%s'", kv_program("kvsim"), kv_tmp("vllm.told.h5"), kv_tmp("vllm.k2.h5")), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"allocator\": \"vllm-front\""));
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "\"matches_recording\": true"));
  free(out);
}

void suite_recorder(void) {
  static const kv_test_case cases[] = {{"segments join", segments_join}, {"segments refused", segments_refused}, {"vLLM sample", vllm_sample},
                                       {"recorder", recorder}, {"vLLM recorder", vllm}, {NULL, NULL}};
  kv_suite("recorder", cases);
}
