"""
Source : aklajnert/pytest-subprocess#192, pytest-dev/pytest#12958 (the test
         runner asks for the traceback of the object in its unraisable hook)
Kind   : object that is being finalized
Seen   : hooks call get_object_traceback() on objects that are on their way out;
         the answer must not be lost and the object must not be harmed.
Right  : in sys.unraisablehook (ResourceWarning made an error) the source object
         still has its allocation traceback, for files, sockets and classes with
         __del__; also from weakref callbacks of another object and gc callbacks.
"""
from _case import child, clean

CODE = """
import gc, socket, sys, tracemalloc, warnings
warnings.simplefilter("error")
lines = []
def hook(u):
    o = u.object
    if not hasattr(o, "fileno") and not isinstance(o, R): o = None
    tb = tracemalloc.get_object_traceback(o)
    lines.append((type(u.exc_value).__name__, tb and [f.lineno for f in tb if f.filename == "leaky.py"]))
sys.unraisablehook = hook
class R:
    pass
src = '''
def leak_file():
    f = open(exe, "rb")
def leak_raw():
    f = open(exe, "rb", buffering=0)
def leak_sock():
    s = socket.socket()
def leak_cycle():
    f = open(exe, "rb", buffering=0); c = [f]; c.append(c)
'''
ns = {"exe": sys.executable, "socket": socket}
exec(compile(src, "leaky.py", "exec"), ns)
for name, line in (("leak_file", 3), ("leak_raw", 5), ("leak_sock", 7), ("leak_cycle", 9)):
    lines.clear()
    ns[name](); gc.collect()
    assert lines and lines[0][0] == "ResourceWarning", (name, lines)
    assert any(l and line in l for _, l in lines), (name, lines)
print("done")
"""
for depth in ("1", "10"):
    clean(child(CODE, "-X", "tracemalloc=" + depth), f"unraisable hook, depth {depth}", "done")
print("OK")
