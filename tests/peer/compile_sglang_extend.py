#!/usr/bin/env python3
"""SGLang's Triton extend kernel as machine code: compile_sglang_extend.py SGLANG OUT [--heads 8,16,64] [--queries 9] [--keep]

SGLANG is the folder that holds an installed or unpacked package `sglang`; nothing of it is copied. No GPU, torch or other
dependency of SGLang is needed, only Triton (the release that SGLang's torch asks for). SGLang's own launcher runs, over stand-ins
for tensors, and its call of the kernel becomes Triton's `warmup`, so tiles, strides, flags and the specialisation of every
argument are theirs and not written down here a second time. Writes OUT/extend_TILE_hHEADS_MASK.cubin and .txt (README.md).
"""
import argparse
import importlib.util
import math
import os
import re
import subprocess
import sys
import types


class FakeDriver:
    """A GPU that is not here: Triton asks it for no more than this to compile."""

    def get_current_target(self):
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_active_torch_device(self):
        return "cuda"


class FakeTensor:
    """Shape, strides, type; aligned as torch's allocator aligns (512 B)."""

    def __init__(self, dtype, shape, strides=None):
        self.dtype, self.shape, self.ndim = dtype, tuple(shape), len(shape)
        self.strides = strides or tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))

    def stride(self, axis):
        return self.strides[axis]

    def data_ptr(self):
        return 512


class Recorder:
    """Stands where the launcher has its kernel: keeps the call, compiles instead of launching."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        def call(*args, **kwargs):
            self.grid, self.args, self.kwargs = grid, args, kwargs
            self.compiled = self.kernel.warmup(*args, grid=grid, **kwargs)

        return call


class Lenient(types.ModuleType):
    """A module of which SGLang's file takes names at import that it does not need here."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: False


def stand_in(name, **names):
    module = Lenient(name)
    module.__path__ = []
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


def load(package, name):
    """One file of SGLang under its own name, without the packages above it."""
    path = os.path.join(package, *name.split(".")) + ".py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or not os.path.exists(path):
        sys.exit(f"{path}: not there; SGLANG must be the folder that holds sglang/ (this was written for sglang 0.5.23)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_launcher(package, capability):
    """extend_attention.py as on a GPU of this capability: it decides the tile."""
    stand_in("torch", Tensor=FakeTensor, bfloat16="torch.bfloat16")
    stand_in("torch.cuda", get_device_capability=lambda *a: capability)
    sys.modules["torch"].cuda = sys.modules["torch.cuda"]
    stand_in("sglang")
    for folder in ("kernels", "kernels.ops", "kernels.ops.attention", "srt"):
        stand_in("sglang." + folder)
    stand_in("sglang.srt.environ", envs=types.SimpleNamespace())
    stand_in("sglang.srt.utils", is_cuda=lambda: True)
    stem = "sglang.kernels.ops.attention."
    load(package, stem + "score_mod")
    load(package, stem + "decode_attention")
    return load(package, stem + "extend_attention")


def launch(module, heads, queries, tree):
    """The call of its Triton backend in a verify step of an MLA model under a CUDA graph, batch 1, page size 1.

    With `tree` it has the mask array that a draft tree needs, which is not read for the prefix; without, the tree is a chain.
    """
    bf16 = "torch.bfloat16"
    mask = FakeTensor("torch.uint8", (queries * (262144 + queries),)) if tree else None
    pool = FakeTensor(bf16, (2000000, 1, 576))
    module._fwd_kernel = Recorder(module._fwd_kernel)
    module.extend_attention_fwd(
        FakeTensor(bf16, (queries, heads, 576)),
        FakeTensor(bf16, (queries, 1, 576)),
        FakeTensor(bf16, (queries, 1, 512)),  # the backend makes V contiguous
        FakeTensor(bf16, (queries, heads, 512)),
        pool,
        FakeTensor(bf16, (2000000, 1, 512), pool.strides),  # of the pool, V is the front of K
        FakeTensor("torch.int64", (2,)),  # qo_indptr; the graph's buffer
        FakeTensor("torch.int32", (2,)),  # kv_indptr
        FakeTensor("torch.int64", (262144,)),  # kv_indices
        mask,
        True,
        FakeTensor("torch.int64", (2,)) if tree else None,
        queries,
        1.0,
        1.0,
        1.0 / math.sqrt(192),
        logit_cap=0.0,
        page_size=1,
    )
    return module._fwd_kernel


def remaining(recorder):
    """(name, type, value) of the parameters that the machine code still has, in order; the value of a number."""
    kernel, compiled = recorder.kernel, recorder.compiled
    given = dict(zip(kernel.arg_names, recorder.args)) | recorder.kwargs
    left = []
    for name, kind in compiled.src.signature.items():
        if kind == "constexpr":
            continue
        value = given.get(name, kernel.signature.parameters[name].default)
        left.append((name, kind, "-" if kind.startswith("*") else repr(value)))
    return left


def ptx_types(ptx):
    entry = ptx[ptx.index(".entry") : ptx.index("{", ptx.index(".entry"))]
    return re.findall(r"\.param\s+\.(\w+)", entry)


def with_hidden(left, ptx):
    """Behind its own parameters a kernel has pointers to scratch memory: two, of which a launcher passes NULL when the sizes are 0."""
    bits = {"i32": "u32", "fp32": "f32", "i64": "u64"}
    types_ = ptx_types(ptx)
    wanted = ["u64" if kind.startswith("*") else bits[kind] for _, kind, _ in left]
    as_unsigned = [t.replace("b", "u").replace("s", "u") if t != "f32" else t for t in types_]
    got = ["f32" if w == "f32" and t == "u32" else t for w, t in zip(wanted, as_unsigned)]
    if got != wanted:
        sys.exit(f"the kernel's parameters are {types_}, not those of its signature {left}")
    names = ["global_scratch", "profile_scratch"]
    hidden = types_[len(wanted) :]
    if len(hidden) > len(names) or any(t not in ("u64", "b64") for t in hidden):
        sys.exit(f"hidden parameters {hidden}: this Triton passes something that is not known here")
    return left + [(names[i], "*scratch", "-") for i in range(len(hidden))]


def resources(cubin):
    """ptxas's count of registers and spills, by Triton's own cuobjdump."""
    import triton

    tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "cuobjdump")
    text = subprocess.run([tool, "--dump-resource-usage", cubin], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"\b(REG|STACK|LOCAL|SHARED):(\d+)", text))
    return found


def version_of(package):
    for folder in os.listdir(package):
        if folder.startswith("sglang-") and folder.endswith(".dist-info"):
            return folder[len("sglang-") : -len(".dist-info")]
    return "unknown"


def write(recorder, package, heads, queries, tree, out, keep):
    import triton

    compiled, kwargs = recorder.compiled, recorder.kwargs
    meta = compiled.metadata
    if meta.global_scratch_size or meta.profile_scratch_size:
        sys.exit("the kernel wants scratch memory, which gpu-peer-triton does not give")
    mask = "tree" if tree else "causal"
    stem = os.path.join(out, f"extend_{kwargs['BLOCK_M']}x{kwargs['BLOCK_N']}_h{heads}_{mask}")
    with open(stem + ".cubin", "wb") as f:
        f.write(compiled.asm["cubin"])
    use = resources(stem + ".cubin")
    lines = [
        "format peer-kernel-1",
        f"sglang {version_of(package)}",
        f"triton {triton.__version__}",
        f"name {meta.name}",
        f"tile {kwargs['BLOCK_M']} {kwargs['BLOCK_N']}",
        f"heads {heads}",
        f"queries {queries}",
        "grid " + " ".join(str(n) for n in recorder.grid),
        f"threads {32 * meta.num_warps}",
        f"stages {meta.num_stages}",
        f"shared {meta.shared}",
        f"registers {use.get('REG', 0)}",
        f"stack {use.get('STACK', 0)}",
    ]
    lines += [f"param {name} {kind} {value}" for name, kind, value in with_hidden(remaining(recorder), compiled.asm["ptx"])]
    with open(stem + ".txt", "w") as f:
        f.write("\n".join(lines) + "\n")
    if keep:
        for kind in ("ptx", "ttgir"):
            with open(f"{stem}.{kind}", "w") as f:
                f.write(compiled.asm[kind])
    print(f"{stem}: {use.get('REG')} registers, {use.get('STACK')} B stack, {meta.shared} B shared, {meta.num_warps} warps, {meta.num_stages} stages")


def main():
    parse = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parse.add_argument("sglang")
    parse.add_argument("out")
    parse.add_argument("--heads", default="8,16,64")
    parse.add_argument("--queries", type=int, default=9)
    parse.add_argument("--keep", action="store_true", help="write Triton's PTX and TTGIR too")
    args = parse.parse_args()
    import triton

    triton.runtime.driver.set_active(FakeDriver())
    os.makedirs(args.out, exist_ok=True)
    for capability in ((9, 0), (12, 0)):  # whose tiles are 32x64 and 32x32; compiled for sm_90 both times
        for heads in map(int, args.heads.split(",")):
            for tree in (False, True):
                recorder = launch(load_launcher(args.sglang, capability), heads, args.queries, tree)
                write(recorder, args.sglang, heads, args.queries, tree, args.out, args.keep)


if __name__ == "__main__":
    main()
