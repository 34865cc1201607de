/* attention.h - verify attention over an MLA pool: the problem, the kernels, their CPU reference.
 *
 * A verify step scores n_q draft tokens ("queries": the nodes of a draft tree) of every request at once. Query
 * q of request i, head h, attends to
 *     the prefix      rows kv[slots[indptr[i] + t]], t = 0 .. L_i - 1,  L_i = indptr[i+1] - indptr[i], unmasked
 *     the tree block  rows kv[tree_slots[i*n_q + j]], j = 0 .. n_q - 1, where the mask lets query q see node j
 * A pool row holds `latent` values that are K and V at once, then `rope` values that are K only:
 *     logit = scale * dot(q[0 .. latent+rope), row[0 .. latent+rope))
 *     out   = sum_k softmax(logit)_k * row_k[0 .. latent)          bf16
 *     lse   = ln sum_k exp(logit_k)                                fp32, natural logarithm
 * A query that sees no key at all gives out = 0 and lse = -inf, never NaN.
 *
 * Arrays (all in the memory of the device that runs the kernel; for the reference and the emulation, the host's):
 *     q      bf16 [batch * n_q, heads] rows of latent + rope values, q_row_stride apart
 *     out    bf16 [batch * n_q, heads, latent], lse float [batch * n_q, heads]
 *     kv     bf16 rows, kv_row_stride apart; any pool size (offsets are 64 bits wide)
 *     indptr uint64 [batch + 1], slots int32 [indptr[batch]], tree_slots int32 [batch * n_q]
 * bf16 values are the upper 16 bits of a float, stored as uint16_t.
 *
 * Launchers enqueue on a stream and return at once: they allocate nothing, never wait for the device, and take
 * every length from device memory, so a captured CUDA graph may be replayed after q, kv, indptr, slots, tree_slots
 * or mask have changed in place (within prefix_capacity). Results are bit-identical from run to run; with
 * options.fixed_split_tokens they do not depend on the other requests of the batch either.
 */
#ifndef KVK_ATTENTION_H
#define KVK_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVK_MAX_QUERIES 32
#define KVK_MAX_HEADS 128
#define KVK_LATENT 512
#define KVK_ROPE 64
/* What one block may use on every GPU from sm_86 to sm_121. */
#define KVK_SMEM_LIMIT 101376

/* Which tree nodes a query sees. The prefix is never masked: the prefix part of KVK_MASK_FULL is not read, as in
 * SGLang's skip_prefix_custom_mask. */
typedef enum kvk_mask {
  KVK_MASK_CHAIN = 0, /* node j visible to query q iff j <= q; no array */
  KVK_MASK_FULL = 1,  /* uint8, request i at byte mask_indptr[i]: n_q rows of L_i + n_q; 0 hides */
  KVK_MASK_TREE = 2,  /* uint8 [batch][n_q][n_q] */
  KVK_MASK_BITS = 3   /* one word a query, bit j for node j: uint8 if n_q <= 8, uint16 if <= 16, else uint32 */
} kvk_mask;

typedef struct kvk_problem {
  int batch;   /* requests, >= 0 */
  int queries; /* n_q, 1 .. KVK_MAX_QUERIES */
  int heads;   /* 1 .. KVK_MAX_HEADS */
  int latent;  /* the kernels are specialised for KVK_LATENT + KVK_ROPE; the reference takes any */
  int rope;
  float scale;                /* multiplies the dot product; to base 2 (times 1.44) a logit must be finite in fp32 */
  const uint16_t *q;          /* 16-byte aligned */
  int64_t q_row_stride;       /* values; a multiple of 8 */
  const uint16_t *kv;         /* 16-byte aligned */
  int64_t kv_row_stride;      /* values; a multiple of 8, at most 2^30 */
  const uint64_t *indptr;     /* [batch + 1], indptr[0] need not be 0 */
  const int32_t *slots;       /* >= 0 each; a slot may occur any number of times */
  const int32_t *tree_slots;  /* NULL: no tree block at all; a negative slot: that node does not exist */
  kvk_mask mask_kind;
  const void *mask;           /* may be NULL with KVK_MASK_CHAIN */
  const uint64_t *mask_indptr; /* [batch], KVK_MASK_FULL only */
  uint64_t prefix_capacity;   /* upper bound of indptr[batch] - indptr[0] over the life of a captured graph */
  uint16_t *out;              /* 16-byte aligned */
  float *lse;                 /* may be NULL */
} kvk_problem;

typedef enum kvk_kind {
  KVK_EXTEND_SERIAL_64 = 0, /* as SGLang's Triton extend kernel: a block per (request, head), tile 32 x 64 */
  KVK_EXTEND_SERIAL_32 = 1, /* the same with its sm_12x tile, 32 x 32 */
  KVK_SPLIT_PER_HEAD = 2,   /* split KV, but every head fetches the rows again */
  KVK_SPLIT_VERIFY = 3,     /* split KV, queries x heads share every row fetched; tiles of 16 keys, or 32 (split_verify.cu) */
  KVK_LOAD_ONLY = 4,        /* split_verify's loads and barriers without its products: output undefined */
  KVK_MMA_ONLY = 5,         /* split_verify's products on one resident tile: output undefined */
  KVK_MERGE_STATE = 6,      /* kvk_launch_merge_state() */
  KVK_KINDS = 7
} kvk_kind;

/* "split_verify", "extend_serial_32x64", ...; NULL for an unknown kind. */
const char *kvk_kind_name(kvk_kind kind);

/* Every value is fixed when a graph is captured. Start from kvk_default_options(). */
typedef struct kvk_options {
  int sms;               /* SMs of the GPU; the split kernels fill them once */
  int blocks;            /* blocks of the split kernels; 0: one an SM */
  int min_split_tokens;  /* no split shorter than this, unless a request is; 0: 64 */
  int fixed_split_tokens; /* > 0: deterministic mode, splits of exactly this many keys (a multiple of 16, better of 32) */
  int smem_limit;        /* bytes of shared memory that a block may use; 0: what the capability has */
  int capability;        /* 10 * major + minor of the GPU; 0: not known, no kind is refused */
} kvk_options;

/* For a GPU with `sms` SMs of compute capability major.minor. */
kvk_options kvk_default_options(int sms, int major, int minor);
/* The same, asked from CUDA device `device`. KV_ERR_DEVICE without CUDA or without that device. */
kv_status kvk_device_options(int device, kvk_options *options, kv_error *err);

/* Refuses what the kernels cannot do, in one line: KV_ERR_USAGE. Reads no array. */
kv_status kvk_check(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, kv_error *err);

/* Bytes of device memory a launch needs for partial results (0 possible); fixed by shapes, capacity and options. */
kv_status kvk_workspace_size(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, size_t *bytes,
                             kv_error *err);

/* Everything from queries to merged output, on `stream` (a cudaStream_t). The workspace is scratch, 16-byte aligned;
 * two launches that may overlap need one each. KV_ERR_USAGE, or KV_ERR_DEVICE when CUDA refuses (or is not built in). */
kv_status kvk_launch(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace,
                     size_t workspace_bytes, void *stream, kv_error *err);

/* Merges two attentions over disjoint keys, row by row: out = (a e^la + b e^lb) / (e^la + e^lb), lse = ln(e^la + e^lb).
 * rows = tokens * heads; a, b, out bf16 [rows, latent]; lse float [rows], natural logarithm. An lse of -inf (or +inf,
 * which some libraries use) marks an empty side; both empty gives 0 and -inf. out may be a or b; out_lse may be NULL. */
typedef struct kvk_merge {
  int64_t rows;
  const uint16_t *a, *b;
  const float *lse_a, *lse_b;
  uint16_t *out;
  float *out_lse;
} kvk_merge;
kv_status kvk_launch_merge_state(const kvk_merge *merge, void *stream, kv_error *err);

/* The same kernel sources, compiled for the host and run block by block on fibers: small problems only. Arrays are host
 * memory. `emulated` (may be NULL) gets what the run found; any finding makes the status KV_ERR_INTERNAL. */
typedef struct kvk_emulated {
  uint64_t unwritten_reads; /* shared memory read before it was written, or before its copy was waited for */
  uint64_t races;           /* shared-memory accesses of two warps, or two lanes, that nothing orders */
  uint64_t deadlocks;
  uint64_t divergences;     /* lanes of a warp that met at different collective instructions */
  uint64_t steps;           /* fiber switches */
  char first[200];          /* the first finding in words */
} kvk_emulated;
/* seed != 0 shuffles the order in which warps run. */
kv_status kvk_emulate(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace,
                      size_t workspace_bytes, uint64_t seed, kvk_emulated *emulated, kv_error *err);
/* A small kernel with one planted fault (0: none; 1 .. 7: see attn_probe.cu), to test what the emulation finds. */
void kvk_emulate_probe(int fault, kvk_emulated *emulated);
kv_status kvk_emulate_merge_state(const kvk_merge *merge, kvk_emulated *emulated, kv_error *err);

/* What a launch does, by its declared loop counts: the model's input. Bytes and operations are of the whole launch,
 * every block and the merge included. prefix[i] = L_i is read on the host. */
typedef struct kvk_structure {
  const char *name;
  uint64_t blocks;          /* of the main kernel */
  int threads, warps;       /* a block */
  uint32_t smem;            /* bytes a block, dynamic + static */
  int tile_rows;            /* query rows a block works on, padding included */
  int used_rows;            /* of which are real, on the fullest block */
  int tile_tokens;          /* keys a loop turn */
  int stages;               /* tiles in shared memory; 1: loads and products alternate */
  uint64_t row_groups;      /* blocks that fetch each prefix row (extend_serial's fetch its latent part twice) */
  uint64_t tiles;           /* loop turns over all blocks */
  uint64_t tiles_per_block; /* of the busiest block */
  uint64_t partials;        /* partial results written and merged, rows of latent values */
  int launches;             /* kernels of the operation */
  double unique_kv_bytes;   /* rows of all requests, each position once */
  double link_bytes;        /* KV, Q, indices that cross L2 -> SM, partials and outputs included; at least: what an L1 drops comes again */
  double smem_write_bytes, smem_read_bytes; /* without bank conflicts; 128 B a wavefront */
  double l1_load_bytes;     /* loads of rows into registers pass the same pipe, 128 B a wavefront; cp.async does not */
  double partial_bytes;     /* written, and read again by the merge */
  double output_bytes;
  double useful_flops;      /* 2 n_q heads (latent + rope + latent) sum of keys */
  double mma_flops;         /* executed, padding included */
  double exponentials;
  double barriers_per_tile;
} kvk_structure;
kv_status kvk_describe(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, const uint64_t *prefix,
                       kvk_structure *structure, kv_error *err);

/* Double-precision reference on host arrays: out double [batch*n_q*heads*latent], lse double [batch*n_q*heads].
 * NaN and inf in a referenced row propagate as IEEE arithmetic has them. KV_ERR_USAGE on impossible shapes. */
kv_status kvk_reference(const kvk_problem *problem, double *out, double *lse, kv_error *err);
void kvk_reference_merge(const kvk_merge *merge, double *out, double *lse);

/* Compares a result with the reference: every |difference| within `abs` or `rel` times the reference, the cosine
 * difference 1 - 2 x.y / (x.x + y.y) over all finite values within `cosine`; inf and nan at exactly the same places. */
typedef struct kvk_tolerance {
  double out_abs, out_rel, cosine, lse_abs, lse_rel;
} kvk_tolerance;
/* Those of FlashMLA's tests, for inputs of their scale (normal / 10): 8e-4, 2.01/128, 5e-6, 1e-6, 8.01/65536; for others
 * the absolute terms grow with max |V| (theirs: 0.6) and max |logit| (theirs: 1). */
kvk_tolerance kvk_default_tolerance(double max_value, double max_logit);

typedef struct kvk_difference {
  double worst_out, worst_lse;   /* largest difference, in units of its tolerance; <= 1 passes */
  double cosine;
  uint64_t bad_out, bad_lse, bad_special; /* values outside, values whose inf or nan differs */
} kvk_difference;
/* KV_OK, or KV_ERR_BAR with the first offender in err. lse may be NULL. */
kv_status kvk_compare(const kvk_problem *problem, const uint16_t *out, const float *lse, const double *ref_out,
                      const double *ref_lse, const kvk_tolerance *tolerance, kvk_difference *difference, kv_error *err);

/* bf16 <-> float, round to nearest even; NaN stays NaN. */
uint16_t kvk_to_bf16(float value);
float kvk_from_bf16(uint16_t bits);

#ifdef __cplusplus
}
#endif
#endif
