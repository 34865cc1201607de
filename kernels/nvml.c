#include "nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *nvml_device;
typedef struct nvml_utilization {
  unsigned gpu, memory;
} nvml_utilization;
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0 };

struct kvk_nvml {
  void *library;
  nvml_device device;
  int (*init)(void);
  int (*shutdown)(void);
  int (*by_pci)(const char *, nvml_device *);
  /* Each of these may be absent in an old driver: the reading is then unknown. */
  int (*clock)(nvml_device, int, unsigned *);
  int (*max_clock)(nvml_device, int, unsigned *);
  int (*power)(nvml_device, unsigned *);
  int (*power_limit)(nvml_device, unsigned *);
  int (*temperature)(nvml_device, int, unsigned *);
  int (*utilization)(nvml_device, nvml_utilization *);
  int (*throttle)(nvml_device, unsigned long long *);
  int (*driver)(char *, unsigned);
  bool initialised;
};

void kvk_state_clear(kvk_state *state) {
  *state = (kvk_state){.sm_clock = NAN,
                       .memory_clock = NAN,
                       .power = NAN,
                       .temperature = NAN,
                       .memory_busy = NAN,
                       .gpu_busy = NAN};
}

/* fmin and fmax return the other operand when one is NaN: unknown never hides a known value. */
void kvk_state_merge(kvk_state *into, const kvk_state *r) {
  into->sm_clock = fmin(into->sm_clock, r->sm_clock);
  into->memory_clock = fmin(into->memory_clock, r->memory_clock);
  into->power = fmax(into->power, r->power);
  into->temperature = fmax(into->temperature, r->temperature);
  into->memory_busy = fmax(into->memory_busy, r->memory_busy);
  into->gpu_busy = fmax(into->gpu_busy, r->gpu_busy);
  into->throttle |= r->throttle;
  into->throttle_known = into->throttle_known || r->throttle_known;
}

bool kvk_state_throttled(const kvk_state *state) {
  return state->throttle_known && (state->throttle & KVK_THROTTLED_MASK) != 0;
}

const char *kvk_throttle_text(const kvk_state *state, char *text, unsigned size) {
  static const struct {
    unsigned bit;
    const char *name;
  } reason[] = {{KVK_THROTTLE_POWER_CAP, "power cap"},
                {KVK_THROTTLE_HW_SLOWDOWN, "hardware slowdown"},
                {KVK_THROTTLE_SW_THERMAL, "software thermal"},
                {KVK_THROTTLE_HW_THERMAL, "hardware thermal"},
                {KVK_THROTTLE_HW_POWER_BRAKE, "power brake"}};
  size_t used = 0;
  if (size == 0) return text;
  text[0] = '\0';
  if (!state->throttle_known) (void)snprintf(text, size, "unknown");
  else if (!kvk_state_throttled(state)) (void)snprintf(text, size, "none");
  else
    for (size_t i = 0; i < sizeof reason / sizeof *reason && used < size; i++)
      if (state->throttle & reason[i].bit)
        used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", reason[i].name);
  return text;
}

/* ISO C has no conversion from an object pointer to a function pointer; POSIX defines this one. */
static void find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
}

static void find_all(kvk_nvml *n) {
  find(n->library, "nvmlInit_v2", &n->init);
  find(n->library, "nvmlShutdown", &n->shutdown);
  find(n->library, "nvmlDeviceGetHandleByPciBusId_v2", &n->by_pci);
  find(n->library, "nvmlDeviceGetClockInfo", &n->clock);
  find(n->library, "nvmlDeviceGetMaxClockInfo", &n->max_clock);
  find(n->library, "nvmlDeviceGetPowerUsage", &n->power);
  find(n->library, "nvmlDeviceGetEnforcedPowerLimit", &n->power_limit);
  find(n->library, "nvmlDeviceGetTemperature", &n->temperature);
  find(n->library, "nvmlDeviceGetUtilizationRates", &n->utilization);
  find(n->library, "nvmlDeviceGetCurrentClocksEventReasons", &n->throttle);
  if (!n->throttle) find(n->library, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle);
  find(n->library, "nvmlSystemGetDriverVersion", &n->driver);
}

kv_status kvk_nvml_open(const char *library, const char *pci, kvk_nvml **nvml, kv_error *err) {
  kv_status st = KV_OK;
  const char *path = library ? library : "libnvidia-ml.so.1";
  kvk_nvml *n = calloc(1, sizeof *n);
  int rc;
  *nvml = NULL;
  if (!n) return kv_fail(err, KV_ERR_MEMORY, "NVML: out of memory");
  n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!n->library) {
    st = kv_fail(err, KV_ERR_DEVICE, "%s: cannot be loaded, so clocks and power are not recorded", path);
    goto done;
  }
  find_all(n);
  if (!n->init || !n->shutdown || !n->by_pci) {
    st = kv_fail(err, KV_ERR_DEVICE, "%s: lacks nvmlInit_v2 or its companions; is it NVIDIA's NVML?", path);
    goto done;
  }
  rc = n->init();
  n->initialised = rc == 0;
  if (rc == 0) rc = n->by_pci(pci, &n->device);
  if (rc != 0) {
    st = kv_fail(err, KV_ERR_DEVICE, "%s: NVML error %d for device %s; clocks and power are not recorded",
                 path, rc, pci);
    goto done;
  }
  *nvml = n;
  n = NULL;
done:
  kvk_nvml_close(n);
  return st;
}

void kvk_nvml_close(kvk_nvml *nvml) {
  if (!nvml) return;
  if (nvml->initialised) (void)nvml->shutdown();
  if (nvml->library) (void)dlclose(nvml->library);
  free(nvml);
}

static double clock_of(int (*get)(nvml_device, int, unsigned *), nvml_device device, int kind) {
  unsigned mhz = 0;
  return get && get(device, kind, &mhz) == 0 ? (double)mhz : NAN;
}

static double milli(int (*get)(nvml_device, unsigned *), nvml_device device) {
  unsigned value = 0;
  return get && get(device, &value) == 0 ? value / 1000.0 : NAN;
}

void kvk_nvml_read(const kvk_nvml *n, kvk_state *state) {
  nvml_utilization busy = {0, 0};
  unsigned long long reasons = 0;
  unsigned celsius = 0;
  kvk_state_clear(state);
  if (!n) return;
  state->sm_clock = clock_of(n->clock, n->device, NVML_CLOCK_SM);
  state->memory_clock = clock_of(n->clock, n->device, NVML_CLOCK_MEM);
  state->power = milli(n->power, n->device);
  if (n->temperature && n->temperature(n->device, NVML_TEMPERATURE_GPU, &celsius) == 0)
    state->temperature = celsius;
  if (n->utilization && n->utilization(n->device, &busy) == 0) {
    state->gpu_busy = busy.gpu;
    state->memory_busy = busy.memory;
  }
  state->throttle_known = n->throttle && n->throttle(n->device, &reasons) == 0;
  state->throttle = state->throttle_known ? reasons : 0;
}

void kvk_nvml_driver(const kvk_nvml *n, char *text, unsigned size) {
  if (size) text[0] = '\0';
  if (n && n->driver && n->driver(text, size) != 0 && size) text[0] = '\0';
}

void kvk_nvml_limits(const kvk_nvml *n, double *power, double *sm_clock, double *memory_clock) {
  if (power) *power = n ? milli(n->power_limit, n->device) : NAN;
  if (sm_clock) *sm_clock = n ? clock_of(n->max_clock, n->device, NVML_CLOCK_SM) : NAN;
  if (memory_clock) *memory_clock = n ? clock_of(n->max_clock, n->device, NVML_CLOCK_MEM) : NAN;
}
