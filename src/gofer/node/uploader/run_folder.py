"""Upload the folders of runs to an object store: continuously while the runs write, and completely at their
end.

`gofer.node.uploader.outputs` sends the outputs; this module sends the rest of the run's folder.

An object cannot grow, so a log is sent in parts, `<key>.parts/<start>`, a few seconds after it is written.
From time to time, many small parts are replaced by a larger one. At the end, the whole file replaces its
parts. Readers join the parts (`gofer.ops.logs.joined_parts`), so they may read at any of these moments.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Iterable, Iterator, Protocol, Sequence

from gofer.core import files, run_layout
from gofer.core.secrets.mask import NO_SECRETS, SecretMask
from gofer.core.states import State
from gofer.node.uploader.outputs import Outputs, Sink
from gofer.objects.facts import ObjectInfo

PART_BYTES = 4 * 1024 * 1024
_MOST_SMALL_PARTS = 32
_MOST_NAMES = 3


class UploadObjects(Sink, Protocol):
    """The methods of an object store that RunFolderUploader needs."""

    def put(self, key: str, data: bytes) -> None: ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]: ...

    def delete(self, keys: Iterable[str]) -> int: ...


class _Growing:
    """What the store has of a growing file: parts by their start, or the whole file."""

    def __init__(self) -> None:
        self.parts: dict[int, int] = {}
        self.whole = -1

    @property
    def sent(self) -> int:
        return max((start + size for start, size in self.parts.items()), default=0)


class RunFolderUploader:
    """Uploads `spool`, a folder with the layout of a store, to an object store.

    At most one thread per run at a time, and one more for its `outputs`. Errors of the store pass through,
    and the call can be repeated: only acknowledged objects count as sent.
    """

    def __init__(
        self,
        spool: str,
        objects: UploadObjects,
        *,
        sync: Sequence[str] = (),
        part_bytes: int = PART_BYTES,
        mask: SecretMask = NO_SECRETS,
    ) -> None:
        self._spool = spool
        self._objects = objects
        self.outputs = Outputs(spool, objects, sync)
        self._part_bytes = part_bytes
        self._mask = mask
        self._growing: dict[str, _Growing] = {}
        self._stamps: dict[str, tuple[int, int]] = {}
        self._listed: set[str] = set()

    def upload_changes(self, run_id: str) -> None:
        """Send what is new in a run's folder, except outputs (see `Outputs.upload_changes`) and the record of
        a success. A success record is uploaded only after the outputs.
        """
        self._learn(run_id)
        for key, path in self._files(run_id):
            if not _is_success_record(path):
                (self._send_growth if run_layout.grows(key) else self._send_changed)(key, path)

    def finish(self, run_id: str) -> str | None:
        """Send the complete folder, except the list of ends: see `send_ends`. None when the store has
        everything, else a sentence about files that kept changing.
        """
        if self.outputs.is_behind(run_id):
            self.upload_changes(run_id)  # send the end of the logs before outputs, which may be large
        self._learn(run_id)
        changing = self.outputs.finish(run_id)
        for key, path in sorted(self._files(run_id), key=lambda file: _is_success_record(file[1])):
            (self._send_whole if run_layout.grows(key) else self._send_changed)(key, path)
        names = ", ".join(f"`{name}`" for name in changing[:_MOST_NAMES])
        more = f" and {len(changing) - _MOST_NAMES} more" if len(changing) > _MOST_NAMES else ""
        return f"written to after the end of the command: {names}{more}" if changing else None

    def send_ends(self, request_id: str, *, is_over: bool) -> None:
        """Send new lines of the list of ends; the whole list when no more will come.

        Readers take a run as ended when its line is in the store, so call this last.
        """
        key = run_layout.ends_key(request_id)
        self._learn(request_id)
        path = os.path.join(self._spool, key)
        if os.path.exists(path):
            (self._send_whole if is_over else self._send_growth)(key, path)

    def _learn(self, run_id: str) -> None:
        """List once what the store has of a run: an earlier process may have sent parts."""
        if run_id in self._listed:
            return
        for info in self._objects.list(run_layout.run_key(run_id)):
            part = run_layout.parse_part(info.key)
            if part is not None:
                self._of(part[0]).parts[part[1]] = info.size
            elif run_layout.grows(info.key):
                self._of(info.key).whole = info.size
        self._listed.add(run_id)

    def _of(self, key: str) -> _Growing:
        return self._growing.setdefault(key, _Growing())

    def _files(self, run_id: str) -> Iterator[tuple[str, str]]:
        """All files of a run except outputs, kept files, and the list of ends, which is sent separately."""
        top = os.path.join(self._spool, run_layout.run_key(run_id))
        skipped = {
            os.path.join(self._spool, key(run_id)) for key in (run_layout.outputs_key, run_layout.files_key)
        }
        for where, folders, names in os.walk(top):
            if where in skipped:
                folders.clear()
                continue
            folders.sort()
            for name in sorted(names):
                path = os.path.join(where, name)
                key = os.path.relpath(path, self._spool)
                if os.path.isfile(path) and not name.endswith(".tmp") and key != run_layout.ends_key(run_id):
                    yield key, path

    def _send_changed(self, key: str, path: str) -> None:
        status = os.stat(path)
        stamp = (status.st_size, status.st_mtime_ns)
        if self._stamps.get(key) != stamp:
            self._objects.put_stream(key, self._mask.pieces(path))
            self._stamps[key] = stamp

    def _send_growth(self, key: str, path: str) -> None:
        state = self._of(key)
        if state.whole == os.path.getsize(path):
            return
        with open(path, "rb") as file:
            while data := self._next_part(file, state.sent):
                start = state.sent
                self._objects.put(run_layout.part_key(key, start), data)
                state.parts[start] = len(data)
        if sum(size < self._part_bytes for size in state.parts.values()) > _MOST_SMALL_PARTS:
            self._merge(key, path, state)

    def _next_part(self, file: BinaryIO, start: int) -> bytes:
        """The next part of a growing file, without an end that may be the beginning of a secret."""
        return self._mask.read(file, start, self._part_bytes, grows=True)

    def _merge(self, key: str, path: str, state: _Growing) -> None:
        """Replace the small parts by few large ones. The large parts are written before the small ones are
        deleted, so a reader always sees all bytes.
        """
        first = min(start for start, size in state.parts.items() if size < self._part_bytes)
        end = state.sent
        kept = {start for start in state.parts if start < first}
        with open(path, "rb") as file:
            for start in range(first, end, self._part_bytes):
                data = self._mask.read(file, start, min(self._part_bytes, end - start))
                self._objects.put(run_layout.part_key(key, start), data)
                state.parts[start] = len(data)
                kept.add(start)
        covered = [start for start in state.parts if start not in kept]
        self._objects.delete([run_layout.part_key(key, start) for start in covered])
        for start in covered:
            del state.parts[start]

    def _send_whole(self, key: str, path: str) -> None:
        state = self._of(key)
        size = os.path.getsize(path)
        if state.whole != size:
            state.whole = self._objects.put_stream(key, self._mask.pieces(path))
        if state.parts:
            self._objects.delete([run_layout.part_key(key, start) for start in state.parts])
            state.parts = {}


def _is_success_record(path: str) -> bool:
    if os.path.basename(path) != run_layout.EXIT:
        return False
    record = files.read_json(path)
    return record is not None and record.get("state") == State.SUCCEEDED
