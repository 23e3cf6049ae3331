"""Programs that go into a bundle and need nothing of ours: they run the part again."""
