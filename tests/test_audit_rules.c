/* What runs where: the rules of audit_isa.h, against the Programming Guide's tables and ptxas's acceptance. */
#include <stdlib.h>
#include <string.h>

#include "audit_isa.h"
#include "audit_names.h"
#include "gpu.h"
#include "kv_test.h"

static void targets_are_read_and_written(void) {
  static const struct {
    const char *text;
    unsigned sm;
    char suffix;
  } good[] = {{"sm_120a", 120, 'a'}, {"compute_90", 90, 0}, {"lto_80", 80, 0}, {"12.0", 120, 0},
              {"100f", 100, 'f'},    {"8.6", 86, 0},        {"sm_90a", 90, 'a'}};
  static const char *const bad[] = {"", "sm_", "sm_a", "sm_1200", "12.", "12.01", "sm_90b", "sm_90aa", "nope", "1.2.0", "5", "sm_12"};
  kva_target t;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    CU_ASSERT(kva_target_parse(good[i].text, &t));
    CU_ASSERT_EQUAL(t.sm, good[i].sm);
    CU_ASSERT_EQUAL(t.suffix, good[i].suffix);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CU_ASSERT_FALSE(kva_target_parse(bad[i], &t));
  char text[KVA_TARGET_TEXT];
  kva_target_text((kva_target){103, 'f'}, text);
  CU_ASSERT_STRING_EQUAL(text, "sm_103f");
}

/* Worked out by hand from the Programming Guide: base code stays in its major and goes up, families are 10.0/10.3,
 * 11.0, 12.0/12.1, 'a' is exact, base PTX goes up without end. */
static void code_and_ptx_run_where_the_guide_says(void) {
  static const struct {
    kva_target t;
    unsigned sm;
    bool code, ptx;
  } c[] = {{{80, 0}, 80, true, true},      {{80, 0}, 86, true, true},      {{86, 0}, 80, false, false},
           {{80, 0}, 90, false, true},     {{80, 0}, 120, false, true},    {{90, 0}, 90, true, true},
           {{90, 0}, 100, false, true},    {{90, 'a'}, 90, true, true},    {{90, 'a'}, 100, false, false},
           {{90, 'a'}, 120, false, false}, {{100, 0}, 103, true, true},    {{100, 0}, 110, false, true},
           {{100, 0}, 120, false, true},   {{100, 'f'}, 103, true, true},  {{100, 'f'}, 100, true, true},
           {{100, 'f'}, 110, false, false}, {{100, 'f'}, 120, false, false}, {{100, 'a'}, 103, false, false},
           {{103, 'f'}, 100, false, false}, {{103, 'f'}, 103, true, true}, {{120, 'f'}, 121, true, true},
           {{120, 0}, 121, true, true},    {{121, 0}, 120, false, false},  {{120, 'a'}, 121, false, false},
           {{120, 'a'}, 120, true, true},  {{120, 0}, 100, false, false},  {{110, 'f'}, 120, false, false},
           {{75, 0}, 120, false, true}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    CU_ASSERT_EQUAL(kva_code_runs(c[i].t, c[i].sm), c[i].code);
    CU_ASSERT_EQUAL(kva_ptx_compiles(c[i].t, c[i].sm), c[i].ptx);
  }
}

static void features_are_where_ptxas_accepts_them(void) {
  static const struct {
    kva_feature f;
    kva_target t;
    bool there;
  } c[] = {{KVA_WGMMA, {90, 'a'}, true},       {KVA_WGMMA, {90, 0}, false},       {KVA_WGMMA, {100, 'a'}, false},
           {KVA_WGMMA, {120, 'a'}, false},     {KVA_TCGEN05, {100, 'a'}, true},   {KVA_TCGEN05, {100, 'f'}, true},
           {KVA_TCGEN05, {100, 0}, false},     {KVA_TCGEN05, {110, 'a'}, true},   {KVA_TCGEN05, {120, 'a'}, false},
           {KVA_TMA, {90, 0}, true},           {KVA_TMA, {120, 0}, true},         {KVA_TMA, {89, 0}, false},
           {KVA_SETMAXNREG, {90, 'a'}, true},  {KVA_SETMAXNREG, {90, 0}, false},  {KVA_SETMAXNREG, {120, 'f'}, true},
           {KVA_SETMAXNREG, {120, 0}, false},  {KVA_MMA_SCALED, {120, 'a'}, true}, {KVA_MMA_SCALED, {100, 'a'}, false},
           {KVA_CP_ASYNC, {80, 0}, true},      {KVA_CP_ASYNC, {75, 0}, false},    {KVA_MMA_FP8, {89, 0}, true},
           {KVA_MMA_FP8, {86, 0}, false},      {KVA_CLUSTER, {120, 0}, true},     {KVA_GATHER4, {120, 0}, true},
           {KVA_GATHER4, {90, 'a'}, false},    {KVA_REDUX_F32, {100, 'a'}, true}, {KVA_REDUX_F32, {120, 'a'}, false}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) CU_ASSERT_EQUAL(kva_feature_in(c[i].f, c[i].t), c[i].there);
  uint64_t hopper = KVA_BIT(KVA_WGMMA) | KVA_BIT(KVA_TMA) | KVA_BIT(KVA_SETMAXNREG);
  CU_ASSERT_EQUAL(kva_features_missing(hopper, 120), KVA_BIT(KVA_WGMMA)); /* TMA and setmaxnreg do exist there */
  CU_ASSERT_EQUAL(kva_features_missing(hopper, 80), hopper);
  kva_target t;
  CU_ASSERT(kva_target_for(KVA_BIT(KVA_TMA) | KVA_BIT(KVA_MMA), 120, &t) && t.suffix == 0);
  CU_ASSERT(kva_target_for(KVA_BIT(KVA_SETMAXNREG), 120, &t) && t.suffix == 'f');
  CU_ASSERT(kva_target_for(KVA_BIT(KVA_WGMMA), 90, &t) && t.suffix == 'a');
  CU_ASSERT_FALSE(kva_target_for(KVA_BIT(KVA_WGMMA), 120, &t));
}

static void ptx_opcodes_name_their_features(void) {
  static const struct {
    const char *op;
    uint64_t set;
  } c[] = {{"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", KVA_BIT(KVA_WGMMA)},
           {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", KVA_BIT(KVA_MMA)},
           {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", KVA_BIT(KVA_MMA_FP8)},
           {"mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64", KVA_BIT(KVA_MMA_SCALED)},
           {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", KVA_BIT(KVA_MMA_INT)},
           {"cp.async.cg.shared.global", KVA_BIT(KVA_CP_ASYNC)},
           {"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", KVA_BIT(KVA_BULK)},
           {"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes",
            KVA_BIT(KVA_TMA) | KVA_BIT(KVA_GATHER4)},
           {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
            KVA_BIT(KVA_TMA) | KVA_BIT(KVA_MULTICAST)},
           {"tcgen05.mma.cta_group::2.kind::f16", KVA_BIT(KVA_TCGEN05) | KVA_BIT(KVA_CTA_GROUP2)},
           {"mbarrier.init.shared.b64", 0},
           {"mbarrier.try_wait.parity.shared::cta.b64", KVA_BIT(KVA_MBARRIER)},
           {"ld.global.v8.b32", KVA_BIT(KVA_LD256)},
           {"ld.global.v4.b32", 0},
           {"redux.sync.min.f32", KVA_BIT(KVA_REDUX_F32)},
           {"redux.sync.add.s32", 0},
           {"add.s32", 0}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) CU_ASSERT_EQUAL(kva_ptx_features(c[i].op, strlen(c[i].op)), c[i].set);
}

/* Opcodes as nvdisasm prints them beside its mnemonics. */
static void machine_opcodes_name_their_features(void) {
  static const struct {
    unsigned op, sm;
    int feature;
  } c[] = {{0x23c, 80, KVA_MMA},        {0x9f0, 90, KVA_WGMMA},     {0xdf3, 90, KVA_WGMMA},  {0x9f0, 120, -1},
           {0x5ea, 100, KVA_TCGEN05},   {0x9ee, 103, KVA_TCGEN05},  {0x9ee, 120, -1},        {0x27a, 120, KVA_MMA_FP8},
           {0x47a, 120, KVA_MMA_SCALED}, {0x47f, 120, KVA_MMA_SCALED}, {0x27a, 80, -1},      {0xfae, 86, KVA_CP_ASYNC},
           {0x5b4, 120, KVA_TMA},       {0x3ba, 90, KVA_BULK},      {0x9c8, 90, KVA_SETMAXNREG}, {0x918, 90, -1},
           {0x23c, 61, -1}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) CU_ASSERT_EQUAL(kva_opcode_feature(c[i].op, c[i].sm), c[i].feature);
}

/* Two tables of ours say the same: the audit's limits and the GPUs' descriptions. */
static void limits_agree_with_the_descriptions(void) {
  kvm_gpus gpus;
  kv_error err;
  size_t compared = 0;
  CU_ASSERT_EQUAL_FATAL(kvm_gpus_load(kv_source("models/gpus"), &gpus, &err), KV_OK);
  for (size_t i = 0; i < gpus.n; i++) {
    const kva_limits *l = kva_limits_of((unsigned)kvm_gpu_sm(&gpus.gpu[i]));
    double block = kvm_gpu_number(&gpus.gpu[i], "smem_per_block_optin"), sm = kvm_gpu_number(&gpus.gpu[i], "smem_per_sm");
    CU_ASSERT_PTR_NOT_NULL_FATAL(l);
    if (block == block) CU_ASSERT_EQUAL(l->shared_block, (uint32_t)block);
    if (sm == sm) CU_ASSERT_EQUAL(l->shared_sm, (uint32_t)sm);
    compared += block == block;
  }
  CU_ASSERT(compared >= 10);
  kvm_gpus_free(&gpus);
  CU_ASSERT_EQUAL(kva_limits_of(120)->shared_block, 101376);
  CU_ASSERT_PTR_NULL(kva_limits_of(999));
}

static void names_are_demangled_and_grouped(void) {
  static const struct {
    const char *mangled, *demangled, *family;
  } c[] = {{"_Z5plainPfi", "plain", "plain"},
           {"_ZN2ns1kILi256EEEvPf", "ns::k<256>", "ns::k"},
           {"merge_kernel", "merge_kernel", "merge_kernel"},
           {"_Znot_mangled", "_Znot_mangled", "_Znot_mangled"},
           {"_ZN7cutlass13device_kernelIN5flash16FlashAttnFwdSm90IiEEEEvNT_6ParamsE",
            "cutlass::device_kernel<flash::FlashAttnFwdSm90<int> >", "cutlass::device_kernel<flash::FlashAttnFwdSm90>"}};
  char text[512], family[512];
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    kva_demangle(c[i].mangled, text, sizeof text);
    CU_ASSERT_STRING_EQUAL(text, c[i].demangled);
    kva_family(text, family, sizeof family);
    CU_ASSERT_STRING_EQUAL(family, c[i].family);
  }
  kva_family("cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int, cutlass::gemm::MainloopSm90TmaGmma<4> > >",
             family, sizeof family);
  CU_ASSERT_STRING_EQUAL(family, "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal> [MainloopSm90TmaGmma]");
}

/* Each substitution stands for all that came before it: this name of 200 characters means some 2^60. */
static void a_name_that_explodes_is_cut(void) {
  char name[1024] = "_Z1fI1aE", text[4096];
  strcpy(name, "_Z1fI1AIS_S_EE");
  size_t n = (size_t)snprintf(name, sizeof name, "_Z1fI1aS_IS0_S0_E");
  for (int i = 1; i < 36 && n < sizeof name - 32; i++)
    n += (size_t)snprintf(name + n, sizeof name - n, "S_IS%c_S%c_E", i < 10 ? '0' + i : 'A' + i - 10, i < 10 ? '0' + i : 'A' + i - 10);
  kva_demangle(name, text, sizeof text);
  CU_ASSERT(strlen(text) < sizeof text);
  memset(name, 'P', sizeof name - 1);
  memcpy(name, "_Z1f", 4);
  name[sizeof name - 1] = '\0';
  kva_demangle(name, text, sizeof text);
  CU_ASSERT(strlen(text) < sizeof text);
}

static void equal_names_are_kept_once(void) {
  kva_names names = {0};
  char text[32];
  uint32_t a, b;
  kv_error err;
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < 5000; i++) {
      int n = snprintf(text, sizeof text, "kernel%u", i);
      CU_ASSERT_EQUAL_FATAL(kva_names_add(&names, text, (size_t)n, &a, &err), KV_OK);
      CU_ASSERT_EQUAL(a, i);
    }
  CU_ASSERT_EQUAL(names.count, 5000);
  CU_ASSERT(kva_names_find(&names, "kernel77xx", 8, &b) && b == 77);
  CU_ASSERT_FALSE(kva_names_find(&names, "kernel", 6, &b));
  kva_names_free(&names);
}

void suite_audit_rules(void) {
  static const kv_test_case cases[] = {{"targets", targets_are_read_and_written},
                                       {"where code and PTX run", code_and_ptx_run_where_the_guide_says},
                                       {"features by target", features_are_where_ptxas_accepts_them},
                                       {"PTX opcodes", ptx_opcodes_name_their_features},
                                       {"machine opcodes", machine_opcodes_name_their_features},
                                       {"limits", limits_agree_with_the_descriptions},
                                       {"names and families", names_are_demangled_and_grouped},
                                       {"exploding names", a_name_that_explodes_is_cut},
                                       {"names kept once", equal_names_are_kept_once},
                                       {NULL, NULL}};
  kv_suite("audit_rules", cases);
}
