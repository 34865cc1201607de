/* planted.h - small kernels with one known cause of slowness each, and their controls: what a tool that names
 * causes must name.
 *
 * All but one walk rows of a pool by a list of slots, as attention does: rows are copied into shared memory
 * and read there once. A control does that at the roof; a planted kernel is its control with one cause
 * switched on. The kernels run through the same experiments as any other (harness.h, cupti_counters.h): as
 * they are, with every slot replaced by slot mod 64 and the L2 warm (mod as many rows as 64 rows of 1152 B
 * have bytes), and replicated side by side until the chip is full.
 *
 * Needs a GPU and a build with nvcc to run; list and descriptions are there without.
 */
#ifndef KVK_PLANTED_H
#define KVK_PLANTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attention.h"
#include "harness.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvk_plant_kind { KVK_PLANT_GATHER, KVK_PLANT_CHASE, KVK_PLANT_LAUNCHES } kvk_plant_kind;

typedef struct kvk_planted {
  const char *name, *what;
  const char *cause;   /* "placement", "work", ... as the ladder names it; "" for none */
  const char *control; /* the kernel without the cause; NULL: it is a control itself */
  kvk_plant_kind kind;
  uint32_t row_bytes; /* 1152 or 32 */
  uint32_t run;       /* rows side by side in memory: 0 all, 1 none (each at a random place) */
  int blocks;         /* 0: one an SM; -n: one on every n-th SM */
  int warps;          /* a block, at most (halved until the stages fit into shared memory) */
  int rows;           /* a stage of a warp */
  int stages;
  int again;    /* times each row is read from the L2; 0: once */
  int reads;    /* warp-wide 4-byte reads of a tile in shared memory beyond the first pass */
  bool clashes; /* ... in eight-way bank conflicts */
  int chain;    /* dependent multiply-adds a tile */
  int launches; /* empty kernels after it */
} kvk_planted;

size_t kvk_planted_count(void);
const kvk_planted *kvk_planted_at(size_t i); /* NULL past the end */
size_t kvk_planted_find(const char *name);   /* kvk_planted_count() for none */

/* B of the pool; a run reads an eighth of it: 1 GiB of 8, less where memory is short. */
uint64_t kvk_planted_pool(const kvk_gpu *gpu);

/* What a run of kernel i does on a GPU: structure and useful bytes (rows once, and their slots). Pure. */
typedef struct kvk_planted_work {
  kvk_structure structure;
  double useful_bytes;
} kvk_planted_work;
kvk_planted_work kvk_planted_describe(size_t i, const kvk_gpu *gpu);

/* Pool and slot lists on a device. */
typedef struct kvk_plants kvk_plants;
kv_status kvk_plants_open(kvk_device *device, uint64_t seed, kvk_plants **out, kv_error *err);
void kvk_plants_close(kvk_plants *plants); /* NULL is fine */

/* A run: kvk_planted_enqueue() is a kvk_enqueue with one of these as `self`. */
typedef struct kvk_planted_run {
  const kvk_plants *plants;
  size_t which;
  bool resident;   /* slots aliased */
  unsigned copies; /* 1; more: side by side, each on rows of its own */
} kvk_planted_run;
kv_status kvk_planted_enqueue(void *run, void *stream, kv_error *err);

#ifdef __cplusplus
}
#endif
#endif
