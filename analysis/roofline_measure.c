#include "roofline_measure.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "measure_all.h"
#include "measure_ladder.h"
#include "roof_run.h"

/* ---- options ---- */

enum {
  OPT_MODEL = 2000,
  OPT_DEVICE,
  OPT_KERNELS,
  OPT_EAGER,
  OPT_REPLICATE,
  OPT_REPEATS,
  OPT_BLOCKS,
  OPT_SMEM,
  OPT_POOL,
  OPT_LIMIT,
  OPT_COUNTERS,
  OPT_CEILINGS
};

static const struct argp_option option_list[] = {
    {0, 0, 0, 0, "Measuring (where the GPU is in this machine)", 4},
    {"model", OPT_MODEL, 0, 0, "Model only, even if the GPU is here", 0},
    {"device", OPT_DEVICE, "N,...|all", 0,
     "CUDA devices to measure on, one after the other, or all that match at once (the first that matches)", 0},
    {"kernels", OPT_KERNELS, "LIST", 0,
     "Kernels to run, separated by commas (all but the halves load_only, mma_only)", 0},
    {"repeats", OPT_REPEATS, "N", 0, "Timed rounds a point, 3 to 1000 (50)", 0},
    {"time-limit", OPT_LIMIT, "S", 0, "Seconds for one series of interleaved runs (20)", 0},
    {"eager", OPT_EAGER, 0, 0, "Launch eagerly too, beside the captured graph", 0},
    {"replicate", OPT_REPLICATE, 0, 0, "Run the request 2, 4, ... times side by side too, up to one wave", 0},
    {"counters", OPT_COUNTERS, 0, 0,
     "Count DRAM, L2 and link bytes, wavefronts, stalls too (CUPTI, where permitted)", 0},
    {"blocks-per-sm", OPT_BLOCKS, "N", 0, "Blocks an SM for the split kernels", 0},
    {"smem-limit", OPT_SMEM, "BYTES", 0,
     "Leave out kernels that need more shared memory a block; with --blocks-per-sm 1 and 101376 the "
     "occupancy of sm_120 (clocks, caches and memory stay this GPU's)",
     0},
    {"pool", OPT_POOL, "ROWS", 0, "Rows of the KV pool (2Mi, or what the problem needs)", 0},
    {"ceilings", OPT_CEILINGS, "FILE", 0,
     "Dataset of `roofline calibrate`: ceilings and floor of the measured points; without the GPU the same "
     "as "
     "--calibration",
     0},
    {0}};

static kv_status parse_kernels(roofline_measure_options *o, const char *arg) {
  char copy[256], *save = NULL;
  (void)snprintf(copy, sizeof copy, "%s", arg);
  for (char *word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
    int k = 0;
    while (k < KVK_MERGE_STATE && strcmp(kvk_kind_name((kvk_kind)k), word) != 0) k++;
    if (k == KVK_MERGE_STATE)
      return kv_fail(&o->err, KV_ERR_USAGE,
                     "--kernels: '%.60s' is no kernel; there are %s, %s, %s, %s, %s, %s", word,
                     kvk_kind_name(KVK_EXTEND_SERIAL_64), kvk_kind_name(KVK_EXTEND_SERIAL_32),
                     kvk_kind_name(KVK_SPLIT_PER_HEAD), kvk_kind_name(KVK_SPLIT_VERIFY),
                     kvk_kind_name(KVK_LOAD_ONLY), kvk_kind_name(KVK_MMA_ONLY));
    o->kinds |= 1u << k;
  }
  return KV_OK;
}

static kv_status add_device(roofline_measure_options *o, const char *word) {
  uint64_t n = 0;
  kv_status st = kv_cli_count(word, "--device", 0, ROOFLINE_MOST_DEVICES - 1, &n, &o->err);
  for (int i = 0; !st && i < o->devices; i++)
    if (o->device[i] == (int)n) return kv_fail(&o->err, KV_ERR_USAGE, "--device: %d is given twice", (int)n);
  if (!st) o->device[o->devices++] = (int)n; /* no more than there are numbers */
  return st;
}

static kv_status parse_devices(roofline_measure_options *o, const char *arg) {
  char copy[256];
  kv_status st = KV_OK;
  o->devices = 0;
  o->all = strcmp(arg, "all") == 0;
  if (o->all) return KV_OK;
  if (strlen(arg) >= sizeof copy) return kv_fail(&o->err, KV_ERR_USAGE, "--device: '%.40s...' is too long", arg);
  (void)snprintf(copy, sizeof copy, "%s", arg);
  for (char *word = copy, *next; !st && word; word = next) {
    next = strchr(word, ',');
    if (next) *next++ = '\0';
    st = add_device(o, word);
  }
  return st;
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  roofline_measure_options *o = state->input;
  const struct {
    int key;
    const char *name;
    uint64_t low, high, *to;
  } count[] = {{OPT_REPEATS, "--repeats", 3, 1000, &o->repeats},
               {OPT_LIMIT, "--time-limit", 1, 86400, &o->time_limit},
               {OPT_BLOCKS, "--blocks-per-sm", 1, 32, &o->blocks_per_sm},
               {OPT_SMEM, "--smem-limit", 1024, 1u << 20, &o->smem_limit},
               {OPT_POOL, "--pool", 1, INT32_MAX, &o->pool}};
  if (key >= OPT_MODEL && key <= OPT_CEILINGS && o->err.status) return 0; /* the first error is reported */
  for (size_t i = 0; i < sizeof count / sizeof *count; i++)
    if (count[i].key == key) {
      (void)kv_cli_count(arg, count[i].name, count[i].low, count[i].high, count[i].to, &o->err);
      return 0;
    }
  switch (key) {
    case OPT_MODEL: o->model_only = true; return 0;
    case OPT_EAGER: o->eager = true; return 0;
    case OPT_REPLICATE: o->replicate = true; return 0;
    case OPT_COUNTERS: o->counters = true; return 0;
    case OPT_CEILINGS: o->ceilings = arg; return 0;
    case OPT_DEVICE: (void)parse_devices(o, arg); return 0;
    case OPT_KERNELS: (void)parse_kernels(o, arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

const struct argp roofline_measure_argp = {option_list, parse, NULL, NULL, NULL, NULL, NULL};

/* ---- which devices ---- */

/* By name or alias; a description whose names this driver does not use is met by its compute capability only
 * when
 * --device points at the card. */
static bool is_card(const kvk_gpu *card, const kvm_gpu *gpu, bool pointed_at) {
  const char *name[64];
  int n = 0, sm = kvm_gpu_sm(gpu);
  name[n++] = gpu->name;
  for (size_t i = 0; i < gpu->aliases && n < 64; i++) name[n++] = gpu->alias[i];
  const kvk_gpu_wanted by_name = {0, 0, name, n}, by_capability = {sm / 10, sm % 10, NULL, 0};
  return kvk_gpu_matches(card, &by_name) || (pointed_at && sm && kvk_gpu_matches(card, &by_capability));
}

static kv_status listed(const roofline_measure_options *o, const kvm_gpu *gpu, int present, int *devices,
                        int *count, kv_error *err) {
  kvk_gpu card;
  for (int i = 0; i < o->devices; i++) {
    const int d = o->device[i];
    if (d >= present)
      return kv_fail(err, KV_ERR_DEVICE, "--device %d: this machine has %d (0 to %d)", d, present, present - 1);
    kv_status st = kvk_gpu_get(d, &card, err);
    if (st) return st;
    if (!is_card(&card, gpu, true))
      return kv_fail(err, KV_ERR_DEVICE, "--device %d is an %s (compute capability %d.%d), not %s", d,
                     card.name, card.major, card.minor, gpu->name);
    devices[(*count)++] = d;
  }
  return KV_OK;
}

/* The first that matches, or all of them. */
static kv_status matching(const kvm_gpu *gpu, int present, bool all, int *devices, int *count, kv_error *err) {
  kvk_gpu card;
  for (int d = 0; d < present && *count < (all ? ROOFLINE_MOST_DEVICES : 1); d++) {
    kv_status st = kvk_gpu_get(d, &card, err);
    if (st) return st;
    if (is_card(&card, gpu, false)) devices[(*count)++] = d;
  }
  if (all && !*count)
    return kv_fail(err, KV_ERR_DEVICE, "--device all: none of the %d here is an %s; --device N points at one",
                   present, gpu->name);
  return KV_OK;
}

kv_status roofline_measure_devices(const roofline_measure_options *o, const kvm_gpu *gpu,
                                   int devices[ROOFLINE_MOST_DEVICES], int *count, char *why, size_t why_size,
                                   kv_error *err) {
  kv_error absent = {KV_OK, ""};
  int present = 0;
  *count = 0;
  (void)snprintf(why, why_size, "--model was given");
  if (o->model_only) return KV_END;
  kv_status st = kvk_gpu_count(&present, &absent);
  if (st && (o->devices || o->all)) return kv_fail(err, KV_ERR_DEVICE, "--device: %.600s", absent.text);
  if (st)
    (void)snprintf(why, why_size, "%s", kvk_cuda_built() ? "no usable GPU here" : "this build has no CUDA");
  if (st) return KV_END;
  st = o->devices ? listed(o, gpu, present, devices, count, err)
                  : matching(gpu, present, o->all, devices, count, err);
  (void)snprintf(why, why_size, "no such GPU here");
  return st || *count ? st : KV_END;
}

/* ---- a run that is modelled ---- */

/* The kernel of the model that a kernel of --kernels is; KVM_KERNELS: none. The GPU decides how long the tiles of
 * extend_serial are. */
static unsigned modelled_as(kvk_kind kind, int sm) {
  static const char *const name[] = {[KVK_EXTEND_SERIAL_64] = "extend_serial",
                                     [KVK_EXTEND_SERIAL_32] = "extend_serial",
                                     [KVK_SPLIT_PER_HEAD] = "split_per_head",
                                     [KVK_SPLIT_VERIFY] = "split_verify"};
  const uint32_t tile = kind == KVK_EXTEND_SERIAL_64 ? 64 : kind == KVK_EXTEND_SERIAL_32 ? 32 : 0;
  unsigned which = 0;
  if ((size_t)kind >= sizeof name / sizeof *name) return KVM_KERNELS;
  while (which < KVM_KERNELS && strcmp(kvm_kernel(which, sm).name, name[kind]) != 0) which++;
  return which < KVM_KERNELS && tile && kvm_kernel(which, sm).tile_tokens != tile ? KVM_KERNELS : which;
}

static kv_status modelled_kernels(const roofline_measure_options *o, const kvm_gpu *gpu, unsigned *only, kv_error *err) {
  *only = 0;
  for (int k = 0; k < KVK_MERGE_STATE; k++) {
    const unsigned which = o->kinds >> k & 1 ? modelled_as((kvk_kind)k, kvm_gpu_sm(gpu)) : 0;
    const char *name = kvk_kind_name((kvk_kind)k);
    if (which == KVM_KERNELS && (k == KVK_EXTEND_SERIAL_64 || k == KVK_EXTEND_SERIAL_32))
      return kv_fail(err, KV_ERR_USAGE, "--kernels %s: the model of %s has other tiles; --kernel %s adds this one", name,
                     gpu->key, name);
    if (which == KVM_KERNELS)
      return kv_fail(err, KV_ERR_USAGE, "--kernels %s: there is no model of it; leave it out, or measure it", name);
    if (o->kinds >> k & 1) *only |= 1u << which;
  }
  return KV_OK;
}

kv_status roofline_measure_modelled(const roofline_measure_options *o, const kvm_gpu *gpu, const char *why,
                                    unsigned *only, kv_error *err) {
  const struct {
    const char *name;
    bool given;
  } measured[] = {{"--device", o->devices || o->all}, {"--eager", o->eager}, {"--replicate", o->replicate},
                  {"--repeats", o->repeats},          {"--pool", o->pool},   {"--time-limit", o->time_limit}};
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
    if (measured[i].given)
      return kv_fail(err, KV_ERR_USAGE,
                     "%s: only a measurement has it, and this run is modelled (%s); leave it out, or measure where the "
                     "GPU is",
                     measured[i].name, why);
  if (o->blocks_per_sm > 1)
    return kv_fail(err, KV_ERR_USAGE,
                   "--blocks-per-sm %d: this run is modelled (%s), and the model has one block an SM for the split kernels; "
                   "leave it out, or measure where the GPU is",
                   (int)o->blocks_per_sm, why);
  return modelled_kernels(o, gpu, only, err);
}

/* ---- telling ---- */

static const char *interval(const kva_interval *r, char text[40]) {
  if (isnan(r->value)) return "";
  (void)snprintf(text, 40, "%.3f [%.3f, %.3f]", r->value, r->low, r->high);
  return text;
}

static void print_counters(const kva_measured *m) {
  bool any = false;
  for (size_t i = 0; i < m->rows; i++) any = any || m->row[i].counted;
  if (!any) return;
  printf("%-20s %8s %-11s %9s %9s %9s %10s %11s %11s %7s %7s %7s %7s\n", "counted", "prefix", "layout",
         "DRAM MB", "L2 MB", "link MB", "link max MB", "wavefronts", "of 1 SM", "issue %", "long", "short",
         "barrier");
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *r = &m->row[i];
    const kvk_counters *c = &r->counters;
    if (r->counted)
      printf("%-20s %8llu %-11s %9.1f %9.1f %9.1f %10.2f %11.4g %11.4g %7.1f %7.2f %7.2f %7.2f\n",
             kvk_kind_name(r->kind), (unsigned long long)r->longest, kva_place_name(r->place),
             (c->dram_read + c->dram_write) / 1e6, c->l2_read / 1e6, c->link / 1e6, c->link_max / 1e6,
             c->wavefronts, c->wavefronts_max, c->issue_active_percent, c->long_scoreboard,
             c->short_scoreboard, c->barrier);
  }
}

static void print_rows(const kva_measured *m) {
  char text[40], status[320], throttle[80];
  printf(
      "%s: %u heads x %u queries, pool of %llu rows; median of a whole operation, L2 cold, as a CUDA graph, "
      "unless the run says otherwise\n",
      kva_bench_status(&m->origin, status, sizeof status), m->heads, m->queries,
      (unsigned long long)m->pool_rows);
  if (m->at_once > 1)
    printf("device %d, %s, one of %d measured at once\n", m->origin.gpu.device, m->origin.gpu.pci, m->at_once);
  else printf("device %d, %s\n", m->origin.gpu.device, m->origin.gpu.pci);
  printf("%-20s %8s %5s %-11s %-11s %11s %17s %9s %-22s %5s %4s\n", "kernel", "prefix", "batch", "layout",
         "run", "median us", "95 % interval", "GB/s", "against contiguous", "MHz", "W");
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *r = &m->row[i];
    printf("%-20s %8llu %5u %-11s %-11s %11.2f %8.2f %8.2f %9.1f %-22s %5.0f %4.0f%s%s\n",
           kvk_kind_name(r->kind), (unsigned long long)r->longest, r->batch, kva_place_name(r->place),
           kva_experiment_name(r->experiment), r->time.median * 1e6, r->time.low * 1e6, r->time.high * 1e6,
           r->structure.unique_kv_bytes / r->time.median / 1e9, interval(&r->to_contiguous, text),
           r->state.sm_clock, r->state.power, r->throttled ? " throttled: " : "",
           r->throttled ? kvk_throttle_text(&r->state, throttle, sizeof throttle) : "");
  }
  print_counters(m);
  if (m->notes[0]) printf("note: %s\n", m->notes);
  if (m->smem_limit || m->blocks_per_sm)
    printf("note: occupancy limited as asked; clocks, caches and memory are still this GPU's\n");
}

static json_t *row_json(const kva_measured_row *r) {
  json_t *o = json_pack(
      "{s:s, s:I, s:I, s:i, s:s, s:s, s:f, s:f, s:f, s:f, s:i, s:b}", "kernel", kvk_kind_name(r->kind),
      "prefix", (json_int_t)r->longest, "tokens", (json_int_t)r->tokens, "batch", (int)r->batch, "layout",
      kva_place_name(r->place), "experiment", kva_experiment_name(r->experiment), "measured", r->time.median,
      "measured_low", r->time.low, "measured_high", r->time.high, "effective_bandwidth",
      r->structure.unique_kv_bytes / r->time.median, "runs", (int)r->time.n, "throttled", (int)r->throttled);
  if (o && !isnan(r->to_contiguous.value))
    (void)json_object_set_new(
        o, "to_contiguous",
        json_pack("[f, f, f]", r->to_contiguous.value, r->to_contiguous.low, r->to_contiguous.high));
  return o;
}

static kv_status print_json(const kva_measured *m, int count, kv_error *err) {
  char status[320];
  json_t *devices = json_array();
  for (int d = 0; d < count; d++) {
    json_t *points = json_array();
    for (size_t i = 0; i < m[d].rows; i++) (void)json_array_append_new(points, row_json(&m[d].row[i]));
    (void)json_array_append_new(
        devices, json_pack("{s:s, s:i, s:s, s:i, s:b, s:i, s:i, s:s, s:s, s:o, s:s, s:o}", "status",
                           kva_bench_status(&m[d].origin, status, sizeof status), "device",
                           m[d].origin.gpu.device, "pci", m[d].origin.gpu.pci, "devices_at_once", m[d].at_once,
                           "complete", (int)m[d].complete, "heads", (int)m[d].heads, "queries", (int)m[d].queries,
                           "notes", m[d].notes, "failure", m[d].failure, "recorded_scatter",
                           m[d].recorded.scatter > 0 ? json_real(m[d].recorded.scatter) : json_null(),
                           "recorded_scatter_source", m[d].recorded.source, "points", points));
  }
  json_t *root =
      json_pack("{s:s, s:i, s:o}", "schema", "roofline-measured", "schema_version", 1, "devices", devices);
  int rc = root ? json_dumpf(root, stdout, JSON_INDENT(2)) : -1;
  putchar('\n');
  json_decref(root);
  return rc == 0 ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "JSON: out of memory");
}

static const kva_measured_row *fastest(const kva_measured *m) {
  const kva_measured_row *best = NULL;
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *r = &m->row[i];
    if (r->experiment != KVA_COLD_GRAPH || r->kind == KVK_LOAD_ONLY || r->kind == KVK_MMA_ONLY) continue;
    bool longer = best && r->longest > best->longest, same = best && r->longest == best->longest;
    if (!best || longer || (same && r->time.median < best->time.median)) best = r;
  }
  return best;
}

/* What can be said from the measured points alone: the fastest kernel at the longest prefix, and the largest
 * effect that scatter had on any kernel. */
static void verdict_of(const kva_measured *m, char *text, size_t size) {
  const kva_measured_row *best = fastest(m), *worst = NULL;
  char words[KVA_BATCH_WORDS];
  size_t used = 0;
  for (size_t i = 0; i < m->rows; i++) {
    const kva_measured_row *r = &m->row[i];
    if (isnan(r->to_contiguous.value) || r->place == KVA_CONTIGUOUS) continue;
    if (!worst || r->to_contiguous.value > worst->to_contiguous.value) worst = r;
  }
  text[0] = '\0';
  if (best) kva_batch_words(best->batch, best->tokens, best->longest, words);
  if (best)
    used = (size_t)snprintf(text, size, "%s takes %.1f us a layer at %s (%.0f GB/s of KV).",
                            kvk_kind_name(best->kind), best->time.median * 1e6, words,
                            best->structure.unique_kv_bytes / best->time.median / 1e9);
  if (worst && used < size)
    (void)snprintf(text + used, size - used,
                   " Scatter costs at most %.1f %% [%.1f, %.1f]: %s, %s slots, %llu tokens.",
                   100 * (worst->to_contiguous.value - 1), 100 * (worst->to_contiguous.low - 1),
                   100 * (worst->to_contiguous.high - 1), kvk_kind_name(worst->kind),
                   kva_place_name(worst->place), (unsigned long long)worst->longest);
}

/* Shares and gains of each kernel at the longest prefix, cold, contiguous rows (others where there are none).
 */
static void attribute(const kva_measured *m, const roofline_measure_run *run, const kva_calibration *ceilings,
                      char *text, size_t size) {
  uint64_t longest = 0;
  for (size_t i = 0; i < m->rows; i++) longest = m->row[i].longest > longest ? m->row[i].longest : longest;
  for (int k = 0; run->roofs && k < KVK_KINDS; k++) {
    const kva_measured_row *row = NULL;
    for (size_t i = 0; i < m->rows; i++) {
      const kva_measured_row *r = &m->row[i];
      if ((int)r->kind == k && r->longest == longest && r->experiment == KVA_COLD_GRAPH &&
          (!row || r->place == KVA_CONTIGUOUS))
        row = r;
    }
    kva_attribution a;
    size_t used = strlen(text);
    if (!row || used + 2 > size) continue;
    kva_measured_attribute(m, row, run->roofs, run->timing, ceilings, &a);
    (void)snprintf(text + used, size - used, " %s", a.verdict);
  }
}

static void print_cost(const kva_measured *m, const kva_calibration *ceilings) {
  char source[KVA_COST_SOURCE];
  double scatter = NAN;
  bool any = false;
  for (size_t i = 0; i < m->rows; i++) any |= m->row[i].place == KVA_RECORDED;
  if (any) scatter = kva_measured_scatter(m, KVA_RECORDED, ceilings, source);
  if (any && isnan(scatter)) printf("T3 of the recorded layout: %s\n", source);
  else if (any)
    printf("T3 of the recorded layout: %.3f of contiguous rows where memory binds, from the %s\n", scatter,
           source);
}

/* ---- running ---- */

typedef struct saver {
  const roofline_measure_run *run;
  const kva_calibration *ceilings;
  const int *devices;
  int count;
} saver;

static kv_status save_as(const saver *s, const kva_measured *m, const char *path, kv_error *err) {
  char verdict[4096];
  verdict_of(m, verdict, sizeof verdict);
  attribute(m, s->run, s->ceilings, verdict, sizeof verdict);
  const kva_measured_labels labels = {s->run->gpu->key, s->run->layout_name, verdict,
                                      s->run->layers,   s->run->roofs,       s->run->timing,
                                      s->run->card ? s->run->card->file : ""};
  return kva_measured_write(m, s->ceilings, &labels, path, s->run->command, err);
}

/* Into the file of its device. */
static kv_status save_device(const saver *s, const kva_measured *m, kv_error *err) {
  char path[4096];
  int i = 0;
  while (i + 1 < s->count && s->devices[i] != m->origin.gpu.device) i++;
  kva_device_file(s->run->output, s->devices, i, path, sizeof path);
  return save_as(s, m, path, err);
}

static kv_status save(void *user, const kva_measured *m, kv_error *err) {
  const saver *s = user;
  if (!s->run->quiet && s->count == 1) fprintf(stderr, "roofline: %zu points measured\n", m->rows);
  if (!s->run->quiet && s->count > 1)
    fprintf(stderr, "roofline: device %d: %zu points measured\n", m->origin.gpu.device, m->rows);
  return save_device(s, m, err);
}

static kv_status make_problems(const roofline_measure_run *run, kva_problem **problems, size_t *n,
                               uint64_t **lengths, kv_error *err) {
  const kva_layout *l = run->layout;
  *n = l ? 1 : run->prefixes;
  *problems = calloc(*n, sizeof **problems);
  *lengths = l ? calloc(l->requests ? l->requests : 1, sizeof **lengths) : NULL;
  if (!*problems || (l && !*lengths)) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t i = 0; !l && i < *n; i++)
    (*problems)[i] = (kva_problem){.batch = run->batch, .prefix = run->prefix[i]};
  for (uint64_t i = 0; l && i < l->requests; i++) (*lengths)[i] = l->indptr[i + 1] - l->indptr[i];
  if (l)
    **problems = (kva_problem){.batch = (uint32_t)l->requests, .lengths = *lengths, .recorded = l->slots};
  return KV_OK;
}

static kva_measure_plan plan_of(const roofline_measure_run *run, const kva_problem *problems, size_t n,
                                const kva_layout_cost *recorded, saver *s) {
  const roofline_measure_options *o = run->options;
  return (kva_measure_plan){.heads = run->heads,
                            .queries = run->queries,
                            .problem = problems,
                            .problems = n,
                            .pool_rows = o->pool       ? o->pool
                                         : run->layout ? run->layout->pool_rows
                                                       : 0,
                            .kinds = o->kinds,
                            .eager = o->eager,
                            .replicate = o->replicate,
                            .counters = o->counters,
                            .blocks_per_sm = (int)o->blocks_per_sm,
                            .smem_limit = (uint32_t)o->smem_limit,
                            .repeats = (uint32_t)o->repeats,
                            .problem_limit = (double)o->time_limit,
                            .seed = run->seed,
                            .recorded = *recorded,
                            .after = save,
                            .user = s};
}

/* What was measured before a failure; the whole is saved already. */
static kv_status save_rest(const saver *s, const kva_measured *m, kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 0; !st && i < s->count; i++)
    if (m[i].rows && !m[i].complete) st = save_device(s, &m[i], err);
  return st;
}

static void print_all(const saver *s, const kva_measured *m) {
  for (int i = 0; i < s->count; i++) {
    char verdict[4096] = "";
    if (!m[i].rows) continue;
    if (i) printf("\n");
    print_rows(&m[i]);
    print_cost(&m[i], s->ceilings);
    attribute(&m[i], s->run, s->ceilings, verdict, sizeof verdict);
    if (verdict[0]) printf("\n%s\n", verdict + 1);
  }
}

/* At once, or one after the other until one fails. */
static kv_status measure_devices(const kva_measure_plan *plan, const saver *s, kva_measured *m, kv_error *err) {
  kv_status st = KV_OK;
  if (s->count > 1 && s->run->options->all) return kva_measure_all(plan, s->devices, s->count, m, err);
  for (int i = 0; !st && i < s->count; i++) st = kva_measure(plan, s->devices[i], &m[i], err);
  return st;
}

kv_status roofline_measure(const roofline_measure_run *run, const int *devices, int count, kv_error *err) {
  kva_calibration ceilings = {0};
  saver s = {run, NULL, devices, count};
  kva_problem *problems = NULL;
  kva_layout_cost recorded = {0};
  uint64_t *lengths = NULL;
  size_t n = 0;
  kva_measured *measured = calloc((size_t)count, sizeof *measured);
  kv_error second;
  bool any = false;
  kv_status st = measured ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "out of memory"), kept;
  if (!st && run->options->ceilings) st = kva_calibration_read(run->options->ceilings, &ceilings, err);
  if (!st && run->options->ceilings) s.ceilings = &ceilings;
  if (!st) st = make_problems(run, &problems, &n, &lengths, err);
  if (!st) st = kva_layout_cost_of(run->gpu, run->card, run->layout, s.ceilings, &recorded, err);
  if (st) goto done;
  const kva_measure_plan plan = plan_of(run, problems, n, &recorded, &s);
  st = measure_devices(&plan, &s, measured, err);
  kept = save_rest(&s, measured, st ? &second : err);
  if (!st) st = kept;
  for (int i = 0; i < count; i++) any = any || measured[i].rows;
  if (any && !run->json && !run->quiet) print_all(&s, measured);
  if (any && run->json) {
    kept = print_json(measured, count, st ? &second : err);
    if (!st) st = kept;
  }
done:
  for (int i = 0; measured && i < count; i++) kva_measured_free(&measured[i]);
  free(measured);
  free(problems);
  free(lengths);
  kva_calibration_free(&ceilings);
  return st;
}
