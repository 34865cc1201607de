#!/usr/bin/env python3
"""Tests of traces/record_vllm.py against vLLM's own block pool, taken from wheels. As recorder_test.py; torch is not needed.

    vllm_test.py KVSIM WHEEL...          each wheel in a process of its own; exit status 77 where h5py is missing
    vllm_test.py --sample WHEEL PREFIX   a small recording
    vllm_test.py --cost WHEEL
"""

import json
import os
import random
import statistics
import sys
import tempfile

import wheels
from wheels import run, version_of

MODES = {"plain": {}, "drafts": {"drafts": 4}, "eagle": {"drafts": 3, "lookahead": 3}, "no caching": {"caching": False}, "large blocks": {"page": 64, "blocks": 24},
         "async": {"late": True}, "async drafts": {"late": True, "drafts": 3, "lookahead": 3}}


def recorded(wheel, prefix, requests=80, **options):
    """A server that serves `requests` and is recorded."""
    import mini_vllm
    import record_vllm

    server = mini_vllm.Scheduler(**{"blocks": 90, **options})
    recorder = record_vllm.Recorder(server, prefix, seconds=0.2, version=version_of(wheel))
    recorder.writer.info["origin"] = recorder.writer.info["origin"].replace("a running server", "a test's scheduler (tests/recorder/mini_vllm.py)")
    steps = 0
    for _ in range(requests):
        server.new_request()
        for _ in range(4):
            server.step()
    while server.step() or server.waiting or server.running:
        steps += 1
        assert steps < 100000
    if server.kv_cache_manager.enable_caching and server.random.random() < 0.5:
        assert server.kv_cache_manager.reset_prefix_cache()
    recorder.close()
    assert not recorder.writer.broken and not recorder.writer.queue
    return server


def one_mode(kvsim, wheel, options):
    import h5py
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        prefix, trace = os.path.join(folder, "run.dp0"), os.path.join(folder, "joined.h5")
        server = recorded(wheel, prefix, **options)
        run(kvsim, "import", "-q", "--segments", prefix, "-o", trace)
        said = json.loads(run(kvsim, "replay", trace, "--json", "--no-report", "-o", os.path.join(folder, "kvsim.h5")))
        assert said["requests_finished"] == 80 == server.counts["finish"], server.counts
        assert said["requests_retracted"] == server.counts["preempt"] > 0, (said["requests_retracted"], server.counts)
        assert said["skipped_events"] == 0
        assert said["final_free_list"]["matches_recording"] is True, said["final_free_list"]
        whatif = json.loads(run(kvsim, "whatif", trace, "--policy", "as-recorded", "--json", "--no-report", "-o", os.path.join(folder, "w.h5")))
        assert whatif["policies"][0]["mismatches"] == 0, whatif["policies"][0]
        assert "info" and "vllm" in run(kvsim, "info", trace)
        with h5py.File(trace) as f:
            kind, count, slots, aux = f["events/kind"][:], f["events/count"][:], f["events/slots"][:], f["events/aux"][:]
        page = server.page
        taken = slots[np.repeat(np.isin(kind, (4, 5, 14)), count)]
        assert np.array_equal(taken[taken % page == 0] // page, server.taken), "not the blocks that the pool handed out"
        hits = int(count[kind == 3].sum())
        assert hits == server.counts["hit"], (hits, server.counts)
        caching = server.kv_cache_manager.enable_caching
        assert (server.counts["hit"] > 0) == (server.counts["evict"] > 0) == caching
        assert (kind[1:][(kind == 8)[:-1] & (aux == 4)[:-1]] != 0).all()
        return server.counts


def refused(wheel):
    """What cannot be recorded is said, not recorded wrongly."""
    import mini_vllm
    import record_vllm

    def connector(s):
        s.connector = object()

    def hybrid(s):
        c = s.kv_cache_manager.coordinator
        c.single_type_managers = c.single_type_managers * 2

    def window(s):
        m = s.kv_cache_manager.coordinator.single_type_managers[0]
        m.__class__ = type("SlidingWindowManager", (type(m),), {})

    def in_use(s):
        s.kv_cache_manager.block_pool.get_new_blocks(1)

    for change, text in ((connector, "connector"), (hybrid, "hybrid"), (window, "SlidingWindowManager"), (in_use, "in use"), (None, "older")):
        server = mini_vllm.Scheduler(blocks=50)
        if change:
            change(server)
        try:
            record_vllm.Recorder(server, "/nonexistent/x", version=version_of(wheel) if change else (0, 8, 5))
        except record_vllm.Refused as why:
            assert text in str(why), why
        else:
            raise AssertionError(f"{text} was not refused")


def unexplained(wheel):
    """Blocks that come back without a request's end finish the recording, not the server."""
    import mini_vllm
    import record_vllm

    with tempfile.TemporaryDirectory() as folder:
        server = mini_vllm.Scheduler(blocks=50)
        recorder = record_vllm.Recorder(server, os.path.join(folder, "x"), version=version_of(wheel))
        pool = server.kv_cache_manager.block_pool
        pool.free_blocks(pool.get_new_blocks(2))
        assert recorder.stopped and pool.get_num_free_blocks() == 49
        recorder.close()


def spawned():
    """A package of a few lines stands for vLLM: its Scheduler has no KVCacheManager, which is refused."""
    wheels.spawned("vllm", "record_vllm.py", {
        "__init__.py": "__version__ = '9.9.9'\n", "child.py": wheels.child("vllm.v1.core.sched.scheduler"),
        "v1/core/sched/scheduler.py": "class Scheduler:\n    pass\n", "entrypoints/openai/api_server.py": wheels.launcher("vllm")},
        "record_vllm: not recording: the scheduler has no KVCacheManager")


def probe(wheel):
    """What the recorder hooks in the scheduler is there in this version: read from its source, which is not run here."""
    import ast
    import zipfile

    with zipfile.ZipFile(wheel) as z:
        source = z.read("vllm/v1/core/sched/scheduler.py").decode()
    found = {m.name: m for c in ast.parse(source).body if isinstance(c, ast.ClassDef) and c.name == "Scheduler" for m in c.body if isinstance(m, ast.FunctionDef)}
    assert {"__init__", "schedule", "update_from_output", "add_request", "finish_requests"} <= set(found)
    made = {t.attr for n in ast.walk(found["__init__"]) if isinstance(n, (ast.Assign, ast.AnnAssign))
            for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if isinstance(t, ast.Attribute)}
    assert {"kv_cache_manager", "running", "waiting", "connector", "num_lookahead_tokens", "num_spec_tokens", "vllm_config"} <= made, made
    calls = [ast.unparse(n.func) for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    assert "self.kv_cache_manager.allocate_slots" in calls and "self.kv_cache_manager.free" in calls
    pool = {c for c in calls if ".block_pool." in c}
    assert pool <= {"self.kv_cache_manager.block_pool.free_blocks", "self.kv_cache_manager.block_pool.get_num_free_blocks",
                    "self.kv_cache_manager.block_pool.get_usage"}, pool  # nobody else takes blocks


def cost(wheel, steps=400):
    """What the hooks add to a decode step of 64 requests, and a step's CPU time of the writing thread."""
    import mini_vllm

    def measure(record):
        with tempfile.TemporaryDirectory() as folder:
            server = mini_vllm.Scheduler(blocks=20000, running=64, budget=8192, prompts=lambda: 300)
            del server.kv_cache_manager.block_pool.get_new_blocks  # the test's own watch
            recorder = None
            if record:
                import record_vllm

                recorder = record_vllm.Recorder(server, os.path.join(folder, "cost"), seconds=1.0, version=version_of(wheel))
            for _ in range(64):
                server.new_request(steps + 200)
            while server.waiting:
                server.step()
            return wheels.step_times(server, recorder, steps, statistics.fmean)

    return wheels.added(measure, 5)


def one(kvsim, wheel):
    import vllm_source

    vllm_source.load(wheel)
    parts = []
    for name, options in MODES.items():
        if "async" in name and version_of(wheel) < (0, 11, 0):
            continue
        counts = one_mode(kvsim, wheel, options)
        parts.append(f"{name}: {counts['preempt']} preempted, {counts['evict']} evicted")
    refused(wheel)
    unexplained(wheel)
    probe(wheel)
    print(f"  vLLM {'.'.join(map(str, version_of(wheel)))}: {'; '.join(parts)}", flush=True)


def main(args):
    import vllm_source

    if args[0] == "--one":
        return one(*args[1:])
    if args[0] == "--sample":
        vllm_source.load(args[1])
        random.seed(5)
        server = recorded(args[1], args[2], requests=60, drafts=3, lookahead=3, blocks=240, running=16, budget=512, answers=80, prompts=lambda: 20 + random.randrange(1500))
        print(server.counts)
        return 0
    if args[0] == "--cost":
        vllm_source.load(args[1])
        return wheels.tell_cost(*cost(args[1]))
    lacks = wheels.missing("h5py")
    if lacks:
        print(f"  skipped: {lacks}")
        return 77
    spawned()
    return 1 if wheels.each(__file__, args[0], args[1:]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
