"""`aux_data/aml/NAME.yaml` and its account files: found, read as they are, and never shown."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from data.project import Project
from data.seeds import ACCOUNT, CLUSTER, write_account, write_cluster

from gofer.backends.azureml.options import AzureOptions
from gofer.config.folders import folders_of
from gofer.config.settings import Settings
from gofer.errors import ConfigError, UnknownName
from gofer.ops.data.places import data_target
from gofer.ops.session import Session

KEY = "ZHVtbXktYWNjb3VudC1rZXktdGhhdC1vcGVucy1ub3RoaW5n"
SAS = "sv=2024-01-01&sp=rl&sig=ZHVtbXktc2ln%3D"
ENTRY = ACCOUNT.format(name="acct", key=KEY, sas=f"?{SAS}", container="box")


@pytest.fixture
def seeds(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    write_cluster(made.folder, "aml", "vigeastblob_account")
    write_cluster(made.folder, "eu", "vigeastblob_account")
    write_account(made.folder, "vigeastblob_account", ENTRY)
    return made


def settings(project: Project, folder: Path | None = None, **variables: str) -> Settings:
    return Session(folder or project.folder, {**project.environ, **variables}).settings


def test_the_file_as_the_document_prints_it(seeds: Project) -> None:
    found = settings(seeds)
    assert found.target_names == ["aml", "eu", "local"]
    folders = folders_of(found, "eu")
    assert {name: (one.store, one.path) for name, one in folders.items()} == {
        "data": ("vigeastblob_account", "path/to/data"),
        "output": ("vigeastblob_account", "path/to/output"),
    }
    assert folders["data"].root == seeds.folder
    assert found.target("eu").kind == "azureml"
    entry = found.store("vigeastblob_account")
    assert entry.url == "az://box@acct"
    assert (entry.options.key, entry.options.sas) == (KEY, f"?{SAS}")


@pytest.mark.parametrize("sas", [SAS, f"?{SAS}", f"'?{SAS}'"])
def test_a_token_alone_with_and_without_its_mark(seeds: Project, sas: str) -> None:
    write_account(
        seeds.folder, "vigeastblob_account", f"account_name: a\ncontainer_name: c\nsas_token: {sas}\n"
    )
    options = settings(seeds).store("vigeastblob_account").options
    assert options.key is None
    assert options.sas is not None
    assert options.sas.lstrip("?") == SAS


def test_a_key_alone_an_endpoint_and_keys_of_other_tools(seeds: Project) -> None:
    text = f"account_name: a\naccount_key: {KEY}\nsas_token: null\ncontainer_name: c\n"
    write_account(seeds.folder, "vigeastblob_account", f"{text}endpoint: http://h:1/a\nx: [1]\n")
    options = settings(seeds).store("vigeastblob_account").options
    assert (options.key, options.sas, options.endpoint) == (KEY, None, "http://h:1/a")


def test_references_work_in_an_account_file(seeds: Project) -> None:
    text = "account_name: a\naccount_key: ${env:DUMMY_KEY}\ncontainer_name: c\n"
    write_account(seeds.folder, "vigeastblob_account", text)
    found = settings(seeds, DUMMY_KEY="dummy-key-from-afar")
    assert found.store("vigeastblob_account").options.resolved(found.resolve).key == "dummy-key-from-afar"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("account_key: x\ncontainer_name: c\n", "needs the key `account_name`"),
        ("account_name: a\n", "needs the key `container_name`"),
        ("account_name: a\ncontainer: c\n", "needs the key `container_name`"),
        ("account_name: [a]\ncontainer_name: c\n", "`account_name` must be text"),
        ("account_name: !!python/object/apply:os.system [true]\n", "YAML tag"),
        ("just text\n", "map of keys"),
    ],
)
def test_an_account_file_that_says_too_little(seeds: Project, text: str, says: str) -> None:
    write_account(seeds.folder, "vigeastblob_account", text)
    with pytest.raises(ConfigError) as caught:
        settings(seeds).store("vigeastblob_account")
    assert says in caught.value.message
    assert "vigeastblob_account.yaml" in caught.value.message


def test_an_account_file_that_is_not_there(seeds: Project) -> None:
    (seeds.folder / "aux_data/configs/vigeastblob_account.yaml").unlink()
    done = seeds.gofer("-c", "eu", "ls", "data", status=2)
    assert "there is no account file `aux_data/configs/vigeastblob_account.yaml`" in done.err
    assert "account_name" in done.err


def test_which_target_is_meant(seeds: Project) -> None:
    found = settings(seeds)
    assert data_target(found, "eu") == "eu"
    assert data_target(found, None) == "aml"
    assert data_target(settings(seeds, GOFER_TARGET="eu"), None) == "eu"
    seeds.configure("target: local\n")
    assert data_target(settings(seeds), None) == "local"
    (seeds.folder / "gofer.yaml").unlink()
    (seeds.folder / "aux_data/aml/aml.yaml").unlink()
    assert data_target(settings(seeds), None) == "local"


def test_a_file_named_by_the_variable(seeds: Project) -> None:
    other = seeds.root / "elsewhere/far.yaml"
    other.parent.mkdir()
    (seeds.folder / "aux_data/aml/eu.yaml").rename(other)
    found = settings(seeds, AML_CONFIG_PATH=str(other))
    assert data_target(found, None) == "far"
    assert folders_of(found, "far")["data"].root == seeds.folder
    within = settings(seeds, seeds.root, AML_CONFIG_PATH="project/aux_data/aml/aml.yaml")
    assert folders_of(within, "aml")["data"].root == seeds.folder
    with pytest.raises(ConfigError, match="cannot read"):
        folders_of(settings(seeds, AML_CONFIG_PATH="absent.yaml"), "absent")


def test_it_is_found_from_below_and_not_from_beyond_the_repository(seeds: Project) -> None:
    below = seeds.folder / "src/deep"
    below.mkdir(parents=True)
    assert "eu" in settings(seeds, below).target_names
    (seeds.folder / "src/.git").mkdir()
    assert settings(seeds, below).target_names == ["local"]


def test_ours_goes_before_theirs(seeds: Project) -> None:
    seeds.configure(
        f"targets: {{eu: {{kind: local, store: s}}}}\nstores: {{s: {{url: '{seeds.store.as_uri()}'}}}}\n"
        "folders: {data: {path: mine}}\n"
    )
    found = settings(seeds)
    assert found.target("eu").kind == "local"
    assert folders_of(found, "eu")["data"][1:3] == ("s", "mine")
    assert folders_of(found, "aml")["data"].path == "path/to/data"


def test_a_store_of_ours_with_the_name_of_an_account_file_is_another(seeds: Project) -> None:
    seeds.configure(f"stores: {{vigeastblob_account: {{url: '{seeds.store.as_uri()}'}}}}\n")
    found = settings(seeds)
    name = folders_of(found, "eu")["data"].store
    assert name == "aux_data/configs/vigeastblob_account.yaml"
    assert found.store(name).url == "az://box@acct"


def test_what_a_file_builds_on(seeds: Project) -> None:
    write_account(seeds.folder, "other", ENTRY.replace("box", "other-box"))
    text = dedent("""
        _base_: ../aml/eu.yaml
        config_param:
          data_folder: {path: my/data}
          output_folder: null
          models_folder: {azure_blob_config_file: aux_data/configs/other.yaml, path: /m/}
        gpu_per_node: 8
        """)
    write_cluster(seeds.folder, "mine", "", text)
    found = settings(seeds)
    folders = folders_of(found, "mine")
    assert {name: (one.store, one.path) for name, one in folders.items()} == {
        "data": ("vigeastblob_account", "my/data"),
        "models": ("other", "m"),
    }
    options = found.target("mine").options
    assert isinstance(options, AzureOptions)
    assert (options.gpus_per_node, options.compute) == (8, "NC24RSV3")


def test_files_that_build_on_each_other(seeds: Project) -> None:
    write_cluster(seeds.folder, "a", "", "_base_: b.yaml\n")
    write_cluster(seeds.folder, "b", "", "_base_: a.yaml\n")
    with pytest.raises(ConfigError, match="in a circle"):
        folders_of(settings(seeds), "a")


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{path: x}", "needs the key `azure_blob_config_file`"),
        ("{azure_blob_config_file: a.yaml, storage_type: file, path: x}", "of the type `file`"),
    ],
)
def test_a_folder_that_cannot_be_used_hurts_only_its_user(seeds: Project, entry: str, says: str) -> None:
    write_cluster(seeds.folder, "eu", "", f"config_param: {{bad_folder: {entry}, data_folder: {entry}}}\n")
    folders = folders_of(settings(seeds), "eu")
    with pytest.raises(ConfigError) as caught:
        folders["bad"].check()
    assert says in caught.value.message
    assert "eu.yaml:1" in caught.value.message


def test_an_account_for_all_folders(seeds: Project) -> None:
    account = "aux_data/configs/vigeastblob_account.yaml"
    text = f"azure_blob_config_file: {account}\nconfig_param: {{x_folder: {{path: p}}}}\n"
    write_cluster(seeds.folder, "old", "", text)
    assert folders_of(settings(seeds), "old")["x"].store == "vigeastblob_account"


def test_a_target_whose_workspace_is_nowhere_takes_data_only(seeds: Project) -> None:
    done = seeds.gofer("-c", "eu", "submit", "ls", status=2)
    assert "the target `eu` needs `subscription_id`" in done.err
    assert "there is no file `aux_data/aml/config.json`; write it\n" in done.err
    assert seeds.gofer("list", "runs", "--json").out == "[]\n"


def test_unknown_targets_name_those_there_are(seeds: Project) -> None:
    with pytest.raises(UnknownName) as caught:
        folders_of(settings(seeds), "we3v32")
    assert caught.value.hint is not None
    assert "`aml`, `eu`, `local`" in caught.value.hint


def test_config_show_has_all_of_it_and_no_credential(seeds: Project) -> None:
    shown = seeds.gofer("config", "show").out
    assert "targets.eu.folders.data" in shown
    assert "vigeastblob_account:path/gofer" in shown
    assert "targets.eu.image" in shown
    line = CLUSTER[: CLUSTER.index("use_cli_auth:")].count("\n") + 1
    assert f"eu.yaml:{line}, not used: gofer uses `az login`" in shown
    assert "stores.vigeastblob_account.account" in shown
    for text in (shown, seeds.gofer("target", "show", "eu").out, seeds.gofer("target", "list", "--json").out):
        assert KEY not in text
        assert SAS not in text
        assert "ZHVtbXktc2ln" not in text


def test_a_hint_names_the_target_that_has_the_folder(seeds: Project) -> None:
    seeds.configure("target: local\n")
    done = seeds.gofer("ls", "data/x", status=2)
    assert "`gofer -c aml …`" in done.err


def test_folders_of_a_target_of_ours(seeds: Project) -> None:
    seeds.configure(
        dedent(f"""
        stores: {{s: {{url: '{seeds.store.as_uri()}'}}, t: {{url: '{(seeds.root / "t").as_uri()}'}}}}
        folders: {{data: {{store: s, path: "${{env:WHO}}/data"}}, models: {{path: m}}}}
        targets:
          lab: {{kind: local, store: t, folders: {{data: {{path: lab/data}}}}}}
          local: {{store: s}}
        """)
    )
    found = settings(seeds, WHO="me")
    assert {n: f[1:3] for n, f in folders_of(found, "local").items()} == {
        "data": ("s", "me/data"),
        "models": ("s", "m"),
    }
    assert {n: f[1:3] for n, f in folders_of(found, "lab").items()} == {
        "data": ("s", "lab/data"),
        "models": ("t", "m"),
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("targets: {local: {folders: {data: {path: p, store: nope}}}}", "there is no store `nope`"),
        ("targets: {local: {folders: {data: {pth: p}}}}", "unknown key `pth`"),
        ("targets: {local: {folders: {data: {}}}}", "needs the key `path`"),
        ("targets: {local: {folders: [data]}}", "must be a map"),
    ],
)
def test_wrong_folders_of_a_target_are_refused(seeds: Project, text: str, says: str) -> None:
    seeds.configure(text)
    with pytest.raises(ConfigError) as caught:
        settings(seeds)
    assert says in caught.value.message
