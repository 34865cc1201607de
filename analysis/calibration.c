#include "calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void kva_bench_origin_of(const kvk_device *device, kva_bench_origin *origin) {
  const char *epoch = getenv("SOURCE_DATE_EPOCH");
  time_t now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
  struct tm tm;
  origin->gpu = *kvk_device_gpu(device);
  kvk_nvml_driver(kvk_device_nvml(device), origin->driver, sizeof origin->driver);
  kvk_nvml_limits(kvk_device_nvml(device), &origin->power_limit, NULL, NULL);
  if (!gmtime_r(&now, &tm) || !strftime(origin->date, sizeof origin->date, "%Y-%m-%d", &tm))
    origin->date[0] = '\0';
}

const char *kva_bench_status(const kva_bench_origin *o, char *text, size_t size) {
  (void)snprintf(text, size, "measured: %s, driver %s, %s", o->gpu.name, o->driver[0] ? o->driver : "unknown",
                 o->date);
  return text;
}

/* ---- rows ---- */

static kv_status make_room(kva_calibration *c, kv_error *err) {
  if (c->rows < c->room) return KV_OK;
  size_t room = c->room ? 2 * c->room : 64;
  kva_bench_row *row = realloc(c->row, room * sizeof *row);
  if (!row) return kv_fail(err, KV_ERR_MEMORY, "calibration: out of memory for %zu points", room);
  c->row = row;
  c->room = room;
  return KV_OK;
}

/* A rate falls as its time rises, so the interval's ends change places. */
static void set_value(kva_bench_row *r) {
  const double work = r->point.work;
  bool rate = r->point.kind == KVK_RATE;
  r->value = r->value_low = r->value_high = work;
  if (r->point.kind == KVK_SIZE) return;
  r->value = rate ? work / r->time.median : r->time.median / work;
  r->value_low = rate ? work / r->time.high : r->time.low / work;
  r->value_high = rate ? work / r->time.low : r->time.high / work;
}

kv_status kva_calibration_add(void *calibration, const kvk_point *point, kv_error *err) {
  kva_calibration *c = calibration;
  kv_status st = KV_OK;
  if (point->samples == 0 || point->samples > KVK_POINT_SAMPLES)
    return kv_fail(err, KV_ERR_INPUT, "calibration: point '%s' has %u samples", point->name, point->samples);
  for (uint32_t i = 0; i < point->samples; i++)
    if (!isfinite(point->seconds[i]) || point->seconds[i] <= 0)
      return kv_fail(err, KV_ERR_INPUT, "calibration: point '%s' has a time of %g s", point->name,
                     point->seconds[i]);
  st = make_room(c, err);
  if (st) return st;
  kva_bench_row *r = &c->row[c->rows];
  *r = (kva_bench_row){.point = *point};
  st = kva_summarise(point->seconds, point->samples, c->origin.seed + c->rows, &r->time, err);
  if (st) return st;
  set_value(r);
  c->rows++;
  return KV_OK;
}

void kva_calibration_note(kva_calibration *c, const char *text) {
  size_t used = strlen(c->notes);
  if (text && text[0])
    (void)snprintf(c->notes + used, sizeof c->notes - used, "%s%s", used ? "; " : "", text);
}

void kva_calibration_free(kva_calibration *c) {
  free(c->row);
  *c = (kva_calibration){0};
}

/* ---- choosing ---- */

static bool is(const kvk_point *p, const char *name) {
  return strcmp(p->name, name) == 0;
}

static bool counts_for(const kva_calibration *c, const kvk_point *p, const char *resource) {
  bool from_dram = is(p, "dram") || (is(p, "gather") && p->footprint >= 8 * c->origin.gpu.l2);
  if (p->kind != KVK_RATE) return false;
  if (strcmp(resource, "dram") == 0) return from_dram;
  if (strcmp(resource, "link") == 0) return is(p, "link") || is(p, "l2") || from_dram;
  return is(p, resource);
}

size_t kva_calibration_ceilings(const kva_calibration *c, kva_best best[KVA_BESTS]) {
  static const char *const resources[] = {"dram", "l2", "link", "l1", "mma", "wgmma", "fma", "sfu", "issue"};
  size_t n = 0;
  for (size_t k = 0; k < sizeof resources / sizeof *resources; k++)
    for (int sm = 0; sm < 2; sm++) {
      const kva_bench_row *top = NULL;
      for (size_t i = 0; i < c->rows; i++) {
        const kva_bench_row *r = &c->row[i];
        if (r->point.one_sm != (sm == 1) || !counts_for(c, &r->point, resources[k])) continue;
        bool cleaner = top && top->point.throttled && !r->point.throttled;
        bool dirtier = top && !top->point.throttled && r->point.throttled;
        if (!top || cleaner || (!dirtier && r->value > top->value)) top = r;
      }
      if (top && n < KVA_BESTS) best[n++] = (kva_best){resources[k], sm == 1, (size_t)(top - c->row)};
    }
  return n;
}

size_t kva_calibration_latencies(const kva_calibration *c, kva_best best[KVA_BESTS]) {
  size_t n = 0;
  for (size_t i = 0; i < c->rows; i++) {
    const kva_bench_row *r = &c->row[i];
    size_t k = 0;
    if (r->point.kind != KVK_LATENCY || is(&r->point, "latency_loaded")) continue;
    while (k < n && !is(&r->point, best[k].name)) k++;
    if (k == n && n < KVA_BESTS) best[n++] = (kva_best){r->point.name, r->point.one_sm, i};
    else if (k < n && r->value < c->row[best[k].row].value) best[k].row = i;
  }
  return n;
}

size_t kva_calibration_sizes(const kva_calibration *c, kva_best best[KVA_BESTS]) {
  size_t n = 0;
  for (size_t i = 0; i < c->rows && n < KVA_BESTS; i++) {
    const kva_bench_row *r = &c->row[i];
    size_t k = 0;
    if (r->point.kind != KVK_SIZE) continue;
    while (k < n && !is(&r->point, best[k].name)) k++;
    if (k == n) best[n++] = (kva_best){r->point.name, r->point.one_sm, i};
  }
  return n;
}

/* ---- ceilings of layouts ---- */

static double best_gather(const kva_calibration *c, uint32_t row_bytes, const char *layout, uint32_t run) {
  const double pool = 8.0 * 1073741824.0;
  double best = NAN, off = INFINITY;
  for (size_t i = 0; i < c->rows; i++) {
    const kvk_point *p = &c->row[i].point;
    if (strcmp(p->name, "gather") != 0 || p->one_sm || p->row_bytes != row_bytes || p->run_length != run ||
        strcmp(p->layout, layout) != 0)
      continue;
    double d = fabs(log((double)p->footprint / pool));
    if (d < off || (d == off && c->row[i].value > best)) best = c->row[i].value;
    if (d < off) off = d;
  }
  return best;
}

double kva_calibration_scatter(const kva_calibration *c, uint32_t row_bytes, uint32_t run) {
  if (run == 0) return 1;
  return best_gather(c, row_bytes, "contiguous", 0) /
         best_gather(c, row_bytes, run == 1 ? "random" : "runs", run);
}

/* The fastest gather of so many bytes out of so many in a layout. */
static double gather_like(const kva_calibration *c, uint32_t row_bytes, const char *layout, uint64_t rows,
                          uint64_t span) {
  double best = NAN;
  for (size_t i = 0; i < c->rows; i++) {
    const kvk_point *p = &c->row[i].point;
    if (strcmp(p->name, "gather") != 0 || p->one_sm || p->row_bytes != row_bytes ||
        strcmp(p->layout, layout) != 0 || p->work != (double)rows * row_bytes ||
        p->footprint != span * row_bytes)
      continue;
    best = fmax(best, c->row[i].value); /* of NaN and a number the number */
  }
  return best;
}

double kva_calibration_scatter_list(const kva_calibration *c, uint32_t row_bytes, uint64_t rows,
                                    uint64_t span) {
  return gather_like(c, row_bytes, "contiguous", rows, span) / gather_like(c, row_bytes, "list", rows, span);
}
