#include "decode_step.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "columns.h"
#include "csv.h"
#include "kv_h5.h"

/* ---- the rest of the step ---- */

static kv_status take_line(const char *path, int number, const char *line, kva_step_rest *rest,
                           kv_error *err) {
  char name[64] = "";
  double ms = 0, us = 0;
  int used = 0, fields = sscanf(line, " %63s %lf%n %lf%n", name, &ms, &used, &us, &used);
  if (fields <= 0 || name[0] == '#') return KV_OK;
  while (isspace((unsigned char)line[used])) used++;
  if (fields < 2 || line[used] || !(ms >= 0) || !(us >= 0) || !isfinite(ms) || !isfinite(us))
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: not `name ms [us_per_1k_tokens]`", path, number);
  if (rest->n == KVA_MAX_COMPONENTS)
    return kv_fail(err, KV_ERR_INPUT, "%s: more than %d components", path, (int)KVA_MAX_COMPONENTS);
  kva_component *c = &rest->component[rest->n++];
  (void)snprintf(c->name, sizeof c->name, "%s", name);
  c->fixed = ms * 1e-3;
  c->per_token = us * 1e-9;
  return KV_OK;
}

/* Of an absolute path the last name: its folders are of this machine alone. */
static const char *name_of(const char *path) {
  return path[0] == '/' ? strrchr(path, '/') + 1 : path;
}

kv_status kva_step_read(const char *path, kva_step_rest *rest, kv_error *err) {
  char line[512];
  kv_status st = KV_OK;
  memset(rest, 0, sizeof *rest);
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  for (int number = 1; !st && fgets(line, sizeof line, f); number++)
    st = take_line(path, number, line, rest, err);
  if (!st && ferror(f)) st = kv_fail(err, KV_ERR_IO, "%s: cannot be read", path);
  (void)fclose(f);
  if (!st && !rest->n)
    st = kv_fail(err, KV_ERR_INPUT, "%s: no component; lines are `name ms [us_per_1k_tokens]`", path);
  (void)snprintf(rest->source, sizeof rest->source, "%.590s", name_of(path));
  return st;
}

/* ---- a profiler's summary ---- */

static bool contains(const char *text, const char *word, size_t n) {
  for (; *text; text++)
    if (!strncasecmp(text, word, n)) return true;
  return false;
}

static bool any_of(const char *text, const char *words) {
  while (*words) {
    size_t n = strcspn(words, ",");
    if (n && contains(text, words, n)) return true;
    words += n + (words[n] == ',');
  }
  return false;
}

/* Kernels of communication libraries. "comm" only where the word ends: common_attention is none. */
static bool communicates(const char *kernel) {
  static const char *const words = "nccl,nvshmem,allreduce,all_reduce,cross_device_reduce,allgather,all_gather,reduce_scatter,reducescatter,"
                                   "all2all,alltoall,all_to_all";
  if (any_of(kernel, words)) return true;
  for (const char *at = kernel; *at; at++)
    if (!strncasecmp(at, "comm", 4) && !isalpha((unsigned char)at[4])) return true;
  return false;
}

/* Words of the user's own are taken at their word. */
static bool is_attention(const char *kernel, const char *words) {
  return any_of(kernel, words) && (strcmp(words, KVA_ATTENTION_NAMES) != 0 || !communicates(kernel));
}

static kva_component *class_of(kva_step_rest *rest, const char *kernel) {
  static const char *const class_name[][2] = {
      {"moe", "moe,expert,topk,grouped_gemm"},
      {"gemm", "gemm,cutlass,cublas,nvjet,matmul,sm80_xmma,sm90_xmma,wgmma"}};
  const char *name = communicates(kernel) ? "communication" : NULL;
  for (size_t i = 0; i < sizeof class_name / sizeof *class_name && !name; i++)
    if (any_of(kernel, class_name[i][1])) name = class_name[i][0];
  if (!name) name = "other";
  for (uint32_t i = 0; i < rest->n; i++)
    if (!strcmp(rest->component[i].name, name)) return &rest->component[i];
  kva_component *c = &rest->component[rest->n++];
  (void)snprintf(c->name, sizeof c->name, "%s", name);
  return c;
}

/* s a unit of a time column, by its header. */
static double unit_of(const char *header) {
  if (contains(header, "(ns)", 4)) return 1e-9;
  if (contains(header, "(ms)", 4)) return 1e-3;
  if (contains(header, "(s)", 3)) return 1;
  return contains(header, "total time", 10) && !contains(header, "(us)", 4) ? 1e-9
                                                                            : 1e-6; /* nsys: ns; torch: us */
}

/* A step whose attention nobody found would have it twice: in the rest and by the model. */
static kv_status found_attention(const char *path, const char *words, const char *longest, double left_out, kv_error *err) {
  if (left_out > 0 || !words[0]) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT,
                 "%s: no kernel is attention by its name (%s), the longest is '%.80s': name yours with --attention, or --attention '' if the "
                 "profile has none", path, words, longest);
}

kv_status kva_step_profile(const char *path, double steps, const char *attention, kva_step_rest *rest,
                           double *left_out, kv_error *err) {
  static const char *const names[] = {"Name", "Kernel Name", "key", NULL};
  static const char *const times[] = {"Total Time (ns)",
                                      "Total Time",
                                      "Self CUDA",
                                      "Self CUDA total",
                                      "self_cuda_time_total",
                                      "self_device_time_total",
                                      "Self Device Time Total (us)",
                                      "cuda_time_total",
                                      "Total Time (us)",
                                      "Total Time (ms)",
                                      "Total Time (s)",
                                      NULL};
  kva_csv csv;
  memset(rest, 0, sizeof *rest);
  *left_out = 0;
  kv_status st = kva_csv_read(path, names, &csv, err);
  if (st) return st;
  st = kva_csv_decimal_points(&csv, path, err);
  int name = kva_csv_column(&csv, names), time = kva_csv_column(&csv, times);
  if (!st && time < 0)
    st = kv_fail(
        err, KV_ERR_INPUT,
        "%s: no column of total device time (nsys: 'Total Time (ns)'; torch: 'self_device_time_total')",
        path);
  double unit = st ? 0 : unit_of(kva_csv_cell(&csv, 0, time)), total = 0, most = 0;
  char longest[128] = "";
  for (size_t r = 1; !st && r < csv.rows; r++) {
    const char *kernel = kva_csv_cell(&csv, r, name);
    double v = kva_csv_number(kva_csv_cell(&csv, r, time)) * unit / steps;
    if (!(v >= 0))
      st = kv_fail(err, KV_ERR_INPUT, "%s: row %zu: the time of '%.60s' is no number", path, r + 1, kernel);
    else if (is_attention(kernel, attention)) *left_out += v;
    else class_of(rest, kernel)->fixed += v;
    total += st ? 0 : v;
    if (!st && v > most) most = v, (void)snprintf(longest, sizeof longest, "%s", kernel);
  }
  kva_csv_free(&csv);
  if (!st && !(total > 0)) st = kv_fail(err, KV_ERR_INPUT, "%s: no kernel took any time", path);
  if (!st) st = found_attention(path, attention, longest, *left_out, err);
  (void)snprintf(rest->source, sizeof rest->source, "%.500s, %g steps", name_of(path), steps);
  return st;
}

/* ---- sums ---- */

double kva_step_rest_time(const kva_step_rest *rest, uint64_t prefix) {
  double s = 0;
  for (uint32_t i = 0; i < rest->n; i++)
    s += rest->component[i].fixed + rest->component[i].per_token * (double)prefix;
  return s;
}

void kva_step_sum(kva_step_point *p, uint32_t layers, const kva_step_rest *rest, double accepted) {
  double other = kva_step_rest_time(rest, p->prefix);
  p->step = layers * p->attention + other;
  p->step_low = layers * p->low + other;
  p->step_high = layers * p->high + other;
  p->tokens = accepted / p->step;
  p->tokens_low = accepted / p->step_high;
  p->tokens_high = accepted / p->step_low;
  p->share = layers * p->attention / p->step;
  p->best = layers * p->floor + other;
}

/* ---- the dataset ---- */

#define GET(f, expression) KVA_REAL(f, kva_step_point, p, expression)
GET(g_prefix, (double)p->prefix)
GET(g_attention, p->attention)
GET(g_low, p->low)
GET(g_high, p->high)
GET(g_floor, p->floor)
GET(g_step, p->step)
GET(g_step_low, p->step_low)
GET(g_step_high, p->step_high)
GET(g_tokens, p->tokens)
GET(g_tokens_low, p->tokens_low)
GET(g_tokens_high, p->tokens_high)
GET(g_share, p->share)
GET(g_best, p->best)
KVA_WORD(g_kernel, kva_step_point, p, p->kernel)
KVA_WORD(g_program, kva_step_point, p, p->program)

static kv_status write_points(const kva_step_point *point, uint64_t n, hid_t file, kv_error *err) {
  static const kva_word_column word[] = {{"kernel", "Attention kernel", g_kernel},
                                         {"program", "Program that the times were made of", g_program}};
  static const kva_real_column real[] = {{"prefix", "token", "Prefix", g_prefix},
                                         {"attention", "s", "Verify attention of one layer", g_attention},
                                         {"attention_low", "s", "Verify attention of one layer, lower end", g_low},
                                         {"attention_high", "s", "Verify attention of one layer, upper end", g_high},
                                         {"floor", "s", "Floor of one layer's attention, T0", g_floor},
                                         {"step", "s", "Decode step", g_step},
                                         {"step_low", "s", "Decode step, lower end", g_step_low},
                                         {"step_high", "s", "Decode step, upper end", g_step_high},
                                         {"tokens", "1/s", "Accepted tokens a second", g_tokens},
                                         {"tokens_low", "1/s", "Accepted tokens a second, lower end", g_tokens_low},
                                         {"tokens_high", "1/s", "Accepted tokens a second, upper end", g_tokens_high},
                                         {"attention_share", "1", "Share of attention in the step", g_share},
                                         {"step_at_floor", "s", "Decode step with attention at its floor", g_best}};
  kv_status st = kva_write_words(file, "points", word, sizeof word / sizeof *word, n, point, err);
  return st ? st : kva_write_reals(file, "points", real, sizeof real / sizeof *real, n, point, err);
}

KVA_WORD(c_name, kva_component, c, c->name)
KVA_REAL(c_fixed, kva_component, c, c->fixed)
KVA_REAL(c_per_token, kva_component, c, c->per_token)

static kv_status write_components(const kva_step_rest *rest, hid_t file, kv_error *err) {
  static const kva_word_column word = {"name", "Rest of the step", c_name};
  static const kva_real_column real[] = {{"fixed", "s", "Time a step whatever the context", c_fixed},
                                         {"per_token", "s", "Time a step and token of context", c_per_token}};
  kv_status st = kva_write_words(file, "components", &word, 1, rest->n, rest->component, err);
  return st ? st : kva_write_reals(file, "components", real, sizeof real / sizeof *real, rest->n, rest->component, err);
}

kv_status kva_step_write(const kva_step_point *point, uint64_t n, const kva_step_rest *rest,
                         const kva_step_labels *labels, const char *path, const char *command,
                         kv_error *err) {
  kv_h5_out out = {.file = -1};
  kv_status st = kv_h5_create(path, "kvstep-1", "roofline", command, &out, err);
  if (st) return st;
  st = kv_h5_put_str(out.file, "gpu", labels->gpu, err);
  if (!st) st = kv_h5_put_str(out.file, "status", labels->status, err);
  if (!st)
    st = kv_h5_put_str(out.file, "calibration", labels->calibration && *labels->calibration ? labels->calibration : "none", err);
  if (!st) st = kv_h5_put_str(out.file, "rest_source", rest->source, err);
  if (!st) st = kv_h5_put_str(out.file, "default", "points", err);
  if (!st) st = kv_h5_put_i64(out.file, "layers", labels->layers, err);
  if (!st) st = kv_h5_put_f64(out.file, "accepted", labels->accepted, err);
  if (!st) st = write_components(rest, out.file, err);
  if (!st) st = write_points(point, n, out.file, err);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
