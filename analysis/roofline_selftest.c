/* roofline selftest - does the tool name causes that were planted, on the GPU that is here? */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "roofline_model.h"
#include "selftest.h"

enum { O_JSON = 1000, O_CALIBRATION, O_COUNTERS, O_REPEATS, O_SEED, O_BAR };

typedef struct options {
  const char *file, *output, *calibration;
  int device;
  double bar;
  kva_planted_plan plan;
  bool json, quiet;
  kv_error err;
} options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  uint64_t n = 0;
  char *end;
  switch (key) {
    case 'o': o->output = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case O_JSON: o->json = true; return 0;
    case O_CALIBRATION: o->calibration = arg; return 0;
    case O_COUNTERS: o->plan.counters = true; return 0;
    case 'd':
      if (!kv_cli_count(arg, "--device", 0, 1023, &n, &o->err)) o->device = (int)n;
      return 0;
    case O_REPEATS:
      if (!kv_cli_count(arg, "--repeats", 3, 1000, &n, &o->err)) o->plan.repeats = (uint32_t)n;
      return 0;
    case O_SEED: (void)kv_cli_count(arg, "--seed", 0, UINT32_MAX, &o->plan.seed, &o->err); return 0;
    case O_BAR:
      o->bar = strtod(arg, &end) / 100;
      if (end == arg || (*end && strcmp(end, "%") != 0) || !(o->bar > 0))
        (void)kv_fail(&o->err, KV_ERR_USAGE, "--bar: '%.40s' is not a percentage above 0", arg);
      return 0;
    case ARGP_KEY_ARG:
      if (o->file) (void)kv_fail(&o->err, KV_ERR_USAGE, "one dataset at most; '%.60s' is one too many", arg);
      else o->file = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"device", 'd', "N", 0, "CUDA device number (0)", 0},
    {"calibration", O_CALIBRATION, "FILE", 0,
     "dataset of `roofline calibrate` of this GPU; default: that of the GPU in models/measured", 0},
    {"counters", O_COUNTERS, 0, 0, "count the executed work too, by a hardware counter pass", 0},
    {"bar", O_BAR, "PERCENT", 0, "share of ln(t / t of the control) that each cause must explain (90)", 0},
    {"repeats", O_REPEATS, "N", 0, "timed rounds (25)", 0},
    {"seed", O_SEED, "N", 0, "seed of slot lists, order of runs and intervals (1)", 0},
    {"output", 'o', "FILE", 0,
     "dataset to write (kvplanted-1; planted.h5 where measured); with FILE a copy of it with this judgement",
     0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-selftest, version 1)", 0},
    {"quiet", 'q', 0, 0, "no messages on stderr but errors", 0},
    {0, 0, 0, 0, 0, 0}};

/* ---- results ---- */

static void print_one(const kva_named *v) {
  const double *t = v->a.t;
  char share[64] = "-", gains[40] = "-";
  if (!isnan(v->share)) {
    (void)snprintf(share, sizeof share, "%.1f %% (%.1f to %.1f)", 100 * v->share, 100 * v->share_low,
                   100 * v->share_high);
    (void)snprintf(gains, sizeof gains, "%.2f / %.2f", v->gain, v->realised);
  }
  printf("%-15s %-15s %-15s %24s %13s %10.1f %10.1f %10.1f %10.1f %10.1f %10.1f %7.2f\n", v->row->kernel,
         v->row->cause[0] ? v->row->cause : "-", kva_named_cause(v), share, gains, t[0] * 1e6, t[2] * 1e6,
         t[4] * 1e6, t[5] * 1e6, t[6] * 1e6, t[7] * 1e6, v->worst);
}

/* A rung below the one before it: the ladder of that kernel is no ladder. */
static void print_fall(const kva_named *v) {
  const double *t = v->a.t;
  for (int i = 5; i < 7; i++)
    if (t[i + 1] < t[i])
      printf("%s: the ladder falls, T%d %.1f us < T%d %.1f us: %s\n", v->row->kernel, i + 1, t[i + 1] * 1e6, i,
             t[i] * 1e6,
             v->a.inconsistent && i == 5 ? "a ceiling or an experiment is wrong" : "within what repeats differ by");
}

static void print_table(const kva_planted *p, const kva_named *named, size_t n, const roofline_model *model,
                        bool given) {
  char status[320];
  printf("%s\nceilings: %s\ncalibration: %s%s\n\n", kva_bench_status(&p->origin, status, sizeof status),
         model->calibrated.source, model->calibration,
         given ? "" : " (the first of this GPU in models/measured; --calibration gives another)");
  printf("%-15s %-15s %-15s %24s %13s %10s %10s %10s %10s %10s %10s %7s\n", "kernel", "planted", "named",
         "share", "gain, real", "T0 us", "T2", "T4", "T5", "T6", "T7", "worst");
  for (size_t i = 0; i < n; i++) print_one(&named[i]);
  for (size_t i = 0; i < n; i++) print_fall(&named[i]);
  printf("planted -: nothing; controls, and kernels for the gains of more stages and splits (stages_*, few_blocks_*), "
         "which roofline validate judges\n");
  for (size_t i = 0; i < p->rows; i++) {
    const kva_plant_row *r = &p->row[i];
    if (r->experiment != KVA_PLANT_EAGER && r->experiment != KVA_PLANT_REPLICATED) continue;
    printf("%-15s %s x %u: %.1f us\n", r->kernel,
           kva_plant_experiment_name((kva_plant_experiment)r->experiment), r->copies, r->time.median * 1e6);
  }
  if (p->notes[0]) printf("notes: %s\n", p->notes);
}

static json_t *number(double v) {
  return isfinite(v) ? json_real(v) : json_null();
}

static kv_status print_json(const kva_planted *p, const kva_named *named, size_t n, const roofline_model *model,
                            kv_error *err) {
  json_t *list = json_array();
  char status[320];
  for (size_t i = 0; i < n; i++) {
    const kva_named *v = &named[i];
    json_t *ladder = json_array();
    for (int k = 0; k < 8; k++) (void)json_array_append_new(ladder, number(v->a.t[k]));
    (void)json_array_append_new(
        list, json_pack("{s:s, s:s, s:s, s:s, s:o, s:[o,o], s:o, s:o, s:o, s:o, s:s}", "kernel",
                        v->row->kernel, "control", v->row->control, "planted", v->row->cause, "named",
                        kva_named_cause(v), "share", number(v->share), "share_interval", number(v->share_low),
                        number(v->share_high), "gain", number(v->gain), "realised", number(v->realised),
                        "worst", number(v->worst), "ladder_s", ladder, "verdict", v->a.verdict));
  }
  json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:s, s:o}", "schema", "roofline-selftest", "schema_version", 1,
                           "status", kva_bench_status(&p->origin, status, sizeof status), "calibration",
                           model->calibrated.source, "calibration_file", model->calibration, "kernels", list);
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

/* ---- a run ---- */

/* The dataset that is written; NULL: none. */
static const char *output_of(const options *o) {
  return o->output ? o->output : o->file ? NULL : "planted.h5";
}

static kv_status get_planted(options *o, const char *command, kva_planted *p, kv_error *err) {
  if (o->file) return kva_planted_read(o->file, p, err);
  kv_status st = kva_planted_measure(&o->plan, o->device, p, err);
  const char *to = output_of(o);
  kv_error second;
  if (!p->rows) return st;
  kv_status written = kva_planted_write(p, to, command, st ? &second : err);
  if (!written && !o->quiet) fprintf(stderr, "roofline selftest: wrote %s\n", to);
  return st ? st : written;
}

/* The judgement goes into the dataset, beside what was measured. */
static kv_status write_judgement(const options *o, const char *command, const kva_named *named, size_t n,
                                 const roofline_model *model, kv_error *err) {
  const char *to = output_of(o), *base = strrchr(model->calibration, '/');
  char calibration[600];
  if (!to || n > KVA_MOST_PLANTED) return KV_OK;
  (void)snprintf(calibration, sizeof calibration, "%.200s, %.300s", base ? base + 1 : model->calibration,
                 model->calibrated.source);
  const kva_judgement j = {named, n, o->bar, calibration, o->file ? command : NULL};
  kv_status st = kva_planted_add(o->file ? o->file : to, to, &j, err);
  if (!st && o->file && !o->quiet) fprintf(stderr, "roofline selftest: wrote %s\n", to);
  return st;
}

static kv_status judge(options *o, const char *command, const kva_planted *p, kv_error *err) {
  kvm_gpus gpus = {0};
  roofline_model model = {0};
  kvm_roofs roofs = {0};
  kvm_timing timing = {0};
  const kvm_gpu *gpu = NULL;
  kva_calibration ceilings = {0};
  kva_named *named = calloc(KVA_MOST_PLANTED, sizeof *named);
  kv_status st = named ? roofline_gpus(&gpus, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = roofline_model_load(NULL, &model, err);
  if (!st && kvm_gpus_find(&gpus, p->origin.gpu.name, &gpu, NULL))
    st = kv_fail(err, KV_ERR_INPUT, "the GPU '%.60s' is not described: add it to models/gpus",
                 p->origin.gpu.name);
  if (!st) st = roofline_model_timing(&model, &gpus, gpu, o->calibration, &roofs, &timing, err);
  if (!st && !model.calibrated.values)
    st = kv_fail(
        err, KV_ERR_INPUT,
        "%s: causes are told against measured ceilings, and there are none of this GPU: run `roofline "
        "calibrate -o ceilings.h5`, then give --calibration ceilings.h5",
        p->origin.gpu.name);
  if (!st) st = kva_calibration_read(model.calibration, &ceilings, err);
  size_t n = st ? 0 : kva_planted_judge(p, &ceilings, &roofs, &timing, named);
  if (!st && o->json) st = print_json(p, named, n, &model, err);
  else if (!st) print_table(p, named, n, &model, o->calibration != NULL);
  if (!st) st = write_judgement(o, command, named, n, &model, err);
  if (!st) st = kva_planted_bar(named, n, o->bar, err);
  free(named);
  kva_calibration_free(&ceilings);
  roofline_model_free(&model);
  kvm_gpus_free(&gpus);
  return st;
}

static kv_status selftest(options *o, const char *command, kv_error *err) {
  kva_planted p = {0};
  kv_status st = kv_cli_not_input(output_of(o), o->calibration, "calibration", err);
  if (!st) st = kv_cli_not_input(output_of(o), o->file, "dataset that is judged", err);
  if (!st) st = get_planted(o, command, &p, err);
  if (!st) st = judge(o, command, &p, err);
  kva_planted_free(&p);
  return st;
}

int roofline_selftest(int argc, char **argv) {
  static options o = {.bar = 0.9, .plan = {.seed = 1}};
  static const struct argp parser = {
      .options = option_table,
      .parser = parse_option,
      .args_doc = "[FILE.h5]",
      .doc =
          "Small kernels with one known cause of slowness each are measured on the GPU that is here, through "
          "the "
          "same experiments and the same attribution as any kernel, and the table says whether the cause is "
          "named "
          "and how much of the slowdown it explains. With FILE an earlier run is judged again, without a "
          "GPU. `roofline report` draws what was judged.\v"
          "Exit status 1 where a cause is missed.\nExamples:\n  roofline selftest\n  roofline selftest "
          "--counters "
          "--calibration ceilings.h5 -o planted.h5\n  roofline selftest models/measured/h200-planted.h5\n"};
  kv_error err = {KV_OK, ""};
  char *command = kv_cli_command_line(argc, argv);
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = selftest(&o, command ? command : "roofline selftest", &err);
  free(command);
  return kv_cli_exit("roofline selftest", st, &err);
}
