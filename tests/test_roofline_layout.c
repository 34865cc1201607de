/* kvlayout-1 files: what is counted, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_h5.h"
#include "kv_test.h"
#include "layout.h"

typedef struct file {
  const char *name;
  const int32_t *slots;
  uint64_t tokens;
  const uint64_t *indptr;
  uint64_t bounds;
  int64_t pool_rows, row_bytes;
  uint64_t requests, tree;
} file;

static const int32_t slots[] = {5, 6, 7, 2, 7};
static const uint64_t indptr[] = {0, 3, 5};
static const file good = {"good.h5", slots, 5, indptr, 3, 8, 1152, 2, 18};

static const char *write_file(const file *f) {
  const int32_t zeros[64] = {0};
  const char *path = kv_tmp(f->name);
  kv_h5_out out;
  kv_status st = kv_h5_create(path, "kvlayout-1", "test", "test", &out, NULL);
  if (!st && f->pool_rows) st = kv_h5_put_i64(out.file, "pool_rows", f->pool_rows, NULL);
  if (!st) st = kv_h5_put_i64(out.file, "page_size", 1, NULL);
  if (!st) st = kv_h5_put_i64(out.file, "row_bytes", f->row_bytes, NULL);
  if (!st) st = kv_h5_put_i64(out.file, "step", 42, NULL);
  if (!st) st = kv_h5_put_str(out.file, "trace", "a trace", NULL);
  if (!st && f->slots)
    st = kv_h5_write(out.file, "slots", H5T_STD_I32LE, f->tokens, f->slots, "1", "slots", KV_H5_SMALL, NULL);
  if (!st)
    st = kv_h5_write(out.file, "indptr", H5T_STD_U64LE, f->bounds, f->indptr, "1", "bounds", KV_H5_SMALL,
                     NULL);
  if (!st)
    st = kv_h5_write(out.file, "request", H5T_STD_I32LE, f->requests, zeros, "1", "request", KV_H5_SMALL,
                     NULL);
  if (!st && f->tree)
    st = kv_h5_write(out.file, "tree_slots", H5T_STD_I32LE, f->tree, zeros, "1", "tree", KV_H5_SMALL, NULL);
  if (!st) st = kv_h5_commit(&out, NULL);
  CU_ASSERT_EQUAL_FATAL(st, KV_OK);
  return path;
}

/* Slots 5 6 7 and 2 7: rows 2, 5, 6, 7; runs 5-6-7, 2, 7. Rows of 1152 B are 36 whole sectors each. Rows of
 * 656 B cover sectors 41-61, 102-122, 123-143 and 143-163: 21 + 21 + 21 + 20, the shared one counted once. */
static void counts_by_hand(void) {
  kva_layout l;
  kva_layout_stats s;
  CU_ASSERT_EQUAL_FATAL(kva_layout_read(write_file(&good), &l, NULL), KV_OK);
  CU_ASSERT(l.requests == 2 && l.tokens == 5 && l.pool_rows == 8 && l.row_bytes == 1152 && l.step == 42);
  CU_ASSERT_STRING_EQUAL(l.trace, "a trace");
  CU_ASSERT_EQUAL_FATAL(kva_layout_count(&l, 1152, &s, NULL), KV_OK);
  CU_ASSERT(s.union_rows == 4 && s.runs == 3 && s.longest == 3 && s.sectors == 144);
  CU_ASSERT_EQUAL_FATAL(kva_layout_count(&l, 656, &s, NULL), KV_OK);
  CU_ASSERT_EQUAL(s.sectors, 83);
  kva_layout_free(&l);
}

/* The same counts by brute force over every sector, for row sizes that do and do not fill sectors. */
static void counts_by_brute_force(void) {
  enum { POOL = 400, N = 150 };
  static const uint32_t size[] = {1, 20, 32, 64, 100, 576, 584, 656, 1152};
  int32_t slot[N];
  uint64_t bounds[2] = {0, N};
  unsigned state = 7;
  for (int i = 0; i < N; i++) slot[i] = (int32_t)((state = state * 1664525u + 1013904223u) >> 16) % POOL;
  const kva_layout l = {.requests = 1, .tokens = N, .pool_rows = POOL, .slots = slot, .indptr = bounds};
  for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
    static unsigned char touched[POOL * 1152 / 32 + 1];
    uint64_t sectors = 0;
    kva_layout_stats s;
    memset(touched, 0, sizeof touched);
    for (int i = 0; i < N; i++)
      for (uint32_t b = 0; b < size[k]; b++) touched[((uint64_t)slot[i] * size[k] + b) / 32] = 1;
    for (size_t i = 0; i < sizeof touched; i++) sectors += touched[i];
    CU_ASSERT_EQUAL_FATAL(kva_layout_count(&l, size[k], &s, NULL), KV_OK);
    CU_ASSERT_EQUAL(s.sectors, sectors);
  }
}

static void an_empty_request_is_valid(void) {
  static const uint64_t none[] = {0, 0};
  const file f = {"empty.h5", slots, 0, none, 2, 8, 1152, 1, 0};
  kva_layout l;
  kva_layout_stats s;
  CU_ASSERT_EQUAL_FATAL(kva_layout_read(write_file(&f), &l, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_layout_count(&l, 1152, &s, NULL), KV_OK);
  CU_ASSERT(s.union_rows == 0 && s.runs == 0 && s.sectors == 0 && s.longest == 0);
  kva_layout_free(&l);
}

static void refuse(const file *f, const char *says) {
  kva_layout l;
  kv_error err = {KV_OK, ""};
  bool fine = kva_layout_read(write_file(f), &l, &err) == KV_ERR_INPUT && strstr(err.text, says) &&
              strstr(err.text, f->name);
  CU_ASSERT(fine);
  if (!fine) printf("%s: wanted '%s', got '%s'\n", f->name, says, err.text);
}

static void bad_indices_are_refused(void) {
  static const int32_t outside[] = {5, 6, 8, 2, 7}, negative[] = {5, -1, 7, 2, 7};
  static const uint64_t falling[] = {0, 4, 3}, late[] = {1, 3, 5}, shorter[] = {0, 3, 4},
                        longer[] = {0, 3, 6};
  file f = good;
  f.slots = outside, f.name = "outside.h5";
  refuse(&f, "slots[2] = 8");
  f.slots = negative, f.name = "negative.h5";
  refuse(&f, "slots[1] = -1");
  f = good, f.indptr = falling, f.name = "falling.h5";
  refuse(&f, "indptr[2]");
  f.indptr = late, f.name = "late.h5";
  refuse(&f, "indptr[0]");
  f.indptr = shorter, f.name = "shorter.h5";
  refuse(&f, "indptr[2] = 4");
  f.indptr = longer, f.name = "longer.h5";
  refuse(&f, "indptr[2] = 6");
  f = good, f.bounds = 1, f.name = "nobody.h5";
  refuse(&f, "indptr has 1 elements");
  f = good, f.requests = 3, f.name = "three.h5";
  refuse(&f, "request has 3");
  f = good, f.tree = 5, f.name = "tree.h5";
  refuse(&f, "tree_slots");
  f = good, f.slots = NULL, f.name = "noslots.h5";
  refuse(&f, "'slots' is missing");
  f = good, f.pool_rows = 0, f.name = "nopool.h5";
  refuse(&f, "'pool_rows' is missing");
  f = good, f.pool_rows = -5, f.name = "minus.h5";
  refuse(&f, "'pool_rows' is -5");
  f = good, f.pool_rows = INT64_MAX, f.name = "huge.h5";
  refuse(&f, "'pool_rows' is 9223372036854775807");
  f = good, f.row_bytes = 0, f.name = "norow.h5";
  refuse(&f, "'row_bytes' is 0");
}

static void other_files_are_refused(void) {
  kva_layout l;
  kv_error err;
  CU_ASSERT_EQUAL(kva_layout_read("/nonexistent", &l, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(kva_layout_read(kv_source("LICENSE"), &l, &err), KV_ERR_INPUT);
  kv_h5_out out;
  const char *path = kv_tmp("other.h5");
  CU_ASSERT_EQUAL(kv_h5_create(path, "kvsim-1", "test", "test", &out, NULL), KV_OK);
  CU_ASSERT_EQUAL(kv_h5_commit(&out, NULL), KV_OK);
  CU_ASSERT_EQUAL(kva_layout_read(path, &l, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "kvlayout-1"));
}

void suite_roofline_layout(void) {
  static const kv_test_case cases[] = {{"by hand", counts_by_hand},
                                       {"brute force", counts_by_brute_force},
                                       {"empty", an_empty_request_is_valid},
                                       {"bad indices", bad_indices_are_refused},
                                       {"other files", other_files_are_refused},
                                       {NULL, NULL}};
  kv_suite("roofline_layout", cases);
}
