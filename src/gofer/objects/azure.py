"""Azure Blob Storage, and services with the same interface."""

from __future__ import annotations

import base64
import os
import time
from typing import Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from gofer.core.numerals import parse_count
from gofer.objects.azure_list import BlobListing, read_listing
from gofer.objects.base import ObjectService, Page
from gofer.objects.client import Client, HttpRequest
from gofer.objects.dates import parse_http_date
from gofer.objects.facts import (
    Block,
    BlockRules,
    Exists,
    NotCopied,
    ObjectInfo,
    ObjectNotFound,
    ObjectsError,
    VersionMismatch,
    parse_md5,
    parse_size,
)
from gofer.objects.link import Bytes
from gofer.objects.names import azure_name, in_url, key_of
from gofer.objects.retry_policy import Policy
from gofer.objects.wire import HttpResponse

_META = "x-ms-meta-"
_COPY_POLL_S = (0.05, 0.2, 0.5, 1.0, 2.0)
# Few tries for requests that have an alternative: a service that cannot reach the source of a copy may answer
# with a server error, and retries would only delay the other way.
_BRIEFLY = Policy(tries=3, first_s=0.2, most_s=1.0, patience_s=20.0)
_TOKEN_BYTES = 9


class AzureObjects(ObjectService):
    """The blobs under `prefix` of one container; `endpoint` is the address of the account."""

    block_rules = BlockRules(1, 4000 << 20, 50_000)
    # A copy between accounts can be slow. It fails only when it makes no progress for this long.
    copy_stall_s = 120.0

    def __init__(self, client: Client, endpoint: str, container: str, prefix: str = "") -> None:
        super().__init__(client, prefix)
        self._container_path = f"{urlsplit(endpoint).path.rstrip('/')}/{container}"
        self._container_url = f"{endpoint.rstrip('/')}/{container}"

    def url(self, key: str) -> str:
        """The address of the blob, without any credential."""
        return f"{self._container_url}/{in_url(self._name(key))}"

    def name(self, key: str) -> str:
        """The blob's name in its container."""
        return self._name(key)

    def copy(self, source: str, destination: str) -> None:
        target, _ = self.client.signer.sign(HttpRequest("GET", self._path(source)))
        self._copy(self._container_url[: -len(self._container_path)] + target, destination, None)

    def copy_from_url(self, url: str, key: str) -> None:
        """Let the service fetch the blob at `url`, which may be signed. Blocks until the copy is complete.

        ObjectNotFound when the service finds no blob there, or cannot reach it. NotCopied when the service
        fails to fetch the blob or makes no progress; no part of the blob is left then.
        """
        try:
            self._copy(url, key, _BRIEFLY)
        except ObjectsError as error:
            if error.status >= 500 or error.code in ("connection", "timeout"):
                raise NotCopied(error.status, error.code, error.words, error.detail) from None
            raise

    def _copy(self, url: str, key: str, policy: Optional[Policy]) -> None:
        request = HttpRequest("PUT", self._path(key), headers={"x-ms-copy-source": url}, body=b"")
        try:
            answer = self.client.call(request, _read, policy=policy)
        except ObjectsError as error:
            if error.code in ("CannotVerifyCopySource", "BlobNotFound") and error.status == 404:
                raise ObjectNotFound(404, error.code, "there is no such object") from None
            raise
        if answer.headers.get("x-ms-copy-status", "success") == "pending":
            self._await_copy(key, answer.headers.get("x-ms-copy-id", ""))

    def _await_copy(self, key: str, copy: str) -> None:
        moved, since, polls = "", time.monotonic(), 0
        while True:
            headers = self.client.call(HttpRequest("HEAD", self._path(key)), _read).headers
            status = headers.get("x-ms-copy-status", "")
            # The id tells this copy from a later one of another writer.
            if status == "success" and headers.get("x-ms-copy-id", copy) == copy:
                return
            if status != "pending":
                detail = headers.get("x-ms-copy-status-description", "")
                raise NotCopied(0, "copy", f"the copy is {status or 'gone'}", detail)
            if headers.get("x-ms-copy-progress", "") != moved:
                moved, since = headers.get("x-ms-copy-progress", ""), time.monotonic()
            if time.monotonic() - since > self.copy_stall_s:
                self._abort_copy(key, copy)
                raise NotCopied(0, "copy", f"the copy has not moved for {self.copy_stall_s:.0f} s")
            time.sleep(_COPY_POLL_S[min(polls, len(_COPY_POLL_S) - 1)])
            polls += 1

    def _abort_copy(self, key: str, copy: str) -> None:
        """Abort a pending copy, because nobody else can write the blob while the copy is pending."""
        query = {"comp": "copy", "copyid": copy}
        headers = {"x-ms-copy-action": "abort"}
        request = HttpRequest("PUT", self._path(key), query, headers=headers, body=b"")
        try:
            self.client.call(request, _read, policy=_BRIEFLY)
        except ObjectsError:
            return  # the copy may have ended meanwhile

    def make(self) -> bool:
        query = {"restype": "container"}
        try:
            self.client.call(HttpRequest("PUT", self._container_path, query, body=b""), _read)
        except ObjectsError as error:
            if error.code == "ContainerAlreadyExists":
                return False
            raise
        return True

    # -- blocks

    def begin_upload(
        self, key: str, *, md5: Optional[bytes] = None, metadata: Optional[Mapping[str, str]] = None
    ) -> str:
        """Start an upload. Does no I/O: the id of an upload is the prefix of the names of its blocks."""
        return base64.urlsafe_b64encode(os.urandom(_TOKEN_BYTES)).decode()

    def list_blocks(self, key: str, upload: str) -> Optional[List[Block]]:
        query = {"comp": "blocklist", "blocklisttype": "uncommitted"}
        try:
            names = self.client.call(HttpRequest("GET", self._path(key), query), _read_blocks)
        except ObjectNotFound:
            return None
        found = [_block(name, size, upload) for name, size in names]
        return sorted(block for block in found if block) or None

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        block = Block(number, len(data), _block_id(upload, number))
        query = {"comp": "block", "blockid": block.tag}
        # Without a hash where TLS or the local machine already protects the bytes: hashing costs CPU time.
        headers = {} if self.client.is_guarded else {"Content-MD5": _md5(data)}
        self.client.call(HttpRequest("PUT", self._path(key), query, headers, data), _read)
        return block

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        names = "".join(f"<Uncommitted>{block.tag}</Uncommitted>" for block in blocks)
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{names}</BlockList>'.encode()
        headers = {"x-ms-blob-content-type": "application/octet-stream", **_meta(metadata)}
        if md5:
            headers["x-ms-blob-content-md5"] = base64.b64encode(md5).decode()
        request = HttpRequest("PUT", self._path(key), {"comp": "blocklist"}, headers, body)
        try:
            self.client.call(request, _read)
        except ObjectsError as error:
            # The answer to an earlier try may have been lost after the commit, which uses up the blocks.
            if error.code != "InvalidBlockList" or not self._is_committed(key, blocks):
                raise

    def _is_committed(self, key: str, blocks: Sequence[Block]) -> bool:
        query = {"comp": "blocklist", "blocklisttype": "committed"}
        names = self.client.call(HttpRequest("GET", self._path(key), query), _read_blocks)
        return [name for name, _ in names] == [block.tag for block in blocks]

    def abort_upload(self, key: str, upload: str) -> None:
        """Does nothing: Azure has no such request, and removes blocks that are not committed after a week."""

    # -- the requests behind the methods

    def _escape(self, key: str) -> str:
        return azure_name(key)

    def _path(self, key: str) -> str:
        return f"{self._container_path}/{in_url(self._name(key))}"

    def _write(
        self, key: str, data: Bytes, condition: Mapping[str, str], md5: bytes, metadata: Mapping[str, str]
    ) -> None:
        headers = {
            "Content-MD5": base64.b64encode(md5).decode(),
            "Content-Type": "application/octet-stream",
            "x-ms-blob-type": "BlockBlob",
            **_meta(metadata),
            **condition,
        }
        try:
            self.client.call(HttpRequest("PUT", self._path(key), {}, headers, data), _read)
        except VersionMismatch as error:
            if "If-Match" in condition:
                raise
            raise Exists(error.status, error.code, error.words) from None

    def _info(self, key: str, answer: HttpResponse) -> ObjectInfo:
        headers = answer.headers
        return ObjectInfo(
            key,
            parse_size(headers.get("content-length")),
            parse_http_date(headers.get("last-modified", "")),
            parse_md5(headers.get("content-md5")),
            headers.get("etag"),
            {name[len(_META) :]: value for name, value in headers.items() if name.startswith(_META)},
        )

    def _page(self, beginning: str, delimiter: str, marker: str) -> Page:
        # With metadata, because a comparison needs the time and mode that uploads record there.
        query = {"restype": "container", "comp": "list", "include": "metadata"}
        parameters = {"prefix": beginning, "delimiter": delimiter, "marker": marker}
        query.update({name: value for name, value in parameters.items() if value})
        page = self.client.call(HttpRequest("GET", self._container_path, query), _read_listing)
        skip, key = len(self._prefix), key_of
        objects = [
            ObjectInfo(key(name[skip:]), size, parse_http_date(modified), md5, etag, words)
            for name, size, modified, md5, etag, words in page.blobs
        ]
        folders = [self._key(self._prefix + name[len(beginning) : -1]) for name in page.folders]
        return Page(objects, folders, page.marker)

    def _delete(self, key: str) -> bool:
        # Without this header, a blob with snapshots cannot be deleted.
        headers = {"x-ms-delete-snapshots": "include"}
        try:
            self.client.call(HttpRequest("DELETE", self._path(key), headers=headers), _read)
        except ObjectNotFound:
            return False
        return True


def _read(answer: HttpResponse) -> HttpResponse:
    answer.read()
    return answer


def _read_listing(answer: HttpResponse) -> BlobListing:
    return read_listing(answer.read())


def _read_blocks(answer: HttpResponse) -> List[Tuple[str, int]]:
    return _block_names(answer.read())


def _md5(data: Bytes) -> str:
    import hashlib

    return base64.b64encode(hashlib.md5(data).digest()).decode()


def _meta(metadata: Optional[Mapping[str, str]]) -> Dict[str, str]:
    return {f"{_META}{name}": value for name, value in (metadata or {}).items()}


def _block_id(upload: str, number: int) -> str:
    """The name of a block. The service requires names of equal length."""
    return base64.b64encode(f"{upload}{number:06d}".encode()).decode()


def _block_names(text: bytes) -> List[Tuple[str, int]]:
    """Names and sizes from a block list."""
    from xml.etree import ElementTree

    nodes = ElementTree.fromstring(text).iter("Block")
    return [(node.findtext("Name") or "", parse_size(node.findtext("Size"))) for node in nodes]


def _block(tag: str, size: int, upload: str) -> Optional[Block]:
    try:
        name = base64.b64decode(tag).decode()
    except ValueError:  # a block of another program
        return None
    number = parse_count(name[len(upload) :]) if name.startswith(upload) else None
    return None if number is None else Block(number, size, tag)
