"""The Python of one image beside another image: `agent.zip copy-python FOLDER` in a container of the first.

The copy brings its own C library and loader, so that it runs in any image that has /bin/sh, whatever the C
library there is.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
import sysconfig
from contextlib import suppress
from typing import Iterable, List, Set

# The word after the agent's zip file.
PROGRAM = "copy-python"
# Modules that load shared libraries: those of the agent, and what scripts commonly use.
_LOADERS = (
    *("ssl", "hashlib", "ctypes", "sqlite3", "zlib", "bz2", "lzma", "socket", "select", "mmap", "fcntl"),
    *("json", "multiprocessing", "uuid", "decimal", "xml.parsers.expat", "curses", "readline", "resource"),
)
_NOT_COPIED = ("test", "tests", "idlelib", "tkinter", "turtledemo", "__pycache__", "config-*")
_NAME = "python3"
_WRAPPER = """#!/bin/sh
exec {loader} --argv0 {wrapper} --library-path {libraries} {binary} "$@"
"""


def main(argv: List[str]) -> int:
    """Copy the Python that runs this. The exit status: 0, or 1 with the reason on stderr."""
    try:
        copy_python(argv[0])
    except OSError as error:
        print(f"gofer: the Python of this image cannot be copied: {error}", file=sys.stderr)
        return 1
    return 0


def copy_python(folder: str) -> None:
    """Copy the interpreter, its standard library and the shared libraries of both to `folder`.

    `folder`/python3 runs the copy. Idempotent. OSError for a Python that is linked statically.
    """
    loaded = _loaded_files()
    libraries = os.path.join(folder, "libraries")
    standard = sysconfig.get_paths()["stdlib"]
    # Python finds its library by this place beside the program, also with `-E`, which ignores PYTHONHOME.
    below = os.path.join(folder, "lib", os.path.basename(standard))
    ignored = shutil.ignore_patterns(*_NOT_COPIED)
    shutil.copytree(standard, below, ignore=ignored, ignore_dangling_symlinks=True, dirs_exist_ok=True)
    os.makedirs(libraries, exist_ok=True)
    for path in loaded:
        if not path.startswith(standard + os.sep):
            shutil.copy2(path, os.path.join(libraries, os.path.basename(path)))
    binary = os.path.join(folder, "python.bin")
    shutil.copy2(os.path.realpath(sys.executable), binary)
    wrapper = os.path.join(folder, _NAME)
    text = _WRAPPER.format(
        loader=os.path.join(libraries, os.path.basename(_loader(loaded))),
        wrapper=wrapper,
        libraries=libraries,
        binary=binary,
    )
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(wrapper, 0o755)


def _loaded_files() -> Set[str]:
    """The shared libraries of this process, once it has imported what loads them."""
    for name in _LOADERS:
        with suppress(ImportError):
            importlib.import_module(name)
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        paths = {line.rstrip("\n").partition("/")[2] for line in file if "/" in line}
    found = {f"/{path}" for path in paths}
    return {path for path in found if re.search(r"\.so(\.|$)", os.path.basename(path))}


def _loader(paths: Iterable[str]) -> str:
    for path in sorted(paths):
        if re.match(r"(ld-linux|ld-musl|ld64|ld-)", os.path.basename(path)):
            return path
    raise OSError("it has no dynamic loader")
