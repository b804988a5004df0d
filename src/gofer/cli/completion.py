"""Answer the shell's completion requests. Never fails, creates no file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem, ShellComplete, get_completion_class

from gofer.cli.completion_words import target_names
from gofer.cli.lazy import root
from gofer.cli.option_order import FLAGS, VALUED, rearrange, take_options
from gofer.cli.verbs import VERBS
from gofer.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "_GOFER_COMPLETE"
# In the script of click for bash: add a candidate. A blank follows what is complete, but no field or folder.
_BASH_ADDS = "COMPREPLY+=($value)"
_BASH_ADDS_WITHOUT_BLANK = """COMPREPLY+=("$value")
            [[ $value == *[=/:] ]] && compopt -o nospace"""
# A placeholder for the word that is being typed, while the words before it are rearranged.
_TYPED = "\0"


def script(shell: str) -> str:
    """The completion script for a shell; UsageError for an unknown shell."""
    return ShellComplete.source(_shell(shell)).replace(_BASH_ADDS, _BASH_ADDS_WITHOUT_BLANK)


def complete(environ: Mapping[str, str]) -> int:
    """Answer a completion script's question on stdout; the question is in the environment."""
    name = environ[VARIABLE].partition("_")[0]
    shell = _shell(name)
    try:
        words, start = shell.get_completion_args()
    except (ValueError, KeyError, IndexError):
        return 0  # the variables are not those that a completion script sets
    items = _bash_candidates(words, start) if name == "bash" else candidates(words, start)
    sys.stdout.write("\n".join(shell.format_completion(item) for item in items) + "\n")
    return 0


def _bash_candidates(words: list[str], start: str) -> list[CompletionItem]:
    """Like `candidates`, for words as bash splits them.

    To bash `state=failed` is three words, of which the one that is typed is replaced.
    """
    joined, last = list[str](), ""
    for word in (*words, start):
        if joined and (word == "=" or (word and last == "=")):
            joined[-1] += word
        else:
            joined.append(word)
        last = word
    *before, whole = joined
    if whole == start:
        return candidates(before, start)
    typed = "" if start == "=" else start
    return [
        CompletionItem(typed + item.value[len(whole) :], type=item.type, help=item.help)
        for item in candidates(before, whole)
    ]


def candidates(words: list[str], start: str) -> list[CompletionItem]:
    """The words that may follow `words` and begin with `start`."""
    option, equals, value = start.partition("=")
    if equals and option.startswith("--"):
        return [
            CompletionItem(f"{option}={item.value}", type=item.type, help=item.help)
            for item in candidates([*words, option], value)
        ]
    try:
        _, rest = take_options(words)
    except UsageError:
        return _values(words[-1], start)
    if not rest and start.startswith("-"):
        return [CompletionItem(name) for name in sorted(FLAGS | VALUED) if name.startswith(start)]
    if not rest:
        return [CompletionItem(verb, help=VERBS[verb][1]) for verb in VERBS if verb.startswith(start)]
    try:
        # A verb with nouns takes the options of its default noun: `list --filter` is `list runs --filter`.
        words = [
            word for word in rearrange([*words, *([] if start[:1] == "-" else [_TYPED])]) if word != _TYPED
        ]
    except UsageError:
        return []
    return ShellComplete(root(), {}, "gofer", VARIABLE).get_completions(words, start)


def _values(option: str, start: str) -> list[CompletionItem]:
    return target_names(start) if option in ("-c", "-t", "--target", "-f", "--from") else []


def _shell(name: str) -> ShellComplete:
    kind = get_completion_class(name)
    if kind is None:
        raise UsageError(f"there is no completion for the shell `{name}`", hint="`gofer completion bash`")
    return kind(root(), {}, "gofer", VARIABLE)
