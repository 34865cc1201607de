/* audit_isa.h - what a compute capability can run: targets and their suffixes, instruction features, limits.
 *
 * A target is what nvcc calls sm_120, sm_90a or sm_100f: a compute capability and a suffix. The rules (CUDA
 * Programming Guide, "Compute capabilities" and its family table; NVIDIA's note on family-specific targets of
 * CUDA 12.9):
 *   machine code   none: same major, device minor >= the code's;  f: same family, device >= the code's;
 *                  a: that compute capability alone
 *   PTX            none: device >= the PTX's;  f, a: as for machine code
 * So sm_90a and sm_100a never run elsewhere in either form, and plain sm_80 PTX is compiled anywhere newer.
 */
#ifndef KVA_AUDIT_ISA_H
#define KVA_AUDIT_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

typedef struct kva_target {
  unsigned sm; /* 10 x major + minor: 120 is compute capability 12.0 */
  char suffix; /* 0, 'a' (architecture-specific) or 'f' (family-specific) */
} kva_target;

#define KVA_TARGET_TEXT 16

/* "sm_120a", "compute_90", "lto_80", "120f", "12.0" -> target. False for anything else. */
bool kva_target_parse(const char *text, kva_target *target);
/* The same, for --gpu: names the accepted forms on failure (KV_ERR_USAGE). A suffix is refused: a GPU has none. */
kv_status kva_gpu_parse(const char *text, unsigned *sm, kv_error *err);
/* "sm_120a" into text. */
void kva_target_text(kva_target target, char text[KVA_TARGET_TEXT]);
/* What the suffix means for where the code runs, in words; static storage. */
const char *kva_suffix_meaning(char suffix);

/* Does machine code / PTX of this target run / compile on a device of compute capability sm? */
bool kva_code_runs(kva_target code, unsigned sm);
bool kva_ptx_compiles(kva_target ptx, unsigned sm);

/* Limits of a compute capability. Source: CUDA Programming Guide, tables "Technical specifications per compute
 * capability"; 12.x agrees with cutlass arch.h (sm120_smem_capacity_bytes = 101376). */
typedef struct kva_limits {
  unsigned sm;
  uint32_t shared_block; /* bytes a block may have with opt-in */
  uint32_t shared_sm;    /* bytes an SM has */
} kva_limits;
/* NULL if the compute capability is not in the table. */
const kva_limits *kva_limits_of(unsigned sm);

/* Instruction features; a set of them is a bit mask. */
typedef enum kva_feature {
  KVA_MMA,          /* mma.sync, wmma: f16, bf16, tf32 */
  KVA_MMA_INT,      /* mma.sync integer */
  KVA_MMA_F64,      /* mma.sync f64 */
  KVA_MMA_FP8,      /* mma.sync e4m3/e5m2 */
  KVA_MMA_F8F6F4,   /* mma.sync kind::f8f6f4 */
  KVA_MMA_SCALED,   /* mma.sync block_scale (mxf8f6f4, mxf4, mxf4nvf4) */
  KVA_MMA_SUBBYTE,  /* mma.sync b1, s4, u4 */
  KVA_WGMMA,        /* wgmma */
  KVA_TCGEN05,      /* tcgen05 */
  KVA_CTA_GROUP2,   /* cta_group::2 */
  KVA_CP_ASYNC,     /* cp.async */
  KVA_BULK,         /* cp.async.bulk, one-dimensional */
  KVA_TMA,          /* cp.async.bulk.tensor */
  KVA_MULTICAST,    /* .multicast::cluster */
  KVA_GATHER4,      /* tile::gather4 */
  KVA_CLUSTER,      /* clusters, distributed shared memory */
  KVA_ST_ASYNC,     /* st.async, red.async */
  KVA_MBARRIER,     /* mbarrier.try_wait, expect_tx */
  KVA_SETMAXNREG,   /* setmaxnreg */
  KVA_ELECT,        /* elect.sync */
  KVA_PDL,          /* griddepcontrol */
  KVA_CLC,          /* clusterlaunchcontrol */
  KVA_LDMATRIX,     /* ldmatrix */
  KVA_LDMATRIX_B8,  /* ldmatrix .b8 shapes */
  KVA_STMATRIX,     /* stmatrix */
  KVA_LD256,        /* 256-bit global loads */
  KVA_F32X2,        /* packed f32x2 arithmetic */
  KVA_CVT_FP8,      /* cvt to or from e4m3, e5m2 */
  KVA_CVT_FP4,      /* cvt to or from e2m1, e2m3, e3m2 */
  KVA_REDUX_F32,    /* redux.sync on f32 */
  KVA_MULTIMEM,     /* multimem */
  KVA_FEATURES
} kva_feature;

#define KVA_BIT(feature) (UINT64_C(1) << (feature))

/* Short stable key for JSON ("wgmma"), and what a port of it to a GPU without it takes. Static storage. */
const char *kva_feature_key(kva_feature feature);
const char *kva_feature_port(kva_feature feature);

/* Is the feature accepted for this target? Source: every feature assembled for every target with ptxas 13.0.88
 * (PTX ISA 9.0). */
bool kva_feature_in(kva_feature feature, kva_target target);
/* The features of `set` that no target of compute capability sm accepts. */
uint64_t kva_features_missing(uint64_t set, unsigned sm);
/* The least specific target of compute capability sm that accepts all of `set`: suffix 0, 'f' or 'a'. False when
 * none does. */
bool kva_target_for(uint64_t set, unsigned sm, kva_target *target);

/* The feature that one 128-bit instruction word of machine code (compute capability 7.0 and newer) stands for, by
 * its low 12 bits; -1 for none of interest. Source: every PTX feature assembled with ptxas 13.0.88 for each target
 * and disassembled with nvdisasm 13.5; counts agree with nvdisasm's (tests/audit_against_cuobjdump.sh). */
int kva_opcode_feature(unsigned opcode, unsigned sm);
/* The machine instruction's mnemonic for a feature ("HGMMA"), for messages; "" where the census has none. */
const char *kva_feature_mnemonic(kva_feature feature);

/* Features of one PTX instruction given as its opcode with modifiers ("wgmma.mma_async.sync..."). */
uint64_t kva_ptx_features(const char *opcode, size_t length);

#endif
