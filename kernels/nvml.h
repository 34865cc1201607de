/* nvml.h - clocks, power, temperature, load and throttling of a GPU, read beside every measured point.
 *
 * NVML (libnvidia-ml.so.1, part of the driver) is loaded at run time with prototypes of our own, so neither a
 * header nor the library is needed to build. Without it every reading is NaN / unknown and measuring goes on.
 * Source of the entry points and codes: the NVML API Reference Guide, docs.nvidia.com/deploy/nvml-api.
 */
#ifndef KVK_NVML_H
#define KVK_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* NVML's clocks-event reasons that we name. */
#define KVK_THROTTLE_POWER_CAP 0x04u
#define KVK_THROTTLE_HW_SLOWDOWN 0x08u
#define KVK_THROTTLE_SW_THERMAL 0x20u
#define KVK_THROTTLE_HW_THERMAL 0x40u
#define KVK_THROTTLE_HW_POWER_BRAKE 0x80u
/* Those that make a run slower than the GPU would be: "idle" and "application clocks" do not count. */
#define KVK_THROTTLED_MASK 0xECu

/* A reading. Doubles are NaN and `known` bits unset where NVML does not say. */
typedef struct kvk_state {
  double sm_clock;     /* MHz */
  double memory_clock; /* MHz */
  double power;        /* W; NVML averages over up to a second, so short runs read low */
  double temperature;  /* degC */
  double memory_busy;  /* %, memory controller utilisation over NVML's last sampling period */
  double gpu_busy;     /* %, share of time with a kernel resident */
  uint64_t throttle;   /* OR of clocks-event reasons */
  bool throttle_known;
} kvk_state;

/* All NaN, nothing known. */
void kvk_state_clear(kvk_state *state);
/* Folds a later reading into *into: lowest clocks, highest power, temperature and load, OR of reasons. */
void kvk_state_merge(kvk_state *into, const kvk_state *reading);
/* True when a reason that slows the GPU down was active. */
bool kvk_state_throttled(const kvk_state *state);
/* The slowing reasons in words ("power cap, hardware thermal"), "none" or "unknown"; returns text. */
const char *kvk_throttle_text(const kvk_state *state, char *text, unsigned size);

typedef struct kvk_nvml kvk_nvml;

/* Opens NVML for the device with PCI bus id `pci`. `library` NULL means libnvidia-ml.so.1. KV_ERR_DEVICE when
 * the library or an entry point is missing or NVML refuses; *nvml is NULL then, which the calls below take.
 */
kv_status kvk_nvml_open(const char *library, const char *pci, kvk_nvml **nvml, kv_error *err);
void kvk_nvml_close(kvk_nvml *nvml);
/* Reads the present state; with nvml NULL all unknown. Never fails. */
void kvk_nvml_read(const kvk_nvml *nvml, kvk_state *state);
/* Driver version ("580.159.04"), "" when unknown. */
void kvk_nvml_driver(const kvk_nvml *nvml, char *text, unsigned size);
/* Enforced power limit, W; highest SM and memory clocks, MHz. NaN when unknown. Any pointer may be NULL. */
void kvk_nvml_limits(const kvk_nvml *nvml, double *power, double *sm_clock, double *memory_clock);

#ifdef __cplusplus
}
#endif
#endif
