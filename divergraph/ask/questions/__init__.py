"""One question a file: its name is the file's, ``QUESTION`` its declaration."""
