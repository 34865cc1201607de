/* The audit's bar: a library of 1 GB, in the page cache, in under 2 s and under 100 MB of memory.
 *
 *   bench-audit [LIBRARY]
 *
 * Without a library one is made here: entries of 1 MB, as large ones have them, each the fixture's sm_90a cubin with the
 * code of one kernel repeated up to that size, all of which is walked through. Best of five runs of the program, as a user runs it; exit status 1 if a bar is missed. */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "kv_test.h"

enum { GIGABYTE = 1000000000 };

static size_t read_all(const char *path, char **data) {
  FILE *f = fopen(path, "rb");
  *data = malloc(1 << 20);
  size_t n = f && *data ? fread(*data, 1, 1 << 20, f) : 0;
  if (f) (void)fclose(f);
  return n;
}

static void put(char *at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) at[i] = (char)(value >> 8 * i);
}

/* Moves the longest .text section of a cubin to its end and repeats it up to `size` bytes of cubin. */
static void enlarge(char *cubin, size_t n, size_t size) {
  Elf64_Ehdr header;
  Elf64_Shdr section, longest = {0};
  size_t where = 0;
  memcpy(&header, cubin, sizeof header);
  for (size_t i = 0; i < header.e_shnum; i++) {
    memcpy(&section, cubin + header.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_PROGBITS || !(section.sh_flags & SHF_EXECINSTR) || section.sh_size <= longest.sh_size) continue;
    longest = section;
    where = header.e_shoff + i * sizeof section;
  }
  size_t at = (n + 127) & ~(size_t)127, from = longest.sh_offset, length = longest.sh_size;
  longest.sh_offset = at;
  longest.sh_size = 0;
  for (; length && at + length <= size; at += length, longest.sh_size += length) memcpy(cubin + at, cubin + from, length);
  if (where) memcpy(cubin + where, &longest, sizeof longest);
}

static size_t make_library(const char *path) {
  enum { ENTRY = 1 << 20 };
  char *cubin, *entry = calloc(1, ENTRY);
  size_t n = read_all(kv_source("tests/golden/audit/sm_90a.cubin"), &cubin), total = 0;
  FILE *f = fopen(path, "wb");
  if (f && n && entry) {
    put(entry, 0xBA55ED50, 4); /* a fatbin of one entry: see audit_container.h */
    put(entry + 4, 1, 2);
    put(entry + 6, 16, 2);
    put(entry + 8, ENTRY - 16, 8);
    put(entry + 16, 2, 2);
    put(entry + 20, 64, 4);
    put(entry + 24, ENTRY - 80, 8);
    put(entry + 44, 90, 4);
    put(entry + 56, 0x100000, 8);
    memcpy(entry + 80, cubin, n);
    enlarge(entry + 80, n, ENTRY - 80);
    while (total < GIGABYTE && fwrite(entry, 1, ENTRY, f) == ENTRY) total += ENTRY;
  }
  free(cubin);
  free(entry);
  return f && fclose(f) == 0 ? total : 0;
}

static bool run(const char *program, const char *library, double *seconds, double *cpu, double *megabytes) {
  struct rusage usage;
  int status;
  double start = kv_seconds();
  pid_t pid = fork();
  if (pid == 0) {
    if (!freopen("/dev/null", "w", stdout)) _exit(9);
    execl(program, program, "audit", "-q", library, "--gpu", "sm_120", (char *)NULL);
    _exit(9);
  }
  if (pid < 0 || wait4(pid, &status, 0, &usage) != pid || status) return false;
  *seconds = kv_seconds() - start;
  *cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  *megabytes = (double)usage.ru_maxrss * 1024 / 1e6;
  return true;
}

int main(int argc, char **argv) {
  const char *library = argc > 1 ? argv[1] : kv_tmp("gigabyte.fatbin");
  double best = 1e9, best_cpu = 1e9, memory = 0;
  struct stat sb;
  size_t size = argc > 1 && stat(library, &sb) == 0 ? (size_t)sb.st_size : make_library(library);
  if (argc == 1 && size < GIGABYTE) {
    fprintf(stderr, "bench_audit: %s could not be written\n", library);
    return 5;
  }
  for (int i = 0; i < 5; i++) {
    double s, cpu, mb;
    if (!run(kv_program("roofline"), library, &s, &cpu, &mb)) return 5;
    if (s < best) best = s;
    if (cpu < best_cpu) best_cpu = cpu;
    if (mb > memory) memory = mb;
  }
  printf("audit of %.2f GB: best of 5 %.2f s (bar 2 s; %.2f s of CPU), %.0f MB of memory (bar 100 MB)\n", (double)size / 1e9, best, best_cpu, memory);
  return best < 2 && memory < 100 ? 0 : 1;
}
