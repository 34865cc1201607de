#include "mem_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem_cache.h"

/* A line visit that has been named but not yet carried out: its state is on the way from the host's memory. */
typedef struct visit {
  uint32_t line, set;
  unsigned want;
  kvm_dram_place place;
} visit;
enum { AHEAD = 16 };

/* Threads by the time at which they ask next: a wheel of time slots, each with a chain of threads. */
enum { SLOTS = 8192 };
typedef struct wheel {
  double *ready;  /* [room] */
  uint32_t *next; /* [room]: thread + 1 in the same slot; 0: none */
  uint32_t head[SLOTS];
  uint64_t room, at; /* slot counted from time 0 */
  double slots_a_second;
} wheel;

/* A fluid server: work waiting, in seconds, at the latest time seen. */
typedef struct server {
  double last, waiting;
} server;

struct kvm_mem {
  kvm_mem_params p;
  kvm_dram *dram;
  kvm_cache l2;
  kvm_tlb tlb;
  wheel wheel;
  /* of the read under way */
  uint64_t threads;
  server l2_server, walkers;
  double front;      /* s a miss takes outside the DRAM channel */
  unsigned group;    /* sectors a miss fetches together */
  uint32_t page;
  unsigned page_shift; /* line >> page_shift = page */
  visit ahead[AHEAD]; /* a ring */
  unsigned waiting, oldest;
  double latest, issued; /* last byte; last request */
  double latency_sum;
  kvm_mem_result *r;
};

kv_status kvm_mem_create(const kvm_mem_params *p, kvm_mem **mem, kv_error *err) {
  kvm_mem *m = calloc(1, sizeof *m);
  *mem = NULL;
  if (!m) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  m->p = *p;
  kv_status st = kvm_dram_create(p, &m->dram, err);
  if (!st) st = kvm_cache_create(p->l2_bytes / KVM_LINE, &m->l2, err);
  if (!st) st = kvm_tlb_create((UINT64_C(1) << 39) / p->page_bytes, p->tlb_reach / p->page_bytes, &m->tlb, err);
  if (st) {
    kvm_mem_free(m);
    return st;
  }
  *mem = m;
  return KV_OK;
}

void kvm_mem_free(kvm_mem *m) {
  if (!m) return;
  kvm_dram_free(m->dram);
  kvm_cache_free(&m->l2);
  kvm_tlb_free(&m->tlb);
  free(m->wheel.ready);
  free(m->wheel.next);
  free(m);
}

void kvm_mem_flush(kvm_mem *m) {
  kvm_cache_flush(&m->l2);
  kvm_tlb_flush(&m->tlb);
}

const kvm_mem_params *kvm_mem_params_in(const kvm_mem *m) {
  return &m->p;
}

uint64_t kvm_mem_saturating(const kvm_mem_params *p) {
  return (uint64_t)(4 * p->peak * (p->latency + p->turn));
}

/* ---- threads ---- */

/* A time beyond the wheel waits in its last slot and is put again from there. */
static inline void put(wheel *w, uint32_t thread, double ready) {
  uint64_t slot = (uint64_t)(ready * w->slots_a_second);
  if (slot < w->at) slot = w->at;
  if (slot >= w->at + SLOTS) slot = w->at + SLOTS - 1;
  w->ready[thread] = ready;
  w->next[thread] = w->head[slot % SLOTS];
  w->head[slot % SLOTS] = thread + 1;
}

/* Takes the thread out. There is always one. */
static inline uint32_t earliest(wheel *w) {
  for (;;) {
    uint32_t *head = &w->head[w->at % SLOTS];
    if (!*head) {
      w->at++;
      continue;
    }
    uint32_t thread = *head - 1;
    *head = w->next[thread];
    if ((uint64_t)(w->ready[thread] * w->slots_a_second) <= w->at) return thread;
    put(w, thread, w->ready[thread]);
  }
}

static kv_status set_threads(wheel *w, uint64_t threads, double slots_a_second, kv_error *err) {
  if (threads > w->room) {
    double *ready = realloc(w->ready, threads * sizeof *ready);
    if (ready) w->ready = ready;
    uint32_t *next = realloc(w->next, threads * sizeof *next);
    if (next) w->next = next;
    if (!ready || !next) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
    w->room = threads;
  }
  memset(w->head, 0, sizeof w->head);
  w->at = 0;
  w->slots_a_second = slots_a_second;
  for (uint64_t t = threads; t-- > 0;) put(w, (uint32_t)t, 0);
  return KV_OK;
}

/* ---- one request ---- */

static inline double later(double a, double b) {
  return a > b ? a : b;
}

static inline double serve(server *s, double at, double work) {
  double now = later(at, s->last), wait = later(s->waiting - (now - s->last), 0);
  s->last = now;
  s->waiting = wait + work;
  return at + wait;
}

static inline unsigned count(unsigned mask) {
  return (0x4332322132212110ull >> 4 * mask) & 7; /* set bits of a number below 16, one a nibble */
}

static double walk(kvm_mem *m, uint32_t page, double at) {
  m->page = page;
  m->r->pages++;
  if (kvm_tlb_touch(&m->tlb, page)) return at;
  m->r->page_misses++;
  return serve(&m->walkers, at, 1 / m->p.walk_rate) + m->p.walk;
}

/* The thread that is ready first asks for the oldest visit. */
static void carry_out(kvm_mem *m, const visit *v) {
  uint32_t thread = earliest(&m->wheel);
  double start = m->wheel.ready[thread], at = start;
  uint32_t page = v->line >> m->page_shift;
  if (page != m->page) at = walk(m, page, at);
  unsigned wanted = count(v->want), fill = kvm_cache_touch(&m->l2, v->set, v->line, v->want, m->group);
  at = serve(&m->l2_server, at, wanted * KVM_SECTOR / m->p.l2_rate);
  double end;
  if (fill) {
    uint32_t bursts = (count(fill) * KVM_SECTOR + m->p.burst_bytes - 1) / m->p.burst_bytes;
    end = kvm_dram_read(m->dram, v->place, bursts, at) + m->front;
  } else {
    end = at + m->p.l2_latency;
  }
  m->r->requests++;
  m->r->sectors += wanted;
  m->r->sector_hits += wanted - count(fill & v->want);
  m->latency_sum += end - start;
  m->latest = later(m->latest, end);
  m->issued = later(m->issued, start);
  put(&m->wheel, thread, end + m->p.turn);
}

static void carry_out_oldest(kvm_mem *m) {
  carry_out(m, &m->ahead[m->oldest]);
  m->oldest = (m->oldest + 1) % AHEAD;
  m->waiting--;
}

static void request(kvm_mem *m, uint32_t line, unsigned want) {
  if (m->waiting == AHEAD) carry_out_oldest(m);
  visit *v = &m->ahead[(m->oldest + m->waiting++) % AHEAD];
  *v = (visit){line, kvm_cache_set(&m->l2, line), want, kvm_dram_place_of(m->dram, line)};
  kvm_cache_expect(&m->l2, v->set);
  kvm_dram_expect(m->dram, v->place);
}

/* ---- a list ---- */

/* Sectors of one line, gathered until another line comes. */
typedef struct piece {
  uint32_t line;
  unsigned sectors;
} piece;

static inline void flush_piece(kvm_mem *m, piece *p) {
  if (p->sectors) request(m, p->line, p->sectors);
  p->sectors = 0;
}

/* Bytes [from, to) of memory. */
static inline void read_bytes(kvm_mem *m, piece *p, uint64_t from, uint64_t to) {
  for (uint64_t s = from / KVM_SECTOR, end = (to - 1) / KVM_SECTOR; s <= end;) {
    uint32_t line = (uint32_t)(s / 4);
    unsigned low = (unsigned)(s % 4), high = end / 4 == line ? (unsigned)(end % 4) : 3u;
    unsigned mask = (2u << high) - (1u << low);
    if (line != p->line) flush_piece(m, p);
    p->line = line;
    p->sectors |= mask;
    s += high - low + 1;
  }
}

/* The slot numbers' list lies at the end of what can be named, away from any row. */
static const uint64_t index_base = (UINT64_C(1) << 39) - (UINT64_C(1) << 35);

typedef struct walker {
  const kvm_mem_rows *rows;
  piece piece;
  uint64_t index_at, index_end; /* of the slot numbers' list */
  uint64_t marked_bytes;
  double mark; /* time and bytes when the threads were under way */
} walker;

/* The slot numbers of `count` rows; they are read ahead of the rows, line by line. */
static inline void read_indices(kvm_mem *m, walker *w, uint64_t count) {
  w->index_end += count * w->rows->index_bytes;
  for (; w->index_at < w->index_end; w->index_at += KVM_LINE) {
    flush_piece(m, &w->piece);
    request(m, (uint32_t)(w->index_at / KVM_LINE), KVM_ALL_SECTORS);
  }
}

static void under_way(kvm_mem *m, walker *w, uint64_t total_rows) {
  bool far = m->r->requests >= 2 * m->threads && m->r->rows * 4 >= total_rows;
  if (w->mark >= 0 || !far) return;
  w->mark = m->issued;
  w->marked_bytes = m->r->rows;
}

static kv_status check_extent(const kvm_mem_rows *rows, uint64_t first, uint64_t count, kv_error *err) {
  if (first + count <= UINT64_C(1) << 40 && rows->base + (first + count) * rows->row_bytes <= index_base) return KV_OK;
  return kv_fail(err, KV_ERR_USAGE, "memory model: row %llu lies beyond 480 GiB", (unsigned long long)(first + count - 1));
}

static kv_status read_slots(kvm_mem *m, walker *w, kv_error *err) {
  const kvm_mem_rows *rows = w->rows;
  for (uint64_t i = 0; i < rows->n;) {
    uint64_t count = 1;
    if (rows->slot[i] < 0)
      return kv_fail(err, KV_ERR_USAGE, "memory model: slot %d at place %llu", rows->slot[i], (unsigned long long)i);
    uint64_t first = (uint64_t)rows->slot[i];
    /* at most 64 rows at a time, so that slot numbers keep in step */
    while (count < 64 && i + count < rows->n && rows->slot[i + count] == rows->slot[i] + (int32_t)count) count++;
    kv_status st = check_extent(rows, first, count, err);
    if (st) return st;
    if (rows->index_bytes) read_indices(m, w, count);
    read_bytes(m, &w->piece, rows->base + first * rows->row_bytes, rows->base + (first + count) * rows->row_bytes);
    m->r->rows += count;
    i += count;
    under_way(m, w, rows->n);
  }
  return KV_OK;
}

static kv_status read_runs(kvm_mem *m, walker *w, uint64_t total, kv_error *err) {
  const kvm_mem_rows *rows = w->rows;
  for (uint64_t i = 0; i < rows->n; i++) {
    kv_status st = check_extent(rows, rows->run[i].first, rows->run[i].count, err);
    if (st) return st;
    for (uint64_t done = 0, part; done < rows->run[i].count; done += part) {
      uint64_t left = rows->run[i].count - done, from = rows->base + (rows->run[i].first + done) * rows->row_bytes;
      part = left < 64 ? left : 64;
      if (rows->index_bytes) read_indices(m, w, part);
      read_bytes(m, &w->piece, from, from + part * rows->row_bytes);
      m->r->rows += part;
      under_way(m, w, total);
    }
  }
  return KV_OK;
}

static uint64_t row_at(const kvm_mem_rows *rows, uint64_t i) {
  return rows->slot ? (uint64_t)rows->slot[i] : rows->run[i].first;
}

/* Mean bytes a request will ask for, from the list's head: sets how many threads make up `in_flight`. */
static double mean_request(const kvm_mem_rows *rows) {
  uint64_t bytes = 0, lines = 0, last = UINT64_MAX, some = rows->n < 4096 ? rows->n : 4096;
  for (uint64_t i = 0; i < some; i++) {
    uint64_t count = rows->slot ? 1 : rows->run[i].count, from = rows->base + row_at(rows, i) * rows->row_bytes;
    if (!count) continue;
    uint64_t first = from / KVM_LINE, end = (from + count * rows->row_bytes - 1) / KVM_LINE;
    bytes += count * rows->row_bytes;
    lines += end - first + (first != last);
    last = end;
  }
  return lines ? (double)bytes / (double)lines : KVM_LINE;
}

static kv_status start(kvm_mem *m, const kvm_mem_rows *rows, kv_error *err) {
  uint64_t in_flight = rows->in_flight ? rows->in_flight : kvm_mem_saturating(&m->p);
  double threads = ceil((double)in_flight / mean_request(rows));
  m->threads = threads < 1 ? 1 : threads > 1e8 ? 100000000 : (uint64_t)threads;
  kv_status st = set_threads(&m->wheel, m->threads, 64 / m->p.latency, err);
  if (st) return st;
  kvm_dram_reset(m->dram);
  m->l2_server = m->walkers = (server){0, 0};
  m->page = UINT32_MAX;
  m->page_shift = (unsigned)__builtin_ctzll(m->p.page_bytes / KVM_LINE);
  m->waiting = m->oldest = 0;
  m->group = m->p.access_bytes / KVM_SECTOR;
  m->front = m->p.latency - kvm_dram_unloaded(&m->p, 1);
  m->latest = m->issued = m->latency_sum = 0;
  return KV_OK;
}

static void finish(kvm_mem *m, const walker *w) {
  kvm_mem_result *r = m->r;
  r->useful_bytes = r->rows * w->rows->row_bytes;
  r->dram = kvm_dram_counted(m->dram);
  r->dram_bytes = r->dram.bursts * m->p.burst_bytes;
  r->seconds = m->latest;
  r->latency = r->requests ? m->latency_sum / (double)r->requests : NAN;
  double whole = (double)r->useful_bytes / r->seconds;
  uint64_t later = r->rows - w->marked_bytes;
  r->rate = !r->rows ? NAN : w->mark >= 0 && m->issued > w->mark && later * 4 >= r->rows
                                 ? (double)later * w->rows->row_bytes / (m->issued - w->mark)
                                 : whole;
}

static uint64_t total_rows(const kvm_mem_rows *rows) {
  if (rows->slot) return rows->n;
  uint64_t total = 0;
  for (uint64_t i = 0; i < rows->n; i++) total += rows->run[i].count;
  return total;
}

kv_status kvm_mem_read(kvm_mem *m, const kvm_mem_rows *rows, kvm_mem_result *result, kv_error *err) {
  walker w = {.rows = rows, .index_at = index_base, .index_end = index_base, .mark = -1};
  memset(result, 0, sizeof *result);
  result->rate = result->latency = NAN;
  if (rows->row_bytes < 1 || rows->row_bytes > 65536)
    return kv_fail(err, KV_ERR_USAGE, "memory model: rows of %u bytes: 1 to 65536", rows->row_bytes);
  if (rows->n == 0) return KV_OK;
  kv_status st = start(m, rows, err);
  if (st) return st;
  m->r = result;
  st = rows->slot ? read_slots(m, &w, err) : read_runs(m, &w, total_rows(rows), err);
  if (!st) flush_piece(m, &w.piece);
  while (m->waiting) carry_out_oldest(m);
  if (!st) finish(m, &w);
  return st;
}
