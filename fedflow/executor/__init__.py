"""Starts, watches and ends the processes that run party tasks; knows not what they compute."""
