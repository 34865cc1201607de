#include "roofline_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static bool every_run_has(const char *name) {
  bool has = false;
  for (unsigned i = 0; i < KVM_KERNELS; i++) has |= !strcmp(kvm_kernel(i, 90).name, name);
  return has;
}

/* Rows of two kernels of one name could not be told apart. */
static kv_status check_name(const roofline_model *model, const char *path, kv_error *err) {
  const char *name = model->own->name;
  bool taken = every_run_has(name);
  for (size_t i = 0; i < model->declared.n; i++) taken |= !strcmp(model->declared.kernel[i]->name, name);
  if (!taken) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: [kernel] name: '%s' is a kernel of models/kernels; give yours another name",
                 path, name);
}

bool kva_is_declaration(const char *name) {
  size_t n = name ? strlen(name) : 0;
  return (n > 4 && !strcmp(name + n - 4, ".ini")) || (name && strchr(name, '/'));
}

/* The program that a name means: a file's name without .ini, or a kernel's name in the variant for this GPU. NULL in
 * *own for a kernel that every run has. */
static kv_status find_named(const roofline_model *model, const kvm_gpu *gpu, const kvm_declared **own, kv_error *err) {
  const kvm_declared *found = kvm_declared_find(&model->declared, model->named, kvm_gpu_sm(gpu), 0);
  char names[600] = "";
  *own = NULL;
  if (every_run_has(model->named)) return KV_OK;
  if (found && !strcmp(found->name, model->named)) *own = found;
  for (size_t i = 0; !*own && i < model->declared.n; i++) {
    const kvm_declared *d = model->declared.kernel[i];
    if (!strcmp(d->key, model->named) && !every_run_has(d->name)) *own = d;
    size_t n = strlen(names);
    if (!every_run_has(d->name) && (!i || strcmp(d->name, model->declared.kernel[i - 1]->name) != 0))
      (void)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", d->name);
  }
  if (*own) return KV_OK;
  return kv_fail(err, KV_ERR_USAGE, "--kernel %.60s: no kernel of that name; there are extend_serial, split_per_head, split_verify, %s; a declaration of "
                 "your own is a file, NAME.ini", model->named, names);
}

kv_status roofline_model_load(const char *own, roofline_model *model, kv_error *err) {
  char folder[4096];
  memset(model, 0, sizeof *model);
  kv_status st = kv_cli_share("models/kernels", folder, sizeof folder, err);
  if (!st) st = kvm_declared_load_all(folder, &model->declared, err);
  if (!st) st = kv_cli_share("models/pipes", folder, sizeof folder, err);
  if (!st) st = kvm_gpus_load(folder, &model->pipes, err);
  if (own && !kva_is_declaration(own)) model->named = own;
  else if (own && !st) st = kvm_declared_load(own, &model->own, err);
  if (!st && model->own) st = check_name(model, own, err);
  if (st) roofline_model_free(model);
  return st;
}

void roofline_model_free(roofline_model *model) {
  kvm_declared_free_all(&model->declared);
  kvm_gpus_free(&model->pipes);
  kvm_declared_free(model->own);
  memset(model, 0, sizeof *model);
}

/* ---- calibration ---- */

kv_status roofline_model_timing(roofline_model *model, const kvm_gpus *gpus, const kvm_gpu *gpu,
                                const char *calibration, kvm_roofs *roofs, kvm_timing *timing,
                                kv_error *err) {
  *roofs = kvm_roofs_of(gpu);
  *timing = kvm_timing_of(gpu, kvm_pipes_find(&model->pipes, kvm_gpu_sm(gpu)), roofs);
  kvm_roofs_complete(roofs, timing);
  model->calibrated.values = 0;
  kv_status st =
      kva_calibration_find(gpus, gpu, calibration, model->calibration, sizeof model->calibration, model->passed_over, err);
  if (!st) st = kva_card_memory_read(model->calibration, &model->memory, err);
  if (st || !model->calibration[0]) return st;
  st = kva_time_calibrate(model->calibration, timing, roofs, &model->calibrated, err);
  if (st) model->calibration[0] = '\0';
  return st;
}

kv_status roofline_model_use(roofline_model *model, const kvm_gpus *gpus, const char *calibration,
                             kva_run *run, kv_error *err) {
  run->declared = &model->declared;
  run->own = model->own;
  run->given = true;
  run->pipes = kvm_pipes_find(&model->pipes, kvm_gpu_sm(run->gpu));
  kv_status st = model->named ? find_named(model, run->gpu, &run->own, err) : KV_OK;
  if (!st) st = roofline_model_timing(model, gpus, run->gpu, calibration, &run->roofs, &run->timing, err);
  if (!st) memcpy(run->calibration, model->memory.file, sizeof run->calibration);
  if (!st && model->calibrated.values)
    (void)snprintf(run->status, sizeof run->status, "modelled, calibrated on %.200s",
                   model->calibrated.status + (strncmp(model->calibrated.status, "measured: ", 10) ? 0 : 10));
  else if (!st && model->passed_over[0])
    (void)snprintf(run->status, sizeof run->status, KVA_UNCALIBRATED " (%.200s)", model->passed_over);
  return st;
}
