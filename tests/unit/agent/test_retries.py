"""Whether another attempt follows: every combination of the retry policy and of how the attempts ended."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from gofer.core.retries import should_retry
from gofer.core.states import Reason

IN_POLICY = ("exit-code", "preempted")


def history(*reasons: str | None) -> list[dict[str, Any]]:
    return [{"number": number, "reason": reason} for number, reason in enumerate(reasons, 1)]


@pytest.mark.parametrize(
    ("is_left", "is_listed", "is_preempted", "is_cancelled"), list(itertools.product([True, False], repeat=4))
)
def test_every_combination(*, is_left: bool, is_listed: bool, is_preempted: bool, is_cancelled: bool) -> None:
    last = "preempted" if is_preempted else "exit-code"
    found = should_retry(
        history("exit-code", last),
        retries=2 if is_left else 0,
        retry_on=(last, "staging") if is_listed else ("staging",),
        is_cancelled=is_cancelled,
    )
    assert found == (not is_cancelled and (is_preempted or (is_left and is_listed)))


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_success_is_not_repeated(*, is_cancelled: bool) -> None:
    assert not should_retry(history(None), retries=3, retry_on=IN_POLICY, is_cancelled=is_cancelled)


def test_an_attempt_of_the_ledger_without_a_reason_is_not_repeated() -> None:
    assert not should_retry([{"number": 1, "state": "succeeded"}], retries=3, retry_on=IN_POLICY)


def test_each_retry_allows_one_more_attempt() -> None:
    failures = [history(*["exit-code"] * made) for made in range(1, 5)]
    assert [should_retry(made, retries=2, retry_on=IN_POLICY) for made in failures] == [
        True,
        True,
        False,
        False,
    ]


def test_preempted_attempts_do_not_use_up_retries() -> None:
    made = history("preempted", "preempted", "exit-code", "preempted")
    assert should_retry(made, retries=0, retry_on=())
    assert should_retry([*made, *history("exit-code")], retries=2, retry_on=IN_POLICY)
    assert not should_retry([*made, *history("exit-code")], retries=1, retry_on=IN_POLICY)


def test_only_the_last_attempt_is_compared_with_the_policy() -> None:
    assert not should_retry(history("exit-code", "staging"), retries=5, retry_on=IN_POLICY)
    assert should_retry(history("staging", "exit-code"), retries=5, retry_on=IN_POLICY)


@pytest.mark.parametrize("reason", list(Reason))
def test_reasons_are_compared_as_words_and_as_members(reason: Reason) -> None:
    assert should_retry(history(reason.value), retries=1, retry_on=(reason,))
    assert should_retry(history(reason.value), retries=1, retry_on=[reason.value])
