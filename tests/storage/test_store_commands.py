"""`gofer store list|show|check` as a person types them, against Azurite."""

from __future__ import annotations

import json
from typing import Any

import pytest
from home import Home
from services.azurite import Account, Azurite
from services.moto import Moto

from gofer.config.secrets import Secrets


def settings(home: Home, account: Account, container: str, *, opens: str) -> None:
    home.configure(
        f"""
        stores:
          blob:
            url: az://{container}/me
            account: {account.name}
            endpoint: {account.endpoint}
            {opens}
        """,
    )


def keep(home: Home, name: str, value: str) -> None:
    Secrets(home.path / "secrets.json").set(name, value)


def checks(home: Home, *words: str, status: int) -> dict[str, dict[str, Any]]:
    found = json.loads(home.gofer("store", "check", *words, "--json", status=status).out)
    return {one["name"]: one for one in found}


def test_a_store_opened_by_key(home: Home, azurite: Azurite) -> None:
    one = azurite.one
    settings(home, one, one.new_container(), opens='key: "${env:ACCT_KEY}"')
    home.environ["ACCT_KEY"] = one.key
    found = checks(home, "blob", status=0)
    assert list(found) == ["list", "write", "create once", "read", "delete"]
    assert all(check["ok"] for check in found.values())
    container = home.gofer("store", "show", "blob", "--json")
    assert json.loads(container.out)["opened_by"] == "key from ${env:ACCT_KEY}"
    assert list(azurite.one.client().get_container_client(_container(container.out)).list_blobs()) == []
    assert one.key not in home.gofer("store", "show", "blob").out


def _container(shown: str) -> str:
    url: str = json.loads(shown)["url"]
    return url.removeprefix("az://").partition("@")[0]


def test_a_sas_that_may_only_read(home: Home, azurite: Azurite) -> None:
    one = azurite.one
    container = one.new_container()
    settings(home, one, container, opens='sas: "${secret:blob-sas}"')
    keep(home, "blob-sas", "?" + one.container_sas(container, "rl"))
    done = home.gofer("store", "check", "blob", status=1)
    lines = done.out.splitlines()
    assert [line.split()[1] for line in lines[1:]] == ["sas", "list", "write", "read", "delete"]
    assert "its SAS lacks the permission `write`; it has read, list" in done.out
    assert "its SAS lacks the permission `delete`" in done.out
    assert "hint: blob: set another with `gofer secret set blob-sas`" in done.err
    assert done.err.count("gofer secret set") == 1


def test_a_sas_that_has_expired(home: Home, azurite: Azurite) -> None:
    one = azurite.one
    container = one.new_container()
    settings(home, one, container, opens='sas: "${secret:blob-sas}"')
    keep(home, "blob-sas", one.container_sas(container, hours=-50))
    found = checks(home, "blob", status=1)
    assert found["sas"]["detail"] == "expired 2d02h ago"
    assert "its SAS expired at" in found["list"]["detail"]
    shown = json.loads(home.gofer("store", "show", "blob", "--json").out)
    assert shown["sas_left"] == "expired 2d02h ago"
    assert shown["sas_permissions"] == "read, write, delete, list"


def test_a_container_is_created_on_request(home: Home, azurite: Azurite) -> None:
    one = azurite.one
    settings(home, one, "made-by-check", opens='key: "${env:ACCT_KEY}"')
    home.environ["ACCT_KEY"] = one.key
    found = checks(home, "blob", status=1)
    assert list(found) == ["list"]
    assert found["list"]["hint"] == "`gofer store check blob --create` creates it"
    found = checks(home, "blob", "--create", status=0)
    assert found["create"]["detail"].startswith("made (")
    found = checks(home, "blob", "--create", status=0)
    assert found["create"]["detail"].startswith("was there (")


def test_a_secret_that_is_missing_spoils_only_its_store(home: Home, azurite: Azurite) -> None:
    settings(home, azurite.one, "data", opens='sas: "${secret:nobody-set}"')
    rows = json.loads(home.gofer("store", "list", "--json").out)
    assert {row["name"]: row["opened_by"] for row in rows} == {
        "blob": "sas from ${secret:nobody-set}",
        "default": "-",
    }
    assert json.loads(home.gofer("store", "show", "blob", "--json").out)["sas_problem"]
    found = json.loads(home.gofer("store", "check", "--json", status=1).out)
    failed = [(one["store"], one["name"]) for one in found if not one["ok"]]
    assert failed == [("blob", "open")]
    assert "gofer secret set nobody-set" in next(one["hint"] for one in found if not one["ok"])


def test_an_s3_store(home: Home, moto: Moto) -> None:
    home.configure(
        f"""
        stores:
          s: {{url: "s3://{moto.new_bucket()}/x", endpoint: "{moto.endpoint}", access_key: dummy-id,
               secret_key: "${{env:S3_SECRET}}"}}
        """,
    )
    home.environ["S3_SECRET"] = "dummy-secret-value"
    assert set(checks(home, "s", status=0)) == {"list", "write", "create once", "read", "delete"}


@pytest.mark.parametrize("key", ["key", "sas"])
def test_a_secret_written_out_is_refused(home: Home, key: str) -> None:
    home.configure(f"stores: {{blob: {{url: 'az://data', account: acct, {key}: dummy-written-out}}}}")
    done = home.gofer("store", "list", status=2)
    assert f"`stores.blob.{key}` is written out" in done.err
    assert f"gofer secret set blob-{key}" in done.err
    assert "dummy-written-out" not in done.err + done.out


def test_a_clock_that_is_wrong(home: Home, azurite: Azurite) -> None:
    one = azurite.one
    settings(home, one, one.new_container(), opens='key: "${env:ACCT_KEY}"')
    home.environ["ACCT_KEY"] = one.key
    home.prefix = ("faketime", "-f", "+7200")
    found = checks(home, "blob", status=0)
    assert found["clock"]["status"] == "warn"
    assert "h00m behind this machine's" in found["clock"]["detail"].replace("1h59m", "2h00m")
