"""A summary of a finished run, in the detections MindStudio users know."""
