"""
Source : python/cpython#101430
Kind   : wrong answer, get_object_traceback() on objects with a pre-header
Seen   : instances with a managed dict or a managed weakref list start before
         the address of the object; their allocation was not found (None).
Right  : the line where the object was made is found for every layout: plain
         class, weakref slot, slots, slots + dict, subclass of a builtin, GC and
         non-GC, exception, function, generator, module, type.
"""
from _case import child, clean

CODE = '''
    import gc, sys, tracemalloc, types, collections, weakref, array, re
    tracemalloc.start(5)
    SRC = {
        "plain":   "class A: pass",
        "weak":    "class A:\\n    __slots__ = ('__weakref__',)",
        "slots":   "class A:\\n    __slots__ = ('a', 'b')",
        "empty":   "class A:\\n    __slots__ = ()",
        "both":    "class A:\\n    __slots__ = ('a', '__dict__', '__weakref__')",
        "dictsub": "class A(dict): pass",
        "listsub": "class A(list):\\n    __slots__ = ('__weakref__',)",
        "strsub":  "class A(str): pass",
        "intsub":  "class A(int):\\n    __slots__ = ()",
        "tuplesub":"class A(tuple): pass",
        "bytessub":"class A(bytes): pass",
        "exc":     "class A(Exception): pass",
        "deeper":  "class B: pass\\nclass A(B):\\n    __slots__ = ('q',)",
        "meta":    "class M(type): pass\\nA = lambda: M('X', (), {})",
        "set":     "A = set",
        "frozen":  "A = lambda: frozenset([1, 2, 3])",
        "func":    "def A():\\n    def inner(): return A\\n    return inner",
        "object":  "A = object",
        "deque":   "import collections\\nA = collections.deque",
        "odict":   "import collections\\nA = collections.OrderedDict",
        "array":   "import array\\nA = lambda: array.array('d', [1.0] * 50)",
        "module":  "import types\\nA = lambda: types.ModuleType('mm')",
        "ba":      "A = lambda: bytearray(500)",
        "ref":     "import weakref\\nclass B: pass\\nb = B()\\nclass R(weakref.ref): pass\\nA = lambda: R(b)",
    }
    missing = []
    for name, src in SRC.items():
        ns = {}
        exec(src, ns)
        ns["keep"] = []
        # two lines on which nothing else is allocated but the object
        code = compile("\\n" * 99 + "def mk():\\n    return A()\\n", name + "-maker.py", "exec")
        exec(code, ns)
        for k in range(3):
            o = ns["mk"]()
            ns["keep"].append(o)
            tb = tracemalloc.get_object_traceback(o)
            frames = [] if tb is None else [(f.filename, f.lineno) for f in tb]
            if (name + "-maker.py", 101) not in frames:
                missing.append((name, k, frames))
    assert not missing, missing
    def g(): yield
    gc.collect()        # empties the free lists: their blocks are older than start()
    for o in (g(), (i for i in ()), [].__len__, types.MethodType(g, 3), iter([]), range(10**6, 10**7), memoryview(b"abc"), property(), 10**50 + len(sys.argv)):
        assert tracemalloc.get_object_traceback(o) is not None, o
    for o in (None, True, 5, "", (), int, sys, Ellipsis, object.__init__):
        tracemalloc.get_object_traceback(o)     # static ones: None or a traceback, no crash
    assert tracemalloc.get_object_traceback(None) is None
    assert tracemalloc.get_object_traceback(int) is None
    print("done")
'''
for env in ({}, {"PYTHONMALLOC": "debug"}, {"PYTHONMALLOC": "malloc"}):
    clean(child(CODE, env=env), f"object layouts {env}", "done")
print("OK")
