"""Who introduces an error, who only carries it: every op's reference on the device's own inputs."""
