"""The program that calls a person's function on a node.

It goes along with the function in one zip file, which the Python of the job runs: see
gofer.ops.functions.archive. That Python need not have gofer or cloudpickle, so this module imports nothing of
gofer but its neighbour in the zip, and takes cloudpickle from there.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
import traceback
import zipfile
from importlib import import_module
from types import ModuleType
from typing import Callable, Dict, List, NamedTuple, NoReturn

from .names import FACTS, FUNCTION, KEY_VARIABLE, ROW
from .result_file import ERROR, VALUE, SignedFile, result_name, write

_ROW_VARIABLE = f"GOFER_ARG_{ROW.upper()}"
_MOST_TRACEBACK = 64 * 1024
_INTERRUPTED = 130


class Call(NamedTuple):
    """What to call, and the names by which messages call it. `paths` go to the front of `sys.path`."""

    name: str
    paths: List[str]
    function: bytes
    arguments: bytes


class ResultWriter:
    """Writes the result of one rank."""

    def __init__(self, environ: Dict[str, str]) -> None:
        # The key is for this process alone: programs that the function starts do not inherit it.
        self._key = bytes.fromhex(environ.pop(KEY_VARIABLE))
        rank = environ["RANK"] if "TORCHELASTIC_RUN_ID" in environ else environ["GOFER_RANK"]
        self._rank = int(rank)
        self._run = environ["GOFER_RUN_ID"]
        self._path = os.path.join(environ["GOFER_OUTPUT_DIR"], result_name(self._rank))

    def value(self, value: object) -> None:
        """Write what the function has returned. Errors of pickling and of the disk pass through."""
        self._write({"kind": VALUE}, lambda file: _cloudpickle().dump(value, file))

    def error(self, error: BaseException, lines: str, *, message: str = "") -> None:
        """Write that there is no value, with the exception if it can be loaded again."""
        facts = {
            "kind": ERROR,
            "type": type(error).__qualname__,
            "message": message or _text_of(error),
            "is_sentence": bool(message),
            "traceback": lines[-_MOST_TRACEBACK:],
        }
        # An exit or an interruption must not end the program that reads the result.
        data = _pickled(error) if isinstance(error, Exception) and not message else b""
        self._write(facts, lambda file: file.write(data))

    def _write(self, facts: Dict[str, object], dump: Callable[[SignedFile], object]) -> None:
        version = ".".join(map(str, sys.version_info[:3]))
        header = {"run": self._run, "rank": self._rank, "at": time.time(), "python": version, **facts}
        write(self._path, self._key, header, dump)


def main() -> NoReturn:
    """Call the function and write its result; exits with 0 when there is one."""
    archive = sys.path[0]
    _cloudpickle()  # of the zip: the folders of the job may have another one
    sys.path.remove(archive)
    call = _read(archive)
    results = ResultWriter(os.environ)  # type: ignore[arg-type]
    sys.argv = [call.name]
    sys.path[:0] = [os.path.normpath(os.path.join(os.getcwd(), path)) for path in call.paths]
    sys.exit(_run(call, results))


def _cloudpickle() -> ModuleType:
    """The cloudpickle of the zip. gofer itself does not need it on nodes."""
    return import_module("cloudpickle")


def _read(archive: str) -> Call:
    with zipfile.ZipFile(archive) as packed:
        facts = json.loads(packed.read(FACTS))
        row = os.environ[_ROW_VARIABLE] if facts["rows"] else "0"
        return Call(facts["name"], facts["paths"], packed.read(FUNCTION), packed.read(f"arguments/{row}"))


def _run(call: Call, results: ResultWriter) -> int:
    """The exit status, which is 0 only when a result was written."""
    try:
        function = pickle.loads(call.function)
        args, kwargs = pickle.loads(call.arguments)
    except Exception as error:
        return _report_unloadable(call, results, error)
    try:
        value = function(*args, **kwargs)
    except SystemExit as end:
        if end.code in (None, 0):  # as in a program, this is an end without a failure
            value = None
        else:
            return _report_exit(call, results, end)
    except BaseException as error:
        return _report(results, error)
    return _return(call, results, value)


def _return(call: Call, results: ResultWriter, value: object) -> int:
    try:
        results.value(value)
    except Exception as error:
        what = (
            f"the result of `{call.name}` is a `{type(value).__qualname__}`, which cannot be pickled: {error}"
        )
        if isinstance(error, OSError):
            what = f"the result of `{call.name}` cannot be written: {error}"
        results.error(error, traceback.format_exc(), message=what)
        return _fail(what)
    return 0


def _report(results: ResultWriter, error: BaseException) -> int:
    """Show the traceback as Python does, without the frame of this program."""
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    lines = "".join(traceback.format_exception(type(error), error, inner or error.__traceback__))
    results.error(error, lines)
    sys.stderr.write(lines)
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _report_exit(call: Call, results: ResultWriter, end: SystemExit) -> int:
    lines = traceback.format_exc()
    results.error(end, lines, message=f"`{call.name}` called sys.exit({end.code!r})")
    return end.code if isinstance(end.code, int) else _fail(str(end.code))


def _report_unloadable(call: Call, results: ResultWriter, error: Exception) -> int:
    lines = traceback.format_exc()
    what = f"`{call.name}` cannot be loaded here: {_text_of(error)}"
    if isinstance(error, ImportError):
        what += "; the module has to be in the code that goes along, or in the packages of the run"
    results.error(error, lines, message=what)
    sys.stderr.write(lines)
    return _fail(what)


def _fail(words: str) -> int:
    sys.stderr.write(f"gofer: {words}\n")
    return 1


def _text_of(error: BaseException) -> str:
    """The message of an exception, whatever its own code does."""
    try:
        return str(error)
    except Exception:
        return ""


def _pickled(error: Exception) -> bytes:
    """The exception, if it comes out of a pickle again; else nothing."""
    try:
        data = _cloudpickle().dumps(error)
        pickle.loads(data)
    except Exception:
        return b""
    return bytes(data)
