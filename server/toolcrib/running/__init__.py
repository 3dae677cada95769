"""Running toolcribs: each writes its state to a file, and readers combine the files of all."""
