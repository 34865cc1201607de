"""vLLM's own KV cache manager and block pool, imported from a wheel without installing what a server needs.

Only what REAL names is vLLM's, and the classes and functions in TAKEN; whatever else they import (torch, models, kernels, web servers) is an
empty stand-in. The block pool, its queue, the managers and Request are never stand-ins.
"""

import ast
import re
import sys

from sglang_source import Anything, Finder as _Finder

REAL = ("vllm.v1.core", "vllm.v1.request", "vllm.v1.kv_cache_interface", "vllm.v1.kv_cache_spec_registry", "vllm.utils.math_utils", "vllm.envs")
TAKEN = {"vllm.v1.utils": ("ConstantList",), "vllm.utils": ("cdiv", "round_up", "length_from_prompt_token_ids_or_embeds")}
HOMES = {"cdiv": ("vllm/utils/__init__.py", "vllm/utils.py"), "round_up": ("vllm/utils/__init__.py", "vllm/utils.py")}


class Finder(_Finder):
    TOP, ABSENT = "vllm", ()
    KEEP = ("numpy", "h5py", "typing_extensions", "record_sglang", "record_vllm", "mini_vllm", "sglang_source")

    def is_real(self, name):
        return any(name == r or (r == "vllm.v1.core" and name.startswith(r + ".")) for r in REAL) and ".sched" not in name and self.path_of(name) is not None

    def exec_module(self, module):
        if self.is_real(module.__name__):
            path = self.path_of(module.__name__)
            exec(compile(self.zip.read(path), f"{self.wheel}/{path}", "exec"), module.__dict__)
        for name in TAKEN.get(module.__name__, ()):
            self.take(module, name)

    def take(self, module, name):
        """One function or class of a module that is otherwise a stand-in."""
        for path in self.names:
            if not re.match(module.__name__.replace(".", "/") + r"(/\w+)?\.py$", path):
                continue
            text = self.zip.read(path).decode()
            if not re.search(rf"^(class|def) {name}\b", text, re.M):
                continue
            nodes = [n for n in ast.parse(text).body if getattr(n, "name", None) == name or (isinstance(n, (ast.Import, ast.ImportFrom)) and self.light(n))
                     or (isinstance(n, ast.Assign) and "TypeVar" in ast.unparse(n))]
            scope = {"__name__": module.__name__, "Anything": Anything}
            future = ast.parse("from __future__ import annotations").body
            exec(compile(ast.Module(future + [n for n in nodes if getattr(n, "module", "") != "__future__"], []), path, "exec"), scope)
            setattr(module, name, scope[name])
            return

    @staticmethod
    def light(node):
        first = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        return (first or "").split(".")[0] in sys.stdlib_module_names


def load(wheel):
    sys.meta_path.insert(0, Finder(wheel))
    import vllm
    import vllm.envs  # noqa: F401  ("from vllm import envs" must not find a stand-in)

    return vllm
