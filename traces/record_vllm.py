#!/usr/bin/env python3
"""Records what a running vLLM server (V1 engine) does with its KV blocks, as kvtrace-1 segments.

    KVROOF_RECORD=/data/run1 python3 record_vllm.py --model M --port 8000 ...
    kvsim import --segments /data/run1.dp0 -o run1.h5

Started like that, this file installs its hooks, then runs vLLM's API server with the arguments given. Where the server is started in
another way (`vllm serve`), `import record_vllm` in every process of it (a sitecustomize.py does) is enough; without KVROOF_RECORD in
the environment nothing at all happens.

What it does: when the engine's Scheduler has been built, the methods of *its* KVCacheManager and BlockPool are wrapped. A wrapper
notes which blocks a request got, found in the cache or gave back; a thread turns that into events and writes a numbered segment
every few seconds (PREFIX.dpN.000000.h5, ...), as record_sglang.py does, whose writer and ends it uses: keep both files together.

Blocks are pages of block_size slots: block b holds slots b * block_size and up, block 0 is vLLM's null block. A block that holds cached
tokens stays allocated in the trace when its last request ends, although vLLM has it in its queue of free blocks: it is freed (evict)
when the pool hands it out again. With speculation the slots of drafts and lookahead are allocated ahead and committed when the next step
or the request's end shows what was accepted. A step with any prefill in it is a prefill step.

What cannot be recorded truthfully is refused with one line on stderr, and the server runs on without a recorder.
Environment as for record_sglang.py. Needs h5py and numpy. Licence: Apache-2.0.
"""

import os
import runpy
import socket
import sys
import time

import record_sglang as base
from record_sglang import (AHEAD, ARRIVE, COMMIT, DECODE, DECODE_STEP, DRAIN, EVICT, EXTEND, FINISH, FREE, OVER, PREFILL_STEP, RETRACT, RETRACTED,
                           START, STEP, TAIL, Refused, say)

OLDEST = (0, 9, 2)
SPECS = ("FullAttentionSpec", "MLAAttentionSpec")
MANAGERS = ("FullAttentionManager",)

# ---------------------------------------------------------------------------------------------------------------------
# The thread: from notes to events
# ---------------------------------------------------------------------------------------------------------------------


class Row:
    """The blocks of a request; it has slots up to `allocated`, the first `committed` are valid."""

    __slots__ = ("request", "blocks", "committed", "allocated", "started")

    def __init__(self, request):
        self.request, self.blocks = request, []
        self.committed = self.allocated = 0
        self.started = False


class Translator(base.Translator):
    """Turns the notes of one step after the other into events. A row's slots follow from its blocks."""

    def __init__(self, np, page_size):
        super().__init__(np, page_size)
        self.cached = set()  # blocks that hold cached tokens and no request
        self.lookahead, self.longest = 0, 1 << 30  # slots behind drafts, tokens of the longest row
        self.groups = 0

    def iteration(self, end):
        notes, self.open = self.open, []
        for n in notes:
            if n[0] == "arrive":
                self.do_arrive(*n[1:])
        acts = [n for n in notes if n[0] != "arrive"]
        if not acts:
            return
        _, at, available, running, waiting = end
        grown = [g for n in acts if n[0] == "slots" for g in n[1]]
        tokens = sum(g[2] for g in grown)
        kind = DRAIN if not grown else PREFILL_STEP if any(self.prefills(g) for g in grown) else DECODE_STEP
        self.columns.one(STEP, aux=kind)
        self.steps.append((at, running, tokens, available, -1, -1, waiting))
        for n in acts:
            getattr(self, "do_" + n[0])(*n[1:])

    def prefills(self, growth):
        return growth[1] < self.requests[growth[0]][0] or growth[6] is not None

    def do_arrive(self, request, prompt, output, ms):
        self.requests.append((prompt, output, ms))
        self.rows[request] = Row(request)
        self.columns.one(ARRIVE, request, length=prompt, aux=output)

    def slots_of(self, row, first, end):
        np, page = self.np, self.page
        if end <= first:
            return np.empty(0, np.int32)
        if end - first <= 4:
            return np.array([row.blocks[p // page] * page + p % page for p in range(first, end)], np.int32)
        blocks = np.array(row.blocks[first // page : (end - 1) // page + 1], np.int32)
        return (blocks[:, None] * page + np.arange(page, dtype=np.int32)).reshape(-1)[first % page : first % page + end - first]

    def pages(self, blocks):
        return (self.np.array(blocks, self.np.int32)[:, None] * self.page + self.np.arange(self.page, dtype=self.np.int32)).reshape(-1)

    def evict(self, blocks):
        gone = [b for b in blocks if b in self.cached]
        if gone:
            self.cached.difference_update(gone)
            self.columns.one(FREE, aux=EVICT, slots=self.pages(gone))

    def do_slots(self, growths):
        """Requests that got slots one after the other. Decodes that go on in a block of their own touch nothing but their row: they
        are told together."""
        page, plain = self.page, []
        for growth in growths:
            request, computed, new, accepted, tokens, blocks, hit = growth
            row = self.rows[request]
            if new == 1 and not blocks and hit is None and row.allocated == row.committed == computed >= self.requests[request][0] and self.reach(computed + 1) == computed + 1:
                plain.append((request, computed, row.blocks[computed // page] * page + computed % page))
                row.committed = row.allocated = computed + 1
            else:
                self.grow(row, computed, new, accepted, tokens, blocks, hit)
        if plain:
            table = self.np.array(plain, self.np.int32)
            self.columns.many(DECODE, table[:, 0], table[:, 1], -1, table[:, 2].copy())

    def reach(self, end):
        """How far slots go for a row of `end` tokens and drafts."""
        return max(end, min(end + self.lookahead, self.longest))

    def grow(self, row, computed, new, accepted, tokens, blocks, hit):
        """Slots for `new` tokens from `computed` on. What is known of the row, all but drafts, is committed."""
        request, end = row.request, computed + new
        known, reach = min(end, tokens), self.reach(end)
        if not row.started:
            row.started, row.blocks, row.committed = True, list(hit), len(hit) * self.page
            row.allocated = row.committed
            self.cached.difference_update(hit)
            self.columns.one(START, request, 0, slots=self.pages(hit) if hit else None)
        row.blocks.extend(blocks)
        if len(row.blocks) * self.page < reach:
            raise Refused("a request has fewer blocks than its tokens need")
        self.evict(blocks)
        if blocks:
            self.announce(max(reach, row.allocated) - row.allocated, 1)
        call = self.call if blocks else -1
        prompt, first = self.requests[request][0], row.allocated
        if first == row.committed and known > first and (first < prompt or reach == known):  # nothing was allocated ahead
            self.columns.one(DECODE if known == first + 1 and first >= prompt else EXTEND, request, first, aux=call,
                             slots=self.slots_of(row, first, known))
            row.committed = row.allocated = first = known
        if reach > first:
            self.columns.one(AHEAD, request, first, aux=call, slots=self.slots_of(row, first, reach))
            row.allocated = reach
        self.commit(row, max(known, accepted))

    def commit(self, row, length):
        length = min(length, row.allocated)
        if length > row.committed:
            self.columns.one(COMMIT, row.request, row.committed, length - row.committed)
            row.committed = length

    def do_ends(self, request, accepted, finished, blocks, cached):
        """All of a row's blocks, in the order of their release: (block, holds cached tokens) of those that nobody holds any more."""
        row = self.rows.get(request)
        if row is None or not row.started:
            return
        self.commit(row, accepted)
        place = {b: i for i, b in enumerate(row.blocks)}
        kept = [place[b] for b, c in zip(blocks, cached) if c]
        if kept != sorted(kept, reverse=True):
            raise Refused("a request's cached blocks were not released last first")
        group, self.groups = self.groups, self.groups + 1
        for b, c in zip(blocks, cached):
            if c:
                self.cached.add(b)
                continue
            first = place[b] * self.page
            end = min(first + self.page, row.allocated)
            if end > max(first, row.committed):
                self.give(request, group, OVER, row, max(first, row.committed), end)
            if row.committed > first:
                self.give(request, group, TAIL if finished else RETRACTED, row, first, min(end, row.committed))
        self.columns.one(FINISH if finished else RETRACT, request, row.committed)
        if finished:
            del self.rows[request]
        else:
            self.rows[request] = Row(request)

    def give(self, request, group, reason, row, first, end):
        if reason == OVER:
            row.allocated = first
        self.columns.one(FREE, request, length=group, aux=reason, slots=self.slots_of(row, first, end))

    def do_uncache(self, blocks):
        self.evict(sorted(self.cached) if blocks is None else blocks)


# ---------------------------------------------------------------------------------------------------------------------
# The hooks: in the engine's thread
# ---------------------------------------------------------------------------------------------------------------------


def frees_to_front(pool, caching):
    """Whether this version's pool puts blocks without cached tokens at the queue's head: seen by letting it free one of nobody's."""

    class Queue:
        front = None

        def prepend_n(self, blocks):
            self.front = True if blocks else self.front

        def append_n(self, blocks):
            self.front = False if blocks else self.front

        def append(self, block):
            self.front = False

    class Block:
        ref_cnt, is_null, block_hash, pool, block_id = 1, False, None, None, 1

        def decr_ref(self):
            self.ref_cnt -= 1

    class Pool:
        enable_caching, free_block_queue, metrics_collector = caching, Queue(), None

    try:
        pool.free_blocks(Pool, [Block()])
    except Exception as error:
        raise Refused(f"how {pool.__name__}.free_blocks orders what it frees cannot be seen ({type(error).__name__}: {error})")
    if Pool.free_block_queue.front is None:
        raise Refused(f"{pool.__name__}.free_blocks puts what it frees nowhere that is known")
    return Pool.free_block_queue.front


class Recorder(base.Recording):
    """Wraps what one Scheduler uses."""

    def __init__(self, scheduler, prefix, seconds=5.0, most=32 << 20, version=None):
        base.program = "record_vllm"
        self.scheduler = scheduler
        self.manager = getattr(scheduler, "kv_cache_manager", None)
        self.check(version)
        self.began = time.monotonic()
        self.numbers, self.known = {}, 0  # by request_id
        self.started = {}  # request_id: number
        self.ending = None  # request whose blocks are being given back
        self.popped = {}  # last block -> an ended request whose blocks come back later
        self.stopped = False
        self.writer = base.Writer(prefix, self.describe(version), self.first_list(), seconds, most, Translator)
        self.writer.translator.lookahead = int(getattr(scheduler, "num_lookahead_tokens", 0))
        self.writer.translator.longest = int(self.manager.max_model_len)
        self.push = self.writer.push
        self.drafts = bool(getattr(scheduler, "num_spec_tokens", 0))
        self.grown = []  # of this step, since the last note
        self.wrap_all()
        self.writer.start()

    # -- what can be recorded

    def check(self, version):
        if version is not None and version < OLDEST:
            raise Refused(f"vLLM {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}")
        coordinator = getattr(self.manager, "coordinator", None)
        managers = getattr(coordinator, "single_type_managers", None)
        self.pool = getattr(self.manager, "block_pool", None)
        if managers is None or self.pool is None:
            raise Refused("the scheduler has no KVCacheManager with a coordinator and a block_pool (V1 engine)")
        if type(self.pool).__name__ != "BlockPool":
            raise Refused(f"the block pool {type(self.pool).__name__} is not the one this recorder knows (BlockPool)")
        if len(managers) != 1:
            raise Refused(f"the model has {len(managers)} groups of layers with blocks of their own (hybrid KV cache)")
        self.blocks = managers[0]
        spec = type(getattr(self.blocks, "kv_cache_spec", None)).__name__
        if type(self.blocks).__name__ not in MANAGERS or spec not in SPECS:
            raise Refused(f"{type(self.blocks).__name__} with {spec}: only {', '.join(MANAGERS)} with {', '.join(SPECS)} keep a row's blocks to its end")
        self.page = int(self.blocks.kv_cache_spec.block_size)
        if int(self.blocks.block_size) != self.page:
            raise Refused("context parallelism spreads a block over several GPUs")
        if getattr(coordinator, "enable_partial_hash_hits", False):
            raise Refused("prefix hits that end inside a block are copied")
        if getattr(self.scheduler, "connector", None) is not None:
            raise Refused("a KV connector allocates and frees outside the scheduler's steps")
        for owner, names in ((self.manager, ("allocate_slots", "free")), (self.pool, ("free_blocks", "get_new_blocks", "touch", "get_num_free_blocks")),
                             (self.scheduler, ("schedule", "add_request"))):
            missing = [n for n in names if not callable(getattr(owner, n, None))]
            if missing:
                raise Refused(f"{type(owner).__name__} has no {', '.join(missing)}")
        if self.pool.null_block.block_id != 0:
            raise Refused("the null block is not block 0")
        if self.pool.get_num_free_blocks() != self.pool.num_gpu_blocks - 1:
            raise Refused("blocks are in use already")

    def describe(self, version):
        front = frees_to_front(type(self.pool), bool(self.manager.enable_caching))
        text = ".".join(map(str, version)) if version else "of unknown version"
        return {"Conventions": "kvtrace-1", "creator": "record_vllm.py", "creator_version": "1", "HDF5_Version": "h5py",
                "host": socket.gethostname(), "history": " ".join(sys.argv), "allocator": "vllm-front" if front else "vllm",
                "pool_size": (int(self.pool.num_gpu_blocks) - 1) * self.page, "page_size": self.page, "source": "",
                "origin": f"recorded: vLLM {text}, {type(self.pool).__name__}, {type(self.blocks).__name__}, a running server"}

    def queue(self):
        return [b.block_id for b in self.pool.free_block_queue.get_all_free_blocks()]

    def first_list(self):
        import numpy

        queue = self.queue()
        return None if queue == list(range(1, len(queue) + 1)) else numpy.array(queue)

    # -- wrappers

    def wrap_all(self):
        self.wrap(self.scheduler, "schedule", self.wrapped_schedule)
        self.wrap(self.scheduler, "add_request", self.wrapped_add)
        self.wrap(self.manager, "allocate_slots", self.wrapped_allocate)
        self.wrap(self.manager, "free", self.wrapped_end)
        self.wrap(self.manager, "pop_blocks_for_free", self.wrapped_pop)
        self.wrap(self.pool, "free_blocks", self.wrapped_free)
        self.wrap(self.pool, "evict_blocks", self.wrapped_evict)
        self.wrap(self.pool, "reset_prefix_cache", self.wrapped_reset)
        self.wrap(self.pool, "unpin_blocks", lambda f: self.unknown(f, "blocks that a copy still reads were given back"))

    def wrapped_schedule(self, original):
        def schedule(*args, **kwargs):
            self.end_iteration()
            return original(*args, **kwargs)

        return schedule

    def wrapped_add(self, original):
        def add_request(request, *args, **kwargs):
            self.number(request)
            return original(request, *args, **kwargs)

        return add_request

    def number(self, request):
        n = self.numbers.get(request.request_id)
        if n is None:
            n = self.numbers[request.request_id] = self.known
            self.known += 1
            most = getattr(request, "max_tokens", None)
            self.push(("arrive", n, int(request.num_prompt_tokens), int(most) if most is not None else -1, int((time.monotonic() - self.began) * 1000)))
        return n

    @staticmethod
    def accepted(request):
        """Tokens whose place is certain: what runs ahead (asynchronous scheduling) may still be rejected."""
        return request.num_computed_tokens - getattr(request, "num_output_placeholders", 0)

    def wrapped_allocate(self, original):
        started, rows, drafts, none = self.started, self.blocks.req_to_blocks, self.drafts, 1 << 30

        def allocate_slots(request, num_new_tokens, *args, **kwargs):
            result = original(request, num_new_tokens, *args, **kwargs)
            if result is None or self.stopped:
                return result
            blocks, name, hit, computed = result.blocks[0], request.request_id, None, request.num_computed_tokens
            if blocks:
                blocks = [b.block_id for b in blocks]
            n = started.get(name)
            if n is None:
                n = started[name] = self.number(request)
                hit = [b.block_id for b in rows[name][: len(rows[name]) - len(blocks)]]
                computed = len(hit) * self.page
            self.grown.append((n, computed, num_new_tokens, self.accepted(request) if drafts else 0, request.num_tokens if drafts else none, blocks, hit))
            return result

        return allocate_slots

    def flush(self):
        if self.grown:
            grown, self.grown = self.grown, []
            self.push(("slots", grown), len(grown) * self.page)

    def wrapped_end(self, original):
        def free(request, *args, **kwargs):
            self.ending = self.end_of(request)
            try:
                return original(request, *args, **kwargs)
            finally:
                self.ending = None

        return free

    def end_of(self, request):
        if request.request_id not in self.started:
            return None
        del self.started[request.request_id]
        finished = request.is_finished()
        n = self.numbers.pop(request.request_id) if finished else self.numbers[request.request_id]
        return n, self.accepted(request), finished

    def wrapped_pop(self, original):
        def pop_blocks_for_free(request, *args, **kwargs):
            blocks = original(request, *args, **kwargs)
            if self.ending is None and blocks:
                self.popped[blocks[-1].block_id] = self.end_of(request)
            return blocks

        return pop_blocks_for_free

    def wrapped_free(self, original):
        def free_blocks(ordered_blocks, *args, **kwargs):
            blocks = list(ordered_blocks)
            if blocks and not self.stopped:
                ending = self.ending or self.popped.pop(blocks[0].block_id, None)
                if ending is None:
                    self.stop_recording("blocks were given back that no request's end explains")
                else:
                    caching = self.pool.enable_caching
                    self.flush()
                    last = [b for b in blocks if b.ref_cnt == 1 and not b.is_null]
                    self.push(("ends", *ending, [b.block_id for b in last], [caching and b.block_hash is not None for b in last]), len(last))
            return original(blocks, *args, **kwargs)

        return free_blocks

    def wrapped_evict(self, original):
        def evict_blocks(block_ids, *args, **kwargs):
            self.flush()
            self.push(("uncache", sorted(block_ids)))
            return original(block_ids, *args, **kwargs)

        return evict_blocks

    def wrapped_reset(self, original):
        def reset_prefix_cache(*args, **kwargs):
            done = original(*args, **kwargs)
            if done:
                self.flush()
                self.push(("uncache", None))
            return done

        return reset_prefix_cache

    def unknown(self, original, what):
        def call(*args, **kwargs):
            self.stop_recording(what)
            return original(*args, **kwargs)

        return call

    # -- ends

    def end_iteration(self):
        if not self.goes_on():
            return
        self.flush()
        available = self.pool.get_num_free_blocks() * self.page
        self.push(("end", int((time.monotonic() - self.began) * 1e6), available, len(self.scheduler.running), len(self.scheduler.waiting), None))

    def final(self):
        import numpy

        return numpy.array(self.queue(), numpy.int32), numpy.empty(0, numpy.int32)


# ---------------------------------------------------------------------------------------------------------------------
# Getting in
# ---------------------------------------------------------------------------------------------------------------------


def attach(scheduler):
    """Called when a Scheduler has been built. Never raises."""
    prefix = os.environ.get("KVROOF_RECORD")
    if not prefix:
        return None
    parallel = getattr(getattr(scheduler, "vllm_config", None), "parallel_config", None)
    return base.keep(Recorder, scheduler, f"{prefix}.dp{getattr(parallel, 'data_parallel_rank', 0) or 0}", "vllm")


base.install("vllm.v1.core.sched.scheduler", attach)  # spawned processes of the server import this file again, as __mp_main__

if __name__ == "__main__":
    base.program = "record_vllm"
    if not os.environ.get("KVROOF_RECORD"):
        say("set KVROOF_RECORD to a path prefix, e.g. KVROOF_RECORD=/data/run1")
        sys.exit(2)
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__", alter_sys=False)
