/* audit_source.h - what a library's build files ask nvcc for, against what its binaries hold.
 *
 * CMake files are read as a list of commands: variables are gathered over all branches of if() (so a list is what may
 * be asked for, and an item that stands inside if() says so), and the variables that a target's options name are put
 * in. ninja files are read by object (CMakeFiles/TARGET.dir), Python and make files by the name assigned to. Nothing
 * is run.
 */
#ifndef KVA_AUDIT_SOURCE_H
#define KVA_AUDIT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "audit.h"
#include "kv_status.h"

/* One code or PTX target asked for, and where. */
typedef struct kva_asked {
  uint32_t file;  /* index in kva_source.path */
  uint32_t line;
  uint32_t scope; /* index in kva_source.scope: a build target, a variable, an object folder */
  unsigned kind;  /* KVA_KIND_CODE, KVA_KIND_PTX, KVA_KIND_LTO */
  kva_target target;
  bool conditional; /* inside an if() */
} kva_asked;

typedef struct kva_scope {
  char *name;
  char *output;   /* OUTPUT_NAME where one is set, else NULL: what the library is called */
  bool is_target; /* a build target, whose list is what its library should hold; else a variable or such */
  bool general;   /* meant for every target: CMAKE_CUDA_FLAGS, CMAKE_CUDA_ARCHITECTURES, TORCH_CUDA_ARCH_LIST */
} kva_scope;

typedef struct kva_source {
  char **path;
  size_t paths;
  kva_scope *scope;
  size_t scopes;
  kva_asked *asked; /* by file, line */
  size_t count, capacity;
} kva_source;

/* Reads every CMakeLists.txt, *.cmake, *.ninja, setup.py, Makefile and *.mk under a folder (or one such file). */
kv_status kva_source_read(const char *path, kva_source *source, kv_error *err);
/* One file's text; `name` decides how it is read. For tests. */
kv_status kva_source_text(const char *name, const char *text, size_t size, kva_source *source, kv_error *err);
void kva_source_free(kva_source *source);

/* Lists what is asked for, then for each audited file whose name is a build target's: what is asked for and not held,
 * held and not asked for, and (sm != 0) whether another list has a target for this GPU that this one lacks. *gaps
 * counts the latter. */
kv_status kva_tell_source(FILE *out, const kva_source *source, const kva_audit *audit, unsigned sm, size_t *gaps,
                          kv_error *err);

#endif
