"""Jobs without a screen: the forms of commands, the jobs of a store, and their words."""
