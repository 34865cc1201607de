/* Fuzzes the reader with whole files: the bytes are a file, read to its end by the forked reader. HDF5 may crash on it,
 * in the child; the caller must get a status and a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char path[64];
  if (!path[0]) {
    strcpy(path, "/tmp/kvroof-fuzz-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0) abort();
    (void)close(fd);
    (void)setenv("KVROOF_GUARD_SECONDS", "5", 1);
  }
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(data, 1, size, f) != size) abort();
  (void)fclose(f);
  kvt_reader *reader;
  kvt_info info;
  kvt_batch batch;
  kv_error err = {KV_OK, ""};
  kv_status st = kvt_reader_open(path, &reader, &info, &err);
  if (!st) {
    while ((st = kvt_reader_next(reader, &batch, &err)) == KV_OK) continue;
    kvt_reader_close(reader);
  }
  if (st != KV_END && (st != KV_ERR_INPUT || !err.text[0])) abort();
  return 0;
}
