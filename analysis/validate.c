#include "validate.h"

#include <errno.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "gains.h"
#include "kv_h5.h"
#include "roof_run.h"
#include "selftest.h"

/* ---- reading text ---- */

enum { COLUMNS = 10, MAX_SAMPLES = 100000 };
static const char *const columns[COLUMNS] = {"kernel",    "heads",  "queries",   "batch",  "prefix",
                                             "row_bytes", "layout", "median_us", "low_us", "high_us"};

static kv_status take_header(kva_readings *m, const char *line, int number, kv_error *err) {
  char key[32] = "";
  int used = 0;
  const struct {
    const char *key;
    char *to;
    size_t size;
  } field[] = {{"gpu", m->gpu, sizeof m->gpu},
               {"device", m->device, sizeof m->device},
               {"status", m->status, sizeof m->status},
               {"what", m->what, sizeof m->what},
               {"how", m->how, sizeof m->how}};
  if (sscanf(line, "# %31[a-z]: %n", key, &used) != 1 || !used)
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: not `# key: value`", m->path, number);
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    if (!strcmp(key, field[i].key)) (void)snprintf(field[i].to, field[i].size, "%s", line + used);
  if (!strcmp(key, "format") && strcmp(line + used, "kvmeasured-1") != 0)
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: format '%.40s' is not kvmeasured-1", m->path, number,
                   line + used);
  return KV_OK;
}

static size_t split(char *line, char *cell[COLUMNS + 1]) {
  size_t n = 0;
  while (n <= COLUMNS) {
    cell[n++] = line;
    line += strcspn(line, "\t");
    if (!*line) break;
    *line++ = '\0';
  }
  return n;
}

static bool time_cell(const char *text, double *seconds) {
  char *end;
  *seconds = NAN;
  if (!strcmp(text, "-")) return true;
  *seconds = strtod(text, &end) * 1e-6;
  return end > text && !*end && *seconds > 0 && isfinite(*seconds);
}

/* What does not fit into 64 bits is ULLONG_MAX, beyond every range. */
static bool count_cell(const char *text, unsigned long long *v) {
  char *end;
  *v = strtoull(text, &end, 10);
  return end > text && !*end && text[0] != '-';
}

/* Where rows may lie: what a score or a prediction tells apart. Words after a comma say how it was run. */
static bool known_layout(const char *name) {
  static const char *const known[] = {"contiguous", "random", "recorded", "layout", "aliased", "resident"};
  const size_t n = strcspn(name, ",");
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i]) == n && !strncmp(known[i], name, n)) return true;
  return false;
}

/* What is wrong with a point, or NULL. */
static const char *nonsense(const kva_reading *s) {
  if (!known_layout(s->layout))
    return "its layout is none of contiguous, random, recorded, layout, aliased, resident (words after a comma are free)";
  if (s->low > s->measured || s->measured > s->high || s->low > s->high)
    return "its times are not low <= median <= high";
  if (!(s->problem.longest > 0)) return "its prefix is 0: nothing is read";
  return NULL;
}

static kv_status take_row(kva_readings *m, char *line, int number, kv_error *err) {
  char *cell[COLUMNS + 1];
  kva_reading *s = &m->sample[m->n];
  unsigned long long count[5] = {0};
  if (split(line, cell) != COLUMNS)
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: not %d cells, tab between", m->path, number,
                   (int)COLUMNS);
  for (int c = 0; c < 5; c++) {
    static const unsigned long long most[5] = {4096, 4096, 65536, KVM_MAX_PREFIX, 65536};
    if (!count_cell(cell[c + 1], &count[c]))
      return kv_fail(err, KV_ERR_INPUT, "%s: line %d: %s: '%.40s' is no whole number", m->path, number, columns[c + 1],
                     cell[c + 1]);
    if (count[c] > most[c])
      return kv_fail(err, KV_ERR_INPUT, "%s: line %d: %s: %.40s is out of range (0 to %llu)", m->path, number,
                     columns[c + 1], cell[c + 1], most[c]);
  }
  s->problem = kvm_verify_default(count[3]);
  s->problem.heads = (uint32_t)count[0];
  s->problem.queries = (uint32_t)count[1];
  s->problem.batch = (uint32_t)count[2];
  s->problem.row_bytes = (uint32_t)count[4];
  kvm_verify_uniform(&s->problem, count[3]);
  kv_error inner;
  if (kvm_verify_check(&s->problem, &inner))
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: %.300s", m->path, number, inner.text);
  (void)snprintf(s->kernel, sizeof s->kernel, "%.47s", cell[0]);
  (void)snprintf(s->layout, sizeof s->layout, "%.47s", cell[6]);
  if (!time_cell(cell[7], &s->measured) || isnan(s->measured) || !time_cell(cell[8], &s->low) ||
      !time_cell(cell[9], &s->high))
    return kv_fail(err, KV_ERR_INPUT, "%s: line %d: a time is no positive number", m->path, number);
  if (nonsense(s)) return kv_fail(err, KV_ERR_INPUT, "%s: line %d: %s", m->path, number, nonsense(s));
  s->predicted = s->predicted_low = s->predicted_high = NAN;
  s->place = (uint64_t)number;
  m->lines = true;
  m->n++;
  return KV_OK;
}

static kv_status take_names(const kva_readings *m, char *line, int number, kv_error *err) {
  char *cell[COLUMNS + 1];
  size_t n = split(line, cell);
  for (size_t i = 0; i < COLUMNS; i++)
    if (n != COLUMNS || strcmp(cell[i], columns[i]) != 0)
      return kv_fail(err, KV_ERR_INPUT, "%s: line %d: column %zu is not '%s'", m->path, number, i + 1,
                     columns[i]);
  return KV_OK;
}

static kv_status read_lines(kva_readings *m, FILE *f, kv_error *err) {
  char *line = NULL;
  size_t room = 0, samples = 0;
  bool named = false;
  kv_status st = KV_OK;
  for (int number = 1; !st && getline(&line, &room, f) >= 0; number++) {
    line[strcspn(line, "\r\n")] = '\0';
    if (!line[0]) continue;
    if (line[0] == '#') st = take_header(m, line, number, err);
    else if (!named) {
      st = take_names(m, line, number, err);
      named = true;
    } else {
      if (m->n == samples) {
        samples = samples ? 2 * samples : 64;
        kva_reading *more = samples > MAX_SAMPLES ? NULL : realloc(m->sample, samples * sizeof *more);
        if (!more) st = kv_fail(err, KV_ERR_MEMORY, "%s: too many rows", m->path);
        else m->sample = more;
      }
      if (!st) st = take_row(m, line, number, err);
    }
  }
  free(line);
  if (!st && (!named || !m->gpu[0]))
    st =
        kv_fail(err, KV_ERR_INPUT, "%s: no column names or no `# gpu:`; is it a kvmeasured-1 file?", m->path);
  return st;
}

/* ---- reading a dataset ---- */

static kv_status read_point_column(hid_t file, const char *path, const char *name, uint64_t *n, double **v,
                                   kv_error *err) {
  char full[64];
  (void)snprintf(full, sizeof full, "points/%s", name);
  return kva_reals(file, path, full, n, v, err);
}

enum { D_KERNEL, D_LAYOUT, D_PREFIX, D_HEADS, D_QUERIES, D_BATCH, D_MEASURED, D_LOW, D_HIGH, D_COLUMNS };

static kv_status take_points(kva_readings *m, uint64_t n, double *const v[D_COLUMNS], const char *kernel,
                             size_t kernel_width, uint64_t kernels, const char *layout, size_t layout_width,
                             uint64_t layouts, int64_t row, kv_error *err) {
  m->sample = calloc((size_t)n + 1, sizeof *m->sample);
  if (!m->sample) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", m->path);
  for (uint64_t i = 0; i < n; i++) {
    kva_reading *s = &m->sample[m->n];
    if (!(v[D_MEASURED][i] > 0)) continue;
    if (!(v[D_KERNEL][i] < (double)kernels) || !(v[D_LAYOUT][i] < (double)layouts) ||
        !(v[D_PREFIX][i] <= (double)KVM_MAX_PREFIX))
      return kv_fail(err, KV_ERR_INPUT, "%s: point %llu names a kernel or layout that is not there", m->path,
                     (unsigned long long)i);
    s->problem = kvm_verify_default((uint64_t)v[D_PREFIX][i]);
    s->problem.heads = (uint32_t)v[D_HEADS][i];
    s->problem.queries = (uint32_t)v[D_QUERIES][i];
    s->problem.batch = (uint32_t)v[D_BATCH][i];
    s->problem.row_bytes = (uint32_t)row;
    kvm_verify_uniform(&s->problem, (uint64_t)v[D_PREFIX][i]);
    (void)snprintf(s->kernel, sizeof s->kernel, "%.47s", kernel + (size_t)v[D_KERNEL][i] * kernel_width);
    (void)snprintf(s->layout, sizeof s->layout, "%.47s", layout + (size_t)v[D_LAYOUT][i] * layout_width);
    s->measured = v[D_MEASURED][i];
    s->low = v[D_LOW][i];
    s->high = v[D_HIGH][i];
    s->place = i;
    s->predicted = s->predicted_low = s->predicted_high = NAN;
    kv_error inner;
    if (kvm_verify_check(&s->problem, &inner))
      return kv_fail(err, KV_ERR_INPUT, "%s: point %llu: %.300s", m->path, (unsigned long long)i, inner.text);
    if (nonsense(s))
      return kv_fail(err, KV_ERR_INPUT, "%s: point %llu (%s): %s", m->path, (unsigned long long)i, s->kernel,
                     nonsense(s));
    m->n++;
  }
  return KV_OK;
}

static kv_status read_dataset(kva_readings *m, kv_error *err) {
  static const char *const name[D_COLUMNS] = {"kernel", "layout",   "prefix",       "heads",        "queries",
                                              "batch",  "measured", "measured_low", "measured_high"};
  double *v[D_COLUMNS] = {NULL};
  char *kernel = NULL, *layout = NULL;
  size_t kernel_width = 0, layout_width = 0;
  uint64_t n = UINT64_MAX, kernels = 0, layouts = 0;
  int64_t row = 1152;
  hid_t file;
  kv_status st = kva_open(m->path, "roofline-1", &file, err);
  if (st) return st;
  (void)kv_h5_get_str(file, "gpu", m->gpu, sizeof m->gpu, err);
  (void)kv_h5_get_str(file, "status", m->status, sizeof m->status, err);
  (void)kv_h5_get_i64(file, "row_bytes", &row, err);
  (void)kv_h5_get_i64(file, "smem_limit", &m->smem_limit, err);
  if (!st && (row < 1 || row > 65536))
    st = kv_fail(err, KV_ERR_INPUT, "%s: row_bytes is not in 1 to 65536", m->path);
  for (int c = 0; !st && c < D_COLUMNS; c++) st = read_point_column(file, m->path, name[c], &n, &v[c], err);
  if (!st) st = kva_words(file, m->path, "kernels/name", &kernels, &kernel, &kernel_width, err);
  if (!st) st = kva_words(file, m->path, "layouts/name", &layouts, &layout, &layout_width, err);
  if (!st) st = take_points(m, n, v, kernel, kernel_width, kernels, layout, layout_width, layouts, row, err);
  for (int c = 0; c < D_COLUMNS; c++) free(v[c]);
  free(kernel);
  free(layout);
  (void)H5Fclose(file);
  return st;
}

/* The planted kernels that no cause was planted in, rows of 1152 B side by side: a launch is a request a
 * block, each of its share of the rows. */
static kv_status take_planted(kva_readings *m, const kva_planted *p, kv_error *err) {
  char status[320];
  m->sample = calloc(p->rows + 1, sizeof *m->sample);
  if (!m->sample) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", m->path);
  (void)snprintf(m->gpu, sizeof m->gpu, "%.47s", p->origin.gpu.name);
  (void)snprintf(m->status, sizeof m->status, "%.255s", kva_bench_status(&p->origin, status, sizeof status));
  for (size_t i = 0; i < p->rows; i++) {
    const kva_plant_row *r = &p->row[i];
    kva_reading *s = &m->sample[m->n];
    const bool cold = r->experiment == KVA_PLANT_COLD, warm = r->experiment == KVA_PLANT_RESIDENT;
    if ((!cold && !warm) || r->cause[0] || r->run || r->row_bytes != 1152 || !r->structure.blocks) continue;
    const uint64_t rows = (uint64_t)(r->structure.unique_kv_bytes / r->row_bytes);
    s->problem = kvm_verify_default(0);
    s->problem.heads = s->problem.queries = 1;
    s->problem.batch = (uint32_t)r->structure.blocks;
    kvm_verify_uniform(&s->problem, rows / r->structure.blocks);
    /* few_blocks are stages_8 on fewer SMs */
    const char *kernel = strncmp(r->kernel, "few_blocks", 10) != 0 ? r->kernel : "stages_8";
    (void)snprintf(s->kernel, sizeof s->kernel, "planted_%.38s", kernel);
    (void)snprintf(s->layout, sizeof s->layout, "%s", cold ? "contiguous" : "resident");
    s->measured = r->time.median;
    s->low = r->time.low;
    s->high = r->time.high;
    s->place = i;
    s->predicted = s->predicted_low = s->predicted_high = NAN;
    kv_error inner;
    if (kvm_verify_check(&s->problem, &inner))
      return kv_fail(err, KV_ERR_INPUT, "%s: point %zu: %.300s", m->path, i, inner.text);
    m->n++;
  }
  return KV_OK;
}

static kv_status read_planted(kva_readings *m, kv_error *err) {
  kva_planted p;
  kv_status st = kva_planted_read(m->path, &p, err);
  if (st) return st;
  st = take_planted(m, &p, err);
  kva_planted_free(&p);
  return st;
}

static bool is_planted(const char *path) {
  hid_t file;
  if (kva_open(path, KVA_PLANTED_CONVENTIONS, &file, NULL)) return false;
  (void)H5Fclose(file);
  return true;
}

/* ---- the whole file ---- */

static int compare_points(const void *a, const void *b) {
  const kva_reading *x = *(kva_reading *const *)a, *y = *(kva_reading *const *)b;
  const kvm_verify *p = &x->problem, *q = &y->problem;
  const uint64_t mine[] = {p->longest, p->batch, p->heads, p->queries, p->row_bytes},
                 theirs[] = {q->longest, q->batch, q->heads, q->queries, q->row_bytes};
  for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
    if (mine[i] != theirs[i]) return mine[i] < theirs[i] ? -1 : 1;
  const int layout = strcmp(x->layout, y->layout);
  return layout ? layout : strcmp(x->kernel, y->kernel);
}

static int compare_places(const void *a, const void *b) {
  const int points = compare_points(a, b);
  const uint64_t x = (*(kva_reading *const *)a)->place, y = (*(kva_reading *const *)b)->place;
  return points ? points : x < y ? -1 : x > y;
}

/* A point given twice counts twice in every score. */
static kv_status check_twice(const kva_readings *m, kv_error *err) {
  const kva_reading **sorted = malloc((m->n + 1) * sizeof *sorted);
  kv_status st = sorted ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", m->path);
  for (size_t i = 0; !st && i < m->n; i++) sorted[i] = &m->sample[i];
  if (!st) qsort(sorted, m->n, sizeof *sorted, compare_places);
  for (size_t i = 1; !st && i < m->n; i++)
    if (!compare_points(&sorted[i - 1], &sorted[i]))
      st = kv_fail(err, KV_ERR_INPUT, "%s: line %llu: the same point as line %llu (%.47s, %.47s); leave one of them, or their median",
                   m->path, (unsigned long long)sorted[i]->place, (unsigned long long)sorted[i - 1]->place,
                   sorted[i]->kernel, sorted[i]->layout);
  free(sorted);
  return st;
}

static kv_status check_file(const kva_readings *m, kv_error *err) {
  if (strncmp(m->status, "measured", 8) != 0)
    return kv_fail(err, KV_ERR_INPUT, "%s: its status is '%.80s', so its times are no measurement; `# status: measured: DEVICE, driver, date` says that they are",
                   m->path, m->status);
  return m->lines ? check_twice(m, err) : KV_OK; /* a dataset's experiments tell its points apart */
}

kv_status kva_readings_load(const char *path, kva_readings *m, kv_error *err) {
  size_t length = strlen(path);
  memset(m, 0, sizeof *m);
  (void)snprintf(m->path, sizeof m->path, "%s", path);
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  bool dataset = length > 3 && !strcmp(path + length - 3, ".h5");
  kv_status st = dataset ? KV_OK : read_lines(m, f, err);
  if (!st && ferror(f)) st = kv_fail(err, KV_ERR_IO, "%s: cannot be read", path);
  (void)fclose(f);
  if (!st && dataset) st = is_planted(path) ? read_planted(m, err) : read_dataset(m, err);
  if (!st) st = check_file(m, err);
  if (st) kva_readings_free(m);
  return st;
}

void kva_readings_free(kva_readings *m) {
  free(m->sample);
  memset(m, 0, sizeof *m);
}

/* ---- predicting ---- */

/* A launch on few rows has all that the cold one has but the misses. */
static void take_prediction(kva_reading *s, const kvm_prediction *p) {
  double factor = 1;
  s->dominating = p->dominating;
  if (!p->known) return;
  if (!strncmp(s->layout, "resident", 8)) factor = (p->whole - p->cold + p->resident) / p->whole;
  if (!strncmp(s->layout, "aliased", 7)) factor = (p->whole - p->cold + p->aliased) / p->whole;
  s->predicted = p->whole * factor;
  s->predicted_low = p->low * factor;
  s->predicted_high = p->high * factor;
}

/* Ceilings of one card and the next of its kind are so near. */
static const double MARGIN = 0.95;

/* The least that a point can take. Of few rows, of a warm L2 or of copies of a request, memory need not give all. */
static double floor_of(const kva_reading *s, const kvm_useful *u, const kvm_roofs *roofs) {
  const bool cold = !strchr(s->layout, ',') || strstr(s->layout, "eager");
  const bool few = !strncmp(s->layout, "resident", 8) || !strncmp(s->layout, "aliased", 7);
  const double arithmetic = u->flops / roofs->mma_best.rate, memory = u->bytes / roofs->chip[KVM_DRAM].rate;
  return cold && !few ? fmax(arithmetic, memory) : arithmetic; /* fmax passes over what is not known */
}

static kv_status check_floor(const kva_readings *m, const kva_reading *s, const kvm_useful *u,
                             const kvm_roofs *roofs, kv_error *err) {
  const double least = floor_of(s, u, roofs);
  if (!(s->measured < MARGIN * least)) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT,
                 "%s: %s %llu: %s in %.4g us is below its floor of %.4g us under these ceilings: nobody can have "
                 "measured it so; mend the time or drop the point, or give ceilings of that card (--calibration)",
                 m->path, m->lines ? "line" : "point", (unsigned long long)s->place, s->kernel, s->measured * 1e6,
                 least * 1e6);
}

kv_status kva_validate(kva_readings *m, const kvm_gpu *gpu, const kvm_declared_set *declared,
                       const kvm_timing *timing, const kvm_roofs *roofs, kv_error *err) {
  kvm_time_memo memo = {0};
  double shared = kvm_gpu_number(gpu, "smem_per_block_optin");
  kv_status st = KV_OK;
  if (m->smem_limit > 0) shared = fmin(shared, (double)m->smem_limit);
  for (size_t i = 0; !st && i < m->n; i++) {
    kva_reading *s = &m->sample[i];
    kvm_prediction p;
    const kvm_declared *k = kvm_declared_for(declared, s->kernel, kvm_gpu_sm(gpu), 0, &s->problem, shared);
    s->program[0] = '\0';
    if (!k) continue;
    kvm_work w = kvm_declared_work(k, &s->problem, gpu);
    kvm_useful u = kvm_structure_useful(&k->structure, &s->problem);
    st = check_floor(m, s, &u, roofs, err);
    if (st) break;
    const kvm_question q = {k, &s->problem, &w, &u, timing, 1, false, true, 0, 0};
    st = kvm_predict(&q, &memo, &p, err);
    if (st) break;
    s->ladder = kvm_ladder_of(&u, &w, roofs, true);
    kvm_ladder_time(&s->ladder, &p);
    take_prediction(s, &p);
    kva_program_words(k, s->program, sizeof s->program);
  }
  kvm_time_memo_free(&memo);
  return st;
}

/* ---- scores ---- */

typedef struct pick {
  const char *kernel, *layout; /* NULL: any */
  int shorts;                  /* 1: only short prefixes, 0: only others, -1: any */
} pick;
enum { SHORT = 8192 };

static bool wanted(const kva_reading *s, const pick *p) {
  if (p->kernel && strcmp(p->kernel, s->kernel) != 0) return false;
  if (p->layout && strcmp(p->layout, s->layout) != 0) return false;
  return p->shorts < 0 || (s->problem.longest < SHORT) == (p->shorts == 1);
}

static void score_of(const kva_readings *m, size_t sets, const pick *p, kva_score *out) {
  double sum = 0, logs = 0, squares = 0, spreads[1024];
  size_t inside = 0, with_spread = 0;
  for (size_t k = 0; k < sets; k++)
    for (size_t i = 0; i < m[k].n; i++) {
      const kva_reading *s = &m[k].sample[i];
      if (!wanted(s, p)) continue;
      if (s->high >= s->low && with_spread < 1024) spreads[with_spread++] = (s->high - s->low) / s->measured;
      if (isnan(s->predicted)) {
        out->skipped++;
        continue;
      }
      double error = s->predicted / s->measured - 1, l = log1p(error);
      out->n++;
      sum += fabs(error);
      logs += l;
      squares += l * l;
      out->worst = fmax(out->worst, fabs(error));
      inside += s->predicted_low <= s->measured && s->measured <= s->predicted_high;
    }
  double n = (double)out->n;
  out->mape = sum / n;
  out->bias = expm1(logs / n);
  out->log_rms = sqrt(squares / n);
  out->covered = (double)inside / n;
  gsl_sort(spreads, 1, with_spread);
  out->spread = with_spread ? gsl_stats_median_from_sorted_data(spreads, 1, with_spread) : NAN;
}

static size_t add_score(const kva_readings *m, size_t sets, const char *name, const pick *p,
                        kva_score *scores, size_t n) {
  if (n == KVA_MAX_SCORES) return n;
  for (size_t i = 0; i < n; i++)
    if (!strcmp(scores[i].name, name)) return n;
  scores[n] = (kva_score){.name = ""};
  (void)snprintf(scores[n].name, sizeof scores[n].name, "%s", name);
  score_of(m, sets, p, &scores[n]);
  return scores[n].n || scores[n].skipped ? n + 1 : n;
}

size_t kva_scores(const kva_readings *m, size_t sets, kva_score scores[KVA_MAX_SCORES]) {
  char name[2 * KVM_NAME];
  size_t n = add_score(m, sets, "all", &(pick){NULL, NULL, -1}, scores, 0);
  for (size_t k = 0; k < sets; k++)
    for (size_t i = 0; i < m[k].n; i++)
      n = add_score(m, sets, m[k].sample[i].kernel, &(pick){m[k].sample[i].kernel, NULL, -1}, scores, n);
  for (size_t k = 0; k < sets; k++)
    for (size_t i = 0; i < m[k].n; i++)
      for (int s = 1; s >= 0; s--) {
        (void)snprintf(name, sizeof name, "%s, %s", m[k].sample[i].layout, s ? "short" : "8192 and more");
        n = add_score(m, sets, name, &(pick){NULL, m[k].sample[i].layout, s}, scores, n);
      }
  return n;
}

/* ---- the dataset ---- */

/* Rows are pointers, so that those of all files are one table. */
#define GET(f, expression)                                           \
  static double f(const void *rows, uint64_t i) {                    \
    const kva_reading *s = ((const kva_reading *const *)rows)[i];    \
    return expression;                                               \
  }
GET(g_prefix, (double)s->problem.longest)
GET(g_heads, (double)s->problem.heads)
GET(g_queries, (double)s->problem.queries)
GET(g_batch, (double)s->problem.batch)
GET(g_measured, s->measured)
GET(g_low, s->low)
GET(g_high, s->high)
GET(g_predicted, s->predicted)
GET(g_predicted_low, s->predicted_low)
GET(g_predicted_high, s->predicted_high)
GET(g_error, s->predicted / s->measured - 1)
static const char *g_kernel(const void *rows, uint64_t i) { return ((const kva_reading *const *)rows)[i]->kernel; }
static const char *g_layout(const void *rows, uint64_t i) { return ((const kva_reading *const *)rows)[i]->layout; }
static const char *g_program(const void *rows, uint64_t i) {
  const kva_reading *s = ((const kva_reading *const *)rows)[i];
  return *s->program ? s->program : "no program";
}

static kv_status write_points(const kva_readings *m, size_t sets, size_t n, hid_t file, kv_error *err) {
  static const kva_word_column word[] = {{"kernel", "Kernel", g_kernel}, {"layout", "Where the rows lie", g_layout},
                                         {"program", "Program that the prediction was made of", g_program}};
  static const kva_real_column real[] = {{"prefix", "token", "Prefix", g_prefix},
                                         {"heads", "1", "Heads", g_heads},
                                         {"queries", "1", "Tree nodes a request", g_queries},
                                         {"batch", "1", "Requests", g_batch},
                                         {"measured", "s", "Measured time, median", g_measured},
                                         {"measured_low", "s", "Measured time, lower end", g_low},
                                         {"measured_high", "s", "Measured time, upper end", g_high},
                                         {"predicted", "s", "Predicted time", g_predicted},
                                         {"predicted_low", "s", "Predicted time, lower end of the interval", g_predicted_low},
                                         {"predicted_high", "s", "Predicted time, upper end of the interval", g_predicted_high},
                                         {"error", "1", "Predicted over measured, minus 1", g_error}};
  const kva_reading **row = malloc((n + 1) * sizeof *row);
  if (!row) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  for (size_t k = 0, at = 0; k < sets; k++)
    for (size_t i = 0; i < m[k].n; i++) row[at++] = &m[k].sample[i];
  kv_status st = kva_write_words(file, "points", word, sizeof word / sizeof *word, n, row, err);
  if (!st) st = kva_write_reals(file, "points", real, sizeof real / sizeof *real, n, row, err);
  free(row);
  return st;
}

#define SCORE(f, expression) KVA_REAL(f, kva_score, s, expression)
KVA_WORD(s_name, kva_score, s, s->name)
SCORE(s_points, (double)s->n)
SCORE(s_mape, s->mape)
SCORE(s_worst, s->worst)
SCORE(s_bias, s->bias)
SCORE(s_spread, s->spread)
SCORE(s_covered, s->covered)
SCORE(s_log_rms, s->log_rms)

static kv_status write_scores(const kva_readings *m, size_t sets, hid_t file, kv_error *err) {
  static const kva_word_column word = {"name", "Kernel or regime", s_name};
  static const kva_real_column real[] = {{"points", "1", "Points compared", s_points},
                                         {"mape", "1", "Mean absolute error", s_mape},
                                         {"worst", "1", "Largest absolute error", s_worst},
                                         {"bias", "1", "Mean error, geometric", s_bias},
                                         {"spread", "1", "Median spread of the repeats", s_spread},
                                         {"covered", "1", "Share inside the prediction's interval", s_covered},
                                         {"log_rms", "1", "Root mean square of ln(predicted / measured)", s_log_rms}};
  kva_score score[KVA_MAX_SCORES];
  size_t n = kva_scores(m, sets, score);
  kv_status st = kva_write_words(file, "scores", &word, 1, n, score, err);
  return st ? st : kva_write_reals(file, "scores", real, sizeof real / sizeof *real, n, score, err);
}

static kv_status write_gains(const kva_readings *m, size_t sets, hid_t file, kv_error *err) {
  const size_t n = kva_gains(m, sets, NULL, 0);
  kva_gain *gain = calloc(n + 1, sizeof *gain);
  if (!gain) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_status st = kva_gains_write(file, gain, kva_gains(m, sets, gain, n), err);
  free(gain);
  return st;
}

static const char *base_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What a file of predictions is: no measurement, though it holds some. */
static void status_of(const kva_readings *m, size_t sets, char *text, size_t size) {
  if (sets == 1)
    (void)snprintf(text, size, "predictions against measured points of %.100s", base_of(m[0].path));
  else (void)snprintf(text, size, "predictions against measured points of %zu files", sets);
}

/* "a.h5 (measured: ...); b.tsv (...)". */
static void sources_of(const kva_readings *m, size_t sets, char *text, size_t size) {
  size_t at = 0;
  text[0] = '\0';
  for (size_t k = 0; k < sets && at + 400 < size; k++)
    at += (size_t)snprintf(text + at, size - at, "%s%.100s (%.255s)", at ? "; " : "", base_of(m[k].path),
                           *m[k].status ? m[k].status : "status not recorded");
}

kv_status kva_validate_write(const kva_readings *m, size_t sets, const char *calibration, const char *path,
                             const char *command, kv_error *err) {
  kv_h5_out out = {.file = -1};
  char status[200], sources[8192];
  size_t n = 0;
  status_of(m, sets, status, sizeof status);
  sources_of(m, sets, sources, sizeof sources);
  for (size_t k = 0; k < sets; k++) n += m[k].n;
  kv_status st = kv_h5_create(path, "kvvalidate-1", "roofline", command, &out, err);
  if (st) return st;
  st = kv_h5_put_str(out.file, "gpu", sets ? m[0].gpu : "", err);
  if (!st) st = kv_h5_put_str(out.file, "status", status, err);
  if (!st) st = kv_h5_put_str(out.file, "measured", sources, err);
  if (!st) st = kv_h5_put_str(out.file, "calibration", calibration, err);
  if (!st) st = kv_h5_put_str(out.file, "default", "points", err);
  if (!st) st = write_points(m, sets, n, out.file, err);
  if (!st) st = write_scores(m, sets, out.file, err);
  if (!st) st = write_gains(m, sets, out.file, err);
  if (!st) return kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
