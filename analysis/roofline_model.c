#include "roofline_model.h"

#include <string.h>

#include "cli.h"

kv_status roofline_model_load(const char *own, roofline_model *model, kv_error *err) {
  char folder[4096];
  memset(model, 0, sizeof *model);
  kv_status st = kv_cli_share("models/kernels", folder, sizeof folder, err);
  if (!st) st = kvm_declared_load_all(folder, &model->declared, err);
  if (!st) st = kv_cli_share("models/pipes", folder, sizeof folder, err);
  if (!st) st = kvm_gpus_load(folder, &model->pipes, err);
  if (!st && own) st = kvm_declared_load(own, &model->own, err);
  if (st) roofline_model_free(model);
  return st;
}

void roofline_model_free(roofline_model *model) {
  kvm_declared_free_all(&model->declared);
  kvm_gpus_free(&model->pipes);
  kvm_declared_free(model->own);
  memset(model, 0, sizeof *model);
}

void roofline_model_use(const roofline_model *model, kva_run *run) {
  run->declared = &model->declared;
  run->own = model->own;
  run->pipes = kvm_pipes_find(&model->pipes, kvm_gpu_sm(run->gpu));
}
