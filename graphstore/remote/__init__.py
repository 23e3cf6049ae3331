"""The store behind a server of ours, ``divergraph serve``: it is asked over HTTP.

The server looks up what its own store keeps and sends rows and tables; what is worked out of them,
here as on every store, is worked out on this side.
"""
