"""How the nodes of an attempt find each other and notice that one is gone."""
