"""Errors of clouds: one line with the store, the cause, and the hint that solves it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from services.azurite import Azurite
from services.moto import Moto
from services.process import free_port
from services.proxy import Fault, proxied
from storage.clouds import azure_by_key, s3

from gofer.config.stores import StoreOptions
from gofer.errors import ConfigError, CredentialError, GoferError, KeyExists, StoreError, UsageError
from gofer.storage.base import Store
from gofer.storage.open import open_store

WRITTEN = StoreOptions("dummyone", sas="${secret:acct-sas}", key="${env:ACCT_KEY}")


def error_lines(act: Callable[[], object], kind: type[GoferError] = CredentialError) -> tuple[str, str]:
    """The message and the hint of the error that `act` raises; the message must be one line."""
    with pytest.raises(kind) as caught:
        act()
    assert "\n" not in caught.value.message
    assert not caught.value.message.endswith(".")
    return caught.value.message, caught.value.hint or ""


def by_sas(azurite: Azurite, sas: str, container: str) -> Store:
    options = StoreOptions(azurite.one.name, sas=sas, endpoint=azurite.one.endpoint)
    return open_store(f"az://{container}", options, name="blob", written=WRITTEN._replace(key=None))


def test_an_expired_sas_says_when(azurite: Azurite) -> None:
    container = azurite.one.new_container()
    store = by_sas(azurite, azurite.one.container_sas(container, hours=-26), container)
    for act in (lambda: store.get("k"), lambda: list(store.list()), lambda: store.put("k", b"")):
        message, hint = error_lines(act)
        expired = time.strftime("%Y-%m-%d %H:%M", time.gmtime(time.time() - 26 * 3600))
        assert f"the store `blob` (az://{container}): its SAS expired at {expired}" in message
        assert "1d02h ago" in message
        assert hint == "set another with `gofer secret set acct-sas`"


@pytest.mark.parametrize(
    ("permissions", "act", "lacking"),
    [
        ("rl", lambda store: store.put("k", b""), "write"),
        ("rl", lambda store: store.put("k", b"", new=True), "create"),
        ("wl", lambda store: store.get("k"), "read"),
        ("rw", lambda store: list(store.list()), "list"),
        ("rwl", lambda store: store.delete(["k"]), "delete"),
    ],
)
def test_a_sas_that_lacks_a_permission_says_which(
    azurite: Azurite, permissions: str, act: Callable[[Store], object], lacking: str
) -> None:
    container = azurite.one.new_container()
    azure_by_key(azurite.one, container).put("k", b"")
    store = by_sas(azurite, azurite.one.container_sas(container, permissions), container)
    message, hint = error_lines(lambda: act(store))
    assert f"its SAS lacks the permission `{lacking}`; it has " in message
    assert "gofer secret set acct-sas" in hint


def test_a_sas_for_listing_can_list(azurite: Azurite) -> None:
    container = azurite.one.new_container()
    azure_by_key(azurite.one, container).put("a/k", b"data")
    store = by_sas(azurite, azurite.one.container_sas(container, "l"), container)
    assert [info.key for info in store.list("a")] == ["a/k"]
    assert list(store.list_folders()) == ["a"]


def test_a_sas_for_writing_reports_an_existing_object(azurite: Azurite) -> None:
    container = azurite.one.new_container()
    store = by_sas(azurite, azurite.one.container_sas(container, "cw"), container)
    store.put("k", b"first", new=True)
    with pytest.raises(KeyExists):
        store.put("k", b"second", new=True)


def test_a_sas_of_another_container_or_account(azurite: Azurite) -> None:
    container, other = azurite.one.new_container(), azurite.one.new_container()
    message, _ = error_lines(lambda: by_sas(azurite, azurite.one.container_sas(other), container).get("k"))
    assert "its SAS is refused: it is for another account or container" in message
    message, _ = error_lines(lambda: by_sas(azurite, azurite.two.account_sas(), container).get("k"))
    assert "its SAS is refused" in message


def test_an_invalid_sas_is_refused_before_any_request() -> None:
    message, _ = error_lines(lambda: open_store("az://data", StoreOptions("dummyone", sas="dummy-no-sas")))
    assert "is not a shared access signature: it has no `sig`" in message
    assert "dummy-no-sas" not in message


def test_a_wrong_key(azurite: Azurite) -> None:
    options = StoreOptions(azurite.one.name, azurite.two.key, endpoint=azurite.one.endpoint)
    store = open_store("az://data", options, name="blob", written=WRITTEN._replace(sas=None))
    message, hint = error_lines(lambda: store.get("k"))
    assert "the key does not belong to the account `dummyone`" in message
    assert hint == "set another value in the variable `ACCT_KEY`"
    message, _ = error_lines(lambda: open_store("az://data", StoreOptions("dummyone", "not base64!")))
    assert "is not an account key" in message


def test_a_missing_container_and_how_to_make_it(azurite: Azurite) -> None:
    store = azure_by_key(azurite.one, "not-made-yet")
    for act in (lambda: store.put("k", b""), lambda: store.get("k"), lambda: list(store.list())):
        message, hint = error_lines(act, StoreError)
        assert "there is no container `not-made-yet` in the account `dummyone`" in message
        assert hint == "`gofer store check az://not-made-yet/ --create` creates it"
    assert store.make()
    assert not store.make()
    store.put("k", b"")


def test_a_missing_bucket(moto: Moto) -> None:
    store = s3(moto, "not-made-yet")
    message, hint = error_lines(lambda: list(store.list()), StoreError)
    assert "there is no bucket `not-made-yet`" in message
    assert "--create" in hint
    assert store.make()
    store.put("k", b"")


def test_a_host_that_does_not_answer_or_is_not_there() -> None:
    key = "ZHVtbXk="
    nobody = StoreOptions("dummyone", key, endpoint=f"http://127.0.0.1:{free_port()}/dummyone")
    began = time.monotonic()
    message, hint = error_lines(lambda: open_store("az://data", nobody).get("k"), StoreError)
    assert "connection refused" in message
    assert "`endpoint`" in hint
    assert time.monotonic() - began < 30  # all the tries that a store is worth would take longer
    wrong = StoreOptions("dummyone", key, endpoint="http://no-such-host.invalid")
    message, hint = error_lines(lambda: open_store("az://data", wrong).get("k"), StoreError)
    assert "its host name is unknown" in message
    assert "check the spelling" in hint


ANSWERS = [
    (403, "AuthorizationFailure", "firewall"),
    (403, "KeyBasedAuthenticationNotPermitted", "does not accept keys"),
    (403, "AuthenticationFailed", "the key does not belong to the account"),
    (409, "ContainerBeingDeleted", "is being deleted"),
    (403, "AccountIsDisabled", "is disabled"),
    (418, "Odd", "the service answered 418 Odd: i am a teapot"),
]


@pytest.mark.parametrize(("status", "code", "words"), ANSWERS)
def test_answers_of_azure_that_the_emulator_does_not_give(status: int, code: str, words: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>I am a teapot.\nRequestId:1</Message></Error>".encode()
    with proxied(1) as proxy:
        proxy.faults = lambda request: Fault("status", status, body=body)
        options = StoreOptions("dummyone", "ZHVtbXk=", endpoint=f"http://127.0.0.1:{proxy.port}/dummyone")
        store = open_store("az://data", options)
        message, _ = error_lines(lambda: store.get("k"), GoferError)
        assert words in message
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("InvalidAccessKeyId", "does not know the access key"),
        ("SignatureDoesNotMatch", "the secret key does not belong to the access key"),
        ("ExpiredToken", "have expired"),
        ("AccessDenied", "the keys have no right to read"),
    ],
)
def test_answers_of_s3_that_moto_does_not_give(code: str, words: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>No.</Message></Error>".encode()
    with proxied(1) as proxy:
        proxy.faults = lambda request: Fault("status", 403, body=body)
        endpoint = f"http://127.0.0.1:{proxy.port}"
        options = StoreOptions(endpoint=endpoint, access_key="dummy-id", secret_key="dummy-secret")
        message, _ = error_lines(lambda: open_store("s3://data", options).get("k"))
        assert words in message


def test_a_region_that_is_another(moto: Moto) -> None:
    body = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"
    with proxied(1) as proxy:
        proxy.faults = lambda request: Fault("status", 400, body=body)
        endpoint = f"http://127.0.0.1:{proxy.port}"
        options = StoreOptions(endpoint=endpoint, access_key="dummy-id", secret_key="dummy-secret")
        message, hint = error_lines(lambda: open_store("s3://data", options).get("k"), StoreError)
        assert "is in another region" in message
        assert "region: eu-west-1" in hint


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://data?sv=1&sig=dummy-sig", StoreOptions("dummyone")),
        ("az://Data", StoreOptions("dummyone")),
        ("az://da", StoreOptions("dummyone")),
        ("az://data/../x", StoreOptions("dummyone")),
        ("az://data", StoreOptions("Not-A-Name", "ZHVtbXk=")),
        ("az://data", StoreOptions(None, "ZHVtbXk=")),
        ("az://data", StoreOptions("dummyone", "ZHVtbXk=", endpoint="ftp://x")),
        ("az://data", StoreOptions("dummyone", "ZHVtbXk=", endpoint="http://h:99999")),
        ("s3://data", StoreOptions(endpoint="http://", access_key="a", secret_key="b")),
        ("s3://UPPER", StoreOptions(access_key="a", secret_key="b")),
        ("s3://bucket@account", StoreOptions(access_key="a", secret_key="b")),
        ("s3://bucket", StoreOptions(access_key="a")),
    ],
)
def test_addresses_and_entries_that_cannot_be(url: str, options: StoreOptions) -> None:
    with pytest.raises((UsageError, ConfigError)) as caught:
        open_store(url, options)
    assert "dummy-sig" not in str(caught.value)


NOT_OF_A_STORE = [
    b"<html><body>Please sign in<br></body></html>",
    b"<html><body>Please sign in</body></html>",
    b"",
    b"{}",
    b"\xff\xfe",
    b"<ListBucketResult><Contents><Key>a</Key><Size>many</Size></Contents></ListBucketResult>",
    b"<EnumerationResults><Blobs><Blob><Name>a</Name><Properties><Content-Length>many</Content-Length>"
    b"</Properties></Blob></Blobs></EnumerationResults>",
]


@pytest.mark.parametrize("body", NOT_OF_A_STORE)
@pytest.mark.parametrize("scheme", ["s3", "az"])
def test_a_page_that_is_no_listing_is_named_and_is_no_empty_folder(scheme: str, body: bytes) -> None:
    with proxied(1) as proxy:
        proxy.faults = lambda request: Fault("status", 200, body=body)
        message, _ = error_lines(lambda: list(answered_by(scheme, proxy.port).list_folders()), StoreError)
        assert "the answer does not come from the service" in message
        assert len(proxy.requests) == 1


@pytest.mark.parametrize(
    ("scheme", "body"),
    [
        (
            "s3",
            b"<ListBucketResult><IsTruncated>true</IsTruncated>"
            b"<NextContinuationToken>again</NextContinuationToken></ListBucketResult>",
        ),
        ("az", b"<EnumerationResults><Blobs /><NextMarker>again</NextMarker></EnumerationResults>"),
    ],
)
def test_a_service_that_lists_one_page_for_ever_is_left(scheme: str, body: bytes) -> None:
    with proxied(1) as proxy:
        proxy.faults = lambda request: Fault("status", 200, body=body)
        message, _ = error_lines(lambda: list(answered_by(scheme, proxy.port).list_folders()), StoreError)
        assert "repeats the same page of a listing" in message
        assert len(proxy.requests) == 2


def answered_by(scheme: str, port: int) -> Store:
    endpoint = f"http://127.0.0.1:{port}"
    if scheme == "s3":
        return open_store(
            "s3://data", StoreOptions(endpoint=endpoint, access_key="dummy", secret_key="dummy")
        )
    return open_store("az://data", StoreOptions("dummyone", key="ZHVtbXk=", endpoint=f"{endpoint}/dummyone"))
