"""A kind of backend outside gofer, as CONTRIBUTING.md says how to write one: plain processes of this machine.

`plain-1.0.dist-info` has the entry point that an installed package would have.
"""
