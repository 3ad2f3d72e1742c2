"""Scripts that draw the pictures of README and docs from the library, each with its data beside the picture."""
