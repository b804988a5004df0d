"""The target of a run from any folder: whose settings are believed, and what the ledger keeps of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from unit.ops.project import OpsProject
from unit.ops.run_folders import make_record

from gofer.backends.registry import Kinds
from gofer.backends.slurm.options import SlurmOptions
from gofer.config.target_definition import TargetDefinition, define, defined_settings
from gofer.errors import CheckFailed, ConfigError, TargetGone
from gofer.model.run import CodeOrigin
from gofer.ops.maintenance.rebuild import rebuild
from gofer.ops.runs import run_origin
from gofer.ops.runs.observe import refresh
from gofer.ops.session import Session
from gofer.tracking.ledger import RunRow

RUN = "r261116-091233-k9qd4x"
LAB = "targets: {lab: {kind: slurm, folder: /far/one, partition: gpu, store: fs}}\n"
STORES = "stores: {fs: {url: 'file:///nowhere/shared'}}\n"


def configure(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gofer.yaml").write_text(text)
    return folder


def at(project: OpsProject, folder: Path) -> Session:
    folder.mkdir(parents=True, exist_ok=True)
    return Session(folder=folder, environ=project.environ, emit=project.note)


def sent(project: OpsProject, text: str = LAB + STORES) -> RunRow:
    """A run on `lab`, as a submission from the project of the project records it."""
    configure(project.folder, text)
    session = at(project, project.folder)
    definition = run_origin.define(session, "lab", "file:///nowhere/shared")
    record = make_record(RUN, target="lab", backend="slurm")
    return project.add(record, definition=definition, project=session.project)


def folder_option(session: Session, row: RunRow) -> str:
    options = session.of_run(row).settings.target("lab").options
    assert isinstance(options, SlurmOptions)
    return options.folder


def test_the_project_as_it_is_now_wins_then_the_ledger(project: OpsProject, tmp_path: Path) -> None:
    row = sent(project)
    same_name = configure(tmp_path / "b", LAB.replace("/far/one", "/far/another") + STORES)
    assert folder_option(at(project, same_name), row) == "/far/one"
    configure(project.folder, LAB.replace("/far/one", "/far/moved") + STORES)
    assert folder_option(at(project, same_name), row) == "/far/moved"
    configure(project.folder, "targets: {lab: {kind: local}}\n")  # another kind is another target
    assert folder_option(at(project, same_name), row) == "/far/one"
    configure(project.folder, "targets: {lab: [\n")
    assert folder_option(at(project, same_name), row) == "/far/one"
    os.unlink(project.folder / "gofer.yaml")
    project.folder.rmdir()
    assert folder_option(at(project, same_name), row) == "/far/one"
    assert folder_option(at(project, tmp_path / "c"), row) == "/far/one"


def test_a_folder_of_somebody_else_is_not_believed(project: OpsProject, tmp_path: Path) -> None:
    row = sent(project)
    configure(project.folder, LAB.replace("/far/one", "/far/stolen") + STORES)
    os.chown(project.folder, 12345, 12345)
    assert folder_option(at(project, tmp_path / "c"), row) == "/far/one"


def test_a_record_of_a_store_gives_a_name_and_no_more(project: OpsProject, tmp_path: Path) -> None:
    theirs = configure(tmp_path / "theirs", LAB.replace("/far/one", "/far/evil") + STORES)
    row = project.add(make_record(RUN, target="lab", backend="slurm", code=CodeOrigin(folder=str(theirs))))
    with pytest.raises(TargetGone, match=r"the target `lab` of k9qd4x .*ann@bench in `.*/theirs`"):
        at(project, tmp_path / "c").backend_of(row)
    mine = configure(tmp_path / "mine", LAB.replace("/far/one", "/far/mine") + STORES)
    assert folder_option(at(project, mine), row) == "/far/mine"


def test_an_unreachable_target_does_not_prevent_questions_to_others(project: OpsProject) -> None:
    project.add(make_record(RUN, target="lab", backend="slurm"))
    other = project.add(make_record("r261116-091234-bbbbbb"))
    project.run_folder(other.id).exit("succeeded")
    with pytest.raises(TargetGone):
        refresh(project.session)
    assert project.get(other.id).state == "succeeded"


def test_no_secret_is_kept_and_nothing_is_sent_without_it(project: OpsProject, tmp_path: Path) -> None:
    text = (
        "targets:\n"
        "  lab: {kind: slurm, folder: /far/one, store: blob, partition: '${env:PART:-gpu}',\n"
        "        prelude: 'export WANDB_API_KEY=canary-in-prelude'}\n"
        "stores:\n"
        "  blob: {url: 'az://box/pre', account: acct, sas: '${secret:acct-sas}', endpoint: 'http://127.0.0.1:1'}\n"
    )
    row = sent(project, text)
    kept = project.session.ledger.definition(row.definition) or ""
    assert "canary" not in kept
    assert "${secret:acct-sas}" in kept and "${env:PART:-gpu}" in kept
    definition = TargetDefinition.from_json(kept)
    assert definition.withheld == ("prelude",)
    assert definition == TargetDefinition.from_json(definition.to_json())
    elsewhere = at(project, tmp_path / "c")
    run_origin.check_whole(elsewhere, row)  # the project still has it
    os.unlink(project.folder / "gofer.yaml")
    with pytest.raises(CheckFailed, match="`prelude`, which may hold a secret"):
        run_origin.check_whole(elsewhere, row)
    settings = elsewhere.of_run(row).settings
    assert settings.store("blob").options.sas == "${secret:acct-sas}"
    assert settings.store("blob").url == "az://box@acct/pre"


def test_values_are_read_again_as_they_were_written(project: OpsProject) -> None:
    odd = "{kind: slurm, account: '007', gpus_per_node: 8, requeue: no, extra: ['--x=1', y]}"
    configure(project.folder, f"targets: {{lab: {odd}}}\n")
    settings = at(project, project.folder).settings
    definition = TargetDefinition.from_json(define(settings, "lab").to_json())
    again = defined_settings(definition, settings.paths, settings.environ, Kinds())
    assert again.target("lab").options == settings.target("lab").options


def test_a_rebuilt_ledger_knows_where_runs_came_from(project: OpsProject) -> None:
    row = sent(project)
    rebuild(project.session)
    found = project.get(RUN)
    assert (found.project, found.definition) == (row.project, row.definition)
    assert project.session.ledger.definition(row.definition)


PARTS = {"target": "a", "kind": "b", "project": "c", "store": "d", "store_entries": {"map": {}}}


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"target": 1}', "5"])
def test_a_definition_that_is_none_is_refused_in_words(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        TargetDefinition.from_json(text)


@pytest.mark.parametrize("options", [{"map": "x"}, {"map": 5}, {}, 5, None, {"map": {"a": None}}])
def test_a_definition_with_other_options_is_refused_in_words(options: object) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        TargetDefinition.from_json(json.dumps({**PARTS, "withheld": [], "options": options}))


@pytest.mark.parametrize("part", ["target", "kind", "project", "store"])
@pytest.mark.parametrize("value", [1, None, ["x"], {"map": {}}, "a\0b"])
def test_a_definition_with_other_names_is_refused_in_words(part: str, value: object) -> None:
    whole = {**PARTS, "withheld": [], "options": {"map": {}}}
    assert TargetDefinition.from_json(json.dumps(whole)).target == "a"
    with pytest.raises(ConfigError, match="cannot be read"):
        TargetDefinition.from_json(json.dumps({**whole, part: value}))
