#include "card_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "kv_h5.h"

enum { PARAMETERS = 4 };
static const struct {
  const char *name, *unit, *source;
} parameters[PARAMETERS] = {{"latency", "s", "latency_dram, the least"},
                            {"efficiency", "1", "the memory model beside the best gather of contiguous 576-byte rows"},
                            {"act", "s", "the memory model beside the best gather of random 32-byte rows"},
                            {"act_bus", "s", "the memory model beside the best gather of random 128-byte rows"}};

static void pack(const kvm_mem_card *c, double v[PARAMETERS]) {
  const double all[PARAMETERS] = {c->latency, c->efficiency, c->act, c->act_bus};
  memcpy(v, all, sizeof all);
}

/* ---- writing ---- */

static kv_status write_words(hid_t file, const kva_card_told *t, kv_error *err) {
  const char *name[PARAMETERS], *unit[PARAMETERS], *kind[PARAMETERS], *source[PARAMETERS];
  for (int i = 0; i < PARAMETERS; i++) {
    name[i] = parameters[i].name;
    unit[i] = parameters[i].unit;
    kind[i] = i ? "inference" : t->chased ? "measured" : "as described";
    source[i] = i || t->chased ? parameters[i].source : "the GPU's description, as no pointer chase tells it";
  }
  kv_status st = kv_h5_write_strings(file, "memory/name", PARAMETERS, name, "Parameter of the memory model", err);
  if (!st) st = kv_h5_write_strings(file, "memory/unit", PARAMETERS, unit, "Unit of the value", err);
  if (!st) st = kv_h5_write_strings(file, "memory/kind", PARAMETERS, kind, "Kind of the value", err);
  return st ? st : kv_h5_write_strings(file, "memory/source", PARAMETERS, source, "Which microbenchmark tells it", err);
}

kv_status kva_card_memory_write(hid_t file, const kva_card_told *t, kv_error *err) {
  double value[PARAMETERS], described[PARAMETERS];
  char words[320];
  if (H5Lexists(file, "memory", H5P_DEFAULT) > 0 && H5Ldelete(file, "memory", H5P_DEFAULT) < 0)
    return kv_fail(err, KV_ERR_IO, "/memory cannot be written anew");
  if (!t->card) {
    (void)snprintf(words, sizeof words, "not adapted: %.290s", t->why ? t->why : "no memory model");
    return kv_h5_put_str(file, "memory_card", words, err);
  }
  pack(t->card, value);
  pack(&t->described, described);
  kv_status st = write_words(file, t, err);
  if (!st)
    st = kv_h5_write(file, "memory/value", H5T_IEEE_F64LE, PARAMETERS, value, "see unit", "Of this card", KV_H5_SMALL, err);
  if (!st)
    st = kv_h5_write(file, "memory/described", H5T_IEEE_F64LE, PARAMETERS, described, "see unit",
                     "What the GPU's description has", KV_H5_SMALL, err);
  return st ? st : kv_h5_put_str(file, "memory_card", "adapted to this calibration's latency and three of its gathers", err);
}

/* ---- reading ---- */

static kv_status take(const char *path, const char *names, size_t width, const double *value, uint64_t n, kvm_mem_card *card,
                      kv_error *err) {
  double *const to[PARAMETERS] = {&card->latency, &card->efficiency, &card->act, &card->act_bus};
  for (int k = 0; k < PARAMETERS; k++) {
    *to[k] = NAN;
    for (uint64_t i = 0; i < n; i++)
      if (!strcmp(names + i * width, parameters[k].name)) *to[k] = value[i];
    if (!(*to[k] >= 0) || !isfinite(*to[k]))
      return kv_fail(err, KV_ERR_INPUT, "%s: /memory/value: %s is missing or no number above 0; `roofline calibrate --from` writes it anew",
                     path, parameters[k].name);
  }
  return KV_OK;
}

static kv_status check_units(hid_t file, const char *path, const char *names, size_t width, uint64_t n, kv_error *err) {
  uint64_t units = 0;
  size_t unit_width = 0;
  char *unit = NULL;
  kv_status st = kva_words(file, path, "memory/unit", &units, &unit, &unit_width, err);
  if (!st && units != n) st = kv_fail(err, KV_ERR_INPUT, "%s: /memory/unit has another length than /memory/name", path);
  for (uint64_t i = 0; !st && i < n; i++)
    for (int k = 0; !st && k < PARAMETERS; k++)
      if (!strcmp(names + i * width, parameters[k].name) && strcmp(unit + i * unit_width, parameters[k].unit) != 0)
        st = kv_fail(err, KV_ERR_INPUT, "%s: /memory/unit: %s in '%.20s', not in '%s'; `roofline calibrate --from` writes it anew",
                     path, parameters[k].name, unit + i * unit_width, parameters[k].unit);
  free(unit);
  return st;
}

static kv_status read_card(hid_t file, const char *path, kvm_mem_card *card, kv_error *err) {
  uint64_t n = 0;
  size_t width = 0;
  char *names = NULL;
  double *value = NULL;
  kv_status st = kva_words(file, path, "memory/name", &n, &names, &width, err);
  if (!st) st = check_units(file, path, names, width, n, err);
  if (!st) st = kva_reals(file, path, "memory/value", &n, &value, err);
  if (!st) st = take(path, names, width, value, n, card, err);
  free(names);
  free(value);
  return st;
}

/* Why the file has nothing of its card. */
static kv_status say_described(hid_t file, kva_card_memory *m, kv_error *err) {
  char why[240] = "";
  kv_status st = kv_h5_get_str(file, "memory_card", why, sizeof why, err);
  if (st && st != KV_END) return st;
  if (*why) (void)snprintf(m->words, sizeof m->words, "the described card (%.60s is %.220s)", m->file, why);
  else
    (void)snprintf(m->words, sizeof m->words,
                   "the described card (%.60s has no /memory; `roofline calibrate --from` adds it)", m->file);
  return KV_OK;
}

kv_status kva_card_memory_read(const char *calibration, kva_card_memory *m, kv_error *err) {
  hid_t file;
  *m = (kva_card_memory){.words = "the described card (no calibration is used)"};
  if (!calibration || !*calibration) return KV_OK;
  const char *base = strrchr(calibration, '/');
  (void)snprintf(m->file, sizeof m->file, "%.255s", base ? base + 1 : calibration);
  kv_status st = kva_open(calibration, "kvceilings-1", &file, err);
  if (st) return st;
  m->adapted = H5Lexists(file, "memory", H5P_DEFAULT) > 0;
  if (!m->adapted) st = say_described(file, m, err);
  else st = read_card(file, calibration, &m->card, err);
  if (m->adapted) (void)snprintf(m->words, sizeof m->words, "adapted to %.255s", m->file);
  (void)H5Fclose(file);
  return st;
}

/* ---- use ---- */

/* Cards of a kind lie percents apart, not ten times. */
static kv_status check_beside(const kva_card_memory *m, const kvm_mem_params *p, kv_error *err) {
  const kvm_mem_card described = kvm_mem_card_of(p);
  double has[PARAMETERS], is[PARAMETERS];
  pack(&m->card, has);
  pack(&described, is);
  for (int k = 0; k < PARAMETERS; k++)
    if (has[k] > 10 * is[k] && is[k] > 0)
      return kv_fail(err, KV_ERR_INPUT,
                     "%s: /memory/value: %s of %.4g %s is more than 10 times the %.4g of the GPU's description; `roofline "
                     "calibrate --from` writes it anew",
                     m->file, parameters[k].name, has[k], parameters[k].unit, is[k]);
  return KV_OK;
}

kv_status kva_card_use(const kva_card_memory *m, kvm_mem_params *p, kv_error *err) {
  kv_error why = {KV_OK, ""};
  if (!m || !m->adapted) return KV_OK;
  kv_status st = check_beside(m, p, err);
  if (st || !kvm_mem_use_card(&m->card, p, &why)) return st;
  return kv_fail(err, KV_ERR_INPUT, "%s: /memory: %s; `roofline calibrate --from` writes it anew", m->file, why.text);
}

kv_status kva_card_params(const kvm_gpu *gpu, const kva_card_memory *m, kvm_mem_params *p, kv_error *err) {
  kv_status st = kvm_mem_params_of(gpu, p, err);
  return st ? st : kva_card_use(m, p, err);
}
