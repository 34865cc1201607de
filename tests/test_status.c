/* kv_status and the command-line helpers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kv_status.h"
#include "kv_test.h"

static void exit_statuses_are_the_documented_ones(void) {
  CU_ASSERT_EQUAL(kv_exit_status(KV_OK), 0);
  CU_ASSERT_EQUAL(kv_exit_status(KV_ERR_BAR), 1);
  CU_ASSERT_EQUAL(kv_exit_status(KV_ERR_USAGE), 2);
  CU_ASSERT_EQUAL(kv_exit_status(KV_ERR_INPUT), 3);
  CU_ASSERT_EQUAL(kv_exit_status(KV_ERR_DEVICE), 4);
  CU_ASSERT_EQUAL(kv_exit_status(KV_ERR_IO), 5);
}

static void an_error_is_one_line(void) {
  kv_error err;
  CU_ASSERT_EQUAL(kv_fail(&err, KV_ERR_INPUT, "%s: bad", "a\nb"), KV_ERR_INPUT);
  CU_ASSERT_STRING_EQUAL(err.text, "a b: bad");
}

static void counts_take_suffixes_and_refuse_nonsense(void) {
  static const struct {
    const char *text;
    kv_status status;
    uint64_t value;
  } c[] = {{"131072", KV_OK, 131072}, {"128Ki", KV_OK, 131072}, {"2M", KV_OK, 2000000}, {"", KV_ERR_USAGE, 0},
           {"-1", KV_ERR_USAGE, 0},   {"1e3", KV_ERR_USAGE, 0}, {"4kk", KV_ERR_USAGE, 0},
           {"99999999999999999999", KV_ERR_USAGE, 0}, {"18446744073709551615G", KV_ERR_USAGE, 0}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    uint64_t v = 0;
    CU_ASSERT_EQUAL(kv_cli_count(c[i].text, "--n", 0, UINT64_MAX, &v, NULL), c[i].status);
    CU_ASSERT_EQUAL(v, c[i].value);
  }
  uint64_t v = 0;
  CU_ASSERT_EQUAL(kv_cli_count("0", "--every", 1, 10, &v, NULL), KV_ERR_USAGE);
}

/* Histories keep what was run, without the folders of the machine. */
static void command_lines_leave_folders_out(void) {
  static const struct {
    const char *word, *kept;
  } c[] = {{"models/a.h5", "models/a.h5"},
           {"./a.h5", "./a.h5"},
           {"../x/a.h5", "../x/a.h5"},
           {"/root/out/a.h5", "a.h5"},
           {"/root/out/", "out/"},
           {"--out=/tmp/a.h5", "--out=a.h5"},
           {"-o/tmp/a.h5", "-oa.h5"},
           {"/a/b.h5,/c/d.h5", "b.h5,d.h5"},
           {"/", "/"},
           {"https://x/y", "https://x/y"},
           {"4096:189440", "4096:189440"},
           {"/r t/it's a.h5", "'it'\\''s a.h5'"},
           {"", "''"},
           {"//a//b", "b"}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    char word[40], expect[80], program[] = "/usr/local/bin/kvsim replay", last[] = "-q";
    char *argv[] = {program, word, last};
    (void)snprintf(word, sizeof word, "%s", c[i].word);
    (void)snprintf(expect, sizeof expect, "kvsim replay %s -q", c[i].kept);
    char *line = kv_cli_command_line(3, argv);
    CU_ASSERT_STRING_EQUAL(line, expect);
    free(line);
  }
}

void suite_status(void) {
  static const kv_test_case cases[] = {{"exit statuses", exit_statuses_are_the_documented_ones},
                                       {"one line", an_error_is_one_line},
                                       {"counts", counts_take_suffixes_and_refuse_nonsense},
                                       {"command lines", command_lines_leave_folders_out},
                                       {NULL, NULL}};
  kv_suite("status", cases);
}
