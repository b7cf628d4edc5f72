"""The gRPC port of a server: commands of other parties and of this party's other servers."""
