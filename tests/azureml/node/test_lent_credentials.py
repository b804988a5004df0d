"""What a run on Azure ML is lent: for how long, of what reach, or nothing but its own identity."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.storage.filedatalake import generate_directory_sas

from gofer.config.stores import StoreOptions
from gofer.objects.azure_auth import VERSION, SharedKey, make_sas, sas_fields, signature
from gofer.objects.azure_auth import SasTerms as Terms
from gofer.ops.session import Session
from gofer.ops.submission.credential_lifetimes import lent_s
from gofer.ops.submission.submit import SubmitRequest, _private, make_draft
from gofer.storage.azure import AzureStore
from gofer.storage.open import open_store

pytestmark = pytest.mark.xdist_group("azure-lending")

KEY = "ZHVtbXlkdW1teWR1bW15ZHVtbXlkdW1teWR1bW15ZHVtbXlkdW1teWR1bW15ZHVtbXk="
DAY = 86400.0


@pytest.mark.parametrize("name", ["me", "a/b c/ü", "deep/er/and/deeper"])
def test_a_folders_sas_is_what_the_azure_sdk_makes(name: str) -> None:
    ends = datetime(2026, 1, 3, tzinfo=UTC)
    ours = sas_fields(make_sas(SharedKey("acct", KEY), Terms("rcwdl", ends.timestamp(), "d", "box", name)))
    signed: list[str] = []
    theirs = sas_fields(
        generate_directory_sas(
            "acct",
            "box",
            name,
            KEY,
            permission=ours["sp"],
            expiry=ends,
            sts_hook=signed.append,
        )
    )
    own = ("sv", "sig")  # the SDK speaks a newer version, whose lines to sign are the same
    assert {**ours, **dict.fromkeys(own)} == {**theirs, **dict.fromkeys(own)}
    lines = signed[0].replace(f"\n{theirs['sv']}\n", f"\n{VERSION}\n").split("\n")
    assert ours["sig"] == signature(base64.b64decode(KEY), lines)


def store(**options: Any) -> AzureStore:
    found = open_store("az://box/me", StoreOptions("acct", KEY, **options))
    assert isinstance(found, AzureStore)
    return found


def test_a_hierarchical_account_lends_the_folder_alone() -> None:
    fields = sas_fields(store(hierarchical="true").node_spec("runs", expires_s=60, write=True)["sas"])
    assert (fields["sr"], fields["sdd"], fields["sp"]) == ("d", "2", "rcwdl")
    fields = sas_fields(store().node_spec("runs", expires_s=60, write=False)["sas"])
    assert (fields["sr"], fields["sp"], "sdd" in fields) == ("c", "rl", False)


def test_a_machine_with_an_identity_gets_no_sas() -> None:
    spec = store().node_spec("runs", expires_s=60, write=True, identity={"client_id": "c"})
    assert spec == {
        "kind": "azure",
        "endpoint": "https://acct.blob.core.windows.net",
        "container": "box",
        "prefix": "me/runs",
        "identity": {"client_id": "c"},
    }


@pytest.mark.parametrize(
    ("limit_s", "retries", "days"),
    [(None, 0, 7.0), (DAY / 2, 0, 2.5), (DAY, 2, 5.0), (30 * DAY, 0, 32.0), (None, 9, 7.0)],
)
def test_the_sas_lasts_for_the_queue_and_the_time_limit(
    limit_s: float | None, retries: int, days: float
) -> None:
    assert lent_s(limit_s, retries=retries, is_shown=True) == days * DAY
    assert lent_s(limit_s, retries=retries) == max(days, 7.0) * DAY


TARGET = """
stores:
  blob: {{url: "az://box/me", account: acct, key: "${{env:DUMMY_KEY}}"}}
  more: {{url: "az://data", account: acct, key: "${{env:DUMMY_KEY}}"}}
folders:
  data: {{store: more, path: in, mode: mount}}
targets:
  cloud: {{kind: azureml, store: blob, subscription_id: s, resource_group: g, workspace: w, compute: c,
    image: "me/env:1"{more}}}
"""


def session(tmp_path: Path, more: str = "") -> Session:
    project = tmp_path / "project"
    project.mkdir()
    (project / "gofer.yaml").write_text(TARGET.format(more=more))
    environ = {"HOME": str(tmp_path), "GOFER_HOME": str(tmp_path / "gofer"), "DUMMY_KEY": KEY, "PATH": "/bin"}
    return Session(folder=project, environ=environ, emit=lambda words: None)


def test_a_target_without_an_identity_gives_a_signature(tmp_path: Path) -> None:
    own_session = session(tmp_path)
    draft = make_draft(own_session, SubmitRequest(command=("true",), target="cloud", code=False))
    private = _private(own_session, draft)
    assert private.store is not None
    ends = datetime.fromisoformat(sas_fields(private.store["sas"])["se"])
    left = ends - datetime.now(UTC)
    assert timedelta(days=6.9) < left < timedelta(days=7.1)
    assert sas_fields(private.folders["data"]["sas"])["sp"] == "rcwdl"


def test_a_read_only_folder_gets_a_sas_for_reading(tmp_path: Path) -> None:
    own_session = session(tmp_path)
    path = tmp_path / "project/gofer.yaml"
    path.write_text(path.read_text().replace("mode: mount", "mode: mount, read_only: true"))
    draft = make_draft(own_session, SubmitRequest(command=("true",), target="cloud", code=False))
    assert draft.job.folders["data"].read_only
    assert sas_fields(_private(own_session, draft).folders["data"]["sas"])["sp"] == "rl"


def test_a_target_with_an_identity_gives_that(tmp_path: Path) -> None:
    own_session = session(tmp_path, ", identity: dummy-client")
    draft = make_draft(own_session, SubmitRequest(command=("true",), target="cloud", code=False))
    private = _private(own_session, draft)
    assert private.store is not None
    for spec in (private.store, private.folders["data"]):
        assert spec.get("sas") is None
        assert dict(spec["identity"] or {}) == {"client_id": "dummy-client"}
