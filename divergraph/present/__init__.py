"""What a run is written down as for others: CSV, Parquet, HTML, JUnit XML and Markdown."""
