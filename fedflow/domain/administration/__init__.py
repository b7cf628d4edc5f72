"""What administrators store: accounts, permissions, keys, addresses, the servers of a party."""
