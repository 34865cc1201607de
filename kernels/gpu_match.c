#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "gpu_info.h"

static bool word_edge(const char *text, const char *at) {
  return at == text || !isalnum((unsigned char)at[-1]);
}

/* "H100" must not match "GH1000": a name counts only where it stands as whole words. */
static bool has_words(const char *text, const char *words) {
  size_t n = strlen(words);
  if (n == 0) return false;
  for (const char *p = text; *p; p++)
    if (word_edge(text, p) && strncasecmp(p, words, n) == 0 && !isalnum((unsigned char)p[n])) return true;
  return false;
}

bool kvk_gpu_matches(const kvk_gpu *gpu, const kvk_gpu_wanted *wanted) {
  bool named = wanted->names && wanted->name_count > 0;
  for (int i = 0; named && i < wanted->name_count; i++)
    if (has_words(gpu->name, wanted->names[i])) return true;
  if (named) return false;
  return wanted->major == 0 || (gpu->major == wanted->major && gpu->minor == wanted->minor);
}

kv_status kvk_gpu_find(const kvk_gpu_wanted *wanted, kvk_gpu *gpu, kv_error *err) {
  int count = 0;
  kv_status st = kvk_gpu_count(&count, err);
  for (int i = 0; !st && i < count; i++) {
    st = kvk_gpu_get(i, gpu, err);
    if (!st && kvk_gpu_matches(gpu, wanted)) return KV_OK;
  }
  return st ? st : KV_END;
}
