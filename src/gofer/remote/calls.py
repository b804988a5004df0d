"""Carries calls of gofer.remote.api over a connection: a request and an answer are JSON and bytes.

The types of the method decide how JSON becomes arguments and results. The laptop and the agent that it
installed are of the same version, so both sides have the same types.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple, Type, TypeVar, Union, get_type_hints

from gofer.remote import api

T = TypeVar("T")
Json = Dict[str, Any]
# A message: JSON, and bytes if there are any.
Message = Tuple[Json, bytes]


class _Served(NamedTuple):
    """An API, and the class that implements it on the machine. The module is imported with the first call."""

    protocol: type
    module: str
    implementation: str


_SERVED = {
    "queue": _Served(api.QueueApi, "gofer.remote.local_queue", "LocalQueue"),
    "slurm": _Served(api.SlurmApi, "gofer.remote.local_slurm", "LocalSlurm"),
    "files": _Served(api.FilesApi, "gofer.remote.local_files", "LocalFiles"),
    "kept": _Served(api.KeptItemsApi, "gofer.remote.local_kept_items", "LocalKeptItems"),
}
# The modules of the errors that callers tell apart.
_ERRORS = {
    "Exists": "gofer.objects.facts",
    "ObjectNotFound": "gofer.objects.facts",
    "SlurmError": "gofer.node.slurm.calls",
    "SlurmSilent": "gofer.node.slurm.calls",
    "JobRejected": "gofer.remote.slurm.submission",
}


class RemoteError(Exception):
    """A call failed on the machine, with an error that no caller distinguishes; `kind` names its class."""

    def __init__(self, kind: str, words: str) -> None:
        super().__init__(words)
        self.kind = kind


class RemoteApi:
    """Has the methods of an API; each sends its call and returns the decoded answer, or raises the error.

    `where` are the folders that the implementation gets. `send` sends a request and returns its answer.
    """

    def __init__(self, name: str, where: Sequence[object], send: Callable[[Json, bytes], Message]) -> None:
        self._name = name
        self._where = list(where)
        self._send = send

    def __getattr__(self, method: str) -> Callable[..., Any]:
        types = _types(self._name, method)

        def call(*arguments: object, **named: object) -> Any:
            named.update(zip(types, arguments))
            data = [value for value in named.values() if isinstance(value, bytes)]
            plain = {name: None if isinstance(value, bytes) else value for name, value in named.items()}
            request = {"api": self._name, "where": self._where, "method": method, "arguments": plain}
            answer, found = self._send(request, b"".join(data))
            if "error" in answer:
                raise _decode_error(answer["error"])
            return decode(answer["value"], types["return"], found)

        return call


def answer(request: Json, data: bytes) -> Message:
    """Carry out a request in this process; its answer. Raises nothing: an error becomes an answer."""
    try:
        served = _SERVED[request["api"]]
        types = _types(request["api"], request["method"])
        arguments = {name: decode(value, types[name], data) for name, value in request["arguments"].items()}
        target = getattr(import_module(served.module), served.implementation)(*request["where"])
        value = getattr(target, request["method"])(**arguments)
    except Exception as error:  # only the caller knows what to do about an error, so send every error
        return {"error": _encode_error(error)}, b""
    return ({"value": None}, value) if isinstance(value, bytes) else ({"value": value}, b"")


@lru_cache(maxsize=None)
def _types(name: str, method: str) -> Dict[str, Any]:
    """The types of a method's arguments, in order, then of its result. AttributeError: no such method."""
    function = vars(_SERVED[name].protocol).get(method)
    if method.startswith("_") or not callable(function):
        raise AttributeError(f"the API `{name}` has no method `{method}`")
    return get_type_hints(function)


def decode(value: object, wanted: Any, data: bytes = b"") -> Any:
    """A JSON value as the type `wanted` says; `data` is the value for bytes. TypeError: it does not fit."""
    if wanted is bytes:
        return data
    # A TypedDict is a note for the reader: both sides are of one version.
    if hasattr(wanted, "__total__"):
        return _checked(value, dict)
    origin = getattr(wanted, "__origin__", None)
    inner: Any = getattr(wanted, "__args__", ())
    if origin is Union:  # the only unions are Optional
        return None if value is None else decode(value, inner[0])
    if origin is dict:
        return {name: decode(entry, inner[1]) for name, entry in _checked(value, dict).items()}
    if origin is tuple:
        return tuple(decode(entry, one) for entry, one in zip(_checked(value, list), inner))
    if origin is not None:
        return [decode(entry, inner[0]) for entry in _checked(value, list)]
    if hasattr(wanted, "_fields"):
        types = _field_types(wanted)
        return wanted(*(decode(entry, one) for entry, one in zip(_checked(value, list), types)))
    if wanted is float and isinstance(value, int):
        return float(value)
    return _checked(value, wanted)


@lru_cache(maxsize=None)
def _field_types(named_tuple: Type[NamedTuple]) -> Tuple[type, ...]:
    types = get_type_hints(named_tuple)
    return tuple(types[name] for name in named_tuple._fields)


def _checked(value: object, wanted: Type[T]) -> T:
    if not isinstance(value, wanted):
        raise TypeError(f"{value!r:.80} is not a {wanted.__name__}")
    return value


def describe(error: Exception) -> str:
    """The message of an error of a call, as one line for people."""
    if isinstance(error, OSError):
        words = error.strerror or str(error)
        return f"{error.filename}: {words}" if error.filename else words
    return str(error)


def _encode_error(error: Exception) -> Json:
    kind = type(error).__name__
    if kind in _ERRORS:
        return {"kind": kind, "arguments": list(error.args)}
    number = error.errno if isinstance(error, OSError) else None
    return {"kind": kind, "words": describe(error), "errno": number}


def _decode_error(error: Json) -> Exception:
    """The machine's error: of its class where callers distinguish it, else an OSError or a RemoteError."""
    kind = str(error["kind"])
    if kind in _ERRORS:
        known: Type[Exception] = getattr(import_module(_ERRORS[kind]), kind)
        return known(*error["arguments"])
    if isinstance(error["errno"], int):
        return OSError(error["errno"], str(error["words"]))
    return RemoteError(kind, str(error["words"]))
