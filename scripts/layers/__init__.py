"""The parts of scripts/check-layers that read Rust source."""
