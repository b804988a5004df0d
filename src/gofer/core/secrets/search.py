"""Find the places of many values in a piece of a log, at a cost that hardly grows with their number.

A few values are searched one by one, which is the fastest way. For many values, the data is read as a row of
machine words. A value that is long enough covers at least one whole word in this row, wherever the value
begins. So only the places where the row has such a word are compared with the values.
"""

from __future__ import annotations

import sys
from typing import Dict, Iterable, Iterator, List, Set, Tuple

# Up to this many values of one length class are searched one by one.
_FEW = 32
# For each length class: the least length of a value, the bytes of a word, and the distance between the words
# that are read. A value of the least length covers at least one of these words completely.
_CLASSES = ((31, 8, 24), (15, 8, 8), (7, 4, 4))
_BLOCK_WORDS = 4096

Place = Tuple[int, int]


class SecretSearch:
    """Finds all places of all values, also places that overlap. Values have at least seven bytes. Safe in
    several threads.
    """

    def __init__(self, values: Iterable[bytes]) -> None:
        classes: Dict[int, List[bytes]] = {}
        for value in values:
            least = next(least for least, _, _ in _CLASSES if len(value) >= least)
            classes.setdefault(least, []).append(value)
        self._few = [value for found in classes.values() if len(found) <= _FEW for value in found]
        self._many = [
            _Words(classes[least], width, stride)
            for least, width, stride in _CLASSES
            if len(classes.get(least, ())) > _FEW
        ]

    def places(self, data: bytes) -> Iterator[Place]:
        """Start and end of each occurrence, in no particular order."""
        for value in self._few:
            start = data.find(value)
            while start >= 0:
                yield start, start + len(value)
                start = data.find(value, start + 1)
        for words in self._many:
            yield from words.places(data)


class _Words:
    """Finds many values of one length class by the words that they cover."""

    def __init__(self, values: Iterable[bytes], width: int, stride: int) -> None:
        self._width = width
        self._stride = stride
        # For each word, the values that contain it, by the offset of the word and the length of the value.
        self._holders: Dict[int, Dict[Tuple[int, int], Set[bytes]]] = {}
        for value in values:
            # Words are taken from the end of a value: many tokens and addresses begin with the same letters.
            first = len(value) - stride - width + 1
            for offset in range(first, first + stride):
                word = int.from_bytes(value[offset : offset + width], sys.byteorder)
                self._holders.setdefault(word, {}).setdefault((offset, len(value)), set()).add(value)
        self._words = frozenset(self._holders)

    def places(self, data: bytes) -> Iterator[Place]:
        whole = memoryview(data)[: len(data) // self._width * self._width]
        words = whole.cast("Q") if self._width == 8 else whole.cast("I")
        row = words[:: self._stride // self._width]
        for first in range(0, len(row), _BLOCK_WORDS):
            block = row[first : first + _BLOCK_WORDS]
            if not self._words.isdisjoint(block):
                for index, word in enumerate(block, first):
                    if word in self._words:
                        yield from self._compare(data, index * self._stride, word)

    def _compare(self, data: bytes, at: int, word: int) -> Iterator[Place]:
        for (offset, length), values in self._holders[word].items():
            start = at - offset
            if start >= 0 and data[start : start + length] in values:
                yield start, start + length
