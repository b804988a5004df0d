"""The lines between agents of an elastic run: who has the key is heard, and nobody else."""

from __future__ import annotations

import socket
import time
from typing import Any

from gofer.node.elastic.line import AgentLine

KEY = b"k" * 32


def pair(key: bytes = KEY, other_key: bytes = KEY) -> tuple[AgentLine, AgentLine]:
    one, other = socket.socketpair()
    return AgentLine(one, key, accepted=True), AgentLine(other, other_key, accepted=False)


def exchange(*lines: AgentLine) -> list[list[dict[str, Any]]]:
    """What each line receives, once everything has gone to and fro."""
    found: list[list[dict[str, Any]]] = [[] for _ in lines]
    for _ in range(5):
        for line, messages in zip(lines, found, strict=True):
            line.flush()
            if line.is_open:
                messages.extend(line.receive())
        time.sleep(0.01)
    return found


def test_messages_go_both_ways_in_order() -> None:
    acceptor, caller = pair()
    for number in range(3):
        caller.send({"number": number})
        acceptor.send({"answer": number, "text": "a \n b é"})
    got, answers = exchange(acceptor, caller)
    assert got == [{"number": number} for number in range(3)]
    assert answers == [{"answer": number, "text": "a \n b é"} for number in range(3)]


def test_a_line_with_another_key_is_closed() -> None:
    acceptor, caller = pair(other_key=b"x" * 32)
    caller.send({"number": 1})
    acceptor.send({"answer": 1})
    assert exchange(acceptor, caller) == [[], []]
    assert not acceptor.is_open and not caller.is_open


def test_a_repeated_message_closes_the_line() -> None:
    one, other = socket.socketpair()
    acceptor = AgentLine(one, KEY, accepted=True)
    acceptor.flush()
    greeting = other.recv(1000)
    first, second = socket.socketpair()
    caller = AgentLine(first, KEY, accepted=False)
    second.sendall(greeting)
    exchange(caller)
    caller.send({"number": 1})
    message = second.recv(1000)
    other.sendall(message)
    assert exchange(acceptor) == [[{"number": 1}]]
    other.sendall(message)
    assert exchange(acceptor) == [[]]
    assert not acceptor.is_open


def test_what_is_no_message_closes_the_line() -> None:
    for data in (b"hello\n", b"\0" * 100 + b"\n", b" {}\n"):
        one, other = socket.socketpair()
        acceptor = AgentLine(one, KEY, accepted=True)
        other.sendall(data)
        assert exchange(acceptor) == [[]]
        assert not acceptor.is_open


def test_the_other_end_is_gone() -> None:
    acceptor, caller = pair()
    caller.send({"number": 1})
    exchange(acceptor, caller)
    caller.close()
    exchange(acceptor)
    assert not acceptor.is_open
