"""Runs written down for others: JSON, CSV, Parquet, HTML, JUnit XML and Markdown."""
