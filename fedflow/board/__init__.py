"""The board: web pages that show and steer the jobs of this server, at `/board`.

Pages are made on the server (`templates/`), and work without scripts; scripts (`static/`) keep them
live and draw graphs and charts. A module per noun holds its views; `shapes/` holds pure functions
from stored values to what a template shows. See docs/board.md.
"""
