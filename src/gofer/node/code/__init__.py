"""The code of a run on a node: restore it, make working copies of it, reset and remove them."""
