"""What a mind costs: tokens, calls and turns by profile, day and channel, kept on disk.

* `tally`: the numbers, and the file of one day (docs/formats/usage.md)
* `books`: one profile's numbers while the bot runs, and when they are written
* `meter`: where the numbers come from in one runtime
"""
