"""The executor for TensorFlow graphs."""
