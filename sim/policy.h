/* policy.h - what an allocation policy is, and the world it acts in.
 *
 * A recorded trace fixes a schedule: which tokens exist when, which request holds which of them. It holds no matter
 * where the tokens lie, so a token is known by its identity, the slot number that the recording gave it (unique
 * while the token lives), and the policy says where it lies instead:
 *
 *     where[identity] -> the policy's slot      (or KVS_EVICTED: alive in the recording, dropped early here;
 *                                                or KVS_NO_TOKEN: that recorded slot holds nothing now)
 *
 * Rows of requests are lists of identities; a prefix hit refers to identities. A policy that drops a cached token
 * before the recording did makes a later hit on it a miss: the request brings the token back (`refilled`), as a
 * server would recompute it.
 *
 * A policy is a table of functions. Its units are slots, or pages where placement is KVS_PAGES. Slot numbers of a policy run
 * from `page_size` to page_size + capacity - 1 (page 0 is padding), as in a trace.
 */
#ifndef KVS_POLICY_H
#define KVS_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "freelist.h"
#include "trace.h"

#define KVS_EVICTED (-1)
#define KVS_NO_TOKEN (-2)
#define KVS_UNLINKED (-2) /* of `next`: not in the list of idle tokens */

typedef enum kvs_placement {
  KVS_TOKENS,  /* a slot a token, wherever the policy says */
  KVS_COMPACT, /* the same, and a verify block's slots stay with the request: accepted rows are moved to its front */
  KVS_PAGES    /* position p of a row lies at offset p mod page_size of a page that only one branch fills */
} kvs_placement;

/* A request that has arrived. */
typedef struct kvs_holder {
  int32_t request;
  bool running;
  int32_t *token;          /* [owned] identities by position; the first `rows` are committed */
  uint32_t rows, owned, room;
  uint64_t breaks;         /* neighbours among the committed rows that do not lie in neighbouring slots */
  bool stale;              /* breaks must be counted anew: something was moved */
  int32_t *block;          /* open verify block: identities */
  uint32_t block_n, block_room;
  int32_t *spare;          /* KVS_COMPACT: slots behind the row; KVS_PAGES: whole pages behind it */
  uint32_t spare_n, spare_room;
  int32_t tail_page;       /* KVS_PAGES: the page that the row's last, partial group lies in; -1: none of its own */
  uint32_t reach;          /* KVS_PAGES: positions that have a slot, >= owned */
  uint32_t cursor;         /* relocation: positions already looked at */
  uint32_t bound_shared, bound_groups; /* oracle: blocks of 64 shared with others, and whole ones, when last counted */
  bool bound_counted;
} kvs_holder;

struct kvs_policy;

/* What happened so far; slots unless said otherwise. */
typedef struct kvs_tally {
  uint64_t allocated, freed;  /* as recorded: the slot operations of the schedule */
  uint64_t moved;             /* rows copied to another slot by relocation */
  uint64_t copied;            /* accepted rows of verify blocks copied to their place */
  uint64_t tails;             /* pages, draft_topk > 1: rows at the end of a row's last page, copied in the draft model's cache */
  uint64_t evicted;           /* cached tokens dropped before the recording did */
  uint64_t refilled;          /* tokens recomputed: hits on dropped ones, and hits cut to whole pages */
  uint64_t mismatches;        /* slots that differ from the recording's (as-recorded) */
  uint64_t passes;            /* full passes of relocation */
} kvs_tally;

typedef struct kvs_policy_settings {
  uint32_t capacity;        /* slots, cut to whole pages; 0: the recording's pool */
  double low_water, high_water; /* low-water: evict below so much of the pool is free, up to so much (0.05, 0.10) */
  double scatter_limit;     /* relocate-full: broken neighbours / rows that starts a pass (0.05) */
  uint32_t pass_gap;        /* relocate-full: steps between passes at least (64) */
  uint32_t budget;          /* relocate-step, relocate-idle: rows moved a step at most (512) */
  uint32_t draft_topk;      /* branches of a draft: with pages each but the first needs a copy of the row's last, partial page (1) */
} kvs_policy_settings;
kvs_policy_settings kvs_policy_settings_default(void);

typedef struct kvs_world {
  const struct kvs_policy *policy;
  kvs_policy_settings settings;
  kvt_info info;            /* of the recording */
  kvs_placement placement;
  uint32_t page_size, capacity; /* of the policy */
  bool identity;            /* tokens stay where they were recorded (as-recorded with allocator `other`, oracle) */
  bool follow;              /* hold every slot against the recording */
  int32_t *where;           /* [first_slot + pool_size] by identity */
  uint16_t *refs;           /* [...] rows of running requests that hold the token */
  int32_t *next, *previous; /* idle tokens (alive, nobody runs on them), least recently used first; where evicting */
  int32_t idle_first, idle_last;
  int32_t *tenant;          /* [page_size + capacity] by the policy's slot: identity or -1; where moving */
  uint16_t *page_live;      /* KVS_PAGES [pages + 1]: tokens that lie in the page */
  uint16_t *page_filled;    /* KVS_PAGES: slots of the page that were ever used since it was taken */
  uint64_t *page_pinned;    /* KVS_PAGES, bits: a running request writes here */
  uint16_t *page_held;      /* vLLM's queue: tokens of the page that rows hold; with none the page is in the queue */
  uint64_t queued;          /* vLLM's queue: tokens that lie in queued pages */
  kvs_holder **running;     /* in order of start */
  uint32_t running_n;
  uint64_t resident;        /* tokens with a slot */
  uint32_t step;
  kvs_tally tally;
  bool fits;                /* false: the schedule needed more than the policy could make room for */
  uint32_t short_step, short_units;
  int32_t *scratch;         /* [scratch_room] for one event */
  uint32_t scratch_room;
  int32_t *victims;         /* [victims_room] identities being dropped */
  uint32_t victims_room;
  int32_t *moves;           /* with tell: pairs of slots exchanged since the step ended */
  uint32_t moves_n, moves_room;
  int32_t *queue;           /* relocate-idle: identities waiting, a ring of pool_size */
  uint32_t queue_first, queue_n;
  int32_t queue_before;     /* slot of the identity taken from the queue last, -1 none */
  uint32_t last_pass;
  kvs_freelist list;        /* of policies that keep SGLang's lists */
  uint64_t *free_bits, *free_words; /* of policies that keep a set: bit a slot, bit a word that is not 0 */
  uint32_t free_n, free_low;
  kvt_event current;        /* the recorded event being worked on; its slots are identities */
  /* What the policy did, as events of a trace; NULL: nobody asks. */
  kv_status (*tell)(void *arg, const kvt_event *event, kv_error *err);
  void *tell_arg;
  kv_status tell_status;
  kv_error *err;
} kvs_world;

typedef struct kvs_policy {
  const char *name;      /* "need-sort" */
  const char *summary;   /* one line */
  kvs_placement placement;
  uint32_t page_size;    /* 0: the recording's */
  bool evicts;           /* may drop idle tokens early, so it needs their order */
  bool moves;            /* needs to know who lies in a slot */
  bool costs_nothing;    /* a bound, not a policy one could run */
  /* Everything free, in the order of `initial` where that is not NULL (n units). May change placement, page_size
   * and identity of the world. Memory is the world's (list, free_bits). */
  kv_status (*open)(kvs_world *world, const int32_t *initial, uint32_t n, kv_error *err);
  void (*begin_call)(kvs_world *world, uint32_t slots, uint32_t requests, bool decode); /* may be NULL */
  /* Hands out n units in order; the world has made sure that there are as many. */
  void (*take)(kvs_world *world, uint32_t n, int32_t *out);
  void (*give)(kvs_world *world, const int32_t *units, uint32_t n);
  void (*end_group)(kvs_world *world); /* may be NULL: what the allocator sees as one free ends */
  uint32_t (*available)(const kvs_world *world); /* units */
  void (*step_end)(kvs_world *world);  /* may be NULL: the step is done, the next not begun: move, evict */
  void (*finished)(kvs_world *world, const kvs_holder *holder); /* may be NULL: its tokens fall idle now */
} kvs_policy;

/* All of them, as-recorded first, the oracle last. vllm needs `moves` to know what it evicts with a page. */
extern const kvs_policy kvs_policy_as_recorded, kvs_policy_fifo, kvs_policy_need_sort, kvs_policy_sorted,
    kvs_policy_lifo, kvs_policy_low_water, kvs_policy_compact, kvs_policy_pages_16, kvs_policy_pages_32,
    kvs_policy_pages_64, kvs_policy_vllm, kvs_policy_relocate_full, kvs_policy_relocate_step, kvs_policy_relocate_idle,
    kvs_policy_oracle;
#define KVS_POLICIES 15u
extern const kvs_policy *const kvs_policies[KVS_POLICIES];
/* NULL for a name that is none. */
const kvs_policy *kvs_policy_find(const char *name);

/* ---- the world, for policies (world.c) ---- */

/* KV_ERR_USAGE for settings that cannot be meant (a pool of less than a page or more than 2^30 slots). */
kv_status kvs_world_init(kvs_world *world, const kvs_policy *policy, const kvs_policy_settings *settings,
                         const kvt_info *info, const int32_t *initial, kv_error *err);
void kvs_world_fini(kvs_world *world);
/* Everything empty again. */
kv_status kvs_world_clear(kvs_world *world, kv_error *err);

/* Makes sure that `units` can be taken, evicting idle tokens where the policy may; false (and fits = false) if not. */
bool kvs_world_ensure(kvs_world *world, uint32_t units);
/* Drops up to n idle tokens, least recently used and deepest first; returns how many. They go back to the allocator the
 * other way round: a row's tokens in their order, as SGLang frees a leaf. */
uint32_t kvs_world_evict(kvs_world *world, uint32_t n);
/* Moves token `identity` to `slot`; who lies there, if anybody, takes its place. Counts the copies (2 for an exchange,
 * 1 to a free slot). For sets of free slots only. */
void kvs_world_swap(kvs_world *world, int32_t identity, int32_t slot);
/* The policy's slot of position p of a row. */
int32_t kvs_world_slot(const kvs_world *world, const kvs_holder *holder, uint32_t position);
/* Counts the breaks of the committed rows anew. */
void kvs_world_recount(const kvs_world *world, kvs_holder *holder);
/* All running rows are stale. */
void kvs_world_stale(kvs_world *world);
/* Tells an event, if anybody listens; its slots are the policy's. Failures are kept in tell_status. */
void kvs_world_tell(kvs_world *world, kvt_kind kind, int32_t request, uint32_t position, const int32_t *slots, uint32_t n,
                    int32_t length, int32_t aux);
/* Begins an allocator call of the policy's own, for n slots of one request that the recording did not need. */
void kvs_world_own_call(kvs_world *world, int32_t request, uint32_t n);
void kvs_world_link_idle(kvs_world *world, int32_t identity);
void kvs_world_unlink_idle(kvs_world *world, int32_t identity);
/* One more row, or one fewer, holds the token: it leaves or joins the idle ones, and its page vLLM's queue. */
void kvs_world_hold(kvs_world *world, int32_t identity);
void kvs_world_let_go(kvs_world *world, int32_t identity);
/* vLLM's queue: the page joins it if no row holds any of its tokens and nobody writes there. */
void kvs_world_queue_page(kvs_world *world, int32_t page);
/* Room for n more entries in a list of a holder. KV_ERR_MEMORY. */
kv_status kvs_reserve(int32_t **list, uint32_t *room, uint64_t n, kv_error *err);

/* ---- a set of free slots, lowest first (policy_sorted.c) ---- */

kv_status kvs_free_set_open(kvs_world *world, const int32_t *initial, uint32_t n, kv_error *err);
void kvs_free_set_take(kvs_world *world, uint32_t n, int32_t *out);
void kvs_free_set_give(kvs_world *world, const int32_t *units, uint32_t n);
uint32_t kvs_free_set_available(const kvs_world *world);
void kvs_free_set_put(kvs_world *world, int32_t slot, bool is_free);
static inline bool kvs_free_set_has(const kvs_world *w, int32_t slot) {
  return w->free_bits[(uint32_t)slot / 64] >> ((uint32_t)slot % 64) & 1;
}

/* ---- SGLang's lists (policy_fifo.c) ---- */

kv_status kvs_list_open(kvs_world *world, kvt_allocator kind, const int32_t *initial, uint32_t n, kv_error *err);
void kvs_list_begin_call(kvs_world *world, uint32_t slots, uint32_t requests, bool decode);
void kvs_list_take(kvs_world *world, uint32_t n, int32_t *out);
void kvs_list_give(kvs_world *world, const int32_t *units, uint32_t n);
void kvs_list_end_group(kvs_world *world);
uint32_t kvs_list_available(const kvs_world *world);

/* ---- placing tokens (place.h has the tables) ---- */

/* What becomes of the schedule's events under a placement. `tokens`: identities. `n` <= the pool. */
typedef struct kvs_placer {
  /* New tokens behind the row (owned, committed too when `commit`). */
  kv_status (*append)(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n, bool commit);
  kv_status (*tree)(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n);
  kv_status (*commit)(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n);
  /* Tokens that nobody needs any more; where[] is still set. */
  kv_status (*release)(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n, kvt_free_reason reason);
  /* A prefix hit: tokens are appended to an empty or growing row; dropped ones are brought back. */
  kv_status (*hit)(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n);
  /* The holder stops running: refs are counted down, its tokens idle, its row still there. */
  kv_status (*leave)(kvs_world *world, kvs_holder *holder);
  /* Cached tokens are dropped early. KV_ERR_MEMORY only. */
  kv_status (*drop)(kvs_world *world, const int32_t *tokens, uint32_t n);
} kvs_placer;
extern const kvs_placer kvs_place_tokens, kvs_place_compact, kvs_place_pages;
const kvs_placer *kvs_placer_of(const kvs_world *world);

/* Shared by placers. KV_END: the policy could not make room (fits = false); the simulation ends there.
 * kvs_row_add: appends committed or owned tokens whose where[] is set, counting breaks. */
kv_status kvs_row_add(kvs_world *world, kvs_holder *holder, const int32_t *tokens, uint32_t n, bool commit);
/* Takes n slots for tokens (or the recorded ones with `identity`) and sets where[], tenant[], resident. */
kv_status kvs_settle(kvs_world *world, const int32_t *tokens, uint32_t n);
/* Commits `n` more of the owned tokens. */
void kvs_row_commit(kvs_world *world, kvs_holder *holder, uint32_t n);

#endif
