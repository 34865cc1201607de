#include "kv_test.h"

#include <CUnit/Basic.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_version.h"

void register_suites(void);
#pragma weak register_suites /* the benchmarks link this file too, without a registry */

static char scratch[64];

static int remove_one(const char *path, const struct stat *sb, int type, struct FTW *ftw) {
  (void)sb, (void)type, (void)ftw;
  return remove(path);
}

static void remove_scratch(void) {
  if (scratch[0]) (void)nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static char *next_text(void) {
  static char text[512][1024];
  static unsigned next;
  return text[next++ % 512];
}

const char *kv_tmp(const char *name) {
  static pid_t owner;
  if (!scratch[0]) {
    strcpy(scratch, "/tmp/kvroof-test-XXXXXX");
    if (!mkdtemp(scratch)) abort();
    owner = getpid();
    if (owner) (void)atexit(remove_scratch);
  }
  char *text = next_text();
  (void)snprintf(text, 1024, "%s/%s", scratch, name);
  return text;
}

const char *kv_source(const char *relative) {
  char *text = next_text();
  (void)snprintf(text, 1024, "%s/%s", KV_SOURCE_DIR, relative);
  return text;
}

const char *kv_program(const char *name) {
  char *text = next_text();
  const char *build = getenv("KVROOF_BUILD");
  (void)snprintf(text, 1024, "%s/%s", build ? build : KV_SOURCE_DIR "/build", name);
  return text;
}

static char *read_whole(const char *path) {
  const size_t limit = 1u << 20;
  char *text = calloc(1, limit + 1);
  FILE *f = fopen(path, "rb");
  if (!text) abort();
  if (f) {
    size_t got = fread(text, 1, limit, f);
    text[got] = '\0';
    (void)fclose(f);
  }
  return text;
}

int kv_run(char **out, char **err, const char *format, ...) {
  char command[8192], line[12000], out_path[1024], err_path[1024];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(command, sizeof command, format, args);
  va_end(args);
  strcpy(out_path, kv_tmp("run.out"));
  strcpy(err_path, kv_tmp("run.err"));
  (void)snprintf(line, sizeof line, "{ %s ; } >%s.1 2>%s </dev/null", command, out_path, err_path);
  int status = system(line);
  (void)snprintf(line, sizeof line, "%s.1", out_path);
  if (out) *out = read_whole(line);
  if (err) *err = read_whole(err_path);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool kv_same_as_golden(const char *path, const char *name) {
  char golden[1024], line[4096];
  const char *update = getenv("KVROOF_UPDATE_GOLDEN");
  (void)snprintf(golden, sizeof golden, "%s/tests/golden/%s", KV_SOURCE_DIR, name);
  if (update && *update == '1') {
    (void)snprintf(line, sizeof line, "mkdir -p $(dirname %s) && cp %s %s", golden, path, golden);
    if (system(line)) fprintf(stderr, "golden file %s could not be written\n", golden);
    fprintf(stderr, "golden file %s rewritten\n", golden);
    return false;
  }
  (void)snprintf(line, sizeof line, "diff -u %s %s | head -40 >&2; cmp -s %s %s", golden, path, golden, path);
  return system(line) == 0;
}

void kv_suite(const char *name, const kv_test_case *cases) {
  CU_pSuite suite = CU_add_suite(name, NULL, NULL);
  if (!suite) abort();
  for (; cases->name; cases++)
    if (!CU_add_test(suite, cases->name, cases->run)) abort();
}

static int run_named(int n, char **names) {
  for (int i = 0; i < n; i++) {
    CU_pSuite suite = CU_get_suite(names[i]);
    if (!suite) {
      fprintf(stderr, "run-tests: no suite named %s\n", names[i]);
      return 2;
    }
    (void)CU_basic_run_suite(suite);
  }
  return 0;
}

int main(int argc, char **argv) __attribute__((weak));
int main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  if (CU_initialize_registry() != CUE_SUCCESS) return 5;
  if (register_suites) register_suites();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  int bad = 0;
  if (argc > 1)
    bad = run_named(argc - 1, argv + 1);
  else
    (void)CU_basic_run_tests();
  unsigned failed = CU_get_number_of_failures() + CU_get_number_of_suites_failed();
  unsigned ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  return bad ? bad : failed || !ran;
}
