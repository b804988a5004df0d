"""Acting for a gofer that is on another machine, or on this one: verbs with plain arguments and answers."""
