"""Binary compatibility with the stock interpreter of the same release: its
dynamic symbols are all there, and the structs that extensions see have not
moved.  Both need a stock build, or its headers, beside this one."""

import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import unittest

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))


def stock_python() -> str:
    """The stock interpreter; SkipTest with the reason when there is none."""
    path = os.path.join(BUILD, "stock", "python")
    if not os.access(path, os.X_OK):
        raise unittest.SkipTest(f"no stock build ({path}): make VARIANT=stock")
    return path


def same_kind(stock: str) -> None:
    """SkipTest unless the two differ in nothing but the fork."""
    code = ("import sys, sysconfig; print(sys.abiflags, "
            "sysconfig.get_config_var('Py_GIL_DISABLED') or 0, "
            "hasattr(sys, 'gettotalrefcount'), '-fsanitize' in "
            "(sysconfig.get_config_var('BASECFLAGS') or ''))")
    said = {subprocess.run([python, "-I", "-c", code], capture_output=True,
                           text=True, check=True).stdout
            for python in (stock, sys.executable)}
    if len(said) != 1:
        raise unittest.SkipTest("this build is of another kind than stock's")


class Symbols(unittest.TestCase):
    def symbols(self, path: str) -> set[str]:
        try:
            done = subprocess.run(["nm", "-D", "--defined-only", path],
                                  capture_output=True, text=True)
        except OSError as exc:
            self.skipTest(f"no nm: {exc}")
        if done.returncode:
            self.skipTest(f"nm: {done.stderr.strip()}")
        return {line.split()[-1] for line in done.stdout.splitlines()}

    def test_dynamic_symbols(self):
        stock = stock_python()
        same_kind(stock)
        theirs, ours = self.symbols(stock), self.symbols(sys.executable)
        self.assertGreater(len(theirs), 1000)
        self.assertEqual(sorted(theirs - ours), [])
        # And what is new does not get in anybody's way.
        new = sorted(ours - theirs)
        self.assertEqual([name for name in new
                          if not name.startswith(("Py", "_Py"))], [])

    def test_symbols_of_the_c_api(self):
        # Needs no stock build: the two that extensions call.
        names = self.symbols(sys.executable)
        if not any(name.startswith("Py_Initialize") for name in names):
            self.skipTest("the interpreter is in a shared library")
        for name in ("PyTraceMalloc_Track", "PyTraceMalloc_Untrack",
                     "_PyTraceMalloc_GetTraceback"):
            self.assertIn(name, names)


class Versions(unittest.TestCase):
    def test_tags(self):
        stock = stock_python()
        same_kind(stock)
        code = """if True:
            import sys, sysconfig, importlib.util
            print(sys.version_info, sys.hexversion, sys.api_version,
                  sys.implementation.cache_tag, sysconfig.get_config_var("SOABI"),
                  sysconfig.get_config_var("EXT_SUFFIX"),
                  importlib.util.MAGIC_NUMBER, sys.abiflags,
                  sysconfig.get_platform())
        """
        said = {subprocess.run([python, "-I", "-c", code], capture_output=True,
                               text=True, check=True).stdout
                for python in (stock, sys.executable)}
        self.assertEqual(len(said), 1, said)


# (header, its struct, fields): the places are compared.
STRUCTS = (
    ("object.h", "PyObject", ("ob_type",)),
    ("object.h", "PyVarObject", ("ob_size",)),
    ("object.h", "PyTypeObject", (
        "tp_name", "tp_basicsize", "tp_dealloc", "tp_flags", "tp_dict",
        "tp_init", "tp_alloc", "tp_free", "tp_finalize", "tp_vectorcall",
        "tp_watched", "tp_versions_used")),
    ("object.h", "PyHeapTypeObject", ("as_async", "ht_cached_keys",
                                      "_spec_cache")),
    ("pystate.h", "PyThreadState", (
        "next", "interp", "eval_breaker", "c_recursion_remaining",
        "current_frame", "current_exception", "exc_info", "dict", "id",
        "datastack_chunk", "thread_id", "critical_section", "delete_later")),
    ("code.h", "PyCodeObject", (
        "co_consts", "co_flags", "co_filename", "co_linetable", "co_extra",
        "co_code_adaptive")),
    ("funcobject.h", "PyFunctionObject", ("func_code", "vectorcall",
                                          "func_version")),
    ("initconfig.h", "PyConfig", (
        "isolated", "tracemalloc", "perf_profiling", "xoptions",
        "_is_python_build")),
    ("initconfig.h", "PyPreConfig", ("allocator",)),
    ("pymem.h", "PyMemAllocatorEx", ("ctx", "malloc", "free")),
    ("longintrepr.h", "PyLongObject", ("long_value",)),
    ("unicodeobject.h", "PyUnicodeObject", ("data",)),
    ("listobject.h", "PyListObject", ("ob_item", "allocated")),
    ("dictobject.h", "PyDictObject", ("ma_used", "ma_keys", "ma_values")),
    ("cpython/genobject.h", "PyGenObject", ()),
    # Private, and yet read by extensions that switch stacks or profile.
    ("internal/pycore_frame.h", "_PyInterpreterFrame", (
        "f_executable", "previous", "f_funcobj", "f_globals", "f_locals",
        "frame_obj", "instr_ptr", "stacktop", "return_offset", "owner",
        "localsplus")),
    ("internal/pycore_frame.h", "struct _frame", ("f_back", "f_frame",
                                                  "_f_frame_data")),
    ("internal/pycore_gc.h", "PyGC_Head", ()),
)


class Layout(unittest.TestCase):
    def headers(self):
        """(stock's include folders, ours); both with our pyconfig.h."""
        if not sysconfig.is_python_build():
            self.skipTest("not run from a build folder")
        source = sysconfig.get_config_var("srcdir")
        config = os.path.dirname(sysconfig.get_config_h_filename())
        release = platform.python_version().split("+")[0]
        stock = os.path.join(BUILD, "upstream", f"Python-{release}")
        if not os.path.isdir(os.path.join(stock, "Include")):
            self.skipTest(f"no stock headers: {stock}")
        return [(os.path.join(root, "Include"),
                 os.path.join(root, "Include", "internal"), config)
                for root in (stock, source)]

    def program(self):
        lines = ["#define Py_BUILD_CORE 1", "#include <Python.h>",
                 "#include <stddef.h>", "#include <stdio.h>",
                 '#include "internal/pycore_frame.h"',
                 '#include "internal/pycore_gc.h"',
                 "int main(void) {"]
        for _, struct, fields in STRUCTS:
            lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
            for field in fields:
                lines.append(f'printf("{struct}.{field} %zu\\n", '
                             f'offsetof({struct}, {field}));')
        return "\n".join([*lines, "return 0;", "}"])

    def layout(self, includes, folder):
        source = os.path.join(folder, "layout.c")
        program = os.path.join(folder, "layout")
        with open(source, "w") as f:
            f.write(self.program())
        compiler = (sysconfig.get_config_var("CC") or "cc").split()
        options = [f"-I{path}" for path in includes]
        try:
            done = subprocess.run(
                [*compiler, "-std=c11", *options, source, "-o", program],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as exc:
            self.skipTest(f"no compiler: {exc}")
        self.assertEqual(done.returncode, 0, done.stdout)
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True,
                              check=True)
        return done.stdout.splitlines()

    def test_structs(self):
        stock, ours = self.headers()
        with tempfile.TemporaryDirectory() as folder:
            theirs, mine = self.layout(stock, folder), self.layout(ours, folder)
        self.assertGreater(len(theirs), 60)
        self.assertEqual(mine, theirs)


if __name__ == "__main__":
    unittest.main()
