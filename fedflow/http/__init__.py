"""HTTP listeners that serve a WSGI application: used by servers and serving processes.

No routes, no responses: those belong to whoever brings the application.
"""
