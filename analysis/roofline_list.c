/* roofline list - the GPUs described, or one description value by value. */
#include <argp.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "roofline_commands.h"
#include "roofline_gpu.h"

typedef struct list_options {
  const char *name;
  bool json, many;
} list_options;

static error_t parse_option(int key, char *arg, struct argp_state *state) {
  list_options *o = state->input;
  switch (key) {
    case 'j': o->json = true; return 0;
    case ARGP_KEY_ARG:
      o->many = o->name != NULL;
      o->name = arg;
      return 0;
    default: return ARGP_ERR_UNKNOWN;
  }
}

static size_t unknown_values(const kvm_gpu *g) {
  size_t n = 0;
  for (size_t i = 0; i < g->values; i++) n += g->value[i].kind == KVM_UNKNOWN;
  return n;
}

static const char *cell(double v, double unit, char text[32]) {
  if (isnan(v)) return "-";
  (void)snprintf(text, 32, "%.4g", v / unit);
  return text;
}

static void print_row(const kvm_gpu *g) {
  char sms[32], bandwidth[32], bf16[32], l2[32], shared[32];
  printf("%-30s %-7s %5s %9s %9s %7s %9s %8zu  %s\n", g->key, g->arch,
         cell(kvm_gpu_number(g, "sm_count"), 1, sms), cell(kvm_gpu_number(g, "dram_bw_spec"), 1e9, bandwidth),
         cell(kvm_gpu_number(g, "bf16_dense_fp32acc"), 1e12, bf16),
         cell(kvm_gpu_number(g, "l2_bytes"), 1048576, l2),
         cell(kvm_gpu_number(g, "smem_per_sm"), 1024, shared), unknown_values(g), g->name);
}

static void print_all(const kvm_gpus *gpus) {
  printf("%-30s %-7s %5s %9s %9s %7s %9s %8s  %s\n", "key", "arch", "SMs", "GB/s", "bf16 TF/s", "L2 MiB",
         "shared KiB", "missing", "name");
  for (size_t i = 0; i < gpus->n; i++) print_row(&gpus->gpu[i]);
  printf(
      "\nGB/s and TF/s are the makers'; `-` and `missing`: no source found. `roofline list NAME` gives every "
      "value with its "
      "source.\n");
}

static void print_one(const kvm_gpu *g) {
  printf("%s (%s, %s)\nalso called:", g->name, g->key, g->arch);
  for (size_t i = 0; i < g->aliases; i++) printf("%s %s", i ? "," : "", g->alias[i]);
  printf("\n\n%-28s %16s %-12s %-18s %s\n", "value", "", "unit", "kind", "source");
  for (size_t i = 0; i < g->values; i++) {
    const kvm_value *v = &g->value[i];
    printf("%-28s %16s %-12s %-18s %s\n", v->name, v->text[0] ? v->text : "missing", v->unit,
           kvm_kind_words(v->kind, v->source), v->source);
  }
}

static json_t *value_json(const kvm_value *v) {
  json_t *value = v->numeric ? json_real(v->number) : v->text[0] ? json_string(v->text) : json_null();
  json_t *o = json_pack("{s:o, s:s, s:s, s:s, s:s}", "value", value, "text", v->text, "unit", v->unit, "kind",
                        kvm_kind_words(v->kind, v->source), "source", v->source);
  if (v->ranged) (void)json_object_set_new(o, "range", json_pack("[f, f]", v->low, v->high));
  return o;
}

static json_t *gpu_json(const kvm_gpu *g) {
  json_t *values = json_object(), *aliases = json_array();
  for (size_t i = 0; i < g->aliases; i++) (void)json_array_append_new(aliases, json_string(g->alias[i]));
  for (size_t i = 0; i < g->values; i++)
    (void)json_object_set_new(values, g->value[i].name, value_json(&g->value[i]));
  return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o}", "key", g->key, "name", g->name, "arch", g->arch,
                   "arch_default", g->arch_default, "aliases", aliases, "values", values);
}

/* `value` is in base units (B/s, FLOP/s, Hz, s), `text` as described in `unit`. */
static kv_status print_json(const kvm_gpus *gpus, const kvm_gpu *one, kv_error *err) {
  json_t *array = json_array();
  for (size_t i = 0; i < gpus->n; i++)
    if (!one || one == &gpus->gpu[i]) (void)json_array_append_new(array, gpu_json(&gpus->gpu[i]));
  json_t *root = json_pack("{s:s, s:i, s:o}", "schema", "roofline-list", "schema_version", 1, "gpus", array);
  if (!root) return kv_fail(err, KV_ERR_INPUT, "a description holds text that is not UTF-8");
  (void)json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}

static kv_status list(const list_options *o, kv_error *err) {
  roofline_gpu one = {0};
  kv_status st = KV_OK;
  if (o->many) return kv_fail(err, KV_ERR_USAGE, "one name at most (quote names with blanks)");
  st = o->name ? roofline_gpu_choose(o->name, &one, err) : roofline_gpus(&one.all, err);
  if (!st && o->json) st = print_json(&one.all, one.gpu, err);
  else if (!st && one.gpu) print_one(one.gpu);
  else if (!st) print_all(&one.all);
  roofline_gpu_free(&one);
  return st;
}

int roofline_list(int argc, char **argv) {
  static const struct argp_option table[] = {{"json", 'j', 0, 0, "JSON on stdout", 0}, {0, 0, 0, 0, 0, 0}};
  static const struct argp parser = {
      .options = table,
      .parser = parse_option,
      .args_doc = "[NAME]",
      .doc =
          "The GPUs that are described, or every value of one with its unit, kind and "
          "source.\vExample:\n  roofline list h200"};
  list_options o = {0};
  kv_error err = {KV_OK, ""};
  if (argp_parse(&parser, argc, argv, 0, NULL, &o)) return kv_exit_status(KV_ERR_USAGE);
  return kv_cli_exit("roofline list", list(&o, &err), &err);
}
