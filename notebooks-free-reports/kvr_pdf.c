#include "kvr_pdf.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { DIGITS = 14 }; /* YYYYMMDDhhmmss */
static const char MARK[] = "/CreationDate (D:";

/* Bytes [at, at + old) of the file become text[0 .. size). */
typedef struct edit {
  size_t at, old, size;
  unsigned char *text; /* malloc */
} edit;

typedef struct pdf {
  unsigned char *data;
  size_t size;
  edit edit[5]; /* ascending: packed objects, their length, table of offsets, its length before it, startxref */
  size_t edits;
} pdf;

/* Where `text` begins in [from, to); SIZE_MAX if it does not. */
static size_t find(const pdf *p, size_t from, size_t to, const char *text) {
  if (to > p->size || from >= to) return SIZE_MAX;
  const unsigned char *at = memmem(p->data + from, to - from, text, strlen(text));
  return at ? (size_t)(at - p->data) : SIZE_MAX;
}

/* The number at or after `at`, past blanks; `at` moves to its first digit. */
static bool number(const pdf *p, size_t *at, size_t *digits, uint64_t *value) {
  while (*at < p->size && isspace(p->data[*at])) ++*at;
  *value = 0;
  for (*digits = 0; *digits < 15 && *at + *digits < p->size && isdigit(p->data[*at + *digits]); ++*digits)
    *value = 10 * *value + (uint64_t)(p->data[*at + *digits] - '0');
  return *digits > 0;
}

/* The same behind a name of the dictionary [from, to). */
static bool entry(const pdf *p, size_t from, size_t to, const char *name, size_t *at, size_t *digits, uint64_t *value) {
  *at = find(p, from, to, name);
  if (*at == SIZE_MAX) return false;
  *at += strlen(name);
  return number(p, at, digits, value);
}

static bool add_edit(pdf *p, size_t at, size_t old, unsigned char *text, size_t size) {
  if (!text) return false;
  p->edit[p->edits++] = (edit){at, old, size, text};
  return true;
}

static bool add_number(pdf *p, size_t at, size_t old, uint64_t value) {
  char *text = NULL;
  int n = asprintf(&text, "%llu", (unsigned long long)value);
  return n > 0 && add_edit(p, at, old, (unsigned char *)text, (size_t)n);
}

/* Unpacks the zlib stream at `at`: malloc'ed bytes, how many, and how many they took. NULL if it is none. */
static unsigned char *unpack(const pdf *p, size_t at, size_t *size, size_t *used) {
  enum { MOST = 64 << 20 };
  unsigned char *out = NULL;
  z_stream z = {.next_in = p->data + at, .avail_in = (uInt)(p->size - at)};
  if (inflateInit(&z) != Z_OK) return NULL;
  int got = Z_OK;
  for (size_t room = 1 << 16; got == Z_OK && room <= MOST; room *= 2) {
    unsigned char *more = realloc(out, room);
    if (!more) break;
    out = more;
    z.next_out = out + z.total_out;
    z.avail_out = (uInt)(room - z.total_out);
    got = inflate(&z, Z_NO_FLUSH);
  }
  *size = z.total_out;
  *used = z.total_in;
  (void)inflateEnd(&z);
  if (got == Z_STREAM_END) return out;
  free(out);
  return NULL;
}

static bool add_packed(pdf *p, size_t at, size_t old, const unsigned char *data, size_t size, uint64_t *packed) {
  uLongf n = compressBound((uLong)size);
  unsigned char *text = malloc(n);
  if (text && compress2(text, &n, data, (uLong)size, 9) != Z_OK) {
    free(text);
    text = NULL;
  }
  *packed = n;
  return add_edit(p, at, old, text, n);
}

/* Where bytes that stood at `at` stand after the edits. */
static uint64_t moved(const pdf *p, uint64_t at) {
  uint64_t to = at;
  for (size_t i = 0; i < p->edits && p->edit[i].at < at; i++) to += p->edit[i].size - p->edit[i].old;
  return to;
}

/* The stream behind the dictionary that begins at `dict`; false if there is none. */
static bool stream_of(const pdf *p, size_t dict, size_t *end, size_t *at) {
  *end = find(p, dict, p->size, ">>\nstream\n");
  *at = *end + strlen(">>\nstream\n");
  return *end != SIZE_MAX;
}

/* Dates the packed objects whose dictionary is at `dict`, if the date is among them. Their length stands behind them, as
 * an object of its own. */
static bool date_objects(pdf *p, size_t dict, const char *digits) {
  size_t end, at, size, used, length_at, width;
  uint64_t length, packed;
  if (!stream_of(p, dict, &end, &at)) return false;
  unsigned char *objects = unpack(p, at, &size, &used), *mark = objects ? memmem(objects, size, MARK, sizeof MARK - 1) : NULL;
  bool good = mark && (size_t)(objects + size - mark) >= sizeof MARK - 1 + DIGITS;
  if (good) memcpy(mark + sizeof MARK - 1, digits, DIGITS);
  good = good && entry(p, at + used, at + used + 64 < p->size ? at + used + 64 : p->size, " obj\n", &length_at, &width, &length) &&
         length == used && add_packed(p, at, used, objects, size, &packed) && add_number(p, length_at, width, packed);
  free(objects);
  return good;
}

/* Rows of the table of offsets: a kind, an offset where the kind is 1, and something else, each of its width. */
static bool move_rows(const pdf *p, unsigned char *rows, size_t size, const uint64_t width[3]) {
  size_t row = (size_t)(width[0] + width[1] + width[2]);
  if (width[0] != 1 || width[1] > 7 || width[2] > 7 || size % row) return false;
  for (unsigned char *r = rows; r < rows + size; r += row) {
    uint64_t at = 0;
    if (*r != 1) continue;
    for (size_t i = 0; i < width[1]; i++) at = at << 8 | r[1 + i];
    at = moved(p, at);
    if (at >> 8 * width[1]) return false;
    for (size_t i = width[1]; i-- > 0; at >>= 8) r[1 + i] = (unsigned char)at;
  }
  return true;
}

static bool move_table(pdf *p) {
  static const char START[] = "startxref\n", END[] = "\n%%EOF\n";
  size_t last = p->size > 64 ? find(p, p->size - 64, p->size, START) : SIZE_MAX, start_width, end, at, size, used, length_at, digits;
  uint64_t dict, length, width[3], packed;
  if (last == SIZE_MAX) return false;
  size_t start = last + strlen(START);
  if (!number(p, &start, &start_width, &dict) || find(p, start + start_width, p->size, END) != start + start_width || dict >= last || !stream_of(p, (size_t)dict, &end, &at)) return false;
  if (find(p, (size_t)dict, end, "/Type /XRef") == SIZE_MAX || find(p, (size_t)dict, end, "/Index") != SIZE_MAX ||
      find(p, (size_t)dict, end, "/DecodeParms") != SIZE_MAX || !entry(p, (size_t)dict, end, "/W [", &length_at, &digits, &width[0]))
    return false;
  for (size_t i = 1; i < 3; i++) {
    length_at += digits;
    if (!number(p, &length_at, &digits, &width[i])) return false;
  }
  unsigned char *rows = unpack(p, at, &size, &used);
  bool good = rows && move_rows(p, rows, size, width) && entry(p, (size_t)dict, end, "/Length ", &length_at, &digits, &length) &&
              length == used;
  uint64_t to = moved(p, dict);
  good = good && add_packed(p, at, used, rows, size, &packed) && add_number(p, length_at, digits, packed) &&
         add_number(p, start, start_width, to);
  if (good) { /* the length stands before the stream */
    edit swap = p->edit[p->edits - 3];
    p->edit[p->edits - 3] = p->edit[p->edits - 2];
    p->edit[p->edits - 2] = swap;
  }
  free(rows);
  return good;
}

static kv_status read_pdf(const char *path, pdf *p, kv_error *err) {
  struct stat sb;
  FILE *f = fopen(path, "re");
  if (!f || fstat(fileno(f), &sb) != 0 || sb.st_size <= 0) {
    if (f) (void)fclose(f);
    return kv_fail(err, KV_ERR_IO, "%s: cannot be dated: %s", path, strerror(errno));
  }
  p->data = malloc((size_t)sb.st_size);
  p->size = p->data ? fread(p->data, 1, (size_t)sb.st_size, f) : 0;
  (void)fclose(f);
  if (!p->data) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  return p->size == (size_t)sb.st_size ? KV_OK : kv_fail(err, KV_ERR_IO, "%s: cannot be read", path);
}

static kv_status write_pdf(const char *path, const pdf *p, kv_error *err) {
  size_t at = 0;
  FILE *f = fopen(path, "we");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
  for (size_t i = 0; i < p->edits; i++) {
    const edit *e = &p->edit[i];
    (void)fwrite(p->data + at, 1, e->at - at, f);
    (void)fwrite(e->text, 1, e->size, f);
    at = e->at + e->old;
  }
  (void)fwrite(p->data + at, 1, p->size - at, f);
  bool bad = ferror(f) != 0;
  bad |= fclose(f) != 0;
  return bad ? kv_fail(err, KV_ERR_IO, "%s: cannot be written: %s", path, strerror(errno)) : KV_OK;
}

kv_status kvr_pdf_set_date(const char *path, time_t when, kv_error *err) {
  char digits[DIGITS + 1];
  struct tm tm;
  pdf p = {0};
  if (!gmtime_r(&when, &tm) || strftime(digits, sizeof digits, "%Y%m%d%H%M%S", &tm) != DIGITS)
    return kv_fail(err, KV_ERR_IO, "%s: cannot be dated", path);
  kv_status st = read_pdf(path, &p, err);
  if (!st) {
    size_t plain = find(&p, 0, p.size, MARK);
    bool good = false;
    if (plain != SIZE_MAX && p.size - plain >= sizeof MARK - 1 + DIGITS) {
      memcpy(p.data + plain + sizeof MARK - 1, digits, DIGITS);
      good = true;
    } else {
      static const char PACKED[] = "/Type /ObjStm";
      for (size_t at = 0; !good && !p.edits && (at = find(&p, at, p.size, PACKED)) != SIZE_MAX; at++) good = date_objects(&p, at, digits);
      good = good && move_table(&p);
    }
    if (good) st = write_pdf(path, &p, err);
  }
  for (size_t i = 0; i < p.edits; i++) free(p.edit[i].text);
  free(p.data);
  return st;
}
