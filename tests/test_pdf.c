/* The date in PDFs that cairo 1.18 wrote (golden/reports: one plot, drawn at two times by gnuplot 6; the packed dates have other
 * lengths). What cairo 1.16 writes is in suite reports. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kv_test.h"
#include "kvr_pdf.h"

enum { WHEN = 1700000000 }; /* 2023-11-14 22:13:20 */

static const char *copy_of(const char *golden, const char *to) {
  CU_ASSERT_EQUAL_FATAL(kv_run(NULL, NULL, "cp '%s' '%s'", kv_source(golden), kv_tmp(to)), 0);
  return kv_tmp(to);
}

static const char *dated(const char *golden, const char *to) {
  const char *path = copy_of(golden, to);
  kv_error err;
  CU_ASSERT_EQUAL(kvr_pdf_set_date(path, WHEN, &err), KV_OK);
  return path;
}

static void the_clock_leaves_no_trace(void) {
  const char *a = dated("tests/golden/reports/packed-1.pdf", "1.pdf"), *b = dated("tests/golden/reports/packed-2.pdf", "2.pdf");
  CU_ASSERT_NOT_EQUAL(kv_run(NULL, NULL, "cmp -s '%s' '%s'", kv_source("tests/golden/reports/packed-1.pdf"), a), 0);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cmp '%s' '%s'", a, b), 0);
  kv_error err;
  CU_ASSERT_EQUAL(kvr_pdf_set_date(a, WHEN, &err), KV_OK);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "cmp '%s' '%s'", a, b), 0); /* a second time changes nothing */
}

/* poppler follows the table of offsets and warns where an object is not found there. */
static void readers_find_every_object(void) {
  char *out, *err;
  const char *path = dated("tests/golden/reports/packed-2.pdf", "read.pdf");
  int status = kv_run(&out, &err, "TZ=UTC pdfinfo -isodates '%s' && TZ=UTC pdftotext '%s' -", path, path);
  if (status == 127) printf("(no poppler here: left out) ");
  else {
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "2023-11-14T22:13:20"));
    CU_ASSERT_STRING_EQUAL(err, "");
  }
  free(out);
  free(err);
  char tail[64] = "";
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fseek(f, -40, SEEK_END), 0);
  size_t n = fread(tail, 1, 40, f);
  const char *start = n == 40 ? memmem(tail, n, "startxref\n", 10) : NULL;
  CU_ASSERT_PTR_NOT_NULL_FATAL(start);
  CU_ASSERT_EQUAL(fseek(f, strtol(start + 10, NULL, 10), SEEK_SET), 0);
  n = fread(tail, 1, 40, f);
  CU_ASSERT_PTR_NOT_NULL(memmem(tail, n, " 0 obj\n<< /Type /XRef", 21));
  (void)fclose(f);
}

static size_t read_file(const char *path, unsigned char *data, size_t room) {
  FILE *f = fopen(path, "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(data, 1, room, f);
  (void)fclose(f);
  return n;
}

/* Writes `size` bytes to a file and has it dated. */
static const char *date_bytes(const unsigned char *data, size_t size) {
  const char *path = kv_tmp("bytes.pdf");
  kv_error err;
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(data, 1, size, f), size);
  (void)fclose(f);
  CU_ASSERT_EQUAL(kvr_pdf_set_date(path, WHEN, &err), KV_OK);
  return path;
}

static void other_forms_are_left_alone(void) {
  unsigned char whole[4096], now[8192];
  kv_error err;
  size_t size = read_file(kv_source("tests/golden/reports/packed-1.pdf"), whole, sizeof whole);
  for (size_t cut = 1; cut < size; cut += 7) {
    size_t n = read_file(date_bytes(whole, cut), now, sizeof now);
    CU_ASSERT(n == cut && !memcmp(now, whole, cut));
  }
  CU_ASSERT_EQUAL(kvr_pdf_set_date(kv_tmp("absent.pdf"), WHEN, &err), KV_ERR_IO);
}

static void changed_bytes_end_quietly(void) {
  unsigned char whole[4096];
  size_t size = read_file(kv_source("tests/golden/reports/packed-1.pdf"), whole, sizeof whole);
  for (size_t at = 0; at < size; at++) {
    whole[at] ^= 0x11;
    (void)date_bytes(whole, size);
    whole[at] ^= 0x11;
  }
}

void suite_pdf(void) {
  static const kv_test_case cases[] = {{"the clock leaves no trace", the_clock_leaves_no_trace},
                                       {"readers find every object", readers_find_every_object},
                                       {"other forms are left alone", other_forms_are_left_alone},
                                       {"changed bytes", changed_bytes_end_quietly},
                                       {NULL, NULL}};
  kv_suite("pdf", cases);
}
