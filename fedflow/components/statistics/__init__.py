"""DataStatistics: what the values of each column are like."""
