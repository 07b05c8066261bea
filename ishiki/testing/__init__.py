"""The testing kit: real ends to test a bot against, for our own tests and for the authors of engines and extensions.

Import its modules by name, such as `ishiki.testing.onebot_peer`. Nothing here imports NoneBot, a test runner or a
model library.
"""
