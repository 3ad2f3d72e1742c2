"""Scripts that make the files of tests/data again, each with the tool itself."""
