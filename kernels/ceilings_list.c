/* The microbenchmarks by name, for builds with CUDA and without. ceilings.cu has what runs each. */
#include "ceilings.h"

static const kvk_ceiling list[] = {
    {"dram", "DRAM read, a stream of several GiB", "memory bus; 0.85 to 0.95 of its specified rate"},
    {"l2", "L2 read, distinct lines, all hits", "L2 slices and crossbar"},
    {"link", "L2-to-SM link, few lines read by all", "64 B (sm_80) to 128 B (sm_90) a cycle and SM"},
    {"wavefront", "L1 / shared memory wavefronts of 128 B", "one wavefront a cycle and SM"},
    {"mma", "bf16 mma.sync m16n8k16, fp32 accumulation", "tensor pipe as mma.sync feeds it"},
    {"wgmma", "bf16 wgmma m64n256k16, fp32 accumulation (sm_90a)", "tensor pipe; power"},
    {"fma", "fp32 fused multiply-add", "128 a cycle and SM (64 on sm_80)"},
    {"sfu", "special functions (ex2)", "16 a cycle and SM"},
    {"issue", "warp instructions issued", "4 a cycle and SM"},
    {"latency", "latency of L2 and DRAM, pointer chase over footprints", "one load at a time"},
    {"line", "bytes that memory hands out with a word that misses", "64 B on HBM3E"},
    {"chain", "latency inside an SM: fma, ex2, mma, shared, barrier, ...", "dependent chain"},
    {"hop", "warp to warp; copies into shared memory; fetching instructions", "latencies"},
    {"turns", "a matrix unit between warps and beside other instructions; copies that wait", "turns, ports, queue"},
    {"fill", "wavefronts that lines filled into the L1 take beside their loads", "one wavefront a cycle and SM"},
    {"loaded", "latency of DRAM under load", "queues before DRAM"},
    {"launch", "launch overhead, eager and in a graph", "host and front end"},
    {"gather", "rows by a slot list: row x layout x in flight x footprint", "DRAM pages, TLB, in flight"},
};

size_t kvk_ceiling_count(void) {
  return sizeof list / sizeof *list;
}

const kvk_ceiling *kvk_ceiling_at(size_t i) {
  return i < kvk_ceiling_count() ? &list[i] : NULL;
}
