#include "kvr_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 character at s: 1 to 4, or 0 where it is none (RFC 3629, overlong forms and surrogates
 * out). */
static size_t character(const unsigned char *s) {
  if (s[0] < 0x80) return 1;
  size_t n = s[0] >= 0xC2 && s[0] <= 0xDF   ? 2
             : (s[0] & 0xF0) == 0xE0        ? 3
             : s[0] >= 0xF0 && s[0] <= 0xF4 ? 4
                                            : 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
      (s[0] == 0xF4 && s[1] > 0x8F))
    return 0;
  return n;
}

void kvr_clean(const char *text, char *clean, size_t size, bool keep_lines) {
  const unsigned char *s = (const unsigned char *)text;
  size_t at = 0;
  while (*s && size > 1) {
    size_t n = character(s);
    bool bad = n == 0 || *s == 0x7F || (*s < 0x20 && !(keep_lines && *s == '\n'));
    if (n == 0) n = 1;
    if (at + (bad ? 1 : n) >= size) break;
    if (bad) clean[at++] = *s == '\t' || *s == '\n' ? ' ' : '?';
    else
      for (size_t i = 0; i < n; i++) clean[at++] = (char)s[i];
    s += n;
  }
  if (size) clean[at] = '\0';
}

void kvr_put_quoted(FILE *f, const char *text) {
  char clean[4096];
  kvr_clean(text, clean, sizeof clean, true);
  fputc('\'', f);
  for (const char *c = clean; *c; c++) {
    if (*c == '\n') fputs("'.\"\\n\".'", f);
    else if (*c == '\'') fputs("'.\"'\".'", f); /* gnuplot 5.4 reads two of them for one, but not four for two */
    else fputc(*c, f);
  }
  fputc('\'', f);
}

void kvr_put_text(FILE *f, const char *name, const char *text) {
  fprintf(f, "%s = ", name);
  kvr_put_quoted(f, text);
  fputc('\n', f);
}

void kvr_put_number(FILE *f, const char *name, double value) {
  if (isfinite(value))
    fprintf(f, "%s = %.17g%s\n", name, value, value == floor(value) && fabs(value) < 1e15 ? ".0" : "");
  else fprintf(f, "%s = NaN\n", name);
}

void kvr_put_cell(FILE *f, double value) {
  if (isfinite(value)) fprintf(f, "%.9g\t", value);
  else fputs("NaN\t", f);
}

void kvr_put_word(FILE *f, const char *text) {
  char clean[1024];
  kvr_clean(text, clean, sizeof clean, false);
  for (char *c = clean; *c; c++) fputc(*c == '"' ? '\'' : *c, f);
  fputc('\t', f);
}

/* Advance widths of DejaVu Sans in thousandths of an em, by classes. */
static double advance(char c) {
  if (strchr("ijl'", c)) return 278;
  if (strchr(" ,.;:!|()[]/\\fIt", c))
    return c == '(' || c == ')' || c == '[' || c == ']' || c == 't' ? 392 : 340;
  if (strchr("rJ\"-", c)) return 411;
  if (strchr("mW@%", c)) return 980;
  if (strchr("wMQGOHDNUX+=<>~", c)) return 818;
  if (c >= 'A' && c <= 'Z') return 680;
  return 630;
}

double kvr_width(const char *text, double size, bool bold) {
  double em = 0;
  const unsigned char *s = (const unsigned char *)text;
  while (*s) {
    size_t n = character(s);
    em += n == 1 ? advance((char)*s) : 800;
    s += n ? n : 1;
  }
  return em * 0.001 * size * (bold ? 1.12 : 1.0);
}

/* The longest head of `text` that fits and ends before a blank (else at a character); *skip covers the blank
 * too. */
static size_t head_that_fits(const char *text, double size, bool bold, double width, size_t *skip) {
  size_t at = 0, blank = 0;
  double w = 0;
  while (text[at] && text[at] != '\n') {
    size_t n = character((const unsigned char *)text + at);
    char one[5] = {0};
    memcpy(one, text + at, n ? n : 1);
    w += kvr_width(one, size, bold);
    if (w > width && at) {
      size_t cut = blank ? blank : at;
      *skip = cut + (text[cut] == ' ');
      return cut;
    }
    if (text[at] == ' ' && text[at + 1] != '%') blank = at; /* "8.1 %" stays together */
    at += n ? n : 1;
  }
  *skip = at + (text[at] == '\n');
  return at;
}

/* Makes room for an ellipsis at the end of out[0..at) within the line that starts at `line`. */
static size_t with_ellipsis(char *out, size_t line, size_t at, size_t out_size, double size, bool bold,
                            double width) {
  static const char dots[] = "…";
  while (at > line) {
    out[at] = '\0';
    if (at + sizeof dots <= out_size && kvr_width(out + line, size, bold) + 0.8 * size <= width) break;
    do at--;
    while (at > line && ((unsigned char)out[at] & 0xC0) == 0x80);
  }
  memcpy(out + at, dots, sizeof dots);
  return at + sizeof dots - 1;
}

size_t kvr_wrap(const char *text, double size, bool bold, double width, size_t lines, char *out,
                size_t out_size) {
  char clean[4096];
  size_t made = 0, at = 0, skip = 0;
  kvr_clean(text, clean, sizeof clean, true);
  const char *rest = clean;
  while (*rest && made < lines) {
    size_t line = at + (made > 0), n = head_that_fits(rest, size, bold, width, &skip);
    if (line + n + 8 >= out_size) break;
    if (made) out[at++] = '\n';
    memcpy(out + at, rest, n);
    at += n;
    rest += skip;
    made++;
    if (made == lines && *rest) at = with_ellipsis(out, line, at, out_size, size, bold, width);
  }
  out[at] = '\0';
  return made;
}

kvr_word kvr_count(double value) {
  kvr_word w;
  if (!isfinite(value)) {
    strcpy(w.text, "unknown");
  } else if (fabs(value) < 1e7 && value == floor(value)) {
    long n = labs((long)value);
    const char *sign = value < 0 ? "-" : "";
    if (n >= 1000000)
      (void)snprintf(w.text, sizeof w.text, "%s%ld,%03ld,%03ld", sign, n / 1000000, n / 1000 % 1000,
                     n % 1000);
    else if (n >= 1000) (void)snprintf(w.text, sizeof w.text, "%s%ld,%03ld", sign, n / 1000, n % 1000);
    else (void)snprintf(w.text, sizeof w.text, "%s%ld", sign, n);
  } else {
    return kvr_si(value, "");
  }
  return w;
}

kvr_word kvr_tokens(double value) {
  int power;
  if (!(value >= 1024 && value <= 0x1p40) || frexp(value, &power) != 0.5) return kvr_count(value);
  kvr_word w;
  power--; /* value is 2^power */
  (void)snprintf(w.text, sizeof w.text, "%d%c", 1 << power % 10, " kMGT"[power / 10]);
  return w;
}

kvr_word kvr_amount(double value) {
  kvr_word w;
  if (isfinite(value) && fabs(value) >= 999.5 && fabs(value) < 1e7) {
    double step = pow(10, floor(log10(fabs(value))) - 2);
    return kvr_count(round(round(value / step) * step));
  }
  (void)snprintf(w.text, sizeof w.text, "%.3g", value);
  return isfinite(value) ? w : kvr_count(value);
}

static kvr_word scaled(double value, double base, const char *const *prefix, size_t prefixes,
                       const char *unit) {
  kvr_word w;
  size_t p = 0;
  if (!isfinite(value)) {
    strcpy(w.text, "unknown");
    return w;
  }
  while (fabs(value) >= 999.5 && p + 1 < prefixes) {
    value /= base;
    p++;
  }
  bool bare = !*prefix[p] && !*unit;
  int decimals = fabs(value) >= 99.95 || (p == 0 && value == floor(value)) ? 0 : fabs(value) >= 9.995 ? 1 : 2;
  (void)snprintf(w.text, sizeof w.text, "%.*f%s%s%.16s", decimals, value, bare ? "" : " ", prefix[p], unit);
  return w;
}

kvr_word kvr_bytes(double value) {
  if (value >= 0 && value < 10240 && value == floor(value)) { /* a row's size is quoted in bytes */
    kvr_word w = kvr_count(value);
    strcat(w.text, " B");
    return w;
  }
  static const char *const prefix[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi"};
  return scaled(value, 1024, prefix, 6, "B");
}

kvr_word kvr_si(double value, const char *unit) {
  static const char *const prefix[] = {"", "k", "M", "G", "T", "P", "E"};
  return scaled(value, 1000, prefix, 7, unit);
}

kvr_word kvr_time(double seconds) {
  static const char *const unit[] = {"s", "ms", "us", "ns"};
  kvr_word w;
  size_t u = 0;
  if (!isfinite(seconds)) return kvr_si(seconds, "s");
  while (u < 3 && fabs(seconds) < 0.9995) {
    seconds *= 1000;
    u++;
  }
  (void)snprintf(w.text, sizeof w.text, "%.*f %s",
                 seconds >= 99.95   ? 0
                 : seconds >= 9.995 ? 1
                                    : 2,
                 seconds, unit[u]);
  return w;
}
