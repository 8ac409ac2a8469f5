"""What the page's script makes of packed charts, once more."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

Json = dict[str, Any]


def unpacked(chart: Json, shared: list[Any], width: int | None = None) -> Json:
    """The traces and the layout that plotly.js is given; of a narrower page at one width."""
    changes = [it["changes"] for it in chart["narrower"] if it["width"] == width]
    packed = chart["layout"] | (changes[0] if width else {})
    layout = {
        **packed,
        "template": shared[packed["template"]],
        "annotations": [shared[place] for place in packed["annotations"]],
        "shapes": [shared[place] for place in packed["shapes"]],
    }
    axes = layout.pop("axes")
    for place, (scale, domain) in enumerate(zip(axes[::2], axes[1::2], strict=True)):
        number = "" if place < 2 else f"{place // 2 + 1}"
        letter, other = "xy"[place % 2], "yx"[place % 2]
        layout[f"{letter}axis{number}"] = {
            **shared[scale],
            "domain": shared[domain],
            "anchor": f"{other}{number}",
        }
    data = []
    for look, panel, *places in chart["traces"]:
        trace = dict(shared[look])
        for letter, place in zip("xy", places, strict=True):
            trace[letter] = numbers(chart["arrays"][place])
            if panel:
                trace[f"{letter}axis"] = f"{letter}{panel if panel > 1 else ''}"
        data.append(trace)
    return {"data": data, "layout": layout}


def numbers(array: str | list[float | None]) -> list[float | None]:
    """A list as it is, or the numbers whose bytes these are."""
    if isinstance(array, list):
        return array
    found = np.frombuffer(base64.b64decode(array), dtype="<f4")
    return [None if np.isnan(value) else float(value) for value in found]
