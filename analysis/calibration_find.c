#include "calibration_find.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "time_calibrate.h"

static int ceilings_name(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 12 && !strcmp(e->d_name + n - 12, "-ceilings.h5");
}

/* A file that cannot be read is passed over, and one of a part of the GPU or of more than it. */
static void look_for(const kvm_gpus *gpus, const kvm_gpu *gpu, char *path, size_t size) {
  char folder[4096];
  struct dirent **names = NULL;
  if (kv_cli_share("models/measured", folder, sizeof folder, NULL)) return;
  int n = scandir(folder, &names, ceilings_name, alphasort);
  for (int i = 0; i < n; i++) {
    kva_calibrated about;
    const kvm_gpu *of = NULL;
    char file[4400];
    (void)snprintf(file, sizeof file, "%s/%.250s", folder, names[i]->d_name);
    if (!path[0] && !kva_time_calibration_of(file, &about, NULL) &&
        kva_time_calibration_fits(&about, kvm_gpu_number(gpu, "sm_count")) &&
        !kvm_gpus_find(gpus, about.gpu_name, &of, NULL) && !strcmp(of->key, gpu->key))
      (void)snprintf(path, size, "%s", file);
    free(names[i]);
  }
  if (n >= 0) free(names);
}

static kv_status is_of(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *calibration, kv_error *err) {
  kva_calibrated about;
  const kvm_gpu *of = NULL;
  kv_status st = kva_time_calibration_of(calibration, &about, err);
  if (st || kvm_gpus_find(gpus, about.gpu_name, &of, NULL) || !strcmp(of->key, gpu->key)) return st;
  return kv_fail(err, KV_ERR_INPUT,
                 "%s: measured on %.60s, not on %.60s; give a calibration of that GPU, or none", calibration,
                 about.gpu_name, gpu->name);
}

kv_status kva_calibration_find(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *named, char *path, size_t size,
                               kv_error *err) {
  path[0] = '\0';
  if (!named) {
    look_for(gpus, gpu, path, size);
    return KV_OK;
  }
  if (!*named || !strcmp(named, "none")) return KV_OK;
  kv_status st = is_of(gpus, gpu, named, err);
  if (!st) (void)snprintf(path, size, "%s", named);
  return st;
}
