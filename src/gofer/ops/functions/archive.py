"""Pack a function with its arguments into one file, which the Python of the job runs: `python FILE`.

The file is a zip file with a `__main__.py`, the program that calls the function
(gofer.node.functions.program), cloudpickle, the function, and the arguments of each call. So the Python of
the job needs neither gofer nor cloudpickle, only the version that the function was pickled with.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import marshal
import os
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from gofer.errors import GoferError, UsageError
from gofer.model.job import Array, JobFunction
from gofer.node import functions
from gofer.node.functions.names import FACTS, FUNCTION
from gofer.ops.functions.columns import array_of
from gofer.text import format_size, slug

# Every node reads the whole file, and each agent of an array keeps a copy.
MOST_BYTES = 256 << 20
_PACKAGE = "gofer_function"
_MODULES = ("names.py", "program.py", "result_file.py")
# This text has to be valid in every Python that may read it.
_MAIN = """\
import sys

if sys.version_info[:2] != {version!r}:
    sys.exit(
        "gofer: the function was sent by Python {python}, and this run has Python %d.%d (%s). "
        "A function needs the same minor version: give the run Python {python}, first in its PATH, in its "
        "image or by `requires-python` of a uv.lock, or submit the function with the Python of the run"
        % (sys.version_info[:2] + (sys.executable,))
    )

from gofer_function.program import main

main()
"""


class Arguments(NamedTuple):
    """The arguments of one call."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object] = {}


class CodeSource(NamedTuple):
    """The folder that the run starts in, here, and the code folder, which it lies in."""

    folder: Path
    root: Path


class PackedFunction(NamedTuple):
    """A function to submit. `array` has a row for each call, or is None for one call."""

    facts: JobFunction
    data: bytes
    array: Array | None = None

    @property
    def run_name(self) -> str:
        """The name of a run that is given none."""
        return slug(self.facts.name.rpartition(".")[2]) or "function"


def pack_call(function: Callable[..., object], call: Arguments, source: CodeSource) -> PackedFunction:
    """Pack one call of a function.

    TypeError for arguments that the function does not take; UsageError for what cannot be pickled.
    """
    return _pack(function, [call], source, array=None)


def pack_calls(
    function: Callable[..., object], calls: Sequence[Arguments], source: CodeSource
) -> PackedFunction:
    """Pack a call for each row of an array, as `pack_call` packs one."""
    return _pack(function, calls, source, array=array_of(function, [call.args for call in calls]))


def name_of(function: Callable[..., object]) -> str:
    """`train.main`: the name in commands and messages. A function of the program itself has no module."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    name = name.rpartition("<locals>.")[2].strip("<>")
    module = getattr(function, "__module__", None)
    return name if module in (None, "__main__", "builtins") else f"{module}.{name}"


def _pack(
    function: Callable[..., object],
    calls: Sequence[Arguments],
    source: CodeSource,
    *,
    array: Array | None,
) -> PackedFunction:
    name = name_of(function)
    _check(function, name)
    for call in calls:
        _check_arguments(function, call)
    cloudpickle = _cloudpickle()
    contents = {f"{_PACKAGE}/__init__.py": b"", **_sources(f"{_PACKAGE}/", functions, _MODULES)}
    contents |= _sources("cloudpickle/", cloudpickle, None)
    contents["__main__.py"] = _MAIN.format(version=sys.version_info[:2], python=_version()).encode()
    facts = {"name": name, "paths": _paths_in(source), "rows": array is not None}
    contents[FACTS] = json.dumps(facts).encode()
    contents[FUNCTION] = _pickled(cloudpickle, function, f"the function `{name}`")
    for number, call in enumerate(calls):
        what = f"an argument of `{name}`" + (f" (row {number})" if array else "")
        contents[f"arguments/{number}"] = _pickled(cloudpickle, (call.args, dict(call.kwargs)), what)
    data = _zipped(contents)
    _check_size(name, len(data))
    digest = hashlib.sha256(data).hexdigest()
    return PackedFunction(
        JobFunction(name=name, sha256=digest, size=len(data), python=_version()), data, array
    )


def _version() -> str:
    return "{}.{}".format(*sys.version_info)


def _check(function: Callable[..., object], name: str) -> None:
    if inspect.iscoroutinefunction(function):
        raise UsageError(
            f"`{name}` is a coroutine function, and its call returns at once",
            hint=f"submit a function that calls `asyncio.run({name}(…))`",
        )
    if inspect.isgeneratorfunction(function):
        raise UsageError(
            f"`{name}` is a generator function, and what it returns cannot be pickled",
            hint=f"submit a function that returns `list({name}(…))`",
        )


def _check_arguments(function: Callable[..., object], call: Arguments) -> None:
    """TypeError, as the call would raise it."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # a few functions in C do not tell theirs
    try:
        signature.bind(*call.args, **call.kwargs)
    except TypeError as error:
        raise TypeError(f"`{name_of(function)}` cannot be called so: {error}") from None


def _cloudpickle() -> ModuleType:
    try:
        return import_module("cloudpickle")
    except ImportError:
        raise GoferError(
            "functions as jobs need a package that is not installed", hint="`pip install 'gofer[functions]'`"
        ) from None


def _pickled(cloudpickle: ModuleType, value: object, what: str) -> bytes:
    try:
        return bytes(cloudpickle.dumps(value))
    except Exception as error:  # of the value's own code, too
        raise UsageError(
            f"{what} cannot be sent: {error}",
            hint="files, locks and connections cannot be pickled: open them inside of the function",
        ) from error


def _check_size(name: str, size: int) -> None:
    if size > MOST_BYTES:
        raise UsageError(
            f"`{name}` and its arguments have {format_size(size)}; {format_size(MOST_BYTES)} are the most",
            hint="write large data to a file or a mapped folder (docs/data.md), and pass its name",
        )


def _paths_in(source: CodeSource) -> list[str]:
    """The folders of the code on `sys.path`, relative to the folder that the run starts in, so that the run
    imports from its own copy. What belongs to a Python that is installed there is left out.
    """
    folder, root = Path(os.path.realpath(source.folder)), Path(os.path.realpath(source.root))
    installed = [Path(sys.prefix), Path(sys.base_prefix)]
    found: dict[str, None] = {}
    for entry in sys.path:
        path = Path(os.path.realpath(entry or os.curdir))
        is_installed = any(path.is_relative_to(one) and one.is_relative_to(root) for one in installed)
        if path.is_dir() and path.is_relative_to(root) and not is_installed:
            found[os.path.relpath(path, folder)] = None
    return list(found)


def _sources(place: str, package: ModuleType, names: Sequence[str] | None) -> dict[str, bytes]:
    """The modules of a package and their bytecode, by their names below `place` in the zip file."""
    (folder, *_) = package.__path__
    chosen = sorted(os.listdir(folder)) if names is None else names
    found = {name: _read_module(Path(folder) / name) for name in chosen if name.endswith(".py")}
    texts = {f"{place}{name}": module.text for name, module in found.items()}
    return texts | {f"{place}{name}c": module.bytecode for name, module in found.items()}


class _Module(NamedTuple):
    text: bytes
    bytecode: bytes


@functools.cache
def _read_module(path: Path) -> _Module:
    """A module with its bytecode, which a zip file cannot cache: every run would compile the modules again.
    A Python that does not know this bytecode takes the text.
    """
    text = path.read_bytes()
    code = compile(text, path.name, "exec", dont_inherit=True)
    # The header of PEP 552: bytecode that is not compared with its text.
    header = MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(text)
    return _Module(text, header + marshal.dumps(code))


def _zipped(contents: Mapping[str, bytes]) -> bytes:
    """The zip file. Not compressed: a Python without zlib can run it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, data in contents.items():
            packed.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()
