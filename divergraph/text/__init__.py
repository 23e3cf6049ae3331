"""Text for people, below every front end: words, sentences, and nothing a terminal would obey."""
