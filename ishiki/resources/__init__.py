"""The resources of a runtime: URL schemes, and the media that its messages carry."""
