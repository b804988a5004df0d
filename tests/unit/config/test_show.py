"""`gofer config show`: every value, its origin, and no credential."""

from __future__ import annotations

from unit.config.project import ConfigProject

from gofer.config.show import rows


def shown(project: ConfigProject, **variables: str) -> dict[str, tuple[str, str]]:
    return {row.key: (row.value, row.origin) for row in rows(project.load(**variables))}


def test_without_files_everything_is_built_in(project: ConfigProject) -> None:
    found = shown(project)
    assert {origin for _, origin in found.values()} == {"built-in"}
    assert found["target"][0] == "local"
    assert found["job.gpus"][0] == "0"
    assert found["job.grace"][0] == "10s"
    assert found["job.multi_process"][0] == "true"
    assert found["job.time_limit"][0] == "-"
    assert found["job.retry_on"][0] == "exit-code, signal, preempted, node-failure, staging"
    assert found["targets.local.kind"][0] == "local"
    assert found["stores.default.url"][0] == project.paths.store_dir.as_uri()


def test_each_value_has_its_origin(project: ConfigProject) -> None:
    project.configure_user(
        "target: lab\ntargets:\n  lab:\n    kind: lab\n    login: me\n    hosts: [a, b]\njob: {env: {A: u}}"
    )
    project.configure(
        "targets:\n  lab:\n    login: you\n    job: {retries: 2}\n"
        "ignore: ['*.pt']\njob: {env: {B: '${env:B}'}}"
    )
    found = shown(project, GOFER_GPUS="3")
    assert found["target"] == ("lab", "config.yaml:1")
    assert found["targets.lab.login"] == ("you", "gofer.yaml:3")
    assert found["targets.lab.hosts"] == ("a, b", "config.yaml:6")
    assert found["job.gpus"] == ("3", "env GOFER_GPUS")
    assert found["job.retries"] == ("2", "gofer.yaml:4")
    assert found["job.env.A"] == ("u", "config.yaml:7")
    assert found["job.env.B"] == ("${env:B}", "gofer.yaml:6")
    assert found["ignore"] == ("*.pt", "gofer.yaml:5")


def test_credentials_are_masked_and_references_are_not(project: ConfigProject) -> None:
    project.configure("""
        stores:
          a: {url: "az://user:dummy-pass-1@host/c?x=1&sig=dummy-sig-2&y=2"}
        targets:
          a: {kind: lab, login: me, token: dummy-token-3}
          b: {kind: lab, login: me, token: "${secret:lab}"}
        job:
          env: {API_KEY: dummy-key-4, HF_TOKEN: "${secret:hf}", PLAIN: seen, URL: "https://h/?token=dummy-5"}
        """)
    found = shown(project)
    assert found["stores.a.url"][0] == "az://user:***@host/c?x=1&sig=***&y=2"
    assert found["targets.a.token"][0] == "***"
    assert found["targets.b.token"][0] == "${secret:lab}"
    assert found["job.env.API_KEY"][0] == "***"
    assert found["job.env.HF_TOKEN"][0] == "${secret:hf}"
    assert found["job.env.PLAIN"][0] == "seen"
    assert "dummy" not in str(found)


def test_values_that_were_revealed_are_masked(project: ConfigProject) -> None:
    project.configure("job: {env: {PLAIN: dummy-revealed-6}}")
    settings = project.load()
    settings.secrets.set("s", "dummy-revealed-6")
    settings.reveal({"x": "${secret:s}"})
    assert "dummy-revealed-6" not in str(rows(settings))


def test_nothing_is_looked_up_and_wrong_variables_are_shown(project: ConfigProject) -> None:
    project.configure(
        "job: {gpus: '${env:ABSENT}', time_limit: 01:30:00}\ntargets: {local: {gpus: '${env:ABSENT}'}}"
    )
    found = shown(project, GOFER_RETRIES="many")
    assert found["job.gpus"] == ("${env:ABSENT}", "gofer.yaml:1")
    assert found["job.time_limit"] == ("01:30:00", "gofer.yaml:1")
    assert found["targets.local.gpus"] == ("${env:ABSENT}", "gofer.yaml:2")
    assert found["job.retries"] == ("many", "env GOFER_RETRIES")


def test_a_wrong_default_target_can_still_be_looked_at(project: ConfigProject) -> None:
    project.configure("target: absent")
    assert shown(project)["target"] == ("absent", "gofer.yaml:1")
