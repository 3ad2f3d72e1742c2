"""What notebooks and dataframes show of results."""
