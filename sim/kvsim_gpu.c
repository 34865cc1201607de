#include "kvsim_gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration_find.h"
#include "card_memory.h"
#include "cli.h"
#include "gpu.h"
#include "mem_model.h"
#include "time_calibrate.h"
#include "verify.h"

/* The first of these that the description has. */
static const char *const read_names[] = {"dram_read_measured", "dram_bw_measured", "dram_bw_spec"};
static const char *const copy_names[] = {"dram_bw_measured", "dram_bw_spec"};

static double bandwidth(const kvm_gpu *g, const char *const *names, size_t n, char *source, size_t size) {
  for (size_t i = 0; i < n; i++) {
    const kvm_value *v = kvm_gpu_value(g, names[i]);
    if (!v || !isfinite(v->number)) continue;
    (void)snprintf(source, size, "%s (%s)", names[i], kvm_kind_words(v->kind, v->source));
    return v->number;
  }
  return NAN;
}

/* ---- scatter, by the memory model ---- */

enum { MODEL_ROWS = 32768 }; /* half as many are over before the memory is busy */

/* The share that runs of `run` rows at random places of an 8-GiB pool keep. */
static kv_status share_of_runs(kvm_mem *mem, double row_bytes, double mem_bytes, uint32_t run, int32_t *slot, double *share,
                               kv_error *err) {
  const kvm_mem_pattern pattern = {.pool_rows = (uint64_t)(fmin(8589934592.0, mem_bytes / 2) / row_bytes), .run = run, .aligned = true, .seed = 1};
  const kvm_mem_rows list = {.slot = slot, .n = MODEL_ROWS, .row_bytes = (uint32_t)row_bytes, .index_bytes = 4};
  kvm_mem_gather gather;
  kvm_mem_layout(&pattern, slot, MODEL_ROWS);
  kv_status st = kvm_mem_scatter(mem, &list, MODEL_ROWS, &gather, err);
  *share = st || isnan(gather.scatter) ? NAN : fmin(1, 1 / gather.scatter);
  return st;
}

static void without_model(kvs_priced_gpu *g) {
  for (int i = 0; i < KVS_SHARES; i++) g->run_share[i] = NAN;
  (void)snprintf(g->memory_model, sizeof g->memory_model, "%s", KVS_GATHER_MODEL);
  g->memory[0] = '\0';
}

static kv_status model_shares(const kvm_gpu *gpu, const kva_card_memory *card, double row_bytes, kvs_priced_gpu *g, kv_error *err) {
  kvm_mem_params params;
  kvm_mem *mem = NULL;
  without_model(g);
  if (kvm_mem_params_of(gpu, &params, NULL)) return KV_OK; /* nobody describes this memory */
  kv_status st = kva_card_use(card, &params, err);
  if (st) return st;
  int32_t *slot = malloc(MODEL_ROWS * sizeof *slot);
  st = slot ? kvm_mem_create(&params, &mem, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint32_t i = 0; i < KVS_SHARES && !st; i++)
    st = share_of_runs(mem, row_bytes, kvm_gpu_number(gpu, "mem_bytes"), 1u << i, slot, &g->run_share[i], err);
  kvm_mem_free(mem);
  free(slot);
  (void)snprintf(g->memory_model, sizeof g->memory_model, "modelled: memory model (models/mem_model.h), %s; memory: %.320s",
                 kvm_mem_kind(gpu) == KVM_ASSUMED ? "uncalibrated, some values assumed" : "calibrated on gathers measured on an H200",
                 card->words);
  memcpy(g->memory, card->words, sizeof g->memory);
  return st;
}

/* Linear in the logarithm of the run length; beyond the longest what is missing shrinks with the length. */
static double modelled_share(const void *arg, double row_bytes, double mean_run) {
  const kvs_priced_gpu *g = arg;
  const double *share = g->run_share, at = log2(fmax(1, mean_run));
  const int last = KVS_SHARES - 1;
  if (isnan(share[0])) return kvs_gather_share(NULL, row_bytes, mean_run);
  if (at >= last) return 1 - (1 - share[last]) * exp2(last - at);
  const int i = (int)at;
  return share[i] + (at - i) * (share[i + 1] - share[i]);
}

const char *kvsim_memory_model(const kvs_priced_gpu *gpu, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    if (strcmp(gpu[i].memory_model, gpu[0].memory_model)) return "modelled: each GPU's own, see gpus/memory_model";
  return n ? gpu[0].memory_model : KVS_GATHER_MODEL;
}

static kv_status price(const kvm_gpu *found, const kva_card_memory *card, double row_bytes, kvs_priced_gpu *g, kvs_cost *c, kv_error *err) {
  (void)snprintf(g->key, sizeof g->key, "%s", found->key);
  (void)snprintf(g->name, sizeof g->name, "%s", found->name);
  g->read_bandwidth = bandwidth(found, read_names, 3, g->read_source, sizeof g->read_source);
  g->copy_bandwidth = bandwidth(found, copy_names, 2, g->copy_source, sizeof g->copy_source);
  if (isnan(g->read_bandwidth) || isnan(g->copy_bandwidth))
    return kv_fail(err, KV_ERR_USAGE, "--gpu: the description of %s has no memory bandwidth", found->key);
  *c = (kvs_cost){.read_bandwidth = g->read_bandwidth, .copy_bandwidth = g->copy_bandwidth, .share = modelled_share, .arg = g};
  return model_shares(found, card, row_bytes, g, err);
}

/* Adds what is known of the GPU's kind of memory to its description, where there is a file for it. */
static kv_status describe_memory(kvm_gpu *gpu, kv_error *err) {
  char name[64], relative[128], path[4096];
  if (!kvm_mem_file(gpu, name, sizeof name)) return KV_OK;
  (void)snprintf(relative, sizeof relative, "models/dram/%s", name);
  if (kv_cli_share(relative, path, sizeof path, NULL)) return KV_OK;
  return kvm_mem_describe(path, gpu, err);
}

static bool is_named(const char *calibration) { return calibration && *calibration && strcmp(calibration, "none") != 0; }

/* Whose memory a GPU's scatter is priced with; counts a calibration that was named and is of this GPU. */
static kv_status find_memory(const kvm_gpus *all, const kvm_gpu *gpu, const char *calibration, kva_card_memory *card, unsigned *used,
                             kv_error *err) {
  char path[4400];
  kva_calibrated about;
  const kvm_gpu *of = NULL;
  if (!is_named(calibration)) {
    kv_status st = kva_calibration_find(all, gpu, calibration, path, sizeof path, NULL, err);
    return st ? st : kva_card_memory_read(path, card, err);
  }
  kv_status st = kva_time_calibration_of(calibration, &about, err);
  if (st) return st;
  if (!kvm_gpus_find(all, about.gpu_name, &of, NULL) && !strcmp(of->key, gpu->key)) {
    (*used)++;
    return kva_card_memory_read(calibration, card, err);
  }
  *card = (kva_card_memory){.words = "the described card (--calibration is of another GPU)"};
  return KV_OK;
}

static kv_status add_gpu(kvm_gpus *all, const char *name, const kvsim_pricing *how, kvs_priced_gpu *g, kvs_cost *c, unsigned *used, kv_error *err) {
  const kvm_gpu *listed;
  kva_card_memory card;
  kv_status st = kvm_gpus_find(all, name, &listed, err);
  if (st) return st;
  kvm_gpu *found = &all->gpu[listed - all->gpu];
  st = describe_memory(found, err);
  if (!st) st = find_memory(all, found, how->calibration, &card, used, err);
  return st ? st : price(found, &card, how->row_bytes, g, c, err);
}

kv_status kvsim_gpus(const kvsim_pricing *how, kvs_priced_gpu *gpu, kvs_cost *cost, uint32_t *n, kv_error *err) {
  char folder[4096], *list = strdup(how->gpus ? how->gpus : KVSIM_GPU), *rest = NULL;
  kvm_gpus all = {0};
  unsigned used = 0;
  *n = 0;
  kv_status st = list ? kv_cli_share("models/gpus", folder, sizeof folder, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = kvm_gpus_load(folder, &all, err);
  for (char *name = st ? NULL : strtok_r(list, ",", &rest); name && !st; name = strtok_r(NULL, ",", &rest)) {
    if (*n == KVS_COSTS)
      st = kv_fail(err, KV_ERR_USAGE, "--gpu: at most %u GPUs at a time", KVS_COSTS);
    else
      st = add_gpu(&all, name, how, &gpu[*n], &cost[*n], &used, err);
    if (!st) (*n)++;
  }
  if (!st && !*n) st = kv_fail(err, KV_ERR_USAGE, "--gpu: names no GPU");
  if (!st && is_named(how->calibration) && !used)
    st = kv_fail(err, KV_ERR_INPUT, "--calibration %.300s: was measured on none of the GPUs of --gpu", how->calibration);
  kvm_gpus_free(&all);
  free(list);
  return st;
}

/* What a kernel needs for one layer of a mean decode step: the memory term, and all others. */
typedef struct layer_time {
  double memory, other;
  const char *other_name;
} layer_time;

static layer_time time_of(const kvm_gpu *gpu, unsigned kernel, const kvm_verify *problem) {
  const kvm_structure k = kvm_kernel(kernel, kvm_gpu_sm(gpu));
  const kvm_work work = kvm_structure_work(&k, problem, gpu);
  kvm_useful useful = kvm_structure_useful(&k, problem);
  kvm_roofs roofs = kvm_roofs_of(gpu);
  layer_time t = {.memory = work.chip[KVM_DRAM] / roofs.chip[KVM_DRAM].rate};
  roofs.chip[KVM_DRAM].rate = roofs.sm[KVM_DRAM].rate = INFINITY; /* a memory that is never waited for */
  const kvm_ladder rest = kvm_ladder_of(&useful, &work, &roofs, true);
  t.other = rest.t[4];
  t.other_name = kvm_resource_name(rest.binding);
  return t;
}

static double share_of(const kvs_cell *c, uint32_t gpu) {
  double seconds = c->result.read_seconds[gpu];
  return seconds > 0 ? c->result.read_floor[gpu] / seconds : 1;
}

/* The rows of /kernels of one GPU. */
static uint32_t add_times(const kvm_gpu *gpu, uint32_t number, const kvs_cell *cells, uint32_t n, const kvm_verify *problem, double layers,
                          kvs_kernel_time *out) {
  uint32_t at = 0;
  for (uint32_t c = 0; c < n; c++)
    for (unsigned k = 0; k < KVM_KERNELS; k++) {
      if (kvm_kernel(k, kvm_gpu_sm(gpu)).grid == KVM_GRID_ELEMENTS) continue; /* reads no rows */
      const layer_time t = time_of(gpu, k, problem);
      double now = t.memory / share_of(&cells[c], number), before = t.memory / share_of(&cells[0], number);
      double step = layers * fmax(now, t.other);
      if (!cells[c].result.fits) now = step = NAN;
      out[at++] = (kvs_kernel_time){.policy = c, .gpu = number, .kernel = kvm_kernel(k, kvm_gpu_sm(gpu)).name,
                                    .bound = isnan(now) ? "none" : now > t.other ? "dram" : t.other_name, .step = step,
                                    .saved_step = layers * fmax(before, t.other) - step};
    }
  return at;
}

kv_status kvsim_kernel_times(const kvs_priced_gpu *gpu, uint32_t gpus, const kvs_cell *cells, uint32_t n, const kvs_prices *prices,
                             uint32_t heads, uint32_t queries, kvs_kernel_time **times, uint32_t *times_n, kv_error *err) {
  char folder[4096];
  kvm_gpus all = {0};
  const kvs_whatif_result *r = &cells[0].result;
  *times = NULL;
  *times_n = 0;
  bool mla = false;
  for (int rows = KVM_ROWS_BF16; rows <= KVM_ROWS_FP8_656; rows++) mla |= kvm_rows_bytes((kvm_rows)rows, 512, 64) == prices->row_bytes;
  if (!mla || !r->decode_steps || !r->requests) return KV_OK;
  kvm_verify problem = kvm_verify_default(0);
  problem.heads = heads;
  problem.queries = queries;
  problem.row_bytes = (uint32_t)prices->row_bytes;
  problem.batch = (uint32_t)llround(fmax(1, (double)r->requests / (double)r->decode_steps));
  kvm_verify_uniform(&problem, (uint64_t)llround((double)r->rows / (double)r->requests));
  kv_status st = kvm_verify_check(&problem, err);
  if (!st) st = kv_cli_share("models/gpus", folder, sizeof folder, err);
  if (!st) st = kvm_gpus_load(folder, &all, err);
  if (!st && !(*times = malloc((size_t)n * gpus * KVM_KERNELS * sizeof **times))) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint32_t g = 0; g < gpus && !st; g++) {
    const kvm_gpu *found;
    st = kvm_gpus_find(&all, gpu[g].key, &found, err);
    if (!st) *times_n += add_times(found, g, cells, n, &problem, prices->layers, *times + *times_n);
  }
  kvm_gpus_free(&all);
  return st;
}

static kv_status unknown_policy(const char *name, kv_error *err) {
  char known[512] = "";
  size_t at = 0;
  for (unsigned i = 0; i < KVS_POLICIES; i++)
    at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", kvs_policies[i]->name);
  return kv_fail(err, KV_ERR_USAGE, "--policy: '%s' is none; known are %s", name, known);
}

kv_status kvsim_policies(const char *names, const kvs_policy **policy, uint32_t *n, kv_error *err) {
  char *list = strdup(names ? names : "all"), *rest = NULL;
  bool wanted[KVS_POLICIES] = {true};
  kv_status st = list ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (char *name = st ? NULL : strtok_r(list, ",", &rest); name && !st; name = strtok_r(NULL, ",", &rest)) {
    const kvs_policy *p = kvs_policy_find(name);
    if (!p && strcmp(name, "all")) st = unknown_policy(name, err);
    for (unsigned i = 0; i < KVS_POLICIES; i++) wanted[i] |= !p || p == kvs_policies[i];
  }
  *n = 0;
  for (unsigned i = 0; i < KVS_POLICIES && !st; i++)
    if (wanted[i]) policy[(*n)++] = kvs_policies[i];
  free(list);
  return st;
}

kv_status kvsim_real(const char *text, const char *option, double low, double high, double *value, kv_error *err) {
  char *end;
  if (!text) return KV_OK;
  double v = strtod(text, &end);
  if (end == text || *end || !(v >= low && v <= high))
    return kv_fail(err, KV_ERR_USAGE, "%s: '%s' is no number from %g to %g", option, text, low, high);
  *value = v;
  return KV_OK;
}
