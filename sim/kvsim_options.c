/* The options that sub-commands share: kvsim_options.h. */
#include "kvsim_options.h"

error_t kvsim_take_shared(kvsim_shared *s, int key, char *arg) {
  switch (key) {
    case 'o': s->output = arg; break;
    case 'j': s->json = true; break;
    case 'q': s->quiet = true; break;
    case 'e': s->every = arg; break;
    case 'J': s->jobs = arg; break;
    case 'p': s->policy = arg; break;
    case 'g': s->gpu = arg; break;
    case KVSIM_KEY_REPORT: s->report = arg; break;
    case KVSIM_KEY_NO_REPORT: s->no_report = true; break;
    case KVSIM_KEY_DRY: s->dry_run = true; break;
    case KVSIM_KEY_ROW: s->row_bytes = arg; break;
    case KVSIM_KEY_LAYERS: s->layers = arg; break;
    case KVSIM_KEY_TOKEN: s->token_us = arg; break;
    case KVSIM_KEY_TOPK: s->draft_topk = arg; break;
    case KVSIM_KEY_DRAFT: s->draft_layers = arg; break;
    case KVSIM_KEY_CALIBRATION: s->calibration = arg; break;
    case KVSIM_KEY_SEED: s->seed = arg; break;
    default: return ARGP_ERR_UNKNOWN;
  }
  return 0;
}

error_t kvsim_take_trace(kvsim_shared *s, int key, char *arg, const struct argp_state *state) {
  switch (key) {
    case ARGP_KEY_ARG:
      if (s->path) argp_error(state, "one trace at a time");
      s->path = arg;
      return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "name a trace"); return 0;
    default: return kvsim_take_shared(s, key, arg);
  }
}
