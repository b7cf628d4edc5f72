"""What administrators look at and change, and what the server tells about itself."""
