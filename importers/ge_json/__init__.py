"""The JSON that ``atc --mode=1`` (of an ``.om``) and ``--mode=5`` (of a ge_proto text) write."""
