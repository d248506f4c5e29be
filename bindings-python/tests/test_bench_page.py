"""What `cargo xtask bench` writes: medians, ranges, ratios of one run, gates, changes, figures in texts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"
OURS, PEER = "tidegate: retry, bulkhead", "pyresilience: retry, bulkhead"


def of_the_bench(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tidegate_bench_{name}", BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a NamedTuple looks its module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return of_the_bench("page")


@pytest.fixture(scope="module")
def quoted() -> ModuleType:
    return of_the_bench("quoted")


def written(folder: Path, runs: list[tuple[float, float]]) -> Path:
    lines = ["\tload\t\t\t0.5\t"]
    for ours, peer in runs:
        lines.append(f"Python\tsync\t{OURS}\tns above\t{ours}\t")
        lines.append(f"Python\tsync\t{PEER}\tns above\t{peer}\t{OURS}")
    path = folder / "rows.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_ratio_is_of_one_run_and_the_page_has_their_median(page: ModuleType, tmp_path: Path) -> None:
    # The third run was disturbed: both rows took three times as long, and the ratio is the same.
    run = page.read(written(tmp_path, [(100, 1000), (110, 990), (300, 3000)]))
    rows = run.rows
    ours, peer = page.Key("Python", "sync", OURS), page.Key("Python", "sync", PEER)
    assert (rows[ours].median, page.ratio(rows, peer, ours), run.loads) == (110, 10.0, [0.5])
    text = page.page(run, {}, {})
    assert f"| **{OURS}** | 110 ns above | 100 to 300 |  |" in text
    assert f"| {PEER} | 1,000 ns above | 990 to 3,000 | 10.00 × |" in text


@pytest.mark.parametrize(
    ("ours", "verdict"), [(60, "goal"), (75, "met"), (90, "missed: [why](../performance.md#python)")]
)
def test_a_gate_is_met_missed_or_not_measured(
    page: ModuleType, tmp_path: Path, ours: float, verdict: str
) -> None:
    rows = page.read(written(tmp_path, [(ours, 1000)])).rows
    lines = list(page.gates(rows))
    [measured] = [line for line in lines if f"Python, sync: {OURS}" in line]
    assert measured.endswith(f"| {ours / 1000:.3g} × | {verdict} |")
    assert all(line.endswith("|  | not measured |") for line in lines[2:] if line != measured)


def test_what_became_slower_beside_its_peer_is_named(page: ModuleType, tmp_path: Path) -> None:
    before = page.read(written(tmp_path, [(100, 1000)])).rows
    now = page.read(written(tmp_path, [(120, 1000)])).rows
    [line] = page.changes(now, before)
    assert line == f"- Python, sync: `{OURS}` is 0.12 × of {PEER}, was 0.10 ×: slower"
    twice_as_slow_a_machine = page.read(written(tmp_path, [(200, 2000)])).rows
    assert page.changes(twice_as_slow_a_machine, before) == []


def test_a_line_of_another_form_is_refused_with_its_place(page: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("Python\tsync\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"rows\.tsv:1: 2 cells instead of 6"):
        page.read(path)


def test_the_page_names_what_ran_once(page: ModuleType, tmp_path: Path) -> None:
    path = written(tmp_path, [(100, 1000), (110, 990)])
    line = "Python\tversions\tPython 3.11.7; pyresilience 0.4.1\t\t0\t\n"
    path.write_text(path.read_text(encoding="utf-8") + 2 * line, encoding="utf-8")
    text = page.page(page.read(path), {}, {})
    assert text.count("Python 3.11.7; pyresilience 0.4.1.") == 1
    assert "versions" not in text


def test_gates_are_ratios_and_the_goal_is_not_above_the_gate() -> None:
    lines = (BENCH / "gates.tsv").read_text(encoding="utf-8").splitlines()
    gates = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(gates) >= 25 and all(len(gate) == 7 for gate in gates)
    assert all(0 < float(goal) <= float(most) for *_, most, goal, _ in gates)


def test_each_gate_has_a_heading_that_explains_it() -> None:
    lines = (BENCH / "gates.tsv").read_text(encoding="utf-8").splitlines()
    reasons = {line.split("\t")[6] for line in lines if not line.startswith("#")}
    text = (BENCH.parent / "docs/performance.md").read_text(encoding="utf-8")
    headings = {
        line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")
    }
    assert reasons and reasons <= headings


def test_columns_of_one_row_stand_side_by_side(page: ModuleType, tmp_path: Path) -> None:
    rows = written(tmp_path, [(100, 1000)])
    group = "one process that wants more"
    figures = {
        "sync: tidegate, leased → admitted ÷ declared": ("×", 0.9996),
        "sync: tidegate, leased → round trips a call": ("", 0.00002),
        "sync: limits → admitted ÷ declared": ("×", 0.75),
    }
    lines = (f"Fleet\t{group}\t{row}\t{unit}\t{value}\t" for row, (unit, value) in figures.items())
    rows.write_text(rows.read_text(encoding="utf-8") + "\n".join(lines) + "\n", encoding="utf-8")
    drawn: dict[str, str] = {}
    text = page.page(page.read(rows), {}, drawn)
    assert (
        f"| {group} | admitted ÷ declared | round trips a call |\n|---|--:|--:|\n"
        "| **sync: tidegate, leased** | 1.000 | < 0.0001 |\n| sync: limits | 0.750 | – |\n" in text
    )
    assert list(drawn) == ["python.svg"]


QUOTE = """
[[quote]]
file = "text.md"
text = "ours: {} ns ({} µs), of theirs {} ×, {} more, {} to {}."
figures = [
  "Python | sync | OURS | 1,234",
  "Python | sync | OURS | 0.00 /1000",
  "Python | sync | OURS ÷ PEER | 0.00",
  "Python | sync | PEER − OURS | 3 digits",
  "Python | sync | PEER | 1,230 least",
  "Python | sync | PEER | 1,234 most",
]
""".replace("OURS", OURS).replace("PEER", PEER)


def test_texts_get_the_figures_that_they_quote(quoted: ModuleType, tmp_path: Path) -> None:
    rows = written(tmp_path, [(100, 1000), (110, 994), (300, 3000)])
    quotes, text = tmp_path / "quoted.toml", tmp_path / "text.md"
    quotes.write_text(QUOTE, encoding="utf-8")
    text.write_text("Here 7, ours: 1,110 ns (.5 µs), of theirs 0.11 ×, 0 more, 990 to 2.", encoding="utf-8")
    ((path, now, wrong),) = quoted.filled(tmp_path, quotes, rows)
    assert path == text
    assert now == "Here 7, ours: 110 ns (0.11 µs), of theirs 0.10 ×, 890 more, 990 to 3,000."
    assert [found.why.partition(":")[0] for found in wrong] == [
        "says 1,110, the page 110",
        "says .5, the page 0.11",
        "says 0.11, the page 0.10",
        "says 0, the page 890",
        "says 2, the page 3,000",
    ]
    text.write_text(now, encoding="utf-8")
    assert [found[2] for found in quoted.filled(tmp_path, quotes, rows)] == [[]]


def test_a_text_that_was_reworded_is_reported(quoted: ModuleType, tmp_path: Path) -> None:
    rows = written(tmp_path, [(100, 1000)])
    (tmp_path / "quoted.toml").write_text(QUOTE, encoding="utf-8")
    (tmp_path / "text.md").write_text("ours takes 100 ns", encoding="utf-8")
    ((_, now, wrong),) = quoted.filled(tmp_path, tmp_path / "quoted.toml", rows)
    assert now == "ours takes 100 ns"
    assert "0 times, not once" in wrong[0].why


def test_each_figure_that_a_text_quotes_is_the_pages(quoted: ModuleType) -> None:
    found = list(quoted.filled(quoted.ROOT, quoted.LIST, quoted.ROWS))
    assert len(found) > 5
    assert [wrong for *_, of_it in found for wrong in of_it] == []
