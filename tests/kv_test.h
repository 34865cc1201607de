/* kv_test.h - what the test modules share: the CUnit runner's helpers and running our own programs.
 *
 * A module tests/test_foo.c defines `void suite_foo(void)`, which adds one CUnit suite named "foo". The runner
 * (kv_test.c) runs every suite, or those named on its command line, and ends with CUnit's summary.
 */
#ifndef KV_TEST_H
#define KV_TEST_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <stddef.h>

/* Adds a suite from a table of {name, function} ended by {NULL, NULL}. */
typedef struct kv_test_case {
  const char *name;
  void (*run)(void);
} kv_test_case;
void kv_suite(const char *name, const kv_test_case *cases);

/* A scratch folder for the running test process, removed at exit. kv_tmp("a.h5") gives a path in it; the
 * string is static storage for the next 512 calls. */
const char *kv_tmp(const char *name);
/* A path in the source tree ("traces/samples/x.h5"); same storage rule. */
const char *kv_source(const char *relative);
/* A program of the build under test ("kvsim"); same storage rule. */
const char *kv_program(const char *name);

/* Runs a shell command line; stdout and stderr (each cut at 1 MiB) are returned in malloc'd strings that the
 * caller frees; either pointer may be NULL. Returns the exit status, or 128 + the signal. */
int kv_run(char **out, char **err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Compares file `path` with the golden file tests/golden/`name`; with KVROOF_UPDATE_GOLDEN=1 set, rewrites the
 * golden file instead and fails the test, so that an update is never silent. */
bool kv_same_as_golden(const char *path, const char *name);

#endif
