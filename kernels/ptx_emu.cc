/* The emulated block behind ptx.h: fibers, collectives, barriers, asynchronous copies, and the shadow of shared memory
 * that finds reads of unwritten words and unordered accesses. One block runs at a time, in one host thread. */
#ifndef KVK_EMULATE
#define KVK_EMULATE
#endif
#include "ptx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define KX_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KX_ASAN 1
#endif
#endif
#ifdef KX_ASAN
extern "C" void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, size_t size);
extern "C" void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old, size_t *size_old);
#endif

namespace {

const unsigned max_threads = 512, max_warps = max_threads / 32, max_bars = 16, max_mbars = 64;
const size_t stack_bytes = 128 * 1024;
const uint32_t smem_start = 1024; /* so that address 0 is never a shared address */
const uint32_t max_smem = 228 * 1024, max_words = max_smem / 4;

struct clocks { uint32_t of[max_warps]; };

enum word_state : uint8_t { UNWRITTEN, WRITTEN, IN_FLIGHT };

struct word {
  word_state state;
  uint8_t writer, reader;
  uint16_t writer_lane, reader_lane;
  uint32_t write_clock, write_turn, read_turn;
  uint32_t read_clock[max_warps];
};

struct copy_item { /* a copy in flight, or a mark: "arrive at bar when all before me have landed" */
  uint32_t to, bytes, bar, clock;
  const void *from;
  clocks seen;
};

struct fiber {
  ucontext_t context;
  void *stack;
  bool ended;
  const uint64_t *watched; /* blocked while *watched == value; NULL: may run */
  uint64_t value;
  const char *at;
  copy_item *copies;
  size_t n_copies, first_copy, room;
  void *fake_stack;
};

struct warp {
  unsigned arrived;
  int op;
  uint64_t generation;
  uint32_t turn; /* counts what orders the lanes of the warp */
  uint32_t in[32][8], out[32][4];
};

struct barrier { /* a named barrier or an mbarrier */
  uint32_t at, expected, pending;
  uint64_t generation;
  uint32_t warps; /* that take part in this phase */
  clocks gathering, released;
};

struct block {
  unsigned threads, warps, index, index_y, count;
  uint32_t smem;
  fiber fibers[max_threads];
  warp warp_of[max_warps];
  clocks now[max_warps];
  barrier bars[max_bars], mbars[max_mbars];
  unsigned n_mbars;
  word words[max_words];
  uint8_t bytes[max_smem];
  ucontext_t scheduler;
  unsigned current;
  bool in_fiber;
  kvk_emulated *found;
  uint64_t random;
  void (*body)(const void *);
  const void *argument;
  const void *main_bottom;
  size_t main_size;
  void *main_fake;
};

block *B; /* the one that runs */

__attribute__((format(printf, 2, 3))) void report(uint64_t *counter, const char *format, ...) {
  (*counter)++;
  if (B->found->first[0]) return;
  char text[160];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  (void)snprintf(B->found->first, sizeof B->found->first, "block %u,%u thread %u: %s", B->index, B->index_y, B->current, text);
}

fiber &self() { return B->fibers[B->current]; }
unsigned my_warp() { return B->current / 32; }
clocks &my_clocks() { return B->now[my_warp()]; }

void join(clocks &into, const clocks &from) {
  for (unsigned w = 0; w < B->warps; w++)
    if (from.of[w] > into.of[w]) into.of[w] = from.of[w];
}

void to_scheduler(bool last) {
  fiber &f = self();
  B->found->steps++;
#ifdef KX_ASAN
  __sanitizer_start_switch_fiber(last ? NULL : &f.fake_stack, B->main_bottom, B->main_size);
#else
  (void)last;
#endif
  (void)swapcontext(&f.context, &B->scheduler);
#ifdef KX_ASAN
  __sanitizer_finish_switch_fiber(f.fake_stack, &B->main_bottom, &B->main_size);
#endif
}

void block_while(const uint64_t *watched, uint64_t value, const char *at) {
  fiber &f = self();
  f.watched = watched;
  f.value = value;
  f.at = at;
  to_scheduler(false);
}

/* --- shared memory --- */

word *checked(uint32_t at, uint32_t bytes, const char *what) {
  if (at < smem_start || at - smem_start + bytes > B->smem || at % bytes) {
    report(&B->found->races, "%s of %u bytes at %u: outside the block's %u bytes, or not aligned", what, bytes,
           at - smem_start, B->smem);
    return NULL;
  }
  return &B->words[(at - smem_start) / 4];
}

void note_read(word &w, unsigned lane, uint32_t at) {
  const unsigned me = my_warp();
  if (w.state == UNWRITTEN) report(&B->found->unwritten_reads, "reads shared byte %u, which nothing wrote", at);
  if (w.state == IN_FLIGHT) report(&B->found->unwritten_reads, "reads shared byte %u before its copy was waited for", at);
  if (w.state == WRITTEN && w.writer != me && my_clocks().of[w.writer] < w.write_clock)
    report(&B->found->races, "reads shared byte %u, written by warp %u with no barrier between", at, w.writer);
  if (w.state == WRITTEN && w.writer == me && w.writer_lane != lane && w.write_turn == B->warp_of[me].turn)
    report(&B->found->races, "reads shared byte %u, written by lane %u with no sync between", at, w.writer_lane);
  w.read_clock[me] = my_clocks().of[me];
  w.reader = (uint8_t)me;
  w.reader_lane = (uint16_t)lane;
  w.read_turn = B->warp_of[me].turn;
}

void note_write(word &w, unsigned lane, uint32_t at, word_state state) {
  const unsigned me = my_warp();
  if (w.state != UNWRITTEN && w.writer != me && my_clocks().of[w.writer] < w.write_clock)
    report(&B->found->races, "writes shared byte %u over warp %u with no barrier between", at, w.writer);
  if (w.state == IN_FLIGHT) report(&B->found->races, "writes shared byte %u while a copy to it is in flight", at);
  if (w.state == WRITTEN && w.writer == me && w.writer_lane != lane && w.write_turn == B->warp_of[me].turn)
    report(&B->found->races, "writes shared byte %u over lane %u with no sync between", at, w.writer_lane);
  for (unsigned r = 0; r < B->warps; r++)
    if (r != me && w.read_clock[r] && my_clocks().of[r] < w.read_clock[r])
      report(&B->found->races, "writes shared byte %u while warp %u may still read it", at, r);
  if (w.read_clock[me] && w.reader == me && w.reader_lane != lane && w.read_turn == B->warp_of[me].turn)
    report(&B->found->races, "writes shared byte %u while lane %u may still read it", at, w.reader_lane);
  w.state = state;
  w.writer = (uint8_t)me;
  w.writer_lane = (uint16_t)lane;
  w.write_clock = my_clocks().of[me];
  w.write_turn = B->warp_of[me].turn;
  memset(w.read_clock, 0, sizeof w.read_clock);
}

void read_shared(uint32_t at, void *to, uint32_t bytes, unsigned lane) {
  word *w = checked(at, bytes, "read");
  memset(to, 0, bytes);
  if (!w) return;
  for (uint32_t i = 0; i < bytes / 4; i++) note_read(w[i], lane, at - smem_start + 4 * i);
  memcpy(to, B->bytes + (at - smem_start), bytes);
}

/* --- barriers --- */

void release(barrier &b) {
  join(b.gathering, my_clocks());
  my_clocks().of[my_warp()]++;
  b.warps |= 1u << my_warp();
}

void phase_ends(barrier &b, bool orders_lanes) {
  b.released = b.gathering;
  b.pending = b.expected;
  b.generation++;
  for (unsigned w = 0; orders_lanes && w < B->warps; w++)
    if (b.warps >> w & 1) B->warp_of[w].turn++;
  b.warps = 0;
}

barrier *mbar_at(uint32_t at) {
  for (unsigned i = 0; i < B->n_mbars; i++)
    if (B->mbars[i].at == at) return &B->mbars[i];
  report(&B->found->races, "uses the mbarrier at %u before it is initialised", at - smem_start);
  return NULL;
}

void mbar_count_in(barrier &b, const clocks &seen) {
  join(b.gathering, seen);
  if (b.pending == 0) report(&B->found->races, "arrives at the mbarrier at %u too often", b.at - smem_start);
  if (--b.pending == 0) phase_ends(b, false);
}

/* --- copies in flight --- */

copy_item &new_item(fiber &f) {
  if (f.n_copies == f.room) {
    f.room = f.room ? 2 * f.room : 64;
    f.copies = (copy_item *)realloc(f.copies, f.room * sizeof *f.copies);
    if (!f.copies) abort();
  }
  copy_item &c = f.copies[f.n_copies++];
  memset(&c, 0, sizeof c);
  return c;
}

/* Lands the copies of one thread, up to and with its next mark (or all of them). */
bool land(unsigned thread, bool all) {
  fiber &f = B->fibers[thread];
  const unsigned w = thread / 32;
  bool moved = false;
  while (f.first_copy < f.n_copies) {
    copy_item &c = f.copies[f.first_copy++];
    moved = true;
    if (c.bar) {
      barrier *b = mbar_at(c.bar);
      if (b) mbar_count_in(*b, c.seen);
      if (!all) break;
      continue;
    }
    uint8_t *to = B->bytes + (c.to - smem_start);
    if (c.bytes) memcpy(to, c.from, 16);
    else memset(to, 0, 16);
    for (uint32_t i = 0; i < 4; i++) {
      word &x = B->words[(c.to - smem_start) / 4 + i];
      x.state = WRITTEN;
      x.write_clock = all ? B->now[w].of[w] : c.clock;
      x.write_turn = all ? B->warp_of[w].turn : B->warp_of[w].turn - 1;
    }
  }
  if (f.first_copy == f.n_copies) f.first_copy = f.n_copies = 0;
  return moved;
}

/* --- collectives --- */

enum { OP_SYNC = 1, OP_LDMATRIX4, OP_LDMATRIX4T, OP_LDMATRIX2T, OP_STMATRIX4, OP_TRANSPOSE, OP_MMA, OP_SHFL_XOR, OP_SHFL_UP, OP_SHFL, OP_BALLOT };

void load_matrices(warp &w, unsigned base, unsigned n, bool transposed) {
  uint16_t m[4][8][8];
  for (unsigned l = 0; l < 8 * n; l++) {
    unsigned saved = B->current;
    B->current = base + l;
    read_shared(w.in[l][0], m[l / 8][l % 8], 16, l);
    B->current = saved;
  }
  for (unsigned l = 0; l < 32; l++)
    for (unsigned i = 0; i < n; i++) {
      unsigned g = l / 4, t = 2 * (l % 4);
      uint32_t low = transposed ? m[i][t][g] : m[i][g][t], high = transposed ? m[i][t + 1][g] : m[i][g][t + 1];
      w.out[l][i] = low | high << 16;
    }
}

void write_shared(uint32_t to, const void *from, uint32_t bytes, unsigned lane) {
  word *w = checked(to, bytes, "write");
  if (!w) return;
  for (uint32_t i = 0; i < bytes / 4; i++) note_write(w[i], lane, to - smem_start + 4 * i, WRITTEN);
  memcpy(B->bytes + (to - smem_start), from, bytes);
}

void store_matrices(warp &w, unsigned base, unsigned n) { /* in: the lane's row, its part of each matrix */
  for (unsigned l = 0; l < 8 * n; l++) {
    uint32_t row[4];
    for (unsigned t = 0; t < 4; t++) row[t] = w.in[4 * (l % 8) + t][1 + l / 8];
    unsigned saved = B->current;
    B->current = base + l;
    write_shared(w.in[l][0], row, 16, l);
    B->current = saved;
  }
}

float half_at(uint32_t pair, unsigned which) { return kvk_from_bf16((uint16_t)(which ? pair >> 16 : pair)); }

void multiply(warp &w) { /* in: a0..a3, b0, b1; the accumulator is added by each lane itself */
  float a[16][16], b[16][8];
  for (unsigned l = 0; l < 32; l++)
    for (unsigned i = 0; i < 2; i++) {
      unsigned g = l / 4, t = 2 * (l % 4) + i;
      a[g][t] = half_at(w.in[l][0], i);
      a[g + 8][t] = half_at(w.in[l][1], i);
      a[g][t + 8] = half_at(w.in[l][2], i);
      a[g + 8][t + 8] = half_at(w.in[l][3], i);
      b[t][g] = half_at(w.in[l][4], i);
      b[t + 8][g] = half_at(w.in[l][5], i);
    }
  for (unsigned l = 0; l < 32; l++)
    for (unsigned i = 0; i < 4; i++) {
      unsigned row = l / 4 + 8 * (i / 2), col = 2 * (l % 4) + i % 2;
      float sum = 0;
      for (unsigned k = 0; k < 16; k++) sum += a[row][k] * b[k][col];
      memcpy(&w.out[l][i], &sum, 4);
    }
}

void transpose(warp &w) {
  for (unsigned l = 0; l < 32; l++) {
    unsigned g = l / 4, t = 2 * (l % 4);
    uint32_t half[2];
    for (unsigned i = 0; i < 2; i++) { /* element (g, t + i) of the result is element (t + i, g) of the source */
      uint32_t pair = w.in[4 * (t + i) + g / 2][0];
      half[i] = g % 2 ? pair >> 16 : pair & 0xffffu;
    }
    w.out[l][0] = half[0] | half[1] << 16;
  }
}

void compute(warp &w, unsigned base) {
  uint32_t votes = 0;
  switch (w.op) {
    case OP_LDMATRIX4: load_matrices(w, base, 4, false); break;
    case OP_LDMATRIX4T: load_matrices(w, base, 4, true); break;
    case OP_LDMATRIX2T: load_matrices(w, base, 2, true); break;
    case OP_STMATRIX4: store_matrices(w, base, 4); break;
    case OP_TRANSPOSE: transpose(w); break;
    case OP_MMA: multiply(w); break;
    case OP_SHFL_XOR:
      for (unsigned l = 0; l < 32; l++) w.out[l][0] = w.in[l ^ (w.in[l][1] & 31u)][0];
      break;
    case OP_SHFL_UP:
      for (unsigned l = 0; l < 32; l++) w.out[l][0] = w.in[l >= w.in[l][1] ? l - w.in[l][1] : l][0];
      break;
    case OP_SHFL:
      for (unsigned l = 0; l < 32; l++) w.out[l][0] = w.in[w.in[l][1] & 31u][0];
      break;
    case OP_BALLOT:
      for (unsigned l = 0; l < 32; l++) votes |= (w.in[l][0] ? 1u : 0u) << l;
      for (unsigned l = 0; l < 32; l++) w.out[l][0] = votes;
      break;
    default: break;
  }
}

void collective(int op, const uint32_t *in, unsigned n_in, uint32_t *out, unsigned n_out) {
  warp &w = B->warp_of[my_warp()];
  const unsigned lane = B->current % 32;
  if (w.arrived == 0) w.op = op;
  else if (w.op != op) report(&B->found->divergences, "meets collective %d where other lanes are at %d", op, w.op);
  for (unsigned i = 0; i < n_in; i++) w.in[lane][i] = in[i];
  if (++w.arrived == 32) {
    w.turn++; /* what comes before the collective is ordered before what it reads itself */
    compute(w, my_warp() * 32);
    w.turn++;
    w.arrived = 0;
    w.generation++;
  } else {
    block_while(&w.generation, w.generation, "a collective of its warp");
  }
  for (unsigned i = 0; i < n_out; i++) out[i] = w.out[lane][i];
}

/* --- running --- */

void fiber_main() {
#ifdef KX_ASAN
  __sanitizer_finish_switch_fiber(NULL, &B->main_bottom, &B->main_size);
#endif
  B->body(B->argument);
  self().ended = true;
  self().watched = NULL;
  to_scheduler(true);
}

void resume(unsigned thread) {
  fiber &f = B->fibers[thread];
  B->current = thread;
#ifdef KX_ASAN
  __sanitizer_start_switch_fiber(&B->main_fake, f.stack, stack_bytes);
#endif
  (void)swapcontext(&B->scheduler, &f.context);
#ifdef KX_ASAN
  __sanitizer_finish_switch_fiber(B->main_fake, NULL, NULL);
#endif
}

unsigned next_random(unsigned below) {
  B->random = B->random * 6364136223846793005ull + 1442695040888963407ull;
  return (unsigned)((B->random >> 33) % below);
}

bool may_run(const fiber &f) { return !f.ended && (!f.watched || *f.watched != f.value); }

bool run_warp(unsigned w) {
  bool ran = false;
  for (bool again = true; again;) {
    again = false;
    for (unsigned t = 32 * w; t < 32 * w + 32; t++)
      if (may_run(B->fibers[t])) {
        B->fibers[t].watched = NULL;
        resume(t);
        ran = again = true;
      }
    if (B->random && next_random(8) == 0) break; /* let another warp overtake */
  }
  return ran;
}

bool land_something() {
  unsigned start = B->random ? next_random(B->threads) : 0;
  for (unsigned i = 0; i < B->threads; i++)
    if (land((start + i) % B->threads, false)) return true;
  return false;
}

bool all_ended() {
  for (unsigned t = 0; t < B->threads; t++)
    if (!B->fibers[t].ended) return false;
  return true;
}

void run_block() {
  for (;;) {
    bool ran = false;
    unsigned start = B->random ? next_random(B->warps) : 0;
    for (unsigned i = 0; i < B->warps; i++) ran |= run_warp((start + i) % B->warps);
    if (all_ended()) return;
    if (ran || land_something()) continue;
    for (unsigned t = 0; t < B->threads; t++)
      if (!B->fibers[t].ended) {
        B->current = t;
        report(&B->found->deadlocks, "waits for ever for %s", B->fibers[t].at);
        return;
      }
  }
}

void start_fiber(fiber &f) {
  f.ended = false;
  f.watched = NULL;
  f.at = "";
  f.n_copies = f.first_copy = 0;
  f.fake_stack = NULL;
  (void)getcontext(&f.context);
  f.context.uc_stack.ss_sp = f.stack;
  f.context.uc_stack.ss_size = stack_bytes;
  f.context.uc_link = &B->scheduler;
  makecontext(&f.context, fiber_main, 0);
}

void start_block(unsigned x, unsigned y) {
  B->index = x;
  B->index_y = y;
  B->n_mbars = 0;
  memset(B->warp_of, 0, sizeof B->warp_of);
  memset(B->bars, 0, sizeof B->bars);
  memset(B->mbars, 0, sizeof B->mbars);
  memset(B->words, 0, (B->smem / 4 + 1) * sizeof *B->words);
  memset(B->bytes, 0xff, B->smem); /* NaN, should an unwritten word be used all the same */
  memset(B->now, 0, sizeof B->now);
  for (unsigned w = 0; w < B->warps; w++) B->now[w].of[w] = 1;
  for (unsigned t = 0; t < B->threads; t++) start_fiber(B->fibers[t]);
}

} // namespace

unsigned kx_tid() { return B->current; }
unsigned kx_block() { return B->index; }
unsigned kx_block_y() { return B->index_y; }
unsigned kx_blocks() { return B->count; }
uint32_t kx_smem() { return smem_start; }

void kx_sync_warp() { collective(OP_SYNC, NULL, 0, NULL, 0); }

void kx_bar_sync(int id, int threads) {
  barrier &b = B->bars[id];
  if (b.expected != (uint32_t)threads && b.pending == b.expected) b.expected = b.pending = (uint32_t)threads;
  if (b.expected != (uint32_t)threads)
    report(&B->found->divergences, "comes to barrier %d with %d threads, others with %u", id, threads, b.expected);
  release(b);
  if (--b.pending == 0) phase_ends(b, true);
  else block_while(&b.generation, b.generation, "a named barrier");
  join(my_clocks(), b.released);
}

void kx_mbar_init(uint32_t bar, uint32_t count) {
  barrier *b = NULL;
  for (unsigned i = 0; i < B->n_mbars; i++)
    if (B->mbars[i].at == bar) b = &B->mbars[i];
  if (b) report(&B->found->races, "initialises the mbarrier at %u before it is invalidated", bar - smem_start);
  if (!b) {
    if (B->n_mbars == max_mbars || !checked(bar, 8, "mbarrier")) return;
    b = &B->mbars[B->n_mbars++];
  }
  memset(b, 0, sizeof *b);
  b->at = bar;
  b->expected = b->pending = count;
}

void kx_mbar_inval(uint32_t bar) {
  barrier *b = mbar_at(bar);
  if (!b) return;
  if (b->pending != b->expected) report(&B->found->races, "invalidates the mbarrier at %u while it is in use", bar - smem_start);
  *b = B->mbars[--B->n_mbars]; /* nobody may wait at either: all warps are past the barrier before the reset */
}

void kx_mbar_arrive(uint32_t bar) {
  barrier *b = mbar_at(bar);
  if (!b) return;
  clocks seen = my_clocks();
  my_clocks().of[my_warp()]++;
  mbar_count_in(*b, seen);
}

void kx_mbar_wait(uint32_t bar, uint32_t parity) {
  barrier *b = mbar_at(bar);
  if (!b) return;
  while ((b->generation & 1) == parity) block_while(&b->generation, b->generation, "an mbarrier");
  join(my_clocks(), b->released);
  B->warp_of[my_warp()].turn++; /* it may have ordered the lanes; told apart between warps only */
}

bool kx_mbar_test(uint32_t bar, uint32_t parity) {
  barrier *b = mbar_at(bar);
  if (!b || (b->generation & 1) == parity) return false;
  join(my_clocks(), b->released);
  return true;
}

void kx_copy16(uint32_t to, const void *from, bool real) {
  word *w = checked(to, 16, "copy");
  if (!w) return;
  for (uint32_t i = 0; i < 4; i++) note_write(w[i], B->current % 32, to - smem_start + 4 * i, IN_FLIGHT);
  copy_item &c = new_item(self());
  c.to = to;
  c.from = from;
  c.bytes = real ? 16 : 0;
  c.clock = my_clocks().of[my_warp()];
}

void kx_copy_commit() {}
void kx_copy_wait_all() { (void)land(B->current, true); }

void kx_copy_arrive(uint32_t bar) {
  copy_item &c = new_item(self());
  c.bar = bar;
  c.seen = my_clocks();
  my_clocks().of[my_warp()]++;
}

void kx_emu_store(uint32_t to, const void *from, uint32_t bytes) { write_shared(to, from, bytes, B->current % 32); }

void kx_emu_load(uint32_t at, void *to, uint32_t bytes) { read_shared(at, to, bytes, B->current % 32); }

void kx_ldmatrix4(uint32_t r[4], uint32_t at) { collective(OP_LDMATRIX4, &at, 1, r, 4); }
void kx_ldmatrix4_trans(uint32_t r[4], uint32_t at) { collective(OP_LDMATRIX4T, &at, 1, r, 4); }
void kx_ldmatrix2_trans(uint32_t r[2], uint32_t at) { collective(OP_LDMATRIX2T, &at, 1, r, 2); }

void kx_stmatrix4(uint32_t at, const uint32_t r[4]) {
  const uint32_t in[5] = {at, r[0], r[1], r[2], r[3]};
  collective(OP_STMATRIX4, in, 5, NULL, 0);
}

uint32_t kx_transpose(uint32_t v) {
  uint32_t r;
  collective(OP_TRANSPOSE, &v, 1, &r, 1);
  return r;
}

void kx_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  uint32_t in[6] = {a[0], a[1], a[2], a[3], b0, b1}, product[4];
  collective(OP_MMA, in, 6, product, 4);
  for (int i = 0; i < 4; i++) c[i] += kx_bits_float(product[i]);
}

static uint32_t exchange(int op, uint32_t v, uint32_t how) {
  uint32_t in[2] = {v, how}, r;
  collective(op, in, 2, &r, 1);
  return r;
}

float kx_shfl_xor(float v, int mask) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return kx_bits_float(exchange(OP_SHFL_XOR, bits, (uint32_t)mask));
}
uint32_t kx_shfl_up(uint32_t v, int by) { return exchange(OP_SHFL_UP, v, (uint32_t)by); }
uint32_t kx_shfl(uint32_t v, int lane) { return exchange(OP_SHFL, v, (uint32_t)lane); }
uint32_t kx_ballot(bool v) { return exchange(OP_BALLOT, v ? 1 : 0, 0); }

const char *kx_emu_grid(const kx_grid &grid, void (*body)(const void *), const void *argument) {
  const kx_emu_run *run = (const kx_emu_run *)grid.stream;
  if (grid.threads > max_threads || grid.threads % 32 || grid.smem > max_smem) return "a block the emulation cannot hold";
  block *b = (block *)calloc(1, sizeof *b);
  const size_t all = (size_t)grid.threads * stack_bytes;
  void *stacks = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const char *failed = !b || stacks == MAP_FAILED ? "out of memory" : NULL;
  block *outer = B;
  if (!failed) {
    B = b;
    b->threads = grid.threads;
    b->warps = grid.threads / 32;
    b->count = grid.x;
    b->smem = grid.smem;
    b->found = run->found;
    b->random = run->seed;
    b->body = body;
    b->argument = argument;
    for (unsigned t = 0; t < grid.threads; t++) b->fibers[t].stack = (char *)stacks + t * stack_bytes;
    for (unsigned i = 0; i < grid.x * grid.y && !run->found->deadlocks; i++) {
      start_block(i % grid.x, i / grid.x);
      run_block();
    }
    for (unsigned t = 0; t < grid.threads; t++) free(b->fibers[t].copies);
  }
  B = outer;
  if (stacks != MAP_FAILED) (void)munmap(stacks, all);
  free(b);
  return failed;
}
