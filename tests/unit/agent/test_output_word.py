"""`{output}` is the folder of outputs in a few exact places, and nothing else is touched."""

from __future__ import annotations

import pytest

from gofer.config.arrays import check_placeholders
from gofer.core.command.output_word import fill, is_output_word, show
from gofer.errors import UnknownName

FOLDER = "/the store/{x}/outputs"


@pytest.mark.parametrize(
    ("word", "filled"),
    [
        ("{output}", FOLDER),
        ("{output}/a b", f"{FOLDER}/a b"),
        ("--dir={output}", f"--dir={FOLDER}"),
        ("a={output}/x,b={output}", f"a={FOLDER}/x,b={FOLDER}"),
        ("{output}/k={output}", f"{FOLDER}/k={FOLDER}"),
        ("{output}x", None),
        ("x{output}", None),
        ("echo {output}", None),
        ("{{output}}", None),
        ("={{output}}", None),
        ("=${output}", None),
        ('{"output": 1}', None),
        ("{output}\n", None),
    ],
)
def test_a_word(word: str, filled: str | None) -> None:
    assert is_output_word(word) == (filled is not None)
    assert fill(["cmd", word], {}, FOLDER) == ["cmd", filled or word]
    assert show([word], {}) == [word]


def test_rows_of_an_array() -> None:
    command = ["train", "{x}", "--out={output}/{x}", "{{output}}"]
    assert fill(command, {"x": "{output}"}, FOLDER) == [
        "train", "{output}", f"--out={FOLDER}/{{output}}", "{output}"
    ]  # fmt: skip
    assert show(command, {"x": "1"}) == ["train", "1", "--out={output}/1", "{output}"]
    assert fill(command, {"x": "1", "output": "mine"}, FOLDER)[2] == "--out=mine/1"
    check_placeholders(command, ["x"])
    for bad in ("x{output}", "{output}/{y}"):
        with pytest.raises(UnknownName):
            check_placeholders([bad], ["x"])
