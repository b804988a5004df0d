"""`aux_data/aml/NAME.yaml` as a target without any import: it means what the import would have written."""

from __future__ import annotations

import pytest
from unit.importers.printed import CLUSTER
from unit.importers.shop import Shop

from gofer.config.folders import folders_of
from gofer.config.jobs import JobFlags, build_job
from gofer.config.settings import Settings
from gofer.config.show import rows
from gofer.errors import ConfigError

SECRET = "dummy-wandb-value"
VARIANTS = {
    "printed": CLUSTER,
    "itp": CLUSTER.replace("aks_compute: false", "aks_compute: true") + "preemption_allowed: false\n",
    "singularity": CLUSTER.replace("aks_compute: false\n", "")
    + "platform: singularity\nsingularity_instance_type: AISupercomputer.ND40rs_v2\n",
    "one process": CLUSTER.replace("multi_process: True", "multi_process: False")
    + "process_count_per_node: 2\n",
    "no GPUs named": CLUSTER.replace("gpu_per_node: 4\n", ""),
    "credentials": CLUSTER.replace("env:\n", f"env:\n   WANDB_API_KEY: {SECRET}\n   TEXT: $HOME\n", 1),
    "set-up": CLUSTER
    + "compile_args: --with 'two ${env:HOME}'\ninterpreter_path: /opt/my conda/bin/python\n",
    "no code": CLUSTER.replace("path: path/to/code.zip", "path: null"),
    "older": """\
azure_blob_config_file: aux_data/configs/vigeastblob_account.yaml
aml_config: aux_data/aml/config.json
config_param: {code_path: me/code/x.zip, data_folder: me/data}
compute_target: NC24RSV3
""",
    "registry": CLUSTER.replace("docker:\n", "docker:\n    address: reg.azurecr.io\n"),
}


def means(settings: Settings, name: str) -> dict[str, object]:
    """What a submission without flags would be on the target."""
    target = settings.target(name)
    job = build_job(["ls"], JobFlags(), None, settings, name)
    return {
        "options": target.options,
        "kind": target.kind,
        "store": settings.store(target.store).url,
        "env": settings.reveal(job.env) if SECRET not in repr(job.env) else "shown",
        "job": (job.resources, job.multi_process, job.launcher, job.setup),
        "folders": {key: (settings.store(one.store).url, one.path) for key, one in folders.items()}
        if (folders := folders_of(settings, name))
        else {},
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_as_it_is_means_what_the_import_writes(act: Shop, variant: str) -> None:
    act.put("aux_data/aml/aml.yaml", VARIANTS[variant])
    live = act.load()
    assert live.default_target == "aml"
    before, ignored = means(live, "aml"), live.ignored("aml")
    after = act.bring("aux_data/aml/aml.yaml")
    after.secrets.set("WANDB_API_KEY", SECRET)
    assert after.imported("aml") is None
    assert means(after, "aml") == before
    assert (after.ignore, after.ignored("aml")) == ((), ignored)


def test_paths_alone_are_folders_of_the_account_at_the_top(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", VARIANTS["older"])
    settings = act.load()
    folder = folders_of(settings, "aml")["data"].check()
    assert (settings.store(folder.store).url, folder.path) == ("az://xxxx@xxxx", "me/data")
    assert settings.store(settings.target("aml").store).url == "az://xxxx@xxxx/me/gofer"
    assert not [row for row in rows(settings) if "does not know this key" in row.origin]


def test_an_account_file_of_a_like_name_is_named(act: Shop) -> None:
    configs = act.folder / "aux_data/configs"
    (configs / "vigeastblob_account.yaml").rename(configs / "vigblob_account.yaml")
    settings = act.load()
    for name in (settings.target("aml").store, folders_of(settings, "aml")["data"].store):
        with pytest.raises(ConfigError, match="there is no account file") as caught:
            settings.store(name)
        assert caught.value.hint == "did you mean `vigblob_account.yaml`?"


def test_patterns_belong_to_the_file_that_has_them(act: Shop) -> None:
    act.put("aux_data/aml/c1.yaml", "_base_: aml.yaml\nzip_options: ['-x', '${env:X}/*']\n")
    settings = act.load()
    never = ("/assets/", "/output/", "/data/", "/visualization/", "wandb/", "*.so", "*.o")
    assert settings.ignored("c1") == (*never, "/${env:X}/")
    assert settings.ignored("local") == ()
    assert act.bring("aux_data/aml/c1.yaml").ignored("c1") == (*never, "/${env:X}/")


def test_a_variable_that_is_a_credential_is_read_when_a_run_is_sealed(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", VARIANTS["credentials"])
    settings = act.load()
    env = build_job(["ls"], JobFlags(), None, settings, "aml").env
    assert SECRET not in repr(env)
    assert settings.reveal(env) == {"WANDB_API_KEY": SECRET, "TEXT": "$HOME", "NCCL_IB_DISABLE": "0"}
    # Another settings object, as for a run that is submitted again, finds it by the reference alone.
    assert act.load().resolve(env["WANDB_API_KEY"]) == SECRET
    assert SECRET not in repr(rows(settings))


def test_the_compile_script_gets_the_files_arguments_as_they_are(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", VARIANTS["set-up"])
    settings = act.load()
    job = build_job(["ls"], JobFlags(), None, settings, "aml")
    assert settings.reveal(job.env)["ACT_COMPILE_ARGS"] == "--with 'two ${env:HOME}'"
    assert job.setup is not None
    assert "python='/opt/my conda/bin/python'\n" in job.setup
    shown = {row.key: row for row in rows(settings)}
    assert shown["targets.aml.job.env.ACT_COMPILE_ARGS"].origin.startswith("aml.yaml:")


@pytest.mark.parametrize(
    ("project", "user", "meant"),
    [
        ("job: {setup: make deps}\n", "job: {setup: theirs}\n", "make deps"),
        ("job: {gpus: 1}\n", "job: {setup: theirs}\n", "theirs"),
        ("job: {setup: ''}\n", "", ""),
        ("job: {setup: null}\n", "", None),
    ],
)
def test_a_set_up_of_ones_own_goes_first(act: Shop, project: str, user: str, meant: str | None) -> None:
    act.put("gofer.yaml", project)
    config = act.session().paths.config_file
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(user)
    assert build_job(["ls"], JobFlags(), None, act.load(), "aml").setup == meant
    # The rest of the file's job is nearer than what holds for all targets, as ever.
    assert build_job(["ls"], JobFlags(), None, act.load(), "aml").resources.gpus == 4
    assert build_job(["ls"], JobFlags(setup="mine"), None, act.load(), "aml").setup == "mine"
    plan = act.plan("aux_data/aml/aml.yaml")
    assert "compile.aml.sh" not in "".join(plan.texts.values())
    assert "`aml` keeps the set-up of gofer.yaml; that of the older tool is left out" in plan.notes


def test_without_n_one_whole_node_and_with_0_none(act: Shop) -> None:
    settings = act.load()
    assert build_job(["ls"], JobFlags(), None, settings, "aml").resources.gpus == 4
    assert build_job(["ls"], JobFlags(gpus=0), None, settings, "aml").resources.gpus == 0
    assert build_job(["ls"], JobFlags(gpus=8), None, settings, "aml").resources.gpus == 8


@pytest.mark.parametrize(
    ("code", "prefix"),
    [
        ("jianfw/code/quickdetection.zip", "jianfw/gofer"),
        ("path/to/code.zip", "path/gofer"),
        ("me/code.zip", "me/gofer"),
        ("code.zip", "gofer"),
        ("null", "gofer"),
    ],
)
def test_the_store_lies_beside_the_folder_of_the_code(act: Shop, code: str, prefix: str) -> None:
    act.put("aux_data/aml/aml.yaml", CLUSTER.replace("path/to/code.zip", code))
    settings = act.load()
    assert settings.target("aml").store == f"vigeastblob_account:{prefix}"
    assert settings.store(f"vigeastblob_account:{prefix}").url == f"az://xxxx@xxxx/{prefix}"


def test_config_show_says_of_every_key_what_it_became_or_why_not(act: Shop) -> None:
    act.put("aux_data/aml/aml.yaml", CLUSTER + "novelty: 7\n")
    shown = {row.key: row for row in rows(act.load())}
    assert shown["target"].value == "aml"
    assert shown["targets.aml.compute"].value == "NC24RSV3"
    assert shown["targets.aml.compute"].origin.startswith("aml.yaml:")
    assert shown["targets.aml.workspace"].origin == "config.json:4"
    assert shown["targets.aml.job.gpus"].value == "4"
    assert "**/*src/CMC/" in shown["targets.aml.ignore"].value
    assert "not used: gofer uses `az login`" in shown["targets.aml.use_cli_auth"].origin
    assert "not used: gofer does not know this key" in shown["targets.aml.novelty"].origin
    assert shown["targets.aml.novelty"].value == "7"


def test_a_broken_file_harms_only_its_own_import(act: Shop) -> None:
    act.put("aux_data/aml/c2.yaml", "config_param: [\n")
    settings = act.load()
    assert settings.target("aml").name == "aml"
    found = settings.store_at("az://xxxx@xxxx/path/gofer")
    assert found is not None
    assert found.options.key == "xxxx"


BASE = "docker: {image: a/b:1}\ngpu_per_node: 8\n"


def test_what_only_others_build_on_is_not_offered(act: Shop) -> None:
    act.put("aux_data/aml/base.yaml", BASE)
    act.put("aux_data/aml/half.yaml", "{_base_: base.yaml, aml_config: aux_data/aml/config.json}\n")
    act.put("aux_data/aml/c1.yaml", "_base_: ./half.yaml\ncompute_target: one\n")
    act.put("aux_data/aml/c2.yaml", "_base_: half.yaml\ncompute_target: two\n")
    settings = act.load()
    assert settings.target_names == ["aml", "c1", "c2", "local"]
    assert getattr(settings.target("c2").options, "gpus_per_node", 0) == 8
    assert not [row.key for row in rows(settings) if row.key.startswith(("targets.base.", "targets.half."))]
    with pytest.raises(ConfigError) as caught:
        settings.target("base")
    assert (
        "base.yaml` is no target by itself: it needs `aml_config` and `compute_target`"
        in caught.value.message
    )
    assert caught.value.hint == "name one that builds on it: `c1`, `c2`"


def test_what_others_build_on_is_a_target_when_it_is_whole(act: Shop) -> None:
    act.put("aux_data/aml/whole.yaml", CLUSTER)
    act.put("aux_data/aml/c1.yaml", "_base_: whole.yaml\ngpu_per_node: 8\n")
    settings = act.load()
    assert settings.target_names == ["aml", "c1", "local", "whole"]
    assert settings.target("whole").kind == "azureml"


def test_an_incomplete_file_without_dependents_is_left_to_its_own_import(act: Shop) -> None:
    act.put("aux_data/aml/draft.yaml", BASE)
    assert "draft" in act.load().target_names


def test_what_is_meant_when_nothing_is_named_stays_so(act: Shop) -> None:
    """A run must not go to this machine because the file of the cluster is not whole."""
    act.put("aux_data/aml/aml.yaml", BASE)
    act.put(
        "aux_data/aml/c1.yaml", "_base_: aml.yaml\ncompute_target: one\naml_config: {workspace_name: w}\n"
    )
    settings = act.load()
    assert (settings.default_target, settings.target_names) == ("aml", ["aml", "c1", "local"])
    named = act.put("aux_data/aml/base.yaml", BASE)
    act.put("aux_data/aml/c1.yaml", "_base_: base.yaml\ncompute_target: one\n")
    act.environ["AML_CONFIG_PATH"] = str(named)
    assert "base" in act.load().target_names


@pytest.mark.parametrize("text", ["_base_: [\n", "_base_: c3.yaml\n", "_base_: gone.yaml\n", b"_base_: \xff"])
def test_a_file_that_cannot_be_read_hides_no_other(act: Shop, text: str | bytes) -> None:
    act.put("aux_data/aml/c3.yaml", text)
    act.put("aux_data/aml/base.yaml", BASE)
    act.put("aux_data/aml/c1.yaml", "_base_: base.yaml\ncompute_target: one\n")
    assert act.load().target_names == ["aml", "c1", "c3", "local"]


def test_a_target_of_ones_own_may_be_called_as_a_base(act: Shop) -> None:
    act.put("aux_data/aml/base.yaml", BASE)
    act.put("aux_data/aml/c1.yaml", "_base_: base.yaml\ncompute_target: one\n")
    act.put("gofer.yaml", "targets:\n  base: {kind: local}\n")
    assert act.load().target("base").kind == "local"


def test_the_code_is_that_of_the_folder_with_aux_data(act: Shop) -> None:
    below = act.put("src/deep/a.py", "").parent
    from gofer.ops.session import Session

    assert Session(below, act.environ).settings.root == act.folder
