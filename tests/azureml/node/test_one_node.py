"""The agent as the service starts it on one node."""

from __future__ import annotations

import json

from azureml.node.service import Service


def test_a_command_that_succeeds(service: Service) -> None:
    job = service.job(["sh", "-c", "echo hello; echo $GOFER_RANK of $GOFER_RUN_ID > $GOFER_OUTPUT_DIR/rank"])
    (done,) = job.run()
    assert done.status == 0, done.err
    end = job.end()
    assert (end["id"], end["state"], end["exit_code"], end["row"]) == (job.id, "succeeded", 0, None)
    assert [(one["number"], one["state"]) for one in end["attempts"]] == [(1, "succeeded")]
    assert job.log() == "hello\n"
    assert job.read("outputs/rank") == f"0 of {job.id}\n"
    assert "hello\n" in done.out
    assert job.handoff_keys() == ["over.json", "request.json"]


def test_it_ends_as_its_command_does(service: Service) -> None:
    job = service.job(["sh", "-c", "echo bad; exit 7"])
    (done,) = job.run()
    assert (done.status, job.end()["exit_code"]) == (7, 7)
    assert (job.end()["state"], job.end()["reason"]) == ("failed", "exit-code")


def test_it_is_tried_again_in_place(service: Service) -> None:
    script = 'echo try $GOFER_ATTEMPT; test "$GOFER_ATTEMPT" = 3'
    job = service.job(["sh", "-c", script], retries=2)
    (done,) = job.run()
    assert done.status == 0, done.err
    assert [(one["number"], one["state"]) for one in job.end()["attempts"]] == [
        (1, "failed"),
        (2, "failed"),
        (3, "succeeded"),
    ]
    assert [job.log(number) for number in (1, 2, 3)] == ["try 1\n", "try 2\n", "try 3\n"]
    assert done.out.count("try ") == 3


def test_all_ranks_of_a_node(service: Service) -> None:
    job = service.job(["sh", "-c", "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR"], procs=4)
    (done,) = job.run()
    assert done.status == 0, done.err
    assert [job.log(rank=rank) for rank in range(4)] == [f"{rank}/4 {rank} 127.0.0.1\n" for rank in range(4)]
    assert "1/4 1" not in done.out  # only the first rank is echoed
    assert f"runs/{job.id}/attempts/1/node-0/" in done.out


def test_set_up_is_printed_and_its_failure_is_reported(service: Service) -> None:
    job = service.job(["true"], setup="echo preparing\nfalse")
    (done,) = job.run()
    assert done.status == 1
    assert "preparing\n" in done.out
    assert (job.end()["state"], job.end()["reason"]) == ("failed", "set-up")


def test_what_the_command_finds_in_its_environment(service: Service) -> None:
    job = service.job(
        ["sh", "-c", "env -0 > $GOFER_OUTPUT_DIR/env"],
        env={"PLAIN": "of the job", "AZUREML_RUN_ID": "changed"},
        environment={"TOKEN": "dummy-private-token"},
        tags={"a": "b"},
    )
    job.environ |= {"SITE": "of the image", "AZURE_ML_INPUT_gofer_run": "/somewhere"}
    job.environ |= {"RANK": "9", "MASTER_ADDR": "10.0.0.4"}
    (done,) = job.run()
    assert done.status == 0, done.err
    found = dict(line.partition("=")[::2] for line in job.read("outputs/env").split("\0") if line)
    assert (found["PLAIN"], found["TOKEN"], found["SITE"]) == (
        "of the job",
        "dummy-private-token",
        "of the image",
    )
    assert (found["AZUREML_RUN_ID"], found["GOFER_RANK"], found["GOFER_TAGS"]) == ("changed", "0", "a=b")
    assert not {"RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"} & set(found)
    assert found["AZ_BATCH_HOST_LIST"] == "127.0.0.1"
    assert (found["IDENTITY_HEADER"], found["MSI_SECRET"]) == ("dummy-node-secret",) * 2
    assert "AZURE_ML_INPUT_gofer_run" not in found


def test_hostile_words_come_through_as_they_are(service: Service) -> None:
    words = ["a b", "'", '"$HOME"', "`id`", "${{inputs.x}}", "new\nline", "*", "\\", "--row", "é", "x=y"]
    job = service.job(["python3", "-c", "import json, sys; print(json.dumps(sys.argv[1:]))", *words])
    (done,) = job.run()
    assert done.status == 0, done.err
    assert json.loads(job.log()) == words


def test_a_row_of_an_array(service: Service) -> None:
    rows = [["1", "one"], ["2", "two"]]
    job = service.job(["sh", "-c", "echo {x} {name} $GOFER_ARG_X; exit 4"], columns=["x", "name"], rows=rows)
    job.words = ["--row", "1"]
    (done,) = job.run()
    run = f"{job.id}-1"
    assert done.status == 4
    assert job.log(run=run) == "2 two 2\n"
    assert (job.end(run)["id"], job.end(run)["row"], job.end(run)["exit_code"]) == (run, 1, 4)
    assert sorted(job.handoff_keys()) == ["private.json", "request.json"]  # the other rows need it


def test_private_values_are_only_in_the_handoff_objects(service: Service) -> None:
    script = "echo out; echo err >&2; false"
    job = service.job(["sh", "-c", script], environment={"TOKEN": "dummy-private-token"}, retries=1)
    (done,) = job.run()
    signature = service.spec["sas"].rpartition("sig=")[2]
    hidden = ["dummy-private-token", signature, "dummy-node-secret"]
    for info in service.objects.list():
        text = service.objects.get(info.key).decode()
        assert not [word for word in hidden if word in text], info.key
    assert not [word for word in hidden if word in done.out + done.err]
