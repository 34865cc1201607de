#include "card.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int visible(const struct dirent *e) {
  return e->d_name[0] != '.';
}

static kv_status read_model(const char *path, char *name, size_t size) {
  char line[256];
  kv_status st = KV_END;
  FILE *f = fopen(path, "r");
  if (!f) return KV_END;
  while (st && fgets(line, sizeof line, f)) {
    if (strncmp(line, "Model:", 6) != 0) continue;
    const char *from = line + 6 + strspn(line + 6, " \t");
    size_t n = strcspn(from, "\r\n");
    (void)snprintf(name, size, "%.*s", (int)n, from);
    st = KV_OK;
  }
  (void)fclose(f);
  return st;
}

kv_status kva_card_name(const char *proc, unsigned index, char *name, size_t size) {
  struct dirent **entry = NULL;
  char *path = NULL;
  kv_status st = KV_END;
  int n = scandir(proc, &entry, visible, alphasort);
  if (n > 0 && index < (unsigned)n && asprintf(&path, "%s/%s/information", proc, entry[index]->d_name) > 0) {
    st = read_model(path, name, size);
    free(path);
  }
  for (int i = 0; i < n; i++) free(entry[i]);
  if (n >= 0) free(entry);
  return st;
}
