"""The local backend passes the suite that is shipped for every backend."""

from __future__ import annotations

import pytest
from home import Home

from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance


class TestLocal(BackendConformance):
    column = "local"
    target = "here"
    gpus_per_node = 4
    timeout_s = 200.0
    home: Home

    @pytest.fixture(autouse=True)
    def _home(self, home: Home) -> None:
        self.home = home
        home.configure("targets: {here: {kind: local, gpus: 8, gpus_per_node: 4}}")

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)
