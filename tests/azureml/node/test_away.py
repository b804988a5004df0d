"""A store that is unreachable for a while: the run continues, and its end is uploaded later."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from azureml.node.service import Service, until
from services.proxy import Fault, proxied

pytestmark = pytest.mark.xdist_group("azure-away")


class CuttableProxy:
    """A way to the store that can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.is_cut = False
        self._open: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._door.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        self.is_cut = True
        for one in self._open:
            _shut(one)
        self._open.clear()

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self._door.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._door.accept()
            except OSError:
                return
            if self.is_cut:
                _shut(near)
                continue
            far = socket.create_connection(("127.0.0.1", self._to))
            self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=_pump, args=(one, other), daemon=True).start()


def _pump(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    _shut(one)
    _shut(other)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@pytest.fixture
def line(azurite: Any) -> Iterator[CuttableProxy]:
    one = CuttableProxy(azurite.port)
    yield one
    one.close()


def spec(service: Service, line: CuttableProxy) -> dict[str, Any]:
    return {**service.spec, "endpoint": f"http://127.0.0.1:{line.port}/{service.account.name}"}


def test_away_while_it_runs_and_when_it_ends(service: Service, line: CuttableProxy) -> None:
    script = "echo up; while test ! -e $GOFER_OUTPUT_DIR/../../../go; do sleep 0.1; done; echo done"
    job = service.job(["sh", "-c", script], spec=spec(service, line))
    job.start()
    until(lambda: job.log() == "up\n", "the rank is up")
    line.cut()
    (spool,) = (job.room.parent / "node-0").glob("gofer-*/*/*/spool")
    (spool / "go").touch()
    until(lambda: "attempt 1: succeeded" in job.output(what="err"), "the attempt has ended")
    assert job.started[0].poll() is None
    line.mend()
    (done,) = job.wait()
    assert done.status == 0, done.err
    assert (job.log(), job.end()["state"]) == ("up\ndone\n", "succeeded")


def test_away_when_it_starts(service: Service, line: CuttableProxy) -> None:
    line.cut()
    job = service.job(["sh", "-c", "echo up"], spec=spec(service, line))
    job.start()
    until(lambda: "trying again" in job.output(what="err"), "it waits")
    line.mend()
    (done,) = job.wait()
    assert (done.status, job.log()) == (0, "up\n"), done.err


@pytest.mark.slow
def test_away_while_two_nodes_run(service: Service, line: CuttableProxy) -> None:
    """Nobody is missed while the store itself is."""
    script = "echo up; while test ! -e $GOFER_OUTPUT_DIR/../../../go; do sleep 0.1; done; echo done"
    job = service.job(["sh", "-c", script], nodes=2, spec=spec(service, line))
    job.start()
    until(lambda: job.log() == "up\n" and job.log(rank=1, node=1) == "up\n", "both ranks are up")
    line.cut()
    for node in (0, 1):
        (spool,) = (job.room.parent / f"node-{node}").glob("gofer-*/*/*/spool")
        (spool / "go").touch()
    until(lambda: all("trying again" in job.output(node, "err") for node in (0, 1)), "both wait")
    line.mend()
    assert [one.status for one in job.wait()] == [0, 0], job.output(0, "err") + job.output(1, "err")
    assert job.end()["state"] == "succeeded"


def test_a_store_that_refuses_the_sas_of_the_run(service: Service) -> None:
    job = service.job(["true"], spec={**service.spec, "sas": "sv=2022-11-02&sp=r&sr=c&sig=bm90aGluZw%3D%3D"})
    (done,) = job.run()
    assert done.status == 1
    assert "the store of the run cannot be used" in done.err
    assert "bm90aGluZw" not in done.err + done.out


def test_an_output_that_is_long_on_its_way_keeps_no_word_waiting(service: Service, azurite: Any) -> None:
    """Neither the log nor, when the service wants the node back, how it ends."""
    script = "echo x > $GOFER_OUTPUT_DIR/big; echo up; while test ! -e $GOFER_OUTPUT_DIR/../../../go; do "
    script += "sleep 0.1; done; echo more; sleep 300"
    with proxied(azurite.port) as proxy:
        proxy.faults = lambda request: Fault("stall") if "outputs/big" in request.path else None
        endpoint = f"http://127.0.0.1:{proxy.port}/{service.account.name}"
        job = service.job(["sh", "-c", script], sync=["*"], spec={**service.spec, "endpoint": endpoint})
        job.start()
        until(lambda: proxy.injected, "the output is on its way")
        (spool,) = (job.room.parent / "node-0").glob("gofer-*/*/*/spool")
        (spool / "go").touch()
        until(lambda: job.log() == "up\nmore\n", "the log continues")
        job.terminate()
        until(lambda: job.has("attempts/1/node-0/exit.json"), "how it ends")
        assert not job.has("outputs/big")
        job.kill()
