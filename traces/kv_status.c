#include "kv_status.h"

#include <stdarg.h>
#include <stdio.h>

kv_status kv_fail(kv_error *err, kv_status status, const char *format, ...) {
  if (err) {
    va_list args;
    va_start(args, format);
    err->status = status;
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    for (char *c = err->text; *c; c++)
      if (*c == '\n' || *c == '\r') *c = ' '; /* file names may hold anything; the message stays one line */
  }
  return status;
}

int kv_exit_status(kv_status status) {
  switch (status) {
    case KV_OK:
    case KV_END: return 0;
    case KV_ERR_BAR: return 1;
    case KV_ERR_USAGE: return 2;
    case KV_ERR_INPUT: return 3;
    case KV_ERR_DEVICE: return 4;
    case KV_ERR_IO:
    case KV_ERR_MEMORY:
    case KV_ERR_INTERNAL: break;
  }
  return 5;
}

const char *kv_status_name(kv_status status) {
  switch (status) {
    case KV_OK: return "ok";
    case KV_END: return "end";
    case KV_ERR_USAGE: return "usage";
    case KV_ERR_INPUT: return "bad input";
    case KV_ERR_DEVICE: return "no device";
    case KV_ERR_IO: return "input/output";
    case KV_ERR_MEMORY: return "out of memory";
    case KV_ERR_INTERNAL: return "internal";
    case KV_ERR_BAR: return "bar missed";
  }
  return "unknown";
}
