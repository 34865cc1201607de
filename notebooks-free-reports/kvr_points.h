/* kvr_points.h - a roofline-1 dataset in memory, shared by the files that draw its pages.
 *
 * kvr_roofline.c reads it and writes the points, kvr_ceilings.c the roofs and the table of ceilings,
 * kvr_ladder.c what a kernel's time is made of. A variant is a layout, and where points differ in heads,
 * queries or batch these too.
 */
#ifndef KVR_POINTS_H
#define KVR_POINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvr_job.h"
#include "kvr_table.h"

#define KVR_SERIES 48u
#define KVR_VARIANTS 12u
#define KVR_KERNELS 14u
#define KVR_ROOFS 4u

enum {
  R_KERNEL,
  R_PREFIX,
  R_HEADS,
  R_QUERIES,
  R_BATCH,
  R_LAYOUT,
  R_USEFUL,
  R_FLOPS,
  R_INTENSITY,
  R_DRAM,
  R_L2,
  R_LINK,
  R_FLOOR,
  R_T1,
  R_T2,
  R_T3,
  R_T4,
  R_T5,
  R_T6,
  R_T7,
  R_TIME,
  R_MEASURED,
  R_LOW,
  R_HIGH,
  R_BANDWIDTH,
  R_COLUMNS
};

/* A column of strings with its number of rows. */
typedef struct kvr_words {
  char *text;
  size_t width;
  uint64_t n;
} kvr_words;

typedef struct kvr_variant {
  double layout, heads, queries, batch;
} kvr_variant;

typedef struct kvr_series {
  uint64_t kernel;
  size_t variant;
  size_t points;
} kvr_series;

/* A roof: the best-known ceiling of one resource of the whole chip. */
typedef struct kvr_roof {
  uint64_t row; /* of /ceilings */
  double value;
} kvr_roof;

typedef struct kvr_roofline {
  const kvr_job *job;
  char gpu[128], gpu_name[256], status[512], dtype[64], layout_source[512], verdict[2048], calibration[256],
      memory_model[512];
  double heads, queries, latent, rope, row_bytes, batch, layers;
  kvr_table points, ceilings, ranges; /* ranges: low and high of /gpu; rows 0 where the file has none */
  kvr_words t3_source, program;       /* by layout, by kernel; n 0 where the file has none */
  kvr_words kernel, layout, resource, ceiling, scope, unit, kind, source, gpu_row, gpu_value, gpu_unit,
      gpu_kind, gpu_source;
  kvr_table bound, read; /* time_at_least; useful_kv_bytes; rows 0 where the file has none */
  kvr_table link_max;    /* counted_link_max, likewise */
  uint64_t raised;       /* points whose T2 to T5 the counted wavefronts raised */
  uint64_t *order; /* points by kernel, variant, prefix */
  kvr_variant variants[KVR_VARIANTS];
  size_t *variant_of; /* by point */
  size_t variant_count, series_count;
  kvr_series of[KVR_SERIES];
  uint64_t left_out; /* points beyond the limits */
  kvr_roof bandwidth[KVR_ROOFS], compute[KVR_ROOFS];
  size_t bandwidths, computes;
} kvr_roofline;

/* Entry i of a column of strings. */
const char *kvr_word_at(const kvr_words *w, uint64_t i);
/* Column c (R_...) of point i, and the name of its kernel. */
double kvr_at(const kvr_roofline *r, size_t c, uint64_t i);
const char *kvr_kernel_of(const kvr_roofline *r, uint64_t i);
/* Measured time of point i in s, else the modelled one, else NaN: a bound is no time. */
double kvr_best_time(const kvr_roofline *r, uint64_t i);
/* Whether the link bytes of point i, which was measured, are no counter's but the kernel's structure's. */
bool kvr_link_by_structure(const kvr_roofline *r, uint64_t i);
/* Lower bound in s of a point that has no time, else NaN. */
double kvr_bound(const kvr_roofline *r, uint64_t i);
/* Whether point i has T4 but not T3, though its rows lie somewhere: scatter is then within placement. */
bool kvr_lacks_t3(const kvr_roofline *r, uint64_t i);
/* "merge_state, other": kernels of which no point has a time but some a bound; "" for none. */
const char *kvr_bounded(const kvr_roofline *r, char *text, size_t size);
/* The same as the end of a finding whose page leaves them out: " No time, so not here: merge_state."; "" for
 * none. */
const char *kvr_no_time(const kvr_roofline *r, char *text, size_t size);
/* True where every slot of point i stands for one of a few rows ("resident", "aliased"): an experiment that
 * leaves the KV's bytes out, so its time is no time of reading them. */
bool kvr_is_aliased(const kvr_roofline *r, uint64_t i);
/* Bytes of KV that the effective bandwidth counts: the dataset's own, else from its ratio. A kernel with a
 * time but no effective bandwidth reads no KV (NaN), nor does a run on aliased slots; a point with a floor
 * only gets its rows, or its useful bytes where these are fewer. */
double kvr_kv_bytes(const kvr_roofline *r, uint64_t i);
/* v, or NaN where a log axis cannot show it. */
double kvr_positive(double v);

/* Chooses the roofs drawn: of DRAM and L2, and of the tensor cores, slowest first; measured ones before
 * others. */
void kvr_choose_roofs(kvr_roofline *r);
/* Arrays PREFIX_VALUE, PREFIX_TITLE and the number PREFIX_COUNT. */
void kvr_put_roofs(const kvr_roofline *r, const char *prefix, const kvr_roof *list, size_t n, double scale);
/* The value of a roof by its resource, and the highest of a list; NaN where there is none. */
double kvr_roof_named(const kvr_roofline *r, const kvr_roof *list, size_t n, const char *name);
double kvr_highest(const kvr_roof *list, size_t n);
/* A resource as people write it. */
const char *kvr_spoken(const char *name);
/* Names of the description's values that are missing, in one line. */
void kvr_missing_values(const kvr_roofline *r, char *text, size_t size);
/* The last two pages' tables: ceiling-labels.gp and description-labels.gp. */
kv_status kvr_put_ceilings(const kvr_roofline *r, kv_error *err);
/* assumed-labels.gp, where a value of the description is a guess. */
bool kvr_has_assumed(const kvr_roofline *r);
kv_status kvr_put_assumed(const kvr_roofline *r, kv_error *err);

/* bytes.tsv and ladder.tsv, ladder-end.tsv: a kernel at its longest prefix, first variant. */
kv_status kvr_put_bytes(const kvr_roofline *r, kv_error *err);
kv_status kvr_put_ladder(const kvr_roofline *r, kv_error *err);

/* Clocks and power while measuring, what one fix alone would gain: pages of files that have the columns. */
bool kvr_has_clocks(const kvr_roofline *r);
bool kvr_has_gains(const kvr_roofline *r);
kv_status kvr_put_clocks(const kvr_roofline *r, kv_error *err);
kv_status kvr_put_gains(const kvr_roofline *r, kv_error *err);

/* Layouts side by side, use of each resource and the roofline by level, blocks against time (kvr_resources.c): pages of files
 * that have the columns. */
bool kvr_has_layouts(const kvr_roofline *r);
bool kvr_has_resources(const kvr_roofline *r);
bool kvr_has_fill(const kvr_roofline *r);
kv_status kvr_put_layouts(const kvr_roofline *r, kv_error *err);
kv_status kvr_put_resources(const kvr_roofline *r, kv_error *err);
kv_status kvr_put_levels(const kvr_roofline *r, kv_error *err);
kv_status kvr_put_fill(const kvr_roofline *r, kv_error *err);

#endif
