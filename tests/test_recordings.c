/* Real recordings: every statistic that their makers computed, and the allocator's final free list.
 *
 * The samples shipped are always checked. With RECORDINGS=DIR in the environment (make test RECORDINGS=DIR), every
 * DIR/X.h5 that has an X.stats.json is imported (if it is not kvtrace-1 already), replayed and compared too.
 */
#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"

static json_t *replay_json(const char *trace) {
  char *out = NULL, *err = NULL;
  json_error_t where;
  int status = kv_run(NULL, &err, "%s replay '%s' --json --no-report --every 64 -o '%s' >'%s'", kv_program("kvsim"), trace,
                      kv_tmp("recording.kvsim.h5"), kv_tmp("recording.json"));
  CU_ASSERT_EQUAL(status, 0);
  if (status) fprintf(stderr, "%s: %s\n", trace, err);
  free(err);
  free(out);
  json_t *root = json_load_file(kv_tmp("recording.json"), 0, &where);
  CU_ASSERT_PTR_NOT_NULL(root);
  return root;
}

static long long integer(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }
static double real(const json_t *o, const char *key) { return json_number_value(json_object_get(o, key)); }

static bool same(const json_t *have, const json_t *want) {
  return integer(have, "step") == integer(want, "step") && integer(have, "rows") == integer(want, "L") &&
         integer(have, "runs") == integer(want, "runs") && integer(have, "span") == integer(want, "span") &&
         fabs(real(have, "mean_run") - real(want, "mean_run")) < 0.0051 &&
         fabs(real(have, "adjacent_fraction") - real(want, "adj")) < 0.0000051;
}

/* Each row of the one list has exactly one match in the other: same request, same event, same values. */
static void compare(const char *name, const json_t *milestones, const json_t *stats) {
  size_t n = json_array_size(stats), wrong = 0;
  json_t *index = json_object();
  for (size_t i = 0; i < json_array_size(milestones); i++) {
    char key[64];
    const json_t *m = json_array_get(milestones, i);
    (void)snprintf(key, sizeof key, "%lld %s", integer(m, "request"), json_string_value(json_object_get(m, "event")));
    CU_ASSERT_PTR_NULL(json_object_get(index, key));
    json_object_set(index, key, json_array_get(milestones, i));
  }
  for (size_t i = 0; i < n; i++) {
    char key[64];
    const json_t *want = json_array_get(stats, i);
    (void)snprintf(key, sizeof key, "%lld %s", integer(want, "req"), json_string_value(json_object_get(want, "tag")));
    const json_t *have = json_object_get(index, key);
    if (have && same(have, want)) continue;
    if (wrong++ < 5) fprintf(stderr, "%s: request %s differs\n", name, key);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(json_array_size(milestones), n);
  CU_ASSERT_TRUE(n > 0);
  json_decref(index);
}

static void check(const char *name, const char *trace, const char *stats_path) {
  json_error_t where;
  json_t *stats = json_load_file(stats_path, 0, &where), *root = replay_json(trace);
  CU_ASSERT_PTR_NOT_NULL(stats);
  if (stats && root) {
    compare(name, json_object_get(root, "milestones"), stats);
    CU_ASSERT_TRUE(json_is_true(json_object_get(json_object_get(root, "final_free_list"), "matches_recording")));
    CU_ASSERT_EQUAL(integer(root, "skipped_events"), 0);
  }
  json_decref(stats);
  json_decref(root);
}

static void check_sample(const char *name) {
  char trace[512], stats[512];
  (void)snprintf(trace, sizeof trace, "traces/samples/%s.h5", name);
  (void)snprintf(stats, sizeof stats, "tests/golden/%s.stats.json", name);
  char path[1024];
  (void)snprintf(path, sizeof path, "%s", kv_source(trace));
  check(name, path, kv_source(stats));
}

static void single_long_eagle(void) { check_sample("single_long_eagle"); }
static void mixed_eagle(void) { check_sample("mixed_eagle"); }
static void mixed_eagle_v2(void) { check_sample("mixed_eagle_v2"); }

static void check_file(const char *dir, const char *file) {
  char recording[1024], stats[1024], trace[1024];
  size_t stem = strlen(file) - 3;
  (void)snprintf(recording, sizeof recording, "%s/%s", dir, file);
  (void)snprintf(stats, sizeof stats, "%s/%.*s.stats.json", dir, (int)stem, file);
  (void)snprintf(trace, sizeof trace, "%s", kv_tmp("recording.h5"));
  FILE *there = fopen(stats, "r");
  if (!there) return;
  (void)fclose(there);
  printf("\n    %s ", file);
  if (kv_run(NULL, NULL, "%s info '%s'", kv_program("kvsim"), recording) == 0)
    (void)snprintf(trace, sizeof trace, "%s", recording);
  else
    CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s import -q '%s' -o '%s'", kv_program("kvsim"), recording, trace), 0);
  check(file, trace, stats);
}

static void all_in_folder(void) {
  const char *dir = getenv("RECORDINGS");
  if (!dir || !*dir) {
    printf("(none: make test RECORDINGS=DIR checks a folder of recordings) ");
    return;
  }
  DIR *d = opendir(dir);
  CU_ASSERT_PTR_NOT_NULL(d);
  unsigned checked = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    size_t n = strlen(e->d_name);
    if (n > 3 && !strcmp(e->d_name + n - 3, ".h5")) {
      check_file(dir, e->d_name);
      checked++;
    }
  }
  CU_ASSERT_TRUE(checked > 0);
  if (d) (void)closedir(d);
}

void suite_recordings(void) {
  static const kv_test_case cases[] = {{"single_long_eagle", single_long_eagle}, {"mixed_eagle", mixed_eagle},
                                       {"mixed_eagle_v2", mixed_eagle_v2},       {"all of RECORDINGS", all_in_folder},
                                       {NULL, NULL}};
  kv_suite("recordings", cases);
}
