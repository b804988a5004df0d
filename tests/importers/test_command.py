"""`gofer config import` as a person types it: what it prints, what it writes, what it never shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from data.project import Project
from unit.importers.printed import ACCOUNT, CLUSTER, CLUSTERS, PHILLY, TOOLKIT_1, WORKSPACE, XT

KEY = "ZHVtbXkta2V5LXRoYXQtb3BlbnMtbm90aGluZw=="
SAS = "?sv=2024-01-01&sp=rl&sig=ZHVtbXktc2lnbmF0dXJl%3D"
CANARIES = (
    KEY,
    "ZHVtbXktc2lnbmF0dXJl",
    "dummy-registry-pw",
    "dummy-hf-token-value",
    "dummy/account/key==",
    "dummy-pw-1",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    account = ACCOUNT.replace("account_key: xxxx", f"account_key: {KEY}").replace("?xxxx", SAS)
    files = {
        "aux_data/aml/aml.yaml": CLUSTER,
        "aux_data/aml/config.json": WORKSPACE,
        "aux_data/configs/vigeastblob_account.yaml": account,
        "aux_data/configs/philly_vc.yaml": PHILLY.replace("password: null", "password: dummy-pw-1"),
        "aux_data/configs/multi_philly_vc.yaml": CLUSTERS,
        "xt_config.yaml": XT,
        "job.json": TOOLKIT_1,
    }
    for name, text in files.items():
        path = made.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


def test_the_report_is_data_and_the_rest_is_talk(project: Project) -> None:
    done = project.gofer("config", "import", "aux_data/configs/vigeastblob_account.yaml")
    lines = done.out.splitlines()
    assert lines[0].split() == ["FROM", "KEY", "BECAME", "TO", "WHY"]
    assert lines[1].split() == [
        "aux_data/configs/vigeastblob_account.yaml:1", "account_name", "carried",
        "stores.vigeastblob_account.account",
    ]  # fmt: skip
    assert len(lines) == 5
    assert done.err.splitlines() == [
        "1 carried, 2 changed, 1 dropped",
        "wrote gofer.yaml",
        "next: `gofer secret set vigeastblob_account-key` (the value is in "
        "aux_data/configs/vigeastblob_account.yaml:2)",
    ]
    again = project.gofer("config", "import", "aux_data/configs/vigeastblob_account.yaml")
    assert "gofer.yaml has all of it already" in again.err


def test_files_of_which_nothing_is_left_write_nothing(project: Project) -> None:
    (project.folder / "aux_data/configs/multi_philly_vc.yaml").write_text("clusters: []\n")
    done = project.gofer("config", "import", "aux_data/configs/multi_philly_vc.yaml")
    assert done.err.splitlines()[-1] == "there was nothing to write"
    assert not (project.folder / "gofer.yaml").exists()


def test_a_dry_run_writes_nothing_wherever_the_option_stands(project: Project) -> None:
    before = sorted(project.folder.rglob("*"))
    done = project.gofer("--dry-run", "config", "import", "--out", "new.yaml", "job.json")
    assert "\n# new.yaml\ntargets:\n" in done.out
    assert "\n# jobs/first-try.yaml\n" in done.out
    assert "would write new.yaml" in done.err
    assert sorted(project.folder.rglob("*")) == before


def test_json(project: Project) -> None:
    done = project.gofer(
        "config", "import", "aux_data/configs/multi_philly_vc.yaml", "xt_config.yaml", "--json"
    )
    found = json.loads(done.out)
    assert sorted(found) == ["files", "keys", "notes", "secrets", "written"]
    assert found["written"] is True
    assert [one["path"] for one in found["files"]] == ["gofer.yaml"]
    assert found["files"][0]["text"] == (project.folder / "gofer.yaml").read_text()
    assert found["keys"][-1] == {
        "file": "aux_data/configs/multi_philly_vc.yaml",
        "line": 1,
        "key": "clusters",
        "became": "changed",
        "to": "target_groups.philly",
        "why": "`-c philly` is all of them where runs are looked up, and `-c wu1` is one",
    }


def test_other_commands_still_read_what_was_written(project: Project) -> None:
    """Also where a kind is not there, whatever this release has."""
    project.gofer("config", "import", "xt_config.yaml", "aux_data/aml/aml.yaml")
    assert "lab" in project.gofer("target", "list").out
    assert "${secret:xtstorage-key}" in project.gofer("config", "show").out
    assert project.gofer("list", "runs").status == 0


def test_no_secret_is_shown_or_written(project: Project) -> None:
    shown = ""
    for files in (
        ["aux_data/aml/aml.yaml", "xt_config.yaml", "job.json"],
        ["aux_data/configs/philly_vc.yaml", "--as", "lab"],
    ):
        for option in ("--dry-run", "--json", "--debug"):
            done = project.gofer("config", "import", *files, option)
            shown += done.out + done.err
    (project.folder / "bad.yaml").write_text(f"account_name: a\naccount_key: {KEY}\nsas_token: [{SAS!r}]\n")
    done = project.gofer("config", "import", "bad.yaml", "--debug", status=2)
    shown += done.out + done.err
    written = [project.folder / "gofer.yaml", *(project.folder / "jobs").iterdir()]
    shown += "".join(path.read_text() for path in written)
    assert "vigeastblob_account-key" in shown
    assert [canary for canary in CANARIES if canary in shown] == []


def test_errors_exit_with_2_and_say_what_to_do(project: Project) -> None:
    done = project.gofer("config", "import", "aux_data/configs/philly_vc.yaml", status=2)
    assert "hint: name it: `gofer config import FILE --as NAME`" in done.err
    done = project.gofer("config", "import", "nowhere.yaml", status=2)
    assert "cannot read `nowhere.yaml`: No such file or directory" in done.err
    done = project.gofer("config", "import", "job.json", "--as", "../x", status=2)
    assert "cannot be the name of a target" in done.err
    done = project.gofer("config", "import", status=2, cwd=project.root)
    assert "no file was named" in done.err
    assert not (project.folder / "gofer.yaml").exists()


def test_a_target_on_azure_is_written_for_real(project: Project) -> None:
    done = project.process("config", "import", "aux_data/aml/aml.yaml")
    assert "written as a comment" not in done.err
    assert "\n  aml:\n    kind: azureml\n" in (project.folder / "gofer.yaml").read_text()
    assert project.gofer("config", "show").out.count("not used") == 0
