"""SGLang's own allocator and prefix cache, imported from a wheel without installing what a server needs.

Only the modules named in REAL are SGLang's; whatever else they import (models, kernels, web servers) is an empty stand-in.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import re
import sys
import types
import zipfile

REAL = ("allocator", "allocator.base", "allocator.token", "allocator.paged", "paged_allocator", "radix_cache", "base_prefix_cache",
        "cache_init_params", "evict_policy", "utils", "events", "memory_pool", "session_radix_cache", "allocator.page_interleave",
        "unified_radix_cache", "unified_cache")
ALSO = ("sglang.srt.session.streaming_session",)
FUNCTIONS = ("get_num_new_pages", "next_power_of_2", "ceil_align", "ceil_div")  # taken from sglang.srt.utils as they are


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())


class Anything(metaclass=_Anything):
    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __class_getitem__(cls, item):
        return cls

    def __getitem__(self, item):
        return Anything()

    def __iter__(self):
        return iter(())

    def __bool__(self):
        return False

    def __or__(self, other):
        return self

    __ror__ = __or__


class _StandIn(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = Anything() if name.islower() else type(name, (Anything,), {})
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules of the wheel that are wanted; stand-ins for all others that are not installed for the test."""

    TOP = "sglang"
    ABSENT = ("gmpy2", "gmpy", "flint", "tabulate")  # torch and sympy ask for them and take no stand-in
    KEEP = ("torch", "torchgen", "sympy", "mpmath", "typing_extensions", "filelock", "jinja2", "networkx", "fsspec", "numpy", "h5py",
            "record_sglang", "mini_server") + (("msgspec",) if importlib.util.find_spec("msgspec") else ())  # what UnifiedRadixCache is built on

    def __init__(self, wheel):
        self.zip = zipfile.ZipFile(wheel)
        self.names = set(self.zip.namelist())
        self.wheel = wheel

    def path_of(self, name):
        base = name.replace(".", "/")
        for path in (base + ".py", base + "/__init__.py"):
            if path in self.names:
                return path
        return None

    def is_real(self, name):
        short = name[len("sglang.srt.mem_cache.") :] if name.startswith("sglang.srt.mem_cache.") else None
        wanted = name in ALSO or short in REAL or (short or "").startswith("unified_cache.")
        return wanted and self.path_of(name) is not None

    def find_spec(self, name, path, target=None):
        top = name.split(".")[0]
        if top in self.ABSENT:
            raise ModuleNotFoundError(name)
        if top in self.KEEP or (top != self.TOP and (top in sys.stdlib_module_names or top.startswith("_"))):
            return None
        package = not self.is_real(name) or self.path_of(name).endswith("__init__.py")
        return importlib.machinery.ModuleSpec(name, self, is_package=package)

    def create_module(self, spec):
        if self.is_real(spec.name):
            return None
        module = _StandIn(spec.name)
        if spec.name == self.TOP:
            module.__version__ = self.version()
        return module

    def exec_module(self, module):
        if self.is_real(module.__name__):
            path = self.path_of(module.__name__)
            module.__file__ = f"{self.wheel}/{path}"
            exec(compile(self.zip.read(path), f"{self.wheel}/{path}", "exec"), module.__dict__)
        elif module.__name__ in ("sglang.srt.utils", "sglang.srt.utils.common"):
            self.take_functions(module, ("sglang/srt/utils.py", "sglang/srt/utils/common.py", "sglang/srt/utils/__init__.py"), FUNCTIONS)
        elif module.__name__ == "sglang.srt.mem_cache.common":
            self.take_functions(module, ("sglang/srt/mem_cache/common.py",), ("coalesce_ranges", "free_kv_row_segments"))

    def take_functions(self, module, paths, names):
        import torch

        module.__dict__.update(torch=torch, Optional=__import__("typing").Optional, BaseTokenToKVPoolAllocator=object)
        for path in paths:
            if path not in self.names:
                continue
            for node in ast.parse(self.zip.read(path)).body:
                if isinstance(node, ast.FunctionDef) and node.name in names:
                    exec(compile(ast.Module([node], []), path, "exec"), module.__dict__)

    def version(self):
        return re.search(self.TOP + r"-([0-9.a-z]+)-", self.wheel.rsplit("/", 1)[-1]).group(1)


def load(wheel):
    import torch

    torch.compile = lambda *args, **kwargs: args[0] if args and callable(args[0]) else lambda function: function
    finder = Finder(wheel)
    sys.meta_path.insert(0, finder)
    import sglang

    return finder, sglang
