"""Start a silo's node, or arm a server app, with the next trap of a list: `trapped.py POINTS DIR HOST:PORT CA`."""

import logging
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def arm(points: Path) -> None:
    """Set the first trap of the file and take it off the list, so that the next start has the next one."""
    import crashes

    listed = points.read_text().splitlines()
    if listed:
        points.write_text("\n".join(listed[1:]))
        crashes.trap(listed[0])


if __name__ == "__main__":
    from dpadmm.engines.flower.node import run_silo

    logging.basicConfig(level=logging.INFO)
    arm(Path(sys.argv[1]))
    run_silo(Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
