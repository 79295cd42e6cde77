"""Formulas in the characters that Unicode has for them: ``\\frac{a}{2} \\leq x^2`` as ``a/2 ≤ x²``.

A formula that has anything else (matrices, sums over ranges of many lines) stays as it was written.
"""

import re

from .scripts import written

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\s+|.", re.DOTALL)
_WORD = re.compile(r"[A-Za-z]{4}")
_MAX_DEPTH = 12
_SYMBOLS = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε",
    "zeta": "ζ", "eta": "η", "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ",
    "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω",
    "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ",
    "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "times": "×", "cdot": "·", "div": "÷",
    "pm": "±", "mp": "∓", "ast": "∗", "circ": "∘", "bullet": "•", "oplus": "⊕", "otimes": "⊗",
    "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠", "ne": "≠", "approx": "≈", "sim": "∼",
    "simeq": "≃", "cong": "≅", "equiv": "≡", "propto": "∝", "ll": "≪", "gg": "≫", "lt": "<",
    "gt": ">", "to": "→", "rightarrow": "→", "leftarrow": "←", "leftrightarrow": "↔", "gets": "←",
    "Rightarrow": "⇒", "Leftarrow": "⇐", "Leftrightarrow": "⇔", "implies": "⇒", "iff": "⇔",
    "longrightarrow": "⟶", "mapsto": "↦", "uparrow": "↑", "downarrow": "↓", "infty": "∞",
    "partial": "∂", "nabla": "∇", "forall": "∀", "exists": "∃", "nexists": "∄", "in": "∈",
    "notin": "∉", "ni": "∋", "subset": "⊂", "supset": "⊃", "subseteq": "⊆", "supseteq": "⊇",
    "cup": "∪", "cap": "∩", "setminus": "∖", "emptyset": "∅", "varnothing": "∅", "land": "∧",
    "wedge": "∧", "lor": "∨", "vee": "∨", "neg": "¬", "lnot": "¬", "sum": "∑", "prod": "∏",
    "int": "∫", "iint": "∬", "oint": "∮", "ldots": "…", "dots": "…", "cdots": "⋯", "vdots": "⋮",
    "perp": "⊥", "parallel": "∥", "mid": "∣", "angle": "∠", "degree": "°", "prime": "′",
    "hbar": "ℏ", "ell": "ℓ", "Re": "ℜ", "Im": "ℑ", "aleph": "ℵ", "therefore": "∴", "because": "∵",
    "langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
    "lvert": "|", "rvert": "|", "vert": "|", "lVert": "‖", "rVert": "‖", "checkmark": "✓",
    "star": "⋆", "dagger": "†", "square": "□", "blacksquare": "■", "quad": "  ", "qquad": "    ",
    "left": "", "right": "", "big": "", "Big": "", "bigl": "", "bigr": "", "displaystyle": "",
    "limits": "", "nolimits": "",
}  # fmt: skip
_NAMES = frozenset(
    ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
     "log", "ln", "lg", "exp", "lim", "max", "min", "sup", "inf", "arg", "det", "dim", "ker", "gcd",
     "deg", "mod", "bmod", "Pr")
)  # fmt: skip
_TEXTS = frozenset(
    ("text", "textrm", "textbf", "textit", "mathrm", "mathbf", "mathit", "mathsf", "operatorname",
     "boldsymbol", "mbox")
)  # fmt: skip
_SPACES = {"\\,": " ", "\\;": " ", "\\:": " ", "\\ ": " ", "\\!": "", "\\%": "%", "\\$": "$",
           "\\#": "#", "\\&": "&", "\\_": "_", "\\{": "{", "\\}": "}", "\\|": "‖"}  # fmt: skip
_ACCENTS = {"hat": "\u0302", "bar": "\u0304", "vec": "\u20d7", "dot": "\u0307", "tilde": "\u0303",
            "ddot": "\u0308", "overline": "\u0305"}  # fmt: skip
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
_BLACKBOARD = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ", strict=True))


class _UnknownError(Exception):
    """The formula has something that Unicode cannot show on a line."""


def in_unicode(formula: str) -> str | None:
    """Return the formula (without its delimiters) as a line of text, or None."""
    if "\\" not in formula and _WORD.search(formula):
        return None  # `$HOME_DIR/$` is no formula
    reader = _Reader(_TOKEN.findall(formula))
    try:
        text = reader.sequence("", 0)
    except _UnknownError:
        return None
    return text.strip() or None


class _Reader:
    """Reads the tokens of one formula."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at = tokens, 0

    def sequence(self, end: str, depth: int) -> str:
        """Read up to the token ``end``, or up to the end of the formula."""
        if depth > _MAX_DEPTH:
            raise _UnknownError
        out: list[str] = []
        while self.at < len(self.tokens):
            part = self.tokens[self.at]
            if part == end:
                self.at += 1
                return "".join(out)
            out.append(self.piece(depth))
        if end:
            raise _UnknownError
        return "".join(out)

    def piece(self, depth: int) -> str:
        """Read one token with its arguments."""
        part = self.tokens[self.at]
        self.at += 1
        if part == "{":
            return self.sequence("}", depth + 1)
        if part in "^_":
            return written(self.argument(depth), "sup" if part == "^" else "sub")
        if part in "}&":
            raise _UnknownError
        if part.isspace():
            return " "
        if part[0] == "\\":
            return self.command(part, depth)
        return "′" if part == "'" else part

    def argument(self, depth: int) -> str:
        """Read the group or token after a command or a sign."""
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        if self.at >= len(self.tokens):
            raise _UnknownError
        return self.piece(depth + 1)

    def command(self, part: str, depth: int) -> str:
        name = part[1:]
        if part in _SPACES:
            return _SPACES[part]
        if name in _SYMBOLS:
            return self.symbol(name)
        if name in _NAMES:
            return name
        if name in _TEXTS:
            return self.argument(depth)
        if name in ("frac", "dfrac", "tfrac"):
            return f"{_grouped(self.argument(depth))}/{_grouped(self.argument(depth))}"
        if name == "sqrt":
            return self.root(depth)
        return self.letter(name, depth)

    def symbol(self, name: str) -> str:
        """Convert a sign; the ``.`` behind ``\\left`` stands for no bracket."""
        if name in ("left", "right") and self.tokens[self.at : self.at + 1] == ["."]:
            self.at += 1
        return _SYMBOLS[name]

    def letter(self, name: str, depth: int) -> str:
        """Convert one letter with an accent, or of the blackboard."""
        if name not in _ACCENTS and name != "mathbb":
            raise _UnknownError
        letter = self.argument(depth)
        if len(letter) != 1 or (name == "mathbb" and letter not in _BLACKBOARD):
            raise _UnknownError
        return _BLACKBOARD[letter] if name == "mathbb" else letter + _ACCENTS[name]

    def root(self, depth: int) -> str:
        index = ""
        if self.tokens[self.at : self.at + 1] == ["["]:
            self.at += 1
            index = self.sequence("]", depth + 1)
        if index not in _ROOTS:
            raise _UnknownError
        return _ROOTS[index] + _grouped(self.argument(depth))


def _grouped(text: str) -> str:
    """Return the text in parentheses, if it is more than a number or a letter."""
    text = text.strip()
    return text if len(text) == 1 or text.isdecimal() else f"({text})"
