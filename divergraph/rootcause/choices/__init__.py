"""Integers and booleans that name something (an index, a class, yes or no), judged one by one."""
