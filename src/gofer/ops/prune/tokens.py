"""Remove expired tokens of Azure logins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gofer.backends.base import Prunable, PruneBounds

if TYPE_CHECKING:
    from gofer.transport.azure.tokens import TokenFiles

KIND = "token"


class TokensPlace:
    """The tokens that gofer stores between commands. Valid tokens are not touched."""

    name = "tokens of Azure logins"

    def __init__(self, folder: str, profiles: str) -> None:
        """`profiles` is the folder with the logins that gofer made."""
        self._folder = folder
        self._profiles = profiles

    def prunable(self, bounds: PruneBounds) -> list[Prunable]:
        return [Prunable(self.name, KIND, *one) for one in self._files().stale(self._profiles)]

    def prune(self, doomed: Sequence[Prunable], bounds: PruneBounds) -> list[Prunable]:
        self._files().drop_stale([one.name for one in doomed], self._profiles)
        return list(doomed)

    def _files(self) -> TokenFiles:
        from gofer.transport.azure.tokens import TokenFiles

        return TokenFiles(self._folder)
