"""No key, SAS, signature or signed address shows in what gofer says, whatever fails."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from home import Home
from services.azurite import Azurite
from services.moto import Moto
from services.process import free_port
from services.proxy import Fault, Proxy, proxied
from storage.clouds import azure_by_key, azure_by_sas

from gofer.config.secrets import Secrets
from gofer.config.stores import StoreOptions
from gofer.errors import GoferError
from gofer.objects.azure_auth import sas_fields
from gofer.storage.base import Store
from gofer.storage.open import open_store

SIGNATURE = re.compile(r"sig=(?!\*\*\*)|Signature=|Bearer |SharedKey [^ ]*:", re.IGNORECASE)
SECRET_KEY = "dummyS3canary/secret+key0123456789"


def forms(secret: str) -> set[str]:
    return {secret, quote(secret), quote(secret, safe=""), unquote(secret)}


class Canaries:
    """What must not be seen."""

    def __init__(self, *secrets: str) -> None:
        self._forms = {form for secret in secrets for form in forms(secret)}
        self._forms |= {
            form for secret in secrets if "sig=" in secret for form in forms(sas_fields(secret)["sig"])
        }

    def check(self, text: str) -> None:
        found = [form for form in self._forms if form in text]
        assert not found, f"{found} in: {text}"
        assert not SIGNATURE.search(text), text


@pytest.fixture
def spoilt(azurite: Azurite) -> Iterator[Proxy]:
    with proxied(azurite.port) as proxy:
        yield proxy


COMMANDS = [
    ("store", "list"),
    ("store", "show", "bysas"),
    ("store", "check"),
    ("store", "check", "--json"),
    ("config", "show"),
    ("doctor",),
    ("ls", "bysas:x"),
    ("cat", "bysas:x/absent"),
    ("cat", "bykey:x/absent"),
    ("du", "ended:x"),
    ("upload", "data"),
    ("download", "data/absent"),
    ("cp", "bysas:x/f", "bykey:x/f"),
    ("cp", "bysas:x/f", "ended:x/f"),
    ("cp", "gofer.yaml", "nowhere:x"),
    ("sync", "data", "ended:data"),
    ("rm", "--yes", "ended:x/f"),
    ("url", "ended:x/f"),
    ("cat", "bysas:x/f?sig=typed"),
    ("ls", "s3:x"),
]


def prepare(home: Home, azurite: Azurite, moto: Moto) -> Canaries:
    one, container = azurite.one, azurite.one.new_container()
    azure_by_key(one, container).put("x/f", b"data")
    sas, ended = one.container_sas(container), one.container_sas(container, hours=-1)
    secrets = Secrets(home.path / "secrets.json")
    for name, value in {"sas": f"?{sas}", "ended": ended, "wrong": azurite.two.key}.items():
        secrets.set(name, value)
    at = f"account: {one.name}, endpoint: '{one.endpoint}'"
    home.configure(f"""
        stores:
          bysas: {{url: az://{container}, {at}, sas: "${{secret:sas}}"}}
          ended: {{url: az://{container}/e, {at}, sas: "${{secret:ended}}"}}
          bykey: {{url: az://{container}/k, {at}, key: "${{secret:wrong}}"}}
          nowhere: {{url: az://data, account: {one.name}, endpoint: "http://127.0.0.1:{free_port()}",
                     key: "${{env:ACCT_KEY}}"}}
          s3: {{url: s3://no-such-bucket, endpoint: "{moto.endpoint}", access_key: dummy-id,
                secret_key: "${{env:S3_SECRET}}"}}
        folders:
          data: {{store: ended, path: me/data}}
    """)
    (home.folder / "data").mkdir()
    (home.folder / "data/file").write_text("data")
    home.environ.update(ACCT_KEY=one.key, S3_SECRET=SECRET_KEY, GOFER_DEBUG="1")
    return Canaries(sas, ended, one.key, azurite.two.key, SECRET_KEY)


def test_commands_that_fail_in_every_way(home: Home, azurite: Azurite, moto: Moto) -> None:
    canaries = prepare(home, azurite, moto)
    failed = 0
    for words in COMMANDS:
        argv = home.argv(*words)
        done = subprocess.run(
            argv, cwd=home.folder, env=home.environ, capture_output=True, timeout=100, check=False
        )
        failed += done.returncode != 0
        canaries.check((done.stdout + done.stderr).decode())
    assert failed > len(COMMANDS) // 2


def test_a_signed_address_is_shown_only_on_request(home: Home, azurite: Azurite, moto: Moto) -> None:
    canaries = prepare(home, azurite, moto)
    home.environ.pop("GOFER_DEBUG")
    done = home.gofer("url", "bysas:x/f")
    assert "sig=" in done.out
    canaries.check(done.err)


def test_the_command_line_of_a_transfer_shows_nothing(home: Home, azurite: Azurite, moto: Moto) -> None:
    canaries = prepare(home, azurite, moto)
    with proxied(azurite.port, latency_s=0.3) as proxy:
        text = (home.folder / "gofer.yaml").read_text()
        home.configure(text.replace(f":{azurite.port}/", f":{proxy.port}/"))
        running = home.start("cat", "bysas:x/f")
        deadline = time.monotonic() + 60
        while not proxy.requests and time.monotonic() < deadline:
            for path in (
                f"/proc/{running.pid}/cmdline",
                *map(str, Path(f"/proc/{running.pid}/task").glob("*/comm")),
            ):
                with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
                    canaries.check(Path(path).read_text())
            time.sleep(0.01)
        out, err = running.communicate(timeout=60)
    assert proxy.requests
    canaries.check((out + err).decode())


def store_texts(store: Store, key: str) -> Iterator[str]:
    """What each verb raises, and how the store looks in a traceback."""
    yield repr(store)
    yield str(store)
    acts: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.put(key, b"x"),
        lambda: store.put(key, b"x", new=True),
        lambda: list(store.list()),
        lambda: list(store.list_folders()),
        lambda: store.head(key),
        lambda: store.delete([key, "other"]),
        lambda: store.copy(key, "other"),
    ]
    for act in acts:
        try:
            act()
        except GoferError as error:
            yield f"{error!r} {error} {error.hint} {error.__cause__!r}"


@pytest.mark.parametrize(
    "fault",
    [
        Fault("status", 400, body=b"<Error><Code>Odd</Code><Message>bad</Message></Error>"),
        Fault("status", 403),
        Fault("status", 404),
        Fault("status", 409),
        Fault("status", 301),
    ],
    ids=lambda fault: str(fault.status),
)
def test_stores_say_nothing_even_before_masking(azurite: Azurite, spoilt: Proxy, fault: Fault) -> None:
    """The first line of defence: no error holds a secret, so that nothing hangs on masking it later."""
    spoilt.faults = lambda request: fault
    one = azurite.one
    sas, here = one.account_sas(), f"http://127.0.0.1:{spoilt.port}"
    by_sas = azure_by_sas(one, sas, "data", endpoint=f"{here}/{one.name}")
    by_key = open_store("az://data", StoreOptions(one.name, one.key, endpoint=f"{here}/{one.name}"))
    s3 = open_store("s3://data", StoreOptions(endpoint=here, access_key="dummy-id", secret_key=SECRET_KEY))
    canaries = Canaries(sas, one.key, SECRET_KEY)
    seen = [text for store in (by_sas, by_key, s3) for text in store_texts(store, "a key")]
    assert len(seen) > 15
    for text in seen:
        canaries.check(text)
