/* mem_params.h - what the memory model needs to know of a GPU, gathered from its description and from the
 * description of its memory type (models/dram/TYPE.ini).
 *
 * Everything in base units (B, s, B/s). Values that nobody published are kind `assumed` in the descriptions,
 * with a range; kvm_mem_corner() gives the parameters at the ends of those ranges.
 */
#ifndef KVM_MEM_PARAMS_H
#define KVM_MEM_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu.h"

typedef struct kvm_mem_params {
  /* DRAM. A channel is what takes commands and moves data on its own (HBM: a pseudo-channel). */
  uint32_t channels, banks;  /* of the chip; of one channel */
  uint32_t row_bytes;        /* one bank's open row */
  uint32_t burst_bytes;      /* moved by one column command */
  uint32_t access_bytes;     /* least that a miss fetches: 32 or 64 */
  uint32_t interleave_bytes; /* neighbouring addresses that stay in one channel; a power of two, >= 128 */
  uint32_t queue;            /* requests that a channel's scheduler holds at a time */
  bool refresh_per_bank;     /* one bank at a time, else the whole channel */
  double peak;               /* B/s at the pins, all channels */
  double efficiency;         /* share of `peak` that a stream of row hits keeps */
  double rcd, rp, cl, rc; /* s: activate to read, precharge, read to data, activate to activate of one bank */
  double ccd;             /* s between column commands to one bank */
  double act;             /* s a channel needs an activation: max(tRRD, tFAW / 4) */
  double act_bus; /* s of its data bus that an activation costs: bank groups change, columns wait for one
                     another */
  double refi, rfc, rrefd; /* s between refreshes of a bank, a refresh, refresh to activate of another bank */
  /* L2 */
  uint64_t l2_whole; /* B of it */
  uint64_t l2_bytes; /* of that, what rows may keep: less than the whole where lines are kept in both of its
                        halves */
  double l2_rate;    /* B/s out of L2 */
  double sm_rate;    /* B/s into one SM */
  double l2_latency; /* s, a hit as the SM sees it */
  uint32_t l2_least; /* B: a request for fewer takes the L2 as long */
  /* the way to DRAM */
  double latency; /* s, a miss to closed rows as the SM sees it, nothing else going on: the mean of both
                     halves */
  double
      far; /* s by which the half of the memory behind the other half of the L2 answers later; 0: no halves */
  double turn;     /* s between the last byte of a warp's batch and its next requests */
  double issue;    /* s more for each 512 bytes of the batch: a warp's loads go out one after the other */
  double queueing; /* s: mean wait of a miss at half load; it grows as load / (1 - load) */
  /* TLB */
  uint64_t page_bytes, tlb_reach;
  double near;      /* s that going to another page adds though the TLB has it */
  double walk;      /* s a miss adds to that */
  double walk_rate; /* misses/s that the walkers take */
  uint64_t memory_bytes;
  uint32_t sms;
} kvm_mem_params;

/* Adds the values of `path` (models/dram/TYPE.ini: a [memory] section with a name, then values as in a GPU's
 * description) to *gpu where the GPU's own file does not list them or lists them as unknown. KV_ERR_INPUT and
 * KV_ERR_IO as kvm_gpu_load(). */
kv_status kvm_mem_describe(const char *path, kvm_gpu *gpu, kv_error *err);
/* The file's name for this GPU's memory type in lower case, "hbm3e.ini"; false if the description names no
 * type. */
bool kvm_mem_file(const kvm_gpu *gpu, char *name, size_t size);

/* Gathers the parameters. KV_ERR_INPUT names the first value that is missing or impossible; the description
 * then allows no memory model, and callers say so. */
kv_status kvm_mem_params_of(const kvm_gpu *gpu, kvm_mem_params *params, kv_error *err);

/* The same with every `assumed` value that bears on bandwidth at the slow end (fast = false) or the fast end
 * of its range. Equal to kvm_mem_params_of() where nothing is assumed. */
kv_status kvm_mem_corner(const kvm_gpu *gpu, bool fast, kvm_mem_params *params, kv_error *err);

/* What one card has of its own, and another of its kind has otherwise. kvm_mem_adapt() (mem_fit.h) finds it. */
typedef struct kvm_mem_card {
  double latency, efficiency, act, act_bus; /* as in kvm_mem_params */
} kvm_mem_card;
kvm_mem_card kvm_mem_card_of(const kvm_mem_params *params);
/* Makes *params those of that card. KV_ERR_INPUT names the value that is impossible beside the others; *params is as
 * before. */
kv_status kvm_mem_use_card(const kvm_mem_card *card, kvm_mem_params *params, kv_error *err);

/* KVM_ASSUMED if one of the values that decide a gather's ceiling is a guess (pin bandwidth, efficiency,
 * tRRD, tFAW), else KVM_MEASURED. Others may be assumed all the same: kvm_mem_corner() says what they could
 * do. */
kvm_kind kvm_mem_kind(const kvm_gpu *gpu);

#endif
