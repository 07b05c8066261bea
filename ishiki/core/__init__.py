"""The agent loop. Knows no platform, vendor, file or YAML."""
