"""This machine as a target, with gofer's own queue. It needs no daemon and no set-up."""
