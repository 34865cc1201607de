#include "audit_isa.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kva_target_parse(const char *text, kva_target *target) {
  static const char *const prefix[] = {"sm_", "compute_", "lto_"};
  for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
    if (!strncmp(text, prefix[i], strlen(prefix[i]))) {
      text += strlen(prefix[i]);
      break;
    }
  unsigned digits = 0, sm = 0;
  bool dot = false;
  for (; isdigit((unsigned char)*text) || (*text == '.' && !dot && digits); text++) {
    if (*text == '.') {
      dot = true;
      if (!isdigit((unsigned char)text[1]) || isdigit((unsigned char)text[2])) return false;
    } else {
      sm = 10 * sm + (unsigned)(*text - '0');
      if (++digits > 3) return false;
    }
  }
  char suffix = *text == 'a' || *text == 'f' ? *text++ : '\0';
  if (digits < 2 || sm < 20 || *text) return false;
  *target = (kva_target){.sm = sm, .suffix = suffix};
  return true;
}

kv_status kva_gpu_parse(const char *text, unsigned *sm, kv_error *err) {
  kva_target t;
  if (!kva_target_parse(text, &t))
    return kv_fail(err, KV_ERR_USAGE, "--gpu: '%s' is not a compute capability; write sm_120 or 12.0", text);
  if (t.suffix)
    return kv_fail(err, KV_ERR_USAGE, "--gpu: '%s': a GPU has no suffix, only code has; write sm_%u", text, t.sm);
  *sm = t.sm;
  return KV_OK;
}

void kva_target_text(kva_target t, char text[KVA_TARGET_TEXT]) {
  (void)snprintf(text, KVA_TARGET_TEXT, t.suffix ? "sm_%u%c" : "sm_%u", t.sm % 100000, t.suffix);
}

const char *kva_suffix_meaning(char suffix) {
  if (suffix == 'a') return "architecture-specific: runs on that compute capability alone";
  if (suffix == 'f') return "family-specific: runs on its family, same or newer";
  return "machine code runs on the same major, same or newer minor; PTX on anything same or newer";
}

/* Families of the Programming Guide's table: within each an 'f' target runs on itself and what is newer. */
static unsigned family(unsigned sm) {
  switch (sm) {
    case 100:
    case 103: return 100;
    case 120:
    case 121: return 120;
    default: return sm; /* 110 is alone in its family (and sm_101 is its name before CUDA 13) */
  }
}

bool kva_code_runs(kva_target code, unsigned sm) {
  if (code.suffix == 'a') return code.sm == sm;
  if (code.suffix == 'f') return family(code.sm) == family(sm) && sm >= code.sm;
  return code.sm / 10 == sm / 10 && sm >= code.sm;
}

bool kva_ptx_compiles(kva_target ptx, unsigned sm) {
  return ptx.suffix ? kva_code_runs(ptx, sm) : sm >= ptx.sm;
}

const kva_limits *kva_limits_of(unsigned sm) {
  static const kva_limits limits[] = {
      {50, 48 * 1024, 64 * 1024},    {52, 48 * 1024, 96 * 1024},    {60, 48 * 1024, 64 * 1024},
      {61, 48 * 1024, 96 * 1024},    {70, 96 * 1024, 96 * 1024},    {72, 96 * 1024, 96 * 1024},
      {75, 64 * 1024, 64 * 1024},    {80, 163 * 1024, 164 * 1024},  {86, 99 * 1024, 100 * 1024},
      {87, 163 * 1024, 164 * 1024},  {89, 99 * 1024, 100 * 1024},   {90, 227 * 1024, 228 * 1024},
      {100, 227 * 1024, 228 * 1024}, {103, 227 * 1024, 228 * 1024}, {110, 227 * 1024, 228 * 1024},
      {120, 99 * 1024, 100 * 1024},  {121, 99 * 1024, 100 * 1024}};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
    if (limits[i].sm == sm) return &limits[i];
  return NULL;
}

/* Where ptxas 13.0.88 accepts a feature: from `base` on with any suffix (0: never without one), and for the listed
 * targets with a suffix. 'f' here means that 'a' of the same number has it too. */
typedef struct availability {
  const char *key, *mnemonic, *port;
  unsigned base;
  const char *special; /* targets with a suffix, blank-separated */
} availability;

#define TC "100a 100f 103a 103f 110a 110f"
#define TC12 TC " 120a 120f 121a 121f"
static const availability feature_table[KVA_FEATURES] = {
    [KVA_MMA] = {"mma.sync", "HMMA", "", 70, ""},
    [KVA_MMA_INT] = {"mma.sync int8", "IMMA", "", 72, ""},
    [KVA_MMA_F64] = {"mma.sync f64", "DMMA", "", 80, ""},
    [KVA_MMA_FP8] = {"mma.sync fp8", "QMMA", "fp8 products through f16 mma.sync", 89, ""},
    [KVA_MMA_F8F6F4] = {"mma.sync kind::f8f6f4", "", "f8f6f4 products through f16 mma.sync", 0,
                        "120a 120f 121a 121f"},
    [KVA_MMA_SCALED] = {"mma.sync block_scale", "QMMA.SF, OMMA.SF",
                        "block-scaled products: tcgen05 on 10.x, f16 mma.sync elsewhere", 0, "120a 120f 121a 121f"},
    [KVA_MMA_SUBBYTE] = {"mma.sync b1/s4", "BMMA", "", 75, ""},
    [KVA_WGMMA] = {"wgmma", "HGMMA, QGMMA, IGMMA, BGMMA",
                   "warp-group products read shared memory and run asynchronously: on other GPUs another main loop, "
                   "mma.sync with ldmatrix (any), tcgen05 (10.x, 11.0)",
                   0, "90a"},
    [KVA_TCGEN05] = {"tcgen05", "UTCHMMA, LDTM, UTCBAR",
                     "products into tensor memory: on other GPUs another main loop with the accumulators in registers, "
                     "mma.sync (any) or wgmma (9.0)",
                     0, TC},
    [KVA_CTA_GROUP2] = {"cta_group::2", "", "pairs of blocks sharing one product: one block a tile instead", 0, TC},
    [KVA_CP_ASYNC] = {"cp.async", "LDGSTS", "loads through registers", 80, ""},
    [KVA_BULK] = {"cp.async.bulk", "UBLKCP", "cp.async or loads through registers", 90, ""},
    [KVA_TMA] = {"cp.async.bulk.tensor", "UTMALDG, UTMASTG", "cp.async with addresses computed by the threads", 90, ""},
    [KVA_MULTICAST] = {"multicast::cluster", "", "one load a block (no cluster)", 90, ""},
    [KVA_GATHER4] = {"tile::gather4", "", "one cp.async.bulk or cp.async a row", 100, ""},
    [KVA_CLUSTER] = {"cluster", "UCGABAR", "no clusters: exchange through global memory", 90, ""},
    [KVA_ST_ASYNC] = {"st.async", "STAS", "no clusters: exchange through global memory", 90, ""},
    [KVA_MBARRIER] = {"mbarrier.try_wait", "SYNCS", "mbarrier.test_wait in a loop, or bar.sync", 90, ""},
    [KVA_SETMAXNREG] = {"setmaxnreg", "USETMAXREG", "leave it out (one register budget for all warps)", 0,
                        "90a " TC12},
    [KVA_ELECT] = {"elect.sync", "ELECT", "lane 0 by hand", 90, ""},
    [KVA_PDL] = {"griddepcontrol", "ACQBULK, PREEXIT", "leave it out (no overlap with the previous launch)", 90, ""},
    [KVA_CLC] = {"clusterlaunchcontrol", "UGETNEXTWORKID", "a static or atomic tile scheduler", 100, ""},
    [KVA_LDMATRIX] = {"ldmatrix", "LDSM", "shared loads by hand", 75, ""},
    [KVA_LDMATRIX_B8] = {"ldmatrix b8", "", "ldmatrix b16 and a byte shuffle", 0, TC12},
    [KVA_STMATRIX] = {"stmatrix", "STSM", "shared stores by hand", 90, ""},
    [KVA_LD256] = {"256-bit loads", "", "two 128-bit loads", 100, ""},
    [KVA_F32X2] = {"f32x2", "FFMA2", "two scalar operations", 100, ""},
    [KVA_CVT_FP8] = {"cvt fp8", "", "conversion by bit operations", 89, ""},
    [KVA_CVT_FP4] = {"cvt fp4/fp6", "", "conversion by a table or bit operations", 0, TC12},
    [KVA_REDUX_F32] = {"redux f32", "CREDUX", "a shuffle reduction", 0, "100a 100f 103a 103f"},
    [KVA_MULTIMEM] = {"multimem", "LDGMC", "one access a GPU", 90, ""},
};

const char *kva_feature_key(kva_feature f) { return f < KVA_FEATURES ? feature_table[f].key : ""; }
const char *kva_feature_port(kva_feature f) { return f < KVA_FEATURES ? feature_table[f].port : ""; }
const char *kva_feature_mnemonic(kva_feature f) { return f < KVA_FEATURES ? feature_table[f].mnemonic : ""; }

bool kva_feature_in(kva_feature f, kva_target t) {
  if (f >= KVA_FEATURES) return false;
  const availability *a = &feature_table[f];
  if (a->base && t.sm >= a->base) return true;
  char name[KVA_TARGET_TEXT];
  kva_target_text(t, name);
  const char *at = strstr(a->special, name + 3);
  return t.suffix && at && (at == a->special || at[-1] == ' ');
}

static bool all_in(uint64_t set, kva_target t) {
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if ((set & KVA_BIT(f)) && !kva_feature_in((kva_feature)f, t)) return false;
  return true;
}

uint64_t kva_features_missing(uint64_t set, unsigned sm) {
  uint64_t missing = 0;
  for (unsigned f = 0; f < KVA_FEATURES; f++) {
    bool anywhere = false;
    for (const char *s = "\0af"; s < &"\0af"[3]; s++) anywhere |= kva_feature_in((kva_feature)f, (kva_target){sm, *s});
    if ((set & KVA_BIT(f)) && !anywhere) missing |= KVA_BIT(f);
  }
  return missing;
}

bool kva_target_for(uint64_t set, unsigned sm, kva_target *target) {
  static const char order[] = {'\0', 'f', 'a'};
  for (size_t i = 0; i < sizeof order; i++) {
    *target = (kva_target){sm, order[i]};
    if (all_in(set, *target)) return true;
  }
  return false;
}

/* Low nine bits name the instruction; the three above them name the operand form. */
int kva_opcode_feature(unsigned opcode, unsigned sm) {
  bool hopper = sm == 90, tensor_memory = sm >= 100 && sm < 120;
  if (sm < 70) return -1; /* older code has another encoding */
  switch (opcode & 0x1ff) {
    case 0x036: return sm < 75 ? KVA_MMA : -1; /* HMMA.884 of Volta; VIADD elsewhere */
    case 0x03c: return KVA_MMA;
    case 0x037: return KVA_MMA_INT;
    case 0x03f: return KVA_MMA_F64;
    case 0x03d: return KVA_MMA_SUBBYTE;
    case 0x07a: return sm < 89 ? -1 : (opcode >> 9) == 2 ? KVA_MMA_SCALED : KVA_MMA_FP8;
    case 0x07f: return sm >= 120 ? KVA_MMA_SCALED : -1;
    case 0x1f0:
    case 0x1f1:
    case 0x1f2:
    case 0x1f3: return hopper ? KVA_WGMMA : -1;
    case 0x1e3:
    case 0x1e6:
    case 0x1e7:
    case 0x1e9:
    case 0x1ea:
    case 0x1ed:
    case 0x1ee: return tensor_memory ? KVA_TCGEN05 : -1;
    case 0x1ae: return sm >= 80 ? KVA_CP_ASYNC : -1;
    case 0x1ba: return sm >= 90 ? KVA_BULK : -1;
    case 0x1b4:
    case 0x1b5:
    case 0x1b6: return sm >= 90 ? KVA_TMA : -1;
    case 0x1c7: return sm >= 90 ? KVA_CLUSTER : -1;
    case 0x1bd: return sm >= 90 ? KVA_ST_ASYNC : -1;
    case 0x1c8: return sm >= 90 ? KVA_SETMAXNREG : -1;
    case 0x02f: return sm >= 90 ? KVA_ELECT : -1;
    case 0x02d:
    case 0x02e: return sm >= 90 ? KVA_PDL : -1;
    case 0x1ca: return sm >= 100 ? KVA_CLC : -1;
    case 0x03b: return sm >= 75 ? KVA_LDMATRIX : -1;
    case 0x044: return sm >= 90 && (opcode >> 9) == 4 ? KVA_STMATRIX : -1;
    case 0x049:
    case 0x04a:
    case 0x04b: return sm >= 100 && sm < 110 ? KVA_F32X2 : -1;
    case 0x0cc: return sm >= 100 && sm < 110 ? KVA_REDUX_F32 : -1;
    case 0x1a4: return sm >= 90 ? KVA_MULTIMEM : -1;
    default: return -1;
  }
}

static bool has(const char *s, size_t n, const char *part) { return memmem(s, n, part, strlen(part)) != NULL; }
static bool starts(const char *s, size_t n, const char *part) {
  return n >= strlen(part) && !memcmp(s, part, strlen(part));
}

static uint64_t mma_features(const char *s, size_t n) {
  if (has(s, n, "block_scale")) return KVA_BIT(KVA_MMA_SCALED);
  if (has(s, n, "kind::f8f6f4")) return KVA_BIT(KVA_MMA_F8F6F4);
  if (has(s, n, ".e4m3") || has(s, n, ".e5m2")) return KVA_BIT(KVA_MMA_FP8);
  if (has(s, n, ".f64")) return KVA_BIT(KVA_MMA_F64);
  if (has(s, n, ".b1.") || has(s, n, ".s4.") || has(s, n, ".u4.")) return KVA_BIT(KVA_MMA_SUBBYTE);
  if (has(s, n, ".s32")) return KVA_BIT(KVA_MMA_INT);
  return KVA_BIT(KVA_MMA);
}

static uint64_t bulk_features(const char *s, size_t n) {
  uint64_t set = KVA_BIT(has(s, n, ".tensor") ? KVA_TMA : KVA_BULK);
  if (has(s, n, "multicast::cluster")) set |= KVA_BIT(KVA_MULTICAST);
  if (has(s, n, "gather4") || has(s, n, "scatter4")) set |= KVA_BIT(KVA_GATHER4);
  return set;
}

static uint64_t cvt_features(const char *s, size_t n) {
  if (has(s, n, "e2m1") || has(s, n, "e2m3") || has(s, n, "e3m2")) return KVA_BIT(KVA_CVT_FP4);
  return has(s, n, "e4m3") || has(s, n, "e5m2") ? KVA_BIT(KVA_CVT_FP8) : 0;
}

static uint64_t mbarrier_features(const char *s, size_t n) {
  return has(s, n, "try_wait") || has(s, n, "expect_tx") || has(s, n, "complete_tx") ? KVA_BIT(KVA_MBARRIER) : 0;
}

static uint64_t matrix_features(const char *s, size_t n) {
  if (*s == 's') return KVA_BIT(KVA_STMATRIX);
  return KVA_BIT(has(s, n, ".b8") ? KVA_LDMATRIX_B8 : KVA_LDMATRIX);
}

static uint64_t load_features(const char *s, size_t n) {
  uint64_t wide = has(s, n, ".v8.") || has(s, n, ".v4.b64") || has(s, n, ".v4.u64") || has(s, n, ".v4.f64");
  return (wide ? KVA_BIT(KVA_LD256) : 0) | (has(s, n, "shared::cluster") ? KVA_BIT(KVA_CLUSTER) : 0);
}

uint64_t kva_ptx_features(const char *s, size_t n) {
  static const struct {
    const char *prefix;
    uint64_t set;
    uint64_t (*more)(const char *, size_t);
  } rule[] = {{"wgmma.", KVA_BIT(KVA_WGMMA), NULL},
              {"tcgen05.", KVA_BIT(KVA_TCGEN05), NULL},
              {"mma.", 0, mma_features},
              {"wmma.mma", 0, mma_features},
              {"cp.async.bulk.", 0, bulk_features},
              {"cp.reduce.async.bulk", 0, bulk_features},
              {"cp.async.", KVA_BIT(KVA_CP_ASYNC), NULL},
              {"ldmatrix", 0, matrix_features},
              {"stmatrix", 0, matrix_features},
              {"mbarrier.", 0, mbarrier_features},
              {"setmaxnreg", KVA_BIT(KVA_SETMAXNREG), NULL},
              {"barrier.cluster", KVA_BIT(KVA_CLUSTER), NULL},
              {"mapa", KVA_BIT(KVA_CLUSTER), NULL},
              {"getctarank", KVA_BIT(KVA_CLUSTER), NULL},
              {"st.async", KVA_BIT(KVA_ST_ASYNC), NULL},
              {"red.async", KVA_BIT(KVA_ST_ASYNC), NULL},
              {"elect.sync", KVA_BIT(KVA_ELECT), NULL},
              {"griddepcontrol", KVA_BIT(KVA_PDL), NULL},
              {"clusterlaunchcontrol", KVA_BIT(KVA_CLC), NULL},
              {"multimem.", KVA_BIT(KVA_MULTIMEM), NULL},
              {"cvt.", 0, cvt_features},
              {"ld.", 0, load_features},
              {"st.", 0, load_features}};
  if (starts(s, n, "redux.sync") && has(s, n, ".f32")) return KVA_BIT(KVA_REDUX_F32);
  if (has(s, n, ".f32x2") && (starts(s, n, "fma.") || starts(s, n, "add.") || starts(s, n, "mul.")))
    return KVA_BIT(KVA_F32X2);
  for (size_t i = 0; i < sizeof rule / sizeof *rule; i++)
    if (starts(s, n, rule[i].prefix)) {
      uint64_t set = rule[i].set | (rule[i].more ? rule[i].more(s, n) : 0);
      if (has(s, n, "cta_group::2")) set |= KVA_BIT(KVA_CTA_GROUP2);
      return set;
    }
  return 0;
}
