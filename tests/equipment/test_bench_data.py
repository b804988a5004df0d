"""The transfer benchmark's own parts, and its turns on small sizes with gofer alone. None judges a time."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import packages, peers, results
from bench.data import azurite, listing_pages, sink, transfers, workload
from bench.data.clients import GOFER, ClientContext
from bench.data.place import Service
from bench.data.section import Line, bars, memory_bar
from bench.data.transfers import DOWN, RESYNC, UP
from bench.errors import BenchError
from bench.figures import Bar
from bench.measure import Sample
from bench.peers import AZURITE, NGINX, Peers
from bench.places import REPOSITORY, Places
from bench.plan import Plan
from bench.report import Section, Table, document

NODE_MODULES = REPOSITORY / ".test-services" / "node_modules"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places.open({"GOFER_BENCH_DIR": str(tmp_path)})


def plan_with(places: Places, versions: dict[str, str], listed: int = 10) -> Plan:
    return Plan(places, Peers(places.peers, versions, {}), data_rounds=1, data_listed=listed)


def samples(wall_s: float, cpu_s: float = 1.0, rss_mib: float = 50.0) -> list[Sample]:
    return [Sample(wall_s, cpu_s, rss_mib)]


def test_the_fastest_peer_is_the_bar() -> None:
    taken = {"gofer": samples(2.0), "azcopy": samples(4.0), "rclone": samples(1.9)}
    (bar,) = bars(Line("here: up", taken, is_small=False))
    assert bar == Bar("here: up: no slower than the fastest peer, rclone", "1.05x (medians 1.05x)", met=False)
    taken["rclone"] = samples(2.0)
    assert bars(Line("here: up", taken, is_small=False))[0].met


def test_small_files_have_a_bar_on_azcopy_s_cpu() -> None:
    def met(cpu_s: float) -> bool | None:
        taken = {"gofer": samples(1.0, cpu_s), "azcopy": samples(1.0, 2.0)}
        return bars(Line("here: up", taken, is_small=True))[1].met

    assert (met(1.2), met(1.21)) == (True, False)


def test_without_peers_nothing_is_judged_but_memory() -> None:
    line = Line("here: up", {"gofer": [*samples(1.0), *samples(1.0, rss_mib=151.0)]}, is_small=True)
    assert [bar.met for bar in bars(line)] == [None, None]
    assert memory_bar([line]).met is False
    assert memory_bar([]).met is None


def test_a_copy_that_differs_is_an_error(tmp_path: Path) -> None:
    work = workload.make_small(tmp_path, 7)
    assert work.size == sum(path.stat().st_size for path in work.folder.rglob("*.bin"))
    workload.verify(work, work.folder)
    other = workload.make_small(tmp_path / "copy", 7).folder
    workload.verify(work, other)
    first = sorted(other.rglob("*.bin"))[0]
    data = first.read_bytes()
    first.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(BenchError, match="did not come back"):
        workload.verify(work, other)
    first.unlink()
    with pytest.raises(BenchError, match="1 files are missing or too many"):
        workload.verify(work, other)


def test_the_pages_of_a_listing_lead_to_each_other(tmp_path: Path) -> None:
    listing_pages.write_flat(tmp_path, listing_pages.invented(5001))
    names: list[str] = []
    marker = ""
    while True:
        root = ElementTree.parse(tmp_path / "level" / f"_{marker}.xml").getroot()
        names += [node.findtext("Name") or "" for node in root.iter("Blob")]
        marker = root.findtext("NextMarker") or ""
        if not marker:
            break
    assert names == [f"item_{number:07}.bin" for number in range(5001)]


def test_a_level_of_a_listing_shows_folders(tmp_path: Path) -> None:
    work = workload.make_small(tmp_path / "work", 12)
    listing_pages.write_listing(tmp_path / "list", listing_pages.blobs_of(work.folder))
    root = ElementTree.parse(tmp_path / "list/level/small%2F_.xml").getroot()
    assert [node.findtext("Name") for node in root.iter("BlobPrefix")] == ["small/part_0/", "small/part_1/"]
    assert not list(root.iter("Blob"))
    flat = ElementTree.parse(tmp_path / "list/flat/small/_.xml").getroot()
    assert len(list(flat.iter("Blob"))) == 12


def section(letter: str, verdict: bool) -> Section:
    table = Table(("", "x"), (("gofer", "1"),))
    return Section(letter, f"Part {letter}", "Taken so.", (table,), (Bar(f"bar {letter}", "1x", verdict),))


def written(verdict: bool, *letters: str) -> str:
    sections = [section(letter, verdict) for letter in letters]
    return document([("date", f"day {verdict}")], {"gofer": "0"}, sections, f"bench {' '.join(letters)}")


def test_parts_that_were_not_measured_stay() -> None:
    text = results.merged(written(True, "a", "c", "f"), written(False, "c", "e"))
    assert [line for line in text.splitlines() if line.startswith("| ") and "bar" in line] == [
        "| a | bar a | 1x | met |",
        "| c | bar c | 1x | **MISSED** |",
        "| e | bar e | 1x | **MISSED** |",
        "| f | bar f | 1x | met |",
    ]
    assert [line for line in text.splitlines() if line.startswith("## (")] == [
        f"## ({letter}) Part {letter}" for letter in "acef"
    ]
    assert text.count("day True") == text.count("day False") == 2


def test_merging_with_nothing_or_with_itself_changes_nothing() -> None:
    text = written(True, "a", "b")
    assert results.merged("", text) == text
    assert results.merged(text, text) == text


def test_the_results_in_the_repository_are_read_as_they_are_written() -> None:
    text = (REPOSITORY / "bench" / "RESULTS.md").read_text(encoding="utf-8")
    assert results.merged(text, text) == text


@pytest.mark.net
@pytest.mark.xdist_group("bench-data")
def test_gofer_takes_its_turn_on_the_emulator(places: Places) -> None:
    (places.peers / AZURITE).mkdir()
    (places.peers / AZURITE / "node_modules").symlink_to(NODE_MODULES)
    plan = plan_with(places, {AZURITE: "of the tests"})
    work = workload.make_small(places.fresh("work"), 20)
    gofer = next(
        one for one in transfers.movers(plan, work, lambda: azurite.azurite(plan)) if one.name == "gofer"
    )
    turn = gofer.attempt()
    assert list(turn.samples) == [UP, RESYNC, DOWN]
    assert all(sample.cpu_s > 0 for sample in turn.samples.values())


@pytest.mark.net
@pytest.mark.xdist_group("bench-data")
def test_gofer_takes_its_turns_on_the_sink(places: Places) -> None:
    version = packages.unpack_debian(places.peers / NGINX, peers.DEBIAN[NGINX])
    plan = plan_with(places, {NGINX: version}, listed=5010)
    root = places.fresh("work")
    works = [workload.make_small(root, 20), workload.make_large(root, 20 << 20)]

    @contextmanager
    def same(service: Service) -> Iterator[Service]:
        yield service

    with sink.sink(plan, works) as service:
        for work in works:
            (gofer, *_) = transfers.movers(plan, work, lambda: same(service))
            assert list(gofer.attempt().samples) == [UP, RESYNC, DOWN]
        (lister, *_) = transfers.listers(plan, service, sink.MANY)
        assert lister.attempt().output.count("\n") == 5010
        assert _ranged(service) == works[1].folder.joinpath("one.bin").read_bytes()[5:10]
        # What was sent is not there: the sink lists nothing of it.
        context = ClientContext(plan, service, places.fresh("client"))
        assert GOFER.listing(context, sink.EMPTY).run().output == ""


def _ranged(service: Service) -> bytes:
    """As azcopy and the SDK ask."""
    request = urllib.request.Request(
        f"{service.endpoint}/full/large/one.bin", headers={"x-ms-range": "bytes=5-9"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        data = answer.read()
    assert isinstance(data, bytes)
    return data


def test_a_server_that_is_not_there_is_an_error_that_says_so(places: Places) -> None:
    plan = plan_with(places, {})
    with pytest.raises(BenchError, match="azurite is not installed"), azurite.azurite(plan):
        pass
    assert os.listdir(places.scratch) == []
