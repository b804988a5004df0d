"""Jobs of the VS Code toolkit: a target, a store and a job file that `gofer submit --job` takes."""

from __future__ import annotations

import pytest
from msgspec import convert
from unit.importers.printed import TOOLKIT_1, TOOLKIT_2
from unit.importers.shop import Shop, fates, text_of, tree

from gofer.backends.azureml.options import AzureOptions, misplaced
from gofer.config.arrays import expand, substitute
from gofer.config.jobs import read_job_file
from gofer.config.targets import OWN_KEYS
from gofer.errors import ConfigError, UsageError
from gofer.importers.keys import KeyOutcome
from gofer.importers.toolkit import read_sweep
from gofer.ops.settings.config_import import write_import

# A store that jobs on Azure ML can reach, and the second format with no code in its rows.
BLOB = "stores:\n  blob: {url: 'az://box', account: acct}\n"
RUNS = "{url: 'az://runs', account: acct}\n"
DATA_ONLY = TOOLKIT_2.replace('"target": "data"', '"target": ""')
LINKS = """\
# The toolkit had its data below /tmp; these paths lead to where it is now.
link() {
  mkdir -p "$(dirname "$2")"
  [ -e "$2" ] || rm -f "$2"
  [ "$1" -ef "$2" ] || ln -sT "$(readlink -f "$1")" "$2" || {
    echo "$2 is something else here: name $1 in the script, and take $2 out of the set-up" >&2
    exit 1
  }
}
link ./voc /tmp/data/voc
link ./coco /tmp/data/coco
"""


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
    assert "ignore" not in written
    assert tree(plan, "first-try.yaml")["ignore"] == ["out/", "tmp/"]
    assert any("add `subscription_id`, `resource_group` and `workspace`" in note for note in plan.notes)
    assert not any("`az://`" in note for note in plan.notes)
    found = fates(plan)
    assert not [one for one in found.values() if one.outcome is KeyOutcome.UNKNOWN]
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
        "setup": f"{LINKS}pip install -r requirements.txt\nnvidia-smi\n",
    }


def test_the_cluster_that_is_none_of_singularitys(shop: Shop) -> None:
    text = TOOLKIT_1.replace("msrresrchvc", "itplabrr1cl1").replace("ND40_v2g1", "8")
    shop.put("job.json", text)
    text = text_of(shop.plan("job.json"))
    assert "platform: itp\n" in text
    assert "compute: itplabrr1cl1\n" in text
    assert "gpus_per_node: 8\n" in text


def test_a_count_of_gpus_leaves_the_instance_type_to_each_run(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1.replace("msrresrchvc", "itplabrr1cl1").replace("ND40_v2g1", "8"))
    plan = shop.plan("job.json")
    assert not any("instance" in one for one in plan.notes)
    assert "instance_type:" not in text_of(plan)


@pytest.mark.parametrize(
    ("key", "cluster", "image", "ours", "value"),
    [
        ("docker_image", "msrresrchvc", "pytorch-1.9.0-a100", "image_version", "pytorch-1.9.0-a100"),
        ("image", "msroctovc", "acpt-2.2:cu12", "image_version", "acpt-2.2:cu12"),
        ("image", "msroctovc", "me.azurecr.io/env:1", "image", "me.azurecr.io/env:1"),
        ("docker_image", "itplabrr1cl1", "AzureML-pytorch", "environment", "AzureML-pytorch@latest"),
        ("docker_image", "itplabrr1cl1", "AzureML-pytorch:3", "environment", "AzureML-pytorch:3"),
        ("docker_image", "itplabrr1cl1", "mine@dev", "environment", "mine@dev"),
        ("docker_image", "itplabrr1cl1", "me/env:1", "image", "me/env:1"),
        ("image", "", "acpt-2.2", "image_version", "acpt-2.2"),
    ],
)
def test_an_image_is_what_the_service_calls_so(
    shop: Shop, key: str, cluster: str, image: str, ours: str, value: str
) -> None:
    text = TOOLKIT_1.replace("msrresrchvc", cluster).replace("ND40_v2g1", "8")
    text = text.replace('"docker_image": "AzureML-pytorch"', f'"{key}": "{image}"')
    shop.put("job.json", text)
    plan = shop.plan("job.json", name="x")
    target = tree(plan)["targets"]["x"]
    assert {name: target[name] for name in ("image", "image_version", "environment") if name in target} == {
        ours: value
    }
    options = convert({name: one for name, one in target.items() if name not in OWN_KEYS}, AzureOptions)
    assert not misplaced(options)
    assert fates(plan)[f"environment.{key}"].to == f"targets.x.{ours}"


def test_the_words_for_regions_and_identities_of_later_releases(shop: Shop) -> None:
    text = TOOLKIT_2.replace('"locations"', '"location"').replace('"name": "exp"', '"managed_id": "me"')
    shop.put("job.json", text)
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"]["locations"] == ["eastus"]
    assert fates(plan)["cluster.location"].to == "targets.msroctovc.locations"
    assert "`identity`" in fates(plan)["experiment.managed_id"].why
    whole = "/subscriptions/S/resourceGroups/G/providers/Microsoft.ManagedIdentity/userAssignedIdentities/me"
    shop.put("job.json", text.replace('"managed_id": "me"', f'"managed_id": "{whole}"'))
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"]["identity"] == whole
    assert fates(plan)["experiment.managed_id"].to == "targets.msroctovc.identity"


def test_a_job_of_the_second_format_and_its_sweep(shop: Shop) -> None:
    assert "\t" in TOOLKIT_2
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", DATA_ONLY)
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
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", DATA_ONLY)
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"]["folders"] == {
        "data": {"store": "blob", "path": "me/data", "mode": "mount", "read_only": True},
        "out": {"store": "blob", "path": "me/out", "mode": "upload"},
    }
    found = fates(plan)
    assert found["io[0].mode"].to == "targets.msroctovc.folders.data.mode"
    assert "where the datastore `elsewhere` is" in found["io[2].path"].why


def test_a_row_without_a_store_names_the_store_to_add_and_its_users(shop: Shop) -> None:
    shop.put("job.json", DATA_ONLY)
    notes = shop.plan("job.json").notes
    (data,) = [one for one in notes if "`blob` of `data`" in one]
    assert "put `blob: {url: 'az://CONTAINER', account: ACCOUNT}` below `stores:`" in data
    assert "without it a run fails where it uses `./data`" in data
    (far,) = [one for one in notes if "`elsewhere` of `far`" in one]
    assert "the script names it" not in far


UNSYNCHRONISED = TOOLKIT_1.replace('"sync_code": true', '"sync_code": false')


def test_the_row_that_held_the_code_is_the_working_folder(shop: Shop) -> None:
    text = TOOLKIT_2.replace('"name": "data"', '"name": "workdir"').replace(
        '"target": "data"', '"target": "workdir"'
    )
    text = text.replace('"python t.py', '"cd ${{workdir}}", "python ${{ workdir }}/t.py')
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", text)
    plan = shop.plan("job.json")
    assert [*tree(plan)["targets"]["msroctovc"]["folders"]] == ["out"]
    assert tree(plan, "sweep.yaml")["script"].startswith("cd .\npython ./t.py ")
    found = fates(plan)
    assert found["io[0].name"].outcome is KeyOutcome.DROPPED
    assert "`${{workdir}}` is `.`" in found["io[0].path"].why
    (note,) = [one for one in plan.notes if "held the code" in one]
    assert "What else lay there is not in a run" in note
    assert "outputs_to" not in tree(plan, "sweep.yaml")
    shop.put("job.json", text.replace('"ro_mount"', '"rw_mount"'))
    assert tree(shop.plan("job.json"), "sweep.yaml")["outputs_to"] == {"store": "blob", "path": "me/data"}
    shop.put("gofer.yaml", "")
    assert "outputs_to" not in tree(shop.plan("job.json"), "sweep.yaml")


@pytest.mark.parametrize("is_synchronised", [True, False])
def test_what_a_job_writes_in_its_work_dir_stays_there(shop: Shop, is_synchronised: bool) -> None:
    shop.put("job.json", TOOLKIT_1 if is_synchronised else UNSYNCHRONISED)
    plan = shop.plan("job.json")
    job, place = tree(plan, "first-try.yaml"), {"store": "my-store", "path": "me/code"}
    assert job["outputs_to"] == place
    assert job.get("code") == (None if is_synchronised else place)
    found = fates(plan)
    assert found["experiment.workdir"].to == "jobs/first-try.yaml: outputs_to"
    assert found["experiment.sync_code"].to == ("" if is_synchronised else "jobs/first-try.yaml: code")


def test_a_work_dir_that_is_the_whole_container_is_named(shop: Shop) -> None:
    shop.put("job.json", UNSYNCHRONISED.replace('"me/code"', '"/"'))
    plan = shop.plan("job.json")
    assert not {"code", "outputs_to"} & set(tree(plan, "first-try.yaml"))
    assert "name a folder of it" in fates(plan)["experiment.workdir"].why
    assert "as `code` of the job" in fates(plan)["experiment.sync_code"].why


def test_runs_are_kept_where_the_code_lay(shop: Shop) -> None:
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", TOOLKIT_2)
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"]["store"] == "blob"
    assert fates(plan)["io[0].datastore"].to == "targets.msroctovc.store"
    assert any("runs on `msroctovc` are kept in the store `blob`" in note for note in plan.notes)
    # An account that came with another file: gofer's own folder in it, beside the code.
    shop.put("gofer.yaml", "")
    shop.put("older.json", TOOLKIT_1.replace("my store", "blob"))
    plan = shop.plan("older.json", "job.json")
    written = tree(plan)
    assert written["targets"]["msroctovc"]["store"] == "blob-gofer"
    assert written["stores"]["blob-gofer"]["url"] == "az://box/me/gofer"


def test_without_code_runs_are_kept_where_jobs_wrote(shop: Shop) -> None:
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", DATA_ONLY)
    assert tree(shop.plan("job.json"))["targets"]["msroctovc"]["store"] == "blob"
    shop.put("job.json", DATA_ONLY.replace('"upload"', '"download"'))
    assert "store" not in tree(shop.plan("job.json"))["targets"]["msroctovc"]


@pytest.mark.parametrize("own", ["", "stores:\n  blob: {url: 'file:///srv/blob'}\n"])
def test_a_target_without_a_store_says_how_to_give_it_one(shop: Shop, own: str) -> None:
    shop.put("gofer.yaml", own)
    shop.put("job.json", TOOLKIT_2)
    plan = shop.plan("job.json")
    assert "store" not in tree(plan)["targets"]["msroctovc"]
    (note,) = [one for one in plan.notes if "begins with `az://`" in one]
    assert "`store: NAME` into the target `msroctovc`" in note


@pytest.mark.parametrize(
    "own",
    [
        f"targets:\n  msroctovc: {{kind: azureml, store: runs}}\n{BLOB}  runs: {RUNS}",
        f"{BLOB}  default: {RUNS}",
    ],
)
def test_a_store_that_the_person_chose_stays(shop: Shop, own: str) -> None:
    shop.put("gofer.yaml", own)
    shop.put("job.json", TOOLKIT_2)
    plan = shop.plan("job.json")
    assert tree(plan)["targets"]["msroctovc"].get("store") == ("runs" if "store: runs" in own else None)
    assert not any("az://" in note and "could be kept" in note for note in plan.notes)


def test_the_same_import_twice_changes_nothing(shop: Shop) -> None:
    shop.put("older.json", TOOLKIT_1.replace("my store", "blob"))
    shop.put("job.json", TOOLKIT_2)
    write_import(shop.plan("older.json", "job.json"))
    assert shop.plan("older.json", "job.json").texts == {}


def test_two_jobs_on_one_cluster_are_two_targets_unless_they_are_alike(shop: Shop) -> None:
    shop.put("a.json", TOOLKIT_2)
    shop.put("b.json", TOOLKIT_2.replace("Basic", "Premium"))
    shop.put("c.json", TOOLKIT_2)
    plan = shop.plan("a.json", "b.json", "c.json")
    assert [*tree(plan)["targets"]] == ["msroctovc", "msroctovc-2"]
    assert fates(plan, "b.json")["cluster.sla_tier"].to == "targets.msroctovc-2.sla"
    assert tree(plan, "sweep-2.yaml")["target"] == "msroctovc-2"
    assert tree(plan, "sweep-3.yaml")["target"] == "msroctovc"


def test_notes_call_targets_what_they_are_called_in_the_end(shop: Shop) -> None:
    text = TOOLKIT_1.replace("msrresrchvc", "itplabrr1cl1")
    shop.put("a.json", text.replace("ND40_v2g1", "8"))
    shop.put("b.json", text.replace("ND40_v2g1", "4"))
    shop.put("c.json", TOOLKIT_2)
    shop.put("d.json", TOOLKIT_2.replace("Basic", "Premium"))
    notes = shop.plan("a.json", "b.json", "c.json", "d.json").notes
    for target in ("itplabrr1cl1", "itplabrr1cl1-2"):
        assert any(f"which subscription and resource group `{target}` is in" in note for note in notes)
    for target in ("msroctovc", "msroctovc-2"):
        assert any(f"where runs on `{target}` could be kept" in note for note in notes)
    assert len(notes) == len({*notes})


def test_shortened_lists_are_reported(shop: Shop) -> None:
    shop.put(
        "job.json", TOOLKIT_1.replace("first try", "x" * 201).replace("ND40_v2g1", "Singularity.ND40_v2g1")
    )
    found = fates(shop.plan("job.json"))
    assert found["experiment.job_name"].why == "its first 200 characters"
    assert found["cluster.instance_type"].why == "the service's own prefix is left out"


def test_a_token_may_be_a_whole_address(shop: Shop) -> None:
    text = TOOLKIT_1.replace('"account_key": "dummy/account/key==",', '"account_key": "",')
    shop.put("job.json", text.replace("?sv=1", "https://acct.blob.core.windows.net/box?sv=1"))
    plan = shop.plan("job.json")
    assert tree(plan)["stores"]["my-store"]["sas"] == "${secret:my-store-sas}"
    assert "`stores.my-store.sas` is what stands behind the `?` of the address in `sas_token`" in plan.notes
    assert "dummysignature" not in repr(plan)


TWO = f"{BLOB}  blob2: {{url: 'az://box2', account: acct}}\n"


@pytest.mark.parametrize("other", [TOOLKIT_2, TOOLKIT_2.replace("Basic", "Premium")])
def test_two_jobs_whose_code_lay_apart_stay_two_targets(shop: Shop, other: str) -> None:
    shop.put("gofer.yaml", TWO)
    shop.put("a.json", TOOLKIT_2)
    shop.put("b.json", other.replace('"datastore": "blob"', '"datastore": "blob2"', 1))
    write_import(shop.plan("a.json", "b.json"))
    settings = shop.load()
    assert [settings.target(name).store for name in ("msroctovc", "msroctovc-2")] == ["blob", "blob2"]
    # What was chosen then is no reason to number them otherwise now.
    assert shop.plan("a.json", "b.json").texts == {}


def test_jobs_whose_code_lay_in_two_folders_of_a_store_are_on_one_target(shop: Shop) -> None:
    shop.put("gofer.yaml", BLOB)
    shop.put("a.json", TOOLKIT_2)
    shop.put("b.json", TOOLKIT_2.replace("me/data", "me/other/data"))
    assert [*tree(shop.plan("a.json", "b.json"))["targets"]] == ["msroctovc"]


def test_one_store_in_two_files_has_one_credential(shop: Shop) -> None:
    shop.put("a.json", TOOLKIT_1)
    shop.put("b.json", TOOLKIT_1.replace("dummy/account/key==", "dummy/newer/key=="))
    plan = shop.plan("a.json", "b.json")
    assert [*tree(plan)["stores"]] == ["my-store"]
    assert [one.name for one in plan.secrets] == ["my-store-key"]
    assert fates(plan, "b.json")["storage.account_key"].outcome is KeyOutcome.DROPPED
    assert "dummy/newer/key" not in repr(plan)


def test_a_job_file_that_is_there_is_not_replaced(shop: Shop) -> None:
    shop.put("job.json", TOOLKIT_1)
    shop.put("jobs/first-try.yaml", "command: mine\n")
    with pytest.raises(ConfigError, match=r"first-try\.yaml` already has another job"):
        shop.plan("job.json")


def test_a_sweep_is_one_text_however_its_lines_were_split(shop: Shop) -> None:
    lines = '"arg_sweep": ["lr: 0.1,", "0.01", "seed: 1"]'
    old = '"arg_sweep": ["lr: 0.1, 0.01", "(a, b): (1, 2), (3, \'x, y\')", "seed: 2-4"]'
    assert old in TOOLKIT_2
    shop.put("job.json", TOOLKIT_2.replace(old, lines))
    assert tree(shop.plan("job.json"), "sweep.yaml")["each"] == {"lr": ["0.1", "0.01"], "seed": ["1"]}


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
        (["lr: 0.1,", "0.01", "seed: 1"], {"lr": ["0.1", "0.01"], "seed": ["1"]}, []),
        (["lr:", "0.1", "0.01", "", "seed:1"], {"lr": ["0.1", "0.01"], "seed": ["1"]}, []),
        (["seed: 2-4", "m: '2-4'"], {"seed": ["2", "3", "4"], "m": ["2-4"]}, []),
        (["lr: 0.1, 0.01, seed: 1"], {"lr": ["0.1", "0.01"], "seed": ["1"]}, []),
        (["(a, b):", "(1, 2),", "(3, 4)"], {}, [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]),
        ([r"m: 'it\'s', b"], {"m": [r"it\'s", "b"]}, []),
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
    "line",
    [
        "lr",
        "lr:",
        "(a, b): (1, 2",
        "(a, b): 1, 2",
        "a: (1)) ",
        ": 1",
        "n: 1-99999999",
        "1, lr: 2",
        "a: 1, : 2",
        "a: (1: 2)",
        "n: 4-2",
        "a: 1\na: 2",
        "(a, a): (1, 2)",
        "a:\nb: 1",
    ],
)
def test_a_sweep_that_cannot_be_read(line: str) -> None:
    with pytest.raises(UsageError):
        read_sweep([line])
