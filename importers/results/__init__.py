"""Results that other tools wrote: their tables as rows."""
