#include "roofline_print.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* "84.6 us", "-" for what is not known; text of at least 32. */
static const char *duration(double s, char *text) {
  if (isnan(s)) return "-";
  const char *unit = s >= 1 ? "s" : s >= 1e-3 ? "ms" : "us";
  (void)snprintf(text, 32, "%.*f %s", s >= 1 || s < 1e-3 ? 2 : 3,
                 s >= 1      ? s
                 : s >= 1e-3 ? s * 1e3
                             : s * 1e6,
                 unit);
  return text;
}

static const char *rate(double v, const char *unit, char *text) {
  if (isnan(v)) return "not known";
  (void)snprintf(text, 32, v >= 1e12 ? "%.3f T%s" : "%.3f G%s", v >= 1e12 ? v / 1e12 : v / 1e9, unit);
  return text;
}

static void print_ceiling(const char *name, const kvm_ceiling *c, const char *unit) {
  char text[32];
  printf("  %-10s %16s", name, rate(c->rate, unit, text));
  if (isnan(c->rate)) printf("\n");
  else
    printf("  %-18s %s: %.80s%s\n", kvm_kind_words(c->kind, c->source), c->name, c->source,
           strlen(c->source) > 80 ? "..." : "");
}

static void print_problem(const kva_run *run) {
  const kvm_verify *p = &run->point[0].problem;
  printf("problem  %u heads x %u queries, %u request%s, rows of %u + %u values (%s, %u B), %u layers\n",
         p->heads, p->queries, p->batch, p->batch == 1 ? "" : "s", p->latent, p->rope, run->dtype,
         p->row_bytes, run->layers);
  if (run->smem_limit) printf("limit    %u B of shared memory a block\n", run->smem_limit);
  printf("layout   %s", run->layout_name);
  if (!run->contiguous)
    printf(
        ": %llu tokens in all, longest %llu, %llu distinct rows in %llu runs (mean %.1f), %llu sectors of 32 "
        "B",
        (unsigned long long)run->layout_tokens, (unsigned long long)p->longest,
        (unsigned long long)run->layout.union_rows, (unsigned long long)run->layout.runs,
        run->layout.runs ? (double)run->layout_tokens / (double)run->layout.runs : 0.0,
        (unsigned long long)run->layout.sectors);
  printf("\n");
}

/* "4.480 TB/s  x1.02 (1.00 to 1.31)": the ceiling and how much longer than contiguous rows it takes. */
static void print_range(const char *name, const kva_gather_range *g) {
  char text[32];
  char like[32];
  printf("  %-10s %16s  %.2f of the time of as many rows side by side, %s", name, rate(g->at.ceiling, "B/s", text),
         g->at.scatter, rate(g->at.contiguous, "B/s", like));
  if (g->slow.scatter != g->fast.scatter)
    printf(" (%.2f to %.2f; %.3f to %.3f TB/s)", g->fast.scatter, g->slow.scatter, g->slow.ceiling / 1e12,
           g->fast.ceiling / 1e12);
  printf("\n");
}

static void print_gather(const kva_run *run) {
  const kva_gather *g = &run->gather;
  printf("gather of %u-B rows, saturated: %s%s%s\n", run->point[0].problem.row_bytes, g->status,
         g->why[0] ? ": " : "", g->why);
  if (g->kind == KVM_UNKNOWN) return;
  print_range(run->contiguous ? "contiguous" : "layout", &g->layout);
  print_range("random", &g->random);
  if (run->calibration[0] && !g->adapted)
    printf("  of the card that the memory model describes, not of the one that the ceilings above were measured on: cards of a "
           "kind lie up to 10 %% apart (models/README.md)\n");
  if (!run->contiguous && g->layout.at.contiguous < 0.95 * g->random.at.contiguous)
    printf("  the layout's %llu rows are too few to keep the memory busy; random rows are of a list that does\n",
           (unsigned long long)run->layout_tokens);
}

static void print_memory(const kva_run *run) {
  const double need = kva_run_rows_bytes(run), have = kva_run_memory(run);
  if (need > have)
    printf("memory   does not fit: the rows of all %u layers take %.1f GB, the card has %.1f GB\n", run->layers,
           need / 1e9, have / 1e9);
}

static void print_ceilings(const kva_run *run) {
  char missing[300], borrowed[300];
  printf("ceilings of the chip\n");
  for (int r = 0; r < KVM_RESOURCES; r++)
    print_ceiling(kvm_resource_name((kvm_resource)r), &run->roofs.chip[r],
                  kvm_resource_unit((kvm_resource)r));
  print_ceiling("mma best", &run->roofs.mma_best, "FLOP/s");
  print_gather(run);
  double ridge = kvm_ridge(&run->roofs);
  if (!isnan(ridge))
    printf("  ridge point %.0f FLOP/B: below it memory is the floor, above it the matrix rate\n", ridge);
  kva_run_missing(run, missing, sizeof missing);
  if (missing[0]) printf("not known, so left out: %s\n", missing);
  kva_run_borrowed(run, borrowed, sizeof borrowed);
  const char *pipes = run->pipes ? run->pipes->arch : run->gpu->arch;
  bool own = !strcmp(pipes, run->gpu->arch);
  if (borrowed[0])
    printf("programs of another architecture's machine code, on the pipes of %s%s%s%s: %s\n", pipes, own ? "" : " (nobody described those of ",
           own ? "" : run->gpu->arch, own ? "" : ")", borrowed);
}

static void print_point(const kva_run *run, const kva_point *p) {
  char floor[32], work[32], place[32], serial[32], whole[32], step[40], bandwidth[32], time[32];
  const double least = kva_point_bound(p); /* without a T7 bounds stand there, and say so */
  const bool bound = !isnan(least);
  double gbs = bound && p->useful.kv_bytes > 0 ? p->useful.kv_bytes / least : kva_point_bandwidth(p);
  (void)snprintf(bandwidth, sizeof bandwidth, isnan(gbs) ? "-" : bound ? "<=%.1f" : "%.1f", gbs / 1e9);
  (void)snprintf(step, sizeof step, "%s%s", bound ? ">=" : "",
                 duration((bound ? least : kva_point_time(p)) * run->layers, time));
  printf("%-15s %9llu %7llu %8.1f %10.4g %10.4g %10s %10s %10s %10s %10s %10s %9s  %s\n",
         run->kernel[p->kernel].name, (unsigned long long)p->problem.longest,
         (unsigned long long)p->work.blocks, p->useful.intensity, p->work.chip[KVM_LINK] / 1e6,
         p->work.chip[KVM_MMA] / 1e9, duration(p->ladder.t[0], floor), duration(p->ladder.t[2], work),
         duration(p->ladder.t[4], place), duration(p->ladder.t[5], serial), duration(p->ladder.t[7], whole),
         step, bandwidth,
         p->work.fits ? kva_point_binding(p) : "does not fit: shared memory");
}

/* Which program stands behind each kernel's times. */
static void print_programs(const kva_run *run) {
  char words[160];
  for (uint64_t i = 0; i < run->points; i++) {
    const kva_point *p = &run->point[i];
    bool told = !p->program;
    for (uint64_t k = 0; !told && k < i; k++) told = run->point[k].kernel == p->kernel && run->point[k].program == p->program;
    if (told) continue;
    kva_program_words(p->program, words, sizeof words);
    printf("%-15s program: %s\n", run->kernel[p->kernel].name, words);
  }
}

static void print_raised(const kva_run *run) {
  for (uint64_t i = 0; i < run->points; i++)
    if (run->point[i].raised)
      printf("%s, %llu tokens: its program takes less than its work needs (T4), which stands for it: is all of the work "
             "in it?\n",
             run->kernel[run->point[i].kernel].name, (unsigned long long)run->point[i].problem.longest);
}

void roofline_print_incomplete(const kva_run *run) {
  for (uint64_t i = 0; i < run->points; i++) {
    const kva_point *p = &run->point[i];
    if (kva_point_incomplete(p))
      printf("%s, %llu tokens: its program executes %.1f GFLOP of the %.1f that are useful: are all matrix products (mma) "
             "in it?\n", run->kernel[p->kernel].name, (unsigned long long)p->problem.longest,
             p->work.chip[KVM_MMA] / 1e9, p->useful.flops / 1e9);
  }
}

/* Shares and gains of the modelled points, a line each. */
static void print_causes(const kva_run *run) {
  bool any = false;
  for (uint64_t i = 0; i < run->points; i++) any |= run->point[i].prediction.known;
  if (!any) return;
  printf("\n%-15s %9s %12s %23s ", "share, gain", "prefix", "time T7", "interval");
  for (int c = 0; c < KVM_CAUSES; c++) printf(" %15s", kvm_cause_name((kvm_cause)c));
  printf("\n");
  for (uint64_t i = 0; i < run->points; i++) {
    const kva_point *p = &run->point[i];
    char whole[32], low[32], high[32], range[80];
    if (!p->prediction.known) continue;
    (void)snprintf(range, sizeof range, "%s .. %s", duration(p->prediction.low, low),
                   duration(p->prediction.high, high));
    printf("%-15s %9llu %12s %23s ", run->kernel[p->kernel].name, (unsigned long long)p->problem.longest,
           duration(p->prediction.whole, whole), range);
    for (int c = 0; c < KVM_CAUSES; c++) {
      const kva_cause *x = &p->attribution.cause[c];
      if (x->known) printf(" %6.2f %7.2fx", x->nats, x->gain);
      else printf(" %15s", "not known");
    }
    printf("\n");
  }
}

void roofline_print_table(const kva_run *run, const char *note) {
  printf("%s: %s (%s, %s)%s\n", run->status, run->gpu->name, run->gpu->key, run->gpu->arch, note);
  print_problem(run);
  print_memory(run);
  print_ceilings(run);
  printf("\n%-15s %9s %7s %8s %10s %10s %10s %10s %10s %10s %10s %10s %9s  %s\n", "kernel", "prefix",
         "blocks", "FLOP/B", "link MB", "exec GFLOP", "T0 floor", "T2 work", "T4 placed", "T5 serial",
         "T7 whole", "all layers", "GB/s", "bound by");
  for (uint64_t i = 0; i < run->points; i++) print_point(run, &run->point[i]);
  print_programs(run);
  print_raised(run);
  roofline_print_incomplete(run);
  print_causes(run);
  printf("\n%s\n", run->verdict);
}

/* ---- JSON ---- */

static json_t *number(double v) {
  return isfinite(v) ? json_real(v) : json_null();
}

static json_t *ceiling_json(const kvm_ceiling *c, const char *unit) {
  return json_pack("{s:o, s:s, s:s, s:s, s:s}", "value", number(c->rate), "unit", unit, "kind",
                   kvm_kind_words(c->kind, c->source), "name", c->name, "source", c->source);
}

static json_t *ceilings_json(const kva_run *run) {
  json_t *all = json_object();
  for (int r = 0; r < KVM_RESOURCES; r++) {
    const char *unit = kvm_resource_unit((kvm_resource)r);
    json_t *one = json_pack("{s:o, s:o}", "chip", ceiling_json(&run->roofs.chip[r], unit), "sm",
                            ceiling_json(&run->roofs.sm[r], unit));
    (void)json_object_set_new(all, kvm_resource_name((kvm_resource)r), one);
  }
  (void)json_object_set_new(all, "mma_best",
                            json_pack("{s:o}", "chip", ceiling_json(&run->roofs.mma_best, "FLOP/s")));
  return all;
}

static json_t *work_json(const double work[KVM_RESOURCES]) {
  json_t *all = json_object();
  for (int r = 0; r < KVM_RESOURCES; r++)
    (void)json_object_set_new(all, kvm_resource_name((kvm_resource)r), number(work[r]));
  return all;
}

static json_t *causes_json(const kva_point *p) {
  json_t *all = json_object();
  for (int c = 0; c < KVM_CAUSES; c++) {
    const kva_cause *x = &p->attribution.cause[c];
    json_t *one = x->known ? json_pack("{s:f, s:[f,f], s:o, s:[o,o], s:b}", "nats", x->nats, "nats_interval",
                                       x->low, x->high, "gain", number(x->gain), "gain_interval",
                                       number(x->gain_low), number(x->gain_high), "gain_at_most", x->at_most)
                           : json_null();
    (void)json_object_set_new(all, kvm_cause_name((kvm_cause)c), one);
  }
  return all;
}

static json_t *point_json(const kva_run *run, const kva_point *p) {
  json_t *ladder = json_array();
  char words[160];
  kva_program_words(p->program, words, sizeof words);
  for (int i = 0; i < 8; i++) (void)json_array_append_new(ladder, number(p->ladder.t[i]));
  return json_pack(
      "{s:s, s:s, s:I, s:I, s:b, s:b, s:i, s:i, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, "
      "s:s, "
      "s:o, s:s}",
      "kernel", run->kernel[p->kernel].name, "program", words, "prefix", (json_int_t)p->problem.longest, "blocks",
      (json_int_t)p->work.blocks, "fits", p->work.fits, "work_incomplete",
      (int)kva_point_incomplete(p), "splits", (int)p->work.splits, "blocks_per_sm",
      (int)p->work.blocks_per_sm, "useful_bytes", p->useful.bytes, "useful_kv_bytes", p->useful.kv_bytes,
      "useful_flops", p->useful.flops, "intensity", p->useful.intensity, "work", work_json(p->work.chip),
      "work_busiest_sm", work_json(p->work.sm), "ladder_s", ladder, "time_s", number(kva_point_time(p)),
      "time_at_least_s", number(kva_point_bound(p)), "measured_s", number(p->measured), "effective_bandwidth",
      number(kva_point_bandwidth(p)), "binding", kva_point_binding(p), "time_low_s",
      number(p->prediction.known ? p->prediction.low : NAN), "time_high_s",
      number(p->prediction.known ? p->prediction.high : NAN), "dominating",
      p->prediction.known ? kvm_parameter_name(p->prediction.dominating) : "", "causes", causes_json(p),
      "verdict", p->attribution.verdict);
}

static json_t *problem_json(const kva_run *run) {
  const kvm_verify *p = &run->point[0].problem;
  return json_pack("{s:i, s:i, s:i, s:i, s:i, s:s, s:i, s:i, s:o, s:o}", "heads", (int)p->heads, "queries",
                   (int)p->queries, "latent", (int)p->latent, "rope", (int)p->rope, "row_bytes",
                   (int)p->row_bytes, "dtype", run->dtype, "batch", (int)p->batch, "layers",
                   (int)run->layers, "rows_bytes_all_layers", number(kva_run_rows_bytes(run)), "memory_bytes",
                   number(kva_run_memory(run)));
}

static json_t *gather_json(const kva_gather_range *g) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "ceiling", number(g->at.ceiling),
                   "ceiling_low", number(g->slow.ceiling), "ceiling_high", number(g->fast.ceiling), "scatter",
                   number(g->at.scatter), "scatter_slow", number(g->slow.scatter), "scatter_fast",
                   number(g->fast.scatter), "row_hits", number(g->at.row_hits), "amplification",
                   number(g->at.amplification));
}

static json_t *layout_json(const kva_run *run) {
  const kvm_verify *p = &run->point[0].problem;
  if (run->contiguous) return json_pack("{s:s}", "name", run->layout_name);
  return json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", run->layout_name, "tokens",
                   (json_int_t)run->layout_tokens, "rows", (json_int_t)p->union_rows, "runs",
                   (json_int_t)run->layout.runs, "sectors", (json_int_t)run->layout.sectors);
}

kv_status roofline_print_json(const kva_run *run, const char *note, kv_error *err) {
  char missing[300];
  json_t *points = json_array();
  for (uint64_t i = 0; i < run->points; i++)
    (void)json_array_append_new(points, point_json(run, &run->point[i]));
  kva_run_missing(run, missing, sizeof missing);
  json_t *root = json_pack(
      "{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:{s:s, s:o, s:o}, s:o, s:s, s:o, s:s}", "schema",
      "roofline-1", "schema_version", 1, "status", run->status, "gpu", run->gpu->key, "gpu_name",
      run->gpu->name, "arch", run->gpu->arch, "note", note + strspn(note, "; "), "problem", problem_json(run),
      "layout", layout_json(run), "ceilings", ceilings_json(run), "gather", "status",
      run->gather.status, "layout", gather_json(&run->gather.layout), "random",
      gather_json(&run->gather.random), "ridge", number(kvm_ridge(&run->roofs)), "missing", missing, "points",
      points, "verdict", run->verdict);
  if (root && run->smem_limit) (void)json_object_set_new(root, "smem_limit", json_integer(run->smem_limit));
  if (!root) return kv_fail(err, KV_ERR_INTERNAL, "the result cannot be written as JSON");
  (void)json_dumpf(root, stdout,
                   JSON_INDENT(1) | JSON_REAL_PRECISION(12)); /* kv_cli_exit() sees a failed stdout */
  (void)putchar('\n');
  json_decref(root);
  return KV_OK;
}
