"""Why an op introduces an error, in words, with the numbers behind it."""
