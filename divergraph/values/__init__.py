"""The one reader of dumped values: of one tensor, and of pairs in golden's order."""
