"""What the services have in common: ranges, streams that are resumed, listings by folder, uploads in blocks.

Keys are relative to the prefix the objects were opened with. Every verb blocks, may be called from several
threads, and raises ObjectsError: ObjectNotFound, Exists, VersionMismatch, or another.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from gofer.objects.client import Client, HttpRequest
from gofer.objects.facts import Block, BlockRules, Exists, ObjectInfo, ObjectNotFound, ObjectsError
from gofer.objects.link import Bytes
from gofer.objects.names import key_of
from gofer.objects.read import ObjectReader
from gofer.objects.read_ahead import Ahead
from gofer.objects.wire import HttpResponse

BLOCK_BYTES = 8 << 20
_AT_ONCE = 32
# After each thousand blocks they are twice as large, so that no stream meets the limit on their number.
_DOUBLING = 1000
# Tells our own new object from another's when the answer to its writing was lost.
_TOKEN = "gofer_put"


class Page(NamedTuple):
    """A part of a listing: objects, the names of folders with a delimiter, and where to go on."""

    objects: List[ObjectInfo]
    folders: List[str]
    more: str


class ObjectService(ObjectReader):
    """The verbs; what differs between services is below the line and in the subclasses."""

    block_rules = BlockRules(1, BLOCK_BYTES, 1)

    def __init__(self, client: Client, prefix: str) -> None:
        self.client = client
        self._prefix = f"{self._escape(prefix)}/" if prefix else ""

    def put(
        self,
        key: str,
        data: Bytes,
        *,
        new: bool = False,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
        etag: Optional[str] = None,
    ) -> None:
        """Replace the object, or with `new` create it or raise Exists; the service checks the MD5.

        With `etag`, Changed when the object is not that version any more.
        """
        found = dict(metadata or {})
        if new:
            found[_TOKEN] = os.urandom(8).hex()
        condition = {"If-None-Match": "*"} if new else {"If-Match": etag} if etag else {}
        try:
            self._write(key, data, condition, md5 or hashlib.md5(data).digest(), found)
        except Exists:
            if not self._is_ours(key, found[_TOKEN]):
                raise

    def _is_ours(self, key: str, token: str) -> bool:
        try:
            info = self.head(key)
        except ObjectsError:  # who may write need not be allowed to look
            return False
        return info is not None and (info.metadata or {}).get(_TOKEN) == token

    def put_stream(
        self,
        key: str,
        pieces: Iterable[bytes],
        *,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> int:
        """As in `gofer.storage.base.Streams`."""
        blocks: List[Block] = []
        upload, hashed, total = "", hashlib.md5(), 0
        try:
            for chunk, is_last in _chunked(pieces):
                hashed.update(chunk)
                total += len(chunk)
                if is_last and md5 not in (None, hashed.digest()):
                    raise ObjectsError(0, "md5", "the bytes are not those of the MD5 given")
                if is_last and not blocks:
                    self.put(key, chunk, metadata=metadata)
                    return total
                upload = upload or self.begin_upload(key, md5=md5, metadata=metadata)
                blocks.append(self.put_block(key, upload, len(blocks), chunk))
            self.commit_blocks(key, upload, blocks, md5=hashed.digest(), metadata=metadata)
        except BaseException:
            if upload:
                self._forget(key, upload)
            raise
        return total

    def _forget(self, key: str, upload: str) -> None:
        try:
            self.abort_upload(key, upload)
        except ObjectsError:
            pass  # what is on its way already says more

    def head(self, key: str) -> Optional[ObjectInfo]:
        """Size, time and what else is known, or None when absent."""
        try:
            return self.client.call(
                HttpRequest("HEAD", self._path(key)), lambda answer: self._info(key, _read_head(answer))
            )
        except ObjectNotFound:
            return None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The object `prefix` and all below the folder of that name."""
        info = self._look(prefix) if prefix else None
        if info:
            yield info
        yield from self.list_beginning(f"{prefix}/" if prefix else "")

    def _look(self, key: str) -> Optional[ObjectInfo]:
        """As `head`; None also for who may list and not read."""
        try:
            return self.head(key)
        except ObjectsError as error:
            if error.status == 403:
                return None
            raise

    def list_beginning(self, text: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with `text`."""
        for page in self._pages(text, ""):
            page.objects.sort()
            yield from page.objects

    def list_folders(self, prefix: str = "") -> Iterator[str]:
        """The folders directly under `prefix`."""
        last = ""
        for page in self._pages(f"{prefix}/" if prefix else "", "/"):
            for name in sorted(page.folders):
                if name != last:  # a folder may stand at the end of one page and the start of the next
                    yield name
                last = name

    def list_level(self, prefix: str = "") -> Iterator[Union[ObjectInfo, str]]:
        """The objects and the names of folders directly under `prefix`; a name may come twice."""
        for page in self._pages(f"{prefix}/" if prefix else "", "/"):
            yield from page.objects
            yield from page.folders

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects, several at once; how many were there."""
        todo = [*keys]
        if len(todo) < 2:
            return sum(self._delete(key) for key in todo)
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(len(todo), _AT_ONCE)) as pool:
            return sum(pool.map(self._delete, todo))

    # -- what differs: the calls of each service

    def begin_upload(
        self, key: str, *, md5: Optional[bytes] = None, metadata: Optional[Mapping[str, str]] = None
    ) -> str:
        raise NotImplementedError

    def list_blocks(self, key: str, upload: str) -> Optional[List[Block]]:
        raise NotImplementedError

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        raise NotImplementedError

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        raise NotImplementedError

    def abort_upload(self, key: str, upload: str) -> None:
        raise NotImplementedError

    def copy(self, source: str, destination: str) -> None:
        raise NotImplementedError

    def make(self) -> bool:
        """Make the container or bucket; False when it was there."""
        raise NotImplementedError

    def _escape(self, key: str) -> str:
        raise NotImplementedError

    def _path(self, key: str) -> str:
        raise NotImplementedError

    def _write(
        self, key: str, data: Bytes, condition: Mapping[str, str], md5: bytes, metadata: Mapping[str, str]
    ) -> None:
        raise NotImplementedError

    def _info(self, key: str, answer: HttpResponse) -> ObjectInfo:
        raise NotImplementedError

    def _page(self, beginning: str, delimiter: str, marker: str) -> Page:
        raise NotImplementedError

    def _delete(self, key: str) -> bool:
        raise NotImplementedError

    # -- within

    def _name(self, key: str) -> str:
        return self._prefix + self._escape(key)

    def _key(self, name: str) -> str:
        return key_of(name[len(self._prefix) :])

    def _pages(self, beginning: str, delimiter: str) -> Iterator[Page]:
        # A dot at the end is escaped in a name, but here it is not the end.
        start = self._prefix + self._escape(f"{beginning}-")[:-1]
        page = self._page(start, delimiter, "")
        yield page
        if not page.more:
            return
        page = self._page_after(start, delimiter, page.more)
        while page.more:
            # Who came to the second page will want the third: it is on its way while this one is looked at.
            following = Ahead(partial(self._page_after, start, delimiter, page.more))
            yield page
            page = following.result()
        yield page

    def _page_after(self, start: str, delimiter: str, marker: str) -> Page:
        """ObjectsError for a service that would give the same page for ever."""
        page = self._page(start, delimiter, marker)
        if page.more == marker:
            raise ObjectsError(200, "answer", "the service lists the same page again and again")
        return page


def _read_head(answer: HttpResponse) -> HttpResponse:
    answer.read()
    return answer


def _chunked(pieces: Iterable[bytes]) -> Iterator[Tuple[bytes, bool]]:
    """The pieces joined to blocks, and which of them is the last; one empty block for no bytes at all."""
    size, made, held = BLOCK_BYTES, 0, bytearray()
    for piece in pieces:
        held += piece
        while len(held) > size:
            yield bytes(memoryview(held)[:size]), False
            del held[:size]
            made += 1
            size = BLOCK_BYTES << (made // _DOUBLING)
    yield bytes(held), True
