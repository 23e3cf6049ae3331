"""The op run in other ways: with other attributes, operands or operations."""
