"""How data comes into a job: Upload (a file becomes a table), Reader (a table enters a job)."""
