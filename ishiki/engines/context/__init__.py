"""Context engines: what the model sees."""
