"""Run original models on this machine: whole, or subgraph by subgraph on given inputs."""
