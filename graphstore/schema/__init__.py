"""What a store keeps: tables, columns, and the conversion of model values to rows and back.

A graph is kept packed, once: its header and blocks of ops (``Graph.header_json``, ``OpBlock``).
Everything read of a whole graph is read from these. ``Op``, ``Tensor`` and the edges are derived
from the same graph for Cypher alone.

A run is kept as its record and as columns. The record (``Run`` as JSON) is in the manifest of an
embedded entry, so that runs are listed without opening databases, and on the node in Neo4j. The
columns of ``Metric``, ``Finding`` and ``FUSES`` say all of its comparisons, findings and links;
what fits no column (origins, suspects, links to ops no graph has) is JSON on the node ``Run``.
"""
