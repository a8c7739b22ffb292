"""The scores of audits as a table for people, one column per run."""

from typing import Any

SHOWN_LAGS = (1, 2, 4, 8, 16, 32, 64)


def table(records: list[dict[str, Any]]) -> str:
    """`records` as `audit_run` returns them."""
    columns = [column(record) for record in records]
    rows = [[name, *(own.get(name, "") for own in columns)] for name in columns[0]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(records) + 1)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(
        [*lines, "", "Means over frames with 95% bootstrap intervals over episodes; docs/audit.md explains."]
    )


def column(record: dict[str, Any]) -> dict[str, str]:
    """What the table says about one run, by the name of the row."""
    scores, lags = record["scores"], record["scores"]["lag_auroc"]
    texts = {
        "run": record["run"],
        "game": f"{record['game']}, {record['policy']} play",
        "episodes": f"{record['episodes']} of {record['steps']} steps in all",
        "trained for": f"{record['trained_frames']:,} frames",
        "direct control, AUROC": estimate_text(scores["direct_auroc"]),
        "g, AUROC": estimate_text(scores["g_auroc"]),
        "g, rank correlation": estimate_text(scores["g_spearman"]),
        "all that can be seen, AUROC": estimate_text(scores["seen_auroc"]),
        "controlled but not to be seen": f"{scores['hidden']:.3f}",
    }
    texts |= {f"influence at lag {n}, AUROC": estimate_text(lags[n - 1]) for n in SHOWN_LAGS if n <= len(lags)}
    texts |= {f"{name}, calibration error": f"{scores[f'{name}_calibration']['error']:.3f}" for name in ("direct", "g")}
    return texts | {"self-attention": f"{scores['self_attention']:.3f}"}


def estimate_text(estimate: dict[str, Any]) -> str:
    if estimate["mean"] is None:
        return "no frame can tell"
    interval = "" if estimate["low"] is None else f" [{estimate['low']:.3f}, {estimate['high']:.3f}]"
    return f"{estimate['mean']:.3f}{interval}"
