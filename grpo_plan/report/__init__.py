"""A report: every answer to one pilot, or one run, in one document, and the tables from which a page recomputes it."""
