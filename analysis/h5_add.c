#include "h5_add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kv_clean.h"
#include "kv_h5.h"

static kv_status copy_file(const char *from, const char *to, kv_error *err) {
  char block[65536];
  size_t n;
  FILE *in = fopen(from, "rbe"), *out = in ? fopen(to, "wbe") : NULL;
  kv_status st = KV_OK;
  if (!in) st = kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", from, strerror(errno));
  else if (!out) st = kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", to, strerror(errno));
  while (!st && (n = fread(block, 1, sizeof block, in)) > 0)
    if (fwrite(block, 1, n, out) != n)
      st = kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", to, strerror(errno));
  if (!st && ferror(in)) st = kv_fail(err, KV_ERR_IO, "%s: cannot be read", from);
  if (in) (void)fclose(in);
  if (out && fclose(out) != 0 && !st)
    st = kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", to, strerror(errno));
  return st;
}

static kv_status add_history(hid_t file, const kva_addition *a, kv_error *err) {
  char before[4200] = "", line[8700];
  kv_status st = a->command ? kv_h5_get_str(file, "history", before, sizeof before, err) : KV_OK;
  if (!a->command || (st && st != KV_END)) return st;
  (void)snprintf(line, sizeof line, "%s; %.60s added by: %.4300s", before, a->what, a->command);
  return kv_h5_put_str(file, "history", line, err);
}

static kv_status add_to(const char *path, const kva_addition *a, kv_error *err) {
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  if (file < 0) return kv_fail(err, KV_ERR_INPUT, "%s: cannot be opened as HDF5", a->in);
  kv_status st = a->add(a->user, file, err);
  if (!st) st = add_history(file, a, err);
  if (H5Fclose(file) < 0 && !st) st = kv_fail(err, KV_ERR_IO, "%s: cannot be written", a->out);
  return st;
}

kv_status kva_h5_add(const kva_addition *a, kv_error *err) {
  char *part;
  if (asprintf(&part, "%s.%ld.part", a->out, (long)getpid()) < 0)
    return kv_fail(err, KV_ERR_MEMORY, "out of memory");
  kv_clean_watch(part);
  kv_status st = copy_file(a->in, part, err);
  if (!st) st = add_to(part, a, err);
  if (!st && rename(part, a->out) != 0)
    st = kv_fail(err, KV_ERR_IO, "%s: cannot be put in place: %s", a->out, strerror(errno));
  if (st) (void)unlink(part);
  kv_clean_forget(part);
  free(part);
  return st;
}
