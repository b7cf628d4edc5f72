"""Services and their releases: which version answers whom, and how versions compare."""
