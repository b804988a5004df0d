# ruff: noqa: UP006, UP035, UP045
"""Calls that cross a connection: their types, their JSON and their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, TypedDict, cast

import pytest

from gofer.core.secrets.run_secrets import RunSecrets
from gofer.objects.facts import Exists, ObjectNotFound
from gofer.remote import calls
from gofer.remote.api import FilesApi, QueueApi, StoredFile
from gofer.remote.calls import RemoteApi, RemoteError, decode, describe


def send(request: calls.Json, data: bytes) -> calls.Message:
    """Over a connection, both messages are JSON."""
    answer, found = calls.answer(json.loads(json.dumps(request)), data)
    return json.loads(json.dumps(answer)), found


def files_of(folder: Path) -> FilesApi:
    return cast(FilesApi, RemoteApi("files", [str(folder)], send))


def queue_of(folder: Path) -> QueueApi:
    return cast(QueueApi, RemoteApi("queue", [str(folder)], send))


class Inner(NamedTuple):
    number: float
    names: List[str]


class Fields(TypedDict):
    a: Dict[str, int]


@pytest.mark.parametrize(
    ("value", "wanted", "decoded"),
    [
        (1, float, 1.0),
        (None, Optional[int], None),
        ([2, ["a"]], Optional[Inner], Inner(2.0, ["a"])),
        ([["a", 1]], List[Tuple[str, int]], [("a", 1)]),
        ({"a": [1, []]}, Dict[str, Inner], {"a": Inner(1.0, [])}),
        ({"a": {"b": 1}}, Fields, {"a": {"b": 1}}),
        (None, type(None), None),
    ],
)
def test_values_get_the_types_of_the_method(value: Any, wanted: Any, decoded: Any) -> None:
    found = decode(value, wanted)
    assert found == decoded
    assert type(found) is type(decoded)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ([], Fields),
        ("1", int),
        (1.5, int),
        ({}, List[int]),
        ([1], Dict[str, int]),
        ("ab", Inner),
        (1, type(None)),
    ],
)
def test_a_value_of_another_form_is_refused(value: Any, wanted: Any) -> None:
    with pytest.raises(TypeError):
        decode(value, wanted)


def test_every_method_has_types_that_the_nodes_python_can_evaluate() -> None:
    for name, served in calls._SERVED.items():
        for method, function in vars(served.protocol).items():
            if method.startswith("_"):
                continue
            assert calls._types(name, method)
            for text in function.__annotations__.values():
                assert "|" not in text
                assert not any(word in text for word in ("list[", "dict[", "tuple["))


def test_bytes_and_named_tuples_arrive(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    files.put("a/b", b"\0\xff", new=True)
    entry = files.head("a/b")
    assert type(entry) is StoredFile
    assert files.list_page("", "") == [entry]
    assert files.get("a/b", 0, 9) == b"\0\xff"
    values = RunSecrets({"A": "b"}, None, {"data": {"key": "k"}}, ["A"])
    queue = queue_of(tmp_path / "queue")
    queue.keep_secrets("r1", values, False)
    assert list(queue.abandoned_secrets().values()) == []


def test_errors_keep_the_classes_that_callers_distinguish(tmp_path: Path) -> None:
    files = files_of(tmp_path)
    with pytest.raises(ObjectNotFound, match="there is no such object") as missing:
        files.get("a", 0, 1)
    assert missing.value.status == 404
    files.put("a", b"", new=True)
    with pytest.raises(Exists):
        files.put("a", b"", new=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as wrong:
        files.put("folder", b"", new=False)
    assert describe(wrong.value).endswith("Is a directory")
    with pytest.raises(RemoteError, match="is not a key") as other:
        files.put("..", b"", new=False)
    assert other.value.kind == "ObjectsError"


def test_only_the_methods_of_an_api_can_be_called(tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        queue_of(tmp_path).no_such_method()  # type: ignore[attr-defined]
    request = {"api": "queue", "where": [str(tmp_path)], "method": "__init__", "arguments": {}}
    answer, _ = calls.answer(request, b"")
    assert answer["error"]["kind"] == "AttributeError"
