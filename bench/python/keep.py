"""The rows of a run, for the page that `cargo xtask bench` writes."""

import os


def keep(group: str, row: str, unit: str, value: float, against: str = "") -> None:
    """Appends one figure to the file that `TIDEGATE_BENCH_ROWS` names; without that variable it does nothing.

    The group `versions` is for lines that say what ran; their row is the text.
    `against` is the row of Tidegate with which a peer is compared, and empty for the first of the group.
    """
    if path := os.environ.get("TIDEGATE_BENCH_ROWS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"Python\t{group}\t{row}\t{unit}\t{value!r}\t{against}\n")
