"""Where a pod finds what gofer gives it: paths, variables and exit statuses that both sides know."""

from __future__ import annotations

# The word after the agent's zip file on the command line of a pod.
PROGRAM = "kubernetes"

AGENT_FOLDER = "/gofer/agent"
AGENT_FILE = "agent.zip"
RUN_FOLDER = "/gofer/run"
REQUEST = "request.json"
PRIVATE = "private.json"
WORK_FOLDER = "/gofer/work"
HOME = f"{WORK_FOLDER}/home"
PYTHON_FOLDER = f"{WORK_FOLDER}/python"
TERMINATION_LOG = "/dev/termination-log"

POD = "GOFER_POD"
POD_UID = "GOFER_POD_UID"
POD_IP = "GOFER_POD_IP"
NODE_NAME = "GOFER_NODE_NAME"
INDEX = "GOFER_INDEX"

# The exit statuses of the agent, for the failure policy of the Job. The run is over and has failed.
FAILED = 91
# The run is not over, and the pod may be started again: the node is taken away, or other nodes are missing.
AGAIN = 75
