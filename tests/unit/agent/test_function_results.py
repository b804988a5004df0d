"""The file with the result of a function, and the columns of an array of calls."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest

from gofer.node.functions.result_file import ResultRefused, verify, write
from gofer.ops.functions.columns import array_of

KEY = b"k" * 32


def written(path: Path, value: object = "the value") -> bytes:
    write(str(path / "outputs" / "x"), KEY, {"run": "r", "rank": 0}, lambda file: pickle.dump(value, file))
    return (path / "outputs" / "x").read_bytes()


def test_a_file_is_read_back_in_pieces_of_any_size(tmp_path: Path) -> None:
    data = written(tmp_path)
    for size in (1, 7, len(data)):
        copy = io.BytesIO()
        header = verify((data[at : at + size] for at in range(0, len(data), size)), KEY, copy)
        assert (header, pickle.load(copy)) == ({"run": "r", "rank": 0}, "the value")


def test_every_changed_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    data = written(tmp_path)
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    cut = [data[:at] for at in range(len(data))]
    for one in (*changed, *cut, data + b"\n", data + data):
        with pytest.raises(ResultRefused):
            verify([one], KEY, io.BytesIO())
    with pytest.raises(ResultRefused, match="signature"):
        verify([data], b"another key", io.BytesIO())


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(TypeError, match="cannot pickle"):
        written(tmp_path, (one for one in "ab"))
    assert [path.name for path in (tmp_path / "outputs").iterdir()] == ["x"]
    assert b"the value" in (tmp_path / "outputs" / "x").read_bytes()


def test_the_columns_are_the_arguments_that_a_table_can_show() -> None:
    def train(lr: float, Row: int, data: list[int], name: str, *more: int) -> None: ...

    calls = [(0.1, 1, [1], "a", 5), (0.01, 2, [2], "b", 6)]
    assert array_of(train, calls).columns == ("row", "lr", "name")
    assert array_of(train, calls).rows == (("0", "0.1", "a"), ("1", "0.01", "b"))
    assert array_of(train, [(1, 2, 3, "x" * 81)]).columns == ("row", "lr", "data")
    assert array_of(train, [(1, 2, 3, "a\nb")]).columns == ("row", "lr", "data")
    assert array_of(max, [(1,), (2,)]).columns == ("row",)
