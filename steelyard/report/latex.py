"""Tables for LaTeX (booktabs)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["latex_table", "latex_text"]

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "τ": r"$\tau$", "ρ": r"$\rho$", "κ": r"$\kappa$", "×": r"$\times$", "†": r"$^\dagger$", "*": r"$^*$",
    "–": "--", "−": "$-$", "<": "$<$", ">": "$>$", "≥": r"$\geq$", "≤": r"$\leq$", "\u00a0": "~", "\u202f": r"\,",
}  # fmt: skip


def latex_text(text: str) -> str:
    """Text with everything LaTeX would take for a command made harmless.

    >>> latex_text("50 % ± 1*")
    '50 \\\\% $\\\\pm$ 1$^*$'
    """
    return "".join(_SPECIAL.get(c, c) for c in text)


def latex_table(
    label: str, caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> str:
    """A floating table; needs `\\usepackage{booktabs}` and nothing else.

    Args:
        label: becomes `tab:LABEL`.
        caption: above the table.
        columns: headings.
        rows: cells.
        note: below the table, in small type.
    """
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(caption)}}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(columns) - 1)}}}",
        r"    \toprule",
        "    " + " & ".join(map(latex_text, columns)) + r" \\",
        r"    \midrule",
        *("    " + " & ".join(map(latex_text, row)) + r" \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]
    if note:
        lines.append(rf"  \par\smallskip{{\footnotesize {latex_text(note)}}}")
    return "\n".join([*lines, r"\end{table}"]) + "\n"
