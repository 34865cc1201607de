/* attn_shape.h - how the split kernels cut a problem up; shared by the launchers, the workspace and the description.
 * Internal to this folder. */
#ifndef KVK_ATTN_SHAPE_H
#define KVK_ATTN_SHAPE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  KVK_ROW_VALUES = KVK_LATENT + KVK_ROPE,
  KVK_ROW_BYTES = 2 * KVK_ROW_VALUES,
  KVK_TILE = 16,         /* keys of one mma, its m or its k; a tile of the split kernels has one or two times as many */
  KVK_GROUP_ROWS = 48,   /* query rows a block holds at most: 48 x 512 accumulators and 48 x 576 of Q in registers */
  KVK_SPLIT_THREADS = 256,
  KVK_STAGES = 4,        /* tiles of 16 keys in shared memory */
  KVK_WIDE_STAGES = 5,   /* of 32 keys, where a block may have KVK_WIDE_SMEM() */
  KVK_MOST_STRIDE = 1 << 30, /* values from row to row: bytes fit 32 bits */
  KVK_WIDE_LIMIT = 232448 /* what a block may use on sm_90 and sm_100 */
};

/* Bytes of shared memory a block of the split kernels uses with that many units of 8 query rows, tiles having 16 or 32 keys;
 * split_verify.cu checks it. */
#define KVK_SPLIT_SMEM(tiles8) (KVK_STAGES * 16u * KVK_ROW_BYTES + 1024u * KVK_EXCHANGED(tiles8) + 640u * (tiles8) + 160u)
#define KVK_WIDE_SMEM(tiles8) (KVK_WIDE_STAGES * 32u * KVK_ROW_BYTES + 2048u * KVK_EXCHANGED(tiles8) + 1152u * (tiles8) + 168u)
#define KVK_EXCHANGED(tiles8) ((tiles8) < 4 ? 3u * (tiles8) : 4u * (tiles8) - 4u) /* lines of 512 bytes that score warps exchange for 16 keys */

/* Query rows are numbered query * heads + head. Column c of group g stands for row g * group_stride + c * row_stride. */
typedef struct kvk_groups {
  int rows;       /* of a request */
  int groups;
  int group_rows; /* used columns of a full group */
  int tiles8;     /* columns in units of 8, padding included: 1, 2, 3, 5 or 6 */
  int group_stride, row_stride;
} kvk_groups;

/* kind: KVK_SPLIT_PER_HEAD (a group a head) or any other split kernel (rows packed, whatever head they belong to). */
kvk_groups kvk_cut_rows(kvk_kind kind, int queries, int heads);

/* Partial results a launch may write at most. */
uint64_t kvk_most_partials(const kvk_groups *groups, const kvk_problem *problem, const kvk_options *options);
int kvk_split_blocks(const kvk_options *options);
/* Keys a tile: 32 where the GPU and the options leave a block KVK_WIDE_SMEM() and fixed splits are a multiple of it, else 16. */
int kvk_tile_keys(const kvk_groups *groups, const kvk_options *options);
int kvk_min_split_tiles(const kvk_options *options, int tile_keys);

/* The launchers of the .cu files; text of what went wrong, or NULL. `stream` is a cudaStream_t or a kx_emu_run. */
#define KVK_DECLARE_LAUNCHERS(prefix)                                                                               \
  const char *prefix##split(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace, \
                            void *stream);                                                                          \
  const char *prefix##extend(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *stream);  \
  const char *prefix##merge(const kvk_merge *merge, void *stream);
KVK_DECLARE_LAUNCHERS(kvk_cuda_)
KVK_DECLARE_LAUNCHERS(kvk_emu_)

#ifdef __cplusplus
}
#endif
#endif
