/* roofline_gpu.h - which GPU a command is about: what --gpu names, or the card that is here. */
#ifndef ROOFLINE_GPU_H
#define ROOFLINE_GPU_H

#include "gpu.h"

typedef struct roofline_gpu {
  kvm_gpus all;       /* every description; with a file of the user's own, that one */
  const kvm_gpu *gpu; /* in all */
  char note[200];     /* for the first line: "; no such card here", ... */
} roofline_gpu;

/* name NULL: the first card of this machine that is described, KV_ERR_DEVICE without one. An architecture
 * (sm_120) means the card of that architecture that is here, else its default. A name that ends in .ini is a
 * file. roofline_gpu_free() in any case. */
kv_status roofline_gpu_choose(const char *name, roofline_gpu *chosen, kv_error *err);
void roofline_gpu_free(roofline_gpu *chosen);

/* The descriptions that come with the program. */
kv_status roofline_gpus(kvm_gpus *gpus, kv_error *err);

#endif
