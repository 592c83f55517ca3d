"""import: packages, modules compiled from source, reload, a failing module."""
import importlib
import os
import sys

NAMES = []


def setup():
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "imported"))
    import importlib.util  # noqa: F401
    try:
        import no_module_has_this_name  # noqa: F401  (fills path caches)
    except ImportError:
        pass


def main(h):
    import bag
    h.check("package")
    from bag import lazy
    h.traceback("attribute of a module", lazy.DATA)
    h.check("submodule")
    try:
        import broken  # noqa: F401
    except ZeroDivisionError as exc:
        NAMES.append(exc.__traceback__.tb_next.tb_frame.f_code.co_filename)
    h.check("failed")
    NAMES.append(bag.__spec__.loader.path)
    importlib.reload(bag)
    NAMES.append(bag.__spec__.loader.path)
    h.check("reloaded")
    h.reset_peak()
    import colorsys
    import string
    NAMES.extend([m.__spec__.loader.path for m in (bag, lazy, colorsys, string)])
    h.check("standard library")
    del sys.modules["bag"], sys.modules["bag.lazy"], sys.modules["colorsys"]
    del bag, lazy, colorsys
    h.check("forgotten")
    h.note("names", string.ascii_letters)
