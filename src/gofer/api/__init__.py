"""gofer from Python: submit a command or a function, wait for it, read its log and its result.

    run = gofer.submit(["python", "train.py"], target="lab", gpus=8, tags={"lr": "0.1"})
    run.wait()
    print(run.state, run.logs())

Every call blocks, prints nothing, and may raise gofer.GoferError. What the command line says on stderr goes
to the logger `gofer`, which is silent until the program sets up `logging`.
"""
