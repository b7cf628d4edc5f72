"""How data comes in and goes out: files become tables, tables enter jobs or become files."""
