"""What a finished run shows as a whole, in the detections MindStudio users know."""
