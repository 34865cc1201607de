/* verify.h - the verify attention problem in numbers: useful bytes and flops, ceilings of a GPU, what each
 * kernel's structure makes of the problem, and the floor under its time.
 *
 * Pure functions, no I/O, no allocation, thread-safe. Everything in base units (B, FLOP, s). NaN means "not
 * known".
 *
 * The problem: `batch` requests; request i attends with `queries` tree nodes x `heads` heads to its prefix of
 * L_i rows of the KV pool. A row holds latent + rope values, K is all of it, V its first `latent` values
 * (MLA).
 */
#ifndef KVM_VERIFY_H
#define KVM_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu.h"

/* ---- the problem ---- */

typedef enum kvm_rows {
  KVM_ROWS_BF16 = 0,   /* 2 B a value: 1152 B for 512 + 64 */
  KVM_ROWS_FP8 = 1,    /* 1 B a value, scales per tensor: 576 B */
  KVM_ROWS_FP8_656 = 2 /* FlashMLA's: latent fp8 with a 4-B scale per 128 values, rope bf16: 656 B */
} kvm_rows;
const char *kvm_rows_name(kvm_rows rows); /* "bf16", "fp8", "fp8-656" */
bool kvm_rows_parse(const char *name, kvm_rows *rows);
uint32_t kvm_rows_bytes(kvm_rows rows, uint32_t latent, uint32_t rope); /* bytes of one row */

#define KVM_MAX_PREFIX \
  (1ull << 40) /* tokens; with the limits of kvm_verify_check() every product below fits */

typedef struct kvm_verify {
  uint32_t heads, queries; /* on this GPU; tree nodes a request (n_q) */
  uint32_t latent, rope;   /* values a row: 512, 64 */
  uint32_t row_bytes;      /* as kvm_rows_bytes() */
  uint32_t batch;          /* requests */
  uint64_t tokens;         /* sum of all L_i; flops and index bytes go by it */
  uint64_t longest;        /* the largest L_i */
  uint64_t union_rows; /* distinct rows over the batch (shared prefixes count once); useful bytes go by it */
  uint64_t sectors;    /* distinct 32-B sectors of those rows */
} kvm_verify;

/* Batch requests of `prefix` tokens each, no row shared, rows of the pool one after the other. 8 heads, 9
 * queries, 512 + 64 and bf16 are the defaults of kvm_verify_default(). */
kvm_verify kvm_verify_default(uint64_t prefix);
/* Sets tokens, longest, union_rows, sectors for `batch` separate contiguous prefixes. */
void kvm_verify_uniform(kvm_verify *p, uint64_t prefix);
/* KV_ERR_USAGE unless 1 <= heads, queries <= 4096, 1 <= batch <= 65536, 16 <= latent <= 8192, rope <= 8192,
 * prefixes <= KVM_MAX_PREFIX, union_rows <= tokens. A prefix of 0 is valid. */
kv_status kvm_verify_check(const kvm_verify *p, kv_error *err);

/* What the problem needs at least (design: U and F). */
typedef struct kvm_useful {
  double kv_bytes;     /* row_bytes x union_rows */
  double query_bytes;  /* batch x queries x heads x (latent + rope) x 2, bf16 */
  double output_bytes; /* batch x queries x heads x (latent x 2 + 4): bf16 output and its fp32 log-sum-exp */
  double index_bytes;  /* 4 a token */
  double mask_bytes;   /* batch x queries x ceil(queries / 8) */
  double bytes;        /* U, their sum */
  double flops; /* F = 2 x queries x heads x tokens x (latent + rope + latent): the products of the prefix */
  double intensity; /* F / U; 0 without tokens */
} kvm_useful;
kvm_useful kvm_verify_useful(const kvm_verify *p);

/* ---- ceilings ---- */

typedef enum kvm_resource {
  KVM_DRAM = 0, /* bytes from memory */
  KVM_L2 = 1,   /* bytes out of and into L2 */
  KVM_LINK = 2, /* bytes between L2 and the SMs */
  KVM_L1 = 3,   /* bytes through the L1/shared-memory pipe of the SMs, 128 a wavefront */
  KVM_MMA = 4,  /* flops of the matrix instructions that the kernel uses (mma.sync) */
  KVM_RESOURCES = 5
} kvm_resource;
const char *kvm_resource_name(kvm_resource r); /* "dram", "l2", "link", "l1", "mma" */
const char *kvm_resource_unit(kvm_resource r); /* "B/s" or "FLOP/s" */

typedef struct kvm_ceiling {
  double rate;        /* B/s or FLOP/s; NaN where the description does not say */
  kvm_kind kind;      /* KVM_UNKNOWN with a NaN */
  const char *name;   /* of the description's value that it comes from; static or the description's storage */
  const char *source; /* likewise */
} kvm_ceiling;

/* The roofs of one GPU. Of several values the roof is one of our own measurements (dram_read_measured,
 * mma_sync_bf16, wgmma_bf16), else the larger of the published ones: a roof must not lie below what somebody
 * reached. The chip's link is link_bw_measured, else SMs x sm_link_bw (kind inference), else NaN: the L2's
 * rate is no bound of it, as reads of the same lines by several SMs meet on the way (an H200's SMs take 24.4
 * TB/s from an L2 that gives 8.7 of distinct lines). mma.sync is the tensor peak where it is the way to the
 * tensor cores (sm_80 to sm_89, sm_12x) and must be given elsewhere. One SM's share of the mma and L1 rates
 * is chip / SMs (inference); its DRAM, L2 and link rates are given only by sm_link_bw, else NaN. */
typedef struct kvm_roofs {
  kvm_ceiling chip[KVM_RESOURCES];
  kvm_ceiling sm[KVM_RESOURCES];
  kvm_ceiling mma_best; /* best matrix instructions of this GPU: wgmma, tcgen05 or mma.sync */
  double sms;           /* NaN if not known */
} kvm_roofs;
kvm_roofs kvm_roofs_of(const kvm_gpu *gpu);
/* The chip's link as SMs x one SM's; NaN where either is not known. */
kvm_ceiling kvm_link_inferred(const kvm_roofs *roofs);
/* Rows of less than 2 bytes a value may be multiplied as they are: the best matrix rate is that of fp8 where the GPU has a larger one
 * (fp8_dense), or the floor would be none. Rows of bf16 leave it as it is. */
void kvm_roofs_for_rows(kvm_roofs *roofs, const kvm_gpu *gpu, const kvm_verify *problem);
/* F/U at which memory and the best matrix instructions take the same time; NaN if either is not known. */
double kvm_ridge(const kvm_roofs *roofs);

/* ---- kernels, by their declared structure ---- */

typedef enum kvm_grid {
  KVM_GRID_PER_HEAD = 0, /* a block per (request, head[, split]): its queries of one head */
  KVM_GRID_PACKED = 1,   /* a block per (request, group of query rows over all heads[, split]) */
  KVM_GRID_ELEMENTS = 2  /* a block per block_elements outputs, no prefix (merge_state) */
} kvm_grid;

enum { KVM_DECLARED_VALUES = 576 }; /* latent + rope that structures and programs are declared for */

/* What is declared about a kernel; the counts per tile follow from it. Registers and shared memory limit how
 * many blocks an SM holds; 0 means "no limit known". */
typedef struct kvm_structure {
  const char *name, *description;
  kvm_grid grid;
  bool split; /* the prefix is cut into as many pieces as fill the GPU */
  bool even;  /* with split: blocks that fill the GPU once take equal shares of the tiles of all requests */
  bool tree_apart;       /* the tree's own rows make tiles of their own, else they follow the prefix's last */
  uint32_t block_rows;   /* query rows a block holds at most (packed grid) */
  uint32_t pad_rows;     /* rows are executed in multiples of this */
  uint32_t tile_tokens;  /* prefix rows a tile */
  uint32_t stages;       /* tiles in flight, 1: none ahead */
  uint32_t threads;      /* a block */
  uint32_t registers;    /* a thread */
  uint32_t shared_bytes; /* a block, for rows of KVM_DECLARED_VALUES; others in proportion */
  bool kv_apart;         /* K and V fetched separately: (row + V part) bytes instead of one row */
  bool v_in_l1;          /* with kv_apart: V's part still lies in the L1 and does not cross the link again, as counters
                            of an H200 say of extend_serial where the driver leaves it more than the least L1 (131072 tokens, 8
                            heads: 1228 MB, not 2290) */
  bool through_registers; /* fetched bytes pass the L1 pipe as loads and again as stores to shared memory */
  uint32_t word_loads; /* with through_registers: loads that a lane's 16 bytes take, each of which touches all
                          lines of the warp's 512; 0: one */
  uint32_t k_reads, v_reads; /* times each K, V byte of a tile is read from shared memory by the warps */
  uint32_t q_reads;          /* times the block's Q is read from shared memory a tile; 0: kept in registers */
  uint32_t score_bytes;      /* bytes through shared memory a score (partial scores, P) */
  uint32_t index_bytes;      /* a slot number */
  uint32_t block_elements;   /* elements grid only */
  uint32_t min_tiles;        /* with even: no share is smaller */
  uint32_t launched_per_sm; /* with even: blocks launched an SM; 0: as many as it has room for */
  uint32_t missing_units; /* blocks of that many units of 8 query rows are executed as if they had one more */
  uint32_t units;         /* units that a kernel's program is for; 0: any number */
  uint32_t row_bytes;     /* of the rows that a kernel's program loads; 0: 2 x KVM_DECLARED_VALUES */
} kvm_structure;

/* The kernels of this project, as they are declared for architecture `sm` (90, 120): extend_serial,
 * split_per_head, split_verify, merge_state. A test holds them against kvk_describe(). */
enum { KVM_KERNELS = 4 };
kvm_structure kvm_kernel(unsigned which, int sm);
/* Query rows of one block as executed, padding included, in units of 8; 0 for a grid without. */
uint32_t kvm_structure_units(const kvm_structure *k, const kvm_verify *p);
/* B of shared memory that a block takes for the rows of this problem. */
double kvm_structure_shared(const kvm_structure *k, const kvm_verify *p);
/* Resident blocks an SM by registers (allocated in 256 a warp), shared memory, warps and blocks; 0 if not
 * known. */
uint32_t kvm_structure_resident(const kvm_structure *k, const kvm_gpu *gpu);

/* The work that a structure executes on a problem. A prefix is cut into equal pieces; the busiest SM holds
 * ceil(blocks / SMs) of them, and at least the longest request's. */
typedef struct kvm_work {
  bool fits; /* false: the block needs more shared memory than this GPU gives one */
  uint64_t blocks;
  uint32_t blocks_per_sm; /* resident at once; 0 if not known */
  uint32_t splits;        /* of the longest request's prefix */
  uint64_t side;          /* blocks that walk the same rows side by side: heads, or groups of query rows */
  uint32_t units;         /* query rows of a block as executed, in units of 8 */
  double segments; /* runs of tiles of one request and group: each starts, ends and gives a partial result */
  uint32_t block_segments;  /* at most on one block */
  uint32_t merge_per_sm[5]; /* resident blocks of the merges that a program declares (kvm_declared_work()) */
  bool aligned;             /* blocks side by side walk the same rows at the same time */
  double sharing; /* blocks that one fetch of a row out of memory serves, on average: `side` where they are
                     aligned, or where the L2 keeps what one of them fetched until the others come */
  double partial_bytes;       /* partial results, written and read again; 0 without splits */
  double tiles, block_tiles;  /* loop turns over all blocks, of the busiest block; 0 without a loop */
  double busiest_tiles;       /* at least, of the busiest SM; NaN without the number of SMs */
  double waves;               /* blocks / (SMs x blocks_per_sm); NaN if not known */
  double busy_sms;            /* min(blocks, SMs); NaN if not known */
  double chip[KVM_RESOURCES]; /* W_r: bytes or flops over the whole launch; of L2 the least that it can be:
                                 all blocks that want the same rows fetch them in step, and their reads meet
                                 on the way */
  double sm[KVM_RESOURCES];   /* W_r,s of the busiest SM; NaN if the number of SMs is not known */
} kvm_work;
kvm_work kvm_structure_work(const kvm_structure *k, const kvm_verify *p, const kvm_gpu *gpu);

/* Useful bytes and flops of a kernel: kvm_verify_useful() but for merge_state, which has two partial results
 * of batch x queries x heads to read and one to write (bf16 and fp32 log-sum-exp), 4 flops an element. */
kvm_useful kvm_structure_useful(const kvm_structure *k, const kvm_verify *p);

/* The ladder of the design, as far as structure and ceilings carry it:
 *   T0 = max(U / R_dram, F / R_mma,best)   T1: with R_mma of the instructions used, if any   T2 = max(T1, W_r / R_r)
 *   T3 = max(T2, W_dram x scatter / R_dram): the ceiling of this layout, as mem_model.h has it; the layout's
 * effect on L2 is not modelled   T4 = max(T3, W_r,s / R_r,1) A ceiling that is not known takes no part, so T2
 * and T4 are lower bounds of lower bounds; `missing` says which. T5 (serial), T6 (exposed memory), T7
 * (overhead) belong to the time model and are NaN here. */
typedef struct kvm_ladder {
  double t[8];
  kvm_resource binding; /* what sets T4 */
  bool binding_sm;      /* on the busiest SM rather than over the chip */
  unsigned missing; /* bit r: chip ceiling of r unknown though there is work on it; bit 8 + r: the same of one
                       SM */
} kvm_ladder;
/* scatter: time of this layout over that of contiguous rows at saturation (kvm_mem_gather), 1 for contiguous
 * rows; NaN where it is not known: then T3 is NaN and T4 leaves it out. */
kvm_ladder kvm_ladder_of(const kvm_useful *u, const kvm_work *w, const kvm_roofs *roofs, double scatter);

#endif
