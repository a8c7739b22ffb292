"""The scores of audits as a table for people, one column per run or set of maps."""

from typing import Any

SHOWN_LAGS = (1, 2, 4, 8, 16, 32, 64)
FEW = 30
"""Least number of frames for a score to count in a table of games."""
SHOWN = {
    "direct_auroc": "direct control, AUROC",
    "shown_direct_auroc": "direct control among what is shown, AUROC",
    "g_auroc": "g, AUROC",
    "g_spearman": "g, rank correlation",
    "movers_auroc": "movers, AUROC of what was handed on",
    "kept_movers_auroc": "movers, AUROC of g with all it kept",
    "relation_auroc": "where movers came from, AUROC",
}


def table(records: list[dict[str, Any]]) -> str:
    """`records` as `audit_run` returns them, all of the same number of lags."""
    columns = [column(record) for record in records]
    rows = [[name, *(own[i][1] for own in columns)] for i, (name, _) in enumerate(columns[0])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(records) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    notes = [
        "Means over frames with 95% bootstrap intervals over episodes. Below each, the share of the way from untrained",
        "models to the most that can be seen; these two; rules alone (uniform attention); how much a cell changed.",
        "docs/audit.md explains.",
    ]
    return "\n".join([*lines, "", *notes])


def column(record: dict[str, Any]) -> list[tuple[str, str]]:
    """One column of the table: names of rows and texts, empty if unknown."""
    scores, trained = record["scores"], record["trained_frames"]
    rows = [
        ("run", record["run"]),
        ("game", f"{record['game']}, {record['policy']} play"),
        ("episodes", f"{record['episodes']} of {record['steps']} steps in all"),
        ("trained for", "" if trained is None else f"{trained:,} frames"),
    ]
    for name, words in SHOWN.items():
        rows += [(words, estimate_text(scores.get(name))), ("  of the way", way_text(record, name))]
    rows.append(("controlled but not to be seen", f"{record['hidden']:.3f}"))
    for name, words, first in (("lag_auroc", "influence", 1), ("movers_lag_auroc", "movers", 2)):
        # An action controls no mover at lag 1: that is what movers are.
        lags = scores.get(name, [None] * record["lags"])
        shown = [n for n in SHOWN_LAGS if first <= n <= record["lags"]]
        rows += [(f"{words} at lag {n}, AUROC", estimate_text(lags[n - 1])) for n in shown]
    for name in ("direct", "g"):
        found = scores.get(f"{name}_calibration")
        rows.append((f"{name}, calibration error", f"{found['error']:.3f}" if found else ""))
    rows.append(("self-attention", f"{scores['self_attention']:.3f}" if "self_attention" in scores else ""))
    rows.append(("control handed to movers that are under control", handed_text(scores.get("handed_to_movers"))))
    return rows


def handed_text(found: dict[str, Any] | None) -> str:
    if not found or found["true"] is None:
        return ""
    return f"{found['true']:.3f}, where of all movers {found['chance']:.3f} are"


def share(record: dict[str, Any], name: str) -> float | None:
    """A score rescaled so that untrained models are 0 and the most that can be seen is 1; None if either is unknown."""
    if "controls" not in record:  # an older audit, without controls
        return None
    start, end = (record["controls"][row].get(name, {}).get("mean") for row in ("untrained", "seen"))
    own = record["scores"].get(name, {}).get("mean")
    if own is None or start is None or end is None or end <= start:
        return None
    return float((own - start) / (end - start))


def way_text(record: dict[str, Any], name: str) -> str:
    far = share(record, name)
    if far is None:
        return ""
    means = {row: scores[name]["mean"] for row, scores in record["controls"].items() if name in scores}
    others = [
        f"{words} {means[row]:.3f}" for row, words in (("uniform", "rules"), ("change", "change")) if row in means
    ]
    return ", ".join([f"{far:.0%} from {means['untrained']:.3f} to {means['seen']:.3f}", *others])


def estimate_text(estimate: dict[str, Any] | None) -> str:
    """A score as text; empty if there is none."""
    if estimate is None:
        return ""
    if estimate["mean"] is None:
        return "no frame can tell"
    interval = "" if estimate["low"] is None else f" [{estimate['low']:.3f}, {estimate['high']:.3f}]"
    few = f" of {estimate['frames']} frames only" if estimate["frames"] < FEW else ""
    return f"{estimate['mean']:.3f}{interval}{few}"
