"""Arrays: values, tables, limits, and braces in the command."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.config.arrays import Axes, Grid, check_placeholders, expand, parse_each, read_grid, substitute
from gofer.core.command import rows
from gofer.errors import UnknownName, UsageError
from gofer.model.job import Array


def test_several_columns_make_every_combination() -> None:
    assert expand(["lr=0.1,0.01", "seed=1..3"]) == Array(
        ("lr", "seed"),
        (("0.1", "1"), ("0.1", "2"), ("0.1", "3"), ("0.01", "1"), ("0.01", "2"), ("0.01", "3")),
    )


def test_nothing_is_no_array() -> None:
    assert expand([]) is None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1", ("1",)),
        ("a=0.10,1e-3,007", ("0.10", "1e-3", "007")),
        ("a=x=1,y=2", ("x=1", "y=2")),
        ("a='x,y',z", ("x,y", "z")),
        ('a="it\'s", b ', ("it's", "b")),
        ("a=it's,b", ("it's", "b")),
        ("a='',''", ("", "")),
        ("a=' x '", (" x ",)),
        ("a=3..1", ("3", "2", "1")),
        ("a=-1..1", ("-1", "0", "1")),
        ("a=0..10..5,x", ("0", "5", "10", "x")),
        ("a=08..10", ("08", "09", "10")),
        ("a='1..3'", ("1..3",)),
        ("a=1...3,v1..2", ("1...3", "v1..2")),
        ("a=0.1..0.5..0.1", ("0.1", "0.2", "0.3", "0.4", "0.5")),
        ("a=1..-0.05..0.5,x", ("1.0", "0.5", "0.0", "x")),
        ("a=-0.5..0.5..0.5", ("-0.5", "0.0", "0.5")),
        ("a=1e-4..3e-4..1e-4", ("0.0001", "0.0002", "0.0003")),
        ("a=0..1..0.30", ("0.00", "0.30", "0.60", "0.90")),
        ("a=1.5..3.5..1", ("1.5", "2.5", "3.5")),
        ("a=1e2..3e2..1e2", ("100", "200", "300")),
        ("a='0.1..50'", ("0.1..50",)),
        ('a={"k":1}', ('{"k":1}',)),
    ],
)
def test_values(text: str, values: tuple[str, ...]) -> None:
    assert parse_each(text) == ("a", values)


@pytest.mark.parametrize(
    ("each", "words"),
    [
        (["lr"], "has no values"),
        (["lr="], "an empty value"),
        (["lr=1,,2"], "an empty value"),
        (["lr=1,"], "an empty value"),
        (["lr='a"], "quotes"),
        (["lr='a'b"], "quotes"),
        (["=1"], "cannot be a column"),
        (["1a=1"], "cannot be a column"),
        (["a b=1"], "cannot be a column"),
        (["é=1"], "cannot be a column"),
        (["a=1", "a=2"], "the column `a` is there twice"),
        (["a.b=1", "A_B=2"], "`a.b` and `A_B` are both `GOFER_ARG_A_B`"),
        (["a=1..100001"], "too many values"),
        (["a=1..9..0"], "too many values"),
        (["a=0.1..50"], "the range `0.1..50` of `a` has no step"),
        (["a=0.1..0.3:0.1"], "the range `0.1..0.3:0.1` of `a` has its step after a `:`"),
        (["a=1..9:2"], "the range `1..9:2` of `a` has its step after a `:`"),
        (["a=0..1..0.000001"], "too many values"),
        (["a=0..1..0.0"], "too many values"),
        (["a=1e99..2e99..1e-99"], "too many values"),
        (["a=1..1000", "b=1..101"], "101,000 rows"),
        (["a=x\0y"], "NUL"),
        (["a=x\udcffy"], "not UTF-8"),
    ],
)
def test_wrong_values_are_refused(each: list[str], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        expand(each)
    assert words in caught.value.message
    assert caught.value.message.isprintable()


def test_the_largest_array_is_allowed() -> None:
    array = expand(["a=1..1000", "b=1..100"])
    assert array is not None
    assert len(array.rows) == 100_000


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="'"), max_size=8),
        min_size=1,
    )
)
def test_quoted_values_come_back_as_they_are(values: list[str]) -> None:
    assert parse_each("a=" + ",".join(f"'{value}'" for value in values)) == ("a", tuple(values))


# -- tables


def write(path: Path, data: str | bytes) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_csv_keeps_values_byte_for_byte(tmp_path: Path) -> None:
    data = 'lr, note\r\n0.10,"a, ""b""\nc"\r\n\r\n1e-3, é \r\n'
    file = write(tmp_path / "a.csv", b"\xef\xbb\xbf" + data.encode())
    assert read_grid(file) == Grid(("lr", "note"), (("0.10", 'a, "b"\nc'), ("1e-3", " é ")))


def test_tsv(tmp_path: Path) -> None:
    assert read_grid(write(tmp_path / "a.TSV", "a\tb\n1,2\t3\n")) == Grid(("a", "b"), (("1,2", "3"),))


def test_json_lines_keep_the_digits(tmp_path: Path) -> None:
    lines = '{"lr": 0.10, "n": 1e3, "on": true, "t": "x", "l": [1.50, {"a": null}]}\n\n'
    lines += '{"n": 12345678901234567890, "lr": -1, "on": false, "t": "\\u00e9", "l": {}}\n'
    assert read_grid(write(tmp_path / "a.jsonl", lines)) == Grid(
        ("lr", "n", "on", "t", "l"),
        (
            ("0.10", "1e3", "true", "x", '[1.50, {"a": null}]'),
            ("-1", "12345678901234567890", "false", "é", "{}"),
        ),
    )


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "a,b\n1\n", "a.csv:2: 1 values for 2 columns"),
        ("a.csv", 'a\n"x\n', "a.csv:2: unexpected end of data"),
        ("a.csv", b"a\n\xff\n", "a.csv:2: the array is not UTF-8"),
        ("a.csv", b"a\n\0\n", "not a text file"),
        ("a.jsonl", '{"a": 1}\n{"b": 1}\n', "a.jsonl:2: this line and the first differ in the key `a`"),
        ("a.jsonl", '{"a": 1}\n{"a": \n', "a.jsonl:2: not a line of JSON"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: a line must be a JSON object"),
        ("a.jsonl", '{"a": null}\n', "a.jsonl:1: `a` has no value"),
        ("a.jsonl", "[" * 100_000, "not a line of JSON"),
        ("a.txt", "a\n1\n", "is not a table gofer reads"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, name: str, data: str | bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_grid(write(tmp_path / name, data))
    assert words in caught.value.message


def test_an_absent_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.csv`: No such file"):
        expand([], tmp_path / "absent.csv")


@pytest.mark.parametrize(
    ("data", "words"), [("a\n", "no row"), ("a,a\n1,2\n", "twice"), ("a,\n1,2\n", "cannot be a column")]
)
def test_a_table_must_have_rows_and_right_columns(tmp_path: Path, data: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        expand([], write(tmp_path / "a.csv", data))


def test_a_table_meets_every_combination_of_the_columns(tmp_path: Path) -> None:
    array = expand(["seed=1,2"], write(tmp_path / "a.csv", "lr\n0.1\n0.2\n"))
    assert array == Array(("lr", "seed"), (("0.1", "1"), ("0.1", "2"), ("0.2", "1"), ("0.2", "2")))


def test_flags_replace_columns_and_table_of_a_job_file(tmp_path: Path) -> None:
    base = Axes({"seed": ("1", "2"), "lr": ("0.1",)}, Grid(("x",), (("a",),)))
    assert expand([], base=base) == Array(("x", "seed", "lr"), (("a", "1", "0.1"), ("a", "2", "0.1")))
    array = expand(["seed=9"], write(tmp_path / "a.csv", "y\nb\n"), base=base)
    assert array == Array(("y", "seed", "lr"), (("b", "9", "0.1"),))


# -- braces


@pytest.mark.parametrize(
    ("word", "after"),
    [
        ("{lr}", "0.1"),
        ("--lr={lr}/{seed}{lr}", "--lr=0.1/{7}0.1"),
        ("{{lr}}", "{lr}"),
        ("{{{lr}}}", "{0.1}"),
        ("{{other}}", "{other}"),
        ('{"a": {"b": {lr}}}', '{"a": {"b": 0.1}}'),
        ('{"lr": 1, "x": {}}', '{"lr": 1, "x": {}}'),
        ("{ print $1 }", "{ print $1 }"),
        ("{}", "{}"),
        ("{1..3} {a,b} {0}", "{1..3} {a,b} {0}"),
        ("echo ${lr} ${HOME}", "echo ${lr} ${HOME}"),
        ("{model.lr-x}", "dotted"),
        ("{lr", "{lr"),
        ("lr}", "lr}"),
    ],
)
def test_only_a_brace_pair_round_a_name_is_a_placeholder(word: str, after: str) -> None:
    columns, row = ("lr", "seed", "model.lr-x"), ("0.1", "{7}", "dotted")
    assert substitute(["x", word], columns, row) == ("x", after)
    check_placeholders(["x", word], columns)


def test_a_value_with_braces_is_not_searched_again() -> None:
    assert substitute(["{a}", "{b}"], ("a", "b"), ("{b}", "{{a}}")) == ("{b}", "{{a}}")


def test_without_values_the_command_is_left_alone() -> None:
    assert rows.substitute(["{lr}", "{{x}}"], {}) == ["{lr}", "{{x}}"]


def test_a_placeholder_that_is_no_column_is_refused_with_help() -> None:
    with pytest.raises(UnknownName, match=r"`\{lrr\}` in the command is not a column") as caught:
        check_placeholders(["a", "--lr={lrr}"], ("lr", "seed"))
    assert caught.value.hint == "did you mean `lr`? Else write `{{lrr}}` for the text `{lrr}`"
    with pytest.raises(UnknownName) as caught:
        check_placeholders(["awk", "{print}"], ("lr", "seed"))
    assert caught.value.hint == "write `{{print}}` for the text `{print}`"


def test_a_column_that_is_used_nowhere_is_fine() -> None:
    check_placeholders(["python", "{lr}"], ("lr", "seed"))


@given(st.lists(st.text(st.sampled_from("{}$ab. "), max_size=12)))
def test_every_name_that_would_be_looked_up_is_found(words: list[str]) -> None:
    names = rows.placeholders(words)
    values = {name: "<>" for name in names} or {"other": "x"}
    done = rows.substitute(words, values)
    assert len(done) == len(words)
    assert sum(word.count("<>") for word in done) >= len(names)
    for name, _ in itertools.groupby(names):
        with pytest.raises(KeyError):
            rows.substitute(words, {key: "" for key in names if key != name} | {"other": ""})
