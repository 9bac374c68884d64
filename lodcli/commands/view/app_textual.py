"""The screen of `lod view`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.cells import set_cell_size
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from lodcli.commands.view.browser import Browser
from lodcli.kernels.errors import LodError
from lodcli.shell.printable import printable


class _Page(Static):
    """Widget that is drawn again when its size changes, as when the input field opens."""

    def __init__(self, draw: Callable[[], None]) -> None:
        super().__init__(id="page", markup=False)
        self._draw = draw

    def on_resize(self) -> None:
        self._draw()


class Viewer(App[None]):
    """A page of items, one line each; only items on the screen are read."""

    CSS = """
    #head, #place { height: auto; min-height: 1; max-height: 30%; }
    #page { height: 1fr; }
    #ask { display: none; dock: bottom; }
    """
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None  # keys go to the app, not to the hidden input field
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", show=False),
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup,b", "page(-1)", "back", show=False),
        Binding("pagedown,space", "page(1)", "next page", show=False),
        Binding("home", "edge(0)", "first", show=False),
        Binding("end,G", "edge(-1)", "last", show=False),
        Binding("enter,right", "enter", "into"),
        Binding("backspace,left", "leave", "out"),
        Binding("g", "ask('jump')", "go to"),
        Binding("l", "longest", "longest"),
        Binding("slash", "ask('search')", "search"),
        Binding("n", "again", "next"),
        Binding("t", "tensor", "tensor"),
        Binding("escape", "cancel", "cancel", show=False),
    ]

    def __init__(self, browser: Browser, label: str) -> None:
        super().__init__()
        self.browser = browser
        self.top = 0
        self.note = ""
        self._label = label
        self._asking = ""
        self._sought = ""

    def compose(self) -> ComposeResult:
        yield Static(id="head", markup=False)
        yield Static(id="place", markup=False)
        yield _Page(self.show)
        yield Input(id="ask", disabled=True)
        yield Footer()

    def show(self) -> None:
        """Draw the page around the current item."""
        browser, page = self.browser, self.query_one("#page", Static)
        height, width = max(1, page.size.height), max(1, page.size.width)
        if not self.top <= browser.item < self.top + height:
            self.top = browser.item - height // 2
        self.top = max(0, min(self.top, browser.count - height))
        try:
            lines = browser.lines(self.top, self.top + height)
        except (LodError, OSError) as error:
            self.note = str(error)
            lines = []
        size = max((len(f"{line.item:,}") for line in lines), default=1)
        text = Text(no_wrap=True, overflow="ellipsis")
        for line in lines:
            place = ",".join(map(str, line.branch)) if len(line.branch) > 1 else ""
            length = "" if line.length is None else f"({line.length:,})"
            shown = " ".join(filter(None, [f"{line.item:>{size},}", place, length, line.values]))
            style = "reverse" if line.item == browser.item else ""
            text.append(set_cell_size(printable(shown), width) + "\n", style)
        page.update(text)
        names = ", ".join(
            f"{count:,} {name}"
            for count, name in zip(browser.counts, [*self._level_names(), "rows"], strict=True)
        )
        marks = browser.spec.marks
        kind = str(marks.of_values) if marks.kind else browser.spec.dtype.name
        head = f"{self._label}::{browser.spec.name}: {kind}, {names}"
        level = browser.level_name + ", item" * browser.level_name.startswith("level ")
        where = f"{level} {browser.item:,} of {browser.count:,}"
        said = f"  {self.note}" if self.note else ""
        self.query_one("#head", Static).update(printable(head))
        self.query_one("#place", Static).update(printable(where + said))

    def _level_names(self) -> list[str]:
        return [name or f"(level {n})" for n, name in enumerate(self.browser.lod.names)]

    # -- keys ----------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        self._to(self.browser.item + by)

    def action_page(self, by: int) -> None:
        self._to(self.browser.item + by * max(1, self.query_one("#page", Static).size.height))

    def action_edge(self, end: int) -> None:
        self._to(self.browser.count - 1 if end else 0)

    def _to(self, item: int) -> None:
        self.note = ""
        self.browser.move(item)
        self.show()

    def action_enter(self) -> None:
        self.note = "" if self.browser.enter() else "nothing in it"
        self.show()

    def action_leave(self) -> None:
        self.note = "" if self.browser.leave() else "the outermost level"
        self.show()

    def action_tensor(self) -> None:
        self.top = 0
        self._tried(self.browser.next_tensor)

    def action_longest(self) -> None:
        self._tried(self.browser.longest)

    def _tried(self, step: Callable[..., None], *args: str) -> None:
        """Run a step to another item, and show its error if there is no such item."""
        self.note = ""
        try:
            step(*args)
        except (LodError, OSError) as error:
            self.note = str(error)
        self.show()

    def action_ask(self, what: str) -> None:
        self._asking = what
        ask = self.query_one("#ask", Input)
        ask.placeholder = (
            "number, or branch such as 2,0" if what == "jump" else "value or text to search for"
        )
        ask.value = ""
        ask.disabled = False
        ask.display = True
        ask.focus()

    def action_cancel(self) -> None:
        self.workers.cancel_all()
        ask = self.query_one("#ask", Input)
        ask.display, ask.disabled = False, True
        self.set_focus(None)
        self.show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Jump to the item that was typed, or search for the text."""
        self.action_cancel()
        if self._asking == "jump":
            self._tried(self.browser.jump, event.value)
        else:
            self._sought = event.value
            self.action_again()

    def action_again(self) -> None:
        if self._sought:
            self.note = "searching; escape stops"
            self.show()
            self.run_worker(self._search, thread=True, exclusive=True)

    def _search(self) -> None:
        """Search in a thread, so that the app still responds to keys."""
        from textual.worker import get_current_worker

        worker, begun = get_current_worker(), self._where()
        try:
            found = self.browser.search(self._sought, lambda: worker.is_cancelled)
            note = f"{self._sought!r} is not found below" if found is None else ""
        except (LodError, OSError) as error:
            found, note = None, str(error)
        if not worker.is_cancelled:
            self.call_from_thread(self._found, begun, found, note)

    def _where(self) -> tuple[str, int]:
        return self.browser.spec.name, self.browser.level

    def _found(self, begun: tuple[str, int], item: int | None, note: str) -> None:
        """Go to the item that was found, unless another level is shown by now."""
        if self._where() != begun:
            return
        self.note = note
        if item is not None:
            self.browser.move(item)
        self.show()
