/* The audit as a dataset, audit-1: /files, /entries, /map, /families, each a table of columns. */
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "kv_h5.h"

/* A table's columns while they are filled: numbers as u64, strings as pointers (owned where `owned`). */
enum { COLUMNS = 10 };

typedef struct table {
  size_t rows, capacity;
  uint64_t *number[COLUMNS];
  char **text[COLUMNS];
} table;

static bool room(table *t, size_t numbers, size_t texts) {
  if (t->rows < t->capacity) return true;
  size_t capacity = t->capacity ? 2 * t->capacity : 256;
  for (size_t c = 0; c < numbers; c++) {
    uint64_t *more = realloc(t->number[c], capacity * sizeof *more);
    if (!more) return false;
    t->number[c] = more;
  }
  for (size_t c = 0; c < texts; c++) {
    char **more = realloc(t->text[c], capacity * sizeof *more);
    if (!more) return false;
    t->text[c] = more;
  }
  t->capacity = capacity;
  return true;
}

static void table_free(table *t, size_t texts) {
  for (size_t c = 0; c < COLUMNS; c++) free(t->number[c]);
  for (size_t c = 0; c < texts; c++) {
    for (size_t i = 0; i < t->rows; i++) free(t->text[c][i]);
    free(t->text[c]);
  }
}

typedef struct column {
  const char *name, *units, *long_name;
} column;

static kv_status write_table(hid_t file, const char *group, const table *t, const column *numbers, size_t n,
                             const column *texts, size_t m, kv_error *err) {
  kv_status st = KV_OK;
  char name[64];
  for (size_t c = 0; c < m && !st; c++) {
    (void)snprintf(name, sizeof name, "%s/%s", group, texts[c].name);
    st = kv_h5_write_strings(file, name, t->rows, (const char *const *)t->text[c], texts[c].long_name, err);
  }
  for (size_t c = 0; c < n && !st; c++) {
    (void)snprintf(name, sizeof name, "%s/%s", group, numbers[c].name);
    st = kv_h5_write(file, name, H5T_STD_U64LE, t->rows, t->number[c], numbers[c].units, numbers[c].long_name,
                     KV_H5_DEFLATE_1, err);
  }
  return st;
}

static char *target_copy(kva_target t) {
  char text[KVA_TARGET_TEXT];
  kva_target_text(t, text);
  return strdup(text);
}

static kv_status no_memory(kv_error *err) { return kv_fail(err, KV_ERR_MEMORY, "audit dataset: out of memory"); }

static kv_status write_files(hid_t file, const kva_audit *audit, kv_error *err) {
  static const column texts[] = {{"name", "", "path, with !member of a wheel and :member of an archive"}};
  static const column numbers[] = {{"bytes", "byte", "size of the file or member"},
                                   {"entries", "1", "entries of device code"},
                                   {"variants", "1", "kernels over all entries"}};
  table t = {0};
  kv_status st = KV_OK;
  for (size_t i = 0; i < audit->files && !st; i++) {
    const kva_file *f = &audit->file[i];
    if (!room(&t, 3, 1)) {
      st = no_memory(err);
      break;
    }
    t.text[0][t.rows] = strdup(f->name);
    t.number[0][t.rows] = f->bytes;
    t.number[1][t.rows] = f->entries;
    t.number[2][t.rows] = f->variants;
    if (!t.text[0][t.rows++]) st = no_memory(err);
  }
  if (!st) st = write_table(file, "files", &t, numbers, 3, texts, 1, err);
  table_free(&t, 1);
  return st;
}

static kv_status write_entries(hid_t file, const kva_audit *audit, kv_error *err) {
  static const column texts[] = {{"target", "", "what the entry was compiled for"}};
  static const column numbers[] = {{"file", "1", "row of /files"},
                                   {"kind", "1", "1 PTX, 2 machine code, 8 LTO IR, others unknown"},
                                   {"stored", "byte", "size in the file"},
                                   {"size", "byte", "size unpacked"},
                                   {"kernels", "1", "kernels in the entry"},
                                   {"flags", "1", "the container's flags, raw"},
                                   {"in_data", "1", "1: in a fatbin that lies in plain data"}};
  table t = {0};
  kv_status st = KV_OK;
  for (size_t i = 0; i < audit->files && !st; i++)
    for (size_t k = 0; k < audit->file[i].entries && !st; k++) {
      const kva_held *e = &audit->file[i].entry[k];
      if (!room(&t, 7, 1)) {
        st = no_memory(err);
        break;
      }
      const uint64_t row[] = {i, e->kind, e->stored, e->size, e->kernels, e->flags, e->in_data};
      for (size_t c = 0; c < 7; c++) t.number[c][t.rows] = row[c];
      t.text[0][t.rows] = target_copy(e->target);
      if (!t.text[0][t.rows++]) st = no_memory(err);
    }
  if (!st) st = write_table(file, "entries", &t, numbers, 7, texts, 1, err);
  table_free(&t, 1);
  return st;
}

static kv_status write_map(hid_t file, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  static const column numbers[] = {{"file", "1", "row of /files"},
                                   {"sm", "1", "compute capability, 10 x major + minor"},
                                   {"native", "1", "kernels with machine code that runs"},
                                   {"jit", "1", "kernels whose PTX is compiled at load"},
                                   {"compiled_out", "1", "kernels whose code for it is an empty body"},
                                   {"too_large", "1", "kernels launched with more shared memory than it has"},
                                   {"cannot_run", "1", "kernels that cannot run"}};
  table t = {0};
  kv_status st = KV_OK;
  for (size_t i = 0; i < audit->files && !st; i++)
    for (size_t c = 0; c < kva_map_column_count && !st; c++) {
      kva_judgement j;
      uint64_t count[KVA_VERDICTS] = {0};
      st = kva_judge(audit, &audit->file[i], kva_map_columns[c], tell->only, &j, err);
      if (st) break;
      for (size_t k = 0; k < j.kernels; k++) count[j.kernel[k].verdict]++;
      kva_judgement_free(&j);
      if (!room(&t, 7, 0)) {
        st = no_memory(err);
        break;
      }
      t.number[0][t.rows] = i;
      t.number[1][t.rows] = kva_map_columns[c];
      for (size_t v = 0; v < KVA_VERDICTS; v++) t.number[2 + v][t.rows] = count[v];
      t.rows++;
    }
  if (!st) st = write_table(file, "map", &t, numbers, 7, NULL, 0, err);
  table_free(&t, 0);
  return st;
}

static char *feature_list(uint64_t set) {
  char text[1024] = "";
  size_t n = 0;
  for (unsigned f = 0; f < KVA_FEATURES; f++)
    if ((set & KVA_BIT(f)) && n < sizeof text) {
      int k = snprintf(text + n, sizeof text - n, "%s%s", n ? ", " : "", kva_feature_key((kva_feature)f));
      n += k > 0 ? (size_t)k : 0;
    }
  return strdup(text);
}

static kv_status add_groups(table *t, const kva_audit *audit, size_t i, const kva_judgement *j, kv_error *err) {
  for (size_t k = 0; k < j->groups; k++) {
    const kva_group *g = &j->group[k];
    char why[2048], rebuild[4096];
    if (!room(t, 7, 6)) return no_memory(err);
    kva_explain(audit, &audit->file[i], j, g, why, sizeof why, rebuild, sizeof rebuild);
    const uint64_t row[] = {i, g->kernels[KVA_NATIVE], g->kernels[KVA_JIT], g->kernels[KVA_STUB],
                            g->kernels[KVA_TOO_LARGE], g->kernels[KVA_CANNOT], g->dynamic_high};
    char *text[] = {strdup(audit->families.text[g->family]), strdup(kva_verdict_key(g->worst)), strdup(why),
                    strdup(kva_rebuild_key(g->hardest)),      strdup(rebuild),                   feature_list(g->missing)};
    for (size_t c = 0; c < 7; c++) t->number[c][t->rows] = row[c];
    bool whole = true;
    for (size_t c = 0; c < 6; c++) whole &= (t->text[c][t->rows] = text[c]) != NULL;
    t->rows++;
    if (!whole) return no_memory(err);
  }
  return KV_OK;
}

static kv_status write_families(hid_t file, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  static const column texts[] = {{"family", "", "kernels' name without template arguments"},
                                 {"verdict", "", "the worst of the family's kernels"},
                                 {"why", "", "evidence for the verdict"},
                                 {"rebuild", "", "nothing, flag, guard, smaller-tiles, rewrite or unknown: the hardest of its kernels"},
                                 {"rebuild_how", "", "evidence for what a rebuild takes"},
                                 {"missing", "", "instructions that no target of the GPU has"}};
  static const column numbers[] = {{"file", "1", "row of /files"},
                                   {"native", "1", "kernels with machine code that runs"},
                                   {"jit", "1", "kernels whose PTX is compiled at load"},
                                   {"compiled_out", "1", "kernels whose code for it is an empty body"},
                                   {"too_large", "1", "kernels launched with more shared memory than it has"},
                                   {"cannot_run", "1", "kernels that cannot run"},
                                   {"launch_shared", "byte", "shared memory the host code asks for; 0: not found"}};
  table t = {0};
  kv_status st = KV_OK;
  for (size_t i = 0; i < audit->files && !st; i++) {
    kva_judgement j;
    st = kva_judge(audit, &audit->file[i], tell->sm, tell->only, &j, err);
    if (st) break;
    st = add_groups(&t, audit, i, &j, err);
    kva_judgement_free(&j);
  }
  if (!st) st = write_table(file, "families", &t, numbers, 7, texts, 6, err);
  table_free(&t, 6);
  return st;
}

kv_status kva_tell_h5(const char *path, const kva_audit *audit, const kva_tell *tell, kv_error *err) {
  kv_h5_out out;
  kv_status st = kv_h5_create(path, KVA_AUDIT_SCHEMA, "roofline", tell->command, &out, err);
  if (st) return st;
  char gpu[KVA_TARGET_TEXT] = "";
  if (tell->sm) kva_target_text((kva_target){tell->sm, '\0'}, gpu);
  const kva_limits *limits = kva_limits_of(tell->sm);
  st = kv_h5_put_str(out.file, "default", "map", err);
  if (!st) st = kv_h5_put_str(out.file, "gpu", gpu, err);
  if (!st && limits) st = kv_h5_put_i64(out.file, "shared_bytes_per_block", limits->shared_block, err);
  if (!st) st = kv_h5_put_i64(out.file, "not_read", (int64_t)audit->problems, err);
  if (!st) st = write_files(out.file, audit, err);
  if (!st) st = write_entries(out.file, audit, err);
  if (!st) st = write_map(out.file, audit, tell, err);
  if (!st && tell->sm) st = write_families(out.file, audit, tell, err);
  if (!st) st = kv_h5_commit(&out, err);
  kv_h5_abort(&out);
  return st;
}
