"""How callers and operators reach a serving process: HTTP, gRPC, and what they speak."""
