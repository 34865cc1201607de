#include "calibration_find.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "time_calibrate.h"

static int ceilings_name(const struct dirent *e) {
  size_t n = strlen(e->d_name);
  return n > 12 && !strcmp(e->d_name + n - 12, "-ceilings.h5");
}

/* ---- the card measured and the card described ---- */

static bool apart(double a, double b, double within) { return a > 0 && b > 0 && fabs(a / b - 1) > within; }

/* Whether the description is of another card than the one measured; *how says in what, both figures. */
static bool another_card(const kva_calibrated *c, const kvm_gpu *gpu, char how[KVA_CALIBRATION_WHY]) {
  const double sms = kvm_gpu_number(gpu, "sm_count"), memory = kvm_gpu_number(gpu, "mem_bytes"),
               dram = kvm_gpu_number(gpu, "dram_bw_spec");
  int sm = kvm_gpu_sm(gpu);
  if (c->sm && sm && c->sm != sm)
    (void)snprintf(how, KVA_CALIBRATION_WHY, "measured on sm_%d, and sm_%d is described", c->sm, sm);
  else if (apart(c->sms, sms, 0))
    (void)snprintf(how, KVA_CALIBRATION_WHY, "measured on %d SMs, and %.0f are described", c->sms, sms);
  else if (apart(c->memory, memory, 0.10))
    (void)snprintf(how, KVA_CALIBRATION_WHY, "measured on a card of %.1f GB, and %.1f GB are described", c->memory / 1e9,
                   memory / 1e9);
  else if (apart(c->dram, dram, 0.05) && apart(c->dram / 2, dram, 0.05)) /* drivers may tell bits a second for the clock */
    (void)snprintf(how, KVA_CALIBRATION_WHY, "measured on a memory of %.0f GB/s, and %.0f GB/s are described", c->dram / 1e9,
                   dram / 1e9);
  else return false;
  return true;
}

/* ---- looking for one ---- */

typedef struct search {
  const kvm_gpus *gpus;
  const kvm_gpu *gpu;
  char *path, *why; /* the one found; the one passed over, "" neither */
  size_t size;
} search;

/* A file that cannot be read is passed over. */
static void try_file(const search *s, const char *folder, const char *name) {
  kva_calibrated about;
  const kvm_gpu *of = NULL;
  char file[4400], how[KVA_CALIBRATION_WHY];
  (void)snprintf(file, sizeof file, "%s/%.250s", folder, name);
  if (s->path[0] || kva_time_calibration_of(file, &about, NULL) || kvm_gpus_find(s->gpus, about.gpu_name, &of, NULL) ||
      strcmp(of->key, s->gpu->key) != 0)
    return;
  if (!another_card(&about, s->gpu, how)) (void)snprintf(s->path, s->size, "%s", file);
  else if (!s->why[0]) (void)snprintf(s->why, KVA_CALIBRATION_WHY, "%.60s is another card's: %.110s", name, how);
}

static void look_for(const search *s) {
  char folder[4096];
  struct dirent **names = NULL;
  if (kv_cli_share("models/measured", folder, sizeof folder, NULL)) return;
  int n = scandir(folder, &names, ceilings_name, alphasort);
  for (int i = 0; i < n; i++) {
    try_file(s, folder, names[i]->d_name);
    free(names[i]);
  }
  if (n >= 0) free(names);
  if (s->path[0]) s->why[0] = '\0';
}

static kv_status is_of(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *calibration, kv_error *err) {
  char how[KVA_CALIBRATION_WHY];
  kva_calibrated about;
  const kvm_gpu *of = NULL;
  kv_status st = kva_time_calibration_of(calibration, &about, err);
  if (st) return st;
  if (!kvm_gpus_find(gpus, about.gpu_name, &of, NULL) && strcmp(of->key, gpu->key) != 0)
    return kv_fail(err, KV_ERR_INPUT, "%s: measured on %.60s, not on %.60s; give a calibration of that GPU, or none",
                   calibration, about.gpu_name, gpu->name);
  if (!another_card(&about, gpu, how)) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: %s; give a calibration of %.60s, or none", calibration, how, gpu->name);
}

kv_status kva_calibration_find(const kvm_gpus *gpus, const kvm_gpu *gpu, const char *named, char *path, size_t size,
                               char why[KVA_CALIBRATION_WHY], kv_error *err) {
  char unused[KVA_CALIBRATION_WHY];
  const search s = {gpus, gpu, path, why ? why : unused, size};
  path[0] = s.why[0] = '\0';
  if (!named) {
    look_for(&s);
    return KV_OK;
  }
  if (!*named || !strcmp(named, "none")) return KV_OK;
  kv_status st = is_of(gpus, gpu, named, err);
  if (!st) (void)snprintf(path, size, "%s", named);
  return st;
}
