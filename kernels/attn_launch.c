/* The launchers of attention.h: checks, then the kernel built for the GPU or for the host. */
#include <string.h>

#include "attn_shape.h"

static kv_status prepare(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, const void *workspace,
                         size_t bytes, kv_error *err) {
  size_t needed = 0;
  kv_status status = kvk_workspace_size(kind, problem, options, &needed, err);
  if (status != KV_OK) return status;
  if (bytes < needed || (needed && !workspace) || (uintptr_t)workspace % 16)
    return kv_fail(err, KV_ERR_USAGE, "%s: the workspace has %zu bytes, needs %zu, 16-byte aligned", kvk_kind_name(kind),
                   bytes, needed);
  return KV_OK;
}

static int is_extend(kvk_kind kind) { return kind == KVK_EXTEND_SERIAL_64 || kind == KVK_EXTEND_SERIAL_32; }

kv_status kvk_launch(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace,
                     size_t workspace_bytes, void *stream, kv_error *err) {
  kv_status status = prepare(kind, problem, options, workspace, workspace_bytes, err);
  if (status != KV_OK || problem->batch == 0) return status;
  const char *failed = is_extend(kind) ? kvk_cuda_extend(kind, problem, options, stream)
                                       : kvk_cuda_split(kind, problem, options, workspace, stream);
  return failed ? kv_fail(err, KV_ERR_DEVICE, "%s: %s", kvk_kind_name(kind), failed) : KV_OK;
}

kv_status kvk_launch_merge_state(const kvk_merge *merge, void *stream, kv_error *err) {
  const char *failed = merge->rows > 0 ? kvk_cuda_merge(merge, stream) : NULL;
  return failed ? kv_fail(err, KV_ERR_DEVICE, "merge_state: %s", failed) : KV_OK;
}

struct kx_emu_run { /* as in ptx_emu.h */
  kvk_emulated *found;
  uint64_t seed;
};

static kv_status judge(const char *name, const char *failed, const kvk_emulated *found, kvk_emulated *copy, kv_error *err) {
  if (copy) *copy = *found;
  if (failed) return kv_fail(err, KV_ERR_MEMORY, "%s, emulated: %s", name, failed);
  if (found->unwritten_reads || found->races || found->deadlocks || found->divergences)
    return kv_fail(err, KV_ERR_INTERNAL, "%s, emulated: %s", name, found->first);
  return KV_OK;
}

kv_status kvk_emulate(kvk_kind kind, const kvk_problem *problem, const kvk_options *options, void *workspace,
                      size_t workspace_bytes, uint64_t seed, kvk_emulated *emulated, kv_error *err) {
  kvk_emulated found;
  memset(&found, 0, sizeof found);
  struct kx_emu_run run = {&found, seed};
  kv_status status = prepare(kind, problem, options, workspace, workspace_bytes, err);
  if (status != KV_OK || problem->batch == 0) return status;
  const char *failed = is_extend(kind) ? kvk_emu_extend(kind, problem, options, &run)
                                       : kvk_emu_split(kind, problem, options, workspace, &run);
  return judge(kvk_kind_name(kind), failed, &found, emulated, err);
}

kv_status kvk_emulate_merge_state(const kvk_merge *merge, kvk_emulated *emulated, kv_error *err) {
  kvk_emulated found;
  memset(&found, 0, sizeof found);
  struct kx_emu_run run = {&found, 0};
  return judge("merge_state", merge->rows > 0 ? kvk_emu_merge(merge, &run) : NULL, &found, emulated, err);
}
