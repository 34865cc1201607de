/* card.h - which NVIDIA cards this machine has, as its driver tells in /proc; needs no CUDA. */
#ifndef KVA_CARD_H
#define KVA_CARD_H

#include <stddef.h>

#include "kv_status.h"

#define KVA_PROC_CARDS "/proc/driver/nvidia/gpus"

/* The product name of the card number `index` (folders of `proc` in order): "NVIDIA H200". KV_END when there
 * are no more, or no driver. */
kv_status kva_card_name(const char *proc, unsigned index, char *name, size_t size);

#endif
