#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"

/* ---- one file ---- */

enum {
  C_KERNEL,
  C_LAYOUT,
  C_PREFIX,
  C_HEADS,
  C_QUERIES,
  C_BATCH,
  C_MEASURED,
  C_LOW,
  C_HIGH,
  C_TIME,
  C_TIME_LOW,
  C_TIME_HIGH,
  C_COLUMNS
};
static const char *const names[C_COLUMNS] = {"points/kernel",   "points/layout",       "points/prefix",
                                             "points/heads",    "points/queries",      "points/batch",
                                             "points/measured", "points/measured_low", "points/measured_high",
                                             "points/time",     "points/time_low",     "points/time_high"};

typedef struct side {
  const char *path;
  uint64_t n, kernels, layouts;
  double *v[C_COLUMNS];
  char *kernel, *layout, *program; /* program NULL: of an older or measured file */
  size_t kernel_width, layout_width, program_width;
  char model[700]; /* GPU, status and calibration: whose modelled times err alike */
} side;

static void free_side(side *s) {
  for (int c = 0; c < C_COLUMNS; c++) free(s->v[c]);
  free(s->kernel);
  free(s->layout);
  free(s->program);
}

/* Columns that older files lack: no interval. */
static kv_status optional(hid_t file, side *s, int c, kv_error *err) {
  if (H5Lexists(file, names[c], H5P_DEFAULT) > 0)
    return kva_reals(file, s->path, names[c], &s->n, &s->v[c], err);
  s->v[c] = malloc((size_t)(s->n + 1) * sizeof *s->v[c]);
  if (!s->v[c]) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (uint64_t i = 0; i < s->n; i++) s->v[c][i] = NAN;
  return KV_OK;
}

/* Older files held a lower bound in `time` where the ladder has no T7: that is no time to compare. */
static kv_status drop_bounds(hid_t file, side *s, kv_error *err) {
  double *t7 = NULL;
  if (H5Lexists(file, "points/t7", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kva_reals(file, s->path, "points/t7", &s->n, &t7, err);
  for (uint64_t i = 0; !st && i < s->n; i++)
    if (isnan(t7[i])) s->v[C_TIME][i] = NAN;
  free(t7);
  return st;
}

static kv_status read_programs(hid_t file, side *s, kv_error *err) {
  uint64_t n = 0;
  if (H5Lexists(file, "kernels/program", H5P_DEFAULT) <= 0) return KV_OK;
  kv_status st = kva_words(file, s->path, "kernels/program", &n, &s->program, &s->program_width, err);
  if (!st && n != s->kernels)
    st = kv_fail(err, KV_ERR_INPUT, "%s: /kernels/program has another length than /kernels/name", s->path);
  return st;
}

static kv_status check(const side *s, kv_error *err) {
  for (uint64_t i = 0; i < s->n; i++)
    if (!(s->v[C_KERNEL][i] >= 0 && s->v[C_KERNEL][i] < (double)s->kernels) ||
        !(s->v[C_LAYOUT][i] >= 0 && s->v[C_LAYOUT][i] < (double)s->layouts))
      return kv_fail(err, KV_ERR_INPUT, "%s: /points row %llu names a kernel or layout that is not there",
                     s->path, (unsigned long long)i);
  return KV_OK;
}

/* Which card it was, and whether others ran beside it; older files do not say. */
static void add_device(hid_t file, char status[256]) {
  int64_t device = -1, together = 1;
  size_t used = strlen(status);
  if (kv_h5_get_i64(file, "device", &device, NULL) != KV_OK) return;
  (void)kv_h5_get_i64(file, "devices_at_once", &together, NULL);
  used += (size_t)snprintf(status + used, 256 - used, ", device %lld", (long long)device);
  if (together > 1 && used < 256)
    (void)snprintf(status + used, 256 - used, ", one of %lld at once", (long long)together);
}

static void name_model(hid_t file, const char *gpu, const char *status, side *s) {
  char calibration[256] = "";
  (void)kv_h5_get_str(file, "calibration", calibration, sizeof calibration, NULL);
  (void)snprintf(s->model, sizeof s->model, "%s; %s; %s", gpu, status, calibration);
}

static kv_status read_side(const char *path, side *s, char gpu[128], char status[256], kv_error *err) {
  hid_t file;
  s->path = path;
  kv_status st = kva_open(path, "roofline-1", &file, err);
  if (st) return st;
  (void)kv_h5_get_str(file, "gpu_name", gpu, 128, NULL);
  (void)kv_h5_get_str(file, "status", status, 256, NULL);
  name_model(file, gpu, status, s);
  add_device(file, status);
  s->n = KVA_ANY_LENGTH;
  for (int c = 0; !st && c < C_TIME_LOW; c++) st = kva_reals(file, path, names[c], &s->n, &s->v[c], err);
  for (int c = C_TIME_LOW; !st && c < C_COLUMNS; c++) st = optional(file, s, c, err);
  if (!st) st = drop_bounds(file, s, err);
  if (!st) st = kva_words(file, path, "kernels/name", &s->kernels, &s->kernel, &s->kernel_width, err);
  if (!st) st = read_programs(file, s, err);
  if (!st) st = kva_words(file, path, "layouts/name", &s->layouts, &s->layout, &s->layout_width, err);
  if (!st) st = check(s, err);
  (void)H5Fclose(file);
  return st;
}

static const char *kernel_of(const side *s, uint64_t i) {
  return s->kernel + (size_t)s->v[C_KERNEL][i] * s->kernel_width;
}
static const char *layout_of(const side *s, uint64_t i) {
  return s->layout + (size_t)s->v[C_LAYOUT][i] * s->layout_width;
}

/* ---- pairs ---- */

static bool same(const side *a, uint64_t i, const side *b, uint64_t k) {
  for (int c = C_PREFIX; c <= C_BATCH; c++)
    if (a->v[c][i] != b->v[c][k]) return false;
  return !strcmp(kernel_of(a, i), kernel_of(b, k)) && !strcmp(layout_of(a, i), layout_of(b, k));
}

/* Time of a point and its interval, of the kind asked for. */
static bool time_of(const side *s, uint64_t i, bool measured, double t[3]) {
  int c = measured ? C_MEASURED : C_TIME;
  for (int k = 0; k < 3; k++) t[k] = s->v[c + k][i];
  if (!(t[1] > 0)) t[1] = t[0];
  if (!(t[2] > 0)) t[2] = t[0];
  return t[0] > 0 && isfinite(t[0]);
}

static void put_program(const side *s, uint64_t i, char to[160]) {
  if (s->program) (void)snprintf(to, 160, "%.159s", s->program + (size_t)s->v[C_KERNEL][i] * s->program_width);
}

/* The compiler in "NAME, nvcc's machine code for sm_90", and its length. */
static const char *compiler_of(const char *program, size_t *n) {
  const char *from = strchr(program, ','), *to = from ? strstr(from, "machine code") : NULL;
  *n = to ? (size_t)(to - from) : 0;
  return from;
}

/* NAME or NAME_..., as the files of a kernel's programs are called. */
static bool is_of(const char *program, const char *kernel) {
  size_t n = strlen(kernel);
  return !strncmp(program, kernel, n) && (program[n] == '_' || program[n] == ',');
}

static bool two_programs(const kva_pair *p) {
  const char *x = p->program[0], *y = p->program[1];
  size_t n, k;
  if (!x[0] || !y[0] || !strcmp(x, y)) return false;
  const char *by = compiler_of(x, &n), *than = compiler_of(y, &k);
  return !is_of(x, p->kernel) || !is_of(y, p->kernel) || !n || n != k || strncmp(by, than, n) != 0;
}

static bool make_pair(const side *a, uint64_t i, const side *b, uint64_t k, kva_pair *p) {
  double x[3], y[3];
  memset(p, 0, sizeof *p);
  p->measured = time_of(a, i, true, x) && time_of(b, k, true, y);
  if (!p->measured && (!time_of(a, i, false, x) || !time_of(b, k, false, y))) return false;
  (void)snprintf(p->kernel, sizeof p->kernel, "%.63s", kernel_of(a, i));
  (void)snprintf(p->layout, sizeof p->layout, "%.127s", layout_of(a, i));
  if (!p->measured) {
    put_program(a, i, p->program[0]);
    put_program(b, k, p->program[1]);
  }
  p->prefix = (uint64_t)a->v[C_PREFIX][i];
  p->heads = (uint32_t)a->v[C_HEADS][i];
  p->queries = (uint32_t)a->v[C_QUERIES][i];
  p->batch = (uint32_t)a->v[C_BATCH][i];
  p->before = x[0];
  p->after = y[0];
  p->ratio = y[0] / x[0];
  p->common = !p->measured && !strcmp(a->model, b->model);
  p->low = p->common ? p->ratio : y[1] / x[2];
  p->high = p->common ? p->ratio : y[2] / x[1];
  p->two_programs = two_programs(p);
  p->verdict = p->two_programs ? 0 : p->low > 1 ? 1 : p->high < 1 ? -1 : 0;
  return true;
}

static void add_up(kva_comparison *c) {
  double logs = 0;
  c->worst = NAN;
  for (size_t i = 0; i < c->n; i++) {
    const kva_pair *p = &c->pair[i];
    c->apart += p->two_programs;
    if (p->two_programs) continue;
    logs += log(p->ratio);
    c->slower += p->verdict > 0;
    c->faster += p->verdict < 0;
    c->undecided += p->verdict == 0;
    if (p->verdict > 0 && !(p->ratio <= c->worst)) c->worst = p->ratio;
  }
  c->mean = c->apart < c->n ? exp(logs / (double)(c->n - c->apart)) : NAN;
}

static kv_status pair_up(const side *a, const side *b, kva_comparison *c, kv_error *err) {
  bool *taken = calloc((size_t)b->n + 1, sizeof *taken);
  c->pair = calloc((size_t)a->n + 1, sizeof *c->pair);
  if (!taken || !c->pair) {
    free(taken);
    return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  }
  for (uint64_t i = 0; i < a->n; i++) {
    uint64_t k = 0;
    while (k < b->n && (taken[k] || !same(a, i, b, k))) k++;
    if (k < b->n && make_pair(a, i, b, k, &c->pair[c->n])) {
      taken[k] = true;
      c->n++;
    } else c->only[0]++;
  }
  for (uint64_t k = 0; k < b->n; k++) c->only[1] += !taken[k];
  free(taken);
  if (!c->n)
    return kv_fail(
        err, KV_ERR_INPUT,
        "%s and %s have no point in common (kernel, layout, prefix, heads, queries, batch, kind of time)",
        a->path, b->path);
  add_up(c);
  return KV_OK;
}

kv_status kva_compare(const char *before, const char *after, kva_comparison *c, kv_error *err) {
  side a = {0}, b = {0};
  memset(c, 0, sizeof *c);
  kv_status st = read_side(before, &a, c->gpu[0], c->status[0], err);
  if (!st) st = read_side(after, &b, c->gpu[1], c->status[1], err);
  if (!st) st = pair_up(&a, &b, c, err);
  free_side(&a);
  free_side(&b);
  if (st) kva_compare_free(c);
  return st;
}

void kva_compare_free(kva_comparison *c) {
  free(c->pair);
  memset(c, 0, sizeof *c);
}

/* ---- the dataset ---- */

#define GET(f, expression) KVA_REAL(f, kva_pair, p, expression)
GET(g_prefix, (double)p->prefix)
GET(g_heads, p->heads)
GET(g_queries, p->queries)
GET(g_batch, p->batch)
GET(g_measured, p->measured)
GET(g_before, p->before)
GET(g_after, p->after)
GET(g_ratio, p->ratio)
GET(g_low, p->low)
GET(g_high, p->high)
GET(g_verdict, p->two_programs ? (double)NAN : (double)p->verdict)
KVA_WORD(g_kernel, kva_pair, p, p->kernel)
KVA_WORD(g_layout, kva_pair, p, p->layout)

static kv_status write_points(const kva_comparison *c, hid_t file, kv_error *err) {
  static const kva_word_column word[] = {{"kernel", "Kernel", g_kernel}, {"layout", "Where the rows lie", g_layout}};
  static const kva_real_column real[] = {{"prefix", "token", "Prefix", g_prefix},
                                         {"heads", "1", "Heads", g_heads},
                                         {"queries", "1", "Tree nodes", g_queries},
                                         {"batch", "1", "Requests", g_batch},
                                         {"measured", "1", "1 measured, 0 modelled", g_measured},
                                         {"before", "s", "Time before", g_before},
                                         {"after", "s", "Time after", g_after},
                                         {"ratio", "1", "After over before", g_ratio},
                                         {"ratio_low", "1", "After over before, lower end", g_low},
                                         {"ratio_high", "1", "After over before, upper end", g_high},
                                         {"verdict", "1", "1 slower, 0 undecided, -1 faster; NaN: two programs", g_verdict}};
  kv_status st = kva_write_words(file, "points", word, sizeof word / sizeof *word, c->n, c->pair, err);
  return st ? st : kva_write_reals(file, "points", real, sizeof real / sizeof *real, c->n, c->pair, err);
}

kv_status kva_compare_write(const kva_comparison *c, const char *path, const char *command, kv_error *err) {
  kv_h5_out out = {.file = -1};
  kv_status st = kv_h5_create(path, "kvcompare-1", "roofline", command, &out, err);
  if (st) return st;
  st = kv_h5_put_str(out.file, "gpu_before", c->gpu[0], err);
  if (!st) st = kv_h5_put_str(out.file, "gpu_after", c->gpu[1], err);
  if (!st) st = kv_h5_put_str(out.file, "status_before", c->status[0], err);
  if (!st) st = kv_h5_put_str(out.file, "status_after", c->status[1], err);
  if (!st) st = kv_h5_put_f64(out.file, "mean_ratio", c->mean, err);
  if (!st) st = kv_h5_put_str(out.file, "default", "points", err);
  if (!st) st = write_points(c, out.file, err);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
