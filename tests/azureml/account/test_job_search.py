"""The end of a name is looked for among the newest jobs of a service; for a person, down to the oldest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml.backend.azure_home import AzureHome
from services.azure import Azure, azure_sim
from terminal import Terminal, screen

pytestmark = [pytest.mark.xdist_group("azure-job-search"), pytest.mark.timeout(900)]

OLD = "jianfw_1563257309_60ce2fc7"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    """A service that lists one job on each page."""
    with azure_sim(tmp_path_factory.mktemp("sim"), options=("--page", "1")) as made:
        yield made


@pytest.fixture
def home(service: Azure, tmp_path: Path) -> Iterator[AzureHome]:
    """Six jobs are newer than the old one; each page takes two seconds, so five are not enough."""
    made = AzureHome(tmp_path / "a home", service)
    made.gofer("target", "show", "aml")
    for name in (OLD, *(f"newer-{number}" for number in range(6))):
        service.admin("POST", "/jobs", {"name": name, "command": f"echo {name}"})
    service.fault("delay", r"/jobs\?", seconds=2, count=1000)
    yield made
    service.admin("DELETE", "/faults")


def test_a_script_is_told_how_far_the_search_came_and_how_it_goes_on(home: AzureHome) -> None:
    refused = home.gofer("q", "60ce2fc7", status=2).err
    assert "no job of a service that was looked at ends so (`aml`: " in refused
    assert " jobs read, back to 20" in refused
    assert (
        "hint: the whole name finds a job of any age; `GOFER_SEARCH_TIME=10m` before the command" in refused
    )
    assert home.gofer("list", "runs", "--json").out == "[]\n"
    found = home.gofer("q", "60ce2fc7", env={"GOFER_SEARCH_TIME": "10m"})
    assert OLD in found.out
    assert "GOFER_SEARCH_TIME" not in found.err


def test_a_whole_name_needs_no_search(home: AzureHome) -> None:
    assert OLD in home.gofer("q", OLD).out


def test_on_a_terminal_the_search_goes_on_and_says_how_far_it_is(home: AzureHome) -> None:
    with Terminal(home.argv("q", "60ce2fc7"), cwd=home.folder, env=home.environ) as terminal:
        shown = terminal.until("looking for a job whose name ends in `60ce2fc7`: ")
        terminal.until(" jobs read, back to 20")
        assert terminal.end() == 0
    assert any(OLD in line for line in screen(terminal.shown)), shown
    assert not any("looking for" in line for line in screen(terminal.shown))


def test_on_a_terminal_ctrl_c_ends_the_search(home: AzureHome) -> None:
    with Terminal(home.argv("q", "nosuchend"), cwd=home.folder, env=home.environ) as terminal:
        terminal.until(" jobs read, back to 20")
        terminal.interrupt()
        assert terminal.end() == 130


def test_a_time_that_cannot_be_read_is_refused(home: AzureHome) -> None:
    assert "10 min" in home.gofer("q", "60ce2fc7", env={"GOFER_SEARCH_TIME": "10 min"}, status=2).err
