"""An import that is written to a file other than the project's, and does not read the project's file."""

from __future__ import annotations

import pytest
import yaml
from unit.importers.printed import PHILLY, TOOLKIT_2
from unit.importers.shop import WITH, Shop, tree

from gofer.config.folders import folders_of
from gofer.config.settings import load
from gofer.errors import ConfigError
from gofer.ops.settings.config_import import write_import

BLOB = "stores:\n  blob: {url: 'az://box', account: acct}\n"
RUNS = "{url: 'az://runs', account: acct}\n"


@pytest.mark.parametrize("to", ["elsewhere/gofer.yaml", "user"])
@pytest.mark.parametrize(
    ("own", "store"),
    [
        ("stores:\n  blob: {url: 'az://box', account: acct, key: '${secret:k}'}\n", "blob"),
        (f"targets:\n  msroctovc: {{kind: azureml, store: runs}}\n{BLOB}  runs: {RUNS}", "runs"),
    ],
)
def test_what_is_written_elsewhere_has_its_stores_with_it(shop: Shop, to: str, own: str, store: str) -> None:
    out = shop.session().paths.config_file if to == "user" else shop.folder.parent / to
    shop.put("gofer.yaml", own)
    shop.put("job.json", TOOLKIT_2)
    write_import(shop.plan("job.json", out=out))
    aside = shop.folder.parent / "elsewhere"
    aside.mkdir(exist_ok=True)
    settings = load(aside, paths=shop.session().paths, environ=shop.environ, kinds=WITH)
    target = settings.target("msroctovc")
    assert target.store == store
    assert settings.store(store).url.startswith("az://")
    assert settings.store(folders_of(settings, "msroctovc")["out"].store).url == "az://box@acct"
    assert store != "blob" or settings.store("blob").options.key == "${secret:k}"
    # In the project's own file there is nothing to add to the store.
    assert tree(shop.plan("job.json"))["stores"] == yaml.safe_load(own)["stores"]


def test_a_default_store_is_not_taken_elsewhere_but_named(shop: Shop) -> None:
    shop.put("gofer.yaml", f"{BLOB}  default: {RUNS}")
    shop.put("job.json", TOOLKIT_2)
    plan = shop.plan("job.json", out=shop.folder.parent / "x.yaml")
    assert "default" not in tree(plan, "x.yaml")["stores"]
    (note,) = [one for one in plan.notes if "in the store `default` of" in one]
    assert "`store: NAME` in the target `msroctovc`" in note


def test_two_stores_of_one_name_are_one_too_many(shop: Shop) -> None:
    """Which of them the datastore is cannot be told, so nothing is written."""
    other = shop.put("../other.yaml", "stores:\n  blob: {url: 'az://theirs', account: acct}\n")
    shop.put("gofer.yaml", BLOB)
    shop.put("job.json", TOOLKIT_2)
    with pytest.raises(ConfigError, match=r"has other values for `stores\.blob\.url`"):
        shop.plan("job.json", out=other)


def test_stores_of_phillys_folders_come_along(shop: Shop) -> None:
    shop.put("gofer.yaml", "stores:\n  vigeastblob_account: {url: 'az://box', account: acct}\n")
    shop.put("aux_data/configs/philly_vc.yaml", PHILLY)
    other = shop.put("../elsewhere/gofer.yaml", "targets:\n  lab: {kind: azureml, workspace: w}\n")
    plan = shop.plan("aux_data/configs/philly_vc.yaml", name="lab", out=other)
    write_import(plan)
    settings = load(other.parent, paths=shop.session().paths, environ=shop.environ, kinds=WITH)
    assert settings.store(settings.target("lab").store).url == "az://box@acct"
    assert folders_of(settings, "lab")["models"].store == "vigeastblob_account"
    assert any("runs on `lab` are kept in the store `vigeastblob_account`" in note for note in plan.notes)


def test_a_target_that_only_the_project_has_is_none_elsewhere(shop: Shop) -> None:
    """Its kind is said in the project's own file, which nobody reads there: it becomes a comment."""
    shop.put("gofer.yaml", f"targets:\n  lab: {{kind: local}}\n{BLOB}")
    shop.put("philly_vc.yaml", PHILLY)
    here = shop.plan("philly_vc.yaml", name="lab")
    assert "lab" in tree(here)["targets"]
    there = shop.plan("philly_vc.yaml", name="lab", out=shop.folder.parent / "x.yaml")
    assert "lab" not in (tree(there, "x.yaml").get("targets") or {})
    assert any("`targets.lab` is written as a comment: it has no kind yet" in one for one in there.notes)
