/* Planted faults for the tests of the emulation: a kernel of two warps that does one thing wrong. Not built for GPUs. */
#include "ptx.h"

#ifdef KVK_EMULATE
namespace {

struct probe_params {
  int fault;
  const uint16_t *source;
};

KX_KERNEL probe_kernel(KX_PARAM probe_params p) {
  const uint32_t tid = kx_tid(), warp = tid / 32, lane = tid % 32, at = kx_smem(), bar = at + 4096;
  if (tid == 0) kx_mbar_init(bar, 1);
  kx_bar_sync(0, 64);
  if (p.fault != 2 || tid != 40) kx_sts(at + 4 * tid, tid);
  if (p.fault != 1) kx_bar_sync(0, 64);
  uint32_t sum = kx_lds_u32(at + 4 * (tid ^ 32)); /* the other warp's */
  kx_bar_sync(0, 64);
  kx_sts(at + 4 * tid, sum);
  if (p.fault != 6) kx_sync_warp();
  sum += kx_lds_u32(at + 4 * (tid ^ 1)); /* the neighbour's */
  kx_copy16(at + 1024 + 16 * tid, p.source, true);
  if (p.fault != 3) kx_copy_wait_all();
  sum += kx_lds_u32(at + 1024 + 16 * tid);
  if (p.fault == 4 && warp == 1) return;
  kx_bar_sync(0, 64);
  if (p.fault == 5 && lane < 16) kx_sync_warp();
  else sum += kx_ballot(lane < 3);
  if (warp == 0) { /* reads its buffer, then hands it over */
    sum += kx_lds_u32(at + 4 * (tid ^ 1));
    kx_sync_warp();
    if (lane == 0 && p.fault != 7) kx_mbar_arrive(bar);
  } else {
    if (p.fault != 7) kx_mbar_wait(bar, 0);
    kx_sts(at + 4 * lane, sum);
  }
}

} // namespace

extern "C" void kvk_emulate_probe(int fault, kvk_emulated *emulated) {
  static const uint16_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  memset(emulated, 0, sizeof *emulated);
  kx_emu_run run = {emulated, 0};
  const kx_grid grid = {1, 1, 64, 8192, false, &run, false};
  const probe_params p = {fault, source};
  (void)kx_launch(probe_kernel, grid, p);
}
#endif
