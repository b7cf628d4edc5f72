"""Components that prepare features at one party, without other parties."""
