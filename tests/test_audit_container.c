/* Reading containers: our own fixtures against what cuobjdump lists, and hostile ones built here. */
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "audit.h"
#include "audit_cubin.h"
#include "kv_test.h"

/* ---- fixtures ---- */

static char *read_file(const char *path, size_t *size) {
  *size = 0;
  FILE *f = fopen(path, "rb");
  struct stat sb;
  if (!f || fstat(fileno(f), &sb) != 0) return NULL;
  char *data = malloc((size_t)sb.st_size + 1);
  *size = fread(data, 1, (size_t)sb.st_size, f);
  data[*size] = '\0';
  (void)fclose(f);
  return data;
}

static void same_list_as_cuobjdump(const char *name) {
  char path[256], *text = NULL;
  size_t size = 0, expected_size;
  kva_audit audit = {0};
  kva_collect_options options = {.entries_only = true};
  kv_error err;
  (void)snprintf(path, sizeof path, "tests/golden/audit/%s", name);
  CU_ASSERT_EQUAL_FATAL(kva_audit_add(&audit, kv_source(path), &options, &err), KV_OK);
  FILE *out = open_memstream(&text, &size);
  CU_ASSERT_EQUAL(kva_tell_list(out, &audit, &err), KV_OK);
  (void)fclose(out);
  (void)snprintf(path, sizeof path, "tests/golden/audit/%s.list", name);
  char *expected = read_file(kv_source(path), &expected_size), *start = strstr(text, " file ");
  CU_ASSERT_PTR_NOT_NULL_FATAL(expected);
  CU_ASSERT_PTR_NOT_NULL_FATAL(start);
  CU_ASSERT_STRING_EQUAL(start - 3, expected); /* an archive has a line with its member's name before */
  free(expected);
  free(text);
  kva_audit_free(&audit);
}

static void entries_are_those_of_cuobjdump(void) {
  static const char *const name[] = {"full.o",       "full.so",       "full.a",       "hopper_ops.abi3.so",
                                     "lz4.fatbin",   "zstd.fatbin",   "plain.fatbin", "relocatable.o",
                                     "sm_90a.cubin", "sm_120a.cubin", "sm_86.cubin"};
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) same_list_as_cuobjdump(name[i]);
}

static void collect(kva_audit *audit, const char *name) {
  kva_collect_options options = {.code = true, .hash = true, .threads = 2};
  kv_error err = {KV_OK, ""};
  char path[256];
  *audit = (kva_audit){0};
  (void)snprintf(path, sizeof path, "tests/golden/audit/%s", name);
  CU_ASSERT_EQUAL_FATAL(kva_audit_add(audit, kv_source(path), &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(kva_audit_families(audit, &err), KV_OK);
  CU_ASSERT_EQUAL(audit->problems, 0);
}

static const kva_variant *variant(const kva_audit *audit, size_t file, const char *kernel, unsigned kind, unsigned sm) {
  char text[512];
  for (size_t i = 0; i < audit->file[file].variants; i++) {
    const kva_variant *v = &audit->file[file].variant[i];
    const kva_held *e = &audit->file[file].entry[v->entry];
    kva_demangle(audit->names.text[v->name], text, sizeof text);
    if (!strcmp(text, kernel) && e->kind == kind && e->target.sm == sm) return v;
  }
  return NULL;
}

/* Registers, shared memory and stack as `cuobjdump -res-usage` prints them (less the 1,024 bytes that 9.0 and newer
 * reserve); counts as nvdisasm's listing has them. */
static void kernels_have_their_resources(void) {
  kva_audit audit;
  collect(&audit, "full.so");
  CU_ASSERT_EQUAL(audit.names.count, 8);
  const kva_variant *v = variant(&audit, 0, "kvfix::tile<256>", KVA_KIND_CODE, 80);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->registers, 10);
  CU_ASSERT_EQUAL(v->shared, 1024);
  CU_ASSERT_EQUAL(v->max_threads, 128);
  CU_ASSERT_FALSE(v->dynamic_shared);
  v = variant(&audit, 0, "kvfix::tile<1024>", KVA_KIND_CODE, 120);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->shared, 4096);
  v = variant(&audit, 0, "kvfix::tile<1024>", KVA_KIND_PTX, 80);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->shared, 4096);
  CU_ASSERT_EQUAL(v->max_threads, 128);
  v = variant(&audit, 0, "kvfix::device_kernel<kvfix::Sm90Attention>", KVA_KIND_CODE, 90);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->count[KVA_WGMMA], 96);
  CU_ASSERT_EQUAL(v->features, KVA_BIT(KVA_WGMMA));
  v = variant(&audit, 0, "kvfix::portable", KVA_KIND_CODE, 80);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->features, KVA_BIT(KVA_MMA) | KVA_BIT(KVA_CP_ASYNC) | KVA_BIT(KVA_LDMATRIX));
  CU_ASSERT(v->dynamic_shared);
  v = variant(&audit, 0, "kvfix::tensor_memory", KVA_KIND_CODE, 100);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_EQUAL(v->count[KVA_TCGEN05], 32);
  CU_ASSERT_FALSE(variant(&audit, 0, "kvfix::merge", KVA_KIND_CODE, 80)->dynamic_shared);
  kva_audit_free(&audit);
}

static void packings_hold_the_same(void) {
  kva_audit lz4, zstd;
  collect(&lz4, "lz4.fatbin");
  collect(&zstd, "zstd.fatbin");
  CU_ASSERT_EQUAL_FATAL(lz4.file[0].entries, zstd.file[0].entries);
  for (size_t i = 0; i < lz4.file[0].entries; i++) {
    CU_ASSERT_EQUAL(lz4.file[0].entry[i].packing, KVA_PACK_LZ4);
    CU_ASSERT_EQUAL(zstd.file[0].entry[i].packing, KVA_PACK_ZSTD);
    CU_ASSERT_EQUAL(lz4.file[0].entry[i].code_hash, zstd.file[0].entry[i].code_hash);
    CU_ASSERT_NOT_EQUAL(lz4.file[0].entry[i].code_hash, 0);
  }
  kva_audit_free(&lz4);
  kva_audit_free(&zstd);
}

static void wheels_and_folders_are_walked(void) {
  kva_audit audit;
  collect(&audit, "two.whl");
  CU_ASSERT_EQUAL(audit.files, 2);
  CU_ASSERT_PTR_NOT_NULL(strstr(audit.file[0].name, "two.whl!pkg/hopper_ops.abi3.so"));
  CU_ASSERT_EQUAL(audit.file[1].origin, KVA_FATBIN);
  kva_audit_free(&audit);
  char *out, *err;
  CU_ASSERT_EQUAL(kv_run(&out, &err, "rm -rf %s && mkdir -p %s/in/a && cp %s %s %s/in/a && cp %s %s/in && ln -s a %s/in/loop", kv_tmp("f"),
                         kv_tmp("f"), kv_source("tests/golden/audit/full.a"), kv_source("tests/golden/audit/two.whl"),
                         kv_tmp("f"), kv_source("LICENSE"), kv_tmp("f"), kv_tmp("f")), 0);
  free(out);
  free(err);
  kva_collect_options options = {.code = true};
  kv_error e;
  audit = (kva_audit){0};
  CU_ASSERT_EQUAL(kva_audit_add(&audit, kv_tmp("f"), &options, &e), KV_OK);
  CU_ASSERT_EQUAL(audit.files, 3); /* full.a:full.o and the wheel's two */
  CU_ASSERT_EQUAL(audit.walked.links, 1);
  CU_ASSERT_EQUAL(audit.problems, 0);
  kva_audit_free(&audit);
}

/* ---- built here ---- */

typedef struct bytes {
  unsigned char data[8192];
  size_t size;
} bytes;

static void put(bytes *b, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) b->data[at + i] = (unsigned char)(value >> 8 * i);
}

/* A fatbin of one entry with a header of 64 bytes. */
static bytes one_entry(unsigned kind, unsigned sm, uint64_t flags, const void *payload, size_t stored, uint64_t unpacked,
                       bool packed) {
  bytes b = {.size = 16 + 64 + ((stored + 7) & ~(size_t)7)};
  put(&b, 0, 0xBA55ED50, 4);
  put(&b, 4, 1, 2);
  put(&b, 6, 16, 2);
  put(&b, 8, b.size - 16, 8);
  put(&b, 16, kind, 2);
  put(&b, 18, 0x101, 2);
  put(&b, 20, 64, 4);
  put(&b, 24, b.size - 80, 8);
  put(&b, 32, packed ? stored : 0, 4);
  put(&b, 44, sm, 4);
  put(&b, 56, flags, 8);
  put(&b, 72, unpacked, 8);
  memcpy(b.data + 80, payload, stored);
  return b;
}

/* The first problem met, "" for none. */
static void expect_problem(const bytes *b, const char *text) {
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x", b->data, b->size, &options, &err), KV_OK);
  const char *got = audit.problems ? audit.problem[0] : "";
  CU_ASSERT(text ? strstr(got, text) != NULL : !*got);
  if (text ? !strstr(got, text) : *got) printf("wanted '%s', got '%s'\n", text ? text : "", got);
  kva_audit_free(&audit);
}

static const char small_ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(){ ret; }\n";

static void a_crafted_fatbin_is_read(void) {
  bytes b = one_entry(1, 80, 0, small_ptx, sizeof small_ptx, 0, false);
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x", b.data, b.size, &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(audit.names.count, 1);
  CU_ASSERT_STRING_EQUAL(audit.names.text[0], "k");
  kva_audit_free(&audit);
  b = one_entry(77, 80, UINT64_C(0x8000000000000000), "?", 1, 0, false); /* unknown kinds and flags are no damage */
  expect_problem(&b, NULL);
  b = one_entry(1, 120, 0x300000, small_ptx, sizeof small_ptx, 0, false);
  kva_object o = {"x", b.data, b.size, false};
  kva_entries e;
  CU_ASSERT_EQUAL(kva_list_entries(&o, &e, &err), KV_OK);
  CU_ASSERT_EQUAL(e.entry[0].target.suffix, 'a'); /* 'a' is the narrower of the two */
  kva_entries_free(&e);
}

/* An ELF file without a section table (sstrip): the fatbin is found by its magic number. */
static void a_file_without_sections_is_searched(void) {
  size_t size = 0;
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  char *data = read_file(kv_source("tests/golden/audit/full.so"), &size);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data);
  memset(data + 40, 0, 8);      /* e_shoff */
  memset(data + 60, 0, 2 + 2);  /* e_shnum, e_shstrndx */
  CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x", (unsigned char *)data, size, &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(audit.files, 1);
  CU_ASSERT_EQUAL(audit.file[0].entries, 5);
  CU_ASSERT_EQUAL(audit.names.count, 8);
  kva_audit_free(&audit);
  free(data);
}

/* full.so with its section called otherwise: what libraries look like that keep fatbins as data. */
static char *fatbins_as_data(size_t *size) {
  char *data = read_file(kv_source("tests/golden/audit/full.so"), size);
  CU_ASSERT_PTR_NOT_NULL_FATAL(data);
  for (char *at = data; (at = memmem(at, (size_t)(data + *size - at), ".nv_fatbin", 11)); at++) memcpy(at, ".some_data", 10);
  return data;
}

static void fatbins_in_plain_data_are_found(void) {
  size_t size = 0, listed = 0;
  char *data = fatbins_as_data(&size), *text = NULL;
  kva_audit audit = {0};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x.so", (unsigned char *)data, size, &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(audit.files, 1);
  CU_ASSERT_EQUAL(audit.problems, 0);
  CU_ASSERT_EQUAL(audit.file[0].origin, KVA_LINKED);
  CU_ASSERT_EQUAL_FATAL(audit.file[0].entries, 5);
  for (size_t i = 0; i < 5; i++) CU_ASSERT(audit.file[0].entry[i].in_data);
  CU_ASSERT_EQUAL(audit.names.count, 8);
  FILE *out = open_memstream(&text, &listed);
  CU_ASSERT_EQUAL(kva_tell_list(out, &audit, &err), KV_OK);
  (void)fclose(out);
  CU_ASSERT_PTR_NULL(strstr(text, " file ")); /* the form of cuobjdump's lines, which has none of these */
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "PTX data"));
  free(text);
  text = NULL;
  const kva_tell t = {.sm = 120};
  CU_ASSERT_EQUAL(kva_audit_families(&audit, &err), KV_OK);
  out = open_memstream(&text, &listed);
  CU_ASSERT_EQUAL(kva_tell_json(out, &audit, &t, &err), KV_OK);
  (void)fclose(out);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "\"in_data\""));
  free(text);
  text = NULL;
  out = open_memstream(&text, &listed);
  CU_ASSERT_EQUAL(kva_tell_text(out, &audit, &t, &err), KV_OK);
  (void)fclose(out);
  CU_ASSERT_PTR_NOT_NULL(strstr(text, "5 of 5 entries lie in plain data"));
  free(text);
  kva_audit_free(&audit);
  free(data);
}

/* The magic number alone, or with a header that nothing follows, is no fatbin in plain data, and no damage. */
static void magic_numbers_by_chance_are_passed_over(void) {
  size_t size = 0;
  char *data = fatbins_as_data(&size);
  static const unsigned char magic[] = {0x50, 0xED, 0x55, 0xBA, 1, 0, 16, 0};
  char *first = memmem(data, size, magic, sizeof magic);
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  CU_ASSERT_PTR_NOT_NULL_FATAL(first);
  for (int what = 0; what < 3; what++) {
    kva_audit audit = {0};
    unsigned char saved[48];
    memcpy(saved, first, sizeof saved);
    if (what == 0) first[16] = 77;              /* an unknown kind */
    if (what == 1) first[4] = 9;                /* another version */
    if (what == 2) memset(first + 44, 0xff, 4); /* no target has this number */
    CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x.so", (unsigned char *)data, size, &options, &err), KV_OK);
    CU_ASSERT_EQUAL(audit.problems, 0);
    CU_ASSERT(!audit.files || audit.file[0].entries < 5);
    kva_audit_free(&audit);
    memcpy(first, saved, sizeof saved);
  }
  memset(first + 8, 0x7f, 7); /* a fatbin whose size lies, with a good first entry */
  kva_audit audit = {0};
  CU_ASSERT_EQUAL(kva_audit_add_memory(&audit, "x.so", (unsigned char *)data, size, &options, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(audit.problems, 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(audit.problem[0], "reaches past its section"));
  kva_audit_free(&audit);
  free(data);
}

static void bombs_and_lying_sizes_are_refused(void) {
  static unsigned char zeros[1 << 20], packed[1 << 15];
  size_t n = ZSTD_compress(packed, sizeof packed, zeros, sizeof zeros, 19);
  CU_ASSERT_FATAL(!ZSTD_isError(n) && n < 4000);
  bytes b = one_entry(2, 80, 0x8000, packed, n, (uint64_t)1 << 40, true);
  expect_problem(&b, "refused"); /* a terabyte */
  b = one_entry(2, 80, 0x8000, packed, n, (uint64_t)1 << 29, true);
  expect_problem(&b, "refused"); /* half a gigabyte from a few bytes */
  b = one_entry(2, 80, 0x8000, packed, n, 1000, true);
  expect_problem(&b, "the zstd frame does not"); /* says less than it is */
  b = one_entry(2, 80, 0x8000, packed, n - 4, sizeof zeros, true);
  expect_problem(&b, "does not unpack");
  int m = LZ4_compress_default((char *)zeros, (char *)packed, sizeof zeros, sizeof packed);
  CU_ASSERT_FATAL(m > 0 && m < 8000);
  b = one_entry(2, 80, 0x2000, packed, (size_t)m, sizeof zeros, true);
  expect_problem(&b, "not an ELF file"); /* unpacks well, to nothing useful */
  b = one_entry(2, 80, 0x2000, packed, (size_t)m, sizeof zeros + 1, true);
  expect_problem(&b, "does not unpack");
  b = one_entry(2, 80, 0x2000, packed, (size_t)m, sizeof zeros / 2, true);
  expect_problem(&b, "does not unpack");
  b = one_entry(2, 80, 0x2000, packed, 16, 1 << 20, true);
  expect_problem(&b, "refused"); /* LZ4 cannot expand so much */
  b = one_entry(2, 80, 0x1000, packed, 16, 100, true);
  expect_problem(&b, "packed in a way");
  b = one_entry(2, 80, 0x8000, packed, 16, 0, true);
  expect_problem(&b, "refused");
}

static void headers_that_lie_are_told(void) {
  bytes good = one_entry(1, 80, 0, small_ptx, sizeof small_ptx, 0, false), b = good;
  put(&b, 8, b.size, 8);
  expect_problem(&b, "reaches past its section");
  b = good;
  put(&b, 8, UINT64_MAX - 3, 8);
  expect_problem(&b, "reaches past its section");
  b = good;
  put(&b, 20, 8, 4);
  expect_problem(&b, "header's size is out of range");
  b = good;
  put(&b, 20, UINT32_MAX, 4);
  expect_problem(&b, "header's size is out of range");
  b = good;
  put(&b, 24, UINT64_MAX - 70, 8);
  expect_problem(&b, "payload reaches past");
  b = good;
  put(&b, 32, UINT32_MAX, 4);
  expect_problem(&b, "compressed size is larger");
  b = good;
  b.size = 20;
  expect_problem(&b, "reaches past its section");
  b = good;
  put(&b, 8, 30, 8);
  expect_problem(&b, "cut off");
}

/* Every prefix of every fixture, and every fixture with each of a few thousand bytes changed, must end quietly. */
static void cut_and_changed_files_end_quietly(void) {
  static const char *const name[] = {"full.so", "full.a", "lz4.fatbin", "sm_90a.cubin", "sm_86.cubin", "sm_90a.ptx"};
  kva_collect_options options = {.code = true, .threads = 1};
  kv_error err;
  for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
    char path[256];
    size_t size = 0, step;
    (void)snprintf(path, sizeof path, "tests/golden/audit/%s", name[i]);
    char *data = read_file(kv_source(path), &size);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data);
    step = size / 200 + 1;
    for (size_t n = 0; n < size; n += step) {
      kva_audit audit = {0};
      char *cut = malloc(n + 1); /* of its own, so that a read past its end is seen */
      memcpy(cut, data, n);
      (void)kva_audit_add_memory(&audit, "cut", (unsigned char *)cut, n, &options, &err);
      kva_audit_free(&audit);
      free(cut);
      audit = (kva_audit){0};
      data[n] = (char)(data[n] ^ 0xff);
      (void)kva_audit_add_memory(&audit, "changed", (unsigned char *)data, size, &options, &err);
      data[n] = (char)(data[n] ^ 0xff);
      kva_audit_free(&audit);
    }
    free(data);
  }
  CU_PASS("no crash");
}

/* ---- PTX text ---- */

typedef struct seen {
  kva_kernel kernel[4];
  size_t count;
} seen;

static void see(void *context, const kva_kernel *k) {
  seen *s = context;
  if (s->count < 4) s->kernel[s->count++] = *k;
}

static void ptx_is_read_by_statement(void) {
  static const char text[] =
      "// a comment: wgmma.mma_async\n.version 9.0\n.target sm_90a, debug\n"
      ".extern .shared .align 16 .b8 ring[];\n.shared .align 4 .f32 table[3][5];\n"
      ".func (.param .b32 r) helper(.param .b32 a) { mbarrier.try_wait.parity.shared::cta.b64 p, [a], 0; ret; }\n"
      ".visible .entry first(.param .u64 p) .maxntid 8, 16, 1\n{\n .reg .pred p1;\n .shared .b8 own[256];\n"
      " @!p1 wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {f1, f2}, d1, d2;\n$L_1:\n"
      " /* tcgen05.mma */ mov.u32 r1, ring; mov.u32 r2, %cluster_ctaid.x;\n { trap; }\n}\n"
      ".entry second(){ call (r), helper, (a); mov.u32 r3, table; }\n";
  kva_target target = {0, 0};
  seen s = {.count = 0};
  kv_error err;
  CU_ASSERT_EQUAL(kva_ptx_kernels(text, sizeof text - 1, &target, see, &s, &err), KV_OK);
  CU_ASSERT_EQUAL_FATAL(s.count, 2);
  CU_ASSERT(target.sm == 90 && target.suffix == 'a');
  CU_ASSERT(s.kernel[0].name_length == 5 && !memcmp(s.kernel[0].name, "first", 5));
  CU_ASSERT_EQUAL(s.kernel[0].features, KVA_BIT(KVA_WGMMA) | KVA_BIT(KVA_CLUSTER));
  CU_ASSERT_EQUAL(s.kernel[0].count[KVA_WGMMA], 1);
  CU_ASSERT_EQUAL(s.kernel[0].max_threads, 128);
  CU_ASSERT_EQUAL(s.kernel[0].shared, 256);
  CU_ASSERT(s.kernel[0].dynamic_shared);
  CU_ASSERT_EQUAL(s.kernel[0].traps, 1);
  CU_ASSERT_EQUAL(s.kernel[1].features, KVA_BIT(KVA_MBARRIER)); /* through the call */
  CU_ASSERT_EQUAL(s.kernel[1].shared, 60);
  CU_ASSERT_FALSE(s.kernel[1].dynamic_shared);
}

/* The toolkit's own libraries, where it is installed: as many entries, with the same list, as recorded with cuobjdump
 * 13.5 by tests/audit_against_cuobjdump.sh. A file of another size is another version and is left out. */
static void the_toolkits_libraries_list_as_recorded(void) {
  FILE *f = fopen(kv_source("tests/golden/audit/recorded.txt"), "r");
  char line[1024], name[512], sha[65];
  unsigned long long size, entries;
  size_t compared = 0;
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  while (fgets(line, sizeof line, f)) {
    struct stat sb;
    if (sscanf(line, "%511s %llu %llu %64s", name, &size, &entries, sha) != 4 || name[0] != '/') continue;
    if (stat(name, &sb) != 0 || (unsigned long long)sb.st_size != size) continue;
    char *out;
    CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s audit --list -q %s | grep ' file ' | sha256sum", kv_program("roofline"), name), 0);
    CU_ASSERT_EQUAL(strncmp(out, sha, 64), 0);
    if (strncmp(out, sha, 64)) printf("%s lists otherwise than recorded\n", name);
    free(out);
    compared++;
  }
  (void)fclose(f);
  printf("(%zu recorded libraries here) ", compared);
}

/* cuFFT 13 of one size, where it is: the 23,983 fatbins of its .ldata. cuobjdump 13.5 lists the same 3,124 cubins and 8,131
 * PTX texts once they lie in a section called .nv_fatbin. */
static void cuffts_data_is_found(void) {
  static const char path[] = "/usr/local/cuda/lib64/libcufft.so.12";
  struct stat sb;
  if (stat(path, &sb) != 0 || sb.st_size != 286542352) return;
  char *out;
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s audit --list -q %s | cut -c1-8 | sort | uniq -c | tr -s ' ' | tr '\\n' ';'",
                         kv_program("roofline"), path), 0);
  CU_ASSERT_STRING_EQUAL(out, " 3124 ELF data; 1 ELF file; 8131 PTX data;");
  free(out);
}

void suite_audit_container(void) {
  static const kv_test_case cases[] = {{"lists as cuobjdump", entries_are_those_of_cuobjdump},
                                       {"resources", kernels_have_their_resources},
                                       {"packings", packings_hold_the_same},
                                       {"wheels and folders", wheels_and_folders_are_walked},
                                       {"crafted fatbin", a_crafted_fatbin_is_read},
                                       {"no section table", a_file_without_sections_is_searched},
                                       {"fatbins in plain data", fatbins_in_plain_data_are_found},
                                       {"magic by chance", magic_numbers_by_chance_are_passed_over},
                                       {"bombs", bombs_and_lying_sizes_are_refused},
                                       {"lying headers", headers_that_lie_are_told},
                                       {"cut and changed files", cut_and_changed_files_end_quietly},
                                       {"PTX text", ptx_is_read_by_statement},
                                       {"cuFFT", cuffts_data_is_found},
                                       {"recorded libraries", the_toolkits_libraries_list_as_recorded},
                                       {NULL, NULL}};
  kv_suite("audit_container", cases);
}
