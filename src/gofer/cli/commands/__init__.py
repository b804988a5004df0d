"""The commands of gofer, one module each. gofer.cli.verbs lists them."""
