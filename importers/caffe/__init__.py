"""Caffe nets: ``.prototxt`` and ``.caffemodel``."""
