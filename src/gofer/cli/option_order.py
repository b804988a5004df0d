"""Move options that are written before the verb behind it, before click parses the words.

`gofer -n 8 -c lab submit python train.py -n 3` becomes `submit -n 8 -c lab python train.py -n 3`, and
`gofer -c lab list --json runs` becomes `list runs -c lab --json`. Pure; knows words, not commands.
"""

from __future__ import annotations

from gofer.cli import legacy_words
from gofer.cli.verbs import DEFAULT_NOUNS, NOUNS, VERBS, find
from gofer.errors import UsageError
from gofer.text import did_you_mean, quote_command

# Every option that may be written before the verb. A test compares this list with the commands.
_FLAGS = """
    --all --browse --built --changed --checksum --code --continue --create --debug --delete --device-code
    --dry-run --everywhere --failed --follow --force --help --json --new-code --no-code --no-logs --no-try
    --no-wait --pack --petctl --project --push --quiet --recursive --reverse --rows --runs --same-code
    --server --service-principal --single --spot --stdin --version --wait
    --watch --with-git --yes -Q -h -r -w -y
"""
_VALUED = """
    --accelerator --after --array --as --attempt --cloud --code --code-folder --color --columns --cpus
    --dns-prefix --kubernetes-version --location --pool --resource-group --subscription-id --system-vm-size
    --taint --vm-size
    --each --env --exclude --experiment --expires --export --filter --from --gpu-type --gpus --grace
    --grep --group --host --include --installer --job --jobs --keep --kind --last --launcher --lines --max
    --memory --name --node --nodes --older-than --out --outputs --packages --priority --procs --profile
    --rank --rank-variables --ranks --remove --retries --retry-on --row --setup --since --sort --status --sync
    --tag --tail --target --tenant --time-limit --timeout --user --validator --wheels -N -c -e -f -j -n -t
"""
_COLOURS = ("auto", "always", "never")
FLAGS = frozenset(_FLAGS.split())
VALUED = frozenset(_VALUED.split())


def rearrange(argv: list[str]) -> list[str]:
    """The same words with the verb first; only options, or nothing, when there is no verb.

    A `--debug` and a `--color` before the verb stay there, so that they count when the verb itself is wrong.
    UsageError for an unknown option before the verb, or one whose value is missing.
    """
    pieces, rest = take_options(argv)
    if not rest:
        return _without_verb(_flat(pieces))
    first = [piece for piece in pieces if piece and piece[0].partition("=")[0] in ("--debug", "--color")]
    pieces = [piece for piece in pieces if piece not in first]
    return [*_flat(first), *_verb_first(pieces, rest[0], rest[1:])]


def remark(argv: list[str]) -> str | None:
    """A remark about the verb if it comes from another tool; else None."""
    return next((legacy_words.REMARKS.get(word) for word in take_options(argv)[1]), None)


def _verb_first(pieces: list[list[str]], verb: str, rest: list[str]) -> list[str]:
    if verb == legacy_words.HELP:
        help_pieces = [*pieces, ["--help"]]
        return _verb_first(help_pieces, rest[0], rest[1:]) if rest else _without_verb(["--help"])
    options = _flat([_from_target(piece) for piece in pieces])
    if verb in legacy_words.VERBS:
        verb, *more = legacy_words.VERBS[verb]
        rest = [*more, *rest]
    _check_variables(pieces, verb)
    if verb in NOUNS:
        return [verb, *_noun_first(verb, options, rest)]
    if verb in ("q", "query") and _only_options(rest) and not _asks_help([*options, *rest]):
        return ["list", "runs", *(word for word in options if word != "--no-logs"), *rest]
    return [verb, *options, *rest]


def _without_verb(options: list[str]) -> list[str]:
    if any(
        option not in ("--help", "-h", "--version", "--debug", "--color", *_COLOURS) for option in options
    ):
        raise UsageError(
            f"only options were given, and no command: {quote_command(options)}",
            hint="`gofer --help` lists the commands",
        )
    return options


def _noun_first(verb: str, options: list[str], rest: list[str]) -> list[str]:
    pieces, rest = take_options(rest)
    options = options + _flat(pieces)
    if rest:
        return [rest[0], *options, *rest[1:]]
    if _asks_help(options) or verb not in DEFAULT_NOUNS:
        return options
    return [DEFAULT_NOUNS[verb], *options]


def take_options(argv: list[str]) -> tuple[list[list[str]], list[str]]:
    """The options at the front, each with its value, and the words from the first that is neither.

    A `--` ends the options and is dropped.
    """
    pieces: list[list[str]] = []
    at = 0
    while at < len(argv):
        word = argv[at]
        if word == "--":
            return pieces, argv[at + 1 :]
        if not word.startswith("-") or word == "-":
            break
        name, equals, value = word.partition("=")
        if equals and name in (*legacy_words.VALUED, *legacy_words.VARIABLES):
            pieces.append(_ours([name, value]))
            at += 1
            continue
        is_older = word in legacy_words.VALUED or word in legacy_words.VARIABLES
        end = at + 1 + (is_older or (word not in legacy_words.FLAGS and _takes_next(word)))
        if end > len(argv):
            raise UsageError(f"the option `{word}` needs a value", hint=f"write `{word} VALUE`")
        pieces.append(_ours(argv[at:end]))
        at = end
    return pieces, argv[at:]


def _ours(piece: list[str]) -> list[str]:
    """An option in gofer's form. An option of an older tool without a meaning in gofer becomes no words."""
    if piece[0] in legacy_words.FLAGS:
        return list(legacy_words.FLAGS[piece[0]])
    if piece[0] in legacy_words.VARIABLES:
        return ["-e", f"{legacy_words.VARIABLES[piece[0]]}={piece[1]}"]
    return [legacy_words.VALUED.get(piece[0], piece[0]), *piece[1:]]


def _check_variables(pieces: list[list[str]], verb: str) -> None:
    """UsageError for an option for the set-up of a run before a verb that submits no run."""
    if verb in ("submit", "run"):
        return
    for option, variable in legacy_words.VARIABLES.items():
        if any(piece[:1] == ["-e"] and piece[-1].startswith(f"{variable}=") for piece in pieces):
            raise UsageError(
                f"`{option}` is for the set-up of a new run, and `{verb}` describes none",
                hint=f"`gofer {option} VALUE submit COMMAND…`",
            )


def _flat(pieces: list[list[str]]) -> list[str]:
    return [word for piece in pieces for word in piece]


def _from_target(piece: list[str]) -> list[str]:
    """Before the verb, `-f NAME` is the target that data comes from; after the verb, `-f` means follow."""
    if not piece or not piece[0].startswith("-f"):
        return piece
    name = piece[0][2:] or piece[1]
    if find(VERBS, name):
        raise UsageError(
            f"`-f` before the verb takes a target's name, and was given the verb `{name}`",
            hint=f"to follow the log, write `gofer {name} -f …`",
        )
    return ["--from", name]


def _takes_next(word: str) -> bool:
    """Whether the word after the option `word` is its value; UsageError for an option nobody has."""
    name = word.partition("=")[0] if word.startswith("--") else word
    if name in FLAGS:
        return False
    if name in VALUED:
        return name == word
    if word.startswith("--"):
        raise _unknown(name)
    return _last_letter_takes_next(word)


def _last_letter_takes_next(word: str) -> bool:
    """For combined letters, whether the next word is the value: `-n8` contains its value, `-Qn` takes the
    next word.
    """
    for at, letter in enumerate(word[1:], 1):
        if "-" + letter in VALUED:
            return at == len(word) - 1
        if "-" + letter not in FLAGS:
            raise _unknown("-" + letter if at > 1 else word)
    return False


def _unknown(option: str) -> UsageError:
    near = did_you_mean(option, [*FLAGS, *VALUED])
    return UsageError(
        f"no command has the option `{option}`", hint=near or "`gofer --help` lists the commands"
    )


def _only_options(rest: list[str]) -> bool:
    try:
        return not take_options(rest)[1]
    except UsageError:
        # Behind the verb the command itself says what is wrong.
        return False


def _asks_help(options: list[str]) -> bool:
    return "--help" in options or "-h" in options
