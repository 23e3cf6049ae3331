"""What a device was fed, where its dump does not hold it: told by the ops that read it."""
