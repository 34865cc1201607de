/* Rows by a slot list into shared memory, a ring of stages a warp, and one pass over them there.
 *
 * Bound: DRAM, once enough is in flight: 8 warps x 4 stages x 4.6 KB an SM. What may be planted: one block
 * only; each row read again from the L2; a dependent chain a tile; reads of the tile in bank conflicts; rows
 * at random places; too few stages. Slot numbers are read 32 at a time and one such batch ahead, so that no
 * tile waits for them: read one tile ahead, they held every count of stages to the same 1.4 TB/s of an H200.
 */
#include "ceil.h"
#include "plant.h"

/* Tiles of a warp that stand in the L2 until they have been read `again` times. At least the stages, so that
 * no line is asked for while it is still on its way. */
constexpr unsigned kGroup = 4;

__device__ __forceinline__ void copy16(unsigned to, const uint4 *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

template <int STAGES>
__device__ __forceinline__ void wait_stage() {
  asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
}

/* CHUNKS: 16-B pieces a row. ROWS: a stage. KNOBS: extra reads, chains and repeats are compiled in. A warp
 * walks batches of BATCH tiles that lie side by side; the warps' batches take turns. */
template <int CHUNKS, int ROWS, int STAGES, bool KNOBS>
__global__ void __launch_bounds__(256, 1) plant_gather(const plant_launch a) {
  constexpr int TILE = CHUNKS * ROWS, PIECES = (TILE + 31) / 32, BATCH = ROWS < 32 ? 32 / ROWS : 1;
  constexpr int SLOTS = (ROWS * BATCH + 31) / 32;
  extern __shared__ uint4 ring[];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  uint4 *mine = ring + (size_t)warp * STAGES * TILE;
  const unsigned base = (unsigned)__cvta_generic_to_shared(mine) + lane * 16;
  const unsigned copy = blockIdx.x / a.blocks, all = a.blocks * warps;
  const unsigned first = (blockIdx.x % a.blocks) * warps + warp, start = copy * a.apart;
  const unsigned turns = KNOBS ? a.tiles * a.again : a.tiles;
  uint4 acc = make_uint4(~0u, ~0u, ~0u, ~0u);
  float x = (float)lane;
  int now[SLOTS], next[SLOTS];
  unsigned have = 0; /* batch whose slots are in `now` */

  auto read_slots = [&](unsigned batch, int *slot) {
    if (batch * BATCH >= a.tiles) batch = 0;
#pragma unroll
    for (int j = 0; j < SLOTS; j++) {
      unsigned i = (batch * all + first) * (BATCH * ROWS) + min(lane + 32u * j, BATCH * ROWS - 1u) + start;
      slot[j] = kvk_load_index(a.slots + (i >= a.list ? i - a.list : i));
    }
  };
  auto tile_of = [&](unsigned turn) {
    return KNOBS && a.again > 1 ? turn / (kGroup * a.again) * kGroup + turn % kGroup : turn;
  };
  auto issue = [&](unsigned turn, unsigned stage) {
    const unsigned tile = tile_of(turn);
    if (tile / BATCH != have) {
#pragma unroll
      for (int j = 0; j < SLOTS; j++) now[j] = next[j];
      have++;
      read_slots(have + 1, next);
    }
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      const unsigned c = lane + 32u * k, row = c / CHUNKS;
      const int s = __shfl_sync(~0u, now[32 * k / CHUNKS / 32], (tile % BATCH * ROWS + row) % 32);
      if (TILE % 32 == 0 || c < TILE)
        copy16(base + (stage * TILE + 32u * k) * 16, a.pool + (size_t)s * CHUNKS + c % CHUNKS);
    }
  };
  auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };

  read_slots(0, now);
  read_slots(1, next);
#pragma unroll
  for (int s = 0; s < STAGES; s++) {
    if ((unsigned)s < turns) issue(s, s);
    commit();
  }
  for (unsigned turn = 0, stage = 0; turn < turns; turn++) {
    wait_stage<STAGES>();
    __syncwarp();
#pragma unroll
    for (int k = 0; k < PIECES; k++)
      if (TILE % 32 == 0 || lane + 32 * k < TILE) kvk_fold(&acc, mine[stage * TILE + lane + 32 * k]);
    if (KNOBS) {
      const unsigned *words = (const unsigned *)(mine + stage * TILE);
      const unsigned across = a.clashes ? 8 : 1, down = a.clashes ? 1 : 32;
      /* on by an argument, so that the assembler cannot see an address come again and drop the load */
      for (unsigned r = 0, on = 0; r < (unsigned)a.reads; r += 8, on = (on + a.step) % 1024) {
        const unsigned *at = words + on + lane * across;
#pragma unroll
        for (int u = 0; u < 8; u++) {
          unsigned v;
          asm volatile("ld.shared.u32 %0, [%1];"
                       : "=r"(v)
                       : "r"((unsigned)__cvta_generic_to_shared(at + u * down)));
          acc.x &= v;
        }
      }
      if (a.chain) x += __uint_as_float(acc.x & 0x3F000000u);
#pragma unroll 16
      for (int c = 0; c < a.chain; c++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));
    }
    __syncwarp();
    if (turn + STAGES < turns) issue(turn + STAGES, stage);
    commit();
    stage = stage + 1 == STAGES ? 0 : stage + 1;
  }
  if (KNOBS && x == 12345.678f) acc.x = 0;
  kvk_dump(a.dump, acc);
}

typedef void (*gather_kernel)(const plant_launch);

static gather_kernel kernel_of(const kvk_planted *k) {
  if (k->row_bytes == 32) return plant_gather<2, 144, 4, true>;
  if (k->rows == 4) return plant_gather<72, 4, 4, true>;
  switch (k->stages) {
    case 1: return plant_gather<72, 1, 1, false>;
    case 2: return plant_gather<72, 1, 2, false>;
    case 4: return plant_gather<72, 1, 4, false>;
    default: return plant_gather<72, 1, 8, false>;
  }
}

cudaError_t plant_gather_allow(const kvk_planted *k, int shared_bytes) {
  return cudaFuncSetAttribute((const void *)kernel_of(k), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              shared_bytes);
}

cudaError_t plant_gather_launch(const kvk_planted *k, const plant_launch *a, cudaStream_t stream) {
  const size_t shared = (size_t)a->warps * (unsigned)(k->stages * k->rows) * k->row_bytes;
  kernel_of(k)<<<a->blocks * a->copies, a->warps * 32, shared, stream>>>(*a);
  return cudaGetLastError();
}
