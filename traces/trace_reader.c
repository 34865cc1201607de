/* The kvtrace-1 reader. A forked child does everything that touches HDF5 and fills buffers in shared memory; the
 * parent gets them through a pipe, one message a batch, and hands each back through another when it is done. */
#include <errno.h>
#include <hdf5.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv_guard.h"
#include "kv_h5.h"
#include "trace.h"

#define BUFFERS 3
#define BATCH_EVENTS 16384u
#define BATCH_SLOTS (KV_H5_CHUNK * 4u)

/* Event columns, in this order everywhere below. */
enum { KIND, STEP, REQUEST, POSITION, LENGTH, AUX, COUNT, COLUMNS };
static const char *const column_name[COLUMNS] = {"events/kind",   "events/step", "events/request", "events/position",
                                                 "events/length", "events/aux",  "events/count"};
/* Columns of /steps after time. */
enum { STEP_COLUMNS = 6 };
static const char *const step_column[STEP_COLUMNS] = {"steps/requests",  "steps/tokens",    "steps/available",
                                                      "steps/evictable", "steps/protected", "steps/waiting"};

typedef struct buffer {
  int32_t slot[BATCH_SLOTS];
  kvt_step step_rows[BATCH_EVENTS];
  uint32_t step[BATCH_EVENTS];
  int32_t request[BATCH_EVENTS], position[BATCH_EVENTS], length[BATCH_EVENTS], aux[BATCH_EVENTS];
  uint32_t count[BATCH_EVENTS];
  uint8_t kind[BATCH_EVENTS];
} buffer;

/* From the child: the state of a buffer, or the end, or an error. */
typedef struct message {
  kv_status status; /* KV_OK: a batch (or the header first); KV_END; else an error whose text is in shared->err */
  uint32_t buffer;
  uint64_t first_event, first_slot;
  uint32_t events, slots, steps;
  bool more;
} message;

typedef struct shared {
  kvt_info info;
  kv_error err;
  buffer buffer[BUFFERS];
} shared;

struct kvt_reader {
  char *path;
  shared *shared;
  kvt_info info; /* a copy the child cannot change any more */
  kvt_check check;
  pid_t child;
  int from_child, to_child;
  int held; /* the buffer the caller has, -1 none */
  bool ended;
};

/* ---- the child ---- */

typedef struct source {
  const char *path;
  shared *shared;
  int out, in;
  hid_t file;
  hid_t column[COLUMNS], slots, time, step[STEP_COLUMNS];
  /* the block of events being dealt out */
  buffer *block;
  uint64_t block_first;
  uint32_t block_events, block_next;
  uint32_t given; /* slots of event block_next that earlier batches held */
  uint64_t next_slot, next_step;
  uint32_t batch_number;
} source;

static void child_end(source *s, kv_status status) {
  message m = {.status = status};
  ssize_t ignored = write(s->out, &m, sizeof m);
  (void)ignored;
  _exit(0);
}

static kv_status read_rows(hid_t dataset, hid_t type, uint64_t start, uint64_t n, void *out, const source *s,
                           const char *name, kv_error *err) {
  if (!n) return KV_OK;
  hsize_t from = start, count = n;
  hid_t file_space = H5Dget_space(dataset), memory_space = H5Screate_simple(1, &count, NULL);
  herr_t ok = H5Sselect_hyperslab(file_space, H5S_SELECT_SET, &from, NULL, &count, NULL);
  if (ok >= 0) ok = H5Dread(dataset, type, memory_space, file_space, H5P_DEFAULT, out);
  (void)H5Sclose(memory_space);
  (void)H5Sclose(file_space);
  if (ok >= 0) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: /%s: elements %llu to %llu cannot be read; the file is damaged", s->path,
                 name, (unsigned long long)start, (unsigned long long)(start + n - 1));
}

static hid_t column_type(const char *name) {
  if (!strcmp(name, "events/kind")) return H5T_NATIVE_UINT8;
  if (!strcmp(name, "events/step") || !strcmp(name, "events/count")) return H5T_NATIVE_UINT32;
  return !strcmp(name, "steps/time") ? H5T_NATIVE_INT64 : H5T_NATIVE_INT32;
}

/* An integer column; *n must equal *expected unless that is 0 (then it sets it). */
static kv_status open_integers(source *s, const char *name, hid_t *dataset, uint64_t *n, kv_error *err) {
  size_t elem;
  kv_status st = kv_h5_open_column(s->file, s->path, name, dataset, n, &elem, err);
  if (st == KV_END) return kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s is missing; not a %s file", s->path, name,
                                   KVT_CONVENTIONS);
  if (st) return st;
  hid_t stored = H5Dget_type(*dataset);
  const hid_t wanted = column_type(name);
  /* Another width or sign could not hold, or would silently bend, what stands there. */
  bool same = H5Tget_class(stored) == H5T_INTEGER && elem == H5Tget_size(wanted) && H5Tget_sign(stored) == H5Tget_sign(wanted);
  (void)H5Tclose(stored);
  if (same) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s does not hold %s integers of %zu bits (traces/README.md)", s->path, name,
                 H5Tget_sign(wanted) == H5T_SGN_2 ? "signed" : "unsigned", 8 * H5Tget_size(wanted));
}

static kv_status same_length(const source *s, const char *name, uint64_t n, const char *than, uint64_t expected,
                             kv_error *err) {
  if (n == expected) return KV_OK;
  return kv_fail(err, KV_ERR_INPUT, "%s: dataset /%s has %llu elements, /%s has %llu", s->path, name,
                 (unsigned long long)n, than, (unsigned long long)expected);
}

static kv_status open_columns(source *s, kvt_info *info, kv_error *err) {
  uint64_t n;
  kv_status st;
  for (int i = 0; i < COLUMNS; i++) {
    if ((st = open_integers(s, column_name[i], &s->column[i], &n, err))) return st;
    if (i == 0) info->events = n;
    if ((st = same_length(s, column_name[i], n, column_name[0], info->events, err))) return st;
  }
  if ((st = open_integers(s, "events/slots", &s->slots, &info->slots, err))) return st;
  if ((st = open_integers(s, "steps/time", &s->time, &info->steps, err))) return st;
  for (int i = 0; i < STEP_COLUMNS; i++) {
    if ((st = open_integers(s, step_column[i], &s->step[i], &n, err))) return st;
    if ((st = same_length(s, step_column[i], n, "steps/time", info->steps, err))) return st;
  }
  hid_t requests;
  if ((st = open_integers(s, "requests/input_length", &requests, &info->requests, err))) return st;
  (void)H5Dclose(requests);
  if (info->requests > (1u << 28) || info->steps > UINT32_MAX)
    return kv_fail(err, KV_ERR_INPUT, "%s: %llu requests and %llu steps are more than this format holds (2^28, 2^32)",
                   s->path, (unsigned long long)info->requests, (unsigned long long)info->steps);
  return KV_OK;
}

static kv_status list_length(source *s, const char *name, uint64_t *n, bool *there, kv_error *err) {
  hid_t dataset;
  size_t elem;
  kv_status st = kv_h5_open_column(s->file, s->path, name, &dataset, n, &elem, err);
  *there = st == KV_OK;
  if (st == KV_END) *n = 0;
  if (st == KV_OK) (void)H5Dclose(dataset);
  return st == KV_END ? KV_OK : st;
}

static kv_status whole_number(source *s, const char *name, int64_t low, int64_t high, int64_t *value, kv_error *err) {
  kv_status st = kv_h5_get_i64(s->file, name, value, err);
  if (st || *value < low || *value > high)
    return kv_fail(err, KV_ERR_INPUT, "%s: attribute %s is %s (%lld to %lld expected)", s->path, name,
                   st == KV_END ? "missing" : st ? "not a number" : "out of range", (long long)low, (long long)high);
  return KV_OK;
}

static kv_status read_head(source *s, kvt_info *info, kv_error *err) {
  char text[64] = "";
  int64_t pool, page;
  bool there;
  kv_status st = kv_h5_get_str(s->file, "Conventions", text, sizeof text, err);
  if (st || !kv_conventions_match(text, KVT_CONVENTIONS))
    return kv_fail(err, KV_ERR_INPUT, "%s: is '%s', not %s; `kvsim import` converts recordings", s->path,
                   text[0] ? text : "of no known kind", KVT_CONVENTIONS);
  st = kv_h5_get_str(s->file, "allocator", text, sizeof text, err);
  if (st || kvt_allocator_parse(text, &info->allocator, NULL))
    return kv_fail(err, KV_ERR_INPUT, "%s: attribute allocator is missing or unknown", s->path);
  if ((st = whole_number(s, "page_size", 1, 1 << 20, &page, err))) return st;
  if ((st = whole_number(s, "pool_size", 1, INT32_MAX - page, &pool, err))) return st;
  if (pool % page)
    return kv_fail(err, KV_ERR_INPUT, "%s: pool_size %lld is not a multiple of page_size %lld", s->path,
                   (long long)pool, (long long)page);
  if (!kvt_allocator_fits(info->allocator, (uint32_t)page))
    return kv_fail(err, KV_ERR_INPUT, "%s: allocator %s has pages of one slot, page_size is %lld", s->path, text,
                   (long long)page);
  info->pool_size = (uint32_t)pool;
  info->page_size = info->first_slot = (uint32_t)page;
  (void)kv_h5_get_str(s->file, "origin", info->origin, sizeof info->origin, NULL);
  (void)kv_h5_get_str(s->file, "source", info->source, sizeof info->source, NULL);
  if ((st = list_length(s, "initial/free_list", &info->initial_free, &there, err))) return st;
  if ((st = list_length(s, "final/release_list", &info->final_release, &there, err))) return st;
  if ((st = list_length(s, "final/free_list", &info->final_free, &info->has_final, err))) return st;
  uint64_t most = info->pool_size / info->page_size;
  if (info->initial_free > most || info->final_free > most || info->final_release > most)
    return kv_fail(err, KV_ERR_INPUT, "%s: a free list holds more than the pool has", s->path);
  return open_columns(s, info, err);
}

static kv_status next_block(source *s, kv_error *err) {
  buffer *b = s->block;
  void *into[COLUMNS] = {b->kind, b->step, b->request, b->position, b->length, b->aux, b->count};
  hid_t type[COLUMNS] = {H5T_NATIVE_UINT8, H5T_NATIVE_UINT32, H5T_NATIVE_INT32, H5T_NATIVE_INT32,
                         H5T_NATIVE_INT32, H5T_NATIVE_INT32,  H5T_NATIVE_UINT32};
  uint64_t left = s->shared->info.events - (s->block_first + s->block_events);
  s->block_first += s->block_events;
  s->block_events = (uint32_t)(left < BATCH_EVENTS ? left : BATCH_EVENTS);
  s->block_next = 0;
  for (int i = 0; i < COLUMNS; i++) {
    kv_status st = read_rows(s->column[i], type[i], s->block_first, s->block_events, into[i], s, column_name[i], err);
    if (st) return st;
  }
  return KV_OK;
}

/* Copies events of the block into `out` until it is full of slots or the block is at its end. */
static void deal_events(source *s, buffer *out, message *m) {
  const buffer *b = s->block;
  m->first_event = s->block_first + s->block_next;
  while (s->block_next < s->block_events && m->events < BATCH_EVENTS && !m->more) {
    uint32_t i = s->block_next, e = m->events;
    uint64_t left = (uint64_t)b->count[i] - s->given;
    uint32_t room = BATCH_SLOTS - m->slots;
    /* A long event is cut only when it would not fit in an empty batch either. */
    if (left > room && m->slots && left <= BATCH_SLOTS) break;
    uint32_t take = left > room ? room : (uint32_t)left;
    out->kind[e] = b->kind[i];
    out->step[e] = b->step[i];
    out->request[e] = b->request[i];
    out->position[e] = b->position[i] < 0 ? b->position[i] : (int32_t)(b->position[i] + (int64_t)s->given);
    out->length[e] = b->length[i];
    out->aux[e] = b->aux[i];
    out->count[e] = take;
    m->events++;
    m->slots += take;
    m->steps += b->kind[i] == KVT_STEP;
    m->more = take < left;
    s->given = m->more ? s->given + take : 0;
    s->block_next += !m->more;
  }
}

static kv_status read_steps(source *s, buffer *out, message *m, kv_error *err) {
  int32_t *column = malloc(BATCH_EVENTS * sizeof *column);
  int64_t *time = malloc(BATCH_EVENTS * sizeof *time);
  kv_status st = KV_OK;
  if (!column || !time) {
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", s->path);
    goto done;
  }
  if (s->next_step + m->steps > s->shared->info.steps) {
    st = kv_fail(err, KV_ERR_INPUT, "%s: /steps has %llu rows but there are more STEP events", s->path,
                 (unsigned long long)s->shared->info.steps);
    goto done;
  }
  st = read_rows(s->time, H5T_NATIVE_INT64, s->next_step, m->steps, time, s, "steps/time", err);
  for (uint32_t i = 0; i < m->steps && !st; i++) out->step_rows[i].time_us = time[i];
  for (int c = 0; c < STEP_COLUMNS && !st; c++) {
    st = read_rows(s->step[c], H5T_NATIVE_INT32, s->next_step, m->steps, column, s, step_column[c], err);
    for (uint32_t i = 0; i < m->steps && !st; i++) {
      kvt_step *row = &out->step_rows[i];
      int32_t *field[STEP_COLUMNS] = {&row->requests,  &row->tokens,     &row->available,
                                      &row->evictable, &row->protected_, &row->waiting};
      *field[c] = column[i];
    }
  }
  s->next_step += m->steps;
done:
  free(column);
  free(time);
  return st;
}

/* Fills one buffer. KV_END when everything has been dealt out. */
static kv_status fill(source *s, buffer *out, message *m, kv_error *err) {
  kv_status st;
  const kvt_info *info = &s->shared->info;
  if (s->block_next == s->block_events) {
    if (s->block_first + s->block_events == info->events) return KV_END;
    if ((st = next_block(s, err))) return st;
  }
  deal_events(s, out, m);
  m->first_slot = s->next_slot;
  if (m->slots > info->slots - s->next_slot)
    return kv_fail(err, KV_ERR_INPUT, "%s: /events/count[%llu]: the counts ask for more slots than /events/slots has (%llu)",
                   s->path, (unsigned long long)(m->first_event + m->events - 1), (unsigned long long)info->slots);
  if ((st = read_rows(s->slots, H5T_NATIVE_INT32, s->next_slot, m->slots, out->slot, s, "events/slots", err)))
    return st;
  s->next_slot += m->slots;
  return m->steps ? read_steps(s, out, m, err) : KV_OK;
}

static kv_status all_used(const source *s, kv_error *err) {
  const kvt_info *info = &s->shared->info;
  if (s->next_slot != info->slots)
    return kv_fail(err, KV_ERR_INPUT, "%s: /events/slots has %llu elements, the counts add up to %llu", s->path,
                   (unsigned long long)info->slots, (unsigned long long)s->next_slot);
  if (s->next_step != info->steps)
    return kv_fail(err, KV_ERR_INPUT, "%s: /steps has %llu rows, there are %llu STEP events", s->path,
                   (unsigned long long)info->steps, (unsigned long long)s->next_step);
  return KV_OK;
}

static void child_main(source *s) {
  kv_error *err = &s->shared->err;
  message m = {.status = KV_OK};
  kv_guard_child_limits();
  kv_h5_quiet();
  s->file = H5Fopen(s->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (s->file < 0)
    child_end(s, kv_fail(err, KV_ERR_INPUT, "%s: damaged or cut short: HDF5 cannot open it", s->path));
  kv_status st = read_head(s, &s->shared->info, err);
  s->block = malloc(sizeof *s->block);
  if (!st && !s->block) st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", s->path);
  if (st) child_end(s, st);
  while (write(s->out, &m, sizeof m) == (ssize_t)sizeof m) {
    char token;
    if (read(s->in, &token, 1) != 1) _exit(0); /* the caller closed the reader */
    m = (message){.buffer = (uint32_t)token % BUFFERS};
    st = fill(s, &s->shared->buffer[m.buffer], &m, err);
    if (st == KV_END && (st = all_used(s, err)) == KV_OK) st = KV_END;
    if (st) child_end(s, st);
  }
  _exit(0);
}

/* ---- the parent ---- */

static kv_status await(kvt_reader *r, message *m, kv_error *err) {
  size_t have = 0;
  int status = 0;
  while (have < sizeof *m) {
    struct pollfd p = {.fd = r->from_child, .events = POLLIN};
    int ready = poll(&p, 1, kv_guard_seconds() * 1000);
    if (ready < 0 && errno == EINTR) continue;
    ssize_t n = ready > 0 ? read(r->from_child, (char *)m + have, sizeof *m - have) : 0;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += (size_t)n;
  }
  if (have == sizeof *m) {
    if (m->status == KV_OK || m->status == KV_END) return m->status;
    if (err) *err = r->shared->err;
    return m->status;
  }
  (void)kill(r->child, SIGKILL);
  while (waitpid(r->child, &status, 0) < 0 && errno == EINTR) continue;
  r->child = -1;
  return kv_guard_explain(r->path, status, err);
}

static void give_back(kvt_reader *r, int number) {
  char token = (char)number;
  ssize_t ignored = write(r->to_child, &token, 1);
  (void)ignored;
}

/* Keeps the reader reachable in the child, for leak checkers. */
static const kvt_reader *volatile reader_of_child;

static kv_status start_child(kvt_reader *r, kv_error *err) {
  int down[2] = {-1, -1}, up[2] = {-1, -1};
  if (pipe(down) != 0 || pipe(up) != 0) {
    if (down[0] >= 0) (void)close(down[0]), (void)close(down[1]);
    return kv_fail(err, KV_ERR_IO, "pipe: %s", strerror(errno));
  }
  fflush(NULL);
  r->child = fork();
  if (r->child == 0) {
    (void)close(down[1]);
    (void)close(up[0]);
    reader_of_child = r;
    source s = {.path = r->path, .shared = r->shared, .out = up[1], .in = down[0]};
    child_main(&s);
  }
  (void)close(down[0]);
  (void)close(up[1]);
  r->to_child = down[1];
  r->from_child = up[0];
  return r->child > 0 ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "fork: %s", strerror(errno));
}

kv_status kvt_reader_open(const char *path, kvt_reader **reader, kvt_info *info, kv_error *err) {
  message m;
  *reader = NULL;
  kv_status st = kv_guard_is_hdf5(path, err);
  if (st) return st;
  kvt_reader *r = calloc(1, sizeof *r);
  if (!r) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  r->held = r->from_child = r->to_child = -1;
  r->child = -1;
  r->path = strdup(path);
  r->shared = kv_guard_share(sizeof *r->shared);
  if (!r->path || !r->shared)
    st = kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  else if (!(st = start_child(r, err)))
    st = await(r, &m, err);
  if (st) {
    kvt_reader_close(r);
    return st;
  }
  (void)signal(SIGPIPE, SIG_IGN); /* a child that died shows as end of file, not as a signal here */
  r->info = *info = r->shared->info;
  for (int i = 0; i < BUFFERS; i++) give_back(r, i);
  *reader = r;
  return KV_OK;
}

kv_status kvt_reader_next(kvt_reader *r, kvt_batch *batch, kv_error *err) {
  message m;
  if (r->ended) return KV_END;
  if (r->held >= 0) give_back(r, r->held);
  r->held = -1;
  kv_status st = await(r, &m, err);
  if (st) {
    r->ended = true;
    return st;
  }
  if (m.buffer >= BUFFERS || m.events > BATCH_EVENTS || m.slots > BATCH_SLOTS || m.steps > m.events)
    return kv_fail(err, KV_ERR_INPUT, "%s: the reading process went wild; the file is damaged", r->path);
  const buffer *b = &r->shared->buffer[m.buffer];
  r->held = (int)m.buffer;
  *batch = (kvt_batch){.first_event = m.first_event, .first_slot = m.first_slot, .events = m.events, .slots = m.slots,
                       .steps = m.steps, .more = m.more, .kind = b->kind, .step = b->step, .request = b->request,
                       .position = b->position, .length = b->length, .aux = b->aux, .count = b->count,
                       .slot = b->slot, .step_rows = b->step_rows};
  return kvt_check_batch(batch, &r->info, r->path, &r->check, err);
}

void kvt_reader_close(kvt_reader *r) {
  if (!r) return;
  if (r->child > 0) {
    (void)kill(r->child, SIGKILL);
    while (waitpid(r->child, NULL, 0) < 0 && errno == EINTR) continue;
  }
  if (r->from_child >= 0) (void)close(r->from_child);
  if (r->to_child >= 0) (void)close(r->to_child);
  kv_guard_unshare(r->shared, sizeof *r->shared);
  free(r->path);
  free(r);
}

/* ---- lists ---- */

typedef struct list_args {
  const char *path, *name;
  uint64_t n;
  int32_t *out;
} list_args;

static kv_status read_list_in_child(kv_guard *guard, void *arg, kv_error *err) {
  list_args *a = arg;
  (void)guard;
  source s = {.path = a->path};
  uint64_t n;
  hid_t dataset;
  kv_h5_quiet();
  s.file = H5Fopen(a->path, H5F_ACC_RDONLY, H5P_DEFAULT);
  if (s.file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: damaged or cut short: HDF5 cannot open it", a->path);
  kv_status st = open_integers(&s, a->name, &dataset, &n, err);
  if (st) return st;
  if (n != a->n) return kv_fail(err, KV_ERR_INPUT, "%s: /%s changed its length while being read", a->path, a->name);
  return read_rows(dataset, H5T_NATIVE_INT32, 0, n, a->out, &s, a->name, err);
}

kv_status kvt_read_list(const char *path, const char *name, uint64_t n, int32_t *out, kv_error *err) {
  if (!n) return KV_OK;
  list_args args = {path, name, n, kv_guard_share(n * sizeof *out)};
  if (!args.out) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  kv_status st = kv_guard_run(read_list_in_child, &args, path, NULL, err);
  if (!st) memcpy(out, args.out, n * sizeof *out);
  kv_guard_unshare(args.out, n * sizeof *out);
  return st;
}
