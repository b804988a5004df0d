"""Options before the verb: where each word ends up, and that the static table tells the truth."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gofer.cli import legacy_words
from gofer.cli.lazy import LazyGroup, root
from gofer.cli.option_order import FLAGS, VALUED, rearrange, remark
from gofer.cli.verbs import NOUNS, VERBS
from gofer.errors import UsageError
from gofer.importers.node_setup import COMPILE_ARGS


def _words(line: str) -> list[str]:
    return line.split()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("submit python train.py -n 3", "submit python train.py -n 3"),
        ("-n 8 -c lab submit python train.py -n 3", "submit -n 8 -c lab python train.py -n 3"),
        ("-n8 submit ls", "submit -n8 ls"),
        ("--gpus=8 --json submit ls", "submit --gpus=8 --json ls"),
        ("-n 8 submit -c lab ls -l", "submit -n 8 -c lab ls -l"),
        ("-Qn 8 submit ls", "submit -Qn 8 ls"),
        ("--tag a=b submit -- --odd", "submit --tag a=b -- --odd"),
        ("-- submit ls", "submit ls"),
        ("--name -f submit ls", "submit --name -f ls"),
        ("-c eu -f we3 u data/voc20", "u -c eu --from we3 data/voc20"),
        ("-fwe3 u data", "u --from we3 data"),
        ("-c eu list runs", "list runs -c eu"),
        ("-c eu list --json runs --all", "list runs -c eu --json --all"),
        ("list --last 5 runs", "list runs --last 5"),
        ("list", "list runs"),
        ("list --all", "list runs --all"),
        ("list --help", "list --help"),
        ("config", "config show"),
        ("target", "target list"),
        ("-c x target show lab", "target show -c x lab"),
        ("ledger", "ledger"),
        ("q", "list runs"),
        ("-c eu q", "list runs -c eu"),
        ("q --filter state=failed --last 3", "list runs --filter state=failed --last 3"),
        ("q 9qd --json", "q 9qd --json"),
        ("--json query 9qd", "query --json 9qd"),
        ("q --help", "q --help"),
        ("q --unheard-of", "q --unheard-of"),
        ("--debug submit ls", "--debug submit ls"),
        ("-n 1 --debug submit ls", "--debug submit -n 1 ls"),
        ("--help", "--help"),
        ("--version", "--version"),
        ("", ""),
        ("cancel job job123456", "cancel job job123456"),
        ("run --target=eus-v100 myscript.py", "run --target=eus-v100 myscript.py"),
        ("qq", "list runs --filter state=queued"),
        ("-c c1 qr", "list runs -c c1 --filter state=running"),
        ("qf --json", "list runs --filter state=failed --json"),
        ("--max 3 q", "list runs --max 3"),
        ("-no-wl q 9qd", "q --no-logs 9qd"),
        ("-no-wl -no-dt q", "list runs"),
        ("-no-s submit ls", "submit --dry-run ls"),
        ("-rt c2 resubmit 60ce2fc7", "resubmit -t c2 60ce2fc7"),
        ("-single -n 8 submit -no-wl", "submit --single -n 8 -no-wl"),
        ("--num_gpu 8 submit ls", "submit -n 8 ls"),
        ("a e2fc7/", "abort e2fc7/"),
        ("local python train.py", "submit -t local python train.py"),
        ("initc", "init"),
        ("-ca fast submit ls -ca x", "submit -e ACT_COMPILE_ARGS=fast ls -ca x"),
        ("--compile_args=a=b -c c1 submit ls", "submit -e ACT_COMPILE_ARGS=a=b -c c1 ls"),
        ("-ca fast local ls", "submit -e ACT_COMPILE_ARGS=fast -t local ls"),
        ("--num_gpu=8 --cluster=c1 submit ls", "submit -n 8 -c c1 ls"),
        ("-c c1 summary", "target show -c c1"),
        ("view portal eus-v100 --browse", "view portal eus-v100 --browse"),
        ("view log 9qd", "view log 9qd"),
        ("ps", "list runs"),
        ("-c lab ps --json", "list runs -c lab --json"),
        ("status", "list runs"),
        ("status 9qd", "query 9qd"),
        ("show --json 9qd", "query --json 9qd"),
        ("stop 9qd", "abort 9qd"),
        ("kill 9qd 9qe", "abort 9qd 9qe"),
        ("log -f 9qd", "logs -f 9qd"),
        ("help", "--help"),
        ("help submit", "submit --help"),
        ("help list runs", "list runs --help"),
        ("help stop", "abort --help"),
        ("-n 2 help submit", "submit -n 2 --help"),
        ("submit help", "submit help"),
        ("submit kill 9qd", "submit kill 9qd"),
    ],
)
def test_words_are_put_in_order(typed: str, meant: str) -> None:
    assert rearrange(_words(typed)) == _words(meant)


@pytest.mark.parametrize(
    ("typed", "message", "hint"),
    [
        ("-x submit ls", "no command has the option `-x`", "gofer --help"),
        ("--gpu 8 submit ls", "no command has the option `--gpu`", "did you mean `--gpus`?"),
        ("-Qx submit", "no command has the option `-x`", "gofer --help"),
        ("-n 8", "only options were given, and no command: -n 8", "gofer --help"),
        ("-n", "the option `-n` needs a value", "-n VALUE"),
        ("-ca x init", "`-ca` is for the set-up of a new run, and `init` describes none", "-ca VALUE submit"),
        ("-ca x resubmit 9qd", "`resubmit` describes none", "gofer -ca VALUE submit"),
        ("-ca", "the option `-ca` needs a value", "-ca VALUE"),
        ("-f submit python train.py", "was given the verb `submit`", "gofer submit -f"),
    ],
)
def test_wrong_words_are_explained(typed: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        rearrange(_words(typed))
    assert message in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_missing_features_of_initc_are_reported() -> None:
    assert "each node runs `compile.aml.sh`" in (remark(["-c", "c1", "initc"]) or "")
    assert remark(["submit", "initc"]) is None
    assert remark([]) is None


def test_words_of_other_tools_are_reported_with_those_of_gofer() -> None:
    assert remark(["stop", "9qd"]) == "note: `gofer stop` is `gofer abort`"
    assert remark(["-c", "lab", "ps"]) == "note: `gofer ps` is `gofer list`"
    assert remark(["submit", "kill", "9qd"]) is None


def test_the_variable_is_the_one_that_the_set_up_reads() -> None:
    assert set(legacy_words.VARIABLES.values()) == {COMPILE_ARGS}


@given(st.lists(st.text(min_size=1)), st.sampled_from(["submit", "run"]))
def test_the_users_words_are_never_touched(command: list[str], verb: str) -> None:
    assert rearrange(["-n", "2", verb, *command]) == [verb, "-n", "2", *command]


def _commands(group: LazyGroup, path: str) -> dict[str, click.Command]:
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = f"{path} {name}"
        found |= _commands(command, below) if isinstance(command, LazyGroup) else {below: command}
    return found


COMMANDS = _commands(root(), "gofer")


def _options() -> set[tuple[str, bool]]:
    """(option, whether it takes a value) over all commands."""
    options = [param for command in COMMANDS.values() for param in command.params]
    return {
        (name, not param.is_flag)
        for param in options
        if isinstance(param, click.Option)
        for name in param.opts
    }


def test_the_table_has_every_option_with_its_arity() -> None:
    own = {("--version", False)}
    table = {(name, False) for name in FLAGS} | {(name, True) for name in VALUED}
    # `-f` means follow behind some verbs and from before any; `--yes` has a name behind `cluster delete`, and
    # nowhere else: the only options with two meanings.
    assert table - own == _options() - {("-f", False), ("--yes", True)}


def test_every_option_is_a_flag_or_takes_one_value() -> None:
    options = [param for command in COMMANDS.values() for param in command.params]
    assert {param.nargs for param in options if isinstance(param, click.Option)} == {1}


def test_every_verb_of_two_words_has_its_nouns() -> None:
    assert {verb for verb, (module, _, _) in VERBS.items() if not module} == set(NOUNS)


def test_short_help_in_the_table_stands_for_each_command() -> None:
    assert len(COMMANDS) > 20
    for path, command in COMMANDS.items():
        assert command.help, path
        assert command.callback is not None, path
