/* Our extend_serial beside SGLang's Triton kernel: same process, data, harness. See README.md.
 *
 * gpu-peer-triton [key=value ...]: kernels=build/peer out=. what=check,time,count gpu=h200_sxm heads=8 prefix=4096,...
 * few_heads=16,64 few_prefix=4096,131072 count_heads=8,64 count_prefix=16384,131072 reps=9 warmup=1 pool=2000000 limit=150 (s, for the times) count_limit=120
 * what=read only reads the descriptions and needs no GPU.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cupti_counters.h"
#include "peer_problem.h"
#include "stats.h"

enum { LIST = 16, TILES = 2, VARIANTS = 5, CONTESTANTS = TILES * VARIANTS, MOST_REPS = 200 };

typedef struct setup {
  char kernels[300], out[300], what[60], gpu[40];
  long heads[LIST], prefix[LIST], few_heads[LIST], few_prefix[LIST], count_heads[LIST], count_prefix[LIST], reps, warmup, pool, limit, count_limit;
} setup;

/* A kernel in the race: SGLang's or ours. */
typedef struct contestant {
  char name[48];
  bool peer;
  peer_kernel theirs;
  peer_ours ours;
  kvk_contender run;
} contestant;

typedef struct bench {
  const setup *s;
  kvk_device *device;
  kvk_options options;
  peer_problem problem;
  contestant in[CONTESTANTS];
  long heads; /* of the contestants loaded; 0 none */
  FILE *times, *ratios, *counts;
  double started, lowest_clock;
  unsigned throttled;
  kv_error differs; /* a wrong output does not end the run: its time may say why */
} bench;

/* ---- options ---- */

static void numbers(const char *text, long *to) {
  int n = 0;
  memset(to, 0, LIST * sizeof *to);
  for (char *end; n < LIST - 1 && *text; text = *end ? end + 1 : end) to[n++] = strtol(text, &end, 10);
}

static bool take_text(setup *s, const char *key, const char *value) {
  const struct {
    const char *key;
    char *to;
    size_t size;
  } field[] = {{"kernels", s->kernels, sizeof s->kernels}, {"out", s->out, sizeof s->out}, {"what", s->what, sizeof s->what}, {"gpu", s->gpu, sizeof s->gpu}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    if (!strcmp(key, field[i].key)) {
      (void)snprintf(field[i].to, field[i].size, "%s", value);
      return true;
    }
  return false;
}

static bool take_numbers(setup *s, const char *key, const char *value) {
  const struct {
    const char *key;
    long *to;
    bool list;
  } field[] = {{"heads", s->heads, true},           {"prefix", s->prefix, true},
               {"few_heads", s->few_heads, true},   {"few_prefix", s->few_prefix, true},
               {"count_heads", s->count_heads, true}, {"count_prefix", s->count_prefix, true},
               {"reps", &s->reps, false},           {"warmup", &s->warmup, false},
               {"pool", &s->pool, false},           {"limit", &s->limit, false},
               {"count_limit", &s->count_limit, false}};
  for (size_t i = 0; i < sizeof field / sizeof *field; i++)
    if (!strcmp(key, field[i].key)) {
      if (field[i].list) numbers(value, field[i].to);
      else *field[i].to = atol(value);
      return true;
    }
  return false;
}

static kv_status parse(int argc, char **argv, setup *s, kv_error *err) {
  for (int i = 1; i < argc; i++) {
    char key[32];
    const char *eq = strchr(argv[i], '=');
    (void)snprintf(key, sizeof key, "%.*s", eq ? (int)(eq - argv[i]) : 0, argv[i]);
    if (!eq || !(take_text(s, key, eq + 1) || take_numbers(s, key, eq + 1)))
      return kv_fail(err, KV_ERR_USAGE, "%s: not one of the key=value options that the head of gpu_peer_triton.c lists", argv[i]);
  }
  if (s->reps < 1 || s->reps > MOST_REPS) return kv_fail(err, KV_ERR_USAGE, "reps=%ld: 1 to %d", s->reps, MOST_REPS);
  if (s->pool < PEER_MOST_PREFIX + 1000 || s->pool > INT32_MAX) return kv_fail(err, KV_ERR_USAGE, "pool=%ld: %d rows or more", s->pool, PEER_MOST_PREFIX + 1000);
  return KV_OK;
}

/* ---- who runs ---- */

/* Of each tile: SGLang's for a chain, for any tree (with a mask array), the first with the L1 that the driver would leave it;
 * ours, and ours with that L1. */
static const struct variant {
  const char *mask, *suffix; /* mask NULL: ours */
  bool least_l1;
} variants[VARIANTS] = {{"causal", "", true}, {"tree", "_tree", true}, {"causal", "_more_l1", false}, {NULL, "", true}, {NULL, "_more_l1", false}};

static kv_status load(bench *b, int tile, int variant, long heads, kv_error *err) {
  const struct variant *v = &variants[variant];
  contestant *c = &b->in[tile * VARIANTS + variant];
  const int keys = tile ? 32 : 64;
  char stem[400];
  kv_status st = KV_OK;
  memset(c, 0, sizeof *c);
  c->peer = v->mask != NULL;
  (void)snprintf(c->name, sizeof c->name, "%s_32x%d%s", c->peer ? "sglang_extend" : "extend_serial", keys, v->suffix);
  (void)snprintf(stem, sizeof stem, "%s/extend_32x%d_h%ld_%s", b->s->kernels, keys, heads, c->peer ? v->mask : "");
  if (c->peer) st = peer_kernel_load(stem, v->least_l1, &c->theirs, err);
  c->ours = (peer_ours){.kind = tile ? KVK_EXTEND_SERIAL_32 : KVK_EXTEND_SERIAL_64, .problem = &b->problem.ours, .options = &b->options, .more_l1 = !v->least_l1};
  c->run = (kvk_contender){.name = c->name, .enqueue = c->peer ? peer_kernel_enqueue : peer_ours_enqueue, .self = c->peer ? (void *)&c->theirs : (void *)&c->ours};
  return st;
}

static void unload(bench *b) {
  for (int i = 0; i < CONTESTANTS; i++) {
    peer_kernel_close(&b->in[i].theirs);
    peer_ours_close(&b->in[i].ours);
  }
  b->heads = 0;
}

/* All contestants on one problem. */
static kv_status set(bench *b, long heads, long prefix, peer_layout layout, kv_error *err) {
  kv_status st = KV_OK;
  if (b->heads != heads) {
    unload(b);
    for (int i = 0; !st && i < CONTESTANTS; i++) st = load(b, i / VARIANTS, i % VARIANTS, heads, err);
    if (!st) b->heads = heads;
  }
  if (!st) st = peer_problem_set(&b->problem, (int)heads, prefix, layout, err);
  for (int i = 0; !st && i < CONTESTANTS; i++) {
    contestant *c = &b->in[i];
    st = c->peer ? peer_kernel_bind(&c->theirs, b->problem.arrays, PEER_ARRAYS, err) : peer_ours_prepare(&c->ours, err);
  }
  return st;
}

/* ---- do they agree ---- */

static kv_status output_of(bench *b, contestant *c, uint16_t *out, size_t values, kv_error *err) {
  uint16_t *from = c->peer ? b->problem.out : b->problem.out_ours;
  kv_status st = kvk_device_put(b->device, from, out, values * 2, err); /* not what another left there */
  if (!st) st = c->run.enqueue(c->run.self, kvk_device_stream(b->device), err);
  if (!st) st = kvk_device_wait(b->device, err);
  return st ? st : kvk_device_take(b->device, out, from, values * 2, err);
}

static kv_status agree(bench *b, long heads, long prefix, peer_layout layout, kv_error *err) {
  const size_t values = (size_t)b->problem.queries * (size_t)heads * KVK_LATENT;
  const kvk_tolerance tolerance = kvk_default_tolerance(0.6, 1);
  double *reference = NULL;
  uint16_t *out = malloc(values * 2);
  kv_status st = out ? set(b, heads, prefix, layout, err) : kv_fail(err, KV_ERR_MEMORY, "check: out of memory");
  if (!st) st = peer_problem_reference(&b->problem, prefix, layout, &reference, err);
  for (int i = 0; !st && i < CONTESTANTS; i++) {
    kvk_difference d;
    kv_error inner = {KV_OK, ""};
    memset(out, 0x7f, values * 2);
    st = output_of(b, &b->in[i], out, values, err);
    if (st) break;
    kvk_problem host = b->problem.ours;
    const kv_status same = kvk_compare(&host, out, NULL, reference, NULL, &tolerance, &d, &inner);
    (void)printf("check %-32s h%-3ld L%-7ld %-10s cosine difference %.1e, worst %.2f of the tolerance%s%s\n", b->in[i].name, heads, prefix,
                 peer_layout_name[layout], d.cosine, d.worst_out, same ? ": DIFFERS: " : "", inner.text);
    if (same && !b->differs.status) (void)kv_fail(&b->differs, same, "%s at %ld heads, %ld tokens: %.400s", b->in[i].name, heads, prefix, inner.text);
  }
  free(reference);
  free(out);
  return st;
}

static kv_status check(bench *b, kv_error *err) {
  const long heads = b->s->heads[0] ? b->s->heads[0] : b->s->few_heads[0];
  kv_status st = agree(b, heads, 70, PEER_RANDOM, err);
  if (!st) st = agree(b, heads, 4096, PEER_RANDOM, err);
  if (!st) st = agree(b, heads, 1000, PEER_ALIASED, err);
  for (int i = 0; !st && i < LIST && b->s->few_heads[i]; i++) st = agree(b, b->s->few_heads[i], 500, PEER_CONTIGUOUS, err);
  return st;
}

/* ---- times ---- */

static double now(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static kv_status write_series(bench *b, const contestant *c, const kvk_series *s, const char *layout, long prefix, kva_summary *m, kv_error *err) {
  const kv_status st = kva_summarise(s->seconds, s->count, 1, m, err);
  if (st) return st;
  (void)fprintf(b->times, "%s\t%ld\t%d\t1\t%ld\t1152\t%s\t%.1f\t%.1f\t%.1f\n", c->name, b->heads, b->problem.queries, prefix, layout, 1e6 * m->median,
                1e6 * m->low, 1e6 * m->high);
  (void)printf("%-32s h%-3ld L%-7ld %-17s %10.1f us (%.1f to %.1f), %3u runs, SM %.0f MHz%s\n", c->name, b->heads, prefix, layout, 1e6 * m->median,
               1e6 * m->low, 1e6 * m->high, s->count, s->state.sm_clock, s->throttled ? ", THROTTLED" : "");
  if (s->state.sm_clock < b->lowest_clock) b->lowest_clock = s->state.sm_clock;
  b->throttled += s->throttled;
  return KV_OK;
}

/* Every contestant of a tile over SGLang's kernel as SGLang launches it, the first. */
static kv_status write_ratios(bench *b, const kvk_series *s, const char *layout, long prefix, kv_error *err) {
  kv_status st = KV_OK;
  for (int i = 0; !st && i < CONTESTANTS; i++) {
    const int base = i / VARIANTS * VARIANTS;
    kva_interval r;
    if (i == base) continue;
    st = kva_ratio(s[i].seconds, s[i].count, s[base].seconds, s[base].count, 1, 1, &r, err);
    if (!st)
      (void)fprintf(b->ratios, "%s\t%s\t%ld\t%ld\t%s\t%.4f\t%.4f\t%.4f\n", b->in[i].name, b->in[base].name, b->heads, prefix, layout, r.value, r.low, r.high);
    if (!st) (void)printf("  %-32s over %-22s %.3f (%.3f to %.3f)\n", b->in[i].name, b->in[base].name, r.value, r.low, r.high);
  }
  return st;
}

static kv_status time_point(bench *b, long heads, long prefix, peer_layout layout, bool graph, kv_error *err) {
  static double seconds[CONTESTANTS][MOST_REPS];
  const kvk_plan plan = {.warmup = (uint32_t)b->s->warmup, .repeats = (uint32_t)b->s->reps, .cold = true, .seed = (uint64_t)prefix};
  kvk_contender run[CONTESTANTS];
  kvk_series series[CONTESTANTS] = {0};
  char name[32];
  kva_summary m;
  if (now() - b->started > (double)b->s->limit) {
    (void)printf("left out, limit=%ld s is over: h%ld L%ld %s\n", b->s->limit, heads, prefix, peer_layout_name[layout]);
    return KV_OK;
  }
  kv_status st = set(b, heads, prefix, layout, err);
  for (int i = 0; i < CONTESTANTS; i++) {
    run[i] = b->in[i].run;
    run[i].graph = graph;
    series[i].seconds = seconds[i];
  }
  (void)snprintf(name, sizeof name, "%s%s", peer_layout_name[layout], graph ? "" : ",eager");
  if (!st) st = kvk_device_measure(b->device, run, CONTESTANTS, &plan, series, err);
  for (int i = 0; !st && i < CONTESTANTS; i++) st = write_series(b, &b->in[i], &series[i], name, prefix, &m, err);
  if (!st) st = write_ratios(b, series, name, prefix, err);
  (void)fflush(NULL); /* what is done is kept if the machine is taken away */
  return st;
}

static kv_status time_all(bench *b, const long *heads, const long *prefix, bool graph, kv_error *err) {
  kv_status st = KV_OK;
  for (int h = 0; heads[h]; h++)
    for (int l = 0; l < PEER_LAYOUTS; l++)
      for (int p = 0; !st && prefix[p]; p++) st = time_point(b, heads[h], prefix[p], (peer_layout)l, graph, err);
  return st;
}

/* ---- counters ---- */

static kv_status count_point(bench *b, kvk_counting *counting, long heads, long prefix, peer_layout layout, kv_error *err) {
  kv_status st = set(b, heads, prefix, layout, err);
  for (int i = 0; !st && i < CONTESTANTS; i++) {
    kvk_counters c;
    st = kvk_counting_run(counting, &b->in[i].run, &c, err);
    if (st) break;
    (void)fprintf(b->counts, "%s\t%ld\t%ld\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t%.3f\t%.3f\t%.3f\t%.3f\n", b->in[i].name, b->heads, prefix,
                  peer_layout_name[layout], c.dram_read, c.dram_write, c.l2_read, c.link, c.wavefronts, c.instructions, c.cycles, c.issue_active_percent,
                  c.long_scoreboard, c.barrier, c.short_scoreboard, c.math_throttle);
    (void)printf("count %-32s h%-3ld L%-7ld %-10s DRAM %7.1f MB, link %7.3f GB, wavefronts %7.1f M, instructions %7.1f M, cycles %.2f M, issue %.1f %%\n",
                 b->in[i].name, b->heads, prefix, peer_layout_name[layout], 1e-6 * c.dram_read, 1e-9 * c.link, 1e-6 * c.wavefronts, 1e-6 * c.instructions,
                 1e-6 * c.cycles, c.issue_active_percent);
    (void)fflush(NULL);
  }
  return st;
}

static kv_status count_all(bench *b, kv_error *err) {
  static const peer_layout layouts[] = {PEER_RANDOM, PEER_CONTIGUOUS};
  const setup *s = b->s;
  kvk_counting *counting = NULL;
  kv_status st = kvk_counting_open(b->device, NULL, &counting, err);
  const double end = now() + (double)s->count_limit;
  for (int h = 0; s->count_heads[h]; h++)
    for (int l = 0; l < 2; l++)
      for (int p = 0; !st && s->count_prefix[p]; p++)
        if (now() < end) st = count_point(b, counting, s->count_heads[h], s->count_prefix[p], layouts[l], err);
        else (void)printf("not counted, count_limit=%ld s is over: h%ld L%ld %s\n", s->count_limit, s->count_heads[h], s->count_prefix[p], peer_layout_name[layouts[l]]);
  kvk_counting_close(counting);
  return st;
}

/* ---- the files ---- */

static kv_status create(const setup *s, const char *name, FILE **f, kv_error *err) {
  char path[400];
  (void)snprintf(path, sizeof path, "%s/%s", s->out, name);
  *f = fopen(path, "w");
  return *f ? KV_OK : kv_fail(err, KV_ERR_IO, "%s: cannot be written; out= must be a folder that is there", path);
}

static kv_status open_files(bench *b, const peer_kernel *k, kv_error *err) {
  const kvk_gpu *gpu = kvk_device_gpu(b->device);
  char driver[64] = "", date[32];
  const time_t today = time(NULL);
  kv_status st = create(b->s, "sglang_peer.tsv", &b->times, err);
  if (!st) st = create(b->s, "sglang_peer_ratios.tsv", &b->ratios, err);
  if (!st) st = create(b->s, "sglang_peer_counters.tsv", &b->counts, err);
  if (st) return st;
  kvk_nvml_driver(kvk_device_nvml(b->device), driver, sizeof driver);
  (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime(&today));
  (void)fprintf(b->times, "# format: kvmeasured-1\n# gpu: %s\n# device: %s\n# status: measured: %s, driver %s, %s\n", b->s->gpu, gpu->name, gpu->name, driver, date);
  (void)fprintf(b->times,
                "# what: SGLang %s's Triton %s verify kernel (_fwd_kernel, %u warps, %u stage, int64 slots) for a chain of nodes (causal); _tree: with a mask array; _more_l1: with "
                "the L1 that the driver leaves, not the least, as Triton asks. extend_serial: this project's, which asks for it too\n",
                k->sglang, k->triton, k->threads / 32, k->stages);
  (void)fprintf(b->times, "# how: gpu-peer-triton: pool of %ld rows of 1152 B, L2 flushed before every run, in turn, a CUDA graph each (eager: without); median of %ld runs and its 95 %% interval; "
                          "aliased: every slot replaced by slot mod 64\n", b->s->pool, b->s->reps);
  (void)fprintf(b->times, "kernel\theads\tqueries\tbatch\tprefix\trow_bytes\tlayout\tmedian_us\tlow_us\thigh_us\n");
  (void)fprintf(b->ratios, "kernel\tover\theads\tprefix\tlayout\tratio\tlow\thigh\n");
  (void)fprintf(b->counts, "kernel\theads\tprefix\tlayout\tdram_read\tdram_write\tl2_read\tlink\twavefronts\tinstructions\tcycles\tissue_active_percent\tlong_scoreboard\tbarrier\t"
                           "short_scoreboard\tmath_throttle\n");
  return KV_OK;
}

static kv_status close_files(bench *b, kv_error *err) {
  FILE *const files[] = {b->times, b->ratios, b->counts};
  kv_status st = KV_OK;
  if (b->times) (void)fprintf(b->times, "# clocks: lowest SM clock beside a point %.0f MHz, %u series throttled\n", b->lowest_clock, b->throttled);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i] && (ferror(files[i]) | fclose(files[i]))) st = kv_fail(err, KV_ERR_IO, "%s: a file could not be written whole", b->s->out);
  return st;
}

/* ---- all of it ---- */

static kv_status read_only(const setup *s, kv_error *err) {
  kv_status st = KV_OK;
  for (int h = 0; s->heads[h]; h++)
    for (int i = 0; !st && i < TILES * 2; i++) {
      peer_kernel k;
      char stem[400];
      (void)snprintf(stem, sizeof stem, "%s/extend_32x%d_h%ld_%s", s->kernels, i / 2 ? 32 : 64, s->heads[h], i % 2 ? "tree" : "causal");
      st = peer_kernel_read(stem, &k, err);
      if (!st)
        (void)printf("%s: SGLang %s, Triton %s, %u parameters, %u registers, %u B stack, %u B shared\n", stem, k.sglang, k.triton, k.params, k.registers, k.stack, k.shared);
    }
  return st;
}

static kv_status race(bench *b, kv_error *err) {
  const setup *s = b->s;
  peer_kernel k;
  char stem[400];
  (void)snprintf(stem, sizeof stem, "%s/extend_32x64_h%ld_causal", s->kernels, s->heads[0] ? s->heads[0] : s->few_heads[0]);
  kv_status st = peer_kernel_read(stem, &k, err);
  if (!st) st = open_files(b, &k, err);
  if (!st) st = peer_problem_open(b->device, s->pool, (int)k.queries, &b->problem, err);
  (void)printf("pool filled after %.1f s\n", now() - b->started);
  if (!st && strstr(s->what, "check")) st = check(b, err);
  if (!st && strstr(s->what, "time")) st = time_all(b, s->heads, s->prefix, true, err);
  if (!st && strstr(s->what, "time")) st = time_all(b, s->few_heads, s->few_prefix, true, err);
  if (!st && strstr(s->what, "time")) st = time_all(b, s->heads, s->few_prefix, false, err);
  (void)printf("timed after %.1f s\n", now() - b->started);
  if (!st && strstr(s->what, "count")) st = count_all(b, err);
  (void)printf("done after %.1f s\n", now() - b->started);
  return st;
}

int main(int argc, char **argv) {
  static setup s = {.kernels = "build/peer", .out = ".", .what = "check,time,count", .gpu = "h200_sxm", .heads = {8}, .prefix = {4096, 16384, 65536, 131072, 189440},
                    .few_heads = {16, 64}, .few_prefix = {4096, 131072}, .count_heads = {8, 64}, .count_prefix = {16384, 131072}, .reps = 9, .warmup = 1,
                    .pool = 2000000, .limit = 150, .count_limit = 120};
  static bench b = {.s = &s, .lowest_clock = INFINITY};
  char note[200] = "";
  kv_error err = {KV_OK, ""}, closing = {KV_OK, ""};
  kv_status st = parse(argc, argv, &s, &err);
  b.started = now();
  if (!st && strstr(s.what, "read")) st = read_only(&s, &err);
  else {
    if (!st) st = kvk_device_open(0, &b.device, note, sizeof note, &err);
    if (!st) st = kvk_device_options(0, &b.options, &err);
    if (!st) st = race(&b, &err);
  }
  if (note[0]) (void)fprintf(stderr, "gpu-peer-triton: %s\n", note);
  unload(&b);
  if (b.device) peer_problem_close(&b.problem);
  const kv_status closed = close_files(&b, &closing);
  kvk_device_close(b.device);
  if (closed && !st) st = closed, err = closing;
  if (b.differs.status && !st) st = b.differs.status, err = b.differs;
  if (st) (void)fprintf(stderr, "gpu-peer-triton: %s\n", err.text);
  return kv_exit_status(st);
}
