"""Reads objects: whole, in ranges, into a buffer, and as streams that continue after a lost connection."""

from __future__ import annotations

import threading
import time
from typing import Callable, Generic, Iterator, List, Optional, Tuple, TypeVar

from gofer.objects.client import Client, HttpRequest
from gofer.objects.facts import ObjectInfo, ObjectNotFound, ObjectsError
from gofer.objects.wire import HttpResponse

T = TypeVar("T")

_RESUMES = 8


class Ahead(Generic[T]):
    """Starts at once. A caller may drop it: its daemon thread ends with the work or with the program."""

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._done: List[T] = []
        self._raised: List[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="gofer-ahead", daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for the result, or raise what the function raised."""
        self._thread.join()
        if self._raised:
            raise self._raised[0]
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._act())
        except BaseException as error:  # `result` raises it in the caller's thread
            self._raised.append(error)


class ObjectReader:
    """The methods that read. Each service defines how a key becomes a path, and what HEAD returns."""

    client: Client

    def head(self, key: str) -> Optional[ObjectInfo]:
        raise NotImplementedError

    def _path(self, key: str) -> str:
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        return self.client.call(self._read(key), HttpResponse.read)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """As gofer.storage.base.Store.get_range."""
        if start < 0 or length == 0:
            info = self.head(key)
            if info is None:
                raise ObjectNotFound(404, "", "there is no such object")
            start = max(info.size + start, 0) if start < 0 else start
            if length == 0 or start >= info.size:
                return b""
        answer, data = self.client.call(self._read(key, start, start + length), _with_body)
        if answer.status == 416:
            return b""
        return data[start : start + length] if answer.status == 200 else data

    def read_into(self, key: str, start: int, buffer: memoryview, *, etag: Optional[str] = None) -> int:
        """As gofer.storage.base.ReadsInto.read_into."""
        request = self._read(key, start, start + len(buffer), etag)

        def fill(answer: HttpResponse) -> int:
            if answer.status == 416:
                answer.read()
                return 0
            if answer.status == 200 and start:
                answer.close()
                raise ObjectsError(200, "answer", "the service ignores the range of a request")
            return answer.read_into(buffer)

        return self.client.call(request, fill)

    def get_stream(self, key: str, start: int = 0, length: Optional[int] = None) -> Iterator[bytes]:
        """As gofer.storage.base.Streams.get_stream."""
        end = None if length is None else start + length
        answer = self._answer(key, start, end, None)
        return self._pieces(key, answer, start, end)

    def _read(
        self, key: str, start: int = 0, end: Optional[int] = None, etag: Optional[str] = None
    ) -> HttpRequest:
        headers = {"If-Match": etag} if etag else {}
        if start or end is not None:
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        return HttpRequest("GET", self._path(key), headers=headers, fine=(416,))

    def _answer(self, key: str, start: int, end: Optional[int], etag: Optional[str]) -> HttpResponse:
        return self.client.call(self._read(key, start, end, etag), _ranged(start))

    def _pieces(self, key: str, answer: HttpResponse, at: int, end: Optional[int]) -> Iterator[bytes]:
        if answer.status == 416:
            answer.close()
            return
        # The ETag makes a resumed request fail when the object has been replaced meanwhile.
        etag, stalled = answer.headers.get("etag"), 0
        try:
            while True:
                try:
                    for piece in answer.pieces():
                        at += len(piece)
                        stalled = 0
                        yield piece
                    return
                except OSError as error:
                    stalled += 1
                    if stalled > _RESUMES:
                        raise ObjectsError(0, "connection", f"the connection broke at byte {at}") from error
                # Not core.retry: the next try continues after the pieces that arrived, with a new count.
                time.sleep(0.1 * 2**stalled)
                answer = self._answer(key, at, end, etag)
        finally:
            answer.close()


def _with_body(answer: HttpResponse) -> Tuple[HttpResponse, bytes]:
    return answer, answer.read()


def _ranged(start: int) -> Callable[[HttpResponse], HttpResponse]:
    def check(answer: HttpResponse) -> HttpResponse:
        if answer.status == 200 and start:
            answer.close()
            raise ObjectsError(200, "answer", "the service ignores the range of a request")
        return answer

    return check
