#!/usr/bin/env python3
"""Tests of traces/record_sglang.py against SGLang's own allocator and prefix cache, taken from wheels.

    recorder_test.py KVSIM WHEEL...      each wheel in a process of its own; exit status 77 where torch or h5py is missing
    recorder_test.py --one KVSIM WHEEL   one wheel
    recorder_test.py --serve WHEEL PREFIX MODE   a server that runs until it is killed
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import wheels
from wheels import run, version_of


def replay(kvsim, prefix, folder):
    trace = os.path.join(folder, "joined.h5")
    run(kvsim, "import", "-q", "--segments", prefix, "-o", trace)
    return trace, json.loads(run(kvsim, "replay", trace, "--json", "--no-report", "-o", os.path.join(folder, "kvsim.h5")))


def recorded_server(wheel, prefix, **options):
    import mini_server
    import record_sglang

    server = mini_server.Server(version=version_of(wheel), **options)
    recorder = record_sglang.Recorder(server, prefix, seconds=0.2, version=version_of(wheel))
    return server, recorder


def one_mode(kvsim, wheel, mode, need_sort, pool=1500, requests=80, page=1, tree="radix"):
    import h5py
    import numpy as np
    import torch

    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "run.tp0")
        server, recorder = recorded_server(wheel, prefix, pool=pool, mode=mode, need_sort=need_sort, page=page, tree=tree)
        steps = 0
        for _ in range(requests):
            server.new_request()
            for _ in range(4):
                steps += server.step()
        while server.step() or server.waiting_queue or server.running:
            steps += 1
            assert steps < 100000
        recorder.close()
        assert not recorder.writer.broken
        trace, said = replay(kvsim, prefix, folder)
        assert said["requests_finished"] == requests == server.counts["finish"], said
        assert said["requests_retracted"] == server.counts["retract"], said
        assert said["skipped_events"] == 0
        assert said["final_free_list"]["matches_recording"] is True, said["final_free_list"]
        segments = page > 1 and version_of(wheel) >= (0, 5, 17)
        assert ("segment" in said["allocator"]) == segments, said["allocator"]
        whatif = json.loads(run(kvsim, "whatif", trace, "--policy", "as-recorded", "--json", "--no-report", "-o", os.path.join(folder, "w.h5")))
        assert whatif["mismatches"] == 0 and whatif["final_lists_match"] is True, whatif["mismatches"]
        with h5py.File(trace) as f:
            kind, count, slots = f["events/kind"][:], f["events/count"][:], f["events/slots"][:]
            reasons = f["events/aux"][:][kind == 8]
            hits = int(count[kind == 3].sum())
            assert (f["events/position"][:][kind == 8] == 0).any() == segments
        taken = np.repeat(np.isin(kind, (4, 5, 6, 14)), count)
        assert np.array_equal(slots[taken], torch.cat(server.allocated).numpy()), "not the slots that the server took"
        assert hits == server.counts["hit"], (hits, server.counts)
        assert server.counts["evict"] > 0 and (reasons == 4).any()
        assert mode != "v1" or (reasons == 1).any()
        if mode != "overlap":  # there older versions give the slot of a step too many back without a word
            assert (reasons != 0).all(), f"{(reasons == 0).sum()} frees whose reason is not known"
        return server.counts


def unified(kvsim, wheel):
    """UnifiedRadixCache, the default of the newest versions."""
    import importlib.util

    if not importlib.util.find_spec("msgspec"):
        return "UnifiedRadixCache skipped: msgspec is missing"
    for mode in ("none", "overlap", "v2"):
        one_mode(kvsim, wheel, mode, False, tree="unified")
    for sort in (False, True):
        one_mode(kvsim, wheel, "none", sort, pool=4000, page=16, tree="unified")
    return "UnifiedRadixCache"


def refused(wheel):
    """What cannot be recorded is said, not recorded wrongly."""
    import mini_server
    import record_sglang

    def older(_):
        return (0, 3, 6)

    def hierarchical(scheduler):
        scheduler.enable_hierarchical_cache = True

    def linked(scheduler):
        scheduler.tree_cache.linker = object()

    def sliding_window(scheduler):
        scheduler.allocator.__class__ = type("SWATokenToKVPoolAllocator", (type(scheduler.allocator),), {})

    for change, text in ((older, "older"), (hierarchical, "hierarchical"), (linked, "hierarchical"), (sliding_window, "SWATokenToKVPoolAllocator")):
        scheduler = mini_server.Server(pool=1000, version=version_of(wheel))
        version = change(scheduler) or version_of(wheel)
        try:
            record_sglang.Recorder(scheduler, "/nonexistent/x", version=version)
        except record_sglang.Refused as why:
            assert text in str(why), why
        else:
            raise AssertionError(f"{change.__name__} was not refused")


def probe(wheel):
    """What the recorder hooks in the scheduler is there in this version: read from its source, which is not run here."""
    import ast
    import zipfile

    with zipfile.ZipFile(wheel) as z:
        text = {n: z.read(n).decode() for n in z.namelist() if n.startswith("sglang/srt/") and n.endswith(".py")}

    def methods(path, name):
        return {m.name for c in ast.parse(text[path]).body if isinstance(c, ast.ClassDef) and c.name == name
                for m in c.body if isinstance(m, ast.FunctionDef)}

    scheduler = methods("sglang/srt/managers/scheduler.py", "Scheduler")
    assert {"__init__", "get_next_batch_to_run", "run_batch", "process_batch_result"} <= scheduler, scheduler
    batch = methods("sglang/srt/managers/schedule_batch.py", "ScheduleBatch")
    assert {"prepare_for_extend", "prepare_for_decode", "retract_decode"} <= batch, batch
    source = text["sglang/srt/managers/schedule_batch.py"]
    for name in ("self.prefix_lens = ", "self.extend_lens = ", "origin_input_ids", "req_pool_idx"):
        assert name in source, name
    common = text.get("sglang/srt/mem_cache/common.py", "")
    assert ("def release_kv_cache(req" in common) == (version_of(wheel) >= (0, 5, 5)) or "def cache_finished_req" in text["sglang/srt/mem_cache/radix_cache.py"]
    assert "self.tree_cache" in text["sglang/srt/managers/scheduler.py"] and "waiting_queue" in text["sglang/srt/managers/scheduler.py"]


def spawned():
    """A package of a few lines stands for SGLang: its Scheduler has a pool that is refused."""
    wheels.spawned("sglang", "record_sglang.py", {
        "__init__.py": "__version__ = '9.9.9'\n", "child.py": wheels.child("sglang.srt.managers.scheduler"),
        "srt/managers/scheduler.py": ("class Pool:\n    pass\nclass Scheduler:\n    def __init__(self):\n"
                                      "        self.tree_cache = self.req_to_token_pool = None\n        self.token_to_kv_pool_allocator = Pool()\n"),
        "launch_server.py": wheels.launcher("sglang")}, "not recording: the allocator Pool")


def cost(wheel, steps=400):
    """What the hooks add to a decode step of 64 requests: the median with them less the median without, and a step's CPU time
    of the writing thread."""
    import mini_server

    def measure(record):
        with tempfile.TemporaryDirectory() as folder:
            server = mini_server.Server(pool=200000, version=version_of(wheel), running=64, prompts=lambda: 300)
            recorder = None
            if record:
                import record_sglang

                recorder = record_sglang.Recorder(server, os.path.join(folder, "cost"), seconds=1.0, version=version_of(wheel))
            for _ in range(64):
                server.new_request()
                server.waiting_queue[-1].answer = server.waiting_queue[-1].tokens([7] * (steps + 200))
                server.waiting_queue[-1].sampling_params.max_new_tokens = steps + 200
            while server.waiting_queue:
                server.step()
            return wheels.step_times(server, recorder, steps, statistics.median)

    return wheels.added(measure, 3)


def killed(kvsim, wheel, number):
    """A server that is killed leaves segments that join and replay; one that is asked to end leaves everything."""
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "run")
        child = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--serve", wheel, prefix, "none"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "KVROOF_RECORD": prefix, "KVROOF_RECORD_SECONDS": "0.3"})
        deadline = time.monotonic() + 60
        while not os.path.exists(prefix + ".tp0.000003.h5") and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.05)
        os.kill(child.pid, number)
        out, err = child.communicate(timeout=30)
        assert os.path.exists(prefix + ".tp0.000003.h5"), err
        trace, said = replay(kvsim, prefix + ".tp0", folder)
        assert said["requests_finished"] > 0 and said["steps"] > 10
        final = said["final_free_list"]["matches_recording"]
        assert final is (True if number == signal.SIGTERM else None), (number, final)
        return said["steps"]


def serve(wheel, prefix, mode):
    import sglang_source

    sglang_source.load(wheel)
    import mini_server
    import record_sglang

    server = mini_server.Server(pool=6000, mode=mode, version=version_of(wheel))
    assert record_sglang.attach(server) is not None
    while True:
        if len(server.waiting_queue) < 4:
            server.new_request()
        server.step()
        time.sleep(0.001)


def one(kvsim, wheel):
    import torch

    import sglang_source

    torch.set_num_threads(1)
    sglang_source.load(wheel)
    version = version_of(wheel)
    parts = []
    for mode in ("none", "overlap", "v1", "v2"):
        if mode == "v1" and version >= (0, 5, 14) or mode == "v2" and version < (0, 5, 5):
            continue  # v1 was removed upstream in 2026; v2 came late in 2025
        counts = one_mode(kvsim, wheel, mode, False)
        assert counts["retract"] > 0
        parts.append(f"{mode}: {counts['finish']} finished, {counts['retract']} retracted, {counts['evict']} evicted")
    if version >= (0, 5, 2):
        one_mode(kvsim, wheel, "none", True)
        parts.append("need_sort")
    if version >= (0, 5, 9):
        for sort in (False, True):
            one_mode(kvsim, wheel, "none", sort, pool=4000, page=16)
        parts.append("pages")
    if version >= (0, 5, 17):
        parts.append(unified(kvsim, wheel))
    refused(wheel)
    probe(wheel)
    print(f"  {'.'.join(map(str, version))}: {'; '.join(parts)}", flush=True)


def main(args):
    if args[0] == "--serve":
        return serve(*args[1:])
    if args[0] == "--one":
        return one(*args[1:])
    if args[0] == "--cost":
        import sglang_source
        import torch

        torch.set_num_threads(1)
        sglang_source.load(args[1])
        return wheels.tell_cost(*cost(args[1]))
    lacks = wheels.missing("h5py", "torch")
    if lacks:
        print(f"  skipped: {lacks}")
        return 77
    spawned()
    failed = wheels.each(__file__, args[0], args[1:])
    newest = max(args[1:], key=version_of)
    for number in (signal.SIGKILL, signal.SIGTERM):
        print(f"  {number.name}: {killed(args[0], newest, number)} steps", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
