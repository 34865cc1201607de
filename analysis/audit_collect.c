/* Collecting: entries of every object, unpacked by a few threads, their kernels kept. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit.h"
#include "audit_cubin.h"
#include "audit_sass.h"

typedef struct collecting {
  kva_audit *audit;
  const kva_collect_options *options;
} collecting;

/* One entry's kernels, while its file is mapped. */
typedef struct entry_work {
  kva_variant *variant;
  size_t count, capacity;
  kv_status status; /* KV_ERR_MEMORY, or KV_OK */
} entry_work;

typedef struct job {
  kva_audit *audit;
  const kva_collect_options *options;
  const kva_object *object;
  const kva_entries *entries;
  kva_held *held;
  entry_work *work;
  atomic_size_t next;
  pthread_mutex_t lock; /* of audit->names */
  pthread_mutex_t gate; /* of unpacked, with its condition */
  pthread_cond_t room;
  uint64_t unpacked; /* bytes that entries in work unpack to */
} job;

typedef struct entry_visit {
  job *job;
  size_t entry;
} entry_visit;

static kv_status add_problem(kva_audit *audit, const char *name, const char *text, kv_error *err) {
  char **more = realloc(audit->problem, (audit->problems + 1) * sizeof *more);
  if (!more) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", name);
  audit->problem = more;
  if (asprintf(&more[audit->problems], "%s: %s", name, text) < 0)
    return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", name);
  audit->problems++;
  return KV_OK;
}

static void keep_kernel(void *context, const kva_kernel *k) {
  const entry_visit *v = context;
  entry_work *w = &v->job->work[v->entry];
  if (w->status) return;
  if (w->count == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 8;
    kva_variant *more = realloc(w->variant, capacity * sizeof *more);
    if (!more) {
      w->status = KV_ERR_MEMORY;
      return;
    }
    w->variant = more;
    w->capacity = capacity;
  }
  kva_variant *out = &w->variant[w->count];
  *out = (kva_variant){.entry = (uint32_t)v->entry,
                       .features = k->features,
                       .registers = k->registers,
                       .shared = k->shared,
                       .stack = k->stack,
                       .max_threads = k->max_threads,
                       .instructions = k->instructions,
                       .dynamic_shared = k->dynamic_shared,
                       .traps = k->traps};
  for (size_t f = 0; f < KVA_FEATURES; f++) out->count[f] = (uint16_t)(k->count[f] < 65535 ? k->count[f] : 65535);
  (void)pthread_mutex_lock(&v->job->lock);
  w->status = kva_names_add(&v->job->audit->names, k->name, k->name_length, &out->name, NULL);
  (void)pthread_mutex_unlock(&v->job->lock);
  if (!w->status) w->count++;
}

/* `object` non-NULL: the bytes lie in its mapping, and pages are given back on the way. */
static uint64_t hash_bytes(const unsigned char *p, size_t n, const kva_object *object) {
  enum { PIECE = 1 << 22 };
  uint64_t h = 0xcbf29ce484222325u, word;
  while (n) {
    size_t piece = n < PIECE ? n : PIECE, i = 0;
    for (; i + 8 <= piece; i += 8) {
      memcpy(&word, p + i, 8);
      h = (h ^ word) * 0x100000001b3u;
      h ^= h >> 29;
    }
    for (; i < piece; i++) h = (h ^ p[i]) * 0x100000001b3u;
    if (object) kva_release(object, p, piece);
    p += piece;
    n -= piece;
  }
  return h ? h : 1;
}

static void note(kva_held *held, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first problem of an entry is kept. */
static void note(kva_held *held, const char *format, ...) {
  va_list args;
  va_start(args, format);
  if (!held->problem && vasprintf(&held->problem, format, args) < 0) held->problem = NULL;
  va_end(args);
}

/* Our own count beside nvdisasm's, for the features that both know: a difference is an error of ours. */
static void take_sass(void *context, const kva_sass_state *s) {
  const entry_visit *v = context;
  job *j = v->job;
  entry_work *w = &j->work[v->entry];
  for (size_t i = 0; i < w->count; i++) {
    kva_variant *k = &w->variant[i];
    (void)pthread_mutex_lock(&j->lock);
    bool same = !strcmp(j->audit->names.text[k->name], s->kernel);
    (void)pthread_mutex_unlock(&j->lock);
    if (!same) continue;
    for (size_t f = 0; f < KVA_FEATURES; f++) {
      uint16_t count = (uint16_t)(s->count[f] < 65535 ? s->count[f] : 65535);
      bool ours = kva_feature_mnemonic((kva_feature)f)[0] != '\0';
      if (ours && count != k->count[f] && f != KVA_MBARRIER)
        note(&j->held[v->entry], "%s: %u counted, %u by nvdisasm in %.80s", kva_feature_key((kva_feature)f), k->count[f],
             count, s->kernel);
      if (count) k->count[f] = count;
    }
    k->features |= s->features;
    k->sass = true;
  }
}

static bool any_matches(job *j, size_t entry) {
  enum { TEXT = 65536 };
  char *text = malloc(TEXT);
  bool any = false;
  for (size_t i = 0; text && i < j->work[entry].count && !any; i++) {
    (void)pthread_mutex_lock(&j->lock);
    const char *name = j->audit->names.text[j->work[entry].variant[i].name];
    (void)pthread_mutex_unlock(&j->lock);
    kva_demangle(name, text, TEXT);
    any = regexec(j->options->sass, text, 0, NULL, 0) == 0;
  }
  free(text);
  return any;
}

static void read_entry(job *j, size_t i, kva_buffer *buffer) {
  const kva_entry *e = &j->entries->entry[i];
  entry_visit v = {j, i};
  const unsigned char *data;
  size_t size;
  kv_error err = {0};
  if (e->kind != KVA_KIND_CODE && e->kind != KVA_KIND_PTX) return;
  kv_status st = kva_unpack(e, buffer, &data, &size, &err);
  const kva_object *mapped = data == e->payload ? j->object : NULL;
  if (!st && j->options->hash) j->held[i].code_hash = hash_bytes(data, size, mapped);
  if (!st && e->kind == KVA_KIND_CODE) {
    kva_cubin_options o = {.sm = e->target.sm, .code = j->options->code, .mapped = mapped};
    st = kva_cubin_kernels(data, size, &o, keep_kernel, &v, &err);
    if (!st && j->options->sass && any_matches(j, i)) st = kva_sass(data, size, take_sass, &v, &err);
  }
  if (!st && e->kind == KVA_KIND_PTX) {
    kva_target target = e->target;
    st = kva_ptx_kernels((const char *)data, size, &target, keep_kernel, &v, &err);
    if (e->bare) j->held[i].target = target;
  }
  if (st == KV_ERR_MEMORY && !j->work[i].status) j->work[i].status = st;
  if (st) note(&j->held[i], "%s", err.text);
  j->held[i].kernels = (uint32_t)j->work[i].count;
  kva_release(j->object, e->payload, (size_t)e->stored);
}

/* Threads unpack side by side only while it stays small together: memory is bounded by the largest entry, not by the
 * number of processors. */
enum { UNPACKED_TOGETHER = 40 << 20, UNPACKED_KEPT = 4 << 20 };

static void wait_for_room(job *j, uint64_t need) {
  (void)pthread_mutex_lock(&j->gate);
  while (j->unpacked && j->unpacked + need > UNPACKED_TOGETHER) (void)pthread_cond_wait(&j->room, &j->gate);
  j->unpacked += need;
  (void)pthread_mutex_unlock(&j->gate);
}

static void give_room(job *j, uint64_t need) {
  (void)pthread_mutex_lock(&j->gate);
  j->unpacked -= need;
  (void)pthread_cond_broadcast(&j->room);
  (void)pthread_mutex_unlock(&j->gate);
}

static void *work_on(void *context) {
  job *j = context;
  kva_buffer buffer = {0};
  for (size_t i; (i = atomic_fetch_add(&j->next, 1)) < j->entries->count;) {
    const kva_entry *e = &j->entries->entry[i];
    uint64_t need = e->packing == KVA_PACK_NONE || e->size > KVA_UNPACKED_MAX ? 0 : e->size;
    wait_for_room(j, need);
    read_entry(j, i, &buffer);
    if (buffer.capacity > UNPACKED_KEPT) kva_buffer_free(&buffer);
    give_room(j, need);
  }
  kva_buffer_free(&buffer);
  return NULL;
}

/* Several threads where there is work for them; this one is always among them. */
static void run_job(job *j) {
  enum { MOST = 64 };
  pthread_t thread[MOST];
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  size_t want = j->options->threads ? j->options->threads : processors > 0 ? (size_t)processors : 1, started = 0;
  if (want > j->entries->count) want = j->entries->count;
  if (want > MOST) want = MOST;
  while (started + 1 < want && pthread_create(&thread[started], NULL, work_on, j) == 0) started++;
  (void)work_on(j);
  for (size_t i = 0; i < started; i++) (void)pthread_join(thread[i], NULL);
}

static kv_status gather(job *j, kva_file *file, kv_error *err) {
  kv_status st = KV_OK;
  for (size_t i = 0; i < j->entries->count; i++) {
    file->variants += j->work[i].count;
    if (j->work[i].status) st = kv_fail(err, j->work[i].status, "%s: out of memory", j->object->name);
  }
  if (!st && file->variants) {
    file->variant = malloc(file->variants * sizeof *file->variant);
    if (!file->variant) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", j->object->name);
  }
  size_t at = 0;
  for (size_t i = 0; i < j->entries->count; i++) {
    if (!st && j->work[i].count)
      memcpy(file->variant + at, j->work[i].variant, j->work[i].count * sizeof *file->variant);
    at += j->work[i].count;
    free(j->work[i].variant);
  }
  return st;
}

static void hold_entries(const kva_entries *entries, kva_held *held) {
  for (size_t i = 0; i < entries->count; i++) {
    const kva_entry *e = &entries->entry[i];
    held[i] = (kva_held){.kind = e->kind,
                         .target = e->target,
                         .packing = e->packing,
                         .version_major = e->version_major,
                         .version_minor = e->version_minor,
                         .bare = e->bare,
                         .in_data = e->in_data,
                         .flags = e->flags,
                         .stored = e->stored,
                         .size = e->size};
  }
}

static kv_status read_kernels(kva_audit *audit, const kva_collect_options *options, const kva_object *object,
                              const kva_entries *entries, kva_file *file, kv_error *err) {
  job j = {.audit = audit, .options = options, .object = object, .entries = entries, .held = file->entry};
  if (options->entries_only) return KV_OK;
  j.work = calloc(entries->count, sizeof *j.work);
  if (!j.work) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", object->name);
  (void)pthread_mutex_init(&j.lock, NULL); /* with default attributes these do not fail on Linux */
  (void)pthread_mutex_init(&j.gate, NULL);
  (void)pthread_cond_init(&j.room, NULL);
  run_job(&j);
  kv_status st = gather(&j, file, err);
  (void)pthread_mutex_destroy(&j.lock);
  (void)pthread_mutex_destroy(&j.gate);
  (void)pthread_cond_destroy(&j.room);
  free(j.work);
  for (size_t i = 0; i < entries->count && !st; i++)
    if (file->entry[i].problem) st = add_problem(audit, object->name, file->entry[i].problem, err);
  return st;
}

static kv_status new_file(kva_audit *audit, const kva_object *object, const kva_entries *entries, kva_file **file,
                          kv_error *err) {
  if (audit->files == audit->capacity) {
    size_t capacity = audit->capacity ? 2 * audit->capacity : 16;
    kva_file *more = realloc(audit->file, capacity * sizeof *more);
    if (!more) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", object->name);
    audit->file = more;
    audit->capacity = capacity;
  }
  kva_file *f = &audit->file[audit->files];
  *f = (kva_file){.name = strdup(object->name),
                  .bytes = object->size,
                  .origin = entries->origin,
                  .entries = entries->count,
                  .entry = calloc(entries->count + 1, sizeof *f->entry)};
  audit->files++;
  *file = f;
  if (!f->name || !f->entry) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", object->name);
  hold_entries(entries, f->entry);
  (void)snprintf(f->problem, sizeof f->problem, "%s", entries->problem);
  return KV_OK;
}

static kv_status visit_object(void *context, const kva_object *object, kv_error *err) {
  collecting *c = context;
  kva_entries entries;
  kva_file *file = NULL;
  kv_status st = kva_list_entries(object, &entries, err);
  if (st) return st;
  if (entries.problem[0]) st = add_problem(c->audit, object->name, entries.problem, err);
  if (!st && entries.count) {
    st = new_file(c->audit, object, &entries, &file, err);
    if (!st) st = read_kernels(c->audit, c->options, object, &entries, file, err);
    if (!st && file->variants && file->origin == KVA_LINKED)
      st = kva_host_launches(object, &c->audit->names, &file->launch, &file->launches, err);
    if (c->options->progress) c->options->progress(c->options->context, c->audit->files);
  }
  kva_entries_free(&entries);
  return st;
}

static void visit_problem(void *context, const char *name, const char *text) {
  collecting *c = context;
  (void)add_problem(c->audit, name, text, NULL);
}

kv_status kva_audit_add(kva_audit *audit, const char *path, const kva_collect_options *options, kv_error *err) {
  collecting c = {audit, options};
  return kva_walk(path, NULL, visit_object, visit_problem, &c, &audit->walked, err);
}

kv_status kva_audit_add_memory(kva_audit *audit, const char *name, const unsigned char *data, size_t size,
                               const kva_collect_options *options, kv_error *err) {
  collecting c = {audit, options};
  kva_object object = {name, data, size, false};
  return kva_walk_memory(&object, visit_object, visit_problem, &c, err);
}

kv_status kva_audit_families(kva_audit *audit, kv_error *err) {
  enum { TEXT = 65536 };
  kv_status st = KV_OK;
  char *demangled = malloc(TEXT), family[1024];
  free(audit->family_of);
  audit->family_of = calloc((size_t)audit->names.count + 1, sizeof *audit->family_of);
  if (!demangled || !audit->family_of) st = kv_fail(err, KV_ERR_MEMORY, "kernel families: out of memory");
  for (uint32_t i = 0; !st && i < audit->names.count; i++) {
    kva_demangle(audit->names.text[i], demangled, TEXT);
    kva_family(demangled, family, sizeof family);
    st = kva_names_add(&audit->families, family, strlen(family), &audit->family_of[i], err);
  }
  free(demangled);
  return st;
}

void kva_audit_free(kva_audit *audit) {
  for (size_t i = 0; i < audit->files; i++) {
    free(audit->file[i].name);
    for (size_t k = 0; k < audit->file[i].entries; k++) free(audit->file[i].entry[k].problem);
    free(audit->file[i].entry);
    free(audit->file[i].variant);
    free(audit->file[i].launch);
  }
  for (size_t i = 0; i < audit->problems; i++) free(audit->problem[i]);
  free(audit->problem);
  free(audit->file);
  free(audit->family_of);
  kva_names_free(&audit->names);
  kva_names_free(&audit->families);
  *audit = (kva_audit){0};
}
