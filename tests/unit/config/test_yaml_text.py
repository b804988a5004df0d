"""One key of a YAML text changed or removed: every other line stays as it was written."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gofer.config.yaml.document import parse_document
from gofer.config.yaml.text import Verbatim, drop, plain, put
from gofer.errors import ConfigError

TEXT = dedent("""\
    # the settings of the lab
    target: lab   # mine
    targets:
      # bought in May
      lab:
        kind: slurm
        job: {gpus: 1, env: {A: b}}
      "my.box":
        kind: ssh
        hosts:
          - me@a   # the fast one
          - b

    # about jobs
    job:
      setup: |
        pip install x
        pip install y
      gpus: 4  # four
    stores:
""")


def _changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("keys", "value", "gone", "come"),
    [
        ("target", "box", ["target: lab   # mine"], ["target: box   # mine"]),
        ("job/gpus", "8", ["  gpus: 4  # four"], ["  gpus: 8  # four"]),
        ("job/time_limit", "01:30", [], ["  time_limit: 01:30"]),
        ("job/tags/try", "no", [], ["  tags:", "    try: no"]),
        ("job/name", "a: b # c", [], ["  name: 'a: b # c'"]),
        ("job/setup", "true", ["  setup: |", "    pip install x", "    pip install y"], ["  setup: true"]),
        ("job/setup", "cd x\n./y", ["  setup: |", *["    pip install x", "    pip install y"]],
         ["  setup: |-", "    cd x", "    ./y"]),
        ("targets/my.box/python", "py", [], ["    python: py"]),
        ("targets/new/kind", "local", [], ["  new:", "    kind: local"]),
        ("targets/lab/job/gpus", "0", ["    job: {gpus: 1, env: {A: b}}"],
         ["    job: {gpus: 0, env: {A: b}}"]),
        ("targets/lab/job/env/B", "x, y", ["    job: {gpus: 1, env: {A: b}}"],
         ["    job: {gpus: 1, env: {A: b, B: 'x, y'}}"]),
        ("stores/s/url", "file:///s", [], ["  s:", "    url: file:///s"]),
        ("job/gpus", "null", ["  gpus: 4  # four"], ["  gpus: null  # four"]),
    ],
)  # fmt: skip
def test_only_the_lines_of_the_key_change(keys: str, value: str, gone: list[str], come: list[str]) -> None:
    after = put(TEXT, keys.split("/"), Verbatim(value), "gofer.yaml")
    assert _changed_lines(TEXT, after) == (gone, come)


def test_a_list_replaces_a_list() -> None:
    after = put(TEXT, ["targets", "my.box", "hosts"], [Verbatim("c")], "gofer.yaml")
    assert yaml.safe_load(after)["targets"]["my.box"] == {"kind": "ssh", "hosts": ["c"]}
    assert "# about jobs" in after


@pytest.mark.parametrize(
    ("keys", "gone"),
    [
        ("target", ["target: lab   # mine"]),
        ("job/gpus", ["  gpus: 4  # four"]),
        ("job/setup", ["  setup: |", "    pip install x", "    pip install y"]),
        ("targets/lab", ["  lab:", "    kind: slurm", "    job: {gpus: 1, env: {A: b}}"]),
        ("stores", ["stores:"]),
        ("job/absent", []),
    ],
)
def test_a_removed_key_takes_its_lines_only(keys: str, gone: list[str]) -> None:
    assert _changed_lines(TEXT, drop(TEXT, keys.split("/"), "gofer.yaml")) == (gone, [])


def test_a_map_goes_with_its_last_key() -> None:
    text = "targets:\n  a: {kind: local}\njob: {env: {A: b}, gpus: 1}\n"
    assert drop(text, ["targets", "a"], "f") == "job: {env: {A: b}, gpus: 1}\n"
    assert drop(text, ["job", "env", "A"], "f") == "targets:\n  a: {kind: local}\njob: {gpus: 1}\n"


@pytest.mark.parametrize(
    "text",
    ["a: &x {k: 1}\nb: *x\n", "base: &x {k: 1}\nb:\n  <<: *x\n"],
    ids=["alias", "merge key"],
)
def test_a_layout_that_hides_the_value_is_refused_and_not_damaged(text: str) -> None:
    with pytest.raises(ConfigError, match="without rewriting"):
        put(text, ["b", "k"], Verbatim("2"), "f")


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(WORDS, st.sampled_from(["job/name", "targets/lab/x", "targets/my.box/hosts", "a/b/c", "stores/s"]))
def test_any_text_is_read_back_as_it_was_typed(value: str, path: str) -> None:
    keys = path.split("/")
    try:
        after = put(TEXT, keys, Verbatim(value), "gofer.yaml")
    except ConfigError:
        pytest.fail(f"refused {value!r}")
    found = plain(parse_document(after, source="f"))
    for key in keys:
        found = found[key]
    assert found == (None if value in ("~", "null", "Null", "NULL") else value)
    assert "# bought in May" in after
