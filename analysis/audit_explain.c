/* Verdicts in words, each with its evidence. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "audit.h"

typedef struct line {
  char *at;
  size_t left;
} line;

static void say(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(line *l, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(l->at, l->left, format, args);
  va_end(args);
  size_t used = n < 0 ? 0 : (size_t)n < l->left ? (size_t)n : l->left - 1;
  l->at += used;
  l->left -= used;
}

/* Where a piece for this target runs: "sm_90a (9.0 alone)". */
static void say_where(line *l, kva_target t, unsigned kind) {
  char text[KVA_TARGET_TEXT];
  unsigned major = t.sm / 10, minor = t.sm % 10;
  kva_target_text(t, text);
  if (t.suffix == 'a') say(l, "%s (%u.%u alone)", text, major, minor);
  else if (t.suffix == 'f') say(l, "%s (the %u.%u family alone)", text, major, minor);
  else if (kind == KVA_KIND_CODE && minor) say(l, "%s (%u.x from %u.%u on)", text, major, major, minor);
  else if (kind == KVA_KIND_CODE) say(l, "%s (%u.x alone)", text, major);
  else say(l, "%s (%u.%u and newer)", text, major, minor);
}

/* Lists the targets of a kernel's variants of one kind, each once, with the reason; false if there are none. */
static bool say_targets(line *l, const kva_file *file, const kva_judgement *j, const kva_judged *k, unsigned kind,
                        const char *before) {
  uint64_t seen = 0;
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_held *e = &file->entry[file->variant[j->order[k->first + i]].entry];
    size_t t = 0;
    while (t < j->targets && (j->target[t].sm != e->target.sm || j->target[t].suffix != e->target.suffix)) t++;
    if (e->kind != kind || t == j->targets || (seen >> t & 1)) continue;
    say(l, "%s", seen ? ", " : before);
    say_where(l, e->target, kind);
    seen |= UINT64_C(1) << t;
  }
  return seen != 0;
}

/* "wgmma (HGMMA 512 times in sm_90a)". */
static void say_feature(line *l, const kva_file *file, const kva_variant *v, kva_feature f) {
  char target[KVA_TARGET_TEXT];
  const kva_held *e = &file->entry[v->entry];
  const char *mnemonic = kva_feature_mnemonic(f);
  kva_target_text(e->target, target);
  say(l, "%s (", kva_feature_key(f));
  if (e->kind == KVA_KIND_CODE && mnemonic[0])
    say(l, "%.*s ", (int)strcspn(mnemonic, ","), mnemonic);
  say(l, "%u%s times in its %s %s)", v->count[f], v->count[f] == 65535 ? " or more" : "", target,
      e->kind == KVA_KIND_CODE ? "code" : "PTX");
}

static void say_features(line *l, uint64_t set) {
  const char *between = "";
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if (set & KVA_BIT(f)) {
      say(l, "%s%s", between, kva_feature_key((kva_feature)f));
      between = ", ";
    }
}

/* The variant that shows what was compiled out: the one with products for wgmma or tcgen05, else the longest. */
static const kva_variant *real_of(const kva_file *file, const kva_judgement *j, const kva_judged *k) {
  const kva_variant *real = NULL;
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_variant *v = &file->variant[j->order[k->first + i]];
    unsigned now = v->count[KVA_WGMMA] + v->count[KVA_TCGEN05];
    unsigned then = real ? real->count[KVA_WGMMA] + real->count[KVA_TCGEN05] : 0;
    if (!real || now > then || (now == then && v->instructions > real->instructions)) real = v;
  }
  return real;
}

/* PTX that would be compiled here, were it not for instructions that its own target does not have. */
static void say_unsound(line *l, const kva_file *file, const kva_judgement *j, const kva_judged *k) {
  for (uint32_t i = 0; i < k->many; i++) {
    const kva_variant *v = &file->variant[j->order[k->first + i]];
    kva_target t = file->entry[v->entry].target;
    if (file->entry[v->entry].kind != KVA_KIND_PTX || !kva_ptx_compiles(t, j->sm)) continue;
    for (unsigned f = 0; f < KVA_FEATURES; f++)
      if ((v->features & KVA_BIT(f)) && !kva_feature_in((kva_feature)f, t)) {
        say(l, "; the PTX does not compile: its target has no %s", kva_feature_key((kva_feature)f));
        return;
      }
  }
}

static void say_stub(line *l, const kva_file *file, const kva_judgement *j, const kva_judged *k) {
  const kva_variant *stub = k->loaded < file->variants ? &file->variant[k->loaded] : NULL, *real = real_of(file, j, k);
  char target[KVA_TARGET_TEXT], other[KVA_TARGET_TEXT];
  if (!stub || !real) return;
  kva_target_text(file->entry[stub->entry].target, target);
  kva_target_text(file->entry[real->entry].target, other);
  say(l, "%s for %s is there but compiled out: %u instructions",
      file->entry[stub->entry].kind == KVA_KIND_CODE ? "code" : "PTX", target, stub->instructions);
  if (stub->traps) say(l, " (%u of them traps)", stub->traps);
  if (real->count[KVA_WGMMA] || real->count[KVA_TCGEN05]) {
    say(l, " and not one matrix product; the real body has ");
    say_feature(l, file, real, real->count[KVA_TCGEN05] ? KVA_TCGEN05 : KVA_WGMMA);
  } else {
    say(l, " against %u for %s", real->instructions, other);
  }
}

static void say_why(line *l, const kva_file *file, const kva_judgement *j, const kva_group *g) {
  const kva_judged *k = &j->kernel[g->example];
  const kva_variant *v = &file->variant[k->variant];
  char target[KVA_TARGET_TEXT];
  kva_target_text(file->entry[v->entry].target, target);
  switch (k->verdict) {
    case KVA_NATIVE: say(l, "machine code for %s runs on it", target); break;
    case KVA_JIT: say(l, "no machine code that runs on it, but PTX for %s that the driver compiles at load", target); break;
    case KVA_STUB: say_stub(l, file, j, k); break;
    case KVA_TOO_LARGE:
      kva_target_text(file->entry[file->variant[k->loaded].entry].target, target);
      say(l, "%s for %s is there, but the host code asks for %u bytes of shared memory a block and the GPU has %u",
          file->entry[file->variant[k->loaded].entry].kind == KVA_KIND_CODE ? "machine code" : "PTX", target, k->dynamic,
          j->limits ? j->limits->shared_block : 0);
      break;
    default:
      if (!say_targets(l, file, j, k, KVA_KIND_CODE, "machine code only for ")) say(l, "no machine code");
      if (!say_targets(l, file, j, k, KVA_KIND_PTX, "; PTX only for ")) say(l, "; no PTX");
      say_unsound(l, file, j, k);
  }
}

static void say_shared(line *l, const kva_judgement *j, const kva_judged *k, const kva_variant *v) {
  if (!j->limits) return;
  unsigned limit = j->limits->shared_block;
  if (v->shared > 0 && (uint32_t)v->shared > limit)
    say(l, "; %d bytes of static shared memory a block, the GPU has %u", v->shared, limit);
  else if (k->dynamic)
    say(l, "; the host code asks for %u bytes of shared memory a block, the GPU has %u", k->dynamic, limit);
  else if (v->dynamic_shared)
    say(l, "; its shared memory is given at launch and not found in the host code: the GPU has %u bytes a block", limit);
}

static void say_rebuild(line *l, const kva_file *file, const kva_judgement *j, const kva_group *g) {
  const kva_judged *k = &j->kernel[g->example];
  const kva_variant *v = &file->variant[k->variant];
  char flag[KVA_TARGET_TEXT], from[KVA_TARGET_TEXT];
  kva_target_text(k->flag, flag);
  kva_target_text(file->entry[v->entry].target, from);
  switch (k->rebuild) {
    case KVA_FLAG:
      say(l, "-gencode arch=compute_%s,code=%s: all its instructions exist there", flag + 3, flag);
      if (v->features) {
        say(l, " (");
        say_features(l, v->features);
        say(l, "; from its %s %s)", from, file->entry[v->entry].kind == KVA_KIND_CODE ? "code" : "PTX");
      }
      say_shared(l, j, k, v);
      break;
    case KVA_GUARD:
      say(l, "no flag helps, it was built for sm_%u already: a guard in its source leaves this GPU out, though all that its %s body "
          "uses exists there", j->sm, from);
      if (v->features) {
        say(l, " (");
        say_features(l, v->features);
        say(l, ")");
      }
      say_shared(l, j, k, v);
      break;
    case KVA_SMALLER_TILES:
      say(l, "smaller tiles, then -gencode arch=compute_%s,code=%s", flag + 3, flag);
      say_shared(l, j, k, v);
      break;
    case KVA_REWRITE: {
      const char *between = "no flag helps, sm_";
      for (unsigned f = 0; f < KVA_FEATURES; f++)
        if (k->missing & KVA_BIT(f)) {
          if (*between == 'n') say(l, "no flag helps, sm_%u has no ", j->sm);
          else say(l, "; nor ");
          between = ";";
          say_feature(l, file, v, (kva_feature)f);
          if (kva_feature_port((kva_feature)f)[0]) say(l, ": %s", kva_feature_port((kva_feature)f));
        }
      say_shared(l, j, k, v);
      break;
    }
    case KVA_UNKNOWN:
      say(l, "its body is compiled out for every target in this file, so what it needs is not to be seen here");
      break;
    default: say(l, "nothing");
  }
}

void kva_explain(const kva_audit *audit, const kva_file *file, const kva_judgement *j, const kva_group *g, char *why,
                 size_t why_size, char *rebuild, size_t rebuild_size) {
  (void)audit;
  line w = {why, why_size}, r = {rebuild, rebuild_size};
  why[0] = rebuild[0] = '\0';
  say_why(&w, file, j, g);
  say_rebuild(&r, file, j, g);
}
