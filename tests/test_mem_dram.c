/* The DRAM servers against the formulas that the timing parameters give, and against hand-computed commands.
 */
#include <math.h>
#include <stdlib.h>

#include "kv_test.h"
#include "mem_dram.h"

/* One channel of 32 B/ns, two banks; numbers chosen to be told apart. */
static kvm_mem_params one_channel(void) {
  return (kvm_mem_params){.channels = 1,
                          .banks = 2,
                          .row_bytes = 1024,
                          .burst_bytes = 32,
                          .access_bytes = 32,
                          .interleave_bytes = 128,
                          .queue = 64,
                          .refresh_per_bank = true,
                          .peak = 32e9,
                          .efficiency = 1,
                          .rcd = 20e-9,
                          .rp = 16e-9,
                          .cl = 12e-9,
                          .rc = 45e-9,
                          .ccd = 1e-9,
                          .act = 3e-9,
                          .refi = 1,
                          .rfc = 200e-9,
                          .rrefd = 5e-9};
}

static kvm_dram *made(const kvm_mem_params *p) {
  kvm_dram *d;
  CU_ASSERT_EQUAL_FATAL(kvm_dram_create(p, &d, NULL), KV_OK);
  return d;
}

/* An access to a closed row takes tRCD + tCL + burst; to an open one tCL + burst; to another row of the bank
 * first what is left of tRC, or tRP. */
static void single_accesses_take_what_the_timings_add_up_to(void) {
  kvm_mem_params p = one_channel();
  kvm_dram *d = made(&p);
  kvm_dram_place row0 = {0, 0, 0}, row1 = {0, 0, 1}, other_bank = {0, 1, 0};
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_read(d, row0, 1, 1000e-9) - 1000e-9, 33e-9, 1e-15); /* 20 + 12 + 1 */
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_read(d, row0, 1, 1100e-9) - 1100e-9, 13e-9, 1e-15); /* 12 + 1 */
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_read(d, row1, 1, 1200e-9) - 1200e-9, 49e-9, 1e-15); /* 16 + 20 + 12 + 1 */
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_read(d, row0, 1, 1201e-9) - 1216e-9, 78e-9,
                         1e-15); /* tRC after 1216: 45 + 33 */
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_read(d, other_bank, 4, 1400e-9) - 1400e-9, 36e-9, 1e-15); /* 20 + 12 + 4 */
  CU_ASSERT_DOUBLE_EQUAL(kvm_dram_unloaded(&p, 4), 36e-9, 1e-15);
  kvm_dram_counts n = kvm_dram_counted(d);
  CU_ASSERT(n.requests == 5 && n.row_hits == 1 && n.activations == 4 && n.conflicts == 2 && n.bursts == 8);
  kvm_dram_free(d);
}

/* Two activations of a channel are `act` apart, be they of different banks. */
static void activations_keep_their_distance(void) {
  kvm_mem_params p = one_channel();
  kvm_dram *d = made(&p);
  double first = kvm_dram_read(d, (kvm_dram_place){0, 0, 0}, 1, 0),
         second = kvm_dram_read(d, (kvm_dram_place){0, 1, 0}, 1, 0);
  CU_ASSERT_DOUBLE_EQUAL(second - first, 3e-9, 1e-15);
  kvm_dram_free(d);
}

/* Rate of `n` accesses that all wait at the start. next(i) gives the line. */
static double rate(const kvm_mem_params *p, uint32_t n, uint32_t bursts, bool scattered) {
  kvm_dram *d = made(p);
  double end = 0;
  uint64_t dice = 1;
  for (uint32_t i = 0; i < n; i++) {
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    double t = kvm_dram_read(d, kvm_dram_place_of(d, scattered ? (uint32_t)(dice >> 36) : i), bursts, 0);
    if (t > end) end = t;
  }
  kvm_dram_free(d);
  return (double)n * bursts * p->burst_bytes / end;
}

static kvm_mem_params hbm(void) {
  return (kvm_mem_params){.channels = 188,
                          .banks = 48,
                          .row_bytes = 1024,
                          .burst_bytes = 32,
                          .access_bytes = 64,
                          .interleave_bytes = 128,
                          .queue = 32,
                          .refresh_per_bank = true,
                          .peak = 4.8e12,
                          .efficiency = 0.95,
                          .rcd = 19.4e-9,
                          .rp = 16.25e-9,
                          .cl = 12.5e-9,
                          .rc = 45e-9,
                          .ccd = 2.5e-9,
                          .act = 4.75e-9,
                          .refi = 3.9e-6,
                          .rfc = 200e-9,
                          .rrefd = 5e-9};
}

#define WITHIN(a, b, percent) CU_ASSERT(fabs((a) / (b)-1) <= (percent) / 100.0)

static void a_stream_reaches_peak_times_efficiency(void) {
  kvm_mem_params p = hbm();
  WITHIN(kvm_dram_stream(&p), 4.56e12, 1e-9);
  WITHIN(rate(&p, 4000000, 4, false), kvm_dram_stream(&p), 1);
}

/* All-bank refresh: 260 of every 3900 ns are lost: 93.3 %. */
static void refresh_takes_its_share(void) {
  kvm_mem_params p = hbm();
  p.refresh_per_bank = false;
  p.rfc = 260e-9;
  p.efficiency = 1;
  WITHIN(kvm_dram_stream(&p), 4.48e12, 1e-6);
  WITHIN(rate(&p, 8000000, 4, false), kvm_dram_stream(&p), 1);
}

/* One activation for two bursts: 188 channels x 64 B / 4.75 ns, less tRREFD at every refresh of one of 48
 * banks. */
static void random_rows_are_bound_by_activations(void) {
  kvm_mem_params p = hbm();
  double formula = 188 * 64 / 4.75e-9 * (1 - 48 * 5.0 / 3900);
  WITHIN(kvm_dram_random(&p, 2), formula, 1e-9);
  WITHIN(rate(&p, 4000000, 2, true), formula, 3);
}

/* A line a row: the bus moves 128 B in 32 x 4 / (4.56 TB/s / 188) = 5.28 ns and loses 0.6 ns to the
 * activation. */
static void activations_cost_the_bus(void) {
  kvm_mem_params p = hbm();
  p.act_bus = 0.6e-9;
  double formula = 188 * 128 / (188 * 128 / 4.56e12 + 0.6e-9);
  WITHIN(kvm_dram_random(&p, 4), formula, 1e-9);
  WITHIN(rate(&p, 4000000, 4, true), formula, 3);
  WITHIN(rate(&p, 4000000, 4, false), 188 * 1024 / (188 * 1024 / 4.56e12 + 0.6e-9), 1.5);
}

/* One bank a channel: every access waits for tRC. */
static void one_bank_is_bound_by_its_cycle(void) {
  kvm_mem_params p = hbm();
  p.banks = 1;
  p.refi = 1;
  WITHIN(rate(&p, 4000000, 2, true), 188 * 64 / 45e-9,
         4); /* the fullest channel has 2 to 3 % more than its share */
}

static void lines_spread_evenly(void) {
  kvm_mem_params p = hbm();
  kvm_dram *d = made(&p);
  uint32_t channel[188] = {0}, bank[48] = {0};
  for (uint32_t line = 0; line < 188 * 8 * 480; line++) {
    kvm_dram_place w = kvm_dram_place_of(d, line);
    CU_ASSERT_FATAL(w.channel < 188 && w.bank < 48);
    channel[w.channel]++;
    bank[w.bank]++;
  }
  for (int c = 0; c < 188; c++) CU_ASSERT_EQUAL(channel[c], 8 * 480);
  for (int b = 0; b < 48; b++) CU_ASSERT_EQUAL(bank[b], 188 * 8 * 10);
  /* lines of one stretch in one channel share bank and row; no two lines of a round share a channel */
  kvm_dram_place first = kvm_dram_place_of(d, 0);
  int seen[188] = {0}, shared = 0;
  for (uint32_t line = 0; line < 188 * 8; line++) {
    kvm_dram_place w = kvm_dram_place_of(d, line);
    if (line < 188) seen[w.channel]++;
    CU_ASSERT(w.bank == first.bank && w.row == first.row);
    shared += w.channel == first.channel;
  }
  for (int c = 0; c < 188; c++) CU_ASSERT_EQUAL(seen[c], 1);
  CU_ASSERT_EQUAL(shared, 8);
  kvm_dram_free(d);
}

/* A place against plain division: the row, and how far channel and bank lie from those of the first block of
 * the round and of the first stretch of the row. */
static void follows_division(const kvm_dram *d, const kvm_mem_params *p, uint32_t line, kvm_dram_place w) {
  uint32_t lines = p->interleave_bytes / 128, block = line / lines,
           length = p->channels * (p->row_bytes / p->interleave_bytes), stretch = block / length,
           ahead = block % length % p->channels, turn = stretch % p->banks;
  kvm_dram_place first = kvm_dram_place_of(d, (block - ahead) * lines),
                 row = kvm_dram_place_of(d, (stretch - turn) * length * lines);
  CU_ASSERT_EQUAL(w.row, stretch / p->banks);
  CU_ASSERT_EQUAL(w.channel, (first.channel + ahead) % p->channels);
  CU_ASSERT_EQUAL(w.bank, (row.bank + turn) % p->banks);
}

/* For counts that are and are not powers of two, over all that a line number can be. */
static void places_are_exact(void) {
  static const uint32_t channels[] = {1, 2, 3, 64, 188, 255}, banks[] = {1, 7, 16, 48};
  for (unsigned i = 0; i < 48; i++) {
    kvm_mem_params p = hbm();
    p.channels = channels[i % 6];
    p.banks = banks[i / 6 % 4];
    p.interleave_bytes = i < 24 ? 128 : 512;
    kvm_dram *d = made(&p);
    for (uint32_t k = 0; k < 2000; k++) {
      uint32_t line[KVM_DRAM_LINES] = {k, UINT32_MAX - k, (1u << 31) - 1000 + k};
      for (unsigned j = 3; j < KVM_DRAM_LINES; j++) line[j] = (k * KVM_DRAM_LINES + j) * 2654435761u;
      kvm_dram_place place[KVM_DRAM_LINES];
      kvm_dram_expect(d, line, place);
      for (unsigned j = 0; j < KVM_DRAM_LINES; j++) follows_division(d, &p, line[j], place[j]);
    }
    kvm_dram_free(d);
  }
}

/* A channel that stands idle for long must not owe the refreshes of that time. */
static void idle_time_pays_for_refreshes(void) {
  kvm_mem_params p = hbm();
  kvm_dram *d = made(&p);
  double worst = 0;
  for (int i = 1; i < 1000; i++) {
    double at = i * 50e-6,
           took = kvm_dram_read(d, (kvm_dram_place){3, (uint32_t)(i % 48), (uint32_t)i}, 2, at) - at;
    worst = fmax(worst, took);
  }
  CU_ASSERT(worst <= kvm_dram_unloaded(&p, 2) + p.rp + p.rfc + 1e-12);
  kvm_dram_free(d);
}

void suite_mem_dram(void) {
  static const kv_test_case cases[] = {{"single accesses", single_accesses_take_what_the_timings_add_up_to},
                                       {"activations apart", activations_keep_their_distance},
                                       {"peak", a_stream_reaches_peak_times_efficiency},
                                       {"refresh", refresh_takes_its_share},
                                       {"activations", random_rows_are_bound_by_activations},
                                       {"bus and activations", activations_cost_the_bus},
                                       {"bank cycle", one_bank_is_bound_by_its_cycle},
                                       {"addresses", lines_spread_evenly},
                                       {"exact places", places_are_exact},
                                       {"idle refresh", idle_time_pays_for_refreshes},
                                       {NULL, NULL}};
  kv_suite("mem_dram", cases);
}
