"""A terminal in a few lines: plays what the wire sends and knows what a person would see. Any other sequence fails."""

from __future__ import annotations

import re

from rich.cells import get_character_cell_size

_TOKEN = re.compile(
    r"\x1b\[([?>=<]?)([0-9;]*)(\$?[A-Za-z])|\x1b\](?:22;[a-z-]*|52;c;[A-Za-z0-9+/=]*)\x07|"
    r"(\x1b.{0,9})|([\r\n\x07])|([^\x1b\r\n\x07])", re.DOTALL
)
Pen = tuple[str, ...]


class Terminal:
    """``cells[y][x]`` is (text, pen); pens are the sorted SGR codes in force."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells: list[list[tuple[str, Pen]]] = [[(" ", ())] * width for _ in range(height)]
        self.pen: dict[str, str] = {}
        self.y = self.x = 0
        self.top, self.bottom = 0, height
        self.sequences: set[str] = set()

    def text(self) -> list[str]:
        """What is to be read, line by line."""
        return ["".join(text for text, _ in row) for row in self.cells]

    def play(self, data: str) -> None:
        """Act on everything in the data."""
        for mode, numbers, final, strange, move, char in _TOKEN.findall(data):
            if strange:
                raise AssertionError(f"a sequence that is none of ours: {strange!r}")
            if char:
                self._put(char)
            elif move == "\r":
                self.x = 0
            elif move == "\n":
                assert self.y + 1 < self.height, "a line feed that scrolls"
                self.y += 1
            elif final:
                self.sequences.add(mode + final)
                if not mode and final not in ("u", "n"):
                    self._act(final, [int(n) if n else 0 for n in numbers.split(";")], numbers)

    def _put(self, char: str) -> None:
        assert char.isprintable() or char in "\u200d\ufe0f", f"{char!r} reached the terminal"
        size = get_character_cell_size(char)
        if size == 0:
            at = self.x - 1 if self.cells[self.y][self.x - 1][0] else self.x - 2
            text, pen = self.cells[self.y][at]
            self.cells[self.y][at] = text + char, pen
            return
        assert self.x + size <= self.width, "writes past the right edge"
        self.cells[self.y][self.x] = char, self._worn()
        if size == 2:
            self.cells[self.y][self.x + 1] = "", self._worn()
        self.x += size

    def _act(self, final: str, numbers: list[int], raw: str) -> None:
        first = max(1, numbers[0])
        if final == "H":
            self.y, self.x = first - 1, max(1, numbers[1]) - 1 if len(numbers) > 1 else 0
        elif final == "C":
            self.x += first
        elif final == "K":
            for x in range(self.x, self.width):
                self.cells[self.y][x] = " ", self._worn()
        elif final == "J":
            assert numbers == [2]
            self.cells = [[(" ", self._worn())] * self.width for _ in range(self.height)]
        elif final == "r":
            self.top, self.bottom = (first - 1, numbers[1]) if raw else (0, self.height)
            self.y = self.x = 0
        elif final in "ML":
            assert self.top <= self.y < self.bottom
            for _ in range(first):
                empty = [(" ", self._worn())] * self.width
                if final == "M":
                    self.cells.insert(self.bottom, empty)
                    del self.cells[self.y]
                else:
                    del self.cells[self.bottom - 1]
                    self.cells.insert(self.y, empty)
        elif final == "m":
            self._wear(raw)
        else:
            raise AssertionError(f"does not know {raw}{final}")

    def _wear(self, raw: str) -> None:
        codes = raw.split(";")
        while codes:
            code = codes.pop(0) or "0"
            if code in ("38", "48"):
                count = 2 if codes[0] == "5" else 4
                self.pen["fg" if code == "38" else "bg"] = ";".join([code, *codes[:count]])
                del codes[:count]
            elif code == "0":
                self.pen.clear()
            elif code in ("39", "49"):
                self.pen.pop("fg" if code == "39" else "bg", None)
            elif code in ("22", "23", "24", "25", "27", "28", "29"):
                for on in {"22": "12", "25": "56"}.get(code, code[1]):
                    self.pen.pop(on, None)
            elif len(code) == 1:
                self.pen[code] = code
            else:
                self.pen["fg" if code[0] in "39" else "bg"] = code

    def _worn(self) -> Pen:
        return tuple(sorted(self.pen.values()))
