"""The Python packages of a run, built on its node from the file of the project that lists them.

    package_files     which file lists the packages, and which tool reads it
    pyproject         what a pyproject.toml says
    requirement_list  what a requirements.txt says, with all it includes
    interpreter       the Python of the node
    recipe            everything that decides what is built, and its hash
    cache             the folder of built environments: locks, marks, removal
    tools             pip, uv and conda, run to build one environment
    tool_errors       the part of their output that says why they failed
    project_metadata  metadata for importlib.metadata about a project that is not installed
    archive           built environments in an object store, for nodes without a lasting disk
    provide           puts all of this together, for one run on one node

An environment holds only the dependencies. Each run imports the project from its own working copy.
"""
