"""Device arithmetics: found from a device's dumps and errors, and emulated here."""
