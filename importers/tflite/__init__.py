"""TensorFlow Lite (LiteRT) models: ``.tflite`` files."""
