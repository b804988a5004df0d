"""Import files of other tools into gofer.yaml: first make a plan, and write only if there is no conflict.

A plan writes nothing and holds no secret. A target that this release cannot use, because its kind is unknown
or something is missing, becomes a comment in the file, so that the rest of the file works.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gofer.backends import registry
from gofer.config.jobs import read_job_file
from gofer.config.project import PROJECT_FILE
from gofer.config.settings import load
from gofer.config.targets import OWN_KEYS, read_target
from gofer.config.yaml.document import display, parse_document, read_text
from gofer.config.yaml.file import write_settings
from gofer.config.yaml.nodes import Node, Scalar, Table, is_null, merged, table
from gofer.config.yaml.text import clashes, commented, join, plain, section, to_yaml
from gofer.errors import ConfigError, UsageError
from gofer.importers.aml import find_aml
from gofer.importers.draft import Entry, ImportDraft, safe_name
from gofer.importers.file_reader import import_files
from gofer.importers.keys import Finding

if TYPE_CHECKING:
    from gofer.config.settings import Settings
    from gofer.config.targets import Kinds
    from gofer.importers.draft import Secret
    from gofer.ops.session import Session

JOBS_FOLDER = "jobs"
_WRITTEN = "what would be written"
T = TypeVar("T")
_SECTIONS = ("target", "targets", "target_groups", "stores", "dockers", "ignore")


class Imported(NamedTuple):
    """What an import would do: the new texts of the files, and a finding for every key."""

    out: Path
    texts: dict[Path, str]
    findings: list[Finding]
    secrets: list[Secret]
    notes: list[str]


def plan_import(
    session: Session,
    files: Sequence[Path],
    *,
    name: str | None = None,
    out: Path | None = None,
    kinds: Kinds | None = None,
) -> Imported:
    """Read the files, or those of the project if none is named, and plan what to write. Writes nothing.

    `name` is the name for the target. `kinds` are the known kinds of targets (default: all of this release).
    ConfigError for a file that cannot be read, and for a name that `out` already has with another value.
    """
    _check_name(name)
    kinds = kinds or _all_kinds()
    settings = load(
        session.folder, paths=session.paths, environ=session.environ, kinds=kinds, find_targets=find_aml
    )
    out = (session.folder / out) if out else settings.project_file or session.folder / PROJECT_FILE
    if "\0" in str(out):
        raise UsageError("`--out` has a zero byte, which no file name has")
    old = read_text(out) if os.path.exists(out) else ""
    there = parse_document(old, source=out.name, path=display(out))
    stores = {*settings.store_names, *table(there.entries.get("stores"))}
    beside = settings if _is_same(out, settings.project_file) else _read_alone(session, out, old, kinds)
    draft = ImportDraft(session.folder, stores, own_setup=lambda target: _own_setup(beside, there, target))
    import_files(draft, [_absolute(session.folder, file) for file in files or _own(settings)], name)
    if "target" in there.entries and draft.default_target:
        draft.retracted.append(("target", f"`{display(out)}` already names a target"))
        draft.default_target = None
    known = merged(beside.section("targets"), there.entries.get("targets"))
    tree, comments = _settle(draft, kinds, table(known))
    _note_missing(draft, {*settings.target_names, *beside.target_names})
    text = _joined(out, old, plain(there), tree, comments)
    _read_alone(session, out, text, kinds, what=_WRITTEN)
    texts = _changed(draft, out, old, text)
    return Imported(out, texts, draft.findings(), draft.secrets, draft.notes)


def _check_name(name: str | None) -> None:
    if name is not None and safe_name(name) != name:
        hint = "use letters, digits, `_`, `.` and `-`, and begin with a letter or a digit"
        raise UsageError(f"`--as {name}` cannot be the name of a target", hint=hint)


def _changed(draft: ImportDraft, out: Path, old: str, text: str) -> dict[Path, str]:
    """The new and changed files with their texts; ConfigError when another job file has the same name."""
    texts = {out: text} if text != old else {}
    for job, entry in draft.jobs.items():
        texts |= _job(out.parent / JOBS_FOLDER / f"{job}.yaml", to_yaml(draft.scrubbed(entry)))
    if draft.default_target and out in texts:
        draft.note(f"`{draft.default_target}` becomes the default target of this project")
    return texts


def write_import(imported: Imported) -> None:
    """Write the files, each in one step; ConfigError when one cannot be written."""
    for path, text in imported.texts.items():
        write_settings(path, text)


def _all_kinds() -> Kinds:
    return registry.Kinds()


def _absolute(folder: Path, file: Path) -> Path:
    return Path(os.path.normpath(folder / file.expanduser()))


def _own(settings: Settings) -> list[Path]:
    """The file of AML_CONFIG_PATH, else all of `aux_data/aml`; UsageError when there are none."""
    files = settings.provider.files if settings.provider else []
    if not files:
        raise UsageError(
            "no file was named, and this project has none of another tool's",
            hint="`gofer config import FILE…`; `gofer config import --help` says which files gofer reads",
        )
    return files


def _own_setup(settings: Settings, there: Table, target: str) -> str | None:
    """The set-up that the person has for the target: empty when they want none, None when they do not say."""
    for name in ("targets", "job"):
        for node in (there.entries.get(name), settings.section(name)):
            job = table(table(node).get(target)).get("job") if name == "targets" else node
            found = table(job).get("setup")
            if isinstance(found, Scalar):
                return "" if is_null(found) else found.text
    return None


def _settle(draft: ImportDraft, kinds: Kinds, known: Mapping[str, Node]) -> tuple[Entry, dict[str, str]]:
    """The settings to write, without what this release does not support, and the targets that become
    comments.
    """
    comments: dict[str, str] = {}
    for name, entry in [*draft.targets.items()]:
        _fit(draft, name, entry, kinds)
        problem = _problem(name, entry, kinds, known.get(name))
        if problem:
            draft.note(f"`targets.{name}` is written as a comment: {problem}")
            scrubbed: Any = draft.scrubbed(draft.inert(entry))
            comments[name] = commented(name, scrubbed, f"Not in use: {' '.join(problem.split())}")
            del draft.targets[name]
    if draft.default_target and draft.default_target in comments:
        draft.retracted.append(("target", "the target is written as a comment"))
        draft.default_target = None
    tree: dict[str, Any] = {
        "target": draft.default_target,
        "targets": draft.inert({**draft.targets}),
        "target_groups": {name: [*targets] for name, targets in draft.target_groups.items()},
        "stores": draft.inert({**draft.stores}),
        "dockers": draft.dockers,
        "ignore": draft.ignore,
    }
    return {key: draft.scrubbed(value) for key, value in tree.items() if value}, comments


def _note_missing(draft: ImportDraft, known: Collection[str]) -> None:
    """Say which names of groups are no targets yet."""
    for group, names in draft.target_groups.items():
        missing = [name for name in names if name not in known and name not in draft.targets]
        if missing:
            listed = " and ".join(f"`{name}`" for name in missing)
            what = "which is no target" if len(missing) == 1 else "which are no targets"
            draft.note(f"the group `{group}` has {listed}, {what} yet: `gofer target add {missing[0]}`")


def _fit(draft: ImportDraft, name: str, entry: Entry, kinds: Kinds) -> None:
    """Remove options that the target's kind does not have in this release."""
    kind = str(entry.get("kind", ""))
    if kind not in kinds:
        return
    fields = (*kinds[kind].__struct_encode_fields__, *OWN_KEYS)
    for key in [one for one in entry if one not in fields]:
        del entry[key]
        draft.retracted.append(
            (f"targets.{name}.{key}", f"a target of the kind `{kind}` has no `{key}` here")
        )


def _problem(name: str, entry: Entry, kinds: Kinds, known: Node | None) -> str | None:
    """Why the target cannot be used; None when it can."""
    node = parse_document(to_yaml(entry), source=name)
    whole = merged(known, node) or node
    kind = table(whole).get("kind")
    if not isinstance(kind, Scalar):
        return "it has no kind yet; give it one"
    if kind.text not in kinds:
        return f"this release has no kind of target `{kind.text}`"
    try:
        read_target(name, whole, kinds)
    except ConfigError as error:
        return error.message.removeprefix(f"{error.where}: ")
    return None


def _joined(out: Path, old: str, there: Any, tree: Entry, comments: dict[str, str]) -> str:
    shown = display(out)
    found = clashes(there, tree)
    if found:
        listed = ", ".join(f"`{key}`" for key in found[:10]) + (", …" if len(found) > 10 else "")
        raise ConfigError(
            f"`{shown}` has other values for {listed}",
            hint="nothing was written; remove these, import under another name with `--as NAME`, or "
            "write another file with `--out FILE`",
        )
    if old.strip():
        return join(old, tree, comments, shown)
    names = [name for name in _SECTIONS if name in tree or (name == "targets" and comments)]
    return old + "".join(section(name, tree.get(name, {}), comments) for name in names)


def _is_same(out: Path, project_file: Path | None) -> bool:
    return project_file is None or os.path.realpath(out) == os.path.realpath(project_file)


def _read_alone(session: Session, out: Path, text: str, kinds: Kinds, *, what: str | None = None) -> Settings:
    """Read the text as settings of a project, together with the user's settings only."""

    def read(copy: Path) -> Settings:
        return load(
            copy.parent, paths=session.paths, environ=session.environ, kinds=kinds, find_targets=find_aml
        )

    return _try(read, PROJECT_FILE, text, display(out), what=what or f"`{display(out)}`")


def _try(read: Callable[[Path], T], name: str, text: str, shown: str, *, what: str) -> T:
    """Check that the text can be read. Errors name the file for which it is meant."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="gofer-import-") as folder:
        copy = Path(folder, name)
        copy.write_text(text, encoding="utf-8")
        try:
            return read(copy)
        except ConfigError as error:
            message = error.message.replace(str(copy), shown)
            raise ConfigError(f"{what} cannot be read: {message}", hint=error.hint) from None


def _job(path: Path, text: str) -> dict[Path, str]:
    _try(read_job_file, path.name, text, display(path), what=_WRITTEN)
    if not path.exists():
        return {path: text}
    if read_text(path) != text:
        raise ConfigError(
            f"`{display(path)}` already has another job",
            hint=f"nothing was written; move `{display(path)}` away",
        )
    return {}
