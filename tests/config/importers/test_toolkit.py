"""Jobs of the VS Code toolkit: a target, a store and a job file that `gofer submit --job` takes."""

from __future__ import annotations

import pytest
from config.importers.printed import TOOLKIT_1, TOOLKIT_2
from config.importers.shop import Shop, fates, text_of, tree

from gofer.config.arrays import expand, substitute
from gofer.config.importers.keys import Outcome
from gofer.config.importers.sweeps import read_sweep
from gofer.config.job_file import read_job_file
from gofer.errors import ConfigError, UsageError
from gofer.ops.config_import import write_import


def test_a_job_of_the_first_format(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1)
    plan = shop.plan("job.json")
    written = tree(plan)
    # Workspace and subscription are nowhere in such a file.
    target = written["targets"]["msrresrchvc"]
    assert (target["platform"], target["virtual_cluster"]) == ("singularity", "msrresrchvc")
    assert (target["instance_type"], target["sla"]) == ("ND40_v2g1", "premium")
    assert "workspace" not in target
    assert written["stores"] == {
        "my-store": {"url": "az://box", "account": "acct", "key": "${secret:my-store-key}"}
    }
    assert written["ignore"] == ["out/", "tmp/"]
    assert any("add `subscription_id`, `resource_group` and `workspace`" in note for note in plan.notes)
    found = fates(plan)
    assert not [one for one in found.values() if one.outcome is Outcome.UNKNOWN]
    assert found["experiment.data_subdir"].to == "targets.msrresrchvc.folders"


def test_its_job_file_is_one(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1)
    write_import(shop.plan("job.json"))
    job = read_job_file(shop.folder / "jobs" / "first-try.yaml")
    assert job.target == "msrresrchvc"
    # The key stood in the script, and must not go on standing there.
    assert job.script == "echo ***\npython train.py --smile \N{GRINNING FACE}\n"
    assert {key: getattr(node, "text", "") for key, node in job.job.entries.items()} == {
        "multi_process": "false",
        "nodes": "2",
        "name": "first try",
        "setup": "pip install -r requirements.txt\nnvidia-smi\n",
    }


def test_the_cluster_that_is_none_of_singularitys(shop: Shop) -> None:
    text = TOOLKIT_1.replace("msrresrchvc", "itplabrr1cl1").replace("ND40_v2g1", "8")
    shop.put("job.json", text)
    text = text_of(shop.plan("job.json"))
    assert "platform: itp\n" in text
    assert "compute: itplabrr1cl1\n" in text
    assert "gpus_per_node: 8\n" in text


def test_a_job_of_the_second_format_and_its_sweep(shop: Shop) -> None:
    assert "\t" in TOOLKIT_2
    shop.put("gofer.yaml", "stores:\n  blob: {url: 'file:///srv/blob'}\n")
    shop.put("job.json", TOOLKIT_2)
    settings = shop.bring("job.json")
    target = settings.target("msroctovc")
    assert getattr(target.options, "workspace", "") == "W"
    assert getattr(target.options, "instance_type", "") == "ND40_v2g1"
    job = read_job_file(shop.folder / "jobs" / "sweep.yaml")
    array = expand([], base=job.axes)
    assert array is not None
    assert job.argv is not None
    assert len(array.rows) == 2 * 2 * 3
    last = substitute(job.argv, array.columns, array.rows[-1])[-1]
    assert last == "python t.py --data ./data --lr 0.01 --pair 3 x, y ${HOME} {x}\n"


def test_folders_need_a_store_of_the_datastores_name(shop: Shop) -> None:
    shop.put("gofer.yaml", "stores: {blob: {url: 'file:///srv/blob'}}\n")
    shop.put("job.json", TOOLKIT_2)
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"]["folders"] == {
        "data": {"store": "blob", "path": "me/data", "mode": "mount", "read_only": True},
        "out": {"store": "blob", "path": "me/out", "mode": "upload"},
    }
    found = fates(plan)
    assert found["io[0].mode"].to == "targets.msroctovc.folders.data.mode"
    assert "where the datastore `elsewhere` is" in found["io[2].path"].why


def test_two_jobs_on_one_cluster_are_two_targets_unless_they_are_alike(shop: Shop) -> None:
    shop.put("a.json", TOOLKIT_2)
    shop.put("b.json", TOOLKIT_2.replace("Basic", "Premium"))
    shop.put("c.json", TOOLKIT_2)
    plan = shop.plan("a.json", "b.json", "c.json")
    assert [*tree(plan)["targets"]] == ["msroctovc", "msroctovc-2"]
    assert fates(plan, "b.json")["cluster.sla_tier"].to == "targets.msroctovc-2.sla"
    assert tree(plan, "sweep-2.yaml")["target"] == "msroctovc-2"
    assert tree(plan, "sweep-3.yaml")["target"] == "msroctovc"


def test_one_store_in_two_files_has_one_credential(shop: Shop) -> None:
    shop.put("a.json", TOOLKIT_1)
    shop.put("b.json", TOOLKIT_1.replace("dummy/account/key==", "dummy/newer/key=="))
    plan = shop.plan("a.json", "b.json")
    assert [*tree(plan)["stores"]] == ["my-store"]
    assert [one.name for one in plan.secrets] == ["my-store-key"]
    assert fates(plan, "b.json")["storage.account_key"].outcome is Outcome.DROPPED
    assert "dummy/newer/key" not in repr(plan)


def test_a_job_file_that_is_there_is_not_replaced(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1)
    shop.put("jobs/first-try.yaml", "command: mine\n")
    with pytest.raises(ConfigError, match=r"there is another job in `.*first-try\.yaml`"):
        shop.plan("job.json")


def test_a_sweep_over_what_cannot_be_a_column(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_2.replace("lr: 0.1", "--lr: 0.1"))
    with pytest.raises(ConfigError) as caught:
        shop.plan("job.json")
    assert "jobs/sweep.yaml:" in caught.value.message
    assert "'--lr' cannot be a column of an array" in caught.value.message


@pytest.mark.parametrize(
    ("lines", "each", "rows"),
    [
        (["lr: 1"], {"lr": ["1"]}, []),
        (["lr: 0.1, 'a, b', \"c:d\""], {"lr": ["0.1", "a, b", "c:d"]}, []),
        (["seed: 2-4, 9"], {"seed": ["2", "3", "4", "9"]}, []),
        (["m: a\nb\nc"], {"m": ["a", "b", "c"]}, []),
        (["m: a\nn: b"], {"m": ["a"], "n": ["b"]}, []),
        (["m: a-b, 2-x"], {"m": ["a-b", "2-x"]}, []),
        (["(a, b): (1, 2), (3, 4)"], {}, [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        (
            ["(a, b): (1, 2)", "(c, d): (3, 4), (5, 6)"],
            {},
            [{"a": "1", "b": "2", "c": "3", "d": "4"}, {"a": "1", "b": "2", "c": "5", "d": "6"}],
        ),
    ],
)
def test_the_grammar_of_sweeps(
    lines: list[str], each: dict[str, list[str]], rows: list[dict[str, str]]
) -> None:
    assert read_sweep(lines) == (each, rows)


@pytest.mark.parametrize(
    "line", ["lr", "lr:", "(a, b): (1, 2", "(a, b): 1, 2", "a: (1)) ", ": 1", "n: 1-99999999"]
)
def test_a_sweep_that_cannot_be_read(line: str) -> None:
    with pytest.raises(UsageError):
        read_sweep([line])
