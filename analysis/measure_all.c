#include "measure_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

/* ---- meeting ---- */

struct kva_meeting {
  pthread_mutex_t lock;
  pthread_cond_t all_here;
  int ranks, waiting;
  unsigned turn;
};

kv_status kva_meeting_open(int ranks, kva_meeting **meeting, kv_error *err) {
  kva_meeting *m = calloc(1, sizeof *m);
  *meeting = m;
  if (!m) return kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory");
  (void)pthread_mutex_init(&m->lock, NULL);
  (void)pthread_cond_init(&m->all_here, NULL);
  m->ranks = ranks;
  return KV_OK;
}

static void next_turn(kva_meeting *m) {
  m->waiting = 0;
  m->turn++;
  (void)pthread_cond_broadcast(&m->all_here);
}

void kva_meeting_wait(kva_meeting *m) {
  (void)pthread_mutex_lock(&m->lock);
  const unsigned turn = m->turn;
  if (++m->waiting == m->ranks) next_turn(m);
  while (turn == m->turn) (void)pthread_cond_wait(&m->all_here, &m->lock);
  (void)pthread_mutex_unlock(&m->lock);
}

void kva_meeting_leave(kva_meeting *m) {
  (void)pthread_mutex_lock(&m->lock);
  m->ranks--;
  if (m->waiting > 0 && m->waiting == m->ranks) next_turn(m);
  (void)pthread_mutex_unlock(&m->lock);
}

void kva_meeting_close(kva_meeting *m) {
  if (!m) return;
  (void)pthread_cond_destroy(&m->all_here);
  (void)pthread_mutex_destroy(&m->lock);
  free(m);
}

/* ---- files ---- */

void kva_device_file(const char *output, const int *devices, int i, char *path, size_t size) {
  const char *dot = strrchr(output, '.');
  const size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - output) : strlen(output);
  if (i == 0) (void)snprintf(path, size, "%s", output);
  else (void)snprintf(path, size, "%.*s-gpu%d%s", (int)stem, output, devices[i], output + stem);
}

void kva_device_folder(const char *folder, const int *devices, int i, char *path, size_t size) {
  size_t n = strlen(folder);
  while (n > 1 && folder[n - 1] == '/') n--;
  if (i == 0) (void)snprintf(path, size, "%s", folder);
  else (void)snprintf(path, size, "%.*s-gpu%d", (int)n, folder, devices[i]);
}

/* ---- measuring ---- */

typedef struct crowd {
  const kva_measure_plan *plan;
  kva_meeting *meeting;
  pthread_mutex_t saving; /* HDF5 takes one thread at a time */
} crowd;

typedef struct rank {
  kva_measure_plan plan;
  crowd *crowd;
  int device;
  kva_measured *measured;
  kv_status status;
  kv_error error;
} rank;

static kv_status after(void *self, const kva_measured *measured, kv_error *err) {
  crowd *c = ((rank *)self)->crowd;
  (void)pthread_mutex_lock(&c->saving);
  kv_status st = c->plan->after(c->plan->user, measured, err);
  (void)pthread_mutex_unlock(&c->saving);
  return st;
}

static void before(void *self) {
  kva_meeting_wait(((rank *)self)->crowd->meeting);
}

static void *run_rank(void *self) {
  rank *k = self;
  k->status = kva_measure(&k->plan, k->device, k->measured, &k->error);
  kva_meeting_leave(k->crowd->meeting);
  return NULL;
}

static void set_rank(rank *k, crowd *c, int device, int count, kva_measured *measured) {
  *k = (rank){.plan = *c->plan, .crowd = c, .device = device, .measured = measured};
  k->plan.after = c->plan->after ? after : NULL;
  k->plan.before_series = before;
  k->plan.user = k;
  k->plan.at_once = count;
}

kv_status kva_measure_all(const kva_measure_plan *plan, const int *devices, int count, kva_measured *measured,
                          kv_error *err) {
  crowd c = {.plan = plan, .saving = PTHREAD_MUTEX_INITIALIZER};
  rank *ranks = calloc(count > 0 ? (size_t)count : 1, sizeof *ranks);
  pthread_t *threads = calloc(count > 0 ? (size_t)count : 1, sizeof *threads);
  kv_status st = ranks && threads
                     ? kva_meeting_open(count, &c.meeting, err)
                     : kv_fail(err, KV_ERR_MEMORY, "measuring: out of memory for %d devices", count);
  int started = 0;
  for (int i = 0; i < count; i++) measured[i] = (kva_measured){0};
  for (; !st && started < count; started++) {
    set_rank(&ranks[started], &c, devices[started], count, &measured[started]);
    if (pthread_create(&threads[started], NULL, run_rank, &ranks[started]) == 0) continue;
    st = kv_fail(err, KV_ERR_MEMORY, "measuring: no thread for device %d", devices[started]);
    for (int i = started; i < count; i++) kva_meeting_leave(c.meeting);
    break;
  }
  for (int i = 0; i < started; i++) (void)pthread_join(threads[i], NULL);
  for (int i = 0; !st && i < started; i++)
    if (ranks[i].status)
      st = kv_fail(err, ranks[i].status, "device %d: %.600s", devices[i], ranks[i].error.text);
  (void)pthread_mutex_destroy(&c.saving);
  kva_meeting_close(c.meeting);
  free(ranks);
  free(threads);
  return st;
}
