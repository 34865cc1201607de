"""A server without a model: SGLang's own allocator, row map and prefix cache (from a wheel) under a small scheduler of ours.

What the recorder hooks has the names and the order of calls of SGLang's scheduler; what it wraps inside is SGLang's.
"""

import importlib
import inspect
import random
import sys
import types
from array import array

import torch

MEM = "sglang.srt.mem_cache."


def by_name(function, **given):
    """Calls with the arguments that the function has, by name."""
    names = inspect.signature(function).parameters
    return function(**{k: v for k, v in given.items() if k in names})


class Kernel:
    """Stands for a Triton kernel: what it computes, on the CPU. The paged allocator launches it as kernel[grid](...)."""

    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        return self.function


def extend_pages(prefix_lens, seq_lens, last_loc, free_pages, out, _, page, *rest):
    at = used = 0
    for prefix, end, last in zip(prefix_lens.tolist(), seq_lens.tolist(), last_loc.tolist()):
        for position in range(prefix, end):
            if position % page == 0:
                last, used = int(free_pages[used]) * page, used + 1
            else:
                last += 1
            out[at], at = last, at + 1


def decode_pages(seq_lens, last_loc, free_pages, out, *rest):
    extend_pages(seq_lens - 1, seq_lens, last_loc, free_pages, out, *rest)


class Algorithm:
    def __init__(self, none):
        self.none = none

    def is_none(self):
        return self.none


class Mode:
    def __init__(self, extend):
        self.extend = extend

    def is_extend(self):
        return self.extend


class KV:
    def __init__(self):
        self.req_pool_idx = None
        self.kv_committed_len = self.kv_allocated_len = 0
        self.cache_protected_len = self.cache_inserted_len = self.swa_evict_floor = self.swa_evicted_seqlen = 0
        self.holds_kv = False


def through_kv(name):
    return property(lambda self: getattr(self.kv, name), lambda self, v: setattr(self.kv, name, v))


class Req:
    """As much of a request as the caches look at."""

    def __init__(self, rid, prompt, answer, has_kv):
        self.tokens = (lambda ids: array("q", ids)) if has_kv else list  # what 0.5.16 and newer keep token ids in
        self.rid, self.origin_input_ids, self.output_ids = rid, self.tokens(prompt), self.tokens(())
        self.answer = self.tokens(answer)
        self.sampling_params = types.SimpleNamespace(max_new_tokens=len(answer))
        self.store = KV()
        if has_kv:
            self.kv = self.store
        self.fill_ids, self.prefix_indices, self.last_node, self.lock = [], torch.empty(0, dtype=torch.int64), None, None
        self.extra_key = self.cache_salt = self.swa_uuid_for_lock = self.session = self.session_id = None
        self.priority, self.is_retracted, self.streaming, self.swa_evicted_seqlen = 0, False, False, 0
        self.last_matched_prefix_len = 0
        self.kv_rotation_base, self.to_finish, self.finished_reason = None, None, None
        self.skip_lock_node_ids, self.swa_prefix_lock_released, self.lock_receipt = {}, False, None

    def finished(self):
        return len(self.output_ids) >= len(self.answer)

    def pop_committed_kv_cache(self):
        return self.kv_committed_len

    @property
    def full_untruncated_fill_ids(self):
        return self.tokens(self.origin_input_ids + self.output_ids)

    def get_fill_ids(self):
        return self.fill_ids

    def __getattr__(self, name):
        if name in ("req_pool_idx", "kv_committed_len", "kv_allocated_len", "cache_protected_len"):
            return getattr(self.__dict__["store"], name)
        raise AttributeError(name)

    def __setattr__(self, name, value):
        if name in ("req_pool_idx", "kv_committed_len", "kv_allocated_len", "cache_protected_len"):
            setattr(self.store, name, value)
        else:
            object.__setattr__(self, name, value)


class ScheduleBatch:
    def __init__(self, server, reqs, extend):
        self.server, self.reqs, self.forward_mode = server, reqs, Mode(extend)
        self.tree_cache = server.tree_cache
        self.spec_algorithm = server.spec_algorithm
        self.prefix_lens = self.extend_lens = ()

    def prepare_for_extend(self):
        s = self.server
        self.prefix_lens = [len(r.prefix_indices) for r in self.reqs]
        self.extend_lens = [len(r.fill_ids) - p for r, p in zip(self.reqs, self.prefix_lens)]
        ends = [len(r.fill_ids) for r in self.reqs]
        last = [int(r.prefix_indices[-1]) if len(r.prefix_indices) else -1 for r in self.reqs]
        loc, at = s.take(sum(self.extend_lens), self.prefix_lens, ends, last), 0
        for r, prefix, extend in zip(self.reqs, self.prefix_lens, self.extend_lens):
            if r.req_pool_idx is None:
                r.req_pool_idx = s.free_rows.pop(0)
            s.row_map.write((r.req_pool_idx, slice(0, prefix)), r.prefix_indices.to(torch.int32))
            s.row_map.write((r.req_pool_idx, slice(prefix, prefix + extend)), loc[at : at + extend].to(torch.int32))
            r.kv_committed_len = r.kv_allocated_len = prefix + extend
            r.is_retracted = False
            r.store.holds_kv = True
            at += extend
        s.log_alloc(loc)

    def prepare_for_decode(self):
        s = self.server
        if s.ahead:
            need = [max(0, r.kv_committed_len + 2 * s.draft - r.kv_allocated_len) for r in self.reqs]
            if not sum(need):
                return
            loc, at = s.take(sum(need)), 0
            for r, n in zip(self.reqs, need):
                s.row_map.write((r.req_pool_idx, slice(r.kv_allocated_len, r.kv_allocated_len + n)), loc[at : at + n].to(torch.int32))
                r.kv_allocated_len += n
                at += n
            s.log_alloc(loc)
        elif self.spec_algorithm.is_none():
            length = [r.kv_committed_len for r in self.reqs]
            last = [int(s.row_map.req_to_token[r.req_pool_idx, n - 1]) for r, n in zip(self.reqs, length)]
            loc = s.take(len(self.reqs), length, [n + 1 for n in length], last, decode=True)
            rows = torch.tensor([r.req_pool_idx for r in self.reqs])
            at = torch.tensor([r.kv_committed_len for r in self.reqs])
            s.row_map.write((rows, at), loc.to(torch.int32))
            self.loc = loc
            for r in self.reqs:
                r.kv_committed_len += 1
                r.kv_allocated_len = r.kv_committed_len
            s.log_alloc(loc)

    def retract_decode(self, *_):
        s, gone = self.server, []
        while len(self.reqs) > 1 and s.allocator.available_size() < s.next_need(self.reqs):
            r = self.reqs.pop()
            s.release(r, retract=True)
            s.evict(20 * len(self.reqs))
            r.is_retracted = True
            gone.append(r)
        return gone, 0.5, []


class Server:
    """Attributes are named as SGLang's Scheduler names them."""

    def __init__(self, pool, mode="none", seed=1, need_sort=False, running=8, version=(0, 5, 9), prompts=None, page=1, tree="radix"):
        self.random = random.Random(seed)
        self.version = version
        self.ahead, self.draft = mode == "v2", 6 if mode == "v2" else 9
        self.late = mode in ("v2", "overlap")  # results are looked at one iteration late
        self.spec_algorithm, self.enable_overlap = Algorithm(mode in ("none", "overlap")), self.late
        self.mode, self.running_most = mode, running
        self.tp_rank, self.waiting_queue, self.running = 0, [], []
        self.last, self.results, self.allocated = None, [], []
        self.counts = {"retract": 0, "finish": 0, "evict": 0, "hit": 0}
        self.page, self.tree = page, tree
        self.build(pool, need_sort)
        self.prompts = prompts or (lambda: self.random.randrange(1, 400))
        self.made = 0

    def build(self, pool, need_sort):
        memory = importlib.import_module(MEM + "memory_pool")
        radix = importlib.import_module(MEM + "radix_cache")
        try:
            allocators = importlib.import_module(MEM + "allocator")
            kind = getattr(allocators, "TokenToKVPoolAllocator", None)
            if not (isinstance(kind, type) and "alloc" in vars(kind)):  # a package, or there is none
                kind = importlib.import_module(MEM + "allocator.token").TokenToKVPoolAllocator
            if "alloc" not in vars(kind):
                kind = getattr(memory, "TokenToKVPoolAllocator", None) or memory.BaseTokenToKVPool
        except (ImportError, TypeError):
            kind = getattr(memory, "TokenToKVPoolAllocator", None) or memory.BaseTokenToKVPool
        if kind.__name__ == "BaseTokenToKVPool":  # up to 0.4.3 the pool itself allocates
            kind = type("MLATokenToKVPool", (kind,), {})
        if self.page > 1:
            kind = self.paged_kind(allocators)
        self.allocator = by_name(kind, size=pool, page_size=self.page, dtype=torch.bfloat16, device="cpu", kvcache=None, need_sort=need_sort)
        self.token_to_kv_pool_allocator = self.allocator
        self.row_map = types.SimpleNamespace(req_to_token=torch.zeros((64, 8192), dtype=torch.int32))
        self.row_map.free = lambda row: None  # the test frees rows itself
        self.row_map.write = lambda at, values: self.row_map.req_to_token.__setitem__(at, values)
        self.req_to_token_pool = self.row_map
        self.free_rows = list(range(64))
        arguments = dict(req_to_token_pool=self.row_map, token_to_kv_pool_allocator=self.allocator, token_to_kv_pool=self.allocator,
                         page_size=self.page, disable=False, enable_kv_cache_events=False)
        self.tree_params = None
        try:
            params = importlib.import_module(MEM + "cache_init_params").CacheInitParams
        except ImportError:
            params = None
        if self.tree == "unified":
            self.tree_cache = self.unified(params, arguments)
        elif "params" in inspect.signature(radix.RadixCache.__init__).parameters:
            self.tree_cache = radix.RadixCache(by_name(params, **arguments, is_eagle=False))
        else:
            self.tree_cache = by_name(radix.RadixCache, **arguments)
        self.radix, self.base = radix, importlib.import_module(MEM + "base_prefix_cache")
        self.install_release()

    @staticmethod
    def unified(params, arguments):
        """UnifiedRadixCache with its tree in Python, for full attention alone."""
        backend = types.SimpleNamespace(get=lambda: "python")
        importlib.import_module("sglang.srt.environ").envs.SGLANG_UNIFIED_RADIX_TREE_CORE_BACKEND = backend
        kind = importlib.import_module(MEM + "unified_radix_cache").UnifiedRadixCache
        try:
            full = importlib.import_module(MEM + "unified_cache.component_type").ComponentType.FULL
        except ImportError:
            full = importlib.import_module(MEM + "unified_cache.components").ComponentType.FULL
        return kind(by_name(params, **arguments, is_eagle=False, tree_components=(full,), tree_core_backend="python"))

    @staticmethod
    def paged_kind(allocators):
        kind = getattr(allocators, "PagedTokenToKVPoolAllocator", None)
        found = isinstance(kind, type) and "alloc_extend" in vars(kind)
        home = sys.modules[kind.__module__] if found else importlib.import_module(MEM + "allocator.paged")
        home.alloc_extend_kernel, home.alloc_decode_kernel = Kernel(extend_pages), Kernel(decode_pages)
        home.tl = types.SimpleNamespace(core=types.SimpleNamespace(TRITON_MAX_TENSOR_NUMEL=1 << 20))
        return home.PagedTokenToKVPoolAllocator

    def install_release(self):
        """Where requests end: release_kv_cache is a function of sglang.srt.mem_cache.common from 0.5.5 on."""
        common = importlib.import_module(MEM + "common")
        if self.version >= (0, 5, 5):
            def release_kv_cache(req, tree_cache, is_insert=True):
                self.finish_in_tree(req, is_insert)
                self.free_over(req)

            common.release_kv_cache = release_kv_cache
        else:
            common.release_kv_cache = None
        importlib.import_module("sglang.srt.managers.schedule_batch").ScheduleBatch = ScheduleBatch
        self.common = common

    # -- versions

    def key(self, tokens):
        kind = getattr(self.radix, "RadixKey", None)
        if not isinstance(kind, type):
            return list(tokens)
        if "cache_salt" in inspect.signature(kind.__init__).parameters or self.version >= (0, 5, 16):
            tokens = array("q", tokens)
        return kind(tokens, None)

    def match(self, tokens):
        t = self.tree_cache
        key = self.key(tokens)
        if "params" in inspect.signature(t.match_prefix).parameters:
            result = t.match_prefix(self.base.MatchPrefixParams(key=key))
        else:
            result = t.match_prefix(key)
        node = getattr(result, "last_device_node", None) or result[1]
        indices = getattr(result, "device_indices", None)
        if indices is None and hasattr(result, "device_prefix_len"):
            indices = t.path_device_indices(node)
        if indices is None:
            indices = result[0]
        return torch.as_tensor(indices, dtype=torch.int64), node

    def evict(self, n):
        t, before = self.tree_cache, self.allocator.available_size()
        names = inspect.signature(t.evict).parameters
        if "evict_callback" in names:
            t.evict(n, self.allocator.free)
        elif "params" in names or hasattr(self.base, "EvictParams"):
            t.evict(self.base.EvictParams(num_tokens=n))
        else:
            t.evict(n)
        self.counts["evict"] += self.allocator.available_size() - before

    def cache_unfinished(self, req):
        if hasattr(self.tree_cache, "checkpoint"):
            self.tree_cache.checkpoint(req, up_to=len(req.fill_ids))
            req.prefix_indices = self.row_map.req_to_token[req.req_pool_idx, : len(req.fill_ids)].to(torch.int64)
        else:
            self.tree_cache.cache_unfinished_req(req)
            if self.version < (0, 5, 9):
                req.cache_protected_len = max(req.cache_protected_len, len(req.fill_ids))
            if not len(req.prefix_indices):
                req.prefix_indices = self.row_map.req_to_token[req.req_pool_idx, : len(req.fill_ids)].to(torch.int64)

    def finish_in_tree(self, req, insert):
        t, row = self.tree_cache, self.row_map.req_to_token[req.req_pool_idx]
        if not insert:
            self.allocator.free(row[self.protected(req) : req.kv_committed_len].to(torch.int64))
            self.unlock(req)
        elif self.tree == "unified" and hasattr(t, "checkpoint"):
            t.checkpoint(req, up_to=req.kv_committed_len)
            first, end = req.cache_protected_len, req.kv_committed_len
            if end > first:
                self.allocator.free_segments([(row[first:end], first)])
            self.unlock(req)
        elif hasattr(t, "checkpoint"):  # 0.5.23: the key goes in, then the lock is given up
            ids = (req.origin_input_ids + req.output_ids)[: req.kv_committed_len]
            t._insert_cache(req, req.tokens(ids))
            aligned = req.kv_committed_len // self.page * self.page
            self.allocator.free(row[aligned : req.kv_committed_len].to(torch.int64))
            t.dec_lock_ref(req.last_node)
        elif "kv_len_to_handle" in inspect.signature(t.cache_finished_req).parameters:
            t.cache_finished_req(req, kv_len_to_handle=req.kv_committed_len)
        else:
            t.cache_finished_req(req)

    def unlock(self, req):
        t = self.tree_cache
        if self.tree == "unified":
            t.unlock(req.lock) if hasattr(t, "unlock") else t._dec_req_lock(req)
        else:
            t.dec_lock_ref(req.last_node)

    def protected(self, req):
        return req.cache_protected_len or len(req.prefix_indices)

    def free_over(self, req):
        if req.kv_allocated_len > req.kv_committed_len:
            self.allocator.free(self.row_map.req_to_token[req.req_pool_idx, req.kv_committed_len : req.kv_allocated_len].to(torch.int64))
        if req.req_pool_idx is not None:
            self.free_rows.append(req.req_pool_idx)
        req.req_pool_idx, req.store.holds_kv = None, False

    def release(self, req, retract=False):
        self.counts["retract" if retract else "finish"] += 1
        if self.common.release_kv_cache:
            self.common.release_kv_cache(req, self.tree_cache, not retract)
        else:
            (self.retract_old if retract else self.finish_old)(req)
        if retract:
            req.kv_committed_len = req.kv_allocated_len = req.cache_protected_len = 0
            req.prefix_indices = torch.empty(0, dtype=torch.int64)

    def finish_old(self, req):
        index = req.req_pool_idx
        self.finish_in_tree(req, True)
        req.req_pool_idx = index
        over = req.kv_allocated_len > req.kv_committed_len
        if over:
            self.allocator.free(self.row_map.req_to_token[index, req.kv_committed_len : req.kv_allocated_len].to(torch.int64))
        if index not in self.free_rows:
            self.free_rows.append(index)
        req.req_pool_idx = None

    def retract_old(self, req):
        row = self.row_map.req_to_token[req.req_pool_idx]
        self.allocator.free(row[len(req.prefix_indices) : req.kv_allocated_len].to(torch.int64))
        self.tree_cache.dec_lock_ref(req.last_node)
        self.free_rows.append(req.req_pool_idx)
        req.req_pool_idx = None

    # -- slots

    def take(self, n, begins=(), ends=(), last=(), decode=False):
        need = n if self.page == 1 else (0 if decode else n) + len(begins) * self.page
        if self.allocator.available_size() < need:
            self.evict(need)
        if self.page == 1:
            out = self.allocator.alloc(n)
        else:
            begins, ends, last = (torch.tensor(v, dtype=torch.int64) for v in (begins, ends, last))
            out = self.allocator.alloc_decode(ends, ends, last) if decode else self.allocator.alloc_extend(begins, begins, ends, ends, last, n)
        assert out is not None, "the pool is too small for the test"
        return out

    def log_alloc(self, loc):
        self.allocated.append(loc.clone())

    def next_need(self, reqs):
        return len(reqs) * self.page * {"none": 1, "overlap": 1, "v1": 14, "v2": 24}[self.mode]

    # -- the loop

    def new_request(self):
        """A third of the prompts begin like an earlier one."""
        shared = list(range(100)) if self.random.random() < 0.4 else []
        base = 1000 * (self.made + 1)
        prompt = shared + [base + i for i in range(self.prompts())]
        req = Req(str(self.made), prompt, [base + 500 + i for i in range(self.random.randrange(1, 60))], self.version >= (0, 5, 16))
        self.made += 1
        self._add_request_to_queue(req)

    def _add_request_to_queue(self, req):
        self.waiting_queue.append(req)

    def get_next_batch_to_run(self):
        if self.last is not None and self.last.forward_mode.is_extend():
            self.running += [r for r in self.last.reqs if r not in self.running]
        self.running = [r for r in self.running if not r.finished() and not r.is_retracted]
        chosen, budget = [], self.allocator.available_size() + self.tree_cache.evictable_size()
        while self.waiting_queue and len(self.running) + len(chosen) < self.running_most and len(chosen) < 4:
            r = self.waiting_queue[0]
            r.fill_ids = self.tokens_of(r)
            r.prefix_indices, r.last_node = self.match(r.fill_ids[:-1])
            budget -= len(r.fill_ids) + 24 * (1 if self.page == 1 else 2 * self.page)
            if budget < 0 and (self.running or chosen):
                break
            r.lock = self.tree_cache.lock(r.last_node) if hasattr(self.tree_cache, "lock") else self.tree_cache.inc_lock_ref(r.last_node)
            if hasattr(r.lock, "to_dec_params"):
                r.lock_receipt = r.lock.to_dec_params()
            r.cache_protected_len = len(r.prefix_indices)
            self.counts["hit"] += len(r.prefix_indices)
            chosen.append(self.waiting_queue.pop(0))
        if chosen:
            batch = ScheduleBatch(self, chosen, True)
            batch.prepare_for_extend()
            return batch
        if not self.running:
            return None
        batch = ScheduleBatch(self, list(self.running), False)
        need = self.next_need(batch.reqs)
        if self.allocator.available_size() < need:
            self.evict(need)
        if self.allocator.available_size() < need:
            self.waiting_queue += batch.retract_decode()[0]
            self.running = list(batch.reqs)
        batch.prepare_for_decode()
        return batch

    def tokens_of(self, r):
        return r.tokens(r.origin_input_ids + r.output_ids)

    def run_batch(self, batch):
        if batch.forward_mode.is_extend() or self.spec_algorithm.is_none():
            return None
        if self.ahead:
            return [self.random.randrange(1, self.draft + 1) for _ in batch.reqs]
        return self.verify(batch)

    def verify(self, batch):
        n, bs = self.draft, len(batch.reqs)
        if hasattr(self.allocator, "backup_state"):
            state = self.allocator.backup_state()
            self.take(bs * 14)
            self.allocator.restore_state(state)
        loc, keep, counts = self.take(bs * n), [], []
        self.log_alloc(loc)
        for i, r in enumerate(batch.reqs):
            path = [0] + [k for k in range(1, n) if self.random.random() < 0.4]
            path = path[: len(r.answer) - len(r.output_ids)]
            keep += [i * n + k for k in path]
            counts.append(len(path))
            r.output_ids += r.answer[len(r.output_ids) : len(r.output_ids) + len(path)]
        mask = torch.ones(bs * n, dtype=torch.bool)
        mask[keep] = False
        self.allocator.free(loc[mask])
        accepted, at = loc[torch.tensor(keep)], 0
        for r, count in zip(batch.reqs, counts):
            self.row_map.write((r.req_pool_idx, slice(r.kv_committed_len, r.kv_committed_len + count)), accepted[at : at + count].to(torch.int32))
            r.kv_committed_len += count
            r.kv_allocated_len = r.kv_committed_len
            at += count
        return counts

    def process_batch_result(self, batch, result):
        if batch.forward_mode.is_extend():
            for r in batch.reqs:
                if r.finished() or r.is_retracted:
                    continue
                r.output_ids.append(r.answer[len(r.output_ids)])
                self.release(r) if r.finished() else self.cache_unfinished(r)
            return
        self.allocator.free_group_begin()
        for i, r in enumerate(batch.reqs):
            if r.req_pool_idx is None or r.is_retracted:
                if self.mode == "overlap" and r.finished() and self.version < (0, 5, 5):
                    self.allocator.free(batch.loc[i : i + 1])  # it ran once too often
                continue
            if self.spec_algorithm.is_none():
                r.output_ids.append(r.answer[len(r.output_ids)])
            elif self.ahead:
                n = min(result[i], r.kv_allocated_len - r.kv_committed_len, len(r.answer) - len(r.output_ids))
                r.kv_committed_len += n
                r.output_ids += r.answer[len(r.output_ids) : len(r.output_ids) + n]
            if r.finished():
                self.release(r)
        self.allocator.free_group_end()

    def step(self):
        """One iteration; overlapped, a result is looked at one iteration late."""
        batch = self.get_next_batch_to_run()
        result = self.run_batch(batch) if batch else None
        if self.late:
            if self.results:
                self.process_batch_result(*self.results.pop(0))
            if batch:
                self.results.append((batch, result))
        elif batch:
            self.process_batch_result(batch, result)
        self.last = batch
        return batch is not None or bool(self.results)
