"""A long line is cut around the figures it is cited for."""

from __future__ import annotations

import pytest

from kvdiag.diagnosis.excerpt import excerpt

LINE = (
    "Mar 02 09:19:58 host-a sglang[1834]: [2026-03-02 09:19:58 TP0] max_total_num_tokens=159277,"
    " chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48, context_len=131072,"
    " available_gpu_mem=7.43 GB"
)


def test_a_line_that_fits_is_shown_whole() -> None:
    assert excerpt(LINE, len(LINE), 7.43) == LINE


def test_a_line_is_cut_around_all_its_figures_where_they_fit() -> None:
    shown = excerpt(LINE, 200, 159277, "kv_tokens", "159,277 KV tokens and 7.43 GiB free at the end")
    assert shown.startswith("… ") and len(shown) <= 200
    assert "max_total_num_tokens=159277," in shown and shown.endswith("available_gpu_mem=7.43 GB")


@pytest.mark.parametrize("width", range(60, len(LINE), 7))
@pytest.mark.parametrize("figure", [159277, 8192, 48, 7.43])
def test_a_cut_line_holds_its_figure_and_an_ellipsis_and_no_more_than_fits(width: int, figure: float) -> None:
    shown = excerpt(LINE, width, figure)
    assert str(figure) in shown and "…" in shown and len(shown) <= width
    assert all(part in LINE for part in shown.split(" … ")[0].strip("… ").split(" … "))


def test_a_figure_that_the_line_names_is_sought_by_its_name() -> None:
    line = f"server_args=ServerArgs(tp_size=8, {'x=0, ' * 60}dp_size=8, {'y=0, ' * 60}pp_size=1)"
    assert "dp_size=8" in excerpt(line, 120, 8, "dp_size")


def test_a_line_without_the_figure_is_cut_at_its_end() -> None:
    shown = excerpt(LINE, 120, 1.5)
    assert shown.startswith("Mar 02") and shown.endswith(" …")
