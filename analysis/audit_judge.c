/* Judging: one verdict a kernel, from the rules of audit_isa.h, gathered by family. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"

const unsigned kva_map_columns[] = {75, 80, 86, 89, 90, 100, 103, 110, 120, 121};
const size_t kva_map_column_count = sizeof kva_map_columns / sizeof *kva_map_columns;

const char *kva_verdict_name(kva_verdict v) {
  static const char *const name[KVA_VERDICTS] = {"runs natively", "compiles at load", "compiled out", "shared memory too large",
                                                  "cannot run"};
  return v < KVA_VERDICTS ? name[v] : "";
}

const char *kva_verdict_key(kva_verdict v) {
  static const char *const key[KVA_VERDICTS] = {"native", "jit", "compiled-out", "too-large", "cannot-run"};
  return v < KVA_VERDICTS ? key[v] : "";
}

const char *kva_rebuild_key(kva_rebuild r) {
  static const char *const key[KVA_REBUILDS] = {"nothing", "flag", "guard", "smaller-tiles", "rewrite", "unknown"};
  return r < KVA_REBUILDS ? key[r] : "";
}

static unsigned bits(uint64_t set) { return (unsigned)__builtin_popcountll(set); }

#define MATRIX                                                                                              \
  (KVA_BIT(KVA_MMA) | KVA_BIT(KVA_MMA_INT) | KVA_BIT(KVA_MMA_F64) | KVA_BIT(KVA_MMA_FP8) | KVA_BIT(KVA_MMA_F8F6F4) | \
   KVA_BIT(KVA_MMA_SCALED) | KVA_BIT(KVA_MMA_SUBBYTE) | KVA_BIT(KVA_WGMMA) | KVA_BIT(KVA_TCGEN05))

/* Architecture guards in a library's source compile a body out where they do not hold, and the code is in the binary
 * all the same. Two signs. Whole bodies: a handful of instructions where another target of the same kernel has a real
 * one; both bounds are asked for, as short kernels exist and a kernel may well be four times shorter on a newer GPU.
 * Single instructions (CUTLASS): all of the control flow is there, but not one matrix product, where the variant for
 * wgmma or tcgen05 hardware has them. */
enum { STUB_INSTRUCTIONS = 128, STUB_RATIO = 8 };

typedef struct yardstick {
  uint32_t longest; /* instructions of the kernel's longest variant */
  bool products;    /* some variant has wgmma or tcgen05 */
} yardstick;

/* Nothing but a trap is a stub whatever else is there to compare with. */
enum { BARE_TRAP = 16 };

static bool is_stub(const kva_variant *v, yardstick y) {
  if (v->traps && v->instructions < BARE_TRAP) return true;
  if (v->instructions && v->instructions < STUB_INSTRUCTIONS && v->instructions * STUB_RATIO < y.longest) return true;
  return y.products && !(v->features & MATRIX);
}

/* PTX whose instructions its own target does not have: the driver's compiler will refuse it. */
static bool ptx_is_sound(const kva_variant *v, kva_target t) {
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if ((v->features & KVA_BIT(f)) && !kva_feature_in((kva_feature)f, t)) return false;
  return true;
}

/* Which of two runnable pieces the driver takes: machine code before PTX, the newer target, then a before f. */
static int rank(const kva_held *e) {
  int suffix = e->target.suffix == 'a' ? 2 : e->target.suffix == 'f' ? 1 : 0;
  return (e->kind == KVA_KIND_CODE ? 1000000 : 0) + (int)(e->target.sm % 10000) * 4 + suffix;
}

typedef struct judging {
  const kva_audit *audit;
  const kva_file *file;
  kva_judgement *j;
} judging;

static bool runs(const judging *g, const kva_variant *v) {
  const kva_held *e = &g->file->entry[v->entry];
  if (e->kind == KVA_KIND_CODE) return kva_code_runs(e->target, g->j->sm);
  return kva_ptx_compiles(e->target, g->j->sm) && ptx_is_sound(v, e->target);
}

static uint32_t asked_at_launch(const kva_file *file, uint32_t name) {
  size_t low = 0, high = file->launches;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (file->launch[middle].name < name) low = middle + 1;
    else high = middle;
  }
  return low < file->launches && file->launch[low].name == name ? file->launch[low].bytes : 0;
}

static bool too_large(const judging *g, const kva_judged *k, const kva_variant *v) {
  return g->j->limits && (uint64_t)(v->shared > 0 ? v->shared : 0) + k->dynamic > g->j->limits->shared_block;
}

/* What a rebuild takes, from the variant that needs the fewest instructions the GPU lacks. */
static void judge_rebuild(judging *g, kva_judged *k, yardstick y) {
  unsigned fewest = UINT32_MAX;
  for (uint32_t i = 0; i < k->many; i++) {
    uint32_t index = g->j->order[k->first + i];
    const kva_variant *v = &g->file->variant[index];
    uint64_t missing = kva_features_missing(v->features, g->j->sm);
    if (is_stub(v, y) || bits(missing) >= fewest) continue;
    fewest = bits(missing);
    k->missing = missing;
    k->variant = index;
  }
  const kva_variant *v = &g->file->variant[k->variant];
  bool stubs = fewest == UINT32_MAX, large = too_large(g, k, v);
  bool built_for_it = k->verdict == KVA_STUB && g->file->entry[g->file->variant[k->loaded].entry].target.sm == g->j->sm;
  k->rebuild = stubs          ? KVA_UNKNOWN
               : k->missing   ? KVA_REWRITE
               : large        ? KVA_SMALLER_TILES
               : built_for_it ? KVA_GUARD
                              : KVA_FLAG;
  if (!kva_target_for(v->features & ~k->missing, g->j->sm, &k->flag)) k->flag = (kva_target){g->j->sm, 'a'};
}

static void judge_kernel(judging *g, kva_judged *k) {
  yardstick y = {0, false};
  int best = -1;
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_variant *v = &g->file->variant[g->j->order[k->first + i]];
    if (v->instructions > y.longest) y.longest = v->instructions;
    y.products |= (v->features & (KVA_BIT(KVA_WGMMA) | KVA_BIT(KVA_TCGEN05))) != 0;
  }
  k->verdict = KVA_CANNOT;
  for (uint32_t i = 0; i < k->many; i++) {
    uint32_t index = g->j->order[k->first + i];
    const kva_variant *v = &g->file->variant[index];
    const kva_held *e = &g->file->entry[v->entry];
    if (!runs(g, v) || rank(e) <= best) continue;
    best = rank(e);
    k->variant = k->loaded = index;
    k->verdict = is_stub(v, y) ? KVA_STUB : e->kind == KVA_KIND_CODE ? KVA_NATIVE : KVA_JIT;
  }
  if (k->verdict <= KVA_JIT && too_large(g, k, &g->file->variant[k->loaded])) k->verdict = KVA_TOO_LARGE;
  if (k->verdict > KVA_JIT) judge_rebuild(g, k, y);
}

static int by_kernel(const void *a, const void *b, void *context) {
  const kva_variant *v = context;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  if (v[x].name != v[y].name) return v[x].name < v[y].name ? -1 : 1;
  return x < y ? -1 : x > y;
}

static int by_family(const void *a, const void *b, void *context) {
  const kva_audit *audit = context;
  const kva_judged *x = a, *y = b;
  int order = x->family == y->family ? 0 : strcmp(audit->families.text[x->family], audit->families.text[y->family]);
  return order ? order : strcmp(audit->names.text[x->name], audit->names.text[y->name]);
}

/* Splits the file's variants into kernels. */
static kv_status find_kernels(judging *g, const regex_t *only, kv_error *err) {
  enum { TEXT = 65536 };
  const kva_file *file = g->file;
  kva_judgement *j = g->j;
  char *demangled = only ? malloc(TEXT) : NULL;
  j->order = malloc((file->variants + 1) * sizeof *j->order);
  j->kernel = malloc((file->variants + 1) * sizeof *j->kernel);
  if (!j->order || !j->kernel || (only && !demangled)) {
    free(demangled);
    return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", file->name);
  }
  for (size_t i = 0; i < file->variants; i++) j->order[i] = (uint32_t)i;
  qsort_r(j->order, file->variants, sizeof *j->order, by_kernel, file->variant);
  for (size_t i = 0, end; i < file->variants; i = end) {
    uint32_t name = file->variant[j->order[i]].name;
    for (end = i + 1; end < file->variants && file->variant[j->order[end]].name == name;) end++;
    if (only) {
      kva_demangle(g->audit->names.text[name], demangled, TEXT);
      if (regexec(only, demangled, 0, NULL, 0) != 0) continue;
    }
    kva_judged *k = &j->kernel[j->kernels++];
    *k = (kva_judged){.name = name,
                      .family = g->audit->family_of[name],
                      .variant = j->order[i],
                      .loaded = UINT32_MAX,
                      .first = (uint32_t)i,
                      .many = (uint32_t)(end - i),
                      .dynamic = asked_at_launch(file, name)};
    judge_kernel(g, k);
  }
  free(demangled);
  return KV_OK;
}

static uint64_t target_bit(kva_judgement *j, kva_target t) {
  size_t i = 0;
  while (i < j->targets && (j->target[i].sm != t.sm || j->target[i].suffix != t.suffix)) i++;
  if (i == sizeof j->target / sizeof *j->target) return 0;
  if (i == j->targets) j->target[j->targets++] = t;
  return UINT64_C(1) << i;
}

static void add_to_group(judging *g, kva_group *group, const kva_judged *k, uint32_t index) {
  if (k->verdict > group->worst || !group->kernels[group->worst]) {
    group->worst = k->verdict;
    group->example = index;
  }
  group->kernels[k->verdict]++;
  group->rebuild[k->rebuild]++;
  const kva_judged *example = &g->j->kernel[group->example];
  bool clearer = k->rebuild == group->hardest && k->verdict == example->verdict && k->dynamic > example->dynamic;
  if (k->rebuild > group->hardest || clearer) {
    group->hardest = k->rebuild;
    group->example = index; /* the evidence is the hardest kernel's, of those the one most is known of */
  }
  group->missing |= k->missing;
  if (k->dynamic > group->dynamic_high) group->dynamic_high = k->dynamic;
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_variant *v = &g->file->variant[g->j->order[k->first + i]];
    const kva_held *e = &g->file->entry[v->entry];
    group->features |= v->features;
    for (size_t f = 0; f < KVA_FEATURES; f++) group->count[f] += v->count[f];
    group->dynamic_shared |= v->dynamic_shared;
    *(e->kind == KVA_KIND_CODE ? &group->code_targets : &group->ptx_targets) |= target_bit(g->j, e->target);
    if (v->registers >= 0 && (group->registers_low < 0 || v->registers < group->registers_low))
      group->registers_low = v->registers;
    if (v->registers > group->registers_high) group->registers_high = v->registers;
    if (v->shared > group->shared_high) group->shared_high = v->shared;
  }
}

static int by_verdict(const void *a, const void *b, void *context) {
  const kva_audit *audit = context;
  const kva_group *x = a, *y = b;
  if (x->worst != y->worst) return x->worst > y->worst ? -1 : 1;
  if (x->hardest != y->hardest) return x->hardest > y->hardest ? -1 : 1;
  return strcmp(audit->families.text[x->family], audit->families.text[y->family]);
}

static kv_status find_groups(judging *g, kv_error *err) {
  kva_judgement *j = g->j;
  j->group = malloc((j->kernels + 1) * sizeof *j->group);
  if (!j->group) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", g->file->name);
  for (size_t i = 0; i < j->kernels; i++) {
    if (!j->groups || j->group[j->groups - 1].family != j->kernel[i].family)
      j->group[j->groups++] = (kva_group){.family = j->kernel[i].family,
                                          .registers_low = -1,
                                          .registers_high = -1,
                                          .shared_high = -1,
                                          .example = (uint32_t)i};
    add_to_group(g, &j->group[j->groups - 1], &j->kernel[i], (uint32_t)i);
  }
  qsort_r(j->group, j->groups, sizeof *j->group, by_verdict, (void *)(uintptr_t)g->audit);
  return KV_OK;
}

kv_status kva_judge(const kva_audit *audit, const kva_file *file, unsigned sm, const regex_t *only,
                    kva_judgement *judgement, kv_error *err) {
  *judgement = (kva_judgement){.sm = sm, .limits = kva_limits_of(sm)};
  judging g = {audit, file, judgement};
  kv_status st = find_kernels(&g, only, err);
  if (!st) {
    qsort_r(judgement->kernel, judgement->kernels, sizeof *judgement->kernel, by_family, (void *)(uintptr_t)audit);
    st = find_groups(&g, err);
  }
  if (st) kva_judgement_free(judgement);
  return st;
}

void kva_judgement_free(kva_judgement *j) {
  free(j->kernel);
  free(j->order);
  free(j->group);
  *j = (kva_judgement){0};
}

static bool all_in_data(const kva_file *file, const kva_judgement *j, const kva_judged *k) {
  for (uint32_t i = 0; i < k->many; i++)
    if (!file->entry[file->variant[j->order[k->first + i]].entry].in_data) return false;
  return true;
}

kv_status kva_check(const kva_audit *audit, unsigned sm, const regex_t *only, kva_checked *checked, kv_error *err) {
  *checked = (kva_checked){0};
  for (size_t i = 0; i < audit->files; i++) {
    kva_judgement j;
    kv_status st = kva_judge(audit, &audit->file[i], sm, only, &j, err);
    if (st) return st;
    for (size_t n = 0; n < j.kernels; n++) {
      const kva_judged *k = &j.kernel[n];
      if (k->verdict < KVA_STUB) continue;
      if (!checked->idle++) checked->first = k->name;
      checked->picked += all_in_data(&audit->file[i], &j, k);
    }
    checked->kernels += j.kernels;
    kva_judgement_free(&j);
  }
  return KV_OK;
}
