/* kvsim_options.h - the options that several sub-commands of kvsim share: one wording, one letter, one place that takes them.
 *
 * A sub-command lists those it has in its table (the number is the group of the help text), keeps a kvsim_shared in its
 * arguments, and gives what it does not know itself to kvsim_take_shared().
 */
#ifndef KVSIM_OPTIONS_H
#define KVSIM_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "kvsim_gpu.h"

#define KVSIM_BRANCHES_MOST 64u /* of --draft-topk */

typedef struct kvsim_shared {
  const char *path; /* the trace */
  const char *output, *report, *every, *jobs, *row_bytes, *layers, *policy, *gpu, *calibration, *token_us, *draft_topk, *draft_layers, *seed;
  bool json, quiet, no_report, dry_run;
} kvsim_shared;

enum {
  KVSIM_KEY_REPORT = 2000,
  KVSIM_KEY_NO_REPORT,
  KVSIM_KEY_DRY,
  KVSIM_KEY_ROW,
  KVSIM_KEY_LAYERS,
  KVSIM_KEY_TOKEN,
  KVSIM_KEY_TOPK,
  KVSIM_KEY_DRAFT,
  KVSIM_KEY_SEED,
  KVSIM_KEY_CALIBRATION
};

#define KVSIM_OPTION_OUTPUT(what, preset, group) {"output", 'o', "FILE", 0, what " to write (default: " preset ")", group}
#define KVSIM_OPTION_REPORT(group) \
  {"report", KVSIM_KEY_REPORT, "DIR", 0, "folder for the PDF and PNGs (default: the dataset's name with .report)", group}, \
      {"no-report", KVSIM_KEY_NO_REPORT, 0, 0, "dataset only", group}
#define KVSIM_OPTION_JSON(schema, group) {"json", 'j', 0, 0, "one JSON object on stdout (schema " schema ")", group}
#define KVSIM_OPTION_JSON_TABLE(schema, group) \
  {"json", 'j', 0, 0, "one JSON object on stdout (schema " schema ") instead of the table", group}
#define KVSIM_OPTION_QUIET(what, group) {"quiet", 'q', 0, 0, what, group}
#define KVSIM_OPTION_DRY_RUN(what, group) {"dry-run", KVSIM_KEY_DRY, 0, 0, what, group}
#define KVSIM_OPTION_EVERY(preset, group) {"every", 'e', "N", 0, "sample every N steps (default: " preset ")", group}
#define KVSIM_OPTION_JOBS(group) {"jobs", 'J', "N", 0, "simulations at a time (default: processors)", group}
#define KVSIM_OPTION_ROW_BYTES(group) \
  {"row-bytes", KVSIM_KEY_ROW, "N", 0, "bytes of a slot in one layer (default 1152: MLA 512 + 64 in bf16)", group}
#define KVSIM_OPTION_LAYERS(group) {"layers", KVSIM_KEY_LAYERS, "N", 0, "layers that hold such a row (default 61)", group}
#define KVSIM_OPTION_POLICY(group) \
  {"policy", 'p', "NAME,...", 0, "policies to try (default all; as-recorded, the baseline, always comes along)", group}
#define KVSIM_OPTION_GPU(more, group) {"gpu", 'g', "NAME,...", 0, "GPUs to price it for (default " KVSIM_GPU ")" more, group}
#define KVSIM_OPTION_CALIBRATION(group) \
  {"calibration", KVSIM_KEY_CALIBRATION, "FILE", 0, \
   "dataset of `roofline calibrate` whose card's memory prices scatter (default: that of the GPU in models/measured; none: the described card)", group}
#define KVSIM_OPTION_PREFILL(group) \
  {"prefill-us", KVSIM_KEY_TOKEN, "US", 0, "time to compute one token again, in microseconds (default 50, assumed)", group}
#define KVSIM_OPTION_DRAFT(group) \
  {"draft-topk", KVSIM_KEY_TOPK, "N", 0, "branches of a draft: with pages, each but one copies the row's last, partial page (default 1: no such copies)", group}, \
      {"draft-layers", KVSIM_KEY_DRAFT, "N", 0, "layers of the draft model, for the same (default 1)", group}
#define KVSIM_OPTION_SEED(what, group) {"seed", KVSIM_KEY_SEED, "N", 0, what, group}

#define KVSIM_MOVED \
  "Rows moved are those that relocation moves, accepted rows of verify blocks that compact, pages and vllm copy to their place " \
  "(whatever --draft-topk is), and the copies for branches of drafts (--draft-topk)."

/* Takes an option of this file; ARGP_ERR_UNKNOWN for others. */
error_t kvsim_take_shared(kvsim_shared *shared, int key, char *arg);
/* The same, and the one argument, a trace, which must be there. */
error_t kvsim_take_trace(kvsim_shared *shared, int key, char *arg, const struct argp_state *state);

#endif
