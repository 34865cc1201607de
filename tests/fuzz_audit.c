/* libFuzzer harness of the audit: whatever bytes are in a file, it must neither crash nor hang nor leak.
 *
 * Input that starts with PK goes through the wheel reader, with CM, NJ or PY through the build-file readers (the rest
 * of the text), with SA through the reader of nvdisasm's output; anything else is an object: ELF, archive, fatbin, PTX.
 * `make fuzz-audit SECONDS=600` runs it on the fixtures. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit.h"
#include "audit_sass.h"
#include "audit_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge_all(kva_audit *audit) {
  kv_error err;
  char why[2048], rebuild[4096];
  if (kva_audit_families(audit, &err)) return;
  for (size_t i = 0; i < audit->files; i++) {
    kva_judgement j;
    if (kva_judge(audit, &audit->file[i], 120, NULL, &j, &err)) continue;
    for (size_t g = 0; g < j.groups; g++)
      kva_explain(audit, &audit->file[i], &j, &j.group[g], why, sizeof why, rebuild, sizeof rebuild);
    kva_judgement_free(&j);
  }
}

static void tell(kva_audit *audit) {
  FILE *null = fopen("/dev/null", "w");
  kva_tell t = {.sm = 120, .every_family = true};
  kv_error err;
  if (!null) return;
  (void)kva_tell_text(null, audit, &t, &err);
  (void)kva_tell_json(null, audit, &t, &err);
  (void)kva_tell_list(null, audit, &err);
  (void)fclose(null);
}

static void wheel(const uint8_t *data, size_t size) {
  char path[64];
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  int fd = memfd_create("wheel", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  if (!kva_audit_add(&audit, path, &options, &err)) judge_all(&audit);
  kva_audit_free(&audit);
  (void)close(fd);
}

static void object(const uint8_t *data, size_t size) {
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  if (!kva_audit_add_memory(&audit, "fuzz", data, size, &options, &err)) {
    judge_all(&audit);
    tell(&audit);
  }
  kva_audit_free(&audit);
}

static void build_file(const char *name, const uint8_t *data, size_t size) {
  kva_source source;
  kva_audit audit = {0};
  size_t gaps;
  kv_error err;
  FILE *null = fopen("/dev/null", "w");
  if (null && !kva_source_text(name, (const char *)data, size, &source, &err)) {
    (void)kva_tell_source(null, &source, &audit, 120, &gaps, &err);
    kva_source_free(&source);
  }
  if (null) (void)fclose(null);
}

static void ignore(void *context, const kva_sass_state *kernel) { *(uint64_t *)context |= kernel->features; }

static void listing(const uint8_t *data, size_t size) {
  char *text = strndup((const char *)data, size), *save = NULL;
  kva_sass_state *state = calloc(1, sizeof *state);
  uint64_t features = 0;
  for (char *line = text && state ? strtok_r(text, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
    kva_sass_line(line, state, ignore, &features);
  if (state) kva_sass_end(state, ignore, &features);
  free(state);
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct {
    const char *start, *name;
  } build[] = {{"CM", "CMakeLists.txt"}, {"NJ", "build.ninja"}, {"PY", "setup.py"}};
  if (size < 2) return 0;
  for (size_t i = 0; i < 3; i++)
    if (!memcmp(data, build[i].start, 2)) {
      build_file(build[i].name, data + 2, size - 2);
      return 0;
    }
  if (!memcmp(data, "PK", 2)) wheel(data, size);
  else if (!memcmp(data, "SA", 2)) listing(data + 2, size - 2);
  else object(data, size);
  return 0;
}
