"""Types of the part of APScheduler 3 that Ishiki uses: its triggers, which compute times. It ships none."""
