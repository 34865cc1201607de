/* ptx_emu.h - the host's half of ptx.h: the same names, run by ptx_emu.cc. Included by ptx.h only.
 *
 * A block's threads are fibers. A lane that reaches a collective instruction waits for the other 31; barriers and
 * mbarriers block until complete; a cp.async lands as late as its waits allow. Every access to shared memory is checked:
 * against words never written (or still in flight), and against accesses of other warps and lanes that no barrier orders
 * (vector clocks, one entry a warp; inside a warp, any collective orders its lanes).
 */
#ifndef KVK_PTX_EMU_H
#define KVK_PTX_EMU_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

#define KX_DEVICE static inline
#define KX_KERNEL static void
#define KX_BOUNDS(threads, blocks)
#define KX_PARAM const
#define KX_HAS_SMEM(bytes) true

/* One emulated run: passed as the stream of kx_grid. */
struct kx_emu_run {
  kvk_emulated *found;
  uint64_t seed;
};

unsigned kx_tid();
unsigned kx_block();
unsigned kx_block_y();
unsigned kx_blocks();
uint32_t kx_smem();
static inline void kx_trap() { abort(); }
void kx_sync_warp();
void kx_bar_sync(int id, int threads);
void kx_mbar_init(uint32_t bar, uint32_t count);
void kx_mbar_inval(uint32_t bar);
void kx_mbar_arrive(uint32_t bar);
void kx_mbar_wait(uint32_t bar, uint32_t parity);
bool kx_mbar_test(uint32_t bar, uint32_t parity);
void kx_copy16(uint32_t to, const void *from, bool real);
static inline void kx_copy16_of(uint32_t to, const void *from, int32_t slot) { kx_copy16(to, from, slot >= 0); }
void kx_copy_commit();
void kx_copy_wait_all();
void kx_copy_arrive(uint32_t bar);
static inline void kx_prefetch(const void *) {}
struct alignas(16) kx_emu_16 { kx_u4 v; }; /* UBSan sees addresses that are not aligned */
struct alignas(8) kx_emu_8 { kx_f2 v; };
static inline kx_u4 kx_load16(const void *at) { return ((const kx_emu_16 *)at)->v; }
static inline void kx_store16(void *to, const kx_u4 &v) { ((kx_emu_16 *)to)->v = v; }
static inline kx_f2 kx_load8(const void *at) { return ((const kx_emu_8 *)at)->v; }
static inline void kx_store8(void *to, const kx_f2 &v) { ((kx_emu_8 *)to)->v = v; }
void kx_emu_store(uint32_t to, const void *from, uint32_t bytes);
void kx_emu_load(uint32_t at, void *to, uint32_t bytes);
void kx_ldmatrix4(uint32_t r[4], uint32_t at);
void kx_ldmatrix4_trans(uint32_t r[4], uint32_t at);
void kx_ldmatrix2_trans(uint32_t r[2], uint32_t at);
void kx_stmatrix4(uint32_t at, const uint32_t r[4]);
uint32_t kx_transpose(uint32_t v);
void kx_mma(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1);
float kx_shfl_xor(float v, int mask);
uint32_t kx_shfl_up(uint32_t v, int by);
uint32_t kx_shfl(uint32_t v, int lane);
uint32_t kx_ballot(bool v);

static inline void kx_sts(uint32_t to, uint32_t v) { kx_emu_store(to, &v, 4); }
static inline void kx_sts(uint32_t to, float v) { kx_emu_store(to, &v, 4); }
static inline void kx_sts(uint32_t to, kx_f2 v) { kx_emu_store(to, &v, 8); }
static inline void kx_sts(uint32_t to, kx_f4 v) { kx_emu_store(to, &v, 16); }
static inline void kx_sts(uint32_t to, kx_u4 v) { kx_emu_store(to, &v, 16); }
template <class T>
static inline T kx_emu_get(uint32_t at) {
  T v;
  kx_emu_load(at, &v, sizeof v);
  return v;
}
static inline uint32_t kx_lds_u32(uint32_t at) { return kx_emu_get<uint32_t>(at); }
static inline float kx_lds_f32(uint32_t at) { return kx_emu_get<float>(at); }
static inline kx_f2 kx_lds_f2(uint32_t at) { return kx_emu_get<kx_f2>(at); }
static inline kx_f4 kx_lds_f4(uint32_t at) { return kx_emu_get<kx_f4>(at); }
static inline kx_u4 kx_lds_u4(uint32_t at) { return kx_emu_get<kx_u4>(at); }

static inline bool kx_any(bool v) { return kx_ballot(v) != 0; }
static inline int kx_first(uint32_t mask) { return __builtin_ffs((int)mask) - 1; }
static inline float kx_exp2(float v) { return exp2f(v); }
static inline float kx_reciprocal(float v) { return 1.0f / v; }
static inline float kx_log2(float v) { return log2f(v); }
static inline float kx_max(float a, float b) { return fmaxf(a, b); }
static inline float kx_mul(float a, float b) { return a * b; }
static inline float kx_fma(float a, float b, float c) { return fmaf(a, b, c); }
static inline uint32_t kx_keep(uint32_t v) { return v; }
static inline int32_t kx_load_slot(const int32_t *at) { return *at; }
static inline float kx_inf() { return HUGE_VALF; }
static inline float kx_bits_float(uint32_t v) {
  float f;
  memcpy(&f, &v, sizeof f);
  return f;
}
static inline uint32_t kx_pack_bf16(float low, float high) {
  return (uint32_t)kvk_to_bf16(low) | (uint32_t)kvk_to_bf16(high) << 16;
}
static inline void kx_grid_wait() {}
static inline void kx_grid_release() {}

/* Runs every block of the grid, one after the other. */
const char *kx_emu_grid(const kx_grid &grid, void (*body)(const void *), const void *argument);

template <class P>
struct kx_emu_call {
  void (*kernel)(P);
  const P *params;
};
template <class P>
static void kx_emu_enter(const void *argument) {
  const kx_emu_call<P> *call = (const kx_emu_call<P> *)argument;
  call->kernel(*call->params);
}
template <class P>
const char *kx_launch(void (*kernel)(P), const kx_grid &grid, const P &params) {
  kx_emu_call<P> call = {kernel, &params};
  return kx_emu_grid(grid, kx_emu_enter<P>, &call);
}
#endif
