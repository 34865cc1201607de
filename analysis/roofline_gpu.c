#include "roofline_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "cli.h"
#include "mem_params.h"

kv_status roofline_gpus(kvm_gpus *gpus, kv_error *err) {
  char folder[4096];
  kv_status st = kv_cli_share("models/gpus", folder, sizeof folder, err);
  return st ? st : kvm_gpus_load(folder, gpus, err);
}

/* The first card here whose description is of architecture `sm`, or of any (0). */
static const kvm_gpu *card_here(const kvm_gpus *all, int sm, char *card, size_t size) {
  const char *proc = getenv("KVROOF_PROC_CARDS"); /* for tests */
  const kvm_gpu *g;
  for (unsigned i = 0; i < 64 && !kva_card_name(proc ? proc : KVA_PROC_CARDS, i, card, size); i++)
    if (!kvm_gpus_find(all, card, &g, NULL) && (!sm || kvm_gpu_sm(g) == sm)) return g;
  return NULL;
}

static bool is_file(const char *name) {
  size_t n = strlen(name);
  return n > 4 && !strcmp(name + n - 4, ".ini");
}

static kv_status from_file(const char *name, roofline_gpu *c, kv_error *err) {
  c->all.gpu = calloc(1, sizeof *c->all.gpu);
  if (!c->all.gpu) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_status st = kvm_gpu_load(name, c->all.gpu, err);
  if (st) return st;
  c->all.n = 1;
  c->gpu = c->all.gpu;
  (void)snprintf(c->note, sizeof c->note, "; described by %.150s", name);
  return KV_OK;
}

/* Adds what is described of the memory type; a type that nobody describes stays without. */
static kv_status add_memory(roofline_gpu *c, kv_error *err) {
  kvm_gpu *g = &c->all.gpu[c->gpu - c->all.gpu];
  char name[64], relative[80], path[4096];
  if (!kvm_mem_file(g, name, sizeof name)) return KV_OK;
  (void)snprintf(relative, sizeof relative, "models/dram/%s", name);
  if (kv_cli_share(relative, path, sizeof path, NULL)) return KV_OK;
  return kvm_mem_describe(path, g, err);
}

static kv_status choose(const char *name, roofline_gpu *c, kv_error *err) {
  char card[200] = "";
  if (name && is_file(name)) return from_file(name, c, err);
  kv_status st = roofline_gpus(&c->all, err);
  if (st) return st;
  int sm = name ? kvm_arch_number(name) : 0;
  const kvm_gpu *here = card_here(&c->all, sm, card, sizeof card);
  if (!name && !here)
    return kv_fail(err, KV_ERR_DEVICE,
                   "%s%s; name the GPU to model, e.g. --gpu sm_120 (`roofline list` shows all)",
                   card[0] ? "no description of the card here, " : "no NVIDIA GPU here", card);
  if (here && (!name || sm)) {
    c->gpu = here;
    (void)snprintf(c->note, sizeof c->note,
                   "; this card is here, but no kernel was timed on it");
    return KV_OK;
  }
  st = kvm_gpus_find(&c->all, name, &c->gpu, err);
  if (st) return st;
  if (here == c->gpu)
    (void)snprintf(c->note, sizeof c->note,
                   "; this card is here, but no kernel was timed on it");
  else if (sm)
    (void)snprintf(c->note, sizeof c->note, "; %.20s is taken for this one, no such card is here", name);
  else (void)snprintf(c->note, sizeof c->note, "; no such card is here");
  return KV_OK;
}

kv_status roofline_gpu_choose(const char *name, roofline_gpu *c, kv_error *err) {
  kv_status st = choose(name, c, err);
  return st ? st : add_memory(c, err);
}

void roofline_gpu_free(roofline_gpu *c) {
  kvm_gpus_free(&c->all);
  memset(c, 0, sizeof *c);
}
