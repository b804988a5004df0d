"""What a target has and what else the service knows: nodes, quotas, waits, jobs of others, logs, pages."""

from __future__ import annotations

import getpass
import json
import re
import subprocess
from pathlib import Path

import pytest
from azureml.backend.azure_home import SUBSCRIPTION, AzureHome
from home import until
from services.azure import Azure
from terminal import Terminal, screen

pytestmark = [pytest.mark.net, pytest.mark.slow, pytest.mark.xdist_group("azure-besides")]


def shown(home: AzureHome, target: str) -> str:
    return home.gofer("target", "show", target).out


def test_a_compute(home: AzureHome) -> None:
    text = shown(home, "gpu")
    assert "4 of 4 free" in text and "STANDARD_NC24RS_V3" in text and "4 idle, 0 busy" in text


def test_kubernetes(home: AzureHome) -> None:
    assert re.search(
        r"NAME +CPU +GPU +DEFAULT\n +defaultinstancetype +2 +yes\n +gpu1 +1\n +gpu4 +4\n", shown(home, "itp")
    )


def test_a_virtual_cluster(home: AzureHome) -> None:
    text = shown(home, "vc")
    for tier in ("Premium", "Standard", "Basic"):
        assert re.search(rf"eastus +{tier} +NDv2 +0 +16", text)
    assert re.search(r"NAME +SERIES +GPUS +CORES +LOCATIONS", text)
    assert re.search(r"ND40rs_v2 +NDv2 +8 +\d+ +eastus,southcentralus", text)


def test_nodes(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sleep", "600")
    azure.wait(run, "Running")
    text = home.gofer("list", "nodes", "-c", "aml").out
    assert sum(run in line and "busy" in line for line in text.splitlines()) == 1
    home.gofer("abort", run)


def test_why_a_run_waits(home: AzureHome, azure: Azure) -> None:
    azure.admin("POST", "/hold", {"held": True})
    run = home.submit("true")
    assert f"{run[-6:]} waits: " in home.gofer("why", run).out
    azure.admin("POST", "/hold", {"held": False})
    home.gofer("wait", run)
    assert home.python(f"say(session.backend('aml').waiting(RunRef('{run}')))") is None


def test_a_full_compute_says_so(home: AzureHome, azure: Azure) -> None:
    runs = [home.submit("-c", "gpu", "-n", "16", "sleep", "600"), home.submit("-c", "gpu", "-n", "4", "true")]
    azure.wait(runs[0], "Running")
    assert "all 4 nodes of the compute are in use" in home.gofer("why", runs[1]).out
    home.gofer("abort", *runs)


def test_jobs_of_others(home: AzureHome, azure: Azure) -> None:
    azure.admin(
        "POST",
        "/jobs",
        {
            "name": "jianfw_1563257309_60ce2fc7",
            "experiment": "jianfw",
            "command": "python train.py",
            "status": "Failed",
            "error": {"code": "UserError", "message": "it broke"},
            "logs": {"azureml-logs/70_driver_log_0.txt": "old log\n", "azureml-logs/55_x.txt": "other\n"},
            "nodes": 2,
        },
    )
    found = home.python("""
b = session.backend("aml")
jobs = b.jobs(JobFilter(name_end="60ce2fc7"))
job = b.job(jobs[0].name)
say([[one.name for one in jobs], job.state, job.command, job.nodes, job.is_ours, job.experiment, job.error,
     [one.name for one in b.jobs(JobFilter(states=frozenset({State.FAILED}), experiment="jianfw"))],
     [*b.native_logs(job.name)],
     b.read_native(job.name, "azureml-logs/70_driver_log_0.txt", 4).decode(),
     b.read_native(job.name, "azureml-logs/70_driver_log_0.txt", 8).decode(),
     b.read_native(job.name, "none", 0).decode(), [*b.native_logs("none")], b.job("none")])
""")
    name = "jianfw_1563257309_60ce2fc7"
    assert found[:8] == [
        [name],
        "failed",
        "python train.py",
        2,
        False,
        "jianfw",
        "it broke (UserError)",
        [name],
    ]
    assert found[8] == ["azureml-logs/70_driver_log_0.txt", "azureml-logs/55_x.txt"]
    assert found[9:] == ["log\n", "", "", [], None]


def test_a_log_grows(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sh", "-c", "echo one; sleep 3; echo two")
    azure.wait(run)
    text = home.python(f"""
b = session.backend("aml")
(first, *_) = b.native_logs("{run}")
whole = b.read_native("{run}", first, 0)
at = whole.index(b"two")
say([first, whole.decode(), b.read_native("{run}", first, at).decode()])
""")
    assert text[0] == "user_logs/std_log.txt" and "one\ntwo\n" in text[1] and text[2].startswith("two\n")


def test_pages(home: AzureHome) -> None:
    where = f"wsid=/subscriptions/{SUBSCRIPTION}/resourceGroups/sim-group/providers/"
    assert home.gofer("view", "portal", "aml").out.startswith(
        "https://ml.azure.com/compute/cpu-cluster/details?wsid="
    )
    run = home.submit("true")
    assert home.gofer("view", "portal", run).out.startswith(f"https://ml.azure.com/runs/{run}?{where}")
    again = home.gofer("resubmit", run)
    new = again.out.strip()
    assert f"its page: https://ml.azure.com/runs/{new}?{where}" in again.err
    home.gofer("abort", "-Q", "--grace", "0s", new)


def test_a_page_with_a_long_address_is_a_command_on_a_terminal(home: AzureHome) -> None:
    with Terminal(home.argv("submit", "--no-code", "true"), cwd=home.folder, env=home.environ) as terminal:
        assert terminal.end() == 0
    (line,) = [line for line in screen(terminal.shown) if line.startswith("its page: ")]
    command = line.partition("`gofer ")[2].rstrip("`").split()
    assert command[-1] == "--browse" and len(line) < 80
    address = home.gofer(*command[:-1]).out
    assert address.startswith("https://ml.azure.com/runs/r")


def test_no_command_for_a_shell_is_shown_for_a_run_without_one(home: AzureHome, azure: Azure) -> None:
    run = home.submit("sleep", "60")
    azure.wait(run, "Running")
    until(lambda: home.view(run)["state"] == "running", "it runs")
    assert "gofer ssh" not in home.gofer("q", run).out + home.gofer("why", run).out
    home.gofer("abort", "-Q", "--grace", "0s", run)


def test_a_warning_about_another_project_names_the_target_and_the_project(
    home: AzureHome, azure: Azure
) -> None:
    run = home.submit("sleep", "60")
    azure.wait(run, "Running")
    elsewhere = home.root / "else where"
    elsewhere.mkdir()
    key = home.environ.pop("DUMMY_KEY")

    def talk(folder: Path) -> str:
        """What `list` says; a busy machine may need longer than `list` waits."""
        said = home.gofer("list", "runs", cwd=folder).err
        return "" if "did not answer within" in said else said

    there = until(lambda: talk(elsewhere), "an answer")
    assert f"warning: `aml` of `{home.folder}` cannot be asked: " in there
    assert f"hint: in `{home.folder}`, `gofer config check` lists every error of the settings" in there
    here = until(lambda: talk(home.folder), "an answer")
    assert "warning: `aml` cannot be asked: " in here and "hint: `gofer config check`" in here
    home.environ["DUMMY_KEY"] = key
    home.gofer("abort", "-Q", "--grace", "0s", run)


def test_a_shell_needs_a_run_that_runs(home: AzureHome, azure: Azure) -> None:
    run = home.submit("true")
    azure.wait(run)
    assert "is no longer running" in home.gofer("ssh", run, "ls", status=1).err
    found = home.python(f"""
from gofer.errors import CheckFailed
try:
    session.backend("aml").shell(RunRef("{run}"), [], terminal=False)
except CheckFailed as error:
    say(error.message)
""")
    assert found == f"{run} is succeeded, but a shell needs a run that is running"


@pytest.mark.parametrize("word", ["failed", "killing"])
def test_kubernetes_tags(home: AzureHome, azure: Azure, word: str) -> None:
    run = home.submit("-c", "itp", "-n", "4", "sleep", "600")
    azure.wait(run, "Running")
    azure.arm("POST", f"/jobs/{run}/cancel")
    azure.wait(run, "Canceled")
    azure.admin("POST", f"/jobs/{run}/become", {"tags": {"amlk8s status": word}})
    seen = home.python(f"say(session.backend('itp').observe([RunRef('{run}')])['{run}'].state)")
    assert seen == "failed"


def _with_key(home: AzureHome) -> None:
    key = home.root / "id_test"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=60)
    text = (home.folder / "gofer.yaml").read_text()
    more = f'interactive: true, ssh_public_key: "{key}.pub", compute: '
    (home.folder / "gofer.yaml").write_text(text.replace("compute: ", more))


def test_a_real_shell_by_the_tag_of_kubernetes(home: AzureHome, azure: Azure) -> None:
    _with_key(home)
    run = home.submit("-c", "itp", "-n", "4", "sleep", "600")
    azure.wait(run, "Running")
    until(lambda: "ssh://" in json.dumps(azure.arm("GET", f"/jobs/{run}")), "the job has a shell")
    done = home.gofer("ssh", run, "echo", "in the run's place; $HOME")
    assert done.out == "in the run's place; $HOME\n"
    home.gofer("abort", run)


def test_a_shell_on_each_node_of_a_job(home: AzureHome, azure: Azure) -> None:
    """Each node has an sshd of its own, which knows whose node it is by the service's variables."""
    _with_key(home)
    run = home.submit("-c", "gpu", "-n", "8", "sleep", "600")
    azure.wait(run, "Running")
    until(lambda: len(azure.job(run)["shells"]) == 2, "both nodes have a shell")
    ask = (run, "printenv", "AZ_BATCH_NODE_ID")
    seen = [home.gofer("ssh", "--node", str(node), *ask).out for node in (0, 1)]
    assert seen == ["tvmps_0\n", "tvmps_1\n"]
    assert "has no node 2" in home.gofer("ssh", "--node", "2", run, "true", status=2).err
    home.gofer("abort", run)


def test_a_real_shell_over_a_websocket(home: AzureHome, azure: Azure) -> None:
    _with_key(home)
    run = home.submit("sleep", "600")
    azure.wait(run, "Running")
    until(lambda: "wss://" in json.dumps(azure.arm("GET", f"/jobs/{run}")), "the job has a shell")
    argv = home.python(f"say(session.backend('aml').shell(RunRef('{run}'), ['cat'], terminal=False))")
    assert f"{getpass.getuser()}@127.0.0.1" in argv and azure.token() not in " ".join(argv)
    sent = bytes(range(256)) * 2000
    done = subprocess.run(argv, input=sent, env=home.environ, capture_output=True, timeout=100, check=False)
    assert done.stdout == sent, done.stderr
    home.gofer("abort", run)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["-c", "gpu", "-n", "400"],
            "the run needs 100 nodes, and the compute `gpu-cluster` of the target `gpu`",
        ),
        (["-c", "gpu", "--memory", "64G"], "is a whole machine of the size `"),
        (
            ["-c", "gpu", "-n", "4", "--gpu-type", "h100"],
            "asks for GPUs of the type `h100`, but the machines",
        ),
        (["-c", "itp", "-n", "4", "--gpu-type", "h100"], "no instance type with 4 GPUs of the type `h100`"),
        (["-c", "vc", "-n", "1", "--memory", "1G"], "so `--memory` cannot be followed"),
        (["-c", "vc", "-n", "1", "--gpu-type", "h100"], "no instance type with a GPU of the type `h100`"),
    ],
)
def test_what_the_service_can_never_run_is_refused_before_the_code_is_sent(
    home: AzureHome, options: list[str], words: str
) -> None:
    done = home.gofer("submit", *options, "true", status=1)
    assert words in done.err and "code:" not in done.err


def test_the_instance_type_follows_the_type_of_gpu(home: AzureHome) -> None:
    for gpu, name in (("a100", "ND12_v4g1"), ("v100", "ND40_v2g1")):
        plan = home.gofer("submit", "--dry-run", "-c", "vc", "-n", "1", "--gpu-type", gpu, "true").out
        assert f'"instanceType": "Singularity.{name}"' in plan
    plan = home.gofer("submit", "--dry-run", "-c", "itp", "-n", "4", "--memory", "1T", "true").out
    assert '"instanceType": "gpu4"' in plan


def test_a_node_without_an_ssh_server_is_named(home: AzureHome, azure: Azure) -> None:
    run = home.submit("-c", "gpu", "-n", "4", "sleep", "600")
    azure.wait(run, "Running")
    refused = home.gofer("ssh", run, "true", status=1).err
    assert refused.startswith("error: nothing listens at 127.0.0.1:50000"), refused
    home.gofer("abort", run)
