"""
Source : LWN "Insecurity and Python pickles" (articles/964392); Snapshot.load()
         is pickle.load() on a file that is often sent from one machine to
         another
Kind   : hostile file
Seen   : loading a crafted "snapshot" runs the sender's code.
Right  : Snapshot.load() refuses a file that is not a snapshot and never runs
         code from it. (Stock 3.13.5 runs it.)
"""
import os
import pickle
import shutil
import tempfile
import tracemalloc

from _case import need

d = tempfile.mkdtemp(prefix="tmcase_")
mark = os.path.join(d, "pwned")


class Bomb:
    def __reduce__(self):
        return (open, (mark, "w"))


bad = []
files = {"a call": pickle.dumps(Bomb()), "a call inside": pickle.dumps({"traces": [Bomb()]}),
         "an int": pickle.dumps(7), "a dict": pickle.dumps({"traces": 1})}
# a Snapshot whose state holds the bomb
tracemalloc.start()
snap = tracemalloc.take_snapshot()
tracemalloc.stop()
snap.traces._traces.append(Bomb())
files["a call inside a real snapshot"] = pickle.dumps(snap)
for what, data in files.items():
    p = os.path.join(d, "f")
    with open(p, "wb") as f:
        f.write(data)
    try:
        r = tracemalloc.Snapshot.load(p)
        if not isinstance(r, tracemalloc.Snapshot):
            bad.append(f"{what}: load returned {type(r).__name__}")
    except Exception:
        pass
    if os.path.exists(mark):
        bad.append(f"{what}: code from the file was run")
        os.remove(mark)
shutil.rmtree(d, True)
need(not bad, "; ".join(bad))
print("OK")
