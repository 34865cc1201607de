/* The GPU descriptions that are shipped, and what the loader makes of bad ones. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "kv_test.h"

static kvm_gpus load_all(void) {
  kvm_gpus all;
  kv_error err = {KV_OK, ""};
  kv_status st = kvm_gpus_load(kv_source("models/gpus"), &all, &err);
  CU_ASSERT_EQUAL(st, KV_OK);
  if (st) printf("%s\n", err.text);
  return all;
}

static const kvm_gpu *find(const kvm_gpus *all, const char *name) {
  const kvm_gpu *g = NULL;
  CU_ASSERT_EQUAL(kvm_gpus_find(all, name, &g, NULL), KV_OK);
  return g;
}

static void every_value_has_unit_kind_and_source(void) {
  kvm_gpus all = load_all();
  CU_ASSERT(all.n >= 14);
  for (size_t i = 0; i < all.n; i++) {
    CU_ASSERT(all.gpu[i].name[0] && kvm_gpu_sm(&all.gpu[i]) >= 80 && all.gpu[i].values >= 40);
    for (size_t j = 0; j < all.gpu[i].values; j++) {
      const kvm_value *v = &all.gpu[i].value[j];
      bool fine = v->unit[0] && v->source[0] && (v->kind == KVM_UNKNOWN) == (v->text[0] == '\0');
      if (v->kind == KVM_UNKNOWN) fine = fine && isnan(v->number) && !v->numeric;
      if (v->kind == KVM_ASSUMED)
        fine = fine && v->ranged && v->low <= v->number && v->number <= v->high && v->low < v->high;
      CU_ASSERT(fine);
      if (!fine) printf("%s: %s\n", all.gpu[i].key, v->name);
    }
  }
  kvm_gpus_free(&all);
}

/* A guess is allowed only where no source exists: rows and bursts of GDDR7, TLB reach. */
static void only_the_agreed_values_are_assumed(void) {
  kvm_gpus all = load_all();
  for (size_t i = 0; i < all.n; i++)
    for (size_t j = 0; j < all.gpu[i].values; j++) {
      const kvm_value *v = &all.gpu[i].value[j], *memory = kvm_gpu_value(&all.gpu[i], "memory_type");
      if (v->kind != KVM_ASSUMED) continue;
      bool dram = !strcmp(v->name, "dram_row_bytes") || !strcmp(v->name, "dram_burst_bytes");
      CU_ASSERT(!strcmp(v->name, "tlb_reach") || (dram && memory && !strcmp(memory->text, "GDDR7")));
    }
  kvm_gpus_free(&all);
}

static void all_the_gpus_asked_for_resolve(void) {
  static const char *const name[][2] = {
      {"sm_120", "rtx_pro_6000_blackwell_ws"},
      {"SM_120a", "rtx_pro_6000_blackwell_ws"},
      {"12.0", "rtx_pro_6000_blackwell_ws"},
      {"RTX PRO 6000", "rtx_pro_6000_blackwell_ws"},
      {"NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx_pro_6000_blackwell_server"},
      {"rtx-pro-6000-max-q", "rtx_pro_6000_blackwell_maxq"},
      {"NVIDIA GeForce RTX 5090", "rtx_5090"},
      {"H200", "h200_sxm"},
      {"sm_90", "h200_sxm"},
      {"NVIDIA H100 80GB HBM3", "h100_sxm"},
      {"h100 pcie", "h100_pcie"},
      {"GH200", "gh200"},
      {"A100", "a100_sxm_80"},
      {"sm_80", "a100_sxm_80"},
      {"L40S", "l40s"},
      {"RTX 4090", "rtx_4090"},
      {"B200", "b200"},
      {"B300", "b300"},
      {"sm_103", "b300"},
      {"DGX Spark", "gb10"},
      {"sm_121", "gb10"}};
  kvm_gpus all = load_all();
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    const kvm_gpu *g = find(&all, name[i][0]);
    CU_ASSERT(g && !strcmp(g->key, name[i][1]));
    if (!g || strcmp(g->key, name[i][1]) != 0) printf("%s -> %s\n", name[i][0], g ? g->key : "nothing");
  }
  kvm_gpus_free(&all);
}

static void no_two_gpus_share_a_name(void) {
  kvm_gpus all = load_all();
  const kvm_gpu *g;
  for (size_t i = 0; i < all.n; i++) {
    CU_ASSERT(kvm_gpus_find(&all, all.gpu[i].key, &g, NULL) == KV_OK && g == &all.gpu[i]);
    CU_ASSERT(kvm_gpus_find(&all, all.gpu[i].name, &g, NULL) == KV_OK && g == &all.gpu[i]);
    for (size_t j = 0; j < all.gpu[i].aliases; j++)
      CU_ASSERT(kvm_gpus_find(&all, all.gpu[i].alias[j], &g, NULL) == KV_OK && g == &all.gpu[i]);
  }
  kvm_gpus_free(&all);
}

static void unknown_names_get_the_nearest(void) {
  kvm_gpus all = load_all();
  const kvm_gpu *g = NULL;
  kv_error err;
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, "RTX 5080", &g, &err), KV_ERR_USAGE);
  CU_ASSERT_PTR_NULL(g);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "rtx_5090"));
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, "h2oo", &g, &err), KV_ERR_USAGE);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "h200_sxm"));
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, "sm_75", &g, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, "", &g, &err), KV_ERR_USAGE);
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, "sm_120x", &g, &err), KV_ERR_USAGE);
  char longest[4000];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = '\0';
  CU_ASSERT_EQUAL(kvm_gpus_find(&all, longest, &g, &err), KV_ERR_USAGE);
  kvm_gpus_free(&all);
}

/* From the published tables (models/gpus/ names them), in base units. */
static void values_are_those_published(void) {
  kvm_gpus all = load_all();
  const kvm_gpu *ws = find(&all, "sm_120"), *h200 = find(&all, "h200"),
                *server = find(&all, "rtx pro 6000 server");
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "sm_count"), 188, 0);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "dram_bw_spec"), 1.792e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "bf16_dense_fp32acc"), 503.8e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "smem_per_sm"), 102400, 0);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "smem_per_block_optin"), 101376, 0);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(ws, "boost_clock"), 2.617e9, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(server, "dram_bw_spec"), 1.597e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(h200, "dram_bw_spec"), 4.8e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(h200, "dram_read_measured"), 4.70807e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(h200, "dram_latency_ns"), 333e-9, 1e-15);
  CU_ASSERT(isnan(kvm_gpu_number(ws, "dram_bw_measured")));      /* nobody published one */
  CU_ASSERT_PTR_NOT_NULL(kvm_gpu_value(ws, "dram_bw_measured")); /* and the description says so */
  CU_ASSERT(isnan(kvm_gpu_number(find(&all, "gb10"), "bf16_dense_fp32acc")));
  CU_ASSERT(isnan(kvm_gpu_number(ws, "memory_type"))); /* a word, not a number */
  CU_ASSERT(isnan(kvm_gpu_number(ws, "no_such_value")));
  kvm_gpus_free(&all);
}

/* ---- bad descriptions ---- */

static kv_status load_text(const char *text, size_t n, kv_error *err) {
  kvm_gpu g;
  const char *path = kv_tmp("bad.ini");
  FILE *f = fopen(path, "wb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  CU_ASSERT_EQUAL(fwrite(text, 1, n, f), n);
  (void)fclose(f);
  kv_status st = kvm_gpu_load(path, &g, err);
  if (!st) kvm_gpu_free(&g);
  return st;
}

#define SMS(n) "[sm_count]\nvalue = " n "\nunit = 1\nkind = spec\nsource = s\n"
#define HEAD "[gpu]\nname = X\narch = sm_90\n"
#define V(lines) HEAD "[dram_bw_spec]\n" lines
#define REST "unit = GB/s\nkind = spec\nsource = s\n"

static void bad_descriptions_are_refused_with_line_and_reason(void) {
  static const struct {
    const char *text, *says;
  } bad[] = {
      {"", "[gpu]"},
      {"name = X\n", "before any [section]"},
      {"[gpu]\nname = X\n", "arch"},
      {"[gpu]\ncolour = red\n", "unknown key"},
      {"[gpu\nname = X\n", "line 1"},
      {"\x89HDF\r\n\x1a\n", "neither [section] nor key"},
      {V("value = 1\nunit = GB/s\nkind = spec\n"), "no source"},
      {V("value = 1\nkind = spec\nsource = s\n"), "no unit"},
      {V("value = 1\nunit = furlong\nkind = spec\nsource = s\n"), "unknown unit"},
      {V("value = 1\nunit = GB/s\nsource = s\n"), "no kind"},
      {V("value = 1\nunit = GB/s\nkind = hearsay\nsource = s\n"), "unknown kind"},
      {V("value = 1\nunit = GB/s\nkind = unknown\nsource = s\n"), "exclude"},
      {V("unit = GB/s\nkind = spec\nsource = s\n"), "exclude"},
      {V("value =\n" REST), "empty entry"},
      {V("value = -1\n" REST), "not a number"},
      {V("value = nan\n" REST), "not a number"},
      {V("value = inf\n" REST), "not a number"},
      {V("value = 1e999\n" REST), "not a number"},
      {V("value = 0x10\n" REST), "not a number"},
      {V("value = 1 2\n" REST), "not a number"},
      {V("value = 1\nvalue = 2\n" REST), "twice"},
      {V("value = 1e-30\n" REST), "no card has such a value"},
      {V("value = 1e30\n" REST), "no card has such a value"},
      {HEAD SMS("0"), "no whole number of 1 to 10000"},
      {HEAD SMS("0.5"), "no whole number of 1 to 10000"},
      {HEAD SMS("-188"), "no whole number of 1 to 10000"},
      {HEAD SMS("nan"), "no whole number of 1 to 10000"},
      {HEAD SMS("1e9"), "no whole number of 1 to 10000"},
      {V("value = 1\n" REST "low = 2\nhigh = 3\n"), "low <= value <= high"},
      {V("value = 1\n" REST "low = 0\n"), "low <= value <= high"},
      {V("value = 1\nunit = GB/s\nkind = assumed\nsource = s\n"), "needs low and high"},
      {V("value = 1\n" REST) "[x]\nvalue = 1\n" REST "[dram_bw_spec]\nvalue = 1\n" REST, "given twice"},
      {V("worth = 1\n" REST), "unknown key"},
      {HEAD "[a-b]\nvalue = 1\n" REST, "a section is"},
      {HEAD "[a123456789012345678901234567890123456789012345678901234567890]\nvalue = 1\n" REST,
       "a section is"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    kv_error err = {KV_OK, ""};
    kv_status st = load_text(bad[i].text, strlen(bad[i].text), &err);
    bool fine = st == KV_ERR_INPUT && strstr(err.text, bad[i].says) && strstr(err.text, "bad.ini");
    CU_ASSERT(fine);
    if (!fine) printf("case %zu: status %d: %s\n", i, (int)st, err.text);
  }
}

static void long_lines_and_nul_bytes_are_refused(void) {
  char text[8000];
  kv_error err = {KV_OK, ""};
  int n = snprintf(text, sizeof text, HEAD "[a]\nvalue = 1\nunit = 1\nkind = spec\nsource = %0300d\n", 7);
  CU_ASSERT_EQUAL(load_text(text, (size_t)n, &err), KV_ERR_INPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "line 8"));
  static const char nul[] = HEAD "[a]\nvalue = 1\0 2\nunit = 1\nkind = spec\nsource = s\n";
  CU_ASSERT_EQUAL(load_text(nul, sizeof nul - 1, &err), KV_ERR_INPUT);
  n = snprintf(text, sizeof text, HEAD);
  for (int i = 0; i < 6000; i++) text[n++] = '\n';
  CU_ASSERT_EQUAL(load_text(text, (size_t)n, &err), KV_ERR_INPUT);
  kvm_gpu g;
  CU_ASSERT_EQUAL(kvm_gpu_load("/nonexistent/x.ini", &g, &err), KV_ERR_IO);
  CU_ASSERT_EQUAL(kvm_gpu_load(kv_source("models/gpus"), &g, &err), KV_ERR_IO);
  kvm_gpus all;
  CU_ASSERT_EQUAL(kvm_gpus_load("/nonexistent", &all, &err), KV_ERR_IO);
}

static void a_source_goes_on_over_lines(void) {
  static const char text[] = HEAD
      "alias = A B\n[a]\nvalue = 2.5\nunit = TFLOP/s\nlow=2\nhigh=3\nkind = assumed\nsource = one\n  "
      "two\n\tthree\n";
  const char *path = kv_tmp("good.ini");
  kvm_gpu g;
  FILE *f = fopen(path, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  (void)fputs(text, f);
  (void)fclose(f);
  CU_ASSERT_EQUAL_FATAL(kvm_gpu_load(path, &g, NULL), KV_OK);
  CU_ASSERT_STRING_EQUAL(g.key, "good");
  CU_ASSERT_STRING_EQUAL(kvm_gpu_value(&g, "a")->source, "one two three");
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_number(&g, "a"), 2.5e12, 1);
  CU_ASSERT_DOUBLE_EQUAL(kvm_gpu_value(&g, "a")->high, 3e12, 1);
  kvm_gpu_free(&g);
}

/* Damaged in any place, a description loads or is refused; the sanitizers watch. */
static void damaged_descriptions_do_no_harm(void) {
  char text[20000];
  FILE *f = fopen(kv_source("models/gpus/h200_sxm.ini"), "rb");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  size_t n = fread(text, 1, sizeof text, f);
  (void)fclose(f);
  unsigned state = 12345, refused = 0;
  for (int i = 0; i < 400; i++) {
    char copy[sizeof text];
    memcpy(copy, text, n);
    for (int k = 0; k < 3; k++) {
      state = state * 1664525u + 1013904223u;
      copy[(state >> 8) % n] = (char)(state >> 3 & 0xff);
    }
    kv_error err = {KV_OK, ""};
    kv_status st = load_text(copy, i % 4 ? n : (state >> 8) % n, &err);
    CU_ASSERT(st == KV_OK || (st == KV_ERR_INPUT && err.text[0]));
    refused += st != KV_OK;
  }
  CU_ASSERT(refused > 20);
}

void suite_gpu_descriptions(void) {
  static const kv_test_case cases[] = {
      {"unit, kind, source", every_value_has_unit_kind_and_source},
      {"assumed", only_the_agreed_values_are_assumed},
      {"names", all_the_gpus_asked_for_resolve},
      {"names are unique", no_two_gpus_share_a_name},
      {"near misses", unknown_names_get_the_nearest},
      {"published values", values_are_those_published},
      {"bad descriptions", bad_descriptions_are_refused_with_line_and_reason},
      {"long lines, NUL", long_lines_and_nul_bytes_are_refused},
      {"continued source", a_source_goes_on_over_lines},
      {"damaged", damaged_descriptions_do_no_harm},
      {NULL, NULL}};
  kv_suite("gpu_descriptions", cases);
}
