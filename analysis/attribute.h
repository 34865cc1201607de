/* attribute.h - why an operation takes the time it takes: the ladder's factors as shares, the gain of each
 * fix, and a verdict in words, with intervals that carry the ceilings' error.
 *
 * share_i = ln(T_(i+1) / T_i): shares add up to ln(T7 / T0) and depend on the order of the ladder. gain_i =
 * T7 over T7 with cause i alone removed, and never more than T7 over what the other causes need at least;
 * decisions are taken on gains. Intervals are percentiles (2.5, 97.5)
 * over draws: each draws every ceiling and the layout's scatter from its range, uniformly, each timing by a bootstrap of its samples
 * (Efron and Tibshirani 1993) or from its standard deviation, and climbs the ladder anew. Deterministic:
 * GSL's mt19937 with the seed given. The upper end of a gain is at most T7 / T0, T7 with the worst of
 * that scatter; its lower end at least 1 where the gain is. No draw of a modelled time (common_error > 0)
 * lies below the draw's T4.
 *
 * The verdict names up to three causes above 0.1 nats, and the largest whatever its size. A cause has no
 * effect when its share is within 0.1 nats and a quarter of all, and its gain is surely within 1.1.
 */
#ifndef KVA_ATTRIBUTE_H
#define KVA_ATTRIBUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "time_model.h"
#include "verify.h"

#define KVA_DRAWS 400u

/* A time: measured samples (n >= 1), or one value with a standard deviation of its logarithm (n = 1). */
typedef struct kva_timing {
  const double *samples; /* s; not owned */
  uint32_t n;            /* 0: not known */
  double log_error;      /* 0 where the samples tell it */
} kva_timing;

typedef struct kva_evidence {
  const kvm_useful *useful;
  const kvm_work *work;
  const kvm_roofs *roofs;
  const kvm_timing *ranges; /* of the ceilings (KVM_P_MMA_RATE, WAVE_RATE, L2_RATE, LINK_RATE, DRAM_RATE);
                               NULL: by their kind */
  double scatter;           /* T3 / T2 where memory binds: 1 contiguous, NaN not known */
  double scatter_low, scatter_high; /* the ends of what is assumed of it; 0: no range */
  double kernel_low, kernel_high;   /* s of a modelled T6 at these ends; 0: it stays as it is */
  double even, busiest; /* s that something beyond the work's resources needs at least: spread over all SMs (T2),
                           on the busiest (T4); 0: nothing */
  kva_timing resident, kernel, whole; /* T5, T6, T7 */
  kvm_estimate launches; /* s that the samples of resident and of kernel hold beside the kernels: launches.
                            They are taken off, but for a hundredth of a sample; value 0: none */
  double common_error; /* standard deviation of ln t that the three times share (the model's own error) */
  unsigned unknown;    /* bit c: nothing tells cause c, whatever the ladder says */
  unsigned at_least;   /* bit c: part of what tells cause c is missing, so that its share is a lower bound */
  const double
      *gain; /* KVM_CAUSES gains that a model found, NaN where it did not; NULL: from the ladder alone */
  uint64_t seed;
} kva_evidence;

typedef struct kva_cause {
  bool known;
  double nats, low, high; /* share */
  double gain, gain_low, gain_high;
  bool at_most;  /* the gain is a bound: other limits may step in first */
  bool at_least; /* the share is one: kva_evidence.at_least */
} kva_cause;

typedef struct kva_attribution {
  double t[8]; /* the ladder */
  kva_cause cause[KVM_CAUSES];
  double nats;       /* of all known steps */
  bool whole;        /* every step is known */
  bool inconsistent; /* T6 < T5: a ceiling or an experiment is wrong; nothing was clamped */
  kvm_cause largest; /* by share; KVM_CAUSES when nothing is known */
  char verdict[900];
} kva_attribution;

/* `name` is the kernel's, for the verdict. Never fails: what is not known stays so. */
void kva_attribute(const char *name, const kva_evidence *evidence, kva_attribution *a);

/* The draws themselves, for what is told of two operations together: shares by cause and T7 of each draw
 * (NaN: not known). Draw k has the same ceilings whatever the operation, where seeds and ceilings are the
 * same, and the same rounds where they were interleaved. False: out of memory. */
bool kva_attribute_draws(const kva_evidence *evidence, double nats[KVA_DRAWS][KVM_CAUSES],
                         double whole[KVA_DRAWS]);
/* 2.5 and 97.5 percentiles of v[n], which is sorted, without its NaNs; they hold `value`. */
void kva_draws_interval(double *v, size_t n, double value, double *low, double *high);

#endif
