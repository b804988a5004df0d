"""Layers, origins and refusals of the settings files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from unit.config.project import ConfigProject, LabKind, LocalKind

from gofer.config.settings import Settings, load
from gofer.errors import ConfigError, UnknownName


def test_without_files_there_is_a_local_target_and_a_default_store(project: ConfigProject) -> None:
    settings = project.load()
    target = settings.target()
    assert (target.name, target.kind, target.store, target.options) == (
        "local",
        "local",
        "default",
        LocalKind(),
    )
    assert settings.store().url == project.paths.store_dir.as_uri()
    assert settings.store().origin == "built-in"
    assert settings.target_names == ["local"]
    assert settings.root == project.folder
    assert settings.project_file is None
    assert settings.ignore == ()


def test_options_of_every_type(project: ConfigProject) -> None:
    project.configure("""
        targets:
          lab:
            kind: lab
            login: no
            partition: cpu
            share: .5
            exclusive: yes
            hosts: [a, 007]
            labels: {on: off, n: 1_0}
            limit: many
            store: shared
        stores:
          shared: {url: "file:///shared/gofer"}
        """)
    target = project.load().target("lab")
    assert target.store == "shared"
    assert target.options == LabKind(
        login="no",
        partition="cpu",
        share=0.5,
        exclusive=True,
        hosts=("a", "007"),
        labels={"on": "off", "n": "1_0"},
        limit="many",
    )


def test_the_built_in_target_takes_options_without_its_kind(project: ConfigProject) -> None:
    project.configure("targets: {local: {gpus: 8, gpus_per_node: 4}}")
    assert project.load().target().options == LocalKind(gpus=8, gpus_per_node=4)


def test_project_over_user_key_by_key(project: ConfigProject) -> None:
    project.configure_user("""
        target: lab
        targets:
          lab: {kind: lab, login: me@login, share: 2, labels: {a: "1", b: "2"}}
          mine: {kind: local, gpus: 1, ignore: ["*.mine"]}
        ignore: ["*.user"]
        """)
    project.configure("""
        targets:
          lab: {share: 3, labels: {b: "3"}}
        stores:
          shared: {url: "file:///s"}
        ignore: ["*.project"]
        """)
    settings = project.load()
    assert settings.default_target == "lab"
    assert settings.target().options == LabKind(login="me@login", share=3.0, labels={"a": "1", "b": "3"})
    assert settings.target_names == ["lab", "local", "mine"]
    assert settings.store_names == ["default", "shared"]
    assert settings.ignore == ("*.user", "*.project")
    assert settings.ignored("local") == ("*.user", "*.project")
    assert settings.ignored("mine") == ("*.user", "*.project", "*.mine")


def test_a_target_of_another_kind_replaces_the_farther_one(project: ConfigProject) -> None:
    project.configure_user("targets: {lab: {kind: lab, login: me, share: 2}}")
    project.configure("targets: {lab: {kind: local, gpus: 2}}")
    assert project.load().target("lab").options == LocalKind(gpus=2)


def test_the_environment_names_the_target_but_not_inside_a_run(project: ConfigProject) -> None:
    project.configure("target: lab\ntargets: {lab: {kind: lab, login: x}, box: {kind: local}}")
    assert project.load().default_target == "lab"
    assert project.load(GOFER_TARGET="box").default_target == "box"
    assert project.load(GOFER_TARGET="box", GOFER_RUN_ID="r1").default_target == "lab"
    assert project.load(GOFER_TARGET="").default_target == "lab"


def test_flag_over_environment_over_job_file_over_project(project: ConfigProject) -> None:
    project.configure("target: lab\ntargets: {lab: {kind: lab, login: x}}")
    assert project.load(GOFER_TARGET="env").choose_target("flag", "file") == "flag"
    assert project.load(GOFER_TARGET="env").choose_target(None, "file") == "env"
    assert project.load().choose_target(None, "file") == "file"
    assert project.load().choose_target() == "lab"


def test_an_unknown_target_is_reported_with_its_origin_and_similar_names(project: ConfigProject) -> None:
    project.configure("target: labb\ntargets: {lab: {kind: lab, login: x}}")
    with pytest.raises(UnknownName, match=r"no target `labb` \(.*gofer\.yaml:1\)") as caught:
        project.load().target()
    assert caught.value.hint == "did you mean `lab`?"
    with pytest.raises(UnknownName, match=r"no target `zzz` \(env GOFER_TARGET\)") as caught:
        project.load(GOFER_TARGET="zzz").target()
    assert "`lab`, `local`" in str(caught.value.hint)
    with pytest.raises(UnknownName, match="no store `defalt`") as caught:
        project.load().store("defalt")
    assert caught.value.hint == "did you mean `default`?"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("tragets: {}\n", "gofer.yaml:1: unknown key `tragets`", "did you mean `targets`?"),
        ("job:\n  gpuss: 1\n", "gofer.yaml:2: unknown key `gpuss` in `job`", "did you mean `gpus`?"),
        ("job: {gpus: four}\n", "gofer.yaml:1: `job.gpus` must be a whole number, not `four`", None),
        ("job: {gpus: '4'}\n", "gofer.yaml:1: `job.gpus` must be a whole number, not the text `4`", None),
        ("job: {gpus: 010}\n", "gofer.yaml:1: `job.gpus` must be a whole number, not `010`", None),
        ("job: {gpus: -1}\n", "gofer.yaml:1: `job.gpus` must be at least 0, not `-1`", None),
        ("job: {gpus: [1]}\n", "gofer.yaml:1: `job.gpus` must be a whole number, not a list", None),
        ("job: {retries: 101}\n", "gofer.yaml:1: `job.retries` must be at most 100, not `101`", None),
        (
            "job: {priority: -1001}\n",
            "gofer.yaml:1: `job.priority` must be at least -1000, not `-1001`",
            None,
        ),
        ("job: {time_limit: 0}\n", "gofer.yaml:1: `job.time_limit` must be more than 0, not `0.0`", None),
        ("job: {time_limit: soon}\n", "gofer.yaml:1: `job.time_limit`: `soon` is not a duration", "write it"),
        ("job: {multi_process: maybe}\n", "gofer.yaml:1: `job.multi_process` must be true or false", None),
        ("job: {launcher: spwan}\n", "gofer.yaml:1: `job.launcher` must be one of", "did you mean `spawn`?"),
        ("job: {retry_on: [signals]}\n", "`job.retry_on[0]` must be one of", "did you mean `signal`?"),
        ("job: {env: [A]}\n", "gofer.yaml:1: `job.env` must be a map, not a list", None),
        (
            "job: {env: {A-B: c}}\n",
            "gofer.yaml:1: `A-B` cannot be a name in `job.env`",
            "write letters, digits",
        ),
        (
            "job: {tags: {'a b': c}}\n",
            "gofer.yaml:1: `a b` cannot be a name in `job.tags`",
            "write letters, digits",
        ),
        ("job: {name: ''}\n", "gofer.yaml:1: `job.name` must not be empty", None),
        ("job: 3\n", "gofer.yaml:1: `job` must be a map, not `3`", None),
        ("target: [a]\n", "gofer.yaml:1: `target` must be text, not a list", None),
        ("ignore: '*.pt'\n", "gofer.yaml:1: `ignore` must be a list, not the text `*.pt`", None),
        (
            "targets:\n  local: {ignore: a}\n",
            "gofer.yaml:2: `targets.local.ignore` must be a list, not `a`",
            None,
        ),
        ("targets: [a]\n", "gofer.yaml:1: `targets` must be a map", None),
        ("targets: {lab: local}\n", "gofer.yaml:1: `targets.lab` must be a map", "kind: local"),
        (
            "targets: {-x: {kind: local}}\n",
            "gofer.yaml:1: `-x` cannot be a name in `targets`",
            "write letters, digits",
        ),
        ("targets: {a: {gpus: 1}}\n", "gofer.yaml:1: `targets.a` needs the key `kind`", "`lab`, `local`"),
        ("targets: {a: {kind: loca}}\n", "there is no kind of target `loca`", "did you mean `local`?"),
        ("targets: {a: {kind: [x]}}\n", "gofer.yaml:1: `targets.a.kind` must be text", None),
        ("targets:\n  a:\n    kind: local\n    gpu: 1\n", "gofer.yaml:4: unknown key `gpu`", "`gpus`"),
        ("targets: {a: {kind: local, stor: x}}\n", "unknown key `stor`", "did you mean `store`?"),
        ("targets: {a: {kind: lab}}\n", "gofer.yaml:1: `targets.a` needs the key `login`", None),
        ("targets: {a: {kind: lab, login: }}\n", "`targets.a.login` must be text, not nothing", None),
        ("targets: {a: {kind: local, store: x}}\n", "there is no store `x`", "`default`"),
        ("targets: {a: {kind: local, job: {gpu: 1}}}\n", "unknown key `gpu` in `targets.a.job`", "`gpus`"),
        ("targets: {a: {kind: lab, login: '${env:}'}}\n", "is not a whole reference", "${env:NAME}"),
        (
            "targets: {a: {kind: lab, login: '${secrets:x}'}}\n",
            "`${secrets:…}` is not a reference",
            "${secret:…}",
        ),
        ("targets: {a: {kind: lab, login: x, share: 11}}\n", "`targets.a`: a share is at most 10", None),
        ("stores: {s: {}}\n", "gofer.yaml:1: `stores.s` needs the key `url`", None),
        ("stores: {s: {url: /data}}\n", "`stores.s.url` must be text that matches `://`", None),
        ("job: {keep: 5x}\n", "`job.keep` must be a size like `10GiB`, or `none`, not `5x`", None),
        ("job: {keep_most: none}\n", "`job.keep_most` must be a size like `10GiB`, not `none`", None),
        ("stores: {s: {url: 'file:///${secret:x}'}}\n", "must not hold a secret", None),
        ("folders: {d: {path: x, mode: link}}\n", "`folders.d.mode` must be one of", None),
        ("folders: {d: {path: x, store: y}}\n", "`folders.d.store`: there is no store `y`", "`default`"),
        ("folders: {d: {store: default}}\n", "gofer.yaml:1: `folders.d` needs the key `path`", None),
    ],
)
def test_what_is_wrong_is_refused_with_place_and_help(
    project: ConfigProject, text: str, message: str, hint: str | None
) -> None:
    error = project.refusal(text)
    assert message in error.message
    assert error.message.startswith("gofer.yaml:")
    assert "\n" not in error.message
    assert error.exit_status == 2
    if hint is None:
        assert error.hint is None or "did you mean" not in error.hint
    else:
        assert hint in str(error.hint)


def test_a_wrong_user_file_is_named_too(project: ConfigProject) -> None:
    project.configure_user("job:\n  gpus: x\n")
    assert project.refusal().message.startswith("config.yaml:2: ")


def test_keys_with_control_characters_stay_on_one_line(project: ConfigProject) -> None:
    assert project.refusal('"a\\nb\\e[2J": 1\n').message == r"gofer.yaml:1: unknown key `a\nb\x1b[2J`"


def test_empty_headings_say_nothing(project: ConfigProject) -> None:
    project.configure_user("job: {gpus: 2}")
    project.configure("job:\ntargets:\nstores:\nfolders:\nignore:\ntarget:\n")
    settings = project.load()
    assert settings.default_target == "local"
    assert [layer.entries for layer in settings.job_layers()][-2] != {}


def test_a_number_may_be_a_reference_and_is_looked_up_only_for_its_target(project: ConfigProject) -> None:
    project.configure(
        "targets: {a: {kind: local, gpus: '${env:N}', cpus: ${env:C:-3}}, b: {kind: local}}".replace(
            "${env:C:-3}", '"${env:C:-3}"'
        )
    )
    assert project.load().target("b").options == LocalKind()
    assert project.load(N="4").target("a").options == LocalKind(gpus=4, cpus=3)
    with pytest.raises(ConfigError, match=r"`targets\.a\.gpus` must be a whole number, not `four`"):
        project.load(N="four").target("a")
    with pytest.raises(ConfigError, match=r"gofer\.yaml:1: `targets\.a\.gpus`: .*`N` is not set"):
        project.load().target("a")


def test_text_keeps_its_reference_until_it_is_resolved(project: ConfigProject) -> None:
    project.configure("targets: {a: {kind: lab, login: '${env:WHO}@x'}}")
    settings = project.load(WHO="ada")
    options = settings.target("a").options
    assert isinstance(options, LabKind)
    assert options.login == "${env:WHO}@x"
    assert settings.resolve(options.login) == "ada@x"


def test_a_store_address_is_resolved(project: ConfigProject) -> None:
    project.configure("stores: {s: {url: 'file://${env:SCRATCH}/gofer'}}")
    assert project.load(SCRATCH="/scratch").store("s").url == "file:///scratch/gofer"


# -- finding the project


def test_the_project_file_is_found_from_a_folder_inside(project: ConfigProject) -> None:
    project.configure("target: local")
    inner = project.folder / "a" / "b"
    inner.mkdir(parents=True)
    settings = load(inner, paths=project.paths, environ=project.environ, kinds=project.kinds)
    assert settings.root == project.folder
    assert settings.folder == inner


def test_the_search_ends_at_a_git_root(project: ConfigProject) -> None:
    project.configure("target: local")
    repository = project.folder / "repository"
    (repository / ".git").mkdir(parents=True)
    (repository / "src").mkdir()
    settings = load(repository / "src", paths=project.paths, environ=project.environ, kinds=project.kinds)
    assert settings.project_file is None
    (repository / "gofer.yaml").write_text("target: local")
    settings = load(repository / "src", paths=project.paths, environ=project.environ, kinds=project.kinds)
    assert settings.root == repository


def test_a_file_in_the_home_folder_is_a_project_only_there(project: ConfigProject) -> None:
    work = project.home / "work"
    work.mkdir(parents=True)
    (project.home / "gofer.yaml").write_text("target: local")
    assert load(work, paths=project.paths, environ=project.environ, kinds=project.kinds).project_file is None
    settings = load(project.home, paths=project.paths, environ=project.environ, kinds=project.kinds)
    assert settings.root == project.home


def test_a_file_planted_where_everybody_may_write_is_not_read(project: ConfigProject, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    inner = shared / "mine"
    inner.mkdir(parents=True)
    (shared / "gofer.yaml").write_text("job: {setup: 'touch /planted'}")
    shared.chmod(0o1777)
    assert load(inner, paths=project.paths, environ=project.environ, kinds=project.kinds).project_file is None
    shared.chmod(0o755)
    assert load(inner, paths=project.paths, environ=project.environ, kinds=project.kinds).root == shared


def test_an_unreadable_project_file_is_an_error_and_not_an_absence(project: ConfigProject) -> None:
    os.symlink("nowhere", project.folder / "gofer.yaml")
    assert "cannot read" in project.refusal().message


# -- near misses


def test_misspelt_variables_and_files_are_mentioned(project: ConfigProject) -> None:
    (project.folder / "gofer.yml").write_text("")
    settings = project.load(GOFER_GPU="4", GOFER_TAGS="a", GOFER_ARG_GPU="1", GOFER_ZZZ="1", GOFER_GPUS="1")
    assert settings.warnings == [
        "`GOFER_GPU` is not a setting; did you mean `GOFER_GPUS`?",
        f"`{project.folder / 'gofer.yml'}` is not read; name it `gofer.yaml`",
    ]


# -- cost


def test_the_package_offers_its_names_lazily() -> None:
    import gofer.config

    assert gofer.config.load is load
    assert gofer.config.Settings is Settings
    assert not hasattr(gofer.config, "absent")


def test_without_files_neither_yaml_nor_msgspec_is_loaded(project: ConfigProject) -> None:
    code = """if True:
        import os, sys
        from pathlib import Path
        from gofer.config.paths import Paths
        from gofer.config.settings import Settings, load
        paths = Paths.from_environment(os.environ)
        settings = load(Path.cwd(), paths=paths, environ=os.environ, kinds={})
        assert settings.default_target == "local" and settings.store().url
        print(*sorted({"yaml", "msgspec", "dataclasses", "subprocess", "logging"} & set(sys.modules)))
        """
    environ = {**project.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(
        command, cwd=project.folder, env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
