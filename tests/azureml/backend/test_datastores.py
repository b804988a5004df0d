"""Datastores: made once, renewed when what they hold would end too soon, and never shortened for others."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from azureml.backend.azure_home import AzureHome
from azureml.backend.records import PLACES, STORE
from services.azure import Azure

from gofer.backends.azureml.datastores import datastore_body, sas_end
from gofer.backends.azureml.names import datastore_name
from gofer.backends.kind import BlobPlace
from gofer.core.store_spec import StoreSpec
from gofer.objects.azure_auth import utc

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-datastores")]
_CODE = """
from gofer.objects.azure_auth import utc
from gofer.backends.azureml.datastores import Datastores
from gofer.backends.azureml.names import DATASTORES_API
from gofer.backends.run_notes import KnownResources
from gofer.backends.azureml.service import Service
from gofer.backends.kind import BlobPlace
import tempfile
service = session.backend("aml")._connection.service
place = BlobPlace("dummyone", "https://dummyone.blob.core.windows.net", "data", "")
def ensure(days, *, forgetful, by_identity=False, opener="one"):
    known = KnownResources(tempfile.mkdtemp(), "x") if forgetful else service.known
    spec = {"sas": f"sv=1&se={utc(time.time() + days * 86400)}&sp=rl&sig=dummy"}
    made = Datastores(Service(service.arm, service.workspace, known), by_identity=by_identity)
    made.ensure("by_identity" if by_identity else "mine", place._replace(opener=opener), spec)
def ensured(days, **how):
    ensure(days, **how)
    name = "by_identity" if how.get("by_identity") else "mine"
    said = service.arm.get(f"{service.workspace.id}/datastores/{name}", DATASTORES_API)["properties"]
    left = (float(said["tags"]["gofer_until"]) - time.time()) / 86400
    return [round(left) if said["credentials"]["credentialsType"] == "Sas" else None,
            said["credentials"]["credentialsType"]]
"""


def test_the_sas_is_renewed_and_never_shortened(home: AzureHome, azure: Azure) -> None:
    steps = """
say([ensured(4, forgetful=True), ensured(1, forgetful=True), ensured(4, forgetful=False),
     ensured(7, forgetful=True), ensured(2, forgetful=False), ensured(1, forgetful=True, by_identity=True)])
"""
    found = home.python(_CODE + steps)
    assert found == [[4, "Sas"], [4, "Sas"], [4, "Sas"], [7, "Sas"], [7, "Sas"], [None, "None"]]


def test_a_datastore_with_another_key_is_replaced(home: AzureHome) -> None:
    """Also when it ends sooner: the old key may be revoked. Who never asked before takes what is there."""
    steps = """
say([ensured(5, forgetful=False), ensured(3, forgetful=False, opener="two"),
     ensured(1, forgetful=True, opener="three")])
"""
    assert home.python(_CODE.replace("mine", "of_keys") + steps) == [[5, "Sas"], [3, "Sas"], [3, "Sas"]]


def test_a_fresh_datastore_needs_no_request(home: AzureHome, azure: Azure) -> None:
    home.python(_CODE + "say(ensure(4, forgetful=False))")
    azure.admin("DELETE", "/counters")
    home.python(_CODE + "say(ensure(4, forgetful=False))")
    assert not [name for name in azure.admin("GET", "/counters")["requests"] if "datastores" in name]


def body(place: BlobPlace, spec: StoreSpec) -> dict[str, Any]:
    found: dict[str, Any] = datastore_body(place, spec, 1.0, "core.localhost")["properties"]
    return found


def test_the_body() -> None:
    found = body(PLACES[STORE], {"sas": "?sv=1&sig=dummy"})
    assert (found["accountName"], found["containerName"]) == ("acct", "runs")
    assert (found["endpoint"], found["protocol"]) == ("core.windows.net", "https")
    assert found["credentials"]["secrets"]["sasToken"] == "sv=1&sig=dummy"


def test_an_account_behind_another_address() -> None:
    found = body(BlobPlace("acct", "http://127.0.0.1:10000/acct", "runs", ""), {"sas": "sig=dummy"})
    assert (found["endpoint"], found["protocol"]) == ("core.localhost", "http")


def test_when_a_signature_ends() -> None:
    ends = time.time() + 1000
    assert abs(sas_end({"sas": f"sv=1&se={utc(ends).replace(':', '%3A')}&sig=x"}) - ends) < 2
    assert sas_end({"sas": "sv=1&se=2030-01-01&sig=x"}) == 1893456000.0
    assert sas_end({"sas": "sv=1&si=policy&sig=x"}) > time.time() + 365 * 86400


def test_names_tell_places_apart() -> None:
    places = [
        *PLACES.values(),
        PLACES[STORE]._replace(scope="/me"),
        PLACES[STORE]._replace(container="other"),
    ]
    assert len({datastore_name(place) for place in places}) == len(places)
    store = PLACES[STORE]
    assert datastore_name(store) == datastore_name(store._replace(prefix="elsewhere", opener="other"))
    ways = [
        datastore_name(store),
        datastore_name(store, write=False),
        datastore_name(store, by_identity=True),
    ]
    assert len({*ways, datastore_name(store._replace(terms="rl"))}) == 4


def _own(home: AzureHome, azure: Azure, *, container: str = "", days: float | None = None) -> None:
    """A datastore `mine` of the workspace, opened by a key or a SAS, and a target that names it."""
    account = azure.account()
    secrets: dict[str, object] = {"secretsType": "AccountKey", "key": account.key}
    if days is not None:
        token = account.container_sas(home.container, hours=days * 24)
        secrets = {"secretsType": "Sas", "sasToken": token}
    kind = {"credentialsType": secrets["secretsType"], "secrets": secrets}
    place = {"accountName": account.name, "containerName": container or home.container}
    body = {"properties": {"datastoreType": "AzureBlob", **place, "credentials": kind}}
    assert azure.arm("PUT", "/datastores/mine", body)[0] in (200, 201)
    text = (home.folder / "gofer.yaml").read_text()
    named = text if "datastore" in text else text.replace("cpu-cluster,", "cpu-cluster, datastore: mine,")
    (home.folder / "gofer.yaml").write_text(named)


def test_a_run_by_a_datastore_of_ones_own(home: AzureHome, azure: Azure) -> None:
    _own(home, azure)
    run = home.finish("sh", "-c", "echo by my own")
    assert run["state"] == "succeeded"
    assert home.log(run["id"]) == "by my own\n"
    inputs = azure.arm("GET", f"/jobs/{run['id']}")[1]["properties"]["inputs"].values()
    assert {one["uri"].split("/")[3] for one in inputs} == {"mine"}


def test_a_datastore_that_opens_something_else(home: AzureHome, azure: Azure) -> None:
    _own(home, azure, container="elsewhere")
    done = home.gofer("submit", "--no-code", "true", status=1)
    assert "the datastore `mine` opens the container `elsewhere` of the account" in done.err
    assert f"the target's store is `{home.container}`" in done.err
    assert home.view("last")["state"] == "failed"


def test_a_datastore_that_is_not_there(home: AzureHome, azure: Azure) -> None:
    _own(home, azure)
    text = (home.folder / "gofer.yaml").read_text()
    (home.folder / "gofer.yaml").write_text(text.replace("datastore: mine", "datastore: gone"))
    assert "has no datastore `gone`" in home.gofer("submit", "--no-code", "true", status=1).err


def test_the_expiry_of_a_users_own_datastore_is_reported_at_submit(home: AzureHome, azure: Azure) -> None:
    _own(home, azure, days=1)
    message = home.gofer("submit", "--no-code", "true").err
    assert "warning: the SAS of the datastore `mine` ends at " in message
    assert "leave `datastore` out of the target" in message
    checks = json.loads(home.gofer("doctor", "azure", "aml", "--json", status=None).out)
    (check,) = [one for one in checks if one["name"] == "target aml datastore"]
    assert check["status"] == "warn" and "the SAS in it ends at" in check["detail"], check
    _own(home, azure, days=-1)
    assert "the SAS of the datastore `mine` expired at" in home.gofer("submit", "true", status=1).err
    home.wait("last")


@pytest.mark.parametrize(("status", "verdict"), [(403, "ok"), (400, "fail")])
def test_a_doctor_that_may_not_see_what_opens_a_datastore(
    home: AzureHome, azure: Azure, status: int, verdict: str
) -> None:
    """Users with the right to run jobs may lack the right to list datastores. Other refusals are errors."""
    _own(home, azure, days=30)
    azure.fault("status", "/listSecrets", status=status, count=20)
    checks = json.loads(home.gofer("doctor", "azure", "aml", "--json", status=None).out)
    azure.admin("DELETE", "/faults")
    found = [one for one in checks if one["name"].startswith("target aml") and "datastore" in str(one)]
    assert [one["status"] for one in found] == [verdict], checks
