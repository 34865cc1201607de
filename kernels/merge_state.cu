/* merge_state: two attentions over disjoint keys into one, a block of 64 threads a row of 512 values. */
#include "attn_shape.h"
#include "ptx.h"

namespace {

const int THREADS = 64;

KX_DEVICE bool empty(float lse) { return lse == kx_inf() || lse == -kx_inf(); }

KX_DEVICE float blend(uint32_t a, uint32_t b, float wa, float wb) {
  float sum = 0; /* an empty side may hold anything, NaN too: it is not even multiplied */
  if (wa != 0) sum += wa * kx_bits_float(a);
  if (wb != 0) sum += wb * kx_bits_float(b);
  return sum;
}

KX_DEVICE uint32_t blend2(uint32_t a, uint32_t b, float wa, float wb) {
  return kx_pack_bf16(blend(a << 16, b << 16, wa, wb), blend(a & 0xffff0000u, b & 0xffff0000u, wa, wb));
}

KX_KERNEL KX_BOUNDS(THREADS, 1) merge_kernel(KX_PARAM kvk_merge m) {
  const float log2e = 1.44269504088896341f;
  const uint64_t row = kx_block() + (uint64_t)kx_block_y() * kx_blocks();
  if (row >= (uint64_t)m.rows) return;
  const float la = m.lse_a[row], lb = m.lse_b[row];
  const bool no_a = empty(la), no_b = empty(lb);
  const float top = no_a ? lb : no_b ? la : kx_max(la, lb);
  const float ea = no_a ? 0.0f : kx_exp2((la - top) * log2e), eb = no_b ? 0.0f : kx_exp2((lb - top) * log2e);
  const float sum = ea + eb, inverse = no_a && no_b ? 0.0f : 1.0f / sum;
  const uint64_t at = row * (KVK_LATENT / 8) + kx_tid();
  const kx_u4 a = ((const kx_u4 *)m.a)[at], b = ((const kx_u4 *)m.b)[at];
  const float wa = ea * inverse, wb = eb * inverse;
  const kx_u4 v = {blend2(a.x, b.x, wa, wb), blend2(a.y, b.y, wa, wb), blend2(a.z, b.z, wa, wb), blend2(a.w, b.w, wa, wb)};
  ((kx_u4 *)m.out)[at] = v;
  if (kx_tid() == 0 && m.out_lse)
    m.out_lse[row] = no_a && no_b ? -kx_inf() : top + kx_log2(sum) * 0.693147180559945309f;
}

} // namespace

extern "C" const char *KX_NAME(merge)(const kvk_merge *merge, void *stream) {
  const unsigned across = merge->rows < 65536 ? (unsigned)merge->rows : 65536u;
  const kx_grid grid = {across, (unsigned)((merge->rows + across - 1) / across), THREADS, 0, false, stream, false};
  return kx_launch(merge_kernel, grid, *merge);
}
