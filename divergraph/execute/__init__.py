"""Run original models on this machine: whole, or piece by piece on given inputs."""
