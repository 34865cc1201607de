/* kvsim diff: where two traces, or two datasets, differ. */
#include <argp.h>
#include <hdf5.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "kv_guard.h"
#include "kv_h5.h"
#include "kvsim_commands.h"
#include "kvsim_gpu.h"
#include "kvsim_options.h"
#include "trace.h"

#define LINES 64u

typedef struct arguments {
  const char *path[2], *tolerance;
  unsigned paths;
  kvsim_shared shared;
} arguments;

static const struct argp_option options[] = {
    {"tolerance", 't', "SHARE", 0, "datasets: numbers with a fraction may differ by so much of the larger one (default 0)", 0},
    KVSIM_OPTION_JSON("kvsim-diff-1", 0),
    KVSIM_OPTION_QUIET("print nothing: the exit status tells", 0),
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  arguments *a = state->input;
  switch (key) {
    case 't': a->tolerance = arg; break;
    case ARGP_KEY_ARG:
      if (a->paths == 2) argp_error(state, "two files at a time");
      a->path[a->paths++] = arg;
      break;
    case ARGP_KEY_END:
      if (a->paths < 2) argp_error(state, "name two files");
      break;
    default: return kvsim_take_shared(&a->shared, key, arg);
  }
  return 0;
}

/* What differs; in shared memory, since datasets are compared in a watched child. */
typedef struct findings {
  uint64_t differences, compared; /* places */
  uint32_t lines;
  char line[LINES][256];
  char kind[2][64]; /* Conventions */
} findings;

static void found(findings *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void found(findings *f, const char *format, ...) {
  va_list args;
  f->differences++;
  if (f->lines == LINES) return;
  va_start(args, format);
  (void)vsnprintf(f->line[f->lines++], sizeof f->line[0], format, args);
  va_end(args);
}

/* ---- traces ---- */

typedef struct cursor {
  kvt_reader *reader;
  kvt_info info;
  kvt_batch batch;
  uint32_t event, slot, step;
  bool ended;
} cursor;

static kv_status next_event(cursor *c, kvt_event *e, kvt_step *row, kv_error *err) {
  while (!c->ended && c->event == c->batch.events) {
    kv_status st = kvt_reader_next(c->reader, &c->batch, err);
    c->event = c->slot = c->step = 0;
    c->ended = st == KV_END;
    if (c->ended) c->batch.events = 0;
    if (st && st != KV_END) return st;
  }
  if (c->ended) return KV_END;
  *e = kvt_batch_event(&c->batch, c->event++, c->slot);
  c->slot += e->count;
  if (e->kind == KVT_STEP) *row = c->batch.step_rows[c->step++];
  return KV_OK;
}

static void compare_heads(const kvt_info *a, const kvt_info *b, findings *f) {
  if (a->allocator != b->allocator) found(f, "allocator: %s, %s", kvt_allocator_name(a->allocator), kvt_allocator_name(b->allocator));
  const struct {
    const char *name;
    uint64_t a, b;
  } n[] = {{"pool_size", a->pool_size, b->pool_size}, {"page_size", a->page_size, b->page_size}, {"events", a->events, b->events},
           {"slots", a->slots, b->slots}, {"steps", a->steps, b->steps}, {"requests", a->requests, b->requests},
           {"initial/free_list", a->initial_free, b->initial_free}, {"final/free_list", a->final_free, b->final_free},
           {"final/release_list", a->final_release, b->final_release}};
  for (size_t i = 0; i < sizeof n / sizeof *n; i++, f->compared++)
    if (n[i].a != n[i].b) found(f, "%s: %llu, %llu", n[i].name, (unsigned long long)n[i].a, (unsigned long long)n[i].b);
}

static void describe(const kvt_event *e, char *out, size_t size) {
  int n = snprintf(out, size, "%s step %u request %d position %d length %d aux %d, %u slots", kvt_kind_name(e->kind), e->step, e->request,
                   e->position, e->length, e->aux, e->count);
  for (uint32_t i = 0; i < e->count && i < 4 && n > 0 && (size_t)n < size; i++)
    n += snprintf(out + n, size - (size_t)n, "%s%d", i ? " " : ": ", e->slots[i]);
}

static void compare_events(uint64_t number, const kvt_event *a, const kvt_event *b, findings *f) {
  char x[120], y[120];
  f->compared++;
  bool head = a->kind == b->kind && a->step == b->step && a->request == b->request && a->position == b->position &&
              a->length == b->length && a->aux == b->aux && a->count == b->count;
  if (head && (!a->count || !memcmp(a->slots, b->slots, a->count * sizeof *a->slots))) return;
  uint32_t i = 0;
  while (head && i < a->count && a->slots[i] == b->slots[i]) i++;
  describe(a, x, sizeof x);
  describe(b, y, sizeof y);
  if (head)
    found(f, "event %llu (%s, step %u, request %d): slot %u of %u is %d, %d", (unsigned long long)number, kvt_kind_name(a->kind),
          a->step, a->request, i, a->count, a->slots[i], b->slots[i]);
  else
    found(f, "event %llu: %s | %s", (unsigned long long)number, x, y);
}

static void compare_steps(uint32_t step, const kvt_step *a, const kvt_step *b, findings *f) {
  if (memcmp(&a->time_us, &b->time_us, sizeof a->time_us) == 0 && a->requests == b->requests && a->tokens == b->tokens &&
      a->available == b->available && a->evictable == b->evictable && a->protected_ == b->protected_ && a->waiting == b->waiting)
    return;
  found(f, "step %u: time %lld, %lld us; available %d, %d; requests %d, %d", step, (long long)a->time_us, (long long)b->time_us,
        a->available, b->available, a->requests, b->requests);
}

static kv_status compare_list(const arguments *a, const char *name, uint64_t n, findings *f, kv_error *err) {
  int32_t *x = malloc(n * sizeof *x + 1), *y = malloc(n * sizeof *y + 1);
  kv_status st = x && y ? kvt_read_list(a->path[0], name, n, x, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = kvt_read_list(a->path[1], name, n, y, err);
  for (uint64_t i = 0; i < n && !st; i++) {
    f->compared++;
    if (x[i] != y[i]) found(f, "%s[%llu]: %d, %d", name, (unsigned long long)i, x[i], y[i]);
  }
  free(x);
  free(y);
  return st;
}

static kv_status compare_traces(const arguments *a, findings *f, kv_error *err) {
  cursor c[2] = {{0}};
  kvt_event e[2];
  kvt_step row[2];
  uint64_t number = 0;
  kv_status st = KV_OK, s[2] = {KV_OK, KV_OK};
  for (int i = 0; i < 2 && !st; i++) st = kvt_reader_open(a->path[i], &c[i].reader, &c[i].info, err);
  if (!st) compare_heads(&c[0].info, &c[1].info, f);
  while (!st) {
    for (int i = 0; i < 2 && !st; i++)
      if ((s[i] = next_event(&c[i], &e[i], &row[i], err)) && s[i] != KV_END) st = s[i];
    if (st || s[0] || s[1]) break;
    compare_events(number++, &e[0], &e[1], f);
    if (e[0].kind == KVT_STEP && e[1].kind == KVT_STEP) compare_steps(e[0].step, &row[0], &row[1], f);
  }
  for (int i = 0; i < 2; i++) kvt_reader_close(c[i].reader);
  const kvt_info *x = &c[0].info, *y = &c[1].info;
  if (!st && x->initial_free == y->initial_free) st = compare_list(a, "initial/free_list", x->initial_free, f, err);
  if (!st && x->final_free == y->final_free) st = compare_list(a, "final/free_list", x->final_free, f, err);
  if (!st && x->final_release == y->final_release) st = compare_list(a, "final/release_list", x->final_release, f, err);
  return st;
}

/* ---- datasets ---- */

/* They tell when and where a file was made, not what is in it. */
static const char *const volatile_names[] = {"file_time", "host", "history", "creator_version", "HDF5_Version", "REFERENCE_LIST",
                                             "DIMENSION_LIST"};

static bool is_volatile(const char *name) {
  for (size_t i = 0; i < sizeof volatile_names / sizeof *volatile_names; i++)
    if (!strcmp(name, volatile_names[i])) return true;
  return false;
}

typedef struct pair {
  hid_t file[2];
  double tolerance;
  findings *f;
  kv_guard *guard;
  bool reverse; /* only look for what the second file has more */
} pair;

static bool near(double a, double b, double tolerance) {
  if (a == b || (isnan(a) && isnan(b))) return true;
  return fabs(a - b) <= tolerance * fmax(fabs(a), fabs(b));
}

typedef struct values {
  void *data;
  size_t element;
  hssize_t n;
  H5T_class_t class;
} values;

static bool take(hid_t object, bool attribute, values *v) {
  hid_t space = attribute ? H5Aget_space(object) : H5Dget_space(object), stored = attribute ? H5Aget_type(object) : H5Dget_type(object);
  hid_t type = H5Tget_native_type(stored, H5T_DIR_ASCEND);
  *v = (values){.element = H5Tget_size(type), .n = H5Sget_simple_extent_npoints(space), .class = H5Tget_class(type)};
  bool plain = v->class == H5T_INTEGER || v->class == H5T_FLOAT || (v->class == H5T_STRING && H5Tis_variable_str(type) <= 0);
  if (plain && v->n >= 0 && (v->data = malloc((size_t)v->n * v->element + 1)))
    plain = (attribute ? H5Aread(object, type, v->data) : H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, v->data)) >= 0;
  (void)H5Tclose(type);
  (void)H5Tclose(stored);
  (void)H5Sclose(space);
  return plain && v->data;
}

static void compare_values(pair *p, const char *name, const values *a, const values *b) {
  p->f->compared++;
  if (a->n != b->n) {
    found(p->f, "%s: %lld elements, %lld", name, (long long)a->n, (long long)b->n);
    return;
  }
  if (a->class != b->class || (a->element != b->element && a->class != H5T_STRING)) {
    found(p->f, "%s: of another type", name);
    return;
  }
  uint64_t differ = 0;
  hssize_t first = -1;
  bool real = a->class == H5T_FLOAT && a->element == sizeof(double);
  for (hssize_t i = 0; i < a->n; i++) {
    const char *x = (const char *)a->data + (size_t)i * a->element, *y = (const char *)b->data + (size_t)i * b->element;
    bool same = real                       ? near(((const double *)a->data)[i], ((const double *)b->data)[i], p->tolerance)
                : a->class == H5T_STRING ? !strncmp(x, y, a->element < b->element ? a->element : b->element)
                                         : !memcmp(x, y, a->element);
    if (!same && first < 0) first = i;
    differ += !same;
  }
  if (!differ) return;
  if (real)
    found(p->f, "%s: %llu of %lld elements differ, first [%lld]: %.17g, %.17g", name, (unsigned long long)differ, (long long)a->n,
          (long long)first, ((const double *)a->data)[first], ((const double *)b->data)[first]);
  else
    found(p->f, "%s: %llu of %lld elements differ, first [%lld]", name, (unsigned long long)differ, (long long)a->n, (long long)first);
}

static void compare_pair(pair *p, const char *name, hid_t a, hid_t b, bool attribute) {
  values x = {0}, y = {0};
  bool ok = take(a, attribute, &x);
  ok = take(b, attribute, &y) && ok;
  if (ok) compare_values(p, name, &x, &y);
  free(x.data);
  free(y.data);
}

typedef struct place {
  pair *p;
  hid_t a, b;
  const char *name;
} place;

static herr_t on_attribute(hid_t loc, const char *name, const H5A_info_t *info, void *arg) {
  place *at = arg;
  char full[256];
  (void)loc, (void)info;
  if (is_volatile(name)) return 0;
  (void)snprintf(full, sizeof full, "%s@%s", at->name, name);
  if (H5Aexists(at->b, name) <= 0) {
    found(at->p->f, "%s: only in %s", full, at->p->reverse ? "the second" : "the first");
    return 0;
  }
  if (at->p->reverse) return 0;
  hid_t x = H5Aopen(at->a, name, H5P_DEFAULT), y = H5Aopen(at->b, name, H5P_DEFAULT);
  compare_pair(at->p, full, x, y, true);
  (void)H5Aclose(x);
  (void)H5Aclose(y);
  return 0;
}

static herr_t on_object(hid_t root, const char *name, const H5O_info_t *info, void *arg) {
  pair *p = arg;
  int first = p->reverse, second = !first;
  (void)root;
  kv_guard_alive(p->guard);
  if (strcmp(name, ".") && H5Lexists(p->file[second], name, H5P_DEFAULT) <= 0) {
    found(p->f, "/%s: only in %s", name, p->reverse ? "the second" : "the first");
    return 0;
  }
  hid_t a = H5Oopen(p->file[first], name, H5P_DEFAULT), b = H5Oopen(p->file[second], name, H5P_DEFAULT);
  place at = {p, a, b, name};
  bool both = H5Iget_type(a) == H5I_DATASET && H5Iget_type(b) == H5I_DATASET;
  if (info->type == H5O_TYPE_DATASET && !both)
    found(p->f, "/%s: of another kind", name);
  else if (both && !p->reverse)
    compare_pair(p, name, a, b, false);
  (void)H5Aiterate2(a, H5_INDEX_NAME, H5_ITER_INC, NULL, on_attribute, &at);
  (void)H5Oclose(a);
  (void)H5Oclose(b);
  return 0;
}

typedef struct dataset_args {
  const arguments *a;
  double tolerance;
  findings *f;
} dataset_args;

static kv_status compare_datasets(kv_guard *guard, void *arg, kv_error *err) {
  dataset_args *d = arg;
  pair p = {.file = {-1, -1}, .tolerance = d->tolerance, .f = d->f, .guard = guard};
  kv_status st = KV_OK;
  kv_h5_quiet();
  for (int i = 0; i < 2 && !st; i++)
    if ((p.file[i] = H5Fopen(d->a->path[i], H5F_ACC_RDONLY, H5P_DEFAULT)) < 0)
      st = kv_fail(err, KV_ERR_INPUT, "%s: damaged or cut short: HDF5 cannot open it", d->a->path[i]);
  for (int pass = 0; pass < 2 && !st; pass++) {
    p.reverse = pass == 1;
    if (H5Ovisit(p.file[pass], H5_INDEX_NAME, H5_ITER_INC, on_object, &p) < 0)
      st = kv_fail(err, KV_ERR_INPUT, "%s: cannot be read", d->a->path[pass]);
  }
  for (int i = 0; i < 2; i++)
    if (p.file[i] >= 0) (void)H5Fclose(p.file[i]);
  return st;
}

/* ---- the whole ---- */

static kv_status read_kind(kv_guard *guard, void *arg, kv_error *err) {
  dataset_args *d = arg;
  (void)guard;
  kv_h5_quiet();
  for (int i = 0; i < 2; i++) {
    hid_t file = H5Fopen(d->a->path[i], H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: damaged or cut short: HDF5 cannot open it", d->a->path[i]);
    kv_status st = kv_h5_get_str(file, "Conventions", d->f->kind[i], sizeof d->f->kind[i], err);
    (void)H5Fclose(file);
    if (st) return kv_fail(err, KV_ERR_INPUT, "%s: has no attribute Conventions: neither a trace nor a dataset of ours", d->a->path[i]);
  }
  return KV_OK;
}

static kv_status compare(const arguments *a, double tolerance, findings *f, kv_error *err) {
  dataset_args d = {a, tolerance, f};
  kv_status st = KV_OK;
  for (int i = 0; i < 2 && !st; i++) st = kv_guard_is_hdf5(a->path[i], err);
  if (!st) st = kv_guard_run(read_kind, &d, a->path[0], NULL, err);
  if (st) return st;
  if (strcmp(f->kind[0], f->kind[1])) {
    found(f, "Conventions: %s, %s", f->kind[0], f->kind[1]);
    return KV_OK;
  }
  return kv_conventions_match(f->kind[0], KVT_CONVENTIONS) ? compare_traces(a, f, err)
                                                           : kv_guard_run(compare_datasets, &d, a->path[0], NULL, err);
}

static void print(const arguments *a, const findings *f) {
  if (a->shared.json) {
    json_t *lines = json_array();
    for (uint32_t i = 0; i < f->lines; i++) json_array_append_new(lines, json_string(f->line[i]));
    json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:o}", "schema", "kvsim-diff-1", "a", a->path[0], "b", a->path[1], "kind", f->kind[0],
                          "compared", (json_int_t)f->compared, "differences", (json_int_t)f->differences, "first", lines);
    (void)json_dumpf(j, stdout, JSON_INDENT(1));
    printf("\n");
    json_decref(j);
    return;
  }
  for (uint32_t i = 0; i < f->lines; i++) printf("%s\n", f->line[i]);
  if (f->differences > f->lines) printf("... %llu more\n", (unsigned long long)(f->differences - f->lines));
  if (!f->differences) printf("no difference in %llu places (%s)\n", (unsigned long long)f->compared, f->kind[0]);
}

kv_status kvsim_diff(int argc, char **argv, kv_error *err) {
  static const struct argp argp = {
      options, parse, "A.h5 B.h5",
      "Compare two traces event by event, or two datasets value by value. When, where and by what command a file was made "
      "does not count. Exit status 1 when they differ.\v"
      "Examples:\n  kvsim diff a.kvtrace.h5 b.kvtrace.h5\n  kvsim diff --tolerance 1e-9 a.kvsim.h5 b.kvsim.h5\n", NULL, NULL, NULL};
  arguments a = {0};
  double tolerance = 0;
  argp_err_exit_status = 2;
  (void)argp_parse(&argp, argc, argv, 0, NULL, &a);
  kv_status st = kvsim_real(a.tolerance, "--tolerance", 0, 1, &tolerance, err);
  findings *f = kv_guard_share(sizeof *f);
  if (!f) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) st = compare(&a, tolerance, f, err);
  if (!st && !a.shared.quiet) print(&a, f);
  if (!st && f->differences) st = kv_fail(err, KV_ERR_BAR, "%s and %s differ in %llu places", a.path[0], a.path[1], (unsigned long long)f->differences);
  kv_guard_unshare(f, sizeof *f);
  return st;
}
