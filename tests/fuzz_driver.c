/* A driver for the fuzz targets where libFuzzer is not there: every file of the corpus, then mutations of them, always
 * the same ones. fuzz-X CORPUS [RUNS [SEED]] */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MOST 65536u

static uint64_t state;
static uint64_t next_random(void) { /* SplitMix64 */
  uint64_t z = (state += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

static size_t mutate(uint8_t *data, size_t size) {
  unsigned edits = 1 + (unsigned)(next_random() % 8);
  while (edits--) {
    uint64_t r = next_random();
    size_t at = size ? (size_t)(r >> 16) % size : 0;
    switch (r % 5) {
      case 0:
        if (size) data[at] = (uint8_t)(r >> 8);
        break;
      case 1:
        if (size) data[at] ^= (uint8_t)(1u << (r >> 8 & 7));
        break;
      case 2: size = at; break;
      case 3: { /* repeat a piece */
        size_t n = (size_t)(r >> 40) % 64;
        if (at + n <= size && size + n <= MOST) {
          memcpy(data + size, data + at, n);
          size += n;
        }
        break;
      }
      default:
        if (size < MOST - 8)
          for (int i = 0; i < 8; i++) data[size++] = (uint8_t)next_random();
    }
  }
  return size;
}

int main(int argc, char **argv) {
  static uint8_t seeds[64][MOST], work[MOST];
  size_t sizes[64], n = 0;
  if (argc < 2) return 2;
  DIR *d = opendir(argv[1]);
  for (struct dirent *e; d && (e = readdir(d)) && n < 64;) {
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", argv[1], e->d_name);
    FILE *f = e->d_name[0] != '.' ? fopen(path, "rb") : NULL;
    if (!f) continue;
    sizes[n] = fread(seeds[n], 1, MOST, f);
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(seeds[n], sizes[n]);
    n++;
  }
  if (d) (void)closedir(d);
  if (!n) {
    fprintf(stderr, "%s: no corpus in %s\n", argv[0], argv[1]);
    return 2;
  }
  long runs = argc > 2 ? atol(argv[2]) : 1000;
  state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  for (long i = 0; i < runs; i++) {
    size_t which = (size_t)(next_random() % n);
    memcpy(work, seeds[which], sizes[which]);
    (void)LLVMFuzzerTestOneInput(work, mutate(work, sizes[which]));
  }
  printf("%s: %zu corpus files, %ld mutations, no finding\n", argv[0], n, runs);
  return 0;
}
