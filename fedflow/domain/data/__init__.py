"""Values about data: names and lists of tables, storages and their addresses, caches. No rows."""
