"""YAML with places: what is read, and the one line said of everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gofer.config.yaml.document import parse_document, read_document
from gofer.config.yaml.nodes import Items, Node, Scalar, Table
from gofer.errors import ConfigError


def plain(node: Node) -> object:
    if isinstance(node, Table):
        return {name: plain(entry) for name, entry in node.entries.items()}
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return node.text


def refusal(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_document(text, source="f.yaml")
    assert "\n" not in caught.value.message
    return caught.value


def test_scalars_keep_the_text_that_was_written() -> None:
    text = "a: no\nb: 0.10\nc: 01:30:00\nd: 'x: y'\ne: 1e3\nf: 0x10\n"
    assert plain(parse_document(text, source="f.yaml")) == {
        "a": "no",
        "b": "0.10",
        "c": "01:30:00",
        "d": "x: y",
        "e": "1e3",
        "f": "0x10",
    }


def test_only_unquoted_nothing_is_null() -> None:
    entries = parse_document("a:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: !!str null\n", source="f.yaml").entries
    nulls = {name: isinstance(node, Scalar) and node.is_null for name, node in entries.items()}
    assert nulls == {"a": True, "b": True, "c": True, "d": False, "e": False, "f": False}


def test_a_value_has_the_line_of_its_key() -> None:
    entries = parse_document(
        "# head\njob:\n  gpus: 1\n  setup: |\n    a\n    b\n  name: x\n", source="f"
    ).entries
    job = entries["job"]
    assert isinstance(job, Table)
    assert job.place.line == 2
    assert {name: node.place.line for name, node in job.entries.items()} == {"gpus": 3, "setup": 4, "name": 7}


def test_anchors_aliases_and_merge_keys() -> None:
    document = parse_document(
        "base: &base {a: 1, b: 2}\nother: &other {b: 3, c: 4}\n"
        "one:\n  <<: *base\n  b: 9\ntwo:\n  <<: [*base, *other]\nthree: *base\n",
        source="f.yaml",
    )
    assert plain(document.entries["one"]) == {"a": "1", "b": "9"}
    assert plain(document.entries["two"]) == {"a": "1", "b": "2", "c": "4"}
    assert plain(document.entries["three"]) == {"a": "1", "b": "2"}
    one = document.entries["one"]
    assert isinstance(one, Table)
    assert (one.entries["a"].place.line, one.entries["b"].place.line) == (1, 5)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "~\n"])
def test_an_empty_file_is_an_empty_map(text: str) -> None:
    assert parse_document(text, source="f.yaml").entries == {}


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("- a\n", "f.yaml:1", "must be a map"),
        ("a: 1\n\nb: 2\na: 3\n", "f.yaml:4", "`a` is given twice, first in line 1"),
        ("a:\n  b: [1, 2\n", "f.yaml:3", "not valid YAML"),
        ("a: 'open\n", "f.yaml:2", "not valid YAML"),
        ("a: b: c\n", "f.yaml:1", "not valid YAML"),
        ("a: 1\nb: !!python/object:os.system x\n", "f.yaml:2", "the YAML tag"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2", "second document"),
        ("a: *nowhere\n", "f.yaml:1", "`*nowhere` names no anchor"),
        ("a: &x [*x]\n", "f.yaml:1", "`*x` is inside its own anchor"),
        ("a: 1\n<<: 3\n", "f.yaml:2", "`<<` takes a map"),
        ("? [a, b]\n: c\n", "f.yaml:1", "a key must be a single word"),
        ("a: 1\nb: \x01\n", "f.yaml:2", "control characters"),
    ],
)
def test_broken_files_get_one_line_with_the_place(text: str, where: str, words: str) -> None:
    error = refusal(text)
    assert error.message.startswith(f"{where}: ")
    assert words in error.message


def test_a_tab_and_an_unquoted_reference_get_a_hint() -> None:
    assert "spaces" in str(refusal("a:\n\tb: 1\n").hint)
    assert '"${secret:NAME}"' in str(refusal("s: {url: az://c/p, sas: ${secret:x}}\n").hint)
    assert "quotes" in str(refusal("a: b: c\n").hint)


def test_deep_nesting_is_refused_and_does_not_crash_the_interpreter() -> None:
    assert "nested deeper" in refusal("a: " + "[" * 200_000).message
    assert "nested deeper" in refusal("a: " + "{b: " * 100_000).message


def test_an_alias_bomb_costs_nothing() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    document = parse_document("\n".join(lines), source="f.yaml")
    assert len(document.entries) == 40


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml`: No such file"):
        read_document(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match="Is a directory"):
        read_document(tmp_path)
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: caf\xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yaml:2: the file is not UTF-8 text"):
        read_document(latin)
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (5 << 20))
    with pytest.raises(ConfigError, match="larger than 4 MiB"):
        read_document(big)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert list(read_document(file).entries) == ["a"]


trees = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=8), trees, max_size=5), st.booleans())
@settings(max_examples=200, deadline=None)
def test_what_pyyaml_writes_is_read_as_pyyaml_reads_it(tree: dict[str, object], flow: bool) -> None:
    text = yaml.safe_dump(tree, allow_unicode=True, default_flow_style=flow)
    assert plain(parse_document(text, source="f.yaml")) == yaml.load(text, Loader=yaml.CBaseLoader)


@given(st.text(st.sampled_from("ab:- \n\t[]{}&*!|>'\"#%@,?<\\$~"), max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        parse_document(text, source="f.yaml")
    except ConfigError as error:
        assert error.message.startswith("f.yaml:")
        assert "\n" not in error.message
