/* serving_text.h - what a request's tokens are, without the tokens: stretches of consecutive token numbers.
 *
 * A workload says which 512-token blocks prompts share and how long answers are, so a request's tokens are a few dozen
 * stretches, and two requests are compared stretch by stretch.
 */
#ifndef KVS_SERVING_TEXT_H
#define KVS_SERVING_TEXT_H

#include <stdint.h>

#include "kv_status.h"

/* Positions from `at` to the next span's hold the tokens base, base + 1, ... */
typedef struct kvs_span {
  uint32_t at;
  int64_t base;
} kvs_span;

typedef struct kvs_text {
  kvs_span *span; /* owned, ascending; the first begins at 0 */
  uint32_t spans, room;
  uint32_t length; /* tokens */
} kvs_text;

/* Appends `length` tokens base, base + 1, ... (joined to the last span where they continue it). KV_ERR_MEMORY. */
kv_status kvs_text_append(kvs_text *text, int64_t base, uint32_t length, kv_error *err);
/* Appends tokens from..to-1 of `other`; to <= other->length. */
kv_status kvs_text_append_part(kvs_text *text, const kvs_text *other, uint32_t from, uint32_t to, kv_error *err);
void kvs_text_free(kvs_text *text);

/* Token at `position` < length. */
int64_t kvs_text_token(const kvs_text *text, uint32_t position);
/* Tokens that agree from position `from` on, at most `most`, and none behind either end. */
uint32_t kvs_text_common(const kvs_text *a, const kvs_text *b, uint32_t from, uint32_t most);

#endif
