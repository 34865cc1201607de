#include "whatif_run.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kv_guard.h"

/* ---- one simulation, in its own process ---- */

static kv_status keep_sample(void *arg, const kvs_whatif_sample *s, kv_error *err) {
  kvs_cell *c = arg;
  (void)err;
  if (c->samples < KVS_SAMPLES_MOST) c->sample[c->samples++] = *s;
  return KV_OK;
}

static kv_status count_differences(const char *path, const char *name, uint64_t said_n, const int32_t *have, uint64_t n,
                                   uint64_t *differ, kv_error *err) {
  uint64_t both = said_n < n ? said_n : n;
  int32_t *said = malloc(said_n * sizeof *said + 1);
  kv_status st = said ? kvt_read_list(path, name, said_n, said, err) : kv_fail(err, KV_ERR_MEMORY, "out of memory");
  *differ += said_n > n ? said_n - n : n - said_n;
  for (uint64_t i = 0; i < both && !st; i++) *differ += said[i] != have[i];
  free(said);
  return st;
}

static kv_status compare_lists(const char *path, const kvt_info *info, const kvs_world *w, kvs_cell *cell, kv_error *err) {
  const kvs_freelist *l = &w->list;
  if (!w->follow || w->identity || !info->has_final) return KV_OK;
  int32_t *have = malloc(((size_t)l->count + l->released) * sizeof *have + 1);
  if (!have) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kvs_freelist_copy(l, have, have + l->count);
  cell->list_compared = true;
  kv_status st = count_differences(path, "final/free_list", info->final_free, have, l->count, &cell->list_mismatches, err);
  if (!st)
    st = count_differences(path, "final/release_list", info->final_release, have + l->count, l->released,
                           &cell->list_mismatches, err);
  free(have);
  return st;
}

static kv_status pass(kvs_whatif *f, kvt_reader *reader, const kvt_info *info, volatile double *at, kv_error *err) {
  kvt_batch b;
  kv_status st;
  while ((st = kvt_reader_next(reader, &b, err)) == KV_OK) {
    st = kvs_whatif_batch(f, &b, err);
    if (st) break;
    *at = info->events ? (double)(b.first_event + b.events) / (double)info->events : 1;
  }
  return st == KV_END ? kvs_whatif_finish(f, err) : st;
}

static kv_status read_initial(const char *path, const kvt_info *info, int32_t **initial, kv_error *err) {
  *initial = NULL;
  if (!info->initial_free) return KV_OK;
  *initial = malloc(info->initial_free * sizeof **initial);
  if (!*initial) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  return kvt_read_list(path, "initial/free_list", info->initial_free, *initial, err);
}

static kv_status simulate(kvs_cell *cell, const kvs_cells_options *o, volatile double *at, kv_error *err) {
  kvs_whatif_options w = o->whatif;
  kvt_reader *reader = NULL;
  kvs_whatif *f = NULL;
  kvt_info info;
  int32_t *initial = NULL;
  w.name = o->path;
  w.settings = cell->settings;
  w.map_step = cell->map_step;
  w.arg = cell;
  w.sample = keep_sample;
  kv_status st = kvt_reader_open(o->path, &reader, &info, err);
  if (!st) st = read_initial(o->path, &info, &initial, err);
  if (!st) st = kvs_whatif_create(&info, cell->policy, &w, initial, &f, err);
  if (!st) st = pass(f, reader, &info, at, err);
  if (!st) st = compare_lists(o->path, &info, kvs_whatif_get_world(f), cell, err);
  if (!st) cell->result = *kvs_whatif_get_result(f);
  kvs_whatif_free(f);
  kvt_reader_close(reader);
  free(initial);
  return st;
}

static void child(kvs_cell *cell, const kvs_cells_options *o, volatile double *at) {
  struct rusage usage;
  cell->status = simulate(cell, o, at, &cell->err);
  (void)getrusage(RUSAGE_SELF, &usage);
  cell->memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
  cell->seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec * 1e-6;
  cell->done = true;
  _exit(0);
}

/* ---- the parent ---- */

typedef struct job {
  pid_t pid; /* 0: none */
  uint32_t cell;
} job;

static kv_status start(kvs_cell *cells, uint32_t i, const kvs_cells_options *o, double *at, job *j, kv_error *err) {
  fflush(NULL);
  j->cell = i;
  j->pid = fork();
  if (j->pid == 0) {
    kv_guard_child_limits();
    child(&cells[i], o, at + i);
  }
  if (j->pid > 0) return KV_OK;
  j->pid = 0;
  return kv_fail(err, KV_ERR_MEMORY, "fork: %s", strerror(errno));
}

static kv_status ended(kvs_cell *cell, int status, const kvs_cells_options *o, kv_error *err) {
  if (!cell->done)
    return kv_fail(err, KV_ERR_INTERNAL, "%s: the simulation of policy %s ended unexpectedly (status %d)", o->path, cell->policy->name,
                   status);
  if (o->finished) o->finished(o->arg, cell);
  if (cell->status == KV_OK || cell->status == KV_ERR_USAGE) return KV_OK;
  if (err) *err = cell->err;
  return cell->status;
}

static kv_status reap(kvs_cell *cells, job *jobs, unsigned n, unsigned *running, const kvs_cells_options *o, kv_error *err) {
  kv_status st = KV_OK;
  for (unsigned k = 0; k < n; k++) {
    int status = 0;
    if (!jobs[k].pid || waitpid(jobs[k].pid, &status, WNOHANG) != jobs[k].pid) continue;
    jobs[k].pid = 0;
    (*running)--;
    kv_status one = ended(&cells[jobs[k].cell], status, o, st ? NULL : err);
    if (!st) st = one;
  }
  return st;
}

static void tell_progress(const kvs_cells_options *o, const double *at, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) sum += at[i];
  if (o->progress) o->progress(o->arg, sum / n);
}

kv_status kvs_cells_run(kvs_cell *cells, uint32_t n, const kvs_cells_options *o, kv_error *err) {
  enum { JOBS_MOST = 64 };
  job jobs[JOBS_MOST] = {{0, 0}};
  unsigned most = o->jobs ? o->jobs < JOBS_MOST ? o->jobs : JOBS_MOST : 1, running = 0;
  uint32_t next = 0;
  kv_status st = KV_OK;
  double *at = kv_guard_share(n * sizeof *at + 1);
  const struct timespec nap = {0, 5000000};
  if (!at) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  while (!st && (next < n || running)) {
    for (unsigned k = 0; k < most && next < n && !st; k++) {
      if (jobs[k].pid) continue;
      if (!(st = start(cells, next, o, at, &jobs[k], err))) running++;
      next++;
    }
    (void)nanosleep(&nap, NULL);
    if (!st) st = reap(cells, jobs, most, &running, o, err);
    tell_progress(o, at, n);
  }
  for (unsigned k = 0; k < most; k++)
    if (jobs[k].pid) {
      (void)kill(jobs[k].pid, SIGKILL);
      while (waitpid(jobs[k].pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
  kv_guard_unshare(at, n * sizeof *at + 1);
  return st;
}

/* ---- judging ---- */

static double paid(const kvs_cell *c, const kvs_prices *p, double *bytes, double *move, double *recompute) {
  *bytes = (double)(c->result.tally.moved + c->result.tally.copied) * p->row_bytes * p->layers +
           (double)c->result.tally.tails * p->row_bytes * p->draft_layers;
  *move = 2 * *bytes / p->copy_bandwidth;
  *recompute = (double)c->result.tally.refilled * p->token_seconds;
  return *move + *recompute;
}

static const char *verdict(const kvs_cell *c, const kvs_cell *base, const kvs_judgement *j, double base_read, double effect) {
  if (c->policy->costs_nothing) return "bound";
  if (!base || c == base) return "baseline";
  if (!(base_read > 0)) return "not known"; /* no rows are read in decode steps: nothing to save of */
  if (j->net == 0 || fabs(j->net) < effect * base_read) return "no effect";
  return j->net > 0 ? "do it" : "don't";
}

/* A schedule that broke off has read less than the others: nothing of it compares. */
static const kvs_judgement misfit = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, "does not fit"};

kvs_judgement kvs_judge(const kvs_cell *c, const kvs_cell *base, uint32_t cost, const kvs_prices *p) {
  if (!c->result.fits) return misfit;
  kvs_judgement j = {.read = c->result.read_seconds[cost], .break_even = NAN};
  double b0, m0, r0, before = base ? paid(base, p, &b0, &m0, &r0) : 0, base_read = base ? base->result.read_seconds[cost] : j.read;
  double more = paid(c, p, &j.moved_bytes, &j.move, &j.recompute) - before;
  j.saved = base_read - j.read;
  j.saved_step = c->result.decode_steps ? j.saved / (double)c->result.decode_steps : 0;
  j.net = j.saved - more;
  if (more <= 0)
    j.break_even = 0;
  else if (j.saved_step > 0)
    j.break_even = more / j.saved_step;
  j.verdict = verdict(c, base, &j, base_read, p->effect);
  return j;
}
