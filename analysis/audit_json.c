/* The audit as JSON: one object, schema audit-1. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"

static json_t *target_json(kva_target t) {
  char text[KVA_TARGET_TEXT];
  kva_target_text(t, text);
  return json_string(text);
}

static json_t *features_json(uint64_t set) {
  json_t *list = json_array();
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if (set & KVA_BIT(f)) json_array_append_new(list, json_string(kva_feature_key((kva_feature)f)));
  return list;
}

static const char *kind_key(unsigned kind) {
  switch (kind) {
    case KVA_KIND_CODE: return "code";
    case KVA_KIND_PTX: return "ptx";
    case KVA_KIND_LTO: return "lto";
    default: return "unknown";
  }
}

/* Names in binaries are bytes; JSON wants UTF-8. */
static json_t *text_json(const char *text) {
  json_t *s = json_string(text);
  if (s) return s;
  char *plain = strdup(text);
  for (char *c = plain; c && *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  s = json_string(plain ? plain : "?");
  free(plain);
  return s;
}

static json_t *entries_json(const kva_file *file) {
  static const char *const packing[] = {"none", "lz4", "zstd", "unknown"};
  json_t *list = json_array();
  for (size_t i = 0; i < file->entries; i++) {
    const kva_held *e = &file->entry[i];
    json_t *o = json_object();
    json_object_set_new(o, "kind", json_string(kind_key(e->kind)));
    if (!strcmp(kind_key(e->kind), "unknown")) json_object_set_new(o, "kind_number", json_integer(e->kind));
    json_object_set_new(o, "target", target_json(e->target));
    json_object_set_new(o, "packing", json_string(packing[e->packing]));
    json_object_set_new(o, "flags", json_integer((json_int_t)e->flags));
    json_object_set_new(o, "stored_bytes", json_integer((json_int_t)e->stored));
    json_object_set_new(o, "bytes", json_integer((json_int_t)e->size));
    json_object_set_new(o, "kernels", json_integer(e->kernels));
    if (e->in_data) json_object_set_new(o, "in_data", json_true());
    if (e->problem) json_object_set_new(o, "problem", text_json(e->problem));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *variant_json(const kva_file *file, const kva_variant *v) {
  const kva_held *e = &file->entry[v->entry];
  json_t *o = json_object(), *counts = json_object();
  json_object_set_new(o, "kind", json_string(kind_key(e->kind)));
  json_object_set_new(o, "target", target_json(e->target));
  json_object_set_new(o, "registers", v->registers >= 0 ? json_integer(v->registers) : json_null());
  json_object_set_new(o, "static_shared_bytes", json_integer(v->shared));
  json_object_set_new(o, "dynamic_shared", json_boolean(v->dynamic_shared));
  json_object_set_new(o, "stack_bytes", v->stack >= 0 ? json_integer(v->stack) : json_null());
  json_object_set_new(o, "max_threads", v->max_threads > 0 ? json_integer(v->max_threads) : json_null());
  json_object_set_new(o, "instructions", json_integer(v->instructions));
  json_object_set_new(o, "traps", json_integer(v->traps));
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if (v->count[f]) json_object_set_new(counts, kva_feature_key((kva_feature)f), json_integer(v->count[f]));
  json_object_set_new(o, "features", counts);
  return o;
}

/* `from`: the least verdict listed. */
static json_t *kernels_json(const kva_audit *audit, const kva_file *file, const kva_judgement *j, kva_verdict from) {
  enum { TEXT = 65536 };
  char *text = malloc(TEXT);
  json_t *list = json_array();
  for (size_t i = 0; text && i < j->kernels; i++) {
    const kva_judged *k = &j->kernel[i];
    if (k->verdict < from) continue;
    json_t *o = json_object(), *variants = json_array();
    kva_demangle(audit->names.text[k->name], text, TEXT);
    json_object_set_new(o, "name", text_json(text));
    json_object_set_new(o, "symbol", text_json(audit->names.text[k->name]));
    json_object_set_new(o, "family", text_json(audit->families.text[k->family]));
    json_object_set_new(o, "verdict", json_string(kva_verdict_key(k->verdict)));
    json_object_set_new(o, "rebuild", json_string(kva_rebuild_key(k->rebuild)));
    json_object_set_new(o, "launch_shared_bytes", k->dynamic ? json_integer(k->dynamic) : json_null());
    json_object_set_new(o, "missing", features_json(k->missing));
    for (uint32_t v = 0; v < k->many; v++)
      json_array_append_new(variants, variant_json(file, &file->variant[j->order[k->first + v]]));
    json_object_set_new(o, "variants", variants);
    json_array_append_new(list, o);
  }
  free(text);
  return list;
}

static json_t *targets_json(const kva_judgement *j, uint64_t set) {
  json_t *list = json_array();
  for (size_t i = 0; i < j->targets; i++)
    if (set >> i & 1) json_array_append_new(list, target_json(j->target[i]));
  return list;
}

static json_t *verdicts_json(const uint32_t count[KVA_VERDICTS]) {
  json_t *o = json_object();
  for (unsigned v = 0; v < KVA_VERDICTS; v++)
    json_object_set_new(o, kva_verdict_key((kva_verdict)v), json_integer(count[v]));
  return o;
}

static json_t *groups_json(const kva_audit *audit, const kva_file *file, const kva_judgement *j) {
  json_t *list = json_array();
  for (size_t i = 0; i < j->groups; i++) {
    const kva_group *g = &j->group[i];
    char why[2048], rebuild[4096];
    kva_explain(audit, file, j, g, why, sizeof why, rebuild, sizeof rebuild);
    json_t *o = json_object();
    json_object_set_new(o, "family", text_json(audit->families.text[g->family]));
    json_object_set_new(o, "verdict", json_string(kva_verdict_key(g->worst)));
    json_object_set_new(o, "kernels", verdicts_json(g->kernels));
    json_object_set_new(o, "why", text_json(why));
    json_object_set_new(o, "rebuild", json_string(kva_rebuild_key(g->hardest)));
    json_object_set_new(o, "rebuild_how", text_json(rebuild));
    json_object_set_new(o, "launch_shared_bytes", g->dynamic_high ? json_integer(g->dynamic_high) : json_null());
    json_object_set_new(o, "features", features_json(g->features));
    json_object_set_new(o, "missing", features_json(g->missing));
    json_object_set_new(o, "code", targets_json(j, g->code_targets));
    json_object_set_new(o, "ptx", targets_json(j, g->ptx_targets));
    json_array_append_new(list, o);
  }
  return list;
}

static kv_status map_json(const kva_audit *audit, const kva_file *file, const regex_t *only, json_t *into,
                          kv_error *err) {
  json_t *map = json_object();
  kv_status st = KV_OK;
  for (size_t c = 0; c < kva_map_column_count && !st; c++) {
    kva_judgement j;
    uint32_t count[KVA_VERDICTS] = {0};
    char column[16];
    st = kva_judge(audit, file, kva_map_columns[c], only, &j, err);
    if (st) break;
    for (size_t i = 0; i < j.kernels; i++) count[j.kernel[i].verdict]++;
    (void)snprintf(column, sizeof column, "sm_%u", kva_map_columns[c]);
    json_object_set_new(map, column, verdicts_json(count));
    kva_judgement_free(&j);
  }
  json_object_set_new(into, "map", map);
  return st;
}

static kv_status file_json(const kva_audit *audit, const kva_file *file, const kva_tell *tell, json_t *list,
                           kv_error *err) {
  static const char *const origin[] = {"none", "linked", "relocatable", "fatbin", "cubin", "ptx"};
  json_t *o = json_object();
  json_object_set_new(o, "name", text_json(file->name));
  json_object_set_new(o, "bytes", json_integer((json_int_t)file->bytes));
  json_object_set_new(o, "origin", json_string(origin[file->origin]));
  if (file->problem[0]) json_object_set_new(o, "problem", text_json(file->problem));
  json_object_set_new(o, "entries", entries_json(file));
  kv_status st = map_json(audit, file, tell->only, o, err);
  if (!st && tell->sm) {
    kva_judgement j;
    st = kva_judge(audit, file, tell->sm, tell->only, &j, err);
    if (!st) {
      json_object_set_new(o, "families", groups_json(audit, file, &j));
      if (tell->only || tell->idle)
        json_object_set_new(o, "kernels", kernels_json(audit, file, &j, tell->only ? KVA_NATIVE : KVA_STUB));
      kva_judgement_free(&j);
    }
  }
  json_array_append_new(list, o);
  return st;
}

kv_status kva_tell_json(FILE *out, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  json_t *root = json_object(), *files = json_array(), *problems = json_array();
  kv_status st = KV_OK;
  json_object_set_new(root, "schema", json_string(KVA_AUDIT_SCHEMA));
  json_object_set_new(root, "schema_version", json_integer(1));
  if (tell->sm) {
    char gpu[KVA_TARGET_TEXT];
    const kva_limits *limits = kva_limits_of(tell->sm);
    kva_target_text((kva_target){tell->sm, '\0'}, gpu);
    json_object_set_new(root, "gpu", json_string(gpu));
    json_object_set_new(root, "shared_bytes_per_block",
                        limits ? json_integer(limits->shared_block) : json_null());
  }
  for (size_t i = 0; i < audit->files && !st; i++) st = file_json(audit, &audit->file[i], tell, files, err);
  json_object_set_new(root, "files", files);
  for (size_t i = 0; i < audit->problems; i++) json_array_append_new(problems, text_json(audit->problem[i]));
  json_object_set_new(root, "not_read", problems);
  if (!st && (json_dumpf(root, out, JSON_INDENT(1)) != 0 || fputc('\n', out) == EOF))
    st = kv_fail(err, KV_ERR_IO, "JSON: write error");
  json_decref(root);
  return st;
}
