"""A home that is made of recorded files again, for the tests that read them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from data.project import Project

from recorded import tree, views


class RecordedHome(Project):
    """The files of a recording below `root`; commands run in this process.

    `words` has what stands for the placeholders of the recording.
    """

    def __init__(self, root: Path, name: str, words: Mapping[str, str] | None = None) -> None:
        super().__init__(root)
        self.document = tree.read(name)
        self.words = {"@ROOT@": str(root), "THIS_HOST": os.uname().nodename, **(words or {})}
        self.environ["DUMMY_TOKEN"] = "dummy-token-0"
        tree.restore(self.document["files"], root, self.words)

    @property
    def store(self) -> Path:
        return self.path / "store"

    def expected(self, number: int) -> Any:
        """The answer that view `number` of the recording has."""
        return json.loads(tree.shown(json.dumps(self.document["views"][number]["answer"]), self.words))

    def check(self, number: int) -> None:
        """AssertionError unless gofer gives the recorded answer to view `number`."""
        view = self.document["views"][number]
        found = views.answer(self, view["words"], {})
        assert found["status"] == view["status"], f"{view['words']}: {found}"
        views.assert_holds(found["answer"], self.expected(number), " ".join(view["words"]))


def view_ids(name: str) -> list[str]:
    """A name for each view of a recording: its command line."""
    return [" ".join(view["words"]) for view in tree.read(name)["views"]]
