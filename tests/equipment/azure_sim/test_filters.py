"""The filter expressions of the run history."""

from __future__ import annotations

import pytest

from simulators.azure.filters import read_filter
from simulators.azure.messages import Refused

RUN = {"status": "Running", "runId": "a b", "tags": {"k": "it's (so) and or"}, "createdUtc": "2024-02-01"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "status eq 'Running'",
        "Status eq Running",
        "status ne 'Failed' and runId eq 'a b'",
        "status eq 'Failed' or status eq 'Running'",
        "(status eq 'Failed' or status eq 'Running') and (runId eq 'a b')",
        "status eq 'Failed' and runId eq 'x' or status eq 'Running'",
        "tags/k eq 'it''s (so) and or'",
        "tags/none eq ''",
        "not status eq 'Failed' and createdUtc ge 2024-01-01 and createdUtc lt '2025'",
    ],
)
def test_what_fits(text: str) -> None:
    assert read_filter(text)(RUN)


@pytest.mark.parametrize(
    "text",
    [
        "status eq 'running'",
        "status eq 'Failed' and runId eq 'a b'",
        "not (status eq 'Running' or runId eq 'x')",
        "(status eq 'Failed' or status eq 'Running') and runId eq 'x'",
        "tags/k eq 'so'",
        "createdUtc gt '2024-02-01'",
    ],
)
def test_what_does_not(text: str) -> None:
    assert not read_filter(text)(RUN)


@pytest.mark.parametrize(
    "text",
    ["status", "status eq", "status is 'x'", "(status eq 'x'", "status eq 'x')", "status eq 'x", "or"],
)
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(Refused):
        read_filter(text)(RUN)


def test_a_field_there_is_not() -> None:
    with pytest.raises(Refused):
        read_filter("nonesuch eq 'x'")(RUN)
