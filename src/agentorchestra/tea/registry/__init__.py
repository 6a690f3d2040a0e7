"""The one registry: versions and histories of components, and the operations of the protocol on them."""
