"""Servers that tests talk to: real ones on loopback, each started and ended by its test module, and a proxy
that spoils what passes through it."""
