#include "serving_text.h"

#include <stdlib.h>

kv_status kvs_text_append(kvs_text *t, int64_t base, uint32_t length, kv_error *err) {
  if (!length) return KV_OK;
  const kvs_span *last = t->spans ? &t->span[t->spans - 1] : NULL;
  if (!last || last->base + (t->length - last->at) != base) {
    if (t->spans == t->room) {
      uint32_t room = t->room ? t->room * 2 : 8;
      kvs_span *grown = realloc(t->span, room * sizeof *grown);
      if (!grown) return kv_fail(err, KV_ERR_MEMORY, "out of memory for the requests' tokens");
      t->span = grown;
      t->room = room;
    }
    t->span[t->spans++] = (kvs_span){t->length, base};
  }
  t->length += length;
  return KV_OK;
}

/* The span that holds `position`. */
static uint32_t find(const kvs_text *t, uint32_t position) {
  uint32_t low = 0, high = t->spans;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (t->span[middle].at <= position)
      low = middle;
    else
      high = middle;
  }
  return low;
}

static uint32_t span_end(const kvs_text *t, uint32_t i) { return i + 1 < t->spans ? t->span[i + 1].at : t->length; }

kv_status kvs_text_append_part(kvs_text *t, const kvs_text *other, uint32_t from, uint32_t to, kv_error *err) {
  kv_status st = KV_OK;
  for (uint32_t i = from < to ? find(other, from) : 0; from < to && !st; i++) {
    uint32_t end = span_end(other, i) < to ? span_end(other, i) : to;
    st = kvs_text_append(t, other->span[i].base + (from - other->span[i].at), end - from, err);
    from = end;
  }
  return st;
}

void kvs_text_free(kvs_text *t) {
  free(t->span);
  *t = (kvs_text){0};
}

int64_t kvs_text_token(const kvs_text *t, uint32_t position) {
  const kvs_span *s = &t->span[find(t, position)];
  return s->base + (position - s->at);
}

uint32_t kvs_text_common(const kvs_text *a, const kvs_text *b, uint32_t from, uint32_t most) {
  uint32_t end = a->length < b->length ? a->length : b->length, at = from;
  if (end > from && end - from > most) end = from + most;
  if (from >= end) return 0;
  if (a == b) return end - from;
  uint32_t i = find(a, from), j = find(b, from);
  while (at < end) {
    if (a->span[i].base - a->span[i].at != b->span[j].base - b->span[j].at) break; /* token at p: base - at + p */
    uint32_t ea = span_end(a, i), eb = span_end(b, j);
    at = ea < eb ? ea : eb;
    i += ea == at;
    j += eb == at;
  }
  return (at < end ? at : end) - from;
}
