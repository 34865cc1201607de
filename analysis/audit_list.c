/* The entries as cuobjdump lists them, so that the two can be compared line by line. */
#include <string.h>

#include "audit.h"

/* cuobjdump names an entry after its file without folders and without everything from the first dot on. */
static void base_name(const char *name, bool bare, char *base, size_t size) {
  const char *slash = strrchr(name, '/'), *start = slash ? slash + 1 : name, *bang = strrchr(start, '!');
  if (bang) start = bang + 1;
  const char *dot = bare ? strrchr(start, '.') : strchr(start, '.');
  size_t n = dot ? (size_t)(dot - start) : strlen(start);
  (void)snprintf(base, size, "%.*s", (int)n, start);
}

static void list_file(FILE *out, const kva_file *file) {
  char base[512], target[KVA_TARGET_TEXT];
  unsigned code = 0, ptx = 0;
  for (size_t i = 0; i < file->entries; i++) {
    const kva_held *e = &file->entry[i];
    base_name(file->name, e->bare, base, sizeof base);
    kva_target shown = e->target;
    if (shown.suffix == 'f' && e->kind == KVA_KIND_CODE) shown.suffix = '\0'; /* cuobjdump's own habit */
    kva_target_text(shown, target);
    if (e->kind == KVA_KIND_CODE && e->bare)
      (void)fprintf(out, "ELF file %4u: %s.%s.cubin\n", ++code, base, target);
    else if (e->kind == KVA_KIND_CODE)
      (void)fprintf(out, "ELF file %4u: %s.%u.%s.cubin\n", code + 1, base, code + 1, target), code++;
    else if (e->kind == KVA_KIND_PTX)
      (void)fprintf(out, "PTX file %4u: %s.%u.%s.ptx\n", ptx + 1, base, ptx + 1, target), ptx++;
  }
}

kv_status kva_tell_list(FILE *out, const kva_audit *audit, kv_error *err) {
  for (size_t i = 0; i < audit->files; i++) {
    const char *name = audit->file[i].name, *slash = strrchr(name, '/');
    bool member = strchr(slash ? slash + 1 : name, ':') != NULL;
    if (member) (void)fprintf(out, "\nmember %s:\n", name);
    list_file(out, &audit->file[i]);
  }
  return ferror(out) ? kv_fail(err, KV_ERR_IO, "standard output: write error") : KV_OK;
}
