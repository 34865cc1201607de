/* audit_container.h - finds device code in files: executables, libraries, archives, fatbins, cubins, PTX, wheels
 * and folders, and lists it entry by entry. Nothing of a file is read but what is looked at: files are mapped.
 *
 * The fatbin container is NVIDIA's and undocumented; the layout here was checked against cuobjdump 13.5 on every
 * library named in analysis/README.md. Little-endian, 8-byte aligned:
 *   fatbin  u32 magic 0xBA55ED50, u16 version 1, u16 header size 16, u64 bytes that follow
 *   entry   u16 kind (1 PTX, 2 machine code, 8 LTO IR), u16 version, u32 header size, u64 padded payload size,
 *           u32 compressed size, u32 extension, u16 minor, u16 major, u32 sm, u32 name offset, u32 name length,
 *           u64 flags, u64 0, u64 uncompressed size
 *   flags   0x2000 LZ4, 0x8000 zstd, 0x100000 'a', 0x200000 'f'
 */
#ifndef KVA_AUDIT_CONTAINER_H
#define KVA_AUDIT_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit_isa.h"
#include "kv_status.h"

typedef enum kva_kind { KVA_KIND_PTX = 1, KVA_KIND_CODE = 2, KVA_KIND_LTO = 8 } kva_kind; /* others: printed raw */
typedef enum kva_packing { KVA_PACK_NONE, KVA_PACK_LZ4, KVA_PACK_ZSTD, KVA_PACK_UNKNOWN } kva_packing;

/* An object found. `name` is the file's path, with "!member" for a wheel's and ":member" for an archive's. */
typedef struct kva_object {
  const char *name;
  const unsigned char *data;
  size_t size;
  bool mapped; /* data is a read-only file mapping, so that pages may be given back with kva_release */
} kva_object;

/* Gives the pages of a range back once it is done with (they are read again from the file when touched), so that
 * a library of a gigabyte does not count as memory. Nothing if the object is not mapped. */
void kva_release(const kva_object *object, const unsigned char *start, size_t size);

/* One entry of a fatbin, or a whole cubin or PTX file. Points into the mapped file. */
typedef struct kva_entry {
  unsigned kind; /* kva_kind, or a number unknown to us */
  kva_target target;
  kva_packing packing;
  uint16_t version_major, version_minor; /* PTX ISA, or the code version */
  uint64_t flags;
  uint64_t offset; /* of the payload in its object */
  const unsigned char *payload;
  uint64_t stored; /* bytes of payload as stored (without padding where compressed) */
  uint64_t size;   /* bytes once unpacked, as the header says */
  bool bare;       /* a .cubin or .ptx of its own, not inside a fatbin */
  bool in_data;    /* in a fatbin that lies in plain data, where cuobjdump does not look */
} kva_entry;

typedef enum kva_origin {
  KVA_NO_DEVICE_CODE,
  KVA_LINKED,      /* .nv_fatbin, or fatbins in plain data */
  KVA_RELOCATABLE, /* __nv_relfatbin alone: still to be linked (-rdc) */
  KVA_FATBIN,
  KVA_CUBIN,
  KVA_PTX_TEXT
} kva_origin;

typedef struct kva_entries {
  kva_entry *entry; /* [count], in file order; those in plain data last */
  size_t count, capacity;
  kva_origin origin;
  uint64_t skipped; /* bytes between fatbins that are neither zero nor a fatbin */
  char problem[256]; /* first damage met, empty if none: entries before it are good */
} kva_entries;

/* Lists the entries of one object: an ELF file of the host, a cubin, a fatbin, PTX text. Anything else gives
 * KVA_NO_DEVICE_CODE. As cuobjdump does, __nv_relfatbin counts only where .nv_fatbin is absent or empty. The other
 * data sections are searched for the magic number at multiples of 8: libraries that link or compile their kernels as
 * they run keep fatbins there (cuFFT: 23,983 in .ldata). Damage is told in entries->problem, not by the status. KV_ERR_MEMORY. The caller frees with kva_entries_free. */
kv_status kva_list_entries(const kva_object *object, kva_entries *entries, kv_error *err);
void kva_entries_free(kva_entries *entries);

/* A buffer that unpacking reuses, mapped rather than allocated so that it goes back to the system whole. Zero it
 * first. */
typedef struct kva_buffer {
  unsigned char *data;
  size_t capacity;
} kva_buffer;
void kva_buffer_free(kva_buffer *buffer);

/* Bounds on what an entry may unpack to. LZ4 cannot expand more than 255 times; cubins do not reach 2,000. */
#define KVA_UNPACKED_MAX (UINT64_C(1) << 30)
#define KVA_UNPACKED_FREE (UINT64_C(16) << 20) /* below this no ratio is asked for */
#define KVA_RATIO_MAX 2000u

/* The payload as it was before packing: *data points into `buffer`, or into the mapped file when it is stored plain.
 * A size that lies, a ratio or size above the bounds, an unknown packing, a corrupt stream: KV_ERR_INPUT. */
kv_status kva_unpack(const kva_entry *entry, kva_buffer *buffer, const unsigned char **data, size_t *size,
                     kv_error *err);

/* Called for each object; it is valid during the call. */
typedef kv_status (*kva_visit)(void *context, const kva_object *object, kv_error *err);

typedef struct kva_walk_options {
  uint64_t member_max; /* bytes a wheel's member may unpack to; 0: 16 GiB */
} kva_walk_options;

/* What was met on the way and left out. */
typedef struct kva_walk_counts {
  uint64_t files;    /* regular files looked at */
  uint64_t objects;  /* handed to `visit` */
  uint64_t links;    /* symbolic links inside folders, not followed: their targets are walked where they lie */
  uint64_t problems; /* files, members that could not be read */
} kva_walk_counts;

/* Walks a file, folder, archive or wheel. Objects are handed over in a fixed order (names sorted). What cannot be
 * read inside a folder, archive or wheel is handed to `problem` (may be NULL) and left out; the named path itself
 * missing is KV_ERR_IO, and a status of `visit` other than KV_OK ends the walk. */
typedef void (*kva_walk_problem)(void *context, const char *name, const char *text);
kv_status kva_walk(const char *path, const kva_walk_options *options, kva_visit visit, kva_walk_problem problem,
                   void *context, kva_walk_counts *counts, kv_error *err);

/* The walk of one object that lies in memory (an archive, or what kva_list_entries takes): for tests and fuzzing. */
kv_status kva_walk_memory(const kva_object *object, kva_visit visit, kva_walk_problem problem, void *context,
                          kv_error *err);

#endif
