/* `roofline audit` as a user runs it. */
#include <hdf5.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_h5.h"
#include "kv_test.h"

/* Runs `roofline audit ARGS` among the fixtures. */
static int audit(const char *args, char **out, char **err) {
  return kv_run(out, err, "cd %s && %s audit -q %s", kv_source("tests/golden/audit"), kv_program("roofline"), args);
}

static void expect(const char *args, int status, const char *in_out, const char *in_err) {
  char *out, *err;
  int got = audit(args, &out, &err);
  bool fine = got == status && (!in_out || strstr(out, in_out)) && (!in_err || strstr(err, in_err));
  CU_ASSERT(fine);
  if (!fine) printf("roofline audit %s: status %d\n--- stdout\n%s--- stderr\n%s", args, got, out, err);
  free(out);
  free(err);
}

static void exit_statuses_are_the_documented_ones(void) {
  expect("full.so --gpu sm_120", 0, "asked about: sm_120 (compute capability 12.0), 101376 bytes", NULL);
  expect("full.so --gpu 12.0", 0, "asked about: sm_120", NULL);
  expect("full.so --gpu h200", 0, "asked about: sm_90", NULL);
  expect("", 2, NULL, "name a file");
  expect("full.so --gpu nope", 2, NULL, "nope");
  expect("full.so --gpu sm_120 --kernels '('", 2, NULL, "regular expression");
  expect("--diff full.so", 2, NULL, "exactly two");
  expect("full.so --check", 2, NULL, "--gpu");
  expect("full.so --sass", 2, NULL, "--kernels");
  expect("full.so --bogus", 2, NULL, "bogus");
  expect("/nonexistent/x.so", 5, NULL, "/nonexistent/x.so: No such file");
  expect("full.so -o /nonexistent/x.h5", 5, NULL, "/nonexistent/x.h5");
  expect("full.so --gpu sm_120 >/dev/full", 5, NULL, "standard output");
  expect("full.so --gpu sm_120 --kernels merge --check", 0, NULL, NULL);
  expect("full.so --gpu sm_120 --check", 1, NULL, "4 of 8 kernels do not run on sm_120");
  expect("full.so --gpu sm_120 --kernels nothing_is_called_so --check", 1, NULL, "no kernel");
  expect("fixture.cu --gpu sm_120", 0, "no device code found", NULL);
}

/* tuned.so: PTX for all, a kernel built for 8.x alone, one for 12.x alone, each a fatbin of its own in .ldata. What has neither
 * machine code nor PTX for the GPU is named, though a library that picks by itself may never ask for it. */
static void check_names_the_kernels_that_do_not_run(void) {
  expect("tuned.so --gpu sm_120 --check", 1, "cannot run: kvfix::tuned<80>  (code sm_80)",
         "1 of 3 kernels do not run on sm_120; the first is kvfix::tuned<80>; in plain data, where the library picks for the GPU it finds: 1");
  expect("tuned.so --gpu sm_89 --check", 1, "cannot run: kvfix::tuned<120>  (code sm_120)", "1 of 3 kernels");
  expect("tuned.so --gpu sm_75 --check", 1, NULL, "2 of 3 kernels do not run on sm_75");
  expect("tuned.so --gpu sm_120 --kernels 'tuned<(0|120)>' --check", 0, "3 of 3 entries lie in plain data", NULL);
  char *out, *err;
  CU_ASSERT_EQUAL(audit("full.so --gpu sm_120 --check --json", &out, &err), 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(err, "; the first is kvfix::"));
  CU_ASSERT_PTR_NULL(strstr(err, "plain data"));
  json_t *root = json_loads(out, 0, NULL), *kernels = json_object_get(json_array_get(json_object_get(root, "files"), 0), "kernels");
  CU_ASSERT_EQUAL(json_array_size(kernels), 4); /* of 8: those that do not run */
  json_decref(root);
  free(out);
  free(err);
}

static void damage_is_told_and_ends_with_3(void) {
  char args[1024];
  char *out, *err;
  CU_ASSERT_EQUAL(kv_run(&out, &err, "cd %s && head -c 9000 zstd.fatbin | sed 's/(\\xb5/(\\xb6/' >%s && head -c 60 two.whl >%s",
                         kv_source("tests/golden/audit"), kv_tmp("cut.fatbin"), kv_tmp("cut.whl")), 0);
  free(out);
  free(err);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "head -c 3000 %s >%s", kv_source("tests/golden/audit/zstd.fatbin"), kv_tmp("cut.fatbin")), 0);
  (void)snprintf(args, sizeof args, "%s --gpu sm_120", kv_tmp("cut.fatbin"));
  expect(args, 3, "not read", "reaches past");
  (void)snprintf(args, sizeof args, "%s --gpu sm_120", kv_tmp("cut.whl"));
  expect(args, 3, "not read", "not a whole zip");
  (void)snprintf(args, sizeof args, "full.so %s --gpu sm_120 --kernels merge", kv_tmp("cut.whl"));
  expect(args, 3, "runs natively: kvfix::merge", "cut.whl"); /* what could be read is told all the same */
}

static void the_map_covers_a_set_of_libraries(void) {
  expect("full.so two.whl", 0, "pkg/plain.fatbin                                        8", NULL);
  expect("lz4.fatbin hopper_ops.abi3.so", 0, "sm_120", NULL);
}

static json_t *json(const char *args) {
  char *out, *err;
  CU_ASSERT_EQUAL(audit(args, &out, &err), 0);
  json_t *root = json_loads(out, 0, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(root);
  free(out);
  free(err);
  return root;
}

static const char *text(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }

static void json_holds_entries_map_and_families(void) {
  json_t *root = json("hopper_ops.abi3.so --gpu sm_120 --json --kernels merge");
  CU_ASSERT_STRING_EQUAL(text(root, "schema"), "audit-1");
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "schema_version")), 1);
  CU_ASSERT_STRING_EQUAL(text(root, "gpu"), "sm_120");
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "shared_bytes_per_block")), 101376);
  json_t *file = json_array_get(json_object_get(root, "files"), 0);
  CU_ASSERT_EQUAL(json_array_size(json_object_get(file, "entries")), 2);
  CU_ASSERT_STRING_EQUAL(text(json_array_get(json_object_get(file, "entries"), 0), "target"), "sm_90a");
  json_t *kernel = json_array_get(json_object_get(file, "kernels"), 0);
  CU_ASSERT_STRING_EQUAL(text(kernel, "name"), "kvfix::merge");
  CU_ASSERT_STRING_EQUAL(text(kernel, "verdict"), "cannot-run");
  CU_ASSERT_STRING_EQUAL(text(kernel, "rebuild"), "flag");
  CU_ASSERT_EQUAL(json_array_size(json_object_get(kernel, "variants")), 2);
  json_t *on90 = json_object_get(json_object_get(file, "map"), "sm_90");
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(on90, "native")), 1);
  json_decref(root);
  root = json("--diff hopper_ops.abi3.so full.so --gpu sm_120 --json");
  CU_ASSERT_STRING_EQUAL(text(root, "schema"), "audit-diff-1");
  json_decref(root);
}

static uint64_t rows(hid_t file, const char *name) {
  hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
  hssize_t n = H5Sget_simple_extent_npoints(space);
  (void)H5Sclose(space);
  (void)H5Dclose(set);
  return n < 0 ? 0 : (uint64_t)n;
}

static void the_dataset_holds_the_same(void) {
  char args[1024], name[64];
  (void)snprintf(args, sizeof args, "full.so two.whl --gpu sm_120 -o %s", kv_tmp("a.h5"));
  expect(args, 0, NULL, NULL);
  kv_error err;
  hid_t file = H5Fopen(kv_tmp("a.h5"), H5F_ACC_RDONLY, H5P_DEFAULT);
  CU_ASSERT_FATAL(file >= 0);
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "Conventions", name, sizeof name, &err), KV_OK);
  CU_ASSERT_STRING_EQUAL(name, "audit-1");
  CU_ASSERT_EQUAL(kv_h5_get_str(file, "gpu", name, sizeof name, &err), KV_OK);
  CU_ASSERT_STRING_EQUAL(name, "sm_120");
  CU_ASSERT_EQUAL(rows(file, "files/name"), 3);
  CU_ASSERT_EQUAL(rows(file, "entries/target"), 10);
  CU_ASSERT_EQUAL(rows(file, "map/native"), 30);
  CU_ASSERT_EQUAL(rows(file, "families/why"), 21);
  (void)H5Fclose(file);
}

/* Our count of instructions against nvdisasm's, kernel by kernel, where nvdisasm is installed: a difference would be
 * listed as a problem and end with 3. */
static void nvdisasm_counts_the_same(void) {
  if (kv_run(NULL, NULL, "command -v nvdisasm >/dev/null") != 0) {
    printf("(no nvdisasm here: left out) ");
    return;
  }
  expect("full.so --gpu sm_120 --kernels . --sass", 0, "instructions (by nvdisasm): wgmma x96", NULL);
}

void suite_audit_cli(void) {
  static const kv_test_case cases[] = {{"exit statuses", exit_statuses_are_the_documented_ones},
                                       {"--check", check_names_the_kernels_that_do_not_run},
                                       {"damage", damage_is_told_and_ends_with_3},
                                       {"map", the_map_covers_a_set_of_libraries},
                                       {"JSON", json_holds_entries_map_and_families},
                                       {"dataset", the_dataset_holds_the_same},
                                       {"nvdisasm", nvdisasm_counts_the_same},
                                       {NULL, NULL}};
  kv_suite("audit_cli", cases);
}
