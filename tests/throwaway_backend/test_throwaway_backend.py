"""A backend outside gofer passes the suite for backends, and needs no change in gofer."""

from __future__ import annotations

from pathlib import Path

import pytest
from home import Home

from gofer.backends import registry
from gofer.ops.session import Session
from gofer.testing.backend_conformance import BackendConformance


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder with `plain-1.0.dist-info` is on the path, as if the package were installed."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


class TestPlain(BackendConformance):
    smoke = True
    target = "here"
    timeout_s = 200.0
    home: Home

    @pytest.fixture(autouse=True)
    def _home(self, home: Home) -> None:
        self.home = home
        home.configure("targets: {here: {kind: plain}}")

    def open(self) -> Session:
        return Session(self.home.folder, self.home.environ, emit=lambda _: None)


def test_the_entry_point_makes_the_kind_known() -> None:
    assert "plain" in registry.Kinds()
    assert not registry.runs_here("plain")
