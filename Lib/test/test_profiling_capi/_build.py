"""Build the test extensions of this folder with an ordinary compiler.

They are compiled against the headers that the running interpreter gives to extensions: those of its installation, or of its
source tree when it has not been installed.  The compilers are those it was built with, or the system's when these are gone;
PROFILING_CAPI_CC and PROFILING_CAPI_CXX in the environment name others.
"""

import atexit
import functools
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import types
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
WARNINGS = ("-Wall", "-Wextra", "-Werror")
LANGUAGES = {
    "c": ("CC", ("cc", "gcc", "clang"), ("-x", "c", "-std=c11")),
    "c++": ("CXX", ("c++", "g++", "clang++"), ("-x", "c++", "-std=c++11")),
}


@functools.cache
def compiler(language: str) -> tuple[str, ...]:
    """The command of the compiler and its language options; SkipTest when there is none."""
    variable, others, options = LANGUAGES[language]
    built_with = shlex.split(sysconfig.get_config_var(variable) or "")
    asked_for = shlex.split(os.environ.get(f"PROFILING_CAPI_{variable}", ""))
    for command in (asked_for, built_with, *([name] for name in others)):
        if command and shutil.which(command[0]):
            return (*command, *options)
    raise unittest.SkipTest(f"there is no {language.upper()} compiler")


def include_folders() -> list[str]:
    """Where Python.h and pyconfig.h are."""
    folders = [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
    folders.append(os.path.dirname(sysconfig.get_config_h_filename()))
    return list(dict.fromkeys(folders))


@functools.cache
def _scratch() -> str:
    folder = tempfile.mkdtemp(prefix="profiling_capi_")
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:              # not in a forked child
        shutil.rmtree(folder, True)


def compile_source(source: str, target: str, language: str, *options: str) -> None:
    """Compile a C or C++ file into a shared library; AssertionError with what the compiler said."""
    command = [*compiler(language), *WARNINGS, "-O1", "-g", "-fPIC", "-shared", "-pthread", *options]
    for folder in include_folders():
        # As system headers: the warnings asked for are about our sources.
        command += ["-isystem", folder]
    command += [source, "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


@functools.cache
def folder_of(name: str, language: str = "c") -> str:
    """Build an extension unless it is built; the folder to put on sys.path."""
    folder = os.path.join(_scratch(), language.replace("+", "x"))
    os.makedirs(folder, exist_ok=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
    compile_source(os.path.join(HERE, name + ".c"), os.path.join(folder, name + suffix), language)
    return folder


def load(name: str, language: str = "c") -> types.ModuleType:
    """The extension, built and imported into this process."""
    if name not in sys.modules:
        folder = folder_of(name, language)
        spec = importlib.machinery.PathFinder.find_spec(name, [folder])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]
