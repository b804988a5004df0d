"""Azure Blob Storage, and services with the same interface."""

from __future__ import annotations

import base64
import os
import re
import time
from typing import TYPE_CHECKING, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple
from urllib.parse import unquote, urlsplit

from gofer.core.json_text import parse_count
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

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


_META = "x-ms-meta-"
_COPY_POLL_S = (0.05, 0.2, 0.5, 1.0, 2.0)
# Few tries for requests that have an alternative: a service that cannot reach the source of a copy may answer
# with a server error, and retries would only delay the other way.
_BRIEFLY = Policy(tries=3, first_s=0.2, most_s=1.0, patience_s=20.0)
_TOKEN_BYTES = 9
# The tags in the order in which the services write them. A page with another order goes to the parser.
_BLOB = re.compile(
    r"<Name>([^<]*)</Name>.*?<Last-Modified>([^<]*)<.*?<Etag>([^<]*)<.*?<Content-Length>([0-9]+)<"
    r"(?:.*?<Content-MD5>([^<]*)<)?",
    re.DOTALL,
)
_FIELD = re.compile(r"<([^<>/]+)>([^<]*)</")
_PREFIX = re.compile(r"<BlobPrefix>\s*<Name>([^<]*)</Name>")
_MARKER = re.compile(r"<NextMarker>([^<]*)<")
# Comments and similar, numeric characters, line ends that a parser would change, and encoded names.
_NOT_PLAIN = re.compile(r"<!|&#|\r|Encoded=")
_ENTITIES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))


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


class Listed(NamedTuple):
    """A blob of a listing; `modified` is in the service's format."""

    name: str
    size: int
    modified: str
    md5: Optional[bytes]
    etag: str
    metadata: Dict[str, str]


class BlobListing(NamedTuple):
    """The blobs, the names of folders with a slash, and the marker of the next page."""

    blobs: List[Listed]
    folders: List[str]
    marker: str


def read_listing(data: bytes) -> BlobListing:
    """Parse a page. Raises ValueError or xml.etree.ElementTree.ParseError for other data."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _parse(data)
    found = None if _NOT_PLAIN.search(text) else _read_plain(text)
    return found or _parse(data)


def _read_plain(text: str) -> Optional[BlobListing]:
    """Parse with regular expressions; None for a page that needs the parser."""
    pieces = text.split("<Blob>")
    blobs = []
    for piece in pieces[1:]:
        found = _BLOB.match(piece)
        words = _metadata(piece, found.end()) if found else None
        if found is None or words is None:
            return None
        name, modified, etag, size, md5 = found.groups()
        known = (parse_size(size), modified, parse_md5(md5), _quoted(_text(etag)), words)
        blobs.append(Listed(_text(name), *known))
    folders = [_text(name) for name in _PREFIX.findall(text)] if "<BlobPrefix>" in text else []
    marker = _MARKER.search(pieces[-1])
    # A page that is cut short, or with blobs that the expressions did not find, must go to the parser.
    if text.count("</Blob>") != len(blobs) or "</EnumerationResults>" not in pieces[-1]:
        return None
    return BlobListing(blobs, folders, _text(marker[1]) if marker else "")


def _metadata(piece: str, start: int) -> Optional[Dict[str, str]]:
    at = piece.find("<Metadata>", start)
    if at < 0:
        return {}
    section = piece[at + 10 : piece.find("</Metadata>", at)]
    if "/>" in section:  # a field without a value
        return None
    return {name.lower(): _text(value) for name, value in _FIELD.findall(section)}


def _text(found: str) -> str:
    if "&" in found:
        for entity, letter in _ENTITIES:
            found = found.replace(entity, letter)
    return found


def _quoted(etag: str) -> str:
    return etag if etag[:1] == '"' else f'"{etag}"'


def _parse(data: bytes) -> BlobListing:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(data)
    if root.tag != "EnumerationResults":
        raise ValueError(f"<{root.tag}> is not a listing")
    blobs = [_listed(node) for node in root.iter("Blob")]
    folders = [_name(node) for node in root.iter("BlobPrefix")]
    return BlobListing(blobs, folders, root.findtext("NextMarker") or "")


def _listed(node: Element) -> Listed:
    facts = _fields(node, "Properties")
    words = {word.lower(): value for word, value in _fields(node, "Metadata").items()}
    size, modified = parse_size(facts.get("Content-Length")), facts.get("Last-Modified", "")
    etag = _quoted(facts.get("Etag", ""))
    return Listed(_name(node), size, modified, parse_md5(facts.get("Content-MD5")), etag, words)


def _name(node: Element) -> str:
    """The blob's name. Names that XML cannot represent are percent-encoded."""
    found = node.find("Name")
    if found is None:
        return ""
    text = found.text or ""
    return unquote(text) if found.get("Encoded") == "true" else text


def _fields(node: Element, tag: str) -> Dict[str, str]:
    found = node.find(tag)
    return {} if found is None else {child.tag: child.text or "" for child in found}
