"""What of crosscheck runs inside PyTorch's process. The contract is docs/probe-protocol.md."""

__version__ = "0.1.0"
