/* mem_dram.h - DRAM channels, banks and open rows as servers: when does a request's last byte leave?
 *
 * A channel holds `queue` requests at a time. A request whose row is open waits for the bank's columns, else
 * for an activation: of the bank (tRC after its last one, precharge first if another row is open) and of the
 * channel (one every max(tRRD, tFAW/4)). The data bus serves bursts one after the other, and loses act_bus to
 * each activation. Activations and bus
 * are fluid servers: a request that waits for its bank does not hold up those behind it, as a reordering
 * scheduler would have it, but it keeps its place in the queue. Refresh takes the bank (per bank) or the
 * channel (all banks), and closes rows.
 *
 * Addresses: blocks of interleave_bytes go round the channels, rotated by a hash; one open row of a channel
 * holds every channels-th block of an aligned stretch of channels x row_bytes. Stretches go round the banks,
 * hashed.
 */
#ifndef KVM_MEM_DRAM_H
#define KVM_MEM_DRAM_H

#include <stdint.h>

#include "mem_params.h"

typedef struct kvm_dram kvm_dram;

typedef struct kvm_dram_counts {
  uint64_t requests, bursts, row_hits, activations, conflicts,
      refreshes; /* conflicts: another row was open */
} kvm_dram_counts;

/* KV_ERR_MEMORY only. `params` is copied. */
kv_status kvm_dram_create(const kvm_mem_params *params, kvm_dram **dram, kv_error *err);
void kvm_dram_free(kvm_dram *dram); /* NULL is fine */
/* All rows closed, all servers idle, counts zero, time 0. */
void kvm_dram_reset(kvm_dram *dram);

/* Where the 128-byte line number `line` lies. */
typedef struct kvm_dram_place {
  uint32_t channel, bank, row;
} kvm_dram_place;
kvm_dram_place kvm_dram_place_of(const kvm_dram *dram, uint32_t line);
/* The same of several lines (many at once cost less), and fetches the state of their places ahead. */
enum { KVM_DRAM_LINES = 8 };
void kvm_dram_expect(const kvm_dram *dram, const uint32_t line[KVM_DRAM_LINES],
                     kvm_dram_place place[KVM_DRAM_LINES]);

/* A read of `bursts` columns at a place that reaches the channel at `at` (s). Returns when its last byte has
 * left the channel. Times need not rise from call to call. */
double kvm_dram_read(kvm_dram *dram, kvm_dram_place place, uint32_t bursts, double at);
kvm_dram_counts kvm_dram_counted(const kvm_dram *dram);
/* Seconds of work since the reset, summed over the channels, of what is used most: data bus or activations.
 */
double kvm_dram_worked(const kvm_dram *dram);

/* Formulas that the model must reproduce, from the parameters alone. */
double kvm_dram_unloaded(const kvm_mem_params *p,
                         uint32_t bursts); /* s: tRCD + tCL + bursts, from a closed row */
double kvm_dram_stream(
    const kvm_mem_params *p); /* B/s: peak x efficiency x (1 - tRFC/tREFI, all-bank refresh) */
double kvm_dram_random(const kvm_mem_params *p,
                       uint32_t bursts); /* B/s, each access its own row: the least of bus,
                                            activations (less refresh) and banks (tRC) */

#endif
