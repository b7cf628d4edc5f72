"""The command `flow`: FATE Flow's own commands and option spellings, over a fedflow server.

Scripts that were written for FATE's client keep working. Here belong those commands as one table
(`commands`), what is sent for each (`requests`), and what becomes of an answer (`answers`). New
features go to `fedflow`, not here.
"""
