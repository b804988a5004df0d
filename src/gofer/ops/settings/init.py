"""Prepare a folder: write a settings file to fill in, and send the code to the store before the first
submit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gofer.backends import registry
from gofer.config.folders import folders_of
from gofer.config.project import PROJECT_FILE
from gofer.errors import CheckFailed
from gofer.ops.submission import code, sent_code
from gofer.ops.submission.project_use import ProjectUse, left_environments
from gofer.snapshot.contents import load

if TYPE_CHECKING:
    from gofer.ops.session import Session
    from gofer.snapshot.summary import Snapshot

# gofer reads this settings folder of another tool as it is, so no settings file is needed.
_OTHER_SETTINGS = Path("aux_data") / "aml"
_NAMED = 10

# Lines that begin with `#` and no blank are settings that a person uncomments.
TEMPLATE = """\
# The settings of this project. Every key is optional; `gofer config show` prints all values.
# Uncomment a line to use it.

# Where `gofer submit` runs a command without `-t`.
#target: local

# Defaults of each job; options of `gofer submit` override them.
#job:
#  gpus: 0
#  time_limit: 12h
#  env:
#    OMP_NUM_THREADS: 4
#  setup: pip install -r requirements.txt

# Targets by name. `local` is this machine and is always there.
#targets:
#  local:
#    kind: local

# Files that runs need although .gitignore names them.
#include:
#  - /build/

# Files that no run needs, in addition to those in .gitignore and .goferignore.
#ignore:
#  - "*.ckpt"
#  - /data/
"""


class Initialised(NamedTuple):
    """What `init` found and did. As text, one fact per line for the person.

    `written` is the new settings file, or None when there was one. `left_out` are entries of the folder that
    no run will have.
    """

    folder: Path
    written: Path | None
    store: str
    files: int
    bytes: int
    sent_files: int
    sent_bytes: int
    biggest: tuple[tuple[str, int], ...]
    left_out: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"wrote {self.written}; edit it to change settings"] if self.written else []
        lines.append(f"the code of {self.folder} is in {self.store}")
        if self.left_out:
            more = f" and {len(self.left_out) - _NAMED} more" if len(self.left_out) > _NAMED else ""
            lines.append(f"left out by the ignore rules: {', '.join(self.left_out[:_NAMED])}{more}")
        lines.append("next: `gofer submit COMMAND`")
        return "\n".join(lines)


def init(session: Session) -> Initialised:
    """Write gofer.yaml if the folder has no settings, and send its code to the target's store. Blocks.

    Never overwrites a file. Idempotent: a second call sends nothing. If the code cannot be sent, no file is
    left.
    """
    settings = session.settings
    target = settings.target(session.target)
    store_url = session.store_url_of(target.name)
    written = None if _has_settings(session) else _write(settings.root / PROJECT_FILE)
    try:
        folders = folders_of(settings, target.name)
        source = code.Source.of_project(session)
        taken = code.take(session, source, store_url, target=target.name, without=folders)
    except BaseException:
        if written is not None:
            written.unlink(missing_ok=True)
        raise
    _remember(session, source, taken, store_url)
    return Initialised(
        folder=settings.root,
        written=written,
        store=store_url,
        files=taken.files,
        bytes=taken.bytes,
        sent_files=taken.sent_files,
        sent_bytes=taken.sent_bytes,
        biggest=taken.biggest if taken.bytes > code.LARGE_BYTES else (),
        left_out=_left_out(session, settings.root, store_url, taken),
    )


def _remember(session: Session, source: code.Source, taken: Snapshot, store_url: str) -> None:
    """Note the code for `gofer submit --code last`."""
    use = ProjectUse(tuple(left_environments(source.folder, source.workdir, taken)))
    origin, times = code.origin(taken, source, use), taken.encode_times()
    sent_code.note_init(
        session,
        sent_code.SentCode(taken.id, origin, times, store=store_url, workdir=source.workdir),
    )


def has_cluster(session: Session) -> bool:
    """Whether the settings have a target that is not this machine."""
    settings = session.settings
    kinds = {settings.target(name).kind for name in settings.target_names}
    return any(not registry.find(kind).runs_here for kind in kinds)


def _has_settings(session: Session) -> bool:
    return session.settings.project_file is not None or (session.settings.root / _OTHER_SETTINGS).is_dir()


def _write(path: Path) -> Path | None:
    """Write the new file; None when another process has just written it."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError:
        return None
    except PermissionError as error:
        raise CheckFailed(
            f"cannot write `{path}`: {error.strerror}",
            hint="make the folder writable; runs need no gofer.yaml",
        ) from error
    return path


def _left_out(session: Session, folder: Path, store_url: str, taken: Snapshot) -> tuple[str, ...]:
    """Entries directly in the folder that are not in the snapshot."""
    manifest = load(session.store(store_url), taken.id)
    paths = [entry.path for entry in manifest.entries] + list(manifest.folders)
    kept = {path.split(b"/", 1)[0] for path in paths}
    names = sorted(name for name in os.listdir(os.fsencode(folder)) if name not in kept and name != b".git")
    return tuple(_show(folder, os.fsdecode(name)) for name in names)


def _show(folder: Path, name: str) -> str:
    return f"{name}/" if (folder / name).is_dir() else name
