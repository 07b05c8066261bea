"""One module per budget."""
