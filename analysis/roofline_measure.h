/* roofline_measure.h - the measuring half of `roofline`'s default command: its options, which of this
 * machine's GPUs are meant, and one run over them.
 */
#ifndef ROOFLINE_MEASURE_H
#define ROOFLINE_MEASURE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "card_memory.h"
#include "gpu.h"
#include "kv_status.h"
#include "layout.h"
#include "measure.h"
#include "time_model.h"

enum { ROOFLINE_MOST_DEVICES = 64 };

/* Filled by roofline_measure_argp, a child parser; zero it before parsing. */
typedef struct roofline_measure_options {
  bool model_only, all; /* --model; --device all */
  int device[ROOFLINE_MOST_DEVICES], devices; /* --device N,...; 0 devices unless given */
  unsigned kinds; /* --kernels */
  bool eager, replicate, counters;
  uint64_t repeats, blocks_per_sm, smem_limit, pool, time_limit;
  const char *ceilings; /* --ceilings FILE */
  kv_error err;         /* the first bad option, KV_OK if none */
} roofline_measure_options;
extern const struct argp roofline_measure_argp;

/* Which devices to measure on for `gpu`: --device's; else those whose product name is the description's name or
 * an alias, with `all` every one, otherwise the first. KV_END: none is here, or --model was given, and *why says
 * so in words for the first line ("no such GPU here", "nvcc was not there at build time", ...). KV_ERR_DEVICE:
 * --device asks for one that is not there or is another GPU; --device all, and none is this GPU. */
kv_status roofline_measure_devices(const roofline_measure_options *options, const kvm_gpu *gpu,
                                   int devices[ROOFLINE_MOST_DEVICES], int *count, char *why, size_t why_size,
                                   kv_error *err);

/* For a run that is modelled, `why`: KV_ERR_USAGE, with the remedy, for an option that only a measurement has and for
 * kernels that the model has not; else *only is kva_run.only for --kernels (--smem-limit is kva_run.smem_limit). */
kv_status roofline_measure_modelled(const roofline_measure_options *options, const kvm_gpu *gpu, const char *why,
                                    unsigned *only, kv_error *err);

typedef struct roofline_measure_run {
  const roofline_measure_options *options;
  const kvm_gpu *gpu;
  const kvm_roofs *roofs;   /* ceilings of the ladder; NULL: no attribution */
  const kvm_timing *timing; /* their ranges */
  const kva_card_memory *card; /* whose memory T3 is modelled of; may be NULL */
  uint32_t heads, queries, batch, layers;
  const uint64_t *prefix; /* [prefixes], unless layout */
  size_t prefixes;
  const kva_layout *layout; /* NULL or the file's; bf16 rows of 1152 B */
  const char *layout_name;
  uint64_t seed;
  const char *output, *command;
  bool json, quiet;
} roofline_measure_run;

/* Measures one device after the other (`all`: at once), prints tables or JSON, writes a dataset a device
 * (kva_device_file). A failure under way keeps in the dataset what was done and marks it complete=0. */
kv_status roofline_measure(const roofline_measure_run *run, const int *devices, int count, kv_error *err);

#endif
