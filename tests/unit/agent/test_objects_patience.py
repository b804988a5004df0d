"""The wait that a service asks for, in whatever words it does."""

from __future__ import annotations

import pytest

from gofer.objects.retry_policy import retry_after_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5.0), ("-3", 0.0), ("nan", None), ("inf", float("inf")), ("soon", None), ("", None), ("²", None)],
)
def test_the_requested_wait(text: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": text}) == seconds


@pytest.mark.parametrize(
    "text", ["Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "1 2 3"]
)
def test_a_date_is_a_wait_and_nonsense_is_none(text: str) -> None:
    found = retry_after_s({"retry-after": text})
    assert found is None or found >= 0.0
