#include "time_sm.h"

#include <math.h>
#include <stdlib.h>

/* Operands leave the registers some cycles after issue, once the pipe has taken the instruction in. These
 * cycles and one wavefront's are part of every latency and must not be counted twice. */
enum { TAKEN_IN = 4 };
static double later(double a, double b) { /* what fmax() is for numbers, inline */
  return a > b ? a : b;
}
static double beyond(const kvm_sm *sm, double latency) {
  return later(0, latency - TAKEN_IN - sm->wave_interval);
}
/* Wavefronts that may queue before the L1/shared-memory pipe: then its instructions hold the warps up. */
enum { L1_QUEUE = 64 };
/* cp.async that may queue before the copy unit: 4 or 8 warps of an H200 issue them at their own pace until 48
 * are out, of which some 14 are done by then (copies_out of roofline calibrate --only=turns). 24 or 48 change
 * the mean error of all measured points by 0.1 %. */
enum { COPY_QUEUE = 32 };
/* Schedulers issue on whole cycles. What is this little after a cycle goes in it: sums of rates are not
 * exact. */
static const double AFTER = 0.02;
enum {
  SCHEDULERS = 4,
  MOST_WARM = 40,
  COUNTED = 4,
  DRAIN = 4,
  MOST_TILES = MOST_WARM + COUNTED + DRAIN,
  RING = 6, /* tiles until a ring of up to 5 stages is steady */
  GROUPS = 32
};
#define STOPPED 1e300

typedef struct warp {
  const kvm_role *role;
  unsigned block, scheduler;
  bool leads; /* first of its kind in the block: the others read the same slot numbers, which the L1 merges */
  int part;   /* 0 begin, 1 tile, 2 end, 3 done */
  int tiles;  /* done */
  size_t at;
  double ready; /* earliest next issue by its own stalls and barriers */
  double arrived[KVM_MARKS];
  double group[GROUPS]; /* arrival of cp.async groups, a ring; group[open] is being filled */
  unsigned open;
  double index_bytes; /* read so far: tells which index loads start a new line */
  double landed;      /* arrival of all cp.async so far */
  unsigned awaited[KVM_BARRIERS];
  bool waiting; /* at a barrier */
  bool starved; /* at an await that is not counted up yet */
  double finished;
  const kvm_step *next; /* NULL: done */
  bool streams;         /* its last instruction was an mma */
  double own;           /* earliest time for it by the warp's own stalls, marks and groups */
} warp;

typedef unsigned barrier; /* warps that have arrived */

/* An mbarrier: when the n-th count came, n from 1; counts are in order, a later one never counts as earlier.
 */
enum { MOST_COUNTS = 4096 };
typedef struct counter {
  unsigned n;
  double at[MOST_COUNTS];
} counter;

/* Who of a scheduler's warps goes next, and when; kept until something changes it. Of two schedulers the one
 * with the lesser key issues first: it can earlier, or in the same cycle and issued longest ago. Both are
 * whole cycles. */
typedef struct turn {
  unsigned who;
  double at, key;
} turn;
static const double KEY = 1 << 26; /* more cycles than any run has */

typedef struct machine {
  const kvm_sm *sm;
  const kvm_block *block;
  kvm_misses misses;
  unsigned warps, per_block;
  warp w[KVM_MAX_SM_WARPS];
  barrier (*bar)[KVM_BARRIERS];   /* by block */
  counter (*count)[KVM_BARRIERS]; /* by block */
  turn next[SCHEDULERS];
  unsigned stale; /* schedulers, a bit each, whose turn must be found again */
  unsigned last[SCHEDULERS], last_mma[SCHEDULERS]; /* warp that issued last, an mma last */
  double issue[SCHEDULERS], mma[SCHEDULERS], sfu[SCHEDULERS], l1, link, copy; /* when each is free */
  double copy_begun[COPY_QUEUE];                                              /* of the last copies, a ring */
  unsigned copies;
  double l2,
      dram; /* when this SM's share will have served what it asked for; below 0: nothing asked for yet */
  double busy_issue, busy_mma, busy_l1, busy_link, busy_l2, busy_dram, busy_copy,
      uncounted;                   /* cycles in use by tiles */
  int warm, counted, tiles;        /* simulated: until steady, that tell its pace, in all */
  double tile_end[MOST_TILES + 1]; /* sum of the warps' ends of tile i */
} machine;

void kvm_block_free(kvm_block *block) {
  for (unsigned r = 0; r < KVM_MAX_ROLES; r++) {
    kvm_program_free(&block->role[r].begin);
    kvm_program_free(&block->role[r].tile);
    kvm_program_free(&block->role[r].end);
  }
  *block = (kvm_block){0};
}

unsigned kvm_block_warps(const kvm_block *block) {
  unsigned n = 0;
  for (unsigned r = 0; r < block->roles; r++) n += block->role[r].warps;
  return n;
}

static const kvm_program *part_of(const warp *w) {
  return w->part == 0 ? &w->role->begin : w->part == 1 ? &w->role->tile : &w->role->end;
}

static void end_tile(machine *m, warp *w) {
  m->tile_end[++w->tiles] += w->ready;
}

/* When an await's count is reached; *starved where it is not yet. */
static double counted(const machine *m, const warp *w, bool *starved) {
  const kvm_step *s = w->next;
  const counter *c = &m->count[w->block][s->barrier];
  unsigned need = (w->awaited[s->barrier] + 1) * s->barrier_warps;
  *starved = false;
  if (need <= s->bytes) return 0;
  need -= s->bytes;
  *starved = c->n < need;
  /* the answer comes mbarrier_latency after the await is issued */
  return *starved ? 0 : c->at[need - 1] - TAKEN_IN + m->sm->mbarrier_hop - m->sm->mbarrier_latency;
}

/* When a warp's own past lets it issue its next instruction. */
static double own_time(const machine *m, warp *w) {
  const kvm_step *s = w->next;
  double t = w->ready;
  for (unsigned i = 0; s->waits >> i; i++)
    if (s->waits >> i & 1 && w->arrived[i] > t) t = w->arrived[i];
  if (s->op == KVM_GROUP)
    for (unsigned back = s->count; back < GROUPS && back < w->open; back++)
      t = later(t, w->group[(w->open - 1 - back) % GROUPS]);
  if (s->op == KVM_AWAIT) t = later(t, counted(m, w, &w->starved));
  return t;
}

/* Moves a warp on to its next instruction, over the ends of its programs. */
static void settle(machine *m, warp *w) {
  while (w->part < 3 && w->at == part_of(w)->steps) {
    w->at = 0;
    if (w->part != 1) w->part++;
    else {
      end_tile(m, w);
      if (w->tiles + (int)w->role->fewer == m->tiles) w->part++;
    }
  }
  w->next = w->part < 3 ? &part_of(w)->step[w->at] : NULL;
  w->starved = false;
  m->stale |= 1u << w->scheduler;
  if (w->next) w->own = own_time(m, w);
  else w->finished = w->ready;
}

/* When warp w could issue its next instruction. */
static double could_issue(const machine *m, const warp *w) {
  if (!w->next || w->waiting || w->starved) return STOPPED;
  double t = later(w->own, m->issue[w->scheduler]), pipe = 0;
  if (w->next->op == KVM_MMA_OP) pipe = m->mma[w->scheduler];
  else if (w->next->op == KVM_SFU) pipe = m->sfu[w->scheduler];
  else if (w->next->waves) pipe = m->l1 - TAKEN_IN - L1_QUEUE * m->sm->wave_interval;
  return ceil(later(t, pipe) - AFTER);
}

/* Where service is counted: tiles alone tell the steady state. */
static double *count_in(machine *m, const warp *w, double *busy) {
  return w->part == 1 ? busy : &m->uncounted;
}

/* A server that is free at *free serves `cycles` for a customer of time t; returns when it is done. */
static double serve(double *free, double t, double cycles, double *busy) {
  *free = later(*free, t) + cycles;
  *busy += cycles;
  return *free;
}

/* A server that all SMs share: idle time counts for later. */
static double serve_shared(double *due, double t, double cycles, double *busy) {
  *due = (*due < 0 ? t : *due) + cycles;
  *busy += cycles;
  return later(t, *due);
}

/* When a load's data has arrived; t is when its wavefronts have passed the L1. */
static double fetch(machine *m, warp *w, const kvm_step *s, double t) {
  const kvm_sm *sm = m->sm;
  bool memory = m->misses == KVM_COLD && s->where == KVM_ROW;
  bool row = s->where == KVM_ROW || s->where == KVM_AGAIN;
  bool near = row && s->op == KVM_LDG && m->misses != KVM_COLD && sm->rows_in_l1 > 0;
  if (s->where == KVM_HOT || near) return t + beyond(sm, sm->l1_latency);
  if (s->where == KVM_INDEX) {
    double line = floor(w->index_bytes / sm->line_bytes);
    memory = m->misses != KVM_WARM &&
             (w->index_bytes == 0 || floor((w->index_bytes + s->bytes) / sm->line_bytes) > line);
    w->index_bytes += s->bytes;
  }
  double at = serve(&m->link, t, s->bytes / sm->link_bytes, count_in(m, w, &m->busy_link));
  if (sm->l2_bytes > 0)
    at = later(at, serve_shared(&m->l2, t, s->bytes / sm->l2_bytes, count_in(m, w, &m->busy_l2)));
  if (!memory) return at + beyond(sm, sm->l2_latency);
  /* a slot number is there with the first bytes; its line keeps the memory busy all the same */
  double bytes = s->bytes;
  if (s->where == KVM_INDEX) bytes = w->leads ? later(s->bytes, sm->line_bytes) : 0;
  double done = serve_shared(&m->dram, t, bytes / sm->dram_bytes, count_in(m, w, &m->busy_dram));
  if (s->where == KVM_INDEX) done = later(t, done - bytes / sm->dram_bytes);
  return later(at, done) + beyond(sm, sm->dram_latency);
}

static void set_mark(warp *w, unsigned mark, double t) {
  if (mark < KVM_MARKS) w->arrived[mark] = later(w->arrived[mark], t);
}

static void at_barrier(machine *m, warp *w, const kvm_step *s, double t) {
  barrier *b = &m->bar[w->block][s->barrier];
  unsigned need = s->barrier_warps ? s->barrier_warps : m->per_block;
  w->waiting = s->op == KVM_BAR;
  if (++*b < need) return;
  *b = 0;
  for (unsigned i = w->block * m->per_block; i < (w->block + 1) * m->per_block; i++) {
    warp *x = &m->w[i];
    if (!x->next || !x->waiting || x->next->barrier != s->barrier) continue;
    x->waiting = false;
    x->ready = later(x->ready, t + m->sm->barrier_latency);
    x->at++;
    settle(m, x);
  }
}

/* One more count; whoever starved for it looks again. */
static void count_up(machine *m, const warp *w, unsigned id, double t) {
  counter *c = &m->count[w->block][id];
  if (c->n == MOST_COUNTS) return;
  c->at[c->n] = c->n ? later(c->at[c->n - 1], t) : t;
  c->n++;
  for (unsigned i = w->block * m->per_block; i < (w->block + 1) * m->per_block; i++) {
    warp *x = &m->w[i];
    if (!x->starved || x->next->barrier != id) continue;
    x->own = own_time(m, x);
    m->stale |= 1u << x->scheduler;
  }
}

static double shared_latency(const kvm_sm *sm, kvm_op op) {
  return op == KVM_SHFL   ? beyond(sm, sm->shuffle_latency)
         : op == KVM_LDSM ? later(0, beyond(sm, sm->ldmatrix_latency) - 3 * sm->wave_interval)
         : op == KVM_LDS  ? beyond(sm, sm->shared_latency)
                          : 0;
}

/* An mma keeps the unit for its interval; any other instruction delays the unit by what its operands take of
 * the registers' ports. The part of a cycle that an mma waits for the next whole one is not lost to the unit.
 */
static void use_matrix_unit(machine *m, const warp *w, double t, double slots) {
  double *free = &m->mma[w->scheduler];
  if (w->next->op != KVM_MMA_OP) {
    *free = later(*free, t) + slots * m->sm->mma_delay;
    return;
  }
  m->last_mma[w->scheduler] = (unsigned)(w - m->w);
  (void)serve(free, *free > t - 1 ? *free : t, m->sm->mma_interval, count_in(m, w, &m->busy_mma));
}

/* The copy unit holds an instruction's operands until it has done with it, and its warp only while the queue
 * is full. Returns when it is done. */
static double copy(machine *m, warp *w, const kvm_step *s, double t) {
  double cycles = s->bytes / m->sm->copy_bytes * kvm_copy_passes(s);
  double done = serve(&m->copy, t, cycles, count_in(m, w, &m->busy_copy));
  double *begun = &m->copy_begun[m->copies++ % COPY_QUEUE];
  w->ready = later(w->ready, *begun);
  *begun = done - cycles;
  return done;
}

static void issue(machine *m, warp *w, double t) {
  const kvm_sm *sm = m->sm;
  const kvm_step *s = w->next;
  double arrives = t + TAKEN_IN, read = t + TAKEN_IN, slots = s->op == KVM_GROUP ? 1 : s->count;
  m->issue[w->scheduler] = t + slots;
  m->last[w->scheduler] = (unsigned)(w - m->w);
  if (w->part == 1) m->busy_issue += slots;
  w->ready = t + s->cycles;
  w->streams = s->op == KVM_MMA_OP;
  use_matrix_unit(m, w, t, slots);
  if (s->op == KVM_MMA_OP) arrives = t + sm->mma_latency;
  else if (s->op == KVM_SFU) {
    (void)serve(&m->sfu[w->scheduler], t, sm->sfu_interval, &m->uncounted);
    arrives = t + sm->sfu_latency;
  } else if (s->waves) {
    read = serve(&m->l1, t + TAKEN_IN, s->waves * sm->wave_interval, count_in(m, w, &m->busy_l1));
    arrives = read;
    if (s->op == KVM_CP && sm->copy_bytes > 0) read = copy(m, w, s, read);
    if (s->op == KVM_LDG || s->op == KVM_CP) arrives = fetch(m, w, s, read);
    else if (s->op == KVM_STG)
      (void)serve(&m->link, read, s->bytes / sm->link_bytes, count_in(m, w, &m->busy_link));
    else arrives += shared_latency(sm, (kvm_op)s->op);
  }
  if (s->op == KVM_AWAIT || s->op == KVM_ASK) {
    arrives = t + sm->mbarrier_latency;
    if (s->set == KVM_NO_MARK) w->ready = later(w->ready, arrives);
  }
  if (s->op == KVM_JUMP) w->ready = later(w->ready, t + sm->branch_latency);
  set_mark(w, s->set, arrives);
  set_mark(w, s->read, read);
  if (s->op == KVM_CP) w->landed = later(w->landed, arrives);
  if (s->op == KVM_POST) count_up(m, w, s->barrier, t + TAKEN_IN);
  if (s->op == KVM_LAND) count_up(m, w, s->barrier, later(t + TAKEN_IN, w->landed));
  if (s->op == KVM_AWAIT) w->awaited[s->barrier]++;
  if (s->op == KVM_CP) w->group[w->open % GROUPS] = later(w->group[w->open % GROUPS], arrives);
  if (s->op == KVM_COMMIT) w->group[++w->open % GROUPS] = 0;
  if (s->op == KVM_BAR || s->op == KVM_ARRIVE) {
    at_barrier(m, w, s, t);
    m->stale |= 1u << w->scheduler;
    if (s->op == KVM_BAR) return; /* whoever completes it moves all of them on */
  }
  w->at++;
  settle(m, w);
}

/* Tiles until the pipeline is steady: queues fill while groups may still be opened, so a few times their
 * number. */
static int warm_tiles(const kvm_block *block) {
  int open = 0;
  bool ring = false; /* of stages: how many, the program does not say */
  for (unsigned r = 0; r < block->roles; r++)
    for (size_t i = 0; i < block->role[r].tile.steps; i++) {
      const kvm_step *s = &block->role[r].tile.step[i];
      if (s->op == KVM_GROUP && s->count > open) open = s->count;
      ring |= s->op == KVM_LAND;
    }
  int warm = ring && 2 * open < RING ? 3 + RING : 3 + 2 * open;
  return warm < MOST_WARM ? warm : MOST_WARM;
}

static bool hands_on(const kvm_block *block) {
  for (unsigned r = 0; r < block->roles; r++)
    for (size_t i = 0; i < block->role[r].tile.steps; i++)
      if (block->role[r].tile.step[i].op == KVM_AWAIT) return true;
  return false;
}

static void set_up(machine *m, unsigned resident) {
  unsigned n = 0, fewer = 0;
  for (unsigned r = 0; r < m->block->roles; r++)
    if (m->block->role[r].fewer > fewer) fewer = m->block->role[r].fewer;
  m->l2 = m->dram = -1;
  m->warm = warm_tiles(m->block);
  /* Warps that hand work on are tiles apart: those behind must not be counted while those ahead are done and
   * leave them the pipes. */
  bool apart = hands_on(m->block);
  m->counted = apart ? COUNTED : COUNTED / 2;
  m->tiles = m->warm + m->counted + (apart ? DRAIN : (int)fewer);
  for (unsigned b = 0; b < resident; b++)
    for (unsigned r = 0; r < m->block->roles; r++)
      for (unsigned i = 0; i < m->block->role[r].warps; i++, n++)
        m->w[n] =
            (warp){.role = &m->block->role[r], .block = b, .scheduler = n % SCHEDULERS, .leads = i == 0};
  m->warps = n;
  m->stale = (1u << SCHEDULERS) - 1;
  for (unsigned s = 0; s < SCHEDULERS; s++) m->last[s] = m->last_mma[s] = KVM_MAX_SM_WARPS; /* nobody yet */
  for (unsigned i = 0; i < n; i++) settle(m, &m->w[i]);
}

/* Of two warps of a scheduler that could go in the same cycle: whether x goes before y. That the matrix unit
 * stays with an unbroken stream, and that a warp with other instructions between its mma loses it, is what
 * pairs of warps show (pair_* of roofline calibrate --only=turns). */
static bool precedes(const machine *m, unsigned x, unsigned y, unsigned scheduler) {
  const warp *a = &m->w[x], *b = &m->w[y];
  unsigned last = m->last[scheduler];
  if (a->next->op == KVM_MMA_OP && b->next->op == KVM_MMA_OP) {
    if (a->streams != b->streams) return a->streams;
    if (a->streams) last = m->last_mma[scheduler];
    else if (a->own != b->own) return a->own < b->own;
  }
  return x == last || (y != last && x > y);
}

static void find_next(machine *m, unsigned scheduler) {
  turn *n = &m->next[scheduler];
  *n = (turn){0, STOPPED, STOPPED};
  for (unsigned i = scheduler; i < m->warps; i += SCHEDULERS) {
    if (m->w[i].own > n->at) continue; /* pipes make it no earlier */
    double t = could_issue(m, &m->w[i]);
    if (t < n->at || (t == n->at && t < STOPPED && precedes(m, i, n->who, scheduler)))
      *n = (turn){i, t, STOPPED};
  }
  if (n->at < STOPPED) n->key = n->at * KEY + m->issue[scheduler];
}

/* The scheduler that issues next. The L1's queue may have grown since its turn was found. */
static unsigned who_is_next(machine *m) {
  for (;;) {
    for (; m->stale; m->stale &= m->stale - 1) find_next(m, (unsigned)__builtin_ctz(m->stale));
    const turn *n = m->next;
    unsigned a = n[1].key < n[0].key, b = 2 + (n[3].key < n[2].key), first = n[b].key < n[a].key ? b : a;
    const warp *w = &m->w[n[first].who];
    if (n[first].at == STOPPED || !w->next->waves || could_issue(m, w) == n[first].at) return first;
    m->stale = 1u << first;
  }
}

/* Issues until all are done; KV_ERR_INPUT where nobody can go on. */
static kv_status run_all(machine *m, kv_error *err) {
  for (;;) {
    const turn *n = &m->next[who_is_next(m)];
    if (n->at == STOPPED) break;
    issue(m, &m->w[n->who], n->at);
  }
  for (unsigned i = 0; i < m->warps; i++)
    if (m->w[i].next)
      return kv_fail(err, KV_ERR_INPUT,
                     "program: a barrier that not all of its warps reach: nobody can go on");
  return KV_OK;
}

/* Warps that no barrier holds together drift apart, and their own paces underrate a full queue: no tile can
 * take less than its service on any unit. */
static void read_out(const machine *m, kvm_sm_time *time) {
  const double busy[5] = {m->busy_issue / SCHEDULERS, m->busy_mma / SCHEDULERS, m->busy_l1,
                          later(later(m->busy_link, m->busy_l2), m->busy_copy), m->busy_dram};
  double *share[5] = {&time->issue, &time->mma, &time->l1, &time->link, &time->dram}, end = 0;
  time->tile = (m->tile_end[m->warm + m->counted] - m->tile_end[m->warm]) / m->warps / m->counted;
  for (int k = 0; k < 5; k++) time->tile = later(time->tile, busy[k] / m->tiles);
  for (int k = 0; k < 5; k++) *share[k] = time->tile > 0 ? busy[k] / m->tiles / time->tile : 0;
  for (unsigned i = 0; i < m->warps; i++) end = later(end, m->w[i].finished);
  time->once = later(0, end - m->tiles * time->tile);
}

kv_status kvm_sm_run(const kvm_sm *sm, const kvm_block *block, unsigned resident, kvm_misses misses,
                     kvm_sm_time *time, kv_error *err) {
  unsigned per_block = kvm_block_warps(block);
  if (!per_block || !resident || per_block * resident > KVM_MAX_SM_WARPS)
    return kv_fail(err, KV_ERR_INPUT, "%u blocks of %u warps: an SM holds 1 to %d warps", resident, per_block,
                   KVM_MAX_SM_WARPS);
  kv_status st = KV_OK;
  machine *m = calloc(1, sizeof *m);
  if (!m) return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  *m = (machine){.sm = sm, .block = block, .misses = misses, .per_block = per_block};
  m->bar = calloc(resident, sizeof *m->bar);
  m->count = calloc(resident, sizeof *m->count);
  if (!m->bar || !m->count) st = kv_fail(err, KV_ERR_MEMORY, "out of memory");
  if (!st) {
    set_up(m, resident);
    st = run_all(m, err);
  }
  if (!st) read_out(m, time);
  free(m->bar);
  free(m->count);
  free(m);
  return st;
}
