/* Finding objects: folders, wheels, archives, single files. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include "audit_container.h"

typedef struct walk {
  kva_visit visit;
  kva_walk_problem problem;
  void *context;
  uint64_t member_max;
  kva_walk_counts *counts;
} walk;

static void tell(walk *w, const char *name, const char *text) {
  w->counts->problems++;
  if (w->problem) w->problem(w->context, name, text);
}

void kva_release(const kva_object *o, const unsigned char *start, size_t size) {
  if (!o->mapped || !size) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t from = (uintptr_t)start & ~(page - 1), to = ((uintptr_t)start + size + page - 1) & ~(page - 1);
  (void)madvise((void *)from, to - from, MADV_DONTNEED);
}

static bool is_archive(const unsigned char *data, size_t size) { return size >= 8 && !memcmp(data, "!<arch>\n", 8); }

/* libelf hands out an archive's members one by one; the name is the member's, "?" where it has none. */
static kv_status walk_archive(walk *w, const kva_object *archive, kv_error *err) {
  kv_status st = KV_OK;
  (void)elf_version(EV_CURRENT);
  Elf *ar = elf_memory((char *)(uintptr_t)archive->data, archive->size), *member = NULL;
  Elf_Cmd command = ELF_C_READ_MMAP; /* what elf_memory itself uses */
  if (!ar || elf_kind(ar) != ELF_K_AR) tell(w, archive->name, "an archive that libelf cannot read");
  while (ar && elf_kind(ar) == ELF_K_AR && st == KV_OK && command != ELF_C_NULL &&
         (member = elf_begin(-1, command, ar))) {
    Elf_Arhdr *header = elf_getarhdr(member);
    size_t size = 0;
    const char *raw = elf_rawfile(member, &size), *base = (const char *)archive->data;
    char *name = NULL;
    bool inside = raw && raw >= base && size <= archive->size && (size_t)(raw - base) <= archive->size - size;
    if (inside && header && header->ar_name && header->ar_name[0] != '/') {
      if (asprintf(&name, "%s:%s", archive->name, header->ar_name) < 0) name = NULL;
      kva_object o = {name, (const unsigned char *)raw, size, archive->mapped};
      w->counts->objects++;
      st = name ? w->visit(w->context, &o, err) : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", archive->name);
      free(name);
    }
    command = elf_next(member);
    (void)elf_end(member);
  }
  if (ar) (void)elf_end(ar);
  return st;
}

static kv_status walk_object(walk *w, const kva_object *o, kv_error *err) {
  if (is_archive(o->data, o->size)) return walk_archive(w, o, err);
  w->counts->objects++;
  return w->visit(w->context, o, err);
}

kv_status kva_walk_memory(const kva_object *object, kva_visit visit, kva_walk_problem problem, void *context,
                          kv_error *err) {
  kva_walk_counts counts = {0};
  walk w = {.visit = visit, .problem = problem, .context = context, .counts = &counts};
  return walk_object(&w, object, err);
}

/* Maps an open file and walks it. Closes fd. */
static kv_status walk_fd(walk *w, int fd, const char *name, kv_error *err) {
  struct stat sb;
  kv_status st = KV_OK;
  void *data = MAP_FAILED;
  if (fstat(fd, &sb) == 0 && sb.st_size > 0) {
    data = mmap(NULL, (size_t)sb.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) tell(w, name, strerror(errno));
  }
  (void)close(fd);
  if (data == MAP_FAILED) return st;
  kva_object o = {name, data, (size_t)sb.st_size, true};
  st = walk_object(w, &o, err);
  (void)munmap(data, (size_t)sb.st_size);
  return st;
}

/* Is it worth a look, by its first bytes and its name? */
static bool wanted(const unsigned char *start, size_t n, const char *name) {
  const char *dot = strrchr(name, '.');
  if (n >= 4 && !memcmp(start, "\177ELF", 4)) return true;
  if (n >= 8 && !memcmp(start, "!<arch>\n", 8)) return true;
  if (n >= 4 && !memcmp(start, "\x50\xed\x55\xba", 4)) return true;
  return dot && !strcmp(dot, ".ptx");
}

/* An unnamed file to unpack into, on disk rather than in memory. -1 with errno. */
static int scratch_file(void) {
  const char *folder = getenv("TMPDIR");
  char name[4096];
  if (!folder || !*folder) folder = "/tmp";
  int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  int n = snprintf(name, sizeof name, "%s/kvroof-audit-XXXXXX", folder);
  if (n < 0 || (size_t)n >= sizeof name) return errno = ENAMETOOLONG, -1;
  fd = mkostemp(name, O_CLOEXEC);
  if (fd >= 0) (void)unlink(name);
  return fd;
}

static bool write_all(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t n = write(fd, data, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    size -= (size_t)n;
  }
  return true;
}

/* Unpacks what remains of an open member, after its first `n` bytes in `start`. NULL, or what went wrong. */
static const char *unpack_member(zip_file_t *f, int fd, const char *start, size_t n, uint64_t size) {
  enum { CHUNK = 1 << 18 };
  char *chunk = malloc(CHUNK);
  const char *wrong = chunk ? NULL : "out of memory";
  uint64_t total = n;
  zip_int64_t got = 0;
  if (!wrong && !write_all(fd, start, n)) wrong = strerror(errno);
  while (!wrong && (got = zip_fread(f, chunk, CHUNK)) > 0) {
    total += (uint64_t)got;
    if (total > size)
      wrong = "unpacks to more than the wheel's directory says";
    else if (!write_all(fd, chunk, (size_t)got))
      wrong = strerror(errno);
  }
  if (!wrong && got < 0) wrong = "damaged: it does not unpack, or its checksum is wrong";
  if (!wrong && total != size) wrong = "unpacks to less than the wheel's directory says";
  free(chunk);
  return wrong;
}

static kv_status walk_member(walk *w, zip_t *zip, const zip_stat_t *entry, const char *name, kv_error *err) {
  char start[4096];
  const char *wrong = NULL;
  int fd = -1;
  kv_status st = KV_OK;
  zip_file_t *f = zip_fopen_index(zip, entry->index, 0);
  zip_int64_t n = f ? zip_fread(f, start, sizeof start) : -1;
  if (n < 0) {
    wrong = "damaged: it cannot be unpacked";
  } else if (wanted((const unsigned char *)start, (size_t)n, name)) {
    if (entry->size > w->member_max)
      wrong = "larger than a member may be; refused";
    else if ((fd = scratch_file()) < 0)
      wrong = strerror(errno);
    else
      wrong = unpack_member(f, fd, start, (size_t)n, entry->size);
  }
  if (f) (void)zip_fclose(f);
  if (wrong) {
    tell(w, name, wrong);
    if (fd >= 0) (void)close(fd);
  } else if (fd >= 0) {
    st = walk_fd(w, fd, name, err);
  }
  return st;
}

typedef struct member {
  const char *name;
  zip_uint64_t index;
} member;

static int by_name(const void *a, const void *b) {
  const member *x = a, *y = b;
  int order = strcmp(x->name, y->name);
  return order ? order : (x->index > y->index) - (x->index < y->index);
}

static kv_status walk_members(walk *w, zip_t *zip, const char *path, kv_error *err) {
  zip_int64_t n = zip_get_num_entries(zip, 0);
  member *list = n > 0 ? calloc((size_t)n, sizeof *list) : NULL;
  kv_status st = n > 0 && !list ? kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path) : KV_OK;
  size_t members = 0;
  for (zip_int64_t i = 0; list && i < n; i++) {
    const char *name = zip_get_name(zip, (zip_uint64_t)i, 0);
    if (name) list[members++] = (member){name, (zip_uint64_t)i};
  }
  if (members) qsort(list, members, sizeof *list, by_name);
  for (size_t i = 0; i < members && st == KV_OK; i++) {
    zip_stat_t entry;
    char *name = NULL;
    if (zip_stat_index(zip, list[i].index, 0, &entry) != 0 || !(entry.valid & ZIP_STAT_SIZE) || !entry.size) continue;
    if (asprintf(&name, "%s!%s", path, list[i].name) < 0) name = NULL;
    w->counts->files++;
    st = name ? walk_member(w, zip, &entry, name, err) : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
    free(name);
  }
  free(list);
  return st;
}

static kv_status walk_zip(walk *w, const char *path, kv_error *err) {
  int code = 0;
  zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
  if (!zip) {
    zip_error_t why;
    char text[256];
    zip_error_init_with_code(&why, code);
    (void)snprintf(text, sizeof text, "not a whole zip file: %s", zip_error_strerror(&why));
    zip_error_fini(&why);
    tell(w, path, text);
    return KV_OK;
  }
  kv_status st = walk_members(w, zip, path, err);
  zip_discard(zip);
  return st;
}

/* `named`: given on the command line, so looked into whatever it starts with. */
static kv_status walk_file(walk *w, const char *path, bool named, kv_error *err) {
  unsigned char start[8] = {0};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    if (named) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
    tell(w, path, strerror(errno));
    return KV_OK;
  }
  w->counts->files++;
  ssize_t n = pread(fd, start, sizeof start, 0);
  const char *dot = strrchr(path, '.');
  bool zip = n >= 4 && !memcmp(start, "PK\3\4", 4) && (named || (dot && (!strcmp(dot, ".whl") || !strcmp(dot, ".zip"))));
  if (zip) {
    (void)close(fd);
    return walk_zip(w, path, err);
  }
  if (n > 0 && (named || wanted(start, (size_t)n, path))) return walk_fd(w, fd, path, err);
  (void)close(fd);
  return KV_OK;
}

static int by_fts_name(const FTSENT **a, const FTSENT **b) { return strcmp((*a)->fts_name, (*b)->fts_name); }

static kv_status walk_folder(walk *w, const char *path, kv_error *err) {
  char *const roots[] = {(char *)(uintptr_t)path, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_COMFOLLOW, by_fts_name);
  kv_status st = KV_OK;
  if (!tree) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
  for (FTSENT *e; st == KV_OK && (e = fts_read(tree));) {
    if (e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE) w->counts->links++;
    if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
      tell(w, e->fts_path, strerror(e->fts_errno));
    if (e->fts_info == FTS_F) st = walk_file(w, e->fts_path, false, err);
  }
  (void)fts_close(tree);
  return st;
}

kv_status kva_walk(const char *path, const kva_walk_options *options, kva_visit visit, kva_walk_problem problem,
                   void *context, kva_walk_counts *counts, kv_error *err) {
  struct stat sb;
  walk w = {.visit = visit, .problem = problem, .context = context, .counts = counts};
  w.member_max = options && options->member_max ? options->member_max : UINT64_C(16) << 30;
  if (stat(path, &sb) != 0) return kv_fail(err, KV_ERR_IO, "%s: %s", path, strerror(errno));
  if (S_ISDIR(sb.st_mode)) return walk_folder(&w, path, err);
  if (!S_ISREG(sb.st_mode)) return kv_fail(err, KV_ERR_IO, "%s: neither a file nor a folder", path);
  return walk_file(&w, path, true, err);
}
