"""Amazon S3, and services with the same interface."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence
from urllib.parse import unquote_plus, urlsplit
from xml.etree import ElementTree

from gofer.objects.base import ObjectService, Page
from gofer.objects.client import Client, HttpRequest
from gofer.objects.dates import parse_http_date
from gofer.objects.facts import (
    Block,
    BlockRules,
    Exists,
    ObjectInfo,
    ObjectNotFound,
    ObjectsError,
    VersionMismatch,
    parse_md5,
    parse_size,
)
from gofer.objects.link import Bytes
from gofer.objects.names import in_url, s3_name
from gofer.objects.wire import HttpResponse

_META = "x-amz-meta-"
# The metadata in which rclone stores the MD5 too: the ETag of an object uploaded in parts is not its MD5.
_MD5_NAME = "md5chksum"
_IS_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_COPY_MOST = 5 << 30
_COPY_PART = 1 << 30
_NAMESPACE = re.compile(rb'\sxmlns="[^"]*"')


class S3Objects(ObjectService):
    """The objects under `prefix` of one bucket.

    `url` ends with the bucket, unless the host names the bucket.
    """

    block_rules = BlockRules(5 << 20, 5 << 30, 10_000)

    def __init__(self, client: Client, url: str, bucket: str, prefix: str = "") -> None:
        super().__init__(client, prefix)
        self._bucket = bucket
        self.root = self._bucket_path = urlsplit(url).path.rstrip("/")

    def path(self, key: str) -> str:
        """The path of the object in a URL."""
        return self._path(key)

    def source(self, key: str) -> str:
        """The object as the value of `x-amz-copy-source`."""
        return f"/{self._bucket}/{in_url(self._name(key))}"

    def copy(self, source: str, destination: str) -> None:
        info = self.head(source)
        if info is None:
            raise ObjectNotFound(404, "NoSuchKey", "there is no such object")
        self.copy_from_source(self.source(source), info, destination)

    def copy_from_source(self, source: str, info: ObjectInfo, key: str) -> None:
        """Copy an object that the `source` of another S3Objects names, on the same service with the same
        keys.
        """
        if info.size > _COPY_MOST:
            self._copy_parts(source, info, key)
            return
        headers = {"x-amz-copy-source": source}
        self.client.call(HttpRequest("PUT", self._path(key), headers=headers, body=b""), _checked)

    def _copy_parts(self, source: str, info: ObjectInfo, key: str) -> None:
        upload = self.begin_upload(key, md5=info.md5, metadata=info.metadata)
        blocks = []
        for number, start in enumerate(range(0, info.size, _COPY_PART)):
            end = min(start + _COPY_PART, info.size)
            headers = {"x-amz-copy-source": source, "x-amz-copy-source-range": f"bytes={start}-{end - 1}"}
            query = {"partNumber": str(number + 1), "uploadId": upload}
            root = self.client.call(HttpRequest("PUT", self._path(key), query, headers, b""), _read_checked)
            blocks.append(Block(number, end - start, root.findtext("ETag") or ""))
        self.commit_blocks(key, upload, blocks)

    def make(self) -> bool:
        try:
            self.client.call(HttpRequest("PUT", self._bucket_path or "/", body=b""), HttpResponse.read)
        except ObjectsError as error:
            if error.code in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                return False
            raise
        return True

    # -- blocks

    def begin_upload(
        self, key: str, *, md5: Optional[bytes] = None, metadata: Optional[Mapping[str, str]] = None
    ) -> str:
        kept = dict(metadata or {})
        if md5:
            kept[_MD5_NAME] = base64.b64encode(md5).decode()
        headers = {"Content-Type": "application/octet-stream", **_meta(kept)}
        request = HttpRequest("POST", self._path(key), {"uploads": ""}, headers, b"")
        return self.client.call(request, _read_xml).findtext("UploadId") or ""

    def list_blocks(self, key: str, upload: str) -> Optional[List[Block]]:
        blocks: List[Block] = []
        marker = "0"
        while True:
            query = {"uploadId": upload, "part-number-marker": marker}
            try:
                page = self.client.call(HttpRequest("GET", self._path(key), query), _read_parts)
            except ObjectsError as error:
                if error.code == "NoSuchUpload":
                    return None
                raise
            blocks += page.blocks
            marker = page.marker
            if not page.is_truncated:
                return sorted(blocks)

    def put_block(self, key: str, upload: str, number: int, data: Bytes) -> Block:
        md5 = hashlib.md5(data).digest()
        headers = {"Content-MD5": base64.b64encode(md5).decode()}
        query = {"partNumber": str(number + 1), "uploadId": upload}
        answer = self.client.call(HttpRequest("PUT", self._path(key), query, headers, data), _read)
        _verify(answer, md5)
        return Block(number, len(data), answer.headers.get("etag", ""))

    def commit_blocks(
        self,
        key: str,
        upload: str,
        blocks: Sequence[Block],
        *,
        md5: Optional[bytes] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> None:
        parts = "".join(
            f"<Part><PartNumber>{block.number + 1}</PartNumber><ETag>{block.tag}</ETag></Part>"
            for block in blocks
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        request = HttpRequest("POST", self._path(key), {"uploadId": upload}, body=body)
        try:
            self.client.call(request, _checked)
        except ObjectsError as error:
            # The answer to an earlier try may have been lost after the commit: then the upload is gone and
            # the object exists.
            info = self.head(key) if error.code == "NoSuchUpload" else None
            if info is None or (info.etag or "").strip('"') != _joint_etag(blocks):
                raise

    def abort_upload(self, key: str, upload: str) -> None:
        request = HttpRequest("DELETE", self._path(key), {"uploadId": upload}, fine=(404,))
        self.client.call(request, HttpResponse.read)

    # -- the requests behind the methods

    def _escape(self, key: str) -> str:
        return s3_name(key)

    def _path(self, key: str) -> str:
        return f"{self._bucket_path}/{in_url(self._name(key))}"

    def _write(
        self, key: str, data: Bytes, condition: Mapping[str, str], md5: bytes, metadata: Mapping[str, str]
    ) -> None:
        headers = {
            "Content-MD5": base64.b64encode(md5).decode(),
            "Content-Type": "application/octet-stream",
            **_meta(metadata),
            **condition,
        }
        try:
            answer = self.client.call(HttpRequest("PUT", self._path(key), {}, headers, data), _read)
        except VersionMismatch as error:
            if "If-Match" in condition:
                raise
            raise Exists(error.status, error.code, error.words) from None
        _verify(answer, md5)

    def _info(self, key: str, answer: HttpResponse) -> ObjectInfo:
        headers = answer.headers
        metadata = {name[len(_META) :]: value for name, value in headers.items() if name.startswith(_META)}
        md5, etag = metadata.pop(_MD5_NAME, ""), headers.get("etag", "")
        return ObjectInfo(
            key,
            parse_size(headers.get("content-length")),
            parse_http_date(headers.get("last-modified", "")),
            parse_md5(md5) or _answer_md5(answer),
            etag or None,
            metadata,
        )

    def _page(self, beginning: str, delimiter: str, marker: str) -> Page:
        # URL-encoded, because XML 1.0 cannot contain every character that a key may have.
        query = {"list-type": "2", "encoding-type": "url"}
        parameters = {"prefix": beginning, "delimiter": delimiter, "continuation-token": marker}
        query.update({name: value for name, value in parameters.items() if value})
        request = HttpRequest("GET", self._bucket_path or "/", query)
        return self.client.call(request, lambda answer: self._read_page(answer, beginning))

    def _read_page(self, answer: HttpResponse, beginning: str) -> Page:
        root = _read_xml(answer)
        if root.tag != "ListBucketResult":
            raise ValueError(f"<{root.tag}> is not a listing")
        is_encoded = root.findtext("EncodingType") == "url"
        objects = [self._listed(node, is_encoded) for node in root.iter("Contents")]
        names = [_name(node, "Prefix", is_encoded) for node in root.iter("CommonPrefixes")]
        folders = [self._key(self._prefix + name[len(beginning) : -1]) for name in names]
        more = root.findtext("NextContinuationToken") if root.findtext("IsTruncated") == "true" else ""
        return Page(objects, folders, more or "")

    def _listed(self, node: ElementTree.Element, is_encoded: bool) -> ObjectInfo:
        etag = node.findtext("ETag") or ""
        return ObjectInfo(
            self._key(_name(node, "Key", is_encoded)),
            parse_size(node.findtext("Size")),
            _parse_time(node.findtext("LastModified") or ""),
            _etag_md5(etag),
            etag or None,
        )

    def _delete(self, key: str) -> bool:
        """Remove the object. Asks for it first, because S3 gives the same answer for absent objects."""
        if self.head(key) is None:
            return False
        self.client.call(HttpRequest("DELETE", self._path(key)), HttpResponse.read)
        return True


def _read(answer: HttpResponse) -> HttpResponse:
    answer.read()
    return answer


def _checked(answer: HttpResponse) -> bytes:
    """The body of an answer that may hold an error: S3 can send status 200 before the work is done."""
    text = answer.read()
    if b"<Error>" in text:
        root = _xml(text)
        code = root.findtext("Code") or ""
        raise ObjectsError(500, code, f"the service answered {code}")
    return text


def _read_xml(answer: HttpResponse) -> ElementTree.Element:
    return _xml(answer.read())


def _read_checked(answer: HttpResponse) -> ElementTree.Element:
    return _xml(_checked(answer))


class _Parts(NamedTuple):
    blocks: List[Block]
    marker: str
    is_truncated: bool


def _read_parts(answer: HttpResponse) -> _Parts:
    root = _read_xml(answer)
    blocks = [_block(node) for node in root.iter("Part")]
    marker = root.findtext("NextPartNumberMarker") or ""
    return _Parts(blocks, marker, root.findtext("IsTruncated") == "true")


def _xml(text: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(_NAMESPACE.sub(b"", text, count=1))


def _meta(metadata: Mapping[str, str]) -> Dict[str, str]:
    return {f"{_META}{name}": value for name, value in metadata.items()}


def _name(node: ElementTree.Element, tag: str, is_encoded: bool) -> str:
    text = node.findtext(tag) or ""
    return unquote_plus(text) if is_encoded else text


def _block(node: ElementTree.Element) -> Block:
    number, size = parse_size(node.findtext("PartNumber")), parse_size(node.findtext("Size"))
    return Block(number - 1, size, node.findtext("ETag") or "")


def _etag_md5(etag: str) -> Optional[bytes]:
    found = _IS_MD5.fullmatch(etag)
    return bytes.fromhex(found[1]) if found else None


def _answer_md5(answer: HttpResponse) -> Optional[bytes]:
    """The MD5 in an answer. The ETag is not an MD5 where the service encrypts with a separate key."""
    if answer.headers.get("x-amz-server-side-encryption", "AES256") != "AES256":
        return None
    if "x-amz-server-side-encryption-customer-algorithm" in answer.headers:
        return None
    return _etag_md5(answer.headers.get("etag", ""))


def _verify(answer: HttpResponse, md5: bytes) -> None:
    """Compare the MD5. Some services ignore Content-MD5, but all of them report what they have stored."""
    if _answer_md5(answer) not in (None, md5):
        raise ObjectsError(0, "md5", "the service has stored other bytes than were sent")


def _joint_etag(blocks: Sequence[Block]) -> str:
    joined = b"".join(_etag_md5(block.tag) or b"" for block in blocks)
    return f"{hashlib.md5(joined).hexdigest()}-{len(blocks)}"


def _parse_time(text: str) -> float:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
