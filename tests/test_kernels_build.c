/* What the compiler says of the kernels, for every GPU they are built for: no spills, shared memory within a block's limit.
 * Needs a build with nvcc; without one there is nothing to read and the suite says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "attn_shape.h"
#include "kv_test.h"

typedef struct report {
  unsigned entries, spills, stacks, too_much_shared, empty_tiles;
  unsigned arch[8], archs;
} report;

static const unsigned wanted[] = {80, 86, 89, 90, 100, 120};

static void note_arch(report *r, unsigned arch) {
  for (unsigned i = 0; i < r->archs; i++)
    if (r->arch[i] == arch) return;
  if (r->archs < 8) r->arch[r->archs++] = arch;
}

/* ptxas -v: "Compiling entry function 'NAME' for 'sm_90'", "N bytes stack frame, N bytes spill stores, N bytes spill
 * loads", "Used N registers, used N barriers[, N bytes smem]". */
static void read_report(const char *path, report *r) {
  char line[2048], name[1024] = "";
  unsigned arch = 0, stack, stores, loads, registers, shared;
  FILE *f = fopen(path, "r");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  while (fgets(line, sizeof line, f)) {
    const char *at = strstr(line, "Compiling entry function");
    if (at && sscanf(at, "Compiling entry function '%1023[^']' for 'sm_%u", name, &arch) == 2) {
      r->entries++;
      note_arch(r, arch);
    }
    if (sscanf(line, " %u bytes stack frame, %u bytes spill stores, %u bytes spill loads", &stack, &stores, &loads) == 3) {
      if (stores || loads) (void)fprintf(stderr, "%s, sm_%u: spills %u + %u bytes\n", name, arch, stores, loads);
      r->spills += stores || loads;
      r->stacks += stack != 0;
    }
    if ((at = strstr(line, "Used ")) && sscanf(at, "Used %u registers", &registers) == 1) {
      const bool tile64 = strstr(name, "ex_kernelILi64E") != NULL, small = arch == 86 || arch == 89 || arch >= 120;
      if (tile64 && small) r->empty_tiles += registers < 32; /* an empty body: the tile is not built there */
      at = strstr(line, " bytes smem");
      while (at && at > line && at[-1] >= '0' && at[-1] <= '9') at--;
      shared = at ? (unsigned)strtoul(at, NULL, 10) : 0;
      r->too_much_shared += shared > KVK_SMEM_LIMIT;
    }
  }
  (void)fclose(f);
}

static void resources(void) {
  static const char *const files[] = {"kernels/split_verify.ptxas", "kernels/extend_serial.ptxas", "kernels/merge_state.ptxas"};
  report r = {0};
  FILE *f = fopen(kv_program(files[0]), "r");
  if (!f) {
    (void)fprintf(stderr, "kernels_build: skipped, this build has no CUDA\n");
    return;
  }
  (void)fclose(f);
  for (size_t i = 0; i < 3; i++) read_report(kv_program(files[i]), &r);
  CU_ASSERT(r.entries > 0);
  CU_ASSERT_EQUAL(r.spills, 0);
  CU_ASSERT_EQUAL(r.stacks, 0);
  CU_ASSERT_EQUAL(r.too_much_shared, 0);
  if (r.archs < sizeof wanted / sizeof *wanted) {
    (void)fprintf(stderr, "kernels_build: built for %u GPUs only (CUDA_ARCHS)\n", r.archs);
    return;
  }
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    bool found = false;
    for (unsigned a = 0; a < r.archs; a++) found |= r.arch[a] == wanted[i];
    CU_ASSERT(found);
  }
  CU_ASSERT_EQUAL(r.empty_tiles, 3); /* sm_86, sm_89, sm_120 */
}

/* The dynamic part, which ptxas does not see: what the launchers ask for, for every shape. */
static void dynamic_memory(void) {
  const kvk_options o = kvk_default_options(188, 12, 0);
  for (int kind = 0; kind < KVK_MERGE_STATE; kind++)
    for (int q = 1; q <= KVK_MAX_QUERIES; q++)
      for (int h = 1; h <= KVK_MAX_HEADS; h++) {
        const kvk_problem p = {.batch = 1, .queries = q, .heads = h, .latent = 512, .rope = 64, .q_row_stride = 576, .kv_row_stride = 576};
        const uint64_t prefix = 1000;
        kvk_structure s;
        kv_status status = kvk_describe((kvk_kind)kind, &p, &o, &prefix, &s, NULL);
        CU_ASSERT_EQUAL(status, kind == KVK_EXTEND_SERIAL_64 ? KV_ERR_USAGE : KV_OK);
        if (status == KV_OK) CU_ASSERT(s.smem <= KVK_SMEM_LIMIT);
      }
}

static void without_device(void) { /* on a machine with no GPU, or a build with no CUDA: one clear line, exit status 4 */
  kvk_options o;
  kv_error err = {0};
  kv_status status = kvk_device_options(9999, &o, &err);
  CU_ASSERT_EQUAL(status, KV_ERR_DEVICE);
  CU_ASSERT_EQUAL(kv_exit_status(status), 4);
  CU_ASSERT(strlen(err.text) > 10);
}

void suite_kernels_build(void) {
  static const kv_test_case cases[] = {
      {"compiler's resource report", resources}, {"shared memory asked for", dynamic_memory}, {"no device", without_device}, {NULL, NULL}};
  kv_suite("kernels_build", cases);
}
