"""Suites that any implementation of gofer's contracts must pass, shipped so that third parties can use them."""
