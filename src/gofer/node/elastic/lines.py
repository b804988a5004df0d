"""All lines of one agent of an elastic run: the one to the leader, those of members, and calls to them."""

from __future__ import annotations

import errno
import select
import socket
from typing import Callable, Dict, List, Optional

from gofer.node.elastic import actions, records
from gofer.node.elastic.actions import Action
from gofer.node.elastic.generation_process import clock
from gofer.node.elastic.line import AgentLine, connect_problem, listen, start_connect
from gofer.node.elastic.participant import Participant

# An event, to be told to the participant at a time.
Event = Callable[[Participant, float], None]
_CONNECT_S = 3.0
_READ = select.EPOLLIN


class _Call:
    """A connection that is being made: to the leader, or to a member, only to find out whether it listens."""

    def __init__(self, connection: socket.socket, word: Optional[str]) -> None:
        self.socket = connection
        self.word = word
        self.until = clock() + _CONNECT_S


class AgentLines:
    """The sockets of one agent. No method blocks. `fileno` can be read when `events` has something."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._listener = listen()
        self._poll = select.epoll()
        self._poll.register(self._listener, _READ)
        self._calls: Dict[int, _Call] = {}
        self._leader: Optional[AgentLine] = None
        self._leader_fd = -1
        self._members: Dict[int, AgentLine] = {}
        self._words: Dict[int, str] = {}
        self._events: List[Event] = []

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def fileno(self) -> int:
        return self._poll.fileno()

    def watch(self, other: socket.socket) -> None:
        """Let `fileno` be readable for this socket too. The caller reads it."""
        self._poll.register(other, _READ)

    def perform(self, action: Action) -> bool:
        """Do what concerns lines; False for another action."""
        if isinstance(action, actions.ConnectLeader):
            self._begin_call(action.address, action.port, None)
        elif isinstance(action, actions.DialMember):
            self._begin_call(action.address, action.port, action.word)
        elif isinstance(action, actions.DisconnectLeader):
            self._drop_leader()
        elif isinstance(action, actions.SendBeat):
            if self._leader is not None:
                self._leader.send(action.beat.encode())
                self._await_write(self._leader_fd, self._leader)
        elif isinstance(action, actions.SendOrder):
            self._send_order(action)
        else:
            return False
        return True

    def events(self) -> List[Event]:
        """What has happened since the last call."""
        for fd, _ in self._poll.poll(0):
            if fd == self._listener.fileno():
                self._accept()
            elif fd in self._calls:
                self._end_call(fd)
            elif fd == self._leader_fd:
                self._read_leader()
            elif fd in self._members:
                self._read_member(fd)
        now = clock()
        for fd, call in list(self._calls.items()):
            if now >= call.until:
                self._close_call(fd)
                self._call_failed(call, is_refused=False)
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """Send what can be sent, and close everything."""
        for line in [*self._members.values(), *([self._leader] if self._leader else [])]:
            line.flush()
            line.close()
        for fd in list(self._calls):
            self._close_call(fd)
        self._listener.close()
        self._poll.close()

    # -- calls

    def _begin_call(self, address: str, port: int, word: Optional[str]) -> None:
        connection, problem = start_connect(address, port)
        call = _Call(connection, word)
        if problem:
            connection.close()
            self._call_failed(call, is_refused=problem == errno.ECONNREFUSED)
            return
        self._calls[connection.fileno()] = call
        self._poll.register(connection, select.EPOLLOUT)

    def _end_call(self, fd: int) -> None:
        call = self._calls.pop(fd)
        self._poll.unregister(fd)
        problem = connect_problem(call.socket)
        if problem:
            call.socket.close()
            self._call_failed(call, is_refused=problem == errno.ECONNREFUSED)
        elif call.word is not None:
            call.socket.close()
        else:
            self._drop_leader()
            self._leader, self._leader_fd = AgentLine(call.socket, self._key, accepted=False), fd
            self._poll.register(fd, _READ)
            self._events.append(lambda participant, now: participant.connected(now))

    def _close_call(self, fd: int) -> None:
        call = self._calls.pop(fd)
        self._poll.unregister(fd)
        call.socket.close()

    def _call_failed(self, call: _Call, *, is_refused: bool) -> None:
        word = call.word
        if word is None:
            self._events.append(lambda one, now: one.connect_failed(is_refused=is_refused, now=now))
        else:
            self._events.append(lambda one, now: one.dialled(word, is_refused=is_refused, now=now))

    # -- the line to the leader

    def _drop_leader(self) -> None:
        for fd, call in list(self._calls.items()):
            if call.word is None:
                self._close_call(fd)
        if self._leader is not None:
            self._forget(self._leader_fd, self._leader)
            self._leader, self._leader_fd = None, -1

    def _read_leader(self) -> None:
        line = self._leader
        if line is None:
            return
        for message in line.receive():
            self._events.append(_order_event(message))
        line.flush()
        if line.is_open:
            self._await_write(self._leader_fd, line)
            return
        self._leader, self._leader_fd = None, -1  # closing a socket takes it out of the poll
        self._events.append(lambda participant, now: participant.disconnected(now))

    # -- the lines of members

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            fd = connection.fileno()
            line = self._members[fd] = AgentLine(connection, self._key, accepted=True)
            line.flush()
            if line.is_open:
                self._poll.register(fd, _READ)

    def _read_member(self, fd: int) -> None:
        line = self._members[fd]
        for message in line.receive():
            try:
                beat = records.decode_beat(message)
            except (KeyError, TypeError):
                line.close()
                break
            self._words[fd] = beat.facts.word
            self._events.append(_beat_event(beat))
        line.flush()
        if line.is_open:
            self._await_write(fd, line)
            return
        del self._members[fd]
        word = self._words.pop(fd, None)
        if word is not None and word not in self._words.values():
            self._events.append(lambda participant, now: participant.member_disconnected(word, now))

    def _send_order(self, action: actions.SendOrder) -> None:
        fd = next((fd for fd in reversed(list(self._words)) if self._words[fd] == action.word), None)
        if fd is not None:
            self._members[fd].send(action.order.encode())
            if self._members[fd].is_open:
                self._await_write(fd, self._members[fd])

    def _await_write(self, fd: int, line: AgentLine) -> None:
        if line.is_open:
            self._poll.modify(fd, _READ | (select.EPOLLOUT if line.wants_write else 0))

    def _forget(self, fd: int, line: AgentLine) -> None:
        if line.is_open:
            self._poll.unregister(fd)
            line.close()


def _beat_event(beat: records.MemberBeat) -> Event:
    return lambda participant, now: participant.receive_beat(beat, now)


def _order_event(message: Dict[str, object]) -> Event:
    def tell(participant: Participant, now: float) -> None:
        try:
            order = records.decode_order(message)
        except (KeyError, TypeError):
            return  # not an order: ignored as a lost one is
        participant.receive_order(order, now)

    return tell
