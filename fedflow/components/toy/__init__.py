"""Components that try out a deployment with two parties' real messages."""
