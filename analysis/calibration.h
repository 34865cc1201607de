/* calibration.h - what the microbenchmarks measured, as a dataset (kvceilings-1), and the ceilings drawn from
 * it.
 *
 * `roofline calibrate` collects every point (kvk_point) with its statistics and writes the file anew after
 * each microbenchmark, so that whatever happens later the file on disk is whole and holds what was done so
 * far; attribute `complete` is 1 only once all that was asked for is in it.
 *
 * kvceilings-1: root attributes gpu_name, status ("measured: <device>, driver <version>, <date>"), driver,
 * cuda_driver, cuda_runtime, compute_capability, sms, memory, l2, sm_clock_max (MHz), memory_clock_max (MHz),
 * memory_bus (bit), power_limit (W), repeats, seed, throttled_points, complete, failure, notes; and /ceilings
 * name, scope (chip|sm), value, low, high, unit, kind, source, point: the best median of each /latencies
 * name, value, low, high (s), cycles, footprint (B), source, point: the least median of each /sizes name,
 * value, low, high (B), source, point: what memory_line found (files before it lack the group)
 * /microbenchmarks
 * a row a point: name, variant, layout, scope, unit, kind, the configuration (row_bytes, run_length, blocks,
 * threads, in_flight, footprint, work, load, cycles), runs, the times (median, minimum, maximum, p10, p90,
 * low, high), value (rate or latency) with value_low, value_high, and the GPU's state (sm_clock,
 * memory_clock, power, temperature, memory_busy, throttle, throttled); and modelled, which calibration_model.h
 * adds /samples          point, seconds: every run
 */
#ifndef KVA_CALIBRATION_H
#define KVA_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ceilings.h"
#include "kv_status.h"
#include "stats.h"

#define KVA_CEILINGS_CONVENTIONS "kvceilings-1"

/* A point with its statistics. value, value_low, value_high: units/s for a rate, s for a latency, the work's
 * unit for a size. */
typedef struct kva_bench_row {
  kvk_point point;
  kva_summary time; /* s a run */
  double value, value_low, value_high;
} kva_bench_row;

/* Where and how it was measured. */
typedef struct kva_bench_origin {
  kvk_gpu gpu;
  char driver[64];    /* "" unknown */
  char date[16];      /* "2026-11-29", UTC */
  double power_limit; /* W; NaN unknown */
  uint32_t repeats;
  uint64_t seed;
} kva_bench_origin;

typedef struct kva_calibration {
  kva_bench_origin origin;
  kva_bench_row *row; /* owned */
  size_t rows, room;
  char notes[1024]; /* what was left out and why, one line; "" nothing */
  char failure[KV_ERROR_TEXT];
  bool complete;
} kva_calibration;

/* Fills *origin for an open device: identity, driver, today's date (SOURCE_DATE_EPOCH is honoured). */
void kva_bench_origin_of(const kvk_device *device, kva_bench_origin *origin);
/* "measured: NVIDIA H200, driver 580.159.04, 2026-11-29"; returns text. */
const char *kva_bench_status(const kva_bench_origin *origin, char *text, size_t size);

/* Adds a point; a kvk_point_sink with a kva_calibration as `user`. KV_ERR_INPUT for a point without samples
 * or with a time that is not positive. */
kv_status kva_calibration_add(void *calibration, const kvk_point *point, kv_error *err);
/* Appends to notes, "; " between. */
void kva_calibration_note(kva_calibration *c, const char *text);
void kva_calibration_free(kva_calibration *c); /* safe on a zeroed one */

/* A ceiling or a latency, chosen among the rows. */
typedef struct kva_best {
  const char *name; /* dram, l2, link, l1, mma, wgmma, fma, sfu, issue; or a latency's name; static or a row's
                       storage */
  bool one_sm;
  size_t row;
} kva_best;
#define KVA_BESTS 128

/* The ceilings: for each resource and scope the row of the highest median rate. Throttled rows count only
 * where there is no other. Bytes that come from DRAM or L2 cross the L2-to-SM link too, so `link` takes the
 * best of link, l2 and dram; `dram` also takes gathers whose footprint is at least 8 times the L2. Returns
 * how many. */
size_t kva_calibration_ceilings(const kva_calibration *c, kva_best best[KVA_BESTS]);
/* The latencies: for each name the row of the least median. latency_loaded is left out: it is a curve. */
size_t kva_calibration_latencies(const kva_calibration *c, kva_best best[KVA_BESTS]);

/* The sizes: for each name the first row. */
size_t kva_calibration_sizes(const kva_calibration *c, kva_best best[KVA_BESTS]);

/* Gather ceiling of contiguous rows over that of rows in runs of `run`, from the saturated gathers of a
 * calibration with the footprint nearest to 8 GiB; 1 for run 0, NaN where it has none. */
double kva_calibration_scatter(const kva_calibration *c, uint32_t row_bytes, uint32_t run);
/* The same of a recorded list of slots, where the calibration gathered this one (`calibrate --layout`): so
 * many rows, all below slot `span`, which no two lists are likely to share; against as many contiguous rows.
 * NaN: it did not. */
double kva_calibration_scatter_list(const kva_calibration *c, uint32_t row_bytes, uint64_t rows,
                                    uint64_t span);

/* Writes the dataset (aside, renamed). `command` goes into its history. */
kv_status kva_calibration_write(const kva_calibration *c, const char *path, const char *command,
                                kv_error *err);
/* Reads one back, samples included. KV_ERR_INPUT names file and column: another kind of file, columns of
 * different lengths, a sample of a point that is not there. The caller frees with kva_calibration_free(). */
kv_status kva_calibration_read(const char *path, kva_calibration *c, kv_error *err);

#endif
