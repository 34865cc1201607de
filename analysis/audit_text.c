/* The audit as text. */
#include <stdlib.h>
#include <string.h>

#include "audit.h"

static void megabytes(uint64_t bytes, char text[24]) {
  if (bytes < 10000)
    (void)snprintf(text, 24, "%llu B", (unsigned long long)bytes);
  else if (bytes < 10000000)
    (void)snprintf(text, 24, "%.1f kB", (double)bytes / 1e3);
  else
    (void)snprintf(text, 24, "%.1f MB", (double)bytes / 1e6);
}

static const char *origin_name(kva_origin origin) {
  switch (origin) {
    case KVA_LINKED: return "linked";
    case KVA_RELOCATABLE: return "relocatable, still to be linked";
    case KVA_FATBIN: return "fatbin";
    case KVA_CUBIN: return "cubin";
    case KVA_PTX_TEXT: return "PTX";
    default: return "no device code";
  }
}

/* Entries of one kind and target, added up: one row of a file's table of architectures. */
static void tell_kind(FILE *out, const kva_file *file, unsigned kind, const char *label) {
  bool *done = calloc(file->entries + 1, sizeof *done), any = false;
  for (size_t i = 0; done && i < file->entries; i++) {
    const kva_held *first = &file->entry[i];
    uint64_t count = 0, stored = 0, kernels = 0;
    char target[KVA_TARGET_TEXT], size[24];
    if (done[i] || first->kind != kind) continue;
    for (size_t k = i; k < file->entries; k++) {
      const kva_held *e = &file->entry[k];
      if (e->kind != kind || e->target.sm != first->target.sm || e->target.suffix != first->target.suffix) continue;
      done[k] = true;
      count++;
      stored += e->stored;
      kernels += e->kernels;
    }
    kva_target_text(first->target, target);
    megabytes(stored, size);
    (void)fprintf(out, "  %-13s %-8s %5llu entries %10s %7llu kernels%s%s\n", any ? "" : label, target,
                  (unsigned long long)count, size, (unsigned long long)kernels, first->target.suffix ? "  " : "",
                  first->target.suffix ? kva_suffix_meaning(first->target.suffix) : "");
    any = true;
  }
  if (!any && kind != KVA_KIND_LTO) (void)fprintf(out, "  %-13s none\n", label);
  free(done);
}

/* What the table of architectures does not show: where fatbins lie, and what of them is not read. */
static void tell_rest(FILE *out, const kva_file *file) {
  uint64_t data = 0, lto = 0;
  for (size_t i = 0; i < file->entries; i++) {
    data += file->entry[i].in_data;
    lto += file->entry[i].kind == KVA_KIND_LTO;
  }
  if (data)
    (void)fprintf(out, "  %-13s %llu of %zu entries lie in plain data, where cuobjdump does not look; the library itself picks among them as it runs\n",
                  "places", (unsigned long long)data, file->entries);
  if (lto) (void)fprintf(out, "  %-13s kernels in LTO IR (%llu entries)\n", "not read", (unsigned long long)lto);
}

static void tell_kernel(FILE *out, const kva_audit *audit, const kva_file *file, const kva_judgement *j,
                        const kva_judged *k, char *text, size_t size) {
  kva_demangle(audit->names.text[k->name], text, size);
  (void)fprintf(out, "    %s: %s\n", kva_verdict_name(k->verdict), text);
  if (k->dynamic) (void)fprintf(out, "      host code asks for %u B of shared memory at launch\n", k->dynamic);
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_variant *v = &file->variant[j->order[k->first + i]];
    const kva_held *e = &file->entry[v->entry];
    char target[KVA_TARGET_TEXT];
    kva_target_text(e->target, target);
    (void)fprintf(out, "      %-4s %-8s", e->kind == KVA_KIND_CODE ? "code" : "PTX", target);
    if (v->registers >= 0) (void)fprintf(out, " %3d registers", v->registers);
    (void)fprintf(out, " %6d B shared%s", v->shared, v->dynamic_shared ? " + dynamic" : "");
    if (v->stack > 0) (void)fprintf(out, " %d B stack", v->stack);
    if (v->max_threads > 0) (void)fprintf(out, " <= %d threads", v->max_threads);
    (void)fprintf(out, " %u %s", v->instructions, e->kind == KVA_KIND_CODE ? "instructions" : "statements");
    if (v->sass) (void)fprintf(out, " (by nvdisasm)");
    if (v->traps) (void)fprintf(out, ", %u traps", v->traps);
    const char *between = ": ";
    for (unsigned f = 0; f < KVA_FEATURES; f++)
      if (v->features & KVA_BIT(f)) {
        (void)fprintf(out, "%s%s x%u", between, kva_feature_key((kva_feature)f), v->count[f]);
        between = ", ";
      }
    (void)fputc('\n', out);
  }
}

/* A line each: name, and what there is of it. */
static void tell_idle(FILE *out, const kva_audit *audit, const kva_file *file, const kva_judgement *j, char *text, size_t size) {
  for (size_t n = 0; n < j->kernels; n++) {
    const kva_judged *k = &j->kernel[n];
    if (k->verdict < KVA_STUB) continue;
    kva_demangle(audit->names.text[k->name], text, size);
    (void)fprintf(out, "    %s: %s  (", kva_verdict_name(k->verdict), text);
    for (uint32_t i = 0; i < k->many; i++) {
      const kva_held *e = &file->entry[file->variant[j->order[k->first + i]].entry];
      char target[KVA_TARGET_TEXT];
      kva_target_text(e->target, target);
      (void)fprintf(out, "%s%s %s", i ? ", " : "", e->kind == KVA_KIND_CODE ? "code" : "PTX", target);
    }
    (void)fprintf(out, ")\n");
  }
}

static void tell_group(FILE *out, const kva_audit *audit, const kva_file *file, const kva_judgement *j,
                       const kva_group *g) {
  char why[2048], rebuild[4096];
  const kva_judged *example = &j->kernel[g->example];
  kva_explain(audit, file, j, g, why, sizeof why, rebuild, sizeof rebuild);
  const char *between = "";
  (void)fprintf(out, "  %s\n    ", audit->families.text[g->family]);
  for (unsigned v = KVA_VERDICTS; v-- > 0;)
    if (g->kernels[v]) {
      (void)fprintf(out, "%s%u %s", between, g->kernels[v], kva_verdict_name((kva_verdict)v));
      between = ", ";
    }
  if (g->registers_low >= 0) (void)fprintf(out, "  (%d-%d registers)", g->registers_low, g->registers_high);
  (void)fprintf(out, "\n    why:     %s\n", why);
  if (example->verdict < KVA_STUB) return;
  (void)fprintf(out, "    rebuild: %s: %s\n", kva_rebuild_key(example->rebuild), rebuild);
  for (unsigned r = KVA_REBUILDS; r-- > 0;)
    if (g->rebuild[r] && r != (unsigned)example->rebuild)
      (void)fprintf(out, "             (%u of them: %s)\n", g->rebuild[r], kva_rebuild_key((kva_rebuild)r));
}

static void tell_groups(FILE *out, const kva_audit *audit, const kva_file *file, const kva_judgement *j,
                        const kva_tell *tell) {
  enum { MOST = 40 };
  size_t shown = 0, left = 0;
  for (size_t i = 0; i < j->groups; i++) {
    bool bad = j->group[i].worst >= KVA_STUB, more = tell->every_family || tell->only;
    if (!more && (!bad || shown == MOST)) {
      left += bad;
      continue;
    }
    tell_group(out, audit, file, j, &j->group[i]);
    shown++;
  }
  if (left) (void)fprintf(out, "  ... and %zu more families that do not run (--all lists them)\n", left);
}

static kv_status tell_file(FILE *out, const kva_audit *audit, const kva_file *file, const kva_tell *tell,
                           kv_error *err) {
  enum { TEXT = 65536 };
  char size[24];
  kva_judgement j;
  uint64_t count[KVA_VERDICTS] = {0};
  kv_status st = kva_judge(audit, file, tell->sm, tell->only, &j, err);
  if (st) return st;
  for (size_t i = 0; i < j.kernels; i++) count[j.kernel[i].verdict]++;
  if (tell->only && !j.kernels) {
    kva_judgement_free(&j);
    return KV_OK;
  }
  megabytes(file->bytes, size);
  (void)fprintf(out, "\n%s  (%s, %s)\n", file->name, size, origin_name(file->origin));
  tell_kind(out, file, KVA_KIND_CODE, "machine code");
  tell_kind(out, file, KVA_KIND_PTX, "PTX");
  tell_kind(out, file, KVA_KIND_LTO, "LTO IR");
  tell_rest(out, file);
  (void)fprintf(out, "  sm_%u: of %zu kernels in %zu families", tell->sm, j.kernels, j.groups);
  for (unsigned v = 0; v < KVA_VERDICTS; v++)
    if (count[v]) (void)fprintf(out, "; %llu %s", (unsigned long long)count[v], kva_verdict_name((kva_verdict)v));
  (void)fputc('\n', out);
  tell_groups(out, audit, file, &j, tell);
  char *text = tell->only || tell->idle ? malloc(TEXT) : NULL;
  for (size_t i = 0; text && tell->only && i < j.kernels; i++) tell_kernel(out, audit, file, &j, &j.kernel[i], text, TEXT);
  if (text && !tell->only) tell_idle(out, audit, file, &j, text, TEXT);
  free(text);
  kva_judgement_free(&j);
  return KV_OK;
}

static kv_status map_cell(const kva_audit *audit, const kva_file *file, unsigned sm, const regex_t *only, char cell[8],
                          size_t *kernels, kv_error *err) {
  kva_judgement j;
  size_t count[KVA_VERDICTS] = {0};
  kv_status st = kva_judge(audit, file, sm, only, &j, err);
  if (st) return st;
  for (size_t i = 0; i < j.kernels; i++) count[j.kernel[i].verdict]++;
  size_t run = count[KVA_NATIVE] + count[KVA_JIT];
  *kernels = j.kernels;
  if (!run)
    (void)snprintf(cell, 8, "-");
  else if (count[KVA_NATIVE] == j.kernels)
    (void)snprintf(cell, 8, "code");
  else if (run == j.kernels)
    (void)snprintf(cell, 8, "ptx");
  else
    (void)snprintf(cell, 8, "%u %%", (unsigned)(100 * run / j.kernels));
  kva_judgement_free(&j);
  return KV_OK;
}

/* The end of a long name says more than its beginning: a wheel's member without the wheel, else the last characters. */
static void short_name(const char *name, size_t width, char *out, size_t size) {
  const char *bang = strrchr(name, '!');
  if (bang) name = bang + 1;
  size_t n = strlen(name);
  (void)snprintf(out, size, n > width ? "..%s" : "%s", n > width ? name + n - width + 2 : name);
}

static kv_status tell_map(FILE *out, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  enum { WIDTH = 48 };
  (void)fprintf(out, "%-*s %8s", WIDTH, "library", "kernels");
  for (size_t c = 0; c < kva_map_column_count; c++) {
    char head[16];
    (void)snprintf(head, sizeof head, "sm_%u", kva_map_columns[c]);
    (void)fprintf(out, " %6s", head);
  }
  (void)fputc('\n', out);
  for (size_t i = 0; i < audit->files; i++) {
    const kva_file *file = &audit->file[i];
    char cell[16][8], name[WIDTH + 8];
    size_t kernels = 0;
    for (size_t c = 0; c < kva_map_column_count; c++) {
      kv_status st = map_cell(audit, file, kva_map_columns[c], tell->only, cell[c], &kernels, err);
      if (st) return st;
    }
    if (!kernels) continue;
    short_name(file->name, WIDTH, name, sizeof name);
    (void)fprintf(out, "%-*s %8zu", WIDTH, name, kernels);
    for (size_t c = 0; c < kva_map_column_count; c++) (void)fprintf(out, " %6s", cell[c]);
    (void)fputc('\n', out);
  }
  (void)fprintf(out, "code: machine code for every kernel; ptx: every kernel runs, some compiled at load; n %%: share of the "
                     "kernels that run; -: none\n");
  return KV_OK;
}

kv_status kva_tell_text(FILE *out, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  kv_status st = KV_OK;
  if (tell->sm) {
    const kva_limits *limits = kva_limits_of(tell->sm);
    (void)fprintf(out, "asked about: sm_%u (compute capability %u.%u)", tell->sm, tell->sm / 10, tell->sm % 10);
    if (limits)
      (void)fprintf(out, ", %u bytes of shared memory a block\n", limits->shared_block);
    else
      (void)fprintf(out, ", whose limits are not known here: shared memory is not judged\n");
  }
  if (!audit->files) (void)fprintf(out, "no device code found\n");
  if (audit->files > 1 || !tell->sm) st = tell_map(out, audit, tell, err);
  for (size_t i = 0; !st && tell->sm && i < audit->files; i++) st = tell_file(out, audit, &audit->file[i], tell, err);
  if (!st && audit->problems) (void)fprintf(out, "\nnot read (%zu):\n", audit->problems);
  for (size_t i = 0; !st && i < audit->problems; i++) (void)fprintf(out, "  %s\n", audit->problem[i]);
  return st;
}
