/* The serving loop against recordings of SGLang's own code: the same workload gives the same events, slot by slot.
 *
 * The samples shipped are always checked. With RECORDINGS=DIR the recordings of that workload there are, too, and with
 * WORKLOADS=DIR beside it (the folder of conversation_trace.jsonl and synthetic_trace.jsonl) those of the others.
 */
#include <gsl/gsl_rng.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "import.h"
#include "kv_h5.h"
#include "kv_test.h"
#include "replay.h"
#include "serving.h"
#include "serving_accept.h"
#include "serving_radix.h"
#include "serving_trace.h"
#include "trace.h"
#include "workload.h"

/* ---- what a recording accepted in each verify step ---- */

typedef struct accepts {
  kvs_accepted *list;
  uint32_t n, room;
} accepts;

typedef struct feed {
  accepts *of; /* by request */
  uint64_t requests;
} feed;

static void add_accept(accepts *a, const kvs_accepted *one) {
  if (a->n == a->room) {
    a->room = a->room ? 2 * a->room : 16;
    a->list = realloc(a->list, a->room * sizeof *a->list);
    if (!a->list) abort();
  }
  a->list[a->n++] = *one;
}

static void learn(feed *f, const kvt_event *e, int32_t (*block)[KVS_DRAFT_MOST]) {
  kvs_accepted a = {.n = e->count};
  if (e->kind == KVT_ALLOC_VERIFY) memcpy(block[e->request], e->slots, e->count * sizeof(int32_t));
  if (e->kind != KVT_COMMIT) return;
  if (!e->count) a.n = (uint32_t)e->length;
  for (uint32_t i = 0, k = 0; i < e->count; i++) {
    while (block[e->request][k] != e->slots[i]) k++;
    a.node[i] = (uint8_t)k++;
  }
  for (uint32_t i = 0; i < a.n && !e->count; i++) a.node[i] = (uint8_t)i;
  add_accept(&f->of[e->request], &a);
}

static bool learn_all(const char *path, feed *f) {
  kv_error err;
  kvt_reader *reader;
  kvt_info info;
  kvt_batch b;
  kv_status st = kvt_reader_open(path, &reader, &info, &err);
  if (st) return false;
  int32_t (*block)[KVS_DRAFT_MOST] = calloc(info.requests + 1, sizeof *block);
  *f = (feed){calloc(info.requests + 1, sizeof(accepts)), info.requests};
  while (block && f->of && (st = kvt_reader_next(reader, &b, &err)) == KV_OK) {
    uint32_t slot = 0;
    for (uint32_t i = 0; i < b.events; i++) {
      kvt_event e = kvt_batch_event(&b, i, slot);
      learn(f, &e, block);
      slot += e.count;
    }
  }
  kvt_reader_close(reader);
  free(block);
  return st == KV_END;
}

static void free_feed(feed *f) {
  for (uint64_t i = 0; i < f->requests && f->of; i++) free(f->of[i].list);
  free(f->of);
}

static kv_status from_feed(void *arg, int32_t request, uint32_t nth, kvs_accepted *a, kv_error *err) {
  const accepts *list = &((feed *)arg)->of[request];
  (void)err;
  *a = nth < list->n ? list->list[nth] : (kvs_accepted){.n = 1}; /* v2 draws once more than it looks at */
  return KV_OK;
}

/* ---- two streams side by side ---- */

typedef struct comparison {
  kvt_reader *reader;
  kvt_batch batch;
  uint32_t at, slot, step_row;
  uint64_t same, limit; /* events; stop after limit (0: never) */
  int32_t *piece;
  char text[512];
} comparison;

static kv_status next_event(comparison *c, kvt_event *e, kv_error *err) {
  if (c->at == c->batch.events) {
    kv_status st = kvt_reader_next(c->reader, &c->batch, err);
    if (st) return st;
    c->at = c->slot = c->step_row = 0;
  }
  *e = kvt_batch_event(&c->batch, c->at++, c->slot);
  c->slot += e->count;
  return KV_OK;
}

static kv_status differs(comparison *c, const kvt_event *e, const kvt_event *r, kv_error *err) {
  (void)snprintf(c->text, sizeof c->text,
                 "event %llu: ours %s request %d position %d length %d aux %d count %u; recorded (step %u) %s request %d "
                 "position %d length %d aux %d count %u",
                 (unsigned long long)c->same, kvt_kind_name(e->kind), e->request, e->position, e->length, e->aux, e->count,
                 r->step, kvt_kind_name(r->kind), r->request, r->position, r->length, r->aux, r->count);
  for (uint32_t i = 0; i < e->count && i < r->count; i++)
    if (e->slots[i] != r->slots[i]) {
      size_t n = strlen(c->text);
      (void)snprintf(c->text + n, sizeof c->text - n, "; slot %u: %d, recorded %d", i, e->slots[i], r->slots[i]);
      break;
    }
  return kv_fail(err, KV_ERR_BAR, "%s", c->text);
}

static kv_status same_event(void *arg, const kvt_event *e, kv_error *err) {
  comparison *c = arg;
  kvt_event r = {0};
  uint32_t done = 0;
  if (c->limit && c->same >= c->limit) return KV_END;
  do { /* long events come in pieces */
    kv_status st = next_event(c, &r, err);
    if (st) return kv_fail(err, KV_ERR_BAR, "event %llu: the recording ends before ours", (unsigned long long)c->same);
    bool more = c->batch.more && c->at == c->batch.events;
    if (r.kind != e->kind || r.request != e->request || r.length != e->length || r.aux != e->aux ||
        done + r.count > e->count || (!more && done + r.count != e->count) || (!done && r.position != e->position) ||
        (r.count && memcmp(r.slots, e->slots + done, r.count * sizeof *r.slots)))
      return differs(c, e, &r, err);
    done += r.count;
  } while (done < e->count);
  c->same++;
  return KV_OK;
}

static kv_status same_step(void *arg, kvt_step_type type, const kvt_step *row, kv_error *err) {
  comparison *c = arg;
  const kvt_event e = {.kind = KVT_STEP, .request = -1, .position = -1, .length = -1, .aux = (int32_t)type};
  kv_status st = same_event(c, &e, err);
  if (st) return st;
  const kvt_step *r = &c->batch.step_rows[c->step_row++];
  if (!memcmp(r, row, sizeof *r)) return KV_OK;
  return kv_fail(err, KV_ERR_BAR,
                 "event %llu: step row: ours time %lld requests %d tokens %d available %d evictable %d protected %d "
                 "waiting %d, recorded %lld %d %d %d %d %d %d", (unsigned long long)c->same,
                 (long long)row->time_us, row->requests, row->tokens, row->available, row->evictable, row->protected_,
                 row->waiting, (long long)r->time_us, r->requests, r->tokens, r->available, r->evictable, r->protected_, r->waiting);
}

/* Runs the workload and holds every event against the trace. Returns the events that agree; all: to the last. */
static uint64_t run_against(const char *trace, const kvt_workload *w, const kvs_serving_options *o, uint64_t limit, bool *all) {
  kv_error err = {KV_OK, ""};
  comparison c = {.limit = limit};
  kvt_info info;
  kvs_serving_totals totals;
  kvt_event left;
  kv_status st = kvt_reader_open(trace, &c.reader, &info, &err);
  const kvs_serving_sink sink = {&c, same_step, same_event, NULL};
  if (!st) st = kvs_serve(w, o, &sink, &totals, NULL, &err);
  *all = !st && next_event(&c, &left, &err) == KV_END;
  if (st && st != KV_END) fprintf(stderr, "%s: %s\n", trace, err.text);
  kvt_reader_close(c.reader);
  return c.same;
}

/* ---- workloads of recordings ---- */

static int32_t *column(hid_t file, const char *name, uint64_t *n) {
  hid_t d;
  size_t elem;
  if (kv_h5_open_column(file, "trace", name, &d, n, &elem, NULL)) return NULL;
  int32_t *v = malloc((*n + 1) * sizeof *v);
  if (v && H5Dread(d, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) < 0) {
    free(v);
    v = NULL;
  }
  (void)H5Dclose(d);
  return v;
}

/* The recording's requests, with the block hashes of the workload file's rows. */
static bool recorded_workload(const char *trace, const char *jsonl, const char *injected, kvt_workload *w) {
  static const char *const names[] = {"requests/trace_row", "requests/timestamp", "requests/predecessor", "requests/injected"};
  kvt_workload from, other = {0};
  int32_t *v[4] = {NULL};
  uint64_t n = 0;
  bool ok = kvt_workload_read(jsonl, KVT_WORKLOAD_MOONCAKE, 0, 0, &from, NULL) == KV_OK;
  if (ok && injected) ok = kvt_workload_read(injected, KVT_WORKLOAD_MOONCAKE, 0, 0, &other, NULL) == KV_OK;
  hid_t file = H5Fopen(trace, H5F_ACC_RDONLY, H5P_DEFAULT);
  for (int i = 0; i < 4 && ok; i++) ok = (v[i] = column(file, names[i], &n)) != NULL;
  (void)H5Fclose(file);
  *w = (kvt_workload){.format = KVT_WORKLOAD_MOONCAKE, .request = calloc(n + 1, sizeof *w->request),
                      .hash = malloc((from.hashes + other.hashes + 1) * sizeof *w->hash)};
  for (uint64_t i = 0; i < n && ok; i++) {
    const kvt_workload *src = v[3][i] > 0 ? &other : &from;
    kvt_workload_request *q = &w->request[w->requests++];
    uint32_t k = 0;
    while (k < src->requests && src->request[k].row != v[0][i]) k++;
    if (!(ok = k < src->requests)) break;
    *q = src->request[k];
    q->arrival_us = ((int64_t)v[1][i] - v[1][0]) * 1000;
    q->predecessor = v[2][i];
    memcpy(w->hash + w->hashes, src->hash + q->first_hash, q->hashes * sizeof *w->hash);
    q->first_hash = w->hashes;
    w->hashes += q->hashes;
    if (v[3][i] > 0) q->output = 2048;
  }
  for (int i = 0; i < 4; i++) free(v[i]);
  kvt_workload_free(&from);
  kvt_workload_free(&other);
  return ok;
}

/* ---- event by event ---- */

static kvs_serving_options options_of(kvs_speculation speculation, double time_scale) {
  kvs_serving_options o = kvs_serving_options_default();
  o.speculation = speculation;
  o.time_scale = time_scale;
  if (speculation == KVS_SPEC_V2) o.draft_steps = 5, o.draft_topk = 1, o.draft_tokens = 6, o.acceptance = 0.8;
  return o;
}

static bool sample_workload(kvt_workload *w, bool turns) {
  kv_error err;
  kv_status st = kvt_workload_read(kv_source("traces/samples/mooncake_sessions.jsonl"), KVT_WORKLOAD_MOONCAKE, 0, 0, w, &err);
  CU_ASSERT_EQUAL_FATAL(st, KV_OK);
  return !turns || kvt_workload_infer_turns(w, &err) != UINT32_MAX;
}

/* Every event and every row of /steps, times included, is the recording's. */
static void all_same(const char *trace, const kvt_workload *w, kvs_serving_options o) {
  feed f = {0};
  bool all;
  char path[1024];
  (void)snprintf(path, sizeof path, "%s", trace);
  if (o.speculation) {
    CU_ASSERT_TRUE(learn_all(path, &f));
    o.accept = from_feed;
    o.accept_arg = &f;
  }
  uint64_t n = run_against(path, w, &o, 0, &all);
  CU_ASSERT_TRUE(all);
  CU_ASSERT_TRUE(n > 10000);
  printf("(%llu events) ", (unsigned long long)n);
  free_feed(&f);
}

static void sample_v1(void) {
  kvt_workload w;
  CU_ASSERT_TRUE(sample_workload(&w, true));
  CU_ASSERT_EQUAL(w.requests, 400);
  all_same(kv_source("traces/samples/mixed_eagle.h5"), &w, options_of(KVS_SPEC_V1, 0.04));
  kvt_workload_free(&w);
}

static void sample_v2(void) {
  kvt_workload w;
  CU_ASSERT_TRUE(sample_workload(&w, true));
  all_same(kv_source("traces/samples/mixed_eagle_v2.h5"), &w, options_of(KVS_SPEC_V2, 0.04));
  kvt_workload_free(&w);
}

/* A recording of RECORDINGS as a kvtrace-1 file, or NULL. */
static const char *imported(const char *name) {
  const char *dir = getenv("RECORDINGS"), *to = kv_tmp("serving-recording.h5");
  const kvt_writer_options o = {.creator = "test", .command = "test", .plain = true};
  char from[1024];
  if (!dir || !*dir) return NULL;
  (void)snprintf(from, sizeof from, "%s/%s.h5", dir, name);
  return kvt_import_recording(from, to, &o, NULL) == KV_OK ? to : NULL;
}

static void recordings_of_the_sample(void) {
  kvt_workload w;
  const char *trace = imported("mixed_nospec");
  if (!trace) {
    printf("(none: make test RECORDINGS=DIR) ");
    return;
  }
  CU_ASSERT_TRUE(sample_workload(&w, true));
  all_same(trace, &w, options_of(KVS_SPEC_NONE, 0.04));
  kvs_serving_options o = options_of(KVS_SPEC_V1, 0.04);
  o.allocator = KVT_ALLOC_TOKEN_SORTED;
  if ((trace = imported("mixed_eagle_sorted"))) all_same(trace, &w, o);
  kvt_workload_free(&w);
}

static void recordings_of_workloads(void) {
  char conversation[1024], synthetic[1024];
  const char *dir = getenv("WORKLOADS"), *trace = dir && *dir ? imported("aged_nospec_long_page64") : NULL;
  kvt_workload w;
  if (!trace) {
    printf("(none: make test RECORDINGS=DIR WORKLOADS=DIR) ");
    return;
  }
  (void)snprintf(conversation, sizeof conversation, "%s/conversation_trace.jsonl", dir);
  (void)snprintf(synthetic, sizeof synthetic, "%s/synthetic_trace.jsonl", dir);
  CU_ASSERT_TRUE_FATAL(recorded_workload(trace, conversation, synthetic, &w));
  kvs_serving_options o = options_of(KVS_SPEC_NONE, 0.13);
  o.page_size = 64;
  o.allocator = KVT_ALLOC_PAGED;
  all_same(trace, &w, o);
  if ((trace = imported("aged_eagle_long"))) all_same(trace, &w, options_of(KVS_SPEC_V1, 0.13));
  kvt_workload_free(&w);
}

/* ---- distributions, where the recording's chance is not ours ---- */

typedef struct sample {
  double *value;
  uint32_t n, room;
} sample;

static void add_value(sample *s, double v) {
  if (s->n == s->room) {
    s->room = s->room ? 2 * s->room : 1024;
    s->value = realloc(s->value, s->room * sizeof *s->value);
    if (!s->value) abort();
  }
  s->value[s->n++] = v;
}

static int ascending(const void *a, const void *b) {
  double p = *(const double *)a, q = *(const double *)b;
  return (p > q) - (p < q);
}

/* Two-sample Kolmogorov-Smirnov: the largest distance of the two distribution functions, and the probability of one as
 * large by chance (the asymptotic series, with Stephens' correction for small samples). */
static double ks(sample *a, sample *b, double *p) {
  double d = 0, sum = 0;
  uint32_t i = 0, j = 0;
  qsort(a->value, a->n, sizeof *a->value, ascending);
  qsort(b->value, b->n, sizeof *b->value, ascending);
  while (i < a->n && j < b->n) {
    double x = a->value[i] < b->value[j] ? a->value[i] : b->value[j];
    while (i < a->n && a->value[i] <= x) i++;
    while (j < b->n && b->value[j] <= x) j++;
    d = fmax(d, fabs((double)i / a->n - (double)j / b->n));
  }
  double n = sqrt((double)a->n * b->n / (a->n + b->n)), l = (n + 0.12 + 0.11 / n) * d;
  for (int k = 1; k <= 100; k++) sum += (k % 2 ? 2 : -2) * exp(-2.0 * k * k * l * l);
  *p = l < 0.2 ? 1 : sum < 0 ? 0 : sum > 1 ? 1 : sum;
  return d;
}

/* Hand-computed: F differs most at 3 (3/4 against 1/4). */
static void ks_itself(void) {
  double x[] = {1, 2, 3, 9}, y[] = {3, 5, 6, 7}, p;
  sample a = {x, 4, 4}, b = {y, 4, 4};
  CU_ASSERT_DOUBLE_EQUAL(ks(&a, &b, &p), 0.5, 1e-12);
  CU_ASSERT_TRUE(p > 0.3 && p < 1);
  CU_ASSERT_DOUBLE_EQUAL(ks(&a, &a, &p), 0, 0);
  CU_ASSERT_DOUBLE_EQUAL(p, 1, 0);
}

typedef struct scatter {
  sample mean;  /* mean run of each request of 1,024 tokens or more when its prompt is done, aged pool only */
  sample runs;  /* a sample of the runs of those rows: every 7th */
  const kvs_replay *replay;
  uint64_t counted;
} scatter;

static kv_status see_prefill(void *arg, const kvs_milestone *m, kv_error *err) {
  scatter *s = arg;
  (void)err;
  if (strcmp(m->event, "prefill_end") || m->rows < 1024 || kvs_replay_get_totals(s->replay)->allocated < 1048576) return KV_OK;
  add_value(&s->mean, m->mean_run);
  for (uint32_t i = 0; i < m->row->runs; i++)
    if (s->counted++ % 7 == 0) add_value(&s->runs, m->row->run[i].length);
  return KV_OK;
}

static bool scatter_of(const char *trace, scatter *s) {
  kvs_replay_options o = kvs_replay_options_default();
  kvt_reader *reader = NULL;
  kvs_replay *replay = NULL;
  kvt_info info;
  kvt_batch b;
  kv_error err = {KV_OK, ""};
  *s = (scatter){0};
  o.every = 0;
  o.observer = (kvs_observer){.arg = s, .milestone = see_prefill};
  kv_status st = kvt_reader_open(trace, &reader, &info, &err);
  if (!st) st = kvs_replay_create(&info, &o, NULL, &replay, &err);
  s->replay = replay;
  while (!st && !(st = kvt_reader_next(reader, &b, &err))) st = kvs_replay_batch(replay, &b, &err);
  if (st == KV_END) st = kvs_replay_finish(replay, &err);
  if (st) fprintf(stderr, "%s: %s\n", trace, err.text);
  kvs_replay_free(replay);
  kvt_reader_close(reader);
  return st == KV_OK;
}

static const char *simulated(const kvt_workload *w, const kvs_serving_options *o, const char *name) {
  const kvt_writer_options writer = {.plain = true, .creator = "test", .command = "test"};
  kvs_serving_totals totals;
  kv_error err;
  const char *path = kv_tmp(name);
  kv_status st = kvs_serve_to_trace(w, o, path, &writer, NULL, NULL, &totals, &err);
  CU_ASSERT_EQUAL(st, KV_OK);
  if (st) fprintf(stderr, "%s\n", err.text);
  return path;
}

/* Our own acceptance against a recording: the scatter of requests does not tell them apart. */
static void same_scatter(const char *recording, kvs_speculation speculation) {
  kvt_workload w;
  scatter ours, theirs;
  double p_mean, p_runs;
  kvs_serving_options o = options_of(speculation, 0.04);
  CU_ASSERT_TRUE(sample_workload(&w, true));
  CU_ASSERT_TRUE(scatter_of(kv_source(recording), &theirs));
  for (uint64_t seed = 1; seed <= 3; seed++) {
    o.seed = seed;
    CU_ASSERT_TRUE(scatter_of(simulated(&w, &o, "scatter.h5"), &ours));
    CU_ASSERT_TRUE(ours.mean.n > 150 && theirs.mean.n > 150);
    double d_mean = ks(&ours.mean, &theirs.mean, &p_mean), d_runs = ks(&ours.runs, &theirs.runs, &p_runs);
    printf("\n    seed %d: mean runs of %u and %u requests D %.3f p %.2f; %u and %u runs D %.4f ", (int)seed, ours.mean.n,
           theirs.mean.n, d_mean, p_mean, ours.runs.n, theirs.runs.n, d_runs);
    CU_ASSERT_TRUE(p_mean > 0.01);
    CU_ASSERT_TRUE(d_runs < 0.03); /* runs of a row depend on one another: a distance, no probability */
    free(ours.mean.value);
    free(ours.runs.value);
  }
  free(theirs.mean.value);
  free(theirs.runs.value);
  kvt_workload_free(&w);
}

static void scatter_v1(void) { same_scatter("traces/samples/mixed_eagle.h5", KVS_SPEC_V1); }
static void scatter_v2(void) { same_scatter("traces/samples/mixed_eagle_v2.h5", KVS_SPEC_V2); }

/* Tokens accepted and the last node accepted (where in the block the path ends), ours against the recorded. */
static void acceptance(const char *recording, kvs_speculation speculation) {
  feed f;
  sample count[2] = {{0}}, last[2] = {{0}};
  kvs_serving_options o = options_of(speculation, 1);
  kvs_accept_model m;
  double p;
  CU_ASSERT_TRUE_FATAL(learn_all(kv_source(recording), &f));
  CU_ASSERT_EQUAL_FATAL(kvs_accept_init(&m, &o, NULL), KV_OK);
  for (uint64_t r = 0; r < f.requests; r++)
    for (uint32_t i = 0; i + 1 < f.of[r].n; i++) { /* the last one is cut at the answer's end */
      const kvs_accepted *a = &f.of[r].list[i];
      add_value(&count[0], a->n);
      add_value(&last[0], a->node[a->n - 1]);
    }
  for (uint32_t i = 0; i < count[0].n; i++) {
    kvs_accepted a;
    kvs_accept_draw(&m, &a);
    add_value(&count[1], a.n);
    add_value(&last[1], a.node[a.n - 1]);
  }
  double d_count = ks(&count[0], &count[1], &p), d_last = ks(&last[0], &last[1], &p);
  printf("(%u steps, D %.4f and %.4f) ", count[0].n, d_count, d_last);
  CU_ASSERT_TRUE(count[0].n > 30000);
  CU_ASSERT_TRUE(d_count < 0.015);
  CU_ASSERT_TRUE(d_last < 0.015);
  for (int i = 0; i < 2; i++) {
    free(count[i].value);
    free(last[i].value);
  }
  kvs_accept_free(&m);
  free_feed(&f);
}

static void acceptance_v1(void) { acceptance("traces/samples/mixed_eagle.h5", KVS_SPEC_V1); }
static void acceptance_v2(void) { acceptance("traces/samples/mixed_eagle_v2.h5", KVS_SPEC_V2); }

/* ---- texts and the radix tree, by hand ---- */

static void texts(void) {
  kvs_text a = {0}, b = {0}, c = {0};
  CU_ASSERT_EQUAL(kvs_text_append(&a, 100, 4, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_text_append(&a, 104, 2, NULL), KV_OK); /* goes on: one span */
  CU_ASSERT_EQUAL(kvs_text_append(&a, 900, 3, NULL), KV_OK);
  CU_ASSERT_EQUAL(a.spans, 2);
  CU_ASSERT_EQUAL(a.length, 9);
  CU_ASSERT_EQUAL(kvs_text_token(&a, 5), 105);
  CU_ASSERT_EQUAL(kvs_text_token(&a, 6), 900);
  CU_ASSERT_EQUAL(kvs_text_append(&b, 100, 5, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_text_append(&b, 105, 1, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_text_append(&b, 901, 3, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_text_common(&a, &b, 0, 100), 6);
  CU_ASSERT_EQUAL(kvs_text_common(&a, &b, 2, 100), 4);
  CU_ASSERT_EQUAL(kvs_text_common(&a, &b, 2, 3), 3);
  CU_ASSERT_EQUAL(kvs_text_common(&a, &b, 6, 100), 0);
  CU_ASSERT_EQUAL(kvs_text_common(&a, &b, 9, 100), 0);
  CU_ASSERT_EQUAL(kvs_text_append_part(&c, &a, 4, 8, NULL), KV_OK);
  CU_ASSERT_EQUAL(c.length, 4);
  CU_ASSERT_EQUAL(kvs_text_token(&c, 1), 105);
  CU_ASSERT_EQUAL(kvs_text_token(&c, 3), 901);
  kvs_text_free(&a);
  kvs_text_free(&b);
  kvs_text_free(&c);
}

typedef struct evicted {
  int32_t slot[64];
  uint32_t n;
} evicted;

static kv_status take_leaf(void *arg, const int32_t *slots, uint32_t n, kv_error *err) {
  evicted *e = arg;
  (void)err;
  memcpy(e->slot + e->n, slots, n * sizeof *slots);
  e->n += n;
  return KV_OK;
}

/* Two strings that part after 3 tokens: the first is split; the leaf touched last stays longest; a lock protects. */
static void radix(void) {
  kvs_radix r;
  kvs_text a = {0}, b = {0};
  kvs_node *last;
  int32_t out[16];
  uint32_t n;
  evicted e = {{0}, 0};
  CU_ASSERT_EQUAL(kvs_radix_init(&r, 1, false, NULL), KV_OK);
  (void)kvs_text_append(&a, 10, 6, NULL);
  (void)kvs_text_append(&b, 10, 3, NULL);
  (void)kvs_text_append(&b, 70, 2, NULL);
  CU_ASSERT_EQUAL(kvs_radix_insert(&r, &a, 6, (const int32_t[]){1, 2, 3, 4, 5, 6}, &n, NULL), KV_OK);
  CU_ASSERT_EQUAL(n, 0);
  CU_ASSERT_EQUAL(kvs_radix_insert(&r, &b, 5, (const int32_t[]){21, 22, 23, 24, 25}, &n, NULL), KV_OK);
  CU_ASSERT_EQUAL(n, 3); /* 21..23 stay the caller's */
  CU_ASSERT_EQUAL(r.evictable, 8);
  CU_ASSERT_EQUAL(kvs_radix_match(&r, &b, 5, out, &n, &last, NULL), KV_OK);
  CU_ASSERT_EQUAL(n, 5);
  CU_ASSERT_EQUAL(out[2], 3);
  CU_ASSERT_EQUAL(out[4], 25);
  kvs_radix_lock(&r, last);
  CU_ASSERT_EQUAL(r.evictable, 3);
  CU_ASSERT_EQUAL(r.protected_, 5);
  CU_ASSERT_EQUAL(kvs_radix_evict(&r, 100, take_leaf, &e, NULL), KV_OK);
  CU_ASSERT_EQUAL(e.n, 3); /* the other leaf alone: 4, 5, 6 */
  CU_ASSERT_EQUAL(e.slot[0], 4);
  CU_ASSERT_EQUAL(kvs_radix_unlock(&r, last, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_radix_evict(&r, 1, take_leaf, &e, NULL), KV_OK);
  CU_ASSERT_EQUAL(e.n, 5); /* a whole leaf: 24, 25 */
  CU_ASSERT_EQUAL(e.slot[4], 25);
  CU_ASSERT_EQUAL(kvs_radix_evict(&r, 1, take_leaf, &e, NULL), KV_OK);
  CU_ASSERT_EQUAL(e.n, 8); /* then what was their parent: 1, 2, 3 */
  CU_ASSERT_EQUAL(e.slot[5], 1);
  CU_ASSERT_EQUAL(r.evictable, 0);
  kvs_radix_free(&r);
  kvs_text_free(&a);
  kvs_text_free(&b);
}

/* Pages of 4: only whole pages are kept, and strings that differ inside a page share none of it. Bigrams: one less. */
static void radix_pages_and_bigrams(void) {
  kvs_radix r;
  kvs_text a = {0}, b = {0};
  kvs_node *last;
  int32_t out[16];
  const int32_t slots[] = {40, 41, 42, 43, 80, 81, 82, 83, 120, 121};
  uint32_t n;
  (void)kvs_text_append(&a, 10, 10, NULL);
  (void)kvs_text_append(&b, 10, 6, NULL);
  (void)kvs_text_append(&b, 99, 4, NULL);
  CU_ASSERT_EQUAL(kvs_radix_init(&r, 4, false, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_radix_insert(&r, &a, 10, slots, &n, NULL), KV_OK);
  CU_ASSERT_EQUAL(r.evictable, 8);
  CU_ASSERT_EQUAL(kvs_radix_match(&r, &b, 10, out, &n, &last, NULL), KV_OK);
  CU_ASSERT_EQUAL(n, 4);
  kvs_radix_free(&r);
  CU_ASSERT_EQUAL(kvs_radix_init(&r, 1, true, NULL), KV_OK);
  CU_ASSERT_EQUAL(kvs_radix_units(&r, 10), 9);
  CU_ASSERT_EQUAL(kvs_radix_insert(&r, &a, 10, slots, &n, NULL), KV_OK);
  CU_ASSERT_EQUAL(r.evictable, 9);
  CU_ASSERT_EQUAL(kvs_radix_match(&r, &b, 10, out, &n, &last, NULL), KV_OK);
  CU_ASSERT_EQUAL(n, 5); /* 6 common tokens: 5 pairs */
  kvs_radix_free(&r);
  kvs_text_free(&a);
  kvs_text_free(&b);
}

/* ---- full pools ---- */

static kvt_workload random_workload(const gsl_rng *rng, uint32_t n) {
  kvt_workload w = {.format = KVT_WORKLOAD_MOONCAKE, .request = calloc(n, sizeof *w.request), .requests = n,
                    .hash = calloc(n * 8, sizeof *w.hash)};
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    kvt_workload_request *q = &w.request[i];
    at += (int64_t)gsl_rng_uniform_int(rng, 100000);
    *q = (kvt_workload_request){.row = (int32_t)i, .arrival_us = at, .input = 1 + (int32_t)gsl_rng_uniform_int(rng, 3000),
                                .output = 1 + (int32_t)gsl_rng_uniform_int(rng, 200), .first_hash = w.hashes, .predecessor = -1};
    q->hashes = ((uint32_t)q->input + 511) / 512;
    for (uint32_t k = 0; k < q->hashes; k++) w.hash[w.hashes++] = (int64_t)gsl_rng_uniform_int(rng, k ? 3 : 2) + 10 * k;
  }
  (void)kvt_workload_infer_turns(&w, NULL);
  return w;
}

typedef struct strict {
  kvs_replay *replay;
  kvt_step row;
  uint64_t events;
} strict;

/* A batch of one event for the replay. */
static kv_status feed_replay(strict *s, const kvt_event *e, const kvt_step *row, kv_error *err) {
  const uint8_t kind = (uint8_t)e->kind;
  const uint32_t step = e->kind == KVT_STEP ? kvs_replay_step(s->replay) + 1 : kvs_replay_step(s->replay);
  const kvt_batch b = {.first_event = s->events++, .events = 1, .slots = e->count, .steps = row != NULL, .kind = &kind, .step = &step,
                       .request = &e->request, .position = &e->position, .length = &e->length, .aux = &e->aux, .count = &e->count,
                       .slot = e->slots, .step_rows = row};
  return kvs_replay_batch(s->replay, &b, err);
}

static kv_status strict_step(void *arg, kvt_step_type type, const kvt_step *row, kv_error *err) {
  const kvt_event e = {.kind = KVT_STEP, .request = -1, .position = -1, .length = -1, .aux = (int32_t)type};
  return feed_replay(arg, &e, row, err);
}
static kv_status strict_event(void *arg, const kvt_event *e, kv_error *err) { return feed_replay(arg, e, NULL, err); }

/* Random workloads in pools a little larger than one request: the strict replay, which holds every slot against the
 * free list and every count against the pool, takes all of it; everybody finishes; what is allocated is in the cache. */
static void small_pools(void) {
  gsl_rng *rng = gsl_rng_alloc(gsl_rng_mt19937);
  uint64_t retracted = 0, runs = 0;
  gsl_rng_set(rng, 42);
  for (uint32_t i = 0; i < 200; i++) {
    kvs_serving_options o = options_of((kvs_speculation)(i % 3), gsl_rng_uniform(rng));
    bool paged = o.speculation != KVS_SPEC_V1 && gsl_rng_uniform(rng) < 0.5, sorted = gsl_rng_uniform(rng) < 0.3;
    o.page_size = paged ? 1u << (1 + gsl_rng_uniform_int(rng, 6)) : 1;
    o.allocator = paged ? (sorted ? KVT_ALLOC_PAGED_SORTED : KVT_ALLOC_PAGED) : sorted ? KVT_ALLOC_TOKEN_SORTED : KVT_ALLOC_TOKEN;
    o.pool_size = (uint32_t)(3600 + gsl_rng_uniform_int(rng, 6000)) / 64 * 64;
    o.chunk = 64u << gsl_rng_uniform_int(rng, 6);
    o.max_running = 1 + (uint32_t)gsl_rng_uniform_int(rng, 40);
    o.evict_shortfall = gsl_rng_uniform(rng) < 0.5;
    o.seed = i;
    kvt_workload w = random_workload(rng, 1 + (uint32_t)gsl_rng_uniform_int(rng, 60));
    kvt_info info = {.allocator = o.allocator, .page_size = o.page_size, .first_slot = o.page_size, .pool_size = o.pool_size, .requests = w.requests};
    kvs_replay_options ro = kvs_replay_options_default();
    kvs_serving_totals t;
    kvs_final_lists final = {0};
    strict s = {0};
    kv_error err = {KV_OK, ""};
    const kvs_serving_sink sink = {&s, strict_step, strict_event, NULL};
    ro.every = 0;
    CU_ASSERT_EQUAL_FATAL(kvs_replay_create(&info, &ro, NULL, &s.replay, &err), KV_OK);
    kv_status st = kvs_serve(&w, &o, &sink, &t, &final, &err);
    if (!st) st = kvs_replay_finish(s.replay, &err);
    if (st) fprintf(stderr, "workload %u: %s\n", i, err.text);
    CU_ASSERT_EQUAL(st, KV_OK);
    if (!st) {
      const kvs_freelist *l = kvs_replay_get_freelist(s.replay);
      CU_ASSERT_EQUAL(t.finished, w.requests);
      CU_ASSERT_EQUAL(kvs_replay_running(s.replay), 0);
      CU_ASSERT_EQUAL(final.free_n, l->count);
      CU_ASSERT_EQUAL(final.release_n, l->released);
      if (!paged) CU_ASSERT_EQUAL(t.allocated - t.freed, o.pool_size - final.free_n - final.release_n);
    }
    retracted += t.retracted;
    runs++;
    free(final.free_list);
    free(final.release_list);
    kvs_replay_free(s.replay);
    kvt_workload_free(&w);
  }
  printf("(%llu workloads, %llu retractions) ", (unsigned long long)runs, (unsigned long long)retracted);
  CU_ASSERT_TRUE(retracted > 100);
  gsl_rng_free(rng);
}

/* The same seed gives the same file, another seed another one. */
static void seeds(void) {
  char sha[3][65];
  kvt_workload w;
  kvs_serving_options o = options_of(KVS_SPEC_V1, 0.04);
  CU_ASSERT_TRUE(sample_workload(&w, false));
  w.requests = 60;
  CU_ASSERT_EQUAL(setenv("SOURCE_DATE_EPOCH", "1700000000", 1), 0);
  for (int i = 0; i < 3; i++) {
    o.seed = i == 2 ? 8 : 7;
    CU_ASSERT_EQUAL(kv_sha256_file(simulated(&w, &o, "seed.h5"), sha[i], NULL), KV_OK);
  }
  CU_ASSERT_EQUAL(unsetenv("SOURCE_DATE_EPOCH"), 0);
  CU_ASSERT_STRING_EQUAL(sha[0], sha[1]);
  CU_ASSERT_STRING_NOT_EQUAL(sha[0], sha[2]);
  kvt_workload_free(&w);
}

/* ---- what cannot be meant ---- */

static kv_status try_options(kvs_serving_options o) {
  kvt_workload_request q = {.input = 100, .output = 10, .predecessor = -1};
  const kvt_workload w = {.request = &q, .requests = 1, .source = "a test"};
  const kvs_serving_sink sink = {NULL, NULL, NULL, NULL};
  kvs_serving_totals t;
  kv_error err;
  return kvs_serve(&w, &o, &sink, &t, NULL, &err);
}

static void refused(void) {
  kvs_serving_options o = kvs_serving_options_default();
  o.page_size = 64;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_USAGE); /* pages with the token allocator */
  o.allocator = KVT_ALLOC_PAGED;
  o.speculation = KVS_SPEC_V1;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_USAGE);
  o = kvs_serving_options_default();
  o.allocator = KVT_ALLOC_OTHER;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_USAGE);
  o = kvs_serving_options_default();
  o.time_scale = NAN;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_USAGE);
  o = options_of(KVS_SPEC_V2, 1);
  o.draft_tokens = KVS_DRAFT_MOST + 1;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_USAGE);
  o = kvs_serving_options_default();
  o.pool_size = 110;
  CU_ASSERT_EQUAL(try_options(o), KV_ERR_INPUT); /* 100 + 10 tokens can never fit */
}

/* ---- the program ---- */

static void program(void) {
  char *out = NULL, *err = NULL, trace[512], data[512];
  json_error_t where;
  (void)snprintf(trace, sizeof trace, "%s", kv_tmp("serving-cli.h5"));
  (void)snprintf(data, sizeof data, "%s", kv_tmp("serving-cli.kvsim.h5"));
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s import --mooncake '%s' --first 100 --time-scale 0.04 --pool 200k --speculation v1 --json -o '%s'",
                         kv_program("kvsim"), kv_source("traces/samples/mooncake_sessions.jsonl"), trace), 0);
  json_t *said = json_loads(out, 0, &where);
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(said, "finished")), 100);
  CU_ASSERT_TRUE(json_integer_value(json_object_get(said, "slots_evicted")) > 0);
  free(out);
  free(err);
  CU_ASSERT_EQUAL(kv_run(&out, &err, "%s replay '%s' --json --no-report -o '%s'", kv_program("kvsim"), trace, data), 0);
  CU_ASSERT_STRING_EQUAL(err, "");
  json_t *replayed = json_loads(out, 0, &where);
  CU_ASSERT_TRUE(json_is_true(json_object_get(json_object_get(replayed, "final_free_list"), "matches_recording")));
  CU_ASSERT_EQUAL(json_integer_value(json_object_get(replayed, "slots_allocated")), json_integer_value(json_object_get(said, "slots_allocated")));
  json_decref(said);
  json_decref(replayed);
  free(out);
  free(err);
  CU_ASSERT_EQUAL(kv_run(&out, NULL, "%s info '%s'", kv_program("kvsim"), trace), 0);
  CU_ASSERT_PTR_NOT_NULL(strstr(out, "simulated: "));
  free(out);
}

static void program_refuses(void) {
  char kvsim[512], load[512], to[512];
  (void)snprintf(kvsim, sizeof kvsim, "%s", kv_program("kvsim"));
  (void)snprintf(load, sizeof load, "%s", kv_source("traces/samples/mooncake_sessions.jsonl"));
  (void)snprintf(to, sizeof to, "%s", kv_tmp("refused.h5"));
  const struct {
    int status;
    const char *options;
  } c[] = {{2, "--page 0"}, {2, "--page 64 --speculation v1"}, {2, "--acceptance 0.5"}, {2, "--speculation v3"}, {2, "--draft 1,2 --speculation v2"},
           {2, "--time-scale -1"}, {2, "--turns maybe"}, {2, "--first 0"}, {2, "--acceptance 1 --speculation v1"}, {3, "--pool 5000"}, {0, "--dry-run"}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    char *err = NULL;
    int status = kv_run(NULL, &err, "%s import -q --mooncake '%s' %s -o '%s'", kvsim, load, c[i].options, to);
    CU_ASSERT_EQUAL(status, c[i].status);
    if (status != c[i].status) fprintf(stderr, "%s: %d %s\n", c[i].options, status, err);
    if (c[i].status) CU_ASSERT_EQUAL(strcspn(err, "\n") + 1, strlen(err)); /* one line */
    free(err);
  }
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "test -e '%s'", to), 1);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s import '%s' --pool 5000", kvsim, kv_source("traces/samples/mixed_eagle.h5")), 2);
  CU_ASSERT_EQUAL(kv_run(NULL, NULL, "%s import --azure /nonexistent", kvsim), 5);
}

void suite_serving(void) {
  static const kv_test_case cases[] = {{"event by event: v1 sample", sample_v1},
                                       {"event by event: v2 sample", sample_v2},
                                       {"event by event: RECORDINGS of the sample", recordings_of_the_sample},
                                       {"event by event: RECORDINGS of WORKLOADS", recordings_of_workloads},
                                       {"two-sample test, by hand", ks_itself},
                                       {"acceptance v1", acceptance_v1},
                                       {"acceptance v2", acceptance_v2},
                                       {"scatter v1, own acceptance", scatter_v1},
                                       {"scatter v2, own acceptance", scatter_v2},
                                       {"texts", texts},
                                       {"radix tree", radix},
                                       {"radix tree, pages and bigrams", radix_pages_and_bigrams},
                                       {"small pools", small_pools},
                                       {"seeds", seeds},
                                       {"refused options", refused},
                                       {"kvsim import --mooncake", program},
                                       {"kvsim import refuses", program_refuses},
                                       {NULL, NULL}};
  kv_suite("serving", cases);
}
