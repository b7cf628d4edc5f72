"""The HTTP doors: a Flask application with one blueprint per noun.

A view parses the request into domain values, calls one function of `app`, and wraps the answer
with `wire.envelope`. Importing this package builds nothing; `web.app.create_app` registers the
blueprints.
"""
