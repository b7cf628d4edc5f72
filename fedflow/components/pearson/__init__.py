"""HeteroPearson: correlations of columns, within a party and across parties."""
