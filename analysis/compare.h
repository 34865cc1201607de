/* compare.h - two roofline-1 datasets, before and after, point by point.
 *
 * Points belong together when kernel, layout, prefix, heads, queries and batch agree. A point's time is what
 * was measured where both were measured, else what was modelled where both were modelled; measured is never
 * set against modelled. The ratio's interval is [after.low / before.high, after.high / before.low]. A point
 * is slower (faster) when its whole interval lies above (below) 1, else undecided. Two times that one model gives of
 * one GPU with one calibration err alike: their intervals would hide every change, so their ratio has none.
 *
 * A kernel's name may stand for two programs (extend_serial: Triton's code for one GPU, nvcc's for the other): the ratio
 * is of the programs too then, and the pair is neither faster nor slower nor in the mean. Programs that one compiler
 * made of the kernel (split_verify_5, split_verify_16_5) are the kernel as each GPU takes it, and count.
 */
#ifndef KVA_COMPARE_H
#define KVA_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kv_status.h"

typedef struct kva_pair {
  char kernel[64], layout[128];
  char program[2][160]; /* what modelled times were made of, before and after; "": measured, or an older file */
  uint64_t prefix;
  uint32_t heads, queries, batch;
  bool measured;
  bool common;             /* two times of one model, whose errors are in common: low = high = ratio */
  double before, after;    /* s */
  double ratio, low, high; /* after / before */
  bool two_programs;       /* stand behind the name */
  int verdict;             /* -1 faster, 0 undecided, 1 slower; 0 with two programs */
} kva_pair;

typedef struct kva_comparison {
  char gpu[2][128], status[2][256];
  kva_pair *pair; /* owned; in the order of the first file */
  size_t n;
  size_t only[2]; /* points that the other file lacks, or that have no common kind of time */
  size_t faster, slower, undecided, apart; /* apart: two programs */
  double mean;  /* geometric, of the ratios; NaN without any */
  double worst; /* largest ratio among slower points; NaN for none */
} kva_comparison;

/* Errors name file and dataset. The caller frees. */
kv_status kva_compare(const char *before, const char *after, kva_comparison *c, kv_error *err);
void kva_compare_free(kva_comparison *c);

/* Writes kvcompare-1: attributes gpu_before, gpu_after, status_before, status_after; /points, a column a
 * field; verdict is NaN where two programs stand behind a pair. */
kv_status kva_compare_write(const kva_comparison *c, const char *path, const char *command, kv_error *err);

#endif
