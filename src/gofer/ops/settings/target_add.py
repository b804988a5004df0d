"""Add a target to a file of settings: ask, visit the cluster, write the entry. And remove one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.backends.kind import CheckContext
from gofer.backends.target_setup import Fact, Question, SetTarget, Visit
from gofer.config.yaml.document import parse_document
from gofer.config.yaml.nodes import table
from gofer.config.yaml.text import Entry, Value, drop, put, section
from gofer.errors import UnknownName, UsageError
from gofer.ops.accounts.azure_profiles import Profiles
from gofer.ops.settings.config_edit import SettingsFile, check_change, typed_value
from gofer.ops.submission.credential_lifetimes import ExpectedDuration
from gofer.text import did_you_mean
from gofer.transport.describe_machine import MachineDescription, describe_machine
from gofer.transport.ssh_errors import LoginNeeded

if TYPE_CHECKING:
    from gofer.backends.kind import SetUp
    from gofer.ops.session import Session

Ask = Callable[[Question], str]
# Offers to log in on a host that wants a person, and raises the error when the person does not want to.
LogIn = Callable[[str, LoginNeeded], None]


class NewTarget(NamedTuple):
    """A target that can be written: its entry, and entries of stores that it needs."""

    name: str
    entry: Entry
    stores: dict[str, Entry]

    def as_yaml(self) -> str:
        """The entries as lines for a file of settings."""
        stores: dict[str, Value] = dict(self.stores)
        targets: dict[str, Value] = {self.name: self.entry}
        return section("targets", targets, {}) + (section("stores", stores, {}) if stores else "")


def addable_kinds() -> list[str]:
    """The kinds of target that `prepare_target` can set up."""
    return [name for name in registry.Kinds() if registry.find(name).set_up is not None]


def prepare_target(
    session: Session,
    name: str,
    kind: str,
    given: Mapping[str, str],
    ask: Ask | None,
    show: Callable[[Fact], None],
    log_in: LogIn | None = None,
) -> NewTarget:
    """Visit the cluster, and put the options of the target together. Writes nothing. Blocks.

    The kind of target gives the steps, one after the other: a fact to show, a machine to visit, a question.
    `given` are options that the person typed, by their names in gofer.yaml; `host` answers the question for
    the machine. `ask` asks for what is missing;
    None when nobody can answer. `show` gets what was found. `log_in` is called for a machine that asks for a
    password or a code. UsageError for a missing or impossible value, Unreachable when a machine does not
    answer.
    """
    steps = _set_up_of(kind)(name, _context(session))
    answers = _Answers(dict(given), ask, f"gofer target add {name} --kind {kind}")
    answer: object = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return _new_target(name, end.value, answers.unused)
        answer = None
        if isinstance(step, Fact):
            show(step)
        elif isinstance(step, Visit):
            answer = _visit(step.host, log_in)
        else:
            answer = answers.to(step)


def _visit(host: str | None, log_in: LogIn | None) -> MachineDescription:
    try:
        return describe_machine(host)
    except LoginNeeded as error:
        if host is None or log_in is None:
            raise
        log_in(host, error)
    return describe_machine(host)


class _Answers:
    """Answers questions: with what the person typed, else by asking, else with the default."""

    def __init__(self, given: dict[str, str], ask: Ask | None, command: str) -> None:
        self.unused = given
        self._ask = ask
        self._command = command

    def to(self, question: Question) -> str:
        answer = self.unused.pop(question.key, None)
        if answer is None and question.is_host:
            answer = self.unused.pop("host", None)
        if answer is None and self._ask is not None and not _is_decided(question):
            answer = self._ask(question)
        if answer is None:
            answer = question.default
        choices = ", ".join(f"`{choice}`" for choice in question.choices)
        if answer is None:
            typed = "--host HOST" if question.is_host else f"{question.key}=…"
            raise UsageError(
                f"the target needs its {question.text.partition(':')[0]}{f': {choices}' if choices else ''}",
                hint=f"`{self._command} {typed}`",
            )
        if question.choices and answer not in question.choices:
            raise UsageError(
                f"there is no {question.text.partition(' ')[0]} `{answer}`",
                hint=did_you_mean(answer, question.choices) or f"choose one of {choices}",
            )
        return answer


def _is_decided(question: Question) -> bool:
    return question.default is not None and question.choices == (question.default,)


def _set_up_of(kind: str) -> SetUp:
    known = registry.find(kind).set_up if kind in registry.Kinds() else None
    if known is None:
        kinds = addable_kinds()
        words = ", ".join(f"`{one}`" for one in kinds)
        raise UsageError(
            f"`gofer target add` knows no kind `{kind}`",
            hint=did_you_mean(kind, kinds) or f"the kinds are {words}",
        )
    return known


def _context(session: Session) -> CheckContext:
    home, logins = str(session.paths.queue_home), Profiles.of(session.environ)
    return CheckContext(session.environ, home, logins, ExpectedDuration().whole_s)


def _new_target(name: str, found: SetTarget, typed: Mapping[str, str]) -> NewTarget:
    """The target; options that the person typed win over those that were found."""
    entry = _entry(found.options)
    entry |= {key: typed_value(value) for key, value in typed.items()}
    stores = {} if "store" in typed else found.stores
    return NewTarget(name, entry, {store: _entry(keys) for store, keys in stores.items()})


def _entry(options: Mapping[str, object]) -> Entry:
    return {key: _value(value) for key, value in options.items()}


def _value(value: object) -> Value:
    """A value as YAML reads it back: the text `8` is a number, as it would be when a person types it."""
    if isinstance(value, list):
        return [_value(one) for one in value]
    return typed_value(str(value))


def check_new_name(session: Session, file: SettingsFile, name: str, *, force: bool) -> None:
    """UsageError when a target has this name, unless `force` replaces the one of this file."""
    known = table(session.settings.section("targets"))
    if name in known and not force:
        raise UsageError(
            f"there is a target `{name}` already ({known[name].place.where})",
            hint=f"choose another name, or replace it: `gofer target add {name} --force …`",
        )


def add_target(session: Session, file: SettingsFile, new: NewTarget) -> str:
    """The text of the file with the target. ConfigError when the settings would not be usable."""
    text = put(file.text, ["targets", new.name], new.entry, file.shown)
    for store, entry in new.stores.items():
        text = put(text, ["stores", store], entry, file.shown)
    check_change(session, file, text)
    return text


def remove_target(session: Session, file: SettingsFile, name: str) -> str:
    """The text of the file without the target; UnknownName when the file does not have it. ConfigError when
    something of the settings needs the target.
    """
    known = table(parse_document(file.text, source=file.path.name, path=file.shown).entries.get("targets"))
    if name not in known:
        raise UnknownName(
            f"`{file.shown}` has no target `{name}`",
            hint=did_you_mean(name, known) or "`gofer target list` shows the file of each target",
        )
    text = drop(file.text, ["targets", name], file.shown)
    check_change(session, file, text)
    return text
