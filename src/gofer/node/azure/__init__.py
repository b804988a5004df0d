"""The side of an Azure ML job: the program that the service starts on each of its nodes."""
