#include "mem_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mem_cache.h"

/* What a line visit is to the warp that asks for it. */
enum {
  ENDS = 1 /* its batch */,
  SAME_PAGE = 2 /* as the visit before it in the list, which another warp may have */
};

/* Line visits that have been named but not yet carried out, a ring: their state is on the way from the host's
 * memory. How many there are shows in the rates: a visit counts when it is carried out. */
enum { AHEAD = 16 };
typedef struct visits {
  uint32_t line[AHEAD], want[AHEAD], marks[AHEAD];
  uint32_t set[AHEAD]; /* of the L2 */
  kvm_dram_place place[AHEAD];
  uint64_t named, carried; /* put in, taken out */
} visits;
_Static_assert(AHEAD % KVM_DRAM_LINES == 0, "sets and places are worked out for several lines at once");

enum { MOST_WARPS = 1 << 24, LOOK = 256, LOAD = 512, MOST_TEAM = 32, HALVES_BLOCK = 32 };
/* A load beyond it waits no longer: the servers' own backlog does the rest. An H200's chase beside other
 * traffic waits 105 ns at a load of 0.89, and so it does here with the queueing of its description. */
#define FULL 0.82

/* Warps by the time at which they ask next: a wheel of time slots, each with a chain of warps. */
enum { SLOTS = 8192 };
typedef struct wheel {
  double *ready;  /* [room] */
  uint32_t *next; /* [room]: warp + 1 in the same slot; 0: none */
  uint32_t head[SLOTS];
  uint64_t room, at; /* slot counted from time 0 */
  double slots_a_second;
} wheel;

/* What a block asks for at once, by warp: its warps take turns at the list, a load each. */
typedef struct ask {
  uint32_t line;
  unsigned want, marks;
  uint32_t next; /* ask + 1 of the same warp; 0: none */
} ask;
typedef struct tile {
  ask *ask;                                               /* [room] */
  uint32_t room, asks, first[MOST_TEAM], last[MOST_TEAM]; /* ask + 1; 0: none */
  uint32_t members, rounds;                               /* warps of the block; loads of each */
  uint32_t at, left;                                      /* load under way; B of it still to come */
  uint32_t page;                                          /* of the latest visit in the list */
} tile;

/* What a mask of sectors costs, worked out once a list. */
typedef struct price {
  uint32_t sectors, bytes, bursts;
  double l2, link; /* s of the L2 and of an SM's link */
} price;

/* A fluid server: work waiting, in seconds, at the latest time seen. */
typedef struct server {
  double last, waiting;
} server;

struct kvm_mem {
  kvm_mem_params p;
  kvm_dram *dram;
  kvm_cache l2;
  kvm_cache half[2]; /* of the L2, where what stays in it decides; made when first needed */
  bool halves;
  kvm_tlb tlb;
  wheel wheel;
  /* of the read under way */
  uint64_t warps;
  uint32_t warp, sm, sms, batch; /* warp whose batch is being asked for */
  uint32_t left;                 /* B of it still to be asked for; 0: the next warp is to begin */
  double start, end, turn;       /* of the batch; from its end to the warp's next */
  price price[KVM_ALL_SECTORS + 1];
  tile tile;
  server *link; /* [sms] */
  server l2_server, walkers;
  double queueing;                      /* s: mean extra wait at the present load */
  double load, load_worked, load_since; /* 0..1; DRAM work and time when it was last looked at */
  uint32_t load_left, dice;             /* misses until the next look; state of the generator */
  double exponential[256];              /* of mean 1: its quantiles, mixed up by the dice */
  double
      front[2]; /* s a miss takes outside the DRAM channel, in the SM's half of the memory and in the other */
  unsigned group; /* sectors a miss fetches together */
  uint32_t page;
  uint64_t footprint;
  uint32_t resident;   /* share of the footprint's pages that the TLB holds, of 2^32 */
  unsigned page_shift; /* line >> page_shift = page */
  visits ahead;
  double latest, issued; /* last byte; last request */
  double latency_sum;
  kvm_mem_result *r;
};

kv_status kvm_mem_create(const kvm_mem_params *p, kvm_mem **mem, kv_error *err) {
  kvm_mem *m = calloc(1, sizeof *m);
  *mem = NULL;
  if (!m) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  m->p = *p;
  m->link = calloc(p->sms, sizeof *m->link);
  kv_status st = m->link ? kvm_dram_create(p, &m->dram, err)
                         : kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  if (!st) st = kvm_cache_create(p->l2_bytes / KVM_LINE, &m->l2, err);
  if (!st)
    st = kvm_tlb_create((UINT64_C(1) << 39) / p->page_bytes, p->tlb_reach / p->page_bytes, &m->tlb, err);
  if (st) {
    kvm_mem_free(m);
    return st;
  }
  for (int i = 0; i < 256; i++) m->exponential[i] = -log((i + 0.5) / 256);
  *mem = m;
  return KV_OK;
}

void kvm_mem_free(kvm_mem *m) {
  if (!m) return;
  kvm_dram_free(m->dram);
  kvm_cache_free(&m->l2);
  kvm_cache_free(&m->half[0]);
  kvm_cache_free(&m->half[1]);
  kvm_tlb_free(&m->tlb);
  free(m->link);
  free(m->wheel.ready);
  free(m->wheel.next);
  free(m->tile.ask);
  free(m);
}

void kvm_mem_flush(kvm_mem *m) {
  kvm_cache_flush(&m->l2);
  kvm_cache_flush(&m->half[0]);
  kvm_cache_flush(&m->half[1]);
  kvm_tlb_flush(&m->tlb);
}

const kvm_mem_params *kvm_mem_params_in(const kvm_mem *m) {
  return &m->p;
}

uint64_t kvm_mem_saturating(const kvm_mem_params *p) {
  return (uint64_t)(3 * p->peak * (p->latency + p->turn));
}

/* ---- warps ---- */

/* A time beyond the wheel waits in its last slot and is put again from there. */
static inline void put(wheel *w, uint32_t warp, double ready) {
  uint64_t slot = (uint64_t)(ready * w->slots_a_second);
  if (slot < w->at) slot = w->at;
  if (slot >= w->at + SLOTS) slot = w->at + SLOTS - 1;
  w->ready[warp] = ready;
  w->next[warp] = w->head[slot % SLOTS];
  w->head[slot % SLOTS] = warp + 1;
}

/* Takes the warp out. There is always one. */
static inline uint32_t earliest(wheel *w) {
  for (;;) {
    uint32_t *head = &w->head[w->at % SLOTS];
    if (!*head) {
      w->at++;
      continue;
    }
    uint32_t warp = *head - 1;
    *head = w->next[warp];
    if ((uint64_t)(w->ready[warp] * w->slots_a_second) <= w->at) return warp;
    put(w, warp, w->ready[warp]);
  }
}

static kv_status set_warps(wheel *w, uint64_t warps, double slots_a_second, kv_error *err) {
  if (warps > w->room) {
    double *ready = realloc(w->ready, warps * sizeof *ready);
    if (ready) w->ready = ready;
    uint32_t *next = realloc(w->next, warps * sizeof *next);
    if (next) w->next = next;
    if (!ready || !next) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
    w->room = warps;
  }
  memset(w->head, 0, sizeof w->head);
  w->at = 0;
  w->slots_a_second = slots_a_second;
  for (uint64_t t = warps; t-- > 0;) put(w, (uint32_t)t, 0);
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

static double walk(kvm_mem *m, uint32_t page, double at) {
  m->page = page;
  m->r->pages++;
  if (m->footprint ? page * 0x9e3779b1u <= m->resident : kvm_tlb_touch(&m->tlb, page)) return at + m->p.near;
  m->r->page_misses++;
  return serve(&m->walkers, at, 1 / m->p.walk_rate) + m->p.near + m->p.walk;
}

/* Looks how busy the DRAM has been; waits grow with load / (1 - load), as in any queue of random arrivals. */
static void look_at_load(kvm_mem *m) {
  double worked = kvm_dram_worked(m->dram), time = (m->start - m->load_since) * m->p.channels;
  m->load_left = LOOK;
  if (!(time > 0)) return;
  double now = (worked - m->load_worked) / time;
  m->load += ((now < 1 ? now : 1) - m->load) / 32;
  m->queueing = m->p.queueing * m->load / (1 - (m->load < FULL ? m->load : FULL));
  m->load_worked = worked;
  m->load_since = m->start;
}

static double queue_up(kvm_mem *m) {
  if (--m->load_left == 0) look_at_load(m);
  m->dice = m->dice * 1664525u + 1013904223u;
  return m->queueing * m->exponential[m->dice >> 24];
}

/* The next warp begins a batch. */
static void begin_batch(kvm_mem *m) {
  m->warp = earliest(&m->wheel);
  m->sm = m->warp % m->sms;
  m->left = m->tile.members > 1 ? UINT32_MAX : m->batch;
  m->start = m->end = m->wheel.ready[m->warp];
  m->issued = later(m->issued, m->start);
}

static void end_batch(kvm_mem *m) {
  put(&m->wheel, m->warp, m->end + m->turn);
  m->left = 0;
}

/* Which half of the memory a line lies in, seen from the SM: 1 the other one. */
static inline unsigned other_half(const kvm_mem *m, uint32_t line) {
  uint32_t block = line / HALVES_BLOCK * 0x9e3779b1u;
  return (block >> 31 ^ block >> 16 ^ m->sm) & 1;
}

/* What of a line has to come out of memory. A line is kept in the half of the L2 before its memory and, read
 * from the other side, in that half too. */
static unsigned to_bring(kvm_mem *m, uint32_t line, unsigned want) {
  unsigned side = m->sm & 1, other = other_half(m, line), home = side ^ other;
  uint32_t set = kvm_cache_set(&m->half[0], line);
  if (other && !kvm_cache_touch(&m->half[side], set, line, want, 1)) return 0;
  return kvm_cache_touch(&m->half[home], set, line, want, m->group);
}

/* Counts a visit that ended; the warp goes on, or waits for its batch. */
static inline void arrive(kvm_mem *m, const price *asked, unsigned marks, double end) {
  m->r->requests++;
  m->r->sectors += asked->sectors;
  m->latency_sum += end - m->start;
  m->end = later(m->end, end);
  m->latest = later(m->latest, end);
  if (marks & ENDS || m->left <= asked->bytes) end_batch(m);
  else m->left -= asked->bytes;
}

/* The warp under way, or the one that is ready first, asks for the i-th visit of the ring. */
static void carry_out(kvm_mem *m, unsigned i) {
  if (!m->left) begin_batch(m);
  uint32_t line = m->ahead.line[i], want = m->ahead.want[i], marks = m->ahead.marks[i],
           page = line >> m->page_shift;
  const price *asked = &m->price[want];
  double at = page == m->page || marks & SAME_PAGE ? m->start : walk(m, page, m->start), end;
  unsigned fill =
      m->halves ? to_bring(m, line, want) : kvm_cache_touch(&m->l2, m->ahead.set[i], line, want, m->group);
  at = serve(&m->l2_server, at, asked->l2);
  if (fill) {
    end =
        kvm_dram_read(m->dram, m->ahead.place[i], m->price[fill].bursts, at) + m->front[other_half(m, line)];
    end += queue_up(m); /* after the read: it may look at what the DRAM has done */
  } else {
    end = at + m->p.l2_latency;
  }
  m->r->sector_hits += asked->sectors - m->price[fill & want].sectors;
  arrive(m, asked, marks, serve(&m->link[m->sm], end, asked->link));
}

/* Where the visits from the i-th on lie, several at once; what stands there of older ones comes out as
 * before.
 */
static void locate(kvm_mem *m, unsigned i) {
  visits *v = &m->ahead;
  for (unsigned k = i; k < i + KVM_DRAM_LINES; k++) v->set[k] = kvm_cache_set(&m->l2, v->line[k]);
  for (unsigned k = i; k < i + KVM_DRAM_LINES; k++) kvm_cache_expect(&m->l2, v->set[k]);
  kvm_dram_expect(m->dram, v->line + i, v->place + i);
}

static void enqueue(kvm_mem *m, uint32_t line, unsigned want, unsigned marks) {
  visits *v = &m->ahead;
  unsigned i = v->named % AHEAD;
  if (v->named - v->carried == AHEAD) {
    carry_out(m, i);
    v->carried++;
  }
  v->line[i] = line;
  v->want[i] = want;
  v->marks[i] = marks;
  if (++v->named % KVM_DRAM_LINES == 0) locate(m, i + 1 - KVM_DRAM_LINES);
}

static void carry_out_all(kvm_mem *m) {
  visits *v = &m->ahead;
  if (v->named % KVM_DRAM_LINES) locate(m, v->named % AHEAD / KVM_DRAM_LINES * KVM_DRAM_LINES);
  for (; v->carried < v->named; v->carried++) carry_out(m, v->carried % AHEAD);
}

/* ---- a block's tile ---- */

/* Warp after warp, as each asks for all of its loads at once. */
static void carry_out_tile(kvm_mem *m) {
  tile *t = &m->tile;
  for (uint32_t w = 0; w < t->members; w++) {
    for (uint32_t i = t->first[w]; i; i = t->ask[i - 1].next) {
      const ask *a = &t->ask[i - 1];
      m->page = UINT32_MAX; /* the mark decides, not what another warp asked for last */
      enqueue(m, a->line, a->want, a->marks | (a->next ? 0 : ENDS));
    }
    t->first[w] = t->last[w] = 0;
  }
  t->asks = t->at = 0;
  t->left = LOAD;
}

/* A line visit of the load under way, `bytes` of rows. Slot numbers (0) do not count: they are read beside
 * the rows. A load takes whole lines: what of the last lies beyond it is a piece of the load, not of the
 * next. */
static void add_to_tile(kvm_mem *m, uint32_t line, unsigned want, uint32_t bytes) {
  tile *t = &m->tile;
  uint32_t w = t->at % t->members, page = line >> m->page_shift;
  t->ask[t->asks++] = (ask){line, want, page == t->page ? SAME_PAGE : 0, 0};
  t->page = page;
  if (t->last[w]) t->ask[t->last[w] - 1].next = t->asks;
  else t->first[w] = t->asks;
  t->last[w] = t->asks;
  t->left -= bytes < t->left ? bytes : t->left;
  if (!t->left) {
    t->left = LOAD;
    t->at++;
  }
  if (t->at == t->members * t->rounds || t->asks == t->room) carry_out_tile(m);
}

static inline void request(kvm_mem *m, uint32_t line, unsigned want, bool rows) {
  if (m->tile.members > 1) add_to_tile(m, line, want, rows ? m->price[want].bytes : 0);
  else enqueue(m, line, want, 0);
}

static kv_status set_tile(kvm_mem *m, const kvm_mem_rows *rows, kv_error *err) {
  tile *t = &m->tile;
  uint32_t team = rows->team > MOST_TEAM ? MOST_TEAM : rows->team;
  t->members = team < 1 || m->batch % LOAD ? 1 : team > m->warps ? (uint32_t)m->warps : team;
  t->rounds = m->batch / LOAD;
  t->left = LOAD;
  t->asks = t->at = 0;
  t->page = UINT32_MAX;
  memset(t->first, 0, sizeof t->first);
  memset(t->last, 0, sizeof t->last);
  uint64_t room = t->members > 1 ? (uint64_t)m->batch / KVM_SECTOR * t->members * 2 : 0;
  if (room > UINT32_MAX / 2) return kv_fail(err, KV_ERR_USAGE, "memory model: a batch of %u bytes", m->batch);
  if (room > t->room) {
    ask *grown = realloc(t->ask, room * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
    t->ask = grown;
    t->room = (uint32_t)room;
  }
  return KV_OK;
}

/* ---- a list ---- */

/* Sectors of one line, gathered until another line comes. */
typedef struct piece {
  uint32_t line;
  unsigned sectors;
} piece;

static inline void flush_piece(kvm_mem *m, piece *p) {
  if (p->sectors) request(m, p->line, p->sectors, true);
  p->sectors = 0;
}

/* Bytes [from, to) of memory. */
static inline void read_bytes(kvm_mem *m, piece *p, uint64_t from, uint64_t to) {
  uint32_t first = (uint32_t)(from / KVM_LINE), last = (uint32_t)((to - 1) / KVM_LINE);
  unsigned head = KVM_ALL_SECTORS << from / KVM_SECTOR % 4 & KVM_ALL_SECTORS,
           tail = KVM_ALL_SECTORS >> (3 - (to - 1) / KVM_SECTOR % 4);
  for (uint32_t line = first; line <= last; line++) {
    if (line != p->line) flush_piece(m, p);
    p->line = line;
    p->sectors |= (line == first ? head : KVM_ALL_SECTORS) & (line == last ? tail : KVM_ALL_SECTORS);
  }
}

/* The slot numbers' list lies at the end of what can be named, away from any row. */
static const uint64_t index_base = (UINT64_C(1) << 39) - (UINT64_C(1) << 35);

typedef struct walker {
  const kvm_mem_rows *rows;
  piece piece;
  uint64_t index_at, index_end; /* of the slot numbers' list */
  uint64_t marked_rows;
  double mark; /* time and rows when the warps were under way */
} walker;

/* The slot numbers of `count` rows; they are read ahead of the rows, line by line. */
static inline void read_indices(kvm_mem *m, walker *w, uint64_t count) {
  w->index_end += count * w->rows->index_bytes;
  for (; w->index_at < w->index_end; w->index_at += KVM_LINE) {
    flush_piece(m, &w->piece);
    request(m, (uint32_t)(w->index_at / KVM_LINE), KVM_ALL_SECTORS, false);
  }
}

static void under_way(kvm_mem *m, walker *w, uint64_t total_rows) {
  if (w->mark >= 0 || m->r->rows * 2 < total_rows || m->r->sectors * KVM_SECTOR * 2 < 3 * m->warps * m->batch)
    return;
  w->mark = m->issued;
  w->marked_rows = m->r->rows;
}

static kv_status check_extent(const kvm_mem_rows *rows, uint64_t first, uint64_t count, kv_error *err) {
  const uint64_t most = UINT64_C(1) << 39; /* no sum or product below leaves 64 bits: most x 65536 = 2^55 */
  if (first <= most && count <= most && rows->base <= most &&
      rows->base + (first + count) * rows->row_bytes <= index_base)
    return KV_OK;
  return kv_fail(err, KV_ERR_USAGE, "memory model: row %llu lies beyond 480 GiB",
                 (unsigned long long)(first + count - 1));
}

static kv_status read_slots(kvm_mem *m, walker *w, kv_error *err) {
  const kvm_mem_rows *rows = w->rows;
  for (uint64_t i = 0; i < rows->n;) {
    uint64_t count = 1;
    if (rows->slot[i] < 0)
      return kv_fail(err, KV_ERR_USAGE, "memory model: slot %d at place %llu", rows->slot[i],
                     (unsigned long long)i);
    uint64_t first = (uint64_t)rows->slot[i];
    /* at most 64 rows at a time, so that slot numbers keep in step */
    while (count < 64 && i + count < rows->n && rows->slot[i + count] == rows->slot[i] + (int32_t)count)
      count++;
    kv_status st = check_extent(rows, first, count, err);
    if (st) return st;
    if (rows->index_bytes) read_indices(m, w, count);
    read_bytes(m, &w->piece, rows->base + first * rows->row_bytes,
               rows->base + (first + count) * rows->row_bytes);
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
      uint64_t left = rows->run[i].count - done,
               from = rows->base + (rows->run[i].first + done) * rows->row_bytes;
      part = left < 64 ? left : 64;
      if (rows->index_bytes) read_indices(m, w, part);
      read_bytes(m, &w->piece, from, from + part * rows->row_bytes);
      m->r->rows += part;
      under_way(m, w, total);
    }
  }
  return KV_OK;
}

/* Twice the work for the host, so only for what is read again and again. */
static kv_status set_halves(kvm_mem *m, const kvm_mem_rows *rows, kv_error *err) {
  m->halves = m->p.far > 0 && rows->footprint && rows->footprint <= 2 * m->p.l2_whole;
  kv_status st = KV_OK;
  for (int h = 0; h < 2 && m->halves && !st; h++)
    if (!m->half[h].sets) st = kvm_cache_create(m->p.l2_whole / 2 / KVM_LINE, &m->half[h], err);
  return st;
}

static void set_prices(kvm_mem *m, double effort) {
  double l2_time = 1 / m->p.l2_rate, sm_time = effort / m->p.sm_rate; /* s a byte */
  for (uint32_t mask = 0; mask <= KVM_ALL_SECTORS; mask++) {
    uint32_t sectors = (mask & 1) + (mask >> 1 & 1) + (mask >> 2 & 1) + (mask >> 3),
             bytes = sectors * KVM_SECTOR, least = m->p.l2_least;
    m->price[mask] = (price){.sectors = sectors,
                             .bytes = bytes,
                             .bursts = (bytes + m->p.burst_bytes - 1) / m->p.burst_bytes,
                             .l2 = (bytes < least ? least : bytes) * l2_time,
                             .link = bytes * sm_time};
  }
}

static kv_status start(kvm_mem *m, const kvm_mem_rows *rows, kv_error *err) {
  uint64_t in_flight = rows->in_flight ? rows->in_flight : kvm_mem_saturating(&m->p);
  m->batch = rows->batch ? rows->batch : 2048;
  m->turn = m->p.turn + (m->p.issue + rows->address) * m->batch / LOAD;
  set_prices(m, rows->effort > 0 ? rows->effort : 1);
  m->sms = rows->sms && rows->sms < m->p.sms ? rows->sms : m->p.sms;
  m->warps = (in_flight + m->batch - 1) / m->batch;
  if (m->warps > MOST_WARPS) m->warps = MOST_WARPS;
  kv_status st = set_tile(m, rows, err);
  if (!st) st = set_halves(m, rows, err);
  if (!st) st = set_warps(&m->wheel, m->warps, 64 / m->p.latency, err);
  if (st) return st;
  memset(m->link, 0, m->p.sms * sizeof *m->link);
  kvm_dram_reset(m->dram);
  m->l2_server = m->walkers = (server){0, 0};
  m->page = UINT32_MAX;
  m->page_shift = (unsigned)__builtin_ctzll(m->p.page_bytes / KVM_LINE);
  m->footprint = rows->footprint;
  double share = rows->footprint ? (double)m->p.tlb_reach / (double)rows->footprint : 0;
  m->resident = share >= 1 ? UINT32_MAX : (uint32_t)(share * UINT32_MAX);
  m->ahead.named = m->ahead.carried = 0;
  m->group = m->p.access_bytes / KVM_SECTOR;
  m->front[0] = m->p.latency - m->p.far / 2 - kvm_dram_unloaded(&m->p, 1);
  m->front[1] = m->front[0] + m->p.far;
  m->queueing = m->load = m->load_worked = m->load_since = 0;
  m->load_left = LOOK;
  m->dice = 1;
  m->left = 0;
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
  uint64_t later = r->rows - w->marked_rows;
  r->rate = !r->rows ? NAN
            : w->mark >= 0 && m->issued > w->mark && later * 4 >= r->rows
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
  if (!st && m->tile.members > 1) carry_out_tile(m);
  carry_out_all(m);
  if (!st) finish(m, &w);
  return st;
}
