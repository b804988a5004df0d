"""`parallel_map`: every result in order, and the first error."""

from __future__ import annotations

import threading

import pytest

from gofer.core.parallel import parallel_map


def test_results_are_in_the_order_of_the_items() -> None:
    everyone = threading.Barrier(4, timeout=60.0)

    def act(number: int) -> int:
        everyone.wait()
        return number * number

    assert parallel_map(act, iter(range(8)), at_once=4) == [0, 1, 4, 9, 16, 25, 36, 49]


def test_the_first_error_is_raised_after_the_calls_that_began_have_ended() -> None:
    both, ended = threading.Barrier(2, timeout=60.0), list[int]()

    def act(number: int) -> None:
        both.wait()
        if number == 0:
            raise ValueError("first")
        ended.append(number)
        raise ValueError("second")

    with pytest.raises(ValueError, match="first"):
        parallel_map(act, range(2), at_once=2)
    assert ended == [1]


def test_no_item_needs_no_thread() -> None:
    assert parallel_map(lambda item: threading.current_thread(), [], at_once=4) == []
    assert parallel_map(lambda item: threading.current_thread(), [1], at_once=4) == [threading.main_thread()]
