"""The commands of gofer, a module each; gofer.cli.verbs lists them."""
