"""Functions as jobs: what is sent in place of a script, and the results that come back."""
