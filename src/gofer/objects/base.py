"""The common part of the services: ranges, resumed streams, listings by folder, uploads in blocks.

Keys are relative to the prefix with which the objects were opened. Every method blocks, may be called from
several threads, and raises ObjectsError or its subclasses ObjectNotFound, Exists and VersionMismatch.
"""

from __future__ import annotations

import hashlib
import os
from functools import partial
from typing import Iterable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from gofer.core.parallel import parallel_map
from gofer.objects.client import Client, HttpRequest
from gofer.objects.facts import Block, BlockRules, Exists, ObjectInfo, ObjectNotFound, ObjectsError
from gofer.objects.link import Bytes
from gofer.objects.names import key_of
from gofer.objects.read import Ahead, ObjectReader
from gofer.objects.wire import HttpResponse

BLOCK_BYTES = 8 << 20
_AT_ONCE = 32
# The block size doubles after each thousand blocks, so that no stream reaches the limit on their number.
_DOUBLING = 1000
# Metadata with a random value, by which a writer recognizes its own new object after a lost answer.
_TOKEN = "gofer_put"


class Page(NamedTuple):
    """A page of a listing: objects, names of folders when there is a delimiter, and the marker of the next
    page.
    """

    objects: List[ObjectInfo]
    folders: List[str]
    more: str


class ObjectService(ObjectReader):
    """The methods for callers. The differences between services are in the subclasses."""

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
        """Replace the object, or with `new` create it. The service checks the MD5.

        Raises Exists when `new` is set and the object exists, VersionMismatch when `etag` is set and the
        object has another version.
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
        except ObjectsError:  # a credential may allow writing but not reading
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
        """As gofer.storage.base.Streams.put_stream."""
        blocks: List[Block] = []
        upload, hashed, total = "", hashlib.md5(), 0
        try:
            for chunk, is_last in _chunked(pieces):
                hashed.update(chunk)
                total += len(chunk)
                if is_last and md5 not in (None, hashed.digest()):
                    raise ObjectsError(0, "md5", "the bytes do not have the given MD5")
                # A small stream is one request, without the three of an upload in blocks.
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
            pass  # the error that is being raised says more

    def head(self, key: str) -> Optional[ObjectInfo]:
        """Size, time and other facts; None when there is no such object."""
        try:
            return self.client.call(
                HttpRequest("HEAD", self._path(key)), lambda answer: self._info(key, _read_head(answer))
            )
        except ObjectNotFound:
            return None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """The object `prefix`, and all objects in the folder of that name."""
        info = self._head_if_readable(prefix) if prefix else None
        if info:
            yield info
        yield from self.list_beginning(f"{prefix}/" if prefix else "")

    def _head_if_readable(self, key: str) -> Optional[ObjectInfo]:
        """As `head`, but None also when the credential allows listing and not reading."""
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
        """The names of the folders directly under `prefix`."""
        last = ""
        for page in self._pages(f"{prefix}/" if prefix else "", "/"):
            for name in sorted(page.folders):
                if name != last:  # a folder may be at the end of one page and the start of the next
                    yield name
                last = name

    def list_level(self, prefix: str = "") -> Iterator[Union[ObjectInfo, str]]:
        """The objects and names of folders directly under `prefix`; a name may appear twice."""
        for page in self._pages(f"{prefix}/" if prefix else "", "/"):
            yield from page.objects
            yield from page.folders

    def delete(self, keys: Iterable[str]) -> int:
        """Remove objects, several at once; return how many existed. Absent objects are ignored."""
        return sum(parallel_map(self._delete, keys, at_once=_AT_ONCE))

    # -- requests that differ between services

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
        """Create the container or bucket; False when it exists."""
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

    # -- private

    def _name(self, key: str) -> str:
        return self._prefix + self._escape(key)

    def _key(self, name: str) -> str:
        return key_of(name[len(self._prefix) :])

    def _pages(self, beginning: str, delimiter: str) -> Iterator[Page]:
        # `_escape` changes a dot at the end of a name. The text is only the beginning of a name, so a
        # character is added before the escape and removed after it.
        start = self._prefix + self._escape(f"{beginning}-")[:-1]
        page = self._page(start, delimiter, "")
        yield page
        if not page.more:
            return
        page = self._page_after(start, delimiter, page.more)
        while page.more:
            # A caller that reads the second page will probably read the third: fetch it in the meantime.
            following = Ahead(partial(self._page_after, start, delimiter, page.more))
            yield page
            page = following.result()
        yield page

    def _page_after(self, start: str, delimiter: str, marker: str) -> Page:
        """The next page; ObjectsError when the service returns the same page again, which would never end."""
        page = self._page(start, delimiter, marker)
        if page.more == marker:
            raise ObjectsError(200, "answer", "the service repeats the same page of a listing")
        return page


def _read_head(answer: HttpResponse) -> HttpResponse:
    answer.read()
    return answer


def _chunked(pieces: Iterable[bytes]) -> Iterator[Tuple[bytes, bool]]:
    """The pieces joined to blocks, each with whether it is the last. No bytes at all give one empty block."""
    size, made, held = BLOCK_BYTES, 0, bytearray()
    for piece in pieces:
        held += piece
        # `>`, not `>=`: the last block must be known as the last, and it must not be empty.
        while len(held) > size:
            yield bytes(memoryview(held)[:size]), False
            del held[:size]
            made += 1
            size = BLOCK_BYTES << (made // _DOUBLING)
    yield bytes(held), True
