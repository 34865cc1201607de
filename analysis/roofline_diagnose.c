/* roofline diagnose - what an ncu csv says about a kernel. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "diagnose.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"
#include "roofline_model.h"

enum { O_CSV = 1000, O_HEADS, O_QUERIES, O_PREFIX, O_BATCH, O_JSON, O_CALIBRATION };

typedef struct options {
  const char *gpu, *csv, *calibration;
  uint64_t heads, queries, prefix, batch;
  bool json, given;
  kv_error err;
} options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  options *o = state->input;
  if (o->err.status) return 0;
  switch (key) {
    case 'g': o->gpu = arg; return 0;
    case O_CSV: o->csv = arg; return 0;
    case O_JSON: o->json = true; return 0;
    case O_CALIBRATION: o->calibration = arg; return 0;
    case O_HEADS: (void)kv_cli_count(arg, "--heads", 1, 4096, &o->heads, &o->err); return 0;
    case O_QUERIES: (void)kv_cli_count(arg, "--queries", 1, 4096, &o->queries, &o->err); return 0;
    case O_BATCH: (void)kv_cli_count(arg, "--batch", 1, 65536, &o->batch, &o->err); return 0;
    case O_PREFIX:
      o->given = true;
      (void)kv_cli_count(arg, "--prefix", 0, KVM_MAX_PREFIX, &o->prefix, &o->err);
      return 0;
    case ARGP_KEY_ARG:
      (void)kv_fail(&o->err, KV_ERR_USAGE, "'%.60s' is no option; the file goes after --csv", arg);
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option option_table[] = {
    {"csv", O_CSV, "FILE", 0, "of `ncu --csv --page raw` (best with --set full), or of `ncu --csv`", 0},
    {"gpu", 'g', "NAME", 0, "the GPU it ran on; default: as the csv names it, else the card that is here", 0},
    {"calibration", O_CALIBRATION, "FILE", 0, "as for roofline", 0},
    {"prefix", O_PREFIX, "N", 0,
     "the verify problem that the kernel solved: prefix; without it executed work counts as useful", 0},
    {"heads", O_HEADS, "N", 0, "heads (8)", 0},
    {"queries", O_QUERIES, "N", 0, "tree nodes a request (9)", 0},
    {"batch", O_BATCH, "N", 0, "requests (1)", 0},
    {"json", O_JSON, 0, 0, "JSON on stdout (schema roofline-diagnose, version 1)", 0},
    {0, 0, 0, 0, 0, 0}};

static void print_kernel(const kva_profiled *k) {
  char text[32];
  printf("%s\n", k->kernel);
  for (int m = 0; m < KVA_METRICS; m++)
    if (!isnan(k->m[m]))
      printf("  %s%-*s %s\n", m >= KVA_M_LONG && m <= KVA_M_OTHER ? "stall: " : "",
             m >= KVA_M_LONG && m <= KVA_M_OTHER ? 35 : 42, kva_metric_name((kva_metric)m),
             kva_metric_text((kva_metric)m, k->m[m], text));
  printf("  ladder us ");
  for (int i = 0; i < 8; i++)
    isnan(k->a.t[i]) ? (void)printf(" T%d -", i) : (void)printf(" T%d %.4g", i, k->a.t[i] * 1e6);
  printf("\n");
  for (int c = 0; c < KVM_CAUSES; c++) {
    const kva_cause *x = &k->a.cause[c];
    if (x->known)
      printf("  %-16s %6.2f nats (%.2f .. %.2f)%s, gain%s %.2fx\n", kvm_cause_name((kvm_cause)c), x->nats,
             x->low, x->high, x->at_least ? " or more" : "", x->at_most ? " up to" : "", x->gain);
    else printf("  %-16s not known\n", kvm_cause_name((kvm_cause)c));
  }
  if (k->missing[0]) printf("  not in the csv: %s\n", k->missing);
  printf("  %s\n\n", k->verdict);
}

static json_t *number(double v) {
  return isfinite(v) ? json_real(v) : json_null();
}

static json_t *kernel_json(const kva_profiled *k) {
  json_t *metrics = json_object(), *causes = json_object(), *ladder = json_array();
  for (int m = 0; m < KVA_METRICS; m++)
    (void)json_object_set_new(metrics, kva_metric_name((kva_metric)m), number(k->m[m]));
  for (int i = 0; i < 8; i++) (void)json_array_append_new(ladder, number(k->a.t[i]));
  for (int c = 0; c < KVM_CAUSES; c++) {
    const kva_cause *x = &k->a.cause[c];
    (void)json_object_set_new(
        causes, kvm_cause_name((kvm_cause)c),
        x->known ? json_pack("{s:o, s:b, s:o, s:o}", "nats", number(x->nats), "at_least", x->at_least, "gain",
                             number(x->gain), "gain_high", number(x->gain_high))
                 : json_null());
  }
  return json_pack("{s:s, s:o, s:o, s:o, s:s, s:s}", "kernel", k->kernel, "metrics", metrics, "ladder_s",
                   ladder, "causes", causes, "missing", k->missing, "verdict", k->verdict);
}

static kv_status print_all(const options *o, const kva_profile *p, const kvm_gpu *gpu, const char *status,
                           kv_error *err) {
  if (!o->json) {
    printf("counted by ncu; ceilings %s: %s\n\n", status, gpu->name);
    for (size_t i = 0; i < p->n; i++) print_kernel(&p->kernel[i]);
    return KV_OK;
  }
  json_t *kernels = json_array();
  for (size_t i = 0; i < p->n; i++) (void)json_array_append_new(kernels, kernel_json(&p->kernel[i]));
  json_t *root = json_pack("{s:s, s:i, s:s, s:s, s:o}", "schema", "roofline-diagnose", "schema_version", 1,
                           "gpu", gpu->key, "ceilings", status, "kernels", kernels);
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

static kv_status diagnose(const options *o, kv_error *err) {
  kva_profile p = {0};
  roofline_gpu chosen = {0};
  roofline_model model = {0};
  kvm_roofs roofs;
  kvm_timing timing;
  char described[KVA_CALIBRATION_WHY + 20] = "as described";
  if (!o->csv) return kv_fail(err, KV_ERR_USAGE, "--csv FILE is needed: what `ncu --csv --page raw` printed");
  kv_status st = kva_profile_read(o->csv, &p, err);
  const char *name = o->gpu ? o->gpu : !st && p.kernel[0].device[0] ? p.kernel[0].device : NULL;
  if (!st) st = roofline_gpu_choose(name, &chosen, err);
  if (!st) st = roofline_model_load(NULL, &model, err);
  if (!st) st = roofline_model_timing(&model, &chosen.all, chosen.gpu, o->calibration, &roofs, &timing, err);
  kvm_verify problem = kvm_verify_default(o->prefix);
  problem.heads = (uint32_t)o->heads;
  problem.queries = (uint32_t)o->queries;
  problem.batch = (uint32_t)o->batch;
  kvm_verify_uniform(&problem, o->prefix);
  if (!st) st = kvm_verify_check(&problem, err);
  for (size_t i = 0; !st && i < p.n; i++)
    kva_diagnose(&p.kernel[i], o->given ? &problem : NULL, &roofs, &timing);
  if (model.passed_over[0]) (void)snprintf(described, sizeof described, "as described (%s)", model.passed_over);
  if (!st)
    st =
        print_all(o, &p, chosen.gpu, model.calibrated.values ? model.calibrated.status : described, err);
  for (size_t i = 0; !st && i < p.n; i++)
    if (p.kernel[i].impossible[0])
      st = kv_fail(err, KV_ERR_INPUT, "%s: %.80s: %s", o->csv, p.kernel[i].kernel, p.kernel[i].impossible);
  kva_profile_free(&p);
  roofline_model_free(&model);
  roofline_gpu_free(&chosen);
  return st;
}

int roofline_diagnose(int argc, char **argv) {
  static options o = {.heads = 8, .queries = 9, .batch = 1};
  static const struct argp parser = {
      .options = option_table,
      .parser = parse_option,
      .doc =
          "What an ncu csv says about a kernel, without running it again.\vExamples:\n"
          "  ncu --set full --csv --page raw ./my-server > p.csv;  roofline diagnose --csv p.csv\n"
          "  roofline diagnose --csv p.csv --gpu h200 --prefix 131072 --heads 8\n"};
  kv_error err = {KV_OK, ""};
  (void)argp_parse(&parser, argc, argv, 0, NULL, &o);
  kv_status st = o.err.status;
  if (st) err = o.err;
  else st = diagnose(&o, &err);
  return kv_cli_exit("roofline diagnose", st, &err);
}
