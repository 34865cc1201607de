/* ceilings.h - microbenchmarks: what this GPU's units really reach, of the whole chip and of one SM alone,
 * and the latencies under them. Each lies in a file of its own, kernels/ceil_NAME.cu, whose head says what it
 * should reach and what bounds it.
 *
 * A microbenchmark tries several configurations (threads, unrolling, instructions); each gives one kvk_point.
 * The ceiling is the best median among the points of one name and scope: choosing it is the caller's part, as
 * every point is kept.
 */
#ifndef KVK_CEILINGS_H
#define KVK_CEILINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness.h"
#include "kv_status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVK_POINT_SAMPLES 64

typedef enum kvk_point_kind {
  KVK_RATE = 0,    /* value = work / seconds */
  KVK_LATENCY = 1, /* value = seconds / work: time of one step of a dependent chain */
  KVK_SIZE = 2     /* value = work: a size that the microbenchmark found out */
} kvk_point_kind;

/* One configuration, measured. Sizes are 0 and doubles NaN where they do not apply. */
typedef struct kvk_point {
  char name[24];    /* dram, l2, link, l1, mma, wgmma, fma, sfu, issue, gather, latency_dram, ... */
  char variant[48]; /* instruction and configuration in words: "ld.v4 x8" */
  char unit[8];     /* of work: B, FLOP, 1 */
  char layout[16];  /* gather: contiguous, runs, random, list */
  kvk_point_kind kind;
  bool one_sm;              /* the work ran on one SM alone */
  uint32_t row_bytes;       /* gather */
  uint32_t run_length;      /* gather: rows that lie side by side; 0 = all (contiguous) or as listed */
  uint32_t blocks, threads; /* launched; threads a block */
  uint64_t in_flight;       /* B that one SM asks for at a time */
  uint64_t footprint;       /* B the addresses spread over */
  double work;              /* units a run */
  double load;              /* B/s of other traffic meanwhile (loaded latency) */
  double cycles;            /* SM cycles a step, by the SM's own counter (latencies) */
  uint32_t samples;
  double seconds[KVK_POINT_SAMPLES];
  kvk_state state;
  bool throttled;
} kvk_point;

/* Takes a finished point (valid during the call). A status other than KV_OK ends the run with it. */
typedef kv_status (*kvk_point_sink)(void *user, const kvk_point *point, kv_error *err);

typedef struct kvk_ceiling_plan {
  uint32_t repeats;   /* runs a point, <= KVK_POINT_SAMPLES; 0 = 20 */
  double point_limit; /* s a point; 0 = 2 */
  double total_limit; /* s for one microbenchmark; 0 = 120: then it stops early and says so */
  bool quick;         /* the ceilings' usual winners only */
  uint64_t seed;
  uint64_t most_memory; /* B of device memory at most; 0 = what kvk_device_room() gives */
  /* gather: a recorded slot list (rows of list_row_bytes); NULL = none */
  const int32_t *list;
  uint64_t list_count;
  uint32_t list_row_bytes;
} kvk_ceiling_plan;

typedef struct kvk_ceiling {
  const char *name;  /* of the microbenchmark: the file ceil_NAME.cu */
  const char *what;  /* one line: what it measures */
  const char *bound; /* one line: what bounds it and what it should reach */
} kvk_ceiling;

/* The list is there in a build without CUDA too: such a one can name them and run none. */
size_t kvk_ceiling_count(void);
const kvk_ceiling *kvk_ceiling_at(size_t i); /* NULL past the end */

/* Runs microbenchmark `name` on an open device and hands each point to `sink`. KV_ERR_USAGE: no such name.
 * KV_END: this GPU lacks the instruction (wgmma). Others as from the device. A time limit that cut the list
 * of configurations short is told in *note (may be NULL), which is "" otherwise. */
kv_status kvk_ceiling_run(kvk_device *dev, const char *name, const kvk_ceiling_plan *plan,
                          kvk_point_sink sink, void *user, char *note, size_t note_size, kv_error *err);

#ifdef __cplusplus
}
#endif
#endif
