/* moves.h - exchanges of slots (KVT_MOVE), gathered, and what becomes of lists of slots through them. */
#ifndef KVS_MOVES_H
#define KVS_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "kv_status.h"

typedef struct kvs_moves {
  int32_t *now;     /* [slots] where what was in this slot is now; 0: still here */
  int32_t *origin;  /* [slots] where what is in this slot came from; 0: from here */
  int32_t *touched; /* [slots] slots with an entry, so that clearing is cheap */
  uint32_t touched_n, slots;
  int32_t half;     /* the first slot of a pair whose second one has not come yet, 0 none */
} kvs_moves;

/* `slots`: slot numbers below it may be exchanged; 0 is none. KV_ERR_MEMORY. */
kv_status kvs_moves_init(kvs_moves *moves, uint32_t slots, kv_error *err);
void kvs_moves_free(kvs_moves *moves);
/* The contents of a and b change places, after all exchanges before. */
void kvs_moves_exchange(kvs_moves *moves, int32_t a, int32_t b);
/* Rewrites a list of slots to where their contents are now. False when nothing changed. */
bool kvs_moves_apply(const kvs_moves *moves, int32_t *slots, uint64_t n);
/* Forgets the exchanges. */
void kvs_moves_clear(kvs_moves *moves);

#endif
