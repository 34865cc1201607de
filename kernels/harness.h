/* harness.h - timing on a GPU: warm-up, paired and interleaved runs, L2 flushed, time limits, and the GPU's
 * state beside every series.
 *
 * Two layers. kvk_measure() is pure logic over a kvk_timer and runs anywhere (the tests give it a fake one).
 * kvk_device is the timer of a real GPU, behind this plain C face; without nvcc at build time its functions
 * return KV_ERR_DEVICE.
 *
 * How one run is timed on a device: the L2 is flushed by reading a buffer four times its size (or, for a warm
 * run, a kernel spins for 30 us), then event, operation, event are enqueued behind that work. The host is
 * ahead of the GPU by then, so the interval between the events holds no host launch time, for eager
 * multi-kernel operations up to some ten launches too. What a launch costs is measured apart (ceilings.h).
 */
#ifndef KVK_HARNESS_H
#define KVK_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_info.h"
#include "kv_status.h"
#include "nvml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the logic ---- */

typedef struct kvk_plan {
  uint32_t warmup;   /* untimed runs of each contender first */
  uint32_t repeats;  /* timed runs of each contender */
  uint32_t minimum;  /* fewer than this when the time is up is an error, not a result; 0 = 1 */
  double time_limit; /* s for the whole measurement, warm-up included; 0 = none */
  bool cold;         /* flush the L2 before each timed run */
  uint64_t seed;     /* of the order within a round */
} kvk_plan;

/* What times. Functions get `self`. run() performs contender `which` once; with `timed` it fills *seconds. */
typedef struct kvk_timer {
  void *self;
  kv_status (*run)(void *self, size_t which, bool cold, bool timed, double *seconds, kv_error *err);
  void (*state)(void *self, kvk_state *state); /* may be NULL: unknown */
  double (*now)(void *self);                   /* monotonic s */
} kvk_timer;

/* One contender's runs in time order; seconds[r] of all contenders belong to the same round r, so that they
 * may be compared in pairs. */
typedef struct kvk_series {
  double *seconds; /* room for plan->repeats; owned by the caller */
  uint32_t count;  /* rounds done */
  kvk_state state; /* over the rounds: lowest clocks, highest power, OR of throttle reasons */
  bool throttled;
} kvk_series;

/* Runs `contenders` things in rounds: in each round every contender once, in an order drawn anew (seeded), so
 * that drift hits all alike. Stops early when the time limit is reached, at the end of a round; all series
 * then hold the same count. An error of the timer ends the measurement with that error; the rounds done stay
 * in the series. A time of 0 or less or not finite is KV_ERR_INTERNAL (a timer that lies). */
kv_status kvk_measure(const kvk_timer *timer, size_t contenders, const kvk_plan *plan, kvk_series *series,
                      kv_error *err);

/* ---- a real device ---- */

/* Enqueues one whole operation on the CUDA stream `stream` (a cudaStream_t). It must not synchronise or
 * allocate, so that it can be captured. */
typedef kv_status (*kvk_enqueue)(void *self, void *stream, kv_error *err);
typedef struct kvk_contender {
  const char *name;
  kvk_enqueue enqueue;
  void *self;
  bool graph; /* replay as a captured CUDA graph instead of enqueueing anew each time */
} kvk_contender;

typedef struct kvk_device kvk_device;

/* Opens a device: context, stream, events, a flush buffer of 4 x L2, NVML if there (*note, may be NULL, gets
 * why not). KV_ERR_DEVICE: no such device, driver too old, built without nvcc. KV_ERR_MEMORY: not even the
 * flush buffer fits. */
kv_status kvk_device_open(int device, kvk_device **out, char *note, size_t note_size, kv_error *err);
void kvk_device_close(kvk_device *dev);
const kvk_gpu *kvk_device_gpu(const kvk_device *dev);
void *kvk_device_stream(kvk_device *dev);
const kvk_nvml *kvk_device_nvml(const kvk_device *dev);

/* Device memory through plain cudaMalloc. Refuses (KV_ERR_MEMORY, saying how much is free) what would leave
 * less than 4 GiB free, or an eighth of the memory on a GPU below 32 GiB. kvk_device_free(NULL) is fine. */
kv_status kvk_device_alloc(kvk_device *dev, uint64_t bytes, void **pointer, kv_error *err);
void kvk_device_free(kvk_device *dev, void *pointer);
/* The largest size kvk_device_alloc() would accept now. */
uint64_t kvk_device_room(kvk_device *dev);
kv_status kvk_device_put(kvk_device *dev, void *device, const void *host, uint64_t bytes, kv_error *err);
kv_status kvk_device_take(kvk_device *dev, void *host, const void *device, uint64_t bytes, kv_error *err);
/* Fills `bytes` (a multiple of 4) with reproducible noise: with bf16 true pairs of bf16 values uniform in
 * [-0.5, 0.5], else random bits. Never time on zeros: they draw less power. */
kv_status kvk_device_noise(kvk_device *dev, void *device, uint64_t bytes, uint64_t seed, bool bf16,
                           kv_error *err);
/* Waits for the stream; a fault of an earlier kernel comes back here as KV_ERR_DEVICE. */
kv_status kvk_device_wait(kvk_device *dev, kv_error *err);

/* Times contenders on the device by kvk_measure(). Contenders with graph set are captured first. */
kv_status kvk_device_measure(kvk_device *dev, const kvk_contender *contenders, size_t count,
                             const kvk_plan *plan, kvk_series *series, kv_error *err);

#ifdef __cplusplus
}
#endif
#endif
