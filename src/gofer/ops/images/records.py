"""Records of the images that this user has wrapped: one JSON file in the user's data folder."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gofer.core import private_folder
from gofer.errors import GoferError
from gofer.model.decode import decode

if TYPE_CHECKING:
    from gofer.config.paths import Paths


class Wrapped(msgspec.Struct, frozen=True, kw_only=True):
    """One wrapped image: its name, what it was made of, and whether its registry has it."""

    image: str
    base: str
    is_pushed: bool
    made_at: float


class ImageRecords:
    """The records by mark. A missing or damaged file counts as empty; an image is then wrapped again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of(cls, paths: Paths) -> ImageRecords:
        return cls(paths.store_dir.parent / "images.json")

    def find(self, mark: str) -> Wrapped | None:
        """The record of a wrapping; None when this user never made it."""
        return self._load().get(mark)

    def keep(self, mark: str, wrapped: Wrapped) -> None:
        """Add or replace a record. The file is replaced in one step, so a reader sees the old or the new
        records.
        """
        records = {**self._load(), mark: wrapped}
        data = msgspec.json.format(msgspec.json.encode(records), indent=1) + b"\n"
        try:
            private_folder.make_missing(self._path.parent)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, delete=False) as file:
                file.write(data)
            os.replace(file.name, self._path)
        except OSError as error:
            raise GoferError(f"cannot write `{self._path}`: {error.strerror}") from None

    def _load(self) -> dict[str, Wrapped]:
        try:
            return decode(self._path.read_bytes(), dict[str, Wrapped]) or {}
        except OSError:
            return {}
