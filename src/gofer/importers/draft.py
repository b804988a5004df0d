"""The draft of an import: settings and job files made of other tools' files, as data for YAML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from gofer.config.redact import MASK, is_sensitive
from gofer.config.references import holds_reference
from gofer.config.sections import NAME_PATTERN
from gofer.config.yaml.nodes import ValueOrigin
from gofer.config.yaml.text import Entry as Entry
from gofer.config.yaml.text import Value as Value
from gofer.errors import ConfigError
from gofer.importers.account import mask_token
from gofer.importers.keys import Finding, Sheet, SheetKeys, without

# Shorter ones stand by chance in many a text.
_SHORTEST = 8
# Keys under which `${…}` is text like any other.
_VERBATIM = (("job", "setup"), ("job", "name"))
_REFERENCE = re.compile(r"(?<!\$)\$\{(?=(?:env|file|secret):)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret(NamedTuple):
    """A secret that the import does not copy. It is at `where` until a person runs `gofer secret set
    NAME`.
    """

    name: str
    where: str


class ImportDraft:
    """The settings and job files so far, with the sheets they came from.

    With `accounts`, account files are stores as they are, under the names it gives, and are not taken in.
    `own_setup` is the set-up that the person has for a target, if any.
    """

    def __init__(
        self,
        folder: Path,
        known_stores: Iterable[str] = (),
        accounts: Callable[[Path], str] | None = None,
        own_setup: Callable[[str], str | None] = lambda target: None,
    ) -> None:
        self.folder = folder
        self.accounts = accounts
        self._own_setup = own_setup
        # Mapped folders of a file that gofer cannot provide, by target and name: the reason and the place in
        # the file.
        self.problems: dict[tuple[str, str], tuple[str, ValueOrigin]] = {}
        self.targets: dict[str, Entry] = {}
        self.target_groups: dict[str, list[str]] = {}
        self._numbered: dict[str, Entry] = {}
        self.stores: dict[str, Entry] = {}
        self.dockers: dict[str, Entry] = {}
        self.ignore: list[Value] = []
        self.default_target: str | None = None
        self.jobs: dict[str, Entry] = {}
        self.secrets: list[Secret] = []
        self.notes: list[str] = []
        self._open_notes: list[Callable[[str], str]] = []
        self.sheets: list[Sheet] = []
        # Files already taken in because another file named them, and the store that each became, if any.
        self.taken: dict[Path, str | None] = {}
        self._known_stores = frozenset(known_stores)
        self._values: list[str] = []
        self._kept: dict[str, str] = {}
        self._meant: set[str] = set()
        self.retracted: list[tuple[str, str]] = []

    def sheet(self, sheet: Sheet) -> SheetKeys:
        """Add a file to the draft; returns its keys."""
        self.sheets.append(sheet)
        return SheetKeys(sheet)

    def has_store(self, name: str) -> bool:
        return name in self.stores or name in self._known_stores

    def add_store(self, wanted: str, entry: Entry) -> str:
        """The name it got: `wanted` made safe, with a number when another place has that name."""
        places = {name: _location(one) for name, one in self.stores.items()}
        name = free_name(safe_name(wanted), _location(entry), places)
        self.stores.setdefault(name, entry)
        return name

    def add_target(self, name: str, entry: Entry) -> None:
        """ConfigError when the files describe two targets of that name."""
        if name in self.targets:
            raise ConfigError(
                f"two of the files describe a target `{name}`",
                hint="import them one by one, with `--as NAME`",
            )
        self.targets[name] = entry

    def add_group(self, name: str, targets: list[str]) -> None:
        """ConfigError when the files describe two groups of that name."""
        if self.target_groups.setdefault(name, targets) != targets:
            raise ConfigError(
                f"two of the files have lists for the group `{name}`",
                hint="import them one by one, with `--as NAME`",
            )

    def number_target(self, wanted: str, what: Entry) -> str:
        """The name of a target that is `what`: `wanted`, with a number when another has it; those alike share
        one. It holds whatever is chosen for the target afterwards, and so does the next import.
        """
        name = free_name(wanted, what, {**self.targets, **self._numbered})
        self._numbered[name] = what
        return name

    def extend_target(self, name: str, entry: Entry) -> None:
        """Give a target more keys; ConfigError when it has one of them with another value."""
        _extend(self.targets.setdefault(name, {}), entry, f"targets.{name}")

    def add_setup(self, target: str, job: Entry, script: str) -> bool:
        """Whether the job got the set-up: one of the person's own goes first, and is left as it is."""
        own = self._own_setup(target)
        if own is None:
            job["setup"] = script
        elif own != script:
            self.note(f"`{target}` keeps the set-up of gofer.yaml; that of the older tool is left out")
        return own is None

    def add_ignore(self, patterns: Iterable[str]) -> None:
        self.ignore += [one for one in dict.fromkeys(patterns) if one and one not in self.ignore]

    def findings(self) -> list[Finding]:
        """Every key of every file, in order; what was retracted since is dropped."""
        return [self._checked(one) for sheet in self.sheets for one in sheet.findings()]

    def _checked(self, found: Finding) -> Finding:
        for prefix, why in self.retracted:
            found = without(found, prefix, why)
        return found

    def note(self, text: str) -> None:
        """Note something that concerns no single key. The same note is kept once."""
        if text not in self.notes:
            self.notes.append(text)

    def note_target(self, text: Callable[[str], str]) -> None:
        """As `note`, about the target being imported; the note waits until `settle` gives the target's
        name.
        """
        self._open_notes.append(text)

    def settle(self, target: str) -> None:
        """Set the final name of the imported target: another target may already have the wanted name."""
        for text in self._open_notes:
            self.note(text(target))
        self._open_notes.clear()

    def mention(self, text: str) -> None:
        """As `note`, for something that makes no target fail. Omitted when files are read without an
        import.
        """
        self.note(text)

    def keep(self, keys: SheetKeys, key: str, name: str, to: str) -> str:
        """A reference instead of the secret under `key`, which is masked from now on and never copied."""
        text = keys.text(key) or ""
        if self.means(keys, text):
            keys.shared(key, to)
            return text
        self._remember(text)
        wanted, secret, number = safe_name(name), safe_name(name), 2
        while self._kept.get(secret, text) != text:
            secret, number = f"{wanted}-{number}", number + 1
        if secret not in self._kept:
            self.secrets.append(Secret(secret, keys.where(key)))
        self._kept[secret] = text
        self.means_text(f"${{secret:{secret}}}")
        keys.shared(key, to, f"the value stays out of the file: `gofer secret set {secret}`")
        return f"${{secret:{secret}}}"

    def means(self, keys: SheetKeys, text: str) -> bool:
        """Whether the text has references that are meant as such: those in files that gofer itself reads."""
        if not keys.sheet.has_references or not holds_reference(text):
            return False
        self._meant.add(text)
        return True

    def means_text(self, text: str) -> None:
        """The references in this very text are gofer's own."""
        self._meant.add(text)

    def ask(self, name: str, where: str) -> str:
        """A reference to a secret whose value is not in the imported files."""
        if Secret(name, where) not in self.secrets:
            self.secrets.append(Secret(name, where))
        self.means_text(f"${{secret:{name}}}")
        return f"${{secret:{name}}}"

    def forget(self, keys: SheetKeys, key: str, why: str) -> None:
        """Drop a key whose value is a secret. The value is masked nevertheless."""
        text = keys.text(key)
        if text is not None and not self.means(keys, text):
            self._remember(text)
        keys.dropped(key, why)

    def _remember(self, value: str) -> None:
        self._values.append(value)
        mask_token(value)

    def scrubbed(self, value: Value) -> Value:
        """The value without the secrets that the import has seen: people also write them into scripts."""
        if isinstance(value, dict):
            return {name: self.scrubbed(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.scrubbed(inner) for inner in value]
        if not isinstance(value, str):
            return value
        text = value
        for secret in self._values:
            for form in (secret, secret.lstrip("?")):
                text = text.replace(form, MASK) if len(form) >= _SHORTEST else text
        if text != value:
            self.note(
                f"a secret stood in a text of the files; `{MASK}` is in its place. Pass it as a variable"
            )
        return text

    def inert(self, value: Value, path: tuple[str, ...] = ()) -> Value:
        """The value with `${env:…}` and its like escaped, unless they are meant: the tools know none of them,
        and a file from elsewhere must not reach for a person's variables, files and secrets.
        """
        if path[-2:] in _VERBATIM or (isinstance(value, str) and value in self._meant):
            return value
        if path[-1:] == ("ignore",) and isinstance(value, list):
            return value
        if isinstance(value, dict):
            return {name: self.inert(inner, (*path, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.inert(inner, path) for inner in value]
        return _REFERENCE.sub("$${", value) if isinstance(value, str) else value

    def environment(self, keys: SheetKeys, target: str) -> Entry:
        """A map of variables as `job.env`."""
        found: Entry = {}
        for name in keys:
            to = f"targets.{target}.job.env.{name}"
            text = keys.text(name)
            if not _VARIABLE.fullmatch(name):
                keys.dropped(name, "it cannot be the name of a variable")
            elif text is None:
                keys.dropped(name, "it says nothing")
            elif is_sensitive(name) and not holds_reference(text):
                found[name] = self.keep(keys, name, name, to)
            else:
                found[name] = text
                keys.shared(name, to, "`$${` is gofer's way to write `${`" if holds_reference(text) else "")
        return found


def _location(entry: Entry) -> Entry:
    """What of a store says where it is."""
    return {name: value for name, value in entry.items() if name not in ("key", "sas")}


def _extend(ours: Entry, more: Entry, path: str) -> None:
    for name, value in more.items():
        known = ours.setdefault(name, value)
        if isinstance(known, dict) and isinstance(value, dict):
            _extend(known, value, f"{path}.{name}")
        elif known != value:
            raise ConfigError(
                f"two of the files disagree about `{path}.{name}`", hint="import one of them alone"
            )


def safe_name(text: str) -> str:
    """The text as a name of a target, a store, a folder or a secret."""
    if re.fullmatch(NAME_PATTERN.removeprefix("^").removesuffix("$"), text) and len(text) <= 100:
        return text
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-_.")[:100] or "unnamed"


def free_name(wanted: str, entry: Entry, taken: dict[str, Entry]) -> str:
    """The name, unless something else has it; then with the first number that is free."""
    name, number = wanted, 2
    while name in taken and taken[name] != entry:
        name, number = f"{wanted}-{number}", number + 1
    return name
