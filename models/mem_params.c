#include "mem_params.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "mem_dram.h"

kv_status kvm_mem_describe(const char *path, kvm_gpu *gpu, kv_error *err) {
  return kvm_gpu_complete(gpu, path, "memory", err);
}

bool kvm_mem_file(const kvm_gpu *gpu, char *name, size_t size) {
  const kvm_value *type = kvm_gpu_value(gpu, "memory_type");
  size_t n = 0;
  if (!type || !type->text[0]) return false;
  for (const char *c = type->text; *c; c++)
    if (isalnum((unsigned char)*c) && n + 5 < size) name[n++] = (char)tolower((unsigned char)*c);
  (void)snprintf(name + n, size - n, ".ini");
  return n > 0;
}

/* How a value bears on bandwidth and time: the end of an assumed range that makes reading slow. */
typedef enum slow_end { EITHER, LOW, HIGH } slow_end;

typedef enum field {
  BUS_BITS,
  CHANNEL_BITS,
  BANKS,
  ROW,
  BURST,
  ACCESS,
  INTERLEAVE,
  QUEUE,
  PEAK,
  EFFICIENCY,
  RCD,
  RP,
  CL,
  RC,
  CCD,
  RRD,
  FAW,
  REFI,
  RFC,
  RREFD,
  PER_BANK,
  L2_BYTES,
  L2_RATE,
  SM_RATE,
  LATENCY,
  TURN,
  ISSUE,
  QUEUEING,
  PAGE,
  REACH,
  NEAR,
  WALK,
  WALK_RATE,
  MEMORY,
  SMS,
  FIELDS
} field;

static const struct {
  const char *name;
  slow_end slow;
  bool decides; /* the ceiling of a gather more than the others do */
} values[FIELDS] = {
    [BUS_BITS] = {"mem_bus_bits", EITHER, false},
    [CHANNEL_BITS] = {"dram_channel_bits", EITHER, false},
    [BANKS] = {"dram_banks", LOW, false},
    [ROW] = {"dram_row_bytes", LOW, false},
    [BURST] = {"dram_burst_bytes", EITHER, false},
    [ACCESS] = {"dram_access_bytes", HIGH, false},
    [INTERLEAVE] = {"dram_interleave_bytes", LOW, false},
    [QUEUE] = {"dram_queue", LOW, false},
    [PEAK] = {"dram_bw_spec", LOW, true},
    [EFFICIENCY] = {"dram_efficiency", LOW, true},
    [RCD] = {"dram_trcd", HIGH, false},
    [RP] = {"dram_trp", HIGH, false},
    [CL] = {"dram_tcl", HIGH, false},
    [RC] = {"dram_trc", HIGH, false},
    [CCD] = {"dram_tccd", HIGH, false},
    [RRD] = {"dram_trrd", HIGH, true},
    [FAW] = {"dram_tfaw", HIGH, true},
    [REFI] = {"dram_trefi", LOW, false},
    [RFC] = {"dram_trfc", HIGH, false},
    [RREFD] = {"dram_trrefd", HIGH, false},
    [PER_BANK] = {"dram_refresh_per_bank", EITHER, false},
    [L2_BYTES] = {"l2_bytes", EITHER, false},
    [L2_RATE] = {"l2_bw_measured", LOW, false},
    [SM_RATE] = {"mem_sm_rate", LOW, false},
    [LATENCY] = {"dram_latency_ns", HIGH, false},
    [TURN] = {"mem_turn", HIGH, false},
    [ISSUE] = {"mem_issue", HIGH, false},
    [QUEUEING] = {"mem_queueing", HIGH, false},
    [PAGE] = {"page_bytes", EITHER, false},
    [REACH] = {"tlb_reach", LOW, false},
    [NEAR] = {"tlb_near", HIGH, false},
    [WALK] = {"tlb_walk", HIGH, false},
    [WALK_RATE] = {"tlb_walk_rate", LOW, false},
    [MEMORY] = {"mem_bytes", EITHER, false},
    [SMS] = {"sm_count", EITHER, false},
};

typedef enum corner { AS_GIVEN, SLOW, FAST } corner;

static double pick(const kvm_value *v, slow_end slow, corner c) {
  if (v->kind != KVM_ASSUMED || c == AS_GIVEN || slow == EITHER) return v->number;
  return (slow == LOW) == (c == SLOW) ? v->low : v->high;
}

static kv_status gather(const kvm_gpu *gpu, corner c, double v[FIELDS], kv_error *err) {
  for (int i = 0; i < FIELDS; i++) {
    const kvm_value *value = kvm_gpu_value(gpu, values[i].name);
    if (!value || !value->numeric)
      return kv_fail(err, KV_ERR_INPUT, "%s: no memory model, as %s is not known", gpu->key, values[i].name);
    v[i] = pick(value, values[i].slow, c);
  }
  return KV_OK;
}

static bool power_of_two(double v, double low, double high) {
  return v >= low && v <= high && (((uint64_t)v & ((uint64_t)v - 1)) == 0);
}

/* The model divides by these and loops over those; an impossible one must not get in. */
static const char *impossible(const double v[FIELDS]) {
  double channels = v[BUS_BITS] / v[CHANNEL_BITS];
  for (int i = 0; i < FIELDS; i++)
    if (i != TURN && i != ISSUE && i != QUEUEING && i != PER_BANK && i != RREFD && i != NEAR && i != WALK &&
        i != FAW && !(v[i] > 0))
      return values[i].name;
  if (!(channels >= 1 && channels <= 4096)) return values[CHANNEL_BITS].name;
  if (!(v[BANKS] >= 1 && v[BANKS] <= 1024)) return values[BANKS].name;
  if (!power_of_two(v[BURST], 16, 128)) return values[BURST].name;
  if (!power_of_two(v[ACCESS], 32, 128)) return values[ACCESS].name;
  if (!power_of_two(v[INTERLEAVE], 128, 65536)) return values[INTERLEAVE].name;
  if (!power_of_two(v[ROW], v[INTERLEAVE], 65536)) return values[ROW].name;
  if (!(v[QUEUE] >= 1 && v[QUEUE] <= 65536)) return values[QUEUE].name;
  if (v[EFFICIENCY] > 1) return values[EFFICIENCY].name;
  if (!power_of_two(v[PAGE], 65536, 1e12)) return values[PAGE].name;
  if (v[L2_BYTES] > 1e12) return values[L2_BYTES].name;
  if (v[REACH] < v[PAGE] || v[REACH] / v[PAGE] > 1e8) return values[REACH].name;
  /* refreshes must leave time to work in */
  if (v[RFC] >= v[REFI] || v[RREFD] * v[BANKS] >= v[REFI]) return values[RFC].name;
  return NULL;
}

static kv_status fill(const kvm_gpu *gpu, corner c, kvm_mem_params *p, kv_error *err) {
  double v[FIELDS];
  kv_status st = gather(gpu, c, v, err);
  if (st) return st;
  const char *bad = impossible(v);
  if (bad)
    return kv_fail(err, KV_ERR_INPUT, "%s: no memory model: %s is not possible beside the others", gpu->key,
                   bad);
  *p = (kvm_mem_params){.channels = (uint32_t)(v[BUS_BITS] / v[CHANNEL_BITS]),
                        .banks = (uint32_t)v[BANKS],
                        .row_bytes = (uint32_t)v[ROW],
                        .burst_bytes = (uint32_t)v[BURST],
                        .access_bytes = (uint32_t)v[ACCESS],
                        .interleave_bytes = (uint32_t)v[INTERLEAVE],
                        .queue = (uint32_t)v[QUEUE],
                        .refresh_per_bank = v[PER_BANK] > 0,
                        .peak = v[PEAK],
                        .efficiency = v[EFFICIENCY],
                        .rcd = v[RCD],
                        .rp = v[RP],
                        .cl = v[CL],
                        .rc = v[RC],
                        .ccd = v[CCD],
                        .act = fmax(v[RRD], v[FAW] / 4),
                        .refi = v[REFI],
                        .rfc = v[RFC],
                        .rrefd = v[RREFD],
                        .l2_whole = (uint64_t)v[L2_BYTES],
                        .l2_bytes = (uint64_t)v[L2_BYTES],
                        .l2_rate = v[L2_RATE],
                        .sm_rate = v[SM_RATE],
                        .latency = v[LATENCY],
                        .turn = v[TURN],
                        .issue = v[ISSUE],
                        .queueing = v[QUEUEING],
                        .page_bytes = (uint64_t)v[PAGE],
                        .tlb_reach = (uint64_t)v[REACH],
                        .near = v[NEAR],
                        .walk = v[WALK],
                        .walk_rate = v[WALK_RATE],
                        .memory_bytes = (uint64_t)v[MEMORY],
                        .sms = (uint32_t)v[SMS]};
  double l2 = kvm_gpu_number(gpu, "l2_latency_ns"), clock = kvm_gpu_number(gpu, "boost_clock");
  if (isnan(l2)) l2 = kvm_gpu_number(gpu, "l2_latency") / clock; /* cycles */
  p->l2_latency = isnan(l2) ? p->latency / 2 : l2;
  double own = kvm_gpu_number(gpu, "mem_l2_rate");
  if (own > 0) p->l2_rate = own;
  double least = kvm_gpu_number(gpu, "l2_request_bytes"), far = kvm_gpu_number(gpu, "dram_far_ns");
  p->l2_least = least > 0 && least <= 128 ? (uint32_t)least : 32;
  double act_bus = kvm_gpu_number(gpu, "dram_act_bus");
  p->act_bus = act_bus > 0 && act_bus < v[RC] ? act_bus : 0;
  p->far = far > 0 && far < 2 * p->latency ? far : 0;
  double kept = kvm_gpu_number(gpu, "l2_kept_bytes");
  if (kept > 0 && kept < v[L2_BYTES]) p->l2_bytes = (uint64_t)kept;
  return KV_OK;
}

kv_status kvm_mem_params_of(const kvm_gpu *gpu, kvm_mem_params *p, kv_error *err) {
  return fill(gpu, AS_GIVEN, p, err);
}

kv_status kvm_mem_corner(const kvm_gpu *gpu, bool fast, kvm_mem_params *p, kv_error *err) {
  return fill(gpu, fast ? FAST : SLOW, p, err);
}

kvm_mem_card kvm_mem_card_of(const kvm_mem_params *p) {
  return (kvm_mem_card){p->latency, p->efficiency, p->act, p->act_bus};
}

kv_status kvm_mem_use_card(const kvm_mem_card *card, kvm_mem_params *params, kv_error *err) {
  kvm_mem_params p = *params;
  p.latency = card->latency;
  p.efficiency = card->efficiency;
  p.act = card->act;
  p.act_bus = card->act_bus;
  const char *bad = !(p.efficiency > 0 && p.efficiency <= 1)                                      ? "efficiency"
                    : !(p.act > 0 && p.act < p.refi)                                              ? "act"
                    : !(p.act_bus >= 0 && p.act_bus < p.rc)                                       ? "act_bus"
                    : !(p.latency > p.far / 2 + kvm_dram_unloaded(&p, 1) && isfinite(p.latency)) ? "latency"
                                                                                                  : NULL;
  if (bad) return kv_fail(err, KV_ERR_INPUT, "memory model: a card's %s that is not possible beside the others", bad);
  *params = p;
  return KV_OK;
}

kvm_kind kvm_mem_kind(const kvm_gpu *gpu) {
  for (int i = 0; i < FIELDS; i++) {
    const kvm_value *v = kvm_gpu_value(gpu, values[i].name);
    if (values[i].decides && v && v->kind == KVM_ASSUMED) return KVM_ASSUMED;
  }
  return KVM_MEASURED;
}
