"""Commands as one line: a shell reads back the same words, and no word has more quotes than it needs."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.text import quote_command


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["echo", "it's"], 'echo "it\'s"'),
        (["t", "--lr", "{lr}", "a{b}c"], "t --lr {lr} a{b}c"),
        (["a;b", "{a,b}", "{1..3}", "{"], "'a;b' '{a,b}' '{1..3}' '{'"),
        (["it's $HOME"], "'it'\"'\"'s $HOME'"),
        ([""], "''"),
    ],
)
def test_quotes(words: list[str], line: str) -> None:
    assert quote_command(words) == line


@given(st.lists(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"))))
def test_a_shell_reads_the_same_words(words: list[str]) -> None:
    assert shlex.split(quote_command(words)) == words
