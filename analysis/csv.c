#include "csv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_COLUMNS = 4096, MOST_ROWS = 1000000 };
static const size_t most_bytes = 256u << 20;

static kv_status read_all(const char *path, char **text, kv_error *err) {
  size_t room = 1 << 16, n = 0, got;
  FILE *f = fopen(path, "r");
  if (!f) return kv_fail(err, KV_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  *text = malloc(room);
  while (*text && (got = fread(*text + n, 1, room - n - 1, f)) > 0) {
    n += got;
    if (n + 1 < room) continue;
    char *more = room > most_bytes ? NULL : realloc(*text, room *= 2);
    if (!more) break;
    *text = more;
  }
  bool fine = *text && !ferror(f) && feof(f);
  (void)fclose(f);
  if (!*text) return kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  (*text)[n] = '\0';
  if (fine && memchr(*text, '\0', n))
    return kv_fail(err, KV_ERR_INPUT, "%s: holds zero bytes; is it text?", path);
  return fine ? KV_OK : kv_fail(err, KV_ERR_IO, "%s: cannot be read, or is larger than 256 MiB", path);
}

/* Cuts one cell at *at, unquoting it in place; *at moves behind it and its comma or line end. False: open
 * quote. */
static bool cut_cell(char **at, char **cell, bool *last) {
  char *from = *at, *to = *at;
  *cell = from;
  if (*from == '"') {
    for (from++; *from && (*from != '"' || from[1] == '"'); from++) {
      if (*from == '"') from++;
      *to++ = *from;
    }
    if (!*from) return false;
    from++;
  }
  while (*from && *from != ',' && *from != '\n') {
    if (*from != '\r') *to++ = *from;
    from++;
  }
  *last = *from != ',';
  *at = *from ? from + 1 : from;
  *to = '\0';
  return true;
}

static bool is_header(char **cell, size_t n, const char *const *header) {
  for (size_t i = 0; i < n; i++)
    for (const char *const *h = header; *h; h++)
      if (!strcasecmp(cell[i], *h)) return true;
  return false;
}

/* More cells than the header names: most likely a decimal comma without quotes. */
static kv_status check_width(const kva_csv *csv, char **row, size_t n, const char *path, kv_error *err) {
  for (size_t i = csv->columns; i < n; i++)
    if (row[i][0])
      return kv_fail(
          err, KV_ERR_INPUT,
          "%s: row %zu has %zu cells, its header %zu: is there a comma within a number or a name that is not "
          "quoted? Profile with LC_ALL=C",
          path, csv->rows + 1, n, csv->columns);
  return KV_OK;
}

static kv_status add_row(kva_csv *csv, char **row, size_t n, size_t *room, const char *path, kv_error *err) {
  kv_status st = check_width(csv, row, n, path, err);
  if (st) return st;
  if (csv->rows == *room) {
    size_t more = *room ? 2 * *room : 256;
    char **grown = more > MOST_ROWS ? NULL : realloc(csv->cell, more * csv->columns * sizeof *grown);
    if (!grown) return kv_fail(err, KV_ERR_MEMORY, "%s: too many rows", path);
    csv->cell = grown;
    *room = more;
  }
  static char empty[] = "";
  for (size_t i = 0; i < csv->columns; i++) csv->cell[csv->rows * csv->columns + i] = i < n ? row[i] : empty;
  csv->rows++;
  return KV_OK;
}

static kv_status cut_rows(kva_csv *csv, const char *path, const char *const *header, kv_error *err) {
  static const char mark[] = "\xef\xbb\xbf"; /* UTF-8's byte order mark */
  char **row = malloc(MOST_COLUMNS * sizeof *row);
  char *at = csv->text + (strncmp(csv->text, mark, 3) ? 0 : 3);
  size_t room = 0;
  kv_status st = row ? KV_OK : kv_fail(err, KV_ERR_MEMORY, "%s: out of memory", path);
  while (!st && *at) {
    size_t n = 0;
    char *line = at;
    for (bool last = false; !st && !last; n++) {
      if (n == MOST_COLUMNS) st = kv_fail(err, KV_ERR_INPUT, "%s: more than 4096 columns", path);
      else if (!cut_cell(&at, &row[n], &last))
        st = kv_fail(err, KV_ERR_INPUT, "%s: a quote is not closed, from '%.20s' on", path, line);
    }
    if (st || (n == 1 && !row[0][0])) continue;
    if (!csv->columns && is_header(row, n, header)) csv->columns = n;
    if (csv->columns) st = add_row(csv, row, n, &room, path, err);
  }
  free(row);
  if (!st && !csv->columns)
    st = kv_fail(err, KV_ERR_INPUT, "%s: no row with a column '%s'; is it the profiler's csv?", path,
                 header[0]);
  return st;
}

kv_status kva_csv_read(const char *path, const char *const *header, kva_csv *csv, kv_error *err) {
  *csv = (kva_csv){0};
  kv_status st = read_all(path, &csv->text, err);
  if (!st) st = cut_rows(csv, path, header, err);
  if (st) kva_csv_free(csv);
  return st;
}

void kva_csv_free(kva_csv *csv) {
  free(csv->text);
  free(csv->cell);
  *csv = (kva_csv){0};
}

int kva_csv_column(const kva_csv *csv, const char *const *names) {
  for (; *names; names++)
    for (size_t i = 0; i < csv->columns; i++)
      if (!strcasecmp(csv->cell[i], *names)) return (int)i;
  return -1;
}

const char *kva_csv_cell(const kva_csv *csv, size_t row, int column) {
  return column < 0 ? "" : csv->cell[row * csv->columns + (size_t)column];
}

/* Copies "1,234.5" as "1234.5"; false where a comma does not part groups of three digits of a whole number.
 */
static bool without_groups(const char *text, char *plain, size_t size) {
  const size_t start = strspn(text, "+- \t");
  const char *at = text + start;
  const size_t first = strspn(at, "0123456789");
  size_t n = start + first;
  if (n + 1 >= size) return false;
  memcpy(plain, text, n);
  at += first;
  if (*at == ',' && (first < 1 || first > 3)) return false;
  while (*at == ',') {
    if (strspn(at + 1, "0123456789") != 3 || n + 4 >= size) return false;
    memcpy(plain + n, at + 1, 3);
    n += 3;
    at += 4;
  }
  if (strchr(at, ',') || n + strlen(at) >= size) return false;
  memcpy(plain + n, at, strlen(at) + 1);
  return true;
}

double kva_csv_number(const char *text) {
  char plain[64];
  while (isspace((unsigned char)*text)) text++;
  if (!without_groups(text, plain, sizeof plain)) return NAN;
  char *end;
  double v = strtod(plain, &end);
  while (isspace((unsigned char)*end) || *end == '%') end++;
  return end == plain || *end ? NAN : v;
}

/* "152,1" or "20.454,00": digits, maybe in groups parted by dots, one comma, digits; and nothing that reads
 * as groups of three. */
static bool has_decimal_comma(const char *text) {
  text += strspn(text, "+- \t");
  const size_t whole = strspn(text, "0123456789."),
               part = text[whole] == ',' ? strspn(text + whole + 1, "0123456789") : 0;
  const char *behind = text + whole + 1 + part;
  if (!whole || !part || behind[strspn(behind, " \t%")]) return false;
  return part != 3 || whole > 3 || memchr(text, '.', whole) || (whole == 1 && text[0] == '0');
}

kv_status kva_csv_decimal_points(const kva_csv *csv, const char *path, kv_error *err) {
  for (size_t row = 1; row < csv->rows; row++)
    for (size_t c = 0; c < csv->columns; c++) {
      const char *cell = kva_csv_cell(csv, row, (int)c);
      if (has_decimal_comma(cell))
        return kv_fail(err, KV_ERR_INPUT,
                       "%s: row %zu, column '%.80s': '%.30s' has a decimal comma, and so \"1,234\" could be "
                       "two numbers; "
                       "profile with LC_ALL=C",
                       path, row + 1, kva_csv_cell(csv, 0, (int)c), cell);
    }
  return KV_OK;
}
