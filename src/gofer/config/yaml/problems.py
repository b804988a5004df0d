"""The errors that a check finds: the first one raised, or all of them collected."""

from __future__ import annotations

from types import TracebackType

from gofer.errors import ConfigError


class Problems:
    """What the steps of a check do with their errors. `with problems:` is one step.

    Raises the ConfigError of a step, or adds the error to `found` when `collects` is true. The check then
    continues after the step.
    """

    def __init__(self, *, collects: bool = False) -> None:
        self.collects = collects
        self.found: list[ConfigError] = []

    def add(self, error: ConfigError) -> None:
        """Collect the error, or raise it."""
        if not self.collects:
            raise error
        self.found.append(error)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self.collects or not isinstance(error, ConfigError):
            return False
        self.found.append(error)
        return True


# The first error is raised.
STRICT = Problems()
