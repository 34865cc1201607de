/* Built instead of harness_device.cu, gpu_info.cu and ceil*.cu where there is no nvcc: every function that
 * needs a GPU says so. */
#include "ceilings.h"
#include "gpu_info.h"
#include "harness.h"
#include "planted.h"

static kv_status absent(kv_error *err) {
  return kv_fail(
      err, KV_ERR_DEVICE,
      "this kvroof was built without nvcc, so it cannot measure on a GPU: install the CUDA toolkit and "
      "rebuild");
}

bool kvk_cuda_built(void) {
  return false;
}

kv_status kvk_gpu_count(int *count, kv_error *err) {
  *count = 0;
  return absent(err);
}

kv_status kvk_gpu_get(int device, kvk_gpu *gpu, kv_error *err) {
  (void)device;
  *gpu = (kvk_gpu){0};
  return absent(err);
}

kv_status kvk_device_open(int device, kvk_device **out, char *note, size_t note_size, kv_error *err) {
  (void)device;
  *out = NULL;
  if (note && note_size) note[0] = '\0';
  return absent(err);
}

/* No device can be open, so these are reached only with NULL. */
void kvk_device_close(kvk_device *dev) {
  (void)dev;
}
void kvk_device_free(kvk_device *dev, void *pointer) {
  (void)dev, (void)pointer;
}
const kvk_gpu *kvk_device_gpu(const kvk_device *dev) {
  (void)dev;
  return NULL;
}
void *kvk_device_stream(kvk_device *dev) {
  (void)dev;
  return NULL;
}
const kvk_nvml *kvk_device_nvml(const kvk_device *dev) {
  (void)dev;
  return NULL;
}
uint64_t kvk_device_room(kvk_device *dev) {
  (void)dev;
  return 0;
}

kv_status kvk_device_alloc(kvk_device *dev, uint64_t bytes, void **pointer, kv_error *err) {
  (void)dev, (void)bytes;
  *pointer = NULL;
  return absent(err);
}

kv_status kvk_device_put(kvk_device *dev, void *device, const void *host, uint64_t bytes, kv_error *err) {
  (void)dev, (void)device, (void)host, (void)bytes;
  return absent(err);
}

kv_status kvk_device_take(kvk_device *dev, void *host, const void *device, uint64_t bytes, kv_error *err) {
  (void)dev, (void)host, (void)device, (void)bytes;
  return absent(err);
}

kv_status kvk_device_noise(kvk_device *dev, void *device, uint64_t bytes, uint64_t seed, bool bf16,
                           kv_error *err) {
  (void)dev, (void)device, (void)bytes, (void)seed, (void)bf16;
  return absent(err);
}

kv_status kvk_device_wait(kvk_device *dev, kv_error *err) {
  (void)dev;
  return absent(err);
}

kv_status kvk_device_measure(kvk_device *dev, const kvk_contender *contenders, size_t count,
                             const kvk_plan *plan, kvk_series *series, kv_error *err) {
  (void)dev, (void)contenders, (void)count, (void)plan, (void)series;
  return absent(err);
}

kv_status kvk_ceiling_run(kvk_device *dev, const char *name, const kvk_ceiling_plan *plan,
                          kvk_point_sink sink, void *user, char *note, size_t note_size, kv_error *err) {
  (void)dev, (void)name, (void)plan, (void)sink, (void)user;
  if (note && note_size) note[0] = '\0';
  return absent(err);
}

kv_status kvk_plants_open(kvk_device *device, uint64_t seed, kvk_plants **out, kv_error *err) {
  (void)device, (void)seed;
  *out = NULL;
  return absent(err);
}

void kvk_plants_close(kvk_plants *plants) {
  (void)plants;
}

kv_status kvk_planted_enqueue(void *run, void *stream, kv_error *err) {
  (void)run, (void)stream;
  return absent(err);
}
