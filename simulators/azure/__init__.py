"""A simulator of Azure Machine Learning, of its login and of its node side; blobs are kept by Azurite.

`python -m simulators.azure --folder DIR` serves ARM, run history, Azure AD and managed identity on
loopback with TLS, and really runs the command jobs it is sent, one process for each node and rank. Standard
library only; the `openssl` program makes its certificates. What it knows survives it, in `DIR/state.db`.
"""
