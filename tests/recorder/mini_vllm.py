"""A server without a model: vLLM's own KVCacheManager, block pool and Request (from a wheel) under a small scheduler of ours.

What the recorder hooks has the names and the order of calls of vLLM's V1 scheduler: running requests first, preemption of the newest when
blocks run out, then waiting ones with their prefix hits; chunked prefill under a token budget; drafts and lookahead.
"""

import hashlib
import inspect
import pickle
import random
import types

from vllm.v1.core import kv_cache_utils
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request, RequestStatus


def by_name(function, **given):
    """Calls with the arguments that the function has, by name."""
    names = inspect.signature(function).parameters
    return function(**{k: v for k, v in given.items() if k in names})


def digest(value):
    return kv_cache_utils.BlockHash(hashlib.sha256(pickle.dumps(value)).digest()) if not inspect.isclass(kv_cache_utils.BlockHash) else hash(value)


class Scheduler:
    """Attributes are named as vLLM's Scheduler names them."""

    def __init__(self, blocks, page=16, seed=1, drafts=0, lookahead=0, running=8, budget=256, caching=True, prompts=None, late=False, answers=120):
        self.random = random.Random(seed)
        self.page, self.budget, self.most, self.longest = page, budget, running, answers
        self.num_spec_tokens, self.num_lookahead_tokens = drafts, lookahead
        self.late = late  # asynchronous scheduling: a step is scheduled before the results of the one before are seen
        self.running, self.waiting, self.requests = [], [], {}
        self.connector = None
        self.prompts = prompts or (lambda: self.random.randrange(1, 400))
        self.made, self.answers, self.results = 0, {}, []
        self.counts = {"finish": 0, "preempt": 0, "hit": 0, "evict": 0}
        self.taken = []  # blocks, in the order in which the pool handed them out
        spec = by_name(FullAttentionSpec, block_size=page, num_kv_heads=1, head_size=64, dtype=None, use_mla=False)
        config = by_name(KVCacheConfig, num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[by_name(KVCacheGroupSpec, layer_names=["0"], kv_cache_spec=spec)])
        self.kv_cache_manager = by_name(KVCacheManager, kv_cache_config=config, max_model_len=8192, enable_caching=caching, use_eagle=lookahead > 0,
                                        log_stats=False, hash_block_size=page, scheduler_block_size=page, max_num_batched_tokens=budget)
        self.tells_drafts = "num_draft_tokens" in inspect.signature(KVCacheManager.allocate_slots).parameters
        self.hasher = None
        if hasattr(kv_cache_utils, "init_none_hash"):
            kv_cache_utils.init_none_hash(digest)
        if hasattr(kv_cache_utils, "get_request_block_hasher"):
            self.hasher = kv_cache_utils.get_request_block_hasher(page, digest)
        self.watch_pool()

    def watch_pool(self):
        """What the pool hands out, for the test to compare with; below the recorder's hooks."""
        pool = self.kv_cache_manager.block_pool
        take = pool.get_new_blocks

        def get_new_blocks(*args, **kwargs):
            before = {b.block_id for b in pool.free_block_queue.get_all_free_blocks() if b.block_hash is not None}
            out = take(*args, **kwargs)
            self.taken += [b.block_id for b in out]
            self.counts["evict"] += sum(b.block_id in before for b in out)
            return out

        pool.get_new_blocks = get_new_blocks

    # -- requests

    def new_request(self, answer=None):
        """Four in ten prompts begin like an earlier one."""
        shared = list(range(100)) if self.random.random() < 0.4 else []
        base = 100000 * (self.made + 1)
        prompt = shared + [base + i for i in range(self.prompts())]
        answer = answer or self.random.randrange(1, self.longest)
        sampling = types.SimpleNamespace(max_tokens=answer, extra_args=None, prompt_logprobs=None, guided_decoding=None, structured_outputs=None,
                                         skip_reading_prefix_cache=False, eos_token_id=None)
        r = by_name(Request, request_id=str(self.made), prompt_token_ids=prompt, sampling_params=sampling, pooling_params=None, eos_token_id=None,
                    multi_modal_inputs=None, multi_modal_hashes=None, multi_modal_placeholders=None, mm_features=None, block_hasher=self.hasher)
        r.structured_output_request = None
        r.skip_reading_prefix_cache = False
        r.status = RequestStatus.WAITING
        self.answers[r.request_id] = answer
        self.made += 1
        self.add_request(r)

    def add_request(self, request):
        self.waiting.append(request)
        self.requests[request.request_id] = request

    def placeholders(self, r):
        return getattr(r, "num_output_placeholders", 0)

    # -- a step

    def schedule(self):
        scheduled, budget, preempted = {}, self.budget, []
        i = 0
        while i < len(self.running) and budget > 0:
            r = self.running[i]
            n = min(r.num_tokens_with_spec + self.placeholders(r) - r.num_computed_tokens, budget)
            if n <= 0 or (self.late and r.num_output_tokens + self.placeholders(r) >= self.answers[r.request_id]):
                i += 1
                continue
            while (new := self.allocate(r, n)) is None:
                victim = self.running.pop()
                self._preempt_request(victim)
                scheduled.pop(victim.request_id, None)
                preempted.append(victim)
                if victim is r:
                    break
            if new is None:
                break
            scheduled[r.request_id] = n
            budget -= n
            i += 1
        while not preempted and self.waiting and budget > 0 and len(self.running) < self.most:
            r = self.waiting[0]
            hit, tokens = self.kv_cache_manager.get_computed_blocks(r)[:2]
            n = min(r.num_tokens - tokens, budget)
            if self.allocate(r, n, tokens, hit) is None:
                break
            self.counts["hit"] += tokens
            self.running.append(self.waiting.pop(0))
            r.status, r.num_computed_tokens = RequestStatus.RUNNING, tokens
            scheduled[r.request_id] = n
            budget -= n
        drafts = {}
        for rid, n in scheduled.items():
            r = self.requests[rid]
            drafts[rid] = max(0, r.num_computed_tokens + n - r.num_tokens - self.placeholders(r))
            r.num_computed_tokens += n
            if self.late and r.num_computed_tokens >= r.num_tokens + self.placeholders(r):
                r.num_output_placeholders += 1 + drafts[rid]
        return scheduled, drafts

    def allocate(self, r, n, tokens=0, hit=None):
        more = {}
        if self.tells_drafts:
            more["num_draft_tokens"] = max(n + r.num_computed_tokens - r.num_tokens, 0) if hit is None else 0
        return self.kv_cache_manager.allocate_slots(r, n, tokens, hit, num_lookahead_tokens=self.num_lookahead_tokens, **more)

    def _preempt_request(self, r):
        self.kv_cache_manager.free(r)
        r.status, r.num_computed_tokens = RequestStatus.PREEMPTED, 0
        r.spec_token_ids = []
        if self.late:
            r.num_output_placeholders = 0
        self.counts["preempt"] += 1
        self.waiting.insert(0, r)

    def update_from_output(self, scheduled, drafts):
        for rid, n in scheduled.items():
            r = self.requests.get(rid)
            if r is None or r.status != RequestStatus.RUNNING or (self.late and not self.placeholders(r)):
                continue  # ended or preempted while the step ran
            if not self.late and r.num_computed_tokens < r.num_tokens:
                continue  # a chunk of its prompt
            accepted = self.random.randrange(drafts[rid] + 1)
            r.num_computed_tokens -= drafts[rid] - accepted
            if self.late:
                r.num_output_placeholders -= 1 + drafts[rid]
            left = self.answers[rid] - r.num_output_tokens
            r.append_output_token_ids([7000000 + r.num_output_tokens + k for k in range(min(accepted + 1, left))])
            if accepted + 1 > left:
                r.num_computed_tokens -= accepted + 1 - left
            r.spec_token_ids = [1] * (self.random.randrange(self.num_spec_tokens + 1) if self.num_lookahead_tokens == 0 else self.num_spec_tokens)
            if r.num_output_tokens >= self.answers[rid]:
                self.finish(r)

    def finish(self, r):
        r.status = RequestStatus.FINISHED_STOPPED
        self.kv_cache_manager.free(r)
        if hasattr(self.kv_cache_manager, "free_block_hashes"):
            self.kv_cache_manager.free_block_hashes(r)
        self.running.remove(r)
        del self.requests[r.request_id]
        self.counts["finish"] += 1

    def step(self):
        scheduled = self.schedule()
        self.results.append(scheduled)
        if len(self.results) > (1 if self.late else 0):
            self.update_from_output(*self.results.pop(0))
        return bool(scheduled[0]) or bool(self.results and self.results[0][0])
