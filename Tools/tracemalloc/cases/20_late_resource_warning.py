"""
Source : python/cpython#113781, bpo-21925
Kind   : shutdown order
Seen   : a ResourceWarning emitted late in shutdown, when tracemalloc or the
         import system is half gone, raised AttributeError/ImportError from
         inside the warnings machinery.
Right  : the warning (or nothing) is printed, no secondary exception, exit 0;
         also when tracemalloc is being imported for the first time then, and
         when sys.modules['tracemalloc'] has been replaced by junk.
"""
from _case import child, clean, need

BASE = """
import sys, warnings, builtins
class Res:
    def __init__(self, n): self.n = n
    def __del__(self, w=warnings.warn, RW=ResourceWarning):
        w("late " + self.n, RW, source=self)
"""
ENDS = {
    "module global": "a = Res('global')",
    "kept by sys": "sys.zz = Res('sys')",
    "kept by builtins": "builtins.zz = Res('builtins')",
    "in a cycle": "a = Res('cycle'); a.me = a",
    "kept by its class": "Res.last = Res('class')",
    "tracemalloc imported": "import tracemalloc; sys.zz = Res('sys')",
    "tracemalloc is junk": "sys.modules['tracemalloc'] = type(sys)('tracemalloc'); a = Res('junk'); a = None; print('went on')",
    "tracemalloc is None": "sys.modules['tracemalloc'] = None; a = Res('none'); a = None; print('went on')",
    "from atexit": "import atexit; atexit.register(lambda: Res('atexit'))",
    "unclosed file": "sys.zz = open(sys.executable, 'rb')",
    "from a thread": "import threading; t = threading.Thread(target=lambda: Res('thread')); t.start(); t.join()",
}
for what, tail in ENDS.items():
    for opts in (("-Wd",), ("-Wd", "-X", "tracemalloc=4"), ("-X", "dev", "-X", "tracemalloc")):
        res = child(BASE + tail, *opts)
        clean(res, f"{what} {opts}")
        for word in ("AttributeError", "ImportError", "Exception ignored", "Traceback"):
            need(word not in res[2], what, opts, "->", res[2])
print("OK")
