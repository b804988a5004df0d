"""Report at submit what is not sent: files that ignore rules leave out, and links that lead outside.

The whole list is printed once. While nothing changes, later submits print one short line.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gofer.core import files, private_folder
from gofer.core.secrets.secret_files import looks_like_secret
from gofer.errors import CheckFailed
from gofer.ops.messages import Hint, Message
from gofer.ops.submission.code import named_secrets
from gofer.snapshot.capture import survey
from gofer.snapshot.include import Include, climb
from gofer.snapshot.left_out import LeftOutCounter
from gofer.snapshot.patterns import escape
from gofer.snapshot.rules import SECRET
from gofer.text import count_files, format_size, quote_word

if TYPE_CHECKING:
    from pathlib import Path

    from gofer.model.job import Job
    from gofer.ops.session import Session
    from gofer.ops.submission.code import Source
    from gofer.snapshot.left_out import LeftOutEntry, LeftOutReport, OutsideLink
    from gofer.snapshot.rules import IgnoreReason, SnapshotChoice
    from gofer.snapshot.summary import Snapshot


_NAMED = 8
_NAMED_BEFORE = 4
_ALONE = 3  # up to this many files of one pattern are named individually
_LARGE_BYTES = 1 << 20
_MOST_LISTED = 200
# A pattern that holds one of these would mean something else than the name.
_SPECIAL = re.compile(r"[*?\[\\]|^[!#]| $")
_PLAIN_YAML = re.compile(r"[\w./+-][\w ./+-]*")


class Item(NamedTuple):
    """One entry of the report: a folder, a file, or the files of a folder that match one pattern."""

    name: str
    reason: IgnoreReason
    paths: tuple[str, ...]
    is_folder: bool = False
    top: str = ""


def report(session: Session, source: Source, target: str, found: LeftOutReport, *, is_local: bool) -> None:
    """Report what is not sent; in one line if it is the same as at the last submit from this folder to the
    target.
    """
    items = _items(session, source, found)
    links = _broken(found.links, is_local=is_local)
    if not items and not links and not found.secrets:
        return
    said = [*((item.name, *item.reason) for item in items), *links, found.secrets]
    if _is_known(session, source, target, repr(said)):
        names = [item.name for item in items] + [link.path for link in links]
        if names:
            session.emit(
                Message(f"left out as before: {_listed(names, _NAMED_BEFORE)} (`--dry-run` lists them)")
            )
        return
    _say_items(session, source.folder, found, items, _NAMED)
    if not all(_is_secret(item) for item in items):
        session.emit(Hint("`include:` in gofer.yaml or `--include PATTERN` includes them"))
    elif items:
        session.emit(
            Hint("`include:` in gofer.yaml or `--include` takes along a secret that it names in full")
        )
    _say_links(session, links, _NAMED, is_local=is_local)
    if found.secrets:
        secrets = _listed([f"`{path}`" for path in found.secrets], _NAMED)
        session.emit(Message(f"{secrets}: looks like a secret, and is sent as code because git tracks it"))


def list_both_sides(session: Session, source: Source, choice: SnapshotChoice, *, is_local: bool) -> None:
    """List what would be sent, up to a number of files, and what would not be sent, each with its rule."""
    found = survey(source.folder, cache_dir=session.paths.cache_dir, choice=choice)
    size = format_size(sum(size for _, size in found.files))
    session.emit(Message(f"code of `{source.url or source.folder}`: {count_files(len(found.files))}, {size}"))
    for path, size_bytes in sorted(found.files)[:_MOST_LISTED]:
        session.emit(Message(f"  {path} ({format_size(size_bytes)})"))
    if len(found.files) > _MOST_LISTED:
        session.emit(Message(f"  … and {len(found.files) - _MOST_LISTED:,} more"))
    _list_items(session, source, found.left_out)
    links = _broken(found.left_out.links, is_local=is_local)
    _say_links(session, links, _MOST_LISTED, is_local=is_local)


def _items(session: Session, source: Source, found: LeftOutReport) -> list[Item]:
    """What is not sent, without the secret files that are sent with the private values of the run."""
    named = set(named_secrets(session, source))
    return group(entry for entry in found.entries if entry.path not in named)


def group(left_out: Iterable[LeftOutEntry]) -> list[Item]:
    """Folders and secrets by themselves; files of one pattern together where they are many."""
    items: list[Item] = []
    by_pattern: dict[tuple[IgnoreReason, str], list[str]] = {}
    for entry in left_out:
        if entry.is_folder:
            items.append(Item(f"{entry.path}/", entry.reason, (entry.path,), is_folder=True))
        else:
            top = entry.path.partition("/")[0] if "/" in entry.path else ""
            by_pattern.setdefault((entry.reason, top), []).append(entry.path)
    for (reason, top), paths in by_pattern.items():
        if len(paths) <= _ALONE or reason.source == SECRET:
            items += [Item(path, reason, (path,)) for path in paths]
        else:
            name = f"{reason.line} in {top}/" if top else reason.line
            items.append(Item(name, reason, tuple(paths), top=top))
    return items


def _say_items(session: Session, folder: Path, found: LeftOutReport, items: list[Item], most: int) -> None:
    counter = LeftOutCounter()
    by_source: dict[str, list[Item]] = {}
    for item in items:
        by_source.setdefault(item.reason.source, []).append(item)
    for source, same in by_source.items():
        words = [_describe(item, folder, found, counter) for item in same[:most]]
        more = f" and {len(same) - most:,} more" if len(same) > most else ""
        by = "because it looks like a secret" if source == SECRET else f"by {source}"
        session.emit(Message(f"left out {by}: {', '.join(words)}{more}"))
    if not found.is_whole:
        session.emit(Message(f"more is left out: the count stopped after {len(found.entries):,} entries"))


def _list_items(session: Session, source: Source, found: LeftOutReport) -> None:
    """Print one line for each entry, with its rule."""
    counter, items = LeftOutCounter(), _items(session, source, found)
    for item in items[:_MOST_LISTED]:
        rule = f"`{item.reason.line}` of {item.reason.source}" if item.reason.line else item.reason.source
        session.emit(Message(f"left out: {_describe(item, source.folder, found, counter)}; {rule}"))
    if len(items) > _MOST_LISTED or not found.is_whole:
        session.emit(Message("… and more is left out"))


def _describe(item: Item, folder: Path, found: LeftOutReport, counter: LeftOutCounter) -> str:
    """An entry as text: `data/ (16 files, 1.1 GiB)`, or `*.jpg in datasets/ (…; 128 other files of datasets/
    are sent)`.
    """
    if counter.is_spent:
        return f"{item.name} (not counted)"
    count = counter.count([os.path.join(folder, path) for path in item.paths])
    more = "" if count.is_whole else "more than "
    if len(item.paths) == 1 and not item.is_folder:
        return f"{item.name} ({format_size(count.size)})" if count.size >= _LARGE_BYTES else item.name
    if not count.files:
        return f"{item.name} ({'empty' if count.is_whole else 'not counted'})"
    others = found.sent.get(item.top, 0) if item.top else 0
    rest = f"; {others:,} other files of {item.top}/ are sent" if others else ""
    return f"{item.name} ({more}{count_files(count.files)}, {format_size(count.size)}{rest})"


def _broken(links: Iterable[OutsideLink], *, is_local: bool) -> list[OutsideLink]:
    """The links that lead nowhere in the run: on this machine an absolute one leads where it always did,
    which is worth a word when that is in the project.
    """
    return [link for link in links if link.is_own or not (is_local and os.path.isabs(link.target))]


def _say_links(session: Session, links: list[OutsideLink], most: int, *, is_local: bool) -> None:
    for link in links[:most]:
        session.emit(Message(f"{describe_link(link)}: {_lead(link, is_local=is_local)}"))
    if len(links) > most:
        session.emit(Message(f"… and {len(links) - most:,} more links"))
    if any(link.is_own for link in links):
        session.emit(Hint("a link by a relative path leads to the run's copy"))
    if not all(link.is_own for link in links):
        session.emit(Hint("`folders:` in gofer.yaml maps a folder into the run"))


def describe_link(link: OutsideLink) -> str:
    where = "your own folder by its full path" if link.is_own else "outside of the project"
    return f"`{link.path}` is a link to `{link.target}`, {where}"


def _lead(link: OutsideLink, *, is_local: bool) -> str:
    if link.is_own and is_local:
        return "it leads there, not to the run's copy"
    return "it will be broken in the run"


def _is_secret(item: Item) -> bool:
    return not item.is_folder and all(map(looks_like_secret, item.paths))


def _listed(names: list[str], most: int) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _is_known(session: Session, source: Source, target: str, said: str) -> bool:
    """Whether the last submit from this folder to this target printed the same. Records the present
    report.
    """
    key = hashlib.sha256(os.fsencode(f"{source.folder}\0{target}")).hexdigest()[:32]
    path = session.paths.cache_dir / "left-out" / key
    mark = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest().encode()
    with suppress(OSError):
        if path.read_bytes() == mark:
            return True
    with suppress(OSError):  # the disk is full, so the list will be printed again
        private_folder.make_missing(path.parent)
        files.write_whole(str(path), mark, mode=0o600)
    return False


def advise_include(path: str, workdir: str) -> str:
    """The two ways to take along `path`, which is from the top of the code and ends with `/` for a folder.

    `workdir` is the folder of the command, from where `--include` is read.
    """
    where = "gofer.yaml" if workdir == "." else "the gofer.yaml at the top of the project"
    return (
        f"write `include: [{_yaml(_pattern(path))}]` into {where},"
        f" or submit with `--include {quote_word(include_pattern(path, workdir))}`"
    )


def include_pattern(path: str, workdir: str) -> str:
    """The pattern of `--include` that takes along `path` alone: see `advise_include`."""
    if workdir == ".":
        return _pattern(path)
    return _pattern(os.path.relpath(path, workdir) + ("/" if path.endswith("/") else ""))


def check(session: Session, job: Job) -> None:
    """CheckFailed for a pattern that leads out of the project: it would take nothing along."""
    base = "" if job.workdir == "." else job.workdir
    written = [("include:", one, "") for one in session.settings.include]
    written += [("--include", one, base) for one in job.include]
    for key, pattern, folder in written:
        if climb(pattern, folder) is None:
            raise CheckFailed(
                f"`{key} {pattern}` leads out of the project, and nothing there goes along",
                hint="`folders:` in gofer.yaml brings a folder to the run",
            )


def name_unmatched(session: Session, job: Job, taken: Snapshot) -> None:
    """Say which patterns of `--include`, and which plain paths of `include:`, mean no file of the snapshot.

    A pattern with wildcards in the settings may be for files of other days, so it is not named.
    """
    written = [("--include", one, job.workdir) for one in job.include]
    written += [("include:", one, ".") for one in session.settings.include if not _SPECIAL.search(one)]
    missing = {
        (key, pattern): Include([climbed.pattern], climbed.base)
        for key, pattern, workdir in written
        if not looks_like_secret(pattern)
        and not pattern.startswith(("!", "#"))
        and (climbed := climb(pattern, "" if workdir == "." else workdir)) is not None
    }
    if not missing:
        return
    try:
        for path, is_folder in taken.listings.entries():
            name = path.rpartition(b"/")[2]
            for one in [one for one, patterns in missing.items() if patterns.matches(name, path, is_folder)]:
                del missing[one]
            if not missing:
                return
    except KeyError:
        return  # part of the snapshot is in no cache of this machine
    for key, pattern in missing:
        session.emit(Message(f"`{key} {pattern}` matches no file that is sent"))


def _pattern(path: str) -> str:
    """A pattern for this path alone."""
    if not _SPECIAL.search(path):
        return path
    return os.fsdecode(escape(os.fsencode(path))) + ("/" if path.endswith("/") else "")


def _yaml(text: str) -> str:
    if _PLAIN_YAML.fullmatch(text):
        return text
    return "'" + text.replace("'", "''") + "'"
