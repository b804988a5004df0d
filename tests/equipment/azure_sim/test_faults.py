"""Faults on demand: each goes wrong in its own way, as often as asked, and is counted."""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime

import pytest
from services.azure import Azure
from services.azure_jobs import body, submit

pytestmark = [pytest.mark.net, pytest.mark.xdist_group("azure-sim-faults")]


@pytest.fixture(autouse=True)
def no_fault_left(azure: Azure) -> Iterator[None]:
    yield
    azure.admin("DELETE", "/faults")


@pytest.mark.parametrize("status", [401, 403, 404, 409, 429, 500, 503])
def test_a_status_is_answered_without_doing_anything(azure: Azure, status: int) -> None:
    azure.fault("status", "/jobs/spoilt", method="PUT", status=status, retry_after="7")
    request = urllib.request.Request(
        f"{azure.base}{azure.workspace}/jobs/spoilt?api-version=2024-04-01",
        json.dumps(body(azure, "true")).encode(),
        {"Authorization": f"Bearer {azure.token()}"},
        method="PUT",
    )
    with pytest.raises(urllib.error.HTTPError) as met:
        urllib.request.urlopen(request, context=ssl.create_default_context(cafile=str(azure.ca)), timeout=60)
    assert (met.value.code, met.value.headers["Retry-After"]) == (status, "7")
    assert ("WWW-Authenticate" in met.value.headers) == (status == 401)
    assert azure.arm("GET", "/jobs/spoilt")[0] == 404


def test_a_dropped_answer_may_hide_that_the_job_was_taken(azure: Azure) -> None:
    azure.fault("drop-before", "/jobs/dropped", method="PUT")
    azure.fault("drop-after", "/jobs/dropped", method="PUT")
    for seen in (404, 200):
        with pytest.raises((OSError, http.client.HTTPException)):
            azure.arm("PUT", "/jobs/dropped", body(azure, "true"))
        assert azure.arm("GET", "/jobs/dropped")[0] == seen
    assert azure.arm("PUT", "/jobs/dropped", body(azure, "true"))[0] == 200


def test_a_truncated_answer(azure: Azure) -> None:
    submit(azure, "cut", "true")
    azure.fault("truncate", "/jobs/cut")
    with pytest.raises(http.client.IncompleteRead):
        azure.arm("GET", "/jobs/cut")
    assert azure.arm("GET", "/jobs/cut")[0] == 200


def test_a_fault_skips_counts_and_waits(azure: Azure) -> None:
    submit(azure, "counted", "true")
    azure.admin("DELETE", "/counters")
    azure.fault("status", "/jobs/counted", status=503, skip=1, count=2)
    azure.fault("delay", "/jobs/counted", seconds=0.2)
    statuses = [azure.arm("GET", "/jobs/counted")[0] for _ in range(5)]
    assert statuses == [200, 503, 503, 200, 200]
    report = azure.admin("GET", "/counters")
    assert report["faults"] == 3
    # What was answered with a status did not reach the route.
    assert sum(count for route, count in report["requests"].items() if route.endswith("/jobs/{name}")) == 3


def test_the_clock_of_the_service_may_be_wrong(azure: Azure) -> None:
    azure.admin("POST", "/clock", {"skew_s": -7200})
    try:
        request = urllib.request.Request(f"{azure.base}/metadata/endpoints?api-version=2022-09-01")
        context = ssl.create_default_context(cafile=str(azure.ca))
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            result = parsedate_to_datetime(answer.headers["Date"]).timestamp()
    finally:
        azure.admin("POST", "/clock", {"skew_s": 0})
    assert result == pytest.approx(time.time() - 7200, abs=120)


def test_an_unknown_kind_is_refused(azure: Azure) -> None:
    status, _ = azure.ask("POST", "/_sim/faults", {"kind": "fire", "path": ""}, token=azure.admin_token)
    assert status == 400
