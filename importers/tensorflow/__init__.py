"""TensorFlow graphs, read without TensorFlow."""
