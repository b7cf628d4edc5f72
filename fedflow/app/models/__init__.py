"""Models of this server: kept, changed at all sites or at none, exchanged, used by predict jobs."""
