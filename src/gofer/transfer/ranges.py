"""Downloads a large object in ranges, several at a time, to a file that survives the process."""

from __future__ import annotations

import os
import stat

from gofer.storage.base import Store
from gofer.transfer.atomic_download import DownloadFolder, place
from gofer.transfer.budget import Budget
from gofer.transfer.entries import FileEntry
from gofer.transfer.mover import LARGE, Arrived
from gofer.transfer.objects import ObjectParts, damaged
from gofer.transfer.partfile import PartFile


class RangeDownload:
    """The download of one file; implements `mover.InParts`."""

    def __init__(
        self,
        store: Store,
        key: str,
        entry: FileEntry,
        download_folder: DownloadFolder,
        budget: Budget,
        arrived: Arrived,
    ) -> None:
        self._object = ObjectParts(store, key, entry)
        self._entry = entry
        self._folder = download_folder
        self._budget = budget
        self._arrived = arrived
        self._file, self.part_name = download_folder.open_part(entry.path, self._object.identity)
        try:
            self._part = PartFile(self._file, entry.size, LARGE)
        except BaseException:
            os.close(self._file)
            raise
        self._missing = self._part.missing()
        self.parts = len(self._missing)
        self._counted = [entry.size - sum(self._part.span(number)[1] for number in self._missing)]
        arrived(self._counted[0])

    def do(self, part: int) -> None:
        number = self._missing[part]
        start, size = self._part.span(number)
        buffer = self._object.read(number, start, size, self._budget)
        try:
            self._part.write(number, memoryview(buffer)[:size], hashing=self._entry.md5 is not None)
        finally:
            self._budget.release(buffer)
        self._counted.append(size)
        self._arrived(size)

    def finish(self) -> None:
        md5 = self._object.md5()
        if md5 is not None and self._part.md5() != md5:
            # A damaged download must not be continued later.
            os.unlink(self.part_name)
            raise damaged(self._entry.path)
        self._part.trim()
        if self._entry.executable:
            mode = stat.S_IMODE(os.fstat(self._file).st_mode)
            # Executable for every user who can read the file; the umask decides which users can.
            os.fchmod(self._file, mode | (mode & 0o444) >> 2)
        os.utime(self._file, ns=(self._entry.mtime_ns, self._entry.mtime_ns))
        place(self.part_name, self._folder.target(self._entry.path))
        os.close(self._file)

    def abandon(self) -> None:
        self._arrived(-sum(self._counted))
        os.close(self._file)
