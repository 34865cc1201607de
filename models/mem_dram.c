#include "mem_dram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct bank {
  double ready;   /* earliest next activation */
  double columns; /* earliest next column command */
  uint32_t row;   /* open row + 1; 0: closed */
  uint32_t unused;
} bank;

typedef struct channel {
  double last;     /* latest time seen */
  double bus, act; /* work waiting at `last`, s */
  double refresh;  /* next one */
  uint32_t head;   /* of the queue's ring */
  uint32_t turn;   /* next bank to be refreshed */
} channel;

enum { GROUP = 4 };

/* What replaces a division. */
typedef struct divisor {
  uint32_t inverse, first, then;
} divisor;

struct kvm_dram {
  kvm_mem_params p;
  double burst;                                               /* s of bus a burst */
  double interval;                                            /* s between refreshes of a channel */
  uint32_t lines_a_block, block_shift, blocks_a_row, stretch; /* stretch: blocks */
  divisor by_stretch, by_channels, by_banks;
  channel *channel;
  bank *bank;   /* [channels][banks] */
  double *left; /* [channels][queue]: when the request that holds the place leaves */
  kvm_dram_counts n;
};

/* The upper half of the product. */
static inline uint32_t upper(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)a * b >> 32);
}

/* v / by, exact for all v (Granlund and Montgomery 1994, figure 4.1), in steps that vector units have. */
static inline uint32_t divide(uint32_t v, divisor by) {
  uint32_t t = upper(v, by.inverse);
  return (t + ((v - t) >> by.first)) >> by.then;
}

static divisor divisor_of(uint32_t by) {
  uint32_t bits = 0; /* of by, rounded up */
  while (UINT64_C(1) << bits < by) bits++;
  uint64_t inverse = (((UINT64_C(1) << bits) - by) << 32) / by + 1;
  return (divisor){(uint32_t)inverse, bits ? 1 : 0, bits ? bits - 1 : 0};
}

kv_status kvm_dram_create(const kvm_mem_params *p, kvm_dram **dram, kv_error *err) {
  kvm_dram *d = calloc(1, sizeof *d);
  *dram = NULL;
  if (d) {
    d->p = *p;
    d->p.queue = (p->queue + GROUP - 1) / GROUP * GROUP;
    d->channel = calloc(p->channels, sizeof *d->channel);
    d->bank = calloc((size_t)p->channels * p->banks, sizeof *d->bank);
    d->left = calloc((size_t)p->channels * d->p.queue, sizeof *d->left);
  }
  if (!d || !d->channel || !d->bank || !d->left) {
    kvm_dram_free(d);
    return kv_fail(err, KV_ERR_MEMORY, "memory model: out of memory");
  }
  d->burst = p->burst_bytes * p->channels / (p->peak * p->efficiency);
  d->interval = p->refresh_per_bank ? p->refi / p->banks : p->refi;
  while (128u << d->block_shift < p->interleave_bytes) d->block_shift++;
  d->blocks_a_row = p->row_bytes / p->interleave_bytes;
  d->stretch = p->channels * d->blocks_a_row;
  d->by_stretch = divisor_of(d->stretch);
  d->by_channels = divisor_of(p->channels);
  d->by_banks = divisor_of(p->banks);
  kvm_dram_reset(d);
  *dram = d;
  return KV_OK;
}

void kvm_dram_free(kvm_dram *d) {
  if (!d) return;
  free(d->channel);
  free(d->bank);
  free(d->left);
  free(d);
}

void kvm_dram_reset(kvm_dram *d) {
  memset(d->bank, 0, (size_t)d->p.channels * d->p.banks * sizeof *d->bank);
  memset(d->left, 0, (size_t)d->p.channels * d->p.queue * sizeof *d->left);
  d->n = (kvm_dram_counts){0};
  /* Channels refresh at different times, each bank in its turn. */
  for (uint32_t c = 0; c < d->p.channels; c++)
    d->channel[c] = (channel){.refresh = d->interval * (c + 1) / d->p.channels, .turn = c % d->p.banks};
}

kvm_dram_counts kvm_dram_counted(const kvm_dram *d) {
  kvm_dram_counts n = d->n;
  n.requests = n.row_hits + n.activations;
  return n;
}

/* ---- addresses ---- */

static inline uint32_t mix(uint32_t v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  return v ^ v >> 16;
}

static inline kvm_dram_place place_of(const kvm_dram *d, uint32_t line) {
  uint32_t block = line >> d->block_shift, stretch = divide(block, d->by_stretch),
           within = block - stretch * d->stretch, round = divide(within, d->by_channels),
           c = within - round * d->p.channels, h = mix(stretch * d->blocks_a_row + round);
  c += upper(h, d->p.channels);
  if (c >= d->p.channels) c -= d->p.channels;
  uint32_t row = divide(stretch, d->by_banks), b = stretch - row * d->p.banks;
  b += upper(mix(row ^ 0x9e3779b9u), d->p.banks);
  if (b >= d->p.banks) b -= d->p.banks;
  return (kvm_dram_place){c, b, row};
}

kvm_dram_place kvm_dram_place_of(const kvm_dram *d, uint32_t line) {
  return place_of(d, line);
}

/* Where first, in a loop that the compiler turns into vectors, then what lies there. */
void kvm_dram_expect(const kvm_dram *d, const uint32_t line[KVM_DRAM_LINES],
                     kvm_dram_place place[KVM_DRAM_LINES]) {
  uint32_t c[KVM_DRAM_LINES], b[KVM_DRAM_LINES], row[KVM_DRAM_LINES];
  for (unsigned i = 0; i < KVM_DRAM_LINES; i++) {
    kvm_dram_place w = place_of(d, line[i]);
    c[i] = w.channel;
    b[i] = w.bank;
    row[i] = w.row;
  }
  for (unsigned i = 0; i < KVM_DRAM_LINES; i++) {
    place[i] = (kvm_dram_place){c[i], b[i], row[i]};
    __builtin_prefetch(&d->bank[(size_t)c[i] * d->p.banks + b[i]], 1);
    __builtin_prefetch(&d->left[(size_t)c[i] * d->p.queue + d->channel[c[i]].head], 1);
  }
}

/* ---- time ---- */

static inline double later(double a, double b) {
  return a > b ? a : b;
}

static inline double sooner(double a, double b) {
  return a < b ? a : b;
}

double kvm_dram_worked(const kvm_dram *d) {
  double opened = (double)d->n.activations;
  return later((double)d->n.bursts * d->burst + opened * d->p.act_bus, opened * d->p.act);
}

/* Carries out the refreshes that are due at `at`. */
static void refresh(kvm_dram *d, channel *c, bank *banks, double at) {
  while (c->refresh <= at) {
    if (d->p.refresh_per_bank) {
      bank *b = &banks[c->turn];
      b->ready = later(b->ready, c->refresh + d->p.rfc);
      b->row = 0;
      c->act += d->p.rrefd;
      if (++c->turn == d->p.banks) c->turn = 0;
    } else {
      for (uint32_t i = 0; i < d->p.banks; i++) banks[i].row = 0;
      c->bus += d->p.rfc;
      c->act += d->p.rfc;
    }
    c->refresh += d->interval;
    d->n.refreshes++;
  }
}

/* Opens the row; returns when columns may be read. */
static inline double activate(kvm_dram *d, channel *c, bank *b, uint32_t row, double at) {
  double ready = later(at, b->ready);
  if (b->row) {
    ready = later(ready, later(at, b->columns) + d->p.rp);
    d->n.conflicts++;
  }
  ready = later(ready, at + c->act);
  c->act += d->p.act;
  b->ready = ready + d->p.rc;
  b->row = row;
  d->n.activations++;
  return ready + d->p.rcd;
}

/* Four places of the queue; the first of them is free early. The earliest of a group, group after group, does
 * nearly as well as the earliest of all. */
static inline double *places_in_queue(kvm_dram *d, channel *c, uint32_t number) {
  double *group = &d->left[(size_t)number * d->p.queue + c->head];
  c->head += GROUP;
  if (c->head == d->p.queue) c->head = 0;
  return group;
}

/* The first of the group leaves at `data` instead. Kept in order here, where nothing waits for it; no
 * branches: they would be guessed wrong. */
static inline void hold(double *group, double data) {
  double a = group[1], b = group[2], c = group[3], t = later(a, data), u = later(b, t);
  group[0] = sooner(a, data);
  group[1] = sooner(b, t);
  group[2] = sooner(c, u);
  group[3] = later(c, u);
}

double kvm_dram_read(kvm_dram *d, kvm_dram_place w, uint32_t bursts, double at) {
  channel *c = &d->channel[w.channel];
  bank *banks = &d->bank[(size_t)w.channel * d->p.banks], *b = &banks[w.bank];
  double *held = places_in_queue(d, c, w.channel);
  at = later(at, *held);
  if (c->refresh <= at)
    refresh(d, c, banks, at); /* before idle time is taken off: most of it was spent idle */
  double now = later(at, c->last), idle = now - c->last;
  c->bus = later(c->bus - idle, 0);
  c->act = later(c->act - idle, 0);
  c->last = now;
  double column;
  if (b->row == w.row + 1) {
    column = later(at, b->columns);
    d->n.row_hits++;
  } else {
    column = activate(d, c, b, w.row + 1, at);
    c->bus += d->p.act_bus;
  }
  double n = bursts, more = n - 1;
  b->columns = column + n * d->p.ccd;
  double data = later(column + more * d->p.ccd, at + c->bus + more * d->burst);
  c->bus += n * d->burst;
  hold(held, data);
  d->n.bursts += bursts;
  return data + d->p.cl + d->burst;
}

/* ---- formulas ---- */

double kvm_dram_unloaded(const kvm_mem_params *p, uint32_t bursts) {
  return p->rcd + p->cl + (bursts - 1) * p->ccd + p->burst_bytes * p->channels / (p->peak * p->efficiency);
}

double kvm_dram_stream(const kvm_mem_params *p) {
  return p->peak * p->efficiency * (p->refresh_per_bank ? 1 : 1 - p->rfc / p->refi);
}

double kvm_dram_random(const kvm_mem_params *p, uint32_t bursts) {
  double bytes = (double)bursts * p->burst_bytes,
         open = 1 - (p->refresh_per_bank ? p->rrefd * p->banks : p->rfc) / p->refi;
  double by_act = p->channels * bytes / p->act * open;
  double by_bank = p->channels * p->banks * bytes / p->rc * (1 - p->rfc / p->refi);
  double by_bus = 1 / (1 / kvm_dram_stream(p) + p->act_bus / (bytes * p->channels));
  return fmin(by_bus, fmin(by_act, by_bank));
}
