"""Files of other tools, read as they are. Each module here knows one kind of file and nothing of stores."""
