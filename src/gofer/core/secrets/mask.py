"""Replace the secrets of a run by `*` where a log leaves the node or is printed.

The mask has the length of the secret, so that offsets in a log do not change. Values shorter than eight
characters are not masked: they would match parts of unrelated words.
"""

from __future__ import annotations

import bisect
import itertools
import json
from typing import BinaryIO, Iterable, Iterator, List, Mapping, Tuple

from gofer.core.secrets.search import SecretSearch

LEAST_LENGTH = 8
# Keys of a store's settings whose values are secrets.
_CREDENTIALS = ("sas", "key", "secret_key", "session_token", "token", "password", "client_secret")
_PIECE_BYTES = 1024 * 1024


class SecretMask:
    """The mask for the secrets of one run. False as a boolean when there are none. Safe in several
    threads.
    """

    def __init__(self, values: Iterable[str]) -> None:
        found = {form for value in values for form in _forms(value) if len(form) >= LEAST_LENGTH}
        # In a JSON record, a secret with quotes or similar characters appears in its escaped form.
        found.update(json.dumps(value)[1:-1] for value in list(found))
        self._secrets = sorted(value.encode("utf-8", "surrogateescape") for value in found)
        self._heads = frozenset(secret[:LEAST_LENGTH] for secret in self._secrets)
        self._search = SecretSearch(self._secrets)
        self._margin = max(map(len, self._secrets), default=1) - 1

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def clean(self, data: bytes) -> bytes:
        """`data` with every complete secret masked; the length stays the same."""
        cleaned = None
        for start, end in self._search.places(data):
            cleaned = cleaned or bytearray(data)
            cleaned[start:end] = b"*" * (end - start)
        return data if cleaned is None else bytes(cleaned)

    def clean_after(self, before: bytes, data: bytes) -> bytes:
        """Like `clean`, and masks secrets that begin in `before`, the `margin` bytes before the data."""
        return self.clean(before + data)[len(before) :]

    @property
    def margin(self) -> int:
        """How many bytes of a secret can stand before any place in a log."""
        return self._margin

    def _held_back(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret whose rest has not arrived yet."""
        for length in range(min(self._margin, len(data)), 0, -1):
            start = len(data) - length
            if length >= LEAST_LENGTH and data[start : start + LEAST_LENGTH] not in self._heads:
                continue
            end = data[start:]
            index = bisect.bisect_left(self._secrets, end)
            if index < len(self._secrets) and self._secrets[index].startswith(end):
                return length
        return 0

    def read(self, file: BinaryIO, start: int, length: int, *, grows: bool = False) -> bytes:
        """Up to `length` bytes of the file from `start`, masked. Secrets that cross either end are masked
        too.

        If the file still `grows`, an end that may be the beginning of a secret is left out.
        """
        first = max(0, start - self._margin)
        file.seek(first)
        data = file.read(start - first + length + self._margin)
        end = start - first + length
        if grows:
            end = min(end, len(data) - self._held_back(data))
        return self.clean(data)[start - first : end]

    def pieces(self, path: str) -> Iterator[bytes]:
        """The whole file, masked, in pieces."""
        with open(path, "rb") as file:
            start = 0
            while data := self.read(file, start, _PIECE_BYTES):
                start += len(data)
                yield data

    def stream(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The pieces, masked. A secret that crosses two pieces is masked too."""
        if not self:
            yield from pieces
            return
        masked = MaskedPieces(self)
        for piece in pieces:
            if data := masked.add(piece):
                yield data
        if data := masked.rest():
            yield data

    def give_out(self, recent: bytes, given: int, *, is_last: bool) -> Tuple[bytes, bytes, int]:
        """(bytes that are safe to return, the new `recent`, the new `given`), for MaskedPieces."""
        end = len(recent) - (0 if is_last else self._held_back(recent))
        if end <= given:
            return b"", recent, given
        first = max(0, end - self._margin)
        return self.clean(recent)[given:end], recent[first:], end - first


def _forms(value: str) -> Iterator[str]:
    """The value as a log may show it: complete, without blanks around it, and each of its lines alone."""
    yield value
    stripped = value.strip()
    yield stripped
    if "\n" in stripped or "\r" in stripped:
        from gofer.core.secrets.secret_files import MOST_VALUES, values_in

        yield from itertools.islice(values_in("", value.encode("utf-8", "surrogateescape")), MOST_VALUES)


class MaskedPieces:
    """Masks a text that arrives piece by piece. A secret that crosses two pieces is masked too."""

    def __init__(self, mask: SecretMask) -> None:
        self._mask = mask
        # The last bytes, also those already returned: two secrets may overlap, so both halves are needed.
        self._recent, self._given = b"", 0

    def add(self, piece: bytes) -> bytes:
        """The bytes that are safe to return now: all except an end that may be the beginning of a secret."""
        self._recent += piece
        return self._give_out(is_last=False)

    def rest(self) -> bytes:
        """The bytes that were held back, once the text is complete."""
        return self._give_out(is_last=True)

    def _give_out(self, *, is_last: bool) -> bytes:
        data, self._recent, self._given = self._mask.give_out(self._recent, self._given, is_last=is_last)
        return data


NO_SECRETS = SecretMask(())


def credentials(spec: Mapping[str, object]) -> List[str]:
    """The secret values in the settings of a store, at any depth."""
    found: List[str] = []
    for name, value in spec.items():
        if isinstance(value, Mapping):
            found += credentials(value)
        elif isinstance(value, str) and name in _CREDENTIALS:
            found.append(value)
    return found
