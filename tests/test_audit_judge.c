/* Verdicts on our fixtures, launch sizes from host code, build files, two versions, nvdisasm's listing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "audit_diff.h"
#include "audit_sass.h"
#include "audit_source.h"
#include "kv_test.h"

static void collect(kva_audit *audit, const char *name) {
  kva_collect_options options = {.code = true, .hash = true, .threads = 1};
  kv_error err = {KV_OK, ""};
  char path[256];
  *audit = (kva_audit){0};
  (void)snprintf(path, sizeof path, "tests/golden/audit/%s", name);
  CU_ASSERT_EQUAL_FATAL(kva_audit_add(audit, kv_source(path), &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_audit_families(audit, &err), KV_OK);
}

static const kva_judged *judged(const kva_audit *audit, const kva_judgement *j, const char *name) {
  char text[512];
  for (size_t i = 0; i < j->kernels; i++) {
    kva_demangle(audit->names.text[j->kernel[i].name], text, sizeof text);
    if (!strcmp(text, name)) return &j->kernel[i];
  }
  return NULL;
}

#define HOPPER "kvfix::device_kernel<kvfix::Sm90Attention>"

static void expect(const char *file, unsigned sm, const char *kernel, kva_verdict verdict, kva_rebuild rebuild, uint64_t missing) {
  kva_audit audit;
  kva_judgement j;
  kv_error err;
  collect(&audit, file);
  CU_ASSERT_EQUAL_FATAL(kva_judge(&audit, &audit.file[0], sm, NULL, &j, &err), KV_OK);
  const kva_judged *k = judged(&audit, &j, kernel);
  CU_ASSERT_PTR_NOT_NULL_FATAL(k);
  bool fine = k->verdict == verdict && k->rebuild == rebuild && k->missing == missing;
  CU_ASSERT(fine);
  if (!fine)
    printf("%s of %s on sm_%u: %s, %s\n", kernel, file, sm, kva_verdict_key(k->verdict), kva_rebuild_key(k->rebuild));
  kva_judgement_free(&j);
  kva_audit_free(&audit);
}

/* What the fixtures were built to be (tests/golden/audit/make_fixtures.sh). */
static void verdicts_follow_from_what_was_built(void) {
  uint64_t wgmma = KVA_BIT(KVA_WGMMA), tcgen05 = KVA_BIT(KVA_TCGEN05);
  expect("full.so", 120, "kvfix::merge", KVA_NATIVE, KVA_NOTHING, 0);
  expect("full.so", 121, "kvfix::merge", KVA_NATIVE, KVA_NOTHING, 0); /* 120f */
  expect("full.so", 86, "kvfix::merge", KVA_NATIVE, KVA_NOTHING, 0);  /* sm_80 */
  expect("full.so", 103, "kvfix::merge", KVA_JIT, KVA_NOTHING, 0);    /* 100a does not go there: PTX */
  expect("full.so", 75, "kvfix::merge", KVA_CANNOT, KVA_FLAG, 0);
  expect("full.so", 75, "kvfix::portable", KVA_CANNOT, KVA_REWRITE, KVA_BIT(KVA_CP_ASYNC));
  expect("full.so", 90, HOPPER, KVA_NATIVE, KVA_NOTHING, 0);
  expect("full.so", 120, HOPPER, KVA_STUB, KVA_REWRITE, wgmma);
  expect("full.so", 100, HOPPER, KVA_STUB, KVA_REWRITE, wgmma);
  expect("full.so", 103, HOPPER, KVA_STUB, KVA_REWRITE, wgmma); /* the PTX is a trap too */
  expect("full.so", 120, "kvfix::tensor_memory", KVA_STUB, KVA_REWRITE, tcgen05);
  expect("hopper_ops.abi3.so", 120, HOPPER, KVA_CANNOT, KVA_REWRITE, wgmma);
  expect("hopper_ops.abi3.so", 120, "kvfix::tensor_memory", KVA_CANNOT, KVA_REWRITE, tcgen05);
  expect("hopper_ops.abi3.so", 120, "kvfix::merge", KVA_CANNOT, KVA_FLAG, 0);
  expect("hopper_ops.abi3.so", 90, "kvfix::tile<256>", KVA_NATIVE, KVA_NOTHING, 0);
  expect("sm_90a.ptx", 120, HOPPER, KVA_CANNOT, KVA_REWRITE, wgmma); /* sm_90a PTX is not compiled elsewhere */
  expect("sm_90a.ptx", 90, HOPPER, KVA_JIT, KVA_NOTHING, 0);
  expect("sm_86.cubin", 89, "kvfix::merge", KVA_NATIVE, KVA_NOTHING, 0);
  expect("sm_86.cubin", 80, "kvfix::merge", KVA_CANNOT, KVA_FLAG, 0);
  expect("sm_86.cubin", 80, HOPPER, KVA_CANNOT, KVA_UNKNOWN, 0); /* nothing but a trap is there to judge by */
  expect("lz4.fatbin", 120, HOPPER, KVA_STUB, KVA_UNKNOWN, 0);
  expect("full.so", 120, "kvfix::guarded", KVA_STUB, KVA_GUARD, 0);
  expect("full.so", 86, "kvfix::guarded", KVA_STUB, KVA_FLAG, 0); /* its code is for 8.0 */
  expect("full.so", 90, "kvfix::guarded", KVA_NATIVE, KVA_NOTHING, 0);
  expect("relocatable.o", 120, "kvfix::merge", KVA_JIT, KVA_NOTHING, 0);
}

/* The fixture's host code asks for 150,000 and 61,440 bytes. */
static void launch_sizes_come_from_host_code(void) {
  expect("full.so", 120, "kvfix::large", KVA_TOO_LARGE, KVA_SMALLER_TILES, 0);
  expect("full.so", 80, "kvfix::large", KVA_NATIVE, KVA_NOTHING, 0); /* 163 KiB there */
  expect("full.so", 120, "kvfix::portable", KVA_NATIVE, KVA_NOTHING, 0);
  expect("hopper_ops.abi3.so", 120, "kvfix::large", KVA_CANNOT, KVA_SMALLER_TILES, 0);
  kva_audit audit;
  kva_judgement j;
  kv_error err;
  collect(&audit, "full.so");
  CU_ASSERT_EQUAL_FATAL(kva_judge(&audit, &audit.file[0], 120, NULL, &j, &err), KV_OK);
  CU_ASSERT_EQUAL(judged(&audit, &j, "kvfix::large")->dynamic, 150000);
  CU_ASSERT_EQUAL(judged(&audit, &j, "kvfix::portable")->dynamic, 61440);
  CU_ASSERT_EQUAL(judged(&audit, &j, "kvfix::merge")->dynamic, 0);
  kva_judgement_free(&j);
  kva_audit_free(&audit);
}

static void explanations_carry_their_evidence(void) {
  kva_audit audit;
  kva_judgement j;
  kv_error err;
  char why[2048], rebuild[4096];
  bool seen = false;
  collect(&audit, "hopper_ops.abi3.so");
  CU_ASSERT_EQUAL_FATAL(kva_judge(&audit, &audit.file[0], 120, NULL, &j, &err), KV_OK);
  CU_ASSERT_EQUAL(j.groups, 7);
  for (size_t i = 0; i < j.groups; i++) {
    if (strcmp(audit.families.text[j.group[i].family], "kvfix::device_kernel")) continue;
    kva_explain(&audit, &audit.file[0], &j, &j.group[i], why, sizeof why, rebuild, sizeof rebuild);
    CU_ASSERT_STRING_EQUAL(why, "machine code only for sm_90a (9.0 alone), sm_100a (10.0 alone); no PTX");
    CU_ASSERT_PTR_NOT_NULL(strstr(rebuild, "sm_120 has no wgmma (HGMMA 96 times in its sm_90a code)"));
    kva_explain(&audit, &audit.file[0], &j, &j.group[i], why, 20, rebuild, 20); /* cut, not overrun */
    CU_ASSERT_EQUAL(strlen(why), 19);
    seen = true;
  }
  CU_ASSERT(seen);
  kva_judgement_free(&j);
  kva_audit_free(&audit);
}

/* wgmma in PTX for plain sm_90: nvcc passes it on, the driver's compiler will not. */
static void ptx_that_will_not_compile_is_told(void) {
  static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.entry k(){ wgmma.fence.sync.aligned; ret; }\n";
  kva_audit audit = {0};
  kva_judgement j;
  kv_error err;
  char why[512], rebuild[512];
  kva_collect_options options = {.code = true, .threads = 1};
  CU_ASSERT_EQUAL_FATAL(kva_audit_add_memory(&audit, "x", (const unsigned char *)ptx, sizeof ptx - 1, &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_audit_families(&audit, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_judge(&audit, &audit.file[0], 90, NULL, &j, &err), KV_OK);
  CU_ASSERT_EQUAL(j.kernel[0].verdict, KVA_CANNOT);
  CU_ASSERT_EQUAL(j.kernel[0].rebuild, KVA_FLAG);
  CU_ASSERT(j.kernel[0].flag.sm == 90 && j.kernel[0].flag.suffix == 'a');
  kva_explain(&audit, &audit.file[0], &j, &j.group[0], why, sizeof why, rebuild, sizeof rebuild);
  CU_ASSERT_PTR_NOT_NULL(strstr(why, "does not compile: its target has no wgmma"));
  CU_ASSERT_PTR_NOT_NULL(strstr(rebuild, "arch=compute_90a,code=sm_90a"));
  kva_judgement_free(&j);
  kva_audit_free(&audit);
}

static void a_regular_expression_narrows_down(void) {
  kva_audit audit;
  kva_judgement j;
  kv_error err;
  regex_t only;
  collect(&audit, "full.so");
  CU_ASSERT_EQUAL_FATAL(regcomp(&only, "tile<[0-9]+>", REG_EXTENDED | REG_NOSUB), 0);
  CU_ASSERT_EQUAL_FATAL(kva_judge(&audit, &audit.file[0], 120, &only, &j, &err), KV_OK);
  CU_ASSERT_EQUAL(j.kernels, 2);
  CU_ASSERT_EQUAL(j.groups, 1);
  regfree(&only);
  kva_judgement_free(&j);
  kva_audit_free(&audit);
}

/* ---- build files ---- */

static char *told_source(const char *binary, unsigned sm, size_t *gaps) {
  kva_source source;
  kva_audit audit;
  kv_error err;
  char *text = NULL;
  size_t size = 0;
  collect(&audit, binary);
  CU_ASSERT_EQUAL_FATAL(kva_source_read(kv_source("tests/golden/audit/source"), &source, &err), KV_OK);
  FILE *out = open_memstream(&text, &size);
  CU_ASSERT_EQUAL(kva_tell_source(out, &source, &audit, sm, gaps, &err), KV_OK);
  (void)fclose(out);
  kva_source_free(&source);
  kva_audit_free(&audit);
  return text;
}

static void has(const char *text, const char *part) {
  CU_ASSERT_PTR_NOT_NULL(strstr(text, part));
  if (!strstr(text, part)) printf("no '%s' in:\n%s\n", part, text);
}

static void build_files_are_read_and_compared(void) {
  size_t gaps;
  char *text = told_source("hopper_ops.abi3.so", 120, &gaps);
  has(text, "CMakeLists.txt:4  CMAKE_CUDA_ARCHITECTURES: compute_80 sm_80 sm_90a compute_120\n");
  has(text, "CMakeLists.txt:12  target common_build (inside an if): compute_80 sm_86 sm_100a\n");
  has(text, "CMakeLists.txt:18  target hopper_ops: sm_90a\n");
  has(text, "CMakeLists.txt:31  target marlin: compute_80 sm_80 sm_89\n");
  has(text, "build.ninja:5  target hopper_ops: sm_90a compute_100a sm_100a\n");
  has(text, "setup.py:6  nvcc_flags: sm_90a\n"); /* and not the sm_70 of the comment */
  has(text, "setup.py:10  TORCH_CUDA_ARCH_LIST: sm_80 compute_90a sm_90a\n");
  has(text, "asked for, not in the binary: sm_103a compute_100a\n");
  has(text, "nothing in this target's list serves sm_120, but compute_80 is in CMAKE_CUDA_ARCHITECTURES's");
  CU_ASSERT_PTR_NULL(strstr(text, "sm_50")); /* in a bracket comment */
  CU_ASSERT_PTR_NULL(strstr(text, "sm_70"));
  CU_ASSERT_EQUAL(gaps, 1);
  free(text);
  text = told_source("hopper_ops.abi3.so", 90, &gaps);
  CU_ASSERT_EQUAL(gaps, 0);
  free(text);
  text = told_source("full.so", 120, &gaps);
  has(text, "full.so, built by target common_build"); /* by its OUTPUT_NAME */
  has(text, "in the binary, not asked for by this target: sm_90a sm_120f\n");
  free(text);
}

/* A variable that names itself, and a chain that doubles with every link, end at once. */
static void variables_that_name_each_other_end(void) {
  static char text[8192];
  kva_source source;
  kv_error err;
  size_t n = (size_t)snprintf(text, sizeof text, "set(A0 \"${A0} -gencode=arch=compute_80,code=sm_80\")\n");
  for (int i = 1; i < 60; i++) n += (size_t)snprintf(text + n, sizeof text - n, "set(A%d \"${A%d} ${A%d} ${A%d}\")\n", i, i - 1, i - 1, i);
  n += (size_t)snprintf(text + n, sizeof text - n, "target_compile_options(t PRIVATE ${A59})\n");
  CU_ASSERT_EQUAL_FATAL(kva_source_text("CMakeLists.txt", text, n, &source, &err), KV_OK);
  CU_ASSERT_EQUAL(source.count, 2); /* A0's own and t's */
  kva_source_free(&source);
}

/* ---- two versions ---- */

static char *told_diff(const char *a, const char *b, unsigned sm) {
  kva_audit before, after;
  kv_error err;
  char *text = NULL, root_a[512], root_b[1024];
  size_t size = 0;
  (void)snprintf(root_a, sizeof root_a, "%s", kv_source("tests/golden/audit"));
  (void)snprintf(root_b, sizeof root_b, "%s/%s", root_a, b);
  (void)snprintf(root_a + strlen(root_a), sizeof root_a - strlen(root_a), "/%s", a);
  collect(&before, a);
  collect(&after, b);
  FILE *out = open_memstream(&text, &size);
  CU_ASSERT_EQUAL(kva_tell_diff(out, &before, root_a, &after, root_b, sm, false, &err), KV_OK);
  (void)fclose(out);
  kva_audit_free(&before);
  kva_audit_free(&after);
  return text;
}

static void two_versions_are_compared(void) {
  char *text = told_diff("hopper_ops.abi3.so", "full.so", 120);
  has(text, "entries 2 -> 5, of which 2 unchanged to the byte"); /* the same source, the same compiler */
  has(text, "targets gained: sm_80 PTX, sm_80 code, sm_120f code");
  has(text, "kernels: 0 gone, 0 new, 8 kept by name");
  has(text, "sm_120 kvfix::merge: 1 cannot-run -> 1 native");
  CU_ASSERT_PTR_NULL(strstr(text, "targets lost"));
  free(text);
  text = told_diff("lz4.fatbin", "zstd.fatbin", 120);
  has(text, "entries 3 -> 3, of which 3 unchanged to the byte");
  CU_ASSERT_PTR_NULL(strstr(text, "sm_120 "));
  free(text);
  text = told_diff("two.whl", "full.so", 0);
  has(text, "pkg/plain.fatbin: only in the first");
  free(text);
}

/* ---- nvdisasm's listing ---- */

typedef struct listed {
  char first[256];
  uint32_t wgmma, kernels;
} listed;

static void list_kernel(void *context, const kva_sass_state *k) {
  listed *l = context;
  if (strstr(k->kernel, "device_kernel")) l->wgmma = k->count[KVA_WGMMA];
  l->kernels++;
}

static void nvdisasms_listing_is_read(void) {
  static const char *const line[] = {
      ".text._ZN5kvfix13device_kernelINS_13Sm90AttentionEEEvPfmm:", "        /*0000*/                   LDC R1, c[0x0][0x28] ;",
      "        /*0010*/              @!P0 HGMMA.64x8x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;",
      "        /*0020*/                   HGMMA.64x8x16.F32.BF16 R24, gdesc[UR8], R24 ;", "\t.section .text", "not code HGMMA",
      ".text._Z1kv:", "        /*0000*/                   EXIT ;"};
  kva_sass_state *s = calloc(1, sizeof *s);
  listed l = {.kernels = 0};
  CU_ASSERT_PTR_NOT_NULL_FATAL(s);
  for (size_t i = 0; i < sizeof line / sizeof *line; i++) kva_sass_line(line[i], s, list_kernel, &l);
  kva_sass_end(s, list_kernel, &l);
  CU_ASSERT_EQUAL(l.kernels, 2);
  CU_ASSERT_EQUAL(l.wgmma, 2);
  free(s);
}

void suite_audit_judge(void) {
  static const kv_test_case cases[] = {{"verdicts", verdicts_follow_from_what_was_built},
                                       {"launch sizes", launch_sizes_come_from_host_code},
                                       {"explanations", explanations_carry_their_evidence},
                                       {"unsound PTX", ptx_that_will_not_compile_is_told},
                                       {"kernels by expression", a_regular_expression_narrows_down},
                                       {"build files", build_files_are_read_and_compared},
                                       {"self-naming variables", variables_that_name_each_other_end},
                                       {"two versions", two_versions_are_compared},
                                       {"nvdisasm listing", nvdisasms_listing_is_read},
                                       {NULL, NULL}};
  kv_suite("audit_judge", cases);
}
