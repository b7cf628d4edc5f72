"""The composition root: settings -> adapters -> threads. Nothing is decided here."""
