"""Names that the program of a function and the submitting side share. Part of the zip, so without imports."""

KEY_VARIABLE = "GOFER_RESULT_KEY"
"""The variable with the key by which the run signs its results."""

ROW = "row"
"""The column of an array with the number of the call of each row."""

FACTS = "function.json"
FUNCTION = "function.pkl"
"""Members of the zip; the arguments of a call are in `arguments/<row>`, `arguments/0` without an array."""
