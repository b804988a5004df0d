"""The name of a run's job in Slurm."""

from __future__ import annotations

import re

import pytest

from gofer.node.slurm.job_name import job_name, run_of

RUN = "r261116-091233-k9qd4x"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("train", f"train-{RUN}"),
        ("a,b|c d\ne", f"a_b_c_d_e-{RUN}"),
        ("größe", f"gr_e-{RUN}"),
        ("日本", RUN),
        ("", RUN),
        ("-x", f"-x-{RUN}"),
        ("n" * 500, f"{'n' * 40}-{RUN}"),
        ("r261116-000000-other2", f"r261116-000000-other2-{RUN}"),
    ],
)
def test_the_name_shows_the_run_and_finds_it(name: str, shown: str) -> None:
    assert job_name(RUN, name) == shown
    assert re.fullmatch(r"[\w.+-]+", shown, re.ASCII)
    assert run_of(shown) == RUN


@pytest.mark.parametrize("name", ["train", "train-r261116", f"{RUN}-0", f"{RUN}x!", "wrap", ""])
def test_other_jobs_are_not_gofers(name: str) -> None:
    assert run_of(name) is None
