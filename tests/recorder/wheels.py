"""What the tests of both recorders share: running kvsim, a server that spawns, the cost of the hooks, and a process for each wheel."""

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRACES = os.path.join(HERE, "..", "..", "traces")
sys.path.insert(0, TRACES)


def version_of(wheel):
    """(0, 5, 9) of .../sglang-0.5.9-py3-none-any.whl"""
    return tuple(int(x) for x in re.search(r"-(\d+)\.(\d+)\.(\d+)", os.path.basename(wheel)).groups())


def run(kvsim, *args):
    done = subprocess.run([kvsim, *args], capture_output=True, text=True)
    assert done.returncode == 0, f"kvsim {' '.join(args)}: {done.returncode}: {done.stderr}"
    return done.stdout


def spawned(package, script, files, says):
    """The hooks reach the process that a server spawns. `files` of a few lines stand for the package: its Scheduler has something that is
    refused, and that line, `says`, comes from the spawned process once."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = os.path.join(folder, package, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write(text)
        for inner, _, names in os.walk(os.path.join(folder, package)):
            if "__init__.py" not in names:
                open(os.path.join(inner, "__init__.py"), "w").close()
        path = os.path.join(TRACES, script)
        env = {**os.environ, "PYTHONPATH": folder, "KVROOF_RECORD": os.path.join(folder, "x")}
        done = subprocess.run([sys.executable, path, "--port", "1"], env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split()[1] == done.stdout.split()[3], done.stdout
        assert done.stderr.count(says) == 1, done.stderr
        del env["KVROOF_RECORD"]
        assert subprocess.run([sys.executable, path], env=env, capture_output=True, timeout=60).returncode == 2


def launcher(package):
    """A program that spawns a process, as a server does; both print their parent's or own number."""
    return (f"import multiprocessing, os\nfrom {package}.child import run\nif __name__ == '__main__':\n"
            "    p = multiprocessing.get_context('spawn').Process(target=run)\n    p.start()\n    p.join()\n    print('parent', os.getpid())\n")


def child(scheduler):
    return f"import os\ndef run():\n    from {scheduler} import Scheduler\n    Scheduler()\n    print('child', os.getppid())\n"


def step_times(server, recorder, steps, middle):
    """Of a server that decodes: `middle` of a step's CPU time, and what the process spends beside it a step (the interpreter's lock is shared)."""
    server.step()
    times, process = [], time.process_time()
    for _ in range(steps):
        began = time.thread_time()
        server.step()
        times.append(time.thread_time() - began)
        time.sleep(0.002)  # the model's turn: the writer works meanwhile, as on a server
    spent = time.process_time() - process - sum(times)
    assert len(server.running) == 64
    if recorder:
        recorder.close()
    return middle(times), spent / steps


def added(measure, rounds):
    """What recording adds: measure(True) less measure(False), the median of so many rounds."""
    pairs = [(measure(False), measure(True)) for _ in range(rounds)]
    return tuple(statistics.median(b[k] - a[k] for a, b in pairs) for k in range(2))


def tell_cost(hooks, thread):
    print(f"  hooks {hooks * 1e6:.0f} us, writing thread {thread * 1e6:.0f} us a decode step of 64 requests")
    assert hooks + thread < 0.02 * 0.022, "more than 2 % of a step of 22 ms"
    return 0


def missing(*modules):
    """The first of the modules that is not there; None."""
    for name in modules:
        try:
            __import__(name)
        except ImportError as error:
            return error
    return None


def each(script, kvsim, wheels):
    """Each wheel in a process of its own, oldest first, then the cost with the newest; how many failed."""
    wheels = sorted(wheels, key=version_of)
    parts = [("--one", kvsim, wheel) for wheel in wheels] + [("--cost", wheels[-1])]
    return sum(subprocess.run([sys.executable, os.path.abspath(script), *args]).returncode != 0 for args in parts)
