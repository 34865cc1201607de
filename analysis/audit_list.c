/* The entries as cuobjdump lists them, so that the two can be compared line by line. Those in plain data, which it does
 * not list, have lines of another form ("data" for "file"). */
#include <string.h>

#include "audit.h"

/* cuobjdump names an entry after its file (its archive, not the member) without folders and the last suffix. */
static void base_name(const char *name, char *base, size_t size) {
  const char *slash = strrchr(name, '/'), *start = slash ? slash + 1 : name, *bang = strrchr(start, '!');
  if (bang) start = bang + 1;
  const char *colon = strchr(start, ':'), *end = colon ? colon : start + strlen(start);
  const char *dot = memrchr(start, '.', (size_t)(end - start));
  size_t n = (size_t)((dot ? dot : end) - start);
  (void)snprintf(base, size, "%.*s", (int)n, start);
}

/* An archive's members are numbered through. */
typedef struct numbers {
  unsigned code, ptx, data;
} numbers;

static void list_file(FILE *out, const kva_file *file, numbers *n) {
  char base[512], target[KVA_TARGET_TEXT];
  for (size_t i = 0; i < file->entries; i++) {
    const kva_held *e = &file->entry[i];
    base_name(file->name, base, sizeof base);
    kva_target shown = e->target;
    if (shown.suffix == 'f' && e->kind == KVA_KIND_CODE) shown.suffix = '\0'; /* cuobjdump's own habit */
    kva_target_text(shown, target);
    if (e->in_data && (e->kind == KVA_KIND_CODE || e->kind == KVA_KIND_PTX))
      (void)fprintf(out, "%s data %4u: %s.%s\n", e->kind == KVA_KIND_CODE ? "ELF" : "PTX", ++n->data, base, target);
    else if (e->kind == KVA_KIND_CODE && e->bare)
      (void)fprintf(out, "ELF file %4u: %s.%s.cubin\n", ++n->code, base, target);
    else if (e->kind == KVA_KIND_CODE)
      (void)fprintf(out, "ELF file %4u: %s.%u.%s.cubin\n", n->code + 1, base, n->code + 1, target), n->code++;
    else if (e->kind == KVA_KIND_PTX)
      (void)fprintf(out, "PTX file %4u: %s.%u.%s.ptx\n", n->ptx + 1, base, n->ptx + 1, target), n->ptx++;
  }
}

kv_status kva_tell_list(FILE *out, const kva_audit *audit, kv_error *err) {
  numbers n = {0, 0, 0};
  const char *archive = "";
  size_t length = 0;
  for (size_t i = 0; i < audit->files; i++) {
    const char *name = audit->file[i].name, *slash = strrchr(name, '/'), *colon = strchr(slash ? slash : name, ':');
    if (!colon || strncmp(name, archive, length) || (size_t)(colon - name) + 1 != length) n = (numbers){0, 0, 0};
    if (colon) (void)fprintf(out, "\nmember %s:\n", name);
    archive = colon ? name : "";
    length = colon ? (size_t)(colon - name) + 1 : 0;
    list_file(out, &audit->file[i], &n);
  }
  return ferror(out) ? kv_fail(err, KV_ERR_IO, "standard output: write error") : KV_OK;
}
