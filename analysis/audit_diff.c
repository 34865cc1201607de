/* Two versions of a library: what was gained and lost. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "audit_diff.h"

/* What a file is called in both versions: the part below the folder or wheel named on the command line. */
static const char *key_of(const kva_file *file, const char *root, bool single) {
  size_t n = strlen(root);
  const char *rest = !strncmp(file->name, root, n) ? file->name + n : file->name;
  if (single && !*rest) return ""; /* the named file itself: its counterpart may be called otherwise */
  while (*rest == '/' || *rest == '!' || *rest == ':') rest++;
  return rest;
}

typedef struct sides {
  const kva_audit *audit[2];
  const char *root[2];
  unsigned sm;
} sides;

static const kva_file *counterpart(const sides *s, int side, const char *key) {
  const kva_audit *a = s->audit[side];
  for (size_t i = 0; i < a->files; i++)
    if (!strcmp(key_of(&a->file[i], s->root[side], a->files == 1), key)) return &a->file[i];
  return NULL;
}

static bool file_has(const kva_file *file, unsigned kind, kva_target t) {
  for (size_t i = 0; file && i < file->entries; i++)
    if (file->entry[i].kind == kind && file->entry[i].target.sm == t.sm && file->entry[i].target.suffix == t.suffix)
      return true;
  return false;
}

/* Targets that `file` has and `other` lacks, each once: "sm_120a code". */
static json_t *targets_only_in(const kva_file *file, const kva_file *other) {
  json_t *list = json_array();
  for (size_t i = 0; file && i < file->entries; i++) {
    const kva_held *e = &file->entry[i];
    char text[KVA_TARGET_TEXT], line[KVA_TARGET_TEXT + 8];
    bool seen = false;
    kva_target_text(e->target, text);
    (void)snprintf(line, sizeof line, "%s %s", text,
                   e->kind == KVA_KIND_PTX ? "PTX" : e->kind == KVA_KIND_LTO ? "LTO" : "code");
    for (size_t k = 0; k < json_array_size(list); k++) seen |= !strcmp(json_string_value(json_array_get(list, k)), line);
    if (!seen && !file_has(other, e->kind, e->target)) json_array_append_new(list, json_string(line));
  }
  return list;
}


static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The distinct kernels of a file, as sorted names; the caller frees. */
static const char **kernel_names(const kva_audit *audit, const kva_file *file, size_t *n) {
  size_t count = file ? file->variants : 0, kept = 0;
  const char **name = malloc((count + 1) * sizeof *name);
  for (size_t i = 0; name && i < count; i++) name[i] = audit->names.text[file->variant[i].name];
  if (name) qsort(name, count, sizeof *name, by_text);
  for (size_t i = 0; name && i < count; i++)
    if (!kept || strcmp(name[kept - 1], name[i])) name[kept++] = name[i];
  *n = kept;
  return name;
}

static void count_kernels(const char **a, size_t na, const char **b, size_t nb, json_t *o) {
  size_t gone = 0, new = 0, kept = 0, i = 0, k = 0;
  while (i < na || k < nb) {
    int order = i == na ? 1 : k == nb ? -1 : strcmp(a[i], b[k]);
    gone += order < 0;
    new += order > 0;
    kept += order == 0;
    i += order <= 0;
    k += order >= 0;
  }
  json_object_set_new(o, "kernels_gone", json_integer((json_int_t)gone));
  json_object_set_new(o, "kernels_new", json_integer((json_int_t)new));
  json_object_set_new(o, "kernels_kept", json_integer((json_int_t)kept));
}

/* How many entries of one file have their code, byte for byte, in the other. */
static size_t shared_code(const kva_file *a, const kva_file *b) {
  size_t n = 0;
  for (size_t i = 0; i < a->entries; i++)
    for (size_t k = 0; k < b->entries; k++)
      if (a->entry[i].code_hash && a->entry[i].code_hash == b->entry[k].code_hash) {
        n++;
        break;
      }
  return n;
}

static json_t *verdicts(const kva_group *g) {
  json_t *o = json_object();
  for (unsigned v = 0; v < KVA_VERDICTS; v++)
    if (g && g->kernels[v]) json_object_set_new(o, kva_verdict_key((kva_verdict)v), json_integer(g->kernels[v]));
  return o;
}

static const kva_group *group_called(const kva_audit *audit, const kva_judgement *j, const char *family) {
  for (size_t i = 0; i < j->groups; i++)
    if (!strcmp(audit->families.text[j->group[i].family], family)) return &j->group[i];
  return NULL;
}

static void add_family(json_t *list, const char *name, const kva_group *a, const kva_group *b) {
  json_t *before = verdicts(a), *after = verdicts(b);
  if (json_equal(before, after)) {
    json_decref(before);
    json_decref(after);
    return;
  }
  json_t *o = json_object();
  json_object_set_new(o, "family", json_string(name));
  json_object_set_new(o, "before", before);
  json_object_set_new(o, "after", after);
  json_array_append_new(list, o);
}

/* Families whose counts by verdict differ. */
static kv_status families(const sides *s, const kva_file *a, const kva_file *b, json_t *o, kv_error *err) {
  kva_judgement ja, jb;
  kv_status st = kva_judge(s->audit[0], a, s->sm, NULL, &ja, err);
  if (st) return st;
  st = kva_judge(s->audit[1], b, s->sm, NULL, &jb, err);
  if (!st) {
    json_t *list = json_array();
    for (size_t i = 0; i < ja.groups; i++) {
      const char *name = s->audit[0]->families.text[ja.group[i].family];
      add_family(list, name, &ja.group[i], group_called(s->audit[1], &jb, name));
    }
    for (size_t i = 0; i < jb.groups; i++) {
      const char *name = s->audit[1]->families.text[jb.group[i].family];
      if (!group_called(s->audit[0], &ja, name)) add_family(list, name, NULL, &jb.group[i]);
    }
    json_object_set_new(o, "families", list);
    kva_judgement_free(&jb);
  }
  kva_judgement_free(&ja);
  return st;
}

static kv_status compare_files(const sides *s, const kva_file *a, const kva_file *b, json_t *list, kv_error *err) {
  kv_status st = KV_OK;
  json_t *o = json_object();
  size_t na, nb;
  const char **names_a = kernel_names(s->audit[0], a, &na), **names_b = kernel_names(s->audit[1], b, &nb);
  if (!names_a || !names_b) st = kv_fail(err, KV_ERR_MEMORY, "diff: out of memory");
  json_object_set_new(o, "before", a ? json_string(a->name) : json_null());
  json_object_set_new(o, "after", b ? json_string(b->name) : json_null());
  json_object_set_new(o, "targets_lost", targets_only_in(a, b));
  json_object_set_new(o, "targets_gained", targets_only_in(b, a));
  if (!st) count_kernels(names_a, na, names_b, nb, o);
  if (a && b) {
    json_object_set_new(o, "entries_before", json_integer((json_int_t)a->entries));
    json_object_set_new(o, "entries_after", json_integer((json_int_t)b->entries));
    json_object_set_new(o, "entries_same_code", json_integer((json_int_t)shared_code(a, b)));
    if (!st && s->sm) st = families(s, a, b, o, err);
  }
  free(names_a);
  free(names_b);
  json_array_append_new(list, o);
  return st;
}

static kv_status compare(const sides *s, json_t **root, kv_error *err) {
  kv_status st = KV_OK;
  json_t *list = json_array();
  for (size_t i = 0; i < s->audit[0]->files && !st; i++) {
    const kva_file *a = &s->audit[0]->file[i];
    st = compare_files(s, a, counterpart(s, 1, key_of(a, s->root[0], s->audit[0]->files == 1)), list, err);
  }
  for (size_t i = 0; i < s->audit[1]->files && !st; i++) {
    const kva_file *b = &s->audit[1]->file[i];
    if (!counterpart(s, 0, key_of(b, s->root[1], s->audit[1]->files == 1))) st = compare_files(s, NULL, b, list, err);
  }
  *root = json_object();
  json_object_set_new(*root, "schema", json_string("audit-diff-1"));
  json_object_set_new(*root, "schema_version", json_integer(1));
  if (s->sm) json_object_set_new(*root, "gpu", json_sprintf("sm_%u", s->sm));
  json_object_set_new(*root, "files", list);
  return st;
}

static void print_list(FILE *out, const char *label, const json_t *list) {
  if (!json_array_size(list)) return;
  (void)fprintf(out, "  %s:", label);
  for (size_t i = 0; i < json_array_size(list); i++)
    (void)fprintf(out, "%s %s", i ? "," : "", json_string_value(json_array_get(list, i)));
  (void)fputc('\n', out);
}

static void print_verdicts(FILE *out, const json_t *counts) {
  const char *key, *between = "";
  json_t *value;
  if (!json_object_size(counts)) (void)fprintf(out, "not there");
  json_object_foreach((json_t *)(uintptr_t)counts, key, value) {
    (void)fprintf(out, "%s%lld %s", between, (long long)json_integer_value(value), key);
    between = ", ";
  }
}

static long long number(const json_t *o, const char *key) { return (long long)json_integer_value(json_object_get(o, key)); }

static void print_file(FILE *out, const json_t *o, unsigned sm) {
  const char *a = json_string_value(json_object_get(o, "before")), *b = json_string_value(json_object_get(o, "after"));
  if (a && b)
    (void)fprintf(out, "%s\n  -> %s\n", a, b);
  else
    (void)fprintf(out, "%s: only in the %s\n", a ? a : b, a ? "first" : "second");
  if (a && b)
    (void)fprintf(out, "  entries %lld -> %lld, of which %lld unchanged to the byte\n", number(o, "entries_before"),
                  number(o, "entries_after"), number(o, "entries_same_code"));
  print_list(out, a && b ? "targets lost" : "targets", json_object_get(o, a ? "targets_lost" : "targets_gained"));
  if (a && b) print_list(out, "targets gained", json_object_get(o, "targets_gained"));
  (void)fprintf(out, "  kernels: %lld gone, %lld new, %lld kept by name\n", number(o, "kernels_gone"),
                number(o, "kernels_new"), number(o, "kernels_kept"));
  const json_t *list = json_object_get(o, "families");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *f = json_array_get(list, i);
    (void)fprintf(out, "  sm_%u %s: ", sm, json_string_value(json_object_get(f, "family")));
    print_verdicts(out, json_object_get(f, "before"));
    (void)fprintf(out, " -> ");
    print_verdicts(out, json_object_get(f, "after"));
    (void)fputc('\n', out);
  }
}

kv_status kva_tell_diff(FILE *out, const kva_audit *before, const char *before_root, const kva_audit *after,
                        const char *after_root, unsigned sm, bool as_json, kv_error *err) {
  sides s = {{before, after}, {before_root, after_root}, sm};
  json_t *root = NULL;
  kv_status st = compare(&s, &root, err);
  const json_t *files = json_object_get(root, "files");
  if (!st && as_json && (json_dumpf(root, out, JSON_INDENT(1)) != 0 || fputc('\n', out) == EOF))
    st = kv_fail(err, KV_ERR_IO, "JSON: write error");
  for (size_t i = 0; !st && !as_json && i < json_array_size(files); i++) print_file(out, json_array_get(files, i), sm);
  json_decref(root);
  return st;
}
