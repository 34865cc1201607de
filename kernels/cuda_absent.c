/* Built instead of the CUDA objects where there is no nvcc: the launchers exist and say so. */
#include "attn_shape.h"

static const char absent[] = "this build has no CUDA (nvcc was not found when it was configured); only the emulation runs";

const char *kvk_cuda_split(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace, void *stream) {
  (void)kind, (void)problem, (void)options, (void)workspace, (void)stream;
  return absent;
}

const char *kvk_cuda_extend(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *stream) {
  (void)kind, (void)problem, (void)options, (void)stream;
  return absent;
}

const char *kvk_cuda_merge(const kvk_merge *merge, void *stream) {
  (void)merge, (void)stream;
  return absent;
}

kv_status kvk_device_options(int device, kvk_options *options, kv_error *err) {
  (void)device, (void)options;
  return kv_fail(err, KV_ERR_DEVICE, "%s", absent);
}
