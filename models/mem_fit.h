/* mem_fit.h - points of a gather benchmark: read, predicted, and parameters fitted to them.
 *
 * Points come from microbenchmarks alone. A fit minimises the squared logarithms of modelled / measured rate,
 * weighted down where they are large (Huber), by Levenberg-Marquardt (GSL) on the logarithms of the
 * parameters.
 */
#ifndef KVM_MEM_FIT_H
#define KVM_MEM_FIT_H

#include "mem_model.h"

typedef struct kvm_mem_point {
  uint32_t row_bytes, run; /* run 0: contiguous */
  uint64_t footprint;      /* B of the pool; runs lie at random places of it */
  uint64_t in_flight;      /* B an SM */
  uint32_t sms, batch;     /* SMs at work; B that a warp asks for at once */
  uint32_t threads;        /* a block */
  bool aligned;            /* runs start at multiples of their length */
  bool fit;                /* to be fitted to; else held out */
  bool spoilt;             /* measures something else too: neither fitted to nor to be compared */
  double rate;             /* measured, useful B/s */
} kvm_mem_point;

typedef struct kvm_mem_points {
  kvm_mem_point *point;
  size_t n;
  double latency; /* s of a miss on the same card, by a pointer chase; NaN where the table does not say */
} kvm_mem_points;

/* Reads a text table: row_bytes run footprint in_flight_per_sm sms batch threads GB/s kernel set (fit,
 * held or spoilt), a line `latency NS`, # comments.
 * KV_ERR_INPUT names file and line. The caller frees. */
kv_status kvm_mem_points_load(const char *path, kvm_mem_points *points, kv_error *err);
void kvm_mem_points_free(kvm_mem_points *points); /* safe on a zeroed one */

/* True where another kernel was faster with all else alike: the point is no ceiling. */
bool kvm_mem_slower(const kvm_mem_points *points, size_t i);

/* The modelled rate of a point, from a sample of about `sample` bytes (0: 16 MiB; more where the pool is
 * small or much is in flight). */
kv_status kvm_mem_predict(const kvm_mem_params *params, const kvm_mem_point *point, uint64_t sample,
                          double *rate, kv_error *err);

/* What may be fitted; bits of a mask. */
typedef enum kvm_mem_fittable {
  KVM_FIT_ACT = 1,
  KVM_FIT_EFFICIENCY = 2,
  KVM_FIT_TURN = 4,
  KVM_FIT_QUEUEING = 8,
  KVM_FIT_NEAR = 16,
  KVM_FIT_SM_RATE = 32,
  KVM_FIT_ISSUE = 64,
  KVM_FIT_ALL = 127
} kvm_mem_fittable;

typedef struct kvm_mem_fitted {
  kvm_mem_params params;
  double error[7];      /* standard error of each fitted parameter, relative; by bit; NaN where not fitted */
  double residual;      /* root mean square of ln(modelled / measured) over the points fitted to */
  size_t points;        /* fitted to */
  unsigned evaluations; /* of one point */
} kvm_mem_fitted;

/* What differs from one card to the next of a kind: H200s of one driver and one day answer in 333 or in 348
 * ns and open 38 or 42 G rows a second, each to 0.2 % the same again. So *params takes over the latency of
 * the card that the points are of, if they tell it; and of the points marked fit, saturated, in pools of 4 to
 * 64 GiB, the best of contiguous 576-byte rows tells the efficiency, of random 128-byte rows what an
 * activation costs the bus, of random 32-byte rows the activation interval. It tells them apart while activations
 * do not bind the 128-byte rows: on HBM3e up to intervals 20 % longer. KV_ERR_INPUT: one of the three is
 * missing, or the model does not come within 3 % of all three, so that they tell no parameters of it; *params is
 * as before. Takes a second. */
kv_status kvm_mem_adapt(kvm_mem_params *params, const kvm_mem_points *points, kv_error *err);

/* Fits the parameters of `which` (kvm_mem_fittable bits) to the points marked fit, starting from `start`.
 * KV_ERR_INPUT: fewer such points than parameters. Takes about a second a ten points and parameter. */
kv_status kvm_mem_fit(const kvm_mem_params *start, const kvm_mem_points *points, unsigned which,
                      uint64_t sample, kvm_mem_fitted *fitted, kv_error *err);

#endif
