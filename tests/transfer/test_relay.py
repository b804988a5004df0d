"""From store to store when one's service cannot fetch from the other: the bytes go through here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from home import Home
from services.azurite import Account, azurite
from services.certificates import make_certificates

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("relay")]

FILES = {f"voc/{number}": b"content %d " % number * 100 for number in range(40)}


class Side(NamedTuple):
    """A container of an account."""

    account: Account
    container: str

    def entry(self, name: str) -> str:
        one = self.account
        return (
            f'  {name}: {{url: az://{self.container}/me, account: {one.name}, endpoint: "{one.endpoint}", '
            f'key: "${{env:KEY_OF_{name.upper()}}}"}}\n'
        )


@pytest.fixture(params=["the same server", "another server"])
def sides(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Side, Side]]:
    """A source behind TLS that the destination's server does not trust, or does not know."""
    (tmp_path / "tls").mkdir()
    made = make_certificates(tmp_path / "tls")
    with azurite(tmp_path / "a", made) as far, azurite(tmp_path / "b") as other:
        monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(made.authority))
        near = (far if request.param == "the same server" else other).two
        yield Side(far.one, far.one.new_container()), Side(near, near.new_container())


def test_what_a_service_cannot_fetch_goes_through_here(tmp_path: Path, sides: tuple[Side, Side]) -> None:
    far, near = sides
    source = far.account.client().get_container_client(far.container)
    for name, data in FILES.items():
        source.upload_blob(f"me/data/{name}", data)
    home = Home(tmp_path / "person")
    home.environ |= {"KEY_OF_FAR": far.account.key, "KEY_OF_NEAR": near.account.key}
    home.configure(
        f"stores:\n{far.entry('far')}{near.entry('near')}folders: {{data: {{path: data}}}}\n"
        "targets:\n  we: {kind: local, store: far}\n  eu: {kind: local, store: near}\n"
    )
    done = home.gofer("-c", "eu", "-f", "we", "u", "data/voc")
    assert f"{len(FILES)} files" in done.err
    there = near.account.client().get_container_client(near.container)
    names = list(there.list_blob_names())
    assert {name: there.download_blob(f"me/data/{name}").readall() for name in FILES} == FILES
    assert len(names) == len(FILES)
    home.close()
