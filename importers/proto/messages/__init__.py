"""Protocol buffer schemas of the files we read, and the code compiled from them."""
