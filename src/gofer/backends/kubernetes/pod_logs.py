"""The logs that Kubernetes keeps of the pods of a Job, for as long as the pods exist.

The API cannot read a log from an offset, only from a moment on. So what was read of a log is kept in a
temporary file, and the next request asks for the lines since the last one. Kubernetes rotates the log of a
container, usually at 10 MiB: lines that were rotated away between two requests are lost.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from typing import IO, Any

from gofer.backends.base import NATIVE_PIECE
from gofer.backends.kubernetes import names
from gofer.backends.kubernetes.connection import KubernetesConnection
from gofer.backends.kubernetes.shell import pods_of
from gofer.transport.kubernetes.client import KubeApiError

Json = Mapping[str, Any]

# The container of a pod that `kubectl logs` shows without being told.
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_SUFFIX = ".log"
_SECOND = len("2026-01-31T23:59:59")


class PodLogs:
    """The logs of the pods of one target's Jobs, also of those that gofer did not start. Any thread may call.

    The log of a container is called POD.CONTAINER.log. Logs that were read stay readable when their pod is
    gone, until this object is.
    """

    def __init__(self, connection: KubernetesConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._copies: dict[str, LogCopy] = {}

    def native_logs(self, job: str) -> list[str]:
        """The names of the logs of a run or Job: by node, the newest pod of a node first."""
        pods = pods_of(self._connection, job)
        # The name of a row is that of its array with a number.
        group, _, row = job.rpartition("-")
        if not pods and row.isdecimal():
            pods = self._pods_of_row(group, int(row))
        pods.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
        pods.sort(key=_index)
        return [name for pod in pods for name in _names(pod)]

    def native_size(self, job: str, name: str) -> int | None:
        """The size of what the log has now; None when there is no such log."""
        return self._refreshed(name).size

    def read_native(self, job: str, name: str, start: int) -> bytes:
        """As LogService."""
        copy = self._copy(name)
        data = copy.read(start)
        return data if len(data) == NATIVE_PIECE else self._refreshed(name).read(start)

    def _pods_of_row(self, group: str, row: int) -> list[Json]:
        pods = pods_of(self._connection, group)
        if not pods:
            return []
        job = self._connection.client.get(names.jobs_path(self._connection.namespace, group))
        nodes = int((job["metadata"].get("annotations") or {}).get(names.NODES_NOTE) or 1)
        return [pod for pod in pods if _index(pod) // nodes == row]

    def _copy(self, name: str) -> LogCopy:
        with self._lock:
            return self._copies.setdefault(name, LogCopy())

    def _refreshed(self, name: str) -> LogCopy:
        copy = self._copy(name)
        with copy.lock:
            copy.extend(self._lines(name, copy.since))
        return copy

    def _lines(self, name: str, since: str) -> Iterator[bytes]:
        """Pieces of the log with a time before each line; none when there is no log, or none yet."""
        pod, _, container = name.removesuffix(_SUFFIX).rpartition(".")
        query = {"container": container, "timestamps": "true", **({"sinceTime": since} if since else {})}
        try:
            yield from self._connection.client.log(self._connection.namespace, pod, query)
        except KubeApiError as error:
            if error.status not in (400, 404):  # 400: the container has not started
                raise


class LogCopy:
    """What was read of a log. Call `extend` with `lock` held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._stamp = b""
        self._with_stamp = 0
        self._whole = 0
        self._rest = 0

    @property
    def size(self) -> int | None:
        """None while nothing was read."""
        return None if self._file is None else self._whole + self._rest

    @property
    def since(self) -> str:
        """The moment from which to read on: the whole second of the last line; empty for the beginning."""
        stamp = self._stamp.decode("ascii", "replace")
        zone = stamp[_SECOND:].lstrip(".0123456789")
        return f"{stamp[:_SECOND]}{zone}" if stamp else ""

    def extend(self, pieces: Iterator[bytes]) -> None:
        """Keep the lines that are new. Each begins with a time; lines of one time are told apart by their
        number. A last line without an end is kept until it is read again with more.
        """
        known, known_lines = self._stamp, self._with_stamp
        held, again = b"", 0
        for piece in pieces:
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                stamp, _, text = line.partition(b" ")
                if stamp == known and again < known_lines:
                    again += 1
                elif stamp >= known:
                    self._keep(stamp, text + b"\n")
        stamp, _, text = held.partition(b" ")
        self._rest = len(text) if stamp >= self._stamp else 0
        if self._rest:
            self._write(text)

    def read(self, start: int) -> bytes:
        """NATIVE_PIECE bytes from `start`; fewer at the end."""
        if self._file is None:
            return b""
        most = min(NATIVE_PIECE, max(0, self._whole + self._rest - start))
        return os.pread(self._file.fileno(), most, start)

    def _keep(self, stamp: bytes, line: bytes) -> None:
        self._write(line)
        self._whole += len(line)
        self._with_stamp = self._with_stamp + 1 if stamp == self._stamp else 1
        self._stamp = stamp

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="gofer-log-")  # noqa: SIM115 (closed with this object)
        os.pwrite(self._file.fileno(), data, self._whole)


def _index(pod: Json) -> int:
    """The number of the pod in its Job; 0 for a Job that does not count its pods."""
    text = str((pod["metadata"].get("labels") or {}).get(names.INDEX_LABEL) or "")
    return int(text) if text.isdecimal() else 0


def _names(pod: Json) -> list[str]:
    """The names of the logs of a pod, that of its main container first."""
    name = str(pod["metadata"]["name"])
    first = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER, names.CONTAINER)
    containers = [str(one["name"]) for one in pod["spec"]["containers"]]
    containers.sort(key=lambda container: container != first)
    return [f"{name}.{container}{_SUFFIX}" for container in containers]
