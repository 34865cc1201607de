#!/usr/bin/env python3
"""Records what a running SGLang server does with its KV slots, as kvtrace-1 segments.

    KVROOF_RECORD=/data/run1 python3 record_sglang.py --model-path M --port 30000 ...
    kvsim import --segments /data/run1.tp0 -o run1.h5

Started like that, this file installs its hooks, then runs `sglang.launch_server` with the arguments given. Where the
server is started in another way, `import record_sglang` in every process of it (a sitecustomize.py does) is enough; without
KVROOF_RECORD in the environment nothing at all happens.

What it does: when a Scheduler has been built, the methods of *its* allocator, prefix cache and batches are wrapped. A
wrapper notes what was asked and keeps a reference to the tensor of slots that was handed over; a thread copies the slots
to the host when the GPU is done with the step, works out whose they are, and every few seconds writes a numbered segment
(PREFIX.tpR.000000.h5, ... aside and renamed). Each segment is a file of its own, so a server that is killed
loses the seconds since the last one. SIGTERM and a normal exit write the rest and the final free list.

Only rank 0 of a tensor-parallel group is recorded (slots are the same on all ranks); data-parallel ranks get a prefix
each. What cannot be recorded truthfully is refused with one line on stderr, and the server runs on without a recorder.

Environment: KVROOF_RECORD prefix; KVROOF_RECORD_SECONDS between segments (5); KVROOF_RECORD_MOST slots waiting to be
written at most (32 Mi): beyond, recording ends, with a line on stderr.

Needs h5py and numpy beside what the server needs. Licence: Apache-2.0.
"""

import atexit
import collections
import functools
import importlib
import importlib.abc
import importlib.machinery
import os
import re
import runpy
import signal
import socket
import sys
import threading
import time

OLDEST = (0, 4, 3)
WITHOUT_V1 = (0, 5, 14)  # from here on drafts are allocated ahead, overlapped or not

# kvtrace-1 (traces/README.md)
STEP, ARRIVE, START, EXTEND, DECODE, VERIFY, COMMIT, FREE, REMAP, INSERT, DRAFT, FINISH, RETRACT, AHEAD, CALL, CLEAR = range(1, 17)
OTHER, REJECT, DUPLICATE, TAIL, EVICT, OVER, RETRACTED = range(7)
DRAIN, PREFILL_STEP, DECODE_STEP = range(3)

TOKEN_CLASSES = ("TokenToKVPoolAllocator", "MHATokenToKVPool", "MLATokenToKVPool")  # the pools allocate up to 0.4.4
PAGED_CLASSES = ("PagedTokenToKVPoolAllocator",)


class Refused(Exception):
    """The server does something that the format or this recorder has no words for."""


program = "record_sglang"  # record_vllm.py uses the writer too


def say(text):
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def version_of(module):
    """(0, 5, 9) of '0.5.9.post1'; None where it says nothing (a build from source)."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", str(getattr(module, "__version__", "")))
    return tuple(int(x) for x in found.groups()) if found else None


def field(req, name, default=None):
    """An attribute that moved from Req to Req.kv in 0.5.16."""
    kv = getattr(req, "kv", None)
    if kv is not None and hasattr(kv, name):
        return getattr(kv, name)
    return getattr(req, name, default)


# ---------------------------------------------------------------------------------------------------------------------
# The thread: from notes to events to segments
# ---------------------------------------------------------------------------------------------------------------------


class Row:
    """The slots of a request, position by position; the first `committed` are valid."""

    __slots__ = ("slots", "committed", "allocated", "block", "started", "request")

    def __init__(self, np, request):
        self.request = request
        self.slots = np.zeros(1024, np.int32)
        self.committed = self.allocated = 0
        self.block = None  # of a draft tree, not in the row
        self.started = False

    def put(self, np, at, slots):
        end = at + len(slots)
        if end > len(self.slots):
            self.slots = np.concatenate((self.slots, np.zeros(max(end, 2 * len(self.slots)) - len(self.slots), np.int32)))
        self.slots[at:end] = slots


class Columns:
    """Events of a segment. A step's 64 decodes are one block, not 64 rows."""

    NAMES = ("kind", "request", "position", "length", "aux", "count")

    def __init__(self, np):
        self.np = np
        self.blocks, self.slots, self.rows = [], [], []  # rows: single events not yet in a block
        self.events = self.slot_count = 0

    def one(self, kind, request=-1, position=-1, length=-1, aux=-1, slots=None):
        n = 0 if slots is None else len(slots)
        self.rows.append((kind, request, position, length, aux, n))
        self.events += 1
        if n:
            self.slots.append(slots)
            self.slot_count += n

    def many(self, kind, request, position, aux, slots):
        """One slot each."""
        self.flush()
        block = self.np.empty((len(slots), 6), self.np.int32)
        block[:, 0], block[:, 1], block[:, 2], block[:, 3], block[:, 4], block[:, 5] = kind, request, position, -1, aux, 1
        self.blocks.append(block)
        self.slots.append(slots)
        self.events += len(slots)
        self.slot_count += len(slots)

    def flush(self):
        if self.rows:
            self.blocks.append(self.np.array(self.rows, self.np.int32))
            self.rows = []

    def take(self):
        np = self.np
        self.flush()
        table = np.concatenate(self.blocks) if self.blocks else np.empty((0, 6), np.int32)
        slots = np.concatenate(self.slots).astype(np.int32, copy=False) if self.slots else np.empty(0, np.int32)
        self.blocks, self.slots, self.events, self.slot_count = [], [], 0, 0
        return table, slots


class Translator:
    """Turns the notes of one iteration after the other into events. Runs in the writer's thread only."""

    def __init__(self, np, page_size):
        self.np = np
        self.page = page_size
        self.columns = Columns(np)
        self.rows = {}
        self.requests = []  # (input, output, ms)
        self.steps = []
        self.call = 0
        self.open = []  # notes of the iteration, until it ends

    def host(self, tensor):
        array = tensor.detach().to("cpu", copy=False).numpy() if hasattr(tensor, "detach") else tensor
        return array.astype(self.np.int32)

    def note(self, item):
        if item[0] == "end":
            self.iteration(item)
        else:
            self.open.append(item)

    def iteration(self, end):
        """All notes up to an end of iteration: a step, or nothing worth one."""
        notes, self.open = self.open, []
        batch = next((n for n in notes if n[0] == "batch"), None)
        late = [n for n in notes if n[0] == "arrive"]
        acts = [n for n in notes if n[0] not in ("batch", "arrive")]
        for n in late:  # they were in the queue before the step began
            self.do_arrive(*n[1:])
        if batch or acts:
            _, at, available, evictable, protected, waiting = end
            kind, requests, tokens = batch[1:] if batch else (DRAIN, 0, 0)
            self.columns.one(STEP, aux=kind)
            self.steps.append((at, requests, tokens, available, evictable, protected, waiting))
        for n in acts:
            getattr(self, "do_" + n[0])(*n[1:])

    # -- requests

    def do_arrive(self, request, prompt, output, ms):
        self.requests.append((prompt, output, ms))
        self.rows[request] = Row(self.np, request)
        self.columns.one(ARRIVE, request, length=prompt, aux=output)

    def do_extend(self, allocated, parts, starts):
        np, slots = self.np, self.joined(allocated)
        for request, hit in starts:
            row, hit = self.rows[request], self.host(hit)
            row.started, row.committed, row.allocated, row.block = True, len(hit), len(hit), None
            row.put(np, 0, hit)
            self.columns.one(START, request, 0, slots=hit)
        used = [p for p in parts if p[2]]
        self.announce(len(slots), len(used))
        at = 0
        for request, prefix, count in used:
            row, mine = self.rows[request], slots[at : at + count]
            row.put(np, prefix, mine)
            row.committed = row.allocated = prefix + count
            self.columns.one(EXTEND, request, prefix, aux=self.call, slots=mine)
            at += count

    def do_decode(self, allocated, requests):
        slots, rows = self.joined(allocated), [self.rows[r] for r in requests]
        self.announce(len(slots), len(requests))
        position = self.np.array([row.committed for row in rows], self.np.int32)
        for row, slot in zip(rows, slots):
            row.put(self.np, row.committed, (slot,))
            row.committed += 1
            row.allocated = row.committed
        self.columns.many(DECODE, self.np.array(requests, self.np.int32), position, self.call, slots)

    def do_ahead(self, allocated, parts):
        slots, at = self.joined(allocated), 0
        used = [p for p in parts if p[2] > p[1]]
        self.announce(len(slots), len(used))
        for request, before, after in used:
            row, mine = self.rows[request], slots[at : at + after - before]
            row.put(self.np, before, mine)
            row.allocated = after
            self.columns.one(AHEAD, request, before, aux=self.call, slots=mine)
            at += after - before

    def do_committed(self, pairs):
        for request, length in pairs:
            row = self.rows.get(request)
            if row is None or not row.started or length is None or length <= row.committed or length > row.allocated:
                continue
            self.columns.one(COMMIT, request, row.committed, length - row.committed)
            row.committed = length

    # -- draft trees (v1)

    def do_draft(self, count):
        self.columns.one(DRAFT, length=count)

    def do_verify(self, allocated, requests):
        slots = self.joined(allocated)
        each = len(slots) // len(requests)
        self.announce(len(slots), len(requests))
        for i, request in enumerate(requests):
            row, mine = self.rows[request], slots[i * each : (i + 1) * each]
            row.block = mine if row.block is None else self.np.concatenate((row.block, mine))
            self.columns.one(VERIFY, request, row.committed, aux=self.call, slots=mine)

    def do_reject(self, tensor, requests):
        np, slots, at = self.np, self.host(tensor), 0
        for request in requests:  # one free of the whole batch, in its order
            row = self.rows[request]
            if row.block is None or at >= len(slots):
                continue
            mine = np.isin(slots[at:], row.block)
            n = int(mine.argmin()) if not mine.all() else len(mine)
            if n:
                self.columns.one(FREE, request, aux=REJECT, slots=slots[at : at + n])
                row.block = row.block[~np.isin(row.block, slots[at : at + n])]
                at += n
        if at < len(slots):
            self.columns.one(FREE, aux=OTHER, slots=slots[at:])

    def do_settle(self, requests):
        for request in requests:
            row = self.rows[request]
            if row.block is None or not len(row.block):
                continue
            self.columns.one(COMMIT, request, row.committed, len(row.block), slots=row.block)
            row.put(self.np, row.committed, row.block)
            row.committed += len(row.block)
            row.allocated, row.block = row.committed, None

    # -- giving back

    def do_free(self, tensor, reason, request, group, pages, segment=False):
        slots = self.host(tensor)
        if pages:
            slots = (slots[:, None] * self.page + self.np.arange(self.page, dtype=self.np.int32)).reshape(-1)
        row, inline = self.rows.get(request), False
        if reason == TAIL:
            reason, request = self.why(row, slots)
        elif reason == RETRACTED and row is None:  # versions that retract without a word: one free a request
            row, inline = self.owner(slots[0]), True
            request, reason = (row.request, RETRACTED) if row else (-1, OTHER)
        elif reason in (EVICT, OTHER):
            request = -1
        self.columns.one(FREE, request, 0 if segment else -1, length=group, aux=reason, slots=slots)
        if inline and row:  # what is evicted next may have been part of its row
            self.do_retract(request)

    def why(self, row, slots):
        """What of a row a finishing request gives back."""
        if row is None:
            return OTHER, -1
        found = self.np.flatnonzero(row.slots[: row.allocated] == slots[0])
        if not len(found) or not row.started:
            return (OVER, row.request) if row.request not in self.rows or not row.started else (OTHER, -1)
        at = int(found[-1])
        if at >= row.committed:
            return OVER, row.request
        return (TAIL if at + len(slots) >= row.committed else DUPLICATE), row.request

    def owner(self, slot):
        for row in self.rows.values():
            if row.started and (row.slots[: row.allocated] == slot).any():
                return row
        return None

    def do_remap(self, request, tensor):
        row, now = self.rows[request], self.host(tensor)
        n = min(len(now), row.committed)
        changed = self.np.flatnonzero(row.slots[:n] != now[:n])
        if len(changed):
            first, last = int(changed[0]), int(changed[-1]) + 1
            row.put(self.np, first, now[first:last])
            self.columns.one(REMAP, request, first, slots=now[first:last])

    def do_insert(self, request, had, length):
        if request in self.rows and self.rows[request].started:
            self.columns.one(INSERT, request, had, length)

    def do_finish(self, request):
        row = self.rows.get(request)
        if row is not None and row.started:
            self.columns.one(FINISH, request, row.committed)
            del self.rows[request]

    def do_retract(self, request):
        row = self.rows.get(request)
        if row is not None and row.started:
            self.columns.one(RETRACT, request, row.committed)
            self.rows[request] = Row(self.np, request)

    def do_clear(self):
        self.columns.one(CLEAR)

    # -- helpers

    def joined(self, tensors):
        return self.host(tensors[0]) if len(tensors) == 1 else self.np.concatenate([self.host(t) for t in tensors])

    def announce(self, slots, requests):
        self.call += 1
        self.columns.one(CALL, position=requests, length=slots, aux=self.call)


class Writer(threading.Thread):
    """Takes notes from a queue and writes segments. The only place that touches HDF5."""

    def __init__(self, prefix, info, initial, seconds=5.0, most=32 << 20, translator=None):
        super().__init__(name=program, daemon=True)
        import h5py
        import numpy

        self.h5py, self.np = h5py, numpy
        self.prefix, self.info, self.initial = prefix, info, initial
        self.seconds, self.most = seconds, most
        self.queue = collections.deque()
        self.pushed = self.done = 0  # slots; each is written by one thread only
        self.wake = threading.Event()
        self.asked_to_stop = False
        self.broken = False
        self.segment = 0
        self.final = None
        self.lock = threading.Lock()
        self.translator = (translator or Translator)(numpy, info["page_size"])
        self.written_requests = 0

    def push(self, item, slots=0):
        """Called by the server's thread: as little as there can be."""
        self.queue.append((item, slots))
        self.pushed += slots
        if self.pushed - self.done > self.most and not self.broken:
            self.broken = True
            say(f"{self.pushed - self.done} slots wait to be written: recording ends here")

    def run(self):
        due = time.monotonic() + self.seconds
        while not self.asked_to_stop:
            self.wake.wait(0.2)
            self.drain()
            if time.monotonic() >= due:
                self.flush()
                due = time.monotonic() + self.seconds

    def drain(self):
        with self.lock:
            while self.queue and not self.broken:
                item, slots = self.queue[0]
                try:
                    if item[0] == "end" and item[-1] is not None:  # an event of CUDA
                        item[-1].synchronize()  # the GPU is through with the iteration
                    self.translator.note(item[:-1] if item[0] == "end" else item)
                except Exception as error:  # never the server's problem
                    self.broken = True
                    say(f"recording ends here: {type(error).__name__}: {error}")
                    return
                self.queue.popleft()
                self.done += slots

    def flush(self, last=False):
        with self.lock:
            t = self.translator
            if not (t.columns.events or last) or self.broken and not t.columns.events:
                return
            table, slots = t.columns.take()
            steps, t.steps = t.steps, []
            try:
                self.write(table, slots, steps, list(t.requests), last)
            except Exception as error:
                self.broken = True
                say(f"cannot write a segment, recording ends here: {type(error).__name__}: {error}")
                return
            self.segment += 1

    def write(self, table, slots, steps, requests, last):
        np = self.np
        path = f"{self.prefix}.{self.segment:06d}.h5"
        part = path + ".part"
        step = np.cumsum(table[:, 0] == STEP, dtype=np.uint32) if len(table) else np.empty(0, np.uint32)
        with self.h5py.File(part, "w") as f:
            for name, value in self.info.items():
                f.attrs[name] = value
            f.attrs["file_time"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            f.attrs["segment"] = np.int64(self.segment)
            f.attrs["last"] = np.int64(last)
            for i, name in enumerate(Columns.NAMES):
                kind = {"kind": "u1", "count": "<u4"}.get(name, "<i4")
                self.column(f, "events/" + name, table[:, i].astype(kind))
            self.column(f, "events/step", step.astype("<u4"))
            self.column(f, "events/slots", slots.astype("<i4"))
            columns = list(zip(*steps)) if steps else [[]] * 7
            self.column(f, "steps/time", np.array(columns[0], "<i8"), "us")
            for name, values in zip(("requests", "tokens", "available", "evictable", "protected", "waiting"), columns[1:]):
                self.column(f, "steps/" + name, np.array(values, "<i4"))
            known = np.array(requests, "<i4").reshape(-1, 3)
            none = np.full(len(known), -1, "<i4")
            for name, values in (("trace_row", none), ("timestamp", known[:, 2]), ("input_length", known[:, 0]),
                                 ("output_length", known[:, 1]), ("predecessor", none), ("injected", none)):
                self.column(f, "requests/" + name, values, "ms" if name == "timestamp" else "1")
            if self.segment == 0 and self.initial is not None:
                self.column(f, "initial/free_list", self.translator.host(self.initial))
            if last and self.final is not None:
                for name, values in zip(("free_list", "release_list"), self.final):
                    self.column(f, "final/" + name, self.translator.host(values))
        os.replace(part, path)

    @staticmethod
    def column(f, name, values, units="1"):
        d = f.create_dataset(name, data=values)
        d.attrs["units"] = units
        d.attrs["long_name"] = name.split("/")[1].replace("_", " ")

    def stop(self, final):
        """Everything that is known, written; called once, from any thread."""
        self.asked_to_stop = True
        self.wake.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join(10)
        self.final = final
        self.drain()
        self.flush(last=True)


# ---------------------------------------------------------------------------------------------------------------------
# The hooks: in the server's thread
# ---------------------------------------------------------------------------------------------------------------------


class Recording:
    """What every recorder has: methods wrapped, and its ends. A subclass has a scheduler, `writer`, `push` and `stopped`, end_iteration(),
    and final(): the final lists, once everything up to here is known."""

    def wrap(self, owner, name, make):
        original = getattr(owner, name, None)
        if callable(original):
            setattr(owner, name, functools.update_wrapper(make(original), original))

    def goes_on(self):
        """Whether there is anybody to tell; a writer that broke ends the recording."""
        if not self.stopped and self.writer.broken:
            self.stop_recording(None)
        return not self.stopped

    def stop_recording(self, why):
        if not self.stopped:
            self.stopped = True
            self.push = lambda *a: None
            if why:
                say(f"recording ends here: {why}")
            self.writer.asked_to_stop = True
            self.writer.wake.set()

    def close(self):
        """The rest, and the final lists if everything up to here is known."""
        if getattr(self, "closed", False):
            return
        self.closed = True
        final = None
        if not self.stopped and not self.writer.broken:
            self.end_iteration()
            final = self.final()
        self.stopped = True
        self.push = lambda *a: None
        self.writer.stop(final)


class Recorder(Recording):
    """Wraps what one Scheduler uses. A wrapper costs an append, and a clone where the server may overwrite a tensor."""

    def __init__(self, scheduler, prefix, seconds=5.0, most=32 << 20, version=None):
        self.scheduler = scheduler
        self.tree = scheduler.tree_cache
        self.row_map = scheduler.req_to_token_pool
        self.allocator = getattr(scheduler, "token_to_kv_pool_allocator", None) or getattr(scheduler, "token_to_kv_pool", None)
        self.check(version)
        self.began = time.monotonic()
        self.depth = 0  # inside an allocator call: what it calls itself is not told again
        self.pending = None  # allocations to be told with their batch
        self.running = None  # requests of the batch being run
        self.reason, self.request, self.given = OTHER, -1, 0
        self.retracting = False
        self.group, self.groups = -1, 0
        self.known = 0
        self.lengths = {}
        self.stopped = False
        page = int(getattr(self.allocator, "page_size", 1))
        info = self.describe(page, version)
        self.modelled = info["allocator"] != "other"
        self.writer = Writer(prefix, info, self.first_list(), seconds, most)
        self.push = self.writer.push
        self.wrap_allocator()
        self.wrap_tree()
        self.wrap_scheduler()
        self.wrap_batch()
        self.writer.start()

    # -- what can be recorded

    def check(self, version):
        name = type(self.allocator).__name__
        if version is not None and version < OLDEST:
            raise Refused(f"SGLang {'.'.join(map(str, version))} is older than {'.'.join(map(str, OLDEST))}")
        if name not in TOKEN_CLASSES + PAGED_CLASSES:
            raise Refused(f"the allocator {name} is not one this recorder knows ({', '.join(TOKEN_CLASSES + PAGED_CLASSES)})")
        self.list_name = next((n for n in ("free_pages", "free_slots") if getattr(self.allocator, n, None) is not None), None)
        if self.list_name is None:
            raise Refused(f"the allocator {name} has neither free_pages nor free_slots")
        page = int(getattr(self.allocator, "page_size", 1))
        first = not getattr(self.scheduler, "enable_overlap", False) and (version is None or version < WITHOUT_V1)
        if self.speculates() and first and page > 1:
            raise Refused("speculation (v1) with pages: which of a page's slots were accepted cannot be seen")
        outside = [n for n in ("cache_controller", "linker") if getattr(self.tree, n, None) is not None]  # of UnifiedRadixCache
        if getattr(self.scheduler, "enable_hierarchical_cache", False) or outside:
            raise Refused("the hierarchical cache moves rows between device and host")
        if str(getattr(self.scheduler, "disaggregation_mode", "null")).lower().split(".")[-1] not in ("null", "none"):
            raise Refused("prefill/decode disaggregation allocates outside the scheduler's batches")
        for owner, names in ((self.scheduler, ("get_next_batch_to_run", "run_batch", "process_batch_result")),
                             (self.tree, ("evict", "insert"))):
            missing = [n for n in names if not callable(getattr(owner, n, None))]
            if missing:
                raise Refused(f"{type(owner).__name__} has no {', '.join(missing)}")

    def describe(self, page, version):
        size = int(self.allocator.size) // page * page
        kind = "sglang-token" if page == 1 else "sglang-paged"
        sorts = getattr(self.allocator, "need_sort", None)
        if sorts is None:  # 0.4.9 and 0.4.10 always set frees aside, older ones never
            sorts = getattr(self.allocator, "release_pages", None) is not None
        if sorts:
            kind += "-sorted"
        if page > 1 and hasattr(type(self.allocator), "free_segment"):
            kind = kind.replace("paged", "paged-segment")  # newer ones free pages in the order of a row
        text = ".".join(map(str, version)) if version else "of unknown version"
        return {"Conventions": "kvtrace-1", "creator": "record_sglang.py", "creator_version": "1", "HDF5_Version": "h5py",
                "host": socket.gethostname(), "history": " ".join(sys.argv), "allocator": kind, "pool_size": size,
                "page_size": page, "source": "",
                "origin": f"recorded: SGLang {text}, {type(self.allocator).__name__}, {type(self.tree).__name__}, a running server"}

    def first_list(self):
        """None where the list is still the ascending one."""
        free = getattr(self.allocator, self.list_name)
        n = len(free)
        whole = int(self.allocator.size) // int(getattr(self.allocator, "page_size", 1))
        if n == whole and (n == 0 or (int(free[0]) == 1 and int(free[-1]) == n)):
            return None
        return free.clone()

    # -- the allocator

    def wrap_allocator(self):
        a = self.allocator
        for name in ("alloc", "alloc_extend", "alloc_decode"):
            self.wrap(a, name, self.wrapped_alloc)
        paged = int(getattr(a, "page_size", 1)) > 1
        for name in ("free", "free_segment", "free_full", "free_full_segment"):
            self.wrap(a, name, lambda f, segment=paged and name == "free_segment": self.wrapped_free(f, False, segment))
        self.wrap(a, "free_page_ids", lambda f: self.wrapped_free(f, paged, paged))
        self.wrap(a, "free_group_begin", self.wrapped_group_begin)
        self.wrap(a, "free_group_end", self.wrapped_group_end)
        self.wrap(a, "restore_state", self.wrapped_restore)
        self.wrap(a, "clear", self.wrapped_clear)

    def wrapped_alloc(self, original):
        def alloc(*args, **kwargs):
            if self.depth:
                return original(*args, **kwargs)
            self.tell_pending()
            self.depth = 1
            try:
                out = original(*args, **kwargs)
            finally:
                self.depth = 0
            if out is not None:
                if self.pending is None:  # nobody said for whom
                    self.stop_recording("slots were allocated outside prefill, decode and verify")
                else:
                    self.pending.append(out)
            return out

        return alloc

    def wrapped_free(self, original, pages, segment):
        def free(index, *args, **kwargs):
            if self.depth:
                return original(index, *args, **kwargs)
            n = index.numel()
            if n:
                self.tell_pending()
                if self.running is not None and self.reason == OTHER:
                    self.push(("reject", index, self.running), n)
                else:  # rows may be overwritten before the thread reads them; the tree's values are not
                    kept = index if self.reason == EVICT else index.clone()
                    self.push(("free", kept, self.reason, self.request, self.group, pages, segment), n)
                self.given += n
            self.depth = 1
            try:
                return original(index, *args, **kwargs)
            finally:
                self.depth = 0

        return free

    def wrapped_group_begin(self, original):
        def free_group_begin(*args, **kwargs):
            self.group = self.groups
            self.groups += 1
            return original(*args, **kwargs)

        return free_group_begin

    def wrapped_group_end(self, original):
        def free_group_end(*args, **kwargs):
            self.depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.depth -= 1
                self.group = -1

        return free_group_end

    def wrapped_restore(self, original):
        def restore_state(*args, **kwargs):
            if self.running is not None and self.pending:
                self.push(("draft", sum(len(t) for t in self.pending)))
                self.pending = []
            return original(*args, **kwargs)

        return restore_state

    def wrapped_clear(self, original):
        def clear(*args, **kwargs):
            self.end_iteration()
            self.push(("clear",))
            self.depth += 1
            try:
                return original(*args, **kwargs)
            finally:
                self.depth -= 1
                self.end_iteration()

        return clear

    def tell_pending(self):
        """Inside run_batch: what was allocated and not undone by restore_state is a verify block for each request."""
        if self.running is not None and self.pending:
            slots = self.pending
            self.pending = []
            n = sum(len(t) for t in slots)
            if self.running and n % len(self.running) == 0:
                self.push(("verify", slots, self.running), n)
            else:
                self.stop_recording("a batch took slots that do not part evenly among its requests")

    # -- the prefix cache

    def tagged(self, original, reason, of_request):
        def call(*args, **kwargs):
            before = self.reason, self.request
            self.reason = RETRACTED if self.retracting and of_request else reason
            self.request = self.number(args[0]) if of_request else -1
            try:
                return original(*args, **kwargs)
            finally:
                self.reason, self.request = before

        return call

    def wrap_tree(self):
        t = self.tree
        for name in ("evict", "evict_for_alloc"):
            self.wrap(t, name, lambda f: self.tagged(f, EVICT, False))
        self.wrap(t, "insert", self.wrapped_insert)
        for name in ("cache_unfinished_req", "checkpoint"):
            self.wrap(t, name, self.wrapped_unfinished)
        common = sys.modules.get("sglang.srt.mem_cache.common")
        release = getattr(common, "release_kv_cache", None)
        if release is not None:  # 0.5.5 and newer: also what was allocated ahead is given back there
            self.everywhere(release, self.wrapped_release(release))
        elif callable(getattr(t, "cache_finished_req", None)):
            self.wrap(t, "cache_finished_req", self.wrapped_release)
        else:
            raise Refused("neither release_kv_cache nor cache_finished_req: where a request ends is not known")

    @staticmethod
    def everywhere(original, wrapper):
        """A function that other modules imported by name."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("sglang") and getattr(module, original.__name__, None) is original:
                setattr(module, original.__name__, wrapper)

    def wrapped_insert(self, original):
        def insert(*args, **kwargs):
            result = original(*args, **kwargs)
            if self.request >= 0:
                had = getattr(result, "prefix_len", result)
                key = getattr(args[0], "key", args[0]) if args else kwargs.get("key", ())
                if isinstance(had, int):
                    self.push(("insert", self.request, had, len(key)))
            return result

        return insert

    def wrapped_unfinished(self, original):
        inner = self.tagged(original, DUPLICATE, True)

        def unfinished(req, *args, **kwargs):
            before = self.given
            result = inner(req, *args, **kwargs)
            if self.given != before:  # duplicates went back: the row shows the tree's slots now
                number = self.number(req)
                index = field(req, "req_pool_idx")
                self.push(("remap", number, self.row_map.req_to_token[index, : self.lengths.get(number, 0)].clone()))
            return result

        return unfinished

    def wrapped_release(self, original):
        inner = self.tagged(original, TAIL, True)

        def release(req, *args, **kwargs):
            number = self.number(req)
            committed = field(req, "kv_committed_len")
            if committed is not None and self.speculates():
                self.push(("committed", ((number, int(committed)),)))
            result = inner(req, *args, **kwargs)
            if number in self.lengths:
                self.push(("retract" if self.retracting else "finish", number))
                self.lengths.pop(number, None)
            return result

        return release

    # -- batches

    def speculates(self):
        algorithm = getattr(self.scheduler, "spec_algorithm", None)
        return algorithm is not None and not algorithm.is_none()

    def number(self, req):
        n = getattr(req, "_kvroof", None)
        if n is None:
            n = req._kvroof = self.known
            self.known += 1
            most = getattr(getattr(req, "sampling_params", None), "max_new_tokens", None)
            self.push(("arrive", n, len(req.origin_input_ids), int(most) if most is not None else -1,
                       int((time.monotonic() - self.began) * 1000)))
        return n

    def gathering(self, original, tell):
        """A method during which allocations are gathered, to be told afterwards."""

        def call(batch, *args, **kwargs):
            if getattr(batch, "tree_cache", self.tree) is not self.tree or self.stopped:
                return original(batch, *args, **kwargs)
            before, running, self.running = self.pending, self.running, None
            self.pending = []
            lengths = [int(field(r, "kv_allocated_len", 0)) for r in batch.reqs] if self.speculates() else None
            try:
                result = original(batch, *args, **kwargs)
                if self.pending:
                    tell(batch, self.pending, lengths)
            finally:
                self.pending, self.running = before, running
            return result

        return call

    def wrap_batch(self):
        module = sys.modules.get("sglang.srt.managers.schedule_batch")
        batch = getattr(module, "ScheduleBatch", None)
        if batch is None or not callable(getattr(batch, "prepare_for_extend", None)) or not callable(getattr(batch, "prepare_for_decode", None)):
            raise Refused("sglang.srt.managers.schedule_batch has no ScheduleBatch with prepare_for_extend and prepare_for_decode")
        self.wrap(batch, "prepare_for_extend", lambda f: self.gathering(f, self.tell_extend))
        self.wrap(batch, "prepare_for_decode", lambda f: self.gathering(f, self.tell_decode))
        for name in ("retract_decode", "retract_all", "release_req"):
            self.wrap(batch, name, self.wrapped_retract)

    def tell_extend(self, batch, slots, _):
        parts, starts = [], []
        for req, prefix, extend in zip(batch.reqs, batch.prefix_lens, batch.extend_lens):
            n = self.number(req)
            if n not in self.lengths:
                index = field(req, "req_pool_idx")
                starts.append((n, self.row_map.req_to_token[index, :prefix].clone()))
            parts.append((n, int(prefix), int(extend)))
            self.lengths[n] = int(prefix) + int(extend)
        self.push(("extend", slots, parts, starts), sum(len(t) for t in slots) + sum(len(h) for _, h in starts))

    def tell_decode(self, batch, slots, before):
        n = sum(len(t) for t in slots)
        if before is not None:
            parts = [(self.number(r), b, int(field(r, "kv_allocated_len", 0))) for r, b in zip(batch.reqs, before)]
            if sum(after - b for _, b, after in parts) != n:
                self.stop_recording("slots allocated ahead do not add up to what the requests say they have")
                return
            self.push(("ahead", slots, parts), n)
        elif n == len(batch.reqs):
            self.push(("decode", slots, [self.number(r) for r in batch.reqs]), n)
        else:
            self.stop_recording(f"a decode step took {n} slots for {len(batch.reqs)} requests")

    def wrapped_retract(self, original):
        def retract(*args, **kwargs):
            before, reason, self.retracting = self.retracting, self.reason, True
            self.reason = RETRACTED
            try:
                result = original(*args, **kwargs)
            finally:
                self.retracting, self.reason = before, reason
            gone = result[0] if isinstance(result, tuple) and result and isinstance(result[0], list) else []
            for req in gone:  # versions whose retraction frees by itself
                number = self.number(req)
                if number in self.lengths:
                    self.push(("retract", number))
                    self.lengths.pop(number)
            return result

        return retract

    def wrap_scheduler(self):
        s = self.scheduler
        self.wrap(s, "get_next_batch_to_run", self.wrapped_next)
        self.wrap(s, "run_batch", self.wrapped_run)
        self.wrap(s, "process_batch_result", self.wrapped_process)
        self.wrap(s, "_add_request_to_queue", self.wrapped_add)

    def wrapped_add(self, original):
        def add(req, *args, **kwargs):
            self.number(req)
            return original(req, *args, **kwargs)

        return add

    def wrapped_next(self, original):
        def get_next_batch_to_run(*args, **kwargs):
            self.end_iteration()
            return original(*args, **kwargs)

        return get_next_batch_to_run

    def wrapped_run(self, original):
        def run_batch(batch, *args, **kwargs):
            mode = getattr(batch, "forward_mode", None)
            prefill = mode is not None and mode.is_extend()
            tokens = sum(batch.extend_lens) if prefill else len(batch.reqs)
            self.push(("batch", PREFILL_STEP if prefill else DECODE_STEP, len(batch.reqs), int(tokens)))
            if prefill or not self.speculates():
                return original(batch, *args, **kwargs)
            self.pending, self.running = [], [self.number(r) for r in batch.reqs]
            try:
                return original(batch, *args, **kwargs)
            finally:
                self.tell_pending()
                self.push(("settle", self.running))
                self.pending = self.running = None

        return run_batch

    def wrapped_process(self, original):
        def process_batch_result(batch, *args, **kwargs):
            reqs = list(getattr(batch, "reqs", ()) or ())
            result = original(batch, *args, **kwargs)
            if self.speculates():
                self.push(("committed", [(self.number(r), field(r, "kv_committed_len")) for r in reqs if getattr(r, "_kvroof", None) in self.lengths]))
            return result

        return process_batch_result

    # -- ends

    def end_iteration(self):
        """What the pool looks like now closes the iteration; the event tells the thread when the GPU has come so far."""
        if not self.goes_on():
            return
        tree = self.tree
        evictable = tree.evictable_size() if hasattr(tree, "evictable_size") else -1
        protected = tree.protected_size() if hasattr(tree, "protected_size") else -1
        free = getattr(self.allocator, self.list_name)
        event = None
        if getattr(free, "is_cuda", False):
            import torch

            event = torch.cuda.Event()
            event.record()
        available = int(self.allocator.available_size()) if self.modelled else -1  # whole pages; the format counts slots
        self.push(("end", int((time.monotonic() - self.began) * 1e6), available,
                   evictable if isinstance(evictable, int) else -1, protected if isinstance(protected, int) else -1,
                   len(getattr(self.scheduler, "waiting_queue", ())), event))

    def final(self):
        release = getattr(self.allocator, "release_pages", None)
        free = getattr(self.allocator, self.list_name)
        staged = getattr(self.allocator, "staged_pages", None)
        if staged:
            release = staged[0].new_tensor([p for pages in staged for p in pages.tolist()])
        if release is not None and self.writer.info["allocator"].endswith("segment-sorted"):
            release = release.sort()[0]  # its own order does not matter to the allocator
        return (free, release if release is not None else free[:0]) if self.modelled else None


# ---------------------------------------------------------------------------------------------------------------------
# Getting in
# ---------------------------------------------------------------------------------------------------------------------

recorders = []


def rank_of(scheduler, names=("attn_tp_rank", "tp_rank")):
    """Of the scheduler, of its parallel state (0.5.1x), or of the process (newer)."""
    context = sys.modules.get("sglang.srt.runtime_context")
    places = [scheduler, getattr(scheduler, "ps", None)]
    try:
        places.append(context.get_parallel() if context else None)
    except Exception:
        pass
    for place in places:
        for name in names:
            rank = getattr(place, name, None)
            if isinstance(rank, int):
                return rank
    return None


def attach(scheduler):
    """Called when a Scheduler has been built. Never raises."""
    prefix = os.environ.get("KVROOF_RECORD")
    if not prefix or (rank_of(scheduler) or 0) != 0:
        return None
    dp = rank_of(scheduler, ("dp_rank", "attn_dp_rank"))
    return keep(Recorder, scheduler, f"{prefix}.dp{dp}" if dp else f"{prefix}.tp0", "sglang")


def keep(kind, scheduler, prefix, package):
    """A recorder of that kind that will be closed at the end; None, with a line on stderr, where it cannot record."""
    try:
        recorder = kind(scheduler, prefix, float(os.environ.get("KVROOF_RECORD_SECONDS", "5")), int(os.environ.get("KVROOF_RECORD_MOST", 32 << 20)),
                        version_of(importlib.import_module(package)))
    except Refused as why:
        say(f"not recording: {why}")
        return None
    except Exception as error:
        say(f"not recording: {type(error).__name__}: {error}")
        return None
    recorders.append(recorder)
    atexit.register(recorder.close)
    try:
        on_sigterm()
    except ValueError:
        pass  # not the main thread: segments and atexit remain
    say(f"recording to {recorder.writer.prefix}.NNNNNN.h5")
    return recorder


def on_sigterm():
    before = signal.getsignal(signal.SIGTERM)

    def handler(number, frame):
        for recorder in recorders:
            recorder.close()
        if callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, handler)


class Hook(importlib.abc.MetaPathFinder):
    """Sees the module `name` being imported and wraps its Scheduler's __init__."""

    def __init__(self, name, attach):
        self.name, self.attach = name, attach

    def find_spec(self, name, path, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                wrap_init(module, self.attach)

            spec.loader.exec_module = exec_module
        return spec


def wrap_init(module, attach):
    scheduler = getattr(module, "Scheduler", None)
    if scheduler is None:
        say(f"not recording: {module.__name__} has no Scheduler")
        return
    original = scheduler.__init__

    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if type(self) is scheduler or not hasattr(self, "_kvroof_recorder"):
            self._kvroof_recorder = attach(self)

    scheduler.__init__ = __init__


def install(name, attach):
    if not os.environ.get("KVROOF_RECORD"):
        return
    if name in sys.modules:
        wrap_init(sys.modules[name], attach)
    elif not any(isinstance(f, Hook) and f.name == name for f in sys.meta_path):
        sys.meta_path.insert(0, Hook(name, attach))


install("sglang.srt.managers.scheduler", attach)  # spawned processes of the server import this file again, as __mp_main__

if __name__ == "__main__":
    if not os.environ.get("KVROOF_RECORD"):
        say("set KVROOF_RECORD to a path prefix, e.g. KVROOF_RECORD=/data/run1")
        sys.exit(2)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=False)
