"""Signatures against those of the makers' own libraries, and names that survive the way."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from azure.storage.blob import (
    BlobSasPermissions,
    ContainerSasPermissions,
    generate_blob_sas,
    generate_container_sas,
)
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from hypothesis import given, settings
from hypothesis import strategies as st

from gofer.objects.azure_auth import SasTerms, SharedKey, bare_token, http_now, make_sas, sas_fields
from gofer.objects.client import HttpRequest
from gofer.objects.names import azure_name, in_url, key_of, s3_name
from gofer.objects.s3_auth import AccessKey, SigV4
from gofer.testing.storage_conformance import ODD_NAMES

KEY = "ZHVtbXlkdW1teWR1bW15ZHVtbXlkdW1teWR1bW15ZHVtbXlkdW1teWR1bW15ZHVtbXk="
HOST = "s3.example.org:9000"
PATHS = ["/bucket/plain", "/bucket/a%20folder/n%C3%A4me%2B%26", "/"]


def by_botocore(keys: AccessKey, request: HttpRequest, moment: str) -> str:
    """The Authorization that Amazon's own library makes for the request."""
    url = f"http://{HOST}{request.target}"
    theirs = AWSRequest(request.method, url, dict(request.headers), data=bytes(request.body or b""))
    theirs.context["timestamp"] = moment
    signer = S3SigV4Auth(Credentials(keys.access_key, keys.secret_key, keys.token), "s3", "eu-west-1")
    theirs.headers["X-Amz-Date"] = moment
    theirs.headers["X-Amz-Content-SHA256"] = signer.payload(theirs)
    if keys.token:
        theirs.headers["X-Amz-Security-Token"] = keys.token
    scope = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    return str(signer.signature(scope, theirs))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "dummy-token"])
@pytest.mark.parametrize(
    ("method", "query", "headers", "body"),
    [
        ("GET", {}, {"Range": "bytes=0-99"}, None),
        ("GET", {"list-type": "2", "prefix": "a b/ü", "delimiter": "/"}, {}, None),
        ("PUT", {}, {"Content-MD5": "abc==", "x-amz-meta-mtime": "1  2", "If-None-Match": "*"}, b"data"),
        ("POST", {"uploads": ""}, {}, b""),
    ],
)
def test_requests_are_signed_as_by_botocore(
    path: str,
    token: str | None,
    method: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes | None,
) -> None:
    keys = AccessKey("dummy-id", "dummy-secret", token)
    request = HttpRequest(method, path, query, headers, body)
    target, signed = SigV4(keys, "eu-west-1", HOST, is_secure=False).sign(request)
    assert signed["Authorization"].endswith(f"Signature={by_botocore(keys, request, signed['x-amz-date'])}")
    assert target.startswith(path)


def test_addresses_are_signed_as_by_botocore() -> None:
    keys = AccessKey("dummy-id", "dummy-secret", "dummy/token+")
    ours = SigV4(keys, "eu-west-1", HOST, is_secure=True).presign("GET", "/bucket/a%20b", 600)
    theirs = AWSRequest("GET", f"http://{HOST}/bucket/a%20b")
    signer = S3SigV4QueryAuth(Credentials(*keys), "s3", "eu-west-1", expires=600)
    signer.add_auth(theirs)
    assert sas_fields(ours.partition("?")[2]).keys() == sas_fields(theirs.url.partition("?")[2]).keys()
    # Made in another second, the two differ in the time alone.
    if f"X-Amz-Date={theirs.context['timestamp']}" in ours:
        assert sas_fields(ours.partition("?")[2]) == sas_fields(theirs.url.partition("?")[2])


@pytest.mark.parametrize("name", ["", "plain", "a folder/näme"])
def test_a_sas_is_what_the_azure_sdk_makes(name: str) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
    terms = SasTerms("r", ends.timestamp(), "b" if name else "c", "data", name)
    ours = sas_fields(make_sas(SharedKey("acct", KEY), terms))
    # The SDK signs in a newer form by default; its option for the form is not public for containers.
    assert ours["sp"] == "r"
    assert ours["se"] == ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert "st" not in ours  # the clock of the signing machine may be ahead
    if name:
        theirs = generate_blob_sas(
            "acct",
            "data",
            name,
            account_key=KEY,
            permission=BlobSasPermissions(read=True),
            expiry=ends,
        )
    else:
        theirs = generate_container_sas(
            "acct",
            "data",
            account_key=KEY,
            permission=ContainerSasPermissions(read=True),
            expiry=ends,
        )
    assert sas_fields(theirs).keys() == ours.keys()


@pytest.mark.parametrize(
    "text",
    [
        "sv=1&sig=a%2Bb%3D",
        "?sv=1&sig=a%2Bb%3D",
        "  ?sv=1&sig=a%2Bb%3D\n",
        "https://acct.blob.core.windows.net/data?sv=1&sig=a%2Bb%3D",
    ],
)
def test_a_sas_is_taken_as_people_keep_it(text: str) -> None:
    assert sas_fields(bare_token(text)) == {"sv": "1", "sig": "a+b="}


def test_dates_do_not_depend_on_the_locale() -> None:
    assert time.strptime(http_now(), "%a, %d %b %Y %H:%M:%S GMT").tm_year >= 2024


TEXT = st.text(st.sampled_from("a.\\/\n\x01\x7f\u201b\u20182EF9%+ é\udcff😀"), max_size=12)


@settings(max_examples=400, deadline=None)
@given(TEXT)
def test_every_key_has_one_name_that_leads_back(key: str) -> None:
    for name in (azure_name(key), s3_name(key)):
        assert key_of(name) == key
        name.encode()
        assert not set(name) & {*map(chr, range(32)), "\x7f"}
    assert "\\" not in azure_name(key)
    assert not any(part.endswith(".") for part in azure_name(key).split("/"))


@settings(max_examples=400, deadline=None)
@given(TEXT, TEXT)
def test_no_two_keys_have_one_name(one: str, other: str) -> None:
    if one != other:
        assert azure_name(one) != azure_name(other)
        assert s3_name(one) != s3_name(other)


def test_names_that_need_nothing_stay_as_they_are() -> None:
    for name in ODD_NAMES:
        if not any(char in name for char in "\n\t\\\udcff") and not name.endswith("."):
            assert azure_name(name) == name
    assert in_url("a/b-c_d.e~f") == "a/b-c_d.e~f"
    assert in_url("a b+ü") == "a%20b%2B%C3%BC"
